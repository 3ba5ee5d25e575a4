//! The QUIC connections in a capture.
//!
//! This module assigns datagrams to connections by addresses and ports, or by connection IDs after a migration. It
//! decrypts the packets whose keys are known. Initial packets need no key log. Datagrams of connections whose handshake
//! was not captured are not recognized.
//!
//! - `ladder`: frames in ladder diagrams
//! - `log`: the log of a connection in qlog format
//! - `packet`: headers and keys of packets
//! - `sender`: the packets and streams that one side sends

mod ladder;
mod log;
mod numbers;
mod packet;
mod sender;

use super::arrival::{Arrival, Endpoint, Pair, Side, endpoints};
use super::conversation::{ConversationBuilder, remark};
use super::copies;
use super::data_class::{Cause, DataClass};
use super::frame::IpPayload;
use super::handshake::{Agreed, Messages};
use super::http::Http3;
use super::key_log::{KeyLog, Label};
use super::keys::{self, Protocol, TrafficKeys};
use super::reassembly::{MAX_AHEAD, Reassembly};
use super::results::Conversation;
use super::timeline::{Ack, Data, Event};
use super::{LogOpener, PacketOutcome, Settings};
use anabranch_wire::quic::{Frame, Frames};
use anabranch_wire::udp::Datagram;
pub(super) use packet::PacketType;
use packet::{Header, MAX_ID, MAX_UPDATES, PacketKeys};
use sender::Sender;
use std::collections::BTreeMap;
use std::fmt::Write;

/// The maximum number of connection IDs of all connections.
const MAX_IDS: usize = 1 << 18;

/// The maximum number of packets of a connection that wait for the ServerHello.
const MAX_WAITING: usize = 16;
/// The possible sizes in bytes of packets that a host passes to its network card together (UDP segmentation offload).
const SEGMENTS: std::ops::RangeInclusive<usize> = 1_200..=1_500;
/// The maximum number of searches without result for the size of segmented packets, in each direction.
const MAX_SEARCHES: u32 = 8;
/// The maximum number of streams of all connections that are followed, each direction counted.
const MAX_STREAMS: usize = 1 << 18;

/// The maximum number of connections of which logs are written. Each log is an open file.
const MAX_LOGS: usize = 512;

/// The results of a datagram's packets: new connection IDs with the sides that chose them, the causes of
/// retransmissions, and the text of the ladder diagram.
type DatagramContent<'a> = (&'a mut Vec<(Vec<u8>, Side)>, &'a mut Vec<(Cause, bool)>, &'a mut String);

/// All QUIC connections of a capture.
#[derive(Default)]
pub(super) struct Connections {
    all: Vec<Connection>,
    by_pair: BTreeMap<Pair, usize>,
    /// The connection of each connection ID, and the side that chose the ID.
    by_id: BTreeMap<Vec<u8>, (usize, Side)>,
    budget: Budget,
    /// Opens the logs of the connections, if they are wanted.
    logs: Option<LogOpener>,
}

/// The memory that all connections together may still use.
pub(super) struct Budget {
    /// The number of stream bytes that may still be kept ahead of gaps.
    bytes: usize,
    /// The number of streams that may still be followed, each direction counted.
    streams: usize,
}

pub(super) struct Connection {
    pub conversation: ConversationBuilder,
    initiator: Endpoint,
    pub protocol: Protocol,
    pub agreed: Agreed,
    /// The handshake messages of each side, in Initial and in Handshake packets.
    crypto: [[(Reassembly, Messages); 2]; 2],
    /// The keys of each side for Initial, Handshake and 1-RTT packets.
    keys: [[Option<PacketKeys>; 3]; 2],
    early: Option<PacketKeys>,
    largest: [[Option<u64>; 3]; 2],
    pub senders: [Sender; 2],
    streams: BTreeMap<(u64, Side), Reassembly>,
    pub http: Http3,
    /// Whether the bytes of streams are known. A log has only their positions.
    pub has_content: bool,
    /// The length of the connection IDs that each side chose.
    id_len: [usize; 2],
    /// The packets that came before the ServerHello, with their paths. Their keys are not known yet.
    waiting: Vec<(u64, Side, usize, Vec<u8>)>,
    /// The number of packets that were decrypted, and the number of packets that could not be decrypted.
    opened: [u64; 2],
    log: Option<log::Log>,
    /// Whether the limits in the transport parameters of each side are in the timeline.
    has_limits: [bool; 2],
    /// For each side: the size of the packets that it passes to its network card together, and the number of searches
    /// for this size without result.
    segments: [(Option<usize>, u32); 2],
}

impl Default for Budget {
    fn default() -> Self {
        Self { bytes: MAX_AHEAD, streams: MAX_STREAMS }
    }
}

impl Connections {
    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Processes a datagram. `room` says whether another connection can be followed. Returns `None` if the datagram does
    /// not belong to QUIC.
    pub fn take(
        &mut self,
        at: u64,
        carried: &IpPayload<'_>,
        datagram: &Datagram<'_>,
        log: &KeyLog,
        (settings, room): (&Settings, bool),
    ) -> Option<PacketOutcome> {
        let bytes = datagram.payload;
        let (source, pair) = endpoints(carried, datagram);
        let long = Header::parse(bytes, 0).filter(|header| header.protocol.is_some());
        let first = long.filter(|header| header.kind == PacketType::Initial);
        let known = self.by_pair.get(&pair).copied().filter(|index| {
            // RFC 9000 §14.1: a client fills the datagram of its first packet. If the datagram has other connection IDs,
            // it begins another connection between the same ports.
            first.is_none_or(|header| self.all[*index].knows(&header, &self.by_id, *index))
        });
        let (index, side) = match known {
            Some(index) => (index, usize::from(source != self.all[index].initiator)),
            None => match self.by_connection_id(bytes, long.as_ref()) {
                Some((index, owner)) => (index, 1 - owner),
                None if first.is_none() || bytes.len() < 1_200 => return None,
                None if !room => return Some(PacketOutcome::NotFollowed { opening: true }),
                None => (self.begin(at, carried, datagram, settings)?, 0),
            },
        };
        self.by_pair.insert(pair, index);
        let mut arrival = Arrival::new(at, side, carried, bytes);
        (arrival.is_unique, arrival.digest) = (true, copies::digest(bytes, 0..0));
        let connection = &mut self.all[index];
        let ids = connection.datagram(&arrival, log, &mut self.budget);
        for (id, owner) in ids.into_iter().filter(|(id, _)| !id.is_empty()) {
            if self.by_id.len() < MAX_IDS {
                self.by_id.insert(id, (index, owner));
            }
        }
        Some(PacketOutcome::Counted)
    }

    /// Returns the connection of the connection ID in a datagram's first packet, and the side that chose the ID.
    fn by_connection_id(&self, bytes: &[u8], long: Option<&Header<'_>>) -> Option<(usize, Side)> {
        if let Some(header) = long {
            return self.by_id.get(header.target).copied();
        }
        // The length of the ID in a short header is not known before the connection. IDs of at least four bytes are
        // unlikely to match by chance.
        (bytes.first()? & 0xc0 == 0x40).then_some(())?;
        (4..=MAX_ID).rev().find_map(|length| self.by_id.get(bytes.get(1..1 + length)?).copied())
    }

    fn begin(
        &mut self,
        at: u64,
        carried: &IpPayload<'_>,
        datagram: &Datagram<'_>,
        settings: &Settings,
    ) -> Option<usize> {
        let arrival = Arrival::new(at, 0, carried, datagram.payload);
        let ports = [datagram.source_port, datagram.target_port];
        let mut conversation = ConversationBuilder::new(&arrival, ports, settings);
        conversation.end.how = "incomplete";
        let header = Header::parse(datagram.payload, 0)?;
        let initiator = (carried.source, datagram.source_port);
        let mut connection = Connection::new(conversation, initiator, header.protocol?);
        if let Some(open) = self.logs.as_mut().filter(|_| self.all.len() < MAX_LOGS) {
            connection.log = log::Log::begin(open, at, header.target);
        }
        self.all.push(connection);
        Some(self.all.len() - 1)
    }

    /// Writes a log of each connection that begins from now on.
    pub fn write_logs(&mut self, logs: LogOpener) {
        self.logs = Some(logs);
    }

    /// Discards the ladder diagrams of all connections.
    pub fn forget_ladders(&mut self) {
        self.all.iter_mut().for_each(|connection| connection.conversation.forget_ladder());
    }

    /// Returns the results of all connections.
    pub fn finish(self) -> Vec<Conversation> {
        self.all.into_iter().map(|connection| connection.finish()).collect()
    }
}

impl Connection {
    /// Creates a connection that has no packets yet.
    pub(super) fn new(conversation: ConversationBuilder, initiator: Endpoint, protocol: Protocol) -> Self {
        Self {
            conversation,
            initiator,
            protocol,
            agreed: Agreed::default(),
            crypto: Default::default(),
            keys: Default::default(),
            early: None,
            largest: Default::default(),
            senders: Default::default(),
            streams: BTreeMap::new(),
            http: Http3::default(),
            has_content: true,
            id_len: [0; 2],
            waiting: Vec::new(),
            opened: [0; 2],
            log: None,
            has_limits: [false; 2],
            segments: [(None, 0); 2],
        }
    }

    fn log_packet(
        &mut self,
        arrival: &Arrival<'_>,
        kind: PacketType,
        number: u64,
        (length, payload): (usize, &[u8]),
    ) {
        if let Some(log) = &mut self.log {
            log.packet(arrival.at, arrival.side, kind, number, (length, payload));
        }
    }

    /// Returns whether an Initial packet belongs to this connection.
    fn knows(&self, header: &Header<'_>, by_id: &BTreeMap<Vec<u8>, (usize, Side)>, index: usize) -> bool {
        let known = |id: &[u8]| by_id.get(id).is_some_and(|(other, _)| *other == index);
        // Until the ServerHello has arrived, the client may still send to the ID that it made up.
        self.agreed.times[2].is_none() || known(header.target) || known(header.source)
    }

    /// Processes a datagram. Returns the connection IDs that it has revealed, with the sides that chose them.
    fn datagram(&mut self, arrival: &Arrival<'_>, log: &KeyLog, budget: &mut Budget) -> Vec<(Vec<u8>, Side)> {
        let Some(path) = self.conversation.arrive(arrival) else { return Vec::new() };
        let side = arrival.side;
        let (mut ids, mut causes, mut text) = (Vec::new(), Vec::new(), String::new());
        let mut rest = arrival.bytes;
        while let Some(mut header) = Header::parse(rest, self.id_len[1 - side]) {
            // Stops at zeros behind the first packet, with which a client may fill its first datagram.
            if rest.len() < arrival.bytes.len() && rest.iter().all(|byte| *byte == 0) {
                break;
            }
            header.end = self.packet_end(side, rest, &header, log);
            let (bytes, more) = rest.split_at(header.end);
            rest = more;
            if header.protocol.is_some() {
                self.id_len[side] = header.source.len();
                ids.push((header.source.to_vec(), side));
                if side == 0 && self.agreed.times[2].is_none() {
                    ids.push((header.target.to_vec(), 1));
                }
                self.protocol = header.protocol.unwrap_or(self.protocol);
            }
            self.packet(arrival, path, (bytes, &header), log, budget, (&mut ids, &mut causes, &mut text));
        }
        self.conversation.carried_retransmitted(side, &causes);
        let state = self.senders[side].state();
        self.conversation.show_state(arrival.at, side, state);
        self.conversation.draw(arrival, |_, _| text, remark(&causes));
        if self.agreed.suite.is_some() {
            for (at, side, path, bytes) in std::mem::take(&mut self.waiting) {
                let Some(header) = Header::parse(&bytes, self.id_len[1 - side]) else { continue };
                let (mut causes, mut text) = (Vec::new(), String::new());
                let late = Arrival { at, side, bytes: &bytes, ..*arrival };
                self.packet(&late, path, (&bytes, &header), log, budget, (&mut ids, &mut causes, &mut text));
                self.conversation.carried_retransmitted(side, &causes);
            }
        }
        ids
    }

    fn packet(
        &mut self,
        arrival: &Arrival<'_>,
        path: usize,
        (bytes, header): (&[u8], &Header<'_>),
        log: &KeyLog,
        budget: &mut Budget,
        (ids, causes, text): DatagramContent<'_>,
    ) {
        let side = arrival.side;
        if !text.is_empty() {
            text.push_str(" + ");
        }
        text.push_str(header.kind.name());
        if side == 1 && matches!(header.kind, PacketType::Initial | PacketType::Retry) {
            self.conversation.event(side, Event::Answer);
        }
        if header.kind == PacketType::Retry {
            // RFC 9000 §17.2.5: after a Retry, the client begins again, with keys that belong to the server's
            // connection ID. aioquic sends another ClientHello then.
            self.keys.iter_mut().for_each(|keys| keys[0] = None);
            self.crypto[0][0] = Default::default();
            return;
        }
        if header.kind == PacketType::OneRtt
            && side == 0
            && self.agreed.times[2].is_some()
            && self.conversation.end.how == "incomplete"
        {
            // RFC 9001 §5.7: a client sends 1-RTT packets only after the handshake.
            self.conversation.end.how = "open";
        }
        let Some((number, payload)) = self.open(side, bytes, header, log, MAX_UPDATES) else {
            text.push_str(" (not decrypted)");
            let waits = header.kind != PacketType::Initial && self.agreed.suite.is_none();
            if waits && self.waiting.len() < MAX_WAITING {
                self.waiting.push((arrival.at, side, path, bytes.to_vec()));
            } else {
                self.opened[1] += 1;
            }
            return;
        };
        self.opened[0] += 1;
        self.log_packet(arrival, header.kind, number, (bytes.len(), &payload));
        self.frames(arrival, path, (header.kind, number), Frames(&payload), budget, (ids, causes, text));
    }

    /// Processes the frames of a packet.
    pub(super) fn frames<'f>(
        &mut self,
        arrival: &Arrival<'_>,
        path: usize,
        (kind, number): (PacketType, u64),
        frames: impl Iterator<Item = Frame<'f>> + Clone,
        budget: &mut Budget,
        (ids, causes, text): DatagramContent<'_>,
    ) {
        let side = arrival.side;
        let _ = write!(text, " {number}");
        if side == 0
            && kind != PacketType::ZeroRtt
            && self.conversation.handshake.rtt_ns.is_none()
            && let [_, Some(asked), Some(answered), _] = self.agreed.times
        {
            // The round-trip time has two parts: from the ClientHello to the ServerHello, and from the ServerHello to
            // the client's next packet.
            let nanos = answered.saturating_sub(asked) + arrival.at.saturating_sub(answered);
            self.conversation.handshake.rtt_ns = Some(nanos);
        }
        let space = kind.space();
        self.largest[side][space] = self.largest[side][space].max(Some(number));
        let captured = (arrival.at, arrival.number);
        if space == 2 && frames.clone().any(|frame| frame.is_ack_eliciting()) {
            let line = self.conversation.next_line();
            self.senders[side].packet(number, captured, path, line);
        } else if space == 2 {
            self.senders[side].plain_packet(number, captured);
        }
        let is_drawn = self.conversation.next_line().is_some();
        for frame in frames {
            if is_drawn {
                ladder::append(text, &frame);
            }
            match frame {
                Frame::Crypto { offset, data } if space < 2 => {
                    if space == 0 && side == 0 && offset == 0 {
                        self.conversation.request(arrival.at);
                        self.conversation.event(side, Event::Request);
                    }
                    self.crypto(arrival.at, side, space, (offset, data), budget);
                }
                Frame::Stream { id, offset, data, fin } if space == 2 && self.follows((id, side), budget) => {
                    self.stream(arrival, path, (number, id, offset, data, fin), causes);
                    if self.has_content {
                        self.content(arrival.at, side, (id, offset, data, fin), budget);
                    }
                }
                Frame::Ack(ranges) if space == 2 => self.acknowledged(arrival.at, side, &ranges),
                Frame::NewConnectionId(id) => ids.push((id.to_vec(), side)),
                Frame::Close { transport, code } => self.closed(arrival.at, side, transport, code),
                _ => self.flow_control(side, &frame),
            }
        }
    }

    /// Adds a frame of flow control to the timeline.
    fn flow_control(&mut self, side: Side, frame: &Frame<'_>) {
        let event = match *frame {
            Frame::MaxData(limit) => Event::Limit(None, limit),
            Frame::MaxStreamData { id, limit } => Event::Limit(Some(id), limit),
            Frame::DataBlocked(limit) => Event::Blocked(None, limit),
            Frame::StreamDataBlocked { id, limit } => Event::Blocked(Some(id), limit),
            Frame::MaxStreams { unidirectional, limit } => Event::StreamsLimit { unidirectional, limit },
            Frame::StreamsBlocked { unidirectional, limit } => {
                Event::StreamsBlocked { unidirectional, limit }
            }
            Frame::ResetStream(id) | Frame::StopSending(id) => {
                // Nothing waits for the limit of this stream any more, in either direction.
                self.conversation.event(1 - side, Event::Limit(Some(id), u64::MAX));
                Event::Limit(Some(id), u64::MAX)
            }
            _ => return,
        };
        self.conversation.event(side, event);
    }

    /// Returns the end of the packet at the start of `bytes`. A host may hand several packets of one size to its network
    /// card as one datagram (UDP segmentation offload). The size is not in the capture, so it is found by trying.
    fn packet_end(&mut self, side: Side, bytes: &[u8], header: &Header<'_>, log: &KeyLog) -> usize {
        let (known, failures) = self.segments[side];
        // Even a datagram that is not longer than the longest packet may consist of two packets.
        let is_short = bytes.len() <= *SEGMENTS.end();
        let is_one = is_short && known.is_none_or(|known| bytes.len() <= known);
        if header.kind != PacketType::OneRtt || is_one {
            return header.end;
        }
        let others = SEGMENTS.rev().filter(|_| failures < MAX_SEARCHES && !is_short);
        let found = known.into_iter().chain(others).find(|length| {
            let mut header = *header;
            header.end = *length;
            self.open(side, &bytes[..*length], &header, log, 1).is_some()
        });
        self.segments[side] = (found.or(known), failures + u32::from(found.is_none() && !is_short));
        found.unwrap_or(header.end)
    }

    /// Decrypts a packet. Derives the keys that it needs, if they are known by now.
    fn open(
        &mut self,
        side: Side,
        bytes: &[u8],
        header: &Header<'_>,
        log: &KeyLog,
        most_updates: u32,
    ) -> Option<(u64, Vec<u8>)> {
        let space = header.kind.space();
        let largest = self.largest[side][space];
        if header.kind == PacketType::ZeroRtt {
            return self.open_early(bytes, header, log);
        }
        if self.keys[side][space].is_none() {
            let [client, server] = match space {
                0 if side == 0 => keys::quic_initial(self.protocol, header.target)?.map(Some),
                0 => return None,
                _ => {
                    let (random, suite) = (self.agreed.client_random?, keys::suite(self.agreed.suite?)?);
                    [0, 1].map(|side| {
                        let label = if space == 1 { Label::Handshake(side) } else { Label::Traffic(side) };
                        TrafficKeys::new(suite, self.protocol, log.secret(&random, label)?)
                    })
                }
            };
            self.keys[0][space] = client.and_then(PacketKeys::new);
            self.keys[1][space] = server.and_then(PacketKeys::new);
        }
        self.keys[side][space].as_mut()?.open(bytes, header, largest, most_updates)
    }

    /// Decrypts a 0-RTT packet. The cipher suite is that of an earlier connection, and is found by trying.
    fn open_early(&mut self, bytes: &[u8], header: &Header<'_>, log: &KeyLog) -> Option<(u64, Vec<u8>)> {
        let largest = self.largest[0][2];
        if let Some(keys) = &mut self.early {
            return keys.open(bytes, header, largest, 0);
        }
        let secret = log.secret(&self.agreed.client_random?, Label::Early)?;
        keys::suites_with_secrets_of(secret.len()).find_map(|suite| {
            let mut keys = PacketKeys::new(TrafficKeys::new(suite, self.protocol, secret)?)?;
            let opened = keys.open(bytes, header, largest, 0)?;
            self.early = Some(keys);
            Some(opened)
        })
    }

    fn crypto(
        &mut self,
        at: u64,
        side: Side,
        space: usize,
        (offset, data): (u64, &[u8]),
        budget: &mut Budget,
    ) {
        let (stream, messages) = &mut self.crypto[side][space];
        let is_done = self.agreed.times[3].is_some();
        let agreed = &mut self.agreed;
        stream.add(offset as i64, data, &mut budget.bytes, |bytes| {
            messages.add(bytes, |kind, body| agreed.message(at, side, kind, body, false));
        });
        self.initial_limits(side);
        if !is_done && let [Some(first), .., Some(finished)] = self.agreed.times {
            self.conversation.handshake.took_ns = Some(finished.saturating_sub(first));
        }
    }

    /// RFC 9000 §18.2: adds the limits of flow control in the transport parameters of a side to the timeline, once.
    fn initial_limits(&mut self, side: Side) {
        const MAX_DATA: u64 = 4;
        const MAX_STREAMS: [u64; 2] = [8, 9];
        if let Some(limit) = self.parameter(side, MAX_DATA).filter(|_| !self.has_limits[side]) {
            self.has_limits[side] = true;
            self.conversation.event(side, Event::Limit(None, limit));
            for (unidirectional, key) in [false, true].into_iter().zip(MAX_STREAMS) {
                if let Some(limit) = self.parameter(side, key) {
                    self.conversation.event(side, Event::StreamsLimit { unidirectional, limit });
                }
            }
        }
    }

    /// RFC 9000 §18.2: adds the initial limit of a stream on which `side` begins to send.
    fn initial_stream_limit(&mut self, side: Side, id: u64) {
        const BIDIRECTIONAL_LOCAL: u64 = 5;
        const BIDIRECTIONAL_REMOTE: u64 = 6;
        const UNIDIRECTIONAL: u64 = 7;
        // RFC 9000 §2.1: the lowest bit names the side that opened the stream.
        let key = match (id & 2 != 0, (id & 1) as usize == side) {
            (true, _) => UNIDIRECTIONAL,
            (false, true) => BIDIRECTIONAL_REMOTE,
            (false, false) => BIDIRECTIONAL_LOCAL,
        };
        let limit = self.parameter(1 - side, key);
        if let Some(limit) = limit {
            self.conversation.event(1 - side, Event::Limit(Some(id), limit));
        }
    }

    fn parameter(&self, side: Side, key: u64) -> Option<u64> {
        let mut rest = Frames(&self.agreed.transport_parameters[side]);
        std::iter::from_fn(|| rest.parameter()).find(|(known, _)| *known == key).map(|(_, value)| value)
    }

    /// Returns whether a stream is followed in the direction of this side.
    fn follows(&mut self, stream: (u64, Side), budget: &mut Budget) -> bool {
        if !self.streams.contains_key(&stream) && budget.streams > 0 {
            budget.streams -= 1;
            self.streams.insert(stream, Reassembly::default());
            self.initial_stream_limit(stream.1, stream.0);
        }
        self.streams.contains_key(&stream)
    }

    fn stream(
        &mut self,
        arrival: &Arrival<'_>,
        path: usize,
        (number, id, offset, data, fin): (u64, u64, u64, &[u8], bool),
        causes: &mut Vec<(Cause, bool)>,
    ) {
        let side = arrival.side;
        // RFC 9000 §4.5: the largest offset of a stream is 2^62 - 1.
        let start = (offset.min(1 << 62)) as i64;
        let bytes = (start, start + data.len() as i64);
        if data.is_empty() {
            return;
        }
        let (class, fresh) = self.senders[side].stream(number, id, bytes);
        let wire = number as u32;
        self.conversation.stream(side, id, wire);
        let units = (number as i64, number as i64 + 1);
        self.conversation.classified(arrival, path, units, id, [wire, wire], class);
        let event = Data {
            units,
            stream: id,
            offset,
            bytes: data.len() as u32,
            wire_len: arrival.wire_len as u32,
            flight: self.senders[side].state().1,
            class,
            begins: false,
            ends: fin,
        };
        self.conversation.event(side, Event::Data(event));
        if let DataClass::Retransmitted { cause, spurious, .. } = class {
            causes.push((cause, spurious));
        }
        let stream = self.conversation.stream(side, id, wire);
        stream.bytes += fresh;
        stream.tsns[1] = stream.tsns[1].max(wire);
        stream.chunks += u64::from(!matches!(class, DataClass::Retransmitted { inferred: false, .. }));
        self.conversation.directions[side].bytes += fresh;
    }

    /// Reads the HTTP/3 frames in the bytes of a stream.
    fn content(
        &mut self,
        at: u64,
        side: Side,
        (id, offset, data, fin): (u64, u64, &[u8], bool),
        budget: &mut Budget,
    ) {
        let stream = self.streams.entry((id, side)).or_default();
        let http = &mut self.http;
        stream.add(offset.min(1 << 62) as i64, data, &mut budget.bytes, |bytes| {
            http.bytes(at, side, id, bytes, false)
        });
        if fin {
            stream.end = Some(offset.saturating_add(data.len() as u64).min(1 << 62) as i64);
        }
        if stream.is_done() {
            http.bytes(at, side, id, &[], true);
        }
    }

    fn acknowledged(&mut self, at: u64, side: Side, ranges: &[std::ops::RangeInclusive<u64>]) {
        let (peer, direction) = (1 - side, &mut self.conversation.directions[side]);
        direction.acks += 1;
        direction.gap_acks += u64::from(ranges.len() > 1);
        direction.most_gaps = direction.most_gaps.max(ranges.len() as u64 - 1);
        let acked = self.senders[peer].acknowledged(at, ranges);
        if let Some((path, sample)) = acked.round_trip {
            self.conversation.measured(at, peer, path, sample);
            self.conversation.directions[peer].rtt.add(sample);
        }
        for found in acked.spurious {
            self.conversation.spurious(peer, found);
        }
        let state = self.senders[peer].state();
        self.conversation.show_state(at, peer, state);
        let has_gaps = ranges.len() > 1;
        let ack = Ack { cumulative: state.0, flight: state.1, has_gaps, window: None };
        self.conversation.event(side, Event::Ack(ack));
    }

    fn closed(&mut self, at: u64, side: Side, transport: bool, code: u64) {
        let end = &mut self.conversation.end;
        if end.at_ns.is_some() {
            return;
        }
        (end.by, end.at_ns) = (Some(["A", "B"][side]), Some(at));
        // RFC 9114 §8.1: H3_NO_ERROR is 0x100.
        let is_graceful = code == 0 || !transport && code == 0x100;
        end.how = if is_graceful { "closed" } else { "abort" };
        if !is_graceful {
            let by = if transport { "transport" } else { "application" };
            end.reason = Some(format!("{by} error 0x{code:x}"));
        }
    }

    /// Returns the results of this connection.
    pub(super) fn finish(mut self) -> Conversation {
        for (direction, sender) in self.conversation.directions.iter_mut().zip(&self.senders) {
            direction.timeouts = sender.timeouts;
        }
        self.conversation.losses(|side| self.senders[side].losses());
        self.opened[1] += self.waiting.len() as u64;
        let why = self.agreed.why_sealed(self.keys[0][2].is_some());
        let protocol = if self.protocol == Protocol::Quic2 { "QUIC v2" } else { "QUIC v1" };
        (self.conversation.requests, self.conversation.requests_left_out) =
            (self.http.requests.all, self.http.requests.left_out);
        self.conversation.security =
            Some(Box::new(self.agreed.describe(protocol.to_owned(), self.opened, why)));
        self.conversation.finish("quic")
    }
}
