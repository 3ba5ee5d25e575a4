//! Requests and replies over HTTP/2 and HTTP/3. A session may have several requests outstanding, each on a stream of
//! its own.

use super::exchange::{Reply, RequestFailure, RequestTimes};
use crate::idle_timer::IdleTimer;
use anabranch_base::time::Duration;
use anabranch_http::get::{Part, Query, RequestError, Requests, Traffic};
use anabranch_world::World;
use std::cell::Cell;
use std::rc::Rc;

/// Sends requests one after the other. Several `RequestSender`s may share a connection.
pub(super) struct RequestSender<W: World> {
    world: W,
    requests: Requests,
    query: Query,
    meter: Rc<Meter>,
    idle: IdleTimer<W>,
    timeout: Duration,
}

impl<W: World> RequestSender<W> {
    pub(super) fn new(
        world: &W,
        (requests, query): (Requests, Query),
        meter: Rc<Meter>,
        timeout: Duration,
    ) -> Self {
        let idle = IdleTimer::new(world, timeout);
        Self { world: world.clone(), requests, query, meter, idle, timeout }
    }

    /// Sends a request and reads its reply. When the request has been sent, calls `on_sent` with its size in bytes. The
    /// returned flag says whether the server closes the connection after the reply. It is always false, because a reply
    /// over HTTP/2 or HTTP/3 cannot announce this.
    pub(super) async fn exchange(
        &mut self,
        RequestTimes { planned, started_at }: RequestTimes,
        on_sent: impl FnOnce(u64),
    ) -> Result<(Reply, bool), RequestFailure> {
        let Self { world, requests, query, meter, idle, timeout } = self;
        let ready = idle.wait(started_at, |cx| requests.poll_ready(cx)).await;
        ready.ok_or_else(|| RequestFailure::idle(*timeout))?.map_err(failed)?;
        let mut response = requests.send(query).map_err(failed)?;
        // Wait until the request is sent. Over HTTP/3, the request may have to wait until the server allows another
        // stream.
        let sent = idle.wait(started_at, |cx| response.poll_sent(cx)).await;
        sent.ok_or_else(|| RequestFailure::idle(*timeout))?.map_err(failed)?;
        // The size of a compressed header is known only after it was sent. `sent` therefore counts all bytes that the
        // connection has sent since the last call.
        on_sent(meter.sent());
        let (mut first, mut status, mut body_bytes, mut last_progress) = (None, 0, 0, started_at);
        loop {
            let mut waited = false;
            let part = idle.wait(last_progress, |cx| {
                let part = response.poll(cx);
                waited |= part.is_pending();
                part
            });
            let part = part.await.ok_or_else(|| RequestFailure::idle(*timeout))?.map_err(failed)?;
            // Parts of a reply that arrive together get the same time.
            if waited {
                last_progress = world.now();
            }
            let first = *first.get_or_insert(last_progress);
            match part {
                Part::Head(head_status) => status = head_status,
                Part::Body(bytes) => body_bytes += bytes,
                Part::End => {
                    let head_bytes = meter.framing();
                    let reply = Reply {
                        status,
                        planned,
                        sent: started_at,
                        first,
                        done: last_progress,
                        head_bytes,
                        body_bytes,
                    };
                    return Ok((reply, false));
                }
            }
        }
    }
}

fn failed(unanswered: RequestError) -> RequestFailure {
    RequestFailure { unprocessed: unanswered.unprocessed, ..RequestFailure::closed(unanswered.reason) }
}

/// Attributes the bytes of a connection to its requests and replies, each byte to only one of them.
pub(super) struct Meter {
    traffic: Rc<Cell<Traffic>>,
    sent: Cell<u64>,
    framing: Cell<u64>,
}

impl Meter {
    pub(super) fn new(traffic: Rc<Cell<Traffic>>) -> Self {
        Self { traffic, sent: Cell::new(0), framing: Cell::new(0) }
    }

    /// Returns the number of bytes sent since the last call.
    pub(super) fn sent(&self) -> u64 {
        let sent = self.traffic.get().sent;
        sent - self.sent.replace(sent)
    }

    /// Returns how many bytes of header fields and framing have been received since the last call.
    pub(super) fn framing(&self) -> u64 {
        let Traffic { received, data, .. } = self.traffic.get();
        // `data` counts the content of a frame as soon as the frame's header has arrived, although its last bytes may
        // still be missing. Therefore `received - data` may temporarily be too low.
        let framing = received.saturating_sub(data).max(self.framing.get());
        framing - self.framing.replace(framing)
    }
}
