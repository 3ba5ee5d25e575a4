//! Decides which of several worlds behind one port or one IP protocol a packet is for.
//!
//! A world is one thread; a server with several threads has as many worlds. The kernel delivers each packet to one of
//! them by its own rule. If the two rules differ, this one counts.

use anabranch_base::Icmp;
use std::net::IpAddr;

/// The position in a packet of the number that identifies its world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// In SCTP's common header, or in an INIT (RFC 9260 §3.1, §3.3.2).
    VerificationTag,
    /// In the first four bytes of QUIC's destination connection id (RFC 9000 §17.2, §17.3), which has at least that
    /// many.
    ConnectionId,
}

/// Identifies the world that a packet is for. All worlds of a group call it, from their threads.
pub trait Steering: Send + Sync + std::fmt::Debug {
    /// Returns the world, counted from 0, that a packet from this address is for. `None` means the world that received
    /// it.
    fn owner(&self, source: IpAddr, packet: &[u8]) -> Option<u32>;

    /// Returns the world for a report about a packet that was sent; `quoted` is the beginning of that packet.
    fn owner_of_report(&self, icmp: &Icmp, quoted: &[u8]) -> Option<u32>;

    /// Returns where in a UDP packet the host finds the number that identifies the world, modulo the number of worlds.
    fn mark(&self) -> Mark {
        Mark::VerificationTag
    }
}
