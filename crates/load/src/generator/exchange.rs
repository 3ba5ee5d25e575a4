//! One request and its reply on a stream, with time measurements.

use super::cause::Cause;
pub(super) use super::tally::Reply;
use crate::idle_timer::IdleTimer;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_http::response::{ResponseParser, Step};
use anabranch_transport::{CloseReason, Stream};
use anabranch_world::World;
use std::cell::RefCell;
use std::task::Poll;

/// The reason why a request has no complete reply.
pub(super) struct RequestFailure {
    pub(super) cause: Cause,
    pub(super) message: String,
    /// Whether it is certain that the server has not processed the request.
    pub(super) unprocessed: bool,
}

impl RequestFailure {
    /// Creates a failure for a request that made no progress for `span`.
    pub(super) fn idle(span: Duration) -> Self {
        Self::new(Cause::Timeout, format!("no data for {} s", span.as_secs_f32()))
    }

    pub(super) fn closed(reason: CloseReason) -> Self {
        Self::new(Cause::of_close(&reason), reason.to_string())
    }

    fn new(cause: Cause, message: String) -> Self {
        Self { cause, message, unprocessed: false }
    }
}

/// The times at which a request was due and at which it began.
#[derive(Clone, Copy)]
pub(super) struct RequestTimes {
    pub(super) planned: Instant,
    pub(super) started_at: Instant,
}

/// A stream on which requests are sent one after the other (HTTP/1.1).
pub(super) struct RequestStream<W: World, T: Stream> {
    world: W,
    stream: T,
    parser: ResponseParser,
    idle: IdleTimer<W>,
    timeout: Duration,
}

impl<W: World, T: Stream> RequestStream<W, T> {
    pub(super) fn new(world: &W, stream: T, timeout: Duration) -> Self {
        let idle = IdleTimer::new(world, timeout);
        let parser = ResponseParser::new().with_eof_bodies(stream.supports_half_close());
        Self { world: world.clone(), stream, parser, idle, timeout }
    }

    /// Sends a request and reads its reply. The returned flag is true if the server closes the connection after the
    /// reply.
    /// `on_sent` is called when the transport has accepted the whole request.
    pub(super) async fn exchange(
        &mut self,
        RequestTimes { planned, started_at }: RequestTimes,
        request: &[u8],
        buffer: &RefCell<Vec<u8>>,
        on_sent: impl FnOnce(),
    ) -> Result<(Reply, bool), RequestFailure> {
        let Self { world, stream, parser, idle, timeout } = self;
        let mut last_progress = started_at;
        let mut left = request;
        while !left.is_empty() {
            let written = idle.wait(last_progress, |cx| stream.poll_write(cx, left)).await;
            let written =
                written.ok_or_else(|| RequestFailure::idle(*timeout))?.map_err(RequestFailure::closed)?;
            left = &left[written..];
            if !left.is_empty() {
                last_progress = world.now();
            }
        }
        on_sent();
        let (mut first, mut status, mut close) = (None, 0, false);
        let (mut total, mut body) = (0, 0);
        loop {
            // All streams share one buffer. This stream's bytes are parsed within the poll, before another stream
            // overwrites them.
            let read = idle.wait(last_progress, |cx| {
                let buffer = &mut *buffer.borrow_mut();
                let read = std::task::ready!(stream.poll_read(cx, buffer))?;
                let mut input = &buffer[..read];
                let mut ended = Ok(false);
                loop {
                    match parser.step(&mut input) {
                        Ok(Step::More) => break,
                        Ok(Step::Head(head)) => (status, close) = (head.status, head.close),
                        Ok(Step::Body(bytes)) => body += bytes.len() as u64,
                        Ok(Step::End) => {
                            ended = Ok(true);
                            break;
                        }
                        Err(error) => {
                            ended = Err(error);
                            break;
                        }
                    }
                }
                Poll::Ready(Ok((read, ended, input.len())))
            });
            let read = read.await.ok_or_else(|| RequestFailure::idle(*timeout))?;
            let (read, ended, unparsed) = read.map_err(RequestFailure::closed)?;
            let now = world.now();
            if let Some(first) = first.filter(|_| read == 0 && parser.end()) {
                let (head_bytes, body_bytes) = (total - body, body);
                let reply =
                    Reply { status, planned, sent: started_at, first, done: now, head_bytes, body_bytes };
                return Ok((reply, true));
            }
            if read == 0 {
                let message = "the session ended before the answer was complete".to_owned();
                return Err(RequestFailure::new(Cause::ClosedEarly, message));
            }
            let malformed = |message: String| RequestFailure::new(Cause::Malformed, message);
            last_progress = now;
            total += read as u64;
            let first = *first.get_or_insert(now);
            if ended.map_err(|error| malformed(error.to_string()))? {
                if unparsed > 0 {
                    return Err(malformed("the server sent more than was requested".to_owned()));
                }
                let (head_bytes, body_bytes) = (total - body, body);
                let reply =
                    Reply { status, planned, sent: started_at, first, done: now, head_bytes, body_bytes };
                return Ok((reply, close));
            }
        }
    }
}
