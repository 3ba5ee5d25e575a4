//! Calls any operation of the SCTP endpoint's API at any time, on a pair of endpoints.
//!
//! Every message carries its number. During the operations, the data that arrives must be intact, and no message may
//! arrive twice. Messages of a stream must arrive in order, unless they are sent as unordered. After the operations,
//! the network becomes reliable, and every association must end.

use crate::source::Source;
use anabranch_base::time::Duration;
use anabranch_base::{Engine, Ratio};
use anabranch_sctp::testing::{Observer, Pair, Side, address};
use anabranch_sctp::{
    Associate, AssociationId, Config, Direction, Event, Message, Reliability, SchedulerKind,
};
use anabranch_wire::ladder::{self, Ladder, Transport};
use std::collections::{BTreeMap, BTreeSet};

const PORT: u16 = 80;

/// The state of the application that uses one of the two endpoints.
#[derive(Default)]
struct App {
    ids: Vec<AssociationId>,
    /// Readable streams.
    readable: Vec<(AssociationId, u16)>,
    /// The part of a message that was read so far, by association and stream.
    partial: BTreeMap<(AssociationId, u16), Vec<u8>>,
    /// The number of the last ordered message that arrived, by association and stream.
    last: BTreeMap<(AssociationId, u16), u64>,
    /// The numbers of all messages that have arrived. A number may arrive once in each of two associations of the same
    /// peers. This happens if one side gives up an association before the other side sees it as established. The other
    /// side then opens a second association.
    seen: BTreeSet<(AssociationId, u64)>,
}

/// Runs the operations that `input` encodes, on two endpoints and the network between them.
pub fn run(input: &[u8]) {
    let mut source = Source::new(input);
    let configs = [configuration(&mut source), configuration(&mut source)];
    let paths = 1 + source.below(3) as usize;
    let [a, b] = configs;
    let unprotected = a.zero_checksum || b.zero_checksum;
    let mut pair = Pair::new(a, b, paths, 1);
    pair.b.listen(PORT).expect("free");
    if std::env::var_os("DRAW").is_some() {
        pair.observer = Some(drawing(paths));
    }
    let mut apps = [App::default(), App::default()];
    let mut number = 0;
    request(&mut pair, &mut apps[0]);
    while !source.is_over() {
        operate(&mut source, &mut pair, &mut apps, &mut number, paths, unprotected);
        hear(&mut pair, &mut apps);
    }
    pair.network = anabranch_sctp::testing::Network::default();
    // RFC 9260 §9.2, §8.1: every wait of an association must end within this time.
    let until = pair.now + Duration::from_secs(7_200);
    let mut requests = [0, 0];
    loop {
        // Shuts down all associations, including those that were accepted in the last pass of this loop. Without
        // HEARTBEATs (`hb_interval=0`), an idle association that nobody shuts down would not notice that its peer is
        // gone.
        for side in [Side::A, Side::B] {
            let (now, ids) = (pair.now, &apps[side as usize].ids);
            for &id in &ids[requests[side as usize]..] {
                pair.endpoint(side).shutdown(now, id);
            }
            requests[side as usize] = ids.len();
        }
        if !pair.step(until) {
            break;
        }
        hear(&mut pair, &mut apps);
        for app in &mut apps {
            app.readable.sort_unstable();
            app.readable.dedup();
        }
        read(&mut pair, &mut apps);
    }
    for side in [Side::A, Side::B] {
        let now = pair.now;
        for id in apps[side as usize].ids.clone() {
            pair.endpoint(side).release(now, id);
        }
        assert_eq!(pair.endpoint(side).poll_timeout(), None, "{side:?}: a timer still runs");
    }
}

/// Draws every packet if `DRAW=1` is set, to analyse a failure.
fn drawing(paths: usize) -> Observer {
    let mut ladder = Ladder::new(Transport::Sctp, "A", "B");
    for (side, at) in [(Side::A, ladder::Side::Left), (Side::B, ladder::Side::Right)] {
        for path in 0..paths.max(4) {
            ladder.set_side(address(side, path).ip(), at, &format!("{side:?}.{path}"));
        }
    }
    Box::new(move |now, side, bytes, passes| {
        let line = ladder.line(now, address(side, 0).ip(), address(side.other(), 0).ip(), bytes);
        println!("{line}{}", if passes { "" } else { "  ✗ lost" });
    })
}

fn configuration(source: &mut Source<'_>) -> Config {
    let mut config = Config::profile(source.pick(anabranch_sctp::PROFILES)).expect("a profile");
    let bits = u32::from(source.byte()) << 8 | u32::from(source.byte());
    let keys = [
        "partial_reliability",
        "interleaving",
        "auth",
        "asconf",
        "reconfig",
        "zero_checksum",
        "ecn",
        "nagle",
        "cookie_data",
    ];
    for (n, key) in keys.iter().enumerate() {
        if *key != "asconf" || bits & 4 != 0 {
            config.set(key, if bits >> n & 1 == 1 { "yes" } else { "no" }).expect("a knob");
        }
    }
    let mut set = |key, value| config.set(key, value).expect("a knob");
    set("nr_sack", if bits >> 12 & 1 == 1 { "yes" } else { "no" });
    set("rtt_from_cookie", if bits >> 13 & 1 == 1 { "yes" } else { "no" });
    set("pmtud", if bits >> 9 & 1 == 1 { "plpmtud" } else { "icmp" });
    set("pf_max_retrans", if bits >> 10 & 1 == 1 { "0" } else { "off" });
    set("num_ostreams", source.pick(&["1", "10", "65535"]));
    set("rcvbuf", source.pick(&["3000B", "20000B", "1MiB"]));
    set("sndbuf", source.pick(&["5000B", "70kB", "1MiB"]));
    set("partial_delivery", source.pick(&["1B", "64KiB"]));
    set("hb_interval", source.pick(&["0", "1s", "30s"]));
    set("auth_chunks", if bits & 4 != 0 { source.pick(&["none", "all", "data"]) } else { "none" });
    config
}

fn request(pair: &mut Pair, app: &mut App) {
    let (now, peer) = (pair.now, address(Side::B, 0));
    if let Ok(id) = pair.a.associate(now, Associate::to(peer, PORT)) {
        app.ids.push(id);
    }
}

fn operate(
    source: &mut Source<'_>,
    pair: &mut Pair,
    apps: &mut [App; 2],
    number: &mut u64,
    paths: usize,
    unprotected: bool,
) {
    let side = if source.one_in(2) { Side::A } else { Side::B };
    let now = pair.now;
    let ids = &apps[side as usize].ids;
    let Some(&id) = ids.get(source.below(4) as usize % ids.len().max(1)) else {
        let until = now + Duration::from_millis(200);
        pair.step(until);
        return;
    };
    let engine = pair.endpoint(side);
    let stream = source.pick(&[0, 1, 3, 9, 300, 65_534, 65_535]);
    let key = u16::from(source.byte() % 4);
    match source.below(32) {
        0..=7 => {
            let reliability = match source.below(8) {
                0 => Reliability::Lifetime(Duration::from_millis(u64::from(source.byte()) * 4)),
                1 => Reliability::Retransmissions(source.below(3)),
                2 => Reliability::Priority(source.below(4)),
                _ => Reliability::Full,
            };
            let message = Message {
                stream,
                unordered: source.one_in(4),
                reliability,
                context: *number as u32,
                ..Message::default()
            };
            let length = 8 + source.pick(&[0, 1, 90, 1_300, 5_000, 60_000]) + usize::from(source.byte());
            if engine.send(now, id, message, &content(*number, length)).is_ok() {
                *number += 1;
            }
        }
        8..=12 => {
            let until = now + Duration::from_millis(1 << source.below(16));
            for _ in 0..200 {
                if !pair.step(until) {
                    break;
                }
                hear(pair, apps);
            }
        }
        13 | 14 => read(pair, apps),
        15 => {
            let percent = |n: u8| Ratio::new(u64::from(n % 40), 100).expect("below one");
            pair.network.loss = percent(source.byte());
            pair.network.duplicate = percent(source.byte());
            // Without checksums, damage is not detected, so the network damages no packets.
            pair.network.corrupt = if unprotected { Ratio::ZERO } else { percent(source.byte() / 4) };
            pair.network.jitter = Duration::from_millis(u64::from(source.byte()));
            pair.network.cut = (0..paths).filter(|_| source.one_in(4)).collect();
        }
        16 => engine.shutdown(now, id),
        17 if source.one_in(8) => engine.abort(now, id),
        18 if source.one_in(8) => engine.release(now, id),
        17..=20 => {
            let direction = source.pick(&[Direction::Outgoing, Direction::Incoming, Direction::Both]);
            let _ = match source.below(4) {
                0 => engine.reset_association(now, id),
                1 => engine.add_streams(now, id, source.number() as u16, source.number() as u16),
                _ => engine.reset_streams(now, id, direction, &[stream, 1][..source.below(3) as usize]),
            };
        }
        21 | 22 => {
            let moving = address(side, source.below(4) as usize);
            let other = address(side.other(), source.below(4) as usize);
            match source.below(5) {
                0 => engine.add_address(now, moving, source.pick(&[0, 68, 600, 1_500, 65_535])),
                1 => engine.remove_address(now, moving.ip()),
                2 => drop(engine.set_peer_primary(now, id, moving.ip())),
                3 => drop(engine.set_primary(now, id, source.below(4) as usize)),
                _ => drop(engine.use_address(now, id, other.ip(), source.one_in(2))),
            }
        }
        23 | 24 => {
            let of = source.one_in(2).then_some(id);
            let _ = match source.below(4) {
                0 => engine.set_key(of, key, source.bytes(20)),
                1 => engine.activate_key(of, key),
                2 => engine.deactivate_key(now, id, key),
                _ => engine.delete_key(of, key),
            };
        }
        25 => {
            let kinds = [
                SchedulerKind::Fcfs,
                SchedulerKind::RoundRobin,
                SchedulerKind::RoundRobinPacket,
                SchedulerKind::Priority,
                SchedulerKind::Fair,
                SchedulerKind::WeightedFair,
            ];
            let _ = engine.set_scheduler(now, id, source.pick(&kinds));
            let _ = engine.set_stream_value(now, id, stream, source.number() as u16);
        }
        26 => {
            let changes = [
                ("delack", "0"),
                ("delack", "500ms"),
                ("rto_max", "1s"),
                ("rto_min", "10ms"),
                ("hb_interval", "1s"),
                ("sndbuf", "3000B"),
                ("path_max_retrans", "0"),
                ("nagle", "no"),
                ("max_burst", "1"),
                ("mss", "64B"),
            ];
            let (key, value) = source.pick(&changes);
            engine.tune(now, id, |config| drop(config.set(key, value)));
        }
        27 if side == Side::A && ids.len() < 4 => request(pair, &mut apps[0]),
        28 => {
            engine.set_mtu(address(side, source.below(3) as usize).ip(), source.number());
        }
        29 => {
            let _ = (engine.info(id), engine.stats(id), engine.abandoned(id, None, None));
            let _ = (engine.writable_bytes(id), engine.fragment_size(id), engine.readable_bytes(id, stream));
        }
        _ => engine.close_listener(source.pick(&[PORT, 81, 0])),
    }
}

/// Returns the content of message `number`.
fn content(number: u64, length: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> = (0..length).map(|i| (number as usize * 31 + i * 7) as u8).collect();
    bytes[..8].copy_from_slice(&number.to_be_bytes());
    bytes
}

fn hear(pair: &mut Pair, apps: &mut [App; 2]) {
    for side in [Side::A, Side::B] {
        for event in pair.events(side) {
            if pair.observer.is_some() {
                println!("        {side:?}: {event:?}");
            }
            let app = &mut apps[side as usize];
            match event {
                Event::Accepted { id, .. } => app.ids.push(id),
                Event::Readable { id, stream } => app.readable.push((id, stream)),
                // After a restart, SSNs count from 0 again, and data in flight is lost.
                Event::Restarted { id } => {
                    app.last.retain(|(other, _), _| *other != id);
                    app.partial.retain(|(other, _), _| *other != id);
                }
                _ => {}
            }
        }
    }
}

fn read(pair: &mut Pair, apps: &mut [App; 2]) {
    for side in [Side::A, Side::B] {
        let now = pair.now;
        let app = &mut apps[side as usize];
        let mut buffer = vec![0; 2_000];
        for (id, stream) in std::mem::take(&mut app.readable) {
            while let Ok(Some(got)) = pair.endpoint(side).recv(now, id, stream, &mut buffer) {
                let key = (id, stream);
                let whole = app.partial.entry(key).or_default();
                whole.extend_from_slice(&buffer[..got.bytes]);
                if got.incomplete {
                    whole.clear();
                    continue;
                }
                if !got.end_of_message {
                    continue;
                }
                let whole = std::mem::take(whole);
                let number = u64::from_be_bytes(whole[..8].try_into().expect("eight bytes"));
                if pair.observer.is_some() {
                    println!("        {side:?}: read {number} of {id:?}");
                }
                assert!(whole == content(number, whole.len()), "message {number} is damaged");
                assert!(app.seen.insert((id, number)), "message {number} came twice");
                if !got.unordered {
                    let before = app.last.insert(key, number);
                    assert!(before.is_none_or(|before| before < number), "{number} behind {before:?}");
                }
            }
        }
    }
}
