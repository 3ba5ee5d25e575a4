//! Compares the receiving half with a simple model: fragments in any order give whole messages, each once. Within a
//! stream the messages are in order.

use super::pool::Pool;
use super::*;
use anabranch_base::{Budget, Rng};
use anabranch_wire::sctp::Ssn;

struct ModelMessage {
    tsn: u32,
    stream: u16,
    ssn: u16,
    unordered: bool,
    begin: bool,
    end: bool,
    payload: Vec<u8>,
}

/// RFC 9260 §6.6, §6.9: messages are delivered correctly whatever the order in which fragments arrive.
#[test]
fn messages_survive_any_order_of_arrival() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let mut tsn = u32::MAX - 30;
        let initial = tsn;
        let mut chunks = Vec::new();
        let mut messages: Vec<(u16, bool, Vec<u8>)> = Vec::new();
        let mut ssns = [0_u16; 4];
        for n in 0..60_u32 {
            let stream = rng.below(4) as u16;
            let unordered = rng.below(3) == 0;
            let parts = if rng.below(2) == 0 { 1 } else { 1 + rng.below(6) };
            let mut whole = Vec::new();
            for part in 0..parts {
                let mut payload = vec![0; 1 + rng.below(20) as usize];
                rng.fill(&mut payload);
                payload[0] = n as u8;
                whole.extend_from_slice(&payload);
                let (begin, end) = (part == 0, part + 1 == parts);
                chunks.push(ModelMessage {
                    tsn,
                    stream,
                    ssn: ssns[usize::from(stream)],
                    unordered,
                    begin,
                    end,
                    payload,
                });
                tsn = tsn.wrapping_add(1);
            }
            if !unordered {
                ssns[usize::from(stream)] += 1;
            }
            messages.push((stream, unordered, whole));
        }
        // Chunks arrive slightly out of order, and some of them twice.
        let mut order: Vec<usize> = (0..chunks.len()).collect();
        for i in 0..order.len() {
            let j = (i + rng.below(12) as usize).min(order.len() - 1);
            order.swap(i, j);
        }
        let mut config = Config::default();
        config.partial_delivery = if seed % 2 == 0 { 1 << 20 } else { 8 };
        let mut half = RecvHalf::new(&config, initial, 4, 100);
        let mut got: Vec<Vec<(bool, Vec<u8>)>> = vec![Vec::new(); 4];
        let mut partial: Vec<Vec<u8>> = vec![Vec::new(); 4];
        for &i in &order {
            for _ in 0..1 + rng.below(2) {
                let chunk = &chunks[i];
                let data = Data {
                    tsn: Tsn(chunk.tsn),
                    stream: chunk.stream,
                    ssn: Ssn(chunk.ssn),
                    unordered: chunk.unordered,
                    begin: chunk.begin,
                    end: chunk.end,
                    payload: &chunk.payload,
                    ..Data::default()
                };
                half.on_data(&data).expect("a good peer");
            }
            half.packet_done();
            for stream in std::mem::take(half.newly_readable()) {
                let mut buffer = [0; 7];
                while let Some(received) = half.read(stream, &mut buffer) {
                    let so_far = &mut partial[usize::from(stream)];
                    so_far.extend_from_slice(&buffer[..received.bytes]);
                    if received.end_of_message {
                        got[usize::from(stream)].push((received.unordered, std::mem::take(so_far)));
                    }
                }
            }
        }
        assert_eq!(half.buffered(), 0, "seed {seed}");
        assert_eq!(half.messages_completed(), messages.len() as u64);
        for stream in 0..4 {
            let pick = |unordered: bool| {
                messages.iter().filter(move |m| m.0 == stream && m.1 == unordered).map(|m| m.2.clone())
            };
            let ordered: Vec<_> =
                got[usize::from(stream)].iter().filter(|m| !m.0).map(|m| m.1.clone()).collect();
            assert_eq!(ordered, pick(false).collect::<Vec<_>>(), "seed {seed}");
            let mut unordered: Vec<_> =
                got[usize::from(stream)].iter().filter(|m| m.0).map(|m| m.1.clone()).collect();
            let mut want: Vec<_> = pick(true).collect();
            unordered.sort();
            want.sort();
            assert_eq!(unordered, want, "seed {seed}");
        }
    }
}

/// Returns a DATA chunk with 20 bytes of user data. `begin` and `end` set its B and E bits.
fn part(tsn: u32, (stream, ssn): (u16, u16), begin: bool, end: bool) -> Data<'static> {
    Data { tsn: Tsn(tsn), stream, ssn: Ssn(ssn), begin, end, payload: &[7; 20], ..Data::default() }
}

/// RFC 9260 §5.2.4 A: the peer restarts when the application has read the first part of a message. After the restart
/// the message must end as incomplete.
#[test]
fn a_message_read_in_part_ends_with_the_peer() {
    let mut config = Config::default();
    config.partial_delivery = 8;
    let mut before = RecvHalf::new(&config, 10, 4, 100);
    before.on_data(&part(10, (1, 0), true, false)).expect("the first part");
    before.packet_done();
    let mut buffer = [0; 100];
    assert!(before.read(1, &mut buffer).is_some_and(|read| read.bytes == 20 && !read.end_of_message));
    let mut half = RecvHalf::new(&config, 70, 4, 100);
    half.inherit(before);
    let end = half.read(1, &mut buffer).expect("its end");
    assert_eq!((end.bytes, end.end_of_message, end.incomplete), (0, true, true));
    half.on_data(&part(70, (1, 0), true, true)).expect("number 0 again");
    half.packet_done();
    assert!(half.read(1, &mut buffer).is_some_and(|read| read.bytes == 20 && read.end_of_message));
    assert_eq!(half.read(1, &mut buffer), None);
}

/// RFC 6458 §5: messages of all streams are read in the order in which they became readable. A message that is dropped
/// before any part of it was read does not affect the order of later messages.
#[test]
fn messages_are_read_in_the_order_in_which_they_became_readable() {
    let mut config = Config::default();
    (config.partial_delivery, config.track_arrivals) = (8, true);
    let mut half = RecvHalf::new(&config, 10, 4, 100);
    half.on_data(&part(10, (1, 0), true, false)).expect("the first part");
    half.packet_done();
    let skipped = [anabranch_wire::sctp::Skipped { stream: 1, ssn: Ssn(0) }];
    half.on_forward(Tsn(11), skipped.into_iter()).expect("a good peer");
    for (tsn, at) in [(12, (2, 0)), (13, (1, 1))] {
        half.on_data(&part(tsn, at, true, true)).expect("a good peer");
        half.packet_done();
    }
    let mut buffer = [0; 100];
    let mut order = Vec::new();
    while let Some((stream, read)) = half.read_next(&mut buffer) {
        order.push((stream, read.bytes));
    }
    assert_eq!(order, [(2, 20), (1, 20)]);
}

#[test]
fn nonsense_is_a_violation_and_never_a_panic() {
    for seed in 0..2000 {
        let mut rng = Rng::new(seed);
        let mut config = Config::default();
        config.set("rcvbuf", "3000B").expect("a size");
        let mut half = RecvHalf::new(&config, 10, 3, 100);
        for _ in 0..200 {
            let payload = vec![7; 1 + rng.below(100) as usize];
            let bits = rng.below(16);
            let data = Data {
                tsn: Tsn(10 + rng.below(60) as u32),
                stream: rng.below(4) as u16,
                ssn: Ssn(rng.below(4) as u16),
                unordered: bits & 1 != 0,
                begin: bits & 2 != 0,
                end: bits & 4 != 0,
                immediate: bits & 8 != 0,
                payload: &payload,
                ..Data::default()
            };
            if half.on_data(&data).is_err() {
                break;
            }
            half.packet_done();
            let mut buffer = [0; 50];
            half.read(rng.below(3) as u16, &mut buffer);
            let mut sack = Vec::new();
            half.emit_sack(&mut sack, 40);
        }
    }
}

/// The number of messages of one byte is limited because of their bookkeeping, although their bytes would fit.
#[test]
fn tiny_messages_that_wait_are_bounded() {
    let mut config = Config::default();
    config.set("rcvbuf", "64KiB").expect("a size");
    let taken = |first_ssn: u16| {
        let mut half = RecvHalf::new(&config, 1, 1, 100);
        let mut send = |n: u32| {
            let ssn = Ssn(first_ssn.wrapping_add(n as u16));
            let data =
                Data { tsn: Tsn(1 + n), ssn, begin: true, end: true, payload: b"x", ..Data::default() };
            half.on_data(&data).expect("numbered well")
        };
        let count = (0..40_000).take_while(|&n| matches!(send(n), DataOutcome::New(_))).count();
        (half, count)
    };
    // In the first case, the messages wait for an earlier message of their stream; in the second case, for the
    // application. In both cases their memory is limited to the receive buffer (64 KiB) plus 512 KiB.
    for (first_ssn, readable, each) in [(1, false, 256 + 1), (0, true, 32 + 1)] {
        let (mut half, count) = taken(first_ssn);
        let most = (64 + 512) << 10;
        assert!((most - 2 * each..most + each).contains(&(count * each)), "{count}");
        let mut read = || half.read(0, &mut [0; 8]).is_some();
        assert_eq!(read(), readable);
        if readable {
            assert!((1..count).all(|_| read()), "and then there is room again");
            let (tsn, ssn) = (Tsn(1 + count as u32), Ssn(count as u16));
            let data = Data { tsn, ssn, begin: true, end: true, payload: b"x", ..Data::default() };
            assert!(matches!(half.on_data(&data), Ok(DataOutcome::New(_))));
        }
    }
}

/// A receiver of messages of 1,000 bytes, one chunk each. The test does not read the messages.
struct UnreadReceiver(RecvHalf);

impl UnreadReceiver {
    fn take(&mut self, tsn: u32) -> DataOutcome {
        let payload = [7; 1_000];
        let whole = Data {
            tsn: Tsn(tsn),
            unordered: true,
            begin: true,
            end: true,
            payload: &payload,
            ..Data::default()
        };
        let taken = self.0.on_data(&whole).expect("a good peer");
        self.0.packet_done();
        taken
    }
}

/// RFC 9260 §6.2: while the window is closed, chunks beyond the highest TSN are refused. Chunks that fill a gap are
/// accepted up to a bound: 65,536 bytes more than was ever advertised.
#[test]
fn a_hole_of_a_closed_window_is_filled_up_to_a_bound() {
    let mut config = Config::default();
    config.rcvbuf = 4_000;
    let mut half = UnreadReceiver(RecvHalf::new(&config, 1, 1, 1_000));
    for tsn in [1, 101, 102, 103] {
        assert!(matches!(half.take(tsn), DataOutcome::New(_)), "{tsn}");
    }
    assert_eq!(half.take(104), DataOutcome::Refused);
    // The buffer already holds 4,000 bytes. Chunks that fill the gap are accepted while the buffer holds fewer than
    // 69,536 bytes.
    for tsn in (3..=68).rev() {
        assert!(matches!(half.take(tsn), DataOutcome::New(_)), "{tsn}");
    }
    assert_eq!(half.take(2), DataOutcome::Refused);
    assert_eq!(half.take(104), DataOutcome::Refused);
}

/// If other associations have taken all shared memory, only the lowest missing chunk is accepted. Even this chunk is
/// refused if the buffer holds more data than when the window was lowered.
#[test]
fn a_lowered_window_accepts_only_the_lowest_gap() {
    let budget = Budget::new(16 << 20, 1_000);
    let mut config = Config::default();
    config.memory = Some(budget.clone());
    let mut half = UnreadReceiver(RecvHalf::new(&config, 1, 1, 1_000));
    for tsn in [1, 3, 5] {
        assert!(matches!(half.take(tsn), DataOutcome::New(_)), "{tsn}");
    }
    let mut others = Account::new(&budget, 1);
    others.set_usage(16 << 20);
    half.0.size_window();
    assert_eq!(half.take(6), DataOutcome::Refused, "beyond the highest");
    assert_eq!(half.take(4), DataOutcome::Refused, "a hole, and not the lowest");
    assert!(matches!(half.take(2), DataOutcome::New(_)), "the lowest");
    assert_eq!(half.take(4), DataOutcome::Refused, "the lowest, and too much is held");
}

/// If other associations have taken all shared memory, one chunk at a time is still accepted, so every association
/// makes progress.
#[test]
fn one_chunk_is_taken_alone() {
    // Half of the budget, divided by 1,000 associations, guarantees 8 bytes to each association. A quarter of these 8
    // bytes, 2 bytes, belongs to the receive buffer. The window is a third of 2 bytes, rounded down to 0.
    let budget = Budget::new(16_000, 1_000);
    let mut config = Config::default();
    config.memory = Some(budget.clone());
    let mut half = UnreadReceiver(RecvHalf::new(&config, 1, 1, 1_000));
    let mut others = Account::new(&budget, 1);
    others.set_usage(16_000);
    half.0.size_window();
    for tsn in 1..10 {
        assert!(matches!(half.take(tsn), DataOutcome::New(_)), "{tsn}");
        assert_eq!(half.take(tsn + 1), DataOutcome::Refused, "{tsn}");
        assert!(half.0.read(0, &mut [0; 1_000]).is_some(), "{tsn}");
    }
}

/// RFC 9260 §3.3.2: the available shared memory limits the first a_rwnd, which is at least 1500 bytes.
#[test]
fn the_first_window_is_what_may_be_had() {
    let budget = Budget::new(16 << 20, 1_000);
    let mut config = Config::default();
    config.rcvbuf = 4 << 20;
    assert_eq!(first_window(&config), 4 << 20);
    config.memory = Some(budget.clone());
    // Half of the budget is guaranteed: each of 1,000 associations gets 8,388 bytes. The receive buffer may use at most
    // a quarter of these 8,388 bytes, plus an eighth of the other half of the budget. The window is a third of this
    // sum.
    assert_eq!(first_window(&config), 350_249);
    let mut others = Account::new(&budget, 1);
    others.set_usage(16 << 20);
    assert_eq!(first_window(&config), 1_500);
}

/// The total size of the buffers kept for reuse is limited. If associations share a memory budget, no buffer is kept.
#[test]
fn a_pool_keeps_so_many_bytes() {
    for (shared, kept) in [(false, 4), (true, 0)] {
        let mut pool = Pool::new(shared);
        for _ in 0..100 {
            pool.put(Vec::with_capacity(64 << 10));
        }
        assert_eq!((0..100).filter(|_| pool.take().capacity() > 0).count(), kept, "shared {shared}");
    }
}
