//! Compares the time of a recorded page load with the time of the same load in the simulation.

use serde::{Deserialize, Serialize};

/// A recorded page load, and the simulation of the same load.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
pub struct Calibration {
    /// The name of the page.
    pub page: String,
    /// The HTTP version of most recorded objects, for example `HTTP/2`. The simulation uses it for all objects.
    pub protocol: String,
    /// The number of recorded objects that used this HTTP version.
    pub objects: u64,
    /// The number of all objects of the recorded load.
    pub all: u64,
    /// The time of the recorded load, from the first request to the last byte.
    pub recorded_ns: u64,
    /// The geometric mean of the times of the simulated loads.
    pub simulated_ns: u64,
    /// A description of the simulated network in one line.
    pub network: String,
    /// The round-trip time that the recording shows, if it shows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_ns: Option<Range>,
    /// The rate towards the client that the recording shows, if it shows one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate_bps: Option<Range>,
    /// The object whose recorded and simulated times differ most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub largest: Option<Difference>,
}

/// An estimate with the range in which the true value lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Range {
    /// The best estimate.
    pub value: u64,
    /// The lower end of the range.
    pub low: u64,
    /// The upper end of the range; absent if the recording sets no limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub high: Option<u64>,
}

/// An object whose recorded and simulated times differ. Both times count from the delivery of the object that causes
/// the request.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Difference {
    /// The request target of the object.
    pub object: String,
    /// The time of the object in the recorded load.
    pub recorded_ns: u64,
    /// The median of the object's times in the simulated loads.
    pub simulated_ns: u64,
}

impl Calibration {
    /// Returns the difference between the simulated and the recorded time, as a share of the recorded time. It is
    /// positive if the simulated load takes longer.
    #[must_use]
    pub fn error(&self) -> f64 {
        self.simulated_ns as f64 / self.recorded_ns.max(1) as f64 - 1.0
    }

    /// Returns the lines about this comparison that a race prints before its table.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        let percent = format!("{:+.0} %", self.error() * 100.0);
        let (recorded, simulated) = (seconds(self.recorded_ns), seconds(self.simulated_ns));
        let first = format!(
            "Your HAR: {recorded} over {}. The same, simulated: {simulated} ({percent}).",
            self.protocol
        );
        let mut network = format!("Simulated on {}.", self.network);
        network += &format!(" {}", shown(self.rtt_ns, self.rate_bps));
        if self.objects < self.all {
            network += &format!(" {} of {} objects came over {}.", self.objects, self.all, self.protocol);
        }
        vec![first, network]
    }

    /// Returns a warning if the simulation differs from the recording by more than 20 %.
    #[must_use]
    pub fn warning(&self) -> Option<String> {
        if self.error().abs() <= MOST_ERROR {
            return None;
        }
        let percent = format!("{:.0} %", self.error().abs() * 100.0);
        let than = if self.error() > 0.0 { "longer" } else { "shorter" };
        let largest = self.largest.as_ref().map_or(String::new(), |difference| {
            let (recorded, simulated) = (seconds(difference.recorded_ns), seconds(difference.simulated_ns));
            let object = &difference.object;
            format!("; of all objects, {object} differs most: {recorded} recorded, {simulated} simulated")
        });
        Some(format!("{}: the simulated load is {percent} {than} than the recorded one{largest}", self.page))
    }
}

/// Describes the network that a HAR shows, with the ranges in which the true values lie.
#[must_use]
pub fn shown(rtt_ns: Option<Range>, rate_bps: Option<Range>) -> String {
    let known = [
        rtt_ns.map(|range| format!("a round trip of {}", range.describe(1e6, 1, "ms"))),
        rate_bps.map(|range| format!("a rate of {}", range.describe(1e6, 2, "Mbit/s"))),
    ];
    let known: Vec<String> = known.into_iter().flatten().collect();
    if known.is_empty() {
        return "The HAR does not show its network.".to_owned();
    }
    let mut text = format!("The HAR shows {}.", known.join(" and "));
    if let Some(rate) = rate_bps.filter(|rate| rate.high.is_none()) {
        text += &format!(
            " Its load did not fill the link: --network recorded takes the fastest stretch, {:.2} Mbit/s.",
            rate.value as f64 / 1e6
        );
    }
    text
}

impl Range {
    /// Formats the range in the unit `name`, which is `unit` times as large as the range's own unit, with `digits`
    /// decimals.
    fn describe(&self, unit: f64, digits: usize, name: &str) -> String {
        let shown = |value: u64| format!("{:.digits$}", value as f64 / unit);
        match self.high {
            Some(high) => format!("{} {name} ({} to {})", shown(self.value), shown(self.low), shown(high)),
            None => format!("at least {} {name}", shown(self.low)),
        }
    }
}

fn seconds(nanos: u64) -> String {
    format!("{:.2} s", nanos as f64 / 1e9)
}

/// The largest difference between simulation and recording that gives no warning, as a share of the recorded time.
const MOST_ERROR: f64 = 0.2;

#[cfg(test)]
mod tests {
    use super::*;

    fn calibration(simulated_ns: u64) -> Calibration {
        Calibration {
            page: "news".to_owned(),
            protocol: "HTTP/2".to_owned(),
            objects: 61,
            all: 72,
            recorded_ns: 1_520_000_000,
            simulated_ns,
            network: "10 Mbit/s, 80 ms round trip".to_owned(),
            rtt_ns: Some(Range { value: 81_000_000, low: 77_000_000, high: Some(90_500_000) }),
            rate_bps: Some(Range { value: 9_800_000, low: 8_300_000, high: None }),
            largest: Some(Difference {
                object: "/a.js".to_owned(),
                recorded_ns: 400_000_000,
                simulated_ns: 90_000_000,
            }),
        }
    }

    #[test]
    fn the_first_line_compares_the_loads() {
        let lines = calibration(1_610_000_000).lines();
        assert_eq!(lines[0], "Your HAR: 1.52 s over HTTP/2. The same, simulated: 1.61 s (+6 %).");
        assert_eq!(
            lines[1],
            "Simulated on 10 Mbit/s, 80 ms round trip. The HAR shows a round trip of 81.0 ms (77.0 to 90.5) and a rate of at \
             least 8.30 Mbit/s. Its load did not fill the link: --network recorded takes the fastest stretch, 9.80 Mbit/s. \
             61 of 72 objects came over HTTP/2."
        );
    }

    #[test]
    fn a_large_difference_names_its_object() {
        assert_eq!(calibration(1_800_000_000).warning(), None);
        assert_eq!(
            calibration(1_000_000_000).warning().as_deref(),
            Some(
                "news: the simulated load is 34 % shorter than the recorded one; of all objects, /a.js differs most: \
                 0.40 s recorded, 0.09 s simulated"
            )
        );
    }
}
