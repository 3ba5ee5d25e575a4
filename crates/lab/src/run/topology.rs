//! Builds the simulated network of a run.
//!
//! If there is one contestant with one server, the network has two hosts and a link for each path. Each path has its
//! own pair of interfaces and its own subnet.
//!
//! The network has several contestants or servers if the plan has `together`, background traffic, or a server for each
//! origin. Each contestant and each server then has its own hosts. Every path has a router on the clients' side and one
//! on the servers' side. The link of the path connects these two routers. The hosts share only the queues of these
//! links.
//!
//! If clients move, each path is a network behind a router, and each server has a single address.

use crate::plan::Network as Plan;
use crate::plan::bounds::MAX_HOSTS as MAX;
use anabranch_link::spec::RateSpec;
use anabranch_link::{LinkSpec, SpecError};
use anabranch_sim::{InterfaceId, LinkId, Network, NodeId};
use std::net::{IpAddr, Ipv4Addr};

/// The simulated hosts of one contestant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ContestantHosts {
    /// The contestant's client.
    pub client: NodeId,
    /// The contestant's servers, one for each origin.
    pub servers: Vec<NodeId>,
    /// The client's addresses, one for each path.
    pub client_addresses: Vec<IpAddr>,
    /// The addresses of each server, one for each path.
    pub server_addresses: Vec<Vec<IpAddr>>,
}

/// The simulated network of one run, with its hosts and links.
#[derive(Debug)]
pub struct Built {
    /// The simulated network.
    pub network: Network,
    /// The hosts of each contestant, in the order of the contestants. The hosts of background traffic come last.
    pub lanes: Vec<ContestantHosts>,
    /// The links of the paths. Their direction `up` leads from the clients to the servers.
    pub paths: Vec<LinkId>,
    /// If clients move: the interface of the servers' router towards each path.
    pub router_interfaces: Vec<InterfaceId>,
    /// If clients move: for each contestant, the links between its client and the network of each path.
    pub radios: Vec<Vec<LinkId>>,
    /// If clients move: the specification of the links in `radios`. These links add no delay and lose no packets.
    pub access: LinkSpec,
}

/// Builds the network of `plan` for `lanes` contestants, each with `servers` servers.
///
/// # Errors
/// One line when a link cannot be built, or when there are too many hosts or paths.
pub fn build(plan: &Plan, lanes: usize, servers: usize, seed: u64) -> Result<Built, String> {
    if plan.paths.len() > MAX || lanes.saturating_mul(servers) > MAX {
        return Err(format!("more than {MAX} paths or hosts on one side"));
    }
    let network = Network::new(seed);
    let moves = plan.handover.is_some();
    let mut hosts = Vec::with_capacity(lanes);
    for lane in 0..lanes {
        let client_addresses = addresses(plan.paths.len(), 0, lane);
        let name =
            |side: &str, n: usize| if lanes * servers == 1 { side.to_owned() } else { format!("{side}-{n}") };
        let client = network.host(&name("client", lane + 1), &client_addresses);
        let mut lane_servers = Vec::new();
        let mut server_addresses = Vec::new();
        for server in lane * servers..(lane + 1) * servers {
            let own = addresses(if moves { 1 } else { plan.paths.len() }, 100, server);
            lane_servers.push(network.host(&name("server", server + 1), &own));
            server_addresses.push(own);
        }
        hosts.push(ContestantHosts { client, servers: lane_servers, client_addresses, server_addresses });
    }
    let wrong = |error: SpecError| error.to_string();
    let (mut paths, mut towards) = (Vec::new(), Vec::new());
    let mut radios = vec![Vec::new(); hosts.len()];
    if moves {
        let far = network.router("far");
        let largest = plan.paths.iter().max_by_key(|path| path.up.mtu.max(path.down.mtu));
        let access = access(largest.unwrap_or(&LinkSpec::default()));
        for server in hosts.iter().flat_map(|lane: &ContestantHosts| &lane.servers) {
            network.link(far, *server, &access).map_err(wrong)?;
        }
        for (index, spec) in plan.paths.iter().enumerate() {
            let near = network.router(&format!("near-{}", index + 1));
            let out = network.interface(far, &[]);
            paths.push(network.link(near, out, spec).map_err(wrong)?);
            towards.push(out);
            for (lane, radios) in hosts.iter().zip(&mut radios) {
                // The router `near` sends packets for any address of the client over this link. If the client has moved
                // to another network, this link drops the packets that are still in flight to it. Without the static
                // routes below, `near` would send them back to `far`.
                let here = network.interface(near, &[]);
                let client = lane.client.interface(index as u32);
                radios.push(network.link(client, here, &access).map_err(wrong)?);
                for address in &lane.client_addresses {
                    network.route(*address, 32, here);
                }
            }
        }
        return Ok(Built { network, lanes: hosts, paths, router_interfaces: towards, radios, access });
    }
    for (index, spec) in plan.paths.iter().enumerate() {
        let interface = index as u32;
        if let [lane] = hosts.as_slice()
            && let [server] = lane.servers.as_slice()
        {
            let link = network.link(lane.client.interface(interface), server.interface(interface), spec);
            paths.push(link.map_err(wrong)?);
            continue;
        }
        let near = network.router(&format!("near-{}", index + 1));
        let far = network.router(&format!("far-{}", index + 1));
        paths.push(network.link(near, far, spec).map_err(wrong)?);
        let access = access(spec);
        for lane in &hosts {
            network.link(lane.client.interface(interface), near, &access).map_err(wrong)?;
            for server in &lane.servers {
                network.link(far, server.interface(interface), &access).map_err(wrong)?;
            }
        }
    }
    Ok(Built {
        network,
        lanes: hosts,
        paths,
        router_interfaces: towards,
        radios,
        access: LinkSpec::default(),
    })
}

/// Returns the addresses 10.`side`.P.H of a host, one per path. P is the number of the path and H the number of the
/// host, both counted from 1.
fn addresses(paths: usize, side: u8, host: usize) -> Vec<IpAddr> {
    (0..paths).map(|path| Ipv4Addr::new(10, side, path as u8 + 1, host as u8 + 1).into()).collect()
}

/// Returns the specification of a link between a host and its router. The link takes no time and loses nothing.
fn access(path: &LinkSpec) -> LinkSpec {
    let mut access = LinkSpec::default();
    let sides = [(&mut access.up, path.up.mtu), (&mut access.down, path.down.mtu)];
    for (side, mtu) in sides {
        side.rate = "unlimited".parse().unwrap_or_else(|_| RateSpec::constant(FAST));
        side.delay = anabranch_base::time::Duration::ZERO;
        side.mtu = mtu;
    }
    access
}

/// The rate of an access link if the text "unlimited" does not parse as a rate, which never happens.
const FAST: anabranch_base::BitRate = match anabranch_base::BitRate::from_bits_per_second(u64::MAX / 2) {
    Some(rate) => rate,
    None => panic!("not 0"),
};
