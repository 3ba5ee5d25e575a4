//! The methods that the application calls on an association: associate, send, receive and shut down.
//!
//! Methods for streams are in `streams`, status and counters in `status`, and settings in `tuning`, `keys`, `addresses`
//! and `encap`.
//!
//! Implements RFC 9260 §11.1.2 to §11.1.7.

use super::{AssociationId, Endpoint};
use crate::association::identity::Identity;
use crate::association::state::CookieWaitState;
use crate::association::{Association, AssociationInit, State, path_to};
use crate::config::Config;
use crate::error::{AssociateError, PrimaryError, RecvError, SendError};
use crate::message::{Message, Received};
use crate::path::MAX_PATHS;
use anabranch_base::{Instant, SharedBytes};
use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// The parameters of a new association (RFC 9260 §11.1.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Associate {
    /// Known addresses of the peer. The first address becomes the primary path. The port of each address is the UDP
    /// encapsulation port (RFC 6951), or 0 without encapsulation.
    pub peer: Vec<SocketAddr>,
    /// The peer's SCTP port.
    pub peer_port: u16,
    /// The local SCTP port; `None` chooses a free ephemeral port.
    pub local_port: Option<u16>,
    /// The number of streams to request in each direction; `None` uses the configured number.
    pub streams: Option<u16>,
}

impl Associate {
    /// Requests an association with `peer_port` at one address; all other parameters have their defaults.
    ///
    /// ```
    /// use anabranch_sctp::Associate;
    ///
    /// let one = Associate::to("10.0.0.2:9899".parse()?, 80);
    /// let two = Associate { streams: Some(100), ..one };
    /// assert_eq!(two.peer_port, 80);
    /// # Ok::<(), std::net::AddrParseError>(())
    /// ```
    #[must_use]
    pub fn to(peer: SocketAddr, peer_port: u16) -> Self {
        Self { peer: vec![peer], peer_port, local_port: None, streams: None }
    }
}

impl Endpoint {
    /// Begins an association. `Event::Established` or `Event::Closed` follows. Messages can be sent at once and are
    /// queued until the handshake is complete. At that time, messages on streams that the peer has not granted are
    /// dropped.
    ///
    /// ```
    /// # use anabranch_sctp::testing::{address, Pair, Side};
    /// # use anabranch_sctp::{Associate, Config, Event};
    /// # let mut pair = Pair::new(Config::default(), Config::default(), 1, 1);
    /// # pair.b.listen(80)?;
    /// # let (peer, now) = (address(Side::B, 0), pair.now);
    /// let id = pair.a.associate(now, Associate::to(peer, 80))?;
    /// pair.settle();
    /// let up = |event: &Event| matches!(event, Event::Established { id: up, .. } if *up == id);
    /// assert!(pair.events(Side::A).iter().any(up));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AssociateError`].
    pub fn associate(&mut self, now: Instant, ask: Associate) -> Result<AssociationId, AssociateError> {
        self.associate_as(now, ask, self.config.clone())
    }

    pub(super) fn associate_as(
        &mut self,
        now: Instant,
        ask: Associate,
        config: Arc<Config>,
    ) -> Result<AssociationId, AssociateError> {
        let slot = self.add_association(now, &ask, config, None)?;
        self.with(now, slot, |association, ctx| association.begin(ctx));
        Ok(self.id_of(slot))
    }

    /// Adds an association that has not begun yet, and returns its slot. `identity` holds its tag, its initial TSN, and
    /// whether this side counts as the initiator. Without `identity`, this method chooses these values.
    pub(super) fn add_association(
        &mut self,
        now: Instant,
        ask: &Associate,
        config: Arc<Config>,
        identity: Option<(u32, u32, bool)>,
    ) -> Result<u32, AssociateError> {
        self.accepts_zero_checksum |= config.zero_checksum;
        let streams = ask.streams.unwrap_or(config.num_ostreams);
        if ask.peer.is_empty() {
            return Err(AssociateError::NoPeer);
        }
        if ask.peer_port == 0 || ask.local_port == Some(0) {
            return Err(AssociateError::PortZero);
        }
        if streams == 0 {
            return Err(AssociateError::NoStreams);
        }
        let local_port = self.local_port_for(ask)?;
        let (ctx, _) = self.context(now);
        let mut paths = Vec::new();
        for (turn, &address) in ask.peer.iter().enumerate().take(MAX_PATHS) {
            let known = paths.iter().any(|path: &crate::path::Path| path.address().ip() == address.ip());
            if let Some(mut path) = path_to(&config, &ctx, address, turn).filter(|_| !known) {
                // RFC 9260 §5.4: an address that the application supplies is trusted to be the peer's.
                path.confirm();
                paths.push(path);
            }
        }
        if paths.is_empty() {
            return Err(AssociateError::NoRoute);
        }
        let identity = identity.unwrap_or_else(|| (self.new_tag(), self.rng.next_u32(), true));
        let (local_tag, initial_tsn, initiator) = identity;
        let auth = self.new_auth(&config);
        let slot = self.new_slot();
        let id = self.id_of(slot);
        let init = AssociationInit {
            id,
            config,
            identity: Identity::new((local_port, ask.peer_port), local_tag, initial_tsn, initiator),
            streams,
            paths,
            rng: self.rng.fork(&format!("association/{}/{}", id.slot, id.generation)),
            state: State::CookieWait(CookieWaitState::default()),
            auth,
        };
        self.slots[slot as usize].association = Some(Box::new(Association::new(init, now)));
        Ok(slot)
    }

    /// Returns the local port that the application requested, or a free ephemeral port.
    fn local_port_for(&mut self, ask: &Associate) -> Result<u16, AssociateError> {
        let taken = |port: u16| {
            ask.peer.iter().any(|peer| {
                let address_key = self.demux.address_key(*peer, ask.peer_port, port);
                self.demux.by_address_key(address_key).is_some()
            })
        };
        if let Some(port) = ask.local_port {
            return if taken(port) { Err(AssociateError::Exists) } else { Ok(port) };
        }
        self.free_port(|_| false).ok_or(AssociateError::NoPort)
    }

    /// Returns a free ephemeral port: no association, listener or other SCTP stack on this host uses the port, and
    /// `taken` returns false for it.
    pub(crate) fn free_port(&mut self, taken: impl Fn(u16) -> bool) -> Option<u16> {
        let Self { ephemeral, ports, listeners, shard, other_shards, .. } = self;
        ephemeral.choose(|port| {
            let others = || other_shards.as_ref().is_some_and(|others| others.have_port(None, port));
            let ours = ports.contains_key(&port) || listeners.contains(&port);
            shard.owns_port(port) && !ours && !taken(port) && !others()
        })
    }

    /// Queues `payload` as one whole message in the send buffer.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config, Message, SendError};
    /// # let (mut pair, id, _) = Pair::associated(&Config::default());
    /// let message = Message { stream: 2, ppid: 7, unordered: true, ..Message::default() };
    /// pair.a.send(pair.now, id, message, b"hello")?;
    /// assert_eq!(pair.a.send(pair.now, id, message, b""), Err(SendError::Empty));
    /// # Ok::<(), SendError>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError`]; the message was not queued.
    pub fn send(
        &mut self,
        now: Instant,
        id: AssociationId,
        message: Message,
        payload: &[u8],
    ) -> Result<(), SendError> {
        self.send_on(now, id, |association| association.send(now, message, payload))
    }

    /// Queues `payload` as messages of `piece` bytes; the last message holds the remainder. If the send buffer has no
    /// room for all of them, queues only as many as fit. Returns the number of bytes queued.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config, Message, SendError};
    /// # let (mut pair, id, _) = Pair::associated(&Config::default());
    /// let taken = pair.a.send_pieces(pair.now, id, Message::default(), &[7; 5_000], 1_000)?;
    /// assert_eq!(taken, 5_000, "five messages");
    /// # Ok::<(), SendError>(())
    /// ```
    ///
    /// # Errors
    /// [`SendError`]; nothing was queued.
    pub fn send_pieces(
        &mut self,
        now: Instant,
        id: AssociationId,
        message: Message,
        payload: &[u8],
        piece: usize,
    ) -> Result<usize, SendError> {
        self.send_on(now, id, |association| association.send_pieces(now, message, payload, piece.max(1)))
    }

    /// Like [`send_pieces`](Self::send_pieces), but shares the memory of `payload` where that saves a copy. Removes the
    /// bytes queued from `payload`.
    ///
    /// # Errors
    /// [`SendError`]; nothing was queued.
    pub fn send_shared_pieces(
        &mut self,
        now: Instant,
        id: AssociationId,
        message: Message,
        payload: &mut Bytes,
        piece: usize,
    ) -> Result<usize, SendError> {
        self.send_on(now, id, |association| {
            association.send_shared_pieces(now, message, payload, piece.max(1))
        })
    }

    /// Runs `send` on an association, abandons expired messages, and updates the timers and queues.
    fn send_on<R>(
        &mut self,
        now: Instant,
        id: AssociationId,
        send: impl FnOnce(&mut Association) -> Result<R, SendError>,
    ) -> Result<R, SendError> {
        let Some(slot) = self.find(id) else {
            return Err(if self.is_past(id) { SendError::Closing } else { SendError::Unknown });
        };
        let (mut ctx, slots) = self.context(now);
        let Some(association) = slots.get_mut(slot as usize).and_then(|slot| slot.association.as_deref_mut())
        else {
            return Err(SendError::Unknown);
        };
        let result = send(association);
        association.abandon_expired(&mut ctx);
        self.settle(now, slot);
        result
    }

    /// Reads from a stream. One call never reads beyond the end of a message. Returns `None` if there is nothing to
    /// read now.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config, Message};
    /// # let (mut pair, id, there) = Pair::associated(&Config::default());
    /// # pair.a.send(pair.now, id, Message { ppid: 7, ..Message::default() }, b"hello")?;
    /// # pair.settle();
    /// let mut buffer = [0; 3];
    /// let first = pair.b.recv(pair.now, there, 0, &mut buffer)?.expect("it has arrived");
    /// assert_eq!((first.bytes, first.end_of_message, first.ppid), (3, false, 7));
    /// let rest = pair.b.recv(pair.now, there, 0, &mut buffer)?.expect("there is more");
    /// assert_eq!((rest.bytes, rest.end_of_message), (2, true));
    /// assert_eq!(pair.b.recv(pair.now, there, 0, &mut buffer)?, None);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RecvError`].
    pub fn recv(
        &mut self,
        now: Instant,
        id: AssociationId,
        stream: u16,
        buffer: &mut [u8],
    ) -> Result<Option<Received>, RecvError> {
        self.read(now, id, |association| association.recv(stream, buffer), Option::is_none)
    }

    /// Runs `read` on an association. If the read opens the receive window, so that a SACK is due, the SACK is sent.
    /// `is_nothing` returns true for a result of `read` that contains no data.
    #[inline]
    fn read<R>(
        &mut self,
        now: Instant,
        id: AssociationId,
        read: impl FnOnce(&mut Association) -> R,
        is_nothing: impl FnOnce(&R) -> bool,
    ) -> Result<R, RecvError> {
        let Some(slot) = self.find(id) else {
            return Err(if self.is_past(id) { RecvError::Closed } else { RecvError::Unknown });
        };
        let Some(association) = &mut self.slots[slot as usize].association else {
            return Err(RecvError::Unknown);
        };
        let received = read(association);
        let closed = association.is_closed();
        if closed || association.receiving().sack_due() {
            self.settle(now, slot);
        }
        if closed && is_nothing(&received) { Err(RecvError::Closed) } else { Ok(received) }
    }

    /// Like [`recv`](Self::recv), but reads from any stream, and also returns this stream. If a message was partly
    /// read, continues with that message. Otherwise reads the message that became readable first (RFC 9260 §11.1.7).
    /// Requires `Config::track_arrivals`. Without that setting the result is always `None`.
    ///
    /// ```
    /// use anabranch_sctp::{testing::Pair, Config, Message};
    ///
    /// let mut config = Config::default();
    /// config.track_arrivals = true;
    /// let (mut pair, here, there) = Pair::associated(&config);
    /// for (stream, text) in [(3, b"first"), (1, b"then.")] {
    ///     pair.a.send(pair.now, here, Message { stream, ..Message::default() }, text)?;
    /// }
    /// pair.settle();
    /// let mut read = || Some(pair.b.recv_next(pair.now, there, &mut [0; 9]).ok()??.0);
    /// assert_eq!([read(), read(), read()], [Some(3), Some(1), None]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`recv`](Self::recv).
    pub fn recv_next(
        &mut self,
        now: Instant,
        id: AssociationId,
        buffer: &mut [u8],
    ) -> Result<Option<(u16, Received)>, RecvError> {
        self.read(now, id, |association| association.recv_next(buffer), Option::is_none)
    }

    /// Returns the stream from which [`recv_next`](Self::recv_next) would read, and the number of bytes that it could
    /// read.
    #[must_use]
    pub fn next_readable(&self, id: AssociationId) -> Option<(u16, usize)> {
        self.upcoming(id).map(|upcoming| (upcoming.stream, upcoming.length))
    }

    /// Returns the number of messages that have arrived completely, and the number of messages that were read to the
    /// end.
    pub(crate) fn messages_arrived_and_read(&self, id: AssociationId) -> Option<(u64, u64)> {
        let slot = self.find(id)?;
        let recv = self.slots[slot as usize].association.as_ref()?.receiving();
        Some((recv.messages_completed(), recv.messages_read()))
    }

    /// Makes new associations track the order in which messages become readable.
    pub(crate) fn track_arrivals(&mut self) {
        std::sync::Arc::make_mut(&mut self.config).track_arrivals = true;
    }

    /// Reads from a stream as a sequence of bytes, across message boundaries, until the buffer is full or no readable
    /// data is left. If `wanted` returns false for the payload protocol identifier of a message, the message is
    /// dropped. Returns the number of bytes read, and true if no readable data is left. In that case `Event::Readable`
    /// follows when more data arrives.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config, Message};
    /// # let (mut pair, id, there) = Pair::associated(&Config::default());
    /// # for part in [b"one", b"two"] {
    /// #     pair.a.send(pair.now, id, Message::default(), part)?;
    /// # }
    /// # pair.settle();
    /// let mut buffer = [0; 100];
    /// assert_eq!(pair.b.recv_bytes(pair.now, there, 0, &mut buffer, |_| true)?, (6, true));
    /// assert_eq!(&buffer[..6], b"onetwo");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`RecvError`], if no bytes were read.
    #[inline]
    pub fn recv_bytes(
        &mut self,
        now: Instant,
        id: AssociationId,
        stream: u16,
        buffer: &mut [u8],
        wanted: impl Fn(u32) -> bool,
    ) -> Result<(usize, bool), RecvError> {
        let read = |association: &mut Association| association.recv_bytes(stream, buffer, wanted);
        self.read(now, id, read, |(bytes, _)| *bytes == 0)
    }

    /// Reads a whole message of at most `most` bytes without a copy. Returns the message and its payload protocol
    /// identifier. Returns `None` and reads nothing if the sender does not share its memory, or if the message is not the
    /// only readable data of its stream.
    #[inline]
    pub fn recv_shared(
        &mut self,
        now: Instant,
        id: AssociationId,
        stream: u16,
        most: usize,
    ) -> Option<(SharedBytes, u32)> {
        self.read(now, id, |association| association.recv_shared(stream, most), Option::is_none).ok()?
    }

    /// Makes the path with this index the primary path (RFC 9260 §11.1.6).
    ///
    /// ```
    /// # use anabranch_sctp::testing::{address, Pair, Side};
    /// # use anabranch_sctp::{Associate, Config, PrimaryError};
    /// # let mut pair = Pair::new(Config::default(), Config::default(), 2, 1);
    /// # pair.b.listen(80)?;
    /// let peer = vec![address(Side::B, 0), address(Side::B, 1)];
    /// let id = pair.a.associate(pair.now, Associate { peer, ..Associate::to(address(Side::B, 0), 80) })?;
    /// pair.a.set_primary(pair.now, id, 1)?;
    /// assert!(pair.a.info(id).is_some_and(|info| info.paths[1].primary));
    /// assert_eq!(pair.a.set_primary(pair.now, id, 2), Err(PrimaryError::Unknown));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PrimaryError`].
    pub fn set_primary(&mut self, now: Instant, id: AssociationId, path: usize) -> Result<(), PrimaryError> {
        let slot = self.find(id).ok_or(PrimaryError::Unknown)?;
        self.with(now, slot, |association, ctx| association.set_primary(ctx, path))
            .unwrap_or(Err(PrimaryError::Unknown))
    }

    /// RFC 9260 §11.1.10: sends HEARTBEATs now, to one address of the peer or, for `None`, to all addresses.
    pub(crate) fn request_heartbeats(&mut self, now: Instant, id: AssociationId, address: Option<IpAddr>) {
        if let Some(slot) = self.find(id) {
            self.with(now, slot, |association, _| association.request_heartbeats(address));
        }
    }

    /// Closes the association gracefully: messages already queued are delivered first. `Event::Closed` follows. The
    /// endpoint forgets the association once everything has been read, or when [`release`](Self::release) is called.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::{Pair, Side}, Config, Event, Message};
    /// # let (mut pair, id, there) = Pair::associated(&Config::default());
    /// pair.a.send(pair.now, id, Message::default(), b"last words")?;
    /// pair.a.shutdown(pair.now, id);
    /// pair.settle();
    /// assert!(pair.events(Side::A).iter().any(|event| matches!(event, Event::Closed { .. })));
    /// assert_eq!(pair.b.readable_bytes(there, 0), 10, "it was delivered before");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn shutdown(&mut self, now: Instant, id: AssociationId) {
        if let Some(slot) = self.find(id) {
            self.with(now, slot, |association, ctx| association.shutdown(ctx));
        }
    }

    /// Aborts the association at once with an ABORT. `Event::Closed` follows.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config};
    /// # let (mut pair, id, there) = Pair::associated(&Config::default());
    /// pair.a.abort(pair.now, id);
    /// pair.settle();
    /// assert_eq!((pair.a.associations(), pair.b.associations()), (0, 0));
    /// ```
    pub fn abort(&mut self, now: Instant, id: AssociationId) {
        if let Some(slot) = self.find(id) {
            self.with(now, slot, |association, ctx| association.abort(ctx, &[]));
        }
    }

    /// Like [`abort`](Self::abort), with a reason from the application. At most 512 bytes of the reason are sent to the
    /// peer (RFC 9260 §11.1.4).
    ///
    /// ```
    /// # use anabranch_sctp::{testing::*, Config, Event};
    /// # let (mut pair, id, there) = Pair::associated(&Config::default());
    /// pair.a.abort_with_reason(pair.now, id, b"enough");
    /// pair.settle();
    /// let told = Event::AbortReason { id: there, reason: b"enough".to_vec() };
    /// assert!(pair.events(Side::B).contains(&told));
    /// ```
    pub fn abort_with_reason(&mut self, now: Instant, id: AssociationId, reason: &[u8]) {
        if let Some(slot) = self.find(id) {
            self.with(now, slot, |association, ctx| association.abort(ctx, reason));
        }
    }

    /// Forgets an ended association and its unread data. An association that has not ended is aborted first.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config};
    /// # let (mut pair, id, _) = Pair::associated(&Config::default());
    /// pair.a.release(pair.now, id);
    /// assert!(pair.a.info(id).is_none());
    /// pair.settle();
    /// assert_eq!(pair.b.associations(), 0, "the association had not ended, so the peer received an ABORT");
    /// ```
    pub fn release(&mut self, now: Instant, id: AssociationId) {
        if let Some(slot) = self.find(id) {
            self.with(now, slot, |association, ctx| association.abort(ctx, &[]));
            if self.slots[slot as usize].association.is_some() {
                self.forget(slot);
            }
        }
    }
}
