//! One request and its reply on a stream, with the instants that are measured.

use super::cause::Cause;
use super::tally::Reply;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_http::fetch::response::{ResponseParser, Step};
use anabranch_transport::{CloseReason, Stream};
use anabranch_world::{Timer, World};
use std::cell::RefCell;
use std::future::poll_fn;
use std::task::{Context, Poll};

/// Why there is no reply.
pub(super) struct Failed {
    pub(super) cause: Cause,
    pub(super) said: String,
}

/// A stream that asks for one object after the other.
pub(super) struct RequestStream<W: World, T: Stream> {
    world: W,
    stream: T,
    parser: ResponseParser,
    patience: Patience<W>,
}

impl<W: World, T: Stream> RequestStream<W, T> {
    pub(super) fn new(world: &W, stream: T, timeout: Duration) -> Self {
        let patience = Patience { timer: world.timer(), armed: false, span: timeout };
        let parser = ResponseParser::new().ending(stream.half_closes());
        Self { world: world.clone(), stream, parser, patience }
    }

    /// Asks and takes the reply; true beside it when the server closes after it. `sent` is told when all of the
    /// request has been taken by the transport.
    pub(super) async fn exchange(
        &mut self,
        planned: Instant,
        request: &[u8],
        buffer: &RefCell<Vec<u8>>,
        asked: impl FnOnce(),
    ) -> Result<(Reply, bool), Failed> {
        let Self { world, stream, parser, patience } = self;
        let begun = world.now();
        let mut moved = begun;
        let mut left = request;
        while !left.is_empty() {
            let taken = patience.wait(world, moved, |cx| stream.poll_write(cx, left)).await?;
            left = &left[taken..];
            if !left.is_empty() {
                moved = world.now();
            }
        }
        asked();
        let (mut first, mut status, mut close) = (None, 0, false);
        let (mut total, mut body) = (0, 0);
        loop {
            // What was read is parsed before the buffer is given back: all streams share it.
            let read = patience.wait(world, moved, |cx| {
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
            let (read, ended, behind) = read.await?;
            let now = world.now();
            if let Some(first) = first.filter(|_| read == 0 && parser.end()) {
                let (head_bytes, body_bytes) = (total - body, body);
                let reply = Reply { status, planned, sent: begun, first, done: now, head_bytes, body_bytes };
                return Ok((reply, true));
            }
            if read == 0 {
                let said = "the session ended before the answer was complete".to_owned();
                return Err(Failed { cause: Cause::ClosedEarly, said });
            }
            let malformed = |said: String| Failed { cause: Cause::Malformed, said };
            moved = now;
            total += read as u64;
            let first = *first.get_or_insert(now);
            if ended.map_err(|error| malformed(error.to_string()))? {
                if behind > 0 {
                    return Err(malformed("more came than was asked for".to_owned()));
                }
                let (head_bytes, body_bytes) = (total - body, body);
                let reply = Reply { status, planned, sent: begun, first, done: now, head_bytes, body_bytes };
                return Ok((reply, close));
            }
        }
    }
}

/// Runs out when nothing has moved for a span. The timer runs on while bytes
/// come, and is only looked at anew when it fires: a timer costs more than a read.
struct Patience<W: World> {
    timer: W::Timer,
    armed: bool,
    span: Duration,
}

impl<W: World> Patience<W> {
    /// Waits as long as something has moved within the span.
    async fn wait<R>(
        &mut self,
        world: &W,
        moved: Instant,
        mut poll: impl FnMut(&mut Context<'_>) -> Poll<Result<R, CloseReason>>,
    ) -> Result<R, Failed> {
        poll_fn(|cx| match poll(cx) {
            Poll::Ready(Ok(result)) => Poll::Ready(Ok(result)),
            Poll::Ready(Err(reason)) => {
                Poll::Ready(Err(Failed { cause: Cause::of_close(&reason), said: reason.to_string() }))
            }
            Poll::Pending => self.poll(world, moved, cx).map(|()| {
                let said = format!("no data for {} s", self.span.as_secs_f32());
                Err(Failed { cause: Cause::Timeout, said })
            }),
        })
        .await
    }

    fn poll(&mut self, world: &W, moved: Instant, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            if !self.armed {
                if moved + self.span <= world.now() {
                    return Poll::Ready(());
                }
                self.timer.set(Some(moved + self.span));
                self.armed = true;
            }
            if self.timer.poll(cx).is_pending() {
                return Poll::Pending;
            }
            self.armed = false;
        }
    }
}
