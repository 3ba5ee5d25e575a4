//! Tests of a BBR flow on a simple model of a path. The path has a bottleneck with a queue, acknowledges every packet,
//! and loses packets when the queue is full.
//!
//! The test cases are those in the draft's appendix "BBR Example Test Cases" that need no real transport.

use super::*;
use crate::InitialWindow;
use std::collections::VecDeque;

const MSS: u64 = 1_000;

/// A path that delivers a packet every `gap` nanoseconds, with a round-trip delay of `delay` and a queue of `queue`
/// packets.
struct Path {
    gap: u64,
    delay: u64,
    queue: usize,
    busy_until: u64,
    /// For each packet: when its acknowledgement arrives, when it was sent, and whether it was lost. A loss is detected
    /// at the time at which the acknowledgement would arrive.
    answers: VecDeque<(u64, u64, bool)>,
    in_flight: u64,
    now: u64,
    next_send: u64,
    /// In addition to losses at the queue, every n-th packet is lost; 0 means none.
    every: u64,
    sent: u64,
}

impl Path {
    fn new(gap: u64, delay: u64, queue: usize) -> Self {
        Self {
            gap,
            delay,
            queue,
            busy_until: 0,
            answers: VecDeque::new(),
            in_flight: 0,
            now: 1_000_000_000,
            next_send: 0,
            every: 0,
            sent: 0,
        }
    }

    fn send(&mut self, bbr: &mut Bbr) {
        bbr.on_sent(Instant::from_nanos(self.now), MSS);
        self.in_flight += MSS;
        self.sent += 1;
        let waiting = self.busy_until.saturating_sub(self.now) / self.gap;
        let is_periodic_loss = self.every > 0 && self.sent.is_multiple_of(self.every);
        if waiting as usize >= self.queue || is_periodic_loss {
            // A loss is detected when the packet after the lost packet would have been acknowledged.
            let at = self.busy_until.max(self.now) + self.delay + self.gap;
            self.answers.push_back((at, self.now, true));
            return;
        }
        self.busy_until = self.busy_until.max(self.now) + self.gap;
        self.answers.push_back((self.busy_until + self.delay, self.now, false));
    }

    /// Processes one event: a packet is sent, or an acknowledgement arrives. `limit` is the number of bytes in flight
    /// that the application allows.
    fn step(&mut self, bbr: &mut Bbr, limit: u64) {
        let may_send = self.in_flight + MSS <= bbr.window().min(limit);
        let answer = self.answers.front().map(|(at, ..)| *at);
        if may_send && answer.is_none_or(|at| self.next_send.max(self.now) <= at) {
            self.now = self.now.max(self.next_send);
            self.send(bbr);
            let rate = bbr.pacing_rate().expect("a rate");
            self.next_send = self.now + rate.nanos_for(MSS);
            return;
        }
        let (at, left, lost) = self.answers.pop_front().expect("something is on its way");
        self.now = self.now.max(at);
        self.in_flight -= MSS;
        if self.in_flight + MSS > limit.saturating_sub(MSS) && limit < u64::MAX {
            bbr.on_application_limited();
        }
        let now = Instant::from_nanos(self.now);
        let sent = Some(Instant::from_nanos(left));
        let report = if lost {
            bbr.on_loss(now, self.in_flight, false);
            AckReport {
                lost: MSS,
                newest_lost: sent,
                in_flight: self.in_flight,
                recovering: true,
                ..AckReport::default()
            }
        } else {
            AckReport {
                delivered: MSS,
                newest: sent,
                rtt: Some(Duration::from_nanos(self.now - left)),
                in_flight: self.in_flight,
                ..AckReport::default()
            }
        };
        bbr.on_report(now, &report);
    }

    /// Runs until `done` returns true, but for at most `seconds`. Returns whether `done` returned true.
    fn run(&mut self, bbr: &mut Bbr, seconds: u64, limit: u64, done: impl Fn(&Bbr) -> bool) -> bool {
        let end = self.now + seconds * 1_000_000_000;
        while self.now < end {
            if done(bbr) {
                return true;
            }
            self.step(bbr, limit);
        }
        false
    }
}

fn bbr() -> Bbr {
    Bbr::new(InitialParams::new(MSS, InitialWindow::Packets(10)).seeded(7))
}

/// A path with 1 MB/s (1,000 packets per second) and a round-trip delay of 50 ms. The bandwidth-delay product is 51
/// packets, because each packet also takes 1 ms to transmit.
fn path(queue: usize) -> Path {
    Path::new(1_000_000, 50_000_000, queue)
}

const FULL: u64 = u64::MAX;
/// The rate of the path: 1 MB/s.
const RATE: u64 = 1_000_000;

#[test]
fn startup_ends_on_the_plateau_with_the_bandwidth_known_within_2_percent() {
    let (mut bbr, mut path) = (bbr(), path(1_000));
    assert!(path.run(&mut bbr, 5, FULL, |bbr| bbr.state() == State::Drain));
    assert!(bbr.model.full_bw_reached && bbr.model.full_bw_now);
    assert!(bbr.bandwidth().abs_diff(RATE) * 100 <= 2 * RATE, "{}", bbr.bandwidth());
    assert_eq!(bbr.min_rtt(), Some(Duration::from_millis(51)));
    // Drain ends when the data in flight is at most the bandwidth-delay product. ProbeBW begins with the phase Down.
    // Down may end immediately, so the test accepts every phase of ProbeBW.
    assert!(path.run(&mut bbr, 1, FULL, |bbr| bbr.state().is_probe_bw()));
    assert!(path.in_flight <= 52 * MSS, "{}", path.in_flight);
}

#[test]
fn startup_ends_on_losses_where_the_queue_is_short() {
    let (mut bbr, mut path) = (bbr(), path(5));
    assert!(path.run(&mut bbr, 5, FULL, |bbr| bbr.state() != State::Startup));
    assert!(bbr.inflight_longterm().is_some() || bbr.model.full_bw_now);
}

#[test]
fn drain_ends_after_three_round_trips_whatever_is_in_flight() {
    let (mut bbr, mut path) = (bbr(), path(1_000));
    assert!(path.run(&mut bbr, 5, FULL, |bbr| bbr.state() == State::Drain));
    let round = bbr.model.round_count;
    // The path becomes four times slower, so the model's bandwidth is now too high.
    path.gap *= 4;
    assert!(path.run(&mut bbr, 5, FULL, |bbr| bbr.state().is_probe_bw()));
    assert!(bbr.model.round_count <= round + 4, "{round} {}", bbr.model.round_count);
}

#[test]
fn a_cycle_goes_down_cruise_refill_up_and_keeps_the_path_busy_with_a_short_queue() {
    let (mut bbr, mut path) = (bbr(), path(1_000));
    // Between the listed states, BBR may probe the round-trip time.
    for state in [State::Cruise, State::Refill, State::Up, State::Down, State::Cruise, State::Refill] {
        assert!(path.run(&mut bbr, 9, FULL, |bbr| bbr.state() == state), "{state:?} after {:?}", bbr.state());
    }
    let (sent, begin) = (path.sent, path.now);
    let mut most = 0;
    while path.now < begin + 4_000_000_000 {
        path.step(&mut bbr, FULL);
        if bbr.state() != State::Up {
            most = most.max(path.in_flight);
        }
    }
    // The path can carry 4,000 packets in these 4 s. BBR sends almost as many: it paces slightly below the bandwidth,
    // and sends more slowly in some phases.
    assert!((3_800..=4_050).contains(&(path.sent - sent)), "{}", path.sent - sent);
    assert!(most <= 2 * 51 * MSS, "{most}");
}

#[test]
fn a_probe_that_loses_too_much_bounds_what_is_in_flight() {
    // The queue holds a third of the bandwidth-delay product, so the path and the queue hold 68 packets in total.
    let (mut bbr, mut path) = (bbr(), path(17));
    assert!(path.run(&mut bbr, 60, FULL, |bbr| bbr.inflight_longterm().is_some()));
    let bound = bbr.inflight_longterm().expect("a bound");
    assert!((30 * MSS..=110 * MSS).contains(&bound), "{bound}");
    // In the next Cruise phase, 15 % of the long-term bound is left for other flows.
    assert!(path.run(&mut bbr, 10, FULL, |bbr| bbr.state() == State::Cruise));
    path.run(&mut bbr, 1, FULL, |_| false);
    assert!(bbr.window() <= bbr.inflight_longterm().expect("a bound").max(4 * MSS));
}

#[test]
fn a_loss_of_one_percent_slows_it_down_by_little() {
    // The path holds 51 packets. With a loss of 1 %, Reno's window would be about 12 packets (RFC 5348 §3.1), so Reno
    // would use a quarter of the bandwidth.
    let (mut bbr, mut path) = (bbr(), path(1_000));
    path.every = 100;
    path.run(&mut bbr, 20, FULL, |_| false);
    let sent = path.sent;
    path.run(&mut bbr, 10, FULL, |_| false);
    assert!(path.sent - sent > 8_000, "{} of 10,000", path.sent - sent);
}

#[test]
fn probe_rtt_comes_every_five_seconds_for_200_ms_with_half_a_bdp() {
    let (mut bbr, mut path) = (bbr(), path(1_000));
    // A standing queue delays all packets, so the measured round-trip time never falls below the known minimum.
    assert!(path.run(&mut bbr, 20, FULL, |bbr| bbr.state() == State::ProbeRtt));
    let begin = path.now;
    let mut least = u64::MAX;
    while bbr.state() == State::ProbeRtt {
        path.step(&mut bbr, FULL);
        least = least.min(path.in_flight);
    }
    let span = path.now - begin;
    assert!((200_000_000..500_000_000).contains(&span), "{span}");
    assert!(least <= 26 * MSS, "{least}");
    assert_eq!(bbr.state(), State::Cruise);
}

#[test]
fn a_sender_with_little_to_send_stays_in_startup() {
    let (mut bbr, mut path) = (bbr(), path(1_000));
    // The application sends only two packets per round trip.
    assert!(!path.run(&mut bbr, 4, 2 * MSS, |bbr| bbr.state() != State::Startup));
}

#[test]
fn an_idle_period_replaces_probe_rtt() {
    let (mut bbr, mut path) = (bbr(), path(1_000));
    assert!(path.run(&mut bbr, 5, FULL, |bbr| bbr.state() == State::Cruise));
    // All data in flight arrives. After that, no data is sent for six seconds.
    while !path.answers.is_empty() {
        let limit = path.in_flight.saturating_sub(MSS).max(1);
        path.step(&mut bbr, limit.min(MSS - 1));
    }
    bbr.on_application_limited();
    path.now += 6_000_000_000;
    path.send(&mut bbr);
    assert!(bbr.idle_restart);
    path.step(&mut bbr, 0);
    assert_ne!(bbr.state(), State::ProbeRtt);
}

#[test]
fn a_timeout_leaves_one_packet_and_the_way_back_is_short() {
    let (mut bbr, mut path) = (bbr(), path(1_000));
    assert!(path.run(&mut bbr, 5, FULL, |bbr| bbr.state() == State::Cruise));
    let window = bbr.window();
    let now = Instant::from_nanos(path.now);
    bbr.on_timeout(now, path.in_flight);
    bbr.on_remaining(0);
    assert_eq!(bbr.window(), MSS);
    path.answers.clear();
    path.in_flight = 0;
    assert!(path.run(&mut bbr, 3, FULL, |bbr| bbr.window() >= window * 9 / 10), "{}", bbr.window());
}

#[test]
fn a_spurious_loss_is_undone() {
    let (mut bbr, mut path) = (bbr(), path(1_000));
    assert!(path.run(&mut bbr, 5, FULL, |bbr| bbr.state() == State::Cruise));
    let now = Instant::from_nanos(path.now);
    bbr.on_loss(now, path.in_flight, false);
    let bounds = (bbr.model.bw_shortterm, bbr.model.inflight_shortterm);
    bbr.model.lower_bounds(bbr.window);
    assert_ne!((bbr.model.bw_shortterm, bbr.model.inflight_shortterm), bounds);
    bbr.on_spurious(now);
    assert_eq!((bbr.model.bw_shortterm, bbr.model.inflight_shortterm), bounds);
}

#[test]
fn the_same_seed_probes_at_the_same_times_and_another_at_others() {
    let times = |seed| {
        let mut bbr = Bbr::new(InitialParams::new(MSS, InitialWindow::Packets(10)).seeded(seed));
        let mut path = Path::new(100_000, 50_000_000, 10_000);
        let mut times = Vec::new();
        for state in [State::Refill, State::Down, State::Refill] {
            path.run(&mut bbr, 6, FULL, |bbr| bbr.state() == state);
            times.push(path.now);
        }
        times
    };
    assert_eq!(times(1), times(1));
    assert_ne!(times(1), times(2));
}
