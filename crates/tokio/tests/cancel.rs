//! Futures are dropped at any await, as `select!` does, and data is written just before a close. Nothing may be lost,
//! truncated or duplicated.
#![cfg(target_os = "linux")]

use crate::wait::{LONG, pace, soon};
use anabranch_tokio::{Association, Endpoint, Options, RecvError, RecvStream};
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::time::timeout;

/// The length in bytes of a message that is too large for the receive buffer of [`associated`].
const LENGTH: usize = 2_000_000;

async fn endpoint(listen: Option<u16>, rcvbuf: &str, largest: usize) -> Endpoint {
    let mut config = Options::default().config;
    for (buffer, size) in [("sndbuf", "16MiB"), ("rcvbuf", rcvbuf)] {
        config.set(buffer, size).expect("a knob");
    }
    let here = "127.0.0.1".parse().expect("an address");
    let mut options = Options::default().address(here).config(config).max_receive(largest);
    options.listen = listen;
    Endpoint::new(options).await.expect("an endpoint")
}

/// Opens an association whose receive buffer is much smaller than a message of [`LENGTH`] bytes. The first poll of a
/// receive call therefore never finds a whole message.
async fn associated() -> ((Endpoint, Endpoint), Association, Association) {
    associated_with("256KiB", 1 << 22).await
}

/// Opens an association whose ends have a receive buffer of the size `rcvbuf`, for messages of at most `largest` bytes.
async fn associated_with(rcvbuf: &str, largest: usize) -> ((Endpoint, Endpoint), Association, Association) {
    let server = endpoint(Some(80), rcvbuf, largest).await;
    let client = endpoint(None, rcvbuf, largest).await;
    let theirs = async { server.accept().await.expect("somebody").accept().expect("an association") };
    let both = async { tokio::join!(client.connect(server.local_addresses(), 80), theirs) };
    let (ours, theirs) = timeout(LONG, both).await.expect("in time");
    ((server, client), ours.expect("established"), theirs)
}

fn pattern(length: usize, seed: usize) -> Vec<u8> {
    (0..length).map(|i| (i as u8).wrapping_mul(31).wrapping_add(seed as u8)).collect()
}

/// Polls `future` once and drops it.
async fn once<T>(future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    poll_fn(|cx| {
        Poll::Ready(match future.as_mut().poll(cx) {
            Poll::Ready(done) => Some(done),
            Poll::Pending => None,
        })
    })
    .await
}

/// Receives a message with a new future for each poll. Returns the result and the number of polls that were pending.
async fn bit_by_bit(recv: &mut RecvStream) -> (Result<bytes::Bytes, RecvError>, u32) {
    let mut pending = 0;
    loop {
        if let Some(done) = once(recv.recv()).await {
            return (done.map(|message| message.bytes), pending);
        }
        pending += 1;
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_is_whole_however_often_its_future_is_dropped() {
    let (_ends, ours, theirs) = associated().await;
    let sizes = [1, 3_000_000, 65_536, 65_537, 2_500_000, 2, 2_000_001, 131_072].repeat(3);
    let to_send = sizes.clone();
    let sending = tokio::spawn(async move {
        let (mut send, _recv) = ours.open_bi().expect("a stream");
        for (seed, size) in to_send.into_iter().enumerate() {
            send.send(pattern(size, seed)).await.expect("sent");
        }
        send.flush().await.expect("on its way");
        (ours, send)
    });
    let (_send, mut recv) = timeout(LONG, theirs.accept_bi()).await.expect("in time").expect("a stream");
    let mut dropped = 0;
    for (seed, size) in sizes.into_iter().enumerate() {
        let (got, pending) = timeout(LONG, bit_by_bit(&mut recv)).await.expect("in time");
        let got = got.expect("a message");
        assert!(got == pattern(size, seed), "message {seed}: {} bytes of {size}", got.len());
        dropped += pending;
    }
    assert!(dropped > 10, "no future was dropped in the middle: {dropped}");
    drop(sending.await.expect("sent"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn received_parts_are_available_to_byte_readers() {
    let (_ends, ours, theirs) = associated().await;
    let (mut send, _recv) = ours.open_bi().expect("a stream");
    let sending = tokio::spawn(async move {
        for seed in 0..10 {
            send.send(pattern(LENGTH, seed)).await.expect("sent");
        }
        send.flush().await.expect("on its way");
        send
    });
    let (_send, mut recv) = timeout(LONG, theirs.accept_bi()).await.expect("in time").expect("a stream");
    for seed in 0..10 {
        // The future of `recv.recv()` is dropped while it waits. A part of the message may have arrived, and
        // `read_exact` must get that part.
        assert!(once(recv.recv()).await.is_none(), "message {seed} was there at once");
        let mut got = vec![0; LENGTH];
        timeout(LONG, recv.read_exact(&mut got)).await.expect("in time").expect("all of it");
        assert!(got == pattern(LENGTH, seed), "message {seed}");
    }
    drop(sending.await.expect("sent"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn behind_a_message_that_is_too_long_comes_the_next() {
    let (_ends, ours, theirs) = associated_with("16MiB", 100_000).await;
    let (mut send, _recv) = ours.open_bi().expect("a stream");
    let sending = tokio::spawn(async move {
        for (seed, size) in [(1, 2_500_000), (2, 1000), (3, 2_200_000), (4, 10)] {
            send.send(pattern(size, seed)).await.expect("sent");
        }
        send.flush().await.expect("on its way");
        send
    });
    let (_send, mut recv) = timeout(LONG, theirs.accept_bi()).await.expect("in time").expect("a stream");
    let mut next = async || timeout(LONG, bit_by_bit(&mut recv)).await.expect("in time").0;
    let too_long = RecvError::TooLong { stream: 0, limit: 100_000 };
    assert_eq!(next().await, Err(too_long.clone()));
    assert_eq!(next().await.expect("a message"), pattern(1000, 2));
    assert_eq!(next().await, Err(too_long.clone()));
    assert_eq!(next().await.expect("a message"), pattern(10, 4));
    drop(sending.await.expect("sent"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_sent_after_the_end_and_the_writer_is_told() {
    for how in ["their abort", "our abort", "their close", "our close"] {
        let (_ends, ours, theirs) = associated().await;
        let mut streams = Vec::new();
        for _ in 0..8 {
            let (mut send, recv) = ours.open_bi().expect("a stream");
            send.send(&b"before"[..]).await.expect("sent");
            send.flush().await.expect("on its way");
            streams.push((send, recv));
        }
        match how {
            "their abort" => theirs.abort(),
            "our abort" => ours.abort(),
            "their close" => theirs.close(),
            _ => ours.close(),
        }
        if how != "our close" {
            timeout(LONG, ours.closed()).await.expect("in time");
        }
        for (send, _) in &mut streams {
            for number in 0..20 {
                assert!(send.send(&b"late"[..]).await.is_err(), "{how}: message {number}");
                assert!(send.write(b"late").await.is_err(), "{how}: bytes {number}");
                assert!(send.flush().await.is_err(), "{how}: {number}");
            }
        }
    }
}

/// All data written before `close` arrives, even if the buffers of both ends are full when `close` is called.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_written_before_a_close_arrives() {
    for round in 0..5 {
        let (_ends, ours, theirs) = associated_with("256KiB", 1 << 22).await;
        let mut writers = Vec::new();
        for seed in 0..4 {
            let (mut send, recv) = ours.open_bi().expect("a stream");
            writers.push(tokio::spawn(async move {
                send.write_all(&pattern(1_500_000, seed)).await.expect("written");
                (send, recv)
            }));
        }
        let reading = tokio::spawn(async move {
            let mut readers = Vec::new();
            for _ in 0..4 {
                let (send, mut recv) =
                    timeout(LONG, theirs.accept_bi()).await.expect("in time").expect("a stream");
                readers.push(tokio::spawn(async move {
                    // The reader pauses after each piece, so it is slower than the writer.
                    let (mut all, mut piece) = (Vec::new(), vec![0; 50_000]);
                    loop {
                        match timeout(LONG, recv.read(&mut piece))
                            .await
                            .expect("in time")
                            .expect("no failure")
                        {
                            0 => return (send.number(), all),
                            more => all.extend_from_slice(&piece[..more]),
                        }
                        pace(Duration::from_millis(2)).await;
                    }
                }));
            }
            let mut all = Vec::new();
            for reader in readers {
                all.push(reader.await.expect("read"));
            }
            all
        });
        let mut held = Vec::new();
        for writer in writers {
            held.push(writer.await.expect("written"));
        }
        ours.close();
        for (number, bytes) in timeout(LONG, reading).await.expect("in time").expect("read") {
            assert!(
                bytes == pattern(1_500_000, number.into()),
                "round {round}, stream {number}: {}",
                bytes.len()
            );
        }
        timeout(LONG, ours.closed()).await.expect("in time");
    }
}

/// Dropping the results of `open_bi`, or the future of `accept_bi`, leaves every stream available.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn opening_and_accepting_may_be_dropped() {
    let (_ends, ours, theirs) = associated().await;
    for _ in 0..200 {
        drop(ours.open_bi());
        assert!(once(theirs.accept_bi()).await.is_none(), "nothing was sent");
    }
    // After the dropped calls, every stream can be opened.
    let mut held = Vec::new();
    for number in 0..ours.streams() {
        let mut opened = None;
        soon(|| {
            opened = ours.open_number(number).ok();
            opened.is_some()
        })
        .await;
        held.push(opened);
    }
}
