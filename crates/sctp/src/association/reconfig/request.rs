//! RE-CONFIG requests of this side, and the handling of the peer's answers.
//!
//! Implements RFC 6525 §5.1.2 to §5.1.6 and §5.2.7.

use super::super::timers::{Timer, Timers};
use super::{AssociationParts, LIFETIME, Reconfig, encode};
use crate::error::ResetError;
use crate::event::{Direction, Event, ReconfigResult};
use crate::path::Path;
use crate::path::select::Paths;
use crate::send::SendHalf;
use crate::send::queue::ReservationId;
use anabranch_base::Instant;
use anabranch_wire::sctp::{ReConfig, ReConfigParam, StreamList, Tsn};

/// The maximum number of queued requests.
pub(super) const MAX_WAITING: usize = 256;

/// A request of this side. Lists of streams are in ascending order. An empty list means all streams.
#[derive(Debug)]
pub(super) enum ReconfigRequest {
    /// Resets streams.
    Reset {
        outgoing: Option<Vec<u16>>,
        incoming: Option<Vec<u16>>,
        ticket: ReservationId,
        /// The sequence number of the peer's request, if the peer requested this reset.
        answers: Option<u32>,
    },
    /// Resets all SSNs and TSNs.
    Association { ticket: ReservationId },
    /// Adds streams.
    Add { outgoing: u16, incoming: u16, answers: Option<u32> },
}

impl ReconfigRequest {
    /// Returns whether the request asks the peer to reset one of `streams`. An empty list, in the request or in
    /// `streams`, stands for all streams.
    pub(super) fn wants_incoming(&self, streams: &[u16]) -> bool {
        let Self::Reset { incoming: Some(requested), .. } = self else {
            return false;
        };
        super::intersects(requested, streams)
    }

    /// Returns the sequence number of the peer's request, if the peer requested this change.
    pub(super) fn answers(&self) -> Option<u32> {
        match self {
            Self::Reset { answers, .. } | Self::Add { answers, .. } => *answers,
            Self::Association { .. } => None,
        }
    }
}

/// The type of a request parameter.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum RequestType {
    ResetOutgoing,
    ResetIncoming,
    ResetTsn,
    AddOutgoing,
    AddIncoming,
}

/// The RE-CONFIG request that the peer has not fully answered.
#[derive(Debug)]
pub(super) struct OutstandingRequest {
    pub(super) request: ReconfigRequest,
    /// The encoded lists of streams in the request: outgoing, incoming.
    lists: [Vec<u8>; 2],
    /// For each parameter in the request: its request sequence number, its kind, and whether the peer has answered it.
    pub(super) params: Vec<(u32, RequestType, bool)>,
    /// The last TSN that this side had assigned when it made the request.
    last: u32,
    /// RFC 6525 §4.1: the Re-configuration Response Sequence Number in a request to reset outgoing streams.
    response: u32,
    pub(super) path: usize,
    /// When the request was last sent.
    pub(super) sent_at: Instant,
    /// Whether the peer has answered "in progress" since the timer last expired.
    pub(super) is_in_progress: bool,
    /// Whether the peer has ever answered this request with "in progress". If so, the peer carries out the request by
    /// sending a request of its own.
    accepted: bool,
    /// Whether the peer has reset the requested streams.
    pub(super) performed: bool,
}

impl OutstandingRequest {
    /// Returns the parameters of the request. RFC 6525 §5.1.1: a repeated request has the same parameters, even if some
    /// of them have been answered.
    pub(super) fn params(&self) -> Vec<ReConfigParam<'_>> {
        let lists = &self.lists;
        let (more_out, more_in) = match self.request {
            ReconfigRequest::Add { outgoing, incoming, .. } => (outgoing, incoming),
            _ => (0, 0),
        };
        let param = |&(request, kind, _): &(u32, RequestType, bool)| match kind {
            RequestType::ResetOutgoing => ReConfigParam::ResetOutgoing {
                request,
                response: self.response,
                last: Tsn(self.last),
                streams: StreamList::new(&lists[0]),
            },
            RequestType::ResetIncoming => {
                ReConfigParam::ResetIncoming { request, streams: StreamList::new(&lists[1]) }
            }
            RequestType::ResetTsn => ReConfigParam::ResetTsn { request },
            RequestType::AddOutgoing => ReConfigParam::AddOutgoing { request, streams: more_out },
            RequestType::AddIncoming => ReConfigParam::AddIncoming { request, streams: more_in },
        };
        self.params.iter().map(param).collect()
    }

    /// Returns whether only a request of the peer can complete this request. This is so if the peer has accepted this
    /// request, and each unanswered parameter concerns the peer's outgoing streams: a reset or an addition.
    fn is_peers_turn(&self) -> bool {
        let mut left = self.params.iter().filter(|param| !param.2);
        self.accepted
            && left.all(|param| matches!(param.1, RequestType::ResetIncoming | RequestType::AddIncoming))
    }

    /// Returns the type of the re-configuration parameter with this request number. Returns `None` if the peer has
    /// answered the parameter, or if the request has no such parameter.
    pub(super) fn kind_of(&self, number: u32) -> Option<RequestType> {
        self.params.iter().find(|param| param.0 == number && !param.2).map(|param| param.1)
    }

    /// Returns the request sequence number of the parameter of this kind that the peer has not answered; `None` if
    /// there is none.
    pub(super) fn awaits(&self, kind: RequestType) -> Option<u32> {
        self.params.iter().find(|&&(_, k, done)| k == kind && !done).map(|param| param.0)
    }
}

impl Reconfig {
    // The methods that the application calls.

    /// RFC 6525 §6.3.2: requests a reset of `streams` in one or both directions. An empty list means all streams.
    pub(super) fn request_reset(
        &mut self,
        send: &mut SendHalf,
        paths: &Paths,
        streams: &[u16],
        (outgoing, incoming): (bool, bool),
    ) -> Result<(), ResetError> {
        let pieces = pieces(paths, streams, outgoing && incoming);
        let busy = self.resets_association()
            || self.waiting.len() + pieces.len() > MAX_WAITING
            || incoming && self.requests().any(|request| request.wants_incoming(streams))
            || incoming
                && self
                    .agreed_incoming
                    .as_ref()
                    .is_some_and(|(_, agreed_incoming)| super::intersects(agreed_incoming, streams));
        if busy || outgoing && send.is_held(streams) {
            return Err(ResetError::Busy);
        }
        for piece in pieces {
            let ticket = self.ticket();
            if outgoing {
                send.hold(ticket, &piece);
            }
            let incoming = incoming.then(|| piece.clone());
            let outgoing = outgoing.then_some(piece);
            self.waiting.push_back(ReconfigRequest::Reset { outgoing, incoming, ticket, answers: None });
        }
        Ok(())
    }

    /// RFC 6525 §6.3.3: requests a reset of all SSNs and TSNs.
    pub(super) fn request_tsn_reset(&mut self, now: Instant, send: &mut SendHalf) -> Result<(), ResetError> {
        // RFC 6525 §5.1.4: the TSNs may be reset at most once in 30 s.
        let lately = self.last_tsn_reset.is_some_and(|at| now < at + LIFETIME);
        let busy = self.waiting.len() >= MAX_WAITING || self.resets_association();
        if busy || lately || send.is_held(&[]) {
            return Err(ResetError::Busy);
        }
        let ticket = self.ticket();
        self.waiting.push_back(ReconfigRequest::Association { ticket });
        self.last_tsn_reset = Some(now);
        send.hold(ticket, &[]);
        Ok(())
    }

    /// RFC 6525 §6.3.4: queues a request to add outgoing and incoming streams.
    pub(super) fn request_streams(&mut self, outgoing: u16, incoming: u16) -> Result<(), ResetError> {
        let adds = self.requests().any(|request| matches!(request, ReconfigRequest::Add { .. }));
        if adds || self.waiting.len() >= MAX_WAITING {
            return Err(ResetError::Busy);
        }
        self.waiting.push_back(ReconfigRequest::Add { outgoing, incoming, answers: None });
        Ok(())
    }

    // Sending.

    /// Returns the path on which a RE-CONFIG has to be sent, if one is pending.
    pub(super) fn wanted_path(&self) -> Option<usize> {
        let request =
            self.outstanding.as_ref().filter(|_| self.send_pending).map(|outstanding| outstanding.path);
        request.or((!self.replies.is_empty()).then_some(self.reply_path))
    }

    /// Appends the pending responses and requests for path `index`, if they take at most `room` bytes. Returns true if
    /// a request was appended.
    pub(super) fn write(&mut self, now: Instant, index: usize, room: usize, buffer: &mut Vec<u8>) -> bool {
        let outstanding =
            self.outstanding.as_ref().filter(|outstanding| self.send_pending && outstanding.path == index);
        let mut requests = outstanding.map(OutstandingRequest::params).unwrap_or_default();
        // RFC 6525 §3.1: a RE-CONFIG chunk may contain one response together with a request to reset outgoing streams.
        // §5.2.1: if there are two responses, they share a chunk, and the request is in another chunk.
        let together = self.replies.len() == 1
            && matches!(requests[..], [ReConfigParam::ResetOutgoing { .. }])
            && self.reply_path == index;
        let mut replies = Vec::new();
        if together {
            requests.insert(0, self.replies[0]);
        } else if self.reply_path == index {
            replies.clone_from(&self.replies);
        }
        let mut chunks = Vec::new();
        if !replies.is_empty() {
            ReConfig::write(&mut chunks, &replies);
        }
        if !requests.is_empty() {
            ReConfig::write(&mut chunks, &requests);
        }
        if chunks.is_empty() || chunks.len() > room {
            return false;
        }
        let is_requested = outstanding.is_some();
        if together || !replies.is_empty() {
            self.replies.clear();
        }
        if let Some(outstanding) = self.outstanding.as_mut().filter(|_| is_requested) {
            outstanding.sent_at = now;
            self.send_pending = false;
        }
        buffer.extend_from_slice(&chunks);
        is_requested
    }

    /// Marks the outstanding request for retransmission. If `path` is given, the request is sent on that path.
    pub(super) fn send_again(&mut self, path: Option<usize>) {
        self.send_pending = true;
        if let Some(outstanding) = &mut self.outstanding {
            outstanding.path = path.unwrap_or(outstanding.path);
        }
    }

    /// Makes the next queued request outstanding on `path`, if no other request is outstanding and the next request may
    /// be sent.
    pub(super) fn launch(&mut self, send: &mut SendHalf, timers: &mut Timers, path: usize) {
        // RFC 6525 §5.1.1: one request is outstanding at a time. If each side waited for a request of the other side,
        // both would wait forever. So this side drops its outstanding request if two conditions hold. The peer has
        // answered this request with "in progress" (§5.2.7 H1), and the peer waits for a request that this side still
        // has to send. That request is in `waiting`, or will follow from `peer_request`.
        if let Some(outstanding) = &self.outstanding {
            let owed = self.peer_request.is_some()
                || self.waiting.front().is_some_and(|request| request.answers().is_some());
            let owed = owed && !self.waiting.is_empty();
            if !(owed && outstanding.is_peers_turn()) {
                return;
            }
            if let (Some(number), ReconfigRequest::Reset { incoming: Some(streams), .. }) =
                (outstanding.awaits(RequestType::ResetIncoming), &outstanding.request)
            {
                self.agreed_incoming = Some((number, streams.clone()));
            }
            self.outstanding = None;
            self.send_pending = false;
            timers.stop(Timer::Reconfig);
        }
        // RFC 6525 §5.1.2 A3: before a stream reset, all earlier messages must have TSNs. §5.1.4 C2: before an
        // association reset, no chunk may be outstanding.
        let ready = match self.waiting.front() {
            None => false,
            Some(ReconfigRequest::Reset { ticket, outgoing, .. }) => {
                outgoing.is_none() || send.is_clear(*ticket)
            }
            Some(ReconfigRequest::Association { ticket }) => {
                send.is_clear(*ticket) && !send.has_outstanding()
            }
            Some(ReconfigRequest::Add { .. }) => true,
        };
        if !ready {
            return;
        }
        let Some(request) = self.waiting.pop_front() else {
            return;
        };
        let kinds: &[RequestType] = match &request {
            ReconfigRequest::Reset { outgoing: Some(_), incoming: Some(_), .. } => {
                &[RequestType::ResetOutgoing, RequestType::ResetIncoming]
            }
            ReconfigRequest::Reset { outgoing: Some(_), .. } => &[RequestType::ResetOutgoing],
            ReconfigRequest::Reset { .. } => &[RequestType::ResetIncoming],
            ReconfigRequest::Association { .. } => &[RequestType::ResetTsn],
            ReconfigRequest::Add { incoming: 0, .. } => &[RequestType::AddOutgoing],
            ReconfigRequest::Add { outgoing: 0, .. } => &[RequestType::AddIncoming],
            ReconfigRequest::Add { .. } => &[RequestType::AddOutgoing, RequestType::AddIncoming],
        };
        let first = self.next;
        let number = |(i, &kind): (usize, &RequestType)| (first.wrapping_add(i as u32), kind, false);
        let params: Vec<_> = kinds.iter().enumerate().map(number).collect();
        self.next = first.wrapping_add(params.len() as u32);
        // RFC 6525 §5.1.2 A4: the number of the peer's request to which our request responds. If our request responds
        // to none, this is the number of the last peer request that was answered.
        let response = request.answers().unwrap_or_else(|| {
            self.peer_request.as_ref().map_or(self.expected, |request| request.number).wrapping_sub(1)
        });
        let resets = matches!(request, ReconfigRequest::Reset { outgoing: Some(_), .. });
        let lists = match &request {
            ReconfigRequest::Reset { outgoing, incoming, .. } => {
                [outgoing, incoming].map(|list| list.as_deref().map(encode).unwrap_or_default())
            }
            _ => Default::default(),
        };
        self.outstanding = Some(OutstandingRequest {
            request,
            lists,
            params,
            last: send.next_tsn().wrapping_sub(1),
            response,
            path,
            sent_at: Instant::ZERO,
            is_in_progress: false,
            accepted: false,
            performed: false,
        });
        self.send_pending = true;
        if resets {
            send.record_reset();
        }
    }

    // Receiving responses.

    /// Handles the peer's answer to the parameter with sequence number `number`.
    pub(super) fn on_response(
        &mut self,
        parts: &mut AssociationParts<'_>,
        number: u32,
        result: u32,
        next: Option<(Tsn, Tsn)>,
    ) {
        let Some(outstanding) = &mut self.outstanding else {
            return;
        };
        let Some(kind) = outstanding.kind_of(number) else {
            return;
        };
        if result == super::result::IN_PROGRESS {
            // RFC 6525 §5.2.7 H2: the peer has not finished processing the request, so the retransmission timer is
            // restarted. Its next expiration does not count as an error.
            outstanding.is_in_progress = true;
            outstanding.accepted = true;
            let rto = parts.paths.get(outstanding.path).rto();
            parts.timers.set(Timer::Reconfig, parts.now + rto);
            return;
        }
        self.finish(parts, number, kind, result, next);
    }

    /// Marks one parameter of the outstanding request as answered, and applies its result.
    pub(super) fn finish(
        &mut self,
        parts: &mut AssociationParts<'_>,
        number: u32,
        kind: RequestType,
        result: u32,
        next: Option<(Tsn, Tsn)>,
    ) {
        parts.paths.clear_errors();
        if let Some(outstanding) = &mut self.outstanding {
            for param in outstanding.params.iter_mut().filter(|param| param.0 == number) {
                param.2 = true;
            }
            let failed = ReconfigResult::failure(result);
            if kind == RequestType::ResetTsn {
                self.last_tsn_reset = Some(parts.now);
            }
            if let Some(event) = outstanding.conclude(parts, kind, (result, failed), next) {
                parts.events.push_back(event);
            }
            if let Some(answered) = outstanding.request.answers() {
                let answer = if failed.is_none() { 1 } else { 2 };
                self.results.iter_mut().filter(|a| a.number == answered).for_each(|a| a.result = answer);
            }
            if outstanding.params.iter().all(|param| param.2) {
                self.outstanding = None;
                self.send_pending = false;
                parts.timers.stop(Timer::Reconfig);
            }
        }
        self.advance_peer_request(parts.send);
        parts.finished = true;
    }
}

impl OutstandingRequest {
    /// RFC 6525 §5.2.7 H3 to H6: applies the peer's result for one parameter of this request. Returns the event for
    /// the application, if there is one.
    fn conclude(
        &mut self,
        parts: &mut AssociationParts<'_>,
        kind: RequestType,
        (result, failed): (u32, Option<ReconfigResult>),
        next: Option<(Tsn, Tsn)>,
    ) -> Option<Event> {
        let id = parts.id;
        let event = match (&mut self.request, kind) {
            (ReconfigRequest::Reset { outgoing, ticket, .. }, RequestType::ResetOutgoing) => {
                parts.send.resume(*ticket, failed.is_none());
                let streams = outgoing.take().unwrap_or_default();
                match failed {
                    None => Event::StreamsReset { id, direction: Direction::Outgoing, streams, idle: false },
                    Some(result) => {
                        Event::ResetFailed { id, direction: Some(Direction::Outgoing), streams, result }
                    }
                }
            }
            (ReconfigRequest::Reset { incoming, .. }, RequestType::ResetIncoming) => {
                let streams = incoming.take().unwrap_or_default();
                match failed {
                    // The peer has already reset its outgoing streams. `StreamsReset` was emitted at that time.
                    None if self.performed => return None,
                    None => {
                        let idle = result == super::result::NOTHING;
                        Event::StreamsReset { id, direction: Direction::Incoming, streams, idle }
                    }
                    Some(result) => {
                        Event::ResetFailed { id, direction: Some(Direction::Incoming), streams, result }
                    }
                }
            }
            (ReconfigRequest::Association { ticket }, _) => {
                let ticket = *ticket;
                match (failed, next) {
                    // RFC 6525 §5.2.7 H5: both sides continue with the TSNs in the answer.
                    (None, Some((peer, ours))) if !parts.send.has_outstanding() => {
                        parts.send.renumber(ours.0);
                        parts.send.resume(ticket, true);
                        parts.recv.renumber(peer.0);
                        Event::AssociationReset { id, local_tsn: ours.0, remote_tsn: peer.0 }
                    }
                    (failed, _) => {
                        parts.send.resume(ticket, false);
                        let result = failed.unwrap_or(ReconfigResult::Unknown);
                        Event::ResetFailed { id, direction: None, streams: Vec::new(), result }
                    }
                }
            }
            (ReconfigRequest::Add { outgoing, incoming, .. }, kind) => match failed {
                None if kind == RequestType::AddOutgoing => {
                    parts.streams.add_outbound(*outgoing);
                    Event::StreamsAdded { id, outgoing: *outgoing, incoming: 0 }
                }
                // An Add Incoming Streams request adds no streams itself. The peer carries it out with a request of its
                // own, which adds the streams.
                None => return None,
                Some(result) => {
                    let (outgoing, incoming) =
                        if kind == RequestType::AddOutgoing { (*outgoing, 0) } else { (0, *incoming) };
                    Event::AddFailed { id, outgoing, incoming, result }
                }
            },
            _ => return None,
        };
        Some(event)
    }
}

/// Splits `streams` into lists that are short enough for one request each.
fn pieces(paths: &Paths, streams: &[u16], both: bool) -> Vec<Vec<u16>> {
    let smallest = paths.iter().map(Path::chunk_limit).min().unwrap_or(512);
    // 40 bytes are enough for the chunk header and for the fixed fields and padding of two parameters. A stream number
    // takes two bytes in each parameter. There are two parameters if `both` is true.
    let most = smallest.saturating_sub(40) / if both { 4 } else { 2 };
    if streams.is_empty() {
        return vec![Vec::new()];
    }
    streams.chunks(most.max(1)).map(<[u16]>::to_vec).collect()
}
