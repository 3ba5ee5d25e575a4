//! One storm: what a seed chooses, and how it is run to its end.

use crate::checker::Checker;
use crate::net::{self, A, B, Flight, Narrow, Net, Watch};
use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Engine, Instant, Ratio, Rng};
use anabranch_sctp::{
    AssociationState, CloseReason, Config, Direction, Endpoint, Event, Message, Reliability, SchedulerKind,
    SendError,
};
use anabranch_wire::ladder::Side;

/// What came of a storm (or of many).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Outcome {
    /// Associations that both sides saw end gracefully.
    pub complete: u64,
    /// Associations that an abort, an outage or the guard timer ended.
    pub broken: u64,
    pub messages: u64,
    pub bytes: u64,
    pub packets: u64,
    pub retransmitted: u64,
    /// Streams and TSNs that began anew, and streams that were added, as the sides were told.
    pub reconfigured: u64,
    /// Messages given up, sent or not.
    pub given_up: u64,
    /// Messages given up that are missing at the peer.
    pub missing: u64,
    /// Over every packet and its time.
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
        self.digest ^= other.digest;
    }
}

/// What the network does, by the luck of a seed.
struct Faults {
    rng: Rng,
    loss: Ratio,
    duplicate: Ratio,
    corrupt: Ratio,
    reorder: Ratio,
    reorder_by: Duration,
    mark: Ratio,
    jitter: Duration,
    /// Times in which a network (0: all) swallows everything.
    outages: Vec<(Instant, Instant, usize)>,
    /// From then on everything passes: what is left has to finish.
    calm: Instant,
}

impl Faults {
    fn fate(&mut self, now: Instant, flight: &Flight) -> Vec<(Duration, Flight)> {
        let n = net::network(flight.target.ip());
        let m = net::network(flight.source.ip());
        let out = self
            .outages
            .iter()
            .any(|&(from, to, which)| (from..to).contains(&now) && (which == 0 || which == n || which == m));
        if out {
            return Vec::new();
        }
        let rng = &mut self.rng;
        if now >= self.calm {
            return vec![(Duration::ZERO, flight.clone())];
        }
        if rng.chance(self.loss) {
            return Vec::new();
        }
        let mut copies = vec![(rng.span_up_to(self.jitter), flight.clone())];
        if rng.chance(self.duplicate) {
            copies.push((rng.span_up_to(Duration::from_millis(300)), flight.clone()));
        }
        for (delay, copy) in &mut copies {
            if rng.chance(self.reorder) {
                *delay += rng.span_up_to(self.reorder_by);
            }
            if rng.chance(self.corrupt) {
                let at = rng.below(copy.bytes.len() as u64) as usize;
                copy.bytes[at] ^= 1 << rng.below(8);
            }
            if copy.ecn != Ecn::NotEct && rng.chance(self.mark) {
                copy.ecn = Ecn::Ce;
            }
        }
        copies
    }
}

fn percent(n: u64) -> Ratio {
    Ratio::new(n, 1_000).expect("below one")
}

/// A value of `choices`.
fn pick<T: Copy>(rng: &mut Rng, choices: &[T]) -> T {
    choices[rng.below(choices.len() as u64) as usize]
}

/// Whether this kind of fault is on in this storm.
fn on(rng: &mut Rng) -> bool {
    rng.below(2) == 0
}

fn configuration(rng: &mut Rng) -> Config {
    let profile = pick(rng, anabranch_sctp::PROFILES);
    let mut config = Config::profile(profile).expect("a profile");
    let mut set = |key: &str, value: &str| config.set(key, value).expect("a knob");
    if on(rng) {
        set("rcvbuf", pick(rng, &["3000B", "6000B", "20000B", "100kB"]));
    }
    if on(rng) {
        set("sndbuf", pick(rng, &["20000B", "70kB", "1MiB"]));
    }
    if on(rng) {
        set("delack", pick(rng, &["0", "10ms", "500ms"]));
    }
    if on(rng) {
        set("mss", pick(rng, &["64B", "200B", "1000B", "auto"]));
    }
    if on(rng) {
        set("partial_delivery", pick(rng, &["1B", "2000B", "64KiB"]));
    }
    if on(rng) {
        set("nagle", pick(rng, &["yes", "no"]));
        set("cookie_data", pick(rng, &["yes", "no"]));
        set("sack_path", pick(rng, &["same", "other"]));
        set("rtx_path", pick(rng, &["same", "timeout", "all"]));
        set("scheduler", pick(rng, &["fcfs", "rr"]));
        set("cc", pick(rng, &["rfc9260", "cubic"]));
        set("ecn", pick(rng, &["yes", "no"]));
        set("max_burst", pick(rng, &["0", "1", "4"]));
        set("dupthresh", pick(rng, &["1", "3", "4"]));
    }
    set("partial_reliability", pick(rng, &["yes", "yes", "no"]));
    if on(rng) {
        set("rto_min", pick(rng, &["10ms", "200ms", "1s"]));
    }
    set("rto_max", pick(rng, &["10s", "60s"]));
    if on(rng) {
        set("auth", "yes");
        set("asconf", pick(rng, &["yes", "yes", "no"]));
        set("auth_hmac", pick(rng, &["sha1", "sha256"]));
        set("auth_chunks", pick(rng, &["none", "data", "data+sack+heartbeat", "abort+cookie_echo", "all"]));
    }
    // Without heartbeats a side that has nothing to send never learns that the other is gone.
    set("hb_interval", pick(rng, &["1s", "30s"]));
    set("path_max_retrans", pick(rng, &["0", "2", "5"]));
    set("assoc_max_retrans", pick(rng, &["10", "20"]));
    set("init_max_retrans", "20");
    set("streams", pick(rng, &["1", "3", "20", "65535"]));
    config
}

const SCHEDULERS: &[SchedulerKind] = &[
    SchedulerKind::Fcfs,
    SchedulerKind::RoundRobin,
    SchedulerKind::RoundRobinPacket,
    SchedulerKind::Priority,
    SchedulerKind::Fair,
    SchedulerKind::WeightedFair,
];

/// A network that takes smaller packets from some moment on.
#[derive(Clone, Copy)]
struct Narrowing {
    network: usize,
    at: Instant,
    to: Narrow,
}

impl Narrowing {
    /// Decides how MTUs are found out, and whether a network narrows; it tells of it unless both
    /// sides probe.
    fn of(mut rng: Rng, configs: &mut [Config; 2], networks: usize) -> Option<Self> {
        let mut silent = true;
        for config in configs {
            let probes = on(&mut rng);
            silent &= probes;
            config.set("pmtud", if probes { "plpmtud" } else { "icmp" }).expect("a knob");
        }
        let mtu = pick(&mut rng, &[600, 1_000, 1_280, 1_400]);
        let to = Narrow { mtu, tells: !silent || on(&mut rng) };
        let network = 1 + rng.below(networks as u64) as usize;
        let at = Instant::from_millis(rng.below(10_000));
        on(&mut rng).then_some(Self { network, at, to })
    }
}

/// Whether A's host reboots, and when; it asks again from the port it had.
struct Reboot {
    rng: Rng,
    at: Option<Instant>,
    done: bool,
}

impl Reboot {
    /// Decides, and in every fourth storm switches everything on that there is.
    fn of(mut rng: Rng, configs: &mut [Config; 2]) -> Self {
        let everything = rng.below(4) == 0;
        for config in configs {
            let mut set = |key: &str, value: &str| config.set(key, value).expect("a knob");
            if everything {
                for key in ["auth", "asconf", "interleaving", "partial_reliability", "reconfig"] {
                    set(key, "yes");
                }
                set("pmtud", "plpmtud");
                set("pf_max_retrans", "0");
                set("primary_switch", "0");
                set("adaptation", "7");
            }
            if everything || rng.below(6) == 0 {
                set("zero_checksum", "yes");
            }
        }
        let at = (rng.below(6) == 0).then(|| Instant::from_millis(rng.below(15_000)));
        Self { rng, at, done: false }
    }

    /// Lets it happen if it is due.
    fn happen(&mut self, net: &mut Net, config: &Config, networks: usize, work: &mut Work) {
        if self.at.take_if(|at| *at <= net.now).is_none() {
            return;
        }
        let end = &net.ends[A as usize];
        let info = end.ids.last().and_then(|&id| end.engine.info(id));
        let Some(info) = info.filter(|info| info.state != AssociationState::Closed) else {
            return;
        };
        self.done = true;
        let addresses = (1..=networks).map(|n| net::address(A, n)).collect();
        net.reboot(A, Endpoint::new(config.clone(), addresses, self.rng.fork("reboot")));
        net.associate_from(A, 1, Some(info.local_port), net::PORT);
        // What it had sent is lost; it goes on with what is left.
        work.asked = false;
    }
}

/// What one side wants to send, and how it ends.
struct Work {
    messages: Vec<(Message, usize)>,
    /// Messages sent so far.
    sent: usize,
    /// How long it waits between messages.
    pause: Duration,
    next: Instant,
    shutdown: bool,
    abort_at: Option<Instant>,
    /// It changes the order of its streams now and then, by this luck.
    turns: Option<Rng>,
    /// When it asks for streams to begin anew, or for more of them.
    wishes: Vec<Instant>,
    /// It cancels what it has given on a stream now and then, by this luck.
    cancels: Option<Rng>,
    asked: bool,
}

/// Runs the storm of `seed`; panics when a promise is broken.
pub fn run(seed: u64, drawing: bool) -> Outcome {
    let root = Rng::new(seed).fork("storm");
    let mut rng = root.fork("choices");
    let networks = 1 + rng.below(3) as usize;
    let delays: Vec<_> = (0..networks).map(|_| Duration::from_micros(100 + rng.below(150_000))).collect();
    let mut configs = [configuration(&mut rng), configuration(&mut rng)];
    let mut wishes = root.fork("wishes");
    let supported = wishes.below(3) != 0;
    for config in &mut configs {
        let set = config.set("reconfig", if supported { "yes" } else { pick(&mut wishes, &["yes", "no"]) });
        set.expect("a knob");
        config.set("pf_max_retrans", pick(&mut wishes, &["off", "0", "1"])).expect("a knob");
        config.set("primary_switch", pick(&mut wishes, &["off", "0", "3"])).expect("a knob");
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
            config.set(key, pick(&mut recovery, &["yes", "no"])).expect("a knob");
        }
    }
    let narrowing = Narrowing::of(root.fork("mtu"), &mut configs, networks);
    let mut reboot = Reboot::of(root.fork("reboot"), &mut configs);
    let unprotected = configs.iter().any(|config| config.zero_checksum);
    let dynamic = configs.iter().all(|config| config.auth && config.asconf);
    let proportional = [0, 1].map(|side: usize| configs[side].prr);
    let probing = [0, 1].map(|side: usize| configs[side].rack && configs[side].tlp);
    let mut net = Net::new(seed, configs.clone(), &delays);
    net.drawing = drawing;
    let heavy = rng.below(8) == 0;
    let mut faults = Faults {
        loss: if on(&mut rng) { percent(rng.below(if heavy { 300 } else { 100 })) } else { Ratio::ZERO },
        duplicate: if on(&mut rng) { percent(rng.below(200)) } else { Ratio::ZERO },
        corrupt: if on(&mut rng) { percent(rng.below(60)) } else { Ratio::ZERO },
        reorder: if on(&mut rng) { percent(rng.below(400)) } else { Ratio::ZERO },
        reorder_by: Duration::from_millis(pick(&mut rng, &[1, 20, 400])),
        mark: if on(&mut rng) { percent(rng.below(200)) } else { Ratio::ZERO },
        jitter: if on(&mut rng) { Duration::from_millis(rng.below(30)) } else { Duration::ZERO },
        outages: Vec::new(),
        calm: Instant::from_millis(120_000),
        rng: root.fork("faults"),
    };
    if unprotected {
        // RFC 9653 §4: a lower layer finds the errors, or nobody does.
        faults.corrupt = Ratio::ZERO;
    }
    let mut outage = false;
    if on(&mut rng) {
        for _ in 0..=rng.below(3) {
            let from = Instant::from_millis(rng.below(20_000));
            let length = Duration::from_millis(pick(&mut rng, &[100, 2_000, 10_000, 1_000_000]));
            // Everything at once may end the association, whatever it does.
            let which = rng.below(networks as u64 + 1) as usize;
            outage |= length > Duration::from_secs(1);
            // A network may fail for good, as long as another is left.
            let length = if which == 0 || networks == 1 || which == 1 {
                length.min(Duration::from_secs(10))
            } else {
                length
            };
            faults.outages.push((from, from + length, which));
        }
    }
    for side in [A, B] {
        if rng.below(3) == 0 {
            net.end(side).app.reading_pause = Duration::from_millis(1 + rng.below(1_500));
        }
    }
    let mut work = [plan(&mut rng, A), plan(&mut rng, B)];
    for side in &mut work {
        side.wishes = (0..wishes.below(12)).map(|_| Instant::from_millis(wishes.below(15_000))).collect();
        side.wishes.sort_unstable();
        side.turns = on(&mut turns).then(|| turns.fork("changes"));
    }
    for side in [A, B] {
        let mut cancels = root.fork(if side == A { "A cancels" } else { "B cancels" });
        if cancels.below(4) == 0 {
            work[side as usize].cancels = Some(cancels);
            net.end(side.other()).app.may_miss = true;
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
    // Addresses come and go, where both sides speak of it.
    let mut moves = (networks > 1 && dynamic).then(|| root.fork("moves"));
    checker.moving = moves.is_some();
    (checker.proportional, checker.probing) = (proportional, probing);
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
            wish(&mut net, side, &mut work[side as usize], &mut wishes);
        }
        let next = work
            .iter()
            .filter(|w| !w.asked)
            .filter_map(|w| {
                [Some(w.next), w.abort_at, w.wishes.first().copied()]
                    .into_iter()
                    .flatten()
                    .filter(|&at| at > net.now)
                    .min()
            })
            .chain(reboot.at)
            .min()
            .unwrap_or(Instant::MAX)
            .min(net.now + Duration::from_secs(1));
        // It watches one life of two endpoints: of the next it does not know what went before.
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
    // What is still under way arrives at ended associations; nothing may come of it. (An endpoint
    // looks at a deadline that was put off or given up when it comes, at PMTU_RAISE_TIMER the latest.)
    net.run_until(
        net.now + Duration::from_secs(700),
        &mut |now, _, flight| faults.fate(now, flight),
        if reboot.done { None } else { Some(&mut checker) },
    );
    conclude(&mut net, &checker, abort || outage || heavy || reboot.done)
}

fn reliability(rng: &mut Rng) -> Reliability {
    match rng.below(3) {
        0 => Reliability::Lifetime(Duration::from_millis(pick(rng, &[0, 1, 50, 400, 3_000, 30_000]))),
        1 => Reliability::Retransmissions(pick(rng, &[0, 0, 1, 3])),
        _ => Reliability::Priority(rng.below(5) as u32),
    }
}

fn plan(rng: &mut Rng, side: Side) -> Work {
    let count = if rng.below(5) == 0 { 0 } else { rng.below(60) as usize };
    let largest = pick(rng, &[10, 500, 3_000, 20_000]);
    let unordered = pick(rng, &[0, 0, 3, 10]);
    let limited = pick(rng, &[0, 0, 3, 10]);
    let messages = (0..count)
        .map(|_| {
            let unordered = rng.below(10) < unordered;
            let limited = rng.below(10) < limited;
            let reliability = if limited { reliability(rng) } else { Reliability::Full };
            let message = Message {
                stream: rng.below(25) as u16,
                ppid: rng.next_u32(),
                unordered,
                immediate: rng.below(10) == 0,
                reliability,
                ..Message::default()
            };
            // One that is unordered or may be missing carries its number.
            let least = if unordered || limited { 8 } else { 1 };
            (message, (1 + rng.below(largest) as usize).max(least))
        })
        .collect();
    Work {
        messages,
        sent: 0,
        pause: Duration::from_millis(pick(rng, &[0, 0, 5, 300])),
        next: Instant::ZERO,
        shutdown: false,
        abort_at: None,
        turns: None,
        wishes: Vec::new(),
        cancels: None,
        asked: side == B,
    }
}

/// One side loses or regains an address beside its first.
fn change_address(net: &mut Net, rng: &mut Rng, networks: usize) {
    if net.now >= Instant::from_millis(60_000) || rng.below(4) != 0 {
        return;
    }
    // Not while the handshake is under way: an INIT from an address that no INIT named is refused.
    let up = |end: &net::End| {
        let info = end.ids.last().and_then(|&id| end.engine.info(id));
        info.is_some_and(|info| info.state == AssociationState::Established)
    };
    if !net.ends.iter().all(up) {
        return;
    }
    let (side, now) = (pick(rng, &[A, B]), net.now);
    let address = net::address(side, 2 + rng.below(networks as u64 - 1) as usize);
    let engine = &mut net.end(side).engine;
    if engine.addresses().contains(&address) {
        engine.remove_address(now, address.ip());
    } else {
        engine.add_address(now, address, 1500);
    }
}

/// The application of one side does what it can at this instant.
fn act(net: &mut Net, side: Side, work: &mut [Work; 2], number: &mut u64) {
    let now = net.now;
    let work = &mut work[side as usize];
    let Some(&id) = net.ends[side as usize].ids.last() else { return };
    work.asked = false;
    let [a, b] = &mut net.ends;
    let (end, peer) = if side == A { (a, b) } else { (b, a) };
    let Some(info) = end.engine.info(id) else {
        work.asked = true;
        return;
    };
    if info.state == AssociationState::Closed {
        work.asked = true;
        return;
    }
    if work.abort_at.is_some_and(|at| at <= now) {
        end.engine.abort(now, id);
        work.asked = true;
        return;
    }
    if let Some(rng) = &mut work.turns
        && rng.below(4) == 0
    {
        end.engine.set_scheduler(now, id, pick(rng, SCHEDULERS)).expect("the association is there");
        let (stream, value) = (rng.below(30) as u16, rng.below(5) as u16);
        let set = end.engine.set_stream_value(now, id, stream, value);
        assert_eq!(set.is_ok(), stream < info.outbound_streams, "{side:?}: {set:?}");
    }
    if let Some(rng) = &mut work.cancels
        && rng.below(8) == 0
    {
        let stream = rng.below(25) as u16 % info.outbound_streams;
        end.engine.cancel(now, id, stream);
        if on(rng) {
            // As an application that wants to use the stream anew does.
            let _ = end.engine.reset_streams(now, id, Direction::Both, &[stream]);
        }
    }
    while work.sent < work.messages.len() && work.next <= now {
        let (mut message, length) = work.messages[work.sent];
        // Until it is established, only stream 0 is sure to exist.
        let early = matches!(info.state, AssociationState::CookieWait | AssociationState::CookieEchoed);
        message.stream %= if early { 1 } else { info.outbound_streams };
        let mut account = std::mem::take(&mut peer.app);
        let result = end.send(now, id, message, *number, length, &mut account);
        peer.app = account;
        match result {
            Ok(()) => {
                *number += 1;
                work.sent += 1;
                work.next = now + work.pause;
            }
            Err(SendError::Full) => {
                work.next = now + Duration::from_millis(50);
                return;
            }
            Err(SendError::Closing | SendError::TooLarge) => work.sent += 1,
            Err(error) => panic!("{side:?}: {error}"),
        }
    }
    if work.sent == work.messages.len() && work.shutdown {
        end.engine.shutdown(now, id);
        work.asked = true;
    }
    if work.sent == work.messages.len() {
        work.next = Instant::MAX;
    }
}

/// The application of one side asks for streams to begin anew, or for more of them (RFC 6525).
/// Whatever comes of it, every message arrives in the order of its stream.
fn wish(net: &mut Net, side: Side, work: &mut Work, rng: &mut Rng) {
    let now = net.now;
    while work.wishes.first().is_some_and(|&at| at <= now) {
        work.wishes.remove(0);
        let end = net.end(side);
        let Some(&id) = end.ids.last() else { continue };
        let direction = pick(rng, &[Direction::Outgoing, Direction::Incoming, Direction::Both]);
        let streams: Vec<u16> = (0..rng.below(4)).map(|_| rng.below(20) as u16).collect();
        // What cannot be now is refused, and that is all.
        let _ = match rng.below(8) {
            0 => end.engine.reset_association(now, id),
            1 => end.engine.add_streams(now, id, rng.below(3) as u16, rng.below(3) as u16),
            _ => end.engine.reset_streams(now, id, direction, &streams),
        };
    }
}

/// This side's association has ended, or never came to be (B, while A has given up).
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

fn conclude(net: &mut Net, checker: &Checker, excused: bool) -> Outcome {
    if net.drawing {
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
            let last = events.iter().rposition(|event| net_id(event) == id);
            let closed = events
                .iter()
                .position(|event| matches!(event, Event::Closed { id: which, .. } if *which == id));
            assert_eq!(last, closed, "{side:?}: Closed is the last event of {id:?}: {events:?}");
        }
        let told = |event: &&Event| {
            matches!(
                event,
                Event::StreamsReset { .. } | Event::StreamsAdded { .. } | Event::AssociationReset { .. }
            )
        };
        outcome.reconfigured += end.events.iter().filter(told).count() as u64;
        outcome.messages += end.app.messages;
        outcome.bytes += end.app.bytes;
        let totals = end.engine.totals().sum;
        outcome.given_up += totals.abandoned_sent + totals.abandoned_unsent;
        outcome.retransmitted += totals.retransmitted_fast + totals.retransmitted_timeout;
        // Nothing is left behind: no timer runs for an ended association.
        assert_eq!(end.engine.poll_timeout(), None, "{side:?}: a timer still runs");
    }
    // RFC 9260 §9.2: T5-shutdown-guard, five times RTO.Max, whatever the reason for the delay.
    let excused = excused || reasons.contains(&Some(CloseReason::ShutdownTimeout));
    // B gave A up while A still waited for a COOKIE ACK, and began a second association: what
    // the first had not delivered is lost with it.
    let again = net.ends.iter().any(|end| end.ids.len() > 1);
    let excused = excused || again;
    // Closed before it was established, with nothing to deliver.
    let excused = excused || (reasons == [Some(CloseReason::Local), None] && outcome.messages == 0);
    // A packet that was overtaken by the SHUTDOWN finds nobody; the ABORT that it earns may
    // overtake the SHUTDOWN COMPLETE (RFC 9260 §8.4). Everything was delivered all the same.
    let late = |reason| matches!(reason, Some(CloseReason::Shutdown | CloseReason::Aborted(None)));
    if reasons.contains(&Some(CloseReason::Shutdown)) && reasons.into_iter().all(late) && !again {
        outcome.complete = 1;
        for side in [A, B] {
            let [a, b] = &net.ends;
            let (app, peer) = if side == A { (&a.app, &b.app) } else { (&b.app, &a.app) };
            outcome.missing += app.count_missing();
            assert!(app.is_served(&peer.given_up), "{side:?} did not get {}: {reasons:?}", app.owed());
        }
    } else {
        outcome.broken = 1;
        assert!(excused, "ended by {reasons:?} on a network that was not that bad");
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

fn net_id(event: &Event) -> anabranch_sctp::AssociationId {
    match event {
        Event::Established { id, .. }
        | Event::Accepted { id, .. }
        | Event::Readable { id, .. }
        | Event::Writable { id }
        | Event::Abandoned { id, .. }
        | Event::PathUp { id, .. }
        | Event::PathDown { id, .. }
        | Event::PathPotentiallyFailed { id, .. }
        | Event::Restarted { id }
        | Event::PeerShutdown { id }
        | Event::StreamsReset { id, .. }
        | Event::ResetRequested { id, .. }
        | Event::StreamsAdded { id, .. }
        | Event::AssociationReset { id, .. }
        | Event::ResetFailed { id, .. }
        | Event::AddFailed { id, .. }
        | Event::PathAdded { id, .. }
        | Event::PathRemoved { id, .. }
        | Event::PrimaryChanged { id, .. }
        | Event::LocalAddress { id, .. }
        | Event::Key { id, .. }
        | Event::Adaptation { id, .. }
        | Event::PeerError { id, .. }
        | Event::Closed { id, .. } => *id,
    }
}
