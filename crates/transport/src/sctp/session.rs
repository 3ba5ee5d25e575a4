//! The handles an application holds of an association and its streams.

use super::host::Shared;
use super::{Inner, PPID_HTTP};
use crate::session::{CloseReason, Delivery, OpenError, Session, Stream};
use anabranch_base::Engine;
use anabranch_sctp::{AssociationId, AssociationInfo, AssociationStats, Message, Received, SendError};
use anabranch_world::World;
use std::net::SocketAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

/// An association.
#[derive(Debug)]
pub struct SctpSession<W: World> {
    held: Rc<Held<W>>,
}

/// One per association: closes it when the last handle is gone.
#[derive(Debug)]
struct Held<W: World> {
    host: Rc<Inner<W>>,
    id: AssociationId,
    key: u64,
}

impl<W: World> Drop for Held<W> {
    fn drop(&mut self) {
        self.host.shared.borrow_mut().let_go(self.host.world.now(), self.id);
    }
}

impl<W: World> Clone for SctpSession<W> {
    fn clone(&self) -> Self {
        Self { held: self.held.clone() }
    }
}

impl<W: World> SctpSession<W> {
    pub(super) fn new(host: Rc<Inner<W>>, id: AssociationId, key: u64) -> Self {
        Self { held: Rc::new(Held { host, id, key }) }
    }

    /// The association as it stands; `None` once it has ended.
    #[must_use]
    pub fn info(&self) -> Option<AssociationInfo> {
        self.with(|shared, id| shared.engine.info(id))
    }

    /// What it has done; `None` once it has ended.
    #[must_use]
    pub fn stats(&self) -> Option<AssociationStats> {
        self.with(|shared, id| shared.engine.stats(id))
    }

    fn with<R>(&self, look: impl FnOnce(&mut Shared, AssociationId) -> R) -> R {
        look(&mut self.held.host.shared.borrow_mut(), self.held.id)
    }

    fn take(&self, number: u16) -> SctpStream<W> {
        let (held, delivery) = (self.held.clone(), Delivery::default());
        SctpStream { held, number, finished: false, delivery, ppid: None }
    }
}

impl<W: World> Session for SctpSession<W> {
    type Stream = SctpStream<W>;

    fn id(&self) -> u64 {
        self.held.key
    }

    fn peer(&self) -> Option<SocketAddr> {
        let info = self.with(|shared, id| shared.engine.info(id))?;
        info.paths.first().map(|path| SocketAddr::new(path.address, info.peer_port))
    }

    fn poll_established(&self, cx: &mut Context<'_>) -> Poll<Result<(), CloseReason>> {
        self.with(|shared, id| {
            let Some(association) = shared.associations.get_mut(&id) else {
                return Poll::Ready(Err(CloseReason::Aborted));
            };
            if association.established {
                return Poll::Ready(Ok(()));
            }
            if let Some(reason) = &association.closed {
                return Poll::Ready(Err(reason.clone()));
            }
            association.state_waiters.add(cx);
            Poll::Pending
        })
    }

    fn early_data(&self) -> bool {
        self.with(|shared, _| shared.early_data)
    }

    fn streams(&self) -> u16 {
        self.with(|shared, id| shared.associations.get(&id).map_or(0, |association| association.streams))
    }

    fn grow(&self, more: u16) {
        let now = self.held.host.world.now();
        self.with(|shared, id| {
            let Some(association) = shared.associations.get_mut(&id) else { return };
            // Refused here, it is over before it began, and whoever waits for it is told so.
            if association.growing == (0, 0) && shared.engine.add_streams(now, id, more, more).is_ok() {
                association.growing = (more, more);
                shared.bell.ring();
            }
        });
    }

    fn poll_grown(&self, cx: &mut Context<'_>) -> Poll<u16> {
        self.with(|shared, id| {
            let Some(association) = shared.associations.get_mut(&id) else {
                return Poll::Ready(0);
            };
            if association.growing == (0, 0) || association.closed.is_some() {
                return Poll::Ready(association.streams);
            }
            association.state_waiters.add(cx);
            Poll::Pending
        })
    }

    fn open(&self, number: u16) -> Result<SctpStream<W>, OpenError> {
        self.with(|shared, id| {
            let Some(association) = shared.associations.get_mut(&id) else {
                return Err(OpenError::Closed(CloseReason::Aborted));
            };
            if let Some(reason) = &association.closed {
                return Err(OpenError::Closed(reason.clone()));
            }
            let streams = association.streams;
            if number >= streams {
                return Err(OpenError::NoSuchStream { number, streams });
            }
            if association.lane(number).open {
                return Err(OpenError::AlreadyOpen(number));
            }
            association.hold(number);
            Ok(())
        })?;
        Ok(self.take(number))
    }

    fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<Result<SctpStream<W>, CloseReason>> {
        let number = self.with(|shared, id| {
            let Some(association) = shared.associations.get_mut(&id) else {
                return Poll::Ready(Err(CloseReason::Aborted));
            };
            if let Some(number) = association.take_begun() {
                association.hold(number);
                return Poll::Ready(Ok(number));
            }
            if let Some(reason) = association.end() {
                return Poll::Ready(Err(reason));
            }
            association.acceptors.add(cx);
            Poll::Pending
        });
        number.map_ok(|number| self.take(number))
    }

    fn poll_closed(&self, cx: &mut Context<'_>) -> Poll<CloseReason> {
        self.with(|shared, id| {
            let Some(association) = shared.associations.get_mut(&id) else {
                return Poll::Ready(CloseReason::Aborted);
            };
            if let Some(reason) = &association.closed {
                return Poll::Ready(reason.clone());
            }
            association.state_waiters.add(cx);
            Poll::Pending
        })
    }

    fn unacknowledged(&self) -> u64 {
        self.with(|shared, id| shared.engine.info(id).map_or(0, |info| info.buffered))
    }

    fn close(&self) {
        let now = self.held.host.world.now();
        self.with(|shared, id| {
            shared.engine.shutdown(now, id);
            shared.bell.ring();
        });
    }

    fn abort(&self) {
        let now = self.held.host.world.now();
        self.with(|shared, id| {
            shared.engine.abort(now, id);
            shared.bell.ring();
        });
    }
}

/// A stream pair of an association, as a two-way sequence of bytes.
#[derive(Debug)]
pub struct SctpStream<W: World> {
    held: Rc<Held<W>>,
    number: u16,
    finished: bool,
    /// How whole messages go.
    delivery: Delivery,
    /// What all messages are marked with, when the application has said so.
    ppid: Option<u32>,
}

impl<W: World> Drop for SctpStream<W> {
    fn drop(&mut self) {
        let (id, number) = (self.held.id, self.number);
        let mut shared = self.held.host.shared.borrow_mut();
        let unread = shared.engine.readable_bytes(id, number) > 0;
        if let Some(association) = shared.associations.get_mut(&id) {
            association.give_back(number);
            if unread {
                association.readable(number);
            }
        }
    }
}

impl<W: World> SctpStream<W> {
    /// The payload protocol identifier of messages written from now on. Until
    /// told: 0 of whole messages, [`PPID_HTTP`] of bytes.
    pub fn set_ppid(&mut self, ppid: u32) {
        self.ppid = Some(ppid);
    }

    /// Reads at most the rest of one user message, of whatever identifier, and
    /// tells where it ends; `None` is the end of the stream.
    ///
    /// # Errors
    /// The session ended before the stream did.
    pub fn poll_recv(
        &mut self,
        cx: &mut Context<'_>,
        into: &mut [u8],
    ) -> Poll<Result<Option<Received>, CloseReason>> {
        let (id, stream) = (self.held.id, self.number);
        let now = self.held.host.world.now();
        let mut shared = self.held.host.shared.borrow_mut();
        let Shared { engine, associations, bell, .. } = &mut *shared;
        let Some(association) = associations.get_mut(&id) else {
            return Poll::Ready(Err(CloseReason::Aborted));
        };
        let lane = association.lane(stream);
        if lane.cancelled {
            return Poll::Ready(Err(CloseReason::Cancelled));
        }
        if !lane.dry {
            if let Ok(Some(received)) = engine.recv(now, id, stream, into) {
                lane.read += received.bytes as u64;
                if engine.has_output() {
                    bell.ring();
                }
                return Poll::Ready(Ok(Some(received)));
            }
            lane.dry = true;
        }
        match association.end() {
            Some(CloseReason::Finished) => Poll::Ready(Ok(None)),
            Some(reason) => Poll::Ready(Err(reason)),
            None => {
                association.wait_to_read(stream, cx);
                Poll::Pending
            }
        }
    }

    /// Writes messages of so many bytes, or cuts where it pleases.
    fn write(
        &mut self,
        cx: &Context<'_>,
        from: &[u8],
        size: Option<usize>,
    ) -> Poll<Result<usize, CloseReason>> {
        if from.is_empty() {
            return Poll::Ready(Ok(0));
        }
        if self.finished {
            return Poll::Ready(Err(CloseReason::Finished));
        }
        let (id, stream) = (self.held.id, self.number);
        let now = self.held.host.world.now();
        let mut shared = self.held.host.shared.borrow_mut();
        let Shared { engine, associations, bell, .. } = &mut *shared;
        let Some(association) = associations.get_mut(&id) else {
            return Poll::Ready(Err(CloseReason::Aborted));
        };
        if association.lane(stream).cancelled {
            return Poll::Ready(Err(CloseReason::Cancelled));
        }
        let piece = size.unwrap_or_else(|| {
            let fragment = engine.fragment_size(id).max(LEAST_PIECE);
            match engine.interleaves(id) {
                false => fragment,
                // RFC 8260 §2: a message holds up nobody, so a write is one message, if there is room for it.
                true => engine.writable_bytes(id).clamp(fragment, MOST_PIECE.max(fragment)),
            }
        });
        let whole = size.is_some();
        // Whole messages are the application's own; what is cut here is a byte stream of HTTP.
        let ppid = self.ppid.unwrap_or(if whole { 0 } else { PPID_HTTP });
        // A stream of bytes needs them all, and in order.
        let Delivery { unordered, reliability, .. } = if whole { self.delivery } else { Delivery::default() };
        let message = Message { stream, ppid, unordered, reliability, ..Message::default() };
        let taken = match engine.send_pieces(now, id, message, from, piece) {
            Ok(taken) => taken,
            Err(SendError::Full) => 0,
            Err(SendError::Closing | SendError::Unknown) => {
                return Poll::Ready(Err(association.closed.clone().unwrap_or(CloseReason::Finished)));
            }
            Err(error) => return Poll::Ready(Err(CloseReason::Protocol(error.to_string()))),
        };
        if taken == 0 {
            association.wait_to_write(stream, cx);
            return Poll::Pending;
        }
        association.wrote(stream, taken as u64);
        bell.ring();
        Poll::Ready(Ok(taken))
    }

    fn position(&self, of: impl FnOnce(&super::host::Lane) -> u64) -> u64 {
        let mut shared = self.held.host.shared.borrow_mut();
        shared.associations.get_mut(&self.held.id).map_or(0, |association| of(association.lane(self.number)))
    }
}

impl<W: World> Stream for SctpStream<W> {
    fn number(&self) -> u16 {
        self.number
    }

    fn bytes_read(&self) -> u64 {
        self.position(|lane| lane.read)
    }

    fn bytes_written(&self) -> u64 {
        self.position(|lane| lane.written)
    }

    fn unacknowledged(&self) -> u64 {
        let shared = self.held.host.shared.borrow();
        shared.engine.info(self.held.id).map_or(0, |info| info.buffered)
    }

    fn poll_read(&mut self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<Result<usize, CloseReason>> {
        let (id, stream) = (self.held.id, self.number);
        let now = self.held.host.world.now();
        let mut shared = self.held.host.shared.borrow_mut();
        let Shared { engine, associations, bell, .. } = &mut *shared;
        let Some(association) = associations.get_mut(&id) else {
            return Poll::Ready(Err(CloseReason::Aborted));
        };
        let lane = association.lane(stream);
        if lane.cancelled {
            return Poll::Ready(Err(CloseReason::Cancelled));
        }
        // Most reads take all there is, and the next one need not ask.
        let mut read = 0;
        if !lane.dry {
            // Other identifiers are other applications' and no part of these bytes.
            let wanted = |ppid| ppid == 0 || ppid == PPID_HTTP;
            if let Ok((bytes, dry)) = engine.recv_bytes(now, id, stream, into, wanted) {
                read = bytes;
                lane.dry = dry;
            }
        }
        if read > 0 || into.is_empty() {
            lane.read += read as u64;
            // Room in the receive buffer may be worth a SACK; mostly it is not.
            if engine.has_output() {
                bell.ring();
            }
            return Poll::Ready(Ok(read));
        }
        match association.end() {
            Some(CloseReason::Finished) => Poll::Ready(Ok(0)),
            Some(reason) => Poll::Ready(Err(reason)),
            None => {
                association.wait_to_read(stream, cx);
                Poll::Pending
            }
        }
    }

    fn poll_write(&mut self, cx: &mut Context<'_>, from: &[u8]) -> Poll<Result<usize, CloseReason>> {
        self.write(cx, from, None)
    }

    fn poll_write_message(
        &mut self,
        cx: &mut Context<'_>,
        message: &[u8],
    ) -> Poll<Result<usize, CloseReason>> {
        self.write(cx, message, Some(message.len()))
    }

    fn poll_write_messages(
        &mut self,
        cx: &mut Context<'_>,
        from: &[u8],
        size: usize,
    ) -> Poll<Result<usize, CloseReason>> {
        self.write(cx, from, Some(size))
    }

    fn set_delivery(&mut self, delivery: Delivery) {
        self.delivery = delivery;
        let now = self.held.host.world.now();
        let mut shared = self.held.host.shared.borrow_mut();
        // Nobody else gives streams of this session a value; 0, the first, is what they begin with. An association
        // that is gone needs none.
        let _ =
            shared.engine.set_stream_value(now, self.held.id, self.number, u16::from(delivery.background));
    }

    fn reset(&mut self) -> bool {
        let now = self.held.host.world.now();
        self.held.host.shared.borrow_mut().reset(now, self.held.id, self.number)
    }

    fn poll_reset(&mut self, cx: &mut Context<'_>) -> Poll<bool> {
        let mut shared = self.held.host.shared.borrow_mut();
        match shared.associations.get_mut(&self.held.id) {
            Some(association) => association.poll_reset(self.number, cx),
            None => Poll::Ready(false),
        }
    }

    fn finish(&mut self) {
        self.finished = true;
    }
}

/// A piece is at least this large, should an engine not know yet what fits a packet.
const LEAST_PIECE: usize = 512;

/// A write is at most so large a message, where messages may interrupt each other.
const MOST_PIECE: usize = 64 * 1024;
