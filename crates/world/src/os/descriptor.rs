//! File descriptors that the event loop watches.
//!
//! The one place of the workspace with `unsafe`.

use std::io;
use std::os::fd::OwnedFd;
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;

/// Has the event loop watch `descriptor` from here on.
pub(super) fn watch(descriptor: OwnedFd) -> io::Result<AsyncFd<OwnedFd>> {
    let interest = Interest::READABLE | Interest::WRITABLE | Interest::ERROR;
    // SAFETY: what is asked for is that the descriptor be open, and stay the same, for as long as the `AsyncFd`
    // lives. An `OwnedFd` is open until it is dropped, and the `AsyncFd` owns it.
    #[expect(unsafe_code, reason = "tokio has no safe way to register a descriptor it did not open")]
    let watched = unsafe { AsyncFd::register_with_interest(descriptor, interest) };
    watched.map_err(Into::into)
}
