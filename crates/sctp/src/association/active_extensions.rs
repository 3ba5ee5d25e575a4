//! The extensions of one association: those that both sides agreed on, and their state.
//!
//! Each extension is implemented in a file of its own: `auth`, `asconf`, `reconfig`, `ecn`, `forward`.
//!
//! This module implements no RFC rule itself.

use super::asconf::Asconf;
use super::auth::Auth;
use super::auth::keys::AuthParams;
use super::ecn::EcnState;
use super::extensions::Extensions;
use super::reconfig::Reconfig;
use anabranch_wire::sctp::{self as wire, AsconfAck, NrSack, ReConfig};

/// The extensions of one association, and their state.
#[derive(Debug)]
pub(crate) struct ActiveExtensions {
    /// The extensions that both sides support.
    pub(super) agreed: Extensions,
    pub(super) ecn: EcnState,
    /// The state of authentication, if this side supports it. Authentication is in use only if `agreed.auth` is true.
    pub(super) auth: Option<Box<Auth>>,
    /// The state of address changes, if both sides support them.
    pub(super) asconf: Option<Box<Asconf>>,
    /// The state of stream re-configuration, created when it is first used.
    pub(super) reconfig: Option<Box<Reconfig>>,
    /// The peer's adaptation layer indication.
    pub(super) peer_adaptation: Option<u32>,
}

impl ActiveExtensions {
    pub(super) fn new(auth: Option<Box<Auth>>) -> Self {
        Self {
            agreed: Extensions::default(),
            ecn: EcnState::default(),
            auth,
            asconf: None,
            reconfig: None,
            peer_adaptation: None,
        }
    }

    /// Returns the extensions that both sides support.
    #[inline]
    pub(crate) fn agreed(&self) -> &Extensions {
        &self.agreed
    }

    pub(crate) fn auth(&self) -> Option<&Auth> {
        self.auth.as_deref()
    }

    pub(crate) fn auth_mut(&mut self) -> Option<&mut Auth> {
        self.auth.as_deref_mut()
    }

    /// Returns the peer's adaptation layer indication (RFC 5061 §4.2.6).
    pub(crate) fn peer_adaptation(&self) -> Option<u32> {
        self.peer_adaptation
    }

    /// Returns whether an extension in use may have to send control chunks at any time.
    pub(crate) fn have_control(&self) -> bool {
        self.asconf.is_some() || self.reconfig.is_some()
    }

    /// Returns whether an active extension affects DATA or SACK chunks.
    pub(crate) fn touch_data(&self) -> bool {
        self.agreed.auth || self.agreed.interleaving || self.ecn.is_on()
    }

    /// Returns whether chunks of this type are recognized. A chunk of an extension that is not in use is unrecognized
    /// (RFC 9260 §3.2).
    pub(super) fn recognizes(&self, kind: u8) -> bool {
        match kind {
            wire::Auth::KIND => self.agreed.auth,
            wire::Asconf::KIND | AsconfAck::KIND => self.agreed.asconf,
            ReConfig::KIND => self.agreed.reconfig,
            NrSack::KIND => self.agreed.nr_sack,
            _ => true,
        }
    }

    /// Decides, once the peer's parameters are known, whether chunks are signed and verified in this association.
    pub(super) fn agree_on_auth(&mut self, peer: Option<&AuthParams>) {
        let agreed = self.agreed.auth
            && peer.is_some_and(|peer| self.auth.as_mut().is_some_and(|auth| auth.set_peer_params(peer)));
        if !agreed {
            self.auth = None;
            self.agreed.auth = false;
            self.agreed.asconf = false;
        }
    }

    /// Returns whether messages can be signed with this shared key.
    #[cold]
    pub(super) fn has_key(&self, key: u16) -> bool {
        self.auth.as_ref().is_some_and(|auth| auth.has_key(key))
    }

    /// Inserts an AUTH chunk into the packet that begins at `start` in `buffer`, if the peer requires authentication
    /// for one of the packet's chunks.
    #[inline]
    pub(super) fn sign(&mut self, buffer: &mut Vec<u8>, start: usize) {
        if self.agreed.auth
            && let Some(auth) = &mut self.auth
        {
            auth.sign(buffer, start);
        }
    }

    /// Returns the size in bytes of the AUTH chunk for a packet with chunks of these types. Returns 0 if the packet
    /// needs no AUTH chunk.
    pub(super) fn auth_size_of(&self, kinds: &[u8]) -> usize {
        let auth = self.auth.as_ref().filter(|_| self.agreed.auth);
        auth.map_or(0, |auth| auth.size_of(kinds))
    }

    /// Returns the number of bytes to reserve in a packet for an AUTH chunk.
    #[inline]
    pub(super) fn auth_room(&self) -> usize {
        if self.agreed.auth { self.auth.as_ref().map_or(0, |auth| auth.room()) } else { 0 }
    }

    /// Returns whether this side accepts chunks of type `kind` only if they are authenticated.
    pub(crate) fn requires_auth(&self, kind: u8) -> bool {
        self.agreed.auth && self.auth.as_ref().is_some_and(|auth| auth.requires_auth(kind))
    }
}
