//! The network of a probe in the simulation: two hosts, the paths between them, and a record of all packets.

use anabranch_base::time::{Duration, Instant};
use anabranch_link::LinkSpec;
use anabranch_sim::{LinkId, Network, NodeId, TapRecord};
use anabranch_wire::ladder::{Ladder, Side, Transport};
use anabranch_wire::pcap;
use std::io;
use std::net::{IpAddr, Ipv4Addr};

/// The specification of a path without loss, duplication or reordering.
pub const QUIET: &str = "rate=10mbit,rtt=40ms,queue=100p";
/// The index of host A, which opens the connection.
pub const A: usize = 0;
/// The index of host B, which accepts the connection.
pub const B: usize = 1;

/// The port that B listens on.
pub const PORT: u16 = 8000;

/// The simulated network in which a probe runs.
pub struct Testbed {
    /// The simulated network.
    pub network: Network,
    /// The hosts A and B.
    pub nodes: [NodeId; 2],
    /// The addresses of A and of B, one address per path.
    pub addresses: [Vec<IpAddr>; 2],
    /// The links of the paths. The up direction is from A to B.
    pub links: Vec<LinkId>,
    /// The router between A and B, if there is one.
    pub router: Option<NodeId>,
}

impl Testbed {
    /// Builds a network of two hosts that are joined by one [`QUIET`] path.
    pub fn quiet() -> Result<Self, String> {
        Self::new(&[QUIET])
    }

    /// Builds a network of two hosts, with one path for each entry of `links`. All packets are recorded.
    ///
    /// # Errors
    /// Returns the error message of a link that cannot be built.
    pub fn new(links: &[&str]) -> Result<Self, String> {
        let network = Network::new(1);
        let address = |host: u8| -> Vec<IpAddr> {
            (1..=links.len() as u8).map(|path| Ipv4Addr::new(10, 0, path, host).into()).collect()
        };
        let addresses = [address(1), address(2)];
        let nodes = [network.host("A", &addresses[A]), network.host("B", &addresses[B])];
        let mut built = Vec::new();
        for (path, text) in links.iter().enumerate() {
            let spec = LinkSpec::parse(text).map_err(|error| error.to_string())?;
            let ends = nodes.map(|node| node.interface(path as u32));
            built.push(network.link(ends[A], ends[B], &spec).map_err(|error| error.to_string())?);
        }
        network.record_link_events();
        network.capture(nodes[A]);
        Ok(Self { network, nodes, addresses, links: built, router: None })
    }

    /// Builds a network of two hosts with a router between them. A third host C on the same router has `third`
    /// addresses, or one address if `third` is 0.
    ///
    /// # Errors
    /// Returns the same errors as [`Testbed::new`].
    pub fn routed(near: &str, far: &str, third: u8) -> Result<(Self, NodeId), String> {
        let network = Network::new(1);
        let addresses: [Vec<IpAddr>; 2] =
            [vec![Ipv4Addr::new(10, 0, 1, 1).into()], vec![Ipv4Addr::new(10, 0, 2, 1).into()]];
        let nodes = [network.host("A", &addresses[A]), network.host("B", &addresses[B])];
        let router = network.router("router");
        let third_addresses: Vec<IpAddr> =
            (0..third.max(1)).map(|n| Ipv4Addr::new(10, 0, 3, n + 1).into()).collect();
        let c = network.host("C", &[]);
        let third_interface = network.interface(c, &third_addresses);
        let mut links = Vec::new();
        let wrong = |error: anabranch_link::SpecError| error.to_string();
        let spec = LinkSpec::parse(near).map_err(wrong)?;
        let third_link = network.link(third_interface, router, &spec).map_err(wrong)?;
        for (from, to, text) in [(nodes[A], router, near), (router, nodes[B], far)] {
            let spec = LinkSpec::parse(text).map_err(wrong)?;
            links.push(network.link(from, to, &spec).map_err(wrong)?);
        }
        links.push(third_link);
        network.record_link_events();
        network.capture(nodes[A]);
        Ok((Self { network, nodes, addresses, links, router: Some(router) }, c))
    }

    /// Runs `probe` until it ends, for at most an hour of virtual time.
    ///
    /// # Errors
    /// A one-line message if the probe stalled or the simulation returned an error.
    pub fn run<T>(&self, probe: impl Future<Output = io::Result<T>>) -> Result<T, String> {
        let ended = self.network.run(probe, Instant::ZERO + Duration::from_secs(3600));
        let done = ended.done().ok_or("the probe came to no end")?;
        done.map_err(|error| error.to_string())
    }

    /// Returns the records of packets that crossed links since the last call.
    pub fn take_link_events(&self) -> Vec<TapRecord> {
        self.network.take_link_events()
    }

    /// Renders the packets seen by A's interfaces as a packet ladder.
    ///
    /// # Errors
    /// Returns an error message if the capture cannot be read.
    pub fn ladder(&self, transport: Transport) -> Result<String, String> {
        let bytes = self.network.finish_capture(self.nodes[A]).map_err(|error| error.to_string())?;
        let mut ladder = Ladder::new(transport, "A", "B");
        for (side, host) in [(Side::Left, A), (Side::Right, B)] {
            let several = self.addresses[host].len() > 1;
            for (path, address) in self.addresses[host].iter().enumerate() {
                let letter = ["A", "B"][host];
                let name = if several { format!("{letter}{}", path + 1) } else { letter.to_owned() };
                ladder.set_side(*address, side, &name);
            }
        }
        let mut reader = pcap::Reader::new(&bytes).map_err(|error| error.to_string())?;
        while let Some(record) = reader.next_packet().map_err(|error| error.to_string())? {
            // These hosts send only IPv4 without options.
            if let Some((source, target, body)) = v4(record.packet) {
                ladder.packet(Instant::from_nanos(record.at_nanos), source, target, body, "");
            }
        }
        Ok(ladder.take())
    }
}

/// Returns the source address, the destination address and the payload of an IPv4 packet.
pub fn v4(packet: &[u8]) -> Option<(IpAddr, IpAddr, &[u8])> {
    let length = usize::from(packet.first()? & 15) * 4;
    let address =
        |at: usize| packet.get(at..at + 4).and_then(|b| <[u8; 4]>::try_from(b).ok()).map(Ipv4Addr::from);
    Some((address(12)?.into(), address(16)?.into(), packet.get(length..)?))
}
