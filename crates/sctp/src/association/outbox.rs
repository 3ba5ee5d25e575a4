//! Control chunks that are wanted, and where they go, until `outbound` writes them.
//!
//! Handlers ask here; whole chunks that wait are bounded in number. DATA, SACK, FORWARD TSN, RE-CONFIG, ASCONF and
//! HEARTBEAT are asked for where their state is.
//!
//! Home of no rule: each has its own.

use std::collections::VecDeque;

/// Control chunks that are wanted.
#[derive(Debug, Default)]
pub(crate) struct Outbox {
    /// INIT or COOKIE ECHO, as the state says.
    handshake: bool,
    /// COOKIE ACK, and where to.
    cookie_ack: Option<u8>,
    /// HEARTBEAT ACK chunks, and where to.
    heartbeat_acks: VecDeque<(usize, Vec<u8>)>,
    /// ERROR chunks, and where to.
    errors: VecDeque<(usize, Vec<u8>)>,
    /// Some path may want a probe of its MTU.
    mtu_probes: bool,
    /// SHUTDOWN or SHUTDOWN ACK, as the state says.
    shutdown: bool,
}

/// Chunks of one kind that may wait: more are a flood.
const MAX_WAITING: usize = 8;

impl Outbox {
    /// INIT or COOKIE ECHO is to be sent, or is no longer.
    pub(super) fn set_handshake(&mut self, wanted: bool) {
        self.handshake = wanted;
    }

    pub(super) fn wants_handshake(&self) -> bool {
        self.handshake
    }

    /// COOKIE ACK is to be sent, to a path.
    pub(super) fn ask_cookie_ack(&mut self, path: usize) {
        self.cookie_ack = Some(path as u8);
    }

    /// The path of the COOKIE ACK that is wanted.
    pub(super) fn cookie_ack_path(&self) -> Option<usize> {
        self.cookie_ack.map(usize::from)
    }

    /// Whether a COOKIE ACK is wanted to a path; it is taken out.
    pub(super) fn take_cookie_ack(&mut self, path: usize) -> bool {
        self.cookie_ack.take_if(|wanted| usize::from(*wanted) == path).is_some()
    }

    /// Queues a HEARTBEAT ACK to a path, `write` appends it.
    pub(super) fn push_heartbeat_ack(&mut self, path: usize, write: impl FnOnce(&mut Vec<u8>)) {
        push(&mut self.heartbeat_acks, path, write);
    }

    /// Where the next HEARTBEAT ACK goes.
    pub(super) fn heartbeat_ack_path(&self) -> Option<usize> {
        self.heartbeat_acks.front().map(|&(path, _)| path)
    }

    /// Appends the HEARTBEAT ACKs for `path` that fit up to `end`; the first in any case where it is `alone`. Whether
    /// the packet is empty still.
    pub(super) fn write_heartbeat_acks(
        &mut self,
        path: usize,
        end: usize,
        buffer: &mut Vec<u8>,
        mut alone: bool,
    ) -> bool {
        while let Some((target, chunk)) = self.heartbeat_acks.front() {
            let fits = buffer.len() + chunk.len() <= end;
            if *target != path || !(fits || alone) {
                break;
            }
            alone = false;
            buffer.extend_from_slice(chunk);
            self.heartbeat_acks.pop_front();
        }
        alone
    }

    /// Queues an ERROR to a path, `write` appends it.
    pub(super) fn push_error(&mut self, path: usize, write: impl FnOnce(&mut Vec<u8>)) {
        push(&mut self.errors, path, write);
    }

    /// Where the next ERROR goes.
    pub(super) fn error_path(&self) -> Option<usize> {
        self.errors.front().map(|&(path, _)| path)
    }

    /// Appends the ERRORs for `path` that fit up to `end`; the first in any case where it is `alone`.
    pub(super) fn write_errors(&mut self, path: usize, end: usize, buffer: &mut Vec<u8>, mut alone: bool) {
        while let Some((target, chunk)) = self.errors.front() {
            let room = end.saturating_sub(buffer.len());
            if *target != path || (!alone && chunk.len() > room) {
                break;
            }
            let start = buffer.len();
            buffer.extend_from_slice(chunk);
            if chunk.len() > room {
                // It quotes more than this path takes: the quote ends early, and so says its length.
                buffer.truncate(start + (room & !3));
                let chunk = (buffer.len() - start) as u16;
                buffer[start + 2..start + 4].copy_from_slice(&chunk.to_be_bytes());
                buffer[start + 6..start + 8].copy_from_slice(&(chunk - 4).to_be_bytes());
            }
            alone = false;
            self.errors.pop_front();
        }
    }

    /// Some path may want a probe of its MTU, or none does.
    pub(super) fn set_mtu_probes(&mut self, wanted: bool) {
        self.mtu_probes = wanted;
    }

    pub(super) fn wants_mtu_probes(&self) -> bool {
        self.mtu_probes
    }

    /// SHUTDOWN or SHUTDOWN ACK is to be sent, or is no longer.
    pub(super) fn set_shutdown(&mut self, wanted: bool) {
        self.shutdown = wanted;
    }

    #[inline]
    pub(super) fn wants_shutdown(&self) -> bool {
        self.shutdown
    }

    /// Nothing goes to a path any more: answers and reports for it are dropped.
    pub(super) fn forget_path(&mut self, path: usize) {
        self.heartbeat_acks.retain(|&(target, _)| target != path);
        self.errors.retain(|&(target, _)| target != path);
    }
}

fn push(waiting: &mut VecDeque<(usize, Vec<u8>)>, path: usize, write: impl FnOnce(&mut Vec<u8>)) {
    if waiting.len() < MAX_WAITING {
        let mut chunk = Vec::new();
        write(&mut chunk);
        waiting.push_back((path, chunk));
    }
}
