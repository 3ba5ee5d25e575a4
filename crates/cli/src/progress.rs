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

/// The work whose progress is shown: points, each with a number of runs and a search for causes.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// The number of points.
    pub points: usize,
    /// The number of runs at each point.
    pub runs: usize,
    /// Whether further runs at each point search for causes. Their number is not known before the search ends.
    pub searches: bool,
}

/// The steps whose progress is shown.
#[derive(Debug)]
enum Steps {
    /// Runs of points, and their searches for causes.
    Points(Work),
    /// Steps that cost differently.
    Costs {
        /// The number of steps that an earlier command completed. They count as done from the start.
        stored: usize,
        /// The number of steps of each part of the work, in their order, and what the part costs.
        costs: Vec<(usize, f64)>,
    },
}

impl Steps {
    /// Returns the number of steps, without searches for causes.
    fn total(&self) -> usize {
        match self {
            Self::Points(work) => work.points * work.runs,
            Self::Costs { stored, costs } => stored + costs.iter().map(|(steps, _)| steps).sum::<usize>(),
        }
    }

    /// Returns the number of steps that are complete, without searches for causes.
    fn complete(&self, done: Done) -> usize {
        match self {
            Self::Points(work) => done.points * work.runs + done.runs,
            Self::Costs { stored, .. } => stored + done.runs,
        }
    }

    /// Returns the line that says what is done after the time `elapsed`.
    fn line(&self, done: Done, elapsed: Duration) -> String {
        match self {
            Self::Points(work) => line(*work, done, elapsed),
            Self::Costs { costs, .. } => {
                line_of_costs(self.complete(done), self.total(), share_of(costs, done.runs), elapsed)
            }
        }
    }

    /// Returns the share of the bar that is filled, from 0 to 1. The bar waits while the search for causes runs.
    fn share(&self, done: Done) -> f64 {
        (self.complete(done) as f64 / self.total().max(1) as f64).min(1.0)
    }
}

/// What is done of the work.
#[derive(Clone, Copy, Default, Debug)]
struct Done {
    /// The number of complete points.
    points: usize,
    /// The runs of the current point.
    runs: usize,
    /// The runs that searched for causes: at the current point, and at all points before.
    for_causes: usize,
    for_causes_before: usize,
    /// When the latest point was complete, as time since the start. The time is 0 for the first point.
    points_took: Duration,
    /// When the search for causes at the current point began, as time since the start.
    search_began: Duration,
}

/// Shows on standard error how many runs are done.
pub struct Progress {
    steps: Steps,
    quiet: bool,
    terminal: bool,
    started: Instant,
    shown: Mutex<Shown>,
}

struct Shown {
    last: Option<Instant>,
    done: Done,
}

/// Returns the line that says what is done after the time `elapsed`.
fn line(work: Work, done: Done, elapsed: Duration) -> String {
    let Work { points, runs, searches } = work;
    let search = done.for_causes + done.for_causes_before;
    let share = |done: usize, all: usize| done as f64 / all.max(1) as f64;
    let left = |elapsed: Duration, share: f64| readable(elapsed.mul_f64((1.0 - share) / share.max(1e-9)));
    if points > 1 {
        let all = points * runs;
        let of = format!("{} of {all} runs", done.points * runs + done.runs);
        let causes = if search == 0 { String::new() } else { format!(" and {search} to find causes") };
        if done.points >= points {
            return format!("{all} runs{causes} done");
        }
        // The time of a search is known only when the first point is complete.
        let left = match done.points {
            0 if searches => return format!("{of}{causes}"),
            0 => left(elapsed, share(done.runs, all)),
            _ => {
                let each = done.points_took / done.points as u32;
                let current = elapsed.saturating_sub(done.points_took).min(each);
                readable(each * (points - done.points) as u32 - current)
            }
        };
        return format!("{of}{causes}, {left} left");
    }
    if done.runs < runs {
        let then = if searches { ", then runs to find causes" } else { "" };
        return format!("{} of {runs} runs, {} left{then}", done.runs, left(elapsed, share(done.runs, runs)));
    }
    if search == 0 {
        return format!("{runs} runs done");
    }
    let since = readable(elapsed.saturating_sub(done.search_began));
    format!("{runs} runs done, {search} more to find causes, for {since}")
}

/// The least share of the work from which the time left is estimated.
const LEAST_SHARE: f64 = 0.002;

/// Returns the line that says how many of `total` steps are done after the time `elapsed`. `share` is the share of the
/// costs that is paid; if it is too small, the time left is not estimated.
fn line_of_costs(done: usize, total: usize, share: f64, elapsed: Duration) -> String {
    if done >= total {
        return format!("{total} runs done");
    }
    if share < LEAST_SHARE {
        return format!("{done} of {total} runs");
    }
    format!("{done} of {total} runs, {} left", readable(elapsed.mul_f64((1.0 - share) / share)))
}

/// Returns the share of the work that is done after `done` steps. `costs` are as in [`Steps::Costs`].
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
        Self::of(Work { points: 1, runs: total, searches: false }, quiet)
    }

    /// Creates a display for this work. With `quiet`, it shows nothing.
    pub fn of(work: Work, quiet: bool) -> Self {
        Self::show(Steps::Points(work), quiet)
    }

    /// Creates a display for work whose steps cost differently. `costs` are the numbers of steps, in their order, each
    /// with the cost of these steps together. An earlier command completed `stored` further steps.
    pub fn of_steps(stored: usize, costs: Vec<(usize, f64)>, quiet: bool) -> Self {
        Self::show(Steps::Costs { stored, costs }, quiet)
    }

    fn show(steps: Steps, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        let shown = Mutex::new(Shown { last: None, done: Done::default() });
        Self { steps, quiet, terminal, started: now(), shown }
    }

    /// Records that `done` steps are complete.
    pub fn update(&self, done: usize) {
        self.update_point(0, done);
    }

    /// Records that the first `points` points are complete and that `done` runs were made at the next one. Runs beyond
    /// the point's own number search for causes.
    pub fn update_point(&self, points: usize, done: usize) {
        let Ok(mut shown) = self.shown.lock() else { return };
        let elapsed = self.started.elapsed();
        let runs = match &self.steps {
            Steps::Points(work) => work.runs,
            Steps::Costs { .. } => usize::MAX,
        };
        let now_done = &mut shown.done;
        if points > now_done.points {
            now_done.for_causes_before += std::mem::take(&mut now_done.for_causes);
            (now_done.points, now_done.runs) = (points, 0);
            (now_done.points_took, now_done.search_began) = (elapsed, Duration::ZERO);
        }
        now_done.runs = now_done.runs.max(done.min(runs));
        now_done.for_causes = now_done.for_causes.max(done.saturating_sub(runs));
        if now_done.runs == runs && now_done.search_began.is_zero() {
            now_done.search_began = elapsed;
        }
        let done = *now_done;
        if let Ok(mut latest) = LATEST.lock() {
            *latest = Some((self.steps.complete(done), self.steps.total()));
        }
        let interval = if self.terminal { Duration::from_millis(100) } else { Duration::from_secs(5) };
        let due = shown.last.unwrap_or(self.started).elapsed() >= interval;
        if self.quiet || !due {
            return;
        }
        shown.last = Some(now());
        let line = self.steps.line(done, elapsed);
        let mut out = std::io::stderr().lock();
        let _ = if self.terminal {
            let filled = (30.0 * self.steps.share(done)) as usize;
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

    const fn seconds(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn runs_in_search_of_causes_are_counted_without_a_limit() {
        let work = Work { points: 1, runs: 800, searches: true };
        let line = |runs, for_causes| {
            let done = Done { runs, for_causes, search_began: seconds(8), ..Done::default() };
            line(work, done, seconds(10))
        };
        assert_eq!(line(200, 0), "200 of 800 runs, 30 s left, then runs to find causes");
        assert_eq!(line(800, 0), "800 runs done");
        assert_eq!(line(800, 250), "800 runs done, 250 more to find causes, for 2 s");
        let without = Work { searches: false, ..work };
        let done = Done { runs: 200, ..Done::default() };
        assert_eq!(super::line(without, done, seconds(10)), "200 of 800 runs, 30 s left");
    }

    /// Points are alike and use a part of the runs that a search may take. The time left must never grow by more than
    /// what one update adds.
    #[test]
    fn the_time_left_of_a_sweep_never_grows() {
        let work = Work { points: 6, runs: 200, searches: true };
        let display = |points: u64, runs: usize, for_causes: usize, at: u64| {
            let (points_took, points) = (seconds(60 * points), points as usize);
            let done = Done {
                points,
                runs,
                for_causes,
                for_causes_before: 100 * points,
                points_took,
                ..Done::default()
            };
            line(work, done, seconds(at))
        };
        assert_eq!(display(0, 200, 100, 60), "200 of 1200 runs and 100 to find causes");
        assert_eq!(display(1, 0, 0, 60), "200 of 1200 runs and 100 to find causes, 5 min 0 s left");
        assert_eq!(display(1, 200, 50, 110), "400 of 1200 runs and 150 to find causes, 4 min 10 s left");
        // A point that takes longer than those before keeps the time of the points after it.
        assert_eq!(display(1, 200, 900, 600), "400 of 1200 runs and 1000 to find causes, 4 min 0 s left");
        assert_eq!(display(6, 0, 0, 360), "1200 runs and 600 to find causes done");
    }

    #[test]
    fn a_complete_point_adds_its_search_to_the_total() {
        let progress = Progress::of(Work { points: 2, runs: 10, searches: true }, true);
        progress.update_point(0, 25);
        progress.update_point(1, 4);
        // Threads may report in any order.
        progress.update_point(1, 3);
        let done = progress.shown.lock().expect("not poisoned").done;
        assert_eq!((done.points, done.runs, done.for_causes, done.for_causes_before), (1, 4, 0, 15));
    }

    #[test]
    fn the_time_left_follows_the_cost_of_the_runs_that_are_left() {
        // 100 small runs, then ten that cost 99 % of the time.
        let costs = [(100, 1.0), (10, 99.0)];
        assert!((share_of(&costs, 50) - 0.005).abs() < 1e-12);
        assert!((share_of(&costs, 105) - 0.505).abs() < 1e-12);
        assert!((share_of(&costs, 200) - 1.0).abs() < 1e-12, "more runs than were counted");
        let line = |done| line_of_costs(done, 110, share_of(&costs, done), seconds(60));
        assert_eq!(line(100), "100 of 110 runs, 1 h 39 min left");
        assert_eq!(line(1), "1 of 110 runs", "too early for an estimate");
        assert_eq!(line(110), "110 runs done");
        assert!((share_of(&[(0, 0.0)], 0) - 1.0).abs() < 1e-12, "nothing to do");
    }

    /// Runs of an interrupted command count as done, and the time left is that of the others.
    #[test]
    fn a_resumed_run_goes_on_with_its_count() {
        let progress = Progress::of_steps(70, vec![(30, 3.0)], true);
        progress.update(6);
        assert_eq!(at_interrupt(), " after 76 of 100 runs");
        let done = progress.shown.lock().expect("not poisoned").done;
        assert_eq!(progress.steps.line(done, seconds(60)), "76 of 100 runs, 4 min 0 s left");
    }
}
