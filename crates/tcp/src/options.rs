//! What both sides agreed on in the handshake, and the timestamps that follow.
//!
//! Home of RFC 7323 §2 (window scale), §3 to §5 (timestamps, PAWS), RFC 2018
//! §2, RFC 3168 §6.1.1 (negotiation).

use crate::config::Config;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_wire::tcp::{Flags, Header, Options, Timestamps};

/// The outcome of the handshake; before it, what we offer.
#[derive(Debug)]
pub(crate) struct Agreed {
    pub(crate) sack: bool,
    pub(crate) ecn: bool,
    pub(crate) timestamps: bool,
    /// Shift of the peer's window fields.
    pub(crate) peer_shift: u8,
    /// Shift of ours.
    pub(crate) own_shift: u8,
    /// Both sides sent the window scale option.
    scales: bool,
    clock: Clock,
    /// TS.Recent and when it was taken, once known.
    recent: Option<(u32, Instant)>,
}

/// The clock behind the timestamps.
#[derive(Clone, Copy, Debug)]
struct Clock {
    offset: u32,
    tick: u64,
    /// The last reading, and when its tick began: a tick lasts for many segments.
    reading: u32,
    since: u64,
}

/// RFC 7323 §2.3: no shift above this.
const MAX_SHIFT: u8 = 14;
/// RFC 7323 §5.5: a timestamp that old says nothing any more.
const STALE: Duration = Duration::from_secs(24 * 86_400);

impl Agreed {
    /// What we offer, as the one that begins.
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

    /// The peer's SYN or SYN-ACK has arrived: what both offer is agreed on.
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
        // RFC 3168 §6.1.1: a SYN sets both bits, its answer ECE alone.
        let asked = if syn.flags.has(Flags::ACK) {
            syn.flags.has(Flags::ECE) && !syn.flags.has(Flags::CWR)
        } else {
            syn.flags.has(Flags::ECE.with(Flags::CWR))
        };
        self.ecn &= asked;
    }

    /// The options of our SYN (`answer`: SYN-ACK, which offers only what was asked for).
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

    /// The timestamp option of a segment sent now.
    #[inline]
    pub(crate) fn stamps(&mut self, now: Instant) -> Option<Timestamps> {
        self.timestamps.then(|| Timestamps {
            value: self.clock.read(now),
            echo: self.recent.map_or(0, |(value, _)| value),
        })
    }

    /// Bytes that options take from every data segment.
    #[inline]
    pub(crate) fn overhead(&self) -> u64 {
        if self.timestamps { 12 } else { 0 }
    }

    /// RFC 7323 §5.3 R1: the segment is older than one seen before.
    #[inline]
    pub(crate) fn is_outdated(&self, now: Instant, stamps: Timestamps) -> bool {
        match self.recent {
            Some((recent, at)) => (stamps.value.wrapping_sub(recent) as i32) < 0 && now.since(at) < STALE,
            None => false,
        }
    }

    /// RFC 7323 §4.3: remembers the stamp of a segment that covers what was acknowledged last.
    #[inline]
    pub(crate) fn remember(&mut self, now: Instant, stamps: Timestamps) {
        if !self.is_outdated(now, stamps) {
            self.renew(now, stamps);
        }
    }

    /// The same for a stamp that is known not to be outdated.
    #[inline]
    pub(crate) fn renew(&mut self, now: Instant, stamps: Timestamps) {
        self.recent = Some((stamps.value, now));
    }

    /// RFC 6191 §2: a new SYN is younger than everything of the old connection.
    pub(crate) fn is_younger(&self, stamps: Timestamps) -> bool {
        self.recent.is_some_and(|(recent, _)| (stamps.value.wrapping_sub(recent) as i32) > 0)
    }

    /// How long ago we sent the stamp that comes back, in nanoseconds.
    #[inline]
    pub(crate) fn age(&mut self, now: Instant, echo: u32) -> Option<u64> {
        let ticks = self.clock.read(now).wrapping_sub(echo);
        // Half the space away is no echo of ours.
        (ticks < 1 << 31).then(|| u64::from(ticks) * self.clock.tick)
    }
}

impl Clock {
    fn new(offset: u32, tick: u64) -> Self {
        Self { offset, tick, reading: offset, since: 0 }
    }

    #[inline]
    fn read(&mut self, now: Instant) -> u32 {
        // An earlier time wraps to something large.
        if now.as_nanos().wrapping_sub(self.since) >= self.tick {
            let ticks = now.as_nanos() / self.tick;
            self.since = ticks * self.tick;
            self.reading = (ticks as u32).wrapping_add(self.offset);
        }
        self.reading
    }
}

/// The smallest shift with which the field can tell the whole buffer.
fn shift_for(buffer: u64) -> u8 {
    (0..MAX_SHIFT).find(|&shift| buffer >> shift <= u64::from(u16::MAX)).unwrap_or(MAX_SHIFT)
}
