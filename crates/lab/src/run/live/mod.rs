//! Runs a plan in the emulated network: in real time, with real packets.
//!
//! Each contestant has two network namespaces, for its client and its server. The links of its network join the
//! namespaces, and the crate `emu` drives these links. A thread in the client's namespace runs the client, and a thread
//! in the server's namespace runs the server. The client, the server and the SCTP engine are the same code as in the
//! simulation. TCP is the kernel's, with the contestant's congestion control.
//!
//! Some parts of a response time can be computed only from the times of every packet at both hosts. Runs in real time
//! do not compute these parts, so they are null.
//!
//! - [`one`]: carries out one run, from creating the namespaces to writing the captures
//! - [`hosts`]: the hosts in the namespaces
//! - [`counters`]: the kernel's TCP and SCTP counters
//! - [`kernel`]: the name of the kernel and the settings of its protocols
//! - [`gather`]: turns the records of a run into a `Run`
//! - [`notes`]: warnings to print next to the results

mod counters;
mod gather;
mod hosts;
mod kernel;
mod notes;
mod one;

use super::batch::{self, Options, RaceError};
use super::one::{HostPackets, Scenario};
use crate::plan::{Contestant, Plan, PlanError, contestant};
use anabranch_emu::netns::Namespace;
use anabranch_emu::rules;
use anabranch_emu::wiring::{BLOCKS, MAX_SUBFLOWS};
use anabranch_results::{Race, World};
use anabranch_world::os::kernel_has_sctp;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Mutex;

pub use anabranch_emu::netns::prepare;

/// Runs the plan in real time. If `keep` is set, also returns the packets that both hosts of every run sent and
/// received.
///
/// # Errors
/// [`RaceError`] if [`check`] rejects the plan, if the race is stopped, or if a run fails.
pub fn race(plan: &Plan, options: &Options<'_>, keep: bool) -> Result<(Race, Vec<HostPackets>), RaceError> {
    check(plan)?;
    possible(plan).map_err(RaceError::Run)?;
    let kept = Mutex::new(Vec::new());
    let run = |scenario: &Scenario<'_>, point: usize| {
        let mut runs = Vec::new();
        for (contestant, (run, captures)) in scenario.contestants.iter().zip(one::run(scenario, keep)?) {
            // Finds the contestant by its address in memory, because two contestants of a plan may have the same text.
            let number = plan.contestants.iter().position(|planned| std::ptr::eq(planned, *contestant));
            let own = captures.into_iter().map(|(host, pcapng)| HostPackets {
                point,
                contestant: number.unwrap_or(0),
                seed: scenario.seed,
                host,
                pcapng,
            });
            if let Ok(mut kept) = kept.lock() {
                kept.extend(own);
            }
            runs.push(run);
        }
        Ok(runs)
    };
    let mut race = batch::race_in(World::Emulated, plan, options, &run)?;
    race.host.kernel = Some(kernel::name());
    race.host.kernel_sctp = Some(kernel_has_sctp());
    for point in &mut race.points {
        for (shown, contestant) in point.contestants.iter_mut().zip(&plan.contestants) {
            if let Some(options) = hosts::kernel_options(contestant) {
                // The knobs of our engine do not apply to the kernel, so they are removed from the settings in the
                // result.
                shown.settings.retain(|key, _| KERNEL_KEYS.contains(&key.as_str()));
                shown.settings.insert("engine".to_owned(), "Linux".to_owned());
                shown.settings.insert("profile".to_owned(), "kernel".to_owned());
                let set = Namespace::create().and_then(|new| new.run(|| kernel::settings(options.protocol)));
                let set = set.map_err(|error| RaceError::Run(error.to_string()))?;
                shown.settings.extend(set.into_iter().map(|(key, value)| (key.to_owned(), value)));
            }
        }
    }
    let notes = notes::of(&race, plan);
    race.warnings.extend(notes);
    Ok((race, kept.into_inner().unwrap_or_default()))
}

/// Checks that the plan can run in the emulated network.
///
/// # Errors
/// [`PlanError`] that names the key that the emulated network does not support.
pub fn check(plan: &Plan) -> Result<(), PlanError> {
    let refuse =
        |place: &str, what: &str| Err(PlanError::at(place, format!("{what} is for the virtual world")));
    if plan.together && plan.contestants.len() > usize::from(BLOCKS) {
        let what = format!("at most {BLOCKS} contestants can share an emulated network");
        return Err(PlanError::at("--shared-link", what));
    }
    if plan.cross.is_some() {
        return refuse("--background", "background traffic");
    }
    for point in &plan.points {
        if point.workload.keep_origins {
            let what = "keep: each host has a server in the virtual world only; write merge";
            return Err(PlanError::at("--origins", what));
        }
        if point.one_processor {
            return refuse("--processors", "a processor that both ends share");
        }
        if point.loss_by.is_iptables() && plan.together {
            let what = "rules stand at a host, and each contestant has its own: let the link lose with --shared-link";
            return Err(PlanError::at("--loss-by", what));
        }
        if point.loss_by.is_iptables() {
            let ways = point.network.paths.iter().flat_map(|path| [&path.up.loss, &path.down.loss]);
            for loss in ways {
                // `rules::mode` checks whether iptables can express the loss model. The result does not depend on the
                // seed, so any seed will do.
                rules::mode(loss, 0, point.one_host).map_err(|why| {
                    PlanError::at("--loss-by", format!("iptables cannot do loss {loss}: {why}"))
                })?;
            }
        }
    }
    for contestant in &plan.contestants {
        if contestant.cost != Default::default() {
            return refuse(&contestant.place, "a processor's cost");
        }
        if contestant.transport.in_emulation().is_none() {
            return refuse(&contestant.place, "a transport that runs there only");
        }
        if !contestant.transport.is_kernel_only() && contestant.transport.is_kernel_in_emulation() {
            check_kernel_keys(contestant)?;
        }
        let most =
            contestant.paths.unwrap_or(plan.points.iter().map(|p| p.network.paths.len()).max().unwrap_or(1));
        if contestant.is_kernels_multipath() && most > MAX_SUBFLOWS + 1 {
            let what = format!("a connection has {} subflows at most: write paths=N", MAX_SUBFLOWS + 1);
            return Err(PlanError::at(&contestant.place, what));
        }
    }
    Ok(())
}

/// Checks that this machine has everything that the plan needs.
///
/// # Errors
/// One line that says what is missing.
pub fn possible(plan: &Plan) -> Result<(), String> {
    if plan.points.iter().any(|point| point.loss_by.is_iptables()) {
        rules::possible().map_err(|error| error.to_string())?;
    }
    for contestant in &plan.contestants {
        let Some(options) = hosts::kernel_options(contestant) else { continue };
        let namespace = Namespace::create().map_err(|error| error.to_string())?;
        let asked =
            namespace.run(|| options.check_supported(SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), 0)));
        asked.map_err(|error| error.to_string())?.map_err(|why| format!("{}: {why}", contestant.text))?;
    }
    Ok(())
}

/// Rejects keys that the kernel cannot apply. Called for contestants that use the kernel's protocol instead of our
/// engine.
fn check_kernel_keys(contestant: &Contestant) -> Result<(), PlanError> {
    let spec = contestant.spec();
    let given = spec.split_once(':').map_or("", |(_, keys)| keys);
    let name = contestant.transport.name().to_uppercase();
    for key in given.split(',').filter_map(|pair| pair.split('=').next()).filter(|key| !key.is_empty()) {
        // The kernel cannot apply `profile`, because a profile is a named set of knobs of our engine.
        let client = contestant::CONTESTANT_KEYS.iter().any(|own| own.name == key && key != "profile");
        if key != "cc" && !client {
            let what = match key {
                "profile" => format!("'profile={}' is a set of knobs of our {name}", contestant.profile),
                _ => format!("'{key}' is a knob of our {name}"),
            };
            let what = format!("{what}; in the emulated world the kernel's runs, which takes cc");
            return Err(PlanError::at(&contestant.place, what));
        }
    }
    Ok(())
}

/// The settings that a plan may give a contestant that uses the kernel's TCP.
const KERNEL_KEYS: [&str; 18] = [
    "transport",
    "connections",
    "objects-per-connection",
    "pipeline",
    "http",
    "windows",
    "stream-window",
    "connection-window",
    "frame",
    "concurrent",
    "tls",
    "resume",
    "chain",
    "group",
    "cipher",
    "cc",
    "paths",
    "profile",
];
#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Draft;
    use anabranch_transports::Transports;

    #[test]
    fn what_the_kernel_does_not_take_is_refused() {
        let checked = |transport: &str| {
            let draft = Draft::from_flags([("transport", transport), ("runs", "1"), ("world", "emulated")])
                .expect("flags");
            check(&Plan::interpret(draft, &Transports::standard()).expect("a plan"))
        };
        for (transport, reason) in [
            (
                "tcp:profile=reno-2002",
                "'profile=reno-2002' is a set of knobs of our TCP; in the emulated world",
            ),
            ("tcp:cc=cubic,profile=modern", "'profile=modern' is a set of knobs of our TCP"),
            ("tcp:iw=4", "'iw' is a knob of our TCP"),
            ("tcp:packet-cost=1us", "a processor's cost is for the virtual world"),
        ] {
            let line = checked(transport).expect_err(transport).to_string();
            assert!(line.contains(transport) && line.contains(reason), "{transport}: {line}");
        }
        for transport in
            ["tcp:cc=reno,connections=2,pipeline=no,http=1", "sctp:profile=modern", "mptcp:profile=kernel"]
        {
            checked(transport).expect(transport);
        }
    }

    /// The emulated network must accept a page with a plain client whose hosts are merged into one server. The command
    /// `reality` races such pages in both networks. Several servers must be refused.
    #[test]
    fn a_page_of_the_virtual_world_states_one_server() {
        let checked = |flags: &[(&'static str, &'static str)]| {
            let given = [("page", "news"), ("transport", "tcp"), ("runs", "1")];
            let draft = Draft::from_flags(given.iter().chain(flags).copied()).expect("flags");
            check(&Plan::interpret(draft, &Transports::standard()).expect("a plan"))
        };
        checked(&[("client", "plain"), ("origins", "merge"), ("variation", "none")]).expect("one server");
        let line = checked(&[]).expect_err("several servers").to_string();
        assert_eq!(line, "--origins: keep: each host has a server in the virtual world only; write merge");
    }
}
