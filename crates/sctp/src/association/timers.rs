//! The deadlines of all timers of an association, in one table.
//!
//! The association's `poll_timeout` reads only this table. A deadline that depends on the last packet is not set again
//! for every packet. Instead, when the deadline passes, the time of the last packet is checked and the deadline is set
//! again.

use anabranch_base::Instant;

/// Generates the enum `Timer` and the table indices from one list. The list has the timers of the association first,
/// then the timers of each path.
macro_rules! timers {
    (
        once { $($(#[$about:meta])* $once:ident,)* }
        each_path { $($(#[$path_about:meta])* $each:ident,)* }
    ) => {
        /// The purpose of a deadline. If several timers are due, they run in the order of this list.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub(crate) enum Timer {
            $($(#[$about])* $once,)*
            $($(#[$path_about])* $each(usize),)*
        }

        const ONCE: &[Timer] = &[$(Timer::$once,)*];
        const EACH_PATH: &[fn(usize) -> Timer] = &[$(Timer::$each,)*];

        /// One value for each timer of the association. `Timer::index` computes table indices from the discriminants.
        enum Once { $($once,)* }
        /// One value for each timer of a path.
        enum EachPath { $($each,)* }

        impl Timer {
            #[inline]
            fn index(self) -> usize {
                match self {
                    $(Self::$once => Once::$once as usize,)*
                    $(Self::$each(path) => ONCE.len() + EACH_PATH.len() * path + EachPath::$each as usize,)*
                }
            }

            fn at_index(index: usize) -> Self {
                match index.checked_sub(ONCE.len()) {
                    None => ONCE[index],
                    Some(beyond) => EACH_PATH[beyond % EACH_PATH.len()](beyond / EACH_PATH.len()),
                }
            }
        }
    };
}

timers! {
    once {
        /// T1-init: the INIT has not been answered.
        T1Init,
        /// T1-cookie: the COOKIE ECHO has not been answered.
        T1Cookie,
        /// T2-shutdown: the SHUTDOWN or SHUTDOWN ACK has not been answered.
        T2Shutdown,
        /// T5-shutdown-guard: the shutdown as a whole takes too long.
        T5Guard,
        /// A delayed SACK.
        Sack,
        /// A probe of the peer's closed window is due.
        Probe,
        /// A RE-CONFIG request has not been answered (RFC 6525 §5.1.1).
        Reconfig,
        /// The lifetime of a message has ended (RFC 3758).
        Lifetime,
        /// T4: an ASCONF has not been answered (RFC 5061 §5.1).
        Asconf,
    }
    each_path {
        /// RFC 8985: a chunk on a path now counts as lost, or a tail loss probe is due.
        Loss,
        /// T3-rtx of a path.
        T3Rtx,
        /// Pacing allows the next packet on a path.
        Pace,
        /// The next HEARTBEAT on a path is due.
        Heartbeat,
        /// A HEARTBEAT on a path has not been answered within the path's RTO.
        HeartbeatLost,
        /// A probe of a path's MTU has not been answered, or it is time to try a larger MTU (RFC 8899 §5.1.1:
        /// PROBE_TIMER, PMTU_RAISE_TIMER).
        PathMtu,
    }
}

/// The table of deadlines. The deadline of a timer that is not running is `Instant::MAX`.
#[derive(Debug)]
pub(crate) struct Timers {
    deadlines: Box<[Instant]>,
    /// A lower bound of all deadlines. Setting an earlier deadline lowers the bound. A search of the table sets it to
    /// the earliest deadline.
    floor: Instant,
}

impl Timers {
    pub(crate) fn new(paths: usize) -> Self {
        Self {
            deadlines: vec![Instant::MAX; ONCE.len() + EACH_PATH.len() * paths].into(),
            floor: Instant::MAX,
        }
    }

    /// Adds entries for the timers of new paths. `paths` is the new number of paths.
    pub(crate) fn grow(&mut self, paths: usize) {
        let size = ONCE.len() + EACH_PATH.len() * paths;
        if self.deadlines.len() != size {
            let mut deadlines = std::mem::take(&mut self.deadlines).into_vec();
            deadlines.resize(size, Instant::MAX);
            self.deadlines = deadlines.into();
        }
    }

    #[inline]
    pub(crate) fn set(&mut self, timer: Timer, at: Instant) {
        self.deadlines[timer.index()] = at;
        self.floor = self.floor.min(at);
    }

    #[inline]
    pub(crate) fn stop(&mut self, timer: Timer) {
        self.deadlines[timer.index()] = Instant::MAX;
    }

    pub(crate) fn stop_path(&mut self, path: usize) {
        let first = ONCE.len() + EACH_PATH.len() * path;
        self.deadlines[first..first + EACH_PATH.len()].fill(Instant::MAX);
    }

    pub(crate) fn stop_all(&mut self) {
        self.deadlines.fill(Instant::MAX);
    }

    /// Returns the deadline of a timer, or `Instant::MAX` if it is not running.
    #[inline]
    pub(crate) fn at(&self, timer: Timer) -> Instant {
        self.deadlines[timer.index()]
    }

    #[inline]
    pub(crate) fn is_set(&self, timer: Timer) -> bool {
        self.deadlines[timer.index()] != Instant::MAX
    }

    /// Returns the earliest deadline.
    #[inline]
    pub(crate) fn next(&self) -> Option<Instant> {
        let earliest = self.deadlines.iter().copied().min()?;
        (earliest != Instant::MAX).then_some(earliest)
    }

    /// Returns the earliest deadline if it is earlier than `bound`. No deadline is earlier than `floor`, so in most
    /// calls the table need not be searched.
    #[inline]
    pub(crate) fn earlier_than(&mut self, bound: Instant) -> Option<Instant> {
        if self.floor >= bound { None } else { self.search_below(bound) }
    }

    #[cold]
    fn search_below(&mut self, bound: Instant) -> Option<Instant> {
        let next = self.next();
        self.floor = next.unwrap_or(Instant::MAX);
        next.filter(|next| *next < bound)
    }

    /// Returns the first timer in the table that is due, and stops it. Returns `None` if no timer is due.
    pub(crate) fn expired(&mut self, now: Instant) -> Option<Timer> {
        let index = self.deadlines.iter().position(|&at| at <= now)?;
        self.deadlines[index] = Instant::MAX;
        Some(Timer::at_index(index))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_that_are_due_run_in_order() {
        let mut timers = Timers::new(2);
        let all = [
            Timer::T1Init,
            Timer::T1Cookie,
            Timer::T2Shutdown,
            Timer::T5Guard,
            Timer::Sack,
            Timer::Probe,
            Timer::Reconfig,
            Timer::Lifetime,
            Timer::Asconf,
            Timer::Loss(0),
            Timer::T3Rtx(0),
            Timer::Pace(0),
            Timer::Heartbeat(0),
            Timer::HeartbeatLost(0),
            Timer::PathMtu(0),
            Timer::Loss(1),
            Timer::T3Rtx(1),
            Timer::Pace(1),
            Timer::Heartbeat(1),
            Timer::HeartbeatLost(1),
            Timer::PathMtu(1),
        ];
        for (i, timer) in all.into_iter().enumerate().rev() {
            timers.set(timer, Instant::from_millis(24 - i as u64));
        }
        assert_eq!(timers.next(), Some(Instant::from_millis(4)));
        timers.stop(Timer::Probe);
        assert!(!timers.is_set(Timer::Probe) && timers.is_set(Timer::Sack));
        assert_eq!(timers.expired(Instant::from_millis(3)), None);
        let run: Vec<_> = std::iter::from_fn(|| timers.expired(Instant::from_millis(24))).collect();
        let expected: Vec<_> = all.into_iter().filter(|&t| t != Timer::Probe).collect();
        assert_eq!(run, expected);
        assert_eq!(timers.next(), None);
    }

    #[test]
    fn only_an_earlier_deadline_is_reported() {
        let at = Instant::from_millis;
        let mut timers = Timers::new(1);
        assert_eq!(timers.earlier_than(Instant::MAX), None);
        timers.set(Timer::Sack, at(20));
        assert_eq!(timers.earlier_than(Instant::MAX), Some(at(20)));
        assert_eq!(timers.earlier_than(at(20)), None);
        timers.set(Timer::Probe, at(10));
        timers.stop(Timer::Probe);
        assert_eq!(timers.earlier_than(at(15)), None);
        assert_eq!(timers.earlier_than(at(25)), Some(at(20)));
    }
}
