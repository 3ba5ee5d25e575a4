//! One direction of an association whose beginning was not captured.
//!
//! This module finds out which two directions are one association when they use different addresses (RFC 9260 §6.4).
//! The answer to a HEARTBEAT travels in the other direction and has the same bytes (§8.3). Acknowledgements also travel
//! in the other direction, and have the TSNs of the data (§3.3.4).

use super::waiting::{Facts, Numbers};
use anabranch_wire::sctp::{Chunk, PacketView};
use std::collections::BTreeSet;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// The most heartbeats and addresses remembered for a direction.
const MAX: usize = 64;
/// If the TSNs of data and acknowledgement are further apart, they belong to two associations.
const NEAR: u32 = 1 << 16;

/// How well two directions match.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Fit {
    /// One sends to an address from which the other sends.
    Address,
    /// One acknowledges the other's data.
    Numbers,
    /// One acknowledges the other's data, and the addresses match.
    NumbersAndAddress,
    /// One answers the other's heartbeats.
    Heartbeats,
}

/// One direction, as far as it was captured.
#[derive(Debug, Default)]
pub(super) struct Half {
    sources: Vec<IpAddr>,
    targets: Vec<IpAddr>,
    sent: Option<Numbers>,
    acknowledged: Option<u32>,
    heartbeats: BTreeSet<u64>,
    answers: BTreeSet<u64>,
}

impl Half {
    /// Adds a packet of this direction.
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

    /// Returns how well another direction matches. Returns `None` without evidence, or with evidence against a match.
    pub fn fit(&self, other: &Self) -> Option<Fit> {
        let meets =
            |one: &Self, other: &Self| one.targets.iter().any(|address| other.sources.contains(address));
        let address = meets(self, other) || meets(other, self);
        if !self.heartbeats.is_disjoint(&other.answers) || !other.heartbeats.is_disjoint(&self.answers) {
            return Some(Fit::Heartbeats);
        }
        let known = [(self.acknowledged, other.sent), (other.acknowledged, self.sent)];
        let known = known.into_iter().filter_map(|(acknowledged, sent)| acknowledged.zip(sent));
        let (mut numbers, mut far) = (false, false);
        for (acknowledged, (start, end)) in known {
            numbers |= acknowledged.wrapping_sub(start) <= end.wrapping_sub(start);
            let distance = |from: u32| acknowledged.wrapping_sub(from).min(from.wrapping_sub(acknowledged));
            far |= distance(start).min(distance(end)) > NEAR;
        }
        match (numbers, address) {
            _ if far => None,
            (true, true) => Some(Fit::NumbersAndAddress),
            (true, false) => Some(Fit::Numbers),
            (false, true) => Some(Fit::Address),
            (false, false) => None,
        }
    }
}

/// Hashes the information of a heartbeat.
pub(super) fn digest(info: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    info.hash(&mut hasher);
    hasher.finish()
}
