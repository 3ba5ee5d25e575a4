//! What the peer asks of this side, and how it is answered.
//!
//! Home of RFC 6525 §5.1.7 and §5.2.1 to §5.2.6.

use super::super::inbound::Arrived;
use super::super::{Association, Ctx, State};
use super::request::{Ask, Kind};
use super::{covers, decode};
use crate::event::{Direction, Event};
use anabranch_base::Instant;
use anabranch_wire::sctp::{ReConfig, ReConfigParam, Tsn};

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

/// What a request was answered.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) number: u32,
    pub(super) result: u32,
    next: Option<(Tsn, Tsn)>,
}

/// A reset by the peer that waits for its last TSN.
#[derive(Debug)]
pub(super) struct Deferred {
    number: u32,
    last: u32,
    streams: Vec<u16>,
}

/// Streams that the peer wants reset, while some of them are being reset already.
#[derive(Debug)]
pub(super) struct Asked {
    pub(super) number: u32,
    streams: Vec<u16>,
}

/// What to say to a request: a result, or nothing because a request of ours says it.
type Outcome = Option<(u32, Option<(Tsn, Tsn)>)>;

const fn outcome(result: u32) -> Outcome {
    Some((result, None))
}

impl Association {
    pub(in crate::association) fn on_re_config(
        &mut self,
        ctx: &mut Ctx<'_>,
        chunk: &ReConfig<'_>,
        arrived: &Arrived,
    ) {
        if !self.state.is_up() || matches!(self.state, State::ShutdownAckSent) {
            return;
        }
        let params: Vec<_> = chunk.params().take(3).collect();
        if !is_allowed(&params) {
            return;
        }
        if !params.iter().all(|param| matches!(param, ReConfigParam::Response { .. })) {
            // RFC 6525 §5.2.1: with the response a SACK, so that what it waits for is retransmitted soon.
            self.recv.sack_now();
        }
        let mut first = true;
        for param in params {
            match param {
                ReConfigParam::Response { response, result, next } => {
                    self.on_response(ctx, response, result, next);
                }
                request => {
                    self.on_request(ctx, &request, first, arrived);
                    first = false;
                }
            }
        }
    }

    /// A request: new, repeated, or out of turn.
    fn on_request(&mut self, ctx: &mut Ctx<'_>, param: &ReConfigParam<'_>, first: bool, arrived: &Arrived) {
        let number = number_of(param);
        let reconfig = self.reconfig();
        if number == reconfig.expected {
            reconfig.expected = number.wrapping_add(1);
            if first {
                reconfig.answered.clear();
            }
            let said = self.perform(ctx, number, param);
            let (result, next) = said.unwrap_or((result::IN_PROGRESS, None));
            self.reconfig().answered.push(Answer { number, result, next });
            if said.is_some() {
                self.reply(arrived.path, number, result, self.next_tsns(param, next));
            }
            return;
        }
        let answer = reconfig.answered.iter().copied().find(|answer| answer.number == number);
        match answer {
            Some(answer) => {
                // RFC 6525 §5.2.1: what is repeated is answered as it was.
                let asked = reconfig.flying.as_ref().is_some_and(|f| f.ask.answers() == Some(number));
                reconfig.send |= asked;
                if !asked || !matches!(param, ReConfigParam::ResetIncoming { .. }) {
                    self.reply(arrived.path, number, answer.result, self.next_tsns(param, answer.next));
                }
            }
            None => self.reply(arrived.path, number, result::BAD_NUMBER, self.next_tsns(param, None)),
        }
    }

    /// RFC 6525 §5.1.7 D3, D4: the answer to an SSN/TSN reset has both TSNs, whatever its result: where nothing is renumbered
    /// those that come next.
    fn next_tsns(&self, param: &ReConfigParam<'_>, next: Option<(Tsn, Tsn)>) -> Option<(Tsn, Tsn)> {
        let as_they_are = || (self.send.next_tsn(), self.recv.cumulative().0.wrapping_add(1));
        let asked = matches!(param, ReConfigParam::ResetTsn { .. });
        next.or_else(|| asked.then(as_they_are).map(|(ours, theirs)| (Tsn(ours), Tsn(theirs))))
    }

    fn reply(&mut self, path: usize, number: u32, result: u32, next: Option<(Tsn, Tsn)>) {
        /// RFC 6525 §3.1: two responses fit a chunk.
        const MAX_REPLIES: usize = 2;
        let path = self.paths.confirmed_or_current(path);
        let reconfig = self.reconfig();
        reconfig
            .replies
            .retain(|said| !matches!(said, ReConfigParam::Response { response, .. } if *response == number));
        if reconfig.replies.len() < MAX_REPLIES {
            reconfig.replies.push(ReConfigParam::Response { response: number, result, next });
            reconfig.reply_path = path;
        }
    }

    fn perform(&mut self, ctx: &mut Ctx<'_>, number: u32, param: &ReConfigParam<'_>) -> Outcome {
        if !self.is_granted(param) {
            return outcome(result::DENIED);
        }
        match *param {
            ReConfigParam::ResetOutgoing { response, last, streams, .. } => {
                self.acknowledged_by(ctx, response);
                self.reset_incoming(ctx, number, last.0, decode(streams))
            }
            ReConfigParam::ResetIncoming { streams, .. } => self.reset_outgoing(ctx, number, decode(streams)),
            ReConfigParam::ResetTsn { .. } => self.renumber(ctx),
            ReConfigParam::AddOutgoing { streams, .. } => self.add_incoming(ctx, streams),
            ReConfigParam::AddIncoming { streams, .. } => self.add_outgoing(number, streams),
            ReConfigParam::Response { .. } => None,
        }
    }

    /// RFC 6525 §5.2.1, §6.3.1: whether the application lets the peer ask for this. What it has itself asked the peer to
    /// ask for, it lets it (§5.2.2 E1, §5.2.6).
    fn is_granted(&self, param: &ReConfigParam<'_>) -> bool {
        let granted = self.config.reconfig_requests;
        let flying = self.extensions.reconfig.as_deref().and_then(|reconfig| reconfig.flying.as_ref());
        match *param {
            ReConfigParam::ResetOutgoing { response, .. } => {
                let parked =
                    self.extensions.reconfig.as_deref().and_then(|reconfig| reconfig.parked.as_ref());
                granted.streams
                    || parked.is_some_and(|(number, _)| *number == response)
                    || flying.and_then(|flying| flying.awaits(Kind::ResetIncoming)) == Some(response)
            }
            ReConfigParam::ResetIncoming { .. } => granted.streams,
            ReConfigParam::ResetTsn { .. } => granted.association,
            ReConfigParam::AddOutgoing { .. } => {
                granted.change || flying.is_some_and(|flying| flying.awaits(Kind::AddIncoming).is_some())
            }
            ReConfigParam::AddIncoming { .. } => granted.change,
            ReConfigParam::Response { .. } => true,
        }
    }

    /// RFC 6525 §5.2.2 E1: the peer's request is the answer to ours.
    fn acknowledged_by(&mut self, ctx: &mut Ctx<'_>, response: u32) {
        let reconfig = self.reconfig();
        reconfig.parked = reconfig.parked.take().filter(|(number, _)| *number != response);
        let Some(flying) =
            self.extensions.reconfig.as_deref_mut().and_then(|reconfig| reconfig.flying.as_mut())
        else {
            return;
        };
        if flying.awaits(Kind::ResetIncoming) == Some(response) {
            flying.performed = true;
            self.finish(ctx, response, Kind::ResetIncoming, result::PERFORMED, None);
        }
    }

    /// RFC 6525 §5.2.2: the peer's streams begin anew.
    fn reset_incoming(&mut self, ctx: &mut Ctx<'_>, number: u32, last: u32, streams: Vec<u16>) -> Outcome {
        if streams.last().is_some_and(|&stream| stream >= self.streams.inbound()) {
            return outcome(result::WRONG_STREAM);
        }
        if self.reconfig().deferred.is_some() {
            return outcome(result::ALREADY);
        }
        // RFC 6525 §5.2.2 E2: not before everything up to the last TSN has arrived.
        if self.recv.beyond(last) > 0 {
            self.reconfig().deferred = Some(Deferred { number, last, streams });
            return outcome(result::IN_PROGRESS);
        }
        outcome(self.perform_incoming_reset(ctx, streams))
    }

    /// RFC 6525 §5.2.2 E3.
    fn perform_incoming_reset(&mut self, ctx: &mut Ctx<'_>, streams: Vec<u16>) -> u32 {
        // In the middle of a message there is no number to begin anew with.
        if self.recv.is_inside(&streams) {
            return result::DENIED;
        }
        self.recv.reset(&streams);
        self.emit_readable(ctx);
        if let Some(flying) = self.reconfig().flying.as_mut()
            && let Ask::Reset { incoming: Some(asked), .. } = &flying.ask
            && covers(&streams, asked)
        {
            flying.performed = true;
        }
        let (id, direction) = (self.id, Direction::Incoming);
        ctx.events.push_back(Event::StreamsReset { id, direction, streams, idle: false });
        result::PERFORMED
    }

    /// A packet has been read: what waited for a TSN may go on.
    #[cold]
    pub(in crate::association) fn advance_reconfig(&mut self, ctx: &mut Ctx<'_>, path: usize) {
        let Some(deferred) =
            self.extensions.reconfig.as_deref().and_then(|reconfig| reconfig.deferred.as_ref())
        else {
            return;
        };
        if self.recv.beyond(deferred.last) > 0 {
            return;
        }
        let Some(Deferred { number, streams, .. }) = self.reconfig().deferred.take() else {
            return;
        };
        // RFC 6525 §5.2.2 E4 to E6: what was in progress is done, and said.
        let result = self.perform_incoming_reset(ctx, streams);
        let answered = &mut self.reconfig().answered;
        answered.iter_mut().filter(|answer| answer.number == number).for_each(|a| a.result = result);
        self.reply(path, number, result, None);
        self.recv.sack_now();
    }

    /// A chunk that may be of the numbering to come: it is not taken yet.
    #[cold]
    pub(in crate::association) fn comes_too_early(&self, tsn: Tsn, stream: u16) -> bool {
        let Some(reconfig) = self.extensions.reconfig.as_deref() else {
            return false;
        };
        if self.may_be_renumbered() {
            return true;
        }
        // RFC 6525 §5.2.2 E2: held back until the reset is done; the peer holds it for us.
        reconfig
            .deferred
            .as_ref()
            .is_some_and(|deferred| covers(&deferred.streams, &[stream]) && tsn.after(Tsn(deferred.last)))
    }

    /// The peer may have renumbered its TSNs already, and its answer be lost or late.
    #[cold]
    pub(in crate::association) fn may_be_renumbered(&self) -> bool {
        let flying = self.extensions.reconfig.as_deref().and_then(|reconfig| reconfig.flying.as_ref());
        flying.is_some_and(|flying| !flying.patient && flying.awaits(Kind::ResetTsn).is_some())
    }

    /// Refuses such a chunk. It shows that our request or its answer has not arrived: the request is
    /// repeated where the chunk came from, once a round trip, or the peer might lose patience with
    /// its data before our timer (RFC 6525 §5.1.1) runs out.
    #[cold]
    pub(in crate::association) fn refuse_early(&mut self, now: Instant, arrived: &Arrived) {
        self.recv.refuse();
        let path = self.paths.get(arrived.path);
        // The peer's timer may be far shorter than ours where nothing has been measured yet.
        let round_trip = path.smoothed_rtt().unwrap_or(self.config.rto_min);
        let back = path.is_usable();
        let Some(reconfig) = self.extensions.reconfig.as_deref_mut() else {
            return;
        };
        if let Some(flying) = &mut reconfig.flying
            && flying.awaits(Kind::ResetTsn).is_some()
            && now >= flying.said + round_trip
        {
            reconfig.send = true;
            if back {
                flying.path = arrived.path;
            }
        }
    }

    /// RFC 6525 §5.2.3: the peer wants our streams to begin anew.
    fn reset_outgoing(&mut self, ctx: &mut Ctx<'_>, number: u32, streams: Vec<u16>) -> Outcome {
        if streams.last().is_some_and(|&stream| stream >= self.streams.outbound()) {
            return outcome(result::WRONG_STREAM);
        }
        // What waits without a number belongs to what is to end, too.
        let begun = self.send.has_begun(&streams);
        let held = self.send.is_held(&streams);
        let reconfig = self.reconfig();
        if reconfig.asked.is_some()
            || reconfig.resets_association()
            || reconfig.wanted.len() >= super::request::MAX_WAITING
        {
            return outcome(result::ALREADY);
        }
        // RFC 6525 §5.2.3: what is being reset by our own wish, or is new, need not be again.
        let under_way = reconfig
            .asks()
            .any(|ask| matches!(ask, Ask::Reset { outgoing: Some(own), .. } if covers(own, &streams)));
        let idle = !under_way && !begun && !held;
        ctx.events.push_back(Event::ResetRequested { id: self.id, streams: streams.clone(), idle });
        if under_way || idle {
            return outcome(result::NOTHING);
        }
        let reconfig = self.reconfig();
        reconfig.asked = Some(Asked { number, streams });
        self.advance_asked();
        self.launch();
        // The request that resets them is the answer, unless that takes a while.
        let reconfig = self.reconfig();
        let at_once = reconfig.flying.as_ref().is_some_and(|f| f.ask.answers() == Some(number));
        if at_once { None } else { outcome(result::IN_PROGRESS) }
    }

    /// What the peer asked for becomes a request of ours when none of its streams is being reset.
    pub(super) fn advance_asked(&mut self) {
        let Some(asked) = self.extensions.reconfig.as_deref().and_then(|reconfig| reconfig.asked.as_ref())
        else {
            return;
        };
        if self.send.is_held(&asked.streams) {
            return;
        }
        let Some(Asked { number, streams }) = self.reconfig().asked.take() else {
            return;
        };
        let reconfig = self.reconfig();
        let ticket = reconfig.ticket();
        let (outgoing, answers) = (Some(streams.clone()), Some(number));
        reconfig.wanted.push_front(Ask::Reset { outgoing, incoming: None, ticket, answers });
        self.send.hold(ticket, &streams);
    }

    /// RFC 6525 §5.2.4.
    fn renumber(&mut self, ctx: &mut Ctx<'_>) -> Outcome {
        let idle = self.send.is_idle() && !self.send.is_held(&[]) && !self.recv.is_unfinished();
        let reconfig = self.reconfig();
        let busy = reconfig.flying.is_some() || reconfig.resets_association();
        if busy || reconfig.asked.is_some() || reconfig.deferred.is_some() {
            return outcome(result::ALREADY);
        }
        // RFC 6525 §5.2.4 G3 would take what is outstanding for acknowledged: rather no reset.
        if !idle {
            return outcome(result::DENIED);
        }
        // G1, G2.
        let theirs = self.recv.cumulative().0.wrapping_add(1).wrapping_add(1 << 31);
        let ours = self.send.next_tsn();
        // G4, G5.
        self.recv.renumber(theirs);
        self.send.reset_streams();
        self.reconfig().renumbered = Some(ctx.now);
        let id = self.id;
        ctx.events.push_back(Event::AssociationReset { id, local_tsn: ours, remote_tsn: theirs });
        Some((result::PERFORMED, Some((Tsn(ours), Tsn(theirs)))))
    }

    /// RFC 6525 §5.2.5: the peer wants to send on more streams.
    fn add_incoming(&mut self, ctx: &mut Ctx<'_>, more: u16) -> Outcome {
        let limit = self.config.max_streams;
        let flying = self.reconfig().flying.as_ref();
        let awaited = flying.and_then(|flying| flying.awaits(Kind::AddIncoming));
        if more == 0 {
            return outcome(result::NOTHING);
        }
        if self.streams.inbound().checked_add(more).is_none_or(|streams| streams > limit) {
            return outcome(result::DENIED);
        }
        self.streams.add_inbound(more);
        self.recv.add_streams(more);
        ctx.events.push_back(Event::StreamsAdded { id: self.id, outgoing: 0, incoming: more });
        if let Some(number) = awaited {
            // RFC 6525 §5.2.6: that is what we asked for.
            self.finish(ctx, number, Kind::AddIncoming, result::PERFORMED, None);
        }
        outcome(result::PERFORMED)
    }

    /// RFC 6525 §5.2.6: the peer wants us to send on more streams.
    fn add_outgoing(&mut self, number: u32, more: u16) -> Outcome {
        let limit = self.config.max_streams;
        let fits = self.streams.outbound().checked_add(more).is_some_and(|streams| streams <= limit);
        let reconfig = self.reconfig();
        if more == 0 {
            return outcome(result::NOTHING);
        }
        if !fits {
            return outcome(result::DENIED);
        }
        let adds = reconfig.asks().any(|ask| matches!(ask, Ask::Add { outgoing, .. } if *outgoing > 0));
        if adds || reconfig.wanted.len() >= super::request::MAX_WAITING {
            return outcome(result::ALREADY);
        }
        reconfig.wanted.push_front(Ask::Add { outgoing: more, incoming: 0, answers: Some(number) });
        self.launch();
        let flying = self.reconfig().flying.as_ref();
        if flying.is_some_and(|f| f.ask.answers() == Some(number)) {
            None
        } else {
            outcome(result::IN_PROGRESS)
        }
    }
}

const fn number_of(param: &ReConfigParam<'_>) -> u32 {
    match *param {
        ReConfigParam::ResetOutgoing { request, .. }
        | ReConfigParam::ResetIncoming { request, .. }
        | ReConfigParam::ResetTsn { request }
        | ReConfigParam::AddOutgoing { request, .. }
        | ReConfigParam::AddIncoming { request, .. } => request,
        ReConfigParam::Response { response, .. } => response,
    }
}

/// RFC 6525 §3.1: what may be in one chunk.
fn is_allowed(params: &[ReConfigParam<'_>]) -> bool {
    use ReConfigParam::{AddIncoming, AddOutgoing, ResetIncoming, ResetOutgoing, Response};
    match params {
        [_] => true,
        [a, b] => matches!(
            (a, b),
            (ResetOutgoing { .. }, ResetIncoming { .. } | Response { .. })
                | (ResetIncoming { .. }, ResetOutgoing { .. })
                | (AddOutgoing { .. }, AddIncoming { .. })
                | (AddIncoming { .. }, AddOutgoing { .. })
                | (Response { .. }, Response { .. } | ResetOutgoing { .. })
        ),
        _ => false,
    }
}
