//! The analysis of a capture as data: schema `anabranch.decode/1`.
//!
//! Times are nanoseconds since the first packet of the capture. "A" is the side that opened the conversation. If its
//! beginning was not captured, A is the side that more likely opened it.

use super::views::View;
use serde::Serialize;
use std::collections::BTreeMap;

/// The schema of the JSON form.
pub const SCHEMA: &str = "anabranch.decode/1";

/// A capture that was read completely.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Decoded {
    /// [`SCHEMA`].
    pub schema: &'static str,
    /// The name of the file.
    pub file: String,
    /// The byte at which the file ends in the middle of a packet, or null if the file is complete.
    pub cut_at: Option<u64>,
    /// The number of packets in the file.
    pub packets: u64,
    /// The time from the first to the last packet.
    pub span_ns: u64,
    /// Packets that belong to no conversation, by kind.
    pub left_out: BTreeMap<&'static str, u64>,
    /// Conversations that are not listed below because there were too many.
    pub not_followed: NotFollowed,
    /// The associations and connections, in the order of their first packets.
    pub conversations: Vec<Conversation>,
}

impl Decoded {
    /// Returns the results as JSON that ends in a line feed. It is written without a copy, because it may be long.
    #[must_use]
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        assert!(text.is_ok(), "results are plain values: {text:?}");
        text.unwrap_or_default() + "\n"
    }
}

/// Conversations that began when the maximum number was already followed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct NotFollowed {
    /// The number of their packets.
    pub packets: u64,
    /// INITs and SYNs among these, including retransmissions: at least the number of such conversations with a
    /// beginning.
    pub openings: u64,
}

/// An SCTP association or a TCP connection.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Conversation {
    /// `sctp` or `tcp`.
    pub transport: &'static str,
    /// The two sides, A first.
    pub sides: [Side; 2],
    /// The UDP ports of A and B, if it travels in UDP (RFC 6951).
    pub udp_ports: Option<[u16; 2]>,
    /// The tunnels of the first packet captured in one, the outermost first, such as `GTP-U`.
    pub tunnel: Vec<&'static str>,
    /// The time of the first packet.
    pub first_ns: u64,
    /// The time of the last packet.
    pub last_ns: u64,
    /// How it began.
    pub handshake: Handshake,
    /// How it ended.
    pub end: Ended,
    /// From A to B, and from B to A.
    pub directions: [Direction; 2],
    /// The address pairs, in order of appearance.
    pub paths: Vec<Path>,
    /// The ladder of the conversation, line by line. Empty if not requested.
    #[serde(skip)]
    pub ladder: Vec<String>,
    /// What each side sent over time. Empty if not requested.
    #[serde(skip)]
    pub views: [View; 2],
    /// The number of ladder lines that were left out.
    #[serde(skip)]
    pub ladder_left_out: u64,
}

/// One side of a conversation.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Side {
    /// The side's addresses, in order of appearance. Empty if packets were captured without IP.
    pub addresses: Vec<String>,
    /// The side's port.
    pub port: u16,
    /// SCTP: the Verification Tag of packets to this side, if known.
    pub tag: Option<u32>,
}

/// How a conversation began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Handshake {
    /// Whether the beginning was captured.
    pub seen: bool,
    /// The time from the first INIT or SYN to the COOKIE ACK or the ACK of the SYN ACK. Null if the handshake was not
    /// completed.
    pub took_ns: Option<u64>,
    /// The round-trip time through both hosts, measured with the last copies of the handshake's packets.
    pub rtt_ns: Option<u64>,
    /// The number of INITs or SYNs from A.
    pub attempts: u64,
}

/// How a conversation ended.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Ended {
    /// `open` (at the end of the capture), `shutdown`, `abort`, `closed`, `reset`, `restarted`, `refused`, `incomplete`
    /// (the handshake).
    pub how: &'static str,
    /// The side that began to end it: `A` or `B`.
    pub by: Option<&'static str>,
    /// The time at which it had ended.
    pub at_ns: Option<u64>,
    /// The reason given in an ABORT.
    pub reason: Option<String>,
}

/// What one side sent.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Direction {
    /// The number of packets.
    pub packets: u64,
    /// Their size in IP bytes.
    pub wire_bytes: u64,
    /// Packets with a wrong checksum. They are not counted anywhere else, unless the peer acknowledged their data.
    pub damaged: u64,
    /// Packets whose checksum was left to the network card. It is a partial sum, 0, or wrong although the peer
    /// acknowledged the data.
    pub checksums_left: u64,
    /// Copies of packets made by the network or the capture. They are not counted anywhere else.
    pub copies: u64,
    /// Copies that were captured at two places, or twice at one place.
    pub captured_twice: u64,
    /// SCTP: chunks by type.
    pub chunks: BTreeMap<&'static str, u64>,
    /// DATA or I-DATA chunks, or segments with data, without retransmissions.
    pub data: u64,
    /// SCTP: user messages (last fragments).
    pub messages: u64,
    /// Bytes of user data, each counted once.
    pub bytes: u64,
    /// First and last TSN or sequence number of data.
    pub numbers: Option<[u32; 2]>,
    /// Packets that carried a retransmission.
    pub retransmitted_packets: u64,
    /// Packets that carried a fast retransmission.
    pub fast_packets: u64,
    /// Retransmitted chunks or segments.
    #[serde(rename = "repairs")]
    pub retransmitted: Retransmitted,
    /// Expired retransmission timers.
    pub timeouts: u64,
    /// Data that was overtaken: it was late by less than a round trip.
    pub reordered: u64,
    /// Data that was acknowledged but never captured, in TSNs or bytes.
    pub not_captured: u64,
    /// The time from data to its acknowledgement, measured at the place of capture.
    pub rtt: Rtt,
    /// The number of SACKs or ACKs sent.
    pub acks: u64,
    /// SACKs or ACKs that report gaps.
    pub gap_acks: u64,
    /// The most gap blocks in one acknowledgement.
    pub most_gaps: u64,
    /// Reported duplicates (TSNs or D-SACK blocks).
    pub duplicates_reported: u64,
    /// TCP: keep-alive probes.
    pub keep_alives: u64,
    /// SCTP: the streams by number.
    pub streams: BTreeMap<u16, Stream>,
    /// SCTP: user messages (first fragments) by payload protocol identifier. Only the first identifiers are
    /// distinguished.
    pub ppids: BTreeMap<u32, u64>,
}

/// One stream in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Stream {
    /// DATA or I-DATA chunks, without retransmissions.
    pub chunks: u64,
    /// User messages (last fragments).
    pub messages: u64,
    /// Unordered messages among these.
    pub unordered: u64,
    /// Bytes of user data.
    pub bytes: u64,
    /// The first and last TSN.
    pub tsns: [u32; 2],
    /// Retransmitted chunks.
    #[serde(rename = "repairs")]
    pub retransmitted: Retransmitted,
}

/// Retransmitted data by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Retransmitted {
    /// After acknowledgements that reported a gap.
    pub fast: u64,
    /// After a timer expired.
    pub timeout: u64,
    /// For a reason that the packets do not show (a probe, a change of path).
    pub other: u64,
    /// Retransmissions, of any cause, whose first copy was not captured. They are inferred from the gap that they fill.
    pub inferred: u64,
    /// Spurious retransmissions, of any cause: the receiver already had the data.
    pub spurious: u64,
}

impl Retransmitted {
    /// Returns the number of retransmissions of any cause.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.fast + self.timeout + self.other
    }
}

/// Round-trip times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Rtt {
    /// The number of measurements. Data that was sent twice is never measured (Karn).
    pub samples: u64,
    /// The minimum.
    pub min_ns: u64,
    /// The mean.
    pub mean_ns: u64,
    /// The maximum.
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

/// A pair of addresses, with both directions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Path {
    /// The addresses of A and B.
    pub addresses: [String; 2],
    /// From A to B, and from B to A.
    pub directions: [PathDirection; 2],
}

/// One direction of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PathDirection {
    /// The number of packets.
    pub packets: u64,
    /// Their size in IP bytes.
    pub wire_bytes: u64,
    /// DATA chunks or segments with data, including retransmissions.
    pub data: u64,
    /// Retransmissions among these.
    #[serde(rename = "repairs")]
    pub retransmitted: Retransmitted,
    /// Round-trip times of heartbeats and of data sent on this path. The acknowledgement may return on any path.
    pub rtt: Rtt,
    /// The numbers of heartbeats sent and answered.
    pub heartbeats: [u64; 2],
    /// The times of the first and last packet.
    pub span_ns: Option<[u64; 2]>,
}
