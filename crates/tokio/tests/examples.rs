//! The examples do what their first lines say. Each runs here as it is, in this process, and has to end in time.
#![cfg(target_os = "linux")]

#[path = "../examples/echo_client.rs"]
#[expect(dead_code, reason = "a test has no use for the example's main")]
mod echo_client;
#[path = "../examples/echo_server.rs"]
#[expect(dead_code, reason = "a test has no use for the example's main")]
mod echo_server;
#[path = "../examples/multihoming.rs"]
#[expect(dead_code, reason = "a test has no use for the example's main")]
mod multihoming;

use anabranch_tokio::PathState;
use std::time::Duration;
use tokio::time::timeout;

/// Generous: only a hang exceeds it.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_comes_back_on_its_stream() {
    let server = echo_server::listen("127.0.0.1".parse().expect("an address"), 0).await.expect("an endpoint");
    let at = server.local_addresses().to_vec();
    tokio::spawn(echo_server::serve(server));
    let back = timeout(LONG, echo_client::ask(&at, &["one", "two", "three"])).await.expect("in time");
    assert_eq!(back.expect("an answer"), ["stream 0: one", "stream 1: two", "stream 2: three"]);
}

/// The example itself checks the messages.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_association_has_two_paths() {
    let paths = timeout(LONG, multihoming::on_loopback()).await.expect("in time").expect("no error");
    let states: Vec<_> = paths.iter().map(|path| path.state).collect();
    assert_eq!(states, [PathState::Active, PathState::Active]);
}
