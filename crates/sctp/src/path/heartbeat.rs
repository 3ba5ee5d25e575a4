//! Decides when to probe a destination, and writes the contents of the probe.
//!
//! Owns the outstanding HEARTBEAT and the format of the heartbeat information: path index, nonce, time. The peer
//! returns the information unchanged. Only the index and the nonce are used.
//!
//! Implements RFC 9260 §8.3.

use super::Path;
use anabranch_base::time::{Duration, nanos};
use anabranch_base::{Instant, Rng};

/// The heartbeat state of a path.
#[derive(Debug, Default)]
pub(crate) struct Heartbeat {
    /// Whether a HEARTBEAT is to be sent with the next call of `poll_transmit`.
    send_pending: bool,
    /// The nonce of the outstanding HEARTBEAT, and the time at which that HEARTBEAT was sent.
    outstanding: Option<(u64, Instant)>,
    /// Whether an error was counted since the HEARTBEAT was sent: the HEARTBEAT was not answered, or a timer of the
    /// path expired.
    error_counted: bool,
}

impl Heartbeat {
    /// If the outstanding HEARTBEAT has this `nonce`, returns its send time and marks it as answered.
    pub(super) fn take_answered(&mut self, nonce: u64) -> Option<Instant> {
        self.outstanding.take_if(|(sent, _)| *sent == nonce).map(|(_, at)| at)
    }

    /// Records that an error of the path was counted.
    pub(super) fn count_silence(&mut self) {
        self.error_counted = true;
    }
}

/// The length of this implementation's heartbeat information in bytes.
pub(crate) const INFO: usize = 20;

/// Builds the heartbeat information of a HEARTBEAT.
pub(crate) fn write_info(path: usize, nonce: u64, now: Instant) -> [u8; INFO] {
    let mut info = [0; INFO];
    info[..4].copy_from_slice(&(path as u32).to_be_bytes());
    info[4..12].copy_from_slice(&nonce.to_be_bytes());
    info[12..].copy_from_slice(&now.as_nanos().to_be_bytes());
    info
}

/// Reads path index and nonce from returned heartbeat information. `None` if the information has another format.
pub(crate) fn read_info(info: &[u8]) -> Option<(usize, u64)> {
    let info: &[u8; INFO] = info.try_into().ok()?;
    let (path, rest) = info.split_first_chunk::<4>()?;
    let (nonce, _) = rest.split_first_chunk::<8>()?;
    Some((u32::from_be_bytes(*path) as usize, u64::from_be_bytes(*nonce)))
}

/// The length in bytes of the heartbeat information of a path MTU probe.
const PROBE_INFO: usize = INFO + 4;

/// RFC 8899 §6.2.1.2: builds the heartbeat information of a HEARTBEAT that probes a packet size.
pub(crate) fn write_probe_info(path: usize, nonce: u64, now: Instant, size: u32) -> [u8; PROBE_INFO] {
    let mut info = [0; PROBE_INFO];
    info[..INFO].copy_from_slice(&write_info(path, nonce, now));
    info[INFO..].copy_from_slice(&size.to_be_bytes());
    info
}

/// Reads path index and nonce from a returned path MTU probe. `None` if the information has another format.
pub(crate) fn read_probe_info(info: &[u8]) -> Option<(usize, u64)> {
    let info: &[u8; PROBE_INFO] = info.try_into().ok()?;
    read_info(&info[..INFO])
}

impl Path {
    /// Requests a HEARTBEAT with the next call of `poll_transmit`.
    pub(crate) fn ask_heartbeat(&mut self) {
        self.heartbeat.send_pending = true;
    }

    /// Like [`ask_heartbeat`](Self::ask_heartbeat), unless a HEARTBEAT is outstanding.
    pub(crate) fn ask_heartbeat_once(&mut self) {
        self.heartbeat.send_pending |= self.heartbeat.outstanding.is_none();
    }

    /// Returns whether a HEARTBEAT is outstanding.
    pub(super) fn awaits_heartbeat_ack(&self) -> bool {
        self.heartbeat.outstanding.is_some()
    }

    /// Cancels a requested HEARTBEAT.
    pub(crate) fn cancel_heartbeat(&mut self) {
        self.heartbeat.send_pending = false;
    }

    /// Returns whether a HEARTBEAT is to be sent.
    #[inline]
    pub(crate) fn wants_heartbeat(&self) -> bool {
        self.heartbeat.send_pending
    }

    /// Records that a HEARTBEAT with this `nonce` was sent.
    pub(crate) fn on_heartbeat_sent(&mut self, now: Instant, nonce: u64) {
        self.heartbeat =
            Heartbeat { send_pending: false, outstanding: Some((nonce, now)), error_counted: false };
        self.last_used = now;
        self.stats.heartbeats_sent += 1;
    }

    /// Returns whether an unanswered HEARTBEAT must not count as an error of the path, because another timer counts the
    /// same silence. While data is in flight, T3-rtx counts it (RFC 9260 §8.3 sends HEARTBEATs only to idle addresses).
    ///
    /// After T3-rtx has expired, no data is in flight, but `error_counted` shows that the silence was already counted.
    /// So a HEARTBEAT on a potentially failed path counts no second error and does not double the RTO again (§6.3.3
    /// E2).
    pub(crate) fn is_silence_known(&self) -> bool {
        self.flight > 0 || self.heartbeat.error_counted
    }

    /// RFC 9260 §8.3: returns the time of the next HEARTBEAT: one heartbeat period, with random jitter, after the path
    /// was last used. Returns `None` if a HEARTBEAT is due now. It is due once the path has been idle for the shortest
    /// possible period: `interval` plus half the RTO.
    pub(crate) fn next_heartbeat(&self, now: Instant, interval: Duration, rng: &mut Rng) -> Option<Instant> {
        let used = self.last_used + interval + self.rto() / 2 > now;
        used.then(|| self.last_used + self.heartbeat_period(interval, rng))
    }

    /// RFC 9260 §8.3: returns HB.interval plus the RTO, with a jitter of +/- 50 % of the RTO.
    pub(crate) fn heartbeat_period(&self, interval: Duration, rng: &mut Rng) -> Duration {
        let rto = nanos(self.rto());
        let jittered = rto / 2 + rng.below(rto.saturating_add(1));
        interval.saturating_add(Duration::from_nanos(jittered))
    }
}
