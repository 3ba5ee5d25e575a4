//! What is no setting of a contestant: conditions of network and workload, taken away for both.
//!
//! They say where a gap is, never why it is. Two of them are oracles, run as all else is: messages that wait for no earlier
//! one, which SCTP can have (`unordered=yes`), and handshakes that cost a page nothing, because all connections are there
//! before its time begins.

use crate::plan::{Contestant, PointPlan};
use anabranch_base::Bytes;
use anabranch_base::time::Duration;
use anabranch_link::DirectionSpec;
use anabranch_link::half_duplex::HalfDuplex;
use anabranch_link::spec::{AqmSpec, EcnSpec, LossSpec, QueueSpec, RateSpec};

/// The most of them, in runs of a contestant: two each.
pub const MOST: usize = 2 * 8;

/// Two contestants where something is taken away.
pub struct Without {
    /// What.
    pub name: &'static str,
    /// Network and workload without it.
    pub point: PointPlan,
    /// The contestants, as they are without it.
    pub contestants: [Contestant; 2],
}

/// Whether a point has this, and the point without it.
type Change = fn(&PointPlan) -> Option<PointPlan>;

/// What can be taken away, in the order of its weight: a budget may end in the midst of them.
const CONDITIONS: [(&str, Change); 4] = [
    ("loss", |point| {
        let lossy = |side: &DirectionSpec| side.loss != LossSpec::None;
        with(point, lossy, |side| side.loss = LossSpec::None)
    }),
    ("handshake", |point| {
        let workload = &point.workload;
        let page = workload.bulk.is_none() && workload.messages.is_none() && workload.arrivals.is_none();
        // What happens at a time of its own would happen at another one.
        let timeless = point.network.fails.is_empty()
            && point
                .network
                .paths
                .iter()
                .all(|path| path.up.outages.is_empty() && path.down.outages.is_empty());
        (page && timeless).then(|| {
            let mut without = point.clone();
            without.workload.preconnect = true;
            without
        })
    }),
    ("failure", |point| {
        (!point.network.fails.is_empty()).then(|| {
            let mut without = point.clone();
            without.network.fails.clear();
            sides(&mut without).for_each(|side| side.outages.clear());
            without
        })
    }),
    ("server time", |point| {
        (!point.workload.server_time.is_zero()).then(|| {
            let mut without = point.clone();
            without.workload.server_time = Duration::ZERO;
            without
        })
    }),
];

/// What limits the network, which every point has and few gaps hang on: last.
const LIMITS: [(&str, Change); 2] = [
    ("queue", |point| {
        let short = |side: &DirectionSpec| side.queue != QueueSpec::Unlimited;
        with(point, short, |side| side.queue = QueueSpec::Unlimited)
    }),
    ("rate", |point| {
        let limited = |side: &DirectionSpec| side.trace.is_none() && side.rate.first().is_some();
        with(point, limited, |side| {
            side.rate = RateSpec::UNLIMITED;
            // What is nothing without a rate.
            (side.overhead, side.packet_time) = (Bytes(0), Duration::ZERO);
            (side.aqm, side.ecn) = (AqmSpec::DropTail, EcnSpec::No);
        })
        .map(|mut without| {
            without.network.paths.iter_mut().for_each(|path| path.half_duplex = HalfDuplex::No);
            without
        })
    }),
];

/// Every condition that a point has, taken away.
pub fn of(point: &PointPlan, contestants: [&Contestant; 2]) -> Vec<Without> {
    let without = |(name, change): &(&'static str, Change)| {
        let contestants = contestants.map(Contestant::clone);
        change(point).map(|point| Without { name, point, contestants })
    };
    let (first, last) = (CONDITIONS.iter().filter_map(without), LIMITS.iter().filter_map(without));
    let of_contestants = [without_security(point, contestants), without_order(point, contestants)];
    first.chain(of_contestants.into_iter().flatten()).chain(last).collect()
}

/// Nobody is secured, but for who cannot be otherwise: neither TLS nor DTLS costs round trips and bytes.
fn without_security(point: &PointPlan, contestants: [&Contestant; 2]) -> Option<Without> {
    let clear = contestants.map(Contestant::in_the_clear);
    if clear.iter().all(Option::is_none) {
        return None;
    }
    let [one, other] = contestants;
    let [clear_one, clear_other] = clear;
    let contestants =
        [clear_one.unwrap_or_else(|| one.clone()), clear_other.unwrap_or_else(|| other.clone())];
    Some(Without { name: "security", point: point.clone(), contestants })
}

/// Messages that wait for no earlier one.
fn without_order(point: &PointPlan, contestants: [&Contestant; 2]) -> Option<Without> {
    point.workload.messages?;
    let unordered = contestants.map(|contestant| {
        let waits = contestant.transport.capabilities().unordered && !contestant.delivery.unordered;
        waits.then(|| contestant.with(&[("unordered".to_owned(), Some("yes".to_owned()))]).ok()).flatten()
    });
    let [Some(one), Some(other)] = unordered else { return None };
    Some(Without { name: "order", point: point.clone(), contestants: [one, other] })
}

fn sides(point: &mut PointPlan) -> impl Iterator<Item = &mut DirectionSpec> {
    point.network.paths.iter_mut().flat_map(|path| [&mut path.up, &mut path.down])
}

/// The point with every direction changed; `None` where `has` holds for none of them.
fn with(
    point: &PointPlan,
    has: impl Fn(&DirectionSpec) -> bool,
    change: impl Fn(&mut DirectionSpec),
) -> Option<PointPlan> {
    let mut without = point.clone();
    let found = sides(&mut without).any(|side| has(side));
    found.then(|| {
        sides(&mut without).for_each(change);
        without
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Draft, Plan};

    #[test]
    fn a_network_without_one_of_its_conditions_is_a_network() {
        let flags = [
            ("half-duplex", "yes"),
            ("aqm", "red"),
            ("ecn", "yes"),
            ("overhead", "24B"),
            ("packet-time", "118us"),
            ("loss", "1%"),
            ("queue", "20p"),
            ("server-time", "1ms"),
            ("transport", "tcp,sctp"),
        ];
        let plan = Draft::from_flags(flags).and_then(Plan::interpret).expect("a plan");
        let found = of(&plan.points[0], [&plan.contestants[0], &plan.contestants[1]]);
        assert!(["loss", "queue", "rate"].iter().all(|name| found.iter().any(|one| one.name == *name)));
        for without in found {
            for path in &without.point.network.paths {
                path.check().unwrap_or_else(|error| panic!("without {}: {error}", without.name));
            }
        }
    }
}
