//! Tests the scoreboard against a model that records every byte and follows the definitions of RFC 6675 literally.

use super::*;
use anabranch_base::Rng;

/// The state of one byte of the sequence space in the model.
#[derive(Clone, Copy, Default, Debug)]
struct Byte {
    sacked: bool,
    lost: bool,
    retransmitted: bool,
}

#[derive(Default)]
struct Model {
    bytes: Vec<Byte>,
    una: usize,
}

const MSS: u64 = 10;
const DUPTHRESH: u32 = 3;

impl Model {
    /// RFC 6675 §4, IsLost: returns whether the byte at index `place` is lost.
    fn is_lost(&self, place: usize) -> bool {
        let (mut bytes, mut runs, mut inside) = (0, 0, false);
        for byte in &self.bytes[place + 1..] {
            bytes += u64::from(byte.sacked);
            runs += u32::from(byte.sacked && !inside);
            inside = byte.sacked;
        }
        runs >= DUPTHRESH || bytes > u64::from(DUPTHRESH - 1) * MSS
    }

    /// RFC 6675 §4, SetPipe: returns the number of bytes in the network.
    fn pipe(&self) -> u64 {
        let open = self.bytes[self.una..].iter().filter(|byte| !byte.sacked);
        open.map(|byte| u64::from(!byte.lost) + u64::from(byte.retransmitted)).sum()
    }

    fn find_lost(&mut self) {
        for place in self.una..self.bytes.len() {
            self.bytes[place].lost |= !self.bytes[place].sacked && self.is_lost(place);
        }
    }

    fn next_lost(&self) -> Option<u64> {
        let want = |byte: &Byte| byte.lost && !byte.sacked && !byte.retransmitted;
        self.bytes[self.una..].iter().position(want).map(|place| (self.una + place) as u64)
    }
}

/// RFC 6675 §4: IsLost, SetPipe and NextSeg agree with a simple model of the scoreboard for random sequences of events.
#[test]
fn agrees_with_a_model_that_keeps_every_byte() {
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let (mut board, mut model) = (Scoreboard::default(), Model::default());
        for step in 0..120 {
            let (una, next) = (board.una(), board.next());
            match rng.below(10) {
                0..=3 => {
                    board.push(next + MSS, Instant::ZERO);
                    model.bytes.resize((next + MSS) as usize, Byte::default());
                }
                4..=6 if next > una => {
                    // The SACK blocks that the test generates cover whole segments.
                    let segments = (next - una).div_ceil(MSS);
                    let first = una / MSS + 1 + rng.below(segments);
                    let start = (first * MSS).min(next);
                    let end = (start + MSS * (1 + rng.below(4))).min(next);
                    let before =
                        model.bytes[start as usize..end as usize].iter().filter(|b| b.sacked).count();
                    let newly = board.sack(start, end);
                    assert_eq!(newly, end - start - before as u64, "seed {seed} step {step}");
                    model.bytes[start as usize..end as usize].iter_mut().for_each(|byte| byte.sacked = true);
                    board.find_lost(DUPTHRESH, MSS);
                    model.find_lost();
                }
                7 if next > una => {
                    let to = (una + MSS * (1 + rng.below(3))).min(next);
                    let freed = board.acknowledge(to);
                    assert_eq!(freed.bytes, to - una);
                    model.una = to as usize;
                }
                8 => {
                    if let Some(range) = board.next_lost(MSS) {
                        board.record_retransmission(&range, Instant::ZERO);
                        let places = range.start as usize..range.end as usize;
                        model.bytes[places].iter_mut().for_each(|byte| byte.retransmitted = true);
                    }
                }
                9 if rng.below(8) == 0 => {
                    let reneged = model.bytes.get(model.una).is_some_and(|byte| byte.sacked);
                    board.lose_all();
                    for byte in &mut model.bytes[model.una..] {
                        byte.sacked &= !reneged;
                        (byte.lost, byte.retransmitted) = (!byte.sacked, false);
                    }
                }
                _ => {}
            }
            board.check_invariants();
            assert_eq!(board.pipe(), model.pipe(), "seed {seed} step {step}");
            let next_lost = board.next_lost(MSS).map(|range| range.start);
            assert_eq!(next_lost, model.next_lost(), "seed {seed} step {step}");
        }
    }
}

/// After the path MTU has decreased, outstanding segments are retransmitted in smaller segments, and every byte is
/// sent.
#[test]
fn segments_are_cut_where_the_path_demands() {
    let mut board = Scoreboard::default();
    for end in [100, 200, 300] {
        board.push(end, Instant::ZERO);
    }
    board.lose_larger_than(60);
    let mut sent = Vec::new();
    while let Some(range) = board.next_lost(60) {
        board.record_retransmission(&range, Instant::ZERO);
        board.check_invariants();
        sent.push(range);
    }
    assert_eq!(sent, [0..60, 60..100, 100..160, 160..200, 200..260, 260..300]);
}

/// RFC 6298 §3 (Karn's algorithm): a segment that was retransmitted, or was already SACKed, gives no RTT sample.
#[test]
fn only_clean_segments_are_measured() {
    let mut board = Scoreboard::default();
    for (end, at) in [(10, 1), (20, 2), (30, 3)] {
        board.push(end, Instant::from_millis(at));
    }
    board.sack(10, 20);
    assert_eq!(board.acknowledge(10).sent_at, Some(Instant::from_millis(1)));
    assert_eq!(board.acknowledge(20).sent_at, None, "it was SACKed: the round trip ended then");
    board.mark_head_lost();
    let range = board.next_lost(10).expect("the head");
    board.record_retransmission(&range, Instant::from_millis(50));
    let freed = board.acknowledge(30);
    assert!(freed.ambiguous && freed.sent_at.is_none());
    assert_eq!(board.pipe(), 0);
}

/// A SACK block may end inside a segment. When the block grows, that segment is SACKed like any other.
#[test]
fn a_block_that_ended_inside_a_segment_may_grow() {
    let mut board = Scoreboard::default();
    for end in [100, 200, 300, 400] {
        board.push(end, Instant::ZERO);
    }
    assert_eq!(board.sack(100, 250), 100);
    assert_eq!(board.sack(100, 400), 200);
    assert_eq!(board.pipe(), 100);
    board.check_invariants();
}
