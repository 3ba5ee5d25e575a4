//! Alternative services (RFC 7838), limited to the parts that HTTP/3 needs (RFC 9114 §3.1.1). An alternative service is
//! another address and protocol of the same server.

use std::time::Duration;

/// An alternative service: an address where the same server speaks HTTP/3.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Alternative {
    /// The host name; `None` means the host of the response.
    pub host: Option<String>,
    /// The UDP port.
    pub port: u16,
    /// How long the alternative is valid (RFC 7838 §3.1).
    pub max_age: Duration,
}

impl Alternative {
    /// Returns the Alt-Svc field value that announces HTTP/3 on `port` of the same host.
    #[must_use]
    pub fn written(port: u16) -> String {
        format!("h3=\":{port}\"; ma={}", DAY.as_secs())
    }

    /// Returns the first alternative service with HTTP/3 in the value of an Alt-Svc field. Returns `None` if the value
    /// contains no such alternative, is `clear`, or is malformed.
    #[must_use]
    pub fn read(field: &str) -> Option<Self> {
        let mut rest = field;
        loop {
            let (found, after) = one(rest)?;
            if found.is_some() {
                return found;
            }
            rest = after?;
        }
    }
}

/// Parses the first entry of an Alt-Svc field value. Returns `None` if the entry has a syntax error. Otherwise returns
/// the entry's alternative, and the text after the comma that ends the entry. The alternative is `None` unless the
/// entry names a valid one for HTTP/3. The text is `None` if there is no comma.
fn one(text: &str) -> Option<(Option<Alternative>, Option<&str>)> {
    let (name, rest) = text.split_once('=')?;
    let (authority, mut rest) = quoted(rest)?;
    let mut max_age = DAY;
    let after = loop {
        rest = rest.trim_start_matches([' ', '\t']);
        match rest.chars().next() {
            None => break None,
            Some(',') => break Some(&rest[1..]),
            Some(';') => {
                let (parameter, value) = rest[1..].split_once('=')?;
                let (value, parameters) = if value.starts_with('"') {
                    quoted(value)?
                } else {
                    value.split_at(value.find([',', ';', ' ', '\t']).unwrap_or(value.len()))
                };
                if parameter.trim() == "ma" {
                    max_age = Duration::from_secs(value.parse().ok()?);
                }
                rest = parameters;
            }
            Some(_) => return None,
        }
    };
    // The authority has the syntax of RFC 3986 §3.2, without userinfo.
    let found = (name.trim() == "h3").then(|| {
        let (host, port) = authority.rsplit_once(':')?;
        let host = host.trim_start_matches('[').trim_end_matches(']');
        let host = Some(host).filter(|host| !host.is_empty()).map(str::to_owned);
        let port = port.parse().ok().filter(|port| *port > 0)?;
        Some(Alternative { host, port, max_age })
    });
    Some((found.flatten(), after))
}

/// Splits off a quoted string at the start of `text`. Escapes (RFC 9110 §5.6.4) are not handled, because an authority
/// contains none.
fn quoted(text: &str) -> Option<(&str, &str)> {
    text.trim_start().strip_prefix('"')?.split_once('"')
}

const DAY: Duration = Duration::from_secs(86_400);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn alt_svc_round_trips_and_skips_other_protocols() {
        let same_host = |port, secs| Alternative { host: None, port, max_age: Duration::from_secs(secs) };
        assert_eq!(Alternative::read(&Alternative::written(443)), Some(same_host(443, 86_400)));
        assert_eq!(
            Alternative::read("h2=\"a:1\", h3-29=\":2\"; ma=9, h3=\":3\";ma=7;persist=1"),
            Some(same_host(3, 7))
        );
        let other_host = Alternative { host: Some("::1".to_owned()), ..same_host(4, 86_400) };
        assert_eq!(Alternative::read("h3=\"[::1]:4\""), Some(other_host));
        for none in [
            "",
            "clear",
            "h2=\":1\"",
            "h3=\"\"",
            "h3=\":0\"",
            "h3=:1",
            "h3=\":x\"",
            "h3=\":1\" x",
            "h3",
            "=",
            ";,=",
        ] {
            assert_eq!(Alternative::read(none), None, "{none}");
        }
    }
}
