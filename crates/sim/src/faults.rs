//! Changes of the network at scheduled times.
//!
//! The outages in a link's description (`LinkSpec::fail`) happen inside the link. A [`NetworkChange`] affects a whole
//! link or the addresses of an interface. The change happens at a scheduled time (`Network::schedule`) or immediately
//! (`Network::change`). [`random_link`] creates links with faults that the seed chooses, for tests over many seeds.

use crate::ids::{InterfaceId, LinkId};
use anabranch_base::time::Duration;
use anabranch_base::{Instant, Rng};
use anabranch_link::spec::Direction;
use anabranch_link::{LinkSpec, PathOutage};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// A change of a link or of an interface's addresses during a run.
#[derive(Clone, PartialEq, Debug)]
pub enum NetworkChange {
    /// The link is cut in both directions. Packets that enter the link are lost, and so are packets that would leave it
    /// while it is down.
    Down(LinkId),
    /// One direction of the link is cut, as by `Down`.
    DirectionDown(LinkId, Direction),
    /// The link works again in both directions.
    Up(LinkId),
    /// One direction of the link works again.
    DirectionUp(LinkId, Direction),
    /// The link gets another description: rate, delay, queue, loss and so on. Packets that are already inside the link
    /// leave as they would have left before the change.
    Respec(LinkId, Box<LinkSpec>),
    /// The interface gets a further address.
    AddAddress(InterfaceId, IpAddr),
    /// The interface loses this address.
    RemoveAddress(InterfaceId, IpAddr),
    /// The addresses of this interface become the first ones in the host's list. A program that uses only one address
    /// uses the first.
    Prefer(InterfaceId),
}

/// Scheduled changes of the network, ordered by time and then in the order in which they were scheduled.
#[derive(Debug, Default)]
pub(crate) struct Changes {
    due: BTreeMap<(Instant, u64), NetworkChange>,
    count: u64,
}

impl Changes {
    pub(crate) fn add(&mut self, at: Instant, change: NetworkChange) {
        self.due.insert((at, self.count), change);
        self.count += 1;
    }

    pub(crate) fn next(&self) -> Option<Instant> {
        self.due.first_key_value().map(|((at, _), _)| *at)
    }

    pub(crate) fn take(&mut self, now: Instant) -> Option<NetworkChange> {
        let first = self.due.first_entry()?;
        if first.key().0 > now { None } else { Some(first.remove()) }
    }
}

/// Returns the changes that cut `link` at the time `at`. Unless the outage is permanent (`span` is `None`), a change
/// restores the link after `span`.
pub(crate) fn outage(link: LinkId, at: Instant, span: Option<Duration>) -> Vec<(Instant, NetworkChange)> {
    let mut changes = vec![(at, NetworkChange::Down(link))];
    if let Some(span) = span {
        changes.push((at + span, NetworkChange::Up(link)));
    }
    changes
}

/// Creates a link for tests over many seeds. Each kind of fault is absent from about half of these links and strong in
/// the rest. Some seeds therefore test a single fault, and others a combination (Groce et al., "Swarm Testing", 2012).
#[must_use]
pub fn random_link(rng: &mut Rng) -> LinkSpec {
    let one_of = |rng: &mut Rng, values: &[&'static str]| values[rng.below(values.len() as u64) as usize];
    let mut settings = vec![
        format!("rate={}", one_of(rng, &["64kbit", "1mbit", "10mbit", "100mbit", "unlimited"])),
        format!("delay={}", one_of(rng, &["0ms", "1ms", "20ms", "300ms"])),
        format!("mtu={}", one_of(rng, &["1500", "1500", "1280", "9000"])),
    ];
    let delay_is_long = ["20ms", "300ms"].iter().any(|delay| settings[1].ends_with(delay));
    for (fault, values) in FAULTS {
        let (on, value) = (rng.below(2) == 0, one_of(rng, values));
        if on && (*fault != "jitter" || delay_is_long) {
            settings.push(format!("{fault}={value}"));
        }
    }
    let Ok(mut spec) = LinkSpec::parse(&settings.join(",")) else {
        panic!("every combination is a link: {settings:?}")
    };
    if rng.below(2) == 0 {
        let mut at = Duration::ZERO;
        for _ in 0..=rng.below(5) {
            at += rng.duration_up_to(Duration::from_secs(5));
            let span = rng.duration_up_to(Duration::from_secs(3));
            spec.fail(&PathOutage { path: 1, at, span: Some(span) });
            at += span;
        }
    }
    spec
}

/// The faults of [`random_link`], with their values.
const FAULTS: &[(&str, &[&str])] = &[
    ("loss", &["1%", "10%", "30%", "ge:1%/30%", "ge:5%/20%", "nth:7", "list:1/2/3/5/8"]),
    ("queue", &["1p", "3p", "10p", "200p", "1bdp"]),
    ("reorder", &["1%", "10%", "30%"]),
    ("duplicate", &["1%", "10%", "30%"]),
    ("corrupt", &["1%", "10%", "30%"]),
    ("jitter", &["1ms", "10ms", "20ms"]),
];

#[cfg(test)]
mod tests {
    use super::FAULTS;
    use anabranch_link::ROWS;

    #[test]
    fn every_impairment_is_a_fault_or_has_a_reason() {
        // Every random link sets the keys in `always`. The keys in `others` are not faults: they describe how packets
        // share the medium and the queue, or they are abbreviations that set other keys.
        let always = ["rate", "delay", "mtu"];
        let others = ["overhead", "packet-time", "aqm", "ecn", "half-duplex", "rtt", "trace", "preset"];
        for row in ROWS {
            let is_fault = FAULTS.iter().any(|(fault, _)| *fault == row.key);
            assert!(is_fault != (always.contains(&row.key) || others.contains(&row.key)), "{}", row.key);
        }
    }
}
