//! The most that links can carry, as a fluid: for limits that nothing beats.
//!
//! A [`Fluid`] is one direction of one or several paths taken together, with
//! their rates, changes, traces and outages, and without queues, packets,
//! headers or losses. Bytes are poured in and the instant is told at which the
//! last of them can have passed. Propagation is the caller's to add.
//!
//! Everything follows from the level: how much the paths together could have
//! carried from the beginning to an instant. It never falls, so the instant at
//! which a level is reached is found by halving an interval.

use crate::outage::Down;
use crate::spec::{DirectionSpec, SpecError};
use crate::trace::{OPPORTUNITY_BYTES, Trace};
use anabranch_base::Instant;

/// Paths as a fluid, and how far they are used.
#[derive(Clone, Debug)]
pub struct Fluid {
    paths: Vec<Path>,
    used: u128,
}

/// In bits × 10⁹ ("bit-nanos"), in which rate × nanoseconds is whole.
type Level = u128;

#[derive(Clone, Debug)]
struct Path {
    source: Source,
    /// Sorted, without overlap.
    downs: Vec<Down>,
}

#[derive(Clone, Debug)]
enum Source {
    /// Any number of bytes at any instant.
    Unlimited,
    /// From each instant on, this many bits a second; the first from the beginning.
    Rate(Vec<(Instant, u64)>),
    Trace(Trace),
}

/// Whether what passes at the very instant counts: an opportunity of a trace,
/// or whatever an unlimited link is given.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Bound {
    Before,
    Included,
}

impl Fluid {
    /// The fluid of these directions taken together.
    ///
    /// # Errors
    /// A trace that has not been read.
    pub fn new<'a>(directions: impl IntoIterator<Item = &'a DirectionSpec>) -> Result<Self, SpecError> {
        let paths: Result<Vec<Path>, SpecError> = directions.into_iter().map(Path::new).collect();
        Ok(Self { paths: paths?, used: 0 })
    }

    /// Pours in `bytes` which are there from `from` on, behind all that was
    /// poured in before. Gives the instant at which the last can have passed;
    /// [`Instant::MAX`] when the paths never carry that much.
    pub fn pour(&mut self, from: Instant, bytes: u64) -> Instant {
        // What could have been carried before `from` was carried in vain.
        let begin = self.paths.iter().map(|path| path.level(from, Bound::Before)).sum();
        self.used = self.used.max(begin) + u128::from(bytes) * BIT_NANOS_A_BYTE;
        if bytes == 0 { from } else { self.reaches(self.used).max(from) }
    }

    /// What could have been carried until `at`, that instant included.
    fn level(&self, at: Instant) -> Level {
        self.paths.iter().map(|path| path.level(at, Bound::Included)).sum()
    }

    /// The first instant at which the level is at least this.
    fn reaches(&self, level: Level) -> Instant {
        let (mut low, mut high) = (0_u64, u64::MAX);
        if self.level(Instant::from_nanos(high)) < level {
            return Instant::MAX;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.level(Instant::from_nanos(middle)) >= level {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        Instant::from_nanos(low)
    }
}

impl Path {
    fn new(spec: &DirectionSpec) -> Result<Self, SpecError> {
        let source = match (&spec.trace, spec.rate.first()) {
            (Some(named), _) => match &named.trace {
                Some(trace) => Source::Trace(trace.clone()),
                None => return Err(SpecError::new(format!("trace '{}' has not been read", named.file))),
            },
            (None, None) => Source::Unlimited,
            (None, Some(first)) => {
                let later = spec.rate.changes().iter().map(|(at, rate)| (*at, rate.bits_per_second()));
                let first = (Instant::ZERO, first.bits_per_second());
                Source::Rate(std::iter::once(first).chain(later).collect())
            }
        };
        Ok(Self { source, downs: Down::joined(&spec.outages) })
    }

    /// What this path could have carried until `at`.
    fn level(&self, at: Instant, bound: Bound) -> Level {
        // Packets whose last bit is sent while the link is down are lost.
        let lost = self.downs.iter().filter(|down| down.from <= at).map(|down| {
            let until = match down.until <= at {
                true => self.source.level(down.until, Bound::Before),
                false => self.source.level(at, bound),
            };
            until.saturating_sub(self.source.level(down.from, Bound::Before))
        });
        self.source.level(at, bound) - lost.sum::<Level>()
    }
}

impl Source {
    fn level(&self, at: Instant, bound: Bound) -> Level {
        match self {
            Self::Unlimited => {
                let nanos = u128::from(at.as_nanos()) + u128::from(bound == Bound::Included);
                nanos * u128::from(u64::MAX)
            }
            Self::Rate(pieces) => {
                let ends = pieces.iter().skip(1).map(|(at, _)| *at).chain([Instant::MAX]);
                let spans = pieces.iter().zip(ends).take_while(|((from, _), _)| *from < at);
                spans
                    .map(|((from, rate), end)| {
                        let nanos = end.min(at).as_nanos() - from.as_nanos();
                        u128::from(nanos) * u128::from(*rate)
                    })
                    .sum()
            }
            Self::Trace(trace) => {
                let opportunities = match bound {
                    Bound::Before => trace.first_from(at),
                    Bound::Included => trace.first_from(at.plus_nanos(1)),
                };
                u128::from(opportunities) * u128::from(OPPORTUNITY_BYTES) * BIT_NANOS_A_BYTE
            }
        }
    }
}

const BIT_NANOS_A_BYTE: u128 = 8_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::spec::LinkSpec;

    fn fluid(paths: &[&str]) -> Fluid {
        let links: Vec<LinkSpec> =
            paths.iter().map(|text| LinkSpec::parse(text).expect("it is right")).collect();
        Fluid::new(links.iter().map(|link| &link.down)).expect("no trace")
    }

    fn ms(millis: u64) -> Instant {
        Instant::from_millis(millis)
    }

    #[test]
    fn bytes_pass_at_the_rate_first_come_first_served() {
        let mut fluid = fluid(&["rate=8mbit"]);
        assert_eq!(fluid.pour(ms(10), 1000), ms(11));
        assert_eq!(fluid.pour(ms(10), 2000), ms(13));
        assert_eq!(fluid.pour(ms(20), 1000), ms(21));
        assert_eq!(fluid.pour(ms(20), 0), ms(20));
    }

    #[test]
    fn paths_add_up_and_rates_change() {
        let mut sum = fluid(&["rate=6mbit", "rate=2mbit/1s:10mbit"]);
        assert_eq!(sum.pour(ms(0), 8000), ms(8));
        assert_eq!(sum.pour(ms(1000), 16_000), ms(1008));
        assert_eq!(fluid(&["rate=unlimited"]).pour(ms(5), 1_000_000), ms(5));
    }

    #[test]
    fn what_is_down_carries_nothing() {
        let mut link = LinkSpec::parse("rate=8mbit").expect("it is right");
        link.fail(&"path=1,at=10ms,for=5ms".parse().expect("it is right"));
        link.fail(&"path=1,at=1s".parse().expect("it is right"));
        let mut fluid = Fluid::new([&link.down]).expect("no trace");
        // 10 ms until the outage, 2 ms after it.
        assert_eq!(fluid.pour(ms(0), 12_000), ms(17));
        assert_eq!(fluid.pour(ms(0), 10_000_000), Instant::MAX);
    }

    #[test]
    fn a_trace_carries_at_its_opportunities() {
        let mut link = LinkSpec::parse("trace=x").expect("it is right");
        link.load_traces(|_| Ok("2\n4\n".to_owned())).expect("it is right");
        let mut fluid = Fluid::new([&link.down]).expect("it is loaded");
        assert_eq!(fluid.pour(ms(0), 1000), ms(2));
        assert_eq!(fluid.pour(ms(0), 500), ms(2));
        assert_eq!(fluid.pour(ms(0), 1), ms(4));
        assert_eq!(fluid.pour(ms(6), 1500), ms(6));
    }
}
