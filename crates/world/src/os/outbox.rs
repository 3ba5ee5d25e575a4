//! Queues packets, to send several of them in one call.
//!
//! An endpoint with many associations often has only one or two packets to send for each of them. Packets with the same
//! source, target, ECN mark and size are joined to a *train*, which one call sends (GSO). One `sendmmsg` sends the
//! remaining single packets together. Packets of one lane ([`SendBatch::lane`]) keep their order.

use anabranch_base::{Ecn, SendBatch};
use nix::libc;
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg};
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::{AsRawFd, BorrowedFd};

/// The queue of packets to send, grouped into trains in the order of sending.
#[derive(Debug, Default)]
pub(super) struct Outbox {
    trains: Vec<Train>,
    /// The number of entries at the front of `trains` that have been sent.
    sent_trains: usize,
    packets: usize,
    /// For each lane, the index of the train with the lane's last packet, plus 1. The value is 0 if no train has
    /// packets of the lane. The entry of a lane is at the lane's number modulo `LANES`.
    latest: [u8; LANES],
    /// Buffers of sent trains, kept for reuse.
    spare: Vec<Vec<u8>>,
}

/// Packets with the same source, target, ECN mark and size, for one GSO call. The last packet may be shorter.
#[derive(Debug)]
pub(super) struct Train {
    pub(super) source: IpAddr,
    pub(super) target: SocketAddr,
    pub(super) ecn: Ecn,
    pub(super) stride: usize,
    pub(super) bytes: Vec<u8>,
}

impl Outbox {
    /// Returns whether copying `batch` into the queue is worthwhile. A large batch is sent with a separate system call.
    pub(super) fn is_worth_queuing(batch: &SendBatch) -> bool {
        !batch.may_fragment && batch.bytes().len() <= MAX_KEPT
    }

    /// Returns whether the queue has no room for another batch.
    pub(super) fn is_full(&self) -> bool {
        self.packets >= MAX_PACKETS || self.trains.len() >= MAX_TRAINS
    }

    /// Copies `batch` into a train of at most `max_train_packets` packets.
    pub(super) fn put(&mut self, batch: &SendBatch, max_train_packets: usize) {
        let (bytes, stride) = (batch.bytes(), batch.stride());
        self.packets += batch.len();
        let lane = batch.lane as usize % LANES;
        // Packets of one lane must stay in order. So the batch must not join a train before the train with the lane's
        // latest packet. The batch must not join a train that has been sent either.
        let from = usize::from(self.latest[lane]).saturating_sub(1).max(self.sent_trains);
        let fits = |train: &Train| {
            train.stride == stride
                && train.target == batch.target
                && train.source == batch.source.ip()
                && train.ecn == batch.ecn
                && train.bytes.len().is_multiple_of(stride)
                && train.bytes.len() + bytes.len() <= (max_train_packets * stride).min(LONGEST)
        };
        let found = self.trains[from..].iter().position(fits).map(|index| from + index);
        let index = found.unwrap_or_else(|| {
            let (source, target, ecn) = (batch.source.ip(), batch.target, batch.ecn);
            let bytes = self.spare.pop().unwrap_or_default();
            self.trains.push(Train { source, target, ecn, stride, bytes });
            self.trains.len() - 1
        });
        self.trains[index].bytes.extend_from_slice(bytes);
        self.latest[lane] = (index + 1) as u8;
    }

    /// Returns the trains that have not been sent yet.
    pub(super) fn waiting(&self) -> &[Train] {
        &self.trains[self.sent_trains..]
    }

    /// Removes the first `count` waiting trains, which were sent or lost. When no train waits any more, all buffers are
    /// kept for later trains.
    pub(super) fn leave(&mut self, count: usize) {
        self.sent_trains += count;
        if self.sent_trains < self.trains.len() {
            return;
        }
        self.spare.extend(self.trains.drain(..).map(|mut train| {
            train.bytes.clear();
            train.bytes
        }));
        (self.sent_trains, self.packets) = (0, 0);
        self.latest = [0; LANES];
    }
}

/// Sends packets with the same source and ECN mark, each to its own target, in one call. Returns the number of packets
/// sent.
pub(super) fn send_many(
    socket: BorrowedFd<'_>,
    source: Option<IpAddr>,
    ecn: Ecn,
    packets: &[(&[u8], SocketAddr)],
) -> io::Result<usize> {
    let v4 = packets.first().is_some_and(|(_, target)| target.is_ipv4());
    let parts: Vec<_> = packets.iter().map(|(packet, _)| [IoSlice::new(packet)]).collect();
    let to: Vec<_> = packets.iter().map(|(_, target)| Some(SockaddrStorage::from(*target))).collect();
    let (mark, class) = (ecn as u8, i32::from(ecn as u8));
    // The kernel rejects a buffer for control messages that is larger than its content.
    let send = |controls: &[ControlMessage<'_>], room: Vec<u8>| {
        let mut headers = MultiHeaders::preallocate(packets.len(), Some(room));
        let sent = sendmmsg(socket.as_raw_fd(), &mut headers, &parts, &to, controls, MsgFlags::MSG_DONTWAIT)?;
        Ok(sent.count())
    };
    match source {
        None if v4 => send(&[ControlMessage::Ipv4Tos(&mark)], nix::cmsg_space!(u8)),
        None => send(&[ControlMessage::Ipv6TClass(&class)], nix::cmsg_space!(i32)),
        Some(IpAddr::V4(source)) => {
            let info = libc::in_pktinfo {
                ipi_ifindex: 0,
                ipi_spec_dst: libc::in_addr { s_addr: u32::from_ne_bytes(source.octets()) },
                ipi_addr: libc::in_addr { s_addr: 0 },
            };
            let controls = [ControlMessage::Ipv4PacketInfo(&info), ControlMessage::Ipv4Tos(&mark)];
            send(&controls, nix::cmsg_space!(libc::in_pktinfo, u8))
        }
        Some(IpAddr::V6(source)) => {
            let address = libc::in6_addr { s6_addr: source.octets() };
            let info = libc::in6_pktinfo { ipi6_addr: address, ipi6_ifindex: 0 };
            let controls = [ControlMessage::Ipv6PacketInfo(&info), ControlMessage::Ipv6TClass(&class)];
            send(&controls, nix::cmsg_space!(libc::in6_pktinfo, i32))
        }
    }
}

/// The maximum size in bytes of a batch that is queued. Copying such a batch costs less than a separate system call.
const MAX_KEPT: usize = 4096;
const MAX_PACKETS: usize = 256;
/// The maximum number of trains, which are runs of packets that one system call sends. The index of a train must fit in
/// `latest`.
const MAX_TRAINS: usize = 64;
const LANES: usize = 32;
/// The maximum number of bytes of a train: one call carries at most the payload of one UDP packet.
const LONGEST: usize = 65_535 - 48;

#[cfg(test)]
mod tests {
    use super::*;

    fn batch(lane: u32, port: u16, packets: &[&[u8]]) -> SendBatch {
        let mut batch = SendBatch::new(64);
        (batch.source, batch.target) = (([10, 0, 0, 1], 9899).into(), ([10, 0, 0, 2], port).into());
        batch.lane = lane;
        for packet in packets {
            batch.push(packet);
        }
        batch
    }

    fn trains(outbox: &Outbox) -> Vec<(u16, Vec<u8>)> {
        outbox.waiting().iter().map(|train| (train.target.port(), train.bytes.clone())).collect()
    }

    #[test]
    fn packets_of_one_size_and_target_travel_together() {
        let mut outbox = Outbox::default();
        outbox.put(&batch(1, 7, &[b"aa"]), 64);
        outbox.put(&batch(1, 7, &[b"aaa"]), 64);
        outbox.put(&batch(2, 7, &[b"bb"]), 64);
        outbox.put(&batch(2, 8, &[b"bbb"]), 64);
        outbox.put(&batch(3, 7, &[b"cc", b"c"]), 64);
        // The train `aabbccc` consists of the packets `aa`, `bb`, `cc` and `c`. No packet can be appended to the train,
        // because its last packet is shorter than the others.
        outbox.put(&batch(4, 7, &[b"dd"]), 64);
        let expected: [(u16, &[u8]); 4] = [(7, b"aabbccc"), (7, b"aaa"), (8, b"bbb"), (7, b"dd")];
        assert!(trains(&outbox).iter().map(|(port, bytes)| (*port, &bytes[..])).eq(expected));
        outbox.leave(1);
        assert_eq!(outbox.waiting().len(), 3);
        // The packet `ee` has the size and the target of the train `dd`, so it is appended to that train.
        outbox.put(&batch(9, 7, &[b"ee"]), 64);
        assert_eq!(trains(&outbox)[2], (7, b"ddee".to_vec()));
        outbox.leave(3);
        assert!(outbox.waiting().is_empty() && !outbox.is_full());
    }

    #[test]
    fn a_lane_keeps_its_order() {
        let mut outbox = Outbox::default();
        for packet in [&b"11"[..], b"222", b"33", b"44", b"555"] {
            outbox.put(&batch(5, 7, &[packet]), 64);
        }
        let in_order: Vec<u8> = trains(&outbox).into_iter().flat_map(|(_, bytes)| bytes).collect();
        assert_eq!(in_order, b"112223344555");
        // If a train has at most two packets, five packets need three trains.
        outbox.leave(4);
        for lane in 0..5 {
            outbox.put(&batch(lane, 7, &[b"zz"]), 2);
        }
        assert_eq!(trains(&outbox), [(7, b"zzzz".to_vec()), (7, b"zzzz".to_vec()), (7, b"zz".to_vec())]);
    }
}
