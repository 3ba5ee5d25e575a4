//! How large a packet to a destination may be.
//!
//! The path MTU begins as the interface's and shrinks as ICMP tells. Sizes of
//! packets and chunks follow from it.
//!
//! Home of RFC 9260 §7.3.

use super::Path;
use anabranch_congestion::Controller;
use anabranch_wire::sctp::{Data, packet};

/// No path MTU below this is believed: smaller ones are attacks (RFC 8201 §4
/// for IPv6; for IPv4 as commonly deployed).
const SMALLEST_V4: u32 = 512;
const SMALLEST_V6: u32 = 1280;

impl Path {
    /// Largest SCTP packet, its common header included.
    #[inline]
    pub(crate) fn packet_limit(&self) -> usize {
        let ip = if self.address.is_ipv6() { 40 } else { 20 };
        let udp = if self.address.port() == 0 { 0 } else { 8 };
        ((self.mtu as usize).saturating_sub(ip + udp) & !3).max(packet::HEADER + Data::HEADER + 64)
    }

    /// PMDCS: the largest DATA chunk, its header included.
    #[inline]
    pub(crate) fn chunk_limit(&self) -> usize {
        self.packet_limit() - packet::HEADER
    }

    /// The network takes packets of at most `mtu` bytes. True when that is news.
    pub(crate) fn reduce_mtu(&mut self, mtu: u32) -> bool {
        let smallest = if self.address.is_ipv6() { SMALLEST_V6 } else { SMALLEST_V4 };
        let mtu = mtu.max(smallest);
        if mtu >= self.mtu {
            return false;
        }
        self.mtu = mtu;
        let chunk = self.chunk_limit() as u64;
        self.congestion.set_mss(chunk);
        true
    }
}
