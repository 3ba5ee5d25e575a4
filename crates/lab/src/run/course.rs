//! The part of a run's chart data that a packet capture does not contain. Congestion windows come from the sender's
//! trace. Losses and queueing delays come from the records of the links.

use super::topology::Built;
use anabranch_base::time::nanos;
use anabranch_base::trace::{TraceEvent, TraceRecord};
use anabranch_link::DropCause;
use anabranch_results::course::{Course, Loss};
use anabranch_sim::{TapEvent, TapRecord};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A packet that one host sent and that arrived at the end of a link: its arrival time in nanoseconds, the index of its
/// path, its size in bytes, and its time in transit in nanoseconds.
type Transit = (u64, usize, u32, u64);

/// Returns the windows, delays and losses of the host with these addresses, over the course of a run. `trace` is the
/// trace of the host's engine. Each list in the result has at most `most` entries.
#[must_use]
pub fn of(
    built: &Built,
    addresses: &[IpAddr],
    link_events: &[TapRecord],
    trace: &[TraceRecord],
    most: usize,
) -> Course {
    let window = |record: &TraceRecord| match record.event {
        TraceEvent::Window(bytes) => Some((record.at.as_nanos(), record.connection, bytes)),
        _ => None,
    };
    let windows = trace.iter().filter_map(window).take(most).collect();
    let mut lost: Vec<Loss> = Vec::new();
    let mut transits: Vec<Transit> = Vec::new();
    let mut entered = BTreeMap::new();
    for link_event in link_events.iter().filter(|link_event| addresses.contains(&link_event.source)) {
        let Some(path) = built.paths.iter().position(|link| *link == link_event.link) else { continue };
        let (key, at) = ((path, link_event.target, link_event.tag), link_event.at);
        match link_event.event {
            TapEvent::Entered => {
                entered.insert(key, at);
            }
            TapEvent::Left => {
                let since = entered.remove(&key).filter(|_| link_event.tag != 0);
                transits
                    .extend(since.map(|since| (at.as_nanos(), path, link_event.bytes, nanos(at - since))));
            }
            TapEvent::Lost(cause) => {
                entered.remove(&key);
                let by_queue = matches!(cause, DropCause::Overflow | DropCause::Early);
                lost.push(Loss { at_ns: at.as_nanos(), path, by_queue });
            }
            TapEvent::Filtered => lost.push(Loss { at_ns: at.as_nanos(), path, by_queue: false }),
        }
    }
    // A link may record a loss in advance, with the later time at which the loss happens. The list is therefore sorted
    // by time.
    lost.sort_unstable();
    lost.truncate(most);
    transits.truncate(most);
    Course { windows, lost, waits: waits(&transits, built.paths.len()) }
}

/// Returns for each packet its arrival time, the index of its path, and its queueing delay; times are in nanoseconds.
/// The queueing delay is the transit time minus the minimum transit time for the size of the packet. The minimum is
/// assumed to be a linear function of the size, which holds as long as the rate of the path does not change.
fn waits(transits: &[Transit], paths: usize) -> Vec<(u64, usize, u64)> {
    let line = |path: usize| -> [(f64, f64); 2] {
        let own = || transits.iter().filter(|transit| transit.1 == path);
        let sizes = [own().map(|transit| transit.2).min(), own().map(|transit| transit.2).max()];
        sizes.map(|size| {
            let size = size.unwrap_or(0);
            let least = own().filter(|transit| transit.2 == size).map(|transit| transit.3).min();
            (f64::from(size), least.unwrap_or(0) as f64)
        })
    };
    let lines: Vec<[(f64, f64); 2]> = (0..paths).map(line).collect();
    let wait = |&(at, path, bytes, took): &Transit| {
        let [(small, least), (large, most)] = lines[path];
        let slope = if large > small { (most - least) / (large - small) } else { 0.0 };
        let quickest = least + slope.max(0.0) * (f64::from(bytes) - small);
        (at, path, took.saturating_sub(quickest.max(0.0) as u64))
    };
    transits.iter().map(wait).collect()
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_wait_is_what_is_above_the_quickest_of_its_size() {
        // Checks the queueing delays of five packets. Each packet in `transits` has its arrival time in ns, its path,
        // its size in bytes and its transit time in ns. `expected` has the arrival time, the path and the queueing
        // delay in ns. The fastest packet of 40 bytes takes 10 ns, and the fastest of 1,440 bytes takes 150 ns. Each
        // additional byte therefore takes 0.1 ns.
        let transits =
            [(1, 0, 40, 10), (2, 0, 1440, 150), (3, 0, 740, 95), (4, 0, 1440, 200), (5, 1, 500, 7)];
        let expected = [(1, 0, 0), (2, 0, 0), (3, 0, 15), (4, 0, 50), (5, 1, 0)];
        assert_eq!(super::waits(&transits, 2), expected);
    }
}
