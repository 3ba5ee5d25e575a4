//! Each call that can wait is dropped while it waits. The dropped call must have no effect, and a later call must
//! succeed.
#![cfg(target_os = "linux")]

use crate::ends::{EndpointPair, LONG, once, soon};
use anabranch_tokio::{Event, OpenError, RecvError, SendError, SendOptions};
use std::future::Future;
use std::pin::pin;
use std::task::{Context, Waker};
use tokio::time::timeout;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_connect_that_is_dropped_leaves_no_association() {
    let ends = EndpointPair::alone().await;
    for _ in 0..50 {
        assert!(once(ends.client.connect(ends.server.local_addresses(), 80)).await.is_none());
    }
    soon(|| ends.client.associations() == 0).await;
    timeout(LONG, ends.client.wait_idle()).await.expect("in time");
    // Some dropped attempts have possibly reached the server, which still lists their associations for `accept`. These
    // associations have ended, so `Incoming::accept` may succeed or fail.
    let server = ends.server.clone();
    let accepting = tokio::spawn(async move {
        let mut accepted = Vec::new();
        while let Some(incoming) = server.accept().await {
            accepted.extend(incoming.accept());
        }
    });
    let ours = timeout(LONG, ends.client.connect(ends.server.local_addresses(), 80)).await.expect("in time");
    assert_eq!(ends.client.associations(), 1);
    drop(ours.expect("associated"));
    accepting.abort();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_accept_that_is_dropped_has_taken_none() {
    let ends = EndpointPair::alone().await;
    let client = ends.client.clone();
    let at = ends.server.local_addresses().to_vec();
    let connecting = tokio::spawn(async move {
        let mut all = Vec::new();
        for _ in 0..20 {
            all.push(client.connect(&at, 80).await.expect("associated"));
        }
        all
    });
    let mut accepted = Vec::new();
    while accepted.len() < 20 {
        match once(ends.server.accept()).await {
            Some(incoming) => accepted.push(incoming.expect("listening").accept().expect("in time")),
            None => tokio::task::yield_now().await,
        }
    }
    assert_eq!(timeout(LONG, connecting).await.expect("in time").expect("no panic").len(), 20);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_send_that_is_dropped_has_sent_nothing_and_lets_others_pass() {
    let (_ends, ours, theirs) = EndpointPair::up(&[("sndbuf", "20000B"), ("rcvbuf", "20000B")]).await;
    let options = SendOptions::new();
    let mut taken = Vec::new();
    // Messages are sent until the sender's and the receiver's buffers are full, that is, until 50 attempts in a row do
    // not complete.
    let mut turn = 0_u32;
    let mut refused = 0;
    soon(|| {
        let sending = pin!(ours.send(0, [&turn.to_be_bytes()[..], &[7; 5_000]].concat(), &options));
        if sending.poll(&mut Context::from_waker(Waker::noop())).is_ready() {
            taken.push(turn);
            (turn, refused) = (turn + 1, 0);
        } else {
            // The future of `send` is dropped before it has sent its message. The message number `turn` is therefore
            // unused, and the next call uses it.
            refused += 1;
        }
        refused == 50
    })
    .await;
    assert_eq!(ours.try_send(0, [7; 5_000], &options), Err(SendError::Full));
    // One `send` waits for room. Its message must arrive after all messages that were sent before it.
    let waiting = tokio::spawn({
        let ours = ours.clone();
        async move { ours.send(0, [8; 5_000], &SendOptions::new()).await }
    });
    for turn in taken {
        let message = timeout(LONG, theirs.recv()).await.expect("in time").expect("a message");
        assert_eq!((&message.bytes[..4], message.bytes.len()), (&turn.to_be_bytes()[..], 5_004));
    }
    timeout(LONG, waiting).await.expect("in time").expect("no panic").expect("sent");
    assert_eq!(
        timeout(LONG, theirs.recv()).await.expect("in time").expect("a message").bytes[..],
        [8; 5_000]
    );
    assert_eq!(theirs.try_recv(), Ok(None), "nothing that was dropped");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_recv_that_is_dropped_has_lost_nothing() {
    let (_ends, ours, theirs) = EndpointPair::up(&[]).await;
    for turn in 0..200_u32 {
        assert!(once(theirs.recv()).await.is_none(), "nothing was sent");
        ours.send(turn as u16 % 5, turn.to_be_bytes(), &SendOptions::new()).await.expect("sent");
        let message = loop {
            match once(theirs.recv()).await {
                Some(message) => break message.expect("a message"),
                None => tokio::task::yield_now().await,
            }
        };
        assert_eq!((message.stream, &message.bytes[..]), (turn as u16 % 5, &turn.to_be_bytes()[..]));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn dropped_futures_lose_neither_events_nor_the_close_reason() {
    let (ends, ours, theirs) = EndpointPair::up(&[]).await;
    let mut events = ours.events();
    for _ in 0..100 {
        assert!(once(events.next()).await.is_none(), "nothing has happened");
        assert!(once(ours.closed()).await.is_none(), "it is up");
        assert!(once(ends.client.wait_idle()).await.is_none(), "it is up");
        assert!(once(ours.accept_bi()).await.is_none(), "nothing was sent");
    }
    theirs.abort_with_reason("enough");
    timeout(LONG, ours.closed()).await.expect("in time");
    timeout(LONG, ends.client.wait_idle()).await.expect("in time");
    let mut received = Vec::new();
    while let Some(event) = timeout(LONG, events.next()).await.expect("in time") {
        received.push(event);
    }
    assert_eq!(received.first(), Some(&Event::AbortReason((*b"enough").into())));
    assert!(matches!(received[..], [_, Event::Closed(_)]), "{received:?}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_buffered_amount_falls_to_its_threshold() {
    let (_ends, ours, theirs) = EndpointPair::up(&[("rcvbuf", "20000B")]).await;
    let (mut send, _recv) = ours.open_bi().expect("a stream");
    assert_eq!(send.buffered_amount(), 0);
    timeout(LONG, send.buffered_amount_low()).await.expect("at once").expect("it is up");
    // The peer does not read. First its receive buffer fills, and then this side's send buffer.
    let mut sent = 0;
    soon(|| {
        while send.buffered_amount() <= 10_000 && ours.try_send(0, [7; 1_000], &SendOptions::new()).is_ok() {
            sent += 1;
        }
        send.buffered_amount() > 10_000
    })
    .await;
    send.set_buffered_amount_low_threshold(5_000);
    for _ in 0..20 {
        assert!(once(send.buffered_amount_low()).await.is_none(), "nobody reads");
    }
    let reading = tokio::spawn(async move {
        for _ in 0..sent {
            theirs.recv().await.expect("a message");
        }
        theirs
    });
    timeout(LONG, send.buffered_amount_low()).await.expect("in time").expect("it is up");
    assert!(send.buffered_amount() <= 5_000);
    let theirs = timeout(LONG, reading).await.expect("in time").expect("no panic");
    theirs.abort();
    send.set_buffered_amount_low_threshold(0);
    timeout(LONG, ours.closed()).await.expect("in time");
    let end = timeout(LONG, send.buffered_amount_low()).await.expect("in time");
    assert!(matches!(end, Err(SendError::Closed(_))), "{end:?}");
}

/// After the association has ended, every sending and receiving call returns the reason for the end.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_the_end_all_calls_return_the_reason() {
    let (_ends, ours, theirs) = EndpointPair::up(&[]).await;
    let (mut send, mut recv) = ours.open_bi().expect("a stream");
    theirs.send(3, "the last", &SendOptions::new()).await.expect("sent");
    theirs.close();
    let end = timeout(LONG, ours.closed()).await.expect("in time");
    assert!(end.is_graceful());
    assert_eq!(ours.close_reason(), Some(end.clone()));
    let options = SendOptions::new();
    assert_eq!(ours.send(0, "late", &options).await, Err(SendError::Closed(end.clone())));
    assert_eq!(ours.try_send(0, "late", &options), Err(SendError::Closed(end.clone())));
    assert_eq!(send.send("late").await, Err(SendError::Closed(end.clone())));
    assert_eq!(recv.recv().await, Err(RecvError::Closed(end.clone())));
    // Data that arrived before the end can still be read.
    assert_eq!(ours.recv().await.expect("a message").bytes, "the last");
    assert_eq!(ours.recv().await, Err(RecvError::Closed(end.clone())));
    assert_eq!(ours.try_recv(), Err(RecvError::Closed(end.clone())));
    assert_eq!(ours.open_bi().err(), Some(OpenError::Closed(end.clone())));
    assert_eq!(ours.accept_bi().await.err(), Some(end));
}
