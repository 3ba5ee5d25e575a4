//! Writes the packets of a run as a trace of ns-2, for scripts that read such traces.
//!
//! ```text
//! event time from to type size flags flow source.port target.port sequence packet
//! event time from to sctp size flags flow source.port target.port chunks TSN packet stream SSN
//! ```
//!
//! The format is that of the ns Manual, chapters 26 and 36. SCTP has a line for each chunk. Node 0 is the client, and
//! the servers follow. A packet enters the network (`+`), and is then received (`r`) or dropped (`d`).
//!
//! The captures of the hosts do not show when a packet leaves a queue, so no line begins with `-`. They do not show where
//! a packet is dropped, so a drop has the time at which its packet was sent. Sequence numbers of TCP count bytes, as in
//! ns-2's FullTcp.

use anabranch_base::Ecn;
use anabranch_wire::ip::{self, protocol};
use anabranch_wire::pcap::{CaptureError, CaptureReader, Direction};
use anabranch_wire::sctp::{
    CookieAck, CookieEcho, Data, ForwardTsn, Heartbeat, HeartbeatAck, IData, IForwardTsn, Init, InitAck,
    NrSack, PacketView, RawChunk, Sack,
};
use anabranch_wire::tcp::{Flags, Segment};
use std::collections::HashMap;
use std::fmt::Write;
use std::net::IpAddr;

/// A packet that a host sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SentPacket {
    /// The time at which the packet was sent, in nanoseconds.
    pub at: u64,
    /// The node that sent the packet: 0 is the client.
    pub node: usize,
    /// The packet, from its IP header on.
    pub bytes: Vec<u8>,
    /// The times at which copies of the packet were received; empty if the packet was lost.
    pub arrivals: Vec<u64>,
}

/// Returns the trace of a run. `hosts` has the capture of each host, the client first.
///
/// # Errors
/// [`CaptureError`] if a capture is damaged.
pub fn of_run(hosts: &[&[u8]]) -> Result<String, CaptureError> {
    let sent = packets(hosts)?;
    Ok(Trace::new(&sent).lines(&sent))
}

/// Returns the packets of a run in the order in which they were sent. `hosts` has the capture of each host, the client
/// first.
///
/// # Errors
/// [`CaptureError`] if a capture is damaged.
pub fn packets(hosts: &[&[u8]]) -> Result<Vec<SentPacket>, CaptureError> {
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for (node, capture) in hosts.iter().enumerate() {
        let mut reader = CaptureReader::new(*capture)?;
        while let Some(record) = reader.next_packet()? {
            let (at, bytes) = (record.at_nanos, record.packet.to_vec());
            match record.direction {
                Some(Direction::Outbound) => sent.push(SentPacket { at, node, bytes, arrivals: Vec::new() }),
                _ => received.push((at, bytes)),
            }
        }
    }
    sent.sort_by_key(|packet| packet.at);
    received.sort_by_key(|(at, _)| *at);
    let mut by_key: HashMap<Vec<u8>, Vec<usize>> = HashMap::new();
    for (number, packet) in sent.iter().enumerate() {
        by_key.entry(key(&packet.bytes)).or_default().push(number);
    }
    for (at, bytes) in &received {
        // IP identifications repeat after 65,536 packets, so several sent packets may have the same key. The one that
        // was sent last before the arrival is the one that arrived.
        let same = by_key.get(&key(bytes)).map_or(&[][..], Vec::as_slice);
        if let Some(number) = same.iter().rfind(|number| sent[**number].at <= *at) {
            sent[*number].arrivals.push(*at);
        }
    }
    Ok(sent)
}

/// Returns the bytes that identify a packet among the packets of its host. Routers do not change these bytes.
fn key(packet: &[u8]) -> Vec<u8> {
    match packet {
        // IPv4: identification, fragment, protocol and addresses.
        [first, _, _, _, rest @ ..] if first >> 4 == 4 && rest.len() >= 16 => {
            [&rest[..4], &rest[5..6], &rest[8..16]].concat()
        }
        // IPv6 without its hop limit.
        [first, rest @ ..] if first >> 4 == 6 && rest.len() >= 39 => [&rest[..6], &rest[7..]].concat(),
        other => other.to_vec(),
    }
}

/// The properties of the whole run that are needed to write the lines of an ns-2 trace.
struct Trace {
    /// The number of the node to which each address belongs.
    nodes: HashMap<IpAddr, usize>,
    /// The number of each flow, by its two endpoints.
    flows: HashMap<[FlowEnd; 2], usize>,
    /// The first sequence number or TSN of each direction of a flow, by source and target.
    initial: HashMap<[FlowEnd; 2], u32>,
}

/// One endpoint of a flow: a node and its port. All addresses of a host count as the same endpoint.
type FlowEnd = (usize, u16);

impl Trace {
    fn new(sent: &[SentPacket]) -> Self {
        let mut trace = Self { nodes: HashMap::new(), flows: HashMap::new(), initial: HashMap::new() };
        for packet in sent {
            if let Ok(ip) = ip::Packet::parse_quoted(&packet.bytes) {
                trace.nodes.insert(ip.source, packet.node);
            }
        }
        for packet in sent {
            let Ok(ip) = ip::Packet::parse_quoted(&packet.bytes) else { continue };
            let ends = trace.ends(packet.node, &ip);
            let next = trace.flows.len();
            let mut both = ends;
            both.sort_unstable();
            trace.flows.entry(both).or_insert(next);
            let initial = match ip.protocol {
                protocol::TCP => Segment::parse(ip.payload).ok().map(|segment| segment.header.seq.0),
                protocol::SCTP => initial_tsn(ip.payload),
                _ => None,
            };
            if let Some(initial) = initial {
                trace.initial.entry(ends).or_insert(initial);
            }
        }
        trace
    }

    /// Returns the source and the target of a packet that the node `from` sent. Protocols without ports have port 0.
    fn ends(&self, from: usize, ip: &ip::Packet<'_>) -> [FlowEnd; 2] {
        // If no packet came from the target address, the target of a client is taken to be node 1, the first server.
        // The target of a server is node 0, the client.
        let to = self.nodes.get(&ip.target).copied().unwrap_or(usize::from(from == 0));
        let has_ports = [protocol::TCP, protocol::UDP, protocol::SCTP].contains(&ip.protocol);
        let port = |at: usize| match ip.payload.get(at..at + 2) {
            Some([high, low]) if has_ports => u16::from_be_bytes([*high, *low]),
            _ => 0,
        };
        [(from, port(0)), (to, port(2))]
    }

    /// Returns the trace lines of all packets, sorted by time.
    fn lines(&self, sent: &[SentPacket]) -> String {
        let mut events: Vec<(u64, char, usize)> = Vec::new();
        for (number, packet) in sent.iter().enumerate() {
            events.push((packet.at, '+', number));
            events.extend(packet.arrivals.iter().map(|at| (*at, 'r', number)));
            if packet.arrivals.is_empty() {
                events.push((packet.at, 'd', number));
            }
        }
        events.sort_by_key(|(at, ..)| *at);
        let mut out = String::new();
        for (at, event, number) in events {
            self.line(&mut out, (at, event), number, &sent[number]);
        }
        out
    }

    fn line(&self, out: &mut String, (at, event): (u64, char), number: usize, packet: &SentPacket) {
        let Ok(ip) = ip::Packet::parse_quoted(&packet.bytes) else { return };
        let ends = self.ends(packet.node, &ip);
        let [(from, source_port), (to, target_port)] = ends;
        let mut both = ends;
        both.sort_unstable();
        let (size, flow) = (packet.bytes.len(), self.flows.get(&both).copied().unwrap_or(0));
        let route = format!("{flow} {from}.{source_port} {to}.{target_port}");
        let (seconds, mut flags) = (seconds(at), flags(ip.ecn));
        if ip.protocol == protocol::SCTP {
            let chunks = self.chunks(&ip, ends);
            for (kind, tsn, stream, ssn) in &chunks {
                let count = chunks.len();
                let _ = writeln!(
                    out,
                    "{event} {seconds} {from} {to} sctp {size} {flags}{kind} {route} {count} {tsn} {number} {stream} {ssn}"
                );
            }
            return;
        }
        let (kind, sequence) = match Segment::parse(ip.payload) {
            Ok(segment) if ip.protocol == protocol::TCP => {
                if segment.header.flags.has(Flags::ECE) {
                    flags.replace_range(..1, "C");
                }
                self.tcp(&segment, ends)
            }
            _ if ip.protocol == protocol::UDP => ("udp", 0),
            _ => ("message", 0),
        };
        let _ =
            writeln!(out, "{event} {seconds} {from} {to} {kind} {size} {flags} {route} {sequence} {number}");
    }

    /// Returns the type and the number of a TCP segment for the trace. For an acknowledgement, the number is that of
    /// the acknowledged bytes. For any other segment, it is the number of the first byte, counted from 0.
    fn tcp(&self, segment: &Segment<'_>, [source, target]: [FlowEnd; 2]) -> (&'static str, u32) {
        let header = &segment.header;
        let after = |number: u32, ends: [FlowEnd; 2]| {
            let first = self.initial.get(&ends).map_or(number, |initial| initial.wrapping_add(1));
            let after = number.wrapping_sub(first);
            // The sequence number of a SYN is one less than that of the first byte. The trace shows it as 0.
            if after == u32::MAX { 0 } else { after }
        };
        let is_ack = segment.payload.is_empty() && !header.flags.has_any(Flags::SYN.with(Flags::FIN));
        match is_ack {
            true => ("ack", after(header.ack.0, [target, source])),
            false => ("tcp", after(header.seq.0, [source, target])),
        }
    }

    /// Returns the letter, TSN, stream and SSN of each chunk of an SCTP packet for the trace. The first TSN of a
    /// direction is 1.
    fn chunks(&self, ip: &ip::Packet<'_>, [source, target]: [FlowEnd; 2]) -> Vec<(char, i64, u16, u32)> {
        let Ok(view) = PacketView::parse_unverified(ip.payload) else { return Vec::new() };
        let after = |tsn: Option<u32>, ends: [FlowEnd; 2]| {
            let initial = self.initial.get(&ends).copied();
            tsn.map_or(-1, |tsn| i64::from(tsn.wrapping_sub(initial.unwrap_or(tsn)).wrapping_add(1)))
        };
        let (own, peer) = ([source, target], [target, source]);
        let chunk = |raw: RawChunk<'_>| {
            let number = |at: usize| {
                raw.value
                    .get(at..at + 4)
                    .and_then(<[u8]>::first_chunk)
                    .map(|bytes| u32::from_be_bytes(*bytes))
            };
            let short = |at: usize| {
                raw.value
                    .get(at..at + 2)
                    .and_then(<[u8]>::first_chunk)
                    .map(|bytes| u16::from_be_bytes(*bytes))
            };
            let stream = short(4).unwrap_or(u16::MAX);
            let none = (-1, u16::MAX, u32::from(u16::MAX));
            let (letter, (tsn, stream, ssn)) = match raw.kind {
                Data::KIND => ('D', (after(number(0), own), stream, short(6).map_or(0, u32::from))),
                IData::KIND => ('D', (after(number(0), own), stream, number(8).unwrap_or(0))),
                Sack::KIND => ('S', (after(number(0), peer), none.1, none.2)),
                NrSack::KIND => ('N', (after(number(0), peer), none.1, none.2)),
                Init::KIND | InitAck::KIND | CookieEcho::KIND | CookieAck::KIND => ('I', none),
                Heartbeat::KIND => ('H', none),
                HeartbeatAck::KIND => ('B', none),
                ForwardTsn::KIND | IForwardTsn::KIND => ('R', none),
                // The ns-2 trace format has no letter of its own for other types of chunks.
                _ => ('O', none),
            };
            (letter, tsn, stream, ssn)
        };
        view.chunks().framed().map(chunk).collect()
    }
}

/// Returns the initial TSN in an INIT or INIT ACK (RFC 9260 §3.3.2).
fn initial_tsn(packet: &[u8]) -> Option<u32> {
    let first = PacketView::parse_unverified(packet).ok()?.chunks().framed().next()?;
    let bytes = first.value.get(12..16)?.first_chunk()?;
    [Init::KIND, InitAck::KIND].contains(&first.kind).then(|| u32::from_be_bytes(*bytes))
}

/// Returns the flags of ns-2 that a packet's ECN bits set: `E` for congestion experienced, `N` for capable of ECN.
fn flags(ecn: Ecn) -> String {
    let experienced = if ecn == Ecn::Ce { 'E' } else { '-' };
    let capable = if ecn == Ecn::NotEct { '-' } else { 'N' };
    format!("----{experienced}-{capable}")
}

/// Returns a time in seconds as text, with as many digits as it needs.
fn seconds(nanos: u64) -> String {
    let text = format!("{}.{:09}", nanos / 1_000_000_000, nanos % 1_000_000_000);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}
