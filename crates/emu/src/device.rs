//! The devices through which packets leave and enter a namespace: TUN, or pairs of Ethernet interfaces if there is no
//! TUN.
//!
//! In each pair of Ethernet interfaces, the inner interface is in the namespace. The emulator reads and writes the
//! outer interface through a packet socket. No address resolution takes place: ARP is off at the namespace's interface,
//! and frames into the namespace carry that interface's hardware address. The namespace's kernel leaves checksums to
//! the hardware. Since there is no hardware, this module completes the checksums.

use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_wire::checksum::Checksum;
use anabranch_wire::ip::{self, protocol};
use anabranch_world::os::PacketSocket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// The number of free bytes in front of each packet: the size of an Ethernet header.
pub const HEADROOM: usize = 14;

/// The device at one end of a path.
#[derive(Debug)]
pub enum Device {
    /// A TUN interface.
    Tun(OwnedFd),
    /// A pair of Ethernet interfaces: a packet socket on the outer interface, and the hardware address of the inner
    /// interface, which is in the namespace.
    Ethernet(PacketSocket, [u8; 6]),
}

/// The kind of device that the user has chosen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum DeviceKind {
    /// TUN if a TUN device can be opened, otherwise Ethernet.
    #[default]
    Auto,
    /// TUN.
    Tun,
    /// Ethernet.
    Veth,
}

impl Device {
    /// Reads the next packet into `scratch`. Returns `None` if the frame contains no IP packet.
    ///
    /// # Errors
    /// `WouldBlock` if no packet has arrived; otherwise the error of the device.
    pub fn read<'a>(&self, scratch: &'a mut [u8]) -> io::Result<Option<&'a [u8]>> {
        match self {
            Self::Tun(tun) => {
                let length = rustix::io::read(tun, &mut *scratch)?;
                Ok(Some(&scratch[..length.min(scratch.len())]))
            }
            Self::Ethernet(socket, _) => {
                let length = socket.read(scratch)?;
                let frame = &mut scratch[..length];
                let Some((header, packet)) = frame.split_at_mut_checked(HEADROOM) else { return Ok(None) };
                if ![IPV4, IPV6].contains(&[header[12], header[13]]) {
                    return Ok(None);
                }
                finish_checksum(packet);
                Ok(Some(packet))
            }
        }
    }

    /// Hands a packet to the kernel. The packet follows [`HEADROOM`] bytes of headroom.
    ///
    /// # Errors
    /// The kernel refuses the packet, or has no room for it at present.
    pub fn write(&self, with_headroom: &mut [u8]) -> io::Result<()> {
        match self {
            Self::Tun(tun) => Ok(rustix::io::write(tun, &with_headroom[HEADROOM..]).map(drop)?),
            Self::Ethernet(socket, address) => {
                let version =
                    if with_headroom.get(HEADROOM).is_some_and(|byte| byte >> 4 == 6) { IPV6 } else { IPV4 };
                with_headroom[..6].copy_from_slice(address);
                with_headroom[6..12].copy_from_slice(&LINK_ADDRESS);
                with_headroom[12..14].copy_from_slice(&version);
                socket.write(with_headroom)
            }
        }
    }
}

impl AsFd for Device {
    fn as_fd(&self) -> BorrowedFd<'_> {
        match self {
            Self::Tun(tun) => tun.as_fd(),
            Self::Ethernet(socket, _) => socket.as_fd(),
        }
    }
}

/// A clock of real time that starts at zero.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begin: std::time::Instant,
}

impl Clock {
    /// Creates a clock that starts now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "an emulated link lives in real time")]
    pub fn begin() -> Self {
        Self { begin: std::time::Instant::now() }
    }

    /// Creates a clock that starts after `span`. Until then the clock shows zero.
    #[must_use]
    pub fn begin_in(span: Duration) -> Self {
        Self { begin: Self::begin().begin + span }
    }

    /// Returns the time until the clock starts.
    #[must_use]
    pub fn ahead(&self) -> Duration {
        self.begin.saturating_duration_since(Self::begin().begin)
    }

    /// Returns the time since the clock started.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(anabranch_base::time::nanos(self.begin.elapsed()))
    }
}

/// Completes the checksum of a TCP or UDP packet. With hardware checksum offload, the kernel writes only the sum of the
/// pseudo-header into the checksum field. A complete checksum, correct or wrong, is not changed.
fn finish_checksum(packet: &mut [u8]) {
    let Ok(seen) = ip::Packet::parse_quoted(packet) else { return };
    let at = match seen.protocol {
        _ if seen.fragment.is_some() => return,
        protocol::TCP => 16,
        protocol::UDP => 6,
        _ => return,
    };
    let (start, end) = (seen.header_len, seen.header_len + seen.payload.len());
    let pseudo = Checksum::pseudo_header(seen.source, seen.target, seen.protocol, seen.payload.len() as u32);
    let (Some(pseudo), Some(field)) = (pseudo, seen.payload.get(at..at + 2)) else { return };
    // A partial checksum is the sum of the pseudo-header, not complemented. `finish` returns the complement.
    if field != (!pseudo.finish()).to_be_bytes() {
        return;
    }
    packet[start + at..start + at + 2].fill(0);
    let mut sum = pseudo;
    sum.add(&packet[start..end]);
    let checksum = match sum.finish() {
        // RFC 768: a checksum of 0 is sent as 0xffff, because 0 means that the packet has no checksum.
        0 if is_udp_checksum(at) => 0xffff,
        sum => sum,
    };
    packet[start + at..start + at + 2].copy_from_slice(&checksum.to_be_bytes());
}

const fn is_udp_checksum(checksum_at: usize) -> bool {
    checksum_at == 6
}

/// The source address of the frames that the emulator sends: a locally administered address.
const LINK_ADDRESS: [u8; 6] = [0x02, 0x61, 0x62, 0, 0, 0];
const IPV4: [u8; 2] = [0x08, 0x00];
const IPV6: [u8; 2] = [0x86, 0xdd];

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_wire::{ip::v4, udp};
    use std::net::{IpAddr, Ipv4Addr};

    const SOURCE: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);
    const TARGET: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 2);

    fn datagram(checksum: [u8; 2]) -> Vec<u8> {
        let mut packet = vec![0; 20];
        packet.extend_from_slice(&[0x12, 0x34, 0, 80, 0, 13, checksum[0], checksum[1]]);
        packet.extend_from_slice(b"hello");
        v4::Header::new(SOURCE, TARGET, protocol::UDP, 13).emit(&mut packet);
        packet
    }

    #[test]
    fn a_checksum_left_to_hardware_is_finished() {
        let pseudo = Checksum::pseudo_header_v4(SOURCE, TARGET, protocol::UDP, 13);
        let mut packet = datagram((!pseudo.finish()).to_be_bytes());
        finish_checksum(&mut packet);
        let (source, target) = (IpAddr::from(SOURCE), IpAddr::from(TARGET));
        assert!(udp::Datagram::parse(&packet[20..], source, target).is_ok());
        let whole = packet.clone();
        finish_checksum(&mut packet);
        assert_eq!(packet, whole, "a finished one stays");
    }

    #[test]
    fn a_wrong_checksum_stays_wrong() {
        let mut packet = datagram([0xbe, 0xef]);
        let before = packet.clone();
        finish_checksum(&mut packet);
        assert_eq!(packet, before);
        // A packet that is truncated anywhere must not cause a panic.
        for length in 0..packet.len() {
            finish_checksum(&mut packet.clone()[..length]);
        }
    }
}
