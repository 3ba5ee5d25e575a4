//! Shows the progress of long work: a bar on a terminal, plain lines elsewhere.

use std::io::{IsTerminal, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

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
}

impl Progress {
    /// Creates a display that counts up to `total` steps. With `quiet`, it shows nothing.
    pub fn new(total: usize, quiet: bool) -> Self {
        let terminal = std::io::stderr().is_terminal();
        Self { total, quiet, terminal, started: now(), shown: Mutex::new(Shown { last: None, done: 0 }) }
    }

    /// Records that `done` steps are complete.
    pub fn update(&self, done: usize) {
        let Ok(mut shown) = self.shown.lock() else { return };
        shown.done = shown.done.max(done);
        let interval = if self.terminal { Duration::from_millis(100) } else { Duration::from_secs(5) };
        let due = shown.last.unwrap_or(self.started).elapsed() >= interval;
        if self.quiet || !due {
            return;
        }
        shown.last = Some(now());
        let (done, total) = (shown.done, self.total);
        let left = self.started.elapsed().mul_f64((total - done.min(total)) as f64 / done.max(1) as f64);
        let mut out = std::io::stderr().lock();
        let _ = if self.terminal {
            let filled = 30 * done / total.max(1);
            let bar = format!("{}{}", "#".repeat(filled), ".".repeat(30 - filled.min(30)));
            write!(out, "\r[{bar}] {done} of {total} runs, {} left \x1b[K", readable(left))
        } else {
            writeln!(out, "{done} of {total} runs, {} left", readable(left))
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
