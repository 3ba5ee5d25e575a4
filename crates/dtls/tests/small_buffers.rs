//! Peers that read smaller datagrams than the interface takes, as programs of WebRTC do (pion/dtls v3 reads 8,192 bytes):
//! larger ones vanish, whatever the network takes.

use crate::virtual_time::{LIMIT, UDP, echo, host, identity, layer, network, talk};
use anabranch_base::{RecvBatch, SendBatch};
use anabranch_dtls::{Settings, Version};
use anabranch_transport::CloseReason;
use anabranch_transport::protocol::Layer;
use anabranch_transport::sctp::{Carrier, Config, SctpHost};
use anabranch_world::Datagrams;
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::rc::Rc;
use std::task::{Context, Poll};

/// A layer over a socket whose peers read datagrams of at most `limit` bytes.
#[derive(Debug)]
struct ToSmallBuffers {
    layer: Rc<dyn Layer>,
    limit: usize,
    /// Sizes of datagrams that were sent.
    sizes: Rc<RefCell<Vec<usize>>>,
}

struct Socket {
    below: Box<dyn Datagrams>,
    limit: usize,
    sizes: Rc<RefCell<Vec<usize>>>,
}

impl Layer for ToSmallBuffers {
    fn over(&self, below: Box<dyn Datagrams>) -> Box<dyn Datagrams> {
        self.layer.over(Box::new(Socket { below, limit: self.limit, sizes: self.sizes.clone() }))
    }

    fn fault(&self, peer: SocketAddr) -> Option<CloseReason> {
        self.layer.fault(peer)
    }
}

impl Datagrams for Socket {
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        self.sizes.borrow_mut().extend(batch.segments().map(<[u8]>::len));
        if batch.stride() > self.limit {
            batch.clear();
            return Poll::Ready(Ok(()));
        }
        self.below.poll_send(cx, batch)
    }

    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        self.below.poll_recv(cx, batch)
    }

    fn local(&self) -> Vec<SocketAddr> {
        self.below.local()
    }

    fn mtu(&self, source: IpAddr) -> u32 {
        self.below.mtu(source)
    }

    fn max_segments(&self) -> usize {
        1
    }
}

/// RFC 8261 §4, RFC 8899 §5.2: the first data fits 1200 bytes of IP, whatever the interface takes, so that all of it arrives
/// in the time that it takes; the search does not go beyond what programs are known to read.
#[test]
fn what_a_peer_can_read_is_searched_for_from_below() {
    for version in [Version::Only12, Version::Only13] {
        let (network, nodes) = network(1, "rate=100mbit,rtt=2ms,mtu=9000");
        let [here, there] = nodes.map(|node| network.world(node));
        let sizes = Rc::new(RefCell::new(Vec::new()));
        let sent = sizes.clone();
        let program = async move {
            let settings = Settings { version, identity: Some(identity().0), trust: None, key_log: None };
            let layer = ToSmallBuffers { layer: layer(&there, settings), limit: 2_000, sizes: sent };
            let mut config = Config::profile("modern").expect("a profile");
            config.prefer("pmtud", "blackhole", "real networks").expect("a knob");
            let carrier = Carrier::Udp { port: UDP };
            let server =
                SctpHost::layered(there.clone(), config, carrier, Rc::new(layer)).await.expect("a host");
            echo(&there, &server);
            let settings = Settings { version, identity: None, trust: Some(identity().1), key_log: None };
            let client = host(&here, settings, 0).await;
            talk(&here, &client, 5_000).await.expect("met")
        };
        let [established, ended] = network.run(program, LIMIT).done().expect("in time");
        // 210 kB there and back, and one closing of the loss window at the most.
        assert!((ended - established).as_millis() < 1_000, "{version:?}: {:?}", ended - established);
        let sizes = sizes.borrow();
        // Flights of the handshake fill a usual interface's datagrams; the client, which does not search, may read no more.
        assert!(sizes.iter().all(|&size| size < 1_473), "{version:?}: {sizes:?}");
    }
}
