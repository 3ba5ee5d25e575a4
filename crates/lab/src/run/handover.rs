//! Moves clients from one network to another. Scheduled changes of the simulation decide which links work and which
//! addresses hosts have.
//!
//! Some contestants tell their peers new addresses or open new connections. Their client gets an address of the new
//! network when it detects that network, and new connections use the address. The old address disappears with the old
//! network.
//!
//! Any other contestant keeps its only address. After detection and registration, Mobile IP carries its packets through
//! the new network. Both directions change at the same time. The additional delay of Mobile IP is on the link between
//! the client and the second network, in the direction to the client. If the tunnel adds bytes, the run uses a
//! different second network (see `one`).

use super::topology::Built;
use crate::plan::Handover;
use crate::plan::handover::{DepartureTime, EDGE_STEPS};
use anabranch_base::time::{Duration, nanos};
use anabranch_base::{Instant, Ratio, Rng};
use anabranch_link::SpecError;
use anabranch_link::spec::LossSpec;
use anabranch_sim::NetworkChange;

/// Draws the time at which a client leaves its network, between 0 and `span`. `span` is the client's dwell time in the
/// network. If the plan has no dwell time, `span` is how long the same run takes if the client does not move.
#[must_use]
pub fn draw(seed: u64, span: Duration) -> Duration {
    Duration::from_nanos(Rng::new(seed).fork("handover").below(nanos(span).max(1)))
}

/// Schedules the moves of all clients between networks, up to the time `until`. If `handover` has a random departure
/// time that is not drawn yet, no client moves. `changes_address` says for each client whether its address changes when
/// it moves to another network. `seed` determines the random times at which clients detect routers.
///
/// # Errors
/// A one-line message if the simulated network rejects a change.
pub fn prepare(
    built: &Built,
    changes_address: &[bool],
    handover: &Handover,
    until: Duration,
    seed: u64,
) -> Result<(), String> {
    for (at, change) in changes(built, changes_address, handover, until, seed) {
        let done = match at {
            None => built.network.change(change),
            Some(at) => built.network.schedule(at, change),
        };
        done.map_err(|error: SpecError| error.to_string())?;
    }
    Ok(())
}

/// Returns the changes of the network that make up the handover, sorted by time. Changes without a time apply before
/// the run starts.
fn changes(
    built: &Built,
    changes_address: &[bool],
    handover: &Handover,
    until: Duration,
    seed: u64,
) -> Vec<(Option<Instant>, NetworkChange)> {
    let mut advertisement_rng = Rng::new(seed).fork("advertisement");
    // Returns the link between a client and the access network of `path`, with the packet loss rate `loss`.
    let radio = |path: usize, changes_address: bool, loss: Ratio| {
        let mut spec = built.access.clone();
        if loss > Ratio::ZERO {
            (spec.up.loss, spec.down.loss) = (LossSpec::Bernoulli(loss), LossSpec::Bernoulli(loss));
        }
        if path == 1 && !changes_address {
            spec.down.delay = handover.stretch;
        }
        Box::new(spec)
    };
    // The loss rate at the edge of a network rises in steps. Returns the loss rate in the middle of the step `step`.
    let in_step = |step: u64| {
        let parts = handover.edge_loss.parts() * (2 * step + 1) / (2 * EDGE_STEPS);
        Ratio::new(parts, Ratio::ONE.parts()).unwrap_or(Ratio::ZERO)
    };
    // Times are in nanoseconds since the start of the run. Changes with a negative time take effect before the start.
    let mut due: Vec<(i128, NetworkChange)> = Vec::new();
    let span = |span: Duration| i128::from(nanos(span));
    for ((lane, radios), changes_address) in built.lanes.iter().zip(&built.radios).zip(changes_address) {
        if !changes_address && !handover.stretch.is_zero() {
            due.push((i128::MIN, NetworkChange::Respec(radios[1], radio(1, *changes_address, Ratio::ZERO))));
        }
        due.push((i128::MIN, NetworkChange::Down(radios[1])));
        due.push((
            i128::MIN,
            NetworkChange::RemoveAddress(lane.client.interface(1), lane.client_addresses[1]),
        ));
        for (path, address) in lane.client_addresses.iter().enumerate() {
            if *changes_address {
                // Packets to the client's old address must still be routed to the old network after the client has
                // removed the address.
                built.network.route(*address, 32, built.router_interfaces[path]);
            }
        }
    }
    // `next` is the time at which the client leaves the network `old`. At the earlier time `enters` the client enters
    // the other network. Between these times it can use both.
    let (mut old, mut next) = (
        0,
        match handover.leaves {
            DepartureTime::At(at) => Some(span(at)),
            DepartureTime::Random => None,
        },
    );
    while let Some(at) = next {
        let new = 1 - old;
        let (enters, stays) = (at - span(handover.shared), handover.dwell.map(|dwell| at + span(dwell)));
        // All contestants wait for the same advertisement of the new network, so one random wait holds for all of them.
        let wait =
            handover.advertisement.map_or(0, |period| i128::from(advertisement_rng.below(nanos(period))));
        let known = enters + wait + span(handover.detection);
        for ((lane, radios), changes_address) in built.lanes.iter().zip(&built.radios).zip(changes_address) {
            due.push((enters, NetworkChange::Up(radios[new])));
            due.push((at, NetworkChange::Down(radios[old])));
            if handover.edge_loss > Ratio::ZERO {
                let edge = span(handover.edge);
                let mut respec = |then: i128, path: usize, loss: Ratio| {
                    let spec = radio(path, *changes_address, loss);
                    due.push((then, NetworkChange::Respec(radios[path], spec)));
                };
                for step in 0..EDGE_STEPS {
                    let part = edge * i128::from(step) / i128::from(EDGE_STEPS);
                    respec(at - edge + part, old, in_step(step));
                    respec(enters + part, new, in_step(EDGE_STEPS - 1 - step));
                }
                respec(enters + edge, new, Ratio::ZERO);
            }
            let interface = |path: usize| lane.client.interface(path as u32);
            if !changes_address {
                let served = known + span(handover.registration);
                let home = lane.client_addresses[0];
                due.push((served, NetworkChange::RemoveAddress(interface(old), home)));
                due.push((served, NetworkChange::AddAddress(interface(new), home)));
                continue;
            }
            let addresses = &lane.client_addresses;
            if stays.is_none_or(|stays| known < stays) {
                // New connections must use the new network. Requests on a connection over the old network would be lost
                // with that network, and the client would not repeat them.
                due.push((known, NetworkChange::Prefer(interface(new))));
                due.push((known, NetworkChange::AddAddress(interface(new), addresses[new])));
            }
            due.push((at, NetworkChange::RemoveAddress(interface(old), addresses[old])));
        }
        (old, next) = (new, stays.filter(|stays| *stays < span(until)));
    }
    // The sort is stable, so changes at the same time keep the order in which they were added.
    due.sort_by_key(|(at, _)| *at);
    let instant = |at: i128| u64::try_from(at).ok().filter(|at| *at > 0).map(Instant::from_nanos);
    due.into_iter().map(|(at, change)| (instant(at), change)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::{Draft, Plan};
    use crate::run::topology;
    use anabranch_base::{RecvBatch, SendBatch};
    use anabranch_sim::NodeId;
    use anabranch_transports::Transports;
    use anabranch_world::{DatagramSocket, Local, World};
    use std::cell::RefCell;
    use std::future::poll_fn;
    use std::net::IpAddr;
    use std::rc::Rc;

    const OWD: u64 = 20;

    /// Simulates a client that leaves its first network at 1 s. For three seconds, three packets are sent every
    /// millisecond: from the client, to its first address, and to its second address. Returns, for each of the three,
    /// the milliseconds at which the arrived packets were sent.
    fn arrive(changes_address: bool, keys: &[(&str, &str)]) -> [Vec<u64>; 3] {
        let flags =
            [("handover", "1s"), ("loss", "0"), ("rate", "unlimited"), ("rtt", "40ms"), ("queue", "50p")];
        let flags = flags.iter().filter(|(key, _)| !keys.iter().any(|(own, _)| own == key));
        let draft = Draft::from_flags(flags.chain(keys).copied()).expect("flags");
        let plan = Plan::interpret(draft, &Transports::standard()).expect("a plan");
        let network = &plan.points[0].network;
        let built = topology::build(network, 1, 1, 1).expect("a network");
        let handover = network.handover.as_ref().expect("moves");
        let seed = plan.seeds[0];
        prepare(&built, &[changes_address], handover, Duration::from_secs(3), seed).expect("changes");
        let lane = &built.lanes[0];
        let (server, client) = (lane.servers[0], lane.client);
        let (there, here) = (lane.server_addresses[0][0], &lane.client_addresses);
        let flows = [
            flow(&built, (client, here[0], 1), (server, there)),
            flow(&built, (server, there, 2), (client, here[0])),
            flow(&built, (server, there, 3), (client, here[1])),
        ];
        let world = built.network.world(server);
        let end = Instant::from_millis(3_500);
        let main = async { world.sleep_until(end).await };
        built.network.run(main, Instant::MAX).expect_done();
        flows.map(|flow| flow.take())
    }

    fn flow(
        built: &Built,
        (from, source, port): (NodeId, IpAddr, u16),
        (to, target): (NodeId, IpAddr),
    ) -> Rc<RefCell<Vec<u64>>> {
        let (sender, receiver) = (built.network.world(from), built.network.world(to));
        let arrived = Rc::new(RefCell::new(Vec::new()));
        let seen = arrived.clone();
        let there = receiver.clone();
        let task = async move {
            let socket = there.bind(Local::Udp { port }).await.expect("a port");
            let mut batch = RecvBatch::new(1);
            loop {
                poll_fn(|cx| socket.poll_recv(cx, &mut batch)).await.expect("open");
                if batch.icmp.is_none() {
                    seen.borrow_mut().push(there.now().as_nanos() / 1_000_000 - OWD);
                }
            }
        };
        std::mem::forget(receiver.spawn("receiver", task));
        let here = sender.clone();
        let task = async move {
            let socket = here.bind(Local::Udp { port: port + 100 }).await.expect("a port");
            for at in 0..3_000 {
                here.sleep_until(Instant::from_millis(at)).await;
                let mut batch = SendBatch::new(1);
                (batch.source, batch.target) = ((source, port + 100).into(), (target, port).into());
                batch.push(&[1; 8]);
                drop(poll_fn(|cx| socket.poll_send(cx, &mut batch)).await);
            }
        };
        std::mem::forget(sender.spawn("sender", task));
        arrived
    }

    /// Returns the milliseconds that are missing in `arrived`, as ranges of consecutive milliseconds.
    fn missing(arrived: &[u64]) -> Vec<(u64, u64)> {
        let mut gaps = Vec::new();
        let mut next = 0;
        for &at in arrived.iter().chain([&3_000]) {
            if at > next {
                gaps.push((next, at));
            }
            next = at + 1;
        }
        gaps
    }

    #[test]
    fn without_address_change_the_outage_is_the_remaining_delay() {
        // Each row has the values of overlap, speed, detection and registration. The last column is the period in which
        // packets from the client are lost, in milliseconds since the start.
        for (keys, outage) in [
            (["0m", "1m/s", "200ms", "100ms"], Some((1_000, 1_300))),
            (["1m", "10m/s", "200ms", "100ms"], Some((1_000, 1_200))),
            (["2m", "20m/s", "200ms", "100ms"], Some((1_000, 1_200))),
            (["2m", "10m/s", "200ms", "100ms"], Some((1_000, 1_100))),
            (["3m", "10m/s", "200ms", "100ms"], None),
            (["15m", "5m/s", "200ms", "100ms"], None),
        ] {
            let names = ["overlap", "speed", "detection", "registration"];
            let keys: Vec<_> = names.into_iter().zip(keys).collect();
            let [from, to, other] = arrive(false, &keys);
            assert_eq!(missing(&from), outage.into_iter().collect::<Vec<_>>(), "{keys:?}: from the client");
            // Packets that are in flight towards the old network when the client leaves it are lost, too.
            let lost = match outage {
                Some((begin, end)) => vec![(begin - OWD, end)],
                None if keys[0].1 == "3m" => vec![(1_000 - OWD, 1_000)],
                None => Vec::new(),
            };
            assert_eq!(missing(&to), lost, "{keys:?}: to the client");
            assert!(other.is_empty(), "it has no other address");
        }
    }

    #[test]
    fn packets_to_the_old_address_are_lost_after_a_move() {
        let keys = [("overlap", "5m"), ("speed", "10m/s"), ("detection", "200ms")];
        let [from, to, other] = arrive(true, &keys);
        assert_eq!(missing(&from), [(1_000, 3_000)], "its first address is gone");
        assert_eq!(missing(&to), [(1_000 - OWD, 3_000)]);
        // The client leaves the old network at 1 s. The new network begins 5 m before the old network ends. At 10 m/s,
        // the client enters the new network 0.5 s earlier, at 0.5 s. Detection takes 0.2 s. The new address therefore
        // exists from 0.7 s on. Packets to the new address arrive if they reach the client after that time.
        assert_eq!(missing(&other), [(0, 700 - OWD)]);
    }

    #[test]
    fn a_client_that_returns_uses_each_network_in_turn() {
        let keys = [("cell", "10m"), ("overlap", "2m"), ("speed", "20m/s"), ("registration", "0ms")];
        let [from, to, _] = arrive(false, &keys);
        assert_eq!(
            (missing(&from), missing(&to)),
            (Vec::new(), Vec::new()),
            "100 ms before each end it is served"
        );
        let keys = [("cell", "10m"), ("overlap", "2m"), ("speed", "20m/s"), ("registration", "150ms")];
        let [from, ..] = arrive(false, &keys);
        assert_eq!(missing(&from), [(1_000, 1_050), (1_500, 1_550), (2_000, 2_050), (2_500, 2_550)]);
    }

    #[test]
    fn the_tunnel_adds_delay_only_in_the_second_network() {
        let keys = [("overlap", "3m"), ("speed", "10m/s"), ("detection", "200ms"), ("registration", "100ms")];
        let stretched: Vec<_> = keys.into_iter().chain([("stretch", "30ms")]).collect();
        let [from, to, _] = arrive(false, &stretched);
        assert_eq!(missing(&from), []);
        // Packets to the old address are tunnelled to the client's new network from 1 s on. Packets in flight at 1 s
        // are lost. Packets that are sent later take 30 ms longer.
        assert_eq!(missing(&to), [(1_000 - OWD, 1_030)]);
        let [_, _, other] = arrive(true, &stretched);
        assert_eq!(missing(&other), [(0, 900 - OWD)], "who has the new address has no home agent");
    }

    #[test]
    fn loss_grows_towards_the_edge_and_falls_behind_it() {
        let keys = [("overlap", "10m"), ("speed", "10m/s"), ("detection", "500ms"), ("edge-loss", "60%")];
        // With these settings, the client is in range of both networks from 0.5 s to 1.5 s.
        let keys: Vec<_> = keys.into_iter().chain([("handover", "1500ms"), ("registration", "0s")]).collect();
        let [from, ..] = arrive(false, &keys);
        let lost = |from_ms: u64, to_ms: u64| {
            missing(&from).iter().map(|(a, b)| b.min(&to_ms).saturating_sub(*a.max(&from_ms))).sum::<u64>()
        };
        assert_eq!((lost(0, 500), lost(1_500, 3_000)), (0, 0));
        // The loss of the old network grows from 0 at 0.5 s to 60 % at 1.5 s. At 1 s, at a loss of 30 %, the client
        // changes to the new network. The loss of the new network falls from 30 % at 1 s to 0 at 1.5 s.
        let quarters = [lost(500, 750), lost(750, 1_000), lost(1_000, 1_250), lost(1_250, 1_500)];
        for (lost, share) in quarters.into_iter().zip([7.5, 22.5, 22.5, 7.5]) {
            let (mean, spread) = (2.5 * share, 4.0 * (2.5 * share * (1.0 - share / 100.0_f64)).sqrt());
            assert!((lost as f64 - mean).abs() < spread, "{quarters:?}");
        }
    }

    #[test]
    fn the_new_network_is_detected_within_one_advertisement_interval() {
        let waits = |seed: &str| {
            let keys =
                [("overlap", "30m"), ("speed", "10m/s"), ("advertisement", "800ms"), ("handover", "3s")];
            let keys: Vec<_> = keys.into_iter().chain([("detection", "100ms"), ("seed", seed)]).collect();
            let [_, _, other] = arrive(true, &keys);
            other[0] + OWD
        };
        let all: Vec<u64> = ["1", "2", "3", "4"].into_iter().map(waits).collect();
        assert!(all.iter().all(|wait| (100..=900).contains(wait)), "{all:?}");
        assert!(all.iter().any(|wait| wait.abs_diff(all[0]) > 50), "{all:?}");
        assert_eq!(waits("3"), all[2]);
    }

    #[test]
    fn the_random_departure_time_follows_from_the_seed() {
        let all: Vec<Duration> = (1..=1_000).map(|seed| draw(seed, Duration::from_secs(2))).collect();
        assert_eq!(all[6], draw(7, Duration::from_secs(2)));
        assert!(all.iter().all(|at| *at < Duration::from_secs(2)));
        let mean = all.iter().sum::<Duration>() / 1_000;
        assert!(mean > Duration::from_millis(950) && mean < Duration::from_millis(1_050), "{mean:?}");
        assert_eq!(draw(1, Duration::ZERO), Duration::ZERO);
    }
}
