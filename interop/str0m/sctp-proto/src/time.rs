//! The engine's time, which counts from an instant of its own, beside that of the standard library.

use anabranch_base::Instant;
use std::sync::OnceLock;
use std::time::{Duration, Instant as StdInstant};

/// Where the engine's time begins: before anything that a program may hand in.
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

/// The time of whoever has none to hand in.
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
