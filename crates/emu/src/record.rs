//! What passed a link: packets for captures, bytes over time for results.
//!
//! Kept only when asked for: a record grows with the traffic.

use anabranch_base::Instant;
use anabranch_link::spec::Direction;
use anabranch_wire::pcap;
use std::io;

/// What is kept of the traffic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Keep {
    /// Counters only.
    #[default]
    Counters,
    /// And bytes over time.
    Bytes,
    /// And every packet.
    Packets,
}

/// A packet at one of the link's ends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Sighting {
    /// When, on the link's clock.
    pub at: Instant,
    /// At the near end, else at the far one.
    pub near: bool,
    /// Which way it was going.
    pub direction: Direction,
    /// The packet.
    pub bytes: Vec<u8>,
}

/// Bytes of one direction over time.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Series {
    /// Handed to the link, in buckets.
    pub entered: Vec<u64>,
    /// Handed out by the link, in buckets.
    pub left: Vec<u64>,
}

impl Series {
    /// Adds a packet's bytes to the bucket of `at`.
    pub fn add(buckets: &mut Vec<u64>, at: Instant, bytes: usize) {
        let index = (at.as_nanos() / BUCKET_NS) as usize;
        if buckets.len() <= index {
            buckets.resize(index + 1, 0);
        }
        buckets[index] += bytes as u64;
    }
}

/// The capture of one end: an interface a path, packets in the order of time.
///
/// # Errors
/// None: what is written to is memory.
pub fn capture(paths: &[Vec<Sighting>], near: bool) -> io::Result<Vec<u8>> {
    let mut writer = pcap::Writer::new(Vec::new(), "anabranch")?;
    let mut seen: Vec<(u32, &Sighting)> = Vec::new();
    for (number, sightings) in (1..).zip(paths) {
        let interface = writer.interface(&format!("path{number}"), 0)?;
        seen.extend(
            sightings.iter().filter(|sighting| sighting.near == near).map(|sighting| (interface, sighting)),
        );
    }
    seen.sort_by_key(|(_, sighting)| sighting.at);
    for (interface, sighting) in seen {
        let outward = (sighting.direction == Direction::Up) == near;
        let direction = if outward { pcap::Direction::Outbound } else { pcap::Direction::Inbound };
        writer.packet(interface, sighting.at.as_nanos(), &sighting.bytes, Some(direction), None)?;
    }
    writer.finish()
}

/// Width of a bucket of [`Series`], nanoseconds.
pub const BUCKET_NS: u64 = 100_000_000;
