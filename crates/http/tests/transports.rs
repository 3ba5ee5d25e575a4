//! Tests pages over SCTP and TCP in virtual networks.

use crate::rig::page;
use crate::rig::sim::{
    Contestant, Rig, contestants, fetch_page, load, sctp, sctp_hosts, sctp_server, tcp, tcp_hosts, tcp_server,
};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_base::trace::{TraceEvent, TraceRecord};
use anabranch_http::browser::Client;
use anabranch_http::fetch::FetchStatus;
use anabranch_http::har::shipped;
use anabranch_http::mapping::Choices;
use anabranch_http::observe::{FetchError, ObjectRecord};
use anabranch_http::page::Page;
use anabranch_http::serve;
use anabranch_transport::sctp::{ENCAPSULATION_PORT, LowerProtocol, SctpConnector, SctpHost};
use anabranch_transport::tcp::TcpConnector;
use anabranch_world::World;
use std::rc::Rc;

const DEFAULT: &str = "rate=10mbit,rtt=80ms";

#[test]
fn every_contestant_fetches_the_page() {
    let page = page(30_000, &[5_000, 40_000, 100, 0, 80_000, 1_460, 1_448, 20_000, 9_999]);
    for contestant in contestants() {
        let load = load(&Rig::new(&[DEFAULT], 1), &contestant, &page, |_| {});
        assert_eq!(load.outcome.end, FetchStatus::Done, "{contestant:?}: {:?}", load.outcome);
        assert_eq!(load.outcome.body_bytes, page.body_bytes(), "{contestant:?}");
        // The transfer of 286 kB at 10 Mbit/s takes 0.23 s. A handshake and two round trips take 0.24 s.
        let elapsed = load.outcome.elapsed();
        assert!(
            elapsed > Duration::from_millis(400) && elapsed < Duration::from_secs(5),
            "{contestant:?} {elapsed:?}"
        );
        for (i, object) in load.record.objects.iter().enumerate() {
            let (assigned, delivered) =
                (object.assigned.as_ref().expect("assigned"), object.delivered.as_ref());
            let served = load.record.served[&assigned.exchange];
            let order = [
                object.issued,
                Some(assigned.at),
                served.serving,
                served.written,
                object.first_byte,
                delivered.map(|d| d.at),
            ];
            assert!(order.is_sorted() && order.iter().all(Option::is_some), "{contestant:?}: {i}: {order:?}");
        }
    }
}

#[test]
fn osterdahl_s_pages_take_the_connections_he_counts() {
    for (name, objects) in [("osterdahl-news", 4), ("osterdahl-gallery", 10)] {
        let page = Rc::new(shipped::shipped(name).unwrap_or_else(|| panic!("no page {name}")));
        let per_object = Choices { per_object: true, ..Choices::default() };
        for (contestant, connections) in [
            (tcp(per_object.clone()), objects),
            (tcp(Choices::default()), 1),
            (sctp(10), 1),
            (Contestant::Sctp("rfc9260", 10, per_object), objects),
        ] {
            let load = load(&Rig::new(&[DEFAULT], 1), &contestant, &page, |_| {});
            assert_eq!(load.outcome.end, FetchStatus::Done, "{contestant:?}");
            assert_eq!(
                (load.outcome.connections, load.accepted),
                (connections, connections),
                "{contestant:?}"
            );
        }
    }
}

#[test]
fn losses_reordering_and_corruption_change_nothing_but_the_time() {
    let page = page(20_000, &[30_000; 7]);
    let link = "rate=10mbit,rtt=40ms,jitter=2ms,loss=5%,corrupt=1%,duplicate=1%";
    for seed in 0..4 {
        for contestant in contestants() {
            let load = load(&Rig::new(&[link], seed), &contestant, &page, |_| {});
            assert_eq!(load.outcome.end, FetchStatus::Done, "{contestant:?} seed {seed}: {:?}", load.outcome);
            assert_eq!(load.outcome.body_bytes, page.body_bytes(), "{contestant:?} seed {seed}");
        }
    }
}

#[test]
fn three_hundred_objects_come_through() {
    let sizes: Vec<u64> = (0..299).map(|i| (i * 997) % 20_000).collect();
    let page = page(50_000, &sizes);
    for contestant in contestants() {
        let load = load(&Rig::new(&["rate=50mbit,rtt=20ms,loss=0.5%"], 5), &contestant, &page, |_| {});
        assert_eq!(load.outcome.end, FetchStatus::Done, "{contestant:?}: {:?}", load.outcome);
        assert_eq!(load.outcome.body_bytes, page.body_bytes(), "{contestant:?}");
    }
}

#[test]
fn same_seed_same_world() {
    let page = page(20_000, &[30_000; 7]);
    for contestant in contestants() {
        let run = |seed| {
            let rig = Rig::new(&["rate=10mbit,rtt=40ms,loss=3%"], seed);
            rig.network.audit(false);
            let load = load(&rig, &contestant, &page, |_| {});
            (rig.network.digest(), load.record)
        };
        assert_eq!(run(7), run(7), "{contestant:?}");
        assert_ne!(run(7).0, run(8).0, "{contestant:?}");
    }
}

/// Returns the byte ranges of a stream that were sent according to a trace. The ranges are sorted, and adjacent ranges
/// are joined.
fn sent(trace: &[TraceRecord], connection: u64, stream: u64) -> Vec<(u64, u64)> {
    let mut ranges: Vec<(u64, u64)> = trace
        .iter()
        .filter(|record| record.connection == connection)
        .filter_map(|record| match &record.event {
            TraceEvent::Sent { stream: on, bytes, .. } if *on == stream => Some((bytes.start, bytes.end)),
            _ => None,
        })
        .collect();
    ranges.sort_unstable();
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for (start, end) in ranges {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

#[test]
fn milestones_and_traces_speak_of_the_same_bytes() {
    let page = page(20_000, &[3_000, 25_000, 14_000, 1]);
    for contestant in contestants() {
        let rig = Rig::new(&["rate=10mbit,rtt=40ms,loss=3%"], 2);
        let policy = contestant.policy();
        let options = serve::Options::default();
        let run = async {
            match &contestant {
                Contestant::Tcp(profile, _) => {
                    let (client, server) = tcp_hosts(&rig, profile).await;
                    client.set_tracing(true);
                    server.set_tracing(true);
                    let connector = TcpConnector::new(client.clone(), vec![tcp_server(&rig)]);
                    let listener = server.listen(80, 0).expect("listening");
                    let (_, record) = fetch_page(&rig, connector, listener, &page, policy, options).await;
                    (record, client.take_trace(), server.take_trace())
                }
                Contestant::Sctp(profile, streams, _) => {
                    let (client, server) = sctp_hosts(&rig, profile, *streams, LowerProtocol::Ip).await;
                    client.set_tracing(true);
                    server.set_tracing(true);
                    let connector =
                        SctpConnector::new(client.clone(), vec![sctp_server(&rig, LowerProtocol::Ip)]);
                    let listener = server.listen(80).expect("listening");
                    let (_, record) = fetch_page(&rig, connector, listener, &page, policy, options).await;
                    (record, client.take_trace(), server.take_trace())
                }
            }
        };
        let (record, up, down) = rig.network.run(run, Instant::MAX).expect_done();
        for object in &record.objects {
            let (assigned, delivered) =
                (object.assigned.as_ref().expect("assigned"), object.delivered.as_ref());
            let (exchange, delivered) = (assigned.exchange, delivered.expect("delivered"));
            let covers = |trace: &[TraceRecord], range: &std::ops::Range<u64>| {
                let sent = sent(trace, exchange.connection, exchange.stream);
                sent.iter().any(|(start, end)| *start <= range.start && range.end <= *end)
            };
            assert!(covers(&up, &assigned.request), "{contestant:?} {:?}", assigned.request);
            assert!(covers(&down, &delivered.response), "{contestant:?} {:?}", delivered.response);
        }
    }
}

#[test]
fn nobody_listening_is_refused_and_an_outage_times_out() {
    let small = page(100, &[100]);
    for contestant in [tcp(Choices::default()), sctp(10)] {
        // Nothing listens on the requested port, but the server's host is up. The connection must be refused.
        let rig = Rig::new(&[DEFAULT], 1);
        let policy = contestant.policy();
        let recorder = anabranch_http::observe::Recorder::default();
        let run = async {
            match &contestant {
                Contestant::Tcp(profile, _) => {
                    let (client, _server) = tcp_hosts(&rig, profile).await;
                    let connector = TcpConnector::new(client, vec![tcp_server(&rig)]);
                    anabranch_http::fetch::run(rig.client.clone(), connector, small.clone(), policy, recorder)
                        .await
                }
                Contestant::Sctp(profile, streams, _) => {
                    let (client, _server) = sctp_hosts(&rig, profile, *streams, LowerProtocol::Ip).await;
                    let connector = SctpConnector::new(client, vec![sctp_server(&rig, LowerProtocol::Ip)]);
                    anabranch_http::fetch::run(rig.client.clone(), connector, small.clone(), policy, recorder)
                        .await
                }
            }
        };
        let outcome = rig.network.run(run, Instant::MAX).expect_done();
        assert_eq!(outcome.end, FetchStatus::Failed, "{contestant:?}");
        assert!(
            matches!(&outcome.objects[0], Err(FetchError::Connect(why)) if why.contains("refused")),
            "{outcome:?}"
        );
        assert!(outcome.elapsed() < Duration::from_secs(2), "{contestant:?} {:?}", outcome.elapsed());

        // The link fails in the middle of the page. The objects must time out.
        let rig = Rig::new(&[DEFAULT], 1);
        rig.network.outage(rig.links[0], Instant::from_millis(700), None);
        let timeout = Some(Duration::from_secs(15));
        let load = load(&rig, &contestant, &page(20_000, &[200_000; 4]), |policy| policy.timeout = timeout);
        assert_eq!(load.outcome.end, FetchStatus::Failed, "{contestant:?}");
        assert_eq!(load.outcome.objects[0], Ok(()), "{contestant:?}");
        assert!(load.outcome.objects[1..].contains(&Err(FetchError::Timeout)), "{:?}", load.outcome);
        assert!(
            load.outcome.elapsed() < Duration::from_secs(120),
            "{contestant:?} {:?}",
            load.outcome.elapsed()
        );
    }
}

#[test]
fn one_small_object_takes_two_round_trips() {
    let page = Rc::new(Page::from_sizes("1kB").expect("a page"));
    for contestant in [tcp(Choices::default()), sctp(10)] {
        let load = load(&Rig::new(&["rate=1gbit,rtt=100ms"], 1), &contestant, &page, |_| {});
        let over = load.outcome.elapsed().saturating_sub(Duration::from_millis(200));
        assert!(over < Duration::from_millis(1), "{contestant:?}: {:?}", load.outcome.elapsed());
    }
}

#[test]
fn sctp_runs_in_udp_and_over_two_paths_one_of_which_fails() {
    let page = page(20_000, &[100_000; 6]);
    let carrier = LowerProtocol::Udp { port: ENCAPSULATION_PORT };
    for (carrier, links, outage) in
        [(carrier, 1, false), (carrier, 2, false), (LowerProtocol::Ip, 2, true), (carrier, 2, true)]
    {
        let rig = Rig::new(&vec![DEFAULT; links], 3);
        if outage {
            rig.network.outage(rig.links[0], Instant::from_millis(600), None);
        }
        let policy = sctp(10).policy();
        let run = async {
            let (client, server) = sctp_hosts(&rig, "rfc9260", 10, carrier).await;
            let connector = SctpConnector::new(client.clone(), vec![sctp_server(&rig, carrier)]);
            let listener = server.listen(80).expect("listening");
            let options = serve::Options::default();
            fetch_page(&rig, connector, listener, &page, policy, options).await.0
        };
        let outcome = rig.network.run(run, Instant::MAX).expect_done();
        assert_eq!(outcome.end, FetchStatus::Done, "{carrier:?} {links} {outage}: {outcome:?}");
        assert_eq!((outcome.body_bytes, outcome.connections), (page.body_bytes(), 1));
    }
}

/// Each end limits its incoming and outgoing streams, and the smallest limit applies. The client sends requests with
/// the handshake, before it knows this limit. A request on a stream beyond the limit must be repeated on an existing
/// stream.
#[test]
fn early_requests_on_ungranted_streams_are_repeated() {
    let page = Rc::new(Page::from_sizes("12x10kB").expect("a page"));
    let [few_in, few_out, many] = [(10, Some(5)), (5, Some(10)), (10, None)];
    for (client, server) in
        [(few_in, few_in), (few_out, few_out), (many, few_in), (many, few_out), (few_in, many)]
    {
        let rig = Rig::new(&[DEFAULT], 1);
        let config = |(streams, inbound)| {
            let mut config = anabranch_sctp::Config::default();
            (config.num_ostreams, config.max_instreams) = (streams, inbound);
            config
        };
        let run = async {
            let carrier = LowerProtocol::Ip;
            let near =
                SctpHost::new(rig.client.clone(), config(client), carrier, None).await.expect("a host");
            let far = SctpHost::new(rig.server.clone(), config(server), carrier, None).await.expect("a host");
            let connector = SctpConnector::new(near, vec![sctp_server(&rig, carrier)]);
            let listener = far.listen(80).expect("listening");
            let policy = sctp(10).policy();
            fetch_page(&rig, connector, listener, &page, policy, serve::Options::default()).await
        };
        let (outcome, record) = rig.network.run(run, Instant::MAX).expect_done();
        assert_eq!(outcome.end, FetchStatus::Done, "{client:?} {server:?}: {outcome:?}");
        assert_eq!((outcome.body_bytes, outcome.connections), (page.body_bytes(), 1));
        assert!(outcome.elapsed() < Duration::from_secs(2), "{client:?} {server:?}: {:?}", outcome.elapsed());
        let beyond =
            |object: &&ObjectRecord| object.assigned.as_ref().expect("assigned").exchange.stream >= 5;
        assert_eq!(record.objects.iter().filter(beyond).count(), 0, "{client:?} {server:?}");
    }
}

#[test]
fn hosts_close_in_good_order_and_every_wait_ends() {
    use anabranch_transport::{Connector, Listener, Session, Stream};
    let rig = Rig::new(&[DEFAULT], 1);
    let run = async {
        let (client, server) = tcp_hosts(&rig, "modern").await;
        let mut listener = server.listen(80, 0).expect("listening");
        assert!(server.listen(80, 0).is_err(), "the port is taken");
        let session =
            TcpConnector::new(client.clone(), vec![tcp_server(&rig)]).connect(0).expect("a session");
        let accepted = listener.accept().await.expect("accepted");
        assert_eq!(session.id(), accepted.id());
        session.established().await.expect("established");
        let mut stream = accepted.accept().await.expect("a stream");
        accepted.abort();
        assert!(!session.closed().await.is_graceful());
        assert!(stream.read(&mut [0; 10]).await.is_err());
        assert!(stream.write(b"x").await.is_err());

        let (client, server) = sctp_hosts(&rig, "rfc9260", 10, LowerProtocol::Ip).await;
        let mut listener = server.listen(80).expect("listening");
        assert!(server.listen(80).is_err(), "the port is taken");
        let connector = SctpConnector::new(client.clone(), vec![sctp_server(&rig, LowerProtocol::Ip)]);
        let session = connector.connect(0).expect("a session");
        let mut stream = session.open(3).expect("a stream");
        assert!(session.open(3).is_err() && session.open(10).is_err());
        stream.write_all(b"hello").await.expect("written");
        let accepted = listener.accept().await.expect("accepted");
        assert_eq!(session.id(), accepted.id());
        let mut second = accepted.accept().await.expect("a stream");
        assert_eq!(second.number(), 3);
        let mut buffer = [0; 10];
        assert_eq!(second.read(&mut buffer).await, Ok(5));
        client.close().await;
        assert!(session.closed().await.is_graceful());
        assert_eq!(second.read(&mut buffer).await, Ok(0));
        assert!(accepted.closed().await.is_graceful());
        assert!(second.write(b"x").await.is_err());
    };
    rig.network.run(run, Instant::MAX).expect_done();
}

#[test]
fn a_short_backlog_delays_but_loses_nothing() {
    use anabranch_transport::{Connector, Listener, Session};
    // The server accepts connections immediately, but its queue is short. The client must retry connections that did
    // not fit in the queue.
    let page = page(20_000, &[10_000; 12]);
    let six = tcp(Choices { connections: Some(6), ..Choices::default() });
    let rig = Rig::new(&[DEFAULT], 1);
    let run = async {
        let (client, server) = tcp_hosts(&rig, "modern").await;
        let listener = server.listen(80, 1).expect("listening");
        let connector = TcpConnector::new(client, vec![tcp_server(&rig)]);
        fetch_page(&rig, connector, listener, &page, six.policy(), serve::Options::default()).await.0
    };
    let outcome = rig.network.run(run, Instant::MAX).expect_done();
    assert_eq!((outcome.end, outcome.body_bytes), (FetchStatus::Done, page.body_bytes()), "{outcome:?}");

    // The server accepts connections late. Connections beyond its queue must wait, as with a kernel that drops the last
    // packet of the handshake.
    let rig = Rig::new(&[DEFAULT], 1);
    let run = async {
        let (client, server) = tcp_hosts(&rig, "modern").await;
        let mut listener = server.listen(80, 2).expect("listening");
        let connector = TcpConnector::new(client, vec![tcp_server(&rig)]);
        let sessions: Vec<_> = (0..5).map(|_| connector.connect(0).expect("a session")).collect();
        let world = rig.client.clone();
        world.sleep_until(Instant::from_millis(10_000)).await;
        let mut taken = Vec::new();
        for _ in &sessions {
            taken.push(listener.accept().await.expect("a connection"));
        }
        let mut ids: Vec<u64> = taken.iter().map(|session| session.id()).collect();
        ids.sort_unstable();
        ids.dedup();
        let alive = sessions.iter().filter(|session| session.poll_closed(&mut noop()).is_pending()).count();
        (ids.len(), alive)
    };
    assert_eq!(rig.network.run(run, Instant::MAX).expect_done(), (5, 5));
}

/// Returns a context that wakes no task.
fn noop() -> std::task::Context<'static> {
    std::task::Context::from_waker(std::task::Waker::noop())
}

#[test]
fn a_server_that_closes_between_exchanges_costs_a_connection_and_no_object() {
    // The page is a chain of objects with a think time of two seconds before each object. The server has an idle
    // timeout of one second.
    let mut chain = Page::from_sizes("5x3kB").expect("a page");
    for i in 1..chain.objects.len() {
        chain.objects[i].initiator = Some(i - 1);
        chain.objects[i].think = Duration::from_secs(2);
    }
    let chain = Rc::new(chain);
    for contestant in [tcp(Choices::default()), sctp(10)] {
        let rig = Rig::new(&[DEFAULT], 1);
        let policy = anabranch_http::mapping::Policy {
            think: anabranch_http::mapping::Think::Recorded,
            ..contestant.policy()
        };
        let options =
            || serve::Options { idle_timeout: Some(Duration::from_secs(1)), ..serve::Options::default() };
        let run = async {
            match &contestant {
                Contestant::Tcp(profile, _) => {
                    let (client, server) = tcp_hosts(&rig, profile).await;
                    let listener = server.listen(80, 0).expect("listening");
                    let connector = TcpConnector::new(client, vec![tcp_server(&rig)]);
                    fetch_page(&rig, connector, listener, &chain, policy, options()).await.0
                }
                Contestant::Sctp(profile, streams, _) => {
                    let (client, server) = sctp_hosts(&rig, profile, *streams, LowerProtocol::Ip).await;
                    let listener = server.listen(80).expect("listening");
                    let connector = SctpConnector::new(client, vec![sctp_server(&rig, LowerProtocol::Ip)]);
                    fetch_page(&rig, connector, listener, &chain, policy, options()).await.0
                }
            }
        };
        let outcome = rig.network.run(run, Instant::MAX).expect_done();
        assert_eq!((outcome.end, outcome.connections), (FetchStatus::Done, 5), "{contestant:?} {outcome:?}");
    }
}

/// The first packet of a connection is lost. A browser must open another connection after 250 ms, and not wait for the
/// retransmission after 1 s.
#[test]
fn a_browser_opens_a_backup_connection() {
    let page = page(1_000, &[]);
    let begins = |client: Client, connections: usize| {
        let rig = Rig::new(&[DEFAULT], 1);
        rig.network.outage(rig.links[0], Instant::ZERO, Some(Duration::from_millis(100)));
        let load = load(&rig, &tcp(Choices::default()), &page, |policy| {
            (policy.client, policy.connections) = (client, connections);
        });
        assert_eq!(load.outcome.end, FetchStatus::Done);
        let opened: Vec<Instant> =
            load.record.connections.values().map(|connection| connection.opened).collect();
        (opened, load.outcome.elapsed())
    };
    let (opened, elapsed) = begins(Client::Chromium, 6);
    assert_eq!(opened, [Instant::ZERO, Instant::from_millis(250)]);
    assert!(elapsed < Duration::from_secs(1), "{elapsed:?}");
    // A plain client opens none, and neither does a contestant that has one connection only.
    for (client, connections) in [(Client::Plain, 6), (Client::Chromium, 1)] {
        let (opened, elapsed) = begins(client, connections);
        assert!(opened.len() == 1 && elapsed > Duration::from_secs(1), "{opened:?} {elapsed:?}");
    }
}
