//! Signals that ask a process to end or to reload its settings, and a watchdog for a process that does not end.

use std::future::poll_fn;
use std::io;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Receives SIGHUP, which asks a server to reload its settings. After the first call of [`new`](Self::new), SIGHUP no
/// longer ends the process.
#[derive(Debug)]
pub struct Hangups(Signal);

impl Hangups {
    /// Starts to receive SIGHUP.
    ///
    /// # Errors
    /// The operating system does not allow the process to catch the signal.
    pub fn new() -> io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Ready once for each SIGHUP.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_recv(cx).map(|_| ())
    }
}

/// Receives SIGINT and SIGTERM. After the first call of [`new`](Self::new), these signals no longer end the process.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Starts to receive SIGINT and SIGTERM.
    ///
    /// # Errors
    /// The operating system does not allow the process to catch the signals.
    pub fn new() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Ready once for each SIGINT or SIGTERM.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.interrupt.poll_recv(cx) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => self.terminate.poll_recv(cx).map(|_| ()),
        }
    }
}

/// Starts a signal thread. This thread immediately calls `begin` and then starts a watchdog thread. After the first
/// SIGINT or SIGTERM, the watchdog waits until `grace` is over or a second signal arrives. The watchdog then waits for
/// [`END_MARGIN`], and calls `end` if the process still runs.
///
/// A task may be stuck in a loop or in a write to a blocked pipe, so neither thread uses the executors of the process.
/// Once `watch_end` has succeeded, SIGINT and SIGTERM no longer end the process directly.
///
/// # Errors
/// The operating system does not provide signals or threads.
pub fn watch_end(grace: Duration, begin: fn(), end: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (ready, registered) = channel();
    small_thread("signals", move || {
        begin();
        let (caught, signals) = channel();
        // `begin` may have reduced the privileges of this thread. The watchdog thread inherits the reduced privileges.
        let watchdog = small_thread("watchdog", move || {
            let signal = |limit: Option<Duration>| match limit {
                Some(limit) => signals.recv_timeout(limit),
                None => signals.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            if wait_for_end(signal, grace, pause) {
                end();
            }
        });
        // Errors occur only during the setup of the threads and signal handlers. The caller of `watch_end` waits for
        // the result of the setup in `ready`.
        if let Err(error) = watchdog.and_then(|()| forward_signals(&ready, &caught)) {
            let _ = ready.send(Err(error));
        }
    })?;
    registered.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// Waits for a signal that asks the process to end. Then waits for a second signal or for the end of the period
/// `grace`. Returns false if no signal can arrive any more. `signal` waits for the next signal, with or without a time
/// limit, and `pause` sleeps.
fn wait_for_end(
    mut signal: impl FnMut(Option<Duration>) -> Result<(), RecvTimeoutError>,
    grace: Duration,
    pause: impl FnOnce(Duration),
) -> bool {
    if signal(None).is_err() {
        return false;
    }
    // Waits until a second signal arrives, or until the grace period is over.
    let _ = signal(Some(grace));
    // The process may be about to end by itself, so it gets some more time.
    pause(END_MARGIN);
    true
}

/// Sends a message to `caught` for each signal. Runs its own event loop, because the event loops of other threads may
/// be stuck.
fn forward_signals(ready: &Sender<io::Result<()>>, caught: &Sender<()>) -> io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
    runtime.block_on(async {
        let mut signals = Signals::new()?;
        let _ = ready.send(Ok(()));
        loop {
            poll_fn(|cx| signals.poll(cx)).await;
            if caught.send(()).is_err() {
                return Ok(());
            }
        }
    })
}

fn small_thread(name: &str, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
    thread::Builder::new().name(name.to_owned()).stack_size(STACK).spawn(body).map(|_| ())
}

#[expect(
    clippy::disallowed_methods,
    reason = "the thread has no world: it is there for when worlds stand still"
)]
fn pause(span: Duration) {
    thread::sleep(span);
}

/// After the end of the grace period or after a second signal, the watchdog of [`watch_end`] waits for this time and
/// then calls `end`. Until then, the process can still end normally.
pub const END_MARGIN: Duration = Duration::from_millis(500);
/// The stack size in bytes of a thread that does almost nothing.
const STACK: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    /// Returns the time from the first signal until the watchdog ends the process. `second` is the time from the first
    /// signal to the second one.
    fn overdue_after(grace: Duration, second: Duration) -> Duration {
        let now = Cell::new(Duration::ZERO);
        let signal = |limit: Option<Duration>| {
            let Some(limit) = limit else { return Ok(()) };
            now.set(now.get() + limit.min(second));
            if second < limit { Ok(()) } else { Err(RecvTimeoutError::Timeout) }
        };
        assert!(wait_for_end(signal, grace, |span| now.set(now.get() + span)));
        now.get()
    }

    #[test]
    fn a_process_is_overdue_when_its_grace_is_over_or_at_the_second_signal() {
        for seconds in [0, 1, 30, 3600] {
            let grace = Duration::from_secs(seconds);
            assert_eq!(overdue_after(grace, Duration::MAX), grace + END_MARGIN, "its grace is over");
        }
        let (long, second) = (Duration::from_secs(3600), Duration::from_secs(2));
        assert_eq!(overdue_after(long, second), second + END_MARGIN, "a second signal");
        let nobody = |_| Err(RecvTimeoutError::Disconnected);
        assert!(!wait_for_end(nobody, long, |_| {}), "nobody can ask");
    }
}
