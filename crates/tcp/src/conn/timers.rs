//! The timers of a connection: one table.
//!
//! Deadlines are fields, moved freely; the endpoint finds out late that one
//! moved later. Home of RFC 9293 §3.8 (the retransmission and persist timers),
//! RFC 6298 §5 (when the retransmission timer runs).

use anabranch_base::Instant;

/// What a deadline is for; in the order in which those due at once are run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Timer {
    /// RFC 8985: something is lost by now, or the tail is to be probed.
    Loss,
    /// RFC 6298: SYN, data or FIN unacknowledged for an RTO.
    Retransmit,
    /// The next segment may go, by its pace.
    Pace,
    /// The peer's window is closed: probe it.
    Persist,
    /// An acknowledgement has waited long enough.
    DelayedAck,
    /// Closed by the application, and the peer's FIN does not come.
    FinWait2,
    /// Twice the maximum segment lifetime is over.
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
    /// [`Instant::MAX`] where a timer is stopped.
    deadlines: [Instant; COUNT],
    /// None of them is earlier than this.
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

    /// When it runs out, [`Instant::MAX`] when it is stopped.
    #[inline]
    pub(crate) fn at(&self, timer: Timer) -> Instant {
        self.deadlines[timer as usize]
    }

    #[inline]
    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.deadlines[timer as usize] != Instant::MAX
    }

    /// The earliest deadline, if it is earlier than `limit`: mostly it is known not to be.
    #[inline]
    pub(crate) fn next_before(&mut self, limit: Instant) -> Option<Instant> {
        if self.bound >= limit {
            return None;
        }
        self.bound = self.next();
        (self.bound < limit).then_some(self.bound)
    }

    /// The earliest deadline, [`Instant::MAX`] when none is set.
    pub(crate) fn next(&self) -> Instant {
        let [a, b, c, d, e, f, g] = self.deadlines;
        a.min(b).min(c.min(d)).min(e.min(f).min(g))
    }

    /// Stops and returns one timer that is due.
    pub(crate) fn expired(&mut self, now: Instant) -> Option<Timer> {
        let timer = ALL.into_iter().find(|&timer| self.deadlines[timer as usize] <= now)?;
        self.stop(timer);
        Some(timer)
    }
}
