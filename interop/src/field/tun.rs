//! Lets our TCP run on the same host as the kernel's TCP. Our address is behind a TUN device.
//!
//! The kernel routes packets for our address to the device. Packets that we write to the device reach the kernel as if
//! they came from a network. This module adds and removes the IP header.

use anabranch_base::{RecvBatch, SendBatch};
use anabranch_wire::ip::{Packet, v4};
use anabranch_world::DatagramSocket;
use anabranch_world::os::Tun;
use std::cell::RefCell;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::task::{Context, Poll};

/// A socket for the TCP packets of one address, over a TUN device.
#[derive(Debug)]
pub struct TunSocket {
    device: Tun,
    address: Ipv4Addr,
    mtu: u32,
    buffer: RefCell<Vec<u8>>,
}

impl TunSocket {
    /// Creates a socket that exchanges the packets of `address` over `device`.
    #[must_use]
    pub fn new(device: Tun, address: Ipv4Addr, mtu: u32) -> Self {
        Self { device, address, mtu, buffer: RefCell::new(vec![0; 1 << 16]) }
    }
}

impl DatagramSocket for TunSocket {
    fn poll_send(&self, cx: &mut Context<'_>, batch: &mut SendBatch) -> Poll<io::Result<()>> {
        let (IpAddr::V4(source), IpAddr::V4(target)) = (batch.source.ip(), batch.target.ip()) else {
            batch.clear();
            return Poll::Ready(Ok(()));
        };
        // The batch contains only one packet, because of the limit `max_segments`.
        let mut packet = vec![0; v4::HEADER_LEN];
        v4::Header::new(source, target, TCP, batch.bytes().len() as u16).emit(&mut packet);
        packet.extend_from_slice(batch.bytes());
        match self.device.poll_send(cx, &packet) {
            Poll::Pending => Poll::Pending,
            // If the kernel rejects a packet, the packet counts as lost.
            Poll::Ready(_) => {
                batch.clear();
                Poll::Ready(Ok(()))
            }
        }
    }

    fn poll_recv(&self, cx: &mut Context<'_>, batch: &mut RecvBatch) -> Poll<io::Result<()>> {
        let mut buffer = self.buffer.borrow_mut();
        loop {
            let size = match self.device.poll_recv(cx, &mut buffer) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(size) => size?,
            };
            let Ok(packet) = Packet::parse(&buffer[..size]) else { continue };
            let ours = packet.target == IpAddr::V4(self.address) && packet.protocol == TCP;
            if !ours || packet.payload.is_empty() {
                continue;
            }
            batch.clear();
            batch.put_segments(packet.payload, packet.payload.len());
            (batch.source, batch.target) =
                (SocketAddr::new(packet.source, 0), SocketAddr::new(packet.target, 0));
            return Poll::Ready(Ok(()));
        }
    }

    fn local(&self) -> Vec<SocketAddr> {
        vec![SocketAddr::from((self.address, 0))]
    }

    fn mtu(&self, _source: IpAddr) -> u32 {
        self.mtu
    }

    fn max_segments(&self) -> usize {
        1
    }
}

const TCP: u8 = 6;
