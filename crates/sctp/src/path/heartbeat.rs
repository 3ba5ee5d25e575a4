//! When to probe a destination, and what a probe says.
//!
//! Owns the HEARTBEAT that is outstanding and the form of its information:
//! path index, nonce, time. The receiver returns it unchanged; only the index
//! and the nonce are believed.
//!
//! Home of RFC 9260 §8.3.

use super::Path;
use anabranch_base::time::{Duration, nanos};
use anabranch_base::{Instant, Rng};

/// Heartbeat state of a path.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    /// A HEARTBEAT is to be sent with the next poll.
    wanted: bool,
    /// The nonce of the outstanding one and when it was sent.
    outstanding: Option<(u64, Instant)>,
    /// Since it was sent the path has been found silent once more, by this one or by a timer of what is sent there.
    counted: bool,
}

impl Heartbeat {
    /// When the outstanding one was sent, if `nonce` is its: it is answered.
    pub(super) fn take_answered(&mut self, nonce: u64) -> Option<Instant> {
        self.outstanding.take_if(|(sent, _)| *sent == nonce).map(|(_, at)| at)
    }

    /// The path has been found silent.
    pub(super) fn count_silence(&mut self) {
        self.counted = true;
    }
}

/// Bytes of our heartbeat information.
pub(crate) const INFO: usize = 20;

/// The information of a HEARTBEAT.
pub(crate) fn write_info(path: usize, nonce: u64, now: Instant) -> [u8; INFO] {
    let mut info = [0; INFO];
    info[..4].copy_from_slice(&(path as u32).to_be_bytes());
    info[4..12].copy_from_slice(&nonce.to_be_bytes());
    info[12..].copy_from_slice(&now.as_nanos().to_be_bytes());
    info
}

/// Path index and nonce of a returned information, if it has our form.
pub(crate) fn read_info(info: &[u8]) -> Option<(usize, u64)> {
    let info: &[u8; INFO] = info.try_into().ok()?;
    let (path, rest) = info.split_first_chunk::<4>()?;
    let (nonce, _) = rest.split_first_chunk::<8>()?;
    Some((u32::from_be_bytes(*path) as usize, u64::from_be_bytes(*nonce)))
}

/// Bytes of the heartbeat information of a probe of the path MTU.
const PROBE_INFO: usize = INFO + 4;

/// RFC 8899 §6.2.1.2: the information of a HEARTBEAT that probes a size.
pub(crate) fn write_probe_info(path: usize, nonce: u64, now: Instant, size: u32) -> [u8; PROBE_INFO] {
    let mut info = [0; PROBE_INFO];
    info[..INFO].copy_from_slice(&write_info(path, nonce, now));
    info[INFO..].copy_from_slice(&size.to_be_bytes());
    info
}

/// Path index and nonce of a returned probe, if it has our form.
pub(crate) fn read_probe_info(info: &[u8]) -> Option<(usize, u64)> {
    let info: &[u8; PROBE_INFO] = info.try_into().ok()?;
    read_info(&info[..INFO])
}

impl Path {
    /// A HEARTBEAT is to be sent with the next poll.
    pub(crate) fn ask_heartbeat(&mut self) {
        self.heartbeat.wanted = true;
    }

    /// As [`ask_heartbeat`](Self::ask_heartbeat), unless one has not been answered yet.
    pub(crate) fn ask_heartbeat_once(&mut self) {
        self.heartbeat.wanted |= self.heartbeat.outstanding.is_none();
    }

    /// No HEARTBEAT is to be sent.
    pub(crate) fn cancel_heartbeat(&mut self) {
        self.heartbeat.wanted = false;
    }

    /// A HEARTBEAT is to be sent.
    #[inline]
    pub(crate) fn wants_heartbeat(&self) -> bool {
        self.heartbeat.wanted
    }

    /// A HEARTBEAT has been written.
    pub(crate) fn on_heartbeat_sent(&mut self, now: Instant, nonce: u64) {
        self.heartbeat = Heartbeat { wanted: false, outstanding: Some((nonce, now)), counted: false };
        self.last_used = now;
        self.stats.heartbeats_sent += 1;
    }

    /// Data that is sent there tells as much as a HEARTBEAT, and T3-rtx counts for both (RFC 9260 §8.3: a HEARTBEAT asks
    /// of an idle address; §6.3.3 E2: an expiry doubles the RTO once). T3-rtx may have run just before, at this instant.
    pub(crate) fn is_silence_known(&self) -> bool {
        self.flight > 0 || self.heartbeat.counted
    }

    /// RFC 9260 §8.3: when the path will have been idle for the interval, if it has been used meanwhile.
    pub(crate) fn next_heartbeat(&self, now: Instant, interval: Duration, rng: &mut Rng) -> Option<Instant> {
        let used = self.last_used + interval + self.rto() / 2 > now;
        used.then(|| self.last_used + self.heartbeat_period(interval, rng))
    }

    /// RFC 9260 §8.3: RTO plus HB.interval, jittered by half an RTO either way.
    pub(crate) fn heartbeat_period(&self, interval: Duration, rng: &mut Rng) -> Duration {
        let rto = nanos(self.rto());
        let jittered = rto / 2 + rng.below(rto.saturating_add(1));
        interval.saturating_add(Duration::from_nanos(jittered))
    }
}
