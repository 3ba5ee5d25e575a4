//! Tests of TLS over TCP in virtual time: handshakes, data, closing, and failures.

use anabranch_base::time::Duration;
use anabranch_base::{Instant, Rng};
use anabranch_link::LinkSpec;
use anabranch_sim::{Network, SimWorld};
use anabranch_tls::{
    Client, ClientSettings, Fingerprint, Identity, Server, ServerSettings, Simulation, Surroundings,
    TlsConnector, TlsListener, TlsSession, Trust,
};
use anabranch_transport::tcp::{Config, TcpConnector, TcpHost, TcpSession};
use anabranch_transport::{CloseReason, Connector, Listener, Session, Stream};
use anabranch_world::{Detach, World};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::task::Poll;

const NAME: &str = "server.test";
const SECRET: &[u8] = b"nobody on the way is to read this sentence";
const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

fn surroundings(world: &SimWorld) -> Surroundings {
    let clock = world.clone();
    Surroundings::Simulated(Simulation::new(world.rng("tls"), move || clock.now()))
}

fn config() -> Config {
    Config::profile("modern").expect("a profile")
}

/// A client's TLS connector to a server, and the client host whose TCP connections the connector uses.
struct ConnectorAndServer {
    connector: TlsConnector<SimWorld, TcpConnector<SimWorld>>,
    client: TcpHost<SimWorld>,
}

async fn ends<F: Future<Output = ()> + 'static>(
    worlds: [SimWorld; 2],
    trust: Trust,
    name: &str,
    server_settings: ServerSettings,
    protocols: Vec<Vec<u8>>,
    serve: impl Fn(TlsSession<TcpSession<SimWorld>>) -> F + 'static,
) -> ConnectorAndServer {
    let [here, there] = worlds;
    let client = TcpHost::new(here.clone(), config()).await.expect("a host");
    let host = TcpHost::new(there.clone(), config()).await.expect("a host");
    let server = Server::new(server_settings, surroundings(&there)).expect("a server");
    let mut listener = TlsListener::new(there.clone(), host.listen(443, 0).expect("listening"), server);
    let world = there.clone();
    there
        .spawn("server", async move {
            while let Ok(session) = listener.accept().await {
                world.spawn("session", serve(session)).detach();
            }
        })
        .detach();
    let settings = ClientSettings { trust, protocols, ..ClientSettings::default() };
    let tls = Client::new(settings, surroundings(&here)).expect("a client");
    let tcp = TcpConnector::new(client.clone(), vec![SocketAddr::new(SERVER, 443)]);
    let connector = TlsConnector::new(here, tcp, tls, &[name.to_owned()]).expect("a connector");
    ConnectorAndServer { connector, client }
}

async fn echo(session: TlsSession<TcpSession<SimWorld>>) {
    let Ok(mut stream) = session.accept().await else { return };
    let mut buffer = [0; 4096];
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        if stream.write_all(&buffer[..read]).await.is_err() {
            return;
        }
    }
}

/// Runs `program` on two hosts that are connected by the link `spec`. Returns the program's result and the client's
/// capture.
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

fn identity() -> (ServerSettings, Trust) {
    let (identity, root) = Identity::simulated(NAME, 3_000).expect("a chain");
    (ServerSettings::of(identity), Trust::Authorities(vec![root]))
}

/// Sends the bytes `data` to an echo server, reads them back, and closes the session. Returns the time at which the
/// handshake was complete, and the time at which the session had ended.
async fn talk(worlds: [SimWorld; 2], data: Vec<u8>) -> Result<[Instant; 2], CloseReason> {
    let (settings, trust) = identity();
    let world = worlds[0].clone();
    let ends = ends(worlds, trust, NAME, settings, Vec::new(), echo).await;
    let session = ends.connector.connect(0).expect("begun");
    session.established().await?;
    let ready = world.now();
    let mut stream = session.open(0).expect("the stream");
    // Writing and reading take place at the same time: without reading, the buffers of both ends would fill up.
    let (mut written, mut back, mut buffer) = (0, Vec::new(), vec![0; 10_000]);
    poll_fn(|cx| {
        while written < data.len() {
            let Poll::Ready(taken) = stream.poll_write(cx, &data[written..]) else { break };
            written += taken?;
        }
        while back.len() < data.len() {
            let Poll::Ready(read) = stream.poll_read(cx, &mut buffer) else { return Poll::Pending };
            let read = read?;
            assert!(read > 0, "ended early");
            back.extend_from_slice(&buffer[..read]);
        }
        Poll::Ready(Ok::<_, CloseReason>(()))
    })
    .await?;
    assert!(back == data, "other bytes came back");
    assert_eq!((stream.bytes_read(), stream.bytes_written()), (back.len() as u64, back.len() as u64));
    stream.finish();
    assert_eq!(stream.read(&mut buffer).await, Ok(0), "the server's closure alert");
    drop(stream);
    session.close();
    assert!(session.closed().await.is_graceful());
    ends.client.wait_idle().await;
    Ok([ready, world.now()])
}

#[test]
fn bytes_cross_sealed_and_the_handshake_takes_one_round_trip_more() {
    let link = "rate=10mbit,rtt=40ms";
    let (result, capture) = run(1, link, |worlds| talk(worlds, SECRET.repeat(100)));
    let [ready, _] = result.expect("talked");
    // The TCP handshake takes one round trip, and the TLS handshake takes another. The certificates, 3 kB in size, add
    // their transmission time.
    assert!((80..90).contains(&(ready.as_nanos() / 1_000_000)), "{ready}");
    assert!(!capture.windows(SECRET.len()).any(|window| window == SECRET), "readable on the wire");
}

#[test]
fn megabytes_cross_with_loss_both_ways() {
    let mut data = vec![0; 2_000_000];
    Rng::new(5).fill(&mut data);
    let (result, _) = run(2, "rate=50mbit,rtt=20ms,loss=1%", |worlds| talk(worlds, data));
    result.expect("talked");
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_one_others() {
    let capture =
        |seed| run(seed, "rate=10mbit,rtt=40ms,loss=2%", |worlds| talk(worlds, SECRET.repeat(500))).1;
    assert!(capture(7) == capture(7), "the same seed");
    assert!(capture(7) != capture(8), "another seed");
}

/// Returns the reason why a client with this trust and this server name refuses the server. Checks that the server gets
/// no data from the client.
fn refused(trust: Trust, name: &str) -> CloseReason {
    let (settings, _) = identity();
    let name = name.to_owned();
    let program = async move |worlds| {
        let nothing_read = async |session: TlsSession<TcpSession<SimWorld>>| {
            assert!(session.accept().await.is_err(), "the server saw a client that did not trust it");
        };
        let ends = ends(worlds, trust, &name, settings, Vec::new(), nothing_read).await;
        let session = ends.connector.connect(0).expect("begun");
        let reason = session.established().await.expect_err("refused");
        assert_eq!(session.open(0).err().map(|error| error.to_string()), Some(reason.to_string()));
        assert_eq!(session.closed().await, reason);
        drop(session);
        ends.client.wait_idle().await;
        reason
    };
    run(3, "rate=10mbit,rtt=40ms", program).0
}

#[test]
fn an_untrusted_server_is_refused_with_a_one_line_reason() {
    let (_, root) = identity();
    let untrusted = |line: &str| CloseReason::Untrusted(line.to_owned());
    assert_eq!(
        refused(root, "other.test"),
        untrusted("the server's certificate is not for other.test, but for server.test")
    );
    let stranger = Identity::self_signed(&[NAME.to_owned()]).expect("a certificate");
    assert_eq!(
        refused(Trust::Authorities(stranger.chain.clone()), NAME),
        untrusted("the server's certificate is signed by nobody who is trusted")
    );
    let (own, _) = Identity::simulated(NAME, 3_000).expect("a chain");
    let is = Fingerprint(own.fingerprint());
    assert_eq!(
        refused(Trust::Certificate(Fingerprint(stranger.fingerprint())), NAME),
        untrusted(&format!("the server's certificate has another fingerprint, {is}"))
    );
}

#[test]
fn a_fingerprint_or_anybody_will_do_whatever_the_name() {
    let (own, _) = Identity::simulated(NAME, 3_000).expect("a chain");
    for trust in [Trust::Certificate(Fingerprint(own.fingerprint())), Trust::Anybody] {
        let program = async |worlds| {
            let (settings, _) = identity();
            let ends = ends(worlds, trust, "other.test", settings, Vec::new(), echo).await;
            let session = ends.connector.connect(0).expect("begun");
            session.established().await
        };
        assert_eq!(run(4, "rate=10mbit,rtt=40ms", program).0, Ok(()));
    }
}

#[test]
fn alpn_is_negotiated_or_the_handshake_fails() {
    let agreed = |offered: &[&str]| {
        let offered: Vec<Vec<u8>> = offered.iter().map(|one| one.as_bytes().to_vec()).collect();
        let program = async move |worlds| {
            let (settings, trust) = identity();
            let protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
            let settings = ServerSettings { protocols, ..settings };
            let ends = ends(worlds, trust, NAME, settings, offered, echo).await;
            let session = ends.connector.connect(0).expect("begun");
            session.established().await.map(|()| session.protocol())
        };
        run(5, "rate=10mbit,rtt=40ms", program).0
    };
    assert_eq!(agreed(&["http/1.1", "h2"]), Ok(Some(b"h2".to_vec())), "the server chooses");
    assert_eq!(agreed(&["http/1.1"]), Ok(Some(b"http/1.1".to_vec())));
    assert_eq!(agreed(&[]), Ok(None));
    let none = agreed(&["gopher"]).expect_err("nothing in common");
    assert_eq!(
        none.to_string(),
        "protocol error: the peer ended TLS: the two share no application protocol (ALPN)"
    );
}

#[test]
fn a_session_is_resumed_with_fewer_bytes() {
    let program = async |worlds| {
        let (settings, trust) = identity();
        let ends = ends(worlds, trust, NAME, settings, Vec::new(), echo).await;
        let mut acknowledged = Vec::new();
        for _ in 0..2 {
            let session = ends.connector.connect(0).expect("begun");
            session.established().await.expect("established");
            let mut stream = session.open(0).expect("the stream");
            stream.write_all(b"x").await.expect("written");
            // The server sends its session tickets before the data, so the tickets have arrived after this read.
            assert_eq!(stream.read(&mut [0; 9]).await, Ok(1));
            drop(stream);
            acknowledged.push(ends.client.inspect(|engine| engine.totals().bytes_received));
            session.close();
            ends.client.wait_idle().await;
        }
        acknowledged
    };
    let (received, _) = run(6, "rate=10mbit,rtt=40ms", program);
    let second = received[1] - received[0];
    assert!(received[0] > 3_000 && second < 1_000, "{received:?}");
}

#[test]
fn a_missing_close_notify_is_reported_as_truncation() {
    let program = async |worlds: [SimWorld; 2]| {
        // The server closes TCP without a closure alert, as if an attacker on the path had sent a FIN.
        let [here, there] = worlds;
        let (settings, trust) = identity();
        let server = Server::new(settings, surroundings(&there)).expect("a server");
        let host = TcpHost::new(there.clone(), config()).await.expect("a host");
        let listener = host.listen(443, 0).expect("listening");
        let mut listener = TlsListener::new(there.clone(), listener, server);
        let cut = host.clone();
        there
            .spawn("server", async move {
                let session = listener.accept().await.expect("a session");
                let mut stream = session.accept().await.expect("a stream");
                stream.write_all(b"half").await.expect("written");
                // The call of `close` ends the server's TCP, so the client gets a FIN without a closure alert of TLS.
                anabranch_transport::Host::close(&cut);
            })
            .detach();
        let client = TcpHost::new(here.clone(), config()).await.expect("a host");
        let settings = ClientSettings { trust, ..ClientSettings::default() };
        let tls = Client::new(settings, surroundings(&here)).expect("a client");
        let tcp = TcpConnector::new(client.clone(), vec![SocketAddr::new(SERVER, 443)]);
        let connector = TlsConnector::new(here, tcp, tls, &[NAME.to_owned()]).expect("a connector");
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("established");
        let mut stream = session.open(0).expect("the stream");
        let mut buffer = [0; 100];
        assert_eq!(stream.read(&mut buffer).await, Ok(4));
        stream.read(&mut buffer).await
    };
    let (result, _) = run(7, "rate=10mbit,rtt=40ms", program);
    let reason = result.expect_err("cut");
    assert!(reason.to_string().contains("they may have been cut"), "{reason}");
}

#[test]
fn what_is_not_tls_is_refused_in_one_line() {
    let program = async |worlds: [SimWorld; 2]| {
        let [here, there] = worlds;
        let (settings, _) = identity();
        let server = Server::new(settings, surroundings(&there)).expect("a server");
        let host = TcpHost::new(there.clone(), config()).await.expect("a host");
        let listener = host.listen(443, 0).expect("listening");
        let mut listener = TlsListener::new(there.clone(), listener, server);
        let client = TcpHost::new(here, config()).await.expect("a host");
        let session = client.connect(SocketAddr::new(SERVER, 443)).expect("begun");
        let mut stream = session.open(0).expect("the stream");
        stream.write_all(b"GET / HTTP/1.1\r\n\r\n").await.expect("written");
        let taken = listener.accept().await.expect("a session");
        taken.established().await.expect_err("refused").to_string()
    };
    assert_eq!(run(8, "rate=10mbit,rtt=40ms", program).0, "protocol error: what the peer sent is not TLS");
}

#[test]
fn the_stream_is_accepted_once_and_then_the_end() {
    let program = async |worlds: [SimWorld; 2]| {
        let (settings, trust) = identity();
        let serve = async |session: TlsSession<TcpSession<SimWorld>>| {
            let mut stream = session.accept().await.expect("a stream");
            assert_eq!(stream.read(&mut [0; 9]).await, Ok(3));
            assert_eq!(stream.read(&mut [0; 9]).await, Ok(0));
            drop(stream);
            session.close();
            assert_eq!(session.accept().await.err(), Some(CloseReason::Finished));
        };
        let ends = ends(worlds, trust, NAME, settings, Vec::new(), serve).await;
        let session = ends.connector.connect(0).expect("begun");
        session.established().await.expect("established");
        let mut stream = session.open(0).expect("the stream");
        stream.write_all(b"one").await.expect("written");
        drop((stream, session));
        ends.client.wait_idle().await;
    };
    run(9, "rate=10mbit,rtt=40ms", program);
}
