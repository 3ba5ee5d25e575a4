//! A packet under way, and the buffers that packets live in.
//!
//! A [`Parcel`] is a real IP packet in a buffer with free room in front, moved
//! from hand to hand and never copied (except by a link that duplicates). What
//! is known of it lies beside the buffer in one place, so that to move a parcel
//! is to move a pointer. The sender's number travels there too, where no
//! protocol can see it.

use crate::host::Report;
use anabranch_base::batch::HEADROOM;
use anabranch_base::{Ecn, Rng, cache};
use anabranch_link::Carried;
use anabranch_link::corrupt::flip_bits;
use anabranch_wire::ip;
use std::ops::{Deref, DerefMut};

/// A packet under way.
#[derive(Debug)]
pub(crate) struct Parcel(Box<Content>);

/// A packet, and what is known of it: `buffer[start..]` begins with the IP header.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) buffer: Vec<u8>,
    pub(crate) start: u32,
    /// In a socket's queue: where the socket's payload begins in the buffer.
    pub(crate) payload: u32,
    /// The sending engine's number; copies and damaged packets keep it.
    pub(crate) tag: u64,
    /// In a socket's queue: it is a report, and the payload its quote.
    pub(crate) report: Option<Box<Report>>,
}

impl Deref for Parcel {
    type Target = Content;

    #[inline(always)]
    fn deref(&self) -> &Content {
        &self.0
    }
}

impl DerefMut for Parcel {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Content {
        &mut self.0
    }
}

impl Parcel {
    /// The packet that begins at `start`.
    pub(crate) fn new(buffer: Vec<u8>, start: usize, tag: u64) -> Self {
        Self(Box::new(Content { buffer, start: start as u32, tag, ..Content::default() }))
    }

    #[inline]
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.buffer[self.start as usize..]
    }

    #[inline]
    pub(crate) fn bytes_mut(&mut self) -> &mut [u8] {
        let content = &mut *self.0;
        &mut content.buffer[content.start as usize..]
    }
}

impl Carried for Parcel {
    #[inline]
    fn wire_len(&self) -> usize {
        self.buffer.len() - self.start as usize
    }

    /// The caches fetch what is looked at first.
    #[inline]
    fn approach(&self) {
        if let Some(first) = self.bytes().first() {
            cache::prefetch(first);
        }
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
        Self::new(self.buffer.clone(), self.start as usize, self.tag)
    }

    fn corrupt(&mut self, rng: &mut Rng) {
        flip_bits(self.bytes_mut(), rng);
    }
}

/// Parcels that have been used and may be used again, with their buffers.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: Vec<Parcel>,
}

impl Pool {
    /// A parcel with anything in its buffer.
    #[inline]
    pub(crate) fn take(&mut self) -> Parcel {
        self.free.pop().unwrap_or_else(Self::fresh)
    }

    /// A parcel for a packet that is to be appended to its buffer.
    pub(crate) fn take_empty(&mut self) -> Parcel {
        let mut parcel = self.take();
        parcel.buffer.clear();
        parcel.buffer.resize(HEADROOM, 0);
        parcel.start = HEADROOM as u32;
        parcel
    }

    #[cold]
    fn fresh() -> Parcel {
        Parcel::new(Vec::with_capacity(BUFFER_CAPACITY), 0, 0)
    }

    #[inline]
    pub(crate) fn give(&mut self, parcel: Parcel) {
        if self.free.len() < POOL_LIMIT && parcel.buffer.capacity() <= LARGEST_KEPT {
            self.free.push(parcel);
        } else {
            Self::throw_away(parcel);
        }
    }

    #[cold]
    fn throw_away(parcel: Parcel) {
        drop(parcel);
    }
}

/// Room for a packet of an Ethernet's size and its headroom.
const BUFFER_CAPACITY: usize = 1600;
/// Parcels kept at most.
const POOL_LIMIT: usize = 8192;
/// A buffer larger than any IP packet is not worth keeping.
const LARGEST_KEPT: usize = 70_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn parcel() -> Parcel {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(&[9; 40]);
        let start = HEADROOM - ip::v4::HEADER_LEN;
        ip::v4::Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 6, 40).emit(&mut buffer[start..]);
        Parcel::new(buffer, start, 3)
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
