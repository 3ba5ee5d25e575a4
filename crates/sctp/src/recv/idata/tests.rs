//! Compares the reception of I-DATA with a model that keeps every message.

use super::super::{DataOutcome, RecvHalf};
use super::*;
use crate::config::Config;
use anabranch_base::Rng;
use anabranch_wire::sctp::{SkippedMessage, Tsn};

struct ModelMessage {
    stream: u16,
    unordered: bool,
    mid: u32,
    ppid: u32,
    /// The lengths of the message's fragments in bytes.
    parts: Vec<usize>,
    skipped: bool,
}

impl ModelMessage {
    fn payload(&self) -> Vec<u8> {
        (0..self.parts.iter().sum::<usize>()).map(|i| (self.ppid as usize * 31 + i) as u8).collect()
    }
}

/// Returns the chunks, as message index and fragment index, in an order that a sender could use. Messages of one stream
/// are sent one after the other; chunks of different streams are mixed at random.
fn interleave(rng: &mut Rng, messages: &[ModelMessage]) -> Vec<(usize, usize)> {
    let mut lines: Vec<Vec<(usize, usize)>> = vec![Vec::new(); 4];
    for (n, message) in messages.iter().enumerate() {
        lines[usize::from(message.stream)].extend((0..message.parts.len()).map(|part| (n, part)));
    }
    lines.iter_mut().for_each(|line| line.reverse());
    let mut chunks = Vec::new();
    while lines.iter().any(|line| !line.is_empty()) {
        chunks.extend(lines[rng.below(4) as usize].pop());
    }
    chunks
}

fn chunk<'a>(message: &ModelMessage, part: usize, tsn: u32, first_fsn: u32, payload: &'a [u8]) -> IData<'a> {
    let from: usize = message.parts[..part].iter().sum();
    IData {
        tsn: Tsn(tsn),
        stream: message.stream,
        unordered: message.unordered,
        mid: message.mid,
        begin: part == 0,
        end: part + 1 == message.parts.len(),
        fsn: if part == 0 { 0 } else { first_fsn.wrapping_add(part as u32) },
        ppid: if part == 0 { message.ppid } else { 0 },
        payload: &payload[from..from + message.parts[part]],
        ..IData::default()
    }
}

/// An application that reads with a small buffer.
#[derive(Default)]
struct Reader {
    /// For each stream, its messages: whether unordered, the PPID, and the bytes.
    got: [Vec<(bool, u32, Vec<u8>)>; 4],
    partial: [Vec<u8>; 4],
    cut_short: usize,
}

impl Reader {
    fn read(&mut self, half: &mut RecvHalf) {
        for stream in std::mem::take(half.newly_readable()) {
            let mut buffer = [0; 7];
            let at = usize::from(stream);
            while let Some(received) = half.read(stream, &mut buffer) {
                self.partial[at].extend_from_slice(&buffer[..received.bytes]);
                if received.incomplete {
                    self.cut_short += 1;
                    self.partial[at].clear();
                } else if received.end_of_message {
                    let whole = std::mem::take(&mut self.partial[at]);
                    self.got[at].push((received.unordered, received.ppid, whole));
                }
            }
        }
    }
}

fn messages(rng: &mut Rng, count: u32, skipping: bool) -> Vec<ModelMessage> {
    let mut mids = [[0_u32; 2]; 4];
    (0..count)
        .map(|n| {
            let (stream, unordered) = (rng.below(4) as u16, rng.below(3) == 0);
            let next = &mut mids[usize::from(stream)][usize::from(unordered)];
            let mid = *next;
            *next = next.wrapping_add(1);
            let parts = if rng.below(2) == 0 { 1 } else { 1 + rng.below(6) };
            let parts = (0..parts).map(|_| 1 + rng.below(20) as usize).collect();
            ModelMessage {
                stream,
                unordered,
                mid,
                ppid: n + 1,
                parts,
                skipped: skipping && rng.below(4) == 0,
            }
        })
        .collect()
}

/// Makes `mid` the identifier of the next message on every stream, as if the 32-bit identifiers had wrapped several
/// times.
fn age(half: &mut RecvHalf, mid: u32) {
    let interleaved = half.interleaved.get_or_insert_default();
    for stream in 0..4 {
        let slot = interleaved.slot(stream);
        let state = interleaved.streams.at(slot);
        state.ordered.next = (7 << 32) + u64::from(mid);
        state.unordered.next = (7 << 32) + u64::from(mid);
        half.order.expect_next(stream, mid as u16);
    }
}

/// RFC 8260 §2.2.3: every message is delivered once, whole and with its PPID. This holds for any streams and any order
/// of arrival, with repaired losses and with duplicates. Ordered messages stay in order when identifiers wrap.
#[test]
fn agrees_with_the_sender() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let mut sent = messages(&mut rng, 60, false);
        let shift = if seed % 3 == 0 { u32::MAX - 4 } else { 0 };
        sent.iter_mut().for_each(|message| message.mid = message.mid.wrapping_add(shift));
        let chunks = interleave(&mut rng, &sent);
        let initial = if seed % 5 == 0 { u32::MAX - 20 } else { 1_000 };
        let mut arrivals: Vec<usize> = (0..chunks.len()).collect();
        for i in 0..arrivals.len() {
            let j = (i + rng.below(15) as usize).min(arrivals.len() - 1);
            arrivals.swap(i, j);
        }
        let mut config = Config::default();
        config.partial_delivery = if seed % 2 == 0 { 1 << 20 } else { 8 };
        let mut half = RecvHalf::new(&config, initial, 4, 100);
        half.set_interleaving(true);
        if shift != 0 {
            age(&mut half, shift);
        }
        let mut reader = Reader::default();
        for at in arrivals {
            let (n, part) = chunks[at];
            let payload = sent[n].payload();
            for time in 0..1 + rng.below(2) {
                let tsn = initial.wrapping_add(at as u32);
                let taken = half.on_idata(&chunk(&sent[n], part, tsn, 0, &payload)).expect("a good peer");
                assert_eq!(matches!(taken, DataOutcome::New(_)), time == 0, "seed {seed}");
            }
            half.packet_done();
            reader.read(&mut half);
        }
        assert_eq!(half.buffered(), 0, "seed {seed}");
        assert_eq!(half.messages_completed(), 60);
        let interleaved = half.interleaved.as_ref().expect("interleaving is on");
        assert_eq!((interleaved.waiting_count, interleaved.incomplete.len()), (0, 0), "seed {seed}");
        for (stream, got) in reader.got.iter().enumerate() {
            for unordered in [false, true] {
                let mine =
                    sent.iter().filter(|m| usize::from(m.stream) == stream && m.unordered == unordered);
                let mut want: Vec<_> = mine.map(|m| (unordered, m.ppid, m.payload())).collect();
                let mut got: Vec<_> = got.iter().filter(|m| m.0 == unordered).cloned().collect();
                if unordered {
                    want.sort();
                    got.sort();
                }
                assert_eq!(got, want, "seed {seed}, stream {stream}");
            }
        }
    }
}

/// RFC 8260 §2.1: a message is reassembled correctly if the fragment numbers wrap in the middle of it.
#[test]
fn fragment_numbers_wrap() {
    let mut half = RecvHalf::new(&Config::default(), 1, 4, 100);
    half.set_interleaving(true);
    let data = |tsn: u32, fsn: u32, payload: &'static [u8]| IData {
        tsn: Tsn(tsn),
        begin: tsn == 1,
        end: payload == b"end",
        fsn,
        ppid: 5,
        payload,
        ..IData::default()
    };
    half.on_idata(&data(1, 0, b"first ")).expect("a good peer");
    let interleaved = half.interleaved.get_or_insert_default();
    let sequence = &mut interleaved.streams.at(0).ordered;
    sequence.messages.get_mut(&FIRST).expect("the message").next = u64::from(u32::MAX);
    for (tsn, fsn, payload) in
        [(4, 1, &b"end"[..]), (3, 0, b"new round "), (2, u32::MAX, b"last of a round ")]
    {
        half.on_idata(&data(tsn, fsn, payload)).expect("a good peer");
    }
    let mut buffer = [0; 100];
    let received = half.read(0, &mut buffer).expect("the message");
    assert_eq!(&buffer[..received.bytes], b"first last of a round new round end");
    assert!(received.end_of_message);
}

/// With little buffer space and many messages in progress, reception does not stall. Arrived data can be read in
/// parts, which makes room for the remaining chunks (RFC 9260 §6.9).
#[test]
fn many_large_messages_share_a_small_buffer() {
    for seed in 0..60 {
        let mut rng = Rng::new(seed);
        let mut config = Config::default();
        config.set("rcvbuf", "4000B").expect("a size");
        let mut half = RecvHalf::new(&config, 0, 4, 100);
        half.set_interleaving(true);
        let mut sent = messages(&mut rng, 12, false);
        for message in &mut sent {
            message.parts = (0..1 + rng.below(40)).map(|_| 100 + rng.below(100) as usize).collect();
        }
        let chunks = interleave(&mut rng, &sent);
        let mut reader = Reader::default();
        let mut missing: Vec<usize> = (0..chunks.len()).collect();
        let mut rounds = 0;
        while !missing.is_empty() {
            rounds += 1;
            assert!(rounds < 2_000, "seed {seed}: {} chunks never get in", missing.len());
            // In each round, the lowest 41 missing chunks are sent in order, and one of the first 20 is lost. Then the
            // slow reader reads.
            let lost = rng.below(20) as usize;
            missing = std::mem::take(&mut missing)
                .into_iter()
                .enumerate()
                .filter(|&(i, at)| {
                    let (n, part) = chunks[at];
                    let payload = sent[n].payload();
                    i > 40
                        || i == lost
                        || half.on_idata(&chunk(&sent[n], part, at as u32, 0, &payload)).expect("a good peer")
                            == DataOutcome::Refused
                })
                .map(|(_, at)| at)
                .collect();
            reader.read(&mut half);
        }
        let got: usize = reader.got.iter().flatten().map(|m| m.2.len()).sum();
        assert_eq!(got, sent.iter().flat_map(|m| &m.parts).sum::<usize>(), "seed {seed}");
    }
}

/// RFC 8260 §2.2.2 allows only one message of a stream in progress at a time. Reception must not stall even if the peer
/// breaks this rule. While one message is delivered in parts, no part of another message of the stream can be
/// delivered. When the first message is complete, the delivery of the other message must be tried again.
#[test]
fn messages_of_one_stream_under_way_at_once_share_a_small_buffer() {
    for (unordered, messages, first) in [(true, 2, 8), (true, 5, 4), (false, 2, 8), (false, 5, 4)] {
        let mut config = Config::default();
        config.set("rcvbuf", "4000B").expect("a size");
        config.partial_delivery = 1 << 20;
        let mut half = RecvHalf::new(&config, 0, 4, 100);
        half.set_interleaving(true);
        let message = |mid| ModelMessage {
            stream: 2,
            unordered,
            mid,
            ppid: mid + 1,
            parts: vec![200; 30],
            skipped: false,
        };
        let sent: Vec<ModelMessage> = (0..messages).map(message).collect();
        let mut reader = Reader::default();
        let mut missing: Vec<usize> = (0..30 * sent.len()).collect();
        let mut rounds = 0;
        while !missing.is_empty() {
            rounds += 1;
            assert!(rounds < 2_000, "{messages}, unordered {unordered}: {} never get in", missing.len());
            missing.retain(|&at| {
                // At first, parts arrive interleaved: one part of each message in turn, until `first` parts of each
                // message have arrived. Then the remaining parts arrive, message by message.
                let (n, part) = match at.checked_sub(first * sent.len()) {
                    None => (at % sent.len(), at / sent.len()),
                    Some(rest) => (rest / (30 - first), first + rest % (30 - first)),
                };
                let payload = sent[n].payload();
                half.on_idata(&chunk(&sent[n], part, at as u32, 0, &payload)).expect("it is borne with")
                    == DataOutcome::Refused
            });
            reader.read(&mut half);
        }
        let mut got: Vec<_> = reader.got[2].iter().map(|m| (m.1, m.2.clone())).collect();
        got.sort();
        let want: Vec<_> = sent.iter().map(|m| (m.ppid, m.payload())).collect();
        assert!(got == want, "{messages}, unordered {unordered}");
        assert_eq!(half.buffered(), 0);
        let interleaved = half.interleaved.as_ref().expect("interleaving is on");
        assert_eq!((interleaved.incomplete.len(), interleaved.blocked.len()), (0, 0));
    }
}

#[test]
fn nonsense_is_a_violation_and_never_a_panic() {
    let mut violations = 0;
    for seed in 0..2_000 {
        let mut rng = Rng::new(seed);
        let mut config = Config::default();
        config.set("rcvbuf", "3000B").expect("a size");
        config.set("partial_delivery", "20B").expect("a size");
        let mut half = RecvHalf::new(&config, 10, 3, 100);
        half.set_interleaving(true);
        let near = if seed % 2 == 0 { 0 } else { u32::MAX - 2 };
        for _ in 0..200 {
            let payload = vec![7; 1 + rng.below(100) as usize];
            let bits = rng.below(16);
            let data = IData {
                tsn: half.cumulative().plus(rng.below(40) as u32),
                stream: rng.below(4) as u16,
                mid: near.wrapping_add(rng.below(4) as u32),
                fsn: near.wrapping_add(rng.below(5) as u32),
                unordered: bits & 1 != 0,
                begin: bits & 2 != 0,
                end: bits & 4 != 0,
                payload: &payload,
                ..IData::default()
            };
            if half.on_idata(&data).is_err() {
                violations += 1;
                break;
            }
            if rng.below(10) == 0 {
                let interleaved = half.interleaved.get_or_insert_default();
                let mid = near.wrapping_add(rng.below(6) as u32);
                let stream = rng.below(3) as u16;
                if interleaved.skip_to(stream, rng.below(2) == 0, mid, &mut half.order).is_err() {
                    violations += 1;
                    break;
                }
                half.credit_dropped();
            }
            if rng.below(40) == 0 {
                half.reset(&[rng.below(3) as u16]);
                half.credit_dropped();
            } else if rng.below(100) == 0 {
                half.renumber(rng.next_u32());
            }
            half.packet_done();
            let mut buffer = [0; 50];
            half.read(rng.below(3) as u16, &mut buffer);
            let mut sack = Vec::new();
            half.emit_sack(&mut sack, 40);
        }
    }
    assert!(violations > 500, "only {violations} of 2000 peers were caught");
}

/// Each case breaks one rule of RFC 8260 §2.1 for message and fragment numbers. The last chunk of the case must be
/// reported as a violation.
#[test]
fn what_breaks_the_rules() {
    let part = |mid, fsn, begin, end| IData { mid, fsn, begin, end, payload: b"x", ..IData::default() };
    let cases: &[(&str, &[IData<'_>])] = &[
        ("a fragment twice", &[part(0, 0, true, false), part(0, 1, false, false), part(0, 1, false, false)]),
        ("a held fragment twice", &[part(0, 5, false, false), part(0, 5, false, false)]),
        ("beyond the last", &[part(0, 2, false, true), part(0, 3, false, false)]),
        ("the last is not the last", &[part(0, 4, false, false), part(0, 2, false, true)]),
        ("two ends", &[part(0, 2, false, true), part(0, 4, false, true)]),
        ("0 without B", &[part(0, 0, false, false)]),
        ("a message twice", &[part(0, 0, true, true), part(0, 0, true, true)]),
        ("a waiting message twice", &[part(1, 0, true, true), part(1, 0, true, true)]),
        ("whole and in parts", &[part(0, 0, true, false), part(0, 0, true, true)]),
    ];
    for (what, chunks) in cases {
        let mut half = RecvHalf::new(&Config::default(), 1, 4, 100);
        half.set_interleaving(true);
        let (last, first) = chunks.split_last().expect("chunks");
        let numbered = |(n, data): (usize, &IData<'static>)| IData { tsn: Tsn(1 + n as u32), ..*data };
        for data in first.iter().enumerate().map(numbered) {
            half.on_idata(&data).expect("good so far");
        }
        let data = IData { tsn: Tsn(1 + first.len() as u32), ..*last };
        assert!(half.on_idata(&data).is_err(), "{what}");
    }
}

/// RFC 8260 §2.3.2: the numbers of ordered and of unordered messages of a stream both start at 0 again.
#[test]
fn both_counts_are_reset() {
    let mut half = RecvHalf::new(&Config::default(), 1, 4, 100);
    half.set_interleaving(true);
    let mut tsn = 0;
    let mut take = |half: &mut RecvHalf, unordered, mid| {
        tsn += 1;
        let data = IData {
            tsn: Tsn(tsn),
            unordered,
            mid,
            begin: true,
            end: true,
            payload: b"x",
            ..IData::default()
        };
        half.on_idata(&data).is_ok()
    };
    for unordered in [false, true] {
        assert!(take(&mut half, unordered, 0) && take(&mut half, unordered, 1));
    }
    assert!(!half.is_inside(&[]));
    half.reset(&[0]);
    for unordered in [false, true] {
        assert!(take(&mut half, unordered, 0) && take(&mut half, unordered, 1));
    }
    assert_eq!(half.messages_completed(), 8);
    assert!(!take(&mut half, false, 1), "without a reset a number is not used again");
}

/// RFC 8260 §2.3.1: skipped messages are no longer expected. Complete messages are delivered, and late fragments are
/// dropped. No bytes of skipped messages stay charged to the window.
#[test]
fn skipping() {
    for seed in 0..300 {
        let mut rng = Rng::new(seed);
        let sent = messages(&mut rng, 50, true);
        let chunks = interleave(&mut rng, &sent);
        let mut config = Config::default();
        config.partial_delivery = if seed % 2 == 0 { 1 << 20 } else { 8 };
        let mut half = RecvHalf::new(&config, 0, 4, 100);
        half.set_interleaving(true);
        let mut reader = Reader::default();
        let mut arrivals: Vec<usize> = (0..chunks.len()).collect();
        for i in 0..arrivals.len() {
            let j = (i + rng.below(12) as usize).min(arrivals.len() - 1);
            arrivals.swap(i, j);
        }
        let mut skips: Vec<usize> = (0..sent.len()).filter(|&n| sent[n].skipped).collect();
        for at in arrivals {
            let (n, part) = chunks[at];
            let payload = sent[n].payload();
            // Some chunks of skipped messages never arrive, so their TSNs stay missing.
            if !sent[n].skipped || rng.below(2) == 0 {
                half.on_idata(&chunk(&sent[n], part, at as u32, 0, &payload)).expect("a good peer");
            }
            reader.read(&mut half);
        }
        // The skipped messages are abandoned at the end, after the chunks of all other messages have arrived.
        skips.drain(..).for_each(|n| {
            let interleaved = half.interleaved.get_or_insert_default();
            let message = &sent[n];
            interleaved
                .skip_to(message.stream, message.unordered, message.mid, &mut half.order)
                .expect("a good peer");
            half.credit_dropped();
            reader.read(&mut half);
        });
        assert_eq!(half.buffered(), 0, "seed {seed}");
        let interleaved = half.interleaved.as_ref().expect("interleaving is on");
        assert_eq!((interleaved.waiting_count, interleaved.incomplete.len()), (0, 0), "seed {seed}");
        for message in sent.iter().filter(|message| !message.skipped) {
            let want = (message.unordered, message.ppid, message.payload());
            let times = reader.got[usize::from(message.stream)].iter().filter(|&got| *got == want).count();
            assert_eq!(times, 1, "seed {seed}: {}", message.ppid);
        }
        for got in &reader.got {
            assert!(got.iter().filter(|m| !m.0).map(|m| m.1).is_sorted(), "seed {seed}");
        }
    }
}

#[test]
fn what_is_given_up_may_be_the_first_that_is_heard_of_a_stream() {
    let mut half = RecvHalf::new(&Config::default(), 10, 3, 100);
    half.set_interleaving(true);
    let skipped = SkippedMessage { stream: 1, unordered: false, mid: 4 };
    half.on_iforward(Tsn(14), std::iter::once(skipped)).expect("a good peer");
    let data = IData {
        tsn: Tsn(15),
        stream: 1,
        mid: 5,
        begin: true,
        end: true,
        ppid: 7,
        payload: b"next",
        ..IData::default()
    };
    assert_eq!(half.on_idata(&data), Ok(DataOutcome::New(5)));
    let mut reader = Reader::default();
    reader.read(&mut half);
    assert_eq!(reader.got[1], [(false, 7, b"next".to_vec())]);
}
