//! Tests what a program sees of a failing network and of a restarting peer. A relay on loopback forwards packets, or
//! drops them on request.
#![cfg(target_os = "linux")]

use crate::control::wait_for_event;
use crate::ends::{EndpointPair, LONG, addresses, options, soon};
use anabranch_tokio::{CloseReason, ConnectOptions, Endpoint, Event, SendOptions};
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use tokio::net::UdpSocket;
use tokio::time::timeout;

/// Forwards packets between a server and a client. The client sends its packets to `address`.
struct Relay {
    address: SocketAddr,
    cut: Arc<AtomicBool>,
    /// The number of packets from the client that the relay has dropped.
    dropped: Arc<AtomicU32>,
    task: tokio::task::JoinHandle<()>,
}

impl Relay {
    async fn to(server: SocketAddr) -> Self {
        let near = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let far = UdpSocket::bind("127.0.0.1:0").await.expect("a port");
        let address = near.local_addr().expect("bound");
        let cut = Arc::new(AtomicBool::new(false));
        let dropped = Arc::new(AtomicU32::new(0));
        let (is_cut, drops) = (cut.clone(), dropped.clone());
        let task = tokio::spawn(async move {
            let (mut up, mut down) = ([0; 65_536], [0; 65_536]);
            let mut client = None;
            loop {
                let sent = tokio::select! {
                    come = near.recv_from(&mut up) => {
                        let (length, from) = come.expect("a datagram");
                        client = Some(from);
                        if is_cut.load(Ordering::Relaxed) {
                            drops.fetch_add(1, Ordering::Relaxed);
                            continue;
                        }
                        far.send_to(&up[..length], server).await
                    }
                    come = far.recv_from(&mut down) => {
                        let (length, _) = come.expect("a datagram");
                        let Some(client) = client.filter(|_| !is_cut.load(Ordering::Relaxed)) else { continue };
                        near.send_to(&down[..length], client).await
                    }
                };
                // The result of sending is ignored, because the receiver may no longer exist.
                drop(sent);
            }
        });
        Self { address, cut, dropped, task }
    }

    fn cut(&self, cut: bool) {
        self.cut.store(cut, Ordering::Relaxed);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.task.abort();
    }
}

/// Settings with which a path failure is detected within tenths of a second, while the association survives many
/// failures.
const IMPATIENT: [(&str, &str); 7] = [
    ("init_max_retrans", "100"),
    ("rto_initial", "50ms"),
    ("rto_min", "50ms"),
    ("rto_max", "100ms"),
    ("hb_interval", "20ms"),
    ("path_max_retrans", "2"),
    ("assoc_max_retrans", "200"),
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_path_that_fails_and_comes_back_is_told_of_step_by_step() {
    let ends =
        EndpointPair::with(options(&addresses(1), &[&IMPATIENT[..], &[("pf_max_retrans", "0")]].concat()))
            .await;
    let relay = Relay::to(ends.server.local_addresses()[0]).await;
    let accepting = async { ends.server.accept().await.expect("somebody").accept() };
    let at = [relay.address];
    let both = async { tokio::join!(ends.client.connect(&at, 80), accepting) };
    let (ours, theirs) = timeout(LONG, both).await.expect("in time");
    let (ours, theirs) = (ours.expect("associated"), theirs.expect("associated"));
    let (mut events, path) = (ours.events(), relay.address.ip());
    relay.cut(true);
    wait_for_event(&mut events, Event::PathPotentiallyFailed(path)).await;
    wait_for_event(&mut events, Event::PathDown(path)).await;
    let paths = ours.info().expect("it outlives that").paths;
    assert!(paths.iter().all(|path| path.errors > 2), "{paths:?}");
    relay.cut(false);
    wait_for_event(&mut events, Event::PathUp(path)).await;
    ours.send(0, "again", &SendOptions::new()).await.expect("sent");
    assert_eq!(timeout(LONG, theirs.recv()).await.expect("in time").expect("a message").bytes, "again");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_peer_that_does_not_come_back_ends_the_association() {
    let settings = [&IMPATIENT[..6], &[("assoc_max_retrans", "4"), ("assoc_silence", "100ms")]].concat();
    let ends = EndpointPair::with(options(&addresses(1), &settings)).await;
    let relay = Relay::to(ends.server.local_addresses()[0]).await;
    let accepting = async { ends.server.accept().await.expect("somebody").accept() };
    let at = [relay.address];
    let (ours, theirs) = tokio::join!(ends.client.connect(&at, 80), accepting);
    let (ours, _theirs) = (ours.expect("associated"), theirs.expect("associated"));
    relay.cut(true);
    let reason = timeout(LONG, ours.closed()).await.expect("in time");
    assert!(!matches!(reason, CloseReason::Finished), "{reason:?}");
    wait_for_event(&mut ours.events(), Event::Closed(reason)).await;
}

/// RFC 9260 §5.2.4 A: the client restarts without its state. Its new association replaces the old one, and the sequence
/// numbers of streams start again at 0.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_restart_of_the_peer_is_told_of_and_streams_begin_anew() {
    let settings = [("assoc_max_retrans", "200")];
    let server = Endpoint::new(options(&addresses(1), &settings).listen(80)).await.expect("an endpoint");
    let relay = Relay::to(server.local_addresses()[0]).await;
    let at = [relay.address];
    let before = Endpoint::new(options(&addresses(1), &settings)).await.expect("an endpoint");
    let (ours, theirs) =
        tokio::join!(before.connect_with(&at, 80, ConnectOptions::default().local_port(5_000)), async {
            server.accept().await.expect("somebody").accept()
        },);
    let (ours, theirs) = (ours.expect("associated"), theirs.expect("associated"));
    ours.send(3, "before", &SendOptions::new()).await.expect("sent");
    let message = timeout(LONG, theirs.recv()).await.expect("in time").expect("a message");
    assert_eq!((message.ssn, &message.bytes[..]), (0, &b"before"[..]));
    // The relay drops the client's packets, so the server does not learn that the old association has ended.
    relay.cut(true);
    ours.abort();
    soon(|| relay.dropped.load(Ordering::Relaxed) > 0).await;
    drop((ours, before));
    relay.cut(false);
    let after = Endpoint::new(options(&addresses(1), &settings)).await.expect("an endpoint");
    let again = after.connect_with(&at, 80, ConnectOptions::default().local_port(5_000));
    let ours = timeout(LONG, again).await.expect("in time").expect("associated again");
    wait_for_event(&mut theirs.events(), Event::Restarted).await;
    ours.send(3, "after", &SendOptions::new()).await.expect("sent");
    let message = timeout(LONG, theirs.recv()).await.expect("in time").expect("a message");
    assert_eq!((message.ssn, &message.bytes[..]), (0, &b"after"[..]), "streams begin anew");
}
