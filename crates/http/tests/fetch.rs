//! Tests fetching and serving without a network: which connections and streams are used, the counters, and the
//! behaviour on failures.

use crate::rig::memory::Meeting;
use crate::rig::page;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_http::browser::Client;
use anabranch_http::browser::rules::CHROMIUM;
use anabranch_http::fetch::{self, FetchStatus, Outcome};
use anabranch_http::har;
use anabranch_http::mapping::{Choices, Policy, Think, WhenFull};
use anabranch_http::observe::{FetchError, Record, Recorder};
use anabranch_http::page::Page;
use anabranch_http::serve::{self, PageSite};
use anabranch_sim::Network;
use anabranch_transport::{Listener, Session, Stream};
use anabranch_world::World;
use std::rc::Rc;

/// Fetches `page` through sessions in memory.
fn load(meeting: &Meeting, page: &Rc<Page>, policy: Policy, options: serve::Options) -> (Outcome, Record) {
    let network = Network::new(1);
    let host = network.host("both", &[[10, 0, 0, 1].into()]);
    let world = network.world(host);
    let recorder = Recorder::new();
    let site = Rc::new(PageSite::new(page));
    let server = serve::run(world.clone(), meeting.clone(), site, options, recorder.clone());
    let _server = world.spawn("server", server);
    let fetch = fetch::run(world.clone(), meeting.clone(), page.clone(), policy, recorder.clone());
    let outcome = network.run(fetch, Instant::MAX).expect_done();
    (outcome, recorder.take())
}

fn policy(choices: Choices, multistream: bool) -> Policy {
    choices.policy(multistream, false).expect("a policy")
}

fn policies() -> Vec<(&'static str, Meeting, Policy)> {
    let none = Choices::default();
    vec![
        ("one, pipelined", Meeting::new(1, false), policy(none.clone(), false)),
        (
            "one, not pipelined",
            Meeting::new(1, false),
            policy(Choices { pipeline: Some(false), ..none.clone() }, false),
        ),
        ("six", Meeting::new(1, false), policy(Choices { connections: Some(6), ..none.clone() }, false)),
        ("per object", Meeting::new(1, false), policy(Choices { per_object: true, ..none.clone() }, false)),
        (
            "three each",
            Meeting::new(1, false),
            policy(Choices { objects_per_connection: Some(3), ..none.clone() }, false),
        ),
        ("100 streams", Meeting::new(100, true), policy(none.clone(), true)),
        (
            "2 streams, rr",
            Meeting::new(2, false),
            policy(Choices { when_full: Some(WhenFull::RoundRobin), ..none.clone() }, true),
        ),
        (
            "3 streams, spf",
            Meeting::new(3, true),
            policy(Choices { when_full: Some(WhenFull::SmallestPending), ..none }, true),
        ),
    ]
}

#[test]
fn every_policy_delivers_every_byte() {
    let page = page(20_000, &[1, 0, 5_000, 70_000, 333, 12_345, 4, 99_999, 16_384]);
    for (name, meeting, policy) in policies() {
        let (outcome, record) = load(&meeting, &page, policy, serve::Options::default());
        assert_eq!(outcome.end, FetchStatus::Done, "{name}: {outcome:?}");
        assert_eq!(outcome.body_bytes, page.body_bytes(), "{name}");
        for (i, object) in record.objects.iter().enumerate() {
            let (assigned, delivered) = (object.assigned.as_ref(), object.delivered.as_ref());
            let (assigned, delivered) = (assigned.expect("assigned"), delivered.expect("delivered"));
            let sizes = &page.objects[i];
            assert_eq!(assigned.request.end - assigned.request.start, sizes.request_head, "{name}: {i}");
            assert_eq!(delivered.response.end - delivered.response.start, sizes.response(), "{name}: {i}");
            let served = record.served[&assigned.exchange];
            assert!(object.issued <= Some(assigned.at), "{name}");
            assert!(served.serving <= served.written && served.written.is_some(), "{name}: {i} {served:?}");
            assert!(served.written <= object.first_byte, "{name}");
            assert!(object.first_byte <= Some(delivered.at), "{name}");
        }
    }
}

/// A page may declare heads that have room for only the required fields, or for a few bytes more. Each head must have
/// exactly the declared size, even if it announces that the connection closes.
#[test]
fn minimal_heads_have_the_exact_size() {
    for (name, meeting, policy) in policies() {
        let closes = policy.objects_per_connection.is_some();
        for more in 0..12 {
            let mut page = (*page(20_000, &[1, 5_000, 123_456])).clone();
            for object in &mut page.objects {
                let host = &page.hosts[object.host];
                object.request_head =
                    (fetch::request::min_head_size(&object.name, host, closes) + more) as u64;
                object.response_head = (serve::min_head_size(object.body, closes) + more) as u64;
            }
            let page = Rc::new(page);
            let (outcome, record) = load(&meeting, &page, policy.clone(), serve::Options::default());
            assert_eq!(outcome.end, FetchStatus::Done, "{name}");
            for (object, sizes) in record.objects.iter().zip(&page.objects) {
                let assigned = object.assigned.as_ref().expect("assigned");
                let delivered = object.delivered.as_ref().expect("delivered");
                assert_eq!(assigned.request.end - assigned.request.start, sizes.request_head, "{name}");
                assert_eq!(delivered.response.end - delivered.response.start, sizes.response(), "{name}");
            }
        }
    }
}

/// With `preconnect`, every connection must be established before the first request, even if the first requests need
/// fewer connections.
#[test]
fn connections_can_all_be_opened_first() {
    let page = page(20_000, &[1, 5_000, 70_000, 333]);
    for multistream in [false, true] {
        let meeting = Meeting::new(if multistream { 100 } else { 1 }, false);
        let three = policy(Choices { connections: Some(3), ..Choices::default() }, multistream);
        let (outcome, record) =
            load(&meeting, &page, Policy { preconnect: true, ..three }, serve::Options::default());
        assert_eq!((outcome.end, outcome.connections), (FetchStatus::Done, 3), "{outcome:?}");
        let established = record.connections.values().filter_map(|it| it.established).max();
        let first = record.objects.iter().filter_map(|object| object.issued).min();
        assert!(established.is_some() && first == established, "{established:?} {first:?}");
    }
}

/// Streams whose buffers are released after each request must behave like streams that keep their buffers. Only the
/// order of requests at the same instant may differ.
#[test]
fn streams_without_buffers_serve_the_same() {
    let page = page(20_000, &[1, 0, 5_000, 70_000, 333, 12_345, 4, 99_999, 16_384]);
    for ((name, meeting, policy), (_, again, _)) in policies().into_iter().zip(policies()) {
        let with_buffers = load(&meeting, &page, policy.clone(), serve::Options::default());
        let none = serve::Options { buffers_kept: Some(0), ..serve::Options::default() };
        let without_buffers = load(&again, &page, policy, none);
        assert_eq!(with_buffers.0.end, FetchStatus::Done, "{name}");
        assert_eq!(format!("{:?}", without_buffers.0), format!("{:?}", with_buffers.0), "{name}");
        let [without_buffers, with_buffers] = [without_buffers.1, with_buffers.1].map(|record| {
            let sizes = record.objects.iter().map(|object| {
                let delivered = object.delivered.as_ref().expect("delivered");
                (delivered.response.end - delivered.response.start, delivered.body)
            });
            sizes.collect::<Vec<_>>()
        });
        assert_eq!(without_buffers, with_buffers, "{name}");
    }
}

#[test]
fn exchanges_follow_one_another_on_their_streams() {
    let page = page(100, &[10; 40]);
    for (name, meeting, policy) in policies() {
        let (_, record) = load(&meeting, &page, policy, serve::Options::default());
        let mut exchanges: Vec<_> = record
            .objects
            .iter()
            .map(|o| {
                let assigned = o.assigned.as_ref().expect("assigned");
                let delivered = o.delivered.as_ref().expect("delivered");
                (assigned.exchange, assigned.request.clone(), delivered.response.clone())
            })
            .collect();
        exchanges.sort_by_key(|(exchange, ..)| *exchange);
        for pair in exchanges.windows(2) {
            let [(one, request, response), (next, next_request, next_response)] = pair else { continue };
            if (one.connection, one.stream) == (next.connection, next.stream) {
                assert_eq!(next.index, one.index + 1, "{name}");
                assert_eq!((next_request.start, next_response.start), (request.end, response.end), "{name}");
            } else {
                assert_eq!((next.index, next_request.start, next_response.start), (0, 0, 0), "{name}");
            }
        }
        assert_eq!(record.served.len(), exchanges.len(), "{name}: nothing else was served");
    }
}

#[test]
fn connections_are_those_of_the_policy() {
    let count = |embedded: usize, meeting: Meeting, choices: Choices, multistream| {
        let page = page(5_000, &vec![2_000; embedded]);
        load(&meeting, &page, policy(choices, multistream), serve::Options::default()).0.connections
    };
    let none = Choices::default();
    let per_object = Choices { per_object: true, ..none.clone() };
    let six = Choices { connections: Some(6), ..none.clone() };
    for (embedded, all) in [(3, 4), (9, 10)] {
        assert_eq!(count(embedded, Meeting::new(1, false), per_object.clone(), false), all);
        assert_eq!(count(embedded, Meeting::new(1, false), none.clone(), false), 1);
        assert_eq!(count(embedded, Meeting::new(100, true), none.clone(), true), 1);
        assert_eq!(count(embedded, Meeting::new(1, false), six.clone(), false), 6.min(embedded));
        let three_each = Choices { objects_per_connection: Some(3), ..none.clone() };
        assert_eq!(count(embedded, Meeting::new(1, false), three_each, false), all.div_ceil(3));
    }
}

#[test]
fn a_broken_connection_is_replaced_and_its_objects_tried_again() {
    let page = page(5_000, &[40_000; 8]);
    for (name, meeting, policy) in policies() {
        meeting.break_after(1, 60_000);
        let broken = load(&meeting, &page, policy.clone(), serve::Options::default());
        assert_eq!(broken.0.end, FetchStatus::Done, "{name}: {:?}", broken.0);
        assert_eq!(broken.0.body_bytes, page.body_bytes(), "{name}");
    }
    // An object whose connection breaks every time must be given up.
    let meeting = Meeting::new(1, false);
    (1..100).for_each(|n| meeting.break_after(n, 10_000));
    let (outcome, record) = load(&meeting, &page, Policy::default(), serve::Options::default());
    assert_eq!((outcome.end, outcome.failed()), (FetchStatus::Failed, 8), "the page itself fits");
    assert!(matches!(outcome.objects[3], Err(FetchError::Closed(_))), "{outcome:?}");
    assert_eq!(record.objects[3].assigned.as_ref().map(|a| a.attempt), Some(3));
}

#[test]
fn a_server_that_refuses_fails_the_page_and_all_it_embeds() {
    let meeting = Meeting::new(1, false);
    meeting.refuse();
    let (outcome, _) = load(&meeting, &page(100, &[100; 3]), Policy::default(), serve::Options::default());
    assert_eq!((outcome.end, outcome.failed(), outcome.connections), (FetchStatus::Failed, 4, 4));
    assert!(matches!(outcome.objects[0], Err(FetchError::Connect(_))));
    assert_eq!(outcome.objects[1], Err(FetchError::InitiatorFailed(0)));
}

#[test]
fn service_time_and_think_time_pass() {
    let mut page = Page::clone(&page(1_000, &[1_000, 1_000]));
    page.objects[2].think = Duration::from_millis(30);
    let page = Rc::new(page);
    let options = serve::Options { service_time: Duration::from_millis(5), ..serve::Options::default() };
    let pipelined = Choices::default().policy(false, false).expect("a policy");
    let (outcome, record) = load(&Meeting::new(1, false), &page, pipelined.clone(), options.clone());
    assert_eq!(outcome.elapsed(), Duration::from_millis(15), "one after the other");
    let served = record.served.values().map(|s| s.written.zip(s.serving).map(|(w, s)| w - s));
    assert!(served.into_iter().all(|span| span == Some(Duration::from_millis(5))));
    let (outcome, _) = load(&Meeting::new(10, false), &page, Policy::default(), options.clone());
    assert_eq!(outcome.elapsed(), Duration::from_millis(10), "side by side");
    let thinking = Policy { think: Think::Recorded, ..Policy::default() };
    let (outcome, record) = load(&Meeting::new(10, false), &page, thinking, options);
    assert_eq!(outcome.elapsed(), Duration::from_millis(5 + 30 + 5));
    assert_eq!(record.objects[2].issued, Some(Instant::from_millis(35)));
}

#[test]
fn a_browser_waits_before_it_requests_what_it_found() {
    let issued = |think: Duration| {
        let mut page = Page::clone(&page(1_000, &[1_000, 1_000]));
        page.objects[2].think = think;
        let policy = Policy { client: Client::Chromium, think: Think::Recorded, ..Policy::default() };
        let (outcome, record) =
            load(&Meeting::new(10, false), &Rc::new(page), policy, serve::Options::default());
        assert_eq!(outcome.end, FetchStatus::Done);
        let read =
            [1, 2].map(|object: usize| record.objects[object].delivered.as_ref().expect("delivered").at);
        ([1, 2].map(|object: usize| record.objects[object].issued.expect("a request")), read)
    };
    let ((at_once, read), (later, _)) = (issued(Duration::ZERO), issued(Duration::from_millis(30)));
    assert_eq!(at_once[1], at_once[0], "requests that are released together are sent together");
    assert_eq!(
        read[1],
        read[0] + CHROMIUM.response * CHROMIUM.response_http3 / 1000,
        "one response after the other"
    );
    assert_eq!(later[0] + CHROMIUM.request, at_once[0]);
    assert_eq!(later[1], later[0] + Duration::from_millis(30), "the first request was sent long ago");
}

#[test]
fn arrivals_are_open_loop_and_fill_streams_before_connections() {
    let page = Rc::new(Page::from_sizes("25x1kB").expect("a page"));
    let options = serve::Options { service_time: Duration::from_millis(100), ..serve::Options::default() };
    let arrivals = |gap: u64| Some((0..25).map(|i| Duration::from_millis(i * gap)).collect());
    for (streams, gap, connections) in [(1, 4, 25), (10, 4, 3), (10, 10, 1), (10, 5, 2), (1, 200, 1)] {
        let open = Choices::default().policy(streams > 1, true).expect("a policy");
        let policy = Policy { arrivals: arrivals(gap), ..open };
        let (outcome, record) = load(&Meeting::new(streams, true), &page, policy, options.clone());
        assert_eq!(
            (outcome.end, outcome.connections),
            (FetchStatus::Done, connections),
            "{streams} streams, {gap} ms"
        );
        assert_eq!(record.objects[24].issued, Some(Instant::from_millis(24 * gap)));
    }
}

#[test]
fn stalled_objects_time_out_and_are_counted() {
    let page = page(1_000, &[1_000; 3]);
    let slow = serve::Options { service_time: Duration::from_secs(100), ..serve::Options::default() };
    let timeout = Some(Duration::from_secs(15));
    let (outcome, _) =
        load(&Meeting::new(1, false), &page, Policy { timeout, ..Policy::default() }, slow.clone());
    assert_eq!((outcome.end, outcome.failed()), (FetchStatus::Failed, 4));
    assert_eq!(outcome.objects[0], Err(FetchError::Timeout));
    assert_eq!(outcome.elapsed(), Duration::from_secs(15));

    // Progress must restart the timeout. With pipelining, 4 x 10 s of service time must pass without a failure.
    let slower = serve::Options { service_time: Duration::from_secs(10), ..serve::Options::default() };
    let pipelined = Policy { timeout, ..Choices::default().policy(false, false).expect("a policy") };
    let (outcome, _) = load(&Meeting::new(1, false), &page, pipelined, slower);
    assert_eq!((outcome.end, outcome.elapsed()), (FetchStatus::Done, Duration::from_secs(40)));

    let deadline = Some(Duration::from_secs(7));
    let (outcome, _) = load(&Meeting::new(1, false), &page, Policy { deadline, ..Policy::default() }, slow);
    assert_eq!((outcome.end, outcome.elapsed()), (FetchStatus::Deadline, Duration::from_secs(7)));
    assert_eq!(outcome.objects[1], Err(FetchError::Deadline));
}

#[test]
fn an_idle_session_is_closed_and_an_incomplete_request_aborted() {
    let network = Network::new(1);
    let host = network.host("both", &[[10, 0, 0, 1].into()]);
    let world = network.world(host);
    let meeting = Meeting::new(1, false);
    let site = Rc::new(PageSite::new(&page(1_000, &[])));
    let options = serve::Options {
        idle_timeout: Some(Duration::from_secs(30)),
        head_timeout: Some(Duration::from_secs(10)),
        ..serve::Options::default()
    };
    let server = serve::run(world.clone(), meeting.clone(), site, options, Recorder::new());
    let _server = world.spawn("server", server);
    let ends = network.run(
        async {
            let idle = anabranch_transport::Connector::connect(&meeting, 0).expect("a session");
            idle.established().await.expect("established");
            let idle_end = (idle.closed().await, world.now());
            let half = anabranch_transport::Connector::connect(&meeting, 0).expect("a session");
            let mut stream = half.open(0).expect("a stream");
            stream.write_all(b"GET / HT").await.expect("written");
            let half_end = (half.closed().await, world.now());
            (idle_end, half_end)
        },
        Instant::MAX,
    );
    let ((idle, at), (half, then)) = ends.expect_done();
    assert!(idle.is_graceful() && at == Instant::from_millis(30_000), "{idle} {at}");
    assert!(!half.is_graceful() && then == Instant::from_millis(40_000), "{half} {then}");
}

/// The first bytes of a request arrive with the previous request. The other bytes arrive after the stream has released
/// its buffers. No byte must be lost.
#[test]
fn a_request_that_has_begun_is_not_lost_with_the_buffers() {
    const REQUEST: &[u8] = b"GET / HTTP/1.1\r\nHost: a\r\n\r\n";
    let network = Network::new(1);
    let host = network.host("both", &[[10, 0, 0, 1].into()]);
    let world = network.world(host);
    let meeting = Meeting::new(1, false);
    let site = Rc::new(PageSite::new(&page(1_000, &[])));
    let options = serve::Options { buffers_kept: Some(0), ..serve::Options::default() };
    let server = serve::run(world.clone(), meeting.clone(), site, options, Recorder::new());
    let _server = world.spawn("server", server);
    let answers = network.run(
        async {
            let session = anabranch_transport::Connector::connect(&meeting, 0).expect("a session");
            let mut stream = session.open(0).expect("a stream");
            let mut answers = Vec::new();
            let mut next = REQUEST;
            for prefix in [8, 0, 30] {
                let prefix = prefix.min(REQUEST.len() - 1);
                stream.write_all(&[next, &REQUEST[..prefix]].concat()).await.expect("written");
                next = &REQUEST[prefix..];
                world.sleep_until(world.now() + Duration::from_secs(1)).await;
                let mut answer = [0; 4_000];
                let length = stream.read(&mut answer).await.expect("an answer");
                answers.push(String::from_utf8_lossy(&answer[..length]).into_owned());
            }
            answers
        },
        Instant::MAX,
    );
    let answers = answers.expect_done();
    assert!(answers[0].starts_with("HTTP/1.1 404 Not Found"), "{answers:?}");
    assert_eq!(answers, vec![answers[0].clone(); 3]);
}

/// Fetches from a server that answers every connection with the same bytes and closes it.
fn answered(answer: &'static [u8], streams: u64) -> Outcome {
    let network = Network::new(1);
    let host = network.host("both", &[[10, 0, 0, 1].into()]);
    let world = network.world(host);
    let meeting = Meeting::new(streams, false);
    let mut listener = meeting.clone();
    let _server = world.spawn("server", async move {
        let mut open_sessions = Vec::new();
        while let Ok(session) = listener.accept().await {
            let Ok(mut stream) = session.accept().await else { continue };
            let mut request = [0; 2000];
            let _ = stream.read(&mut request).await;
            let _ = stream.write_all(answer).await;
            stream.finish();
            open_sessions.push((session, stream));
        }
    });
    let policy = Policy { timeout: Some(Duration::from_secs(5)), ..Policy::default() };
    let fetch = fetch::run(world.clone(), meeting, page(5, &[]), policy, Recorder::new());
    network.run(fetch, Instant::MAX).expect_done()
}

#[test]
fn odd_answers_are_failures_not_panics() {
    let cases: [(&'static [u8], &str); 8] = [
        (b"HTTP/1.1 500 Oh\r\nContent-Length: 0\r\n\r\n", "status 500"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nwrong", "byte"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", "0 bytes instead of 5"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: x\r\n\r\nhello", "Content-Length"),
        (b"HTTP/1.1 200 OK\r\n\r\nhello", "neither"),
        (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 this is TLS", "head"),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 50\r\n\r\n", "ended"),
        (b"", "ended"),
    ];
    for (answer, expected) in cases {
        let outcome = answered(answer, 1);
        assert_eq!(outcome.end, FetchStatus::Failed);
        let error = outcome.objects[0].as_ref().expect_err("failed").to_string();
        assert!(error.contains(expected), "{error}");
    }
    let twice = b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\nHTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n";
    assert_eq!(answered(twice, 7).end, FetchStatus::Failed);
}

/// A browser must use a separate connection for requests without credentials. These are requests for fonts on another
/// host than the document's.
#[test]
fn fonts_of_another_host_have_their_own_connection() {
    let connections = |font_host: usize| {
        let mut page = Page::clone(&page(1_000, &[1_000, 1_000]));
        page.hosts.push("fonts.example".to_owned());
        page.coalesce = vec![0, 1];
        (page.objects[1].host, page.objects[1].content_type) = (1, "text/css".to_owned());
        (page.objects[2].host, page.objects[2].content_type) = (font_host, "font/woff2".to_owned());
        let policy = Policy { client: Client::Chromium, keep_origins: true, ..Policy::default() };
        let meeting = Meeting::new(10, false);
        let (outcome, _) = load(&meeting, &Rc::new(page), policy, serve::Options::default());
        assert_eq!(outcome.end, FetchStatus::Done);
        outcome.connections
    };
    assert_eq!((connections(0), connections(1)), (2, 3));
}

/// When the maximum number of sockets is open, the browser must close idle sockets, so that other hosts get a
/// connection.
#[test]
fn a_browser_closes_idle_sockets_at_its_limit() {
    let hosts = CHROMIUM.sockets + 20;
    let mut page = Page::clone(&page(1_000, &vec![1_000; hosts - 1]));
    page.hosts = (0..hosts).map(|host| format!("host-{host}")).collect();
    page.coalesce = (0..hosts).collect();
    page.objects.iter_mut().enumerate().for_each(|(index, object)| object.host = index);
    let policy = Policy { client: Client::Chromium, keep_origins: true, ..Policy::default() };
    let (outcome, _) = load(&Meeting::new(1, false), &Rc::new(page), policy, serve::Options::default());
    assert_eq!((outcome.end, outcome.connections), (FetchStatus::Done, hosts));
}

/// A browser must load every object of a page, however its requests are assigned to connections.
#[test]
fn a_browser_loads_a_page_under_every_policy() {
    let page = Rc::new(har::shipped::named("article").expect("a page"));
    for (name, meeting, policy) in policies() {
        let policy = Policy { client: Client::Chromium, ..policy };
        let (outcome, record) = load(&meeting, &page, policy, serve::Options::default());
        assert_eq!(outcome.end, FetchStatus::Done, "{name}");
        assert!(record.objects.iter().all(|object| object.delivered.is_some()), "{name}");
    }
}
