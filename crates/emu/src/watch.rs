//! Detects the first user data that is sent after a given time, to measure how long a transport takes to recover from a
//! failure.
//!
//! Packets are examined only until the first packet with user data has left the link. A packet has user data if it is a
//! TCP segment with a payload, or an SCTP packet with a DATA or I-DATA chunk. SCTP packets may be on IP or in UDP (RFC
//! 6951).

use anabranch_base::Instant;
use anabranch_wire::ip::{self, protocol};
use anabranch_wire::sctp::PacketView;
use anabranch_wire::{tcp, udp};

/// Watches a link for user data. Holds the time at which user data first left the link. Data that entered the link at
/// or before another time, `after`, is ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Watch {
    after: Instant,
    first_data_at: Option<Instant>,
}

impl Watch {
    /// Creates a watch for the first user data that enters a link later than `after`.
    #[must_use]
    pub const fn after(after: Instant) -> Self {
        Self { after, first_data_at: None }
    }

    /// Returns the time at which user data first left the link; `None` if none has left yet. Data that entered the link
    /// before the start of the watch does not count.
    #[must_use]
    pub const fn first_data_at(&self) -> Option<Instant> {
        self.first_data_at
    }

    /// Examines a packet that entered the link at `entered` and leaves it at `now`.
    pub(crate) fn inspect(&mut self, entered: Instant, now: Instant, packet: &[u8]) {
        if self.first_data_at.is_none() && entered > self.after && has_user_data(packet) {
            self.first_data_at = Some(now);
        }
    }
}

/// Returns whether an IP packet contains user data of TCP or SCTP. Of a fragmented packet, only the first fragment is
/// examined.
fn has_user_data(packet: &[u8]) -> bool {
    let Ok(packet) = ip::Packet::parse_quoted(packet) else { return false };
    if packet.fragment.is_some_and(|piece| piece.offset > 0) {
        return false;
    }
    match packet.protocol {
        protocol::TCP => tcp::Segment::parse(packet.payload).is_ok_and(|segment| !segment.payload.is_empty()),
        protocol::SCTP => has_chunks_of_data(packet.payload),
        protocol::UDP => udp::Datagram::parse_quoted(packet.payload)
            .is_ok_and(|datagram| has_chunks_of_data(datagram.payload)),
        _ => false,
    }
}

fn has_chunks_of_data(packet: &[u8]) -> bool {
    let Ok(packet) = PacketView::parse_unverified(packet) else { return false };
    let mut chunks = packet.chunks();
    while let Some(Ok(chunk)) = chunks.next_raw() {
        if [DATA, I_DATA].contains(&chunk.kind) {
            return true;
        }
    }
    false
}

/// The types of the chunks DATA and I-DATA (RFC 9260 §3.3.1, RFC 8260 §2.1).
const DATA: u8 = 0;
const I_DATA: u8 = 64;

#[cfg(test)]
mod tests {
    use super::*;
    use anabranch_wire::ip::v4;

    fn ipv4(protocol: u8, payload: &[u8]) -> Vec<u8> {
        let mut packet = vec![0; v4::HEADER_LEN];
        let (from, to) = ([10, 0, 0, 1].into(), [10, 0, 0, 2].into());
        v4::Header::new(from, to, protocol, payload.len() as u16).emit(&mut packet);
        packet.extend_from_slice(payload);
        packet
    }

    fn sctp(chunks: &[u8]) -> Vec<u8> {
        [&[0, 80, 0, 80, 0, 0, 0, 1, 0, 0, 0, 0][..], chunks].concat()
    }

    fn udp(payload: &[u8]) -> Vec<u8> {
        [&[0x26, 0xab, 0x26, 0xab, 0, 8 + payload.len() as u8, 0, 0][..], payload].concat()
    }

    /// Returns a TCP header without options, followed by `payload`.
    fn tcp(payload: &[u8]) -> Vec<u8> {
        let mut segment = vec![0; 20];
        segment[12] = 5 << 4;
        segment.extend_from_slice(payload);
        segment
    }

    const SACK: [u8; 16] = [3, 0, 0, 16, 0, 0, 0, 9, 0, 0, 16, 0, 0, 0, 0, 0];
    const PIECE: [u8; 20] = [0, 3, 0, 17, 0, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 0, b'x', 0, 0, 0];
    const I_PIECE: [u8; 24] = {
        let mut chunk = [0; 24];
        (chunk[0], chunk[3]) = (64, 21);
        chunk
    };

    #[test]
    fn user_data_is_distinguished_from_control_packets() {
        let both = [&SACK[..], &PIECE[..]].concat();
        for (data, packet) in [
            (true, ipv4(protocol::TCP, &tcp(b"x"))),
            (false, ipv4(protocol::TCP, &tcp(b""))),
            (true, ipv4(protocol::SCTP, &sctp(&PIECE))),
            (true, ipv4(protocol::SCTP, &sctp(&I_PIECE))),
            (true, ipv4(protocol::SCTP, &sctp(&both))),
            (false, ipv4(protocol::SCTP, &sctp(&SACK))),
            (true, ipv4(protocol::UDP, &udp(&sctp(&both)))),
            (false, ipv4(protocol::UDP, &udp(&sctp(&SACK)))),
            (false, ipv4(protocol::UDP, &udp(b"query"))),
            (false, ipv4(1, b"ping")),
        ] {
            assert_eq!(has_user_data(&packet), data, "{packet:02x?}");
            // A packet that is truncated anywhere must not cause a panic.
            for length in 0..packet.len() {
                let _ = has_user_data(&packet[..length]);
            }
        }
    }

    #[test]
    fn only_data_that_entered_after_the_start_counts() {
        let (data, bare) = (ipv4(protocol::TCP, &tcp(b"x")), ipv4(protocol::TCP, &tcp(b"")));
        let mut watch = Watch::after(Instant::from_millis(10));
        let at = Instant::from_millis;
        watch.inspect(at(9), at(12), &data);
        watch.inspect(at(11), at(13), &bare);
        assert_eq!(watch.first_data_at(), None);
        watch.inspect(at(11), at(14), &data);
        watch.inspect(at(12), at(15), &data);
        assert_eq!(watch.first_data_at(), Some(at(14)));
    }
}
