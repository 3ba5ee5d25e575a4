//! Decides whether a destination address still answers.
//!
//! Owns the error counter of a path. HEARTBEATs are small, so they may arrive although data is lost. Possible causes
//! are a path MTU black hole, a peer with small buffers, and a queue that drops only data. After a few timeouts of data
//! in a row, an answered HEARTBEAT therefore no longer clears the errors of the path.
//!
//! Implements RFC 9260 §8.2 and RFC 7829 §3. The error counter of the association (RFC 9260 §8.1) is in
//! `error_counter`.

use super::{Path, mtu};
use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// The number of consecutive T3-rtx expirations that may happen by chance. After more expirations, the path probably
/// drops all data, so an answered HEARTBEAT no longer clears the errors of the path. The value is MAX_PROBES of RFC
/// 8899 §5.1.2.
const EXCUSED: u32 = 3;
/// The number of consecutive timeouts above which the loss of data is no coincidence, although HEARTBEATs are answered.
/// The value is the default of Path.Max.Retrans in RFC 9260 §16. A smaller configured Path.Max.Retrans makes the path
/// fail earlier, but does not end the association earlier.
const NO_COINCIDENCE: u32 = 5;

/// The T3-rtx expirations since data was last acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnansweredData {
    timeouts: u32,
    /// The time at which T3-rtx last expired.
    last: Instant,
    /// Whether the peer has answered a HEARTBEAT since the first of the T3-rtx expirations that `timeouts` counts.
    heartbeats_pass: bool,
    /// The number of expirations in `timeouts` that occurred while the lowest chunk was too large for the path.
    too_large: u32,
}

impl UnansweredData {
    /// Returns whether T3-rtx has expired more than [`EXCUSED`] times since data was last acknowledged, although a
    /// HEARTBEAT was answered.
    fn is_lost_for_good(&self) -> bool {
        self.timeouts > EXCUSED && self.heartbeats_pass
    }
}

/// The input for the decision whether an answered HEARTBEAT clears the errors of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// Whether data is outstanding.
    pub(crate) outstanding: bool,
    /// The time from the last timeout until data is tried again on a path that answers HEARTBEATs but loses data. With
    /// `None`, data is not sent on this path again.
    pub(crate) retry: Option<Duration>,
    /// The value of Path.Max.Retrans.
    pub(crate) max_retrans: u32,
}

/// How an error has changed the state of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum HealthChange {
    /// The state has not changed.
    Same,
    /// The path has become potentially failed.
    PotentiallyFailed,
    /// The path has failed.
    Down,
}

impl Path {
    /// Counts an expiry of T3-rtx as an error of the path. `max_retrans` is Path.Max.Retrans.
    pub(crate) fn on_timeout(&mut self, now: Instant, max_retrans: u32) -> HealthChange {
        let unanswered = self.unanswered.get_or_insert_default();
        unanswered.timeouts = unanswered.timeouts.saturating_add(1);
        unanswered.last = now;
        if unanswered.is_lost_for_good() {
            // RFC 9260 §8.2: the error counter is the number of consecutive errors. Here it includes errors that
            // HEARTBEAT ACKs had cleared, because the data is still not acknowledged.
            self.errors = self.errors.max(unanswered.timeouts - 1);
        }
        self.on_error(now, max_retrans)
    }

    /// Returns whether the peer answers HEARTBEATs but does not acknowledge data: since T3-rtx first expired, a
    /// HEARTBEAT was answered, but no data was acknowledged.
    pub(crate) fn passes_heartbeats_only(&self) -> bool {
        self.unanswered.as_ref().is_some_and(|unanswered| unanswered.heartbeats_pass)
    }

    /// Returns whether data has been lost too often to be a coincidence, although all HEARTBEATs were answered.
    pub(crate) fn delivers_heartbeats_only(&self) -> bool {
        let lost = self.unanswered.as_ref().is_some_and(|unanswered| unanswered.is_lost_for_good());
        lost && !self.awaits_heartbeat_ack()
    }

    /// Counts a timeout at which the chunk with the lowest TSN no longer fits the path's MTU. `size` is the chunk's
    /// size in bytes. Returns whether the path seems to drop all packets of that size. Three conditions must hold:
    /// `size` exceeds BASE_PLPMTU, which every path delivers (RFC 8899 §5.1.2); the peer answers HEARTBEATs; and there
    /// were more timeouts than random losses explain.
    pub(crate) fn on_too_large_timeout(&mut self, size: u64) -> bool {
        let above_base = size > u64::from(mtu::base_plpmtu(self.address().is_ipv6()));
        let passes = !self.awaits_heartbeat_ack();
        self.unanswered.as_mut().is_some_and(|unanswered| {
            unanswered.too_large += 1;
            let certain = unanswered.timeouts > NO_COINCIDENCE && unanswered.too_large >= EXCUSED;
            above_base && passes && unanswered.heartbeats_pass && certain
        })
    }

    /// Updates the path when a HEARTBEAT ACK arrives. `rtt` is the time since the HEARTBEAT was sent. Returns true if
    /// the path recovered from a failure.
    pub(super) fn on_heartbeat_answered(&mut self, now: Instant, rtt: Duration, evidence: Evidence) -> bool {
        let Evidence { outstanding, retry, max_retrans } = evidence;
        if !outstanding {
            // RFC 9260 §8.3: an answered HEARTBEAT makes the address active again.
            self.rtt.on_sample(rtt);
            return self.on_answer(now);
        }
        let mut unanswered = self.unanswered.take();
        if let Some(unanswered) = &mut unanswered {
            unanswered.heartbeats_pass = true;
        }
        let mut errors = 0;
        if let Some(lost) = unanswered.as_ref().filter(|it| it.is_lost_for_good()) {
            // RFC 9260 §8.1: HEARTBEATs may reach an address that DATA does not reach. So while data is outstanding, a
            // HEARTBEAT ACK clears neither the error counters of the path and of the association nor the back-off of
            // the RTO (§6.3.3 E2).
            if retry.is_none_or(|wait| now < lost.last + wait) {
                self.unanswered = unanswered;
                return false;
            }
            // The answer lowers the error counter to Path.Max.Retrans or less, so the path is active and gets data
            // again. If the counter is equal to Path.Max.Retrans, the next timeout makes the path fail again.
            errors = self.errors.min(max_retrans);
        }
        // RFC 9260 §8.3: an answered HEARTBEAT gives a round-trip sample.
        self.rtt.on_sample(rtt);
        let revived = self.on_answer(now);
        (self.errors, self.unanswered) = (errors, unanswered);
        revived
    }

    /// Counts an error: T3-rtx expired, or a HEARTBEAT was not answered within the RTO. `max_retrans` is
    /// Path.Max.Retrans.
    pub(crate) fn on_error(&mut self, now: Instant, max_retrans: u32) -> HealthChange {
        self.heartbeat.count_silence();
        if !self.active {
            // RFC 9260 §8.3: the errors of a failed path are not counted. With RFC 7829 these errors are counted, up to
            // ten times the limit, because failed paths are compared by their errors (§4.1 (3)).
            if self.pf_max.is_some() && self.errors < 10 * (max_retrans + 1) {
                self.errors += 1;
            }
            return HealthChange::Same;
        }
        self.errors += 1;
        if self.errors > max_retrans {
            self.active = false;
            self.potentially_failed = false;
            self.stats.rare_mut().failures += 1;
            self.stats.rare_mut().last_down = Some(now);
            return HealthChange::Down;
        }
        // RFC 7829 §3 (2): a path with more errors than PFMR is potentially failed.
        if !self.potentially_failed
            && self.confirmed
            && self.pf_max.is_some_and(|pf_max| self.errors > pf_max)
        {
            self.potentially_failed = true;
            return HealthChange::PotentiallyFailed;
        }
        HealthChange::Same
    }

    /// Returns the number of consecutive errors.
    pub(crate) fn errors(&self) -> u32 {
        self.errors
    }

    /// RFC 9260 §8.2: returns whether the destination address is active.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// RFC 7829 §3: returns whether the path is potentially failed. Such a path carries no data while another path is
    /// active.
    pub(crate) fn is_potentially_failed(&self) -> bool {
        self.potentially_failed
    }

    /// RFC 7829 §3 (PFMR): returns whether paths can become potentially failed.
    pub(crate) fn has_potentially_failed_state(&self) -> bool {
        self.pf_max.is_some()
    }

    /// Records that the last packet was not sent, because the host had no route to this destination.
    pub(crate) fn on_unsent(&mut self) {
        self.awaits_route = true;
    }

    /// Returns whether the last packet was not sent, because the host had no route to this destination.
    pub(crate) fn is_unsent(&self) -> bool {
        self.awaits_route
    }

    /// Returns whether the last packet was not sent, because the host had no route to this destination. Clears this
    /// record, because the next packet may have a route.
    pub(crate) fn take_unsent(&mut self) -> bool {
        std::mem::take(&mut self.awaits_route)
    }

    /// RFC 7829 §3 (2): marks the path as potentially failed, however many errors it has.
    pub(crate) fn suspect(&mut self) {
        self.potentially_failed = true;
    }

    /// Clears the errors, because a packet sent to this destination was acknowledged. Returns true if the path
    /// recovered from a failure.
    #[inline]
    pub(crate) fn on_answer(&mut self, now: Instant) -> bool {
        self.errors = 0;
        self.unanswered = None;
        if self.active {
            return std::mem::take(&mut self.potentially_failed);
        }
        if self.removed {
            // RFC 5061 §5.3 F13: an acknowledgement does not make a removed address active again.
            return false;
        }
        self.active = true;
        self.stats.rare_mut().last_up = Some(now);
        true
    }

    /// Returns whether an acknowledgement of all TSNs below `base` shows that this path works. Returns false if the
    /// acknowledged chunks may have arrived through another path.
    #[inline]
    pub(super) fn is_shown_by(&self, base: u64) -> bool {
        // RFC 7829 §3 (9): if a chunk was sent to several addresses, its acknowledgement does not show which of them
        // works.
        let in_doubt = self.potentially_failed || !self.active && self.pf_max.is_some();
        !in_doubt || base > self.ambiguous_below
    }
}
