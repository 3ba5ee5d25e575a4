//! Runs the endpoint with irregular packets: valid packets at the wrong time, changed packets with corrected checksum
//! and tag, and packets that no stack sends.
//!
//! Two endpoints communicate, with the extensions that the input switches on. The input decides what happens to each
//! packet, and inserts other packets. The inserted packets use the state of the association (tags, TSNs, cookies,
//! keys), which is read from the packets on the wire.

use crate::source::Source;
use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Engine, Icmp, IcmpKind, Instant, Packet, Rng};
use anabranch_sctp::testing::transmit_all_bytes;
use anabranch_sctp::{Associate, AssociationId, Config, Endpoint, Event, Message, Reliability};
use anabranch_wire::sctp::{
    Auth, Chunk, ChunkWriter, Data, ForwardTsn, GapBlock, IData, IForwardTsn, PacketView, ReConfig,
    ReConfigParam, Sack, Skipped, SkippedMessage, Ssn, StreamList, Tsn, packet,
};
use hmac::{Hmac, Mac};
use std::net::{IpAddr, SocketAddr};

/// The packets in flight to one host, and the state of the association that these packets reveal.
#[derive(Default)]
struct OneWayState {
    ports: (u16, u16),
    tag: u32,
    /// The highest TSN that was sent to the host, and the TSN that the host has acknowledged.
    tsn: u32,
    acknowledged: u32,
    packets: Vec<Vec<u8>>,
    /// The part of the authentication key that the host's peer contributes.
    vector: Vec<u8>,
}

struct Host {
    engine: Endpoint,
    ids: Vec<AssociationId>,
    readable: Vec<(AssociationId, u16)>,
    address: SocketAddr,
}

/// If a host sends this number of packets or more at one instant, this is a packet storm, which is a failure.
const PACKETS: usize = 4_000;

/// Runs two endpoints, with the packets and events that `input` encodes.
pub fn run(input: &[u8]) {
    let mut source = Source::new(input);
    let config = configuration(&mut source);
    let host = |last: u8, seed: u64| {
        let address = SocketAddr::from(([10, 0, 0, last], 0));
        let second = SocketAddr::from(([10, 0, 1, last], 0));
        let engine = Endpoint::new(config.clone(), vec![address, second], Rng::new(seed));
        Host { engine, ids: Vec::new(), readable: Vec::new(), address }
    };
    let mut hosts = [host(1, 1), host(2, 2)];
    let mut towards = [OneWayState::default(), OneWayState::default()];
    let mut now = Instant::from_millis(1);
    hosts[1].engine.listen(80).expect("free");
    let peer = hosts[1].address;
    let id = hosts[0].engine.associate(now, Associate::to(peer, 80)).expect("an address");
    hosts[0].ids.push(id);
    // In three of four runs, all packets are delivered in order at first, so that the association is established.
    let calm = if source.one_in(4) { 0 } else { 4 };
    for _ in 0..calm {
        drain(now, &mut hosts, &mut towards);
        for to in [0, 1] {
            for bytes in std::mem::take(&mut towards[to].packets) {
                hand(now, &mut hosts, to, &bytes);
            }
        }
    }
    while !source.is_over() {
        let to = source.below(2) as usize;
        match source.below(16) {
            0..=3 => deliver(&mut source, now, &mut hosts, &mut towards, to),
            4..=9 => {
                let bytes = craft(&mut source, &towards, to);
                hand(now, &mut hosts, to, &bytes);
            }
            10 => {
                let most = Duration::from_millis(1 << source.below(18));
                now = (now + most).min(hosts[to].engine.poll_timeout().unwrap_or(now)).max(now);
                for host in &mut hosts {
                    if host.engine.poll_timeout().is_some_and(|at| at <= now) {
                        host.engine.handle_timeout(now);
                    }
                }
            }
            11 => {
                let kind = if source.one_in(2) {
                    IcmpKind::TooBig(source.number())
                } else {
                    match source.byte() {
                        u8::MAX => IcmpKind::UnknownNextHeader,
                        code => IcmpKind::Unreachable(code),
                    }
                };
                let icmp = Icmp { kind, source: hosts[to].address.ip(), target: hosts[1 - to].address.ip() };
                let quoted = towards[1 - to].packets.last().cloned().unwrap_or_default();
                hosts[to].engine.handle_icmp(now, &icmp, &quoted);
            }
            12 | 13 => speak(&mut source, now, &mut hosts[to]),
            14 => read(now, &mut hosts[to]),
            _ => {
                let raw = source.bytes(200);
                hand(now, &mut hosts, to, raw);
            }
        }
        drain(now, &mut hosts, &mut towards);
    }
    for host in &mut hosts {
        read(now, host);
    }
}

fn configuration(source: &mut Source<'_>) -> Config {
    let mut config = Config::default();
    let bits = u32::from(source.byte());
    let keys = [
        "partial_reliability",
        "interleaving",
        "auth",
        "asconf",
        "reconfig",
        "zero_checksum",
        "ecn",
        "nr_sack",
    ];
    for (n, key) in keys.iter().enumerate() {
        if *key != "asconf" || bits & 4 != 0 {
            config.set(key, if bits >> n & 1 == 1 { "yes" } else { "no" }).expect("a knob");
        }
    }
    if source.one_in(2) {
        config.set("pmtud", "plpmtud").expect("a knob");
        config.set("num_ostreams", "65535").expect("a knob");
    }
    config.set("rcvbuf", source.pick(&["3000B", "64KiB"])).expect("a knob");
    config
}

/// Takes all packets and events of both hosts.
fn drain(now: Instant, hosts: &mut [Host; 2], towards: &mut [OneWayState; 2]) {
    for (from, host) in hosts.iter_mut().enumerate() {
        let packets = transmit_all_bytes(&mut host.engine, now);
        assert!(packets.len() < PACKETS, "a packet storm");
        packets.iter().for_each(|packet| learn(&mut towards[1 - from], packet));
        while let Some(event) = host.engine.poll_event() {
            match event {
                Event::Accepted { id, .. } => host.ids.push(id),
                Event::Readable { id, stream } => host.readable.push((id, stream)),
                _ => {}
            }
        }
        let due = host.engine.poll_timeout();
        if due.is_some_and(|at| at <= now) {
            host.engine.handle_timeout(now);
            assert!(host.engine.poll_timeout().is_none_or(|at| at > now), "no progress");
        }
    }
    // Drops the oldest packets to a host if more than 64 are in flight.
    for to in [0, 1] {
        if towards[to].packets.len() > 64 {
            towards[to].packets.drain(..32);
        }
    }
}

fn learn(towards: &mut OneWayState, bytes: &[u8]) {
    let view = PacketView::parse_unverified(bytes).expect("engines send packets");
    towards.ports = (view.header.source_port, view.header.target_port);
    if view.header.tag != 0 {
        towards.tag = view.header.tag;
    }
    for chunk in view.chunks() {
        match chunk.expect("engines send good chunks") {
            Chunk::Data(data) => towards.tsn = data.tsn.0,
            Chunk::IData(data) => towards.tsn = data.tsn.0,
            Chunk::Sack(sack) => towards.acknowledged = sack.cumulative.0,
            Chunk::NrSack(nr) => towards.acknowledged = nr.sack.cumulative.0,
            Chunk::Init(init) => {
                towards.tsn = init.tsn.0.wrapping_sub(1);
                towards.vector = vector(bytes);
            }
            Chunk::InitAck(ack) => {
                towards.tsn = ack.0.tsn.0.wrapping_sub(1);
                towards.vector = vector(bytes);
            }
            _ => {}
        }
    }
    towards.packets.push(bytes.to_vec());
}

/// RFC 4895 §6.1: returns the part that an INIT or INIT ACK contributes to the key.
fn vector(bytes: &[u8]) -> Vec<u8> {
    let mut params = &bytes[packet::HEADER + 20..];
    let mut vector = Vec::new();
    while let [k0, k1, l0, l1, ..] = *params {
        let length = usize::from(u16::from_be_bytes([l0, l1]));
        if matches!(u16::from_be_bytes([k0, k1]), 0x8002..=0x8004) {
            vector.extend_from_slice(&params[..length]);
        }
        params = params.get(length.next_multiple_of(4)..).unwrap_or(&[]);
    }
    vector
}

fn hand(now: Instant, hosts: &mut [Host; 2], to: usize, payload: &[u8]) {
    let (source, target) = (hosts[1 - to].address, hosts[to].address);
    let packet = Packet { source, target, ecn: Ecn::Ce, tag: 0, payload };
    hosts[to].engine.handle_packet(now, packet);
}

/// Delivers one of the packets in flight. The packet may be changed, and a copy of it may stay in flight.
fn deliver(
    source: &mut Source<'_>,
    now: Instant,
    hosts: &mut [Host; 2],
    towards: &mut [OneWayState; 2],
    to: usize,
) {
    let packets = &mut towards[to].packets;
    if packets.is_empty() {
        return;
    }
    let at = source.below(packets.len() as u32) as usize;
    let mut bytes = if source.one_in(4) { packets[at].clone() } else { packets.remove(at) };
    if source.one_in(3) {
        for _ in 0..=source.below(4) {
            let at = packet::HEADER + source.below((bytes.len() - packet::HEADER).max(1) as u32) as usize;
            match source.below(4) {
                0 => bytes.truncate(at),
                1 => {
                    let part = source.bytes(12);
                    bytes.splice(at.min(bytes.len())..at.min(bytes.len()), part.iter().copied());
                }
                _ => {
                    if let Some(byte) = bytes.get_mut(at) {
                        *byte = source.byte();
                    }
                }
            }
        }
        if bytes.len() >= packet::HEADER {
            packet::finish(&mut bytes, 0);
        }
    }
    hand(now, hosts, to, &bytes);
}

/// Returns a packet with the right ports, mostly the right tag, and chunks with numbers near the expected numbers.
fn craft(source: &mut Source<'_>, all: &[OneWayState; 2], to: usize) -> Vec<u8> {
    let (towards, back) = (&all[to], &all[1 - to]);
    let mut bytes = Vec::new();
    let tag = if source.one_in(16) { source.number() } else { towards.tag };
    let start = packet::begin(&mut bytes, towards.ports.0.max(1), towards.ports.1.max(1), tag);
    let signed = source.one_in(3).then(|| {
        let at = bytes.len();
        Auth { key: 0, hmac: 3, mac: &[0; 32] }.emit(&mut bytes);
        at
    });
    for _ in 0..=source.below(6) {
        chunk(source, towards, back, &mut bytes);
        if bytes.len() > 1_400 {
            break;
        }
    }
    if let Some(at) = signed {
        let (one, other) = (&towards.vector, &back.vector);
        let key = if (one.len(), one) <= (other.len(), other) {
            [&one[..], other].concat()
        } else {
            [&other[..], one].concat()
        };
        let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&key).expect("any length");
        mac.update(&bytes[at..]);
        bytes[at + 8..at + 40].copy_from_slice(&mac.finalize().into_bytes());
    }
    packet::finish(&mut bytes, start);
    bytes
}

fn chunk(source: &mut Source<'_>, towards: &OneWayState, back: &OneWayState, bytes: &mut Vec<u8>) {
    let near = |source: &mut Source<'_>, base: u32| {
        let far = source.pick(&[0, 0, 0, 1, 2, 40, 60_000, 70_000, 1 << 31]);
        base.wrapping_add(far).wrapping_add(u32::from(source.byte() % 8)).wrapping_sub(2)
    };
    let stream = source.pick(&[0, 0, 1, 2, 9, 10, 65_534, 65_535]);
    let bits = source.byte();
    let (unordered, begin, end) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
    match source.below(16) {
        0 | 1 => {
            let tsn = Tsn(near(source, towards.tsn.wrapping_add(2)));
            let ssn = Ssn(source.number() as u16 % if bits & 8 != 0 { 4 } else { u16::MAX });
            let payload = source.bytes(40);
            Data { tsn, stream, ssn, unordered, begin, end, payload, ..Data::default() }.emit(bytes);
        }
        2 | 3 => {
            let tsn = Tsn(near(source, towards.tsn.wrapping_add(2)));
            let mask = if bits & 8 != 0 { 3 } else { u32::MAX };
            let (mid, fsn) = (source.number() & mask, source.number() & mask);
            let fsn = if begin { 0 } else { fsn };
            let payload = source.bytes(40);
            IData { tsn, stream, mid, fsn, unordered, begin, end, payload, ..IData::default() }.emit(bytes);
        }
        4 | 5 => {
            let cumulative = Tsn(near(source, if bits & 1 != 0 { back.tsn } else { towards.acknowledged }));
            let gaps: Vec<_> = (0..source.below(5))
                .map(|_| {
                    let start = source.number() as u16 % 64;
                    GapBlock { start, end: start.wrapping_add(u16::from(source.byte() % 8)) }
                })
                .collect();
            let duplicates: Vec<_> = (0..source.below(4)).map(|_| Tsn(near(source, back.tsn))).collect();
            Sack { cumulative, window: source.number(), gaps: &gaps, duplicates: &duplicates }.emit(bytes);
        }
        6 => {
            let skipped: Vec<_> = (0..source.below(6))
                .map(|_| Skipped {
                    stream: source.pick(&[0, 1, 9, 65_534]),
                    ssn: Ssn(source.number() as u16),
                })
                .collect();
            ForwardTsn::write(bytes, Tsn(near(source, towards.tsn)), skipped);
        }
        7 => {
            let skipped: Vec<_> = (0..source.below(6))
                .map(|_| SkippedMessage {
                    stream: source.pick(&[0, 1, 9, 65_534]),
                    unordered: source.one_in(2),
                    mid: source.number(),
                })
                .collect();
            IForwardTsn::write(bytes, Tsn(near(source, towards.tsn)), skipped);
        }
        8 => {
            let list = source.bytes(16);
            let streams = StreamList::new(&list[..list.len() & !1]);
            let request = near(source, towards.tsn.wrapping_add(2));
            let (response, last) = (near(source, back.tsn), Tsn(near(source, towards.tsn)));
            let param = match source.below(6) {
                0 => ReConfigParam::ResetOutgoing { request, response, last, streams },
                1 => ReConfigParam::ResetIncoming { request, streams },
                2 => ReConfigParam::ResetTsn { request },
                3 => ReConfigParam::AddOutgoing { request, streams: source.number() as u16 },
                4 => ReConfigParam::AddIncoming { request, streams: source.number() as u16 },
                _ => {
                    let next = source.one_in(2).then_some((last, last));
                    ReConfigParam::Response { response, result: source.below(8), next }
                }
            };
            ReConfig::write(bytes, &[param]);
        }
        9 => {
            // Builds an ASCONF or an ASCONF-ACK, with parameters of any kind.
            let serial = near(source, towards.tsn.wrapping_add(2));
            let mut chunk = ChunkWriter::open(bytes, source.pick(&[0xc1, 0x80]), 0);
            chunk.bytes(&serial.to_be_bytes());
            chunk.bytes(&[0, 5, 0, 8, 10, 0, 0, source.byte() % 4]);
            for id in 0..source.below(5) {
                let address = [0, 5, 0, 8, 10, 0, source.byte() % 3, source.byte() % 4];
                let kind = source.pick(&[0xc001, 0xc002, 0xc004, 0xc003, 0xc005, 0xc006]);
                chunk.tlv(kind, &[&id.to_be_bytes(), &address]);
            }
            chunk.close();
        }
        10 => {
            // Builds an INIT or INIT ACK.
            let mut chunk = ChunkWriter::open(bytes, source.pick(&[1, 2]), 0);
            chunk.bytes(&source.number().to_be_bytes());
            chunk.bytes(&source.number().to_be_bytes());
            chunk.bytes(&[0, source.byte(), 0, source.byte()]);
            chunk.bytes(&source.number().to_be_bytes());
            for _ in 0..source.below(5) {
                let kind = source.pick(&[
                    5, 6, 7, 9, 11, 12, 0x8000, 0x8001, 0x8002, 0x8003, 0x8004, 0x8008, 0xc000, 0xc006,
                ]);
                chunk.tlv(kind, &[source.bytes(40)]);
            }
            chunk.close();
        }
        11 => {
            // Builds a chunk with a single number: SHUTDOWN, ECNE or CWR.
            let mut chunk = ChunkWriter::open(bytes, source.pick(&[7, 12, 13]), 0);
            chunk.bytes(&near(source, back.tsn).to_be_bytes());
            chunk.close();
        }
        12 => {
            // Builds a chunk without content.
            let kind = source.pick(&[8, 11, 14, 6, 10, 4, 5, 0x84]);
            ChunkWriter::open(bytes, kind, bits & 1).close();
        }
        13 => {
            // Builds an ERROR or ABORT with causes, or a HEARTBEAT or HEARTBEAT ACK with content.
            let mut chunk = ChunkWriter::open(bytes, source.pick(&[9, 9, 9, 4, 5, 6]), bits & 1);
            for _ in 0..source.below(4) {
                chunk.tlv(u16::from(source.byte() % 16), &[source.bytes(24)]);
            }
            chunk.close();
        }
        _ => {
            let mut chunk = ChunkWriter::open(bytes, source.byte(), source.byte());
            chunk.bytes(source.bytes(60));
            chunk.close();
        }
    }
}

fn speak(source: &mut Source<'_>, now: Instant, host: &mut Host) {
    let Some(&id) = host.ids.last() else { return };
    match source.below(8) {
        0 => host.engine.shutdown(now, id),
        1 if source.one_in(4) => host.engine.abort(now, id),
        2 => host.engine.add_address(now, SocketAddr::from(([10, 0, 2, source.byte() % 4], 0)), 1_500),
        3 => host.engine.remove_address(now, IpAddr::from([10, 0, source.byte() % 3, source.byte() % 4])),
        _ => {
            let reliability = match source.below(4) {
                0 => Reliability::Retransmissions(0),
                1 => Reliability::Lifetime(Duration::from_millis(20)),
                _ => Reliability::Full,
            };
            let message = Message {
                stream: u16::from(source.byte() % 12),
                unordered: source.one_in(3),
                reliability,
                ..Message::default()
            };
            let length = 1 + source.below(4_000) as usize;
            let _ = host.engine.send(now, id, message, &vec![7; length]);
        }
    }
}

fn read(now: Instant, host: &mut Host) {
    let mut buffer = [0; 1_000];
    for (id, stream) in std::mem::take(&mut host.readable) {
        while let Ok(Some(_)) = host.engine.recv(now, id, stream, &mut buffer) {}
    }
}

/// Runs two TCP endpoints whose segments are lost, repeated, delayed or changed, as `input` decides.
pub fn tcp(input: &[u8]) {
    use anabranch_tcp::{Config, Endpoint};
    use anabranch_wire::tcp::header;
    let mut source = Source::new(input);
    let addresses = [IpAddr::from([10, 0, 0, 1]), IpAddr::from([10, 0, 0, 2])];
    let mut now = Instant::from_millis(1);
    let mut ends = addresses.map(|address| Endpoint::new(Config::default(), vec![address], Rng::new(1)));
    ends[1].listen(80, 4).expect("free");
    let id = ends[0].connect(now, Some(addresses[0]), SocketAddr::new(addresses[1], 80)).expect("a port");
    let mut flying: [Vec<Vec<u8>>; 2] = Default::default();
    while !source.is_over() {
        let to = source.below(2) as usize;
        match source.below(8) {
            0..=4 if !flying[to].is_empty() => {
                let at = source.below(flying[to].len() as u32) as usize;
                let mut bytes = if source.one_in(4) { flying[to][at].clone() } else { flying[to].remove(at) };
                if source.one_in(2) {
                    for _ in 0..=source.below(4) {
                        let at = source.below(bytes.len() as u32) as usize;
                        // Changes a byte after the ports, because a segment with other ports belongs to no connection.
                        if at >= 4 {
                            bytes[at] = source.byte();
                        }
                    }
                    header::seal(&mut bytes, addresses[1 - to], addresses[to]);
                }
                let (from, target) =
                    (SocketAddr::new(addresses[1 - to], 0), SocketAddr::new(addresses[to], 0));
                let packet = Packet { source: from, target, ecn: Ecn::Ce, tag: 0, payload: &bytes };
                ends[to].handle_packet(now, packet);
            }
            5 => {
                now += Duration::from_millis(1 << source.below(14));
                for end in &mut ends {
                    end.handle_timeout(now);
                }
            }
            6 => drop(ends[0].send(now, id, &[5; 3_000][..source.below(3_000) as usize])),
            7 if source.one_in(8) => ends[0].finish(now, id),
            _ => drop(ends[0].recv(now, id, &mut [0; 100])),
        }
        for from in [0, 1] {
            let packets = transmit_all_bytes(&mut ends[from], now);
            assert!(packets.len() < PACKETS, "a packet storm");
            let room = 100_usize.saturating_sub(flying[1 - from].len());
            flying[1 - from].extend(packets.into_iter().take(room));
            while ends[from].poll_event().is_some() {}
        }
    }
}
