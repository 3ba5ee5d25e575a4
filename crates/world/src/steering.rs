//! Which of several worlds behind one port, or one IP protocol, a packet is for.
//!
//! A world is one thread; a server with more threads is so many worlds. The
//! network hands each packet to one of them by a rule of its own, and what is
//! said here counts where the two differ.

use anabranch_base::Icmp;
use std::net::IpAddr;

/// Where packets say for whom they are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mark {
    /// In SCTP's common header, or in an INIT (RFC 9260 §3.1, §3.3.2).
    VerificationTag,
    /// In the first four bytes of QUIC's destination connection id (RFC 9000 §17.2, §17.3), which has as many.
    ConnectionId,
}

/// What knows for whom packets are. Asked by all worlds of a group, from their threads.
pub trait Steering: Send + Sync + std::fmt::Debug {
    /// The world, counted from 0, that a packet from this address is for;
    /// `None`: whichever has it.
    fn owner(&self, source: IpAddr, packet: &[u8]) -> Option<u32>;

    /// The same of a report about a packet that was sent, `quoted` its beginning.
    fn owner_of_report(&self, icmp: &Icmp, quoted: &[u8]) -> Option<u32>;

    /// Where in a packet of UDP the host finds the number that says so, modulo the number of worlds.
    fn mark(&self) -> Mark {
        Mark::VerificationTag
    }
}
