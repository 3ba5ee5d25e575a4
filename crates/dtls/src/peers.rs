//! The peers of a socket. Assigns datagrams to connections, decides what may be sent, and keeps the deadlines of all
//! connections.
//!
//! RFC 8261 §6: a connection is identified by the IP addresses and UDP ports of its two hosts. All associations between
//! these addresses and UDP ports share the connection, and SCTP's own port numbers distinguish them. The host that
//! begins an association is the DTLS client. When SCTP passes the INIT to this layer, the DTLS handshake begins. The
//! INIT is held back until the handshake is done.
mod handshake_limiter;

use crate::connection::{Connection, HandshakeProgress};
use crate::cookie::Secret;
use crate::hello::{ClientHello, is_client_hello};
use crate::host_config::HostConfig;
use crate::outbox::{Outbox, SendMeta};
use crate::proof::UnvalidatedClient;
use crate::records::RecordsEnd;
use anabranch_base::{Ecn, Instant, PeerState, RecvBatch, SendBatch};
use anabranch_transport::CloseReason;
use handshake_limiter::HelloOutcome;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// The state that a host's DTLS layer shares with the layer's socket.
#[derive(Default)]
pub(crate) struct Shared {
    /// The names that the certificates of servers must have, by server address.
    pub names: BTreeMap<SocketAddr, String>,
    /// The name that the certificate of a server must have if `names` has no entry for the server. With `None`, the
    /// certificate must be for the server's IP address.
    pub name: Option<String>,
    /// The reasons why peers were lost, by address.
    pub loss_reasons: BTreeMap<SocketAddr, CloseReason>,
}

/// Identifies a connection: our address, and the peer's address and port.
pub(crate) type Key = (IpAddr, SocketAddr);

pub(crate) struct Peers {
    host: Rc<HostConfig>,
    /// Our UDP port.
    port: u16,
    shared: Rc<RefCell<Shared>>,
    /// All connections in which this host is the DTLS client, and those server connections whose handshake is done.
    open: BTreeMap<Key, Connection>,
    /// The server connections whose handshake is in progress, each with its number in the order of arrival.
    half_open: BTreeMap<Key, (u64, Connection)>,
    /// The keys of `half_open` by sequence number, in two maps: handshakes begun without a cookie, and handshakes begun
    /// with a cookie.
    order: [BTreeMap<u64, Key>; 2],
    last_number: u64,
    /// The secret for making cookies. Without a secret, no clients are accepted.
    secret: Option<Secret>,
    /// The deadlines of all connections. The flag is true for connections in `half_open`.
    deadlines: BTreeSet<(Instant, bool, Key)>,
    pub outbox: Outbox,
    /// Decrypted packets that wait for delivery to the engine.
    inbound: VecDeque<Inbound>,
    state_changes: VecDeque<(SocketAddr, PeerState)>,
}

thread_local! {
    /// The buffer for the output of dimpl. All hosts of a thread share it: it is large, and a race starts many hosts.
    static OUTPUT: RefCell<Vec<u8>> = RefCell::new(vec![0; MAX_OUTPUT]);
}

struct Inbound {
    source: SocketAddr,
    target: SocketAddr,
    ecn: Ecn,
    tag: u64,
    bytes: Vec<u8>,
}

impl Peers {
    pub fn new(host: Rc<HostConfig>, port: u16, shared: Rc<RefCell<Shared>>, segments: usize) -> Self {
        let secret = host.secret().ok().map(|bytes| Secret::new(&bytes));
        Self {
            host,
            port,
            shared,
            open: BTreeMap::new(),
            half_open: BTreeMap::new(),
            order: Default::default(),
            last_number: 0,
            secret,
            deadlines: BTreeSet::new(),
            outbox: Outbox::new(segments),
            inbound: VecDeque::new(),
            state_changes: VecDeque::new(),
        }
    }

    /// Encrypts the packets of a batch and queues them in the outbox. An INIT to a peer without a connection begins a
    /// handshake.
    pub fn send(&mut self, now: Instant, batch: &SendBatch, mtu: usize) -> SendOutcome {
        let key = (batch.source.ip(), batch.target);
        let Some(connection) = self.open.get_mut(&key) else {
            let first = batch.segments().next().unwrap_or_default();
            // RFC 9260 §8.5.1 A: a packet with an INIT has the verification tag 0, and the INIT is its only chunk.
            let begins = first.get(4..8) == Some(&[0; 4]) && first.get(12) == Some(&INIT);
            if begins && self.host.can_connect() {
                self.begin(now, (batch.source, batch.target), mtu);
                return SendOutcome::Waits;
            }
            return SendOutcome::Nowhere;
        };
        if !connection.is_open() {
            return SendOutcome::Waits;
        }
        let mut meta = SendMeta::of(batch);
        for packet in batch.segments() {
            let Some(overhead) = connection.overhead() else {
                let progress = HandshakeProgress::from(Some(RecordsEnd::KeyLimitReached));
                self.after(false, key, progress);
                return SendOutcome::Nowhere;
            };
            if packet.len() <= MAX_PACKET {
                let size = packet.len() + overhead;
                self.outbox.push_with(meta, size, |out| connection.seal(now, packet, out));
            }
            meta.tag += u64::from(meta.tag != 0);
        }
        if connection.wants_update() {
            self.call(now, false, (batch.source, batch.target), None, (Ecn::NotEct, 0));
        } else if connection.is_listed_wrongly() {
            self.list(false, key);
        }
        SendOutcome::Sealed
    }

    /// Decrypts datagrams, starting at index `next`, as long as their packets fit into one batch.
    pub fn take_in(
        &mut self,
        now: Instant,
        (received, next): (&mut RecvBatch, &mut usize),
        batch: &mut RecvBatch,
        mtu: usize,
    ) {
        let (source, target, ecn, first) =
            (received.source, received.target, received.ecn, received.first_tag);
        let key = (target.ip(), source);
        let tag = |index: usize| if first == 0 { 0 } else { first + index as u64 };
        let is_alone = !self.half_open.contains_key(&key);
        (batch.source, batch.target, batch.ecn) = (source, target, ecn);
        let connection = self.open.get_mut(&key).filter(|connection| is_alone && connection.is_open());
        if let Some(connection) = connection {
            let (inbound, outbox) = (&mut self.inbound, &mut self.outbox);
            let send = |record: &[u8]| outbox.push(SendMeta::own(target, source), record);
            let mut send = send;
            let mut progress = HandshakeProgress::default();
            while inbound.is_empty()
                && batch.has_room()
                && let Some(datagram) = received.segment_mut(*next)
                && is_encrypted(datagram)
            {
                let tag = tag(*next);
                *next += 1;
                let deliver = |packet: &[u8]| {
                    let follows = match batch.len() {
                        0 => {
                            batch.first_tag = tag;
                            true
                        }
                        many => {
                            let wanted = if batch.first_tag == 0 { 0 } else { batch.first_tag + many as u64 };
                            tag == wanted && batch.has_room() && packet.len() <= batch.stride()
                        }
                    };
                    if packet.is_empty() {
                    } else if follows && inbound.is_empty() {
                        batch.push(packet);
                    } else if inbound.len() < MAX_INBOUND {
                        inbound.push_back(Inbound { source, target, ecn, tag, bytes: packet.to_vec() });
                    }
                };
                progress = connection.open(now, datagram, deliver, &mut send);
                if progress.ended.is_some() {
                    break;
                }
            }
            if progress.ended.is_some() {
                self.after(false, key, progress);
            } else if connection.is_listed_wrongly() {
                self.list(false, key);
            }
            // The caller gets the decrypted packets first, so that packets and handshake results keep their order. A
            // later call handles the next datagram, which may contain a handshake message, or come from a peer that has
            // no connection.
            if !batch.is_empty() || !self.inbound.is_empty() {
                return;
            }
        }
        if let Some(datagram) = received.segment_mut(*next) {
            let label = (source, target, ecn, tag(*next));
            *next += 1;
            self.receive(now, label, datagram, mtu);
        }
    }

    /// Begins a handshake with a server.
    fn begin(&mut self, now: Instant, (source, target): (SocketAddr, SocketAddr), mtu: usize) {
        let key = (source.ip(), target);
        let name = {
            let mut shared = self.shared.borrow_mut();
            shared.loss_reasons.remove(&target);
            let known = shared.names.get(&target).or(shared.name.as_ref()).cloned();
            known.unwrap_or_else(|| target.ip().to_string())
        };
        match Connection::begin(&self.host, true, &name, mtu, now) {
            Ok(connection) => {
                self.open.insert(key, connection);
                self.call(now, false, (source, target), None, (Ecn::NotEct, 0));
            }
            Err(why) => self.lose(target, CloseReason::Network(why.to_string())),
        }
    }

    /// Handles a datagram that may belong to a handshake.
    fn receive(
        &mut self,
        now: Instant,
        (source, target, ecn, tag): (SocketAddr, SocketAddr, Ecn, u64),
        datagram: &mut [u8],
        mtu: usize,
    ) {
        let (key, mark) = ((target.ip(), source), (ecn, tag));
        let known = self.open.get(&key).map(|connection| connection.client);
        let serves = known != Some(true) && self.host.can_accept();
        if let Some(hello) = ClientHello::read(datagram).filter(|_| serves) {
            match self.answer(now, (source, target), &hello, mtu) {
                HelloOutcome::Done => return,
                HelloOutcome::Again => {}
                HelloOutcome::Begun => {
                    let mut second = hello.second();
                    self.call(now, true, (target, source), Some(&mut second), mark);
                    return;
                }
                HelloOutcome::Unproven => self.admit(now, key, mtu),
            }
        } else if serves && is_client_hello(datagram) {
            self.admit(now, key, mtu);
        }
        // If the peer has an old and a new connection, both connections get the datagram. The one that does not
        // recognize the datagram ignores it.
        if self.half_open.contains_key(&key) {
            let mut copy = datagram.to_vec();
            self.call(now, true, (target, source), Some(&mut copy), mark);
        }
        if known.is_some() && is_dtls(datagram) {
            self.call(now, false, (target, source), Some(datagram), mark);
        }
    }

    /// Passes a datagram to a connection or, if `datagram` is `None`, makes the connection handle its timeouts.
    pub fn call(
        &mut self,
        now: Instant,
        half: bool,
        (local, peer): (SocketAddr, SocketAddr),
        datagram: Option<&mut [u8]>,
        (ecn, tag): (Ecn, u64),
    ) {
        let key = (local.ip(), peer);
        let connection = match half {
            true => self.half_open.get_mut(&key).map(|(_, connection)| connection),
            false => self.open.get_mut(&key),
        };
        let Some(connection) = connection else { return };
        let (host, outbox, inbound) = (&self.host, &mut self.outbox, &mut self.inbound);
        let mut unvalidated = connection.unvalidated.take();
        if let (Some(unvalidated), Some(datagram)) = (&mut unvalidated, &datagram) {
            unvalidated.on_received(datagram);
        }
        let has_come = datagram.is_some();
        let send = |datagram: &[u8]| {
            if UnvalidatedClient::may_send(&mut unvalidated, has_come, datagram) {
                outbox.push(SendMeta::own(local, peer), datagram);
            }
        };
        let deliver = |packet: &[u8]| {
            if !packet.is_empty() && inbound.len() < MAX_INBOUND {
                inbound.push_back(Inbound { source: peer, target: local, ecn, tag, bytes: packet.to_vec() });
            }
        };
        let progress =
            OUTPUT.with_borrow_mut(|output| connection.receive(host, now, datagram, output, deliver, send));
        connection.unvalidated = unvalidated;
        self.after(half, key, progress);
    }

    /// Handles the result of a call to a connection: removes the connection if it has ended, and reports a completed
    /// handshake.
    fn after(&mut self, half: bool, key: Key, progress: HandshakeProgress) {
        if progress.ended.is_some() {
            self.remove(half, key);
            if !half && let Some(reason) = progress.ended {
                self.lose(key.1, reason);
            }
            return;
        }
        if progress.opened {
            if half && let Some(connection) = self.remove(true, key) {
                // This connection replaces the peer's previous connection. The associations on the previous connection
                // are lost.
                if self.remove(false, key).is_some_and(|old| old.is_in_use()) {
                    self.state_changes.push_back((key.1, PeerState::Lost));
                }
                self.make_room();
                self.open.insert(key, connection);
            } else {
                // Only a client reports `Ready`, because only a client's packets wait for the handshake.
                self.state_changes.push_back((key.1, PeerState::Ready));
            }
            self.list(false, key);
            return;
        }
        self.list(half, key);
    }

    /// If too many connections are open, ends the connection that has been unused longest. If all connections are in
    /// use, ends the connection with the lowest address.
    fn make_room(&mut self) {
        if self.open.len() < MAX_OPEN {
            return;
        }
        let unused = self.open.iter().filter(|(_, connection)| !connection.is_in_use());
        let oldest = unused.min_by_key(|(_, connection)| connection.expires()).map(|(key, _)| *key);
        let first = oldest.or_else(|| self.open.keys().next().copied());
        if let Some(key) = first {
            self.end(key);
            self.state_changes.push_back((key.1, PeerState::Lost));
        }
    }

    /// Sends a closure alert on a connection, and removes the connection.
    fn end(&mut self, key: Key) {
        if let Some(mut connection) = self.remove(false, key) {
            let outbox = &mut self.outbox;
            let meta = SendMeta::own(SocketAddr::new(key.0, self.port), key.1);
            connection.close(|record| outbox.push(meta, record));
        }
    }

    /// Removes a connection together with its deadline.
    pub fn remove(&mut self, half: bool, key: Key) -> Option<Connection> {
        let mut connection = match half {
            true => {
                let (number, connection) = self.half_open.remove(&key)?;
                for order in &mut self.order {
                    order.remove(&number);
                }
                connection
            }
            false => self.open.remove(&key)?,
        };
        if let Some(at) = connection.listed_deadline.take() {
            self.deadlines.remove(&(at, half, key));
        }
        Some(connection)
    }

    /// Updates the deadline of a connection in `deadlines`, if needed.
    fn list(&mut self, half: bool, key: Key) {
        let connection = match half {
            true => self.half_open.get_mut(&key).map(|(_, connection)| connection),
            false => self.open.get_mut(&key),
        };
        let Some(connection) = connection else { return };
        if connection.is_listed_wrongly() {
            let deadline = connection.deadline();
            if let Some(at) = std::mem::replace(&mut connection.listed_deadline, deadline) {
                self.deadlines.remove(&(at, half, key));
            }
            self.deadlines.extend(deadline.map(|at| (at, half, key)));
        }
    }

    /// Handles all deadlines that have passed.
    pub fn expire(&mut self, now: Instant) {
        while let Some(&(at, half, key)) = self.deadlines.first()
            && at <= now
        {
            self.deadlines.pop_first();
            let connection = match half {
                true => self.half_open.get_mut(&key).map(|(_, connection)| connection),
                false => self.open.get_mut(&key),
            };
            let Some(connection) = connection else { continue };
            connection.listed_deadline = None;
            if connection.expires().is_some_and(|at| at <= now) {
                let used = connection.is_in_use();
                self.end(key);
                if used {
                    self.lose(key.1, CloseReason::TimedOut("nothing came over DTLS".to_owned()));
                }
                continue;
            }
            let local = SocketAddr::new(key.0, self.port);
            self.call(now, half, (local, key.1), None, (Ecn::NotEct, 0));
        }
    }

    /// Handles an ICMP message about a datagram of ours. The message is accepted only if it quotes one of our handshake
    /// datagrams, because an attacker off the path cannot know the random bytes of that datagram.
    pub fn unreachable(&mut self, (local, peer): (IpAddr, IpAddr), quoted: &[u8]) {
        let is_quoted = |connection: &Connection| {
            let first_datagram = connection.first_datagram();
            let known = first_datagram.len().min(quoted.len());
            known >= MIN_QUOTE && first_datagram[..known] == quoted[..known]
        };
        let of_them = |(key, connection): &(&Key, &Connection)| {
            key.0 == local
                && key.1.ip() == peer
                && connection.client
                && !connection.is_open()
                && is_quoted(connection)
        };
        if let Some((key, _)) = self.open.iter().find(of_them) {
            let key = *key;
            let progress =
                HandshakeProgress { ended: Some(CloseReason::Refused), ..HandshakeProgress::default() };
            self.after(false, key, progress);
        }
    }

    /// Records that a peer is lost, with the reason.
    fn lose(&mut self, peer: SocketAddr, reason: CloseReason) {
        let loss_reasons = &mut self.shared.borrow_mut().loss_reasons;
        if loss_reasons.len() >= MAX_LOSS_REASONS {
            loss_reasons.pop_first();
        }
        loss_reasons.insert(peer, reason);
        self.state_changes.push_back((peer, PeerState::Lost));
    }

    /// Moves packets that wait for the engine into `batch`, as many as fit. Returns false if no packets wait.
    pub fn deliver(&mut self, batch: &mut RecvBatch) -> bool {
        let Some(first) = self.inbound.pop_front() else { return false };
        (batch.source, batch.target, batch.ecn) = (first.source, first.target, first.ecn);
        batch.first_tag = first.tag;
        batch.push(&first.bytes);
        while let Some(next) = self.inbound.front() {
            let tag = if first.tag == 0 { 0 } else { first.tag + batch.len() as u64 };
            let same = (next.source, next.target, next.ecn, next.tag)
                == (first.source, first.target, first.ecn, tag);
            if !same || !batch.has_room() || next.bytes.len() > batch.stride() {
                break;
            }
            batch.push(&next.bytes);
            self.inbound.pop_front();
        }
        true
    }

    /// Returns whether decrypted packets wait for delivery to the engine.
    pub fn has_more(&self) -> bool {
        !self.inbound.is_empty()
    }

    /// Returns the earliest deadline of all connections.
    pub fn due(&self) -> Option<Instant> {
        self.deadlines.first().map(|(at, ..)| *at)
    }

    /// Removes and returns the next change of a peer's state.
    pub fn take_change(&mut self) -> Option<(SocketAddr, PeerState)> {
        self.state_changes.pop_front()
    }
}

/// The result of sending a batch of packets.
pub(crate) enum SendOutcome {
    /// The packets were encrypted and queued.
    Sealed,
    /// The packets have to wait until a handshake is done.
    Waits,
    /// No connection to the peer exists, and the packets do not begin one.
    Nowhere,
}

/// Returns whether a datagram begins with a byte that DTLS uses (RFC 7983 §7; RFC 9147 §4.1).
fn is_dtls(datagram: &[u8]) -> bool {
    matches!(datagram.first(), Some(20..=63))
}

/// Returns whether a datagram begins with an encrypted record. This is a record of DTLS 1.3 with the unified header
/// (RFC 9147 §4), or a record of DTLS 1.2 (RFC 6347 §4.1) whose epoch is not 0.
#[inline]
fn is_encrypted(datagram: &[u8]) -> bool {
    match datagram {
        [32..=63, ..] => true,
        [20..32, _, _, high, low, ..] => (*high, *low) != (0, 0),
        _ => false,
    }
}

/// The type of an INIT chunk, which is its first byte (RFC 9260 §3.2).
const INIT: u8 = 1;

/// The maximum number of open connections.
const MAX_OPEN: usize = 65_536;
/// The maximum number of packets that wait for delivery to the engine. Further packets are dropped.
const MAX_INBOUND: usize = 4_096;
/// The maximum number of entries in `loss_reasons`, the reasons why peers were lost.
const MAX_LOSS_REASONS: usize = 64;
/// The number of bytes of a ClientHello that an ICMP message must quote: the record header, the handshake header, the
/// version and the random value.
const MIN_QUOTE: usize = 13 + 12 + 2 + 32;
/// The size in bytes of the buffer into which dimpl writes its output, such as the peer's certificate. dimpl panics if
/// that certificate does not fit. It always fits, because it arrives in at most 30 datagrams, each of at most 64 KiB
/// (RFC 768); dimpl keeps no more of one handshake. Parts of the buffer that are never written take no memory.
pub(crate) const MAX_OUTPUT: usize = 32 * 65_536;
/// RFC 8446 §5.1, RFC 5246 §6.2.1: the maximum payload of a record in bytes.
const MAX_PACKET: usize = 1 << 14;
