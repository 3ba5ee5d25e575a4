//! Packets of a conversation that wait until their meaning is known.
//!
//! There are two questions. A wrong checksum is either damage, or was left to the network card, which also cuts and
//! joins segments. The peer's acknowledgement of the data decides this, or the same data sent again. The other question
//! is about associations whose beginning was not captured. Packets of one direction wait for the other direction, which
//! may use other addresses.
//!
//! All packets of a conversation wait behind the first one in doubt, so that they are processed in order. The number is
//! bounded. If too many wait, or the capture ends, a wrong checksum is damage if other data of the same side had right
//! checksums.

use super::arrival::{Arrival, Checksum, Side};
use super::track::History;
use std::collections::VecDeque;

/// The most waiting packets of a conversation, and their bytes.
const MAX_PACKETS: usize = 256;
const MAX_BYTES: usize = 1 << 20;

/// A range of TSNs or sequence numbers on the wire, from the first to after the last.
pub(super) type Numbers = (u32, u32);

/// The numbers that a packet sends and acknowledges.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The numbers of its data, or of a SYN or FIN.
    pub data: Option<Numbers>,
    /// The cumulative acknowledgement: everything before this number.
    pub cumulative: Option<u32>,
    /// The ranges acknowledged in addition.
    pub blocks: Vec<Numbers>,
}

/// A waiting packet.
#[derive(Debug)]
pub(super) struct Waiting {
    arrival: Arrival<'static>,
    bytes: Vec<u8>,
    tunnel: Vec<&'static str>,
    data: Option<Numbers>,
    /// Whether it is not yet known whether the packet is damaged.
    in_doubt: bool,
    damaged: bool,
}

impl Waiting {
    /// Returns the packet as it arrived.
    pub fn arrival(&self) -> Arrival<'_> {
        Arrival { bytes: &self.bytes, tunnel: &self.tunnel, ..self.arrival }
    }

    /// Returns when it arrived.
    pub fn at(&self) -> u64 {
        self.arrival.at
    }
}

/// The waiting packets of a conversation, and what is known about both sides' checksums.
#[derive(Debug, Default)]
pub(super) struct WaitingRoom {
    waiting: VecDeque<Waiting>,
    bytes: usize,
    /// Whether the other direction is not known yet. Everything waits for it.
    pub awaits_peer: bool,
    /// Whether checksums of this side are left to the network card.
    is_offloaded: [bool; 2],
    /// Whether this side had a right checksum.
    had_right: [bool; 2],
    /// Whether this side had a right checksum of data.
    had_right_data: [bool; 2],
    /// The number of packets that have arrived.
    packets: u64,
}

/// RFC 1982 §3.2: returns whether `number` is at or after `other`.
fn reaches(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) < 1 << 31
}

fn overlap(one: Numbers, other: Numbers) -> bool {
    !reaches(one.0, other.1) && !reaches(other.0, one.1)
}

impl WaitingRoom {
    /// Examines a packet that has arrived. Returns true if it waits; [`next`](Self::next) then returns packets that can
    /// continue. `history`: what is known about its data, if it has any.
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
            // An acknowledgement of data that passed before gives no new information.
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
        // If a side never had a right checksum, its acknowledgements are trusted anyway.
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

    /// Returns whether nothing waits, and only packets in doubt would wait.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.awaits_peer
    }

    /// Learns from the checksum of a packet that does not wait.
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

    /// Returns the next packet that can continue.
    pub fn next(&mut self) -> Option<Waiting> {
        if self.awaits_peer || self.waiting.front()?.in_doubt {
            return None;
        }
        let first = self.waiting.pop_front()?;
        self.bytes -= first.bytes.len();
        Some(first)
    }

    /// Lets all waiting packets continue.
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

    /// Lets all waiting packets continue at the end of the capture.
    pub fn finish(&mut self) {
        // A single packet with a wrong checksum belongs to a conversation that damage made up.
        if self.packets == 1 {
            self.waiting.iter_mut().for_each(|waiting| waiting.in_doubt = false);
        }
        self.release();
    }

    /// Removes and returns all waiting packets.
    pub fn take(&mut self) -> impl Iterator<Item = Waiting> + use<> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting).into_iter()
    }

    /// Returns the number of bytes of waiting packets.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Data of this side is acknowledged, so packets in doubt with this data have arrived undamaged.
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

    /// Data passes with a checksum that is not wrong. Packets in doubt with the same data were damaged, unless they
    /// differ only in the checksum.
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

    /// Decides that the checksums of this side are left to the network card.
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
