//! What a program may change of a living association: paths and addresses, streams, shared keys.
//!
//! Home of RFC 9260 §11.1.6, RFC 5061 §4, RFC 6525 §6, RFC 4895 §3 (keys) as far as this crate goes. Each call asks and returns
//! at once: what the peer says to it comes by [`Association::events`].

use crate::association::Association;
use anabranch_sctp::{
    AddressError, Direction, KeyError, PrimaryError, ResetError, SchedulerError, SchedulerKind,
};
use std::net::IpAddr;

impl Association {
    /// Sends to this address of the peer first (RFC 9260 §11.1.6).
    ///
    /// # Errors
    /// [`PrimaryError`]: the peer has no such address, or it is not verified yet.
    pub fn set_primary(&self, address: IpAddr) -> Result<(), PrimaryError> {
        let id = self.handle.id();
        self.handle.with(|state, now| {
            let info = state.endpoint.info(id).ok_or(PrimaryError::Unknown)?;
            let path = info.paths.iter().position(|path| path.address == address && !path.removed);
            state.endpoint.set_primary(now, id, path.ok_or(PrimaryError::Unknown)?)
        })
    }

    /// Asks the peer to send to this address of ours first (RFC 5061 §4.2.4).
    ///
    /// # Errors
    /// [`AddressError`]: the association has ended, or its addresses are fixed.
    pub fn set_peer_primary(&self, address: IpAddr) -> Result<(), AddressError> {
        self.handle.with(|state, now| state.endpoint.set_peer_primary(now, self.handle.id(), address))
    }

    /// Uses this address of the endpoint, too, and tells the peer (RFC 5061); the answer is
    /// [`Event::LocalAddress`](crate::Event::LocalAddress). An association uses all addresses of its endpoint to begin with.
    ///
    /// # Errors
    /// [`AddressError`]: the association has ended, or its addresses are fixed
    /// ([`ConfigBuilder::dynamic_addresses`](crate::ConfigBuilder::dynamic_addresses)).
    pub fn add_address(&self, address: IpAddr) -> Result<(), AddressError> {
        self.handle.with(|state, now| state.endpoint.use_address(now, self.handle.id(), address, true))
    }

    /// Uses this address no longer, and tells the peer; other associations keep it.
    ///
    /// # Errors
    /// As [`add_address`](Self::add_address).
    pub fn remove_address(&self, address: IpAddr) -> Result<(), AddressError> {
        self.handle.with(|state, now| state.endpoint.use_address(now, self.handle.id(), address, false))
    }

    /// Has streams begin anew (none named: all): their next message has number 0 (RFC 6525 §6.3.2). What was sent before goes
    /// out first, and what is sent from now on waits for the peer's answer, which is
    /// [`Event::StreamsReset`](crate::Event::StreamsReset) or [`Event::ResetFailed`](crate::Event::ResetFailed).
    ///
    /// # Errors
    /// [`ResetError`]: nothing was asked.
    pub fn reset_streams(&self, direction: Direction, streams: &[u16]) -> Result<(), ResetError> {
        self.handle.with(|state, now| state.endpoint.reset_streams(now, self.handle.id(), direction, streams))
    }

    /// Asks for more streams, to send on and for the peer to send on (RFC 6525 §6.3.4). The answer is
    /// [`Event::StreamsAdded`](crate::Event::StreamsAdded) or [`Event::AddFailed`](crate::Event::AddFailed), for each direction.
    ///
    /// # Errors
    /// [`ResetError`]: nothing was asked.
    pub fn add_streams(&self, outgoing: u16, incoming: u16) -> Result<(), ResetError> {
        self.handle.with(|state, now| state.endpoint.add_streams(now, self.handle.id(), outgoing, incoming))
    }

    /// Gives up all that is not acknowledged on a stream (RFC 3758); [`Event::Abandoned`](crate::Event::Abandoned) tells of each
    /// message.
    pub fn cancel_stream(&self, stream: u16) {
        self.handle.with(|state, now| state.endpoint.cancel(now, self.handle.id(), stream));
    }

    /// In which order streams with something to send take turns from now on (RFC 8260 §3).
    ///
    /// # Errors
    /// The association has ended.
    pub fn set_scheduler(&self, kind: SchedulerKind) -> Result<(), SchedulerError> {
        self.handle.with(|state, now| state.endpoint.set_scheduler(now, self.handle.id(), kind))
    }

    /// Adds or replaces the shared key of this number (RFC 4895). Key 0 is empty at first, and the active one.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn set_key(&self, key: u16, secret: impl AsRef<[u8]>) -> Result<(), KeyError> {
        self.handle.with(|state, _| state.endpoint.set_key(Some(self.handle.id()), key, secret.as_ref()))
    }

    /// Signs with this key from now on.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn activate_key(&self, key: u16) -> Result<(), KeyError> {
        self.handle.with(|state, _| state.endpoint.activate_key(Some(self.handle.id()), key))
    }

    /// Signs nothing more with this key; [`Event::Key`](crate::Event::Key) tells when nothing that it signed is on its way.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn deactivate_key(&self, key: u16) -> Result<(), KeyError> {
        self.handle.with(|state, now| state.endpoint.deactivate_key(now, self.handle.id(), key))
    }

    /// Forgets a key: what the peer signs with it counts no more.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn delete_key(&self, key: u16) -> Result<(), KeyError> {
        self.handle.with(|state, _| state.endpoint.delete_key(Some(self.handle.id()), key))
    }
}
