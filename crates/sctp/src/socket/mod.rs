//! The sockets API of RFC 6458 over an endpoint, for programs written for kernel SCTP.
//!
//! [`Sockets`] owns an [`Endpoint`] and, like an endpoint, is driven through [`Engine`]. No call ever waits. A call
//! that would block returns [`Errno::Again`] or [`Errno::InProgress`]. Once the socket is ready for another call,
//! `poll_event` returns that socket.
//!
//! | RFC 6458 | here |
//! |---|---|
//! | `socket`, `bind`, `listen`, `connect`, `accept`, `sctp_peeloff`, `shutdown`, `close` | [`Sockets`] |
//! | `sctp_sendv`, `sctp_recvv` and older calls | [`Sockets::send`], [`Sockets::recv`], [`SendInfo`], [`Incoming`] |
//! | notifications | [`Notification`], [`EventKind`] |
//! | `setsockopt`, `getsockopt`, `sctp_opt_info` | [`Sockets::set_option`], [`Sockets::option`] |
//! | `select`, `poll` | [`Sockets::poll`] |
//!
//! ```
//! use anabranch_base::{Engine, Instant, Rng, SendBatch};
//! use anabranch_sctp::socket::{Errno, Incoming, SendInfo, Sockets, Style};
//! use anabranch_sctp::{Config, Endpoint};
//! use std::net::SocketAddr;
//!
//! let addresses = [SocketAddr::from(([10, 0, 0, 1], 0)), SocketAddr::from(([10, 0, 0, 2], 0))];
//! let endpoint = |a: SocketAddr, seed| Endpoint::new(Config::default(), vec![a], Rng::new(seed));
//! let mut ends = [endpoint(addresses[0], 1), endpoint(addresses[1], 2)].map(Sockets::new);
//! let now = Instant::ZERO;
//!
//! let listener = ends[1].socket(Style::OneToOne);
//! ends[1].bind(listener, 80)?;
//! ends[1].listen(listener, 5)?;
//! let client = ends[0].socket(Style::OneToOne);
//! assert_eq!(ends[0].connect(now, client, &[addresses[1]], 80), Err(Errno::InProgress));
//!
//! let mut batch = SendBatch::new(1);
//! let mut settle = |ends: &mut [Sockets; 2]| {
//!     for turn in 0..10 {
//!         let (from, to) = (turn % 2, 1 - turn % 2);
//!         batch.clear();
//!         while ends[from].poll_transmit(now, &mut batch) {
//!             batch.packets().for_each(|packet| ends[to].handle_packet(now, packet));
//!             batch.clear();
//!         }
//!     }
//! };
//! settle(&mut ends);
//! let server = ends[1].accept(listener)?;
//! ends[0].send(now, client, b"hello", SendInfo::default())?;
//! settle(&mut ends);
//! let mut buffer = [0; 100];
//! assert!(matches!(ends[1].recv(now, server, &mut buffer)?, Incoming::Data { bytes: 5, .. }));
//! assert_eq!(ends[1].recv(now, server, &mut buffer), Err(Errno::Again));
//! # Ok::<(), Errno>(())
//! ```

mod errno;
mod events;
mod extensions;
mod inbox;
mod info;
mod lifecycle;
mod notification;
mod option;
mod settings;
mod sockopt;
mod transfer;

#[cfg(test)]
mod tests;

pub use errno::Errno;
pub use extensions::{Extension, KeyRequest, PeerAddrThresholds, StreamRequest};
pub use info::{AuthInfo, Incoming, NxtInfo, PrInfo, RcvInfo, SendInfo, SndInfo};
pub use notification::{AddressChange, AssociationChange, EventKind, EventSet, KeyChange, Notification};
pub use option::{
    AssocInfo, DelayedSack, Fragmented, InitMsg, OptionName, PeerAddrInfo, PeerAddrParams, RtoInfo, Scope,
    SocketOption, Status,
};

use crate::config::Config;
use crate::endpoint::Endpoint;
use crate::id::AssociationId;
use anabranch_base::time::Duration;
use anabranch_base::trace::TraceRecord;
use anabranch_base::{Engine, Icmp, Instant, Packet, SendBatch};
use inbox::Inbox;
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Identifies a socket. An identifier is not reused after its socket was closed.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SocketId(u32);

/// The two socket styles of RFC 6458.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Style {
    /// A socket has one association, as in TCP (RFC 6458 §4, `SOCK_STREAM`).
    OneToOne,
    /// A socket has many associations, as a UDP socket has many peers (RFC 6458 §3, `SOCK_SEQPACKET`).
    OneToMany,
}

/// The directions that `shutdown` closes (RFC 6458 §4.1.7).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ShutdownHow {
    /// `SHUT_RD`: no more data is read. SCTP does not inform the peer.
    Read,
    /// `SHUT_WR`: no more data is sent, and the association shuts down.
    Write,
    /// `SHUT_RDWR`: no more data is read or sent.
    Both,
}

/// The operations for which a socket is ready (`poll`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ready {
    /// `POLLIN`: whether a read, or an `accept`, would not block.
    pub readable: bool,
    /// `POLLOUT`: whether a write would not block.
    pub writable: bool,
    /// `POLLERR`: whether an error is pending in `SO_ERROR`.
    pub error: bool,
    /// `POLLHUP`: whether the association has ended.
    pub hung_up: bool,
}

/// All sockets of one endpoint. See the [module documentation](self).
#[derive(Debug)]
pub struct Sockets {
    endpoint: Endpoint,
    sockets: BTreeMap<SocketId, Socket>,
    /// The socket that owns each association. Associations whose socket was closed are in `orphans`.
    owners: BTreeMap<AssociationId, SocketId>,
    /// Associations whose socket was closed, until their shutdown is complete.
    orphans: BTreeSet<AssociationId>,
    listeners: BTreeMap<u16, SocketId>,
    next: u32,
    woken: VecDeque<SocketId>,
}

/// A one-to-one or one-to-many socket.
#[derive(Debug)]
struct Socket {
    style: Style,
    /// The local port, or 0 before the socket is bound.
    port: u16,
    /// The configuration of future associations.
    config: Config,
    settings: settings::Settings,
    /// The backlog passed to `listen`; `None` if the socket does not listen.
    backlog: Option<usize>,
    /// Associations that wait for `accept`.
    pending: VecDeque<AssociationId>,
    associations: BTreeMap<AssociationId, Member>,
    /// The error that `SO_ERROR` returns.
    error: Option<Errno>,
    inbox: Inbox,
    /// The number of messages that had arrived on the current event's association when the socket began to process the
    /// event. Notifications of this event are read after these messages. Valid only while an event is processed.
    arrived: u64,
    read_shut: bool,
    write_shut: bool,
    /// Whether a one-to-one socket has already had an association.
    used: bool,
    woken: bool,
}

/// An association that belongs to a socket.
#[derive(Clone, Copy, Debug)]
struct Member {
    established: bool,
    peer_shutdown: bool,
    closed: bool,
    outbound_streams: u16,
    inbound_streams: u16,
    /// Whether a message was sent since the last `SenderDry` notification.
    busy: bool,
    /// The time at which the association was last used, for autoclose.
    used_at: Instant,
}

impl Sockets {
    /// Creates the sockets of `endpoint`. New sockets start with the configuration of the endpoint.
    #[must_use]
    pub fn new(endpoint: Endpoint) -> Self {
        let mut endpoint = endpoint;
        endpoint.track_arrivals();
        Self {
            endpoint,
            sockets: BTreeMap::new(),
            owners: BTreeMap::new(),
            orphans: BTreeSet::new(),
            listeners: BTreeMap::new(),
            next: 0,
            woken: VecDeque::new(),
        }
    }

    /// Returns the underlying endpoint.
    #[must_use]
    pub fn endpoint(&self) -> &Endpoint {
        &self.endpoint
    }

    /// Returns the operations for which the socket is ready.
    ///
    /// ```
    /// # use anabranch_sctp::socket::{Errno, Sockets, Style};
    /// # use anabranch_sctp::{testing::Pair, Config};
    /// # let mut sockets = Sockets::new(Pair::new(Config::default(), Config::default(), 1, 1).a);
    /// let socket = sockets.socket(Style::OneToOne);
    /// sockets.listen(socket, 5)?;
    /// assert!(!sockets.poll(socket)?.readable, "nobody waits to be accepted");
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::BadSocket`].
    pub fn poll(&self, id: SocketId) -> Result<Ready, Errno> {
        let socket = self.sockets.get(&id).ok_or(Errno::BadSocket)?;
        let single = socket.single();
        let ended = single.is_some_and(|(_, member)| member.closed);
        let error = socket.error.is_some();
        let to_send = |(&association, member): (&AssociationId, &Member)| {
            member.established && !member.closed && self.endpoint.writable_bytes(association) > 0
        };
        let eof = single.is_some_and(|(_, member)| member.peer_shutdown || member.closed);
        Ok(Ready {
            readable: socket.inbox.next(&self.endpoint).is_some()
                || !socket.pending.is_empty()
                || error
                || eof,
            writable: match socket.style {
                Style::OneToOne => ended || error || socket.associations.iter().any(to_send),
                Style::OneToMany => socket.associations.is_empty() || socket.associations.iter().any(to_send),
            },
            error,
            hung_up: ended,
        })
    }

    fn socket_at(&mut self, id: SocketId) -> Result<&mut Socket, Errno> {
        self.sockets.get_mut(&id).ok_or(Errno::BadSocket)
    }

    fn autoclose_deadline(&self) -> Option<Instant> {
        let deadlines = self.sockets.values().filter_map(|socket| {
            let span: Duration = socket.settings.autoclose?;
            socket
                .associations
                .values()
                .filter(|m| m.established && !m.closed)
                .map(|m| m.used_at + span)
                .min()
        });
        deadlines.min()
    }
}

impl Socket {
    /// Returns the association of a one-to-one socket.
    fn single(&self) -> Option<(AssociationId, Member)> {
        if self.style == Style::OneToMany {
            return None;
        }
        self.associations.first_key_value().map(|(&id, &member)| (id, member))
    }
}

impl Engine for Sockets {
    /// A socket that may have become ready or has a new error. [`Sockets::poll`] returns the operations for which the
    /// socket is ready.
    type Event = SocketId;

    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>) {
        self.endpoint.handle_packet(now, packet);
        self.take_events(now);
    }

    fn handle_icmp(&mut self, now: Instant, icmp: &Icmp, quoted: &[u8]) {
        self.endpoint.handle_icmp(now, icmp, quoted);
        self.take_events(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
        if self.autoclose_deadline().is_some_and(|deadline| deadline <= now) {
            self.autoclose(now);
        }
        self.take_events(now);
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut SendBatch) -> bool {
        let sent = self.endpoint.poll_transmit(now, out);
        // Building packets can end an association, which causes events.
        self.take_events(now);
        sent
    }

    fn poll_event(&mut self) -> Option<SocketId> {
        let id = self.woken.pop_front()?;
        if let Some(socket) = self.sockets.get_mut(&id) {
            socket.woken = false;
        }
        Some(id)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.endpoint.poll_timeout().into_iter().chain(self.autoclose_deadline()).min()
    }

    fn set_tracing(&mut self, on: bool) {
        self.endpoint.set_tracing(on);
    }

    fn take_trace(&mut self) -> Vec<TraceRecord> {
        self.endpoint.take_trace()
    }
}
