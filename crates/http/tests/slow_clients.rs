//! Answers that are on their way for longer than a server waits for idle sessions.

use crate::rig::page;
use crate::rig::sim::{Contestant, Rig, fetch_page, sctp_hosts, sctp_server, tcp_hosts, tcp_server};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_http::fetch::End;
use anabranch_http::mapping::Choices;
use anabranch_http::serve;
use anabranch_transport::sctp::{Carrier, SctpConnector};
use anabranch_transport::tcp::TcpConnector;

fn impatient() -> serve::Options {
    serve::Options {
        idle_timeout: Some(Duration::from_secs(3)),
        head_timeout: Some(Duration::from_secs(10)),
        ..serve::Options::default()
    }
}

/// The send buffer takes the whole answer at once; the link takes 24 s for it.
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
                    let (client, server) = sctp_hosts(&rig, profile, *streams, Carrier::Ip).await;
                    let listener = server.listen(80).expect("listening");
                    let connector = SctpConnector::new(client, vec![sctp_server(&rig, Carrier::Ip)]);
                    fetch_page(&rig, connector, listener, &page, policy, impatient()).await
                }
            }
        };
        let (outcome, _) = rig.network.run(run, Instant::MAX).expect_done();
        assert_eq!(outcome.end, End::Done, "{contestant:?}: {outcome:?}");
        assert!(outcome.elapsed() > Duration::from_secs(24), "{contestant:?}");
    }
}
