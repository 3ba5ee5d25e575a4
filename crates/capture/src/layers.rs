//! Skips the headers between a link header and an IP packet: VLAN tags, MPLS labels, and the headers of PPP and PPPoE.
//! The same headers also occur inside tunnels.
//!
//! The work is bounded, because every header consumes bytes and the number of tunnels is limited.
//!
//! Implements RFC 3032 §2.1 (MPLS), RFC 2516 §4 and §6 (PPPoE), RFC 1661 §2 and RFC 1662 §3.1 (PPP), RFC 1042 (SNAP),
//! RFC 4448 §4.6 (Ethernet over MPLS).

use anabranch_wire::checksum::internet_checksum;
use anabranch_wire::ip::v6;

/// The maximum number of nested tunnels. Packets in more tunnels are ignored.
pub(super) const MAX_TUNNELS: usize = 8;

/// The captured bytes of a packet, and the number of bytes at its end that were not captured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct CapturedBytes<'a> {
    pub captured: &'a [u8],
    pub missing: usize,
}

impl<'a> CapturedBytes<'a> {
    /// Creates a value for a packet of `original_len` bytes, of which only the bytes `captured` are in the file.
    pub fn new(captured: &'a [u8], original_len: usize) -> Self {
        Self { captured, missing: original_len.saturating_sub(captured.len()) }
    }

    /// Returns the bytes of a packet that was captured completely.
    pub fn whole(captured: &'a [u8]) -> Self {
        Self { captured, missing: 0 }
    }

    /// Returns the length that the packet had on the wire, in bytes.
    pub fn len(self) -> usize {
        self.captured.len().saturating_add(self.missing)
    }

    /// Returns the bytes after a header of `count` bytes, or `None` if the header was not captured completely.
    pub fn after(self, count: usize) -> Option<Self> {
        Some(Self { captured: self.captured.get(count..)?, ..self })
    }

    /// Returns the packet shortened to at most `count` bytes.
    fn limit(self, count: usize) -> Self {
        let captured = &self.captured[..self.captured.len().min(count)];
        Self { captured, missing: self.len().min(count) - captured.len() }
    }

    /// Returns the big-endian 16-bit number at offset `at`.
    pub fn u16(self, at: usize) -> Option<u16> {
        Some(u16::from_be_bytes(*self.captured.get(at..)?.first_chunk()?))
    }

    /// Returns whether the version field has the value 4 or 6, as in IPv4 and IPv6.
    fn is_ip(self) -> bool {
        matches!(self.captured.first().map(|byte| byte >> 4), Some(4 | 6))
    }

    /// Returns whether the bytes look like an Ethernet frame and not like an IP packet. The first byte does not decide,
    /// because the destination address of a frame may begin with 4 or 6. Returns `None` if too few bytes were captured.
    pub fn is_ethernet(self) -> Option<bool> {
        let is_ip = self.is_plausible_ip();
        Some(!is_ip && matches!(self.u16(12)?, 0x0800 | 0x86dd | 0x8100 | 0x88a8 | 0x8847 | 0x8864))
    }

    /// Returns whether the bytes begin with an IPv4 header with a right checksum, or with an IPv6 header with a
    /// plausible length.
    fn is_plausible_ip(self) -> bool {
        match self.captured.first().map(|byte| (byte >> 4, usize::from(byte & 15) * 4)) {
            Some((4, length)) => self.captured.get(..length).is_some_and(|h| internet_checksum(h) == 0),
            Some((6, _)) => {
                self.u16(4).is_some_and(|length| v6::HEADER_LEN + usize::from(length) <= self.len())
            }
            _ => false,
        }
    }
}

/// The kind of header with which the bytes of a packet begin.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum HeaderKind {
    Ip,
    Ethernet,
    /// The protocol that this Ethernet type stands for.
    EtherType(u16),
    Ppp,
    Pppoe,
    Mpls,
}

/// Finds the IP packet behind a sequence of headers. `kind` is the kind of the first header. Appends the names of the
/// tunnels in the sequence to `tunnel`.
pub(super) fn ip<'a>(
    kind: HeaderKind,
    bytes: CapturedBytes<'a>,
    tunnel: &mut Vec<&'static str>,
) -> Option<CapturedBytes<'a>> {
    let (mut kind, mut bytes) = (kind, bytes);
    loop {
        if tunnel.len() > MAX_TUNNELS {
            return None;
        }
        (kind, bytes) = match kind {
            HeaderKind::Ip => return bytes.is_ip().then_some(bytes),
            HeaderKind::Ethernet => (HeaderKind::EtherType(bytes.u16(12)?), bytes.after(14)?),
            HeaderKind::EtherType(number) => ether_type(number, bytes, tunnel)?,
            HeaderKind::Mpls => labels(bytes)?,
            HeaderKind::Pppoe => pppoe(bytes)?,
            HeaderKind::Ppp => ppp(bytes, tunnel)?,
        };
    }
}

fn ether_type<'a>(
    number: u16,
    bytes: CapturedBytes<'a>,
    tunnel: &mut Vec<&'static str>,
) -> Option<(HeaderKind, CapturedBytes<'a>)> {
    Some(match number {
        0x0800 | 0x86dd => (HeaderKind::Ip, bytes),
        // IEEE 802.1Q and 802.1ad: a VLAN tag has four bytes. The last two are the next Ethernet type.
        0x8100 | 0x88a8 | 0x9100 => (HeaderKind::EtherType(bytes.u16(2)?), bytes.after(4)?),
        0x8847 | 0x8848 => {
            tunnel.push("MPLS");
            (HeaderKind::Mpls, bytes)
        }
        0x8864 => {
            tunnel.push("PPPoE");
            (HeaderKind::Pppoe, bytes)
        }
        // RFC 1701 assigns 0x6558 to bridged Ethernet frames.
        0x6558 => (HeaderKind::Ethernet, bytes),
        0x880b => (HeaderKind::Ppp, bytes),
        // RFC 1042: the field is the length of the frame. The Ethernet type follows in the LLC and SNAP headers.
        0..=1_500 if bytes.captured.starts_with(&[0xaa, 0xaa, 3, 0, 0, 0]) => {
            (HeaderKind::EtherType(bytes.u16(6)?), bytes.after(8)?)
        }
        _ => return None,
    })
}

/// RFC 3032 §2.1: skips the MPLS label stack. A label does not name the protocol of the payload, so the first bytes of
/// the payload show whether it is an Ethernet frame or an IP packet.
fn labels(mut bytes: CapturedBytes<'_>) -> Option<(HeaderKind, CapturedBytes<'_>)> {
    loop {
        let bottom = bytes.captured.get(2)? & 1 != 0;
        bytes = bytes.after(4)?;
        if bottom {
            break;
        }
    }
    // RFC 4448 §4.6: an Ethernet pseudowire may begin with a control word (RFC 4385 §3), whose first four bits are 0.
    // Without a control word, it begins with the frame's destination address, whose first four bits may be 0, too. The
    // position of the Ethernet type therefore shows whether there is a control word.
    if bytes.is_ethernet()? {
        return Some((HeaderKind::Ethernet, bytes));
    }
    if bytes.is_ip() {
        return Some((HeaderKind::Ip, bytes));
    }
    let control = bytes.captured.first()? >> 4 == 0;
    Some((HeaderKind::Ethernet, if control { bytes.after(4)? } else { bytes }))
}

/// RFC 2516 §4, §6: the header has version 1 and type 1, code 0, a session identifier, and the length of the payload.
fn pppoe(bytes: CapturedBytes<'_>) -> Option<(HeaderKind, CapturedBytes<'_>)> {
    if bytes.u16(0)? != 0x1100 {
        return None;
    }
    Some((HeaderKind::Ppp, bytes.after(6)?.limit(bytes.u16(4)?.into())))
}

fn ppp<'a>(
    mut bytes: CapturedBytes<'a>,
    tunnel: &mut Vec<&'static str>,
) -> Option<(HeaderKind, CapturedBytes<'a>)> {
    // RFC 1662 §3.1: skips the address and control fields, if they are present.
    if bytes.captured.starts_with(&[0xff, 3]) {
        bytes = bytes.after(2)?;
    }
    // RFC 1661 §2: the protocol number has two bytes, or one byte if compressed. Only its last byte has the lowest bit
    // set.
    let first = *bytes.captured.first()?;
    let (protocol, length) = if first & 1 != 0 { (first.into(), 1) } else { (bytes.u16(0)?, 2) };
    let bytes = bytes.after(length)?;
    match protocol {
        0x0021 | 0x0057 => Some((HeaderKind::Ip, bytes)),
        0x0281 | 0x0283 => {
            tunnel.push("MPLS");
            Some((HeaderKind::Mpls, bytes))
        }
        _ => None,
    }
}
