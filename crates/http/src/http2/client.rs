//! The HTTP/2 exchanges of a fetch. Each connection has a stream for each exchange.

use super::io::{Frame, Io, Scratch};
use super::response::{Event, Failure, Response as Incoming};
use super::{FOR_EVER, MAX_HEAD, RESETS, Windows};
use crate::fetch::own_stream::{Ended, Response};
use crate::fetch::state::{self, Fetch};
use crate::observe::{FetchError, Observer};
use anabranch_transport::{CloseReason, Connector, Piece, Session};
use anabranch_world::World;
use bytes::Bytes;
use h2::client::{Builder, SendRequest};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::rc::Weak;

/// Sends requests on an HTTP/2 connection.
pub(crate) type Requests = SendRequest<Bytes>;

/// Configures the client side of an HTTP/2 connection with the given windows.
pub(crate) fn builder(windows: &Windows) -> Builder {
    let mut builder = Builder::new();
    builder
        .initial_window_size(windows.stream)
        .initial_connection_window_size(windows.connection)
        .max_frame_size(windows.frame)
        .max_header_list_size(MAX_HEAD)
        .initial_max_send_streams(windows.concurrent as usize)
        .enable_push(false)
        .max_concurrent_reset_streams(RESETS)
        .reset_stream_duration(FOR_EVER);
    builder
}

/// Returns a frame handler that calls `note` for each frame: with the stream, the position of the frame in the stream, and
/// whether it is the first frame of that stream.
pub(crate) fn noting(mut note: impl FnMut(u64, Piece, bool) + 'static) -> impl FnMut(&Frame) + 'static {
    // The total size in bytes of the frames that each stream has had.
    let mut ends: BTreeMap<u64, u64> = BTreeMap::new();
    move |frame| {
        let first = !ends.contains_key(&frame.stream);
        let end = ends.entry(frame.stream).or_default();
        let above = *end..*end + (frame.span.end - frame.span.start);
        *end = above.end;
        if frame.last {
            ends.remove(&frame.stream);
        }
        // A stream that was reset has no last frame that removes its entry, so forget the oldest stream.
        if ends.len() > MOST_STREAMS {
            ends.pop_first();
        }
        note(frame.stream, Piece { above, below: frame.span.clone() }, first);
    }
}

/// Drives a connection of a fetch until it ends. Calls `on_frame` for each frame sent.
pub(crate) async fn drive<W: World, C: Connector, O: Observer + 'static>(
    fetch: Weak<RefCell<Fetch<W, C, O>>>,
    name: usize,
    session: C::Session,
    windows: Windows,
    on_frame: impl FnMut(&Frame) + 'static,
) {
    let reason = match run(&fetch, name, &session, windows, on_frame).await {
        Ok(()) => CloseReason::Finished,
        Err(reason) => reason,
    };
    session.close();
    if let Some(fetch) = fetch.upgrade() {
        fetch.borrow_mut().closed(name, &reason);
    }
}

async fn run<W: World, C: Connector, O: Observer + 'static>(
    fetch: &Weak<RefCell<Fetch<W, C, O>>>,
    name: usize,
    session: &C::Session,
    windows: Windows,
    mut on_frame: impl FnMut(&Frame) + 'static,
) -> Result<(), CloseReason> {
    let stream = session.open(0).map_err(|error| CloseReason::Protocol(error.to_string()))?;
    let (io, out) =
        Io::new(stream, true, Bytes::new(), Scratch::default(), Box::new(move |frame| on_frame(&frame)));
    let (requests, mut connection) = builder(&windows).handshake(io).await.map_err(|error| told(&error))?;
    if let Some(fetch) = fetch.upgrade() {
        fetch.borrow_mut().speaks(name, state::Requests::Http2(requests));
    }
    let ended = poll_fn(|cx| {
        let ended = Pin::new(&mut connection).poll(cx);
        // If the stream has failed, the next read reports the error.
        let _ = out.poll_flush(cx);
        ended
    });
    ended.await.map_err(|error| told(&error))
}

/// Returns the reason why a connection ended.
pub(crate) fn told(error: &h2::Error) -> CloseReason {
    let text = format!("HTTP/2: {error}");
    match error.get_io().map(io::Error::kind) {
        // The session ended while requests were in progress.
        Some(io::ErrorKind::BrokenPipe | io::ErrorKind::UnexpectedEof) => CloseReason::Finished,
        Some(io::ErrorKind::ConnectionReset) => CloseReason::Reset(text),
        Some(io::ErrorKind::TimedOut) => CloseReason::TimedOut(text),
        _ => CloseReason::Protocol(text),
    }
}

/// Reads the response to an exchange and passes it to `taker`.
pub(crate) async fn read<W: World, C: Connector, O: Observer + 'static>(
    mut response: Incoming,
    mut taker: Response<W, C, O>,
) -> Ended {
    loop {
        let taken = match poll_fn(|cx| response.poll(cx)).await {
            Err(failure) => return ended(&failure),
            Ok(None) => return Ended::Whole(taker.whole(ALL)),
            Ok(Some(Event::Head(head))) => taker.head(head.status, &head.fields),
            Ok(Some(Event::Data(bytes))) => taker.take(&bytes),
        };
        if let Err(wrong) = taken {
            return Ended::Whole(Err(wrong));
        }
    }
}

/// The maximum number of streams whose frames are counted at a time. It exceeds the number of streams that may be open.
const MOST_STREAMS: usize = 1_024;

/// Converts a failure to the end of an exchange.
fn ended(failure: &Failure) -> Ended {
    match failure {
        // The connection has ended, so the request can be sent again on another connection.
        Failure::Failed(error) if error.reason().is_none() || error.is_go_away() || error.is_io() => {
            Ended::Connection(told(error))
        }
        failure => Ended::Whole(Err(FetchError::BadResponse(failure.to_string()))),
    }
}

/// All bytes of an HTTP/2 stream, because it carries one exchange.
pub(crate) const ALL: std::ops::Range<u64> = 0..u64::MAX;
