//! The handshake of TLS, which DTLS and QUIC share: the parameters that the two hellos and EncryptedExtensions
//! negotiate.
//!
//! Implements RFC 8446 §4.1 (hellos), §4.2 (extensions), §4.3.1 (EncryptedExtensions), §4.6.3 (KeyUpdate), RFC 6066 §3
//! (server name), RFC 7301 §3.1 (ALPN), RFC 6347 §4.2.1 (ClientHello of DTLS).

use super::arrival::Side;
use super::key_log::ClientRandom;
use super::results::Security;
use anabranch_wire::quic::Frames;

/// The reason why records cannot be decrypted if their secrets are missing.
pub(super) const NO_SECRETS: &str = "no key log has the secrets of this connection";

pub(super) const CLIENT_HELLO: u8 = 1;
pub(super) const SERVER_HELLO: u8 = 2;
pub(super) const ENCRYPTED_EXTENSIONS: u8 = 8;
pub(super) const FINISHED: u8 = 20;
pub(super) const KEY_UPDATE: u8 = 24;

/// RFC 8446 §4.1.3: the random value of a HelloRetryRequest.
const RETRY: [u8; 32] = [
    0xcf, 0x21, 0xad, 0x74, 0xe5, 0x9a, 0x61, 0x11, 0xbe, 0x1d, 0x8c, 0x02, 0x1e, 0x65, 0xb8, 0x91, 0xc2,
    0xa2, 0x11, 0x16, 0x7a, 0xbb, 0x8c, 0x5e, 0x07, 0x9e, 0x09, 0xe2, 0xc8, 0xa8, 0x33, 0x9c,
];
/// The maximum length of a handshake message that is kept while it is incomplete. Longer messages are skipped: only
/// certificates are longer.
const MAX_MESSAGE: usize = 1 << 16;

/// The parameters that a handshake has negotiated.
#[derive(Debug, Default)]
pub(super) struct Agreed {
    pub client_random: Option<ClientRandom>,
    pub server_random: Option<[u8; 32]>,
    /// The version of TLS or DTLS.
    pub version: Option<u16>,
    pub suite: Option<u16>,
    pub server_name: Option<String>,
    pub alpn: Option<String>,
    /// QUIC: the transport parameters of the client and the server (RFC 9001 §8.2).
    pub transport_parameters: [Vec<u8>; 2],
    /// The times of the first ClientHello, the last ClientHello, the ServerHello, and the client's Finished.
    pub times: [Option<u64>; 4],
    pub hellos: u64,
}

impl Agreed {
    /// Processes a handshake message without its header. DTLS has a cookie in its ClientHello.
    pub fn message(&mut self, at: u64, side: Side, kind: u8, body: &[u8], is_dtls: bool) {
        let mut rest = Frames(body);
        match (kind, side) {
            (CLIENT_HELLO, 0) => {
                let _ = self.client_hello(&mut rest, is_dtls);
                self.times[0].get_or_insert(at);
                self.times[1] = Some(at);
                self.hellos += 1;
            }
            (SERVER_HELLO, 1) => {
                let _ = self.server_hello(at, &mut rest);
            }
            (ENCRYPTED_EXTENSIONS, 1) => {
                let _ = self.extensions(&mut rest, false);
            }
            (FINISHED, 0) => {
                self.times[3].get_or_insert(at);
            }
            _ => {}
        }
    }

    fn client_hello(&mut self, rest: &mut Frames<'_>, is_dtls: bool) -> Option<()> {
        rest.bytes(2)?;
        self.client_random = rest.bytes(32)?.try_into().ok();
        vector(rest, 1)?;
        if is_dtls {
            vector(rest, 1)?;
        }
        vector(rest, 2)?;
        vector(rest, 1)?;
        self.extensions(rest, true)
    }

    fn server_hello(&mut self, at: u64, rest: &mut Frames<'_>) -> Option<()> {
        let version = number(rest.bytes(2)?);
        let random: [u8; 32] = rest.bytes(32)?.try_into().ok()?;
        if random == RETRY {
            return None;
        }
        vector(rest, 1)?;
        (self.server_random, self.suite) = (Some(random), Some(number(rest.bytes(2)?)));
        self.version = Some(version);
        self.times[2] = Some(at);
        rest.bytes(1)?;
        self.extensions(rest, false)
    }

    fn extensions(&mut self, rest: &mut Frames<'_>, by_client: bool) -> Option<()> {
        let mut rest = Frames(vector(rest, 2)?);
        while !rest.0.is_empty() {
            let (kind, content) = (number(rest.bytes(2)?), vector(&mut rest, 2)?);
            let mut content = Frames(content);
            match kind {
                0 if by_client => {
                    let mut names = Frames(vector(&mut content, 2)?);
                    names.bytes(1)?;
                    self.server_name = Some(text(vector(&mut names, 2)?));
                }
                16 if !by_client => {
                    let mut names = Frames(vector(&mut content, 2)?);
                    self.alpn = Some(text(vector(&mut names, 1)?));
                }
                57 => self.transport_parameters[usize::from(!by_client)] = content.0.to_vec(),
                43 if !by_client => self.version = Some(number(content.bytes(2)?)),
                _ => {}
            }
        }
        Some(())
    }

    /// Describes the connection for the results. `opened` has the number of records or packets that were decrypted, and
    /// the number of those that could not be decrypted.
    pub fn describe(&self, protocol: String, opened: [u64; 2], why: Option<&str>) -> Security {
        let [first, last, answered, finished] = self.times;
        let took = |from: Option<u64>, to: Option<u64>| Some(to?.saturating_sub(from?));
        Security {
            protocol,
            suite: self.suite.map(suite_name),
            server_name: self.server_name.clone(),
            alpn: self.alpn.clone(),
            hellos: self.hellos,
            took_ns: took(first, finished),
            answered_ns: took(last, answered),
            opened: opened[0],
            sealed: opened[1],
            why_sealed: why.filter(|_| opened[1] > 0).map(str::to_owned),
        }
    }

    /// Returns the reason why records cannot be decrypted, if keys or ciphers are missing.
    pub fn why_sealed(&self, has_secret: bool) -> Option<&'static str> {
        match self.suite {
            None => Some("the ServerHello was not captured"),
            Some(number) if super::keys::suite(number).is_none() => {
                Some("the cipher suite is none that can be opened: AES-GCM and ChaCha20-Poly1305")
            }
            _ if !has_secret => Some(NO_SECRETS),
            _ => None,
        }
    }
}

/// Splits the bytes of one direction's handshake into messages.
#[derive(Debug, Default)]
pub(super) struct Messages {
    partial: Vec<u8>,
    /// The number of bytes that still belong to a message that is skipped.
    skip: usize,
}

impl Messages {
    /// Adds bytes. Calls `message` with the kind and the body of each message that is complete.
    pub fn add(&mut self, mut bytes: &[u8], mut message: impl FnMut(u8, &[u8])) {
        while !bytes.is_empty() {
            let skipped = self.skip.min(bytes.len());
            (self.skip, bytes) = (self.skip - skipped, &bytes[skipped..]);
            let wanted = match self.partial.get(1..4) {
                None => 4 - self.partial.len(),
                Some(length) => {
                    4 + length.iter().fold(0, |n, byte| n << 8 | usize::from(*byte)) - self.partial.len()
                }
            };
            if self.partial.len() + wanted > MAX_MESSAGE {
                (self.skip, self.partial) = (wanted, Vec::new());
                continue;
            }
            let (head, rest) = bytes.split_at(wanted.min(bytes.len()));
            self.partial.extend_from_slice(head);
            bytes = rest;
            if let Some(length) = self.partial.get(1..4)
                && self.partial.len() == 4 + length.iter().fold(0, |n, byte| n << 8 | usize::from(*byte))
            {
                message(self.partial[0], &self.partial[4..]);
                self.partial.clear();
            }
        }
    }
}

/// Reads a vector whose length field has `width` bytes.
fn vector<'a>(rest: &mut Frames<'a>, width: u64) -> Option<&'a [u8]> {
    let length = rest.bytes(width)?.iter().fold(0, |length, byte| length << 8 | u64::from(*byte));
    rest.bytes(length)
}

fn number(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0, |number, byte| number << 8 | u16::from(*byte))
}

/// Returns text from a peer, without control characters and with at most 255 characters.
fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).chars().filter(|character| !character.is_control()).take(255).collect()
}

fn suite_name(number: u16) -> String {
    let name = match number {
        0x1301 => "TLS_AES_128_GCM_SHA256",
        0x1302 => "TLS_AES_256_GCM_SHA384",
        0x1303 => "TLS_CHACHA20_POLY1305_SHA256",
        0x1304 => "TLS_AES_128_CCM_SHA256",
        0xc02b => "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        0xc02c => "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        0xc02f => "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        0xc030 => "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        0xc009 => "TLS_ECDHE_ECDSA_WITH_AES_128_CBC_SHA",
        0xc00a => "TLS_ECDHE_ECDSA_WITH_AES_256_CBC_SHA",
        0xc013 => "TLS_ECDHE_RSA_WITH_AES_128_CBC_SHA",
        0xc014 => "TLS_ECDHE_RSA_WITH_AES_256_CBC_SHA",
        0xc0ac => "TLS_ECDHE_ECDSA_WITH_AES_128_CCM",
        0xc0ae => "TLS_ECDHE_ECDSA_WITH_AES_128_CCM_8",
        0xcca8 => "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        0xcca9 => "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        _ => return format!("0x{number:04x}"),
    };
    name.to_owned()
}
