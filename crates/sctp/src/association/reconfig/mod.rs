//! Streams begin anew, or become more.
//!
//! Owns what this side asks of the peer ([`request`]) and what the peer asks of
//! it ([`response`]), with the sequence numbers of both. One request is under
//! way at a time, which may carry one of the pairs that RFC 6525 §3.1 allows;
//! others wait in a bounded queue. The association hands it the siblings that
//! a request concerns, and sees to what an answer says of paths.
//!
//! Home of RFC 6525 §5.1.1 and of the application's wishes (§6.3).

mod request;
mod response;

use super::inbound::Arrived;
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
use crate::send::queue::Ticket;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_wire::sctp::{ReConfig, ReConfigParam, StreamList, Tsn};
use request::{Ask, Flying};
use response::{Answer, Asked, Deferred};
use std::collections::VecDeque;

/// RFC 6525 §5.1.4: a TSN reset within this time of the last would meet old packets.
const LIFETIME: Duration = Duration::from_secs(30);

/// RFC 6525 §4.4, Table 3.
mod result {
    pub(super) const NOTHING: u32 = 0;
    pub(super) const PERFORMED: u32 = 1;
    pub(super) const DENIED: u32 = 2;
    pub(super) const WRONG_STREAM: u32 = 3;
    pub(super) const ALREADY: u32 = 4;
    pub(super) const BAD_NUMBER: u32 = 5;
    pub(super) const IN_PROGRESS: u32 = 6;
}

/// Everything of an association that concerns RE-CONFIG.
#[derive(Debug)]
pub(crate) struct Reconfig {
    /// RFC 6525 §4.1: number of this side's next request; the first is the initial TSN.
    next: u32,
    /// Number of the peer's next request.
    expected: u32,
    tickets: Ticket,
    /// What is to be asked, in order.
    wanted: VecDeque<Ask>,
    /// What has been asked.
    flying: Option<Flying>,
    /// Streams that the peer has said it will reset, and the request that asked for it.
    parked: Option<(u32, Vec<u16>)>,
    /// The request is to be written.
    send: bool,
    /// What the peer was answered to the requests of its last chunk.
    answered: Vec<Answer>,
    /// Responses to be written.
    replies: Vec<ReConfigParam<'static>>,
    reply_path: usize,
    /// A reset by the peer whose last TSN has not arrived.
    deferred: Option<Deferred>,
    /// Streams that the peer wants reset.
    asked: Option<Asked>,
    /// When TSNs were last renumbered, or that was asked for.
    renumbered: Option<Instant>,
}

impl Reconfig {
    fn new(initial: u32, peer_initial: u32) -> Self {
        Self {
            next: initial,
            expected: peer_initial,
            tickets: 0,
            wanted: VecDeque::new(),
            flying: None,
            parked: None,
            send: false,
            answered: Vec::new(),
            replies: Vec::new(),
            reply_path: 0,
            deferred: None,
            asked: None,
            renumbered: None,
        }
    }

    fn ticket(&mut self) -> Ticket {
        self.tickets = self.tickets.wrapping_add(1);
        self.tickets
    }

    /// What has been asked, and what is to be.
    fn asks(&self) -> impl Iterator<Item = &Ask> {
        self.flying.iter().map(|flying| &flying.ask).chain(&self.wanted)
    }

    fn resets_association(&self) -> bool {
        self.asks().any(|ask| matches!(ask, Ask::Association { .. }))
    }
}

/// What a re-configuration concerns beside its own state.
struct Siblings<'a> {
    id: AssociationId,
    now: Instant,
    config: &'a Config,
    /// DATA may be sent, and requests may be made.
    may_send: bool,
    send: &'a mut SendHalf,
    recv: &'a mut RecvHalf,
    streams: &'a mut StreamCounts,
    paths: &'a mut Paths,
    timers: &'a mut Timers,
    events: &'a mut VecDeque<Event>,
    /// A request has been answered for good, and what was kept back for it may go.
    finished: bool,
}

impl Siblings<'_> {
    /// Hands the streams that became readable to the application.
    fn emit_readable(&mut self) {
        let id = self.id;
        self.events.extend(self.recv.news().drain(..).map(|stream| Event::Readable { id, stream }));
    }
}

impl Association {
    /// The state of re-configuration, begun with the first chunk or wish, and what it concerns.
    fn reconfig<'a>(&'a mut self, ctx: &'a mut Ctx<'_>) -> (&'a mut Reconfig, Siblings<'a>) {
        let (initial, peer) = (self.identity.initial_tsn(), self.recv.initial_tsn());
        let reconfig = self.extensions.reconfig.get_or_insert_with(|| Box::new(Reconfig::new(initial, peer)));
        let siblings = Siblings {
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
        (reconfig, siblings)
    }

    fn may_ask(&self) -> Result<(), ResetError> {
        if !matches!(self.state, State::Established) || self.closing.is_asked() {
            return Err(ResetError::Closing);
        }
        // RFC 6525 §5.1.1: nothing is asked of a peer that does not know it.
        if self.extensions.agreed.reconfig { Ok(()) } else { Err(ResetError::Unsupported) }
    }

    // What the application asks for.

    /// RFC 6525 §6.3.2.
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
        let (reconfig, siblings) = self.reconfig(ctx);
        reconfig.ask_reset(siblings.send, siblings.paths, &streams, (outgoing, incoming))
    }

    /// RFC 6525 §6.3.3.
    pub(crate) fn reset_association(&mut self, ctx: &mut Ctx<'_>) -> Result<(), ResetError> {
        self.may_ask()?;
        let (reconfig, siblings) = self.reconfig(ctx);
        reconfig.ask_renumbering(siblings.now, siblings.send)
    }

    /// RFC 6525 §6.3.4.
    pub(crate) fn add_streams(
        &mut self,
        ctx: &mut Ctx<'_>,
        outgoing: u16,
        incoming: u16,
    ) -> Result<(), ResetError> {
        self.may_ask()?;
        let most = |have: u16, more: u16| have.checked_add(more).is_none();
        if outgoing == 0 && incoming == 0
            || most(self.streams.outbound(), outgoing)
            || most(self.streams.inbound(), incoming)
        {
            return Err(ResetError::TooManyStreams);
        }
        self.reconfig(ctx).0.ask_more(outgoing, incoming)
    }

    // What is to be sent.

    /// The path that a RE-CONFIG is wanted to, if one is.
    #[inline]
    pub(super) fn reconfig_path(&mut self) -> Option<usize> {
        let reconfig = self.extensions.reconfig.as_deref_mut()?;
        if self.state.may_send_data() {
            reconfig.launch(&mut self.send, &mut self.timers, self.paths.current());
        }
        reconfig.wanted_path()
    }

    /// Writes what is wanted to `index`, as far as it fits behind what is there.
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
            // RFC 6525 §5.1.1: the timer runs as long as a request is not answered.
            let rto = self.paths.get(index).rto();
            self.timers.set(Timer::Reconfig, ctx.now + rto);
        }
    }

    /// RFC 6525 §5.1.1: the request is retransmitted, to another address if there is one.
    pub(super) fn on_reconfig_timer(&mut self, ctx: &mut Ctx<'_>) {
        let up = self.state.may_send_data();
        let Some(flying) =
            self.extensions.reconfig.as_deref_mut().and_then(|reconfig| reconfig.flying.as_mut())
        else {
            return;
        };
        if !up {
            return;
        }
        // RFC 6525 §5.2.7 H2: what is in progress takes its time. And where data is on its way, its
        // T3-rtx says of the path what is to be said: one lost packet is not two.
        let index = flying.path;
        let counts = !std::mem::take(&mut flying.patient) && self.paths.get(index).flight() == 0;
        if counts {
            let path = self.paths.at(index);
            path.back_off();
            let health = path.on_error(ctx.now, self.config.path_max_retrans);
            self.paths.count_error(ctx.now);
            self.on_health(ctx, index, health);
            if self.paths.are_silent(&self.config, ctx.now) {
                self.close(ctx, CloseReason::Unreachable);
                return;
            }
        }
        let path = if counts { self.paths.alternate(index).unwrap_or(index) } else { index };
        if let Some(reconfig) = self.extensions.reconfig.as_deref_mut() {
            reconfig.send_again(Some(path));
        }
    }

    // What the peer says.

    pub(super) fn on_re_config(&mut self, ctx: &mut Ctx<'_>, chunk: &ReConfig<'_>, arrived: &Arrived) {
        if !self.state.is_up() || matches!(self.state, State::ShutdownAckSent) {
            return;
        }
        let params: Vec<_> = chunk.params().take(3).collect();
        if !response::is_allowed(&params) {
            return;
        }
        if !params.iter().all(|param| matches!(param, ReConfigParam::Response { .. })) {
            // RFC 6525 §5.2.1: with the response a SACK, so that what it waits for is retransmitted soon.
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
            let (reconfig, mut siblings) = self.reconfig(ctx);
            match param {
                ReConfigParam::Response { response, result, next } => {
                    reconfig.on_response(&mut siblings, response, result, next);
                }
                request => reconfig.on_request(&mut siblings, &request, first, arrived.path),
            }
            first &= is_response;
            if siblings.finished {
                // What was kept back may find the peer's window closed, and nothing outstanding.
                self.check_probe(ctx.now);
            }
        }
    }

    /// RFC 9260 §8.1, §8.2: an answer shows as much as acknowledged DATA, whatever it says. False when it is none: RFC 6525
    /// §5.2.7 H1: what is not waited for means nothing.
    fn on_answered(&mut self, ctx: &mut Ctx<'_>, number: u32, result: u32) -> bool {
        let flying = self.extensions.reconfig.as_deref().and_then(|reconfig| reconfig.flying.as_ref());
        let Some(flying) = flying.filter(|flying| flying.kind_of(number).is_some()) else {
            return false;
        };
        let index = flying.path;
        // RFC 9260 §8.1: but not while data says otherwise, as with HEARTBEAT ACK: what the request
        // waits for may never arrive, and it would be answered so for ever.
        if result != result::IN_PROGRESS || !self.send.has_outstanding() {
            self.paths.clear_errors();
        }
        let path = self.paths.at(index);
        if path.is_confirmed() && path.on_answer(ctx.now) {
            self.on_path_up(ctx, index, true);
        }
        true
    }

    /// A packet has been read: what waited for a TSN may go on.
    #[cold]
    pub(super) fn advance_reconfig(&mut self, ctx: &mut Ctx<'_>, path: usize) {
        let (reconfig, mut siblings) = self.reconfig(ctx);
        reconfig.advance_deferred(&mut siblings, path);
    }

    /// A chunk that may be of the numbering to come: it is not taken yet.
    #[cold]
    pub(super) fn comes_too_early(&self, tsn: Tsn, stream: u16) -> bool {
        self.extensions.reconfig.as_deref().is_some_and(|reconfig| reconfig.comes_too_early(tsn, stream))
    }

    /// The peer may have renumbered its TSNs already, and its answer be lost or late.
    #[cold]
    pub(super) fn may_be_renumbered(&self) -> bool {
        self.extensions.reconfig.as_deref().is_some_and(Reconfig::may_be_renumbered)
    }

    /// Refuses such a chunk. It shows that our request or its answer has not arrived: the request is
    /// repeated where the chunk came from, once a round trip, or the peer might lose patience with
    /// its data before our timer (RFC 6525 §5.1.1) runs out.
    #[cold]
    pub(super) fn refuse_early(&mut self, now: Instant, arrived: &Arrived) {
        self.recv.refuse();
        let path = self.paths.get(arrived.path);
        // The peer's timer may be far shorter than ours where nothing has been measured yet.
        let round_trip = path.smoothed_rtt().unwrap_or(self.config.rto_min);
        if let Some(reconfig) = self.extensions.reconfig.as_deref_mut()
            && reconfig.is_renumbering_since(now, round_trip)
        {
            reconfig.send_again(path.is_usable().then_some(arrived.path));
        }
    }

    /// Whether TSNs were renumbered so lately that packets from before may still come.
    pub(super) fn renumbered_lately(&self, now: Instant) -> bool {
        let at = self.extensions.reconfig.as_deref().and_then(|reconfig| reconfig.renumbered);
        at.is_some_and(|at| now < at + LIFETIME.saturating_mul(2))
    }
}

/// The list of streams as it is written.
fn encode(streams: &[u16]) -> Vec<u8> {
    streams.iter().flat_map(|stream| stream.to_be_bytes()).collect()
}

fn decode(list: StreamList<'_>) -> Vec<u16> {
    let mut streams: Vec<u16> = list.iter().collect();
    streams.sort_unstable();
    streams.dedup();
    streams
}

/// Two lists (none: all) have a stream in common.
fn meets(a: &[u16], b: &[u16]) -> bool {
    a.is_empty() || b.is_empty() || b.iter().any(|stream| a.binary_search(stream).is_ok())
}

/// `streams` (none: all) are among `of` (none: all).
fn covers(of: &[u16], streams: &[u16]) -> bool {
    of.is_empty() || !streams.is_empty() && streams.iter().all(|stream| of.binary_search(stream).is_ok())
}
