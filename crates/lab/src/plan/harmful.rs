//! Rules that detect settings with which a contestant harms its own performance. A rule considers the settings of both
//! hosts, the path and the workload. Each rule that applies is reported in one line next to the result. No plan is
//! rejected, because such a setting may be intended.

use super::{Contestant, PointPlan, Workload};
use anabranch_base::Bytes;
use anabranch_base::time::{Duration, nanos};
use anabranch_base::units::{format_duration, parse_duration};
use anabranch_link::LinkSpec;
use std::borrow::Borrow;
use std::collections::BTreeMap;

/// A rule that detects settings with which a contestant harms its own performance.
pub struct Rule {
    /// A short name of the settings that the rule examines.
    pub about: &'static str,
    /// Returns what is wrong and what to write instead, or `None` if the rule does not apply.
    hurts: fn(&HostSettings<'_>) -> Option<String>,
}

/// All rules that detect harmful settings.
pub const RULES: &[Rule] = &[
    Rule {
        about: "rto_min below the peer's delack",
        hurts: |ends| {
            let (rto, delay) = (ends.span("rto_min")?, ends.span("delack")?);
            let least = rto.max(ends.span("rto_var_min").unwrap_or(Duration::ZERO));
            (least < delay).then(|| {
                let [rto, delay] = [rto, delay].map(format_duration);
                format!(
                    "rto_min={rto} is below the peer's delack={delay}: a packet may be sent again while its \
                     acknowledgement waits; write delack={rto} or less"
                )
            })
        },
    },
    Rule {
        about: "rto_initial below the round trip",
        hurts: |ends| below_round_trip(ends, "rto_initial", "the first packet is always sent again"),
    },
    Rule {
        about: "rto_max below the round trip",
        hurts: |ends| below_round_trip(ends, "rto_max", "what the timer sends again was not late"),
    },
    Rule { about: "rcvbuf below a bandwidth-delay product", hurts: |ends| below_product(ends, "rcvbuf") },
    Rule { about: "sndbuf below a bandwidth-delay product", hurts: |ends| below_product(ends, "sndbuf") },
    Rule {
        about: "Nagle with delayed acknowledgements, where answers are awaited",
        hurts: |ends| {
            let (nagle, delay) = (ends.text("nagle")?, ends.span("delack")?);
            let asks = ends.workload.bulk.is_none() || ends.workload.messages.is_some();
            (nagle == "yes" && !delay.is_zero() && asks).then(|| {
                format!(
                    "nagle=yes with the peer's delack={}: the last small packet of a message waits for an \
                     acknowledgement that waits itself; write nagle=no or delack=0",
                    format_duration(delay)
                )
            })
        },
    },
    Rule {
        about: "ack_every above the initial window",
        hurts: |ends| {
            let (every, window) = (ends.number("ack_every")?, ends.number("iw")?);
            let delay = ends.span("delack").filter(|delay| !delay.is_zero())?;
            (every > window).then(|| {
                format!(
                    "ack_every={every} is above iw={window}: the first packets wait {} for their acknowledgement; write \
                     ack_every={window} or less",
                    format_duration(delay)
                )
            })
        },
    },
    Rule {
        about: "an association that ends before a path is declared failed",
        hurts: |ends| {
            let (all, one) = (ends.number("assoc_max_retrans")?, ends.number("path_max_retrans")?);
            (ends.paths > 1 && all < one).then(|| {
                format!(
                    "assoc_max_retrans={all} is below path_max_retrans={one}: the association ends before another path \
                     is tried; write assoc_max_retrans={} or more",
                    one * ends.paths as u64
                )
            })
        },
    },
    Rule {
        about: "a timeout of objects below rto_min",
        hurts: |ends| {
            let (rto, timeout) = (ends.span("rto_min")?, ends.workload.timeout?);
            (timeout < rto).then(|| {
                let [rto, timeout] = [rto, timeout].map(format_duration);
                format!("--timeout {timeout} is below rto_min={rto}: an object fails before its loss can be repaired")
            })
        },
    },
];

/// The settings that both hosts of a contestant use, and the path between the hosts.
struct HostSettings<'a> {
    settings: &'a BTreeMap<String, String>,
    connections: u64,
    /// The network path with the largest bandwidth-delay product.
    path: &'a LinkSpec,
    paths: usize,
    workload: &'a Workload,
}

impl HostSettings<'_> {
    fn text(&self, key: &str) -> Option<&str> {
        self.settings.get(key).map(String::as_str)
    }

    fn span(&self, key: &str) -> Option<Duration> {
        parse_duration(self.text(key)?).ok()
    }

    fn bytes(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse::<Bytes>().ok().map(|size| size.0)
    }

    fn number(&self, key: &str) -> Option<u64> {
        self.text(key)?.parse().ok()
    }
}

fn below_round_trip(ends: &HostSettings<'_>, key: &str, then: &str) -> Option<String> {
    let (rto, trip) = (ends.span(key)?, ends.path.rtt());
    (rto < trip).then(|| {
        let [rto, trip] = [rto, trip].map(format_duration);
        format!("{key}={rto} is below the round trip of {trip}: {then}; write more than {trip}")
    })
}

/// Returns a warning if the window setting `key` is smaller than a connection's share of the bandwidth-delay product,
/// so that the connection cannot fill the path. A window that holds all data of the workload needs no warning.
fn below_product(ends: &HostSettings<'_>, key: &str) -> Option<String> {
    let (buffer, rate) = (ends.bytes(key)?, ends.path.down.mean_rate()?);
    let product = rate.bytes_in(ends.path.rtt());
    let share = product / ends.connections.max(1);
    (buffer < share && buffer < ends.workload.page.body_bytes()).then(|| {
        let (trip, most) = (format_duration(ends.path.rtt()), Bytes(product));
        let reached = u128::from(buffer) * u128::from(ends.connections) * 8 * 1_000_000_000;
        let reached = reached / u128::from(nanos(ends.path.rtt()).max(1));
        format!(
            "{key}={} is below the {most} that {rate} and {trip} hold: no more than {:.3} Mbit/s can flow; write {key}={}",
            Bytes(buffer),
            reached as f64 / 1e6,
            Bytes(share.max(1).next_multiple_of(1000))
        )
    })
}

/// Returns the rules about harmful settings that apply to a contestant. Each rule comes with its warning at the first
/// point of the plan to which it applies.
pub(super) fn warnings_for<P: Borrow<PointPlan>>(
    contestant: &Contestant,
    points: impl Iterator<Item = P> + Clone,
) -> Vec<(&'static str, String)> {
    let Some(first) = points.clone().next() else { return Vec::new() };
    let Ok(policy) = contestant.policy(first.borrow().workload.arrivals.is_some()) else { return Vec::new() };
    let settings = contestant.settings(&policy);
    let product = |link: &&LinkSpec| link.down.mean_rate().map_or(0, |rate| rate.bytes_in(link.rtt()));
    let mut said: Vec<Option<String>> = vec![None; RULES.len()];
    for point in points {
        let point = point.borrow();
        let Some(path) = point.network.paths.iter().max_by_key(product) else { continue };
        let ends = HostSettings {
            settings: &settings,
            connections: contestant.connections() as u64,
            path,
            paths: contestant.paths.unwrap_or(point.network.paths.len()),
            workload: &point.workload,
        };
        for (rule, said) in RULES.iter().zip(&mut said).filter(|(_, said)| said.is_none()) {
            *said = (rule.hurts)(&ends);
        }
    }
    RULES.iter().zip(said).filter_map(|(rule, said)| Some((rule.about, said?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Draft, Plan};
    use anabranch_transports::Transports;

    /// Plans with harmful settings, at least one for each rule.
    const EXAMPLES: &[(&str, &[(&str, &str)])] = &[
        ("rto_min below the peer's delack", &[("transport", "sctp:rto_min=30ms,rto_var_min=0ms")]),
        ("rto_initial below the round trip", &[("transport", "tcp:rto_initial=50ms")]),
        ("rto_max below the round trip", &[("transport", "tcp:rto_max=70ms,rto_min=10ms,rto_initial=70ms")]),
        ("rcvbuf below a bandwidth-delay product", &[("transport", "sctp:rcvbuf=16KiB")]),
        ("sndbuf below a bandwidth-delay product", &[("transport", "sctp:sndbuf=16KiB")]),
        ("Nagle with delayed acknowledgements, where answers are awaited", &[("transport", "tcp:nagle=yes")]),
        ("ack_every above the initial window", &[("transport", "sctp:ack_every=20,iw=10")]),
        (
            "an association that ends before a path is declared failed",
            &[
                ("path", "rate=10mbit,rtt=40ms"),
                ("path", "rate=10mbit,rtt=40ms"),
                ("transport", "sctp:paths=2,assoc_max_retrans=4"),
            ],
        ),
        ("a timeout of objects below rto_min", &[("transport", "sctp:rto_min=1s"), ("timeout", "500ms")]),
    ];

    fn plan(flags: &[(&str, &str)]) -> Plan {
        Draft::from_flags(flags.iter().copied())
            .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
            .expect("a plan")
    }

    #[test]
    fn each_rule_speaks_of_its_example_and_the_defaults_hurt_nowhere() {
        for rule in RULES {
            let example = EXAMPLES.iter().find(|(about, _)| *about == rule.about);
            let plan = plan(example.unwrap_or_else(|| panic!("{}: no example", rule.about)).1);
            let told = warnings_for(&plan.contestants[0], plan.points.iter());
            let said = told.iter().find(|(about, _)| *about == rule.about);
            let (_, said) = said.unwrap_or_else(|| panic!("{}: silent", rule.about));
            let warnings = plan.warnings();
            assert!(warnings.iter().any(|warning| warning.ends_with(said)), "{warnings:?}");
        }
        for flags in [&[][..], &[("messages", "100/s")], &[("bulk", "5MB"), ("rate", "1mbit")]] {
            assert_eq!(plan(flags).warnings(), Vec::<String>::new(), "{flags:?}");
        }
    }

    #[test]
    fn what_is_sent_by_several_or_not_much_of_it_needs_no_large_buffer() {
        let warned = |flags: &[(&str, &str)]| plan(flags).warnings().len();
        let small = ("transport", "sctp:rcvbuf=50KiB");
        assert_eq!(warned(&[small]), 1);
        assert_eq!(warned(&[("transport", "sctp:rcvbuf=50KiB,connections=6")]), 0);
        assert_eq!(warned(&[small, ("objects", "2x10kB")]), 0);
        assert_eq!(warned(&[small, ("rate", "1mbit")]), 0);
        assert_eq!(warned(&[small, ("rate", "10mbit,20mbit,40mbit")]), 1, "once for all points");
    }
}
