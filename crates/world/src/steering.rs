//! Assigns each packet to one of several threads behind one port or one IP protocol.
//!
//! A server with several threads has one `World` in each thread. The kernel delivers each packet to one of the threads
//! by its own rule. If that rule and [`Steering`] choose different threads, the packet is passed on to the thread that
//! [`Steering`] chose.

use anabranch_base::Icmp;
use std::net::IpAddr;

/// The field of a packet that determines which thread gets the packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SteeringField {
    /// The verification tag in SCTP's common header, or the initiate tag of an INIT (RFC 9260 §3.1, §3.3.2).
    VerificationTag,
    /// The first four bytes of QUIC's destination connection id (RFC 9000 §17.2, §17.3). The id must have at least four
    /// bytes.
    ConnectionId,
}

/// Identifies the thread that a packet is for. All threads of a server call the same object.
pub trait Steering: Send + Sync + std::fmt::Debug {
    /// Returns the index of the thread that handles a packet from `source`, counted from 0. With `None`, the thread
    /// that received the packet handles it.
    fn owner(&self, source: IpAddr, packet: &[u8]) -> Option<u32>;

    /// Returns the index of the thread that handles an ICMP report. `quoted` is the beginning of the packet that the
    /// report quotes.
    fn owner_of_report(&self, icmp: &Icmp, quoted: &[u8]) -> Option<u32>;

    /// Returns the field of a UDP packet by which the kernel chooses the thread. The field's value modulo the number of
    /// threads is the index of the thread.
    fn field(&self) -> SteeringField {
        SteeringField::VerificationTag
    }
}
