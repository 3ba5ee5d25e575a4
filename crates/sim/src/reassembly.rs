//! Reassembles IP packets from fragments at a host.
//!
//! The number of incomplete packets is limited: at the limit, a new packet replaces the oldest incomplete packet.
//! Incomplete packets also expire. Overlapping fragments come from an attack or from a reused identification. If
//! fragments overlap, their packet is dropped, and so are the packet's later fragments. An exact copy of a fragment is
//! ignored.
//!
//! Implements RFC 791 §3.2 (reassembly), RFC 8200 §4.5, RFC 5722 (overlaps), RFC 3168 §5.3 (ECN marks), and RFC 1122
//! §3.3.2 (timeout).

use anabranch_base::batch::HEADROOM;
use anabranch_base::time::Duration;
use anabranch_base::{Ecn, Instant};
use anabranch_wire::ip::{self, Packet, v4, v6};
use std::net::IpAddr;

/// The state of reassembly at a host: the packets of which some fragments have arrived, but not all.
#[derive(Debug, Default)]
pub(crate) struct Reassembly {
    /// The incomplete packets, the oldest first.
    partial: Vec<Partial>,
}

/// The result of handling a fragment.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FragmentOutcome {
    /// The fragment was stored, or is a copy of a stored fragment.
    Kept,
    /// The last missing fragment has arrived. The complete packet begins [`HEADROOM`] bytes into the buffer. The number
    /// is the tag of the packet's first fragment.
    Whole(Vec<u8>, u64),
    /// The fragment was dropped, perhaps together with earlier fragments of its packet.
    Refused,
}

/// The header fields that identify the fragments of one packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Key {
    source: IpAddr,
    target: IpAddr,
    protocol: u8,
    identification: u32,
}

#[derive(Debug)]
struct Partial {
    key: Key,
    since: Instant,
    /// Whether the fragments contradict each other. If so, only the key is kept, to drop later fragments.
    is_inconsistent: bool,
    /// The IP header of the first fragment, without an IPv6 fragment header.
    header: Vec<u8>,
    tag: u64,
    payload: Vec<u8>,
    /// The byte ranges that the fragments cover, in ascending order.
    pieces: Vec<(usize, usize)>,
    received_bytes: usize,
    /// The length of the payload, known once the last fragment has arrived.
    total: Option<usize>,
    marked: bool,
    not_ect: bool,
}

/// The maximum number of incomplete packets that a host stores.
const MOST: usize = 64;
/// RFC 1122 §3.3.2 and RFC 8200 §4.5: the timeout, 60 s from the first received fragment.
const PATIENCE: Duration = Duration::from_secs(60);
/// The maximum number of bytes after the IP header, for IPv4 and IPv6.
const LARGEST_PAYLOAD: usize = 65_535 - v4::HEADER_LEN;

impl Reassembly {
    /// Handles a packet that is a fragment. Also returns the number of incomplete packets that were dropped because
    /// they expired or because too many were stored.
    pub(crate) fn take(&mut self, now: Instant, bytes: &[u8], tag: u64) -> (FragmentOutcome, u64) {
        let before = self.partial.len();
        self.partial.retain(|partial| partial.since + PATIENCE > now);
        let mut given_up = (before - self.partial.len()) as u64;
        let Ok(packet) = Packet::parse(bytes) else { return (FragmentOutcome::Refused, given_up) };
        let Some(piece) = packet.fragment else { return (FragmentOutcome::Refused, given_up) };
        let key = Key {
            source: packet.source,
            target: packet.target,
            protocol: packet.protocol,
            identification: piece.identification,
        };
        let index = match self.partial.iter().position(|partial| partial.key == key) {
            Some(index) => index,
            None => {
                if self.partial.len() == MOST {
                    self.partial.remove(0);
                    given_up += 1;
                }
                self.partial.push(Partial::new(key, now));
                self.partial.len() - 1
            }
        };
        let partial = &mut self.partial[index];
        if partial.is_inconsistent || !partial.add(bytes, &packet, tag) {
            partial.spoil();
            return (FragmentOutcome::Refused, given_up);
        }
        if partial.total != Some(partial.received_bytes) {
            return (FragmentOutcome::Kept, given_up);
        }
        let whole = self.partial.remove(index);
        if whole.marked && whole.not_ect {
            // RFC 3168 §5.3: a packet is dropped if one of its fragments is marked and another is not ECN-capable.
            return (FragmentOutcome::Refused, given_up);
        }
        (FragmentOutcome::Whole(whole.packet(), whole.tag), given_up)
    }
}

impl Partial {
    fn new(key: Key, since: Instant) -> Self {
        Self {
            key,
            since,
            is_inconsistent: false,
            header: Vec::new(),
            tag: 0,
            payload: Vec::new(),
            pieces: Vec::new(),
            received_bytes: 0,
            total: None,
            marked: false,
            not_ect: false,
        }
    }

    fn spoil(&mut self) {
        *self = Self { is_inconsistent: true, ..Self::new(self.key, self.since) };
    }

    /// Adds a fragment. Returns false if the fragment contradicts the other fragments of the packet.
    fn add(&mut self, bytes: &[u8], packet: &Packet<'_>, tag: u64) -> bool {
        let (Some(piece), data) = (packet.fragment, packet.payload) else { return false };
        let (begin, end) = (piece.offset, piece.offset + data.len());
        // RFC 8200 §4.5: the length of every fragment except the last is a multiple of eight bytes.
        if data.is_empty() || end > LARGEST_PAYLOAD || piece.more && !data.len().is_multiple_of(8) {
            return false;
        }
        let index = self.pieces.partition_point(|&(start, _)| start < begin);
        if self.pieces.get(index) == Some(&(begin, end)) {
            return true;
        }
        // RFC 5722 §4: a packet with overlapping fragments is dropped.
        let behind = index.checked_sub(1).and_then(|before| self.pieces.get(before));
        if behind.is_some_and(|&(_, stop)| stop > begin)
            || self.pieces.get(index).is_some_and(|&(start, _)| start < end)
        {
            return false;
        }
        let furthest = self.pieces.last().map_or(0, |&(_, stop)| stop).max(end);
        if !piece.more && self.total.replace(end).is_some() {
            return false;
        }
        if self.total.is_some_and(|total| furthest > total || piece.more && end >= total) {
            return false;
        }
        if begin == 0 {
            let header_len = if packet.source.is_ipv4() { packet.header_len } else { v6::HEADER_LEN };
            self.header = bytes[..header_len].to_vec();
            self.tag = tag;
        }
        self.marked |= packet.ecn == Ecn::Ce;
        self.not_ect |= packet.ecn == Ecn::NotEct;
        self.pieces.insert(index, (begin, end));
        self.received_bytes += data.len();
        if self.payload.len() < end {
            self.payload.resize(end, 0);
        }
        self.payload[begin..end].copy_from_slice(data);
        true
    }

    /// Builds the original packet from the stored fragments.
    fn packet(&self) -> Vec<u8> {
        let mut buffer = vec![0; HEADROOM];
        buffer.extend_from_slice(&self.header);
        buffer.extend_from_slice(&self.payload);
        let packet = &mut buffer[HEADROOM..];
        if self.key.source.is_ipv4() {
            let length = packet.len() as u16;
            packet[2..4].copy_from_slice(&length.to_be_bytes());
            packet[6..8].fill(0);
            v4::refresh_checksum(packet);
        } else {
            let length = self.payload.len() as u16;
            packet[4..6].copy_from_slice(&length.to_be_bytes());
            packet[6] = self.key.protocol;
        }
        if self.marked {
            // RFC 3168 §5.3: if one fragment is marked, the packet is marked.
            ip::ecn::write(packet, Ecn::Ce);
        }
        buffer
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_base::Rng;
    use anabranch_wire::ip::fragment::Fragmenter;
    use std::net::{Ipv4Addr, Ipv6Addr};

    fn packet(rng: &mut Rng, v6: bool, identification: u16) -> Vec<u8> {
        let payload = 1 + rng.below(9_000) as u16;
        let header_len = if v6 { 40 } else { 20 };
        let mut bytes = vec![0; header_len + usize::from(payload)];
        rng.fill(&mut bytes);
        if v6 {
            v6::Header::new(Ipv6Addr::LOCALHOST, Ipv6Addr::LOCALHOST, 132, payload).emit(&mut bytes);
        } else {
            let new = v4::Header::new(Ipv4Addr::LOCALHOST, Ipv4Addr::LOCALHOST, 132, payload);
            v4::Header { dont_fragment: false, identification, ..new }.emit(&mut bytes);
        }
        bytes
    }

    fn cut(packet: &[u8], mtu: usize, identification: u16) -> Vec<Vec<u8>> {
        let Some(mut pieces) = Fragmenter::of(packet, mtu, identification.into()) else { return Vec::new() };
        let mut all = Vec::new();
        let mut piece = Vec::new();
        while pieces.append_next(&mut piece) {
            all.push(std::mem::take(&mut piece));
        }
        all
    }

    fn shuffle<T>(rng: &mut Rng, items: &mut [T]) {
        for i in (1..items.len()).rev() {
            items.swap(i, rng.below(i as u64 + 1) as usize);
        }
    }

    /// RFC 791 §3.2, RFC 8200 §4.5: each packet is fragmented, and some fragments are fragmented again. The fragments
    /// of several packets arrive in random order, and some of them twice. Each packet is restored.
    #[test]
    fn pieces_in_any_order_are_the_packet_again() {
        let mut rng = Rng::new(5);
        for round in 0..300_u16 {
            let mut reassembly = Reassembly::default();
            let v6 = round % 2 == 1;
            let mut all = Vec::new();
            let mut originals = Vec::new();
            for id in 0..=rng.below(5) as u16 {
                let original = packet(&mut rng, v6, id);
                let mtu = 60 + rng.below(1_500) as usize;
                let mut pieces = cut(&original, mtu, id);
                if !v6 && round % 4 == 0 {
                    pieces = pieces.iter().flat_map(|piece| cut(piece, 60 + mtu / 2, id)).collect();
                }
                let copied = rng.below(pieces.len() as u64) as usize;
                pieces.push(pieces[copied].clone());
                let is_single = pieces.len() == 2;
                all.extend(pieces.into_iter().map(|piece| (id, piece)));
                originals.push((original, is_single));
            }
            shuffle(&mut rng, &mut all);
            let mut back = vec![Vec::new(); originals.len()];
            for (id, piece) in all {
                if Packet::parse(&piece).expect("a packet").fragment.is_none() {
                    // The packet is small enough not to be fragmented.
                    back[usize::from(id)] = piece;
                    continue;
                }
                if let (FragmentOutcome::Whole(buffer, tag), _) =
                    reassembly.take(Instant::ZERO, &piece, u64::from(id) + 1)
                {
                    assert_eq!(tag, u64::from(id) + 1);
                    back[usize::from(id)] = buffer[HEADROOM..].to_vec();
                }
            }
            for ((original, _), back) in originals.iter().zip(&back) {
                let (before, after) = (Packet::parse(original), Packet::parse(back));
                let payloads = (before.map(|packet| packet.payload), after.map(|packet| packet.payload));
                assert_eq!(payloads.0, payloads.1, "round {round}");
                assert!(v6 || back[6..8] == [0, 0], "round {round}: no flags, no offset");
            }
        }
    }

    /// Random fragments never cause a panic, and the stored state stays bounded.
    #[test]
    fn random_fragments_take_bounded_memory() {
        let mut rng = Rng::new(6);
        let mut reassembly = Reassembly::default();
        let mut whole = 0;
        for step in 0..20_000_u64 {
            let v6 = rng.below(2) == 0;
            let id = rng.below(100) as u16;
            let mtu = 60 + rng.below(3_000) as usize;
            let mut pieces = cut(&packet(&mut rng, v6, id), mtu, id);
            let Some(piece) = pieces.last_mut() else { continue };
            let at = rng.below(piece.len() as u64) as usize;
            piece[at] = rng.next_u32() as u8;
            // The fragment gets a random offset and random flags.
            let field = if v6 { 42 } else { 6 };
            if rng.below(2) == 0 && piece.len() > field + 2 {
                piece[field..field + 2].copy_from_slice(&(rng.next_u32() as u16 & !0x4000).to_be_bytes());
            }
            v4::refresh_checksum(piece);
            let (taken, _) = reassembly.take(Instant::from_millis(step), piece, 0);
            whole += u64::from(matches!(taken, FragmentOutcome::Whole(..)));
            assert!(reassembly.partial.len() <= MOST);
        }
        assert!(whole < 2_000, "{whole}");
    }

    /// RFC 5722 §4: after an overlap, all further fragments of the packet are refused, until the host removes its state
    /// of the packet (after 60 s).
    #[test]
    fn an_overlap_spoils_the_packet() {
        let mut rng = Rng::new(7);
        let original = loop {
            let packet = packet(&mut rng, false, 3);
            if packet.len() > 3_000 {
                break packet;
            }
        };
        let (one, other) = (cut(&original, 1_500, 3), cut(&original, 1_000, 3));
        let mut reassembly = Reassembly::default();
        assert_eq!(reassembly.take(Instant::ZERO, &one[0], 0).0, FragmentOutcome::Kept);
        assert_eq!(reassembly.take(Instant::ZERO, &other[1], 0).0, FragmentOutcome::Refused);
        for piece in &one {
            assert_eq!(reassembly.take(Instant::ZERO, piece, 0).0, FragmentOutcome::Refused);
        }
        // RFC 1122 §3.3.2: after 60 s the host has removed its state of the packet, and accepts the packet's fragments
        // again.
        let later = Instant::ZERO + PATIENCE;
        assert_eq!(reassembly.take(later, &one[0], 0), (FragmentOutcome::Kept, 1));
        let rest: Vec<_> = one[1..].iter().map(|piece| reassembly.take(later, piece, 0).0).collect();
        assert!(matches!(rest.last(), Some(FragmentOutcome::Whole(..))));
        assert!(reassembly.partial.is_empty());
    }

    /// RFC 3168 §5.3: one marked fragment marks the packet, unless another fragment is not ECN-capable.
    #[test]
    fn a_mark_on_a_piece_marks_the_packet() {
        for (others, expected) in [(Ecn::Ect0, true), (Ecn::NotEct, false)] {
            let mut bytes = packet(&mut Rng::new(8), false, 3);
            ip::ecn::write(&mut bytes, others);
            let mut pieces = cut(&bytes, 600, 3);
            ip::ecn::write(&mut pieces[1], Ecn::Ce);
            let mut reassembly = Reassembly::default();
            let last = pieces.iter().map(|piece| reassembly.take(Instant::ZERO, piece, 0).0).last();
            match last {
                Some(FragmentOutcome::Whole(buffer, _)) if expected => {
                    assert_eq!(ip::ecn::read(&buffer[HEADROOM..]), Ecn::Ce);
                }
                other => assert!(!expected && other == Some(FragmentOutcome::Refused), "{other:?}"),
            }
        }
    }
}
