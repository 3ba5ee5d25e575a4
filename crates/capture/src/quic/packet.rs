//! Splits datagrams into QUIC packets, and decrypts the packets.
//!
//! Implements RFC 8999, RFC 9000 §17 (headers), RFC 9001 §5.4 (header protection) and
//! §6 (key updates), RFC 9369 §3.2 (packet types of version 2).

use crate::keys::{Protocol, SAMPLE, TrafficKeys, nearest};
use anabranch_wire::quic::Frames;
use ring::aead::quic::HeaderProtectionKey;

/// The longest connection ID in bytes (RFC 9000 §17.2).
pub(super) const MAX_ID: usize = 20;

/// The type of a packet. The two types of packets with application data share a packet number space (RFC 9000 §12.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PacketType {
    Initial,
    ZeroRtt,
    Handshake,
    Retry,
    OneRtt,
}

impl PacketType {
    /// Returns the index of the packet number space.
    pub fn space(self) -> usize {
        match self {
            Self::Initial | Self::Retry => 0,
            Self::Handshake => 1,
            Self::ZeroRtt | Self::OneRtt => 2,
        }
    }

    pub fn name(self) -> &'static str {
        match self {
            Self::Initial => "Initial",
            Self::ZeroRtt => "0-RTT",
            Self::Handshake => "Handshake",
            Self::Retry => "Retry",
            Self::OneRtt => "1-RTT",
        }
    }
}

/// The maximum number of key updates between two packets of one side. RFC 9001 §6.1 allows one, but a capture may lack
/// packets, and aioquic makes several at once.
pub(super) const MAX_UPDATES: u32 = 8;

/// The header of a packet, as far as it is not encrypted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Header<'a> {
    pub kind: PacketType,
    /// The protocol version. `None` in a short header.
    pub protocol: Option<Protocol>,
    pub target: &'a [u8],
    pub source: &'a [u8],
    /// The offset of the packet number in the packet.
    number_at: usize,
    /// The length of the packet, which may be followed by another one in the datagram.
    pub end: usize,
}

impl<'a> Header<'a> {
    /// Parses the header of the packet at the start of `bytes`. `id_len` is the length of the connection ID in a short
    /// header. Returns `None` if there is no QUIC packet of version 1 or 2.
    pub fn parse(bytes: &'a [u8], id_len: usize) -> Option<Self> {
        let first = *bytes.first()?;
        // Does not check the fixed bit 0x40 of a short header, because RFC 9287 lets peers grease it after the
        // handshake.
        if first & 0x80 == 0 {
            let target = bytes.get(1..1 + id_len)?;
            let (kind, end) = (PacketType::OneRtt, bytes.len());
            return Some(Self { kind, protocol: None, target, source: &[], number_at: 1 + id_len, end });
        }
        let protocol = match u32::from_be_bytes(*bytes.get(1..)?.first_chunk()?) {
            1 => Protocol::Quic1,
            0x6b33_43cf => Protocol::Quic2,
            _ => return None,
        };
        // RFC 9369 §3.2: version 2 numbers the types differently.
        let number = (first >> 4) + if protocol == Protocol::Quic2 { 3 } else { 0 };
        let kind = match number & 3 {
            0 => PacketType::Initial,
            1 => PacketType::ZeroRtt,
            2 => PacketType::Handshake,
            _ => PacketType::Retry,
        };
        let mut rest = Frames(&bytes[5..]);
        let mut id = || {
            let length = rest.bytes(1)?[0];
            rest.bytes(length.into()).filter(|id| id.len() <= MAX_ID)
        };
        let (target, source) = (id()?, id()?);
        let (mut number_at, mut end) = (bytes.len(), bytes.len());
        if kind != PacketType::Retry {
            if kind == PacketType::Initial {
                let token = rest.number()?;
                rest.bytes(token)?;
            }
            let length = usize::try_from(rest.number()?).ok()?;
            number_at = bytes.len() - rest.0.len();
            end = number_at.checked_add(length).filter(|end| *end <= bytes.len())?;
        }
        Some(Self { kind, protocol: Some(protocol), target, source, number_at, end })
    }
}

/// The keys of one direction and one packet type.
pub(super) struct PacketKeys {
    header: HeaderProtectionKey,
    current: TrafficKeys,
    /// The key phase of `current`.
    phase: bool,
    /// The lowest number of a packet that `current` has decrypted.
    since: u64,
    next: Option<TrafficKeys>,
    previous: Option<TrafficKeys>,
}

impl PacketKeys {
    pub fn new(keys: TrafficKeys) -> Option<Self> {
        let (header, next) = (keys.header_protection()?, keys.next());
        Some(Self { header, current: keys, phase: false, since: u64::MAX, next, previous: None })
    }

    /// Decrypts a packet of a datagram. `largest` is the largest packet number decrypted so far in this direction and
    /// space. Assumes at most `most_updates` key updates since the previous packet. Returns the packet number and the
    /// payload.
    pub fn open(
        &mut self,
        bytes: &[u8],
        header: &Header<'_>,
        largest: Option<u64>,
        most_updates: u32,
    ) -> Option<(u64, Vec<u8>)> {
        let mut packet = bytes.get(..header.end)?.to_vec();
        let sample = packet.get(header.number_at + 4..)?.get(..SAMPLE)?;
        let mask = self.header.new_mask(sample).ok()?;
        let is_short = header.kind == PacketType::OneRtt;
        packet[0] ^= mask[0] & if is_short { 0x1f } else { 0x0f };
        let (first, length) = (packet[0], usize::from(packet[0] & 3) + 1);
        let number = packet.get_mut(header.number_at..header.number_at + length)?;
        number.iter_mut().zip(&mask[1..]).for_each(|(byte, mask)| *byte ^= mask);
        let low = number.iter().fold(0, |low, byte| low << 8 | u64::from(*byte));
        let number = nearest(low, 8 * length as u32, largest.map_or(0, |largest| largest + 1));
        let (head, body) = packet.split_at_mut_checked(header.number_at + length)?;
        let phase = is_short && first & 0x04 != 0;
        let is_current = phase == self.phase;
        if is_current && let Some(payload) = self.current.key.open(number, head, body) {
            self.since = self.since.min(number);
            return Some((number, payload.to_vec()));
        }
        // RFC 9001 §6.5: a packet of the other key phase belongs to the previous keys if its number is lower than the
        // numbers of the current keys. A side may answer a key update before it has used its first keys.
        if !is_current && number < self.since && self.since != u64::MAX {
            return Some((number, self.previous.as_ref()?.key.open(number, head, body)?.to_vec()));
        }
        let next = self.next.as_ref().filter(|_| is_short)?;
        let mut later = None;
        for updates in 1..=most_updates {
            if updates > 1 {
                later = Some(later.as_ref().unwrap_or(next).next()?);
            }
            if (updates % 2 == 0) != is_current {
                continue;
            }
            body.copy_from_slice(&bytes[header.number_at + length..header.end]);
            let Some(payload) = later.as_ref().unwrap_or(next).key.open(number, head, body) else { continue };
            let payload = payload.to_vec();
            let keys = later.or_else(|| self.next.take())?;
            self.next = keys.next();
            self.previous = Some(std::mem::replace(&mut self.current, keys));
            (self.phase, self.since) = (phase, number);
            return Some((number, payload));
        }
        None
    }
}
