//! The options negotiated in the handshake, and the timestamps of later segments.
//!
//! Implements RFC 7323 §2 (window scale) and §3 to §5 (timestamps, PAWS), RFC 2018 §2 (SACK-permitted), and RFC 3168
//! §6.1.1 (negotiation of ECN).

use crate::config::Config;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_wire::tcp::{Flags, Header, Options, Timestamps};

/// The negotiated options. Before the handshake is complete, these are the options that we offer.
#[derive(Debug)]
pub(crate) struct NegotiatedOptions {
    pub(crate) sack: bool,
    pub(crate) ecn: bool,
    pub(crate) timestamps: bool,
    /// The window shift of the peer: received window fields are shifted left by this number of bits.
    pub(crate) peer_shift: u8,
    /// Our own window shift: the windows that we send are shifted right by this number of bits.
    pub(crate) own_shift: u8,
    /// Whether both sides sent the window scale option.
    scales: bool,
    clock: Clock,
    /// TS.Recent and the time when it was set; `None` before the first timestamp.
    recent: Option<(u32, Instant)>,
}

/// The clock from which our timestamps are read.
#[derive(Clone, Copy, Debug)]
struct Clock {
    offset: u32,
    tick: u64,
    /// `reading` is the value that the clock had when it was last read. `since` is the time, in nanoseconds, at which
    /// the clock took that value. Both are cached, because many segments are sent in one tick.
    reading: u32,
    since: u64,
}

/// RFC 7323 §2.3: the largest shift.
const MAX_SHIFT: u8 = 14;
/// RFC 7323 §5.5: the age at which TS.Recent becomes invalid.
const STALE: Duration = Duration::from_secs(24 * 86_400);

impl NegotiatedOptions {
    /// Returns the options that this side offers. `settle` removes the options that the peer does not offer.
    pub(crate) fn offer(config: &Config, offset: u32) -> Self {
        Self {
            sack: config.sack,
            ecn: config.ecn,
            timestamps: config.timestamps,
            peer_shift: 0,
            own_shift: if config.wscale { shift_for(config.rcvbuf) } else { 0 },
            scales: false,
            clock: Clock::new(offset, config.tick_nanos()),
            recent: None,
        }
    }

    /// Processes the peer's SYN or SYN-ACK. Options that both sides offer are in effect from now on.
    pub(crate) fn settle(&mut self, now: Instant, config: &Config, syn: &Header) {
        let theirs = &syn.options;
        self.sack &= theirs.sack_permitted;
        self.timestamps &= theirs.timestamps.is_some();
        if let Some(stamps) = theirs.timestamps.filter(|_| self.timestamps) {
            self.recent = Some((stamps.value, now));
        }
        match theirs.window_scale.filter(|_| config.wscale) {
            Some(shift) => (self.peer_shift, self.scales) = (shift.min(MAX_SHIFT), true),
            None => (self.peer_shift, self.own_shift) = (0, 0),
        }
        // RFC 3168 §6.1.1: a SYN that requests ECN sets ECE and CWR; a SYN-ACK that accepts ECN sets only ECE.
        let offered = if syn.flags.has(Flags::ACK) {
            syn.flags.has(Flags::ECE) && !syn.flags.has(Flags::CWR)
        } else {
            syn.flags.has(Flags::ECE.with(Flags::CWR))
        };
        self.ecn &= offered;
    }

    /// Returns the options of our SYN or, if `answer` is set, of our SYN-ACK. A SYN-ACK contains only options that the
    /// peer offered.
    pub(crate) fn syn_options(&mut self, now: Instant, config: &Config, mss: u16, answer: bool) -> Options {
        let scales = if answer { self.scales } else { config.wscale };
        Options {
            mss: Some(mss),
            window_scale: scales.then_some(self.own_shift),
            sack_permitted: self.sack,
            timestamps: self.stamps(now),
            ..Options::default()
        }
    }

    /// Returns the timestamp option for a segment sent at `now`, if timestamps are negotiated.
    #[inline]
    pub(crate) fn stamps(&mut self, now: Instant) -> Option<Timestamps> {
        self.timestamps.then(|| Timestamps {
            value: self.clock.read(now),
            echo: self.recent.map_or(0, |(value, _)| value),
        })
    }

    /// Returns the number of bytes that the options take in every data segment.
    #[inline]
    pub(crate) fn overhead(&self) -> u64 {
        if self.timestamps { 12 } else { 0 }
    }

    /// RFC 7323 §5.3 R1: returns whether the timestamp is older than TS.Recent. Returns false if TS.Recent has become
    /// invalid.
    #[inline]
    pub(crate) fn is_outdated(&self, now: Instant, stamps: Timestamps) -> bool {
        match self.recent {
            Some((recent, at)) => (stamps.value.wrapping_sub(recent) as i32) < 0 && now.since(at) < STALE,
            None => false,
        }
    }

    /// RFC 7323 §4.3: updates TS.Recent from a segment that begins at or before Last.ACK.sent.
    #[inline]
    pub(crate) fn remember(&mut self, now: Instant, stamps: Timestamps) {
        if !self.is_outdated(now, stamps) {
            self.renew(now, stamps);
        }
    }

    /// Updates TS.Recent with the timestamp of a segment. The caller has checked that the timestamp is not outdated.
    #[inline]
    pub(crate) fn renew(&mut self, now: Instant, stamps: Timestamps) {
        self.recent = Some((stamps.value, now));
    }

    /// RFC 6191 §2: returns whether the timestamp of a new SYN is later than all timestamps of the old connection.
    pub(crate) fn is_younger(&self, stamps: Timestamps) -> bool {
        self.recent.is_some_and(|(recent, _)| (stamps.value.wrapping_sub(recent) as i32) > 0)
    }

    /// Returns the age in nanoseconds of a timestamp that the peer echoed, or `None` if we did not send this timestamp.
    #[inline]
    pub(crate) fn age(&mut self, now: Instant, echo: u32) -> Option<u64> {
        let ticks = self.clock.read(now).wrapping_sub(echo);
        // An age of half the number space or more means that we did not send the echoed timestamp.
        (ticks < 1 << 31).then(|| u64::from(ticks) * self.clock.tick)
    }
}

impl Clock {
    fn new(offset: u32, tick: u64) -> Self {
        Self { offset, tick, reading: offset, since: 0 }
    }

    #[inline]
    fn read(&mut self, now: Instant) -> u32 {
        // Computes the timestamp again if the tick of the last timestamp is over. If `now` is before `since`, the
        // difference wraps to a large number, so the timestamp is computed again as well.
        if now.as_nanos().wrapping_sub(self.since) >= self.tick {
            let ticks = now.as_nanos() / self.tick;
            self.since = ticks * self.tick;
            self.reading = (ticks as u32).wrapping_add(self.offset);
        }
        self.reading
    }
}

/// Returns the smallest shift with which the 16-bit window field can express the whole buffer.
fn shift_for(buffer: u64) -> u8 {
    (0..MAX_SHIFT).find(|&shift| buffer >> shift <= u64::from(u16::MAX)).unwrap_or(MAX_SHIFT)
}
