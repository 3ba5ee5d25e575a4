//! Our SCTP as the peer of a program under test. The test decides what is sent on each stream and when.

#![cfg(target_os = "linux")]

use crate::running::{LONG, Running};
use anabranch_transport::sctp::Config;
use anabranch_transport::sctp::{LowerProtocol, SctpConnector, SctpHost, SctpServer, SctpSession};
use anabranch_transport::{Connector, Session};
use anabranch_world::World;
use anabranch_world::os::{self, OsWorld};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::thread::JoinHandle;
use std::time::Duration;

/// Runs a peer in its own `OsWorld` at 127.0.0.1.
pub fn in_a_world<T>(program: impl AsyncFnOnce(OsWorld) -> T) -> T {
    let options = os::Options {
        addresses: vec![IpAddr::V4(Ipv4Addr::LOCALHOST)],
        seed: None,
        ..os::Options::default()
    };
    os::run(options, program).expect("a world")
}

/// Waits until `value` is the same in 50 consecutive checks, while the world continues to run.
pub async fn steady<T: PartialEq>(world: &OsWorld, mut value: impl FnMut() -> T) {
    let (began, mut last, mut same) = (world.now(), value(), 0);
    while same < 50 {
        assert!(world.now() < began + LONG, "it comes to no rest");
        pace(world, Duration::from_millis(10)).await;
        let now = value();
        same = if now == last { same + 1 } else { 0 };
        last = now;
    }
}

/// Waits for a thread and returns its result, while the world continues to run.
pub async fn meanwhile<T>(world: &OsWorld, thread: JoinHandle<T>) -> T {
    while !thread.is_finished() {
        pace(world, Duration::from_millis(5)).await;
    }
    thread.join().expect("it holds")
}

/// Sleeps between two checks of a condition, or between two steps of a deliberately slow peer, while the world
/// continues to run.
pub async fn pace(world: &OsWorld, time: Duration) {
    world.sleep_until(world.now() + time).await;
}

/// Returns a host whose associations request this number of streams.
pub async fn host(world: &OsWorld, streams: u16) -> SctpHost<OsWorld> {
    let mut config = Config::default();
    (config.num_ostreams, config.reconfig) = (streams, true);
    SctpHost::new(world.clone(), config, LowerProtocol::Udp { port: 0 }, None).await.expect("a host")
}

/// Opens an association with the listener at the `http+sctp` URL of `target`.
pub async fn associate(host: &SctpHost<OsWorld>, target: &Running) -> SctpSession<OsWorld> {
    let url = target.url("http+sctp").trim_start_matches("http+sctp://").trim_end_matches('/');
    let address: SocketAddr = url.parse().expect("an address");
    let connector = SctpConnector::new(host.clone(), vec![SctpServer { addresses: vec![address], port: 80 }]);
    let session = connector.connect(0).expect("begun");
    session.established().await.expect("established");
    session
}
