//! Packets of a conversation that wait until it is known what they are.
//!
//! Owns two judgements. A checksum that looks wrong is damage, or it was left
//! to the network card, which also cuts and joins segments: the peer's
//! acknowledgement of the data tells, as does the same data sent again. And of
//! an association whose beginning was not captured, packets of one direction
//! wait for the other, which may go between other addresses.
//!
//! All packets of a conversation wait behind the first one in doubt, so that
//! they are taken in order. Bounded: when too many wait, or the capture ends,
//! wrong checksums are damage where data of the same side had right ones.

use super::arrival::{Arrival, Checksum, Side};
use super::track::History;
use std::collections::VecDeque;

/// Packets of a conversation that wait at most, and their bytes.
const MAX_PACKETS: usize = 256;
const MAX_BYTES: usize = 1 << 20;

/// TSNs or sequence numbers as on the wire, from the first to after the last.
pub(super) type Numbers = (u32, u32);

/// What a packet says of numbers.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// Of data in it, or a SYN or FIN.
    pub data: Option<Numbers>,
    /// What it acknowledges: everything before this number,
    pub cumulative: Option<u32>,
    /// and these.
    pub blocks: Vec<Numbers>,
}

/// A packet that waits.
#[derive(Debug)]
pub(super) struct Waiting {
    arrival: Arrival<'static>,
    bytes: Vec<u8>,
    tunnel: Vec<&'static str>,
    data: Option<Numbers>,
    /// Nothing has told yet whether it is damaged.
    in_doubt: bool,
    damaged: bool,
}

impl Waiting {
    /// The packet as it came.
    pub fn arrival(&self) -> Arrival<'_> {
        Arrival { bytes: &self.bytes, tunnel: &self.tunnel, ..self.arrival }
    }

    /// When it came.
    pub fn at(&self) -> u64 {
        self.arrival.at
    }
}

/// Packets that wait, and what is known of both sides' checksums.
#[derive(Debug, Default)]
pub(super) struct WaitingRoom {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// The other direction is not known yet: everything waits.
    pub awaits_peer: bool,
    /// Checksums of this side are left to the network card.
    is_offloaded: [bool; 2],
    /// A checksum of this side was right.
    had_right: [bool; 2],
    /// A checksum of this side's data was right.
    had_right_data: [bool; 2],
    /// Packets that have come.
    packets: u64,
}

/// RFC 1982 §3.2: `number` is at or after `other`.
fn reaches(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) < 1 << 31
}

fn overlap(one: Numbers, other: Numbers) -> bool {
    !reaches(one.0, other.1) && !reaches(other.0, one.1)
}

impl WaitingRoom {
    /// Looks at a packet that has come. True if it waits: then [`next`](Self::next) gives those that need not wait any
    /// longer. `history`: what is known of its data, if it has any.
    pub fn offer(&mut self, arrival: &mut Arrival<'_>, facts: &Facts, history: Option<History>) -> bool {
        let side = arrival.side;
        if arrival.checksum == Checksum::Wrong && history == Some(History::Acknowledged) {
            self.believe(side);
        }
        if arrival.checksum == Checksum::Wrong && self.is_offloaded[side] {
            arrival.checksum = Checksum::Left;
        }
        self.packets += 1;
        for first in self.waiting.iter_mut().filter(|waiting| waiting.in_doubt && waiting.data.is_none()) {
            (first.in_doubt, first.arrival.checksum) = (false, Checksum::Left);
        }
        let mut in_doubt = false;
        if arrival.checksum == Checksum::Wrong {
            // Of data that passed before, an acknowledgement says nothing new.
            let passed = |waiting: &Waiting| {
                waiting.arrival.side == side
                    && waiting.data.zip(facts.data).is_some_and(|(one, other)| overlap(one, other))
            };
            // The first packet may be the only one: see `finish`.
            in_doubt = self.packets == 1 || history == Some(History::New) && !self.waiting.iter().any(passed);
            if !in_doubt && !self.had_right[side] {
                arrival.checksum = Checksum::Left;
            }
        }
        // A side that never had a right checksum is believed what it says of the other.
        if arrival.checksum != Checksum::Wrong || !self.had_right[side] {
            self.acknowledge(1 - side, facts);
        }
        if arrival.checksum != Checksum::Wrong {
            self.repeat(arrival, facts);
        }
        self.learn(arrival);
        if self.waiting.is_empty() && !in_doubt && !self.awaits_peer {
            return false;
        }
        self.bytes += arrival.bytes.len();
        self.waiting.push_back(Waiting {
            arrival: Arrival { bytes: &[], tunnel: &[], ..*arrival },
            bytes: arrival.bytes.to_vec(),
            tunnel: arrival.tunnel.to_vec(),
            data: facts.data,
            in_doubt,
            damaged: false,
        });
        if self.waiting.len() > MAX_PACKETS || self.bytes > MAX_BYTES {
            self.release();
        }
        true
    }

    /// Nothing waits, and nothing will but what is in doubt.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.awaits_peer
    }

    /// Learns of checksums from a packet.
    pub fn note(&mut self, arrival: &Arrival<'_>) {
        self.packets += 1;
        self.learn(arrival);
    }

    fn learn(&mut self, arrival: &Arrival<'_>) {
        if arrival.checksum == Checksum::Right {
            self.had_right[arrival.side] = true;
            self.had_right_data[arrival.side] |= arrival.is_data;
        }
    }

    /// The next packet that need not wait any longer.
    pub fn next(&mut self) -> Option<Waiting> {
        if self.awaits_peer || self.waiting.front()?.in_doubt {
            return None;
        }
        let first = self.waiting.pop_front()?;
        self.bytes -= first.bytes.len();
        Some(first)
    }

    /// Nothing waits any longer.
    pub fn release(&mut self) {
        self.awaits_peer = false;
        for side in [0, 1] {
            if !self.had_right_data[side] && self.waiting.iter().any(|w| w.in_doubt && w.arrival.side == side)
            {
                self.believe(side);
            }
        }
        self.waiting.iter_mut().for_each(|waiting| waiting.in_doubt = false);
    }

    /// The capture ends: nothing waits any longer.
    pub fn finish(&mut self) {
        // A single packet with a wrong checksum belongs to a conversation that damage has made up.
        if self.packets == 1 {
            self.waiting.iter_mut().for_each(|waiting| waiting.in_doubt = false);
        }
        self.release();
    }

    /// Gives up all that waits.
    pub fn take(&mut self) -> impl Iterator<Item = Waiting> + use<> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting).into_iter()
    }

    /// Bytes of packets that wait.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Data of this side is acknowledged: what is in doubt and among it has arrived, and was not damaged.
    fn acknowledge(&mut self, side: Side, facts: &Facts) {
        let arrived = |(start, end): Numbers| {
            facts.cumulative.is_some_and(|until| reaches(until, end))
                || facts.blocks.iter().any(|&(from, until)| reaches(start, from) && reaches(until, end))
        };
        let mut doubts = self.waiting.iter().filter(|w| w.in_doubt && w.arrival.side == side);
        if doubts.any(|waiting| waiting.data.is_some_and(arrived)) {
            self.believe(side);
        }
    }

    /// Data passes with a checksum that is not wrong: what is in doubt and the same was damaged, unless it differs in its
    /// checksum alone.
    fn repeat(&mut self, arrival: &Arrival<'_>, facts: &Facts) {
        let Some(data) = facts.data else { return };
        let same = |w: &&mut Waiting| {
            w.in_doubt && w.arrival.side == arrival.side && w.data.is_some_and(|d| overlap(d, data))
        };
        let mut is_left = false;
        for waiting in self.waiting.iter_mut().filter(same) {
            is_left |= waiting.arrival.digest == arrival.digest;
            (waiting.in_doubt, waiting.damaged) = (false, waiting.arrival.digest != arrival.digest);
            if waiting.arrival.digest == arrival.digest {
                waiting.arrival.checksum = Checksum::Left;
            }
        }
        if is_left {
            self.believe(arrival.side);
        }
    }

    /// The checksums of this side are left to the network card.
    fn believe(&mut self, side: Side) {
        self.is_offloaded[side] = true;
        for waiting in self.waiting.iter_mut().filter(|w| w.arrival.side == side && !w.damaged) {
            waiting.in_doubt = false;
            if waiting.arrival.checksum == Checksum::Wrong {
                waiting.arrival.checksum = Checksum::Left;
            }
        }
    }
}
