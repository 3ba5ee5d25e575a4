//! TLS and DTLS for the verbs: who a server is, and whom a client believes.
//!
//! A server that is given no certificate makes one that nobody else has signed, and keeps it among the user's state
//! (`$XDG_STATE_HOME/anabranch`, else `~/.local/state/anabranch`), so that its fingerprint stays the same.

use crate::dial::SecureTarget;
use crate::key_log::key_log;
use crate::place::{Carrier, Listen, Url};
use crate::{Failure, complain, knobs};
use anabranch_dtls::{Ends, EndsError, Settings as DtlsSettings};
use anabranch_http::http2::ALPN;
use anabranch_http::http3;
use anabranch_tls::{
    Client, ClientSettings, Fingerprint, Identity, Server, ServerSettings, Surroundings, Trust, Versions,
};
use clap::ArgMatches;
use std::cell::OnceCell;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// A server's TLS and DTLS.
pub struct ServerTls {
    /// What takes sessions in over TLS; `None`: it listens nowhere so.
    pub server: Option<Server>,
    /// What takes sessions of HTTP/3 in; `None`: it listens nowhere so.
    pub http3: Option<Server>,
    /// Who it is over DTLS; `None`: it listens nowhere so.
    pub dtls: Option<DtlsServer>,
    /// A line about its certificate.
    pub shown: String,
    /// Its certificate and its key, where they are kept.
    files: Option<Files>,
}

/// A server over DTLS.
#[derive(Clone)]
pub struct DtlsServer {
    /// Who it is.
    pub identity: Identity,
    /// SCTP goes without its own checksum where the peer agrees.
    pub unsummed: bool,
}

/// RFC 9653 §3: DTLS finds what a checksum would find, so SCTP goes without beneath it, unless the user says otherwise.
pub fn is_unsummed(matches: &ArgMatches) -> Result<bool, Failure> {
    Ok(knobs::given(matches)?.iter().all(|(key, _)| key != "zero_checksum"))
}

/// A certificate and its key.
type Files = (PathBuf, PathBuf);

impl ServerTls {
    /// What is to be done when they have changed: sessions to come are shown what the files hold then. A line tells; what cannot
    /// be read changes nothing.
    pub fn reload(&self) -> Option<impl Fn() + Clone + Send + 'static> {
        let shown: Vec<_> = self.server.iter().chain(&self.http3).map(Server::shared).collect();
        let (certificate, key) = self.files.clone().filter(|_| !shown.is_empty())?;
        Some(move || {
            let read = Identity::from_files(&certificate, &key).map_err(|why| why.to_string());
            let read = read.and_then(|identity| {
                let fingerprint = Fingerprint(identity.fingerprint());
                shown.iter().try_for_each(|server| server.show(identity.clone())).map(|()| fingerprint)
            });
            complain(&match read {
                Ok(fingerprint) => {
                    format!("certificate: read again from {}, {fingerprint}", certificate.display())
                }
                Err(why) => format!("certificate: not changed: {why}"),
            });
        })
    }
}

/// What is spoken over TLS and QUIC (ALPN, RFC 7301).
#[derive(Clone, Copy, Debug)]
pub enum Spoken<'a> {
    /// HTTP: that version, or all.
    Http(Option<&'a str>),
    /// What `bulk` says, which is nobody else's to take for a request.
    Bulk,
}

impl Spoken<'_> {
    /// Over TLS on TCP, the best first (§6).
    fn over_tls(self) -> Vec<Vec<u8>> {
        match self {
            Self::Http(version) => {
                let all = [("2", ALPN), ("1.1", b"http/1.1")];
                let version = version.filter(|version| all.iter().any(|(name, _)| name == version));
                let wanted =
                    all.into_iter().filter(|(name, _)| version.is_none_or(|version| version == *name));
                wanted.map(|(_, alpn)| alpn.to_vec()).collect()
            }
            Self::Bulk => vec![BULK.to_vec()],
        }
    }

    fn over_quic(self) -> Vec<Vec<u8>> {
        match self {
            Self::Http(_) => vec![http3::ALPN.to_vec()],
            Self::Bulk => vec![BULK.to_vec()],
        }
    }
}

const BULK: &[u8] = b"anabranch-bulk";

/// What the server is over TLS; `None`: it listens nowhere over TLS.
pub fn server(
    matches: &ArgMatches,
    places: &[Listen],
    spoken: Spoken<'_>,
) -> Result<Option<ServerTls>, Failure> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let files = text("cert").zip(text("key"));
    if !places.iter().any(|place| place.carrier.is_secure()) {
        return match files {
            Some((file, _)) => Err(Failure::Usage(format!(
                "--cert {file}: nothing is listened on over TLS; add --listen https://ADDRESS[:PORT], h3:// or https+sctp://"
            ))),
            None => Ok(None),
        };
    }
    let (identity, shown, files) = match files {
        Some((certificate, key)) => {
            let read = Identity::from_files(Path::new(certificate), Path::new(key));
            let identity = read.map_err(|why| Failure::Usage(why.to_string()))?;
            let fingerprint = Fingerprint(identity.fingerprint());
            let shown = format!("certificate: {certificate}, {fingerprint}");
            (identity, shown, Some((PathBuf::from(certificate), PathBuf::from(key))))
        }
        None => self_signed(places)?,
    };
    let wrong =
        |why: String| Failure::Usage(format!("--cert {}: {why}", text("cert").unwrap_or("of our own")));
    let over = |is_so: fn(Carrier) -> bool| places.iter().any(|place| is_so(place.carrier));
    let dtls = match over(Carrier::is_over_dtls) {
        true => Some(DtlsServer { identity: identity.clone(), unsummed: is_unsummed(matches)? }),
        false => None,
    };
    if let Some(dtls) = &dtls {
        dtls_server(dtls.identity.clone()).map_err(|why| wrong(why.to_string()))?;
    }
    let settings = ServerSettings {
        protocols: spoken.over_tls(),
        key_log: Some(key_log()),
        ..ServerSettings::of(identity)
    };
    // Of what comes early the server takes GET and HEAD alone (RFC 8470), and each ticket once.
    let of_http3 = ServerSettings {
        versions: Versions::Only13,
        early_data: matches!(spoken, Spoken::Http(_)),
        protocols: spoken.over_quic(),
        ..settings.clone()
    };
    let server = |wanted: bool, settings| {
        wanted.then(|| Server::new(settings, Surroundings::Real)).transpose().map_err(wrong)
    };
    let http3 = server(over(Carrier::is_http3), of_http3)?;
    let server = server(over(|carrier| carrier.is_secure() && carrier.is_kernels()), settings)?;
    Ok(Some(ServerTls { server, http3, dtls, shown, files }))
}

/// DTLS of a server.
pub fn dtls_server(identity: Identity) -> Result<Ends, EndsError> {
    let settings =
        DtlsSettings { identity: Some(identity), key_log: Some(key_log()), ..DtlsSettings::default() };
    Ends::new(settings, Surroundings::Real)
}

/// DTLS of a client that believes these.
pub fn dtls_client(trust: Trust) -> Result<Ends, EndsError> {
    let settings = DtlsSettings { trust: Some(trust), key_log: Some(key_log()), ..DtlsSettings::default() };
    Ends::new(settings, Surroundings::Real)
}

/// What a client is over TLS, and whom it believes over DTLS.
#[derive(Clone)]
pub struct Believing {
    /// Over TLS.
    pub client: Client,
    /// Over DTLS and HTTP/3.
    pub trust: Trust,
    /// What it is over HTTP/3, once that was asked for: it remembers sessions.
    http3: Rc<OnceCell<Client>>,
    /// What is spoken over QUIC.
    quic: Vec<Vec<u8>>,
    /// Over HTTP/3 requests ride with the handshakes of sessions that are resumed.
    early: bool,
    /// SCTP goes without its own checksum over DTLS where the peer agrees.
    pub unsummed: bool,
}

impl Believing {
    /// One who believes the authorities of this system: of whom nothing was said.
    pub fn by_default(version: Option<&str>) -> Result<Self, String> {
        Self::new(Trust::System, Spoken::Http(version))
    }

    fn new(trust: Trust, spoken: Spoken<'_>) -> Result<Self, String> {
        let (client, quic) = (client_that(trust.clone(), spoken)?, spoken.over_quic());
        Ok(Self { client, trust, http3: Rc::default(), quic, early: false, unsummed: true })
    }

    /// What it is over HTTP/3.
    pub fn http3(&self) -> Result<Client, String> {
        if let Some(client) = self.http3.get() {
            return Ok(client.clone());
        }
        let settings = ClientSettings {
            trust: self.trust.clone(),
            versions: Versions::Only13,
            early_data: self.early,
            protocols: self.quic.clone(),
            key_log: Some(key_log()),
            ..ClientSettings::default()
        };
        let client = Client::new(settings, Surroundings::Real).map_err(|why| why.to_string())?;
        Ok(self.http3.get_or_init(|| client).clone())
    }

    /// What SCTP over DTLS to a server of this name begins with.
    pub fn target(&self, name: &str) -> SecureTarget {
        SecureTarget { trust: self.trust.clone(), name: name.to_owned(), unsummed: self.unsummed }
    }
}

/// What the client is over TLS; `None`: it goes nowhere over TLS.
pub fn client(
    matches: &ArgMatches,
    carriers: impl IntoIterator<Item = Carrier>,
) -> Result<Option<Believing>, Failure> {
    // A verb without the flag speaks HTTP/1.1.
    let version = matches.try_get_one::<String>("http").map_or(Some("1.1"), |text| text.map(String::as_str));
    client_of(matches, carriers, Spoken::Http(version))
}

/// The same of one who speaks so.
pub fn client_of(
    matches: &ArgMatches,
    carriers: impl IntoIterator<Item = Carrier>,
    spoken: Spoken<'_>,
) -> Result<Option<Believing>, Failure> {
    let file = matches.get_one::<String>("trust").map(String::as_str);
    let insecure = matches.get_flag("insecure");
    if !carriers.into_iter().any(Carrier::is_secure) {
        let flag =
            if insecure { Some("--insecure".to_owned()) } else { file.map(|file| format!("--trust {file}")) };
        return match flag {
            Some(flag) => Err(Failure::Usage(format!(
                "{flag}: nothing is got over TLS; write https://, h3:// or https+sctp://"
            ))),
            None => Ok(None),
        };
    }
    let trust = trust(matches)?;
    let believing = Believing::new(trust, spoken).map_err(Failure::Host)?;
    let early = matches.try_get_one::<bool>("early-data").is_ok_and(|early| early == Some(&true));
    Ok(Some(Believing { early, unsummed: is_unsummed(matches)?, ..believing }))
}

/// Whom a client believes, by its flags.
pub fn trust(matches: &ArgMatches) -> Result<Trust, Failure> {
    let file = matches.get_one::<String>("trust").map(String::as_str);
    Ok(match file {
        None if matches.get_flag("insecure") => {
            complain("--insecure: the server may be anybody, and traffic can be read and changed on the way");
            Trust::Anybody
        }
        None => Trust::System,
        Some(text) if text.starts_with("sha256:") => {
            Trust::Certificate(text.parse().map_err(|why| Failure::Usage(format!("--trust: {why}")))?)
        }
        Some(file) => {
            Trust::from_file(Path::new(file)).map_err(|why| Failure::Usage(format!("--trust {why}")))?
        }
    })
}

/// A client that believes these, and speaks so.
pub fn client_that(trust: Trust, spoken: Spoken<'_>) -> Result<Client, String> {
    let settings = ClientSettings {
        trust,
        protocols: spoken.over_tls(),
        key_log: Some(key_log()),
        ..ClientSettings::default()
    };
    Client::new(settings, Surroundings::Real).map_err(|why| why.to_string())
}

/// The URL as `--http` wants it, if that was said: HTTP/3 has a carrier of its own.
pub fn with_http_version(version: Option<&str>, url: Url) -> Result<Url, Failure> {
    let Some(version) = version else { return Ok(url) };
    let wrong = |why: &str| Err(Failure::Usage(format!("--http {version}: {}: {why}", url.text)));
    match (version, url.over_http3()) {
        ("3", Some(url)) => Ok(url),
        ("3", None) => wrong("HTTP/3 is for https:// and h3://; write https://"),
        (_, _) if url.carrier.is_http3() => wrong("h3:// is HTTP/3; leave --http out, or write https://"),
        (_, _) if !url.carrier.is_kernels() => {
            wrong("SCTP carries HTTP/1.1 on its streams; leave --http out")
        }
        _ => Ok(url),
    }
}

/// The certificate of our own, from the user's state if it is there, a line about it, and where it is kept.
fn self_signed(places: &[Listen]) -> Result<(Identity, String, Option<Files>), Failure> {
    let Some(directory) = state_directory() else {
        let identity = made(places)?;
        let fingerprint = Fingerprint(identity.fingerprint());
        let why = "kept nowhere, as neither XDG_STATE_HOME nor HOME is set";
        let shown = format!("certificate: of our own, {why}; clients: --trust {fingerprint}");
        return Ok((identity, shown, None));
    };
    let path = directory.join("self-signed.pem");
    let failed = |why: io::Error| Failure::Host(format!("{}: {why}; give --cert and --key", path.display()));
    let identity = match Identity::from_files(&path, &path) {
        Ok(identity) => identity,
        Err(_) if !path.try_exists().map_err(failed)? => {
            let identity = made(places)?;
            keep(&directory, &path, &identity).map_err(failed)?;
            // Another server may have been quicker: what is kept counts.
            Identity::from_files(&path, &path).map_err(|why| Failure::Host(why.to_string()))?
        }
        Err(why) => {
            return Err(Failure::Host(format!("{why}; if you remove it, the server makes another")));
        }
    };
    let fingerprint = Fingerprint(identity.fingerprint());
    let shown = format!("certificate: of our own, {}; clients: --trust {fingerprint}", path.display());
    Ok((identity, shown, Some((path.clone(), path))))
}

/// A certificate for this host by the names that are sure.
fn made(places: &[Listen]) -> Result<Identity, Failure> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    for address in places.iter().flat_map(|place| &place.addresses) {
        let address = address.to_string();
        if !names.contains(&address) {
            names.push(address);
        }
    }
    Identity::self_signed(&names).map_err(|why| Failure::Internal(why.to_string()))
}

/// Writes it under a name of its own, whole or not at all, for nobody but the user.
fn keep(directory: &Path, path: &Path, identity: &Identity) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let (certificate, key) = identity.to_pem();
    let draft = directory.join(format!("self-signed.{}.tmp", std::process::id()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(format!("{certificate}{key}").as_bytes())?;
        file.sync_all()?;
        // A link, not a name moved: what is there already stays.
        match fs::hard_link(&draft, path) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    })();
    let removed = fs::remove_file(&draft);
    written.and(removed)
}

/// Where programs keep what should outlive them (XDG Base Directory Specification).
fn state_directory() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(base.join("anabranch"))
}
