//! A digest of everything that happens in a simulation run, and counters of the packets that hosts discard.
//!
//! The digest covers the kind and the time of every event, the index of its link, timer or socket, and all bytes of its
//! packet, if it has one. Two runs with equal digests had the same events at the same times. A trail is a list that
//! holds the digest after each event of a run. The first difference between two trails shows where their runs diverge.

use anabranch_base::Instant;

/// Counters of the packets that a host has handled and, by reason, of the packets that it has discarded.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct HostCounters {
    /// Packets that the host handed to the network.
    pub sent: u64,
    /// Packets that arrived at one of the host's interfaces.
    pub received: u64,
    /// Packets that a router forwarded.
    pub forwarded: u64,
    /// Packets without a valid IP header, or with a wrong header checksum.
    pub bad_header: u64,
    /// UDP datagrams or ICMP messages with a wrong checksum or length.
    pub bad_transport: u64,
    /// Packets that had to be fragmented before they were sent.
    pub fragmented: u64,
    /// Fragments, addressed to this host, that arrived at it.
    pub fragments: u64,
    /// Packets that were reassembled from fragments.
    pub reassembled: u64,
    /// Fragments that contradict other fragments of their packet, and incomplete packets that were dropped. An
    /// incomplete packet is dropped if a fragment is missing for too long or if too many packets are incomplete.
    pub reassembly_failed: u64,
    /// Packets for addresses that this host does not have.
    pub not_ours: u64,
    /// Packets for which no route or no link was found.
    pub no_route: u64,
    /// Packets whose hop limit ran out.
    pub hop_limit: u64,
    /// Packets for ports and protocols to which no socket of the host is bound.
    pub stray: u64,
    /// Packets dropped because a socket's queue was full.
    pub socket_full: u64,
    /// Packets dropped because the processor's queue was full.
    pub processor_full: u64,
    /// Packets larger than the MTU of their outgoing interface.
    pub too_big: u64,
    /// Packets that the host's own packet filter dropped when the host sent them.
    pub filtered: u64,
}

/// The kinds of events of a simulation that enter the digest.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub(crate) enum AuditEvent {
    Entered = 1,
    Left = 2,
    Lost = 3,
    Delivered = 4,
    Timer = 5,
    Change = 6,
    Filtered = 7,
}

/// A running digest of events.
#[derive(Clone, Debug)]
pub(crate) struct Audit {
    digest: u64,
    /// The digest after each event, if the caller has requested a trail.
    trail: Option<Vec<(Instant, u64)>>,
}

impl Audit {
    pub(crate) fn new(trail: bool) -> Self {
        Self { digest: 0x6a09_e667_f3bc_c908, trail: trail.then(Vec::new) }
    }

    pub(crate) fn digest(&self) -> u64 {
        self.digest
    }

    pub(crate) fn trail(&self) -> &[(Instant, u64)] {
        self.trail.as_deref().unwrap_or_default()
    }

    pub(crate) fn record(&mut self, kind: AuditEvent, at: Instant, place: u32, bytes: &[u8]) {
        let mut hash = self.digest;
        hash = mix(hash, u64::from(place) << 8 | kind as u64);
        hash = mix(hash, at.as_nanos());
        hash = mix(hash, bytes.len() as u64);
        // The bytes are mixed into four independent partial digests ("lanes"), so that no multiplication has to wait
        // for the result of the previous multiplication.
        let mut lanes = [hash, !hash, hash.rotate_left(16), hash.rotate_left(32)];
        let mut blocks = bytes.chunks_exact(32);
        for block in &mut blocks {
            for (lane, word) in lanes.iter_mut().zip(block.chunks_exact(8)) {
                *lane = mix(*lane, word_of(word));
            }
        }
        for (lane, word) in lanes.iter_mut().zip(blocks.remainder().chunks(8)) {
            *lane = mix(*lane, word_of(word));
        }
        self.digest = lanes.into_iter().fold(hash, mix);
        if let Some(trail) = &mut self.trail {
            trail.push((at, self.digest));
        }
    }
}

/// Converts up to eight bytes, in little-endian order, to a number.
#[inline]
fn word_of(bytes: &[u8]) -> u64 {
    let mut word = [0; 8];
    word[..bytes.len()].copy_from_slice(bytes);
    u64::from_le_bytes(word)
}

/// Mixes `word` into the digest `hash`: multiplies, and XORs the upper half of the product into the lower half. Both
/// the order of the words and every bit matter.
#[inline]
fn mix(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word ^ 0x9e37_79b9_7f4a_7c15) * 0xd6e8_feb8_6659_fd93_u128;
    (product as u64) ^ ((product >> 64) as u64).rotate_left(23)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digest(events: &[(AuditEvent, u64, u32, &[u8])]) -> u64 {
        let mut audit = Audit::new(false);
        for (kind, at, place, bytes) in events {
            audit.record(*kind, Instant::from_nanos(*at), *place, bytes);
        }
        audit.digest()
    }

    #[test]
    fn kind_time_place_bytes_and_order_all_count() {
        let base = digest(&[(AuditEvent::Left, 1, 2, &[1; 9]), (AuditEvent::Timer, 3, 4, &[])]);
        assert_eq!(base, digest(&[(AuditEvent::Left, 1, 2, &[1; 9]), (AuditEvent::Timer, 3, 4, &[])]));
        for other in [
            digest(&[(AuditEvent::Lost, 1, 2, &[1; 9]), (AuditEvent::Timer, 3, 4, &[])]),
            digest(&[(AuditEvent::Left, 2, 2, &[1; 9]), (AuditEvent::Timer, 3, 4, &[])]),
            digest(&[(AuditEvent::Left, 1, 3, &[1; 9]), (AuditEvent::Timer, 3, 4, &[])]),
            digest(&[(AuditEvent::Left, 1, 2, &[1; 10]), (AuditEvent::Timer, 3, 4, &[])]),
            digest(&[(AuditEvent::Left, 1, 2, &[1, 1, 1, 1, 1, 1, 1, 1, 2]), (AuditEvent::Timer, 3, 4, &[])]),
            digest(&[(AuditEvent::Timer, 3, 4, &[]), (AuditEvent::Left, 1, 2, &[1; 9])]),
        ] {
            assert_ne!(base, other);
        }
    }
}
