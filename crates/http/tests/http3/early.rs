//! Tests requests that are sent early, with the handshake (RFC 8470): what a server accepts, and what a client sends.

use super::*;
use anabranch_quic::{QuicHost, obtain_tickets};
use anabranch_tls::{Pair, PairSettings, ResumptionMode};

/// Returns the server's listener and the client's connector. `resumption` states whether the client has a ticket from
/// an earlier connection. If `remembered` is false, the server cannot decrypt this ticket.
async fn visited(
    [here, there]: [&SimWorld; 2],
    resumption: ResumptionMode,
    remembered: bool,
) -> (QuicListener<SimWorld>, QuicConnector<SimWorld>) {
    let within = |world: &SimWorld, label: &str| {
        let clock = world.clone();
        Surroundings::Simulated(Simulation::new(world.rng(label), move || clock.now()))
    };
    let pair = |label: &str| {
        let visit = |client: &Client, server: &Server| obtain_tickets(&Config::default(), client, server);
        Pair::with_resumption(
            PairSettings { resumption, ..PairSettings::default() },
            &["h3"],
            &within(there, label),
            &visit,
        )
        .expect("a pair")
    };
    let (known, elsewhere) = (pair("before"), pair("elsewhere"));
    let host = async |world: &SimWorld, port: u16, ends: HostTls| -> QuicHost<SimWorld> {
        start(world.clone(), port, Config::default(), ends, Options::default()).await.expect("a host")
    };
    let ends = if remembered { &known } else { &elsewhere }.host_tls(&within(there, "tls"));
    let listener = host(there, 443, HostTls { client: None, ..ends }).await.listen_with(443, 0);
    let ends = known.host_tls(&within(here, "tls"));
    let connector = QuicConnector::new(
        host(here, 0, HostTls { server: None, ..ends }).await,
        vec![SocketAddr::new(SERVER, 443)],
    );
    (listener.expect("listening"), connector)
}

/// Sends a request whose method has the index `method` in the static table. Returns three results: whether the request
/// was sent in early data, the status, and the time until the response.
async fn get_status(world: &SimWorld, session: &QuicSession<SimWorld>, method: u8) -> (bool, u16, Duration) {
    let request = [0, 0, 0xc0 | method, 0xc0 | 23, 0x50, 1, b'a', 0x51, 2, b'/', b'0'];
    let (began, early) = (world.now(), session.early_data());
    let mut stream = poll_fn(|cx| session.poll_begin(cx, false)).await.expect("begun");
    stream.write_all(&frame(HEADERS, &request)).await.expect("written");
    stream.finish();
    let (mut answer, mut buffer) = (Vec::new(), [0; 10_000]);
    while let Ok(read @ 1..) = stream.read(&mut buffer).await {
        answer.extend_from_slice(&buffer[..read]);
    }
    (early, status(&answer), world.now() - began)
}

/// Decodes the `:status` of a response. Returns 0 for a status that no test expects.
pub(super) fn status(answer: &[u8]) -> u16 {
    // The frame begins with a type, a length (RFC 9000 §16), and the prefix of the field section.
    let [HEADERS, length, rest @ ..] = answer else { return 0 };
    match rest
        .get((1 << (length >> 6)) - 1..)
        .and_then(|section| section.strip_prefix(&[0, 0]))
        .unwrap_or_default()
    {
        [0xd9, ..] => 200,
        [0xff, 7, ..] => 425,
        // A name from the static table, and a value in Huffman code (RFC 7541 Appendix B).
        [0x5f, 9, 0x83, 0x68, 0x0d, 0xff, ..] => 405,
        [0x5f, 9, 0x83, 0x69, 0x90, 0xff, ..] => 431,
        _ => 0,
    }
}

/// The indexes of GET, HEAD, POST and PUT in the static table (RFC 9204 Appendix A).
const GET: u8 = 17;
const HEAD: u8 = 18;
const POST: u8 = 20;
const PUT: u8 = 21;

/// Runs `program` with two hosts, which are connected by a link with a round-trip time of 40 ms. One of the hosts
/// serves a page.
fn between<T, F: Future<Output = T>>(
    resumption: ResumptionMode,
    remembered: bool,
    program: impl FnOnce(SimWorld, QuicConnector<SimWorld>) -> F,
) -> T {
    let network = Network::new(1);
    let [client, server] = [("client", [10, 0, 0, 1].into()), ("server", SERVER)]
        .map(|(name, address)| network.host(name, &[address]));
    network.link(client, server, &LinkSpec::parse(LINK).expect("a link")).expect("linked");
    let (client_world, server_world) = (network.world(client), network.world(server));
    let all = async move {
        let (listener, connector) = visited([&client_world, &server_world], resumption, remembered).await;
        let site = Rc::new(PageSite::new(&page()));
        let serving = serve::run(server_world.clone(), listener, site, options(), Recorder::default());
        server_world.spawn("server", async move { drop(serving.await) }).detach();
        program(client_world, connector).await
    };
    network.run(all, Instant::ZERO + Duration::from_secs(60)).expect_done()
}

/// Before the handshake is complete, the server must reject requests that could do harm if they are replayed. The
/// status is 425 (RFC 8470 §5.2). After the handshake, the server must handle the same request like any other.
#[test]
fn unsafe_requests_in_early_data_are_refused() {
    for (method, early, late) in [(GET, 200, 200), (HEAD, 200, 200), (POST, 425, 405), (PUT, 425, 405)] {
        let [first, second] = between(ResumptionMode::Early, true, |world, connector| async move {
            let session = connector.connect(0).expect("begun");
            let _control = open_one_way(&session, &CONTROL).await;
            [get_status(&world, &session, method).await, get_status(&world, &session, method).await]
        });
        assert_eq!([(first.0, first.1), (second.0, second.1)], [(true, early), (false, late)], "{method}");
        if method != GET {
            // The response must not wait for the handshake. It takes one round trip, plus the time for the server's
            // handshake packets.
            assert!(first.2 < Duration::from_millis(60), "{method}: {:?}", first.2);
        }
    }
}

/// Before the handshake is complete, a client may send a request only if the client's session ticket permits early
/// data. An attacker can replay early data, so the server's permission is necessary.
#[test]
fn without_a_ticket_for_it_nothing_is_sent_early() {
    for resumption in [ResumptionMode::Never, ResumptionMode::Before] {
        let (early, first) = between(resumption, true, |world, connector| async move {
            let session = connector.connect(0).expect("begun");
            let early = session.early_data();
            session.established().await.expect("stands");
            let _control = open_one_way(&session, &CONTROL).await;
            (early, get_status(&world, &session, POST).await)
        });
        assert_eq!((early, first.0, first.1), (false, false, 405), "{resumption:?}");
    }
}

/// The client requests the page in early data. If the server rejects the early data, the client must repeat the request
/// and load the complete page.
#[test]
fn requests_in_rejected_early_data_are_repeated() {
    for (remembered, connections) in [(true, 1), (false, 2)] {
        let outcome = between(ResumptionMode::Early, remembered, |world, connector| async move {
            let session = connector.connect(0).expect("begun");
            assert!(session.early_data(), "it has a ticket");
            drop(session);
            fetch::run(world, connector, page(), policy(), Recorder::default()).await
        });
        assert_eq!(
            (outcome.end, outcome.body_bytes),
            (FetchStatus::Done, 400_000),
            "{remembered}: {outcome:?}"
        );
        assert_eq!(outcome.connections, connections, "{remembered}: {outcome:?}");
    }
}

/// The client must report a response of 425 (Too Early) as an error in one line, and must not repeat the request
/// forever.
#[test]
fn an_answer_of_too_early_is_one_line() {
    let outcome = with_server(|_, session| async move {
        let _control = open_one_way(&session, &CONTROL).await;
        while let Ok(mut stream) = session.accept().await {
            let _ = stream.write_all(&frame(HEADERS, &[0, 0, 0xff, 7])).await;
            stream.finish();
            while let Ok(1..) = stream.read(&mut [0; 999]).await {}
        }
    });
    let error = outcome.objects[0].as_ref().expect_err("refused").to_string();
    assert!(error.contains("425") && !error.contains('\n'), "{error}");
}
