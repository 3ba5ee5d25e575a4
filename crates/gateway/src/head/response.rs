//! The heads of responses: parsed strictly, and written anew for the client.
//!
//! Implements RFC 9112 §4 and §6.3 as far as they concern a gateway's responses.

use super::fields::{
    Field, MAX_FIELDS, connection_options, contains_field_value, fields_of, has, is_folded, length_of,
    write_field, write_fields, write_framing,
};
use super::{Refusal, bad};
use anabranch_http::authority::{Authority, Origin, default_port};
use anabranch_http::framing::Framing;
use http::HeaderValue;

/// The head of a response.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Response {
    pub(crate) status: u16,
    reason: String,
    minor: u8,
    fields: Vec<Field>,
    pub(crate) framing: Framing,
    /// The value of Content-Length. In a response to HEAD it is not the length of the body.
    length: Option<u64>,
    /// Whether the server closes the connection after this response.
    pub(crate) close: bool,
}

/// Refuses bytes that cannot be the beginning of a status line: another protocol, another version, or an invalid
/// status. A part of the status line is enough to decide. RFC 9112 §4: the form is `HTTP/1.1 200 OK`, and the reason
/// phrase is optional.
pub(crate) fn check_response_prefix(bytes: &[u8]) -> Result<(), Refusal> {
    const LINE: &[u8] = b"HTTP/1.V SDD";
    let fits = |(&byte, &expected): (&u8, &u8)| match expected {
        b'V' => matches!(byte, b'0' | b'1'),
        // RFC 9110 §15: the first digit is the class of the status. Recipients treat a status of class 6 or higher like
        // a server error.
        b'S' => matches!(byte, b'1'..=b'9'),
        b'D' => byte.is_ascii_digit(),
        _ => byte == expected,
    };
    let ends = bytes.get(LINE.len()).is_none_or(|end| matches!(end, b' ' | b'\r'));
    // An empty line may precede the status line.
    let begins = matches!(bytes, b"" | b"\r") || (bytes.iter().zip(LINE).all(fits) && ends);
    if begins { Ok(()) } else { Err(bad("the answer is not HTTP/1")) }
}

impl Response {
    /// Parses the complete head of a response to a request with `method`. `closing` says whether the end of the
    /// connection may end the body.
    ///
    /// # Errors
    /// The reason why the head is invalid.
    pub(crate) fn parse(head: &[u8], method: &str, closing: bool) -> Result<Self, &'static str> {
        if is_folded(head) {
            return Err("a field of the answer is folded");
        }
        let mut room = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut parsed = httparse::Response::new(&mut room);
        match parsed.parse(head) {
            Ok(httparse::Status::Complete(length)) if length == head.len() => {}
            _ => return Err("the head of the answer is malformed"),
        }
        let (Some(status), Some(minor)) = (parsed.code, parsed.version) else {
            return Err("the status line is malformed");
        };
        check_response_prefix(head).map_err(|_| "the status line is malformed")?;
        let reason = parsed.reason.unwrap_or_default().to_owned();
        let fields = fields_of(parsed.headers);
        let length = length_of(&fields).map_err(|_| "Content-Length of the answer is not one number")?;
        let coded = fields.iter().filter(|field| field.is("transfer-encoding")).count();
        let chunked = coded == 1 && contains_field_value(&fields, "transfer-encoding", "chunked");
        if coded > 0 && (!chunked || length.is_some() || minor == 0) {
            return Err("the answer's length and transfer coding contradict each other");
        }
        // RFC 9112 §6.3: these responses have no body, even if their fields announce one.
        let bodiless = method == "HEAD"
            || status < 200
            || status == 204
            || status == 304
            || (method == "CONNECT" && (200..300).contains(&status));
        let framing = match (bodiless, chunked, length) {
            (true, ..) => Framing::Empty,
            (_, true, _) => Framing::Chunked,
            (_, _, Some(length)) => Framing::Length(length),
            _ if closing => Framing::Close,
            _ => return Err("the answer has no length and is not chunked"),
        };
        let options = connection_options(&fields)?;
        let close = match minor {
            0 => !has(&options, "keep-alive"),
            _ => has(&options, "close"),
        } || framing == Framing::Close;
        Ok(Self { status, reason, minor, fields, framing, length, close })
    }

    /// Returns whether this is an interim response, which a final response follows.
    pub(crate) fn is_interim(&self) -> bool {
        self.status < 200
    }

    /// Returns the head of the response that the gateway sends to the client. It announces the framing `framing`. A
    /// Location that names `origin` is shortened to a path. A response without Date gets `date`. The caller adds the
    /// empty line at the end.
    pub(crate) fn write_client_head(
        &self,
        framing: Framing,
        close: bool,
        via: &str,
        origin: Option<&Origin>,
        date: Option<&HeaderValue>,
    ) -> Vec<u8> {
        let mut out = format!("HTTP/1.1 {} {}\r\n", self.status, self.reason).into_bytes();
        write_fields(&mut out, &self.fields, |field| {
            // RFC 7838 §2.1: drop Alt-Svc, because it describes the host and port of the origin, not those of the
            // gateway.
            field.is("content-length")
                || field.is("alt-svc")
                || (field.is("location") && self.local_location_path(field, origin).is_some())
        });
        for field in self.fields.iter().filter(|field| field.is("location")) {
            if let Some(path) = self.local_location_path(field, origin) {
                write_field(&mut out, "Location", path);
            }
        }
        // RFC 9110 §6.6.1: a gateway that forwards a response without Date adds the time of receipt.
        if let Some(date) = date.filter(|_| !self.fields.iter().any(|field| field.is("date"))) {
            write_field(&mut out, "Date", date.as_bytes());
        }
        match framing {
            // The `Content-Length` of a response to HEAD or of a 304 response is the length of the omitted content.
            Framing::Empty if self.status >= 200 && self.status != 204 => {
                if let Some(length) = self.length {
                    write_field(&mut out, "Content-Length", length.to_string().as_bytes());
                }
            }
            framing => write_framing(&mut out, framing),
        }
        if close {
            write_field(&mut out, "Connection", b"close");
        }
        write_field(&mut out, "Via", format!("1.{} {via}", self.minor).as_bytes());
        out
    }

    /// Appends the Trailer fields of the response (RFC 9110 §6.6.2).
    pub(crate) fn announce_trailers(&self, out: &mut Vec<u8>) {
        for field in self.fields.iter().filter(|field| field.is("trailer")) {
            write_field(out, &field.name, &field.value);
        }
    }

    /// Returns the path of a Location whose URL names the origin itself; `None` for any other Location.
    fn local_location_path<'a>(&self, field: &'a Field, origin: Option<&Origin>) -> Option<&'a [u8]> {
        let url = std::str::from_utf8(&field.value).ok()?;
        let (scheme, rest) = url.split_once("://")?;
        let origin = origin.filter(|origin| scheme.eq_ignore_ascii_case(origin.scheme()))?;
        let end = rest.find('/')?;
        let authority = Authority::parse(&rest[..end], Some(default_port(origin.secure)))?;
        let path = &rest.as_bytes()[end..];
        // Some URLs are not shortened to their path, because a browser would read the path as the name of another host.
        // Such a path begins with `//`, or has characters that browsers normalize: browsers treat `\\` as `/`, and
        // ignore control characters.
        let is_ambiguous =
            path.starts_with(b"//") || path.iter().any(|&byte| byte == b'\\' || byte.is_ascii_control());
        (authority == origin.authority && !is_ambiguous).then_some(path)
    }

    /// Returns whether the field `name` occurs exactly once, with exactly this value.
    pub(crate) fn has_field_value(&self, name: &str, value: &str) -> bool {
        contains_field_value(&self.fields, name, value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn response(text: &str, method: &str) -> Result<Response, &'static str> {
        Response::parse(text.as_bytes(), method, false)
    }

    #[test]
    fn connection_names_no_more_than_there_can_be() {
        let named = |count: usize| {
            let names: Vec<String> = (0..count).map(|at| format!("x{at}")).collect();
            format!("Connection: a,, ,\r\nConnection: {}\r\nX9: hop\r\nY: on\r\n\r\n", names.join(","))
        };
        let most = MAX_FIELDS - 1;
        let answered = |count| response(&format!("HTTP/1.1 204 No Content\r\n{}", named(count)), "GET");
        assert!(answered(most).is_ok() && answered(most + 1).is_err());
    }

    #[test]
    fn a_location_is_made_relative_only_for_the_origin_itself() {
        let origin = Origin::new(Authority { host: "o".to_owned(), port: 81 }, false);
        let rewritten = |location: &str| {
            let head = format!("HTTP/1.1 301 Moved\r\nLocation: {location}\r\nContent-Length: 0\r\n\r\n");
            let read = response(&head, "GET").expect("a response");
            let rewritten =
                String::from_utf8(read.write_client_head(read.framing, false, "me", Some(&origin), None))
                    .expect("text");
            rewritten.split("Location: ").nth(1).and_then(|rest| rest.split("\r\n").next()).map(str::to_owned)
        };
        for path in ["/", "/there?a", "/%09/evil.example", "/./evil.example", "/a//b"] {
            assert_eq!(rewritten(&format!("http://O:81{path}")).as_deref(), Some(path));
        }
        // If one of these paths were sent without the origin's host, a browser would read it as `//evil.example`, which
        // is another host.
        for path in ["//evil.example/x", "/\\evil.example/x", "/\t/evil.example/x", "/a\\..\\..\\x"] {
            let whole = format!("http://o:81{path}");
            assert_eq!(rewritten(&whole), Some(whole));
        }
    }

    #[test]
    fn what_cannot_become_an_answer_is_not_waited_for() {
        for good in [
            "HTTP/1.1 200 OK\r\n",
            "HTTP/1.0 404\r\n",
            "HTTP/1.1 999 x\r\n",
            "HTTP/1.1 100 \r\n",
            "HTTP/1.1 600 \r\n",
        ] {
            for length in 0..=good.len() {
                assert!(check_response_prefix(&good.as_bytes()[..length]).is_ok(), "{good} {length}");
            }
        }
        for (wrong, from) in [
            ("HTTP/1.1 000 OK\r\n", 10),
            ("HTTP/1.1 099 OK\r\n", 10),
            ("HTTP/1.1 2x0 OK\r\n", 11),
            ("HTTP/1.1 2000 OK\r\n", 13),
            ("HTTP/1.1 20 OK\r\n", 12),
            ("HTTP/1.1 -20 OK\r\n", 10),
            ("HTTP/1.1  200 OK\r\n", 10),
            ("HTTP/1.2 200 OK\r\n", 8),
            ("HTTP/2 200\r\n", 6),
            ("http/1.1 200 OK\r\n", 1),
            ("SSH-2.0-OpenSSH_9.2\r\n", 1),
            ("220 mail ESMTP\r\n", 1),
            ("<html>", 1),
            ("\0\0\x12\x04", 1),
            ("\rX", 2),
        ] {
            for length in 0..=wrong.len() {
                let refused = check_response_prefix(&wrong.as_bytes()[..length]).is_err();
                assert_eq!(refused, length >= from, "{wrong} {length}");
            }
        }
    }

    #[test]
    fn answers_are_framed_as_they_are_or_refused() {
        let framing = |text, method| response(text, method).map(|response| response.framing);
        let sized = "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n";
        assert_eq!(framing(sized, "GET"), Ok(Framing::Length(5)));
        assert_eq!(framing(sized, "HEAD"), Ok(Framing::Empty));
        assert_eq!(
            framing("HTTP/1.1 304 Not Modified\r\nContent-Length: 5\r\n\r\n", "GET"),
            Ok(Framing::Empty)
        );
        assert_eq!(
            framing("HTTP/1.1 200 OK\r\nTransfer-Encoding: Chunked\r\n\r\n", "GET"),
            Ok(Framing::Chunked)
        );
        assert!(framing("HTTP/1.1 200 OK\r\n\r\n", "GET").is_err());
        let closing = Response::parse(b"HTTP/1.0 200 OK\r\n\r\n", "GET", true).expect("a response");
        assert!(closing.framing == Framing::Close && closing.close);
        for wrong in [
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\n",
            "HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n",
            "HTTP/1.1 200 OK\r\nX: a\r\n b\r\nContent-Length: 5\r\n\r\n",
            "ICY 200 OK\r\n\r\n",
            "HTTP/1.1 000 OK\r\nContent-Length: 5\r\n\r\n",
            "HTTP/1.1 099 OK\r\nContent-Length: 5\r\n\r\n",
        ] {
            assert!(framing(wrong, "GET").is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn hop_by_hop_fields_of_responses_are_removed() {
        let head = "HTTP/1.1 301 Moved\r\nContent-Length: 5\r\nConnection: x-hop\r\nX-Hop: 1\r\nKeep-Alive: 1\r\n\
                    Location: http://O:81/there?a\r\nAlt-Svc: h3=\":443\"\r\nServer: s\r\n\r\n";
        let read = response(head, "GET").expect("a response");
        let origin = Origin::new(Authority { host: "o".to_owned(), port: 81 }, false);
        let back = String::from_utf8(read.write_client_head(read.framing, true, "me", Some(&origin), None))
            .expect("text");
        assert_eq!(
            back,
            "HTTP/1.1 301 Moved\r\nServer: s\r\nLocation: /there?a\r\nContent-Length: 5\r\nConnection: close\r\nVia: 1.1 me\r\n"
        );
        let back = String::from_utf8(read.write_client_head(Framing::Chunked, false, "me", None, None))
            .expect("text");
        assert!(
            back.contains("Location: http://O:81/there?a\r\n")
                && back.contains("Transfer-Encoding: chunked\r\n")
        );
        assert!(!back.contains("Content-Length"), "{back}");
        let date = HeaderValue::from_static("Sun, 06 Nov 1994 08:49:37 GMT");
        let back = String::from_utf8(read.write_client_head(read.framing, false, "me", None, Some(&date)))
            .expect("text");
        assert!(back.contains("\r\nDate: Sun, 06 Nov 1994 08:49:37 GMT\r\n"), "{back}");
        let dated = response("HTTP/1.1 204 No Content\r\ndate: then\r\n\r\n", "GET").expect("a response");
        let back = String::from_utf8(dated.write_client_head(dated.framing, false, "me", None, Some(&date)))
            .expect("text");
        assert_eq!(back, "HTTP/1.1 204 No Content\r\ndate: then\r\nVia: 1.1 me\r\n");
    }
}
