//! Transfers messages and bytes between programs and the engine, behind the lock. This module has no buffers of its
//! own. An accepted message is in the engine's send buffer, and a received message stays in the engine's receive buffer
//! until it is read.
//!
//! Implements RFC 9260 §11.1.5 and §11.1.7 in part.

use crate::message::{Received, RecvError, SendError, SendOptions};
use crate::state::State;
use anabranch_base::Instant;
use anabranch_sctp::{AssociationId, SendError as EngineError};
use anabranch_transport::CloseReason;
use anabranch_transport::sctp::PPID_HTTP;

impl State {
    /// Queues a message if the send buffer has room for it and no earlier message still waits for room. Returns whether
    /// the message was queued.
    pub(crate) fn send(
        &mut self,
        now: Instant,
        id: AssociationId,
        ticket: Option<u32>,
        stream: u16,
        message: &[u8],
        options: &SendOptions,
    ) -> Result<bool, SendError> {
        let end = self.removed_reason();
        let Some((endpoint, _, entry)) = self.parts(id) else { return Err(end.into()) };
        if let Some(reason) = entry.shut() {
            return Err(reason.into());
        }
        if !entry.send_queue.is_next(ticket) {
            return Ok(false);
        }
        let ppid = endpoint.config().ppid;
        match endpoint.send(now, id, options.message(stream, ppid), message) {
            Ok(()) => Ok(true),
            Err(EngineError::Full) => Ok(false),
            Err(error) => Err(self.refusal(error, id, stream, options)),
        }
    }

    /// Accepts as many bytes as the send buffer has room for. Accepts none if other messages of the association already
    /// wait for room. Returns the number of accepted bytes.
    pub(crate) fn write(
        &mut self,
        now: Instant,
        id: AssociationId,
        stream: u16,
        bytes: &[u8],
        options: &SendOptions,
    ) -> Result<usize, SendError> {
        let end = self.removed_reason();
        let Some((endpoint, _, entry)) = self.parts(id) else { return Err(end.into()) };
        if let Some(reason) = entry.shut() {
            return Err(reason.into());
        }
        if !entry.send_queue.is_empty() {
            return Ok(0);
        }
        let fragment = endpoint.fragment_size(id).max(MIN_PIECE);
        let piece = match endpoint.interleaves(id) {
            false => fragment,
            // RFC 8260 §2: if messages are interleaved, a large message does not block other streams. So all bytes that
            // fit into the send buffer become one message, up to the limit `MAX_PIECE`.
            true => endpoint.writable_bytes(id).clamp(fragment, MAX_PIECE.max(fragment)),
        };
        match endpoint.send_pieces(now, id, options.message(stream, PPID_HTTP), bytes, piece) {
            Ok(taken) => Ok(taken),
            Err(EngineError::Full) => Ok(0),
            Err(error) => Err(self.refusal(error, id, stream, options)),
        }
    }

    fn refusal(
        &self,
        error: EngineError,
        id: AssociationId,
        stream: u16,
        options: &SendOptions,
    ) -> SendError {
        match error {
            EngineError::Full => SendError::Full,
            EngineError::TooLarge => SendError::TooLarge { limit: self.largest_message(id) },
            EngineError::Empty => SendError::Empty,
            EngineError::NoSuchStream => SendError::NoSuchStream(stream),
            EngineError::NoSuchKey => SendError::NoSuchKey(options.message(stream, 0).key.unwrap_or(0)),
            // Any other error means that the peer is closing the association.
            _ => SendError::Closed(CloseReason::Finished),
        }
    }

    /// Returns the maximum size in bytes of a message that fits into the send buffer of an association.
    pub(crate) fn largest_message(&self, id: AssociationId) -> usize {
        let config = self.endpoint.config_of(id).unwrap_or_else(|| self.endpoint.config());
        config.sndbuf.min(u32::MAX.into()) as usize
    }

    /// Returns the next message of one stream, or of any stream if `stream` is `None`. Returns `None` if no complete
    /// message has arrived.
    pub(crate) fn recv(
        &mut self,
        now: Instant,
        id: AssociationId,
        stream: Option<u16>,
    ) -> Result<Option<Received>, RecvError> {
        let (end, limit) = (self.removed_reason(), self.max_receive);
        let Some((endpoint, buffer, entry)) = self.parts(id) else { return Err(end.into()) };
        entry.reads_all |= stream.is_none();
        loop {
            let part = match stream {
                Some(stream) => {
                    endpoint.recv(now, id, stream, buffer).map(|part| part.map(|part| (stream, part)))
                }
                None => endpoint.recv_next(now, id, buffer),
            };
            let Ok(Some((stream, part))) = part else { break };
            if let Some(message) = entry.partials.take_in(stream, &part, &buffer[..part.bytes], limit)? {
                return Ok(Some(message));
            }
        }
        match entry.ended() {
            Some(reason) => Err(reason.clone().into()),
            None if entry.peer_shutdown => Err(CloseReason::Finished.into()),
            None => Ok(None),
        }
    }

    /// Reads a stream as a sequence of bytes, across message boundaries. Returns `None` if no bytes can be read now,
    /// and 0 bytes at the graceful end of the association.
    pub(crate) fn read(
        &mut self,
        now: Instant,
        id: AssociationId,
        stream: u16,
        into: &mut [u8],
    ) -> Result<Option<usize>, CloseReason> {
        let end = self.removed_reason();
        let Some((endpoint, _, entry)) = self.parts(id) else { return Err(end) };
        if let Some(bytes) = entry.partials.take_bytes(stream, into) {
            return Ok(Some(bytes));
        }
        while let Ok(Some(part)) = endpoint.recv(now, id, stream, into) {
            if !entry.partials.is_discarding(stream, &part) && part.bytes > 0 {
                return Ok(Some(part.bytes));
            }
        }
        match entry.ended() {
            Some(CloseReason::Finished) => Ok(Some(0)),
            Some(reason) => Err(reason.clone()),
            None if entry.peer_shutdown => Ok(Some(0)),
            None => Ok(None),
        }
    }
}

/// The lower limit, in bytes, for the size of the messages into which written bytes are divided. The messages have
/// exactly this size while the engine does not know how much data fits into a packet.
const MIN_PIECE: usize = 512;

/// The upper limit, in bytes, for the size of the messages into which written bytes are divided, if messages are
/// interleaved.
const MAX_PIECE: usize = 64 * 1024;
