//! The laboratory of a worker: a plan, the runs that were handed to it, and the answer that they give.

use crate::{motion, outputs};
use anabranch_lab::calibrate;
use anabranch_lab::causes::{self, check, find_part};
use anabranch_lab::plan::{self, Plan, bounds};
use anabranch_lab::run::batch::{self, Options, RaceError};
use anabranch_lab::run::one::{self, Scenario};
use anabranch_report::answer;
use anabranch_results::stats::metrics;
use anabranch_results::stats::paired::Value as Measured;
use anabranch_results::{Changed, Comparison, Contestant, Host, Point, Race, Run, Verdict, World};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::AtomicBool;

/// Nobody stops a race of this program: the page ends the worker.
static STOP: AtomicBool = AtomicBool::new(false);

/// The laboratory of a worker.
#[derive(Debug, Default)]
pub struct Lab {
    planned: Option<Planned>,
}

/// A plan and what is known about it.
#[derive(Debug)]
struct Planned {
    plan: Plan,
    /// The flags and the file from which the plan was read.
    flags: Vec<(String, String)>,
    file: Option<String>,
    /// The results of each job, in the order of [`batch::jobs`].
    runs: Vec<Option<Vec<Run>>>,
    /// What experiments found, by point, for the number of seeds with which they were made.
    found: BTreeMap<usize, (usize, Found)>,
    /// The results of changes with every seed of the race, by point and change. The experiments try a change with fewer.
    tried: BTreeMap<(usize, String), Changed>,
}

/// A part of the experiments at a point.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Part {
    /// The causes of the gap between the two fastest contestants.
    Gaps,
    /// The changes that may flip the result.
    Changes,
}

/// What experiments at a point found. A part that was not carried out is absent.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub struct Found {
    comparisons: Option<Vec<Comparison>>,
    changes: Option<Vec<Changed>>,
}

/// Facts about a plan.
#[derive(Debug, Serialize)]
pub struct Facts {
    points: Vec<PointFacts>,
    contestants: Vec<String>,
    /// For each contestant, whether it uses only the first path of a network with several.
    one_path: Vec<bool>,
    seeds: Vec<u64>,
    jobs: Vec<JobFacts>,
    warnings: Vec<String>,
    toml: String,
    command: String,
    explains: bool,
}

/// Facts about a point of a plan.
#[derive(Debug, Serialize)]
struct PointFacts {
    factors: BTreeMap<String, String>,
    network: String,
    workload: String,
    objects: usize,
    bytes: u64,
    random: bool,
}

/// What a job runs, as indices.
#[derive(Debug, Serialize)]
struct JobFacts {
    point: usize,
    /// Null if all contestants share one run.
    contestant: Option<usize>,
    seed: usize,
}

/// The answer so far at a point.
#[derive(Debug, Serialize)]
pub struct State {
    lines: Vec<LineText>,
    /// The name of the clear winner; null if there is none.
    winner: Option<String>,
    unit: &'static str,
    contestants: Vec<Standing>,
    /// The comparison of each contestant with every earlier one.
    pairs: Vec<Pair>,
    changes: Vec<Changed>,
    /// The lower bound of the deciding metric on this network; null if none is known.
    limit_ms: Option<f64>,
}

/// How contestant `a` compares with contestant `b` in the deciding metric. Both are indices.
#[derive(Debug, Serialize)]
struct Pair {
    a: usize,
    b: usize,
    /// The median of `a` divided by the median of `b`, with its 95 % interval.
    ratio: Option<f64>,
    interval: Option<[f64; 2]>,
    /// The number of pairs of runs, and of those in which `a` is faster and slower.
    n: u64,
    faster: u64,
    slower: u64,
    verdict: PairVerdict,
}

/// The conclusion of the comparison of two contestants, as the answer of a race draws it.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "kebab-case")]
enum PairVerdict {
    Faster,
    Slower,
    Tie,
    Open,
}

#[derive(Debug, Serialize)]
struct LineText {
    label: String,
    text: String,
}

/// A time in milliseconds, and whether the run was ended then without having finished. `None` if it has no time.
pub type Time = Option<(f64, bool)>;

/// How a contestant stands.
#[derive(Debug, Serialize)]
struct Standing {
    name: String,
    typed: String,
    median: Option<f64>,
    /// The 95 % interval of the median.
    interval: Option<[f64; 2]>,
    p75: Option<f64>,
    p95: Option<f64>,
    median_seed: u64,
    /// The value of the deciding metric for each seed, in milliseconds; null if the run did not finish.
    times: Vec<Option<f64>>,
}

fn refused(error: RaceError) -> String {
    match error {
        RaceError::Interrupted => "interrupted".to_owned(),
        RaceError::Plan(error) => error.to_string(),
        RaceError::Run(line) => format!("internal error: {line}"),
    }
}

/// Returns whether the contestant uses only the first path of a network with several.
fn has_one_path(contestant: &plan::Contestant) -> bool {
    // Each host of an association under DTLS has one address (RFC 8261 section 6.1).
    !contestant.transport.capabilities().paths || contestant.dtls.is_some() || contestant.paths == Some(1)
}

const fn options() -> Options<'static> {
    Options { threads: 1, progress: &|_| {}, stop: &STOP }
}

impl Lab {
    /// Reads a plan. The runs of the plan before are dropped.
    ///
    /// # Errors
    /// One line, as on the command line.
    pub fn plan(&mut self, flags: &[(String, String)], file: Option<&str>) -> Result<Facts, String> {
        self.planned = None;
        let pairs = flags.iter().map(|(flag, value)| (flag.as_str(), value.as_str()));
        let text = |error: plan::PlanError| error.to_string();
        let outline = plan::read(file, pairs, &crate::transports()).map_err(text)?;
        bounds::check_together(&outline).map_err(text)?;
        let plan = outline.into_plan().map_err(text)?;
        batch::check(&plan).map_err(text)?;
        let seeds = plan.seeds.clone();
        let index = |seed: u64| seeds.iter().position(|known| *known == seed).unwrap_or(0);
        let jobs = batch::jobs(&plan);
        let points = plan.points.iter().map(|point| PointFacts {
            factors: point.factors.clone(),
            network: point.network.describe(),
            workload: point.workload.describe(),
            objects: point.workload.page.objects.len(),
            bytes: point.workload.page.body_bytes(),
            random: point.is_random(),
        });
        let facts = Facts {
            points: points.collect(),
            contestants: plan.contestants.iter().map(|contestant| contestant.text.clone()).collect(),
            one_path: plan.contestants.iter().map(has_one_path).collect(),
            jobs: jobs.iter().map(|(point, run)| JobFacts::of(&plan, *point, run, index(run.seed))).collect(),
            seeds,
            warnings: plan.warnings(),
            toml: plan.to_toml(),
            command: outputs::command(flags, file),
            explains: plan.causes != plan::causes::Causes::Off
                && !plan.together
                && plan.contestants.len() > 1,
        };
        let runs = vec![None; jobs.len()];
        drop(jobs);
        let (flags, file) = (flags.to_vec(), file.map(str::to_owned));
        self.planned =
            Some(Planned { plan, flags, file, runs, found: BTreeMap::new(), tried: BTreeMap::new() });
        Ok(facts)
    }

    fn planned(&mut self) -> Result<&mut Planned, String> {
        self.planned.as_mut().ok_or_else(|| "there is no plan yet".to_owned())
    }

    /// Carries out a run.
    ///
    /// # Errors
    /// Returns a message of one line if there is no such run, or if the run broke an invariant.
    pub fn run(&mut self, job: usize) -> Result<Vec<Run>, String> {
        let plan = &self.planned()?.plan;
        let jobs = batch::jobs(plan);
        let (_, scenario) = jobs.get(job).ok_or_else(|| format!("the race has no run {job}"))?;
        one::run(scenario).map_err(|line| format!("internal error: {line}"))
    }

    /// Takes over the results of a run.
    ///
    /// # Errors
    /// One line if the results are of no run of this plan.
    pub fn add(&mut self, job: usize, runs: Value) -> Result<(), String> {
        let runs = serde_json::from_value(runs).map_err(|error| format!("a damaged run: {error}"))?;
        let slot = self.planned()?.runs.get_mut(job);
        *slot.ok_or_else(|| format!("the race has no run {job}"))? = Some(runs);
        Ok(())
    }

    /// Returns the answer of the race at every point, from its first `seeds` seeds. In the answer of all seeds, changes
    /// that were tried with all of them replace those of the experiments.
    ///
    /// # Errors
    /// One line if a run is missing.
    pub fn state(&mut self, seeds: usize) -> Result<Vec<State>, String> {
        let planned = self.planned()?;
        let mut race = planned.race(seeds)?;
        if seeds >= planned.plan.seeds.len() {
            for (index, point) in race.points.iter_mut().enumerate() {
                let before = Changed::none(point);
                for changed in &mut point.changes {
                    if let Some(tried) = planned.tried.get(&(index, changed.change.clone())) {
                        *changed = tried.clone().after(&before);
                    }
                }
            }
        }
        Ok(race.points.iter().map(State::of).collect())
    }

    /// Returns a point with the runs of its first `seeds` seeds.
    ///
    /// # Errors
    /// One line if a run is missing.
    pub fn export(&mut self, point: usize, seeds: usize) -> Result<Point, String> {
        let race = self.planned()?.unexplained(seeds)?;
        race.points.into_iter().nth(point).ok_or_else(|| format!("the race has no point {point}"))
    }

    /// Carries out a part of the experiments at a point.
    ///
    /// # Errors
    /// One line if a run is missing or broke an invariant.
    pub fn explain(
        &mut self,
        point: usize,
        seeds: usize,
        part: Part,
        from: Option<Value>,
    ) -> Result<Found, String> {
        let mut held: Point = match from {
            Some(point) => {
                serde_json::from_value(point).map_err(|error| format!("a damaged point: {error}"))?
            }
            None => self.export(point, seeds)?,
        };
        let plan = self.planned()?.first(seeds);
        let of = match part {
            Part::Gaps => causes::Part::Gaps,
            Part::Changes => causes::Part::Changes,
        };
        find_part(&plan, point, &mut held, of, 0, &options()).map_err(refused)?;
        Ok(match part {
            Part::Gaps => Found { comparisons: Some(held.comparisons), changes: None },
            Part::Changes => Found { comparisons: None, changes: Some(held.changes) },
        })
    }

    /// Takes over what experiments found.
    ///
    /// # Errors
    /// One line if this is not what experiments find.
    pub fn explained(&mut self, point: usize, seeds: usize, found: Value) -> Result<(), String> {
        let new: Found =
            serde_json::from_value(found).map_err(|error| format!("a damaged finding: {error}"))?;
        let (of, known) = self.planned()?.found.entry(point).or_default();
        if *of != seeds {
            (*of, *known) = (seeds, Found::default());
        }
        known.comparisons = new.comparisons.or(known.comparisons.take());
        known.changes = new.changes.or(known.changes.take());
        Ok(())
    }

    /// Runs one contestant with one seed at a point after a change. Contestant and seed are indices.
    ///
    /// # Errors
    /// One line if the experiments try no such change, or if the run broke an invariant.
    pub fn try_change(
        &mut self,
        point: usize,
        change: &str,
        contestant: usize,
        seed: usize,
    ) -> Result<Time, String> {
        let plan = &self.planned()?.plan;
        if point >= plan.points.len() {
            return Err(format!("the race has no point {point}"));
        }
        let found = causes::run_changed(plan, point, change, (contestant, seed), &options());
        found.map(|value| value.map(|value| (value.value, value.at_least))).map_err(refused)
    }

    /// Takes over the times after a change: for each contestant those of every seed of the race. They replace, in the
    /// answer, what the experiments found with fewer seeds. The files of the race stay those of the command line.
    ///
    /// # Errors
    /// One line if times are missing.
    pub fn tried(&mut self, point: usize, change: String, times: &[Vec<Value>]) -> Result<(), String> {
        let planned = self.planned()?;
        let (contestants, seeds) = (&planned.plan.contestants, planned.plan.seeds.len());
        if times.len() != contestants.len() || times.iter().any(|times| times.len() != seeds) {
            return Err(format!("{change}: times are missing"));
        }
        let read = |time: &Value| -> Result<Option<Measured>, String> {
            let time: Time = serde_json::from_value(time.clone())
                .map_err(|error| format!("{change}: a damaged time: {error}"))?;
            Ok(time.map(|(value, at_least)| Measured { value, at_least }))
        };
        let mut named = Vec::new();
        for (contestant, times) in contestants.iter().zip(times) {
            named.push((contestant.text.as_str(), times.iter().map(read).collect::<Result<_, _>>()?));
        }
        let changed = Changed::of(change.clone(), &named, true);
        planned.tried.insert((point, change), changed);
        Ok(())
    }

    /// Completes the race, and writes its files to `/out`. Returns their names.
    ///
    /// # Errors
    /// One line if a run or an experiment is missing, or a file cannot be written.
    pub fn results(&mut self, captures: bool) -> Result<Vec<String>, String> {
        let planned = self.planned()?;
        let race = planned.completed()?;
        let source =
            outputs::Source { plan: &planned.plan, flags: &planned.flags, file: planned.file.as_deref() };
        outputs::write(source, &race, captures)
    }

    /// Returns a run with all its objects and packets.
    ///
    /// # Errors
    /// One line if there is no such run.
    pub fn draw(&mut self, point: usize, contestant: usize, seed: u64) -> Result<motion::Drawn, String> {
        let plan = &self.planned()?.plan;
        if point >= plan.points.len() || contestant >= plan.contestants.len() {
            return Err(format!("the race has no point {point} with a contestant {contestant}"));
        }
        motion::draw(plan, point, contestant, seed)
    }
}

impl Planned {
    /// Returns the plan with its first seeds only.
    fn first(&self, seeds: usize) -> Plan {
        let count = self.plan.seeds.len().min(seeds.max(1));
        Plan { seeds: self.plan.seeds[..count].to_vec(), ..self.plan.clone() }
    }

    /// Returns the race of the first seeds without experiments.
    fn unexplained(&self, seeds: usize) -> Result<Race, String> {
        let plan = self.first(seeds);
        let all = batch::jobs(&self.plan);
        let wanted = |seed: u64| plan.seeds.contains(&seed);
        let mut runs = Vec::new();
        for ((_, scenario), held) in all.iter().zip(&self.runs) {
            if wanted(scenario.seed) {
                runs.push(held.clone().ok_or("a run is missing")?);
            }
        }
        Ok(batch::assemble(World::Virtual, &plan, runs))
    }

    /// Returns the race of the first seeds, with what experiments with as many seeds found.
    fn race(&self, seeds: usize) -> Result<Race, String> {
        let mut race = self.unexplained(seeds)?;
        let count = self.plan.seeds.len().min(seeds.max(1));
        for (index, point) in race.points.iter_mut().enumerate() {
            let found = self.found.get(&index).filter(|(of, _)| *of == count);
            let Some((_, found)) = found else { continue };
            if let Some(comparisons) = &found.comparisons {
                point.comparisons.clone_from(comparisons);
            }
            if let Some(changes) = &found.changes {
                // The experiments began with the changes that other points of the race show.
                point.changes.clone_from(changes);
            }
        }
        Ok(race)
    }

    /// Returns the race as the command line makes it.
    fn completed(&self) -> Result<Race, String> {
        let mut race = self.race(self.plan.seeds.len())?;
        let (calibrations, warnings) =
            calibrate::of(self.plan.points.iter(), &self.plan, &options()).map_err(refused)?;
        race.warnings.extend(warnings);
        race.calibrations = calibrations;
        check::evaluate(&self.plan, &mut race, &options()).map_err(refused)?;
        race.host = Host {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            os: std::env::consts::OS.to_owned(),
            arch: std::env::consts::ARCH.to_owned(),
            ..race.host
        };
        Ok(race)
    }
}

impl JobFacts {
    fn of(plan: &Plan, point: usize, run: &Scenario<'_>, seed: usize) -> Self {
        let contestant = match run.contestants.as_slice() {
            [one] if !plan.together => plan.contestants.iter().position(|known| known.text == one.text),
            _ => None,
        };
        Self { point, contestant, seed }
    }
}

impl Pair {
    fn of(point: &Point, a: usize, b: usize) -> Option<Self> {
        let name = |index: usize| &point.contestants[index].name;
        let found = point.compared(name(a), name(b), point.decisive())?;
        let verdict = if found.is_clearly_slower() {
            PairVerdict::Slower
        } else if found.inverse().is_clearly_slower() {
            PairVerdict::Faster
        } else if found.verdict == Verdict::Level {
            PairVerdict::Tie
        } else {
            PairVerdict::Open
        };
        Some(Self {
            a,
            b,
            ratio: found.median_ratio,
            interval: found.median_ci95,
            n: found.n,
            faster: found.less,
            slower: found.more,
            verdict,
        })
    }
}

impl State {
    fn of(point: &Point) -> Self {
        let lines = answer::lines(point).into_iter();
        let names = anabranch_report::names(point);
        let metric = point.decisive();
        let standing = |(name, contestant): (String, &Contestant)| {
            let stat = contestant.summary.metric(metric);
            Standing {
                name,
                typed: contestant.name.clone(),
                median: stat.and_then(|stat| stat.median),
                interval: stat.and_then(|stat| stat.ci95),
                p75: stat.and_then(|stat| stat.p75),
                p95: stat.and_then(|stat| stat.p95),
                median_seed: contestant.median_seed,
                times: contestant.runs.iter().map(|run| metrics::value(run, metric)).collect(),
            }
        };
        // The bound of a run is about its end, and the deciding metric of messages is about their delays.
        let bounded = point.contestants.iter().filter(|_| !point.workload.messages);
        let limits = bounded.flat_map(|one| &one.runs).filter_map(|run| run.limit_ns);
        let pairs = (0..point.contestants.len()).flat_map(|a| (0..a).map(move |b| (a, b)));
        Self {
            lines: lines.map(|line| LineText { text: line.text(), label: line.label }).collect(),
            winner: answer::winner(point),
            unit: point.workload.workload_noun(),
            contestants: names.into_iter().zip(&point.contestants).map(standing).collect(),
            pairs: pairs.filter_map(|(a, b)| Pair::of(point, a, b)).collect(),
            changes: point.changes.clone(),
            limit_ms: limits.min().map(|ns| ns as f64 / 1e6),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flags(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn contestants_that_use_one_path_of_two_are_named() {
        let mut lab = Lab::default();
        let plan = [
            ("objects", "2x10kB"),
            ("path", "rate=10mbit"),
            ("path", "rate=5mbit"),
            ("transport", "tcp"),
            ("transport", "sctp"),
            ("transport", "sctp:paths=1"),
            ("transport", "http3"),
            ("transport", "sctp-dtls"),
        ];
        let facts = lab.plan(&flags(&plan), None).expect("a plan");
        assert_eq!(facts.one_path, [true, false, true, true, true]);
    }

    /// Runs a whole race with the experiments that try changes.
    fn explained(lab: &mut Lab, plan: &[(&str, &str)]) -> Facts {
        let facts = lab.plan(&flags(plan), None).expect("a plan");
        for job in 0..facts.jobs.len() {
            let runs = lab.run(job).expect("a run");
            lab.add(job, serde_json::to_value(runs).expect("JSON")).expect("a run of this plan");
        }
        let seeds = facts.seeds.len();
        let found = lab.explain(0, seeds, Part::Changes, None).expect("changes");
        lab.explained(0, seeds, serde_json::to_value(found).expect("JSON")).expect("changes");
        facts
    }

    #[test]
    fn changes_that_were_tried_with_every_seed_replace_those_of_the_experiments_in_the_answer_alone() {
        let mut lab = Lab::default();
        let plan = [
            ("objects", "6x20kB"),
            ("loss", "5%"),
            ("rtt", "40ms"),
            ("transport", "tcp"),
            ("transport", "six"),
            ("runs", "27"),
        ];
        let facts = explained(&mut lab, &plan);
        let few = lab.state(27).expect("a state")[0].changes.clone();
        let change = "rtt=160ms";
        let of = |changes: &[Changed]| changes.iter().find(|one| one.change == change).expect(change).clone();
        assert_eq!(of(&few).n, 25);
        let mut times = Vec::new();
        for contestant in 0..facts.contestants.len() {
            let all = (0..27).map(|seed| lab.try_change(0, change, contestant, seed).expect("a time"));
            times.push(all.map(|time| serde_json::to_value(time).expect("JSON")).collect::<Vec<_>>());
        }
        let short = [times[0].clone(), times[1][..26].to_vec()];
        assert_eq!(
            lab.tried(0, change.to_owned(), &short).expect_err("short"),
            "rtt=160ms: times are missing"
        );
        lab.tried(0, change.to_owned(), &times).expect("all times");
        let many = lab.state(27).expect("a state")[0].changes.clone();
        assert_eq!(of(&many).n, 27);
        assert_ne!(of(&many).medians_ms, of(&few).medians_ms);
        let others = |changes: &[Changed]| -> Vec<Changed> {
            changes.iter().filter(|one| one.change != change).cloned().collect()
        };
        assert_eq!(others(&many), others(&few));
        assert_eq!(lab.planned().expect("a plan").race(27).expect("a race").points[0].changes, few);
    }

    #[test]
    fn times_of_a_change_with_the_seeds_of_the_experiments_are_theirs() {
        let mut lab = Lab::default();
        let plan = [
            ("objects", "4x20kB"),
            ("loss", "2%"),
            ("transport", "tcp"),
            ("transport", "six"),
            ("runs", "7"),
        ];
        explained(&mut lab, &plan);
        let found = lab.state(7).expect("a state")[0].changes.clone();
        assert!(found.len() > 2, "{found:?}");
        for changed in found.iter().filter(|changed| changed.n == 7) {
            let mut times = Vec::new();
            for contestant in 0..2 {
                let all =
                    (0..7).map(|seed| lab.try_change(0, &changed.change, contestant, seed).expect("a time"));
                times.push(all.map(|time| serde_json::to_value(time).expect("JSON")).collect());
            }
            lab.tried(0, changed.change.clone(), &times).expect("all times");
        }
        assert_eq!(lab.state(7).expect("a state")[0].changes, found);
        let unknown = lab.try_change(0, "loss=7%", 0, 0).expect_err("no such change");
        assert_eq!(unknown, "loss=7%: the race tries no such change with this contestant and this seed");
    }

    #[test]
    fn states_of_a_race_over_loss_have_the_winner_and_the_interval_of_each_median() {
        let mut lab = Lab::default();
        let plan = [
            ("objects", "6x20kB"),
            ("loss", "0,3%"),
            ("transport", "tcp"),
            ("transport", "six"),
            ("runs", "8"),
            ("causes", "off"),
        ];
        let facts = lab.plan(&flags(&plan), None).expect("a plan");
        for (job, fact) in facts.jobs.iter().enumerate() {
            assert_eq!(fact.contestant, Some(job / facts.seeds.len() % 2));
            let runs = lab.run(job).expect("a run");
            lab.add(job, serde_json::to_value(runs).expect("JSON")).expect("a run of this plan");
        }
        let states = lab.state(8).expect("all runs are there");
        assert_eq!(states.len(), 2);
        assert_eq!(states[0].winner.as_deref(), Some("six"));
        let [pair] = states[0].pairs.as_slice() else { panic!("one pair: {:?}", states[0].pairs) };
        assert_eq!((pair.a, pair.b, pair.verdict), (1, 0, PairVerdict::Faster));
        let medians: Vec<f64> = states[0].contestants.iter().filter_map(|one| one.median).collect();
        assert!((pair.ratio.expect("a ratio") - medians[1] / medians[0]).abs() < 1e-9, "{pair:?}");
        for standing in &states[1].contestants {
            let (median, [low, high]) =
                (standing.median.expect("a median"), standing.interval.expect("an interval"));
            assert!(low <= median && median <= high && low < high, "{low} {median} {high}");
        }
    }
}
