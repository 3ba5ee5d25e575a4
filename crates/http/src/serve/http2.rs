//! Serves a session over HTTP/2. Each request has a stream, and responses are written in the order of their priorities.
//!
//! h2 writes the data that it gets, one stream after the other. Therefore `Writer` passes little data to h2 at a time.
//! `Writer` waits until h2 holds fewer than [`UNSENT`] bytes that the transport has not yet accepted. It then passes
//! the next piece of the most urgent response (RFC 9218). A more urgent request then waits at most for those bytes and
//! for the bytes that the transport has accepted. The transport accepts no more than its window allows plus [`UNSENT`]
//! bytes.

use super::reply::{PreparedResponse, RequestGuard, Sending, Unwritten, reply};
use super::site::Site;
use super::{Activity, ExchangePermit, Service};
use crate::authority::{Authority, default_port};
use crate::head::{Strictness, is_host, is_path_and_query};
use crate::http2::client::noting;
use crate::http2::faults::Inspector;
use crate::http2::io::{Frame, Io};
use crate::http2::server::{CHUNK, CONCURRENT, UNSENT, WINDOW};
use crate::http2::{FOR_EVER, MAX_HEAD, RESETS};
use crate::message::check_fields;
use crate::observe::ExchangeId;
use anabranch_base::time::Instant;
use anabranch_transport::Session;
use anabranch_world::{Tasks, World};
use bytes::Bytes;
use h2::server::{Builder, SendResponse};
use h2::{Reason, RecvStream, SendStream};
use http::header::{EXPECT, HOST};
use http::{Method, Request};
use std::cell::{Cell, RefCell};
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Serves a session over HTTP/2 until the client or an error ends it, or until the server is stopped.
pub(super) async fn serve<W, S, N>(
    service: Rc<Service<W, S>>,
    (session, stream): (N, N::Stream),
    activity: Rc<Activity>,
    // The permit that accounts for the memory of the exchange. It is held until the stream has no more data.
    _exchange: ExchangePermit,
    // The bytes that were already read from the stream.
    seen: Bytes,
) where
    W: World,
    S: Site,
    N: Session,
{
    session.limit_unsent(UNSENT as u64);
    let writer = Rc::new(RefCell::new(Writer::default()));
    let id = session.id();
    let polled = Rc::new(Polled { woken_at: Cell::new(service.world.now()), response_frames: Cell::new(0) });
    let on_frame = on_frame(service.clone(), activity.clone(), writer.clone(), polled.clone(), id);
    let (mut io, out) = Io::new(stream, false, seen, service.scratch.clone(), Box::new(on_frame));
    let mut patience =
        Patience { inspector: io.inspect(), at_last_progress: (0, 0), ended: false, refused: false };
    activity.memory.hold(STATE);
    let Ok(mut connection) = builder(service.options.max_head).handshake::<_, Bytes>(io).await else {
        activity.memory.release(STATE);
        session.close();
        return;
    };
    let tasks = Tasks::new(service.world.clone());
    let stops = service.options.stop.is_some();
    let mut ending = false;
    poll_fn(|cx| {
        if stops && activity.poll_stopping(0, cx).is_ready() && !std::mem::replace(&mut ending, true) {
            // Responses in progress are completed, but no more requests are accepted.
            connection.graceful_shutdown();
        }
        out.begin();
        patience.inspector.borrow_mut().begin();
        polled.woken_at.set(service.world.now());
        // This loop also writes the data that it adds to `writer`, so adding data need not wake the task.
        writer.borrow_mut().responses.waker = None;
        loop {
            // Polling removes completed tasks.
            let _ = tasks.poll_idle(cx);
            if patience.ends(polled.response_frames.get()) {
                // RFC 9113 §10.5: the client has sent too many frames since a response last made progress, although
                // each single frame is allowed.
                connection.abrupt_shutdown(Reason::ENHANCE_YOUR_CALM);
            }
            let accepted = connection.poll_accept(cx);
            if patience.misses_settings() {
                // RFC 9113 §3.4: an invalid preface is a connection error. Requests that follow the preface are not
                // answered.
                connection.abrupt_shutdown(Reason::PROTOCOL_ERROR);
                continue;
            }
            match accepted {
                Poll::Ready(Some(Ok((request, mut respond)))) => {
                    activity.record_bytes(polled.woken_at.get(), 0);
                    if service.options.strictness == Strictness::Strictly && is_malformed(&request) {
                        // RFC 9113 §8.1.1: a malformed request is a stream error.
                        respond.send_reset(Reason::PROTOCOL_ERROR);
                        continue;
                    }
                    let answer =
                        answer(service.clone(), activity.clone(), writer.clone(), id, request, respond);
                    // Most responses are complete at once and need no task of their own.
                    let mut answer = Box::pin(answer);
                    if answer.as_mut().poll(cx).is_pending() {
                        tasks.spawn("http/2 answer", answer);
                    }
                }
                Poll::Ready(_) => return Poll::Ready(()),
                // h2 has passed its data to the transport, so `writer` may pass more data to h2.
                Poll::Pending if writer.borrow_mut().write(cx) => {}
                Poll::Pending => {
                    // If the stream has failed, the next read reports the error.
                    let _ = out.poll_flush(cx);
                    return Poll::Pending;
                }
            }
        }
    })
    .await;
    if stops {
        activity.forget(0);
    }
    activity.memory.release(STATE);
    session.close();
}

/// Configures the server side of a connection, which accepts heads of up to `max_head` bytes.
fn builder(max_head: Option<usize>) -> Builder {
    let mut builder = Builder::new();
    builder
        .initial_window_size(WINDOW)
        .max_concurrent_streams(CONCURRENT)
        .max_header_list_size(max_head.map_or(MAX_HEAD, |most| most.min(1 << 30) as u32))
        .max_concurrent_reset_streams(RESETS)
        .reset_stream_duration(FOR_EVER)
        .max_send_buffer_size(UNSENT);
    builder
}

/// The state that the task of a session shares with the handler of its outgoing frames.
struct Polled {
    /// When the task was last woken. All actions of the task until it yields happen at this time.
    woken_at: Cell<Instant>,
    /// The number of response frames sent.
    response_frames: Cell<u64>,
}

/// Returns the function that is called for each response frame that h2 writes on `connection`.
fn on_frame<W: World, S: Site>(
    service: Rc<Service<W, S>>,
    activity: Rc<Activity>,
    writer: Rc<RefCell<Writer>>,
    polled: Rc<Polled>,
    connection: u64,
) -> impl FnMut(Frame) {
    let mut note = noting(move |stream, piece, first| {
        if first {
            service.recorder.written(ExchangeId { connection, stream, index: 0 }, service.world.now());
        }
        service.recorder.answered(connection, stream, piece);
    });
    move |frame| {
        note(&frame);
        polled.response_frames.set(polled.response_frames.get() + 1);
        writer.borrow_mut().on_accepted(frame.stream, frame.data.unwrap_or(0));
        activity.record_bytes(polled.woken_at.get(), (frame.span.end - frame.span.start) as usize);
    }
}

/// Counts the frames of a client that cause no response, and decides when the server ends the connection.
struct Patience {
    inspector: Rc<RefCell<Inspector>>,
    /// The numbers of response frames sent and client frames received, at the time of the last progress of a response.
    at_last_progress: (u64, u64),
    /// Whether the connection was ended because the client sent too many frames.
    ended: bool,
    refused: bool,
}

impl Patience {
    /// Returns whether the connection must end now, because the client has sent too many frames since a response last
    /// made progress. Returns true only once. `response_frames` is the number of response frames sent so far.
    fn ends(&mut self, response_frames: u64) -> bool {
        let received = self.inspector.borrow().frames();
        if response_frames != self.at_last_progress.0 {
            self.at_last_progress = (response_frames, received);
        }
        received - self.at_last_progress.1 > MAX_UNPRODUCTIVE_FRAMES
            && !std::mem::replace(&mut self.ended, true)
    }

    /// Returns true once: in the first call after the client has begun with a frame other than SETTINGS.
    fn misses_settings(&mut self) -> bool {
        self.inspector.borrow().lacks_settings() && !std::mem::replace(&mut self.refused, true)
    }
}

/// Checks the rules of RFC 9113 §8.2.1 and §8.3.1 that h2 does not check. A request is malformed if its fields are
/// malformed or its target is not valid in a URL. It is also malformed if `:authority` has userinfo or differs from
/// Host.
fn is_malformed<B>(request: &Request<B>) -> bool {
    if check_fields(request.headers()).is_err() {
        return true;
    }
    let uri = request.uri();
    let target = uri.path_and_query().map(http::uri::PathAndQuery::as_str);
    let asterisk = target == Some("*") && request.method() == Method::OPTIONS;
    let is_path = |target: &str| target.starts_with('/') && is_path_and_query(target);
    if !asterisk && !target.is_none_or(is_path) {
        return true;
    }
    let authority = uri.authority().map(http::uri::Authority::as_str);
    // RFC 9113 §8.5: CONNECT needs `:authority`, which names the host and port to connect to.
    if request.method() == Method::CONNECT && authority.is_none() {
        return true;
    }
    if authority.is_some_and(|authority| !is_host(authority)) {
        return true;
    }
    let Some(host) = request.headers().get(HOST) else { return false };
    let Some(host) = host.to_str().ok().filter(|host| is_host(host)) else { return true };
    let port = default_port(uri.scheme_str() == Some("https"));
    authority.is_some_and(|authority| !is_same(authority, host, port))
}

/// Returns whether two authorities are the same. `port` is the default port of the scheme.
fn is_same(one: &str, other: &str, port: u16) -> bool {
    let read = |text| Authority::parse(text, Some(port));
    one.eq_ignore_ascii_case(other) || read(one).is_some_and(|one| read(other) == Some(one))
}

/// How many frames a client may send between two response frames.
const MAX_UNPRODUCTIVE_FRAMES: u64 = 20_000;

/// The approximate memory of an h2 session in bytes: its buffers in both directions, and its header tables.
const STATE: usize = 64 * 1024;

/// Answers one request, from reading its content to handing the response to `writer`.
async fn answer<W: World, S: Site>(
    service: Rc<Service<W, S>>,
    activity: Rc<Activity>,
    writer: Rc<RefCell<Writer>>,
    connection: u64,
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
) {
    let stream = u64::from(respond.stream_id().as_u32());
    let (head, mut content) = request.into_parts();
    let request = Request::from_parts(head, ());
    // A client that sent Expect may delay its content until it sees a response. Therefore the server does not wait for
    // the content (RFC 9110 §10.1.1).
    let waits = service.options.strictness == Strictness::Strictly && !request.headers().contains_key(EXPECT);
    if waits && !content.is_end_stream() && !read_content(&*service, &activity, &mut content).await {
        // RFC 9113 §8.1.1: a malformed request is a stream error. If h2 has already reset the stream, this reset has no
        // effect.
        return respond.send_reset(Reason::PROTOCOL_ERROR);
    }
    let PreparedResponse { response, sending, bodiless, priority } =
        reply(&service, &activity, (connection, stream), &request, false).await;
    // If the client has cancelled the request, sending fails, and there is nothing more to do.
    let sent = respond.send_response(response, bodiless);
    if let (Ok(send), false) = (sent, bodiless) {
        let body = Body { send, sending: Some(sending), unsent: 0 };
        writer.borrow_mut().responses.add(stream, priority, body);
    }
}

/// Reads the content of a request before the request is answered, because content and trailers may still be malformed
/// (RFC 9113 §8.1.1). Stops after [`MAX_CONTENT`] bytes or [`MAX_CONTENT_WAIT`]. Returns false if the request is
/// malformed or its stream was reset.
async fn read_content<W: World, S: Site>(
    service: &Service<W, S>,
    activity: &Activity,
    content: &mut RecvStream,
) -> bool {
    let mut read = 0;
    let reading = async {
        while read <= MAX_CONTENT {
            match poll_fn(|cx| content.poll_data(cx)).await {
                Some(Ok(data)) => {
                    read += data.len();
                    activity.record_bytes(service.world.now(), 0);
                    let _ = content.flow_control().release_capacity(data.len());
                }
                Some(Err(_)) => return false,
                None => {
                    let trailers = poll_fn(|cx| content.poll_trailers(cx)).await;
                    // RFC 9113 §8.2.1: the rules for field values hold in trailers, too.
                    return trailers
                        .is_ok_and(|trailers| trailers.is_none_or(|it| check_fields(&it).is_ok()));
                }
            }
        }
        true
    };
    service.world.timeout(MAX_CONTENT_WAIT, reading).await.unwrap_or(true)
}

/// The maximum number of content bytes of a request that are read before the response.
const MAX_CONTENT: usize = 1 << 20;
/// The maximum time that the response waits for the content of its request.
const MAX_CONTENT_WAIT: Duration = Duration::from_secs(1);

/// The body of a response that h2 or the transport has not accepted completely.
struct Body {
    send: SendStream<Bytes>,
    /// The content; `None` once h2 has the whole content.
    sending: Option<Sending<RequestGuard>>,
    /// The number of bytes that were passed to h2 and are not yet with the transport.
    unsent: u64,
}

/// Writes the responses of a session to h2, and holds those that are not completely written.
#[derive(Default)]
struct Writer {
    responses: Unwritten<Body>,
    /// The number of response bytes that the h2 library holds and has not yet written to the transport.
    unsent: u64,
}

impl Writer {
    /// Records that the transport has accepted `bytes` bytes of the response on `stream`.
    fn on_accepted(&mut self, stream: u64, bytes: u64) {
        let Some(body) = self.responses.bodies.get_mut(&stream) else { return };
        let bytes = bytes.min(body.unsent);
        body.unsent -= bytes;
        self.unsent -= bytes;
        if body.unsent == 0 && body.sending.is_none() {
            self.responses.bodies.remove(&stream);
        }
    }

    fn has_room(&self) -> bool {
        self.unsent < UNSENT as u64
    }

    /// Passes response data to h2 until h2 holds [`UNSENT`] bytes or no response can continue. Returns whether any data
    /// was passed.
    fn write(&mut self, cx: &mut Context<'_>) -> bool {
        self.responses.waker = Some(cx.waker().clone());
        // Forget cancelled streams, because h2 never sends the data that it holds for them.
        let mut cancelled = |body: &mut Body| body.send.poll_reset(cx).is_ready();
        let bodies = self.responses.bodies.iter_mut();
        let cancelled: Vec<u64> =
            bodies.filter_map(|(stream, body)| cancelled(body).then_some(*stream)).collect();
        cancelled.into_iter().for_each(|stream| self.give_up(stream));
        let mut any = false;
        while self.has_room() && self.write_piece(cx) {
            any = true;
        }
        any
    }

    /// Passes a piece of a response to h2. Takes the first response, in the order of priorities, whose flow-control
    /// window has room.
    fn write_piece(&mut self, cx: &mut Context<'_>) -> bool {
        for stream in self.responses.order() {
            let Some(body) = self.responses.bodies.get_mut(&stream) else { continue };
            let Some(sending) = &mut body.sending else { continue };
            let capacity = sending.left().min(CHUNK as u64) as usize;
            body.send.reserve_capacity(capacity);
            if body.send.capacity() == 0 {
                match body.send.poll_capacity(cx) {
                    Poll::Pending => continue,
                    Poll::Ready(Some(Ok(_))) if body.send.capacity() == 0 => continue,
                    Poll::Ready(Some(Ok(_))) => {}
                    // h2 gives no capacity any more, because the session has ended.
                    Poll::Ready(Some(Err(_)) | None) => {
                        self.give_up(stream);
                        return true;
                    }
                }
            }
            let most = capacity.min(body.send.capacity());
            let Ok(piece) = sending.piece(most, most) else {
                // The content cannot be read further. The reset tells the client that the response is incomplete.
                body.send.send_reset(Reason::INTERNAL_ERROR);
                self.give_up(stream);
                return true;
            };
            body.unsent += piece.len() as u64;
            self.unsent += piece.len() as u64;
            let last = sending.left() == 0;
            if body.send.send_data(piece, last).is_err() {
                self.give_up(stream);
            } else if last {
                body.sending = None;
                self.responses.scheduler.remove(stream);
            } else {
                self.responses.scheduler.written(stream);
            }
            return true;
        }
        false
    }

    /// Stops writing the response on `stream`.
    fn give_up(&mut self, stream: u64) {
        if let Some(body) = self.responses.remove(stream) {
            self.unsent -= body.unsent;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn malformed_requests_that_h2_accepts_are_detected() {
        let malformed = |uri: &str, fields: &[(&str, &str)]| {
            let mut request = Request::get(uri);
            for (name, value) in fields {
                request = request.header(*name, *value);
            }
            is_malformed(&request.body(()).expect("a request"))
        };
        for (uri, fields) in [
            ("https://a.example/x?y", &[("x", "a b"), ("y", "")][..]),
            ("https://a.example/", &[("host", "A.example:443")]),
            ("http://a.example:80/", &[("host", "a.example")]),
            ("http://[::1]:8080/", &[("host", "[::1]:8080")]),
            ("/", &[("host", "a.example")]),
            ("/", &[]),
        ] {
            assert!(!malformed(uri, fields), "{uri} {fields:?}");
        }
        for (uri, fields) in [
            ("https://a.example/", &[("x", " a")][..]),
            ("https://a.example/", &[("x", "a\t")]),
            ("https://a.example/", &[("x", " ")]),
            ("https://a.example/", &[("host", "b.example")]),
            ("https://a.example/", &[("host", "a.example:80")]),
            ("https://a.example/", &[("host", "a.example"), ("host", "a.example")]),
            ("https://a.example/", &[("host", "")]),
            ("/", &[("host", "user@a.example")]),
            ("/", &[("host", "[::1")]),
            ("https://user@a.example/", &[]),
            ("https://a.example/%zz", &[]),
        ] {
            assert!(malformed(uri, fields), "{uri} {fields:?}");
        }
    }
}
