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
    /// Whole chunks that wait, if any do.
    chunks: Option<Box<Chunks>>,
    /// Some path may want a probe of its MTU.
    mtu_probes: bool,
    /// SHUTDOWN or SHUTDOWN ACK, as the state says.
    shutdown: bool,
}

/// Whole chunks that wait, each with its path.
#[derive(Debug, Default)]
struct Chunks {
    heartbeat_acks: VecDeque<(usize, Vec<u8>)>,
    errors: VecDeque<(usize, Vec<u8>)>,
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
        push(&mut self.chunks.get_or_insert_default().heartbeat_acks, path, write);
    }

    /// Where the next HEARTBEAT ACK goes.
    pub(super) fn heartbeat_ack_path(&self) -> Option<usize> {
        self.chunks.as_ref()?.heartbeat_acks.front().map(|&(path, _)| path)
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

    /// Queues an ERROR to a path, `write` appends it.
    pub(super) fn push_error(&mut self, path: usize, write: impl FnOnce(&mut Vec<u8>)) {
        push(&mut self.chunks.get_or_insert_default().errors, path, write);
    }

    /// Where the next ERROR goes.
    pub(super) fn error_path(&self) -> Option<usize> {
        self.chunks.as_ref()?.errors.front().map(|&(path, _)| path)
    }

    /// Appends the ERRORs for `path` that fit up to `end`; the first in any case where it is `alone`.
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
                // It quotes more than this path takes: the quote ends early, and so says its length.
                buffer.truncate(start + (room & !3));
                let chunk = (buffer.len() - start) as u16;
                buffer[start + 2..start + 4].copy_from_slice(&chunk.to_be_bytes());
                buffer[start + 6..start + 8].copy_from_slice(&(chunk - 4).to_be_bytes());
            }
            alone = false;
            chunks.errors.pop_front();
        }
        self.drop_empty();
    }

    /// An association that waits for nothing holds no memory for it.
    fn drop_empty(&mut self) {
        self.chunks.take_if(|chunks| chunks.heartbeat_acks.is_empty() && chunks.errors.is_empty());
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
