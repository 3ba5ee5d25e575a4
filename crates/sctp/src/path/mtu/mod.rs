//! How large a packet to a destination may be.
//!
//! The path MTU begins as the interface's and shrinks as ICMP tells, or is
//! searched for by probes ([`mod@search`]). Sizes of packets and chunks follow from
//! it.
//!
//! Home of RFC 9260 §7.3, and of the timers of RFC 8899 §5.1.1.

mod search;

pub(crate) use search::{Change, Search};

use super::Path;
use crate::config::{Config, PathMtu};
use anabranch_base::time::Duration;
use anabranch_congestion::Controller;
use anabranch_wire::sctp::{Data, packet};

/// No path MTU below this is believed: smaller ones are attacks (RFC 8201 §4
/// for IPv6; for IPv4 as commonly deployed).
const SMALLEST_V4: u32 = 512;
const SMALLEST_V6: u32 = 1280;

/// RFC 8899 §5.1.1: PROBE_TIMER is two round trips, and no less than this. (The 15 s that it
/// advises are for those who measure no round trips.)
pub(crate) const PROBE_TIMER: Duration = Duration::from_secs(1);
/// RFC 8899 §5.1.1: PMTU_RAISE_TIMER.
pub(crate) const RAISE_TIMER: Duration = Duration::from_secs(600);

/// The search of a new path, when the configuration has one.
pub(crate) fn search(config: &Config, v6: bool, interface: u32) -> Option<Box<Search>> {
    let smallest = if v6 { SMALLEST_V6 } else { SMALLEST_V4 };
    match config.pmtud {
        PathMtu::Icmp => None,
        PathMtu::Plpmtud => Some(Box::new(Search::new(v6, interface, smallest))),
        PathMtu::Blackhole => Some(Box::new(Search::settled(v6, interface, smallest))),
    }
}

impl Path {
    /// Bytes in front of an SCTP packet: IP header, and UDP's.
    #[inline]
    pub(crate) fn headers(&self) -> usize {
        let ip = if self.address.is_ipv6() { 40 } else { 20 };
        ip + if self.address.port() == 0 { 0 } else { 8 }
    }

    /// Largest SCTP packet, its common header included.
    #[inline]
    pub(crate) fn packet_limit(&self) -> usize {
        ((self.mtu as usize).saturating_sub(self.headers()) & !3).max(packet::HEADER + Data::HEADER + 64)
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
        self.set_mtu(mtu);
        true
    }

    /// Packets have this size at most from now on.
    pub(crate) fn set_mtu(&mut self, mtu: u32) {
        self.mtu = mtu;
        let chunk = self.chunk_limit() as u64;
        self.congestion.set_mss(chunk);
    }
}
