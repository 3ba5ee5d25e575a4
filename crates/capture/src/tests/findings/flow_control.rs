//! The number of streams in QUIC, and limits as a capture near the receiver shows them.

use super::*;
use crate::data_class::DataClass;
use crate::timeline;

const A: usize = 0;
const B: usize = 1;

/// Returns 100 bytes at the beginning of a stream, or behind `offset`.
fn data(stream: u64, offset: u64, ends: bool) -> Event {
    Event::Data(timeline::Data {
        units: (0, 1),
        stream,
        offset,
        bytes: 100,
        wire_len: 150,
        flight: 1,
        class: DataClass::New,
        begins: false,
        ends,
    })
}

fn allows(limit: u64) -> Event {
    Event::StreamsLimit { unidirectional: false, limit }
}

fn blocked(limit: u64) -> Event {
    Event::StreamsBlocked { unidirectional: false, limit }
}

/// B allows two streams more each time, and A opens them as soon as it may.
fn turns(count: u64, delay: u64) -> Vec<(u64, usize, Event)> {
    let mut events = vec![(0, B, allows(2))];
    for turn in 0..count {
        let at = turn * 300;
        events
            .extend([(at + delay, A, data(turn * 8, 0, true)), (at + delay, A, data(turn * 8 + 4, 0, true))]);
        events.push((at + 300, B, allows(turn * 2 + 4)));
    }
    events
}

#[test]
fn a_number_of_streams_that_limits_the_sender_is_found() {
    let said = vec![
        (0, B, allows(1)),
        (0, A, data(0, 0, true)),
        (0, A, blocked(1)),
        (700, B, allows(2)),
        (900, A, data(4, 0, true)),
    ];
    let never = vec![(0, B, allows(1)), (0, A, data(0, 0, true)), (10, A, blocked(1))];
    let faults = [turns(5, 1), said, never];
    let found: Vec<Finding> = faults.iter().flat_map(|events| judged("quic", events, 2_000)).collect();
    let rules: Vec<&str> = found.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["streams_limited"; 3], "{found:#?}");
    assert!(found[0].text.contains("for 1.196 s of 1.200 s"), "{}", found[0].text);
    assert!(found[0].text.contains("waited 4 times, longest 0.299 s"), "{}", found[0].text);
    assert!(found[1].text.contains("for 0.700 s of 0.900 s"), "{}", found[1].text);
    let near_misses = [
        // A has no more requests when the limit rises.
        vec![(0, B, allows(1)), (0, A, data(0, 0, true)), (500, B, allows(2)), (900, A, data(4, 0, true))],
        // The limit rises before it is reached.
        vec![
            (0, B, allows(2)),
            (0, A, data(0, 0, true)),
            (500, B, allows(3)),
            (501, A, data(4, 0, true)),
            (900, A, data(8, 0, true)),
        ],
        // B opens the streams. The limit that B sets is not for them.
        vec![(0, B, allows(1)), (0, B, data(1, 0, true)), (500, B, allows(2)), (501, B, data(5, 0, true))],
    ];
    for events in near_misses {
        assert_eq!(judged("quic", &events, 2_000), []);
    }
}

/// Near the receiver, the next data arrives a round trip after the new limit. The sender waited for that time, too.
#[test]
fn near_the_receiver_the_round_trip_after_a_new_limit_counts() {
    let limit = |limit| Event::Limit(Some(0), limit);
    let events = |answer: u64| -> Vec<(u64, usize, Event)> {
        let turn =
            |n: u64| [(n * 50, A, data(0, n * 100, false)), (n * 50 + 50 - answer, B, limit(n * 100 + 200))];
        [(0, B, limit(100))].into_iter().chain((0..8).flat_map(turn)).collect()
    };
    let found = judged("quic", &events(49), 400);
    let [only] = &found[..] else { panic!("{found:#?}") };
    assert_eq!((only.rule, only.cost_ns), ("flow_control_limited", 351_000_000));
    // A takes longer to answer than a round trip, so that it had no more data.
    let late =
        [(0, B, limit(100)), (0, A, data(0, 0, false)), (1, B, limit(9_000)), (900, A, data(0, 100, true))];
    assert_eq!(judged("quic", &late, 1_000), []);
}
