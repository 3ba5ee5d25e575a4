//! Tests responses that take longer to deliver than the server's idle timeout.

use crate::rig::page;
use crate::rig::sim::{Contestant, Rig, fetch_page, sctp_hosts, sctp_server, tcp_hosts, tcp_server};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_http::fetch::FetchStatus;
use anabranch_http::limits::ConcurrencyLimit;
use anabranch_http::mapping::Choices;
use anabranch_http::observe::Recorder;
use anabranch_http::serve::{self, PageSite};
use anabranch_transport::sctp::{LowerProtocol, SctpConnector};
use anabranch_transport::tcp::TcpConnector;
use anabranch_transport::{Connector, Session, Stream};
use anabranch_world::World;
use std::rc::Rc;

fn impatient() -> serve::Options {
    serve::Options {
        idle_timeout: Some(Duration::from_secs(3)),
        head_timeout: Some(Duration::from_secs(10)),
        ..serve::Options::default()
    }
}

/// The send buffer accepts the whole response at once, and the link needs 24 s for it. The server must not close the
/// session as idle.
#[test]
fn an_answer_that_is_under_way_is_not_idle() {
    let page = page(3_000_000, &[]);
    for contestant in
        [Contestant::Tcp("modern", Choices::default()), Contestant::Sctp("modern", 10, Choices::default())]
    {
        let rig = Rig::new(&["rate=1mbit,rtt=40ms"], 1);
        let policy = contestant.policy();
        let run = async {
            match &contestant {
                Contestant::Tcp(profile, _) => {
                    let (client, server) = tcp_hosts(&rig, profile).await;
                    let listener = server.listen(80, 0).expect("listening");
                    let connector = TcpConnector::new(client, vec![tcp_server(&rig)]);
                    fetch_page(&rig, connector, listener, &page, policy, impatient()).await
                }
                Contestant::Sctp(profile, streams, _) => {
                    let (client, server) = sctp_hosts(&rig, profile, *streams, LowerProtocol::Ip).await;
                    let listener = server.listen(80).expect("listening");
                    let connector = SctpConnector::new(client, vec![sctp_server(&rig, LowerProtocol::Ip)]);
                    fetch_page(&rig, connector, listener, &page, policy, impatient()).await
                }
            }
        };
        let (outcome, _) = rig.network.run(run, Instant::MAX).expect_done();
        assert_eq!(outcome.end, FetchStatus::Done, "{contestant:?}: {outcome:?}");
        assert!(outcome.elapsed() > Duration::from_secs(24), "{contestant:?}");
    }
}

/// A client that reads almost nothing still acknowledges the zero-window probes (RFC 9260 §6.1 A). Each probe is one
/// segment. These acknowledgements must not count as progress: the client must lose its slot as early as a client that
/// reads nothing.
#[test]
fn acknowledged_probes_of_a_closed_window_keep_no_slot() {
    let mut expected = None;
    for (size, pause) in [(200, 3600), (200, 1), (600, 1), (800, 1)] {
        let pause = Duration::from_secs(pause);
        let rig = Rig::new(&["rate=100mbit,rtt=10ms"], 1);
        let page = page(100_000_000, &[]);
        let run = async {
            let (client, server) = sctp_hosts(&rig, "modern", 10, LowerProtocol::Ip).await;
            let listener = server.listen(80).expect("listening");
            let options =
                serve::Options { sessions: Some(ConcurrencyLimit::new(1)), ..serve::Options::default() };
            let site = Rc::new(PageSite::new(&page));
            let _server = rig.server.spawn(
                "server",
                serve::run(rig.server.clone(), listener, site, options, Recorder::default()),
            );
            let connector = SctpConnector::new(client, vec![sctp_server(&rig, LowerProtocol::Ip)]);
            let world = rig.client.clone();
            let send_request = async |connector: &SctpConnector<_>| {
                let session = connector.connect(0).expect("begun");
                let mut stream = session.open(0).expect("a stream");
                stream.write_all(b"GET /object-1 HTTP/1.1\r\nHost: a\r\n\r\n").await.ok()?;
                let mut answer = [0; 12];
                matches!(stream.read(&mut answer).await, Ok(12)).then_some(())?;
                assert_eq!(&answer, b"HTTP/1.1 200");
                Some(stream)
            };
            let mut slow = send_request(&connector).await.expect("an answer");
            let began = world.now();
            let _reader = world.spawn("slow reader", {
                let world = world.clone();
                async move {
                    while matches!(slow.read(&mut vec![0; size]).await, Ok(1..)) {
                        world.sleep_until(world.now() + pause).await;
                    }
                }
            });
            loop {
                world.sleep_until(world.now() + Duration::from_millis(500)).await;
                if send_request(&connector).await.is_some() {
                    return world.now() - began;
                }
            }
        };
        let waited = rig.network.run(run, Instant::MAX).expect_done();
        assert!(waited < Duration::from_secs(9), "{size} bytes every {pause:?}: {waited:?}");
        assert_eq!(waited, *expected.get_or_insert(waited), "{size} bytes every {pause:?}");
    }
}
