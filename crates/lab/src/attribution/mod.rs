//! Why a response took as long as it did: the response time of each object,
//! cut at eleven instants into parts that add up to it exactly.
//!
//! Owns the definitions. The milestones of client and server
//! (`http::observe`) say when an object was issued, assigned, served, written
//! and delivered, and where its bytes lie on which stream; the traces of both
//! engines (`base::trace`) say in which packet those bytes went, which copy
//! arrived when, and what held the sender back. `flow` answers questions
//! about one direction of one connection; `sender_limit` about its sender.
//!
//! | instant | is |
//! |---|---|
//! | `issued` | the client wanted it |
//! | `assigned` | its connection is usable and a stream or slot free |
//! | `req_sent` | first transmission of the bytes whose arrival completed the request |
//! | `req_copy` | transmission of the copy of them that arrived |
//! | `req_in` | the request is complete at the server host |
//! | `serving` | the server starts on it |
//! | `written` | first response byte given to the transport |
//! | `sent`, `copy`, `complete` | as the three for the request, for the response |
//! | `delivered` | last byte given to the application |
//!
//! Where an arrival completes an object with several of its bytes, the last of
//! these bytes is followed back to its first transmission.
//!
//! # Instants that are not in order, or not known
//!
//! The instants never decrease: one that would lie before its predecessor is
//! moved up to it, one after `delivered` down to it, so that the part between
//! is zero. This happens where the definitions meet reality:
//! - a client may write a request before the connection is established;
//!   `assigned` is then the instant from which a byte could move: the
//!   establishment, or the first data that rode with the handshake;
//! - a server may note `serving` in the instant in which it also writes.
//!
//! # Layers
//!
//! Over TLS or HTTP/2 the milestones' byte ranges are of another stream than the trace's. [`Placement`] says which bytes of the
//! one are in which of the other; a record or frame counts as a whole, since nothing of it can be read before. So what is
//! withheld because another's record or frame has a hole is `blocked`, over HTTP/2 across its streams. The handshake of
//! TLS is `secure`: from when the transport could carry data until the session above could; so is that of DTLS, from when the
//! transport wanted to begin until it could. QUIC has both in one handshake: until the server's first packet comes it is
//! `connect`, a round trip that whoever wants an answer has to wait for; what follows until data can flow (certificates,
//! and round trips for them) is `secure`.
//!
//! A milestone that is missing (a server that keeps none) takes its
//! predecessor's instant: what cannot be told from the next part counts there.
//! Where the traces cannot say which packet brought the bytes (emulated
//! world), the parts that need them are null and the others still given.

mod flow;
mod sender_limit;

use crate::results::{Directions, Instants, SendDetail, Why};
use anabranch_base::trace::TraceRecord;
use anabranch_http::observe::{ExchangeId, ObjectRecord, Record};
use anabranch_transport::Placement;
use flow::{Connection, Flow, Journey};
use std::collections::BTreeMap;
use std::ops::Range;

/// What is known about one delivered object.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributed {
    /// The nine inner instants; `None` if the traces cannot tell.
    pub instants: Option<Instants>,
    /// The parts.
    pub why: Why,
    /// Details of `send`; `None` if the traces cannot tell.
    pub send_detail: Option<SendDetail>,
}

/// The records of TLS between engines and applications, where there is TLS: of what clients and servers have written, over
/// all connections. What is in frames of HTTP/2 the record of milestones tells.
pub type Records = Directions<Placement>;

/// Bytes as a trace of an engine has them.
struct Carried {
    stream: u64,
    spans: Vec<Range<u64>>,
}

impl Carried {
    /// Where these bytes, which an application has written to a stream, are below these layers, the topmost first; `None`
    /// where that is not known.
    fn below<'a>(
        layers: impl IntoIterator<Item = &'a Placement>,
        exchange: ExchangeId,
        bytes: &Range<u64>,
    ) -> Option<Self> {
        let mut carried = Self { stream: exchange.stream, spans: vec![bytes.clone()] };
        for layer in layers.into_iter().filter(|layer| layer.has(exchange.connection)) {
            let below = |span| layer.below(exchange.connection, carried.stream, span);
            let spans: Option<Vec<_>> = carried.spans.iter().map(below).collect();
            // Whatever has frames or records has but one stream below.
            carried = Self { stream: 0, spans: spans?.into_iter().flatten().collect() };
        }
        Some(carried)
    }
}

/// For each object of the record why it took as long as it did; `None` for
/// those that were not delivered. The traces are those of the client's and the
/// server's engine, in order of time, with any number of connections in them.
#[must_use]
pub fn attribute(
    record: &Record,
    client: &[TraceRecord],
    server: &[TraceRecord],
    records: &Records,
) -> Vec<Option<Attributed>> {
    let connections = flow::connections(client, server);
    record.objects.iter().map(|object| one(object, record, &connections, records)).collect()
}

fn one(
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

    let opened = connection.and_then(|c| c.opening).or(milestones.map(|m| m.opened.as_nanos()));
    let established = connection
        .and_then(|c| c.established)
        .or(milestones.and_then(|m| m.established).map(|at| at.as_nanos()));
    // What is sent unasked has no request: nothing of it travels, and nothing waits for it.
    let unasked = assigned.request.is_empty();
    let nothing = || Journey { copies: Vec::new(), arrived: assigned.at.as_nanos() };
    let bytes = object.placed.as_ref().unwrap_or(&end.response);
    let up = Carried::below([&record.requests, &records.up], exchange, &assigned.request);
    let down = Carried::below([&record.answers, &records.down], exchange, bytes);
    let request = match (unasked, &up) {
        (true, _) => connection.map(|_| nothing()),
        (false, Some(up)) => connection.and_then(|c| c.up.journey(up.stream, &up.spans)),
        (false, None) => None,
    };
    let response =
        down.as_ref().and_then(|down| connection.and_then(|c| c.down.journey(down.stream, &down.spans)));

    // The connection is usable when it is established, or as soon as data rode with its handshake.
    // What TLS sends in its handshake is no data: there it is usable when both handshakes are done.
    let secured = records.up.has(exchange.connection);
    let rode = connection.and_then(|c| c.up.first_sent()).filter(|_| !secured);
    let carries = established.map(|at| rode.map_or(at, |rode| at.min(rode)));
    let usable = match secured {
        true => milestones.and_then(|m| m.established).map(|at| at.as_nanos()),
        false => carries,
    };
    let mut clock = Clock { last: issued, end: delivered };
    let assigned_ns = clock.next(Some(assigned.at.as_nanos().max(usable.unwrap_or(0))));
    let wait = (issued, assigned_ns);
    let part = |from: Option<u64>, until: Option<u64>| match (from, until) {
        (Some(from), Some(until)) => overlap(wait, (from, until)),
        _ => 0,
    };
    // DTLS comes first, TLS last, and that of QUIC within.
    let beneath = connection.and_then(|c| c.beneath);
    let answered = connection.and_then(|c| c.answered).or(carries).min(carries);
    let connect = part(beneath.or(opened), answered);
    let secure = part(opened, beneath.or(opened))
        + part(answered, carries)
        + if secured { part(carries, usable) } else { 0 };
    let mut why = Why {
        connect_ns: Some(connect),
        // Without a trace nobody knows where the transport's handshake ends and that of TLS begins.
        secure_ns: connection.map(|_| secure),
        queue_ns: Some(assigned_ns - issued - connect - secure),
        ..Why::default()
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

    // What is sent unasked is in no layer.
    let nowhere = Carried { stream: exchange.stream, spans: Vec::new() };
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

/// Hands out instants that never decrease and never pass the end.
struct Clock {
    last: u64,
    end: u64,
}

impl Clock {
    /// `at`, put in order; the last instant where it is not known.
    fn next(&mut self, at: Option<u64>) -> u64 {
        self.last = at.unwrap_or(self.last).clamp(self.last, self.end);
        self.last
    }
}

/// What held some bytes in a sender, over an interval that the four fill.
struct SenderWaits {
    stalled: u64,
    cwnd: u64,
    rwnd: u64,
    turn: u64,
}

impl SenderWaits {
    /// The interval ends when the decisive bytes of `bytes` are first sent. A wait that ends with other
    /// bytes' transmission is theirs (`turn`); one that ends with own bytes has the sender's own reason.
    fn of(flow: &Flow, bytes: &Carried, (from, until): (u64, u64)) -> Self {
        let stalled = flow.sender_limit.time(sender_limit::Class::Stalled, from, until);
        let (cwnd, rwnd) = flow.own_waits(bytes.stream, &bytes.spans, from, until);
        Self { stalled, cwnd, rwnd, turn: until - from - stalled - cwnd - rwnd }
    }
}

/// How much of the first interval the second covers.
fn overlap(a: (u64, u64), b: (u64, u64)) -> u64 {
    a.1.min(b.1).saturating_sub(a.0.max(b.0))
}

impl Journey {
    /// The gaps between transmissions from `from` to `until`, by the cause of
    /// the later one: (fast retransmission, timer).
    fn recovery(&self, (from, until): (u64, u64)) -> (u64, u64) {
        let (mut recovery, mut timeout) = (0, 0);
        let mut last = from;
        for &(at, by_timer) in &self.copies {
            let at = at.clamp(last, until);
            *(if by_timer { &mut timeout } else { &mut recovery }) += at - last;
            last = at;
        }
        // Clamping may have moved the end beyond the last copy; that gap is its recovery too.
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
