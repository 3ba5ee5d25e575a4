//! Requests of the peer, and the answers of this side.
//!
//! Implements RFC 6525 §5.1.7 and §5.2.1 to §5.2.6.

use super::request::{ReconfigRequest, RequestType};
use super::{AssociationParts, Reconfig, covers, decode, result};
use crate::config::Config;
use crate::event::{Direction, Event};
use crate::send::SendHalf;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_wire::sctp::{ReConfigParam, Tsn};

/// The answer to a request.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) number: u32,
    pub(super) result: u32,
    next: Option<(Tsn, Tsn)>,
}

/// A stream reset that the peer has requested. It is carried out when the last TSN before the reset has arrived.
#[derive(Debug)]
pub(super) struct Deferred {
    number: u32,
    last: u32,
    streams: Vec<u16>,
}

/// A request of the peer to reset outgoing streams of this side. The request waits because some of the streams are
/// already being reset.
#[derive(Debug)]
pub(super) struct PeerResetRequest {
    pub(super) number: u32,
    streams: Vec<u16>,
}

/// The answer to the peer's request: the result code and, for a TSN reset, the next TSN of each side. `None` if this
/// side sends a request of its own instead, which serves as the answer.
type Outcome = Option<(u32, Option<(Tsn, Tsn)>)>;

const fn outcome(result: u32) -> Outcome {
    Some((result, None))
}

impl Reconfig {
    /// Handles a request of the peer, which may be new, repeated, or out of sequence.
    pub(super) fn on_request(
        &mut self,
        parts: &mut AssociationParts<'_>,
        param: &ReConfigParam<'_>,
        first: bool,
        path: usize,
    ) {
        let number = number_of(param);
        let path = parts.paths.confirmed_or_current(path);
        if number == self.expected {
            self.expected = number.wrapping_add(1);
            if first {
                self.results.clear();
            }
            let outcome = self.perform(parts, number, param);
            let (result, next) = outcome.unwrap_or((result::IN_PROGRESS, None));
            self.results.push(Answer { number, result, next });
            if outcome.is_some() {
                self.reply(path, number, result, next_tsns(parts, param, next));
            }
            return;
        }
        let answer = self.results.iter().copied().find(|answer| answer.number == number);
        match answer {
            Some(answer) => {
                // RFC 6525 §5.2.1: a repeated request gets the same answer as the first time.
                let answered = self.outstanding.as_ref().is_some_and(|f| f.request.answers() == Some(number));
                self.send_pending |= answered;
                if !answered || !matches!(param, ReConfigParam::ResetIncoming { .. }) {
                    self.reply(path, number, answer.result, next_tsns(parts, param, answer.next));
                }
            }
            None => self.reply(path, number, result::BAD_NUMBER, next_tsns(parts, param, None)),
        }
    }

    fn reply(&mut self, path: usize, number: u32, result: u32, next: Option<(Tsn, Tsn)>) {
        /// RFC 6525 §3.1: a RE-CONFIG chunk holds at most two responses.
        const MAX_REPLIES: usize = 2;
        self.replies.retain(
            |outcome| !matches!(outcome, ReConfigParam::Response { response, .. } if *response == number),
        );
        if self.replies.len() < MAX_REPLIES {
            self.replies.push(ReConfigParam::Response { response: number, result, next });
            self.reply_path = path;
        }
    }

    fn perform(
        &mut self,
        parts: &mut AssociationParts<'_>,
        number: u32,
        param: &ReConfigParam<'_>,
    ) -> Outcome {
        if !self.is_granted(parts.config, param) {
            return outcome(result::DENIED);
        }
        match *param {
            ReConfigParam::ResetOutgoing { response, last, streams, .. } => {
                self.acknowledged_by(parts, response);
                self.reset_incoming(parts, number, last.0, decode(streams))
            }
            ReConfigParam::ResetIncoming { streams, .. } => {
                self.reset_outgoing(parts, number, decode(streams))
            }
            ReConfigParam::ResetTsn { .. } => self.renumber(parts),
            ReConfigParam::AddOutgoing { streams, .. } => self.add_incoming(parts, streams),
            ReConfigParam::AddIncoming { streams, .. } => self.add_outgoing(parts, number, streams),
            ReConfigParam::Response { .. } => None,
        }
    }

    /// RFC 6525 §5.2.1, §6.3.1: returns whether the application allows this request of the peer. The peer's request is
    /// always allowed if it carries out an earlier request of this side (§5.2.2 E1, §5.2.6).
    fn is_granted(&self, config: &Config, param: &ReConfigParam<'_>) -> bool {
        let granted = config.reconfig_requests;
        let outstanding = self.outstanding.as_ref();
        match *param {
            ReConfigParam::ResetOutgoing { response, .. } => {
                granted.streams
                    || self.agreed_incoming.as_ref().is_some_and(|(number, _)| *number == response)
                    || outstanding.and_then(|outstanding| outstanding.awaits(RequestType::ResetIncoming))
                        == Some(response)
            }
            ReConfigParam::ResetIncoming { .. } => granted.streams,
            ReConfigParam::ResetTsn { .. } => granted.association,
            ReConfigParam::AddOutgoing { .. } => {
                granted.change
                    || outstanding
                        .is_some_and(|outstanding| outstanding.awaits(RequestType::AddIncoming).is_some())
            }
            ReConfigParam::AddIncoming { .. } => granted.change,
            ReConfigParam::Response { .. } => true,
        }
    }

    /// RFC 6525 §5.2.2 E1: marks the outstanding request of this side as answered, because the peer has carried it out
    /// by a request of its own.
    fn acknowledged_by(&mut self, parts: &mut AssociationParts<'_>, response: u32) {
        self.agreed_incoming.take_if(|(number, _)| *number == response);
        let Some(outstanding) = &mut self.outstanding else {
            return;
        };
        if outstanding.awaits(RequestType::ResetIncoming) == Some(response) {
            outstanding.performed = true;
            self.finish(parts, response, RequestType::ResetIncoming, result::PERFORMED, None);
        }
    }

    /// RFC 6525 §5.2.2: handles a request with which the peer resets its own outgoing streams.
    fn reset_incoming(
        &mut self,
        parts: &mut AssociationParts<'_>,
        number: u32,
        last: u32,
        streams: Vec<u16>,
    ) -> Outcome {
        if streams.last().is_some_and(|&stream| stream >= parts.streams.inbound()) {
            return outcome(result::WRONG_STREAM);
        }
        if self.deferred.is_some() {
            return outcome(result::ALREADY);
        }
        // RFC 6525 §5.2.2 E2: wait until every TSN up to the peer's last TSN has arrived.
        if parts.recv.beyond(last) > 0 {
            self.deferred = Some(Deferred { number, last, streams });
            return outcome(result::IN_PROGRESS);
        }
        outcome(self.perform_incoming_reset(parts, streams))
    }

    /// RFC 6525 §5.2.2 E3: resets the inbound streams.
    fn perform_incoming_reset(&mut self, parts: &mut AssociationParts<'_>, streams: Vec<u16>) -> u32 {
        // A stream cannot be reset in the middle of a message, so the request is denied.
        if parts.recv.is_inside(&streams) {
            return result::DENIED;
        }
        parts.recv.reset(&streams);
        parts.emit_readable();
        if let Some(outstanding) = self.outstanding.as_mut()
            && let ReconfigRequest::Reset { incoming: Some(requested), .. } = &outstanding.request
            && covers(&streams, requested)
        {
            outstanding.performed = true;
        }
        let (id, direction) = (parts.id, Direction::Incoming);
        parts.events.push_back(Event::StreamsReset { id, direction, streams, idle: false });
        result::PERFORMED
    }

    /// Carries out a deferred reset, if the processed packet contained the last TSN before the reset.
    pub(super) fn advance_deferred(&mut self, parts: &mut AssociationParts<'_>, path: usize) {
        let arrived = |deferred: &mut Deferred| parts.recv.beyond(deferred.last) <= 0;
        let Some(Deferred { number, streams, .. }) = self.deferred.take_if(arrived) else {
            return;
        };
        // RFC 6525 §5.2.2 E4 to E6: carry out the deferred reset and report its result.
        let result = self.perform_incoming_reset(parts, streams);
        self.results.iter_mut().filter(|answer| answer.number == number).for_each(|a| a.result = result);
        self.reply(parts.paths.confirmed_or_current(path), number, result, None);
        parts.recv.sack_now();
    }

    /// Returns whether the peer may have sent this chunk after a reset that this side has not finished yet. The TSN or
    /// stream sequence number of such a chunk counts from the reset.
    pub(super) fn comes_too_early(&self, tsn: Tsn, stream: u16) -> bool {
        // RFC 6525 §5.2.2 E2: the chunk is not accepted until the reset is done. The peer keeps the chunk and
        // retransmits it.
        let held =
            |deferred: &Deferred| covers(&deferred.streams, &[stream]) && tsn.after(Tsn(deferred.last));
        self.may_be_renumbered() || self.deferred.as_ref().is_some_and(held)
    }

    /// Returns whether the peer may have reset its TSNs already, although its answer to our request has not arrived.
    pub(super) fn may_be_renumbered(&self) -> bool {
        let outstanding = self.outstanding.as_ref();
        outstanding.is_some_and(|outstanding| {
            !outstanding.is_in_progress && outstanding.awaits(RequestType::ResetTsn).is_some()
        })
    }

    /// Returns whether the request for a TSN reset was last sent at least a round trip ago.
    pub(super) fn is_renumbering_since(&self, now: Instant, round_trip: Duration) -> bool {
        let outstanding = self
            .outstanding
            .as_ref()
            .filter(|outstanding| outstanding.awaits(RequestType::ResetTsn).is_some());
        outstanding.is_some_and(|outstanding| now >= outstanding.sent_at + round_trip)
    }

    /// RFC 6525 §5.2.3: handles the peer's request to reset outgoing streams.
    fn reset_outgoing(
        &mut self,
        parts: &mut AssociationParts<'_>,
        number: u32,
        streams: Vec<u16>,
    ) -> Outcome {
        if streams.last().is_some_and(|&stream| stream >= parts.streams.outbound()) {
            return outcome(result::WRONG_STREAM);
        }
        // Queued messages without a sequence number count as begun, because they are sent before the reset.
        let begun = parts.send.has_begun(&streams);
        let held = parts.send.is_held(&streams);
        if self.peer_request.is_some()
            || self.resets_association()
            || self.waiting.len() >= super::request::MAX_WAITING
        {
            return outcome(result::ALREADY);
        }
        // RFC 6525 §5.2.3: if this side is already resetting the streams, or no message was sent on them, the streams
        // are not reset again.
        let under_way = self.requests().any(
            |request| matches!(request, ReconfigRequest::Reset { outgoing: Some(own), .. } if covers(own, &streams)),
        );
        let idle = !under_way && !begun && !held;
        parts.events.push_back(Event::ResetRequested { id: parts.id, streams: streams.clone(), idle });
        if under_way || idle {
            return outcome(result::NOTHING);
        }
        self.peer_request = Some(PeerResetRequest { number, streams });
        self.advance_peer_request(parts.send);
        if parts.may_send {
            self.launch(parts.send, parts.timers, parts.paths.current());
        }
        // If this side can send its request for the reset at once, that request is the answer. Otherwise the answer is
        // "in progress".
        let at_once = self.outstanding.as_ref().is_some_and(|f| f.request.answers() == Some(number));
        if at_once { None } else { outcome(result::IN_PROGRESS) }
    }

    /// Queues this side's request for the stream reset that the peer has asked for. Does nothing while one of these
    /// streams is already being reset.
    pub(super) fn advance_peer_request(&mut self, send: &mut SendHalf) {
        let Some(PeerResetRequest { number, streams }) =
            self.peer_request.take_if(|request| !send.is_held(&request.streams))
        else {
            return;
        };
        let ticket = self.ticket();
        let (outgoing, answers) = (Some(streams.clone()), Some(number));
        self.waiting.push_front(ReconfigRequest::Reset { outgoing, incoming: None, ticket, answers });
        send.hold(ticket, &streams);
    }

    /// RFC 6525 §5.2.4: handles an SSN/TSN reset request.
    fn renumber(&mut self, parts: &mut AssociationParts<'_>) -> Outcome {
        let idle = parts.send.is_idle() && !parts.send.is_held(&[]) && !parts.recv.is_unfinished();
        let busy = self.outstanding.is_some() || self.resets_association();
        if busy || self.peer_request.is_some() || self.deferred.is_some() {
            return outcome(result::ALREADY);
        }
        // RFC 6525 §5.2.4 G3: while data is outstanding, the reset is denied, because it would treat that data as
        // acknowledged.
        if !idle {
            return outcome(result::DENIED);
        }
        // RFC 6525 §5.2.4 G1, G2: choose the new TSNs.
        let theirs = parts.recv.cumulative().0.wrapping_add(1).wrapping_add(1 << 31);
        let ours = parts.send.next_tsn();
        // RFC 6525 §5.2.4 G4, G5: reset TSNs and SSNs.
        parts.recv.renumber(theirs);
        parts.send.reset_streams();
        self.last_tsn_reset = Some(parts.now);
        let id = parts.id;
        parts.events.push_back(Event::AssociationReset { id, local_tsn: ours, remote_tsn: theirs });
        Some((result::PERFORMED, Some((Tsn(ours), Tsn(theirs)))))
    }

    /// RFC 6525 §5.2.5: handles the peer's request to add streams on which the peer sends.
    fn add_incoming(&mut self, parts: &mut AssociationParts<'_>, more: u16) -> Outcome {
        let limit = parts.config.max_streams;
        let outstanding = self.outstanding.as_ref();
        let awaited = outstanding.and_then(|outstanding| outstanding.awaits(RequestType::AddIncoming));
        if more == 0 {
            return outcome(result::NOTHING);
        }
        if parts.streams.inbound().checked_add(more).is_none_or(|streams| streams > limit) {
            return outcome(result::DENIED);
        }
        parts.streams.add_inbound(more);
        parts.recv.add_streams(more);
        parts.events.push_back(Event::StreamsAdded { id: parts.id, outgoing: 0, incoming: more });
        if let Some(number) = awaited {
            // RFC 6525 §5.2.6: the peer adds these streams because this side had requested them.
            self.finish(parts, number, RequestType::AddIncoming, result::PERFORMED, None);
        }
        outcome(result::PERFORMED)
    }

    /// RFC 6525 §5.2.6: handles the peer's request that this side add outgoing streams.
    fn add_outgoing(&mut self, parts: &mut AssociationParts<'_>, number: u32, more: u16) -> Outcome {
        let limit = parts.config.max_streams;
        let fits = parts.streams.outbound().checked_add(more).is_some_and(|streams| streams <= limit);
        if more == 0 {
            return outcome(result::NOTHING);
        }
        if !fits {
            return outcome(result::DENIED);
        }
        let adds = self
            .requests()
            .any(|request| matches!(request, ReconfigRequest::Add { outgoing, .. } if *outgoing > 0));
        if adds || self.waiting.len() >= super::request::MAX_WAITING {
            return outcome(result::ALREADY);
        }
        self.waiting.push_front(ReconfigRequest::Add { outgoing: more, incoming: 0, answers: Some(number) });
        if parts.may_send {
            self.launch(parts.send, parts.timers, parts.paths.current());
        }
        let outstanding = self.outstanding.as_ref();
        if outstanding.is_some_and(|f| f.request.answers() == Some(number)) {
            None
        } else {
            outcome(result::IN_PROGRESS)
        }
    }
}

/// RFC 6525 §5.1.7 D3, D4: returns the next TSN of this side and of the peer for the answer to an SSN/TSN reset
/// request. If the reset was performed, `next` holds these TSNs. Otherwise both sides continue their present numbering.
fn next_tsns(
    parts: &AssociationParts<'_>,
    param: &ReConfigParam<'_>,
    next: Option<(Tsn, Tsn)>,
) -> Option<(Tsn, Tsn)> {
    let theirs = || parts.recv.cumulative().0.wrapping_add(1);
    let as_they_are = || (Tsn(parts.send.next_tsn()), Tsn(theirs()));
    next.or_else(|| matches!(param, ReConfigParam::ResetTsn { .. }).then(as_they_are))
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

/// RFC 6525 §3.1: returns whether one RE-CONFIG chunk may hold these parameters together.
pub(super) fn is_allowed(params: &[ReConfigParam<'_>]) -> bool {
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
