//! The wall clock.

use std::time::SystemTime;

/// Returns the current wall-clock time.
#[expect(clippy::disallowed_methods, reason = "dates on the wire and in the log are the wall clock's")]
pub fn now() -> SystemTime {
    SystemTime::now()
}
