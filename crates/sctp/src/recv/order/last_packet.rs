//! Delivers a message directly from the buffer of its packet. The message is not copied into the receive buffer first.
//!
//! Keeps the buffer of the last packet that the fast path handled, if its message is the first unread message of its
//! stream. If the application reads each message before the next one arrives, the bytes of each message are copied only
//! once: from the packet to the application. Each association keeps one such buffer. While the buffer is in use, other
//! messages are copied twice: into the receive buffer, and from there to the application.

use anabranch_base::{PacketBytes, SharedBytes};
use std::ops::Range;

/// The buffer of a packet whose message is not fully read.
#[derive(Debug, Default)]
pub(super) struct LastPacket {
    /// The buffer of the packet. It stays allocated after the application has read all bytes. When another packet is
    /// kept, the two buffers are exchanged.
    buffer: Vec<u8>,
    /// The message, if it is shared with the sender. It is then used instead of `buffer`.
    shared: SharedBytes,
    /// The index of the first unread byte in `buffer` or `shared`.
    at: u32,
    /// The number of unread bytes.
    left: u32,
    /// The slot of the stream to which the kept message belongs.
    slot: u32,
}

impl LastPacket {
    /// Keeps the buffer of `packet`. Its message is the first unread message of the stream in `slot`, and `payload` is
    /// the range of the message in the packet. Returns false if the buffer cannot be kept or keeping it is not
    /// worthwhile.
    #[inline(always)]
    pub(super) fn keep(&mut self, slot: usize, packet: &mut PacketBytes<'_>, payload: Range<usize>) -> bool {
        if self.left > 0 || payload.len() < MIN_KEPT {
            return false;
        }
        if packet.shared_len() == payload.len()
            && let Some(shared) = packet.take_shared()
        {
            self.shared = shared;
            self.at = 0;
        } else {
            let Some(start) = packet.take_buffer(&mut self.buffer) else { return false };
            self.at = (start + payload.start) as u32;
        }
        self.left = payload.len() as u32;
        self.slot = slot as u32;
        true
    }

    /// Returns this buffer if it has unread bytes of the stream in `slot`.
    #[inline]
    pub(super) fn of(&mut self, slot: usize) -> Option<&mut Self> {
        (self.left > 0 && self.slot as usize == slot).then_some(self)
    }

    /// Reads the next bytes of the message into `out`.
    #[inline]
    pub(super) fn copy(&mut self, out: &mut [u8]) {
        let bytes = if self.shared.is_empty() { self.buffer.as_slice() } else { &self.shared };
        out.copy_from_slice(&bytes[self.at as usize..][..out.len()]);
        self.at += out.len() as u32;
        self.left -= out.len() as u32;
        if self.left == 0 && !self.shared.is_empty() {
            self.shared = SharedBytes::default();
        }
    }

    /// Returns the length of the message if no byte of it has been read and its memory is shared with the sender.
    #[inline]
    pub(super) fn whole_shared_len(&self) -> Option<usize> {
        (self.at == 0 && !self.shared.is_empty()).then_some(self.shared.len())
    }

    /// Reads the whole message without a copy. Its memory must be shared with the sender.
    #[inline]
    pub(super) fn take_shared(&mut self) -> SharedBytes {
        self.left = 0;
        std::mem::take(&mut self.shared)
    }

    /// Returns the number of unread bytes of the message.
    #[inline]
    pub(super) fn left(&self) -> u64 {
        u64::from(self.left)
    }
}

/// The length in bytes of the smallest message whose packet buffer is kept. A shorter message is copied faster than
/// buffers are exchanged.
const MIN_KEPT: usize = 512;

#[cfg(test)]
mod tests {
    use super::super::super::pool::Pool;
    use super::super::{Delivery, Order};
    use anabranch_base::{RecvBatch, Rng};

    /// Each stream returns exactly the bytes that were sent, for every number of bytes per read. This holds for kept
    /// packet buffers as for copied payloads.
    #[test]
    fn kept_or_copied_the_bytes_are_the_same() {
        for seed in 0..100 {
            let mut rng = Rng::new(seed);
            let (mut order, mut pool) = (Order::new(4096, false), Pool::default());
            let mut batch = RecvBatch::new(1);
            let mut sent = [Vec::new(), Vec::new()];
            let mut read = [Vec::new(), Vec::new()];
            let mut numbers = [0_u16; 2];
            let mut kept = 0;
            for _ in 0..200 {
                let stream = rng.below(2) as usize;
                if rng.below(2) == 0 {
                    let payload: Vec<u8> = (0..1 + rng.below(1400)).map(|_| rng.below(256) as u8).collect();
                    let mut bytes = [&[1; 28], &payload[..]].concat();
                    bytes.resize(bytes.len().next_multiple_of(4), 0);
                    batch.put_buffer(&mut bytes, 0);
                    let (ssn, tsn) = (numbers[stream], 0);
                    let to = Delivery { stream: stream as u16, ssn, ppid: 0, tsn, unordered: false };
                    numbers[stream] += 1;
                    let (.., mut packet) = batch.only_owned().expect("one packet");
                    if order.take_next(to, &mut packet, 28..28 + payload.len()).is_none() {
                        order.deliver(to, &payload, &mut pool).expect("in order");
                    } else if batch.is_empty() {
                        kept += 1;
                    }
                    order.newly_readable().clear();
                    sent[stream].extend_from_slice(&payload);
                } else {
                    let mut into = vec![0; rng.below(2000) as usize];
                    while let Some(received) = order.read(stream as u16, &mut into) {
                        read[stream].extend_from_slice(&into[..received.bytes]);
                        if rng.below(3) == 0 || into.is_empty() {
                            break;
                        }
                    }
                }
                let unread: usize = sent.iter().flatten().count() - read.iter().flatten().count();
                assert!(order.held_bytes() >= unread as u64, "seed {seed}");
                assert!((0..2).all(|stream| sent[stream].starts_with(&read[stream])), "seed {seed}");
            }
            for stream in 0..2_u16 {
                let mut into = [0; 100];
                while !order.is_drained(stream) {
                    let received = order.read(stream, &mut into).expect("not dry");
                    read[usize::from(stream)].extend_from_slice(&into[..received.bytes]);
                }
            }
            assert_eq!(sent, read, "seed {seed}");
            assert!(kept > 5, "seed {seed}: {kept}");
        }
    }

    /// Two endpoints exchange messages of one chunk and of many chunks, and read some of them late. The fragments are
    /// copied out of their packets, and all bytes arrive unchanged.
    #[test]
    fn fragments_are_copied() {
        use crate::{Associate, Config, Endpoint, Event, Message};
        use anabranch_base::{Engine, Instant, SendBatch};
        use std::net::SocketAddr;

        let addresses = [1, 2].map(|n| SocketAddr::from(([10, 0, 0, n], 0)));
        let mut ends = addresses.map(|a| Endpoint::new(Config::default(), vec![a], Rng::new(1)));
        let (mut rng, mut now) = (Rng::new(7), Instant::ZERO);
        ends[1].listen(80).expect("free");
        let id = ends[0].associate(now, Associate::to(addresses[1], 80)).expect("begun");
        let (mut sent, mut heard, mut server) = (Vec::new(), Vec::new(), None);
        for turn in 0..400 {
            now += anabranch_base::time::Duration::from_millis(300);
            let length = 1 + rng.below(4000);
            let message: Vec<u8> = (0..length).map(|_| rng.below(256) as u8).collect();
            if turn < 300 && ends[0].send(now, id, Message::default(), &message).is_ok() {
                sent.extend(message);
            }
            for from in [0, 1, 0, 1, 0, 1] {
                ends[from].handle_timeout(now);
                let (mut batch, mut arrived) = (SendBatch::new(1), RecvBatch::new(1));
                while ends[from].poll_transmit(now, &mut batch) {
                    arrived.receive(&mut batch);
                    ends[1 - from].handle_batch(now, &mut arrived);
                }
            }
            while let Some(event) = ends[1].poll_event() {
                if let Event::Accepted { id, .. } = event {
                    server = Some(id);
                }
            }
            if let Some(server) = server
                && (rng.below(2) == 0 || turn > 300)
            {
                let mut into = vec![0; 1 + rng.below(9000) as usize];
                if let Ok((bytes, _)) = ends[1].recv_bytes(now, server, 0, &mut into, |_| true) {
                    heard.extend_from_slice(&into[..bytes]);
                }
            }
        }
        assert!(sent.len() > 100_000, "{}", sent.len());
        assert!(sent == heard, "{} of {}", heard.len(), sent.len());
    }
}
