//! Chunk authentication: what is signed, what is taken only signed, and with which key.
//!
//! A packet is built as ever; when one of its chunks is on the peer's list, an
//! AUTH is put in front of the first such chunk. Received chunks on our own
//! list are passed over unless a good AUTH stands before them. Each key is
//! derived, and its HMAC keyed, when it is first used. [`keys`] derives,
//! [`mac`] computes.
//!
//! Home of RFC 4895 §6.2 and §6.3.

pub(crate) mod keys;
pub(crate) mod mac;

use super::{Association, Ctx};
use crate::config::{ChunkSet, SharedKeys};
use crate::event::{Event, KeyChange};
use crate::id::AssociationId;
use crate::send::SendHalf;
use anabranch_wire::sctp::{Asconf, AsconfAck, Auth as AuthChunk, Cause, RawChunk, packet};
use keys::{Said, association_key};
use mac::{Keyed, LONGEST};
use std::collections::VecDeque;

/// Authentication of one association.
#[derive(Clone, Debug)]
pub(crate) struct Auth {
    /// What this side has said.
    ours: Said,
    /// What the peer has said; until then nothing can be signed or checked.
    peer: Option<Said>,
    /// Chunks that the peer takes only signed.
    signed: ChunkSet,
    /// Chunks that this side takes only signed.
    guarded: ChunkSet,
    /// Which HMAC the peer likes best.
    algorithm: mac::Algorithm,
    /// Bytes that an AUTH takes off any packet; 0 when only ASCONFs are signed.
    room: usize,
    keys: SharedKeys,
    /// HMACs that were used already, by key and algorithm.
    keyed: Vec<(u16, mac::Algorithm, Keyed)>,
    /// The key that the peer used last.
    peer_uses: u16,
    /// The last unknown key that the application was told of.
    reported: Option<u16>,
    /// The key of the packet that is being written, once a message says which.
    packet: Option<u16>,
    /// Keys that are no longer signed with, as soon as what was sent is acknowledged.
    leaving: Vec<Leaving>,
}

/// A key that was deactivated.
#[derive(Clone, Debug)]
struct Leaving {
    key: u16,
    /// Below this offset something may be on its way under it.
    until: u64,
    /// Messages that ask for it, by their numbers in the queue.
    messages: Vec<u32>,
}

/// What an AUTH is worth.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Verdict {
    /// It is good, by this key.
    Good(u16),
    /// It is not, or not one at all.
    Bad,
    /// There is no such key.
    UnknownKey(u16),
    /// This HMAC was not asked for.
    UnknownHmac(u16),
}

/// Whether a chunk is to be looked at.
pub(super) enum Admission {
    Take,
    Skip,
    Stop,
}

impl Auth {
    pub(crate) fn new(ours: Said, keys: SharedKeys) -> Self {
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
            packet: None,
            leaving: Vec::new(),
        }
    }

    /// Takes over what the peer says. False when there is no HMAC for both.
    pub(crate) fn meet(&mut self, peer: &Said) -> bool {
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

    /// Bytes of an AUTH.
    pub(crate) fn size(&self) -> usize {
        AuthChunk::HEADER + self.algorithm.size()
    }

    /// This side takes this chunk only signed.
    #[inline]
    pub(crate) fn guards(&self, kind: u8) -> bool {
        self.guarded.has(kind)
    }

    /// Messages can be signed with this shared key.
    #[cold]
    pub(super) fn has_key(&self, key: u16) -> bool {
        self.keys.find(key).is_some()
    }

    /// Bytes of the AUTH that a packet of these chunks gets.
    pub(super) fn size_of(&self, kinds: &[u8]) -> usize {
        if kinds.iter().any(|&kind| self.signed.has(kind)) { self.size() } else { 0 }
    }

    /// Bytes to leave free in any packet for an AUTH.
    #[inline]
    pub(super) fn room(&self) -> usize {
        self.room
    }

    /// What the peer takes only signed.
    pub(crate) fn signed(&self) -> ChunkSet {
        self.signed
    }

    /// Keys that were deactivated and are not free yet.
    pub(super) fn leaving(&self) -> impl Iterator<Item = u16> {
        self.leaving.iter().map(|leaving| leaving.key)
    }

    /// These are free with the next change.
    pub(super) fn leave(&mut self, keys: impl Iterator<Item = u16>) {
        self.leaving.extend(keys.map(|key| Leaving { key, until: 0, messages: Vec::new() }));
    }

    /// Nothing more is signed with a key; what was sent, or waits to be, may still need it.
    fn deactivate(&mut self, key: u16, send: &SendHalf) {
        self.leaving.retain(|leaving| leaving.key != key);
        self.leaving.push(Leaving { key, until: send.end(), messages: send.messages_of(key) });
    }

    /// Tells which of the keys that were deactivated nothing needs any more.
    #[cold]
    fn free_keys(&mut self, id: AssociationId, send: &SendHalf, events: &mut VecDeque<Event>) {
        let (active, keys) = (self.keys.active(), &self.keys);
        self.leaving.retain_mut(|leaving| {
            let Leaving { key, until, messages } = leaving;
            if *key == active || keys.find(*key).is_none() {
                // Taken into use again, or deleted.
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

    /// What this side has said.
    pub(crate) fn ours(&self) -> &Said {
        &self.ours
    }

    pub(crate) fn keys(&self) -> &SharedKeys {
        &self.keys
    }

    /// Changes the keys; the change names the one whose value is another now, or gone: what was made of it is forgotten.
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

    /// The HMAC with this key. RFC 4895 §6.1; made at its first use.
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

    /// RFC 4895 §6.3: checks an AUTH with everything `behind` it, and tells what is news of keys.
    pub(crate) fn check(
        &mut self,
        id: AssociationId,
        raw: RawChunk<'_>,
        behind: &[u8],
        events: &mut VecDeque<Event>,
    ) -> Verdict {
        let verdict = self.verify(raw, behind);
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

    pub(crate) fn verify(&mut self, raw: RawChunk<'_>, behind: &[u8]) -> Verdict {
        let Ok(chunk) = AuthChunk::parse(raw) else {
            return Verdict::Bad;
        };
        let algorithm = match mac::Algorithm::of(chunk.hmac) {
            Some(algorithm) if self.ours.takes(chunk.hmac) => algorithm,
            _ => return Verdict::UnknownHmac(chunk.hmac),
        };
        // An HMAC of the right size is a multiple of four: there is no padding to count.
        if chunk.mac.len() != algorithm.size() {
            return Verdict::Bad;
        }
        let Some(keyed) = self.keyed(chunk.key, algorithm) else {
            return Verdict::UnknownKey(chunk.key);
        };
        let parts = [&raw.bytes[..AuthChunk::HEADER], &[0; LONGEST][..algorithm.size()], behind];
        if !keyed.verify(&parts, chunk.mac) {
            return Verdict::Bad;
        }
        Verdict::Good(chunk.key)
    }

    /// RFC 6458 §5.3.8: messages of different keys are not bundled. Whether one that wants `key` can go
    /// with those that are in the packet; what wants none takes the active one.
    fn shares(&mut self, key: Option<u16>) -> bool {
        let key = key.filter(|&key| self.keys.find(key).is_some()).unwrap_or(self.keys.active());
        *self.packet.get_or_insert(key) == key
    }

    /// RFC 4895 §6.2: puts an AUTH in front of the first chunk from `start` on
    /// that the peer takes only signed, if there is one.
    pub(super) fn sign(&mut self, buffer: &mut Vec<u8>, start: usize) {
        let key = self.packet.take().unwrap_or(self.keys.active());
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
    /// RFC 4895 §6.3: whether a chunk counts, in a packet of which `behind` follows it.
    #[inline(never)]
    pub(super) fn admit(
        &mut self,
        ctx: &mut Ctx<'_>,
        raw: RawChunk<'_>,
        behind: &[u8],
        path: usize,
        authenticated: &mut bool,
    ) -> Admission {
        let Some(auth) = &self.extensions.auth else {
            return Admission::Take;
        };
        if raw.kind != AuthChunk::KIND {
            if *authenticated || !auth.guards(raw.kind) {
                return Admission::Take;
            }
            self.stats.seldom().auth_refused += 1;
            // RFC 5061 §5.2 D5: with an ASCONF goes the rest of the packet.
            return if raw.kind == Asconf::KIND { Admission::Stop } else { Admission::Skip };
        }
        // RFC 4895 §5.1: once in a packet.
        if *authenticated || !self.verify(ctx, raw, behind, path) {
            self.stats.seldom().auth_refused += 1;
            return Admission::Stop;
        }
        *authenticated = true;
        Admission::Skip
    }

    /// Checks an AUTH and tells who should know what came of it.
    pub(crate) fn verify(
        &mut self,
        ctx: &mut Ctx<'_>,
        raw: RawChunk<'_>,
        behind: &[u8],
        path: usize,
    ) -> bool {
        let Some(auth) = &mut self.extensions.auth else {
            return false;
        };
        let verdict = auth.check(self.id, raw, behind, ctx.events);
        // RFC 4895 §6.3: the one mistake that the peer hears of.
        if let Verdict::UnknownHmac(hmac) = verdict {
            self.report(path, &Cause::UnsupportedHmac(hmac));
        }
        matches!(verdict, Verdict::Good(_))
    }

    /// RFC 6458 §8.3.4: the application signs nothing more with this key. It is told when nothing that was
    /// sent before needs it: the peer must not forget it until then.
    pub(crate) fn deactivate_key(&mut self, ctx: &mut Ctx<'_>, key: u16) {
        if let Some(auth) = &mut self.extensions.auth {
            auth.deactivate(key, &self.send);
        }
        self.free_keys(ctx);
    }

    /// RFC 6458 §6.1.8: after any change: keys that are not used any more are free.
    #[inline]
    pub(super) fn free_keys(&mut self, ctx: &mut Ctx<'_>) {
        if let Some(auth) = &mut self.extensions.auth
            && !auth.leaving.is_empty()
        {
            auth.free_keys(self.id, &self.send, ctx.events);
        }
    }

    /// A chunk of this message can go into the packet that is being written, as far as keys go.
    #[inline]
    pub(super) fn shares_key(&mut self, message: u32) -> bool {
        match &mut self.extensions.auth {
            Some(auth) if self.extensions.agreed.auth => auth.shares(self.send.key_of(message)),
            _ => true,
        }
    }
}
