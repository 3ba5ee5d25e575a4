//! How much the stack answers to a packet, in bytes: to who has not shown that it receives what is sent to it
//! (RFC 9260 §5.1.3, §12.2.4; RFC 5062), and to a peer.

use anabranch_base::{Batch, Ecn, Engine, Instant, Packet, Rng};
use anabranch_sctp::{Config, Endpoint};
use anabranch_wire::sctp::*;
use std::net::SocketAddr;

const PORT: u16 = 80;
const PEER_PORT: u16 = 5_000;
const PEER_TAG: u32 = 7;

/// A listening endpoint, and a peer that is played by hand.
struct Server {
    engine: Endpoint,
    own: SocketAddr,
    peer: SocketAddr,
    now: Instant,
    /// The endpoint's tag, once there is an association.
    tag: u32,
}

fn address(text: &str) -> SocketAddr {
    text.parse().expect("an address")
}

fn config(profile: &str, set: &[(&str, &str)]) -> Config {
    let mut config = Config::profile(profile).expect("a profile");
    set.iter().for_each(|(key, value)| config.set(key, value).expect("a knob"));
    config
}

/// A packet of these chunks.
fn packet(ports: (u16, u16), tag: u32, write: impl FnOnce(&mut Vec<u8>)) -> Vec<u8> {
    let mut bytes = Vec::new();
    let start = packet::begin(&mut bytes, ports.0, ports.1, tag);
    write(&mut bytes);
    packet::finish(&mut bytes, start);
    bytes
}

impl Server {
    fn new(config: Config, addresses: &[&str], peer: &str) -> Self {
        let addresses: Vec<_> = addresses.iter().map(|text| address(text)).collect();
        let own = addresses[0];
        let mut engine = Endpoint::new(config, addresses, Rng::new(1));
        engine.listen(PORT).expect("free");
        Self { engine, own, peer: address(peer), now: Instant::from_millis(5), tag: 0 }
    }

    /// What is answered to a packet, from whomever.
    fn ask(&mut self, source: SocketAddr, bytes: &[u8]) -> Vec<Vec<u8>> {
        let packet = Packet { source, target: self.own, ecn: Ecn::NotEct, tag: 0, payload: bytes };
        self.engine.handle_packet(self.now, packet);
        let (mut batch, mut answers) = (Batch::new(1), Vec::new());
        loop {
            batch.clear();
            if !self.engine.poll_transmit(self.now, &mut batch) {
                break;
            }
            answers.extend(batch.packets().map(|packet| packet.payload.to_vec()));
        }
        while self.engine.poll_event().is_some() {}
        answers
    }

    /// What is answered to chunks of the peer's.
    fn chunks(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> (usize, Vec<Vec<u8>>) {
        let bytes = packet((PEER_PORT, PORT), self.tag, write);
        (bytes.len(), self.ask(self.peer, &bytes))
    }

    /// The peer, whose first TSN is 1, sets up an association.
    fn associate(&mut self) -> &mut Self {
        let answers = self.ask(self.peer, &init(|_| {}));
        let view = PacketView::parse(&answers[0]).expect("a good packet");
        let Some(Ok(Chunk::InitAck(ack))) = view.chunks().next() else { panic!("an INIT ACK") };
        self.tag = ack.0.tag;
        let cookie = tlv::Tlvs::new(ack.0.params.rest()).flatten().find_map(|raw| match Param::parse(raw) {
            Ok(Param::StateCookie(cookie)) => Some(cookie.to_vec()),
            _ => None,
        });
        let cookie = cookie.expect("a cookie");
        let (_, answers) = self.chunks(|b| CookieEcho { cookie: &cookie }.emit(b));
        assert_eq!(answers.len(), 1, "a COOKIE ACK");
        self
    }
}

/// An INIT with these parameters.
fn init(params: impl FnOnce(&mut ChunkWriter<'_>)) -> Vec<u8> {
    packet((PEER_PORT, PORT), 0, |b| {
        let init = Init {
            tag: PEER_TAG,
            window: 1 << 20,
            outbound: 10,
            inbound: 10,
            tsn: Tsn(1),
            params: Params::new(&[]),
        };
        let mut chunk = init.open(b);
        params(&mut chunk);
        chunk.close();
    })
}

fn size(packets: &[Vec<u8>]) -> usize {
    packets.iter().map(Vec::len).sum()
}

fn one(tsn: u32) -> Data<'static> {
    Data { tsn: Tsn(tsn), begin: true, end: true, unordered: true, payload: b"x", ..Data::default() }
}

/// RFC 9260 §6.2: duplicates are answered at once, each packet by one SACK. Where there are hundreds of gaps to tell of,
/// those SACKs take no more bytes than the packets that draw them.
#[test]
fn duplicates_draw_no_more_than_they_are() {
    const GAPS: u32 = 1_000;
    for mtu in [1_500, 65_535] {
        let mut server = Server::new(config("modern", &[]), &["10.0.0.1:0"], "10.0.0.2:0");
        server.engine.set_mtu(server.own.ip(), mtu);
        server.associate();
        let mut largest = 0;
        for part in 0..GAPS / 50 {
            let (_, answers) = server.chunks(|b| {
                (0..50).for_each(|n| one(3 + 2 * (50 * part + n)).emit(b));
            });
            largest = largest.max(answers.iter().map(Vec::len).max().unwrap_or(0));
        }
        // What is new is answered in full, as far as one packet of an Ethernet says it.
        assert!((1_400..=1_480).contains(&largest), "MTU {mtu}: {largest} bytes");
        for (what, tsn) in [("seen before", 3), ("refused", 100_000)] {
            let (mut asked, mut answered) = (0, 0);
            for _ in 0..1_000 {
                let (bytes, answers) = server.chunks(|b| one(tsn).emit(b));
                assert_eq!(answers.len(), 1, "RFC 9260 6.2: one SACK a packet");
                (asked, answered) = (asked + bytes, answered + size(&answers));
            }
            println!("MTU {mtu}, {what}: {asked} bytes draw {answered}");
            assert!(answered <= asked + 1_480, "MTU {mtu}, {what}: {asked} bytes draw {answered}");
        }
        // Who sends something new is told everything again.
        let (_, answers) = server.chunks(|b| one(3 + 2 * GAPS).emit(b));
        assert!(size(&answers) > 1_400, "{} bytes", size(&answers));
    }
}
