//! The effect of a path failure on the service, as three durations. Each duration begins with the first failure of a
//! path:
//!
//! - **declared**: the time until the sender of the data declared the path failed (RFC 9260 §8.2);
//! - **next data**: the time until the first data arrived that was sent after the failure;
//! - **restored**: the time until the service was restored: the application again received data at half the previous
//!   rate or more, for a second.
//!
//! This module computes the times *declared* and *restored*. The time *next data* says little about the service,
//! because the data may be a single packet that is sent after a timeout.

use anabranch_results::{BUCKET_NS, PathEvent, PathState, Side};

/// The number of buckets in a second. The results count received bytes in buckets, which are equal intervals of time.
const SECOND: usize = (1_000_000_000 / BUCKET_NS) as usize;

/// Returns the time from the failure of a path until the server declared the path failed, or `None` if the server never
/// declared it. The failure is given by the number of the path and the time in nanoseconds. Declarations of the client
/// do not count, because the server sends the data.
#[must_use]
pub fn declared(events: &[PathEvent], (path, failed): (u64, u64)) -> Option<u64> {
    let is_it = |e: &&PathEvent| {
        e.path == path && e.by == Side::Server && e.state == PathState::Failed && e.at_ns >= failed
    };
    events.iter().find(is_it).map(|e| e.at_ns - failed)
}

/// Returns the time from the failure until the service was restored. Returns `None` if the service was never restored,
/// or if no data was received before the failure.
///
/// All times are in nanoseconds. `read` has the number of bytes that the application received in each bucket, an
/// interval of `BUCKET_NS`. `failed` is the time of the failure, and `end` the time at which the last byte was
/// delivered, both since the start of `read`. `end` is `None` if some bytes were not delivered. `next` is the time from
/// the failure until the first data arrived that was sent after the failure.
///
/// The previous rate is the mean rate in the last second before the failure. It is computed from whole buckets, and
/// buckets before the first data of the transfer are left out. A bucket restores the service if it contains data, and
/// if the mean rate in the second from its start is at least half the previous rate. The service is restored at the
/// start of the first such bucket. The search begins with the bucket in which the first data sent after the failure
/// arrives.
///
/// Each bucket after the failure is limited to the bytes of the largest bucket in the last second before the failure.
/// Without this limit, data that waited behind a gap and is delivered at once would look like a high rate. If the
/// transfer ends within the period of 1 s, the rate until the end of the transfer is used. Data of all paths is added
/// up, so the service is also restored if the failed path works again.
#[must_use]
pub fn restored(read: &[u64], failed: u64, next: Option<u64>, end: Option<u64>) -> Option<u64> {
    let bucket = |at: u64| (at / BUCKET_NS) as usize;
    let next = next?;
    let begun = read.iter().position(|&bytes| bytes > 0)?;
    let until = bucket(failed).min(read.len());
    let before = read.get(begun.max(until.saturating_sub(SECOND))..until).filter(|some| !some.is_empty())?;
    let (sum, largest) = (before.iter().map(|&b| u128::from(b)).sum::<u128>(), before.iter().max()?);
    if sum == 0 {
        return None;
    }
    let holds = |first: usize| {
        let last = end.map_or(usize::MAX, |end| bucket(end).max(first) + 1).min(first + SECOND);
        let window = read.iter().take(last).skip(first);
        let came: u128 = window.map(|bytes| u128::from(*bytes.min(largest))).sum();
        came * 2 * before.len() as u128 >= sum * (last - first) as u128
    };
    let first = (bucket(failed + next)..read.len()).find(|&at| read[at] > 0 && holds(at))?;
    Some((first as u64 * BUCKET_NS).saturating_sub(failed).max(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    /// Calls [`restored`] for a transfer with 100 bytes in each bucket for two seconds, a failure at 2 s, and then the
    /// buckets `after`.
    fn after(after: &[u64], next_ms: u64, end_ms: Option<u64>) -> Option<u64> {
        let read: Vec<u64> = [100; 20].iter().chain(after).copied().collect();
        restored(&read, 2_000 * MS, Some(next_ms * MS), end_ms.map(|ms| ms * MS)).map(|ns| ns / MS)
    }

    #[test]
    fn half_of_the_rate_for_a_second_restores_the_service() {
        let silence = |buckets: usize, then: &[u64]| [&vec![0; buckets][..], then].concat();
        assert_eq!(after(&[100; 30], 45, None), Some(45), "it was never interrupted");
        assert_eq!(after(&silence(10, &[50; 10]), 1_030, None), Some(1_030));
        assert_eq!(after(&silence(10, &[49; 20]), 1_030, None), None, "less than half");
        assert_eq!(
            after(&silence(10, &[49, 49, 50, 50, 50, 50, 50, 50, 50, 50, 50, 50]), 1_030, None),
            Some(1_200)
        );
        assert_eq!(after(&silence(10, &[100; 4]), 1_030, None), None, "for 0.4 s");
        // The first buckets have single packets, each sent after a timeout. Then queued data arrives in one bucket.
        // After a pause, data arrives at the restored rate. The transfer must count as restored only after the pause.
        let packets = [&[10][..], &[0; 20], &[10], &[0; 40], &[2_000], &[0; 10], &[80; 12]].concat();
        assert_eq!(after(&packets, 20, None), Some(7_300));
        // With a long round-trip time, data arrives in bursts. The transfer counts as restored if the mean rate over
        // bursts and pauses is high enough.
        assert_eq!(after(&silence(5, &[100, 0, 100, 0, 100, 0, 100, 0, 100, 0]), 530, None), Some(530));
    }

    #[test]
    fn a_transfer_that_ends_first_has_to_hold_until_then() {
        let last = [&vec![0; 40][..], &[90, 90, 20]].concat();
        assert_eq!(after(&last, 4_010, Some(6_205)), Some(4_010));
        assert_eq!(after(&last, 4_010, None), None, "it was cut off, and not held for a second");
        let weak = [&vec![0; 40][..], &[30, 30, 20]].concat();
        assert_eq!(after(&weak, 4_010, Some(6_205)), None);
    }

    #[test]
    fn without_a_before_or_an_after_there_is_nothing_to_restore() {
        assert_eq!(restored(&[], 0, Some(1), None), None);
        assert_eq!(restored(&[0, 0, 5, 5], 150 * MS, Some(60 * MS), Some(400 * MS)), None, "no data before");
        assert_eq!(restored(&[5; 40], 1_000 * MS, None, None), None, "no data after");
        // If the transfer began only 0.3 s before the failure, the previous rate is the mean rate in these 0.3 s.
        let young = [&[0, 0, 0, 100, 100, 100][..], &[0; 5], &[60; 10]].concat();
        assert_eq!(restored(&young, 600 * MS, Some(510 * MS), None), Some(510 * MS));
        assert_eq!(restored(&[7; 3], u64::MAX / 2, Some(1), Some(1)), None);
    }

    #[test]
    fn the_server_declares_and_not_before_the_failure() {
        let event = |path, at_ms, by, state| PathEvent { path, at_ns: at_ms * MS, state, by, connection: 1 };
        let events = [
            event(1, 500, Side::Server, PathState::Failed),
            event(1, 2_100, Side::Client, PathState::Failed),
            event(2, 2_200, Side::Server, PathState::Failed),
            event(1, 2_300, Side::Server, PathState::PotentiallyFailed),
            event(1, 3_000, Side::Server, PathState::Failed),
        ];
        assert_eq!(declared(&events, (1, 2_000 * MS)), Some(1_000 * MS));
        assert_eq!(declared(&events[..4], (1, 2_000 * MS)), None);
    }
}
