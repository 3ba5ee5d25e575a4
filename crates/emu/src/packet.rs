//! A packet of the operating system in the form that a chain of link elements needs, and the pool of packet buffers.

use crate::device::HEADROOM;
use anabranch_base::{Ecn, Instant, Rng};
use anabranch_link::Carried;
use anabranch_link::corrupt::flip_bits;
use anabranch_wire::ip;

/// A packet on its way through a link: [`HEADROOM`] free bytes, followed by the IP header.
#[derive(Debug)]
pub struct LivePacket {
    buffer: Vec<u8>,
    /// The time at which the packet entered the link.
    pub entered: Instant,
    /// The index of the lane (the pair of devices) to which the packet belongs.
    pub lane: usize,
    /// Whether the link has corrupted the packet.
    pub is_corrupted: bool,
}

impl LivePacket {
    /// Returns the packet, beginning with its IP header.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        &self.buffer[HEADROOM..]
    }

    /// Returns the packet with the headroom in front of it.
    pub fn with_headroom(&mut self) -> &mut [u8] {
        &mut self.buffer
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[HEADROOM..]
    }
}

impl Carried for LivePacket {
    fn wire_len(&self) -> usize {
        self.buffer.len() - HEADROOM
    }

    fn ecn(&self) -> Ecn {
        ip::ecn::read(self.bytes())
    }

    fn mark_ce(&mut self) {
        ip::ecn::write(self.bytes_mut(), Ecn::Ce);
    }

    fn flow(&self) -> u64 {
        ip::flow_hash(self.bytes())
    }

    fn duplicate(&self) -> Self {
        Self {
            buffer: self.buffer.clone(),
            entered: self.entered,
            lane: self.lane,
            is_corrupted: self.is_corrupted,
        }
    }

    fn corrupt(&mut self, rng: &mut Rng) {
        flip_bits(self.bytes_mut(), rng);
        self.is_corrupted = true;
    }
}

/// Used packet buffers, kept for reuse.
#[derive(Debug, Default)]
pub struct Pool {
    free: Vec<Vec<u8>>,
}

impl Pool {
    /// Creates a packet with the content `bytes`, which enters the link at the time `entered`. `lane` is the index of
    /// the lane (the pair of devices) to which the packet belongs.
    pub fn packet(&mut self, bytes: &[u8], entered: Instant, lane: usize) -> LivePacket {
        // Each buffer has room for a packet of the usual size from the start. Otherwise small buffers would grow one by
        // one when they are reused for larger packets.
        let room = HEADROOM + bytes.len().max(USUAL_SIZE);
        let mut buffer = self.free.pop().unwrap_or_else(|| Vec::with_capacity(room));
        buffer.clear();
        buffer.resize(HEADROOM, 0);
        buffer.extend_from_slice(bytes);
        LivePacket { buffer, entered, lane, is_corrupted: false }
    }

    /// Takes back the buffer of a packet that is no longer needed.
    pub fn give(&mut self, packet: LivePacket) {
        if self.free.len() < POOL_LIMIT {
            self.free.push(packet.buffer);
        }
    }
}

/// The size in bytes that most packets do not exceed: Ethernet's MTU.
const USUAL_SIZE: usize = 1500;
/// The maximum number of buffers that the pool keeps.
const POOL_LIMIT: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_keeps_its_bytes_and_its_room_through_the_pool() {
        let mut pool = Pool::default();
        let first = pool.packet(&[0x45, 1, 2, 3], Instant::ZERO, 0);
        assert_eq!((first.wire_len(), first.bytes()), (4, &[0x45, 1, 2, 3][..]));
        pool.give(first);
        let mut second = pool.packet(&[0x60, 9], Instant::from_millis(1), 1);
        assert_eq!(second.with_headroom().len(), HEADROOM + 2);
        assert_eq!(second.bytes(), [0x60, 9]);
        let copy = second.duplicate();
        second.corrupt(&mut Rng::new(1));
        assert_ne!(second.bytes(), copy.bytes());
        assert_eq!((second.is_corrupted, copy.is_corrupted, copy.lane), (true, false, 1));
        assert_eq!(second.with_headroom()[..HEADROOM], [0; HEADROOM]);
    }
}
