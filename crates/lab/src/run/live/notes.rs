//! Notes about an emulated race. Each note is one line among the warnings in the result.

use crate::plan::Plan;
use anabranch_results::{Contestant, Directions, Multipath, Outcome, Race, Rules, Run};

/// Returns all notes about a race.
pub fn of(race: &Race, plan: &Plan) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for remark in
        plan.contestants.iter().filter_map(|contestant| contestant.transport.in_emulation()?.remark())
    {
        if !lines.iter().any(|line| line == remark) {
            lines.push(remark.to_owned());
        }
    }
    let points = race.points.len();
    for (number, point) in race.points.iter().enumerate() {
        // The factor levels distinguish the notes about different points.
        let factors: Vec<_> = point.factors.iter().map(|(key, value)| format!("{key} {value}")).collect();
        let place = if points > 1 { format!(" ({})", factors.join(", ")) } else { String::new() };
        for (contestant, planned) in point.contestants.iter().zip(&plan.contestants) {
            let name = format!("{}{place}", contestant.name);
            lines.extend(failed(&name, contestant));
            let late: Vec<_> = contestant.runs.iter().filter_map(|run| run.late_ns).collect();
            lines.extend(disturbed(&name, &late));
            if planned.is_kernels_multipath() {
                let runs: Vec<_> = contestant.runs.iter().filter_map(|run| run.multipath).collect();
                lines.extend(multipath(&name, &runs));
            }
            let runs: Vec<_> = contestant.runs.iter().filter_map(|run| run.rules).collect();
            lines.extend(ruled(&name, &runs));
        }
        let ruled =
            point.contestants.iter().flat_map(|contestant| &contestant.runs).any(|run| run.rules.is_some());
        if ruled && number + 1 == points {
            lines.push(BEHIND.to_owned());
        }
    }
    let kernels = plan.contestants.iter().any(|contestant| contestant.transport.is_kernel_in_emulation());
    if kernels && plan.points.iter().any(|point| point.one_host) {
        lines.push(BOTH_ENDS.to_owned());
    }
    lines
}

/// Returns how many runs of a contestant did not finish, and why; `None` if all runs finished.
fn failed(name: &str, contestant: &Contestant) -> Option<String> {
    let failed: Vec<_> = contestant.runs.iter().filter(|run| run.outcome != Outcome::Done).collect();
    let run = failed.first()?;
    let whys: Vec<_> = run.objects.iter().filter_map(|object| object.failure.as_deref()).collect();
    let first = whys.first().copied().unwrap_or("no reason was given");
    Some(format!(
        "{name}: {} of {} runs did not finish; seed {}, {} of {} objects: {first}",
        failed.len(),
        contestant.runs.len(),
        run.seed,
        whys.len(),
        run.objects.len()
    ))
}

/// Reports in how many runs this machine was too busy to measure well. `late` has one value for each run: the longest
/// time in nanoseconds by which a packet left a link too late.
fn disturbed(name: &str, late: &[u64]) -> Option<String> {
    let count = late.iter().filter(|&&late| late > Run::DISTURBING_NS).count();
    let latest = *late.iter().max()?;
    (count > 0).then(|| {
        format!(
            "{name}: in {count} of {} runs packets left the links more than {} ms late, {:.1} ms at most: this machine \
             was busy; fewer runs at a time (--threads) disturb each other less",
            late.len(),
            Run::DISTURBING_NS / 1_000_000,
            latest as f64 / 1e6
        )
    })
}

/// Reports how many Multipath TCP connections fell back to plain TCP.
fn multipath(name: &str, runs: &[Multipath]) -> Option<String> {
    let connections: u64 = runs.iter().map(|run| run.connections).sum();
    let Some(fallbacks) = runs.iter().map(|run| run.fallbacks).sum::<Option<u64>>() else {
        return Some(format!("{name}: it is unknown whether its connections fell back to plain TCP"));
    };
    let within = runs.iter().filter(|run| run.fallbacks.is_some_and(|count| count > 0)).count();
    (!runs.is_empty()).then(|| match fallbacks {
        0 => format!("{name}: none of {connections} connections fell back to plain TCP"),
        _ => format!(
            "{name}: {fallbacks} of {connections} connections fell back to plain TCP, in {within} of {} runs: these \
             figures are not those of Multipath TCP alone",
            runs.len()
        ),
    })
}

/// Reports how many packets the iptables rules examined and dropped.
fn ruled(name: &str, runs: &[Directions<Rules>]) -> Option<String> {
    if runs.is_empty() {
        return None;
    }
    let sum = |of: fn(&Directions<Rules>) -> Rules| {
        runs.iter().map(of).fold(Rules::default(), |sum, way| Rules {
            packets: sum.packets + way.packets,
            dropped: sum.dropped + way.dropped,
        })
    };
    let (up, down) = (sum(|rules| rules.up), sum(|rules| rules.down));
    let way = |which: &str, way: Rules| match way.packets {
        0 => format!("{which} no packet reached a rule"),
        packets => format!("{which} {} of {packets} packets dropped", way.dropped),
    };
    Some(format!("{name}: loss by iptables: {}, {}", way("up", up), way("down", down)))
}

/// A note for results with iptables rules, which drop packets only after the links.
const BEHIND: &str = "iptables drops packets after the links: captures still show dropped packets, and the \
                      kernel's random numbers do not follow the seed";

/// The note for the kernel's protocols if one host is both the client and the server.
const BOTH_ENDS: &str = "with one host, all retransmissions of the kernel's protocols are counted as down";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fallbacks_are_counted_over_runs() {
        let line = |runs: &[(u64, Option<u64>)]| {
            let runs: Vec<_> =
                runs.iter().map(|&(connections, fallbacks)| Multipath { connections, fallbacks }).collect();
            multipath("mptcp", &runs).unwrap_or_default()
        };
        assert_eq!(
            line(&[(1, Some(0)), (2, Some(0))]),
            "mptcp: none of 3 connections fell back to plain TCP"
        );
        let runs = line(&[(1, Some(1)), (2, Some(0)), (2, Some(2))]);
        assert!(
            runs.starts_with("mptcp: 3 of 5 connections fell back to plain TCP, in 2 of 3 runs: "),
            "{runs}"
        );
        assert!(line(&[(1, None)]).contains("it is unknown"));
        assert_eq!(line(&[]), "");
    }

    #[test]
    fn a_busy_machine_is_told() {
        let line = disturbed("tcp", &[100_000, 2_000_000, 8_940_000, 2_100_000]).unwrap_or_default();
        assert!(
            line.starts_with(
                "tcp: in 2 of 4 runs packets left the links more than 2 ms late, 8.9 ms at most"
            ),
            "{line}"
        );
        assert_eq!((disturbed("tcp", &[1_999_999]), disturbed("tcp", &[])), (None, None));
    }

    #[test]
    fn rules_that_matched_nothing_are_told() {
        let way = |packets, dropped| Rules { packets, dropped };
        let runs = [(10, 1), (20, 2)]
            .map(|(packets, dropped)| Directions { up: way(packets, dropped), down: Rules::default() });
        assert_eq!(
            ruled("tcp", &runs).as_deref(),
            Some("tcp: loss by iptables: up 3 of 30 packets dropped, down no packet reached a rule")
        );
        assert_eq!(ruled("tcp", &[]), None);
    }
}
