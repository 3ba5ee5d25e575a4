//! The heads of requests: parsed strictly, and written anew for the next hop.
//!
//! Implements RFC 9110 §7.6 (Connection, Max-Forwards, Via) as far as it concerns a gateway's requests.

use super::fields::{
    Field, connection_options, contains_field_value, fields_of, has, write_field, write_fields, write_framing,
};
use super::forwarded::Forwarded;
use super::{Refusal, bad};
use crate::target::Target;
use anabranch_http::authority::{Authority, default_port};
use anabranch_http::framing::Framing;
use anabranch_http::head::{self, Head, Strictness, number};

/// The head of a request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Request {
    pub(crate) method: String,
    pub(crate) target: Target,
    /// The target as the client wrote it, for the log.
    pub(crate) written: String,
    /// The minor version of HTTP/1: 0 or 1.
    pub(crate) minor: u8,
    fields: Vec<Field>,
    /// The host and port in the Host field.
    pub(crate) host: Option<Authority>,
    pub(crate) framing: Framing,
    /// Whether the client's connection closes after this request.
    pub(crate) close: bool,
}

impl Request {
    /// Parses a complete head. `secure` says whether the request arrived over TLS.
    ///
    /// # Errors
    /// The response with which the request is refused.
    pub(crate) fn parse(head: &[u8], secure: bool) -> Result<Self, Refusal> {
        let mut room = head::Room::new();
        let read = Head::parse(head, Strictness::Strictly, &mut room)?;
        let Head { method, target: text, minor, framing, .. } = read;
        let target = Target::of(read.form, method).map_err(bad)?;
        let fields = fields_of(read.fields);
        if fields.iter().any(Field::resembles_framing_field) {
            return Err(bad("a field name can be mistaken for another"));
        }
        let host = host_of(read.host, &target, secure)?;
        // RFC 9110 §9.3.6: content in a CONNECT request has no defined meaning.
        if matches!(target, Target::Tunnel(_)) && framing != Framing::Empty {
            return Err(bad("CONNECT has no body"));
        }
        let options = connection_options(&fields).map_err(bad)?;
        let close = minor == 0 || has(&options, "close");
        let (method, written) = (method.to_owned(), text.to_owned());
        Ok(Self { method, target, written, minor, fields, host, framing, close })
    }

    /// Returns the head of the request that the gateway sends to the next hop. `target` is its request target, `host`
    /// is the value of Host, and `via` is added to Via. `forwarded` adds the fields that describe the client. The
    /// caller adds the empty line at the end of the head.
    pub(crate) fn write_forwarded_head(
        &self,
        host: &str,
        target: &str,
        via: &str,
        forwarded: Option<&Forwarded>,
    ) -> Vec<u8> {
        let mut out = format!("{} {target} HTTP/1.1\r\nHost: {host}\r\n", self.method).into_bytes();
        let own = |field: &Field| {
            let rewritten = field.is("host") || field.is("content-length") || field.is("max-forwards");
            rewritten || forwarded.is_some_and(|forwarded| forwarded.replaces(field))
        };
        write_fields(&mut out, &self.fields, own);
        if let Some(forwarded) = forwarded {
            forwarded.write(&mut out, &self.fields, self.host.as_ref());
        }
        if let Some(left) = self.max_forwards() {
            write_field(&mut out, "Max-Forwards", left.saturating_sub(1).to_string().as_bytes());
        }
        write_framing(&mut out, self.framing);
        if self.accepts_trailers() {
            write_field(&mut out, "TE", b"trailers");
            write_field(&mut out, "Connection", b"TE");
        }
        write_field(&mut out, "Via", format!("1.{} {via}", self.minor).as_bytes());
        out
    }

    /// Returns the number of bytes of memory that the request takes.
    pub(crate) fn bytes(&self) -> usize {
        let fields: usize =
            self.fields.iter().map(|field| field.name.len() + field.value.len() + FIELD).sum();
        // The target is in memory twice: once parsed, and once as the client wrote it.
        fields + 2 * self.written.len()
    }

    /// RFC 9110 §7.6.2: returns the number of hops over which an OPTIONS or TRACE request may still be forwarded.
    pub(crate) fn max_forwards(&self) -> Option<u64> {
        if !matches!(self.method.as_str(), "OPTIONS" | "TRACE") {
            return None;
        }
        let field = self.fields.iter().find(|field| field.is("max-forwards"))?;
        number(&field.value)
    }

    /// Returns whether `via` occurs in the Via fields, which means that the request has passed this gateway before.
    pub(crate) fn came_by(&self, via: &str) -> bool {
        self.fields.iter().filter(|field| field.is("via")).any(|field| {
            let entries = field.value.split(|&byte| byte == b',');
            entries
                .filter_map(|entry| std::str::from_utf8(entry).ok())
                .any(|entry| entry.split_ascii_whitespace().nth(1).is_some_and(|by| by == via))
        })
    }

    /// Returns whether the field `name` occurs exactly once, with exactly this value.
    pub(crate) fn has_field_value(&self, name: &str, value: &str) -> bool {
        contains_field_value(&self.fields, name, value)
    }

    /// Returns whether the request asks to upgrade to `protocol`, and to no other protocol.
    pub(crate) fn upgrades_to(&self, protocol: &str) -> bool {
        let options = connection_options(&self.fields).unwrap_or_default();
        let is_plain = self.minor > 0 && self.method == "GET" && self.framing == Framing::Empty;
        is_plain && has(&options, "upgrade") && self.has_field_value("upgrade", protocol)
    }

    /// Returns whether the client accepts trailers (RFC 9110 §10.1.4).
    pub(crate) fn accepts_trailers(&self) -> bool {
        let mut codings = self.fields.iter().filter(|field| field.is("te")).flat_map(|field| field.list());
        self.minor > 0 && codings.any(|coding| coding.eq_ignore_ascii_case(b"trailers"))
    }

    /// Returns whether the request asks for a tunnel (CONNECT).
    pub(crate) fn is_tunnel(&self) -> bool {
        matches!(self.target, Target::Tunnel(_))
    }

    /// Returns whether the request may be sent again. The request must have no body, and its method must be idempotent
    /// (RFC 9110 §9.2.2). CONNECT is not: the lost request may have opened a tunnel to its target.
    pub(crate) fn is_retryable(&self) -> bool {
        self.framing == Framing::Empty
            && matches!(self.method.as_str(), "GET" | "HEAD" | "OPTIONS" | "PUT" | "DELETE")
    }
}

/// Returns the host that the request is for. A host in the target takes precedence over the Host field.
fn host_of(host: Option<&str>, target: &Target, secure: bool) -> Result<Option<Authority>, Refusal> {
    let Some(host) = host else { return Ok(None) };
    // RFC 9110 §7.2: Host is empty if the target has no authority.
    if host.is_empty() && matches!(target, Target::Origin(_) | Target::Server) {
        return Ok(None);
    }
    let default = if let Target::Tunnel(authority) = target { authority.port } else { default_port(secure) };
    let host = Authority::parse(host, Some(default)).ok_or_else(|| bad("the Host field is malformed"))?;
    match target {
        // RFC 9112 §3.2.2: a proxy ignores the Host field of a request with a URL, and uses the host of the URL.
        Target::Absolute(origin, _) => Ok(Some(origin.authority.clone())),
        Target::Tunnel(authority) if *authority != host => {
            Err(bad("the target and Host name different hosts"))
        }
        _ => Ok(Some(host)),
    }
}

/// The memory of a field in bytes, without its name and value: the struct, and the allocator's overhead for two
/// allocations.
const FIELD: usize = size_of::<Field>() + 32;

#[cfg(test)]
mod tests {
    use super::super::fields::MAX_FIELDS;
    use super::*;
    use anabranch_http::authority::Origin;

    fn request(text: &str) -> Result<Request, u16> {
        Request::parse(text.as_bytes(), false).map_err(|refusal| refusal.status)
    }

    #[test]
    fn smuggling_forms_are_refused() {
        let cases: [(&str, u16); 30] = [
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nContent-Length: 1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nContent-Length: 1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 1, 1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: +1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0x1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 99999999999999999999\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length:\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length : 1\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: xchunked\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip, chunked\r\n\r\n", 501),
            (
                "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\nTransfer-Encoding: identity\r\n\r\n",
                400,
            ),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding : chunked\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding:\x0bchunked\r\n\r\n", 400),
            ("POST / HTTP/1.0\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent_Length: 5\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 0\r\ncontent.length: 5\r\n\r\n", 400),
            ("POST / HTTP/1.1\r\nHost: a\r\nTransfer_Encoding: chunked\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nX: b\r\n c\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\n Host: a\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
            ("GET / HTTP/1.1\r\n\r\n", 400),
            ("GET http://a/ HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n", 400),
            ("GET http://a/ HTTP/1.1\r\nHost: a, b\r\n\r\n", 400),
            ("GET http://a/ HTTP/1.1\r\nHost:\r\n\r\n", 400),
            ("CONNECT a:443 HTTP/1.1\r\nHost: b:443\r\n\r\n", 400),
            ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\nContent-Length: 5\r\n\r\n", 400),
            ("GET / HTTP/2.0\r\nHost: a\r\n\r\n", 505),
        ];
        for (text, status) in cases {
            assert_eq!(request(text).map(|_| ()), Err(status), "{text:?}");
        }
        let many = format!("GET / HTTP/1.1\r\nHost: a\r\n{}\r\n", "A: b\r\n".repeat(MAX_FIELDS));
        assert_eq!(request(&many).map(|_| ()), Err(431));
    }

    #[test]
    fn an_absolute_url_overrides_the_host_field() {
        for host in ["b", "a", "a:80", "b:81", "[::1]"] {
            let read = request(&format!("GET http://A:81/x HTTP/1.1\r\nHost: {host}\r\n\r\n"));
            let read = read.expect("a request");
            let target = Authority { host: "a".to_owned(), port: 81 };
            assert_eq!(read.target, Target::Absolute(Origin::new(target.clone(), false), "/x".to_owned()));
            assert_eq!(read.host, Some(target));
            let onward = read.write_forwarded_head("a:81", "/x", "me", None);
            assert_eq!(onward, b"GET /x HTTP/1.1\r\nHost: a:81\r\nVia: 1.1 me\r\n", "{host}");
        }
    }

    #[test]
    fn hop_by_hop_fields_are_not_forwarded() {
        let head = "GET http://a/x HTTP/1.1\r\nHost: A:80\r\nConnection: close, X-Secret\r\nX-Secret: 1\r\n\
                    Keep-Alive: 5\r\nProxy-Connection: keep-alive\r\nProxy-Authorization: Basic eA==\r\nTE: gzip\r\n\
                    Upgrade: h2c\r\nVia: 1.0 other\r\nAccept: */*\r\nMax-Forwards: 3\r\n\r\n";
        let read = request(head).expect("a request");
        assert!(read.close && read.came_by("other") && !read.came_by("me"));
        let onward = String::from_utf8(read.write_forwarded_head("a", "/x", "me", None)).expect("text");
        assert_eq!(onward, "GET /x HTTP/1.1\r\nHost: a\r\nVia: 1.0 other\r\nAccept: */*\r\nVia: 1.1 me\r\n");
        let read = request("OPTIONS * HTTP/1.1\r\nHost: a\r\nMax-Forwards: 3\r\nContent-Length: 0\r\n\r\n");
        let onward = String::from_utf8(read.expect("a request").write_forwarded_head("a", "*", "me", None))
            .expect("text");
        assert!(onward.contains("Max-Forwards: 2\r\nContent-Length: 0\r\nVia: 1.1 me\r\n"), "{onward}");
    }

    #[test]
    fn te_is_rewritten_for_the_next_hop_and_upgrade_is_parsed() {
        let read =
            |fields: &str| request(&format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}\r\n")).expect("a request");
        let takes = read("TE: gzip;q=0.5, Trailers\r\nConnection: TE\r\n");
        let onward = takes.write_forwarded_head("a", "/", "me", None);
        assert_eq!(onward, b"GET / HTTP/1.1\r\nHost: a\r\nTE: trailers\r\nConnection: TE\r\nVia: 1.1 me\r\n");
        assert!(!read("TE: gzip\r\n").accepts_trailers() && !read("X: trailers\r\n").accepts_trailers());
        assert!(read("Connection: Keep-Alive, Upgrade\r\nUpgrade: WebSocket\r\n").upgrades_to("websocket"));
        for fields in [
            "Upgrade: websocket\r\n",
            "Connection: upgrade\r\n",
            "Connection: upgrade\r\nUpgrade: websocket, h2c\r\n",
            "Connection: upgrade\r\nUpgrade: h2c\r\nUpgrade: websocket\r\n",
            "Connection: upgrade\r\nUpgrade: websocket\r\nContent-Length: 5\r\n",
        ] {
            assert!(!read(fields).upgrades_to("websocket"), "{fields}");
        }
    }

    #[test]
    fn connection_names_no_more_than_there_can_be() {
        let named = |count: usize| {
            let names: Vec<String> = (0..count).map(|at| format!("x{at}")).collect();
            format!("Connection: a,, ,\r\nConnection: {}\r\nX9: hop\r\nY: on\r\n\r\n", names.join(","))
        };
        let request_with = |count| request(&format!("GET / HTTP/1.1\r\nHost: a\r\n{}", named(count)));
        let most = MAX_FIELDS - 1;
        let onward = request_with(most).expect("a request").write_forwarded_head("a", "/", "me", None);
        assert_eq!(onward, b"GET / HTTP/1.1\r\nHost: a\r\nY: on\r\nVia: 1.1 me\r\n");
        assert_eq!(request_with(most + 1).map(|_| ()), Err(400));
    }
}
