//! The peers of a socket: which connection a datagram belongs to, what may go where, and what is due.
//!
//! RFC 8261 §6: a connection is found by the addresses and UDP ports of its two ends; all associations between them share
//! it, told apart by SCTP's own ports. Whoever begins an association is the client of DTLS: its INIT begins the handshake
//! and does not leave before that is done.
mod entrance;
mod proof;

use crate::connection::{Came, Connection};
use crate::cookie::Secret;
use crate::ends::Ends;
use crate::hello::{Hello, is_client_hello};
use crate::outbox::{Label, Outbox};
use crate::records::Ended;
use anabranch_base::{Ecn, Instant, PeerState, RecvBatch, SendBatch};
use anabranch_transport::CloseReason;
use entrance::Heard;
pub(crate) use proof::Unproven;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// What the host and its socket have in common.
#[derive(Default)]
pub(crate) struct Shared {
    /// What servers have certificates for, by their addresses; other servers are to have one for their address.
    pub names: BTreeMap<SocketAddr, String>,
    /// What all servers have certificates for.
    pub name: Option<String>,
    /// Why peers were lost.
    pub faults: BTreeMap<SocketAddr, CloseReason>,
}

/// Our address, and the peer's with its port.
pub(crate) type Key = (IpAddr, SocketAddr);

pub(crate) struct Peers {
    ends: Rc<Ends>,
    /// Our UDP port.
    port: u16,
    shared: Rc<RefCell<Shared>>,
    /// Those of a client from their begin, those of a server from the end of the handshake.
    open: BTreeMap<Key, Connection>,
    /// Those of a server until then, each with its number.
    half_open: BTreeMap<Key, (u64, Connection)>,
    /// The same by their numbers: those without a cookie, and those with one.
    order: [BTreeMap<u64, Key>; 2],
    begun: u64,
    /// What cookies are made with; without, nobody is taken in.
    secret: Option<Secret>,
    /// When each is to be looked at; of those that are half open, if so.
    due: BTreeSet<(Instant, bool, Key)>,
    pub outbox: Outbox,
    /// Packets for the engine.
    inbound: VecDeque<Inbound>,
    changes: VecDeque<(SocketAddr, PeerState)>,
    /// Where the library writes what it has to say.
    buffer: Vec<u8>,
}

struct Inbound {
    source: SocketAddr,
    target: SocketAddr,
    ecn: Ecn,
    tag: u64,
    bytes: Vec<u8>,
}

impl Peers {
    pub fn new(ends: Rc<Ends>, port: u16, shared: Rc<RefCell<Shared>>, segments: usize) -> Self {
        let secret = ends.secret().ok().map(|bytes| Secret::new(&bytes));
        Self {
            ends,
            port,
            shared,
            open: BTreeMap::new(),
            half_open: BTreeMap::new(),
            order: Default::default(),
            begun: 0,
            secret,
            due: BTreeSet::new(),
            outbox: Outbox::new(segments),
            inbound: VecDeque::new(),
            changes: VecDeque::new(),
            buffer: vec![0; MAX_OUTPUT],
        }
    }

    /// Seals the packets of a batch.
    pub fn send(&mut self, now: Instant, batch: &SendBatch, mtu: usize) -> Sent {
        let key = (batch.source.ip(), batch.target);
        let Some(connection) = self.open.get_mut(&key) else {
            let first = batch.segments().next().unwrap_or_default();
            // RFC 9260 §8.5.1 A: an INIT has the tag 0 and is alone in its packet.
            let begins = first.get(4..8) == Some(&[0; 4]) && first.get(12) == Some(&INIT);
            if begins && self.ends.opens() {
                self.begin(now, (batch.source, batch.target), mtu);
                return Sent::Waits;
            }
            return Sent::Nowhere;
        };
        if !connection.is_open() {
            return Sent::Waits;
        }
        let mut label = Label::of(batch);
        for packet in batch.segments() {
            let Some(overhead) = connection.overhead() else {
                let came = Came::from(Some(Ended::UsedUp));
                self.after(false, key, came);
                return Sent::Nowhere;
            };
            if packet.len() <= MAX_PACKET {
                let size = packet.len() + overhead;
                self.outbox.push_with(label, size, |out| connection.seal(now, packet, out));
            }
            label.tag += u64::from(label.tag != 0);
        }
        if connection.wants_update() {
            self.call(now, false, (batch.source, batch.target), None, (Ecn::NotEct, 0));
        } else if connection.is_listed_wrongly() {
            self.list(false, key);
        }
        Sent::Sealed
    }

    /// Opens datagrams from the one that is next, while what is in them goes on in one batch.
    pub fn take_in(
        &mut self,
        now: Instant,
        (came, next): (&mut RecvBatch, &mut usize),
        batch: &mut RecvBatch,
        mtu: usize,
    ) {
        let (source, target, ecn, first) = (came.source, came.target, came.ecn, came.first_tag);
        let key = (target.ip(), source);
        let tag = |index: usize| if first == 0 { 0 } else { first + index as u64 };
        let is_alone = !self.half_open.contains_key(&key);
        (batch.source, batch.target, batch.ecn) = (source, target, ecn);
        let connection = self.open.get_mut(&key).filter(|connection| is_alone && connection.is_open());
        if let Some(connection) = connection {
            let (inbound, outbox) = (&mut self.inbound, &mut self.outbox);
            let send = |record: &[u8]| outbox.push(Label::own(target, source), record);
            let mut send = send;
            let mut ended = Came::default();
            while inbound.is_empty()
                && batch.has_room()
                && let Some(datagram) = came.segment_mut(*next)
                && is_sealed(datagram)
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
                ended = connection.open(now, datagram, deliver, &mut send);
                if ended.ended.is_some() {
                    break;
                }
            }
            if ended.ended.is_some() {
                self.after(false, key, ended);
            } else if connection.is_listed_wrongly() {
                self.list(false, key);
            }
            // Whatever else it is, it is looked at below, in its turn.
            if !batch.is_empty() || !self.inbound.is_empty() {
                return;
            }
        }
        if let Some(datagram) = came.segment_mut(*next) {
            let label = (source, target, ecn, tag(*next));
            *next += 1;
            self.receive(now, label, datagram, mtu);
        }
    }

    /// Begins a handshake as a client.
    fn begin(&mut self, now: Instant, (source, target): (SocketAddr, SocketAddr), mtu: usize) {
        let key = (source.ip(), target);
        let name = {
            let mut shared = self.shared.borrow_mut();
            shared.faults.remove(&target);
            let known = shared.names.get(&target).or(shared.name.as_ref()).cloned();
            known.unwrap_or_else(|| target.ip().to_string())
        };
        match Connection::begin(&self.ends, true, &name, mtu, now) {
            Ok(connection) => {
                self.open.insert(key, connection);
                self.call(now, false, (source, target), None, (Ecn::NotEct, 0));
            }
            Err(why) => self.lose(target, CloseReason::Network(why.to_string())),
        }
    }

    /// A datagram has come, perhaps of a handshake.
    fn receive(
        &mut self,
        now: Instant,
        (source, target, ecn, tag): (SocketAddr, SocketAddr, Ecn, u64),
        datagram: &mut [u8],
        mtu: usize,
    ) {
        let (key, mark) = ((target.ip(), source), (ecn, tag));
        let known = self.open.get(&key).map(|connection| connection.client);
        let serves = known != Some(true) && self.ends.accepts();
        if let Some(hello) = Hello::read(datagram).filter(|_| serves) {
            match self.answer(now, (source, target), &hello, mtu) {
                Heard::Done => return,
                Heard::Again => {}
                Heard::Begun => {
                    let mut second = hello.second();
                    self.call(now, true, (target, source), Some(&mut second), mark);
                    return;
                }
                Heard::Unproven => self.admit(now, key, mtu),
            }
        } else if serves && is_client_hello(datagram) {
            self.admit(now, key, mtu);
        }
        // One of the two does not know what to do with it, and leaves it.
        if self.half_open.contains_key(&key) {
            let mut copy = datagram.to_vec();
            self.call(now, true, (target, source), Some(&mut copy), mark);
        }
        if known.is_some() && is_dtls(datagram) {
            self.call(now, false, (target, source), Some(datagram), mark);
        }
    }

    /// Has a connection take a datagram, or see that time has passed.
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
        let (ends, outbox, inbound) = (&self.ends, &mut self.outbox, &mut self.inbound);
        let mut unproven = connection.unproven.take();
        if let (Some(unproven), Some(datagram)) = (&mut unproven, &datagram) {
            unproven.came(datagram);
        }
        let has_come = datagram.is_some();
        let send = |datagram: &[u8]| {
            if Unproven::may_leave(&mut unproven, has_come, datagram) {
                outbox.push(Label::own(local, peer), datagram);
            }
        };
        let deliver = |packet: &[u8]| {
            if !packet.is_empty() && inbound.len() < MAX_INBOUND {
                inbound.push_back(Inbound { source: peer, target: local, ecn, tag, bytes: packet.to_vec() });
            }
        };
        let came = connection.receive(ends, now, datagram, &mut self.buffer, deliver, send);
        connection.unproven = unproven;
        self.after(half, key, came);
    }

    /// What follows from a call.
    fn after(&mut self, half: bool, key: Key, came: Came) {
        if came.ended.is_some() {
            self.remove(half, key);
            if !half && let Some(reason) = came.ended {
                self.lose(key.1, reason);
            }
            return;
        }
        if came.opened {
            if half && let Some(connection) = self.remove(true, key) {
                // The one before has lost its peer, and with it what was on it.
                if self.remove(false, key).is_some_and(|old| old.is_in_use()) {
                    self.changes.push_back((key.1, PeerState::Lost));
                }
                self.make_room();
                self.open.insert(key, connection);
            } else {
                // Only a client has something that waits for it.
                self.changes.push_back((key.1, PeerState::Ready));
            }
            self.list(false, key);
            return;
        }
        self.list(half, key);
    }

    /// Ends the open connection that has been of no use for longest where there are too many.
    fn make_room(&mut self) {
        if self.open.len() < MAX_OPEN {
            return;
        }
        let unused = self.open.iter().filter(|(_, connection)| !connection.is_in_use());
        let oldest = unused.min_by_key(|(_, connection)| connection.expires()).map(|(key, _)| *key);
        let first = oldest.or_else(|| self.open.keys().next().copied());
        if let Some(key) = first {
            self.end(key);
            self.changes.push_back((key.1, PeerState::Lost));
        }
    }

    /// Says goodbye on a connection, and forgets it.
    fn end(&mut self, key: Key) {
        if let Some(mut connection) = self.remove(false, key) {
            let outbox = &mut self.outbox;
            let label = Label::own(SocketAddr::new(key.0, self.port), key.1);
            connection.close(|record| outbox.push(label, record));
        }
    }

    /// Takes a connection out, with what is due of it.
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
        if let Some(at) = connection.listed.take() {
            self.due.remove(&(at, half, key));
        }
        Some(connection)
    }

    /// Puts a connection among those that are due, at its deadline.
    fn list(&mut self, half: bool, key: Key) {
        let connection = match half {
            true => self.half_open.get_mut(&key).map(|(_, connection)| connection),
            false => self.open.get_mut(&key),
        };
        let Some(connection) = connection else { return };
        if connection.is_listed_wrongly() {
            let deadline = connection.deadline();
            if let Some(at) = std::mem::replace(&mut connection.listed, deadline) {
                self.due.remove(&(at, half, key));
            }
            self.due.extend(deadline.map(|at| (at, half, key)));
        }
    }

    /// Looks at what is due.
    pub fn expire(&mut self, now: Instant) {
        while let Some(&(at, half, key)) = self.due.first()
            && at <= now
        {
            self.due.pop_first();
            let connection = match half {
                true => self.half_open.get_mut(&key).map(|(_, connection)| connection),
                false => self.open.get_mut(&key),
            };
            let Some(connection) = connection else { continue };
            connection.listed = None;
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

    /// A report of ICMP about a datagram of ours to a peer: believed where it quotes a handshake of ours, whose random
    /// bytes nobody knows who was not on the way.
    pub fn unreachable(&mut self, (local, peer): (IpAddr, IpAddr), quoted: &[u8]) {
        let is_quoted = |connection: &Connection| {
            let flight = connection.flight();
            let known = flight.len().min(quoted.len());
            known >= MIN_QUOTE && flight[..known] == quoted[..known]
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
            let came = Came { ended: Some(CloseReason::Refused), ..Came::default() };
            self.after(false, key, came);
        }
    }

    /// A peer is lost, and why.
    fn lose(&mut self, peer: SocketAddr, reason: CloseReason) {
        let faults = &mut self.shared.borrow_mut().faults;
        if faults.len() >= MAX_FAULTS {
            faults.pop_first();
        }
        faults.insert(peer, reason);
        self.changes.push_back((peer, PeerState::Lost));
    }

    /// Gives the engine what has come, as much of it as one batch takes; false when there is nothing.
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

    /// Packets wait for the engine.
    pub fn has_more(&self) -> bool {
        !self.inbound.is_empty()
    }

    /// When something is to be looked at.
    pub fn due(&self) -> Option<Instant> {
        self.due.first().map(|(at, ..)| *at)
    }

    /// What has become of a peer.
    pub fn take_change(&mut self) -> Option<(SocketAddr, PeerState)> {
        self.changes.pop_front()
    }
}

/// What became of packets.
pub(crate) enum Sent {
    /// They are sealed.
    Sealed,
    /// They wait for a handshake that is not done.
    Waits,
    /// There is nobody to send them to.
    Nowhere,
}

/// Whether a datagram may be of DTLS at all (RFC 7983 §7; RFC 9147 §4.1).
fn is_dtls(datagram: &[u8]) -> bool {
    matches!(datagram.first(), Some(20..=63))
}

/// Whether a datagram begins with a record that is sealed, of an epoch of data: RFC 9147 §4, or RFC 6347 §4.1.
#[inline]
fn is_sealed(datagram: &[u8]) -> bool {
    match datagram {
        [32..=63, ..] => true,
        [20..32, _, _, high, low, ..] => (*high, *low) != (0, 0),
        _ => false,
    }
}

/// The first byte of an INIT chunk (RFC 9260 §3.2).
const INIT: u8 = 1;

/// Connections that may be open.
const MAX_OPEN: usize = 65_536;
/// Packets that may wait for the engine.
const MAX_INBOUND: usize = 4_096;
/// Peers that it is remembered of why they were lost.
const MAX_FAULTS: usize = 64;
/// Bytes that a report of ICMP must quote: the headers of a hello, and its random bytes.
const MIN_QUOTE: usize = 13 + 12 + 2 + 32;
/// What the library may give at once: it wants room for a certificate as large as the datagrams that it keeps of one
/// handshake (30, RFC 768's 64 KiB each), and panics without. Memory that is never written costs nothing.
pub(crate) const MAX_OUTPUT: usize = 32 * 65_536;
/// RFC 8446 §5.1, RFC 5246 §6.2.1: what a record may hold.
const MAX_PACKET: usize = 1 << 14;
