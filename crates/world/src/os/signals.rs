//! Being asked to end, or to read settings again; and the end of a process that does not end when asked.

use std::future::poll_fn;
use std::io;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::{Context, Poll};
use std::thread;
use std::time::Duration;
use tokio::signal::unix::{Signal, SignalKind, signal};

/// Hears SIGHUP, which from here on does not end the process: what a server has read is to be read again.
#[derive(Debug)]
pub struct Hangups(Signal);

impl Hangups {
    /// Listens from here on.
    ///
    /// # Errors
    /// The operating system does not let us.
    pub fn new() -> io::Result<Self> {
        signal(SignalKind::hangup()).map(Self)
    }

    /// Ready with each signal.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        self.0.poll_recv(cx).map(|_| ())
    }
}

/// Hears SIGINT and SIGTERM, which from here on do not end the process.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Listens from here on.
    ///
    /// # Errors
    /// The operating system does not let us.
    pub fn new() -> io::Result<Self> {
        Ok(Self { interrupt: signal(SignalKind::interrupt())?, terminate: signal(SignalKind::terminate())? })
    }

    /// Ready with each signal.
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        match self.interrupt.poll_recv(cx) {
            Poll::Ready(_) => Poll::Ready(()),
            Poll::Pending => self.terminate.poll_recv(cx).map(|_| ()),
        }
    }
}

/// Calls `end` on a thread of its own if the process still runs so long after SIGINT or SIGTERM: `grace` and half a second
/// after the first, half a second after the second. It does so whatever the executors of the process do: a task may be stuck
/// in a loop, or in a write to a pipe that nobody reads. The threads that this takes call `begin` first. From here on these signals do not end the process by themselves.
///
/// # Errors
/// The operating system does not let us have signals, or threads.
pub fn watch_end(grace: Duration, begin: fn(), end: impl FnOnce() + Send + 'static) -> io::Result<()> {
    let (ready, registered) = channel();
    small_thread("signals", move || {
        begin();
        let (caught, signals) = channel();
        // It starts as this thread is: without what `begin` gave up.
        let watchdog = small_thread("watchdog", move || {
            if wait_for_end(&signals, grace) {
                end();
            }
        });
        // Fails only before anything is caught.
        if let Err(error) = watchdog.and_then(|()| forward_signals(&ready, &caught)) {
            let _ = ready.send(Err(error));
        }
    })?;
    registered.recv().unwrap_or_else(|_| Err(io::ErrorKind::Other.into()))
}

/// Waits until a process that was asked to end should have ended. False if nobody will ask.
fn wait_for_end(signals: &Receiver<()>, grace: Duration) -> bool {
    if signals.recv().is_err() {
        return false;
    }
    // A second signal, or none in time.
    let _ = signals.recv_timeout(grace);
    // The executor may just be doing it.
    pause(MARGIN);
    true
}

/// Has an event queue of its own: that of another thread may be looked at no more.
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

/// How long after its time a process may still end by itself.
const MARGIN: Duration = Duration::from_millis(500);
/// Stack of a thread that does next to nothing, bytes.
const STACK: usize = 256 * 1024;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_is_overdue_when_its_grace_is_over_or_at_the_second_signal() {
        let long = Duration::from_secs(3600);
        let (signal, signals) = channel();
        signal.send(()).expect("taken");
        assert!(wait_for_end(&signals, Duration::from_millis(1)), "its grace is over");
        signal.send(()).expect("taken");
        signal.send(()).expect("taken");
        assert!(wait_for_end(&signals, long), "a second signal");
        drop(signal);
        assert!(!wait_for_end(&signals, long), "nobody can ask");
    }
}
