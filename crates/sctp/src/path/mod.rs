//! One destination address and all it remembers.
//!
//! RTT and RTO, congestion window, flight, error counter, heartbeat, MTU: all
//! that differs between the ways to a peer is here, once per way.
//! [`health`] counts errors, [`heartbeat`] probes, [`verify`] decides whose
//! address it is, [`select`] picks among paths, [`flight`] knows what is on its
//! way and what its acknowledgement or loss means, [`congestion`] what decides
//! how much that may be, [`mtu`] knows sizes,
//! [`icmp`] reads what the network says. Others tell a path what has happened.
//!
//! Home of RFC 9260 §14.3.

mod congestion;
mod error_counter;
pub(crate) mod flight;
pub(crate) mod health;
pub(crate) mod heartbeat;
pub(crate) mod icmp;
pub(crate) mod loss_control;
pub(crate) mod mtu;
pub(crate) mod select;
pub(crate) mod verify;

use crate::config::{Config, GRANULARITY};
use crate::counters::PathCounters;
use crate::stats::{PathInfo, PathState};
use anabranch_base::Instant;
#[cfg(test)]
use anabranch_congestion::Algorithm;
use anabranch_congestion::{RttConfig, RttEstimator};
use congestion::Congestion;
use heartbeat::Heartbeat;
use std::net::SocketAddr;
use std::sync::Arc;

/// Most addresses of a peer that are remembered.
pub(crate) const MAX_PATHS: usize = 16;

/// One destination.
#[derive(Debug)]
pub(crate) struct Path {
    /// Where to; the port is the UDP encapsulation port, or 0.
    address: SocketAddr,
    /// The local address packets leave from.
    source: SocketAddr,
    /// RFC 9260 §5.4: it is known to be the peer's.
    confirmed: bool,
    /// RFC 5061 §5.3 F13: the peer has taken it away; the place is kept for what still names it.
    removed: bool,
    /// RFC 5061 §5.3 F1: no local address may be used towards it now.
    sourceless: bool,
    /// RFC 9260 §8.2: it answers.
    active: bool,
    /// RFC 7829 §3: it may have failed: data goes elsewhere while something else is active.
    potentially_failed: bool,
    /// The host knew no way there when something was last to be sent.
    unsent: bool,
    /// RFC 7829 §3 (PFMR): errors that it survives without that; `None` for never.
    pf_max: Option<u32>,
    /// RFC 7829 §3 (9): below this offset a chunk may have been sent elsewhere before.
    moved: u64,
    /// Consecutive errors.
    errors: u32,
    /// Timeouts of data that HEARTBEATs do not excuse.
    unanswered: Option<Box<health::UnansweredData>>,
    rtt: RttEstimator,
    congestion: Congestion,
    /// What its controllers draw their chances from.
    seed: u64,
    /// Bytes of DATA chunks in flight, their headers and padding included.
    flight: u64,
    /// The last SACK found the window full, after so many chances to send (`Paths::polls`).
    full_at: Option<u64>,
    /// The lowest offset in flight here, at or after which the search for it begins.
    earliest: u64,
    /// It is not below that, but was not found: there was too much to look at.
    earliest_unsure: bool,
    /// RFC 9260 §6.3.1 C4: the chunk whose round trip is being measured.
    timed: Option<(u64, Instant)>,
    heartbeat: Heartbeat,
    /// IP header included.
    mtu: u32,
    /// The search for a larger one, when it is by probes.
    search: Option<Box<mtu::Search>>,
    /// When something that can measure the round trip was last sent.
    last_used: Instant,
    /// When DATA was last sent; `Instant::MAX` for never.
    last_data: Instant,
    /// RFC 9260 §7.2.3: after a timeout one packet only, until something is acknowledged.
    one_packet: bool,
    stats: PathCounters,
}

impl Path {
    pub(crate) fn new(
        config: &Arc<Config>,
        address: SocketAddr,
        source: SocketAddr,
        mtu: u32,
        now: Instant,
    ) -> Self {
        let rtt = RttEstimator::new(RttConfig {
            rto_initial: config.rto_initial,
            rto_min: config.rto_min,
            rto_max: config.rto_max,
            granularity: config.rto_var_min.max(GRANULARITY),
        });
        let search = mtu::search(config, address.is_ipv6(), mtu);
        let mtu = search.as_ref().map_or(mtu, |search| search.size());
        let mut path = Self {
            address,
            source,
            confirmed: false,
            removed: false,
            sourceless: false,
            active: true,
            potentially_failed: false,
            unsent: false,
            pf_max: config.pf_max_retrans,
            moved: 0,
            errors: 0,
            unanswered: None,
            rtt,
            congestion: Congestion::Initial { config: config.clone(), chunk: mtu },
            seed: 0,
            flight: 0,
            full_at: None,
            earliest: 0,
            earliest_unsure: false,
            timed: None,
            heartbeat: Heartbeat::default(),
            mtu,
            search,
            last_used: now,
            last_data: Instant::MAX,
            one_packet: false,
            stats: PathCounters::default(),
        };
        path.reset_congestion(config);
        path
    }

    /// Its controllers draw their chances from `seed`; nothing has been sent yet.
    pub(crate) fn draw_from(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Congestion control begins anew (RFC 9260 §5.2.4 A, §7.2.5).
    fn reset_congestion(&mut self, config: &Arc<Config>) {
        let chunk = self.chunk_limit() as u32;
        self.congestion = Congestion::Initial { config: config.clone(), chunk };
    }

    /// Has `controller` decide from here on.
    #[cfg(test)]
    pub(crate) fn use_controller(&mut self, config: &Config, controller: Algorithm) {
        self.congestion = Congestion::running(config, controller);
    }

    /// RFC 9260 §5.2.4 A: the peer has restarted: nothing is on its way, and all it did before counts no more.
    fn restart(&mut self, config: &Arc<Config>) {
        self.flight = 0;
        self.earliest = 0;
        self.timed = None;
        self.one_packet = false;
        self.errors = 0;
        self.unanswered = None;
        self.active = true;
        self.potentially_failed = false;
        self.moved = 0;
        self.reset_congestion(config);
    }

    /// The peer does not list this address: nothing goes there, not even a probe.
    pub(crate) fn withdraw(&mut self) {
        self.confirmed = false;
        self.active = false;
    }

    /// Packets leave from another local address: another way, of which nothing is known yet.
    pub(crate) fn leave_from(&mut self, config: &Arc<Config>, source: SocketAddr, mtu: u32) {
        let mut fresh = Self::new(config, self.address, source, mtu, self.last_used);
        fresh.confirmed = self.confirmed;
        fresh.draw_from(self.seed);
        fresh.flight = self.flight;
        fresh.earliest = self.earliest;
        fresh.heartbeat = std::mem::take(&mut self.heartbeat);
        fresh.last_data = self.last_data;
        fresh.stats = std::mem::take(&mut self.stats);
        if fresh.flight > 0 {
            // What is on its way is waited for from here.
            fresh.congestion();
        }
        *self = fresh;
    }

    /// Where to; the port is the UDP encapsulation port, or 0.
    #[inline]
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// The local address packets leave from.
    #[inline]
    pub(crate) fn source(&self) -> SocketAddr {
        self.source
    }

    /// RFC 9260 §5.4: it is known to be the peer's.
    #[inline]
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// RFC 9260 §5.4: it is known to be the peer's without a HEARTBEAT.
    pub(crate) fn confirm(&mut self) {
        self.confirmed = true;
    }

    /// RFC 5061 §5.3 F13: the peer has taken it away; the place is kept for what still names it.
    #[inline]
    pub(crate) fn is_removed(&self) -> bool {
        self.removed
    }

    /// RFC 5061 §5.3 F1: some local address may be used towards it now.
    pub(crate) fn has_source(&self) -> bool {
        !self.sourceless
    }

    /// RFC 5061 §5.3 F1: no local address may be used towards it until [`leave_from`](Self::leave_from).
    pub(crate) fn lose_source(&mut self) {
        self.sourceless = true;
    }

    /// A packet has left that can measure the round trip.
    pub(crate) fn on_used(&mut self, now: Instant) {
        self.last_used = now;
    }

    /// A packet of `bytes` has left.
    #[inline]
    pub(crate) fn count_sent(&mut self, bytes: u64) {
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += bytes;
    }

    /// A packet has come.
    #[inline]
    pub(crate) fn count_received(&mut self) {
        self.stats.packets_received += 1;
    }

    /// Verified and answering: data may go there.
    #[inline]
    pub(crate) fn is_usable(&self) -> bool {
        self.confirmed && self.active && !self.sourceless
    }

    /// Data may go there, whether it answers or not.
    pub(crate) fn is_reachable(&self) -> bool {
        self.confirmed && !self.sourceless
    }

    /// Nothing speaks against it.
    #[inline]
    pub(crate) fn is_sound(&self) -> bool {
        self.is_usable() && !self.potentially_failed
    }

    pub(crate) fn info(&self, (primary, current): (bool, bool)) -> PathInfo {
        PathInfo {
            address: self.address.ip(),
            encapsulation_port: self.address.port(),
            source: self.source.ip(),
            state: match (self.confirmed, self.active) {
                (_, false) => PathState::Inactive,
                (false, true) => PathState::Unconfirmed,
                (true, true) if self.potentially_failed => PathState::PotentiallyFailed,
                (true, true) => PathState::Active,
            },
            primary,
            current,
            removed: self.removed,
            cwnd: self.window(),
            ssthresh: self.threshold(),
            flight: self.flight,
            rto: self.rto(),
            srtt: self.rtt.smoothed(),
            errors: self.errors,
            mtu: self.mtu,
            stats: self.stats.stats(),
        }
    }
}
