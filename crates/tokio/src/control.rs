//! Changes an existing association: its paths and addresses, its streams, and its shared keys.
//!
//! Implements parts of RFC 9260 §11.1.6, RFC 5061 §4, RFC 6525 §6 and RFC 4895 §3 (keys). A call that needs the peer's
//! consent sends a request and returns immediately. The peer's answer arrives through [`Association::events`].

use crate::association::Association;
use anabranch_sctp::{
    AddressError, Direction, KeyError, PrimaryError, ResetError, SchedulerError, SchedulerKind,
};
use std::net::IpAddr;

impl Association {
    /// Makes this address of the peer the primary destination (RFC 9260 §11.1.6).
    ///
    /// # Errors
    /// [`PrimaryError`], if the peer does not have this address, or if the address is not verified yet.
    pub fn set_primary(&self, address: IpAddr) -> Result<(), PrimaryError> {
        let id = self.handle.id();
        self.handle.with(|state, now| {
            let info = state.endpoint.info(id).ok_or(PrimaryError::Unknown)?;
            let path = info.paths.iter().position(|path| path.address == address && !path.removed);
            state.endpoint.set_primary(now, id, path.ok_or(PrimaryError::Unknown)?)
        })
    }

    /// Asks the peer to make this local address its primary destination (RFC 5061 §4.2.4).
    pub fn set_peer_primary(&self, address: IpAddr) -> Result<(), AddressError> {
        self.handle.with(|state, now| state.endpoint.set_peer_primary(now, self.handle.id(), address))
    }

    /// Adds this address of the endpoint to the association, and announces it to the peer (RFC 5061). The peer's answer
    /// is the event [`Event::LocalAddress`](crate::Event::LocalAddress). At the start, an association uses all
    /// addresses of its endpoint.
    ///
    /// # Errors
    /// [`AddressError`], if the association has ended, or if its addresses are fixed
    /// ([`ConfigBuilder::dynamic_addresses`](crate::ConfigBuilder::dynamic_addresses)).
    pub fn add_address(&self, address: IpAddr) -> Result<(), AddressError> {
        self.handle.with(|state, now| state.endpoint.use_address(now, self.handle.id(), address, true))
    }

    /// Removes this local address from the association, and announces the removal to the peer. Other associations keep
    /// the address.
    ///
    /// # Errors
    /// The errors of [`add_address`](Self::add_address).
    pub fn remove_address(&self, address: IpAddr) -> Result<(), AddressError> {
        self.handle.with(|state, now| state.endpoint.use_address(now, self.handle.id(), address, false))
    }

    /// Resets these streams, or all streams if the list is empty, so that their next message has the sequence number 0
    /// (RFC 6525 §6.3.2). Messages sent before this call are transmitted first. Messages sent after it wait for the
    /// peer's answer. The answer is the event [`Event::StreamsReset`](crate::Event::StreamsReset) or
    /// [`Event::ResetFailed`](crate::Event::ResetFailed).
    ///
    /// # Errors
    /// [`ResetError`], if no request was sent.
    pub fn reset_streams(&self, direction: Direction, streams: &[u16]) -> Result<(), ResetError> {
        self.handle.with(|state, now| state.endpoint.reset_streams(now, self.handle.id(), direction, streams))
    }

    /// Requests additional streams: `outgoing` for this side to send on, and `incoming` for the peer to send on (RFC
    /// 6525 §6.3.4). The answer for each direction is the event [`Event::StreamsAdded`](crate::Event::StreamsAdded) or
    /// [`Event::AddFailed`](crate::Event::AddFailed).
    ///
    /// # Errors
    /// [`ResetError`], if no request was sent.
    pub fn add_streams(&self, outgoing: u16, incoming: u16) -> Result<(), ResetError> {
        self.handle.with(|state, now| state.endpoint.add_streams(now, self.handle.id(), outgoing, incoming))
    }

    /// Abandons all unacknowledged messages of a stream (RFC 3758). Each abandoned message causes an event
    /// [`Event::Abandoned`](crate::Event::Abandoned).
    pub fn cancel_stream(&self, stream: u16) {
        self.handle.with(|state, now| state.endpoint.cancel(now, self.handle.id(), stream));
    }

    /// Sets the order in which streams with data are served from now on (RFC 8260 §3).
    ///
    /// # Errors
    /// [`SchedulerError`], if the association has ended.
    pub fn set_scheduler(&self, kind: SchedulerKind) -> Result<(), SchedulerError> {
        self.handle.with(|state, now| state.endpoint.set_scheduler(now, self.handle.id(), kind))
    }

    /// Adds or replaces the shared key with this number (RFC 4895). At the start there is only key 0, which is empty
    /// and active.
    ///
    /// # Errors
    /// [`KeyError`], if the key cannot be set.
    pub fn set_key(&self, key: u16, secret: impl AsRef<[u8]>) -> Result<(), KeyError> {
        self.handle.with(|state, _| state.endpoint.set_key(Some(self.handle.id()), key, secret.as_ref()))
    }

    /// Uses this key to authenticate chunks that are sent from now on.
    ///
    /// # Errors
    /// [`KeyError`], if the key cannot be activated.
    pub fn activate_key(&self, key: u16) -> Result<(), KeyError> {
        self.handle.with(|state, _| state.endpoint.activate_key(Some(self.handle.id()), key))
    }

    /// Stops authenticating chunks with this key. [`Event::Key`](crate::Event::Key) reports when the last chunk with
    /// this key is no longer in flight.
    ///
    /// # Errors
    /// [`KeyError`], if the key cannot be deactivated.
    pub fn deactivate_key(&self, key: u16) -> Result<(), KeyError> {
        self.handle.with(|state, now| state.endpoint.deactivate_key(now, self.handle.id(), key))
    }

    /// Deletes a key. Chunks that the peer authenticates with this key are no longer accepted.
    ///
    /// # Errors
    /// [`KeyError`], if the key cannot be deleted.
    pub fn delete_key(&self, key: u16) -> Result<(), KeyError> {
        self.handle.with(|state, _| state.endpoint.delete_key(Some(self.handle.id()), key))
    }
}
