//! Values over time: each value applies until the time of the next value, and the sequence repeats after its end.
//!
//! This module holds the rates, delays and losses of a trace in columns, and the elements that apply them to packets:
//! [`RatePlayer`] for the capacity and [`TraceDelay`] for the propagation delay.

use crate::element::{Fate, ImmediateElement};
use crate::meter::Meter;
use crate::rate::Transmission;
use anabranch_base::{Instant, Ratio};
use std::sync::Arc;

/// A value that changes at known times. A clone shares the recorded values.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Series<T> {
    /// The start time of each step in nanoseconds, and the value from that time on. The first step starts at 0, and the
    /// times increase.
    steps: Arc<[(u64, T)]>,
    /// The time in nanoseconds after which the series repeats; `None` if the series has only one value.
    period: Option<u64>,
}

impl<T: Copy> Series<T> {
    /// Creates a series from the start time of each step in nanoseconds and its value. The first step must start at 0,
    /// the times must increase, and `period` must be later than the last step. Returns `None` if there are no steps.
    pub(super) fn new(steps: Vec<(u64, T)>, period: Option<u64>) -> Option<Self> {
        debug_assert!(steps.windows(2).all(|pair| pair[0].0 < pair[1].0), "steps ascend");
        debug_assert!(
            period.is_none_or(|period| steps.last().is_some_and(|last| last.0 < period)),
            "and end"
        );
        (!steps.is_empty()).then(|| Self { steps: steps.into(), period })
    }

    /// Returns the start time of each step in nanoseconds, and the value from that time on.
    #[must_use]
    pub fn steps(&self) -> &[(u64, T)] {
        &self.steps
    }

    /// Returns the period in nanoseconds after which the series repeats; `None` if the series is constant.
    #[must_use]
    pub const fn period(&self) -> Option<u64> {
        self.period
    }

    /// Returns the value at the instant `at`.
    #[must_use]
    pub fn at(&self, at: Instant) -> T {
        self.steps[self.index(at.as_nanos())].1
    }

    /// Returns the index of the step that contains the time `at` in nanoseconds.
    fn index(&self, at: u64) -> usize {
        let within = self.period.map_or(at, |period| at % period);
        self.steps.partition_point(|(step, _)| *step <= within).saturating_sub(1)
    }

    /// Returns the time in nanoseconds at which the current step ends. `at` is the time now, and `index` is the index
    /// of the step.
    fn end(&self, index: usize, at: u64) -> u64 {
        let Some(period) = self.period else { return u64::MAX };
        let end = self.steps.get(index + 1).map_or(period, |(step, _)| *step);
        (at - at % period).saturating_add(end)
    }

    /// Returns the duration of each step in nanoseconds, and its value. For a constant series, returns one step of 1
    /// ns.
    pub(super) fn spans(&self) -> impl Iterator<Item = (u64, T)> {
        let ends = self.steps.iter().skip(1).map(|(at, _)| *at);
        let ends = ends.chain([self.period.unwrap_or(1)]);
        self.steps.iter().zip(ends).map(|((begin, value), end)| (end - begin, *value))
    }
}

impl Series<Ratio> {
    /// Returns the average of the value over time.
    #[must_use]
    pub fn mean(&self) -> f64 {
        let whole: u64 = self.spans().map(|(span, _)| span).sum();
        self.spans().map(|(span, share)| span as f64 * share.as_f64()).sum::<f64>() / whole.max(1) as f64
    }
}

/// A serializer that sends packets at the rates of a trace.
#[derive(Clone, Debug)]
pub struct RatePlayer {
    /// The rates in bits per second. At least one of them is above 0.
    rates: Series<u64>,
    /// The capacity of one period of the trace, in bits × 10⁹.
    capacity: u128,
    /// The time at which the last transmission ends.
    free_at: Instant,
}

impl RatePlayer {
    /// Creates a serializer that follows the recorded `rates`. The recording begins at [`Instant::ZERO`].
    #[must_use]
    pub fn new(rates: Series<u64>) -> Self {
        let capacity = rates.spans().map(|(span, rate)| u128::from(span) * u128::from(rate)).sum();
        Self { rates, capacity, free_at: Instant::ZERO }
    }

    /// Schedules a packet; see [`Serializer::transmit`](crate::rate::Serializer::transmit).
    pub fn transmit(&mut self, at: Instant, bytes: usize) -> Transmission {
        let start = self.next_positive_rate(self.free_at.max(at).as_nanos());
        // The size of the packet in bits times 10⁹. In this unit, rate × nanoseconds is a whole number.
        let end = self.end(start, bytes as u128 * 8_000_000_000);
        self.free_at = Instant::from_nanos(end);
        Transmission { start: Instant::from_nanos(start), end: self.free_at }
    }

    /// Returns the time at which the last transmission ends.
    #[must_use]
    pub const fn free_at(&self) -> Instant {
        self.free_at
    }

    /// Returns the first nanosecond with a rate above 0, from nanosecond `at` on.
    fn next_positive_rate(&self, mut at: u64) -> u64 {
        let mut index = self.rates.index(at);
        // At least one rate is above 0, so the loop finds it before it has visited all steps once.
        for _ in 0..=self.rates.steps.len() {
            if self.rates.steps[index].1 > 0 {
                break;
            }
            at = self.rates.end(index, at);
            index = (index + 1) % self.rates.steps.len();
        }
        at
    }

    /// Returns the time at which `need` / 10⁹ bits have been sent, if sending begins at `at`. Times are in nanoseconds
    /// and rates in bits per second.
    fn end(&self, mut at: u64, mut need: u128) -> u64 {
        // The trace repeats, and a large packet at a low rate may take many repetitions. Skip whole repetitions in one
        // step.
        if let Some(period) = self.rates.period
            && need > self.capacity
        {
            let rounds = (need - 1) / self.capacity;
            need -= rounds * self.capacity;
            let span = u64::try_from(rounds).unwrap_or(u64::MAX).saturating_mul(period);
            at = at.saturating_add(span);
        }
        let mut index = self.rates.index(at);
        while at < u64::MAX {
            let rate = u128::from(self.rates.steps[index].1);
            let change = self.rates.end(index, at);
            let room = rate * u128::from(change - at);
            if need <= room {
                let span = need.div_ceil(rate.max(1));
                return at.saturating_add(u64::try_from(span).unwrap_or(u64::MAX));
            }
            need -= room;
            at = change;
            index = (index + 1) % self.rates.steps.len();
        }
        u64::MAX
    }
}

/// A propagation delay that follows a trace. The delay of a packet is the delay recorded for the instant at which the
/// packet enters. No packet overtakes the packet before it.
#[derive(Clone, Debug)]
pub struct TraceDelay {
    /// The one-way delays in nanoseconds.
    delays: Series<u64>,
    last: Instant,
}

impl TraceDelay {
    /// Creates an element that delays packets by the one-way delays `delays`, in nanoseconds.
    #[must_use]
    pub const fn new(delays: Series<u64>) -> Self {
        Self { delays, last: Instant::ZERO }
    }
}

impl<P> ImmediateElement<P> for TraceDelay {
    fn pass(&mut self, at: Instant, _packet: &mut P, _meter: &mut Meter) -> Fate {
        self.last = at.plus_nanos(self.delays.at(at)).max(self.last);
        Fate::Leaves(self.last)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::TestPacket;

    const fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    fn series(steps: &[(u64, u64)], period_ms: u64) -> Series<u64> {
        let steps = steps.iter().map(|(at, value)| (at * 1_000_000, *value)).collect();
        Series::new(steps, Some(period_ms * 1_000_000)).expect("steps")
    }

    #[test]
    fn packets_take_the_rate_of_the_moment_and_the_trace_repeats() {
        // The rate is 12 Mbit/s for 10 ms, 0 for 10 ms, and 1.2 Mbit/s for 10 ms.
        let mut link = RatePlayer::new(series(&[(0, 12_000_000), (10, 0), (20, 1_200_000)], 30));
        let mut sent = |at, bytes| {
            let sent = link.transmit(ms(at), bytes);
            (sent.start, sent.end)
        };
        assert_eq!(sent(0, 1500), (ms(0), ms(1)));
        assert_eq!(sent(0, 1500), (ms(1), ms(2)));
        // One half of the packet is sent before the gap. The other half is sent after the gap, at a tenth of the rate.
        assert_eq!(sent(9, 3000), (ms(9), ms(30)));
        // The first packet waits until the gap ends. The second packet is sent across the start of the next period:
        // 10,800 bits in 9 ms, then 1,200 bits in 0.1 ms.
        assert_eq!(sent(41, 1500), (ms(50), ms(60)));
        assert_eq!(sent(81, 1500), (ms(81), Instant::from_nanos(90_100_000)));
        assert_eq!(link.transmit(ms(1_000_000_000), 1500).end.as_nanos() / 1_000_000_000, 1_000_000);
    }

    #[test]
    fn a_large_packet_at_a_low_rate_takes_whole_periods_at_once() {
        // The rate is 1000 bit/s for 1 ms in each second, which is 1 bit/s on average.
        let mut link = RatePlayer::new(series(&[(0, 1000), (1, 0)], 1000));
        assert_eq!(link.transmit(ms(0), 1500).end, ms(11_999 * 1000 + 1));
        let mut constant = RatePlayer::new(Series::new(vec![(0, 8)], None).expect("a step"));
        assert_eq!(constant.transmit(ms(5), 2).end, ms(2005));
    }

    #[test]
    fn packets_stay_in_order_when_the_delay_falls() {
        let mut delay = TraceDelay::new(series(&[(0, 40_000_000), (10, 5_000_000)], 20));
        let mut meter = Meter::default();
        let mut leaves = |at| match delay.pass(ms(at), &mut TestPacket::new(1), &mut meter) {
            Fate::Leaves(at) => at,
            fate => panic!("{fate:?}"),
        };
        assert_eq!([leaves(0), leaves(9), leaves(10), leaves(19)], [ms(40), ms(49), ms(49), ms(49)]);
        assert_eq!([leaves(20), leaves(50)], [ms(60), ms(60)]);
    }
}
