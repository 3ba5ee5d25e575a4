//! The rules that find out why a conversation was slow or failed. [`RULES`] is the table of all rules.
//!
//! Each rule is a function that judges the data of one side from the events of the conversation. A finding needs
//! evidence in packets: where the packets do not show the cause, the text says so. Round-trip times are measured at the
//! place of capture.
//!
//! - `window`: the receive window
//! - `flow_control`: the limits of QUIC and HTTP/2
//! - `sending`: a sender or receiver that waits without need
//! - `recovery`: losses and their repair
//! - `losses`: losses in many separate places
//! - `network`: marks and queues
//! - `handshake`, `closing`: the beginning and the end of conversations, and resets of streams

mod closing;
mod flow_control;
mod handshake;
mod losses;
mod network;
mod recovery;
mod sending;
mod window;

use super::arrival::Side;
use super::data_channels;
use super::results::{Conversation, Finding};
use super::timeline::{Ack, Data, Entry, Event, IcmpReport, Losses};

const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;
/// The maximum number of packets that are named in a finding.
const MAX_PACKETS: usize = 8;

struct Rule {
    name: &'static str,
    find: fn(&Case<'_>) -> Option<Evidence>,
    /// The rules that explain the same packets better than this rule. If one of them has found something for the same
    /// side, this rule reports nothing.
    unless: &'static [&'static str],
}

const RULES: &[Rule] = &[
    Rule { name: "handshake_retries", find: handshake::retries, unless: &[] },
    Rule { name: "window_closed", find: window::closed, unless: &[] },
    Rule { name: "window_limited", find: window::limited, unless: &[] },
    Rule { name: "flow_control_limited", find: flow_control::flow_control, unless: &[] },
    Rule { name: "streams_limited", find: flow_control::streams_limited, unless: &[] },
    Rule { name: "room_unused", find: sending::room_unused, unless: &["window_closed"] },
    Rule {
        name: "not_retransmitted",
        find: sending::not_retransmitted,
        unless: &["window_closed", "path_mtu_black_hole", "peer_silent"],
    },
    Rule { name: "application_limited", find: sending::application_limited, unless: &[] },
    Rule { name: "delayed_acknowledgements", find: sending::delayed_acks, unless: &[] },
    Rule { name: "path_mtu_black_hole", find: recovery::path_mtu_black_hole, unless: &[] },
    Rule {
        name: "timeouts_only",
        find: recovery::timeouts_only,
        unless: &["path_mtu_black_hole", "peer_silent"],
    },
    Rule { name: "forward_tsn_ping_pong", find: recovery::forward_tsn_ping_pong, unless: &[] },
    Rule {
        name: "head_of_line_blocking",
        find: recovery::head_of_line,
        unless: &["path_mtu_black_hole", "peer_silent"],
    },
    Rule { name: "loss_burst", find: recovery::loss_burst, unless: &["peer_silent"] },
    Rule {
        name: "scattered_losses",
        find: losses::scattered,
        unless: &[
            "path_mtu_black_hole",
            "timeouts_only",
            "loss_burst",
            "peer_silent",
            "application_limited",
            "queue_growth",
        ],
    },
    Rule { name: "congestion_marks", find: network::congestion_marks, unless: &[] },
    Rule { name: "queue_growth", find: network::queue_growth, unless: &["delayed_acknowledgements"] },
    Rule {
        name: "peer_silent",
        find: closing::peer_silent,
        unless: &["path_mtu_black_hole", "window_closed"],
    },
    Rule { name: "reset_unfinished", find: closing::reset_unfinished, unless: &[] },
    Rule { name: "close_unfinished", find: closing::close_unfinished, unless: &[] },
];

/// The evidence that a rule has found: the lost time, the text of the finding, and the packets.
struct Evidence {
    cost_ns: u64,
    text: String,
    packets: Vec<u64>,
}

/// What a rule examines: the events of a conversation, and the side whose data the rule judges.
struct Case<'a> {
    talk: &'a Conversation,
    entries: &'a [Entry],
    side: Side,
    /// QUIC: the packets that this side lost.
    losses: &'a Losses,
    /// The time of the last packet in the capture.
    end: u64,
    /// Whether the events are complete up to the end of the capture.
    is_whole: bool,
}

/// Applies all rules to a conversation. `end` is the time of the last packet in the capture.
pub(super) fn judge(talk: &mut Conversation, end: u64) {
    let Some(timeline) = talk.timeline.take() else { return };
    talk.events_left_out = timeline.left_out;
    data_channels::unacknowledged(&mut talk.channels, &timeline.entries);
    let mut found: Vec<(Side, &Rule, Evidence)> = Vec::new();
    for side in [0, 1] {
        let entries = &timeline.entries[..];
        let losses = &timeline.losses[side];
        let case = Case { talk, entries, side, losses, end, is_whole: timeline.left_out == 0 };
        found.extend(RULES.iter().filter_map(|rule| Some((side, rule, (rule.find)(&case)?))));
    }
    let is_explained = |side: Side, rule: &Rule| {
        found.iter().any(|(other, by, _)| *other == side && rule.unless.contains(&by.name))
    };
    let silent: Vec<bool> = found.iter().map(|(side, rule, _)| is_explained(*side, rule)).collect();
    let remaining = found.into_iter().zip(silent).filter(|(_, is_silent)| !is_silent);
    talk.findings = remaining
        .map(|((_, rule, mut evidence), _)| {
            evidence.packets.dedup();
            evidence.packets.truncate(MAX_PACKETS);
            let Evidence { cost_ns, text, packets } = evidence;
            Finding { rule: rule.name, text, packets, cost_ns }
        })
        .collect();
    talk.findings.sort_by_key(|finding| std::cmp::Reverse(finding.cost_ns));
}

impl<'a> Case<'a> {
    fn sender(&self) -> &'static str {
        ["A", "B"][self.side]
    }

    fn receiver(&self) -> &'static str {
        ["B", "A"][self.side]
    }

    /// Returns the data that this side sent.
    fn data(&self) -> impl Iterator<Item = (&'a Entry, &'a Data)> {
        self.by(true).filter_map(|entry| match &entry.event {
            Event::Data(data) => Some((entry, data)),
            _ => None,
        })
    }

    /// Returns the acknowledgements of this side's data.
    fn acks(&self) -> impl Iterator<Item = (&'a Entry, &'a Ack)> {
        self.by(false).filter_map(|entry| match &entry.event {
            Event::Ack(ack) => Some((entry, ack)),
            _ => None,
        })
    }

    /// Returns the events of the side whose data is judged (`is_own`), or those of its peer.
    fn by(&self, is_own: bool) -> impl Iterator<Item = &'a Entry> {
        let side = self.side;
        self.entries.iter().filter(move |entry| (entry.side == side) == is_own)
    }

    /// Returns a sentence about the ICMP errors for packets of this side since a time, and the numbers of their packets.
    fn icmp(&self, since: u64) -> Option<(String, Vec<u64>)> {
        let errors = self.by(true).filter(|entry| entry.at >= since);
        let errors = errors.filter_map(|entry| match entry.event {
            Event::Icmp(report) => Some((entry.packet, report)),
            _ => None,
        });
        let errors: Vec<(u64, IcmpReport)> = errors.collect();
        let (_, report) = *errors.last()?;
        let numbers: Vec<u64> =
            errors.iter().filter(|(_, other)| *other == report).map(|(number, _)| *number).collect();
        Some((format!("By ICMP in {}, {}.", packets(&numbers), report.text()), numbers))
    }

    /// Returns the round-trip time between the hosts, or 0 if it is unknown.
    fn round_trip(&self) -> u64 {
        self.talk.handshake.rtt_ns.unwrap_or(self.talk.directions[self.side].rtt.min_ns)
    }

    /// Returns the shortest time from data to its acknowledgement that the place of capture allows.
    fn least_round_trip(&self) -> u64 {
        let rtt = &self.talk.directions[self.side].rtt;
        let of_data = (rtt.samples > 0).then_some(rtt.min_ns);
        self.talk.handshake.rtt_ns.into_iter().chain(of_data).min().unwrap_or(0)
    }

    /// Returns the duration from which on a silence is not normal.
    fn patience(&self) -> u64 {
        self.round_trip().saturating_mul(4).max(SECOND)
    }

    /// Returns the time until which an unfinished state lasts: the end of the conversation or of the capture.
    fn until(&self) -> u64 {
        self.talk.end.at_ns.unwrap_or(self.end)
    }

    /// Returns a phrase that names the time of [`until`](Self::until) in the text of a finding.
    fn until_when(&self) -> &'static str {
        if self.talk.end.at_ns.is_some() { "until the conversation ended" } else { "until the capture ended" }
    }

    fn is_closed_gracefully(&self) -> bool {
        matches!(self.talk.end.how, "shutdown" | "closed")
    }

    /// Returns the time from the first to the last data of this side.
    fn active(&self) -> u64 {
        let mut times = self.data().map(|(entry, _)| entry.at);
        let first = times.next().unwrap_or(0);
        times.last().map_or(0, |last| last.saturating_sub(first))
    }

    /// Returns the size in bytes of the largest piece of data that this side sent, but not more than the size of a
    /// usual packet.
    fn usual_piece(&self) -> u64 {
        self.data().map(|(_, data)| u64::from(data.bytes)).max().unwrap_or(0).min(1_200)
    }

    /// Returns the mean number of bytes in a unit (a TSN, a byte, or a packet number).
    fn bytes_per_unit(&self) -> u64 {
        let sum = |add: fn(&Data) -> u64| self.data().map(|(_, data)| add(data)).sum::<u64>();
        let units = sum(|data| data.units.0.abs_diff(data.units.1));
        (sum(|data| data.bytes.into()) / units.max(1)).max(1)
    }
}

/// Returns whether `part` is at least `percent` percent of `whole`.
fn is_share(part: u64, percent: u64, whole: u64) -> bool {
    u128::from(part) * 100 >= u128::from(whole) * u128::from(percent)
}

/// Names packets in a text, at most five of them.
fn packets(numbers: &[u64]) -> String {
    const SHOWN: usize = 5;
    let shown: Vec<String> = numbers.iter().take(SHOWN).map(u64::to_string).collect();
    match shown.split_last() {
        None => "no packet".to_owned(),
        Some((only, [])) => format!("packet {only}"),
        Some(_) if numbers.len() > SHOWN => {
            format!("packets {} and {} more", shown.join(", "), numbers.len() - SHOWN)
        }
        Some((last, others)) => format!("packets {} and {last}", others.join(", ")),
    }
}
