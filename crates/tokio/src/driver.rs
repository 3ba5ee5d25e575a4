//! What runs in the endpoint's own thread: it keeps the endpoint, its
//! associations and their streams, and moves bytes between them and the channels
//! to the program.

use crate::association::{self, Asked, Association, Pair};
use crate::endpoint::{Command, ConnectError, Options};
use crate::stream::{self, Ended, Ends, Incoming, Outgoing, PIECE, Writing};
use anabranch_transport::sctp::{SctpHost, SctpListener, SctpSession, SctpStream};
use anabranch_transport::{CloseReason, Listener, OpenError, Session, Stream};
use anabranch_world::os::OsWorld;
use anabranch_world::{Detach, World};
use bytes::{Buf, Bytes};
use std::cell::RefCell;
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker, ready};
use tokio::sync::{mpsc, oneshot, watch};
use tokio_util::sync::PollSender;

/// What all in the thread share: the world, and a buffer to read into.
struct Home {
    world: OsWorld,
    buffer: RefCell<Vec<u8>>,
}

/// An endpoint, until all its handles and associations are gone.
pub(crate) async fn endpoint(
    world: OsWorld,
    options: Options,
    mut commands: mpsc::Receiver<Command>,
    accepted: mpsc::Sender<Association>,
    begun: oneshot::Sender<io::Result<Vec<SocketAddr>>>,
) {
    let (host, mut listener) = match begin(&world, options).await {
        Ok(both) => both,
        Err(error) => {
            let _ = begun.send(Err(error));
            return;
        }
    };
    let addresses = host.inspect(|engine| engine.addresses().to_vec());
    if begun.send(Ok(addresses)).is_err() {
        return;
    }
    let mut accepted = Some(PollSender::new(accepted));
    let home = Rc::new(Home { world, buffer: RefCell::new(vec![0; PIECE]) });
    poll_fn(|cx| {
        loop {
            match commands.poll_recv(cx) {
                Poll::Ready(Some(Command::Close)) => {
                    listener = None;
                    let host = host.clone();
                    home.world.spawn("close", async move { host.close().await }).detach();
                }
                Poll::Ready(Some(command)) => obey(&home, &host, command),
                Poll::Ready(None) => return Poll::Ready(()),
                Poll::Pending => break,
            }
        }
        if listener.is_none() {
            accepted = None;
        }
        while let (Some(from), Some(to)) = (&mut listener, &mut accepted) {
            if ready!(to.poll_reserve(cx)).is_err() {
                accepted = None;
                break;
            }
            match ready!(from.poll_accept(cx)) {
                Ok(session) => {
                    let _ = to.send_item(keep(&home, session));
                }
                Err(_) => accepted = None,
            }
        }
        Poll::Pending
    })
    .await;
    drop(listener);
    host.idle().await;
}

async fn begin(
    world: &OsWorld,
    options: Options,
) -> io::Result<(SctpHost<OsWorld>, Option<SctpListener<OsWorld>>)> {
    options.config.check().map_err(|why| io::Error::new(io::ErrorKind::InvalidInput, why))?;
    let host = SctpHost::new(world.clone(), options.config, options.carrier, None).await?;
    let listener = options.listen.map(|port| host.listen(port).map_err(io::Error::other)).transpose()?;
    Ok((host, listener))
}

fn obey(home: &Rc<Home>, host: &SctpHost<OsWorld>, command: Command) {
    match command {
        Command::Connect { peer, port, reply } => {
            let session = match host.connect(&peer, port) {
                Ok(session) => session,
                Err(error) => {
                    let _ = reply.send(Err(ConnectError::NotBegun(error.to_string())));
                    return;
                }
            };
            let inner = home.clone();
            let task = home.world.spawn("connect", async move {
                let done = established(&session, reply).await;
                if let Some(reply) = done {
                    let _ = reply.send(Ok(keep(&inner, session)));
                }
            });
            task.detach();
        }
        Command::WaitIdle(reply) => {
            let host = host.clone();
            let waiting = async move {
                host.idle().await;
                let _ = reply.send(());
            };
            home.world.spawn("wait idle", waiting).detach();
        }
        Command::Close => {}
    }
}

type ConnectReply = oneshot::Sender<Result<Association, ConnectError>>;

/// Waits for the handshake as long as somebody wants the association.
async fn established(session: &SctpSession<OsWorld>, mut reply: ConnectReply) -> Option<ConnectReply> {
    let end = poll_fn(|cx| match session.poll_established(cx) {
        Poll::Ready(end) => Poll::Ready(Some(end)),
        Poll::Pending => reply.poll_closed(cx).map(|()| None),
    })
    .await;
    match end {
        Some(Ok(())) => Some(reply),
        Some(Err(reason)) => {
            let _ = reply.send(Err(ConnectError::Failed(reason)));
            None
        }
        None => {
            session.abort();
            None
        }
    }
}

/// Keeps an association for those who hold handles of it.
fn keep(home: &Rc<Home>, session: SctpSession<OsWorld>) -> Association {
    let (handle, asked) =
        Association::new(session.peer(), u16::try_from(session.streams()).unwrap_or(u16::MAX));
    let Asked { commands, accepted, ended, writing } = asked;
    let keeper = Keeper {
        home: home.clone(),
        session,
        commands,
        accepted: Some(PollSender::new(accepted)),
        ended: Some(ended),
        writes: Rc::new(Writes { writing, keeper: RefCell::default() }),
        closes: false,
    };
    home.world.spawn("association", keeper).detach();
    handle
}

struct Keeper {
    home: Rc<Home>,
    session: SctpSession<OsWorld>,
    commands: mpsc::Receiver<association::Command>,
    /// `None` when nobody accepts any more.
    accepted: Option<PollSender<Pair>>,
    /// `None` once it was told.
    ended: Option<watch::Sender<Option<CloseReason>>>,
    writes: Rc<Writes>,
    /// Whether the association is shut down once all that was written is with the engine.
    closes: bool,
}

/// What the streams of an association have to write, and who waits for the end of that.
struct Writes {
    writing: Arc<Writing>,
    keeper: RefCell<Option<Waker>>,
}

impl Writes {
    fn one_done(&self) {
        self.writing.one_done();
        if self.writing.is_done()
            && let Some(keeper) = self.keeper.borrow_mut().take()
        {
            keeper.wake();
        }
    }
}

impl Keeper {
    fn obey(&mut self, command: association::Command) {
        match command {
            association::Command::Open { number, reply } => {
                let _ = reply.send(self.open(number).map(|stream| carry(&self.home, stream, &self.writes)));
            }
            association::Command::Info(reply) => {
                let _ = reply.send(self.session.info());
            }
            association::Command::Close => self.closes = true,
            association::Command::Abort => self.session.abort(),
        }
    }

    fn open(&self, number: Option<u16>) -> Result<SctpStream<OsWorld>, OpenError> {
        if let Some(number) = number {
            return self.session.open(number.into());
        }
        let mut last = OpenError::NoSuchStream { number: 0, streams: 0 };
        for number in 0..self.session.streams() {
            match self.session.open(number) {
                Err(error @ OpenError::AlreadyOpen(_)) => last = error,
                done => return done,
            }
        }
        Err(last)
    }
}

impl Future for Keeper {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        while let Poll::Ready(command) = this.commands.poll_recv(cx) {
            match command {
                Some(command) => this.obey(command),
                // The last handle is gone; streams may live on, unless they are not to.
                None if this.closes => break,
                None => return Poll::Ready(()),
            }
        }
        while let Some(accepted) = &mut this.accepted {
            match accepted.poll_reserve(cx) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    this.accepted = None;
                    break;
                }
                Poll::Pending => break,
            }
            match this.session.poll_accept(cx) {
                Poll::Ready(Ok(stream)) => {
                    let _ = accepted.send_item(carry(&this.home, stream, &this.writes));
                }
                Poll::Ready(Err(_)) => this.accepted = None,
                Poll::Pending => break,
            }
        }
        if let Some(ended) = &this.ended
            && let Poll::Ready(reason) = this.session.poll_closed(cx)
        {
            // Whoever is told that it has ended can write no more.
            let _ = this.writes.writing.ended.set(reason.clone());
            let _ = ended.send(Some(reason));
            this.ended = None;
        }
        if this.closes {
            // Before the count is looked at: it may become none meanwhile.
            *this.writes.keeper.borrow_mut() = Some(cx.waker().clone());
            if this.writes.writing.is_done() {
                this.closes = false;
                this.session.close();
            }
        }
        Poll::Pending
    }
}

/// Moves the bytes of a stream for those who hold its halves.
fn carry(home: &Rc<Home>, stream: SctpStream<OsWorld>, association: &Rc<Writes>) -> Pair {
    let (pair, ends) =
        stream::pair(u16::try_from(stream.number()).unwrap_or(u16::MAX), association.writing.clone());
    let Ends { outgoing, incoming, unread, ended } = ends;
    let carrier = Carrier {
        home: home.clone(),
        stream,
        outgoing,
        incoming: Some(PollSender::new(incoming)),
        unread,
        ended,
        writing: None,
        writes: true,
        association: association.clone(),
    };
    home.world.spawn("stream", carrier).detach();
    pair
}

struct Carrier {
    home: Rc<Home>,
    stream: SctpStream<OsWorld>,
    outgoing: mpsc::Receiver<Outgoing>,
    /// `None` when the stream has ended or nobody reads it.
    incoming: Option<PollSender<Incoming>>,
    unread: oneshot::Receiver<()>,
    ended: Ended,
    /// What is being written, and whether as a message of its own.
    writing: Option<(Bytes, bool)>,
    /// Somebody writes.
    writes: bool,
    association: Rc<Writes>,
}

impl Drop for Carrier {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl Carrier {
    /// Nothing more is written, of what was taken from writers either.
    fn give_up(&mut self) {
        self.outgoing.close();
        if self.writing.take().is_some() {
            self.association.one_done();
        }
        while self.outgoing.try_recv().is_ok() {
            self.association.one_done();
        }
    }

    /// Writes what is there to write, as far as there is room; ready when nothing more will be.
    fn poll_outgoing(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        loop {
            let Some((bytes, whole)) = &mut self.writing else {
                match ready!(self.outgoing.poll_recv(cx)) {
                    Some(Outgoing::Bytes(bytes)) => {
                        self.writing = Some((bytes, false));
                        continue;
                    }
                    Some(Outgoing::Message(bytes)) => {
                        self.writing = Some((bytes, true));
                        continue;
                    }
                    Some(Outgoing::Delivery(delivery)) => self.stream.set_delivery(delivery),
                    Some(Outgoing::Ppid(ppid)) => self.stream.set_ppid(ppid),
                    Some(Outgoing::Flushed(done)) => {
                        let _ = done.send(());
                    }
                    None => return Poll::Ready(()),
                }
                self.association.one_done();
                continue;
            };
            let written = if *whole {
                self.stream.poll_write_message(cx, bytes)
            } else {
                self.stream.poll_write(cx, bytes)
            };
            match ready!(written) {
                Ok(taken) => {
                    bytes.advance(taken);
                    if bytes.is_empty() {
                        self.writing = None;
                        self.association.one_done();
                    }
                }
                Err(reason) => {
                    // The first reason counts.
                    let _ = self.ended.set(reason);
                    return Poll::Ready(());
                }
            }
        }
    }

    /// Hands over what has come, or throws it away where nobody reads; ready at the end of the stream.
    fn poll_incoming(&mut self, cx: &mut Context<'_>) -> Poll<()> {
        let home = self.home.clone();
        let mut buffer = home.buffer.borrow_mut();
        loop {
            if let Some(incoming) = &mut self.incoming
                && ready!(incoming.poll_reserve(cx)).is_err()
            {
                self.incoming = None;
            }
            let reason = match ready!(self.stream.poll_recv(cx, &mut buffer)) {
                Ok(Some(received)) => {
                    let bytes = Bytes::copy_from_slice(&buffer[..received.bytes]);
                    if let Some(incoming) = &mut self.incoming {
                        let _ = incoming.send_item(Incoming {
                            bytes,
                            end_of_message: received.end_of_message,
                            given_up: received.incomplete,
                        });
                    }
                    continue;
                }
                Ok(None) => CloseReason::Finished,
                Err(reason) => reason,
            };
            let _ = self.ended.set(reason);
            return Poll::Ready(());
        }
    }
}

impl Future for Carrier {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let this = &mut *self;
        if this.writes && this.poll_outgoing(cx).is_ready() {
            this.writes = false;
            this.give_up();
        }
        // The reader is gone: what still comes is thrown away as long as somebody writes.
        if this.incoming.is_some() && pin!(&mut this.unread).poll(cx).is_ready() {
            this.incoming = None;
        }
        let held = this.writes || this.incoming.is_some();
        if held && this.poll_incoming(cx).is_ready() {
            this.incoming = None;
        }
        if this.writes || this.incoming.is_some() { Poll::Pending } else { Poll::Ready(()) }
    }
}
