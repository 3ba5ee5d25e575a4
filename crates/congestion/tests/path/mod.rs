//! A model of a path, for tests of one congestion controller. In each round a window of packets is sent, and its
//! acknowledgements arrive evenly over one round-trip time.

#![allow(dead_code, reason = "each test file uses a part")]

use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_congestion::{Acked, Algorithm, Controller};
use std::fmt;

/// What happens in one round of the simulated transfer.
#[derive(Clone, Copy)]
pub enum Event {
    /// A full window is sent and acknowledged.
    Full,
    /// The given number of packets is sent and acknowledged.
    Packets(u64),
    /// A full window is sent, and a loss is detected.
    Loss,
    /// A full window is sent, and the receiver echoes an ECN congestion mark.
    Ecn,
    /// The retransmission timer expires.
    Timeout,
    /// No data is sent for `rtos` + 1/2 retransmission timeouts.
    Idle { rtos: u32 },
    /// The controller is told that the last reduction was spurious. Then a full window is sent and acknowledged.
    Spurious,
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full => Ok(()),
            Self::Packets(n) => write!(f, "{n} packets"),
            Self::Loss => f.write_str("loss"),
            Self::Ecn => f.write_str("ecn"),
            Self::Timeout => f.write_str("timeout"),
            Self::Idle { rtos } => write!(f, "idle {rtos}.5 RTO"),
            Self::Spurious => f.write_str("spurious"),
        }
    }
}

/// A path with one controller.
pub struct Path {
    pub controller: Algorithm,
    pub now: Instant,
    mss: u64,
    rtt: Duration,
    /// The number of packets that one acknowledgement covers.
    pub acked_together: u64,
}

impl Path {
    pub fn new(controller: Algorithm, mss: u64, rtt_ms: u64) -> Self {
        let rtt = Duration::from_millis(rtt_ms);
        Self { controller, now: Instant::ZERO, mss, rtt, acked_together: 2 }
    }

    pub fn window(&self) -> u64 {
        self.controller.window()
    }

    pub fn round(&mut self, event: Event) {
        let window = self.window();
        match event {
            Event::Full => self.acknowledge(window.div_ceil(self.mss), true),
            Event::Packets(n) => self.acknowledge(n, false),
            Event::Loss | Event::Ecn => {
                self.now += self.rtt;
                self.controller.on_loss(self.now, window, matches!(event, Event::Ecn));
            }
            Event::Timeout => {
                self.now += Duration::from_secs(1);
                self.controller.on_timeout(self.now, window);
            }
            Event::Idle { rtos } => {
                let rto = Duration::from_secs(1);
                let idle = rto * rtos + rto / 2;
                self.now += idle;
                self.controller.on_idle(idle, rto);
            }
            Event::Spurious => {
                self.controller.on_spurious(self.now);
                self.acknowledge(self.window().div_ceil(self.mss), true);
            }
        }
    }

    /// Sends and acknowledges `packets` packets over one round-trip time. If `filling`, the window is full before each
    /// acknowledgement.
    fn acknowledge(&mut self, packets: u64, filling: bool) {
        let start = self.now;
        let mut done = 0;
        while done < packets {
            let flight_before = if filling { self.window() } else { (packets - done) * self.mss };
            let n = self.acked_together.min(packets - done);
            done += n;
            self.now = start + self.rtt * done as u32 / packets as u32;
            let acked = Acked {
                bytes: n * self.mss,
                flight_before,
                cumulative: true,
                in_recovery: false,
                window_limited: filling,
                conservative: false,
                rtt: Some(self.rtt),
            };
            self.controller.on_acked(self.now, acked);
        }
    }
}

/// Draws the windows of several runs, in packets over rounds.
pub fn svg(title: &str, runs: &[(&str, Vec<u64>)]) -> String {
    const COLOURS: [&str; 6] = ["#1b6ca8", "#7fb2d6", "#8a5a00", "#c98a1b", "#b3261e", "#2e7d32"];
    let rounds = runs.iter().map(|(_, windows)| windows.len()).max().unwrap_or(1);
    let top = runs.iter().flat_map(|(_, windows)| windows).max().copied().unwrap_or(1).max(1);
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 700 360\" font-family=\"sans-serif\" font-size=\"12\">\n\
         <title>{title}: congestion window by round</title>\n\
         <path d=\"M40 20V320H580\" fill=\"none\" stroke=\"#777\"/>\n\
         <text x=\"36\" y=\"24\" text-anchor=\"end\">{}</text><text x=\"580\" y=\"338\" text-anchor=\"end\">round {}</text>\n",
        top / 1_000,
        rounds - 1
    );
    for (i, (name, windows)) in runs.iter().enumerate() {
        let points: Vec<_> = windows
            .iter()
            .enumerate()
            .map(|(round, window)| {
                let x = 40 + 540 * round / (rounds - 1).max(1);
                format!("{x},{}", 320 - 300 * window / top)
            })
            .collect();
        let colour = COLOURS[i % COLOURS.len()];
        out += &format!(
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.5\"/>\n\
             <text x=\"590\" y=\"{}\" fill=\"{colour}\">{name}</text>\n",
            points.join(" "),
            40 + 18 * i
        );
    }
    out + "</svg>\n"
}
