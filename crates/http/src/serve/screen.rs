//! What of a stream hyper gets to see: heads and bodies whose ends nobody can see elsewhere.
//!
//! hyper reads as RFC 9112 lets a recipient read: of a length and a transfer coding it takes the coding, a line may end
//! with LF alone, a second length may repeat the first, what stands before `chunked` is not looked at. Another program on
//! the way may read the same bytes differently, and then one client speaks in the name of another (request smuggling). So
//! the bytes are followed from head to head before hyper has them; where they can be read in two ways it gets bytes that
//! it refuses, with 400, and nothing after them. A gateway is as strict (`gateway::head`).
//!
//! Home of RFC 9112 §2.2, §5, §6.1 and §6.3 as far as the server is stricter than hyper.

use crate::framing::{Decoder, Framing};

/// Follows one stream from the client.
#[derive(Debug, Default)]
pub(super) struct Screen {
    at: At,
    /// What has come of a line that is not complete, or the beginning and the last two bytes of a long one.
    line: Vec<u8>,
    /// Of the head: its first line has come.
    begun: bool,
    /// Before it: an empty line, and then more than one.
    empty: (bool, bool),
    length: Option<u64>,
    chunked: bool,
}

#[derive(Debug, Default)]
enum At {
    #[default]
    Head,
    Body(Box<Decoder>),
    Refused,
}

impl Screen {
    /// Looks at what came next. `Err`: hyper may have so many of the bytes, then [`POISON`], then nothing.
    pub(super) fn pass(&mut self, bytes: &[u8]) -> Result<(), usize> {
        let mut rest = bytes;
        while !rest.is_empty() {
            let good = match &mut self.at {
                At::Head => self.line(&mut rest),
                At::Body(decoder) => {
                    let step = decoder.step(&mut rest);
                    if decoder.is_done() {
                        self.at = At::Head;
                    }
                    step.is_ok()
                }
                At::Refused => false,
            };
            if !good {
                self.at = At::Refused;
                // The byte that was one too many is the last that was taken.
                return Err((bytes.len() - rest.len()).saturating_sub(1));
            }
        }
        Ok(())
    }

    /// It is known where the next request begins, and nothing of it has come.
    pub(super) fn is_between(&self) -> bool {
        matches!(self.at, At::Head) && !self.begun && self.line.is_empty()
    }

    /// A request has begun whose head is not whole.
    pub(super) fn is_in_head(&self) -> bool {
        // RFC 9112 §2.2: an empty line before a request is none yet. Who sends more has begun something.
        matches!(self.at, At::Head) && (self.begun || self.empty.1 || !self.line.is_empty())
    }

    /// Bytes that are left of a body of known length.
    pub(super) fn left(&self) -> Option<u64> {
        if let At::Body(decoder) = &self.at { decoder.left() } else { None }
    }

    /// Nothing more is passed: what a head that cannot be read says of its body counts for nothing.
    pub(super) fn refuse(&mut self) {
        self.at = At::Refused;
    }

    /// Nothing more is passed.
    pub(super) fn has_refused(&self) -> bool {
        matches!(self.at, At::Refused)
    }

    /// Takes the next line of a head off `rest`, or what there is of it.
    fn line(&mut self, rest: &mut &[u8]) -> bool {
        let Some(end) = rest.iter().position(|&byte| byte == b'\n') else {
            self.keep(rest);
            *rest = &[];
            return true;
        };
        let (line, after) = rest.split_at(end + 1);
        *rest = after;
        if self.line.is_empty() {
            return self.is_good(line);
        }
        self.keep(line);
        let line = std::mem::take(&mut self.line);
        self.is_good(&line)
    }

    fn keep(&mut self, part: &[u8]) {
        let (kept, more) = (self.line.len(), part.len());
        let fits = kept + more <= KEPT;
        let from_end = |n: usize| if n <= more { part[more - n] } else { self.line[kept + more - n] };
        let ends = (!fits).then(|| [from_end(2), from_end(1)]);
        self.line.extend_from_slice(&part[..more.min(KEPT)]);
        if let Some(ends) = ends {
            self.line.truncate(KEPT - ends.len());
            self.line.extend_from_slice(&ends);
        }
    }

    /// A whole line, with what ends it.
    fn is_good(&mut self, line: &[u8]) -> bool {
        // RFC 9112 §2.2: a line may end with LF alone. Not here, where others may see no end.
        let long = line.len() >= KEPT;
        let Some(text) = line.strip_suffix(b"\r\n") else { return false };
        if text.is_empty() {
            if std::mem::take(&mut self.begun) {
                self.head_ends();
            } else {
                self.empty = (true, self.empty.0);
            }
            return true;
        }
        if !std::mem::replace(&mut self.begun, true) {
            self.empty = (false, false);
            return true;
        }
        self.is_good_field(text, long)
    }

    fn is_good_field(&mut self, field: &[u8], long: bool) -> bool {
        let value_of = |name: &[u8]| {
            let (begin, rest) = field.split_at_checked(name.len())?;
            begin.eq_ignore_ascii_case(name).then_some(rest)
        };
        let (value, is_length) = match field[0] {
            // RFC 9112 §5.2: it would go on with the field before.
            b' ' | b'\t' => return false,
            b'c' | b'C' => (value_of(b"content-length"), true),
            b't' | b'T' => (value_of(b"transfer-encoding"), false),
            _ => (None, false),
        };
        let Some(value) = value else { return true };
        let value = match value.split_first() {
            Some((b':', value)) if !long => value.trim_ascii(),
            // RFC 9112 §5.1: no white space before the colon; and no length needs so long a line.
            Some((b':' | b' ' | b'\t', _)) | None => return false,
            // Another field whose name only begins like it.
            Some(_) => return true,
        };
        // RFC 9112 §6.1: a message with both may be an attempt at smuggling. One length, even if a second says the same.
        if self.chunked || self.length.is_some() {
            return false;
        }
        if is_length {
            let digits = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
            self.length =
                std::str::from_utf8(value).ok().filter(|_| digits).and_then(|text| text.parse().ok());
            return self.length.is_some();
        }
        self.chunked = value.eq_ignore_ascii_case(b"chunked");
        self.chunked
    }

    fn head_ends(&mut self) {
        let framing = match (std::mem::take(&mut self.chunked), self.length.take()) {
            (true, _) => Framing::Chunked,
            (false, None | Some(0)) => return,
            (false, Some(length)) => Framing::Length(length),
        };
        self.at = At::Body(Box::new(Decoder::new(framing)));
    }
}

/// No head and no chunk has this, and it ends what may wait for its end.
pub(super) const POISON: &[u8] = b"\0\r\n\r\n";
/// Bytes of a line that are kept when it comes in parts.
const KEPT: usize = 256;

#[cfg(test)]
mod tests {
    use super::*;

    /// How many bytes pass, however they are cut; and whether a request could follow.
    fn passed(text: &str) -> (usize, bool) {
        let whole = {
            let mut screen = Screen::default();
            (screen.pass(text.as_bytes()).err().unwrap_or(text.len()), screen.is_between())
        };
        for piece in 1..text.len().min(300) {
            let (mut screen, mut count) = (Screen::default(), 0);
            for part in text.as_bytes().chunks(piece) {
                match screen.pass(part) {
                    Ok(()) => count += part.len(),
                    Err(good) => {
                        count += good;
                        break;
                    }
                }
            }
            assert_eq!((count, screen.is_between()), whole, "{text:?} in pieces of {piece}");
        }
        whole
    }

    const NEXT: &str = "GET / HTTP/1.1\r\nHost: a\r\n\r\n";

    #[test]
    fn what_has_one_reading_passes() {
        let long = format!("X: {}", "x".repeat(1000));
        for (fields, body) in [
            ("X: y", ""),
            ("Content-Length: 0", ""),
            ("content-length:5 ", "a\r\nb\n"),
            ("Content-Lengthy: 7\r\nTransfer-Encodings: x", ""),
            ("Transfer-Encoding: Chunked", "3;x=y\r\nabc\r\n0\r\nT: v\r\n\r\n"),
            (&long, ""),
        ] {
            let text = format!("\r\nPOST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n{body}{NEXT}{NEXT}");
            assert_eq!(passed(&text), (text.len(), true), "{fields}");
            let part = format!("{text}POST / HTTP/1.1\r\nContent-Length: 5\r\n\r\nabcd");
            assert_eq!(passed(&part), (part.len(), false));
        }
    }

    #[test]
    fn what_has_two_does_not() {
        let padded = format!("Content-Length: {}5", " ".repeat(1000));
        let unended = format!("X: {}\nContent-Length: 40", "x".repeat(300));
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
            &padded,
            &unended,
        ] {
            let head = format!("POST / HTTP/1.1\r\nHost: a\r\n{fields}\r\n\r\n");
            let (count, between) = passed(&format!("{head}{NEXT}"));
            assert!(count < head.len() && !between, "{fields:?}: {count}");
        }
        for text in
            ["GET / HTTP/1.1\nHost: a\r\n\r\n", "\nGET / HTTP/1.1\r\n\r\n", "GET / HTTP/1.1\r\nHost: a\r\n\n"]
        {
            assert!(passed(text).0 < text.len(), "{text:?}");
        }
        for body in [
            "5\nabcde\r\n0\r\n\r\n",
            "5;x\nabcde",
            "5 x\r\n",
            "1000000000000000\r\n",
            "5\r\nabcdef",
            "0\r\nX\n\r\n",
        ] {
            let text = format!("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n{body}{NEXT}");
            assert!(passed(&text).0 < text.len() - NEXT.len(), "{body:?}");
        }
    }

    /// Wherever it is cut, and however long the line: RFC 9112 §2.2 ends it with CR LF.
    #[test]
    fn a_line_of_any_length_ends_with_both() {
        for length in KEPT - 8..KEPT + 4 {
            let line = |end| format!("GET / HTTP/1.1\r\nX: {}{end}\r\n", "x".repeat(length));
            let (good, bad) = (line("\r\n"), line("\n"));
            assert_eq!(passed(&good), (good.len(), true), "{length}");
            assert!(passed(&bad).0 < bad.len() - 2, "{length}");
        }
    }

    #[test]
    fn a_head_begins_with_its_first_byte_and_not_with_an_empty_line() {
        let mut screen = Screen::default();
        let mut after = |bytes: &[u8]| {
            screen.pass(bytes).expect("good");
            screen.is_in_head()
        };
        assert!(!after(b"") && !after(b"\r\n") && after(b"G") && after(b"ET / HTTP/1.1\r\nA: b\r\n"));
        assert!(!after(b"\r\n") && !after(b"\r\n") && after(b"\r\n") && after(b"\r\n"));
        assert!(!after(b"POST / HTTP/1.1\r\nContent-Length: 2\r\n\r\n") && !after(b"a") && !after(b"b"));
        assert!(!after(b"\r\n") && after(b"G"));
    }

    #[test]
    fn nothing_is_passed_after_what_was_refused() {
        let mut screen = Screen::default();
        assert_eq!(screen.pass(b"GET / HTTP/1.1\n"), Err(14));
        assert!(screen.has_refused());
        assert_eq!(screen.pass(NEXT.as_bytes()), Err(0));
    }
}
