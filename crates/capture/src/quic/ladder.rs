//! Formats frames for ladder diagrams.

use anabranch_wire::quic::Frame;
use std::fmt::Write;

/// Appends a frame to a ladder line.
pub(super) fn append(text: &mut String, frame: &Frame<'_>) {
    // Writing to a string does not fail.
    let _ = match frame {
        Frame::Padding => Ok(()),
        Frame::Stream { id, offset, data, fin } => {
            let end = if *fin { " FIN" } else { "" };
            write!(text, " STREAM {id} {offset}+{}{end}", data.len())
        }
        Frame::Crypto { offset, data } => write!(text, " CRYPTO {offset}+{}", data.len()),
        Frame::Ack(ranges) => {
            text.push_str(" ACK");
            ranges.iter().rev().try_for_each(|range| match range.start() == range.end() {
                true => write!(text, " {}", range.start()),
                false => write!(text, " {}-{}", range.start(), range.end()),
            })
        }
        Frame::MaxData(limit) => write!(text, " MAX_DATA {limit}"),
        Frame::MaxStreamData { id, limit } => write!(text, " MAX_STREAM_DATA {id} {limit}"),
        Frame::DataBlocked(limit) => write!(text, " DATA_BLOCKED {limit}"),
        Frame::StreamDataBlocked { id, limit } => write!(text, " STREAM_DATA_BLOCKED {id} {limit}"),
        Frame::MaxStreams { unidirectional, .. } => {
            write!(text, " frame 0x{:x}", 0x12 + u8::from(*unidirectional))
        }
        Frame::StreamsBlocked { unidirectional, .. } => {
            write!(text, " frame 0x{:x}", 0x16 + u8::from(*unidirectional))
        }
        Frame::ResetStream(id) => write!(text, " RESET_STREAM {id}"),
        Frame::StopSending(id) => write!(text, " STOP_SENDING {id}"),
        Frame::Ping => write!(text, " PING"),
        Frame::NewConnectionId(_) => write!(text, " NEW_CONNECTION_ID"),
        Frame::Close { code, .. } => write!(text, " CONNECTION_CLOSE 0x{code:x}"),
        Frame::PathChallenge(_) => write!(text, " PATH_CHALLENGE"),
        Frame::PathResponse(_) => write!(text, " PATH_RESPONSE"),
        Frame::Other(0x1e) => write!(text, " HANDSHAKE_DONE"),
        Frame::Other(kind) => write!(text, " frame 0x{kind:x}"),
    };
}
