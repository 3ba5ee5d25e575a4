//! Formats events of QUIC as text in qlog format (draft-ietf-quic-qlog-main-schema, version 0.3), as JSON text sequences
//! (RFC 7464). Visualization tools read this version. Endpoints and the decoder of captures share this text.

use crate::quic::{Frame, Frames};
use std::fmt::{self, Write};

/// The type of a QUIC packet, named by the keys that protect it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PacketType {
    /// Initial packets, whose keys are derived from a connection ID.
    Initial,
    /// Packets that are protected by the keys of the handshake.
    Handshake,
    /// 0-RTT packets, whose keys come from an earlier connection.
    ZeroRtt,
    /// 1-RTT packets, whose keys are the result of the handshake.
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
    /// The type of the packet, which says what keys protect it.
    pub packet_type: PacketType,
    /// The packet number.
    pub number: u64,
    /// The length of the whole packet in bytes, including its header and its authentication tag.
    pub length: usize,
    /// The frames.
    pub payload: &'a [u8],
}

/// Returns the record with which a log begins. `vantage` is the content of the JSON object `vantage_point`, which says
/// where the events were observed, and `first` is the client's first destination connection ID.
#[must_use]
pub fn header(vantage: &str, first: &[u8]) -> String {
    format!(
        "{{\"qlog_version\":\"0.3\",\"qlog_format\":\"JSON-SEQ\",\"title\":\"anabranch {}\",\"trace\":{{\"vantage_point\":\
         {{{vantage}}},\"common_fields\":{{\"ODCID\":\"{}\",\"time_format\":\"relative\",\"reference_time\":0}}}}}}",
        env!("CARGO_PKG_VERSION"),
        Hex(first),
    )
}

/// Appends the beginning of a record for an event that happened `nanos` nanoseconds after the log began. The caller
/// appends the record's data and a closing brace.
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
    let mut rest = Frames(payload);
    loop {
        let bytes = rest.0;
        let Some(frame) = rest.next() else { break };
        if bytes.len() < payload.len() {
            text.push(',');
        }
        let _ = write!(text, "{}", QuicFrame(&frame, &bytes[..bytes.len() - rest.0.len()]));
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

/// Formats a frame as qlog's `QuicFrame`. Fields that [`Frame`] lacks are read from the bytes of the frame.
struct QuicFrame<'a>(&'a Frame<'a>, &'a [u8]);

impl QuicFrame<'_> {
    /// Returns the first numbers of the frame: its type, and fields that depend on the type.
    fn numbers(&self) -> [u64; 4] {
        let mut rest = Frames(self.1);
        std::array::from_fn(|_| rest.number().unwrap_or(0))
    }

    /// Writes a frame of a type for which [`Frame`] has no variant.
    fn other(&self, kind: u64, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [_, value, ..] = self.numbers();
        match kind {
            0x07 => write!(f, "{{\"frame_type\":\"new_token\",\"token\":{{\"length\":{value}}}}}"),
            0x19 => write!(f, "{{\"frame_type\":\"retire_connection_id\",\"sequence_number\":{value}}}"),
            _ => match name(kind) {
                Some(name) => write!(f, "{{\"frame_type\":\"{name}\"}}"),
                None => write!(f, "{{\"frame_type\":\"unknown\",\"raw_frame_type\":{kind}}}"),
            },
        }
    }
}

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
            Frame::MaxStreams { unidirectional, limit } => write!(
                f,
                "{{\"frame_type\":\"max_streams\",\"stream_type\":\"{}\",\"maximum\":{limit}}}",
                direction(*unidirectional)
            ),
            Frame::StreamsBlocked { unidirectional, limit } => write!(
                f,
                "{{\"frame_type\":\"streams_blocked\",\"stream_type\":\"{}\",\"limit\":{limit}}}",
                direction(*unidirectional)
            ),
            Frame::ResetStream(id) => {
                let [_, _, code, size] = self.numbers();
                write!(
                    f,
                    "{{\"frame_type\":\"reset_stream\",\"stream_id\":{id},\"error_code\":{code},\"final_size\":{size}}}"
                )
            }
            Frame::StopSending(id) => {
                let [_, _, code, _] = self.numbers();
                write!(f, "{{\"frame_type\":\"stop_sending\",\"stream_id\":{id},\"error_code\":{code}}}")
            }
            Frame::Padding => write!(f, "{{\"frame_type\":\"padding\",\"payload_length\":{}}}", self.1.len()),
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
            Frame::NewConnectionId(id) => {
                let [_, sequence, retired, _] = self.numbers();
                write!(
                    f,
                    "{{\"frame_type\":\"new_connection_id\",\"sequence_number\":{sequence},\"retire_prior_to\":{retired},\
                     \"connection_id\":\"{}\"}}",
                    Hex(id)
                )
            }
            Frame::Other(kind) => self.other(*kind, f),
        }
    }
}

const fn direction(unidirectional: bool) -> &'static str {
    if unidirectional { "unidirectional" } else { "bidirectional" }
}

/// Returns the qlog name of a frame type whose content is not logged; `None` if the type is unknown.
#[must_use]
pub const fn name(kind: u64) -> Option<&'static str> {
    Some(match kind {
        0x07 => "new_token",
        0x19 => "retire_connection_id",
        0x1e => "handshake_done",
        0x30 | 0x31 => "datagram",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// draft-ietf-quic-qlog-quic-events-01 appendix A: frames have all fields that the schema demands.
    #[test]
    fn frames_have_the_mandatory_fields_of_the_schema() {
        let payload = [
            &[0x04, 0x08, 0x07, 0x40, 0x64][..],
            &[0x05, 0x0c, 0x09],
            &[0; 3],
            &[0x07, 0x02, 1, 2],
            &[0x12, 0x10],
            &[0x17, 0x11],
            &[0x18, 0x03, 0x01, 0x02, 0xab, 0xcd],
            &[0; 16],
            &[0x19, 0x05],
        ]
        .concat();
        let mut text = String::new();
        packet(
            &mut text,
            1_500_000,
            true,
            LoggedPacket { packet_type: PacketType::OneRtt, number: 7, length: 99, payload: &payload },
        );
        for frame in [
            r#""frames":[{"frame_type":"reset_stream","stream_id":8,"error_code":7,"final_size":100},"#,
            r#",{"frame_type":"stop_sending","stream_id":12,"error_code":9},"#,
            r#",{"frame_type":"padding","payload_length":3},"#,
            r#",{"frame_type":"new_token","token":{"length":2}},"#,
            r#",{"frame_type":"max_streams","stream_type":"bidirectional","maximum":16},"#,
            r#",{"frame_type":"streams_blocked","stream_type":"unidirectional","limit":17},"#,
            r#",{"frame_type":"new_connection_id","sequence_number":3,"retire_prior_to":1,"connection_id":"abcd"},"#,
            r#",{"frame_type":"retire_connection_id","sequence_number":5}]}}"#,
        ] {
            assert!(text.contains(frame), "{frame}: {text}");
        }
    }

    #[test]
    fn text_is_escaped_only_where_json_demands_it() {
        // RFC 8259 §7: only quotation marks, reverse solidi and control characters are escaped.
        assert_eq!(Escaped("a \"b\" \\ c\n\u{1}é").to_string(), "a \\\"b\\\" \\\\ c\\u000a\\u0001é");
    }
}
