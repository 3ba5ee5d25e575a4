//! Tests of SCTP over DTLS in virtual time: handshakes, data, losses, certificates, and the end of connections.

use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_dtls::{DtlsLayer, HostConfig, Pair, Settings, Version};
use anabranch_link::LinkSpec;
use anabranch_sim::{Network, NodeId, SimWorld};
use anabranch_tls::{Identity, Simulation, Surroundings, Trust};
use anabranch_transport::sctp::{Config, LowerProtocol, SctpHost, SctpServer};
use anabranch_transport::{CloseReason, Listener, Session, Stream};
use anabranch_world::{Detach, World};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

const SECRET: &[u8] = b"nobody on the way is to read this sentence";
pub const ADDRESSES: [[u8; 4]; 2] = [[10, 0, 0, 1], [10, 0, 0, 2]];
/// The UDP port of the server.
pub const UDP: u16 = 4433;

fn surroundings(world: &SimWorld) -> Surroundings {
    let clock = world.clone();
    Surroundings::Simulated(Simulation::new(world.rng("dtls"), move || clock.now()))
}

pub fn layer(world: &SimWorld, settings: Settings) -> Rc<DtlsLayer<SimWorld>> {
    // In these tests, DTLS 1.3 changes its keys every ten records, so every test also covers key updates.
    let config =
        HostConfig::new(settings, surroundings(world)).expect("a configuration").update_keys_after(10);
    Rc::new(DtlsLayer::new(world.clone(), config, Some(Pair::NAME)))
}

pub fn identity() -> (Identity, Trust) {
    let (identity, root) = Identity::simulated_single(Pair::NAME, 3_000).expect("a certificate");
    (identity, Trust::Authorities(vec![root]))
}

pub async fn host(world: &SimWorld, settings: Settings, port: u16) -> SctpHost<SimWorld> {
    let config = Config::profile("modern").expect("a profile");
    let layer = layer(world, settings);
    SctpHost::layered(world.clone(), config, LowerProtocol::Udp { port }, layer).await.expect("a host")
}

pub async fn server(world: &SimWorld, version: Version) -> SctpHost<SimWorld> {
    let settings = Settings { version, identity: Some(identity().0), trust: None, key_log: None };
    let host = host(world, settings, UDP).await;
    echo(world, &host);
    host
}

/// Echoes the data on the first stream of each association.
pub fn echo(world: &SimWorld, host: &SctpHost<SimWorld>) {
    let mut listener = host.listen(7).expect("listening");
    let here = world.clone();
    let serve = async move {
        while let Ok(session) = listener.accept().await {
            let echo = async move {
                let Ok(mut stream) = session.accept().await else { return };
                let mut buffer = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    if stream.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                }
            };
            here.spawn("echo", echo).detach();
        }
    };
    world.spawn("server", serve).detach();
}

fn to_server() -> SctpServer {
    SctpServer { addresses: vec![SocketAddr::new(IpAddr::from(ADDRESSES[1]), UDP)], port: 7 }
}

/// Sends `SECRET` to the echo server `times` times, on a new association. Returns the time at which the association was
/// established, and the time at which the last byte was back.
pub async fn talk(
    world: &SimWorld,
    host: &SctpHost<SimWorld>,
    times: usize,
) -> Result<[Instant; 2], CloseReason> {
    let session = host.connect_to(&to_server()).expect("begun");
    session.established().await?;
    let established = world.now();
    let mut stream = session.open(0).expect("a stream");
    let data = SECRET.repeat(times);
    stream.write_all(&data).await?;
    let (mut back, mut buffer) = (Vec::new(), [0; 4096]);
    while back.len() < data.len() {
        let read = stream.read(&mut buffer).await?;
        back.extend_from_slice(&buffer[..read]);
    }
    assert_eq!(back, data);
    let ended = world.now();
    session.close();
    drop((stream, session));
    host.wait_idle().await;
    Ok([established, ended])
}

pub fn network(seed: u64, link: &str) -> (Network, [NodeId; 2]) {
    let network = Network::new(seed);
    let nodes =
        [("client", 0), ("server", 1)].map(|(name, at)| network.host(name, &[IpAddr::from(ADDRESSES[at])]));
    network.link(nodes[0], nodes[1], &LinkSpec::parse(link).expect("a link")).expect("linked");
    network.capture(nodes[0]);
    (network, nodes)
}

pub const LIMIT: Instant = Instant::from_millis(600_000);

/// Runs [`talk`] between a client and a server. Returns its result and the client's capture.
fn run_talk(
    seed: u64,
    link: &str,
    versions: [Version; 2],
    trust: Trust,
    times: usize,
) -> (Option<Result<[Instant; 2], CloseReason>>, Vec<u8>) {
    let (network, nodes) = network(seed, link);
    let [here, there] = nodes.map(|node| network.world(node));
    let program = async move {
        let _server = server(&there, versions[1]).await;
        let client = host(
            &here,
            Settings { version: versions[0], identity: None, trust: Some(trust), key_log: None },
            0,
        )
        .await;
        talk(&here, &client, times).await
    };
    let result = network.run(program, LIMIT).done();
    (result, network.finish_capture(nodes[0]).expect("captured"))
}

const LINK: &str = "rate=10mbit,rtt=60ms";

#[test]
fn a_handshake_costs_its_round_trips_and_the_same_seed_gives_the_same_bytes() {
    for (version, trips) in [(Version::Only13, 4), (Version::Only12, 5)] {
        let run = |seed| run_talk(seed, LINK, [version; 2], identity().1, 100);
        let (result, capture) = run(1);
        let [established, _] = result.expect("in time").expect("met");
        // A round trip takes 60 ms. Including the cookie exchange, DTLS 1.3 needs two round trips, and DTLS 1.2 needs
        // three. SCTP needs two more. The transmission times of all packets add up to less than 30 ms.
        let (least, most) = (60 * trips, 60 * trips + 30);
        assert!((least..most).contains(&(established.as_nanos() / 1_000_000)), "{version:?} {established:?}");
        assert!(!capture.windows(SECRET.len()).any(|window| window == SECRET), "{version:?}");
        let (again, same) = run(1);
        assert_eq!(
            (Some(Ok([established, again.clone().expect("in time").expect("met")[1]])), &same),
            (again, &capture)
        );
        assert_ne!(run(2).1, capture, "{version:?}");
    }
}

/// RFC 9147 §4.1, RFC 7983 §7: every datagram between the ends is a DTLS datagram, whose first byte is from 20 to 63. A
/// packet of SCTP in UDP would begin with its source port.
#[test]
fn nothing_but_records_of_dtls_is_on_the_wire() {
    // Checks fields of the IPv4 header (RFC 791 §3.1): version, header length, protocol (UDP), and the addresses of
    // both ends.
    let header = |packet: &[u8]| {
        let ends = [[10, 0, 0, 1, 10, 0, 0, 2], [10, 0, 0, 2, 10, 0, 0, 1]];
        packet[0] == 0x45 && packet[9] == 17 && ends.iter().any(|ends| packet[12..20] == *ends)
    };
    for version in [Version::Only13, Version::Only12] {
        let (result, capture) = run_talk(1, LINK, [version; 2], identity().1, 100);
        result.expect("in time").expect("met");
        let firsts: Vec<u8> =
            capture.windows(29).filter(|packet| header(packet)).map(|packet| packet[28]).collect();
        assert!(firsts.len() > 20, "{version:?}: {} datagrams", firsts.len());
        assert!(firsts.iter().all(|first| (20..64).contains(first)), "{version:?}: {firsts:?}");
        assert!(!capture.windows(SECRET.len()).any(|window| window == SECRET), "{version:?}");
    }
}

#[test]
fn ends_of_both_versions_agree_on_the_newer_one() {
    for (versions, trips) in [
        ([Version::From12, Version::From12], 4),
        ([Version::From12, Version::Only12], 5),
        ([Version::Only12, Version::From12], 5),
        ([Version::Only13, Version::From12], 4),
    ] {
        let (result, _) = run_talk(1, LINK, versions, identity().1, 1);
        let [established, _] = result.expect("in time").expect("met");
        let took = established.as_nanos() / 1_000_000;
        assert!((60 * trips..60 * trips + 30).contains(&took), "{versions:?} {took}");
    }
}

#[test]
fn data_survives_packet_loss() {
    for seed in 0..12 {
        for version in [Version::Only12, Version::Only13] {
            let link = "rate=10mbit,rtt=60ms,loss=8%,reorder=5%/20ms,duplicate=3%,corrupt=1%";
            let (result, _) = run_talk(seed, link, [version; 2], identity().1, 500);
            result
                .unwrap_or_else(|| panic!("SEED={seed} {version:?}: not in time"))
                .unwrap_or_else(|why| panic!("SEED={seed} {version:?}: {why}"));
        }
    }
}

/// Every datagram of a handshake may be lost, and few datagrams repair it. Two timers of one second and the round trips of the handshake then pass, and
/// no more: the peer needs the retransmitted records also if they follow records that it has.
#[test]
fn a_handshake_that_loses_a_datagram_is_soon_done() {
    for version in [Version::Only12, Version::Only13] {
        for (side, lost) in ["up", "down"].into_iter().flat_map(|side| (1..=9).map(move |lost| (side, lost)))
        {
            let link = format!("{LINK},{side}-loss=list:{lost}");
            let (result, capture) = run_talk(1, &link, [version; 2], identity().1, 2);
            let connected = result.and_then(Result::ok).map(|[connected, _]| connected);
            assert!(
                connected.is_some_and(|at| at < Instant::from_millis(3_000)),
                "{version:?}: {side} {lost}: {connected:?}"
            );
            assert!(capture.len() < 30_000, "{version:?}: {side} {lost}: {} bytes of packets", capture.len());
        }
    }
}

#[test]
fn an_untrusted_server_receives_no_sctp_packet() {
    let fingerprint = anabranch_tls::Fingerprint([7; 32]);
    for version in [Version::Only12, Version::Only13] {
        let (result, _) = run_talk(1, LINK, [version; 2], Trust::Certificate(fingerprint), 1);
        match result.expect("in time") {
            Err(CloseReason::Untrusted(why)) => assert!(why.contains("another fingerprint"), "{why}"),
            other => panic!("{other:?}"),
        }
    }
}

/// A DTLS connection remains for a while after its last association has ended. Then one of the hosts closes the
/// connection with a close_notify alert.
#[test]
fn a_connection_without_associations_ends_with_an_alert() {
    // The header of an encrypted DTLS 1.2 alert, with the content type and the epoch.
    const ALERT: [u8; 5] = [21, 0xfe, 0xfd, 0, 1];
    let alerts = |wait: u64| {
        let (network, nodes) = network(1, LINK);
        let [here, there] = nodes.map(|node| network.world(node));
        let program = async move {
            let _server = server(&there, Version::Only12).await;
            let settings = Settings {
                version: Version::Only12,
                identity: None,
                trust: Some(identity().1),
                key_log: None,
            };
            let client = host(&here, settings, 0).await;
            talk(&here, &client, 1).await.expect("met");
            here.sleep_until(here.now() + Duration::from_secs(wait)).await;
            // After a short wait, the second association uses the DTLS connection of the first association. After a
            // long wait, that connection has ended, and a new one starts.
            let began = here.now();
            talk(&here, &client, 1).await.expect("met again")[0] - began
        };
        let took = network.run(program, LIMIT).done().expect("in time");
        let capture = network.finish_capture(nodes[0]).expect("captured");
        (capture.windows(5).filter(|bytes| *bytes == ALERT).count() > 0, took.as_millis() / 60)
    };
    assert_eq!(alerts(1), (false, 2), "two round trips of SCTP alone");
    assert_eq!(alerts(8), (true, 5), "and three of DTLS before");
}
