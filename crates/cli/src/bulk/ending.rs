//! The end of a `bulk` client or server: signals, and the maximum time for closing the sessions.

use crate::{Failure, watchdog};
use anabranch_world::os::Signals;
use std::time::Duration;

/// Installs the handlers for the signals that end a client or a server.
pub(super) fn signals() -> Result<Signals, Failure> {
    let signals = Signals::new().map_err(|error| Failure::Host(format!("no signals: {error}")))?;
    watchdog::start(CLOSING, 130)?;
    Ok(signals)
}

/// The maximum time to wait until all sessions are closed.
pub(super) const CLOSING: Duration = Duration::from_secs(2);
