//! How packets get out of a namespace and into it: TUN, or Ethernet frames where there is no TUN.
//!
//! Of a pair of Ethernet interfaces one end is the namespace's, the other is
//! read and written through a packet socket. Nobody asks for addresses there:
//! the namespace's end resolves nothing (its neighbour discovery is off), and
//! frames into the namespace are addressed to it. Its kernel believes in hardware
//! that finishes checksums, and there is none: that is done here.

use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_wire::checksum::Checksum;
use anabranch_wire::ip::{self, protocol};
use anabranch_world::os::PacketSocket;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Room before each packet: an Ethernet header.
pub const HEADROOM: usize = 14;

/// One end of a path.
#[derive(Debug)]
pub enum Device {
    /// A TUN interface.
    Tun(OwnedFd),
    /// The outer one of a pair of Ethernet interfaces, and the address of the inner one.
    Ethernet(PacketSocket, [u8; 6]),
}

/// Which devices to use.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Choice {
    /// TUN where it opens, else Ethernet.
    #[default]
    Auto,
    /// TUN.
    Tun,
    /// Ethernet.
    Veth,
}

impl Device {
    /// The next packet, found in `scratch`; `None`: a frame that is none.
    ///
    /// # Errors
    /// `WouldBlock` when there is none.
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

    /// Puts a packet, which follows [`HEADROOM`] bytes of room, before the kernel.
    ///
    /// # Errors
    /// The kernel refuses it, or has no room now.
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

/// The time on a clock that begins with it.
#[derive(Clone, Copy, Debug)]
pub struct Clock {
    begin: std::time::Instant,
}

impl Clock {
    /// The clock begins now.
    #[must_use]
    #[expect(clippy::disallowed_methods, reason = "an emulated link lives in real time")]
    pub fn begin() -> Self {
        Self { begin: std::time::Instant::now() }
    }

    /// The clock begins so much later; until then it is at its beginning.
    #[must_use]
    pub fn begin_in(span: Duration) -> Self {
        Self { begin: Self::begin().begin + span }
    }

    /// How long it is until it begins.
    #[must_use]
    pub fn ahead(&self) -> Duration {
        self.begin.saturating_duration_since(Self::begin().begin)
    }

    /// The time.
    #[must_use]
    pub fn now(&self) -> Instant {
        Instant::from_nanos(anabranch_base::time::nanos(self.begin.elapsed()))
    }
}

/// Finishes the checksum of a TCP or UDP packet of which the kernel has summed the pseudo-header only, as it does for
/// hardware that would do the rest. A checksum that is finished, or wrong, stays.
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
    // What is left there is the sum itself; a finished checksum is the complement of one.
    if field != (!pseudo.finish()).to_be_bytes() {
        return;
    }
    packet[start + at..start + at + 2].fill(0);
    let mut sum = pseudo;
    sum.add(&packet[start..end]);
    let checksum = match sum.finish() {
        // RFC 768: none at all would be 0.
        0 if seen_is_udp(at) => 0xffff,
        sum => sum,
    };
    packet[start + at..start + at + 2].copy_from_slice(&checksum.to_be_bytes());
}

const fn seen_is_udp(checksum_at: usize) -> bool {
    checksum_at == 6
}

/// The address that frames of ours come from: locally administered, of nobody.
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
        // And what is no packet harms nobody.
        for length in 0..packet.len() {
            finish_checksum(&mut packet.clone()[..length]);
        }
    }
}
