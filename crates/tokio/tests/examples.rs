//! Runs the unmodified examples in this process. Each example must do what its first lines say, and must end in time.
#![cfg(target_os = "linux")]

#[path = "../examples/chat.rs"]
#[expect(dead_code, reason = "a test has no use for the example's main")]
mod chat;
#[path = "../examples/echo.rs"]
#[expect(dead_code, reason = "a test has no use for the example's main")]
mod echo;
#[path = "../examples/multihoming.rs"]
#[expect(dead_code, reason = "a test has no use for the example's main")]
mod multihoming;

use anabranch_tokio::PathState;
use std::time::Duration;
use tokio::time::timeout;

/// The time limit of a wait. Only a run that hangs exceeds it.
const LONG: Duration = Duration::from_secs(60);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_sent_comes_back_on_its_stream() {
    let server = echo::listen("127.0.0.1:0".parse().expect("an address")).await.expect("an endpoint");
    let at = server.local_addresses()[0];
    tokio::spawn(echo::serve(server));
    let back = timeout(LONG, echo::ask(at, &["one", "two", "three"])).await.expect("in time");
    assert_eq!(back.expect("an answer"), ["stream 0: one", "stream 1: two", "stream 2: three"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everybody_in_the_room_hears_the_others() {
    let heard = timeout(LONG, chat::on_loopback()).await.expect("in time").expect("no error");
    let expected =
        ["Bob has come", "Bob: hello", "Bob has gone", "Cid has come", "Cid: hello", "Cid has gone"];
    assert_eq!(heard, expected);
}

/// The multihoming example checks its own messages. This test checks the states of the two paths that the example
/// returns.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_association_has_two_paths() {
    let paths = timeout(LONG, multihoming::on_loopback()).await.expect("in time").expect("no error");
    let states: Vec<_> = paths.iter().map(|path| path.state).collect();
    assert_eq!(states, [PathState::Active, PathState::Active]);
}
