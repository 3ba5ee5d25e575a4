//! The timers of a connection: one array with a deadline for each timer.
//!
//! When a deadline moves to a later time, only its array element is written, and the endpoint is not notified. The
//! endpoint wakes at the old deadline and then finds the later one. Implements RFC 9293 §3.8 (the retransmission and
//! persist timers) and RFC 6298 §5 (when the retransmission timer runs).

use anabranch_base::Instant;

/// The purpose of a timer. Timers that expire at the same time are handled in this order.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    /// RFC 8985: a segment now counts as lost, or a tail loss probe must be sent.
    Loss,
    /// RFC 6298: a SYN, data or a FIN was not acknowledged within an RTO.
    Retransmit,
    /// Pacing allows the next segment to be sent.
    Pace,
    /// The peer's window is closed and must be probed.
    Persist,
    /// An acknowledgement has been delayed as long as allowed.
    DelayedAck,
    /// The application has closed the connection, and the peer's FIN has not arrived in time.
    FinWait2,
    /// TIME-WAIT has lasted for twice the maximum segment lifetime.
    TimeWait,
}

const COUNT: usize = 7;
const ALL: [Timer; COUNT] = [
    Timer::Loss,
    Timer::Retransmit,
    Timer::Pace,
    Timer::Persist,
    Timer::DelayedAck,
    Timer::FinWait2,
    Timer::TimeWait,
];

#[derive(Debug)]
pub(crate) struct Timers {
    /// The deadline of each timer, [`Instant::MAX`] if it is stopped.
    deadlines: [Instant; COUNT],
    /// A time that is not after the earliest of the deadlines.
    bound: Instant,
}

impl Default for Timers {
    fn default() -> Self {
        Self { deadlines: [Instant::MAX; COUNT], bound: Instant::MAX }
    }
}

impl Timers {
    #[inline]
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        self.deadlines[timer as usize] = at;
        self.bound = self.bound.min(at);
    }

    #[inline]
    pub(crate) fn stop(&mut self, timer: Timer) {
        self.deadlines[timer as usize] = Instant::MAX;
    }

    pub(crate) fn stop_all(&mut self) {
        *self = Self::default();
    }

    /// Returns the timer's deadline, or [`Instant::MAX`] if it is stopped.
    #[inline]
    pub(crate) fn at(&self, timer: Timer) -> Instant {
        self.deadlines[timer as usize]
    }

    #[inline]
    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.deadlines[timer as usize] != Instant::MAX
    }

    /// Returns the earliest deadline if it is before `limit`. Usually `bound` alone shows that no deadline is before
    /// `limit`.
    #[inline]
    pub(crate) fn next_before(&mut self, limit: Instant) -> Option<Instant> {
        if self.bound >= limit {
            return None;
        }
        self.bound = self.next();
        (self.bound < limit).then_some(self.bound)
    }

    /// Returns the earliest deadline, or [`Instant::MAX`] if no timer is set.
    pub(crate) fn next(&self) -> Instant {
        let [a, b, c, d, e, f, g] = self.deadlines;
        a.min(b).min(c.min(d)).min(e.min(f).min(g))
    }

    /// Stops one timer that has expired, and returns it.
    pub(crate) fn expired(&mut self, now: Instant) -> Option<Timer> {
        let timer = ALL.into_iter().find(|&timer| self.deadlines[timer as usize] <= now)?;
        self.stop(timer);
        Some(timer)
    }
}
