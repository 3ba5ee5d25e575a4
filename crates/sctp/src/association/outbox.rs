//! Pending control chunks and their paths. A chunk is pending until `outbound` writes it.
//!
//! Handlers of events mark in the [`Outbox`] which chunks have to be sent. HEARTBEAT ACK and ERROR chunks are queued
//! already encoded, and their number is limited. Pending DATA, SACK, FORWARD TSN, RE-CONFIG, ASCONF and HEARTBEAT
//! chunks are not in the [`Outbox`], but in the modules that implement these chunks.
//!
//! This module only stores the marks and chunks. The RFC rules for each chunk are implemented in other modules.

use std::collections::VecDeque;

/// Pending control chunks.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// Whether an INIT or COOKIE ECHO has to be sent. The state of the association decides which of the two chunks it
    /// is.
    handshake: bool,
    /// The path on which a pending COOKIE ACK has to be sent.
    cookie_ack: Option<u8>,
    /// Queued encoded chunks; `None` if there are none.
    chunks: Option<Box<Chunks>>,
    /// Whether a path MTU probe may be due on some path.
    mtu_probes: bool,
    /// Whether a SHUTDOWN or SHUTDOWN ACK has to be sent. The state of the association decides which of the two chunks
    /// it is.
    shutdown: bool,
}

/// Queued encoded chunks, each with its path.
#[derive(Debug, Default)]
struct Chunks {
    heartbeat_acks: VecDeque<(usize, Vec<u8>)>,
    errors: VecDeque<(usize, Vec<u8>)>,
}

/// The maximum number of queued chunks of one kind. Further chunks are dropped, because a longer queue suggests a
/// flood.
const MAX_WAITING: usize = 8;

impl Outbox {
    /// Sets whether an INIT or COOKIE ECHO has to be sent.
    pub(super) fn set_handshake(&mut self, due: bool) {
        self.handshake = due;
    }

    pub(super) fn wants_handshake(&self) -> bool {
        self.handshake
    }

    /// Marks a COOKIE ACK to be sent on a path.
    pub(super) fn ask_cookie_ack(&mut self, path: usize) {
        self.cookie_ack = Some(path as u8);
    }

    /// Returns the path on which the pending COOKIE ACK has to be sent.
    pub(super) fn cookie_ack_path(&self) -> Option<usize> {
        self.cookie_ack.map(usize::from)
    }

    /// Removes a pending COOKIE ACK for this path. Returns whether there was one.
    pub(super) fn take_cookie_ack(&mut self, path: usize) -> bool {
        self.cookie_ack.take_if(|due| usize::from(*due) == path).is_some()
    }

    /// Queues a HEARTBEAT ACK for a path. `write` appends the chunk.
    pub(super) fn push_heartbeat_ack(&mut self, path: usize, write: impl FnOnce(&mut Vec<u8>)) {
        push(&mut self.chunks.get_or_insert_default().heartbeat_acks, path, write);
    }

    /// Returns the path on which the next HEARTBEAT ACK has to be sent.
    pub(super) fn heartbeat_ack_path(&self) -> Option<usize> {
        self.chunks.as_ref()?.heartbeat_acks.front().map(|&(path, _)| path)
    }

    /// Appends the HEARTBEAT ACKs for `path` that fit up to `end`. If the packet is still empty (`alone`), the first
    /// HEARTBEAT ACK is appended even if it does not fit. Returns whether the packet is still empty.
    pub(super) fn write_heartbeat_acks(
        &mut self,
        path: usize,
        end: usize,
        buffer: &mut Vec<u8>,
        mut alone: bool,
    ) -> bool {
        let Some(chunks) = &mut self.chunks else { return alone };
        while let Some((target, chunk)) = chunks.heartbeat_acks.front() {
            let fits = buffer.len() + chunk.len() <= end;
            if *target != path || !(fits || alone) {
                break;
            }
            alone = false;
            buffer.extend_from_slice(chunk);
            chunks.heartbeat_acks.pop_front();
        }
        self.drop_empty();
        alone
    }

    /// Queues an ERROR for a path. `write` appends the chunk.
    pub(super) fn push_error(&mut self, path: usize, write: impl FnOnce(&mut Vec<u8>)) {
        push(&mut self.chunks.get_or_insert_default().errors, path, write);
    }

    /// Returns the path on which the next ERROR has to be sent.
    pub(super) fn error_path(&self) -> Option<usize> {
        self.chunks.as_ref()?.errors.front().map(|&(path, _)| path)
    }

    /// Appends the ERRORs for `path` that fit up to `end`. If the packet is still empty (`alone`), the first ERROR is
    /// appended even if it does not fit.
    pub(super) fn write_errors(&mut self, path: usize, end: usize, buffer: &mut Vec<u8>, mut alone: bool) {
        let Some(chunks) = &mut self.chunks else { return };
        while let Some((target, chunk)) = chunks.errors.front() {
            let room = end.saturating_sub(buffer.len());
            if *target != path || (!alone && chunk.len() > room) {
                break;
            }
            let start = buffer.len();
            buffer.extend_from_slice(chunk);
            if chunk.len() > room {
                // The ERROR quotes a chunk and is too large for this path. The quote is truncated, and the length
                // fields are adapted.
                buffer.truncate(start + (room & !3));
                let chunk_len = (buffer.len() - start) as u16;
                buffer[start + 2..start + 4].copy_from_slice(&chunk_len.to_be_bytes());
                buffer[start + 6..start + 8].copy_from_slice(&(chunk_len - 4).to_be_bytes());
            }
            alone = false;
            chunks.errors.pop_front();
        }
        self.drop_empty();
    }

    /// Releases the memory of empty queues.
    fn drop_empty(&mut self) {
        self.chunks.take_if(|chunks| chunks.heartbeat_acks.is_empty() && chunks.errors.is_empty());
    }

    /// Sets whether any path may have a path MTU probe to send.
    pub(super) fn set_mtu_probes(&mut self, due: bool) {
        self.mtu_probes = due;
    }

    pub(super) fn wants_mtu_probes(&self) -> bool {
        self.mtu_probes
    }

    /// Sets whether a SHUTDOWN or SHUTDOWN ACK has to be sent.
    pub(super) fn set_shutdown(&mut self, due: bool) {
        self.shutdown = due;
    }

    #[inline]
    pub(super) fn wants_shutdown(&self) -> bool {
        self.shutdown
    }

    /// Drops the queued chunks of a path that is no longer used.
    pub(super) fn forget_path(&mut self, path: usize) {
        if let Some(chunks) = &mut self.chunks {
            chunks.heartbeat_acks.retain(|&(target, _)| target != path);
            chunks.errors.retain(|&(target, _)| target != path);
        }
        self.drop_empty();
    }
}

fn push(waiting: &mut VecDeque<(usize, Vec<u8>)>, path: usize, write: impl FnOnce(&mut Vec<u8>)) {
    if waiting.len() < MAX_WAITING {
        let mut chunk = Vec::new();
        write(&mut chunk);
        waiting.push_back((path, chunk));
    }
}
