//! Compares each scheduler with its description in RFC 8260 §3. In some tests, streams never run out of messages.

use super::*;
use SchedulerKind::{Fair, Fcfs, Priority, RoundRobin, RoundRobinPacket, WeightedFair};
use anabranch_base::Rng;

const ALL: [SchedulerKind; 6] = [Fcfs, RoundRobin, RoundRobinPacket, Priority, Fair, WeightedFair];

/// A scheduler with messages of a given number of chunks. A chunk has 1,000 bytes.
struct Sender {
    scheduler: Scheduler,
    /// The stream of each message, and the number of chunks of the message that are left to send.
    messages: Vec<(u16, u32)>,
    begun: Option<u32>,
}

impl Sender {
    fn new(kind: SchedulerKind, interleaving: bool) -> Self {
        let mut scheduler = Scheduler::new(kind);
        scheduler.set_interleaving(interleaving);
        Self { scheduler, messages: Vec::new(), begun: None }
    }

    fn push(&mut self, stream: u16, chunks: u32) -> &mut Self {
        self.messages.push((stream, chunks));
        self.scheduler.push(stream, self.messages.len() as u32 - 1);
        self
    }

    /// Cuts the next chunk and returns the message that it belongs to.
    fn chunk(&mut self) -> Option<u32> {
        let message = self.scheduler.head()?;
        let left = &mut self.messages[message as usize].1;
        *left -= 1;
        let done = *left == 0;
        self.begun = (!done).then_some(message);
        self.scheduler.cut(1_000, done);
        Some(message)
    }

    /// Returns the streams of the chunks in a packet of at most `most` chunks.
    fn packet(&mut self, most: usize) -> Vec<u16> {
        let chunks = std::iter::from_fn(|| self.chunk()).take(most).collect::<Vec<_>>();
        self.scheduler.packet_done();
        chunks.into_iter().map(|message| self.messages[message as usize].0).collect()
    }

    /// Returns the streams of all chunks, packet by packet.
    fn packets(&mut self, most: usize) -> Vec<Vec<u16>> {
        std::iter::from_fn(|| Some(self.packet(most)).filter(|packet| !packet.is_empty())).collect()
    }

    fn set_kind(&mut self, kind: SchedulerKind) {
        let head = self.scheduler.head();
        let begun = head.is_some() && self.begun == head;
        let messages = &self.messages;
        self.scheduler.set_kind(kind, begun, |message| messages[message as usize].0);
    }
}

/// RFC 8260 §1.1: streams 0 and 2 have one message of three chunks, and stream 1 has three messages of one chunk. Round
/// robin sends the chunks as in figure 1 without interleaving, and as in figure 2 with interleaving. First-come,
/// first-served (§3.1) sends one whole message after the other.
#[test]
fn the_figures_of_the_standard() {
    for (kind, interleaving, want) in [
        (RoundRobin, false, [0, 0, 0, 1, 2, 2, 2, 1, 1]),
        (RoundRobin, true, [0, 1, 2, 0, 1, 2, 0, 1, 2]),
        (Fcfs, true, [0, 0, 0, 1, 1, 1, 2, 2, 2]),
    ] {
        let mut sender = Sender::new(kind, interleaving);
        sender.push(0, 3).push(1, 1).push(1, 1).push(1, 1).push(2, 3);
        assert_eq!(sender.packet(usize::MAX), want, "{kind:?}");
    }
}

/// RFC 8260 §3.3: a packet holds chunks of one stream, and the next packet holds chunks of the next stream.
#[test]
fn packets_of_one_stream() {
    let mut sender = Sender::new(RoundRobinPacket, true);
    sender.push(0, 5).push(1, 1).push(1, 2).push(2, 1);
    assert_eq!(sender.packets(2), [vec![0, 0], vec![1, 1], vec![2], vec![0, 0], vec![1], vec![0]]);
    let mut sender = Sender::new(RoundRobinPacket, false);
    sender.push(0, 5).push(1, 1).push(1, 2).push(2, 1);
    assert_eq!(sender.packets(2), [vec![0, 0], vec![0, 0], vec![0], vec![1, 1], vec![1], vec![2]]);
}

/// RFC 8260 §3.4, §4.3.2: streams of priority 0, 1 and 9 are served in this order. A partly sent message is interrupted
/// only if chunks may be interleaved.
#[test]
fn priorities() {
    for (interleaving, want) in [(true, vec![5, 7, 7, 9, 5, 5]), (false, vec![5, 5, 5, 7, 7, 9])] {
        let mut sender = Sender::new(Priority, interleaving);
        sender.scheduler.set_value(5, 9);
        sender.scheduler.set_value(9, 1);
        sender.push(5, 3);
        let mut got = sender.packet(1);
        sender.push(9, 1).push(7, 2);
        got.extend(sender.packets(1).concat());
        assert_eq!(got, want);
    }
}

/// RFC 8260 §3.4: a change of a priority also applies to waiting messages.
#[test]
fn a_priority_changes_while_messages_wait() {
    let mut sender = Sender::new(Priority, true);
    sender.push(1, 2).push(2, 2);
    sender.scheduler.set_value(1, 3);
    assert_eq!(sender.packet(9), [2, 2, 1, 1]);
}

/// RFC 8260 §3.5, §3.6: fair queueing gives streams equal shares of the bytes, and weighted fair queueing gives shares
/// in proportion to weights. An idle stream accumulates no credit.
#[test]
fn shares() {
    for (kind, want) in [(Fair, 20), (WeightedFair, 30)] {
        let mut sender = Sender::new(kind, true);
        sender.scheduler.set_value(1, 3);
        sender.push(1, 100).push(2, 100);
        let first = sender.packet(40);
        let of_one = first.iter().filter(|&&stream| stream == 1).count();
        assert_eq!(of_one, want, "{kind:?}: {first:?}");
        sender.push(3, 100);
        let then = sender.packet(30);
        let of_three = then.iter().filter(|&&stream| stream == 3).count();
        let share = if kind == Fair { 10 } else { 6 };
        assert!(of_three.abs_diff(share) <= 1, "{kind:?}: {of_three} of {then:?}");
    }
}

/// Without interleaving, a stream with messages of one chunk sends as many bytes as a stream with messages of ten.
#[test]
fn shares_of_whole_messages() {
    let mut sender = Sender::new(Fair, false);
    for _ in 0..20 {
        sender.push(1, 10).push(2, 1);
    }
    let order = sender.packets(1).concat();
    let upto = order.iter().rposition(|&stream| stream == 2).unwrap_or(0);
    let of_one = order[..upto].iter().filter(|&&stream| stream == 1).count();
    assert!((10..=30).contains(&of_one), "{of_one} chunks of 1 beside 20 of 2");
}

/// Model test: with any messages and any change of scheduler, every chunk is sent once. The messages of a stream are
/// sent in order. Without interleaving no message is interrupted.
#[test]
fn every_order_keeps_the_rules() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let interleaving = rng.below(2) == 0;
        let mut sender = Sender::new(ALL[rng.below(6) as usize], interleaving);
        let streams = 1 + rng.below(6);
        let (mut want, mut sent) = (0, Vec::new());
        for _ in 0..rng.below(200) {
            match rng.below(10) {
                0 => sender.set_kind(ALL[rng.below(6) as usize]),
                1 => sender.scheduler.set_value(rng.below(streams) as u16, rng.below(4) as u16),
                2..6 => {
                    let chunks = 1 + rng.below(4) as u32;
                    want += chunks;
                    sender.push(rng.below(streams) as u16, chunks);
                }
                _ => {
                    let most = rng.below(4) as usize;
                    sent.extend(std::iter::from_fn(|| sender.chunk()).take(most));
                    sender.scheduler.packet_done();
                }
            }
        }
        loop {
            let before = sent.len();
            sent.extend(std::iter::from_fn(|| sender.chunk()));
            sender.scheduler.packet_done();
            if sent.len() == before {
                break;
            }
        }
        assert_eq!(sent.len() as u32, want, "seed {seed}: every chunk leaves");
        for stream in 0..streams as u16 {
            let of: Vec<_> =
                sent.iter().filter(|&&message| sender.messages[message as usize].0 == stream).collect();
            assert!(of.is_sorted(), "seed {seed}: stream {stream} sends {of:?}");
        }
        if !interleaving {
            let mut runs = sent.clone();
            runs.dedup();
            let all = runs.len();
            runs.sort_unstable();
            runs.dedup();
            assert_eq!(runs.len(), all, "seed {seed}: a message was interrupted: {sent:?}");
        }
    }
}

/// A message that is removed from the scheduler is not sent, even if it was partly sent already.
#[test]
fn messages_are_taken_off() {
    for kind in ALL {
        let mut sender = Sender::new(kind, false);
        sender.push(1, 3).push(2, 1).push(1, 1).push(3, 1);
        assert_eq!(sender.packet(1), [1]);
        sender.scheduler.retain(|message| message != 0 && message != 3);
        let mut left = sender.packets(1).concat();
        left.sort_unstable();
        assert_eq!(left, [1, 2], "{kind:?}");
    }
}

#[test]
fn what_is_given_up_is_passed_over() {
    for kind in ALL {
        for interleaving in [false, true] {
            let mut sender = Sender::new(kind, interleaving);
            sender.push(7, 3).push(7, 1).push(9, 1).push(7, 1).push(9, 2);
            // Removes a message that was started, a message that waits, and a message that is already removed.
            assert_eq!(sender.chunk(), Some(0), "{kind:?}");
            for message in [0, 2, 2] {
                let stream = sender.messages[message as usize].0;
                sender.scheduler.remove(stream, message);
            }
            sender.scheduler.packet_done();
            let mut left: Vec<u32> = std::iter::from_fn(|| {
                let message = sender.chunk();
                sender.scheduler.packet_done();
                message
            })
            .collect();
            left.sort_unstable();
            assert_eq!(left, [1, 3, 4, 4], "{kind:?}");
        }
    }
}
