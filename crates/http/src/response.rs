//! Parses responses from a stream of bytes.
//!
//! A [`ResponseParser`] receives bytes and interprets them one step at a time. It never waits and never keeps a body.
//! `httparse` parses the heads. Any input from a peer results in a step or an error, within fixed bounds of memory.
//!
//! Implements RFC 9112 §4, §6 and §7.1 (status line, body length, chunked), as far as a client needs them.

use crate::framing;
use crate::head::number;

/// The maximum size of a response head in bytes.
pub const MAX_HEAD: usize = 64 * 1024;
/// The maximum number of fields in a head or trailer section.
const MAX_FIELDS: usize = 128;
/// The maximum number of interim responses before a final one. RFC 9110 §15.2 sets no limit, but a client must not wait
/// forever.
const MAX_INTERIM: u32 = 32;
/// The maximum total size in bytes of the interim responses before a final one.
const MAX_INTERIM_BYTES: usize = 128 * 1024;
/// The maximum size in bytes of a chunk-size line, or of all trailers.
const MAX_LINE: usize = 8 * 1024;

/// Why the received bytes are not a valid response.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ResponseError {
    /// The head cannot be parsed.
    #[error("the head is malformed: {0}")]
    Head(httparse::Error),
    /// The head is too large.
    #[error("the head is larger than {MAX_HEAD} bytes")]
    HeadTooLarge,
    /// There were too many interim responses without a final one.
    #[error(
        "more than {MAX_INTERIM} interim responses, or {MAX_INTERIM_BYTES} bytes of them, and no final one"
    )]
    Interim,
    /// Content-Length is not a number, or two of its values differ.
    #[error("Content-Length is not one number")]
    Length,
    /// The head has neither Content-Length nor chunked, so the end of the body is unknown.
    #[error("neither Content-Length nor chunked")]
    NoLength,
    /// The head names a transfer coding other than chunked.
    #[error("unknown transfer coding")]
    Coding,
    /// The chunked framing is broken.
    #[error("the chunked framing is broken")]
    Chunk,
}

/// The parts of a response head that the client uses.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Head {
    /// The status code.
    pub status: u16,
    /// The length of the body in bytes, if Content-Length declares it.
    pub length: Option<u64>,
    /// Whether the server closes the connection after this response.
    pub close: bool,
}

/// The head of a response, with the fields that are needed to follow redirections and to load pages.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Answer {
    /// The status code and the length of the body.
    pub head: Head,
    /// The value of the Location field.
    pub location: Option<String>,
    /// The media type in lower case, without parameters.
    pub content_type: Option<String>,
    /// The value of the Alt-Svc field, which names alternative services.
    pub alt_svc: Option<String>,
    /// The names and values of all fields, in the order of the head.
    pub fields: Vec<(String, String)>,
}

impl Answer {
    /// Returns the head as text: the status line with the version of HTTP, then a line for each field.
    #[must_use]
    pub fn text(&self, version: &str) -> String {
        let reason = http::StatusCode::from_u16(self.head.status).ok();
        let reason = reason.and_then(|status| status.canonical_reason()).filter(|_| version == "HTTP/1.1");
        let mut text = format!("{version} {} {}\r\n", self.head.status, reason.unwrap_or_default());
        for (name, value) in &self.fields {
            text += &format!("{name}: {value}\r\n");
        }
        text + "\r\n"
    }

    /// Returns the value of the Location field if the response is a redirection (RFC 9110 §15.4).
    #[must_use]
    pub fn redirection(&self) -> Option<&str> {
        self.location.as_deref().filter(|_| matches!(self.head.status, 301 | 302 | 303 | 307 | 308))
    }
}

/// The result of one parsing step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step<'a> {
    /// All input has been consumed, and more is needed.
    More,
    /// The head of a final response.
    Head(Head),
    /// Bytes of the response's body.
    Body(&'a [u8]),
    /// The response is complete.
    End,
}

/// Parses consecutive responses from one stream.
#[derive(Debug, Default)]
pub struct ResponseParser {
    state: ParserState,
    /// The received part of an incomplete head, chunk-size line or trailer section.
    partial: Vec<u8>,
    /// The number and the total size in bytes of the interim responses since the last final one.
    interim: (u32, usize),
    /// The last head with its fields; `None` if the parser keeps no fields.
    answer: Option<Answer>,
    /// Whether the end of the stream ends a body without a length.
    ends_bodies: bool,
    /// Whether the responses have no bodies, because they answer HEAD.
    heads_only: bool,
}

#[derive(Clone, Copy, Debug, Default)]
enum ParserState {
    #[default]
    Head,
    Body {
        left: u64,
    },
    ChunkSize,
    Chunk {
        left: u64,
    },
    ChunkEnd,
    Trailer,
    ToTheEnd,
}

impl ResponseParser {
    /// Returns a parser that expects the first response of a stream.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns a parser that keeps the fields of an [`Answer`].
    #[must_use]
    pub fn with_fields() -> Self {
        Self { answer: Some(Answer::default()), ..Self::default() }
    }

    /// Sets whether all responses answer HEAD. Such a response has no body, whatever its fields say (RFC 9112 §6.3).
    #[must_use]
    pub fn with_heads_only(mut self, heads_only: bool) -> Self {
        self.heads_only = heads_only;
        self
    }

    /// Sets whether the end of the stream ends a body whose length is not given, as on TCP. `false` makes such a body
    /// an error.
    #[must_use]
    pub fn with_eof_bodies(self, ends_bodies: bool) -> Self {
        Self { ends_bodies, ..self }
    }

    /// Records the end of the stream. Returns whether the end completes a response (RFC 9112 §6.3).
    pub fn end(&mut self) -> bool {
        let completes = matches!(self.state, ParserState::ToTheEnd);
        if completes {
            self.state = ParserState::Head;
        }
        completes
    }

    /// Returns `head` with the fields that the parser kept. `head` must be the head that the parser returned last. Only
    /// a parser created by [`with_fields`](Self::with_fields) keeps fields.
    #[must_use]
    pub fn answer(&self, head: Head) -> Answer {
        Answer { head, ..self.answer.clone().unwrap_or_default() }
    }

    /// Returns whether the last response is complete and no byte of a further response has been received.
    #[must_use]
    pub fn is_between(&self) -> bool {
        matches!(self.state, ParserState::Head) && self.partial.is_empty()
    }

    /// Consumes bytes from the front of `input` and returns what they mean. Call this method until it returns
    /// [`Step::More`].
    ///
    /// # Errors
    /// [`ResponseError`]; after an error the parser and the stream must not be used any more.
    pub fn step<'a>(&mut self, input: &mut &'a [u8]) -> Result<Step<'a>, ResponseError> {
        loop {
            match self.state {
                ParserState::Head => match self.head(input)? {
                    // RFC 9110 §15.2: interim responses come before the final one. They are skipped.
                    Some(Some(head)) => return Ok(Step::Head(head)),
                    Some(None) => {}
                    None => return Ok(Step::More),
                },
                ParserState::Body { left: 0 } => {
                    self.state = ParserState::Head;
                    return Ok(Step::End);
                }
                ParserState::Body { left } => {
                    let Some(body) = take(input, left) else { return Ok(Step::More) };
                    self.state = ParserState::Body { left: left - body.len() as u64 };
                    return Ok(Step::Body(body));
                }
                ParserState::ChunkSize => {
                    let Some(size) = self.chunk_size(input)? else { return Ok(Step::More) };
                    self.state =
                        if size == 0 { ParserState::Trailer } else { ParserState::Chunk { left: size } };
                }
                ParserState::Chunk { left: 0 } => self.state = ParserState::ChunkEnd,
                ParserState::Chunk { left } => {
                    let Some(body) = take(input, left) else { return Ok(Step::More) };
                    self.state = ParserState::Chunk { left: left - body.len() as u64 };
                    return Ok(Step::Body(body));
                }
                ParserState::ToTheEnd => {
                    return Ok(take(input, u64::MAX).map_or(Step::More, Step::Body));
                }
                ParserState::ChunkEnd => {
                    if !self.buffer_until(input, 2, |buffered| buffered.len() == 2) {
                        return Ok(Step::More);
                    }
                    if self.partial != b"\r\n" {
                        return Err(ResponseError::Chunk);
                    }
                    self.partial.clear();
                    self.state = ParserState::ChunkSize;
                }
                ParserState::Trailer => {
                    let done = |buffered: &[u8]| buffered == b"\r\n" || buffered.ends_with(b"\r\n\r\n");
                    if !self.buffer_until(input, MAX_LINE, done) {
                        if self.partial.len() >= MAX_LINE {
                            return Err(ResponseError::Chunk);
                        }
                        return Ok(Step::More);
                    }
                    self.partial.clear();
                    self.state = ParserState::Head;
                    return Ok(Step::End);
                }
            }
        }
    }

    /// Parses a head. Returns `None` if more input is needed, and `Some(None)` if an interim response was skipped.
    fn head(&mut self, input: &mut &[u8]) -> Result<Option<Option<Head>>, ResponseError> {
        // Only bytes up to the empty line after the head are consumed. Later bytes stay in `input`.
        let done = |buffered: &[u8]| buffered.ends_with(b"\r\n\r\n") || buffered.ends_with(b"\n\n");
        if !self.buffer_until(input, MAX_HEAD, done) {
            if self.partial.len() >= MAX_HEAD {
                return Err(ResponseError::HeadTooLarge);
            }
            // Check the first bytes now and not only after 64 KiB, because a peer that speaks another protocol may be
            // waiting for us to send.
            let start = self.partial.trim_ascii_start();
            if !start.iter().zip(b"HTTP/1.").all(|(byte, expected)| byte == expected) {
                return Err(ResponseError::Head(httparse::Error::Version));
            }
            return Ok(None);
        }
        unfold(&mut self.partial);
        let mut fields = [httparse::EMPTY_HEADER; MAX_FIELDS];
        let mut response = httparse::Response::new(&mut fields);
        let complete = response.parse(&self.partial).map_err(ResponseError::Head)?.is_complete();
        let status =
            response.code.filter(|_| complete).ok_or(ResponseError::Head(httparse::Error::Status))?;
        // RFC 9110 §15: statuses below 100 are invalid. §15.2.2: the client never asks for a switch of protocols (101).
        if status < 100 || status == 101 {
            return Err(ResponseError::Head(httparse::Error::Status));
        }
        if (100..200).contains(&status) {
            self.interim = (self.interim.0 + 1, self.interim.1 + self.partial.len());
            if self.interim.0 > MAX_INTERIM || self.interim.1 > MAX_INTERIM_BYTES {
                return Err(ResponseError::Interim);
            }
            self.partial.clear();
            return Ok(Some(None));
        }
        self.interim = (0, 0);
        let mut head = Head { status, length: None, close: response.version == Some(0) };
        let mut chunked = false;
        for field in response.headers.iter() {
            if field.name.eq_ignore_ascii_case("content-length") {
                // RFC 9112 §6.3: different lengths are an unrecoverable error.
                let length = number(field.value).ok_or(ResponseError::Length)?;
                if head.length.is_some_and(|earlier| earlier != length) {
                    return Err(ResponseError::Length);
                }
                head.length = Some(length);
            } else if field.name.eq_ignore_ascii_case("transfer-encoding") {
                chunked = field.value.trim_ascii().eq_ignore_ascii_case(b"chunked");
                if !chunked {
                    return Err(ResponseError::Coding);
                }
            } else if field.name.eq_ignore_ascii_case("connection") {
                let tokens = || field.value.split(|&b| b == b',').map(<[u8]>::trim_ascii);
                head.close |= tokens().any(|token| token.eq_ignore_ascii_case(b"close"));
            }
        }
        if let Some(answer) = &mut self.answer {
            let text = |name: &str| {
                let field = response.headers.iter().find(|field| field.name.eq_ignore_ascii_case(name))?;
                Some(String::from_utf8_lossy(field.value).trim().to_owned())
            };
            let bare = |kind: String| kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
            *answer = Answer {
                head,
                location: text("location"),
                content_type: text("content-type").map(bare),
                alt_svc: text("alt-svc"),
                fields: response.headers.iter().map(name_and_value).collect(),
            };
        }
        self.partial.clear();
        // RFC 9112 §6.3: responses with status 204 or 304 have no body, whatever their fields say. Chunked takes
        // precedence over Content-Length.
        self.state = if status == 204 || status == 304 || self.heads_only {
            ParserState::Body { left: 0 }
        } else if chunked {
            head.length = None;
            ParserState::ChunkSize
        } else if let Some(left) = head.length {
            ParserState::Body { left }
        } else if self.ends_bodies {
            head.close = true;
            ParserState::ToTheEnd
        } else {
            return Err(ResponseError::NoLength);
        };
        Ok(Some(Some(head)))
    }

    fn chunk_size(&mut self, input: &mut &[u8]) -> Result<Option<u64>, ResponseError> {
        if !self.buffer_until(input, MAX_LINE, |buffered| buffered.ends_with(b"\r\n")) {
            return if self.partial.len() >= MAX_LINE { Err(ResponseError::Chunk) } else { Ok(None) };
        }
        match httparse::parse_chunk_size(&self.partial) {
            Ok(httparse::Status::Complete((_, size))) => {
                self.partial.clear();
                Ok(Some(size))
            }
            _ => Err(ResponseError::Chunk),
        }
    }

    /// Moves bytes from `input` to `self.partial` until `done` holds or `limit` bytes are held. Returns whether `done`
    /// holds.
    fn buffer_until(&mut self, input: &mut &[u8], limit: usize, done: impl Fn(&[u8]) -> bool) -> bool {
        while self.partial.len() < limit {
            let Some((&byte, rest)) = input.split_first() else { return false };
            *input = rest;
            self.partial.push(byte);
            if byte == b'\n' && done(&self.partial) || limit == 2 && done(&self.partial) {
                return true;
            }
        }
        false
    }
}

/// Returns the name and the value of a field as text.
fn name_and_value(field: &httparse::Header<'_>) -> (String, String) {
    (field.name.to_owned(), String::from_utf8_lossy(field.value).trim().to_owned())
}

/// Takes at most `left` bytes off the front of `input`. Returns `None` if there are no bytes to take.
fn take<'a>(input: &mut &'a [u8], left: u64) -> Option<&'a [u8]> {
    Some(framing::take(input, left)).filter(|data| !data.is_empty())
}

/// RFC 9112 §5.2: a line that begins with white space continues the previous field. The line break before it is
/// replaced by spaces. The first line after the status line has no previous field, so it is left unchanged.
fn unfold(head: &mut [u8]) {
    let first = head.iter().position(|&byte| byte == b'\n').map_or(head.len(), |end| end + 1);
    for at in first + 1..head.len().saturating_sub(1) {
        if head[at] == b'\n' && matches!(head[at + 1], b' ' | b'\t') {
            head[at] = b' ';
            if head[at - 1] == b'\r' {
                head[at - 1] = b' ';
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rng;

    /// Returns all responses that a parser finds in `bytes` when it gets them in pieces of `piece` bytes.
    fn read(bytes: &[u8], piece: usize) -> Result<Vec<(u16, Vec<u8>, bool)>, ResponseError> {
        let mut parser = ResponseParser::new();
        let mut all: Vec<(u16, Vec<u8>, bool)> = Vec::new();
        for mut input in bytes.chunks(piece) {
            loop {
                match parser.step(&mut input)? {
                    Step::More => break,
                    Step::Head(head) => all.push((head.status, Vec::new(), false)),
                    Step::Body(body) => all.last_mut().expect("a head came first").1.extend_from_slice(body),
                    Step::End => all.last_mut().expect("a head came first").2 = true,
                }
            }
        }
        Ok(all)
    }

    const TWO: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello\
        HTTP/1.1 404 Not Found\r\ntransfer-encoding: Chunked\r\n\r\n3;x=y\r\nabc\r\nA\r\n0123456789\r\n0\r\nT: v\r\n\r\n\
        HTTP/1.1 204 No Content\r\n\r\nHTTP/1.1 200 OK\r\ncontent-length: 0\r\nConnection: foo, Close\r\n\r\n";

    #[test]
    fn folded_fields_are_unfolded() {
        let unfolded = |head: &str| {
            let mut bytes = head.as_bytes().to_vec();
            unfold(&mut bytes);
            String::from_utf8(bytes).expect("text")
        };
        assert_eq!(
            unfolded("HTTP/1.1 200 OK\r\nA: b\r\n c\r\n\td\r\nE: f\n g\r\n\r\n"),
            "HTTP/1.1 200 OK\r\nA: b   c  \td\r\nE: f  g\r\n\r\n"
        );
        let first = "HTTP/1.1 200 OK\r\n A: b\r\n\r\n";
        assert_eq!(unfolded(first), first);
        for fields in ["X: a\r\n b\r\nContent-Length: 5", "Content-Length:\r\n 5", "Content-Length: 5\r\n\t"]
        {
            let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nabcde");
            for piece in [1, 7, 999] {
                assert_eq!(read(answer.as_bytes(), piece).map(|_| ()), Ok(()), "{fields}");
            }
        }
        for fields in ["Content-Length: 5\r\n 6", "Content-Length\r\n : 5"] {
            let answer = format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\nabcde");
            assert!(read(answer.as_bytes(), 999).is_err(), "{fields}");
        }
    }

    #[test]
    fn responses_parse_in_pieces_of_any_size() {
        let whole = read(TWO, TWO.len()).expect("responses");
        let bodies: Vec<_> =
            whole.iter().map(|(status, body, end)| (*status, body.as_slice(), *end)).collect();
        assert_eq!(
            bodies,
            [(200, &b"hello"[..], true), (404, b"abc0123456789", true), (204, b"", true), (200, b"", true)]
        );
        for piece in 1..TWO.len() {
            assert_eq!(read(TWO, piece).as_ref(), Ok(&whole), "pieces of {piece}");
        }
    }

    /// Bytes that cannot begin a response give an error at once, because the peer may be waiting for the client. The
    /// status 101, and every status below 100, is an error too (RFC 9110 §15).
    #[test]
    fn what_cannot_become_an_answer_is_not_waited_for() {
        for start in [&b"S"[..], b"SSH-2.0", b"HTTP/2", b"\r\nHTTPS", b"HTTP/0."] {
            let version = ResponseError::Head(httparse::Error::Version);
            assert_eq!(read(start, start.len()), Err(version), "{}", start.escape_ascii());
        }
        for start in [&b"H"[..], b"HTTP/1.", b"\r\nHTTP/1.1 2"] {
            assert_eq!(read(start, start.len()), Ok(Vec::new()), "{}", start.escape_ascii());
        }
        for status in ["000", "099", "101"] {
            let head = format!("HTTP/1.1 {status} x\r\n\r\n");
            let none = ResponseError::Head(httparse::Error::Status);
            assert_eq!(read(head.as_bytes(), head.len()), Err(none), "{status}");
        }
    }

    #[test]
    fn odd_input_is_an_error() {
        let head = |fields: &str| format!("HTTP/1.1 200 OK\r\n{fields}\r\n\r\n").into_bytes();
        let chunked = |rest: &str| [head("Transfer-Encoding: chunked"), rest.into()].concat();
        let cases: [(Vec<u8>, ResponseError); 11] = [
            (b"ICY 200 OK\r\nlots of it\r\n\r\n".to_vec(), ResponseError::Head(httparse::Error::Version)),
            (b"HTTP/1.1 99x OK\r\n\r\n".to_vec(), ResponseError::Head(httparse::Error::Status)),
            (head("Server: x"), ResponseError::NoLength),
            (head("Content-Length: -1"), ResponseError::Length),
            (head("Content-Length: 1, 1"), ResponseError::Length),
            (head("Content-Length: 18446744073709551616"), ResponseError::Length),
            (head("Content-Length: 1\r\nContent-Length: 2"), ResponseError::Length),
            (head("Transfer-Encoding: gzip"), ResponseError::Coding),
            (chunked("zz\r\n"), ResponseError::Chunk),
            (chunked("1\r\nab\r\n"), ResponseError::Chunk),
            (chunked("11111111111111111\r\n"), ResponseError::Chunk),
        ];
        for (bytes, error) in cases {
            for piece in [1, 7, bytes.len()] {
                assert_eq!(read(&bytes, piece), Err(error.clone()), "{}", String::from_utf8_lossy(&bytes));
            }
        }
        let huge = [b"HTTP/1.1 200 OK\r\nA: ".as_slice(), &vec![b'x'; MAX_HEAD]].concat();
        assert_eq!(read(&huge, 1000), Err(ResponseError::HeadTooLarge));
        let line = [chunked("1;"), vec![b'x'; MAX_LINE]].concat();
        assert_eq!(read(&line, 1000), Err(ResponseError::Chunk));
        let mut interim = b"HTTP/1.1 102 Processing\r\n\r\n".repeat(MAX_INTERIM as usize);
        interim.extend_from_slice(TWO);
        // `TWO` adds one more interim response, which exceeds the limit.
        assert_eq!(read(&interim, 1000), Err(ResponseError::Interim));
        let (_, fewer) = interim.split_at(27);
        assert_eq!(read(fewer, 1000).expect("responses").len(), 4);
        let hint = [b"HTTP/1.1 103 Early Hints\r\nLink: ".as_slice(), &[b'x'; 60_000], b"\r\n\r\n"].concat();
        assert_eq!(read(&hint.repeat(2), 1000), Ok(vec![]));
        assert_eq!(read(&hint.repeat(3), 1000), Err(ResponseError::Interim));
        let many = [b"HTTP/1.1 200 OK\r\n".as_slice(), &b"A: b\r\n".repeat(MAX_FIELDS + 1), b"\r\n"].concat();
        assert_eq!(read(&many, 999), Err(ResponseError::Head(httparse::Error::TooManyHeaders)));
    }

    #[test]
    fn a_body_without_length_ends_with_the_stream() {
        let mut parser = ResponseParser::new().with_eof_bodies(true);
        let mut input = &b"HTTP/1.1 200 OK\r\n\r\nto the "[..];
        let head = Head { status: 200, length: None, close: true };
        assert_eq!(parser.step(&mut input), Ok(Step::Head(head)));
        assert_eq!(parser.step(&mut input), Ok(Step::Body(b"to the ")));
        assert_eq!(parser.step(&mut input), Ok(Step::More));
        assert_eq!(parser.step(&mut &b"end"[..]), Ok(Step::Body(b"end")));
        assert!(parser.end() && parser.is_between() && !parser.end());
        // The end of the stream completes a response only if a body without a length is being received.
        for cut in [
            "",
            "HTTP/1.1 200",
            "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhell",
            "HTTP/1.1 204 No\r\n\r\n",
        ] {
            let mut parser = ResponseParser::new().with_eof_bodies(true);
            let mut input = cut.as_bytes();
            while !matches!(parser.step(&mut input), Ok(Step::More)) {}
            assert!(!parser.end(), "{cut}");
        }
    }

    #[test]
    fn noise_never_panics() {
        let mut rng = Rng::new(9112);
        for _ in 0..20_000 {
            let mut bytes = TWO.to_vec();
            for _ in 0..=rng.below(4) {
                let at = rng.below(bytes.len() as u64) as usize;
                match rng.below(3) {
                    0 => bytes[at] = rng.next_u32() as u8,
                    1 => bytes.truncate(at.max(1)),
                    _ => {
                        bytes.remove(at);
                        bytes.push(b'\n');
                    }
                }
            }
            let piece = 1 + rng.below(64) as usize;
            let _ = read(&bytes, piece);
        }
    }
}
