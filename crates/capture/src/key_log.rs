//! The secrets of TLS, DTLS and QUIC connections, from key logs in NSS format.
//!
//! A line has a label, the client random of the connection, and the secret, both in hexadecimal. Lines of any other form
//! are ignored. The number of secrets is limited.

use std::collections::BTreeMap;

/// The maximum number of secrets. A connection has about five.
const MAX_SECRETS: usize = 1 << 18;
/// The maximum length of a secret in bytes. The longest hash in use, SHA-384, has 48 bytes.
const MAX_LEN: usize = 64;

/// The random value of a ClientHello, which identifies a connection in key logs.
pub(super) type ClientRandom = [u8; 32];

/// Secrets by client random and label.
#[derive(Debug, Default)]
pub(super) struct KeyLog(BTreeMap<(ClientRandom, Label), Vec<u8>>);

/// The labels of the secrets that are used here.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub(super) enum Label {
    /// The master secret of TLS 1.2 and DTLS 1.2.
    Master,
    /// The traffic secrets of TLS 1.3, DTLS 1.3 and QUIC. The number is 0 for the client and 1 for the server.
    Early,
    Handshake(usize),
    Traffic(usize),
}

impl KeyLog {
    /// Adds the secrets in the lines of a key log.
    pub fn add(&mut self, lines: &[u8]) {
        for line in lines.split(|byte| *byte == b'\n') {
            if let Some((key, secret)) = parse(line).filter(|_| self.0.len() < MAX_SECRETS) {
                self.0.insert(key, secret);
            }
        }
    }

    /// Returns a secret of the connection with this client random.
    pub fn secret(&self, random: &ClientRandom, label: Label) -> Option<&[u8]> {
        self.0.get(&(*random, label)).map(Vec::as_slice)
    }
}

/// Returns whether these bytes can be a key log: one of the first lines has a label and two hexadecimal numbers, or there
/// are only comments so far. The labels may be those of other secrets.
#[must_use]
pub fn is_key_log(bytes: &[u8]) -> bool {
    const LINES: usize = 16;
    let lines = bytes.split(|byte| *byte == b'\n').map(<[u8]>::trim_ascii);
    let mut secrets = lines.filter(|line| !line.is_empty() && line[0] != b'#').take(LINES).peekable();
    secrets.peek().is_none()
        || secrets.any(|line| {
            let words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
            let words: Vec<&[u8]> = words.collect();
            words.len() == 3 && words[1..].iter().all(|word| word.iter().all(u8::is_ascii_hexdigit))
        })
}

fn parse(line: &[u8]) -> Option<((ClientRandom, Label), Vec<u8>)> {
    let line = std::str::from_utf8(line).ok()?;
    let mut words = line.split_ascii_whitespace();
    let label = match words.next()? {
        "CLIENT_RANDOM" => Label::Master,
        "CLIENT_EARLY_TRAFFIC_SECRET" => Label::Early,
        "CLIENT_HANDSHAKE_TRAFFIC_SECRET" => Label::Handshake(0),
        "SERVER_HANDSHAKE_TRAFFIC_SECRET" => Label::Handshake(1),
        "CLIENT_TRAFFIC_SECRET_0" => Label::Traffic(0),
        "SERVER_TRAFFIC_SECRET_0" => Label::Traffic(1),
        _ => return None,
    };
    let random = hex(words.next()?)?.try_into().ok()?;
    Some(((random, label), hex(words.next()?)?))
}

fn hex(text: &str) -> Option<Vec<u8>> {
    if text.len() > 2 * MAX_LEN || !text.len().is_multiple_of(2) {
        return None;
    }
    let digits: Option<Vec<u8>> = text.chars().map(|digit| Some(digit.to_digit(16)? as u8)).collect();
    Some(digits?.chunks_exact(2).map(|pair| pair[0] << 4 | pair[1]).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_a_key_log_are_found_by_client_random_and_label() {
        let random = "ab".repeat(32);
        let text = format!(
            "# a comment\r\nCLIENT_RANDOM {random} 0102\r\nEXPORTER_SECRET {random} 03\n\
             CLIENT_TRAFFIC_SECRET_0 {random} 0g\nSERVER_TRAFFIC_SECRET_0 {random} 0405\nCLIENT_RANDOM 00 01\n\u{e9}"
        );
        let mut log = KeyLog::default();
        log.add(text.as_bytes());
        log.add(&[0xff, b'\n', 0]);
        log.add(format!("CLIENT_EARLY_TRAFFIC_SECRET\t{random} \t06").as_bytes());
        assert_eq!(log.secret(&[0xab; 32], Label::Master), Some(&[1, 2][..]));
        assert_eq!(log.secret(&[0xab; 32], Label::Traffic(0)), None);
        assert_eq!(log.secret(&[0xab; 32], Label::Traffic(1)), Some(&[4, 5][..]));
        assert_eq!(log.secret(&[0xab; 32], Label::Early), Some(&[6][..]));
        assert_eq!(log.0.len(), 3);
    }

    #[test]
    fn other_files_are_no_key_logs() {
        for log in [
            "",
            "# NSS key log\n",
            "\r\n# a comment\r\nEXPORTER_SECRET 00ab 0C\r\n",
            "x\nCLIENT_RANDOM 00 01",
            "CLIENT_RANDOM\t00 \t01",
        ] {
            assert!(is_key_log(log.as_bytes()), "{log}");
        }
        for other in [
            "-----BEGIN PRIVATE KEY-----\nMIGHAgEA\n",
            "\n\r\r\n\u{4}",
            "CLIENT_RANDOM 00\n",
            "A 0g 01",
            "A\t0g\t01",
        ] {
            assert!(!is_key_log(other.as_bytes()), "{other}");
        }
    }
}
