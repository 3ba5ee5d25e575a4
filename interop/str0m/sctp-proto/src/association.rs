//! An association, with its own engine and the stream states that `sctp-proto`'s interface needs.
//!
//! A data channel is one stream in each direction, and ends when both have been reset (RFC 8831 §6.7). When the peer
//! resets its stream, this side resets the other.

use crate::config::{ClientConfig, TransportConfig};
use crate::endpoint::{AssociationEvent, ConnectError, EndpointEvent};
use crate::error::{Error, Result};
use crate::stream::{
    Channel, Chunks, PayloadProtocolIdentifier, Reset, Stream, StreamEvent, StreamId, StreamResetError,
};
use crate::{Payload, Transmit, time};
use anabranch_base::{Engine, Instant, SendBatch};
use anabranch_sctp::{
    Associate, AssociationId, AssociationState, CloseReason, Direction, Endpoint, Event as EngineEvent,
    Message, Received, ReconfigResult, ResetError, SendError,
};
use bytes::Bytes;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::time::Instant as StdInstant;

/// The number of packets in the batch that the engine fills.
const BATCH: usize = 32;

/// The number of packets after which a [`Transmit`] gets no further batch.
const PACKETS: usize = 128;

/// Why an association has ended.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AssociationError {
    #[error("{0}")]
    HandshakeFailed(#[from] Error),
    #[error("transport error")]
    TransportError,
    #[error("aborted by peer")]
    AssociationClosed,
    #[error("closed by peer")]
    ApplicationClosed,
    #[error("reset by peer")]
    Reset,
    #[error("timed out")]
    TimedOut,
    #[error("closed")]
    LocallyClosed,
}

/// What has happened to an association.
#[derive(Debug)]
#[non_exhaustive]
pub enum Event {
    Connected,
    HandshakeFailed { reason: AssociationError },
    AssociationLost { reason: AssociationError },
    Stream(StreamEvent),
    DatagramReceived,
}

/// The engine, its association, and its time.
#[derive(Debug)]
pub(crate) struct Core {
    endpoint: Endpoint,
    /// `None` on the accepting side until the peer's cookie has arrived.
    id: Option<AssociationId>,
    clock: Instant,
}

impl Core {
    /// Converts `now` to the engine's time, which never goes back.
    fn at(&mut self, now: StdInstant) -> Instant {
        self.clock = self.clock.max(time::to_engine(now));
        self.clock
    }

    pub(crate) fn recv(&mut self, stream: StreamId, into: &mut Vec<u8>) -> Option<Received> {
        let id = self.id?;
        let (begin, length) = (into.len(), self.endpoint.readable_bytes(id, stream));
        into.resize(begin + length, 0);
        let received = self.endpoint.recv(self.clock, id, stream, &mut into[begin..]).ok().flatten();
        into.truncate(begin + received.map_or(0, |received| received.bytes));
        received
    }

    pub(crate) fn send(&mut self, message: Message, payload: &[u8]) -> std::result::Result<(), SendError> {
        let id = self.id.ok_or(SendError::Unknown)?;
        self.endpoint.send(self.clock, id, message, payload)
    }

    pub(crate) fn buffered_amount(&self, stream: StreamId) -> usize {
        self.id.map_or(0, |id| self.endpoint.buffered_amount(id, stream))
    }

    pub(crate) fn set_low(&mut self, stream: StreamId, low: usize) {
        if let Some(id) = self.id {
            self.endpoint.set_buffered_amount_low(id, stream, Some(low as u64));
        }
    }

    pub(crate) fn abort(&mut self, reason: &[u8]) {
        if let Some(id) = self.id {
            self.endpoint.abort_with_reason(self.clock, id, reason);
        }
    }

    fn has_unread(&self, stream: StreamId) -> bool {
        self.id.is_some_and(|id| self.endpoint.readable_bytes(id, stream) > 0)
    }

    fn state(&self) -> Option<AssociationState> {
        Some(self.endpoint.info(self.id?)?.state)
    }
}

/// An association with one peer, and the data channels on it.
#[derive(Debug)]
pub struct Association {
    pub(crate) core: Core,
    remote: SocketAddr,
    pub(crate) max_send_message: u32,
    max_receive_message: u32,
    pub(crate) channels: BTreeMap<StreamId, Channel>,
    /// Streams whose channel has ended, and whose reset this side has requested.
    resetting: BTreeSet<StreamId>,
    /// Streams to reset when the engine accepts another request.
    waiting: VecDeque<StreamId>,
    events: VecDeque<Event>,
    endpoint_events: VecDeque<EndpointEvent>,
    established: bool,
    closed: bool,
    batch: SendBatch,
}

impl Association {
    fn new(endpoint: Endpoint, transport: &TransportConfig, remote: SocketAddr) -> Self {
        Self {
            core: Core { endpoint, id: None, clock: Instant::ZERO },
            remote,
            max_send_message: transport.max_send_message,
            max_receive_message: transport.max_receive_message,
            channels: BTreeMap::new(),
            resetting: BTreeSet::new(),
            waiting: VecDeque::new(),
            events: VecDeque::new(),
            endpoint_events: VecDeque::new(),
            established: false,
            closed: false,
            batch: SendBatch::new(BATCH),
        }
    }

    /// Creates an association that waits for the peer's INIT at the local port `port`.
    pub(crate) fn accepting(
        transport: &TransportConfig,
        payload: u32,
        port: u16,
        remote: SocketAddr,
    ) -> Result<Self> {
        let mut association = Self::new(transport.endpoint(payload)?, transport, remote);
        let listen = association.core.endpoint.listen(port);
        listen.map_err(|why| Error::Other(why.to_string()))?;
        Ok(association)
    }

    /// Creates an association that sends an INIT, or that starts with the two INIT chunks from signalling.
    pub(crate) fn connecting(
        config: &ClientConfig,
        payload: u32,
        remote: SocketAddr,
    ) -> std::result::Result<Self, ConnectError> {
        let transport = &config.transport;
        let endpoint = transport.endpoint(payload).map_err(ConnectError::Engine)?;
        let mut association = Self::new(endpoint, transport, remote);
        let Core { endpoint, id, clock } = &mut association.core;
        *clock = time::now();
        let (ours, theirs) = transport.ports;
        let ask = Associate { local_port: Some(ours), ..Associate::to_port(theirs) };
        *id = Some(match &config.snap {
            Some((local, peer)) => endpoint
                .associate_by_init(*clock, ask, local, peer)
                .map_err(|why| ConnectError::Snap(why.to_string()))?,
            None => endpoint
                .associate(*clock, ask)
                .map_err(|why| ConnectError::Engine(Error::Other(why.to_string())))?,
        });
        association.take_events();
        Ok(association)
    }

    #[must_use]
    pub fn poll(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    #[must_use]
    pub fn poll_endpoint_event(&mut self) -> Option<EndpointEvent> {
        self.endpoint_events.pop_front()
    }

    #[must_use]
    pub fn poll_timeout(&self) -> Option<StdInstant> {
        self.core.endpoint.poll_timeout().map(time::to_std)
    }

    /// Returns packets to send now.
    #[must_use]
    pub fn poll_transmit(&mut self, now: StdInstant) -> Option<Transmit> {
        let clock = self.core.at(now);
        let mut packets = Vec::new();
        while packets.len() < PACKETS {
            self.batch.clear();
            if !self.core.endpoint.poll_transmit(clock, &mut self.batch) {
                break;
            }
            let all = Bytes::copy_from_slice(self.batch.bytes());
            let stride = self.batch.stride();
            packets
                .extend((0..all.len()).step_by(stride).map(|at| all.slice(at..all.len().min(at + stride))));
        }
        self.take_events();
        if packets.is_empty() {
            return None;
        }
        let payload = Payload::RawEncode(packets);
        Some(Transmit { now, remote: self.remote, ecn: None, local_ip: None, payload })
    }

    pub fn handle_timeout(&mut self, now: StdInstant) {
        let clock = self.core.at(now);
        if self.core.endpoint.poll_timeout().is_some_and(|at| at <= clock) {
            self.core.endpoint.handle_timeout(clock);
            self.take_events();
        }
    }

    pub fn handle_event(&mut self, event: AssociationEvent) {
        let clock = self.core.at(event.now);
        self.core.endpoint.handle_datagram(clock, &event.packet);
        self.take_events();
    }

    pub fn is_handshaking(&self) -> bool {
        !self.established
    }

    pub fn is_closed(&self) -> bool {
        self.closed
    }

    pub fn is_closing(&self) -> bool {
        let closing = |state| {
            !matches!(
                state,
                AssociationState::CookieWait
                    | AssociationState::CookieEchoed
                    | AssociationState::Established
                    | AssociationState::Closed
            )
        };
        self.core.state().is_some_and(closing)
    }

    pub fn is_drained(&self) -> bool {
        self.closed
    }

    pub fn remote_addr(&self) -> SocketAddr {
        self.remote
    }

    /// Ends the association after everything that was written has been delivered.
    pub fn shutdown(&mut self) -> Result<()> {
        let Some(id) = self.core.id.filter(|_| self.core.state() == Some(AssociationState::Established))
        else {
            return Err(Error::ErrShutdownNonEstablished);
        };
        self.core.endpoint.shutdown(self.core.clock, id);
        self.take_events();
        Ok(())
    }

    pub fn close(&mut self) -> Result<()> {
        self.core.abort(b"");
        self.take_events();
        Ok(())
    }

    pub fn open_stream(
        &mut self,
        stream_identifier: StreamId,
        default_payload_type: PayloadProtocolIdentifier,
    ) -> Result<Stream<'_>> {
        if self.channels.contains_key(&stream_identifier) {
            return Err(Error::ErrStreamAlreadyExist);
        }
        if self.is_resetting(stream_identifier) {
            return Err(Error::ErrStreamResetPending);
        }
        self.begin(stream_identifier, default_payload_type);
        Ok(Stream { id: stream_identifier, association: self })
    }

    pub fn stream(&mut self, stream_identifier: StreamId) -> Result<Stream<'_>> {
        if !self.channels.contains_key(&stream_identifier) {
            return Err(Error::ErrStreamNotExisted);
        }
        Ok(Stream { id: stream_identifier, association: self })
    }

    pub fn stream_ids(&self) -> Vec<StreamId> {
        self.channels.keys().copied().collect()
    }

    pub fn set_max_send_message_size(&mut self, value: u32) {
        self.max_send_message = value;
    }

    pub(crate) fn tell(&mut self, event: StreamEvent) {
        self.events.push_back(Event::Stream(event));
    }

    fn begin(&mut self, id: StreamId, ppid: PayloadProtocolIdentifier) {
        self.channels.insert(id, Channel::new(ppid));
        self.core.set_low(id, 0);
    }

    /// Whether the reset of a stream has begun and is not complete.
    pub(crate) fn is_resetting(&self, id: StreamId) -> bool {
        self.resetting.contains(&id)
    }

    pub(crate) fn read(&mut self, id: StreamId) -> Result<Option<Chunks>> {
        let channel = self.channels.get_mut(&id).ok_or(Error::ErrStreamClosed)?;
        if !channel.readable {
            return Err(Error::ErrStreamClosed);
        }
        let most = match self.max_receive_message {
            0 => usize::MAX,
            most => most as usize,
        };
        let read = channel.read(&mut self.core, id, most);
        if read.is_err() {
            self.take_events();
        }
        self.end_if_read(id);
        read
    }

    /// Requests a reset of the outgoing stream `id`.
    pub(crate) fn ask_reset(&mut self, id: StreamId) -> Result<()> {
        let up = self.core.state() == Some(AssociationState::Established);
        let Some(association) = self.core.id.filter(|_| up) else {
            return Err(Error::ErrResetPacketInStateNotExist);
        };
        match self.core.endpoint.reset_streams(self.core.clock, association, Direction::Outgoing, &[id]) {
            Ok(()) => {}
            Err(ResetError::Busy) => self.waiting.push_back(id),
            Err(_) => return Err(Error::ErrResetPacketInStateNotExist),
        }
        if let Some(channel) = self.channels.get_mut(&id) {
            channel.reset = Reset::Asked;
        } else {
            self.resetting.insert(id);
        }
        Ok(())
    }

    /// Ends the channel if the peer has reset its stream and all data before the reset has been read.
    pub(crate) fn end_if_read(&mut self, id: StreamId) {
        let Some(channel) = self.channels.get(&id) else { return };
        if !channel.ends || channel.readable && self.core.has_unread(id) {
            return;
        }
        let reset = channel.reset;
        self.channels.remove(&id);
        self.tell(StreamEvent::Finished { id });
        match reset {
            Reset::Done => self.tell(StreamEvent::ResetComplete { id }),
            Reset::Asked => {
                self.resetting.insert(id);
            }
            Reset::No => {
                // RFC 8831 §6.7: when the peer resets its stream, this side resets the other direction.
                if self.ask_reset(id).is_err() {
                    self.tell(StreamEvent::ResetFailed { id, reason: StreamResetError::Failed });
                }
            }
        }
    }

    /// Returns the streams of a reset. An empty list stands for all streams (RFC 6525 §4.1).
    fn meant(&self, streams: Vec<StreamId>) -> Vec<StreamId> {
        if streams.is_empty() { self.stream_ids() } else { streams }
    }

    fn ask_waiting(&mut self) {
        for id in std::mem::take(&mut self.waiting) {
            let _ = self.ask_reset(id);
        }
    }

    /// Translates the engine's events to those of `sctp-proto`.
    fn take_events(&mut self) {
        while let Some(event) = self.core.endpoint.poll_event() {
            match event {
                EngineEvent::Established { .. } => self.connected(),
                EngineEvent::Accepted { id, .. } if self.core.id.is_none() => {
                    self.core.id = Some(id);
                    self.connected();
                }
                EngineEvent::Readable { stream, .. } => {
                    if !self.channels.contains_key(&stream) {
                        self.begin(stream, PayloadProtocolIdentifier::default());
                        self.tell(StreamEvent::Opened { id: stream });
                    }
                    self.tell(StreamEvent::Readable { id: stream });
                }
                EngineEvent::BufferedAmountLow { stream, .. } if self.channels.contains_key(&stream) => {
                    self.tell(StreamEvent::BufferedAmountLow { id: stream });
                }
                EngineEvent::StreamsReset { direction: Direction::Incoming, streams, .. } => {
                    for id in self.meant(streams) {
                        if let Some(channel) = self.channels.get_mut(&id) {
                            channel.ends = true;
                            self.end_if_read(id);
                        }
                    }
                }
                EngineEvent::StreamsReset { direction: Direction::Outgoing, streams, .. } => {
                    for id in streams {
                        if self.resetting.remove(&id) {
                            self.tell(StreamEvent::ResetComplete { id });
                        } else if let Some(channel) = self.channels.get_mut(&id) {
                            channel.reset = Reset::Done;
                        }
                    }
                    self.ask_waiting();
                }
                EngineEvent::ResetFailed { streams, result, .. } => {
                    let reason = match result {
                        ReconfigResult::Denied => StreamResetError::Denied,
                        _ => StreamResetError::Failed,
                    };
                    for id in streams {
                        self.tell(StreamEvent::ResetFailed { id, reason });
                    }
                    self.ask_waiting();
                }
                EngineEvent::Restarted { .. } => self.core.abort(b"restarted"),
                EngineEvent::Closed { id, reason } if Some(id) == self.core.id => self.ended(reason),
                _ => {}
            }
        }
    }

    fn connected(&mut self) {
        self.established = true;
        self.events.push_back(Event::Connected);
    }

    fn ended(&mut self, reason: CloseReason) {
        self.closed = true;
        self.channels.clear();
        self.resetting.clear();
        self.waiting.clear();
        self.endpoint_events.push_back(EndpointEvent::drained());
        let reason = match reason {
            CloseReason::Unreachable | CloseReason::ShutdownTimeout => AssociationError::TimedOut,
            CloseReason::PeerViolated(_) => AssociationError::TransportError,
            _ => AssociationError::AssociationClosed,
        };
        self.events.push_back(Event::AssociationLost { reason });
    }
}
