//! Tests of an SCTP path that is a black hole: it loses large packets without an ICMP report and without fragmentation
//! (RFC 8899 §4.3), but HEARTBEATs are answered.

use anabranch_base::{Instant, RecvBatch, SendBatch};
use anabranch_link::LinkSpec;
use anabranch_sctp::Config;
use anabranch_sim::{Network, SimWorld};
use anabranch_transport::protocol::PathEvent;
use anabranch_transport::sctp::SctpHost;
use anabranch_transport::{CloseReason, Listener, Session, Stream};
use anabranch_world::{DatagramSocket, Local, World};
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

/// A socket that loses datagrams of more than [`LARGEST`] bytes.
struct Narrow<S>(S);

const LARGEST: usize = 1_300;

impl<S: DatagramSocket> DatagramSocket for Narrow<S> {
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        if batch.stride() > LARGEST {
            batch.clear();
            return Poll::Ready(Ok(()));
        }
        self.0.poll_send(cx, batch)
    }

    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        self.0.poll_recv(cx, batch)
    }

    fn local(&self) -> Vec<SocketAddr> {
        self.0.local()
    }

    fn mtu(&self, source: IpAddr) -> u32 {
        self.0.mtu(source)
    }

    fn max_segments(&self) -> usize {
        1
    }
}

/// When a session ends in a black hole, both sides learn the reason. The sender's host also reports the reason in a
/// path event.
#[test]
fn the_reason_for_an_end_in_a_black_hole_has_the_size_of_packets() {
    let network = Network::new(1);
    let [near, far]: [IpAddr; 2] = ["10.0.0.1", "10.0.0.2"].map(|text| text.parse().expect("an address"));
    let (client, server) = (network.host("client", &[near]), network.host("server", &[far]));
    network.link(client, server, &LinkSpec::parse("rate=4mbit,delay=10ms").expect("a link")).expect("a link");
    let (here, there) = (network.world(client), network.world(server));
    let start = async |world: &SimWorld, port| {
        let mut config = Config::profile("modern").expect("a profile");
        config.set("pmtud", "blackhole").expect("a knob");
        let socket = world.bind(Local::Udp { port }).await.expect("a socket");
        SctpHost::with_socket(world.clone(), config, Narrow(socket))
    };
    let program = async {
        let (a, b) = (start(&here, 0).await, start(&there, 9_899).await);
        let events = Rc::new(RefCell::new(Vec::new()));
        let reported = events.clone();
        a.on_path_event(move |event| reported.borrow_mut().push(event));
        let mut listener = b.listen(80).expect("the port is free");
        let session = a.connect(&[(far, 9_899).into()], 80).expect("a way");
        session.established().await.expect("an association");
        let mut stream = session.open(0).expect("a stream");
        let _ = stream.write_all(&[0; 100_000]).await;
        let accepted = listener.accept().await.expect("an association");
        (session.closed().await, accepted.closed().await, events.take())
    };
    let (sender, receiver, events) = network.run(program, Instant::from_millis(60_000)).expect_done();
    let text = "heartbeats are answered, but packets of 1500 bytes are never acknowledged; \
                with pmtud=plpmtud the sender begins with 1200 bytes";
    assert_eq!(sender, CloseReason::TimedOut(text.to_owned()));
    let told = format!("its reason is: {text} (ABORT with cause 12)");
    assert_eq!(receiver, CloseReason::Reset(told));
    let is_end = |event: &PathEvent| matches!(event, PathEvent::BlackHole { address, reason, .. } if *address == far && reason == text);
    assert!(events.iter().any(is_end), "{events:?}");
}
