//! A destination address of the peer and the state of the path to it.
//!
//! Each path has its own RTT and RTO, congestion window, bytes in flight, error counter, heartbeat and MTU. [`health`]
//! counts errors, [`heartbeat`] probes the path, and [`verify`] checks that an address is the peer's. [`select`]
//! chooses among paths. [`flight`] tracks data in flight, its acknowledgement and its loss. [`congestion`] has the
//! controller that limits data in flight. [`mtu`] sets packet sizes, and [`icmp`] reads ICMP messages.
//!
//! Implements RFC 9260 §14.3 (the data of a transport address).

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

/// The largest number of peer addresses that an association keeps.
pub(crate) const MAX_PATHS: usize = 16;

/// A destination address and the state of the path to it.
#[derive(Debug)]
pub(crate) struct Path {
    /// The destination address. Its port is the UDP encapsulation port, or 0 without UDP.
    address: SocketAddr,
    /// The local address that packets are sent from.
    source: SocketAddr,
    /// RFC 9260 §5.4: whether the address is confirmed to be the peer's.
    confirmed: bool,
    /// RFC 5061 §5.3 F13: whether the peer has deleted the address. The path stays in the list, because chunks may
    /// still refer to its index.
    removed: bool,
    /// RFC 5061 §5.3 F1: whether no local address can be used for this destination now.
    has_no_source: bool,
    /// RFC 9260 §8.2: whether the destination is active, that is, it answers.
    active: bool,
    /// RFC 7829 §3: whether the path is potentially failed. If it is, data is sent on an active path, if there is one.
    potentially_failed: bool,
    /// Whether the host had no route to the destination for the last packet.
    awaits_route: bool,
    /// RFC 7829 §3 (PFMR): the path becomes potentially failed after more errors than this number. With `None`, the
    /// path never becomes potentially failed.
    pf_max: Option<u32>,
    /// RFC 7829 §3 (9): chunks below this TSN offset may also have been sent to another destination. Their
    /// acknowledgement does not show that this path works.
    ambiguous_below: u64,
    /// Number of consecutive errors of this path.
    errors: u32,
    /// Counts the expirations of T3-rtx since data was last acknowledged. `None` if there were none. Unlike `errors`,
    /// this count is kept if a HEARTBEAT is answered while data is outstanding.
    unanswered: Option<Box<health::UnansweredData>>,
    rtt: RttEstimator,
    congestion: Congestion,
    /// The seed of the random numbers of the path's controllers.
    seed: u64,
    /// Number of bytes of DATA chunks in flight, headers and padding included.
    flight: u64,
    /// The number of calls of `poll_transmit` when a SACK last acknowledged new data of this path, if the congestion
    /// window was full at that time; otherwise `None`.
    window_full_at: Option<u64>,
    /// The lowest TSN offset in flight on this path, or a lower bound at which the search for the lowest TSN offset
    /// starts.
    earliest: u64,
    /// Whether `earliest` is only a lower bound, because the search for the lowest TSN offset ended early.
    is_earliest_a_bound: bool,
    /// RFC 9260 §6.3.1 C4: the chunk whose round trip is being measured, and its send time.
    timed: Option<(u64, Instant)>,
    heartbeat: Heartbeat,
    /// The path MTU in bytes, IP header included.
    mtu: u32,
    /// The search for a larger path MTU, if probes are used.
    search: Option<Box<mtu::Search>>,
    /// The send time of the last packet whose answer can give a round-trip sample.
    last_used: Instant,
    /// The time at which DATA was last sent; `Instant::MAX` for never.
    last_data: Instant,
    /// RFC 9260 §7.2.3: whether only one packet may be in flight. True from a timeout until DATA or a FORWARD TSN is
    /// acknowledged.
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
            has_no_source: false,
            active: true,
            potentially_failed: false,
            awaits_route: false,
            pf_max: config.pf_max_retrans,
            ambiguous_below: 0,
            errors: 0,
            unanswered: None,
            rtt,
            congestion: Congestion::Initial { config: config.clone(), max_chunk_size: mtu },
            seed: 0,
            flight: 0,
            window_full_at: None,
            earliest: 0,
            is_earliest_a_bound: false,
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

    /// Sets the seed of the controllers' random numbers. Must be called before data is sent.
    pub(crate) fn set_seed(&mut self, seed: u64) {
        self.seed = seed;
    }

    /// Resets congestion control (RFC 9260 §5.2.4 A, §7.2.5).
    fn reset_congestion(&mut self, config: &Arc<Config>) {
        let max_chunk_size = self.chunk_limit() as u32;
        self.congestion = Congestion::Initial { config: config.clone(), max_chunk_size };
    }

    /// Replaces the congestion controller.
    #[cfg(test)]
    pub(crate) fn use_controller(&mut self, config: &Config, controller: Algorithm) {
        self.congestion = Congestion::running(config, controller);
    }

    /// RFC 9260 §5.2.4 A: resets errors and congestion control, and empties the flight, after the peer has restarted.
    fn restart(&mut self, config: &Arc<Config>) {
        self.flight = 0;
        self.earliest = 0;
        self.timed = None;
        self.one_packet = false;
        self.errors = 0;
        self.unanswered = None;
        self.active = true;
        self.potentially_failed = false;
        self.ambiguous_below = 0;
        self.reset_congestion(config);
    }

    /// Stops using the address, because the peer does not list it: nothing is sent to it, not even a probe.
    pub(crate) fn withdraw(&mut self) {
        self.confirmed = false;
        self.active = false;
    }

    /// Changes the local address. Packets from another local address take another route, so measurements and congestion
    /// control start again.
    pub(crate) fn set_source(&mut self, config: &Arc<Config>, source: SocketAddr, mtu: u32) {
        let mut fresh = Self::new(config, self.address, source, mtu, self.last_used);
        fresh.confirmed = self.confirmed;
        fresh.set_seed(self.seed);
        fresh.flight = self.flight;
        fresh.earliest = self.earliest;
        fresh.heartbeat = std::mem::take(&mut self.heartbeat);
        fresh.last_data = self.last_data;
        fresh.stats = std::mem::take(&mut self.stats);
        if fresh.flight > 0 {
            // Create the congestion controller now: acknowledgements of the data in flight need it.
            fresh.congestion();
        }
        *self = fresh;
    }

    /// Returns the destination address. Its port is the UDP encapsulation port, or 0 without UDP.
    #[inline]
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns the local address that packets are sent from.
    #[inline]
    pub(crate) fn source(&self) -> SocketAddr {
        self.source
    }

    /// RFC 9260 §5.4: returns whether the address is confirmed to be the peer's.
    #[inline]
    pub(crate) fn is_confirmed(&self) -> bool {
        self.confirmed
    }

    /// RFC 9260 §5.4: confirms the address without a HEARTBEAT.
    pub(crate) fn confirm(&mut self) {
        self.confirmed = true;
    }

    /// RFC 5061 §5.3 F13: returns whether the peer has deleted the address. Its entry stays because chunks may refer to
    /// the index of the path.
    #[inline]
    pub(crate) fn is_removed(&self) -> bool {
        self.removed
    }

    /// RFC 5061 §5.3 F1: returns whether a local address can be used for this destination now.
    pub(crate) fn has_source(&self) -> bool {
        !self.has_no_source
    }

    /// RFC 5061 §5.3 F1: records that no local address can be used for this destination. The path stays unused until
    /// [`set_source`](Self::set_source).
    pub(crate) fn lose_source(&mut self) {
        self.has_no_source = true;
    }

    /// Records that a packet was sent whose answer can give a round-trip sample.
    pub(crate) fn on_used(&mut self, now: Instant) {
        self.last_used = now;
    }

    /// Counts a sent packet of `bytes` bytes.
    #[inline]
    pub(crate) fn count_sent(&mut self, bytes: u64) {
        self.stats.packets_sent += 1;
        self.stats.bytes_sent += bytes;
    }

    /// Counts a received packet of `bytes` bytes.
    #[inline]
    pub(crate) fn count_received(&mut self, bytes: u64) {
        self.stats.packets_received += 1;
        self.stats.bytes_received += bytes;
    }

    /// Returns whether data may be sent on this path: the address is confirmed and active, and there is a source
    /// address for it.
    #[inline]
    pub(crate) fn is_usable(&self) -> bool {
        self.confirmed && self.active && !self.has_no_source
    }

    /// Returns whether the peer's address is confirmed and this host has a source address for it, even if the path has
    /// failed.
    pub(crate) fn is_reachable(&self) -> bool {
        self.confirmed && !self.has_no_source
    }

    /// Returns whether the path is usable and not potentially failed.
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
