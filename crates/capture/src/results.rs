//! The results of decoding a capture, with the JSON schema `anabranch.decode/1`.
//!
//! Times are nanoseconds since the first packet of the capture. Side A opened the conversation. If the beginning of the
//! conversation was not captured, side A is the side that more likely opened it.

use super::timeline::Timeline;
use super::views::View;
use serde::Serialize;
use std::collections::BTreeMap;

/// The name of the JSON schema.
pub const SCHEMA: &str = "anabranch.decode/1";

/// The results of a capture that was read completely.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Decoded {
    /// The name of the JSON schema: [`SCHEMA`].
    pub schema: &'static str,
    /// The name of the capture file.
    pub file: String,
    /// The offset in bytes at which the file ends in the middle of a packet, or null if the last packet is complete.
    pub cut_at: Option<u64>,
    /// The number of packets in the file.
    pub packets: u64,
    /// The time between the first packet and the last one.
    pub span_ns: u64,
    /// The number of packets that belong to no conversation, by the kind of packet (for example, `ICMP messages`).
    pub left_out: BTreeMap<&'static str, u64>,
    /// The conversations that are missing in `conversations` because their number was limited.
    pub not_followed: NotFollowed,
    /// The SCTP associations and the connections of TCP, QUIC and DTLS, in the order of their first packets.
    pub conversations: Vec<Conversation>,
    /// The statistics over time in a webrtc-internals dump. Empty for other files.
    pub statistics: Vec<Statistics>,
    /// The comparison with the capture of the other end. Null if only one file was read.
    pub both_ends: Option<Box<BothEnds>>,
}

impl Decoded {
    /// Returns the results as JSON text that ends in a line feed.
    #[must_use]
    pub fn to_json(&self) -> String {
        let text = serde_json::to_string_pretty(self);
        assert!(text.is_ok(), "results are plain values: {text:?}");
        text.unwrap_or_default() + "\n"
    }
}

/// The packets of conversations that are not followed, because these conversations began after the maximum number of
/// followed conversations was reached.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct NotFollowed {
    /// The number of packets in conversations beyond the maximum number of followed ones.
    pub packets: u64,
    /// The number of INITs and SYNs in conversations beyond the maximum number of followed ones, including
    /// retransmissions.
    pub openings: u64,
}

/// An SCTP association, or a connection of TCP, QUIC or DTLS.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct Conversation {
    /// The transport protocol: `sctp`, `tcp`, `quic`, or `dtls` for the DTLS around SCTP.
    pub transport: &'static str,
    /// The two sides of the conversation. Side A comes first.
    pub sides: [Side; 2],
    /// The UDP ports of A and B, if the conversation travels in UDP (RFC 6951).
    pub udp_ports: Option<[u16; 2]>,
    /// The names of the tunnels that enclose the first tunnelled packet, outermost first, for example `GTP-U`. Empty if
    /// no packet was in a tunnel.
    pub tunnel: Vec<&'static str>,
    /// The time of the first packet.
    pub first_ns: u64,
    /// The time of the last packet.
    pub last_ns: u64,
    /// How the conversation began.
    pub handshake: Handshake,
    /// How the conversation ended.
    pub end: ConversationEnd,
    /// The two directions: from A to B, and from B to A.
    pub directions: [Direction; 2],
    /// The paths (pairs of addresses), in order of appearance.
    pub paths: Vec<Path>,
    /// The encryption of the conversation, or null if it is not encrypted.
    pub security: Option<Box<Security>>,
    /// The HTTP requests that could be read, in the order of their beginning.
    pub requests: Vec<Request>,
    /// The number of requests that are missing in `requests` because their number was limited.
    pub requests_left_out: u64,
    /// The values that an endpoint reported in its qlog. Null if the conversation does not come from a qlog.
    pub log: Option<Box<EndpointLog>>,
    /// The data channels of WebRTC, in the order of their opening. Their number is limited.
    pub channels: Vec<DataChannel>,
    /// The reasons why the conversation was slow or failed. The reason that cost the most time comes first. Empty if
    /// not requested.
    pub findings: Vec<Finding>,
    /// The number of events that the findings do not consider, because the number of events was limited.
    pub events_left_out: u64,
    #[serde(skip)]
    pub(super) timeline: Option<Box<Timeline>>,
    /// The lines of the ladder diagram. Empty if no diagram was requested.
    #[serde(skip)]
    pub ladder: Vec<String>,
    /// The data, acknowledgements and round-trip times of each direction over time. Empty if not requested.
    #[serde(skip)]
    pub views: [View; 2],
    /// The number of lines that are missing in `ladder` because their number was limited.
    #[serde(skip)]
    pub ladder_left_out: u64,
}

impl Conversation {
    /// Whether data is numbered by packet, as in QUIC.
    #[must_use]
    pub fn is_numbered_by_packet(&self) -> bool {
        self.transport == "quic"
    }
}

/// One side of a conversation.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Side {
    /// The side's addresses, in order of appearance. Empty if packets were captured without IP.
    pub addresses: Vec<String>,
    /// The side's port.
    pub port: u16,
    /// SCTP: the Verification Tag that this side chose. Packets to this side carry it. Null if the tag is not known.
    pub tag: Option<u32>,
}

/// The encryption of a conversation.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Security {
    /// The protocol and its version, for example `TLS 1.3` or `QUIC v1`.
    pub protocol: String,
    /// The name of the cipher suite, or its number if the name is not known here. Null if no ServerHello was captured.
    pub suite: Option<String>,
    /// The name of the server for which the client asked.
    pub server_name: Option<String>,
    /// The protocol that the server chose for use within the encryption, for example `h2`.
    pub alpn: Option<String>,
    /// The number of ClientHellos.
    pub hellos: u64,
    /// The time from the first ClientHello to the client's Finished. Null if either could not be read.
    pub took_ns: Option<u64>,
    /// The time from the last ClientHello to the ServerHello: a round trip to the server from the place of capture.
    pub answered_ns: Option<u64>,
    /// The number of encrypted records (TLS and DTLS) or packets (QUIC) that were decrypted.
    pub opened: u64,
    /// The number of encrypted records or packets that could not be decrypted.
    pub sealed: u64,
    /// The reason why records or packets could not be decrypted, if it is known.
    pub why_sealed: Option<String>,
}

/// An HTTP request and its response.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Request {
    /// The stream, or 0 for HTTP/1.1.
    pub stream: u64,
    /// The method. Null if the head could not be read.
    pub method: Option<String>,
    /// The request target. Null if the head could not be read.
    pub target: Option<String>,
    /// The status code of the response. Null if there is no response, or if its head could not be read.
    pub status: Option<u16>,
    /// The number of bytes in the bodies of the request and of the response.
    pub bytes: [u64; 2],
    /// The time when the request began.
    pub at_ns: u64,
    /// The time when the first byte of the response was captured.
    pub answered_ns: Option<u64>,
    /// The time when the response was complete.
    pub done_ns: Option<u64>,
}

/// The values that an endpoint reported in its qlog, in addition to packets.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct EndpointLog {
    /// The side that wrote the log: `A` or `B`.
    pub by: &'static str,
    /// The number of packets that the endpoint declared lost.
    pub lost: u64,
    /// The number of packets that the endpoint declared lost because of their age, and not because later packets were
    /// acknowledged.
    pub lost_by_time: u64,
    /// The number of received packets that the endpoint dropped, for example for lack of keys.
    pub dropped: u64,
    /// The largest number of consecutive probe timeouts.
    pub most_probes: u64,
    /// The smallest and the largest congestion window in bytes.
    pub congestion_window: Option<[u64; 2]>,
    /// The largest number of bytes in flight.
    pub most_in_flight: Option<u64>,
    /// The smallest and the largest smoothed round-trip time in nanoseconds.
    pub smoothed_rtt_ns: Option<[u64; 2]>,
}

/// The statistics of one data channel or transport of a WebRTC connection over time.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Statistics {
    /// The identifier of the connection in the dump.
    pub connection: String,
    /// The identifier of the statistics object.
    pub id: String,
    /// The type of the object: `data-channel`, `transport`, `sctp-transport` or `candidate-pair`.
    pub kind: String,
    /// The label of a data channel.
    pub label: Option<String>,
    /// The times of the values in nanoseconds since the first value of the dump.
    pub at_ns: Vec<u64>,
    /// The values by name, with one entry for each time. An entry is null if the dump has no number there.
    pub values: BTreeMap<String, Vec<Option<f64>>>,
}

/// The comparison of two captures of both ends.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct BothEnds {
    /// The name of the second file.
    pub file: String,
    /// The offset in bytes at which the second file ends in the middle of a packet, or null.
    pub cut_at: Option<u64>,
    /// The flows with packets in both files.
    pub flows: Vec<MatchedFlow>,
    /// The number of packets of each file that belong to no flow of the other file.
    pub elsewhere: [u64; 2],
    /// The number of packets of each file that were not compared because their number was limited.
    pub left_out: [u64; 2],
}

/// A flow whose packets are in both files: packets between two addresses and ports.
#[derive(Clone, PartialEq, Debug, Serialize)]
pub struct MatchedFlow {
    /// The two ends, each with address and port. The first file was captured at the first end.
    pub ends: [String; 2],
    /// Whether the times of the packets show at which end each file was captured. Otherwise, the first file is taken
    /// for the capture of the end that sent the first packet.
    pub ends_known: bool,
    /// The least time of a round trip between the two places of capture. Null if packets of one direction are missing.
    pub round_trip_ns: Option<u64>,
    /// The directions from the first end and from the second end.
    pub directions: [MatchedDirection; 2],
}

/// The packets of one direction of a flow, as both ends captured them.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct MatchedDirection {
    /// The number of packets that the sender's capture has.
    pub sent: u64,
    /// The number of packets that both the sender's and the receiver's capture have.
    pub arrived: u64,
    /// The number of packets that the receiver's capture does not have, although it was running when they would have
    /// arrived.
    pub lost: u64,
    /// The number of packets that were sent before the receiver's capture began or after it ended.
    pub outside: u64,
    /// The number of packets that only the receiver's capture has.
    pub only_received: u64,
    /// The number of packets that arrived after a packet that was sent later.
    pub overtaken: u64,
    /// The delays from end to end, minus the smallest delay. The clocks of the two hosts need not agree.
    pub delay: Delay,
}

/// The distribution of delays, each measured from the smallest delay.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Delay {
    /// The number of packets whose delay is known.
    pub samples: u64,
    /// The median in nanoseconds.
    pub median_ns: u64,
    /// The 95th percentile in nanoseconds.
    pub p95_ns: u64,
    /// The maximum in nanoseconds.
    pub max_ns: u64,
}

/// A data channel of WebRTC, opened by the Data Channel Establishment Protocol (RFC 8832).
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct DataChannel {
    /// The stream that carries the messages of the channel in both directions.
    pub stream: u16,
    /// The side that opened the channel: `A` or `B`.
    pub by: &'static str,
    /// The label.
    pub label: String,
    /// The protocol within the channel, or an empty text.
    pub protocol: String,
    /// Whether the channel is unordered.
    pub unordered: bool,
    /// The maximum number of retransmissions of a message. Null if the number is not limited.
    pub max_retransmits: Option<u32>,
    /// The maximum time in milliseconds during which a message is sent. Null if the time is not limited.
    pub max_lifetime_ms: Option<u32>,
    /// The time of DATA_CHANNEL_OPEN.
    pub opened_ns: u64,
    /// The time of DATA_CHANNEL_ACK. Null if it was not captured.
    pub accepted_ns: Option<u64>,
    /// The number of messages from A and from B, without messages of the establishment protocol.
    pub messages: [u64; 2],
    /// The number of bytes in the messages from A and from B.
    pub bytes: [u64; 2],
    /// The largest number of bytes that A and B had sent and that were not acknowledged. What a sender had buffered and
    /// not yet sent is unknown. 0 if findings were not requested.
    pub most_unacknowledged: [u64; 2],
    /// When these numbers were first reached. Null if they are 0.
    pub most_unacknowledged_ns: [Option<u64>; 2],
    /// The number of these bytes over time, from A and from B: pairs of a time in nanoseconds and a number of bytes. Of a
    /// long series, at most 256 pairs are kept: the largest numbers, each with its time.
    pub unacknowledged: [Vec<(u64, u64)>; 2],
    /// The numbers of messages and bytes on the stream that do not belong to the channel, from A and from B.
    #[serde(skip)]
    pub(super) before: [(u64, u64); 2],
    #[serde(skip)]
    pub(super) is_counted: bool,
}

/// A finding: a reason why a conversation was slow or failed.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Finding {
    /// The name of the rule that made this finding.
    pub rule: &'static str,
    /// The reason in plain sentences.
    pub text: String,
    /// The numbers of packets that show the reason, counted from 1 in the capture file. At most eight are given.
    pub packets: Vec<u64>,
    /// The time that was lost for this reason, or 0 if the packets do not show the time.
    pub cost_ns: u64,
}

/// How a conversation began.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Handshake {
    /// Whether the beginning of the conversation was captured.
    pub seen: bool,
    /// The duration of the handshake in nanoseconds: from the first INIT to the COOKIE ACK (SCTP), or from the first
    /// SYN to the ACK of the SYN ACK (TCP). Null if the handshake was not completed.
    pub took_ns: Option<u64>,
    /// The round-trip time between the two hosts in nanoseconds. If packets of the handshake were retransmitted, their
    /// last transmissions are measured.
    pub rtt_ns: Option<u64>,
    /// The number of INITs or SYNs that A sent.
    pub attempts: u64,
}

/// How a conversation ended.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize)]
pub struct ConversationEnd {
    /// The kind of end. `open` means that the conversation went on when the capture ended, and `incomplete` that its
    /// handshake was not completed. The other kinds are `shutdown`, `abort`, `closed`, `reset`, `restarted` and
    /// `refused`.
    pub how: &'static str,
    /// The side that ended the conversation, or that was the first to close it gracefully: `A` or `B`.
    pub by: Option<&'static str>,
    /// The time at which the conversation ended.
    pub at_ns: Option<u64>,
    /// The reason in the ABORT that ended the conversation, if any.
    pub reason: Option<String>,
}

/// The traffic that one side of a conversation sent.
#[derive(Clone, PartialEq, Debug, Default, Serialize)]
pub struct Direction {
    /// The number of packets.
    pub packets: u64,
    /// The total size of the packets in bytes, with IP headers.
    pub wire_bytes: u64,
    /// The number of damaged packets. Their checksum is wrong, and the peer did not acknowledge their data. The other
    /// fields do not include damaged packets.
    pub damaged: u64,
    /// The number of packets whose checksum the sender's network card computes after the capture. The captured value is
    /// wrong: a partial sum, 0, or any other value. A wrong checksum counts here and not in `damaged` if an
    /// acknowledgement or other evidence shows that the packet was intact.
    pub checksums_left: u64,
    /// The number of packets that are copies of earlier packets, made by the network or by the capture. No field except
    /// this one and `captured_twice` counts copies.
    pub copies: u64,
    /// The number of copies that the capture made: it recorded a packet again, at another place (for example, on
    /// another interface) or at the same place. These copies are included in `copies`.
    pub captured_twice: u64,
    /// SCTP: the number of chunks by type.
    pub chunks: BTreeMap<&'static str, u64>,
    /// The number of DATA or I-DATA chunks, or of TCP segments with data, without retransmissions.
    pub data: u64,
    /// SCTP: the number of user messages whose last fragment was captured.
    pub messages: u64,
    /// The number of bytes of user data, without retransmissions.
    pub bytes: u64,
    /// The first and the last TSN, or sequence number, of the data.
    pub numbers: Option<[u32; 2]>,
    /// The number of packets with retransmitted data.
    pub retransmitted_packets: u64,
    /// The number of packets with a fast retransmission.
    pub fast_packets: u64,
    /// Retransmitted chunks or segments by cause.
    #[serde(rename = "repairs")]
    pub retransmitted: Retransmitted,
    /// The number of times that a retransmission timer expired.
    pub timeouts: u64,
    /// The number of segments or chunks that arrived after later data because the network reordered packets.
    pub reordered: u64,
    /// The amount of data that was acknowledged but never captured, in TSNs (SCTP) or bytes (TCP).
    pub not_captured: u64,
    /// The time between data and its acknowledgement, measured at the place of capture.
    pub rtt: Rtt,
    /// The number of SACKs or ACKs that this side sent.
    pub acks: u64,
    /// The number of SACKs or ACKs that report gaps.
    pub gap_acks: u64,
    /// The largest number of gap blocks in an acknowledgement.
    pub most_gaps: u64,
    /// The number of duplicates that this side reported, as duplicate TSNs or D-SACK blocks.
    pub duplicates_reported: u64,
    /// TCP: the number of keep-alive probes that this side sent.
    pub keep_alives: u64,
    /// SCTP and QUIC: the streams by identifier. The number of QUIC streams is limited.
    pub streams: BTreeMap<u64, Stream>,
    /// SCTP: the number of user messages whose first fragment was captured, by payload protocol identifier. The map has
    /// a limited number of identifiers.
    pub ppids: BTreeMap<u32, u64>,
}

/// One stream in one direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Stream {
    /// The number of DATA or I-DATA chunks, without retransmissions.
    pub chunks: u64,
    /// The number of user messages whose last fragment was captured.
    pub messages: u64,
    /// The number of unordered user messages whose last fragment was captured.
    pub unordered: u64,
    /// The number of bytes of user data.
    pub bytes: u64,
    /// The first and the last TSN in this stream.
    pub tsns: [u32; 2],
    /// Retransmitted chunks by cause.
    #[serde(rename = "repairs")]
    pub retransmitted: Retransmitted,
}

/// The number of retransmissions, by cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Retransmitted {
    /// Retransmissions after acknowledgements that reported a gap.
    pub fast: u64,
    /// Retransmissions after a timer expired.
    pub timeout: u64,
    /// Retransmissions for a reason that the packets do not show, for example a probe or a change of path.
    pub other: u64,
    /// Retransmissions, whatever their cause, of data whose first transmission was not captured. They are inferred
    /// because the data fills a gap.
    pub inferred: u64,
    /// The number of spurious retransmissions (the receiver already had the data), whatever their cause.
    pub spurious: u64,
}

impl Retransmitted {
    /// Returns the number of retransmissions of any cause.
    #[must_use]
    pub fn all(&self) -> u64 {
        self.fast + self.timeout + self.other
    }
}

/// Statistics of measured round-trip times.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct Rtt {
    /// The number of round-trip times measured. Data that was sent more than once gives no measurement (Karn's
    /// algorithm).
    pub samples: u64,
    /// The minimum in nanoseconds.
    pub min_ns: u64,
    /// The mean in nanoseconds.
    pub mean_ns: u64,
    /// The maximum in nanoseconds.
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

/// A path, identified by a pair of addresses, with the counters of both directions.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Path {
    /// The addresses of A and B.
    pub addresses: [String; 2],
    /// The two directions: from A to B, and from B to A.
    pub directions: [PathDirection; 2],
}

/// The packets that one side sent on a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize)]
pub struct PathDirection {
    /// The number of packets.
    pub packets: u64,
    /// The total size of the packets in bytes, with IP headers.
    pub wire_bytes: u64,
    /// The number of DATA or I-DATA chunks, or of TCP segments with data, including retransmissions.
    pub data: u64,
    /// Retransmissions on this path by cause.
    #[serde(rename = "repairs")]
    pub retransmitted: Retransmitted,
    /// Round-trip times of heartbeats and of data sent on this path. Acknowledgements may return on any path.
    pub rtt: Rtt,
    /// The number of HEARTBEATs sent on this path, and the number of HEARTBEATs that were answered.
    pub heartbeats: [u64; 2],
    /// The times of the first and the last packet.
    pub span_ns: Option<[u64; 2]>,
}
