//! Determines the HTTP version of a session with a single stream, if the server speaks both HTTP/1.1 and HTTP/2.
//!
//! Over TLS, ALPN has negotiated the version. Without TLS, a client with prior knowledge of HTTP/2 begins with the
//! HTTP/2 preface (RFC 9113 §3.3). The preface is not a valid HTTP/1.1 request.

use super::exchanges::StreamExchanges;
use super::{Activity, ExchangePermit, Service, Site, Versions, http2, stream};
use crate::http2::{ALPN, PREFACE};
use anabranch_transport::{Session, Stream};
use anabranch_world::World;
use bytes::Bytes;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The HTTP version of a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum StreamVersion {
    Http1,
    Http2,
    /// The first bytes of the client will decide the version.
    Unknown,
}

/// Returns the HTTP version of a stream if it is known before data arrives, otherwise [`StreamVersion::Unknown`].
pub(super) fn known_version<N: Session>(
    versions: Versions,
    (session, stream): &(N, N::Stream),
) -> StreamVersion {
    match versions {
        Versions::Http1 | Versions::Http3 => StreamVersion::Http1,
        Versions::Http2 => StreamVersion::Http2,
        // HTTP/2 needs a stream that closes each direction separately, as TCP does.
        Versions::Both if !stream.supports_half_close() => StreamVersion::Http1,
        Versions::Both => match session.protocol() {
            Some(name) if name == ALPN => StreamVersion::Http2,
            Some(_) => StreamVersion::Http1,
            None => StreamVersion::Unknown,
        },
    }
}

/// Reads the first bytes of a stream and serves the version that they indicate.
pub(super) async fn serve<W, S, N>(
    service: Rc<Service<W, S>>,
    exchanges: Rc<StreamExchanges>,
    (session, mut stream): (N, N::Stream),
    activity: Rc<Activity>,
    exchange: ExchangePermit,
) where
    W: World,
    S: Site,
    N: Session,
{
    let mut seen = Vec::new();
    let is_http2 = poll_fn(|cx| {
        let ends = service.options.stop.is_some() && activity.poll_stopping(exchanges.stream, cx).is_ready();
        let preface = poll_preface(&mut stream, &mut seen, cx);
        if preface.is_pending() && !seen.is_empty() {
            // A client that stops in the middle of the preface is treated like a client that stops in the middle of a
            // head: the head timeout applies.
            activity.head_begins(exchanges.stream, service.world.now());
        }
        // A server that is being stopped does not wait for the first bytes of a stream.
        if ends && preface.is_pending() { Poll::Ready(None) } else { preface.map(Some) }
    })
    .await;
    activity.head_ends(exchanges.stream);
    let seen = Bytes::from(seen);
    match is_http2 {
        None => {
            activity.forget(exchanges.stream);
            stream.finish();
        }
        Some(false) => {
            activity.record_bytes(service.world.now(), seen.len());
            Box::pin(stream::serve(service, exchanges, (session, stream), activity, exchange, seen)).await;
        }
        // Both futures are boxed. Otherwise a stream that has sent nothing yet would reserve space for the larger
        // future.
        Some(true) => Box::pin(http2::serve(service, (session, stream), activity, exchange, seen)).await,
    }
}

/// Completes when it is clear whether the client sends the HTTP/2 preface. `seen` holds the bytes read so far.
fn poll_preface<T: Stream>(stream: &mut T, seen: &mut Vec<u8>, cx: &mut Context<'_>) -> Poll<bool> {
    loop {
        if !PREFACE.starts_with(seen) {
            return Poll::Ready(false);
        }
        if seen.len() == PREFACE.len() {
            return Poll::Ready(true);
        }
        let mut buffer = [0; PREFACE.len()];
        let room = PREFACE.len() - seen.len();
        match stream.poll_read(cx, &mut buffer[..room]) {
            Poll::Pending => return Poll::Pending,
            // The stream has ended. The HTTP/1.1 code handles this case.
            Poll::Ready(Ok(0) | Err(_)) => return Poll::Ready(false),
            Poll::Ready(Ok(read)) => seen.extend_from_slice(&buffer[..read]),
        }
    }
}
