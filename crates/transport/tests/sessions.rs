//! Tests of sessions and streams as an application sees them, over TCP and over SCTP, through types that hide the
//! engine.

use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_link::LinkSpec;
use anabranch_sim::{LinkId, Network, NetworkChange, SimWorld};
use anabranch_transport::protocol::StartOptions;
use anabranch_transport::sctp::{Config, PPID_HTTP, Sctp, SctpHost};
use anabranch_transport::session::Delivery;
use anabranch_transport::tcp::Tcp;
use anabranch_transport::{
    AnyListener, AnySession, CloseReason, ConnectError, Connector, Host, Listener, LowerProtocol, OpenError,
    RunnableProtocol, Server, Session, Stream,
};
use anabranch_world::{Detach, World};
use std::future::{Future, poll_fn};
use std::net::IpAddr;
use std::rc::Rc;
use std::task::{Context, Poll};

const NEAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
const FAR: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));

/// Two hosts that run the same transport over a link with a delay of 10 ms.
struct Rig {
    near: SimWorld,
    far: SimWorld,
    client: Rc<dyn Host>,
    server: Rc<dyn Host>,
    link: LinkId,
}

const BOTH: [&dyn RunnableProtocol<SimWorld>; 2] = [&Tcp, &Sctp];

/// Runs `program` on two hosts of `transport`. `changes` are settings that differ from the default, as pairs of key and
/// value.
fn run<T, F: Future<Output = T>>(
    transport: &dyn RunnableProtocol<SimWorld>,
    changes: &[(&str, &str)],
    program: impl FnOnce(Rig, Rc<Network>) -> F,
) -> T {
    let network = Rc::new(Network::new(1));
    let [client, server] =
        [("client", NEAR), ("server", FAR)].map(|(name, address)| network.host(name, &[address]));
    let spec = LinkSpec::parse("rate=10mbit,delay=10ms,queue=100p").expect("a link");
    let link = network.link(client, server, &spec).expect("linked");
    let mut settings = transport.profile(transport.default_profile()).expect("its profile");
    for (key, value) in changes {
        settings.set(key, value).expect("a knob");
    }
    let start = StartOptions {
        settings,
        carrier: LowerProtocol::Ip,
        paths: None,
        credentials: None,
        congestion: None,
        layer: None,
    };
    let (near, far) = (network.world(client), network.world(server));
    let whole = async {
        let client = transport.start(near.clone(), start.clone()).await.expect("a host");
        let server = transport.start(far.clone(), start).await.expect("a host");
        program(Rig { near, far, client, server, link }, network.clone()).await
    };
    network.run(whole, Instant::from_millis(600_000)).expect_done()
}

impl Rig {
    fn begin(&self) -> Result<AnySession, ConnectError> {
        self.client.connector(vec![Server { addresses: vec![(FAR, 0).into()], port: 80 }]).connect(0)
    }

    fn listen(&self) -> AnyListener {
        self.server.listen(80, 0).expect("the port is free")
    }

    /// Returns both ends of a new session.
    async fn pair(&self, listener: &mut AnyListener) -> [AnySession; 2] {
        let client = self.begin().expect("begun");
        client.established().await.expect("established");
        [client, listener.accept().await.expect("accepted")]
    }

    async fn pause(&self, ms: u64) {
        self.near.sleep_until(self.near.now() + Duration::from_millis(ms)).await;
    }
}

/// Returns the result of a poll, or `None` if it is pending.
async fn once<T>(mut poll: impl FnMut(&mut Context<'_>) -> Poll<T>) -> Option<T> {
    poll_fn(|cx| match poll(cx) {
        Poll::Ready(value) => Poll::Ready(Some(value)),
        Poll::Pending => Poll::Ready(None),
    })
    .await
}

async fn read(stream: &mut impl Stream, bytes: usize) -> Vec<u8> {
    let (mut got, mut buffer) = (Vec::new(), vec![0; 10_000]);
    while got.len() < bytes {
        let most = buffer.len().min(bytes - got.len());
        match stream.read(&mut buffer[..most]).await.expect("more bytes") {
            0 => break,
            read => got.extend_from_slice(&buffer[..read]),
        }
    }
    got
}

#[test]
fn both_ends_have_one_name_for_a_session_and_know_each_other() {
    for transport in BOTH {
        run(transport, &[], |rig, _| async move {
            let mut listener = rig.listen();
            let [client, server] = rig.pair(&mut listener).await;
            assert!(client.id() > 1_000 && client.id() == server.id(), "{} {}", client.id(), server.id());
            let [there, here] = [&client, &server].map(|session| session.peer().expect("a peer"));
            assert_eq!((there.ip(), there.port()), (FAR, 80));
            assert_eq!((here.ip(), u64::from(here.port())), (NEAR, client.id()));
            assert_eq!(listener.port(), 80);
            assert!(!client.fresh_streams());
        });
    }
}

#[test]
fn bytes_are_counted_where_they_were_written_and_where_they_were_read() {
    for transport in BOTH {
        run(transport, &[], |rig, _| async move {
            let mut listener = rig.listen();
            let [client, server] = rig.pair(&mut listener).await;
            let mut out = client.open(0).expect("a stream");
            out.write_all(&[7; 30_000]).await.expect("written");
            assert_eq!((out.bytes_written(), out.bytes_read()), (30_000, 0));
            assert!(client.unacknowledged() > 0 && out.unacknowledged() > 0);
            let mut input = server.accept().await.expect("a stream");
            assert_eq!(read(&mut input, 30_000).await, vec![7; 30_000]);
            assert_eq!((input.bytes_written(), input.bytes_read()), (0, 30_000));
            rig.pause(1_000).await;
            assert_eq!((client.unacknowledged(), out.unacknowledged()), (0, 0));
        });
    }
}

#[test]
fn a_session_has_as_many_streams_as_both_ends_have() {
    run(&Sctp, &[("num_ostreams", "7")], |rig, _| async move {
        let mut listener = rig.listen();
        let connector = rig.client.connector(vec![]);
        assert_eq!((connector.streams(), connector.fresh_streams()), (7, false));
        assert_eq!(connector.connect(0).map(|_| ()), Err(ConnectError::NoSuchServer(0)));
        let [client, server] = rig.pair(&mut listener).await;
        assert_eq!([client.streams(), server.streams()], [7, 7]);
        let beyond = OpenError::NoSuchStream { number: 7, streams: 7 };
        assert_eq!(client.open(7).map(|_| ()), Err(beyond));
        let held = client.open(6).expect("the last");
        assert_eq!(client.open(6).map(|_| ()), Err(OpenError::AlreadyOpen(6)));
        drop(held);
        client.open(6).expect("nobody holds it any more");
    });
    run(&Tcp, &[], |rig, _| async move {
        let mut listener = rig.listen();
        let [client, _server] = rig.pair(&mut listener).await;
        assert_eq!((client.streams(), client.open(0).expect("a stream").supports_half_close()), (1, true));
        let beyond = OpenError::NoSuchStream { number: 1, streams: 1 };
        assert_eq!(client.open(1).map(|_| ()), Err(beyond));
    });
}

/// RFC 6525 §4.5: a request for more stream pairs is granted.
#[test]
fn a_session_grows_where_the_transport_can_add_streams() {
    run(&Sctp, &[("num_ostreams", "2"), ("reconfig", "yes")], |rig, _| async move {
        let mut listener = rig.listen();
        let [client, server] = rig.pair(&mut listener).await;
        client.request_streams(3);
        assert_eq!(once(|cx| client.poll_streams_added(cx)).await, None, "the peer has not answered");
        assert_eq!((client.streams_added().await, client.streams()), (5, 5));
        drop(server);
        client.open(4).expect("a new one");
    });
    for (transport, changes) in [(BOTH[0], &[][..]), (BOTH[1], &[("reconfig", "no")][..])] {
        run(transport, changes, |rig, _| async move {
            let mut listener = rig.listen();
            let [client, _server] = rig.pair(&mut listener).await;
            let before = client.streams();
            client.request_streams(3);
            assert_eq!(client.streams_added().await, before);
        });
    }
}

/// The client sends on two streams, and the server opens one of them by its number. The server's `accept` returns only
/// the other stream.
#[test]
fn a_stream_that_the_peer_began_is_taken_once() {
    run(&Sctp, &[], |rig, _| async move {
        let mut listener = rig.listen();
        let [client, server] = rig.pair(&mut listener).await;
        let mut out = [3, 4].map(|number| client.open(number).expect("a stream"));
        for stream in &mut out {
            stream.write_all(b"hello").await.expect("written");
        }
        rig.pause(100).await;
        let mut third = server.open(3).expect("begun by the peer, and held by nobody");
        let fourth = server.accept().await.expect("the other");
        assert_eq!(fourth.number(), 4);
        assert!(once(|cx| server.poll_accept(cx)).await.is_none());
        assert_eq!(read(&mut third, 5).await, b"hello");
        // After a stream handle is dropped, the next handle of the same stream reads the unread bytes.
        drop(fourth);
        let mut again = server.accept().await.expect("it has unread bytes");
        assert_eq!((again.number(), read(&mut again, 5).await), (4, b"hello".to_vec()));
        drop(again);
        assert!(once(|cx| server.poll_accept(cx)).await.is_none(), "all is read");
    });
}

#[test]
fn a_connection_ends_one_way_and_then_the_other() {
    run(&Tcp, &[], |rig, _| async move {
        let mut listener = rig.listen();
        let [client, server] = rig.pair(&mut listener).await;
        let mut out = client.open(0).expect("a stream");
        out.write_all(b"all of it").await.expect("written");
        out.finish();
        let mut input = server.accept().await.expect("a stream");
        assert_eq!(read(&mut input, 100).await, b"all of it");
        input.write_all(b"answer").await.expect("the other way is open");
        assert_eq!(read(&mut out, 6).await, b"answer");
        input.finish();
        assert_eq!([client.closed().await, server.closed().await], [const { CloseReason::Finished }; 2]);
        assert_eq!(out.read(&mut [0; 9]).await, Ok(0));
    });
}

/// SCTP has no half-close. A side that has finished its stream can write no more, and the peer is not notified.
#[test]
fn a_finished_stream_takes_no_more_bytes() {
    run(&Sctp, &[], |rig, _| async move {
        let mut listener = rig.listen();
        let [client, server] = rig.pair(&mut listener).await;
        let mut out = client.open(0).expect("a stream");
        assert!(!out.supports_half_close());
        out.write_all(b"all of it").await.expect("written");
        out.finish();
        assert_eq!(out.write(b"more").await, Err(CloseReason::Finished));
        let mut input = server.accept().await.expect("a stream");
        assert_eq!(read(&mut input, 9).await, b"all of it");
        rig.pause(1_000).await;
        assert!(once(|cx| input.poll_read(cx, &mut [0; 9])).await.is_none());
    });
}

#[test]
fn a_closed_session_delivers_what_was_written_and_both_ends_learn_of_it() {
    for transport in BOTH {
        run(transport, &[], |rig, _| async move {
            let mut listener = rig.listen();
            let [client, server] = rig.pair(&mut listener).await;
            assert!(once(|cx| client.poll_closed(cx)).await.is_none());
            let mut out = client.open(0).expect("a stream");
            out.write_all(&[1; 20_000]).await.expect("written");
            client.close();
            let mut input = server.accept().await.expect("a stream");
            assert_eq!(read(&mut input, 30_000).await, vec![1; 20_000]);
            server.close();
            assert_eq!([client.closed().await, server.closed().await], [const { CloseReason::Finished }; 2]);
            assert!(out.write(b"x").await.is_err());
            assert_eq!(client.open(1).map(|_| ()), Err(OpenError::Closed(CloseReason::Finished)));
        });
    }
}

/// RFC 9260 §9.1, RFC 9293 §3.10.5: an abort ends the session immediately on this side, and on the peer's side when the
/// ABORT or RST arrives.
#[test]
fn an_aborted_session_is_over_at_once_at_both_ends() {
    for transport in BOTH {
        run(transport, &[], |rig, _| async move {
            let mut listener = rig.listen();
            let [client, server] = rig.pair(&mut listener).await;
            let reading = server.clone();
            let pending = rig.far.spawn("read", async move { reading.accept().await.map(|_| ()) });
            let begin = rig.near.now();
            client.abort();
            assert_eq!(client.closed().await, CloseReason::Aborted);
            assert_eq!(rig.near.now(), begin);
            assert!(matches!(server.closed().await, CloseReason::Reset(_)));
            assert!(rig.near.now().since(begin) < Duration::from_millis(20));
            let ended = pending.await;
            // TCP's only stream exists after the handshake, so `accept` may have returned it before the abort.
            assert!(ended == Ok(()) || matches!(ended, Err(CloseReason::Reset(_))), "{ended:?}");
        });
        run(transport, &[], |rig, _| async move {
            let mut listener = rig.listen();
            let [client, server] = rig.pair(&mut listener).await;
            client.close_with(7, "no reason that these transports carry");
            assert_eq!(client.closed().await, CloseReason::Aborted);
            assert!(matches!(server.closed().await, CloseReason::Reset(_)));
        });
    }
}

#[test]
fn readers_and_writers_that_wait_learn_that_the_session_has_ended() {
    for transport in BOTH {
        run(transport, &[], |rig, _| async move {
            let mut listener = rig.listen();
            let [client, server] = rig.pair(&mut listener).await;
            let [mut reading, mut writing] = [client.open(0).expect("a stream"), {
                // TCP has only one stream. The client reads from it, and the server writes to it.
                match client.open(1) {
                    Ok(stream) => stream,
                    Err(_) => server.accept().await.expect("a stream"),
                }
            }];
            let reader = rig.near.spawn("reader", async move { reading.read(&mut [0; 10]).await });
            let writer = rig.near.spawn("writer", async move {
                loop {
                    if let Err(reason) = writing.write(&[0; 10_000]).await {
                        return reason;
                    }
                }
            });
            rig.pause(2_000).await;
            server.abort();
            // With TCP, the side that writes is the server. The server aborted the session, so the writer's reason is
            // `Aborted`.
            assert!(matches!(writer.await, CloseReason::Reset(_) | CloseReason::Aborted));
            // The read must not report the end of the stream. It may return data that had arrived.
            assert!(!matches!(reader.await, Ok(0)));
        });
    }
}

#[test]
fn sessions_that_nobody_takes_are_aborted_with_their_listener() {
    for transport in BOTH {
        run(transport, &[], |rig, _| async move {
            let listener = rig.listen();
            let waiting = rig.begin().expect("begun");
            waiting.established().await.expect("established");
            rig.pause(100).await;
            drop(listener);
            assert!(matches!(waiting.closed().await, CloseReason::Reset(_)));
            let late = rig.begin().expect("begun");
            assert!(late.established().await.is_err(), "nobody listens any more");
            rig.server.wait_idle().await;
            rig.server.listen(80, 0).expect("the port is free again");
        });
    }
}

#[test]
fn a_host_that_closes_is_idle_when_its_sessions_have_ended() {
    for transport in BOTH {
        run(transport, &[], |rig, _| async move {
            let mut listener = rig.listen();
            assert!(once(|cx| rig.client.poll_idle(cx)).await.is_some(), "no session yet");
            let [client, server] = rig.pair(&mut listener).await;
            assert!(once(|cx| rig.client.poll_idle(cx)).await.is_none());
            let held = server.clone();
            rig.far
                .spawn("server", async move {
                    held.accept().await.map(|_| ()).ok();
                    held.close();
                })
                .detach();
            rig.client.close();
            rig.client.wait_idle().await;
            assert_eq!([client.closed().await, server.closed().await], [const { CloseReason::Finished }; 2]);
        });
    }
}

#[test]
fn a_trace_is_kept_while_it_is_wanted() {
    for transport in BOTH {
        run(transport, &[], |rig, _| async move {
            let mut listener = rig.listen();
            rig.client.set_tracing(true);
            let [client, _server] = rig.pair(&mut listener).await;
            client.open(0).expect("a stream").write_all(b"x").await.expect("written");
            rig.pause(100).await;
            assert!(!rig.client.take_trace().is_empty());
            assert!(rig.client.take_trace().is_empty(), "taken once");
            assert!(rig.server.take_trace().is_empty(), "not wanted");
        });
    }
}

/// RFC 9260 §6.3.3, RFC 6298 §5.4: timeouts during the handshake are counted, and so are timeouts of data.
#[test]
fn timeouts_of_handshake_and_data_are_counted() {
    for transport in BOTH {
        run(transport, &[], |rig, network| {
            network.change(NetworkChange::Down(rig.link)).expect("the link is there");
            async move {
                let mut listener = rig.listen();
                let session = rig.begin().expect("begun");
                rig.pause(1_500).await;
                let first = rig.client.totals().timeouts;
                assert_eq!((first, rig.server.totals().timeouts), (1, 0));
                network.change(NetworkChange::Up(rig.link)).expect("the link is there");
                session.established().await.expect("established");
                let accepted = listener.accept().await.expect("accepted");
                network.change(NetworkChange::Down(rig.link)).expect("the link is there");
                let mut stream = session.open(0).expect("a stream");
                stream.write_all(b"x").await.expect("written");
                rig.pause(4_000).await;
                assert!(rig.client.totals().timeouts > first + 1, "{:?}", rig.client.totals());
                drop(accepted);
            }
        });
    }
}

/// RFC 6525 §5.1: the client resets a stream. The server's reads and writes on the stream fail. On both sides, the byte
/// counters of the direction from client to server continue at the next multiple of 2^32. TCP cannot reset a stream.
#[test]
fn a_stream_that_is_reset_is_cancelled_for_its_other_holder_and_can_be_used_again() {
    run(&Sctp, &[("reconfig", "yes")], |rig, _| async move {
        let mut listener = rig.listen();
        let [client, server] = rig.pair(&mut listener).await;
        let mut out = client.open(2).expect("a stream");
        out.write_all(b"request").await.expect("written");
        let mut input = server.accept().await.expect("a stream");
        assert_eq!(read(&mut input, 7).await, b"request");
        assert!(out.reset());
        assert!(poll_fn(|cx| out.poll_reset(cx)).await, "both ways");
        assert_eq!(input.read(&mut [0; 9]).await, Err(CloseReason::Cancelled));
        assert_eq!(input.write(b"answer").await, Err(CloseReason::Cancelled));
        drop(input);
        assert_eq!(out.bytes_written(), 1 << 32);
        assert_eq!(out.bytes_read(), 0, "nothing ever came on it");
        out.write_all(b"again").await.expect("written");
        let mut input = server.accept().await.expect("a stream");
        assert_eq!(read(&mut input, 5).await, b"again");
        assert_eq!(input.bytes_read(), (1 << 32) + 5);
    });
    run(&Tcp, &[], |rig, _| async move {
        let mut listener = rig.listen();
        let [client, _server] = rig.pair(&mut listener).await;
        let mut out = client.open(0).expect("a stream");
        assert!(!out.reset(), "TCP cannot");
        assert!(!poll_fn(|cx| out.poll_reset(cx)).await);
    });
}

/// RFC 8260 §3.4: with the priority scheduler, data of a stream with a lower rank is sent first.
#[test]
fn ranks_order_streams_where_the_scheduler_knows_priorities() {
    let arrivals = |scheduler| {
        run(
            &Sctp,
            &[("scheduler", scheduler), ("sndbuf", "1MiB"), ("interleaving", "no")],
            |rig, _| async move {
                let mut listener = rig.listen();
                let [client, server] = rig.pair(&mut listener).await;
                let mut streams = [1, 2, 3].map(|number| client.open(number).expect("a stream"));
                for (stream, rank) in streams.iter_mut().zip([5, 9, 1]) {
                    stream.set_rank(rank);
                }
                for stream in &mut streams {
                    stream.write_all(&[0; 60_000]).await.expect("there is room");
                }
                let mut order = Vec::new();
                let mut tasks = Vec::new();
                for _ in 0..3 {
                    let mut input = server.accept().await.expect("a stream");
                    let world = rig.far.clone();
                    tasks.push(rig.far.spawn("read", async move {
                        read(&mut input, 60_000).await;
                        (world.now(), input.number())
                    }));
                }
                for task in tasks {
                    order.push(task.await);
                }
                order.sort_unstable();
                order.into_iter().map(|(_, number)| number).collect::<Vec<_>>()
            },
        )
    };
    assert_eq!(arrivals("priority"), [3, 1, 2]);
    assert_eq!(arrivals("fcfs"), [1, 2, 3], "a rank means nothing to it");
}

/// RFC 9260 §3.3.1: a stream sends the payload protocol identifier from the settings, in `write_all` and in
/// `write_message`. `set_ppid` replaces the identifier.
#[test]
fn messages_and_bytes_have_the_identifier_of_the_settings() {
    let network = Network::new(1);
    let [near, far] = [("near", NEAR), ("far", FAR)].map(|(name, address)| network.host(name, &[address]));
    network.link(near, far, &LinkSpec::parse("delay=1ms").expect("a link")).expect("linked");
    let worlds = [near, far].map(|host| network.world(host));
    let program = async {
        let [a, b] = &worlds;
        let mut config = Config::default();
        config.ppid = 53;
        let client = SctpHost::new(a.clone(), config.clone(), LowerProtocol::Ip, None).await.expect("a host");
        let server = SctpHost::new(b.clone(), config, LowerProtocol::Ip, None).await.expect("a host");
        let mut listener = server.listen(80).expect("listening");
        let session = client.connect(&[(FAR, 0).into()], 80).expect("begun");
        let mut out = session.open(0).expect("a stream");
        out.set_delivery(Delivery { unordered: true, ..Delivery::default() });
        out.write_message(b"message").await.expect("written");
        out.write_all(b"bytes").await.expect("written");
        out.set_ppid(99);
        out.write_message(b"other").await.expect("written");
        let mut input = listener.accept().await.expect("accepted").accept().await.expect("a stream");
        let (mut got, mut buffer) = (Vec::new(), [0; 100]);
        for _ in 0..3 {
            let received = poll_fn(|cx| input.poll_recv(cx, &mut buffer)).await.expect("a message");
            let received = received.expect("no end");
            got.push((buffer[..received.bytes].to_vec(), received.ppid, received.unordered));
        }
        got.sort();
        let expected = [(&b"bytes"[..], 53, false), (b"message", 53, true), (b"other", 99, true)];
        assert_eq!(got, expected.map(|(bytes, ppid, unordered)| (bytes.to_vec(), ppid, unordered)));
    };
    network.run(program, Instant::from_millis(10_000)).expect_done();
}

/// A client configures the payload protocol identifier of its bytes. A server without a configured identifier answers
/// with the client's identifier. If neither side has an identifier, both use the identifier of HTTP.
#[test]
fn a_server_answers_bytes_in_the_identifier_that_the_client_has_chosen() {
    for (chosen, expected) in [(0, PPID_HTTP), (51, 51), (53, 53)] {
        let network = Network::new(1);
        let [near, far] =
            [("near", NEAR), ("far", FAR)].map(|(name, address)| network.host(name, &[address]));
        network.link(near, far, &LinkSpec::parse("delay=1ms").expect("a link")).expect("linked");
        let worlds = [near, far].map(|host| network.world(host));
        let program = async {
            let [a, b] = &worlds;
            let mut config = Config::default();
            config.ppid = chosen;
            let client = SctpHost::new(a.clone(), config, LowerProtocol::Ip, None).await.expect("a host");
            let server =
                SctpHost::new(b.clone(), Config::default(), LowerProtocol::Ip, None).await.expect("a host");
            let mut listener = server.listen(80).expect("listening");
            let session = client.connect(&[(FAR, 0).into()], 80).expect("begun");
            let mut out = session.open(0).expect("a stream");
            out.write_all(b"ask").await.expect("written");
            let mut input = listener.accept().await.expect("accepted").accept().await.expect("a stream");
            assert_eq!(read(&mut input, 3).await, b"ask");
            input.write_all(b"answer").await.expect("written");
            assert_eq!(read(&mut out, 6).await, b"answer", "identifier {chosen}");
            // `poll_recv` returns a single message and its identifier.
            out.write_all(b"again").await.expect("written");
            let mut buffer = [0; 100];
            let received = poll_fn(|cx| input.poll_recv(cx, &mut buffer)).await.expect("a message");
            assert_eq!(received.map(|received| received.ppid), Some(expected));
            input.write_all(b"last").await.expect("written");
            let received = poll_fn(|cx| out.poll_recv(cx, &mut buffer)).await.expect("a message");
            assert_eq!(received.map(|received| received.ppid), Some(expected));
        };
        network.run(program, Instant::from_millis(10_000)).expect_done();
    }
}

/// Several messages of one size that lie back to back in a slice are written together, and all bytes arrive.
#[test]
fn messages_of_one_size_that_lie_back_to_back_are_written_together() {
    for transport in BOTH {
        run(transport, &[], |rig, _| async move {
            let mut listener = rig.listen();
            let [client, server] = rig.pair(&mut listener).await;
            let mut out = client.open(0).expect("a stream");
            let content: Vec<u8> = (0..250).collect();
            let mut taken = 0;
            while taken < content.len() {
                taken +=
                    poll_fn(|cx| out.poll_write_messages(cx, &content[taken..], 50)).await.expect("taken");
            }
            assert_eq!((taken, out.bytes_written()), (250, 250));
            let mut input = server.accept().await.expect("a stream");
            assert_eq!(read(&mut input, 250).await, content);
        });
    }
}

/// An association uses only as many of its host's addresses as configured, starting with the first.
#[test]
fn an_association_uses_the_first_addresses_of_its_host() {
    let network = Network::new(1);
    let [near, far] = [("near", [[10, 0, 0, 1], [10, 1, 0, 1]]), ("far", [[10, 0, 0, 2], [10, 1, 0, 2]])]
        .map(|(name, addresses)| network.host(name, &addresses.map(IpAddr::from)));
    let spec = LinkSpec::parse("delay=1ms,mtu=1400").expect("a link");
    for n in 0..2 {
        network.link(near.interface(n), far.interface(n), &spec).expect("linked");
    }
    let worlds = [near, far].map(|host| network.world(host));
    let program = async {
        let [a, b] = &worlds;
        let client =
            SctpHost::new(a.clone(), Config::default(), LowerProtocol::Ip, Some(1)).await.expect("a host");
        let server =
            SctpHost::new(b.clone(), Config::default(), LowerProtocol::Ip, None).await.expect("a host");
        let mut listener = server.listen(80).expect("listening");
        let session = client.connect(&[([10, 0, 0, 2], 0).into()], 80).expect("begun");
        session.established().await.expect("established");
        let accepted = listener.accept().await.expect("accepted");
        let paths = |info: anabranch_sctp::AssociationInfo| {
            info.paths.iter().map(|path| path.address).collect::<Vec<_>>()
        };
        assert_eq!(paths(accepted.info().expect("it lives")), [IpAddr::from([10, 0, 0, 1])]);
        assert_eq!(paths(session.info().expect("it lives")).len(), 2);
    };
    network.run(program, Instant::from_millis(10_000)).expect_done();
}
