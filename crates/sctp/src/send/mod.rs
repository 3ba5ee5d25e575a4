//! The sending half of an association. It holds user messages until all their bytes are acknowledged.
//!
//! [`queue`] holds each message as a whole until its last byte is acknowledged. [`outstanding`] holds the chunks that
//! were cut from the messages and sent. [`permission`] says whether more chunks may be sent. [`sack`] processes
//! acknowledgements, and [`loss`] or [`rack`] decides which chunks are lost. [`retransmit`] handles an expired
//! T3-rtx.
//!
//! This module never sends packets. `association::outbound` requests the next chunk, and [`mod@write`] writes it. A
//! chunk is identified by its TSN offset, a count that starts at 0 with the association's first chunk and never wraps.

mod abandon;
mod burst;
mod bytes;
mod cancel;
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
use ::bytes::Bytes;
use anabranch_wire::sctp::Tsn;
use burst::BurstLimit;
use loss::Recovery;
use outstanding::{ChunkState, Earliest, Outstanding};
use probing::Probing;
use queue::{Queue, Undelivered};
use sack_outcome::SackOutcome;
use sack_work_limit::SackWorkLimit;

pub(crate) use probing::Expired;
pub(crate) use write::Written;

/// The sending half of an association.
#[derive(Debug)]
pub(crate) struct SendHalf {
    queue: Queue,
    outstanding: Outstanding,
    recovery: Recovery,
    /// The peer's last a_rwnd minus the data sent since then, in user bytes (RFC 9260 §6.2.1).
    peer_window: u64,
    /// The state of window probing; `None` unless a closed window is being probed. The probe interval doubles with each
    /// probe.
    probing: Option<Probing>,
    /// Whether the peer's last SACK reported a closed window. The peer may then have refused data. Cleared when T3-rtx
    /// expires.
    saw_closed_window: bool,
    dupthresh: u8,
    /// Whether a chunk may be fast retransmitted more than once.
    fast_again: bool,
    /// Whether losses are detected by time (RFC 8985) instead of miss indications.
    by_time: bool,
    /// The TSN offset below which the last SACK reports every arrived chunk. At or above this offset, the SACK may
    /// leave out arrived chunks.
    horizon: rack::Horizon,
    /// One entry for each stream reset (RFC 6525), ascending: the TSN of the first chunk after the reset, as an offset
    /// from the initial TSN. From this chunk on, stream sequence numbers start again at 0. An entry stays in the list
    /// while a chunk from before the reset is outstanding.
    resets: Vec<u64>,
    /// Limits the work that the SACKs of one received packet may cause.
    sack_work: SackWorkLimit,
    /// Messages that may be abandoned; `None` until the first such message is queued.
    limits: Option<Box<abandon::Limits>>,
    /// Maximum number of user bytes in a chunk (AMDCS minus the chunk header).
    largest: u32,
    burst: BurstLimit,
    /// The outcome of the last SACK, kept so that the next SACK reuses its memory.
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
            saw_closed_window: false,
            dupthresh: config.dupthresh.min(255) as u8,
            fast_again: config.fast_again,
            by_time: config.rack,
            horizon: rack::Horizon::new(),
            resets: Vec::new(),
            sack_work: SackWorkLimit::default(),
            limits: None,
            largest: 0,
            burst: BurstLimit::new(),
            outcome: None,
        }
    }

    /// Returns an empty SACK outcome with room for `paths` paths. `records_arrivals` says whether the outcome will list
    /// the chunks that the SACK newly reports as arrived.
    #[inline]
    pub(crate) fn take_outcome(&mut self, paths: usize, records_arrivals: bool) -> Box<SackOutcome> {
        let mut outcome = self.outcome.take().unwrap_or_default();
        outcome.fit(paths, records_arrivals);
        outcome
    }

    /// Keeps the allocation of a processed outcome for the next SACK. Frees it instead if associations share memory and
    /// this association expects no SACK. Otherwise each of many idle associations would hold an unused allocation.
    #[inline]
    pub(crate) fn keep_outcome(&mut self, outcome: Box<SackOutcome>) {
        if !(self.queue.is_shared() && self.is_idle()) {
            self.outcome = Some(outcome);
        }
    }

    /// Resets the count of the work that SACKs have caused. Called after each packet, because the limit applies to
    /// the SACKs of one packet.
    #[inline]
    pub(crate) fn reset_sack_work(&mut self) {
        self.sack_work = SackWorkLimit::default();
    }

    /// Returns whether no data waits to be sent and no chunk is outstanding.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.unsent_bytes() == 0 && self.outstanding.is_empty()
    }

    /// Returns whether any message may be abandoned or was abandoned.
    #[inline]
    pub(crate) fn has_limits(&self) -> bool {
        self.limits.is_some()
    }

    // The queue.

    /// Queues `payload` as messages of `piece` bytes each, as far as there is room. Returns the number of bytes
    /// queued.
    pub(crate) fn push_pieces(
        &mut self,
        message: Message,
        payload: &[u8],
        piece: usize,
    ) -> Result<usize, SendError> {
        self.queue.push_pieces(message, payload, piece)
    }

    /// Like [`push_pieces`](Self::push_pieces), but shares the memory of `payload` if possible.
    pub(crate) fn push_shared_pieces(
        &mut self,
        message: Message,
        payload: &mut Bytes,
        piece: usize,
    ) -> Result<usize, SendError> {
        self.queue.push_shared_pieces(message, payload, piece)
    }

    /// Returns the number of queued user bytes that were not yet sent in a chunk.
    #[inline]
    pub(crate) fn unsent_bytes(&self) -> u64 {
        self.queue.unsent_bytes()
    }

    /// Returns the number of buffered user bytes: those not sent yet, and those sent that may have to be retransmitted.
    pub(crate) fn buffered_bytes(&self) -> u64 {
        self.queue.buffered_bytes()
    }

    /// Returns the number of buffered user bytes that gap blocks have acknowledged.
    pub(crate) fn gap_acked_bytes(&self) -> u64 {
        self.outstanding.gap_acked()
    }

    /// Returns the free space in the send buffer in bytes.
    pub(crate) fn writable_bytes(&self) -> u64 {
        self.queue.writable_bytes()
    }

    /// Returns whether this association shares memory with others. If so, the size of the send buffer follows the
    /// amount of data that can be in flight.
    #[inline]
    pub(crate) fn shares_memory(&self) -> bool {
        self.queue.is_shared()
    }

    /// Sizes the send buffer to the amount of data that can be in flight. The congestion window and the peer's window
    /// limit this amount.
    pub(crate) fn size_buffer(&mut self, congestion_window: u64) {
        self.queue.follow(congestion_window, self.peer_window + self.outstanding.in_flight());
    }

    /// Returns whether a `send` was rejected for lack of room in the send buffer.
    #[inline]
    pub(crate) fn has_rejected(&self) -> bool {
        self.queue.has_rejected()
    }

    /// Returns true once, when the send buffer has room again after a `send` was rejected.
    #[inline]
    pub(crate) fn take_writable(&mut self) -> bool {
        self.queue.take_writable()
    }

    /// Returns the number of buffered user bytes of `stream`: those not sent yet, and those sent that may have to be
    /// retransmitted.
    pub(crate) fn buffered_on(&self, stream: u16) -> u64 {
        self.queue.buffered_on(stream)
    }

    /// Sets the number of buffered bytes at or below which `stream` is reported as low. `None` turns the reports off.
    pub(crate) fn set_low(&mut self, stream: u16, low: Option<u64>) {
        self.queue.set_low(stream, low);
    }

    /// Returns a stream whose buffered amount has become low. Each such change is returned once.
    #[inline]
    pub(crate) fn take_low(&mut self) -> Option<u16> {
        self.queue.take_low()
    }

    /// RFC 9260 §5.1.1: the peer accepts only `granted` streams. Drops and returns messages that were queued on
    /// higher stream numbers before this limit was known.
    pub(crate) fn drop_beyond(&mut self, granted: u16, payloads: bool) -> Vec<Undelivered> {
        self.queue.drop_beyond(granted, payloads)
    }

    /// RFC 8260 §2.2.1: selects I-DATA or DATA for all further messages.
    pub(crate) fn set_interleaving(&mut self, on: bool) {
        self.queue.set_interleaving(on);
    }

    /// Sets the size of the send buffer in bytes.
    pub(crate) fn set_buffer_limit(&mut self, limit: u64) {
        self.queue.set_limit(limit);
    }

    /// RFC 8260 §3: changes the stream scheduler.
    pub(crate) fn set_scheduler(&mut self, kind: SchedulerKind) {
        self.queue.set_scheduler(kind);
    }

    /// Sets a stream's priority or weight.
    pub(crate) fn set_stream_value(&mut self, stream: u16, value: u16) {
        self.queue.set_stream_value(stream, value);
    }

    /// Returns the size in bytes of the DATA or I-DATA header.
    #[inline]
    pub(crate) fn chunk_header(&self) -> usize {
        self.queue.header()
    }

    /// Returns the identifier of the key that authenticates the message, if the message names a key.
    pub(crate) fn key_of(&self, message: u32) -> Option<u16> {
        self.queue.message(message).key
    }

    /// Returns the messages that are to be authenticated with this key and are not fully acknowledged.
    pub(crate) fn messages_of(&self, key: u16) -> Vec<u32> {
        self.queue.messages_of(key)
    }

    /// Returns whether `message` is to be authenticated with `key` and is not fully acknowledged.
    pub(crate) fn asks_for(&self, message: u32, key: u16) -> bool {
        self.queue.asks_for(message, key)
    }

    /// Called when the association restarts. Moves the state that survives the restart from `before`, the old send
    /// half, into this one.
    pub(crate) fn inherit(&mut self, before: &mut Self) {
        self.queue.inherit(&mut before.queue);
    }

    // Outstanding chunks.

    /// Returns the TSN offset of the lowest outstanding chunk.
    #[inline]
    pub(crate) fn base(&self) -> u64 {
        self.outstanding.base()
    }

    /// Returns the TSN offset that the next new chunk will have.
    #[inline]
    pub(crate) fn end(&self) -> u64 {
        self.outstanding.end()
    }

    /// Returns the TSN that the next new chunk will have.
    pub(crate) fn next_tsn(&self) -> u32 {
        self.outstanding.tsn(self.outstanding.end())
    }

    /// Converts a TSN to an offset in the list of outstanding chunks. For a TSN that is not outstanding, the result
    /// lies before the first or after the last outstanding chunk.
    pub(crate) fn offset_of(&self, tsn: u32) -> i64 {
        self.outstanding.base() as i64 + i64::from(self.outstanding.ahead(tsn)) - 1
    }

    /// Returns the path that an outstanding chunk was sent to.
    pub(crate) fn path_of(&self, offset: i64) -> Option<usize> {
        let entry = self.outstanding.get(u64::try_from(offset).ok()?)?;
        Some(usize::from(entry.path))
    }

    /// Returns whether `cumulative` acknowledges a chunk that was not cumulatively acknowledged before.
    pub(crate) fn is_advanced_by(&self, cumulative: Tsn) -> bool {
        self.outstanding.ahead(cumulative.0) > 0
    }

    #[inline]
    pub(crate) fn has_outstanding(&self) -> bool {
        !self.outstanding.is_empty()
    }

    /// Returns whether the number of outstanding chunks has reached its limit.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        self.outstanding.is_full()
    }

    /// Returns whether no chunk is in flight or marked for retransmission.
    #[inline]
    pub(crate) fn awaits_nothing(&self) -> bool {
        self.outstanding.awaits_nothing()
    }

    /// Returns whether a chunk is marked for retransmission.
    #[inline]
    pub(crate) fn has_lost(&self) -> bool {
        self.outstanding.has_lost()
    }

    /// Returns whether a chunk beyond the cumulative TSN ack point was acknowledged by a gap block.
    #[inline]
    pub(crate) fn has_gaps(&self) -> bool {
        self.outstanding.has_gaps()
    }

    /// Returns the TSN offset of the lowest chunk in flight on a path.
    pub(crate) fn earliest_on(&self, path: usize) -> Option<u64> {
        self.outstanding.earliest_on(path as u8, 0)
    }

    /// Returns the TSN offset of the first chunk in flight on `path`, searched from offset `from` upwards. If the
    /// search takes too many steps, returns a lower bound of the chunk's TSN offset instead.
    #[inline]
    pub(crate) fn earliest_within(&self, path: usize, from: u64) -> Earliest {
        self.outstanding.earliest_within(path as u8, from)
    }

    /// Returns whether a chunk is in flight.
    pub(crate) fn is_in_flight(&self, offset: u64) -> bool {
        self.outstanding.get(offset).is_some_and(|entry| entry.state == ChunkState::InFlight)
    }

    /// RFC 8899 §4.3: returns whether the lowest chunk in flight on a path was retransmitted and has at most `limit`
    /// bytes, header included.
    pub(crate) fn repeats_within(&self, path: usize, limit: u64) -> bool {
        let entry = self.earliest_on(path).and_then(|offset| self.outstanding.get(offset));
        entry.is_some_and(|entry| entry.was_retransmitted && entry.size() <= limit)
    }

    /// Returns the size in bytes of the lowest chunk that is not cumulatively acknowledged, header included.
    pub(crate) fn lowest_size(&self) -> u64 {
        self.outstanding.get(self.base()).map_or(0, |entry| entry.size())
    }

    // The peer's window.

    /// Returns the peer's last a_rwnd minus the data sent since then, in user bytes.
    pub(crate) fn peer_window(&self) -> u64 {
        self.peer_window
    }

    /// RFC 9260 §6.2.1 A: sets the peer's window from the a_rwnd of INIT or INIT ACK, minus the data sent with the
    /// COOKIE ECHO.
    pub(crate) fn open_window(&mut self, window: u32) {
        self.peer_window = u64::from(window).saturating_sub(self.outstanding.in_flight());
    }
}
