//! The sixteen protocol features (rows) of the published table. A simulation determines the verdict of each cell.
//!
//! Each row describes an experiment. A probe carries the experiment out over one transport and reports what it
//! observed. The verdict `optional` needs two runs of a probe. The run with a mechanism switched on must succeed, and
//! the run with the mechanism switched off must fail.

use super::harness::{Delivery, Harness, MessageOptions, numbered};
use super::testbed::{A, B, QUIET, Testbed};
use super::{FeatureCell, FeatureVerdict, Row, TransportKind, connected, switched};
use anabranch_base::time::Duration;
use anabranch_link::spec::Direction;
use anabranch_sim::{TapEvent, TapRecord};
use anabranch_wire::ladder::Transport;

/// The rows of the published table, in its order.
pub const ROWS: &[Row] = &[
    row("full-duplex data transmission", "both ends send 20 messages of 1000 B at once", full_duplex),
    row(
        "connection-oriented",
        "A opens a connection; packets before any user data are counted",
        super::connection::probe,
    ),
    row("reliable data transfer", "200 messages of 500 B over 10 % loss both ways", reliable),
    row(
        "partially reliable data transfer",
        "while the path is down: a message that may be given up after 200 ms, and one that must arrive",
        partial,
    ),
    row(
        "ordered data delivery",
        "200 numbered messages, 1 ms apart, over a path that lets 20 % overtake",
        ordered,
    ),
    row(
        "unordered data delivery",
        "the first of ten messages is lost; messages are unordered where the transport has that",
        unordered,
    ),
    row(
        "flow and congestion control",
        "1 MB is offered to a reader that does not read (64 KiB buffer), and to a path of 1 Mbit/s",
        flow_and_congestion,
    ),
    row(
        "explicit congestion notification support",
        "bulk over 2 Mbit/s whose router marks instead of dropping, by default and with ecn=yes",
        ecn,
    ),
    row(
        "selective acknowledgements",
        "two gaps in one window; acknowledgements that report data beyond a gap, by default and switched off",
        sack,
    ),
    row("preservation of message boundaries", "10, 20 and 30 B are sent at once and read later", boundaries),
    row("path MTU discovery", "messages of 1400 B; behind a router the path takes only 1000 B", path_mtu),
    row(
        "application data fragmentation/bundling",
        "a message of 5000 B, then ten of 20 B at once",
        fragmentation,
    ),
    row(
        "multistreaming",
        "two messages on each of two streams; the first of stream 0 is lost",
        multistreaming,
    ),
    row("multihoming", "two paths; the first dies for good before 20 messages are sent", multihoming),
    row(
        "protection against SYN flooding",
        "20 000 opening packets from 250 addresses that never answer; then an honest client",
        super::flood::probe,
    ),
    row("half-closed connection", "A ends its direction; then B sends 50 kB", half_closed),
];

const fn row(
    name: &'static str,
    experiment: &'static str,
    probe: fn(TransportKind) -> Result<FeatureCell, String>,
) -> Row {
    Row { name, experiment, probe }
}

fn entered(link_events: &[TapRecord], direction: Direction) -> impl Iterator<Item = &TapRecord> {
    link_events.iter().filter(move |p| p.event == TapEvent::Entered && p.direction == direction)
}

fn full_duplex(kind: TransportKind) -> Result<FeatureCell, String> {
    let testbed = Testbed::quiet()?;
    let got = connected(&testbed, &kind.carrier(&[]), async |harness| {
        for number in 0..20 {
            for side in [A, B] {
                harness.say(side, number, 1000);
            }
        }
        harness.pass(2_000).await;
        [harness.bytes(A), harness.bytes(B)]
    })?;
    let link_events = testbed.take_link_events();
    let span = |direction| {
        let times: Vec<_> =
            entered(&link_events, direction).filter(|p| p.bytes > 900).map(|p| p.at).collect();
        Some((*times.first()?, *times.last()?))
    };
    let overlap = match (span(Direction::Up), span(Direction::Down)) {
        (Some(up), Some(down)) => up.0 < down.1 && down.0 < up.1 || up.0 == down.0,
        _ => false,
    };
    let yes = got == [20_000, 20_000] && overlap;
    let how = if overlap { "in the same span" } else { "not in the same span" };
    Ok(FeatureCell::of(
        yes,
        format!("{} B came to A and {} B to B, data packets both ways {how}", got[A], got[B]),
    ))
}

fn reliable(kind: TransportKind) -> Result<FeatureCell, String> {
    let testbed = Testbed::new(&["rate=10mbit,rtt=40ms,queue=100p,loss=10%"])?;
    let got = connected(&testbed, &kind.carrier(&[]), async |harness| {
        for number in 0..200 {
            harness.say(A, number, 500);
            harness.pass(5).await;
        }
        harness.until(120_000, |harness| harness.bytes(B) >= 100_000).await;
        harness.numbers(B, 500)
    })?;
    let mut sorted = got.clone();
    sorted.sort_unstable();
    let lost = testbed.take_link_events().iter().filter(|p| matches!(p.event, TapEvent::Lost(_))).count();
    let yes = sorted == (0..200).collect::<Vec<_>>();
    Ok(FeatureCell::of(yes, format!("{} of 200 messages came; the network lost {lost} packets", got.len())))
}

fn partial(kind: TransportKind) -> Result<FeatureCell, String> {
    let with = |changes: &[(&str, &str)]| -> Result<(bool, bool), String> {
        let testbed = Testbed::quiet()?;
        let network = &testbed.network;
        let link = testbed.links[0];
        connected(&testbed, &kind.carrier(changes), async |harness| {
            harness.pass(500).await;
            network.outage(link, harness.now(), Some(Duration::from_millis(1500)));
            let lifetime = Some(Duration::from_millis(200));
            harness.send(A, &numbered(1, 100), MessageOptions { lifetime, ..MessageOptions::default() });
            harness.pass(5).await;
            harness.say(A, 2, 100);
            harness.pass(30_000).await;
            let arrived = harness.numbers(B, 100);
            (arrived.contains(&1), arrived.contains(&2))
        })
    };
    let tell = |(first, second): (bool, bool)| {
        let outcome = |arrived| if arrived { "arrived" } else { "did not" };
        format!("the one that may be given up {}, the other {}", outcome(first), outcome(second))
    };
    switched(
        kind,
        (&[("partial_reliability", "yes")], ["with partial_reliability=yes", "without"]),
        with,
        |found| found == (false, true),
        tell,
    )
}

fn ordered(kind: TransportKind) -> Result<FeatureCell, String> {
    let testbed = Testbed::new(&["rate=10mbit,rtt=40ms,queue=100p,reorder=20%/15ms"])?;
    let got = connected(&testbed, &kind.carrier(&[]), async |harness| {
        for number in 0..200 {
            harness.say(A, number, 200);
            harness.pass(1).await;
        }
        harness.until(20_000, |harness| harness.bytes(B) >= 40_000).await;
        harness.numbers(B, 200)
    })?;
    let yes = got == (0..200).collect::<Vec<_>>();
    let early = got.windows(2).filter(|pair| pair[1] < pair[0]).count();
    Ok(FeatureCell::of(yes, format!("{} of 200 came, {early} after one with a higher number", got.len())))
}

/// Makes the path lose every packet that host A or B sends in this millisecond and in the next three milliseconds.
async fn lose_next(harness: &mut Harness, testbed: &Testbed) {
    testbed.network.outage(testbed.links[0], harness.now(), Some(Duration::from_millis(4)));
    harness.pass(1).await;
}

fn unordered(kind: TransportKind) -> Result<FeatureCell, String> {
    let testbed = Testbed::quiet()?;
    let how = MessageOptions { unordered: true, ..MessageOptions::default() };
    let got = connected(&testbed, &kind.carrier(&[]), async |harness| {
        harness.pass(500).await;
        lose_next(harness, &testbed).await;
        for number in 1..=10 {
            harness.send(A, &numbered(number, 500), how);
            harness.pass(5).await;
        }
        harness.pass(10_000).await;
        harness.numbers(B, 500)
    })?;
    let before = got.iter().take_while(|&&number| number != 1).count();
    let yes = before > 0 && !got.is_empty();
    let observed = match got.contains(&1) {
        true => format!("{before} of the others were delivered before the first"),
        false => format!("{before} of the others were delivered; the first never arrived"),
    };
    Ok(FeatureCell::of(yes, observed))
}

fn flow_and_congestion(kind: TransportKind) -> Result<FeatureCell, String> {
    // To test flow control, host B does not read the data that it receives.
    let testbed = Testbed::new(&["rate=100mbit,rtt=20ms,queue=1000p"])?;
    connected(&testbed, &kind.carrier(&[("rcvbuf", "64KiB")]), async |harness| {
        harness.reads[B] = false;
        offer(harness, 1000, 5_000).await;
    })?;
    let unread: u64 = entered(&testbed.take_link_events(), Direction::Up).map(|p| u64::from(p.bytes)).sum();
    // To test congestion control, the rate of the path is lower than the rate of the offered messages.
    let testbed = Testbed::new(&["rate=1mbit,rtt=40ms,queue=20p"])?;
    connected(&testbed, &kind.carrier(&[]), async |harness| {
        offer(harness, 1000, 20_000).await;
    })?;
    let link_events = testbed.take_link_events();
    let sent = entered(&link_events, Direction::Up).count().max(1);
    let lost = link_events
        .iter()
        .filter(|p| p.direction == Direction::Up && matches!(p.event, TapEvent::Lost(_)))
        .count();
    let share = 100 * lost / sent;
    let yes = unread < 2 * 65_536 && share < 20;
    Ok(FeatureCell::of(
        yes,
        format!(
            "{} kB were sent to the reader that does not read; {share} % of packets were lost at the narrow path",
            unread / 1000
        ),
    ))
}

/// Offers messages of 1000 B to the transport, one per millisecond, for `milliseconds`. Offers a message again if the
/// transport does not accept it.
async fn offer(harness: &mut Harness, messages: u32, milliseconds: u64) {
    let mut next = 0;
    for _ in 0..milliseconds {
        // Nothing limits a UDP sender. One message of 1000 B per millisecond is 8 Mbit/s, eight times the rate of the
        // narrow path.
        if next < messages && harness.say(A, next, 1000) {
            next += 1;
        }
        harness.pass(1).await;
    }
}

fn ecn(kind: TransportKind) -> Result<FeatureCell, String> {
    let with = |changes: &[(&str, &str)]| -> Result<(u64, usize), String> {
        let testbed = Testbed::new(&["rate=2mbit,rtt=40ms,queue=200p,ecn=10p"])?;
        let reductions = connected(&testbed, &kind.carrier(changes), async |harness| {
            offer(harness, 1000, 8_000).await;
            let sctp = harness.sctp(A, |engine, id| engine.stats(id).map(|stats| stats.ecn_reductions));
            let tcp = harness.tcp(A, |engine, id| engine.stats(id).map(|stats| stats.ecn_reductions));
            sctp.flatten().or(tcp.flatten()).unwrap_or(0)
        })?;
        let link_events = testbed.take_link_events();
        let lost = link_events.iter().filter(|p| matches!(p.event, TapEvent::Lost(_))).count();
        Ok((reductions, lost))
    };
    let plain = with(&[])?;
    if let TransportKind::Udp = kind {
        return Ok(FeatureCell::of(plain.0 > 0, "the sender learns nothing about the queue".to_owned()));
    }
    let on = with(&[("ecn", "yes")])?;
    let outcome =
        |(reductions, lost): (u64, usize)| format!("{reductions} reductions and {lost} packets lost");
    let observed = format!("with ecn=yes {}; by default {}", outcome(on), outcome(plain));
    Ok(FeatureCell::switched(plain.0 > 0, on.0 > 0, observed))
}

fn sack(kind: TransportKind) -> Result<FeatureCell, String> {
    let with = |changes: &[(&str, &str)]| -> Result<(usize, bool), String> {
        let testbed = Testbed::quiet()?;
        let network = &testbed.network;
        let link = testbed.links[0];
        let whole = connected(&testbed, &kind.carrier(changes), async |harness| {
            offer(harness, 40, 300).await;
            for number in 0..30 {
                if number == 5 || number == 12 {
                    network.outage(link, harness.now(), Some(Duration::from_millis(2)));
                }
                harness.say(A, number, 1000);
                harness.pass(2).await;
            }
            harness.until(20_000, |harness| harness.bytes(B) >= 70_000).await
        })?;
        if let TransportKind::Udp = kind {
            let answers = entered(&testbed.take_link_events(), Direction::Down).count();
            return Ok((answers, whole));
        }
        let ladder = testbed.ladder(kind.ladder())?;
        let reports = ladder.lines().filter(|line| line.contains("◄──"));
        let mark = if kind.ladder() == Transport::Tcp { " sack=" } else { " gaps=" };
        Ok((reports.filter(|line| line.contains(mark)).count(), whole))
    };
    let plain = with(&[])?;
    match kind {
        TransportKind::Udp => Ok(FeatureCell::of(plain.0 > 0, "no acknowledgement comes back".to_owned())),
        TransportKind::Sctp => Ok(FeatureCell::of(
            plain.0 > 0 && plain.1,
            format!("{} SACKs report data beyond a gap; there is no other acknowledgement", plain.0),
        )),
        TransportKind::Tcp => {
            let off = with(&[("sack", "no")])?;
            let observed = format!(
                "{} acknowledgements report data beyond a gap; with sack=no {}, and the transfer is {}",
                plain.0,
                off.0,
                if off.1 { "complete too" } else { "not complete" }
            );
            // SACK is optional if TCP sends SACK blocks by default and the transfer also completes without them.
            Ok(FeatureCell {
                verdict: if off.1 && plain.0 > 0 {
                    FeatureVerdict::Optional
                } else {
                    FeatureVerdict::of(plain.0 > 0)
                },
                observed,
            })
        }
    }
}

fn boundaries(kind: TransportKind) -> Result<FeatureCell, String> {
    let testbed = Testbed::quiet()?;
    let sizes = connected(&testbed, &kind.carrier(&[]), async |harness| {
        harness.reads[B] = false;
        for size in [10, 20, 30] {
            harness.send(A, &vec![7; size], MessageOptions::default());
        }
        harness.pass(1_000).await;
        harness.reads[B] = true;
        harness.pass(1_000).await;
        harness.received[B].iter().map(|part| part.bytes.len()).collect::<Vec<_>>()
    })?;
    let shown: Vec<String> = sizes.iter().map(usize::to_string).collect();
    Ok(FeatureCell::of(sizes == [10, 20, 30], format!("the reader gets {} bytes", shown.join(", "))))
}

fn path_mtu(kind: TransportKind) -> Result<FeatureCell, String> {
    let (testbed, _) = Testbed::routed(QUIET, "rate=10mbit,rtt=2ms,queue=100p,mtu=1000", 1)?;
    let got = connected(&testbed, &kind.carrier(&[]), async |harness| {
        for number in 0..20 {
            harness.say(A, number, 1400);
            harness.pass(20).await;
        }
        harness.until(30_000, |harness| harness.bytes(B) >= 28_000).await;
        harness.bytes(B)
    })?;
    let link_events = testbed.take_link_events();
    // The sizes of the packets that A sends on its own link. The first packets may exceed the path MTU of 1000 bytes,
    // so only the second half of the packets is checked.
    let sizes: Vec<u32> = entered(&link_events, Direction::Up)
        .filter(|p| p.link == testbed.links[0])
        .map(|p| p.bytes)
        .collect();
    let late = sizes[sizes.len() / 2..].iter().copied().max().unwrap_or(0);
    let yes = got == 28_000 && late <= 1000;
    Ok(FeatureCell::of(yes, format!("{got} of 28000 B came; A's later packets have at most {late} B")))
}

fn fragmentation(kind: TransportKind) -> Result<FeatureCell, String> {
    let testbed = Testbed::quiet()?;
    let (large, from) = connected(&testbed, &kind.carrier(&[]), async |harness| {
        harness.pass(500).await;
        harness.say(A, 0, 5000);
        harness.pass(2_000).await;
        let (large, from) = (harness.bytes(B), harness.now());
        for number in 0..10 {
            harness.say(A, number, 20);
        }
        harness.pass(2_000).await;
        (large, from)
    })?;
    // A packet that carries a small message has at least 20 B besides its IP and transport headers.
    let small = |p: &&TapRecord| p.at >= from && p.bytes >= 20 + 8 + 20;
    let acks = |p: &&TapRecord| kind != TransportKind::Udp && p.bytes < 20 + 12 + 20;
    let packets =
        entered(&testbed.take_link_events(), Direction::Up).filter(small).filter(|p| !acks(p)).count();
    let yes = large == 5000 && packets < 10;
    Ok(FeatureCell::of(yes, format!("{large} of 5000 B came; the ten small ones left in {packets} packets")))
}

fn multistreaming(kind: TransportKind) -> Result<FeatureCell, String> {
    let testbed = Testbed::quiet()?;
    let got = connected(&testbed, &kind.carrier(&[]), async |harness| {
        harness.pass(500).await;
        lose_next(harness, &testbed).await;
        for (number, stream) in [(1, 0), (11, 1), (2, 0), (12, 1)] {
            harness.send(A, &numbered(number, 300), MessageOptions { stream, ..MessageOptions::default() });
            harness.pass(5).await;
        }
        harness.pass(10_000).await;
        harness.numbers(B, 300)
    })?;
    let place_of = |number| got.iter().position(|n| *n == number);
    let in_order = |first, second| matches!((place_of(first), place_of(second)), (Some(a), Some(b)) if a < b);
    let yes = in_order(1, 2) && in_order(11, 12) && in_order(11, 1);
    let shown: Vec<String> = got.iter().map(|n| format!("{}.{}", n / 10, n % 10)).collect();
    Ok(FeatureCell::of(yes, format!("delivered as stream.message: {}", shown.join(" "))))
}

fn multihoming(kind: TransportKind) -> Result<FeatureCell, String> {
    let testbed = Testbed::new(&[QUIET, QUIET])?;
    let network = &testbed.network;
    let link = testbed.links[0];
    let got = connected(&testbed, &kind.carrier(&[]), async |harness| {
        harness.pass(500).await;
        network.outage(link, harness.now(), None);
        for number in 0..20 {
            harness.say(A, number, 500);
        }
        let started_at = harness.now();
        harness.until(120_000, |harness| harness.bytes(B) >= 10_000).await;
        let after =
            |part: Option<&Delivery>| part.map(|part| (part.at - started_at).as_millis() as f64 / 1e3);
        (harness.numbers(B, 500).len(), after(harness.received[B].first()), after(harness.received[B].last()))
    })?;
    let (arrived, first, last) = got;
    let when = match (first, last) {
        (Some(first), Some(last)) => {
            format!(", the first {first:.1} s and the last {last:.1} s after the failure")
        }
        _ => String::new(),
    };
    Ok(FeatureCell::of(arrived == 20, format!("{arrived} of 20 messages came within two minutes{when}")))
}

fn half_closed(kind: TransportKind) -> Result<FeatureCell, String> {
    if let Some(cell) = super::connection::without_connection(kind)? {
        return Ok(cell);
    }
    let testbed = Testbed::quiet()?;
    let (notified, accepted, got) = connected(&testbed, &kind.carrier(&[]), async |harness| {
        harness.pass(500).await;
        harness.finish(A);
        harness.until(1_000, |harness| harness.finished[B] || harness.closed[B]).await;
        let notified = harness.finished[B];
        let mut accepted = 0;
        for number in 0..50 {
            accepted += usize::from(harness.say(B, number, 1000));
        }
        harness.pass(5_000).await;
        (notified, accepted, harness.bytes(A))
    })?;
    let outcome = if notified { "B is notified" } else { "B is not notified" };
    Ok(FeatureCell::of(
        notified && got == 50_000,
        format!("{outcome}; its transport takes {accepted} of 50 messages; {got} B come to A"),
    ))
}
