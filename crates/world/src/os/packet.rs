//! Packet sockets, which read and write the frames of one interface and bypass the kernel's IP (packet(7)).
//!
//! These sockets are for hosts without TUN. Every frame that the interface receives is read with its Ethernet header,
//! and frames are sent unchanged.

use nix::ifaddrs::getifaddrs;
use nix::sys::socket::{AddressFamily, SockFlag, SockProtocol, SockType, bind, socket};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

/// A socket that receives all frames of one interface.
#[derive(Debug)]
pub struct PacketSocket {
    descriptor: OwnedFd,
}

impl PacketSocket {
    /// Opens the interface `name` in the calling thread's network namespace.
    ///
    /// # Errors
    /// `NotFound` if there is no such interface, `PermissionDenied` without CAP_NET_RAW.
    pub fn bind(name: &str) -> io::Result<Self> {
        let found = getifaddrs()?
            .filter(|interface| interface.interface_name == name)
            .find_map(|interface| interface.address?.as_link_addr().copied());
        let Some(address) = found else {
            return Err(io::Error::new(io::ErrorKind::NotFound, format!("there is no interface {name}")));
        };
        let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
        let descriptor = socket(AddressFamily::Packet, SockType::Raw, flags, SockProtocol::EthAll)?;
        // The address contains no protocol number, so the socket keeps the protocol with which it was created (all
        // protocols).
        bind(descriptor.as_raw_fd(), &address)?;
        // The socket's buffers are the queue in front of the link, so large sizes are requested. The kernel reduces
        // them to the host's maximum.
        let _ = socket2::SockRef::from(&descriptor).set_recv_buffer_size(SOCKET_BUFFER);
        let _ = socket2::SockRef::from(&descriptor).set_send_buffer_size(SOCKET_BUFFER);
        Ok(Self { descriptor })
    }

    /// Reads the next frame into `into` and returns the frame's length in bytes.
    ///
    /// # Errors
    /// `WouldBlock` if no frame has arrived; otherwise the error of the interface, for example because it is down.
    pub fn read(&self, into: &mut [u8]) -> io::Result<usize> {
        Ok(rustix::io::read(&self.descriptor, into)?)
    }

    /// Sends one frame, which starts with its Ethernet header.
    ///
    /// # Errors
    /// `WouldBlock` if the socket's buffer is full; otherwise the error of the interface.
    pub fn write(&self, frame: &[u8]) -> io::Result<()> {
        rustix::io::write(&self.descriptor, frame)?;
        Ok(())
    }
}

impl AsFd for PacketSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.descriptor.as_fd()
    }
}

const SOCKET_BUFFER: usize = 8 << 20;
