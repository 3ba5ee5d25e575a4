//! Tests every part of a response time with a handmade trace. Times are in milliseconds. The client's port is 7,
//! requests have 100 bytes, and packets carry 1000 bytes.

use super::*;
use anabranch_base::time::Instant;
use anabranch_base::trace::{Limit, SendCause, TraceEvent};
use anabranch_http::observe::{Assigned, ConnectionRecord, Delivered, ExchangeId, ServedRecord};

const MS: u64 = 1_000_000;
const KEY: u64 = 7;

/// The traces of client and server, and the client's record of objects, that a test builds.
#[derive(Default)]
struct Story {
    record: Record,
    client: Vec<TraceRecord>,
    server: Vec<TraceRecord>,
}

fn at(ms: u64) -> Instant {
    Instant::from_millis(ms)
}

impl Story {
    /// Creates a connection whose handshake begins at 0 ms and ends at 80 ms.
    fn new() -> Self {
        let mut story = Self::default();
        story.client(0, TraceEvent::Opening);
        story.client(80, TraceEvent::Established);
        let connection = ConnectionRecord { opened: at(0), established: Some(at(80)), closed: None };
        story.record.connections.insert(KEY, connection);
        story
    }

    fn client(&mut self, ms: u64, event: TraceEvent) {
        self.client.push(TraceRecord { at: at(ms), connection: KEY, event });
    }

    fn server(&mut self, ms: u64, event: TraceEvent) {
        self.server.push(TraceRecord { at: at(ms), connection: KEY, event });
    }

    /// Adds an object on a stream. `times` are the times when the object was issued, assigned, served, written and
    /// delivered.
    fn object(
        &mut self,
        stream: u64,
        index: u32,
        times: [u64; 5],
        request: Range<u64>,
        response: Range<u64>,
    ) {
        let [issued, assigned, serving, written, delivered] = times;
        let exchange = ExchangeId { connection: KEY, stream, index };
        self.record.objects.push(ObjectRecord {
            issued: Some(at(issued)),
            assigned: Some(Assigned { at: at(assigned), exchange, request, attempt: 0 }),
            delivered: Some(Delivered { at: at(delivered), response, body: 0 }),
            ..ObjectRecord::default()
        });
        let served = ServedRecord { serving: Some(at(serving)), written: Some(at(written)) };
        self.record.served.insert(exchange, served);
    }

    /// Adds a request that is sent in the packet numbered `packet` at `ms`, and arrives after 40 ms.
    fn request(&mut self, ms: u64, stream: u64, bytes: Range<u64>, packet: u64) {
        let units = bytes.clone();
        self.client(
            ms,
            TraceEvent::Sent { units: units.clone(), stream, bytes, packet, cause: SendCause::New },
        );
        self.server(ms + 40, TraceEvent::Received { units, packet });
    }

    /// Adds response bytes that the server sends in one packet. As in TCP traces, `units` and `bytes` are the same
    /// range.
    fn sent(&mut self, ms: u64, bytes: Range<u64>, packet: u64, cause: SendCause) {
        self.server(ms, TraceEvent::Sent { units: bytes.clone(), stream: 0, bytes, packet, cause });
    }

    fn arrived(&mut self, ms: u64, units: Range<u64>, packet: u64) {
        self.client(ms, TraceEvent::Received { units, packet });
    }

    fn why(&self) -> Vec<Parts> {
        let found = attribute(&self.record, &self.client, &self.server, &Records::default());
        let parts = |(object, found): (&ObjectRecord, Option<Attributed>)| {
            let found = found.expect("delivered");
            let issued = object.issued.expect("issued").as_nanos();
            let delivered = object.delivered.as_ref().expect("delivered").at.as_nanos();
            assert_eq!(found.why.sum(), delivered - issued);
            let inner = found.instants.expect("known");
            let order = [
                issued,
                inner.assigned_ns,
                inner.req_sent_ns,
                inner.req_copy_ns,
                inner.req_in_ns,
                inner.serving_ns,
                inner.written_ns,
                inner.sent_ns,
                inner.copy_ns,
                inner.complete_ns,
                delivered,
            ];
            assert!(order.is_sorted(), "{order:?}");
            Parts::new(&found)
        };
        self.record.objects.iter().zip(found).map(parts).collect()
    }
}

/// The parts of a response time in milliseconds, as a test expects them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Parts {
    connect: u64,
    queue: u64,
    cwnd: u64,
    rwnd: u64,
    turn: u64,
    stalled: u64,
    ahead: u64,
    server: u64,
    recovery: u64,
    timeout: u64,
    wire: u64,
    blocked: u64,
}

impl Parts {
    fn new(found: &Attributed) -> Self {
        let ms = |nanos: Option<u64>| nanos.expect("known") / MS;
        let (why, detail) = (&found.why, found.send_detail.expect("known"));
        assert_eq!(why.send_ns, Some(detail.cwnd_ns + detail.rwnd_ns + detail.turn_ns));
        Self {
            connect: ms(why.connect_ns),
            queue: ms(why.queue_ns),
            cwnd: detail.cwnd_ns / MS,
            rwnd: detail.rwnd_ns / MS,
            turn: detail.turn_ns / MS,
            stalled: ms(why.stalled_ns),
            ahead: ms(why.ahead_ns),
            server: ms(why.server_ns),
            recovery: ms(why.recovery_ns),
            timeout: ms(why.timeout_ns),
            wire: ms(why.wire_ns),
            blocked: ms(why.blocked_ns),
        }
    }
}

#[test]
fn a_plain_exchange_is_handshake_server_and_two_flights() {
    let mut story = Story::new();
    story.object(0, 0, [0, 80, 120, 125, 165], 0..100, 0..1000);
    story.request(80, 0, 0..100, 1);
    story.sent(125, 0..1000, 1, SendCause::New);
    story.arrived(165, 0..1000, 1);
    assert_eq!(story.why(), [Parts { connect: 80, server: 5, wire: 80, ..Parts::default() }]);
}

#[test]
fn waiting_for_a_slot_is_queue_and_only_the_handshake_s_share_is_connect() {
    let mut story = Story::new();
    // The object is issued in the middle of the handshake. It is assigned to a stream 120 ms after the end of the
    // handshake.
    story.object(0, 0, [30, 200, 240, 240, 280], 0..100, 0..1000);
    story.request(200, 0, 0..100, 1);
    story.sent(240, 0..1000, 1, SendCause::New);
    story.arrived(280, 0..1000, 1);
    assert_eq!(story.why(), [Parts { connect: 50, queue: 120, wire: 80, ..Parts::default() }]);
}

#[test]
fn a_request_that_is_written_early_waits_for_the_handshake() {
    let mut story = Story::new();
    story.object(0, 0, [0, 0, 120, 120, 160], 0..100, 0..1000);
    story.request(80, 0, 0..100, 1);
    story.sent(120, 0..1000, 1, SendCause::New);
    story.arrived(160, 0..1000, 1);
    assert_eq!(story.why(), [Parts { connect: 80, wire: 80, ..Parts::default() }]);
}

#[test]
fn a_request_that_rides_with_the_handshake_waits_for_it_until_it_leaves() {
    // The request is written at 10 ms and sent with the COOKIE ECHO at 40 ms. The association is established only at 80
    // ms.
    let mut story = Story::new();
    story.object(0, 0, [0, 10, 80, 80, 120], 0..100, 0..1000);
    story.request(40, 0, 0..100, 1);
    story.sent(80, 0..1000, 1, SendCause::New);
    story.arrived(120, 0..1000, 1);
    assert_eq!(story.why(), [Parts { connect: 40, wire: 80, ..Parts::default() }]);
}

#[test]
fn a_full_congestion_window_is_cwnd_for_own_bytes() {
    let mut story = Story::new();
    story.object(0, 0, [80, 80, 120, 120, 240], 0..100, 0..3000);
    story.request(80, 0, 0..100, 1);
    story.server(120, TraceEvent::Limited(Limit::Congestion));
    story.sent(120, 0..1000, 1, SendCause::New);
    story.sent(200, 1000..2000, 2, SendCause::New);
    story.sent(200, 2000..3000, 3, SendCause::New);
    story.arrived(160, 0..1000, 1);
    story.arrived(240, 1000..2000, 2);
    story.arrived(240, 2000..3000, 3);
    assert_eq!(story.why(), [Parts { cwnd: 80, wire: 80, ..Parts::default() }]);
}

#[test]
fn a_full_receiver_window_is_rwnd_and_stays_so_while_a_timer_is_awaited() {
    let mut story = Story::new();
    story.object(0, 0, [80, 80, 120, 120, 1240], 0..100, 0..3000);
    story.request(80, 0, 0..100, 1);
    story.sent(120, 0..1000, 1, SendCause::New);
    story.sent(120, 1000..2000, 2, SendCause::New);
    story.server(120, TraceEvent::Limited(Limit::Receiver));
    story.arrived(160, 1000..2000, 2);
    story.sent(1120, 0..1000, 3, SendCause::Timeout);
    story.arrived(1160, 0..1000, 3);
    story.sent(1200, 2000..3000, 4, SendCause::New);
    story.arrived(1240, 2000..3000, 4);
    assert_eq!(story.why(), [Parts { rwnd: 1080, wire: 80, ..Parts::default() }]);
}

#[test]
fn waiting_while_others_bytes_go_first_is_turn() {
    let mut story = Story::new();
    // The bytes of the second object come after those of the first object on the same connection.
    story.object(0, 0, [80, 80, 120, 120, 240], 0..100, 0..2000);
    story.object(0, 1, [80, 80, 120, 120, 320], 100..200, 2000..3000);
    story.request(80, 0, 0..100, 1);
    story.request(80, 0, 100..200, 2);
    story.server(120, TraceEvent::Limited(Limit::Congestion));
    story.sent(120, 0..1000, 1, SendCause::New);
    story.sent(200, 1000..2000, 2, SendCause::New);
    story.sent(280, 2000..3000, 3, SendCause::New);
    for (packet, ms) in [(1, 160), (2, 240), (3, 320)] {
        story.arrived(ms, (packet - 1) * 1000..packet * 1000, packet);
    }
    let why = story.why();
    assert_eq!(why[0], Parts { cwnd: 80, wire: 80, ..Parts::default() });
    // The server sent the first object until 200 ms. Then the congestion window held the second object back.
    assert_eq!(why[1], Parts { turn: 80, cwnd: 80, wire: 80, ..Parts::default() });
}

#[test]
fn repair_of_others_bytes_is_stalled_before_and_after_it_is_noticed() {
    let mut story = Story::new();
    story.object(0, 0, [80, 80, 120, 120, 1160], 0..100, 0..1000);
    story.object(0, 1, [80, 80, 120, 120, 1240], 100..200, 1000..2000);
    story.request(80, 0, 0..100, 1);
    story.request(80, 0, 100..200, 2);
    // The packet with object 0 is lost, and is retransmitted after a timeout of 1000 ms. The congestion window is one
    // packet, so object 1 waits until the retransmission is acknowledged.
    story.sent(120, 0..1000, 1, SendCause::New);
    story.server(120, TraceEvent::Limited(Limit::Congestion));
    story.server(1120, TraceEvent::Limited(Limit::Timeout));
    story.sent(1120, 0..1000, 2, SendCause::Timeout);
    story.arrived(1160, 0..1000, 2);
    story.sent(1200, 1000..2000, 3, SendCause::New);
    story.arrived(1240, 1000..2000, 3);
    let why = story.why();
    assert_eq!(why[0], Parts { timeout: 1000, wire: 80, ..Parts::default() });
    assert_eq!(why[1], Parts { stalled: 1080, wire: 80, ..Parts::default() });
}

#[test]
fn a_server_busy_with_earlier_exchanges_is_ahead() {
    let mut story = Story::new();
    story.object(0, 0, [80, 80, 200, 230, 270], 0..100, 0..1000);
    story.request(80, 0, 0..100, 1);
    story.sent(230, 0..1000, 1, SendCause::New);
    story.arrived(270, 0..1000, 1);
    assert_eq!(story.why(), [Parts { ahead: 80, server: 30, wire: 80, ..Parts::default() }]);
}

#[test]
fn own_losses_are_recovery_or_timeout_by_the_cause_of_each_repeat() {
    let mut story = Story::new();
    story.object(0, 0, [80, 80, 120, 120, 1360], 0..100, 0..1000);
    story.request(80, 0, 0..100, 1);
    story.sent(120, 0..1000, 1, SendCause::New);
    story.sent(220, 0..1000, 2, SendCause::Fast);
    story.sent(1320, 0..1000, 3, SendCause::Timeout);
    story.arrived(1360, 0..1000, 3);
    assert_eq!(story.why(), [Parts { recovery: 100, timeout: 1100, wire: 80, ..Parts::default() }]);
}

#[test]
fn a_lost_request_is_repaired_as_well() {
    let mut story = Story::new();
    story.object(0, 0, [80, 80, 1120, 1120, 1160], 0..100, 0..1000);
    let sent = |packet, cause| TraceEvent::Sent { units: 0..100, stream: 0, bytes: 0..100, packet, cause };
    story.client(80, sent(1, SendCause::New));
    story.client(1080, sent(2, SendCause::Timeout));
    story.server(1120, TraceEvent::Received { units: 0..100, packet: 2 });
    story.sent(1120, 0..1000, 1, SendCause::New);
    story.arrived(1160, 0..1000, 1);
    assert_eq!(story.why(), [Parts { timeout: 1000, wire: 80, ..Parts::default() }]);
}

#[test]
fn a_needless_repeat_costs_nothing_when_the_first_copy_arrives_first() {
    let mut story = Story::new();
    story.object(0, 0, [80, 80, 120, 120, 1200], 0..100, 0..1000);
    story.request(80, 0, 0..100, 1);
    story.sent(120, 0..1000, 1, SendCause::New);
    story.sent(1120, 0..1000, 2, SendCause::Timeout);
    // The first copy of the packet takes 1080 ms. It arrives after the retransmission was sent, but before the
    // retransmission arrives.
    story.arrived(1200, 0..1000, 1);
    assert_eq!(story.why(), [Parts { wire: 40 + 1080, ..Parts::default() }]);
}

#[test]
fn bytes_withheld_behind_another_object_s_hole_are_blocked() {
    let mut story = Story::new();
    story.object(0, 0, [80, 80, 120, 120, 260], 0..100, 0..1000);
    story.object(0, 1, [80, 80, 120, 120, 260], 100..200, 1000..2000);
    story.request(80, 0, 0..100, 1);
    story.request(80, 0, 100..200, 2);
    story.sent(120, 0..1000, 1, SendCause::New);
    story.sent(120, 1000..2000, 2, SendCause::New);
    story.arrived(160, 1000..2000, 2);
    story.sent(220, 0..1000, 3, SendCause::Fast);
    story.arrived(260, 0..1000, 3);
    let why = story.why();
    assert_eq!(why[0], Parts { recovery: 100, wire: 80, ..Parts::default() });
    assert_eq!(why[1], Parts { wire: 80, blocked: 100, ..Parts::default() });
}

#[test]
fn sctp_counts_chunks_and_streams_apart() {
    // The response chunks with TSNs 0 and 2 are on stream 3, those with TSNs 1 and 3 on stream 5. TSN 1 is lost, which
    // delays only stream 5.
    let mut story = Story::new();
    story.object(3, 0, [80, 80, 120, 120, 200], 0..100, 0..2000);
    story.object(5, 0, [80, 80, 120, 120, 300], 0..100, 0..2000);
    for (unit, stream) in [(0, 3), (1, 5)] {
        let sent = TraceEvent::Sent {
            units: unit..unit + 1,
            stream,
            bytes: 0..100,
            packet: 1,
            cause: SendCause::New,
        };
        story.client(80, sent);
    }
    story.server(120, TraceEvent::Received { units: 0..2, packet: 1 });
    let chunks = [(120, 0, 3, 0), (120, 1, 5, 0), (160, 2, 3, 1000), (160, 3, 5, 1000)];
    story.server(120, TraceEvent::Limited(Limit::Congestion));
    for (ms, unit, stream, start) in chunks {
        let (units, bytes) = (unit..unit + 1, start..start + 1000);
        story.server(ms, TraceEvent::Sent { units, stream, bytes, packet: unit + 1, cause: SendCause::New });
        if unit != 1 {
            story.arrived(ms + 40, unit..unit + 1, unit + 1);
        }
    }
    let again =
        TraceEvent::Sent { units: 1..2, stream: 5, bytes: 0..1000, packet: 5, cause: SendCause::Fast };
    story.server(260, again);
    story.arrived(300, 1..2, 5);
    let why = story.why();
    assert_eq!(why[0], Parts { cwnd: 40, wire: 80, ..Parts::default() });
    assert_eq!(why[1], Parts { recovery: 140, wire: 80, ..Parts::default() });
}

#[test]
fn a_repeat_that_is_cut_differently_is_followed_to_its_last_byte() {
    // Three TCP packets of 1000 bytes each are retransmitted as two packets of 1500 bytes each.
    let mut story = Story::new();
    story.object(0, 0, [80, 80, 120, 120, 1260], 0..100, 0..3000);
    story.request(80, 0, 0..100, 1);
    for packet in 1..=3 {
        story.sent(120 + packet, (packet - 1) * 1000..packet * 1000, packet, SendCause::New);
    }
    story.sent(1120, 0..1500, 4, SendCause::Timeout);
    story.sent(1220, 1500..3000, 5, SendCause::Timeout);
    story.arrived(1160, 0..1500, 4);
    story.arrived(1260, 1500..3000, 5);
    assert_eq!(story.why(), [Parts { timeout: 1220 - 123, turn: 3, wire: 80, ..Parts::default() }]);
}

#[test]
fn what_was_not_delivered_has_no_parts_and_what_no_trace_shows_only_the_outer_ones() {
    let mut story = Story::new();
    story.object(0, 0, [0, 80, 120, 130, 200], 0..100, 0..1000);
    story.record.objects.push(ObjectRecord { issued: Some(at(5)), ..ObjectRecord::default() });
    let found = attribute(&story.record, &story.client, &story.server, &Records::default());
    assert_eq!(found[1], None);
    let found = found[0].expect("delivered");
    assert_eq!((found.instants, found.send_detail), (None, None));
    let known = TimeBreakdown {
        connect_ns: Some(80 * MS),
        secure_ns: Some(0),
        queue_ns: Some(0),
        server_ns: Some(10 * MS),
        ..TimeBreakdown::default()
    };
    assert_eq!(found.why, known);
}

#[test]
fn instants_out_of_order_are_put_in_order() {
    // The server's milestones are in reverse order: `written` at 90, `serving` at 100, and the complete request at 120.
    let mut story = Story::new();
    story.object(0, 0, [80, 80, 100, 90, 160], 0..100, 0..1000);
    story.request(80, 0, 0..100, 1);
    story.sent(120, 0..1000, 1, SendCause::New);
    story.arrived(160, 0..1000, 1);
    assert_eq!(story.why(), [Parts { wire: 80, ..Parts::default() }]);
}

#[test]
fn random_traces_always_add_up() {
    use anabranch_base::rng::Rng;
    let mut rng = Rng::new(3);
    for _ in 0..500 {
        let mut story = Story::new();
        let objects = 1 + rng.below(6);
        for object in 0..objects {
            let mut times = [0; 5];
            for time in &mut times {
                *time = rng.below(500);
            }
            // In a real run, the delivery of an object is always its last step. Here the times of the steps are random,
            // so the latest time is assigned to the delivery.
            let last = times.iter().copied().max().unwrap_or(0);
            times[4] = last;
            times[0] = times[0].min(times[1]);
            let (request, response) = (object * 100..object * 100 + 100, object * 2000..object * 2000 + 2000);
            story.object(0, object as u32, times, request.clone(), response);
            story.request(rng.below(400), 0, request, object + 1);
        }
        let (mut packet, mut ms) = (1, 0);
        let all = objects * 2000;
        let mut high = 0;
        while high < all || rng.below(3) > 0 {
            ms += rng.below(30);
            let limits =
                [Limit::Application, Limit::Congestion, Limit::Receiver, Limit::Recovery, Limit::Timeout];
            story.server(ms, TraceEvent::Limited(limits[rng.below(5) as usize]));
            let start = if high < all && rng.below(2) == 0 { high } else { rng.below(high + 1) };
            let end = (start + 1 + rng.below(1500)).min(all).max(start + 1);
            let cause = [SendCause::New, SendCause::Fast, SendCause::Timeout, SendCause::Probe]
                [rng.below(4) as usize];
            story.sent(ms, start..end, packet, cause);
            if rng.below(3) > 0 {
                story.arrived(ms + rng.below(100), start..end, packet);
            }
            high = high.max(end);
            packet += 1;
        }
        story.client.sort_by_key(|record| record.at);
        for found in
            attribute(&story.record, &story.client, &story.server, &Records::default()).into_iter().flatten()
        {
            // `attribute` itself asserts that the parts of a response time add up to it.
            assert!(found.why.connect_ns.is_some());
        }
    }
}
