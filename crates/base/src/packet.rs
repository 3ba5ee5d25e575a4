//! The input that an engine gets from the layer below it: packets, ICMP errors, and whether peers can be reached.

use std::net::{IpAddr, SocketAddr};

/// Whether a layer below the engine can carry packets to a peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PeerState {
    /// Packets can be sent to the peer.
    Ready,
    /// Packets can no longer be sent to the peer. All connections with the peer have ended.
    Lost,
}

/// The two ECN bits of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// The transport is not ECN-capable.
    #[default]
    NotEct = 0b00,
    /// The transport is ECN-capable, codepoint ECT(1).
    Ect1 = 0b01,
    /// The transport is ECN-capable, codepoint ECT(0).
    Ect0 = 0b10,
    /// A router has marked congestion: codepoint CE.
    Ce = 0b11,
}

impl Ecn {
    /// Returns the codepoint in the low two bits of `bits`.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// A received transport packet: the bytes after the IP header (on raw sockets) or after the UDP header (if
/// encapsulated). The ports in the addresses are those of UDP, or 0 on raw sockets.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The source address of the packet.
    pub source: SocketAddr,
    /// The local address to which the packet was sent.
    pub target: SocketAddr,
    /// The ECN codepoint with which the packet arrived.
    pub ecn: Ecn,
    /// The sender's number for this packet (see [`SendBatch::first_tag`](crate::SendBatch::first_tag)), or 0 if
    /// unknown. For traces only; it must never influence a protocol.
    pub tag: u64,
    /// The transport header and the bytes after it.
    pub payload: &'a [u8],
}

/// An ICMP error about a packet that this host sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Icmp {
    /// The type of the error.
    pub kind: IcmpKind,
    /// The source address of the quoted packet, which is an address of this host.
    pub source: IpAddr,
    /// The target address of the quoted packet, which is the peer's address.
    pub target: IpAddr,
}

/// The type of an ICMP error.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpKind {
    /// A router cannot forward packets larger than this many bytes, including the IP header.
    TooBig(u32),
    /// Destination unreachable, with the code of ICMPv4 (RFC 792) or ICMPv6 (RFC 4443).
    Unreachable(u8),
    /// The host does not support the protocol after the IP header: ICMPv6 parameter problem, unrecognized next header
    /// (RFC 4443 §3.4). ICMPv4 reports this as `Unreachable(2)`.
    UnknownNextHeader,
}
