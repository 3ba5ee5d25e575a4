//! Two real endpoints open the same connection at the same time (RFC 9293 §3.5).

use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Engine, Instant, Packet, Rng};
use anabranch_tcp::testing::transmit_all_bytes;
use anabranch_tcp::{Config, ConnectionId, Endpoint, Event, State};
use anabranch_wire::ladder::{Ladder, Side, Transport};
use expect_test::{Expect, expect};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

const DELAY: Duration = Duration::from_millis(50);

struct Both {
    now: Instant,
    hosts: [Endpoint; 2],
    ids: [Option<ConnectionId>; 2],
    connected: [u32; 2],
    received: [Vec<u8>; 2],
    in_flight: BTreeMap<(Instant, usize), (usize, Vec<u8>)>,
    sent: usize,
    /// The packets that the network loses, by their number.
    lost: &'static [usize],
    ladder: Ladder,
}

fn ip(side: usize) -> IpAddr {
    IpAddr::from([10, 0, 0, side as u8 + 1])
}

fn end(side: usize) -> SocketAddr {
    SocketAddr::new(ip(side), 5_000 + side as u16)
}

impl Both {
    fn new(seed: u64, lost: &'static [usize]) -> Self {
        let config = Config::profile("modern").expect("a profile");
        let mut ladder = Ladder::new(Transport::Tcp, "A", "B");
        ladder.set_side(ip(0), Side::Left, "A");
        ladder.set_side(ip(1), Side::Right, "B");
        let rng = Rng::new(seed);
        let host = |side: usize| Endpoint::new(config.clone(), vec![ip(side)], rng.fork(["a", "b"][side]));
        Self {
            now: Instant::ZERO,
            hosts: [host(0), host(1)],
            ids: [None; 2],
            connected: [0; 2],
            received: Default::default(),
            in_flight: BTreeMap::new(),
            sent: 0,
            lost,
            ladder,
        }
    }

    fn connect(&mut self, side: usize) {
        let id = self.hosts[side].connect_from(self.now, end(side), end(1 - side)).expect("it begins");
        self.ids[side] = Some(id);
        self.pump();
    }

    fn pump(&mut self) {
        for side in [0, 1, 0, 1] {
            for packet in transmit_all_bytes(&mut self.hosts[side], self.now) {
                self.sent += 1;
                assert!(self.sent < 200, "they never come to an end:\n{}", self.ladder.text());
                let lost = self.lost.contains(&self.sent);
                let remark = if lost { "✗ lost" } else { "" };
                self.ladder.packet(self.now, ip(side), ip(1 - side), &packet, remark);
                if !lost {
                    self.in_flight.insert((self.now + DELAY, self.sent), (1 - side, packet));
                }
            }
            while let Some(event) = self.hosts[side].poll_event() {
                match event {
                    Event::Connected { id } => {
                        assert_eq!(Some(id), self.ids[side]);
                        self.connected[side] += 1;
                    }
                    Event::Readable { id } => {
                        let mut buffer = [0; 100];
                        let count = self.hosts[side].recv(self.now, id, &mut buffer).expect("open");
                        self.received[side].extend_from_slice(&buffer[..count]);
                    }
                    _ => {}
                }
            }
        }
    }

    fn run(&mut self, until_ms: u64) {
        let until = Instant::from_millis(until_ms);
        loop {
            let arrival = self.in_flight.keys().next().map(|(at, _)| *at);
            let due = self.hosts.iter().filter_map(Engine::poll_timeout).chain(arrival).min();
            let Some(at) = due.filter(|at| *at <= until) else { break };
            self.now = at;
            while let Some(entry) = self.in_flight.first_entry().filter(|entry| entry.key().0 <= at) {
                let (side, bytes) = entry.remove();
                let (source, target) = (SocketAddr::new(ip(1 - side), 0), SocketAddr::new(ip(side), 0));
                let packet = Packet { source, target, ecn: Ecn::NotEct, tag: 0, payload: &bytes };
                self.hosts[side].handle_packet(at, packet);
            }
            for host in &mut self.hosts {
                host.handle_timeout(at);
            }
            self.pump();
        }
        self.now = until;
    }

    /// Runs until `until_ms`. Checks that each side opens the connection once, and can send on it.
    fn check(&mut self, until_ms: u64, expected: Expect) {
        self.run(until_ms);
        expected.assert_eq(&format!("both at once\n{}", self.ladder.text()));
        assert_eq!(self.connected, [1, 1]);
        for side in [0, 1] {
            let id = self.ids[side].expect("connected");
            assert_eq!(self.hosts[side].info(id).expect("there").state, State::Established);
            self.hosts[side].send(self.now, id, &[side as u8; 50]).expect("open");
        }
        self.pump();
        self.run(until_ms + 1_000);
        assert_eq!(self.received, [vec![1; 50], vec![0; 50]]);
    }
}

/// RFC 9293 §3.5, figure 7: the SYNs of both sides cross. Both sides answer with a SYN-ACK, and one connection opens.
#[test]
fn the_syns_cross() {
    let mut both = Both::new(1, &[]);
    both.connect(0);
    both.connect(1);
    both.check(
        1_000,
        expect![[r#"
            both at once
               0.000  A ──► B   SYN           seq=0 win=65535 mss=1460 ws=7 sack-ok
               0.000  A ◄── B   SYN           seq=0 win=65535 mss=1460 ws=7 sack-ok
               0.050  A ──► B   SYN ACK       seq=0 ack=1 win=65535 mss=1460 ws=7 sack-ok
               0.050  A ◄── B   SYN ACK       seq=0 ack=1 win=65535 mss=1460 ws=7 sack-ok
               0.100  A ──► B   ACK           seq=1 ack=1 win=512
               0.100  A ◄── B   ACK           seq=1 ack=1 win=512
        "#]],
    );
}

/// A's SYN-ACK is lost. B's SYN-ACK opens the connection at A, and A's answer opens the connection at B.
#[test]
fn a_syn_ack_is_lost() {
    let mut both = Both::new(2, &[3]);
    both.connect(0);
    both.connect(1);
    both.check(
        3_000,
        expect![[r#"
            both at once
               0.000  A ──► B   SYN           seq=0 win=65535 mss=1460 ws=7 sack-ok
               0.000  A ◄── B   SYN           seq=0 win=65535 mss=1460 ws=7 sack-ok
               0.050  A ──► B   SYN ACK       seq=0 ack=1 win=65535 mss=1460 ws=7 sack-ok     ✗ lost
               0.050  A ◄── B   SYN ACK       seq=0 ack=1 win=65535 mss=1460 ws=7 sack-ok
               0.100  A ──► B   ACK           seq=1 ack=1 win=512
        "#]],
    );
}

/// One of the two SYNs is lost. The other side's SYN opens the connection.
#[test]
fn a_syn_is_lost() {
    let mut both = Both::new(3, &[1]);
    both.connect(0);
    both.connect(1);
    both.check(
        3_000,
        expect![[r#"
            both at once
               0.000  A ──► B   SYN           seq=0 win=65535 mss=1460 ws=7 sack-ok     ✗ lost
               0.000  A ◄── B   SYN           seq=0 win=65535 mss=1460 ws=7 sack-ok
               0.050  A ──► B   SYN ACK       seq=0 ack=1 win=65535 mss=1460 ws=7 sack-ok
               0.100  A ◄── B   ACK           seq=1 ack=1 win=512
        "#]],
    );
}
