//! Extracts the parts of a URL that a request contains, and rejects URLs that no request can contain.

use super::MAX_NAME;
use crate::authority::is_authority;
use http::uri::Authority;

/// The parts of a URL that a request contains.
pub(super) struct Address {
    /// The host, and the port if the URL has one, in lower case.
    pub host: String,
    /// The path and query. It consists of visible ASCII characters and is not longer than [`MAX_NAME`].
    pub target: String,
    pub websocket: bool,
    /// Whether the URL was requested over TLS.
    pub tls: bool,
}

impl Address {
    /// Parses `url`.
    ///
    /// # Errors
    /// The reason why no request can contain this URL.
    pub(super) fn of(url: &str) -> Result<Self, &'static str> {
        let (scheme, rest) = url.split_once("://").ok_or(NO_NETWORK)?;
        let scheme = scheme.trim_start().to_ascii_lowercase();
        let websocket = matches!(scheme.as_str(), "ws" | "wss");
        if !websocket && !matches!(scheme.as_str(), "http" | "https" | "http+sctp" | "http+sctp-ip") {
            return Err(NO_NETWORK);
        }
        let rest = rest.split('#').next().unwrap_or_default().trim_end();
        let split = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(split);
        let host = authority.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
        if host.is_empty() {
            return Err(NO_NETWORK);
        }
        // RFC 3986 §3.2.2, RFC 9110 §7.2: HTTP/2 and HTTP/3 refuse to send any other host, even if a recording contains
        // such a host.
        if !is_authority(&host) || host.parse::<Authority>().is_err() {
            return Err(NO_HOST);
        }
        let mut path = String::with_capacity(target.len() + 1);
        if !target.starts_with('/') {
            path.push('/');
        }
        for byte in target.bytes() {
            // Browsers percent-encode these four characters in paths, and a request line cannot contain them
            // (RFC 3986 §2).
            if byte.is_ascii_graphic() && !matches!(byte, b'"' | b'<' | b'>' | b'`') {
                path.push(char::from(byte));
            } else {
                path.push_str(&format!("%{byte:02X}"));
            }
        }
        path.truncate(MAX_NAME);
        Ok(Self { host, target: path, websocket, tls: scheme == "https" })
    }
}

const NO_NETWORK: &str = "never crossed a network (data:, blob:, file:, about: or an extension)";
const NO_HOST: &str = "its host is none that a request can name";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_no_request_can_name_is_told_apart() {
        for url in [
            "data:,x",
            "blob:https://h/0-0",
            "about:blank",
            "file:///etc/passwd",
            "chrome-extension://abc/x.js",
            "moz-extension://abc/x.js",
            "ftp://h/x",
            "/relative",
            "http:///x",
            "",
        ] {
            assert_eq!(Address::of(url).err(), Some(NO_NETWORK), "{url}");
        }
        for host in [
            "exa mple",
            "[::1",
            "[]",
            "h:port",
            "h:99999",
            "h:0",
            "h\t",
            "m\u{fc}nchen.de",
            "a\"b",
            "a%20b",
            "a<b",
            ":80",
        ] {
            assert_eq!(Address::of(&format!("http://{host}/x")).err(), Some(NO_HOST), "{host}");
        }
        for host in ["h", "[::1]:80", "user@h", "a_b.c", "127.0.0.1:8080", "xn--mnchen-3ya.de"] {
            assert!(Address::of(&format!("http://{host}/x")).is_ok(), "{host}");
        }
        let target = Address::of(" https://h/a\"b<c>`d^{e}|f\\ ").map(|address| address.target);
        assert_eq!(target.as_deref(), Ok("/a%22b%3Cc%3E%60d^{e}|f\\"));
    }
}
