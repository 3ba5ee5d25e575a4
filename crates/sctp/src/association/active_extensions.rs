//! The extensions of one association: what both sides have agreed on, and the state of each.
//!
//! What an extension does is in its own file: `auth`, `asconf`, `reconfig`, `ecn`, `forward`.
//!
//! Home of no rule: each extension has its own.

use super::asconf::Asconf;
use super::auth::Auth;
use super::auth::keys::Said;
use super::ecn::EcnState;
use super::extensions::Extensions;
use super::reconfig::Reconfig;
use anabranch_wire::sctp::{self as wire, AsconfAck, NrSack, ReConfig};

/// The extensions of one association.
#[derive(Debug)]
pub(crate) struct ActiveExtensions {
    /// What both sides support.
    pub(super) agreed: Extensions,
    pub(super) ecn: EcnState,
    /// Authentication, where this side wants it; in force as `agreed` says.
    pub(super) auth: Option<Box<Auth>>,
    /// Dynamic addresses, where both sides speak of them.
    pub(super) asconf: Option<Box<Asconf>>,
    /// RE-CONFIG, once it is used.
    pub(super) reconfig: Option<Box<Reconfig>>,
    /// What runs above the peer, as it says.
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

    /// What both sides support.
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

    /// What runs above the peer, as it says (RFC 5061 §4.2.6).
    pub(crate) fn peer_adaptation(&self) -> Option<u32> {
        self.peer_adaptation
    }

    /// Whether one may have control chunks to send at any time.
    pub(crate) fn have_control(&self) -> bool {
        self.asconf.is_some() || self.reconfig.is_some()
    }

    /// Whether one has a say on DATA and SACK chunks.
    pub(crate) fn touch_data(&self) -> bool {
        self.agreed.auth || self.agreed.interleaving || self.ecn.is_on()
    }

    /// A chunk of an extension that is not in force is as unknown as any (RFC 9260 §3.2).
    pub(super) fn speak(&self, kind: u8) -> bool {
        match kind {
            wire::Auth::KIND => self.agreed.auth,
            wire::Asconf::KIND | AsconfAck::KIND => self.agreed.asconf,
            ReConfig::KIND => self.agreed.reconfig,
            NrSack::KIND => self.agreed.nr_sack,
            _ => true,
        }
    }

    /// Both sides have spoken: from here on chunks are signed and checked, or never.
    pub(super) fn agree_on_auth(&mut self, peer: Option<&Said>) {
        let agreed = self.agreed.auth
            && peer.is_some_and(|peer| self.auth.as_mut().is_some_and(|auth| auth.meet(peer)));
        if !agreed {
            self.auth = None;
            self.agreed.auth = false;
            self.agreed.asconf = false;
        }
    }

    /// Messages can be signed with this shared key.
    #[cold]
    pub(super) fn has_key(&self, key: u16) -> bool {
        self.auth.as_ref().is_some_and(|auth| auth.has_key(key))
    }

    /// Signs the packet from `start` to the end of `buffer`, where the peer asks for it.
    #[inline]
    pub(super) fn sign(&mut self, buffer: &mut Vec<u8>, start: usize) {
        if self.agreed.auth
            && let Some(auth) = &mut self.auth
        {
            auth.sign(buffer, start);
        }
    }

    /// Bytes of the AUTH that a packet of these chunks gets.
    pub(super) fn auth_size_of(&self, kinds: &[u8]) -> usize {
        let auth = self.auth.as_ref().filter(|_| self.agreed.auth);
        auth.map_or(0, |auth| auth.size_of(kinds))
    }

    /// Bytes to leave free in a packet for an AUTH.
    #[inline]
    pub(super) fn auth_room(&self) -> usize {
        if self.agreed.auth { self.auth.as_ref().map_or(0, |auth| auth.room()) } else { 0 }
    }

    /// This side takes chunks of this type only signed.
    pub(crate) fn guards(&self, kind: u8) -> bool {
        self.agreed.auth && self.auth.as_ref().is_some_and(|auth| auth.guards(kind))
    }
}
