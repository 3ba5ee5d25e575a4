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

/// Returns the line that says how many of `total` runs are done after the time `elapsed`.
fn line(done: usize, total: usize, for_causes: usize, elapsed: Duration) -> String {
    let causes = match for_causes {
        0 => String::new(),
        count => format!("; {count} more to find causes"),
    };
    if done >= total {
        return format!("{total} runs done{causes}");
    }
    let left = elapsed.mul_f64((total - done) as f64 / done.max(1) as f64);
    format!("{done} of {total} runs{causes}, {} left", readable(left))
}

impl Progress {
    /// Creates a display that counts up to `total` steps. With `quiet`, it shows nothing.
    pub fn new(total: usize, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self {
            total,
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
        shown.done = shown.done.max(done);
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
        let line = line(shown.done, self.total, shown.for_causes, self.started.elapsed());
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
        let line = |done, for_causes| line(done, 800, for_causes, Duration::from_secs(10));
        assert_eq!(line(200, 0), "200 of 800 runs, 30 s left");
        assert_eq!(line(400, 25), "400 of 800 runs; 25 more to find causes, 10 s left");
        assert_eq!(line(800, 0), "800 runs done");
        assert_eq!(line(800, 310), "800 runs done; 310 more to find causes");
    }
}
