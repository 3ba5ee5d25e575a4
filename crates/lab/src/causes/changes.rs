//! Changes of a point that may change the winner: no loss, more loss, one host, another congestion control, a repeat
//! visit, a longer round trip, another rate.
//!
//! For each change, all contestants run again, unlike in the experiments that search for causes. A change is not tried
//! if the plan varies the changed key, because some points of the race then have the other value.
//! [`anabranch_results::changes`] takes the result from such a point.

use super::PointExperiments;
use crate::plan::causes::Causes;
use crate::plan::{self, Contestant, LossBy, Plan, PlanError, PointPlan, bounds};
use crate::run::batch::RaceError;
use anabranch_base::time::nanos;
use anabranch_base::units::format_duration;
use anabranch_base::{BitRate, Ratio};
use anabranch_http::browser::{Client, Visit};
use anabranch_link::DirectionSpec;
use anabranch_link::spec::{LossSpec, RateSpec};
use anabranch_results::stats::metrics;
use anabranch_results::stats::paired::Value;
use anabranch_results::{Changed, Point};

/// The maximum number of seeds of a change if the network is random. The changes of a default race then take less than
/// a quarter of the processor time of its other runs.
const MAX_SEEDS: usize = 25;

/// The maximum number of seeds of a change if the seed only decides how the loads of a page differ. Such loads differ
/// by a few per cent, less than loads with random losses. The search for causes takes more of them (`super::STEADY`),
/// because it also measures small effects.
const MAX_SEEDS_STEADY: usize = 8;

/// A point of the plan with one change, and the contestants that run there.
struct Variant {
    /// The change as a user types it, for example `loss=1%`.
    change: String,
    point: PointPlan,
    contestants: Vec<Contestant>,
}

/// Runs the changes of one point of a race, and adds their results to those of the point.
pub fn find(bench: &mut PointExperiments<'_>, point: &mut Point) -> Result<(), RaceError> {
    let variants = of(bench.plan, bench.point());
    let before = Changed::none(point);
    for variant in variants {
        let planned = &variant.point;
        bench.seeds = &bench.plan.seeds[..seeds(bench.plan, planned)];
        let terms = terms_of(planned);
        let subjects: Vec<_> = variant.contestants.iter().map(|contestant| (planned, contestant)).collect();
        let found: Vec<Vec<Option<Value>>> =
            bench.measure(&subjects, &|run, _| metrics::bounded(run, "page_ms", terms))?;
        let names = point.contestants.iter().map(|contestant| contestant.name.as_str());
        let named: Vec<_> = names.zip(found).collect();
        point.changes.push(Changed::of(variant.change, &named, terms.is_random).after(&before));
    }
    Ok(())
}

/// Runs one contestant with one seed at the bench's point after a change, and returns its time. `change` is one that
/// [`find`] tries, as a user types it. The number of seeds of the plan counts against the bounds of a plan.
pub fn run_one(
    bench: &mut PointExperiments<'_>,
    change: &str,
    contestant: usize,
    seed: usize,
) -> Result<Option<Value>, RaceError> {
    let plan = bench.plan;
    let unknown =
        || PlanError::at(change, "the race tries no such change with this contestant and this seed");
    let Variant { point, contestants, .. } =
        of(plan, bench.point()).into_iter().find(|variant| variant.change == change).ok_or_else(unknown)?;
    let one = contestants.get(contestant).ok_or_else(unknown)?;
    bench.seeds = plan.seeds.get(seed..=seed).ok_or_else(unknown)?;
    bounds::check(&point, &contestants, plan.seeds.len(), false)?;
    let terms = terms_of(&point);
    let found = bench.measure(&[(&point, one)], &|run, _| metrics::bounded(run, "page_ms", terms))?;
    Ok(found.into_iter().flatten().next().flatten())
}

fn terms_of(point: &PointPlan) -> metrics::PointTerms {
    metrics::PointTerms { deadline_ns: Some(nanos(point.workload.deadline)), is_random: point.is_random() }
}

/// Returns the number of runs that are needed to try the changes of a plan.
#[must_use]
pub fn run_count(plan: &Plan) -> usize {
    let of_point = |point: &PointPlan| -> usize {
        of(plan, point).iter().map(|variant| seeds(plan, &variant.point)).sum()
    };
    plan.points.iter().map(of_point).sum::<usize>() * plan.contestants.len()
}

/// Returns the number of seeds with which a changed point runs.
fn seeds(plan: &Plan, point: &PointPlan) -> usize {
    let most = match (point.is_random(), point.has_random_network()) {
        (false, _) => 1,
        (true, false) => MAX_SEEDS_STEADY,
        (true, true) => MAX_SEEDS,
    };
    plan.seeds.len().min(most)
}

/// Returns the changes to try at a point. Only races of pages over the simulated network have changes, and only if the
/// plan asks for causes.
fn of(plan: &Plan, point: &PointPlan) -> Vec<Variant> {
    let workload = &point.workload;
    let is_page = workload.bulk.is_none() && workload.messages.is_none();
    let is_person = plan.draft.value("population").is_some();
    if plan.causes == Causes::Off || plan.together || plan.contestants.len() < 2 || !is_page || is_person {
        return Vec::new();
    }
    // A setting with several values in the plan is a factor. If a setting of one direction, such as `down-loss`, is a
    // factor, the setting of both directions counts as one, too.
    let is_factor = |key: &str| {
        plan.draft.given.iter().any(|given| {
            given.levels.len() > 1
                && (given.key.name == key || given.key.both.is_some_and(|both| both == key))
        })
    };
    let changes: [(&str, Option<(String, PointPlan)>); 6] = [
        ("loss", no_loss(point)),
        ("loss", more_loss(point)),
        ("origins", hosts(plan, point)),
        ("visit", visit(point)),
        ("rtt", round_trip(point).filter(|_| !is_factor("delay"))),
        ("rate", rate(point)),
    ];
    let mut variants: Vec<Variant> = changes
        .into_iter()
        .filter(|(key, _)| !is_factor(key))
        .filter_map(|(_, found)| found)
        .map(|(change, point)| Variant { change, point, contestants: plan.contestants.clone() })
        .collect();
    variants.extend(congestion_control(plan, point));
    variants.retain(|Variant { point, contestants, .. }| {
        bounds::check(point, contestants, seeds(plan, point), false).is_ok()
            && contestants.iter().all(|contestant| plan::fits(contestant, point).is_ok())
    });
    variants
}

fn sides(point: &PointPlan) -> impl Iterator<Item = &DirectionSpec> {
    point.network.paths.iter().flat_map(|path| [&path.up, &path.down])
}

/// Returns a copy of the point, with `change` applied to every direction of its paths.
fn with(point: &PointPlan, change: impl Fn(&mut DirectionSpec)) -> PointPlan {
    let mut changed = point.clone();
    for path in &mut changed.network.paths {
        [&mut path.up, &mut path.down].into_iter().for_each(&change);
    }
    changed
}

/// Returns the point without loss. Returns `None` if it has no loss.
fn no_loss(point: &PointPlan) -> Option<(String, PointPlan)> {
    sides(point)
        .any(|side| side.loss != LossSpec::None)
        .then(|| ("loss=0".to_owned(), with(point, |side| side.loss = LossSpec::None)))
}

/// Returns the point with a mean loss of 1 %, if it loses less in every direction. Losses in bursts remain bursts: they
/// become more frequent. Returns `None` if the directions lose packets in different ways.
fn more_loss(point: &PointPlan) -> Option<(String, PointPlan)> {
    let most = Ratio::new(1, 100)?;
    let mut all = sides(point).map(|side| &side.loss);
    let one = all.next()?;
    if all.any(|other| other != one) || point.loss_by != LossBy::Link {
        return None;
    }
    let loss = match one {
        LossSpec::None => LossSpec::Bernoulli(most),
        LossSpec::Bernoulli(share) if *share < most => LossSpec::Bernoulli(most),
        LossSpec::GilbertElliott { to_bad, to_good, bad_loss, good_loss } => {
            let LossSpec::Bernoulli(mean) = one.independent() else { return None };
            let factor = most.parts().checked_div(mean.parts()).filter(|factor| *factor > 1)?;
            let to_bad = Ratio::new(to_bad.parts().checked_mul(factor)?, Ratio::ONE.parts())?;
            let (to_good, bad_loss, good_loss) = (*to_good, *bad_loss, *good_loss);
            LossSpec::GilbertElliott { to_bad, to_good, bad_loss, good_loss }
        }
        _ => return None,
    };
    Some((format!("loss={loss}"), with(point, |side| side.loss = loss.clone())))
}

/// Returns the point with all objects of the page on one host or, if they already have one host, with each object on
/// its own host.
fn hosts(plan: &Plan, point: &PointPlan) -> Option<(String, PointPlan)> {
    let hosts = point.workload.page.hosts.len();
    // Separate servers are not possible with one processor, a rule in the OUTPUT chain, a handover, or background
    // traffic.
    let can_keep = !point.one_processor
        && point.loss_by == LossBy::Link
        && point.network.handover.is_none()
        && plan.cross.is_none();
    let keep = !point.workload.keep_origins;
    if hosts < 2 || (keep && !can_keep) {
        return None;
    }
    let mut changed = point.clone();
    changed.workload.keep_origins = keep;
    Some((format!("origins={}", if keep { "keep" } else { "merge" }), changed))
}

/// Changes a first visit to a repeat visit, or a repeat visit to a first visit. Returns `None` if the client is not a
/// browser, because only a browser remembers servers.
fn visit(point: &PointPlan) -> Option<(String, PointPlan)> {
    let (name, visit) = match point.workload.visit {
        Visit::First => ("repeat", Visit::Repeat),
        Visit::Repeat => ("first", Visit::First),
    };
    (point.workload.client == Client::Chromium).then(|| {
        let mut changed = point.clone();
        changed.workload.visit = visit;
        (format!("visit={name}"), changed)
    })
}

/// The factor by which the round trip and the rate of a path change.
const FACTOR: u32 = 4;

/// Makes the round trip of the only path four times as long.
fn round_trip(point: &PointPlan) -> Option<(String, PointPlan)> {
    let [path] = point.network.paths.as_slice() else { return None };
    let is_recorded = sides(point)
        .any(|side| side.trace.iter().any(|spec| spec.trace.iter().any(|it| it.delays().is_some())));
    let rtt = path.rtt() * FACTOR;
    (!rtt.is_zero() && !is_recorded)
        .then(|| (format!("rtt={}", format_duration(rtt)), with(point, |side| side.delay *= FACTOR)))
}

/// The lowest download rate that counts as fast: 25 Mbit/s. The change divides the rate of a fast path, and multiplies
/// lower rates.
const FAST: u64 = 25_000_000;

/// Multiplies the rates of the only path by four or, if the path is fast (`FAST`), divides them by four.
fn rate(point: &PointPlan) -> Option<(String, PointPlan)> {
    let [path] = point.network.paths.as_slice() else { return None };
    let of = |side: &DirectionSpec| {
        side.rate.first().filter(|_| side.rate.changes().is_empty() && side.trace.is_none())
    };
    let is_fast = of(&path.down)?.bits_per_second() >= FAST;
    let changed = |side: &DirectionSpec| {
        let bits = of(side)?.bits_per_second();
        let factor = u64::from(FACTOR);
        BitRate::from_bits_per_second(if is_fast { bits / factor } else { bits.checked_mul(factor)? })
    };
    let (up, down) = (changed(&path.up)?, changed(&path.down)?);
    let change = if up == down { format!("rate={down}") } else { format!("up-rate={up},down-rate={down}") };
    let mut point = point.clone();
    for path in &mut point.network.paths {
        (path.up.rate, path.down.rate) = (RateSpec::constant(up), RateSpec::constant(down));
    }
    Some((change, point))
}

/// Changes the congestion control of every contestant that supports the new one: to BBR or, if all contestants use BBR,
/// to CUBIC.
fn congestion_control(plan: &Plan, point: &PointPlan) -> Option<Variant> {
    let has = |contestant: &Contestant, name: &str| {
        contestant.engine.knobs().iter().any(|knob| knob.key == "cc" && knob.value == name)
    };
    let name = if plan.contestants.iter().all(|one| has(one, "bbr")) { "cubic" } else { "bbr" };
    let changed = |contestant: &Contestant| -> Result<Contestant, PlanError> {
        contestant.with(&[("cc".to_owned(), Some(name.to_owned()))])
    };
    let contestants: Vec<Contestant> = plan
        .contestants
        .iter()
        .map(|contestant| {
            changed(contestant).ok().filter(|it| has(it, name)).unwrap_or_else(|| contestant.clone())
        })
        .collect();
    let differs =
        contestants.iter().zip(&plan.contestants).any(|(new, old)| has(new, name) && !has(old, name));
    differs.then(|| Variant { change: format!("cc={name}"), point: point.clone(), contestants })
}
