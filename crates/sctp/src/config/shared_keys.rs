//! Endpoint pair shared keys: secrets configured at both ends, each with an identifier. One of the keys signs the
//! chunks that are sent. This module also parses key files.
//!
//! Without configured keys, the only key is the empty key. The signing key is then derived from the handshake alone, so
//! anyone who has seen the handshake can sign chunks in the peer's name.
//!
//! Implements RFC 4895 §4 (endpoint pair shared keys) and the first paragraph of §6.1.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// The endpoint pair shared keys (RFC 4895), by identifier, and the identifier of the key that signs sent chunks.
/// Chunks that the peer signs with any of these keys are accepted.
#[derive(Clone, PartialEq, Eq)]
pub struct SharedKeys {
    keys: BTreeMap<u16, Arc<[u8]>>,
    active: u16,
}

/// An error in the text of a key file. The text of the error is one line, without the keys.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct SharedKeysError(String);

impl Default for SharedKeys {
    /// RFC 4895 §6.1: returns the set with only the empty key, whose identifier is 0.
    fn default() -> Self {
        Self::new(0, &[])
    }
}

impl fmt::Debug for SharedKeys {
    /// Shows the identifiers, but never the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ids: Vec<_> = self.keys.keys().collect();
        f.debug_struct("SharedKeys").field("ids", &ids).field("active", &self.active).finish()
    }
}

impl SharedKeys {
    /// The largest number of keys.
    pub const MAX: usize = 256;

    /// Creates a set with one key, which signs all chunks. Chunks that the peer signs with the empty key are not
    /// accepted, unless `secret` is empty.
    ///
    /// ```
    /// use anabranch_sctp::{Config, SharedKeys};
    ///
    /// let mut config = Config::default();
    /// config.set("auth", "yes")?;
    /// config.shared_keys = SharedKeys::new(1, b"sixteen bytes or more");
    /// assert_eq!(format!("{:?}", config.shared_keys), "SharedKeys { ids: [1], active: 1 }");
    /// # Ok::<(), anabranch_sctp::KnobError>(())
    /// ```
    #[must_use]
    pub fn new(id: u16, secret: &[u8]) -> Self {
        Self { keys: BTreeMap::from([(id, secret.into())]), active: id }
    }

    /// Adds a key. From then on, the peer may sign with this key. Replaces a key with the same identifier. Returns
    /// false if there are too many keys.
    ///
    /// ```
    /// use anabranch_sctp::SharedKeys;
    ///
    /// let mut keys = SharedKeys::new(1, b"used until now, on both sides");
    /// assert!(keys.add(2, b"known to both before either signs with it"));
    /// assert!(keys.activate(2));
    /// ```
    pub fn add(&mut self, id: u16, secret: &[u8]) -> bool {
        let room = self.has_room(id);
        if room {
            self.insert(id, secret);
        }
        room
    }

    /// Selects the key that signs. Returns false if the set has no key with this identifier.
    pub fn activate(&mut self, id: u16) -> bool {
        let known = self.keys.contains_key(&id);
        if known {
            self.active = id;
        }
        known
    }

    /// Returns the identifier of the key that signs.
    #[must_use]
    pub fn active(&self) -> u16 {
        self.active
    }

    /// Returns true if the empty key is in the set. This key does not protect against anyone who has seen the
    /// handshake.
    #[must_use]
    pub fn has_empty_key(&self) -> bool {
        self.shorter_than(1).is_some()
    }

    /// Returns the identifier of the first key that is shorter than `bytes` bytes.
    #[must_use]
    pub fn shorter_than(&self, bytes: usize) -> Option<u16> {
        self.keys.iter().find(|(_, key)| key.len() < bytes).map(|(&id, _)| id)
    }

    /// Parses a key file with one key per line: `ID HEX`, `ID hex:HEX` or `ID base64:TEXT`. The identifier `ID` is a
    /// number from 0 to 65535. The key in a line that ends with `active` signs the chunks that are sent. If no line
    /// does, the last key signs them. Empty lines and lines that start with `#` are ignored.
    ///
    /// ```
    /// use anabranch_sctp::SharedKeys;
    ///
    /// let keys = SharedKeys::parse("# since May\n7 00112233445566778899aabbccddeeff\n")?;
    /// assert_eq!(keys.active(), 7);
    /// let both = SharedKeys::parse("7 00112233445566778899aabbccddeeff active\n8 base64:QUJDREVGR0hJSktMTU5PUA==\n")?;
    /// assert_eq!(both.active(), 7, "8 is accepted already");
    /// assert!(SharedKeys::parse("7 secret").is_err());
    /// # Ok::<(), anabranch_sctp::SharedKeysError>(())
    /// ```
    ///
    /// # Errors
    /// [`SharedKeysError`] if a line cannot be parsed. The error names the line.
    pub fn parse(text: &str) -> Result<Self, SharedKeysError> {
        let mut keys = Self { keys: BTreeMap::new(), active: 0 };
        let mut marked = false;
        for (number, line) in text.lines().enumerate() {
            let wrong = |what: String| SharedKeysError(format!("line {}: {what}", number + 1));
            let line = line.trim();
            if line.is_empty() || line.starts_with('#') {
                continue;
            }
            let (id, secret, active) = read_line(line).map_err(wrong)?;
            if keys.keys.contains_key(&id) {
                return Err(wrong(format!("there is a key {id} already")));
            }
            if active && marked {
                return Err(wrong("another key is active already".to_owned()));
            }
            if !keys.add(id, &secret) {
                return Err(wrong(format!("more than {} keys", Self::MAX)));
            }
            if active || !marked {
                keys.active = id;
            }
            marked |= active;
        }
        if keys.keys.is_empty() {
            return Err(SharedKeysError("no key in it; write lines of ID HEX or ID base64:TEXT".to_owned()));
        }
        Ok(keys)
    }

    pub(crate) fn find(&self, id: u16) -> Option<&[u8]> {
        self.keys.get(&id).map(|key| &**key)
    }

    pub(crate) fn has_room(&self, id: u16) -> bool {
        self.keys.len() < Self::MAX || self.keys.contains_key(&id)
    }

    pub(crate) fn insert(&mut self, id: u16, key: &[u8]) {
        self.keys.insert(id, key.into());
    }

    pub(crate) fn remove(&mut self, id: u16) {
        self.keys.remove(&id);
    }
}

/// The length in bytes of the longest accepted key. A longer key would not protect better (RFC 2104 §3), because HMAC
/// first hashes a key that is longer than HMAC's block.
const MAX_SECRET: usize = 1_024;

/// Parses a line into the identifier, the secret, and whether the line is marked `active`.
fn read_line(line: &str) -> Result<(u16, Vec<u8>, bool), String> {
    let mut words = line.split_whitespace();
    let (Some(id), Some(text)) = (words.next(), words.next()) else {
        return Err("an identifier without a key; write ID HEX or ID base64:TEXT".to_owned());
    };
    let id = id.parse().map_err(|_| "the key's identifier is a number from 0 to 65535".to_owned())?;
    let active = match (words.next(), words.next()) {
        (None, _) => false,
        (Some("active"), None) => true,
        _ => return Err("behind a key stands nothing, or `active`".to_owned()),
    };
    let secret = match text.split_once(':') {
        None => hex(text),
        Some(("hex", digits)) => hex(digits),
        Some(("base64", text)) => base64(text),
        Some(_) => None,
    };
    let secret = secret.ok_or("the key is neither pairs of hex digits nor base64:TEXT")?;
    match secret.len() {
        0 => Err("the key is empty".to_owned()),
        1..=MAX_SECRET => Ok((id, secret, active)),
        _ => Err(format!("the key has more than {MAX_SECRET} bytes")),
    }
}

fn hex(text: &str) -> Option<Vec<u8>> {
    let digits: Option<Vec<u32>> = text.chars().map(|digit| digit.to_digit(16)).collect();
    let digits = digits.filter(|digits| digits.len().is_multiple_of(2))?;
    Some(digits.chunks(2).map(|pair| (pair[0] << 4 | pair[1]) as u8).collect())
}

/// RFC 4648 §4: decodes base64, with or without the padding.
fn base64(text: &str) -> Option<Vec<u8>> {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let bare = text.trim_end_matches('=');
    let padding = text.len() - bare.len();
    let whole = padding == 0 || padding < 3 && text.len().is_multiple_of(4);
    if !whole || bare.len() % 4 == 1 {
        return None;
    }
    let (mut bytes, mut bits, mut count) = (Vec::new(), 0_u32, 0);
    for digit in bare.bytes() {
        bits = bits << 6 | DIGITS.iter().position(|&known| known == digit)? as u32;
        count += 6;
        if count >= 8 {
            count -= 8;
            bytes.push((bits >> count) as u8);
            bits &= (1 << count) - 1;
        }
    }
    // RFC 4648 §3.5: the bits of the last base64 character that belong to no byte must be zero.
    (bits == 0).then_some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 4648 §10: the test vectors, and invalid input.
    #[test]
    fn base64_is_read() {
        for (text, bytes) in [
            ("", &b""[..]),
            ("Zg==", b"f"),
            ("Zg", b"f"),
            ("Zm8=", b"fo"),
            ("Zm9v", b"foo"),
            ("Zm9vYg==", b"foob"),
            ("Zm9vYmE=", b"fooba"),
            ("Zm9vYmFy", b"foobar"),
            ("+/+/", &[0xfb, 0xff, 0xbf]),
        ] {
            assert_eq!(base64(text).as_deref(), Some(bytes), "{text}");
        }
        for text in ["Z", "Zg=", "Zg===", "====", "=", "Zm9vY", "Zm=v", "Zm-v", "Zm 9v", "Zh==", "Zm9="] {
            assert_eq!(base64(text), None, "{text}");
        }
    }

    #[test]
    fn the_last_key_signs_unless_one_is_marked() {
        let parse = |text: &str| SharedKeys::parse(text).expect(text);
        assert_eq!(parse("5 aa\n3 bb").active(), 3);
        assert_eq!(parse("5 AA active\n3 bb\n").active(), 5);
        assert_eq!(parse("\t0 hex:aabb \n").active(), 0);
        let keys = parse("5 aa\r\n\r\n# c\r\n3 base64:u7s=\r\n");
        assert_eq!(
            (keys.find(5), keys.find(3), keys.find(0)),
            (Some(&[0xaa][..]), Some(&[0xbb, 0xbb][..]), None)
        );
        assert!(!keys.has_empty_key() && SharedKeys::default().has_empty_key());
        assert_eq!((keys.shorter_than(2), keys.shorter_than(1)), (Some(5), None));
    }

    #[test]
    fn secrets_do_not_show() {
        let keys = SharedKeys::parse("5 deadbeef").expect("a key");
        let mut config = crate::Config::default();
        config.shared_keys = keys;
        let shown = format!("{config:?} {:?}", config.knobs());
        assert!(shown.contains("ids: [5]"));
        for secret in ["deadbeef", "222, 173", "de, ad"] {
            assert!(!shown.contains(secret), "{shown}");
        }
        let error = SharedKeys::parse("5 deadbeeg").expect_err("no hex");
        assert!(error.to_string().starts_with("line 1: ") && !error.to_string().contains("dead"));
    }
}
