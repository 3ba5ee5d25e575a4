//! The layer between an engine and its socket: which connection a datagram belongs to, and what may go where.
//!
//! RFC 8261 §6: a connection is found by the addresses and UDP ports of its two ends; all associations between them share
//! it, told apart by SCTP's own ports. Whoever begins an association is the client of DTLS: its INIT begins the handshake
//! and does not leave before that is done.
//!
//! A server keeps nothing of who says hello: it answers with a cookie (RFC 6347 §4.2.1, RFC 9147 §5.1), and begins a
//! handshake when that comes back. Handshakes under way are at most [`MAX_HALF_OPEN`]; of the client with most of them the
//! oldest gives way. A hello in several datagrams, or one that needs another key share, cannot be answered so: of those at most
//! [`MAX_UNPROVEN`] are kept, the oldest of which gives way. A peer that begins again from the same port (RFC 6347 §4.2.8)
//! replaces its old connection only when it has finished.

use crate::connection::{Came, Connection};
use crate::cookie::{Secret, order};
use crate::ends::Ends;
use crate::hello::{Answer, Hello};
use crate::outbox::{Label, Outbox};
use crate::provider::Cookie;
use anabranch_base::{Ecn, IcmpKind, Instant, PeerState, RecvBatch, SendBatch};
use anabranch_transport::CloseReason;
use anabranch_transport::protocol::Layer;
use anabranch_world::{Datagrams, Timer, World};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::fmt;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

/// DTLS of a host. It is a layer for one transport.
pub struct DtlsLayer<W> {
    world: W,
    ends: Rc<Ends>,
    shared: Rc<RefCell<Shared>>,
}

/// What the host and its socket have in common.
#[derive(Default)]
struct Shared {
    /// What servers have certificates for, by their addresses; other servers are to have one for their address.
    names: BTreeMap<SocketAddr, String>,
    /// What all servers have certificates for.
    name: Option<String>,
    /// Why peers were lost.
    faults: BTreeMap<SocketAddr, CloseReason>,
}

impl<W> fmt::Debug for DtlsLayer<W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DtlsLayer").field("ends", &self.ends).finish_non_exhaustive()
    }
}

impl<W: World> DtlsLayer<W> {
    /// Of a host with these ends. `name`: what every server that it goes to has a certificate for.
    pub fn new(world: W, ends: Ends, name: Option<&str>) -> Self {
        let shared = Shared { name: name.map(str::to_owned), ..Shared::default() };
        Self { world, ends: Rc::new(ends), shared: Rc::new(RefCell::new(shared)) }
    }

    /// The server at this address (with its UDP port) is to have a certificate for this name.
    pub fn expect(&self, server: SocketAddr, name: &str) {
        self.shared.borrow_mut().names.insert(server, name.to_owned());
    }
}

impl<W: World> Layer for DtlsLayer<W> {
    fn over(&self, below: Box<dyn Datagrams>) -> Box<dyn Datagrams> {
        let segments = below.max_segments();
        let state = State {
            ends: self.ends.clone(),
            port: below.local().first().map_or(0, SocketAddr::port),
            shared: self.shared.clone(),
            open: BTreeMap::new(),
            half_open: BTreeMap::new(),
            order: Default::default(),
            begun: 0,
            secret: self.ends.secret().ok().map(|bytes| Secret::new(&bytes)),
            due: BTreeSet::new(),
            outbox: Outbox::new(segments),
            inbound: VecDeque::new(),
            changes: VecDeque::new(),
            buffer: vec![0; MAX_OUTPUT],
        };
        Box::new(Socket {
            world: self.world.clone(),
            below,
            state: RefCell::new(state),
            back: RefCell::new(RecvBatch::new(segments)),
            timer: RefCell::new((self.world.timer(), None)),
        })
    }

    fn fault(&self, peer: SocketAddr) -> Option<CloseReason> {
        self.shared.borrow().faults.get(&peer).cloned()
    }
}

/// Our address, and the peer's with its port.
type Key = (IpAddr, SocketAddr);

struct State {
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
    outbox: Outbox,
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

/// A socket with DTLS on it.
struct Socket<W: World> {
    world: W,
    below: Box<dyn Datagrams>,
    state: RefCell<State>,
    back: RefCell<RecvBatch>,
    /// And what it is set to.
    timer: RefCell<(W::Timer, Option<Instant>)>,
}

impl<W: World> Socket<W> {
    /// The largest datagram of a handshake from this address: what its interface takes in one piece, and no more than usual
    /// interfaces do. The library fills its hello up to that, and programs that take 64 KiB of a loopback interface are few.
    fn datagram(&self, source: IpAddr) -> usize {
        let headers = if source.is_ipv4() { 20 + 8 } else { 40 + 8 };
        self.below.mtu(source).min(USUAL_MTU).saturating_sub(headers).max(MIN_DATAGRAM) as usize
    }

    /// Has the timer wake us when something is due; true when it already is.
    fn watch(&self, cx: &mut Context<'_>, due: Option<Instant>) -> bool {
        let (timer, set) = &mut *self.timer.borrow_mut();
        if *set != due {
            timer.set(due);
            *set = due;
        }
        let fired = due.is_some() && timer.poll(cx).is_ready();
        if fired {
            *set = None;
        }
        fired
    }
}

impl<W: World> Datagrams for Socket<W> {
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        let (source, target) = (batch.source, batch.target);
        let state = &mut *self.state.borrow_mut();
        if batch.is_empty() {
            return Poll::Ready(Ok(()));
        }
        let now = self.world.now();
        let mtu = self.datagram(source.ip());
        if let Some(refused) = state.send(now, batch, mtu) {
            let _ = state.outbox.poll_flush(cx, &*self.below);
            if refused {
                return Poll::Ready(Err(io::ErrorKind::HostUnreachable.into()));
            }
            batch.clear();
            return Poll::Ready(Ok(()));
        }
        match state.outbox.poll_flush(cx, &*self.below) {
            // What waits here goes at the next look; the engine is told of packets that cannot go at all.
            Poll::Pending | Poll::Ready(Ok(())) => {
                batch.clear();
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => {
                (batch.source, batch.target) = (source, target);
                Poll::Ready(Err(error))
            }
        }
    }

    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        let mut back = self.back.borrow_mut();
        loop {
            let mut state = self.state.borrow_mut();
            let now = self.world.now();
            state.expire(now);
            // An error is that of one datagram, which is lost.
            let _ = state.outbox.poll_flush(cx, &*self.below);
            if state.deliver(batch) {
                return Poll::Ready(Ok(()));
            }
            back.clear();
            match self.below.poll_recv(cx, &mut back) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(error)) => return Poll::Ready(Err(error)),
                Poll::Pending => {
                    if self.watch(cx, state.due.first().map(|(at, ..)| *at)) {
                        continue;
                    }
                    return Poll::Pending;
                }
            }
            if let Some(icmp) = back.icmp {
                if matches!(icmp.kind, IcmpKind::Unreachable(_)) {
                    state.unreachable(now, (icmp.source, icmp.target), back.bytes());
                }
                continue;
            }
            let mtu = self.datagram(back.target.ip());
            for packet in back.packets() {
                let label = (packet.source, packet.target, packet.ecn, packet.tag);
                state.receive(now, label, packet.payload, mtu);
            }
        }
    }

    fn poll_flush(&self, cx: &mut Context<'_>, unsent: &mut SendBatch) -> Poll<io::Result<()>> {
        if self.state.borrow_mut().outbox.poll_flush(cx, &*self.below).is_pending() {
            return Poll::Pending;
        }
        self.below.poll_flush(cx, unsent)
    }

    fn has_more(&self) -> bool {
        !self.state.borrow().inbound.is_empty() || self.below.has_more()
    }

    fn take_peer(&self) -> Option<(SocketAddr, PeerState)> {
        self.state.borrow_mut().changes.pop_front()
    }

    fn local(&self) -> Vec<SocketAddr> {
        self.below.local()
    }

    fn mtu(&self, source: IpAddr) -> u32 {
        let overhead = self.state.borrow().ends.version.overhead();
        self.below.mtu(source).saturating_sub(overhead)
    }

    fn max_segments(&self) -> usize {
        self.below.max_segments()
    }
}

impl State {
    /// Seals the packets of a batch. `None`: they are on their way. `Some(true)`: they wait for a handshake that is not
    /// done; `Some(false)`: there is nobody to send them to.
    fn send(&mut self, now: Instant, batch: &SendBatch, mtu: usize) -> Option<bool> {
        let key = (batch.source.ip(), batch.target);
        let Some(connection) = self.open.get_mut(&key) else {
            let first = batch.segments().next().unwrap_or_default();
            // RFC 9260 §8.5.1 A: an INIT has the tag 0 and is alone in its packet.
            let begins = first.get(4..8) == Some(&[0; 4]) && first.get(12) == Some(&INIT);
            if begins && self.ends.opens() {
                self.begin(now, (batch.source, batch.target), mtu);
                return Some(true);
            }
            return Some(false);
        };
        if !connection.open {
            return Some(true);
        }
        let mut label = Label {
            source: batch.source,
            target: batch.target,
            ecn: batch.ecn,
            may_fragment: batch.may_fragment,
            lane: batch.lane,
            tag: batch.first_tag,
        };
        let used = connection.is_in_use();
        let (ends, outbox, buffer) = (&self.ends, &mut self.outbox, &mut self.buffer);
        for packet in batch.segments() {
            let came = connection.seal(ends, now, packet, buffer, |record| outbox.push(label, record));
            label.tag += u64::from(label.tag != 0);
            if came.ended.is_some() {
                self.after(now, false, key, came);
                return None;
            }
        }
        if used != connection.is_in_use() {
            self.list(false, key);
        }
        None
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

    /// A datagram has come.
    fn receive(
        &mut self,
        now: Instant,
        (source, target, ecn, tag): (SocketAddr, SocketAddr, Ecn, u64),
        datagram: &[u8],
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
                    self.call(now, true, (target, source), Some(&hello.second()), mark);
                    return;
                }
                Heard::Unproven => self.admit(now, key, mtu),
            }
        } else if serves && is_client_hello(datagram) {
            self.admit(now, key, mtu);
        }
        // One of the two does not know what to do with it, and leaves it.
        if self.half_open.contains_key(&key) {
            self.call(now, true, (target, source), Some(datagram), mark);
        }
        if known.is_some() && is_dtls(datagram) {
            self.call(now, false, (target, source), Some(datagram), mark);
        }
    }

    /// Answers a hello that has no cookie yet, or begins a handshake with one that has.
    fn answer(
        &mut self,
        now: Instant,
        (source, target): (SocketAddr, SocketAddr),
        hello: &Hello<'_>,
        mtu: usize,
    ) -> Heard {
        let (key, ends) = ((target.ip(), source), self.ends.clone());
        let Some(secret) = &self.secret else { return Heard::Done };
        let label = Label::own(target, source);
        let (newer, given) = match hello.answer(&ends.spoken) {
            Answer::Nothing => {
                self.outbox.push(label, &NO_COMMON);
                return Heard::Done;
            }
            Answer::More => return Heard::Unproven,
            Answer::Ask(newer) => (newer, None),
            Answer::Look(newer, cookie) => (newer, Some(cookie)),
        };
        let is_good = |cookie: &Cookie, padded: bool| {
            let lasting = hello.lasting(newer, &order(cookie), padded);
            secret.is_good(now, key, &lasting, cookie).then_some((*cookie, padded))
        };
        let good = given.as_ref().and_then(|cookie| is_good(cookie, false).or_else(|| is_good(cookie, true)));
        let Some((cookie, padded)) = good else {
            // RFC 6347 §4.2.1: a client with a cookie of no use is asked again; in DTLS 1.3 it cannot be (RFC 8446 §4.1.4).
            if given.is_none() || !newer {
                let order = hello.order().unwrap_or_default();
                let cookie = secret.make(now, key, order, &hello.lasting(newer, &order, false));
                let asked = hello.ask(newer, &ends.spoken, &cookie).unwrap_or_default();
                self.outbox.push(label, &asked);
            }
            return Heard::Done;
        };
        let is_this = |connection: &Connection| connection.cookie == Some(cookie);
        if self.half_open.get(&key).is_some_and(|(_, connection)| is_this(connection)) {
            return Heard::Again;
        }
        if self.open.get(&key).is_some_and(is_this) {
            return Heard::Done;
        }
        let asked = hello.ask(newer, &ends.spoken, &cookie).unwrap_or_default();
        let before = (cookie, &hello.first(newer, &order(&cookie), padded)[..], &asked[..]);
        match Connection::enter(&ends, mtu, now, before, &mut self.buffer) {
            Ok(connection) => {
                self.remove(true, key);
                if self.order[1].len() >= MAX_HALF_OPEN {
                    self.thin_out();
                }
                self.begun += 1;
                self.order[1].insert(self.begun, key);
                self.half_open.insert(key, (self.begun, connection));
                Heard::Begun
            }
            Err(_) => Heard::Done,
        }
    }

    /// Gives up the oldest handshake of the client, by its address, that has most under way.
    fn thin_out(&mut self) {
        let mut many: BTreeMap<IpAddr, (usize, std::cmp::Reverse<u64>)> = BTreeMap::new();
        for (number, key) in self.order[1].iter().rev() {
            let of_it = many.entry(key.1.ip()).or_insert((0, std::cmp::Reverse(*number)));
            *of_it = (of_it.0 + 1, std::cmp::Reverse(*number));
        }
        if let Some((_, std::cmp::Reverse(number))) = many.into_values().max()
            && let Some(key) = self.order[1].get(&number).copied()
        {
            self.remove(true, key);
        }
    }

    /// Begins a handshake as a server with a hello that came without a cookie; the oldest such gives way where there are too many.
    fn admit(&mut self, now: Instant, key: Key, mtu: usize) {
        if self.half_open.contains_key(&key) {
            return;
        }
        if self.order[0].len() >= MAX_UNPROVEN
            && let Some(oldest) = self.order[0].first_key_value().map(|(_, key)| *key)
        {
            self.remove(true, oldest);
        }
        if let Ok(connection) = Connection::begin(&self.ends, false, "", mtu, now) {
            self.begun += 1;
            self.order[0].insert(self.begun, key);
            self.half_open.insert(key, (self.begun, connection));
        }
    }

    /// Has a connection take a datagram, or see that time has passed.
    fn call(
        &mut self,
        now: Instant,
        half: bool,
        (local, peer): (SocketAddr, SocketAddr),
        datagram: Option<&[u8]>,
        (ecn, tag): (Ecn, u64),
    ) {
        let key = (local.ip(), peer);
        let connection = match half {
            true => self.half_open.get_mut(&key).map(|(_, connection)| connection),
            false => self.open.get_mut(&key),
        };
        let Some(connection) = connection else { return };
        let (ends, outbox, buffer) = (&self.ends, &mut self.outbox, &mut self.buffer);
        let before = self.inbound.len();
        let inbound = &mut self.inbound;
        let send = |record: &[u8]| outbox.push(Label::own(local, peer), record);
        let deliver = |packet: &[u8]| {
            if !packet.is_empty() && inbound.len() < MAX_INBOUND {
                inbound.push_back(Inbound { source: peer, target: local, ecn, tag, bytes: packet.to_vec() });
            }
        };
        let came = connection.receive(ends, now, datagram, buffer, send, deliver);
        for packet in self.inbound.iter().skip(before) {
            connection.note(&packet.bytes, false, now);
        }
        self.after(now, half, key, came);
    }

    /// What follows from a call.
    fn after(&mut self, now: Instant, half: bool, key: Key, came: Came) {
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
                self.make_room(now);
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
    fn make_room(&mut self, now: Instant) {
        if self.open.len() < MAX_OPEN {
            return;
        }
        let unused = self.open.iter().filter(|(_, connection)| !connection.is_in_use());
        let oldest = unused.min_by_key(|(_, connection)| connection.expires()).map(|(key, _)| *key);
        let first = oldest.or_else(|| self.open.keys().next().copied());
        if let Some(key) = first {
            self.end(now, key);
            self.changes.push_back((key.1, PeerState::Lost));
        }
    }

    /// Says goodbye on a connection, and forgets it.
    fn end(&mut self, now: Instant, key: Key) {
        if let Some(mut connection) = self.remove(false, key) {
            let outbox = &mut self.outbox;
            let label = Label::own(SocketAddr::new(key.0, self.port), key.1);
            connection.close(&self.ends, now, &mut self.buffer, |record| outbox.push(label, record));
        }
    }

    /// Takes a connection out, with what is due of it.
    fn remove(&mut self, half: bool, key: Key) -> Option<Connection> {
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
        let deadline = connection.deadline();
        // A later deadline is found when the earlier one has come: use puts it off with each packet.
        let moved = match (connection.listed, deadline) {
            (Some(listed), Some(at)) => at < listed,
            (listed, deadline) => listed != deadline,
        };
        if moved {
            if let Some(at) = std::mem::replace(&mut connection.listed, deadline) {
                self.due.remove(&(at, half, key));
            }
            self.due.extend(deadline.map(|at| (at, half, key)));
        }
    }

    /// Looks at what is due.
    fn expire(&mut self, now: Instant) {
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
                self.end(now, key);
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
    fn unreachable(&mut self, now: Instant, (local, peer): (IpAddr, IpAddr), quoted: &[u8]) {
        let is_quoted = |connection: &Connection| {
            let known = connection.flight.len().min(quoted.len());
            known >= MIN_QUOTE && connection.flight[..known] == quoted[..known]
        };
        let of_them = |(key, connection): &(&Key, &Connection)| {
            key.0 == local
                && key.1.ip() == peer
                && connection.client
                && !connection.open
                && is_quoted(connection)
        };
        if let Some((key, _)) = self.open.iter().find(of_them) {
            let key = *key;
            let came = Came { ended: Some(CloseReason::Refused), ..Came::default() };
            self.after(now, false, key, came);
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
    fn deliver(&mut self, batch: &mut RecvBatch) -> bool {
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
}

/// Whether a datagram may be of DTLS at all (RFC 7983 §7; RFC 9147 §4.1).
fn is_dtls(datagram: &[u8]) -> bool {
    matches!(datagram.first(), Some(20..=63))
}

/// Whether a datagram begins with a ClientHello in the clear, or with the first piece of one (RFC 6347 §4.2.2).
pub(crate) fn is_client_hello(datagram: &[u8]) -> bool {
    /// A record's header and a message's.
    const HEADERS: usize = 13 + 12;
    let Some(head) = datagram.first_chunk::<HEADERS>() else { return false };
    let length = usize::from(u16::from_be_bytes([head[11], head[12]]));
    // Handshake, of some version of DTLS, epoch 0; ClientHello, from its first byte.
    head[0] == 22
        && head[1] == 0xfe
        && head[3..5] == [0, 0]
        && length + 13 <= datagram.len()
        && head[13] == 1
        && head[19..22] == [0, 0, 0]
}

/// The first byte of an INIT chunk (RFC 9260 §3.2).
const INIT: u8 = 1;

/// What became of a hello.
enum Heard {
    /// It is answered, or of no use.
    Done,
    /// It belongs to a handshake under way.
    Again,
    /// It has begun a handshake.
    Begun,
    /// It cannot be answered without a state of its own.
    Unproven,
}

/// An alert: handshake_failure (RFC 8446 §6.2), as nothing is spoken by both.
const NO_COMMON: [u8; 15] = [21, 0xfe, 0xfd, 0, 0, 0, 0, 0, 0, 0, 0, 0, 2, 2, 40];

/// Handshakes that a server may have under way with clients that are where they say; some tens of kilobytes each.
const MAX_HALF_OPEN: usize = 512;
/// Hellos without a cookie that may be kept; some kilobytes each.
const MAX_UNPROVEN: usize = 64;
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
/// What most interfaces take.
const USUAL_MTU: u32 = 1_500;
/// A datagram of a handshake may be so small, whatever the interface says.
const MIN_DATAGRAM: u32 = 256;
