//! Measures how contestants that race at the same time share the network.
//!
//! A contestant's share is its part of the body bytes that arrived while all contestants were loading. That span begins
//! when the last contestant starts (in the simulation, all start at once) and ends when the first contestant finishes.
//! Jain's index of the shares (Jain, Chiu and Hawe 1984) is 1 if all shares are equal. It is 1/n if one of n
//! contestants has everything.

use crate::{Run, Sharing};

/// Computes each contestant's share of the bytes, for one seed. `runs` holds one run per contestant that shared the
/// network, in the order of the contestants. Returns `None` if no bytes arrived while all contestants were loading.
#[must_use]
pub fn of(runs: &[&Run]) -> Option<Sharing> {
    let first = runs.first()?;
    let began = |run: &Run| run.started_ns.unwrap_or(0);
    // A run that did not finish counts until the end of its recorded time series.
    let span = |run: &Run| run.page_ns.unwrap_or(run.series.application.len() as u64 * run.series.bucket_ns);
    let from_ns = runs.iter().map(|run| began(run)).max()?;
    let until_ns = runs.iter().map(|run| began(run).saturating_add(span(run))).min()?;
    let read = |run: &Run, at: u64| read_until(run, at.saturating_sub(began(run)));
    let bytes: Vec<u64> =
        runs.iter().map(|run| read(run, until_ns).saturating_sub(read(run, from_ns))).collect();
    let sum: u64 = bytes.iter().sum();
    let squares: u128 = bytes.iter().map(|&bytes| u128::from(bytes).pow(2)).sum();
    if sum == 0 {
        return None;
    }
    Some(Sharing {
        seed: first.seed,
        from_ns,
        until_ns,
        shares: bytes.iter().map(|&bytes| bytes as f64 / sum as f64).collect(),
        jain: (sum as f64).powi(2) / (bytes.len() as f64 * squares as f64),
        bytes,
    })
}

/// Returns the number of body bytes that the application read from the start of the run until `until_ns` (nanoseconds
/// since that start). The bytes of the bucket that contains `until_ns` count in proportion to the part of the bucket
/// before `until_ns`.
fn read_until(run: &Run, until_ns: u64) -> u64 {
    let width = run.series.bucket_ns.max(1);
    let of = |(index, &bytes): (usize, &u64)| {
        let past = until_ns.saturating_sub(index as u64 * width).min(width);
        (u128::from(bytes) * u128::from(past) / u128::from(width)) as u64
    };
    run.series.application.iter().enumerate().map(of).sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Directions, Events, Outcome, Packets, Series};

    fn run(page_ms: Option<u64>, application: &[u64]) -> Run {
        Run {
            seed: 7,
            outcome: if page_ms.is_some() { Outcome::Done } else { Outcome::Deadline },
            page_ns: page_ms.map(|ms| ms * 1_000_000),
            start_render_ns: None,
            largest_image_ns: None,
            byte_index_ns: None,
            limit_ns: None,
            connect_ns: None,
            declared_failed_ns: None,
            failover_ns: None,
            restored_ns: None,
            path_events: Vec::new(),
            connections: 1,
            objects: Vec::new(),
            packets: Directions { up: Packets::default(), down: Packets::default() },
            started_ns: None,
            rules: None,
            multipath: None,
            late_ns: None,
            spacing: None,
            events: Events::default(),
            wire_bytes: Directions { up: 0, down: 0 },
            series: Series { bucket_ns: 100_000_000, paths: Vec::new(), application: application.to_vec() },
        }
    }

    #[test]
    fn by_hand() {
        // The fast run ends at 250 ms. Until then the slow run reads 1000 + 1000 + 500 bytes, and the fast run reads
        // 3000 + 3000 + 1500.
        let (slow, fast) = (run(Some(900), &[1000; 9]), run(Some(250), &[3000; 3]));
        let found = of(&[&slow, &fast]).expect("bytes");
        assert_eq!((found.seed, found.until_ns, found.bytes), (7, 250_000_000, vec![2500, 7500]));
        assert_eq!(found.shares, [0.25, 0.75]);
        // Jain's index of two shares in the ratio 1 to 3 is (1 + 3)^2 / (2 * (1 + 9)) = 0.8.
        assert!((found.jain - 0.8).abs() < 1e-12);
    }

    #[test]
    fn shares_are_compared_from_the_last_start() {
        // The runs overlap from 150 to 300 ms on the network's clock. In that span the first run, whose clock starts at
        // 0, reads 3000 bytes. The second run reads 1500 bytes in its first 150 ms.
        let first = run(Some(300), &[2000; 3]);
        let second = Run { started_ns: Some(150_000_000), ..run(Some(900), &[1000; 9]) };
        let found = of(&[&first, &second]).expect("bytes");
        assert_eq!((found.from_ns, found.until_ns), (150_000_000, 300_000_000));
        assert_eq!(found.bytes, [3000, 1500]);
        // The second contestant starts after the first has finished. At no time do both use the network, so no shares
        // are computed.
        let late = Run { started_ns: Some(400_000_000), ..second };
        assert_eq!(of(&[&first, &late]), None);
    }

    #[test]
    fn equal_shares_have_index_one_and_nothing_has_none() {
        let one = run(None, &[500, 500]);
        let found = of(&[&one, &one, &one]).expect("bytes");
        assert!((found.jain - 1.0).abs() < 1e-12 && found.until_ns == 200_000_000);
        assert_eq!(of(&[&run(None, &[]), &one]), None);
        assert_eq!(of(&[]), None);
    }
}
