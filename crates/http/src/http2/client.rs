//! Code that all HTTP/2 client modules use: the settings with which a connection is opened, and how to find the reason
//! why a connection ended.

use super::io::Frame;
use super::{FOR_EVER, MAX_HEAD, RESETS, Windows};
use anabranch_transport::{CloseReason, RecordPosition};
use h2::client::Builder;
use std::collections::BTreeMap;
use std::io;

/// Configures the client side of an HTTP/2 connection with the given windows.
pub(crate) fn builder(windows: &Windows) -> Builder {
    let mut builder = Builder::new();
    builder
        .initial_window_size(windows.stream)
        .initial_connection_window_size(windows.connection)
        .max_frame_size(windows.max_frame_size)
        .max_header_list_size(MAX_HEAD)
        .initial_max_send_streams(windows.concurrent as usize)
        .enable_push(false)
        .max_concurrent_reset_streams(RESETS)
        .reset_stream_duration(FOR_EVER);
    builder
}

/// Returns a frame handler that calls `note` for each frame. The first argument is the ID of the frame's HTTP/2 stream.
/// The second is the frame's byte range in the concatenated frames of that stream. The third says whether the frame is
/// the stream's first.
pub(crate) fn noting(
    mut note: impl FnMut(u64, RecordPosition, bool) + 'static,
) -> impl FnMut(&Frame) + 'static {
    // For each stream, the total size in bytes of its frames so far.
    let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
    move |frame| {
        let first = !ends.contains_key(&frame.stream);
        let end = ends.entry(frame.stream).or_default();
        let position = *end..*end + (frame.span.end - frame.span.start);
        *end = position.end;
        if frame.last {
            ends.remove(&frame.stream);
        }
        // An entry is removed at the last frame of its stream. A stream that was reset has no last frame, so its entry
        // stays. If there are too many entries, remove the entry with the lowest stream number.
        if ends.len() > MOST_STREAMS {
            ends.pop_first();
        }
        note(frame.stream, RecordPosition { upper: position, lower: frame.span.clone() }, first);
    }
}

/// Returns the reason why a connection ended.
pub(crate) fn close_reason(error: &h2::Error) -> CloseReason {
    let text = format!("HTTP/2: {error}");
    match error.get_io().map(io::Error::kind) {
        // The session ended while requests were in progress.
        Some(io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof) => CloseReason::Finished,
        Some(io::ErrorKind::ConnectionReset) => CloseReason::Reset(text),
        Some(io::ErrorKind::TimedOut) => CloseReason::TimedOut(text),
        _ => CloseReason::Protocol(text),
    }
}

/// The maximum number of streams whose frames are counted at a time. It exceeds the number of streams that may be open.
const MOST_STREAMS: usize = 1_024;
