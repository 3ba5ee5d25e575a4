//! TLS and DTLS settings of the commands: a server's certificate, and the certificates that a client trusts.
//!
//! A server without a certificate creates a self-signed one. It is stored in the user's state directory
//! (`$XDG_STATE_HOME/anabranch`, otherwise `~/.local/state/anabranch`), so that its fingerprint stays the same.

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

/// The TLS and DTLS settings of a server.
pub struct ServerTls {
    /// The TLS server for listeners over TCP; `None` if there are none.
    pub server: Option<Server>,
    /// The TLS server for HTTP/3 listeners; `None` if there are none.
    pub http3: Option<Server>,
    /// The DTLS settings for listeners over DTLS; `None` if there are none.
    pub dtls: Option<DtlsServer>,
    /// A line for the user that describes the certificate.
    pub shown: String,
    /// The paths of the certificate and its key; `None` if the certificate is not in a file.
    files: Option<Files>,
}

/// The DTLS settings of a server.
#[derive(Clone)]
pub struct DtlsServer {
    /// The certificate and its key.
    pub identity: Identity,
    /// Whether SCTP omits its own checksum if the peer agrees (RFC 9653).
    pub unsummed: bool,
}

/// RFC 9653 §3: DTLS detects every error that the checksum would detect. So SCTP over DTLS omits the checksum, unless the
/// user set `zero_checksum`.
pub fn is_unsummed(matches: &ArgMatches) -> Result<bool, Failure> {
    Ok(knobs::given(matches)?.iter().all(|(key, _)| key != "zero_checksum"))
}

/// The paths of a certificate and its key.
type Files = (PathBuf, PathBuf);

impl ServerTls {
    /// Returns a function that reads the certificate files again, for sessions that begin afterwards. The function prints
    /// a line. If it cannot read the files, the old certificate stays in use.
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

/// The application protocol that is negotiated over TLS and QUIC (ALPN, RFC 7301).
#[derive(Clone, Copy, Debug)]
pub enum Spoken<'a> {
    /// HTTP, of the given version or of any version.
    Http(Option<&'a str>),
    /// The protocol of `bulk`. It has its own ALPN name, so that an HTTP server does not mistake a test for a request.
    Bulk,
}

impl Spoken<'_> {
    /// Returns the ALPN names over TLS on TCP, the preferred one first (RFC 7301 §6).
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

/// Returns the TLS and DTLS settings of a server; `None` if no listener is encrypted.
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
    // The server accepts only GET and HEAD as early data (RFC 8470), and each ticket only once.
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

/// Returns the DTLS settings of a server that presents `identity`.
pub fn dtls_server(identity: Identity) -> Result<Ends, EndsError> {
    let settings =
        DtlsSettings { identity: Some(identity), key_log: Some(key_log()), ..DtlsSettings::default() };
    Ends::new(settings, Surroundings::Real)
}

/// Returns the DTLS settings of a client that trusts `trust`.
pub fn dtls_client(trust: Trust) -> Result<Ends, EndsError> {
    let settings = DtlsSettings { trust: Some(trust), key_log: Some(key_log()), ..DtlsSettings::default() };
    Ends::new(settings, Surroundings::Real)
}

/// The TLS settings of a client, and the certificates it trusts.
#[derive(Clone)]
pub struct Believing {
    /// The TLS client for connections over TCP.
    pub client: Client,
    /// The certificates that the client trusts over DTLS and HTTP/3.
    pub trust: Trust,
    /// The TLS client for HTTP/3. It is created on first use and then kept, because it remembers sessions for resumption.
    http3: Rc<OnceCell<Client>>,
    /// The ALPN names that the client offers over QUIC.
    quic: Vec<Vec<u8>>,
    /// Whether a resumed HTTP/3 session sends requests as early data, together with the handshake.
    early: bool,
    /// Whether SCTP over DTLS omits its own checksum if the peer agrees (RFC 9653).
    pub unsummed: bool,
}

impl Believing {
    /// Returns the settings that apply without flags. The client trusts the certificate authorities of this system.
    pub fn by_default(version: Option<&str>) -> Result<Self, String> {
        Self::new(Trust::System, Spoken::Http(version))
    }

    fn new(trust: Trust, spoken: Spoken<'_>) -> Result<Self, String> {
        let (client, quic) = (client_that(trust.clone(), spoken)?, spoken.over_quic());
        Ok(Self { client, trust, http3: Rc::default(), quic, early: false, unsummed: true })
    }

    /// Returns the TLS client for HTTP/3.
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

    /// Returns the DTLS settings for SCTP to a server called `name`.
    pub fn target(&self, name: &str) -> SecureTarget {
        SecureTarget { trust: self.trust.clone(), name: name.to_owned(), unsummed: self.unsummed }
    }
}

/// Returns the TLS settings of an HTTP client; `None` if no URL uses TLS, DTLS or QUIC.
pub fn client(
    matches: &ArgMatches,
    carriers: impl IntoIterator<Item = Carrier>,
) -> Result<Option<Believing>, Failure> {
    // A command that has no `--http` flag uses HTTP/1.1.
    let version = matches.try_get_one::<String>("http").map_or(Some("1.1"), |text| text.map(String::as_str));
    client_of(matches, carriers, Spoken::Http(version))
}

/// Does the same as [`client`], for a client that speaks the protocol `spoken`.
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

/// Returns the certificates that a client trusts, as its flags select them.
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

/// Returns a TLS client that trusts `trust` and offers the protocol `spoken`.
pub fn client_that(trust: Trust, spoken: Spoken<'_>) -> Result<Client, String> {
    let settings = ClientSettings {
        trust,
        protocols: spoken.over_tls(),
        key_log: Some(key_log()),
        ..ClientSettings::default()
    };
    Client::new(settings, Surroundings::Real).map_err(|why| why.to_string())
}

/// Applies the value of `--http` to the URL, if the flag was given. HTTP/3 has its own carrier, so the value 3 changes the
/// URL's carrier.
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

/// Returns the self-signed certificate, a line that describes it, and its files. Reads the certificate from the user's
/// state directory or, if there is none, creates it.
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
            // Another server may have written a certificate in the meantime, so the one on disk is used.
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

/// Creates a certificate for the loopback names and the addresses in `places`, which are certain to belong to this host.
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

/// Writes the certificate to a temporary file first, so that it appears complete or not at all. Only the user can read the
/// file.
fn keep(directory: &Path, path: &Path, identity: &Identity) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let (certificate, key) = identity.to_pem();
    let draft = directory.join(format!("self-signed.{}.tmp", std::process::id()));
    let written = (|| {
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&draft)?;
        file.write_all(format!("{certificate}{key}").as_bytes())?;
        file.sync_all()?;
        // A hard link, unlike a rename, does not replace an existing file.
        match fs::hard_link(&draft, path) {
            Err(why) if why.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            other => other,
        }
    })();
    let removed = fs::remove_file(&draft);
    written.and(removed)
}

/// The directory for state that persists between runs (XDG Base Directory Specification).
fn state_directory() -> Option<PathBuf> {
    let absolute = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let base = absolute("XDG_STATE_HOME").or_else(|| Some(absolute("HOME")?.join(".local/state")))?;
    Some(base.join("anabranch"))
}
