//! Filters the bytes that hyper reads, so that hyper gets only heads and bodies whose ends are unambiguous.
//!
//! hyper accepts all that RFC 9112 lets a recipient accept. It prefers a transfer coding to a length, and ignores
//! codings before `chunked`. It also accepts lines that end with LF alone, and a repeated length. Another program on
//! the path may interpret the same bytes differently. One client could then send requests that another client seems to
//! have sent (request smuggling).
//!
//! Therefore all bytes are parsed before hyper gets them. hyper gets a head only when the head is complete and valid
//! according to [`crate::head`], which the gateway also uses. If a head is refused, hyper gets a stand-in request in
//! place of the head, and no data after that. The response to the stand-in request is the error response to the client.

use crate::framing::{Decoder, Framing};
use crate::head::{Form, Head, Refusal, Room, Strictness, end_of_head, too_large};
use std::mem::take;

/// Filters the bytes of one stream from a client.
#[derive(Debug)]
pub(super) struct SmugglingGuard {
    state: GuardState,
    /// The received part of an incomplete head.
    partial_head: Vec<u8>,
    /// The offset in `partial_head` up to which the code has searched for the end of the head.
    searched: usize,
    /// The number of empty lines received before the head. The count stops at 2.
    empty: u8,
    /// The maximum size in bytes of an accepted head.
    max_head: usize,
    strictness: Strictness,
    /// The reason why the last head was refused; `None` if it was accepted.
    refusal: Option<Refusal>,
}

#[derive(Debug, Default)]
enum GuardState {
    #[default]
    Head,
    Body(Box<Decoder>),
    /// A request head was refused. No more bytes are passed to hyper, and the stream ends after the response.
    Refused,
    /// hyper was given [`POISON`], bytes that it cannot parse.
    Poisoned,
}

impl SmugglingGuard {
    /// Returns a guard that refuses heads of more than `max_head` bytes.
    pub(super) fn new(max_head: usize, strictness: Strictness) -> Self {
        Self {
            state: GuardState::Head,
            partial_head: Vec::new(),
            searched: 0,
            empty: 0,
            max_head,
            strictness,
            refusal: None,
        }
    }

    /// Processes the next bytes, and passes to `out` the bytes that hyper may have now: heads when they are complete,
    /// bodies as they arrive. A refused head is replaced by [`STAND_IN`]. A body with broken framing ends with
    /// [`POISON`]. No data follows either of them.
    pub(super) fn pass(&mut self, bytes: &[u8], mut out: impl FnMut(&[u8])) {
        let mut rest = bytes;
        while !rest.is_empty() {
            match &mut self.state {
                GuardState::Head => self.head(&mut rest, &mut out),
                GuardState::Body(decoder) => {
                    let before = rest;
                    let step = decoder.step(&mut rest);
                    let consumed = before.len() - rest.len();
                    if step.is_err() {
                        // The byte that breaks the framing is the last one that was consumed.
                        out(&before[..consumed.saturating_sub(1)]);
                        out(POISON);
                        self.state = GuardState::Poisoned;
                        return;
                    }
                    out(&before[..consumed]);
                    if decoder.is_done() {
                        self.state = GuardState::Head;
                    }
                }
                GuardState::Refused | GuardState::Poisoned => return,
            }
        }
    }

    /// Whether the stream is between two requests and no byte of the next one has arrived.
    pub(super) fn is_between(&self) -> bool {
        matches!(self.state, GuardState::Head) && self.partial_head.is_empty()
    }

    /// Whether the head of a request has begun but is incomplete.
    pub(super) fn is_in_head(&self) -> bool {
        // RFC 9112 §2.2: one empty line before a request does not begin the request. A client that sends more than one
        // empty line has begun a request.
        matches!(self.state, GuardState::Head)
            && (self.empty > 1 || !matches!(self.partial_head[..], [] | [b'\r']))
    }

    /// Returns the number of bytes that remain of a body of known length.
    pub(super) fn left(&self) -> Option<u64> {
        if let GuardState::Body(decoder) = &self.state { decoder.left() } else { None }
    }

    /// Stops passing bytes to hyper, because a head was refused. The body length that such a head declares is
    /// meaningless.
    pub(super) fn refuse(&mut self) {
        self.state = GuardState::Refused;
    }

    /// Whether the guard has stopped passing bytes, because it refused a head or found broken framing in a body.
    pub(super) fn has_refused(&self) -> bool {
        matches!(self.state, GuardState::Refused | GuardState::Poisoned)
    }

    /// Whether the guard has passed [`POISON`] to hyper. Hyper cannot parse these bytes. The caller then reports the
    /// end of the stream to hyper.
    pub(super) fn is_poisoned(&self) -> bool {
        matches!(self.state, GuardState::Poisoned)
    }

    /// Takes the reason why a head was refused. The reason determines the response to the stand-in request, which hyper
    /// got in place of the refused head.
    pub(super) fn take_refusal(&mut self) -> Option<Refusal> {
        self.refusal.take()
    }

    /// Takes a complete or partial head from the front of `rest`.
    fn head(&mut self, rest: &mut &[u8], out: &mut impl FnMut(&[u8])) {
        if self.partial_head.is_empty() {
            // RFC 9112 §2.2: empty lines before a request are skipped.
            while let Some(after) = rest.strip_prefix(b"\r\n") {
                *rest = after;
                self.empty = (self.empty + 1).min(2);
            }
            // Most heads arrive in one piece. Such a head is not copied to `partial_head`.
            let (mut at, whole) = (0, *rest);
            match end_of_head(whole, &mut at) {
                Ok(Some(end)) => {
                    *rest = &whole[end..];
                    return self.judge(&whole[..end], out);
                }
                Ok(None) if whole.len() <= self.max_head => {
                    (self.searched, *rest) = (at, &[]);
                    return self.partial_head.extend_from_slice(whole);
                }
                Ok(None) => return self.refuse_head(whole, too_large(whole, self.max_head), out),
                Err(refusal) => return self.refuse_head(whole, refusal, out),
            }
        }
        let before = self.partial_head.len();
        self.partial_head.extend_from_slice(rest);
        if before < 2 && self.partial_head.starts_with(b"\r\n") {
            *rest = &rest[2 - before..];
            (self.partial_head, self.searched) = (Vec::new(), 0);
            self.empty = (self.empty + 1).min(2);
            return;
        }
        match end_of_head(&self.partial_head, &mut self.searched) {
            Ok(Some(end)) => {
                *rest = &rest[end - before..];
                let mut head = take(&mut self.partial_head);
                head.truncate(end);
                self.judge(&head, out);
            }
            Ok(None) if self.partial_head.len() <= self.max_head => *rest = &[],
            Ok(None) => {
                let partial_head = take(&mut self.partial_head);
                self.refuse_head(&partial_head, too_large(&partial_head, self.max_head), out);
            }
            Err(refusal) => {
                let partial_head = take(&mut self.partial_head);
                self.refuse_head(&partial_head, refusal, out);
            }
        }
    }

    /// Checks a complete head, and passes it to `out` or refuses it.
    fn judge(&mut self, head: &[u8], out: &mut impl FnMut(&[u8])) {
        (self.searched, self.empty) = (0, 0);
        if head.len() > self.max_head {
            return self.refuse_head(head, too_large(head, self.max_head), out);
        }
        let mut room = Room::new();
        let read = match Head::parse(head, self.strictness, &mut room) {
            Ok(read) if read.method == STAND_IN_METHOD => {
                return self.refuse_head(head, Refusal::new(501, "this method is not known here"), out);
            }
            Ok(read) => read,
            Err(refusal) => return self.refuse_head(head, refusal, out),
        };
        match read.minor {
            0 => out(head),
            _ => {
                // RFC 9112 §2.3: a minor version above 1 is treated as 1, the latest minor version that hyper knows.
                out(&head[..read.minor_at]);
                out(b"1");
                out(&head[read.minor_at + 1..]);
            }
        }
        match read.framing {
            // RFC 9931: data after a refused CONNECT may be meant for the tunnel that was not opened, so hyper gets
            // none of it.
            _ if matches!(read.form, Form::Authority(_)) => self.state = GuardState::Refused,
            Framing::Empty | Framing::Length(0) => {}
            framing => self.state = GuardState::Body(Box::new(Decoder::new(framing))),
        }
    }

    fn refuse_head(&mut self, head: &[u8], mut refusal: Refusal, out: &mut impl FnMut(&[u8])) {
        if head.starts_with(b"HEAD ") {
            // RFC 9110 §9.3.2: the response to HEAD has no body, so the refusal gets no text.
            refusal.why = "".into();
        }
        self.refusal = Some(refusal);
        self.state = GuardState::Refused;
        out(STAND_IN);
    }
}

/// The request that hyper gets instead of a refused head. The service answers it with the refusal. The guard refuses a
/// client's request with the method `*`, so that no client can send this request.
const STAND_IN: &[u8] = b"* / HTTP/1.1\r\nHost: \r\n\r\n";
/// The method of [`STAND_IN`].
pub(super) const STAND_IN_METHOD: &str = "*";
/// Bytes that hyper rejects. They are invalid in any chunk, and they end any line that hyper may be reading.
pub(super) const POISON: &[u8] = b"\0\r\n\r\n";

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the part of `text` that the guard passes to hyper, and whether another request could follow. Checks that
    /// both results are the same however the input is split.
    fn passed(text: &str) -> (String, bool) {
        let through = |piece: usize| {
            let (mut guard, mut out) = (SmugglingGuard::new(8192, Strictness::Strictly), Vec::new());
            for part in text.as_bytes().chunks(piece) {
                guard.pass(part, |bytes| out.extend_from_slice(bytes));
            }
            assert_eq!(guard.take_refusal().is_some(), out.ends_with(STAND_IN), "{text:?}");
            (String::from_utf8(out).expect("text"), guard.is_between())
        };
        let whole = through(text.len());
        for piece in 1..text.len().min(300) {
            assert_eq!(through(piece), whole, "{text:?} in pieces of {piece}");
        }
        whole
    }

    fn text(bytes: &[u8]) -> &str {
        std::str::from_utf8(bytes).expect("text")
    }

    const NEXT: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[test]
    fn unambiguous_requests_pass() {
        let long = format!("X: {}", "x".repeat(1000));
        for (fields, body) in [
            ("X: y", ""),
            ("Content-Length: 0", ""),
            ("content-length:5 ", "a\r\nb\n"),
            ("Content-Lengthy: 7\r\nTransfer-Encodings: x", ""),
            ("Transfer-Encoding: Chunked", "3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n"),
            (&long, ""),
        ] {
            let whole = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}{NEXT}{NEXT}");
            assert_eq!(passed(&format!("\r\n{whole}")), (whole.clone(), true), "{fields}");
            let part = format!("{whole}POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nabcd");
            assert_eq!(passed(&part), (part.clone(), false));
            // hyper must get no byte of an incomplete head.
            assert_eq!(passed(&format!("{whole}GET / HTTP/1.1\r\nHost: a\r\n")), (whole, false));
        }
    }

    #[test]
    fn ambiguous_requests_are_refused() {
        for fields in [
            "Content-Length: 5\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked\r\nContent-Length: 5",
            "Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked",
            "Transfer-Encoding: chunked, identity",
            "Transfer-Encoding: gzip, chunked",
            "Transfer-Encoding: xchunked",
            "Transfer-Encoding: \x0bchunked",
            "Transfer-Encoding : chunked",
            "Transfer-Encoding\t: chunked",
            "Transfer-Encoding",
            "Transfer-Encoding:",
            "Content-Length: 5\r\nContent-Length: 5",
            "Content-Length: 5\r\nContent-Length: 6",
            "Content-Length: 5, 5",
            "Content-Length: +5",
            "Content-Length: 5 5",
            "Content-Length: 0x5",
            "Content-Length: 99999999999999999999",
            "Content-Length:",
            "Content-Length : 5",
            " Content-Length: 5",
            "X: y\r\n z",
            "X: y\r\n\tz",
            "X: y\n",
            "X: y\nContent-Length: 5",
            "X: y\rContent-Length: 5",
            "X: y\0",
        ] {
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
            let refused = (text(STAND_IN).to_owned(), false);
            assert_eq!(passed(&format!("{head}{NEXT}")), refused, "{fields:?}");
            let second = format!("{NEXT}{}", text(STAND_IN));
            assert_eq!(passed(&format!("{NEXT}{head}{NEXT}")), (second, false), "{fields:?}");
        }
        for head in
            ["GET / HTTP/1.1\nHost: a\r\n\r\n", "\nGET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\n"]
        {
            assert_eq!(passed(&format!("{head}{NEXT}")).0, text(STAND_IN), "{head:?}");
        }
        for body in [
            "5\nabcde\r\n0\r\n\r\n",
            "5;x\nabcde",
            "5 x\r\n",
            "1000000000000000\r\n",
            "5\r\nabcdef",
            "0\r\nX\n\r\n",
        ] {
            let head = "POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n";
            let (out, between) = passed(&format!("{head}{body}{NEXT}"));
            assert!(out.starts_with(head) && out.ends_with(text(POISON)) && !between, "{body:?}: {out:?}");
            assert!(!out.contains(NEXT), "{body:?}");
        }
    }

    #[test]
    fn a_later_minor_version_becomes_the_one_that_hyper_knows() {
        let later = "GET / HTTP/1.7\r\nHost: a\r\n\r\n";
        assert_eq!(passed(later), (NEXT.to_owned(), true));
    }

    #[test]
    fn nothing_follows_a_tunnel_that_is_asked_for_or_a_stand_in_of_the_client() {
        let connect = "CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n";
        assert_eq!(passed(&format!("{connect}{NEXT}")), (connect.to_owned(), false));
        assert_eq!(passed(text(STAND_IN)), (text(STAND_IN).to_owned(), false));
    }

    #[test]
    fn a_head_of_more_bytes_than_are_taken_is_refused_before_it_ends() {
        for (head, status) in [
            (format!("GET /{} HTTP/1.1\r\nHost: a\r\n\r\n", "x".repeat(200)), 414),
            (format!("GET /{}", "x".repeat(200)), 414),
            ("G".repeat(200), 501),
            (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}\r\n\r\n", "x".repeat(200)), 431),
            (format!("GET / HTTP/1.1\r\nHost: a\r\nX: {}", "x".repeat(200)), 431),
        ] {
            for piece in [1, 7, 300] {
                let mut guard = SmugglingGuard::new(100, Strictness::Strictly);
                head.as_bytes().chunks(piece).for_each(|part| guard.pass(part, |_| {}));
                assert_eq!(guard.take_refusal().map(|refusal| refusal.status), Some(status), "{head}");
            }
        }
    }

    #[test]
    fn an_empty_line_that_comes_in_two_parts_is_skipped() {
        let (mut guard, mut out) = (SmugglingGuard::new(8_192, Strictness::Strictly), Vec::new());
        for part in ["\r", &format!("\n{NEXT}")] {
            guard.pass(part.as_bytes(), |bytes| out.extend_from_slice(bytes));
        }
        assert_eq!((text(&out), guard.is_between()), (NEXT, true));
    }

    #[test]
    fn the_remaining_length_is_known_if_the_head_declares_it() {
        let mut guard = SmugglingGuard::new(8_192, Strictness::Strictly);
        let mut left = |bytes: &[u8]| {
            guard.pass(bytes, |_| {});
            guard.left()
        };
        assert_eq!(left(b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\n"), Some(5));
        assert_eq!((left(b"ab"), left(b"cde")), (Some(3), None));
        assert_eq!(left(b"POST / HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"), None);
    }

    #[test]
    fn a_head_begins_with_its_first_byte_and_not_with_an_empty_line() {
        let mut guard = SmugglingGuard::new(8192, Strictness::Strictly);
        let mut after = |bytes: &[u8]| {
            guard.pass(bytes, |_| {});
            guard.is_in_head()
        };
        assert!(!after(b"") && !after(b"\r\n") && after(b"G") && after(b"ET / HTTP/1.1\r\nHost: b\r\n"));
        assert!(!after(b"\r\n") && !after(b"\r\n") && after(b"\r\n") && after(b"\r\n"));
        let post = b"POST / HTTP/1.1\r\nHost: a\r\nContent-Length: 2\r\n\r\n";
        assert!(!after(post) && !after(b"a") && !after(b"b"));
        assert!(!after(b"\r\n") && after(b"G"));
    }
}
