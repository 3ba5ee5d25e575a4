//! Implements [`SessionEngine`] for the SCTP endpoint: an association is a session, and a stream pair is a stream.
//!
//! [`SctpEngine`] consists of the endpoint, the SCTP ports that the endpoint has claimed on the host, and the
//! endpoint's membership in a directory. If several endpoints share one UDP port or IP protocol, the directory
//! assigns packets to endpoints.

use super::close_reason::{self, to_close_reason};
use super::ports::PortClaims;
use super::shards::Member;
use super::{CAPABILITIES, PPID_HTTP, PathInfo};
use crate::connector::{ConnectError, ListenError};
use crate::engine::{EngineHost, ResetDirections, SessionEngine, Write, WriteRefusal};
use crate::network::{Figures, PathFigures};
use crate::protocol::{Interruption, Layer, PathChange, PathEvent, PathState, Server, Totals};
use crate::session::{CloseReason, Delivery, StreamId};
use crate::settings::Settings;
use anabranch_base::time::Instant;
use anabranch_base::trace::TraceRecord;
use anabranch_base::{Engine, Icmp, Packet, PeerState, RecvBatch, SendBatch, SharedBytes};
use anabranch_sctp::{
    Associate, AssociateError, AssociationId, CloseReason as EngineReason, Direction, Endpoint, Event,
    Message, Received, SchedulerKind, SendError, position_after_reset,
};
use bytes::Bytes;
use std::cell::Cell;
use std::collections::BTreeMap;
use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

/// An SCTP endpoint, and its links to the other endpoints on its host.
#[derive(Debug)]
pub struct SctpEngine {
    pub(super) endpoint: Endpoint,
    /// The UDP encapsulation port of this host's addresses; 0 without UDP.
    port: u16,
    /// The number of streams that a new association requests.
    streams: u16,
    /// Whether DATA chunks are bundled with the COOKIE ECHO.
    early_data: bool,
    /// The payload protocol identifier that the application has configured; 0 if none.
    ppid: u32,
    /// The payload protocol identifier for the answer to the bytes that were last read.
    reply_ppid: Option<u32>,
    /// The identity of this endpoint, if several endpoints share one port.
    pub(super) member: Option<Member>,
    /// The function that is called with each path event.
    pub(super) on_path_event: Option<PathListener>,
    /// The ports that this endpoint has claimed on the host.
    pub(super) ports: PortClaims,
    /// The layer below the endpoint, such as DTLS. If the layer loses a peer, the engine asks it for the reason.
    pub(super) layer: Option<Rc<dyn Layer>>,
    /// The peers of the associations that this side has started over `layer`.
    peers: BTreeMap<AssociationId, SocketAddr>,
    /// The reason that a peer's program gave in an ABORT (RFC 9260 §3.3.10.12), until the association's end is handled.
    abort_reason: Option<(AssociationId, Vec<u8>)>,
}

impl SctpEngine {
    pub(super) fn new(mut endpoint: Endpoint, ports: PortClaims) -> Self {
        // A restart of the peer loses data, and a byte stream must not have gaps. The endpoint therefore reports a
        // restarted peer as a new association.
        endpoint.replace_restarted(true);
        let config = endpoint.config();
        // A response uses the stream number of its request. Only numbers that exist in both directions are therefore
        // usable.
        let streams = config.num_ostreams.min(config.inbound_streams());
        let (early_data, ppid) = (config.cookie_data, config.ppid);
        Self {
            endpoint,
            port: 0,
            streams,
            early_data,
            ppid,
            reply_ppid: None,
            member: None,
            on_path_event: None,
            ports,
            layer: None,
            peers: BTreeMap::new(),
            abort_reason: None,
        }
    }

    /// Reads data of one user message only; `None` if no data has arrived.
    pub(super) fn recv_message(
        &mut self,
        now: Instant,
        id: AssociationId,
        stream: StreamId,
        into: &mut [u8],
    ) -> Option<Received> {
        self.endpoint.recv(now, id, number(stream), into).ok().flatten()
    }
}

/// A function that is called with each path event.
pub(super) struct PathListener(pub(super) Box<dyn Fn(PathEvent)>);

impl fmt::Debug for PathListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("PathListener")
    }
}

impl SctpEngine {
    /// Reports a path event of an association, if the association has several paths.
    fn tell_of(&self, id: AssociationId, event: PathEvent) {
        if let Some(listener) = self.on_path_event.as_ref().filter(|_| self.is_multihomed(id)) {
            (listener.0)(event);
        }
    }

    /// Returns whether the association has more than one path.
    fn is_multihomed(&self, id: AssociationId) -> bool {
        self.endpoint.info(id).is_some_and(|info| info.paths.iter().filter(|path| !path.removed).count() > 1)
    }

    fn emit_path_change(&self, at: Instant, id: AssociationId, address: IpAddr, state: PathState) {
        self.tell_of(
            id,
            PathEvent::Changed(PathChange { connection: self.trace_key(id), address, at, state }),
        );
    }
}

impl SctpEngine {
    /// Returns the attributes of the messages of a write, and their size in bytes.
    #[inline]
    fn message_of(&self, id: AssociationId, write: Write<Ppids>) -> (Message, usize) {
        let whole = write.message.is_some();
        let piece = write.message.unwrap_or_else(|| {
            let fragment = self.endpoint.fragment_size(id).max(MIN_PIECE);
            match self.endpoint.interleaves(id) {
                false => fragment,
                // RFC 8260 §2: with I-DATA, a message does not block other streams. So all bytes that fit into the send
                // buffer are written as one message, up to the limit `MAX_PIECE`.
                true => self.endpoint.writable_bytes(id).clamp(fragment, MAX_PIECE.max(fragment)),
            }
        });
        // The default payload protocol identifier for whole messages is 0, because only the application knows their
        // protocol. Data without message boundaries is a byte stream, usually of HTTP.
        let default = match self.ppid {
            0 if whole => 0,
            0 => write.marks.reply_ppid.unwrap_or(PPID_HTTP),
            own => own,
        };
        let ppid = write.marks.set.unwrap_or(default);
        // A byte stream must arrive completely and in order. Its pieces therefore use the default delivery, and not
        // that of `write`.
        let Delivery { unordered, reliability, .. } =
            if whole { write.delivery } else { Delivery::default() };
        let stream = number(write.stream);
        let message = Message { stream, ppid, unordered, reliability, ..Message::default() };
        (message, piece)
    }
}

/// Converts the result of queuing messages.
#[inline]
fn to_write_result(queued: Result<usize, SendError>) -> Result<usize, WriteRefusal> {
    match queued {
        Ok(taken) => Ok(taken),
        Err(SendError::Full) => Ok(0),
        Err(SendError::Closing | SendError::Unknown) => Err(WriteRefusal::Closed),
        Err(error) => Err(WriteRefusal::Failed(CloseReason::Protocol(error.to_string()))),
    }
}

impl Engine for SctpEngine {
    type Event = Event;

    #[inline]
    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>) {
        self.endpoint.handle_packet(now, packet);
    }

    #[inline]
    fn handle_batch(&mut self, now: Instant, batch: &mut RecvBatch) {
        self.endpoint.handle_batch(now, batch);
    }

    fn offloads_checksums(&self) -> bool {
        self.endpoint.offloads_checksums()
    }

    fn handle_icmp(&mut self, now: Instant, icmp: &Icmp, quoted: &[u8]) {
        self.endpoint.handle_icmp(now, icmp, quoted);
    }

    fn handle_unsent(&mut self, now: Instant, packet: Packet<'_>) {
        self.endpoint.handle_unsent(now, packet);
    }

    fn handle_routes(&mut self, now: Instant) {
        self.endpoint.handle_routes(now);
    }

    fn handle_peer(&mut self, now: Instant, peer: SocketAddr, state: PeerState) {
        self.endpoint.handle_peer(now, peer, state);
    }

    #[inline]
    fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
    }

    #[inline]
    fn poll_transmit(&mut self, now: Instant, out: &mut SendBatch) -> bool {
        self.endpoint.poll_transmit(now, out)
    }

    #[inline]
    fn poll_event(&mut self) -> Option<Event> {
        self.endpoint.poll_event()
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        self.endpoint.poll_timeout()
    }

    #[inline]
    fn has_output(&self) -> bool {
        self.endpoint.has_output()
    }

    fn set_tracing(&mut self, on: bool) {
        self.endpoint.set_tracing(on);
    }

    fn take_trace(&mut self) -> Vec<TraceRecord> {
        self.endpoint.take_trace()
    }
}

impl SessionEngine for SctpEngine {
    type Id = AssociationId;
    type Marks = Ppids;

    const ONE_STREAM: bool = false;
    const HALF_CLOSE: bool = CAPABILITIES.half_close;
    const NAME: &'static str = "sctp";

    #[inline]
    fn handle_event(host: &mut EngineHost<Self>, now: Instant, event: Event) {
        match event {
            Event::Readable { id, stream } => host.readable(id, stream.into()),
            Event::Writable { id } => host.writable(id),
            other => handle_rare(host, now, other),
        }
    }

    fn connect(&mut self, now: Instant, server: &Server) -> Result<AssociationId, ConnectError> {
        let Server { addresses, port } = server;
        let ask = Associate { peer: addresses.clone(), peer_port: *port, local_port: None, streams: None };
        let id = self.endpoint.associate(now, ask).map_err(|error| match error {
            AssociateError::NoRoute => ConnectError::NoRoute(format!("{addresses:?}")),
            AssociateError::NoPort => ConnectError::NoPort,
            error => ConnectError::Refused(error.to_string()),
        })?;
        if self.layer.is_some() {
            self.peers.extend(addresses.first().map(|first| (id, *first)));
        }
        self.ports.connected(&self.endpoint, id);
        Ok(id)
    }

    fn listen(&mut self, port: u16, _backlog: u32) -> Result<(), ListenError> {
        self.ports.listen(&mut self.endpoint, port)
    }

    fn close_listener(&mut self, port: u16) {
        self.ports.close_listener(&mut self.endpoint, port);
    }

    fn accepted(&mut self, id: AssociationId, port: u16) {
        self.ports.accepted(id, port);
    }

    fn trace_key(&self, id: AssociationId) -> u64 {
        self.endpoint.trace_key(id).unwrap_or_default()
    }

    fn peer(&self, id: AssociationId) -> Option<SocketAddr> {
        let info = self.endpoint.info(id)?;
        info.paths.first().map(|path| SocketAddr::new(path.address, info.peer_port))
    }

    fn unacknowledged(&self, id: AssociationId) -> u64 {
        self.endpoint.info(id).map_or(0, |info| info.buffered + info.probed)
    }

    fn streams(&self) -> u64 {
        self.streams.into()
    }

    fn early_data(&self, _: AssociationId) -> bool {
        self.early_data
    }

    #[inline]
    fn recv(&mut self, now: Instant, id: AssociationId, stream: StreamId, into: &mut [u8]) -> (usize, bool) {
        let (own, reply) = (self.ppid, Cell::new(None));
        let matches_ppid = |ppid| match reply_ppid_for(ppid, own) {
            None => false,
            answer => {
                reply.set(answer);
                true
            }
        };
        let read =
            self.endpoint.recv_bytes(now, id, number(stream), into, matches_ppid).unwrap_or((0, false));
        self.reply_ppid = reply.get();
        read
    }

    fn recv_part(
        &mut self,
        now: Instant,
        id: AssociationId,
        stream: StreamId,
        into: &mut [u8],
    ) -> (Option<(usize, bool)>, bool) {
        while let Some(received) = self.recv_message(now, id, stream, into) {
            if let Some(answer) = reply_ppid_for(received.ppid, self.ppid) {
                self.reply_ppid = Some(answer);
                return (Some((received.bytes, received.end_of_message)), false);
            }
        }
        (None, true)
    }

    #[inline]
    fn note_marks(&mut self, marks: &mut Ppids) {
        marks.reply_ppid = self.reply_ppid.take().or(marks.reply_ppid);
    }

    fn readable_bytes(&self, id: AssociationId, stream: StreamId) -> usize {
        self.endpoint.readable_bytes(id, number(stream))
    }

    fn has_unread(&self, id: AssociationId, stream: StreamId) -> bool {
        self.readable_bytes(id, stream) > 0
    }

    #[inline]
    fn send(
        &mut self,
        now: Instant,
        id: AssociationId,
        write: Write<Ppids>,
        from: &[u8],
    ) -> Result<usize, WriteRefusal> {
        let (message, piece) = self.message_of(id, write);
        to_write_result(self.endpoint.send_pieces(now, id, message, from, piece))
    }

    fn send_shared(
        &mut self,
        now: Instant,
        id: AssociationId,
        write: Write<Ppids>,
        from: &mut Bytes,
    ) -> Result<usize, WriteRefusal> {
        let (message, piece) = self.message_of(id, write);
        to_write_result(self.endpoint.send_shared_pieces(now, id, message, from, piece))
    }

    #[inline]
    fn recv_shared(
        &mut self,
        now: Instant,
        id: AssociationId,
        stream: StreamId,
        most: usize,
    ) -> Option<SharedBytes> {
        let (bytes, ppid) = self.endpoint.recv_shared(now, id, number(stream), most)?;
        let answer = reply_ppid_for(ppid, self.ppid);
        self.reply_ppid = answer;
        // The bytes of a message with another payload protocol identifier are dropped.
        Some(answer.map(|_| bytes).unwrap_or_default())
    }

    fn set_delivery(&mut self, now: Instant, id: AssociationId, stream: StreamId, delivery: Delivery) {
        // The scheduling value of a stream is 0 at the start. A background stream gets the value 1, so that data of
        // other streams is sent first. An error means that the association has ended, so the error is ignored.
        let _ = self.endpoint.set_stream_value(now, id, number(stream), u16::from(delivery.background));
    }

    fn set_rank(&mut self, now: Instant, id: AssociationId, stream: StreamId, rank: u32) {
        // RFC 8260 §3.4: the priority scheduler serves the stream with the lowest value first, so the rank becomes the
        // value. Other schedulers give a stream's value another meaning, or none.
        if self.endpoint.config().scheduler == SchedulerKind::Priority {
            let value = u16::try_from(rank).unwrap_or(u16::MAX);
            let _ = self.endpoint.set_stream_value(now, id, number(stream), value);
        }
    }

    fn close(&mut self, now: Instant, id: AssociationId) {
        self.endpoint.shutdown(now, id);
    }

    fn abort(&mut self, now: Instant, id: AssociationId) {
        self.endpoint.abort(now, id);
    }

    fn release(&mut self, now: Instant, id: AssociationId) {
        self.endpoint.release(now, id);
        self.ports.release(id);
        self.peers.remove(&id);
    }

    fn add_streams(&mut self, now: Instant, id: AssociationId, more: u64) -> bool {
        let more = u16::try_from(more).unwrap_or(u16::MAX);
        self.endpoint.add_streams(now, id, more, more).is_ok()
    }

    fn reset_stream(&mut self, now: Instant, id: AssociationId, stream: StreamId) -> bool {
        let stream = number(stream);
        if self.endpoint.reset_streams(now, id, Direction::Both, &[stream]).is_err() {
            return false;
        }
        self.endpoint.cancel(now, id, stream);
        true
    }

    fn discard(&mut self, now: Instant, id: AssociationId, stream: StreamId) {
        let mut buffer = [0; 4096];
        while let Ok(Some(_)) = self.endpoint.recv(now, id, number(stream), &mut buffer) {}
    }

    fn cancel(&mut self, now: Instant, id: AssociationId, stream: StreamId) {
        self.endpoint.cancel(now, id, number(stream));
    }

    fn position_after_reset(position: u64) -> u64 {
        position_after_reset(position)
    }

    /// Informs the other endpoints behind the same port about the associations of this endpoint.
    fn publish(&mut self) {
        let Some(Member { shard, directory }) = &self.member else { return };
        while let Some(claim) = self.endpoint.poll_claim() {
            directory.record(*shard, claim);
        }
    }

    fn follow_addresses(&mut self, now: Instant, present: &[IpAddr]) {
        let before: Vec<SocketAddr> = self.endpoint.addresses().to_vec();
        if let Some(first) = before.first() {
            self.port = first.port();
        }
        follow_addresses(&mut self.endpoint, now, self.port, present);
    }

    fn settings(&self) -> Box<dyn Settings> {
        let mut config = self.endpoint.config().clone();
        // `layer_overhead` follows from the protocol or layer below SCTP. The user cannot choose it, so it is not
        // reported as a setting.
        config.layer_overhead = 0;
        Box::new(config)
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.endpoint.addresses().to_vec()
    }

    fn accepted_count(&self) -> u64 {
        self.endpoint.totals().associations
    }

    fn paths(&self) -> Vec<PathFigures> {
        self.endpoint.totals().paths.iter().map(path_figures).collect()
    }

    fn on_path_event(&mut self, listener: Box<dyn Fn(PathEvent)>) {
        self.on_path_event = Some(PathListener(listener));
    }

    fn session_figures(&self, id: AssociationId) -> Option<Figures> {
        let (stats, info) = (self.endpoint.stats(id)?, self.endpoint.info(id)?);
        let current = info.paths.iter().find(|path| path.current).or(info.paths.first());
        Some(Figures {
            retransmitted: stats.retransmitted_fast + stats.retransmitted_timeout,
            cwnd: current.map_or(0, |path| path.cwnd),
            srtt: current.and_then(|path| path.srtt).unwrap_or_default(),
            gap_acknowledged: info.gap_acked,
            paths: info.paths.iter().map(path_figures).collect(),
        })
    }

    fn totals(&self) -> Totals {
        let totals = self.endpoint.totals();
        let change = |change: &anabranch_sctp::PathChange| PathChange {
            connection: change.connection,
            address: change.address,
            at: change.at,
            state: match change.state {
                anabranch_sctp::PathState::Active => PathState::Active,
                anabranch_sctp::PathState::PotentiallyFailed => PathState::PotentiallyFailed,
                _ => PathState::Failed,
            },
        };
        Totals {
            timeouts: totals.sum.t3_expirations + totals.sum.t1_expirations,
            path_changes: totals.path_changes.iter().map(change).collect(),
        }
    }
}

fn path_figures(path: &PathInfo) -> PathFigures {
    PathFigures {
        address: path.address,
        state: match path.state {
            anabranch_sctp::PathState::Active => "active",
            anabranch_sctp::PathState::PotentiallyFailed => "potentially-failed",
            anabranch_sctp::PathState::Inactive => "failed",
            anabranch_sctp::PathState::Unconfirmed => "unconfirmed",
        },
        current: path.current,
        cwnd: path.cwnd,
        acknowledged: path.stats.bytes_acked,
        received: path.stats.bytes_received,
        removed: path.removed,
    }
}

/// Handles all events except those about data.
#[cold]
fn handle_rare(host: &mut EngineHost<SctpEngine>, now: Instant, event: Event) {
    host.engine.publish();
    match event {
        Event::Readable { .. } | Event::Writable { .. } | Event::BufferedAmountLow { .. } => {}
        Event::Established { id, outbound_streams, inbound_streams } => {
            host.established(id, outbound_streams.min(inbound_streams).into());
        }
        Event::Accepted { id, port, outbound_streams, inbound_streams, .. } => {
            host.accepted(now, id, port, outbound_streams.min(inbound_streams).into());
        }
        // A session ignores the event that a further path can be used, because its data already has a path.
        Event::PathUp { .. } => {}
        Event::PathRestored { id, address } => {
            host.engine.emit_path_change(now, id, address, PathState::Active)
        }
        Event::PathPotentiallyFailed { id, address, .. } => {
            host.engine.emit_path_change(now, id, address, PathState::PotentiallyFailed);
        }
        Event::PathDown { id, address, .. } => {
            host.engine.emit_path_change(now, id, address, PathState::Failed);
        }
        Event::Interrupted { id, received, outage, from, to } => {
            let connection = host.engine.trace_key(id);
            host.engine.tell_of(
                id,
                PathEvent::Interrupted(Interruption {
                    connection,
                    from,
                    to,
                    received,
                    since: now - outage,
                    until: now,
                }),
            );
        }
        Event::StreamsAdded { id, outgoing, incoming } | Event::AddFailed { id, outgoing, incoming, .. } => {
            let info = host.engine.endpoint.info(id);
            let streams = info.map(|info| info.outbound_streams.min(info.inbound_streams).into());
            host.grown(id, (outgoing.into(), incoming.into()), streams);
        }
        // Sessions make no use of reports about abandoned or failed messages.
        Event::Abandoned { .. } | Event::SendFailed { .. } => {}
        Event::StreamsReset { id, direction, streams, idle } => {
            host.streams_reset(now, id, reset_directions(direction), &numbers(&streams), idle);
        }
        Event::AssociationReset { id, .. } => {
            host.streams_reset(now, id, reset_directions(Direction::Both), &[], false);
        }
        Event::ResetRequested { id, streams, .. } => host.reset_requested(now, id, &numbers(&streams)),
        Event::ResetFailed { id, direction, streams, .. } => {
            host.reset_failed(id, reset_directions(direction.unwrap_or(Direction::Both)), &numbers(&streams));
        }
        // Sessions make no use of events about the keys that authenticate chunks, or of the peer's error reports.
        Event::Key { .. } | Event::Adaptation { .. } | Event::PeerError { .. } => {}
        Event::AbortReason { id, reason } => host.engine.abort_reason = Some((id, reason)),
        // Sessions make no use of events about the addresses of paths.
        Event::PathAdded { .. }
        | Event::PathRemoved { .. }
        | Event::PrimaryChanged { .. }
        | Event::LocalAddress { .. } => {}
        Event::Restarted { id } => {
            // The peer has restarted, and this host no longer listens on the port. The old session ends, and no new
            // session begins.
            host.engine.endpoint.abort(now, id);
            host.wake_loop();
            host.closed(now, id, CloseReason::Reset(close_reason::RESTARTED.to_owned()));
        }
        Event::PeerShutdown { id } => host.peer_finished(id),
        Event::Closed { id, reason } => {
            let (established, accepted) = host.progress(id);
            let peer = host.engine.peers.get(&id).filter(|_| reason == EngineReason::Unreachable);
            let fault = peer.and_then(|peer| host.engine.layer.as_ref()?.loss_reason(*peer));
            if let (EngineReason::BlackHole { address, .. }, Some(told)) =
                (reason, &host.engine.on_path_event)
            {
                (told.0)(PathEvent::BlackHole { address, at: now, reason: reason.details() });
            }
            let given = host.engine.abort_reason.take().filter(|(of, _)| *of == id && established);
            let given = given.map(|(_, text)| close_reason::from_peer(&text));
            let reason = fault.or(given).unwrap_or_else(|| to_close_reason(reason, established, accepted));
            host.closed(now, id, reason);
        }
        // The event type is non-exhaustive: sessions ignore events that are added to it later.
        _ => {}
    }
}

/// The payload protocol identifiers for writes on a stream.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Ppids {
    /// The identifier that the application has set for this stream.
    pub(super) set: Option<u32>,
    /// The payload protocol identifier for the reply to the message that was last read from the stream.
    reply_ppid: Option<u32>,
}

/// Returns the payload protocol identifier for replies to messages that arrived on a byte stream with the identifier
/// `ppid`. `own` is the identifier that the application has configured, or 0. `None` means that messages with `ppid`
/// belong to other applications and are not part of the byte stream. Two such identifiers are 56 and 57, which WebRTC
/// uses for empty messages. The single byte in such a message has no meaning (RFC 8831 §6.6).
fn reply_ppid_for(ppid: u32, own: u32) -> Option<u32> {
    match ppid {
        0 | PPID_HTTP => Some(PPID_HTTP),
        _ if ppid == own => Some(own),
        // The application has configured a payload protocol identifier. Messages with another identifier are not part
        // of its byte stream.
        _ if own != 0 => None,
        // RFC 8831 §8: parts of a message may have the Partial identifiers, which are deprecated.
        WEBRTC_STRING | WEBRTC_STRING_PARTIAL => Some(WEBRTC_STRING),
        WEBRTC_BINARY | WEBRTC_BINARY_PARTIAL => Some(WEBRTC_BINARY),
        _ => None,
    }
}

/// RFC 8831 §8: the payload protocol identifiers (PPIDs) of data channel messages.
const WEBRTC_STRING: u32 = 51;
const WEBRTC_BINARY_PARTIAL: u32 = 52;
const WEBRTC_BINARY: u32 = 53;
const WEBRTC_STRING_PARTIAL: u32 = 54;

/// Converts the stream number of a session to a stream number of SCTP. Every stream number of an SCTP session fits.
fn number(stream: StreamId) -> u16 {
    u16::try_from(stream).unwrap_or(u16::MAX)
}

fn numbers(streams: &[u16]) -> Vec<StreamId> {
    streams.iter().map(|&stream| stream.into()).collect()
}

fn reset_directions(direction: Direction) -> ResetDirections {
    ResetDirections { outgoing: direction.is_outgoing(), incoming: direction.is_incoming() }
}

/// Removes the endpoint's addresses that are not in `present`, and adds the missing ones. `port` is the local UDP port,
/// or 0 for SCTP directly over IP.
pub fn follow_addresses(endpoint: &mut Endpoint, now: Instant, port: u16, present: &[IpAddr]) {
    let before: Vec<SocketAddr> = endpoint.addresses().to_vec();
    for gone in before.iter().filter(|old| !present.contains(&old.ip())) {
        endpoint.remove_address(now, gone.ip());
    }
    for &new in present.iter().filter(|new| !before.iter().any(|old| old.ip() == **new)) {
        // The MTU of the new interface is unknown, so 1500 is assumed. Probes (RFC 8899) and ICMP messages correct it.
        endpoint.add_address(now, SocketAddr::new(new, port), 1500);
    }
}

/// The lower limit, in bytes, for the size of the messages into which a byte stream is divided. The messages have
/// exactly this size while the engine does not know how much fits in a packet.
const MIN_PIECE: usize = 512;

/// The maximum size in bytes of a message made from one write on a byte stream, if messages can be interleaved.
const MAX_PIECE: usize = 64 * 1024;
