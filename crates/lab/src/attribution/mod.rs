//! Explains the response time of each object. Eleven instants divide the response time into parts, whose sum is exactly
//! the response time.
//!
//! This module defines the parts. The client and the server record milestones (`http::observe`): when an object was
//! issued, assigned, served, written and delivered, and which bytes of which stream it occupies. Both engines record
//! traces (`base::trace`): which packet carried these bytes, which transmission arrived, and what delayed the sender.
//! `flow` reconstructs one direction of a connection, and `sender_limit` the limits of its sender.
//!
//! | instant | meaning |
//! |---|---|
//! | `issued` | the client wanted the object |
//! | `assigned` | the object's connection was usable, and a stream or slot was free |
//! | `req_sent` | first transmission of the bytes whose arrival completed the request |
//! | `req_copy` | of all transmissions of these bytes, the one that arrived |
//! | `req_in` | the request was complete at the server's host |
//! | `serving` | the server began to work on the request |
//! | `written` | the server gave the first byte of the response to the transport |
//! | `sent`, `copy`, `complete` | as `req_sent`, `req_copy` and `req_in`, but for the response |
//! | `delivered` | the client's transport gave the last byte to the application |
//!
//! Several bytes may arrive at the instant that completes a request or response. `req_sent`, `req_copy`, `sent` and
//! `copy` then refer to the last of these bytes.
//!
//! # Instants that are out of order or unknown
//!
//! The instants never decrease. An instant that is earlier than its predecessor is set to the predecessor. An instant
//! that is later than `delivered` is set to `delivered`. The part between two equal instants is zero. Instants are out
//! of order in two cases:
//! - A client may write a request before the connection is established. `assigned` is then the time from which a byte
//!   could move: the establishment, or the first data sent with the handshake.
//! - A server may record `written` before `serving`, or either of the two before the complete request (`req_in`).
//!
//! # Layers
//!
//! With TLS or HTTP/2, the milestones count the bytes that the application writes, and the trace counts the bytes of
//! TLS records or HTTP/2 frames. [`RecordMap`] maps the former to the latter. A record or frame counts as a whole,
//! because its receiver cannot read any part of it before all of it has arrived. If a gap in one record or frame delays
//! another one, the bytes of the delayed one count as `blocked`. Over HTTP/2 the two frames may belong to different
//! streams.
//!
//! The part `secure` is the time of the TLS or DTLS handshake. With TLS, it begins when the transport can carry data,
//! and ends when the TLS session can. With DTLS, it begins when the transport's first packet is ready, and ends when
//! the DTLS session can carry this packet. QUIC has a single handshake for transport and security. It counts as
//! `connect` until the server's first packet arrives, and from then on as `secure`.
//!
//! An instant that the server does not record is set to the preceding instant, so the part between the two instants is
//! zero. In an emulated run, the traces do not show which packet delivered the bytes. The parts that need this
//! knowledge are null, and the other parts are still given.

mod flow;
mod sender_limit;

use anabranch_base::trace::TraceRecord;
use anabranch_http::observe::{ConnectionRecord, ExchangeId, ObjectRecord, Record};
use anabranch_results::{Directions, Instants, SendDetail, TimeBreakdown};
use anabranch_transport::RecordMap;
use flow::{Connection, Flow, Journey};
use std::collections::BTreeMap;
use std::ops::Range;

/// The analysis of the response time of one delivered object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributed {
    /// The nine instants in the life of the object between `issued` and `delivered`; `None` if the traces do not show
    /// them.
    pub instants: Option<Instants>,
    /// The response time of the object, divided into its parts.
    pub why: TimeBreakdown,
    /// The details of the part `send` of the response time, or `None` if the traces do not show them.
    pub send_detail: Option<SendDetail>,
}

/// The positions of the TLS records that clients and servers sent on all connections; empty without TLS. The positions
/// of HTTP/2 frames are in [`Record`] instead.
pub type Records = Directions<RecordMap>;

/// A range of bytes, as the trace of a transport engine numbers them: the stream, and the ranges of its bytes.
struct EngineRange {
    stream: u64,
    spans: Vec<Range<u64>>,
}

impl EngineRange {
    /// Maps the application's `bytes` to the bytes of the engine, through all `layers`, the topmost layer first.
    /// Returns `None` if the mapping is not known.
    fn in_lower_layer<'a>(
        layers: impl IntoIterator<Item = &'a RecordMap>,
        exchange: ExchangeId,
        bytes: &Range<u64>,
    ) -> Option<Self> {
        let mut carried = Self { stream: exchange.stream, spans: vec![bytes.clone()] };
        for layer in layers.into_iter().filter(|layer| layer.has(exchange.connection)) {
            let lower_ranges = |span| layer.lower_ranges(exchange.connection, carried.stream, span);
            let spans: Option<Vec<_>> = carried.spans.iter().map(lower_ranges).collect();
            // A layer of frames or records (TLS or HTTP/2) uses only one stream of the layer below it.
            carried = Self { stream: 0, spans: spans?.into_iter().flatten().collect() };
        }
        Some(carried)
    }
}

/// Returns the analysis of each object in the record, or `None` for an object that was not delivered. The traces are
/// those of the client's and the server's engine. They are sorted by time and may contain any number of connections.
#[must_use]
pub fn attribute(
    record: &Record,
    client: &[TraceRecord],
    server: &[TraceRecord],
    records: &Records,
) -> Vec<Option<Attributed>> {
    let connections = flow::connections(client, server);
    record.objects.iter().map(|object| attribute_object(object, record, &connections, records)).collect()
}

fn attribute_object(
    object: &ObjectRecord,
    record: &Record,
    connections: &BTreeMap<u64, Connection>,
    records: &Records,
) -> Option<Attributed> {
    let issued = object.issued?.as_nanos();
    let assigned = object.assigned.as_ref()?;
    let end = object.delivered.as_ref()?;
    let delivered = end.at.as_nanos().max(issued);
    let exchange = assigned.exchange;
    let served = record.served.get(&exchange).copied().unwrap_or_default();
    let milestones = record.connections.get(&exchange.connection);
    let connection = connections.get(&exchange.connection);

    // An object that the server pushes has no request, so its request takes no time.
    let unasked = assigned.request.is_empty();
    let nothing = || Journey { copies: Vec::new(), arrived: assigned.at.as_nanos() };
    let bytes = object.placed.as_ref().unwrap_or(&end.response);
    let up = EngineRange::in_lower_layer([&record.requests, &records.up], exchange, &assigned.request);
    let down = EngineRange::in_lower_layer([&record.answers, &records.down], exchange, bytes);
    let request = match (unasked, &up) {
        (true, _) => connection.map(|_| nothing()),
        (false, Some(up)) => connection.and_then(|c| c.up.journey(up.stream, &up.spans)),
        (false, None) => None,
    };
    let response =
        down.as_ref().and_then(|down| connection.and_then(|c| c.down.journey(down.stream, &down.spans)));

    let mut clock = Clock { last: issued, end: delivered };
    let ready = Readiness::of(connection, milestones, records.up.has(exchange.connection));
    let assigned_ns = clock.next(Some(assigned.at.as_nanos().max(ready.usable.unwrap_or(0))));
    let (connect, secure) = ready.waits((issued, assigned_ns));
    let mut why = TimeBreakdown {
        connect_ns: Some(connect),
        // Without a trace, two times are unknown: the end of the transport's handshake, and the start of the TLS
        // handshake.
        secure_ns: connection.map(|_| secure),
        queue_ns: Some(assigned_ns - issued - connect - secure),
        ..TimeBreakdown::default()
    };

    let (Some(connection), Some(request), Some(response), Some(down_bytes)) =
        (connection, request, response, down)
    else {
        let mut clock = Clock { last: assigned_ns, end: delivered };
        let serving = clock.next(served.serving.map(|at| at.as_nanos()));
        let written = clock.next(served.written.map(|at| at.as_nanos()));
        why.server_ns = (served.serving.is_some() && served.written.is_some()).then_some(written - serving);
        return Some(Attributed { instants: None, why, send_detail: None });
    };
    let instants = Instants {
        assigned_ns,
        req_sent_ns: clock.next(Some(request.sent())),
        req_copy_ns: clock.next(Some(request.copy())),
        req_in_ns: clock.next(Some(request.arrived)),
        serving_ns: clock.next(served.serving.map(|at| at.as_nanos())),
        written_ns: clock.next(served.written.map(|at| at.as_nanos())),
        sent_ns: clock.next(Some(response.sent())),
        copy_ns: clock.next(Some(response.copy())),
        complete_ns: clock.next(Some(response.arrived)),
    };

    // An object that the server pushes has no request, and so no request bytes in any layer.
    let nowhere = EngineRange { stream: exchange.stream, spans: Vec::new() };
    let up_bytes = up.unwrap_or(nowhere);
    let up = SenderWaits::of(&connection.up, &up_bytes, (assigned_ns, instants.req_sent_ns));
    let down = SenderWaits::of(&connection.down, &down_bytes, (instants.written_ns, instants.sent_ns));
    let (up_recovery, up_timeout) = request.recovery((instants.req_sent_ns, instants.req_copy_ns));
    let (down_recovery, down_timeout) = response.recovery((instants.sent_ns, instants.copy_ns));
    let detail = SendDetail {
        cwnd_ns: up.cwnd + down.cwnd,
        rwnd_ns: up.rwnd + down.rwnd,
        turn_ns: up.turn + down.turn,
    };
    why.send_ns = Some(detail.cwnd_ns + detail.rwnd_ns + detail.turn_ns);
    why.stalled_ns = Some(up.stalled + down.stalled);
    why.ahead_ns = Some(instants.serving_ns - instants.req_in_ns);
    why.server_ns = Some(instants.written_ns - instants.serving_ns);
    why.recovery_ns = Some(up_recovery + down_recovery);
    why.timeout_ns = Some(up_timeout + down_timeout);
    why.wire_ns =
        Some((instants.req_in_ns - instants.req_copy_ns) + (instants.complete_ns - instants.copy_ns));
    why.blocked_ns = Some(delivered - instants.complete_ns);
    assert_eq!(why.sum(), delivered - issued, "the parts of a response time add up to it");
    Some(Attributed { instants: Some(instants), why, send_detail: Some(detail) })
}

/// The times at which a connection reached each stage of its set-up. A time is `None` if it is not known.
struct Readiness {
    /// The time when the transport's first handshake packet could leave: the end of the DTLS handshake. Without DTLS,
    /// this is `opened`.
    handshake_started: Option<u64>,
    /// The time when the transport's first handshake packet was ready. With DTLS, this packet waits for the end of the
    /// DTLS handshake, until `handshake_started`.
    opened: Option<u64>,
    /// The time when the server's first packet arrived. If the traces do not show it, the time when the transport's
    /// handshake ended.
    answered: Option<u64>,
    /// The time from which the transport could carry data.
    carries: Option<u64>,
    /// The time from which the application's data could flow, after all handshakes.
    usable: Option<u64>,
    secured: bool,
}

impl Readiness {
    /// Returns the times at which a connection reached each stage. A connection is usable once its handshake is
    /// complete, or from the time at which the client first sends data, if that is earlier. With TLS (`secured`), both
    /// handshakes must be complete, and the bytes of the TLS handshake do not count as data.
    fn of(connection: Option<&Connection>, milestones: Option<&ConnectionRecord>, secured: bool) -> Self {
        let opened = connection.and_then(|c| c.opening).or(milestones.map(|m| m.opened.as_nanos()));
        let session = milestones.and_then(|m| m.established).map(|at| at.as_nanos());
        let established = connection.and_then(|c| c.established).or(session);
        let rode = connection.and_then(|c| c.up.first_sent()).filter(|_| !secured);
        let carries = established.map(|at| rode.map_or(at, |rode| at.min(rode)));
        Self {
            handshake_started: connection.and_then(|c| c.lower_established).or(opened),
            opened,
            answered: connection.and_then(|c| c.answered).or(carries).min(carries),
            carries,
            usable: if secured { session } else { carries },
            secured,
        }
    }

    /// Returns two parts of the interval `wait`, in nanoseconds: the time of the transport's handshake, and the time of
    /// the TLS or DTLS handshakes. The DTLS handshake comes before the transport's handshake, and the TLS handshake
    /// after it. QUIC's single handshake is split at the server's first packet.
    fn waits(&self, wait: (u64, u64)) -> (u64, u64) {
        let part = |from: Option<u64>, until: Option<u64>| match (from, until) {
            (Some(from), Some(until)) => overlap(wait, (from, until)),
            _ => 0,
        };
        let tls = if self.secured { part(self.carries, self.usable) } else { 0 };
        let secure = part(self.opened, self.handshake_started) + part(self.answered, self.carries) + tls;
        (part(self.handshake_started, self.answered), secure)
    }
}

/// Turns the instants of an object into a sequence that never decreases and never exceeds `end`.
struct Clock {
    last: u64,
    end: u64,
}

impl Clock {
    /// Returns `at`, limited to the range from `last` to `end`, and stores the result in `last`. If `at` is `None`,
    /// returns `last`.
    fn next(&mut self, at: Option<u64>) -> u64 {
        self.last = at.unwrap_or(self.last).clamp(self.last, self.end);
        self.last
    }
}

/// How long bytes waited at a sender, by the reason for the wait. The sum of the four times is the whole wait.
struct SenderWaits {
    stalled: u64,
    cwnd: u64,
    rwnd: u64,
    turn: u64,
}

impl SenderWaits {
    /// Splits a sender's wait into its causes. The wait begins at `from`, when the message can be sent. It ends at
    /// `until`, when the bytes that complete the message are sent for the first time. Time in which the sender repaired
    /// a loss always counts as `stalled`. Time in which the sender waited for a window counts as `cwnd` or `rwnd` only
    /// if the wait ended with a transmission of `bytes`. The rest counts as `turn`.
    fn of(flow: &Flow, bytes: &EngineRange, (from, until): (u64, u64)) -> Self {
        let stalled = flow.sender_limit.time(sender_limit::Class::Stalled, from, until);
        let (cwnd, rwnd) = flow.sender_wait(bytes.stream, &bytes.spans, from, until);
        Self { stalled, cwnd, rwnd, turn: until - from - stalled - cwnd - rwnd }
    }
}

/// Returns how much of interval `a` lies within interval `b`, in nanoseconds.
fn overlap(a: (u64, u64), b: (u64, u64)) -> u64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}

impl Journey {
    /// Divides the time between `from` and `until` into two sums in ns: time spent waiting for a fast retransmission,
    /// and time spent waiting for a timer. The time between two transmissions is added to the sum of the later
    /// transmission's cause.
    fn recovery(&self, (from, until): (u64, u64)) -> (u64, u64) {
        let (mut recovery, mut timeout) = (0, 0);
        let mut last = from;
        for &(at, by_timer) in &self.copies {
            let at = at.clamp(last, until);
            *(if by_timer { &mut timeout } else { &mut recovery }) += at - last;
            last = at;
        }
        // Any time between the last transmission and `until` is attributed to the cause of that transmission.
        *(if self.copies.last().is_some_and(|&(_, by_timer)| by_timer) {
            &mut timeout
        } else {
            &mut recovery
        }) += until - last;
        (recovery, timeout)
    }
}

#[cfg(test)]
mod tests;
