//! HTTP/3 on the streams of a session: RFC 9114, by the crate `h3`.
//!
//! Frames, settings and QPACK (RFC 9204) are h3's. Ours is what it leaves open: the streams below it, whose bytes a server
//! writes next (RFC 9218, by the turns of [`http2::priority`](crate::http2::priority)), and bounds on what it holds. h3 needs
//! no executor and reads no clock. It draws randomness to send what must be ignored (greasing, RFC 9114 §7.2.8), which is
//! off here. Of QPACK it has the static table alone, so heads are not compressed by what earlier ones held, as they are over
//! HTTP/2. An exchange has a QUIC stream of its own, and its bytes lie there as an engine's trace counts them.
//!
//! - `streams`: the streams of a session as h3 uses them
//! - `client`: exchanges of a fetch; the server's side is `serve`'s

pub(crate) mod client;
pub(crate) mod streams;

use anabranch_transport::CloseReason;
use h3::error::{ConnectionError, LocalError, StreamError};
use h3::quic::ConnectionErrorIncoming;
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Poll};

/// The protocol's name in ALPN (RFC 9114 §3.1).
pub const ALPN: &[u8] = b"h3";
/// The largest head that is taken, bytes as HTTP/3 counts them (RFC 9114 §4.2.2).
pub(crate) const MAX_HEAD: u64 = 64 * 1024;

/// Polls something of h3 that is whole at its first poll, or waits for what is asked for again later.
pub(crate) fn once<F: Future>(future: F, cx: &mut Context<'_>) -> Option<F::Output> {
    match pin!(future).as_mut().poll(cx) {
        Poll::Ready(output) => Some(output),
        Poll::Pending => None,
    }
}

/// Why a connection ended.
pub(crate) fn told(error: &ConnectionError) -> CloseReason {
    if error.is_h3_no_error() {
        return CloseReason::Finished;
    }
    match error {
        ConnectionError::Timeout => CloseReason::TimedOut(String::new()),
        ConnectionError::Local { error: LocalError::Application { code, reason, .. } } => {
            CloseReason::Protocol(format!("HTTP/3: {reason} ({code})"))
        }
        ConnectionError::Remote(ConnectionErrorIncoming::Undefined(why)) => {
            let reason = why.downcast_ref::<CloseReason>();
            reason.cloned().unwrap_or_else(|| CloseReason::Protocol(format!("HTTP/3: {why}")))
        }
        other => CloseReason::Protocol(format!("HTTP/3: {other}")),
    }
}

/// What is wrong with an exchange, in one line.
pub(crate) fn wrong(error: &StreamError) -> String {
    match error {
        StreamError::StreamError { code, reason } => format!("HTTP/3: {reason} ({code})"),
        StreamError::RemoteTerminate { code } => format!("HTTP/3: cancelled by the peer ({code})"),
        StreamError::HeaderTooBig { actual_size, max_size } => {
            format!("HTTP/3: a head of {actual_size} bytes, where {max_size} are taken")
        }
        StreamError::ConnectionError(error) => told(error).to_string(),
        StreamError::Undefined(why) => format!("HTTP/3: {why}"),
        other => format!("HTTP/3: {other}"),
    }
}
