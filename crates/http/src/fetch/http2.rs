//! The HTTP/2 exchanges of a fetch. Each connection has a stream for each exchange.

use super::Fetch;
use super::own_stream::{ExchangeEnd, Requests};
use crate::http2::Windows;
use crate::http2::client::{builder, close_reason};
use crate::http2::io::{Frame, Io, Scratch};
use crate::http2::response::Failure;
use crate::observe::FetchError;
use anabranch_transport::{CloseReason, Connector, Session};
use anabranch_world::World;
use bytes::Bytes;
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Weak;

/// Drives a connection of a fetch until it ends. Calls `on_frame` for each frame sent.
pub(super) async fn drive<W: World, C: Connector>(
    fetch: Weak<RefCell<Fetch<W, C>>>,
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

async fn run<W: World, C: Connector>(
    fetch: &Weak<RefCell<Fetch<W, C>>>,
    name: usize,
    session: &C::Session,
    windows: Windows,
    mut on_frame: impl FnMut(&Frame) + 'static,
) -> Result<(), CloseReason> {
    let stream = session.open(0).map_err(|error| CloseReason::Protocol(error.to_string()))?;
    let (io, out) =
        Io::new(stream, true, Bytes::new(), Scratch::default(), Box::new(move |frame| on_frame(&frame)));
    let (requests, mut connection) =
        builder(&windows).handshake(io).await.map_err(|error| close_reason(&error))?;
    if let Some(fetch) = fetch.upgrade() {
        fetch.borrow_mut().set_requests(name, Requests::Http2(requests));
    }
    let ended = poll_fn(|cx| {
        let ended = Pin::new(&mut connection).poll(cx);
        // If the stream has failed, the next read reports the error.
        let _ = out.poll_flush(cx);
        ended
    });
    ended.await.map_err(|error| close_reason(&error))
}

/// Converts a failure to the end of an exchange.
pub(super) fn ended(failure: &Failure) -> ExchangeEnd {
    match failure {
        // The connection has ended, so the request can be sent again on another connection.
        Failure::Failed(error) if error.reason().is_none() || error.is_go_away() || error.is_io() => {
            ExchangeEnd::Connection(close_reason(error))
        }
        failure => ExchangeEnd::Completed(Err(FetchError::BadResponse(failure.to_string()))),
    }
}

/// All bytes of an HTTP/2 stream, because it carries one exchange.
pub(super) const ALL: std::ops::Range<u64> = 0..u64::MAX;
