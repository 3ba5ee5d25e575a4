//! One association: its state, its sending and receiving halves, its paths and timers, and its pending control chunks.
//!
//! This module connects the parts of an association. Each part owns its state and rules. Received packets enter through
//! [`inbound`], which only marks what has to be sent. Only [`outbound`] builds packets. This module also has the
//! methods that the application calls.
//!
//! Implements RFC 9260 §14.2 (the data of an association).

pub(crate) mod abort;
pub(crate) mod acknowledge;
mod active_extensions;
pub(crate) mod asconf;
pub(crate) mod auth;
pub(crate) mod collision;
pub(crate) mod cookie;
mod ecn;
pub(crate) mod extensions;
pub(crate) mod fast_path;
mod forward;
pub(crate) mod handshake;
pub(crate) mod identity;
pub(crate) mod inbound;
mod mtu;
pub(crate) mod negotiate;
pub(crate) mod outbound;
mod outbox;
pub(crate) mod path_failure;
pub(crate) mod reconfig;
mod recover;
pub(crate) mod restart;
mod send_failure;
pub(crate) mod shutdown;
pub(crate) mod state;
mod stream_counts;
pub(crate) mod timers;
mod tuning;

use crate::config::{Config, SchedulerKind, SharedKeys};
use crate::counters::AssociationCounters;
use crate::error::{PrimaryError, SchedulerError, SendError};
use crate::event::{CloseReason, Event};
use crate::id::AssociationId;
use crate::message::{Message, Received};
use crate::path::Path;
use crate::path::select::{Paths, source_for};
use crate::recv::RecvHalf;
use crate::reliability::Reliability;
use crate::send::SendHalf;
use crate::send::queue::Undelivered;
use crate::stats::{AssociationInfo, AssociationStats, Interruption, PathChange, PathInfo};
use active_extensions::ActiveExtensions;
use anabranch_base::trace::{Limit, TraceEvent, TraceRecord};
use anabranch_base::{Instant, Rng, SharedBytes};
use auth::Auth;
use bytes::{Buf, Bytes};
use fast_path::FastPath;
use handshake::Handshake;
use identity::Identity;
use negotiate::in_scope;
use outbound::packet::StatelessPacket;
use outbox::Outbox;
use shutdown::ShutdownProgress;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use stream_counts::StreamCounts;
use timers::{Timer, Timers};

pub(crate) use state::State;

/// The maximum number of queued events. When it is reached, events about messages are dropped, but the counters still
/// count the messages.
const MAX_EVENTS: usize = 1 << 16;

/// A local address, and the largest IP packet that its interface takes.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Local {
    pub(crate) address: SocketAddr,
    pub(crate) mtu: u32,
}

/// The endpoint state that an association borrows for one call.
pub(crate) struct Ctx<'a> {
    pub(crate) now: Instant,
    pub(crate) local_addresses: &'a [Local],
    /// The shared keys with which new associations start.
    pub(crate) keys: &'a SharedKeys,
    pub(crate) events: &'a mut VecDeque<Event>,
    pub(crate) trace: &'a mut Trace,
    pub(crate) path_changes: &'a mut Vec<PathChange>,
    pub(crate) interruptions: &'a mut Vec<Interruption>,
    /// Packets that are sent even if their association ends.
    pub(crate) stateless_packets: &'a mut VecDeque<StatelessPacket>,
    /// Whether associations that qualify may take the fast path.
    pub(crate) fast_path: bool,
}

impl Ctx<'_> {
    /// Returns the local addresses for an association with a peer at this address.
    pub(crate) fn local_addresses_for(&self, peer: IpAddr) -> impl Iterator<Item = SocketAddr> + Clone {
        local_addresses_for(self.local_addresses, peer)
    }

    /// Returns the MTU of the interface of a local address.
    fn mtu_of(&self, local: SocketAddr) -> u32 {
        self.local_addresses.iter().find(|other| other.address == local).map_or(1500, |local| local.mtu)
    }
}

/// Returns the addresses in `local_addresses` at which the peer at the address `peer` can reach this host. If `peer` is
/// a loopback address, the peer is on this host and can reach the loopback addresses in the list. If the list has no
/// loopback address, such a peer can reach all addresses in the list.
pub(crate) fn local_addresses_for(
    local_addresses: &[Local],
    peer: IpAddr,
) -> impl Iterator<Item = SocketAddr> + Clone {
    let fits = move |local: &&Local| in_scope(local.address.ip(), peer);
    let any = peer.is_loopback() && !local_addresses.iter().any(|local| fits(&local));
    local_addresses.iter().filter(move |local| any || fits(local)).map(|local| local.address)
}

/// The trace records of the association, which are collected only while `on` is true.
#[derive(Debug, Default)]
pub(crate) struct Trace {
    pub(crate) on: bool,
    pub(crate) records: Vec<TraceRecord>,
}

impl Trace {
    #[inline]
    pub(crate) fn record(&mut self, at: Instant, connection: u64, event: impl FnOnce() -> TraceEvent) {
        if self.on {
            self.keep(at, connection, event);
        }
    }

    #[cold]
    fn keep(&mut self, at: Instant, connection: u64, event: impl FnOnce() -> TraceEvent) {
        self.records.push(TraceRecord { at, connection, event: event() });
    }
}

/// The complete state of an association.
#[derive(Debug)]
pub(crate) struct Association {
    id: AssociationId,
    config: Arc<Config>,
    state: State,
    identity: Identity,
    streams: StreamCounts,
    paths: Paths,
    timers: Timers,
    /// Whether the association qualifies for the fast path. The value is cached.
    fast_path: FastPath,
    send: SendHalf,
    recv: RecvHalf,
    outbox: Outbox,
    handshake: Handshake,
    closing: ShutdownProgress,
    extensions: ActiveExtensions,
    stats: AssociationCounters,
    rng: Rng,
    /// The reason why the sender cannot send more, as last written to the trace.
    limit: Option<Limit>,
    /// The congestion window, as last written to the trace.
    recorded_window: u64,
}

/// The values with which a new association starts.
pub(crate) struct AssociationInit {
    pub(crate) id: AssociationId,
    pub(crate) config: Arc<Config>,
    pub(crate) identity: Identity,
    pub(crate) streams: u16,
    pub(crate) paths: Vec<Path>,
    pub(crate) rng: Rng,
    pub(crate) state: State,
    pub(crate) auth: Option<Box<Auth>>,
}

impl Association {
    pub(crate) fn new(init: AssociationInit, now: Instant) -> Self {
        let AssociationInit { id, config, identity, streams, .. } = init;
        let initial_tsn = identity.initial_tsn();
        let mut paths = init.paths;
        for (index, path) in paths.iter_mut().enumerate() {
            path.set_seed(congestion_seed(&init.rng, index));
        }
        let paths = Paths::new(paths, now);
        let segment = paths.get(0).chunk_limit() as u64;
        let mut association = Self {
            id,
            state: init.state,
            identity,
            streams: StreamCounts::new(&config, streams),
            timers: Timers::new(paths.len()),
            fast_path: FastPath::Unknown,
            paths,
            send: SendHalf::new(&config, initial_tsn),
            recv: RecvHalf::new(&config, 0, streams, segment),
            outbox: Outbox::default(),
            handshake: Handshake::default(),
            closing: ShutdownProgress::default(),
            extensions: ActiveExtensions::new(init.auth),
            stats: AssociationCounters::new(now),
            rng: init.rng,
            limit: None,
            recorded_window: 0,
            config,
        };
        association.set_fragment_size();
        association
    }

    /// Returns the configuration. Associations may share it.
    #[inline]
    pub(crate) fn config(&self) -> &Arc<Config> {
        &self.config
    }

    /// Returns the association's ports, tags and initial TSN.
    #[inline]
    pub(crate) fn identity(&self) -> &Identity {
        &self.identity
    }

    #[inline]
    pub(crate) fn paths(&self) -> &Paths {
        &self.paths
    }

    #[inline]
    pub(crate) fn sending(&self) -> &SendHalf {
        &self.send
    }

    #[inline]
    pub(crate) fn receiving(&self) -> &RecvHalf {
        &self.recv
    }

    #[inline]
    pub(crate) fn extensions(&self) -> &ActiveExtensions {
        &self.extensions
    }

    /// Returns the authentication state, so that the caller can change its keys. Returns `None` if this side does not
    /// use authentication.
    pub(crate) fn auth_mut(&mut self) -> Option<&mut Auth> {
        self.extensions.auth_mut()
    }

    /// Returns whether a handshake that this side began is in progress.
    pub(crate) fn is_opening(&self) -> bool {
        matches!(self.state, State::CookieWait(_) | State::CookieEchoed(_))
    }

    /// Returns the number of streams in each direction.
    pub(crate) fn streams(&self) -> &StreamCounts {
        &self.streams
    }

    /// Returns whether a SHUTDOWN or SHUTDOWN ACK has to be sent.
    #[inline]
    pub(crate) fn wants_shutdown(&self) -> bool {
        self.outbox.wants_shutdown()
    }

    /// Returns whether the association has ended. The application may still read data that has arrived.
    #[inline]
    pub(crate) fn is_closed(&self) -> bool {
        matches!(self.state, State::Closed)
    }

    /// Returns whether the association has ever been established.
    #[inline]
    pub(crate) fn was_established(&self) -> bool {
        self.stats.established.is_some()
    }

    /// Returns the number by which both ends identify this association in traces.
    #[inline]
    pub(crate) fn trace_key(&self) -> u64 {
        self.identity.trace_key()
    }

    /// RFC 9260 §7.3: sets the fragment size according to the path with the smallest MTU.
    pub(crate) fn set_fragment_size(&mut self) {
        let largest = (self.paths.smallest_chunk_limit()
            - self.send.chunk_header()
            - self.extensions.auth_room()) as u32;
        self.send.set_largest(self.config.mss.map_or(largest, |mss| mss.min(largest)) & !3);
        self.timers.grow(self.paths.len());
    }

    /// RFC 6951 §5.4, §6.1: sets the peer's UDP port on a path. Port 0 turns UDP encapsulation off for packets on that
    /// path.
    #[cold]
    pub(crate) fn set_udp_port(&mut self, path: usize, port: u16) {
        self.paths.set_udp_port(path, port);
        // RFC 6951 §5.6: a UDP header takes eight bytes of each packet, so the fragment size changes.
        self.set_fragment_size();
    }

    /// Returns an address of the peer, for callers that need only the IP version or the scope of the address.
    pub(crate) fn peer(&self) -> IpAddr {
        self.paths.peer()
    }

    /// Returns a new path to `address`, from the local address that `source_for` selects.
    pub(crate) fn new_path(&self, ctx: &Ctx<'_>, address: SocketAddr, turn: usize) -> Option<Path> {
        let mut path = path_to(&self.config, ctx, address, turn)?;
        path.set_seed(congestion_seed(&self.rng, self.paths.len()));
        Some(path)
    }

    // Methods that the application calls.

    /// Returns whether the application may send messages.
    fn takes_messages(&self) -> bool {
        self.state.accepts_messages() && !self.closing.is_shutdown_requested()
    }

    fn check_message(&self, message: &Message) -> Result<(), SendError> {
        if !self.takes_messages() {
            return Err(SendError::Closing);
        }
        // RFC 9260 §5.1.1, §6.5: only streams that both sides have agreed on may be used.
        if message.stream >= self.streams.outbound() {
            return Err(SendError::NoSuchStream);
        }
        if message.key.is_some_and(|key| !self.extensions.has_key(key)) {
            return Err(SendError::NoSuchKey);
        }
        Ok(())
    }

    pub(crate) fn send(&mut self, now: Instant, message: Message, payload: &[u8]) -> Result<(), SendError> {
        self.check_message(&message)?;
        self.size_send_buffer();
        self.send.push(now, message, payload, self.extensions.agreed.partial_reliability)?;
        if self.send.has_limits() {
            self.invalidate_fast_path();
        }
        self.stats.messages_sent += 1;
        self.check_probe(now);
        Ok(())
    }

    /// Adapts the size of the send buffer to the congestion window, if associations share memory for send buffers.
    #[inline]
    pub(crate) fn size_send_buffer(&mut self) {
        if self.send.shares_memory() {
            self.send.size_buffer(self.paths.get(self.paths.current()).window());
        }
    }

    /// Queues messages of `piece` bytes while there is room. Returns the number of bytes queued.
    pub(crate) fn send_pieces(
        &mut self,
        now: Instant,
        message: Message,
        payload: &[u8],
        piece: usize,
    ) -> Result<usize, SendError> {
        if message.reliability == Reliability::Full && !self.send.has_limits() {
            self.check_message(&message)?;
            self.size_send_buffer();
            let taken = self.send.push_pieces(message, payload, piece)?;
            self.stats.messages_sent += taken.div_ceil(piece) as u64;
            self.check_probe(now);
            return Ok(taken);
        }
        let mut taken = 0;
        for part in payload.chunks(piece) {
            match self.send(now, message, part) {
                Ok(()) => taken += part.len(),
                Err(_) if taken > 0 => break,
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Like [`send_pieces`](Self::send_pieces), but shares the memory of `payload` if possible. Removes the bytes queued
    /// from `payload`.
    pub(crate) fn send_shared_pieces(
        &mut self,
        now: Instant,
        message: Message,
        payload: &mut Bytes,
        piece: usize,
    ) -> Result<usize, SendError> {
        if message.reliability != Reliability::Full || self.send.has_limits() {
            let taken = self.send_pieces(now, message, payload, piece)?;
            payload.advance(taken);
            return Ok(taken);
        }
        self.check_message(&message)?;
        self.size_send_buffer();
        let taken = self.send.push_shared_pieces(message, payload, piece)?;
        self.stats.messages_sent += taken.div_ceil(piece) as u64;
        self.check_probe(now);
        Ok(taken)
    }

    pub(crate) fn recv(&mut self, stream: u16, out: &mut [u8]) -> Option<Received> {
        let received = self.recv.read(stream, out)?;
        // RFC 9260 §6.2: send a SACK when the receive window has opened considerably, so that the peer can continue to
        // send.
        if self.recv.wants_window_update() && self.state.may_receive_data() {
            self.recv.sack_now();
        }
        Some(received)
    }

    /// Like [`recv`](Self::recv), but reads from the stream that became readable first. Returns its number.
    pub(crate) fn recv_next(&mut self, out: &mut [u8]) -> Option<(u16, Received)> {
        let received = self.recv.read_next(out)?;
        if self.recv.wants_window_update() && self.state.may_receive_data() {
            self.recv.sack_now();
        }
        Some(received)
    }

    /// Like [`recv`](Self::recv), but one call may read the bytes of several messages.
    #[inline]
    pub(crate) fn recv_bytes(
        &mut self,
        stream: u16,
        out: &mut [u8],
        wanted: impl Fn(u32) -> bool,
    ) -> (usize, bool) {
        let read = self.recv.read_bytes(stream, out, wanted);
        if self.recv.wants_window_update() && self.state.may_receive_data() {
            self.recv.sack_now();
        }
        read
    }

    /// Reads a whole message of at most `most` bytes without a copy, if the sender shares its memory and it is the only
    /// readable data of its stream. Returns the message and its payload protocol identifier.
    #[inline]
    pub(crate) fn recv_shared(&mut self, stream: u16, most: usize) -> Option<(SharedBytes, u32)> {
        let read = self.recv.read_shared(stream, most)?;
        if self.recv.wants_window_update() && self.state.may_receive_data() {
            self.recv.sack_now();
        }
        Some(read)
    }

    /// RFC 8260 §3: changes the stream scheduler for all chunks that are cut from now on.
    pub(crate) fn set_scheduler(&mut self, kind: SchedulerKind) {
        self.send.set_scheduler(kind);
    }

    pub(crate) fn set_stream_value(&mut self, stream: u16, value: u16) -> Result<(), SchedulerError> {
        if stream >= self.streams.outbound() {
            return Err(SchedulerError::NoSuchStream);
        }
        self.send.set_stream_value(stream, value);
        Ok(())
    }

    pub(crate) fn set_low(&mut self, stream: u16, low: Option<u64>) -> bool {
        let known = stream < self.streams.outbound();
        if known {
            self.send.set_low(stream, low);
        }
        known
    }

    pub(crate) fn set_primary(&mut self, ctx: &mut Ctx<'_>, path: usize) -> Result<(), PrimaryError> {
        if path >= self.paths.len() {
            return Err(PrimaryError::Unknown);
        }
        if !self.paths.get(path).is_confirmed() {
            return Err(PrimaryError::Unconfirmed);
        }
        self.make_primary(ctx, path);
        Ok(())
    }

    /// Makes a path the primary path. RFC 6458 §6.1.2: an event informs the application, whichever side requested the
    /// change.
    pub(crate) fn make_primary(&mut self, ctx: &mut Ctx<'_>, path: usize) {
        let before = self.paths.primary();
        self.paths.set_primary(path);
        if path != before {
            let address = self.paths.get(path).address().ip();
            ctx.events.push_back(Event::PrimaryChanged { id: self.id, path, address });
        }
    }

    pub(crate) fn info(&self) -> AssociationInfo {
        AssociationInfo {
            state: self.state.public(),
            local_port: self.identity.local_port(),
            peer_port: self.identity.peer_port(),
            outbound_streams: self.streams.outbound(),
            inbound_streams: self.streams.inbound(),
            peer_rwnd: self.send.peer_window(),
            outstanding: self.send.buffered_bytes() - self.send.unsent_bytes(),
            buffered: self.send.buffered_bytes(),
            gap_acked: self.send.gap_acked_bytes(),
            probed: self.send.probed_bytes(),
            extensions: *self.extensions.agreed(),
            paths: self.path_infos().collect(),
        }
    }

    /// Returns the status of each path.
    pub(crate) fn path_infos(&self) -> impl ExactSizeIterator<Item = PathInfo> {
        let (primary, current) = (self.paths.primary(), self.paths.current());
        let indices = 0..self.paths.len();
        indices.map(move |i| self.paths.get(i).info((i == primary, i == current)))
    }

    /// Returns the counters of the association.
    pub(crate) fn stats(&self) -> AssociationStats {
        self.stats.stats(self.recv.messages_completed())
    }

    /// Replaces the congestion controller of a path.
    #[cfg(test)]
    pub(crate) fn use_controller(&mut self, path: usize, controller: anabranch_congestion::Algorithm) {
        let config = self.config.clone();
        self.paths.at(path).use_controller(&config, controller);
        self.invalidate_fast_path();
    }

    // Methods for timeouts.

    #[inline]
    pub(crate) fn next_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }

    /// Returns the earliest deadline, if it is earlier than `bound`.
    #[inline]
    pub(crate) fn timeout_before(&mut self, bound: Instant) -> Option<Instant> {
        self.timers.earlier_than(bound)
    }

    pub(crate) fn handle_timeout(&mut self, ctx: &mut Ctx<'_>) {
        while let Some(timer) = self.timers.expired(ctx.now) {
            match timer {
                Timer::T1Init => self.on_t1_init(ctx),
                Timer::T1Cookie => self.on_t1_cookie(ctx),
                Timer::T2Shutdown => self.on_t2_shutdown(ctx),
                Timer::T5Guard => self.on_t5_guard(ctx),
                Timer::Sack => self.recv.sack_now(),
                Timer::Probe => self.send.allow_probe(),
                Timer::Reconfig => self.on_reconfig_timer(ctx),
                // Every change of the association abandons expired messages, so there is nothing to do here.
                Timer::Lifetime => {}
                Timer::Asconf => self.on_t4(ctx),
                Timer::Loss(path) => self.on_loss_timer(ctx, path),
                // After any timer expires, the caller calls `poll_transmit`, which may now send a packet. There is
                // nothing to do here.
                Timer::Pace(_) => {}
                Timer::T3Rtx(path) => self.on_t3(ctx, path),
                Timer::Heartbeat(path) => self.on_heartbeat_timer(ctx, path),
                Timer::HeartbeatLost(path) => self.on_heartbeat_lost(ctx, path),
                Timer::PathMtu(path) => self.on_mtu_timer(ctx, path),
            }
            if matches!(self.state, State::Closed) {
                self.timers.stop_all();
                return;
            }
        }
    }

    // Methods for closing.

    /// Ends the association. Data that has arrived can still be read.
    pub(crate) fn close(&mut self, ctx: &mut Ctx<'_>, reason: CloseReason) {
        if matches!(self.state, State::Closed) {
            return;
        }
        self.state = State::Closed;
        self.invalidate_fast_path();
        self.timers.stop_all();
        self.forget_control();
        let undelivered = self.send.undelivered(self.config.return_undelivered);
        self.emit_undelivered(ctx, undelivered);
        ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Closed);
        ctx.events.push_back(Event::Closed { id: self.id, reason });
    }

    /// Drops all pending control chunks, and the state of the control chunks already sent.
    fn forget_control(&mut self) {
        self.outbox = Outbox::default();
        self.handshake = Handshake::default();
        self.closing.begin_again();
    }

    /// RFC 9260 §11.2.2: counts and reports messages that will not be delivered.
    pub(crate) fn emit_undelivered(&mut self, ctx: &mut Ctx<'_>, messages: Vec<Undelivered>) {
        for Undelivered { stream, ppid, context, bytes, unordered, sent, payload } in messages {
            match sent {
                true => self.stats.rare_mut().undelivered_sent += 1,
                false => self.stats.rare_mut().undelivered_unsent += 1,
            }
            if ctx.events.len() < MAX_EVENTS {
                let id = self.id;
                ctx.events.push_back(Event::SendFailed {
                    id,
                    stream,
                    ppid,
                    context,
                    bytes,
                    unordered,
                    sent,
                    payload,
                });
            }
        }
    }

    /// Emits an event for each stream that became readable.
    #[inline]
    pub(crate) fn emit_readable(&mut self, ctx: &mut Ctx<'_>) {
        let id = self.id;
        if self.recv.newly_readable().is_empty() {
            return;
        }
        for stream in self.recv.newly_readable().drain(..) {
            ctx.events.push_back(Event::Readable { id, stream });
        }
    }
}

/// Returns the seed for the congestion controllers of the path with this index.
fn congestion_seed(rng: &Rng, index: usize) -> u64 {
    rng.fork("congestion").next_u64().wrapping_add(index as u64)
}

/// Returns a path to `address` from a suitable local address. RFC 9260 §5.1.2: returns `None` if this host has no
/// address of that IP version.
pub(crate) fn path_to(config: &Arc<Config>, ctx: &Ctx<'_>, address: SocketAddr, turn: usize) -> Option<Path> {
    let sources: Vec<SocketAddr> = ctx.local_addresses_for(address.ip()).collect();
    let source = source_for(&sources, address.ip(), turn)?;
    Some(Path::new(config, address, source, ctx.mtu_of(source), ctx.now))
}
