//! Chunk authentication: which sent chunks are signed, which received chunks must be authenticated, and with which key.
//!
//! A packet is built as usual. If the peer requires authentication for one of its chunks, an AUTH chunk is inserted
//! before the first such chunk. If this side requires authentication for a received chunk, the chunk is ignored unless
//! a valid AUTH precedes it. Each key and its HMAC state are derived when the key is first used. [`keys`] derives keys,
//! and [`mac`] computes the HMACs.
//!
//! Implements RFC 4895 §6.2 and §6.3.

pub(crate) mod keys;
pub(crate) mod mac;

use super::{Association, Ctx};
use crate::config::{ChunkSet, SharedKeys};
use crate::event::{Event, KeyChange};
use crate::id::AssociationId;
use crate::send::SendHalf;
use anabranch_wire::sctp::{Asconf, AsconfAck, Auth as AuthChunk, Cause, RawChunk, packet};
use keys::{AuthParams, association_key};
use mac::{Keyed, LONGEST};
use std::collections::VecDeque;

/// The authentication state of one association.
#[derive(Clone, Debug)]
pub(crate) struct Auth {
    /// The parameters that this side sent.
    ours: AuthParams,
    /// The peer's authentication parameters. Until these are known, no chunk can be signed or verified.
    peer: Option<AuthParams>,
    /// The chunk types that the peer accepts only if authenticated.
    signed: ChunkSet,
    /// The chunk types that this side accepts only if authenticated.
    guarded: ChunkSet,
    /// The HMAC algorithm that the peer prefers among the algorithms that this side supports.
    algorithm: mac::Algorithm,
    /// The number of bytes to reserve in any packet for an AUTH chunk; 0 if only ASCONF and ASCONF-ACK are signed.
    room: usize,
    keys: SharedKeys,
    /// HMAC states that have been used, each with its key and algorithm.
    keyed: Vec<(u16, mac::Algorithm, Keyed)>,
    /// The identifier of the shared key that the peer used last.
    peer_uses: u16,
    /// The identifier of the unknown key that was last reported to the application. The same key is not reported again.
    reported: Option<u16>,
    /// The shared key for the packet that is being written. It is set by the first message in the packet.
    packet_key: Option<u16>,
    /// Deactivated keys that unacknowledged or queued messages still use.
    deactivated_keys: Vec<DeactivatedKey>,
}

#[derive(Clone, Debug)]
struct DeactivatedKey {
    key: u16,
    /// The key is needed until all chunks below this TSN offset are acknowledged.
    until: u64,
    /// Queued messages that use the key, by their numbers in the queue.
    messages: Vec<u32>,
}

/// The result of verifying an AUTH chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// The AUTH chunk is valid. It was signed with the shared key that has this identifier.
    Good(u16),
    /// The AUTH chunk is malformed or its HMAC is wrong.
    Bad,
    /// The AUTH chunk names a shared key that this side does not have.
    UnknownKey(u16),
    /// The AUTH chunk uses an HMAC algorithm that this side did not offer.
    UnknownHmac(u16),
}

/// Whether a chunk is processed, is skipped, or ends the processing of its packet.
pub(super) enum ChunkAdmission {
    Take,
    Skip,
    Stop,
}

impl Auth {
    pub(crate) fn new(ours: AuthParams, keys: SharedKeys) -> Self {
        let guarded = ours.guarded();
        Self {
            ours,
            peer: None,
            signed: ChunkSet::default(),
            guarded,
            algorithm: mac::Algorithm::Sha1,
            room: 0,
            keys,
            keyed: Vec::new(),
            peer_uses: 0,
            reported: None,
            packet_key: None,
            deactivated_keys: Vec::new(),
        }
    }

    /// Stores the peer's parameters and chooses the HMAC algorithm. Returns false if there is no common algorithm.
    pub(crate) fn set_peer_params(&mut self, peer: &AuthParams) -> bool {
        let Some(algorithm) = peer.algorithm() else {
            return false;
        };
        self.algorithm = algorithm;
        self.signed = peer.guarded();
        let mut beyond = self.signed;
        beyond.remove(Asconf::KIND);
        beyond.remove(AsconfAck::KIND);
        self.room = if beyond.is_empty() { 0 } else { self.size() };
        self.keyed.clear();
        self.peer = Some(peer.clone());
        true
    }

    /// Returns the size in bytes of an AUTH chunk with the agreed HMAC.
    pub(crate) fn size(&self) -> usize {
        AuthChunk::HEADER + self.algorithm.size()
    }

    /// Returns whether this side requires authentication for chunks of this type.
    #[inline]
    pub(crate) fn requires_auth(&self, kind: u8) -> bool {
        self.guarded.has(kind)
    }

    /// Returns whether messages can be signed with this shared key.
    #[cold]
    pub(super) fn has_key(&self, key: u16) -> bool {
        self.keys.find(key).is_some()
    }

    /// Returns the size in bytes of the AUTH chunk for a packet with chunks of these types. Returns 0 if the packet
    /// needs no AUTH chunk.
    pub(super) fn size_of(&self, kinds: &[u8]) -> usize {
        if kinds.iter().any(|&kind| self.signed.has(kind)) { self.size() } else { 0 }
    }

    /// Returns the number of bytes to reserve in any packet for an AUTH chunk.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// Returns the chunk types that the peer accepts only if authenticated.
    pub(crate) fn signed(&self) -> ChunkSet {
        self.signed
    }

    /// Returns the deactivated keys that messages still use.
    pub(super) fn deactivated_keys(&self) -> impl Iterator<Item = u16> {
        self.deactivated_keys.iter().map(|leaving| leaving.key)
    }

    /// Adds deactivated keys that no message of this association uses. The next call of `free_keys` reports them as
    /// free.
    pub(super) fn add_deactivated(&mut self, keys: impl Iterator<Item = u16>) {
        self.deactivated_keys.extend(keys.map(|key| DeactivatedKey { key, until: 0, messages: Vec::new() }));
    }

    /// Stops signing new messages with a key. Messages that are queued or in flight may need the key until they are
    /// acknowledged.
    fn deactivate(&mut self, key: u16, send: &SendHalf) {
        self.deactivated_keys.retain(|leaving| leaving.key != key);
        self.deactivated_keys.push(DeactivatedKey {
            key,
            until: send.end(),
            messages: send.messages_of(key),
        });
    }

    /// Emits an event for each deactivated key that no queued or unacknowledged message uses any more.
    #[cold]
    fn free_keys(&mut self, id: AssociationId, send: &SendHalf, events: &mut VecDeque<Event>) {
        let (active, keys) = (self.keys.active(), &self.keys);
        self.deactivated_keys.retain_mut(|leaving| {
            let DeactivatedKey { key, until, messages } = leaving;
            if *key == active || keys.find(*key).is_none() {
                // The key is active again or was deleted, so it needs no event and is removed from the list.
                return false;
            }
            while messages.pop_if(|message| !send.asks_for(*message, *key)).is_some() {}
            let used = send.base() < *until || !messages.is_empty();
            if !used {
                events.push_back(Event::Key { id, key: *key, change: KeyChange::Free });
            }
            used
        });
    }

    /// Returns the parameters that this side sent.
    pub(crate) fn ours(&self) -> &AuthParams {
        &self.ours
    }

    pub(crate) fn keys(&self) -> &SharedKeys {
        &self.keys
    }

    /// Applies `change` to the keys. `change` returns the key whose value was changed or removed, if any. HMAC states
    /// derived from that key are dropped.
    pub(crate) fn change_keys<E>(
        &mut self,
        change: impl FnOnce(&mut SharedKeys) -> Result<Option<u16>, E>,
    ) -> Result<(), E> {
        if let Some(key) = change(&mut self.keys)? {
            self.keyed.retain(|(id, ..)| *id != key);
            self.reported = None;
        }
        Ok(())
    }

    /// RFC 4895 §6.1: returns the HMAC state for this key and algorithm. It is derived at its first use.
    fn keyed(&mut self, key: u16, algorithm: mac::Algorithm) -> Option<&Keyed> {
        let found = self.keyed.iter().position(|(id, other, _)| (*id, *other) == (key, algorithm));
        let at = match found {
            Some(at) => at,
            None => {
                let shared = self.keys.find(key)?;
                let secret = association_key(shared, &self.ours.vector(), &self.peer.as_ref()?.vector());
                self.keyed.push((key, algorithm, Keyed::new(algorithm, &secret)));
                self.keyed.len() - 1
            }
        };
        Some(&self.keyed[at].2)
    }

    /// RFC 4895 §6.3: verifies an AUTH chunk. Its HMAC also covers `rest`, the rest of the packet after the chunk.
    /// Emits an event if the peer starts to use another key, or uses a key that this side does not know.
    pub(crate) fn check(
        &mut self,
        id: AssociationId,
        raw: RawChunk<'_>,
        rest: &[u8],
        events: &mut VecDeque<Event>,
    ) -> Verdict {
        let verdict = self.verify(raw, rest);
        match verdict {
            Verdict::Good(key) => {
                if std::mem::replace(&mut self.peer_uses, key) != key {
                    events.push_back(Event::Key { id, key, change: KeyChange::PeerUses });
                }
            }
            Verdict::UnknownKey(key) => {
                if self.reported.replace(key) != Some(key) {
                    events.push_back(Event::Key { id, key, change: KeyChange::Unknown });
                }
            }
            Verdict::Bad | Verdict::UnknownHmac(_) => {}
        }
        verdict
    }

    pub(crate) fn verify(&mut self, raw: RawChunk<'_>, rest: &[u8]) -> Verdict {
        let Ok(chunk) = AuthChunk::parse(raw) else {
            return Verdict::Bad;
        };
        let algorithm = match mac::Algorithm::of(chunk.hmac) {
            Some(algorithm) if self.ours.takes(chunk.hmac) => algorithm,
            _ => return Verdict::UnknownHmac(chunk.hmac),
        };
        // The length of every supported HMAC is a multiple of four bytes, so there is no padding.
        if chunk.mac.len() != algorithm.size() {
            return Verdict::Bad;
        }
        let Some(keyed) = self.keyed(chunk.key, algorithm) else {
            return Verdict::UnknownKey(chunk.key);
        };
        let parts = [&raw.bytes[..AuthChunk::HEADER], &[0; LONGEST][..algorithm.size()], rest];
        if !keyed.verify(&parts, chunk.mac) {
            return Verdict::Bad;
        }
        Verdict::Good(chunk.key)
    }

    /// RFC 6458 §5.3.8: messages with different keys are not bundled. Returns whether a message with `key` may be added
    /// to the packet that is being written. A message without a key uses the active key.
    fn can_bundle_with_key(&mut self, key: Option<u16>) -> bool {
        let key = key.filter(|&key| self.keys.find(key).is_some()).unwrap_or(self.keys.active());
        *self.packet_key.get_or_insert(key) == key
    }

    /// RFC 4895 §6.2: inserts an AUTH chunk into the packet that begins at `start` in `buffer`. The AUTH chunk precedes
    /// the first chunk for which the peer requires authentication. If there is no such chunk, the packet does not
    /// change.
    pub(super) fn sign(&mut self, buffer: &mut Vec<u8>, start: usize) {
        let key = self.packet_key.take().unwrap_or(self.keys.active());
        let mut at = start + packet::HEADER;
        while let Some(&[kind, _, high, low]) = buffer.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
            if self.signed.has(kind) {
                self.sign_from(buffer, at, key);
                return;
            }
            at += usize::from(u16::from_be_bytes([high, low])).next_multiple_of(4).max(4);
        }
    }

    fn sign_from(&mut self, buffer: &mut Vec<u8>, at: usize, key: u16) {
        let (algorithm, size) = (self.algorithm, self.size());
        let end = buffer.len();
        buffer.resize(end + size, 0);
        buffer.copy_within(at..end, at + size);
        let [k0, k1] = key.to_be_bytes();
        let [h0, h1] = algorithm.id().to_be_bytes();
        buffer[at..at + size].fill(0);
        buffer[at..at + 8].copy_from_slice(&[AuthChunk::KIND, 0, 0, size as u8, k0, k1, h0, h1]);
        if let Some(keyed) = self.keyed(key, algorithm) {
            let mut mac = [0; LONGEST];
            let mac = &mut mac[..algorithm.size()];
            keyed.compute(&[&buffer[at..]], mac);
            buffer[at + AuthChunk::HEADER..at + size].copy_from_slice(mac);
        }
    }
}

impl Association {
    /// RFC 4895 §6.3: decides whether a chunk is processed. `rest` is the rest of the packet after the chunk.
    #[inline(never)]
    pub(super) fn admit(
        &mut self,
        ctx: &mut Ctx<'_>,
        raw: RawChunk<'_>,
        rest: &[u8],
        path: usize,
        authenticated: &mut bool,
    ) -> ChunkAdmission {
        let Some(auth) = &self.extensions.auth else {
            return ChunkAdmission::Take;
        };
        if raw.kind != AuthChunk::KIND {
            if *authenticated || !auth.requires_auth(raw.kind) {
                return ChunkAdmission::Take;
            }
            self.stats.rare_mut().auth_refused += 1;
            // RFC 5061 §5.2 D5: an unauthenticated ASCONF is dropped together with the rest of its packet.
            return if raw.kind == Asconf::KIND { ChunkAdmission::Stop } else { ChunkAdmission::Skip };
        }
        // RFC 4895 §5.1: a packet may have at most one AUTH chunk, so processing stops at a second or invalid AUTH
        // chunk.
        if *authenticated || !self.verify(ctx, raw, rest, path) {
            self.stats.rare_mut().auth_refused += 1;
            return ChunkAdmission::Stop;
        }
        *authenticated = true;
        ChunkAdmission::Skip
    }

    /// Verifies an AUTH chunk and emits events about keys. Reports an unsupported HMAC to the peer.
    pub(crate) fn verify(&mut self, ctx: &mut Ctx<'_>, raw: RawChunk<'_>, rest: &[u8], path: usize) -> bool {
        let Some(auth) = &mut self.extensions.auth else {
            return false;
        };
        let verdict = auth.check(self.id, raw, rest, ctx.events);
        // RFC 4895 §6.3: of all failures, only an unsupported HMAC is reported to the peer.
        if let Verdict::UnknownHmac(hmac) = verdict {
            self.report(path, &Cause::UnsupportedHmac(hmac));
        }
        matches!(verdict, Verdict::Good(_))
    }

    /// RFC 6458 §8.3.4: stops signing new messages with this key. An event informs the application once no earlier
    /// message needs the key. The peer must keep the key until that event.
    pub(crate) fn deactivate_key(&mut self, ctx: &mut Ctx<'_>, key: u16) {
        if let Some(auth) = &mut self.extensions.auth {
            auth.deactivate(key, &self.send);
        }
        self.free_keys(ctx);
    }

    /// RFC 6458 §6.1.8: reports keys that are no longer used. Must be called after every change that may free a key.
    #[inline]
    pub(super) fn free_keys(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(auth) = &mut self.extensions.auth
            && !auth.deactivated_keys.is_empty()
        {
            auth.free_keys(self.id, &self.send, ctx.events);
        }
    }

    /// Returns whether the chunks of this message may be added to the packet that is being written. All messages in a
    /// packet must use the same key.
    #[inline]
    pub(super) fn shares_key(&mut self, message: u32) -> bool {
        match &mut self.extensions.auth {
            Some(auth) if self.extensions.agreed.auth => auth.can_bundle_with_key(self.send.key_of(message)),
            _ => true,
        }
    }
}
