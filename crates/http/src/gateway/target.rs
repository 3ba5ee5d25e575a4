//! What a request asks for, and of whom.
//!
//! Home of RFC 9112 §3.2 (request target) and RFC 9110 §4.2.1, §7.2 (authority, Host)
//! as far as a gateway reads them.

use super::allow::is_name_byte;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A host and its port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Authority {
    /// A name in lower case, or an address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Authority {
    /// Reads `HOST[:PORT]`; `port` is taken where none is written. `None`: that is no authority, or has a user in it.
    #[must_use]
    pub fn parse(text: &str, port: Option<u16>) -> Option<Self> {
        let (host, written) = match text.strip_prefix('[') {
            Some(rest) => {
                let (host, rest) = rest.split_once(']')?;
                host.parse::<Ipv6Addr>().ok()?;
                (host, if rest.is_empty() { None } else { Some(rest.strip_prefix(':')?) })
            }
            None => {
                let (host, written) = match text.split_once(':') {
                    None => (text, None),
                    Some((host, written)) => (host, Some(written)),
                };
                if host.is_empty() || host.len() > 253 || !host.bytes().all(is_name_byte) {
                    return None;
                }
                (host, written)
            }
        };
        let port = match written {
            // RFC 3986 §3.2.3: a colon without digits is the default.
            None | Some("") => port?,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
            Some(_) => return None,
        };
        (port > 0).then(|| Self { host: host.to_ascii_lowercase(), port })
    }

    /// As Host says it where `default` is the scheme's port.
    #[must_use]
    pub fn written(&self, default: u16) -> String {
        if self.port == default { self.host() } else { self.to_string() }
    }

    fn host(&self) -> String {
        if self.host.parse::<IpAddr>().is_ok_and(|ip| ip.is_ipv6()) {
            format!("[{}]", self.host)
        } else {
            self.host.clone()
        }
    }
}

impl fmt::Display for Authority {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host(), self.port)
    }
}

impl FromStr for Authority {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        Self::parse(text, None).ok_or_else(|| format!("'{text}' is not HOST:PORT"))
    }
}

/// The target of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// Path and query: of whom, says Host.
    Origin(String),
    /// `http://authority/path`: what a client asks a proxy for.
    Absolute(Authority, String),
    /// A tunnel to there.
    Tunnel(Authority),
    /// `*`: the server as a whole.
    Server,
}

impl Target {
    /// Reads the target of a request with `method`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn parse(method: &str, text: &str) -> Result<Self, &'static str> {
        if !text.bytes().all(|byte| byte.is_ascii_graphic()) || text.contains('#') {
            return Err("the request target has what no target has");
        }
        if method == "CONNECT" {
            // RFC 9110 §9.3.6: the port is always written.
            return Authority::parse(text, None).map(Self::Tunnel).ok_or("CONNECT wants HOST:PORT");
        }
        if text == "*" {
            return if method == "OPTIONS" { Ok(Self::Server) } else { Err("* is for OPTIONS") };
        }
        if text.starts_with('/') {
            return Ok(Self::Origin(text.to_owned()));
        }
        let (scheme, rest) =
            text.split_once("://").ok_or("the request target is neither a path nor a URL")?;
        if !scheme.eq_ignore_ascii_case("http") {
            return Err("only http:// is fetched here; what is encrypted goes by CONNECT");
        }
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        let authority = Authority::parse(authority, Some(80)).ok_or("the URL has no good host")?;
        let path = match path {
            "" if method == "OPTIONS" => "*".to_owned(),
            path if path.starts_with('/') => path.to_owned(),
            path => format!("/{path}"),
        };
        Ok(Self::Absolute(authority, path))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(host: &str, port: u16) -> Authority {
        Authority { host: host.to_owned(), port }
    }

    #[test]
    fn the_four_forms_are_read() {
        let read = |method, text| Target::parse(method, text).expect("a target");
        assert_eq!(read("GET", "/a?b"), Target::Origin("/a?b".to_owned()));
        assert_eq!(
            read("GET", "HTTP://Example.COM"),
            Target::Absolute(authority("example.com", 80), "/".to_owned())
        );
        assert_eq!(
            read("GET", "http://[::1]:8080?q"),
            Target::Absolute(authority("::1", 8080), "/?q".to_owned())
        );
        assert_eq!(read("OPTIONS", "http://x:81"), Target::Absolute(authority("x", 81), "*".to_owned()));
        assert_eq!(read("CONNECT", "x:443"), Target::Tunnel(authority("x", 443)));
        assert_eq!(read("CONNECT", "[2001:db8::1]:443"), Target::Tunnel(authority("2001:db8::1", 443)));
        assert_eq!(read("OPTIONS", "*"), Target::Server);
    }

    #[test]
    fn what_is_no_target_is_refused() {
        for (method, text) in [
            ("GET", "*"),
            ("GET", ""),
            ("GET", "a"),
            ("GET", "http:/x/"),
            ("GET", "https://x/"),
            ("GET", "ftp://x/"),
            ("GET", "http://u@x/"),
            ("GET", "http:///x"),
            ("GET", "http://x:0/"),
            ("GET", "http://x:99999/"),
            ("GET", "http://x:8 0/"),
            ("GET", "http://a,b/"),
            ("GET", "http://[::1/"),
            ("GET", "http://[::1]x/"),
            ("GET", "http://%6c/"),
            ("GET", "/a#b"),
            ("GET", "/\u{7f}"),
            ("CONNECT", "x"),
            ("CONNECT", "x:"),
            ("CONNECT", "/x"),
            ("CONNECT", "http://x:80/"),
            ("CONNECT", "x:80/"),
        ] {
            assert!(Target::parse(method, text).is_err(), "{method} {text}");
        }
    }

    #[test]
    fn authorities_are_written_as_they_are_read() {
        assert_eq!(authority("::1", 80).written(80), "[::1]");
        assert_eq!(authority("x", 81).written(80), "x:81");
        assert_eq!(authority("2001:db8::1", 443).to_string(), "[2001:db8::1]:443");
        assert_eq!("a:1".parse(), Ok(authority("a", 1)));
        assert!("a".parse::<Authority>().is_err());
    }
}
