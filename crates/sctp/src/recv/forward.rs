//! Receives FORWARD TSN chunks, with which the peer skips abandoned chunks.
//!
//! A new cumulative TSN is accepted however far ahead it is. If a FORWARD TSN were refused, a sender that has abandoned
//! more chunks than a receiver tracks would wait forever. The work is proportional to the data dropped or delivered and
//! to the streams listed in the chunk, not to the number of skipped TSNs.
//!
//! Implements RFC 3758 §3.6 and RFC 8260 §2.3.1 (the receiver's half).

use super::RecvHalf;
use super::Violation;
use super::idata::Interleaved;
use super::reassembly::Reassembly;
use anabranch_wire::sctp::{Skipped, SkippedMessage, Tsn};

/// The result of receiving a FORWARD TSN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Forwarded {
    /// The cumulative TSN has advanced.
    New,
    /// The receiver's cumulative TSN was not below the New Cumulative TSN of the chunk, so the chunk has no effect.
    Old,
}

impl RecvHalf {
    /// Receives a FORWARD TSN.
    pub(crate) fn on_forward(
        &mut self,
        cumulative: Tsn,
        streams: impl ExactSizeIterator<Item = Skipped>,
    ) -> Result<Forwarded, Violation> {
        let (forwarded, end) = self.skip_tsns(cumulative);
        if forwarded == Forwarded::New {
            let shared = self.account.is_some();
            let reassembly = Reassembly::get_or_create(&mut self.reassembly, shared);
            reassembly.skip_to(end, self.tracker.next(), &mut self.order)?;
            for Skipped { stream, ssn } in streams {
                if stream < self.streams {
                    self.order.skip(stream, ssn.0, reassembly.pool());
                }
            }
            self.credit_dropped();
            // Some chunks are now skipped, so it may be possible to deliver an unfinished message in parts. This is
            // tried here, because no further chunk arrives to trigger the delivery while the window is closed.
            let at_once = self.window.is_pressed();
            if let Some(reassembly) = &mut self.reassembly {
                reassembly.deliver_in_parts(self.tracker.next(), &mut self.order, at_once);
            }
        }
        Ok(forwarded)
    }

    /// Receives an I-FORWARD-TSN. Its list of messages, not its TSN, determines which data is dropped.
    pub(crate) fn on_iforward(
        &mut self,
        cumulative: Tsn,
        streams: impl ExactSizeIterator<Item = SkippedMessage>,
    ) -> Result<Forwarded, Violation> {
        let (forwarded, _) = self.skip_tsns(cumulative);
        if forwarded == Forwarded::New && self.interleaves {
            // `interleaved` must exist even if no I-DATA chunk has arrived, because it stores which messages were
            // skipped.
            let shared = self.account.is_some();
            let interleaved = self.interleaved.get_or_insert_with(|| Box::new(Interleaved::new(shared)));
            for SkippedMessage { stream, unordered, mid } in streams {
                if stream < self.streams {
                    interleaved.skip_to(stream, unordered, mid, &mut self.order)?;
                }
            }
            self.credit_dropped();
            if self.window.is_pressed()
                && let Some(interleaved) = &mut self.interleaved
            {
                interleaved.hand_out_all(self.tracker.next(), &mut self.order);
            }
        }
        Ok(forwarded)
    }

    /// Advances the cumulative TSN to `cumulative`, then over the following chunks if they have already arrived.
    /// Returns `Forwarded::New` and the TSN offset of `cumulative` + 1. If `cumulative` is not new, returns
    /// `Forwarded::Old` and the next expected TSN offset.
    fn skip_tsns(&mut self, cumulative: Tsn) -> (Forwarded, u64) {
        let ahead = self.tracker.ahead(cumulative.0);
        let end = self.tracker.next();
        if ahead <= 0 {
            // RFC 3758 §3.6: the FORWARD TSN is out of date. The last SACK may be lost, so another SACK is sent.
            self.ack.on_duplicate();
            return (Forwarded::Old, end);
        }
        let ahead = u64::from(ahead.unsigned_abs());
        // RFC 3758 §3.6: a FORWARD TSN is acknowledged by the same rules as a DATA chunk.
        self.ack.on_new(false);
        self.peer_abandons = true;
        self.tracker.skip_to(end + ahead);
        (Forwarded::New, end + ahead)
    }

    /// Credits dropped bytes to the receive window.
    pub(super) fn credit_dropped(&mut self) {
        let interleaved = self.interleaved.as_mut().map_or(0, |interleaved| interleaved.take_dropped());
        let reassembly = self.reassembly.as_mut().map_or(0, |reassembly| reassembly.take_dropped());
        self.window.credit(reassembly + self.order.take_dropped() + interleaved);
    }
}

#[cfg(test)]
mod tests {
    use super::super::{DataOutcome, RecvHalf};
    use super::*;
    use crate::config::Config;
    use anabranch_base::Rng;
    use anabranch_wire::sctp::{Data, IData, Ssn};
    use std::collections::BTreeMap;

    /// A message of the model: its first TSN, the number of its chunks, and whether it was abandoned.
    struct ModelMessage {
        first: u32,
        parts: u32,
        stream: u16,
        ssn: u16,
        unordered: bool,
        given_up: bool,
    }

    fn payload(n: usize, part: u32) -> Vec<u8> {
        vec![n as u8; 1 + (n * 7 + part as usize * 3) % 9]
    }

    fn whole(n: usize, message: &ModelMessage) -> Vec<u8> {
        (0..message.parts).flat_map(|part| payload(n, part)).collect()
    }

    /// Returns the FORWARD TSN with which an honest sender skips the abandoned messages after `cumulative`.
    fn forward(messages: &[ModelMessage], cumulative: u32) -> Option<(Tsn, Vec<Skipped>)> {
        let mut point = cumulative;
        let mut streams = BTreeMap::new();
        for message in messages {
            let last = message.first + message.parts - 1;
            if last <= cumulative {
                continue;
            }
            if !message.given_up {
                break;
            }
            point = last;
            if !message.unordered {
                streams.insert(message.stream, message.ssn);
            }
        }
        let skipped = streams.into_iter().map(|(stream, ssn)| Skipped { stream, ssn: Ssn(ssn) });
        (point != cumulative).then(|| (Tsn(point), skipped.collect()))
    }

    /// RFC 3758 §3.6: abandoned messages may be missing, and all other messages are delivered whole, once and in order.
    /// Dropped data of abandoned messages takes no room in the receive buffer.
    #[test]
    fn messages_that_are_not_abandoned_arrive_whole_and_in_order() {
        for seed in 0..400 {
            let mut rng = Rng::new(seed);
            let initial = 1000;
            let (mut tsn, mut ssns) = (initial, [0; 4]);
            let mut messages = Vec::new();
            for _ in 0..60 {
                let stream = rng.below(4) as u16;
                let message = ModelMessage {
                    first: tsn,
                    parts: if rng.below(2) == 0 { 1 } else { 1 + rng.below(6) as u32 },
                    stream,
                    ssn: ssns[usize::from(stream)],
                    unordered: rng.below(3) == 0,
                    given_up: rng.below(3) == 0,
                };
                ssns[usize::from(stream)] += u16::from(!message.unordered);
                tsn += message.parts;
                messages.push(message);
            }
            let mut arrivals: Vec<(usize, u32)> = Vec::new();
            for (n, message) in messages.iter().enumerate() {
                for part in 0..message.parts {
                    if !message.given_up || rng.below(2) == 0 {
                        arrivals.push((n, part));
                    }
                }
            }
            for i in 0..arrivals.len() {
                let j = (i + rng.below(15) as usize).min(arrivals.len() - 1);
                arrivals.swap(i, j);
            }
            let mut config = Config::default();
            config.partial_delivery = if seed % 2 == 0 { 1 << 20 } else { 4 };
            let mut half = RecvHalf::new(&config, initial, 4, 100);
            let mut got: Vec<Vec<(bool, Vec<u8>)>> = vec![Vec::new(); 4];
            let mut partial: Vec<Vec<u8>> = vec![Vec::new(); 4];
            let mut steps = arrivals.into_iter().map(Some).collect::<Vec<_>>();
            steps.extend([None; 80]);
            for step in steps {
                if let Some((n, part)) = step {
                    let message = &messages[n];
                    let payload = payload(n, part);
                    let data = Data {
                        tsn: Tsn(message.first + part),
                        stream: message.stream,
                        ssn: Ssn(message.ssn),
                        unordered: message.unordered,
                        begin: part == 0,
                        end: part + 1 == message.parts,
                        payload: &payload,
                        ..Data::default()
                    };
                    let taken = half.on_data(&data).expect("an honest peer");
                    assert!(!matches!(taken, DataOutcome::Refused | DataOutcome::NoSuchStream));
                }
                if (step.is_none() || rng.below(6) == 0)
                    && let Some((point, streams)) = forward(&messages, half.cumulative().0)
                {
                    for _ in 0..1 + rng.below(2) {
                        half.on_forward(point, streams.iter().copied()).expect("an honest peer");
                    }
                    assert!(half.cumulative().0 >= point.0);
                }
                half.packet_done();
                for stream in std::mem::take(half.newly_readable()) {
                    let mut buffer = [0; 5];
                    while let Some(received) = half.read(stream, &mut buffer) {
                        let so_far = &mut partial[usize::from(stream)];
                        so_far.extend_from_slice(&buffer[..received.bytes]);
                        if received.incomplete {
                            assert!(!so_far.is_empty(), "seed {seed}: who has read nothing is told nothing");
                            so_far.clear();
                        } else if received.end_of_message {
                            got[usize::from(stream)].push((received.unordered, std::mem::take(so_far)));
                        }
                    }
                }
            }
            assert_eq!(half.cumulative().0, tsn - 1, "seed {seed}");
            assert_eq!(half.buffered(), 0, "seed {seed}");
            for (stream, got) in got.iter().enumerate() {
                let of = |unordered: bool| {
                    let mine = messages.iter().enumerate();
                    mine.filter(move |(_, m)| usize::from(m.stream) == stream && m.unordered == unordered)
                };
                let mut owed = of(false);
                for (_, bytes) in got.iter().filter(|(unordered, _)| !unordered) {
                    let found = owed.find(|(n, message)| {
                        let it = whole(*n, message) == *bytes;
                        assert!(it || message.given_up, "seed {seed}: message {n} is missing or late");
                        it
                    });
                    assert!(found.is_some(), "seed {seed}: twice, or damaged");
                }
                assert!(owed.all(|(_, message)| message.given_up), "seed {seed}");
                let mut unordered: Vec<_> = got.iter().filter(|m| m.0).map(|m| m.1.clone()).collect();
                for (n, message) in of(true) {
                    match unordered.iter().position(|bytes| *bytes == whole(n, message)) {
                        Some(at) => drop(unordered.swap_remove(at)),
                        None => assert!(message.given_up, "seed {seed}: message {n}"),
                    }
                }
                assert!(unordered.is_empty(), "seed {seed}: twice, or damaged");
            }
        }
    }

    #[test]
    fn nonsense_is_refused_or_a_violation_and_never_a_panic() {
        for seed in 0..2_000 {
            let mut rng = Rng::new(seed);
            let mut config = Config::default();
            config.set("rcvbuf", "3000B").expect("a size");
            config.set("partial_delivery", "20B").expect("a size");
            let mut half = RecvHalf::new(&config, 10, 3, 100);
            for _ in 0..200 {
                let payload = vec![7; 1 + rng.below(100) as usize];
                let bits = rng.below(16);
                let data = Data {
                    tsn: half.cumulative().plus(rng.below(30) as u32),
                    stream: rng.below(4) as u16,
                    ssn: Ssn(rng.below(6) as u16),
                    unordered: bits & 1 != 0,
                    begin: bits & 2 != 0,
                    end: bits & 4 != 0,
                    payload: &payload,
                    ..Data::default()
                };
                if half.on_data(&data).is_err() {
                    break;
                }
                if rng.below(3) == 0 {
                    let streams: Vec<_> = (0..rng.below(6))
                        .map(|_| Skipped { stream: rng.below(5) as u16, ssn: Ssn(rng.below(9) as u16) })
                        .collect();
                    let far = if rng.below(20) == 0 { rng.next_u32() } else { rng.below(20) as u32 };
                    let point = half.cumulative().plus(far);
                    if half.on_forward(point, streams.into_iter()).is_err() {
                        break;
                    }
                }
                half.packet_done();
                let mut buffer = [0; 50];
                half.read(rng.below(3) as u16, &mut buffer);
                let mut sack = Vec::new();
                half.emit_sack(&mut sack, 40);
            }
        }
    }

    /// RFC 9260 §6.9: an unfinished message may be delivered in parts once all chunks before it have arrived or were
    /// skipped. While the window is closed, no more chunks arrive, so the FORWARD TSN itself must trigger the delivery.
    #[test]
    fn what_is_given_up_sets_free_what_lies_behind_it() {
        let mut config = Config::default();
        config.set("rcvbuf", "3000B").expect("a size");
        let payload = [7; 1_400];
        for interleaving in [false, true] {
            let mut half = RecvHalf::new(&config, 1, 3, 1_400);
            half.set_interleaving(interleaving);
            for tsn in [2, 3] {
                let begin = tsn == 2;
                let fsn = u32::from(!begin);
                let taken = if interleaving {
                    half.on_idata(&IData {
                        tsn: Tsn(tsn),
                        stream: 2,
                        begin,
                        fsn,
                        payload: &payload,
                        ..IData::default()
                    })
                } else {
                    half.on_data(&Data {
                        tsn: Tsn(tsn),
                        stream: 2,
                        begin,
                        payload: &payload,
                        ..Data::default()
                    })
                };
                assert!(matches!(taken, Ok(DataOutcome::New(_))));
            }
            assert_eq!(half.readable_bytes(2), 0, "TSN 1 may belong before it");
            let given_up = if interleaving {
                half.on_iforward(Tsn(1), [SkippedMessage { stream: 1, unordered: false, mid: 0 }].into_iter())
            } else {
                half.on_forward(Tsn(1), [Skipped { stream: 1, ssn: Ssn(0) }].into_iter())
            };
            assert_eq!(given_up, Ok(Forwarded::New));
            assert_eq!(half.readable_bytes(2), 2_800, "interleaving {interleaving}");
        }
    }

    /// RFC 3758 §3.6: the cumulative TSN advances as far as the peer says, even beyond the reach of a Gap Ack Block
    /// (RFC 9260 §3.3.4). In this test the FORWARD TSN lists as many streams as it has room for.
    #[test]
    fn the_most_that_one_chunk_can_ask_for() {
        let mut half = RecvHalf::new(&Config::default(), 1, u16::MAX, 100);
        let many: Vec<_> =
            (0..16_000).map(|n| Skipped { stream: (n * 3) as u16, ssn: Ssn((n % 2_300) as u16) }).collect();
        assert_eq!(half.on_forward(Tsn(1 << 20), many.iter().copied()), Ok(Forwarded::New));
        assert_eq!(half.cumulative(), Tsn(1 << 20));
        assert_eq!(half.on_forward(Tsn(1 << 20), many.iter().copied()), Ok(Forwarded::Old));
        // The largest accepted skip: half of all TSNs are ahead of the cumulative TSN, the other half is behind it.
        let far = Tsn((1 << 20) + (1 << 31) - 1);
        assert_eq!(half.on_forward(far, std::iter::empty()), Ok(Forwarded::New));
        assert_eq!(half.on_forward(far.plus(1 << 31), std::iter::empty()), Ok(Forwarded::Old));
        assert_eq!(half.cumulative(), far);
        // No message was received on stream 27 before. The FORWARD TSN skipped its messages up to SSN 9.
        let data = |ssn: u16| Data {
            tsn: far.plus(u32::from(ssn) - 8),
            stream: 27,
            ssn: Ssn(ssn),
            begin: true,
            end: true,
            payload: b"x",
            ..Data::default()
        };
        // So the next readable message has SSN 10.
        half.on_data(&data(10)).expect("an honest peer");
        assert_eq!(half.readable_bytes(27), 1);
    }
}
