//! Tests of bulk transfers without HTTP, over SCTP and over TCP in virtual networks.

use crate::rig::sim::{Rig, sctp_hosts, sctp_server, tcp_hosts, tcp_server};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_http::fetch::FetchStatus;
use anabranch_load::bulk;
use anabranch_transport::sctp::{LowerProtocol, SctpConnector};
use anabranch_transport::tcp::TcpConnector;

#[test]
fn bulk_moves_every_byte_at_the_rate_of_the_link() {
    for (loss, message_size) in [("0", 2_048), ("1%", 8_192), ("0", 100_000)] {
        let link = format!("rate=20mbit,rtt=20ms,loss={loss}");
        let transfer = bulk::Bulk {
            bytes: 5_000_000,
            message_size,
            connections: 1,
            deadline: Some(Duration::from_secs(600)),
            timeout: Some(Duration::from_secs(15)),
        };
        let rig = Rig::new(&[&link], 1);
        let over_tcp = async {
            let (client, server) = tcp_hosts(&rig, "modern").await;
            let connector = TcpConnector::new(client, vec![tcp_server(&rig)]);
            let listener = server.listen(80, 0).expect("listening");
            let serving =
                bulk::serve(rig.server.clone(), listener, anabranch_http::observe::Recorder::default());
            let _server = anabranch_world::World::spawn(&rig.server, "server", serving);
            let recorder = anabranch_http::observe::Recorder::new();
            bulk::run(rig.client.clone(), connector, transfer.clone(), recorder).await
        };
        let tcp = rig.network.run(over_tcp, Instant::MAX).expect_done();
        let rig = Rig::new(&[&link], 1);
        let over_sctp = async {
            let (client, server) = sctp_hosts(&rig, "rfc9260", 10, LowerProtocol::Ip).await;
            let connector = SctpConnector::new(client, vec![sctp_server(&rig, LowerProtocol::Ip)]);
            let listener = server.listen(80).expect("listening");
            let serving =
                bulk::serve(rig.server.clone(), listener, anabranch_http::observe::Recorder::default());
            let _server = anabranch_world::World::spawn(&rig.server, "server", serving);
            let recorder = anabranch_http::observe::Recorder::new();
            bulk::run(rig.client.clone(), connector, transfer.clone(), recorder).await
        };
        let sctp = rig.network.run(over_sctp, Instant::MAX).expect_done();
        for (name, outcome) in [("tcp", tcp), ("sctp", sctp)] {
            assert_eq!(
                (outcome.end, outcome.body_bytes),
                (FetchStatus::Done, 5_000_000),
                "{name} {loss} {outcome:?}"
            );
            // The transfer of 5 MB takes two seconds at the rate of the link.
            let most = if loss == "0" { 5 } else { 60 };
            assert!(outcome.elapsed() > Duration::from_secs(2), "{name} {:?}", outcome.elapsed());
            assert!(outcome.elapsed() < Duration::from_secs(most), "{name} {:?}", outcome.elapsed());
        }
    }
}
