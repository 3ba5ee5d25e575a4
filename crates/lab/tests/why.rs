//! Tests how a response time is divided into parts, with a separate run in the virtual network for each part. Also
//! compares two page loads with a calculation by hand.

use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::Options;
use anabranch_results::{Object, Outcome, Run};
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

/// Runs one contestant. Checks that the parts of each object's response time add up to the response time.
fn run(contestant: &str, flags: &[(&str, &str)]) -> Run {
    let own = [("runs", "1"), ("transport", contestant)];
    let draft = Draft::from_flags(flags.iter().copied().chain(own)).expect("flags");
    let plan = Plan::interpret(draft, &Transports::standard()).unwrap_or_else(|e| panic!("{e}"));
    let options = Options { threads: 1, progress: &|_| {}, stop: &AtomicBool::new(false) };
    let race = causes::race(&plan, &options).unwrap_or_else(|e| panic!("{e}"));
    let run = race.points[0].contestants[0].runs[0].clone();
    assert_eq!(run.outcome, Outcome::Done, "{contestant}");
    assert!(run.page_ns >= run.limit_ns, "{contestant} beats the limit");
    for object in &run.objects {
        let why = object.why.as_ref().expect("delivered");
        assert_eq!(why.sum(), response(object), "{contestant} {}", object.name);
    }
    run
}

fn response(object: &Object) -> u64 {
    object.delivered_ns.expect("delivered") - object.issued_ns.expect("issued")
}

/// The parts of one object's response time, in milliseconds.
struct Parts {
    connect: f64,
    queue: f64,
    send: f64,
    cwnd: f64,
    rwnd: f64,
    turn: f64,
    stalled: f64,
    ahead: f64,
    server: f64,
    recovery: f64,
    timeout: f64,
    wire: f64,
    blocked: f64,
}

/// Returns the parts of the response time of every object in a run.
fn parts(run: &Run) -> Vec<Parts> {
    let ms = |part: Option<u64>| part.expect("known in the virtual world") as f64 / 1e6;
    let of = |object: &Object| {
        let (why, detail) = (object.why.expect("delivered"), object.send_detail.expect("delivered"));
        Parts {
            connect: ms(why.connect_ns),
            queue: ms(why.queue_ns),
            send: ms(why.send_ns),
            cwnd: detail.cwnd_ns as f64 / 1e6,
            rwnd: detail.rwnd_ns as f64 / 1e6,
            turn: detail.turn_ns as f64 / 1e6,
            stalled: ms(why.stalled_ns),
            ahead: ms(why.ahead_ns),
            server: ms(why.server_ns),
            recovery: ms(why.recovery_ns),
            timeout: ms(why.timeout_ns),
            wire: ms(why.wire_ns),
            blocked: ms(why.blocked_ns),
        }
    };
    run.objects.iter().map(of).collect()
}

/// The network of the tests: the round-trip time is 100 ms, and a byte takes 800 ns.
const NET: [(&str, &str); 2] = [("rate", "10mbit"), ("rtt", "100ms")];
/// A faster network for tests: the round-trip time is 100 ms, a byte takes 100 ns, and a packet of 1500 bytes 150 us.
/// No packet is lost.
const WIDE: [(&str, &str); 2] = [("rate", "80mbit"), ("rtt", "100ms")];

fn on(
    net: [(&'static str, &'static str); 2],
    more: &[(&'static str, &'static str)],
) -> Vec<(&'static str, &'static str)> {
    net.iter().chain(more).copied().collect()
}

/// Returns the time in nanoseconds in which the wide link transmits `bytes`, without propagation delay.
const fn wire(bytes: u64) -> u64 {
    bytes * 100
}
/// The propagation delay of the wide link in one direction, in nanoseconds.
const ONE_WAY_DELAY: u64 = 50_000_000;

#[test]
fn tcp_parts_match_a_hand_calculation() {
    // The response is 40,300 bytes long: a head of 300 bytes and a body of 40,000 bytes. With timestamps, a segment
    // carries at most 1448 bytes, so the response needs 27 full segments and one of 1204 bytes. Every segment is
    // acknowledged. The window starts at ten segments and grows by one for each acknowledgement (RFC 5681 §3.1).
    let run = run("tcp:cc=reno,iw=10,delack=0,nagle=no", &on(WIDE, &[("objects", "1x40kB")]));
    // The packets have these sizes with all headers: 60 bytes for SYN and SYN ACK, 52 for an acknowledgement, and 400 +
    // 52 for the request.
    let established = 2 * (wire(60) + ONE_WAY_DELAY);
    let written = established + wire(52) + wire(452) + ONE_WAY_DELAY;
    // The server acknowledges the request, and then sends ten segments back to back. The client acknowledges the first
    // segment at once.
    let first_ack = written + wire(52) + wire(1500) + ONE_WAY_DELAY + wire(52) + ONE_WAY_DELAY;
    // Acknowledgements arrive every 150 us, at the spacing of the segments. Each acknowledgement releases two segments
    // into the router's queue. The ninth acknowledgement releases segments 27 and 28, the last ones (10 + 2 x 9 = 28).
    let sent = first_ack + 8 * wire(1500);
    // From the first acknowledgement on, the link carries segments 11 to 27 without a pause, and then the last one.
    let delivered = first_ack + 17 * wire(1500) + wire(1204 + 52) + ONE_WAY_DELAY;

    let object = &run.objects[0];
    assert_eq!(object.delivered_ns, Some(delivered));
    assert_eq!(run.page_ns, Some(delivered));
    let instants = object.instants.expect("known");
    assert_eq!((instants.assigned_ns, instants.req_sent_ns), (established, established));
    assert_eq!((instants.req_in_ns, instants.written_ns), (written, written));
    assert_eq!((instants.sent_ns, instants.copy_ns, instants.complete_ns), (sent, sent, delivered));
    let why = object.why.expect("known");
    assert_eq!((why.connect_ns, why.send_ns), (Some(established), Some(sent - written)));
    assert_eq!(
        object.send_detail.expect("known").cwnd_ns,
        sent - written,
        "all of it for the congestion window"
    );
    assert_eq!(why.wire_ns, Some(written - established + delivered - sent));
}

#[test]
fn sctp_parts_match_a_hand_calculation() {
    // The head of 300 bytes has a chunk of its own. The 10,000 bytes have six chunks of 1452 bytes and one of 1288. The
    // TSNs are 0 to 7. Every packet is acknowledged. The window starts at 4404 bytes (RFC 9260 §7.2.1: 3 packets of
    // 1468), and grows by the acknowledged bytes while it is full.
    let run = run("sctp:profile=rfc9260,delack=0", &on(WIDE, &[("objects", "1x10kB")]));
    // The packet with INIT has 60 bytes with all headers, and the packet with INIT ACK and our cookie 104. The packet
    // with COOKIE ECHO and the request has 500.
    let usable = wire(60) + ONE_WAY_DELAY + wire(104) + ONE_WAY_DELAY;
    let written = usable + wire(500) + ONE_WAY_DELAY;
    // The server sends COOKIE ACK and SACK (52 bytes), the head (TSN 0, 348 bytes), and three full packets (TSNs 1 to
    // 3). The head has 300 bytes of data. The server then stops, because the data in flight (300 + 3 x 1452 bytes)
    // exceeds the window of 4404 bytes. The SACK of the head allows the server to send TSN 4. The SACK of TSN 1 arrives
    // one full packet's transmission time after the SACK of the head, and allows TSNs 5 and 6. The SACK of TSN 2 allows
    // TSN 7.
    let first_sack = written + wire(52) + wire(348) + ONE_WAY_DELAY + wire(48) + ONE_WAY_DELAY;
    let sent = first_sack + 2 * wire(1500);
    // From the first SACK on, the link carries TSNs 4, 5 and 6 without a pause, and then the last one.
    let delivered = first_sack + 3 * wire(1500) + wire(1288 + 48) + ONE_WAY_DELAY;

    let object = &run.objects[0];
    assert_eq!(object.delivered_ns, Some(delivered));
    let instants = object.instants.expect("known");
    assert_eq!((instants.assigned_ns, instants.req_sent_ns), (usable, usable));
    assert_eq!((instants.req_in_ns, instants.written_ns), (written, written));
    assert_eq!((instants.sent_ns, instants.copy_ns, instants.complete_ns), (sent, sent, delivered));
    let why = object.why.expect("known");
    assert_eq!((why.connect_ns, why.send_ns), (Some(usable), Some(sent - written)));
    assert_eq!(object.send_detail.expect("known").cwnd_ns, sent - written);
    assert_eq!(why.wire_ns, Some(written - usable + delivered - sent));
}

#[test]
fn a_lost_first_packet_is_connect() {
    for contestant in ["tcp", "sctp"] {
        let run = run(contestant, &on(NET, &[("objects", "1x5kB"), ("up-loss", "list:1")]));
        let object = &parts(&run)[0];
        assert!(
            (1_100.0..1_101.0).contains(&object.connect),
            "{contestant}: the timer of 1 s, and a round trip: {}",
            object.connect
        );
        assert_eq!((object.queue, object.recovery, object.timeout), (0.0, 0.0, 0.0), "{contestant}");
    }
}

#[test]
fn waiting_for_a_connection_or_a_stream_is_queue() {
    let two = parts(&run("tcp:connections=2", &on(NET, &[("objects", "4x5kB")])));
    assert_eq!((two[0].queue, two[1].queue), (0.0, 0.0));
    assert!(two[2].queue > 100.0 && two[3].queue > 100.0, "a round trip at least");
    let one = parts(&run("sctp:num_ostreams=1,when-full=wait", &on(NET, &[("objects", "3x5kB")])));
    let queues: Vec<f64> = one.iter().map(|object| object.queue).collect();
    assert!(queues[0] == 0.0 && queues[1] > 100.0 && queues[2] > queues[1] + 100.0, "{queues:?}");
    let many = parts(&run("sctp", &on(NET, &[("objects", "3x5kB")])));
    assert!(many.iter().all(|object| object.queue == 0.0));
}

/// RFC 6525: a request that finds no free stream must wait a round trip for new streams, but not for other responses.
#[test]
fn an_association_grows_when_full() {
    let flags = on(NET, &[("objects", "8x50kB")]);
    let waits = parts(&run("sctp:num_ostreams=1,when-full=wait", &flags));
    let grows = parts(&run("sctp:num_ostreams=1,when-full=grow", &flags));
    let queues: Vec<f64> = grows.iter().map(|object| object.queue).collect();
    assert!(queues[0] == 0.0 && queues[1] > 0.0, "{queues:?}");
    assert!(queues[1..].iter().all(|queue| (queue - queues[1]).abs() < 1.0), "all at once: {queues:?}");
    assert!(queues[7] * 2.0 < waits[7].queue, "{queues:?}, {}", waits[7].queue);
}

#[test]
fn a_busy_server_is_ahead_on_one_ordered_connection_only() {
    let flags = on(NET, &[("objects", "3x1kB"), ("server-time", "30ms")]);
    let tcp = parts(&run("tcp", &flags));
    let sctp = parts(&run("sctp", &flags));
    assert!(tcp.iter().chain(&sctp).all(|object| object.server == 30.0), "each is served for 30 ms");
    let ahead: Vec<f64> = tcp.iter().map(|object| object.ahead).collect();
    assert_eq!(ahead, [0.0, 30.0, 60.0]);
    assert!(sctp.iter().all(|object| object.ahead == 0.0));
}

#[test]
fn another_object_s_hole_blocks_tcp_and_not_sctp() {
    // The first packet of the first object's body is lost. All other packets of the three objects arrive after the
    // one-way delay.
    let tcp = parts(&run("tcp:nagle=no", &on(NET, &[("objects", "3x4kB"), ("down-loss", "list:3")])));
    assert!(tcp[0].recovery > 100.0 && tcp[0].blocked == 0.0);
    assert!(tcp[1].blocked > 90.0 && tcp[2].blocked > 90.0 && tcp[1].recovery == 0.0);
    let sctp = parts(&run(
        "sctp:profile=modern,interleaving=no,scheduler=fcfs",
        &on(NET, &[("objects", "3x4kB"), ("down-loss", "list:4")]),
    ));
    assert!(sctp[0].recovery > 100.0);
    assert!(sctp[1..].iter().all(|object| object.blocked == 0.0 && object.recovery == 0.0));
}

#[test]
fn own_losses_are_recovery_with_and_timeout_without_followers() {
    for (contestant, early) in
        [("tcp:nagle=no", "list:3"), ("sctp:profile=modern,interleaving=no,scheduler=fcfs", "list:4")]
    {
        let object = &parts(&run(contestant, &on(NET, &[("objects", "1x12kB"), ("down-loss", early)])))[0];
        assert!((100.0..120.0).contains(&object.recovery), "{contestant}: a round trip: {}", object.recovery);
        assert_eq!(object.timeout, 0.0, "{contestant}");
    }
    // The only packet of a response is lost. No later packet can cause an acknowledgement that reports the loss, so the
    // loss is detected by a timeout.
    let object = &parts(&run("tcp:tlp=no", &on(NET, &[("objects", "1x1kB"), ("down-loss", "list:3")])))[0];
    assert!(object.timeout >= 200.0 && object.recovery == 0.0, "{}", object.timeout);
    let object =
        &parts(&run("sctp:profile=rfc9260", &on(NET, &[("objects", "1x1kB"), ("down-loss", "list:3/4")])))[0];
    assert!(object.timeout >= 1_000.0 && object.recovery == 0.0, "{}", object.timeout);
}

#[test]
fn repair_of_others_bytes_stalls() {
    for (contestant, lost) in [
        ("tcp:nagle=no,iw=4", "list:3"),
        ("sctp:profile=modern,interleaving=no,scheduler=fcfs,iw=4", "list:4"),
    ] {
        let objects = parts(&run(contestant, &on(NET, &[("objects", "4x8kB"), ("down-loss", lost)])));
        assert!(objects[0].recovery > 100.0, "{contestant}");
        assert!(
            objects[1..].iter().all(|object| object.stalled > 90.0 && object.recovery == 0.0),
            "{contestant}"
        );
    }
}

#[test]
fn a_small_receive_buffer_behind_a_hole_stalls_tcp_where_sctp_s_streams_go_on() {
    // The receive buffer of 12 KiB holds eight segments, and one segment is lost. TCP's receiver cannot deliver the
    // later segments, so they fill the buffer. The sender then waits two round trips until the receive window opens
    // again. SCTP's receiver delivers the messages of the other streams, and always has free buffer space.
    let objects = [("objects", "8x2kB"), ("down-loss", "list:3")];
    let tcp = parts(&run("tcp:nagle=no,rcvbuf=12KiB", &on(NET, &objects)));
    assert!(
        tcp[4..].iter().all(|object| object.rwnd > 200.0),
        "{:?}",
        tcp.iter().map(|o| o.rwnd).collect::<Vec<_>>()
    );
    assert!(tcp[1..4].iter().all(|object| object.blocked > 90.0));
    let objects = [("objects", "8x2kB"), ("down-loss", "list:4")];
    let loaded = run("sctp:profile=modern,interleaving=no,scheduler=fcfs,rcvbuf=12KiB", &on(NET, &objects));
    let sctp = parts(&loaded);
    assert!(sctp[0].recovery > 100.0);
    assert!(sctp.iter().all(|object| object.rwnd < 5.0 && object.blocked == 0.0));
    let first = loaded.objects[0].delivered_ns;
    assert!(
        loaded.objects[1..5].iter().all(|object| object.delivered_ns < first),
        "they overtake the retransmission"
    );
}

#[test]
fn objects_that_share_a_window_wait_their_turn() {
    for contestant in ["tcp:nagle=no", "sctp"] {
        let objects = parts(&run(contestant, &on(NET, &[("objects", "8x8kB")])));
        let last = objects.last().expect("six");
        assert!(last.turn > 90.0, "{contestant}: {}", last.turn);
        assert!(objects.iter().any(|object| object.cwnd > 50.0), "{contestant}");
        for object in &objects {
            assert!((object.send - object.cwnd - object.rwnd - object.turn).abs() < 1e-6);
            assert!(object.wire >= 100.0, "two ways at least");
        }
    }
}
