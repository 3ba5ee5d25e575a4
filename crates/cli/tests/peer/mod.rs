//! A peer of a program under test: a world with our SCTP, so that a test says what goes on each stream and when.

#![cfg(target_os = "linux")]

use crate::running::Running;
use anabranch_transport::sctp::Config;
use anabranch_transport::sctp::{Carrier, SctpConnector, SctpHost, SctpServer, SctpSession};
use anabranch_transport::{Connector, Session};
use anabranch_world::os::{self, OsWorld};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Runs a peer in a world of its own, at 127.0.0.1; one that waits for ever fails.
pub fn in_a_world<T>(program: impl AsyncFnOnce(OsWorld) -> T) -> T {
    let options = os::Options {
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        seed: None,
        ..os::Options::default()
    };
    os::run(options, program).expect("a world")
}

/// A host whose associations ask for so many streams.
pub async fn host(world: &OsWorld, streams: u16) -> SctpHost<OsWorld> {
    let mut config = Config::default();
    (config.streams, config.reconfig) = (streams, true);
    SctpHost::new(world.clone(), config, Carrier::Udp { port: 0 }, None).await.expect("a host")
}

/// An association with what listens at the `http+sctp` address of `target`.
pub async fn associate(host: &SctpHost<OsWorld>, target: &Running) -> SctpSession<OsWorld> {
    let url = target.url("http+sctp").trim_start_matches("http+sctp://").trim_end_matches('/');
    let address: SocketAddr = url.parse().expect("an address");
    let connector = SctpConnector::new(host.clone(), vec![SctpServer { addresses: vec![address], port: 80 }]);
    let session = connector.connect(0).expect("begun");
    session.established().await.expect("established");
    session
}
