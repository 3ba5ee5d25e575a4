//! Random choice of local ports for associations that this side begins.
//!
//! An attacker who cannot see an association's packets should not be able to guess its ports (RFC 5062, RFC 6056 §2).
//! An attack with an INIT, ABORT or ICMP message needs both ports. Recently used ports are avoided, because the peer
//! may still be shutting down the association that used them (RFC 9260 §9.2).
//!
//! Implements RFC 6056 §3.3.2 (simple port randomization).

use anabranch_base::Rng;
use std::collections::VecDeque;

/// RFC 6335 §6: the range of dynamic ports.
const FIRST: u16 = 49_152;
const COUNT: u16 = u16::MAX - FIRST + 1;

/// The number of recently chosen ports to avoid. Such a port is chosen again only if no other port is free.
const MAX_RECENT: usize = 1_024;

/// The number of ports that are tried at random before all ports are tried in order.
const TRIES: usize = 16;

/// Chooses ephemeral ports.
#[derive(Debug)]
pub(super) struct Ephemeral {
    rng: Rng,
    recent: VecDeque<u16>,
}

impl Ephemeral {
    pub(super) fn new(rng: Rng) -> Self {
        Self { rng, recent: VecDeque::new() }
    }

    /// Returns a port for which `free` returns true, or `None` if there is no such port.
    pub(super) fn choose(&mut self, free: impl Fn(u16) -> bool) -> Option<u16> {
        let port = self.draw(free)?;
        if self.recent.len() >= MAX_RECENT {
            self.recent.pop_front();
        }
        self.recent.push_back(port);
        Some(port)
    }

    fn draw(&mut self, free: impl Fn(u16) -> bool) -> Option<u16> {
        for _ in 0..TRIES {
            let port = FIRST + self.rng.below(u64::from(COUNT)) as u16;
            if free(port) && !self.recent.contains(&port) {
                return Some(port);
            }
        }
        // RFC 6056 §3.3.1: nearly all ports are taken, so take the first free port after a random start. If only
        // recently used ports are free, take one of these.
        let first = self.rng.below(u64::from(COUNT)) as u16;
        let all = || (0..COUNT).map(|n| FIRST + (first + n) % COUNT).filter(|&port| free(port));
        all().find(|port| !self.recent.contains(port)).or_else(|| all().next())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn ephemeral(seed: u64) -> Ephemeral {
        Ephemeral::new(Rng::new(seed))
    }

    /// Successively chosen ports are unrelated, but two generators with the same seed choose the same ports.
    #[test]
    fn ports_are_random() {
        let (mut one, mut same) = (ephemeral(1), ephemeral(1));
        let ports: Vec<u16> = (0..1_000).map(|_| one.choose(|_| true).expect("free")).collect();
        assert!(ports.iter().all(|&port| port >= FIRST && Some(port) == same.choose(|_| true)));
        for step in [1, 2, -1, 0] {
            let follows = |pair: &&[u16]| i32::from(pair[1]) - i32::from(pair[0]) == step;
            let following = ports.windows(2).filter(follows).count();
            assert!(following < 5, "{following} of 1,000 lie {step} beyond the last");
        }
        for bit in 0..14 {
            let ones = ports.iter().filter(|&port| port >> bit & 1 == 1).count();
            assert!((420..580).contains(&ones), "bit {bit}: {ones}");
        }
    }

    /// A port is chosen again only after about a thousand other ports.
    #[test]
    fn a_port_rests_after_its_use() {
        let mut ephemeral = ephemeral(2);
        let ports: Vec<u16> = (0..20_000).map(|_| ephemeral.choose(|_| true).expect("free")).collect();
        for (at, port) in ports.iter().enumerate() {
            assert!(!ports[at.saturating_sub(MAX_RECENT)..at].contains(port), "{port} at {at}");
        }
    }

    /// Ports are chosen until no port is left. Each port is chosen exactly once.
    #[test]
    fn all_ports_can_be_had() {
        let mut ephemeral = ephemeral(3);
        let mut taken = BTreeSet::new();
        for _ in 0..COUNT {
            let port = ephemeral.choose(|port| !taken.contains(&port)).expect("one is left");
            assert!(taken.insert(port));
        }
        assert_eq!(ephemeral.choose(|port| !taken.contains(&port)), None);
        // With all other ports taken, a port that becomes free is chosen at once, even if it was used recently.
        taken.remove(&60_000);
        assert_eq!(ephemeral.choose(|port| !taken.contains(&port)), Some(60_000));
    }
}
