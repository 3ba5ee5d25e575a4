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
    pub(crate) wanted: bool,
    /// The nonce of the outstanding one and when it was sent.
    pub(crate) outstanding: Option<(u64, Instant)>,
    /// Since it was sent the path has been found silent once more, by this one or by a timer of what is sent there.
    pub(crate) counted: bool,
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
    /// RFC 9260 §8.3: RTO plus HB.interval, jittered by half an RTO either way.
    pub(crate) fn heartbeat_period(&self, interval: Duration, rng: &mut Rng) -> Duration {
        let rto = nanos(self.rto());
        let jittered = rto / 2 + rng.below(rto.saturating_add(1));
        interval.saturating_add(Duration::from_nanos(jittered))
    }
}
