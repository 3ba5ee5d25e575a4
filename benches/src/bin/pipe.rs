//! Measures the CPU cost of the simulated network alone: packets pass through it without a transport protocol.
//!
//! A sender keeps a window of 64 packets of 1500 bytes in flight. A receiver answers every second packet with 40 bytes,
//! over the link of the speed benchmark. The time per packet is the cost of the executor, the socket, the IP header and
//! the link. The benchmark `speed` also includes the engine, the driver and the application.

use anabranch_base::{Instant, RecvBatch, SendBatch};
use anabranch_benches::{median, thread_cpu};
use anabranch_link::LinkSpec;
use anabranch_sim::{Network, SimSocket};
use anabranch_world::{DatagramSocket, Local, World};
use std::future::poll_fn;
use std::net::IpAddr;

const PACKETS: u64 = 400_000;

fn main() {
    let times: Vec<f64> = (0..7).map(|_| once()).collect();
    println!("{:.1} ns a transmission", median(&times));
}

fn once() -> f64 {
    let network = Network::new(1);
    let near: IpAddr = [10, 0, 0, 1].into();
    let far: IpAddr = [10, 0, 0, 2].into();
    let (client, server) = (network.host("client", &[near]), network.host("server", &[far]));
    let link = LinkSpec::parse("rate=100mbit,rtt=20ms,queue=1000p").expect("it is right");
    network.link(client, server, &link).expect("it is right");
    let (here, there) = (network.world(client), network.world(server));
    let start = thread_cpu();
    let transmissions = network
        .run(
            async {
                let local = Local::Ip { protocol: 253 };
                let sender = here.bind(local).await.expect("it is free");
                let receiver = there.bind(local).await.expect("it is free");
                let answering = there.spawn("answer", answer(receiver, far, near));
                let (mut batch, mut input) = (SendBatch::new(1), RecvBatch::new(1));
                for _ in 0..64 {
                    send(&sender, &mut batch, near, far, 1480).await;
                }
                let mut sent = 64;
                while sent < PACKETS {
                    receive(&sender, &mut input).await;
                    for _ in 0..2 {
                        send(&sender, &mut batch, near, far, 1480).await;
                        sent += 1;
                    }
                }
                drop(answering);
                sent + sent / 2
            },
            Instant::MAX,
        )
        .expect_done();
    (thread_cpu() - start) * 1e9 / transmissions as f64
}

async fn answer(socket: SimSocket, from: IpAddr, to: IpAddr) {
    let (mut input, mut output) = (RecvBatch::new(1), SendBatch::new(1));
    loop {
        for _ in 0..2 {
            receive(&socket, &mut input).await;
        }
        send(&socket, &mut output, from, to, 20).await;
    }
}

async fn receive(socket: &SimSocket, batch: &mut RecvBatch) {
    batch.clear();
    poll_fn(|cx| socket.poll_recv(cx, batch)).await.expect("the socket is open");
}

async fn send(socket: &SimSocket, batch: &mut SendBatch, from: IpAddr, to: IpAddr, bytes: usize) {
    batch.clear();
    (batch.source, batch.target) = ((from, 0).into(), (to, 0).into());
    batch.push_with(|buffer| buffer.resize(buffer.len() + bytes, 7));
    poll_fn(|cx| socket.poll_send(cx, batch)).await.expect("the address is ours");
}
