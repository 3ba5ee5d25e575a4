//! Hosts and routers, their interfaces, the links between them, and the routes over the links.
//!
//! A host has any number of interfaces with any number of addresses. It accepts packets for all its addresses,
//! whichever interface a packet arrived at (the weak host model of RFC 1122 §3.3.4.2). A host chooses the outgoing
//! interface by the packet's *source* address. A router chooses the interface by the packet's *destination* address.
//! Routes are the shortest paths by number of links. Routes are recomputed when addresses change, and static routes
//! take precedence.

use crate::audit::HostCounters;
use crate::events::Slot;
use crate::host::Processor;
use crate::ids::InterfaceId;
use crate::packet_buf::PacketBuf;
use crate::reassembly::Reassembly;
use crate::tap::{Capture, LinkTap};
use anabranch_link::Chain;
use anabranch_link::loss::LossRule;
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::task::Waker;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum NodeKind {
    Host,
    Router,
}

pub(crate) struct Interface {
    pub(crate) addresses: Vec<IpAddr>,
    /// The index of the link direction over which this interface sends; `None` if the interface has no link.
    pub(crate) out: Option<u32>,
}

pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) kind: NodeKind,
    pub(crate) interfaces: Vec<Interface>,
    /// All addresses, each with the index of its interface. The addresses of the preferred interface come first,
    /// followed by those of the other interfaces, in order.
    pub(crate) addresses: Vec<(IpAddr, u32)>,
    /// The index of the interface whose addresses come first in `addresses`.
    pub(crate) preferred: u32,
    /// The number of times that `addresses` has changed.
    pub(crate) address_changes: u64,
    pub(crate) address_wakers: Vec<Waker>,
    /// Static routes: target prefix, prefix length, outgoing interface.
    pub(crate) fixed_routes: Vec<(IpAddr, u8, u32)>,
    pub(crate) routes: BTreeMap<IpAddr, u32>,
    /// The last target for which a route was looked up, and the index of the route's interface.
    pub(crate) last_route: Option<(IpAddr, u32)>,
    pub(crate) protocols: Vec<(u8, u32)>,
    pub(crate) ports: BTreeMap<u16, u32>,
    pub(crate) identification: u16,
    /// The identification of the last packet that may be fragmented. Other packets need no distinct identification (RFC
    /// 6864 §4).
    pub(crate) fragment_identification: u32,
    pub(crate) reassembly: Reassembly,
    pub(crate) processor: Processor,
    pub(crate) socket_limit: usize,
    /// The packet filter's rules for packets that the node sends, each with the index of its interface.
    pub(crate) output_rules: Vec<(u32, LossRule)>,
    /// Whether the node sends an ICMP error when a packet arrives for an unused port or protocol.
    pub(crate) answers_strays: bool,
    /// Whether the interfaces of the host write transport checksums, so that its stack need not.
    pub(crate) offloads_checksums: bool,
    /// Whether the node sends any ICMP messages.
    pub(crate) reports: bool,
    pub(crate) capture: Option<Capture>,
    pub(crate) counters: HostCounters,
}

impl Node {
    pub(crate) fn new(name: &str, kind: NodeKind, processor: Slot) -> Self {
        Self {
            name: name.to_owned(),
            kind,
            interfaces: Vec::new(),
            addresses: Vec::new(),
            preferred: 0,
            address_changes: 0,
            address_wakers: Vec::new(),
            fixed_routes: Vec::new(),
            routes: BTreeMap::new(),
            last_route: None,
            protocols: Vec::new(),
            ports: BTreeMap::new(),
            identification: 0,
            fragment_identification: 0,
            reassembly: Reassembly::default(),
            processor: Processor::new(processor),
            socket_limit: SOCKET_LIMIT,
            output_rules: Vec::new(),
            answers_strays: true,
            offloads_checksums: true,
            reports: true,
            capture: None,
            counters: HostCounters::default(),
        }
    }

    /// Returns the index of the interface that has this address.
    #[inline]
    pub(crate) fn interface_of(&self, address: IpAddr) -> Option<u32> {
        self.addresses.iter().find(|(own, _)| same(*own, address)).map(|(_, interface)| *interface)
    }

    /// Returns the interface over which packets for `target` leave.
    #[inline]
    pub(crate) fn route(&mut self, target: IpAddr) -> Option<u32> {
        if let Some((last, interface)) = self.last_route
            && last == target
        {
            return Some(interface);
        }
        let known = self.routes.get(&target).copied();
        let interface = known.or_else(|| self.static_route(target))?;
        self.last_route = Some((target, interface));
        Some(interface)
    }

    /// Returns the interface of the static route that matches `target` with the longest prefix.
    fn static_route(&self, target: IpAddr) -> Option<u32> {
        let fitting = self.fixed_routes.iter().filter(|(prefix, length, _)| covers(*prefix, *length, target));
        fitting.max_by_key(|(_, length, _)| *length).map(|(_, _, interface)| *interface)
    }

    /// Rebuilds `addresses` from the interfaces, and wakes the tasks that wait for address changes.
    pub(crate) fn addresses_changed(&mut self) {
        self.addresses.clear();
        for (index, interface) in (0..).zip(&self.interfaces) {
            self.addresses.extend(interface.addresses.iter().map(|address| (*address, index)));
        }
        self.addresses.sort_by_key(|(_, index)| *index != self.preferred);
        self.address_changes += 1;
        for waker in self.address_wakers.drain(..) {
            waker.wake();
        }
    }

    /// Returns an address of the same IP version as `like`, preferably one of the interface `interface`.
    pub(crate) fn source_address_for(&self, like: IpAddr, interface: u32) -> Option<IpAddr> {
        let mut fitting = self.addresses.iter().filter(|(own, _)| own.is_ipv4() == like.is_ipv4());
        let preferred = fitting.clone().find(|(_, at)| *at == interface);
        preferred.or_else(|| fitting.next()).map(|(own, _)| *own)
    }
}

/// Compares two addresses, with a fast path for IPv4.
#[inline(always)]
fn same(one: IpAddr, other: IpAddr) -> bool {
    match (one, other) {
        (IpAddr::V4(one), IpAddr::V4(other)) => one.to_bits() == other.to_bits(),
        _ => one == other,
    }
}

fn covers(prefix: IpAddr, length: u8, target: IpAddr) -> bool {
    match (prefix, target) {
        (IpAddr::V4(prefix), IpAddr::V4(target)) => {
            (prefix.to_bits() ^ target.to_bits()).leading_zeros() >= u32::from(length.min(32))
        }
        (IpAddr::V6(prefix), IpAddr::V6(target)) => {
            (prefix.to_bits() ^ target.to_bits()).leading_zeros() >= u32::from(length.min(128))
        }
        _ => false,
    }
}

/// One direction of a link, from one interface to another: the chain of elements that packets pass, and its counters.
pub(crate) struct LinkDirection {
    pub(crate) chain: Chain<PacketBuf>,
    pub(crate) slot: Slot,
    pub(crate) from: InterfaceId,
    pub(crate) to: InterfaceId,
    pub(crate) mtu: u32,
    /// Whether the direction works. False while a scheduled change has cut it.
    pub(crate) up: bool,
    /// Whether packets in one direction may affect the other direction, because both directions share a loss counter.
    pub(crate) is_coupled: bool,
    /// Chains that a change has replaced and that still hold packets.
    pub(crate) retired: Vec<Chain<PacketBuf>>,
    pub(crate) tap: LinkTap,
}

impl LinkDirection {
    /// Returns the time of the next event in this direction.
    #[inline(always)]
    pub(crate) fn next(&self) -> Option<anabranch_base::Instant> {
        let next = self.chain.next();
        if self.retired.is_empty() {
            return next;
        }
        self.next_of_all(next)
    }

    #[cold]
    fn next_of_all(&self, next: Option<anabranch_base::Instant>) -> Option<anabranch_base::Instant> {
        self.retired.iter().filter_map(Chain::next).chain(next).min()
    }
}

/// Returns the initial addresses of a router, which it needs to send ICMP messages. They are from the ranges reserved
/// for benchmarks (RFC 2544 §C.2.2, RFC 5180 §8).
pub(crate) fn router_addresses(node: u32) -> Vec<IpAddr> {
    let v4 = Ipv4Addr::from_bits(Ipv4Addr::new(198, 18, 0, 1).to_bits() + (node & 0xffff));
    let v6 = Ipv6Addr::from_bits(Ipv6Addr::new(0x2001, 2, 0, 0, 0, 0, 0, 1).to_bits() + u128::from(node));
    vec![v4.into(), v6.into()]
}

/// Computes every node's outgoing interface for every address, over the fewest links. Shortest paths are compared link
/// by link, beginning at the owner of the address. At the first difference, the path whose link was created first is
/// used.
pub(crate) fn find_routes(nodes: &mut [Node], directions: &[LinkDirection]) {
    for node in nodes.iter_mut() {
        node.routes.clear();
        node.last_route = None;
    }
    for owner in 0..nodes.len() {
        for at in 0..nodes[owner].addresses.len() {
            let (address, interface) = nodes[owner].addresses[at];
            let entrance = (nodes[owner].kind == NodeKind::Host).then_some(interface);
            if !spread(nodes, directions, owner, address, entrance) && entrance.is_some() {
                // If the interface with this address has no link, packets for the address may arrive at any other
                // interface of the host.
                spread(nodes, directions, owner, address, None);
            }
        }
    }
    for node in nodes.iter_mut() {
        let known: Vec<_> = node.routes.keys().copied().collect();
        for target in known {
            if let Some(interface) = node.static_route(target) {
                node.routes.insert(target, interface);
            }
        }
    }
}

/// Sets the route to `address` at all nodes that can reach its owner. Packets must arrive at the owner's interface
/// `entrance`, or at any interface if `entrance` is `None`. Returns false if no node can reach the owner.
fn spread(
    nodes: &mut [Node],
    directions: &[LinkDirection],
    owner: usize,
    address: IpAddr,
    entrance: Option<u32>,
) -> bool {
    let mut seen = vec![false; nodes.len()];
    seen[owner] = true;
    let mut reached = false;
    let mut wave = VecDeque::from([owner]);
    while let Some(node) = wave.pop_front() {
        // Hosts do not forward packets, so the route does not lead through them.
        if node != owner && nodes[node].kind == NodeKind::Host {
            continue;
        }
        let incoming = directions.iter().filter(|direction| {
            direction.to.node.0 as usize == node
                && (node != owner || entrance.is_none_or(|interface| interface == direction.to.index))
        });
        for from in incoming.map(|direction| direction.from).collect::<Vec<_>>() {
            let neighbour = from.node.0 as usize;
            if !std::mem::replace(&mut seen[neighbour], true) {
                nodes[neighbour].routes.insert(address, from.index);
                wave.push_back(neighbour);
                reached = true;
            }
        }
    }
    reached
}

/// The default maximum number of bytes of packets that wait in a socket.
const SOCKET_LIMIT: usize = 8 << 20;
