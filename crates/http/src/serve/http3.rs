//! A session that speaks HTTP/3: requests as streams, answers in the order of their priorities.
//!
//! h3 writes what it is given on each stream, and the transport by itself sends of all streams alike. So both are given
//! little at a time: `Writer` hands the next piece of the most urgent answer (RFC 9218) to its stream, by the same turns as
//! over HTTP/2, and the session takes no more than what the congestion window holds and [`UNSENT`] bytes. Of that much the
//! streams' ranks say what goes first, as a pacer may keep some of it back.

use super::reply::{Held, Reply, reply};
use super::site::{Content, Site};
use super::{Activity, Service};
use crate::http2::priority::{Priority, Turns};
use crate::http2::server::{CHUNK, UNSENT};
use crate::http3::streams::{Pipe, Streams};
use crate::http3::{MAX_HEAD, once};
use crate::observe::{ExchangeId, Observer};
use anabranch_transport::Session;
use anabranch_world::{Tasks, World};
use bytes::Bytes;
use h3::error::{Code, StreamError};
use h3::quic::OpenStreams;
use h3::server::{RequestResolver, RequestStream, builder};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};

/// Serves a session over HTTP/3 until the client or an error ends it, or the server ends.
pub(super) async fn serve<W, S, O, N>(service: Rc<Service<W, S, O>>, session: N, activity: Rc<Activity>)
where
    W: World,
    S: Site,
    O: Observer + 'static,
    N: Session,
{
    session.limit_unsent(UNSENT as u64);
    let streams = Streams::new(session.clone());
    let most = service.options.max_head.map_or(MAX_HEAD, |most| MAX_HEAD.min(most as u64));
    let begun = builder().max_field_section_size(most).send_grease(false).build(streams.clone()).await;
    let Ok(mut connection) = begun else { return session.close() };
    let _exchange = activity.memory.begin();
    activity.memory.hold(STATE);
    let writer = Rc::new(RefCell::new(Writer::new(service.clone(), activity.clone(), session.id())));
    let tasks = Tasks::new(service.world.clone());
    let stop = service.options.stop.as_ref().map(super::Stop::wait);
    let mut ending = false;
    poll_fn(|cx| {
        if !ending && stop.as_ref().is_some_and(|stop| stop.poll(cx).is_ready()) {
            // What has begun is finished; nothing more is taken in.
            ending = true;
            let _ = once(connection.shutdown(1), cx);
        }
        loop {
            // What is done is forgotten.
            let _ = tasks.poll_idle(cx);
            match once(connection.accept(), cx) {
                Some(Ok(Some(request))) if ending => {
                    if let Some(pipe) = streams.pipe(request.frame_stream.id()) {
                        pipe.borrow_mut().cancel(Code::H3_REQUEST_REJECTED);
                    }
                }
                Some(Ok(Some(request))) => {
                    activity.moved(service.world.now(), 0);
                    tasks.spawn("http/3 answer", answer(streams.clone(), writer.clone(), request));
                }
                Some(_) => return Poll::Ready(()),
                None => {
                    writer.borrow_mut().write(cx);
                    let done = ending && tasks.poll_idle(cx).is_ready() && writer.borrow().bodies.is_empty();
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

/// What h3 holds of a session, about: three streams either way, and what has come of heads.
const STATE: usize = 32 * 1024;

/// h3's end of a stream.
type Exchanged<N> = RequestStream<<Streams<N> as OpenStreams<Bytes>>::BidiStream, Bytes>;

/// Answers one request.
async fn answer<W: World, S: Site, O: Observer, N: Session>(
    streams: Streams<N>,
    writer: Rc<RefCell<Writer<W, S, O, N>>>,
    request: RequestResolver<Streams<N>, Bytes>,
) {
    let name = request.frame_stream.id();
    let Some(pipe) = streams.pipe(name) else { return };
    let (service, activity, connection) = {
        let writer = writer.borrow();
        (writer.service.clone(), writer.activity.clone(), writer.connection)
    };
    let stream = name.index();
    activity.head_begins(stream, service.world.now());
    let early = streams.is_early();
    let resolved = request.resolve_request().await;
    activity.head_ends(stream);
    let (request, mut send) = match resolved {
        Ok(resolved) => resolved,
        Err(StreamError::HeaderTooBig { .. }) => {
            // h3 has answered with 431.
            return pipe.borrow_mut().answered();
        }
        // An error of the connection is the session's, which tells of it by itself.
        Err(_) => return,
    };
    let Reply { response, content, bodiless, priority, held } =
        reply(&service, &activity, (connection, stream), &request, early).await;
    service.observer.written(ExchangeId { connection, stream, index: 0 }, service.world.now());
    // The head leaves in turn, too: what the transport has no room for now, the writer gives to it.
    pipe.borrow_mut().set_rank(priority.rank(stream));
    let sent = {
        let mut sending = pin!(send.send_response(response));
        poll_fn(|cx| Poll::Ready(sending.as_mut().poll(cx))).await
    };
    if let Poll::Ready(Err(_)) = sent {
        return held.end(0);
    }
    let end = if bodiless { 0 } else { content.length() };
    let body = Body { send, pipe, content, end, at: 0, piece: None, held: Some(held) };
    writer.borrow_mut().add(stream, priority, body);
}

/// An answer that the transport has not whole.
struct Body<N: Session> {
    send: Exchanged<N>,
    pipe: Rc<RefCell<Pipe<N::Stream>>>,
    content: Content,
    /// How much of it is to be sent, and how much h3 has been given.
    end: u64,
    at: u64,
    /// How much of that, if anything, may wait for room.
    piece: Option<usize>,
    /// Until the transport has the whole of it.
    held: Option<Held>,
}

impl<N: Session> Drop for Body<N> {
    fn drop(&mut self) {
        if let Some(held) = self.held.take() {
            held.end(self.at);
        }
    }
}

/// What the answers of a session have yet to write, and whose turn it is.
struct Writer<W, S, O, N: Session> {
    service: Rc<Service<W, S, O>>,
    activity: Rc<Activity>,
    connection: u64,
    bodies: BTreeMap<u64, Body<N>>,
    turns: Turns,
    /// The session's task.
    waker: Option<Waker>,
}

impl<W: World, S: Site, O: Observer, N: Session> Writer<W, S, O, N> {
    fn new(service: Rc<Service<W, S, O>>, activity: Rc<Activity>, connection: u64) -> Self {
        Self { service, activity, connection, bodies: BTreeMap::new(), turns: Turns::default(), waker: None }
    }

    fn add(&mut self, stream: u64, priority: Priority, body: Body<N>) {
        self.bodies.insert(stream, body);
        self.turns.add(stream, priority);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Gives the transport what it takes.
    fn write(&mut self, cx: &mut Context<'_>) {
        self.waker = Some(cx.waker().clone());
        while self.write_piece(cx) {}
    }

    /// Gives the first answer in turn that gets on its next piece; false when none does.
    fn write_piece(&mut self, cx: &mut Context<'_>) -> bool {
        let order: Vec<u64> = self.turns.order().collect();
        for stream in order {
            let Some(body) = self.bodies.get_mut(&stream) else { continue };
            let flushed = body.pipe.borrow_mut().poll_flush(cx);
            match flushed {
                Poll::Pending => continue,
                // The client has cancelled it, or the session is over.
                Poll::Ready(Err(_)) => self.give_up(stream),
                Poll::Ready(Ok(())) => self.go_on(stream, cx),
            }
            return true;
        }
        false
    }

    /// The transport has what was written of it.
    fn go_on(&mut self, stream: u64, cx: &mut Context<'_>) {
        let Some(body) = self.bodies.get_mut(&stream) else { return };
        if let Some(piece) = body.piece.take() {
            self.activity.moved(self.service.world.now(), piece);
            // Whoever shares goes next.
            return self.turns.written(stream);
        }
        if body.at == body.end {
            body.pipe.borrow_mut().answered();
            return self.give_up(stream);
        }
        let most = (body.end - body.at).min(CHUNK as u64) as usize;
        let Ok(mut piece) = body.content.piece(body.at, most) else {
            // What cannot be read on is not whole: the client is told so.
            body.pipe.borrow_mut().cancel(Code::H3_INTERNAL_ERROR);
            return self.give_up(stream);
        };
        piece.truncate(most);
        body.at += piece.len() as u64;
        body.piece = Some(piece.len());
        if let Some(Err(_)) = once(body.send.send_data(piece), cx) {
            self.give_up(stream);
        }
    }

    /// Nothing more is written of it.
    fn give_up(&mut self, stream: u64) {
        self.turns.remove(stream);
        self.bodies.remove(&stream);
    }
}
