//! The host's SCTP instance: local ports, listeners, associations, the five verbs.
//!
//! Home of RFC 9260 §11.1 (what the application may ask).

mod addresses;
mod checksum;
pub(crate) mod cookie;
mod demux;
mod encap;
mod keys;
mod listen;
mod spent;
mod stray;
mod tuning;

use crate::association::auth::keys::SharedKeys;
use crate::association::inbound::Arrived;
use crate::association::negotiate::is_unicast;
use crate::association::state::Init;
use crate::association::{Association, Ctx, LastWords, Local, Start, State, Trace, path_to};
use crate::config::{Config, SchedulerKind};
use crate::error::{
    AssociateError, ListenError, PrimaryError, RecvError, ResetError, SchedulerError, SendError,
};
use crate::event::{Direction, Event};
use crate::path::MOST;
use crate::reliability::{Abandoned, Policy, Reliability};
use crate::stats::{AssociationInfo, AssociationStats, PathChange, Totals};
use anabranch_base::trace::TraceRecord;
use anabranch_base::{Batch, Engine, Icmp, Instant, Packet, Rng};
use anabranch_wire::sctp::{self as wire, Chunk, Chunks, CookieEcho, PacketView, RawChunk};
use anabranch_wire::sctp::{Auth, Data};
use cookie::Sealer;
use demux::{Demux, Pair};
use spent::Spent;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Names an association of one endpoint; never used again after it has ended.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct AssociationId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// What to ask of a new association (RFC 9260 §11.1.2).
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Associate {
    /// Known addresses of the peer, the first becomes the primary path. The
    /// port is the UDP encapsulation port (RFC 6951), 0 for none.
    pub peer: Vec<SocketAddr>,
    /// The peer's SCTP port.
    pub peer_port: u16,
    /// The local SCTP port; `None` takes a free ephemeral one.
    pub local_port: Option<u16>,
    /// Streams to ask for in both directions; `None` takes the configuration's.
    pub streams: Option<u16>,
}

impl Associate {
    /// An association with `peer_port` at one address, the rest by default.
    #[must_use]
    pub fn to(peer: SocketAddr, peer_port: u16) -> Self {
        Self { peer: vec![peer], peer_port, local_port: None, streams: None }
    }
}

/// How a message is to be sent (RFC 9260 §11.1.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Message {
    /// The stream.
    pub stream: u16,
    /// Payload protocol identifier, passed through to the peer.
    pub ppid: u32,
    /// Deliver without regard to the order of the stream.
    pub unordered: bool,
    /// Ask the peer to acknowledge at once (RFC 7053).
    pub immediate: bool,
    /// How far it is to be delivered (RFC 3758).
    pub reliability: Reliability,
    /// Comes back with `Event::Abandoned`, for the application's use.
    pub context: u32,
}

/// What a `recv` has put into the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Received {
    /// Bytes written to the buffer (at least 1, unless the buffer is empty or the message is incomplete).
    pub bytes: usize,
    /// Payload protocol identifier of the message.
    pub ppid: u32,
    /// The message ends here.
    pub end_of_message: bool,
    /// It ends here because the peer has given it up (RFC 3758): what was read
    /// of it before is all there will be. `bytes` is 0 then.
    pub incomplete: bool,
    /// It was sent unordered.
    pub unordered: bool,
}

/// A host's SCTP instance (see the crate's documentation).
#[derive(Debug)]
pub struct Endpoint {
    config: Arc<Config>,
    addresses: Vec<SocketAddr>,
    locals: Vec<Local>,
    rng: Rng,
    sealer: Sealer,
    /// Endpoint pair shared keys that new associations begin with.
    keys: SharedKeys,
    spent: Spent,
    listeners: BTreeSet<u16>,
    /// Listening ports with settings of their own.
    tuned: BTreeMap<u16, Arc<Config>>,
    /// Local ports with the number of associations on them.
    ports: BTreeMap<u16, u32>,
    next_port: u16,
    slots: Vec<Slot>,
    free: Vec<u32>,
    demux: Demux,
    /// Associations that may have something to send.
    ready: VecDeque<u32>,
    /// Deadlines, some of them outdated: a slot knows which one counts.
    deadlines: BinaryHeap<Reverse<(Instant, u32)>>,
    events: VecDeque<Event>,
    last_words: VecDeque<LastWords>,
    trace: Trace,
    next_tag: u64,
    totals: Totals,
    path_changes: Vec<PathChange>,
    /// The buffer of the packet that is handled can be had, and the association that takes it.
    lends: bool,
    lender: Option<u32>,
}

/// A place for an association.
#[derive(Debug)]
struct Slot {
    generation: u32,
    association: Option<Box<Association>>,
    /// It is in `ready`.
    queued: bool,
    /// The deadline in the heap that counts.
    armed: Instant,
    /// What the demultiplexer knows of it.
    tag: Option<u32>,
    pairs: Vec<Pair>,
    /// The count of address changes that `pairs` takes account of.
    changes: u32,
}

/// RFC 6335 §6: dynamic ports.
const EPHEMERAL: u16 = 49_152;

impl Endpoint {
    /// An endpoint on `addresses` (ports: the UDP encapsulation port, or 0).
    /// All randomness comes from `rng`.
    #[must_use]
    pub fn new(config: Config, addresses: Vec<SocketAddr>, rng: Rng) -> Self {
        let locals = addresses.iter().map(|&address| Local { address, mtu: 1500 }).collect();
        let sealer = Sealer::new(rng.fork("cookie"), config.cookie_life);
        let mut rng = rng.fork("endpoint");
        let next_port = EPHEMERAL + rng.below(u64::from(u16::MAX - EPHEMERAL)) as u16;
        Self {
            config: Arc::new(config),
            addresses,
            locals,
            rng,
            sealer,
            keys: SharedKeys::default(),
            spent: Spent::default(),
            listeners: BTreeSet::new(),
            tuned: BTreeMap::new(),
            ports: BTreeMap::new(),
            next_port,
            slots: Vec::new(),
            free: Vec::new(),
            demux: Demux::default(),
            ready: VecDeque::new(),
            deadlines: BinaryHeap::new(),
            events: VecDeque::new(),
            last_words: VecDeque::new(),
            trace: Trace::default(),
            next_tag: 1,
            totals: Totals::default(),
            path_changes: Vec::new(),
            lends: false,
            lender: None,
        }
    }

    /// Tells the largest IP packet that the interface of a local address takes
    /// (1500 until told; 65,535 at most). Counts for associations that begin
    /// later.
    pub fn set_mtu(&mut self, address: IpAddr, mtu: u32) {
        let mtu = addresses::largest_mtu(mtu);
        for local in &mut self.locals {
            if local.address.ip() == address {
                local.mtu = mtu;
            }
        }
    }

    /// The configuration.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The local addresses.
    #[must_use]
    pub fn addresses(&self) -> &[SocketAddr] {
        &self.addresses
    }

    /// Accepts associations on `port`: each becomes an `Event::Accepted`.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen(&mut self, port: u16) -> Result<(), ListenError> {
        if port == 0 {
            return Err(ListenError::PortZero);
        }
        if self.listeners.insert(port) { Ok(()) } else { Err(ListenError::InUse) }
    }

    /// Accepts no more associations on `port`; the present ones go on.
    pub fn close_listener(&mut self, port: u16) {
        self.listeners.remove(&port);
        self.tuned.remove(&port);
    }

    /// Begins an association. `Event::Established` or `Event::Closed` follows.
    /// Messages can be sent at once: they wait for the handshake. Those on
    /// streams that the peer does not grant then are dropped.
    ///
    /// # Errors
    /// [`AssociateError`].
    pub fn associate(&mut self, now: Instant, ask: Associate) -> Result<AssociationId, AssociateError> {
        self.associate_as(now, ask, self.config.clone())
    }

    fn associate_as(
        &mut self,
        now: Instant,
        ask: Associate,
        config: Arc<Config>,
    ) -> Result<AssociationId, AssociateError> {
        let streams = ask.streams.unwrap_or(config.streams);
        if ask.peer.is_empty() {
            return Err(AssociateError::NoPeer);
        }
        if ask.peer_port == 0 || ask.local_port == Some(0) {
            return Err(AssociateError::PortZero);
        }
        if streams == 0 {
            return Err(AssociateError::NoStreams);
        }
        let local_port = self.local_port_for(&ask)?;
        let (ctx, _) = self.context(now);
        let mut paths = Vec::new();
        for (turn, &address) in ask.peer.iter().enumerate().take(MOST) {
            let known = paths.iter().any(|path: &crate::path::Path| path.address.ip() == address.ip());
            if let Some(mut path) = path_to(&config, &ctx, address, turn).filter(|_| !known) {
                // RFC 9260 §5.4: what the application names is known to be the peer's.
                path.confirmed = true;
                paths.push(path);
            }
        }
        if paths.is_empty() {
            return Err(AssociateError::NoRoute);
        }
        let local_tag = self.new_tag();
        let initial_tsn = self.rng.next_u32();
        let auth = self.new_auth(&config);
        let slot = self.new_slot();
        let id = self.id_of(slot);
        let start = Start {
            id,
            config,
            local_port,
            peer_port: ask.peer_port,
            local_tag,
            initial_tsn,
            streams,
            paths,
            rng: self.rng.fork(&format!("association/{}/{}", id.slot, id.generation)),
            initiator: true,
            state: State::CookieWait(Init::default()),
            auth,
        };
        self.slots[slot as usize].association = Some(Box::new(Association::new(start, now)));
        self.with(now, slot, |association, ctx| association.begin(ctx));
        Ok(id)
    }

    /// The local port that is asked for, or a free one.
    fn local_port_for(&mut self, ask: &Associate) -> Result<u16, AssociateError> {
        let taken = |port: u16| {
            ask.peer.iter().any(|peer| {
                let pair = Pair { peer: peer.ip(), peer_port: ask.peer_port, local_port: port };
                self.demux.by_pair(pair).is_some()
            })
        };
        if let Some(port) = ask.local_port {
            return if taken(port) { Err(AssociateError::Exists) } else { Ok(port) };
        }
        for _ in EPHEMERAL..=u16::MAX {
            let port = self.next_port;
            self.next_port = if port == u16::MAX { EPHEMERAL } else { port + 1 };
            if !self.ports.contains_key(&port) && !self.listeners.contains(&port) {
                return Ok(port);
            }
        }
        Err(AssociateError::NoPort)
    }

    /// Takes one whole message into the send buffer.
    ///
    /// # Errors
    /// [`SendError`]; the message was not taken.
    pub fn send(
        &mut self,
        now: Instant,
        id: AssociationId,
        message: Message,
        payload: &[u8],
    ) -> Result<(), SendError> {
        let Some(slot) = self.find(id) else {
            return Err(if self.is_past(id) { SendError::Closing } else { SendError::Unknown });
        };
        self.with(now, slot, |association, _| association.send(now, message, payload))
            .unwrap_or(Err(SendError::Unknown))
    }

    /// How many messages were given up: on one stream or on all, by one policy
    /// or by any (RFC 7496 §4.3, §4.4). `None` when there is no such association.
    #[must_use]
    pub fn abandoned(
        &self,
        id: AssociationId,
        stream: Option<u16>,
        policy: Option<Policy>,
    ) -> Option<Abandoned> {
        self.association(id).map(|association| association.abandoned(stream, policy))
    }

    /// Reads from a stream: at most the rest of one message a call. `None`
    /// when there is nothing now.
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
        let Some(slot) = self.find(id) else {
            return Err(if self.is_past(id) { RecvError::Closed } else { RecvError::Unknown });
        };
        let Some(association) = &mut self.slots[slot as usize].association else {
            return Err(RecvError::Unknown);
        };
        let received = association.recv(stream, buffer);
        let closed = matches!(association.state, State::Closed);
        if closed || association.recv.sack_due() {
            self.settle(now, slot);
        }
        if closed && received.is_none() { Err(RecvError::Closed) } else { Ok(received) }
    }

    /// Reads from a stream as from a sequence of bytes: goes on over the ends of
    /// messages until the buffer is full or nothing is left. Of messages whose
    /// payload protocol identifier is not `wanted` nothing is returned. Tells how
    /// many bytes were read, and whether nothing is left; that counts as a
    /// [`recv`](Self::recv) that has returned `None`.
    ///
    /// # Errors
    /// [`RecvError`], when there are no bytes.
    #[inline]
    pub fn recv_bytes(
        &mut self,
        now: Instant,
        id: AssociationId,
        stream: u16,
        buffer: &mut [u8],
        wanted: impl Fn(u32) -> bool,
    ) -> Result<(usize, bool), RecvError> {
        let Some(slot) = self.find(id) else {
            return Err(if self.is_past(id) { RecvError::Closed } else { RecvError::Unknown });
        };
        let Some(association) = &mut self.slots[slot as usize].association else {
            return Err(RecvError::Unknown);
        };
        let (bytes, dry) = association.recv_bytes(stream, buffer, wanted);
        let closed = matches!(association.state, State::Closed);
        if closed || association.recv.sack_due() {
            self.settle(now, slot);
        }
        if closed && bytes == 0 { Err(RecvError::Closed) } else { Ok((bytes, dry)) }
    }

    /// Closes gracefully: what was sent is delivered first. `Event::Closed`
    /// follows; when everything has been read the association is forgotten
    /// (or with [`release`](Self::release)).
    pub fn shutdown(&mut self, now: Instant, id: AssociationId) {
        if let Some(slot) = self.find(id) {
            self.with(now, slot, |association, ctx| association.shutdown(ctx));
        }
    }

    /// Closes at once with an ABORT. `Event::Closed` follows.
    pub fn abort(&mut self, now: Instant, id: AssociationId) {
        if let Some(slot) = self.find(id) {
            self.with(now, slot, |association, ctx| association.abort(ctx));
        }
    }

    /// Forgets an ended association together with what was not read of it
    /// (aborts it if it has not ended).
    pub fn release(&mut self, now: Instant, id: AssociationId) {
        if let Some(slot) = self.find(id) {
            self.with(now, slot, |association, ctx| association.abort(ctx));
            if self.slots[slot as usize].association.is_some() {
                self.forget(slot);
            }
        }
    }

    /// Room in the send buffer, bytes.
    #[must_use]
    pub fn writable_bytes(&self, id: AssociationId) -> usize {
        self.association(id).map_or(0, |association| association.send.queue.writable_bytes() as usize)
    }

    /// The largest message that is not fragmented, bytes.
    #[must_use]
    pub fn fragment_size(&self, id: AssociationId) -> usize {
        self.association(id).map_or(0, |association| association.largest as usize)
    }

    /// A large message does not hold up those of other streams: both ends know
    /// I-DATA (RFC 8260). False until the peer has said so.
    #[must_use]
    pub fn interleaves(&self, id: AssociationId) -> bool {
        self.association(id).is_some_and(|association| association.extensions.interleaving)
    }

    /// Bytes of `stream` that a `recv` would return now.
    #[must_use]
    pub fn readable_bytes(&self, id: AssociationId, stream: u16) -> usize {
        self.association(id).map_or(0, |association| association.recv.readable_bytes(stream))
    }

    /// Makes the path with this index the primary (RFC 9260 §11.1.3).
    ///
    /// # Errors
    /// [`PrimaryError`].
    pub fn set_primary(&mut self, now: Instant, id: AssociationId, path: usize) -> Result<(), PrimaryError> {
        let slot = self.find(id).ok_or(PrimaryError::Unknown)?;
        self.with(now, slot, |association, _| association.set_primary(path))
            .unwrap_or(Err(PrimaryError::Unknown))
    }

    /// Lets `streams` (none: all) begin anew: their next ordered message has
    /// number 0. What was given to `send` before goes out first; what is given
    /// from now on waits until the peer has agreed. `Event::StreamsReset` or
    /// `Event::ResetFailed` follows, one a direction, several for long lists
    /// (RFC 6525 §6.3.2).
    ///
    /// # Errors
    /// [`ResetError`]; nothing was asked.
    pub fn reset_streams(
        &mut self,
        now: Instant,
        id: AssociationId,
        direction: Direction,
        streams: &[u16],
    ) -> Result<(), ResetError> {
        self.reconfigure(now, id, |association| association.reset_streams(direction, streams))
    }

    /// Gives up everything on `stream` that is not acknowledged: what has not been sent is dropped,
    /// what has is abandoned where both sides support partial reliability (RFC 3758), else finished.
    /// `Event::Abandoned` tells of each message. With [`reset_streams`](Self::reset_streams) behind
    /// it the stream can be used anew, as if nothing had been on it.
    pub fn cancel(&mut self, now: Instant, id: AssociationId, stream: u16) {
        let Some(slot) = self.find(id) else { return };
        self.with(now, slot, |association, _| association.cancel(stream));
    }

    /// Lets all TSNs and SSNs of both sides begin anew, once everything sent
    /// is acknowledged. `Event::AssociationReset` or `Event::ResetFailed`
    /// follows (RFC 6525 §6.3.3). Once in 30 s.
    ///
    /// # Errors
    /// [`ResetError`]; nothing was asked.
    pub fn reset_association(&mut self, now: Instant, id: AssociationId) -> Result<(), ResetError> {
        self.reconfigure(now, id, |association| association.reset_association(now))
    }

    /// Asks for more streams: to send on, and for the peer to send on.
    /// `Event::StreamsAdded` or `Event::AddFailed` follows for each (RFC 6525 §6.3.4).
    ///
    /// # Errors
    /// [`ResetError`]; nothing was asked.
    pub fn add_streams(
        &mut self,
        now: Instant,
        id: AssociationId,
        outgoing: u16,
        incoming: u16,
    ) -> Result<(), ResetError> {
        self.reconfigure(now, id, |association| association.add_streams(outgoing, incoming))
    }

    fn reconfigure(
        &mut self,
        now: Instant,
        id: AssociationId,
        ask: impl FnOnce(&mut Association) -> Result<(), ResetError>,
    ) -> Result<(), ResetError> {
        let Some(slot) = self.find(id) else {
            return Err(if self.is_past(id) { ResetError::Closing } else { ResetError::Unknown });
        };
        self.with(now, slot, |association, _| ask(association)).unwrap_or(Err(ResetError::Unknown))
    }

    /// Changes the order in which streams with something to send take turns
    /// (RFC 8260 §4.3.2): from the next message on, or from the next chunk on
    /// with interleaving. The configuration says how an association begins.
    ///
    /// # Errors
    /// [`SchedulerError`].
    pub fn set_scheduler(
        &mut self,
        now: Instant,
        id: AssociationId,
        kind: SchedulerKind,
    ) -> Result<(), SchedulerError> {
        let slot = self.find(id).ok_or(SchedulerError::Unknown)?;
        let set = self.with(now, slot, |association, _| association.send.queue.set_scheduler(kind));
        set.ok_or(SchedulerError::Unknown)
    }

    /// A stream's priority (0 goes first) or its weight (0 counts as 1), for
    /// the schedulers that know one (RFC 8260 §4.3.3). It is kept when the
    /// scheduler changes.
    ///
    /// # Errors
    /// [`SchedulerError`].
    pub fn set_stream_value(
        &mut self,
        now: Instant,
        id: AssociationId,
        stream: u16,
        value: u16,
    ) -> Result<(), SchedulerError> {
        let slot = self.find(id).ok_or(SchedulerError::Unknown)?;
        self.with(now, slot, |association, _| association.set_stream_value(stream, value))
            .unwrap_or(Err(SchedulerError::Unknown))
    }

    /// The association as it stands.
    #[must_use]
    pub fn info(&self, id: AssociationId) -> Option<AssociationInfo> {
        self.association(id).map(Association::info)
    }

    /// How many associations there are, in whatever state.
    #[must_use]
    pub fn associations(&self) -> usize {
        self.slots.iter().filter(|slot| slot.association.is_some()).count()
    }

    /// What the association has done.
    #[must_use]
    pub fn stats(&self, id: AssociationId) -> Option<AssociationStats> {
        self.association(id).map(Association::stats)
    }

    /// What all associations have done, ended ones included.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let mut totals = self.totals.clone();
        for association in self.slots.iter().filter_map(|slot| slot.association.as_ref()) {
            totals.sum.add(&association.stats());
        }
        totals.path_changes = self.path_changes.clone();
        totals
    }

    /// The `connection` of this association's trace records: the initiator's port.
    #[must_use]
    pub fn trace_key(&self, id: AssociationId) -> Option<u64> {
        self.association(id).map(Association::trace_key)
    }

    // Slots.

    fn id_of(&self, slot: u32) -> AssociationId {
        AssociationId { slot, generation: self.slots[slot as usize].generation }
    }

    fn find(&self, id: AssociationId) -> Option<u32> {
        let slot = self.slots.get(id.slot as usize)?;
        (slot.generation == id.generation && slot.association.is_some()).then_some(id.slot)
    }

    /// It was an association once.
    fn is_past(&self, id: AssociationId) -> bool {
        self.slots
            .get(id.slot as usize)
            .is_some_and(|slot| slot.generation.wrapping_sub(id.generation) < 1 << 31)
    }

    fn association(&self, id: AssociationId) -> Option<&Association> {
        self.find(id).and_then(|slot| self.slots[slot as usize].association.as_deref())
    }

    /// The association in a slot that has not ended.
    fn alive(&self, slot: u32) -> Option<&Association> {
        let association = self.slots.get(slot as usize)?.association.as_deref()?;
        (!matches!(association.state, State::Closed)).then_some(association)
    }

    fn new_slot(&mut self) -> u32 {
        if let Some(slot) = self.free.pop() {
            return slot;
        }
        self.slots.push(Slot {
            generation: 0,
            association: None,
            queued: false,
            armed: Instant::MAX,
            tag: None,
            pairs: Vec::new(),
            changes: 0,
        });
        (self.slots.len() - 1) as u32
    }

    /// RFC 9260 §5.3.1: random, not 0, and nobody else's.
    fn new_tag(&mut self) -> u32 {
        loop {
            let tag = self.rng.next_u32();
            if tag != 0 && !self.demux.has_tag(tag) {
                return tag;
            }
        }
    }

    /// What an association borrows for a call, and the slots beside it.
    fn context(&mut self, now: Instant) -> (Ctx<'_>, &mut Vec<Slot>) {
        let ctx = Ctx {
            now,
            locals: &self.locals,
            events: &mut self.events,
            trace: &mut self.trace,
            path_changes: &mut self.path_changes,
            last_words: &mut self.last_words,
        };
        (ctx, &mut self.slots)
    }

    /// Lets an association change, then takes note of what follows.
    fn with<R>(
        &mut self,
        now: Instant,
        slot: u32,
        change: impl FnOnce(&mut Association, &mut Ctx<'_>) -> R,
    ) -> Option<R> {
        let (mut ctx, slots) = self.context(now);
        let association = slots.get_mut(slot as usize)?.association.as_deref_mut()?;
        let was_established = association.stats.established.is_some();
        let result = change(association, &mut ctx);
        association.give_up_due(&mut ctx);
        if !was_established && association.stats.established.is_some() {
            self.totals.associations += 1;
        }
        self.settle(now, slot);
        Some(result)
    }

    /// Keeps what is derived from an association in step with it: its place in
    /// the demultiplexer, its deadline, its turn to send.
    #[inline]
    fn settle(&mut self, now: Instant, slot: u32) {
        let Some(place) = self.slots.get_mut(slot as usize) else {
            return;
        };
        let Some(association) = &mut place.association else {
            return;
        };
        if matches!(association.state, State::Closed) {
            self.retire(now, slot);
            return;
        }
        let moved = place.tag != Some(association.local_tag) || place.changes != association.paths.changes();
        let next = association.timeout_before(place.armed);
        if !place.queued {
            place.queued = true;
            self.ready.push_back(slot);
        }
        if moved {
            self.index(slot);
        }
        if let Some(next) = next {
            self.arm_at(slot, next);
        }
    }

    #[inline]
    fn arm(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        let Some(association) = &mut place.association else {
            return;
        };
        // A later deadline is found out when the earlier one comes.
        if let Some(next) = association.timeout_before(place.armed) {
            self.arm_at(slot, next);
        }
    }

    /// Rare: most packets only move deadlines further away.
    #[cold]
    fn arm_at(&mut self, slot: u32, next: Instant) {
        self.slots[slot as usize].armed = next;
        self.deadlines.push(Reverse((next, slot)));
    }

    /// Enters tag, addresses and port of an association.
    #[cold]
    fn index(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        let Some(association) = &place.association else {
            return;
        };
        if place.tag != Some(association.local_tag) {
            if let Some(old) = place.tag.replace(association.local_tag) {
                self.demux.remove_tag(old);
            } else {
                *self.ports.entry(association.local_port).or_insert(0) += 1;
            }
            self.demux.add_tag(association.local_tag, slot);
        }
        let (peer_port, local_port) = (association.peer_port, association.local_port);
        if place.changes == association.paths.changes() {
            return;
        }
        place.changes = association.paths.changes();
        let present = association.paths.iter().filter(|path| !path.removed);
        let pairs: Vec<_> =
            present.map(|path| Pair { peer: path.address.ip(), peer_port, local_port }).collect();
        for &pair in place.pairs.iter().filter(|pair| !pairs.contains(pair)) {
            self.demux.remove_pair(pair, slot);
        }
        for &pair in &pairs {
            self.demux.add_pair(pair, slot);
        }
        place.pairs = pairs;
    }

    /// An association has ended: nobody finds it any more. It is forgotten
    /// when everything has been read.
    #[cold]
    fn retire(&mut self, now: Instant, slot: u32) {
        let place = &mut self.slots[slot as usize];
        if let Some(tag) = place.tag.take() {
            self.demux.remove_tag(tag);
            if place.association.as_ref().is_some_and(|association| !association.initiator) {
                self.spent.add(now, self.config.cookie_life + listen::MOST_PRESERVED, tag);
            }
            if let Some(association) = &place.association
                && let Some(count) = self.ports.get_mut(&association.local_port)
            {
                *count -= 1;
                if *count == 0 {
                    self.ports.remove(&association.local_port);
                }
            }
        }
        place.changes = 0;
        for pair in std::mem::take(&mut place.pairs) {
            self.demux.remove_pair(pair, slot);
        }
        if place.association.as_ref().is_some_and(|association| !association.recv.has_unread()) {
            self.forget(slot);
        }
    }

    fn forget(&mut self, slot: u32) {
        let place = &mut self.slots[slot as usize];
        if let Some(association) = place.association.take() {
            self.totals.sum.add(&association.stats());
        }
        place.generation = place.generation.wrapping_add(1);
        place.armed = Instant::MAX;
        self.free.push(slot);
    }

    /// A packet for the association in `slot`, its tag checked.
    #[inline]
    fn on_own_tag(
        &mut self,
        now: Instant,
        slot: u32,
        packet: &Packet<'_>,
        view: &PacketView<'_>,
        first: RawChunk<'_>,
        rest: Chunks<'_>,
    ) {
        // Only what is a whole message (B and E set) lies in this packet from end to end.
        let whole = first.kind == Data::KIND && first.flags & 3 == 3 && rest.is_empty();
        let lends = self.lends && whole;
        let (mut ctx, slots) = self.context(now);
        let Some(association) = slots.get_mut(slot as usize).and_then(|slot| slot.association.as_deref_mut())
        else {
            return;
        };
        let header = view.header;
        let known = association.paths.find(packet.source.ip());
        let known = known.or_else(|| association.path_of_init_ack(view.chunks()));
        let stranger = known.is_none();
        // RFC 5061 §5.2 D2: an ASCONF may come from an address that is only now becoming the peer's.
        let known = known.or_else(|| association.path_of_asconf(view.chunks()));
        let ports =
            association.local_port == header.target_port && association.peer_port == header.source_port;
        let Some(path) = known.filter(|_| ports) else {
            self.totals.discarded += 1;
            return;
        };
        let (mut first, mut rest) = (first, rest);
        if stranger {
            // Of such a packet only what is authenticated counts.
            while first.kind != Auth::KIND
                && let Some(Ok(next)) = rest.next_raw()
            {
                first = next;
            }
        }
        encap::follow_port(association, path, packet.source);
        let was_established = association.stats.established.is_some();
        let arrived = Arrived {
            path,
            source: packet.source,
            ecn: packet.ecn,
            tag: packet.tag,
            bytes: packet.payload.len(),
            authenticated: false,
        };
        // RFC 9260 §8.5.1 B, C: with our own tag the T bit must not be set.
        association.recv.offer(lends);
        association.handle_packet(&mut ctx, Some(first), rest, &arrived);
        association.recv.offer(false);
        let lent = association.recv.is_lent();
        association.give_up_due(&mut ctx);
        if !was_established && association.stats.established.is_some() {
            self.totals.associations += 1;
        }
        if lent {
            self.lender = Some(slot);
        }
        self.settle(now, slot);
    }
}

impl Engine for Endpoint {
    type Event = Event;

    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>) {
        // RFC 9260 §6.8: a packet with a wrong checksum never was.
        let view = if self.config.zero_checksum {
            checksum::read(packet.payload)
        } else {
            PacketView::parse(packet.payload).ok()
        };
        let Some(view) = view else {
            self.totals.discarded += 1;
            self.totals.unreadable += 1;
            return;
        };
        let mut chunks = view.chunks();
        let Some(Ok(first)) = chunks.next_raw() else {
            self.totals.discarded += 1;
            return;
        };
        match first.kind {
            // RFC 9260 §8.4: nobody sets up associations with a group.
            wire::Init::KIND | CookieEcho::KIND if !is_unicast(packet.source.ip()) => {
                self.totals.discarded += 1;
            }
            wire::Init::KIND => {
                // RFC 9260 §8.5.1 A: an INIT is alone, and its packet has tag 0.
                match Chunk::parse(first) {
                    Ok(Chunk::Init(init)) if view.header.tag == 0 && chunks.is_empty() => {
                        self.on_init(now, &packet, view.header, &init);
                    }
                    _ => self.totals.discarded += 1,
                }
            }
            CookieEcho::KIND => {
                let echo = CookieEcho { cookie: first.value };
                self.on_cookie_echo(now, &packet, view.header, echo, chunks, None);
            }
            // RFC 4895 §6.3: an authenticated COOKIE ECHO, perhaps for an association that does not exist.
            Auth::KIND if stray::leads_cookie_echo(chunks) => {
                self.on_signed_cookie_echo(now, &packet, view.header, first, chunks);
            }
            // RFC 9260 §8.5.1 A: nothing else has tag 0.
            _ if view.header.tag == 0 => self.totals.discarded += 1,
            _ => match self.demux.by_tag(view.header.tag) {
                Some(slot) => self.on_own_tag(now, slot, &packet, &view, first, chunks),
                None => self.on_stray(now, &packet, &view),
            },
        }
    }

    #[inline]
    fn handle_batch(&mut self, now: Instant, batch: &mut Batch) {
        // Where packets come one by one, buffers are no larger than packets.
        self.lends = batch.max_segments() == 1;
        for packet in batch.packets() {
            self.handle_packet(now, packet);
        }
        self.lends = false;
        if let Some(slot) = self.lender.take()
            && let Some(association) = &mut self.slots[slot as usize].association
        {
            association.recv.hold(batch);
        }
    }

    fn handle_icmp(&mut self, now: Instant, icmp: &Icmp, quoted: &[u8]) {
        let Some(header) = wire::Header::parse(quoted) else {
            return;
        };
        // RFC 9260 §10: the quote is of a packet of ours: its ports are the other way round.
        let pair = Pair { peer: icmp.target, peer_port: header.target_port, local_port: header.source_port };
        if let Some(slot) = self.demux.by_pair(pair) {
            self.with(now, slot, |association, ctx| association.on_icmp(ctx, icmp, header.tag, quoted));
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(&Reverse((at, slot))) = self.deadlines.peek() {
            if at > now {
                return;
            }
            self.deadlines.pop();
            let place = &mut self.slots[slot as usize];
            if place.armed != at {
                continue;
            }
            place.armed = Instant::MAX;
            let due =
                place.association.as_ref().and_then(|a| a.next_timeout()).is_some_and(|next| next <= now);
            if due {
                self.with(now, slot, |association, ctx| association.handle_timeout(ctx));
            } else {
                self.arm(slot);
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut Batch) -> bool {
        if let Some(words) = self.last_words.pop_front() {
            out.source = words.source;
            out.target = words.target;
            out.first_tag = self.next_tag;
            self.next_tag += 1;
            out.push(&words.packet);
            return true;
        }
        while let Some(&slot) = self.ready.front() {
            let mut tag = self.next_tag;
            let (mut ctx, slots) = self.context(now);
            let association = slots[slot as usize].association.as_deref_mut();
            let sent =
                association.is_some_and(|association| association.poll_transmit(&mut ctx, out, &mut tag));
            self.next_tag = tag;
            if sent {
                self.arm(slot);
                return true;
            }
            // What waits for its pace has set a timer although nothing was sent.
            self.arm(slot);
            self.ready.pop_front();
            self.slots[slot as usize].queued = false;
        }
        false
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.peek().map(|Reverse((at, _))| *at)
    }

    #[inline]
    fn has_output(&self) -> bool {
        !(self.ready.is_empty() && self.last_words.is_empty() && self.events.is_empty())
    }

    fn set_tracing(&mut self, on: bool) {
        self.trace.on = on;
    }

    fn take_trace(&mut self) -> Vec<TraceRecord> {
        std::mem::take(&mut self.trace.records)
    }
}
