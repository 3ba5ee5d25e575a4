//! Attackers list addresses of other hosts in their associations, to lock these hosts out or to have data sent to them
//! (RFC 5062 §2, §5 to §8; RFC 9260 §5.2.2, §5.4).

use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Engine, Instant, Packet, Rng};
use anabranch_sctp::testing::transmit_all;
use anabranch_sctp::{Associate, AssociationId, Config, Endpoint, Event, Message};
use std::collections::BTreeMap;
use std::net::SocketAddr;

const PORT: u16 = 80;
/// The one-way delay between any two hosts.
const DELAY: Duration = Duration::from_millis(10);

const SERVER: usize = 0;
const ATTACKER: usize = 1;
const VICTIM: usize = 2;

/// A packet that was sent and has not arrived, with its addresses.
struct PacketInFlight {
    source: SocketAddr,
    target: SocketAddr,
    bytes: Vec<u8>,
}

/// A network of hosts. Each host owns some addresses, but may also list addresses of other hosts as its own.
struct HijackNet {
    now: Instant,
    hosts: Vec<Endpoint>,
    owners: BTreeMap<SocketAddr, usize>,
    in_flight: BTreeMap<(Instant, u64), PacketInFlight>,
    packets_sent: u64,
    events: Vec<Vec<Event>>,
    /// The number of bytes that were sent to each host.
    bytes_sent_to: Vec<usize>,
    /// The hosts that are switched off.
    silent: Vec<usize>,
    /// Decides whether the network loses a packet. The arguments are the sender, the receiver and the packet.
    censor: fn(usize, usize, &[u8]) -> bool,
}

fn at(host: u8, n: u8) -> SocketAddr {
    SocketAddr::from(([10, 0, host, n], 0))
}

impl HijackNet {
    /// Creates three hosts. The server has one address. The attacker has one address, and also lists the victim's first
    /// address as its own. The victim has two addresses.
    fn new(config: &Config) -> Self {
        let claims = [vec![at(0, 1)], vec![at(1, 1), at(2, 1)], vec![at(2, 1), at(2, 2)]];
        let mut hosts: Vec<_> = claims
            .into_iter()
            .enumerate()
            .map(|(n, addresses)| Endpoint::new(config.clone(), addresses, Rng::new(n as u64)))
            .collect();
        hosts[SERVER].listen(PORT).expect("free");
        let owners = [(at(0, 1), 0), (at(1, 1), 1), (at(2, 1), 2), (at(2, 2), 2)].into_iter().collect();
        Self {
            now: Instant::from_millis(1),
            hosts,
            owners,
            in_flight: BTreeMap::new(),
            packets_sent: 0,
            events: vec![Vec::new(); 3],
            bytes_sent_to: vec![0; 3],
            silent: Vec::new(),
            censor: |_, _, _| false,
        }
    }

    /// Opens an association from `port` of a host to the server.
    fn associate(&mut self, host: usize, port: u16) -> AssociationId {
        let ask = Associate { peer: vec![at(0, 1)], peer_port: PORT, local_port: Some(port), streams: None };
        let now = self.now;
        self.hosts[host].associate(now, ask).expect("an association")
    }

    fn drain(&mut self) {
        for host in 0..self.hosts.len() {
            for packet in transmit_all(&mut self.hosts[host], self.now) {
                // A host cannot send from an address that it does not own. A packet to such an address reaches the
                // address's owner.
                let owner = self.owners.get(&packet.target).copied();
                let honest = self.owners.get(&packet.source) == Some(&host);
                let Some(to) = owner.filter(|_| honest) else { continue };
                self.bytes_sent_to[to] += packet.bytes.len();
                if self.silent.contains(&to) || (self.censor)(host, to, &packet.bytes) {
                    continue;
                }
                self.packets_sent += 1;
                let flight =
                    PacketInFlight { source: packet.source, target: packet.target, bytes: packet.bytes };
                self.in_flight.insert((self.now + DELAY, self.packets_sent), flight);
            }
            while let Some(event) = self.hosts[host].poll_event() {
                self.events[host].push(event);
            }
        }
    }

    fn run(&mut self, ms: u64) {
        let until = self.now + Duration::from_millis(ms);
        loop {
            self.drain();
            let timeouts = self.hosts.iter().filter_map(Engine::poll_timeout);
            let next = timeouts.chain(self.in_flight.keys().map(|key| key.0)).min();
            let Some(next) = next.filter(|&next| next <= until) else { break };
            self.now = self.now.max(next);
            while let Some(entry) = self.in_flight.first_entry().filter(|entry| entry.key().0 <= self.now) {
                let flight = entry.remove();
                let to = self.owners[&flight.target];
                let (source, target) = (flight.source, flight.target);
                let packet = Packet { source, target, ecn: Ecn::NotEct, tag: 0, payload: &flight.bytes };
                self.hosts[to].handle_packet(self.now, packet);
            }
            for host in &mut self.hosts {
                host.handle_timeout(self.now);
            }
        }
        self.now = until;
    }

    fn established(&self, host: usize) -> bool {
        self.events[host].iter().any(|event| matches!(event, Event::Established { .. }))
    }

    fn closed(&self, host: usize) -> bool {
        self.events[host].iter().any(|event| matches!(event, Event::Closed { .. }))
    }

    /// Returns the association that the server accepted last.
    fn accepted(&self) -> AssociationId {
        let accepted = self.events[SERVER].iter().rev().find_map(|event| match event {
            Event::Accepted { id, .. } => Some(*id),
            _ => None,
        });
        accepted.expect("an association")
    }
}

fn config(changes: &[(&str, &str)]) -> Config {
    let mut config = Config::default();
    for (key, value) in changes {
        config.set(key, value).expect("a knob");
    }
    config
}

/// RFC 5062 §2: the attacker's association lists the victim's address, and uses the port that the victim will use. §2.3
/// and RFC 9260 §5.4: the server probes the listed address at once. The victim has no such association and answers with
/// an ABORT (RFC 9260 §8.4). So the attacker's association has ended before the victim opens its own.
#[test]
fn camping_on_an_address_ends_with_the_first_heartbeat() {
    let mut net = HijackNet::new(&config(&[]));
    net.associate(ATTACKER, 5_000);
    net.run(1_000);
    assert!(net.established(ATTACKER) && net.closed(SERVER), "{:?}", net.events[SERVER]);
    net.associate(VICTIM, 5_000);
    net.run(1_000);
    assert!(net.established(VICTIM), "{:?}", net.events[VICTIM]);
}

/// While the victim is switched off, it cannot answer the server's HEARTBEATs. An attacker's association lists the
/// victim's address and uses the victim's port.
///
/// When the victim is switched on again, its INIT lists an address that the attacker's association does not have, so
/// the server refuses it (RFC 9260 §5.2.2). An INIT from another port of the victim is accepted. The victim answers the
/// server's next HEARTBEAT with an ABORT, which ends the attacker's association and frees the port.
#[test]
fn camping_on_the_address_of_who_is_off() {
    let mut net = HijackNet::new(&config(&[("hb_interval", "1s"), ("path_max_retrans", "5")]));
    net.silent = vec![VICTIM];
    net.associate(ATTACKER, 5_000);
    net.run(500);
    net.silent.clear();
    net.associate(VICTIM, 5_000);
    net.associate(VICTIM, 5_001);
    net.run(100);
    assert!(!net.closed(SERVER));
    assert!(net.closed(VICTIM) && net.established(VICTIM), "{:?}", net.events[VICTIM]);
    net.run(5_000);
    assert!(net.closed(SERVER), "the HEARTBEAT of the next RTO is answered by its owner");
    net.associate(VICTIM, 5_000);
    net.run(1_000);
    let up = net.events[VICTIM].iter().filter(|event| matches!(event, Event::Established { .. })).count();
    assert_eq!(up, 2, "{:?}", net.events[VICTIM]);
}

/// RFC 5062 §5, RFC 9260 §5.4: the attacker lists the address of a victim that is switched off, and requests much data.
/// Then the attacker sends no more acknowledgements, so that the server retransmits the data to the victim. The
/// victim's address is not confirmed, so the server must send only HEARTBEATs to it.
#[test]
fn an_attacker_that_stops_acknowledging() {
    let mut net = HijackNet::new(&config(&[]));
    net.silent = vec![VICTIM];
    net.associate(ATTACKER, 5_000);
    net.run(500);
    let (id, now) = (net.accepted(), net.now);
    for _ in 0..100 {
        net.hosts[SERVER].send(now, id, Message::default(), &[7; 1_000]).expect("room");
    }
    net.censor = |from, _, _| from == ATTACKER;
    let (before, served) = (net.bytes_sent_to[VICTIM], net.bytes_sent_to[ATTACKER]);
    net.run(600_000);
    let drawn = net.bytes_sent_to[VICTIM] - before;
    println!("{drawn} bytes to the victim, {} to the attacker", net.bytes_sent_to[ATTACKER] - served);
    assert!(drawn < 2_000, "{drawn} bytes to who never asked");
    let closed = net.events[SERVER].iter().any(|event| matches!(event, Event::Closed { .. }));
    assert!(closed, "an association that nobody answers ends");
}
