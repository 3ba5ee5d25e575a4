//! A packet under way, and the buffers that packets live in.
//!
//! A [`Parcel`] is a real IP packet in a buffer with free room in front, moved
//! from hand to hand and never copied (except by a link that duplicates). The
//! sender's number travels beside the bytes, where no protocol can see it.

use anabranch_base::{Ecn, Rng};
use anabranch_link::Carried;
use anabranch_link::corrupt::flip_bits;
use anabranch_wire::ip;

/// A packet under way: `buffer[start..]` begins with the IP header.
#[derive(Debug)]
pub(crate) struct Parcel {
    pub(crate) buffer: Vec<u8>,
    pub(crate) start: u32,
    /// The sending engine's number; copies and damaged packets keep it.
    pub(crate) tag: u64,
}

impl Parcel {
    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start as usize..]
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buffer[self.start as usize..]
    }
}

impl Carried for Parcel {
    #[inline]
    fn wire_len(&self) -> usize {
        self.buffer.len() - self.start as usize
    }

    fn ecn(&self) -> Ecn {
        ip::ecn::read(self.bytes())
    }

    fn mark_ce(&mut self) {
        ip::ecn::write(self.bytes_mut(), Ecn::Ce);
    }

    fn flow(&self) -> u64 {
        ip::flow(self.bytes())
    }

    fn duplicate(&self) -> Self {
        Self { buffer: self.buffer.clone(), start: self.start, tag: self.tag }
    }

    fn corrupt(&mut self, rng: &mut Rng) {
        flip_bits(self.bytes_mut(), rng);
    }
}

/// Buffers that have been used and may be used again.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: Vec<Vec<u8>>,
}

impl Pool {
    #[inline]
    pub(crate) fn take(&mut self) -> Vec<u8> {
        self.free.pop().unwrap_or_else(Self::fresh)
    }

    #[cold]
    fn fresh() -> Vec<u8> {
        Vec::with_capacity(BUFFER_CAPACITY)
    }

    #[inline]
    pub(crate) fn give(&mut self, buffer: Vec<u8>) {
        if self.free.len() < POOL_LIMIT && buffer.capacity() <= LARGEST_KEPT {
            self.free.push(buffer);
        } else {
            Self::throw_away(buffer);
        }
    }

    #[cold]
    fn throw_away(buffer: Vec<u8>) {
        drop(buffer);
    }
}

/// Room for a packet of an Ethernet's size and its headroom.
const BUFFER_CAPACITY: usize = 1600;
/// Buffers kept at most.
const POOL_LIMIT: usize = 8192;
/// A buffer larger than any IP packet is not worth keeping.
const LARGEST_KEPT: usize = 70_000;

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::engine::HEADROOM;

    fn parcel() -> Parcel {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(&[9; 40]);
        let start = HEADROOM - ip::v4::HEADER_LEN;
        ip::v4::Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 6, 40).emit(&mut buffer[start..]);
        Parcel { buffer, start: start as u32, tag: 3 }
    }

    #[test]
    fn damage_always_changes_bits() {
        let mut rng = Rng::new(4);
        for _ in 0..10_000 {
            let (whole, mut damaged) = (parcel(), parcel());
            damaged.corrupt(&mut rng);
            assert_ne!(whole.bytes(), damaged.bytes());
            assert_eq!(whole.buffer[..28], damaged.buffer[..28], "outside the packet nothing changes");
        }
    }

    #[test]
    fn flows_differ_by_port_and_marks_keep_the_checksum() {
        let (one, mut other) = (parcel(), parcel());
        other.bytes_mut()[20] ^= 1;
        assert_ne!(one.flow(), other.flow());
        ip::ecn::write(other.bytes_mut(), Ecn::Ect0);
        other.mark_ce();
        assert_eq!(other.ecn(), Ecn::Ce);
        assert!(ip::Packet::parse(other.bytes()).is_ok());
    }
}
