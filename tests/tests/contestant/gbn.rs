//! Implements Go-back-N, a transport as an external author would write it. It runs over IP protocol 253 (RFC 3692, for
//! experiments), or in UDP on real networks.
//!
//! A connection is one stream of bytes in each direction, cut into segments of a fixed size. The receiver keeps
//! segments that arrive in order and drops the rest. If nothing is acknowledged for a while, the sender goes back and
//! sends all unacknowledged data again.

use anabranch_base::time::{Duration, Instant};
use anabranch_base::trace::{Limit, SendCause, TraceEvent, TraceRecord};
use anabranch_base::{Engine, Packet, SendBatch};
use anabranch_transport::capabilities::{Capabilities, LowerProtocols, Words};
use anabranch_transport::engine::{BoundHost, EngineHost, SessionEngine, Write, WriteRefusal};
use anabranch_transport::protocol::{
    Http, Protocol, RunnableProtocol, Scheme, Server, StartOptions, Starting, Totals,
};
use anabranch_transport::{CloseReason, ConnectError, Knob, ListenError, LowerProtocol, Settings, StreamId};
use anabranch_world::{DatagramSocket, Local, World};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::rc::Rc;

/// The IP protocol number of Go-back-N.
pub const PROTOCOL: u8 = 253;
/// The size of a packet's header in bytes: kind, both ports, stream offset.
const HEADER: usize = 13;
const OPEN: u8 = 0;
const OPENED: u8 = 1;
const DATA: u8 = 2;
const LAST: u8 = 3;
const ACK: u8 = 4;
const RESET: u8 = 5;
/// The size in bytes of a sender's buffer, and of a receiver's buffer for unread data.
const BUFFER: usize = 64 * 1024;
/// The maximum number of peers whose UDP ports are kept.
const MAX_PEERS: usize = 1024;
/// The number of consecutive timeouts after which a connection ends.
const MAX_TRIES: u32 = 8;

/// The settings of Go-back-N.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    window: u64,
    segment: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self { window: 16, segment: 1000 }
    }
}

impl Settings for Config {
    fn knobs(&self) -> Vec<Knob> {
        let knob = |key, value: u64, help| Knob { key, value: value.to_string(), help, source: "this test" };
        vec![
            knob("window", self.window, "segments under way: 1 to 64"),
            knob("segment", self.segment, "bytes of a segment: 100 to 1400"),
        ]
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        let within = |low, high| match value.parse::<u64>() {
            Ok(number) if (low..=high).contains(&number) => Ok(number),
            _ => Err(format!("{key}={value}: write a number from {low} to {high}")),
        };
        match key {
            "window" => self.window = within(1, 64)?,
            "segment" => self.segment = within(100, 1400)?,
            _ => return Err(format!("unknown key '{key}'")),
        }
        Ok(())
    }
}

/// The transport Go-back-N.
#[derive(Clone, Copy, Debug)]
pub struct GoBackN;

impl Protocol for GoBackN {
    fn name(&self) -> &'static str {
        "gbn"
    }

    fn capabilities(&self) -> Capabilities {
        let carriers = LowerProtocols { ip: Some(PROTOCOL), udp: None };
        let words = Words { session: ["conversation", "conversations"] };
        Capabilities { half_close: true, carriers, words, ..Capabilities::default() }
    }

    fn profiles(&self) -> &'static [&'static str] {
        &["plain"]
    }

    fn default_profile(&self) -> &'static str {
        "plain"
    }

    fn profile(&self, name: &str) -> Option<Box<dyn Settings>> {
        (name == "plain").then(|| Box::new(Config::default()) as Box<dyn Settings>)
    }
}

impl<W: World> RunnableProtocol<W> for GoBackN {
    fn start(&self, world: W, start: StartOptions) -> Starting {
        Box::pin(async move {
            let config = start.settings.downcast::<Config>()?;
            let socket = world.bind(Local::Ip { protocol: PROTOCOL }).await?;
            let engine = Endpoint { config, local: socket.local(), next_port: 40_000, ..Endpoint::default() };
            Ok(Rc::new(BoundHost::over(world, engine, socket, None)) as _)
        })
    }
}

/// Go-back-N in UDP, for real networks. Its URLs begin with `http+gbn://`.
#[derive(Clone, Copy, Debug)]
pub struct InUdp;

impl Protocol for InUdp {
    fn name(&self) -> &'static str {
        GoBackN.name()
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities { carriers: LowerProtocols { ip: None, udp: Some(UDP_PORT) }, ..GoBackN.capabilities() }
    }

    fn schemes(&self) -> &'static [Scheme] {
        &[Scheme {
            name: "gbn",
            url: Some("http+gbn"),
            port: UDP_PORT,
            in_udp: true,
            http: Some(Http::OneStream),
        }]
    }

    fn profiles(&self) -> &'static [&'static str] {
        GoBackN.profiles()
    }

    fn default_profile(&self) -> &'static str {
        GoBackN.default_profile()
    }

    fn profile(&self, name: &str) -> Option<Box<dyn Settings>> {
        GoBackN.profile(name)
    }
}

/// The default UDP port of Go-back-N.
const UDP_PORT: u16 = 9253;

impl<W: World> RunnableProtocol<W> for InUdp {
    fn start(&self, world: W, start: StartOptions) -> Starting {
        Box::pin(async move {
            let config = start.settings.downcast::<Config>()?;
            let port = match start.carrier {
                LowerProtocol::Udp { port } => port,
                LowerProtocol::Ip => 0,
            };
            let socket = world.bind(Local::Udp { port }).await?;
            // The first local port is random, so that two programs on one host have different ports.
            let next_port = 30_000 + world.rng("gbn").below(20_000) as u16;
            let engine = Endpoint { config, local: socket.local(), next_port, ..Endpoint::default() };
            Ok(Rc::new(BoundHost::over(world, engine, socket, None)) as _)
        })
    }
}

/// The identifier of a connection: the local port, and the peer's address and port.
type Id = (u16, SocketAddr);

#[derive(Debug, Default)]
pub struct Endpoint {
    config: Config,
    local: Vec<SocketAddr>,
    next_port: u16,
    listening: BTreeSet<u16>,
    connections: BTreeMap<Id, Connection>,
    /// The UDP ports of peers; 0 on IP.
    carried: BTreeMap<SocketAddr, u16>,
    /// The connections for which a reset must be sent. Either a packet has arrived for an unknown connection, or this
    /// side has aborted the connection.
    strays: VecDeque<Id>,
    events: VecDeque<Event>,
    packets: u64,
    timeouts: u64,
    trace: Option<Vec<TraceRecord>>,
}

#[derive(Debug, Default)]
struct Connection {
    /// The number of the connection, which is the initiator's port.
    key: u64,
    initiator: bool,
    established: bool,
    /// The kind of the packet without data that must be sent next; `None` if no such packet must be sent.
    due: Option<u8>,
    out: VecDeque<u8>,
    /// Three stream offsets. `base` is the offset of the first byte in `out`, `next` is the offset to send next, and
    /// `highest` is the largest value that `next` has had.
    base: u64,
    next: u64,
    highest: u64,
    finishing: bool,
    finished: bool,
    inbox: VecDeque<u8>,
    received: u64,
    peer_finished: bool,
    deadline: Option<Instant>,
    tries: u32,
    limit: Option<Limit>,
}

#[derive(Debug)]
pub enum Event {
    Established(Id),
    Accepted(Id),
    Readable(Id),
    Writable(Id),
    Closed(Id, CloseReason),
}

impl Connection {
    fn end(&self) -> u64 {
        self.base + self.out.len() as u64
    }

    fn is_over(&self) -> bool {
        self.finished && self.peer_finished && self.due.is_none() && self.inbox.is_empty()
    }
}

impl Endpoint {
    fn record(&mut self, at: Instant, key: u64, event: TraceEvent) {
        if let Some(trace) = &mut self.trace {
            trace.push(TraceRecord { at, connection: key, event });
        }
    }

    fn close_with(&mut self, now: Instant, id: Id, reason: CloseReason) {
        if let Some(connection) = self.connections.remove(&id) {
            self.record(now, connection.key, TraceEvent::Closed);
            self.events.push_back(Event::Closed(id, reason));
        }
    }

    fn write(&mut self, out: &mut SendBatch, (port, peer): Id, kind: u8, position: u64, data: &[u8]) {
        self.packets += 1;
        let udp = self.carried.get(&peer).copied().unwrap_or_default();
        (out.source, out.target, out.first_tag) =
            (self.local[0], SocketAddr::new(peer.ip(), udp), self.packets);
        out.push_with(|buffer| {
            buffer.push(kind);
            buffer.extend(port.to_be_bytes());
            buffer.extend(peer.port().to_be_bytes());
            buffer.extend(position.to_be_bytes());
            buffer.extend(data);
        });
    }

    /// Returns the segment that may be sent now: the stream offsets of its beginning and its end, and whether it ends
    /// the stream.
    fn segment(&self, connection: &Connection) -> Option<(u64, u64, bool)> {
        let (next, end) = (connection.next, connection.end());
        let last = (next + self.config.segment).min(end);
        let ends = connection.finishing && last == end;
        let allowed = next < connection.base + self.config.window * self.config.segment;
        (connection.established && allowed && (next < end || ends && next == end))
            .then_some((next, last, ends))
    }
}

impl Engine for Endpoint {
    type Event = Event;

    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>) {
        let Some((header, data)) = packet.payload.split_at_checked(HEADER) else { return };
        let port = |at: usize| u16::from_be_bytes([header[at], header[at + 1]]);
        let position = u64::from_be_bytes(header[5..].try_into().expect("eight bytes"));
        let id = (port(3), SocketAddr::new(packet.source.ip(), port(1)));
        let kind = header[0];
        if self.carried.len() < MAX_PEERS || self.carried.contains_key(&id.1) {
            self.carried.insert(id.1, packet.source.port());
        }
        if kind == OPEN && !self.connections.contains_key(&id) && self.listening.contains(&id.0) {
            let key = id.1.port().into();
            let new = Connection { key, established: true, due: Some(OPENED), ..Connection::default() };
            self.connections.insert(id, new);
            self.record(now, key, TraceEvent::Established);
            self.events.push_back(Event::Accepted(id));
            return;
        }
        let (segment, Some(connection)) = (self.config.segment, self.connections.get_mut(&id)) else {
            if kind != RESET && kind != ACK && self.strays.len() < 64 {
                self.strays.push_back(id);
            }
            return;
        };
        let key = connection.key;
        match kind {
            OPEN => connection.due = Some(OPENED),
            OPENED if !connection.established => {
                (connection.established, connection.deadline, connection.tries) = (true, None, 0);
                self.events.push_back(Event::Established(id));
                self.record(now, key, TraceEvent::Established);
            }
            DATA | LAST if connection.established => {
                connection.due = Some(ACK);
                let fits = connection.inbox.len() + data.len() <= BUFFER && data.len() as u64 <= segment;
                if position != connection.received || connection.peer_finished || !fits {
                    return;
                }
                connection.inbox.extend(data);
                // The end of the stream takes one stream offset of its own, so that it is acknowledged.
                connection.peer_finished = kind == LAST;
                connection.received += data.len() as u64 + u64::from(kind == LAST);
                let units = position..position + data.len() as u64;
                self.events.push_back(Event::Readable(id));
                self.record(now, key, TraceEvent::Received { units, packet: packet.tag });
            }
            ACK if position > connection.base || connection.finishing && position > connection.end() => {
                let acked = (position.min(connection.end()) - connection.base) as usize;
                connection.finished |= connection.finishing && position > connection.end();
                connection.out.drain(..acked);
                connection.base += acked as u64;
                connection.next = connection.next.max(connection.base);
                connection.tries = 0;
                let waits =
                    connection.base < connection.highest || connection.finishing && !connection.finished;
                connection.deadline = waits.then_some(now + TIMEOUT);
                self.events.push_back(Event::Writable(id));
            }
            RESET => self.close_with(now, id, CloseReason::Reset(String::new())),
            _ => {}
        }
    }

    fn handle_timeout(&mut self, now: Instant) {
        let due: Vec<Id> =
            self.connections.iter().filter(|(_, c)| c.deadline <= Some(now)).map(|(id, _)| *id).collect();
        for id in due {
            let Some(connection) = self.connections.get_mut(&id).filter(|c| c.deadline.is_some()) else {
                continue;
            };
            self.timeouts += 1;
            connection.tries += 1;
            connection.deadline = None;
            connection.next = connection.base;
            if connection.initiator && !connection.established {
                connection.due = Some(OPEN);
            }
            if connection.tries > MAX_TRIES {
                self.close_with(now, id, CloseReason::TimedOut(String::new()));
            }
        }
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut SendBatch) -> bool {
        if let Some(stray) = self.strays.pop_front() {
            self.write(out, stray, RESET, 0, &[]);
            return true;
        }
        let ids: Vec<Id> = self.connections.keys().copied().collect();
        for id in ids {
            let Some(mut connection) = self.connections.remove(&id) else { continue };
            let key = connection.key;
            let mut sent = true;
            if let Some(kind) = connection.due.take() {
                self.write(out, id, kind, connection.received, &[]);
                if kind == OPEN {
                    connection.deadline = Some(now + TIMEOUT);
                }
            } else if let Some((from, to, ends)) = self.segment(&connection) {
                let at = |position: u64| (position - connection.base) as usize;
                let data: Vec<u8> = connection.out.range(at(from)..at(to)).copied().collect();
                self.write(out, id, if ends { LAST } else { DATA }, from, &data);
                let cause = if from < connection.highest { SendCause::Timeout } else { SendCause::New };
                connection.next = to + u64::from(ends);
                connection.highest = connection.highest.max(connection.next);
                connection.deadline.get_or_insert(now + TIMEOUT);
                let packet = self.packets;
                if from < to {
                    let (units, bytes) = (from..to, from..to);
                    self.record(now, key, TraceEvent::Sent { units, stream: 0, bytes, packet, cause });
                }
            } else {
                sent = false;
                let waits = connection.next < connection.end();
                let limit = Some(if waits { Limit::Congestion } else { Limit::Application });
                if std::mem::replace(&mut connection.limit, limit) != limit {
                    self.record(
                        now,
                        key,
                        TraceEvent::Limited(if waits { Limit::Congestion } else { Limit::Application }),
                    );
                }
            }
            let over = connection.is_over();
            self.connections.insert(id, connection);
            if over {
                self.close_with(now, id, CloseReason::Finished);
            }
            if sent {
                return true;
            }
        }
        false
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.connections.values().filter_map(|connection| connection.deadline).min()
    }

    fn set_tracing(&mut self, on: bool) {
        self.trace = on.then(Vec::new);
    }

    fn take_trace(&mut self) -> Vec<TraceRecord> {
        self.trace.as_mut().map(std::mem::take).unwrap_or_default()
    }
}

impl SessionEngine for Endpoint {
    type Id = Id;
    type Marks = ();

    const ONE_STREAM: bool = true;
    const HALF_CLOSE: bool = true;
    const NAME: &'static str = "gbn";

    fn handle_event(host: &mut EngineHost<Self>, now: Instant, event: Event) {
        match event {
            Event::Established(id) => host.established(id, 1),
            Event::Accepted(id) => host.accepted(now, id, id.0, 1),
            Event::Readable(id) => host.readable(id, 0),
            Event::Writable(id) => host.writable(id),
            Event::Closed(id, reason) => host.closed(now, id, reason),
        }
    }

    fn connect(&mut self, now: Instant, server: &Server) -> Result<Id, ConnectError> {
        let peer = server.first().ok_or_else(|| ConnectError::NoRoute("nowhere".to_owned()))?;
        self.next_port = self.next_port.checked_add(1).ok_or(ConnectError::NoPort)?;
        let (id, key) = ((self.next_port, peer), u64::from(self.next_port));
        let new = Connection { key, initiator: true, due: Some(OPEN), ..Connection::default() };
        self.carried.insert(peer, server.addresses.first().map_or(0, SocketAddr::port));
        self.connections.insert(id, new);
        self.record(now, key, TraceEvent::Opening);
        Ok(id)
    }

    fn listen(&mut self, port: u16, _backlog: u32) -> Result<(), ListenError> {
        if self.listening.insert(port) { Ok(()) } else { Err(ListenError::PortInUse(port)) }
    }

    fn close_listener(&mut self, port: u16) {
        self.listening.remove(&port);
    }

    fn trace_key(&self, id: Id) -> u64 {
        self.connections.get(&id).map_or(0, |connection| connection.key)
    }

    fn peer(&self, id: Id) -> Option<SocketAddr> {
        Some(id.1)
    }

    fn unacknowledged(&self, id: Id) -> u64 {
        self.connections.get(&id).map_or(0, |connection| connection.out.len() as u64)
    }

    fn recv(&mut self, _: Instant, id: Id, _: StreamId, into: &mut [u8]) -> (usize, bool) {
        let Some(connection) = self.connections.get_mut(&id) else { return (0, true) };
        let count = connection.inbox.len().min(into.len());
        for (to, from) in into.iter_mut().zip(connection.inbox.drain(..count)) {
            *to = from;
        }
        (count, connection.inbox.is_empty())
    }

    fn is_finished(&self, id: Id, _: StreamId) -> bool {
        self.connections
            .get(&id)
            .is_some_and(|connection| connection.peer_finished && connection.inbox.is_empty())
    }

    fn send(&mut self, _: Instant, id: Id, _: Write<()>, from: &[u8]) -> Result<usize, WriteRefusal> {
        let connection =
            self.connections.get_mut(&id).filter(|c| !c.finishing).ok_or(WriteRefusal::Closed)?;
        let count = from.len().min(BUFFER - connection.out.len());
        connection.out.extend(&from[..count]);
        Ok(count)
    }

    fn finish(&mut self, _: Instant, id: Id, _: StreamId) {
        if let Some(connection) = self.connections.get_mut(&id) {
            connection.finishing = true;
        }
    }

    fn close(&mut self, now: Instant, id: Id) {
        self.finish(now, id, 0);
    }

    fn abort(&mut self, now: Instant, id: Id) {
        if self.connections.contains_key(&id) {
            self.strays.push_back(id);
            self.close_with(now, id, CloseReason::Aborted);
        }
    }

    fn settings(&self) -> Box<dyn Settings> {
        Box::new(self.config.clone())
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        self.local.clone()
    }

    fn totals(&self) -> Totals {
        Totals { timeouts: self.timeouts, ..Totals::default() }
    }
}

/// The time without acknowledgement after which all unacknowledged data is sent again.
const TIMEOUT: Duration = Duration::from_millis(400);
