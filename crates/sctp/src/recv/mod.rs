//! The receiving half of an association, from DATA chunk to user message.
//!
//! [`tracker`] stores which TSNs have arrived. [`ack`] decides when to acknowledge these TSNs, and [`window`] how much
//! more the peer may send. [`reassembly`] turns fragments in DATA chunks into messages, and [`idata`] does the same for
//! I-DATA chunks. [`order`] puts the messages in order. This module never sends packets: it records that a SACK is due.

pub(crate) mod ack;
pub(crate) mod forward;
pub(crate) mod idata;
mod memory;
pub(crate) mod order;
mod pool;
pub(crate) mod reassembly;
mod stream_reset;
pub(crate) mod tracker;
pub(crate) mod window;

pub(crate) use memory::first_window;

use crate::config::Config;
use crate::message::Received;
use ack::{Ack, AckTiming};
use anabranch_base::{Account, PacketBytes, SharedBytes};
use anabranch_wire::sctp::{Data, GapBlock, IData, NrSack, Sack, Tsn, packet};
use idata::Interleaved;
pub(crate) use order::Upcoming;
use order::{Delivery, Order};
use reassembly::{Fragment, Reassembly};
use std::ops::Range;
use tracker::{Arrival, Tracker};
use window::Window;

/// A protocol violation by the peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Violation(pub(crate) &'static str);

/// The result of receiving a DATA chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum DataOutcome {
    /// The chunk is new and was accepted. Contains its TSN as an offset from the initial TSN.
    New(u64),
    /// The chunk is new and is acknowledged, but its stream does not exist.
    NoSuchStream,
    /// The chunk was received before.
    Duplicate,
    /// The chunk was refused, because there is no room for it.
    Refused,
}

/// The receiving half of an association.
#[derive(Debug)]
pub(crate) struct RecvHalf {
    tracker: Tracker,
    ack: Ack,
    window: Window,
    /// Reassembles DATA chunks. `None` until it is first needed: messages that arrive through the fast path `take_next`
    /// do not need it.
    reassembly: Option<Box<Reassembly>>,
    /// RFC 8260 §2.2.1: whether the peer sends I-DATA.
    interleaves: bool,
    /// Reassembles I-DATA chunks; `reassembly` is only for DATA chunks. `None` until the first I-DATA or I-FORWARD-TSN
    /// chunk arrives.
    interleaved: Option<Box<Interleaved>>,
    order: Order,
    streams: u16,
    /// Number of streams whose bookkeeping does not count as used memory: the inbound streams granted in the handshake.
    uncharged_streams: u16,
    /// The memory account, if associations share memory.
    account: Option<Box<Account>>,
    /// Whether the peer has abandoned messages (RFC 3758). If so, fragments without a beginning are no violation.
    peer_abandons: bool,
    /// Whether acknowledgements are NR-SACKs. If so, data that was acknowledged is never dropped.
    nr_sack: bool,
}

impl RecvHalf {
    /// Creates the receiving half. `initial` is the peer's initial TSN. `streams` is the number of streams on which
    /// the peer may send.
    pub(crate) fn new(config: &Config, initial: u32, streams: u16, segment: u64) -> Self {
        Self {
            tracker: Tracker::new(initial),
            ack: Ack::new(config.ack_every, !config.delack.is_zero()),
            window: Window::new(config.rcvbuf, segment),
            reassembly: None,
            interleaves: false,
            interleaved: None,
            order: Self::order(config),
            streams,
            uncharged_streams: config.inbound_streams(),
            account: config.memory.as_ref().map(memory::account),
            peer_abandons: false,
            nr_sack: false,
        }
    }

    fn order(config: &Config) -> Order {
        let mut order = Order::new(config.partial_delivery, config.memory.is_some());
        if config.track_arrivals {
            order.track_arrivals();
        }
        order
    }

    /// RFC 8260 §2.2.1: sets whether this side expects I-DATA or DATA from the peer.
    pub(crate) fn set_interleaving(&mut self, on: bool) {
        self.interleaves = on;
        self.interleaved = None;
    }

    /// Selects whether this side sends NR-SACK or SACK.
    pub(crate) fn set_nr_sack(&mut self, on: bool) {
        self.nr_sack = on;
    }

    /// Returns the size in bytes of a SACK or NR-SACK without gap blocks and duplicates.
    #[inline]
    fn sack_fixed(&self) -> usize {
        if self.nr_sack { NrSack::FIXED } else { Sack::FIXED }
    }

    /// Classifies a chunk by its TSN, stream and length. Only a new chunk is passed on to reassembly.
    #[inline]
    fn admit(&mut self, tsn: Tsn, stream: u16, immediate: bool, length: usize) -> DataOutcome {
        let offset = match self.tracker.classify(tsn.0) {
            Arrival::New(offset) => offset,
            Arrival::Duplicate => {
                self.tracker.record_duplicate(tsn.0);
                self.ack.on_duplicate();
                return DataOutcome::Duplicate;
            }
            Arrival::TooFar => {
                self.ack.on_refused();
                return DataOutcome::Refused;
            }
        };
        // RFC 9260 §6.2: while the receive window is full, chunks are refused. `takes_beyond` selects the exceptions,
        // which are mainly chunks that fill a gap.
        if self.is_crowded() {
            self.lower_ceiling();
        }
        if self.window.is_full() && !self.takes_beyond(offset) {
            self.ack.on_refused();
            return DataOutcome::Refused;
        }
        self.tracker.insert(offset);
        self.ack.on_new(immediate);
        if stream >= self.streams {
            // RFC 9260 §6.5: a chunk of a stream that does not exist is acknowledged, reported and dropped.
            return DataOutcome::NoSuchStream;
        }
        self.window.charge(length as u64);
        DataOutcome::New(offset)
    }

    /// Receives one I-DATA chunk with a payload.
    pub(crate) fn on_idata(&mut self, data: &IData<'_>) -> Result<DataOutcome, Violation> {
        let taken = self.admit(data.tsn, data.stream, data.immediate, data.payload.len());
        let (DataOutcome::New(offset), true) = (taken, self.interleaves) else {
            return Ok(taken);
        };
        let at_once = self.window.is_pressed();
        let shared = self.account.is_some();
        let interleaved = self.interleaved.get_or_insert_with(|| Box::new(Interleaved::new(shared)));
        interleaved.accept(data, offset, self.tracker.next(), &mut self.order, at_once)?;
        self.credit_dropped();
        Ok(taken)
    }

    /// Receives one DATA chunk with a payload.
    #[inline]
    pub(crate) fn on_data(&mut self, data: &Data<'_>) -> Result<DataOutcome, Violation> {
        let taken = self.admit(data.tsn, data.stream, data.immediate, data.payload.len());
        let DataOutcome::New(offset) = taken else {
            return Ok(taken);
        };
        let fragment = Fragment {
            offset,
            tsn: data.tsn.0,
            stream: data.stream,
            ssn: data.ssn.0,
            ppid: data.ppid,
            unordered: data.unordered,
            begin: data.begin,
            end: data.end,
            payload: data.payload,
        };
        let at_once = self.window.is_pressed();
        let next = self.tracker.next();
        let shared = self.account.is_some();
        let reassembly = Reassembly::get_or_create(&mut self.reassembly, shared);
        reassembly.accept(fragment, next, &mut self.order, at_once)?;
        if self.peer_abandons {
            self.credit_dropped();
        }
        Ok(DataOutcome::New(offset))
    }

    /// Fast path for a whole ordered message at `payload` in `packet`. It applies if the message has the next TSN, and
    /// no data is missing or waiting. Returns the TSN offset of its chunk, and whether the message has made its stream
    /// readable.
    #[inline(always)]
    pub(crate) fn take_next(
        &mut self,
        to: Delivery,
        immediate: bool,
        packet: &mut PacketBytes<'_>,
        payload: Range<usize>,
    ) -> Option<(u64, bool)> {
        let length = payload.len() as u64;
        let fits = length > 0 && to.stream < self.streams && !self.window.is_full() && !self.is_crowded();
        if !(fits
            && self.tracker.is_next(to.tsn)
            && self.reassembly.as_deref().is_none_or(Reassembly::is_idle))
        {
            return None;
        }
        let became_readable = self.order.take_next(to, packet, payload)?;
        let offset = self.tracker.next();
        self.tracker.insert(offset);
        self.ack.on_new(immediate);
        self.window.charge(length);
        Some((offset, became_readable))
    }

    /// Returns whether the packet contained a chunk that must be acknowledged.
    #[inline]
    pub(crate) fn packet_counts(&self) -> bool {
        self.ack.packet_counts()
    }

    /// Applies changed configuration values. The size of the receive buffer does not change.
    pub(crate) fn tune(&mut self, config: &Config) {
        self.ack.tune(config.ack_every, !config.delack.is_zero());
    }

    /// Counts the bytes of a packet with DATA that the fast path did not process.
    pub(crate) fn count_bytes(&mut self, bytes: usize) {
        self.ack.count_bytes(bytes);
    }

    /// Ends a packet, after all of its chunks were processed. Returns when the SACK is due.
    #[inline]
    pub(crate) fn packet_done(&mut self) -> Option<AckTiming> {
        self.ack.packet_done(self.tracker.has_gaps())
    }

    /// Makes a SACK due. Called when the delay of a SACK has expired, or when a SACK must be sent at once.
    pub(crate) fn sack_now(&mut self) {
        self.ack.make_due();
    }

    #[inline]
    pub(crate) fn sack_due(&self) -> bool {
        self.ack.is_due()
    }

    #[inline]
    pub(crate) fn sack_pending(&self) -> bool {
        self.ack.is_pending()
    }

    /// Cancels a SACK that is due, because a SHUTDOWN chunk has acknowledged all data.
    pub(crate) fn sack_done(&mut self) {
        self.ack.sent(0);
    }

    /// Returns whether the next SACK has duplicates to report.
    #[inline]
    pub(crate) fn has_duplicates(&self) -> bool {
        !self.tracker.duplicates().is_empty()
    }

    /// Returns whether a SACK is needed in addition to a SHUTDOWN chunk, which reports neither gaps nor duplicates.
    pub(crate) fn needs_sack_beside_shutdown(&self) -> bool {
        self.tracker.has_gaps() || !self.tracker.duplicates().is_empty() || self.ack.has_refused()
    }

    /// Returns the Cumulative TSN Ack.
    pub(crate) fn cumulative(&self) -> Tsn {
        Tsn(self.tracker.cumulative())
    }

    /// Writes a SACK of at most `room` bytes, and records it as sent. `room` must be enough for at least the fixed
    /// part.
    #[inline]
    pub(crate) fn emit_sack(&mut self, buffer: &mut Vec<u8>, room: usize) {
        let room = room.min(self.ack.most_bytes(packet::HEADER).max(self.sack_fixed()));
        if self.tracker.has_gaps() {
            self.emit_sack_with_gaps(buffer, room);
        } else {
            self.emit_sack_of(buffer, room, &[]);
        }
    }

    /// The part of [`emit_sack`](Self::emit_sack) for a SACK with gap blocks.
    #[inline(never)]
    fn emit_sack_with_gaps(&mut self, buffer: &mut Vec<u8>, room: usize) {
        // `FEW_GAPS` is usually enough, and a larger array would take time to clear.
        if self.tracker.gap_blocks().count() <= FEW_GAPS {
            self.emit_sack_with::<FEW_GAPS>(buffer, room);
        } else {
            self.emit_sack_with::<{ tracker::RUNS }>(buffer, room);
        }
    }

    fn emit_sack_with<const MAX: usize>(&mut self, buffer: &mut Vec<u8>, room: usize) {
        // RFC 9260 §6.2: the SACK reports as many gap blocks as fit.
        let mut gaps = [GapBlock { start: 0, end: 0 }; MAX];
        let fit = (room.saturating_sub(self.sack_fixed()) / 4).min(gaps.len());
        let mut listed = 0;
        for (gap, place) in self.tracker.gap_blocks().zip(&mut gaps[..fit]) {
            *place = gap;
            listed += 1;
        }
        self.emit_sack_of(buffer, room, &gaps[..listed]);
    }

    #[inline]
    fn emit_sack_of(&mut self, buffer: &mut Vec<u8>, room: usize, gaps: &[GapBlock]) {
        self.size_window();
        let begin = buffer.len();
        let left = room.saturating_sub(self.sack_fixed()) / 4 - gaps.len();
        let duplicates = self.tracker.duplicates();
        let duplicates = &duplicates[..duplicates.len().min(left)];
        let window = self.window.advertise();
        let cumulative = Tsn(self.tracker.cumulative());
        if self.nr_sack {
            // draft-natarajan-tsvwg-sctp-nrsack §3.2: this side never drops received data.
            NrSack { cumulative, window, gaps: &[], nr_gaps: gaps, duplicates }.emit(buffer);
        } else {
            Sack { cumulative, window, gaps, duplicates }.emit(buffer);
        }
        self.tracker.clear_duplicates();
        self.ack.sent(packet::HEADER + buffer.len() - begin);
    }

    /// Returns the size in bytes of a SACK sent now. The size is never smaller than the fixed part of a SACK.
    #[inline]
    pub(crate) fn sack_size(&self) -> usize {
        if !self.tracker.has_gaps() && self.tracker.duplicates().is_empty() {
            return self.sack_fixed();
        }
        let fixed = self.sack_fixed();
        let all = fixed + 4 * (self.tracker.gap_blocks().count() + self.tracker.duplicates().len());
        all.min(self.ack.most_bytes(packet::HEADER).max(fixed))
    }

    /// Reads data of `stream` for the application.
    pub(crate) fn read(&mut self, stream: u16, out: &mut [u8]) -> Option<Received> {
        let received = self.order.read(stream, out)?;
        self.window.credit(received.bytes as u64);
        self.record_read();
        Some(received)
    }

    /// Reads from the message that became readable first, on any stream. Returns its stream as well.
    pub(crate) fn read_next(&mut self, out: &mut [u8]) -> Option<(u16, Received)> {
        let (stream, received) = self.order.read_next(out)?;
        self.window.credit(received.bytes as u64);
        self.record_read();
        Some((stream, received))
    }

    /// Returns the message that [`read_next`](Self::read_next) would read next.
    pub(crate) fn upcoming(&self) -> Option<Upcoming> {
        self.order.upcoming()
    }

    pub(crate) fn messages_read(&self) -> u64 {
        self.order.messages_read()
    }

    /// Reads bytes across message boundaries. If `wanted` returns false for the payload protocol identifier of a
    /// message, the message is skipped. Returns the number of bytes, and true if all readable data was read.
    #[inline]
    pub(crate) fn read_bytes(
        &mut self,
        stream: u16,
        out: &mut [u8],
        wanted: impl Fn(u32) -> bool,
    ) -> (usize, bool) {
        if let Some((length, ppid)) = self.order.read_last(stream, out) {
            self.window.credit(length as u64);
            self.record_read();
            return (if wanted(ppid) { length } else { 0 }, true);
        }
        let mut bytes = 0;
        while bytes < out.len() {
            let Some(received) = self.read(stream, &mut out[bytes..]) else {
                return (bytes, true);
            };
            if wanted(received.ppid) {
                bytes += received.bytes;
            }
            if self.order.is_drained(stream) {
                return (bytes, true);
            }
        }
        (bytes, false)
    }

    /// Reads a whole message without a copy, if the sender shares its memory and it is the only readable data of its
    /// stream. Returns the message, which has at most `most` bytes, and its payload protocol identifier.
    #[inline]
    pub(crate) fn read_shared(&mut self, stream: u16, most: usize) -> Option<(SharedBytes, u32)> {
        let (bytes, ppid) = self.order.read_last_shared(stream, most)?;
        self.window.credit(bytes.len() as u64);
        self.record_read();
        Some((bytes, ppid))
    }

    /// Returns whether a SACK should inform the peer that the window has opened.
    #[inline]
    pub(crate) fn wants_window_update(&self) -> bool {
        self.window.wants_update()
    }

    /// Returns whether the receive window is closed.
    pub(crate) fn is_window_closed(&self) -> bool {
        self.window.is_closed()
    }

    pub(crate) fn readable_bytes(&self, stream: u16) -> usize {
        self.order.readable_bytes(stream)
    }

    #[inline]
    pub(crate) fn newly_readable(&mut self) -> &mut Vec<u16> {
        self.order.newly_readable()
    }

    pub(crate) fn messages_completed(&self) -> u64 {
        self.order.completed()
    }

    /// Returns whether any message can be read.
    pub(crate) fn has_unread(&self) -> bool {
        self.order.has_unread()
    }

    /// Returns the number of bytes charged to the receive window.
    #[cfg(test)]
    pub(crate) fn buffered(&self) -> u64 {
        self.window.used()
    }
}

/// The largest number of gap blocks that one or two loss events usually cause.
const FEW_GAPS: usize = 16;

#[cfg(test)]
mod tests;
