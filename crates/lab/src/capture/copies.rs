//! Copies: packets that were captured at two places, or that the network made
//! another of.
//!
//! Owns the packets that passed a moment ago, bounded. A packet that was
//! captured at another place (interface, direction, tunnel) is a copy. At the
//! same place, the Identification of IPv4 tells a copy from a retransmission
//! (RFC 6864 §4.3). Where it says nothing, as for most packets that must not
//! be fragmented, a copy comes sooner than any retransmission.

use super::arrival::{Arrival, Side};
use super::frame::Vantage;
use std::collections::VecDeque;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

/// Packets remembered of each side.
const RECENT: usize = 128;
/// A copy that was captured at the same place comes this soon.
const SAME_PLACE: u64 = 1_000_000;
/// A copy that was captured at another place comes this soon; no retransmission timer is as short.
const OTHER_PLACE: u64 = 50_000_000;
/// Places of a packet that are told apart.
const PLACES: usize = 3;

/// What a packet is a copy of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Copy {
    /// Captured at another place before.
    OtherPlace,
    /// Captured at this place before.
    SamePlace,
}

/// The bytes of a packet without its checksum, which a network card may fill in between two places.
pub(super) fn digest(bytes: &[u8], checksum: Range<usize>) -> u64 {
    let mut hasher = DefaultHasher::new();
    (bytes.get(..checksum.start), bytes.get(checksum.end..)).hash(&mut hasher);
    hasher.finish()
}

#[derive(Debug)]
struct Seen {
    digest: u64,
    at: u64,
    places: [Option<Vantage>; PLACES],
    /// Copies that were captured at a place where it had been captured before.
    copies: u8,
}

/// What passed a moment ago, by side.
#[derive(Debug, Default)]
pub(super) struct Copies {
    recent: [VecDeque<Seen>; 2],
    identifications: [u32; 2],
    /// Packets of a side differ in their identification.
    varied: [bool; 2],
    /// The most copies of a packet that is not sent twice in a moment.
    most: u8,
}

impl Copies {
    /// Whether a packet is a copy of one that passed a moment ago.
    pub fn of(&mut self, arrival: &Arrival<'_>) -> Option<Copy> {
        let side = arrival.side;
        let tells = self.identification(side, arrival.identification);
        let mut hasher = DefaultHasher::new();
        (arrival.identification, arrival.source, arrival.target, arrival.digest).hash(&mut hasher);
        let digest = hasher.finish();
        for seen in self.recent[side].iter_mut().filter(|seen| seen.digest == digest) {
            let age = arrival.at.saturating_sub(seen.at);
            if !seen.places.contains(&Some(arrival.vantage)) {
                if age > OTHER_PLACE && !tells {
                    continue;
                }
                let free = seen.places.iter().position(Option::is_none).unwrap_or(PLACES - 1);
                seen.places[free] = Some(arrival.vantage);
                return Some(Copy::OtherPlace);
            }
            // Acknowledgements alike may follow each other at once: of these, as many are copies as of other packets.
            if tells || age <= SAME_PLACE && (arrival.is_unique || seen.copies < self.most) {
                seen.copies = seen.copies.saturating_add(1);
                if arrival.is_unique {
                    self.most = self.most.max(seen.copies);
                }
                return Some(Copy::SamePlace);
            }
        }
        let mut places = [None; PLACES];
        places[0] = Some(arrival.vantage);
        self.recent[side].push_back(Seen { digest, at: arrival.at, places, copies: 0 });
        if self.recent[side].len() > RECENT {
            self.recent[side].pop_front();
        }
        None
    }

    /// RFC 6864 §4.1: whether the identification tells packets apart. Some hosts send 0, and some one number, always.
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

    /// Conversations are many: what is remembered of each is small.
    #[test]
    fn what_is_remembered_of_a_packet_is_small() {
        assert_eq!(size_of::<Seen>(), 24);
    }
}
