//! Parses the message on a request stream, and checks the order of its frames.
//!
//! Implements RFC 9114 §4.1 and §7.1 for a receiver. This module does no I/O.

use super::MAX_HEAD;
use super::code::{Code, Error};
use super::frame::{FrameHeader, Payload, kind};
use crate::message::{ContentLength, Malformed, ResponseHead, Section};
use anabranch_wire::qpack;
use bytes::Bytes;
use http::Request;

/// Parses one request or response.
#[derive(Debug)]
pub(crate) struct MessageReader {
    /// Whether the message is a request; otherwise it is a response.
    is_request: bool,
    /// The maximum size of an accepted header section, computed as in RFC 9114 §4.2.2.
    max_head: u64,
    part: Part,
    header: FrameHeader,
    frame: Option<Frame>,
    content: ContentLength,
    /// The number of content bytes received.
    content_bytes: u64,
    /// The number of bytes received that are not content.
    other_bytes: u64,
}

/// The part of the message that was received last.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Part {
    Nothing,
    Head,
    Trailers,
}

/// A frame whose header has been received.
#[derive(Debug)]
enum Frame {
    /// A HEADERS frame, with its length and the payload received so far.
    Headers(u64, Payload),
    /// A DATA frame, with the number of bytes that remain.
    Data(u64),
    /// An ignored frame, with the number of bytes that remain.
    Ignored(u64),
}

/// The next event of a message.
#[derive(Debug)]
pub(crate) enum Event {
    /// The head of the request.
    Request(Request<()>),
    /// The head of the final response.
    Response(ResponseHead),
    /// The head exceeds the limit. The value is the size of the head in bytes.
    HeadTooLarge(u64),
    /// A piece of the content.
    Data(Bytes),
}

impl MessageReader {
    /// Returns a reader that expects a message from its start.
    pub(crate) fn new(is_request: bool, max_head: u64) -> Self {
        Self {
            is_request,
            max_head,
            part: Part::Nothing,
            header: FrameHeader::default(),
            frame: None,
            content: ContentLength::default(),
            content_bytes: 0,
            other_bytes: 0,
        }
    }

    /// Returns the length of the content, if the head declares it.
    pub(crate) fn content_length(&self) -> Option<u64> {
        self.content.declared()
    }

    /// Consumes bytes from the front of `input` and returns the next event; `None` if more input is needed.
    pub(crate) fn read(&mut self, input: &mut Bytes) -> Result<Option<Event>, Error> {
        loop {
            let before = input.len();
            match &mut self.frame {
                None => {
                    let header = self.header.take(input);
                    self.count_other(before - input.len())?;
                    let Some((of, length)) = header else { return Ok(None) };
                    if let Some(too_large) = self.begin(of, length)? {
                        return Ok(Some(too_large));
                    }
                }
                Some(Frame::Data(0) | Frame::Ignored(0)) => self.frame = None,
                Some(Frame::Data(left)) => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let data = input.split_to((*left).min(before as u64) as usize);
                    *left -= data.len() as u64;
                    self.content_bytes += data.len() as u64;
                    return Ok(Some(Event::Data(data)));
                }
                Some(Frame::Ignored(left)) => {
                    if input.is_empty() {
                        return Ok(None);
                    }
                    let skipped = input.split_to((*left).min(before as u64) as usize).len();
                    *left -= skipped as u64;
                    self.count_other(skipped)?;
                }
                Some(Frame::Headers(length, payload)) => {
                    let section = payload.take(input, *length);
                    self.count_other(before - input.len())?;
                    let Some(section) = section else { return Ok(None) };
                    self.frame = None;
                    if let Some(event) = self.section(&section)? {
                        return Ok(Some(event));
                    }
                }
            }
        }
    }

    /// Records the end of the stream. Fails if the message is incomplete.
    pub(crate) fn end(&self) -> Result<(), Error> {
        let is_between = matches!(self.frame, None | Some(Frame::Data(0) | Frame::Ignored(0)));
        // RFC 9114 §7.1: it is an error if the stream ends within a frame.
        if !(is_between && self.header.is_empty()) {
            return Err(Error::connection(Code::H3_FRAME_ERROR, "a stream ended within a frame"));
        }
        match self.part {
            // RFC 9114 §4.1: a stream without a complete request is a stream error.
            Part::Nothing if self.is_request => {
                Err(Error::stream(Code::H3_REQUEST_INCOMPLETE, "a stream ended without a request"))
            }
            Part::Nothing => Err(malformed(Malformed("a stream ended without a final response"))),
            Part::Head | Part::Trailers => self.content.end().map_err(malformed),
        }
    }

    /// Handles the header of a frame. `of` is the frame type, and `length` is the length of the frame's payload in
    /// bytes.
    fn begin(&mut self, of: u64, length: u64) -> Result<Option<Event>, Error> {
        let unexpected = |reason: &str| Err(Error::connection(Code::H3_FRAME_UNEXPECTED, reason));
        self.frame = Some(match of {
            // RFC 9114 §4.1: content comes after the head of the request or of the final response, and before trailers.
            kind::DATA if self.part == Part::Nothing => return unexpected("DATA comes before HEADERS"),
            kind::DATA if self.part == Part::Trailers => return unexpected("DATA comes after the trailers"),
            kind::DATA => {
                // RFC 9114 §4.1.2: the content must not be longer than declared.
                self.content.add(length).map_err(malformed)?;
                Frame::Data(length)
            }
            kind::HEADERS if self.part == Part::Trailers => {
                return unexpected("HEADERS comes after the trailers");
            }
            // No acceptable head is this long in any encoding, so the head is refused before its payload arrives.
            kind::HEADERS if length > 2 * self.max_head => {
                self.frame = Some(Frame::Ignored(length));
                return self.too_large(length).map(Some);
            }
            kind::HEADERS => Frame::Headers(length, Payload::default()),
            // RFC 9114 §7.2.5: a server must not send PUSH_PROMISE to this client, because the client never sends
            // MAX_PUSH_ID.
            kind::PUSH_PROMISE if !self.is_request => {
                let reason = "PUSH_PROMISE has a push ID that nothing allows";
                return Err(Error::connection(Code::H3_ID_ERROR, reason));
            }
            // RFC 9114 §7.2.3 to §7.2.7: the frame types of this arm are not allowed on a request stream.
            kind::PUSH_PROMISE | kind::CANCEL_PUSH | kind::SETTINGS | kind::GOAWAY | kind::MAX_PUSH_ID => {
                return unexpected(&format!("a frame of type {of:#x} on a request stream"));
            }
            // RFC 9114 §7.2.8, RFC 9218 §7.2: the frame types of this arm are not allowed on a request stream.
            of if kind::RESERVED.contains(&of) || kind::PRIORITY_UPDATE.contains(&of) => {
                return unexpected(&format!("a frame of type {of:#x} on a request stream"));
            }
            // RFC 9114 §9: a frame of an unknown type is ignored.
            _ => Frame::Ignored(length),
        });
        Ok(None)
    }

    /// Decodes a complete field section. Returns an event if it is the head of a request or of a final response.
    fn section(&mut self, encoded: &[u8]) -> Result<Option<Event>, Error> {
        let mut section = Section::new(self.max_head);
        qpack::decode(encoded, |name, value| section.add(name, value))
            .map_err(|reason| Error::connection(Code::QPACK_DECOMPRESSION_FAILED, reason))?;
        if let Some(size) = section.oversize() {
            return self.too_large(size).map(Some);
        }
        if self.part == Part::Head {
            self.part = Part::Trailers;
            section.check_trailers().map_err(malformed)?;
            return Ok(None);
        }
        if self.is_request {
            let (request, content) = section.into_request().map_err(malformed)?;
            (self.part, self.content) = (Part::Head, content);
            return Ok(Some(Event::Request(request)));
        }
        let head = section.into_response().map_err(malformed)?;
        // RFC 9114 §4.1: interim responses come before the final one. They are skipped.
        if head.status.is_informational() {
            return Ok(None);
        }
        (self.part, self.content) = (Part::Head, head.content);
        Ok(Some(Event::Response(head)))
    }

    /// Handles a head or trailer section that exceeds the limit. `bytes` is the size of the section.
    fn too_large(&self, bytes: u64) -> Result<Event, Error> {
        match self.part {
            Part::Nothing => Ok(Event::HeadTooLarge(bytes)),
            // The section holds trailers. A response may already have been sent, so status 431 cannot report the error.
            _ => Err(Error::stream(Code::H3_EXCESSIVE_LOAD, format!("trailers of {bytes} bytes"))),
        }
    }

    /// Counts bytes that are not content. Fails if their number exceeds what a legitimate peer needs.
    fn count_other(&mut self, bytes: usize) -> Result<(), Error> {
        self.other_bytes += bytes as u64;
        if self.other_bytes > MAX_OTHER + self.content_bytes / 16 {
            let reason = format!("more than {MAX_OTHER} bytes of heads, or of frames that are to be ignored");
            return Err(Error::stream(Code::H3_EXCESSIVE_LOAD, reason));
        }
        Ok(())
    }
}

fn malformed(reason: Malformed) -> Error {
    Error::stream(Code::H3_MESSAGE_ERROR, reason.0)
}

/// The maximum number of bytes on a request stream that are not content. The limit leaves room for an acceptable head
/// in any encoding, including its frame header.
const MAX_OTHER: u64 = 2 * MAX_HEAD + 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn non_content_bytes_are_limited_to_a_sixteenth_of_the_content() {
        let mut reader = MessageReader::new(true, MAX_HEAD);
        (reader.content_bytes, reader.other_bytes) = (1_600, 24);
        assert_eq!(reader.count_other((MAX_OTHER + 100 - 24) as usize), Ok(()));
        assert!(matches!(reader.count_other(1), Err(Error::Stream(Code::H3_EXCESSIVE_LOAD, _))));
    }
}
