//! Writes DATA and I-DATA chunks.
//!
//! `association::outbound` requests the next chunk of a packet after it has decided that a chunk may be sent. This
//! module writes the chunk and adds it to the outstanding chunks. The caller updates path and timers from the
//! returned [`Written`].
//!
//! Implements RFC 9260 §6.2.1 B, §6.9 (fragments and their flags), and §6.1 (the I bit).

use super::SendHalf;
use super::outstanding::{ChunkState, Entry};
use super::queue::Cut;
use anabranch_base::trace::SendCause;
use anabranch_base::{Instant, SharedBytes};
use anabranch_wire::sctp::{Data, IData, Ssn, Tsn};

/// A chunk that was written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Written {
    pub(crate) offset: u64,
    /// The number of user bytes in the chunk. The field `size` also includes header and padding.
    pub(crate) length: u16,
    pub(crate) size: u64,
    pub(crate) stream: u16,
    /// Position of the chunk's first byte among the bytes of its stream.
    pub(crate) from: u64,
    pub(crate) cause: SendCause,
}

impl SendHalf {
    /// Writes the next new chunk for `path`. `closing` says that the application will send no more data. If the payload
    /// may be shared, it may be moved to `shared` and is then not written.
    #[inline(always)]
    pub(crate) fn write_new(
        &mut self,
        now: Instant,
        path: usize,
        cut: Cut,
        (interleaving, closing): (bool, bool),
        buffer: &mut Vec<u8>,
        shared: Option<&mut Option<SharedBytes>>,
    ) -> Written {
        let offset = self.outstanding.end();
        self.queue.number(cut);
        if self.queue.begins_limited(cut) {
            self.begin_limited(cut.message);
        }
        let shared = match shared {
            // A shared payload cannot be followed by padding.
            Some(shared) if !interleaving && cut.length.is_multiple_of(4) => {
                *shared = self.queue.share_cut(cut);
                shared.is_some()
            }
            _ => false,
        };
        let message = self.queue.message(cut.message);
        let last = cut.offset + cut.length == message.length;
        // RFC 9260 §6.1: the I bit requests an immediate SACK. The bit is set if the application wants an immediate
        // SACK, and in the last chunk before a shutdown.
        let closing = closing && self.queue.unsent_bytes() == u64::from(cut.length);
        let data = Data {
            immediate: last && (message.immediate || closing),
            unordered: message.unordered,
            begin: cut.offset == 0,
            end: last,
            tsn: Tsn(self.outstanding.tsn(offset)),
            stream: message.stream,
            ssn: Ssn(message.mid as u16),
            ppid: message.ppid,
            payload: &[],
        };
        if shared {
            data.emit_header(buffer, cut.length as usize);
        } else {
            let payload = self.queue.payload(message, cut.offset, cut.length);
            if interleaving {
                IData::numbered(data, message.mid, cut.number).emit_parts(buffer, payload);
            } else {
                data.emit_parts(buffer, payload);
            }
        }
        let (stream, from) = (message.stream, message.stream_offset + u64::from(cut.offset));
        let cause = match self.probing {
            Some(_) if u64::from(cut.length) > self.peer_window => {
                self.record_probe();
                SendCause::Probe
            }
            probing => {
                if probing.is_some() {
                    // The chunk fits into the peer's window, so the window is open again.
                    self.end_probing();
                }
                SendCause::New
            }
        };
        self.queue.commit(cut);
        let length = cut.length as u16;
        let entry = Entry {
            sent_at: now,
            message: cut.message,
            offset: cut.offset,
            length,
            fsn: cut.number,
            header: self.queue.header() as u8,
            state: ChunkState::InFlight,
            path: path as u8,
            miss_indications: 0,
            fast: false,
            was_retransmitted: false,
            retransmissions: 0,
        };
        self.outstanding.push(entry);
        // RFC 9260 §6.2.1 B: sent data reduces the peer's window.
        self.peer_window = self.peer_window.saturating_sub(u64::from(length));
        Written { offset, length, size: entry.size(), stream, from, cause }
    }

    /// Writes a chunk that is marked for retransmission, to be sent on `path`.
    #[cold]
    pub(crate) fn write_retransmission(
        &mut self,
        now: Instant,
        path: usize,
        (offset, entry): (u64, Entry),
        interleaving: bool,
        buffer: &mut Vec<u8>,
    ) -> Option<Written> {
        let ChunkState::Lost(cause) = entry.state else {
            return None;
        };
        let message = self.queue.message(entry.message);
        let length = u32::from(entry.length);
        let last = entry.offset + length == message.length;
        let data = Data {
            immediate: message.immediate && last,
            unordered: message.unordered,
            begin: entry.offset == 0,
            end: last,
            tsn: Tsn(self.outstanding.tsn(offset)),
            stream: message.stream,
            ssn: Ssn(message.mid as u16),
            ppid: message.ppid,
            payload: &[],
        };
        let payload = self.queue.payload(message, entry.offset, length);
        if interleaving {
            IData::numbered(data, message.mid, entry.fsn).emit_parts(buffer, payload);
        } else {
            data.emit_parts(buffer, payload);
        }
        let (stream, from) = (message.stream, message.stream_offset + u64::from(entry.offset));
        self.outstanding.send_again(offset, now, path as u8);
        self.outstanding.record_retransmitted(offset);
        self.recovery.on_retransmitted();
        // RFC 9260 §6.2.1 B: sent data reduces the peer's window.
        self.peer_window = self.peer_window.saturating_sub(u64::from(length));
        Some(Written { offset, length: entry.length, size: entry.size(), stream, from, cause })
    }

    /// Returns the lowest chunk that is marked for retransmission, and its TSN offset.
    #[inline]
    pub(crate) fn next_lost(&mut self) -> Option<(u64, Entry)> {
        let offset = self.outstanding.next_lost()?;
        Some((offset, *self.outstanding.get(offset)?))
    }
}
