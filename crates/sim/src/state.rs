//! The state of a network, and how it changes.

use crate::audit::Audit;
use crate::events::{Events, Slot};
use crate::executor::Executor;
use crate::faults::{Changes, NetworkChange};
use crate::host::{Socket, Table, TimerState};
use crate::ids::{InterfaceId, LinkId};
use crate::packet_buf::Pool;
use crate::tap::TapRecord;
use crate::topology::{LinkDirection, Node, find_routes};
use anabranch_base::{Instant, Rng};
use anabranch_link::spec::{Direction, LossSpec};
use anabranch_link::{Chain, LinkSpec};
use std::cell::{Cell, RefCell};
use std::mem;
use std::net::IpAddr;
use std::rc::Rc;

/// The state of a network, including its tasks. All `SimWorld` handles, sockets, timers and tasks share it.
pub(crate) struct Shared {
    pub(crate) now: Cell<Instant>,
    pub(crate) executor: Rc<Executor>,
    pub(crate) state: RefCell<State>,
    pub(crate) rng: Rng,
}

/// The state of a network without its tasks.
pub(crate) struct State {
    pub(crate) now: Instant,
    pub(crate) seed: u64,
    pub(crate) rng: Rng,
    pub(crate) events: Events,
    pub(crate) pool: Pool,
    pub(crate) nodes: Vec<Node>,
    /// The two directions of each link, the direction "up" first.
    pub(crate) directions: Vec<LinkDirection>,
    pub(crate) sockets: Table<Socket>,
    pub(crate) timers: Table<TimerState>,
    pub(crate) changes: Changes,
    pub(crate) changes_slot: Slot,
    /// The number of times that the description of a link was replaced, summed over all links.
    pub(crate) redescribed: u64,
    pub(crate) audit: Option<Audit>,
    pub(crate) link_events: Option<Vec<TapRecord>>,
    /// Whether the log of link events is on: each event of a packet on a link is recorded.
    pub(crate) watched: bool,
    pub(crate) routes_known: bool,
}

impl State {
    /// Applies `change` now.
    pub(crate) fn apply(&mut self, change: NetworkChange) {
        match change {
            NetworkChange::Down(link) => self.switch(&[Direction::Up, Direction::Down], link, false),
            NetworkChange::Up(link) => self.switch(&[Direction::Up, Direction::Down], link, true),
            NetworkChange::DirectionDown(link, direction) => self.switch(&[direction], link, false),
            NetworkChange::DirectionUp(link, direction) => self.switch(&[direction], link, true),
            NetworkChange::Respec(link, spec) => self.respec(link, &spec),
            NetworkChange::AddAddress(interface, address) => {
                self.change_addresses(interface, |addresses| {
                    if !addresses.contains(&address) {
                        addresses.push(address);
                    }
                });
            }
            NetworkChange::RemoveAddress(interface, address) => {
                self.change_addresses(interface, |addresses| addresses.retain(|other| *other != address));
            }
            NetworkChange::Prefer(interface) => {
                let node = &mut self.nodes[interface.node.0 as usize];
                node.preferred = interface.index;
                node.addresses_changed();
            }
        }
    }

    fn switch(&mut self, directions: &[Direction], link: LinkId, up: bool) {
        for direction in directions {
            self.directions[link.direction(*direction)].up = up;
        }
    }

    fn respec(&mut self, link: LinkId, spec: &LinkSpec) {
        self.redescribed += 1;
        let rng = self.rng.fork(&format!("link/{}/{}", link.0, self.redescribed));
        // The link description was checked when the change was scheduled, so an error cannot occur.
        let Ok((up, down)) = spec.build(self.seed, &rng) else { return };
        let halves = [(Direction::Up, up, spec.up.mtu), (Direction::Down, down, spec.down.mtu)];
        for (direction, chain, mtu) in halves {
            let entry = &mut self.directions[link.direction(direction)];
            entry.mtu = mtu;
            entry.is_coupled = couples_directions(spec);
            let old: Chain<_> = mem::replace(&mut entry.chain, chain);
            entry.retired.push(old);
        }
    }

    fn change_addresses(&mut self, interface: InterfaceId, change: impl FnOnce(&mut Vec<IpAddr>)) {
        let node = &mut self.nodes[interface.node.0 as usize];
        change(&mut node.interfaces[interface.index as usize].addresses);
        node.addresses_changed();
        find_routes(&mut self.nodes, &self.directions);
    }
}

/// Returns whether packets in one direction of the link can affect the other direction.
pub(crate) fn couples_directions(spec: &LinkSpec) -> bool {
    matches!(spec.up.loss, LossSpec::Nth { shared: true, .. })
}
