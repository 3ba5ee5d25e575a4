//! Everything from the application's bytes to acknowledged bytes.
//!
//! Owns the send buffer, the scoreboard, the congestion and the peer's window.
//! [`ack`] takes acknowledgements in, [`choose`] says what is next; neither
//! builds segments. Positions count from 0 at the first byte after the SYN and
//! never wrap; the FIN takes the position after the last byte.

mod ack;
mod buffer;
mod burst;
mod choose;
mod rack;
mod recovery;
mod scoreboard;
mod usage;

pub(crate) use ack::{Ack, AckOutcome};
pub(crate) use buffer::SendBuffer;
pub(crate) use choose::Choice;
pub(crate) use rack::LossTimer;
pub(crate) use recovery::{Phase, Recovery};
pub(crate) use scoreboard::Scoreboard;

use crate::config::{Cc, Config, CwndUnit, Fin, Nagle, Push, RecoveryKind, RttSampling, Ssthresh};
use anabranch_base::Instant;
use anabranch_base::trace::Limit;
use anabranch_congestion::{
    Algorithm, Controller, InitialWindow, Pacer, Params, RttEstimator, SlowStartEnd, SlowStartExit,
};
use burst::Bursts;
use rack::ByTime;
use std::ops::Range;
use usage::Usage;

/// The sending half of a connection.
#[derive(Debug)]
pub(crate) struct SendHalf {
    pub(crate) buffer: SendBuffer,
    pub(crate) board: Scoreboard,
    pub(crate) recovery: Recovery,
    pub(crate) controller: Algorithm,
    pub(crate) rtt: RttEstimator,
    /// The application will write no more.
    pub(crate) finished: bool,
    /// The FIN takes no data along.
    fin_alone: bool,
    /// Largest payload of a segment.
    mss: u64,
    /// Position up to which the peer's window reaches.
    edge: u64,
    /// Farthest it ever reached: a peer may take window back, though it should not.
    farthest_edge: u64,
    /// Largest window the peer has offered.
    largest_window: u64,
    nagle: Nagle,
    /// The end of the last small segment sent.
    small_until: u64,
    sampling: RttSampling,
    /// The segment being timed, when one is at a time: its end and when it was sent.
    timed: Option<(u64, Instant)>,
    /// Positions before this were sent while the congestion window was full.
    limited_until: u64,
    /// A probe of the closed window carried the byte before this position.
    probed_until: u64,
    /// ECE counts once the acknowledgement passes this (RFC 3168 §6.1.2).
    ecn_point: Option<u64>,
    /// A mark has reduced the window; losses before this position are of the same window.
    cwr_until: u64,
    /// New data carries CWR.
    pub(crate) cwr_due: bool,
    last_sent: Option<Instant>,
    /// Segments that the path no longer takes are retransmitted in pieces.
    too_big: bool,
    /// Reductions are undone when they turn out needless.
    undoes: bool,
    /// The send buffer follows the window.
    grows_buffer: bool,
    /// What the buffer takes beyond the window, where that is limited.
    unsent: Option<u64>,
    /// Losses are found by time.
    by_time: Option<Box<ByTime>>,
    /// Watches slow start.
    hystart: Option<SlowStartEnd>,
    /// The window is one of segments: whether it is used, and what was before the last reduction.
    usage: Option<Box<Usage>>,
    /// After a loss the threshold is a share of the window, not of what was in flight.
    threshold_of_window: bool,
    /// The last segment of a burst is pushed.
    bursts: Option<Box<Bursts>>,
    /// What of [`Scoreboard::arrived`] a controller has been told that wants reports.
    reported: Option<u64>,
    /// Spreads segments.
    pacer: Option<Pacer>,
    max_burst: Option<u32>,
    /// Segments that may still go in answer to this event.
    burst_left: u32,
    /// Why `choose` found nothing.
    pub(crate) limit: Limit,
}

impl SendHalf {
    pub(crate) fn new(config: &Config, mss: u64) -> Self {
        let mut half = Self {
            buffer: SendBuffer::new(
                if config.sndbuf_auto { FIRST_BUFFER } else { config.sndbuf },
                config.sndbuf,
            ),
            board: Scoreboard::default(),
            recovery: Recovery::new(RecoveryKind::NewReno, config),
            controller: Algorithm::new(config.controller(), Params::new(mss, config.iw)),
            rtt: RttEstimator::new(config.rtt()),
            finished: false,
            fin_alone: config.fin == Fin::Alone,
            mss,
            edge: 0,
            farthest_edge: 0,
            largest_window: 0,
            nagle: config.nagle,
            small_until: 0,
            sampling: config.rtt_sample,
            timed: None,
            limited_until: 0,
            probed_until: 0,
            ecn_point: None,
            cwr_until: 0,
            cwr_due: false,
            last_sent: None,
            too_big: false,
            undoes: config.undo,
            grows_buffer: config.sndbuf_auto,
            unsent: None,
            by_time: None,
            hystart: None,
            usage: None,
            threshold_of_window: config.ssthresh == Ssthresh::Window,
            bursts: None,
            reported: None,
            pacer: None,
            max_burst: config.max_burst,
            burst_left: config.max_burst.unwrap_or(u32::MAX),
            limit: Limit::Application,
        };
        half.begin(config, mss, false, false, 0);
        half
    }

    /// The handshake has settled the segment size and SACK. `syn_lost`: the
    /// SYN or its answer was lost, as far as the rules of the initial window care. `seed`: a controller's chances.
    pub(crate) fn begin(&mut self, config: &Config, mss: u64, sack: bool, syn_lost: bool, seed: u64) {
        self.mss = mss;
        let window = if syn_lost { InitialWindow::Packets(1) } else { config.iw };
        self.use_controller(
            config,
            Algorithm::new(config.controller(), Params::new(mss, window).seeded(seed)),
        );
        self.grow_buffer();
        let kind = match config.recovery {
            RecoveryKind::Sack if !sack => RecoveryKind::NewReno,
            kind => kind,
        };
        self.recovery = Recovery::new(kind, config);
        self.by_time = self.recovery.by_time().then(|| Box::new(ByTime::new(config.tlp)));
        // Linux's is a part of its CUBIC.
        let exit = config.hystart.filter(|exit| *exit != SlowStartExit::Linux || config.cc == Cc::Cubic);
        self.hystart = exit.map(SlowStartEnd::new);
        let by_segment = config.cwnd_unit == CwndUnit::Segments;
        self.usage = by_segment.then(Box::default);
        self.bursts = (config.push == Push::Bursts).then(Box::default);
        if by_segment && self.board.flight() == 0 {
            self.board = Scoreboard::counting(mss);
        }
        if self.by_time.is_some() || self.hystart.is_some() || self.reported.is_some() {
            self.board.record_deliveries();
        }
    }

    /// Has `controller` decide from here on, at its own pace if it gives one.
    pub(crate) fn use_controller(&mut self, config: &Config, controller: Algorithm) {
        let paced = config.pacing || controller.pacing_rate().is_some();
        self.pacer = paced.then(Pacer::default);
        self.reported = controller.wants_reports().then(|| self.board.arrived());
        if self.reported.is_some() {
            self.board.record_deliveries();
        }
        self.controller = controller;
    }

    /// Takes no more than the congestion window lets go, and `bytes` beyond it (Linux: `TCP_NOTSENT_LOWAT`).
    pub(crate) fn limit_unsent(&mut self, bytes: u64) {
        self.unsent = Some(bytes.max(1));
        self.grow_buffer();
    }

    /// As Linux sizes the buffer: twice the window, no less than twice the usual first one. What may be unsent is counted from
    /// the window, too.
    #[inline]
    fn grow_buffer(&mut self) {
        if let Some(beyond) = self.unsent {
            self.buffer.set_cap(self.controller.window().saturating_add(beyond));
        }
        if self.grows_buffer {
            self.buffer.grow_to(2 * self.controller.window().max(10 * self.mss));
        }
    }

    pub(crate) fn mss(&self) -> u64 {
        self.mss
    }

    /// The peer's window, from the cumulative acknowledgement on.
    pub(crate) fn peer_window(&self) -> u64 {
        self.edge.saturating_sub(self.board.una())
    }

    /// The highest acknowledgement that makes sense.
    #[inline]
    pub(crate) fn highest_sent(&self) -> u64 {
        self.board.next().max(self.probed_until)
    }

    /// The peer's window is `window` bytes from `position` on.
    #[inline]
    pub(crate) fn set_window(&mut self, position: u64, window: u64) {
        self.edge = position + window;
        self.farthest_edge = self.farthest_edge.max(self.edge);
        self.largest_window = self.largest_window.max(window);
    }

    /// Positions of data and FIN not sent yet.
    #[inline]
    fn end(&self) -> u64 {
        self.buffer.end() + u64::from(self.finished)
    }

    /// Something has never been sent.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.board.next() < self.end()
    }

    /// Our FIN has been sent and acknowledged.
    pub(crate) fn fin_acked(&self) -> bool {
        self.finished && self.board.una() > self.buffer.end()
    }

    /// Every byte written has been acknowledged.
    pub(crate) fn all_data_acked(&self) -> bool {
        self.board.una() >= self.buffer.end()
    }

    /// Payload and FIN of a range of positions.
    pub(crate) fn parts(&self, range: &Range<u64>) -> (Range<u64>, bool) {
        let end = self.buffer.end();
        (range.start.min(end)..range.end.min(end), self.finished && range.end > end)
    }

    /// A new event begins: the burst limit starts afresh.
    #[inline]
    pub(crate) fn begin_burst(&mut self) {
        if let Some(limit) = self.max_burst {
            self.burst_left = limit;
        }
        if let Some(bursts) = &mut self.bursts {
            bursts.begin();
        }
    }

    /// RFC 5961 §5.2: the oldest acknowledgement that an honest peer may still send.
    pub(crate) fn lowest_plausible(&self) -> i64 {
        self.board.una() as i64 - self.largest_window.max(1) as i64
    }

    /// The path takes smaller packets now: what was larger goes again in pieces.
    pub(crate) fn set_mss(&mut self, mss: u64) {
        if mss >= self.mss {
            return;
        }
        self.mss = mss;
        self.controller.set_mss(mss);
        self.board.set_segment(mss);
        // RFC 1191 §6.5: no congestion, so the window stays as it is and no recovery begins.
        self.board.lose_larger_than(mss);
        self.too_big = self.board.flight() > 0;
    }

    /// Before new data after a silence: the window may have grown stale.
    pub(crate) fn on_resume(&mut self, now: Instant) {
        if let Some(last) = self.last_sent
            && self.board.flight() == 0
        {
            self.controller.on_idle(now.since(last), self.rtt.rto());
        }
    }

    /// The connection is over: the buffer is of no more use.
    pub(crate) fn discard(&mut self) {
        self.buffer.discard();
    }

    /// Asserts what must hold at any time.
    #[cfg(feature = "testing")]
    pub(crate) fn check_invariants(&self) {
        self.board.check_invariants();
        assert!(self.board.next() <= self.end(), "sent more than was written");
        // The peer's window is only ever exceeded by a probe and the FIN, and when the peer took it back.
        assert!(
            self.board.next() <= self.farthest_edge.max(self.probed_until) + 1,
            "beyond the peer's window"
        );
    }
}

/// Where an automatic send buffer begins (Linux: tcp_wmem's middle value).
const FIRST_BUFFER: u64 = 16_384;
