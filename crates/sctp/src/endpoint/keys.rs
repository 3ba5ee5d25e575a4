//! Endpoint pair shared keys, and authentication of packets that arrive before their association exists.
//!
//! Keys belong either to the endpoint, for all associations that begin later, or to one association. An endpoint starts
//! with the keys of its configuration. The keys can be changed at run time. Selecting the active key is a separate
//! call.
//!
//! Implements RFC 4895 §6.3 (the COOKIE ECHO), and RFC 6458 §8.3.2 to §8.3.5.

use super::{AssociationId, Endpoint};
use crate::association::auth::keys::{AuthParams, RANDOM};
use crate::association::auth::{Auth, Verdict};
use crate::association::cookie::{Cookie, SealedAuth};
use crate::config::{ChunkSet, Config, SharedKeys};
use crate::error::KeyError;
use anabranch_base::{Instant, Packet};
use anabranch_wire::sctp::{Chunks, CookieEcho, Header, RawChunk};

impl Endpoint {
    /// Adds or replaces the shared key `key`. The key applies to one association or, for `None`, to associations that
    /// begin from now on. If the configuration sets no keys, key 0 is the empty key until it is replaced.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config, Message};
    /// let mut config = Config::default();
    /// config.set("auth", "yes")?;
    /// config.set("auth_chunks", "data")?;
    /// let (mut pair, here, there) = Pair::associated(&config);
    /// pair.b.set_key(Some(there), 1, b"secret")?;
    /// pair.a.set_key(Some(here), 1, b"secret")?;
    /// pair.a.activate_key(Some(here), 1)?;
    /// pair.a.send(pair.now, here, Message::default(), b"hello")?;
    /// pair.settle();
    /// assert_eq!(pair.b.readable_bytes(there, 0), 5, "both know the key");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn set_key(&mut self, id: Option<AssociationId>, key: u16, secret: &[u8]) -> Result<(), KeyError> {
        self.change_keys(id, |keys| {
            if !keys.has_room(key) {
                return Err(KeyError::TooMany);
            }
            keys.insert(key, secret);
            Ok(Some(key))
        })
    }

    /// Makes `key` the active shared key: chunks are signed with it from now on.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config, KeyError, Message};
    /// # let mut config = Config::default();
    /// # config.set("auth", "yes")?;
    /// # config.set("auth_chunks", "data")?;
    /// # let (mut pair, here, there) = Pair::associated(&config);
    /// pair.a.set_key(Some(here), 1, b"secret")?;
    /// pair.a.activate_key(Some(here), 1)?;
    /// pair.a.send(pair.now, here, Message::default(), b"hello")?;
    /// pair.settle();
    /// assert_eq!(pair.b.readable_bytes(there, 0), 0, "the peer does not have this key");
    /// assert_eq!(pair.a.activate_key(Some(here), 2), Err(KeyError::NoSuchKey));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn activate_key(&mut self, id: Option<AssociationId>, key: u16) -> Result<(), KeyError> {
        self.change_keys(id, |keys| if keys.activate(key) { Ok(None) } else { Err(KeyError::NoSuchKey) })
    }

    /// Stops using the shared key `key`, which must not be the active key. `Event::Key` with `KeyChange::Free` follows
    /// once no queued or unacknowledged message uses the key (RFC 6458 §8.3.4). Packets that the peer signs with the
    /// key are still accepted.
    ///
    /// ```
    /// # use anabranch_sctp::testing::{Pair, Side};
    /// # use anabranch_sctp::{Config, Event, KeyChange};
    /// # let mut config = Config::default();
    /// # config.set("auth", "yes")?;
    /// # config.set("auth_chunks", "data")?;
    /// # let (mut pair, here, _) = Pair::associated(&config);
    /// pair.a.set_key(Some(here), 1, b"secret")?;
    /// pair.a.activate_key(Some(here), 1)?;
    /// pair.a.deactivate_key(pair.now, here, 0)?;
    /// let free = |event: &Event| matches!(event, Event::Key { key: 0, change: KeyChange::Free, .. });
    /// assert!(pair.events(Side::A).iter().any(free), "nothing waits under it");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn deactivate_key(&mut self, now: Instant, id: AssociationId, key: u16) -> Result<(), KeyError> {
        self.change_keys(Some(id), |keys| {
            keys.find(key).ok_or(KeyError::NoSuchKey)?;
            if keys.active() == key { Err(KeyError::Active) } else { Ok(None) }
        })?;
        if let Some(slot) = self.find(id) {
            self.with(now, slot, |association, ctx| association.deactivate_key(ctx, key));
        }
        Ok(())
    }

    /// Deletes the shared key `key`. Packets that the peer signs with the key are no longer accepted.
    ///
    /// ```
    /// # use anabranch_sctp::{testing::Pair, Config, KeyError};
    /// # let mut endpoint = Pair::new(Config::default(), Config::default(), 1, 1).a;
    /// endpoint.set_key(None, 1, b"for associations to come")?;
    /// assert_eq!(endpoint.delete_key(None, 0), Err(KeyError::Active));
    /// endpoint.activate_key(None, 1)?;
    /// endpoint.delete_key(None, 0)?;
    /// # Ok::<(), KeyError>(())
    /// ```
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn delete_key(&mut self, id: Option<AssociationId>, key: u16) -> Result<(), KeyError> {
        self.change_keys(id, |keys| {
            keys.find(key).ok_or(KeyError::NoSuchKey)?;
            if keys.active() == key {
                return Err(KeyError::Active);
            }
            keys.remove(key);
            Ok(Some(key))
        })
    }

    /// Returns the identifier of the active shared key of association `id` or, without an `id`, of associations that
    /// begin from now on. Returns `None` if the association does not authenticate chunks (RFC 6458 §8.1.18).
    pub(crate) fn active_key(&self, id: Option<AssociationId>) -> Option<u16> {
        let Some(id) = id else { return Some(self.keys.active()) };
        let association = self.slots[self.find(id)? as usize].association.as_ref()?;
        association.extensions().auth().map(|auth| auth.keys().active())
    }

    /// Returns the chunk types that the peer of an association accepts only if authenticated (RFC 6458 §8.2.3).
    pub(crate) fn peer_auth_chunks(&self, id: AssociationId) -> ChunkSet {
        let association = self.find(id).and_then(|slot| self.slots[slot as usize].association.as_ref());
        let auth = association.and_then(|association| association.extensions().auth());
        auth.map(|auth| auth.signed()).unwrap_or_default()
    }

    /// Applies `change` to the keys of an association or, for `None`, of the endpoint. `change` returns the identifier
    /// of the key whose value has changed, if any.
    fn change_keys(
        &mut self,
        id: Option<AssociationId>,
        change: impl FnOnce(&mut SharedKeys) -> Result<Option<u16>, KeyError>,
    ) -> Result<(), KeyError> {
        let Some(id) = id else {
            return change(&mut self.keys).map(|_| ());
        };
        let slot = self.find(id).ok_or(KeyError::Unknown)?;
        let association = self.slots[slot as usize].association.as_mut().ok_or(KeyError::Unknown)?;
        association.auth_mut().ok_or(KeyError::NotAuthenticated)?.change_keys(change)
    }

    /// Returns the random number for an INIT or INIT ACK, or zeros if `config` does not enable authentication.
    pub(super) fn new_random(&mut self, config: &Config) -> [u8; RANDOM] {
        let mut random = [0; RANDOM];
        if config.auth {
            self.rng.fill(&mut random);
        }
        random
    }

    /// Returns the authentication parameters of an association that this side begins.
    pub(super) fn new_auth(&mut self, config: &Config) -> Option<Box<Auth>> {
        let random = self.new_random(config);
        config.auth.then(|| Box::new(Auth::new(AuthParams::ours(config, random), self.keys.clone())))
    }

    /// Restores the authentication state of an association from its cookie. The state takes effect only once the peer's
    /// parameters are applied.
    pub(super) fn auth_of(&self, cookie: &Cookie) -> Option<Box<Auth>> {
        let sealed: &SealedAuth = cookie.auth.as_ref()?;
        let config = self.config_at(cookie.local_port);
        Some(Box::new(Auth::new(sealed.ours(config), self.keys.clone())))
    }

    /// Handles a packet with an AUTH chunk in front of a COOKIE ECHO.
    pub(super) fn on_signed_cookie_echo(
        &mut self,
        now: Instant,
        packet: &Packet<'_>,
        header: Header,
        auth: RawChunk<'_>,
        mut chunks: Chunks<'_>,
    ) {
        let behind = chunks.rest();
        if let Some(Ok(echo)) = chunks.next_raw() {
            let echo = CookieEcho { cookie: echo.value };
            self.on_cookie_echo(now, packet, header, echo, chunks, Some((auth, behind)));
        }
    }

    /// RFC 4895 §6.3: returns whether a COOKIE ECHO is signed as required. If the association exists and uses AUTH, its
    /// keys are used. Otherwise the keys are derived from the cookie.
    pub(super) fn cookie_is_authentic(
        &mut self,
        now: Instant,
        slot: Option<u32>,
        cookie: &Cookie,
        signature: Option<(RawChunk<'_>, &[u8])>,
    ) -> bool {
        let Some(sealed) = &cookie.auth else {
            // A peer that did not offer AUTH cannot send an AUTH chunk. So if an AUTH chunk precedes its COOKIE ECHO,
            // the COOKIE ECHO is not authentic.
            return signature.is_none();
        };
        let Some((auth, behind)) = signature else {
            return !self.config_at(cookie.local_port).guarded_chunks().has(CookieEcho::KIND);
        };
        let alive = slot.filter(|&slot| self.alive(slot).is_some_and(|a| a.extensions().agreed().auth));
        if let Some(slot) = alive {
            return self
                .with(now, slot, |association, ctx| {
                    let path = association.paths().current();
                    association.verify(ctx, auth, behind, path)
                })
                .unwrap_or(false);
        }
        let mut made = Auth::new(sealed.ours(self.config_at(cookie.local_port)), self.keys.clone());
        made.set_peer_params(&sealed.peer) && matches!(made.verify(auth, behind), Verdict::Good(_))
    }
}
