//! Loss by the kernel's packet filter: iptables with its match `statistic`.
//!
//! A rule drops every n-th packet, or each packet with a probability. The project generated loss by these rules before
//! it had emulated links. Hosts that cannot have emulated links still use the rules.
//!
//! The caller chooses the host on which the rules drop packets ([`HookPoint`]). On the receiving host (INPUT), a packet
//! has taken up link capacity before a rule drops it, as if the link itself had lost it. On the sending host (OUTPUT),
//! the kernel reports each loss to the sender.
//!
//! In front of each rule, another rule only counts packets, so that drops can be compared with arrivals. Packets are
//! counted as hosts see them, with IP fragments already reassembled.

use crate::EmuError;
use crate::netns::Namespace;
use crate::wiring::{LinkEnd, Wiring};
use anabranch_link::spec::{Direction, LossSpec};
use anabranch_link::{DirectionSpec, LinkSpec};
use std::io;
use std::process::{Command, Stdio};

/// The packet counts of two rules: a rule that drops packets, and the rule in front of it that only counts packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RuleCounts {
    /// The number of packets that reached the rules.
    pub packets: u64,
    /// The number of packets that the rules dropped.
    pub dropped: u64,
}

/// The installed rules for the links of a `Wiring`.
#[derive(Debug)]
pub struct LossRules {
    /// The indices of the links that have rules in the up direction, and those with rules in the down direction. Both
    /// lists are in the order of the kernel's rules.
    ruled_links: [Vec<usize>; 2],
    links: usize,
    /// Whether a single rule drops the packets of both directions. If so, there is only one link.
    is_shared: bool,
    hook: HookPoint,
}

/// Where on the path of a packet the rules apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum HookPoint {
    /// On the host where packets arrive.
    Arrival,
    /// On the host that sends the packets. The sending socket learns immediately that a packet was dropped.
    Departure,
}

impl HookPoint {
    /// Returns the name of the chain of the kernel's packet filter that gets the rules.
    const fn chain(self) -> &'static str {
        match self {
            Self::Arrival => "INPUT",
            Self::Departure => "OUTPUT",
        }
    }

    /// Returns the iptables option with which a rule names the interface.
    const fn by(self) -> &'static str {
        match self {
            Self::Arrival => "-i",
            Self::Departure => "-o",
        }
    }

    /// Returns the end of the link at which the rules for the direction `direction` apply.
    const fn end(self, direction: Direction) -> LinkEnd {
        match (self, direction) {
            (Self::Arrival, Direction::Up) | (Self::Departure, Direction::Down) => LinkEnd::Far,
            (Self::Arrival, Direction::Down) | (Self::Departure, Direction::Up) => LinkEnd::Near,
        }
    }

    fn namespace(self, wiring: &Wiring, direction: Direction) -> &Namespace {
        match self.end(direction) {
            LinkEnd::Near => &wiring.near,
            LinkEnd::Far => &wiring.far,
        }
    }
}

impl LossRules {
    /// Installs iptables rules that lose packets by the loss models of `links`. `hook` says whether the rules apply
    /// where packets arrive or where they are sent. The links themselves must be lossless (see
    /// [`LinkSpec::lossless`]). The loss model `nth` loses every n-th packet. If the model does not state the first lost
    /// packet, `seed` chooses that packet, as in [`LinkSpec::build`].
    ///
    /// # Errors
    /// [`EmuError::Impossible`] if iptables is missing, or if iptables or the kernel does not support the match (such
    /// as `statistic`) that a rule needs.
    pub fn install(
        wiring: &Wiring,
        links: &[LinkSpec],
        seed: u64,
        hook: HookPoint,
    ) -> Result<Self, EmuError> {
        let one_host = wiring.is_one_host();
        let mut this =
            Self { ruled_links: [Vec::new(), Vec::new()], links: links.len(), is_shared: false, hook };
        if let [LinkSpec { up: DirectionSpec { loss: loss @ LossSpec::Nth { shared: true, .. }, .. }, .. }] =
            links
            && one_host
        {
            this.is_shared = true;
            let mode = mode(loss, seed, true).map_err(EmuError::Failed)?.unwrap_or_default();
            install_shared(wiring, mode, hook)?;
            return Ok(this);
        }
        for (ruled_links, direction) in this.ruled_links.iter_mut().zip(DIRECTIONS) {
            let namespace = hook.namespace(wiring, direction);
            for (number, link) in links.iter().enumerate() {
                let Some(mode) =
                    mode(&link.direction(direction).loss, seed, one_host).map_err(EmuError::Failed)?
                else {
                    continue;
                };
                let interface = wiring.interface(number, hook.end(direction));
                let mut counts =
                    vec!["-A".to_owned(), hook.chain().to_owned(), hook.by().to_owned(), interface];
                iptables(namespace, &counts)?;
                counts.extend(["-m", "statistic"].map(str::to_owned));
                counts.extend(mode);
                counts.extend(["-j", "DROP"].map(str::to_owned));
                iptables(namespace, &counts)?;
                ruled_links.push(number);
            }
        }
        Ok(this)
    }

    /// Returns the counts of each link's rules so far, first for the up and then for the down direction.
    ///
    /// # Errors
    /// The error message of iptables.
    pub fn read(&self, wiring: &Wiring) -> Result<Vec<[RuleCounts; 2]>, EmuError> {
        let mut all = vec![[RuleCounts::default(); 2]; self.links];
        let list = |direction| -> Result<Vec<u64>, EmuError> {
            let words = ["-nvxL", self.hook.chain()].map(str::to_owned);
            Ok(counted(&iptables(self.hook.namespace(wiring, direction), &words)?))
        };
        let wrong = |number: usize| EmuError::Failed(format!("iptables lists {number} rules of ours"));
        if self.is_shared {
            let [up, down, up_left, down_left] = list(Direction::Up)?[..] else { return Err(wrong(0)) };
            let rule_counts =
                |packets: u64, left: u64| RuleCounts { packets, dropped: packets.saturating_sub(left) };
            return Ok(vec![[rule_counts(up, up_left), rule_counts(down, down_left)]]);
        }
        for (side, (ruled_links, direction)) in self.ruled_links.iter().zip(DIRECTIONS).enumerate() {
            if ruled_links.is_empty() {
                continue;
            }
            let mut counted = list(direction)?;
            if wiring.is_one_host() {
                // On a single host, one list contains the rules of both directions. The rules for the up direction come
                // first.
                let others = counted.len().saturating_sub(2 * ruled_links.len());
                counted = if side == 0 {
                    counted[..2 * ruled_links.len()].to_vec()
                } else {
                    counted.split_off(others)
                };
            }
            if counted.len() != 2 * ruled_links.len() {
                return Err(wrong(counted.len()));
            }
            for (pair, &link) in counted.chunks_exact(2).zip(ruled_links) {
                all[link][side] = RuleCounts { packets: pair[0], dropped: pair[1] };
            }
        }
        Ok(all)
    }
}

/// Installs one DROP rule for the packets of both directions. The rule counts the packets of both directions together.
/// In addition, each direction has two rules with packet counters: one that leads to the DROP rule, and one after it.
fn install_shared(wiring: &Wiring, mode: Vec<String>, hook: HookPoint) -> Result<(), EmuError> {
    let host = &wiring.near;
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    iptables(host, &words(&["-N", BOTH_WAYS]))?;
    let lose = [words(&["-A", BOTH_WAYS, "-m", "statistic"]), mode, words(&["-j", "DROP"])];
    iptables(host, &lose.concat())?;
    for target in [&["-j", BOTH_WAYS][..], &[]] {
        for direction in DIRECTIONS {
            let interface = wiring.interface(0, hook.end(direction));
            iptables(host, &[words(&["-A", hook.chain(), hook.by(), &interface]), words(target)].concat())?;
        }
    }
    Ok(())
}

/// Checks in a temporary namespace whether rules can be installed on this host.
///
/// # Errors
/// [`EmuError::Impossible`], with the program or permission that is missing.
pub fn possible() -> Result<(), EmuError> {
    let refused =
        |error: io::Error| EmuError::Impossible(format!("no network namespace can be made: {error}"));
    let namespace = Namespace::create().map_err(refused)?;
    let words =
        ["-A", "INPUT", "-m", "statistic", "--mode", "nth", "--every", "2", "--packet", "0", "-j", "DROP"];
    iptables(&namespace, &words.map(str::to_owned)).map(drop)
}

/// Converts a loss model to arguments of the match `statistic`. Returns `None` if no packets are to be lost. `one_host`
/// says whether both ends of the link are on one host.
///
/// # Errors
/// The match `statistic` of iptables cannot generate this loss. The error is a text of one line.
pub fn mode(loss: &LossSpec, seed: u64, one_host: bool) -> Result<Option<Vec<String>>, String> {
    let words = match loss {
        LossSpec::None => return Ok(None),
        // The probability is written with twelve decimals, the precision of `Ratio`.
        LossSpec::Bernoulli(share) => {
            let (whole, part) = (share.parts() / ONE, share.parts() % ONE);
            vec!["random".to_owned(), "--probability".to_owned(), format!("{whole}.{part:012}")]
        }
        LossSpec::Nth { shared: true, .. } if !one_host => {
            return Err(
                "two hosts have no counter in common: leave '/shared' away, or write --hosts one".to_owned()
            );
        }
        LossSpec::Nth { every, first, .. } => {
            let first = first.unwrap_or(1 + seed % every);
            if !(1..=*every).contains(&first) || *every > u64::from(u32::MAX) {
                return Err(format!("the first packet lost is one of the first {every}, not number {first}"));
            }
            // iptables-extensions(8): `--packet` is counted from 0. The packet with this number is the first to be
            // dropped.
            ["nth", "--every", &every.to_string(), "--packet", &(first - 1).to_string()]
                .map(str::to_owned)
                .to_vec()
        }
        LossSpec::Recorded(_) => {
            return Err("a trace's column loss is for the link: leave --loss-by out".to_owned());
        }
        LossSpec::GilbertElliott { .. } | LossSpec::List(_) => {
            return Err("the match `statistic` knows a share (1%) and nth:N only".to_owned());
        }
    };
    Ok(Some(std::iter::once("--mode".to_owned()).chain(words).collect()))
}

/// Runs iptables in a namespace and returns its output.
fn iptables(namespace: &Namespace, words: &[String]) -> Result<String, EmuError> {
    let run = || {
        let mut command = Command::new("iptables");
        // `-w` waits for the lock of iptables if another process holds the lock.
        command.arg("-w").args(words).stdin(Stdio::null()).env("LC_ALL", "C");
        command.output()
    };
    let entered = namespace.run(run);
    let entered =
        entered.map_err(|error| EmuError::Failed(format!("a namespace cannot be entered: {error}")))?;
    let output = entered.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => EmuError::Impossible(
            "there is no 'iptables' in the PATH (mostly it is in /usr/sbin); install iptables, or leave the loss to \
             the link"
                .to_owned(),
        ),
        _ => EmuError::Impossible(format!("iptables: {error}")),
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let message = String::from_utf8_lossy(&output.stderr);
    let message = message.split_whitespace().collect::<Vec<_>>().join(" ");
    Err(EmuError::Impossible(format!(
        "iptables cannot lose packets with its match `statistic`: it says: {message}"
    )))
}

/// Returns the packet count of each rule of a chain, from the output `text` of `iptables -nvxL`.
fn counted(text: &str) -> Vec<u64> {
    // The output starts with two lines of headings.
    let rules = text.lines().skip(2);
    rules.filter_map(|line| line.split_whitespace().next()?.parse().ok()).collect()
}

/// The name of the iptables chain that packets of both directions pass.
const BOTH_WAYS: &str = "both-ways";
const DIRECTIONS: [Direction; 2] = [Direction::Up, Direction::Down];
/// A probability of 1 in the units of a `Ratio`.
const ONE: u64 = 1_000_000_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn words(loss: &str, seed: u64) -> Result<String, String> {
        let loss = loss.parse().expect("a loss model");
        mode(&loss, seed, false).map(|words| words.unwrap_or_default().join(" "))
    }

    #[test]
    fn models_are_said_in_the_words_of_iptables() {
        assert_eq!(words("0", 1).as_deref(), Ok(""));
        assert_eq!(words("1%", 1).as_deref(), Ok("--mode random --probability 0.010000000000"));
        assert_eq!(words("100%", 1).as_deref(), Ok("--mode random --probability 1.000000000000"));
        assert_eq!(words("nth:10/first=10", 1).as_deref(), Ok("--mode nth --every 10 --packet 9"));
        // With seed 12, a link's loss model `nth:10` first loses packet 1 + (12 mod 10) = 3. For iptables, which counts
        // packets from 0, this is packet 2.
        assert_eq!(words("nth:10", 12).as_deref(), Ok("--mode nth --every 10 --packet 2"));
        let shared = "nth:10/first=3/shared".parse().expect("a loss model");
        let words_on_one_host = mode(&shared, 1, true).map(|words| words.unwrap_or_default().join(" "));
        assert_eq!(words_on_one_host.as_deref(), Ok("--mode nth --every 10 --packet 2"));
        for (loss, told) in [
            ("nth:10/first=11", "one of the first 10, not number 11"),
            ("nth:10/shared", "no counter in common"),
            ("ge:1%/30%", "a share (1%) and nth:N only"),
            ("list:3", "a share (1%) and nth:N only"),
        ] {
            assert!(words(loss, 1).is_err_and(|why| why.contains(told)), "{loss}");
        }
    }

    #[test]
    fn counts_are_read_whether_a_rule_has_a_target_or_none() {
        let text = "Chain INPUT (policy ACCEPT 7 packets, 512 bytes)\n    pkts      bytes target     prot opt in\n      \
                    120   12000            0    --  path1  *\n       11     1100 DROP       0    --  path1  *\n";
        assert_eq!(counted(text), [120, 11]);
        assert_eq!(counted("").len(), 0);
    }
}
