//! Creates, connects and closes sockets.
//!
//! Implements RFC 6458 §3.1 and §4.1 (the calls of both styles) and §9.2 (`sctp_peeloff`).

use super::{Errno, Member, ShutdownHow, Socket, SocketId, Sockets, Style};
use crate::endpoint::Associate;
use crate::error::AssociateError;
use crate::id::AssociationId;
use crate::socket::inbox::Inbox;
use crate::socket::settings::Settings;
use anabranch_base::Instant;
use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;

impl Sockets {
    /// `socket()`: creates an unbound socket.
    pub fn socket(&mut self, style: Style) -> SocketId {
        let config = self.endpoint.config().clone();
        self.new_socket(style, 0, config, Settings::default())
    }

    pub(super) fn new_socket(
        &mut self,
        style: Style,
        port: u16,
        config: crate::Config,
        settings: Settings,
    ) -> SocketId {
        let id = SocketId(self.next);
        self.next += 1;
        let socket = Socket {
            style,
            port,
            config,
            settings,
            backlog: None,
            pending: VecDeque::new(),
            associations: BTreeMap::new(),
            error: None,
            inbox: Inbox::default(),
            arrived: 0,
            read_shut: false,
            write_shut: false,
            used: false,
            woken: false,
        };
        self.sockets.insert(id, socket);
        id
    }

    /// `bind()`: reserves a local port on all addresses of the endpoint. Port 0 selects a free port.
    ///
    /// ```
    /// # use anabranch_sctp::socket::{Errno, Sockets, Style};
    /// # use anabranch_sctp::{testing::Pair, Config};
    /// # let mut sockets = Sockets::new(Pair::new(Config::default(), Config::default(), 1, 1).a);
    /// let socket = sockets.socket(Style::OneToMany);
    /// sockets.bind(socket, 80)?;
    /// assert_eq!(sockets.local_port(socket), Ok(80));
    /// let other = sockets.socket(Style::OneToOne);
    /// assert_eq!(sockets.bind(other, 80), Err(Errno::AddressInUse));
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::Invalid`] if the socket is already bound, [`Errno::AddressInUse`].
    pub fn bind(&mut self, id: SocketId, port: u16) -> Result<(), Errno> {
        if self.socket_at(id)?.port != 0 {
            return Err(Errno::Invalid);
        }
        let Self { endpoint, sockets, .. } = self;
        let bound = |port: u16| sockets.values().any(|socket| socket.port == port);
        let port = if port == 0 { endpoint.free_port(bound) } else { Some(port) };
        let port = port.ok_or(Errno::AddressNotAvailable)?;
        let reuse = self.sockets.get(&id).is_some_and(|socket| socket.settings.reuse_port);
        let taken =
            self.sockets.values().any(|other| other.port == port && !(reuse && other.settings.reuse_port));
        if taken {
            return Err(Errno::AddressInUse);
        }
        self.socket_at(id)?.port = port;
        Ok(())
    }

    /// `listen()`: accepts associations of peers. On a one-to-one socket at most `backlog` associations wait for
    /// `accept`. On a one-to-many socket, a `backlog` of 0 stops listening.
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// # let mut pair = SocketPair::new(&Config::default(), 1);
    /// let server = pair.b.socket(Style::OneToMany);
    /// pair.b.bind(server, 80)?;
    /// pair.b.listen(server, 5)?;
    /// pair.b.listen(server, 0)?;
    /// let client = pair.a.socket(Style::OneToOne);
    /// assert_eq!(pair.a.connect(pair.now, client, &[address(Side::B, 0)], 80), Err(Errno::InProgress));
    /// pair.settle();
    /// assert!(pair.a.poll(client)?.error, "it does not listen any more");
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::Invalid`] for a one-to-one socket that has an association,
    /// [`Errno::AddressInUse`], [`Errno::AddressNotAvailable`].
    pub fn listen(&mut self, id: SocketId, backlog: usize) -> Result<(), Errno> {
        let socket = self.socket_at(id)?;
        if socket.style == Style::OneToOne && socket.used {
            return Err(Errno::Invalid);
        }
        if socket.port == 0 {
            self.bind(id, 0)?;
        }
        let socket = self.socket_at(id)?;
        let (style, port, listening) = (socket.style, socket.port, socket.backlog.is_some());
        if style == Style::OneToMany && backlog == 0 {
            socket.backlog = None;
            self.endpoint.close_listener(port);
            self.listeners.remove(&port);
            return Ok(());
        }
        let config = socket.config.clone();
        if !listening {
            self.endpoint.listen_with(port, config).map_err(|_| Errno::AddressInUse)?;
            self.listeners.insert(port, id);
        }
        self.socket_at(id)?.backlog = Some(backlog.max(1));
        Ok(())
    }

    /// `connect()` and `sctp_connectx()`: starts an association with a peer at these addresses. The port of each
    /// address is the UDP encapsulation port, or 0 without encapsulation.
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// # let mut pair = SocketPair::new(&Config::default(), 2);
    /// # let listener = pair.b.socket(Style::OneToOne);
    /// # pair.b.bind(listener, 80)?;
    /// # pair.b.listen(listener, 1)?;
    /// let client = pair.a.socket(Style::OneToOne);
    /// let peer = [address(Side::B, 0), address(Side::B, 1)];
    /// assert_eq!(pair.a.connect(pair.now, client, &peer, 80), Err(Errno::InProgress));
    /// assert!(!pair.a.poll(client)?.writable);
    /// pair.settle();
    /// assert!(pair.a.poll(client)?.writable, "it is up");
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// - [`Errno::InProgress`]: the association was started. This is the usual result, because no call ever waits.
    /// - [`Errno::Already`]: the one-to-one socket already establishes an association.
    /// - [`Errno::IsConnected`]: there already is an association of the one-to-one socket, or with this peer.
    /// - [`Errno::Unreachable`]: no local address has the same IP version as an address of the peer.
    /// - [`Errno::Invalid`]: `peer` is empty, `peer_port` is 0, or the one-to-one socket was used before.
    /// - [`Errno::NotSupported`]: the one-to-one socket listens.
    /// - [`Errno::AddressNotAvailable`]: no local port is free.
    /// - [`Errno::BadSocket`]: there is no such socket.
    pub fn connect(
        &mut self,
        now: Instant,
        id: SocketId,
        peer: &[SocketAddr],
        peer_port: u16,
    ) -> Result<AssociationId, Errno> {
        let socket = self.socket_at(id)?;
        if socket.style == Style::OneToOne {
            if socket.backlog.is_some() {
                return Err(Errno::NotSupported);
            }
            if let Some((_, member)) = socket.single() {
                return Err(if member.established { Errno::IsConnected } else { Errno::Already });
            }
            if socket.used {
                return Err(Errno::Invalid);
            }
        }
        self.begin(now, id, peer, peer_port)?;
        Err(Errno::InProgress)
    }

    /// Starts an association for this socket.
    pub(super) fn begin(
        &mut self,
        now: Instant,
        id: SocketId,
        peer: &[SocketAddr],
        peer_port: u16,
    ) -> Result<AssociationId, Errno> {
        let socket = self.socket_at(id)?;
        let local_port = (socket.port != 0).then_some(socket.port);
        let ask = Associate { peer: peer.to_vec(), peer_port, local_port, streams: None };
        let config = socket.config.clone();
        let association = self.endpoint.associate_with(now, ask, config).map_err(|error| match error {
            AssociateError::NoRoute => Errno::Unreachable,
            AssociateError::Exists => Errno::IsConnected,
            AssociateError::NoPort => Errno::AddressNotAvailable,
            AssociateError::NoPeer | AssociateError::PortZero | AssociateError::NoStreams => Errno::Invalid,
        })?;
        let port = self.endpoint.info(association).map_or(0, |info| info.local_port);
        let socket = self.socket_at(id)?;
        socket.port = port;
        socket.used = true;
        socket.associations.insert(association, Member::begun(now));
        self.owners.insert(association, id);
        self.take_events(now);
        Ok(association)
    }

    /// `accept()`: returns a new one-to-one socket for the next waiting association.
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// # let mut pair = SocketPair::new(&Config::default(), 2);
    /// # let listener = pair.b.socket(Style::OneToOne);
    /// # pair.b.bind(listener, 80)?;
    /// # pair.b.listen(listener, 1)?;
    /// # let client = pair.a.socket(Style::OneToOne);
    /// # assert_eq!(pair.a.connect(pair.now, client, &[address(Side::B, 0)], 80), Err(Errno::InProgress));
    /// # pair.settle();
    /// assert!(pair.b.poll(listener)?.readable);
    /// let server = pair.b.accept(listener)?;
    /// assert_eq!(pair.b.associations(server).len(), 1);
    /// assert_eq!(pair.b.accept(listener), Err(Errno::Again), "no other waits");
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::Again`] if no association waits, [`Errno::Invalid`] if the socket does not listen,
    /// [`Errno::NotSupported`] for a one-to-many socket.
    pub fn accept(&mut self, id: SocketId) -> Result<SocketId, Errno> {
        let socket = self.socket_at(id)?;
        if socket.style == Style::OneToMany {
            return Err(Errno::NotSupported);
        }
        if socket.backlog.is_none() {
            return Err(Errno::Invalid);
        }
        let association = socket.pending.pop_front().ok_or(Errno::Again)?;
        self.split(id, association)
    }

    /// `sctp_peeloff()`: moves an association of a one-to-many socket to a new one-to-one socket.
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// # let mut pair = SocketPair::new(&Config::default(), 1);
    /// # let server = pair.b.socket(Style::OneToMany);
    /// # pair.b.bind(server, 80)?;
    /// # pair.b.listen(server, 1)?;
    /// # let client = pair.a.socket(Style::OneToOne);
    /// # assert_eq!(pair.a.connect(pair.now, client, &[address(Side::B, 0)], 80), Err(Errno::InProgress));
    /// # pair.settle();
    /// let association = pair.b.associations(server)[0];
    /// let own = pair.b.peel_off(server, association)?;
    /// assert!(pair.b.associations(server).is_empty());
    /// assert_eq!(pair.b.associations(own), [association]);
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::NotSupported`] for a one-to-one socket, [`Errno::NoAssociation`].
    pub fn peel_off(&mut self, id: SocketId, association: AssociationId) -> Result<SocketId, Errno> {
        let socket = self.socket_at(id)?;
        if socket.style == Style::OneToOne {
            return Err(Errno::NotSupported);
        }
        self.split(id, association)
    }

    /// Moves an association, with its unread messages and notifications, to a new one-to-one socket.
    fn split(&mut self, id: SocketId, association: AssociationId) -> Result<SocketId, Errno> {
        let socket = self.socket_at(id)?;
        let member = socket.associations.remove(&association).ok_or(Errno::NoAssociation)?;
        let moved = socket.inbox.split(association);
        let (port, config, settings) = (socket.port, socket.config.clone(), socket.settings.clone());
        let new = self.new_socket(Style::OneToOne, port, config, settings);
        let socket = self.socket_at(new)?;
        socket.inbox = moved;
        socket.used = true;
        socket.associations.insert(association, member);
        self.owners.insert(association, new);
        Ok(new)
    }

    /// `shutdown()`: closes one or both directions of a one-to-one socket.
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// # let (mut pair, client, server) = SocketPair::connected(&Config::default());
    /// pair.a.shutdown(pair.now, client, ShutdownHow::Write)?;
    /// assert_eq!(pair.a.send(pair.now, client, b"more", SndInfo::default()), Err(Errno::Pipe));
    /// pair.settle();
    /// assert_eq!(pair.b.recv(pair.now, server, &mut [0; 100])?, Incoming::EndOfFile);
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::NotConnected`], [`Errno::NotSupported`] for a one-to-many socket (use `SndInfo::eof` instead).
    pub fn shutdown(&mut self, now: Instant, id: SocketId, how: ShutdownHow) -> Result<(), Errno> {
        let socket = self.socket_at(id)?;
        if socket.style == Style::OneToMany {
            return Err(Errno::NotSupported);
        }
        let Some((association, member)) = socket.single().filter(|(_, member)| !member.closed) else {
            return Err(Errno::NotConnected);
        };
        if how != ShutdownHow::Write {
            socket.read_shut = true;
        }
        if how != ShutdownHow::Read {
            socket.write_shut = true;
            self.endpoint.shutdown(now, association);
        }
        let _ = member;
        self.take_events(now);
        Ok(())
    }

    /// `close()`: shuts down the socket's associations gracefully and discards unread data. With
    /// `SocketOption::Linger(Some(0))`, `close` aborts the associations instead.
    ///
    /// ```
    /// # use anabranch_base::Instant;
    /// # use anabranch_sctp::socket::{Errno, Sockets, Style};
    /// # use anabranch_sctp::{testing::Pair, Config};
    /// # let mut sockets = Sockets::new(Pair::new(Config::default(), Config::default(), 1, 1).a);
    /// # let now = Instant::ZERO;
    /// let socket = sockets.socket(Style::OneToOne);
    /// sockets.close(now, socket)?;
    /// assert_eq!(sockets.close(now, socket), Err(Errno::BadSocket));
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::BadSocket`].
    pub fn close(&mut self, now: Instant, id: SocketId) -> Result<(), Errno> {
        let socket = self.sockets.remove(&id).ok_or(Errno::BadSocket)?;
        if socket.backlog.is_some() {
            self.endpoint.close_listener(socket.port);
            self.listeners.remove(&socket.port);
        }
        for (&association, member) in &socket.associations {
            self.owners.remove(&association);
            // Closing a listening socket aborts the associations that `accept` has not returned yet. RFC 6458 leaves
            // this choice to the implementation. A linger time of 0 aborts all associations (§8.1.4).
            let unwanted = socket.pending.contains(&association) || socket.settings.linger == Some(0);
            if member.closed || unwanted {
                self.endpoint.release(now, association);
            } else {
                self.orphans.insert(association);
                self.endpoint.shutdown(now, association);
            }
        }
        self.take_events(now);
        Ok(())
    }

    /// Returns the associations of a socket (`SCTP_GET_ASSOC_ID_LIST`). The list includes ended associations whose end
    /// was not yet reported to the application.
    #[must_use]
    pub fn associations(&self, id: SocketId) -> Vec<AssociationId> {
        self.sockets.get(&id).map_or(Vec::new(), |socket| socket.associations.keys().copied().collect())
    }

    /// Returns the local port of a socket (`getsockname`), or 0 before the socket is bound.
    ///
    /// # Errors
    /// [`Errno::BadSocket`].
    pub fn local_port(&self, id: SocketId) -> Result<u16, Errno> {
        self.sockets.get(&id).map(|socket| socket.port).ok_or(Errno::BadSocket)
    }
}

impl Member {
    pub(super) fn begun(now: Instant) -> Self {
        Self {
            established: false,
            peer_shutdown: false,
            closed: false,
            outbound_streams: 0,
            inbound_streams: 0,
            busy: false,
            used_at: now,
        }
    }
}
