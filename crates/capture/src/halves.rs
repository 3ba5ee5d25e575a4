//! One direction of an SCTP association whose beginning was not captured.
//!
//! When the two directions of an association use different addresses (RFC 9260 §6.4), this module finds out that they
//! belong together. A HEARTBEAT ACK travels in the opposite direction of its HEARTBEAT and has the same heartbeat
//! information (§8.3). Acknowledgements also travel in the opposite direction of the data, and have its TSNs (§3.3.4).

use super::waiting::{Facts, Numbers};
use anabranch_wire::sctp::{Chunk, PacketView};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// The maximum number of entries in each list that is kept for a direction: the source addresses, the target addresses,
/// the HEARTBEATs and the HEARTBEAT ACKs.
const MAX: usize = 64;
/// The maximum distance between the TSNs of one direction's data and the TSNs that the opposite direction acknowledges.
/// Beyond this distance, only matching heartbeats can show that two directions belong to the same association.
const MAX_TSN_DISTANCE: u32 = 1 << 16;

/// The evidence that two directions belong to the same association, in increasing order of strength.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum MatchEvidence {
    /// One direction sends to an address from which the other direction sends.
    Address,
    /// One direction acknowledges TSNs of the other direction's data.
    Numbers,
    /// One direction acknowledges TSNs of the other direction's data, and an address matches, too.
    NumbersAndAddress,
    /// One direction contains HEARTBEAT ACKs that answer HEARTBEATs of the other direction.
    Heartbeats,
}

/// What the captured packets of one direction of an association reveal, for example their addresses. It helps to find
/// the opposite direction.
#[derive(Debug, Default)]
pub(super) struct OneDirection {
    sources: Vec<IpAddr>,
    targets: Vec<IpAddr>,
    sent: Option<Numbers>,
    acknowledged: Option<u32>,
    heartbeats: BTreeSet<u64>,
    answers: BTreeSet<u64>,
}

impl OneDirection {
    /// Adds what a packet of this direction reveals.
    pub fn add(&mut self, source: IpAddr, target: IpAddr, view: &PacketView<'_>, facts: &Facts) {
        for (address, known) in [(source, &mut self.sources), (target, &mut self.targets)] {
            if known.len() < MAX && !known.contains(&address) {
                known.push(address);
            }
        }
        if let Some((start, end)) = facts.data {
            let (first, last) = self.sent.unwrap_or((start, end));
            let last = if end.wrapping_sub(last) < 1 << 31 { end } else { last };
            self.sent = Some((if first.wrapping_sub(start) < 1 << 31 { start } else { first }, last));
        }
        self.acknowledged = facts.cumulative.or(self.acknowledged);
        for chunk in view.chunks().filter_map(Result::ok) {
            let (info, known) = match chunk {
                Chunk::Heartbeat(beat) => (beat.info, &mut self.heartbeats),
                Chunk::HeartbeatAck(answer) => (answer.info, &mut self.answers),
                _ => continue,
            };
            if known.len() < MAX {
                known.insert(digest(info));
            }
        }
    }

    /// Returns the evidence that this direction and `other` belong to the same association. A matching HEARTBEAT ACK is
    /// sufficient evidence. Without a matching HEARTBEAT ACK, returns `None` if one direction acknowledges TSNs far
    /// from those that the other direction sent. Also returns `None` if neither TSNs nor addresses match.
    pub fn fit(&self, other: &Self) -> Option<MatchEvidence> {
        let meets =
            |one: &Self, other: &Self| one.targets.iter().any(|address| other.sources.contains(address));
        let address = meets(self, other) || meets(other, self);
        if !self.heartbeats.is_disjoint(&other.answers) || !other.heartbeats.is_disjoint(&self.answers) {
            return Some(MatchEvidence::Heartbeats);
        }
        let known = [(self.acknowledged, other.sent), (other.acknowledged, self.sent)];
        let known = known.into_iter().filter_map(|(acknowledged, sent)| acknowledged.zip(sent));
        let (mut numbers, mut far) = (false, false);
        for (acknowledged, (start, end)) in known {
            numbers |= acknowledged.wrapping_sub(start) <= end.wrapping_sub(start);
            let distance = |from: u32| acknowledged.wrapping_sub(from).min(from.wrapping_sub(acknowledged));
            far |= distance(start).min(distance(end)) > MAX_TSN_DISTANCE;
        }
        match (numbers, address) {
            _ if far => None,
            (true, true) => Some(MatchEvidence::NumbersAndAddress),
            (true, false) => Some(MatchEvidence::Numbers),
            (false, true) => Some(MatchEvidence::Address),
            (false, false) => None,
        }
    }
}

/// Hashes the heartbeat information of a HEARTBEAT or HEARTBEAT ACK.
pub(super) fn digest(info: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    info.hash(&mut hasher);
    hasher.finish()
}
