//! The endpoint's own addresses, which may change during an association.
//!
//! An association whose peer supports ASCONF follows changes of the endpoint's addresses automatically. Any other
//! association keeps the addresses of the handshake, and its paths from a removed local address fail.
//!
//! Implements RFC 6458 §9.1 (`sctp_bindx`) as far as it concerns the engine.

use super::{AssociationId, Endpoint};
use crate::association::Local;
use crate::error::AddressError;
use anabranch_base::Instant;
use std::net::{IpAddr, SocketAddr};

/// RFC 791 §3.1: limits an MTU to the size of the largest IP packet.
pub(super) fn largest_mtu(mtu: u32) -> u32 {
    mtu.min(u32::from(u16::MAX))
}

impl Endpoint {
    /// Adds a local address, on an interface that takes packets of up to `mtu` bytes (at most 65,535). Associations
    /// with dynamic addresses announce the address to their peers.
    ///
    /// ```
    /// # use anabranch_sctp::testing::Pair;
    /// # use anabranch_sctp::Config;
    /// let mut config = Config::default();
    /// config.set("auth", "yes")?;
    /// config.set("asconf", "yes")?;
    /// let (mut pair, _, there) = Pair::associated(&config);
    /// pair.a.add_address(pair.now, "10.0.2.1:0".parse()?, 1500);
    /// pair.settle();
    /// assert_eq!(pair.b.info(there).map(|info| info.paths.len()), Some(2), "the peer has been told");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn add_address(&mut self, now: Instant, address: SocketAddr, mtu: u32) {
        if self.local_addresses.iter().any(|local| local.address.ip() == address.ip()) {
            return;
        }
        self.addresses.push(address);
        self.local_addresses.push(Local { address, mtu: largest_mtu(mtu) });
        self.local_addresses_changed(now);
    }

    /// Removes a local address. Associations with dynamic addresses announce the removal to their peers. If this was
    /// the last local address, the announcement is delayed until another local address is added.
    ///
    /// ```
    /// # use anabranch_sctp::testing::{address, Pair, Side};
    /// # use anabranch_sctp::{Config, Event};
    /// # let mut config = Config::default();
    /// # config.set("auth", "yes")?;
    /// # config.set("asconf", "yes")?;
    /// # let (mut pair, here, there) = Pair::associated(&config);
    /// # let other = "10.0.2.1:0".parse()?;
    /// # pair.a.add_address(pair.now, other, 1500);
    /// # pair.settle();
    /// # let _ = here;
    /// pair.a.remove_address(pair.now, address(Side::A, 0).ip());
    /// pair.settle();
    /// let gone = |event: &Event| matches!(event, Event::PathRemoved { id, .. } if *id == there);
    /// assert!(pair.events(Side::B).iter().any(gone), "the peer is told from the other address");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn remove_address(&mut self, now: Instant, address: IpAddr) {
        self.addresses.retain(|other| other.ip() != address);
        self.local_addresses.retain(|local| local.address.ip() != address);
        self.local_addresses_changed(now);
    }

    fn local_addresses_changed(&mut self, now: Instant) {
        for slot in 0..self.slots.len() as u32 {
            let Some(association) = &self.slots[slot as usize].association else { continue };
            if !association.was_established() {
                self.with(now, slot, |association, ctx| association.begin_from_another(ctx));
            } else if association.extensions().agreed().asconf {
                self.with(now, slot, |association, ctx| association.local_addresses_changed(ctx));
            }
        }
    }

    /// Sets whether one association uses a local address, and informs the peer.
    ///
    /// ```
    /// # use anabranch_sctp::testing::{Pair, Side};
    /// # use anabranch_sctp::{Config, Event};
    /// # let mut config = Config::default();
    /// # config.set("auth", "yes")?;
    /// # config.set("asconf", "yes")?;
    /// # let (mut pair, here, there) = Pair::associated(&config);
    /// # let other = "10.0.2.1:0".parse()?;
    /// # pair.a.add_address(pair.now, other, 1500);
    /// # pair.settle();
    /// pair.a.use_address(pair.now, here, other.ip(), false)?;
    /// pair.settle();
    /// let gone = |event: &Event| matches!(event, Event::PathRemoved { id, .. } if *id == there);
    /// assert!(pair.events(Side::B).iter().any(gone), "the peer has removed its path to this address");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn use_address(
        &mut self,
        now: Instant,
        id: AssociationId,
        address: IpAddr,
        wanted: bool,
    ) -> Result<(), AddressError> {
        let slot = self.find(id).ok_or(AddressError::Unknown)?;
        match self.with(now, slot, |association, ctx| association.use_address(ctx, address, wanted)) {
            Some(true) => Ok(()),
            _ => Err(AddressError::NotDynamic),
        }
    }

    /// Asks the peer to use this local address as its primary destination.
    ///
    /// ```
    /// # use anabranch_sctp::testing::{Pair, Side};
    /// # use anabranch_sctp::{Config, Event};
    /// # let mut config = Config::default();
    /// # config.set("auth", "yes")?;
    /// # config.set("asconf", "yes")?;
    /// # let (mut pair, here, there) = Pair::associated(&config);
    /// # let other = "10.0.2.1:0".parse()?;
    /// # pair.a.add_address(pair.now, other, 1500);
    /// # pair.settle();
    /// pair.a.set_peer_primary(pair.now, here, other.ip())?;
    /// pair.settle();
    /// let moved = |event: &Event| matches!(event, Event::PrimaryChanged { id, .. } if *id == there);
    /// assert!(pair.events(Side::B).iter().any(moved));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`AddressError`].
    pub fn set_peer_primary(
        &mut self,
        now: Instant,
        id: AssociationId,
        address: IpAddr,
    ) -> Result<(), AddressError> {
        let slot = self.find(id).ok_or(AddressError::Unknown)?;
        match self.with(now, slot, |association, ctx| association.set_peer_primary(ctx, address)) {
            Some(true) => Ok(()),
            _ => Err(AddressError::NotDynamic),
        }
    }
}
