//! What this side asks of the peer, and what it does when that is answered.
//!
//! Home of RFC 6525 §5.1.2 to §5.1.6 and §5.2.7.

use super::super::timers::Timer;
use super::super::{Association, Ctx};
use super::encode;
use crate::event::{Direction, Event, ReconfigResult};
use crate::send::queue::Ticket;
use anabranch_base::Instant;
use anabranch_wire::sctp::{ReConfigParam, StreamList, Tsn};

/// Most requests that wait.
pub(super) const MAX_WAITING: usize = 256;

/// A wish. Lists of streams are ascending; an empty one means all.
#[derive(Debug)]
pub(super) enum Ask {
    /// Streams begin anew.
    Reset {
        outgoing: Option<Vec<u16>>,
        incoming: Option<Vec<u16>>,
        ticket: Ticket,
        /// The peer's request that asked for it.
        answers: Option<u32>,
    },
    /// All SSNs and TSNs begin anew.
    Association { ticket: Ticket },
    /// More streams.
    Add { outgoing: u16, incoming: u16, answers: Option<u32> },
}

impl Ask {
    /// It asks the peer to reset one of `streams` (none: any).
    pub(super) fn wants_incoming(&self, streams: &[u16]) -> bool {
        let Self::Reset { incoming: Some(asked), .. } = self else {
            return false;
        };
        super::meets(asked, streams)
    }

    /// The peer's request that this answers.
    pub(super) fn answers(&self) -> Option<u32> {
        match self {
            Self::Reset { answers, .. } | Self::Add { answers, .. } => *answers,
            Self::Association { .. } => None,
        }
    }
}

/// Which request parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    ResetOutgoing,
    ResetIncoming,
    ResetTsn,
    AddOutgoing,
    AddIncoming,
}

/// A request under way.
#[derive(Debug)]
pub(super) struct Flying {
    pub(super) ask: Ask,
    /// Its lists of streams as they are written: outgoing, incoming.
    lists: [Vec<u8>; 2],
    /// Number, kind, and whether it has been answered.
    pub(super) parts: Vec<(u32, Kind, bool)>,
    /// The last TSN assigned when it was made.
    last: u32,
    /// What its reset of outgoing streams says it responds to.
    response: u32,
    pub(super) path: usize,
    /// When it was last sent.
    pub(super) said: Instant,
    /// The peer is at it.
    pub(super) patient: bool,
    /// It has said so once: what it was asked for comes as a request of its own.
    accepted: bool,
    /// The peer has reset the streams that were asked for.
    pub(super) performed: bool,
}

impl Flying {
    /// Its parameters. RFC 6525 §5.1.1: the same whenever it is repeated, whatever has been answered.
    pub(super) fn params(&self) -> Vec<ReConfigParam<'_>> {
        let lists = &self.lists;
        let (more_out, more_in) = match self.ask {
            Ask::Add { outgoing, incoming, .. } => (outgoing, incoming),
            _ => (0, 0),
        };
        let param = |&(request, kind, _): &(u32, Kind, bool)| match kind {
            Kind::ResetOutgoing => ReConfigParam::ResetOutgoing {
                request,
                response: self.response,
                last: Tsn(self.last),
                streams: StreamList::new(&lists[0]),
            },
            Kind::ResetIncoming => {
                ReConfigParam::ResetIncoming { request, streams: StreamList::new(&lists[1]) }
            }
            Kind::ResetTsn => ReConfigParam::ResetTsn { request },
            Kind::AddOutgoing => ReConfigParam::AddOutgoing { request, streams: more_out },
            Kind::AddIncoming => ReConfigParam::AddIncoming { request, streams: more_in },
        };
        self.parts.iter().map(param).collect()
    }

    /// Nothing of it is left but what the peer has said it will do by a request of its own.
    fn is_peers_turn(&self) -> bool {
        let mut left = self.parts.iter().filter(|part| !part.2);
        self.accepted && left.all(|part| matches!(part.1, Kind::ResetIncoming | Kind::AddIncoming))
    }

    /// It has an unanswered part of this kind.
    pub(super) fn awaits(&self, kind: Kind) -> Option<u32> {
        self.parts.iter().find(|&&(_, k, done)| k == kind && !done).map(|part| part.0)
    }
}

impl Association {
    /// Makes the next request, if none is under way and its time has come.
    pub(super) fn launch(&mut self) {
        if !self.state.may_send_data() {
            return;
        }
        let last = self.send.next_tsn().wrapping_sub(1);
        let path = self.paths.current();
        let send = &self.send;
        let Some(reconfig) = self.extensions.reconfig.as_deref_mut() else {
            return;
        };
        // RFC 6525 §5.1.1: one request at a time. Where both sides wait for the other's request, that
        // would be for ever: what the peer is at already need not be waited for (§5.2.7 H1). Nor may a
        // wish of our own, which has to go first because it is about the same streams.
        if let Some(flying) = &reconfig.flying {
            let owed = reconfig.asked.is_some()
                || reconfig.wanted.front().is_some_and(|ask| ask.answers().is_some());
            let owed = owed && !reconfig.wanted.is_empty();
            if !(owed && flying.is_peers_turn()) {
                return;
            }
            if let (Some(number), Ask::Reset { incoming: Some(streams), .. }) =
                (flying.awaits(Kind::ResetIncoming), &flying.ask)
            {
                reconfig.parked = Some((number, streams.clone()));
            }
            reconfig.flying = None;
            reconfig.send = false;
            self.timers.stop(Timer::Reconfig);
        }
        // RFC 6525 §5.1.2 A3: what was given before has a TSN; §5.1.4 C2: nothing is outstanding.
        let ready = match reconfig.wanted.front() {
            None => false,
            Some(Ask::Reset { ticket, outgoing, .. }) => outgoing.is_none() || send.is_clear(*ticket),
            Some(Ask::Association { ticket }) => send.is_clear(*ticket) && !send.has_outstanding(),
            Some(Ask::Add { .. }) => true,
        };
        if !ready {
            return;
        }
        let Some(ask) = reconfig.wanted.pop_front() else {
            return;
        };
        let kinds: &[Kind] = match &ask {
            Ask::Reset { outgoing: Some(_), incoming: Some(_), .. } => {
                &[Kind::ResetOutgoing, Kind::ResetIncoming]
            }
            Ask::Reset { outgoing: Some(_), .. } => &[Kind::ResetOutgoing],
            Ask::Reset { .. } => &[Kind::ResetIncoming],
            Ask::Association { .. } => &[Kind::ResetTsn],
            Ask::Add { incoming: 0, .. } => &[Kind::AddOutgoing],
            Ask::Add { outgoing: 0, .. } => &[Kind::AddIncoming],
            Ask::Add { .. } => &[Kind::AddOutgoing, Kind::AddIncoming],
        };
        let first = reconfig.next;
        let number = |(i, &kind): (usize, &Kind)| (first.wrapping_add(i as u32), kind, false);
        let parts: Vec<_> = kinds.iter().enumerate().map(number).collect();
        reconfig.next = first.wrapping_add(parts.len() as u32);
        // RFC 6525 §5.1.2 A4: what it responds to; what is still to be responded to is left out.
        let response = ask.answers().unwrap_or_else(|| {
            reconfig.asked.as_ref().map_or(reconfig.expected, |asked| asked.number).wrapping_sub(1)
        });
        let resets = matches!(ask, Ask::Reset { outgoing: Some(_), .. });
        let lists = match &ask {
            Ask::Reset { outgoing, incoming, .. } => {
                [outgoing, incoming].map(|list| list.as_deref().map(encode).unwrap_or_default())
            }
            _ => Default::default(),
        };
        reconfig.flying = Some(Flying {
            ask,
            lists,
            parts,
            last,
            response,
            path,
            said: Instant::ZERO,
            patient: false,
            accepted: false,
            performed: false,
        });
        reconfig.send = true;
        if resets {
            self.send.record_reset();
        }
    }

    /// The peer answers request `number`.
    pub(super) fn on_response(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u32,
        result: u32,
        next: Option<(Tsn, Tsn)>,
    ) {
        const IN_PROGRESS: u32 = 6;
        let Some(flying) =
            self.extensions.reconfig.as_deref_mut().and_then(|reconfig| reconfig.flying.as_mut())
        else {
            return;
        };
        // RFC 6525 §5.2.7 H1: what is not waited for means nothing.
        let Some(&(_, kind, _)) = flying.parts.iter().find(|part| part.0 == number && !part.2) else {
            return;
        };
        let index = flying.path;
        if result == IN_PROGRESS {
            // RFC 6525 §5.2.7 H2: the timer begins again, and does not count.
            flying.patient = true;
            flying.accepted = true;
            let rto = self.paths.get(index).rto();
            self.timers.set(Timer::Reconfig, ctx.now + rto);
            // RFC 9260 §8.1: but not while data says otherwise, as with HEARTBEAT ACK: what the request
            // waits for may never arrive, and it would be answered so for ever.
            if !self.send.has_outstanding() {
                self.paths.clear_errors();
            }
            self.on_reconfig_answered(ctx, index);
            return;
        }
        self.paths.clear_errors();
        self.on_reconfig_answered(ctx, index);
        self.finish(ctx, number, kind, result, next);
    }

    /// RFC 9260 §8.1, §8.2: an answer shows as much as acknowledged DATA, whatever it says.
    fn on_reconfig_answered(&mut self, ctx: &mut Ctx<'_>, index: usize) {
        let path = self.paths.at(index);
        if path.is_confirmed() && path.on_answer(ctx.now) {
            self.on_path_up(ctx, index, true);
        }
    }

    /// A part of the request has been answered for good.
    pub(super) fn finish(
        &mut self,
        ctx: &mut Ctx<'_>,
        number: u32,
        kind: Kind,
        result: u32,
        next: Option<(Tsn, Tsn)>,
    ) {
        let Some(mut reconfig) = self.extensions.reconfig.take() else {
            return;
        };
        self.paths.clear_errors();
        if let Some(flying) = &mut reconfig.flying {
            for part in flying.parts.iter_mut().filter(|part| part.0 == number) {
                part.2 = true;
            }
            let failed = ReconfigResult::failure(result);
            if kind == Kind::ResetTsn {
                reconfig.renumbered = Some(ctx.now);
            }
            self.conclude(ctx, flying, kind, (result, failed), next);
            if let Some(asked) = flying.ask.answers() {
                let answer = if failed.is_none() { 1 } else { 2 };
                reconfig.answered.iter_mut().filter(|a| a.number == asked).for_each(|a| a.result = answer);
            }
            if flying.parts.iter().all(|part| part.2) {
                reconfig.flying = None;
                reconfig.send = false;
                self.timers.stop(Timer::Reconfig);
            }
        }
        self.extensions.reconfig = Some(reconfig);
        self.advance_asked();
        // What was kept back may find the peer's window closed, and nothing outstanding.
        self.check_probe(ctx.now);
    }

    /// RFC 6525 §5.2.7 H3 to H6.
    fn conclude(
        &mut self,
        ctx: &mut Ctx<'_>,
        flying: &mut Flying,
        kind: Kind,
        (result, failed): (u32, Option<ReconfigResult>),
        next: Option<(Tsn, Tsn)>,
    ) {
        const NOTHING: u32 = 0;
        let id = self.id;
        let event = match (&mut flying.ask, kind) {
            (Ask::Reset { outgoing, ticket, .. }, Kind::ResetOutgoing) => {
                self.send.resume(*ticket, failed.is_none());
                let streams = outgoing.take().unwrap_or_default();
                match failed {
                    None => Event::StreamsReset { id, direction: Direction::Outgoing, streams, idle: false },
                    Some(result) => {
                        Event::ResetFailed { id, direction: Some(Direction::Outgoing), streams, result }
                    }
                }
            }
            (Ask::Reset { incoming, .. }, Kind::ResetIncoming) => {
                let streams = incoming.take().unwrap_or_default();
                match failed {
                    // The peer's own request tells, or has told.
                    None if flying.performed => return,
                    None => {
                        let idle = result == NOTHING;
                        Event::StreamsReset { id, direction: Direction::Incoming, streams, idle }
                    }
                    Some(result) => {
                        Event::ResetFailed { id, direction: Some(Direction::Incoming), streams, result }
                    }
                }
            }
            (Ask::Association { ticket }, _) => {
                let ticket = *ticket;
                match (failed, next) {
                    // RFC 6525 §5.2.7 H5.
                    (None, Some((peer, ours))) if !self.send.has_outstanding() => {
                        self.send.renumber(ours.0);
                        self.send.resume(ticket, true);
                        self.recv.renumber(peer.0);
                        Event::AssociationReset { id, local_tsn: ours.0, remote_tsn: peer.0 }
                    }
                    (failed, _) => {
                        self.send.resume(ticket, false);
                        let result = failed.unwrap_or(ReconfigResult::Unknown);
                        Event::ResetFailed { id, direction: None, streams: Vec::new(), result }
                    }
                }
            }
            (Ask::Add { outgoing, incoming, .. }, kind) => match failed {
                None if kind == Kind::AddOutgoing => {
                    self.streams.add_outbound(*outgoing);
                    Event::StreamsAdded { id, outgoing: *outgoing, incoming: 0 }
                }
                // The peer's own request adds them.
                None => return,
                Some(result) => {
                    let (outgoing, incoming) =
                        if kind == Kind::AddOutgoing { (*outgoing, 0) } else { (0, *incoming) };
                    Event::AddFailed { id, outgoing, incoming, result }
                }
            },
            _ => return,
        };
        ctx.events.push_back(event);
    }
}
