//! Performs one exchange: forwards the request and the response, both while they are still arriving.
//!
//! Request and response are forwarded at the same time, because a response may begin before the request is complete. If
//! an error occurs before the response has begun, the gateway answers the client itself (RFC 9110 §15.6.3 Bad Gateway,
//! §15.6.5 Gateway Timeout). If the error occurs later, the gateway resets the client's stream, so that the client does
//! not take a partial response for a complete one.

use super::conn::{Conn, HeadError, NO_MEMORY, ProgressClock, Pump, PumpError};
use super::head::{Forwarded, Refusal, Request, Response, TUNNEL_FRAMING, write_field, write_tunnel_framing};
use super::target::Target;
use super::watch::{Progress, SharedSessions, WatchEnd, both, watched};
use super::{Activity, ClientStreamEnd, Options, Route, Service, tunnel};
use anabranch_http::authority::Origin;
use anabranch_http::framing::Framing;
use anabranch_http::serve::{Access, Date};
use anabranch_http::upstream::{Lease, ReachError, StreamOutcome, Upstream};
use anabranch_transport::{CloseReason, Stream};
use anabranch_world::World;
use http::StatusCode;
use std::borrow::Cow;
use std::future::{pending, poll_fn};

/// The reason why an exchange failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum ExchangeError {
    /// The client closed the stream, or its connection failed.
    Client(CloseReason),
    /// The body of the request is malformed.
    Body,
    /// The peer closed the stream, or its connection failed, before the response was complete.
    Peer(CloseReason),
    /// The response is malformed, or cannot be forwarded.
    Answer(&'static str),
    /// The memory budget has no room for the head of the response.
    Memory,
    /// The exchange made no progress for too long.
    Timeout,
    /// The server's response cannot arrive, because the unread data of another stream fills the receive window of the
    /// association. All streams of the association share this window. The exchange can be repeated on another
    /// association.
    Trapped,
}

/// The result of receiving the peer's response.
enum ReceivedResponse {
    /// A complete response was forwarded. `reusable` says whether the peer's stream can carry another request. `after`
    /// is the state of the client's stream.
    All { reusable: bool, after: ClientStreamEnd },
    /// The response opens a tunnel. The fields are the status and the head that the client gets.
    Tunnel(u16, Vec<u8>),
}

/// The origin to which a request is forwarded, and the Host field and request target that are sent to it.
pub(super) struct ForwardTarget<'a> {
    pub(super) to: Origin,
    host: String,
    target: Cow<'a, str>,
    /// The fields that describe the client to the origin of a reverse gateway.
    forwarded: Option<Forwarded>,
}

/// Performs one exchange (a request and its response) with the client on the stream `down`. All streams of the client's
/// session share `activity`.
pub(super) async fn exchange<W: World, U: Upstream, D: Stream>(
    service: &Service<W, U>,
    down: &Conn<D>,
    request: &Request,
    activity: &Activity,
    access: &mut Access,
) -> ClientStreamEnd {
    let refuse = async |refusal: Refusal, access: &mut Access| {
        answer(service, down, request, &refusal, request.framing == Framing::Empty, access).await
    };
    let destination = match forward_target(service, request, activity) {
        Ok(destination) => destination,
        Err(refusal) => return refuse(refusal, access).await,
    };
    let Some(_permit) = activity.share.try_acquire() else {
        return refuse(Refusal::new(503, "the gateway is at its limit of exchanges"), access).await;
    };
    let (mut fresh, mut was_restarted) = (false, false);
    let client = activity.peer.map(|peer| peer.ip());
    loop {
        let lease = match service.upstream.reach(&destination.to, fresh, client).await {
            Ok(lease) => lease,
            Err(why) => {
                let refusal = refusal_of(&why);
                // Reports the fault to the operator, because the client cannot repair it.
                if let (Some(faults), Some(line)) = (&service.options.faults, authentication_failure(&why)) {
                    faults.tell(&format!("{}: {line}", destination.to));
                }
                return refuse(refusal, access).await;
            }
        };
        let tunnel_here = request.is_tunnel() && !service.upstream.is_gateway();
        if tunnel_here {
            let up = Conn::new(lease, activity.memory.clone());
            return tunnel::relay(service, down, up, (200, opened(service)), activity, access).await;
        }
        let reused = lease.reused;
        let progress =
            Progress { is_restartable: request.is_retryable() && !was_restarted, ..Progress::default() };
        let (result, up) =
            forward(service, down, request, &destination, lease, activity, &progress, access).await;
        access.bytes = progress.down.transferred.get();
        let failed = match result {
            Ok(ReceivedResponse::All { reusable, after }) => {
                up.into_stream().end(if reusable { StreamOutcome::Reusable } else { StreamOutcome::Torn });
                return after;
            }
            // Bytes that follow the head belong to the tunnel.
            Ok(ReceivedResponse::Tunnel(status, head)) => {
                return tunnel::relay(service, down, up, (status, head), activity, access).await;
            }
            Err(failed) => failed,
        };
        up.into_stream().end(match failed {
            ExchangeError::Peer(CloseReason::Cancelled) => StreamOutcome::Cancelled,
            _ => StreamOutcome::Torn,
        });
        let stale = matches!(failed, ExchangeError::Peer(_)) && reused && !progress.answered.get();
        if failed == ExchangeError::Trapped {
            was_restarted = true;
            continue;
        }
        if stale && !fresh && request.is_retryable() {
            // RFC 9112 §9.3.1: the peer closed an idle connection while this request was in flight, so repeat the
            // request on a new connection.
            fresh = true;
            continue;
        }
        if let ExchangeError::Client(reason) = &failed {
            return ClientStreamEnd::Tear(*reason == CloseReason::Cancelled);
        }
        if progress.final_response_started.get() {
            return match failed {
                ExchangeError::Peer(_) | ExchangeError::Answer(_) => ClientStreamEnd::Cut,
                _ => ClientStreamEnd::Tear(false),
            };
        }
        let refusal = match failed {
            ExchangeError::Body => Refusal::new(400, "the body of the request is malformed"),
            ExchangeError::Answer(why) => Refusal::new(502, why),
            ExchangeError::Memory => Refusal::new(503, NO_MEMORY),
            ExchangeError::Timeout if !progress.up.done.get() && !progress.up.blocked.get() => {
                Refusal::new(408, "the request did not arrive in time")
            }
            ExchangeError::Timeout | ExchangeError::Trapped => {
                Refusal::new(504, "the server did not answer in time")
            }
            ExchangeError::Client(_) | ExchangeError::Peer(_) => {
                Refusal::new(502, "the server closed the connection before it answered")
            }
        };
        return answer(service, down, request, &refusal, progress.up.done.get(), access).await;
    }
}

/// Returns the response head that tells the client that its tunnel is open. The caller adds the empty line at its end.
fn opened<W, U>(service: &Service<W, U>) -> Vec<u8> {
    let mut head = b"HTTP/1.1 200 Connection established\r\n".to_vec();
    write_field(&mut head, "Via", format!("1.1 {}", service.options.name).as_bytes());
    head
}

/// Returns the origin to which `request` is forwarded, or the reason why the request is refused.
fn forward_target<'a, W, U: Upstream>(
    service: &Service<W, U>,
    request: &'a Request,
    client: &Activity,
) -> Result<ForwardTarget<'a>, Refusal> {
    if request.came_by(&service.options.name) {
        return Err(Refusal::new(508, "the request has passed this gateway before"));
    }
    if request.method == "TRACE" {
        return Err(Refusal::new(405, "this gateway does not support TRACE"));
    }
    if request.max_forwards() == Some(0) {
        return Err(Refusal::new(200, "a gateway"));
    }
    let Options { route, secure, trusted_proxies, .. } = &service.options;
    let forwarded = matches!(route, Route::Origin(_))
        .then(|| Forwarded::new(client.peer.map(|peer| peer.ip()), *secure, trusted_proxies));
    let is_trusted = forwarded.as_ref().is_some_and(Forwarded::is_trusted);
    let onward = |to: &Origin, host, target| ForwardTarget { to: to.clone(), host, target, forwarded };
    match (route, &request.target) {
        (Route::Origin(_), Target::Tunnel(_)) => Err(Refusal::new(405, "a reverse gateway opens no tunnels")),
        // RFC 9110 §7.4: a request for an https resource is refused if it arrived neither over TLS nor from a trusted
        // proxy.
        (Route::Origin(_), Target::Absolute(origin, _)) if origin.secure && !secure && !is_trusted => {
            Err(Refusal::new(400, "a resource of https is not served in the clear"))
        }
        (Route::Origin(origin), Target::Origin(path) | Target::Absolute(_, path)) => {
            Ok(onward(origin, origin.host(), path.into()))
        }
        (Route::Origin(origin), Target::Server) => Ok(onward(origin, origin.host(), "*".into())),
        (Route::Any, Target::Tunnel(to)) => {
            // The gateway forwards the bytes of a tunnel unchanged. It therefore connects to the origin without TLS.
            Ok(onward(&Origin::new(to.clone(), false), to.to_string(), to.to_string().into()))
        }
        (Route::Any, Target::Absolute(to, path)) => {
            let target = match (service.upstream.is_gateway(), path.as_str()) {
                (false, _) => path.into(),
                (true, "*") => to.to_string().into(),
                (true, _) => format!("{to}{path}").into(),
            };
            Ok(onward(to, to.host(), target))
        }
        (Route::Any, Target::Origin(_) | Target::Server) => {
            Err(Refusal::new(400, "this is a proxy: send it http://HOST/PATH, https://HOST/PATH or CONNECT"))
        }
    }
}

/// Returns a line for the operator if the target could not be authenticated.
fn authentication_failure(why: &ReachError) -> Option<String> {
    match why {
        ReachError::NoTrust(why) => Some(why.clone()),
        ReachError::Closed(reason @ (CloseReason::Untrusted(_) | CloseReason::Protocol(_))) => {
            Some(reason.to_string())
        }
        _ => None,
    }
}

fn refusal_of(why: &ReachError) -> Refusal {
    match why {
        ReachError::Forbidden => Refusal::new(403, "the target is not allowed"),
        ReachError::Loop => Refusal::new(508, "the target is this gateway"),
        ReachError::Unresolved => Refusal::new(502, "the target's name does not resolve"),
        ReachError::Timeout | ReachError::Closed(CloseReason::TimedOut(_)) => {
            Refusal::new(504, "the target did not answer in time")
        }
        ReachError::Connect(_) => Refusal::new(502, "the target is unreachable"),
        ReachError::NoTrust(_) => {
            Refusal::new(502, "the gateway has no certificate authorities to verify the target")
        }
        ReachError::Closed(CloseReason::Untrusted(why)) => {
            Refusal::new(502, format!("the target is not trusted: {why}"))
        }
        ReachError::Closed(CloseReason::Protocol(why)) => {
            Refusal::new(502, format!("no connection over TLS with the target: {why}"))
        }
        ReachError::Closed(CloseReason::Refused) => Refusal::new(502, "the target refused the connection"),
        ReachError::Closed(_) => Refusal::new(502, "the connection to the target failed"),
    }
}

/// Forwards the request to the target on the stream in `lease`, and forwards the response to the client.
#[expect(clippy::too_many_arguments, reason = "both ends of an exchange and what is told of it")]
async fn forward<W: World, U: Upstream, D: Stream>(
    service: &Service<W, U>,
    down: &Conn<D>,
    request: &Request,
    destination: &ForwardTarget<'_>,
    lease: Lease<U::Stream>,
    activity: &Activity,
    progress: &Progress,
    access: &mut Access,
) -> (Result<ReceivedResponse, ExchangeError>, Conn<Lease<U::Stream>>) {
    let up = Conn::new(lease, activity.memory.clone());
    let window = up.shared_window();
    let progress_clock = ProgressClock::new(&service.world);
    let name = &service.options.name;
    let mut head = request.write_forwarded_head(
        &destination.host,
        &destination.target,
        name,
        destination.forwarded.as_ref(),
    );
    let upgrade = upgrades(service, request);
    if upgrade {
        write_upgrade(&mut head);
    }
    if (request.is_tunnel() || upgrade) && !service.upstream.half_close() {
        write_tunnel_framing(&mut head);
    }
    head.extend_from_slice(b"\r\n");
    let sending = async {
        let chunked = request.framing == Framing::Chunked;
        let state = (&progress_clock, &service.scratch, &progress.up);
        match Pump::new((down, &up), state, head, request.framing, chunked).run().await {
            Ok(()) => Err(wait_for_disconnect(down).await),
            Err(PumpError::Source(reason)) => Err(ExchangeError::Client(reason)),
            Err(PumpError::Framing) => Err(ExchangeError::Body),
            // The peer has stopped reading the request. It may already have sent a response, so the gateway still waits
            // for the response.
            Err(PumpError::Sink(_)) => pending().await,
        }
    };
    let receiving = receive(service, down, &up, request, progress, &progress_clock, access);
    let shared = SharedSessions {
        upstream: window.as_deref(),
        client: activity,
        half_close: service.options.half_close,
    };
    let left = || (up.unacknowledged(), down.unacknowledged());
    let whole =
        watched(service, &progress_clock, progress, shared, left, both(sending, receiving, false)).await;
    let reusable = matches!(whole, Ok(Ok(_))) && progress.up.done.get() && up.is_clean();
    let result = match whole {
        Err(WatchEnd::Stalled) => Err(ExchangeError::Timeout),
        Err(WatchEnd::Trapped) => Err(ExchangeError::Trapped),
        Ok(Ok(ReceivedResponse::All { reusable: theirs, after })) => {
            Ok(ReceivedResponse::All { reusable: reusable && theirs, after })
        }
        Ok(result) => result,
    };
    (result, up)
}

/// Waits until the client's connection fails. Bytes that the client sends meanwhile are kept, up to a limit.
async fn wait_for_disconnect<D: Stream>(down: &Conn<D>) -> ExchangeError {
    loop {
        if down.held_bytes() >= MAX_PIPELINED || !down.admits_more() {
            return pending().await;
        }
        match poll_fn(|cx| down.poll_fill(cx)).await {
            // RFC 9112 §9.6: a client that has closed its sending side may still want the response. A client that does
            // not want it resets the connection when the response arrives.
            Ok(0) => return pending().await,
            Ok(_) => {}
            Err(reason) => return ExchangeError::Client(reason),
        }
    }
}

/// Forwards the response to the client: first interim responses, then the final head, then the body.
async fn receive<W: World, U: Upstream, D: Stream>(
    service: &Service<W, U>,
    down: &Conn<D>,
    up: &Conn<Lease<U::Stream>>,
    request: &Request,
    progress: &Progress,
    progress_clock: &ProgressClock<W>,
    access: &mut Access,
) -> Result<ReceivedResponse, ExchangeError> {
    let (mut interim, mut interim_bytes) = (0, 0);
    loop {
        let head =
            up.response_head(service.options.max_head.max(MIN_HEAD)).await.map_err(|why| match why {
                HeadError::Ended => ExchangeError::Peer(CloseReason::Finished),
                HeadError::Lost(reason) => ExchangeError::Peer(reason),
                HeadError::Refused(refusal) if refusal.status == 503 => ExchangeError::Memory,
                HeadError::Refused(_) => {
                    ExchangeError::Answer("the head of the answer is malformed or too large")
                }
            })?;
        progress.answered.set(true);
        progress_clock.record_progress();
        let response = Response::parse(&head, &request.method, service.upstream.half_close());
        let head_bytes = head.len();
        // Drop the head now. Otherwise the head would stay in memory until the whole body has been forwarded.
        drop(head);
        let response = response.map_err(ExchangeError::Answer)?;
        if let Some(tunnel) = tunnel_head(service, request, &response)? {
            return Ok(tunnel);
        }
        if !response.is_interim() {
            return deliver(service, (down, up), request, response, progress, progress_clock, access).await;
        }
        interim += 1;
        interim_bytes += head_bytes;
        if interim > MAX_INTERIM || interim_bytes > MAX_INTERIM_BYTES {
            return Err(ExchangeError::Answer("the server sent too many interim answers and no final one"));
        }
        // RFC 9110 §15.2: an HTTP/1.0 client does not understand interim responses.
        if request.minor > 0 {
            let mut head =
                response.write_client_head(Framing::Empty, false, &service.options.name, None, None);
            head.extend_from_slice(b"\r\n");
            drop(response);
            let _held = down.holding(head.len());
            down.write_all(&head).await.map_err(ExchangeError::Client)?;
        }
    }
}

/// Returns the head with which the gateway opens a tunnel to the client. `response` opens a tunnel if its status is
/// 101, or if it is a successful response to CONNECT. Returns `None` if `response` does not open a tunnel.
fn tunnel_head<W, U: Upstream>(
    service: &Service<W, U>,
    request: &Request,
    response: &Response,
) -> Result<Option<ReceivedResponse>, ExchangeError> {
    let switches = response.status == 101;
    if switches && !(upgrades(service, request) && response.has_field_value("upgrade", WEBSOCKET)) {
        return Err(ExchangeError::Answer("the answer changes the protocol without a request to do so"));
    }
    if !(switches || request.is_tunnel() && (200..300).contains(&response.status)) {
        return Ok(None);
    }
    if !service.upstream.half_close() && !response.has_field_value(TUNNEL_FRAMING, "chunked") {
        return Err(ExchangeError::Answer("the next gateway does not support Tunnel-Framing"));
    }
    if !switches {
        return Ok(Some(ReceivedResponse::Tunnel(200, opened(service))));
    }
    // RFC 9110 §7.8: Upgrade and Connection apply to a single hop, so the gateway writes these two fields itself.
    let mut head = response.write_client_head(Framing::Empty, false, &service.options.name, None, None);
    write_upgrade(&mut head);
    Ok(Some(ReceivedResponse::Tunnel(101, head)))
}

/// Forwards the final response to the client: the head, then the body.
async fn deliver<W: World, U: Upstream, D: Stream>(
    service: &Service<W, U>,
    (down, up): (&Conn<D>, &Conn<Lease<U::Stream>>),
    request: &Request,
    response: Response,
    progress: &Progress,
    progress_clock: &ProgressClock<W>,
    access: &mut Access,
) -> Result<ReceivedResponse, ExchangeError> {
    // HTTP/1.0 has no chunks, so a body of unknown length ends with the connection.
    let framing = match (response.framing, request.minor) {
        (Framing::Close, 1..) => Framing::Chunked,
        (Framing::Chunked, 0) => Framing::Close,
        (framing, _) => framing,
    };
    if framing == Framing::Close && !service.options.half_close {
        return Err(ExchangeError::Answer(
            "an HTTP/1.0 client on a stream cannot see the end of this answer",
        ));
    }
    // RFC 9931: a client may send bytes for a tunnel before the tunnel is open. If the response opens no tunnel, these
    // bytes must not be read as a request.
    let ahead = upgrades(service, request) && !down.is_clean();
    let must_close = request.is_tunnel() || ahead || !progress.up.done.get();
    let close = request.close || framing == Framing::Close || must_close;
    let origin = match &service.options.route {
        Route::Origin(origin) => Some(origin),
        Route::Any => None,
    };
    let chunked = framing == Framing::Chunked;
    // RFC 9110 §6.5.1: forward trailers only to clients that accept them, and only in chunks.
    let trailers = request.accepts_trailers() && chunked && response.framing == Framing::Chunked;
    let mut head = response.write_client_head(
        framing,
        close,
        &service.options.name,
        origin,
        service.date.now().as_ref(),
    );
    if trailers {
        response.announce_trailers(&mut head);
    }
    head.extend_from_slice(b"\r\n");
    access.status = response.status;
    progress.final_response_started.set(true);
    let state = (progress_clock, &service.scratch, &progress.down);
    let (framing, reusable) = (response.framing, !response.close);
    drop(response);
    let pump = Pump::new((up, down), state, head, framing, chunked);
    match pump.with_trailers(trailers).run().await {
        Ok(()) => {
            let after = match close {
                _ if must_close => ClientStreamEnd::Part,
                true => ClientStreamEnd::Close,
                false => ClientStreamEnd::Reuse,
            };
            Ok(ReceivedResponse::All { reusable, after })
        }
        Err(PumpError::Source(reason)) => Err(ExchangeError::Peer(reason)),
        Err(PumpError::Framing) => Err(ExchangeError::Answer("the answer ended early")),
        Err(PumpError::Sink(reason)) => Err(ExchangeError::Client(reason)),
    }
}

/// Appends the header fields with which a head requests or accepts a WebSocket.
fn write_upgrade(head: &mut Vec<u8>) {
    write_field(head, "Upgrade", WEBSOCKET.as_bytes());
    write_field(head, "Connection", b"Upgrade");
}

/// Returns whether the request asks for a WebSocket (RFC 6455 §4.1) that can be forwarded. Upgrades to other protocols
/// are not forwarded. With h2c, for example, intermediaries would not see the requests inside.
fn upgrades<W, U>(service: &Service<W, U>, request: &Request) -> bool {
    request.upgrades_to(WEBSOCKET)
        && (service.options.half_close || request.has_field_value(TUNNEL_FRAMING, "chunked"))
}

/// Answers the client with `refusal`. `complete` says whether the whole request has been read.
pub(super) async fn answer<W: World, U, D: Stream>(
    service: &Service<W, U>,
    down: &Conn<D>,
    request: &Request,
    refusal: &Refusal,
    complete: bool,
    access: &mut Access,
) -> ClientStreamEnd {
    access.status = refusal.status;
    access.bytes = if request.method == "HEAD" { 0 } else { own_body(refusal).len() as u64 };
    // RFC 9931: bytes after a refused CONNECT may be meant for the tunnel, so they are not read as a request.
    let complete = complete && !request.is_tunnel();
    let close = request.close || !complete;
    let text = own_answer(refusal, close, request.method == "HEAD", &service.date);
    match service.world.timeout(service.options.idle, down.write_all(&text)).await {
        Some(Ok(())) if !complete => ClientStreamEnd::Part,
        Some(Ok(())) if close => ClientStreamEnd::Close,
        Some(Ok(())) => ClientStreamEnd::Reuse,
        Some(Err(reason)) => ClientStreamEnd::Tear(reason == CloseReason::Cancelled),
        None => ClientStreamEnd::Tear(false),
    }
}

/// Returns a response that the gateway itself generates.
pub(super) fn own_answer(refusal: &Refusal, close: bool, head_only: bool, date: &Date) -> Vec<u8> {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_GATEWAY);
    let reason = status.canonical_reason().unwrap_or("Error");
    let mut out = format!("HTTP/1.1 {} {reason}\r\n", status.as_u16()).into_bytes();
    let body = own_body(refusal);
    if let Some(date) = date.now() {
        write_field(&mut out, "Date", date.as_bytes());
    }
    write_field(&mut out, "Content-Type", b"text/plain; charset=utf-8");
    write_field(&mut out, "Content-Length", body.len().to_string().as_bytes());
    if refusal.status == 405 {
        write_field(&mut out, "Allow", b"GET, HEAD, POST, PUT, PATCH, DELETE, OPTIONS");
    }
    if close {
        write_field(&mut out, "Connection", b"close");
    }
    out.extend_from_slice(b"\r\n");
    if !head_only {
        out.extend_from_slice(body.as_bytes());
    }
    out
}

/// Returns the body of a response that the gateway itself generates.
pub(super) fn own_body(refusal: &Refusal) -> String {
    format!("anabranch gateway: {}\n", refusal.why)
}

/// The only protocol to which the gateway forwards an upgrade.
const WEBSOCKET: &str = "websocket";
/// The maximum number of interim responses before the final response. RFC 9110 §15.2 sets no limit, but a peer must not
/// delay the final response forever.
const MAX_INTERIM: u32 = 32;
/// The maximum number of bytes of all interim responses of an exchange.
const MAX_INTERIM_BYTES: usize = 128 * 1024;
/// The maximum number of bytes that a client may send before its current exchange ends.
const MAX_PIPELINED: usize = 16 * 1024;
/// The smallest limit in bytes for the head of a response.
const MIN_HEAD: usize = 64 * 1024;
