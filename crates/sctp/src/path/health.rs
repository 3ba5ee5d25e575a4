//! Decides whether a destination address still answers.
//!
//! Owns the error counter of a path. HEARTBEATs are small and may arrive where data is lost. Examples are a path MTU
//! black hole, a peer with small buffers, and a queue that drops only data. Answered HEARTBEATs therefore excuse only a
//! few timeouts of data.
//!
//! Implements RFC 9260 §8.2 and RFC 7829 §3. The error counter of the association (RFC 9260 §8.1) is in
//! `error_counter`.

use super::Path;
use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// An answered HEARTBEAT clears the errors of a path until more than this number of consecutive timeouts have occurred.
/// It equals MAX_PROBES of RFC 8899 §5.1.2, so that a few random losses do not look like a path that drops all data.
const EXCUSED: u32 = 3;

/// The T3-rtx expirations since data was last acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnansweredData {
    timeouts: u32,
    /// The time at which T3-rtx last expired.
    last: Instant,
    /// Whether a HEARTBEAT was answered after the first expiry of T3-rtx.
    heartbeats_pass: bool,
}

impl UnansweredData {
    /// Whether T3-rtx has expired too often in a row to be a coincidence, while HEARTBEATs were answered.
    fn is_lost_for_good(&self) -> bool {
        self.timeouts > EXCUSED && self.heartbeats_pass
    }
}

/// The facts that decide how far an answered HEARTBEAT clears the errors of a path.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// Whether data is outstanding.
    pub(crate) outstanding: bool,
    /// The time from the last timeout until data is tried again on a path that loses data. With `None`, data is not
    /// tried again until some data is acknowledged.
    pub(crate) retry: Option<Duration>,
    /// The value of Path.Max.Retrans.
    pub(crate) max_retrans: u32,
}

/// The change of a path's state that an error has caused.
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
            // RFC 9260 §8.2: the error counter is the number of consecutive errors, including errors that a HEARTBEAT
            // ACK had cleared.
            self.errors = self.errors.max(unanswered.timeouts - 1);
        }
        self.on_error(now, max_retrans)
    }

    /// Whether T3-rtx has expired since data was last acknowledged, although HEARTBEATs were answered after that
    /// expiry.
    pub(crate) fn passes_heartbeats_only(&self) -> bool {
        self.unanswered.as_ref().is_some_and(|unanswered| unanswered.heartbeats_pass)
    }

    /// Updates the path after a HEARTBEAT was answered within `rtt`. Returns true if the path recovered from a
    /// failure.
    pub(super) fn on_heartbeat_answered(&mut self, now: Instant, rtt: Duration, evidence: Evidence) -> bool {
        let Evidence { outstanding, retry, max_retrans } = evidence;
        if !outstanding {
            // RFC 9260 §8.3: the answer makes the address active again.
            self.rtt.on_sample(rtt);
            return self.on_answer(now);
        }
        let mut unanswered = self.unanswered.take();
        if let Some(unanswered) = &mut unanswered {
            unanswered.heartbeats_pass = true;
        }
        let mut errors = 0;
        if let Some(lost) = unanswered.as_ref().filter(|it| it.is_lost_for_good()) {
            // RFC 9260 §8.1: HEARTBEATs may reach an address that DATA does not reach. So a HEARTBEAT ACK need not
            // clear the association's error counter while data is outstanding. For the same reason, it changes neither
            // the path's error counter nor the RTO that timeouts have doubled (§6.3.3 E2).
            if retry.is_none_or(|wait| now < lost.last + wait) {
                self.unanswered = unanswered;
                return false;
            }
            // The answer does not clear the error counter, but lowers it to at most Path.Max.Retrans. So data is tried
            // on this path once more. If the counter is at this limit, the next timeout marks the path as failed.
            errors = self.errors.min(max_retrans);
        }
        // RFC 9260 §8.3: the answer gives a round-trip sample.
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

    /// RFC 9260 §8.2: whether the destination address is active.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// RFC 7829 §3: whether the path is potentially failed. Data is sent on other paths while another path is active.
    pub(crate) fn is_potentially_failed(&self) -> bool {
        self.potentially_failed
    }

    /// RFC 7829 §3 (PFMR): whether paths can become potentially failed.
    pub(crate) fn has_potentially_failed_state(&self) -> bool {
        self.pf_max.is_some()
    }

    /// Records that the host had no route to the destination for the last packet.
    pub(crate) fn on_unsent(&mut self) {
        self.awaits_route = true;
    }

    /// Whether the host had no route to this destination for the last packet.
    pub(crate) fn is_unsent(&self) -> bool {
        self.awaits_route
    }

    /// Returns and clears the record that the host had no route to the destination for the last packet. Called after
    /// the host's routes have changed.
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
            // RFC 5061 §5.3 F13: the address was removed, so the acknowledgement does not make it active again.
            return false;
        }
        self.active = true;
        self.stats.rare_mut().last_up = Some(now);
        true
    }

    /// Whether an acknowledgement up to `base` shows that this path works. If false, the acknowledged chunks may have
    /// arrived through another path.
    #[inline]
    pub(super) fn is_shown_by(&self, base: u64) -> bool {
        // RFC 7829 §3 (9): chunks sent to several addresses may have arrived through any of these addresses.
        let in_doubt = self.potentially_failed || !self.active && self.pf_max.is_some();
        !in_doubt || base > self.ambiguous_below
    }
}
