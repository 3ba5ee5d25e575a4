//! The faults in a storm: of packets, of networks, and of hosts.

use crate::choices::{on, pick};
use crate::net::{self, A, Flight, Narrow, Net};
use crate::work::Work;
use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Instant, Ratio, Rng};
use anabranch_sctp::{AssociationState, Config, Endpoint};

/// The faults of the network, which the seed chooses.
pub(crate) struct Faults {
    pub(crate) rng: Rng,
    pub(crate) loss: Ratio,
    pub(crate) duplicate: Ratio,
    pub(crate) corrupt: Ratio,
    pub(crate) reorder: Ratio,
    pub(crate) reorder_by: Duration,
    pub(crate) mark: Ratio,
    pub(crate) jitter: Duration,
    /// The intervals in which a network loses every packet. Network 0 stands for all networks.
    pub(crate) outages: Vec<(Instant, Instant, usize)>,
    /// From this time on, every packet arrives, so that the storm can end.
    pub(crate) faults_end: Instant,
}

impl Faults {
    pub(crate) fn fate(&mut self, now: Instant, flight: &Flight) -> Vec<(Duration, Flight)> {
        let n = net::network(flight.target.ip());
        let m = net::network(flight.source.ip());
        let out = self
            .outages
            .iter()
            .any(|&(from, to, which)| (from..to).contains(&now) && (which == 0 || which == n || which == m));
        if out {
            return Vec::new();
        }
        let rng = &mut self.rng;
        if now >= self.faults_end {
            return vec![(Duration::ZERO, flight.clone())];
        }
        if rng.chance(self.loss) {
            return Vec::new();
        }
        let mut copies = vec![(rng.duration_up_to(self.jitter), flight.clone())];
        if rng.chance(self.duplicate) {
            copies.push((rng.duration_up_to(Duration::from_millis(300)), flight.clone()));
        }
        for (delay, copy) in &mut copies {
            if rng.chance(self.reorder) {
                *delay += rng.duration_up_to(self.reorder_by);
            }
            if rng.chance(self.corrupt) {
                let at = rng.below(copy.bytes.len() as u64) as usize;
                copy.bytes[at] ^= 1 << rng.below(8);
            }
            if copy.ecn != Ecn::NotEct && rng.chance(self.mark) {
                copy.ecn = Ecn::Ce;
            }
        }
        copies
    }
}

/// A reduction of a network's MTU at some time.
#[derive(Clone, Copy)]
pub(crate) struct Narrowing {
    pub(crate) network: usize,
    pub(crate) at: Instant,
    pub(crate) to: Narrow,
}

impl Narrowing {
    /// Chooses how each side discovers MTUs, and whether the MTU of one network drops. If both sides use probes, also
    /// chooses whether this network sends ICMP messages.
    pub(crate) fn of(mut rng: Rng, configs: &mut [Config; 2], networks: usize) -> Option<Self> {
        let mut silent = true;
        for config in configs {
            let probes = on(&mut rng);
            silent &= probes;
            config.set("pmtud", if probes { "plpmtud" } else { "icmp" }).expect("a knob");
        }
        let mtu = pick(&mut rng, &[600, 1_000, 1_280, 1_400]);
        let to = Narrow { mtu, sends_icmp: !silent || on(&mut rng) };
        let network = 1 + rng.below(networks as u64) as usize;
        let at = Instant::from_millis(rng.below(10_000));
        on(&mut rng).then_some(Self { network, at, to })
    }
}

/// The reboot of host A, which happens at most once. Afterwards, host A connects again from the same port.
pub(crate) struct Reboot {
    pub(crate) rng: Rng,
    pub(crate) at: Option<Instant>,
    pub(crate) done: bool,
}

impl Reboot {
    /// Chooses the time of the reboot, if any. Enables all extensions in every fourth storm.
    pub(crate) fn of(mut rng: Rng, configs: &mut [Config; 2]) -> Self {
        let everything = rng.below(4) == 0;
        for config in configs {
            let mut set = |key: &str, value: &str| config.set(key, value).expect("a knob");
            if everything {
                for key in ["auth", "asconf", "interleaving", "partial_reliability", "reconfig"] {
                    set(key, "yes");
                }
                set("pmtud", "plpmtud");
                set("pf_max_retrans", "0");
                set("primary_switch", "0");
                set("adaptation", "7");
            }
            if everything || rng.below(6) == 0 {
                set("zero_checksum", "yes");
            }
        }
        let at = (rng.below(6) == 0).then(|| Instant::from_millis(rng.below(15_000)));
        Self { rng, at, done: false }
    }

    /// Reboots A's host if the time of the reboot has come.
    pub(crate) fn happen(&mut self, net: &mut Net, config: &Config, networks: usize, work: &mut Work) {
        if self.at.take_if(|at| *at <= net.now).is_none() {
            return;
        }
        let end = &net.ends[A as usize];
        let info = end.ids.last().and_then(|&id| end.engine.info(id));
        let Some(info) = info.filter(|info| info.state != AssociationState::Closed) else {
            return;
        };
        self.done = true;
        let addresses = (1..=networks).map(|n| net::address(A, n)).collect();
        net.reboot(A, Endpoint::new(config.clone(), addresses, self.rng.fork("reboot")));
        net.associate_from(A, 1, Some(info.local_port), net::PORT);
        // The reboot loses the messages that A sent before. After the reboot, A sends the remaining messages.
        work.requested = false;
    }
}
