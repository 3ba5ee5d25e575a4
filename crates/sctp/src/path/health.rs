//! Does a destination still answer?
//!
//! Owns the rules of the error counter of a path. HEARTBEATs are small and may pass where data is lost: a path MTU black
//! hole, a peer with small buffers, a queue that drops data alone. So their answers excuse a few timeouts of data, and no
//! more.
//!
//! Home of RFC 9260 §8.2 and of RFC 7829 §3; the association's own counter
//! (RFC 9260 §8.1) is `error_counter`.

use super::Path;
use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// Timeouts in a row that the answers to HEARTBEATs excuse: as many as MAX_PROBES of RFC 8899 §5.1.2, so that losses by
/// chance are not taken for a path that drops data.
const EXCUSED: u32 = 3;

/// Expirations of T3-rtx since data was last acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct UnansweredData {
    timeouts: u32,
    /// When the last of them was.
    last: Instant,
    /// A HEARTBEAT was answered after the first of them.
    heartbeats_pass: bool,
}

impl UnansweredData {
    /// HEARTBEATs pass and data does not, beyond what chance explains.
    fn is_lost_for_good(&self) -> bool {
        self.timeouts > EXCUSED && self.heartbeats_pass
    }
}

/// What the answer to a HEARTBEAT is weighed against.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// Data is outstanding.
    pub(crate) outstanding: bool,
    /// How long after its last timeout a path that loses data is tried again; `None`: not before data is acknowledged.
    pub(crate) retry: Option<Duration>,
    /// Path.Max.Retrans.
    pub(crate) most: u32,
}

/// What an error has changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Health {
    /// Nothing.
    Same,
    /// The path may have failed.
    PotentiallyFailed,
    /// The path has just failed.
    Down,
}

impl Path {
    /// T3-rtx ran out, and the peer has said nothing that would excuse it.
    pub(crate) fn on_timeout(&mut self, now: Instant, most: u32) -> Health {
        let unanswered = self.unanswered.get_or_insert_default();
        unanswered.timeouts = unanswered.timeouts.saturating_add(1);
        unanswered.last = now;
        if unanswered.is_lost_for_good() {
            // RFC 9260 §8.2: errors in a row, those that HEARTBEAT ACKs had cleared among them.
            self.errors = self.errors.max(unanswered.timeouts - 1);
        }
        self.on_error(now, most)
    }

    /// T3-rtx has run out since data was last acknowledged, and HEARTBEATs have been answered meanwhile.
    pub(crate) fn passes_heartbeats_only(&self) -> bool {
        self.unanswered.as_ref().is_some_and(|unanswered| unanswered.heartbeats_pass)
    }

    /// A HEARTBEAT was answered after `rtt`. True when the path is back.
    pub(super) fn on_heartbeat_answered(&mut self, now: Instant, rtt: Duration, evidence: Evidence) -> bool {
        let Evidence { outstanding, retry, most } = evidence;
        if !outstanding {
            // RFC 9260 §8.3: the address is active again.
            self.rtt.on_sample(rtt);
            return self.on_answer(now);
        }
        let mut unanswered = self.unanswered.take();
        if let Some(unanswered) = &mut unanswered {
            unanswered.heartbeats_pass = true;
        }
        let mut errors = 0;
        if let Some(lost) = unanswered.as_ref().filter(|it| it.is_lost_for_good()) {
            // RFC 9260 §8.1 allows for the difference in reachability of DATA and HEARTBEAT chunks in the association's
            // counter; the path's is kept likewise, and so is the RTO that its timeouts have doubled (§6.3.3 E2).
            if retry.is_none_or(|wait| now < lost.last + wait) {
                self.unanswered = unanswered;
                return false;
            }
            // Data is tried there once more: the next timeout may be the last.
            errors = self.errors.min(most);
        }
        // RFC 9260 §8.3: the time measures the round trip.
        self.rtt.on_sample(rtt);
        let revived = self.on_answer(now);
        (self.errors, self.unanswered) = (errors, unanswered);
        revived
    }

    /// T3-rtx ran out, or a HEARTBEAT was not answered within the RTO.
    pub(crate) fn on_error(&mut self, now: Instant, most: u32) -> Health {
        self.heartbeat.count_silence();
        if !self.active {
            // RFC 9260 §8.3: a failed path is probed on, but no longer counted; RFC 7829 §4.1 (3)
            // tells failed paths apart by their errors, up to ten times as many.
            if self.pf_max.is_some() && self.errors < 10 * (most + 1) {
                self.errors += 1;
            }
            return Health::Same;
        }
        self.errors += 1;
        if self.errors > most {
            self.active = false;
            self.potentially_failed = false;
            self.stats.seldom().failures += 1;
            self.stats.seldom().last_down = Some(now);
            return Health::Down;
        }
        // RFC 7829 §3 (2): more errors than PFMR.
        if !self.potentially_failed
            && self.confirmed
            && self.pf_max.is_some_and(|pf_max| self.errors > pf_max)
        {
            self.potentially_failed = true;
            return Health::PotentiallyFailed;
        }
        Health::Same
    }

    /// Consecutive errors.
    pub(crate) fn errors(&self) -> u32 {
        self.errors
    }

    /// RFC 9260 §8.2: it answers.
    pub(crate) fn is_active(&self) -> bool {
        self.active
    }

    /// RFC 7829 §3: it may have failed: data goes elsewhere while something else is active.
    pub(crate) fn is_potentially_failed(&self) -> bool {
        self.potentially_failed
    }

    /// RFC 7829 §3 (PFMR): failures are foreseen.
    pub(crate) fn foresees_failure(&self) -> bool {
        self.pf_max.is_some()
    }

    /// The host knew no way there when something was last to be sent.
    pub(crate) fn on_unsent(&mut self) {
        self.unsent = true;
    }

    /// What was last to be sent has not left the host.
    pub(crate) fn is_unsent(&self) -> bool {
        self.unsent
    }

    /// The host's routes have changed. Whether it knew no way there.
    pub(crate) fn take_unsent(&mut self) -> bool {
        std::mem::take(&mut self.unsent)
    }

    /// RFC 7829 §3 (2): it may have failed, whatever its errors say.
    pub(crate) fn suspect(&mut self) {
        self.potentially_failed = true;
    }

    /// Something sent there was acknowledged. True when the path is back.
    #[inline]
    pub(crate) fn on_answer(&mut self, now: Instant) -> bool {
        self.errors = 0;
        self.unanswered = None;
        if self.active {
            return std::mem::take(&mut self.potentially_failed);
        }
        if self.removed {
            // RFC 5061 §5.3 F13: what was sent there arrived, and that is all.
            return false;
        }
        self.active = true;
        self.stats.seldom().last_up = Some(now);
        true
    }

    /// An acknowledgement up to `base` shows that this path works, and not that another does.
    #[inline]
    pub(super) fn is_shown_by(&self, base: u64) -> bool {
        // RFC 7829 §3 (9): what was sent to several addresses may have arrived by any of them.
        let in_doubt = self.potentially_failed || !self.active && self.pf_max.is_some();
        !in_doubt || base > self.moved
    }
}
