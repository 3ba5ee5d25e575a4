//! Tests what one gateway and two gateways forward: WebSockets, trailers, truncated responses, and responses to clients
//! that half-close their stream.
//!
//! Everything runs on streams in memory and in virtual time. Clients and origins use sessions with one stream that
//! supports half-close, like TCP. Two gateways are connected by sessions with many streams, like SCTP.

#[path = "../../http/tests/rig/memory.rs"]
#[expect(dead_code, reason = "it can do more than is wanted here")]
mod memory;

use anabranch_base::time::{Duration, Instant};
use anabranch_gateway::{Associations, Options, Peer, Route};
use anabranch_http::authority::{Authority, Origin};
use anabranch_http::limits::ConcurrencyLimit;
use anabranch_http::serve::Stop;
use anabranch_http::upstream::OneServer;
use anabranch_sim::{Network, SimWorld};
use anabranch_transport::{Connector, Listener, Session, Stream};
use anabranch_world::World;
use memory::{Meeting, PipeStream};
use std::cell::RefCell;
use std::rc::Rc;

const LONG: Duration = Duration::from_secs(60);

fn options(half_close: bool, name: &str) -> Options {
    Options {
        route: Route::Origin(origin()),
        trusted_proxies: Vec::new(),
        half_close,
        secure: false,
        name: name.to_owned(),
        idle: LONG,
        head_timeout: LONG,
        max_head: 16 << 10,
        sessions: ConcurrencyLimit::new(100),
        exchanges: ConcurrencyLimit::new(1000),
        wall_clock: Some(|| 784_111_777),
        memory: None,
        log: None,
        faults: None,
        stop: Stop::new(),
    }
}

fn origin() -> Origin {
    Origin::new(Authority { host: "o".to_owned(), port: 80 }, false)
}

async fn head(stream: &mut PipeStream) -> String {
    let (mut head, mut byte) = (Vec::new(), [0]);
    while !head.ends_with(b"\r\n\r\n") && stream.read(&mut byte).await == Ok(1) {
        head.push(byte[0]);
    }
    String::from_utf8(head).expect("text")
}

/// Reads a stream to its end. Returns the data, and whether the stream ended without an error.
async fn rest(stream: &mut PipeStream) -> (String, bool) {
    let (mut all, mut piece) = (Vec::new(), [0; 512]);
    let ended = loop {
        match stream.read(&mut piece).await {
            Ok(0) => break true,
            Ok(read) => all.extend_from_slice(&piece[..read]),
            Err(_) => break false,
        }
    };
    (String::from_utf8(all).expect("text"), ended)
}

/// Runs `client` behind one or two gateways, and returns its result. The origin runs `act` on its only stream.
fn behind_gateways<T>(
    gateways: usize,
    act: impl AsyncFn(&SimWorld, &mut PipeStream) + 'static,
    client: impl AsyncFnOnce(&SimWorld, PipeStream) -> T,
) -> T {
    let network = Network::new(1);
    let host = network.host("all", &[[10, 0, 0, 1].into()]);
    let world = network.world(host);
    let (near, between, far) = (Meeting::new(1, false), Meeting::new(10, false), Meeting::new(1, false));
    let (mut accepting, clock) = (far.clone(), world.clone());
    let _origin = world.spawn("origin", async move {
        while let Ok(session) = accepting.accept().await {
            let mut stream = session.accept().await.expect("a stream");
            act(&clock, &mut stream).await;
            stream.finish();
            session.close();
        }
    });
    let to_origin = Rc::new(OneServer::new(&world, far, 1, LONG));
    let run = |listener: &Meeting, half_close, name| {
        let options = options(half_close, name);
        let run = anabranch_gateway::run(world.clone(), listener.clone(), to_origin.clone(), options);
        world.spawn("gateway", run)
    };
    let _gateways = match gateways {
        1 => vec![run(&near, true, "one")],
        _ => {
            let to = Associations::new(&world, between.clone(), 1, Peer::Origin(origin()), LONG);
            let first =
                anabranch_gateway::run(world.clone(), near.clone(), Rc::new(to), options(true, "near"));
            vec![world.spawn("gateway", first), run(&between, false, "far")]
        }
    };
    let request = async {
        let session = near.connect(0).expect("a session");
        client(&world, session.open(0).expect("a stream")).await
    };
    network.run(request, Instant::MAX).expect_done()
}

#[test]
fn a_websocket_is_carried_both_ways_to_both_ends() {
    for gateways in [1, 2] {
        let result = behind_gateways(
            gateways,
            async |_, stream| {
                let request = head(stream).await;
                assert!(
                    request.contains("Upgrade: websocket\r\n")
                        && request.contains("Sec-WebSocket-Key: x\r\n")
                );
                assert!(!request.to_lowercase().contains("tunnel-framing"), "{request}");
                let answer = "HTTP/1.1 101 Switching\r\nConnection: Upgrade\r\nUpgrade: WebSocket\r\n\
                              Sec-WebSocket-Accept: y\r\n\r\nearly";
                stream.write_all(answer.as_bytes()).await.expect("answered");
                let (received, ended) = rest(stream).await;
                stream.write_all(format!("{received} {ended}").as_bytes()).await.expect("said");
            },
            async |_, mut stream| {
                let request = "GET /chat HTTP/1.1\r\nHost: a\r\nConnection: Upgrade\r\nUpgrade: websocket\r\n\
                             Sec-WebSocket-Key: x\r\n\r\n";
                stream.write_all(request.as_bytes()).await.expect("asked");
                let answer = head(&mut stream).await;
                stream.write_all(b"hello").await.expect("said");
                stream.finish();
                (answer, rest(&mut stream).await)
            },
        );
        let (answer, reply) = result;
        assert!(answer.starts_with("HTTP/1.1 101 ") && answer.contains("Upgrade: websocket\r\n"), "{answer}");
        assert!(answer.contains("Connection: Upgrade\r\n") && answer.contains("Sec-WebSocket-Accept: y\r\n"));
        assert!(!answer.to_lowercase().contains("tunnel-framing"), "{answer}");
        assert_eq!(reply, ("earlyhello true".to_owned(), true), "{gateways}");
    }
}

#[test]
fn a_client_that_half_closes_has_its_response() {
    for gateways in [1, 2] {
        let (answer, ended) = behind_gateways(
            gateways,
            async |world, stream| {
                head(stream).await;
                world.sleep_until(world.now() + Duration::from_secs(10)).await;
                stream
                    .write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\nAlt-Svc: h3\r\n\r\nhello")
                    .await
                    .expect("answered");
            },
            async |_, mut stream| {
                stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("asked");
                stream.finish();
                rest(&mut stream).await
            },
        );
        assert!(
            ended && answer.starts_with("HTTP/1.1 200 ") && answer.ends_with("\r\n\r\nhello"),
            "{answer}"
        );
        assert_eq!(answer.matches("Date: Sun, 06 Nov 1994 08:49:37 GMT\r\n").count(), 1, "{answer}");
        assert!(!answer.contains("Alt-Svc"), "{answer}");
    }
}

#[test]
fn trailers_are_forwarded_to_clients_that_accept_them() {
    for gateways in [1, 2] {
        for (fields, end) in [
            ("TE: trailers\r\nConnection: TE\r\n", "3\r\nabc\r\n0\r\nDigest: x\r\n\r\n"),
            ("", "3\r\nabc\r\n0\r\n\r\n"),
        ] {
            let (answer, _) = behind_gateways(
                gateways,
                async |_, stream| {
                    head(stream).await;
                    let answer = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nTrailer: Digest\r\n\r\n3\r\nabc\r\n\
                                  0\r\nDigest: x\r\nContent-Length: 7\r\nSet-Cookie: a\r\n\r\n";
                    stream.write_all(answer.as_bytes()).await.expect("answered");
                },
                async |_, mut stream| {
                    let request = format!("GET / HTTP/1.1\r\nHost: a\r\n{fields}Connection: close\r\n\r\n");
                    stream.write_all(request.as_bytes()).await.expect("asked");
                    rest(&mut stream).await
                },
            );
            assert!(answer.ends_with(end), "{gateways} {fields}{answer}");
            assert_eq!(answer.contains("Trailer: Digest\r\n"), !fields.is_empty(), "{answer}");
        }
    }
}

/// If the end of a response is missing, the gateway must end the client's stream with an error, or not end the stream.
/// After an end without an error, the client could take the response for complete.
#[test]
fn a_response_that_was_cut_does_not_end() {
    for gateways in [1, 2] {
        for (framing, body) in [
            ("Content-Length: 100", "begins"),
            ("Transfer-Encoding: chunked", "6\r\nbegins\r\n"),
            ("Transfer-Encoding: chunked", "f\r\nbegins"),
            ("Transfer-Encoding: chunked", "6\r\nbegins\r\n0\r\n"),
        ] {
            for version in ["1.1", "1.0"] {
                let (answer, ended) = behind_gateways(
                    gateways,
                    async move |_, stream| {
                        head(stream).await;
                        let answer = format!("HTTP/1.1 200 OK\r\n{framing}\r\n\r\n{body}");
                        stream.write_all(answer.as_bytes()).await.expect("answered");
                    },
                    async |_, mut stream| {
                        let request = format!("GET / HTTP/{version}\r\nHost: a\r\n\r\n");
                        stream.write_all(request.as_bytes()).await.expect("asked");
                        rest(&mut stream).await
                    },
                );
                assert!(
                    answer.starts_with("HTTP/1.1 200 ") && !ended,
                    "{gateways} {framing} {answer:?} {ended}"
                );
                assert!(!answer.ends_with("0\r\n\r\n"), "{answer}");
            }
        }
    }
}

/// RFC 9110 §9.2.2: a proxy must not repeat a request automatically if its method is not idempotent. A lost CONNECT may
/// have opened a tunnel.
#[test]
fn only_an_idempotent_request_is_repeated_on_a_new_association() {
    for (request, sent, status) in [
        ("GET http://a/ HTTP/1.1\r\nHost: a\r\n\r\n", 2, "HTTP/1.1 204 "),
        ("CONNECT a:443 HTTP/1.1\r\nHost: a:443\r\n\r\n", 1, "HTTP/1.1 502 "),
    ] {
        let network = Network::new(1);
        let host = network.host("all", &[[10, 0, 0, 1].into()]);
        let world = network.world(host);
        let (near, between) = (Meeting::new(1, false), Meeting::new(10, false));
        let heads = Rc::new(RefCell::new(Vec::new()));
        let (mut accepting, received) = (between.clone(), heads.clone());
        // The next gateway aborts its first session when a second request arrives there.
        let _next = world.spawn("next gateway", async move {
            for requests in [2, 1] {
                let session = accepting.accept().await.expect("a session");
                for request in 1..=requests {
                    let mut stream = session.accept().await.expect("a stream");
                    let head = head(&mut stream).await;
                    received.borrow_mut().push(head);
                    if request == 2 {
                        session.abort();
                    } else {
                        stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("answered");
                    }
                }
            }
        });
        let upstream = Associations::new(&world, between.clone(), 1, Peer::Gateway(None), LONG);
        let options = Options { route: Route::Any, ..options(true, "near") };
        let run = anabranch_gateway::run(world.clone(), near.clone(), Rc::new(upstream), options);
        let _gateway = world.spawn("gateway", run);
        let client = async {
            let session = near.connect(0).expect("a session");
            let mut stream = session.open(0).expect("a stream");
            let mut answers = Vec::new();
            for request in ["GET http://b/ HTTP/1.1\r\nHost: b\r\n\r\n", request] {
                stream.write_all(request.as_bytes()).await.expect("asked");
                answers.push(head(&mut stream).await);
            }
            answers
        };
        let answers = network.run(client, Instant::MAX).expect_done();
        let method = request.split(' ').next().expect("a method");
        let heads = heads.borrow();
        let repeated = heads.iter().skip(1).filter(|head| head.starts_with(method)).count();
        assert_eq!((heads.len(), repeated), (1 + sent, sent), "{heads:?}");
        assert!(answers[0].starts_with("HTTP/1.1 204 ") && answers[1].starts_with(status), "{answers:?}");
    }
}

/// Idle connections need no time to drain, so they must not delay the end of a gateway that is stopped.
#[test]
fn a_stopped_gateway_closes_idle_connections_at_once() {
    for requests in [0, 1] {
        let network = Network::new(1);
        let host = network.host("all", &[[10, 0, 0, 1].into()]);
        let world = network.world(host);
        let (near, far) = (Meeting::new(1, false), Meeting::new(1, false));
        let mut accepting = far.clone();
        let _origin = world.spawn("origin", async move {
            while let Ok(session) = accepting.accept().await {
                let mut stream = session.accept().await.expect("a stream");
                head(&mut stream).await;
                stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.expect("answered");
                session.closed().await;
            }
        });
        let options = options(true, "one");
        let stop = options.stop.clone();
        let upstream = Rc::new(OneServer::new(&world, far, 1, LONG));
        let gateway = anabranch_gateway::run(world.clone(), near.clone(), upstream, options);
        let gateway = world.spawn("gateway", gateway);
        let client = async {
            let session = near.connect(0).expect("a session");
            let mut stream = session.open(0).expect("a stream");
            for _ in 0..requests {
                stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").await.expect("asked");
                assert!(head(&mut stream).await.starts_with("HTTP/1.1 204 "));
            }
            world.sleep_until(world.now() + Duration::from_secs(1)).await;
            stop.stop();
            let stopped_at = world.now();
            // The client reads the end, but keeps its own side open.
            let end = stream.read(&mut [0]).await;
            (end, gateway.await, world.now().since(stopped_at))
        };
        let ended = network.run(client, Instant::MAX).expect_done();
        assert_eq!(ended, (Ok(0), Ok(()), Duration::ZERO), "{requests}");
    }
}
