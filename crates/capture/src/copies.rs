//! Detects copies of packets. A copy is a packet that the network duplicated, or that was captured at two places.
//!
//! This module remembers the latest packets, up to a limit. A packet that was already captured at another place
//! (interface, direction, tunnel) is a copy. At the same place, the Identification of IPv4 distinguishes a copy from a
//! retransmission (RFC 6864 §4.3). The Identification is meaningless in most packets that must not be fragmented. A
//! repeated packet without a meaningful Identification is a copy if it arrives earlier than any retransmission could.

use super::arrival::{Arrival, Side};
use super::frame::Vantage;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// The number of latest packets of each side that are remembered, so that copies of them are recognized.
const RECENT: usize = 128;
/// The maximum delay between a packet and its copy captured at the same place, in nanoseconds.
const SAME_PLACE: u64 = 1_000_000;
/// The maximum delay between a packet and its copy captured at another place, in nanoseconds. Every retransmission
/// timer is longer.
const OTHER_PLACE: u64 = 50_000_000;
/// The maximum number of capture points (see [`Vantage`]) that are remembered for a packet.
const MAX_VANTAGES: usize = 3;

/// Where a copy was captured, compared with the first capture of the same packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum CopyKind {
    /// The packet was captured earlier at another place.
    OtherPlace,
    /// The packet was captured earlier at the same place.
    SamePlace,
}

/// Hashes the bytes of a packet without its checksum. If a packet is captured before and after a network card, the two
/// captures may differ in the checksum, because the card may fill it in.
pub(super) fn digest(bytes: &[u8], checksum: Range<usize>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (bytes.get(..checksum.start), bytes.get(checksum.end..)).hash(&mut hasher);
    hasher.finish()
}

#[derive(Debug)]
struct RecentPacket {
    digest: u64,
    at: u64,
    vantages: [Option<Vantage>; MAX_VANTAGES],
    /// The number of times that this packet was captured again, at the same place or at another one.
    copies: u8,
}

/// The latest packets of each side of a conversation.
#[derive(Debug, Default)]
pub(super) struct Copies {
    recent: [VecDeque<RecentPacket>; 2],
    identifications: [u32; 2],
    /// Whether the packets of a side have had different IPv4 Identifications; one value for each side.
    varied: [bool; 2],
    /// The largest number of copies of one packet so far. Counts only packets that no host sends twice in quick
    /// succession ([`Arrival::is_unique`]).
    max_copies: u8,
}

impl Copies {
    /// If the packet `arrival` is a copy of a recent packet, returns whether the recent packet was captured at the same
    /// place or at another place.
    pub fn of(&mut self, arrival: &Arrival<'_>) -> Option<CopyKind> {
        let side = arrival.side;
        let tells = self.identification(side, arrival.identification);
        let mut hasher = DefaultHasher::new();
        (arrival.identification, arrival.source, arrival.target, arrival.digest).hash(&mut hasher);
        let digest = hasher.finish();
        // After the first packet of a side, it is not yet known whether the Identification distinguishes packets. A
        // host retransmits its first packet only after a timeout. If the packet is captured again before such a timeout
        // can have expired, the network or the capture has copied it.
        let repeats_first = arrival.identification != 0 && self.recent[side].len() == 1;
        let same_place = if repeats_first && arrival.is_unique { OTHER_PLACE } else { SAME_PLACE };
        for seen in self.recent[side].iter_mut().filter(|seen| seen.digest == digest) {
            let age = arrival.at.saturating_sub(seen.at);
            if !seen.vantages.contains(&Some(arrival.vantage)) {
                if age > OTHER_PLACE && !tells {
                    continue;
                }
                let free = seen.vantages.iter().position(Option::is_none).unwrap_or(MAX_VANTAGES - 1);
                seen.vantages[free] = Some(arrival.vantage);
                return Some(CopyKind::OtherPlace);
            }
            // A capture may record each packet several times, and a host may send identical acknowledgements in quick
            // succession. `max_copies` is the largest number of additional records of a packet that its host sent only
            // once. If an acknowledgement has more additional records, its host has repeated it.
            if tells || age <= same_place && (arrival.is_unique || seen.copies < self.max_copies) {
                seen.copies = seen.copies.saturating_add(1);
                if arrival.is_unique {
                    self.max_copies = self.max_copies.max(seen.copies);
                }
                return Some(CopyKind::SamePlace);
            }
        }
        let mut vantages = [None; MAX_VANTAGES];
        vantages[0] = Some(arrival.vantage);
        self.recent[side].push_back(RecentPacket { digest, at: arrival.at, vantages, copies: 0 });
        if self.recent[side].len() > RECENT {
            self.recent[side].pop_front();
        }
        None
    }

    /// RFC 6864 §4.1: returns whether the Identification distinguishes the packets of this side. Some hosts always send
    /// 0 or another constant.
    fn identification(&mut self, side: Side, identification: u32) -> bool {
        if identification == 0 {
            return false;
        }
        let last = std::mem::replace(&mut self.identifications[side], identification);
        self.varied[side] |= last != 0 && last != identification;
        self.varied[side]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The record of a packet must be small, because a capture may have many conversations, and each conversation
    /// remembers packets.
    #[test]
    fn what_is_remembered_of_a_packet_is_small() {
        assert_eq!(size_of::<RecentPacket>(), 24);
    }
}
