//! Helpers of this crate's tests: short functions to send and receive.

#![allow(dead_code, reason = "every test file uses some of it")]

use anabranch_base::time::Duration;
use anabranch_base::{Instant, RecvBatch, SendBatch};
use anabranch_link::LinkSpec;
use anabranch_sim::{Network, SimSocket, SimWorld};
use anabranch_world::{DatagramSocket, World};
use std::future::poll_fn;
use std::net::{IpAddr, SocketAddr};

pub fn ip(text: &str) -> IpAddr {
    text.parse().expect("an IP address")
}

pub fn at(text: &str) -> SocketAddr {
    text.parse().expect("a socket address")
}

pub fn link(text: &str) -> LinkSpec {
    LinkSpec::parse(text).expect("a link")
}

pub fn micros(micros: u64) -> Instant {
    Instant::from_nanos(micros * 1000)
}

/// A deadline that is later than every event of these tests.
pub const LATE: Instant = Instant::from_millis(3_600_000);

/// Sends one packet.
pub async fn send(socket: &SimSocket, from: SocketAddr, to: SocketAddr, payload: &[u8]) {
    send_tagged(socket, from, to, payload, 0).await;
}

pub async fn send_tagged(socket: &SimSocket, from: SocketAddr, to: SocketAddr, payload: &[u8], tag: u64) {
    let mut batch = SendBatch::new(1);
    (batch.source, batch.target, batch.first_tag) = (from, to, tag);
    batch.push(payload);
    poll_fn(|cx| socket.poll_send(cx, &mut batch)).await.expect("the host takes it");
}

/// Receives one packet or ICMP report.
pub async fn recv(socket: &SimSocket) -> RecvBatch {
    let mut batch = RecvBatch::new(1);
    poll_fn(|cx| socket.poll_recv(cx, &mut batch)).await.expect("the socket is open");
    batch
}

/// Returns the next received batch, or `None` if none arrives within `span`.
pub async fn recv_within(world: &SimWorld, socket: &SimSocket, span: Duration) -> Option<RecvBatch> {
    world.timeout(span, recv(socket)).await
}

/// Creates a network of two hosts that are connected by one link.
pub fn two_hosts(seed: u64, spec: &str, near: &str, far: &str) -> (Network, SimWorld, SimWorld) {
    let network = Network::new(seed);
    let (client, server) = (network.host("client", &[ip(near)]), network.host("server", &[ip(far)]));
    network.link(client, server, &link(spec)).expect("a link");
    let (here, there) = (network.world(client), network.world(server));
    (network, here, there)
}
