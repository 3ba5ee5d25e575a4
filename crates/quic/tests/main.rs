//! Tests of QUIC connections and streams in virtual time.

mod migration;
mod sending;
mod traces;
mod validation;

use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_link::LinkSpec;
use anabranch_quic::{
    Config, Endpoint, EndpointOptions, Options, QuicConnector, QuicListener, QuicSession, QuicStream, Source,
    obtain_tickets, start,
};
use anabranch_sim::{Network, SimWorld};
use anabranch_tls::{
    Client, ClientSettings, Fingerprint, HostTls, Identity, Pair, PairSettings, ResumptionMode, Server,
    ServerSettings, Simulation, Surroundings, Trust, Versions,
};
use anabranch_transport::{CloseReason, Connector, Listener, ONE_WAY, OpenError, Session, Stream};
use anabranch_world::{Detach, World};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};

const NAME: &str = "server.test";
const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const PROTOCOL: &[u8] = b"test";

fn surroundings(world: &SimWorld) -> Surroundings {
    let clock = world.clone();
    Surroundings::Simulated(Simulation::new(world.rng("tls"), move || clock.now()))
}

/// Runs `program` on two hosts that a link connects; `link` is its specification. Returns the program's result and the
/// client's capture.
fn run<T, F: Future<Output = T>>(
    seed: u64,
    link: &str,
    program: impl FnOnce([SimWorld; 2]) -> F,
) -> (T, Vec<u8>) {
    let network = Network::new(seed);
    let [client, server] = [("client", [10, 0, 0, 1].into()), ("server", SERVER)]
        .map(|(name, address)| network.host(name, &[address]));
    network.link(client, server, &LinkSpec::parse(link).expect("a link")).expect("linked");
    network.capture(client);
    let worlds = [network.world(client), network.world(server)];
    let result = network.run(program(worlds), Instant::ZERO + Duration::from_secs(600)).expect_done();
    (result, network.finish_capture(client).expect("captured"))
}

/// Starts an echo server, and returns a connector with which the client connects to this server.
async fn echo_connector(worlds: [SimWorld; 2], config: &Config, trusted: bool) -> QuicConnector<SimWorld> {
    let world = worlds[1].clone();
    let (mut listener, connector) = hosts(worlds, config, trusted).await;
    let there = world.clone();
    there
        .spawn("server", async move {
            while let Ok(session) = listener.accept().await {
                world.spawn("session", echo(world.clone(), session)).detach();
            }
        })
        .detach();
    connector
}

/// Returns both ends of a new connection, and the client's world.
async fn pair(worlds: [SimWorld; 2]) -> ([QuicSession<SimWorld>; 2], SimWorld) {
    let world = worlds[0].clone();
    let (mut listener, connector) = hosts(worlds, &Config::default(), true).await;
    let client = connector.connect(0).expect("begun");
    client.established().await.expect("stands");
    let server = listener.accept().await.expect("accepted");
    // This task keeps the listener as long as the world exists, so the server's port stays open.
    world.spawn("listener", async move { drop(listener.accept().await) }).detach();
    ([client, server], world)
}

/// Returns a server's listener and a client's connector to it. Without `trusted` the client rejects the server's
/// certificate.
async fn hosts(
    worlds: [SimWorld; 2],
    config: &Config,
    trusted: bool,
) -> (QuicListener<SimWorld>, QuicConnector<SimWorld>) {
    let [here, there] = worlds;
    let (identity, root) = Identity::simulated(NAME, 3_000).expect("a chain");
    let settings = ServerSettings {
        versions: Versions::Only13,
        protocols: vec![PROTOCOL.to_vec()],
        ..ServerSettings::of(identity)
    };
    let server = Server::new(settings, surroundings(&there)).expect("a server");
    let far = HostTls { surroundings: surroundings(&there), client: None, server: Some(server) };
    let host = start(there.clone(), 443, config.clone(), far, Options::default()).await.expect("a host");
    let listener = host.listen_with(443, 0).expect("listening");
    let near = if trusted { client_with(&here, Trust::Authorities(vec![root])) } else { client_of(&here) };
    let host = start(here.clone(), 0, config.clone(), near, Options::default()).await.expect("a host");
    (listener, QuicConnector::new(host, vec![SocketAddr::new(SERVER, 443)]))
}

/// Creates a client that trusts only a fingerprint that no certificate has.
fn client_of(here: &SimWorld) -> HostTls {
    client_with(here, Trust::Certificate(Fingerprint([0; 32])))
}

fn client_with(here: &SimWorld, trust: Trust) -> HostTls {
    let settings = ClientSettings { trust, protocols: vec![PROTOCOL.to_vec()], ..ClientSettings::default() };
    let client = Client::new(settings, surroundings(here)).expect("a client");
    HostTls { surroundings: surroundings(here), client: Some((client, NAME.to_owned())), server: None }
}

async fn echo(world: SimWorld, session: QuicSession<SimWorld>) {
    while let Ok(mut stream) = session.accept().await {
        world
            .spawn("stream", async move {
                let mut buffer = [0; 4096];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    if stream.write_all(&buffer[..read]).await.is_err() {
                        return;
                    }
                }
                stream.finish();
            })
            .detach();
    }
}

/// Sends `bytes` bytes on each of `streams` streams in parallel, and reads the echoes. Returns the time at which the
/// connection was established, and the time at which the last echoed byte arrived.
async fn talk(
    worlds: [SimWorld; 2],
    config: Config,
    streams: u64,
    bytes: usize,
) -> Result<[Instant; 2], CloseReason> {
    let world = worlds[0].clone();
    let connector = echo_connector(worlds, &config, true).await;
    let session = connector.connect(0).expect("begun");
    session.established().await?;
    let ready = world.now();
    let mut tasks = Vec::new();
    for number in 0..streams {
        let mut stream = session.open(number).expect("a stream");
        tasks.push(world.spawn("talk", async move {
            let data: Vec<u8> = (0..bytes).map(|at| (at as u64 * 7 + number) as u8).collect();
            stream.write_all(&data).await.expect("written");
            stream.finish();
            let (mut back, mut buffer) = (Vec::new(), [0; 10_000]);
            while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                back.extend_from_slice(&buffer[..read]);
            }
            assert!(back == data, "stream {number}: {} of {bytes} bytes", back.len());
        }));
    }
    for task in tasks {
        task.await;
    }
    let done = world.now();
    session.close();
    Ok([ready, done])
}

#[test]
fn a_connection_stands_after_one_round_trip_and_its_streams_carry_bytes_both_ways() {
    let (result, capture) =
        run(1, "rate=10mbit,rtt=40ms", |worlds| talk(worlds, Config::default(), 10, 20_000));
    let [ready, done] = result.expect("talked");
    // The handshake takes one round trip, because the server's first flight does not exceed the anti-amplification
    // limit (RFC 9000 §8.1).
    assert!((40..90).contains(&(ready.as_nanos() / 1_000_000)), "{ready}");
    assert!(done.as_nanos() < 2_000_000_000, "{done}");
    assert!(!capture.is_empty());
}

#[test]
fn losses_are_made_good() {
    for seed in 1..=5 {
        let (result, _) =
            run(seed, "rate=10mbit,rtt=40ms,loss=5%", |worlds| talk(worlds, Config::default(), 5, 50_000));
        result.expect("talked");
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let capture = |seed| {
        run(seed, "rate=10mbit,rtt=40ms,loss=2%", |worlds| talk(worlds, Config::default(), 3, 30_000)).1
    };
    assert!(capture(1) == capture(1), "two runs of one seed differ");
    assert!(capture(1) != capture(2), "two seeds give the same");
}

#[test]
fn an_untrusted_server_fails_the_handshake() {
    let (result, _) = run(1, "rate=10mbit,rtt=40ms", |worlds| async move {
        let connector = echo_connector(worlds, &Config::default(), false).await;
        let session = connector.connect(0).expect("begun");
        session.established().await
    });
    assert!(matches!(result, Err(CloseReason::Untrusted(_))), "{result:?}");
}

#[test]
fn every_controller_brings_a_transfer_to_its_end() {
    let times: Vec<u64> = ["cubic", "reno", "bbr", "quinn-cubic"]
        .into_iter()
        .map(|cc| {
            let mut config = Config::default();
            config.set("cc", cc).expect("a controller");
            let (result, _) =
                run(3, "rate=10mbit,rtt=40ms,queue=100p", |worlds| talk(worlds, config, 1, 1_000_000));
            result.expect("talked")[1].as_nanos() / 1_000_000
        })
        .collect();
    // 1 MB takes 0.8 s at 10 Mbit/s, and both directions run at the same time.
    assert!(times.iter().all(|ms| (800..4_000).contains(ms)), "{times:?}");
}

/// A graceful close delivers all written data. Until the data is delivered, it counts as unacknowledged.
#[test]
fn an_end_in_good_order_waits_for_what_was_written() {
    let (result, _) = run(1, "rate=10mbit,rtt=40ms,loss=2%", |worlds| async move {
        let [here, there] = worlds.clone();
        let connector = echo_connector(worlds, &Config::default(), true).await;
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("established");
        let mut stream = session.open(0).expect("a stream");
        stream.write_all(&[7; 100_000]).await.expect("written");
        stream.finish();
        let before = (session.unacknowledged(), here.now());
        session.close();
        let reason = session.closed().await;
        (before, reason, session.unacknowledged(), here.now(), there.now())
    });
    let ((unacknowledged, begun), reason, rest, ended, _) = result;
    assert_eq!((unacknowledged, reason, rest), (100_000, CloseReason::Finished, 0));
    // The link needs 80 ms for 100 kB.
    assert!(ended - begun >= Duration::from_millis(100), "{begun} {ended}");
}

#[test]
fn an_abort_is_reported_as_an_abort() {
    let (result, _) = run(1, "rate=10mbit,rtt=40ms", |worlds| async move {
        let world = worlds[0].clone();
        let connector = echo_connector(worlds, &Config::default(), true).await;
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("established");
        session.abort();
        let closed = world.timeout(Some(Duration::from_millis(1)), session.closed()).await;
        // No socket is bound to this port, so the host sends an ICMP message.
        let nowhere = QuicConnector::new(
            start(world.clone(), 0, Config::default(), client_of(&world), Options::default())
                .await
                .expect("a host"),
            vec![SocketAddr::new(SERVER, 9)],
        );
        let silent = nowhere.connect(0).expect("begun");
        (closed, silent.established().await)
    });
    assert_eq!(result.0, Some(CloseReason::Aborted));
    assert_eq!(result.1, Err(CloseReason::Refused));
}

/// A thousand exchanges each use a new stream, although at most two streams may be open at the same time.
#[test]
fn streams_come_and_go() {
    let (result, _) = run(1, "rate=100mbit,rtt=2ms", |worlds| async move {
        let mut config = Config::default();
        config.set("streams", "2").expect("a number");
        let connector = echo_connector(worlds, &config, true).await;
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("established");
        for number in 0..1_000u64 {
            let mut stream = session.open(number).expect("a stream");
            stream.write_all(&number.to_be_bytes()).await.expect("written");
            stream.finish();
            let (mut back, mut buffer) = (Vec::new(), [0; 100]);
            while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                back.extend_from_slice(&buffer[..read]);
            }
            assert_eq!(back, number.to_be_bytes());
        }
        session.streams()
    });
    assert_eq!(result, 2);
}

/// A simulated certificate comes with a crypto provider without real randomness. An endpoint on a real network refuses
/// that provider.
#[test]
fn certificates_of_virtual_time_are_of_no_use_on_a_real_network() {
    let simulated = Surroundings::Simulated(Simulation::new(anabranch_base::Rng::new(1), || Instant::ZERO));
    let pair = Pair::new(PairSettings::default(), &["test"], &simulated).expect("a pair");
    let begin = |surroundings: &Surroundings| {
        Endpoint::new(EndpointOptions {
            config: Config::default(),
            local: SocketAddr::new(SERVER, 443),
            rng: anabranch_base::Rng::new(1),
            tls: pair.host_tls(surroundings),
            segments: 1,
            shard: None,
            logs: None,
        })
        .map(|_| ())
    };
    assert_eq!(begin(&simulated), Ok(()));
    let refused = begin(&Surroundings::Real).expect_err("refused");
    assert!(refused.contains("of virtual time"), "{refused}");
}

/// An earlier connection gives the client tickets (RFC 8446 §4.6.1). With such a ticket, the client can send early data
/// in the next connection.
#[test]
fn an_earlier_connection_leaves_tickets_for_early_data() {
    let simulated = Surroundings::Simulated(Simulation::new(anabranch_base::Rng::new(1), || Instant::ZERO));
    let begins_early = |resumption| {
        let pair = Pair::with_resumption(
            PairSettings { resumption, ..PairSettings::default() },
            &["test"],
            &simulated,
            &|client, server| obtain_tickets(&Config::default(), client, server),
        );
        let mut endpoint = Endpoint::new(EndpointOptions {
            config: Config::default(),
            local: SocketAddr::from(([10, 0, 0, 1], 1000)),
            rng: anabranch_base::Rng::new(1),
            tls: pair.expect("a pair").host_tls(&simulated),
            segments: 1,
            shard: None,
            logs: None,
        })
        .expect("an endpoint");
        let id = endpoint.connect(Instant::ZERO, SocketAddr::new(SERVER, 443)).expect("begun");
        endpoint.early_data(id)
    };
    assert_eq!(
        [ResumptionMode::Never, ResumptionMode::Before, ResumptionMode::Early].map(begins_early),
        [false, false, true]
    );
}

/// A host is in two networks, and only its second address is in the server's network. `Source::Routed` reaches the
/// server, and `Source::First` does not.
#[test]
fn packets_leave_from_the_first_address_or_by_the_routes() {
    let answer = |source| {
        let network = Network::new(1);
        let [first, routed] = [[10, 9, 0, 1].into(), [10, 0, 0, 1].into()];
        let client = network.host("client", &[first, routed]);
        let [other, server] = [("other", [10, 9, 0, 2].into()), ("server", SERVER)]
            .map(|(name, address)| network.host(name, &[address]));
        for host in [other, server] {
            let link = LinkSpec::parse("rate=10mbit,rtt=40ms").expect("a link");
            network.link(client, host, &link).expect("linked");
        }
        let worlds = [network.world(client), network.world(server)];
        let program = async move {
            let here = worlds[0].clone();
            let (_listener, _) = hosts(worlds, &Config::default(), true).await;
            let options = Options { source, ..Options::default() };
            let near = start(here.clone(), 0, Config::default(), client_of(&here), options).await;
            let connector = QuicConnector::new(near.expect("a host"), vec![SocketAddr::new(SERVER, 443)]);
            let session = connector.connect(0).expect("begun");
            here.timeout(Some(Duration::from_secs(5)), session.established()).await
        };
        network.run(program, Instant::ZERO + Duration::from_secs(600)).expect_done()
    };
    assert_eq!(answer(Source::First), None, "the first address leads to another host");
    // The client rejects the server's certificate, which shows that the server has answered.
    assert!(matches!(answer(Source::Routed), Some(Err(CloseReason::Untrusted(_)))));
}

/// Data of a stream with a lower rank must be sent first, even if it was written later.
#[test]
fn a_stream_of_a_lower_rank_goes_first() {
    let (result, _) = run(1, "rate=10mbit,rtt=40ms", |worlds| async move {
        let ([client, server], world) = pair(worlds).await;
        let mut streams = Vec::new();
        for rank in [1, 0] {
            let mut stream = begin(&client, false).await.expect("begun");
            stream.set_rank(rank);
            stream.write_all(&[7; 100_000]).await.expect("written");
            stream.finish();
            streams.push(stream);
        }
        let mut readers = Vec::new();
        for _ in 0..2 {
            let mut stream = server.accept().await.expect("accepted");
            let clock = world.clone();
            readers.push(world.spawn("reader", async move {
                let mut buffer = [0; 10_000];
                while let Ok(1..) = stream.read(&mut buffer).await {}
                (stream.number(), clock.now())
            }));
        }
        let mut ended = Vec::new();
        for reader in readers {
            ended.push(reader.await);
        }
        ended.sort_unstable();
        ended
    });
    let [(0, later), (1, sooner)] = result[..] else { panic!("{result:?}") };
    // The link needs 80 ms for 100 kB.
    assert!(later >= sooner + Duration::from_millis(70), "{sooner} {later}");
}

/// The server begins more unidirectional streams than may be open at the same time, and the client begins one. Each
/// stream carries data in one direction only. Unidirectional streams are numbered separately from bidirectional
/// streams.
#[test]
fn streams_of_one_way_go_one_way_and_are_counted_apart() {
    let (result, _) = run(1, "rate=10mbit,rtt=40ms", |worlds| async move {
        let ([client, server], world) = pair(worlds).await;
        let from_server = world.spawn("server", async move {
            for number in 0..20 {
                let mut stream = begin(&server, true).await.expect("begun");
                assert_eq!(stream.number(), ONE_WAY | (number * 2 + 1));
                assert!(matches!(stream.read(&mut [0]).await, Ok(0)), "nothing comes on it");
                stream.write_all(&[number as u8]).await.expect("written");
                stream.finish();
            }
            let refused = begin(&server, false).await.expect_err("a server begins none both ways");
            assert!(matches!(refused, OpenError::NoSuchStream { .. }), "{refused}");
            let mut stream = poll_fn(|cx| server.poll_accept_one_way(cx)).await.expect("accepted");
            assert_eq!(stream.number(), ONE_WAY);
            assert!(stream.write(&[1]).await.is_err(), "nothing goes on it");
            assert_eq!((stream.read(&mut [0; 9]).await, stream.read(&mut [0; 9]).await), (Ok(2), Ok(0)));
            server
        });
        for number in 0..20 {
            let mut stream = poll_fn(|cx| client.poll_accept_one_way(cx)).await.expect("accepted");
            let mut got = [0; 9];
            assert_eq!(stream.read(&mut got).await, Ok(1));
            assert_eq!((stream.read(&mut [0]).await, got[0]), (Ok(0), number));
        }
        let mut stream = begin(&client, true).await.expect("begun");
        stream.write_all(b"hi").await.expect("written");
        stream.finish();
        drop(from_server.await);
    });
    result
}

/// A client begins more streams in total than may be open at the same time. This works because each finished stream
/// makes room for another stream.
#[test]
fn there_are_always_more_streams() {
    let mut config = Config::default();
    config.set("streams", "4").expect("a number");
    let (result, _) = run(1, "rate=10mbit,rtt=40ms", |worlds| async move {
        let session = echo_connector(worlds, &config, true).await.connect(0).expect("begun");
        session.established().await.expect("stands");
        for number in 0..400 {
            let mut stream = begin(&session, false).await.expect("begun");
            assert_eq!(stream.number(), number);
            stream.write_all(b"hi").await.expect("written");
            stream.finish();
            let mut got = [0; 9];
            assert_eq!((stream.read(&mut got).await, stream.read(&mut got).await), (Ok(2), Ok(0)));
        }
    });
    result
}

/// Each direction of a stream can be cancelled separately, with a code that the other end can read.
#[test]
fn a_direction_is_cancelled_with_a_code() {
    let (result, _) = run(1, "rate=10mbit,rtt=40ms", |worlds| async move {
        let ([client, server], world) = pair(worlds).await;
        let mut near = begin(&client, false).await.expect("begun");
        near.write_all(b"hi").await.expect("written");
        let mut far = server.accept().await.expect("accepted");
        assert_eq!(far.read(&mut [0; 9]).await, Ok(2));
        near.cancel_writing(7);
        assert_eq!((far.read(&mut [0]).await, far.cancel_code(true)), (Err(CloseReason::Cancelled), Some(7)));
        near.cancel_reading(8);
        let refused = loop {
            if let Err(refused) = far.write(&[0; 4096]).await {
                break refused;
            }
        };
        assert_eq!((refused, far.cancel_code(false)), (CloseReason::Cancelled, Some(8)));
        // After the cancellations, the connection still works.
        drop((near, far));
        let mut near = begin(&client, false).await.expect("begun");
        near.write_all(b"hi").await.expect("written");
        assert_eq!(server.accept().await.expect("accepted").read(&mut [0; 9]).await, Ok(2));
        // The server waits before it closes, because quinn sends no CONNECTION_CLOSE while its congestion window is
        // full.
        world.sleep_until(world.now() + Duration::from_secs(1)).await;
        server.close_with(9, "enough");
        let reason = client.closed().await;
        assert!(reason.to_string().contains("enough"), "{reason}");
    });
    result
}

/// With a limit on unsent data, a stream accepts only little data. A later stream therefore does not wait for megabytes
/// of an earlier stream.
#[test]
fn limit_unsent_bounds_written_data() {
    let taken = |unsent: Option<u64>| {
        run(1, "rate=1mbit,rtt=40ms", |worlds| async move {
            let ([client, _server], world) = pair(worlds).await;
            unsent.into_iter().for_each(|bytes| client.limit_unsent(bytes));
            let mut stream = begin(&client, false).await.expect("begun");
            let writing = world.timeout(Some(Duration::from_millis(10)), stream.write_all(&[0; 3_000_000]));
            let _ = writing.await;
            stream.bytes_written()
        })
        .0
    };
    let (all, some) = (taken(None), taken(Some(16_384)));
    // With the limit, the stream accepts the initial window (ten packets of at least 1200 bytes) plus 16,384 bytes.
    assert!(all > 2_000_000 && (28_000..40_000).contains(&some), "{all} {some}");
}

async fn begin(session: &QuicSession<SimWorld>, one_way: bool) -> Result<QuicStream<SimWorld>, OpenError> {
    poll_fn(|cx| session.poll_begin(cx, one_way)).await
}

/// A unidirectional stream continues after its reader has released it. Only a reader that cancels the stream stops its
/// writer.
#[test]
fn a_released_one_way_stream_is_not_stopped() {
    let (result, _) = run(1, "rate=10mbit,rtt=40ms", |worlds| async move {
        let ([client, server], world) = pair(worlds).await;
        let mut stopped = Vec::new();
        for cancels in [false, true] {
            let mut near = begin(&server, true).await.expect("begun");
            near.write_all(b"hi").await.expect("written");
            let mut far = poll_fn(|cx| client.poll_accept_one_way(cx)).await.expect("accepted");
            assert_eq!(far.read(&mut [0; 9]).await, Ok(2));
            if cancels {
                far.cancel_reading(7);
            }
            drop(far);
            let wait = poll_fn(|cx| near.poll_stopped(cx));
            stopped.push(world.timeout(Some(Duration::from_secs(1)), wait).await);
        }
        stopped
    });
    assert_eq!(result, [None, Some(7)]);
}

/// A session that is being closed delivers the data of finished streams before it ends.
#[test]
fn a_close_waits_for_what_was_written() {
    let (result, _) = run(1, "rate=1mbit,rtt=40ms,loss=2%", |worlds| async move {
        let ([client, server], _) = pair(worlds).await;
        let mut stream = begin(&server, true).await.expect("begun");
        stream.write_all(&[7; 300_000]).await.expect("written");
        stream.finish();
        server.close();
        let mut stream = poll_fn(|cx| client.poll_accept_one_way(cx)).await.expect("accepted");
        let (mut read, mut buffer) = (0, [0; 10_000]);
        while let Ok(more @ 1..) = stream.read(&mut buffer).await {
            read += more;
        }
        assert_eq!((read, client.closed().await, server.closed().await), (300_000, FINISHED, FINISHED));
    });
    result
}

const FINISHED: CloseReason = CloseReason::Finished;
