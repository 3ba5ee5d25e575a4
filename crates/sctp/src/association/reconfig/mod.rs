//! Stream re-configuration: requests to reset streams and to add streams.
//!
//! [`request`] implements the requests of this side, and [`response`] the requests of the peer. Both use the sequence
//! numbers in [`Reconfig`]. One request chunk is outstanding at a time. It holds one request, or one of the pairs of
//! requests that RFC 6525 §3.1 allows. Further requests wait in a bounded queue. [`AssociationParts`] borrows the parts
//! of the association that a request affects.
//!
//! Implements RFC 6525 §5.1.1, and the calls of the application (§6.3).

mod request;
mod response;

use super::inbound::PacketMeta;
use super::stream_counts::StreamCounts;
use super::timers::{Timer, Timers};
use super::{Association, Ctx, State};
use crate::config::Config;
use crate::error::ResetError;
use crate::event::{CloseReason, Direction, Event};
use crate::id::AssociationId;
use crate::path::select::Paths;
use crate::recv::RecvHalf;
use crate::send::SendHalf;
use crate::send::queue::ReservationId;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_wire::sctp::{ReConfig, ReConfigParam, StreamList, Tsn};
use request::{OutstandingRequest, ReconfigRequest};
use response::{Answer, Deferred, PeerResetRequest};
use std::collections::VecDeque;

/// RFC 6525 §5.1.4: the minimum time between two TSN resets. For this time after a reset, packets with the old TSNs may
/// arrive.
const LIFETIME: Duration = Duration::from_secs(30);

/// RFC 6525 §4.4, Table 3: the result codes.
mod result {
    pub(super) const NOTHING: u32 = 0;
    pub(super) const PERFORMED: u32 = 1;
    pub(super) const DENIED: u32 = 2;
    pub(super) const WRONG_STREAM: u32 = 3;
    pub(super) const ALREADY: u32 = 4;
    pub(super) const BAD_NUMBER: u32 = 5;
    pub(super) const IN_PROGRESS: u32 = 6;
}

/// The RE-CONFIG state of an association.
#[derive(Debug)]
pub(crate) struct Reconfig {
    /// RFC 6525 §4.1: the sequence number of this side's next request. The first request has the initial TSN as its
    /// number.
    next: u32,
    /// The sequence number of the peer's next request.
    expected: u32,
    last_ticket: ReservationId,
    /// Requests that wait until the outstanding request is answered, in the order in which they are sent.
    waiting: VecDeque<ReconfigRequest>,
    /// The outstanding request.
    outstanding: Option<OutstandingRequest>,
    /// Incoming streams that the peer has agreed to reset, and the sequence number of this side's request.
    agreed_incoming: Option<(u32, Vec<u16>)>,
    /// Whether the outstanding request has to be sent.
    send_pending: bool,
    /// The answers given to the requests in the peer's last chunk.
    results: Vec<Answer>,
    /// The responses that still have to be written.
    replies: Vec<ReConfigParam<'static>>,
    reply_path: usize,
    /// A reset by the peer that is deferred until the last TSN before the reset has arrived.
    deferred: Option<Deferred>,
    /// The peer's request to reset outgoing streams of this side, if the request has to wait.
    peer_request: Option<PeerResetRequest>,
    /// The time of the last TSN reset, or of this side's last request for a TSN reset, whichever is later.
    last_tsn_reset: Option<Instant>,
}

impl Reconfig {
    fn new(initial: u32, peer_initial: u32) -> Self {
        Self {
            next: initial,
            expected: peer_initial,
            last_ticket: 0,
            waiting: VecDeque::new(),
            outstanding: None,
            agreed_incoming: None,
            send_pending: false,
            results: Vec::new(),
            replies: Vec::new(),
            reply_path: 0,
            deferred: None,
            peer_request: None,
            last_tsn_reset: None,
        }
    }

    fn ticket(&mut self) -> ReservationId {
        self.last_ticket = self.last_ticket.wrapping_add(1);
        self.last_ticket
    }

    /// Returns the outstanding request and the queued requests.
    fn requests(&self) -> impl Iterator<Item = &ReconfigRequest> {
        self.outstanding.iter().map(|outstanding| &outstanding.request).chain(&self.waiting)
    }

    fn resets_association(&self) -> bool {
        self.requests().any(|request| matches!(request, ReconfigRequest::Association { .. }))
    }
}

/// The parts of an association that a re-configuration affects.
struct AssociationParts<'a> {
    id: AssociationId,
    now: Instant,
    config: &'a Config,
    /// Whether the state of the association permits sending DATA and requests.
    may_send: bool,
    send: &'a mut SendHalf,
    recv: &'a mut RecvHalf,
    streams: &'a mut StreamCounts,
    paths: &'a mut Paths,
    timers: &'a mut Timers,
    events: &'a mut VecDeque<Event>,
    /// Whether a request has been completed. If so, the messages that were held back for this request may be sent.
    finished: bool,
}

impl AssociationParts<'_> {
    /// Emits an event for each stream that became readable.
    fn emit_readable(&mut self) {
        let id = self.id;
        self.events.extend(self.recv.newly_readable().drain(..).map(|stream| Event::Readable { id, stream }));
    }
}

impl Association {
    /// Returns the re-configuration state, and the other parts of the association that a re-configuration affects. The
    /// state is created at its first use.
    fn reconfig<'a>(&'a mut self, ctx: &'a mut Ctx<'_>) -> (&'a mut Reconfig, AssociationParts<'a>) {
        let (initial, peer) = (self.identity.initial_tsn(), self.recv.initial_tsn());
        let reconfig = self.extensions.reconfig.get_or_insert_with(|| Box::new(Reconfig::new(initial, peer)));
        let parts = AssociationParts {
            id: self.id,
            now: ctx.now,
            config: &self.config,
            may_send: self.state.may_send_data(),
            send: &mut self.send,
            recv: &mut self.recv,
            streams: &mut self.streams,
            paths: &mut self.paths,
            timers: &mut self.timers,
            events: ctx.events,
            finished: false,
        };
        (reconfig, parts)
    }

    fn may_ask(&self) -> Result<(), ResetError> {
        if !matches!(self.state, State::Established) || self.closing.is_shutdown_requested() {
            return Err(ResetError::Closing);
        }
        // RFC 6525 §5.1.1: no request is sent to a peer that does not support re-configuration.
        if self.extensions.agreed.reconfig { Ok(()) } else { Err(ResetError::Unsupported) }
    }

    // The methods that the application calls.

    /// RFC 6525 §6.3.2: resets streams.
    pub(crate) fn reset_streams(
        &mut self,
        ctx: &mut Ctx<'_>,
        direction: Direction,
        streams: &[u16],
    ) -> Result<(), ResetError> {
        self.may_ask()?;
        let (outgoing, incoming) = (direction.is_outgoing(), direction.is_incoming());
        let (out_limit, in_limit) = (self.streams.outbound(), self.streams.inbound());
        if streams.iter().any(|&s| outgoing && s >= out_limit || incoming && s >= in_limit) {
            return Err(ResetError::NoSuchStream);
        }
        let mut streams = streams.to_vec();
        streams.sort_unstable();
        streams.dedup();
        let (reconfig, parts) = self.reconfig(ctx);
        reconfig.request_reset(parts.send, parts.paths, &streams, (outgoing, incoming))
    }

    /// RFC 6525 §6.3.3: resets all TSNs and SSNs.
    pub(crate) fn reset_association(&mut self, ctx: &mut Ctx<'_>) -> Result<(), ResetError> {
        self.may_ask()?;
        let (reconfig, parts) = self.reconfig(ctx);
        reconfig.request_tsn_reset(parts.now, parts.send)
    }

    /// RFC 6525 §6.3.4: adds streams.
    pub(crate) fn add_streams(
        &mut self,
        ctx: &mut Ctx<'_>,
        outgoing: u16,
        incoming: u16,
    ) -> Result<(), ResetError> {
        self.may_ask()?;
        let overflows = |have: u16, more: u16| have.checked_add(more).is_none();
        if outgoing == 0 && incoming == 0
            || overflows(self.streams.outbound(), outgoing)
            || overflows(self.streams.inbound(), incoming)
        {
            return Err(ResetError::TooManyStreams);
        }
        self.reconfig(ctx).0.request_streams(outgoing, incoming)
    }

    // Sending.

    /// Returns the path on which a RE-CONFIG has to be sent, if one is pending.
    #[inline]
    pub(super) fn reconfig_path(&mut self) -> Option<usize> {
        let reconfig = self.extensions.reconfig.as_deref_mut()?;
        if self.state.may_send_data() {
            reconfig.launch(&mut self.send, &mut self.timers, self.paths.current());
        }
        reconfig.wanted_path()
    }

    /// Writes the pending RE-CONFIG chunks for path `index`, if they fit.
    pub(super) fn write_reconfig(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        end: usize,
        buffer: &mut Vec<u8>,
        alone: bool,
    ) {
        let Some(reconfig) = self.extensions.reconfig.as_deref_mut() else {
            return;
        };
        let room = if alone { usize::MAX } else { end.saturating_sub(buffer.len()) };
        if reconfig.write(ctx.now, index, room, buffer) {
            // RFC 6525 §5.1.1: the re-configuration timer runs while a request is unanswered.
            let rto = self.paths.get(index).rto();
            self.timers.set(Timer::Reconfig, ctx.now + rto);
        }
    }

    /// RFC 6525 §5.1.1: retransmits the outstanding request, to another address if the peer has another address.
    pub(super) fn on_reconfig_timer(&mut self, ctx: &mut Ctx<'_>) {
        let may_send = self.state.may_send_data();
        let Some(outstanding) =
            self.extensions.reconfig.as_deref_mut().and_then(|reconfig| reconfig.outstanding.as_mut())
        else {
            return;
        };
        if !may_send {
            return;
        }
        // RFC 6525 §5.2.7 H2: if the peer has answered "in progress", an expiration of this timer is not an error of
        // the path. While data is in flight on the path, T3-rtx counts the loss. The expiration is not counted in
        // addition, because one lost packet must not count twice.
        let index = outstanding.path;
        let counts = !std::mem::take(&mut outstanding.is_in_progress) && self.paths.get(index).flight() == 0;
        if counts {
            let path = self.paths.at(index);
            path.back_off();
            let health = path.on_error(ctx.now, self.config.path_max_retrans);
            self.paths.count_error(ctx.now);
            self.on_health(ctx, index, health);
            if self.paths.is_peer_unreachable(&self.config, ctx.now) {
                self.close(ctx, CloseReason::Unreachable);
                return;
            }
        }
        let path = if counts { self.paths.alternate(index).unwrap_or(index) } else { index };
        if let Some(reconfig) = self.extensions.reconfig.as_deref_mut() {
            reconfig.send_again(Some(path));
        }
    }

    // Receiving.

    pub(super) fn on_re_config(&mut self, ctx: &mut Ctx<'_>, chunk: &ReConfig<'_>, arrived: &PacketMeta) {
        if !self.state.is_up() || matches!(self.state, State::ShutdownAckSent) {
            return;
        }
        let params: Vec<_> = chunk.params().take(3).collect();
        if !response::is_allowed(&params) {
            return;
        }
        if !params.iter().all(|param| matches!(param, ReConfigParam::Response { .. })) {
            // RFC 6525 §5.2.1: the response is sent with a SACK. If the request waits for data, the SACK makes the peer
            // retransmit this data soon.
            self.recv.sack_now();
        }
        let mut first = true;
        for param in params {
            let is_response = matches!(param, ReConfigParam::Response { .. });
            if let ReConfigParam::Response { response, result, .. } = param
                && !self.on_answered(ctx, response, result)
            {
                continue;
            }
            let (reconfig, mut parts) = self.reconfig(ctx);
            match param {
                ReConfigParam::Response { response, result, next } => {
                    reconfig.on_response(&mut parts, response, result, next);
                }
                request => reconfig.on_request(&mut parts, &request, first, arrived.path),
            }
            first &= is_response;
            if parts.finished {
                // The messages that waited for the reset may be sent now. If the peer's window is closed and no chunk
                // is outstanding, these messages need a window probe.
                self.check_probe(ctx.now);
            }
        }
    }

    /// Handles the peer's answer to the request with the sequence number `number`. RFC 9260 §8.1, §8.2: like
    /// acknowledged DATA, an answer proves that the path works. Returns false if no such request is outstanding (RFC
    /// 6525 §5.2.7 H1).
    fn on_answered(&mut self, ctx: &mut Ctx<'_>, number: u32, result: u32) -> bool {
        let outstanding =
            self.extensions.reconfig.as_deref().and_then(|reconfig| reconfig.outstanding.as_ref());
        let Some(outstanding) = outstanding.filter(|outstanding| outstanding.kind_of(number).is_some())
        else {
            return false;
        };
        let index = outstanding.path;
        // RFC 9260 §8.1: while data is outstanding, neither the result "in progress" nor a HEARTBEAT ACK clears the
        // error counter. The peer may be waiting for this data. If every retransmission of the data is lost, the peer
        // must finally count as unreachable.
        if result != result::IN_PROGRESS || !self.send.has_outstanding() {
            self.paths.clear_errors();
        }
        let path = self.paths.at(index);
        if path.is_confirmed() && path.on_answer(ctx.now) {
            self.on_path_up(ctx, index, true);
        }
        true
    }

    /// Continues a deferred reset after a packet was processed.
    #[cold]
    pub(super) fn advance_reconfig(&mut self, ctx: &mut Ctx<'_>, path: usize) {
        let (reconfig, mut parts) = self.reconfig(ctx);
        reconfig.advance_deferred(&mut parts, path);
    }

    /// Returns whether the peer may have sent this chunk after a reset that this side has not finished yet. The TSN or
    /// stream sequence number of the chunk then counts from the reset, so the chunk must not be accepted before the
    /// reset is done.
    #[cold]
    pub(super) fn comes_too_early(&self, tsn: Tsn, stream: u16) -> bool {
        self.extensions.reconfig.as_deref().is_some_and(|reconfig| reconfig.comes_too_early(tsn, stream))
    }

    /// Returns whether the peer may have reset its TSNs already, although its answer to our request has not arrived.
    #[cold]
    pub(super) fn may_be_renumbered(&self) -> bool {
        self.extensions.reconfig.as_deref().is_some_and(Reconfig::may_be_renumbered)
    }

    /// Refuses a chunk that may belong to the numbering after a TSN reset. The chunk shows that our reset request or
    /// its answer was lost, so the request is repeated to the source address of the chunk, at most once per round trip.
    /// The timer of RFC 6525 §5.1.1 alone might be too late: the peer gives up if its data is not acknowledged.
    #[cold]
    pub(super) fn refuse_early(&mut self, now: Instant, arrived: &PacketMeta) {
        self.recv.refuse();
        let path = self.paths.get(arrived.path);
        // Until a round-trip time has been measured, the request is repeated at most once per RTO.Min. The peer's
        // retransmission timer may be much shorter than ours, so with a longer interval the peer might give up first.
        let round_trip = path.smoothed_rtt().unwrap_or(self.config.rto_min);
        if let Some(reconfig) = self.extensions.reconfig.as_deref_mut()
            && reconfig.is_renumbering_since(now, round_trip)
        {
            reconfig.send_again(path.is_usable().then_some(arrived.path));
        }
    }

    /// Returns whether the TSNs were reset so recently that packets with the old TSNs may still arrive.
    pub(super) fn was_renumbered_recently(&self, now: Instant) -> bool {
        let at = self.extensions.reconfig.as_deref().and_then(|reconfig| reconfig.last_tsn_reset);
        at.is_some_and(|at| now < at + LIFETIME.saturating_mul(2))
    }
}

/// Encodes a list of streams for a request.
fn encode(streams: &[u16]) -> Vec<u8> {
    streams.iter().flat_map(|stream| stream.to_be_bytes()).collect()
}

fn decode(list: StreamList<'_>) -> Vec<u16> {
    let mut streams: Vec<u16> = list.iter().collect();
    streams.sort_unstable();
    streams.dedup();
    streams
}

/// Returns whether two lists have a stream in common. An empty list means all streams.
fn intersects(a: &[u16], b: &[u16]) -> bool {
    a.is_empty() || b.is_empty() || b.iter().any(|stream| a.binary_search(stream).is_ok())
}

/// Returns whether the first list contains every stream of the second list. An empty list stands for all streams.
fn covers(of: &[u16], streams: &[u16]) -> bool {
    of.is_empty() || !streams.is_empty() && streams.iter().all(|stream| of.binary_search(stream).is_ok())
}
