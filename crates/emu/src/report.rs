//! The statistics of a link, as numbers and as text.

use anabranch_base::time::{Duration, nanos};
use anabranch_base::{Bytes, Histogram};
use anabranch_link::{Meter, Tally};
use std::fmt;
use std::io;

/// The statistics of one direction of a path.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct DirectionReport {
    /// The counters of the link's elements.
    pub meter: Meter,
    /// The time from reading a packet at one end to writing it at the other end.
    pub delay: Histogram,
    /// The time from the instant at which the chain released a packet until the packet was written.
    pub late: Histogram,
    /// The number of packets that were still inside the link at the end of the run.
    pub held: u64,
    /// The number of packets that were refused because the link already held its maximum number of packets.
    pub refused: u64,
    /// The number of packets that the kernel at the other end did not accept.
    pub refused_by_kernel: u64,
    /// The error message for the first packet that the kernel did not accept.
    pub refusal_error: String,
}

impl DirectionReport {
    /// Counts a packet that the kernel did not accept.
    pub(crate) fn refuse(&mut self, error: &io::Error) {
        self.refused_by_kernel += 1;
        if self.refused_by_kernel == 1 {
            self.refusal_error = error.to_string();
        }
    }
}

/// The statistics of a path: both directions of its link.
#[derive(Clone, PartialEq, Debug)]
pub struct PathReport {
    /// The time for which the path existed.
    pub span: Duration,
    /// The direction from the near end, where the command runs, to the far end.
    pub up: DirectionReport,
    /// The direction from the far end to the near end.
    pub down: DirectionReport,
    /// The processor time that the emulation of the path has taken.
    pub busy: Duration,
    /// The packets that the kernel dropped before the link saw them, up and down. Such drops mean that the machine was
    /// too slow.
    pub unseen: [u64; 2],
}

impl fmt::Display for PathReport {
    /// Writes one or two lines for each direction.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (name, report, unseen) in [("up", &self.up, self.unseen[0]), ("down", &self.down, self.unseen[1])]
        {
            direction(f, name, report, unseen)?;
        }
        Ok(())
    }
}

fn direction(f: &mut fmt::Formatter<'_>, name: &str, report: &DirectionReport, unseen: u64) -> fmt::Result {
    let meter = &report.meter;
    write!(f, "  {name:<5} {} in, {} out", tally(meter.entered), tally(meter.left))?;
    let lost = meter.lost();
    if lost.packets > 0 {
        let causes = meter.lost_by().into_iter().filter(|(.., count)| count.packets > 0);
        let causes: Vec<_> = causes.map(|(_, cause, count)| format!("{} {cause}", count.packets)).collect();
        let share = 100.0 * lost.packets as f64 / meter.carried().packets.max(1) as f64;
        write!(f, ", lost {} ({share:.2} %): {}", lost.packets, causes.join(", "))?;
    }
    let changed = meter.changed.each().into_iter().map(|(_, what, count)| (count.packets, what));
    let others = changed.chain([(report.held, "still under way")]);
    for (count, what) in others.filter(|(count, _)| *count > 0) {
        write!(f, ", {count} {what}")?;
    }
    writeln!(f)?;
    if report.delay.count() > 0 {
        writeln!(
            f,
            "        delay {} to {}, median {}, p99 {} (late by {}, p99 {}); queue at most {} packets, {}",
            ms(report.delay.min()),
            ms(report.delay.max()),
            ms(report.delay.percentile(0.5)),
            ms(report.delay.percentile(0.99)),
            ms(report.late.percentile(0.5)),
            ms(report.late.percentile(0.99)),
            meter.queue_peak_packets,
            Bytes(meter.queue_peak_bytes),
        )?;
    }
    if unseen > 0 {
        writeln!(f, "        {unseen} packets never reached the link: this machine was too slow for them")?;
    }
    if report.refused > 0 {
        writeln!(f, "        {} packets found no room in the emulator", report.refused)?;
    }
    if report.refused_by_kernel > 0 {
        writeln!(
            f,
            "        {} packets were refused at the other end: {}",
            report.refused_by_kernel, report.refusal_error
        )?;
    }
    Ok(())
}

fn tally(count: Tally) -> String {
    format!("{} packets ({})", count.packets, Bytes(count.bytes))
}

/// Formats a duration as milliseconds with three decimals.
fn ms(span: Duration) -> String {
    let nanos = nanos(span);
    format!("{}.{:03} ms", nanos / 1_000_000, nanos / 1000 % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_report_names_what_there_was_and_nothing_else() {
        let mut up = DirectionReport::default();
        up.meter.entered = Tally { packets: 200, bytes: 300_000 };
        up.meter.left = Tally { packets: 198, bytes: 297_000 };
        up.meter.lost_at_random = Tally { packets: 2, bytes: 3000 };
        up.delay.add(Duration::from_micros(40_100));
        up.late.add(Duration::from_micros(100));
        let report = PathReport {
            span: Duration::from_secs(1),
            up,
            down: DirectionReport::default(),
            busy: Duration::ZERO,
            unseen: [3, 0],
        };
        let text = report.to_string();
        assert!(
            text.contains(
                "200 packets (300kB) in, 198 packets (297kB) out, lost 2 (1.00 %): 2 by the loss model"
            ),
            "{text}"
        );
        assert!(
            text.contains("delay 40.100 ms to 40.100 ms") && text.contains("3 packets never reached"),
            "{text}"
        );
        assert!(text.contains("down  0 packets (0B) in") && !text.contains("doubled"), "{text}");
    }
}
