//! Peers whose receive buffers are smaller than the MTU of the interface, as in WebRTC programs (pion/dtls v3 reads
//! 8,192 bytes). The peer loses larger datagrams, although the network carries them.

use crate::virtual_time::{LIMIT, UDP, echo, host, identity, layer, network, talk};
use anabranch_base::{RecvBatch, SendBatch};
use anabranch_dtls::{Settings, Version};
use anabranch_transport::CloseReason;
use anabranch_transport::protocol::Layer;
use anabranch_transport::sctp::{Config, LowerProtocol, SctpHost};
use anabranch_world::DatagramSocket;
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

/// A layer over a socket that drops datagrams of more than `limit` bytes, as if the peer could not read them.
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
/// MTU, so no data packet is lost. The search for a larger MTU does not exceed the buffer sizes of known programs.
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
        // 210 kB in each direction take less than a second, which leaves time for at most one retransmission timeout.
        assert!((ended - established).as_millis() < 1_000, "{version:?}: {:?}", ended - established);
        let sizes = sizes.borrow();
        // The server's handshake datagrams fit an MTU of 1500, because a client may be unable to read larger ones.
        assert!(sizes.iter().all(|&size| size < 1_473), "{version:?}: {sizes:?}");
    }
}
