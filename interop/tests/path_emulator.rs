//! Tests `PathEmulator`, which impairs the packets of the field cases on a real network.

use anabranch_base::time::Duration;
use anabranch_base::{RecvBatch, SendBatch};
use anabranch_interop::field::path_emulator::{EmulatedWorld, PathEmulator};
use anabranch_world::os::{self, Options};
use anabranch_world::{DatagramSocket, Detach, Local, Timer, World};
use std::future::poll_fn;
use std::net::Ipv4Addr;
use std::task::Poll;

/// A delayed packet must be delivered when its delay is over, although the task that sent it never runs again.
#[test]
fn a_lone_packet_leaves_in_time() {
    let options =
        Options { addresses: vec![Ipv4Addr::LOCALHOST.into()], seed: Some(1), ..Options::default() };
    let arrived = os::run(options, async |world| {
        let path = PathEmulator::new(1);
        path.delay.set(Duration::from_millis(2));
        let emulated = EmulatedWorld::new(world.clone(), path);
        let far = world.bind(Local::Udp { port: 0 }).await.expect("a socket");
        let near = emulated.bind(Local::Udp { port: 0 }).await.expect("another");
        let (source, target) = (near.local()[0], far.local()[0]);
        // Like the loop that drives an engine: it receives, sends, and then waits.
        let mut sent = false;
        let task = emulated.spawn(
            "near",
            poll_fn(move |cx| {
                let mut input = RecvBatch::new(1);
                while near.poll_recv(cx, &mut input).is_ready() {}
                if !sent {
                    sent = true;
                    let mut output = SendBatch::new(1);
                    output.push(b"alone");
                    (output.source, output.target) = (source, target);
                    assert!(near.poll_send(cx, &mut output).is_ready());
                }
                Poll::<()>::Pending
            }),
        );
        task.detach();
        let mut timer = world.timer();
        timer.set(Some(world.now() + Duration::from_secs(10)));
        let mut input = RecvBatch::new(1);
        poll_fn(|cx| match far.poll_recv(cx, &mut input) {
            Poll::Ready(taken) => Poll::Ready(taken.is_ok()),
            Poll::Pending => timer.poll(cx).map(|()| false),
        })
        .await
    });
    assert!(arrived.expect("a world"), "it never left");
}
