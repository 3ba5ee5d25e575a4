//! Watches an exchange or a tunnel. Ends the exchange or tunnel if it stalls for too long or blocks other exchanges for
//! too long.
//!
//! The streams of an association share its receive window. A stream whose bytes are not read fills that window, so no
//! data arrives on any other stream: the stream *blocks* the other streams. An exchange that waits for data on one of
//! the other streams is *trapped*. A trapped exchange continues on another association if possible, and otherwise is
//! *starved*.

use super::conn::{ProgressClock, PumpProgress};
use super::{Activity, Service};
use anabranch_base::time::{Duration, Instant};
use anabranch_http::limits::ProgressMonitor;
use anabranch_http::upstream::SharedWindow;
use anabranch_world::{Timer, World};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

/// The progress of an exchange in both directions.
#[derive(Debug, Default)]
pub(super) struct Progress {
    /// The progress of the request's body.
    pub(super) up: PumpProgress,
    /// The progress of the response's body.
    pub(super) down: PumpProgress,
    /// Whether the head of an interim or final response has arrived from the server behind the gateway.
    pub(super) answered: Cell<bool>,
    /// Whether the gateway has begun to send the final response to the client.
    pub(super) final_response_started: Cell<bool>,
    /// Whether the exchange may be restarted on another association, as long as no response has arrived.
    pub(super) is_restartable: bool,
}

/// The reason why [`watched`] ended the future of an exchange early.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum WatchEnd {
    /// The exchange made no progress for too long, or it blocked other exchanges for too long.
    Stalled,
    /// Another exchange blocks the receive window, so this exchange cannot continue on its association (it is trapped).
    /// The exchange can be restarted on another association.
    Trapped,
}

/// The two sessions that carry an exchange: to the client and to the server. Other exchanges may use the same sessions.
#[derive(Clone, Copy)]
pub(super) struct SharedSessions<'a> {
    /// The receive window that all streams of the gateway's session with the server share; `None` if the streams share
    /// no window.
    pub(super) upstream: Option<&'a SharedWindow>,
    /// The activity of the client's session.
    pub(super) client: &'a Activity,
    /// Whether the client's session is a TCP connection, which has only one stream.
    pub(super) half_close: bool,
}

/// Polls `wait` until it is done, and ends it early if the exchange stalls. Acknowledgements of written bytes count as
/// progress. `unacknowledged` returns two numbers of unacknowledged bytes: on the session with the server, and on the
/// session with the client. Each number includes the bytes of all exchanges on that session.
pub(super) async fn watched<W: World, U, T>(
    service: &Service<W, U>,
    progress_clock: &ProgressClock<W>,
    progress: &Progress,
    shared: SharedSessions<'_>,
    unacknowledged: impl Fn() -> (u64, u64),
    wait: impl Future<Output = T>,
) -> Result<T, WatchEnd> {
    let idle = service.options.idle;
    // If other exchanges share the receive window of this exchange, the exchange is checked more often. The other
    // exchanges have to wait while the unread data of this exchange fills the window.
    let tick = idle.min(if shared.upstream.is_some() { SHARED_TICK } else { TICK });
    let mut wait = pin!(wait);
    let mut timer = service.world.timer();
    timer.set(Some(service.world.now() + tick));
    let mut blocking = Mark { count: shared.upstream.map(|window| &window.blocking), marked: false };
    let mut starved = Mark { count: shared.upstream.map(|window| &window.starved), marked: false };
    let (mut last_check, mut unacknowledged_by_client) = (service.world.now(), 0);
    let mut client_turn = ClientTurn { activity: shared.client, reported: false };
    let (mut unacknowledged_bytes, mut pace) = (UnacknowledgedBytes::default(), ProgressMonitor::default());
    poll_fn(|cx| {
        if let Poll::Ready(result) = wait.as_mut().poll(cx) {
            return Poll::Ready(Ok(result));
        }
        while timer.poll(cx).is_ready() {
            let (now, up, down) = (service.world.now(), &progress.up, &progress.down);
            let is_client_turn = down.blocked.get() || !up.done.get() && !up.blocked.get();
            if last_check + TICK.min(idle) <= now {
                last_check = now;
                if unacknowledged_bytes.has_progressed(progress_clock.last_progress(), unacknowledged().0) {
                    progress_clock.record_progress();
                    unacknowledged_bytes.last_progress = Some(progress_clock.last_progress());
                }
                let (own, client) = (up.transferred.get() + down.transferred.get(), shared.client);
                let (whole, exchanges) =
                    (client.slot_handle.progress(unacknowledged().1), client.requests_in_progress.get());
                if pace.is_stalled(own, whole, exchanges, !is_client_turn, now) && client.share.preempt() {
                    return Poll::Ready(Err(WatchEnd::Stalled));
                }
            }
            if down.blocked.get() {
                // If fewer bytes are unacknowledged than at the last check, the exchange has made progress: a slow
                // client may be reading, although it rarely makes room for another write.
                let unacknowledged = unacknowledged().1;
                if unacknowledged < std::mem::replace(&mut unacknowledged_by_client, unacknowledged) {
                    progress_clock.record_progress();
                }
            }
            client_turn.set(is_client_turn);
            let idle_time = progress_clock.idle_time();
            // If the client does not read the response, the response's bytes fill the receive window of the association
            // with the server. They then block the other exchanges on that association.
            let is_blocking = down.blocked.get() && idle_time >= tick;
            blocking.set(is_blocking);
            let window = shared.upstream.filter(|window| window.leased.get() > 1);
            let is_window_blocked = window.is_some_and(|window| window.blocking.get() > 0);
            let trapped =
                is_window_blocked && up.done.get() && !down.blocked.get() && idle_time >= TRAPPED_AFTER;
            let answered = progress.answered.get();
            if trapped && progress.is_restartable && !answered {
                return Poll::Ready(Err(WatchEnd::Trapped));
            }
            starved.set(trapped && (answered || !progress.is_restartable));
            let blocks_peer = is_blocking && window.is_some();
            // If the server does not read the request, the request's bytes fill the receive window of the association
            // with the client. They then block the client's other requests.
            let blocks_client = up.blocked.get() && !shared.half_close && shared.client.active.get() > 1;
            let starves = blocks_peer && window.is_some_and(|window| window.starved.get() > 0);
            let blocks_too_long = (blocks_peer || blocks_client) && idle_time >= MAX_BLOCKING;
            if idle_time >= idle || blocks_too_long || starves && idle_time >= MAX_STARVING {
                return Poll::Ready(Err(WatchEnd::Stalled));
            }
            timer.set(Some(service.world.now() + tick));
        }
        Poll::Pending
    })
    .await
}

/// Polls the two directions of an exchange until `downward`, the direction to the client, is done. If `needs_both` is
/// set, `upward` must also be done. Ends early if either direction fails.
pub(super) async fn both<T, E>(
    upward: impl Future<Output = Result<(), E>>,
    downward: impl Future<Output = Result<T, E>>,
    needs_both: bool,
) -> Result<T, E> {
    let (mut upward, mut downward) = (pin!(upward), pin!(downward));
    let (mut sent, mut received) = (false, None);
    poll_fn(|cx| {
        if !sent && let Poll::Ready(result) = upward.as_mut().poll(cx) {
            result?;
            sent = true;
        }
        if received.is_none()
            && let Poll::Ready(result) = downward.as_mut().poll(cx)
        {
            received = Some(result?);
        }
        match received.take_if(|_| sent || !needs_both) {
            Some(result) => Poll::Ready(Ok(result)),
            None => Poll::Pending,
        }
    })
    .await
}

/// The bytes that an exchange has written to the server behind the gateway (the peer), and that this server has not
/// acknowledged.
#[derive(Default)]
struct UnacknowledgedBytes {
    /// The time of the exchange's last progress, as known at the last check.
    last_progress: Option<Instant>,
    /// The number of unacknowledged bytes on the whole session at the last check.
    unacknowledged: u64,
    /// An upper bound on the number of unacknowledged bytes of this exchange. At the first check after the exchange has
    /// made progress, the bound is set to the value of `unacknowledged`. Every byte of the session that the peer
    /// acknowledges later reduces the bound by 1.
    max_unacknowledged: u64,
}

impl UnacknowledgedBytes {
    /// Returns whether the peer may have acknowledged bytes of this exchange since the last check. `last_progress` is
    /// the time at which the exchange last made progress. `unacknowledged` is the number of unacknowledged bytes on the
    /// session.
    ///
    /// Once `max_unacknowledged` is 0, newly acknowledged bytes belong to other exchanges on the session. They do not
    /// keep a stalled exchange alive.
    fn has_progressed(&mut self, last_progress: Instant, unacknowledged: u64) -> bool {
        let acknowledged =
            std::mem::replace(&mut self.unacknowledged, unacknowledged).saturating_sub(unacknowledged);
        if self.last_progress.replace(last_progress) != Some(last_progress) {
            self.max_unacknowledged = unacknowledged;
            return unacknowledged > 0;
        }
        let own_acknowledged = acknowledged.min(self.max_unacknowledged);
        self.max_unacknowledged -= own_acknowledged;
        own_acknowledged > 0
    }
}

/// A mark that an exchange can set and remove, for example that it is starved. `count` is either
/// [`SharedWindow::blocking`] or [`SharedWindow::starved`], and counts the exchanges whose mark is set.
struct Mark<'a> {
    count: Option<&'a Cell<u32>>,
    marked: bool,
}

impl Mark<'_> {
    fn set(&mut self, marked: bool) {
        let Some(count) = self.count.filter(|_| self.marked != marked) else { return };
        self.marked = marked;
        count.set(if marked { count.get() + 1 } else { count.get() - 1 });
    }
}

impl Drop for Mark<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// Tells the concurrency slot of the client's session whether the gateway is waiting for the client in an exchange.
struct ClientTurn<'a> {
    activity: &'a Activity,
    reported: bool,
}

impl ClientTurn<'_> {
    fn set(&mut self, is_client_turn: bool) {
        match (std::mem::replace(&mut self.reported, is_client_turn), is_client_turn) {
            (false, true) => self.activity.slot_handle.end_server_turn(),
            (true, false) => self.activity.slot_handle.begin_server_turn(),
            _ => {}
        }
    }
}

impl Drop for ClientTurn<'_> {
    fn drop(&mut self) {
        self.set(false);
    }
}

/// The interval between two checks of an exchange that shares a flow-control window with other exchanges. If a client
/// reads nothing for this time, its exchange counts as blocking the window.
const SHARED_TICK: Duration = Duration::from_millis(100);
/// The interval between two checks of an exchange that shares no flow-control window. Every exchange is also checked at
/// this interval for bytes that the server behind the gateway has acknowledged, and for the client's progress.
const TICK: Duration = Duration::from_secs(1);
/// The time without progress after which an exchange counts as trapped, if another exchange blocks the window that they
/// share.
const TRAPPED_AFTER: Duration = Duration::from_millis(200);
/// The time for which an exchange may block other exchanges, if at least one of the others counts as starved
/// ([`SharedWindow::starved`]).
const MAX_STARVING: Duration = Duration::from_secs(1);
/// The time for which an exchange may block other exchanges, if none of the others counts as starved.
const MAX_BLOCKING: Duration = Duration::from_secs(5);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn acknowledgments_count_as_progress_until_all_bytes_are_acknowledged() {
        let mut under_way = UnacknowledgedBytes::default();
        let written = Instant::from_millis(1);
        assert!(under_way.has_progressed(written, 3000), "it has only just been written");
        assert!(under_way.has_progressed(written, 2000));
        assert!(!under_way.has_progressed(written, 2000), "nothing was");
        // Other exchanges write 7000 bytes to the session, and the peer acknowledges these bytes as well.
        assert!(!under_way.has_progressed(written, 9000));
        assert!(under_way.has_progressed(written, 6000));
        assert!(!under_way.has_progressed(written, 1000), "ours has gone");
        let again = Instant::from_millis(2);
        assert!(
            !under_way.has_progressed(again, 0) && !under_way.has_progressed(again, 0),
            "nothing is under way"
        );
    }
}
