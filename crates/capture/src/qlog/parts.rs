//! Splits a qlog into its head and its events, so that a log is never in memory as a whole. In JSON the events are the
//! elements of arrays `events`; in JSON text sequences (RFC 7464) each record after the first is an event.

use std::io::{self, BufRead, Bytes};

/// The maximum length of the head, and of an event, in bytes. Longer events are skipped.
const MAX_PART: usize = 1 << 20;
/// The maximum depth of nested objects and arrays.
const MAX_DEPTH: usize = 64;
/// The maximum depth of an array `events`: within a trace, within `traces`, within the file.
const MAX_EVENTS_DEPTH: usize = 4;

/// A part of a qlog file, as JSON text.
pub(super) enum Part {
    /// The text before the events. If there are several traces, a head precedes the events of each trace.
    Head(Vec<u8>),
    Event(Vec<u8>),
}

pub(super) struct Parts<R> {
    input: Bytes<R>,
    /// The offset in the file of the next byte to read.
    pub at: u64,
    /// The closing brackets of the open objects and arrays.
    open: Vec<u8>,
    in_string: bool,
    is_escaped: bool,
    /// The beginning of the last string, to recognize the key `events`.
    word: Vec<u8>,
    head: Vec<u8>,
    event: Vec<u8>,
    /// The depth of the array `events` that is being read.
    events: Option<usize>,
    had_events: bool,
    has_head: bool,
    /// The number of parts of the file that were skipped because they were too long.
    pub too_long: u64,
}

impl<R: BufRead> Parts<R> {
    pub fn new(input: R) -> Self {
        Self {
            input: input.bytes(),
            at: 0,
            open: Vec::new(),
            in_string: false,
            is_escaped: false,
            word: Vec::new(),
            head: Vec::new(),
            event: Vec::new(),
            events: None,
            had_events: false,
            has_head: false,
            too_long: 0,
        }
    }

    /// Returns the next part, or `None` at the end of the file.
    pub fn next(&mut self) -> io::Result<Option<Part>> {
        while let Some(byte) = self.input.next() {
            self.at += 1;
            if let Some(part) = self.byte(byte?)? {
                return Ok(Some(part));
            }
        }
        Ok(None)
    }

    /// Returns whether the file ends within an object or an array.
    pub fn is_cut(&self) -> bool {
        !self.open.is_empty()
    }

    fn byte(&mut self, byte: u8) -> io::Result<Option<Part>> {
        if self.in_string {
            self.push(byte);
            if self.is_escaped {
                self.is_escaped = false;
            } else if byte == b'"' {
                self.in_string = false;
            } else if byte == b'\\' {
                self.is_escaped = true;
            } else if self.word.len() < 8 {
                self.word.push(byte);
            }
            return Ok(None);
        }
        match byte {
            b'"' => {
                self.in_string = true;
                self.word.clear();
                self.push(byte);
            }
            b'{' | b'[' => return self.opens(byte),
            b'}' | b']' => return Ok(self.closes(byte)),
            // Keeps the last string. It may be the key before a colon.
            b':' | b' ' | b'\t' | b'\r' | b'\n' => self.push(byte),
            _ => {
                self.word.clear();
                self.push(byte);
            }
        }
        Ok(None)
    }

    fn opens(&mut self, byte: u8) -> io::Result<Option<Part>> {
        if self.open.len() >= MAX_DEPTH {
            return Err(io::Error::from(io::ErrorKind::InvalidData));
        }
        if self.open.is_empty() {
            self.head.clear();
        }
        self.open.push(if byte == b'{' { b'}' } else { b']' });
        self.push(byte);
        let is_events = byte == b'[' && self.word == b"events";
        self.word.clear();
        if is_events && !self.has_head && self.events.is_none() && self.open.len() <= MAX_EVENTS_DEPTH {
            self.events = Some(self.open.len());
            // Closes the brackets that are still open where the head ends.
            let head = self.head.iter().chain(self.open.iter().rev()).copied().collect();
            return Ok(Some(Part::Head(head)));
        }
        Ok(None)
    }

    fn closes(&mut self, byte: u8) -> Option<Part> {
        self.word.clear();
        // A bracket that does not match is no JSON. It is skipped, because later records may be intact.
        if self.open.last() != Some(&byte) {
            return None;
        }
        if self.events == Some(self.open.len()) {
            (self.events, self.had_events) = (None, true);
        }
        self.push(byte);
        self.open.pop();
        if self.events == Some(self.open.len()) {
            let event = std::mem::take(&mut self.event);
            return self.short(event).map(Part::Event);
        }
        if !self.open.is_empty() {
            return None;
        }
        let is_first = !std::mem::replace(&mut self.has_head, true);
        if is_first && self.had_events {
            return None;
        }
        let record = std::mem::take(&mut self.head);
        self.short(record).map(if is_first { Part::Head } else { Part::Event })
    }

    /// Returns `part` or, if it is too long, counts it and returns `None`.
    fn short(&mut self, part: Vec<u8>) -> Option<Vec<u8>> {
        let is_short = part.len() <= MAX_PART;
        self.too_long += u64::from(!is_short);
        is_short.then_some(part)
    }

    /// Adds a byte to the part to which it belongs.
    fn push(&mut self, byte: u8) {
        let part = match self.events {
            None => &mut self.head,
            Some(depth) if self.open.len() > depth => &mut self.event,
            // Between two events.
            Some(_) => return,
        };
        if part.len() <= MAX_PART {
            part.push(byte);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the parts of a text, each marked with `H` or `E`.
    fn parts(text: &str) -> Vec<String> {
        let mut parts = Parts::new(text.as_bytes());
        std::iter::from_fn(|| parts.next().expect("read"))
            .map(|part| {
                let (mark, text) = match part {
                    Part::Head(text) => ('H', text),
                    Part::Event(text) => ('E', text),
                };
                format!("{mark}{}", String::from_utf8(text).expect("text"))
            })
            .collect()
    }

    #[test]
    fn json_is_split_at_its_events() {
        let text = r#"{"v":"}","traces":[{"a":1,"events": [{"e":"]\"}"}, {"f":{"events":[1]}}]},{"b":2,"events":[{}]}]}"#;
        let expected = [
            r#"H{"v":"}","traces":[{"a":1,"events": []}]}"#,
            r#"E{"e":"]\"}"}"#,
            r#"E{"f":{"events":[1]}}"#,
            r#"H{"v":"}","traces":[{"a":1,"events": []},{"b":2,"events":[]}]}"#,
            r#"E{}"#,
        ];
        assert_eq!(parts(text), expected);
        // A log that was cut off must give the events that are complete.
        assert_eq!(parts(&text[..60]), expected[..2]);
    }

    #[test]
    fn text_sequences_are_split_at_their_records() {
        let text = "\u{1e}{\"trace\":{}}\n\u{1e}{\"time\":1}\n]\u{1e}{\"events\":[{}]}\n\u{1e}{\"time\":";
        assert_eq!(parts(text), [r#"H{"trace":{}}"#, r#"E{"time":1}"#, r#"E{"events":[{}]}"#]);
    }

    #[test]
    fn parts_have_a_maximum_length_and_depth() {
        let long = format!("{{\"events\":[{{\"a\":\"{}\"}},{{}}]}}", "x".repeat(MAX_PART));
        assert_eq!(parts(&long), [r#"H{"events":[]}"#, "E{}"]);
        let mut deep = Parts::new([b'['; MAX_DEPTH + 1].as_slice());
        assert!(deep.next().is_err());
    }
}
