//! Reads traces, which record the capacity of a link over time. A trace is in mahimahi's format or a table with
//! columns.
//!
//! In mahimahi's format, each line is a time in whole milliseconds, never decreasing. At each of these times the link
//! can deliver 1500 bytes (an *opportunity*). Several packets may share one opportunity, and one packet may need
//! several opportunities. If no packet waits for the rest of an opportunity, that rest is lost. The trace repeats, and
//! its last time is the length of the period.
//!
//! In the format with columns, lines contain times and rates. They may also contain round-trip times and loss rates
//! (modules `columns` and `series`). A trace in this format repeats, too.

mod columns;
pub mod series;

use crate::DirectionSpec;
use crate::rate::Transmission;
use crate::spec::{SpecError, TraceSpec};
use crate::table::Impairment;
use anabranch_base::{BitRate, Instant, Ratio};
use series::Series;
use std::sync::Arc;

/// The traces that are shipped with the program, each with its name and its text. The first lines of the text name the
/// authors.
pub const SHIPPED: &[(&str, &str)] = &[("lte-walking", include_str!("../traces/lte-walking.trace"))];

/// A recorded trace. A clone shares the recorded values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trace {
    capacity: Capacity,
    /// The one-way propagation delays in nanoseconds, if they are recorded.
    delays: Option<Series<u64>>,
    losses: Option<Series<Ratio>>,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Capacity {
    Opportunities(Opportunities),
    /// The rates in bits per second. At least one of them is above 0.
    Rates(Series<u64>),
}

/// The opportunities of a trace: times at which up to 1500 bytes may leave. Clones share one list of times.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Opportunities {
    /// The times of the opportunities in milliseconds, in order. The list has at least one time, and the last time is
    /// above 0.
    times: Arc<[u32]>,
}

impl Trace {
    /// Parses the text of a trace file. Empty lines and lines beginning with `#` are skipped. The first other line
    /// decides the format: mahimahi's if the line has one column, or else a table of columns.
    ///
    /// # Errors
    /// The error names the first invalid line and says what to write there, or says that the trace has no lines or no
    /// capacity.
    pub fn parse(text: &str) -> Result<Self, SpecError> {
        let text = text.trim_start_matches('\u{feff}');
        let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
        if first.is_some_and(columns::has_columns) {
            return columns::parse(text);
        }
        let capacity = Capacity::Opportunities(Opportunities::parse(text)?);
        Ok(Self { capacity, delays: None, losses: None })
    }

    /// Creates a trace from rates in bits per second, one-way delays in nanoseconds, and loss rates.
    fn of_series(rates: Series<u64>, delays: Option<Series<u64>>, losses: Option<Series<Ratio>>) -> Self {
        Self { capacity: Capacity::Rates(rates), delays, losses }
    }

    /// Returns the times at which packets may leave, if the trace is in mahimahi's format.
    #[must_use]
    pub const fn opportunities(&self) -> Option<&Opportunities> {
        match &self.capacity {
            Capacity::Opportunities(opportunities) => Some(opportunities),
            Capacity::Rates(_) => None,
        }
    }

    /// Returns the rates in bits per second if the trace is in the format with columns, or `None` for a mahimahi
    /// trace.
    #[must_use]
    pub const fn rates(&self) -> Option<&Series<u64>> {
        match &self.capacity {
            Capacity::Opportunities(_) => None,
            Capacity::Rates(rates) => Some(rates),
        }
    }

    /// Returns the one-way propagation delays in nanoseconds, if they are recorded: half of each recorded round-trip
    /// time.
    #[must_use]
    pub const fn delays(&self) -> Option<&Series<u64>> {
        self.delays.as_ref()
    }

    /// Returns the loss rates, if they are recorded.
    #[must_use]
    pub const fn losses(&self) -> Option<&Series<Ratio>> {
        self.losses.as_ref()
    }

    /// Returns the average rate over one period.
    #[must_use]
    pub fn mean_rate(&self) -> BitRate {
        match &self.capacity {
            Capacity::Opportunities(opportunities) => opportunities.mean_rate(),
            Capacity::Rates(rates) => {
                let (mut span, mut bits) = (0_u128, 0_u128);
                for (nanos, rate) in rates.spans() {
                    span += u128::from(nanos);
                    bits += u128::from(nanos) * u128::from(rate);
                }
                let rate = u64::try_from(bits / span.max(1)).unwrap_or(u64::MAX);
                BitRate::from_bits_per_second(rate).unwrap_or(SLOWEST)
            }
        }
    }
}

impl Opportunities {
    /// Parses the text of a trace file in mahimahi's format. Empty lines and lines beginning with `#` are skipped.
    ///
    /// # Errors
    /// The error names the first line that is not a time or that is earlier than the line before. Otherwise it says
    /// that the trace has no lines, no duration, or more than [`MAX_LINES`] lines.
    fn parse(text: &str) -> Result<Self, SpecError> {
        let mut times: Vec<u32> = Vec::new();
        for (index, line) in text.lines().enumerate() {
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let number = index + 1;
            let time: u32 = line.parse().map_err(|_| {
                let shown: String = line.chars().take(20).collect();
                SpecError::new(format!(
                    "trace line {number}: '{shown}' is not a time; write whole milliseconds such as 250"
                ))
            })?;
            if times.last().is_some_and(|last| *last > time) {
                return Err(SpecError::new(format!(
                    "trace line {number}: {time} ms lies before the line above; times never decrease"
                )));
            }
            if times.len() == MAX_LINES {
                return Err(SpecError::new(format!("trace line {number}: more than {MAX_LINES} lines")));
            }
            times.push(time);
        }
        match times.last() {
            None => Err(SpecError::new("the trace is empty; write one time in milliseconds a line")),
            Some(0) => Err(SpecError::new("the trace lasts 0 ms; its last line must be above 0")),
            Some(_) => Ok(Self { times: times.into() }),
        }
    }

    /// Returns the times in milliseconds at which up to [`OPPORTUNITY_BYTES`] bytes can be sent.
    #[must_use]
    pub fn times_ms(&self) -> &[u32] {
        &self.times
    }

    /// Returns the period in milliseconds after which the trace repeats.
    #[must_use]
    pub fn period_ms(&self) -> u64 {
        self.times.last().map_or(1, |last| u64::from(*last))
    }

    /// Returns the average rate over one period.
    #[must_use]
    pub fn mean_rate(&self) -> BitRate {
        let bits = self.times.len() as u64 * OPPORTUNITY_BYTES * 8;
        let rate = (u128::from(bits) * 1000 / u128::from(self.period_ms())).max(1);
        BitRate::from_bits_per_second(rate as u64).unwrap_or(SLOWEST)
    }

    /// Returns the time of the delivery opportunity with number `index`. The first opportunity has number 0, and the
    /// count goes on when the trace repeats.
    #[must_use]
    pub fn opportunity(&self, index: u64) -> Instant {
        let count = self.times.len() as u64;
        let ms = (index / count)
            .saturating_mul(self.period_ms())
            .saturating_add(u64::from(self.times[(index % count) as usize]));
        Instant::from_nanos(ms.saturating_mul(NANOS_PER_MS))
    }

    /// Returns the index of the first delivery opportunity at or after `at`.
    #[must_use]
    pub fn first_from(&self, at: Instant) -> u64 {
        let ms = at.as_nanos().div_ceil(NANOS_PER_MS);
        // A repetition starts at the instant at which the previous repetition ends. This instant belongs to the
        // previous repetition.
        let round = ms.saturating_sub(1) / self.period_ms();
        let within = ms - round * self.period_ms();
        let index = self.times.partition_point(|time| u64::from(*time) < within) as u64;
        round * self.times.len() as u64 + index
    }
}

/// A serializer that sends packets at the opportunities of a trace.
#[derive(Clone, Debug)]
pub struct TracePlayer {
    trace: Opportunities,
    /// The index of the current delivery opportunity.
    index: u64,
    /// The number of bytes that the current opportunity can still deliver.
    bytes_left: u64,
    /// The time at which the last transmission ends.
    free_at: Instant,
}

impl Impairment<Option<TraceSpec>> for TracePlayer {
    fn read(text: &str) -> Result<Option<TraceSpec>, String> {
        if text.is_empty() {
            return Err("write the name of a file".to_owned());
        }
        Ok(Some(TraceSpec { file: text.to_owned(), trace: None }))
    }

    fn show(spec: &DirectionSpec) -> String {
        spec.trace.as_ref().map(|trace| trace.file.clone()).unwrap_or_default()
    }
}

impl TracePlayer {
    /// Creates a serializer that follows the recording `trace`, which begins at [`Instant::ZERO`].
    #[must_use]
    pub const fn new(trace: Opportunities) -> Self {
        Self { trace, index: 0, bytes_left: OPPORTUNITY_BYTES, free_at: Instant::ZERO }
    }

    /// Schedules a packet; see [`Serializer::transmit`](crate::rate::Serializer::transmit).
    pub fn transmit(&mut self, at: Instant, bytes: usize) -> Transmission {
        if self.trace.opportunity(self.index) < at {
            self.index = self.trace.first_from(at);
            self.bytes_left = OPPORTUNITY_BYTES;
        }
        if self.bytes_left == 0 {
            self.index += 1;
            self.bytes_left = OPPORTUNITY_BYTES;
        }
        let start = self.trace.opportunity(self.index);
        let mut bytes = bytes as u64;
        if bytes > self.bytes_left {
            bytes -= self.bytes_left;
            // Skip to the opportunity that takes the packet's last byte, in one step.
            let whole = (bytes - 1) / OPPORTUNITY_BYTES;
            self.index += whole + 1;
            bytes -= whole * OPPORTUNITY_BYTES;
            self.bytes_left = OPPORTUNITY_BYTES;
        }
        self.bytes_left -= bytes;
        self.free_at = self.trace.opportunity(self.index);
        Transmission { start, end: self.free_at }
    }

    /// Returns the time at which the last transmission ends.
    #[must_use]
    pub const fn free_at(&self) -> Instant {
        self.free_at
    }
}

/// The maximum number of lines of a trace. At 100 Mbit/s, a trace of this length lasts 100 minutes.
pub const MAX_LINES: usize = 50_000_000;

/// The number of bytes that one opportunity can deliver.
pub const OPPORTUNITY_BYTES: u64 = 1500;

const NANOS_PER_MS: u64 = 1_000_000;

const SLOWEST: BitRate = match BitRate::from_bits_per_second(1) {
    Some(rate) => rate,
    None => panic!("1 is not 0"),
};

#[cfg(test)]
mod tests {
    use super::*;

    fn player(text: &str) -> TracePlayer {
        TracePlayer::new(Opportunities::parse(text).expect("a trace"))
    }

    const fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn a_packet_leaves_at_an_opportunity_and_the_trace_repeats() {
        let mut link = player("1\n1\n5\n10\n");
        let mut end = |at, bytes| link.transmit(ms(at), bytes).end;
        assert_eq!(end(0, 1500), ms(1));
        assert_eq!(end(0, 1500), ms(1));
        assert_eq!(end(0, 1500), ms(5));
        // After 5 ms, the next opportunities are at 10 ms and, when the trace repeats, twice at 11 ms.
        assert_eq!(end(6, 1500), ms(10));
        assert_eq!(end(6, 1500), ms(11));
        assert_eq!(end(12, 1500), ms(15));
        // A packet that arrives exactly at an opportunity uses it.
        assert_eq!(end(20, 1500), ms(20));
        assert_eq!(end(1_000_000_001, 1500), ms(1_000_000_001));
    }

    #[test]
    fn small_packets_share_an_opportunity_and_large_ones_take_several() {
        let mut link = player("2\n4\n6\n8\n");
        let mut sent = |at, bytes| {
            let sent = link.transmit(ms(at), bytes);
            (sent.start, sent.end)
        };
        assert_eq!(sent(0, 500), (ms(2), ms(2)));
        assert_eq!(sent(0, 900), (ms(2), ms(2)));
        // The packet uses the remaining 100 bytes of the opportunity at 2 ms, and 1400 bytes of the one at 4 ms.
        assert_eq!(sent(0, 1500), (ms(2), ms(4)));
        // The packet uses 100 bytes of the opportunity at 4 ms, all 1500 bytes at 6 ms, and 1400 bytes at 8 ms.
        assert_eq!(sent(0, 3000), (ms(4), ms(8)));
        // At 9 ms, the unused rest of the opportunity at 8 ms has expired. The packet therefore uses the whole
        // opportunity at 10 ms.
        assert_eq!(sent(9, 1500), (ms(10), ms(10)));
    }

    #[test]
    fn errors_describe_what_is_wrong_with_a_trace() {
        let says = |text: &str| Trace::parse(text).expect_err(text).to_string();
        assert!(says("").contains("empty"));
        assert!(says("0\n0\n").contains("0 ms"));
        assert!(says("1\nx\n").contains("line 2: 'x'"));
        assert!(says("1\n2 3\n").contains("line 2: '2 3'"));
        assert!(says("1\n-3\n").contains("line 2"));
        assert!(says("5\n4\n").contains("line 2: 4 ms"));
        assert!(says("1\n99999999999\n").contains("line 2"));
        let trace = Trace::parse("# a comment\n\n3\n6\n").expect("a trace");
        assert_eq!(trace.mean_rate().bits_per_second(), 4_000_000);
    }
}
