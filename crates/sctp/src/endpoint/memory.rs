//! Counts the bytes that an endpoint holds for its peers. This is the memory that an attacker could try to exhaust with
//! a flood of packets.
//!
//! `Endpoint::held_bytes` lists every field of the endpoint, so that the compiler demands a decision about each new
//! field.
//!
//! RFC 9260 §5.1.3, §12.2.4: an INIT leaves no state at the responder.

use super::Endpoint;
use super::demux::AddressKey;
use super::slots::Slot;
use crate::association::Association;
use crate::association::outbound::packet::StatelessPacket;
use crate::event::Event;
use crate::stats::{Interruption, PathChange};
use anabranch_base::Instant;
use std::mem::size_of;

impl Endpoint {
    /// Returns the number of bytes held for peers: associations, demultiplexer entries, used cookies, and queued
    /// packets and events. An association counts with its fixed size, without its buffers. Settings do not count. The
    /// call takes time in proportion to the number of slots.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config};
    /// let asked = Pair::new(Config::default(), Config::default(), 1, 1).b;
    /// assert_eq!(asked.held_bytes(), 0);
    /// let (pair, ..) = Pair::associated(&Config::default());
    /// assert!(pair.b.held_bytes() > 1_000);
    /// ```
    #[must_use]
    pub fn held_bytes(&self) -> usize {
        let Self {
            // These fields belong to the application or have a fixed size, so they do not count.
            config: _,
            addresses: _,
            local_addresses: _,
            rng: _,
            sealer: _,
            keys: _,
            listeners: _,
            port_configs: _,
            ephemeral: _,
            trace: _,
            next_tag: _,
            totals: _,
            accepts_zero_checksum: _,
            has_addresses: _,
            fast_path: _,
            replaces_restarted: _,
            awaits_route: _,
            shard: _,
            other_shards: _,
            // These fields hold state on behalf of peers, so the total includes their bytes.
            used_cookies,
            admission,
            ports,
            slots,
            free,
            demux,
            ready,
            deadlines,
            events,
            stateless_packets,
            path_changes,
            interruptions,
            claims,
        } = self;
        let associations = slots.iter().filter(|slot| slot.association.is_some()).count();
        let slot_address_keys: usize = slots.iter().map(|slot| slot.address_keys.len()).sum();
        let packets: usize = stateless_packets.iter().map(|packet| packet.bytes().len()).sum();
        let words = 2 * ports.len() + free.len() + ready.len();
        let (tags, demux_address_keys) = demux.sizes();
        associations * size_of::<Association>()
            + slots.len() * size_of::<Slot>()
            + (slot_address_keys + demux_address_keys) * size_of::<AddressKey>()
            + (words + 2 * tags + demux_address_keys) * size_of::<u32>()
            + (2 * used_cookies.count() + deadlines.len()) * size_of::<(Instant, u32)>()
            + events.len() * size_of::<Event>()
            + stateless_packets.len() * size_of::<StatelessPacket>()
            + packets
            + path_changes.len() * size_of::<PathChange>()
            + interruptions.len() * size_of::<Interruption>()
            + admission.held_bytes()
            + claims.len() * size_of::<super::Claim>()
    }
}
