//! Tests HTTP/3 over QUIC in virtual time: responses in the order of their urgency, reproducible runs, and peers that
//! violate the protocol.

mod early;
mod rules;
mod sessions;

use anabranch_base::time::Duration;
use anabranch_base::{Instant, Rng};
use anabranch_http::fetch::{self, FetchStatus, Outcome};
use anabranch_http::get::{Answer, GetError, Requests};
use anabranch_http::http2::priority::Priority;
use anabranch_http::http3::ALPN;
use anabranch_http::mapping::{Choices, Policy, Version};
use anabranch_http::observe::{Record, Recorder};
use anabranch_http::page::{Object, Page};
use anabranch_http::serve::{self, PageSite, Stop, Versions};
use anabranch_link::LinkSpec;
use anabranch_quic::{Config, Options, QuicConnector, QuicListener, QuicSession, QuicStream, start};
use anabranch_sim::{Network, SimWorld};
use anabranch_tls::{
    Client, ClientSettings, HostTls, Identity, Server, ServerSettings, Simulation, Surroundings, Trust,
    Versions as Tls,
};
use anabranch_transport::{CloseReason, Connector, Listener, Session, Stream};
use anabranch_world::{Detach, World};
use std::future::{Future, poll_fn};
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;

const NAME: &str = "server.test";
const SERVER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
const LINK: &str = "rate=10mbit,rtt=40ms";

/// Runs `program` with a client host and a server host that are connected by this link. Returns the result of `program`
/// and the client's capture.
fn run<T, F: Future<Output = T>>(seed: u64, link: &str, program: impl FnOnce(Hosts) -> F) -> (T, Vec<u8>) {
    let network = Network::new(seed);
    let [client, server] = [("client", [10, 0, 0, 1].into()), ("server", SERVER)]
        .map(|(name, address)| network.host(name, &[address]));
    network.link(client, server, &LinkSpec::parse(link).expect("a link")).expect("linked");
    network.capture(client);
    let (client_world, server_world) = (network.world(client), network.world(server));
    let all = async move {
        let (listener, connector) = hosts(&client_world, &server_world).await;
        program(Hosts { client: client_world, server: server_world, listener, connector }).await
    };
    let result = network.run(all, Instant::ZERO + Duration::from_secs(600)).expect_done();
    (result, network.finish_capture(client).expect("captured"))
}

struct Hosts {
    client: SimWorld,
    server: SimWorld,
    listener: QuicListener<SimWorld>,
    connector: QuicConnector<SimWorld>,
}

async fn hosts(
    client_world: &SimWorld,
    server_world: &SimWorld,
) -> (QuicListener<SimWorld>, QuicConnector<SimWorld>) {
    let surroundings = |world: &SimWorld| {
        let clock = world.clone();
        Surroundings::Simulated(Simulation::new(world.rng("tls"), move || clock.now()))
    };
    let (identity, root) = Identity::simulated(NAME, 3_000).expect("a chain");
    let protocols = vec![ALPN.to_vec()];
    let settings = ServerSettings {
        versions: Tls::Only13,
        protocols: protocols.clone(),
        ..ServerSettings::of(identity)
    };
    let server = Server::new(settings, surroundings(server_world)).expect("a server");
    let ends = HostTls { surroundings: surroundings(server_world), client: None, server: Some(server) };
    let host =
        start(server_world.clone(), 443, Config::default(), ends, Options::default()).await.expect("a host");
    let listener = host.listen_with(443, 0).expect("listening");
    let settings =
        ClientSettings { trust: Trust::Authorities(vec![root]), protocols, ..ClientSettings::default() };
    let client = Client::new(settings, surroundings(client_world)).expect("a client");
    let ends = HostTls {
        surroundings: surroundings(client_world),
        client: Some((client, NAME.to_owned())),
        server: None,
    };
    let host =
        start(client_world.clone(), 0, Config::default(), ends, Options::default()).await.expect("a host");
    (listener, QuicConnector::new(host, vec![SocketAddr::new(SERVER, 443)]))
}

fn policy() -> Policy {
    let policy = Choices::default().policy(true, false).expect("a policy");
    Policy { version: Version::Http3, timeout: Some(Duration::from_secs(20)), ..policy }
}

fn options() -> serve::Options {
    serve::Options { versions: Versions::Http3, ..serve::Options::default() }
}

fn page_of(objects: Vec<Object>) -> Rc<Page> {
    let mut page = Page::from_sizes("1B").expect("a page");
    (page.hosts, page.objects) = (vec![NAME.to_owned()], objects);
    Rc::new(page)
}

/// Returns a page whose objects are all requested at once. The images come first, as in some documents.
fn page() -> Rc<Page> {
    let kinds = ["image/png", "application/json", "text/javascript", "text/css"];
    let objects = (0..20).map(|n| Object {
        content_type: kinds[n / 5].to_owned(),
        request_head: 600,
        response_head: 400,
        ..Object::new(format!("/{n}"), 20_000)
    });
    page_of(objects.collect())
}

/// Loads a page from our server.
fn load(seed: u64, link: &str) -> (Outcome, Record, Vec<u8>) {
    let ((outcome, record), capture) = run(seed, link, |hosts| async move {
        let Hosts { client, server, listener, connector } = hosts;
        let (page, recorder) = (page(), Recorder::new());
        let serving =
            serve::run(server.clone(), listener, Rc::new(PageSite::new(&page)), options(), recorder.clone());
        server.spawn("server", async move { drop(serving.await) }).detach();
        let outcome = fetch::run(client, connector, page, policy(), recorder.clone()).await;
        (outcome, recorder.take())
    });
    (outcome, record, capture)
}

/// Each exchange must have a stream of its own. The byte ranges that are recorded for an exchange must be positions in
/// this stream, as in the engine's trace. The client compares all bodies byte for byte.
#[test]
fn a_page_comes_whole_over_streams_of_one_connection() {
    for seed in 1..=5 {
        let (outcome, record, _) = load(seed, "rate=10mbit,rtt=40ms,loss=3%");
        assert_eq!(
            (outcome.end, outcome.body_bytes, outcome.connections),
            (FetchStatus::Done, 400_000, 1),
            "{outcome:?}"
        );
        for (number, object) in record.objects.iter().enumerate() {
            let assigned = object.assigned.as_ref().expect("assigned");
            // The most urgent objects must be requested first, and equally urgent objects in the order of the page.
            let stream = match number / 5 {
                0 => number + 15,
                3 => number - 15,
                _ => number,
            };
            assert_eq!((assigned.exchange.stream, assigned.exchange.index), (stream as u64, 0));
            let delivered = object.delivered.as_ref().expect("delivered");
            // The header section of a request is as large as a browser's. QPACK encodes fields of its static table in
            // few bytes.
            assert!((300..650).contains(&assigned.request.end), "{assigned:?}");
            assert!((20_200..20_450).contains(&delivered.response.end), "{delivered:?}");
            assert!(record.served[&assigned.exchange].written.is_some());
        }
    }
}

/// A large body must arrive completely, even if its data arrives as fast as the client reads it. The client must count
/// each byte exactly once.
#[test]
fn large_bodies_come_whole_on_a_fast_network() {
    const BYTES: u64 = 8_000_000;
    let (result, _) = run(1, "rate=10gbit,rtt=200us", |hosts| async move {
        let Hosts { client, server, listener, connector } = hosts;
        let page = page_of(vec![Object::new("/large".to_owned(), BYTES)]);
        let serving = serve::run(
            server.clone(),
            listener,
            Rc::new(PageSite::new(&page)),
            options(),
            Recorder::default(),
        );
        server.spawn("server", async move { drop(serving.await) }).detach();
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("stands");
        let (requests, conversation, traffic) =
            Requests::begin(session, Version::Http3, true).await.expect("begun");
        let talking = client.spawn("conversation", conversation);
        let (mut streams, mut written) = (Vec::new(), 0);
        let timeout = Duration::from_secs(20);
        let take = |_: &Answer, bytes: &[u8]| {
            written += bytes.len() as u64;
            Ok::<_, ()>(())
        };
        let query = requests.query(NAME, "/large").expect("a request");
        let got = requests.get(&client, &query, timeout, |stream| streams.push(stream), take).await;
        let (answer, length) = got.expect("an answer");
        drop(requests);
        let ended = client.timeout(Some(timeout), talking).await;
        assert_eq!((answer.head.status, length, ended), (200, BYTES, Some(Ok(()))));
        (streams, written, traffic.get())
    });
    let (streams, written, traffic) = result;
    assert_eq!((streams.as_slice(), written, traffic.data), (&[0_u64][..], BYTES, BYTES));
    // The server sends one header section, and a frame header of three or five bytes for each 8 KiB of content.
    assert!((BYTES..BYTES + BYTES / 500).contains(&traffic.received) && traffic.sent < 200, "{traffic:?}");
}

/// A server must send Alt-Svc over HTTP/3, too (RFC 7838).
#[test]
fn alt_svc_is_sent_over_http_3() {
    let (result, _) = run(1, LINK, |hosts| async move {
        let Hosts { client, server, listener, connector } = hosts;
        let page = page_of(vec![Object::new("/small".to_owned(), 10)]);
        let site = Rc::new(PageSite::new(&page));
        let site = Rc::new(serve::Redirected { site, https: None, http3: Some(8443) });
        let serving = serve::run(server.clone(), listener, site, options(), Recorder::default());
        server.spawn("server", async move { drop(serving.await) }).detach();
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("stands");
        let (requests, conversation, _) =
            Requests::begin(session, Version::Http3, true).await.expect("begun");
        client.spawn("conversation", conversation).detach();
        let take = |_: &Answer, _: &[u8]| Ok::<_, ()>(());
        let query = requests.query(NAME, "/small").expect("a request");
        let got = requests.get(&client, &query, Duration::from_secs(20), |_| (), take).await;
        got.expect("an answer").0.alt_svc
    });
    assert_eq!(result.as_deref(), Some("h3=\":8443\"; ma=86400"));
}

/// Concurrent requests must be answered in the order of their urgencies, not of their arrival. Incremental responses
/// must share the bandwidth and end together.
#[test]
fn the_urgent_come_first() {
    let (_, record, _) = load(1, LINK);
    let delivered = |n: usize| record.objects[n].delivered.as_ref().expect("delivered").at;
    let page = page();
    let mut order: Vec<usize> = (0..20).collect();
    order.sort_by_key(|&n| delivered(n));
    let urgencies: Vec<u8> =
        order.iter().map(|&n| Priority::of_type(&page.objects[n].content_type).urgency).collect();
    assert!(urgencies.is_sorted(), "{urgencies:?} {order:?}");
    // The style sheets (objects 15 to 19) and then the scripts (objects 10 to 14) are not incremental: each of them is
    // sent whole before the next. The other objects are incremental.
    let whole = [15, 16, 17, 18, 19, 10, 11, 12, 13, 14];
    assert_eq!(order[..10], whole, "each whole, in order");
    let [first, last] = [0, 4].map(delivered);
    assert!(last - first < Duration::from_millis(40), "images share: {first} {last}");
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let capture = |seed| load(seed, "rate=10mbit,rtt=40ms,loss=2%").2;
    assert!(capture(1) == capture(1), "two runs of one seed differ");
    assert!(capture(1) != capture(2), "two seeds give the same");
}

/// An urgent request that is sent late must wait for only a small part of the response in progress.
#[test]
fn an_urgent_answer_overtakes_a_long_one() {
    let kinds = [("image/png", 4_000_000), ("text/css", 10_000)];
    let objects = kinds.map(|(kind, body)| Object {
        content_type: kind.to_owned(),
        ..Object::new(format!("/{kind}"), body)
    });
    let page = page_of(objects.to_vec());
    let ((outcome, record), _) = run(1, "rate=10mbit,rtt=40ms,queue=50p", |hosts| async move {
        let Hosts { client, server, listener, connector } = hosts;
        let recorder = Recorder::new();
        let serving =
            serve::run(server.clone(), listener, Rc::new(PageSite::new(&page)), options(), recorder.clone());
        server.spawn("server", async move { drop(serving.await) }).detach();
        let arrivals = Some(vec![Duration::ZERO, Duration::from_secs(1)]);
        let policy = Policy { arrivals, ..policy() };
        let outcome = fetch::run(client, connector, page, policy, recorder.clone()).await;
        (outcome, recorder.take())
    });
    assert_eq!((outcome.end, outcome.connections), (FetchStatus::Done, 1));
    let sheet = record.objects[1].delivered.as_ref().expect("delivered").at;
    // The delay of the style sheet consists of one round trip, the queuing delay (60 ms), and the time to transmit 26
    // kB. The style sheet must not wait the seconds that the rest of the image takes.
    let late = sheet - (Instant::ZERO + Duration::from_secs(1));
    assert!(late < Duration::from_millis(200), "{late:?}");
}

/// Fetches one object from a server that handles its connections with `answer`. Returns the outcome.
fn with_server<F: Future<Output = ()> + 'static>(
    answer: impl Fn(SimWorld, QuicSession<SimWorld>) -> F + 'static,
) -> Outcome {
    let ((outcome, _), _) = run(1, LINK, |hosts| async move {
        let Hosts { client, server, mut listener, connector } = hosts;
        let world = server.clone();
        server
            .spawn("server", async move {
                while let Ok(session) = listener.accept().await {
                    world.spawn("session", answer(world.clone(), session)).detach();
                }
            })
            .detach();
        let page = page_of(vec![Object::new("/", 10_000)]);
        let recorder = Recorder::new();
        let outcome = fetch::run(client, connector, page, policy(), recorder.clone()).await;
        (outcome, recorder.take())
    });
    outcome
}

/// Writes these bytes on a unidirectional stream, which stays open.
async fn open_one_way(session: &QuicSession<SimWorld>, bytes: &[u8]) -> QuicStream<SimWorld> {
    let mut stream = poll_fn(|cx| session.poll_begin(cx, true)).await.expect("begun");
    stream.write_all(bytes).await.expect("written");
    stream
}

/// Returns the bytes of an HTTP/3 frame (RFC 9114 §7.1).
fn frame(kind: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16 | 0x4000).to_be_bytes();
    [&[kind][..], &length, payload].concat()
}

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;
/// A control stream with empty SETTINGS and nothing else.
const CONTROL: [u8; 4] = [0, SETTINGS, 0x40, 0];
/// `:status: 200`, by the static table (RFC 9204 §4.5, Appendix A).
const OK: [u8; 3] = [0, 0, 0xc0 | 25];

#[test]
fn server_protocol_errors_are_one_line() {
    let head = |bytes: usize| {
        // A field section with one literal field line, whose value has `bytes` bytes. The name (content-type) is from
        // the static table.
        let mut block = vec![0, 0, 0xc0 | 25, 0x5f, 0x1d, 0x7f];
        let mut left = bytes - 127;
        while left >= 128 {
            block.push(0x80 | (left % 128) as u8);
            left /= 128;
        }
        block.push(left as u8);
        block.resize(block.len() + bytes, b'a');
        block
    };
    let large = |payload: &[u8]| {
        [&[HEADERS][..], &(payload.len() as u32 | 0x8000_0000).to_be_bytes(), payload].concat()
    };
    let cases: Vec<(Vec<u8>, Vec<u8>, &str)> = vec![
        (CONTROL.to_vec(), frame(DATA, b"hi"), "DATA comes before HEADERS (H3_FRAME_UNEXPECTED)"),
        (
            CONTROL.to_vec(),
            frame(HEADERS, &[0, 0, 0x80]),
            "a field line refers to the dynamic table, which is empty (QPACK_DECOMPRESSION_FAILED)",
        ),
        (CONTROL.to_vec(), frame(2, b""), "(H3_FRAME_UNEXPECTED)"),
        (CONTROL.to_vec(), vec![HEADERS, 9, 0, 0], "a stream ended within a frame (H3_FRAME_ERROR)"),
        (CONTROL.to_vec(), vec![], "a stream ended without a final response (H3_MESSAGE_ERROR)"),
        (frame(GOAWAY, &[0]), vec![], "(H3_MESSAGE_ERROR)"),
        ([&[0][..], &frame(GOAWAY, &[0])].concat(), frame(HEADERS, &OK), "(H3_MISSING_SETTINGS)"),
        (CONTROL.to_vec(), large(&head(70_000)), "where at most 65536 are accepted"),
        (CONTROL.to_vec(), large(&head(300_000)), "where at most 65536 are accepted"),
        (
            CONTROL.to_vec(),
            [frame(HEADERS, &OK), frame(DATA, b"hi")].concat(),
            "the body is not intact: byte 0 is wrong",
        ),
        (CONTROL.to_vec(), frame(HEADERS, &OK), "the body is not intact: 0 bytes instead of 10000"),
    ];
    for (control, response, line) in cases {
        let outcome = with_server(move |_, session| {
            let (control, response) = (control.clone(), response.clone());
            async move {
                let control = open_one_way(&session, &control).await;
                while let Ok(mut stream) = session.accept().await {
                    let _ = stream.write_all(&response).await;
                    stream.finish();
                    while let Ok(1..) = stream.read(&mut [0; 999]).await {}
                }
                drop(control);
            }
        });
        let error = outcome.objects[0].as_ref().expect_err(line).to_string();
        assert!(error.contains(line) && !error.contains('\n'), "'{error}' is not '{line}'");
    }
}

/// If a closing server rejects a request, the client must retry it on another connection. If no connection accepts the
/// request, the client must report one error with the server's reason.
#[test]
fn a_server_that_goes_away_is_one_line() {
    let outcome = with_server(|_, session| async move {
        let _control = open_one_way(&session, &[&CONTROL[..], &frame(GOAWAY, &[0])].concat()).await;
        if let Ok(mut stream) = session.accept().await {
            stream.cancel_writing(0x10b);
        }
        session.closed().await;
    });
    let error = outcome.objects[0].as_ref().expect_err("refused").to_string();
    assert!(error.contains("the server accepts no more requests (GOAWAY)"), "{error}");
    assert_eq!(outcome.connections, 4, "as often as a client tries");
    let outcome = with_server(|_, session| async move {
        let _ = session.accept().await;
        session.close_with(0x107, "too much\nof it");
        session.closed().await;
    });
    let error = outcome.objects[0].as_ref().expect_err("closed").to_string();
    assert!(error.contains("too much") && error.contains("263"), "{error}");
}

/// Sends the bytes `request` on a request stream to our server, which serves the test page. Returns the bytes of the
/// response, and the reason why the connection ended.
fn with_client(request: Vec<u8>) -> (Vec<u8>, Option<CloseReason>) {
    run(1, LINK, |hosts| async move {
        let Hosts { client, server, listener, connector } = hosts;
        let page = page();
        let serving = serve::run(
            server.clone(),
            listener,
            Rc::new(PageSite::new(&page)),
            options(),
            Recorder::default(),
        );
        server.spawn("server", async move { drop(serving.await) }).detach();
        let session = connector.connect(0).expect("begun");
        session.established().await.expect("stands");
        let _control = open_one_way(&session, &CONTROL).await;
        let mut stream = poll_fn(|cx| session.poll_begin(cx, false)).await.expect("begun");
        let _ = stream.write_all(&request).await;
        stream.finish();
        let (mut answer, mut buffer) = (Vec::new(), [0; 10_000]);
        while let Ok(read @ 1..) = stream.read(&mut buffer).await {
            answer.extend_from_slice(&buffer[..read]);
        }
        let ended = client.timeout(Some(Duration::from_secs(1)), session.closed()).await;
        // The server must still serve other clients.
        let outcome = fetch::run(client, connector, page, policy(), Recorder::default()).await;
        assert_eq!(outcome.end, FetchStatus::Done);
        (answer, ended)
    })
    .0
}

#[test]
fn client_protocol_errors_are_reported_to_the_client() {
    // GET https://a/0. `:method` and `:scheme` are from the static table, `:authority` and `:path` have literal values.
    let get = |path: &str| {
        let path = [&[0x51, path.len() as u8][..], path.as_bytes()].concat();
        [&[0, 0, 0xc0 | 17, 0xc0 | 23, 0x50, 1, b'a'][..], &path].concat()
    };
    let (answer, ended) = with_client(frame(HEADERS, &get("/0")));
    assert!(answer.len() > 20_000 && answer[0] == HEADERS && ended.is_none(), "{} {ended:?}", answer.len());
    let many = [get("/0"), [&[0x5f, 0x1d, 100][..], &[b'a'; 100]].concat().repeat(640)].concat();
    let large = [&[HEADERS][..], &(many.len() as u32 | 0x8000_0000).to_be_bytes(), &many].concat();
    let (answer, ended) = with_client(large);
    // The server's response has the status 431, which is not in the static table, so the status is a literal.
    assert!(answer.len() < 100 && answer[0] == HEADERS && ended.is_none(), "{answer:?} {ended:?}");
    for (request, line) in [
        (frame(DATA, b"hi"), "DATA comes before HEADERS"),
        (frame(HEADERS, &[0, 0, 0x80]), "a field line refers to the dynamic table"),
        (vec![HEADERS, 99, 0], "a stream ended within a frame"),
        (frame(6, b""), ""),
    ] {
        let (answer, ended) = with_client(request);
        let ended = ended.expect("the connection is over").to_string();
        assert!(answer.is_empty() && ended.contains(line), "'{ended}' is not '{line}'");
    }
    // The errors in these two requests must end the request, but not the connection.
    for request in [vec![], frame(HEADERS, &[0, 0])] {
        let (answer, ended) = with_client(request);
        assert!(answer.is_empty() && ended.is_none(), "{answer:?} {ended:?}");
    }
}

/// If the peer sends random bytes, the client must fail in time with an error of one line. The server must still serve
/// other clients.
#[test]
fn bytes_at_random_end_in_a_line() {
    let mut rng = Rng::new(1);
    let mut some = |most: u64| -> Vec<u8> {
        let mut bytes = vec![0; rng.below(most) as usize];
        rng.fill(&mut bytes);
        // The first two bytes get small values, so that they are often a valid frame type and a plausible length.
        if let [kind, length, ..] = &mut bytes[..] {
            (*kind, *length) = (*kind % 16, *length % 64);
        }
        bytes
    };
    for _ in 0..60 {
        drop(with_client(some(100)));
        let (control, response) = ([vec![0], some(40)].concat(), some(200));
        let outcome = with_server(move |_, session| {
            let (control, response) = (control.clone(), response.clone());
            async move {
                let _control = open_one_way(&session, &control).await;
                while let Ok(mut stream) = session.accept().await {
                    let _ = stream.write_all(&response).await;
                    stream.finish();
                }
            }
        });
        let error = outcome.objects[0].as_ref().expect_err("nonsense").to_string();
        assert!(!error.contains('\n'), "{error}");
    }
}

/// A closing server must complete the responses that it has begun, and reject later requests. The client must retry the
/// rejected requests on another connection.
#[test]
fn a_closing_server_finishes_responses_in_progress() {
    let ((outcome, ended), _) = run(1, "rate=1mbit,rtt=40ms", |hosts| async move {
        let Hosts { client, server, listener, connector } = hosts;
        let (page, stop) = (page(), Stop::new());
        let options = serve::Options { stop: Some(stop.clone()), ..options() };
        let serving =
            serve::run(server.clone(), listener, Rc::new(PageSite::new(&page)), options, Recorder::default());
        let serving = server.spawn("server", serving);
        let world = server.clone();
        server
            .spawn("stop", async move {
                world.sleep_until(Instant::ZERO + Duration::from_secs(1)).await;
                stop.stop();
            })
            .detach();
        let mut arrivals = vec![Duration::ZERO; 19];
        arrivals.push(Duration::from_secs(2));
        let policy = Policy { arrivals: Some(arrivals), ..policy() };
        let outcome = fetch::run(client, connector, page, policy, Recorder::default()).await;
        serving.await.expect("ended");
        (outcome, server.now())
    });
    // The transfer of 380 kB takes more than three seconds.
    assert!(ended > Instant::ZERO + Duration::from_secs(3), "{ended}");
    assert!(outcome.failed() == 1 && outcome.connections > 1, "{outcome:?}");
    assert!(outcome.objects[19].is_err(), "nobody is there any more");
}
