//! Rows of the feature table for features that the paper's table does not have, because they came after the paper.

use super::harness::{Harness, MessageOptions, MessageTransport, numbered};
use super::testbed::{A, B, PORT, QUIET, Testbed};
use super::{FeatureCell, Row, TransportKind, connected, switched, with_harness};
use anabranch_base::time::Duration;
use anabranch_sctp::Direction;
use std::net::SocketAddr;

/// The additional rows, in the order of the feature table.
pub const ROWS: &[Row] = &[
    Row {
        name: "data before the set-up is done",
        experiment: "A opens and sends a message at once; the time until B has it, in round trips",
        probe: early_data,
    },
    Row {
        name: "interleaving of large messages",
        experiment: "a message of 60 kB over 1 Mbit/s, and 20 ms later one of 8 B on another stream",
        probe: interleaving,
    },
    Row {
        name: "stream reset",
        experiment: "a stream that has carried two messages is reset while the connection stays; then a third message",
        probe: stream_reset,
    },
    Row {
        name: "restart of a peer is told",
        experiment: "A loses all memory and connects again; whether B is notified within 5 s, and data goes on",
        probe: restart,
    },
    Row {
        name: "path MTU black hole survived",
        experiment: "messages of 1400 B; behind a router that sends no ICMP the path takes only 1000 B",
        probe: black_hole,
    },
    Row {
        name: "authentication of chunks",
        experiment: "both ends share a key, then two different ones; where there are no keys a third host forges a packet of A's",
        probe: authentication,
    },
    Row {
        name: "failover within seconds",
        experiment: "two paths; the first dies for good while 100 messages a second are sent",
        probe: quick_failover,
    },
    Row {
        name: "change of address under way",
        experiment: "100 messages a second; A gets a second address, and half a second later loses the first and its path",
        probe: roaming,
    },
];

fn early_data(kind: TransportKind) -> Result<FeatureCell, String> {
    let testbed = Testbed::quiet()?;
    let first = with_harness(&testbed, &kind.carrier(&[]), async |harness| {
        let started_at = harness.now();
        harness.open(PORT);
        harness.send(A, &[1; 100], MessageOptions::default());
        harness.until(5_000, |harness| !harness.received[B].is_empty()).await;
        let set_up = harness.until(5_000, |harness| harness.established[A]).await;
        (harness.received[B].first().map(|part| part.at - started_at), set_up)
    })?;
    let (Some(first), _) = first else {
        return Ok(FeatureCell::of(false, "the message never arrived".to_owned()));
    };
    let trips = first.as_micros() as f64 / 40_000.0;
    // SCTP's set-up has four packets, and the third packet can carry the message. The message therefore arrives after
    // one and a half round trips (60 ms) at the earliest.
    let yes = first < Duration::from_millis(65);
    Ok(FeatureCell::of(yes, format!("B has the message after {trips:.1} round trips")))
}

fn interleaving(kind: TransportKind) -> Result<FeatureCell, String> {
    let with = |changes: &[(&str, &str)]| -> Result<Option<(u64, u64)>, String> {
        let testbed = Testbed::new(&["rate=1mbit,rtt=40ms,queue=100p"])?;
        connected(&testbed, &kind.carrier(changes), async |harness| {
            harness.pass(500).await;
            let started_at = harness.now();
            harness.say(A, 1, 60_000);
            harness.pass(20).await;
            harness.send(A, &numbered(2, 8), MessageOptions { stream: 1, ..MessageOptions::default() });
            harness.until(10_000, |harness| harness.bytes(B) >= 60_008).await;
            // On a transport without streams, the 8-byte message counts as arrived when all 60,008 bytes of the two
            // messages have arrived.
            let (mut seen, mut small, mut large) = (0, None, None);
            for part in &harness.received[B] {
                let after = (part.at - started_at).as_millis() as u64;
                seen += if part.stream == 0 { part.bytes.len() } else { 0 };
                if seen >= 60_000 {
                    large = large.or(Some(after));
                }
                if part.stream == 1 || seen >= 60_008 {
                    small = small.or(Some(after));
                }
            }
            small.zip(large)
        })
    };
    let tell = |found: Option<(u64, u64)>| match found {
        Some((small, large)) => {
            format!("the small one comes after {small} ms, the large one after {large} ms")
        }
        None => "not both arrived".to_owned(),
    };
    let good = |found: Option<(u64, u64)>| found.is_some_and(|(small, large)| small < large / 2);
    switched(
        kind,
        (&[("interleaving", "yes"), ("scheduler", "rr")], ["with interleaving=yes", "without"]),
        with,
        good,
        tell,
    )
}

fn stream_reset(kind: TransportKind) -> Result<FeatureCell, String> {
    let with = |changes: &[(&str, &str)]| -> Result<(bool, bool), String> {
        let testbed = Testbed::quiet()?;
        connected(&testbed, &kind.carrier(changes), async |harness| {
            harness.say(A, 1, 50);
            harness.say(A, 2, 50);
            harness.pass(500).await;
            let now = harness.now();
            let requested = harness
                .sctp(A, |engine, id| engine.reset_streams(now, id, Direction::Outgoing, &[0]).is_ok())
                .unwrap_or(false);
            harness.pass(500).await;
            let notified =
                harness.events.iter().any(|(side, what)| *side == B && what.contains("StreamsReset"));
            harness.say(A, 3, 50);
            harness.pass(500).await;
            (requested && notified, harness.numbers(B, 50) == [1, 2, 3])
        })
    };
    let plain = with(&[])?;
    if kind != TransportKind::Sctp {
        let third = if plain.1 { "arrives after the other two" } else { "does not arrive" };
        return Ok(FeatureCell::of(
            plain.0,
            format!("it has no streams to reset, and B is not notified; the third message {third}"),
        ));
    }
    let on = with(&[("reconfig", "yes")])?;
    let outcome = |(notified, arrived): (bool, bool)| match (notified, arrived) {
        (true, true) => "B is notified and the next message arrives",
        (true, false) => "B is notified and the next message does not arrive",
        (false, _) => "B is not notified",
    };
    Ok(FeatureCell::switched(
        plain.0 && plain.1,
        on.0 && on.1,
        format!("with reconfig=yes {}; without {}", outcome(on), outcome(plain)),
    ))
}

fn restart(kind: TransportKind) -> Result<FeatureCell, String> {
    let testbed = Testbed::quiet()?;
    let carrier = kind.carrier(&[]);
    let found = testbed.run(async {
        let mut harness = Harness::start(&testbed, &carrier).await?;
        harness.connect().await;
        harness.say(A, 1, 50);
        harness.pass(500).await;
        harness.restart(A, &carrier).await?;
        let before = harness.events.len();
        harness.open(PORT);
        harness.until(5_000, |harness| harness.established[A]).await;
        harness.say(A, 2, 50);
        harness.pass(2_000).await;
        let events: Vec<String> = harness.events[before..]
            .iter()
            .filter(|(side, _)| *side == B)
            .map(|(_, what)| what.clone())
            .collect();
        Ok((events, harness.numbers(B, 50).contains(&2), harness.connection_count(B)))
    })?;
    let (events, arrived, buffered) = found;
    let restarted = events.iter().any(|what| what.contains("Restarted") || what.contains("Closed"));
    let goes_on = if arrived { "the next message arrives" } else { "the next message does not arrive" };
    let verdict = if restarted {
        "B is notified that the peer has restarted"
    } else {
        "B is not notified about the old connection"
    };
    Ok(FeatureCell::of(restarted && arrived, format!("{verdict}; {goes_on}; B holds {buffered} connections")))
}

fn black_hole(kind: TransportKind) -> Result<FeatureCell, String> {
    let with = |changes: &[(&str, &str)]| -> Result<(usize, Option<u64>), String> {
        let (testbed, _) = Testbed::routed(QUIET, "rate=10mbit,rtt=2ms,queue=100p,mtu=1000", 1)?;
        if let Some(router) = testbed.router {
            testbed.network.set_sends_icmp(router, false);
        }
        connected(&testbed, &kind.carrier(changes), async |harness| {
            let started_at = harness.now();
            for number in 0..20 {
                harness.say(A, number, 1400);
                harness.pass(20).await;
            }
            harness.until(120_000, |harness| harness.bytes(B) >= 28_000).await;
            let last = harness.received[B].last().map(|part| (part.at - started_at).as_millis() as u64);
            (harness.bytes(B), last)
        })
    };
    let tell = |(arrived, last): (usize, Option<u64>)| match last {
        Some(ms) if arrived == 28_000 => format!("all of 28000 B come within {:.1} s", ms as f64 / 1e3),
        _ => format!("{arrived} of 28000 B come within two minutes"),
    };
    switched(
        kind,
        (&[("pmtud", "plpmtud")], ["with pmtud=plpmtud", "with icmp"]),
        with,
        |(arrived, _)| arrived == 28_000,
        tell,
    )
}

fn authentication(kind: TransportKind) -> Result<FeatureCell, String> {
    if kind != TransportKind::Sctp {
        return super::spoofer::probe(kind);
    }
    let with = |keys: [&[u8]; 2]| -> Result<bool, String> {
        let testbed = Testbed::quiet()?;
        let carrier = MessageTransport::sctp(&[("auth", "yes"), ("auth_chunks", "data")]);
        connected(&testbed, &carrier, async |harness| {
            for side in [A, B] {
                harness.sctp(side, |engine, id| {
                    engine.set_key(Some(id), 1, keys[side]).and_then(|()| engine.activate_key(Some(id), 1))
                });
            }
            harness.say(A, 1, 50);
            harness.pass(5_000).await;
            harness.numbers(B, 50) == [1]
        })
    };
    let (same, different) = (with([b"one secret", b"one secret"])?, with([b"one secret", b"another"])?);
    let verdict = |arrived| if arrived { "comes" } else { "does not come" };
    Ok(FeatureCell::switched(
        false,
        same && !different,
        format!(
            "with auth=yes a message {} under the same key and {} under another",
            verdict(same),
            verdict(different)
        ),
    ))
}

fn quick_failover(kind: TransportKind) -> Result<FeatureCell, String> {
    let with = |changes: &[(&str, &str)]| -> Result<Option<u64>, String> {
        let testbed = Testbed::new(&[QUIET, QUIET])?;
        let network = &testbed.network;
        let link = testbed.links[0];
        connected(&testbed, &kind.carrier(changes), async |harness| {
            for number in 0..400 {
                if number == 100 {
                    network.outage(link, harness.now(), None);
                }
                harness.say(A, number, 100);
                harness.pass(10).await;
            }
            let started_at = harness.now();
            let all = harness.until(60_000, |harness| harness.bytes(B) >= 40_000).await;
            all.then(|| (harness.now() - started_at).as_millis() as u64)
        })
    };
    let tell = |late: Option<u64>| match late {
        Some(ms) => format!("the last of them comes {:.1} s after it was sent", ms as f64 / 1e3),
        None => "the last of them does not come within a minute".to_owned(),
    };
    let good = |late: Option<u64>| late.is_some_and(|ms| ms < 2_000);
    switched(
        kind,
        (&[("pf_max_retrans", "0")], ["with pf_max_retrans=0 (RFC 7829)", "without"]),
        with,
        good,
        tell,
    )
}

fn roaming(kind: TransportKind) -> Result<FeatureCell, String> {
    let with = |changes: &[(&str, &str)]| -> Result<usize, String> {
        let testbed = Testbed::new(&[QUIET, QUIET])?;
        let carrier = kind.carrier(changes);
        let link = testbed.links[0];
        let [old, new] = [testbed.addresses[A][0], testbed.addresses[A][1]];
        testbed.run(async {
            let mut harness = Harness::start_on(&testbed, &carrier, 1).await?;
            harness.connect().await;
            for number in 0..400 {
                let now = harness.now();
                if number == 100 {
                    harness.sctp(A, |engine, _| engine.add_address(now, SocketAddr::new(new, 0), 1500));
                }
                if number == 150 {
                    harness.sctp(A, |engine, _| engine.remove_address(now, old));
                    testbed.network.outage(link, now, None);
                }
                harness.say(A, number, 100);
                harness.pass(10).await;
            }
            harness.until(5_000, |harness| harness.bytes(B) >= 40_000).await;
            Ok(harness.bytes(B) / 100)
        })
    };
    let tell = |arrived: usize| format!("{arrived} of 400 messages come within 5 s of the last");
    switched(
        kind,
        (&[("auth", "yes"), ("asconf", "yes")], ["with asconf=yes", "without"]),
        with,
        |arrived| arrived == 400,
        tell,
    )
}
