//! Serves a session over HTTP/3. Each request has a stream, and responses are written in the order of their priorities.
//!
//! By itself, the transport treats all streams alike. Therefore this module lets the transport accept only a limited
//! amount of data: the congestion window plus [`UNSENT`] bytes. `Writer` passes small pieces to the transport, each
//! time the next piece of the most urgent response (RFC 9218), as over HTTP/2. A pacer may hold back some of the
//! accepted data. The ranks that this module gives to the streams then decide which of this data is sent first.
//!
//! Each request is read to its end, even if the response does not need the content. Therefore an error in content or
//! trailers has the same effect as an error in the head.

use super::reply::{PreparedResponse, RequestGuard, Sending, Unwritten, reply};
use super::site::Site;
use super::{Activity, Service};
use crate::http2::server::{CHUNK, UNSENT};
use crate::http3::connection::{Connection, Incoming, begin, max_head_size};
use crate::http3::streams::Pipe;
use crate::http3::{Code, Event, encode_response, kind};
use crate::observe::ExchangeId;
use anabranch_transport::{Session, Stream};
use anabranch_world::{Tasks, World};
use http::header::EXPECT;
use http::{HeaderMap, StatusCode};
use std::cell::RefCell;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

/// Serves a session over HTTP/3 until the client or an error ends it, or until the server is stopped.
pub(super) async fn serve<W, S, N>(service: Rc<Service<W, S>>, session: N, activity: Rc<Activity>)
where
    W: World,
    S: Site,
    N: Session,
{
    session.limit_unsent(UNSENT as u64);
    let most = max_head_size(service.options.max_head);
    let Ok((connection, mut driver)) = begin(session.clone(), false, most).await else {
        return session.close();
    };
    let _exchange = activity.memory.begin();
    activity.memory.hold(STATE);
    let writer = Rc::new(RefCell::new(Writer {
        service: service.clone(),
        activity: activity.clone(),
        connection: session.id(),
        responses: Unwritten::default(),
    }));
    // The tasks that answer requests, and the tasks that read the rest of answered requests.
    let (tasks, rests) = (Tasks::new(service.world.clone()), Rc::new(Tasks::new(service.world.clone())));
    let stop = service.options.stop.as_ref().map(super::Stop::wait);
    // The lowest stream number on which no request has arrived yet. After GOAWAY, requests from this number on are
    // rejected.
    let mut next = 0;
    let mut ending = false;
    poll_fn(|cx| {
        if !ending && stop.as_ref().is_some_and(|stop| stop.poll(cx).is_ready()) {
            // Requests in progress are completed, but no more requests are accepted.
            ending = true;
            driver.go_away(next);
        }
        loop {
            // Polling removes completed tasks.
            let _ = (tasks.poll_idle(cx), rests.poll_idle(cx));
            if driver.poll(cx).is_ready() {
                return Poll::Ready(());
            }
            match session.poll_accept(cx) {
                Poll::Ready(Ok(stream)) if ending => {
                    connection.pipe(stream).borrow_mut().cancel(Code::H3_REQUEST_REJECTED);
                }
                Poll::Ready(Ok(stream)) => {
                    next = next.max(stream.number() + 1);
                    activity.record_bytes(service.world.now(), 0);
                    let pipe = connection.pipe(stream);
                    let answer = answer(connection.clone(), writer.clone(), rests.clone(), pipe, most);
                    tasks.spawn("http/3 answer", answer);
                }
                Poll::Ready(Err(_)) => return Poll::Ready(()),
                Poll::Pending => {
                    writer.borrow_mut().write(cx);
                    let done = ending
                        && tasks.poll_idle(cx).is_ready()
                        && writer.borrow().responses.bodies.is_empty();
                    return if done { Poll::Ready(()) } else { Poll::Pending };
                }
            }
        }
    })
    .await;
    activity.memory.release(STATE);
    session.close();
    session.closed().await;
}

/// The approximate memory of a session in bytes: three streams in each direction, and partial heads.
const STATE: usize = 32 * 1024;
/// The maximum number of content bytes that are read before the response. If a request has more content, the server
/// sends the response and then reads the rest, up to [`MAX_REST`].
const MAX_AWAITED: u64 = 1 << 20;
/// The maximum number of bytes of request content that are read while or after the response is sent. If more content
/// arrives, the server stops reading.
const MAX_REST: u64 = 64 * 1024;

/// Answers one request, from reading its head to handing the response to `writer`.
async fn answer<W: World, S: Site, N: Session>(
    connection: Connection<N>,
    writer: Rc<RefCell<Writer<W, S, N>>>,
    rests: Rc<Tasks<W>>,
    pipe: Rc<RefCell<Pipe<N::Stream>>>,
    max_head: u64,
) {
    let (service, activity, name) = {
        let writer = writer.borrow();
        (writer.service.clone(), writer.activity.clone(), writer.connection)
    };
    let stream = pipe.borrow().number();
    activity.head_begins(stream, service.world.now());
    let early = connection.session().early_data();
    let mut incoming = Incoming::new(connection, pipe.clone(), max_head);
    let head = poll_fn(|cx| incoming.poll(cx)).await;
    activity.head_ends(stream);
    let request = match head {
        Ok(Some(Event::Request(request))) => request,
        Ok(Some(Event::HeadTooLarge(_))) => {
            // RFC 9114 §4.2.2, §4.1: once the response is sent, the rest of the request is not needed.
            let status = StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE;
            pipe.borrow_mut().put_frame(kind::HEADERS, encode_response(status, &HeaderMap::new()));
            pipe.borrow_mut().stop_reading(Code::H3_NO_ERROR);
            return finish(incoming.pipe().clone()).await;
        }
        // `incoming`, which read the head, has already reset the stream or closed the connection.
        Ok(_) | Err(_) => return,
    };
    // RFC 9114 §4.1.2: a request is malformed if its content differs from the declared length. To detect this, the
    // server reads the content before it responds. With Expect, the client sends the content only after a response, so
    // the server does not wait for it.
    let waits =
        incoming.content_length().is_some_and(|length| length > 0) && !request.headers().contains_key(EXPECT);
    let mut content = 0;
    let accepted = poll_fn(|cx| {
        loop {
            if content > MAX_AWAITED {
                return Poll::Ready(true);
            }
            match incoming.poll(cx) {
                Poll::Ready(Ok(Some(Event::Data(data)))) => {
                    content += data.len() as u64;
                    activity.record_bytes(service.world.now(), 0);
                }
                Poll::Ready(Ok(_)) => return Poll::Ready(true),
                Poll::Ready(Err(_)) => return Poll::Ready(false),
                Poll::Pending if waits => return Poll::Pending,
                Poll::Pending => return Poll::Ready(true),
            }
        }
    });
    if !accepted.await {
        return;
    }
    let PreparedResponse { response, sending, priority, .. } =
        reply(&service, &activity, (name, stream), &request, early).await;
    service.recorder.written(ExchangeId { connection: name, stream, index: 0 }, service.world.now());
    // The response head is sent with the same priority as the body. If the transport has no room for the head now,
    // `writer` sends it later, before the body.
    let sent = poll_fn(|cx| {
        let mut pipe = pipe.borrow_mut();
        pipe.set_rank(priority.rank(stream));
        pipe.put_frame(kind::HEADERS, encode_response(response.status(), response.headers()));
        Poll::Ready(pipe.poll_flush(cx))
    });
    if let Poll::Ready(Err(_)) = sent.await {
        return;
    }
    let body = Body { pipe, sending, piece: None };
    writer.borrow_mut().responses.add(stream, priority, body);
    if !incoming.is_ended() {
        rests.spawn("http/3 rest", read_rest(incoming));
    }
}

/// Writes the remaining data of a stream, and closes its sending direction.
async fn finish<T: Stream>(pipe: Rc<RefCell<Pipe<T>>>) {
    let flushed = poll_fn(|cx| pipe.borrow_mut().poll_flush(cx)).await;
    if flushed.is_ok() {
        pipe.borrow_mut().finish();
    }
}

/// Reads the rest of a request that was already answered, because the rest may still violate a rule of the protocol.
async fn read_rest<N: Session>(mut incoming: Incoming<N>) {
    let mut read = 0;
    while let Ok(Some(event)) = poll_fn(|cx| incoming.poll(cx)).await {
        if let Event::Data(data) = event {
            read += data.len() as u64;
        }
        if read > MAX_REST {
            // RFC 9114 §4.1: once the response is sent, the rest of the request is not needed.
            return incoming.pipe().borrow_mut().stop_reading(Code::H3_NO_ERROR);
        }
    }
}

/// The body of a response that the transport has not accepted completely.
struct Body<N: Session> {
    pipe: Rc<RefCell<Pipe<N::Stream>>>,
    sending: Sending<RequestGuard>,
    /// The size of the piece that is being passed to the transport, if there is one.
    piece: Option<usize>,
}

/// Writes the responses of a session to the transport, and holds those that are not completely written.
struct Writer<W, S, N: Session> {
    service: Rc<Service<W, S>>,
    activity: Rc<Activity>,
    connection: u64,
    responses: Unwritten<Body<N>>,
}

impl<W: World, S: Site, N: Session> Writer<W, S, N> {
    /// Passes data to the transport until the transport accepts no more.
    fn write(&mut self, cx: &mut Context<'_>) {
        self.responses.waker = Some(cx.waker().clone());
        while self.write_piece(cx) {}
    }

    /// Tries the responses in their order. Takes the first one that can make progress, and passes a piece of it to the
    /// transport. Returns false if no response can make progress.
    fn write_piece(&mut self, cx: &mut Context<'_>) -> bool {
        for stream in self.responses.order() {
            let Some(body) = self.responses.bodies.get_mut(&stream) else { continue };
            let flushed = body.pipe.borrow_mut().poll_flush(cx);
            match flushed {
                Poll::Pending => continue,
                // The client has cancelled the request, or the session has ended.
                Poll::Ready(Err(_)) => drop(self.responses.remove(stream)),
                Poll::Ready(Ok(())) => self.write_next(stream, cx),
            }
            return true;
        }
        false
    }

    /// Writes the next piece of the response on `stream`. The transport has accepted the previous piece.
    fn write_next(&mut self, stream: u64, cx: &mut Context<'_>) {
        let Some(body) = self.responses.bodies.get_mut(&stream) else { return };
        if let Some(piece) = body.piece.take() {
            self.activity.record_bytes(self.service.world.now(), piece);
            // Incremental responses (RFC 9218) take turns. A piece of this response was sent, so the next response
            // follows.
            return self.responses.scheduler.written(stream);
        }
        let most = body.sending.left().min(CHUNK as u64) as usize;
        if most == 0 {
            body.pipe.borrow_mut().finish();
            return drop(self.responses.remove(stream));
        }
        let Ok(piece) = body.sending.piece(most, most) else {
            // The content cannot be read further. The reset tells the client that the response is incomplete.
            body.pipe.borrow_mut().cancel(Code::H3_INTERNAL_ERROR);
            return drop(self.responses.remove(stream));
        };
        body.piece = Some(piece.len());
        let mut pipe = body.pipe.borrow_mut();
        pipe.put_frame(kind::DATA, piece);
        let failed = matches!(pipe.poll_flush(cx), Poll::Ready(Err(_)));
        drop(pipe);
        if failed {
            self.responses.remove(stream);
        }
    }
}
