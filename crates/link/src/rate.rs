//! Serialization: the time for which a packet occupies the link.
//!
//! This module implements the link's rate, which is constant or changes at known times. [`Serializer`] is either a rate
//! or a recorded trace. Times are rounded up to the nanosecond, so that the rate is never exceeded.

use crate::DirectionSpec;
use crate::half_duplex::Medium;
use crate::spec::{RateSpec, SpecError};
use crate::table::{Impairment, Side};
use crate::trace::TracePlayer;
use crate::trace::series::RatePlayer;
use anabranch_base::time::{Duration, nanos};
use anabranch_base::units::{format_duration, parse_duration};
use anabranch_base::{BitRate, Bytes, Instant};

/// The times of a packet's serialization.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Transmission {
    /// The time at which the first bit is sent. At that time the packet leaves the queue.
    pub start: Instant,
    /// The time at which the last bit is sent. At that time the packet starts to propagate.
    pub end: Instant,
}

/// Sends packets on the wire, one after the other.
#[derive(Clone, Debug)]
pub enum Serializer {
    /// Sends at a configured rate.
    Rate(Rate),
    /// Sends at the delivery opportunities of a recorded trace.
    Trace(Box<TracePlayer>),
    /// Sends at the rates of a recorded trace.
    Rates(Box<RatePlayer>),
}

impl Serializer {
    /// Creates the serializer of one direction; `None` if the serialization of packets takes no time.
    pub(crate) fn of(side: &Side<'_>) -> Result<Option<Self>, SpecError> {
        if let Some(spec) = &side.spec.trace {
            let Some(trace) = &spec.trace else {
                return Err(SpecError::new(format!("trace '{}' has not been read", spec.file)));
            };
            if let Some(opportunities) = trace.opportunities() {
                return Ok(Some(Self::Trace(Box::new(TracePlayer::new(opportunities.clone())))));
            }
            return Ok(trace.rates().map(|rates| Self::Rates(Box::new(RatePlayer::new(rates.clone())))));
        }
        let Some(rate) = side.spec.rate.first() else { return Ok(None) };
        let mut rate = Rate::new(rate)
            .with_changes(side.spec.rate.changes())
            .with_packet_cost(side.spec.overhead, side.spec.packet_time);
        if let Some(medium) = &side.medium {
            rate = rate.on(medium.clone());
        }
        Ok(Some(Self::Rate(rate)))
    }

    /// Schedules the next packet, which has `bytes` bytes and can be sent from `at` on.
    #[inline(always)]
    pub fn transmit(&mut self, at: Instant, bytes: usize) -> Transmission {
        match self {
            Self::Rate(rate) => rate.transmit(at, bytes),
            recorded => recorded.transmit_recorded(at, bytes),
        }
    }

    /// Does the same as [`transmit`](Self::transmit), for recorded traces. Is not inlined, because most links have a
    /// configured rate.
    #[inline(never)]
    fn transmit_recorded(&mut self, at: Instant, bytes: usize) -> Transmission {
        match self {
            Self::Rate(rate) => rate.transmit(at, bytes),
            Self::Trace(trace) => trace.transmit(at, bytes),
            Self::Rates(rates) => rates.transmit(at, bytes),
        }
    }

    /// Returns the time at which all packets so far have been serialized.
    #[must_use]
    #[inline]
    pub fn free_at(&self) -> Instant {
        match self {
            Self::Rate(rate) => rate.medium.free_at(),
            Self::Trace(trace) => trace.free_at(),
            Self::Rates(rates) => rates.free_at(),
        }
    }
}

/// A rate that is constant between changes at known times.
#[derive(Clone, Debug)]
pub struct Rate {
    rate: BitRate,
    /// The future changes of the rate, in descending order of time. The next change is the last entry.
    changes: Vec<(Instant, BitRate)>,
    medium: Medium,
    /// The additional cost of each packet: the bytes that are added to its size, and the nanoseconds that pass before
    /// its first bit.
    packet_cost: (u64, u64),
    /// The size of the last packet and its serialization time, cached. Most packets in one direction have the same
    /// size, and a division costs more than the rest of this element.
    cached_time: (u64, u64),
}

impl Impairment<RateSpec> for Rate {
    fn read(text: &str) -> Result<RateSpec, String> {
        text.parse().map_err(|error: SpecError| error.to_string())
    }

    fn show(spec: &DirectionSpec) -> String {
        if spec.trace.is_none() { spec.rate.to_string() } else { String::new() }
    }
}

/// The bytes that framing adds to a packet on the medium: preamble, header, check sequence and gap. These bytes take
/// time to send, but no host sees them.
pub(crate) struct Overhead;

impl Impairment<Bytes> for Overhead {
    fn read(text: &str) -> Result<Bytes, String> {
        let bytes: Bytes = text.parse().map_err(|error| format!("{error}"))?;
        if bytes.0 > MAX_OVERHEAD {
            Err(format!("'{text}': more than {}", Bytes(MAX_OVERHEAD)))
        } else {
            Ok(bytes)
        }
    }

    fn show(spec: &DirectionSpec) -> String {
        if spec.overhead.0 == 0 { String::new() } else { spec.overhead.to_string() }
    }

    fn check(spec: &DirectionSpec) -> Result<(), String> {
        needs_a_rate(spec, "overhead", spec.overhead.0 == 0)
    }
}

/// The time that each packet takes on the medium in addition to the time for its bytes. This time does not depend on
/// the rate. It includes access to the medium, a preamble, and the link-layer acknowledgement of the receiver.
pub(crate) struct PacketTime;

impl Impairment<Duration> for PacketTime {
    fn read(text: &str) -> Result<Duration, String> {
        let time = parse_duration(text).map_err(|error| error.to_string())?;
        if time > MAX_PACKET_TIME {
            Err(format!("'{text}': more than {}", format_duration(MAX_PACKET_TIME)))
        } else {
            Ok(time)
        }
    }

    fn show(spec: &DirectionSpec) -> String {
        if spec.packet_time.is_zero() { String::new() } else { format_duration(spec.packet_time) }
    }

    fn check(spec: &DirectionSpec) -> Result<(), String> {
        needs_a_rate(spec, "packet-time", spec.packet_time.is_zero())
    }
}

/// Rejects the setting `key`, a cost for each packet, if the direction has a trace or an unlimited rate. A recorded
/// trace already includes this cost, and an unlimited rate has no transmission time to which it could be added.
fn needs_a_rate(spec: &DirectionSpec, key: &str, is_nothing: bool) -> Result<(), String> {
    if is_nothing || (spec.trace.is_none() && !spec.rate.is_unlimited()) {
        return Ok(());
    }
    Err(format!("{key} needs a rate: it is the time that a packet takes on the medium"))
}

impl Rate {
    /// Creates a constant rate.
    #[must_use]
    pub const fn new(rate: BitRate) -> Self {
        Self { rate, changes: Vec::new(), medium: Medium::own(), packet_cost: (0, 0), cached_time: (0, 0) }
    }

    /// Adds changes of the rate at the given times, which may be in any order.
    #[must_use]
    pub fn with_changes(mut self, changes: &[(Instant, BitRate)]) -> Self {
        self.changes = changes.to_vec();
        self.changes.sort_by_key(|(at, _)| std::cmp::Reverse(*at));
        self
    }

    /// Sets the additional cost of each packet: `overhead` bytes, and `time` before its first bit.
    #[must_use]
    pub fn with_packet_cost(mut self, overhead: Bytes, time: Duration) -> Self {
        self.packet_cost = (overhead.0, nanos(time));
        self
    }

    /// Sets the medium on which packets are sent.
    #[must_use]
    pub fn on(mut self, medium: Medium) -> Self {
        self.medium = medium;
        self
    }

    /// Schedules a packet; see [`Serializer::transmit`].
    #[inline(always)]
    pub fn transmit(&mut self, at: Instant, bytes: usize) -> Transmission {
        let start = self.medium.free_at().max(at);
        let end = if self.changes.is_empty() {
            start.plus_nanos(self.nanos_for(bytes as u64))
        } else {
            self.end_with_changes(start, bytes as u64)
        };
        self.medium.occupy(end);
        Transmission { start, end }
    }

    #[inline(always)]
    fn nanos_for(&mut self, bytes: u64) -> u64 {
        if self.cached_time.0 != bytes {
            self.divide(bytes);
        }
        self.cached_time.1
    }

    #[cold]
    fn divide(&mut self, bytes: u64) {
        let (overhead, time) = self.packet_cost;
        self.cached_time = (bytes, self.rate.nanos_for(bytes + overhead).saturating_add(time));
    }

    /// Returns the time at which the last bit is sent. The rate may change several times until then.
    #[inline(never)]
    fn end_with_changes(&mut self, start: Instant, bytes: u64) -> Instant {
        let (overhead, time) = self.packet_cost;
        let mut at = start.plus_nanos(time);
        // The number of bits that remain to be sent, times 10⁹. In this unit, rate × nanoseconds is a whole number.
        let mut left = u128::from(bytes + overhead) * 8_000_000_000;
        while let Some(&(change, rate)) = self.changes.last() {
            if change > at {
                let room =
                    u128::from(change.as_nanos() - at.as_nanos()) * u128::from(self.rate.bits_per_second());
                if left <= room {
                    break;
                }
                left -= room;
                at = change;
            }
            self.rate = rate;
            self.cached_time = (0, 0);
            self.changes.pop();
        }
        let nanos = left.div_ceil(u128::from(self.rate.bits_per_second()));
        at.plus_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
    }
}

/// The maximum overhead in bytes. Framing cannot be larger than the largest packet.
const MAX_OVERHEAD: u64 = 65_535;

/// The maximum time per packet. A slower medium would carry hardly any data.
const MAX_PACKET_TIME: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;

    fn rate(text: &str) -> BitRate {
        text.parse().expect("a rate")
    }

    fn us(micros: u64) -> Instant {
        Instant::from_nanos(micros * 1000)
    }

    #[test]
    fn packets_follow_one_another() {
        let mut link = Rate::new(rate("10mbit"));
        assert_eq!(link.transmit(us(0), 1500), Transmission { start: us(0), end: us(1200) });
        assert_eq!(link.transmit(us(100), 500), Transmission { start: us(1200), end: us(1600) });
        assert_eq!(link.transmit(us(5000), 1500), Transmission { start: us(5000), end: us(6200) });
    }

    #[test]
    fn a_change_of_rate_applies_to_the_bits_after_it() {
        // A packet of 12,000 bits is sent at 10 Mbit/s until 600 µs (6,000 bits) and the rest at 2 Mbit/s, which takes
        // 3 ms.
        let mut link = Rate::new(rate("10mbit")).with_changes(&[(us(600), rate("2mbit"))]);
        assert_eq!(link.transmit(us(0), 1500).end, us(3600));
        assert_eq!(link.transmit(us(0), 1500).end, us(9600));
        // The packet is sent across two changes of the rate: 1,000 bits in 1 ms at 1 Mbit/s, 2,000 bits in 1 ms at 2
        // Mbit/s, and 9,000 bits in 1 ms at 9 Mbit/s.
        let changes = [(us(2000), rate("9mbit")), (us(1000), rate("2mbit"))];
        let mut link = Rate::new(rate("1mbit")).with_changes(&changes);
        assert_eq!(link.transmit(us(0), 1500).end, us(3000));
        // The rate changes twice while the link is idle.
        let mut link = Rate::new(rate("1mbit")).with_changes(&changes);
        assert_eq!(link.transmit(us(7000), 1125).end, us(8000));
    }

    #[test]
    fn framing_and_access_cost_each_packet_the_same() {
        let (overhead, time) = (Bytes(24), Duration::from_micros(118));
        // At 10 Mbit/s, (1500 + 24) bytes take 1219.2 us and (40 + 24) bytes take 51.2 us. The access time of 118 us is
        // added to each packet.
        let mut link = Rate::new(rate("10mbit")).with_packet_cost(overhead, time);
        assert_eq!(link.transmit(us(0), 1500).end.as_nanos(), 1_337_200);
        assert_eq!(link.transmit(us(0), 40).end.as_nanos(), 1_506_400);
        assert_eq!(link.transmit(us(9000), 1500).end.as_nanos(), 10_337_200);
        // The packet time of 118 us comes before the first bit. Then 4,820 bits take 482 us at 10 Mbit/s, and 7,372
        // bits are sent at 2 Mbit/s.
        let mut link = Rate::new(rate("10mbit"))
            .with_changes(&[(us(600), rate("2mbit"))])
            .with_packet_cost(overhead, time);
        assert_eq!(link.transmit(us(0), 1500).end, us(600 + 3686));
        assert_eq!(link.transmit(us(0), 40).end, us(4286 + 118 + 256));
    }

    #[test]
    fn a_shared_medium_carries_one_packet_at_a_time() {
        let medium = Medium::shared();
        let mut up = Rate::new(rate("12mbit")).on(medium.clone());
        let mut down = Rate::new(rate("1.2mbit")).on(medium);
        assert_eq!(up.transmit(us(0), 1500).end, us(1000));
        assert_eq!(down.transmit(us(0), 1500), Transmission { start: us(1000), end: us(11_000) });
        assert_eq!(up.transmit(us(500), 1500), Transmission { start: us(11_000), end: us(12_000) });
    }
}
