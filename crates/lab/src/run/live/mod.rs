//! The emulated world: a plan's runs in real time, on real kernels' packets.
//!
//! Each run has two network namespaces, the client's and the server's, joined by
//! the links of its network, which `emu` drives. In either a thread runs a world
//! of the operating system: the same client, server and SCTP that race in
//! virtual time. TCP is the kernel's own, with the congestion control that the
//! contestant names. What such a world cannot tell is null: the parts of a
//! response time, which need to know each packet at both ends.
//!
//! - [`hosts`]: what runs in the two namespaces
//! - [`counters`]: what the kernel counts of its TCP
//! - [`gather`]: from all that to a [`Run`]

mod counters;
mod gather;
mod hosts;

use super::batch::{self, Options, RaceError};
use super::one::{Kept, Scenario};
use crate::plan::{Arm, Plan, PlanError, Transport, arm};
use crate::results::{Race, Run, World};
use anabranch_base::Rng;
use anabranch_emu::device::{Choice, Clock};
use anabranch_emu::netns::Namespace;
use anabranch_emu::record::{self, Keep};
use anabranch_emu::relay::{Outcome, Relay};
use anabranch_emu::wiring::{Place, Wiring};
use std::fs::{self, File};
use std::io::{self, BufWriter};
use std::sync::Mutex;

pub use anabranch_emu::netns::prepare;

/// Runs the plan in real time. With `keep`, both ends' packets of every run come with it.
///
/// # Errors
/// [`RaceError`]; [`check`] says what of a plan has no counterpart here.
pub fn race(plan: &Plan, options: &Options<'_>, keep: bool) -> Result<(Race, Vec<Kept>), RaceError> {
    let kept = Mutex::new(Vec::new());
    let run = |scenario: &Scenario<'_>, point: usize| {
        let (run, captures) = perform(scenario, keep)?;
        if let Ok(mut kept) = kept.lock() {
            for (host, pcapng) in captures {
                let arm = plan.arms.iter().position(|arm| arm.text == scenario.arms[0].text).unwrap_or(0);
                kept.push(Kept { point, arm, seed: scenario.seed, host, pcapng });
            }
        }
        Ok(vec![run])
    };
    let mut race = batch::race_in(World::Emulated, plan, options, &run)?;
    for point in &mut race.points {
        for (shown, arm) in point.arms.iter_mut().zip(&plan.arms) {
            if arm.transport == Transport::Tcp {
                // The knobs of our engine say nothing of the kernel.
                shown.settings.retain(|key, _| KERNEL_KEYS.contains(&key.as_str()));
                shown.settings.insert("engine".to_owned(), kernel());
                shown.settings.insert("profile".to_owned(), "kernel".to_owned());
            }
        }
    }
    race.warnings.push(kernel_sctp());
    Ok((race, kept.into_inner().unwrap_or_default()))
}

/// Says what of a plan has no counterpart in the emulated world.
///
/// # Errors
/// [`PlanError`] with the key.
pub fn check(plan: &Plan) -> Result<(), PlanError> {
    let refuse =
        |place: &str, what: &str| Err(PlanError::at(place, format!("{what} is for the virtual world")));
    if plan.together {
        return refuse("--together", "a network shared by all contestants");
    }
    if plan.cross.is_some() {
        return refuse("--cross", "background traffic");
    }
    for point in &plan.points {
        if point.workload.keep_origins {
            return refuse("--origins", "a server for each origin");
        }
    }
    for arm in &plan.arms {
        if arm.cost != Default::default() {
            return refuse(&arm.place, "a processor's cost");
        }
        if arm.transport == Transport::Tcp {
            kernel_has(arm)?;
        }
    }
    Ok(())
}

/// A TCP contestant says nothing that the kernel's TCP cannot do.
fn kernel_has(arm: &Arm) -> Result<(), PlanError> {
    let given = arm.text.split_once(':').map_or("", |(_, keys)| keys);
    for key in given.split(',').filter_map(|pair| pair.split('=').next()).filter(|key| !key.is_empty()) {
        if key != "cc" && !arm::ARM_KEYS.iter().any(|own| own.name == key) {
            let what = format!(
                "'{key}' is a knob of our TCP; in the emulated world the kernel's runs, which takes cc"
            );
            return Err(PlanError::at(&arm.place, what));
        }
    }
    Ok(())
}

/// Hosts and the captures of their packets.
type Captures = Vec<(&'static str, File)>;

/// One run: the world is built, used and taken down.
fn perform(scenario: &Scenario<'_>, keep: bool) -> Result<(Run, Captures), String> {
    let [arm] = scenario.arms.as_slice() else { return Err("one contestant a run".to_owned()) };
    let links = &scenario.point.network.paths;
    let wrong = |error: &dyn std::fmt::Display| error.to_string();
    let client = Namespace::create().map_err(|e| wrong(&e))?;
    let server = Namespace::create().map_err(|e| wrong(&e))?;
    let place = Place::default();
    let (wiring, pipes) =
        Wiring::join(links, (client, server), false, place, Choice::Auto).map_err(|e| wrong(&e))?;
    let task = hosts::Task::new(scenario.point, arm, scenario.seed, place)?;
    let serving = hosts::Serving::start(&wiring.far, &task)?;

    // The network begins with the client, so that what is to happen at a time happens at the client's.
    let clock = Clock::begin();
    let rng = Rng::new(scenario.seed);
    let record = if keep { Keep::Packets } else { Keep::Bytes };
    let mut relays = Vec::new();
    for (number, (pipe, spec)) in pipes.into_iter().zip(links).enumerate() {
        let own = rng.fork(&format!("link/{number}"));
        relays.push(Relay::start(pipe, spec, scenario.seed, &own, clock, record).map_err(|e| wrong(&e))?);
    }
    let fetched = hosts::fetch(&wiring.near, &task, clock);
    let served = serving.end(clock);
    let (fetched, served) = (fetched?, served?);
    let mut outcomes: Vec<Outcome> = Vec::new();
    for (number, relay) in relays.into_iter().enumerate() {
        let mut outcome = relay.stop().map_err(|e| wrong(&e))?;
        outcome.report.unseen = wiring.unseen(number);
        outcomes.push(outcome);
    }
    let mut captures = Vec::new();
    if keep {
        let packets: Vec<_> = outcomes.iter_mut().filter_map(|outcome| outcome.packets.take()).collect();
        for (host, near) in [("client", true), ("server", false)] {
            let file = record::nameless().map_err(|e| wrong(&e))?;
            let written = record::capture(&packets, near, BufWriter::new(file));
            let file = written.and_then(|out| out.into_inner().map_err(io::IntoInnerError::into_error));
            captures.push((host, file.map_err(|e| wrong(&e))?));
        }
    }
    let run = gather::run(scenario.point, arm, scenario.seed, &fetched, &served, &outcomes)?;
    Ok((run, captures))
}

/// The kernel, as it names itself.
fn kernel() -> String {
    let release = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    format!("Linux {}", release.trim())
}

/// What there is to say of the kernel's own SCTP.
fn kernel_sctp() -> String {
    let protocols = fs::read_to_string("/proc/net/protocols").unwrap_or_default();
    let present = protocols.lines().any(|line| line.starts_with("SCTP"));
    let which =
        if present { "has SCTP of its own, which does not race yet" } else { "has no SCTP of its own" };
    format!("sctp is ours, in the emulated world, too: this kernel {which}")
}

/// Settings that mean something for the kernel's TCP.
const KERNEL_KEYS: [&str; 7] =
    ["transport", "connections", "objects-per-connection", "pipeline", "http", "cc", "profile"];
