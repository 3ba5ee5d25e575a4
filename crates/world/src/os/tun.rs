//! A TUN device: whole IP packets, to and from the kernel's network stack.
//!
//! What the kernel routes to the device is read here, and what is written here
//! arrives at the kernel as if from a network. It takes `/dev/net/tun` and the
//! right to administer the network namespace; the device goes when this does.

use super::descriptor;
use rustix::fs::{Mode, OFlags};
use std::io;
use std::os::fd::OwnedFd;
use std::task::{Context, Poll, ready};
use tokio::io::unix::AsyncFd;

/// A TUN device.
#[derive(Debug)]
pub struct Tun {
    name: String,
    descriptor: AsyncFd<OwnedFd>,
}

impl Tun {
    /// Makes the device `name`, or takes the one of this name that nobody holds. It has no address
    /// yet and is down. Inside [`run`](super::run) only.
    ///
    /// # Errors
    /// There is no `/dev/net/tun`, the host does not permit it, the name is taken or none.
    pub fn open(name: &str) -> io::Result<Self> {
        Ok(Self { name: name.to_owned(), descriptor: descriptor::watch(open_tun(name)?)? })
    }

    /// Its name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Reads one IP packet; what does not fit in `into` is lost.
    ///
    /// # Errors
    /// The device is down (`EIO`, once it was up) or gone.
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
    /// `packet` is no IP packet (`EINVAL`), or the device is down (`EIO`).
    pub fn poll_send(&self, cx: &mut Context<'_>, packet: &[u8]) -> Poll<io::Result<()>> {
        loop {
            let mut guard = ready!(self.descriptor.poll_write_ready(cx))?;
            if let Ok(written) = guard.try_io(|device| Ok(rustix::io::write(device, packet)?)) {
                return Poll::Ready(written.map(|_| ()));
            }
        }
    }
}

/// The same as a bare descriptor, for who has an event loop of its own: a packet a read or write, none of which waits.
/// The device is in the network namespace of the calling thread.
///
/// # Errors
/// As [`Tun::open`].
pub fn open_tun(name: &str) -> io::Result<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let opened = rustix::fs::open("/dev/net/tun", flags, Mode::empty())?;
    descriptor::become_tun(&opened, name)?;
    Ok(opened)
}
