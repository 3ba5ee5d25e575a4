//! A packet in the simulated network, and the pool of packet buffers.
//!
//! A [`PacketBuf`] is a real IP packet in a buffer with headroom. It is moved and never copied, except by a link that
//! duplicates packets. Buffer and metadata are in one allocation, so moving a packet means moving a pointer. The
//! metadata includes a tag from the sender, which no protocol can see.

use anabranch_base::batch::HEADROOM;
use anabranch_base::{Ecn, Icmp, Rng, SharedBytes, WriteChecksum, cache};
use anabranch_link::Carried;
use anabranch_link::corrupt::flip_bits;
use anabranch_wire::ip;
use std::ops::{Deref, DerefMut};

/// A packet on its way through the network.
#[derive(Debug)]
pub(crate) struct PacketBuf(Box<Content>);

/// A packet and its metadata; `buffer[start..]` begins with the IP header. The packet ends with `shared`, which is empty
/// unless `missing_checksum` is set.
#[derive(Debug, Default)]
pub(crate) struct Content {
    pub(crate) buffer: Vec<u8>,
    pub(crate) start: u32,
    /// The end of the payload, if the packet shares it with the buffer of the engine that sent it.
    pub(crate) shared: SharedBytes,
    /// While the packet is in a socket's queue: the offset in `buffer` of the payload that the socket returns.
    pub(crate) payload: u32,
    /// The tag that the sending engine has set. Copies made by the network, and corrupted packets, keep the tag.
    pub(crate) tag: u64,
    /// The function that writes the checksum of the transport header, if the checksum is still missing. A network
    /// interface would write it when it sends the packet. Here it is written only if something reads it.
    pub(crate) missing_checksum: Option<WriteChecksum>,
    /// Whether the bytes from the transport header on are those that this host's stack has sent, so that no receiver
    /// needs to verify the checksum.
    pub(crate) intact: bool,
    /// If the packet is an ICMP message in a socket's queue: what this message reports. `payload` is then the offset of
    /// the payload of the packet that the message quotes. `None` for all other packets.
    pub(crate) report: Option<Box<SocketReport>>,
}

/// The content of an ICMP message for a socket.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SocketReport {
    pub(crate) icmp: Icmp,
    /// The ports of the quoted packet; 0 for raw sockets.
    pub(crate) source_port: u16,
    pub(crate) target_port: u16,
}

impl Deref for PacketBuf {
    type Target = Content;

    #[inline(always)]
    fn deref(&self) -> &Content {
        &self.0
    }
}

impl DerefMut for PacketBuf {
    #[inline(always)]
    fn deref_mut(&mut self) -> &mut Content {
        &mut self.0
    }
}

impl PacketBuf {
    /// Creates a buffer whose packet begins at `buffer[start]`.
    pub(crate) fn new(buffer: Vec<u8>, start: usize, tag: u64) -> Self {
        Self(Box::new(Content { buffer, start: start as u32, tag, ..Content::default() }))
    }

    /// Marks the packet as one whose checksum `missing` writes, or as one that has its checksum.
    #[inline(always)]
    pub(crate) fn set_missing_checksum(&mut self, missing: Option<WriteChecksum>) {
        self.missing_checksum = missing;
        self.intact = missing.is_some();
    }

    /// Returns the whole packet with its checksum, which is written now if it is missing.
    #[cold]
    pub(crate) fn whole_bytes(&mut self) -> &[u8] {
        self.join();
        if let Some(write) = self.missing_checksum.take()
            && let Ok(packet) = ip::Packet::parse_quoted(self.bytes())
        {
            let (source, target, header_len) = (packet.source, packet.target, packet.header_len);
            write(&mut self.bytes_mut()[header_len..], source, target);
        }
        self.bytes()
    }

    /// Copies the shared end of the packet into the buffer, which then holds the whole packet.
    pub(crate) fn join(&mut self) {
        let Content { buffer, shared, .. } = &mut *self.0;
        buffer.extend_from_slice(&std::mem::take(shared));
    }

    /// Returns the packet with its metadata, so that several parts can be borrowed at once.
    #[inline(always)]
    pub(crate) fn content(&mut self) -> &mut Content {
        &mut self.0
    }

    /// Returns the packet without its `shared` end. The transport checksum may be missing.
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

impl Carried for PacketBuf {
    #[inline]
    fn wire_len(&self) -> usize {
        self.buffer.len() - self.start as usize + self.shared.len()
    }

    /// Prefetches the first bytes of the packet into the CPU caches.
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
        ip::flow_hash(self.bytes())
    }

    fn duplicate(&self) -> Self {
        let mut copy = Self::new(self.buffer.clone(), self.start as usize, self.tag);
        (copy.missing_checksum, copy.intact) = (self.missing_checksum, self.intact);
        copy.shared = self.shared.clone();
        copy
    }

    fn corrupt(&mut self, rng: &mut Rng) {
        self.whole_bytes();
        self.intact = false;
        flip_bits(self.bytes_mut(), rng);
    }
}

/// Packet buffers that are no longer in use, for reuse.
#[derive(Debug, Default)]
pub(crate) struct Pool {
    free: Vec<PacketBuf>,
}

impl Pool {
    /// Returns a used buffer, or a new buffer if the pool is empty. The content is arbitrary.
    #[inline]
    pub(crate) fn take(&mut self) -> PacketBuf {
        self.free.pop().unwrap_or_else(Self::fresh)
    }

    /// Returns a buffer that contains only headroom, to which a packet can be appended.
    pub(crate) fn take_empty(&mut self) -> PacketBuf {
        let mut packet_buf = self.take();
        packet_buf.buffer.clear();
        packet_buf.buffer.resize(HEADROOM, 0);
        packet_buf.start = HEADROOM as u32;
        packet_buf.set_missing_checksum(None);
        packet_buf
    }

    #[cold]
    fn fresh() -> PacketBuf {
        PacketBuf::new(Vec::with_capacity(BUFFER_CAPACITY), 0, 0)
    }

    #[inline]
    pub(crate) fn give(&mut self, mut packet_buf: PacketBuf) {
        if !packet_buf.shared.is_empty() {
            packet_buf.shared = SharedBytes::default();
        }
        if self.free.len() < POOL_LIMIT && packet_buf.buffer.capacity() <= LARGEST_KEPT {
            self.free.push(packet_buf);
        } else {
            Self::throw_away(packet_buf);
        }
    }

    #[cold]
    fn throw_away(packet_buf: PacketBuf) {
        drop(packet_buf);
    }
}

/// The initial capacity of a buffer in bytes: room for an Ethernet packet and its headroom.
const BUFFER_CAPACITY: usize = 1600;
/// The maximum number of buffers that the pool keeps.
const POOL_LIMIT: usize = 8192;
/// Buffers with a larger capacity than this are not kept in the pool. No IP packet needs such a buffer.
const LARGEST_KEPT: usize = 70_000;

#[cfg(test)]
mod tests {
    use super::*;

    fn packet_buf() -> PacketBuf {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(&[9; 40]);
        let start = HEADROOM - ip::v4::HEADER_LEN;
        ip::v4::Header::new([10, 0, 0, 1].into(), [10, 0, 0, 2].into(), 6, 40).emit(&mut buffer[start..]);
        PacketBuf::new(buffer, start, 3)
    }

    #[test]
    fn damage_always_changes_bits() {
        let mut rng = Rng::new(4);
        for _ in 0..10_000 {
            let (whole, mut damaged) = (packet_buf(), packet_buf());
            damaged.corrupt(&mut rng);
            assert_ne!(whole.bytes(), damaged.bytes());
            assert_eq!(whole.buffer[..28], damaged.buffer[..28], "outside the packet nothing changes");
        }
    }

    #[test]
    fn flows_differ_by_port_and_marks_keep_the_checksum() {
        let (one, mut other) = (packet_buf(), packet_buf());
        other.bytes_mut()[20] ^= 1;
        assert_ne!(one.flow(), other.flow());
        ip::ecn::write(other.bytes_mut(), Ecn::Ect0);
        other.mark_ce();
        assert_eq!(other.ecn(), Ecn::Ce);
        assert!(ip::Packet::parse(other.bytes()).is_ok());
    }
}
