//! Forwards the bytes of a tunnel in both directions until both sides have closed their direction.
//!
//! On TCP each direction ends with a FIN. A stream of an association cannot be half-closed, so the bytes of a tunnel are
//! sent in chunks there (RFC 9112 §7.1). The last chunk is empty. Two gateways agree on this with a field in CONNECT and in
//! its response. After the tunnel the stream can carry another request.
//!
//! The bytes of a WebSocket are forwarded in the same way (RFC 6455 §4).
//!
//! Home of RFC 9110 §9.3.6 and §7.8.

use super::conn::{Conn, Moved, Pump, Stopped};
use super::head::{TUNNEL_FRAMING, write_field};
use super::watch::{Progress, SharedSessions, watched};
use super::{Activity, After, Service};
use anabranch_http::framing::Framing;
use anabranch_http::serve::Access;
use anabranch_http::upstream::{Ending, Lease, Upstream};
use anabranch_transport::{CloseReason, Stream};
use anabranch_world::World;
use std::future::{Future, poll_fn};
use std::task::Poll;

/// Sends `head` with its final fields to the client, and then forwards bytes in both directions until the tunnel ends.
pub(super) async fn relay<W: World, U: Upstream, D: Stream>(
    service: &Service<W, U>,
    down: &Conn<D>,
    up: Conn<Lease<U::Stream>>,
    (status, mut head): (u16, Vec<u8>),
    others: &Activity,
    access: &mut Access,
) -> After {
    let (near, far) = (service.options.half_close, service.upstream.half_close());
    let window = up.shared_window();
    let moved = Moved::new(&service.world);
    let progress = Progress::default();
    if !near {
        write_field(&mut head, TUNNEL_FRAMING, b"chunked");
        write_field(&mut head, "Connection", TUNNEL_FRAMING.as_bytes());
    }
    head.extend_from_slice(b"\r\n");
    access.status = status;
    let framing = |half_close| if half_close { Framing::Close } else { Framing::Chunked };
    let upward = async {
        let state = (&moved, &service.scratch, &progress.up);
        Pump::new((down, &up), state, Vec::new(), framing(near), !far).run().await?;
        if far {
            up.finish();
        }
        Ok(())
    };
    let downward = async {
        let state = (&moved, &service.scratch, &progress.down);
        Pump::new((&up, down), state, head, framing(far), !near).run().await?;
        if near {
            down.finish();
        }
        Ok(())
    };
    let shared = SharedSessions { upstream: window.as_deref(), client: others, half_close: near };
    let left = || (up.unacknowledged(), down.unacknowledged());
    let whole = watched(service, &moved, &progress, shared, left, both(upward, downward)).await;
    access.bytes = progress.down.carried.get();
    let clean = up.is_clean();
    let lease = up.into_stream();
    match whole {
        Ok(Ok(())) => {
            lease.end(match far {
                true => Ending::Over,
                false if clean => Ending::Reusable,
                false => Ending::Torn,
            });
            if near { After::Close } else { After::Reuse }
        }
        Err(_) => {
            lease.end(Ending::Torn);
            After::Tear(false)
        }
        Ok(Err((at_client, stopped))) => {
            let cancelled = |side: bool| match &stopped {
                Stopped::Source(CloseReason::Cancelled) => at_client == side,
                Stopped::Sink(CloseReason::Cancelled) => at_client != side,
                _ => false,
            };
            lease.end(if cancelled(false) { Ending::Cancelled } else { Ending::Torn });
            After::Tear(cancelled(true))
        }
    }
}

/// Polls both directions until both are done, or until one fails. The flag in the error is true if the direction from the
/// client failed.
async fn both(
    upward: impl Future<Output = Result<(), Stopped>>,
    downward: impl Future<Output = Result<(), Stopped>>,
) -> Result<(), (bool, Stopped)> {
    let (mut upward, mut downward) = (std::pin::pin!(upward), std::pin::pin!(downward));
    let mut done = (false, false);
    poll_fn(|cx| {
        if !done.0
            && let Poll::Ready(result) = upward.as_mut().poll(cx)
        {
            result.map_err(|stopped| (true, stopped))?;
            done.0 = true;
        }
        if !done.1
            && let Poll::Ready(result) = downward.as_mut().poll(cx)
        {
            result.map_err(|stopped| (false, stopped))?;
            done.1 = true;
        }
        if done == (true, true) { Poll::Ready(Ok(())) } else { Poll::Pending }
    })
    .await
}
