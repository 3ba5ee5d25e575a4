//! Shows the progress of long work: a bar on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// The number of completed steps and the total of the display that was last updated, for the interrupt handler.
static LATEST: Mutex<Option<(usize, usize)>> = Mutex::new(None);

/// Clears a bar or an echoed `^C` from the terminal, and returns what the interrupt handler says about the progress.
pub fn at_interrupt() -> String {
    if std::io::stderr().is_terminal() {
        let _ = write!(std::io::stderr(), "\r\x1b[K");
    }
    // The interrupted thread may hold the lock. The message then lacks the numbers.
    let latest = LATEST.try_lock().ok().and_then(|latest| *latest);
    latest.map_or_else(String::new, |(done, total)| format!(" after {done} of {total} runs"))
}

/// Shows on standard error how many of a known number of steps are done.
pub struct Progress {
    total: usize,
    /// The number of steps that an earlier command completed. They count as done from the start.
    stored: usize,
    /// The number of steps of each part of the work, in their order, and what the part costs.
    costs: Vec<(usize, f64)>,
    quiet: bool,
    terminal: bool,
    started: Instant,
    shown: Mutex<Shown>,
}

struct Shown {
    last: Option<Instant>,
    done: usize,
    for_causes: usize,
}

/// Returns the line that says how many of `total` runs are done after the time `elapsed`. `share` is the share of the
/// work that is done; if it is too small, the time left is not estimated.
fn line(done: usize, total: usize, for_causes: usize, share: f64, elapsed: Duration) -> String {
    let causes = match for_causes {
        0 => String::new(),
        count => format!("; {count} more to find causes"),
    };
    if done >= total {
        return format!("{total} runs done{causes}");
    }
    if share < LEAST_SHARE {
        return format!("{done} of {total} runs{causes}");
    }
    let left = elapsed.mul_f64((1.0 - share) / share);
    format!("{done} of {total} runs{causes}, {} left", readable(left))
}

/// The least share of the work from which the time left is estimated.
const LEAST_SHARE: f64 = 0.002;

/// Returns the share of the work that is done after `done` steps. `costs` are as in [`Progress`].
fn share_of(costs: &[(usize, f64)], done: usize) -> f64 {
    let (mut left, mut paid, mut all) = (done, 0.0, 0.0);
    for (steps, cost) in costs {
        let own = left.min(*steps);
        paid += cost * own as f64 / (*steps).max(1) as f64;
        (left, all) = (left - own, all + cost);
    }
    if all > 0.0 { paid / all } else { 1.0 }
}

impl Progress {
    /// Creates a display that counts up to `total` steps. With `quiet`, it shows nothing.
    pub fn new(total: usize, quiet: bool) -> Self {
        Self::of_steps(0, vec![(total, 1.0)], quiet)
    }

    /// Creates a display for work whose steps cost differently. `costs` are the numbers of steps, in their order, each
    /// with the cost of these steps together. An earlier command completed `stored` further steps.
    pub fn of_steps(stored: usize, costs: Vec<(usize, f64)>, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            total: stored + costs.iter().map(|(steps, _)| steps).sum::<usize>(),
            stored,
            costs,
            quiet,
            terminal,
            started: now(),
            shown: Mutex::new(Shown { last: None, done: 0, for_causes: 0 }),
        }
    }

    /// Records that `done` steps are complete.
    pub fn update(&self, done: usize) {
        self.update_with_causes(done, 0);
    }

    /// Records that `done` steps are complete, and that `for_causes` further runs were made to find the causes of
    /// differences between contestants. It is not known in advance how many runs such a search makes, so they are not
    /// part of the total.
    pub fn update_with_causes(&self, done: usize, for_causes: usize) {
        let Ok(mut shown) = self.shown.lock() else { return };
        shown.done = shown.done.max(self.stored + done);
        shown.for_causes = shown.for_causes.max(for_causes);
        if let Ok(mut latest) = LATEST.lock() {
            *latest = Some((shown.done, self.total));
        }
        let interval = if self.terminal { Duration::from_millis(100) } else { Duration::from_secs(5) };
        let due = shown.last.unwrap_or(self.started).elapsed() >= interval;
        if self.quiet || !due {
            return;
        }
        shown.last = Some(now());
        let share = share_of(&self.costs, shown.done - self.stored);
        let line = line(shown.done, self.total, shown.for_causes, share, self.started.elapsed());
        let mut out = std::io::stderr().lock();
        let _ = if self.terminal {
            let filled = (30 * shown.done / self.total.max(1)).min(30);
            write!(out, "\r[{}{}] {line} \x1b[K", "#".repeat(filled), ".".repeat(30 - filled))
        } else {
            writeln!(out, "{line}")
        };
        let _ = out.flush();
    }

    /// Clears the bar, and returns the time since the start.
    pub fn finish(&self) -> Duration {
        if self.terminal && !self.quiet {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        self.started.elapsed()
    }
}

/// Shows the elapsed time of long work on standard error.
pub struct Ticker {
    quiet: bool,
    terminal: bool,
    /// When a line was last written, as time since the start.
    last: Duration,
    drawn: bool,
}

impl Ticker {
    /// The interval at which to call [`show`](Self::show).
    pub const PERIOD: Duration = Duration::from_millis(250);

    /// Creates a ticker. With `quiet`, it shows nothing.
    pub fn new(quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { quiet, terminal, last: Duration::ZERO, drawn: false }
    }

    /// Shows the elapsed time, the total time if it is known (`of`), and a text about the result so far (`what`).
    pub fn show(&mut self, elapsed: Duration, of: Option<Duration>, what: &str) {
        let due = self.terminal || elapsed >= self.last + Duration::from_secs(5);
        if self.quiet || !due {
            return;
        }
        self.last = elapsed;
        let of = of.map_or_else(String::new, |of| format!(" of {}", readable(of)));
        let line = format!("{}{of}: {what}", readable(elapsed));
        let mut out = std::io::stderr().lock();
        let _ = if self.terminal { write!(out, "\r{line} \x1b[K") } else { writeln!(out, "{line}") };
        let _ = out.flush();
        self.drawn = true;
    }

    /// Clears the line that shows the elapsed time.
    pub fn finish(&self) {
        if self.terminal && self.drawn {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

/// Formats a duration in a readable form, for example `2 min 5 s`.
pub fn readable(span: Duration) -> String {
    match span.as_secs() {
        seconds @ 0..60 => format!("{seconds} s"),
        seconds @ 60..3600 => format!("{} min {} s", seconds / 60, seconds % 60),
        seconds => format!("{} h {} min", seconds / 3600, seconds % 3600 / 60),
    }
}

#[expect(clippy::disallowed_methods, reason = "progress is about the user's own time")]
fn now() -> Instant {
    Instant::now()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runs_in_search_of_causes_are_counted_as_they_are_made() {
        let line =
            |done, for_causes| line(done, 800, for_causes, done as f64 / 800.0, Duration::from_secs(10));
        assert_eq!(line(200, 0), "200 of 800 runs, 30 s left");
        assert_eq!(line(400, 25), "400 of 800 runs; 25 more to find causes, 10 s left");
        assert_eq!(line(800, 0), "800 runs done");
        assert_eq!(line(800, 310), "800 runs done; 310 more to find causes");
        assert_eq!(line(1, 0), "1 of 800 runs", "too early for an estimate");
    }

    #[test]
    fn the_time_left_follows_the_cost_of_the_runs_that_are_left() {
        // 100 small runs, then ten that cost 99 % of the time.
        let costs = [(100, 1.0), (10, 99.0)];
        assert!((share_of(&costs, 50) - 0.005).abs() < 1e-12);
        assert!((share_of(&costs, 105) - 0.505).abs() < 1e-12);
        assert!((share_of(&costs, 200) - 1.0).abs() < 1e-12, "more runs than were counted");
        let elapsed = Duration::from_secs(60);
        assert_eq!(line(100, 110, 0, share_of(&costs, 100), elapsed), "100 of 110 runs, 1 h 39 min left");
        assert!((share_of(&[(0, 0.0)], 0) - 1.0).abs() < 1e-12, "nothing to do");
    }

    /// Runs of an interrupted command count as done, and the time left is that of the others.
    #[test]
    fn a_resumed_run_goes_on_with_its_count() {
        let progress = Progress::of_steps(70, vec![(30, 3.0)], true);
        progress.update(6);
        assert_eq!(at_interrupt(), " after 76 of 100 runs");
        assert!((share_of(&progress.costs, 6) - 0.2).abs() < 1e-12);
    }
}
