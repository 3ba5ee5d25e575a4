//! Tests how a listener withstands a flood of opening packets from addresses that never answer. An honest client tries
//! to connect at the end of the flood.

use super::connection::without_connection;
use super::harness::{Harness, MessageOptions, MessageTransport, send_packet};
use super::testbed::{A, B, PORT, Testbed};
use super::{FeatureCell, TransportKind};
use anabranch_sim::SimWorld;
use anabranch_wire::sctp::{Init, Tsn, packet};
use anabranch_wire::tcp::{Flags, Header, Seq, seal};
use anabranch_world::{Local, World};
use std::io;
use std::net::{IpAddr, SocketAddr};

/// The number of opening packets, and how many are sent per millisecond.
const PACKETS: u32 = 20_000;
const AT_ONCE: u32 = 20;

/// The time from the flood to the last measurement of the listener's state, in milliseconds. By then, the listener has
/// given up half-open connections.
const LATER: u64 = 120_000;

/// The state that a listener holds for its peers during or after a flood.
#[derive(Clone, Copy)]
struct ListenerState {
    /// The number of connections that the listener holds, including half-open ones.
    connections: usize,
    /// The bytes of state that the listener holds for all peers.
    bytes: usize,
}

/// The states of a listener before, during and after the flood, and the time that an honest client then needs to
/// connect. The state after the flood does not include what the honest client's own connection leaves behind.
struct FloodResult {
    /// Three states of the listener: before the flood, during the flood, and [`LATER`] milliseconds after the flood.
    /// The second state has the maximum of each value during the flood.
    states: [ListenerState; 3],
    /// Milliseconds until the honest client was connected; `None` if it was not connected within 10 s.
    connected: Option<u64>,
}

pub(super) fn probe(kind: TransportKind) -> Result<FeatureCell, String> {
    if let Some(cell) = without_connection(kind)? {
        return Ok(cell);
    }
    let plain = flooded(kind, &[])?;
    if kind == TransportKind::Sctp {
        return Ok(FeatureCell::of(plain.is_bounded(), plain.tell()));
    }
    let on = flooded(kind, &[("syncookies", "yes")])?;
    let observed = format!("{}; with syncookies=yes {}", plain.tell(), on.tell());
    Ok(FeatureCell::switched(plain.is_bounded(), on.is_bounded(), observed))
}

/// Floods TCP with the settings of a profile. The verdict applies to these settings alone, because no further mechanism
/// is switched on.
pub(super) fn with_tcp_profile(profile: &str) -> Result<FeatureCell, String> {
    let config =
        anabranch_tcp::Config::profile(profile).ok_or_else(|| format!("no profile '{profile}' of TCP"))?;
    let seen = flooded_with(TransportKind::Tcp, &MessageTransport::Tcp(Box::new(config)))?;
    Ok(FeatureCell::of(seen.is_bounded(), seen.tell()))
}

/// Measures how many connections and bytes a listener holds during and after a flood. An honest client connects at the
/// end of the flood. A second run has the honest client but no flood. The connections and bytes that the client leaves
/// behind in the second run are subtracted from the numbers after the flood.
fn flooded(kind: TransportKind, changes: &[(&str, &str)]) -> Result<FloodResult, String> {
    flooded_with(kind, &kind.carrier(changes))
}

fn flooded_with(kind: TransportKind, carrier: &MessageTransport) -> Result<FloodResult, String> {
    let mut seen = flood(kind, carrier, PACKETS)?;
    let quiet = flood(kind, carrier, 0)?;
    if seen.connected.is_some() {
        let (after, own) = (&mut seen.states[2], quiet.states[2]);
        after.connections = after.connections.saturating_sub(own.connections);
        after.bytes = after.bytes.saturating_sub(own.bytes);
    }
    Ok(seen)
}

impl FloodResult {
    /// Returns whether the listener holds less than 1 MiB of state and connects the honest client in less than a
    /// second.
    fn is_bounded(&self) -> bool {
        self.states[1].bytes < 1 << 20 && self.connected.is_some_and(|ms| ms < 1_000)
    }

    fn tell(&self) -> String {
        let service = match self.connected {
            Some(ms) => format!("an honest client is connected after {ms} ms"),
            None => "no honest client gets through".to_owned(),
        };
        let describe = |ListenerState { connections, bytes }| match connections {
            0 => format!("{bytes} B"),
            1 => format!("{bytes} B (1 connection)"),
            n => format!("{bytes} B ({n} half-open connections)"),
        };
        let [before, most, after] = self.states.map(describe);
        format!(
            "the listener holds {before} before {PACKETS} of them, {most} at most during them, {after} two minutes later; \
             {service}"
        )
    }
}

fn flood(kind: TransportKind, carrier: &MessageTransport, packets: u32) -> Result<FloodResult, String> {
    let (testbed, third) =
        Testbed::routed("rate=100mbit,rtt=10ms,queue=1000p", "rate=100mbit,rtt=10ms,queue=1000p", 250)?;
    testbed.network.set_answers_strays(third, false);
    let attacker = testbed.network.world(third);
    let target = testbed.addresses[B][0];
    testbed.run(async {
        let mut harness = Harness::start(&testbed, carrier).await?;
        let protocol = if kind == TransportKind::Tcp { 6 } else { 132 };
        let socket = attacker.bind(Local::Ip { protocol }).await?;
        let state = |harness: &Harness| ListenerState {
            connections: harness.connection_count(B),
            bytes: harness.held_bytes(B),
        };
        let (before, mut sent) = (state(&harness), 0);
        let mut most = before;
        while sent < packets {
            for _ in 0..AT_ONCE {
                attack(&attacker, &socket, kind, target, sent)?;
                sent += 1;
            }
            harness.pass(1).await;
            let now = state(&harness);
            most.connections = most.connections.max(now.connections);
            most.bytes = most.bytes.max(now.bytes);
        }
        let started_at = harness.now();
        let up = harness.connect().await;
        let connected = up.then(|| (harness.now() - started_at).as_millis() as u64);
        harness.send(A, b"hello", MessageOptions::default());
        harness.pass(10).await;
        harness.sleep(LATER).await;
        Ok(FloodResult { states: [before, most, state(&harness)], connected })
    })
}

/// Sends one opening packet from an address that never answers.
fn attack(
    world: &SimWorld,
    socket: &<SimWorld as World>::Socket,
    kind: TransportKind,
    target: IpAddr,
    number: u32,
) -> io::Result<()> {
    let own = world.addresses();
    let source = own[number as usize % own.len()];
    let port = 1024 + (number / 250 % 60_000) as u16;
    let mut bytes = Vec::new();
    if kind == TransportKind::Tcp {
        let header = Header {
            source_port: port,
            target_port: PORT,
            seq: Seq(number.wrapping_mul(7919)),
            flags: Flags::SYN,
            window: 65_535,
            ..Header::default()
        };
        header.emit(&mut bytes);
        seal(&mut bytes, source, target);
    } else {
        let start = packet::begin(&mut bytes, port, PORT, 0);
        let init = Init {
            tag: number + 1,
            window: 65_536,
            outbound_streams: 10,
            inbound_streams: 10,
            tsn: Tsn(number),
            ..Init::default()
        };
        init.emit(&mut bytes);
        packet::finish(&mut bytes, start);
    }
    send_packet(socket, SocketAddr::new(source, 0), SocketAddr::new(target, 0), &bytes)
}
