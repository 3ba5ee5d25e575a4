//! Messages that have been received in part. The engine delivers a large message in parts (RFC 9260 §6.9), but programs
//! receive it as a whole. This module keeps the received parts, so that a waiting call may be dropped at any time.
//!
//! Implements RFC 6458 §3.1.4 (partial delivery) in part.

use crate::message::{Received, RecvError};
use anabranch_sctp::Received as Part;
use bytes::{Buf, Bytes, BytesMut};

/// The messages that have been received in part: at most one ordered and one unordered message per stream.
#[derive(Debug, Default)]
pub(crate) struct Partials(Vec<Partial>);

/// A message that has been received in part.
#[derive(Debug)]
struct Partial {
    stream: u16,
    unordered: bool,
    bytes: BytesMut,
    /// Whether the message was too long, so that its remaining parts are discarded.
    is_discarded: bool,
}

impl Partials {
    fn find(&self, stream: u16, unordered: bool) -> Option<usize> {
        self.0.iter().position(|partial| partial.stream == stream && partial.unordered == unordered)
    }

    /// Adds the part `bytes` of a message. Returns the message once it is complete. Returns an error if the message has
    /// more than `limit` bytes.
    pub(crate) fn take_in(
        &mut self,
        stream: u16,
        part: &Part,
        bytes: &[u8],
        limit: usize,
    ) -> Result<Option<Received>, RecvError> {
        let index = self.find(stream, part.unordered);
        if part.incomplete {
            // RFC 3758 §3.6: the peer has abandoned the message, so the parts received so far are discarded.
            index.map(|index| self.0.swap_remove(index));
            return Ok(None);
        }
        let whole = |bytes: Bytes| Received {
            stream,
            ppid: part.ppid,
            unordered: part.unordered,
            ssn: part.ssn,
            bytes,
        };
        if index.is_none() && part.end_of_message && bytes.len() <= limit {
            return Ok(Some(whole(Bytes::copy_from_slice(bytes))));
        }
        let index = index.unwrap_or_else(|| {
            let (bytes, is_discarded) = (BytesMut::new(), false);
            self.0.push(Partial { stream, unordered: part.unordered, bytes, is_discarded });
            self.0.len() - 1
        });
        let partial = &mut self.0[index];
        let is_discarded = partial.is_discarded;
        if !is_discarded {
            if partial.bytes.len() + bytes.len() > limit {
                (partial.bytes, partial.is_discarded) = (BytesMut::new(), true);
            } else {
                partial.bytes.extend_from_slice(bytes);
            }
        }
        let too_long = partial.is_discarded && !is_discarded;
        let done = part.end_of_message.then(|| self.0.swap_remove(index));
        match done {
            _ if too_long => Err(RecvError::TooLong { stream, limit }),
            Some(done) if !done.is_discarded => Ok(Some(whole(done.bytes.freeze()))),
            _ => Ok(None),
        }
    }

    /// Copies the received parts of a stream's message to `into`, up to the length of `into`. Returns the number of
    /// bytes, or `None` if no parts are kept.
    pub(crate) fn take_bytes(&mut self, stream: u16, into: &mut [u8]) -> Option<usize> {
        let index =
            self.0.iter().position(|partial| partial.stream == stream && !partial.bytes.is_empty())?;
        let partial = &mut self.0[index];
        let length = partial.bytes.len().min(into.len());
        into[..length].copy_from_slice(&partial.bytes[..length]);
        partial.bytes.advance(length);
        if partial.bytes.is_empty() {
            self.0.swap_remove(index);
        }
        Some(length)
    }

    /// Discards the received parts of a stream's messages, because they will not be read.
    pub(crate) fn forget(&mut self, stream: u16) {
        self.0.retain(|partial| partial.stream != stream);
    }

    /// Returns whether a part belongs to a message that exceeds the size limit. Such parts are discarded, up to and
    /// including the last part of the message.
    pub(crate) fn is_discarding(&mut self, stream: u16, part: &Part) -> bool {
        let index = self.find(stream, part.unordered).filter(|&index| self.0[index].is_discarded);
        if part.end_of_message {
            index.map(|index| self.0.swap_remove(index));
        }
        index.is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn part(end_of_message: bool, incomplete: bool) -> Part {
        let mut part = Part::default();
        (part.ppid, part.ssn, part.end_of_message, part.incomplete) = (7, 3, end_of_message, incomplete);
        part
    }

    #[test]
    fn a_message_of_parts_is_whole_and_one_that_is_too_long_is_passed_over() {
        let mut partials = Partials::default();
        let mut give = |bytes: &[u8], end| partials.take_in(5, &part(end, false), bytes, 6);
        assert_eq!(give(b"one", false), Ok(None));
        let whole = give(b"two", true).expect("short enough").expect("its end has come");
        assert_eq!((&whole.bytes[..], whole.ppid, whole.stream), (&b"onetwo"[..], 7, 5));
        assert_eq!(give(b"four", false), Ok(None));
        assert_eq!(give(b"five", false), Err(RecvError::TooLong { stream: 5, limit: 6 }));
        assert_eq!(give(b"six", true), Ok(None), "told once");
        assert_eq!(give(b"seven..", true), Err(RecvError::TooLong { stream: 5, limit: 6 }));
        assert_eq!(
            give(b"eight", true).expect("short").map(|got| got.bytes),
            Some(Bytes::from_static(b"eight"))
        );
    }

    #[test]
    fn messages_abandoned_by_the_peer_are_dropped() {
        let mut partials = Partials::default();
        assert_eq!(partials.take_in(5, &part(false, false), b"never", 100), Ok(None));
        assert_eq!(partials.take_in(5, &part(true, true), b"", 100), Ok(None));
        let next = partials.take_in(5, &part(true, false), b"next", 100).expect("short").expect("whole");
        assert_eq!(next.bytes, "next");
    }

    #[test]
    fn what_was_read_of_a_message_is_there_for_who_reads_bytes() {
        let mut partials = Partials::default();
        assert_eq!(partials.take_in(5, &part(false, false), b"begun", 100), Ok(None));
        let mut into = [0; 3];
        assert_eq!((partials.take_bytes(5, &mut into), into), (Some(3), *b"beg"));
        assert_eq!((partials.take_bytes(5, &mut into), &into[..2]), (Some(2), &b"un"[..]));
        assert_eq!(partials.take_bytes(5, &mut into), None);
    }
}
