//! Everything from user message to acknowledged byte.
//!
//! The sending half of an association: [`queue`] holds messages, whole, until
//! the last of their bytes is acknowledged; [`outstanding`] the chunks that
//! were cut from them and sent; [`permission`] says whether more may go; [`sack`] reads acknowledgements, [`loss`]
//! or [`rack`] decides what was lost, [`retransmit`] what a timeout means. It never sends:
//! `association::outbound` asks it for the next chunk.

pub(crate) mod abandon;
mod burst;
mod bytes;
mod cancel;
mod deferred_free;
pub(crate) mod fragment;
pub(crate) mod loss;
mod nr_sack;
pub(crate) mod outstanding;
mod permission;
pub(crate) mod queue;
pub(crate) mod rack;
pub(crate) mod retransmit;
pub(crate) mod sack;
pub(crate) mod sack_outcome;
mod sack_work_limit;
pub(crate) mod scheduler;
mod undelivered;

use crate::config::Config;
use burst::BurstLimit;
use loss::Recovery;
use outstanding::Outstanding;
use queue::Queue;
use sack_outcome::SackOutcome;

pub(crate) use permission::Probing;

/// The sending half.
#[derive(Debug)]
pub(crate) struct SendHalf {
    pub(crate) queue: Queue,
    pub(crate) outstanding: Outstanding,
    pub(crate) recovery: Recovery,
    /// What the peer's last a_rwnd leaves, in user bytes (RFC 9260 §6.2.1).
    pub(crate) peer_window: u64,
    /// A closed window is being probed; the interval doubles.
    pub(crate) probing: Option<Probing>,
    /// The last SACK, and since the last T3-rtx, said that the window is shut.
    pub(crate) turned_away: bool,
    dupthresh: u8,
    /// Losses are found by time (RFC 8985), not by miss indications.
    by_time: bool,
    /// Below this the last SACK told of all that had arrived.
    horizon: rack::Horizon,
    /// Where the numbers of streams begin anew that were asked to be reset (RFC 6525), ascending, as
    /// far as something before them is outstanding.
    resets: Vec<u64>,
    /// Chunks that this packet has acknowledged for good.
    at_once: u64,
    /// What the SACKs of this packet have cost so far.
    sack_work: sack_work_limit::SackWorkLimit,
    /// Messages that may be given up, once there was one.
    pub(crate) limits: Option<Box<abandon::Limits>>,
    /// Most user bytes in a chunk (AMDCS less the header).
    largest: u32,
    burst: BurstLimit,
    /// The one of the last SACK, kept for its memory.
    outcome: Option<Box<SackOutcome>>,
}

impl SendHalf {
    /// Streams are asked to begin anew behind all that was sent.
    pub(crate) fn record_reset(&mut self) {
        let (base, end) = (self.outstanding.base(), self.outstanding.end());
        self.resets.retain(|&at| at > base && at < end);
        self.resets.push(end);
    }

    pub(crate) fn new(config: &Config, initial: u32) -> Self {
        let mut queue = Queue::new(config.sndbuf, config.scheduler);
        if let Some(budget) = &config.memory {
            queue.share(budget);
        }
        Self {
            queue,
            outstanding: Outstanding::new(initial),
            recovery: Recovery::default(),
            peer_window: 0,
            probing: None,
            turned_away: false,
            dupthresh: config.dupthresh.min(255) as u8,
            by_time: config.rack,
            horizon: rack::Horizon::new(),
            resets: Vec::new(),
            at_once: 0,
            sack_work: sack_work_limit::SackWorkLimit::default(),
            limits: None,
            largest: 0,
            burst: BurstLimit::new(),
            outcome: None,
        }
    }

    /// Room for what a SACK means to so many paths; `fresh`: somebody wants to know what arrived.
    #[inline]
    pub(crate) fn take_outcome(&mut self, paths: usize, fresh: bool) -> Box<SackOutcome> {
        let mut outcome = self.outcome.take().unwrap_or_default();
        outcome.fit(paths, fresh);
        outcome
    }

    /// Keeps its memory for the next SACK.
    #[inline]
    pub(crate) fn keep_outcome(&mut self, outcome: Box<SackOutcome>) {
        self.outcome = Some(outcome);
    }

    /// Nothing is waiting, and all that is unacknowledged was given up (RFC 3758 §3.5 A2: finally acked); the peer has
    /// been told so, and T3-rtx has run out `times` times since.
    pub(crate) fn is_given_up(&self, times: u32) -> bool {
        let told = |limits: &abandon::Limits| limits.is_unanswered_over(&self.outstanding, times);
        self.queue.unsent_bytes() == 0 && self.limits.as_deref().is_some_and(told)
    }

    /// Nothing is waiting and nothing is unacknowledged.
    pub(crate) fn is_idle(&self) -> bool {
        self.queue.unsent_bytes() == 0 && self.outstanding.is_empty()
    }
}
