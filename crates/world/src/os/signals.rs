//! Being asked to end, or to read settings again.

use std::io;
use std::task::{Context, Poll};
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
