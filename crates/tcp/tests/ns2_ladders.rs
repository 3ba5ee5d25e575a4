//! Compares the profile `ns2` with ns-2.35: which data packets are sent, and when, while certain packets are dropped.
//! `benches/physics/ns2/ladders.csv` has the packets that ns-2 sent.

use crate::common::*;
use anabranch_tcp::Config;
use anabranch_tcp::testing::{Fate, Pair};
use anabranch_wire::tcp::Segment;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// A CSV file. For each ns-2 agent and list of dropped packets, it has the first 60 data packets that ns-2 sent. It
/// also has the number of leading packets that our sender sends in the same way.
const LADDERS: &str = include_str!("../../../benches/physics/ns2/ladders.csv");

/// Data packets in the order in which they were sent. Each has the milliseconds since the first packet, and the number
/// of its segment, counted from 1.
type SentSegments = Vec<(u64, u32)>;

/// Returns the data packets that our sender sends while the data packets with the numbers `dropped` are lost.
fn sent(agent: &str, dropped: &[u64]) -> SentSegments {
    let recovery = match agent {
        "Reno" => "reno",
        "Newreno" => "newreno",
        _ => "sack",
    };
    let sack = if recovery == "sack" { "yes" } else { "no" };
    let mut config = Config::profile("ns2").expect("a profile");
    change(&mut config, &[("rcvbuf", "40000B"), ("tick", "1ms"), ("rto_min", "1s"), ("ssthresh", "window")]);
    change(&mut config, &[("recovery", recovery), ("sack", sack)]);
    let mut pair = Pair::new(&config).silent();
    // The round trip is shorter than the acknowledgement delay of 100 ms, so that no timer expires at the instant when
    // a segment arrives.
    pair.delay = Duration::from_millis(45);
    pair.open();
    let start = pair.now;
    let log = Rc::new(RefCell::new(SentSegments::new()));
    let written = Rc::clone(&log);
    let dropped = dropped.to_vec();
    let mut first = None;
    let mut count = 0;
    pair.judge(move |now, side, _, bytes| {
        let Ok(segment) = Segment::parse(bytes) else { return Fate::Arrive };
        if side != Left || segment.payload.is_empty() {
            return Fate::Arrive;
        }
        count += 1;
        let offset = segment.header.seq.0.wrapping_sub(*first.get_or_insert(segment.header.seq.0));
        let millis = u64::try_from((now - start).as_millis()).expect("a test of seconds");
        log.borrow_mut().push((millis, offset / 1000 + 1));
        if dropped.contains(&count) { Fate::Lose } else { Fate::Arrive }
    });
    pair.write(Left, &pattern(100_000));
    pair.run_for(Duration::from_secs(10));
    written.take()
}

/// Parses the packets in a row of `ladders.csv`: `90:3/4` stands for segments 3 and 4 after 90 ms.
fn parse(text: &str) -> SentSegments {
    let mut packets = SentSegments::new();
    for group in text.split(' ') {
        let (at, segments) = group.split_once(':').expect("a time");
        let at = at.parse().expect("milliseconds");
        packets.extend(segments.split('/').map(|segment| (at, segment.parse().expect("a segment"))));
    }
    packets
}

/// Returns the first retransmission: the first packet whose segment number is not above those of all earlier packets.
fn first_repair(packets: &SentSegments) -> Option<(u64, u32)> {
    let mut highest = 0;
    packets.iter().copied().find(|(_, segment)| {
        let is_repair = *segment <= highest;
        highest = highest.max(*segment);
        is_repair
    })
}

/// Without loss and in most recoveries, our packets are those of ns-2. There are two known differences. A window that
/// grows by less than a segment for each acknowledgement is rounded down by our sender. With SACK, a loss may be
/// detected one acknowledgement earlier than in ns-2, as RFC 6675 specifies.
#[test]
fn ladders_are_those_of_ns2() {
    let mut wrong = String::new();
    let (mut ladders, mut whole, mut repairs) = (0, 0, 0);
    for line in LADDERS.lines().skip(1) {
        let mut columns = line.split(',');
        let [agent, dropped, same, expected] = [(); 4].map(|()| columns.next().expect("four columns"));
        let numbers: Vec<u64> = dropped.split('/').filter_map(|number| number.parse().ok()).collect();
        let (here, expected) = (sent(agent, &numbers), parse(expected));
        let equal = here.iter().zip(&expected).take_while(|(here, there)| here == there).count();
        if equal.to_string() != same {
            wrong += &format!("{agent} without {dropped}: {equal} packets, not {same}\n{here:?}\n");
        }
        ladders += 1;
        whole += usize::from(equal == expected.len());
        repairs += usize::from(first_repair(&here) == first_repair(&expected));
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert_eq!((ladders, whole, repairs), (42, 13, 39));
}
