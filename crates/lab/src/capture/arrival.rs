//! One packet of a conversation, placed: who sent it, where it was captured,
//! and what its checksum says of it.

use super::frame::{Carried, Vantage};
use std::net::IpAddr;

/// Which side: 0 is A, 1 is B.
pub(super) type Side = usize;

/// What a packet's checksum says of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Checksum {
    Right,
    Wrong,
    /// Not computed yet: the network card does that.
    Left,
    /// Not all of the packet was captured, or it has none.
    Unknown,
}

/// One packet of a conversation, placed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival<'a> {
    pub at: u64,
    pub side: Side,
    pub source: IpAddr,
    pub target: IpAddr,
    /// SCTP packet or TCP segment.
    pub bytes: &'a [u8],
    pub wire_len: u64,
    pub identification: u32,
    /// Tunnels that the packet travels in.
    pub tunnel: &'a [&'static str],
    pub vantage: Vantage,
    pub checksum: Checksum,
    /// The bytes as a number, without the checksum.
    pub digest: u64,
    /// Nobody sends two packets of these bytes in a moment.
    pub is_unique: bool,
    /// The packet carries user data.
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
