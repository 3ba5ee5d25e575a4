//! TUN devices, over which a program exchanges whole IP packets with the kernel's network stack.
//!
//! A program reads the packets that the kernel routes to the device. Packets that a program writes reach the kernel as
//! if they came from a network. A TUN device needs `/dev/net/tun` and CAP_NET_ADMIN. The kernel deletes the device when
//! its [`Tun`] is dropped.

use super::descriptor;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};
use tokio::io::unix::AsyncFd;

/// A TUN device of this program.
#[derive(Debug)]
pub struct Tun {
    name: String,
    descriptor: AsyncFd<OwnedFd>,
}

impl Tun {
    /// Creates the TUN device `name`, or opens an existing device that no program has open. A new device has no address
    /// and is down. Must be called inside [`run`](super::run).
    ///
    /// # Errors
    /// There is no `/dev/net/tun`, the host does not permit the use of it, or `name` is in use or invalid.
    pub fn open(name: &str) -> io::Result<Self> {
        Ok(Self { name: name.to_owned(), descriptor: descriptor::watch(open_tun(name)?)? })
    }

    /// Returns the name of the device.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads one IP packet into `into` and returns its length. Bytes that do not fit into `into` are lost.
    ///
    /// # Errors
    /// The device was deleted, or it was up and is now down (`EIO`).
    pub fn poll_recv(&self, cx: &mut Context<'_>, into: &mut [u8]) -> Poll<io::Result<usize>> {
        loop {
            let mut guard = ready!(self.descriptor.poll_read_ready(cx))?;
            if let Ok(read) = guard.try_io(|device| Ok(rustix::io::read(device, &mut *into)?)) {
                return Poll::Ready(read);
            }
        }
    }

    /// Writes one IP packet.
    ///
    /// # Errors
    /// `packet` is not an IP packet (`EINVAL`), or the device is down (`EIO`).
    pub fn poll_send(&self, cx: &mut Context<'_>, packet: &[u8]) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.descriptor.poll_write_ready(cx))?;
            if let Ok(written) = guard.try_io(|device| Ok(rustix::io::write(device, packet)?)) {
                return Poll::Ready(written.map(|_| ()));
            }
        }
    }
}

/// Like [`Tun::open`], but returns the bare descriptor, for callers with their own event loop. Each read or write
/// transfers one packet and does not block. The device belongs to the network namespace of the calling thread.
///
/// # Errors
/// The errors of [`Tun::open`].
pub fn open_tun(name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    descriptor::become_tun(&opened, name)?;
    Ok(opened)
}
