//! INIT floods. The endpoint keeps no state for a source that has not shown that it receives answers (RFC 9260 §5.1.3,
//! §12.2.4; RFC 5062 §3). The endpoint sends such a source at most three times the bytes that the source has sent.

use anabranch_base::{Ecn, Engine, Instant, Packet, Rng};
use anabranch_sctp::testing::{transmit_all as sent_by, transmit_all_bytes};
use anabranch_sctp::{Associate, Config, Endpoint, Event};
use anabranch_wire::sctp::{Chunk, Init, PacketView, Params, Tsn, packet};
use std::net::SocketAddr;

const PORT: u16 = 80;

fn init(port: u16, tag: u32) -> Vec<u8> {
    let mut bytes = Vec::new();
    let start = packet::begin(&mut bytes, port, PORT, 0);
    let params = Params::new(&[]);
    Init { tag, window: 1 << 16, outbound_streams: 10, inbound_streams: 10, tsn: Tsn(tag), params }
        .emit(&mut bytes);
    packet::finish(&mut bytes, start);
    bytes
}

/// Returns the resident set size of this process in bytes.
#[cfg(target_os = "linux")]
fn resident() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").expect("Linux");
    4_096 * text.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok()).expect("a number")
}

/// A million INITs arrive from a million addresses. The memory does not grow, each INIT is answered by one INIT ACK,
/// and an honest client can still connect.
#[test]
#[cfg(target_os = "linux")]
fn a_million_inits() {
    let own = SocketAddr::from(([10, 0, 0, 1], 0));
    let honest = SocketAddr::from(([10, 0, 0, 2], 0));
    let now = Instant::from_millis(5);
    let mut server = Endpoint::new(Config::default(), vec![own], Rng::new(1));
    server.listen(PORT).expect("free");
    let (mut asked, mut answered) = (0, 0);
    let mut before = 0;
    for n in 0..1_000_000_u32 {
        let source = SocketAddr::from(([11, (n >> 16) as u8, (n >> 8) as u8, n as u8], 0));
        let bytes = init(1 + (n % 60_000) as u16, n + 1);
        asked += bytes.len();
        let packet = Packet { source, target: own, ecn: Ecn::NotEct, tag: 0, payload: &bytes };
        server.handle_packet(now, packet);
        answered += transmit_all_bytes(&mut server, now).iter().map(Vec::len).sum::<usize>();
        if n == 1_000 {
            before = resident();
        }
    }
    let grown = resident().saturating_sub(before);
    assert!(grown < 1 << 20, "{grown} bytes more after a million INITs");
    assert!(server.poll_event().is_none() && server.poll_timeout().is_none(), "it remembers somebody");
    println!("{grown} bytes; {asked} bytes asked, {answered} answered");
    assert!(answered <= 3 * asked, "{answered} bytes for {asked}");

    let mut client = Endpoint::new(Config::default(), vec![honest], Rng::new(2));
    client.associate(now, Associate::to(own, PORT)).expect("an association");
    for _ in 0..3 {
        pass(now, &mut client, &mut server);
        pass(now, &mut server, &mut client);
    }
    let events: Vec<_> = std::iter::from_fn(|| client.poll_event()).collect();
    assert!(events.iter().any(|event| matches!(event, Event::Established { .. })), "{events:?}");
}

/// Delivers to `to` all packets that `from` wants to send, and returns them.
fn pass(now: Instant, from: &mut Endpoint, to: &mut Endpoint) -> Vec<Vec<u8>> {
    let all = sent_by(from, now);
    all.iter().for_each(|packet| to.handle_packet(now, packet.packet()));
    all.into_iter().map(|packet| packet.bytes).collect()
}

/// RFC 5062 §5: a peer lists the address of a victim as one of its own. The server must send fewer bytes to the victim
/// than the peer has sent to the server: only a few small HEARTBEATs, at growing intervals.
#[test]
fn an_address_that_never_asked() {
    let own = SocketAddr::from(([10, 0, 0, 1], 0));
    let (attacker, victim) = (SocketAddr::from(([10, 0, 0, 2], 0)), SocketAddr::from(([10, 9, 9, 9], 0)));
    let mut now = Instant::from_millis(5);
    let mut server = Endpoint::new(Config::default(), vec![own], Rng::new(1));
    server.listen(PORT).expect("free");
    let mut client = Endpoint::new(Config::default(), vec![attacker, victim], Rng::new(2));
    client.associate(now, Associate::to(own, PORT)).expect("an association");
    let (mut sent, mut drawn, mut initial) = (0, 0, 0);
    let mut id = None;
    while now < Instant::from_millis(60_000) {
        for packet in sent_by(&mut client, now).iter().filter(|packet| packet.source == attacker) {
            sent += packet.bytes.len();
            server.handle_packet(now, packet.packet());
        }
        for packet in sent_by(&mut server, now) {
            if packet.target.ip() == victim.ip() {
                drawn += packet.bytes.len();
                let view = PacketView::parse(&packet.bytes).expect("a good packet");
                let small = view.chunks().flatten().all(|chunk| matches!(chunk, Chunk::Heartbeat(_)));
                assert!(small, "more than HEARTBEATs to who has not answered");
            } else {
                initial += packet.bytes.len();
                client.handle_packet(now, packet.packet());
            }
        }
        while let Some(event) = server.poll_event() {
            if let Event::Accepted { id: accepted, .. } = event {
                id = Some(accepted);
            }
        }
        while client.poll_event().is_some() {}
        // The server sends one message per step. All of its DATA goes to the client's real address.
        if let Some(id) = id {
            let _ = server.send(now, id, anabranch_sctp::Message::default(), &[7; 1_000]);
        }
        let next = [client.poll_timeout(), server.poll_timeout()].into_iter().flatten().min();
        let step = now + anabranch_base::time::Duration::from_millis(50);
        now = next.map_or(step, |next| next.min(step)).max(now);
        now = now.max(step.min(next.unwrap_or(step)));
        client.handle_timeout(now);
        server.handle_timeout(now);
        if next.is_some_and(|next| next <= now) {
            continue;
        }
    }
    assert!(initial > 100_000, "the attacker's own address is served: {initial}");
    println!("{sent} bytes sent, {drawn} drawn to the victim");
    assert!(drawn > 0 && drawn < sent, "{drawn} bytes to the victim for {sent}");
}

/// RFC 9260 §5.2.2, §12.2.4: each repeated INIT is answered by one INIT ACK with at most three times its bytes. This
/// limit holds even if the INIT has many unknown parameters to report.
#[test]
fn an_init_draws_one_answer() {
    let own = SocketAddr::from(([10, 0, 0, 1], 0));
    let source = SocketAddr::from(([10, 0, 0, 2], 0));
    let now = Instant::from_millis(5);
    let mut server = Endpoint::new(Config::default(), vec![own], Rng::new(1));
    server.listen(PORT).expect("free");
    for unknown in [0, 1, 20, 300] {
        let mut bytes = Vec::new();
        let start = packet::begin(&mut bytes, 9, PORT, 0);
        let params = Params::new(&[]);
        let init =
            Init { tag: 7, window: 1 << 16, outbound_streams: 10, inbound_streams: 10, tsn: Tsn(7), params };
        let mut chunk = init.open(&mut bytes);
        for _ in 0..unknown {
            chunk.tlv(0xc0ff, &[]);
        }
        chunk.close();
        packet::finish(&mut bytes, start);
        let packet = Packet { source, target: own, ecn: Ecn::NotEct, tag: 0, payload: &bytes };
        server.handle_packet(now, packet);
        let mut nobody = Endpoint::new(Config::default(), vec![source], Rng::new(2));
        let answers = pass(now, &mut server, &mut nobody);
        assert_eq!(answers.len(), 1);
        println!("{unknown} unknown parameters: {} bytes for {}", answers[0].len(), bytes.len());
        assert!(answers[0].len() <= bytes.len() * 3, "{} for {}", answers[0].len(), bytes.len());
        assert!(answers[0].len() <= 1_480);
    }
}
