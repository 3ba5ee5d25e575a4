//! Two endpoints on a small simulated network, for tests.
//!
//! [`Pair`] drives two endpoints in virtual time over one or more paths with delay, loss, reordering, duplication and
//! outages. All random numbers derive from one seed. Tests that deliver packets themselves use [`transmit_all`] or
//! [`transmit_all_bytes`].

mod sockets;

pub use anabranch_base::testing::{TransmittedPacket, transmit_all, transmit_all_bytes};
pub use sockets::SocketPair;

use crate::{Associate, AssociationId, Config, Endpoint, Event};
use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Engine, Instant, Packet, Ratio, Rng};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::net::{IpAddr, SocketAddr};

/// One of the two endpoints.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Side {
    /// The first endpoint.
    A,
    /// The second endpoint.
    B,
}

impl Side {
    /// Returns the other side.
    #[must_use]
    pub fn other(self) -> Self {
        match self {
            Self::A => Self::B,
            Self::B => Self::A,
        }
    }
}

/// The properties of the simulated network.
#[derive(Clone, Debug)]
pub struct Network {
    /// One-way delay.
    pub delay: Duration,
    /// The largest random extra delay of a packet; the smallest is zero. Packets are reordered if this delay exceeds
    /// the time between two packets.
    pub jitter: Duration,
    /// Share of packets that are lost.
    pub loss: Ratio,
    /// Share of packets that are delivered twice.
    pub duplicate: Ratio,
    /// Share of packets that get one flipped bit.
    pub corrupt: Ratio,
    /// Share of ECN-capable packets that get a congestion mark.
    pub mark: Ratio,
    /// Indices of the paths that are cut: all packets on them are lost.
    pub cut: Vec<usize>,
}

impl Default for Network {
    fn default() -> Self {
        Self {
            delay: Duration::from_millis(10),
            jitter: Duration::ZERO,
            loss: Ratio::ZERO,
            duplicate: Ratio::ZERO,
            corrupt: Ratio::ZERO,
            mark: Ratio::ZERO,
            cut: Vec::new(),
        }
    }
}

#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Debug)]
struct PacketInFlight {
    at: Instant,
    order: u64,
    to: Side,
    source: SocketAddr,
    target: SocketAddr,
    ecn: u8,
    tag: u64,
    payload: Vec<u8>,
}

/// A function that is called for each sent packet, with the time, the sender, the packet, and whether the packet is
/// delivered.
pub type Observer = Box<dyn FnMut(Instant, Side, &[u8], bool)>;

/// A function that is called for each sent packet, with its sender and the index of its path. It returns true to drop
/// the packet.
pub type Censor = Box<dyn FnMut(Side, usize, &[u8]) -> bool>;

/// Two endpoints and the network between them.
///
/// ```
/// use anabranch_base::Ratio;
/// use anabranch_sctp::{testing::Pair, Config, Message};
///
/// let (mut pair, id, there) = Pair::associated(&Config::default());
/// pair.network.loss = Ratio::new(1, 10).expect("a share");
/// for _ in 0..20 {
///     pair.a.send(pair.now, id, Message::default(), &[7; 1_000])?;
/// }
/// for _ in 0..30 {
///     pair.settle();
/// }
/// let read = pair.b.recv_bytes(pair.now, there, 0, &mut [0; 30_000], |_| true)?;
/// assert_eq!(read.0, 20_000, "every byte, whatever is lost");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Pair {
    /// The current virtual time.
    pub now: Instant,
    /// The first endpoint.
    pub a: Endpoint,
    /// The second endpoint.
    pub b: Endpoint,
    /// The properties of the network.
    pub network: Network,
    /// Drops selected packets, in addition to the network's random loss.
    pub lose: Option<Censor>,
    /// Observes every sent packet.
    pub observer: Option<Observer>,
    /// Number of packets sent so far.
    pub sent: u64,
    rng: Rng,
    in_flight: BinaryHeap<Reverse<PacketInFlight>>,
    order: u64,
}

/// Returns the address of a side on a path (IPv4 on paths with an even index, IPv6 on the others).
#[must_use]
pub fn address(side: Side, path: usize) -> SocketAddr {
    let host = match side {
        Side::A => 1,
        Side::B => 2,
    };
    if path.is_multiple_of(2) {
        SocketAddr::from(([10, 0, path as u8, host], 0))
    } else {
        let ip: IpAddr = [0xfd00, path as u16, 0, 0, 0, 0, 0, u16::from(host)].into();
        SocketAddr::new(ip, 0)
    }
}

impl Pair {
    /// Creates two endpoints with `paths` addresses each. All random numbers derive from `seed`.
    #[must_use]
    pub fn new(config_a: Config, config_b: Config, paths: usize, seed: u64) -> Self {
        let rng = Rng::new(seed);
        let addresses = |side| (0..paths).map(|path| address(side, path)).collect::<Vec<_>>();
        Self {
            now: Instant::from_millis(1),
            a: Endpoint::new(config_a, addresses(Side::A), rng.fork("a")),
            b: Endpoint::new(config_b, addresses(Side::B), rng.fork("b")),
            network: Network::default(),
            lose: None,
            observer: None,
            sent: 0,
            rng: rng.fork("network"),
            in_flight: BinaryHeap::new(),
            order: 0,
        }
    }

    /// Creates two endpoints with one address each, and an established association from the first endpoint to port 80
    /// of the second. Returns the identifier of the association at each endpoint.
    ///
    /// # Panics
    /// If no association can be established with `config`.
    #[must_use]
    pub fn associated(config: &Config) -> (Self, AssociationId, AssociationId) {
        let mut pair = Self::new(config.clone(), config.clone(), 1, 1);
        let ask = Associate::to(address(Side::B, 0), 80);
        let (Ok(()), Ok(here)) = (pair.b.listen(80), pair.a.associate(pair.now, ask)) else {
            panic!("both ports are free");
        };
        pair.settle();
        pair.events(Side::A);
        let accepted = pair.events(Side::B).into_iter().find_map(|event| match event {
            Event::Accepted { id, .. } => Some(id),
            _ => None,
        });
        let Some(there) = accepted else { panic!("no association comes up") };
        (pair, here, there)
    }

    /// Runs the network for one second of virtual time.
    pub fn settle(&mut self) {
        let until = self.now + Duration::from_secs(1);
        self.run(until, |_| false);
    }

    /// Returns the endpoint of a side.
    pub fn endpoint(&mut self, side: Side) -> &mut Endpoint {
        match side {
            Side::A => &mut self.a,
            Side::B => &mut self.b,
        }
    }

    /// Lets `side` send all packets that it can send now.
    pub fn flush(&mut self, side: Side) {
        let now = self.now;
        for packet in transmit_all(self.endpoint(side), now) {
            self.put(side, packet);
        }
    }

    fn put(&mut self, side: Side, packet: TransmittedPacket) {
        self.sent += 1;
        let path = (0..16)
            .find(|&path| [Side::A, Side::B].iter().any(|&s| address(s, path).ip() == packet.target.ip()));
        let cut = path.is_some_and(|path| self.network.cut.contains(&path));
        let chosen = self.lose.as_mut().is_some_and(|lose| lose(side, path.unwrap_or(0), &packet.bytes));
        let lost = cut || chosen || self.rng.chance(self.network.loss);
        if let Some(observer) = &mut self.observer {
            observer(self.now, side, &packet.bytes, !lost);
        }
        if lost {
            return;
        }
        let copies = 1 + usize::from(self.rng.chance(self.network.duplicate));
        for _ in 0..copies {
            let mut payload = packet.bytes.clone();
            if self.rng.chance(self.network.corrupt) {
                let at = self.rng.below(payload.len() as u64) as usize;
                payload[at] ^= 1 << self.rng.below(8);
            }
            let marked = packet.ecn != Ecn::NotEct && self.rng.chance(self.network.mark);
            self.order += 1;
            self.in_flight.push(Reverse(PacketInFlight {
                at: self.now + self.network.delay + self.rng.duration_up_to(self.network.jitter),
                order: self.order,
                to: side.other(),
                source: packet.source,
                target: packet.target,
                ecn: if marked { Ecn::Ce as u8 } else { packet.ecn as u8 },
                tag: packet.tag,
                payload,
            }));
        }
    }

    /// Runs to the next event, but not beyond `until`. Returns false if there is no event up to `until`.
    pub fn step(&mut self, until: Instant) -> bool {
        self.flush(Side::A);
        self.flush(Side::B);
        let arrival = self.in_flight.peek().map(|Reverse(in_flight)| in_flight.at);
        let timeouts = [self.a.poll_timeout(), self.b.poll_timeout()];
        let next = timeouts.into_iter().chain([arrival]).flatten().min();
        let Some(next) = next.filter(|&next| next <= until) else {
            self.now = until;
            return false;
        };
        self.now = self.now.max(next);
        while self.in_flight.peek().is_some_and(|Reverse(in_flight)| in_flight.at <= self.now) {
            if let Some(Reverse(in_flight)) = self.in_flight.pop() {
                let now = self.now;
                let packet = Packet {
                    source: in_flight.source,
                    target: in_flight.target,
                    ecn: Ecn::from_bits(in_flight.ecn),
                    tag: in_flight.tag,
                    payload: &in_flight.payload,
                };
                self.endpoint(in_flight.to).handle_packet(now, packet);
                // The receiver answers after each packet, like a driver that reads one packet at a time.
                self.flush(in_flight.to);
            }
        }
        for side in [Side::A, Side::B] {
            let now = self.now;
            if self.endpoint(side).poll_timeout().is_some_and(|at| at <= now) {
                self.endpoint(side).handle_timeout(now);
                self.flush(side);
                let next = self.endpoint(side).poll_timeout();
                assert!(next.is_none_or(|next| next > now), "{side:?} makes no progress at {now}");
            }
        }
        true
    }

    /// Runs until `done` returns true or the virtual time is `until`. Returns the last result of `done`.
    pub fn run(&mut self, until: Instant, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        loop {
            if done(self) {
                return true;
            }
            if !self.step(until) {
                return done(self);
            }
        }
    }

    /// Removes and returns the pending events of a side.
    pub fn events(&mut self, side: Side) -> Vec<Event> {
        std::iter::from_fn(|| self.endpoint(side).poll_event()).collect()
    }
}

impl std::fmt::Debug for Pair {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Pair").field("now", &self.now).field("sent", &self.sent).finish_non_exhaustive()
    }
}
