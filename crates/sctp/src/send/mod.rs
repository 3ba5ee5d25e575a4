//! Everything from user message to acknowledged byte.
//!
//! The sending half of an association: [`queue`] holds messages, whole, until
//! the last of their bytes is acknowledged; [`outstanding`] the chunks that
//! were cut from them and sent; [`permission`] says whether more may go; [`sack`] reads acknowledgements, [`loss`]
//! or [`rack`] decides what was lost, [`retransmit`] what a timeout means. It never sends:
//! `association::outbound` asks it for the next chunk, which [`mod@write`] writes. A chunk's name is its offset: the first
//! one that the association sends has offset 0.

mod abandon;
mod burst;
mod bytes;
mod cancel;
mod deferred_free;
mod forward;
pub(crate) mod fragment;
mod loss;
mod nr_sack;
pub(crate) mod outstanding;
mod permission;
mod probing;
pub(crate) mod queue;
mod rack;
mod reset;
mod retransmit;
mod sack;
pub(crate) mod sack_outcome;
mod sack_work_limit;
pub(crate) mod scheduler;
mod undelivered;
mod write;

use crate::config::{Config, SchedulerKind};
use crate::error::SendError;
use crate::message::Message;
use anabranch_wire::sctp::Tsn;
use burst::BurstLimit;
use loss::Recovery;
use outstanding::{ChunkState, Earliest, Outstanding};
use probing::Probing;
use queue::{Queue, Undelivered};
use sack_outcome::SackOutcome;

pub(crate) use probing::Expired;
pub(crate) use write::Written;

/// The sending half.
#[derive(Debug)]
pub(crate) struct SendHalf {
    queue: Queue,
    outstanding: Outstanding,
    recovery: Recovery,
    /// What the peer's last a_rwnd leaves, in user bytes (RFC 9260 §6.2.1).
    peer_window: u64,
    /// A closed window is being probed; the interval doubles.
    probing: Option<Probing>,
    /// The last SACK, and since the last T3-rtx, said that the window is shut.
    turned_away: bool,
    dupthresh: u8,
    /// Losses are found by time (RFC 8985), not by miss indications.
    by_time: bool,
    /// Below this the last SACK told of all that had arrived.
    horizon: rack::Horizon,
    /// Where the numbers of streams begin anew that were asked to be reset (RFC 6525), ascending, as
    /// far as something before them is outstanding.
    resets: Vec<u64>,
    /// Chunks that this packet has acknowledged for good.
    at_once: u64,
    /// What the SACKs of this packet have cost so far.
    sack_work: sack_work_limit::SackWorkLimit,
    /// Messages that may be given up, once there was one.
    limits: Option<Box<abandon::Limits>>,
    /// Most user bytes in a chunk (AMDCS less the header).
    largest: u32,
    burst: BurstLimit,
    /// The one of the last SACK, kept for its memory.
    outcome: Option<Box<SackOutcome>>,
}

impl SendHalf {
    pub(crate) fn new(config: &Config, initial: u32) -> Self {
        let mut queue = Queue::new(config.sndbuf, config.scheduler);
        if let Some(budget) = &config.memory {
            queue.share(budget);
        }
        Self {
            queue,
            outstanding: Outstanding::new(initial),
            recovery: Recovery::default(),
            peer_window: 0,
            probing: None,
            turned_away: false,
            dupthresh: config.dupthresh.min(255) as u8,
            by_time: config.rack,
            horizon: rack::Horizon::new(),
            resets: Vec::new(),
            at_once: 0,
            sack_work: sack_work_limit::SackWorkLimit::default(),
            limits: None,
            largest: 0,
            burst: BurstLimit::new(),
            outcome: None,
        }
    }

    /// Room for what a SACK means to so many paths; `fresh`: somebody wants to know what arrived.
    #[inline]
    pub(crate) fn take_outcome(&mut self, paths: usize, fresh: bool) -> Box<SackOutcome> {
        let mut outcome = self.outcome.take().unwrap_or_default();
        outcome.fit(paths, fresh);
        outcome
    }

    /// Keeps its memory for the next SACK; not where memory is shared and none is awaited: many associations may be idle.
    #[inline]
    pub(crate) fn keep_outcome(&mut self, outcome: Box<SackOutcome>) {
        if !(self.queue.is_shared() && self.is_idle()) {
            self.outcome = Some(outcome);
        }
    }

    /// Nothing is waiting and nothing is unacknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.unsent_bytes() == 0 && self.outstanding.is_empty()
    }

    /// Some message may be given up, or was.
    #[inline]
    pub(crate) fn has_limits(&self) -> bool {
        self.limits.is_some()
    }

    // What waits.

    /// Takes in messages of `piece` bytes as far as there is room; how many bytes.
    pub(crate) fn push_pieces(
        &mut self,
        message: Message,
        payload: &[u8],
        piece: usize,
    ) -> Result<usize, SendError> {
        self.free_before(payload.len().div_ceil(piece));
        self.queue.push_pieces(message, payload, piece)
    }

    /// Bytes that no chunk carries yet.
    #[inline]
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.queue.unsent_bytes()
    }

    /// Bytes held, unsent and unacknowledged.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.queue.buffered_bytes()
    }

    /// Room for more.
    pub(crate) fn writable_bytes(&self) -> u64 {
        self.queue.writable_bytes()
    }

    /// Associations share memory: the send buffer follows what can be under way.
    #[inline]
    pub(crate) fn shares_memory(&self) -> bool {
        self.queue.is_shared()
    }

    /// As much can be under way as a congestion window lets through, and the peer takes.
    pub(crate) fn size_buffer(&mut self, congestion_window: u64) {
        self.queue.follow(congestion_window, self.peer_window + self.outstanding.in_flight());
    }

    /// Somebody was turned away for want of room.
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.queue.is_wanted()
    }

    /// True once when there is room again for somebody who was turned away.
    #[inline]
    pub(crate) fn take_writable(&mut self) -> bool {
        self.queue.take_writable()
    }

    /// Bytes of `stream` that are unsent or unacknowledged. (What one SACK has acknowledged of more than some 2,000 chunks
    /// counts until its memory has been given back, a few packets later.)
    pub(crate) fn buffered_on(&self, stream: u16) -> u64 {
        self.queue.buffered_on(stream)
    }

    /// Somebody is told when `stream` comes to have at most so many bytes.
    pub(crate) fn set_low(&mut self, stream: u16, low: Option<u64>) {
        self.queue.set_low(stream, low);
    }

    /// A stream whose buffered amount has become low, once each time.
    #[inline]
    pub(crate) fn take_low(&mut self) -> Option<u16> {
        self.queue.take_low()
    }

    /// RFC 9260 §5.1.1: the peer takes only `granted` streams. Messages on others that were given before that was known.
    pub(crate) fn drop_beyond(&mut self, granted: u16, payloads: bool) -> Vec<Undelivered> {
        self.queue.drop_beyond(granted, payloads)
    }

    /// RFC 8260 §2.2.1: from now on messages go as I-DATA, or as DATA.
    pub(crate) fn set_interleaving(&mut self, on: bool) {
        self.queue.set_interleaving(on);
    }

    /// The send buffer takes up to so many bytes from now on.
    pub(crate) fn set_buffer_limit(&mut self, limit: u64) {
        self.queue.set_limit(limit);
    }

    /// RFC 8260 §3: another order of streams from now on.
    pub(crate) fn set_scheduler(&mut self, kind: SchedulerKind) {
        self.queue.set_scheduler(kind);
    }

    /// A stream's priority or weight.
    pub(crate) fn set_stream_value(&mut self, stream: u16, value: u16) {
        self.queue.set_stream_value(stream, value);
    }

    /// Bytes in front of the user data of a chunk.
    #[inline]
    pub(crate) fn chunk_header(&self) -> usize {
        self.queue.header()
    }

    /// The key that a message asks to be signed with.
    pub(crate) fn key_of(&self, message: u32) -> Option<u16> {
        self.queue.message(message).key
    }

    /// Messages that ask to be signed with this key and are not acknowledged in full.
    pub(crate) fn messages_of(&self, key: u16) -> Vec<u32> {
        self.queue.messages_of(key)
    }

    /// A message asks for that, and is not.
    pub(crate) fn asks_for(&self, message: u32, key: u16) -> bool {
        self.queue.asks_for(message, key)
    }

    /// The association begins anew: what of the one `before` outlives that.
    pub(crate) fn inherit(&mut self, before: &mut Self) {
        self.queue.inherit(&mut before.queue);
    }

    // What is outstanding.

    /// Offset of the lowest outstanding chunk.
    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.outstanding.base()
    }

    /// Offset of the next new chunk.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.outstanding.end()
    }

    /// The TSN of the next new chunk.
    pub(crate) fn next_tsn(&self) -> u32 {
        self.outstanding.tsn(self.outstanding.end())
    }

    /// The offset of the chunk with this TSN; it may lie before the first or beyond the last.
    pub(crate) fn offset_of(&self, tsn: u32) -> i64 {
        self.outstanding.base() as i64 + i64::from(self.outstanding.ahead(tsn)) - 1
    }

    /// The path that an outstanding chunk was sent to.
    pub(crate) fn path_of(&self, offset: i64) -> Option<usize> {
        let entry = self.outstanding.get(u64::try_from(offset).ok()?)?;
        Some(usize::from(entry.path))
    }

    /// A Cumulative TSN Ack acknowledges something.
    pub(crate) fn is_advanced_by(&self, cumulative: Tsn) -> bool {
        self.outstanding.ahead(cumulative.0) > 0
    }

    #[inline]
    pub(crate) fn has_outstanding(&self) -> bool {
        !self.outstanding.is_empty()
    }

    /// No more chunks can be outstanding.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.outstanding.is_full()
    }

    /// Nothing is outstanding whose acknowledgement is waited for.
    #[inline]
    pub(crate) fn awaits_nothing(&self) -> bool {
        self.outstanding.awaits_nothing()
    }

    /// Something is marked for retransmission.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        self.outstanding.has_lost()
    }

    /// A chunk is known to have arrived before one below it.
    #[inline]
    pub(crate) fn has_gaps(&self) -> bool {
        self.outstanding.has_gaps()
    }

    /// The lowest chunk in flight on a path.
    pub(crate) fn earliest_on(&self, path: usize) -> Option<u64> {
        self.outstanding.earliest_on(path as u8, 0)
    }

    /// The same at or above an offset, as far as the search for it goes.
    #[inline]
    pub(crate) fn earliest_within(&self, path: usize, from: u64) -> Earliest {
        self.outstanding.earliest_within(path as u8, from)
    }

    /// A chunk is on its way.
    pub(crate) fn is_in_flight(&self, offset: u64) -> bool {
        self.outstanding.get(offset).is_some_and(|entry| entry.state == ChunkState::InFlight)
    }

    /// RFC 8899 §4.3: the lowest chunk in flight on a path was sent before, and has no more than `limit` bytes with its header.
    pub(crate) fn repeats_within(&self, path: usize, limit: u64) -> bool {
        let entry = self.earliest_on(path).and_then(|offset| self.outstanding.get(offset));
        entry.is_some_and(|entry| entry.again && entry.size() <= limit)
    }

    // The peer's window.

    /// What the peer's last a_rwnd leaves, in user bytes.
    pub(crate) fn peer_window(&self) -> u64 {
        self.peer_window
    }

    /// RFC 9260 §6.2.1 A: the a_rwnd of INIT or INIT ACK, less what rides with the COOKIE ECHO.
    pub(crate) fn open_window(&mut self, window: u32) {
        self.peer_window = u64::from(window).saturating_sub(self.outstanding.in_flight());
    }
}
