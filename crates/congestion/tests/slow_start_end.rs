//! The end of slow start on a link with a queue: one packet per millisecond, a round trip of 100 ms, and a queue of 100
//! packets. The variants are CUBIC alone, CUBIC with HyStart++ (RFC 9406), CUBIC with pacing, and CUBIC with both. The
//! window and the longest queue of each 100 ms are compared with expected texts and pictures in files.
//!
//! `UPDATE_EXPECT=1 cargo test -p anabranch-congestion` rewrites the files.

mod path;

use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_congestion::{
    Acked, Algorithm, AlgorithmConfig, Controller, HyStart, InitialParams, InitialWindow, Pacer, SlowStart,
    cubic,
};
use expect_test::expect_file;
use std::collections::VecDeque;

const MSS: u64 = 1_000;
/// The time that the link needs to send one packet.
const SERVICE: Duration = Duration::from_millis(1);
const ROUND_TRIP: Duration = Duration::from_millis(100);
/// The capacity of the queue in packets.
const ROOM: u64 = 100;
const STEP: Duration = Duration::from_millis(100);
const STEPS: usize = 40;

/// A packet in flight: its number, the time at which it was sent, and the time at which its acknowledgement arrives.
struct PacketInFlight {
    number: u64,
    at: Instant,
    acked_at: Instant,
}

/// A simulated sender that always has data to send.
struct Flow {
    controller: Algorithm,
    hystart: Option<HyStart>,
    pacer: Option<Pacer>,
    now: Instant,
    next: u64,
    acked: u64,
    /// The time until which the link is busy.
    busy_until: Instant,
    in_flight: VecDeque<PacketInFlight>,
    flight: u64,
    /// The number of the next packet when the current recovery began. Losses of earlier packets belong to this
    /// recovery. `None` outside a recovery.
    recovery: Option<u64>,
    lost: u64,
    longest: u64,
}

impl Flow {
    fn new(hystart: bool, pacing: bool) -> Self {
        let kind = AlgorithmConfig::Cubic(cubic::Config::default());
        Self {
            controller: Algorithm::new(kind, InitialParams::new(MSS, InitialWindow::Packets(10))),
            hystart: hystart.then(HyStart::default),
            pacer: pacing.then(Pacer::default),
            now: Instant::ZERO,
            next: 0,
            acked: 0,
            busy_until: Instant::ZERO,
            in_flight: VecDeque::new(),
            flight: 0,
            recovery: None,
            lost: 0,
            longest: 0,
        }
    }

    /// Sends the packets that window and pacing allow. If pacing prevents the next packet, returns the time at which
    /// pacing allows it.
    fn send(&mut self) -> Option<Instant> {
        while self.flight + MSS <= self.controller.window() {
            if let Some(pacer) = &mut self.pacer {
                if pacer.ready_at() > self.now {
                    return Some(pacer.ready_at());
                }
                let (window, threshold) = (self.controller.window(), self.controller.ssthresh());
                let smoothed = (self.acked > 0).then_some(ROUND_TRIP);
                pacer.on_sent(self.now, MSS, window, MSS, window < threshold, smoothed);
            }
            let waiting = self.busy_until.since(self.now).as_nanos() as u64 / SERVICE.as_nanos() as u64;
            self.longest = self.longest.max(waiting);
            if waiting < ROOM {
                self.busy_until = self.busy_until.max(self.now) + SERVICE;
                let acked_at = self.busy_until + (ROUND_TRIP - SERVICE);
                self.in_flight.push_back(PacketInFlight { number: self.next, at: self.now, acked_at });
            } else {
                self.lost += 1;
            }
            self.flight += MSS;
            self.next += 1;
        }
        None
    }

    fn acknowledge(&mut self, packet: &PacketInFlight) {
        let missing = packet.number - self.acked;
        let flight_before = self.flight;
        self.flight -= (missing + 1) * MSS;
        self.acked = packet.number + 1;
        if self.recovery.is_some_and(|end| self.acked >= end) {
            self.recovery = None;
        }
        let slow = self.controller.window() < self.controller.ssthresh();
        let advice = match &mut self.hystart {
            Some(hystart) if slow => hystart.on_ack(self.acked, self.next, Some(self.now.since(packet.at))),
            _ => SlowStart::Full,
        };
        if advice == SlowStart::Leave {
            self.controller.leave_slow_start();
        }
        let acked = Acked {
            bytes: MSS,
            flight_before,
            cumulative: true,
            in_recovery: self.recovery.is_some(),
            window_limited: true,
            conservative: advice != SlowStart::Full,
            rtt: Some(ROUND_TRIP),
        };
        self.controller.on_acked(self.now, acked);
        if missing > 0 && self.recovery.is_none() {
            self.controller.on_loss(self.now, flight_before, false);
            self.recovery = Some(self.next);
            if let Some(hystart) = &mut self.hystart {
                hystart.end();
            }
        }
    }

    /// Simulates the transfer until the time `until`.
    fn run(&mut self, until: Instant) {
        loop {
            let paced = self.send().unwrap_or(Instant::MAX);
            let acked = self.in_flight.front().map_or(Instant::MAX, |packet| packet.acked_at);
            if paced.min(acked) > until {
                self.now = until;
                return;
            }
            self.now = paced.min(acked);
            if acked <= paced
                && let Some(packet) = self.in_flight.pop_front()
            {
                self.acknowledge(&packet);
            }
        }
    }
}

#[test]
fn slow_start_ends() {
    let kinds =
        [("cubic", false, false), ("hystart++", true, false), ("paced", false, true), ("both", true, true)];
    let mut text = format!("{:>5}", "ms");
    let (mut windows, mut queues, mut losses) = (Vec::new(), Vec::new(), Vec::new());
    for (name, hystart, pacing) in kinds {
        text += &format!(" {name:>9} queue");
        let mut flow = Flow::new(hystart, pacing);
        let mut steps = Vec::new();
        let mut longest = Vec::new();
        for step in 1..=STEPS as u32 {
            flow.run(Instant::ZERO + STEP * step);
            steps.push(flow.controller.window());
            longest.push(std::mem::take(&mut flow.longest) * MSS);
        }
        losses.push((name, flow.lost, flow.acked));
        windows.push((name, steps));
        queues.push((name, longest));
    }
    text += "\n";
    for step in 0..STEPS {
        text += &format!("{:>5}", (step + 1) * 100);
        for ((_, windows), (_, queues)) in windows.iter().zip(&queues) {
            text += &format!(" {:>9} {:>5}", windows[step], queues[step] / MSS);
        }
        text += "\n";
    }
    for (name, lost, acked) in &losses {
        text += &format!("{name}: {lost} lost, acknowledged up to {acked}\n");
    }
    expect_file!["./curves/slow-start-end.txt"].assert_eq(&text);
    expect_file!["./curves/slow-start-end.svg"].assert_eq(&path::svg("slow-start-end", &windows));
    expect_file!["./curves/slow-start-queue.svg"].assert_eq(&path::svg("slow-start-queue", &queues));
    // HyStart++ loses fewer packets than CUBIC alone. In the second step of the simulation, the longest queue is
    // shorter with pacing than without pacing.
    assert!(losses[0].1 > 50 && losses[1].1 < losses[0].1);
    assert!(queues[2].1[1] < queues[0].1[1]);
}
