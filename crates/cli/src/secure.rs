//! TLS and DTLS settings of the commands: a server's certificate, and the certificates that a client trusts.
//!
//! A server without a certificate creates a self-signed one. It is stored in the user's state directory
//! (`$XDG_STATE_HOME/anabranch`, otherwise `~/.local/state/anabranch`), so that its fingerprint stays the same.

use crate::key_log::key_log;
use crate::url::{Listen, Url};
use crate::{Failure, complain, knobs};
use anabranch_http::http2::ALPN;
use anabranch_http::http3;
use anabranch_transport::Http;
use anabranch_transports::security::{
    ClientSecurity, Fingerprint, Identity, Protocols, ServerSecurity, Trust,
};
use anabranch_transports::{Transports, UrlScheme};
use clap::ArgMatches;
use std::fs::{self, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// The TLS settings of a server, and a line for the user that describes its certificate.
pub struct ServerTls {
    /// The TLS, DTLS and QUIC settings of the listeners.
    pub security: ServerSecurity,
    /// A line for the user that describes the certificate.
    pub description: String,
    /// The paths of the certificate and its key; `None` if the certificate is not in a file.
    files: Option<Files>,
}

/// Returns whether SCTP over DTLS uses the default, which is to omit the SCTP checksum. Returns false if the user has
/// set `zero_checksum`; that setting then decides. The checksum is superfluous, because DTLS detects every error that
/// the checksum would detect (RFC 9653 §3).
pub fn is_unsummed(matches: &ArgMatches) -> Result<bool, Failure> {
    Ok(knobs::from_flags(matches)?.iter().all(|(key, _)| key != "zero_checksum"))
}

/// The paths of a certificate and its key.
type Files = (PathBuf, PathBuf);

impl ServerTls {
    /// Returns a function that reads the certificate files again, for sessions that begin afterwards. Returns `None` if
    /// no server uses TLS, or if the certificate is not in files. The function prints one line with the result. If it
    /// cannot read the files, the old certificate stays in use.
    pub fn reload(&self) -> Option<impl Fn() + Clone + Send + 'static> {
        let tls_servers: Vec<_> = self.security.shared().cloned().collect();
        let (certificate, key) = self.files.clone().filter(|_| !tls_servers.is_empty())?;
        Some(move || {
            let read = Identity::from_files(&certificate, &key).map_err(|error| error.to_string());
            let read = read.and_then(|identity| {
                let fingerprint = Fingerprint(identity.fingerprint());
                tls_servers
                    .iter()
                    .try_for_each(|server| server.set_identity(identity.clone()))
                    .map(|()| fingerprint)
            });
            complain(&match read {
                Ok(fingerprint) => {
                    format!("certificate: read again from {}, {fingerprint}", certificate.display())
                }
                Err(error) => format!("certificate: not changed: {error}"),
            });
        })
    }
}

/// The application protocol that is negotiated over TLS and QUIC (ALPN, RFC 7301).
#[derive(Clone, Copy, Debug)]
pub enum NegotiatedProtocol<'a> {
    /// HTTP, of the given version or of any version.
    Http(Option<&'a str>),
    /// The protocol of `bulk`. It has its own ALPN name, so that an HTTP server does not mistake a test for a request.
    Bulk,
}

impl NegotiatedProtocol<'_> {
    /// Returns the ALPN names, the preferred one first (RFC 7301 §6).
    fn protocols(self, early_data: bool) -> Protocols {
        let (above, within) = match self {
            Self::Http(version) => {
                let all = [("2", ALPN), ("1.1", b"http/1.1")];
                let version = version.filter(|version| all.iter().any(|(name, _)| name == version));
                let offered =
                    all.into_iter().filter(|(name, _)| version.is_none_or(|version| version == *name));
                (offered.map(|(_, alpn)| alpn.to_vec()).collect(), vec![http3::ALPN.to_vec()])
            }
            Self::Bulk => (vec![BULK.to_vec()], vec![BULK.to_vec()]),
        };
        Protocols { above, within, early_data }
    }
}

const BULK: &[u8] = b"anabranch-bulk";

/// Returns the TLS and DTLS settings of a server; `None` if no listener is encrypted.
pub fn server(
    matches: &ArgMatches,
    listens: &[Listen],
    protocol: NegotiatedProtocol<'_>,
) -> Result<Option<ServerTls>, Failure> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let files = text("cert").zip(text("key"));
    if !listens.iter().any(|listen| listen.scheme.is_secure()) {
        return match files {
            Some((file, _)) => Err(Failure::Usage(format!(
                "--cert {file}: no listener uses TLS; add --listen https://ADDRESS[:PORT], h3:// or https+sctp://"
            ))),
            None => Ok(None),
        };
    }
    let (identity, description, files) = match files {
        Some((certificate, key)) => {
            let read = Identity::from_files(Path::new(certificate), Path::new(key));
            let identity = read.map_err(|error| Failure::Usage(error.to_string()))?;
            let fingerprint = Fingerprint(identity.fingerprint());
            let description = format!("certificate: {certificate}, {fingerprint}");
            (identity, description, Some((PathBuf::from(certificate), PathBuf::from(key))))
        }
        None => self_signed(listens)?,
    };
    let wrong =
        |reason: String| Failure::Usage(format!("--cert {}: {reason}", text("cert").unwrap_or("of our own")));
    let schemes = listens.iter().map(|listen| &listen.scheme);
    let protocols = protocol.protocols(matches!(protocol, NegotiatedProtocol::Http(_)));
    let security = ServerSecurity::new(identity, schemes, protocols, key_log()).map_err(wrong)?;
    Ok(Some(ServerTls { security: security.with_zero_checksum(is_unsummed(matches)?), description, files }))
}

/// Returns the TLS settings of a client for a command without TLS flags. The client trusts the certificate authorities
/// of the operating system.
pub fn client_by_default(version: Option<&str>) -> Result<ClientSecurity, String> {
    client_for(Trust::System, NegotiatedProtocol::Http(version))
}

/// Returns the TLS settings of an HTTP client; `None` if no URL is encrypted.
pub fn client<'a>(
    matches: &ArgMatches,
    schemes: impl IntoIterator<Item = &'a UrlScheme>,
) -> Result<Option<ClientSecurity>, Failure> {
    // A command that has no `--http` flag uses HTTP/1.1.
    let version = matches.try_get_one::<String>("http").map_or(Some("1.1"), |text| text.map(String::as_str));
    client_of(matches, schemes, NegotiatedProtocol::Http(version))
}

/// Like [`client`], but for a client that speaks the protocol `protocol`.
pub fn client_of<'a>(
    matches: &ArgMatches,
    schemes: impl IntoIterator<Item = &'a UrlScheme>,
    protocol: NegotiatedProtocol<'_>,
) -> Result<Option<ClientSecurity>, Failure> {
    let file = matches.get_one::<String>("trust").map(String::as_str);
    let insecure = matches.get_flag("insecure");
    if !schemes.into_iter().any(UrlScheme::is_secure) {
        let flag =
            if insecure { Some("--insecure".to_owned()) } else { file.map(|file| format!("--trust {file}")) };
        return match flag {
            Some(flag) => Err(Failure::Usage(format!(
                "{flag}: no URL uses TLS; write https://, h3:// or https+sctp://"
            ))),
            None => Ok(None),
        };
    }
    let trust = trust(matches)?;
    let early = matches.try_get_one::<bool>("early-data").is_ok_and(|early| early == Some(&true));
    let security = ClientSecurity::new(trust, protocol.protocols(early), key_log()).map_err(Failure::Host)?;
    Ok(Some(security.with_zero_checksum(is_unsummed(matches)?)))
}

/// Returns the certificates that a client trusts according to its flags.
pub fn trust(matches: &ArgMatches) -> Result<Trust, Failure> {
    let file = matches.get_one::<String>("trust").map(String::as_str);
    Ok(match file {
        None if matches.get_flag("insecure") => {
            complain(
                "--insecure: the server is not authenticated: anyone on the path can read and change traffic",
            );
            Trust::Anybody
        }
        None => Trust::System,
        Some(text) if text.starts_with("sha256:") => {
            Trust::Certificate(text.parse().map_err(|error| Failure::Usage(format!("--trust: {error}")))?)
        }
        Some(file) => {
            Trust::from_file(Path::new(file)).map_err(|error| Failure::Usage(format!("--trust {error}")))?
        }
    })
}

/// Returns the TLS settings of a client that trusts the certificates `trust` and offers the protocol `protocol`.
pub fn client_for(trust: Trust, protocol: NegotiatedProtocol<'_>) -> Result<ClientSecurity, String> {
    ClientSecurity::new(trust, protocol.protocols(false), key_log())
}

/// Applies the value of `--http` to the URL, if the flag was given. HTTP/3 has its own scheme, so the value 3 changes
/// the URL's scheme.
pub fn with_http_version(version: Option<&str>, url: Url, transports: &Transports) -> Result<Url, Failure> {
    let Some(version) = version else { return Ok(url) };
    let wrong = |reason: &str| Err(Failure::Usage(format!("--http {version}: {}: {reason}", url.text)));
    match (version, url.over_http3(transports)) {
        ("3", Some(url)) => Ok(url),
        ("3", None) => wrong("HTTP/3 is for https:// and h3://; write https://"),
        (_, _) if url.scheme.http() == Some(Http::Http3) => {
            wrong("h3:// is HTTP/3; leave --http out, or write https://")
        }
        (_, _) if url.scheme.http() == Some(Http::StreamPairs) => {
            wrong("SCTP carries HTTP/1.1 on its streams; leave --http out")
        }
        _ => Ok(url),
    }
}

/// Returns the self-signed certificate, a line that describes it, and its files. Reads the certificate from the user's
/// state directory, or creates it there if it does not exist. If the user has no state directory, the certificate is
/// new on each start and has no files (`None`).
fn self_signed(listens: &[Listen]) -> Result<(Identity, String, Option<Files>), Failure> {
    let Some(directory) = state_directory() else {
        let identity = create_identity(listens)?;
        let fingerprint = Fingerprint(identity.fingerprint());
        let note = "not saved, because neither XDG_STATE_HOME nor HOME is set";
        let shown = format!("certificate: self-signed, {note}; clients: --trust {fingerprint}");
        return Ok((identity, shown, None));
    };
    let path = directory.join("self-signed.pem");
    let failed =
        |error: io::Error| Failure::Host(format!("{}: {error}; give --cert and --key", path.display()));
    let identity = match Identity::from_files(&path, &path) {
        Ok(identity) => identity,
        Err(_) if !path.try_exists().map_err(failed)? => {
            let identity = create_identity(listens)?;
            keep(&directory, &path, &identity).map_err(failed)?;
            // Reads the certificate from the file again, because another server may have written one in the meantime.
            Identity::from_files(&path, &path).map_err(|error| Failure::Host(error.to_string()))?
        }
        Err(note) => {
            return Err(Failure::Host(format!("{note}; if you remove it, the server makes another")));
        }
    };
    let fingerprint = Fingerprint(identity.fingerprint());
    let shown = format!("certificate: self-signed, {}; clients: --trust {fingerprint}", path.display());
    Ok((identity, shown, Some((path.clone(), path))))
}

/// Creates a self-signed certificate for `localhost`, the loopback addresses and the addresses in `listens`. Other
/// names and addresses might not belong to this host.
fn create_identity(listens: &[Listen]) -> Result<Identity, Failure> {
    let mut names: Vec<String> = ["localhost", "127.0.0.1", "::1"].map(str::to_owned).into();
    for address in listens.iter().flat_map(|listen| &listen.addresses) {
        let address = address.to_string();
        if !names.contains(&address) {
            names.push(address);
        }
    }
    Identity::self_signed(&names).map_err(|error| Failure::Internal(error.to_string()))
}

/// Writes the certificate to a temporary file first, so that it appears complete or not at all. Only the user can read
/// the file.
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
