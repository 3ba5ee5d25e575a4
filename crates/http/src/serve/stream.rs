//! Serves HTTP/1.1 on a stream: adapts the stream for hyper, and responds to each request.

use super::access::Access;
use super::drain::drain;
use super::exchanges::{Answering, StreamExchanges};
use super::reply::{Sending, begin, entry, head_size, respond};
use super::site::{Answer, Content, PIECE, Site};
use super::smuggling_guard::{STAND_IN_METHOD, SmugglingGuard};
use super::unread_body::UnreadBody;
use super::{Activity, ExchangePermit, Service};
use crate::closing::{CLOSING, reset_done};
use crate::fetch::request::PADDING_FIELD;
use crate::head::Refusal;
use crate::http2::priority::Priority;
use crate::observe::ExchangeId;
use crate::page::bounded_head;
use anabranch_transport::{Session, Stream};
use anabranch_world::World;
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_TYPE, EXPECT, HeaderName, HeaderValue, SERVER};
use http::{Method, Request, Response, StatusCode, Version};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper::server::conn::http1::{self, Parts};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

/// Serves one stream until the client or an error ends it.
pub(super) async fn serve<W, S, N>(
    service: Rc<Service<W, S>>,
    exchanges: Rc<StreamExchanges>,
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
    let guard =
        SmugglingGuard::new(service.options.max_head.unwrap_or(MAX_BUFFER), service.options.strictness);
    let mut io = Io { stream, guard, filtered_bytes: Bytes::new(), exchanges, service, activity };
    io.filter_prefetched(seen);
    let (ended, mut io) = converse(io).await;
    let number = io.exchanges.stream;
    if io.service.options.stop.is_some() {
        io.activity.forget(number);
    }
    io.activity.head_ends(number);
    // hyper reports a user error if the server could not read the rest of a response body from its source.
    if ended.as_ref().is_err_and(hyper::Error::is_user) {
        io.end_requests();
        return abort_response(&io.service.world, &session, &mut io.stream).await;
    }
    drop(session);
    // Only a user error needs a reset of the stream. After every other error, hyper has already answered an invalid
    // head, or the client has gone or has cancelled the request.
    if let Some(status) = ended.err().as_ref().and_then(status_of) {
        if let Some(to) = &io.service.options.log
            && io.exchanges.accepted.get() > io.exchanges.end.get()
        {
            // hyper has answered a head that it could not parse, so write that response to the log.
            let (method, target) = ("-".to_owned(), "-".to_owned());
            let peer = io.activity.peer.as_deref().copied();
            let (version, status) = (Version::HTTP_11, status.as_u16());
            to.write(&Access { peer, stream: number, method, target, version, status, bytes: 0 });
        }
        io.guard.refuse();
    }
    if !io.guard.is_between() {
        io.end_requests();
        io.stream.finish();
        let limit = io.service.options.head_timeout.map(|most| io.service.world.now() + most);
        drain(&io.service.world, &mut io.stream, &mut io.guard, &io.activity, limit).await;
    }
}

/// Serves the requests of a stream with hyper. If many streams wait for requests, or memory is short, a stream that
/// waits drops its hyper connection and the buffers of that connection.
async fn converse<W: World, S: Site, T: Stream>(io: Io<W, S, T>) -> (hyper::Result<()>, Io<W, S, T>) {
    let (service, exchanges, activity) = (io.service.clone(), io.exchanges.clone(), io.activity.clone());
    let (number, stops) = (exchanges.stream, service.options.stop.is_some());
    let max_head = service.options.max_head.unwrap_or(MAX_BUFFER);
    let mut http = http1::Builder::new();
    http.auto_date_header(false)
        .header_read_timeout(None)
        // RFC 9112 §9.6: a client that has closed its sending direction may still want the response.
        .half_close(true)
        .max_buf_size(max_head.max(MIN_BUFFER))
        .max_header_size(max_head);
    let answer = {
        let (service, exchanges, activity) = (service.clone(), exchanges.clone(), activity.clone());
        move |request| answer(service.clone(), exchanges.clone(), activity.clone(), request)
    };
    let mut connection = http.serve_connection(io, hyper::service::service_fn(answer));
    let buffers = &service.buffers;
    let mut buffer_use = buffers.take();
    let mut ending = false;
    loop {
        let ended = poll_fn(|cx| {
            if stops && activity.poll_stopping(number, cx).is_ready() && !std::mem::replace(&mut ending, true)
            {
                // Responses in progress are completed, but no more requests are accepted.
                Pin::new(&mut connection).graceful_shutdown();
            }
            let polled = Pin::new(&mut connection).poll(cx);
            // Taking data makes hyper read on, which wakes this task.
            let gives_up = polled.is_pending() && exchanges.gives_up_body(cx, service.world.now(), ending);
            match polled {
                Poll::Ready(ended) => Poll::Ready(Some(ended)),
                // The response is complete, so the rest is drained without hyper.
                Poll::Pending if gives_up && !exchanges.is_under_way() => Poll::Ready(Some(Ok(()))),
                Poll::Pending
                    if (buffers.exceed_limit() || activity.memory.is_short())
                        && !ending
                        && exchanges.is_at_rest() =>
                {
                    Poll::Ready(None)
                }
                Poll::Pending => Poll::Pending,
            }
        })
        .await;
        let Parts { mut io, read_buf, service: answer, .. } = connection.into_parts();
        if let Some(ended) = ended {
            exchanges.unread_body.take();
            return (ended, io);
        }
        drop(buffer_use);
        // Bytes of the next requests may already have been read, possibly more than one buffer of hyper holds. Keep
        // these bytes: a new hyper connection will serve the next requests of this stream.
        if io.filtered_bytes.is_empty() {
            io.filtered_bytes = Some(read_buf).filter(|bytes| !bytes.is_empty()).unwrap_or_default();
        } else if !read_buf.is_empty() {
            io.filtered_bytes = [&read_buf[..], &io.filtered_bytes[..]].concat().into();
        }
        if io.filtered_bytes.is_empty() && io.guard.is_between() && !io.stream.supports_half_close() {
            // The task of the stream ends here, to save memory. A new task begins when the stream's next request
            // arrives.
            io.exchanges.unwritten.take();
            return (Ok(()), io);
        }
        let more = poll_fn(|cx| match stops && activity.poll_stopping(number, cx).is_ready() {
            true => Poll::Ready(false),
            false => io.poll_ahead(cx),
        });
        if !more.await {
            io.stream.finish();
            return (Ok(()), io);
        }
        buffer_use = buffers.take();
        connection = http.serve_connection(io, answer);
    }
}

/// Ends a stream in the middle of a response, so that the client sees at once that the response is incomplete
/// (RFC 9112 §8).
async fn abort_response<W: World, N: Session>(world: &W, session: &N, stream: &mut N::Stream) {
    if stream.supports_half_close() {
        session.close();
    } else if !stream.reset() || !reset_done(world, stream, CLOSING).await {
        // If an SCTP stream cannot be reset, the whole association is aborted.
        session.abort();
    }
}

/// Returns the status with which hyper answers a head that it cannot parse; `None` for other errors.
fn status_of(error: &hyper::Error) -> Option<StatusCode> {
    if error.is_parse_too_large() {
        return Some(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
    }
    error.is_parse().then_some(StatusCode::BAD_REQUEST)
}

async fn answer<W: World, S: Site>(
    service: Rc<Service<W, S>>,
    exchanges: Rc<StreamExchanges>,
    activity: Rc<Activity>,
    request: Request<Incoming>,
) -> Result<Response<Sending<Answering>>, Infallible> {
    let unfinished_response = Answering::begin(&exchanges, &activity);
    let has_body = !request.body().is_end_stream();
    exchanges.answered_without_content.set(!has_body);
    let index = exchanges.next.replace(exchanges.next.get() + 1);
    let exchange = ExchangeId { connection: exchanges.connection, stream: exchanges.stream, index };
    let (turn, serving) = begin(&service, &activity, exchange, request.uri()).await;
    let earlier_requests = activity.request_count.replace(activity.request_count.get() + 1);
    if let Some(field) = request.headers().get("priority").and_then(|value| value.to_str().ok()) {
        // Some transports send their streams by rank. The rank of the response is the same as over HTTP/2 and HTTP/3.
        exchanges.rank.set(Some(Priority::read(field).short_rank(earlier_requests)));
    }
    let is_stand_in = request.method() == STAND_IN_METHOD;
    let refusal = is_stand_in.then(|| exchanges.refusal.take()).flatten();
    // RFC 9110 §10.1.1: after this response, a client that expects 100 (Continue) may send its body or its next request.
    let expects_continue = has_body && request.headers().contains_key(EXPECT);
    // RFC 9931: data after a refused CONNECT is not a request.
    let close = refusal.is_some()
        || request.method() == Method::CONNECT
        || has_connection_option(&request, "close")
        || expects_continue;
    // RFC 9112 §9.3: a connection of HTTP/1.0 persists only if the client asks for it.
    let persists =
        !close && (request.version() > Version::HTTP_10 || has_connection_option(&request, "keep-alive"));
    let Answer { status, mut fields, resource } =
        respond(&service, &request, refusal.map(refusal_response), close);
    let least = head_size(status, &fields);
    let head_size_with_padding = resource.head_size.map_or(least, |head| bounded_head(head) as usize);
    let head = least + pad(&mut fields, head_size_with_padding.saturating_sub(least));
    let named = || match is_stand_in {
        true => ("-".to_owned(), "-".to_owned()),
        false => (request.method().to_string(), request.uri().to_string()),
    };
    let entry = entry(&service, &activity, exchanges.stream, &request, named, status);
    let body = if request.method() == Method::HEAD { 0 } else { resource.content.length() };
    exchanges.unwritten.borrow_mut().push_back((exchange, exchanges.end.get()));
    exchanges.end.set(exchanges.end.get() + head as u64 + body);
    exchanges.hold(&activity, head);
    drop(serving);
    if has_body && persists {
        let limit = service.options.head_timeout.map(|most| service.world.now() + most);
        exchanges.unread_body.replace(Some(UnreadBody::new(request.into_body(), limit)));
    }
    let mut response = Response::new(Sending::new(resource.content, entry, turn, unfinished_response));
    (*response.status_mut(), *response.headers_mut()) = (status, fields);
    Ok(response)
}

/// Lengthens the head by `gap` bytes: adds a field of that size, or spaces after a value. Returns the number of bytes
/// added.
fn pad(fields: &mut http::HeaderMap, gap: usize) -> usize {
    if gap == 0 {
        return 0;
    }
    let name = PADDING_FIELD.trim_end_matches(':');
    let field = |name: &str, width: usize, fill: &str| {
        let name = HeaderName::from_bytes(name.as_bytes()).ok()?;
        Some((name, HeaderValue::from_str(&fill.repeat(width)).ok()?))
    };
    let padding = if gap >= name.len() + 4 {
        field(name, gap - name.len() - 4, "x")
    } else if gap >= SERVER.as_str().len() + 4 {
        // `gap` is too small for the padding field, but large enough for a Server field.
        field(SERVER.as_str(), gap - SERVER.as_str().len() - 4, "a")
    } else if gap > 4 {
        field(&"x".repeat(gap - 4), 0, "")
    } else {
        // Spaces after a value are not part of the value (RFC 9112 §5.1).
        let spaced = fields.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
        let value =
            spaced.and_then(|value| HeaderValue::from_str(&format!("{value}{}", " ".repeat(gap))).ok());
        value.map(|value| (CONTENT_TYPE, value))
    };
    let Some((name, value)) = padding else { return 0 };
    fields.insert(name, value);
    gap
}

/// Returns the response to a request whose head was refused.
fn refusal_response(refusal: Refusal) -> Answer {
    let status = StatusCode::from_u16(refusal.status).unwrap_or(StatusCode::BAD_REQUEST);
    let mut answer = Answer::plain_text(status, "");
    answer.resource.content = Content::Bytes(format!("{}\n", refusal.why).into());
    answer
}

/// Returns whether the Connection field of the request has this option.
fn has_connection_option(request: &Request<Incoming>, option: &str) -> bool {
    let values = request.headers().get_all(CONNECTION);
    let mut tokens = values.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    tokens.any(|token| token.trim().eq_ignore_ascii_case(option))
}

/// The body of a response. hyper takes the body in chunks without a copy, and drops this value after the last chunk.
impl Body for Sending<Answering> {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, io::Error>>> {
        // Content from a store takes memory in addition to the transport's buffers, so the response waits until the
        // limit of memory leaves room for the next piece.
        let is_stored = matches!(self.content, Content::Stored(_));
        let most = if is_stored { ready!(self.guard.poll_room(cx, PIECE)) } else { PIECE };
        let bytes = match self.piece(most, usize::MAX) {
            Ok(bytes) => bytes,
            // If the body ends with this error, hyper ends the connection, and then `serve` breaks off the stream.
            Err(error) => return Poll::Ready(Some(Err(error))),
        };
        if is_stored {
            self.guard.hold(bytes.len());
        }
        Poll::Ready((!bytes.is_empty()).then(|| Ok(Frame::data(bytes))))
    }

    fn is_end_stream(&self) -> bool {
        self.left() == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left())
    }
}

/// An adapter through which hyper reads and writes a stream.
struct Io<W: World, S, T> {
    stream: T,
    guard: SmugglingGuard,
    /// Bytes that have passed the smuggling guard, but that hyper has not read yet.
    filtered_bytes: Bytes,
    exchanges: Rc<StreamExchanges>,
    service: Rc<Service<W, S>>,
    activity: Rc<Activity>,
}

impl<W: World, S, T: Stream> Io<W, S, T> {
    /// Notifies the recorder of every response whose first byte is among the `bytes` bytes now passed to the transport.
    /// The time during which bytes wait for room in the transport's send buffer does not count as the server's time.
    fn written(&self, bytes: usize) {
        let mut unwritten = self.exchanges.unwritten.borrow_mut();
        if unwritten.is_empty() {
            return;
        }
        let (now, end) = (self.service.world.now(), self.stream.bytes_written() + bytes as u64);
        while let Some(&(exchange, _)) = unwritten.front().filter(|(_, start)| *start < end) {
            self.service.recorder.written(exchange, now);
            unwritten.pop_front();
        }
    }

    /// Records that the transport has accepted `bytes` bytes.
    fn on_accepted(&self, bytes: usize) {
        self.activity.record_bytes(self.service.world.now(), bytes);
        self.exchanges.release(&self.activity, bytes);
        self.exchanges.accepted.set(self.stream.bytes_written());
    }
}

impl<W: World, S, T> Io<W, S, T> {
    /// Records that no request is in progress any more.
    fn end_requests(&self) {
        self.exchanges.end_all(&self.activity);
    }

    /// Records whether the stream waits for the rest of a head, and since when. While a response is in progress, the
    /// stream does not wait.
    fn note_head(&self) {
        if self.guard.is_in_head() && !self.exchanges.is_under_way() {
            self.activity.head_begins(self.exchanges.stream, self.service.world.now());
        } else {
            self.activity.head_ends(self.exchanges.stream);
        }
    }
}

impl<W: World, S, T> Drop for Io<W, S, T> {
    fn drop(&mut self) {
        self.end_requests();
    }
}

// The fields of `Io` are never pinned: all accesses use plain references.
impl<W: World, S, T> Unpin for Io<W, S, T> {}

impl<W: World, S: 'static, T: Stream> Io<W, S, T> {
    /// Passes bytes that were already read from the stream through the smuggling guard.
    fn filter_prefetched(&mut self, seen: Bytes) {
        if seen.is_empty() {
            return;
        }
        let mut passed = Vec::with_capacity(seen.len());
        self.guard.pass(&seen, |bytes| passed.extend_from_slice(bytes));
        self.filtered_bytes = passed.into();
        self.on_filtered();
    }

    /// Takes the refusal from the smuggling guard, if there is one, and updates the head timer.
    fn on_filtered(&mut self) {
        if let Some(refusal) = self.guard.take_refusal() {
            self.exchanges.refusal.replace(Some(refusal));
        }
        self.note_head();
    }

    /// Waits for received bytes that may be passed to hyper. Returns true when there are such bytes, and false at the
    /// end of the stream.
    fn poll_ahead(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        if self.filtered_bytes.is_empty() {
            let mut passed = Vec::new();
            let read = ready!(self.poll_pass(cx, FIRST_BYTES, |bytes| passed.extend_from_slice(bytes)));
            if read.is_ok() {
                self.filtered_bytes = passed.into();
            }
        }
        Poll::Ready(!self.filtered_bytes.is_empty())
    }

    /// Reads at most `most` bytes at a time, until the smuggling guard passes some bytes to `out` or the stream ends.
    fn poll_pass(
        &mut self,
        cx: &mut Context<'_>,
        most: usize,
        mut out: impl FnMut(&[u8]),
    ) -> Poll<io::Result<()>> {
        let mut any = false;
        while !any {
            if self.guard.has_refused() {
                // After a refused head, hyper gets no more data. The read stays pending, because hyper would take an
                // end of the stream for an end by the client. The read ends only if hyper was given the bytes `POISON`,
                // which hyper cannot parse.
                return if self.guard.is_poisoned() { Poll::Ready(Ok(())) } else { Poll::Pending };
            }
            let mut buffer = self.service.scratch.room(most.clamp(1, READ_BYTES));
            let read = ready!(self.stream.poll_read(cx, &mut buffer))?;
            if read == 0 {
                break;
            }
            self.guard.pass(&buffer[..read], |bytes| {
                any |= !bytes.is_empty();
                out(bytes);
            });
            drop(buffer);
            self.activity.record_bytes(self.service.world.now(), read);
            self.on_filtered();
        }
        Poll::Ready(Ok(()))
    }
}

impl<W: World, S: 'static, T: Stream> Read for Io<W, S, T> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        mut into: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        if !self.filtered_bytes.is_empty() {
            let length = self.filtered_bytes.len().min(into.remaining());
            into.put_slice(&self.filtered_bytes.split_to(length));
            return Poll::Ready(Ok(()));
        }
        // The guard may pass more bytes than hyper's buffer has room for, because it passes a whole head at once.
        let mut more = Vec::new();
        let read = self.poll_pass(cx, into.remaining(), |bytes| {
            let (now, later) = bytes.split_at(bytes.len().min(into.remaining()));
            into.put_slice(now);
            more.extend_from_slice(later);
        });
        self.filtered_bytes = more.into();
        read
    }
}

impl<W: World, S: 'static, T: Stream> Write for Io<W, S, T> {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, from: &[u8]) -> Poll<io::Result<usize>> {
        self.poll_write_vectored(cx, &[IoSlice::new(from)])
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        from: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        if let Some(rank) = self.exchanges.rank.take() {
            self.stream.set_rank(rank);
        }
        self.written(from.iter().map(|piece| piece.len()).sum());
        match self.stream.poll_write_vectored(cx, from) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(Err(reason)) => Poll::Ready(Err(reason.into())),
            Poll::Ready(Ok(taken)) => {
                if taken > 0 {
                    self.on_accepted(taken);
                }
                Poll::Ready(Ok(taken))
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.exchanges.flushed(&self.activity);
        self.note_head();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, _cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.stream.finish();
        Poll::Ready(Ok(()))
    }
}

/// The maximum number of bytes of a stream that hyper may hold in each direction. It is also the default maximum size
/// of a request head.
const MAX_BUFFER: usize = 64 * 1024;
/// The minimum buffer size that hyper accepts.
const MIN_BUFFER: usize = 8 * 1024;
const READ_BYTES: usize = 8 * 1024;
/// The maximum number of bytes in the first read from a stream whose buffers were released. After this read, hyper gets
/// buffers again.
const FIRST_BYTES: usize = 512;

#[cfg(test)]
mod tests;
