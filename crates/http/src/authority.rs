//! Defines [`Authority`], a host with its port as in URLs and in the Host field. Defines [`Origin`], which is an
//! authority with a scheme.
//!
//! Implements RFC 3986 §3.2 as far as HTTP needs it (no userinfo, no percent-encoding), and RFC 9110 §4.3.1.

use std::fmt;
use std::net::{IpAddr, Ipv6Addr};
use std::str::FromStr;

/// A host and its port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Authority {
    /// The host: a lower-case name, or an IP address without brackets.
    pub host: String,
    /// The port.
    pub port: u16,
}

impl Authority {
    /// Parses `HOST[:PORT]`; `port` is the default port. Returns `None` if `text` is not an authority or contains
    /// userinfo.
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
                if host.is_empty() || host.len() > MAX_NAME || !host.bytes().all(is_name_byte) {
                    return None;
                }
                (host, written)
            }
        };
        let port = match written {
            // RFC 3986 §3.2.3: a colon without digits means the default port.
            None | Some("") => port?,
            Some(digits) if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
            Some(_) => return None,
        };
        (port > 0).then(|| Self { host: host.to_ascii_lowercase(), port })
    }

    /// Formats the authority as in the Host field. The port is left out if it equals `default`, the default port of the
    /// scheme.
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

/// Returns the default port of `https` if `secure` is set, otherwise of `http` (RFC 9110 §4.2).
#[must_use]
pub const fn default_port(secure: bool) -> u16 {
    if secure { 443 } else { 80 }
}

/// An origin: scheme `http` or `https`, host and port.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Origin {
    /// The host and the port.
    pub authority: Authority,
    /// Whether the scheme is `https`: the server is reached over TLS and must present a valid certificate.
    pub secure: bool,
}

impl Origin {
    /// Returns the `https` origin of `authority` if `secure` is set, otherwise its `http` origin.
    #[must_use]
    pub fn new(authority: Authority, secure: bool) -> Self {
        Self { authority, secure }
    }

    /// Returns the scheme of the origin, `http` or `https`.
    #[must_use]
    pub const fn scheme(&self) -> &'static str {
        if self.secure { "https" } else { "http" }
    }

    /// Formats the host and the port of the origin as in the Host field.
    #[must_use]
    pub fn host(&self) -> String {
        self.authority.written(default_port(self.secure))
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://{}", self.scheme(), self.host())
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

/// Returns whether `text` is a host with an optional port and no userinfo (RFC 3986 §3.2, RFC 9110 §7.2). The RFC
/// allows a comma in a host name. Here a comma is refused, because it may separate two field values that an
/// intermediary has joined.
#[must_use]
pub fn is_authority(text: &str) -> bool {
    let (host, port) = if let Some(literal) = text.strip_prefix('[') {
        let Some((address, rest)) = literal.split_once(']') else { return false };
        let future = |address: &str| {
            let (version, rest) = address.strip_prefix(['v', 'V'])?.split_once('.')?;
            let hex = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_hexdigit());
            let marks = |byte: u8| is_name_byte(byte) || b"~!$&'()*+;=:".contains(&byte);
            (hex && !rest.is_empty() && rest.bytes().all(marks)).then_some(())
        };
        if address.parse::<Ipv6Addr>().is_err() && future(address).is_none() {
            return false;
        }
        ("", rest)
    } else {
        text.split_at(memchr::memchr(b':', text.as_bytes()).unwrap_or(text.len()))
    };
    let mut bytes = host.bytes();
    let is_hex = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_hexdigit());
    while let Some(byte) = bytes.next() {
        let good = match byte {
            b'%' => is_hex(bytes.next()) && is_hex(bytes.next()),
            b'~' | b'!' | b'$' | b'&' | b'\'' | b'(' | b')' | b'*' | b'+' | b';' | b'=' => true,
            _ => is_name_byte(byte),
        };
        if !good {
            return false;
        }
    }
    // A port without a host is not an authority (RFC 9110 §4.2.1).
    let named = text.starts_with('[') || (!host.is_empty() && host.len() <= MAX_NAME);
    let port = match port.strip_prefix(':') {
        None => port.is_empty(),
        // RFC 3986 §3.2.3: a colon without digits means the default port.
        Some("") => true,
        Some(digits) => {
            digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.parse().is_ok_and(|port: u16| port > 0)
        }
    };
    named && port
}

/// Returns the host of `authority`, without brackets and port.
#[must_use]
pub fn host_of(authority: &str) -> &str {
    match authority.strip_prefix('[') {
        Some(literal) => literal.split(']').next().unwrap_or_default(),
        None => authority.split(':').next().unwrap_or_default(),
    }
}

/// The maximum length of a host name in bytes (RFC 1035 §2.3.4, without the root label).
const MAX_NAME: usize = 253;

/// Whether `byte` may occur in a host name.
#[must_use]
pub fn is_name_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn authority(host: &str, port: u16) -> Authority {
        Authority { host: host.to_owned(), port }
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
