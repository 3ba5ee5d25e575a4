//! Parses the addresses on which a server listens and the URLs that a client requests.
//!
//! - A server listens at `tcp://`, `https://`, `sctp://`, `sctp-ip://`, `https+sctp://` and `h3://` with addresses.
//! - A client requests `http://`, `https://`, `http+sctp://`, `http+sctp-ip://`, `https+sctp://` and `h3://` with a host.

use anabranch_transport::{Scheme, Streams};
use anabranch_transports::Transports;
use anabranch_world::kernel::KernelProtocol;
use std::cmp::Ordering;
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// A transport on a real network that is selected by a URL scheme. Most carriers can carry HTTP.
#[derive(Clone, Copy, Debug)]
pub struct Carrier {
    /// The index in the list of schemes. Carriers are compared and ordered by this index.
    order: usize,
    scheme: Scheme,
    /// Whether a URL may list several addresses of one host.
    several: bool,
    kernel: Option<KernelProtocol>,
    secure: bool,
    /// Whether each exchange uses a new stream, as in HTTP/3.
    fresh: bool,
}

impl PartialEq for Carrier {
    fn eq(&self, other: &Self) -> bool {
        self.order == other.order
    }
}

impl Eq for Carrier {}

impl PartialOrd for Carrier {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Carrier {
    fn cmp(&self, other: &Self) -> Ordering {
        self.order.cmp(&other.order)
    }
}

impl Carrier {
    /// Returns all carriers that can carry HTTP.
    fn all() -> impl Iterator<Item = Self> {
        schemes().into_iter().filter(|carrier| carrier.scheme.url.is_some())
    }

    /// Returns the carrier called `name`, whether or not it carries HTTP.
    #[cfg(target_os = "linux")]
    pub fn named(name: &str) -> Option<Self> {
        schemes().into_iter().find(|carrier| carrier.scheme.name == name)
    }

    fn port(self) -> u16 {
        self.scheme.port
    }

    /// The name of the carrier in results and in the addresses on which a server listens.
    pub fn name(self) -> &'static str {
        self.scheme.name
    }

    /// The scheme of the carrier's URLs.
    pub fn scheme(self) -> &'static str {
        self.scheme.url.unwrap_or(self.scheme.name)
    }

    /// Whether the kernel implements the transport. Such a carrier has one address, one stream and none of our knobs.
    pub fn is_kernels(self) -> bool {
        self.kernel.is_some()
    }

    /// Whether the carrier's traffic is encrypted, by TLS, DTLS or QUIC.
    pub fn is_secure(self) -> bool {
        self.secure
    }

    /// Whether the carrier is HTTP/3, where each exchange has a new stream.
    pub fn is_http3(self) -> bool {
        self.fresh
    }

    /// Whether the carrier is SCTP over DTLS.
    pub fn is_over_dtls(self) -> bool {
        self.secure && !self.fresh && !self.is_kernels()
    }

    /// Returns the carrier of HTTP/3, if this build has one.
    pub fn http3() -> Option<Self> {
        Self::all().find(|carrier| carrier.fresh)
    }

    /// The kernel protocol that implements the carrier, if any.
    #[cfg(target_os = "linux")]
    pub fn kernel(self) -> Option<KernelProtocol> {
        self.kernel
    }

    /// Whether the transport is our own implementation and runs directly on IP rather than in UDP.
    #[cfg(target_os = "linux")]
    pub fn is_on_ip(self) -> bool {
        !self.is_kernels() && !self.scheme.in_udp
    }
}

/// Returns the name of the listening scheme for HTTP over the kernel's TCP, with TLS if `secure`.
pub fn kernels_scheme(secure: bool) -> &'static str {
    let is_meant = |carrier: &Carrier| {
        carrier.is_kernels()
            && carrier.secure == secure
            && matches!(carrier.scheme.url, Some("http" | "https"))
    };
    schemes().iter().find(|carrier| is_meant(carrier)).map_or("", |carrier| carrier.scheme.name)
}

/// Returns the carriers of all transports, in the order of the list of transports, followed by those over TLS and DTLS.
fn schemes() -> Vec<Carrier> {
    let mut all = Vec::new();
    for transport in Transports::standard().iter() {
        let Some(protocol) = transport.in_emulation() else { continue };
        let can = protocol.capabilities();
        let options = || protocol.kernel(&*protocol.profile(protocol.default_profile())?, None);
        let kernel = if can.kernel { options().map(|options| options.protocol) } else { None };
        let schemes = protocol.schemes().iter().zip(all.len()..);
        let (several, secure, fresh) = (can.paths, can.secure, can.streams == Streams::Fresh);
        let carrier = |(&scheme, order)| Carrier { order, scheme, several, kernel, secure, fresh };
        all.extend(schemes.map(carrier));
    }
    // TLS runs on a byte stream. So a byte stream of the kernel that carries unencrypted HTTP also yields a scheme over
    // TLS.
    let plain = all.iter().position(|carrier| carrier.kernel.is_some() && carrier.scheme.url == Some("http"));
    if let Some(plain) = plain.and_then(|at| all.get(at).copied()) {
        let scheme = Scheme { name: "https", url: Some("https"), port: 443, in_udp: false };
        all.push(Carrier { order: all.len(), scheme, secure: true, ..plain });
    }
    // SCTP over DTLS runs in UDP and has a single path (RFC 8261), so a URL lists only one address.
    let ours = |carrier: &&Carrier| carrier.kernel.is_none() && carrier.scheme.in_udp && !carrier.secure;
    let ours = all.iter().find(ours).copied();
    if let Some(ours) = ours {
        const NAME: &str = "https+sctp";
        let scheme = Scheme { name: NAME, url: Some(NAME), port: anabranch_dtls::PORT, in_udp: true };
        all.push(Carrier { order: all.len(), scheme, secure: true, several: false, ..ours });
    }
    all
}

/// The address on which a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listen {
    /// The transport that carries the requests.
    pub carrier: Carrier,
    /// The local addresses to listen on; if empty, all addresses of the host.
    pub addresses: Vec<IpAddr>,
    /// The TCP port, the UDP port, or (on IP) the SCTP port.
    pub port: u16,
}

impl fmt::Display for Listen {
    /// Formats the address in the form that [`Listen::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.carrier.name();
        let host = |ip: &IpAddr| if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() };
        let hosts: Vec<String> = self.addresses.iter().map(host).collect();
        let hosts = if hosts.is_empty() { "*".to_owned() } else { hosts.join(",") };
        write!(f, "{scheme}://{hosts}:{}", self.port)
    }
}

impl Listen {
    /// The accepted forms of an address, for error messages.
    pub const FORMS: &str = "tcp://ADDRESS[:PORT], https://ADDRESS[:PORT], sctp://ADDRESS[,ADDRESS..][:PORT], \
                             sctp-ip://ADDRESS[,ADDRESS..][:PORT], https+sctp://ADDRESS[:PORT] or h3://ADDRESS[:PORT]; * is every \
                             address";

    /// Parses a listening address, for example `sctp://127.0.0.1,[::1]:9899`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| format!("--listen {text}: {why}; write {}", Self::FORMS);
        let (scheme, place) = text.split_once("://").ok_or_else(|| wrong("no scheme"))?;
        let found = Carrier::all().find(|carrier| carrier.name() == scheme);
        Self::over(found.ok_or_else(|| wrong("unknown scheme"))?, place, wrong)
    }

    /// Parses the text after the scheme of a listening address.
    pub fn over(carrier: Carrier, place: &str, wrong: impl Fn(&str) -> String) -> Result<Self, String> {
        let place = place.strip_suffix('/').unwrap_or(place);
        let (hosts, port) = split_port(place).ok_or_else(|| wrong("the port is no number up to 65535"))?;
        let mut addresses = Vec::new();
        for host in hosts.split(',') {
            let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
            if matches!(host, "*" | "0.0.0.0" | "::") {
                addresses.clear();
                break;
            }
            match host.parse() {
                Ok(address) => addresses.push(address),
                Err(_) if host == "localhost" => addresses.push(IpAddr::from([127, 0, 0, 1])),
                Err(_) => return Err(wrong(&format!("'{host}' is no IP address"))),
            }
        }
        Ok(Self { carrier, addresses, port: port.unwrap_or(carrier.port()) })
    }
}

/// The URL that a client requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    /// The URL as the user wrote it.
    pub text: String,
    /// The transport that carries the request.
    pub carrier: Carrier,
    /// Names or addresses of the server, without brackets. Only SCTP accepts several entries, which are addresses of one
    /// host.
    pub hosts: Vec<String>,
    /// The TCP port, the UDP port, or (on IP) the SCTP port.
    pub port: u16,
    /// The path and the query.
    pub target: String,
}

impl Url {
    /// Parses a URL, for example `http+sctp://127.0.0.1:9899/index.html`.
    pub fn parse(text: &str) -> Result<Self, String> {
        let forms = "http://HOST[:PORT]/PATH, https://HOST[:PORT]/PATH, http+sctp://HOST[:PORT]/PATH (SCTP in UDP), \
                     http+sctp-ip://HOST[:PORT]/PATH (IP protocol 132), https+sctp://HOST[:PORT]/PATH (SCTP over DTLS) or \
                     h3://HOST[:PORT]/PATH (HTTP/3)";
        let wrong = |why: &str| format!("{text}: {why}; write {forms}");
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("no URL"))?;
        let scheme = scheme.to_ascii_lowercase();
        let carrier = Carrier::all().find(|carrier| carrier.scheme() == scheme);
        let carrier = carrier.ok_or_else(|| wrong("unknown scheme"))?;
        Self::over(carrier, text, rest, wrong)
    }

    /// Parses the text after the scheme of a URL.
    pub fn over(
        carrier: Carrier,
        text: &str,
        rest: &str,
        wrong: impl Fn(&str) -> String,
    ) -> Result<Self, String> {
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let (all, port) = split_port(authority).ok_or_else(|| wrong("the port is no number up to 65535"))?;
        if !carrier.several && all.contains(',') {
            return Err(wrong(
                "several addresses of one host are for SCTP in the clear; TCP, DTLS and HTTP/3 go to one",
            ));
        }
        let mut hosts = Vec::new();
        for host in all.split(',') {
            let bracketed = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
            let host = bracketed.unwrap_or(host);
            if host.is_empty() || host.contains('@') {
                return Err(wrong("there is no host, or more than a host"));
            }
            // RFC 3986 §3.2.2: a colon may occur only in an address in brackets.
            if host.contains(['[', ']']) || bracketed.is_none() && host.contains(':') {
                return Err(wrong("an IPv6 address is written in brackets, as [::1]"));
            }
            if bracketed.is_some_and(|host| !host.contains(':')) {
                return Err(wrong("in brackets is no IPv6 address"));
            }
            hosts.push(host.to_owned());
        }
        if port == Some(0) {
            return Err(wrong("port 0 is nobody's"));
        }
        // Characters that HTTP does not allow in a request target are percent-encoded (RFC 3986 §2.1).
        let mut written = String::from(if target.starts_with('/') { "" } else { "/" });
        for byte in target.bytes() {
            match byte {
                b'!'..=b'~' if !matches!(byte, b'"' | b'<' | b'>') => written.push(char::from(byte)),
                _ => written += &format!("%{byte:02X}"),
            }
        }
        let port = port.unwrap_or(carrier.port());
        Ok(Self { text: text.to_owned(), carrier, hosts, port, target: written })
    }

    /// The first entry of `hosts`: the server's name or its first address.
    pub fn host(&self) -> &str {
        self.hosts.first().map_or("", String::as_str)
    }

    /// The value of the Host header field.
    pub fn authority(&self) -> String {
        let host = self.host();
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        if self.port == self.carrier.port() { host } else { format!("{host}:{}", self.port) }
    }

    /// Returns the URL of the same server and port over HTTP/3. Returns `None` unless this is an https:// or h3:// URL.
    #[cfg(target_os = "linux")]
    pub fn over_http3(&self) -> Option<Self> {
        let is_https = self.carrier.is_kernels() && self.carrier.is_secure();
        match Carrier::http3().filter(|_| is_https) {
            Some(carrier) => Some(Self { carrier, ..self.clone() }),
            None => self.carrier.is_http3().then(|| self.clone()),
        }
    }

    /// Formats the scheme and the authority, without the path.
    #[cfg(target_os = "linux")]
    pub fn origin(&self) -> String {
        format!("{}://{}", self.carrier.scheme(), self.authority())
    }

    /// Resolves `hosts` to all their addresses, each with the port.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        let mut addresses = Vec::new();
        for host in &self.hosts {
            let found = (host.as_str(), self.port).to_socket_addrs();
            for address in found.map_err(|why| format!("{host}: the name is not resolved: {why}"))? {
                if !addresses.contains(&address) {
                    addresses.push(address);
                }
            }
        }
        if addresses.is_empty() {
            Err(format!("{}: the name has no address", self.host()))
        } else {
            Ok(addresses)
        }
    }
}

/// Splits `HOST[:PORT]`. A host in brackets may contain colons.
fn split_port(text: &str) -> Option<(&str, Option<u16>)> {
    let end = text.rfind(']').map_or(0, |at| at + 1);
    match text[end..].rfind(':') {
        None => Some((text, None)),
        Some(at) => {
            let (host, port) = (&text[..end + at], &text[end + at + 1..]);
            let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
            Some((host, Some(port.parse().ok().filter(|_| digits)?)))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_to_listen_are_read() {
        let one = Listen::parse("sctp://127.0.0.1,[::1]:7000").expect("a place");
        assert_eq!((one.carrier.name(), one.port, one.addresses.len()), ("sctp", 7000, 2));
        assert_eq!(one.to_string(), "sctp://127.0.0.1,[::1]:7000");
        let two = Listen::parse("sctp-ip://*/").expect("a place");
        assert_eq!(two.to_string(), "sctp-ip://*:80");
        assert_eq!((two.carrier.name(), two.port, two.addresses), ("sctp-ip", 80, vec![]));
        assert_eq!(Listen::parse("tcp://[::1]").expect("a place").port, 80);
        for wrong in [
            "tcp:/x",
            "udp://1.2.3.4",
            "tcp://name",
            "tcp://1.2.3.4:",
            "tcp://1.2.3.4:70000",
            "tcp://1.2.3.4:+1",
        ] {
            assert!(Listen::parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn urls_are_read_and_written_as_http_wants_them() {
        let url = Url::parse("http+sctp://[::1]:7000/a b?c#d").expect("a URL");
        assert_eq!((url.carrier.name(), url.host(), url.port), ("sctp", "::1", 7000));
        assert_eq!((url.target.as_str(), url.authority().as_str()), ("/a%20b?c", "[::1]:7000"));
        let url = Url::parse("HTTP+sctp-ip://host?q").expect("a URL");
        assert_eq!((url.target.as_str(), url.port, url.authority().as_str()), ("/?q", 80, "host"));
        assert_eq!(Url::parse("http+sctp://host").expect("a URL").port, 9899);
        let url = Url::parse("https://host/x").expect("a URL");
        assert_eq!((url.carrier.name(), url.carrier.is_secure(), url.port), ("https", true, 443));
        assert_eq!((url.authority().as_str(), url.origin().as_str()), ("host", "https://host"));
        assert!(!Url::parse("http://host").expect("a URL").carrier.is_secure());
        let url = Url::parse("http+sctp://10.0.0.1,[fd00::1],10.0.1.1:7000/").expect("a URL");
        let all = ["10.0.0.1:7000", "[fd00::1]:7000", "10.0.1.1:7000"];
        let all = all.map(|address| address.parse::<SocketAddr>().expect("an address"));
        assert_eq!((url.resolve(), url.authority()), (Ok(all.to_vec()), "10.0.0.1:7000".to_owned()));
        for wrong in ["http://10.0.0.1,10.0.1.1/", "http+sctp://10.0.0.1,/", "http+sctp://fd00::1,[fd00::2]/"]
        {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in [
            "host/x",
            "ftp://x/",
            "https+tcp://x/",
            "http:///x",
            "http://u@x/",
            "http://x:y/",
            "http://x:99999/",
        ] {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in
            ["http://[::1", "http://::1]/", "http://[[::1]]/", "http://fe80::1/", "http://[x]/", "http://[]/"]
        {
            assert!(Url::parse(wrong).is_err(), "{wrong}");
        }
        for wrong in ["http://x:0/", "http+sctp://127.0.0.1:0/", "http+sctp-ip://[::1]:0/"] {
            assert!(Url::parse(wrong).expect_err("no port").contains("port 0"), "{wrong}");
        }
    }
}
