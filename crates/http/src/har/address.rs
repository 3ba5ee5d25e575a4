//! Extracts the parts of a URL that a request contains, and rejects URLs that no request can contain.
//!
//! A URL that is not requested over a network by HTTP, for example a `data:` URL, is left out. A URL that is not valid
//! in an HTTP request is an error.

use super::excerpt;
use crate::authority::is_authority;
use http::uri::Authority;

/// The parts of a URL that a request contains.
pub(super) struct Address {
    /// The host, and the port if the URL has one, in lower case.
    pub host: String,
    /// The path and query. It consists of visible ASCII characters and is not longer than [`MAX_TARGET`].
    pub target: String,
    /// The length in bytes of the path and query before it was cut to [`MAX_TARGET`].
    pub full_target_len: usize,
    /// Whether the URL was requested over TLS.
    pub tls: bool,
}

impl Address {
    /// Parses `url`.
    ///
    /// # Errors
    /// The reason why this URL is not requested.
    pub(super) fn of(url: &str) -> Result<Self, Unusable> {
        let (scheme, rest) = url.split_once(':').unwrap_or_default();
        let scheme = scheme.trim_start().to_ascii_lowercase();
        // RFC 3986 §3.1: a scheme begins with a letter, and contains letters, digits and these three characters.
        let is_scheme = scheme.starts_with(|first: char| first.is_ascii_alphabetic())
            && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"+-.".contains(&byte));
        if !is_scheme {
            return Err(Unusable::Unsendable(NO_SCHEME.to_owned()));
        }
        match scheme.as_str() {
            "ws" | "wss" => return Err(Unusable::LeftOut(WEBSOCKET)),
            known if SCHEMES.contains(&known) => {}
            _ if is_local(&scheme) => return Err(Unusable::LeftOut(NO_NETWORK)),
            _ => return Err(Unusable::LeftOut(NO_HTTP)),
        }
        let rest = rest.strip_prefix("//").unwrap_or_default();
        let rest = rest.split('#').next().unwrap_or_default().trim_end();
        let split = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(split);
        let host = authority.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
        if host.is_empty() {
            return Err(Unusable::Unsendable(EMPTY_HOST.to_owned()));
        }
        // RFC 3986 §3.2.2, RFC 9110 §7.2: a host that is not a valid authority is refused, even if a recording contains
        // it. HTTP/2 and HTTP/3 cannot send such a host.
        if !is_authority(&host) || host.len() > MAX_HOST || host.parse::<Authority>().is_err() {
            return Err(Unusable::Unsendable(format!(
                "no request can name the host '{}'; {NO_HOST}",
                excerpt(&host)
            )));
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
        let whole = path.len();
        path.truncate(MAX_TARGET);
        Ok(Self {
            host,
            target: path,
            full_target_len: whole,
            tls: scheme.starts_with("https") || scheme == "h3",
        })
    }
}

/// The reason why the URL of an entry is not requested.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Unusable {
    /// No HTTP request is sent for the URL. The text says why.
    LeftOut(&'static str),
    /// The URL is not valid in an HTTP request. The text says why, and what to write instead.
    Unsendable(String),
}

/// Returns whether URLs of this scheme never cross a network.
fn is_local(scheme: &str) -> bool {
    LOCAL.contains(&scheme) || scheme.ends_with("-extension")
}

/// The schemes of URLs that are requested. Browsers do not use all of them, but the HARs that `get --page --har` writes
/// contain them.
const SCHEMES: [&str; 7] =
    ["http", "https", "http+sctp", "http+sctp-ip", "https+sctp", "https+sctp-ip", "h3"];

/// The schemes of URLs that a browser resolves without a network. The schemes of browser extensions are not listed.
const LOCAL: [&str; 11] = [
    "data",
    "blob",
    "file",
    "filesystem",
    "about",
    "javascript",
    "chrome",
    "edge",
    "devtools",
    "resource",
    "view-source",
];

const NO_NETWORK: &str = "never crossed a network (data:, blob:, file:, about: or an extension)";
const NO_HTTP: &str = "the scheme of the URL is not one of HTTP";
pub(super) const WEBSOCKET: &str = "left HTTP (WebSocket)";
const NO_SCHEME: &str = "a URL without a scheme; write http://HOST/PATH, or remove the entry";
const EMPTY_HOST: &str = "a URL without a host; write http://HOST/PATH, or remove the entry";
const NO_HOST: &str = "write a name in ASCII (xn--... for others) or an IP address, or remove the entry";

/// The maximum length in bytes of a host with its port. A name has at most 253 bytes.
const MAX_HOST: usize = 300;
/// The maximum length in bytes of a request target. A longer target is cut, and a warning says so. A head of
/// [`MAX_HEAD`](crate::page::MAX_HEAD) bytes has room for this target, the longest host, and the other fields that a
/// client writes.
pub(super) const MAX_TARGET: usize = 31 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn local_and_unsendable_urls_are_distinguished() {
        for url in [
            "data:,x",
            "blob:https://h/0-0",
            "about:blank",
            "file:///etc/passwd",
            "chrome-extension://abc/x.js",
            "moz-extension://abc/x.js",
        ] {
            assert_eq!(Address::of(url).err(), Some(Unusable::LeftOut(NO_NETWORK)), "{url}");
        }
        for (url, why) in [("ftp://h/x", NO_HTTP), ("mailto:a@h", NO_HTTP), ("WSS://no host/", WEBSOCKET)] {
            assert_eq!(Address::of(url).err(), Some(Unusable::LeftOut(why)), "{url}");
        }
        let unsendable = |url: &str| match Address::of(url).err() {
            Some(Unusable::Unsendable(why)) => why,
            other => panic!("{url}: {other:?}"),
        };
        for url in ["/relative", "", "//h/x", "h", "://@:", "1://h/"] {
            assert_eq!(unsendable(url), NO_SCHEME, "{url}");
        }
        for url in ["http:///x", "http:", "https:/x", "http://#h", "http://user@/x"] {
            assert_eq!(unsendable(url), EMPTY_HOST, "{url}");
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
            &format!("h:{:0400}", 80),
            "a<b",
            ":80",
        ] {
            assert!(unsendable(&format!("http://{host}/x")).ends_with(NO_HOST), "{host}");
        }
        let long = unsendable(&format!("http://{}/", "h".repeat(70_000)));
        assert!(long.contains("hhh…'; write") && long.len() < 300, "{long}");
        for host in ["h", "[::1]:80", "user@h", "a_b.c", "127.0.0.1:8080", "xn--mnchen-3ya.de"] {
            assert!(Address::of(&format!("http://{host}/x")).is_ok(), "{host}");
        }
        let target = Address::of(" https://h/a\"b<c>`d^{e}|f\\ ").map(|address| address.target);
        assert_eq!(target.as_deref(), Ok("/a%22b%3Cc%3E%60d^{e}|f\\"));
    }
}
