//! What the worst packets we can think of cost the one who receives them.
//!
//!     cargo run --release --bin hostile
//!
//! Each kind of packet is fed 300 times to an association; printed are the
//! median and the dearest in CPU time, and the bytes of memory a packet adds.
//! The aim is 50 us and 64 kB a packet, however it is built.

use anabranch_base::{Batch, Ecn, Engine, Instant, Packet, Rng};
use anabranch_benches::{median, thread_cpu};
use anabranch_sctp::config::InitialWindow;
use anabranch_sctp::{Associate, AssociationId, Config, Endpoint, Event, Message};
use anabranch_wire::sctp::{Data, GapBlock, Sack, Ssn, Tsn, packet};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::net::SocketAddr;

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

const PACKET: usize = 1472;
const ROUNDS: u32 = 300;

/// An endpoint with an association whose peer is played by hand.
struct Victim {
    engine: Endpoint,
    id: AssociationId,
    peer: SocketAddr,
    own: SocketAddr,
    ports: (u16, u16),
    tag: u32,
    /// The next TSN that the victim expects, and the next it sends.
    tsn: u32,
    sends: u32,
    now: Instant,
}

fn main() {
    println!("{:44}{:>10}{:>10}{:>12}", "us a packet; bytes it adds", "median", "most", "bytes");
    let data = |victim: &Victim, chunks: &[(u32, u16, bool, bool)]| {
        victim.packet(|buffer| {
            for &(ahead, ssn, begin, end) in chunks {
                let tsn = Tsn(victim.tsn.wrapping_add(ahead));
                Data { tsn, ssn: Ssn(ssn), begin, end, payload: b"x", ..Data::default() }.emit(buffer);
            }
        })
    };
    const CHUNKS: u32 = 72;
    show("DATA: fragments strewn over all TSNs", 1, |victim, rng, _| {
        let chunks: Vec<_> = (0..CHUNKS).map(|_| (1 + rng.below(65_000) as u32, 0, false, false)).collect();
        data(victim, &chunks)
    });
    show("DATA: beginnings strewn over all TSNs", 1, |victim, rng, _| {
        let chunks: Vec<_> = (0..CHUNKS)
            .map(|_| (1 + 2 * rng.below(32_000) as u32, rng.below(30_000) as u16, true, false))
            .collect();
        data(victim, &chunks)
    });
    show("DATA: whole messages, numbers at random", 1, |victim, _, round| {
        // Each number once, in an order that knows no next.
        let ssn = |n: u32| (1 + u64::from(n) * 7_919 % 32_749) as u16;
        let first = round * CHUNKS;
        let chunks: Vec<_> = (first..first + CHUNKS).map(|n| (1 + n, ssn(n), true, true)).collect();
        data(victim, &chunks)
    });
    show("SACK: gap blocks, other ones each time", 32_000, |victim, rng, _| {
        let mut gaps = Vec::new();
        let mut at = 2 + rng.below(60) as u16;
        while gaps.len() < 350 && at < 31_900 {
            let end = at + rng.below(80) as u16;
            gaps.push(GapBlock { start: at, end });
            at = end + 2 + rng.below(20) as u16;
        }
        victim.packet(|buffer| {
            Sack {
                cumulative: Tsn(victim.sends.wrapping_sub(1)),
                window: 1 << 20,
                gaps: &gaps,
                duplicates: &[],
            }
            .emit(buffer);
        })
    });
    show("SACK: all acknowledged, then taken back", 32_000, |victim, _, round| {
        let gaps = [GapBlock { start: 2, end: 31_999 }];
        let gaps = if round.is_multiple_of(2) { &gaps[..] } else { &[] };
        victim.packet(|buffer| {
            for _ in 0..60 {
                Sack {
                    cumulative: Tsn(victim.sends.wrapping_sub(1)),
                    window: 1 << 20,
                    gaps,
                    duplicates: &[],
                }
                .emit(buffer);
            }
        })
    });
    show("SACK: 340 duplicates", 32_000, |victim, rng, _| {
        let duplicates: Vec<_> =
            (0..340).map(|_| Tsn(victim.sends.wrapping_add(rng.below(32_000) as u32))).collect();
        victim.packet(|buffer| {
            let cumulative = Tsn(victim.sends.wrapping_sub(1));
            Sack { cumulative, window: 1 << 20, gaps: &[], duplicates: &duplicates }.emit(buffer);
        })
    });
}

fn show(what: &str, outstanding: u32, mut build: impl FnMut(&Victim, &mut Rng, u32) -> Vec<u8>) {
    let mut victim = Victim::new(outstanding);
    let mut rng = Rng::new(1);
    let (mut times, mut most, mut bytes) = (Vec::new(), 0.0_f64, 0_i64);
    let mut out = Batch::new(1);
    for round in 0..ROUNDS {
        let packet = build(&victim, &mut rng, round);
        let held = |stats: stats_alloc::Stats| stats.bytes_allocated as i64 - stats.bytes_deallocated as i64;
        let before = held(GLOBAL.stats());
        let begin = thread_cpu();
        let payload = &packet;
        let arrived = Packet { source: victim.peer, target: victim.own, ecn: Ecn::NotEct, tag: 0, payload };
        victim.engine.handle_packet(victim.now, arrived);
        out.clear();
        victim.engine.poll_transmit(victim.now, &mut out);
        let time = (thread_cpu() - begin) * 1e6;
        bytes = bytes.max(held(GLOBAL.stats()) - before);
        times.push(time);
        most = most.max(time);
        while let Some(event) = victim.engine.poll_event() {
            assert!(!matches!(event, Event::Closed { .. }), "{what}: {event:?} in round {round}");
        }
    }
    println!("{what:44}{:10.1}{most:10.1}{bytes:12}", median(&times));
}

impl Victim {
    /// With so many chunks of one byte outstanding.
    fn new(outstanding: u32) -> Self {
        let mut config = Config::default();
        for (key, value) in [("max_burst", "0"), ("dupthresh", "3")] {
            config.set(key, value).expect("a known key");
        }
        config.iw = InitialWindow::Packets(600);
        let (own, peer) = (SocketAddr::from(([10, 0, 0, 1], 9899)), SocketAddr::from(([10, 0, 0, 2], 9899)));
        let mut engine = Endpoint::new(config.clone(), vec![own], Rng::new(1));
        let mut other = Endpoint::new(config, vec![peer], Rng::new(2));
        other.listen(80).expect("free");
        let now = Instant::ZERO;
        let id = engine.associate(now, Associate::to(peer, 80)).expect("free");
        let (mut seen, mut batch) = (Vec::new(), Batch::new(1));
        for _ in 0..3 {
            for from in 0..2 {
                loop {
                    let (a, b) =
                        if from == 0 { (&mut engine, &mut other) } else { (&mut other, &mut engine) };
                    batch.clear();
                    if !a.poll_transmit(now, &mut batch) {
                        break;
                    }
                    for packet in batch.packets() {
                        seen.push(packet.payload.to_vec());
                        b.handle_packet(now, packet);
                    }
                }
            }
        }
        let word = |bytes: &[u8], at: usize| {
            u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
        };
        let port = |bytes: &[u8], at: usize| u16::from_be_bytes([bytes[at], bytes[at + 1]]);
        // INIT and INIT ACK: tag at 16, first TSN at 28.
        let (init, ack) = (&seen[0], &seen[1]);
        let mut victim = Self {
            engine,
            id,
            peer,
            own,
            ports: (port(init, 2), port(init, 0)),
            tag: word(init, 16),
            tsn: word(ack, 28),
            sends: word(init, 28),
            now,
        };
        for _ in 0..outstanding {
            victim.engine.send(now, victim.id, Message::default(), b"x").expect("room");
        }
        loop {
            batch.clear();
            if !victim.engine.poll_transmit(now, &mut batch) {
                break;
            }
        }
        while victim.engine.poll_event().is_some() {}
        victim
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
