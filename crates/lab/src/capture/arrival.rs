//! One packet of a conversation, with its sender, the place where it was captured, and the result of its checksum.

use super::frame::{Carried, Vantage};
use std::net::IpAddr;

/// A side of the conversation: 0 is A, 1 is B.
pub(super) type Side = usize;

/// The result of a packet's checksum.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Checksum {
    Right,
    Wrong,
    /// Not computed yet: the network card will do that.
    Left,
    /// The packet was not captured completely, or has no checksum.
    Unknown,
}

/// One packet of a conversation.
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
    /// The tunnels that the packet travels in.
    pub tunnel: &'a [&'static str],
    pub vantage: Vantage,
    pub checksum: Checksum,
    /// A hash of the bytes without the checksum.
    pub digest: u64,
    /// Whether no host sends two packets with these bytes in quick succession.
    pub is_unique: bool,
    /// Whether the packet carries user data.
    pub is_data: bool,
}

impl<'a> Arrival<'a> {
    pub fn new(at: u64, side: Side, carried: &'a Carried<'_>, bytes: &'a [u8]) -> Self {
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
            checksum: Checksum::Unknown,
            digest: 0,
            is_unique: false,
            is_data: false,
        }
    }
}
