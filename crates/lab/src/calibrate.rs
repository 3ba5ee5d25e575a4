//! Simulates the recorded load of a HAR, so that the user sees how near the simulation is to the recording.
//!
//! The simulated client is a browser on a first visit, because a browser recorded the HAR. The simulation uses the HTTP
//! version, the hosts, the server times and the network of the recording. If the recording does not show a property of
//! its network, or agrees with the race, the race's value is used. Objects from a cache, and objects that were
//! requested after the load event, are left out of both loads. The simulated time is the geometric mean of several
//! loads: without much loss, single packets decide between a few times far apart, and a median would be one of them.

use crate::plan::{Contestant, Network, Plan, PointPlan, Workload};
use crate::run::batch::{self, Options, RaceError};
use crate::run::one::{self, Scenario};
use anabranch_base::BitRate;
use anabranch_base::time::{Duration, nanos};
use anabranch_http::browser::{Client, Visit};
use anabranch_http::page::Page;
use anabranch_http::page::recorded::{Interval, Recording};
use anabranch_link::spec::{QueueSpec, RateSpec};
use anabranch_link::{DirectionSpec, LinkSpec};
use anabranch_results::calibration::{Calibration, Difference, Range, shown};
use anabranch_results::stats::interval::geometric_mean;
use anabranch_results::{Run, World};
use std::borrow::Borrow;
use std::sync::Arc;

/// Simulates the recorded load of each page in `points`, with the first seeds of `plan`. The points must be points of
/// the plan. Returns the results and the warnings. If the plan uses the recorded network, there is a warning for each
/// load that cannot be simulated.
///
/// # Errors
/// [`RaceError`] when the race is stopped, or when a run violates an internal invariant.
pub fn of<P: Borrow<PointPlan>>(
    points: impl Iterator<Item = P>,
    plan: &Plan,
    options: &Options<'_>,
) -> Result<(Vec<Calibration>, Vec<String>), RaceError> {
    let mut pages: Vec<Arc<Page>> = Vec::new();
    let (mut calibrations, mut warnings) = (Vec::new(), Vec::new());
    let seeds = &plan.seeds[..plan.seeds.len().min(LOADS)];
    let takes_network = plan.draft.value("network").is_some();
    for point in points {
        let point = point.borrow();
        let page = &point.workload.page;
        let Some(recording) = &page.recording else { continue };
        if pages.iter().any(|known| Arc::ptr_eq(known, page)) {
            continue;
        }
        if pages.len() == MOST_PAGES {
            if takes_network {
                warnings
                    .push(format!("the recorded loads of {MOST_PAGES} pages are simulated, and no others"));
            }
            break;
        }
        pages.push(Arc::clone(page));
        match Subject::of(point, recording, plan) {
            Ok(subject) => {
                let calibration = subject.calibrate(seeds, options)?;
                warnings.extend(calibration.warning());
                calibrations.push(calibration);
            }
            Err(why) if takes_network => {
                let network = shown(recording.rtt_ns.map(range), recording.rate_bps.map(range));
                warnings.push(format!("{}: its recorded load is not simulated: {why}. {network}", page.name));
            }
            Err(_) => {}
        }
    }
    Ok((calibrations, warnings))
}

/// Converts an interval to the type that the result file uses.
fn range(interval: Interval) -> Range {
    Range {
        value: interval.value,
        low: interval.low,
        high: Some(interval.high).filter(|high| *high < u64::MAX),
    }
}

/// A recorded page load, with the contestant and the point of the plan that simulate it.
struct Subject<'a> {
    recording: &'a Recording,
    /// The recorded HTTP version, and the number of objects that used it.
    protocol: (&'static str, usize),
    contestant: Contestant,
    point: PointPlan,
}

impl<'a> Subject<'a> {
    /// Returns the contestant and the point of a plan that simulate the recorded load, or the reason why the load
    /// cannot be simulated.
    fn of(point: &PointPlan, recording: &'a Recording, plan: &Plan) -> Result<Self, &'static str> {
        if plan.world == World::Emulated {
            return Err("the race is in real time");
        }
        if point.workload.arrivals.is_some() {
            return Err("the race requests objects at fixed times");
        }
        let page = loaded(&point.workload.page, recording)
            .ok_or("the HAR has no object that crossed the network before the load event")?;
        let tls = page.tls_objects * 2 > page.objects.len();
        let versions = recording.versions.into_iter().enumerate().filter(|(_, count)| *count > 0);
        let most = versions.max_by_key(|(i, count)| (*count, 2 - i));
        let (version, count) = most.ok_or("the HAR names no HTTP version")?;
        let protocol = ["HTTP/1.1", "HTTP/2", "HTTP/3"][version];
        let contestant = plan.recorded_by[version][usize::from(tls)].clone();
        let contestant = contestant.ok_or("no transport here carries the HTTP version of the HAR")?;
        let mut point = point.clone();
        point.network = network(&point.network, recording);
        point.workload = Workload {
            page: Arc::new(page),
            think: false,
            server_time: None,
            keep_origins: true,
            client: Client::Chromium,
            visit: Visit::First,
            request_jitter: Duration::ZERO,
            start_jitter: Duration::ZERO,
            ..point.workload
        };
        Ok(Self { recording, protocol: (protocol, count), contestant, point })
    }

    fn calibrate(&self, seeds: &[u64], options: &Options<'_>) -> Result<Calibration, RaceError> {
        let scenario = |&seed: &u64| {
            let contestants = vec![&self.contestant];
            (0, Scenario { point: &self.point, contestants, cross: None, seed })
        };
        let jobs: Vec<_> = seeds.iter().map(scenario).collect();
        // The reported progress counts only the runs of the race, so the runs of the calibration do not report
        // progress.
        let options = Options { progress: &|_| {}, ..*options };
        let runs = batch::carry_out(&jobs, &options, &|scenario, _| one::run(scenario))?;
        let runs: Vec<&Run> = runs.iter().flatten().collect();
        let page = &self.point.workload.page;
        let deadline = nanos(self.point.workload.deadline);
        let times: Vec<f64> = runs.iter().map(|run| run.page_ns.unwrap_or(deadline) as f64).collect();
        Ok(Calibration {
            page: page.name.clone(),
            protocol: self.protocol.0.to_owned(),
            objects: self.protocol.1 as u64,
            all: page.objects.len() as u64,
            recorded_ns: nanos(self.recording.load),
            simulated_ns: geometric_mean(&times).unwrap_or(0.0).round() as u64,
            network: describe(&self.point.network),
            rtt_ns: self.recording.rtt_ns.map(range),
            rate_bps: self.recording.rate_bps.map(range),
            largest: largest(page, &runs),
        })
    }
}

/// Returns the objects of `page` that crossed the network before the load event, or `None` if there are none.
fn loaded(page: &Page, recording: &Recording) -> Option<Page> {
    let mut loaded = Page { objects: Vec::new(), ..page.clone() };
    // For each object: its index in `loaded` or, if the object is left out, the index of the object that caused it.
    let mut placed: Vec<Option<usize>> = Vec::with_capacity(page.objects.len());
    for object in &page.objects {
        let cause = object.initiator.and_then(|cause| placed[cause]);
        let is_loaded = object.recorded.is_some_and(|recorded| {
            let in_time = recording.on_load.is_none_or(|on_load| recorded.queued <= on_load);
            in_time && !recorded.from_cache && !recorded.by_service_worker
        });
        if !is_loaded {
            placed.push(cause);
            continue;
        }
        placed.push(Some(loaded.objects.len()));
        let mut object = object.clone();
        object.initiator = cause;
        loaded.objects.push(object);
    }
    loaded.validate().is_ok().then_some(loaded)
}

/// Returns the recorded network. The value in `given` is used for a property that the recording does not show, or with
/// which it agrees.
fn network(given: &Network, recording: &Recording) -> Network {
    let agrees = |interval: Option<Interval>, value: u64| {
        interval.is_none_or(|interval| (interval.low..=interval.high).contains(&value))
    };
    let path = given.paths.first().cloned().unwrap_or_default();
    // Losses, failures and other events of the race are not part of the recording, so the network has none. Nor is the
    // queue of the race, for example that of a preset: it would make the same recording look different in each race.
    let mut spec = LinkSpec::default();
    let queue = QueueSpec::Bdp { thousandths: 1000 };
    (spec.up.queue, spec.down.queue) = (queue, queue);
    (spec.up.rate, spec.down.rate) = (path.up.rate.clone(), path.down.rate.clone());
    (spec.up.delay, spec.down.delay) = (path.up.delay, path.down.delay);
    if let Some(rtt) = recording.rtt_ns.filter(|rtt| !agrees(Some(*rtt), nanos(path.rtt()))) {
        // The round trip is rounded down to a multiple of 0.1 ms, as with `--network recorded`.
        let one_way = Duration::from_nanos((rtt.value / 100_000).max(1) * 50_000);
        (spec.up.delay, spec.down.delay) = (one_way, one_way);
    }
    let rate = path.down.rate.first().map_or(u64::MAX, BitRate::bits_per_second);
    if let Some(found) =
        recording.rate_bps.filter(|found| path.down.trace.is_some() || !agrees(Some(*found), rate))
        && let Some(rate) = BitRate::from_bits_per_second(found.value / 1000 * 1000)
    {
        (spec.up.rate, spec.down.rate) = (RateSpec::constant(rate), RateSpec::constant(rate));
    }
    Network { paths: vec![spec], fails: Vec::new(), handover: None }
}

/// Describes a network of one path in the units of the recorded network, for example `10 Mbit/s, 80 ms RTT`.
fn describe(network: &Network) -> String {
    let Some(path) = network.paths.first() else { return network.describe() };
    let number = |value: f64, digits: usize| {
        let text = format!("{value:.digits$}");
        text.trim_end_matches('0').trim_end_matches('.').to_owned()
    };
    let rate = |side: &DirectionSpec| match side.rate.first() {
        _ if !side.rate.changes().is_empty() => "a varying rate".to_owned(),
        Some(rate) => format!("{} Mbit/s", number(rate.bits_per_second() as f64 / 1e6, 2)),
        None => "no rate limit".to_owned(),
    };
    let (up, down) = (rate(&path.up), rate(&path.down));
    let rate = if up == down { down } else { format!("{down} down, {up} up") };
    format!("{rate}, {} ms RTT", number(nanos(path.rtt()) as f64 / 1e6, 1))
}

/// Returns the object whose load time differs most between the recording and the simulated runs. A load time counts
/// from the end of the object that caused the request. An object that no run delivered is left out.
fn largest(page: &Page, runs: &[&Run]) -> Option<Difference> {
    let simulated: Vec<Option<u64>> = (0..page.objects.len())
        .map(|index| {
            let ended = |run: &&Run| run.objects.get(index).and_then(|object| object.delivered_ns);
            median(runs.iter().filter_map(ended).collect())
        })
        .collect();
    let recorded = |index: usize| page.objects[index].recorded.map(|recorded| nanos(recorded.ended));
    let differences = page.objects.iter().enumerate().filter_map(|(index, object)| {
        let before = |time: &dyn Fn(usize) -> Option<u64>| object.initiator.map_or(Some(0), time);
        Some(Difference {
            object: object.name.chars().take(MAX_NAME).collect(),
            recorded_ns: recorded(index)?.saturating_sub(before(&recorded)?),
            simulated_ns: simulated[index]?.saturating_sub(before(&|cause| simulated[cause])?),
        })
    });
    differences.max_by_key(|difference| difference.recorded_ns.abs_diff(difference.simulated_ns))
}

/// Returns the median, or `None` without values.
fn median(mut values: Vec<u64>) -> Option<u64> {
    values.sort_unstable();
    values.get(values.len() / 2).copied()
}

/// The maximum number of simulated loads of a page.
const LOADS: usize = 11;
/// The maximum number of pages of a plan whose loads are simulated.
const MOST_PAGES: usize = 4;
/// The maximum number of characters of a request target in a message.
const MAX_NAME: usize = 80;
