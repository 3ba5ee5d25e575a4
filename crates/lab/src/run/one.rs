//! Carries out one simulated run.

use super::collect::{self, Traces};
use super::contest::{self, Contest};
use super::topology::Built;
use super::{course, handover, topology};
use crate::plan::handover::DepartureTime;
use crate::plan::{BackgroundTraffic, Contestant, LossBy, Network, PointPlan};
use anabranch_base::time::Duration;
use anabranch_base::{Instant, Ratio};
use anabranch_http::fetch::Outcome as Fetched;
use anabranch_link::LinkSpec;
use anabranch_results::Run;
use anabranch_results::course::Course;
use anabranch_sim::Outcome;
use anabranch_tls::Encryption;
use anabranch_transport::protocol::ConnectionLog;
use anabranch_wire::pcap;
use anabranch_world::World;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};

/// The parameters of a run: the network, the workload, the contestants, and the seed.
#[derive(Clone, Debug)]
pub struct Scenario<'a> {
    /// The network and the workload.
    pub point: &'a PointPlan,
    /// The contestants that share the network. Usually there is only one.
    pub contestants: Vec<&'a Contestant>,
    /// The background traffic, if there is any.
    pub cross: Option<&'a BackgroundTraffic>,
    /// The seed of all random numbers.
    pub seed: u64,
}

/// The packets that a host sent and received, the host's logs, and data for charts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Captured {
    /// The index of the contestant in the scenario.
    pub contestant: usize,
    /// The name of the host: `client`, `server`, `server-2`, ….
    pub host: String,
    /// The content of a pcapng file with the packets.
    pub pcapng: Vec<u8>,
    /// Data for charts that `pcapng` does not contain: the host's congestion windows, losses and queueing delays.
    pub course: Course,
    /// The logs of the host's connections, if its transport has a log format.
    pub logs: Vec<ConnectionLog>,
}

/// The packets of one host in one emulated run of a race. They are kept because the run cannot be repeated to make a
/// capture.
#[derive(Debug)]
pub struct HostPackets {
    /// The index of the point (one combination of the plan's values) in the plan.
    pub point: usize,
    /// The index of the contestant in the plan.
    pub contestant: usize,
    /// The seed of the run.
    pub seed: u64,
    /// The name of the host: `client` or `server`.
    pub host: &'static str,
    /// A pcapng file with the packets. The file has no name in the file system yet.
    pub pcapng: File,
}

impl HostPackets {
    /// Reads the capture file, and passes its content piece by piece to `take`.
    ///
    /// # Errors
    /// An error of reading the file. Errors of `take` are returned in the inner result.
    pub fn each<E>(&self, mut take: impl FnMut(&[u8]) -> Result<(), E>) -> io::Result<Result<(), E>> {
        let mut file = &self.pcapng;
        file.seek(SeekFrom::Start(0))?;
        let mut buffer = vec![0; 1 << 16];
        loop {
            match file.read(&mut buffer)? {
                0 => return Ok(Ok(())),
                length => {
                    if let Err(error) = take(&buffer[..length]) {
                        return Ok(Err(error));
                    }
                }
            }
        }
    }
}

/// Carries out a run, and returns one result for each contestant.
///
/// # Errors
/// A message of one line if the simulated network cannot be built or the run does not end.
pub fn run(scenario: &Scenario<'_>) -> Result<Vec<Run>, String> {
    perform(scenario, false).map(|done| done.runs)
}

/// Carries out a run, and captures the packets of every host until the last connection has ended.
///
/// # Errors
/// The same errors as [`run`].
pub fn capture(scenario: &Scenario<'_>) -> Result<(Vec<Run>, Vec<Captured>), String> {
    perform(scenario, true).map(|done| (done.runs, done.captures))
}

/// The outcome of a simulated run.
struct Performed {
    runs: Vec<Run>,
    captures: Vec<Captured>,
    /// The time from the start of the run until the last client had finished.
    took: Duration,
}

/// Carries out a run. If the client leaves its network at a random moment, this function first draws the moment.
fn perform(scenario: &Scenario<'_>, capture: bool) -> Result<Performed, String> {
    let Some(handover) = &scenario.point.network.handover else { return perform_once(scenario, capture) };
    let leaves = match (handover.leaves, handover.dwell) {
        (DepartureTime::At(_), _) => return perform_once(scenario, capture),
        (DepartureTime::Random, Some(dwell)) => dwell,
        // The client may leave its network at any moment of the run. A first run without a move measures how long the
        // run takes.
        (DepartureTime::Random, None) => perform_once(scenario, false)?.took,
    };
    let mut point = scenario.point.clone();
    if let Some(handover) = &mut point.network.handover {
        handover.leaves = DepartureTime::At(handover::draw(scenario.seed, leaves));
    }
    perform_once(&Scenario { point: &point, ..scenario.clone() }, capture)
}

/// Carries out a run. If the departure time is still [`DepartureTime::Random`], the client does not move in this run.
fn perform_once(scenario: &Scenario<'_>, capture: bool) -> Result<Performed, String> {
    let jittered = scenario.point.of_seed(scenario.seed);
    let point = jittered.as_ref().unwrap_or(scenario.point);
    let workload = &point.workload;
    let servers = if workload.keep_origins { workload.page.hosts.len().max(1) } else { 1 };
    let lanes = scenario.contestants.len() + usize::from(scenario.cross.is_some());
    let through = tunnelled(point, &scenario.contestants);
    let network = through.as_ref().unwrap_or(&point.network);
    let built = built(point, network, (lanes, servers), scenario.seed)?;
    let network = &built.network;
    if point.one_processor {
        for lane in &built.lanes {
            let hosts: Vec<_> = std::iter::once(lane.client).chain(lane.servers.iter().copied()).collect();
            network.share_processor(&hosts);
        }
    }
    if let Some(handover) = &point.network.handover {
        // The hosts of background traffic keep their address by Mobile IP.
        let changes_address: Vec<bool> = (0..lanes)
            .map(|lane| scenario.contestants.get(lane).is_some_and(|one| one.changes_address()))
            .collect();
        handover::prepare(&built, &changes_address, handover, workload.deadline, scenario.seed)?;
    }
    network.record_link_events();
    if capture {
        for host in built.lanes.iter().flat_map(|lane| lane.servers.iter().chain([&lane.client])) {
            network.capture(*host);
        }
    }
    let main = async {
        let mut contests: Vec<Contest> = Vec::new();
        for (lane, contestant) in built.lanes.iter().zip(&scenario.contestants) {
            contests.push(
                contest::start(network, lane, contestant, point, encryption(scenario, capture), capture)
                    .await?,
            );
        }
        if let (Some(cross), Some(lane)) = (scenario.cross, built.lanes.get(scenario.contestants.len())) {
            contest::background(network, lane, cross).await?;
        }
        let mut fetched: Vec<Fetched> = Vec::new();
        for contest in &mut contests {
            fetched.push((&mut contest.task).await);
        }
        Ok::<_, String>((contests, fetched))
    };
    // The clients themselves stop at the deadline. This later limit catches bugs in this program.
    let guard = Instant::ZERO + workload.deadline + Duration::from_secs(60);
    let (contests, fetched) = ended(network.run(main, guard))??;
    let took = fetched.iter().map(Fetched::elapsed).max().unwrap_or_default();
    let link_events = network.take_link_events();
    let mut runs = Vec::new();
    let mut courses = Vec::new();
    for (((lane, contestant), contest), fetched) in
        built.lanes.iter().zip(&scenario.contestants).zip(&contests).zip(&fetched)
    {
        let what = (point, *contestant, scenario.seed);
        let traces = Traces::of(contest);
        if capture {
            let hosts = std::iter::once((&lane.client_addresses, &traces.client));
            let hosts = hosts.chain(lane.server_addresses.iter().zip(&traces.servers));
            courses.extend(
                hosts.map(|(own, trace)| course::of(&built, own, &link_events, trace, MOST_IN_COURSE)),
            );
        }
        runs.push(collect::run(&built, lane, contest, fetched, (&link_events, traces), what)?);
    }
    let mut captures = Vec::new();
    let mut courses = courses.into_iter();
    if capture {
        // The results are complete when the clients have finished. For a capture, the simulation continues until the
        // connections have closed.
        let world = network.world(built.lanes[0].client);
        let rest = async {
            for contest in &contests {
                contest.client.wait_idle().await;
            }
            world.sleep_until(world.now() + Duration::from_millis(500)).await;
        };
        let _ = network.run(rest, network.now() + CLOSING);
        for (contestant, lane) in built.lanes.iter().take(scenario.contestants.len()).enumerate() {
            let servers = lane.servers.iter().enumerate().map(|(i, node)| {
                (if i == 0 { "server".to_owned() } else { format!("server-{}", i + 1) }, *node)
            });
            let contest = &contests[contestant];
            let mut hosts = std::iter::once(&contest.client).chain(&contest.servers);
            for (host, node) in std::iter::once(("client".to_owned(), lane.client)).chain(servers) {
                let mut pcapng = network.finish_capture(node).map_err(|error| error.to_string())?;
                let secrets = contest.pairs.secrets();
                if !secrets.is_empty() {
                    let with = pcap::with_tls_secrets(pcapng, &secrets);
                    pcapng = with.map_err(|error| error.to_string())?;
                }
                let course = courses.next().unwrap_or_default();
                let logs = hosts.next().map(|host| host.take_logs()).unwrap_or_default();
                captures.push(Captured { contestant, host, pcapng, course, logs });
            }
        }
    }
    Ok(Performed { runs, captures, took })
}

/// Returns how contestants encrypt. Ciphertext matters only if it is captured, or if links change it.
fn encryption(scenario: &Scenario<'_>, capture: bool) -> Encryption {
    let corrupts =
        |path: &LinkSpec| [path.up.corrupt, path.down.corrupt].iter().any(|share| *share != Ratio::ZERO);
    if capture || scenario.point.network.paths.iter().any(corrupts) {
        Encryption::Real
    } else {
        Encryption::Placeholder
    }
}

/// Builds the simulated network of a run. If the senders' packet filters drop the packets (`loss-by`), the links
/// themselves lose none.
fn built(
    point: &PointPlan,
    network: &Network,
    (lanes, servers): (usize, usize),
    seed: u64,
) -> Result<Built, String> {
    if point.loss_by != LossBy::IptablesOut {
        return topology::build(network, lanes, servers, seed);
    }
    let paths = network.paths.iter().map(LinkSpec::lossless).collect();
    let built = topology::build(&Network { paths, ..network.clone() }, lanes, servers, seed)?;
    for (link, path) in built.paths.iter().zip(&network.paths) {
        built.network.filter_output(*link, path).map_err(|error| error.to_string())?;
    }
    Ok(built)
}

/// Returns the network with the effects of Mobile IP's tunnel, if there is exactly one contestant and its packets go
/// through the tunnel.
fn tunnelled(point: &PointPlan, contestants: &[&Contestant]) -> Option<Network> {
    let ([one], Some(handover)) = (contestants, &point.network.handover) else { return None };
    if handover.tunnel.0 == 0 || one.changes_address() {
        return None;
    }
    // This call cannot fail: a plan with a tunnel is rejected if its network has no rate.
    let through = handover.with_mobile_ip_tunnel(&point.network.paths[1]).ok()?;
    let mut network = point.network.clone();
    network.paths[1] = through;
    Some(network)
}

fn ended<T>(outcome: Outcome<T>) -> Result<T, String> {
    match outcome {
        Outcome::Done(value) => Ok(value),
        Outcome::Deadline => Err("the clients did not keep their deadline".to_owned()),
        Outcome::Stalled(waiting) => Err(format!("no task can continue: {waiting}")),
        Outcome::Livelock(waiting) => Err(format!("tasks run without time passing: {waiting}")),
    }
}

/// The maximum number of entries in each list of a host's [`Course`]: congestion windows, losses, queueing delays. A
/// chart cannot show more.
pub const MOST_IN_COURSE: usize = 6_000;

/// The maximum time that a capture continues while connections close.
const CLOSING: Duration = Duration::from_secs(10);

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Draft, Plan};
    use crate::run::batch;
    use anabranch_transports::Transports;

    /// Only a run whose ciphertext is neither captured nor corrupted uses the placeholder cipher.
    #[test]
    fn ciphertext_that_is_captured_or_corrupted_is_real() {
        let of = |paths: &[&str], capture| {
            let flags = paths.iter().map(|path| ("path", *path)).chain([("runs", "1")]);
            let draft = Draft::from_flags(flags).expect("flags");
            let plan = Plan::interpret(draft, &Transports::standard()).expect("a plan");
            encryption(&batch::scenario(&plan, 0, Some(0), 1), capture)
        };
        assert_eq!(of(&["rate=10mbit"], false), Encryption::Placeholder);
        assert_eq!(of(&["rate=10mbit"], true), Encryption::Real);
        assert_eq!(of(&["rate=10mbit,corrupt=1%"], false), Encryption::Real);
        assert_eq!(of(&["rate=10mbit", "rate=10mbit,up-corrupt=1%"], false), Encryption::Real);
    }
}
