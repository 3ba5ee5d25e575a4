//! The builder for scenarios, which controls the network and both endpoints.

use crate::net::app::App;
use crate::net::rules::{Action, Rule};
use crate::net::{self, A, B, Net};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_sctp::{AssociationId, Config, Direction, Message, ResetError};
use anabranch_wire::ladder::Side;
use anabranch_wire::sctp::packet;
use expect_test::Expect;

/// A running scenario.
pub struct Script {
    pub net: Net,
    sent: u64,
}

/// The knobs of both sides: the profile of RFC 9260 without HEARTBEATs. Packet diagrams show the receive buffer of 64
/// KiB as `64k`.
pub const QUIET: &[(&str, &str)] = &[("hb_interval", "0"), ("rcvbuf", "64KiB"), ("num_ostreams", "10")];

impl Script {
    /// Creates a scenario with one network that has a one-way delay of 25 ms. Both sides have equal configurations.
    pub fn new(changes: &[(&str, &str)]) -> Self {
        Self::with(configured(changes), configured(changes), &[25])
    }

    /// Creates a scenario with one network for each of these delays in milliseconds. Both endpoints have the same
    /// configuration.
    pub fn multi_homed(delays: &[u64], changes: &[(&str, &str)]) -> Self {
        Self::with(configured(changes), configured(changes), delays)
    }

    pub fn with(a: Config, b: Config, delays: &[u64]) -> Self {
        let delays: Vec<_> = delays.iter().map(|&ms| Duration::from_millis(ms)).collect();
        Self { net: Net::new(1, [a, b], &delays), sent: 0 }
    }

    /// Creates a scenario with only the network numbered `n`, which has a delay of 25 ms.
    pub fn in_network(n: usize, changes: &[(&str, &str)]) -> Self {
        let delays = [Duration::from_millis(25)];
        let configs = [configured(changes), configured(changes)];
        Self { net: Net::numbered_from(n, 1, configs, &delays), sent: 0 }
    }

    /// Creates a scenario with an established, idle association. The ladder diagram of the handshake is discarded.
    pub fn established(changes: &[(&str, &str)]) -> Self {
        let mut script = Self::new(changes);
        script.associate().run(1_000);
        script.forget();
        script
    }

    /// Like [`established`](Self::established), but with a message in each direction. The first DATA of an association
    /// is acknowledged at once (RFC 9260 §5.1), and later DATA by the usual rules. The next TSN of each side is 2.
    pub fn warm(changes: &[(&str, &str)]) -> Self {
        let mut script = Self::established(changes);
        script.send(A, 0, 8).send(B, 0, 8).run(1_000);
        script.forget();
        script
    }

    /// Creates a scenario with an established association over one network for each of these delays, in milliseconds.
    pub fn established_on(delays: &[u64], changes: &[(&str, &str)]) -> Self {
        let mut script = Self::multi_homed(delays, changes);
        script.associate().run(4_000);
        script.forget();
        script
    }

    /// Makes A open an association to B. A knows only the first address of B.
    pub fn associate(&mut self) -> &mut Self {
        self.net.associate(A, 1);
        self
    }

    /// Discards the lines of the ladder diagram so far.
    pub fn forget(&mut self) {
        self.net.ladder.take();
    }

    fn rule(&mut self, from: Side, pattern: &str, skip: usize, times: usize, action: Action) -> &mut Self {
        self.net.rules.push(Rule { from, pattern: pattern.into(), skip, times, action });
        self
    }

    /// Loses the next packet of `from` whose line in the diagram contains `pattern`.
    pub fn lose(&mut self, from: Side, pattern: &str) -> &mut Self {
        self.rule(from, pattern, 0, 1, Action::Lose)
    }

    pub fn lose_times(&mut self, from: Side, pattern: &str, times: usize) -> &mut Self {
        self.rule(from, pattern, 0, times, Action::Lose)
    }

    pub fn delay(&mut self, from: Side, pattern: &str, ms: u64) -> &mut Self {
        self.delay_us(from, pattern, ms * 1_000)
    }

    pub fn delay_us(&mut self, from: Side, pattern: &str, us: u64) -> &mut Self {
        self.rule(from, pattern, 0, 1, Action::Delay(Duration::from_micros(us)))
    }

    pub fn duplicate(&mut self, from: Side, pattern: &str) -> &mut Self {
        self.duplicate_late(from, pattern, 1)
    }

    pub fn duplicate_late(&mut self, from: Side, pattern: &str, ms: u64) -> &mut Self {
        self.rule(from, pattern, 0, 1, Action::Duplicate(Duration::from_millis(ms)))
    }

    pub fn corrupt(&mut self, from: Side, pattern: &str) -> &mut Self {
        self.rule(from, pattern, 0, 1, Action::Corrupt)
    }

    pub fn mark(&mut self, from: Side, pattern: &str) -> &mut Self {
        self.rule(from, pattern, 0, 1, Action::Mark)
    }

    pub fn run(&mut self, ms: u64) -> &mut Self {
        let until = self.net.now + Duration::from_millis(ms);
        self.net.run_until(until, &mut *net::rules_fate(), None);
        self
    }

    /// Runs until `ms` milliseconds after the start.
    pub fn run_to(&mut self, ms: u64) -> &mut Self {
        self.net.run_until(Instant::from_millis(ms), &mut *net::rules_fate(), None);
        self
    }

    pub fn id(&self, side: Side) -> AssociationId {
        self.net.id(side)
    }

    /// Sends an ordered message of this length.
    pub fn send(&mut self, from: Side, stream: u16, length: usize) -> &mut Self {
        self.send_message(from, Message { stream, ..Message::default() }, length)
    }

    pub fn send_message(&mut self, from: Side, message: Message, length: usize) -> &mut Self {
        self.sent += 1;
        let (id, now, number) = (self.id(from), self.net.now, self.sent);
        let [a, b] = &mut self.net.ends;
        let (end, peer) = if from == A { (a, b) } else { (b, a) };
        let mut account = std::mem::take(&mut peer.app);
        end.send(now, id, message, number, length, &mut account).expect("room for the message");
        peer.app = account;
        self
    }

    pub fn shutdown(&mut self, side: Side) -> &mut Self {
        let (id, now) = (self.id(side), self.net.now);
        self.net.end(side).engine.shutdown(now, id);
        self
    }

    pub fn abort(&mut self, side: Side) -> &mut Self {
        let (id, now) = (self.id(side), self.net.now);
        self.net.end(side).engine.abort(now, id);
        self
    }

    /// Requests a reset of streams (RFC 6525).
    pub fn reset(&mut self, side: Side, direction: Direction, streams: &[u16]) -> Result<(), ResetError> {
        let (id, now) = (self.id(side), self.net.now);
        self.net.end(side).engine.reset_streams(now, id, direction, streams)
    }

    /// Requests a reset of the TSNs.
    pub fn reset_association(&mut self, side: Side) -> Result<(), ResetError> {
        let (id, now) = (self.id(side), self.net.now);
        self.net.end(side).engine.reset_association(now, id)
    }

    /// Requests additional streams.
    pub fn add_streams(&mut self, side: Side, outgoing: u16, incoming: u16) -> Result<(), ResetError> {
        let (id, now) = (self.id(side), self.net.now);
        self.net.end(side).engine.add_streams(now, id, outgoing, incoming)
    }

    /// Makes network `n` lose every packet from now on.
    pub fn kill(&mut self, n: usize) -> &mut Self {
        self.net.dead.push(n);
        self.net.note(&format!("        network {n} fails"));
        self
    }

    pub fn heal(&mut self, n: usize) -> &mut Self {
        self.net.dead.retain(|&dead| dead != n);
        self.net.note(&format!("        network {n} is back"));
        self
    }

    /// Injects a packet from the first address of `from`. The packet has the chunks that `write` appends, the
    /// association's ports, and this tag.
    pub fn inject(&mut self, from: Side, tag: u32, write: impl FnOnce(&mut Vec<u8>)) -> &mut Self {
        let (source, target) = self.ports(from);
        self.inject_between(from, source, target, tag, write)
    }

    pub fn inject_between(
        &mut self,
        from: Side,
        source: u16,
        target: u16,
        tag: u32,
        write: impl FnOnce(&mut Vec<u8>),
    ) -> &mut Self {
        let mut bytes = Vec::new();
        let start = packet::begin(&mut bytes, source, target, tag);
        write(&mut bytes);
        packet::finish(&mut bytes, start);
        self.net.inject(from, 1, bytes);
        self
    }

    /// Returns the local port and the peer's port of a side's latest association.
    pub fn ports(&self, side: Side) -> (u16, u16) {
        let end = &self.net.ends[side as usize];
        let info = end.engine.info(self.id(side)).expect("the association is there");
        (info.local_port, info.peer_port)
    }

    /// Returns the packet of `from` that is in flight and begins with a chunk of type `kind`.
    pub fn under_way(&self, from: Side, kind: u8) -> Vec<u8> {
        let sent = |flight: &&net::Flight| {
            let ip = flight.source.ip();
            ip == net::address(from, net::network(ip)).ip() && flight.bytes[packet::HEADER] == kind
        };
        self.net.in_flight.values().find(sent).expect("such a packet").bytes.clone()
    }

    /// Returns the verification tag that packets to `side` carry.
    pub fn tag(&self, side: Side) -> u32 {
        self.net.ladder.numbers().latest_tag(side).expect("a tag")
    }

    /// Compares the ladder diagram with the expected diagram. Also checks that every message that was sent was
    /// received.
    #[track_caller]
    pub fn check(&mut self, expected: Expect) {
        expected.assert_eq(&flush_left(&self.net.ladder.take()));
        for (side, name) in [(A, "A"), (B, "B")] {
            let peer_gave_up = self.net.end(side.other()).app.given_up.clone();
            assert!(self.net.end(side).app.is_served(&peer_gave_up), "{name} did not get everything");
        }
    }

    /// Compares the ladder diagram with the expected diagram. Does not check that every message was received, because
    /// messages are lost when their association is aborted.
    #[track_caller]
    pub fn check_drawn(&mut self, expected: Expect) {
        expected.assert_eq(&flush_left(&self.net.ladder.take()));
    }

    pub fn app(&mut self, side: Side) -> &mut App {
        &mut self.net.end(side).app
    }
}

/// Returns the configuration of RFC 9260 with the knobs of [`QUIET`] and of `changes`.
pub fn configured(changes: &[(&str, &str)]) -> Config {
    let mut all = QUIET.to_vec();
    all.extend_from_slice(changes);
    net::config("rfc9260", &all)
}

/// Removes the indentation that all lines have in common, because expected diagrams are stored without it.
pub fn flush_left(text: &str) -> String {
    let indent = |line: &str| line.len() - line.trim_start().len();
    let common = text.lines().map(indent).min().unwrap_or(0);
    text.lines().map(|line| format!("{}\n", &line[common..])).collect()
}
