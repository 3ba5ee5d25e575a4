//! Formats events of QUIC as text in qlog format (draft-ietf-quic-qlog-main-schema, version 0.3), as JSON text sequences
//! (RFC 7464). Visualization tools read this version. Endpoints and the decoder of captures share this text.

use crate::quic::{Frame, Frames};
use std::fmt::{self, Write};

/// The kind of keys that protect a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketType {
    /// Keys that are derived from a connection ID.
    Initial,
    /// Keys of the handshake.
    Handshake,
    /// Keys of an earlier connection.
    ZeroRtt,
    /// Keys that the handshake has agreed on.
    OneRtt,
}

impl PacketType {
    /// Returns the name of these keys in qlog's `PacketType`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Initial => "initial",
            Self::Handshake => "handshake",
            Self::ZeroRtt => "0RTT",
            Self::OneRtt => "1RTT",
        }
    }
}

/// A packet with its plaintext payload: a sent packet before encryption, or a received packet after decryption.
#[derive(Clone, Copy, Debug)]
pub struct LoggedPacket<'a> {
    /// The kind of keys.
    pub packet_type: PacketType,
    /// The packet number.
    pub number: u64,
    /// The length of the whole packet in bytes, including its header and its authentication tag.
    pub length: usize,
    /// The frames.
    pub payload: &'a [u8],
}

/// Returns the record with which a log begins. `vantage` is the content of the JSON object that says where the events
/// were observed, and `first` is the client's first destination connection ID.
#[must_use]
pub fn header(vantage: &str, first: &[u8]) -> String {
    format!(
        "{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"title\":\"anabranch {}\",\"trace\":{{\"vantage_point\":\
         {{{vantage}}},\"common_fields\":{{\"ODCID\":\"{}\",\"time_format\":\"relative\",\"reference_time\":0}}}}}}",
        env!("CARGO_PKG_VERSION"),
        Hex(first),
    )
}

/// Appends the beginning of a record, which happened `nanos` nanoseconds after the log began. The caller appends the
/// record's data and a closing brace.
pub fn begin_event(text: &mut String, nanos: u64, name: &str) {
    let (millis, rest) = (nanos / 1_000_000, nanos % 1_000_000);
    // Writing to a string does not fail.
    let _ = write!(text, "{{\"time\":{millis}.{rest:06},\"name\":\"{name}\",\"data\":");
}

/// Appends a record for a packet that is being sent or has been received.
pub fn packet(text: &mut String, nanos: u64, sent: bool, packet: LoggedPacket<'_>) {
    begin_event(text, nanos, if sent { "transport:packet_sent" } else { "transport:packet_received" });
    let LoggedPacket { packet_type, number, length, payload } = packet;
    let _ = write!(
        text,
        "{{\"header\":{{\"packet_type\":\"{}\",\"packet_number\":{number}}},\"raw\":{{\"length\":{length},\
         \"payload_length\":{}}},\"frames\":[",
        packet_type.name(),
        payload.len(),
    );
    let mut first = true;
    for frame in Frames(payload) {
        if !std::mem::replace(&mut first, false) {
            text.push(',');
        }
        let _ = write!(text, "{}", QuicFrame(&frame));
    }
    text.push_str("]}}");
}

/// Formats bytes as hexadecimal digits.
#[derive(Clone, Copy, Debug)]
pub struct Hex<'a>(pub &'a [u8]);

impl fmt::Display for Hex<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

/// Formats text as the content of a JSON string (RFC 8259 §7).
#[derive(Clone, Copy, Debug)]
pub struct Escaped<'a>(pub &'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|c| match c {
            '"' | '\\' => write!(f, "\\{c}"),
            c if c.is_control() => write!(f, "\\u{:04x}", u32::from(c)),
            c => f.write_char(c),
        })
    }
}

/// Formats a frame as qlog's `QuicFrame`.
struct QuicFrame<'a>(&'a Frame<'a>);

impl fmt::Display for QuicFrame<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            Frame::Stream { id, offset, data, fin } => write!(
                f,
                "{{\"frame_type\":\"stream\",\"stream_id\":{id},\"offset\":{offset},\"length\":{},\"fin\":{fin}}}",
                data.len()
            ),
            Frame::Ack(ranges) => {
                f.write_str("{\"frame_type\":\"ack\",\"acked_ranges\":[")?;
                for (at, range) in ranges.iter().rev().enumerate() {
                    let comma = if at > 0 { "," } else { "" };
                    write!(f, "{comma}[{},{}]", range.start(), range.end())?;
                }
                f.write_str("]}")
            }
            Frame::Crypto { offset, data } => {
                write!(f, "{{\"frame_type\":\"crypto\",\"offset\":{offset},\"length\":{}}}", data.len())
            }
            Frame::MaxData(most) => write!(f, "{{\"frame_type\":\"max_data\",\"maximum\":{most}}}"),
            Frame::MaxStreamData { id, limit: most } => {
                write!(f, "{{\"frame_type\":\"max_stream_data\",\"stream_id\":{id},\"maximum\":{most}}}")
            }
            Frame::DataBlocked(limit) => {
                write!(f, "{{\"frame_type\":\"data_blocked\",\"limit\":{limit}}}")
            }
            Frame::StreamDataBlocked { id, limit } => {
                write!(f, "{{\"frame_type\":\"stream_data_blocked\",\"stream_id\":{id},\"limit\":{limit}}}")
            }
            Frame::ResetStream(id) => {
                write!(f, "{{\"frame_type\":\"reset_stream\",\"stream_id\":{id}}}")
            }
            Frame::StopSending(id) => {
                write!(f, "{{\"frame_type\":\"stop_sending\",\"stream_id\":{id}}}")
            }
            Frame::Padding => f.write_str("{\"frame_type\":\"padding\"}"),
            Frame::Ping => f.write_str("{\"frame_type\":\"ping\"}"),
            Frame::Close { transport, code } => {
                let space = if *transport { "transport" } else { "application" };
                write!(
                    f,
                    "{{\"frame_type\":\"connection_close\",\"error_space\":\"{space}\",\"raw_error_code\":{code}}}"
                )
            }
            Frame::PathChallenge(token) => {
                write!(f, "{{\"frame_type\":\"path_challenge\",\"data\":\"{token:016x}\"}}")
            }
            Frame::PathResponse(token) => {
                write!(f, "{{\"frame_type\":\"path_response\",\"data\":\"{token:016x}\"}}")
            }
            Frame::NewConnectionId(_) => f.write_str("{\"frame_type\":\"new_connection_id\"}"),
            Frame::Other(kind) => match name(*kind) {
                Some(name) => write!(f, "{{\"frame_type\":\"{name}\"}}"),
                None => write!(f, "{{\"frame_type\":\"unknown\",\"raw_frame_type\":{kind}}}"),
            },
        }
    }
}

/// Returns the qlog name of a frame type whose content is not logged; `None` if the type is unknown.
#[must_use]
pub const fn name(kind: u64) -> Option<&'static str> {
    Some(match kind {
        0x07 => "new_token",
        0x12 | 0x13 => "max_streams",
        0x16 | 0x17 => "streams_blocked",
        0x19 => "retire_connection_id",
        0x1e => "handshake_done",
        0x30 | 0x31 => "datagram",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped_only_where_json_demands_it() {
        // RFC 8259 §7: only quotation marks, reverse solidi and control characters are escaped.
        assert_eq!(Escaped("a \"b\" \\ c\n\u{1}é").to_string(), "a \\\"b\\\" \\\\ c\\u000a\\u0001é");
    }
}
