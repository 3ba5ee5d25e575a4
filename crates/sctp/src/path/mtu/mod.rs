//! How large a packet to a destination may be.
//!
//! The path MTU begins as the interface's and shrinks as ICMP tells, or is
//! searched for by probes ([`mod@search`]). Sizes of packets and chunks follow from
//! it.
//!
//! Home of RFC 9260 §7.3, and of the timers of RFC 8899 §5.1.1.

mod search;

pub(super) use search::Search;

pub(crate) use search::Change;

use super::Path;
use crate::config::{Config, PathMtu};
use anabranch_base::time::Duration;
use anabranch_congestion::Controller;
use anabranch_wire::sctp::{Data, packet};

/// No path MTU below this is believed: smaller ones are attacks (RFC 8201 §4
/// for IPv6; for IPv4 as commonly deployed).
const SMALLEST_V4: u32 = 512;
const SMALLEST_V6: u32 = 1280;

/// RFC 8899 §5.1.2, RFC 8261 §4: BASE_PLPMTU.
const BASE_V4: u32 = 1200;
const BASE_V6: u32 = 1280;

/// What most interfaces take, and what programs read that have DTLS in them: in one that reads 1500 bytes at a time (aiortc
/// 1.16.0) the rest of a larger record is taken for the records that follow.
const USUAL: u32 = 1500;

/// RFC 8899 §5.1.1: PROBE_TIMER is two round trips, and no less than this. (The 15 s that it
/// advises are for those who measure no round trips.)
const PROBE_TIMER: Duration = Duration::from_secs(1);
/// RFC 8899 §5.1.1: PMTU_RAISE_TIMER.
pub(crate) const RAISE_TIMER: Duration = Duration::from_secs(600);

/// What the search has found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Found {
    pub(crate) change: Change,
    /// The probe that was under way is so no more.
    pub(crate) ended: bool,
}

/// A probe that leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    /// Bytes of its IP packet.
    pub(crate) size: u32,
    /// PROBE_TIMER.
    pub(crate) timeout: Duration,
}

/// The search of a new path, when the configuration has one.
pub(super) fn search(config: &Config, v6: bool, interface: u32) -> Option<Box<Search>> {
    let smallest = if v6 { SMALLEST_V6 } else { SMALLEST_V4 };
    let base = if v6 { BASE_V6 } else { BASE_V4 };
    // RFC 8261 §4: what a layer adds counts against the size of an IP packet.
    let [smallest, base] = [smallest, base].map(|size| size.saturating_sub(config.layer_overhead) & !3);
    match config.pmtud {
        PathMtu::Icmp => None,
        PathMtu::Plpmtud => {
            let search = Search::new(base, interface, smallest);
            Some(Box::new(match config.layer_overhead {
                0 => search,
                overhead => search.at_most(USUAL - overhead.min(USUAL)),
            }))
        }
        PathMtu::Blackhole => Some(Box::new(Search::settled(base, interface, smallest))),
    }
}

impl Path {
    /// Bytes in front of an SCTP packet: IP header, and UDP's; none in a channel of datagrams.
    #[inline]
    pub(crate) fn headers(&self) -> usize {
        if self.address.ip().is_unspecified() {
            return 0;
        }
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

    /// How large the probe of the path MTU is that is wanted, as an SCTP packet.
    pub(crate) fn probe_limit(&self) -> usize {
        self.search.as_ref().map_or(self.packet_limit(), |search| search.probed() as usize - self.headers())
    }

    /// The path MTU is searched for by probes, or would be if it seemed to shrink.
    pub(crate) fn has_mtu_search(&self) -> bool {
        self.search.is_some()
    }

    /// A probe is wanted or under way.
    pub(crate) fn is_searching(&self) -> bool {
        self.search.as_ref().is_some_and(|search| !search.is_idle())
    }

    /// A probe is to be sent.
    pub(crate) fn wants_mtu_probe(&self) -> bool {
        self.search.as_ref().is_some_and(|search| search.is_wanted())
    }

    /// No probe is to be sent, and larger sizes may pass some day: worth PMTU_RAISE_TIMER.
    pub(crate) fn may_rise(&self) -> bool {
        self.search.as_ref().is_some_and(|search| search.is_idle() && search.may_rise())
    }

    /// The path can be used: its search begins, or goes on.
    pub(crate) fn begin_mtu_search(&mut self) {
        if let Some(search) = &mut self.search {
            search.suspend();
            search.begin();
        }
    }

    /// The path cannot be used: nothing is probed.
    pub(crate) fn suspend_mtu_search(&mut self) {
        if let Some(search) = &mut self.search {
            search.suspend();
        }
    }

    /// The wanted probe goes out under a nonce.
    pub(crate) fn send_mtu_probe(&mut self, nonce: u64) -> Option<Probe> {
        self.stats.seldom().mtu_probes += 1;
        // The RTO may have been backed off far, by the very packets that do not pass.
        let timeout = self.rtt.smoothed().map_or(self.rto(), |srtt| srtt * 2).max(PROBE_TIMER);
        let search = self.search.as_mut()?;
        search.probe_sent(nonce, self.stats.heartbeats_acked);
        Some(Probe { size: search.probed(), timeout })
    }

    /// A probe came back.
    pub(crate) fn on_mtu_probe_ack(&mut self, nonce: u64) -> Option<Found> {
        self.told(|search| search.on_ack(nonce))
    }

    /// PROBE_TIMER or PMTU_RAISE_TIMER ran out.
    pub(crate) fn on_mtu_timer(&mut self) -> Option<Found> {
        let answered = self.stats.heartbeats_acked;
        let search = self.search.as_mut()?;
        if !search.is_probing() {
            search.on_raise();
            return Some(Found { change: Change::Same, ended: false });
        }
        // RFC 8899 §3: only where small packets pass does the loss of large ones tell of sizes.
        // Whether they do, a HEARTBEAT of the usual size finds out.
        let pass = search.small_ones_pass(answered);
        if !pass {
            self.ask_heartbeat_once();
        }
        self.told(|search| search.on_probe_lost(pass))
    }

    /// The peer probes its own path MTU, and so reads large packets. True when that may mean larger ones.
    pub(crate) fn on_peer_probes(&mut self) -> bool {
        self.search.as_mut().is_some_and(|search| search.lift())
    }

    /// RFC 8899 §4.3: packets of the present size vanish.
    pub(crate) fn on_black_hole(&mut self) -> Option<Found> {
        let found = self.told(Search::on_black_hole)?;
        let ended = found.change == Change::Reduced;
        if ended {
            self.stats.seldom().black_holes += 1;
        }
        Some(Found { ended, ..found })
    }

    /// The network says that it takes packets of at most `mtu` bytes.
    pub(crate) fn on_too_big(&mut self, mtu: u32) -> Found {
        if let Some(found) = self.told(|search| search.on_too_big(mtu)) {
            return found;
        }
        let change = if self.reduce_mtu(mtu) { Change::Reduced } else { Change::Same };
        Found { change, ended: false }
    }

    /// The search is told something; what it has found is taken over.
    fn told(&mut self, tell: impl FnOnce(&mut Search) -> Change) -> Option<Found> {
        let search = self.search.as_deref_mut()?;
        let probing = search.is_probing();
        let change = tell(search);
        let (size, ended) = (search.size(), probing && !search.is_probing());
        if change != Change::Same {
            self.set_mtu(size);
        }
        Some(Found { change, ended })
    }

    /// The network takes packets of at most `mtu` bytes. True when that is news.
    fn reduce_mtu(&mut self, mtu: u32) -> bool {
        let smallest = if self.address.is_ipv6() { SMALLEST_V6 } else { SMALLEST_V4 };
        let mtu = mtu.max(smallest);
        if mtu >= self.mtu {
            return false;
        }
        self.set_mtu(mtu);
        true
    }

    /// Packets have this size at most from now on.
    fn set_mtu(&mut self, mtu: u32) {
        self.mtu = mtu;
        let chunk = self.chunk_limit() as u64;
        // From here on its window is more than what it began with says.
        self.congestion().0.set_mss(chunk);
    }
}
