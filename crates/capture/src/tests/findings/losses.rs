//! Tests of the rule about losses in many separate round trips.

use super::quic::Connection;
use super::*;
use std::collections::BTreeSet;

/// What happens to the second packet of a round trip.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Arrives,
    Lost,
    /// It arrives after later packets, and the sender sends it again without need.
    Reordered,
    /// All packets but the first and the last six are lost.
    Burst,
}

#[derive(Clone, Copy, PartialEq)]
enum Step {
    Send(u32),
    /// The network loses the packet.
    Lose(u32),
    SendAgain(u32),
    /// Acknowledges all packets before the first number, and those of the range.
    Ack(u32, Option<(u32, u32)>),
}

/// Where the capture is taken. The round trip takes 50 ms.
#[derive(Clone, Copy, PartialEq)]
enum Place {
    Sender,
    Receiver,
}

/// Returns the steps of a transfer with their times. For each round trip: the number of packets, the time between them,
/// and the fate of the second one.
fn steps(rounds: &[(u32, u32, Fate)], place: Place) -> Vec<(u32, Step)> {
    let (mut steps, mut from, mut first) = (Vec::new(), 100, 0);
    let delay = if place == Place::Sender { 50 } else { 0 };
    for &(window, spacing, fate) in rounds {
        let lost = match fate {
            Fate::Arrives => first..first,
            Fate::Lost | Fate::Reordered => first + 1..first + 2,
            Fate::Burst => first + 1..first + window - 6,
        };
        let end = first + window;
        for number in first..end {
            let at = from + (number - first) * spacing;
            let is_lost = lost.contains(&number) && fate != Fate::Reordered;
            let send = if is_lost { Step::Lose(number) } else { Step::Send(number) };
            steps.push((at, send));
            let is_late = fate == Fate::Reordered && number >= first + 5;
            let ack = match number < lost.start || lost.is_empty() || is_late {
                true => Step::Ack(number + 1, None),
                false => Step::Ack(lost.start, Some((lost.end, number + 1))),
            };
            if !lost.contains(&number) {
                steps.push((at + delay, ack));
            }
        }
        let repair = from + 51 + (lost.end.saturating_sub(first) + 2) * spacing;
        if !lost.is_empty() {
            steps.extend(lost.map(|number| (repair, Step::SendAgain(number))));
            steps.push((repair + delay, Step::Ack(end, None)));
        }
        let is_slow = fate != Fate::Arrives || spacing > 1;
        (from, first) = (from + if is_slow { 110 } else { 60 }, end);
    }
    steps.sort_by_key(|(at, _)| *at);
    steps
}

fn tcp(rounds: &[(u32, u32, Fate)], place: Place) -> Scene {
    steps(rounds, place).into_iter().fold(Scene::tcp(), |scene, (at, step)| match step {
        Step::Lose(_) if place == Place::Receiver => scene,
        Step::Send(number) | Step::Lose(number) | Step::SendAgain(number) => {
            scene.sends(at, number * 1_000, 1_000)
        }
        Step::Ack(all, range) => {
            let mut header = acknowledgement(0, all * 1_000, 60_000);
            if let Some((start, end)) = range {
                header.options.sack.push(Seq(1 + start * 1_000), Seq(1 + end * 1_000));
            }
            scene.segment(at, B, header, 0)
        }
    })
}

fn sctp(rounds: &[(u32, u32, Fate)], place: Place) -> Scene {
    steps(rounds, place).into_iter().fold(Scene::sctp(), |scene, (at, step)| match step {
        Step::Lose(_) if place == Place::Receiver => scene,
        Step::Send(number) | Step::Lose(number) | Step::SendAgain(number) => {
            scene.sized(at, 100 + number, 1_000)
        }
        Step::Ack(all, None) => scene.sack(at, 99 + all, 65_536),
        Step::Ack(all, Some((start, end))) => {
            scene.gap(at, 99 + all, (start - all + 1) as u16, (end - all) as u16)
        }
    })
}

/// In QUIC, lost bytes are sent again in a packet with a new number.
fn quic(rounds: &[(u32, u32, Fate)], place: Place) -> Scene {
    let mut arrived = BTreeSet::new();
    let (mut next, mut connection) = (0, Connection::new());
    for (at, step) in steps(rounds, place) {
        match step {
            Step::Ack(..) => connection = connection.ack_all(at, &arrived),
            Step::Lose(_) if place == Place::Receiver => {
                connection = connection.lost();
                next += 1;
            }
            Step::Send(number) | Step::SendAgain(number) | Step::Lose(number) => {
                connection = connection.stream(at, 0, number * 1_000);
                if !matches!(step, Step::Lose(_)) {
                    arrived.insert(next);
                }
                next += 1;
            }
        }
    }
    connection.scene
}

/// Returns round trips in which the window grows from five packets to nine. The last packets of `count` of these cycles
/// have this fate.
fn cycles(all: u32, count: u32, fate: Fate) -> Vec<(u32, u32, Fate)> {
    let cycle = |n: u32| {
        (5..10).map(move |window| (window, 1, if window == 9 && n < count { fate } else { Fate::Arrives }))
    };
    (0..all).flat_map(cycle).collect()
}

#[test]
fn losses_in_many_round_trips_are_found() {
    use Place::{Receiver, Sender};
    let lossy = cycles(6, 6, Fate::Lost);
    let burst = [cycles(3, 0, Fate::Lost), vec![(40, 1, Fate::Burst)], cycles(3, 0, Fate::Lost)].concat();
    let few = cycles(36, 6, Fate::Lost);
    let reordered = cycles(6, 6, Fate::Reordered);
    let found = check(
        "scattered_losses",
        [tcp(&lossy, Receiver), sctp(&lossy, Receiver), quic(&lossy, Receiver)],
        [tcp(&burst, Receiver), sctp(&few, Receiver), tcp(&reordered, Sender)],
    );
    let begin =
        "The network lost 2.9 % of the data of A, in 6 of 41 round trips. It was sent again in packets ";
    assert!(found[0].text.starts_with(begin), "{}", found[0].text);
    assert!(found[1].text.contains("repaired the losses, without a timeout."), "{}", found[1].text);
    let begin = "The network lost 2.8 % of the packets of A (6 of 216), in 6 of 21 round trips. The gaps in its packet \
                 numbers come before packets ";
    // The handshake of the QUIC connection shows a round trip of 100 ms.
    assert!(found[2].text.starts_with(begin), "{}", found[2].text);

    // An application, or a link that is always full, makes the rate if packets leave at regular times.
    let steady: Vec<(u32, u32, Fate)> =
        (0..40).map(|n| (9, 12, if n % 5 == 4 { Fate::Lost } else { Fate::Arrives })).collect();
    let found = check(
        "scattered_losses",
        [tcp(&lossy, Sender), sctp(&lossy, Sender), quic(&lossy, Sender)],
        [sctp(&steady, Sender), quic(&cycles(6, 4, Fate::Lost), Sender), quic(&few, Sender)],
    );
    assert!(
        found[2].text.contains("(6 of 216), in 6 of 21 round trips. They are packets "),
        "{}",
        found[2].text
    );
    for place in [Sender, Receiver] {
        for scene in [tcp, sctp, quic].map(|make| make(&cycles(20, 0, Fate::Lost), place)) {
            let findings = scene.conversation().findings;
            assert!(findings.iter().all(|finding| finding.rule != "scattered_losses"), "{findings:?}");
        }
    }
}
