//! Shows the progress of `get` on standard error: as a bar on a terminal, otherwise as a line from time to time.
//!
//! If the length of every object found so far is known, the total size and the remaining time are shown. Otherwise the
//! received bytes and their rate are shown.

use crate::progress::readable;
use anabranch_base::time::{Duration, Instant};
use anabranch_http::visit::Step;
use anabranch_world::World;
use anabranch_world::os::OsWorld;
use std::cell::RefCell;
use std::collections::VecDeque;
use std::io::{IsTerminal, Write};
use std::rc::Rc;

/// Counts bytes as they arrive, and shows the progress.
pub struct Meter {
    terminal: bool,
    tally: RefCell<Tally>,
}

/// The progress of all objects so far.
#[derive(Debug, Default)]
struct Tally {
    items: Vec<Item>,
    finished: usize,
    /// Recent samples, the oldest first: the time since the start, and the number of bytes received by then.
    samples: VecDeque<(Duration, u64)>,
    /// When a line was last written, as time since the start.
    last_shown: Duration,
    drawn: bool,
}

#[derive(Debug, Default)]
struct Item {
    received: u64,
    /// The length of the object in bytes; `None` if it is unknown.
    length: Option<u64>,
}

impl Meter {
    /// Creates a meter without any objects.
    pub fn new() -> Rc<Self> {
        Rc::new(Self { terminal: std::io::stderr().is_terminal(), tally: RefCell::default() })
    }

    /// Records a step of the object with the index `number`. [`Step::Found`] adds an object, so it must be recorded in
    /// the order of the indices.
    pub fn step(&self, number: usize, step: Step) {
        let mut tally = self.tally.borrow_mut();
        if step == Step::Found {
            return tally.items.push(Item::default());
        }
        let Some(item) = tally.items.get_mut(number) else { return };
        match step {
            Step::Found => {}
            Step::Started(length) => *item = Item { received: 0, length },
            Step::Received(bytes) => item.received += bytes,
            Step::Finished => {
                item.length = Some(item.received);
                tally.finished += 1;
            }
        }
    }

    /// Shows the progress periodically, until the future is dropped.
    pub async fn show(self: Rc<Self>, world: OsWorld) {
        let began = world.now();
        let period = if self.terminal { Duration::from_millis(200) } else { Duration::from_secs(1) };
        loop {
            world.sleep_until(world.now() + period).await;
            self.sample(began, world.now());
        }
    }

    fn sample(&self, began: Instant, now: Instant) {
        let mut tally = self.tally.borrow_mut();
        let elapsed = now - began;
        tally.sample(elapsed);
        // If standard error is not a terminal, the interval between two lines grows with the elapsed time.
        let due = tally.last_shown + (elapsed / 4).clamp(Duration::from_millis(900), Duration::from_secs(10));
        if !self.terminal && elapsed < due {
            return;
        }
        (tally.last_shown, tally.drawn) = (elapsed, true);
        let line = tally.line(self.terminal);
        let mut out = std::io::stderr().lock();
        let _ = if self.terminal { write!(out, "\r{line} \x1b[K") } else { writeln!(out, "{line}") };
        let _ = out.flush();
    }

    /// Clears the progress bar from the terminal.
    pub fn clear(&self) {
        if self.terminal && std::mem::take(&mut self.tally.borrow_mut().drawn) {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
    }
}

impl Tally {
    fn received(&self) -> u64 {
        self.items.iter().map(|item| item.received).sum()
    }

    fn sample(&mut self, elapsed: Duration) {
        self.samples.push_back((elapsed, self.received()));
        while self.samples.get(1).is_some_and(|&(at, _)| at + WINDOW <= elapsed) {
            self.samples.pop_front();
        }
    }

    /// The rate at which bytes arrived recently, in bytes per second.
    fn rate(&self) -> u64 {
        let (Some(&(from, before)), Some(&(to, received))) = (self.samples.front(), self.samples.back())
        else {
            return 0;
        };
        // With a single sample, the result is the average rate since the start of the download.
        let (from, before) = if from == to { (Duration::ZERO, 0) } else { (from, before) };
        let span = (to - from).as_millis().max(1);
        (u128::from(received.saturating_sub(before)) * 1000 / span) as u64
    }

    fn line(&self, bar: bool) -> String {
        let (received, rate, objects) = (self.received(), self.rate(), self.items.len());
        let total: Option<u64> = self.items.iter().map(|item| item.length).sum();
        let count =
            if objects > 1 { format!("{} of {objects} objects, ", self.finished) } else { String::new() };
        let (text, done, of) = match total {
            Some(total) => {
                let left = total.saturating_sub(received);
                let left = match left.div_ceil(rate.max(1)) {
                    _ if left == 0 => String::new(),
                    _ if rate == 0 => ", nothing comes".to_owned(),
                    seconds => format!(", {} left", readable(Duration::from_secs(seconds))),
                };
                let (unit, name) = unit(total);
                let of = |bytes: u64| format!("{:.1}", bytes as f64 / unit);
                (format!("{} of {} {name}{left}", of(received), of(total)), received, total)
            }
            None => {
                let of = |bytes: u64| {
                    let (unit, name) = unit(bytes);
                    format!("{:.1} {name}", bytes as f64 / unit)
                };
                (format!("{}, {}/s", of(received), of(rate)), self.finished as u64, objects as u64)
            }
        };
        // A bar needs a known total: the bytes of all objects or, if the length of an object is unknown, the number of
        // objects.
        let known = total.is_some() || objects > 1;
        let filled = (BAR as u128 * u128::from(done) / u128::from(of.max(1))) as usize;
        let bar = if bar && known {
            format!("[{}{}] ", "#".repeat(filled.min(BAR)), ".".repeat(BAR - filled.min(BAR)))
        } else {
            String::new()
        };
        format!("{bar}{count}{text}")
    }
}

fn unit(bytes: u64) -> (f64, &'static str) {
    match bytes {
        0..1_000_000 => (1e3, "kB"),
        1_000_000..1_000_000_000 => (1e6, "MB"),
        _ => (1e9, "GB"),
    }
}

/// The period over which the rate is measured.
const WINDOW: Duration = Duration::from_secs(5);
/// The width of the bar in columns.
const BAR: usize = 30;

#[cfg(test)]
mod tests {
    use super::*;

    fn after(steps: &[(usize, Step)], looks: &[(u64, u64)]) -> Tally {
        let meter = Meter { terminal: false, tally: RefCell::default() };
        for &(number, step) in steps {
            meter.step(number, step);
        }
        let mut tally = meter.tally.into_inner();
        tally.samples = looks.iter().map(|&(at, received)| (Duration::from_secs(at), received)).collect();
        tally
    }

    #[test]
    fn a_length_that_is_known_has_a_bar_and_an_end() {
        let steps = [(0, Step::Found), (0, Step::Started(Some(40_000_000))), (0, Step::Received(10_000_000))];
        let tally = after(&steps, &[(0, 0), (5, 10_000_000)]);
        assert_eq!(tally.line(false), "10.0 of 40.0 MB, 15 s left");
        assert_eq!(tally.line(true), "[#######.......................] 10.0 of 40.0 MB, 15 s left");
        let stalled = after(&steps, &[(5, 10_000_000), (10, 10_000_000)]);
        assert_eq!(stalled.line(false), "10.0 of 40.0 MB, nothing comes");
        let first = after(&steps, &[(2, 10_000_000)]);
        assert_eq!(first.line(false), "10.0 of 40.0 MB, 6 s left");
    }

    #[test]
    fn a_length_that_is_not_known_is_not_made_up() {
        let steps = [(0, Step::Found), (0, Step::Started(None)), (0, Step::Received(13_100_000))];
        let tally = after(&steps, &[(0, 0), (5, 13_100_000)]);
        assert_eq!(tally.line(true), "13.1 MB, 2.6 MB/s");
        // While object 0 is being received, its length is not known, so the total size is not shown. It is shown once
        // object 0 is finished.
        let mut several = steps.to_vec();
        several.extend([(0, Step::Found), (1, Step::Started(Some(1000)))]);
        let tally = after(&several, &[(0, 0), (5, 13_100_000)]);
        assert_eq!(tally.line(false), "0 of 2 objects, 13.1 MB, 2.6 MB/s");
        several.extend([(0, Step::Finished), (1, Step::Received(500))]);
        let tally = after(&several, &[(0, 0), (5, 13_100_500)]);
        assert_eq!(tally.line(false), "1 of 2 objects, 13.1 of 13.1 MB, 1 s left");
        several.push((1, Step::Finished));
        let tally = after(&several, &[(0, 0), (5, 13_100_500)]);
        assert_eq!(tally.line(false), "2 of 2 objects, 13.1 of 13.1 MB");
    }

    #[test]
    fn the_rate_covers_only_the_recent_window() {
        let mut tally = after(&[(0, Step::Found)], &[]);
        for second in 1..=60 {
            tally.items[0].received = if second < 50 { second * 1000 } else { 50_000 };
            tally.sample(Duration::from_secs(second));
        }
        assert!(tally.samples.len() <= 7 && tally.rate() == 0, "{tally:?}");
    }
}
