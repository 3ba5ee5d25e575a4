//! The packet buffers that pass between an engine and its socket: [`SendBatch`] for output, [`RecvBatch`] for input.
//!
//! A batch owns one buffer, in which its packets lie back to back. If packets are sent one at a time, a `World` writes
//! the lower layers' headers in front of each packet and takes the buffer. An engine that receives one packet at a time
//! may keep the packet's buffer ([`PacketBytes`]). In both cases the payload is not copied.
//!
//! The only packet of a batch may end with bytes that are not in the buffer, but shared with the sending engine
//! ([`SendBatch::set_shared`]). This is allowed only together with a checksum that the engine has left to the socket.
//! Network interfaces have the same rule: without computing checksums, they cannot gather a packet from several parts.

use crate::packet::{Ecn, Icmp, Packet};
use crate::pieces::SharedBytes;
use std::net::{IpAddr, SocketAddr};

/// The number of bytes left free in front of the first packet for headers of lower layers: the largest IP header
/// without options (40 bytes) and the UDP header (8 bytes).
pub const HEADROOM: usize = 48;

/// Writes the checksum into a transport packet that is sent between these two addresses. The first argument is the
/// packet from the transport header on, whose checksum field is zero.
pub type WriteChecksum = fn(packet: &mut [u8], source: IpAddr, target: IpAddr);

/// Outgoing packets with the same source, target and ECN codepoint, back to back in one buffer.
///
/// All packets have the size of the first; the last may be shorter. The buffer keeps [`HEADROOM`] bytes free in front
/// of the first packet. If a batch has only one packet, lower layers can therefore add their headers in place and
/// take the buffer without a copy.
#[derive(Debug)]
pub struct SendBatch {
    /// The source of every packet.
    pub source: SocketAddr,
    /// The target of every packet.
    pub target: SocketAddr,
    /// The ECN codepoint of every packet.
    pub ecn: Ecn,
    /// Whether the network may fragment packets that are too large (RFC 9260 §6.9). By default the network may not, and
    /// packets are sent with Don't Fragment set.
    pub may_fragment: bool,
    /// The number that the sending engine gave to the first packet. Each following packet has the next number. Engines
    /// number their packets 1, 2, 3, ….
    pub first_tag: u64,
    /// The lane of this batch, by default 0. Batches of different lanes may be reordered, but not batches of the same
    /// lane.
    pub lane: u32,
    /// The function that writes the checksums, if the engine has left them to the socket. `None` if the packets have
    /// their checksums.
    pub missing_checksum: Option<WriteChecksum>,
    offloads_checksums: bool,
    segments: Segments,
}

/// Received packets with the same source, target and ECN codepoint, back to back in one buffer. A batch may instead
/// hold a single ICMP error.
///
/// All packets have the size of the first; the last may be shorter.
#[derive(Debug)]
pub struct RecvBatch {
    /// The source of every packet.
    pub source: SocketAddr,
    /// The target of every packet.
    pub target: SocketAddr,
    /// The ECN codepoint of every packet.
    pub ecn: Ecn,
    /// The number that the sending engine gave to the first packet ([`SendBatch::first_tag`]), or 0 if unknown.
    pub first_tag: u64,
    /// The ICMP error, if the batch holds one. In that case the batch's packet is the part that the error quotes, from
    /// the transport header on.
    pub icmp: Option<Icmp>,
    /// Whether the socket's queue is empty and the next packet will wake the receiving task. If true, the task can wait
    /// without another read. False if the state of the queue is not known.
    pub drained: bool,
    /// Whether the only packet of the batch is known to be intact, so that the engine need not verify its checksum. The
    /// checksum may even be missing. True only if [`accept_offloaded`](Self::accept_offloaded) was called.
    pub intact: bool,
    accepts_offloaded: bool,
    segments: Segments,
}

/// The bytes of a received packet: either borrowed, or in a buffer that the engine may keep.
#[derive(Debug)]
pub enum PacketBytes<'a> {
    /// Part of a buffer that belongs to the caller. An engine that keeps the bytes must copy them.
    Borrowed(&'a [u8]),
    /// The only packet of its batch. An engine may take the buffer with [`take_buffer`](Self::take_buffer).
    Owned(&'a mut Segments),
}

/// The packets of a batch, back to back in one buffer. All have the same size, except that the last may be shorter.
#[derive(Debug)]
pub struct Segments {
    /// The packets, from `start` on. While the batch is empty, the bytes from `start` on have no meaning.
    buffer: Vec<u8>,
    start: usize,
    stride: usize,
    count: usize,
    /// The largest number of packets in the batch.
    max: usize,
    /// The end of the only packet, which follows the bytes in `buffer`. Usually empty.
    shared: SharedBytes,
}

impl Segments {
    fn new(max: usize) -> Self {
        Self {
            buffer: vec![0; HEADROOM],
            start: HEADROOM,
            stride: 0,
            count: 0,
            max: max.max(1),
            shared: SharedBytes::default(),
        }
    }

    #[inline]
    fn clear(&mut self) {
        if self.buffer.len() < HEADROOM {
            self.lengthen();
        }
        self.start = HEADROOM;
        self.stride = 0;
        self.count = 0;
        if !self.shared.is_empty() {
            self.shared = SharedBytes::default();
        }
    }

    /// Copies the shared end of the packet into the buffer.
    #[inline]
    fn join(&mut self) {
        if !self.shared.is_empty() {
            self.join_shared();
        }
    }

    #[cold]
    fn join_shared(&mut self) {
        self.buffer.extend_from_slice(&self.shared);
        self.stride += self.shared.len();
        self.shared = SharedBytes::default();
    }

    /// Restores the headroom if a caller has exchanged the buffer for one that is shorter than the headroom.
    #[cold]
    fn lengthen(&mut self) {
        self.buffer.resize(HEADROOM, 0);
    }

    #[inline]
    fn has_room(&self) -> bool {
        self.count == 0 || self.count < self.max && self.buffer.len() - self.start == self.stride * self.count
    }

    #[inline]
    fn push_with<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        assert!(self.has_room(), "no room in the batch");
        if self.count == 0 {
            self.buffer.truncate(self.start);
        }
        let before = self.buffer.len();
        let result = write(&mut self.buffer);
        let size = self.buffer.len() - before;
        assert!(size > 0, "an empty packet");
        if self.count == 0 {
            self.stride = size;
        }
        assert!(size <= self.stride, "a packet larger than the first of its batch");
        self.count += 1;
        result
    }

    fn put(&mut self, bytes: &[u8], stride: usize) {
        assert!(stride > 0 && !bytes.is_empty(), "an empty packet");
        self.buffer.truncate(HEADROOM);
        self.buffer.resize(HEADROOM, 0);
        self.buffer.extend_from_slice(bytes);
        self.start = HEADROOM;
        self.stride = stride.min(bytes.len());
        self.count = bytes.len().div_ceil(self.stride);
    }

    /// Makes `buffer[start..]` the only packet of the batch. Leaves the batch's previous buffer in `buffer`.
    #[inline]
    fn put_buffer(&mut self, buffer: &mut Vec<u8>, start: usize) {
        assert!(start < buffer.len(), "an empty packet");
        self.stride = buffer.len() - start;
        self.start = start;
        self.count = 1;
        std::mem::swap(&mut self.buffer, buffer);
    }

    /// Like [`put_buffer`](Self::put_buffer), for several packets of `stride` bytes each. The last packet may be
    /// shorter.
    fn put_train(&mut self, buffer: &mut Vec<u8>, start: usize, stride: usize) {
        assert!(stride > 0, "an empty packet");
        self.put_buffer(buffer, start);
        let bytes = self.stride;
        self.stride = stride.min(bytes);
        self.count = bytes.div_ceil(self.stride);
    }

    /// Moves packets that lie too close to the start of the buffer, so that headers fit in front of them.
    #[cold]
    fn make_headroom(&mut self) {
        self.buffer.splice(..self.start, [0; HEADROOM]);
        self.start = HEADROOM;
    }

    #[inline]
    fn iter(&self) -> impl Iterator<Item = &[u8]> {
        // An empty batch may have a stride of 0, on which `chunks` would panic.
        self.buffer[self.start..].chunks(self.stride.max(1)).take(self.count)
    }

    #[inline]
    fn packets(
        &self,
        (source, target): (SocketAddr, SocketAddr),
        ecn: Ecn,
        first_tag: u64,
    ) -> impl Iterator<Item = Packet<'_>> {
        let tag = move |i| if first_tag == 0 { 0 } else { first_tag + i };
        (0..).zip(self.iter()).map(move |(i, payload)| Packet { source, target, ecn, tag: tag(i), payload })
    }

    #[inline]
    fn bytes(&self) -> &[u8] {
        if self.count == 0 { &[] } else { &self.buffer[self.start..] }
    }

    /// Exchanges the batch's buffer, which holds the packets, with `buffer`, and empties the batch. Returns the offset
    /// of the first packet in `buffer`.
    #[inline]
    fn take_buffer(&mut self, buffer: &mut Vec<u8>) -> usize {
        let start = self.start;
        std::mem::swap(&mut self.buffer, buffer);
        self.clear();
        start
    }
}

impl SendBatch {
    /// Creates an empty batch for up to `max_segments` packets; 0 counts as 1.
    #[must_use]
    pub fn new(max_segments: usize) -> Self {
        Self {
            source: unspecified_address(),
            target: unspecified_address(),
            ecn: Ecn::NotEct,
            may_fragment: false,
            first_tag: 0,
            lane: 0,
            missing_checksum: None,
            offloads_checksums: false,
            segments: Segments::new(max_segments),
        }
    }

    /// Removes all packets from the batch and keeps its memory.
    #[inline]
    pub fn clear(&mut self) {
        self.segments.clear();
        self.ecn = Ecn::NotEct;
        self.may_fragment = false;
        self.first_tag = 0;
        self.lane = 0;
        self.missing_checksum = None;
    }

    /// Allows or forbids that the engine leaves checksums to the socket.
    pub fn set_checksum_offload(&mut self, on: bool) {
        self.offloads_checksums = on;
    }

    /// Returns whether the engine may leave the checksum of the next packet to the socket. If it does, it sets
    /// [`missing_checksum`](Self::missing_checksum). Only batches of one packet have this choice.
    #[must_use]
    #[inline]
    pub fn offloads_checksums(&self) -> bool {
        self.offloads_checksums && self.segments.max == 1
    }

    /// Lets the only packet end with `shared`, without a copy. Allowed only if [`missing_checksum`](Self::missing_checksum)
    /// is set.
    #[inline(always)]
    pub fn set_shared(&mut self, shared: SharedBytes) {
        assert!(self.missing_checksum.is_some() && self.segments.count == 1, "a packet in two parts");
        self.segments.shared = shared;
    }

    /// Takes the shared end of the only packet. The caller also takes the buffer, with the rest of the packet.
    #[inline(always)]
    pub fn take_shared(&mut self) -> Option<SharedBytes> {
        let shared = &mut self.segments.shared;
        if shared.is_empty() { None } else { Some(std::mem::take(shared)) }
    }

    /// Writes the checksums that the engine has left out. The packets are then complete in the buffer.
    #[cold]
    pub fn write_checksums(&mut self) {
        self.segments.join();
        let Some(write) = self.missing_checksum.take() else { return };
        let (source, target) = (self.source.ip(), self.target.ip());
        let Segments { buffer, start, stride, count, .. } = &mut self.segments;
        if *count > 0 {
            buffer[*start..].chunks_mut(*stride).for_each(|packet| write(packet, source, target));
        }
    }

    /// Chooses the position of the first packet. A packet of `size` bytes will end at an address that is a multiple of
    /// `line`, which makes some checksums faster. At least `room` bytes stay free in front of the packet. The batch
    /// must be empty.
    #[inline]
    pub fn end_on(&mut self, line: usize, size: usize, room: usize) {
        let Segments { buffer, start, count, .. } = &mut self.segments;
        assert!(*count == 0, "the first packet is there");
        let min = HEADROOM.max(room);
        let end = buffer.as_ptr() as usize + min + size;
        *start = min + end.next_multiple_of(line) - end;
        if buffer.len() < *start {
            buffer.resize(*start, 0);
        }
    }

    /// Returns the number of packets in the batch.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.segments.count
    }

    /// Returns whether the batch is empty.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.segments.count == 0
    }

    /// Returns the size in bytes of every packet except the last, which may be shorter.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.segments.stride
    }

    /// Returns whether another packet can be appended: the batch is not full, and no packet is shorter than the first.
    #[must_use]
    #[inline]
    pub fn has_room(&self) -> bool {
        self.segments.has_room()
    }

    /// Returns the maximum number of packets that the batch can hold.
    #[must_use]
    pub fn max_segments(&self) -> usize {
        self.segments.max
    }

    /// Appends one packet: `write` appends the packet's bytes to the buffer and must not change earlier bytes. Panics
    /// if the packet is larger than the first, or if [`has_room`](Self::has_room) is false.
    #[inline]
    pub fn push_with<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
        self.segments.push_with(write)
    }

    /// Appends a copy of `packet`.
    pub fn push(&mut self, packet: &[u8]) {
        self.push_with(|buffer| buffer.extend_from_slice(packet));
    }

    /// Replaces the content with a copy of the packets in `bytes`, which have `stride` bytes each; the last may be
    /// shorter. Used for packets that a socket accepted but could not send.
    pub fn put_segments(&mut self, bytes: &[u8], stride: usize) {
        self.segments.put(bytes, stride);
    }

    /// Replaces the content with the packets in `buffer`, which have `stride` bytes each; the last may be shorter.
    /// Leaves the batch's previous buffer in `buffer`. Used for packets that were built in one buffer without headroom.
    pub fn put_train(&mut self, buffer: &mut Vec<u8>, stride: usize) {
        self.segments.put_train(buffer, 0, stride);
    }

    /// Returns the bytes of each packet, in order.
    #[inline]
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.segments.iter()
    }

    /// Returns the packets in order, in the form in which an engine receives them.
    #[inline]
    pub fn packets(&self) -> impl Iterator<Item = Packet<'_>> {
        self.segments.packets((self.source, self.target), self.ecn, self.first_tag)
    }

    /// Returns the bytes of all packets, back to back.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.segments.bytes()
    }

    /// Exchanges the batch's buffer, which holds the packets, with `buffer`, and empties the batch. Returns the offset
    /// of the first packet in `buffer`, which is at least [`HEADROOM`].
    #[inline(always)]
    pub fn take_buffer(&mut self, buffer: &mut Vec<u8>) -> usize {
        self.segments.join();
        if self.segments.start < HEADROOM {
            self.segments.make_headroom();
        }
        let start = self.segments.take_buffer(buffer);
        self.clear();
        start
    }
}

impl RecvBatch {
    /// Creates an empty batch for up to `max_segments` packets; 0 counts as 1.
    #[must_use]
    pub fn new(max_segments: usize) -> Self {
        Self {
            source: unspecified_address(),
            target: unspecified_address(),
            ecn: Ecn::NotEct,
            first_tag: 0,
            icmp: None,
            drained: false,
            intact: false,
            accepts_offloaded: false,
            segments: Segments::new(max_segments),
        }
    }

    /// Removes all packets from the batch and keeps its memory.
    #[inline]
    pub fn clear(&mut self) {
        self.segments.clear();
        self.drained = false;
        self.intact = false;
        self.icmp = None;
        self.ecn = Ecn::NotEct;
        self.first_tag = 0;
    }

    /// Sets whether the receiver heeds [`intact`](Self::intact), and therefore accepts a packet without a checksum. Such
    /// a packet may end with bytes that are not in the buffer ([`join`](Self::join)).
    pub fn accept_offloaded(&mut self, on: bool) {
        self.accepts_offloaded = on;
    }

    /// Returns whether the receiver accepts a packet without a checksum.
    #[must_use]
    #[inline]
    pub fn accepts_offloaded(&self) -> bool {
        self.accepts_offloaded
    }

    /// Returns the number of packets in the batch.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.segments.count
    }

    /// Returns whether the batch is empty.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.segments.count == 0
    }

    /// Returns the size in bytes of every packet except the last, which may be shorter.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.segments.stride
    }

    /// Returns whether another packet can be appended: the batch is not full, and no packet is shorter than the first.
    #[must_use]
    #[inline]
    pub fn has_room(&self) -> bool {
        self.segments.has_room()
    }

    /// Appends a copy of `packet`. Panics if `packet` is larger than the first packet of the batch, or if
    /// [`has_room`](Self::has_room) is false.
    pub fn push(&mut self, packet: &[u8]) {
        self.segments.push_with(|buffer| buffer.extend_from_slice(packet));
    }

    /// Replaces the content with a copy of the packets in `bytes`, which have `stride` bytes each; the last may be
    /// shorter. Used for packets that a socket received in one read.
    pub fn put_segments(&mut self, bytes: &[u8], stride: usize) {
        self.segments.put(bytes, stride);
    }

    /// Makes `buffer[start..]` the only packet of the batch. Leaves the batch's previous buffer in `buffer`.
    #[inline]
    pub fn put_buffer(&mut self, buffer: &mut Vec<u8>, start: usize) {
        self.segments.put_buffer(buffer, start);
    }

    /// Lets the only packet end with `shared`, without a copy. Allowed only if the receiver
    /// [accepts offloaded checksums](Self::accepts_offloaded).
    #[inline(always)]
    pub fn set_shared(&mut self, shared: SharedBytes) {
        assert!(self.accepts_offloaded && self.segments.count == 1, "a packet in two parts");
        self.segments.shared = shared;
    }

    /// Returns the length of the shared end of the only packet; 0 if the whole packet is in the buffer.
    #[must_use]
    #[inline]
    pub fn shared_len(&self) -> usize {
        self.segments.shared.len()
    }

    /// Copies the shared end of the only packet into the buffer, which then holds the whole packet. Only
    /// [`only_owned`](Self::only_owned) can be used without this call.
    #[inline]
    pub fn join(&mut self) {
        self.segments.join();
    }

    /// Like [`put_buffer`](Self::put_buffer), for several packets of `stride` bytes each. The last packet may be
    /// shorter.
    pub fn put_train(&mut self, buffer: &mut Vec<u8>, start: usize, stride: usize) {
        self.segments.put_train(buffer, start, stride);
    }

    /// Moves the packets of `sent` into this batch, as a network without loss or delay would deliver them. Afterwards
    /// `sent` is empty.
    pub fn receive(&mut self, sent: &mut SendBatch) {
        sent.write_checksums();
        self.clear();
        (self.source, self.target, self.ecn) = (sent.source, sent.target, sent.ecn);
        self.first_tag = sent.first_tag;
        let SendBatch { segments, .. } = sent;
        self.segments.put_buffer(&mut segments.buffer, segments.start);
        (self.segments.stride, self.segments.count) = (segments.stride, segments.count);
        sent.clear();
    }

    /// Returns the bytes of each packet, in order.
    #[inline]
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        self.segments.iter()
    }

    /// Returns the packets in order, in the form in which an engine receives them.
    #[inline]
    pub fn packets(&self) -> impl Iterator<Item = Packet<'_>> {
        self.segments.packets((self.source, self.target), self.ecn, self.first_tag)
    }

    /// Returns the packet, if the batch holds exactly one packet.
    #[must_use]
    #[inline]
    pub fn only(&self) -> Option<Packet<'_>> {
        let Self { source, target, ecn, first_tag: tag, .. } = *self;
        (self.len() == 1).then(|| Packet { source, target, ecn, tag, payload: self.bytes() })
    }

    /// Returns the buffer, and the offset in bytes at which the packet begins in the buffer. Returns `None` unless the
    /// batch holds exactly one packet. The bytes in front of the packet have no meaning.
    #[inline]
    pub fn only_mut(&mut self) -> Option<(&mut [u8], usize)> {
        (self.len() == 1).then_some((self.segments.buffer.as_mut_slice(), self.segments.start))
    }

    /// Returns the source, the target and the bytes of the packet, if the batch holds exactly one packet. The caller
    /// may take the packet's buffer.
    #[inline]
    pub fn only_owned(&mut self) -> Option<(&SocketAddr, &SocketAddr, PacketBytes<'_>)> {
        (self.len() == 1).then_some((&self.source, &self.target, PacketBytes::Owned(&mut self.segments)))
    }

    /// Returns the packet at `index`, so that a protocol layer can change it in place. Returns `None` if there is no
    /// such packet.
    #[inline]
    pub fn segment_mut(&mut self, index: usize) -> Option<&mut [u8]> {
        let Segments { buffer, start, stride, count, .. } = &mut self.segments;
        let begin = *start + index * *stride;
        let end = (begin + *stride).min(buffer.len());
        (index < *count).then(|| &mut buffer[begin..end])
    }

    /// Returns the bytes of all packets, back to back.
    #[must_use]
    #[inline]
    pub fn bytes(&self) -> &[u8] {
        self.segments.bytes()
    }
}

impl PacketBytes<'_> {
    /// Returns the transport header and the bytes after it, without the [shared](Self::shared_len) end of the packet.
    #[must_use]
    #[inline(always)]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Borrowed(bytes) => bytes,
            Self::Owned(segments) => &segments.buffer[segments.start..],
        }
    }

    /// Returns the length of the shared end of the packet; 0 if the whole packet is in the buffer.
    #[must_use]
    #[inline(always)]
    pub fn shared_len(&self) -> usize {
        match self {
            Self::Borrowed(_) => 0,
            Self::Owned(segments) => segments.shared.len(),
        }
    }

    /// Takes the shared end of the packet, and empties the batch. Returns `None` and changes nothing if the whole packet
    /// is in the buffer.
    #[inline(always)]
    pub fn take_shared(&mut self) -> Option<SharedBytes> {
        match self {
            Self::Owned(segments) if !segments.shared.is_empty() => {
                let shared = std::mem::take(&mut segments.shared);
                segments.clear();
                Some(shared)
            }
            _ => None,
        }
    }

    /// Copies the shared end of the packet into the buffer, which then holds the whole packet.
    #[inline]
    pub fn join(&mut self) {
        if let Self::Owned(segments) = self {
            segments.join();
        }
    }

    /// Swaps `buffer` with the buffer of the batch, and empties the batch. Afterwards, `buffer` holds the packet, and
    /// the batch uses the memory that `buffer` had before. Returns the offset of the packet in `buffer`. Returns `None`
    /// and changes nothing if the bytes are borrowed, or if the batch can hold several packets. In the second case,
    /// most of the large buffer would be wasted on one packet.
    #[inline(always)]
    pub fn take_buffer(&mut self, buffer: &mut Vec<u8>) -> Option<usize> {
        match self {
            Self::Owned(segments) if segments.max == 1 => {
                segments.join();
                Some(segments.take_buffer(buffer))
            }
            _ => None,
        }
    }
}

/// Returns the address that an empty batch has: 0.0.0.0, port 0.
fn unspecified_address() -> SocketAddr {
    SocketAddr::from(([0, 0, 0, 0], 0))
}

#[cfg(test)]
mod tests;
