//! What a capture says, as data: schema `anabranch.decode/1`.
//!
//! Times are nanoseconds since the first packet of the capture. "A" is whoever
//! opened the conversation (or, where its beginning was not captured, whoever
//! is more likely to have).

use super::views::View;
use serde::Serialize;
use std::collections::BTreeMap;

/// The schema of the JSON form.
pub const SCHEMA: &str = "anabranch.decode/1";

/// A capture, read to its end.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Decoded {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The file, as named.
    pub file: String,
    /// Byte at which the file ends in the middle of a packet; null when it is whole.
    pub cut_at: Option<u64>,
    /// Packets in the file.
    pub packets: u64,
    /// From the first to the last.
    pub span_ns: u64,
    /// Packets that belong to no conversation, by what they are.
    pub left_out: BTreeMap<&'static str, u64>,
    /// What is not told below: there were too many conversations.
    pub not_followed: NotFollowed,
    /// Associations and connections, in order of their first packet.
    pub conversations: Vec<Conversation>,
}

impl Decoded {
    /// As JSON, ending in a line feed; straight from this, since it is long where there are many conversations.
    #[must_use]
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        assert!(text.is_ok(), "results are plain values: {text:?}");
        text.unwrap_or_default() + "\n"
    }
}

/// Conversations that came when as many as can be were followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct NotFollowed {
    /// Their packets.
    pub packets: u64,
    /// Of these, INITs and SYNs, retransmitted ones too: no fewer than there were such conversations with a beginning.
    pub openings: u64,
}

/// An SCTP association or a TCP connection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Conversation {
    /// `sctp` or `tcp`.
    pub transport: &'static str,
    /// The two sides, A first.
    pub sides: [Side; 2],
    /// UDP ports of A and B when it travels in UDP (RFC 6951).
    pub udp_ports: Option<[u16; 2]>,
    /// Tunnels that it travels in, the outermost first, as `GTP-U`; of the first packet that was captured in one.
    pub tunnel: Vec<&'static str>,
    /// First and last packet.
    pub first_ns: u64,
    /// See `first_ns`.
    pub last_ns: u64,
    /// How it began.
    pub handshake: Handshake,
    /// How it ended.
    pub end: Ended,
    /// From A to B, and from B to A.
    pub directions: [Direction; 2],
    /// Address pairs, in order of appearance.
    pub paths: Vec<Path>,
    /// The conversation drawn line by line; empty when not asked for.
    #[serde(skip)]
    pub ladder: Vec<String>,
    /// What each side sent over time; empty when not asked for.
    #[serde(skip)]
    pub views: [View; 2],
    /// Lines that the ladder has no room for.
    #[serde(skip)]
    pub ladder_left_out: u64,
}

/// One side of a conversation.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Side {
    /// The side's addresses, in order of appearance; empty where packets were captured without IP.
    pub addresses: Vec<String>,
    /// The side's port.
    pub port: u16,
    /// SCTP: the Verification Tag of packets to it, once known.
    pub tag: Option<u32>,
}

/// How a conversation began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Handshake {
    /// Whether the beginning was captured.
    pub seen: bool,
    /// From the first INIT or SYN to COOKIE ACK or the ACK of the SYN ACK; null when not completed.
    pub took_ns: Option<u64>,
    /// The round trip over both hosts, as the last copies of the handshake's packets show it.
    pub rtt_ns: Option<u64>,
    /// INITs or SYNs of A.
    pub attempts: u64,
}

/// How a conversation ended.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Ended {
    /// `open` (at the end of the capture), `shutdown`, `abort`, `closed`, `reset`, `restarted`, `refused`, `incomplete` (the handshake).
    pub how: &'static str,
    /// Who began to end it: `A` or `B`.
    pub by: Option<&'static str>,
    /// When it was over.
    pub at_ns: Option<u64>,
    /// What an ABORT gave as reason.
    pub reason: Option<String>,
}

/// What one side sent.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Direction {
    /// Packets.
    pub packets: u64,
    /// Their IP bytes.
    pub wire_bytes: u64,
    /// Packets with a wrong checksum, left out of everything else; but for those of which the peer acknowledged the data.
    pub damaged: u64,
    /// Packets whose checksum was left to the network card: it is a part of the right one, 0, or wrong though the peer
    /// acknowledged the data.
    pub checksums_left: u64,
    /// Copies of packets that the network or the capture made, left out of everything else.
    pub copies: u64,
    /// Of these, packets that were captured at two places, or twice at one.
    pub captured_twice: u64,
    /// SCTP: chunks by type.
    pub chunks: BTreeMap<&'static str, u64>,
    /// DATA or I-DATA chunks, or segments with data, the first time they were sent.
    pub data: u64,
    /// SCTP: user messages (last fragments).
    pub messages: u64,
    /// Bytes of user data, each counted once.
    pub bytes: u64,
    /// First and last TSN or sequence number of data.
    pub numbers: Option<[u32; 2]>,
    /// Packets that carried a retransmission.
    pub retransmitted_packets: u64,
    /// Of these, with a fast retransmission in them.
    pub fast_packets: u64,
    /// Chunks or segments retransmitted.
    #[serde(rename = "repairs")]
    pub retransmitted: Retransmitted,
    /// Retransmission timers that ran out.
    pub timeouts: u64,
    /// Data that came late, by less than a round trip: overtaken.
    pub reordered: u64,
    /// Data acknowledged that was never captured: TSNs, or bytes.
    pub not_captured: u64,
    /// From data to its acknowledgement, as both passed the capture.
    pub rtt: Rtt,
    /// SACKs or ACKs sent.
    pub acks: u64,
    /// Of these, with gaps reported.
    pub gap_acks: u64,
    /// Most gap blocks in one.
    pub most_gaps: u64,
    /// Duplicates reported (TSNs; D-SACK blocks).
    pub duplicates_reported: u64,
    /// TCP: probes of an idle connection.
    pub keep_alives: u64,
    /// SCTP: by stream.
    pub streams: BTreeMap<u16, Stream>,
    /// SCTP: user messages (first fragments) by payload protocol identifier; of the first identifiers seen.
    pub ppids: BTreeMap<u32, u64>,
}

/// One stream in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Stream {
    /// DATA or I-DATA chunks, the first time they were sent.
    pub chunks: u64,
    /// User messages (last fragments).
    pub messages: u64,
    /// Of these, unordered.
    pub unordered: u64,
    /// Bytes of user data.
    pub bytes: u64,
    /// First and last TSN.
    pub tsns: [u32; 2],
    /// Chunks retransmitted.
    #[serde(rename = "repairs")]
    pub retransmitted: Retransmitted,
}

/// Data retransmitted, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Retransmitted {
    /// After acknowledgements that told of a gap.
    pub fast: u64,
    /// After a timer ran out.
    pub timeout: u64,
    /// For a reason that the packets do not show (a probe, a change of path).
    pub other: u64,
    /// Of all these, those whose first copy was not captured: told by the gap they fill.
    pub inferred: u64,
    /// Of all these, needless: the receiver had it.
    pub spurious: u64,
}

impl Retransmitted {
    /// Data retransmitted, for whatever reason.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.fast + self.timeout + self.other
    }
}

/// Round trips.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Rtt {
    /// Measurements; data sent twice is never measured (Karn).
    pub samples: u64,
    /// The least.
    pub min_ns: u64,
    /// Their mean.
    pub mean_ns: u64,
    /// The most.
    pub max_ns: u64,
    #[serde(skip)]
    pub(super) sum_ns: u64,
}

impl Rtt {
    pub(super) fn add(&mut self, sample: u64) {
        self.min_ns = if self.samples == 0 { sample } else { self.min_ns.min(sample) };
        self.max_ns = self.max_ns.max(sample);
        self.samples += 1;
        self.sum_ns = self.sum_ns.saturating_add(sample);
        self.mean_ns = self.sum_ns / self.samples;
    }
}

/// An address pair, both directions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Path {
    /// A's address, and B's.
    pub addresses: [String; 2],
    /// From A to B, and from B to A.
    pub directions: [PathDirection; 2],
}

/// One direction of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PathDirection {
    /// Packets.
    pub packets: u64,
    /// Their IP bytes.
    pub wire_bytes: u64,
    /// DATA chunks or segments with data, retransmitted ones included.
    pub data: u64,
    /// Of these, retransmitted.
    #[serde(rename = "repairs")]
    pub retransmitted: Retransmitted,
    /// Of data sent on this path (wherever its acknowledgement came back), and of heartbeats.
    pub rtt: Rtt,
    /// Heartbeats sent, and answered.
    pub heartbeats: [u64; 2],
    /// First and last packet.
    pub span_ns: Option<[u64; 2]>,
}
