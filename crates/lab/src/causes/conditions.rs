//! Conditions under which contestants are compared, for example loss in the network. An experiment runs both
//! contestants without one of these conditions.
//!
//! A condition shows where a gap between two contestants arises, but not why. Three conditions concern what the
//! contestants do:
//! - Without `order`, messages are delivered unordered (`unordered=yes` of SCTP), so no message waits for earlier
//!   messages.
//! - Without `security`, the contestants do not encrypt.
//! - Without `handshake`, all connections exist before the measurement of the page load begins, so handshakes cost no
//!   time.

use crate::plan::{Contestant, PointPlan};
use anabranch_base::Bytes;
use anabranch_base::time::Duration;
use anabranch_link::DirectionSpec;
use anabranch_link::half_duplex::HalfDuplex;
use anabranch_link::spec::{AqmSpec, EcnSpec, LossSpec, QueueSpec, RateSpec};

/// For each seed, the maximum number of runs that test conditions: eight conditions with two contestants each.
pub const MOST: usize = 2 * 8;

/// A point and its two contestants, without one condition.
pub struct ReducedPoint {
    /// The name of the condition that was removed.
    pub name: &'static str,
    /// The network and the workload without the condition.
    pub point: PointPlan,
    /// The two contestants without the condition.
    pub contestants: [Contestant; 2],
}

/// A function that removes a condition, for example loss, from a point. It returns `None` if the point does not have
/// the condition.
type Change = fn(&PointPlan) -> Option<PointPlan>;

/// The conditions, most important first. If the budget of runs does not suffice for all conditions, the last ones are
/// omitted.
const CONDITIONS: [(&str, Change); 4] = [
    ("loss", |point| {
        let lossy = |side: &DirectionSpec| side.loss != LossSpec::None;
        with(point, lossy, |side| side.loss = LossSpec::None)
    }),
    ("handshake", |point| {
        let workload = &point.workload;
        let page = workload.bulk.is_none() && workload.messages.is_none() && workload.arrivals.is_none();
        // In this variant, all connections are open before the page is requested, so every object is loaded earlier
        // than in the race. A failure or an outage of a path has a fixed time, so it would affect other objects than in
        // the race. The variant is then skipped.
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
        let workload = &point.workload;
        workload.page.objects.iter().any(|object| !workload.server_time_of(object).is_zero()).then(|| {
            let mut without = point.clone();
            without.workload.server_time = Some(Duration::ZERO);
            without
        })
    }),
];

/// The conditions that are removed last, namely limits of the network. Almost all points have these limits, and the
/// limits are rarely the reason for a gap between two contestants.
const LIMITS: [(&str, Change); 2] = [
    ("queue", |point| {
        let short = |side: &DirectionSpec| side.queue != QueueSpec::Unlimited;
        with(point, short, |side| side.queue = QueueSpec::Unlimited)
    }),
    ("rate", |point| {
        let limited = |side: &DirectionSpec| side.trace.is_none() && side.rate.first().is_some();
        with(point, limited, |side| {
            side.rate = RateSpec::UNLIMITED;
            // The overhead and time per packet, queue management and ECN have no meaning for a link without a rate.
            (side.overhead, side.packet_time) = (Bytes(0), Duration::ZERO);
            (side.aqm, side.ecn) = (AqmSpec::DropTail, EcnSpec::No);
        })
        .map(|mut without| {
            without.network.paths.iter_mut().for_each(|path| path.half_duplex = HalfDuplex::No);
            without
        })
    }),
];

/// Returns the point and the contestants without one condition, once for each condition that `point` or one of the
/// contestants has.
pub fn of(point: &PointPlan, contestants: [&Contestant; 2]) -> Vec<ReducedPoint> {
    let without = |(name, change): &(&'static str, Change)| {
        let contestants = contestants.map(Contestant::clone);
        change(point).map(|point| ReducedPoint { name, point, contestants })
    };
    let (first, last) = (CONDITIONS.iter().filter_map(without), LIMITS.iter().filter_map(without));
    let of_contestants = [without_security(point, contestants), without_order(point, contestants)];
    first.chain(of_contestants.into_iter().flatten()).chain(last).collect()
}

/// Returns the point with contestants that do not encrypt, as far as they can do without encryption. TLS and DTLS then
/// cost no round trips and no bytes.
fn without_security(point: &PointPlan, contestants: [&Contestant; 2]) -> Option<ReducedPoint> {
    let clear = contestants.map(Contestant::in_the_clear);
    if clear.iter().all(Option::is_none) {
        return None;
    }
    let [one, other] = contestants;
    let [clear_one, clear_other] = clear;
    let contestants =
        [clear_one.unwrap_or_else(|| one.clone()), clear_other.unwrap_or_else(|| other.clone())];
    Some(ReducedPoint { name: "security", point: point.clone(), contestants })
}

/// Returns the point with contestants that deliver messages without waiting for earlier ones. Returns `None` unless
/// both contestants support unordered messages.
fn without_order(point: &PointPlan, contestants: [&Contestant; 2]) -> Option<ReducedPoint> {
    point.workload.messages?;
    let unordered = contestants.map(|contestant| {
        let waits = contestant.transport.capabilities().unordered && !contestant.delivery.unordered;
        waits.then(|| contestant.with(&[("unordered".to_owned(), Some("yes".to_owned()))]).ok()).flatten()
    });
    let [Some(one), Some(other)] = unordered else { return None };
    Some(ReducedPoint { name: "order", point: point.clone(), contestants: [one, other] })
}

fn sides(point: &mut PointPlan) -> impl Iterator<Item = &mut DirectionSpec> {
    point.network.paths.iter_mut().flat_map(|path| [&mut path.up, &mut path.down])
}

/// Returns a copy of the point, with `change` applied to every direction of its paths. Returns `None` if `has` returns
/// false for all directions.
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
    use anabranch_transports::Transports;

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
        let plan = Draft::from_flags(flags)
            .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
            .expect("a plan");
        let found = of(&plan.points[0], [&plan.contestants[0], &plan.contestants[1]]);
        assert!(["loss", "queue", "rate"].iter().all(|name| found.iter().any(|one| one.name == *name)));
        for without in found {
            for path in &without.point.network.paths {
                path.check().unwrap_or_else(|error| panic!("without {}: {error}", without.name));
            }
        }
    }
}
