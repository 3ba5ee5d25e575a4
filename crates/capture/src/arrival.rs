//! A captured packet of a conversation, with its sender, the place of capture, and the result of checking its checksum.

use super::frame::{IpPayload, Vantage};
use anabranch_wire::udp::Datagram;
use std::net::IpAddr;

/// A side of a conversation. 0 is side A, 1 is side B.
pub(super) type Side = usize;

/// An address and a port.
pub(super) type Endpoint = (IpAddr, u16);
/// Two endpoints in ascending order.
pub(super) type Pair = [Endpoint; 2];

/// Returns the key of both directions between two endpoints.
pub(super) fn pair(a: Endpoint, b: Endpoint) -> Pair {
    if a <= b { [a, b] } else { [b, a] }
}

/// Returns the source of a datagram, and the pair of its endpoints.
pub(super) fn endpoints(carried: &IpPayload<'_>, datagram: &Datagram<'_>) -> (Endpoint, Pair) {
    let source = (carried.source, datagram.source_port);
    (source, pair(source, (carried.target, datagram.target_port)))
}

/// The result of checking a packet's checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Checksum {
    Right,
    Wrong,
    /// The checksum is not computed yet. The sender's network card computes it after the capture.
    Left,
    /// The checksum cannot be checked: the capture kept only a part of the packet, or the packet has no checksum.
    Unknown,
}

/// A captured packet of a conversation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub at: u64,
    pub side: Side,
    pub source: IpAddr,
    pub target: IpAddr,
    /// The SCTP packet or TCP segment.
    pub bytes: &'a [u8],
    pub wire_len: u64,
    pub identification: u32,
    /// The names of the tunnels around the packet.
    pub tunnel: &'a [&'static str],
    pub vantage: Vantage,
    /// The number of the packet in the capture, counted from 1.
    pub number: u64,
    /// Whether the IP header has the ECN mark Congestion Experienced.
    pub is_marked: bool,
    pub checksum: Checksum,
    /// A hash of the packet's bytes, except for its checksum.
    pub digest: u64,
    /// True if a host never sends exactly these bytes twice in quick succession. A second packet with these bytes is
    /// then a copy that the network or the capture made.
    pub is_unique: bool,
    /// Whether the packet carries user data.
    pub is_data: bool,
}

impl<'a> Arrival<'a> {
    pub fn new(at: u64, side: Side, carried: &'a IpPayload<'_>, bytes: &'a [u8]) -> Self {
        Self {
            at,
            side,
            source: carried.source,
            target: carried.target,
            bytes,
            wire_len: carried.wire_len,
            identification: carried.identification,
            tunnel: &carried.tunnel,
            vantage: carried.vantage,
            number: carried.number,
            is_marked: carried.is_marked,
            checksum: Checksum::Unknown,
            digest: 0,
            is_unique: false,
            is_data: false,
        }
    }
}
