//! Runs one storm, which is a random test of two endpoints on a faulty network. The seed determines all of its choices.

use crate::checker::Checker;
use crate::choices::{SCHEDULERS, configuration, on, per_mille, pick};
use crate::faults::{Faults, Narrowing, Reboot};
use crate::net::{A, B, Net, Watch};
use crate::work::{act, change_address, plan, wish};
use anabranch_base::time::Duration;
use anabranch_base::{Engine, Instant, Ratio, Rng};
use anabranch_sctp::{CloseReason, Event};
use anabranch_wire::ladder::Side;

/// The result of one storm (a random test of two endpoints), or the sum of the results of several storms.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// The number of associations that both sides saw end gracefully.
    pub complete: u64,
    /// The number of associations that an abort, an outage or the guard timer ended.
    pub broken: u64,
    pub messages: u64,
    pub bytes: u64,
    pub packets: u64,
    pub retransmitted: u64,
    /// The number of stream resets, TSN resets and additions of streams that were reported to the applications.
    pub reconfigured: u64,
    /// The number of messages that were abandoned, before or after they were sent.
    pub given_up: u64,
    /// The number of abandoned messages that the peer did not receive.
    pub missing: u64,
    /// The number of messages that were reported to their senders as failed.
    pub failed: u64,
    /// A hash over all packets and their times.
    pub digest: u64,
}

impl Outcome {
    pub fn add(&mut self, other: &Self) {
        self.complete += other.complete;
        self.broken += other.broken;
        self.messages += other.messages;
        self.bytes += other.bytes;
        self.packets += other.packets;
        self.retransmitted += other.retransmitted;
        self.reconfigured += other.reconfigured;
        self.given_up += other.given_up;
        self.missing += other.missing;
        self.failed += other.failed;
        self.digest ^= other.digest;
    }
}

/// Runs the storm of `seed`. Panics if an invariant is violated.
pub fn run(seed: u64, drawing: bool) -> Outcome {
    let root = Rng::new(seed).fork("storm");
    let mut rng = root.fork("choices");
    let networks = 1 + rng.below(3) as usize;
    let delays: Vec<_> = (0..networks).map(|_| Duration::from_micros(100 + rng.below(150_000))).collect();
    let mut configs = [configuration(&mut rng), configuration(&mut rng)];
    let mut reconfig_rng = root.fork("wishes");
    let supported = reconfig_rng.below(3) != 0;
    for config in &mut configs {
        let set =
            config.set("reconfig", if supported { "yes" } else { pick(&mut reconfig_rng, &["yes", "no"]) });
        set.expect("a knob");
        config.set("pf_max_retrans", pick(&mut reconfig_rng, &["off", "0", "1"])).expect("a knob");
        config.set("primary_switch", pick(&mut reconfig_rng, &["off", "0", "3"])).expect("a knob");
    }
    let mut turns = root.fork("turns");
    let mixed = on(&mut turns);
    for config in &mut configs {
        let set = config.set("interleaving", if mixed { "yes" } else { pick(&mut turns, &["yes", "no"]) });
        set.expect("a knob");
        if on(&mut turns) {
            config.scheduler = pick(&mut turns, SCHEDULERS);
        }
    }

    let mut recovery = root.fork("recovery");
    for config in &mut configs {
        for key in ["rack", "tlp", "hystart", "pacing", "prr"] {
            let values: &[&str] = if key == "hystart" { &["yes", "no", "linux"] } else { &["yes", "no"] };
            config.set(key, pick(&mut recovery, values)).expect("a knob");
        }
    }
    let mut for_good = root.fork("nr_sack");
    if for_good.below(3) == 0 {
        for config in &mut configs {
            config.set("nr_sack", pick(&mut for_good, &["yes", "yes", "no"])).expect("a knob");
        }
    }
    let narrowing = Narrowing::of(root.fork("mtu"), &mut configs, networks);
    let mut reboot = Reboot::of(root.fork("reboot"), &mut configs);
    let unprotected = configs.iter().any(|config| config.zero_checksum);
    let dynamic = configs.iter().all(|config| config.auth && config.asconf);
    let proportional = [0, 1].map(|side: usize| configs[side].prr);
    let bbr = [0, 1]
        .map(|side: usize| configs[side].knobs().iter().any(|knob| knob.key == "cc" && knob.value == "bbr"));
    let probing = [0, 1].map(|side: usize| configs[side].rack && configs[side].tlp);
    let mut net = Net::new(seed, configs.clone(), &delays);
    net.draws_ladder = drawing;
    let heavy = rng.below(8) == 0;
    let mut faults = Faults {
        loss: if on(&mut rng) { per_mille(rng.below(if heavy { 300 } else { 100 })) } else { Ratio::ZERO },
        duplicate: if on(&mut rng) { per_mille(rng.below(200)) } else { Ratio::ZERO },
        corrupt: if on(&mut rng) { per_mille(rng.below(60)) } else { Ratio::ZERO },
        reorder: if on(&mut rng) { per_mille(rng.below(400)) } else { Ratio::ZERO },
        reorder_by: Duration::from_millis(pick(&mut rng, &[1, 20, 400])),
        mark: if on(&mut rng) { per_mille(rng.below(200)) } else { Ratio::ZERO },
        jitter: if on(&mut rng) { Duration::from_millis(rng.below(30)) } else { Duration::ZERO },
        outages: Vec::new(),
        faults_end: Instant::from_millis(120_000),
        rng: root.fork("faults"),
    };
    if unprotected {
        // RFC 9653 §4: without a checksum, the lower layer must detect damaged packets. So no damaged packet arrives.
        faults.corrupt = Ratio::ZERO;
    }
    let mut outage = false;
    if on(&mut rng) {
        for _ in 0..=rng.below(3) {
            let from = Instant::from_millis(rng.below(20_000));
            let length = Duration::from_millis(pick(&mut rng, &[100, 2_000, 10_000, 1_000_000]));
            // Network 0 stands for all networks. An outage of all networks may end the association, even if both
            // endpoints behave well.
            let network = rng.below(networks as u64 + 1) as usize;
            outage |= length > Duration::from_secs(1);
            // A network may fail permanently if another network still works.
            let length = if network == 0 || networks == 1 || network == 1 {
                length.min(Duration::from_secs(10))
            } else {
                length
            };
            faults.outages.push((from, from + length, network));
        }
    }
    for side in [A, B] {
        if rng.below(3) == 0 {
            net.end(side).app.reading_pause = Duration::from_millis(1 + rng.below(1_500));
        }
    }
    let mut work = [plan(&mut rng, A), plan(&mut rng, B)];
    for side in &mut work {
        side.reconfig_times =
            (0..reconfig_rng.below(12)).map(|_| Instant::from_millis(reconfig_rng.below(15_000))).collect();
        side.reconfig_times.sort_unstable();
        side.scheduler_rng = on(&mut turns).then(|| turns.fork("changes"));
    }
    for side in [A, B] {
        let mut cancels = root.fork(if side == A { "A cancels" } else { "B cancels" });
        if cancels.below(4) == 0 {
            work[side as usize].cancel_rng = Some(cancels);
            net.end(side.other()).app.peer_cancels = true;
        }
    }
    let abort = rng.below(12) == 0;
    if abort {
        work[rng.below(2) as usize].abort_at = Some(Instant::from_millis(rng.below(10_000)));
    }
    if rng.below(4) != 0 {
        work[0].shutdown = true;
        work[1].shutdown = on(&mut rng);
    } else {
        work[1].shutdown = true;
    }

    let known = 1 + rng.below(networks as u64) as usize;
    net.associate(A, known);
    let mut checker = Checker::new(networks);
    let limit = Instant::from_millis(3_600_000);
    let mut number = 0;
    // Addresses change only if both sides support ASCONF.
    let mut moves = (networks > 1 && dynamic).then(|| root.fork("moves"));
    checker.addresses_change = moves.is_some();
    (checker.proportional, checker.bbr, checker.probing) = (proportional, bbr, probing);
    loop {
        if let Some(narrowing) = narrowing.filter(|narrowing| narrowing.at <= net.now) {
            net.narrow.insert(narrowing.network, narrowing.to);
        }
        if let Some(moves) = &mut moves {
            change_address(&mut net, moves, networks);
        }
        reboot.happen(&mut net, &configs[0], networks, &mut work[0]);
        for side in [A, B] {
            act(&mut net, side, &mut work, &mut number);
            wish(&mut net, side, &mut work[side as usize], &mut reconfig_rng);
        }
        let next = work
            .iter()
            .filter(|w| !w.requested)
            .filter_map(|w| {
                [Some(w.next), w.abort_at, w.reconfig_times.first().copied()]
                    .into_iter()
                    .flatten()
                    .filter(|&at| at > net.now)
                    .min()
            })
            .chain(reboot.at)
            .min()
            .unwrap_or(Instant::MAX)
            .min(net.now + Duration::from_secs(1));
        // After a reboot the checker is not used, because it does not know the state of the new endpoint.
        let watch: Option<&mut dyn Watch> = if reboot.done { None } else { Some(&mut checker) };
        net.run_until(next, &mut |now, _, flight| faults.fate(now, flight), watch);
        if [A, B].iter().all(|&side| is_over(&net, side)) {
            break;
        }
        if net.now >= limit {
            let states = [A, B].map(|side| {
                let end = &net.ends[side as usize];
                end.ids.last().and_then(|&id| end.engine.info(id))
            });
            panic!("still not over after an hour: {states:#?}");
        }
    }
    // Run until all packets in flight have arrived, which must have no effect. An endpoint may still wake at deadlines
    // that were postponed or cancelled. The latest of these is PMTU_RAISE_TIMER, so 700 s suffice.
    net.run_until(
        net.now + Duration::from_secs(700),
        &mut |now, _, flight| faults.fate(now, flight),
        if reboot.done { None } else { Some(&mut checker) },
    );
    conclude(&mut net, &checker, abort || outage || heavy || reboot.done, reboot.done)
}

/// Returns whether this side's association has ended. If B never had an association, returns whether A's association
/// has ended.
fn is_over(net: &Net, side: Side) -> bool {
    let end = &net.ends[side as usize];
    match end.ids.last() {
        Some(_) => {
            let closed = end.events.iter().filter(|event| matches!(event, Event::Closed { .. })).count();
            closed == end.ids.len()
        }
        None => side == B && is_over(net, A),
    }
}

fn conclude(net: &mut Net, checker: &Checker, excused: bool, rebooted: bool) -> Outcome {
    if net.draws_ladder {
        println!("{}", net.ladder.take());
    }
    let mut outcome = Outcome { packets: checker.packets, digest: checker.digest, ..Outcome::default() };
    let reason = |net: &Net, side: Side| {
        net.ends[side as usize].events.iter().rev().find_map(|event| match event {
            Event::Closed { reason, .. } => Some(*reason),
            _ => None,
        })
    };
    let reasons = [reason(net, A), reason(net, B)];
    for side in [A, B] {
        let now = net.now;
        let end = net.end(side);
        end.read_all(now);
        let (events, ids) = (&end.events, &end.ids);
        for &id in ids {
            let last = events.iter().rposition(|event| event.association() == id);
            let closed = events
                .iter()
                .position(|event| matches!(event, Event::Closed { id: network, .. } if *network == id));
            assert_eq!(last, closed, "{side:?}: Closed is the last event of {id:?}: {events:?}");
        }
        let reported = |event: &&Event| {
            matches!(
                event,
                Event::StreamsReset { .. } | Event::StreamsAdded { .. } | Event::AssociationReset { .. }
            )
        };
        outcome.reconfigured += end.events.iter().filter(reported).count() as u64;
        outcome.messages += end.app.messages;
        outcome.bytes += end.app.bytes;
        let totals = end.engine.totals().sum;
        outcome.given_up += totals.abandoned_sent + totals.abandoned_unsent;
        outcome.retransmitted += totals.retransmitted_fast + totals.retransmitted_timeout;
        // An ended association leaves no state, so no timer runs.
        assert_eq!(end.engine.poll_timeout(), None, "{side:?}: a timer still runs");
    }
    // RFC 9260 §9.2: an end by T5-shutdown-guard is excused. This timer ends an association after five times RTO.Max,
    // no matter what caused the delay.
    let excused = excused || reasons.contains(&Some(CloseReason::ShutdownTimeout));
    // An ungraceful end is excused if there was a second association. B ended the first association while A was still
    // waiting for the COOKIE ACK, and the undelivered messages were lost.
    let again = net.ends.iter().any(|end| end.ids.len() > 1);
    let excused = excused || again;
    // An ungraceful end is excused if A's application closed the association before it was established, and no message
    // had been sent.
    let excused = excused || (reasons == [Some(CloseReason::Local), None] && outcome.messages == 0);
    // An ungraceful end is excused if B's COOKIE ACKs were lost repeatedly. Until A gets a COOKIE ACK, A accepts no
    // data of B (RFC 9260 §6). So B may exceed its limit of errors before the next COOKIE ECHO arrives.
    let up = net.ends[A as usize].events.iter().any(|event| matches!(event, Event::Established { .. }));
    let lost = |reason| matches!(reason, Some(CloseReason::Unreachable | CloseReason::BlackHole { .. }));
    let excused = excused || (!up && lost(reasons[B as usize]));
    // One side has closed and removed its association when a late packet of the peer arrives. The side answers this
    // packet with an ABORT (RFC 9260 §8.4), which may overtake the SHUTDOWN COMPLETE that was sent earlier. All
    // messages were delivered nevertheless.
    let late = |reason| matches!(reason, Some(CloseReason::Shutdown | CloseReason::Aborted(None)));
    if reasons.contains(&Some(CloseReason::Shutdown)) && reasons.into_iter().all(late) && !again {
        outcome.complete = 1;
        for side in [A, B] {
            let [a, b] = &net.ends;
            let (app, peer) = if side == A { (&a.app, &b.app) } else { (&b.app, &a.app) };
            outcome.missing += app.count_missing();
            assert!(app.is_served(&peer.given_up), "{side:?} did not get {}: {reasons:?}", app.owed());
        }
        let failed = net.ends.iter().any(|end| !end.app.failed.is_empty());
        assert!(!failed || again || rebooted, "all was delivered and some has failed");
    } else {
        outcome.broken = 1;
        assert!(excused, "ended by {reasons:?} on a network that was not that bad");
        // RFC 9260 §11.2.2: each message is delivered, abandoned, or reported as failed. A message reported as failed
        // may have arrived.
        for side in [A, B] {
            let [a, b] = &net.ends;
            let (app, peer) = if side == A { (&a.app, &b.app) } else { (&b.app, &a.app) };
            outcome.failed += peer.failed.len() as u64;
            // An NR-SACK may acknowledge a message that its receiver cannot deliver yet. If the association then ends,
            // the sender does not report this message as failed. So messages are not checked after such an NR-SACK.
            if !again && !rebooted && !checker.forgotten && reasons[side.other() as usize].is_some() {
                let reported = |number: &u64| peer.failed.contains(number) || peer.given_up.contains(number);
                let silent: Vec<u64> = app.owed_numbers().filter(|number| !reported(number)).collect();
                assert!(
                    silent.is_empty(),
                    "{side:?} did not get {silent:?}, and nobody was told: {reasons:?}"
                );
            }
        }
    }
    let now = net.now;
    for side in [A, B] {
        let end = net.end(side);
        for id in end.ids.clone() {
            end.engine.release(now, id);
            assert!(end.engine.info(id).is_none(), "released and still there");
        }
    }
    outcome
}
