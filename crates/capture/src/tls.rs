//! TLS within one TCP connection: decrypts the records whose keys are known.
//!
//! Implements RFC 8446 §5 (records of TLS 1.3), §4.6.3 and §7.2 (key updates), §4.2.10 (early data); RFC 5246 §6.2 and
//! RFC 5288 §3 (records of TLS 1.2). Renegotiation in TLS 1.2 is not followed.

use super::arrival::Side;
use super::handshake::{Agreed, FINISHED, KEY_UPDATE, Messages};
use super::key_log::{KeyLog, Label};
use super::keys::{self, Key, Protocol, TAG, TrafficKeys};
use super::results::Security;

const CHANGE_CIPHER_SPEC: u8 = 20;
const ALERT: u8 = 21;
const HANDSHAKE: u8 = 22;
const DATA: u8 = 23;
/// The length of a record header in bytes.
const HEAD: usize = 5;
/// RFC 5246 §6.2.3: the maximum length of the encrypted part of a record.
const MAX_BODY: usize = (1 << 14) + 2_048;

/// The keys with which one side encrypts.
enum Keys {
    None,
    Tls12(Key),
    Tls13(Stage, TrafficKeys),
}

/// RFC 8446 §7.3: the stages of a connection, in order. Each side has one traffic secret for each stage.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Stage {
    Early,
    Handshake,
    Traffic,
}

struct Half {
    partial: Vec<u8>,
    messages: Messages,
    keys: Keys,
    /// The sequence number of the next record of this side.
    number: u64,
    /// Whether the side has changed to encryption in TLS 1.2.
    is_encrypted: bool,
    /// Whether the bytes are not records. Nothing after them can be read.
    is_broken: bool,
}

/// The TLS session of a connection.
pub(super) struct Session {
    agreed: Agreed,
    halves: [Half; 2],
    opened: [u64; 2],
    had_secret: bool,
    /// Whether each side has sent close_notify, which ends its data (RFC 8446 §6.1).
    pub has_closed: [bool; 2],
}

impl Session {
    /// Creates a session if `bytes`, the first bytes of a connection's client, begin a TLS handshake.
    pub fn begins(bytes: &[u8]) -> Option<Self> {
        let is_hello = matches!(bytes, [HANDSHAKE, 3, 0..=4, _, _, 1, ..]);
        let half = || Half {
            partial: Vec::new(),
            messages: Messages::default(),
            keys: Keys::None,
            number: 0,
            is_encrypted: false,
            is_broken: false,
        };
        is_hello.then(|| Self {
            agreed: Agreed::default(),
            halves: [half(), half()],
            opened: [0; 2],
            had_secret: false,
            has_closed: [false; 2],
        })
    }

    /// Processes the next bytes of one side. Calls `deliver` with decrypted application data.
    pub fn bytes(&mut self, at: u64, side: Side, bytes: &[u8], log: &KeyLog, mut deliver: impl FnMut(&[u8])) {
        let mut partial = std::mem::take(&mut self.halves[side].partial);
        partial.extend_from_slice(bytes);
        let mut done = 0;
        while let Some(&[_, major, _, l0, l1]) = partial.get(done..).and_then(<[u8]>::first_chunk::<HEAD>) {
            let length = usize::from(u16::from_be_bytes([l0, l1]));
            self.halves[side].is_broken |= major != 3 || length > MAX_BODY;
            if self.halves[side].is_broken {
                done = partial.len();
                break;
            }
            let Some(record) = partial.get_mut(done..done + HEAD + length) else { break };
            let (head, body) = record.split_at_mut(HEAD);
            self.record(at, side, head, body, log, &mut deliver);
            done += HEAD + length;
        }
        partial.drain(..done);
        self.halves[side].partial = partial;
    }

    fn record(
        &mut self,
        at: u64,
        side: Side,
        head: &[u8],
        body: &mut [u8],
        log: &KeyLog,
        deliver: &mut impl FnMut(&[u8]),
    ) {
        let kind = head[0];
        let is_plain = !self.halves[side].is_encrypted && kind != DATA;
        if kind == CHANGE_CIPHER_SPEC {
            // RFC 8446 §D.4: in TLS 1.3, a change_cipher_spec record has no meaning.
            if self.agreed.version.is_some_and(|version| version < 0x0304) {
                (self.halves[side].is_encrypted, self.halves[side].number) = (true, 0);
                self.halves[side].keys = self.keys12(side, log).map_or(Keys::None, Keys::Tls12);
            }
            return;
        }
        let opened = match is_plain {
            true => Some((kind, body.to_vec())),
            false if self.halves[side].is_encrypted => self.open12(side, head, body),
            false => self.open13(side, head, body, log),
        };
        let Some((kind, content)) = opened else {
            self.opened[1] += 1;
            return;
        };
        self.opened[0] += u64::from(!is_plain);
        match kind {
            HANDSHAKE => self.handshake(at, side, &content),
            DATA => deliver(&content),
            ALERT => self.has_closed[side] |= content.get(1) == Some(&0),
            _ => {}
        }
    }

    fn handshake(&mut self, at: u64, side: Side, content: &[u8]) {
        let half = &mut self.halves[side];
        let (agreed, mut is_finished, mut updates) = (&mut self.agreed, false, 0);
        half.messages.add(content, |kind, body| {
            agreed.message(at, side, kind, body, false);
            is_finished |= kind == FINISHED;
            updates += u64::from(kind == KEY_UPDATE);
        });
        let Keys::Tls13(_, keys) = &half.keys else { return };
        if is_finished {
            // The keys for application data are derived later, when a record needs them.
            half.keys = Keys::None;
        } else if updates > 0
            && let Some(next) = keys.next()
        {
            (half.keys, half.number) = (Keys::Tls13(Stage::Traffic, next), 0);
        }
    }

    fn keys12(&mut self, side: Side, log: &KeyLog) -> Option<Key> {
        let client = self.agreed.client_random?;
        let master = log.secret(&client, Label::Master)?;
        self.had_secret = true;
        let suite = keys::suite(self.agreed.suite?)?;
        let [client, server] = keys::tls12(suite, master, &client, &self.agreed.server_random?)?;
        Some(if side == 0 { client } else { server })
    }

    fn open12(&mut self, side: Side, head: &[u8], body: &mut [u8]) -> Option<(u8, Vec<u8>)> {
        let half = &mut self.halves[side];
        let Keys::Tls12(key) = &half.keys else { return None };
        let explicit = keys::suite(self.agreed.suite?)?.explicit;
        let (nonce, sealed) = body.split_at_mut_checked(explicit)?;
        let length = (sealed.len().checked_sub(TAG)? as u16).to_be_bytes();
        let data = [&half.number.to_be_bytes()[..], &head[..3], &length].concat();
        let opened = match explicit {
            0 => key.open(half.number, &data, sealed)?,
            _ => key.open_explicit(nonce, &data, sealed)?,
        };
        half.number += 1;
        Some((head[0], opened.to_vec()))
    }

    fn open13(&mut self, side: Side, head: &[u8], body: &[u8], log: &KeyLog) -> Option<(u8, Vec<u8>)> {
        let half = &mut self.halves[side];
        if let Keys::Tls13(_, keys) = &half.keys
            && let Some(opened) = open(keys, half.number, head, body)
        {
            half.number += 1;
            return Some(opened);
        }
        // The record may be the first record of a later stage, so the keys of the later stages are tried.
        let stages = match &half.keys {
            Keys::Tls13(Stage::Traffic, _) => &[][..],
            Keys::Tls13(Stage::Handshake, _) => &[Stage::Traffic][..],
            _ if side == 0 => &[Stage::Early, Stage::Handshake, Stage::Traffic],
            _ => &[Stage::Handshake, Stage::Traffic],
        };
        let random = self.agreed.client_random?;
        for stage in stages {
            let label = match stage {
                Stage::Early => Label::Early,
                Stage::Handshake => Label::Handshake(side),
                Stage::Traffic => Label::Traffic(side),
            };
            let Some(secret) = log.secret(&random, label) else { continue };
            self.had_secret = true;
            let known = self.agreed.suite.and_then(keys::suite).filter(|_| *stage != Stage::Early);
            let guessed = keys::suites_with_secrets_of(secret.len()).filter(|_| *stage == Stage::Early);
            for suite in known.into_iter().chain(guessed) {
                if let Some(keys) = TrafficKeys::new(suite, Protocol::Tls, secret)
                    && let Some(opened) = open(&keys, 0, head, body)
                {
                    (half.keys, half.number) = (Keys::Tls13(*stage, keys), 1);
                    return Some(opened);
                }
            }
        }
        None
    }

    /// Describes the session for the results. `is_incomplete` says whether bytes were not captured.
    pub fn finish(&self, is_incomplete: bool) -> Security {
        let version = match self.agreed.version {
            Some(0x0304) => "TLS 1.3".to_owned(),
            Some(0x0303) => "TLS 1.2".to_owned(),
            Some(0x0302) => "TLS 1.1".to_owned(),
            Some(0x0301) => "TLS 1.0".to_owned(),
            Some(version) => format!("TLS version 0x{version:04x}"),
            None => "TLS".to_owned(),
        };
        let why = self.agreed.why_sealed(self.had_secret);
        let why = why.or(is_incomplete.then_some("bytes of the connection are missing in the capture"));
        self.agreed.describe(version, self.opened, why)
    }
}

/// RFC 8446 §5.2: decrypts a record of TLS 1.3. Returns its content and the type of the content.
fn open(keys: &TrafficKeys, number: u64, head: &[u8], body: &[u8]) -> Option<(u8, Vec<u8>)> {
    let mut body = body.to_vec();
    let opened = keys.key.open(number, head, &mut body)?;
    let end = opened.iter().rposition(|byte| *byte != 0)?;
    Some((opened[end], opened[..end].to_vec()))
}
