//! Forwards the bytes of a tunnel in both directions, until the client and the peer have both ended their direction.
//!
//! On TCP each direction ends with a FIN. A stream of an association cannot be half-closed, so it carries the bytes of
//! a tunnel in chunks (RFC 9112 §7.1). An empty chunk ends a direction. Two gateways agree to use chunks: the CONNECT
//! request and its response both contain the field `Tunnel-Framing: chunked`. After the tunnel the stream can carry
//! another request.
//!
//! The bytes of a WebSocket connection are forwarded in the same way as those of a tunnel (RFC 6455 §4).
//!
//! Implements RFC 9110 §9.3.6 and §7.8.

use super::conn::{Conn, ProgressClock, Pump, PumpError};
use super::head::write_tunnel_framing;
use super::watch::{Progress, SharedSessions, both, watched};
use super::{Activity, ClientStreamEnd, Service};
use anabranch_http::framing::Framing;
use anabranch_http::serve::Access;
use anabranch_http::upstream::{Lease, StreamOutcome, Upstream};
use anabranch_transport::{CloseReason, Stream};
use anabranch_world::World;

/// Sends the response `head` to the client. If the client's transport has no half-close, the head announces the framing
/// of the tunnel. Then forwards bytes in both directions until the tunnel ends.
pub(super) async fn relay<W: World, U: Upstream, D: Stream>(
    service: &Service<W, U>,
    down: &Conn<D>,
    up: Conn<Lease<U::Stream>>,
    (status, mut head): (u16, Vec<u8>),
    activity: &Activity,
    access: &mut Access,
) -> ClientStreamEnd {
    let (client_half_close, upstream_half_close) =
        (service.options.half_close, service.upstream.half_close());
    let window = up.shared_window();
    let progress_clock = ProgressClock::new(&service.world);
    let progress = Progress::default();
    if !client_half_close {
        write_tunnel_framing(&mut head);
    }
    head.extend_from_slice(b"\r\n");
    access.status = status;
    let framing = |half_close| if half_close { Framing::Close } else { Framing::Chunked };
    let upward = async {
        let state = (&progress_clock, &service.scratch, &progress.up);
        let pump =
            Pump::new((down, &up), state, Vec::new(), framing(client_half_close), !upstream_half_close);
        let pumped = pump.run().await.map_err(|stopped| (true, stopped));
        if upstream_half_close && pumped.is_ok() {
            up.finish();
        }
        pumped
    };
    let downward = async {
        let state = (&progress_clock, &service.scratch, &progress.down);
        let pump = Pump::new((&up, down), state, head, framing(upstream_half_close), !client_half_close);
        let pumped = pump.run().await.map_err(|stopped| (false, stopped));
        if client_half_close && pumped.is_ok() {
            down.finish();
        }
        pumped
    };
    let shared =
        SharedSessions { upstream: window.as_deref(), client: activity, half_close: client_half_close };
    let left = || (up.unacknowledged(), down.unacknowledged());
    let whole =
        watched(service, &progress_clock, &progress, shared, left, both(upward, downward, true)).await;
    access.bytes = progress.down.transferred.get();
    let clean = up.is_clean();
    let lease = up.into_stream();
    match whole {
        Ok(Ok(())) => {
            lease.end(match upstream_half_close {
                true => StreamOutcome::Over,
                false if clean => StreamOutcome::Reusable,
                false => StreamOutcome::Torn,
            });
            if client_half_close { ClientStreamEnd::Close } else { ClientStreamEnd::Reuse }
        }
        Err(_) => {
            lease.end(StreamOutcome::Torn);
            ClientStreamEnd::Tear(false)
        }
        Ok(Err((at_client, stopped))) => {
            let cancelled = |side: bool| match &stopped {
                PumpError::Source(CloseReason::Cancelled) => at_client == side,
                PumpError::Sink(CloseReason::Cancelled) => at_client != side,
                _ => false,
            };
            lease.end(if cancelled(false) { StreamOutcome::Cancelled } else { StreamOutcome::Torn });
            ClientStreamEnd::Tear(cancelled(true))
        }
    }
}
