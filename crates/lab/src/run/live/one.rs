//! Carries out an emulated run. Creates its namespaces and links, uses them, and removes them.
//!
//! Each contestant has two namespaces and a block of addresses. Contestants that race together send through the same
//! links, and share the queues of these links. As in the simulation, they share nothing else. All contestants begin
//! when the network's clock starts.

use super::{gather, hosts};
use crate::plan::{Contestant, LossBy, PointPlan};
use crate::run::one::Scenario;
use anabranch_base::Rng;
use anabranch_base::time::Duration;
use anabranch_emu::device::{Clock, DeviceKind};
use anabranch_emu::netns::Namespace;
use anabranch_emu::record::{self, Packets, RecordLevel};
use anabranch_emu::relay::{Outcome, Pipe, Relay};
use anabranch_emu::rules::{self, LossRules};
use anabranch_emu::watch::Watch;
use anabranch_emu::wiring::{AddressRange, Wiring};
use anabranch_results::Run;
use anabranch_transport::sctp::IP_PROTOCOL;
use anabranch_world::os::kernel_has_sctp;
use std::fmt::Display;
use std::fs::File;
use std::io::{self, BufWriter};

/// The capture files of a run, each with the name of the host that recorded it.
pub type Captures = Vec<(&'static str, File)>;

/// The namespaces of a contestant, and the client and server that run in them.
struct Lane<'a> {
    contestant: &'a Contestant,
    place: AddressRange,
    wiring: Wiring,
    rules: Option<LossRules>,
    task: hosts::Task,
}

/// Runs a scenario and returns one result for each contestant. If `keep` is set, also returns the packets at both
/// hosts.
///
/// # Errors
/// A one-line message if the operating system denies an operation, or if the client or server exits early.
pub fn run(scenario: &Scenario<'_>, keep: bool) -> Result<Vec<(Run, Captures)>, String> {
    let jittered = scenario.point.of_seed(scenario.seed);
    let point = jittered.as_ref().unwrap_or(scenario.point);
    let links = &point.network.paths;
    // Collects, for each link, the network devices of all contestants.
    let mut pipes: Vec<Vec<Pipe>> = links.iter().map(|_| Vec::new()).collect();
    let mut lanes = Vec::new();
    for (block, &contestant) in (0..).zip(&scenario.contestants) {
        let (lane, own) = Lane::build(point, contestant, block, scenario.seed)?;
        lanes.push(lane);
        pipes.iter_mut().zip(own).for_each(|(pipes, pipe)| pipes.push(pipe));
    }
    let servers = lanes.iter().map(|lane| hosts::serve(&lane.wiring.far, &lane.task));
    let servers = servers.collect::<Result<Vec<_>, _>>()?;
    let clients = lanes.iter().map(|lane| hosts::fetch(&lane.wiring.near, &lane.task));
    let clients = clients.collect::<Result<Vec<_>, _>>()?;

    // The clients start when the network's clock starts. The times of scheduled changes of the network therefore count
    // from the start of the clients.
    let clock = Clock::begin_in(LEAD);
    let watch = gather::first_failure(point).map(Watch::after);
    let rng = Rng::new(scenario.seed);
    let record = if keep { RecordLevel::Packets } else { RecordLevel::Bytes };
    let mut relays = Vec::new();
    for (number, (pipes, spec)) in pipes.into_iter().zip(links).enumerate() {
        let own = rng.fork(&format!("link/{number}"));
        // If iptables drops the packets, the link's own loss is switched off. The random numbers of the link's other
        // elements stay the same.
        let spec = if point.loss_by.is_iptables() { &spec.lossless() } else { spec };
        let relay = Relay::start(pipes, spec, scenario.seed, &own, clock, record, watch);
        relays.push(relay.map_err(error_line)?);
    }
    clients.iter().for_each(|client| client.cue(clock));
    let ended = clients.into_iter().map(|client| client.join()).collect::<Result<Vec<_>, _>>();
    servers.iter().for_each(|server| server.cue(clock));
    let served = servers.into_iter().map(|server| server.join()).collect::<Result<Vec<_>, _>>();
    let (ended, served) = (ended?, served?);
    let mut outcomes: Vec<Outcome> =
        relays.into_iter().map(Relay::stop).collect::<Result<_, _>>().map_err(error_line)?;
    let packets: Vec<Packets> = outcomes.iter_mut().filter_map(|outcome| outcome.packets.take()).collect();
    let mut runs = Vec::new();
    for (lane, both) in lanes.iter().zip(ended.iter().zip(&served)) {
        let ruled =
            lane.rules.as_ref().map(|rules| rules.read(&lane.wiring)).transpose().map_err(error_line)?;
        let what = (point, lane.contestant, scenario.seed);
        let run = gather::run(what, lane.place, both, &outcomes, ruled.as_deref())?;
        let captures = if keep { captures(&packets, lane).map_err(error_line)? } else { Captures::new() };
        runs.push((run, captures));
    }
    Ok(runs)
}

impl<'a> Lane<'a> {
    /// Creates the namespaces of a contestant, connects them to each other, and creates a device for each link. Each
    /// contestant has its own block of addresses.
    fn build(
        point: &PointPlan,
        contestant: &'a Contestant,
        block: u8,
        seed: u64,
    ) -> Result<(Self, Vec<Pipe>), String> {
        let links = &point.network.paths;
        let client = Namespace::create().map_err(error_line)?;
        let place = AddressRange { block, depth: 0 };
        let joined = match links.as_slice() {
            [link] if point.one_host => Wiring::on_one_host(link, client, place, DeviceKind::Auto),
            links => {
                let server = Namespace::create().map_err(error_line)?;
                Wiring::join(links, (client, server), false, place, DeviceKind::Auto)
            }
        };
        let (wiring, pipes) = joined.map_err(error_line)?;
        let rules = match point.loss_by {
            LossBy::Link => None,
            LossBy::Iptables => Some(
                LossRules::install(&wiring, links, seed, rules::HookPoint::Arrival).map_err(error_line)?,
            ),
            LossBy::IptablesOut => Some(
                LossRules::install(&wiring, links, seed, rules::HookPoint::Departure).map_err(error_line)?,
            ),
        };
        if contestant.is_kernels_multipath() {
            wiring.announce(contestant.paths.unwrap_or(links.len())).map_err(error_line)?;
        }
        // The kernel's SCTP and our engine would both answer packets of protocol 132 on this host. The kernel's answers
        // are therefore suppressed.
        let beside = !contestant.transport.is_kernel_in_emulation()
            && hosts::uses_protocol(contestant, IP_PROTOCOL)
            && kernel_has_sctp();
        if beside {
            wiring.silence_sctp(MARK).map_err(error_line)?;
        }
        let task = hosts::Task::new(point, contestant, seed, place, beside.then_some(MARK))?;
        Ok((Self { contestant, place, wiring, rules, task }, pipes))
    }
}

/// Returns the packets of a contestant at both ends of the links, as one capture file for each host.
fn captures(packets: &[Packets], lane: &Lane<'_>) -> io::Result<Captures> {
    let secrets = lane.task.secrets();
    let of = |(host, near)| {
        let out = BufWriter::new(record::nameless()?);
        let written = record::capture(packets, usize::from(lane.place.block), near, &secrets, out)?;
        Ok((host, written.into_inner().map_err(io::IntoInnerError::into_error)?))
    };
    [("client", true), ("server", false)].into_iter().map(of).collect()
}

fn error_line(error: impl Display) -> String {
    error.to_string()
}

/// The firewall mark of our SCTP packets, which distinguishes them from the kernel's.
const MARK: u32 = 0x6162;
/// The time from the moment when all hosts are ready to the start of the network's clock. The links are started in
/// between.
const LEAD: Duration = Duration::from_millis(50);
