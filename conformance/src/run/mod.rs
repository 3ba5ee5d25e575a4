//! Runs a packetdrill script in virtual time.
//!
//! This module owns the clock, the endpoint under test with its sockets, and the packets that the endpoint has sent. It
//! also owns the mapping from the endpoint's tags and TSNs to those of the script. Nothing sleeps, so a script of a
//! minute runs in milliseconds. `inject` delivers the script's packets to the endpoint. `expect` compares the
//! endpoint's packets with those that the script expects.

mod expect;
mod inject;

use crate::calls::Fds;
use crate::chunk::{self, RepeatedValues, ValueMap};
use crate::script::{Action, Body, Call, Event, Script, Time};
use crate::shell;
use crate::stage::{Peer, Stage, StageError};
use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Engine, Instant, Rng, SendBatch};
use anabranch_sctp::socket::Sockets;
use anabranch_sctp::{Config, Endpoint};
use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A failure of a script: the line of the script, what was expected, and what was seen.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Failure {
    pub(crate) line: usize,
    pub(crate) kind: FailureKind,
    pub(crate) reason: String,
    pub(crate) expected: String,
    pub(crate) observed: String,
}

/// The cause of a script's failure.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FailureKind {
    /// The engine did not do what the script expects.
    Differs,
    /// The script uses a feature that the packetdrill interpreter does not have. `reason` names the feature.
    Misunderstood,
}

impl Failure {
    fn of(error: StageError, line: usize) -> Self {
        Self {
            line,
            kind: FailureKind::Differs,
            reason: error.reason,
            expected: error.expected,
            observed: error.observed,
        }
    }

    pub(crate) fn misunderstood(why: String) -> Self {
        Self {
            line: 0,
            kind: FailureKind::Misunderstood,
            reason: why,
            expected: String::new(),
            observed: String::new(),
        }
    }
}

/// The log of a script: the packets and calls so far.
#[derive(Debug, Default)]
pub(crate) struct ScriptLog {
    pub(crate) log: Vec<String>,
}

/// The addresses and ports of the endpoint and of its peer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct TestAddresses {
    pub(crate) local: IpAddr,
    pub(crate) remote: IpAddr,
    pub(crate) bind_port: u16,
    pub(crate) connect_port: u16,
}

/// A packet that the endpoint under test has sent and that was not compared with the script yet.
#[derive(Debug)]
struct PendingPacket {
    at: Instant,
    target: SocketAddr,
    ecn: Ecn,
    bytes: Vec<u8>,
}

/// A system call of the script that has not returned.
struct Blocked {
    line: usize,
    call: Call,
    /// The time at which the call must return, and how far it may differ from this time.
    due: Instant,
    tolerance: Duration,
}

/// The endpoint under test, its clock, and the state of the running script.
pub(crate) struct Machine {
    pub(crate) now: Instant,
    pub(crate) sockets: Sockets,
    pub(crate) addresses: TestAddresses,
    pub(crate) fds: Fds,
    sent: VecDeque<PendingPacket>,
    value_map: ValueMap,
    /// The mapping that the endpoint's latest INIT ACK gave, if the tag of this INIT ACK is new. This mapping replaces
    /// `value_map` when the script sends a COOKIE ECHO.
    offered: Option<ValueMap>,
    repeated: RepeatedValues,
    /// Whether the script names addresses of the peer. If so, the script sees the packets to all addresses of the peer.
    all_addresses: bool,
    /// The peer, with the addresses that its [`Stage`] lists.
    peer: Peer,
    /// The initiate tag of the peer, which the script plays.
    peer_tag: u32,
    tolerance: Duration,
    percent: i64,
    blocked: Option<Blocked>,
    script_log: ScriptLog,
}

/// The TTL with which hosts send (RFC 1700).
const TTL: u32 = 64;

/// The longest wait for an outbound packet for which the script gives no time.
const PATIENCE: Duration = Duration::from_secs(600);

/// Runs a script. `seed` determines the engine's tags and TSNs. If `to_the_end` is set, the script fails if the
/// endpoint sends more packets than the script expects.
pub(crate) fn run(
    script: &Script,
    stage: &Stage,
    seed: u64,
    to_the_end: bool,
) -> (ScriptLog, Result<(), Failure>) {
    let mut config = Config::default();
    // FreeBSD has these two extensions on by default, so scripts do not turn them on. Our default is off.
    for (key, is_used) in [("reconfig", script.reconfigures()), ("auth", script.authenticates())] {
        if is_used {
            let _ = config.set(key, "yes");
        }
    }
    // System settings in the script come before the first call. They apply to the configuration from which the endpoint
    // is created.
    let begun = script.events.iter().position(|event| !matches!(event.action, Action::Shell(_)));
    let begun = begun.unwrap_or(script.events.len());
    for event in &script.events[..begun] {
        if let Action::Shell(line) = &event.action {
            shell::apply_settings(line, &mut config);
        }
    }
    let mut machine = match Machine::new(script, stage, config, seed) {
        Ok(machine) => machine,
        Err(why) => {
            let failure = Failure { line: 1, ..Failure::misunderstood(why) };
            return (ScriptLog::default(), Err(failure));
        }
    };
    let result = script.events[begun..].iter().try_for_each(|event| machine.step(event));
    let result = result.and_then(|()| machine.finish_blocked());
    let result = result.and_then(|()| {
        let line = script.events.last().map_or(1, |event| event.line);
        machine.peer.check_end().map_err(|error| Failure::of(error, line))
    });
    let result = result.and_then(|()| if to_the_end { machine.silent(script) } else { Ok(()) });
    (machine.script_log, result)
}

impl Machine {
    fn new(script: &Script, stage: &Stage, config: Config, seed: u64) -> Result<Self, String> {
        let mut place = TestAddresses {
            local: Ipv4Addr::new(192, 168, 0, 1).into(),
            remote: Ipv4Addr::new(192, 0, 2, 1).into(),
            bind_port: 8080,
            connect_port: 8080,
        };
        let mut tolerance = Duration::from_millis(4);
        let mut percent = 5;
        let mut mtu = 1500;
        for (name, value) in &script.options {
            let wrong = || format!("--{name}={value} is not understood");
            let address = || value.split('/').next().and_then(|v| v.parse().ok()).ok_or_else(wrong);
            match name.as_str() {
                "ip_version" if value == "ipv6" => {
                    place.local = Ipv6Addr::new(0xfd3d, 0xfa7b, 0xd17d, 0, 0, 0, 0, 1).into();
                    place.remote = Ipv6Addr::new(0x2001, 0xdb8, 0, 0, 0, 0, 0, 1).into();
                }
                "tolerance_usecs" => {
                    tolerance = Duration::from_micros(value.parse().map_err(|_| wrong())?);
                }
                "tolerance_percent" => {
                    let whole = value.split('.').next().unwrap_or_default();
                    percent = whole.parse::<i64>().map_err(|_| wrong())?.clamp(0, 100);
                }
                "local_ip" => place.local = address()?,
                "remote_ip" => place.remote = address()?,
                "bind_port" => place.bind_port = value.parse().map_err(|_| wrong())?,
                "connect_port" => place.connect_port = value.parse().map_err(|_| wrong())?,
                "mtu" => mtu = value.parse::<u32>().map_err(|_| wrong())?.clamp(576, 65_535),
                _ => {}
            }
        }
        let local = SocketAddr::new(place.local, 0);
        let mut endpoint = Endpoint::new(config, vec![local], Rng::new(seed));
        endpoint.set_mtu(place.local, mtu);
        Ok(Self {
            now: Instant::ZERO,
            sockets: Sockets::new(endpoint),
            addresses: place,
            fds: Fds::default(),
            sent: VecDeque::new(),
            value_map: ValueMap::default(),
            offered: None,
            repeated: RepeatedValues::default(),
            all_addresses: script.names_targets().is_some(),
            peer: Peer::new(stage, place.remote),
            peer_tag: 0,
            tolerance,
            percent,
            blocked: None,
            script_log: ScriptLog::default(),
        })
    }

    // Time.

    /// Takes the packets that the endpoint wants to send, and checks whether a blocked call can return.
    fn pump(&mut self) -> Result<(), Failure> {
        let mut batch = SendBatch::new(1);
        loop {
            batch.clear();
            if !self.sockets.poll_transmit(self.now, &mut batch) {
                break;
            }
            for packet in batch.packets() {
                let (at, target, ecn) = (self.now, packet.target, packet.ecn);
                let bytes = packet.payload.to_vec();
                if !self.stage_answers(&packet) {
                    self.sent.push_back(PendingPacket { at, target, ecn, bytes });
                }
            }
        }
        while self.sockets.poll_event().is_some() {}
        let Some(blocked) = self.blocked.take() else {
            return Ok(());
        };
        match self.call(&blocked.call, true) {
            Ok(None) => {
                self.blocked = Some(blocked);
                Ok(())
            }
            Ok(Some(seen)) => {
                let early = self.now + blocked.tolerance < blocked.due;
                let late = self.now > blocked.due + blocked.tolerance;
                if early || late {
                    return Err(Failure {
                        line: blocked.line,
                        kind: FailureKind::Differs,
                        reason: "the call returned at another time".to_owned(),
                        expected: format!("{} at {}", blocked.call, seconds(blocked.due)),
                        observed: format!("{seen} at {}", seconds(self.now)),
                    });
                }
                self.pump()
            }
            Err(failure) => Err(Failure { line: blocked.line, ..failure }),
        }
    }

    /// Advances the clock to the endpoint's next deadline, if there is one and it is not after `limit`. Otherwise
    /// returns false.
    fn next_deadline(&mut self, limit: Instant) -> Result<bool, Failure> {
        let Some(due) = self.sockets.poll_timeout().filter(|&due| due <= limit) else {
            return Ok(false);
        };
        self.now = self.now.max(due);
        self.sockets.handle_timeout(self.now);
        self.pump()?;
        Ok(true)
    }

    fn advance(&mut self, to: Instant) -> Result<(), Failure> {
        while self.next_deadline(to)? {}
        self.now = self.now.max(to);
        Ok(())
    }

    /// Returns the earliest and the latest time at which an event of the script may occur, and the tolerance around
    /// them.
    fn window(&self, time: Time) -> (Option<(Instant, Instant)>, Duration) {
        let at = |us: i64| Instant::ZERO + Duration::from_micros(us.unsigned_abs());
        let after = |us: i64| self.now + Duration::from_micros(us.unsigned_abs());
        let span = match time {
            Time::Any => return (None, self.tolerance),
            Time::At(us) => (at(us), at(us)),
            Time::After(us) => (after(us), after(us)),
            Time::Between(from, to) => (at(from), at(to)),
            Time::AfterBetween(from, to) => (after(from), after(to)),
        };
        let wait = if span.0 > self.now { span.0 - self.now } else { Duration::ZERO };
        let share = wait * u32::try_from(self.percent).unwrap_or(0) / 100;
        (Some(span), self.tolerance.max(share))
    }

    // Events.

    fn step(&mut self, event: &Event) -> Result<(), Failure> {
        let fail = |reason: String, expected: String, observed: String| Failure {
            line: event.line,
            kind: FailureKind::Differs,
            reason,
            expected,
            observed,
        };
        let (span, tolerance) = self.window(event.time);
        if let Action::Outbound(packet) = &event.action {
            return self.expect(packet, span, tolerance, event.line);
        }
        // A system call must wait until the earlier blocking call has returned.
        if matches!(event.action, Action::Call(_)) {
            self.finish_blocked()?;
        }
        if let Some((from, _)) = span {
            if self.now > from + tolerance {
                let (expected, seen) = (seconds(from), seconds(self.now));
                return Err(fail("its time has passed".to_owned(), expected, seen));
            }
            self.advance(from)?;
        }
        match &event.action {
            Action::Inbound(packet) => {
                let misunderstood = |why| Failure { line: event.line, ..Failure::misunderstood(why) };
                self.inject(packet).map_err(misunderstood)?;
                self.pump()
            }
            Action::Call(call) => {
                let outcome = self.call(call, call.until.is_some());
                match outcome.map_err(|failure| Failure { line: event.line, ..failure })? {
                    Some(_) => {}
                    None => {
                        let until = call.until.unwrap_or_default();
                        let due = match event.time {
                            Time::After(from) => {
                                self.now + Duration::from_micros((until - from).max(0) as u64)
                            }
                            _ => Instant::ZERO + Duration::from_micros(until.unsigned_abs()),
                        };
                        let tolerance = self.tolerance;
                        self.blocked = Some(Blocked { line: event.line, call: call.clone(), due, tolerance });
                    }
                }
                self.pump()
            }
            // Nothing is done for Python code (it inspects TCP's state) and shell commands (there is no host to configure).
            // Expected packets are matched elsewhere, when they arrive.
            Action::Shell(_) | Action::Code(_) | Action::Outbound(_) => Ok(()),
        }
    }

    /// Waits until the blocked system call has returned.
    fn finish_blocked(&mut self) -> Result<(), Failure> {
        while let Some(blocked) = &self.blocked {
            let limit = blocked.due + blocked.tolerance;
            if !self.next_deadline(limit)? {
                let Some(blocked) = self.blocked.take() else { break };
                return Err(Failure {
                    line: blocked.line,
                    kind: FailureKind::Differs,
                    reason: "the call did not return".to_owned(),
                    expected: format!(
                        "{} = {} by {}",
                        blocked.call,
                        blocked.call.result,
                        seconds(blocked.due)
                    ),
                    observed: "nothing".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// Checks that the endpoint has not sent any packet that the script does not expect.
    fn silent(&mut self, script: &Script) -> Result<(), Failure> {
        let Some(sent) = self.sent.pop_front() else {
            return Ok(());
        };
        let body = sent.bytes.get(12..).unwrap_or_default();
        let seen = chunk::decode_packet(body, self.value_map).map(Body::Chunks).unwrap_or_default();
        Err(Failure {
            line: script.events.last().map_or(1, |event| event.line),
            kind: FailureKind::Differs,
            reason: "a packet is left over at the end".to_owned(),
            expected: "nothing".to_owned(),
            observed: format!("{seen} at {}", seconds(sent.at)),
        })
    }

    /// Returns the table that converts the engine's tag and TSNs to the script's tag and TSNs, and back.
    pub(crate) fn value_map(&self) -> ValueMap {
        self.value_map
    }

    pub(crate) fn note(&mut self, line: String) {
        self.script_log.log.push(format!("{:>10}   {line}", seconds(self.now)));
    }
}

/// Returns an SCTP packet with common header and checksum.
fn sealed(ports: (u16, u16), tag: u32, chunks: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::new();
    bytes.extend_from_slice(&ports.0.to_be_bytes());
    bytes.extend_from_slice(&ports.1.to_be_bytes());
    bytes.extend_from_slice(&tag.to_be_bytes());
    bytes.extend_from_slice(&[0; 4]);
    bytes.extend_from_slice(chunks);
    // RFC 9260 §6.8 and Appendix A: CRC32c, least significant byte first.
    let sum = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &bytes) as u32;
    bytes[8..12].copy_from_slice(&sum.to_le_bytes());
    bytes
}

/// Formats an instant in seconds, with microseconds.
fn seconds(at: Instant) -> String {
    let us = at.as_nanos() / 1000;
    format!("{}.{:06}", us / 1_000_000, us % 1_000_000)
}
