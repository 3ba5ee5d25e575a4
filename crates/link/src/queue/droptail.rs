//! Drop-tail: a queue takes what fits and drops the rest.
//!
//! Owns the limit that every queue has, and the threshold above which a
//! drop-tail queue marks ECN-capable packets (the scheme of DCTCP, RFC 8257 §3.1).

use super::{Admission, Occupancy};

/// How much may wait.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Limit {
    /// This many packets.
    Packets(u64),
    /// This many bytes.
    Bytes(u64),
    /// No end: for links whose queue is not the subject.
    Unlimited,
}

impl Limit {
    /// A packet of `bytes` may join what waits.
    #[must_use]
    #[inline]
    pub const fn has_room(self, waiting: Occupancy, bytes: usize) -> bool {
        match self {
            Self::Packets(limit) => waiting.packets < limit,
            Self::Bytes(limit) => waiting.bytes + bytes as u64 <= limit,
            Self::Unlimited => true,
        }
    }
}

/// The backlog from which a drop-tail queue marks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Threshold(
    /// Marks a packet that finds no room under this limit.
    pub Limit,
);

impl Threshold {
    /// Marks when the packet would bring the queue above the threshold. One
    /// that cannot be marked is taken all the same.
    #[inline]
    pub(super) const fn admit(self, waiting: Occupancy, bytes: usize) -> Admission {
        if self.0.has_room(waiting, bytes) { Admission::Take } else { Admission::MarkOrDrop }
    }
}
