//! The target of a request, and the host that it names.
//!
//! Implements RFC 9112 §3.2 (request target) as far as a gateway distinguishes hosts.

use anabranch_http::authority::{Authority, Origin, default_port};
use anabranch_http::head::Form;

/// The target of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Target {
    /// A path and query. The host is in the Host field.
    Origin(String),
    /// A URL `http://authority/path` or `https://authority/path`, which clients send to a proxy.
    Absolute(Origin, String),
    /// A tunnel to this authority (CONNECT).
    Tunnel(Authority),
    /// The target `*`, which means the server as a whole.
    Server,
}

impl Target {
    /// Converts the parsed form of a request target.
    ///
    /// # Errors
    /// The reason why the target is invalid.
    pub(super) fn of(form: Form<'_>, method: &str) -> Result<Self, &'static str> {
        let no_host = "the request target has no valid host";
        match form {
            Form::Origin(path) => Ok(Self::Origin(path.to_owned())),
            Form::Asterisk => Ok(Self::Server),
            Form::Authority(text) => Authority::parse(text, None).map(Self::Tunnel).ok_or(no_host),
            Form::Absolute { secure, authority, path } => {
                let authority = Authority::parse(authority, Some(default_port(secure))).ok_or(no_host)?;
                let path = match path {
                    "" if method == "OPTIONS" => "*".to_owned(),
                    path if path.starts_with('/') => path.to_owned(),
                    path => format!("/{path}"),
                };
                Ok(Self::Absolute(Origin::new(authority, secure), path))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_http::head::{Head, Room, Strictness};

    /// Parses the target of a request with this method and this target text.
    fn parse(method: &str, text: &str) -> Result<Target, ()> {
        let head = format!("{method} {text} HTTP/1.1\r\nHost: a\r\n\r\n");
        let mut room = Room::new();
        let head = Head::parse(head.as_bytes(), Strictness::Strictly, &mut room).map_err(|_| ())?;
        Target::of(head.form, method).map_err(|_| ())
    }

    fn authority(host: &str, port: u16) -> Authority {
        Authority { host: host.to_owned(), port }
    }

    fn origin(host: &str, port: u16, secure: bool) -> Origin {
        Origin::new(authority(host, port), secure)
    }

    #[test]
    fn the_four_forms_are_read() {
        let read = |method, text| parse(method, text).expect("a target");
        assert_eq!(read("GET", "/a?b"), Target::Origin("/a?b".to_owned()));
        assert_eq!(
            read("GET", "HTTP://Example.COM"),
            Target::Absolute(origin("example.com", 80, false), "/".to_owned())
        );
        assert_eq!(
            read("GET", "httpS://Example.COM?q"),
            Target::Absolute(origin("example.com", 443, true), "/?q".to_owned())
        );
        assert_eq!(
            read("GET", "http://[::1]:8080?q"),
            Target::Absolute(origin("::1", 8080, false), "/?q".to_owned())
        );
        assert_eq!(read("OPTIONS", "http://x:81"), Target::Absolute(origin("x", 81, false), "*".to_owned()));
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
            ("GET", "https:/x/"),
            ("GET", "httpss://x/"),
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
            assert!(parse(method, text).is_err(), "{method} {text}");
        }
    }
}
