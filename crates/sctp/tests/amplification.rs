//! Limits on the number of bytes with which the stack answers a packet (RFC 9260 §5.1.3, §12.2.4; RFC 5062). The limits
//! hold for packets of a peer, and of a source that has not shown that it receives answers.

use anabranch_base::{Ecn, Engine, Instant, Packet, Rng};
use anabranch_sctp::testing::transmit_all_bytes;
use anabranch_sctp::{Config, Endpoint};
use anabranch_wire::sctp::*;
use std::net::SocketAddr;

const PORT: u16 = 80;
const PEER_PORT: u16 = 5_000;
const PEER_TAG: u32 = 7;

/// A listening endpoint, and a peer whose packets the test writes.
struct Server {
    engine: Endpoint,
    own: SocketAddr,
    peer: SocketAddr,
    now: Instant,
    /// The verification tag of the endpoint. It is 0 until `associate`.
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

/// Returns a packet with the chunks that `write` appends.
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

    /// Returns the answers of the endpoint to a packet from `source`.
    fn ask(&mut self, source: SocketAddr, bytes: &[u8]) -> Vec<Vec<u8>> {
        let packet = Packet { source, target: self.own, ecn: Ecn::NotEct, tag: 0, payload: bytes };
        self.engine.handle_packet(self.now, packet);
        let answers = transmit_all_bytes(&mut self.engine, self.now);
        while self.engine.poll_event().is_some() {}
        answers
    }

    /// Sends the endpoint a packet that comes from the peer's address and contains the chunks that `write` produces.
    /// Returns the size of the packet in bytes, and the answers.
    fn chunks(&mut self, write: impl FnOnce(&mut Vec<u8>)) -> (usize, Vec<Vec<u8>>) {
        let bytes = packet((PEER_PORT, PORT), self.tag, write);
        (bytes.len(), self.ask(self.peer, &bytes))
    }

    /// Establishes an association from the simulated peer to the endpoint under test. The peer's first TSN is 1.
    fn associate(&mut self, write: Writes) -> &mut Self {
        let answers = self.ask(self.peer, &init(write));
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

/// Returns an INIT with these parameters.
fn init(params: impl FnOnce(&mut ChunkWriter<'_>)) -> Vec<u8> {
    packet((PEER_PORT, PORT), 0, |b| {
        let init = Init {
            tag: PEER_TAG,
            window: 1 << 20,
            outbound_streams: 10,
            inbound_streams: 10,
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

/// RFC 9260 §6.2: each packet that holds a duplicate TSN is answered at once, with exactly one SACK. Each SACK could
/// report hundreds of gaps. But all these SACKs together may exceed the packets that they answer by at most one full
/// SACK.
#[test]
fn duplicates_draw_no_more_than_they_are() {
    const GAPS: u32 = 1_000;
    for mtu in [1_500, 65_535] {
        let mut server = Server::new(config("modern", &[]), &["10.0.0.1:0"], "10.0.0.2:0");
        server.engine.set_mtu(server.own.ip(), mtu);
        server.associate(|_| {});
        let mut largest = 0;
        for part in 0..GAPS / 50 {
            let (_, answers) = server.chunks(|b| {
                (0..50).for_each(|n| one(3 + 2 * (50 * part + n)).emit(b));
            });
            largest = largest.max(answers.iter().map(Vec::len).max().unwrap_or(0));
        }
        // A packet with a new TSN is answered by a SACK. It reports all gaps that fit into an Ethernet packet, even if
        // the MTU is larger.
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
        // After a new TSN, the SACK reports all gaps again.
        let (_, answers) = server.chunks(|b| one(3 + 2 * GAPS).emit(b));
        assert!((1_400..=1_480).contains(&size(&answers)), "{} bytes", size(&answers));
    }
}

/// A function that writes the parameters of an INIT.
type Writes = fn(&mut ChunkWriter<'_>);

const RANDOM: [u8; 32] = [9; 32];

const INITS: &[(&str, Writes)] = &[
    ("nothing", |_| {}),
    ("address types", |c| {
        Param::SupportedAddresses(param::AddressTypes::BOTH).emit(c);
    }),
    ("one extension", |c| {
        Param::SupportedExtensions(&[0x82]).emit(c);
    }),
    ("partial reliability", |c| {
        Param::ForwardTsnSupported.emit(c);
    }),
    ("ECN", |c| {
        Param::EcnCapable.emit(c);
    }),
    ("zero checksum", |c| {
        Param::ZeroChecksum(1).emit(c);
    }),
    ("adaptation", |c| {
        Param::Adaptation(1).emit(c);
    }),
    ("cookie preservative", |c| {
        Param::CookiePreservative(60_000).emit(c);
    }),
    ("authentication", |c| {
        Param::Random(&RANDOM).emit(c);
        Param::HmacAlgos(&[0, 1]).emit(c);
    }),
    ("authentication of all", |c| {
        Param::Random(&RANDOM).emit(c);
        let kinds: Vec<u8> = (0..=255).collect();
        Param::ChunkList(&kinds).emit(c);
        Param::HmacAlgos(&[0, 3, 0, 1]).emit(c);
    }),
    ("all extensions", |c| {
        Param::EcnCapable.emit(c);
        Param::ForwardTsnSupported.emit(c);
        Param::ZeroChecksum(1).emit(c);
        Param::SupportedExtensions(&[15, 193, 128, 130, 192, 64, 194]).emit(c);
        Param::Random(&RANDOM).emit(c);
        Param::HmacAlgos(&[0, 3, 0, 1]).emit(c);
        Param::SupportedAddresses(param::AddressTypes::BOTH).emit(c);
    }),
    ("1 unknown parameter", |c| {
        c.tlv(0xc0ff, &[]);
    }),
    ("300 unknown parameters", |c| {
        (0..300).for_each(|_| {
            c.tlv(0xc0ff, &[]);
        });
    }),
    ("16 IPv4 addresses", |c| {
        (0..16).for_each(|n| {
            Param::Ipv4([11, 0, 0, n].into()).emit(c);
        });
    }),
    ("70 IPv6 addresses", |c| {
        (0..70_u16).for_each(|n| {
            Param::Ipv6([0x2001, 0xdb8, 0, 0, 0, 0, 0, n].into()).emit(c);
        });
    }),
    ("a host name", |c| {
        c.tlv(11, &[b"a\0"]);
    }),
    ("a parameter cut off", |c| c.bytes(&[0, 5, 0, 8])),
    ("a RANDOM too short", |c| {
        Param::Random(&[1]).emit(c);
        Param::HmacAlgos(&[0, 1]).emit(c);
    }),
    ("ASCONF without AUTH", |c| {
        Param::SupportedExtensions(&[193]).emit(c);
    }),
];

const FULL: &[(&str, &str)] = &[
    ("auth", "yes"),
    ("auth_chunks", "all"),
    ("asconf", "yes"),
    ("reconfig", "yes"),
    ("interleaving", "yes"),
    ("partial_reliability", "yes"),
    ("ecn", "yes"),
    ("zero_checksum", "yes"),
    ("adaptation", "7"),
];

/// RFC 9260 §12.2.4.1: an INIT with a forged source is answered by at most three times its bytes. The content of the
/// INIT and of the answer does not matter. Only bytes of SCTP are counted. UDP and IP headers have the same size in
/// both directions, so the ratio on the wire is lower.
#[test]
fn an_init_draws_three_times_its_bytes_at_most() {
    let v4: Vec<String> = (1..=9).map(|n| format!("10.0.{n}.1:9899")).collect();
    let v6: Vec<String> = (1..=9).map(|n| format!("[2001:db8:{n}::1]:9899")).collect();
    let all: Vec<&str> = v4.iter().chain(&v6).map(String::as_str).collect();
    let turned: Vec<&str> = v6.iter().chain(&v4).map(String::as_str).collect();
    let peers = ["192.0.2.7:9899", "[2001:db8:77::7]:9899"];
    println!("{:24}{:>6}{:>8}{:>8}{:>8}   bytes of the answer", "INIT with", "bytes", "1 v4", "9+9", "1 v6");
    for set in [&[][..], FULL] {
        let servers = [(&all[..1], peers[0], 28), (&all, peers[0], 28), (&turned[..1], peers[1], 48)];
        for (what, write) in INITS {
            let asked = init(write);
            let mut row = format!("{what:24}{:6}", asked.len());
            for (addresses, peer, headers) in servers {
                let mut server = Server::new(config("modern", set), addresses, peer);
                let answers = server.ask(server.peer, &asked);
                let (bytes, wire) = (size(&answers), size(&answers) + headers * answers.len());
                row += &format!("{bytes:8}");
                assert!(
                    answers.len() <= 1 && bytes <= 3 * asked.len(),
                    "{what}: {bytes} for {}",
                    asked.len()
                );
                assert!(wire <= 3 * (asked.len() + headers), "{what}: {wire} on the wire");
                assert!(*what != "nothing" || wire <= 2 * (asked.len() + headers), "{wire} on the wire");
            }
            println!("{row}");
        }
    }
}

/// RFC 9260 §5.1.2: if an INIT is as large as the INITs of real peers, the answer lists all addresses.
#[test]
fn addresses_are_listed_as_far_as_they_fit() {
    let servers = ["10.0.1.1:0", "10.0.2.1:0", "[2001:db8:1::1]:0", "[2001:db8:2::1]:0"];
    let listed = |write: Writes| {
        let mut server = Server::new(config("modern", &[]), &servers, "192.0.2.7:0");
        let answers = server.ask(server.peer, &init(write));
        let view = PacketView::parse(&answers[0]).expect("a good packet");
        let Some(Ok(Chunk::InitAck(ack))) = view.chunks().next() else { panic!("an INIT ACK") };
        let params = tlv::Tlvs::new(ack.0.params.rest()).flatten().flat_map(Param::parse);
        params.filter_map(|param| param.address()).collect::<Vec<_>>()
    };
    // The INIT of Linux has some 80 bytes, and our INIT with the profile `modern` has 60 bytes.
    let large: Writes = |c| {
        Param::SupportedExtensions(&[130, 192, 64, 194]).emit(c);
        Param::ForwardTsnSupported.emit(c);
        Param::SupportedAddresses(param::AddressTypes::BOTH).emit(c);
    };
    let all: Vec<_> = servers.iter().map(|text| address(text).ip()).collect();
    assert_eq!(listed(large), all);
    // The answer to the smallest possible INIT lists one address, besides the address to which the INIT was sent.
    assert_eq!(listed(|_| {}), all[1..2]);
}

/// RFC 5061 §4.2.7: an INIT ACK lists extensions even if the INIT lists none. The list is left out if the INIT ACK
/// would become too large, because addresses have priority.
#[test]
fn extensions_are_listed_where_there_is_room() {
    let listed = |set: &[(&str, &str)], servers: &[&str], write: Writes| {
        let mut server = Server::new(config("modern", set), servers, "192.0.2.7:0");
        let answers = server.ask(server.peer, &init(write));
        let view = PacketView::parse(&answers[0]).expect("a good packet");
        let Some(Ok(Chunk::InitAck(ack))) = view.chunks().next() else { panic!("an INIT ACK") };
        let params = tlv::Tlvs::new(ack.0.params.rest()).flatten().flat_map(Param::parse);
        let kinds = params.filter_map(|param| match param {
            Param::SupportedExtensions(kinds) => Some(kinds.to_vec()),
            _ => None,
        });
        kinds.collect::<Vec<_>>()
    };
    const DYNAMIC: &[(&str, &str)] =
        &[("auth", "yes"), ("asconf", "yes"), ("reconfig", "yes"), ("interleaving", "no")];
    let (one, two) = (&["10.0.1.1:0"][..], &["10.0.1.1:0", "10.0.2.1:0"][..]);
    // The INIT has no RANDOM, so the INIT ACK does not list AUTH and ASCONF. The INIT ACK lists RE-CONFIG (130) and
    // FORWARD TSN (192).
    let plain = [[130, 192]];
    assert_eq!(listed(DYNAMIC, one, |_| {}), plain);
    assert_eq!(listed(DYNAMIC, two, |_| {}), [[0; 0]; 0]);
    let forward: Writes = |c| {
        Param::ForwardTsnSupported.emit(c);
    };
    assert_eq!(listed(DYNAMIC, one, forward), plain);
    let asked: Writes = |c| {
        Param::SupportedExtensions(&[130]).emit(c);
    };
    assert_eq!(listed(DYNAMIC, two, asked), plain);
    // RFC 4895 §6.1: an INIT or INIT ACK may list AUTH as a supported extension only if it also has RANDOM. The INIT
    // ACK has RANDOM only if the INIT has RANDOM. ASCONF needs AUTH. So the INIT ACK lists AUTH and ASCONF only if the
    // INIT has RANDOM.
    let random: Writes = |c| {
        Param::Random(&RANDOM).emit(c);
        Param::HmacAlgos(&[0, 1]).emit(c);
    };
    assert_eq!(listed(DYNAMIC, two, random), [[15, 193, 128, 130, 192]]);
}

/// If an association with the source of an INIT exists, the INIT counts as a restart. The answer is at most twelve
/// bytes longer than the INIT.
#[test]
fn an_init_for_an_association_draws_little() {
    for (own, peer, headers) in
        [("10.0.1.1:9899", "192.0.2.7:9899", 28), ("[2001:db8:1::1]:9899", "[2001:db8:77::7]:9899", 48)]
    {
        for set in [&[][..], FULL] {
            let mut server = Server::new(config("modern", set), &[own], peer);
            server.associate(|_| {});
            for (what, write) in INITS {
                let asked = init(write);
                for source in [server.peer, address("192.0.2.99:9899")] {
                    let answers = server.ask(source, &asked);
                    let (bytes, wire) = (size(&answers), size(&answers) + headers * answers.len());
                    assert!(answers.len() <= 1, "{what}: {} answers", answers.len());
                    assert!(bytes <= 3 * asked.len() + 8, "{own}, {what}: {bytes} for {}", asked.len());
                    assert!(wire <= 3 * (asked.len() + headers), "{own}, {what}: {wire} on the wire");
                }
            }
        }
    }
}

/// RFC 9260 §8.4: a packet that belongs to no association is answered by at most one packet. The answer is not larger
/// than the packet.
#[test]
fn out_of_the_blue_draws_no_more_than_it_is() {
    let mut server = Server::new(config("modern", FULL), &["10.0.0.1:0"], "10.0.0.2:0");
    let mut answered = 0;
    for port in [PORT, 81] {
        for kind in 0..=255_u8 {
            for length in [0, 4, 12, 16, 100, 1_400] {
                for tag in [0, 0xdead] {
                    let bytes = packet((PEER_PORT, port), tag, |b| {
                        let mut chunk = ChunkWriter::open(b, kind, 0);
                        chunk.bytes(&vec![0; length]);
                        chunk.close();
                    });
                    let answers = server.ask(server.peer, &bytes);
                    answered += answers.len();
                    assert!(
                        answers.len() <= 1 && size(&answers) <= bytes.len(),
                        "type {kind}: {} bytes draw {}",
                        bytes.len(),
                        size(&answers)
                    );
                }
            }
        }
    }
    assert!(answered > 1_000, "most are answered by an ABORT: {answered}");
}

/// A peer sends 100 packets of each kind, with one chunk or with many chunks. Each row has the maximum ratio of the
/// bytes of the answers to the bytes of the packets, which never exceeds three.
#[test]
fn a_peer_draws_three_times_its_bytes_at_most() {
    type Write = fn(u32, &mut Vec<u8>);
    let kinds: &[(&str, usize, Write)] = &[
        ("DATA, the next", 1, |n, b| one(1 + n).emit(b)),
        ("DATA, seen before", 1, |_, b| one(1).emit(b)),
        ("DATA, beyond the window", 1, |_, b| one(100_000).emit(b)),
        ("DATA on streams that are not there", 2, |n, b| {
            (0..60).for_each(|i| Data { stream: 999, ..one(1 + 60 * n + i) }.emit(b));
        }),
        ("HEARTBEAT, 1", 1, |_, b| Heartbeat { info: b"me", rest: &[] }.emit(b)),
        ("HEARTBEAT, 180", 1, |_, b| {
            (0..180).for_each(|_| Heartbeat { info: &[], rest: &[] }.emit(b));
        }),
        ("unknown chunk to report, 1", 2, |_, b| b.extend_from_slice(&[0xfe, 0, 0, 4])),
        ("unknown chunks to report, 8", 3, |_, b| {
            (0..8).for_each(|_| b.extend_from_slice(&[0xfe, 0, 0, 4]));
        }),
        ("unknown chunks to report, 300", 1, |_, b| {
            (0..300).for_each(|_| b.extend_from_slice(&[0xfe, 0, 0, 4]));
        }),
        // RFC 6525 §5.1.7 D3, D4: the answer contains two TSNs, no matter whether the request is granted.
        ("RE-CONFIG, 1 request", 3, |n, b| {
            ReConfig::write(b, &[ReConfigParam::ResetTsn { request: 1 + n }]);
        }),
        ("RE-CONFIG, an old request", 3, |_, b| {
            ReConfig::write(b, &[ReConfigParam::ResetTsn { request: 0 }]);
        }),
        ("RE-CONFIG, 60 requests", 1, |n, b| {
            (0..60).for_each(|i| ReConfig::write(b, &[ReConfigParam::ResetTsn { request: 1 + 60 * n + i }]));
        }),
        ("FORWARD TSN, old", 2, |_, b| ForwardTsn::write(b, Tsn(0), [])),
        ("COOKIE ECHO, made up", 1, |_, b| CookieEcho { cookie: &[7; 60] }.emit(b)),
        ("AUTH of an unknown HMAC", 2, |_, b| Auth { key: 0, hmac: 9, mac: &[0; 4] }.emit(b)),
        ("ERROR", 1, |_, b| b.extend_from_slice(&[9, 0, 0, 8, 0, 2, 0, 4])),
        ("SACK", 1, |_, b| {
            Sack { cumulative: Tsn(0), window: 1 << 20, gaps: &[], duplicates: &[] }.emit(b);
        }),
        ("COOKIE ACK", 1, |_, b| CookieAck.emit(b)),
        ("PAD, 300", 1, |_, b| (0..300).for_each(|_| Pad { filling: &[] }.emit(b))),
    ];
    for &(what, most, write) in kinds {
        let set = [("auth", "yes"), ("reconfig", "yes")];
        let mut server = Server::new(config("modern", &set), &["10.0.0.1:0"], "10.0.0.2:0");
        server.associate(|c| {
            Param::ForwardTsnSupported.emit(c);
            Param::SupportedExtensions(&[15, 130, 192]).emit(c);
            Param::Random(&RANDOM).emit(c);
            Param::HmacAlgos(&[0, 3, 0, 1]).emit(c);
        });
        server.chunks(|b| one(1).emit(b));
        let (mut asked, mut answered) = (0, 0);
        for n in 0..100 {
            let (bytes, answers) = server.chunks(|b| write(n + 1, b));
            (asked, answered) = (asked + bytes, answered + size(&answers));
        }
        println!("{what:40}{asked:8} bytes draw {answered:8}");
        assert!(answered <= most * asked, "{what}: {asked} bytes draw {answered}");
    }
}
