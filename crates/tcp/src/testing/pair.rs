//! The pair of endpoints and the network between them.

use crate::{Config, ConnectionId, Endpoint, Event};
use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Engine, Icmp, IcmpKind, Instant, Packet, Rng, SendBatch};
use anabranch_wire::ladder::{Ladder, Transport};
use anabranch_wire::tcp::{Flags, Header, Options, Seq, seal};
use std::collections::{BTreeMap, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};

pub use anabranch_wire::ladder::Side;

/// What the simulated network does with a packet.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Fate {
    /// The packet arrives after the delay of the network.
    Arrive,
    /// The packet is lost.
    Lose,
    /// The sender's own packet filter drops the packet and tells the sender.
    Refuse,
    /// The packet arrives later than the network's delay, by this duration.
    Late(Duration),
    /// The packet arrives twice; the value is the time between the two arrivals.
    Twice(Duration),
    /// The packet arrives with the bit at this index flipped.
    Damage(usize),
    /// The packet arrives with a CE mark (RFC 3168).
    Mark,
    /// The packet is too large for the path, whose MTU in bytes is the value. The packet is dropped, and its sender
    /// gets an ICMP message.
    TooBig(u32),
}

/// Decides the fate of the n-th packet that a side sends (counted from 1).
pub type Judge = Box<dyn FnMut(Instant, Side, u64, &[u8]) -> Fate>;

/// A function that inspects both endpoints, to check invariants.
pub type Check = Box<dyn FnMut(&[Endpoint; 2])>;

struct PacketInFlight {
    to: Side,
    source: SocketAddr,
    target: SocketAddr,
    ecn: Ecn,
    tag: u64,
    bytes: Vec<u8>,
    icmp: Option<Icmp>,
}

/// Two endpoints with a network between them. The left endpoint connects; the right endpoint listens on port 80.
pub struct Pair {
    /// The left and the right endpoint.
    pub hosts: [Endpoint; 2],
    /// The current time.
    pub now: Instant,
    /// The one-way delay.
    pub delay: Duration,
    /// For each side, the ID of the connection under test, once it is known.
    pub ids: [Option<ConnectionId>; 2],
    /// The bytes that the application of each side has read.
    pub received: [Vec<u8>; 2],
    /// For each side, whether its application reads data as soon as data is available.
    pub reads: [bool; 2],
    /// All events so far, with their time and side.
    pub events: Vec<(Instant, Side, Event)>,
    /// A function that is called after every network event, to check invariants.
    pub check: Option<Check>,
    judge: Judge,
    in_flight: BTreeMap<(Instant, u64), PacketInFlight>,
    order: u64,
    sent: [u64; 2],
    pending: [VecDeque<u8>; 2],
    finishing: [bool; 2],
    ladder: Ladder,
    draws_ladder: bool,
    batch: SendBatch,
    scratch: Vec<u8>,
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("now", &self.now).field("hosts", &self.hosts).finish_non_exhaustive()
    }
}

/// The left host's address.
pub const LEFT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));
/// The right host's address.
pub const RIGHT: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 2));

impl Pair {
    /// Creates two endpoints with the same settings and a one-way delay of 50 ms.
    #[must_use]
    pub fn new(config: &Config) -> Self {
        Self::with(config.clone(), config.clone(), 1)
    }

    /// Creates two endpoints, each with its own settings.
    #[must_use]
    pub fn with(left: Config, right: Config, seed: u64) -> Self {
        let rng = Rng::new(seed);
        let mut hosts = [
            Endpoint::new(left, vec![LEFT], rng.fork("left")),
            Endpoint::new(right, vec![RIGHT], rng.fork("right")),
        ];
        let listening = hosts[1].listen(80, 0);
        assert!(listening.is_ok(), "nobody else listens");
        let mut ladder = Ladder::new(Transport::Tcp, "A", "B");
        ladder.set_side(LEFT, Side::Left, "A");
        ladder.set_side(RIGHT, Side::Right, "B");
        Self {
            hosts,
            now: Instant::ZERO,
            delay: Duration::from_millis(50),
            ids: [None; 2],
            received: [Vec::new(), Vec::new()],
            reads: [true; 2],
            events: Vec::new(),
            check: None,
            judge: Box::new(|_, _, _, _| Fate::Arrive),
            in_flight: BTreeMap::new(),
            order: 0,
            sent: [0; 2],
            pending: [VecDeque::new(), VecDeque::new()],
            finishing: [false; 2],
            ladder,
            draws_ladder: true,
            batch: SendBatch::new(1),
            scratch: vec![0; 65_536],
        }
    }

    /// Returns the pair with the ladder diagram turned off.
    #[must_use]
    pub fn silent(mut self) -> Self {
        self.draws_ladder = false;
        self
    }

    /// Sets the number of packets that an endpoint can put into one batch when it sends.
    #[must_use]
    pub fn batching(mut self, segments: usize) -> Self {
        self.batch = SendBatch::new(segments);
        self
    }

    /// Sets the function that decides the fate of each packet.
    pub fn judge(&mut self, judge: impl FnMut(Instant, Side, u64, &[u8]) -> Fate + 'static) {
        self.judge = Box::new(judge);
    }

    /// Loses the packets of `side` whose numbers are in `numbers`. Packets are counted from 1 in the order of sending.
    pub fn lose(&mut self, side: Side, numbers: &'static [u64]) {
        self.judge(
            move |_, from, n, _| if from == side && numbers.contains(&n) { Fate::Lose } else { Fate::Arrive },
        );
    }

    /// Loses the first transmission of the data segments with these numbers. Segment 1 is the first `size` bytes of the
    /// stream.
    pub fn lose_data(&mut self, side: Side, numbers: &'static [u64], size: u64) {
        let mut lost = Vec::new();
        let mut first = Some(Seq(self.first_numbers()[side as usize])).filter(|first| first.0 != 0);
        self.judge(move |_, from, _, bytes| {
            let Ok(segment) = anabranch_wire::tcp::Segment::parse(bytes) else { return Fate::Arrive };
            if from != side {
                return Fate::Arrive;
            }
            if segment.header.flags.has(Flags::SYN) {
                first = Some(segment.header.seq.next());
            }
            let (Some(first), false) = (first, segment.payload.is_empty()) else { return Fate::Arrive };
            let index = u64::from(segment.header.seq.distance_from(first)) / size + 1;
            if numbers.contains(&index) && !lost.contains(&index) {
                lost.push(index);
                return Fate::Lose;
            }
            Fate::Arrive
        });
    }

    /// Makes the left side connect.
    pub fn connect(&mut self) {
        let target = SocketAddr::new(RIGHT, 80);
        let id = self.hosts[0].connect(self.now, None, target);
        assert!(id.is_ok(), "the left side may connect");
        self.ids[0] = id.ok();
        self.pump();
    }

    /// Makes the left side connect, and runs until both sides know that the connection is open.
    pub fn open(&mut self) {
        self.connect();
        while self.ids[1].is_none() && self.step() {}
        self.settle();
    }

    /// Runs until no packet is in flight. Timers may still be set.
    pub fn settle(&mut self) {
        while !self.in_flight.is_empty() && self.step() {}
    }

    /// Writes `data` for the application of a side. Data that does not fit into the send buffer is written later.
    pub fn write(&mut self, side: Side, data: &[u8]) {
        self.pending[side as usize].extend(data);
        self.feed(side as usize);
        self.pump();
    }

    /// Like [`write`](Self::write), but does not send segments yet.
    pub fn queue(&mut self, side: Side, data: &[u8]) {
        self.pending[side as usize].extend(data);
        self.feed(side as usize);
    }

    /// Finishes the sending direction of a side once all its data has been written.
    pub fn finish(&mut self, side: Side) {
        self.finishing[side as usize] = true;
        self.feed(side as usize);
        self.pump();
    }

    /// Makes a side abort its connection.
    pub fn abort(&mut self, side: Side) {
        if let Some(id) = self.ids[side as usize] {
            self.hosts[side as usize].abort(self.now, id);
        }
        self.pump();
    }

    /// Reads all data that is available to the application of a side.
    pub fn read(&mut self, side: Side) {
        self.drain(side as usize);
        self.pump();
    }

    /// Returns whether the endpoint of a side has accepted all data that the application wrote so far.
    #[must_use]
    pub fn is_fed(&self, side: Side) -> bool {
        self.pending[side as usize].is_empty()
    }

    /// Returns the endpoint of a side.
    pub fn host(&mut self, side: Side) -> &mut Endpoint {
        &mut self.hosts[side as usize]
    }

    /// Returns the connection of a side.
    ///
    /// # Panics
    /// Panics if the side has no connection yet.
    #[must_use]
    pub fn id(&self, side: Side) -> ConnectionId {
        self.ids[side as usize].expect("connected")
    }

    /// Returns the counters of a side's connection.
    ///
    /// # Panics
    /// Panics if the side has no connection.
    #[must_use]
    pub fn stats(&self, side: Side) -> crate::Stats {
        self.hosts[side as usize].stats(self.id(side)).expect("statistics")
    }

    /// Returns the current state of a side's connection.
    ///
    /// # Panics
    /// Panics if the side has no connection.
    #[must_use]
    pub fn info(&self, side: Side) -> crate::Info {
        self.hosts[side as usize].info(self.id(side)).expect("a connection")
    }

    /// Delivers a forged segment to the side `to` now, as if the other side had sent it. `seq` and `ack` are relative,
    /// as in the ladder diagram: the SYN has number 0, the first byte number 1.
    pub fn forge(&mut self, to: Side, flags: Flags, seq: i64, ack: i64, payload: &[u8]) {
        let from = to.other();
        let numbers = self.ladder.numbers();
        let base = |side: Side| numbers.first(side).unwrap_or(1).wrapping_sub(1);
        let (left, right) = (self.left_port(), 80);
        let (source_port, target_port) = if from == Side::Left { (left, right) } else { (right, left) };
        let header = Header {
            source_port,
            target_port,
            seq: Seq(base(from).wrapping_add(seq as u32)),
            ack: Seq(base(to).wrapping_add(ack as u32)),
            flags,
            window: 65_535,
            urgent: 0,
            options: Options::default(),
        };
        self.forge_header(to, &header, payload);
    }

    /// Delivers a forged segment with this header to the side `to`.
    pub fn forge_header(&mut self, to: Side, header: &Header, payload: &[u8]) {
        let (source, target) = if to == Side::Right { (LEFT, RIGHT) } else { (RIGHT, LEFT) };
        let mut bytes = Vec::new();
        header.emit(&mut bytes);
        bytes.extend_from_slice(payload);
        seal(&mut bytes, source, target);
        if self.draws_ladder {
            self.ladder.packet(self.now, source, target, &bytes, "(forged)");
        }
        let packet = Packet {
            source: SocketAddr::new(source, 0),
            target: SocketAddr::new(target, 0),
            ecn: Ecn::NotEct,
            tag: 0,
            payload: &bytes,
        };
        self.hosts[to as usize].handle_packet(self.now, packet);
        self.pump();
    }

    /// Returns the sequence number of each side's first data byte, as in the TCP header; 0 while unknown.
    #[must_use]
    pub fn first_numbers(&self) -> [u32; 2] {
        [Side::Left, Side::Right].map(|side| self.ladder.numbers().first(side).unwrap_or(0))
    }

    fn left_port(&self) -> u16 {
        self.ids[0].and_then(|id| self.hosts[0].info(id)).map_or(50_000, |info| info.local.port())
    }

    /// Delivers an ICMP message to the side `to`, about a packet that this side has sent. `quoted` is the part of the
    /// packet that the message quotes.
    pub fn icmp(&mut self, to: Side, kind: IcmpKind, quoted: &[u8]) {
        let (source, target) = if to == Side::Left { (LEFT, RIGHT) } else { (RIGHT, LEFT) };
        self.hosts[to as usize].handle_icmp(self.now, &Icmp { kind, source, target }, quoted);
        self.pump();
    }

    /// Runs until the time `until`.
    pub fn run_until(&mut self, until: Instant) {
        while self.next_instant().is_some_and(|at| at <= until) {
            self.step();
        }
        self.now = self.now.max(until);
    }

    /// Runs for the duration `span`.
    pub fn run_for(&mut self, span: Duration) {
        self.run_until(self.now + span);
    }

    /// Runs until no packet is in flight and no timer is set, or until the time `limit`.
    pub fn run_to_end(&mut self, limit: Instant) {
        while self.next_instant().is_some_and(|at| at <= limit) {
            self.step();
        }
    }

    fn next_instant(&self) -> Option<Instant> {
        let next_arrival = self.in_flight.first_key_value().map(|((at, _), _)| *at);
        let timers = self.hosts.iter().filter_map(Endpoint::poll_timeout);
        timers.chain(next_arrival).min()
    }

    /// Processes the next event of the network or of a timer. Returns false if there is none.
    ///
    /// # Panics
    /// Panics if an endpoint violates the contract of [`Engine`].
    pub fn step(&mut self) -> bool {
        let Some(at) = self.next_instant() else { return false };
        assert!(at >= self.now, "time runs backwards: a deadline at {at}, now {}", self.now);
        self.now = at;
        let due = self.in_flight.first_key_value().is_some_and(|((when, _), _)| *when <= at);
        if due {
            if let Some((_, packet_in_flight)) = self.in_flight.pop_first() {
                self.deliver(packet_in_flight);
            }
        } else {
            for host in &mut self.hosts {
                if host.poll_timeout().is_some_and(|deadline| deadline <= at) {
                    host.handle_timeout(at);
                }
            }
        }
        self.pump();
        true
    }

    fn deliver(&mut self, packet_in_flight: PacketInFlight) {
        let host = &mut self.hosts[packet_in_flight.to as usize];
        if let Some(icmp) = packet_in_flight.icmp {
            host.handle_icmp(self.now, &icmp, &packet_in_flight.bytes);
            return;
        }
        let packet = Packet {
            source: packet_in_flight.source,
            target: packet_in_flight.target,
            ecn: packet_in_flight.ecn,
            tag: packet_in_flight.tag,
            payload: &packet_in_flight.bytes,
        };
        host.handle_packet(self.now, packet);
    }

    /// Processes all events and sends all packets that the endpoints produce at the current time.
    ///
    /// # Panics
    /// Panics if an endpoint violates the contract of [`Engine`].
    pub fn pump(&mut self) {
        loop {
            let mut busy = false;
            for side in [Side::Left, Side::Right] {
                while let Some(event) = self.hosts[side as usize].poll_event() {
                    busy = true;
                    self.on_event(side, event);
                }
                loop {
                    self.batch.clear();
                    let mut batch = std::mem::replace(&mut self.batch, SendBatch::new(1));
                    let more = self.hosts[side as usize].poll_transmit(self.now, &mut batch);
                    assert_eq!(more, !batch.is_empty(), "what poll_transmit says is what it did");
                    if more {
                        busy = true;
                        self.launch(side, &batch);
                    }
                    self.batch = batch;
                    if !more {
                        break;
                    }
                }
            }
            if !busy {
                break;
            }
        }
        for host in &self.hosts {
            let deadline = host.poll_timeout();
            assert!(deadline.is_none_or(|at| at >= self.now), "a deadline in the past: {deadline:?}");
        }
        if let Some(check) = &mut self.check {
            check(&self.hosts);
        }
    }

    fn launch(&mut self, from: Side, batch: &SendBatch) {
        for packet in batch.packets() {
            self.sent[from as usize] += 1;
            let fate = (self.judge)(self.now, from, self.sent[from as usize], packet.payload);
            if self.draws_ladder {
                let remark = match &fate {
                    Fate::Arrive => String::new(),
                    Fate::Lose => "✗ lost".to_owned(),
                    Fate::Refuse => "✗ refused".to_owned(),
                    Fate::Late(by) => format!("late by {by:?}"),
                    Fate::Twice(by) => format!("again after {by:?}"),
                    Fate::Damage(_) => "✗ damaged".to_owned(),
                    Fate::Mark => "CE".to_owned(),
                    Fate::TooBig(mtu) => format!("✗ larger than {mtu}"),
                };
                let ecn = if packet.ecn == Ecn::NotEct { "" } else { " ECT" };
                let (source, target) = (packet.source.ip(), packet.target.ip());
                let line = self.ladder.line(self.now, source, target, packet.payload) + ecn;
                self.ladder.push(&line, &remark);
            }
            let mut packet_in_flight = PacketInFlight {
                to: from.other(),
                source: packet.source,
                target: packet.target,
                ecn: packet.ecn,
                tag: packet.tag,
                bytes: packet.payload.to_vec(),
                icmp: None,
            };
            let mut at = self.now + self.delay;
            match fate {
                Fate::Arrive => {}
                Fate::Lose => continue,
                Fate::Refuse => {
                    self.hosts[from as usize].handle_local_drop(self.now, packet);
                    continue;
                }
                Fate::Late(by) => at += by,
                Fate::Twice(by) => {
                    let copy = PacketInFlight { bytes: packet_in_flight.bytes.clone(), ..packet_in_flight };
                    self.fly(at + by, copy);
                }
                Fate::Damage(bit) => {
                    let bit = bit % (packet_in_flight.bytes.len() * 8);
                    packet_in_flight.bytes[bit / 8] ^= 1 << (bit % 8);
                }
                Fate::Mark => packet_in_flight.ecn = Ecn::Ce,
                Fate::TooBig(mtu) => {
                    let (source, target) = (packet.source.ip(), packet.target.ip());
                    packet_in_flight.icmp = Some(Icmp { kind: IcmpKind::TooBig(mtu), source, target });
                    packet_in_flight.to = from;
                    packet_in_flight.bytes.truncate(8);
                }
            }
            self.fly(at, packet_in_flight);
        }
    }

    fn fly(&mut self, at: Instant, packet_in_flight: PacketInFlight) {
        self.order += 1;
        self.in_flight.insert((at, self.order), packet_in_flight);
    }

    fn on_event(&mut self, side: Side, event: Event) {
        self.events.push((self.now, side, event));
        let index = side as usize;
        let name = if side == Side::Left { "A" } else { "B" };
        let note = match event {
            Event::Connected { .. } => Some("connected".to_owned()),
            Event::Accepted { id, .. } => {
                self.ids[index].get_or_insert(id);
                Some("accepted".to_owned())
            }
            Event::Finished { .. } => Some("sees the end".to_owned()),
            Event::Closed { reason, .. } => Some(format!("closed: {reason}")),
            Event::Readable { .. } | Event::Writable { .. } => None,
        };
        if let Some(note) = note.filter(|_| self.draws_ladder) {
            let indent = if side == Side::Left { "" } else { "        " };
            self.ladder.note(self.now, &format!("{indent}{name} {note}"));
        }
        if self.reads[index] {
            self.drain(index);
        }
        self.feed(index);
    }

    fn drain(&mut self, index: usize) {
        let Some(id) = self.ids[index] else { return };
        while let Ok(count @ 1..) = self.hosts[index].recv(self.now, id, &mut self.scratch) {
            self.received[index].extend_from_slice(&self.scratch[..count]);
        }
    }

    fn feed(&mut self, index: usize) {
        let Some(id) = self.ids[index] else { return };
        let pending = &mut self.pending[index];
        while !pending.is_empty() {
            match self.hosts[index].send(self.now, id, pending.as_slices().0) {
                Ok(0) => return,
                Ok(taken) => drop(pending.drain(..taken)),
                Err(_) => {
                    pending.clear();
                    return;
                }
            }
        }
        if self.finishing[index] {
            self.hosts[index].finish(self.now, id);
        }
    }

    /// Returns the part of the ladder diagram that was drawn since the last call.
    pub fn ladder(&mut self) -> String {
        self.ladder.take()
    }
}
