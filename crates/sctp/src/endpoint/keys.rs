//! Endpoint pair shared keys, and what authentication means to packets that
//! come before their association.
//!
//! Keys are for the whole endpoint, and then for every association that begins
//! later, or for one association. An endpoint begins with those of its
//! configuration. They are changed at run time; which one is active is said
//! apart from their values.
//!
//! Home of RFC 4895 §6.3 (the COOKIE ECHO) and of RFC 6458 §8.3.2 to §8.3.5.

use super::{AssociationId, Endpoint};
use crate::association::auth::keys::{RANDOM, Said};
use crate::association::auth::{Auth, Verdict};
use crate::association::cookie::{Cookie, SealedAuth};
use crate::config::{ChunkSet, Config, SharedKeys};
use crate::error::KeyError;
use anabranch_base::{Instant, Packet};
use anabranch_wire::sctp::{Chunks, CookieEcho, Header, RawChunk};

impl Endpoint {
    /// Adds or replaces the shared key `key`: of one association, or of those
    /// that begin from now on. Key 0 is the empty one unless it is replaced or the configuration has others.
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

    /// Signs with the shared key `key` from now on.
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
    /// assert_eq!(pair.b.readable_bytes(there, 0), 0, "the peer does not know it");
    /// assert_eq!(pair.a.activate_key(Some(here), 2), Err(KeyError::NoSuchKey));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn activate_key(&mut self, id: Option<AssociationId>, key: u16) -> Result<(), KeyError> {
        self.change_keys(id, |keys| if keys.activate(key) { Ok(None) } else { Err(KeyError::NoSuchKey) })
    }

    /// Says that the shared key `key`, which is not the active one, will not be asked for again:
    /// `Event::Key` with `KeyChange::Free` follows as soon as nothing waits or is on its way under it
    /// (RFC 6458 §8.3.4). What the peer signs with it is still taken.
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

    /// Forgets the shared key `key`: what the peer signs with it counts no more.
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

    /// The shared key that signs: of one association, or of those that begin from now on; `None` when the association
    /// does not authenticate (RFC 6458 §8.1.18).
    pub(crate) fn active_key(&self, id: Option<AssociationId>) -> Option<u16> {
        let Some(id) = id else { return Some(self.keys.active()) };
        let association = self.slots[self.find(id)? as usize].association.as_ref()?;
        association.extensions().auth().map(|auth| auth.keys().active())
    }

    /// What the peer of an association takes only authenticated (RFC 6458 §8.2.3).
    pub(crate) fn peer_auth_chunks(&self, id: AssociationId) -> ChunkSet {
        let association = self.find(id).and_then(|slot| self.slots[slot as usize].association.as_ref());
        let auth = association.and_then(|association| association.extensions().auth());
        auth.map(|auth| auth.signed()).unwrap_or_default()
    }

    /// Changes keys; the change names the one whose value is another now.
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

    /// A random number for INIT or INIT ACK; drawn only where it is wanted.
    pub(super) fn new_random(&mut self, config: &Config) -> [u8; RANDOM] {
        let mut random = [0; RANDOM];
        if config.auth {
            self.rng.fill(&mut random);
        }
        random
    }

    /// What an association that this side begins says of authentication.
    pub(super) fn new_auth(&mut self, config: &Config) -> Option<Box<Auth>> {
        let random = self.new_random(config);
        config.auth.then(|| Box::new(Auth::new(Said::ours(config, random), self.keys.clone())))
    }

    /// What both sides have said, as a cookie tells it; without what the peer said it does not count yet.
    pub(super) fn auth_of(&self, cookie: &Cookie) -> Option<Box<Auth>> {
        let sealed: &SealedAuth = cookie.auth.as_ref()?;
        let config = self.config_at(cookie.local_port);
        Some(Box::new(Auth::new(sealed.ours(config), self.keys.clone())))
    }

    /// A packet with an AUTH in front of a COOKIE ECHO.
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

    /// RFC 4895 §6.3: whether a COOKIE ECHO is signed as it should be: by the
    /// keys of its association, or by those that its cookie tells of.
    pub(super) fn cookie_is_authentic(
        &mut self,
        now: Instant,
        slot: Option<u32>,
        cookie: &Cookie,
        signature: Option<(RawChunk<'_>, &[u8])>,
    ) -> bool {
        let Some(sealed) = &cookie.auth else {
            // Whoever does not speak of AUTH does not know the chunk either.
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
        made.meet(&sealed.peer) && matches!(made.verify(auth, behind), Verdict::Good(_))
    }
}
