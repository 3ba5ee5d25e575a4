//! The handle of an association.

use crate::stream::{RecvStream, SendStream, Writing};
use anabranch_sctp::AssociationInfo;
use anabranch_transport::{CloseReason, OpenError};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use tokio::sync::{Mutex, mpsc, oneshot, watch};

/// A stream pair as it is handed over.
pub(crate) type Pair = (SendStream, RecvStream);

/// An association. A clone is another handle of the same one; when the last is
/// gone, and the last stream, it is shut down in good order.
#[derive(Clone, Debug)]
pub struct Association {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    peer: Option<SocketAddr>,
    streams: u16,
    commands: mpsc::Sender<Command>,
    accepted: Mutex<mpsc::Receiver<Pair>>,
    ended: watch::Receiver<Option<CloseReason>>,
    writing: Arc<Writing>,
}

/// What the one who keeps an association is asked for.
#[derive(Debug)]
pub(crate) enum Command {
    Open { number: Option<u16>, reply: oneshot::Sender<Result<Pair, OpenError>> },
    Info(oneshot::Sender<Option<AssociationInfo>>),
    Close,
    Abort,
}

/// The other ends of the channels of an association.
#[derive(Debug)]
pub(crate) struct Asked {
    pub(crate) commands: mpsc::Receiver<Command>,
    pub(crate) accepted: mpsc::Sender<Pair>,
    pub(crate) ended: watch::Sender<Option<CloseReason>>,
    pub(crate) writing: Arc<Writing>,
}

/// Commands that may wait.
const COMMANDS: usize = 32;

/// Streams that the peer has begun and that may wait for [`Association::accept_bi`].
const ACCEPTED: usize = 64;

impl Association {
    pub(crate) fn new(peer: Option<SocketAddr>, streams: u16) -> (Self, Asked) {
        let (commands, asked) = mpsc::channel(COMMANDS);
        let (give, accepted) = mpsc::channel(ACCEPTED);
        let (end, ended) = watch::channel(None);
        let writing = Arc::<Writing>::default();
        let accepted = Mutex::new(accepted);
        let inner = Inner { peer, streams, commands, accepted, ended, writing: writing.clone() };
        (Self { inner: Arc::new(inner) }, Asked { commands: asked, accepted: give, ended: end, writing })
    }

    /// The peer's first address, with its SCTP port.
    #[must_use]
    pub fn remote_address(&self) -> Option<SocketAddr> {
        self.inner.peer
    }

    /// Stream pairs that both sides have, numbered from 0.
    #[must_use]
    pub fn streams(&self) -> u16 {
        self.inner.streams
    }

    /// Takes the lowest stream that nobody holds here. Both sides may open
    /// streams; who wants to be sure not to meet the other's, opens by number.
    ///
    /// Cancel-safe: dropped before it is ready, it holds no stream.
    ///
    /// # Errors
    /// [`OpenError`]: all are held, or the association has ended.
    pub async fn open_bi(&self) -> Result<(SendStream, RecvStream), OpenError> {
        self.open(None).await
    }

    /// Takes the stream of this number.
    ///
    /// Cancel-safe: dropped before it is ready, it holds no stream.
    ///
    /// # Errors
    /// [`OpenError`]: there is none, somebody holds it, or the association has ended.
    pub async fn open_number(&self, number: u16) -> Result<(SendStream, RecvStream), OpenError> {
        self.open(Some(number)).await
    }

    async fn open(&self, number: Option<u16>) -> Result<Pair, OpenError> {
        let (reply, answer) = oneshot::channel();
        let ended = || OpenError::Closed(self.reason());
        self.inner.commands.send(Command::Open { number, reply }).await.map_err(|_| ended())?;
        answer.await.map_err(|_| ended())?
    }

    /// The next stream on which the peer has sent something and which nobody holds here.
    ///
    /// Cancel-safe: dropped before it is ready, it has taken none.
    ///
    /// # Errors
    /// The association has ended.
    pub async fn accept_bi(&self) -> Result<(SendStream, RecvStream), CloseReason> {
        let next = self.inner.accepted.lock().await.recv().await;
        match next {
            Some(pair) => Ok(pair),
            // What ended the accepting is the end of the association.
            None => Err(self.closed().await),
        }
    }

    /// The association as it stands: its state, what was agreed on, and each path with its round-trip time, congestion
    /// window and counters. `None` once the association has ended. Cancel-safe.
    pub async fn info(&self) -> Option<AssociationInfo> {
        let (reply, answer) = oneshot::channel();
        self.inner.commands.send(Command::Info(reply)).await.ok()?;
        answer.await.ok()?
    }

    /// Shuts it down in good order: what was written before is delivered first, and what is written from now on is an
    /// error. Returns at once; wait with [`closed`](Self::closed).
    pub fn close(&self) {
        self.inner.writing.closing.store(true, Ordering::Release);
        self.send_command(Command::Close);
    }

    /// Ends it at once, with an ABORT.
    pub fn abort(&self) {
        self.inner.writing.closing.store(true, Ordering::Release);
        self.send_command(Command::Abort);
    }

    fn send_command(&self, command: Command) {
        // Full: somebody is opening streams faster than they can be had. The command must not be lost.
        if let Err(mpsc::error::TrySendError::Full(command)) = self.inner.commands.try_send(command) {
            let commands = self.inner.commands.clone();
            tokio::spawn(async move { commands.send(command).await });
        }
    }

    /// Waits for its end. Cancel-safe.
    pub async fn closed(&self) -> CloseReason {
        let mut ended = self.inner.ended.clone();
        let reason = ended.wait_for(Option::is_some).await;
        reason.ok().and_then(|reason| reason.clone()).unwrap_or_else(|| self.reason())
    }

    /// Why it ended; where its keeper is gone without a word, with the endpoint.
    fn reason(&self) -> CloseReason {
        let reason = self.inner.ended.borrow().clone();
        reason.unwrap_or_else(|| CloseReason::Network("the endpoint has ended".to_owned()))
    }
}
