//! Measures the round-trip time of a message between two of our own programs.

use crate::floor::own_cpu;
use anabranch_sctp::Config;
use anabranch_transport::sctp::{LowerProtocol, SctpHost};
use anabranch_transport::{Listener, Session, Stream};
use anabranch_world::os::{self, OsWorld};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

/// Runs `echo ADDRESS`, which prints the address at which it listens, or `send FROM TO SIZE COUNT`. `send` prints the
/// median and the 99 % quantile of the round-trip time, and its own CPU time per message, all in us.
pub fn run(words: &[String]) {
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let (at, rest) = match words.as_slice() {
        ["echo", at] => (at, None),
        ["send", from, to, size, count] => (from, Some((to, size, count))),
        _ => panic!("ping echo ADDRESS, or ping send FROM TO SIZE COUNT"),
    };
    let at: IpAddr = at.parse().expect("an address");
    let options = os::Options { addresses: vec![at], seed: None, ..os::Options::default() };
    let done = os::run(options, async |world| match rest {
        None => echo(world).await,
        Some((to, size, count)) => {
            let to = to.parse().expect("an address");
            send(world, to, size.parse().expect("a size"), count.parse().expect("a count")).await;
        }
    });
    done.expect("a world");
}

async fn host(world: OsWorld) -> SctpHost<OsWorld> {
    let config = Config::profile("modern").expect("a profile");
    SctpHost::new(world, config, LowerProtocol::Udp { port: 0 }, None).await.expect("a port")
}

async fn echo(world: OsWorld) {
    let host = host(world).await;
    let mut listener = host.listen(SCTP_PORT).expect("nobody else listens");
    println!("{}", host.inspect(|engine| engine.addresses()[0]));
    let session = poll_fn(|cx| listener.poll_accept(cx)).await.expect("a client");
    let mut stream = session.accept().await.expect("a stream");
    let mut buffer = vec![0; 1 << 16];
    while let Ok(size @ 1..) = stream.read(&mut buffer).await {
        stream.write_message(&buffer[..size]).await.expect("written");
    }
}

async fn send(world: OsWorld, to: SocketAddr, size: usize, count: usize) {
    let host = host(world).await;
    let session = host.connect(&[to], SCTP_PORT).expect("begun");
    session.established().await.expect("established");
    let mut stream = session.open(0).expect("a stream");
    let (message, mut buffer) = (vec![7; size], vec![0; size]);
    let mut spans = Vec::with_capacity(count);
    for _ in 0..count + count / 10 {
        let started = Instant::now();
        stream.write_message(&message).await.expect("written");
        let mut got = 0;
        while got < size {
            got += stream.read(&mut buffer[got..]).await.expect("an answer");
        }
        spans.push(started.elapsed());
    }
    // The first tenth of the round trips is the warm-up.
    let mut spans = spans.split_off(count / 10);
    spans.sort_unstable();
    let at = |rank: usize| spans[spans.len() * rank / 100].as_nanos() as f64 / 1e3;
    let cpu = own_cpu() * 1e6 / (count + count / 10) as f64;
    println!("{:.2} {:.2} {cpu:.3}", at(50), at(99));
}

const SCTP_PORT: u16 = 5201;
