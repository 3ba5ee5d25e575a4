//! A queue of packets that cannot be interpreted yet, for example because it is not known whether they are damaged.
//!
//! Packets wait for one of two reasons. The first reason is a wrong checksum: the packet is damaged, or its host leaves
//! checksums to the network card, which also splits and joins segments. If the peer acknowledges the data, the packet
//! was not damaged. If the same data is sent again before it is acknowledged, the packet was damaged. The second reason
//! is that the beginning of an association was not captured. Packets of one direction then wait until the other
//! direction is found, possibly between other addresses.
//!
//! A packet is in doubt as long as it is not known whether it is damaged. All later packets of a conversation wait
//! behind the first packet in doubt, so that they are processed in order. The number of waiting packets is limited. If
//! the limit is exceeded or the capture ends, a wrong checksum counts as damage if other data of the same side had
//! right checksums.

use super::arrival::{Arrival, Checksum, Side};
use super::track::History;
use std::collections::VecDeque;

/// The maximum number of waiting packets of a conversation, and the maximum of their total size in bytes.
const MAX_PACKETS: usize = 256;
const MAX_BYTES: usize = 1 << 20;

/// A range of TSNs or sequence numbers on the wire: the first number, and the number after the last one.
pub(super) type Numbers = (u32, u32);

/// The TSNs or sequence numbers of the data in a packet, and those that the packet acknowledges.
#[derive(Clone, Debug, Default)]
pub(super) struct Facts {
    /// The TSNs or sequence numbers of the data in the packet. A SYN or FIN counts as data.
    pub data: Option<Numbers>,
    /// The cumulative acknowledgement: all data before this number has arrived.
    pub cumulative: Option<u32>,
    /// The ranges that the packet acknowledges in addition to `cumulative`.
    pub blocks: Vec<Numbers>,
}

#[derive(Debug)]
pub(super) struct WaitingPacket {
    arrival: Arrival<'static>,
    bytes: Vec<u8>,
    tunnel: Vec<&'static str>,
    data: Option<Numbers>,
    /// The packet has a wrong checksum, and it is not known yet whether the packet is damaged.
    is_unverified: bool,
    damaged: bool,
}

impl WaitingPacket {
    /// Returns the packet with the properties that it had when it was captured.
    pub fn arrival(&self) -> Arrival<'_> {
        Arrival { bytes: &self.bytes, tunnel: &self.tunnel, ..self.arrival }
    }

    /// Returns the time when the packet was captured.
    pub fn at(&self) -> u64 {
        self.arrival.at
    }
}

/// The waiting packets of a conversation, and what the capture has shown about the checksums that each side writes.
#[derive(Debug, Default)]
pub(super) struct WaitingQueue {
    waiting: VecDeque<WaitingPacket>,
    bytes: usize,
    /// Whether only one direction of the conversation is known. All packets then wait for the other direction.
    pub awaits_peer: bool,
    /// Whether each side leaves its checksums to the network card.
    is_offloaded: [bool; 2],
    /// Whether each side has sent a packet with a right checksum.
    had_right: [bool; 2],
    /// Whether each side has sent a packet that carried data and had a right checksum.
    had_right_data: [bool; 2],
    /// The number of packets that were captured so far.
    packets: u64,
}

/// RFC 1982 §3.2: returns whether `number` equals `other` or comes after it.
fn reaches(number: u32, other: u32) -> bool {
    number.wrapping_sub(other) < 1 << 31
}

fn overlap(one: Numbers, other: Numbers) -> bool {
    !reaches(one.0, other.1) && !reaches(other.0, one.1)
}

impl WaitingQueue {
    /// Examines a captured packet. Returns true if the packet was put in the queue. Afterwards, [`next`](Self::next)
    /// returns the packets that need not wait any longer. `history` is the known history of the packet's data, or
    /// `None` if the packet has no data.
    pub fn offer(&mut self, arrival: &mut Arrival<'_>, facts: &Facts, history: Option<History>) -> bool {
        let side = arrival.side;
        if arrival.checksum == Checksum::Wrong && history == Some(History::Acknowledged) {
            self.believe(side);
        }
        if arrival.checksum == Checksum::Wrong && self.is_offloaded[side] {
            arrival.checksum = Checksum::Left;
        }
        self.packets += 1;
        for first in self.waiting.iter_mut().filter(|waiting| waiting.is_unverified && waiting.data.is_none())
        {
            (first.is_unverified, first.arrival.checksum) = (false, Checksum::Left);
        }
        let mut in_doubt = false;
        if arrival.checksum == Checksum::Wrong {
            // A packet with a wrong checksum waits for an acknowledgement, which shows that the packet is intact. If
            // its data was captured before, the packet does not wait, because the acknowledgement could be for either
            // transmission.
            let passed = |waiting: &WaitingPacket| {
                waiting.arrival.side == side
                    && waiting.data.zip(facts.data).is_some_and(|(one, other)| overlap(one, other))
            };
            // If the first packet of a conversation has a wrong checksum, the packet waits for a second one. If there
            // is no second packet, `finish` counts the first packet as damaged.
            in_doubt = self.packets == 1 || history == Some(History::New) && !self.waiting.iter().any(passed);
            if !in_doubt && !self.had_right[side] {
                arrival.checksum = Checksum::Left;
            }
        }
        // If no packet of this side had a right checksum, this side probably leaves its checksums to the network card.
        // Therefore its acknowledgements are trusted.
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
        self.waiting.push_back(WaitingPacket {
            arrival: Arrival { bytes: &[], tunnel: &[], ..*arrival },
            bytes: arrival.bytes.to_vec(),
            tunnel: arrival.tunnel.to_vec(),
            data: facts.data,
            is_unverified: in_doubt,
            damaged: false,
        });
        if self.waiting.len() > MAX_PACKETS || self.bytes > MAX_BYTES {
            self.release();
        }
        true
    }

    /// Returns true if the queue is empty and packets need not wait for the other direction. Then a packet waits only
    /// if it may be damaged.
    pub fn is_idle(&self) -> bool {
        self.waiting.is_empty() && !self.awaits_peer
    }

    /// Counts a packet that is processed without waiting in the queue, and records whether its checksum is right.
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

    /// Removes and returns the packet at the head of the queue, unless it must continue to wait.
    pub fn next(&mut self) -> Option<WaitingPacket> {
        if self.awaits_peer || self.waiting.front()?.is_unverified {
            return None;
        }
        let first = self.waiting.pop_front()?;
        self.bytes -= first.bytes.len();
        Some(first)
    }

    /// Ends the wait of all packets, because the queue is too long, or because the packets must be processed now.
    pub fn release(&mut self) {
        self.awaits_peer = false;
        for side in [0, 1] {
            if !self.had_right_data[side]
                && self.waiting.iter().any(|w| w.is_unverified && w.arrival.side == side)
            {
                self.believe(side);
            }
        }
        self.waiting.iter_mut().for_each(|waiting| waiting.is_unverified = false);
    }

    /// Ends the wait of all packets. Called at the end of the capture.
    pub fn finish(&mut self) {
        // If a conversation has only this packet, the ports of the packet were probably damaged in the network. A wrong
        // checksum then counts as damage, and not as a checksum that the network card computes later.
        if self.packets == 1 {
            self.waiting.iter_mut().for_each(|waiting| waiting.is_unverified = false);
        }
        self.release();
    }

    /// Removes and returns all packets in the queue.
    pub fn take(&mut self) -> impl Iterator<Item = WaitingPacket> + use<> {
        self.bytes = 0;
        std::mem::take(&mut self.waiting).into_iter()
    }

    /// Returns the total size of the waiting packets in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Processes an acknowledgement of data that `side` sent. If the data is in a waiting packet with a wrong checksum,
    /// that packet was not damaged, so `side` leaves its checksums to the network card.
    fn acknowledge(&mut self, side: Side, facts: &Facts) {
        let arrived = |(start, end): Numbers| {
            facts.cumulative.is_some_and(|until| reaches(until, end))
                || facts.blocks.iter().any(|&(from, until)| reaches(start, from) && reaches(until, end))
        };
        let mut doubts = self.waiting.iter().filter(|w| w.is_unverified && w.arrival.side == side);
        if doubts.any(|waiting| waiting.data.is_some_and(arrived)) {
            self.believe(side);
        }
    }

    /// Compares a packet whose checksum is right or unknown with waiting packets that carry the same TSNs or bytes, but
    /// have a wrong checksum. If other bytes than the checksum differ, the waiting packet was damaged. If only the
    /// checksum differs, it was not damaged: the capture was made before the network card filled in the checksum.
    fn repeat(&mut self, arrival: &Arrival<'_>, facts: &Facts) {
        let Some(data) = facts.data else { return };
        let same = |w: &&mut WaitingPacket| {
            w.is_unverified && w.arrival.side == arrival.side && w.data.is_some_and(|d| overlap(d, data))
        };
        let mut is_left = false;
        for waiting in self.waiting.iter_mut().filter(same) {
            is_left |= waiting.arrival.digest == arrival.digest;
            (waiting.is_unverified, waiting.damaged) = (false, waiting.arrival.digest != arrival.digest);
            if waiting.arrival.digest == arrival.digest {
                waiting.arrival.checksum = Checksum::Left;
            }
        }
        if is_left {
            self.believe(arrival.side);
        }
    }

    /// Records that `side` leaves its checksums to the network card. Its wrong checksums are then no sign of damage.
    fn believe(&mut self, side: Side) {
        self.is_offloaded[side] = true;
        for waiting in self.waiting.iter_mut().filter(|w| w.arrival.side == side && !w.damaged) {
            waiting.is_unverified = false;
            if waiting.arrival.checksum == Checksum::Wrong {
                waiting.arrival.checksum = Checksum::Left;
            }
        }
    }
}
