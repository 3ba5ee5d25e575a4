//! Carries out all runs of a plan. Each run has a simulation of its own. The result does not depend on the number of
//! threads.
//!
//! Simulations share no state, so only the order of the results could depend on the threads. Results have the order of
//! the plan.

use super::one::{self, Scenario};
use crate::plan::{LossBy, Plan, PlanError, PointPlan};
use anabranch_base::time::nanos;
use anabranch_results::stats::metrics::{self, PointTerms};
use anabranch_results::stats::sharing;
use anabranch_results::{
    Comparison, Contestant, Host, Point, Race, Run, SCHEMA, Sharing, Workload, World, changes,
};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// The reason why a race has no result.
#[derive(Debug, thiserror::Error)]
pub enum RaceError {
    /// The caller set [`Options::stop`].
    #[error("interrupted")]
    Interrupted,
    /// The plan cannot run in the network that was requested (the simulated or the emulated one).
    #[error("{0}")]
    Plan(#[from] PlanError),
    /// A run failed because of a bug in this program. The text says how to repeat the run.
    #[error("{0}")]
    Run(String),
}

/// Options for carrying out a race.
pub struct Options<'a> {
    /// The number of threads that carry out runs; at least 1.
    pub threads: usize,
    /// Called after each run with the number of finished runs. Any thread may call it.
    pub progress: &'a (dyn Fn(usize) + Sync),
    /// The caller sets this to end the race without a result.
    pub stop: &'a AtomicBool,
}

/// A function that carries out one simulated or emulated run and returns one result for each contestant. It gets the
/// scenario of the run and the index of its point.
pub type Perform<'a> = dyn Fn(&Scenario<'_>, usize) -> Result<Vec<Run>, String> + Sync + 'a;

/// The storage for the result of one run. It is empty until the run is finished.
type Slot<T> = Mutex<Option<Result<T, String>>>;

/// Carries out the runs of several plans in one pool of threads. Does not search for causes.
///
/// # Errors
/// [`RaceError`] when the race is stopped, when [`check`] rejects a plan, or when a run violates an internal invariant.
pub fn races(plans: &[&Plan], options: &Options<'_>) -> Result<Vec<Race>, RaceError> {
    for plan in plans {
        check(plan)?;
    }
    let all: Vec<_> = plans.iter().flat_map(|plan| jobs(plan)).collect();
    let mut results = carry_out(&all, options, &|scenario, _| one::run(scenario))?.into_iter();
    let own = |plan: &&Plan| {
        let own = results.by_ref().take(plan.run_count()).collect();
        assemble(World::Virtual, plan, own)
    };
    Ok(plans.iter().map(own).collect())
}

/// Checks that the plan can run in the simulated network.
///
/// # Errors
/// [`PlanError`] that names the key that the simulation does not support.
pub fn check(plan: &Plan) -> Result<(), PlanError> {
    if plan.world == World::Emulated {
        return Err(PlanError::at(
            "--world",
            "an emulated race takes real time, and cannot be run in virtual time",
        ));
    }
    check_loss_by(plan)?;
    if plan.points.iter().any(|point| point.one_processor) {
        needs_one_pair(plan, "--processors", "one")?;
    }
    if plan.points.iter().any(|point| point.one_host) {
        let what = "one host at both ends is one of a real kernel: add --world emulated, or leave it out";
        return Err(PlanError::at("--hosts", what));
    }
    if let Some(contestant) = plan.contestants.iter().find(|contestant| contestant.transport.is_kernel_only())
    {
        return Err(PlanError::at(&contestant.place, "is a protocol of real kernels: add --world emulated"));
    }
    for contestant in &plan.contestants {
        if let Some(kernel_cc) = &contestant.kernel_cc {
            let what = format!("{} (or a real kernel's own: add --world emulated)", kernel_cc.refusal);
            return Err(PlanError::at(&contestant.place, what));
        }
    }
    Ok(())
}

/// Checks that the simulated network can drop packets at the place that the plan's key `loss-by` names.
fn check_loss_by(plan: &Plan) -> Result<(), PlanError> {
    let by = |loss_by| plan.points.iter().any(|point| point.loss_by == loss_by);
    if by(LossBy::Iptables) {
        let what =
            "iptables loses packets of real kernels only: add --world emulated, or leave it to the link";
        return Err(PlanError::at("--loss-by", what));
    }
    if by(LossBy::IptablesOut) { needs_one_pair(plan, "--loss-by", "iptables-out") } else { Ok(()) }
}

/// Checks that each run of the plan has one client and one server. The plan key `place` with the value `value` requires
/// this.
fn needs_one_pair(plan: &Plan, place: &str, value: &str) -> Result<(), PlanError> {
    let has_routers = |point: &PointPlan| point.workload.keep_origins || point.network.handover.is_some();
    if !plan.together && plan.cross.is_none() && !plan.points.iter().any(has_routers) {
        return Ok(());
    }
    let what = format!(
        "{value}: goes with one client and one server: leave --shared-link, --background, --origins keep and --handover out"
    );
    Err(PlanError::at(place, what))
}

/// Carries out all runs of the plan with the function `run`. `world` says whether the runs are simulated or emulated.
/// `run` gets a scenario and the index of its point.
///
/// # Errors
/// [`RaceError`] when the race is stopped, or when a run violates an internal invariant.
pub fn race_in(
    world: World,
    plan: &Plan,
    options: &Options<'_>,
    run: &Perform<'_>,
) -> Result<Race, RaceError> {
    let results = carry_out(&jobs(plan), options, run)?;
    Ok(assemble(world, plan, results))
}

/// Carries out every job with the function `run`, and returns the results in the order of the jobs. A job is one run:
/// the index of its point, and its scenario.
///
/// # Errors
/// [`RaceError`] when the race is stopped, or when a run violates an internal invariant.
pub fn carry_out<T: Send>(
    jobs: &[(usize, Scenario<'_>)],
    options: &Options<'_>,
    run: &(dyn Fn(&Scenario<'_>, usize) -> Result<T, String> + Sync),
) -> Result<Vec<T>, RaceError> {
    let next = AtomicUsize::new(0);
    let done = AtomicUsize::new(0);
    let slots: Vec<Slot<T>> = jobs.iter().map(|_| Mutex::new(None)).collect();
    let work = || {
        while !options.stop.load(Ordering::Relaxed) {
            let index = next.fetch_add(1, Ordering::Relaxed);
            let (Some(job), Some(slot)) = (jobs.get(index), slots.get(index)) else { return };
            let result = perform(job, run);
            let broken = result.is_err();
            if let Ok(mut slot) = slot.lock() {
                *slot = Some(result);
            }
            (options.progress)(done.fetch_add(1, Ordering::Relaxed) + 1);
            if broken {
                // A race reports only its first failure, so the remaining runs are skipped.
                next.store(jobs.len(), Ordering::Relaxed);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..options.threads.clamp(1, jobs.len().max(1)) {
            scope.spawn(work);
        }
        work();
    });
    if options.stop.load(Ordering::Relaxed) {
        return Err(RaceError::Interrupted);
    }
    let mut results = Vec::new();
    let mut failure = None;
    for slot in slots {
        match slot.into_inner() {
            Ok(Some(Ok(result))) => results.push(result),
            Ok(Some(Err(error))) => failure = failure.or(Some(error)),
            Ok(None) | Err(_) => failure = failure.or(Some("a run was not carried out".to_owned())),
        }
    }
    // A result is missing only if an earlier run failed. The error of that run is reported.
    match failure {
        Some(error) => Err(RaceError::Run(error)),
        None => Ok(results),
    }
}

/// Returns the jobs of a plan in the order of the results: by point, then by contestant, then by seed. A job is one
/// run.
#[must_use]
pub fn jobs(plan: &Plan) -> Vec<(usize, Scenario<'_>)> {
    let mut jobs = Vec::with_capacity(plan.run_count());
    for point in 0..plan.points.len() {
        let contestants: Vec<Option<usize>> =
            if plan.together { vec![None] } else { (0..plan.contestants.len()).map(Some).collect() };
        for contestant in contestants {
            jobs.extend(plan.seeds.iter().map(|&seed| (point, scenario(plan, point, contestant, seed))));
        }
    }
    jobs
}

fn perform<T>(
    (point, scenario): &(usize, Scenario<'_>),
    run: &(dyn Fn(&Scenario<'_>, usize) -> Result<T, String> + Sync),
) -> Result<T, String> {
    let replay = || {
        let contestant = match scenario.contestants.as_slice() {
            [one] => one.label.as_str(),
            _ => "together",
        };
        let factors = scenario.point.factors.iter().map(|(key, level)| format!(", {key} {level}"));
        format!("{contestant}, seed {}{}", scenario.seed, factors.collect::<String>())
    };
    match catch_unwind(AssertUnwindSafe(|| run(scenario, *point))) {
        Ok(Ok(result)) => Ok(result),
        Ok(Err(error)) => Err(format!("run {}: {error}", replay())),
        Err(_) => Err(format!("run {}: an invariant was broken (see above); please report it", replay())),
    }
}

/// Returns the scenario of one run. `contestant` is `None` if all contestants share the network.
#[must_use]
pub fn scenario(plan: &Plan, point: usize, contestant: Option<usize>, seed: u64) -> Scenario<'_> {
    let contestants = match contestant {
        Some(contestant) => vec![&plan.contestants[contestant]],
        None => plan.contestants.iter().collect(),
    };
    Scenario { point: &plan.points[point], contestants, cross: plan.cross.as_ref(), seed }
}

/// Makes the result of a race of the runs of its jobs, in the order of [`jobs`]. Causes are not in it.
#[must_use]
pub fn assemble(world: World, plan: &Plan, results: Vec<Vec<Run>>) -> Race {
    let mut results = results.into_iter();
    let mut points = Vec::with_capacity(plan.points.len());
    for planned in &plan.points {
        let mut by_arm: Vec<Vec<Run>> = plan.contestants.iter().map(|_| Vec::new()).collect();
        if plan.together {
            for runs in results.by_ref().take(plan.seeds.len()) {
                for (contestant, run) in by_arm.iter_mut().zip(runs) {
                    contestant.push(run);
                }
            }
        } else {
            for contestant in &mut by_arm {
                contestant.extend(results.by_ref().take(plan.seeds.len()).flatten());
            }
        }
        let messages = planned.workload.messages.is_some();
        // The contestant's typical run is the run whose value of this metric is the median.
        let metric = if messages { "object_p95_ms" } else { "page_ms" };
        let is_random = planned.is_random() || world == World::Emulated;
        let terms = PointTerms { deadline_ns: Some(nanos(planned.workload.deadline)), is_random };
        let open_loop = planned.workload.arrivals.is_some();
        let contestants: Vec<Contestant> = plan
            .contestants
            .iter()
            .zip(by_arm)
            .map(|(contestant, runs)| Contestant {
                name: contestant.text.clone(),
                settings: contestant
                    .policy(open_loop)
                    .map(|policy| contestant.settings(&policy))
                    .unwrap_or_default(),
                median_seed: metrics::median_seed(&runs, metric),
                summary: metrics::summarise(&runs, terms),
                distinct_runs: metrics::distinct(&runs),
                part_sums: None,
                runs,
            })
            .collect();
        points.push(Point {
            factors: planned.factors.clone(),
            network: network(plan, planned),
            failure_ns: planned.network.first_failure().map(|(_, at)| nanos(at)),
            workload: Workload {
                name: planned.workload.describe(),
                objects: planned.workload.page.objects.len() as u64,
                bytes: planned.workload.page.body_bytes(),
                request_head: planned.workload.heads.request,
                response_head: planned.workload.heads.response,
                deadline_ns: Some(nanos(planned.workload.deadline)),
                messages,
            },
            chance: is_random,
            sharing: if plan.together { shared(&contestants) } else { Vec::new() },
            comparisons: comparisons(&contestants, metric, terms),
            contestants,
            changes: Vec::new(),
        });
    }
    changes::add_neighbors(&mut points);
    let expectations = points
        .iter()
        .enumerate()
        .flat_map(|(i, p)| plan.expects.iter().filter_map(move |e| e.evaluate(i, p)));
    let mut draft = plan.draft.to_toml();
    if world == World::Emulated {
        // The caller may have chosen the emulated network without the plan. The plan in the result must name this
        // network, so that the race can be repeated from it.
        draft.insert("world".to_owned(), "emulated".into());
    }
    Race {
        schema: SCHEMA.to_owned(),
        plan: serde_json::to_value(draft).unwrap_or_default(),
        world,
        host: Host::default(),
        warnings: plan.warnings(),
        calibrations: Vec::new(),
        expectations: expectations.collect(),
        points,
    }
}

/// Describes the network in one line, including background traffic and the contestants that share the network.
fn network(plan: &Plan, point: &PointPlan) -> String {
    let mut text = point.network.describe();
    if point.loss_by.is_iptables() {
        text += "; loss by iptables";
        if point.loss_by == LossBy::IptablesOut {
            text += " where packets set out";
        }
    }
    if point.one_host {
        text += "; both ends on one host";
    }
    if point.one_processor {
        text += "; one processor for both ends";
    }
    if let Some(cross) = &plan.cross {
        let downloads = if cross.flows == 1 {
            "1 endless download".to_owned()
        } else {
            format!("{} endless downloads", cross.flows)
        };
        text += &format!("; beside {downloads} over TCP");
    }
    if plan.together {
        text += "; all contestants at once";
    }
    text
}

/// Returns for each seed how the contestants shared the network; empty if they did not run at the same time.
fn shared(contestants: &[Contestant]) -> Vec<Sharing> {
    let seeds = contestants.first().map_or(0, |contestant| contestant.runs.len());
    let runs = |index: usize| contestants.iter().filter_map(move |one| one.runs.get(index));
    (0..seeds).filter_map(|index| sharing::of(&runs(index).collect::<Vec<_>>())).collect()
}

/// Compares every contestant with each earlier contestant in the metric `decisive`, which determines the winner. The
/// comparisons with the first contestant also cover all other metrics.
fn comparisons(contestants: &[Contestant], decisive: &str, terms: PointTerms) -> Vec<Comparison> {
    let mut comparisons = Vec::new();
    for (i, a) in contestants.iter().enumerate() {
        for (j, b) in contestants[..i].iter().enumerate() {
            for metric in metrics::COMPARED.into_iter().filter(|metric| j == 0 || *metric == decisive) {
                comparisons.push(metrics::compare((&a.name, &a.runs), (&b.name, &b.runs), metric, terms));
            }
        }
    }
    comparisons
}
