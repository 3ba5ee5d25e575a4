//! The seam between a protocol engine and whoever drives it.
//!
//! An [`Engine`] is a state machine: packets, time and commands go in; packets,
//! events and one deadline come out. It never sleeps, sends, or asks the time.
//! One drive loop (`transport::drive`) serves every engine in every world.

use crate::time::Instant;
use crate::trace::TraceRecord;
use std::net::{IpAddr, SocketAddr};

/// A protocol endpoint without input or output of its own.
///
/// Two promises, checked by property tests:
/// 1. *Order does not matter.* Between two mutations any interleaving of the
///    polls yields the same packets and events.
/// 2. *Progress.* Once `poll_transmit` and `poll_event` are drained,
///    `poll_timeout` is `None` or strictly later than the last `now`.
pub trait Engine {
    /// What the application learns.
    type Event;

    /// A packet arrived. Changes state only: never sends, never calls back.
    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>);

    /// The packets of `batch` arrived. An engine that has a use for the buffer
    /// takes it and leaves another in its place.
    fn handle_batch(&mut self, now: Instant, batch: &mut Batch) {
        for packet in batch.packets() {
            self.handle_packet(now, packet);
        }
    }

    /// The network reported trouble with a packet this engine sent.
    fn handle_icmp(&mut self, now: Instant, icmp: &Icmp, quoted: &[u8]) {
        let _ = (now, icmp, quoted);
    }

    /// This host could not send `packet`, one of ours: it knows no way from its source to its target at present, so
    /// that neither this one nor those behind it have left. A hint, which may be wrong a moment later.
    fn handle_unsent(&mut self, now: Instant, packet: Packet<'_>) {
        let _ = (now, packet);
    }

    /// The host's routes or interfaces have changed: what could not be sent may find its way now.
    fn handle_routes(&mut self, now: Instant) {
        let _ = now;
    }

    /// Time has passed: runs everything that is due at `now`.
    fn handle_timeout(&mut self, now: Instant);

    /// Appends packets of one source, target, ECN mark and size (the last may
    /// be shorter) to `out`, which the caller has cleared. Returns false, with
    /// `out` empty, when there is nothing to send now.
    fn poll_transmit(&mut self, now: Instant, out: &mut Batch) -> bool;

    /// The next thing to tell the application.
    fn poll_event(&mut self) -> Option<Self::Event>;

    /// The earliest deadline. Pure; may be asked at any moment.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Whether a poll may have something to give. False only when neither
    /// `poll_transmit` nor `poll_event` has; so a command that changed nothing
    /// (most reads) need not set the whole drive loop going.
    fn has_output(&self) -> bool {
        true
    }

    /// Starts or stops keeping a trace (off at first).
    fn set_tracing(&mut self, on: bool);

    /// Takes the trace kept since the last call.
    fn take_trace(&mut self) -> Vec<TraceRecord>;
}

/// The two ECN bits of the IP header (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Hash)]
#[repr(u8)]
pub enum Ecn {
    /// Not ECN-capable.
    #[default]
    NotEct = 0b00,
    /// ECN-capable, codepoint ECT(1).
    Ect1 = 0b01,
    /// ECN-capable, codepoint ECT(0).
    Ect0 = 0b10,
    /// Congestion experienced.
    Ce = 0b11,
}

impl Ecn {
    /// The codepoint in the low two bits of `bits`.
    #[must_use]
    pub const fn from_bits(bits: u8) -> Self {
        match bits & 0b11 {
            0b00 => Self::NotEct,
            0b01 => Self::Ect1,
            0b10 => Self::Ect0,
            _ => Self::Ce,
        }
    }
}

/// One received transport packet: what follows the IP header (raw sockets) or
/// the UDP header (encapsulated). Ports are UDP's, 0 on raw sockets.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// Where it came from.
    pub source: SocketAddr,
    /// The local address it was sent to.
    pub target: SocketAddr,
    /// The ECN mark it arrived with.
    pub ecn: Ecn,
    /// The sender's number for this packet (see [`Batch::first_tag`]); 0 when
    /// the world cannot tell. For traces only: it must never steer a protocol.
    pub tag: u64,
    /// The transport header and what follows.
    pub payload: &'a [u8],
}

/// An ICMP report about a packet that was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Icmp {
    /// What happened.
    pub kind: IcmpKind,
    /// Source address of the packet that is quoted: one of ours.
    pub source: IpAddr,
    /// Target address of the packet that is quoted: the peer.
    pub target: IpAddr,
}

/// What an ICMP message says.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IcmpKind {
    /// The next hop takes packets of at most this many bytes, IP header included.
    TooBig(u32),
    /// Destination unreachable, with the code of ICMPv4 (RFC 792) or ICMPv6 (RFC 4443).
    Unreachable(u8),
    /// The host does not know what follows the IP header: ICMPv6's parameter problem, unrecognized next header (RFC 4443
    /// §3.4). ICMPv4 says it as `Unreachable(2)`.
    UnknownNextHeader,
}

/// Room in front of the first segment for the headers a world adds: the
/// largest IP header without options (40) and UDP (8).
pub const HEADROOM: usize = 48;

/// Packets of one source, target and ECN mark, back to back in one buffer.
///
/// All segments have the size of the first; the last may be shorter. The same
/// type carries packets out (engine to socket) and in (socket to engine). The
/// buffer keeps [`HEADROOM`] bytes free in front so that a world which takes
/// one packet at a time can add its headers in place and take the buffer
/// itself, without a copy.
#[derive(Debug)]
pub struct Batch {
    /// Source of every packet.
    pub source: SocketAddr,
    /// Target of every packet.
    pub target: SocketAddr,
    /// ECN mark of every packet.
    pub ecn: Ecn,
    /// On sending: the network may cut the packets into IP fragments where
    /// they are too large (RFC 9260 §6.9). False, as at first, has them sent
    /// whole or not at all, with Don't Fragment set.
    pub may_fragment: bool,
    /// The sending engine's number of the first packet; the following packets
    /// count up from it. Engines number their packets 1, 2, 3, ….
    pub first_tag: u64,
    /// On sending: a world may send batches of different lanes in another
    /// order than it was given them. 0, as at first, is a lane like any other.
    pub lane: u32,
    /// On receipt: this is not data but an ICMP report, the segment its quote
    /// (transport header onward).
    pub icmp: Option<Icmp>,
    /// On receipt: nothing else waits in the socket, and the task that received
    /// this will be woken by the next packet as if it had found nothing. A world
    /// that cannot tell leaves it false.
    pub drained: bool,
    /// While the batch is empty, what lies behind `start` means nothing.
    buffer: Vec<u8>,
    start: usize,
    stride: usize,
    count: usize,
    max_segments: usize,
}

impl Batch {
    /// An empty batch that takes up to `max_segments` packets (at least one).
    #[must_use]
    pub fn new(max_segments: usize) -> Self {
        let nowhere = SocketAddr::from(([0, 0, 0, 0], 0));
        Self {
            source: nowhere,
            target: nowhere,
            ecn: Ecn::NotEct,
            may_fragment: false,
            first_tag: 0,
            lane: 0,
            icmp: None,
            drained: false,
            buffer: vec![0; HEADROOM],
            start: HEADROOM,
            stride: 0,
            count: 0,
            max_segments: max_segments.max(1),
        }
    }

    /// Empties the batch; its memory is kept.
    #[inline]
    pub fn clear(&mut self) {
        if self.buffer.len() < HEADROOM {
            self.lengthen();
        }
        self.drained = false;
        self.start = HEADROOM;
        self.stride = 0;
        self.count = 0;
        self.icmp = None;
        self.ecn = Ecn::NotEct;
        self.may_fragment = false;
        self.first_tag = 0;
        self.lane = 0;
    }

    /// Makes a buffer that was put in have its headroom.
    #[cold]
    fn lengthen(&mut self) {
        self.buffer.resize(HEADROOM, 0);
    }

    /// Has the first packet begin where one of `size` bytes ends on a multiple of `line` in memory,
    /// with at least `room` bytes in front of it: some checksums are made sooner so. The batch must
    /// be empty.
    #[inline]
    pub fn end_on(&mut self, line: usize, size: usize, room: usize) {
        assert!(self.count == 0, "the first packet is there");
        let least = HEADROOM.max(room);
        let end = self.buffer.as_ptr() as usize + least + size;
        self.start = least + end.next_multiple_of(line) - end;
        if self.buffer.len() < self.start {
            self.buffer.resize(self.start, 0);
        }
    }

    /// Packets in the batch.
    #[must_use]
    #[inline]
    pub fn len(&self) -> usize {
        self.count
    }

    /// No packet is in the batch.
    #[must_use]
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Size of every packet but perhaps the last, in bytes.
    #[must_use]
    pub fn stride(&self) -> usize {
        self.stride
    }

    /// Another packet can be appended: there is a place, and the packets so
    /// far all have the full size.
    #[must_use]
    #[inline]
    pub fn has_room(&self) -> bool {
        self.count == 0
            || self.count < self.max_segments && self.buffer.len() - self.start == self.stride * self.count
    }

    /// How many packets fit in all.
    #[must_use]
    pub fn max_segments(&self) -> usize {
        self.max_segments
    }

    /// Appends one packet that `write` puts at the end of the buffer it is
    /// given (earlier bytes must be left alone). A packet larger than the
    /// first, or any packet without [`has_room`](Self::has_room), is a bug.
    #[inline]
    pub fn push_with<R>(&mut self, write: impl FnOnce(&mut Vec<u8>) -> R) -> R {
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

    /// Appends one packet by copying it.
    pub fn push(&mut self, packet: &[u8]) {
        self.push_with(|buffer| buffer.extend_from_slice(packet));
    }

    /// The packets, in order.
    #[inline]
    pub fn segments(&self) -> impl Iterator<Item = &[u8]> {
        // `chunks` refuses a stride of zero; an empty batch has none.
        self.buffer[self.start..].chunks(self.stride.max(1)).take(self.count)
    }

    /// The packets as an engine receives them, in order.
    #[inline]
    pub fn packets(&self) -> impl Iterator<Item = Packet<'_>> {
        self.segments().enumerate().map(|(i, payload)| Packet {
            source: self.source,
            target: self.target,
            ecn: self.ecn,
            tag: if self.first_tag == 0 { 0 } else { self.first_tag + i as u64 },
            payload,
        })
    }

    /// The packet, when there is but one.
    #[must_use]
    #[inline]
    pub fn only(&self) -> Option<Packet<'_>> {
        (self.count == 1).then(|| Packet {
            source: self.source,
            target: self.target,
            ecn: self.ecn,
            tag: self.first_tag,
            payload: &self.buffer[self.start..],
        })
    }

    /// The buffer, when it holds but one packet, and where in it that begins. What lies in front
    /// means nothing any more.
    #[inline]
    pub fn only_mut(&mut self) -> Option<(&mut [u8], usize)> {
        (self.count == 1).then_some((self.buffer.as_mut_slice(), self.start))
    }

    /// All bytes of the packets, back to back.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        if self.count == 0 { &[] } else { &self.buffer[self.start..] }
    }

    /// Takes the buffer out, leaving `replacement` (its content is discarded)
    /// in an emptied batch. The packets begin at the returned offset, at least
    /// [`HEADROOM`] for a batch filled by [`push_with`](Self::push_with).
    #[inline]
    pub fn take_buffer(&mut self, replacement: Vec<u8>) -> (Vec<u8>, usize) {
        let mut buffer = replacement;
        let start = self.exchange_out(&mut buffer);
        (buffer, start)
    }

    /// The same, with the replacement in the place where the buffer is put.
    #[inline]
    pub fn exchange_out(&mut self, buffer: &mut Vec<u8>) -> usize {
        let start = self.start;
        std::mem::swap(&mut self.buffer, buffer);
        self.clear();
        start
    }

    /// Makes the batch hold the packets in `bytes`, each of `stride` bytes, the
    /// last perhaps shorter, by copying them: what a socket has received in one piece.
    pub fn put_segments(&mut self, bytes: &[u8], stride: usize) {
        assert!(stride > 0 && !bytes.is_empty(), "an empty packet");
        self.buffer.truncate(HEADROOM);
        self.buffer.resize(HEADROOM, 0);
        self.buffer.extend_from_slice(bytes);
        self.start = HEADROOM;
        self.stride = stride.min(bytes.len());
        self.count = bytes.len().div_ceil(self.stride);
    }

    /// Makes the batch hold one received packet, `buffer[start..]`, and
    /// returns the buffer it held before.
    #[inline]
    pub fn put_buffer(&mut self, buffer: Vec<u8>, start: usize) -> Vec<u8> {
        let mut buffer = buffer;
        self.exchange_in(&mut buffer, start);
        buffer
    }

    /// The same, with the buffer it held before left in the place of the other.
    #[inline]
    pub fn exchange_in(&mut self, buffer: &mut Vec<u8>, start: usize) {
        assert!(start < buffer.len(), "an empty packet");
        self.stride = buffer.len() - start;
        self.start = start;
        self.count = 1;
        std::mem::swap(&mut self.buffer, buffer);
    }

    /// The same for packets of `stride` bytes each, the last perhaps shorter.
    pub fn exchange_in_segments(&mut self, buffer: &mut Vec<u8>, start: usize, stride: usize) {
        assert!(stride > 0, "an empty packet");
        self.exchange_in(buffer, start);
        let bytes = self.stride;
        self.stride = stride.min(bytes);
        self.count = bytes.div_ceil(self.stride);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn segments_have_one_size_and_a_short_one_closes_the_batch() {
        let mut batch = Batch::new(3);
        batch.push(&[1; 10]);
        batch.push(&[2; 4]);
        assert!(!batch.has_room());
        let sizes: Vec<_> = batch.segments().map(<[u8]>::len).collect();
        assert_eq!(sizes, [10, 4]);
        batch.clear();
        assert!(batch.is_empty() && batch.segments().next().is_none());
    }

    #[test]
    fn segments_received_in_one_piece_are_taken_apart() {
        let mut batch = Batch::new(1);
        batch.push(&[9; 70]);
        batch.put_segments(&[1, 1, 1, 2, 2, 2, 3], 3);
        assert_eq!(batch.segments().collect::<Vec<_>>(), [&[1, 1, 1][..], &[2, 2, 2], &[3]]);
        batch.put_segments(&[5, 5], 1200);
        assert_eq!((batch.len(), batch.stride(), batch.bytes()), (1, 2, &[5, 5][..]));
    }

    #[test]
    fn a_packet_ends_where_it_is_wanted() {
        for room in [0, 56, 100] {
            let mut batch = Batch::new(1);
            batch.end_on(64, 1480, room);
            batch.push(&[3; 1480]);
            let (buffer, start) = batch.only_mut().expect("one packet");
            assert!(start >= room.max(HEADROOM) && buffer[start..] == [3; 1480]);
            batch.clear();
            batch.push(&[4; 9]);
            assert_eq!(batch.bytes(), [4; 9]);
        }
    }

    #[test]
    fn a_buffer_moves_through_without_a_copy() {
        let mut out = Batch::new(1);
        out.push(&[7; 100]);
        let (buffer, start) = out.take_buffer(Vec::new());
        assert_eq!(start, HEADROOM);
        let mut input = Batch::new(1);
        assert!(input.only().is_none());
        input.put_buffer(buffer, start);
        assert_eq!(input.segments().next(), Some(&[7; 100][..]));
        assert_eq!(input.only().map(|packet| packet.payload), Some(&[7; 100][..]));
    }
}
