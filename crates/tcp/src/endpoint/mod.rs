//! The TCP stack of a host: ports, listeners, and the mapping from segments to connections.
//!
//! Owns the connections, the order in which they are polled for segments, and one heap of deadlines. Each connection
//! has at most one valid entry in the heap. If a connection's deadline moves to a later time, the endpoint notices this
//! only when the old entry expires. A deadline that moves with every segment therefore needs no work on the heap.
//!
//! [`open`] creates connections; [`input`] dispatches segments to them.

mod demux;
mod input;
mod listen;
mod open;
mod syncookie;

use crate::conn::{Connection, Outbox, RouteMetrics};
use crate::state::State;
use crate::{Config, Event, Info, ListenError, RecvError, SendError, Stats};
use anabranch_base::trace::TraceRecord;
use anabranch_base::{Engine, Icmp, Instant, Packet, PacketBytes, RecvBatch, Rng, SendBatch, SharedBytes};
use anabranch_wire::tcp::{Segment, peek_ports_and_seq};
use bytes::Bytes;
use demux::{Demux, FourTuple};
use listen::Listeners;
use open::FIRST_EPHEMERAL;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use syncookie::Cookies;

/// Identifies a connection of one endpoint. An id is never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId {
    slot: u32,
    generation: u32,
}

/// All TCP connections and listeners of a host. Performs no I/O itself.
#[derive(Debug)]
pub struct Endpoint {
    config: Arc<Config>,
    addresses: Vec<IpAddr>,
    /// The MTU of the interface of each local address.
    mtus: Vec<u32>,
    listeners: Listeners,
    pub(crate) demux: Demux,
    pub(crate) slots: Vec<Slot>,
    free: Vec<u32>,
    /// Slots whose connection may have something to send, in the order in which they are polled.
    ready: VecDeque<u32>,
    /// Deadlines. An entry is valid only if it equals the `scheduled` deadline of its slot.
    deadlines: BinaryHeap<Reverse<(Instant, u32)>>,
    pub(crate) out: Outbox,
    rng: Rng,
    secret: u64,
    cookies: Cookies,
    next_port: u16,
    dropped: DropCounters,
}

/// Counters of dropped packets.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DropCounters {
    /// Packets that were not valid TCP segments.
    pub malformed: u64,
    /// Segments with a wrong checksum.
    pub checksum: u64,
    /// SYNs, and final ACKs of a handshake, for which the backlog had no room.
    pub backlog: u64,
    /// Segments that belong to no connection and no listener.
    pub stray: u64,
}

#[derive(Debug)]
pub(crate) struct Slot {
    generation: u32,
    pub(crate) connection: Option<Box<Connection>>,
    /// Whether the slot is in the queue `ready` of the endpoint.
    queued: bool,
    /// The slot's valid entry in `deadlines`, or [`Instant::MAX`] if there is none.
    scheduled: Instant,
    /// The generation and the counters of the last connection in this slot.
    last: Option<(u32, Stats)>,
}

const DEFAULT_MTU: u32 = 1500;

impl Endpoint {
    /// Creates an endpoint that has these addresses and no listeners.
    #[must_use]
    pub fn new(config: Config, addresses: Vec<IpAddr>, rng: Rng) -> Self {
        let mut rng = rng.fork("tcp");
        let secret = rng.next_u64();
        let mut keys = rng.fork("syncookies");
        let cookies = Cookies::new([keys.next_u64(), keys.next_u64()]);
        let next_port = FIRST_EPHEMERAL + rng.below(u64::from(u16::MAX - FIRST_EPHEMERAL)) as u16;
        Self {
            mtus: vec![DEFAULT_MTU; addresses.len()],
            addresses,
            config: Arc::new(config),
            listeners: Listeners::default(),
            demux: Demux::new(rng.next_u64()),
            slots: Vec::new(),
            free: Vec::new(),
            ready: VecDeque::new(),
            deadlines: BinaryHeap::new(),
            out: Outbox {
                events: VecDeque::new(),
                replies: VecDeque::new(),
                next_tag: 1,
                tracing: false,
                trace: Vec::new(),
                totals: Stats::default(),
                fast_path: true,
                routes: RouteMetrics::default(),
            },
            rng,
            secret,
            cookies,
            next_port,
            dropped: DropCounters::default(),
        }
    }

    /// Returns the settings that new connections get.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// Changes the settings for connections opened from now on.
    pub fn set_config(&mut self, config: Config) {
        self.config = Arc::new(config);
    }

    /// Sets the MTU of the interface of `address`; the default is 1500.
    pub fn set_mtu(&mut self, address: IpAddr, mtu: u32) {
        for (known, entry) in self.addresses.iter().zip(&mut self.mtus) {
            if *known == address {
                *entry = mtu;
            }
        }
    }

    /// Sets the addresses of the host. A connection ends if its local address is not in `present`. Its peer is not
    /// informed, because no packet can be sent from that address. If `present` is empty, all connections are kept,
    /// because their addresses may return.
    pub fn set_addresses(&mut self, now: Instant, present: &[IpAddr]) {
        if present.is_empty() || present == self.addresses {
            return;
        }
        // The MTU of a new address is not known yet, so the smallest known MTU is assumed.
        let least = self.mtus.iter().copied().min().unwrap_or(DEFAULT_MTU);
        let mtu_of = |address: &IpAddr| {
            let known = self.addresses.iter().position(|known| known == address);
            known.map_or(least, |index| self.mtus[index])
        };
        self.mtus = present.iter().map(mtu_of).collect();
        self.addresses = present.to_vec();
        for slot in 0..self.slots.len() as u32 {
            if let Some(connection) = &mut self.slots[slot as usize].connection
                && !present.contains(&connection.info().local.ip())
            {
                connection.lose_address(now, &mut self.out);
                self.after(now, slot);
            }
        }
    }

    /// Listens on `port`. A `backlog` of 0 means the value of the knob `backlog`.
    ///
    /// # Errors
    /// [`ListenError`] if `port` is 0 or already in use.
    pub fn listen(&mut self, port: u16, backlog: u32) -> Result<(), ListenError> {
        if port == 0 {
            return Err(ListenError::NoPort);
        }
        let backlog = if backlog == 0 { self.config.backlog } else { backlog };
        if self.listeners.open(port, backlog) { Ok(()) } else { Err(ListenError::InUse(port)) }
    }

    /// Stops listening on `port`. Open connections stay; half-open connections are reset when their next segment
    /// arrives.
    pub fn close_listener(&mut self, port: u16) {
        self.listeners.close(port);
    }

    /// Tells the endpoint how many open connections to `port` wait for the application: [`Event::Accepted`] has
    /// announced them, but the application has not accepted them yet. These connections fill the backlog. While the
    /// backlog is full, the final ACK of another handshake is dropped without a reset, and the peer sends that ACK
    /// again.
    pub fn set_accept_queue(&mut self, port: u16, waiting: u32) {
        self.listeners.set_waiting(port, waiting);
    }

    /// Copies as much of `data` as fits into the send buffer and returns the number of bytes copied. If some bytes did
    /// not fit, [`Event::Writable`] follows.
    ///
    /// # Errors
    /// [`SendError`] if the connection is closed or its sending direction is finished.
    pub fn send(&mut self, now: Instant, id: ConnectionId, data: &[u8]) -> Result<usize, SendError> {
        self.send_by(now, id, |connection| connection.write(now, data))
    }

    /// Like [`send`](Self::send), but shares the memory of `data`, where that saves a copy. Removes the bytes taken from
    /// `data`.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send).
    pub fn send_shared(
        &mut self,
        now: Instant,
        id: ConnectionId,
        data: &mut Bytes,
    ) -> Result<usize, SendError> {
        self.send_by(now, id, |connection| connection.write_shared(now, data))
    }

    #[inline]
    fn send_by(
        &mut self,
        now: Instant,
        id: ConnectionId,
        write: impl FnOnce(&mut Connection) -> Result<usize, SendError>,
    ) -> Result<usize, SendError> {
        let connection = alive(&mut self.slots, id).ok_or(SendError::Closed)?;
        let waits = connection.waits_for_acknowledgements(&self.out);
        let taken = write(connection)?;
        // While the congestion window is full and only an acknowledgement can allow another segment (`waits`), new data
        // causes no segment and changes no deadline.
        if !waits || self.slots[id.slot as usize].queued {
            self.after(now, id.slot);
        }
        Ok(taken)
    }

    /// Reads received bytes into `into`. Returns 0 if no bytes can be read now, or if the peer has finished
    /// ([`is_finished`](Self::is_finished)).
    ///
    /// # Errors
    /// [`RecvError`] if the connection is closed.
    pub fn recv(&mut self, now: Instant, id: ConnectionId, into: &mut [u8]) -> Result<usize, RecvError> {
        let connection = alive(&mut self.slots, id).ok_or(RecvError::Closed)?;
        let count = connection.read(now, into, &mut self.out)?;
        self.after_read(now, id.slot);
        Ok(count)
    }

    /// Returns received bytes whose memory the sender shares, at most `most`. Returns `None` if there are none; then
    /// [`recv`](Self::recv) may return bytes.
    pub fn recv_shared(&mut self, now: Instant, id: ConnectionId, most: usize) -> Option<SharedBytes> {
        let bytes = alive(&mut self.slots, id)?.read_shared(now, most, &mut self.out)?;
        self.after_read(now, id.slot);
        Some(bytes)
    }

    #[inline]
    fn after_read(&mut self, now: Instant, slot: u32) {
        // Most reads cause no window update. In that case there is nothing new to send.
        if let Some(connection) = &self.slots[slot as usize].connection
            && (connection.owes_acknowledgement() || !connection.state().receives())
        {
            self.after(now, slot);
        }
    }

    /// Sends a FIN after the data in the send buffer. Data can still be received.
    pub fn finish(&mut self, now: Instant, id: ConnectionId) {
        if let Some(connection) = alive(&mut self.slots, id) {
            connection.finish();
            self.after(now, id.slot);
        }
    }

    /// Closes both directions. Unlike [`finish`](Self::finish), unread data and data that arrives later are answered
    /// with a reset.
    pub fn close(&mut self, now: Instant, id: ConnectionId) {
        if let Some(connection) = alive(&mut self.slots, id) {
            connection.close(now, &mut self.out);
            self.after(now, id.slot);
        }
    }

    /// Ends the connection immediately with a reset.
    pub fn abort(&mut self, now: Instant, id: ConnectionId) {
        if let Some(connection) = alive(&mut self.slots, id) {
            connection.abort(now, &mut self.out);
            self.after(now, id.slot);
        }
    }

    /// Limits the data in the send buffer to the congestion window plus `bytes` bytes. With a small limit, data written
    /// later does not wait behind a long queue of earlier data.
    pub fn limit_unsent(&mut self, id: ConnectionId, bytes: u64) {
        if let Some(connection) = alive(&mut self.slots, id) {
            connection.limit_unsent(bytes);
        }
    }

    /// Returns the number of bytes that the send buffer has room for.
    #[must_use]
    pub fn writable(&self, id: ConnectionId) -> usize {
        self.find(id).map_or(0, |connection| connection.writable() as usize)
    }

    /// Returns the number of bytes in the send buffer, both unsent and unacknowledged.
    #[must_use]
    pub fn buffered_bytes(&self, id: ConnectionId) -> usize {
        self.find(id).map_or(0, |connection| connection.buffered() as usize)
    }

    /// Returns the number of bytes that can be read now.
    #[must_use]
    pub fn readable(&self, id: ConnectionId) -> usize {
        self.find(id).map_or(0, |connection| connection.readable() as usize)
    }

    /// Returns whether the peer's FIN has arrived and the application has read all data that precedes it.
    #[must_use]
    pub fn is_finished(&self, id: ConnectionId) -> bool {
        self.find(id).is_some_and(Connection::is_finished)
    }

    /// Returns the connection's name in traces: the port of the side that opened the connection.
    #[must_use]
    pub fn trace_key(&self, id: ConnectionId) -> Option<u64> {
        self.find(id).map(|connection| u64::from(connection.key()))
    }

    /// Returns the counters of a connection. After the connection has ended, they stay available until its slot is
    /// reused.
    #[must_use]
    pub fn stats(&self, id: ConnectionId) -> Option<Stats> {
        let slot = self.slots.get(id.slot as usize)?;
        match &slot.connection {
            Some(connection) if slot.generation == id.generation => Some(connection.stats),
            _ => slot.last.filter(|(generation, _)| *generation == id.generation).map(|(_, stats)| stats),
        }
    }

    /// Returns the current state of a connection.
    #[must_use]
    pub fn info(&self, id: ConnectionId) -> Option<Info> {
        self.find(id).map(Connection::info)
    }

    /// Returns the sum of the counters of all connections, existing and ended.
    #[must_use]
    pub fn totals(&self) -> Stats {
        let mut totals = self.out.totals;
        for connection in self.slots.iter().filter_map(|slot| slot.connection.as_ref()) {
            totals.add(&connection.stats);
        }
        totals
    }

    /// Returns the counters of dropped packets and segments.
    #[must_use]
    pub fn dropped(&self) -> DropCounters {
        self.dropped
    }

    /// Returns the number of connections, including those in TIME-WAIT.
    #[must_use]
    pub fn connections(&self) -> usize {
        self.slots.iter().filter(|slot| slot.connection.is_some()).count()
    }

    /// Returns the memory in bytes that a connection takes, half-open or open, before any data is buffered.
    #[must_use]
    pub const fn connection_bytes() -> usize {
        size_of::<Slot>() + size_of::<Connection>()
    }

    /// Asserts the invariants of every connection.
    ///
    /// # Panics
    /// Panics if an invariant is violated.
    #[cfg(feature = "testing")]
    pub fn check_invariants(&self) {
        for slot in &self.slots {
            if let Some(connection) = &slot.connection {
                connection.check_invariants();
                let deadline = connection.deadline();
                assert!(slot.queued || deadline >= slot.scheduled, "a deadline nobody will come back for");
            }
        }
    }

    fn find(&self, id: ConnectionId) -> Option<&Connection> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.connection.as_deref().filter(|_| slot.generation == id.generation)
    }

    /// Called after every change of a connection. Queues the connection for sending, schedules its deadline, or deletes
    /// it if it has ended.
    #[inline]
    fn after(&mut self, now: Instant, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        let Some(connection) = &entry.connection else { return };
        if connection.state() == State::Closed {
            return self.retire(slot);
        }
        self.follow(now, slot);
    }

    /// Like `after`, but only for changes of a connection that cannot end the connection.
    #[inline]
    pub(crate) fn follow(&mut self, now: Instant, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        let Some(connection) = &entry.connection else { return };
        if !entry.queued && !connection.is_at_rest(&self.out) {
            entry.queued = true;
            self.ready.push_back(slot);
        }
        self.schedule(now, slot);
    }

    /// Ensures that the heap has an entry for the connection's earliest deadline.
    #[inline]
    fn schedule(&mut self, now: Instant, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        let Some(connection) = &mut entry.connection else { return };
        if let Some(deadline) = connection.deadline_before(entry.scheduled) {
            // A deadline that has passed is scheduled 1 ns after `now`, so that time always advances.
            let at = deadline.max(now.plus_nanos(1));
            entry.scheduled = at;
            self.deadlines.push(Reverse((at, slot)));
        }
    }

    /// Frees the four-tuple of a connection that has ended. Deletes the connection once the application has read all
    /// received data.
    fn retire(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        let Some(connection) = entry.connection.take() else { return };
        self.demux.remove(&FourTuple { local: connection.local, remote: connection.remote }, slot);
        if !connection.is_over() {
            entry.connection = Some(connection);
            return;
        }
        entry.scheduled = Instant::MAX;
        entry.last = Some((entry.generation, connection.stats));
        self.out.totals.add(&connection.stats);
        self.free.push(slot);
    }
}

/// Returns the connection with this id, if the application may still use it.
fn alive(slots: &mut [Slot], id: ConnectionId) -> Option<&mut Connection> {
    let slot = slots.get_mut(id.slot as usize)?;
    let connection = slot.connection.as_deref_mut()?;
    (slot.generation == id.generation && connection.is_alive()).then_some(connection)
}

impl Engine for Endpoint {
    type Event = Event;

    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>) {
        let Packet { source, target, ecn, tag, payload } = packet;
        let bytes = PacketBytes::Borrowed(payload);
        if !self.handle_on_fast_path(now, (&source, &target), (ecn, tag), false, bytes) {
            self.take_any(now, packet, false);
        }
    }

    #[inline]
    fn handle_batch(&mut self, now: Instant, batch: &mut RecvBatch) {
        let (marks, intact) = ((batch.ecn, batch.first_tag), batch.intact);
        let Some((source, target, bytes)) = batch.only_owned() else {
            return batch.packets().for_each(|packet| self.handle_packet(now, packet));
        };
        if !self.handle_on_fast_path(now, (source, target), marks, intact, bytes) {
            self.take_only(now, batch);
        }
    }

    fn offloads_checksums(&self) -> bool {
        true
    }

    fn handle_icmp(&mut self, now: Instant, icmp: &Icmp, quoted: &[u8]) {
        let Some((source_port, target_port, seq)) = peek_ports_and_seq(quoted) else { return };
        let ends = FourTuple {
            local: SocketAddr::new(icmp.source, source_port),
            remote: SocketAddr::new(icmp.target, target_port),
        };
        let Some(slot) = self.demux.find(&ends) else { return };
        if let Some(connection) = &mut self.slots[slot as usize].connection {
            connection.on_icmp(now, icmp.kind, seq, &mut self.out);
            self.after(now, slot);
        }
    }

    fn handle_local_drop(&mut self, now: Instant, packet: Packet<'_>) {
        let mut segment = Segment::default();
        if segment.read(packet.payload).is_err() {
            return;
        }
        let ends = FourTuple {
            local: SocketAddr::new(packet.source.ip(), segment.header.source_port),
            remote: SocketAddr::new(packet.target.ip(), segment.header.target_port),
        };
        let Some(slot) = self.demux.find(&ends) else { return };
        let Some(connection) = &mut self.slots[slot as usize].connection else { return };
        if connection.is_forgotten_when_refused() {
            connection.lose_address(now, &mut self.out);
            self.listeners.on_not_half_open(connection.local.port(), false);
        } else {
            connection.on_local_drop(now, &segment, packet.tag, &mut self.out);
        }
        self.after(now, slot);
    }

    fn handle_timeout(&mut self, now: Instant) {
        while let Some(&Reverse((at, slot))) = self.deadlines.peek() {
            if at > now {
                break;
            }
            self.deadlines.pop();
            let entry = &mut self.slots[slot as usize];
            if entry.scheduled != at {
                // This entry is outdated: the slot has a newer entry, or its connection is gone.
                continue;
            }
            entry.scheduled = Instant::MAX;
            let Some(connection) = &mut entry.connection else { continue };
            let half_open = connection.is_passive() && connection.state() == State::SynReceived;
            connection.on_time(now, &mut self.out);
            if half_open && connection.state() != State::SynReceived {
                self.listeners.on_not_half_open(connection.local.port(), false);
            }
            self.after(now, slot);
        }
    }

    fn poll_transmit(&mut self, now: Instant, batch: &mut SendBatch) -> bool {
        if let Some(reply) = self.out.replies.pop_front() {
            reply.transmit(batch, &mut self.out);
            return true;
        }
        while let Some(&slot) = self.ready.front() {
            let entry = &mut self.slots[slot as usize];
            if let Some(connection) = &mut entry.connection
                && connection.transmit(now, batch, &mut self.out)
            {
                if connection.is_held_back(&self.out) {
                    entry.queued = false;
                    self.ready.pop_front();
                }
                self.schedule(now, slot);
                return true;
            }
            entry.queued = false;
            self.ready.pop_front();
            // A poll that returns no segment may have set the persist timer, so the deadline is scheduled here.
            self.schedule(now, slot);
        }
        false
    }

    fn poll_event(&mut self) -> Option<Event> {
        let event = self.out.events.pop_front()?;
        if let Event::Accepted { port, .. } = event {
            self.listeners.on_announced(port);
        }
        Some(event)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadlines.peek().map(|Reverse((at, _))| *at)
    }

    #[inline]
    fn has_output(&self) -> bool {
        !(self.ready.is_empty() && self.out.replies.is_empty() && self.out.events.is_empty())
    }

    fn set_tracing(&mut self, on: bool) {
        self.out.tracing = on;
    }

    fn take_trace(&mut self) -> Vec<TraceRecord> {
        std::mem::take(&mut self.out.trace)
    }
}
