//! The sending half: from the application's bytes to acknowledged bytes.
//!
//! Owns the send buffer, the scoreboard, the congestion window and the peer's window. [`ack`] processes
//! acknowledgements; [`choose`] decides which segment is sent next; neither builds segments. Stream positions are
//! counted from 0 at the first byte after the SYN and never wrap. The FIN has the position after the last byte.

mod ack;
mod buffer;
mod burst;
mod choose;
mod fack;
mod rack;
mod recovery;
mod refused;
mod scoreboard;
mod usage;

pub(crate) use ack::{Ack, AckOutcome};
pub(crate) use buffer::SendBuffer;
pub(crate) use choose::SelectedSegment;
pub(crate) use rack::LossTimer;
pub(crate) use recovery::{Phase, Recovery};
pub(crate) use scoreboard::Scoreboard;

use crate::config::{Cc, Config, CwndUnit, Fin, Nagle, Push, RecoveryKind, RttSampling, Ssthresh};
use anabranch_base::Instant;
use anabranch_base::trace::Limit;
use anabranch_congestion::{
    Algorithm, Controller, InitialParams, InitialWindow, Pacer, RttEstimator, SlowStartExit,
    SlowStartExitState,
};
use burst::Bursts;
use fack::Fack;
use rack::RackTlp;
use refused::Refusal;
use std::ops::Range;
use usage::Usage;

/// The sending half of a connection.
#[derive(Debug)]
pub(crate) struct SendHalf {
    pub(crate) buffer: SendBuffer,
    pub(crate) scoreboard: Scoreboard,
    pub(crate) recovery: Recovery,
    pub(crate) controller: Algorithm,
    pub(crate) rtt: RttEstimator,
    /// Whether the application will write no more data.
    pub(crate) finished: bool,
    fin: Fin,
    /// Whether the FIN is sent in a segment without data.
    fin_alone: bool,
    /// The largest payload of a segment in bytes.
    mss: u64,
    /// The right edge of the window that the peer offers.
    edge: u64,
    /// The rightmost value that `edge` has had. A peer may shrink its window, although it should not.
    farthest_edge: u64,
    /// The largest window that the peer has offered.
    largest_window: u64,
    nagle: Nagle,
    /// The position after the last small segment sent.
    small_until: u64,
    sampling: RttSampling,
    /// If only one segment at a time is timed: the end of the timed segment, and the time when it was sent.
    timed: Option<(u64, Instant)>,
    /// Data before this position was sent while the congestion window was full.
    limited_until: u64,
    /// Whether the next segment of new data may be as small as the peer's window, because a timer has waited for a larger
    /// window.
    fills_window: bool,
    /// The position after the last byte that a window probe has carried.
    probed_until: u64,
    /// ECE is ignored in acknowledgements up to this position (RFC 3168 §6.1.2).
    ecn_point: Option<u64>,
    /// Losses of data before this position do not reduce the window, because a CE mark has already reduced it.
    cwr_until: u64,
    /// Whether the next segment of new data must carry CWR.
    pub(crate) cwr_due: bool,
    last_sent: Option<Instant>,
    /// Whether segments that exceed a decreased path MTU are being retransmitted in smaller segments.
    too_big: bool,
    /// Whether window reductions that turn out to be spurious are undone.
    undoes: bool,
    /// Whether the size of the send buffer follows the congestion window.
    grows_buffer: bool,
    /// The number of unsent bytes that the send buffer may hold beyond the congestion window, if that number is
    /// limited.
    unsent: Option<u64>,
    /// The state of loss detection by time, if enabled.
    rack_tlp: Option<Box<RackTlp>>,
    /// The state of loss detection by forward acknowledgement, if enabled.
    fack: Option<Box<Fack>>,
    /// The state of early slow-start exit, if enabled.
    hystart: Option<SlowStartExitState>,
    /// The observed use of the congestion window; `None` if the window is counted in bytes.
    usage: Option<Box<Usage>>,
    /// Whether the slow-start threshold after a loss is computed from the congestion window, and not from the bytes in
    /// flight.
    threshold_of_window: bool,
    /// Whether an acknowledgement lets the window grow only if the data in flight filled the window just before that
    /// acknowledgement, as in Linux 2.6.11.
    grows_by_ack: bool,
    /// Whether acknowledgements that may reveal a loss limit the window to three segments more than the data in flight.
    moderates: bool,
    /// The initial slow-start threshold in segments, if one was kept from an earlier connection to the same host.
    pub(crate) first_ssthresh: Option<u64>,
    /// The state of the current burst, with `push=burst`: the last segment of a burst carries PSH.
    bursts: Option<Box<Bursts>>,
    /// The value of [`Scoreboard::arrived`] at the last report to the congestion controller. `None` if the controller
    /// wants no reports.
    reported: Option<u64>,
    /// Paces segments, if enabled.
    pacer: Option<Pacer>,
    max_burst: Option<u32>,
    /// The number of segments that may still be sent in response to the current event.
    burst_left: u32,
    /// Whether the connection must wait because this host has refused to send a segment.
    refusal: Refusal,
    /// The reason why the last call of `choose` found nothing to send.
    pub(crate) limit: Limit,
}

impl SendHalf {
    pub(crate) fn new(config: &Config, mss: u64) -> Self {
        let mut half = Self {
            buffer: SendBuffer::new(
                if config.sndbuf_auto { FIRST_BUFFER } else { config.sndbuf },
                config.sndbuf,
            ),
            scoreboard: Scoreboard::default(),
            recovery: Recovery::new(RecoveryKind::NewReno, config),
            controller: Algorithm::new(config.controller(), InitialParams::new(mss, config.iw)),
            rtt: RttEstimator::new(config.rtt()),
            finished: false,
            fin: config.fin,
            fin_alone: false,
            mss,
            edge: 0,
            farthest_edge: 0,
            largest_window: 0,
            nagle: config.nagle,
            small_until: 0,
            sampling: config.rtt_sample,
            timed: None,
            limited_until: 0,
            fills_window: false,
            probed_until: 0,
            ecn_point: None,
            cwr_until: 0,
            cwr_due: false,
            last_sent: None,
            too_big: false,
            undoes: config.undo,
            grows_buffer: config.sndbuf_auto,
            unsent: None,
            rack_tlp: None,
            fack: None,
            hystart: None,
            usage: None,
            threshold_of_window: config.ssthresh == Ssthresh::Window,
            grows_by_ack: false,
            moderates: config.moderation,
            first_ssthresh: None,
            bursts: None,
            reported: None,
            pacer: None,
            max_burst: config.max_burst,
            burst_left: config.max_burst.unwrap_or(u32::MAX),
            refusal: Refusal::None,
            limit: Limit::Application,
        };
        half.begin(config, mss, false, false, 0);
        half
    }

    /// Starts the sending half with the results of the handshake: the segment size `mss` and whether SACK is used.
    /// `syn_lost` says that lost SYNs or SYN-ACKs reduce the initial window. `seed` seeds the controller's random
    /// choices.
    pub(crate) fn begin(&mut self, config: &Config, mss: u64, sack: bool, syn_lost: bool, seed: u64) {
        self.mss = mss;
        let window = if syn_lost { InitialWindow::Packets(1) } else { config.iw };
        let mut params = InitialParams::new(mss, window).seeded(seed);
        params.initial_ssthresh = self.first_ssthresh.map_or(u64::MAX, |segments| segments * mss);
        self.use_controller(config, Algorithm::new(config.controller(), params));
        self.grow_buffer();
        let kind = match config.recovery {
            RecoveryKind::Sack if !sack => RecoveryKind::NewReno,
            kind => kind,
        };
        self.recovery = Recovery::new(kind, config);
        self.rack_tlp = self.recovery.by_time().then(|| Box::new(RackTlp::new(config.tlp)));
        self.fack = self.recovery.by_fack().then(Box::default);
        // HyStart's Linux variant is part of Linux's CUBIC, so it is used only with CUBIC.
        let exit = config.hystart.filter(|exit| *exit != SlowStartExit::Linux || config.cc == Cc::Cubic);
        self.hystart = exit.map(SlowStartExitState::new);
        let by_segment = config.cwnd_unit == CwndUnit::Segments;
        self.grows_by_ack = by_segment && config.cc == Cc::Bic;
        self.usage = by_segment.then(Box::default);
        self.bursts = (config.push == Push::Bursts).then(Box::default);
        if by_segment && self.scoreboard.flight() == 0 {
            self.scoreboard = Scoreboard::counting(mss);
        }
        if self.rack_tlp.is_some() || self.hystart.is_some() || self.reported.is_some() {
            self.scoreboard.record_deliveries();
        }
    }

    /// Replaces the congestion controller of this connection. Segments are paced at the controller's rate if it
    /// provides one.
    pub(crate) fn use_controller(&mut self, config: &Config, controller: Algorithm) {
        let paced = config.pacing || controller.pacing_rate().is_some();
        self.pacer = paced.then(Pacer::default);
        self.reported = controller.wants_reports().then(|| self.scoreboard.arrived());
        if self.reported.is_some() {
            self.scoreboard.record_deliveries();
        }
        self.controller = controller;
    }

    /// Limits the unsent data to `bytes` bytes beyond the congestion window (Linux: `TCP_NOTSENT_LOWAT`).
    pub(crate) fn limit_unsent(&mut self, bytes: u64) {
        self.unsent = Some(bytes.max(1));
        self.grow_buffer();
    }

    /// Sets the buffer size as Linux does: twice the congestion window, and at least twice the usual initial window of
    /// ten segments. Also adapts the limit on unsent data to the congestion window.
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

    /// Returns the size of the peer's window, counted from the last cumulative acknowledgement.
    pub(crate) fn peer_window(&self) -> u64 {
        self.edge.saturating_sub(self.scoreboard.una())
    }

    /// Returns the highest position that the peer can validly acknowledge.
    #[inline]
    pub(crate) fn highest_sent(&self) -> u64 {
        self.scoreboard.next().max(self.probed_until)
    }

    /// Sets the peer's window to `window` bytes from `position` on.
    #[inline]
    pub(crate) fn set_window(&mut self, position: u64, window: u64) {
        self.edge = position + window;
        self.farthest_edge = self.farthest_edge.max(self.edge);
        self.largest_window = self.largest_window.max(window);
    }

    /// Returns the position after all data and the FIN, whether sent or not.
    #[inline]
    fn end(&self) -> u64 {
        self.buffer.end() + u64::from(self.finished)
    }

    /// Returns whether some data, or the FIN, has never been sent.
    #[inline]
    pub(crate) fn has_unsent(&self) -> bool {
        self.scoreboard.next() < self.end()
    }

    /// Returns whether our FIN has been sent and acknowledged.
    pub(crate) fn fin_acked(&self) -> bool {
        self.finished && self.scoreboard.una() > self.buffer.end()
    }

    /// Returns whether every byte written has been acknowledged.
    pub(crate) fn all_data_acked(&self) -> bool {
        self.scoreboard.una() >= self.buffer.end()
    }

    /// Returns the positions of the payload in `range`, and whether the range includes the FIN.
    pub(crate) fn parts(&self, range: &Range<u64>) -> (Range<u64>, bool) {
        let end = self.buffer.end();
        (range.start.min(end)..range.end.min(end), self.finished && range.end > end)
    }

    /// Resets the limits on bursts. Called at the beginning of each event, for example an arriving segment.
    #[inline]
    pub(crate) fn begin_burst(&mut self) {
        if let Some(limit) = self.max_burst {
            self.burst_left = limit;
        }
        if let Some(bursts) = &mut self.bursts {
            bursts.end_current();
        }
    }

    /// RFC 5961 §5.2: returns the lowest position that an honest peer may still acknowledge.
    pub(crate) fn lowest_plausible(&self) -> i64 {
        self.scoreboard.una() as i64 - self.largest_window.max(1) as i64
    }

    /// Reduces the segment size after the path MTU has decreased. Outstanding segments that are too large are
    /// retransmitted in smaller pieces.
    pub(crate) fn set_mss(&mut self, mss: u64) {
        if mss >= self.mss {
            return;
        }
        self.mss = mss;
        self.controller.set_mss(mss);
        self.scoreboard.set_segment_size(mss);
        // RFC 1191 §6.5: a smaller MTU is not congestion, so the window stays and no recovery begins.
        self.scoreboard.lose_larger_than(mss);
        self.too_big = self.scoreboard.flight() > 0;
    }

    /// Called before new data is sent after an idle period. The controller may reduce the window, because the path may
    /// have changed during the idle period.
    pub(crate) fn on_resume(&mut self, now: Instant) {
        if let Some(last) = self.last_sent
            && self.scoreboard.flight() == 0
        {
            self.controller.on_idle(now.since(last), self.rtt.rto());
        }
    }

    /// Frees the send buffer, because the connection has ended.
    pub(crate) fn discard(&mut self) {
        self.buffer.discard();
    }

    /// Asserts the invariants of the sending half.
    #[cfg(feature = "testing")]
    pub(crate) fn check_invariants(&self) {
        self.scoreboard.check_invariants();
        assert!(self.scoreboard.next() <= self.end(), "sent more than was written");
        // The peer can shrink its window after data was sent. So the end of the sent data is compared with the farthest
        // edge that the peer has ever offered. Only a probe and the FIN are allowed beyond this edge.
        assert!(
            self.scoreboard.next() <= self.farthest_edge.max(self.probed_until) + 1,
            "beyond the peer's window"
        );
    }
}

/// The initial size in bytes of a send buffer that grows (Linux: the middle value of tcp_wmem).
const FIRST_BUFFER: u64 = 16_384;
