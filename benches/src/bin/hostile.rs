//! Measures how much CPU time and memory hostile packets cost their receiver. The packets are the worst that we can
//! think of.
//!
//!     cargo run --release --bin hostile
//!
//! Each kind of packet is fed hundreds of times to an association. The output shows the median and the maximum of the
//! CPU time per packet, and the bytes of memory that a packet adds. The aim is at most 50 us and 64 kB per packet. A
//! packet that acknowledges many chunks cumulatively may exceed the aim, because a peer can acknowledge each chunk only
//! once. The maximum also reflects other load on the machine.

use anabranch_base::testing::{transmit_all, transmit_all_bytes};
use anabranch_base::{Ecn, Engine, Instant, Packet, Rng, SendBatch};
use anabranch_benches::{median, thread_cpu};
use anabranch_sctp::config::InitialWindow;
use anabranch_sctp::{Associate, AssociationId, Config, Endpoint, Event, Message, Reliability};
use anabranch_wire::sctp::{
    Asconf, Auth, Data, ForwardTsn, GapBlock, Heartbeat, IData, IForwardTsn, Init, PacketView, Pad, Param,
    Params, ReConfig, ReConfigParam, Sack, Shutdown, Skipped, SkippedMessage, Ssn, StreamList, Tsn, packet,
};
use hmac::{Hmac, Mac};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PACKET: usize = 1472;
const ROUNDS: u32 = 300;

/// The receiver of hostile packets: an endpoint with an association. This program writes the packets of the
/// association's peer.
struct Victim {
    engine: Endpoint,
    id: AssociationId,
    peer: SocketAddr,
    address: SocketAddr,
    ports: (u16, u16),
    tag: u32,
    /// The next TSN that the receiver (victim) expects.
    tsn: u32,
    /// The next TSN that the receiver (victim) will send.
    sends: u32,
    now: Instant,
    /// The key with which the association authenticates chunks.
    key: Vec<u8>,
    serial: u32,
}

/// One kind of hostile packet, and the settings of the receiver (victim) that gets it.
struct PacketKind {
    name: &'static str,
    /// The number of one-byte chunks that the receiver has sent and that are not acknowledged.
    outstanding: u32,
    /// The settings of the receiver and of its peer.
    settings: &'static [(&'static str, &'static str)],
    /// Whether a new receiver is created for each packet.
    fresh: bool,
}

const fn kind(name: &'static str, outstanding: u32) -> PacketKind {
    PacketKind { name, outstanding, settings: &[], fresh: false }
}

impl PacketKind {
    const fn with(self, settings: &'static [(&'static str, &'static str)]) -> Self {
        Self { settings, ..self }
    }

    const fn fresh(self) -> Self {
        Self { fresh: true, ..self }
    }
}

const MANY: &[(&str, &str)] = &[("num_ostreams", "65535")];
const FORWARD: &[(&str, &str)] = &[("num_ostreams", "65535"), ("partial_reliability", "yes")];
const MIXED: &[(&str, &str)] =
    &[("num_ostreams", "65535"), ("partial_reliability", "yes"), ("interleaving", "yes")];
const RESET: &[(&str, &str)] = &[("num_ostreams", "65535"), ("reconfig", "yes")];
const SIGNED: &[(&str, &str)] = &[("auth", "yes"), ("asconf", "yes")];

fn main() {
    println!("{:44}{:>10}{:>10}{:>12}", "us a packet; bytes it adds", "median", "most", "bytes");
    data();
    interleaved();
    sacks();
    given_up();
    stream_resets();
    addresses();
    small_and_nested();
}

fn data() {
    const CHUNKS: u32 = 72;
    let data = |victim: &Victim, chunks: &[(u32, u16, u16, bool, bool)]| {
        victim.packet(|buffer| {
            for &(ahead, stream, ssn, begin, end) in chunks {
                let tsn = Tsn(victim.tsn.wrapping_add(ahead));
                Data { tsn, stream, ssn: Ssn(ssn), begin, end, payload: b"x", ..Data::default() }
                    .emit(buffer);
            }
        })
    };
    show(kind("DATA: fragments strewn over all TSNs", 1), |victim, rng, _| {
        let strewn = |_| (1 + rng.below(65_000) as u32, 0, 0, false, false);
        data(victim, &(0..CHUNKS).map(strewn).collect::<Vec<_>>())
    });
    show(kind("DATA: beginnings strewn over all TSNs", 1), |victim, rng, _| {
        let strewn = |_| (1 + 2 * rng.below(32_000) as u32, 0, rng.below(30_000) as u16, true, false);
        data(victim, &(0..CHUNKS).map(strewn).collect::<Vec<_>>())
    });
    show(kind("DATA: whole messages, numbers at random", 1), |victim, _, round| {
        // No SSN occurs twice, even in different rounds. Consecutive chunks do not have consecutive SSNs.
        let ssn = |n: u32| (1 + u64::from(n) * 7_919 % 32_749) as u16;
        let first = round * CHUNKS;
        data(victim, &(first..first + CHUNKS).map(|n| (1 + n, 0, ssn(n), true, true)).collect::<Vec<_>>())
    });
    show(kind("DATA: each chunk on a stream of its own", 1).with(MANY), |victim, _, round| {
        let first = round * CHUNKS;
        let stream = |n: u32| (u64::from(n) * 7_919 % 65_521) as u16;
        data(victim, &(first..first + CHUNKS).map(|n| (n, stream(n), 0, true, true)).collect::<Vec<_>>())
    });
}

fn interleaved() {
    const CHUNKS: u32 = 60;
    let show_idata = |name, make: fn(u32, &mut Rng) -> IData<'static>| {
        show(kind(name, 1).with(MIXED), |victim, rng, round| {
            victim.packet(|buffer| {
                for n in round * CHUNKS..(round + 1) * CHUNKS {
                    let tsn = Tsn(victim.tsn.wrapping_add(n));
                    IData { tsn, payload: b"x", ..make(n, rng) }.emit(buffer);
                }
            })
        });
    };
    show_idata("I-DATA: fragments far ahead of their turn", |n, rng| IData {
        stream: (u64::from(n) * 7_919 % 65_521) as u16,
        mid: rng.next_u32() >> 1,
        fsn: 1 + (rng.next_u32() >> 2),
        unordered: n % 2 == 0,
        ..IData::default()
    });
    show_idata("I-DATA: fragments of one message, strewn", |n, _| IData {
        fsn: 1 + (u64::from(n) * 7_919 % 32_749) as u32,
        ..IData::default()
    });
    show_idata("I-DATA: messages on a stream each", |n, _| IData {
        stream: (u64::from(n) * 7_919 % 65_521) as u16,
        begin: true,
        end: true,
        ..IData::default()
    });
    show_idata("I-DATA: beginnings on a stream each", |n, _| IData {
        stream: (u64::from(n) * 7_919 % 65_521) as u16,
        unordered: n % 2 == 0,
        begin: true,
        ..IData::default()
    });
}

fn sacks() {
    let sack = |victim: &Victim, ahead: u32, gaps: &[GapBlock], duplicates: &[Tsn]| {
        let cumulative = Tsn(victim.sends.wrapping_sub(1).wrapping_add(ahead));
        victim.packet(|buffer| Sack { cumulative, window: 1 << 20, gaps, duplicates }.emit(buffer))
    };
    show(kind("SACK: gap blocks, other ones each time", 32_000), |victim, rng, _| {
        let mut gaps = Vec::new();
        let mut at = 2 + rng.below(60) as u16;
        while gaps.len() < 350 && at < 31_900 {
            let end = at + rng.below(80) as u16;
            gaps.push(GapBlock { start: at, end });
            at = end + 2 + rng.below(20) as u16;
        }
        sack(victim, 0, &gaps, &[])
    });
    show(kind("SACK: all acknowledged, then taken back", 32_000), |victim, _, round| {
        let gaps = [GapBlock { start: 2, end: 31_999 }];
        sack(victim, 0, if round.is_multiple_of(2) { &gaps } else { &[] }, &[])
    });
    show(kind("SACK: the first and the last in turn", 32_000), |victim, _, round| {
        let n = (round % 300) as u16;
        let gaps = [GapBlock { start: 2 + n, end: 2 + n }, GapBlock { start: 31_600 + n, end: 31_600 + n }];
        sack(victim, 0, &gaps, &[])
    });
    show(kind("SACK: acknowledges all 32,000 for good", 32_000).fresh(), |victim, _, _| {
        sack(victim, 32_000, &[], &[])
    });
    show(
        kind("SACK: 32,000 that might be given up, for good", 32_000).with(FORWARD).fresh(),
        |victim, _, _| sack(victim, 32_000, &[], &[]),
    );
    show(kind("SACK: 340 duplicates", 32_000), |victim, rng, _| {
        let duplicates: Vec<_> =
            (0..340).map(|_| Tsn(victim.sends.wrapping_add(rng.below(32_000) as u32))).collect();
        sack(victim, 0, &[], &duplicates)
    });
    show(kind("SHUTDOWN: 180, each acknowledges more", 32_000).fresh(), |victim, _, _| {
        victim.packet(|buffer| {
            for n in 1..=180 {
                Shutdown { cumulative: Tsn(victim.sends.wrapping_add(n * 170)) }.emit(buffer);
            }
        })
    });
}

fn given_up() {
    show(kind("FORWARD TSN: 355 streams, others each time", 1).with(FORWARD), |victim, _, round| {
        let skipped = (0..355).map(|n| Skipped {
            stream: (u64::from(round * 355 + n) * 7_919 % 65_521) as u16,
            ssn: Ssn(n as u16),
        });
        victim.packet(|buffer| ForwardTsn::write(buffer, Tsn(victim.tsn.wrapping_add(round)), skipped))
    });
    show(kind("FORWARD TSN: each TSN a chunk, 120 of them", 1).with(FORWARD), |victim, _, round| {
        victim.packet(|buffer| {
            for n in 0..120 {
                ForwardTsn::write(buffer, Tsn(victim.tsn.wrapping_add(round * 120 + n)), []);
            }
        })
    });
    show(kind("I-FORWARD-TSN: 178 streams, others each time", 1).with(MIXED), |victim, rng, round| {
        let skipped = (0..178).map(|n| SkippedMessage {
            stream: (u64::from(round * 178 + n) * 7_919 % 65_521) as u16,
            unordered: n % 2 == 0,
            mid: rng.next_u32() >> 1,
        });
        victim.packet(|buffer| IForwardTsn::write(buffer, Tsn(victim.tsn.wrapping_add(round)), skipped))
    });
}

fn stream_resets() {
    let list = |round: u32| -> Vec<u8> {
        (0..700).flat_map(|n| ((u64::from(round * 700 + n) * 7_919 % 65_521) as u16).to_be_bytes()).collect()
    };
    show(kind("RE-CONFIG: 700 incoming streams are reset", 1).with(RESET), |victim, _, round| {
        let list = list(round);
        let (request, response) = (victim.tsn.wrapping_add(round), victim.sends.wrapping_sub(1));
        let (last, streams) = (Tsn(victim.tsn.wrapping_sub(1)), StreamList::new(&list));
        victim.packet(|buffer| {
            ReConfig::write(buffer, &[ReConfigParam::ResetOutgoing { request, response, last, streams }]);
        })
    });
    show(kind("RE-CONFIG: 700 outgoing streams are reset", 1).with(RESET), |victim, _, round| {
        let list = list(round);
        let (request, streams) = (victim.tsn.wrapping_add(round), StreamList::new(&list));
        victim.packet(|buffer| ReConfig::write(buffer, &[ReConfigParam::ResetIncoming { request, streams }]))
    });
    show(kind("RE-CONFIG: 120 requests", 1).with(RESET), |victim, _, round| {
        victim.packet(|buffer| {
            for n in 0..120 {
                let request = victim.tsn.wrapping_add(round * 120 + n);
                ReConfig::write(buffer, &[ReConfigParam::ResetTsn { request }]);
            }
        })
    });
}

fn addresses() {
    show(kind("ASCONF: 80 addresses to add, signed", 1).with(SIGNED), |victim, _, round| {
        victim.asconf(round, |id, chunk| {
            let address = IpAddr::V4(Ipv4Addr::from(0x0b00_0000 + round * 80 + id));
            id < 80 && Param::AddAddress { id, address }.emit(chunk)
        })
    });
    show(kind("ASCONF: 80 addresses to delete, signed", 1).with(SIGNED), |victim, _, round| {
        victim.asconf(round, |id, chunk| {
            let address = IpAddr::V4(Ipv4Addr::from(0x0b00_0000 + id));
            id < 80 && Param::DeleteAddress { id, address }.emit(chunk)
        })
    });
    show(kind("ASCONF: 330 empty unknown params, signed", 1).with(SIGNED), |victim, _, round| {
        victim.asconf(round, |id, chunk| id < 330 && chunk.tlv(0xc0ff, &[]))
    });
    show(kind("AUTH: forged, in front of 1400 bytes", 1).with(SIGNED), |victim, rng, _| {
        victim.packet(|buffer| {
            let mac: Vec<u8> = (0..32).map(|_| rng.next_u32() as u8).collect();
            Auth { key: 0, hmac: 3, mac: &mac }.emit(buffer);
            Pad { filling: &[0; 1400] }.emit(buffer);
        })
    });
    show(kind("AUTH: 35 of them", 1).with(SIGNED), |victim, _, _| {
        victim.packet(|buffer| {
            for key in 0..35 {
                Auth { key, hmac: 3, mac: &[1; 32] }.emit(buffer);
            }
        })
    });
    show(kind("INIT to a listener: 70 IPv6 addresses", 1), |victim, _, round| {
        victim.init(round, |n, chunk| {
            let address = Ipv6Addr::from(u128::from(n) + (0x2001_0db8 << 96));
            n < 70 && Param::Ipv6(address).emit(chunk)
        })
    });
    show(kind("INIT to a listener: 350 params to report", 1), |victim, _, round| {
        victim.init(round, |n, chunk| n < 350 && chunk.tlv(0xc0ff, &[]))
    });
}

fn small_and_nested() {
    show(kind("PAD: 360 of them", 1), |victim, _, _| {
        victim.packet(|buffer| (0..360).for_each(|_| Pad { filling: &[] }.emit(buffer)))
    });
    show(kind("unknown chunks to report: 360 of them", 1), |victim, _, _| {
        victim.packet(|buffer| (0..360).for_each(|_| buffer.extend_from_slice(&[0xfe, 0, 0, 4])))
    });
    show(kind("HEARTBEAT: 180 of them", 1), |victim, _, _| {
        victim.packet(|buffer| (0..180).for_each(|_| Heartbeat { info: &[], rest: &[] }.emit(buffer)))
    });
    show(kind("ERROR: 360 causes", 1), |victim, _, _| {
        victim.packet(|buffer| {
            buffer.extend_from_slice(&[9, 0, 5, 164]);
            (0..360).for_each(|n| buffer.extend_from_slice(&[0, (n % 16) as u8, 0, 4]));
        })
    });
    show(kind("ERROR: what quotes what quotes what …", 1), |victim, _, _| {
        victim.packet(|buffer| {
            // ERROR chunks are nested: each carries the cause Unrecognized Chunk Type (6), and this cause quotes the
            // next ERROR chunk.
            for n in 0..180 {
                let left = (1448 - 8 * n) as u16;
                buffer.extend_from_slice(&[9, 0, (left >> 8) as u8, left as u8]);
                buffer.extend_from_slice(&[0, 6, ((left - 4) >> 8) as u8, (left - 4) as u8]);
            }
            buffer.extend_from_slice(&[0; 8]);
        })
    });
    show(kind("ECNE and CWR: 90 of each", 1).with(&[("ecn", "yes")]), |victim, rng, _| {
        victim.packet(|buffer| {
            for n in 0..180 {
                buffer.extend_from_slice(&[12 + n % 2, 0, 0, 8]);
                buffer.extend_from_slice(&victim.sends.wrapping_add(rng.below(3) as u32).to_be_bytes());
            }
        })
    });
}

fn show(kind: PacketKind, mut build: impl FnMut(&Victim, &mut Rng, u32) -> Vec<u8>) {
    let PacketKind { name, outstanding, settings, fresh } = kind;
    let mut victim = Victim::new(outstanding, settings);
    let mut rng = Rng::new(1);
    let (mut times, mut most, mut bytes) = (Vec::new(), 0.0_f64, 0_i64);
    let mut out = SendBatch::new(1);
    for round in 0..if fresh { ROUNDS / 10 } else { ROUNDS } {
        if fresh && round > 0 {
            victim = Victim::new(outstanding, settings);
        }
        let packet = build(&victim, &mut rng, round);
        let allocated =
            |stats: stats_alloc::Stats| stats.bytes_allocated as i64 - stats.bytes_deallocated as i64;
        let before = allocated(GLOBAL.stats());
        let begin = thread_cpu();
        let payload = &packet;
        let arrived =
            Packet { source: victim.peer, target: victim.address, ecn: Ecn::NotEct, tag: 0, payload };
        victim.engine.handle_packet(victim.now, arrived);
        out.clear();
        victim.engine.poll_transmit(victim.now, &mut out);
        let time = (thread_cpu() - begin) * 1e6;
        bytes = bytes.max(allocated(GLOBAL.stats()) - before);
        times.push(time);
        most = most.max(time);
        while let Some(event) = victim.engine.poll_event() {
            assert!(!matches!(event, Event::Closed { .. }), "{name}: {event:?} in round {round}");
        }
        // Lets the receiver (victim) send its answers. Data that the congestion window does not allow yet remains
        // queued.
        for _ in 0..8 {
            out.clear();
            victim.engine.poll_transmit(victim.now, &mut out);
        }
    }
    println!("{name:44}{:10.1}{most:10.1}{bytes:12}", median(&times));
}

impl Victim {
    /// Creates a receiver of hostile packets with this number of one-byte chunks outstanding.
    fn new(outstanding: u32, settings: &[(&str, &str)]) -> Self {
        let mut config = Config::default();
        for (key, value) in [("max_burst", "0"), ("dupthresh", "3")] {
            config.set(key, value).expect("a known key");
        }
        for (key, value) in settings {
            config.set(key, value).expect("a known key");
        }
        config.iw = InitialWindow::Packets(600);
        let (own, peer) = (SocketAddr::from(([10, 0, 0, 1], 9899)), SocketAddr::from(([10, 0, 0, 2], 9899)));
        let mut engine = Endpoint::new(config.clone(), vec![own], Rng::new(1));
        let mut other = Endpoint::new(config, vec![peer], Rng::new(2));
        other.listen(80).expect("free");
        let now = Instant::ZERO;
        engine.listen(81).expect("free");
        let id = engine.associate(now, Associate::to(peer, 80)).expect("free");
        let mut seen = Vec::new();
        for _ in 0..3 {
            for from in 0..2 {
                let (a, b) = if from == 0 { (&mut engine, &mut other) } else { (&mut other, &mut engine) };
                for packet in transmit_all(a, now) {
                    b.handle_packet(now, packet.packet());
                    seen.push(packet.bytes);
                }
            }
        }
        let word = |bytes: &[u8], at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let port = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        // In INIT and INIT ACK, the initiate tag is at offset 16 of the packet, and the initial TSN at offset 28.
        let (init, ack) = (&seen[0], &seen[1]);
        let mut victim = Self {
            engine,
            id,
            peer,
            address: own,
            ports: (port(init, 2), port(init, 0)),
            tag: word(init, 16),
            tsn: word(ack, 28),
            sends: word(init, 28),
            now,
            key: association_key(init, ack),
            serial: word(ack, 28),
        };
        let limited = settings.contains(&("partial_reliability", "yes"));
        let lifetime = Reliability::Lifetime(std::time::Duration::from_secs(3600));
        let reliability = if limited { lifetime } else { Reliability::Full };
        let message = Message { reliability, ..Message::default() };
        for _ in 0..outstanding {
            victim.engine.send(now, victim.id, message, b"x").expect("room");
        }
        transmit_all_bytes(&mut victim.engine, now);
        while victim.engine.poll_event().is_some() {}
        victim
    }

    /// Returns an ASCONF that is authenticated with the peer's key. `param` is called repeatedly to append one
    /// parameter at a time, until it returns false.
    fn asconf(
        &self,
        round: u32,
        mut param: impl FnMut(u32, &mut anabranch_wire::sctp::ChunkWriter<'_>) -> bool,
    ) -> Vec<u8> {
        self.packet(|buffer| {
            let at = buffer.len();
            Auth { key: 0, hmac: 3, mac: &[0; 32] }.emit(buffer);
            let serial = self.serial.wrapping_add(round);
            let asconf = Asconf { serial, address: self.peer.ip(), params: Params::new(&[]) };
            let mut chunk = asconf.open(buffer);
            (0..).take_while(|&id| param(id, &mut chunk)).for_each(drop);
            chunk.close();
            let mut mac = Hmac::<sha2::Sha256>::new_from_slice(&self.key).expect("any length");
            mac.update(&buffer[at..]);
            buffer[at + 8..at + 40].copy_from_slice(&mac.finalize().into_bytes());
        })
    }

    /// Returns a packet with an INIT chunk that comes from another address of the peer.
    fn init(
        &self,
        round: u32,
        mut param: impl FnMut(u32, &mut anabranch_wire::sctp::ChunkWriter<'_>) -> bool,
    ) -> Vec<u8> {
        let mut buffer = Vec::with_capacity(PACKET);
        let start = packet::begin(&mut buffer, 1000 + round as u16, 81, 0);
        let init = Init {
            tag: 1 + round,
            window: 1 << 16,
            outbound_streams: 9,
            inbound_streams: 9,
            tsn: Tsn(1),
            params: Params::new(&[]),
        };
        let mut chunk = init.open(&mut buffer);
        (0..).take_while(|&n| param(n, &mut chunk)).for_each(drop);
        chunk.close();
        packet::finish(&mut buffer, start);
        assert!(buffer.len() <= PACKET, "{} bytes", buffer.len());
        buffer
    }

    fn packet(&self, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
        let mut buffer = Vec::with_capacity(PACKET);
        let start = packet::begin(&mut buffer, self.ports.0, self.ports.1, self.tag);
        write(&mut buffer);
        packet::finish(&mut buffer, start);
        assert!(buffer.len() <= PACKET, "{} bytes", buffer.len());
        buffer
    }
}

/// RFC 4895 §6.1: derives the key from the parameters of INIT and INIT ACK.
fn association_key(init: &[u8], ack: &[u8]) -> Vec<u8> {
    let vector = |bytes: &[u8]| -> Vec<u8> {
        let raw = PacketView::parse(bytes).expect("a good packet").chunks().next_raw();
        let raw = raw.expect("a chunk").expect("a good one");
        let mut params = &raw.value[16..];
        let mut vector = Vec::new();
        while let [k0, k1, l0, l1, ..] = *params {
            let length = usize::from(u16::from_be_bytes([l0, l1]));
            if matches!(u16::from_be_bytes([k0, k1]), 0x8002..=0x8004) {
                vector.extend_from_slice(&params[..length]);
            }
            params = params.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        }
        vector
    };
    let (one, other) = (vector(init), vector(ack));
    // RFC 4895 §6.1: the smaller vector comes first. If their lengths differ, the longer vector is the larger number,
    // because both begin with the same byte.
    let ordered = (one.len(), &one) <= (other.len(), &other);
    if ordered { [one, other].concat() } else { [other, one].concat() }
}
