//! File descriptors that the event loop watches.
//!
//! The one place of the workspace with `unsafe`.

use rustix::ioctl::Updater;
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

/// Makes an open `/dev/net/tun` the TUN device `name`, whose packets come without a header of its own.
pub(super) fn become_tun(opened: &OwnedFd, name: &str) -> io::Result<()> {
    let mut request = InterfaceRequest { name: [0; 16], flags: IFF_TUN | IFF_NO_PI, rest: [0; 22] };
    // The last byte stays zero: it ends the name.
    let room = request.name.len() - 1;
    if name.is_empty() || name.len() > room {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "no name for an interface"));
    }
    request.name[..name.len()].copy_from_slice(name.as_bytes());
    // SAFETY: TUNSETIFF reads a `struct ifreq`, whose layout `InterfaceRequest` has, and writes one back to the same
    // place, which is ours alone until the call has returned.
    #[expect(unsafe_code, reason = "an ioctl of a driver, which no crate of ours wraps")]
    let done = unsafe {
        rustix::ioctl::ioctl(opened, Updater::<{ TUNSETIFF }, InterfaceRequest>::new(&mut request))
    };
    done.map_err(Into::into)
}

/// `struct ifreq`, of which the driver looks at name and flags.
#[repr(C)]
struct InterfaceRequest {
    name: [u8; 16],
    flags: u16,
    rest: [u8; 22],
}

const TUNSETIFF: rustix::ioctl::Opcode = rustix::ioctl::opcode::write::<std::ffi::c_int>(b'T', 202);
const IFF_TUN: u16 = 0x0001;
const IFF_NO_PI: u16 = 0x1000;
