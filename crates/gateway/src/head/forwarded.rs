//! The header fields by which a reverse gateway describes the client to its origin. These are `Forwarded` (RFC 7239),
//! and `X-Forwarded-For`, `-Host` and `-Proto`, which most programs read.
//!
//! An origin trusts these fields, so a client must not control them. A reverse gateway drops these fields from a
//! client's request, and also similar names that an origin could confuse with them. It keeps and extends only the
//! fields that a trusted proxy in front of the gateway has written. A forward gateway does not disclose its clients,
//! and forwards these fields unchanged.

use super::fields::{Field, write_field};
use crate::allow::Network;
use anabranch_http::authority::{Authority, default_port};
use std::net::IpAddr;

/// The client that a request came from, and whether its forwarding fields are trusted.
#[derive(Clone, Debug)]
pub(crate) struct Forwarded {
    /// The address of the client; `None` if it is unknown.
    client: Option<IpAddr>,
    is_trusted: bool,
    /// Whether the request arrived over TLS.
    secure: bool,
}

impl Forwarded {
    /// Creates the description of the client at `address`. `secure` says whether the request arrived over TLS.
    /// `proxies` are the trusted proxies.
    pub(crate) fn new(address: Option<IpAddr>, secure: bool, proxies: &[Network]) -> Self {
        let client = address.map(|ip| ip.to_canonical());
        let is_trusted = client.is_some_and(|ip| proxies.iter().any(|proxy| proxy.contains(ip)));
        Self { client, is_trusted, secure }
    }

    /// Returns whether the client is a trusted proxy.
    pub(crate) fn is_trusted(&self) -> bool {
        self.is_trusted
    }

    /// Returns whether the gateway replaces or drops a field of the request instead of forwarding it.
    pub(super) fn replaces(&self, field: &Field) -> bool {
        if self.is_trusted { field.is(FORWARDED) || field.is(FOR) } else { is_forwarding(field.name()) }
    }

    /// Appends the forwarding fields for this client. `host` is the host that the request names. If the client is a
    /// trusted proxy, its own values in `fields` are kept and extended.
    pub(super) fn write(&self, out: &mut Vec<u8>, fields: &[Field], host: Option<&Authority>) {
        let host = host.map(|host| host.written(default_port(self.secure)));
        let scheme = if self.secure { "https" } else { "http" };
        let is_present = |name| self.is_trusted && fields.iter().any(|field| field.is(name));
        let append = |out: &mut Vec<u8>, name: &str, own_value: &str| {
            let mut value = Vec::new();
            for field in fields.iter().filter(|field| self.is_trusted && field.is(name)) {
                value.extend_from_slice(field.value().trim_ascii());
                value.extend_from_slice(b", ");
            }
            value.extend_from_slice(own_value.as_bytes());
            write_field(out, name, &value);
        };
        // RFC 7239 §6: an IPv6 address is in brackets, and must therefore be quoted.
        let node = match self.client {
            Some(IpAddr::V4(v4)) => v4.to_string(),
            Some(IpAddr::V6(v6)) => format!("\"[{v6}]\""),
            None => "unknown".to_owned(),
        };
        let of_host = host.as_ref().map_or(String::new(), |host| format!("host=\"{host}\";"));
        append(out, FORWARDED, &format!("for={node};{of_host}proto={scheme}"));
        append(out, FOR, &self.client.map_or_else(|| "unknown".to_owned(), |ip| ip.to_string()));
        if let Some(host) = host.filter(|_| !is_present(HOST)) {
            write_field(out, HOST, host.as_bytes());
        }
        if !is_present(PROTO) {
            write_field(out, PROTO, scheme.as_bytes());
        }
    }
}

/// Returns whether `name` is a field in which a proxy tells the origin about the client or the client's request.
/// Punctuation in the name is compared as `-`, because CGI programs (RFC 3875 §4.1.18) do not distinguish `-` from
/// other punctuation.
fn is_forwarding(name: &str) -> bool {
    let plain: Vec<u8> = name
        .bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { byte.to_ascii_lowercase() } else { b'-' })
        .collect();
    plain.starts_with(b"x-forwarded") || NAMES.iter().any(|name| plain == name.as_bytes())
}

const FORWARDED: &str = "Forwarded";
const FOR: &str = "X-Forwarded-For";
const HOST: &str = "X-Forwarded-Host";
const PROTO: &str = "X-Forwarded-Proto";

/// The names of fields by which proxies describe the client to an origin. Names that begin with `x-forwarded` are not
/// listed here.
const NAMES: [&str; 30] = [
    "forwarded",
    "x-real-ip",
    "x-client-ip",
    "client-ip",
    "true-client-ip",
    "x-cluster-client-ip",
    "cf-connecting-ip",
    "fastly-client-ip",
    "x-original-forwarded-for",
    "x-remote-ip",
    "x-remote-addr",
    "remote-addr",
    "x-originating-ip",
    "x-proxyuser-ip",
    "proxy-client-ip",
    "wl-proxy-client-ip",
    "x-envoy-external-address",
    "x-azure-clientip",
    "x-azure-socketip",
    "x-appengine-user-ip",
    "x-appengine-remote-addr",
    "fly-client-ip",
    "cf-connecting-ipv6",
    "x-host",
    "x-original-host",
    "x-original-url",
    "x-rewrite-url",
    "x-scheme",
    "front-end-https",
    // The field `Proxy` does not describe the client, but CGI programs take it for their own proxy setting.
    "proxy",
];

#[cfg(test)]
mod tests {
    use super::super::Request;
    use super::*;

    /// Returns the fields that the gateway forwards for a request with `fields` from `client`. `proxies` are the
    /// trusted proxies.
    fn onward(client: &str, proxies: &[&str], fields: &str) -> String {
        let head = format!("GET / HTTP/1.1\r\nHost: a.example:81\r\n{fields}\r\n");
        let request = Request::parse(head.as_bytes(), false).expect("a request");
        let proxies: Vec<Network> = proxies.iter().map(|text| text.parse().expect("a network")).collect();
        let forwarded = Forwarded::new(client.parse().ok(), false, &proxies);
        let onward =
            String::from_utf8(request.write_forwarded_head("o", "/", "me", Some(&forwarded))).expect("text");
        let rest = onward.strip_prefix("GET / HTTP/1.1\r\nHost: o\r\n").expect("the beginning");
        rest.strip_suffix("Via: 1.1 me\r\n").expect("the end").to_owned()
    }

    #[test]
    fn forwarding_fields_of_untrusted_clients_are_replaced() {
        let own = "Forwarded: for=192.0.2.7;host=\"a.example:81\";proto=http\r\nX-Forwarded-For: 192.0.2.7\r\n\
                   X-Forwarded-Host: a.example:81\r\nX-Forwarded-Proto: http\r\n";
        assert_eq!(onward("192.0.2.7", &[], ""), own);
        for name in [
            "X-Forwarded-For",
            "x-forwarded-for",
            "X_Forwarded_For",
            "X-Forwarded_For",
            "X.Forwarded.For",
            "Forwarded",
            "X-Forwarded-Proto",
            "X-Forwarded-Host",
            "X-Forwarded-Port",
            "X-Forwarded-Prefix",
            "X-Forwarded",
            "X-Real-IP",
            "x_real_ip",
            "True-Client-IP",
            "Client-IP",
            "CF-Connecting-IP",
            "cf-connecting-ipv6",
            "Fly-Client-IP",
            "WL-Proxy-Client-IP",
            "X-Envoy-External-Address",
            "X_Original_URL",
            "X-Rewrite-URL",
            "X-Host",
            "Front-End-Https",
            "Proxy",
        ] {
            for more in ["", "Connection: x-forwarded-for, forwarded\r\n"] {
                let fields = format!("{more}{name}: 127.0.0.1\r\n{name}: 10.0.0.1\r\n");
                assert_eq!(onward("192.0.2.7", &["192.0.2.8"], &fields), own, "{fields}");
            }
        }
        assert_eq!(onward("192.0.2.7", &[], "X-Forwarder: a\r\n"), format!("X-Forwarder: a\r\n{own}"));
        assert_eq!(onward("192.0.2.7", &[], "X-Proxy: a\r\n"), format!("X-Proxy: a\r\n{own}"));
        let v6 = onward("2001:db8::1", &[], "");
        assert!(v6.starts_with("Forwarded: for=\"[2001:db8::1]\";host="), "{v6}");
        assert!(v6.contains("\r\nX-Forwarded-For: 2001:db8::1\r\n"), "{v6}");
        assert!(onward("::ffff:192.0.2.7", &[], "").starts_with("Forwarded: for=192.0.2.7;"));
        assert!(
            onward("", &["0.0.0.0/0"], "X-Forwarded-For: x\r\n").contains("X-Forwarded-For: unknown\r\n")
        );
    }

    #[test]
    fn forwarding_fields_of_trusted_proxies_are_extended() {
        let fields = "X-Forwarded-For: 203.0.113.1\r\nX-Forwarded-For: 203.0.113.2 \r\nForwarded: for=203.0.113.1\r\n\
                      X-Forwarded-Proto: https\r\nX-Real-IP: 203.0.113.1\r\n";
        let headers = "X-Forwarded-Proto: https\r\nX-Real-IP: 203.0.113.1\r\n\
                    Forwarded: for=203.0.113.1, for=192.0.2.7;host=\"a.example:81\";proto=http\r\n\
                    X-Forwarded-For: 203.0.113.1, 203.0.113.2, 192.0.2.7\r\nX-Forwarded-Host: a.example:81\r\n";
        for proxies in [["192.0.2.7"], ["192.0.2.0/24"], ["::ffff:192.0.2.0/120"], ["0.0.0.0/0"]] {
            assert_eq!(onward("192.0.2.7", &proxies, fields), headers, "{proxies:?}");
        }
        assert!(onward("2001:db8::1", &["2001:db8::/32"], fields).contains("203.0.113.2, 2001:db8::1\r\n"));
        for text in ["", "a", "192.0.2.0/33", "192.0.2.0/", "::/129", "192.0.2.1:80", "*"] {
            assert!(text.parse::<Network>().is_err(), "{text}");
        }
    }
}
