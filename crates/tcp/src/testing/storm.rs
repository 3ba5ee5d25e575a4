//! A transfer through a network with random impairments of every type, controlled by a seed.
//!
//! This is swarm testing: each seed disables some types of impairment, exaggerates the remaining types, and chooses the
//! settings of both sides.

use super::pair::{Fate, Pair, Side};
use crate::{Config, Event, PROFILES};
use anabranch_base::time::Duration;
use anabranch_base::trace::{SendCause, TraceEvent, TraceRecord};
use anabranch_base::{Engine, Instant, Ratio, Rng};
use std::collections::BTreeMap;
use std::ops::Range;

/// The result of one storm: a transfer with random impairments.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Storm {
    /// The time of the last event.
    pub end: Instant,
    /// The number of packets sent by both sides.
    pub packets: u64,
    /// The number of bytes delivered in both directions.
    pub bytes: u64,
    /// The number of retransmission timeouts on both sides.
    pub timeouts: u64,
    /// The number of fast recoveries on both sides.
    pub fast: u64,
    /// The number of recoveries on both sides that turned out to be spurious.
    pub spurious: u64,
}

#[derive(Clone, Debug)]
struct Impairments {
    loss: Ratio,
    duplicate: Ratio,
    late: Ratio,
    damage: Ratio,
    mark: Ratio,
    /// The start and the length of each outage, during which no packet passes.
    outages: Vec<(Instant, Duration)>,
    /// The time from which the path has a smaller MTU, and the smaller MTU in bytes.
    shrinks: Option<(Instant, u32)>,
}

fn percent(rng: &mut Rng, most: u64) -> Ratio {
    Ratio::new(rng.below(most * 10 + 1), 1000).unwrap_or(Ratio::ZERO)
}

fn impairments_of(rng: &mut Rng) -> Impairments {
    let mut maybe = |most| if rng.below(2) == 0 { Ratio::ZERO } else { percent(rng, most) };
    let (loss, duplicate, late, damage, mark) = (maybe(30), maybe(20), maybe(30), maybe(5), maybe(20));
    let outages = (0..rng.below(3))
        .map(|_| (Instant::from_millis(rng.below(20_000)), Duration::from_millis(rng.below(8_000))))
        .collect();
    let shrinks =
        (rng.below(4) == 0).then(|| (Instant::from_millis(rng.below(3_000)), 600 + rng.below(800) as u32));
    Impairments { loss, duplicate, late, damage, mark, outages, shrinks }
}

fn settings(rng: &mut Rng) -> Config {
    let name = PROFILES[rng.below(PROFILES.len() as u64) as usize];
    let mut config = Config::profile(name).unwrap_or_default();
    let mut flip = |key: &str, values: &[&str]| {
        if rng.below(3) == 0 {
            let value = values[rng.below(values.len() as u64) as usize];
            let set = config.set(key, value);
            assert!(set.is_ok(), "{set:?}");
        }
    };
    let switch = ["yes", "no"];
    for key in
        ["sack", "dsack", "timestamps", "wscale", "ecn", "rcvbuf_auto", "limited_transmit", "undo", "careful"]
    {
        flip(key, &switch);
    }
    for key in ["prr", "rack", "tlp", "pacing", "ack_push"] {
        flip(key, &switch);
    }
    flip("hystart", &["yes", "no", "linux"]);
    flip("cwnd_unit", &["bytes", "segments"]);
    flip("ssthresh", &["flight", "window"]);
    flip("push", &["write", "burst"]);
    flip("cc", &["reno", "cubic", "bbr"]);
    flip("nagle", &["yes", "no", "minshall"]);
    flip("cwnd_validation", &switch);
    flip("rto_var_min", &["0ms", "200ms"]);
    flip("recovery", &["reno", "newreno", "sack"]);
    flip("iw", &["1", "2", "4", "10", "rfc5681", "rfc6928"]);
    flip("abc", &["off", "1", "2"]);
    flip("rtt_sample", &["every", "once"]);
    flip("delack", &["0", "40ms", "200ms"]);
    flip("ack_every", &["1", "2", "4"]);
    flip("dupthresh", &["1", "2", "3", "4"]);
    flip("mss", &["auto", "88B", "536B", "1000B"]);
    flip("rcvbuf", &["256B", "2000B", "10kB", "64kB", "1MB"]);
    flip("sndbuf", &["256B", "3000B", "20kB", "1MB"]);
    flip("max_burst", &["off", "1", "4"]);
    flip("rto_min", &["200ms", "1s"]);
    flip("idle_restart", &["yes", "no", "decay"]);
    flip("window_probe", &["data", "empty"]);
    // The test requires that all data arrives. So a connection must not end because of too many retransmissions.
    for (key, value) in [("retries", "255"), ("syn_retries", "255"), ("rto_max", "10s"), ("time_wait", "5s")]
    {
        let set = config.set(key, value);
        assert!(set.is_ok(), "{set:?}");
    }
    config
}

/// Returns the byte at index `position` of the stream that `side` sends.
fn byte_at(side: usize, position: usize) -> u8 {
    (position.wrapping_mul(31) ^ (position >> 8) ^ side.wrapping_mul(97)) as u8
}

/// Runs the storm of `seed`. Both sides send a random amount of data through random impairments, and close. Every byte
/// must arrive once and intact, and both connections must end.
///
/// # Panics
/// Panics if an invariant is violated.
#[must_use]
pub fn storm(seed: u64) -> Storm {
    let mut rng = Rng::new(seed).fork("storm");
    let (left, right) = (settings(&mut rng), settings(&mut rng));
    let impairments = impairments_of(&mut rng);
    let mut pair = Pair::with(left, right, seed).silent().batching(1 + rng.below(4) as usize);
    pair.delay = Duration::from_micros(100 + rng.below(100_000));
    let amounts = [size(&mut rng), size(&mut rng)];
    let slow_reader = rng.below(4) == 0;

    let mut fault_rng = rng.fork("luck");
    let until_calm = Instant::from_millis(120_000);
    // Refusals have a random number generator of their own, so that they do not change the other impairments of a seed.
    let mut refusal_rng = Rng::new(seed).fork("refusals");
    let refused = if refusal_rng.below(3) == 0 { percent(&mut refusal_rng, 20) } else { Ratio::ZERO };
    let trouble = impairments.clone();
    pair.judge(move |now, _, _, bytes| {
        if now < until_calm && refusal_rng.chance(refused) {
            return Fate::Refuse;
        }
        judge(&trouble, &mut fault_rng, now, until_calm, bytes)
    });
    pair.check = Some(Box::new(|hosts| {
        for host in hosts {
            host.check_invariants();
        }
    }));

    for host in &mut pair.hosts {
        host.set_tracing(true);
    }
    pair.connect();
    let mut written = [0_usize; 2];
    let mut finished = [false; 2];
    let limit = Instant::from_millis(3_600_000);
    let mut packets = 0_u64;
    loop {
        for side in [Side::Left, Side::Right] {
            let index = side as usize;
            if slow_reader {
                pair.reads[index] = rng.below(50) != 0;
            }
            if pair.ids[index].is_none() || finished[index] {
                continue;
            }
            if written[index] < amounts[index] && pair.is_fed(side) {
                let chunk = (1 + rng.below(5_000) as usize).min(amounts[index] - written[index]);
                let data: Vec<u8> =
                    (written[index]..written[index] + chunk).map(|p| byte_at(index, p)).collect();
                written[index] += chunk;
                pair.write(side, &data);
            } else if written[index] == amounts[index] && pair.is_fed(side) {
                finished[index] = true;
                pair.finish(side);
            }
        }
        if slow_reader && rng.below(10) == 0 {
            pair.read(Side::Left);
            pair.read(Side::Right);
        }
        packets += 1;
        if !pair.step() {
            // At the end of the storm, both applications read the data that they have not read yet.
            let before = pair.received[0].len() + pair.received[1].len();
            pair.reads = [true; 2];
            pair.read(Side::Left);
            pair.read(Side::Right);
            if pair.received[0].len() + pair.received[1].len() == before && !pair.step() {
                break;
            }
        }
        assert!(pair.now < limit, "no end in sight: {amounts:?}, {impairments:?}\n{pair:#?}");
    }
    for (index, amount) in amounts.iter().enumerate() {
        let got = &pair.received[1 - index];
        assert_eq!(got.len(), *amount, "side {index} sent {amount} bytes: {:#?}", lifecycle_events(&pair));
        let wrong = got.iter().enumerate().find(|&(position, &byte)| byte != byte_at(index, position));
        assert_eq!(wrong, None, "a byte is wrong");
    }
    let traces = [pair.hosts[0].take_trace(), pair.hosts[1].take_trace()];
    for (index, amount) in amounts.iter().enumerate() {
        check_trace(&traces[index], &traces[1 - index], *amount as u64);
    }
    for side in [Side::Left, Side::Right] {
        let closed = pair.events.iter().filter(|(_, whose, event)| *whose == side && is_end(event)).count();
        assert_eq!(closed, 1, "one end for each side: {:#?}", lifecycle_events(&pair));
        assert_eq!(pair.host(side).connections(), 0, "nothing is left behind");
    }
    let totals = [pair.hosts[0].totals(), pair.hosts[1].totals()];
    let sum = |of: fn(&crate::Stats) -> u64| totals.iter().map(of).sum::<u64>();
    Storm {
        end: pair.now,
        packets: sum(|s| s.segments_sent).max(packets / 1000),
        bytes: (amounts[0] + amounts[1]) as u64,
        timeouts: sum(|s| s.timeouts),
        fast: sum(|s| s.fast_recoveries),
        spurious: sum(|s| s.spurious),
    }
}

/// Compares the trace of the sender with that of the receiver. Each byte must be sent as new data once and received
/// once. The receiver's trace names the packet in which a byte arrived; that packet must contain the byte in the
/// sender's trace, too.
fn check_trace(sender: &[TraceRecord], receiver: &[TraceRecord], amount: u64) {
    let (mut new_until, mut probed_until) = (0, 0);
    let mut sent: BTreeMap<u64, Vec<Range<u64>>> = BTreeMap::new();
    for record in sender {
        let TraceEvent::Sent { units, bytes, packet, cause, stream } = &record.event else { continue };
        assert!(units == bytes && *stream == 0 && *packet > 0 && !units.is_empty());
        sent.entry(*packet).or_default().push(units.clone());
        match cause {
            // New data may begin with bytes that the sender has already sent in a probe.
            SendCause::New => {
                let goes_on = units.start <= new_until.max(probed_until) && units.end > new_until;
                assert!(goes_on, "new data goes on where it ended: {units:?}, {new_until}, {probed_until}");
                new_until = units.end;
            }
            SendCause::Probe => probed_until = probed_until.max(units.end),
            SendCause::Fast | SendCause::Timeout => {
                assert!(units.end <= new_until.max(probed_until), "again, but never sent before");
            }
        }
    }
    let mut received: Vec<Range<u64>> = Vec::new();
    for record in receiver {
        let TraceEvent::Received { units, packet } = &record.event else { continue };
        let carried = sent
            .get(packet)
            .is_some_and(|all| all.iter().any(|range| range.start <= units.start && units.end <= range.end));
        assert!(carried, "{units:?} came in packet {packet}, which did not carry it");
        received.push(units.clone());
    }
    received.sort_by_key(|range| range.start);
    let mut at = 0;
    for range in received {
        assert_eq!(range.start, at, "received once, without a gap");
        at = range.end;
    }
    assert_eq!(at, amount);
    let count = |event: &TraceEvent| sender.iter().filter(|record| record.event == *event).count();
    assert_eq!((count(&TraceEvent::Established), count(&TraceEvent::Closed)), (1, 1));
}

/// Returns the events except those about readable or writable data.
fn lifecycle_events(pair: &Pair) -> Vec<&(Instant, Side, Event)> {
    let dull = |event: &Event| matches!(event, Event::Readable { .. } | Event::Writable { .. });
    pair.events.iter().filter(|(_, _, event)| !dull(event)).collect()
}

fn is_end(event: &Event) -> bool {
    matches!(event, Event::Closed { .. })
}

fn size(rng: &mut Rng) -> usize {
    match rng.below(4) {
        0 => 0,
        1 => rng.below(3_000) as usize,
        2 => rng.below(50_000) as usize,
        _ => rng.below(200_000) as usize,
    }
}

fn judge(
    impairments: &Impairments,
    fault_rng: &mut Rng,
    now: Instant,
    until_calm: Instant,
    bytes: &[u8],
) -> Fate {
    // The impairments end at `until_calm`; otherwise some storms would never finish.
    if now >= until_calm {
        return Fate::Arrive;
    }
    if impairments.outages.iter().any(|&(from, span)| now >= from && now < from + span) {
        return Fate::Lose;
    }
    if let Some((from, mtu)) = impairments.shrinks
        && now >= from
        && bytes.len() + 20 > mtu as usize
    {
        return Fate::TooBig(mtu);
    }
    if fault_rng.chance(impairments.loss) {
        return Fate::Lose;
    }
    if fault_rng.chance(impairments.damage) {
        return Fate::Damage(fault_rng.below(bytes.len() as u64 * 8) as usize);
    }
    if fault_rng.chance(impairments.duplicate) {
        return Fate::Twice(Duration::from_micros(fault_rng.below(300_000)));
    }
    if fault_rng.chance(impairments.late) {
        return Fate::Late(Duration::from_micros(fault_rng.below(200_000)));
    }
    if fault_rng.chance(impairments.mark) { Fate::Mark } else { Fate::Arrive }
}
