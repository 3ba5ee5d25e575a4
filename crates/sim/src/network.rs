//! The network: its hosts, routers and links, and the loop that lets virtual time pass.
//!
//! Time advances only when no task is runnable. Then the earliest event happens. All tasks that this event makes
//! runnable run before the next event, even if both events have the same instant. Too many rounds of tasks within one
//! instant count as an endless loop, and end the run with a list of the tasks.

use crate::audit::{Audit, HostCounters};
use crate::events::{Events, Owner};
use crate::executor::Executor;
use crate::faults::{Changes, NetworkChange, outage};
use crate::host::{Cost, Table};
use crate::ids::{Attachment, InterfaceId, LinkId, NodeId};
use crate::packet_buf::Pool;
use crate::state::{Shared, State, couples_directions};
use crate::tap::{Capture, LinkCounters, LinkTap, TapRecord};
use crate::topology::{Interface, LinkDirection, Node, NodeKind, find_routes, router_addresses};
use crate::world::SimWorld;
use anabranch_base::time::Duration;
use anabranch_base::{Instant, Rng};
use anabranch_link::spec::Direction;
use anabranch_link::{Chain, LinkSpec, SpecError};
use std::cell::{Cell, RefCell};
use std::fmt;
use std::future::Future;
use std::io;
use std::net::IpAddr;
use std::pin::{Pin, pin};
use std::rc::Rc;

/// A virtual network: hosts and routers, the links between them, and the programs that run on the hosts.
///
/// Build the network first, then call [`run`](Self::run) once or several times, then query the counters and captures.
pub struct Network {
    shared: Rc<Shared>,
    round_cap: Cell<u64>,
}

/// The result of a run.
#[derive(Clone, PartialEq, Eq, Debug)]
#[must_use]
pub enum Outcome<T> {
    /// The main future finished.
    Done(T),
    /// The deadline of the run was reached before the main future finished.
    Deadline,
    /// No task was runnable and no event was due. Every task would have waited for ever.
    Stalled(Waiting),
    /// Tasks kept waking each other without virtual time passing.
    Livelock(Waiting),
}

impl<T> Outcome<T> {
    /// Returns the result of the main future, if it finished.
    #[must_use]
    pub fn done(self) -> Option<T> {
        match self {
            Self::Done(value) => Some(value),
            _ => None,
        }
    }

    /// Returns the result of the main future.
    ///
    /// # Panics
    /// The run ended before the main future finished; the message says how it ended.
    #[track_caller]
    pub fn expect_done(self) -> T {
        match self {
            Self::Done(value) => value,
            Self::Deadline => panic!("the run reached its deadline"),
            Self::Stalled(waiting) => panic!("the run stalled: {waiting}"),
            Self::Livelock(waiting) => panic!("the run spins: {waiting}"),
        }
    }
}

/// The unfinished tasks of a run that was ended because it made no progress.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Waiting {
    /// The virtual time at which the run ended.
    pub at: Instant,
    /// The host and the name of each task, in the order in which the tasks were started.
    pub tasks: Vec<(String, &'static str)>,
}

impl fmt::Display for Waiting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "at {} these tasks wait: main", self.at)?;
        for (host, task) in self.tasks.iter().take(SHOWN) {
            write!(f, ", {host}/{task}")?;
        }
        match self.tasks.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, " and {more} more"),
        }
    }
}

impl Network {
    /// Creates an empty network; `seed` determines all random events.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let rng = Rng::new(seed);
        let mut events = Events::default();
        let changes_slot = events.open(Owner::Changes);
        let state = State {
            now: Instant::ZERO,
            seed,
            rng: rng.clone(),
            events,
            pool: Pool::default(),
            nodes: Vec::new(),
            directions: Vec::new(),
            sockets: Table::default(),
            timers: Table::default(),
            changes: Changes::default(),
            changes_slot,
            redescribed: 0,
            audit: None,
            link_events: None,
            watched: false,
            routes_known: false,
        };
        let shared = Shared {
            now: Cell::new(Instant::ZERO),
            executor: Rc::new(Executor::new()),
            state: RefCell::new(state),
            rng,
        };
        Self { shared: Rc::new(shared), round_cap: Cell::new(ROUND_CAP) }
    }

    /// Adds a host with one interface per address, in the order of `addresses`.
    pub fn host(&self, name: &str, addresses: &[IpAddr]) -> NodeId {
        let node = self.node(name, NodeKind::Host);
        for address in addresses {
            self.interface(node, &[*address]);
        }
        node
    }

    /// Adds a router. It has one IPv4 and one IPv6 address, from which it sends ICMP messages.
    pub fn router(&self, name: &str) -> NodeId {
        self.node(name, NodeKind::Router)
    }

    fn node(&self, name: &str, kind: NodeKind) -> NodeId {
        let mut state = self.shared.state.borrow_mut();
        let index = state.nodes.len() as u32;
        let slot = state.events.open(Owner::Processor(index));
        state.nodes.push(Node::new(name, kind, slot));
        NodeId(index)
    }

    /// Adds an interface to a node. The interface may have any number of IPv4 and IPv6 addresses.
    pub fn interface(&self, node: NodeId, addresses: &[IpAddr]) -> InterfaceId {
        let mut state = self.shared.state.borrow_mut();
        state.routes_known = false;
        let entry = &mut state.nodes[node.0 as usize];
        let mut addresses = addresses.to_vec();
        if entry.kind == NodeKind::Router && entry.interfaces.is_empty() {
            addresses.extend(router_addresses(node.0));
        }
        entry.interfaces.push(Interface { addresses, out: None });
        entry.addresses_changed();
        node.interface(entry.interfaces.len() as u32 - 1)
    }

    /// Connects two interfaces by a link. Packets from `first` to `second` use the settings `spec.up`, and packets from
    /// `second` to `first` use `spec.down`.
    ///
    /// # Errors
    /// The description of the link is invalid.
    ///
    /// # Panics
    /// The given interface already has a link, or all interfaces of the given host have one.
    pub fn link(
        &self,
        first: impl Into<Attachment>,
        second: impl Into<Attachment>,
        spec: &LinkSpec,
    ) -> Result<LinkId, SpecError> {
        let (first, second) = (self.attach(first.into()), self.attach(second.into()));
        let mut state = self.shared.state.borrow_mut();
        let state = &mut *state;
        let link = LinkId(state.directions.len() as u32 / 2);
        let (up, down) = spec.build(state.seed, &state.rng.fork(&format!("link/{}", link.0)))?;
        let sides = [(up, first, second, spec.up.mtu), (down, second, first, spec.down.mtu)];
        for (chain, from, to, mtu) in sides {
            let index = state.directions.len() as u32;
            let slot = state.events.open(Owner::Link(index));
            state.directions.push(LinkDirection {
                chain,
                slot,
                from,
                to,
                mtu,
                up: true,
                is_coupled: couples_directions(spec),
                retired: Vec::new(),
                tap: LinkTap::default(),
            });
            state.nodes[from.node.0 as usize].interfaces[from.index as usize].out = Some(index);
        }
        state.routes_known = false;
        Ok(link)
    }

    /// Returns the interface that `end` names, or a free interface of the node that `end` names. A router without a
    /// free interface gets a new one. Panics if the named interface has a link already, or if a host has no free
    /// interface.
    fn attach(&self, end: Attachment) -> InterfaceId {
        let free = {
            let state = self.shared.state.borrow();
            match end {
                Attachment::Interface(interface) => {
                    let node = &state.nodes[interface.node.0 as usize];
                    let taken = node.interfaces[interface.index as usize].out.is_some();
                    assert!(!taken, "interface {} of '{}' has a link", interface.index, node.name);
                    return interface;
                }
                Attachment::Node(id) => {
                    let node = &state.nodes[id.0 as usize];
                    let index = node.interfaces.iter().position(|interface| interface.out.is_none());
                    assert!(
                        index.is_some() || node.kind == NodeKind::Router,
                        "host '{}' has no interface left for another link",
                        node.name
                    );
                    (id, index)
                }
            }
        };
        match free {
            (node, Some(index)) => node.interface(index as u32),
            (node, None) => self.interface(node, &[]),
        }
    }

    /// Adds the loss models of `spec` as packet filter rules to the hosts at both ends of `link`. Each host then drops
    /// packets when it sends them, before they enter the link, as a rule in the OUTPUT chain of Linux does. The link
    /// itself should be lossless.
    ///
    /// A socket for an IP protocol gets the error `PermissionDenied` for a dropped packet, as the kernel's own TCP and
    /// SCTP do. Programs with a UDP socket are not informed.
    ///
    /// # Errors
    /// The description of the link is invalid.
    pub fn filter_output(&self, link: LinkId, spec: &LinkSpec) -> Result<(), SpecError> {
        let mut state = self.shared.state.borrow_mut();
        let state = &mut *state;
        let rules = spec.loss_rules(state.seed, &state.rng.fork(&format!("link/{}", link.0)))?;
        for (direction, rule) in [Direction::Up, Direction::Down].into_iter().zip(rules) {
            let from = state.directions[link.direction(direction)].from;
            state.nodes[from.node.0 as usize].output_rules.extend(rule.map(|rule| (from.index, rule)));
        }
        Ok(())
    }

    /// Adds a static route to the node of `via`: packets for `prefix`/`length` leave through `via`. Static routes take
    /// precedence over computed routes.
    pub fn route(&self, prefix: IpAddr, length: u8, via: InterfaceId) {
        let mut state = self.shared.state.borrow_mut();
        state.nodes[via.node.0 as usize].fixed_routes.push((prefix, length, via.index));
        state.routes_known = false;
    }

    /// Sets the processor time that this host needs for each packet, byte, connection and request. The default is zero.
    pub fn set_processing_cost(&self, host: NodeId, cost: Cost) {
        self.shared.state.borrow_mut().nodes[host.0 as usize].processor.set_cost(cost);
    }

    /// Makes these hosts share one processor, as if they were programs on one machine. The processor does one piece of
    /// work at a time, with the cost that is set for the first host. A program runs until it waits, and only while the
    /// network stacks of these hosts have nothing to do at this instant.
    pub fn share_processor(&self, hosts: &[NodeId]) {
        let Some(first) = hosts.first() else { return };
        let mut state = self.shared.state.borrow_mut();
        for host in hosts {
            state.nodes[host.0 as usize].processor.share(first.0);
        }
        self.shared.executor.programs.share(hosts.iter().map(|host| host.0));
    }

    /// Sets the maximum number of bytes of received packets that wait in each socket of this host to be read. The
    /// default is 8 MiB.
    pub fn set_receive_buffer(&self, host: NodeId, bytes: usize) {
        self.shared.state.borrow_mut().nodes[host.0 as usize].socket_limit = bytes;
    }

    /// Sets whether the host answers packets for unused ports and protocols with ICMP "unreachable". The default is
    /// yes.
    pub fn set_answers_strays(&self, host: NodeId, answers: bool) {
        self.shared.state.borrow_mut().nodes[host.0 as usize].answers_strays = answers;
    }

    /// Sets whether the interfaces of this host write the checksums of transports, as `ethtool -K` does in Linux. The
    /// default is yes. It saves processor time, because a checksum that nobody reads is never computed. The packets, as
    /// captures show them, are the same.
    pub fn set_checksum_offload(&self, host: NodeId, on: bool) {
        self.shared.state.borrow_mut().nodes[host.0 as usize].offloads_checksums = on;
    }

    /// Sets whether a host or router sends any ICMP messages. The default is yes. Without ICMP messages, a path can
    /// become a black hole: packets above the path's MTU vanish without an error (RFC 2923 §2.1).
    pub fn set_sends_icmp(&self, node: NodeId, sends: bool) {
        self.shared.state.borrow_mut().nodes[node.0 as usize].reports = sends;
    }

    /// Schedules `change` for the time `at`. If `at` has passed, the change happens immediately.
    ///
    /// # Errors
    /// The change contains an invalid link description.
    pub fn schedule(&self, at: Instant, change: NetworkChange) -> Result<(), SpecError> {
        if let NetworkChange::Respec(_, spec) = &change {
            spec.build::<crate::packet_buf::PacketBuf>(0, &Rng::new(0))?;
        }
        let mut state = self.shared.state.borrow_mut();
        let state = &mut *state;
        state.changes.add(at.max(state.now), change);
        state.events.set(state.changes_slot, state.changes.next());
        Ok(())
    }

    /// Applies `change` immediately, so that it is in effect for programs that are started after this call.
    ///
    /// # Errors
    /// The errors of [`schedule`](Self::schedule).
    pub fn change(&self, change: NetworkChange) -> Result<(), SpecError> {
        if let NetworkChange::Respec(_, spec) = &change {
            spec.build::<crate::packet_buf::PacketBuf>(0, &Rng::new(0))?;
        }
        self.find_routes();
        self.shared.state.borrow_mut().apply(change);
        Ok(())
    }

    /// Cuts `link` in both directions at the time `at`. The link works again after `span`. If `span` is `None`, the cut
    /// is permanent.
    pub fn outage(&self, link: LinkId, at: Instant, span: Option<Duration>) {
        for (at, change) in outage(link, at, span) {
            // `schedule` returns an error only for an invalid description of a link. An outage contains no description.
            let _ = self.schedule(at, change);
        }
    }

    /// Returns the `World` for programs that run on this host.
    #[must_use]
    pub fn world(&self, host: NodeId) -> SimWorld {
        SimWorld::new(self.shared.clone(), host.0)
    }

    /// Sets how often the runnable tasks may be polled before virtual time must advance. A run that exceeds this number
    /// ends with [`Outcome::Livelock`]. The default is 100,000.
    pub fn set_round_cap(&self, rounds: u64) {
        self.round_cap.set(rounds);
    }

    /// Returns the current virtual time.
    #[must_use]
    pub fn now(&self) -> Instant {
        self.shared.now.get()
    }

    /// Lets virtual time pass until `main` finishes, or `deadline` is reached, or no task and no event is left to run.
    /// Other tasks continue in the next run.
    pub fn run<T>(&self, main: impl Future<Output = T>, deadline: Instant) -> Outcome<T> {
        let mut result = None;
        // `run_main` is not generic over the result, so its loop is compiled only once.
        let outcome = self.run_main(pin!(async { result = Some(main.await) }), deadline);
        match outcome {
            Outcome::Done(()) => Outcome::Done(result.expect("main has finished")),
            Outcome::Deadline => Outcome::Deadline,
            Outcome::Stalled(waiting) => Outcome::Stalled(waiting),
            Outcome::Livelock(waiting) => Outcome::Livelock(waiting),
        }
    }

    fn run_main(&self, mut main: Pin<&mut dyn Future<Output = ()>>, deadline: Instant) -> Outcome<()> {
        self.find_routes();
        let shared = &*self.shared;
        shared.executor.wake_main();
        let mut rounds = 0;
        loop {
            // Run tasks as long as any task is runnable.
            loop {
                rounds += 1;
                if rounds > self.round_cap.get() {
                    return Outcome::Livelock(self.waiting());
                }
                if shared.executor.run_round(&mut main) {
                    return Outcome::Done(());
                }
                if !shared.executor.any_runnable() {
                    break;
                }
            }
            let mut state = shared.state.borrow_mut();
            loop {
                if shared.executor.programs.any_runnable() && state.is_idle_now() {
                    drop(state);
                    shared.executor.run_program();
                    break;
                }
                let Some(at) = state.events.next() else {
                    drop(state);
                    return Outcome::Stalled(self.waiting());
                };
                if at > deadline {
                    state.now = state.now.max(deadline);
                    shared.now.set(state.now);
                    return Outcome::Deadline;
                }
                if at > state.now {
                    state.now = at;
                    shared.now.set(at);
                    rounds = 0;
                }
                if let Some(owner) = state.events.take() {
                    state.fire(owner);
                }
                if shared.executor.any_runnable() {
                    break;
                }
            }
        }
    }

    fn find_routes(&self) {
        let mut state = self.shared.state.borrow_mut();
        let state = &mut *state;
        if !std::mem::replace(&mut state.routes_known, true) {
            find_routes(&mut state.nodes, &state.directions);
        }
    }

    fn waiting(&self) -> Waiting {
        let state = self.shared.state.borrow();
        let alive = self.shared.executor.alive();
        let name = |owner: u32| state.nodes[owner as usize].name.clone();
        Waiting { at: state.now, tasks: alive.into_iter().map(|(owner, task)| (name(owner), task)).collect() }
    }

    /// Adds every event from now on to the digest. With `trail`, also keeps the digest after each event, to find the
    /// first difference between two runs.
    pub fn audit(&self, trail: bool) {
        let mut state = self.shared.state.borrow_mut();
        state.audit = Some(Audit::new(trail));
        state.watched = true;
    }

    /// Returns the digest of all events so far; 0 if [`audit`](Self::audit) was not called.
    #[must_use]
    pub fn digest(&self) -> u64 {
        self.shared.state.borrow().audit.as_ref().map_or(0, Audit::digest)
    }

    /// Returns the time of each event and the digest after the event. Empty unless [`audit`](Self::audit) was called
    /// with `trail` set.
    #[must_use]
    pub fn trail(&self) -> Vec<(Instant, u64)> {
        self.shared.state.borrow().audit.as_ref().map_or_else(Vec::new, |audit| audit.trail().to_vec())
    }

    /// Captures every packet that passes an interface of `host` from now on, in memory and in the pcapng format.
    ///
    /// # Panics
    /// Never, because writing to memory does not fail.
    pub fn capture(&self, host: NodeId) {
        let Ok(capture) = Capture::new() else { panic!("memory takes what is written") };
        self.shared.state.borrow_mut().nodes[host.0 as usize].capture = Some(capture);
    }

    /// Ends the capture of `host` and returns its bytes. The result is empty if there was no capture.
    ///
    /// # Errors
    /// A packet did not fit into the format.
    pub fn finish_capture(&self, host: NodeId) -> io::Result<Vec<u8>> {
        let capture = self.shared.state.borrow_mut().nodes[host.0 as usize].capture.take();
        capture.map_or_else(|| Ok(Vec::new()), Capture::finish)
    }

    /// From now on, records the times at which packets enter a link, leave it, or are lost on it.
    pub fn record_link_events(&self) {
        let mut state = self.shared.state.borrow_mut();
        state.watched = true;
        state.link_events.get_or_insert_with(|| Vec::with_capacity(EXPECTED_LINK_EVENTS));
    }

    /// Returns the link events recorded since the last call, and removes them.
    #[must_use]
    pub fn take_link_events(&self) -> Vec<TapRecord> {
        self.shared.state.borrow_mut().link_events.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Returns the counters of one direction of a link.
    #[must_use]
    pub fn link_counters(&self, link: LinkId, direction: Direction) -> LinkCounters {
        let state = self.shared.state.borrow();
        let entry = &state.directions[link.direction(direction)];
        LinkCounters {
            meter: entry.tap.counts(entry.retired.iter().chain([&entry.chain]).map(Chain::meter)),
            switched_off: entry.tap.switched_off,
        }
    }

    /// Returns the counters of a host or router.
    #[must_use]
    pub fn host_counters(&self, node: NodeId) -> HostCounters {
        self.shared.state.borrow().nodes[node.0 as usize].counters.clone()
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Without this call, a cycle of references would keep the network in memory: tasks hold `SimWorld`s, which hold
        // the executor, which holds the tasks.
        self.shared.executor.clear();
    }
}

impl fmt::Debug for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Network").field("now", &self.now()).finish_non_exhaustive()
    }
}

/// The default maximum number of rounds in which tasks run while the simulated time stays the same. More rounds count
/// as a livelock.
const ROUND_CAP: u64 = 100_000;
/// The number of link events for which room is reserved: those of a page load of 1 MB over two links. Records of more
/// events are moved as the list grows.
const EXPECTED_LINK_EVENTS: usize = 8192;
/// The maximum number of waiting tasks that an error message names.
const SHOWN: usize = 20;
