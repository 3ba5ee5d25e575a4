//! Parses the addresses on which a server listens and the URLs that a client requests.
//!
//! - A server listens at `tcp://`, `https://`, `sctp://`, `sctp-ip://`, `https+sctp://` and `h3://` with addresses.
//! - A client requests `http://`, `https://`, `http+sctp://`, `http+sctp-ip://`, `https+sctp://` and `h3://` with a
//!   host.

#[cfg(target_os = "linux")]
use anabranch_http::serve::Versions;
#[cfg(target_os = "linux")]
use anabranch_transport::Http;
use anabranch_transports::{Transports, UrlScheme};
use std::fmt;
use std::net::{IpAddr, SocketAddr, ToSocketAddrs};

/// The address on which a server listens.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Listen {
    /// The scheme, which determines the transport.
    pub scheme: UrlScheme,
    /// The local addresses to listen on; if empty, all addresses of the host.
    pub addresses: Vec<IpAddr>,
    /// The TCP port, the UDP port, or (on IP) the SCTP port.
    pub port: u16,
}

impl fmt::Display for Listen {
    /// Formats the address in the form that [`Listen::parse`] reads.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = self.scheme.name();
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
    pub fn parse(text: &str, transports: &Transports) -> Result<Self, String> {
        let wrong = |reason: &str| format!("--listen {text}: {reason}; write {}", Self::FORMS);
        let (scheme, address) = text.split_once("://").ok_or_else(|| wrong("no scheme"))?;
        let found = transports.scheme(scheme).filter(|scheme| scheme.http().is_some());
        Self::over(found.ok_or_else(|| wrong("unknown scheme"))?, address, wrong)
    }

    /// Parses the text after the scheme of a listening address.
    pub fn over(scheme: UrlScheme, target: &str, wrong: impl Fn(&str) -> String) -> Result<Self, String> {
        let target = target.strip_suffix('/').unwrap_or(target);
        let (hosts, port) =
            split_port(target).ok_or_else(|| wrong("the port is not a number up to 65535"))?;
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
                Err(_) => return Err(wrong(&format!("'{host}' is not an IP address"))),
            }
        }
        let port = port.unwrap_or(scheme.port());
        Ok(Self { scheme, addresses, port })
    }
}

/// The URL that a client requests.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Url {
    /// The URL as the user wrote it.
    pub text: String,
    /// The scheme, which determines the transport.
    pub scheme: UrlScheme,
    /// Names or addresses of the server, without brackets. Only SCTP accepts several entries, which are addresses of
    /// one host.
    pub hosts: Vec<String>,
    /// The TCP port, the UDP port, or (on IP) the SCTP port.
    pub port: u16,
    /// The path and the query.
    pub target: String,
}

impl Url {
    /// Parses a URL, for example `http+sctp://127.0.0.1:9899/index.html`.
    pub fn parse(text: &str, transports: &Transports) -> Result<Self, String> {
        let forms = "http://HOST[:PORT]/PATH, https://HOST[:PORT]/PATH, http+sctp://HOST[:PORT]/PATH (SCTP in UDP), \
                     http+sctp-ip://HOST[:PORT]/PATH (IP protocol 132), https+sctp://HOST[:PORT]/PATH (SCTP over DTLS) or \
                     h3://HOST[:PORT]/PATH (HTTP/3)";
        let wrong = |reason: &str| format!("{text}: {reason}; write {forms}");
        let (scheme, rest) = text.split_once("://").ok_or_else(|| wrong("no URL"))?;
        let scheme = scheme.to_ascii_lowercase();
        let scheme = transports.url_scheme(&scheme).ok_or_else(|| wrong("unknown scheme"))?;
        Self::over(scheme, text, rest, wrong)
    }

    /// Parses the text after the scheme of a URL.
    pub fn over(
        scheme: UrlScheme,
        text: &str,
        rest: &str,
        wrong: impl Fn(&str) -> String,
    ) -> Result<Self, String> {
        let rest = rest.split('#').next().unwrap_or_default();
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(end);
        let (all, port) =
            split_port(authority).ok_or_else(|| wrong("the port is not a number up to 65535"))?;
        if !scheme.has_paths() && all.contains(',') {
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
                return Err(wrong("the brackets do not hold an IPv6 address"));
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
        let port = port.unwrap_or(scheme.port());
        Ok(Self { text: text.to_owned(), scheme, hosts, port, target: written })
    }

    /// The first entry of `hosts`: the server's name or its first address.
    pub fn host(&self) -> &str {
        self.hosts.first().map_or("", String::as_str)
    }

    /// The value of the Host header field.
    pub fn authority(&self) -> String {
        let host = self.host();
        let host = if host.contains(':') { format!("[{host}]") } else { host.to_owned() };
        if self.port == self.scheme.port() { host } else { format!("{host}:{}", self.port) }
    }

    /// Returns the URL of the same server and port over HTTP/3. Returns `None` unless this is an https:// or h3:// URL.
    #[cfg(target_os = "linux")]
    pub fn over_http3(&self, transports: &Transports) -> Option<Self> {
        if self.scheme.http() == Some(Http::Http3) {
            return Some(self.clone());
        }
        let is_https = self.scheme.is_registered() && self.scheme.is_secure();
        let found = transports.schemes().into_iter().find(|scheme| scheme.http() == Some(Http::Http3));
        found.filter(|_| is_https).map(|scheme| Self { scheme, ..self.clone() })
    }

    /// Returns the versions of HTTP that a client offers. `http` is the value of `--http`. If it is `None` and the
    /// session uses TLS, the server chooses the version.
    #[cfg(target_os = "linux")]
    pub fn versions(&self, http: Option<&str>) -> Versions {
        match (self.scheme.http(), http) {
            (Some(Http::Http3), _) => Versions::Http3,
            (Some(Http::OneStream), Some("2")) => Versions::Http2,
            (Some(Http::OneStream), None) if self.scheme.is_secure() => Versions::Both,
            _ => Versions::Http1,
        }
    }

    /// Formats the scheme and the authority, without the path.
    #[cfg(target_os = "linux")]
    pub fn origin(&self) -> String {
        format!("{}://{}", self.scheme.url(), self.authority())
    }

    /// Resolves `hosts` to all their addresses, each with the port.
    pub fn resolve(&self) -> Result<Vec<SocketAddr>, String> {
        let mut addresses = Vec::new();
        for host in &self.hosts {
            let found = (host.as_str(), self.port).to_socket_addrs();
            for address in found.map_err(|error| format!("{host}: the name is not resolved: {error}"))? {
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
        let one = Listen::parse("sctp://127.0.0.1,[::1]:7000", &Transports::standard()).expect("a place");
        assert_eq!((one.scheme.name(), one.port, one.addresses.len()), ("sctp", 7000, 2));
        assert_eq!(one.to_string(), "sctp://127.0.0.1,[::1]:7000");
        let two = Listen::parse("sctp-ip://*/", &Transports::standard()).expect("a place");
        assert_eq!(two.to_string(), "sctp-ip://*:80");
        assert_eq!((two.scheme.name(), two.port, two.addresses), ("sctp-ip", 80, vec![]));
        assert_eq!(Listen::parse("tcp://[::1]", &Transports::standard()).expect("a place").port, 80);
        for wrong in [
            "tcp:/x",
            "udp://1.2.3.4",
            "tcp://name",
            "tcp://1.2.3.4:",
            "tcp://1.2.3.4:70000",
            "tcp://1.2.3.4:+1",
        ] {
            assert!(Listen::parse(wrong, &Transports::standard()).is_err(), "{wrong}");
        }
    }

    #[test]
    fn urls_are_read_and_written_as_http_wants_them() {
        let url = Url::parse("http+sctp://[::1]:7000/a b?c#d", &Transports::standard()).expect("a URL");
        assert_eq!((url.scheme.name(), url.host(), url.port), ("sctp", "::1", 7000));
        assert_eq!((url.target.as_str(), url.authority().as_str()), ("/a%20b?c", "[::1]:7000"));
        let url = Url::parse("HTTP+sctp-ip://host?q", &Transports::standard()).expect("a URL");
        assert_eq!((url.target.as_str(), url.port, url.authority().as_str()), ("/?q", 80, "host"));
        assert_eq!(Url::parse("http+sctp://host", &Transports::standard()).expect("a URL").port, 9899);
        let url = Url::parse("https://host/x", &Transports::standard()).expect("a URL");
        assert_eq!((url.scheme.name(), url.scheme.is_secure(), url.port), ("https", true, 443));
        assert_eq!((url.authority().as_str(), url.origin().as_str()), ("host", "https://host"));
        assert!(!Url::parse("http://host", &Transports::standard()).expect("a URL").scheme.is_secure());
        let url = Url::parse("http+sctp://10.0.0.1,[fd00::1],10.0.1.1:7000/", &Transports::standard())
            .expect("a URL");
        let all = ["10.0.0.1:7000", "[fd00::1]:7000", "10.0.1.1:7000"];
        let all = all.map(|address| address.parse::<SocketAddr>().expect("an address"));
        assert_eq!((url.resolve(), url.authority()), (Ok(all.to_vec()), "10.0.0.1:7000".to_owned()));
        for wrong in ["http://10.0.0.1,10.0.1.1/", "http+sctp://10.0.0.1,/", "http+sctp://fd00::1,[fd00::2]/"]
        {
            assert!(Url::parse(wrong, &Transports::standard()).is_err(), "{wrong}");
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
            assert!(Url::parse(wrong, &Transports::standard()).is_err(), "{wrong}");
        }
        for wrong in
            ["http://[::1", "http://::1]/", "http://[[::1]]/", "http://fe80::1/", "http://[x]/", "http://[]/"]
        {
            assert!(Url::parse(wrong, &Transports::standard()).is_err(), "{wrong}");
        }
        for wrong in ["http://x:0/", "http+sctp://127.0.0.1:0/", "http+sctp-ip://[::1]:0/"] {
            assert!(
                Url::parse(wrong, &Transports::standard()).expect_err("no port").contains("port 0"),
                "{wrong}"
            );
        }
    }
}
