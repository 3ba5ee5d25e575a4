//! Determines the largest packet that may be sent to a destination.
//!
//! The path MTU starts as the interface MTU and shrinks when ICMP reports a smaller MTU. Alternatively, probes search
//! for the path MTU ([`mod@search`]). The sizes of packets and chunks follow from it.
//!
//! Implements RFC 9260 §7.3, and the timers of RFC 8899 §5.1.1.

mod search;

pub(super) use search::Search;

pub(crate) use search::MtuChange;

use super::Path;
use crate::config::{Config, PathMtu};
use anabranch_base::time::Duration;
use anabranch_congestion::Controller;
use anabranch_wire::sctp::{Data, packet};

/// The smallest path MTU that this side accepts, over IPv4 and over IPv6. Smaller values from ICMP are not used,
/// because an attacker may have forged the message (RFC 8201 §4 for IPv6; common practice for IPv4).
const SMALLEST_V4: u32 = 512;
const SMALLEST_V6: u32 = 1280;

/// RFC 8899 §5.1.2, RFC 8261 §4: BASE_PLPMTU in bytes.
const BASE_V4: u32 = 1200;
const BASE_V6: u32 = 1280;

/// Returns BASE_PLPMTU for IPv6 or IPv4.
pub(super) fn base_plpmtu(v6: bool) -> u32 {
    if v6 { BASE_V6 } else { BASE_V4 }
}

/// The MTU of most interfaces. Some DTLS programs (aiortc 1.16.0) read only 1500 bytes at a time, and mistake the rest
/// of a larger record for another record.
const USUAL: u32 = 1500;

/// The minimum of the probe timer of RFC 8899 §5.1.1. The timer normally runs for two round-trip times. The 15 s that
/// the RFC advises are for senders that do not measure round-trip times.
const PROBE_TIMER: Duration = Duration::from_secs(1);
/// RFC 8899 §5.1.1: the value of PMTU_RAISE_TIMER.
pub(crate) const RAISE_TIMER: Duration = Duration::from_secs(600);

/// The result of a step of the MTU search.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct SearchResult {
    pub(crate) change: MtuChange,
    /// Whether the outstanding probe has ended.
    pub(crate) ended: bool,
}

/// A path MTU probe that is being sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Probe {
    /// The size of the probe's IP packet in bytes.
    pub(crate) size: u32,
    /// The value of PROBE_TIMER for this probe.
    pub(crate) timeout: Duration,
}

/// Creates the MTU search of a new path, if the configuration uses one.
pub(super) fn search(config: &Config, v6: bool, interface: u32) -> Option<Box<Search>> {
    let smallest = if v6 { SMALLEST_V6 } else { SMALLEST_V4 };
    let base = base_plpmtu(v6);
    // RFC 8261 §4: a lower layer such as DTLS occupies `layer_overhead` bytes of each IP packet.
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
    /// Returns the number of bytes before an SCTP packet: the IP header, and the UDP header if there is one. The
    /// number is 0 over a datagram channel.
    #[inline]
    pub(crate) fn headers(&self) -> usize {
        if self.address.ip().is_unspecified() {
            return 0;
        }
        let ip = if self.address.is_ipv6() { 40 } else { 20 };
        ip + if self.address.port() == 0 { 0 } else { 8 }
    }

    /// Returns the size of the largest SCTP packet in bytes, common header included.
    #[inline]
    pub(crate) fn packet_limit(&self) -> usize {
        ((self.mtu as usize).saturating_sub(self.headers()) & !3).max(packet::HEADER + Data::HEADER + 64)
    }

    /// Returns PMDCS: the size of the largest DATA chunk in bytes, chunk header included.
    #[inline]
    pub(crate) fn chunk_limit(&self) -> usize {
        self.packet_limit() - packet::HEADER
    }

    /// Returns the size in bytes of the SCTP packet for the next path MTU probe: the probed MTU without the IP and UDP
    /// headers.
    pub(crate) fn probe_limit(&self) -> usize {
        self.search.as_ref().map_or(self.packet_limit(), |search| search.probed() as usize - self.headers())
    }

    /// Returns whether the configuration uses probes to search for the path MTU, at once or after a suspected black
    /// hole.
    pub(crate) fn has_mtu_search(&self) -> bool {
        self.search.is_some()
    }

    /// Returns whether a probe is due or outstanding.
    pub(crate) fn is_searching(&self) -> bool {
        self.search.as_ref().is_some_and(|search| !search.is_idle())
    }

    /// Returns whether a probe is to be sent.
    pub(crate) fn wants_mtu_probe(&self) -> bool {
        self.search.as_ref().is_some_and(|search| search.is_wanted())
    }

    /// Returns whether PMTU_RAISE_TIMER must run: no probe is due or unanswered, but a later probe may find a larger
    /// path MTU.
    pub(crate) fn may_rise(&self) -> bool {
        self.search.as_ref().is_some_and(|search| search.is_idle() && search.may_rise())
    }

    /// Starts or resumes the MTU search, because the path can be used.
    pub(crate) fn begin_mtu_search(&mut self) {
        if let Some(search) = &mut self.search {
            search.suspend();
            search.begin();
        }
    }

    /// Stops probing, because the path cannot be used.
    pub(crate) fn suspend_mtu_search(&mut self) {
        if let Some(search) = &mut self.search {
            search.suspend();
        }
    }

    /// Records that an MTU probe with this nonce is sent. Returns the size and the timeout of the probe.
    pub(crate) fn send_mtu_probe(&mut self, nonce: u64) -> Option<Probe> {
        self.stats.rare_mut().mtu_probes += 1;
        // Lost packets may have doubled the RTO many times, so the timeout is computed from the smoothed round-trip
        // time, if that is known.
        let timeout = self.rtt.smoothed().map_or(self.rto(), |srtt| srtt * 2).max(PROBE_TIMER);
        let search = self.search.as_mut()?;
        search.probe_sent(nonce, self.stats.heartbeats_acked.into());
        Some(Probe { size: search.probed(), timeout })
    }

    /// Records that the probe with this nonce was acknowledged.
    pub(crate) fn on_mtu_probe_ack(&mut self, nonce: u64) -> Option<SearchResult> {
        self.apply_to_search(|search| search.on_ack(nonce))
    }

    /// Handles an expiry of PROBE_TIMER or PMTU_RAISE_TIMER.
    pub(crate) fn on_mtu_timer(&mut self) -> Option<SearchResult> {
        let answered = self.stats.heartbeats_acked.into();
        let search = self.search.as_mut()?;
        if !search.is_probing() {
            search.on_raise();
            return Some(SearchResult { change: MtuChange::Same, ended: false });
        }
        // RFC 8899 §3: a lost large packet shows a size limit only if small packets arrive. So a HEARTBEAT of the usual
        // size is sent to check this.
        let pass = search.small_packets_pass(answered);
        if !pass {
            self.ask_heartbeat_once();
        }
        self.apply_to_search(|search| search.on_probe_lost(pass))
    }

    /// Records that the peer probes its own path MTU. Such a peer is assumed to receive packets as large as this host's
    /// interface MTU, so the search may use sizes up to this MTU. Returns true if this side may now be able to send
    /// larger packets.
    pub(crate) fn on_peer_probes(&mut self) -> bool {
        self.search.as_mut().is_some_and(|search| search.lift())
    }

    /// RFC 8899 §4.3: reacts to a black hole, in which packets of the current size are lost.
    pub(crate) fn on_black_hole(&mut self) -> Option<SearchResult> {
        let found = self.apply_to_search(Search::on_black_hole)?;
        let ended = found.change == MtuChange::Reduced;
        if ended {
            self.stats.rare_mut().black_holes += 1;
        }
        Some(SearchResult { ended, ..found })
    }

    /// Reacts to an ICMP message: the network forwards packets of at most `mtu` bytes.
    pub(crate) fn on_too_big(&mut self, mtu: u32) -> SearchResult {
        if let Some(found) = self.apply_to_search(|search| search.on_too_big(mtu)) {
            return found;
        }
        let change = if self.reduce_mtu(mtu) { MtuChange::Reduced } else { MtuChange::Same };
        SearchResult { change, ended: false }
    }

    /// Informs the MTU search of an event by calling `tell`, and sets the path MTU that the search returns. Does
    /// nothing without a search.
    fn apply_to_search(&mut self, tell: impl FnOnce(&mut Search) -> MtuChange) -> Option<SearchResult> {
        let search = self.search.as_deref_mut()?;
        let probing = search.is_probing();
        let change = tell(search);
        let (size, ended) = (search.size(), probing && !search.is_probing());
        if change != MtuChange::Same {
            self.set_mtu(size);
        }
        Some(SearchResult { change, ended })
    }

    /// Lowers the path MTU to `mtu`. Returns true if the path MTU changed.
    fn reduce_mtu(&mut self, mtu: u32) -> bool {
        let smallest = if self.address.is_ipv6() { SMALLEST_V6 } else { SMALLEST_V4 };
        let mtu = mtu.max(smallest);
        if mtu >= self.mtu {
            return false;
        }
        self.set_mtu(mtu);
        true
    }

    /// Sets the path MTU.
    fn set_mtu(&mut self, mtu: u32) {
        self.mtu = mtu;
        let chunk = self.chunk_limit() as u64;
        // Create the congestion controller if it does not exist yet. Its initial window is still computed from the MTU
        // before the change.
        self.congestion().0.set_mss(chunk);
    }
}
