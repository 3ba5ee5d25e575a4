//! Two endpoints with an in-memory network between them.
//!
//! Network `n` joins A's address `10.0.n.1` to B's address `10.0.n.2`. A packet has the delay of the network that
//! contains its destination. The content of a message is a fixed function of its number, so that a receiver can check
//! every byte.

#![allow(dead_code, reason = "each test binary uses a part")]

pub mod app;
pub mod rules;

use anabranch_base::engine::IcmpKind;
use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Engine, Icmp, Instant, Rng, SendBatch};
/// A packet in flight.
pub use anabranch_sctp::testing::TransmittedPacket as Flight;
use anabranch_sctp::{Associate, AssociationId, AssociationState, Config, Endpoint, Event};
use anabranch_wire::ladder::{Ladder, Side, Transport};
use app::App;
use rules::{Action, Rule};
use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

pub const A: Side = Side::Left;
pub const B: Side = Side::Right;
/// The port on which B listens.
pub const PORT: u16 = 80;

/// One endpoint and its application.
pub struct TestEndpoint {
    pub engine: Endpoint,
    pub app: App,
    /// All associations of this end, in the order in which they began.
    pub ids: Vec<AssociationId>,
    /// The events that the engine has reported.
    pub events: Vec<Event>,
}

/// The MTU of a network, including the IP header.
#[derive(Clone, Copy, Debug)]
pub struct Narrow {
    pub mtu: usize,
    /// Whether the network sends an ICMP message to the sender of a dropped packet.
    pub sends_icmp: bool,
}

/// An observer that is called for every packet and after every step.
pub trait Watch {
    /// Called when a packet is sent, before the network decides the packet's fate.
    fn sent(&mut self, net: &Net, from: Side, flight: &Flight);
    /// Called before a packet is delivered to side `to`.
    fn arrives(&mut self, net: &Net, to: Side, flight: &Flight);
    /// Called when all work that is due at this instant is done.
    fn settled(&mut self, net: &Net);
}

/// Decides what the network does with a packet. Returns the copies that arrive, possibly with changed bytes, each with
/// its additional delay. An empty list means that the packet is lost.
pub type Fate<'a> = dyn FnMut(Instant, Side, &Flight) -> Vec<(Duration, Flight)> + 'a;

/// The two endpoints and the network between them.
pub struct Net {
    pub now: Instant,
    pub ends: [TestEndpoint; 2],
    pub in_flight: BTreeMap<(Instant, u64), Flight>,
    packets_sent: u64,
    /// The number of the first network. Networks are numbered consecutively.
    first: usize,
    /// The one-way delay of each network.
    pub delays: Vec<Duration>,
    pub rules: Vec<Rule>,
    pub ladder: Ladder,
    /// Whether packets and events are added to the ladder diagram.
    pub draws_ladder: bool,
    /// The networks that lose every packet.
    pub dead: Vec<usize>,
    /// The networks with a reduced MTU, by their number.
    pub narrow: BTreeMap<usize, Narrow>,
    batch: SendBatch,
}

/// Returns the address of `side` in network `n`. Networks are counted from 1.
pub fn address(side: Side, n: usize) -> SocketAddr {
    let host = if side == A { 1 } else { 2 };
    match n {
        V6 => SocketAddr::from((Ipv6Addr::new(0x2001, 0xdb8, 0, n as u16, 0, 0, 0, host), 0)),
        _ => {
            let port = if n == IN_UDP { 9899 } else { 0 };
            SocketAddr::from((Ipv4Addr::new(10, 0, n as u8, host as u8), port))
        }
    }
}

/// The number of the network that uses IPv6.
pub const V6: usize = 6;
/// The number of the network in which SCTP is carried in UDP.
pub const IN_UDP: usize = 9;

/// Returns the number of the network to which an address belongs.
pub fn network(address: IpAddr) -> usize {
    match address {
        IpAddr::V4(v4) => usize::from(v4.octets()[2]),
        IpAddr::V6(v6) => usize::from(v6.segments()[3]),
    }
}

/// Returns the configuration of the named profile, after setting the knobs in `changes`.
pub fn config(profile: &str, changes: &[(&str, &str)]) -> Config {
    let mut config = Config::profile(profile).expect("a profile");
    for (key, value) in changes {
        config.set(key, value).expect("a knob");
    }
    config
}

impl Net {
    /// Creates two endpoints with one address in each of `delays.len()` networks. B listens on [`PORT`].
    pub fn new(seed: u64, configs: [Config; 2], delays: &[Duration]) -> Self {
        Self::numbered_from(1, seed, configs, delays)
    }

    /// Like [`new`](Self::new), but the networks are numbered from `first`. The number is part of each host's address.
    pub fn numbered_from(first: usize, seed: u64, configs: [Config; 2], delays: &[Duration]) -> Self {
        let numbers = || first..first + delays.len();
        let rng = Rng::new(seed);
        let mut ladder = Ladder::new(Transport::Sctp, "A", "B");
        for side in [A, B] {
            for n in numbers() {
                let letter = if side == A { "A" } else { "B" };
                let name = if delays.len() == 1 { letter.to_owned() } else { format!("{letter}.{n}") };
                ladder.set_side(address(side, n).ip(), side, &name);
            }
        }
        let [a, b] = configs;
        let end = |side: Side, config: Config, label: &str| TestEndpoint {
            engine: Endpoint::new(config, numbers().map(|n| address(side, n)).collect(), rng.fork(label)),
            app: App::default(),
            ids: Vec::new(),
            events: Vec::new(),
        };
        let mut ends = [end(A, a, "a"), end(B, b, "b")];
        ends[1].engine.listen(PORT).expect("the port is free");
        Self {
            now: Instant::ZERO,
            ends,
            in_flight: BTreeMap::new(),
            packets_sent: 0,
            first,
            delays: delays.to_vec(),
            rules: Vec::new(),
            ladder,
            draws_ladder: true,
            dead: Vec::new(),
            narrow: BTreeMap::new(),
            batch: SendBatch::new(1),
        }
    }

    pub fn end(&mut self, side: Side) -> &mut TestEndpoint {
        &mut self.ends[side as usize]
    }

    /// Returns the latest association of a side.
    pub fn id(&self, side: Side) -> AssociationId {
        *self.ends[side as usize].ids.last().expect("an association")
    }

    /// Opens an association to the other side. `side` knows only the first `known` addresses of the other side.
    pub fn associate(&mut self, side: Side, known: usize) -> AssociationId {
        self.associate_from(side, known, None, PORT)
    }

    /// Like [`associate`](Self::associate), but from a given local port to a given port.
    pub fn associate_from(
        &mut self,
        side: Side,
        known: usize,
        local_port: Option<u16>,
        peer_port: u16,
    ) -> AssociationId {
        let peer = (self.first..self.first + known).map(|n| address(side.other(), n)).collect();
        let ask = Associate { peer, peer_port, local_port, streams: None };
        let now = self.now;
        self.end(side.other()).app.forget_history();
        let end = self.end(side);
        let id = end.engine.associate(now, ask).expect("an association");
        end.ids.push(id);
        id
    }

    /// Reboots the host of `side`. Its new endpoint `engine` has no state, and the host's packets in flight are lost.
    /// Messages in either direction that were not received yet may be lost.
    pub fn reboot(&mut self, side: Side, engine: Endpoint) {
        let now = self.now;
        let other = self.end(side.other());
        other.read_all(now);
        other.app.forgive_rebooted();
        let end = self.end(side);
        end.engine = engine;
        end.ids.clear();
        end.events.clear();
        end.app.forgive();
        self.in_flight
            .retain(|_, flight| address(side, network(flight.source.ip())).ip() != flight.source.ip());
        self.note(&format!("        {} reboots", if side == A { "A" } else { "B" }));
    }

    /// Puts a packet into network `n` as if `from` had sent it.
    pub fn inject(&mut self, from: Side, n: usize, bytes: Vec<u8>) {
        let flight = Flight {
            source: address(from, n),
            target: address(from.other(), n),
            ecn: Ecn::NotEct,
            tag: 0,
            may_fragment: false,
            bytes,
        };
        self.launch(from, flight, "injected", &mut *rules_fate());
    }

    /// Delivers to `side` an ICMP message about a packet that `side` has sent.
    pub fn icmp(&mut self, side: Side, icmp: &Icmp, quoted: &[u8]) {
        let now = self.now;
        self.end(side).engine.handle_icmp(now, icmp, quoted);
    }

    /// Adds a line of text to the ladder diagram.
    pub fn note(&mut self, text: &str) {
        if self.draws_ladder {
            self.ladder.note(self.now, text);
        }
    }

    /// Runs until all work that is due at `until` or earlier is done.
    pub fn run_until(&mut self, until: Instant, fate: &mut Fate<'_>, watch: Option<&mut dyn Watch>) {
        let mut watch = watch;
        loop {
            self.settle(fate, &mut watch);
            let next = [
                self.in_flight.keys().next().map(|key| key.0),
                self.ends[0].engine.poll_timeout(),
                self.ends[1].engine.poll_timeout(),
                self.ends[0].app.next_read(),
                self.ends[1].app.next_read(),
            ];
            let Some(next) = next.into_iter().flatten().min().filter(|&at| at <= until) else {
                self.now = self.now.max(until);
                return;
            };
            assert!(next >= self.now, "time runs forward: {next} after {}", self.now);
            self.now = next;
            while let Some(entry) = self.in_flight.first_entry() {
                if entry.key().0 > self.now {
                    break;
                }
                let flight = entry.remove();
                let to =
                    if address(A, network(flight.target.ip())).ip() == flight.target.ip() { A } else { B };
                if let Some(watch) = watch.as_deref_mut() {
                    watch.arrives(self, to, &flight);
                }
                let now = self.now;
                self.end(to).engine.handle_packet(now, flight.packet());
                self.settle(fate, &mut watch);
            }
            for side in [A, B] {
                let now = self.now;
                let end = self.end(side);
                if end.engine.poll_timeout().is_some_and(|at| at <= now) {
                    end.engine.handle_timeout(now);
                }
                if end.app.next_read().is_some_and(|at| at <= now) {
                    end.read_all(now);
                }
            }
            self.settle(fate, &mut watch);
            for side in [A, B] {
                let (now, due) = (self.now, self.end(side).engine.poll_timeout());
                assert!(due.is_none_or(|at| at > now), "{side:?}: due at {due:?}, drained at {now}");
            }
        }
    }

    /// Carries out all work that is due now: delivers the events and sends the packets of both engines.
    fn settle(&mut self, fate: &mut Fate<'_>, watch: &mut Option<&mut dyn Watch>) {
        loop {
            let mut busy = false;
            for side in [A, B] {
                busy |= self.drain_events(side);
                busy |= self.drain_packets(side, fate, watch);
            }
            if !busy {
                break;
            }
        }
        if let Some(watch) = watch.as_deref_mut() {
            watch.settled(self);
        }
    }

    fn drain_events(&mut self, side: Side) -> bool {
        let mut busy = false;
        while let Some(event) = self.end(side).engine.poll_event() {
            busy = true;
            let now = self.now;
            if let Event::Accepted { id, .. } = event {
                self.settle_accounts(side);
                self.end(side).ids.push(id);
            }
            if let Event::Restarted { .. } = event {
                // The messages that this side sent in the previous association are lost with that association.
                self.end(side.other()).app.forgive();
            }
            let end = self.end(side);
            let text = app::describe(&event);
            end.events.push(event.clone());
            let heard = end.hear(now, &event);
            for line in text.into_iter().chain(heard) {
                let name = if side == A { "A" } else { "B" };
                self.note(&format!("        {name}: {line}"));
            }
        }
        busy
    }

    /// Corrects the list of expected messages when DATA is delivered in two associations. This happens when `side`
    /// gives up an association while the peer still waits for the COOKIE ACK. The peer then repeats the COOKIE ECHO
    /// with the bundled DATA, which sets up a second association at `side`. SCTP delivers a message exactly once only
    /// within one association.
    fn settle_accounts(&mut self, side: Side) {
        let [a, b] = &mut self.ends;
        let (end, peer) = if side == A { (a, b) } else { (b, a) };
        let info = peer.ids.last().and_then(|&id| peer.engine.info(id));
        if let Some(info) = info
            && matches!(info.state, AssociationState::CookieWait | AssociationState::CookieEchoed)
            && !end.ids.is_empty()
        {
            let given_up = peer.app.given_up.clone();
            end.app.owe_again(info.buffered, &given_up);
            peer.app.forgive();
        }
    }

    fn drain_packets(&mut self, side: Side, fate: &mut Fate<'_>, watch: &mut Option<&mut dyn Watch>) -> bool {
        let mut busy = false;
        let mut batch = std::mem::replace(&mut self.batch, SendBatch::new(1));
        loop {
            batch.clear();
            let now = self.now;
            if !self.end(side).engine.poll_transmit(now, &mut batch) {
                assert!(batch.is_empty(), "false with packets in the batch");
                break;
            }
            busy = true;
            assert!(!batch.is_empty(), "true without a packet");
            let flights: Vec<_> = batch
                .packets()
                .map(|packet| Flight {
                    source: packet.source,
                    target: packet.target,
                    ecn: packet.ecn,
                    tag: packet.tag,
                    may_fragment: batch.may_fragment,
                    bytes: packet.payload.to_vec(),
                })
                .collect();
            for flight in flights {
                if let Some(watch) = watch.as_deref_mut() {
                    watch.sent(self, side, &flight);
                }
                self.launch(side, flight, "", fate);
            }
        }
        self.batch = batch;
        busy
    }

    fn launch(&mut self, from: Side, flight: Flight, remark: &str, fate: &mut Fate<'_>) {
        let mut line = String::new();
        let mut action = None;
        if self.draws_ladder {
            line = self.ladder.line(self.now, flight.source.ip(), flight.target.ip(), &flight.bytes);
            // The rules are compared with the line of the ladder diagram, without the time and repeated spaces.
            let words = line.split_whitespace().skip(1).collect::<Vec<_>>().join(" ");
            action = self.rules.iter_mut().find_map(|rule| rule.applies(from, &words));
        }
        let to_network = network(flight.target.ip());
        let dead = self.dead.contains(&to_network) || self.dead.contains(&network(flight.source.ip()));
        let delay = self.delays[to_network - self.first];
        let headers =
            if flight.target.is_ipv6() { 40 } else { 20 } + if flight.target.port() == 0 { 0 } else { 8 };
        let narrow = self.narrow.get(&to_network).filter(|narrow| flight.bytes.len() + headers > narrow.mtu);
        if let Some(&Narrow { mtu, sends_icmp: tells }) = narrow
            && !flight.may_fragment
        {
            if self.draws_ladder {
                self.ladder.push(&line, if tells { "✗ too big, told" } else { "✗ too big" });
            }
            if tells {
                let kind = IcmpKind::TooBig(mtu as u32);
                let icmp = Icmp { kind, source: flight.source.ip(), target: flight.target.ip() };
                self.icmp(from, &icmp, &flight.bytes);
            }
            return;
        }
        let cut = narrow.is_some();
        let mut flight = flight;
        let mut copies = vec![Duration::ZERO];
        let mut remark = remark.to_owned();
        match action {
            _ if dead => copies.clear(),
            Some(Action::Lose) => copies.clear(),
            Some(Action::Delay(more)) => {
                copies = vec![more];
                remark = format!("delayed {} ms", more.as_secs_f64() * 1_000.0);
            }
            Some(Action::Duplicate(later)) => {
                copies.push(later);
                remark = "duplicated".into();
            }
            Some(Action::Corrupt) => {
                let middle = flight.bytes.len() / 2;
                flight.bytes[middle] ^= 0x40;
                remark = "✗ corrupted".into();
            }
            Some(Action::Mark) => {
                flight.ecn = Ecn::Ce;
                remark = "marked CE".into();
            }
            None => {}
        }
        if copies.is_empty() {
            remark = "✗ lost".into();
        } else if cut && remark.is_empty() {
            remark = "in fragments".into();
        }
        if self.draws_ladder {
            self.ladder.push(&line, &remark);
        }
        for more in copies {
            for (extra, copy) in fate(self.now, from, &flight) {
                self.packets_sent += 1;
                self.in_flight.insert((self.now + delay + more + extra, self.packets_sent), copy);
            }
        }
    }
}

impl Drop for Net {
    /// Prints the ladder diagram if the test fails.
    fn drop(&mut self) {
        if std::thread::panicking() && self.draws_ladder {
            eprintln!("{}", self.ladder.text());
        }
    }
}

/// Returns a function that delivers every packet without additional delay. The rules of the scenario still apply.
pub fn rules_fate() -> Box<Fate<'static>> {
    Box::new(|_, _, flight| vec![(Duration::ZERO, flight.clone())])
}
