//! Endpoints on loopback, used by several threads: bytes and messages, back-pressure, dropped handles, and the ends of
//! associations.
#![cfg(target_os = "linux")]

use anabranch_tokio::{
    Association, CloseReason, ConnectError, Endpoint, OpenError, Options, RecvError, SendError,
};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// The time limit of a wait. Only a test that hangs exceeds it.
const LONG: Duration = Duration::from_secs(60);

async fn endpoint(listen: Option<u16>) -> Endpoint {
    let mut options = Options::default().address("127.0.0.1".parse().expect("an address"));
    options.listen = listen;
    Endpoint::new(options).await.expect("an endpoint")
}

async fn associated() -> (Endpoint, Association, Association) {
    let server = endpoint(Some(80)).await;
    let client = endpoint(None).await;
    let theirs = async { server.accept().await.expect("somebody").accept().expect("an association") };
    let both = async { tokio::join!(client.connect(server.local_addresses(), 80), theirs) };
    let (ours, theirs) = timeout(LONG, both).await.expect("in time");
    (server, ours.expect("established"), theirs)
}

fn pattern(length: usize, seed: u8) -> Vec<u8> {
    (0..length).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bytes_come_back_on_many_streams_at_once() {
    let (_server, ours, theirs) = associated().await;
    tokio::spawn(async move {
        while let Ok((mut send, mut recv)) = theirs.accept_bi().await {
            tokio::spawn(async move { tokio::io::copy(&mut recv, &mut send).await });
        }
    });
    let mut tasks = Vec::new();
    for seed in 0..8 {
        let (mut send, mut recv) = ours.open_bi().expect("a stream");
        assert_eq!(send.number(), u16::from(seed));
        tasks.push(tokio::spawn(async move {
            let bytes = pattern(1 << 20, seed);
            let sent = bytes.clone();
            let writer = tokio::spawn(async move {
                send.write_all(&sent).await.expect("written");
                send
            });
            let mut back = vec![0; bytes.len()];
            timeout(LONG, recv.read_exact(&mut back)).await.expect("in time").expect("all of it");
            assert!(back == bytes, "stream {seed}");
            drop(writer.await.expect("no panic"));
        }));
    }
    for task in tasks {
        task.await.expect("no panic");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn messages_keep_their_boundaries() {
    let (_server, ours, theirs) = associated().await;
    let (mut send, _recv) = ours.open_number(7).expect("stream 7");
    assert_eq!(ours.open_number(7).err(), Some(OpenError::AlreadyOpen(7)));
    let sizes = [1, 10, 1452, 1453, 70_000, 300_000, 2];
    for (i, size) in sizes.into_iter().enumerate() {
        send.send(pattern(size, i as u8)).await.expect("sent");
    }
    assert_eq!(send.send("").await, Err(SendError::Empty));
    let (_send, mut recv) = timeout(LONG, theirs.accept_bi()).await.expect("in time").expect("a stream");
    assert_eq!(recv.number(), 7);
    for (i, size) in sizes.into_iter().enumerate() {
        let message = timeout(LONG, recv.recv()).await.expect("in time").expect("no end");
        assert!(message.bytes == pattern(size, i as u8), "message {i}");
    }
    ours.close();
    assert_eq!(timeout(LONG, theirs.closed()).await.expect("in time"), CloseReason::Finished);
    let end = timeout(LONG, recv.recv()).await.expect("in time");
    assert_eq!(end, Err(RecvError::Closed(CloseReason::Finished)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_reader_who_does_not_read_holds_up_his_writer() {
    let (_server, ours, theirs) = associated().await;
    let (mut send, _recv) = ours.open_bi().expect("a stream");
    let block = pattern(1 << 20, 3);
    let mut written = 0_u64;
    // The reader does not read. The writer fills the buffers of both ends within two seconds, and then has to wait.
    let stuck = timeout(Duration::from_secs(2), async {
        loop {
            send.write_all(&block).await.expect("written");
            written += block.len() as u64;
        }
    });
    assert!(stuck.await.is_err());
    assert!(written < 64 << 20, "{written} bytes were taken");
    // When the reader starts to read, the first block arrives intact.
    let (_send, mut recv) = timeout(LONG, theirs.accept_bi()).await.expect("in time").expect("a stream");
    let mut first = vec![0; block.len()];
    timeout(LONG, recv.read_exact(&mut first)).await.expect("in time").expect("a block");
    assert!(first == block);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_handles_close_gracefully() {
    let (server, ours, theirs) = associated().await;
    let (mut send, recv) = ours.open_bi().expect("a stream");
    send.write_all(b"the last words").await.expect("written");
    drop((send, recv, ours));
    let (their_send, mut recv) = timeout(LONG, theirs.accept_bi()).await.expect("in time").expect("a stream");
    let mut text = String::new();
    timeout(LONG, recv.read_to_string(&mut text)).await.expect("in time").expect("an end in good order");
    assert_eq!(text, "the last words");
    assert_eq!(timeout(LONG, theirs.closed()).await.expect("in time"), CloseReason::Finished);
    drop((their_send, recv, theirs));
    timeout(LONG, server.wait_idle()).await.expect("in time");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_abort_ends_every_wait() {
    let (_server, ours, theirs) = associated().await;
    let (mut send, mut recv) = ours.open_bi().expect("a stream");
    send.write_all(b"x").await.expect("written");
    let (_s, _r) = timeout(LONG, theirs.accept_bi()).await.expect("in time").expect("a stream");
    theirs.abort();
    let reason = timeout(LONG, ours.closed()).await.expect("in time");
    assert!(matches!(reason, CloseReason::Reset(_)), "{reason:?}");
    let mut byte = [0];
    let read = timeout(LONG, recv.read(&mut byte)).await.expect("in time");
    assert_eq!(read.expect_err("an end").kind(), std::io::ErrorKind::ConnectionReset);
    let accepted = timeout(LONG, ours.accept_bi()).await.expect("in time");
    assert!(matches!(accepted, Err(CloseReason::Reset(_))), "{accepted:?}");
    assert!(ours.open_bi().is_err());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connect_failures_are_reported() {
    let server = endpoint(None).await;
    let client = endpoint(None).await;
    let refused = timeout(LONG, client.connect(server.local_addresses(), 80)).await.expect("in time");
    assert_eq!(refused.err(), Some(ConnectError::Failed(CloseReason::Refused)));
    let nowhere = timeout(LONG, client.connect(&[], 80)).await.expect("in time");
    assert!(matches!(nowhere, Err(ConnectError::NotStarted(_))), "{nowhere:?}");
}
