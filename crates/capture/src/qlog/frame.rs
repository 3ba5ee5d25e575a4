//! Frames in qlog.

use anabranch_wire::qlog;
use anabranch_wire::quic::Frame;
use serde_json::Value;

/// Replaces the content of frames, which a log does not have. No frame is longer, because a datagram has at most 65,527
/// bytes.
static CONTENT: [u8; 1 << 16] = [0; 1 << 16];
/// The maximum number of ranges that are read of an ACK frame.
const MAX_RANGES: usize = 1 << 12;

/// The names of the transport errors, from code 0 (RFC 9000 §20.1).
const ERRORS: &[&str] = &[
    "no_error",
    "internal_error",
    "connection_refused",
    "flow_control_error",
    "stream_limit_error",
    "stream_state_error",
    "final_size_error",
    "frame_encoding_error",
    "transport_parameter_error",
    "connection_id_limit_error",
    "protocol_violation",
    "invalid_token",
    "application_error",
    "crypto_buffer_exceeded",
    "key_update_error",
    "aead_limit_reached",
    "no_viable_path",
];

/// Returns a frame without its content, which a log does not have. Returns `None` for unknown frames.
pub(super) fn parse(value: &Value) -> Option<Frame<'static>> {
    let number = |name: &str| value[name].as_u64();
    // RFC 9000 §16: numbers on the wire are less than 2^62.
    let offset = number("offset").unwrap_or(0).min(1 << 62);
    Some(match value["frame_type"].as_str()? {
        "padding" => Frame::Padding,
        "ping" => Frame::Ping,
        "ack" => ack(value)?,
        "crypto" => Frame::Crypto { offset, data: content(value) },
        "stream" => {
            let fin = value["fin"].as_bool().unwrap_or(false);
            Frame::Stream { id: number("stream_id")?, offset, data: content(value), fin }
        }
        "max_data" => Frame::MaxData(number("maximum")?),
        "max_stream_data" => Frame::MaxStreamData { id: number("stream_id")?, limit: number("maximum")? },
        "data_blocked" => Frame::DataBlocked(number("limit")?),
        "stream_data_blocked" => {
            Frame::StreamDataBlocked { id: number("stream_id")?, limit: number("limit")? }
        }
        "max_streams" => {
            Frame::MaxStreams { unidirectional: is_unidirectional(value), limit: number("maximum")? }
        }
        "streams_blocked" => {
            Frame::StreamsBlocked { unidirectional: is_unidirectional(value), limit: number("limit")? }
        }
        "reset_stream" => Frame::ResetStream(number("stream_id")?),
        "stop_sending" => Frame::StopSending(number("stream_id")?),
        "new_connection_id" => Frame::NewConnectionId(&[]),
        "connection_close" => {
            // The crate qlog, which quiche and neqo use, has another word.
            let space = value["error_space"].as_str();
            let transport = !matches!(space, Some("application" | "application_error"));
            Frame::Close { transport, code: error_code(value, transport) }
        }
        "path_challenge" => Frame::PathChallenge(token(value)),
        "path_response" => Frame::PathResponse(token(value)),
        "unknown" => Frame::Other(number("raw_frame_type").or_else(|| number("frame_type_bytes"))?),
        name => Frame::Other((0..0x40).find(|kind| qlog::name(*kind) == Some(name))?),
    })
}

/// Returns as many bytes of [`CONTENT`] as the frame has. The length is in different fields in version 0.3 and in the
/// present draft. In the draft, it may be the length of the whole frame.
fn content(value: &Value) -> &'static [u8] {
    let raw = &value["raw"];
    let lengths = [&value["length"], &raw["payload_length"], &raw["length"]];
    let length = lengths.into_iter().find_map(Value::as_u64).unwrap_or(0);
    let length = usize::try_from(length).unwrap_or(usize::MAX).min(CONTENT.len());
    &CONTENT[..length]
}

fn ack(value: &Value) -> Option<Frame<'static>> {
    let ranges = value["acked_ranges"].as_array()?.iter().take(MAX_RANGES);
    let mut ranges: Vec<_> = ranges
        .filter_map(|range| {
            let first = range[0].as_u64()?;
            let last = range[1].as_u64().unwrap_or(first);
            (first <= last && last < 1 << 62).then_some(first..=last)
        })
        .collect();
    // As in the frame, the highest numbers come first.
    ranges.sort_by_key(|range| std::cmp::Reverse(*range.end()));
    (!ranges.is_empty()).then_some(Frame::Ack(ranges))
}

fn error_code(value: &Value, transport: bool) -> u64 {
    if let Some(code) = value["raw_error_code"].as_u64().or_else(|| value["error_code"].as_u64()) {
        return code;
    }
    let name = value["error"].as_str().or_else(|| value["error_code"].as_str()).unwrap_or_default();
    let known = ERRORS.iter().position(|error| transport && *error == name);
    let crypto = name.strip_prefix("crypto_error_0x");
    known.map(|code| code as u64).or_else(|| u64::from_str_radix(crypto?, 16).ok()).unwrap_or(0)
}

fn is_unidirectional(value: &Value) -> bool {
    value["stream_type"] == "unidirectional"
}

fn token(value: &Value) -> u64 {
    value["data"].as_str().and_then(|data| u64::from_str_radix(data, 16).ok()).unwrap_or(0)
}
