//! Peers whose receive buffers are smaller than the MTU of the interface, as in WebRTC programs (pion/dtls v3 reads
//! 8,192 bytes), and paths that drop large packets without a word. Larger datagrams are lost.

use crate::virtual_time::{LIMIT, UDP, echo, host, identity, layer, network, talk};
use anabranch_base::{RecvBatch, SendBatch};
use anabranch_dtls::{Settings, Version};
use anabranch_sim::SimWorld;
use anabranch_transport::CloseReason;
use anabranch_transport::protocol::Layer;
use anabranch_transport::sctp::{Config, LowerProtocol, SctpHost};
use anabranch_world::DatagramSocket;
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

/// A layer over a socket that drops datagrams of more than `limit` bytes, as if they were lost on the path.
#[derive(Debug)]
struct ToSmallBuffers {
    layer: Rc<dyn Layer>,
    limit: usize,
    /// The sizes of all sent datagrams, including dropped datagrams.
    sizes: Rc<RefCell<Vec<usize>>>,
}

struct Socket {
    inner: Box<dyn DatagramSocket>,
    limit: usize,
    sizes: Rc<RefCell<Vec<usize>>>,
}

impl Layer for ToSmallBuffers {
    fn over(&self, inner: Box<dyn DatagramSocket>) -> Box<dyn DatagramSocket> {
        self.layer.over(Box::new(Socket { inner, limit: self.limit, sizes: self.sizes.clone() }))
    }

    fn loss_reason(&self, peer: SocketAddr) -> Option<CloseReason> {
        self.layer.loss_reason(peer)
    }
}

impl DatagramSocket for Socket {
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        self.sizes.borrow_mut().extend(batch.segments().map(<[u8]>::len));
        if batch.stride() > self.limit {
            batch.clear();
            return Poll::Ready(Ok(()));
        }
        self.inner.poll_send(cx, batch)
    }

    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        self.inner.poll_recv(cx, batch)
    }

    fn local(&self) -> Vec<SocketAddr> {
        self.inner.local()
    }

    fn mtu(&self, source: IpAddr) -> u32 {
        self.inner.mtu(source)
    }

    fn max_segments(&self) -> usize {
        1
    }
}

/// RFC 8261 §4, RFC 8899 §5.2: the first data packets are IP packets of at most 1,200 bytes, whatever the interface's
/// MTU. Therefore no data packet is lost, although the peer's buffer has only 2,000 bytes.
#[test]
fn first_packets_fit_small_receive_buffers() {
    for version in [Version::Only12, Version::Only13] {
        let (network, nodes) = network(1, "rate=100mbit,rtt=2ms,mtu=9000");
        let [here, there] = nodes.map(|node| network.world(node));
        let sizes = Rc::new(RefCell::new(Vec::new()));
        let sent = sizes.clone();
        let program = async move {
            let settings = Settings { version, identity: Some(identity().0), trust: None, key_log: None };
            let layer = ToSmallBuffers { layer: layer(&there, settings), limit: 2_000, sizes: sent };
            let mut config = Config::profile("modern").expect("a profile");
            config.set_unless_user_set("pmtud", "blackhole", "real networks").expect("a knob");
            let carrier = LowerProtocol::Udp { port: UDP };
            let server =
                SctpHost::layered(there.clone(), config, carrier, Rc::new(layer)).await.expect("a host");
            echo(&there, &server);
            let settings = Settings { version, identity: None, trust: Some(identity().1), key_log: None };
            let client = host(&here, settings, 0).await;
            talk(&here, &client, 5_000).await.expect("met")
        };
        let [established, ended] = network.run(program, LIMIT).done().expect("in time");
        // The transfer of 210 kB in each direction must take less than 1 s. Two retransmission timeouts would take
        // longer.
        assert!((ended - established).as_millis() < 1_000, "{version:?}: {:?}", ended - established);
        let sizes = sizes.borrow();
        // The server's handshake datagrams fit an MTU of 1500, because a client may be unable to read larger ones.
        assert!(sizes.iter().all(|&size| size < 1_473), "{version:?}: {sizes:?}");
    }
}

/// RFC 9147 §4.4: a handshake completes on a path that drops IP packets of more than 1200 bytes and sends no ICMP. The
/// certificate needs several datagrams.
#[test]
fn handshake_datagrams_fit_packets_of_1200_bytes() {
    const LARGEST: usize = 1_200 - 20 - 8;
    for version in [Version::Only12, Version::Only13, Version::From12] {
        let (network, nodes) = network(1, "rate=100mbit,rtt=2ms");
        let [here, there] = nodes.map(|node| network.world(node));
        let sizes = Rc::new(RefCell::new(Vec::new()));
        let sent = sizes.clone();
        let program = async move {
            let through = async |world: &SimWorld, settings, port| {
                let sizes = sent.clone();
                let layer = ToSmallBuffers { layer: layer(world, settings), limit: LARGEST, sizes };
                let mut config = Config::profile("modern").expect("a profile");
                config.set_unless_user_set("pmtud", "blackhole", "real networks").expect("a knob");
                let carrier = LowerProtocol::Udp { port };
                SctpHost::layered(world.clone(), config, carrier, Rc::new(layer)).await.expect("a host")
            };
            let (identity, trust) = identity();
            let settings = Settings { version, identity: Some(identity), trust: None, key_log: None };
            let server = through(&there, settings, UDP).await;
            echo(&there, &server);
            let settings = Settings { version, identity: None, trust: Some(trust), key_log: None };
            let client = through(&here, settings, 0).await;
            talk(&here, &client, 1).await.expect("met")
        };
        network.run(program, LIMIT).done().expect("in time");
        let full = sizes.borrow().iter().filter(|&&size| size == LARGEST).count();
        assert!(full >= 2, "{version:?}: {:?}", sizes.borrow());
    }
}
