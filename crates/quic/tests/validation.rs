//! How a server treats clients whose addresses are not validated, and packets that belong to no connection. The tests
//! themselves deliver, copy or drop the packets of two endpoints, without a network.

use anabranch_base::time::Duration;
use anabranch_base::{Budget, Ecn, Engine, Icmp, IcmpKind, Instant, Packet, Rng, SendBatch};
use anabranch_quic::{Config, Endpoint, EndpointOptions, Event, Id, Shard, Steered};
use anabranch_tls::{
    Client, ClientSettings, HostTls, Identity, Server, ServerSettings, Simulation, Surroundings, Trust,
    Versions,
};
use anabranch_transport::CloseReason;
use anabranch_world::steering::Steering;
use std::net::SocketAddr;

const NAME: &str = "server.test";

pub(crate) fn at(host: u8, port: u16) -> SocketAddr {
    SocketAddr::from(([10, 0, 0, host], port))
}

fn surroundings() -> Surroundings {
    Surroundings::Simulated(Simulation::new(Rng::new(9), || Instant::ZERO))
}

/// Creates the TLS settings of client and server, each with its application protocol (ALPN).
pub(crate) fn tls_settings(protocols: [&str; 2]) -> [HostTls; 2] {
    let (identity, root) = Identity::simulated(NAME, 4_000).expect("a chain");
    let [near, far] = protocols.map(|name| vec![name.as_bytes().to_vec()]);
    let settings = ServerSettings {
        versions: Versions::Only13,
        protocols: far,
        early_data: true,
        ..ServerSettings::of(identity)
    };
    let server = Server::new(settings, surroundings()).expect("a server");
    let trust = Trust::Authorities(vec![root]);
    let settings = ClientSettings { trust, protocols: near, early_data: true, ..ClientSettings::default() };
    let client = Client::new(settings, surroundings()).expect("a client");
    [
        HostTls { surroundings: surroundings(), client: Some((client, NAME.to_owned())), server: None },
        HostTls { surroundings: surroundings(), client: None, server: Some(server) },
    ]
}

fn endpoint(local: SocketAddr, seed: u64, tls: HostTls, config: &Config, shard: Option<Shard>) -> Endpoint {
    let (config, rng) = (config.clone(), Rng::new(seed));
    let options = EndpointOptions { config, local, rng, tls, segments: 1, shard, logs: None };
    let mut endpoint = Endpoint::new(options).expect("an endpoint");
    endpoint.set_listening(endpoint.is_server().then_some(443));
    endpoint
}

pub(crate) fn pair(config: &Config) -> [Endpoint; 2] {
    let [near, far] = tls_settings(["test"; 2]);
    [endpoint(at(1, 1000), 1, near, config, None), endpoint(at(2, 443), 2, far, config, None)]
}

#[derive(Clone)]
pub(crate) struct DatagramInFlight {
    pub(crate) source: SocketAddr,
    pub(crate) target: SocketAddr,
    pub(crate) bytes: Vec<u8>,
}

pub(crate) fn sends(from: &mut Endpoint, now: Instant) -> Vec<DatagramInFlight> {
    let mut batch = SendBatch::new(1);
    let mut sent = Vec::new();
    while from.poll_transmit(now, &mut batch) {
        let (source, target) = (batch.source, batch.target);
        sent.extend(batch.packets().map(|packet| DatagramInFlight {
            source,
            target,
            bytes: packet.payload.to_vec(),
        }));
        batch.clear();
    }
    sent
}

pub(crate) fn give(to: &mut Endpoint, now: Instant, sent: &DatagramInFlight) {
    let DatagramInFlight { source, target, bytes } = sent;
    let (source, target) = (*source, *target);
    to.handle_packet(now, Packet { source, target, ecn: Ecn::NotEct, tag: 0, payload: bytes });
}

pub(crate) fn size(sent: &[DatagramInFlight]) -> usize {
    sent.iter().map(|sent| sent.bytes.len()).sum()
}

/// Delivers packets in both directions until neither end sends any more.
pub(crate) fn settle(ends: &mut [Endpoint; 2], now: Instant) {
    for _ in 0..50 {
        let [near, far] = ends;
        let (to_far, to_near) = (sends(near, now), sends(far, now));
        if to_far.is_empty() && to_near.is_empty() {
            return;
        }
        to_far.iter().for_each(|sent| give(far, now, sent));
        to_near.iter().for_each(|sent| give(near, now, sent));
    }
}

pub(crate) fn events(of: &mut Endpoint) -> Vec<Event> {
    std::iter::from_fn(|| of.poll_event()).collect()
}

fn stands(events: &[Event]) -> bool {
    events.iter().any(|event| matches!(event, Event::Connected { .. } | Event::Accepted { .. }))
}

/// Returns the number of bytes that a server sends within a minute after it received the datagrams `first` and nothing
/// else.
fn answered_bytes(far: &mut Endpoint, begun: Instant, first: &[DatagramInFlight]) -> usize {
    first.iter().for_each(|sent| give(far, begun, sent));
    let mut all = size(&sends(far, begun));
    let mut now = begun;
    while let Some(due) = far.poll_timeout().filter(|due| *due < begun + Duration::from_secs(60)) {
        now = now.max(due).plus_nanos(1);
        far.handle_timeout(now);
        all += size(&sends(far, now));
    }
    all
}

/// RFC 9000 §8.1: a server has a large certificate and the client never answers. Even after all timeouts, the server
/// has sent at most three times the received bytes.
#[test]
fn unvalidated_clients_get_at_most_three_times_their_bytes() {
    let [mut near, mut far] = pair(&Config::default());
    near.connect(Instant::ZERO, at(2, 443)).expect("begun");
    let hello = sends(&mut near, Instant::ZERO);
    let (came, sent) = (size(&hello), answered_bytes(&mut far, Instant::ZERO, &hello));
    // The server's certificate chain is 4 kB long. Without the limit, the server would send more than three times the
    // received bytes.
    assert!(sent > came && sent <= 3 * came, "{sent} bytes for {came}");
}

/// RFC 9000 §8.1: for any size of the client's datagrams, the server sends up to three times the received bytes. Bytes
/// from other addresses do not count. A client is accepted after the server has validated its address.
#[test]
fn three_times_what_has_come_from_there_and_no_more() {
    for (more, elsewhere) in [(0, 0), (50, 0), (199, 0), (0, 5)] {
        let mut both = pair(&Config::default());
        both[0].connect(Instant::ZERO, at(2, 443)).expect("begun");
        let mut hello = sends(&mut both[0], Instant::ZERO);
        // The bytes appended to the client's datagram are not a QUIC packet, but they count as received.
        hello.iter_mut().for_each(|sent| sent.bytes.resize(sent.bytes.len() + more, 0));
        hello.iter().for_each(|sent| give(&mut both[1], Instant::ZERO, sent));
        for _ in 0..elsewhere {
            hello.iter().for_each(|sent| {
                give(&mut both[1], Instant::ZERO, &DatagramInFlight { source: at(7, 7), ..sent.clone() })
            });
        }
        let answered = sends(&mut both[1], Instant::ZERO);
        let (came, went) = (size(&hello), size(&answered));
        assert!(answered.iter().all(|sent| sent.target == at(1, 1000)));
        assert!(went > 2 * came && went <= 3 * came, "{went} bytes for {came}");
        answered.iter().for_each(|sent| give(&mut both[0], Instant::ZERO, sent));
        settle(&mut both, Instant::ZERO);
        assert!(stands(&events(&mut both[0])) && stands(&events(&mut both[1])), "{more}, {elsewhere}");
    }
    // The server's retransmissions also count as sent bytes. Copies of the client's packets from another address do not
    // raise the limit.
    let [mut near, mut far] = pair(&Config::default());
    near.connect(Instant::ZERO, at(2, 443)).expect("begun");
    let hello = sends(&mut near, Instant::ZERO);
    hello.iter().for_each(|sent| give(&mut far, Instant::ZERO, sent));
    let first = size(&sends(&mut far, Instant::ZERO));
    let copies: Vec<_> = (0..9)
        .flat_map(|_| hello.iter().map(|sent| DatagramInFlight { source: at(7, 7), ..sent.clone() }))
        .collect();
    let all = first + answered_bytes(&mut far, Instant::ZERO, &copies);
    assert!(all <= 3 * size(&hello), "{all} bytes for {}", size(&hello));
}

/// In this test, thousands of clients with one address connect at the same instant. A client with a validated address
/// gets no answer while the server has no room. It retries and is accepted later. No client is refused, and the number
/// of handshakes in progress is bounded.
#[test]
fn thousands_that_begin_at_once_come_in_and_none_is_refused() {
    const CLIENTS: usize = 3_000;
    let mut both = pair(&Config::default());
    for _ in 0..CLIENTS {
        both[0].connect(Instant::ZERO, at(2, 443)).expect("begun");
    }
    let (mut now, mut connected, mut accepted, mut answers) = (Instant::ZERO, 0, 0, Vec::new());
    while connected < CLIENTS || accepted < CLIENTS {
        assert!(now < Instant::from_millis(25_000), "{connected} have come in");
        // All packets of the clients arrive before any answer of the server arrives.
        let [near, far] = &mut both;
        for sent in sends(near, now) {
            give(far, now, &sent);
            answers.extend(sends(far, now));
        }
        answers.extend(sends(far, now));
        let quiet = answers.is_empty();
        answers.drain(..).for_each(|sent| give(near, now, &sent));
        for event in events(near).into_iter().chain(events(far)) {
            match event {
                Event::Connected { .. } => connected += 1,
                Event::Accepted { .. } => accepted += 1,
                Event::Closed { .. } => panic!("{now}: {event:?} after {connected}"),
                _ => {}
            }
        }
        assert!(far.half_open() <= 1_024, "{} handshakes", far.half_open());
        if quiet {
            let due = near.poll_timeout().into_iter().chain(far.poll_timeout()).min().expect("a timer");
            now = now.max(due);
            both.iter_mut().for_each(|end| end.handle_timeout(now));
        }
    }
}

/// RFC 9000 §6.1, §10.3: an answer to a packet without a connection is smaller than the packet. Very short packets get
/// no answer.
#[test]
fn what_answers_packets_out_of_the_blue_is_no_larger_than_they_are() {
    let [_, mut far] = pair(&Config::default());
    let packet = |first: u8, version: u32, length: usize| {
        let mut bytes = vec![first];
        bytes.extend(version.to_be_bytes());
        bytes.extend([8, 1, 2, 3, 4, 5, 6, 7, 8, 8, 8, 7, 6, 5, 4, 3, 2, 1]);
        bytes.resize(length, 0x55);
        DatagramInFlight { source: at(1, 1000), target: at(2, 443), bytes }
    };
    let mut now = Instant::ZERO;
    let mut answer = |sent: &DatagramInFlight| {
        now += Duration::from_secs(1);
        give(&mut far, now, sent);
        sends(&mut far, now)
    };
    // An unknown version is answered with the list of supported versions.
    let negotiation = answer(&packet(0xc0, 0xface_b001, 1_200));
    assert_eq!(negotiation.len(), 1);
    let bytes = &negotiation[0].bytes;
    assert!(bytes[0] & 0x80 != 0 && bytes[1..5] == [0; 4] && bytes.len() < 1_200, "{bytes:02x?}");
    assert!(bytes[23..].chunks(4).any(|version| version == [0, 0, 0, 1]), "{bytes:02x?}");
    assert!(answer(&packet(0xc0, 0xface_b001, 1_199)).is_empty(), "RFC 9000 §14.1");
    // An unknown connection ID is answered with a stateless reset, which is smaller than the packet.
    let reset = answer(&packet(0x40, 0, 100));
    assert!(reset.len() == 1 && reset[0].bytes.len() < 100, "{}", reset.len());
    assert_eq!(reset[0].bytes[0] & 0xc0, 0x40, "it looks like any packet");
    for short in [1, 5, 21] {
        assert!(answer(&packet(0x40, 0, short)).is_empty(), "{short}");
    }
    // An Initial packet in a datagram that is too short gets no answer. The answer to an undecryptable Initial packet
    // is bounded.
    assert!(answer(&packet(0xc0, 1, 1_199)).is_empty());
    assert!(size(&answer(&packet(0xc0, 1, 1_200))) <= 3 * 1_200);
}

/// Even if packets without a connection arrive faster than answers are sent, the queue of answers stays bounded.
#[test]
fn answers_without_a_connection_that_wait_are_bounded() {
    let [_, mut far] = pair(&Config::default());
    // The packet has an unknown version (RFC 9000 §6.1).
    let mut bytes = vec![0xc0, 0xfa, 0xce, 0xb0, 0x01, 4, 1, 2, 3, 4, 4, 4, 3, 2, 1];
    bytes.resize(1_200, 0x55);
    let asks = DatagramInFlight { source: at(1, 1000), target: at(2, 443), bytes };
    for (came, wanted) in [(255, 255), (256, 256), (257, 256), (1_000, 256)] {
        (0..came).for_each(|_| give(&mut far, Instant::ZERO, &asks));
        assert_eq!(sends(&mut far, Instant::ZERO).len(), wanted, "{came} packets");
    }
}

/// RFC 9000 §10.3: a restarted server answers packets of an earlier connection with a stateless reset, which closes the
/// connection at the client.
#[test]
fn a_server_that_has_forgotten_ends_a_connection_by_a_reset() {
    let config = Config::default();
    let [near, far] = tls_settings(["test"; 2]);
    let mut both =
        [endpoint(at(1, 1000), 1, near, &config, None), endpoint(at(2, 443), 2, far.clone(), &config, None)];
    let id = both[0].connect(Instant::ZERO, at(2, 443)).expect("begun");
    settle(&mut both, Instant::ZERO);
    assert!(stands(&events(&mut both[0])));
    let [mut near, _] = both;
    // The restarted server has the same random seed as the first server, so it has the same key for stateless resets.
    let mut again = endpoint(at(2, 443), 2, far, &config, None);
    let now = Instant::from_millis(10);
    near.send(now, id, 0, &[7; 500]).expect("written");
    for sent in sends(&mut near, now) {
        give(&mut again, now, &sent);
    }
    for sent in sends(&mut again, now) {
        give(&mut near, now, &sent);
    }
    let ended = events(&mut near);
    assert!(ended.iter().any(|event| matches!(event, Event::Closed { .. })), "{ended:?}");
}

/// RFC 9000 §8.1.2: with `retry=always` a server keeps no state for a client that has not returned its token. A client
/// that returns the token is accepted.
#[test]
fn clients_without_a_token_leave_no_state() {
    let mut config = Config::default();
    config.set("retry", "always").expect("a value");
    let mut both = pair(&config);
    both[0].connect(Instant::ZERO, at(2, 443)).expect("begun");
    let hello = sends(&mut both[0], Instant::ZERO);
    let sent = {
        hello.iter().for_each(|sent| give(&mut both[1], Instant::ZERO, sent));
        sends(&mut both[1], Instant::ZERO)
    };
    assert_eq!(sent.len(), 1);
    assert_eq!(sent[0].bytes[0] & 0xf0, 0xf0, "a Retry packet");
    assert!(size(&sent) < size(&hello) && both[1].poll_timeout().is_none(), "there is nothing to wait for");
    give(&mut both[0], Instant::ZERO, &sent[0]);
    settle(&mut both, Instant::ZERO);
    assert!(stands(&events(&mut both[0])) && stands(&events(&mut both[1])));
    // A token is valid for only one address (RFC 9000 §8.1.4).
    let mut stranger = pair(&config);
    stranger[0].connect(Instant::ZERO, at(2, 443)).expect("begun");
    let hello = sends(&mut stranger[0], Instant::ZERO);
    hello.iter().for_each(|sent| give(&mut stranger[1], Instant::ZERO, sent));
    let retry = sends(&mut stranger[1], Instant::ZERO);
    give(&mut stranger[0], Instant::ZERO, &retry[0]);
    for sent in sends(&mut stranger[0], Instant::ZERO) {
        give(&mut stranger[1], Instant::ZERO, &DatagramInFlight { source: at(77, 1000), ..sent });
    }
    settle(&mut stranger, Instant::ZERO);
    assert!(!stands(&events(&mut stranger[1])), "the token was another address's");
}

#[test]
fn under_load_strangers_are_told_to_come_back_and_the_rest_is_bounded() {
    let config = Config::default();
    let [near, far] = tls_settings(["test"; 2]);
    let mut server = endpoint(at(2, 443), 2, far, &config, None);
    let mut retried = 0;
    let begun = 300_u16;
    for number in 0..begun {
        let mut client = endpoint(at(1, 1000 + number), u64::from(number) + 10, near.clone(), &config, None);
        client.connect(Instant::ZERO, at(2, 443)).expect("begun");
        sends(&mut client, Instant::ZERO).iter().for_each(|sent| give(&mut server, Instant::ZERO, sent));
        let sent = sends(&mut server, Instant::ZERO);
        retried += usize::from(sent.iter().any(|sent| sent.bytes[0] & 0xf0 == 0xf0));
    }
    assert_eq!(retried, 300 - 256, "from 256 handshakes under way on");
    // A client that answers the Retry is accepted.
    let mut both = [endpoint(at(3, 1000), 5, near, &config, None), server];
    both[0].connect(Instant::ZERO, at(2, 443)).expect("begun");
    settle(&mut both, Instant::ZERO);
    assert!(stands(&events(&mut both[0])));
}

/// RFC 9001 §9.2, RFC 8446 §8.1: each ticket can be used once. A replay of a client's first packets, from any address,
/// does not deliver their early data a second time.
#[test]
fn early_data_is_taken_once() {
    let config = Config::default();
    let mut both = pair(&config);
    let first = both[0].connect(Instant::ZERO, at(2, 443)).expect("begun");
    settle(&mut both, Instant::ZERO);
    both[0].close(Instant::ZERO, first);
    settle(&mut both, Instant::ZERO);
    let _ = (events(&mut both[0]), events(&mut both[1]));
    let now = Instant::from_millis(50);
    let second = both[0].connect(now, at(2, 443)).expect("begun");
    assert!(both[0].early_data(second), "it has a ticket");
    both[0].send(now, second, 0, b"GET /").expect("written");
    let flight = sends(&mut both[0], now);
    let read = |server: &mut Endpoint, came: &[Event]| -> Vec<Vec<u8>> {
        let readable = came.iter().filter_map(|event| match event {
            Event::Readable { id, stream } => Some((*id, *stream)),
            _ => None,
        });
        let readable: Vec<(Id, u64)> = readable.collect();
        let mut all = Vec::new();
        for (id, stream) in readable {
            assert!(server.early_data(id), "nobody has shown yet that it is no copy");
            let mut buffer = [0; 100];
            let (read, _) = server.recv(now, id, stream, &mut buffer);
            all.push(buffer[..read].to_vec());
        }
        all
    };
    flight.iter().for_each(|sent| give(&mut both[1], now, sent));
    let came = events(&mut both[1]);
    assert_eq!(read(&mut both[1], &came), [b"GET /".to_vec()]);
    // The packets are replayed from the client's address and from another address.
    for source in [at(1, 1000), at(66, 6)] {
        let mut other = flight.clone();
        for sent in &mut other {
            sent.source = source;
            give(&mut both[1], now, sent);
        }
        let came = events(&mut both[1]);
        assert!(!came.iter().any(|event| matches!(event, Event::Readable { .. })), "{source}: {came:?}");
    }
}

#[test]
fn endpoints_without_a_common_alpn_report_it() {
    let [near, far] = tls_settings(["h3", "other"]);
    let config = Config::default();
    let mut both =
        [endpoint(at(1, 1000), 1, near, &config, None), endpoint(at(2, 443), 2, far, &config, None)];
    both[0].connect(Instant::ZERO, at(2, 443)).expect("begun");
    settle(&mut both, Instant::ZERO);
    let ended = events(&mut both[0]).into_iter().find_map(|event| match event {
        Event::Closed { reason, .. } => Some(anabranch_quic::to_close_reason(reason)),
        _ => None,
    });
    let Some(CloseReason::Protocol(line)) = ended else { panic!("{ended:?}") };
    assert!(line.contains("the two share no application protocol (ALPN)"), "{line}");
}

/// RFC 9000 §14.2.1: an ICMP message ends a client's connection attempt only if it quotes one of the client's first
/// packets.
#[test]
fn a_client_believes_that_nobody_is_there_by_a_quote_alone() {
    let [mut near, _] = pair(&Config::default());
    near.connect(Instant::ZERO, at(2, 443)).expect("begun");
    let hello = sends(&mut near, Instant::ZERO);
    let icmp = Icmp { kind: IcmpKind::Unreachable(3), source: at(1, 0).ip(), target: at(2, 0).ip() };
    let mut wrong = hello[0].bytes.clone();
    wrong[8] ^= 1;
    for quoted in [&wrong[..64], &hello[0].bytes[..10], &[]] {
        near.handle_icmp(Instant::ZERO, &icmp, quoted);
        assert_eq!(events(&mut near), []);
    }
    near.handle_icmp(Instant::ZERO, &icmp, &hello[0].bytes[..32]);
    let ended = events(&mut near);
    assert!(matches!(&ended[..], [Event::Closed { reason: Some(_), .. }]), "{ended:?}");
}

/// All packets of a connection are steered to the same endpoint: the first packet, later packets, and packets after a
/// change of the client's port.
#[test]
fn packets_lead_to_the_endpoint_that_has_the_connection() {
    let config = Config::default();
    let [near, far] = tls_settings(["test"; 2]);
    let steered = Steered::new(3).expect("three");
    let mut used = [0; 3];
    for seed in 0..12 {
        let mut client = endpoint(at(1, 1000), 100 + seed, near.clone(), &config, None);
        let id = client.connect(Instant::ZERO, at(2, 443)).expect("begun");
        let first = sends(&mut client, Instant::ZERO);
        let owner = steered.owner(at(1, 0).ip(), &first[0].bytes).expect("somebody");
        used[owner as usize] += 1;
        let shard = Shard::new(owner, 3).expect("one");
        let mut server = endpoint(at(2, 443), 200 + seed, far.clone(), &config, Some(shard));
        let mut waiting = first;
        let mut now = Instant::ZERO;
        for round in 0..8 {
            // After four rounds the client's packets come from another port (RFC 9000 §9.3).
            let source = at(1, if round < 4 { 1000 } else { 2000 });
            for sent in waiting.drain(..) {
                assert_eq!(steered.owner(source.ip(), &sent.bytes), Some(owner), "round {round}");
                give(&mut server, now, &DatagramInFlight { source, ..sent });
            }
            sends(&mut server, now).iter().for_each(|sent| give(&mut client, now, sent));
            now += Duration::from_millis(20);
            let _ = client.send(now, id, 0, b"more");
            client.handle_timeout(now);
            server.handle_timeout(now);
            waiting = sends(&mut client, now);
        }
        assert!(stands(&events(&mut server)), "{seed}");
        let peers: Vec<SocketAddr> = (0..2).filter_map(|number| server.peer(Id(number))).collect();
        assert_eq!(peers, [at(1, 2000)], "it is followed to its new port");
    }
    assert!(used.iter().all(|count| *count > 0), "{used:?}");
}

/// Clients send a request and acknowledge nothing. All data that the server holds for them stays within its memory
/// budget. Flow control bounds the data for clients that acknowledge but do not read, so the test has no such clients.
#[test]
fn data_for_silent_clients_stays_within_the_budget() {
    let memory = Budget::new(16 << 20, 100);
    let mut served = Config::profile("modern").expect("a profile");
    served.memory = Some(memory.clone());
    let [near, far] = tls_settings(["test"; 2]);
    let mut server = endpoint(at(2, 443), 2, far, &served, None);
    let (clients, mut held, now) = (60_u16, Vec::new(), Instant::ZERO);
    for number in 0..clients {
        let config = Config::default();
        let client = endpoint(at(1, 1000 + number), u64::from(number) + 10, near.clone(), &config, None);
        let mut both = [client, server];
        let client_id = both[0].connect(now, at(2, 443)).expect("begun");
        settle(&mut both, now);
        both[0].send(now, client_id, 0, b"GET /").expect("written");
        settle(&mut both, now);
        let [_, again] = both;
        server = again;
        let accepted = events(&mut server).into_iter().find_map(|event| match event {
            Event::Accepted { id, .. } => Some(id),
            _ => None,
        });
        let id = accepted.expect("accepted");
        while let Ok(1..) = server.send(now, id, 0, &[7; 10_000]) {}
        drop(sends(&mut server, now));
        held.push(server.unacknowledged(id));
    }
    let all: u64 = held.iter().sum();
    assert!(all > 4 << 20 && all < memory.total(), "{all}: {held:?}");
    assert!(held.iter().all(|held| *held >= memory.floor() / 2), "each has its floor: {held:?}");
}
