//! Conversions between the engine's time, which counts from a fixed instant, and the standard library's.

use anabranch_base::Instant;
use std::sync::OnceLock;
use std::time::{Duration, Instant as StdInstant};

/// Returns the start of the engine's time: one hour before the first call, earlier than any time of a caller.
fn epoch() -> StdInstant {
    static EPOCH: OnceLock<StdInstant> = OnceLock::new();
    *EPOCH.get_or_init(|| {
        let now = present();
        now.checked_sub(Duration::from_secs(3_600)).unwrap_or(now)
    })
}

#[expect(
    clippy::disallowed_methods,
    reason = "sctp-proto has no argument for it where an association begins"
)]
fn present() -> StdInstant {
    StdInstant::now()
}

/// Returns the current time, for calls that get no time as an argument.
pub(crate) fn now() -> Instant {
    to_engine(present())
}

pub(crate) fn to_engine(at: StdInstant) -> Instant {
    let nanos = at.saturating_duration_since(epoch()).as_nanos();
    Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX / 2))
}

pub(crate) fn to_std(at: Instant) -> StdInstant {
    epoch() + Duration::from_nanos(at.as_nanos())
}
