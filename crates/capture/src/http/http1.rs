//! HTTP/1.1: heads and the lengths of bodies.
//!
//! Implements RFC 9112 §3 and §4 (start lines), §6 (length of a body), §7.1 (chunks), §9.3.2 (pipelining).

use super::{MAX_TARGET, Requests};
use crate::arrival::Side;
use std::collections::VecDeque;

/// The maximum length of a head in bytes. After a longer head, the direction is not read any further.
const MAX_HEAD: usize = 1 << 16;
/// The maximum number of requests that wait for their responses.
const MAX_PIPELINED: usize = 1 << 12;
const METHODS: [&str; 9] = ["GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"];

/// Returns whether a client that sends these bytes speaks HTTP/1.1.
pub(super) fn begins(bytes: &[u8]) -> bool {
    METHODS
        .iter()
        .any(|method| bytes.strip_prefix(method.as_bytes()).is_some_and(|rest| rest.first() == Some(&b' ')))
}

/// The part of an HTTP/1.1 message to which the next bytes of a direction belong.
#[derive(Debug, Default)]
enum Part {
    #[default]
    Head,
    /// A body, with the number of its bytes that have not arrived.
    Body(u64),
    /// The line with the length of a chunk.
    ChunkHead,
    /// A chunk, and the line end after it.
    Chunk(u64),
    /// The fields after the last chunk.
    Trailer,
    /// A body that ends with the connection, or bytes that cannot be read.
    UntilEnd,
}

#[derive(Debug, Default)]
struct Half {
    part: Part,
    /// The head or line, as far as it has arrived.
    line: Vec<u8>,
    /// The identifier of the request to which the current message belongs.
    id: u64,
}

#[derive(Debug, Default)]
pub(super) struct Http1 {
    halves: [Half; 2],
    /// The requests that wait for their responses, and whether each is a HEAD request.
    waiting: VecDeque<(u64, bool)>,
    next: u64,
}

impl Http1 {
    pub fn bytes(&mut self, at: u64, side: Side, mut bytes: &[u8], requests: &mut Requests) {
        while !bytes.is_empty() {
            let half = &mut self.halves[side];
            match half.part {
                Part::UntilEnd => {
                    requests.body(half.id, side, bytes.len() as u64);
                    return;
                }
                Part::Body(rest) | Part::Chunk(rest) => {
                    let count = rest.min(bytes.len() as u64);
                    bytes = &bytes[count as usize..];
                    let is_chunk = matches!(half.part, Part::Chunk(_));
                    // The last two bytes of a chunk are its line end, which does not count as content.
                    let after = (rest - count).min(2);
                    let counted = if is_chunk { count - (rest.min(2) - after) } else { count };
                    requests.body(half.id, side, counted);
                    half.part = match (rest - count, is_chunk) {
                        (0, true) => Part::ChunkHead,
                        (0, false) => Part::Head,
                        (rest, true) => Part::Chunk(rest),
                        (rest, false) => Part::Body(rest),
                    };
                    if rest == count && !is_chunk {
                        self.complete(at, side, requests);
                    }
                }
                Part::Head | Part::ChunkHead | Part::Trailer => {
                    let end = bytes.iter().position(|byte| *byte == b'\n').map_or(bytes.len(), |end| end + 1);
                    half.line.extend_from_slice(&bytes[..end]);
                    bytes = &bytes[end..];
                    if half.line.len() > MAX_HEAD {
                        half.part = Part::UntilEnd;
                    } else if half.line.ends_with(b"\n") {
                        self.line(at, side, requests);
                    }
                }
            }
        }
    }

    /// RFC 9112 §6.3: the end of the server's bytes ends a response without a length.
    pub fn ends(&mut self, at: u64, requests: &mut Requests) {
        if let Part::UntilEnd = self.halves[1].part {
            self.complete(at, 1, requests);
        }
    }

    /// Processes the line that has just ended.
    fn line(&mut self, at: u64, side: Side, requests: &mut Requests) {
        let half = &mut self.halves[side];
        let is_whole = half.line.ends_with(b"\r\n\r\n") || half.line.ends_with(b"\n\n");
        let is_empty = half.line == b"\r\n" || half.line == b"\n";
        match half.part {
            // RFC 9112 §2.2: empty lines before a start line are ignored.
            Part::Head if is_empty => half.line.clear(),
            Part::Head if is_whole => {
                let text = String::from_utf8_lossy(&std::mem::take(&mut half.line)).into_owned();
                self.head(at, side, &text, requests);
            }
            Part::ChunkHead => {
                let line = std::mem::take(&mut half.line);
                let digits: String = line
                    .iter()
                    .take(16)
                    .map(|byte| char::from(*byte))
                    .take_while(char::is_ascii_hexdigit)
                    .collect();
                half.part = match u64::from_str_radix(&digits, 16) {
                    Ok(0) => Part::Trailer,
                    Ok(length) => Part::Chunk(length.saturating_add(2)),
                    Err(_) => Part::UntilEnd,
                };
            }
            Part::Trailer if is_empty || is_whole => {
                half.line.clear();
                half.part = Part::Head;
                self.complete(at, side, requests);
            }
            _ => {}
        }
    }

    fn head(&mut self, at: u64, side: Side, text: &str, requests: &mut Requests) {
        let mut lines = text.lines();
        let mut words = lines.next().unwrap_or_default().split(' ');
        let (first, second) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
        let (mut length, mut is_chunked) = (None, false);
        for (name, value) in lines.filter_map(|line| line.split_once(':')) {
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok();
            } else if name.eq_ignore_ascii_case("transfer-encoding") {
                is_chunked = value.to_ascii_lowercase().contains("chunked");
            }
        }
        let mut has_body = true;
        if side == 0 {
            (self.halves[0].id, self.next) = (self.next, self.next + 1);
            let id = self.halves[0].id;
            requests.begin(at, id);
            if let Some(request) = requests.on(id) {
                let short = |text: &str| Some(text.chars().take(MAX_TARGET).collect());
                (request.stream, request.method, request.target) = (0, short(first), short(second));
            }
            if self.waiting.len() < MAX_PIPELINED {
                self.waiting.push_back((id, first == "HEAD"));
            }
            length = length.or(Some(0));
        } else {
            let status: u16 = second.parse().unwrap_or(0);
            let (id, is_head) = self.waiting.front().copied().unwrap_or_default();
            self.halves[1].id = id;
            requests.answered(at, id);
            if (100..200).contains(&status) && status != 101 {
                return;
            }
            if let Some(request) = requests.on(id) {
                request.status = Some(status);
            }
            has_body = !is_head && ![204, 304].contains(&status);
        }
        let half = &mut self.halves[side];
        half.part = match length {
            _ if !has_body => Part::Head,
            _ if is_chunked => Part::ChunkHead,
            Some(0) => Part::Head,
            Some(length) => Part::Body(length),
            None => Part::UntilEnd,
        };
        if let Part::Head = half.part {
            self.complete(at, side, requests);
        }
    }

    /// Records that a request or a response is complete.
    fn complete(&mut self, at: u64, side: Side, requests: &mut Requests) {
        if side == 1 {
            requests.done(at, self.halves[1].id);
            self.waiting.pop_front();
        }
    }
}
