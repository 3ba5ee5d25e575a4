//! Sends and receives messages.
//!
//! Implements RFC 6458 §9.7 (`sctp_sendv`) and §9.8 (`sctp_recvv`).

use super::inbox::NextRead;
use super::{Errno, Incoming, Notification, NxtInfo, RcvInfo, SendInfo, SocketId, Sockets, Style};
use crate::error::SendError;
use crate::id::AssociationId;
use crate::message::Message;
use crate::recv::Upcoming;
use anabranch_base::Instant;
use std::net::SocketAddr;

impl Sockets {
    /// `send()`, `sctp_sendv()`: sends one whole message on the socket's association, or on the association that
    /// `info` names. Returns the number of accepted bytes, which is always the length of the message.
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// # let (mut pair, client, server) = SocketPair::connected(&Config::default());
    /// let snd = SndInfo { stream: 2, ppid: 7, ..SndInfo::default() };
    /// pair.a.send(pair.now, client, b"hello", snd)?;
    /// let soon = SendInfo { snd, pr: PrInfo::Lifetime(50), auth: None };
    /// assert_eq!(pair.a.send(pair.now, client, b"or never", soon)?, 8);
    /// pair.settle();
    /// let Incoming::Data { bytes, info, .. } = pair.b.recv(pair.now, server, &mut [0; 100])? else { panic!() };
    /// assert_eq!((bytes, info.stream, info.ppid), (5, 2, 7));
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// - [`Errno::Again`]: the send buffer has no room now.
    /// - [`Errno::MessageSize`]: the message is larger than the send buffer, or needs fragmentation although
    ///   fragmentation is turned off.
    /// - [`Errno::Invalid`]: the message is empty, the stream or the key does not exist, or a one-to-many socket names
    ///   no association.
    /// - [`Errno::NotConnected`], [`Errno::NoAssociation`]: there is no association.
    /// - [`Errno::Pipe`]: this side has shut down the association.
    /// - [`Errno::Reset`]: the association is closing or has ended.
    /// - [`Errno::BadSocket`]: the socket does not exist.
    pub fn send(
        &mut self,
        now: Instant,
        id: SocketId,
        payload: &[u8],
        info: impl Into<SendInfo>,
    ) -> Result<usize, Errno> {
        let info = info.into();
        let socket = self.socket_at(id)?;
        let (association, shut) = match socket.style {
            Style::OneToOne => {
                if let Some(error) = socket.error.take() {
                    return Err(error);
                }
                let (association, member) = socket.single().ok_or(Errno::NotConnected)?;
                if member.closed && !socket.write_shut {
                    return Err(Errno::Reset);
                }
                (association, socket.write_shut)
            }
            Style::OneToMany => {
                let association = info.snd.association.ok_or(Errno::Invalid)?;
                if !socket.associations.contains_key(&association) {
                    return Err(Errno::NoAssociation);
                }
                (association, false)
            }
        };
        if shut {
            return Err(Errno::Pipe);
        }
        self.send_on(now, id, association, payload, info)
    }

    /// `sendto()`, `sctp_sendmsg()` with an address: sends a message on the association with that peer. Starts an
    /// association if there is none. For one-to-many sockets only (RFC 6458 §3.1.5).
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// # let mut pair = SocketPair::new(&Config::default(), 1);
    /// # let server = pair.b.socket(Style::OneToMany);
    /// # pair.b.bind(server, 80)?;
    /// # pair.b.listen(server, 1)?;
    /// let client = pair.a.socket(Style::OneToMany);
    /// pair.a.send_to(pair.now, client, b"hello", address(Side::B, 0), 80, SndInfo::default())?;
    /// pair.settle();
    /// assert!(matches!(pair.b.recv(pair.now, server, &mut [0; 100])?, Incoming::Data { bytes: 5, .. }));
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`send`](Self::send) and [`connect`](Self::connect).
    pub fn send_to(
        &mut self,
        now: Instant,
        id: SocketId,
        payload: &[u8],
        peer: SocketAddr,
        peer_port: u16,
        info: impl Into<SendInfo>,
    ) -> Result<usize, Errno> {
        let info = info.into();
        let socket = self.sockets.get(&id).ok_or(Errno::BadSocket)?;
        if socket.style == Style::OneToOne {
            return Err(Errno::NotSupported);
        }
        let with_peer = |association: &&AssociationId| {
            self.endpoint.info(**association).is_some_and(|status| {
                let has = |path: &crate::PathInfo| path.address == peer.ip() && !path.removed;
                status.peer_port == peer_port && status.paths.iter().any(has)
            })
        };
        let known = socket.associations.keys().find(with_peer).copied();
        let association = match known {
            Some(association) => association,
            None => self.begin(now, id, &[peer], peer_port)?,
        };
        self.send_on(now, id, association, payload, info)
    }

    fn send_on(
        &mut self,
        now: Instant,
        id: SocketId,
        association: AssociationId,
        payload: &[u8],
        info: SendInfo,
    ) -> Result<usize, Errno> {
        let SendInfo { snd, pr, auth } = info;
        if snd.abort {
            // RFC 6458 §5.3.4: the data, if there is any, is sent as the reason of the abort.
            self.endpoint.abort_with_reason(now, association, payload);
            self.take_events(now);
            return Ok(payload.len());
        }
        let socket = self.socket_at(id)?;
        // RFC 9260 §6.9: with fragmentation turned off, a message that would have to be fragmented is rejected.
        if socket.settings.no_fragments {
            let limit = self.endpoint.fragment_size(association);
            if payload.len() > limit {
                return Err(Errno::MessageSize);
            }
        }
        let mut message =
            Message { stream: snd.stream, ppid: snd.ppid, unordered: snd.unordered, ..Message::default() };
        message.immediate = snd.immediate;
        message.context = snd.context;
        message.key = auth.map(|auth| auth.key);
        message.reliability = pr.into();
        // RFC 6458 §5.3.4: SCTP_EOF is allowed without data.
        if !(payload.is_empty() && snd.eof) {
            self.endpoint.send(now, association, message, payload).map_err(|error| match error {
                SendError::Full => Errno::Again,
                SendError::TooLarge => Errno::MessageSize,
                SendError::Empty | SendError::NoSuchStream | SendError::NoSuchKey => Errno::Invalid,
                SendError::Closing => Errno::Reset,
                SendError::Unknown => Errno::NoAssociation,
            })?;
            if let Some(member) = self.socket_at(id)?.associations.get_mut(&association) {
                member.busy = true;
                member.used_at = now;
            }
        }
        if snd.eof {
            self.endpoint.shutdown(now, association);
        }
        self.take_events(now);
        Ok(payload.len())
    }

    /// Returns the default information for `send` (`SCTP_DEFAULT_SNDINFO`, `SCTP_DEFAULT_PRINFO`).
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// # let (mut pair, client, server) = SocketPair::connected(&Config::default());
    /// # let _ = server;
    /// let usual = SndInfo { stream: 3, ..SndInfo::default() };
    /// pair.a.set_option(pair.now, client, Scope::All, SocketOption::DefaultSndInfo(usual))?;
    /// let info = pair.a.default_info(client)?;
    /// assert_eq!(info.snd, usual);
    /// pair.a.send(pair.now, client, b"hello", info)?;
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::BadSocket`].
    pub fn default_info(&self, id: SocketId) -> Result<SendInfo, Errno> {
        let socket = self.sockets.get(&id).ok_or(Errno::BadSocket)?;
        Ok(SendInfo { snd: socket.settings.default_snd, pr: socket.settings.default_pr, auth: None })
    }

    /// `recv()`, `sctp_recvv()`: returns the next notification, or data of the next message.
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// # let (mut pair, client, server) = SocketPair::connected(&Config::default());
    /// let wanted = SocketOption::Event(EventKind::Shutdown, true);
    /// pair.b.set_option(pair.now, server, Scope::Current, wanted)?;
    /// pair.a.send(pair.now, client, b"hello", SndInfo { eof: true, ..SndInfo::default() })?;
    /// pair.settle();
    /// let mut buffer = [0; 3];
    /// let mut heard = Vec::new();
    /// loop {
    ///     match pair.b.recv(pair.now, server, &mut buffer)? {
    ///         Incoming::Data { bytes, .. } => heard.extend_from_slice(&buffer[..bytes]),
    ///         Incoming::Notification(told) => assert_eq!(told.kind(), EventKind::Shutdown),
    ///         Incoming::EndOfFile => break,
    ///     }
    /// }
    /// assert_eq!(heard, b"hello");
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::Again`] if there is nothing to read now. [`Errno::NotConnected`] if a one-to-one socket has no
    /// association. [`Errno::BadSocket`] if the socket does not exist. A one-to-one socket returns the error that ended
    /// its association, but only once.
    pub fn recv(&mut self, now: Instant, id: SocketId, buffer: &mut [u8]) -> Result<Incoming, Errno> {
        loop {
            let endpoint = &self.endpoint;
            let socket = self.sockets.get_mut(&id).ok_or(Errno::BadSocket)?;
            if socket.read_shut {
                return Ok(Incoming::EndOfFile);
            }
            socket.inbox.tidy(endpoint);
            let association = match socket.inbox.next(endpoint) {
                Some(NextRead::Data(association, ..)) => association,
                Some(NextRead::Notification) => match socket.inbox.take_notification() {
                    Some(notification) => return Ok(Incoming::Notification(notification)),
                    None => return self.nothing_to_read(id),
                },
                None => return self.nothing_to_read(id),
            };
            let context = socket.settings.context;
            let cumulative_tsn = self.endpoint.cumulative_tsn(association);
            let Ok(Some((stream, received))) = self.endpoint.recv_next(now, association, buffer) else {
                return self.nothing_to_read(id);
            };
            let socket = self.socket_at(id)?;
            // If this read ended a message, the next read starts with the next association.
            socket.inbox.read(association, received.end_of_message);
            if received.incomplete {
                // RFC 6458 §6.1.7: the rest of this message will not arrive.
                let notification = Notification::PartialDeliveryAborted { association, stream };
                if socket.settings.events.has(notification.kind()) {
                    socket.inbox.notify_first(notification);
                }
                self.take_events(now);
                continue;
            }
            self.take_events(now);
            let info = RcvInfo {
                stream,
                ssn: received.ssn,
                unordered: received.unordered,
                ppid: received.ppid,
                tsn: received.tsn,
                cumulative_tsn,
                context,
                association,
            };
            let next = self.next_info(id);
            let (bytes, end_of_record) = (received.bytes, received.end_of_message);
            return Ok(Incoming::Data { bytes, end_of_record, info, next });
        }
    }

    fn nothing_to_read(&mut self, id: SocketId) -> Result<Incoming, Errno> {
        let socket = self.socket_at(id)?;
        if socket.style == Style::OneToMany {
            return Err(Errno::Again);
        }
        if let Some(error) = socket.error.take() {
            return Err(error);
        }
        match socket.single() {
            None => Err(Errno::NotConnected),
            Some((_, member)) if member.closed || member.peer_shutdown => Ok(Incoming::EndOfFile),
            Some(_) => Err(Errno::Again),
        }
    }

    /// Returns information about the next `recv`, if `SocketOption::RecvNxtInfo` is on.
    fn next_info(&self, id: SocketId) -> Option<NxtInfo> {
        let socket = self.sockets.get(&id).filter(|socket| socket.settings.recv_nxtinfo)?;
        Some(match socket.inbox.next(&self.endpoint)? {
            NextRead::Notification => NxtInfo {
                stream: 0,
                notification: true,
                unordered: false,
                complete: true,
                ppid: 0,
                length: 0,
                association: socket.inbox.first_association()?,
            },
            NextRead::Data(association, Upcoming { stream, length, ppid, unordered, complete }) => {
                NxtInfo { stream, notification: false, unordered, complete, ppid, length, association }
            }
        })
    }
}
