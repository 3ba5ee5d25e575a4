//! ICMP reports, which are read from the error queues of sockets.
//!
//! For each ICMP message about a packet of a socket, the kernel queues a report: the beginning of the packet, the
//! packet's target, and the content of the message (`IP_RECVERR`, `IPV6_RECVERR`). Reading the reports needs no
//! privilege.

use super::LARGEST_PACKET;
use anabranch_base::{Icmp, IcmpKind};
use nix::libc;
use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};
use std::collections::VecDeque;
use std::io::IoSliceMut;
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// One ICMP report: its content, the target of the quoted packet, and the beginning of that packet.
#[derive(Clone, Debug)]
pub(super) struct Report {
    pub(super) kind: IcmpKind,
    pub(super) target: SocketAddr,
    pub(super) quoted: Vec<u8>,
}

impl Report {
    /// Converts the report to the form in which an engine receives it, for a packet that was sent from `source`.
    pub(super) fn icmp(&self, source: IpAddr) -> Icmp {
        Icmp { kind: self.kind, source, target: self.target.ip() }
    }
}

/// Moves the reports in the error queue of `socket` to `reports`. Reports beyond a limit are dropped, because ICMP is
/// unreliable anyway. If a packet was too large for this host to send, returns the MTU that it exceeded.
pub(super) fn drain(socket: BorrowedFd<'_>, reports: &mut VecDeque<Report>) -> Option<u32> {
    let mut mtu = None;
    for _ in 0..MOST {
        let mut quote = [0; QUOTE];
        let mut room = nix::cmsg_space!([u8; 128]);
        let mut into = [IoSliceMut::new(&mut quote)];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let Ok(message) = recvmsg::<SockaddrStorage>(socket.as_raw_fd(), &mut into, Some(&mut room), flags)
        else {
            return mtu;
        };
        let length = message.bytes.min(QUOTE);
        let target = message.address.as_ref().and_then(address);
        let mut kind = None;
        for control in message.cmsgs().into_iter().flatten() {
            match control {
                ControlMessageOwned::Ipv4RecvErr(error, _) => {
                    kind = v4(&error);
                    mtu = local(&error).or(mtu);
                }
                ControlMessageOwned::Ipv6RecvErr(error, _) => {
                    kind = v6(&error);
                    mtu = local(&error).or(mtu);
                }
                _ => {}
            }
        }
        if let (Some(kind), Some(target)) = (kind, target)
            && length > 0
            && reports.len() < MOST
        {
            reports.push_back(Report { kind, target, quoted: quote[..length].to_vec() });
        }
    }
    mtu
}

/// Converts a socket address of the kernel to a standard library address.
pub(super) fn address(storage: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = storage.as_sockaddr_in().map(|v4| SocketAddr::new(v4.ip().into(), v4.port()));
    v4.or_else(|| storage.as_sockaddr_in6().map(|v6| SocketAddr::new(v6.ip().into(), v6.port())))
}

/// Returns the MTU that a packet exceeded, if the error says that this host refused to send the packet because of its
/// size.
fn local(error: &libc::sock_extended_err) -> Option<u32> {
    let too_large = error.ee_origin == libc::SO_EE_ORIGIN_LOCAL && error.ee_errno == libc::EMSGSIZE as u32;
    // The MTU of the loopback interface is larger than the largest IP packet, so the reported MTU is limited.
    too_large.then_some(error.ee_info.min(LARGEST_PACKET))
}

fn v4(error: &libc::sock_extended_err) -> Option<IcmpKind> {
    if error.ee_origin != libc::SO_EE_ORIGIN_ICMP || error.ee_type != 3 {
        return None;
    }
    // RFC 1191 §4: an ICMPv4 message with code 4 carries the next hop's MTU.
    Some(if error.ee_code == 4 {
        IcmpKind::TooBig(error.ee_info)
    } else {
        IcmpKind::Unreachable(error.ee_code)
    })
}

fn v6(error: &libc::sock_extended_err) -> Option<IcmpKind> {
    match error.ee_type {
        _ if error.ee_origin != libc::SO_EE_ORIGIN_ICMP6 => None,
        1 => Some(IcmpKind::Unreachable(error.ee_code)),
        2 => Some(IcmpKind::TooBig(error.ee_info)),
        // RFC 4443 §3.4: code 1 is about the next header; the other codes are about header fields and options that this
        // project never sends.
        4 if error.ee_code == 1 => Some(IcmpKind::UnknownNextHeader),
        _ => None,
    }
}

/// The maximum number of reports that wait to be taken.
const MOST: usize = 64;
/// The maximum number of bytes of a packet that a report quotes. They suffice for an engine to find the connection.
const QUOTE: usize = 576;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_the_protocol_says_so_in_either_version() {
        let error = |origin: u8, kind: u8, code: u8| libc::sock_extended_err {
            ee_errno: 0,
            ee_origin: origin,
            ee_type: kind,
            ee_code: code,
            ee_pad: 0,
            ee_info: 6,
            ee_data: 0,
        };
        let (icmp, icmp6) = (libc::SO_EE_ORIGIN_ICMP, libc::SO_EE_ORIGIN_ICMP6);
        assert_eq!(v4(&error(icmp, 3, 2)), Some(IcmpKind::Unreachable(2)));
        assert_eq!(v6(&error(icmp6, 4, 1)), Some(IcmpKind::UnknownNextHeader));
        // These errors are not reported to the engine: ICMPv6 parameter problems with a code other than 1, ICMPv4
        // errors on an IPv6 socket, and errors of the kernel itself.
        for (origin, kind, code) in
            [(icmp6, 4, 0), (icmp6, 4, 2), (icmp, 4, 1), (libc::SO_EE_ORIGIN_LOCAL, 4, 1)]
        {
            assert_eq!(v6(&error(origin, kind, code)), None);
        }
    }
}
