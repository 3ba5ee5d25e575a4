//! The records of a connection once its keys are known. Encrypts and decrypts records in place, and implements the
//! protocol after the handshake.
//!
//! This module replaces dimpl's record handling, which would need kilobytes per connection, and four times the CPU time
//! of the cipher. dimpl does the handshake, and its state is dropped when the handshake is done. The keys are derived
//! from secrets that are observed during the handshake (`secrets`). This module implements everything in RFC 9147 and
//! RFC 6347 that follows: acknowledgements, key updates, retransmission of last flights, alerts, the replay window, and
//! the limits of the ciphers.
//!
//! **No nonce is used twice with one key.** Each epoch has a key and an IV. A nonce is made from the IV and the number
//! of a record.
//! - Each record number is used once. Only `seal` assigns numbers, and each number is the previous number plus one,
//!   whatever the record contains.
//! - A retransmission is encrypted again, with a new number.
//! - The numbers of a new epoch begin at 0, and the epoch has a new key.
//! - dimpl has encrypted records with the same keys during the handshake. Each datagram that dimpl sends is decrypted
//!   here first ([`Records::adopt`]), so that our numbers begin above dimpl's. This module encrypts nothing before
//!   dimpl's state is dropped.
//! - DTLS 1.2 records can contain explicit nonces. dimpl's nonces are random. Our nonces begin with a two-byte prefix.
//!   [`Records::adopt`] chooses this prefix so that no nonce that dimpl has used begins with it.
//!
//! The test `records/tests/nonces.rs` checks this rule for all datagrams of a client and a server in long runs.
//!
//! - `keys`: encrypts and decrypts one record
//! - `window`: detects replays
//! - `dtls13`, `dtls12`: the state of a connection, by version
//! - `unacked_message`: messages that are retransmitted

mod dtls12;
mod dtls13;
mod keys;
#[cfg(test)]
mod tests;
mod unacked_message;
mod window;

use crate::secrets::ObservedSecrets;
use anabranch_base::Instant;
use anabranch_transport::CloseReason;

/// The record state of a connection.
pub(crate) enum Records {
    V12(Box<dtls12::Records>),
    V13(Box<dtls13::Records>),
}

/// Splits a datagram of either version into its records. Bytes after the last whole record remain together.
pub(crate) fn split(datagram: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = datagram;
    std::iter::from_fn(move || {
        let record;
        (record, rest) = rest.split_at(dtls13::record_end(rest).unwrap_or(rest.len()));
        (!record.is_empty()).then_some(record)
    })
}

/// The reason why a connection has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum RecordsEnd {
    /// The peer has sent a closure alert.
    Closed,
    /// The peer has sent an alert other than a closure alert.
    Alert(u8),
    /// The peer has violated the protocol; an alert was sent.
    Broken(&'static str),
    /// A key has reached the cipher's limit.
    KeyLimitReached,
    /// The peer does not answer.
    TimedOut,
}

impl From<RecordsEnd> for CloseReason {
    fn from(ended: RecordsEnd) -> Self {
        match ended {
            RecordsEnd::Closed => Self::Reset("the peer has ended DTLS".to_owned()),
            RecordsEnd::Alert(alert) => Self::Protocol(format!("DTLS: the peer has sent alert {alert}")),
            RecordsEnd::Broken(what) => Self::Protocol(format!("DTLS: the peer has sent {what}")),
            RecordsEnd::KeyLimitReached => {
                Self::Protocol("DTLS: the limit of the cipher is reached".to_owned())
            }
            RecordsEnd::TimedOut => Self::TimedOut("no answer to DTLS".to_owned()),
        }
    }
}

impl Records {
    /// Creates the record state from the secrets observed during a handshake. Returns `None` while some secrets are
    /// missing. Keys of DTLS 1.3 are changed after `update_after` records.
    pub fn of(secrets: &ObservedSecrets, client: bool, update_after: u64) -> Option<Self> {
        let v13 =
            dtls13::Records::of(secrets, client, update_after).map(|records| Self::V13(Box::new(records)));
        v13.or_else(|| Some(Self::V12(Box::new(dtls12::Records::of(secrets, client)?))))
    }

    /// Notes the record numbers and nonces in a datagram that dimpl sends, so that our records use different ones.
    pub fn adopt(&mut self, datagram: &[u8], now: Instant) {
        match self {
            Self::V12(records) => records.adopt(datagram),
            Self::V13(records) => records.adopt(datagram, now),
        }
    }

    /// Begins the phase after the handshake, in which this module encrypts the records. The caller must have dropped
    /// the state of dimpl, the library that did the handshake.
    pub fn begin(&mut self, now: Instant) {
        match self {
            Self::V12(records) => records.begin(),
            Self::V13(records) => records.begin(now),
        }
    }

    /// Appends an encrypted record with `packet` to `out`. Returns `None` if no more records may be sent. The
    /// connection is useless in that case.
    #[inline]
    pub fn seal(&mut self, packet: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::V12(records) => records.seal(keys::DATA, packet, out),
            Self::V13(records) => records.seal(keys::DATA, packet, out),
        }
    }

    /// Returns whether another record may be sent.
    #[inline]
    pub fn may_seal(&self) -> bool {
        match self {
            Self::V12(records) => records.may_seal(),
            Self::V13(records) => records.may_seal(),
        }
    }

    /// Skips the records with application data at the beginning of a datagram. Returns the rest of the datagram.
    pub fn without_data<'a>(&self, datagram: &'a [u8]) -> &'a [u8] {
        let (mut rest, is_v13) = (datagram, matches!(self, Self::V13(_)));
        loop {
            let end = match is_v13 {
                true => dtls13::data_end(rest),
                false => dtls12::data_end(rest),
            };
            match end {
                Some(end) => rest = &rest[end..],
                None => return rest,
            }
        }
    }

    /// Returns the number of bytes that a record adds to a packet.
    pub fn overhead(&self) -> usize {
        match self {
            Self::V12(records) => records.overhead(),
            Self::V13(_) => dtls13::OVERHEAD,
        }
    }

    /// Decrypts a received datagram in place. Passes each packet in it to `deliver`, and each answering datagram to
    /// `send`. If the connection ends, returns the reason.
    #[inline]
    pub fn receive(
        &mut self,
        now: Instant,
        datagram: &mut [u8],
        deliver: impl FnMut(&[u8]),
        send: impl FnMut(&[u8]),
    ) -> Option<RecordsEnd> {
        match self {
            Self::V12(records) => records.receive(datagram, deliver, send),
            Self::V13(records) => records.receive(now, datagram, deliver, send),
        }
    }

    /// Sends the retransmissions and key updates that are due. If the connection ends, returns the reason.
    pub fn expire(&mut self, now: Instant, send: impl FnMut(&[u8])) -> Option<RecordsEnd> {
        match self {
            Self::V12(_) => None,
            Self::V13(records) => records.expire(now, send),
        }
    }

    /// Returns the time at which [`expire`](Self::expire) has to be called.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Self::V12(_) => None,
            Self::V13(records) => records.deadline(),
        }
    }

    /// Returns whether the keys have to be changed. A call of [`expire`](Self::expire) starts the change.
    #[inline]
    pub fn wants_update(&self) -> bool {
        matches!(self, Self::V13(records) if records.wants_update())
    }

    /// Appends a record with a closure alert (close_notify) to `out`.
    pub fn close(&mut self, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::V12(records) => records.seal(keys::ALERT, &GOODBYE, out),
            Self::V13(records) => records.seal(keys::ALERT, &GOODBYE, out),
        }
    }
}

/// The content of a closure alert: a warning with close_notify (RFC 8446 §6.1, RFC 5246 §7.2.1).
const GOODBYE: [u8; 2] = [WARNING, CLOSE_NOTIFY];
const WARNING: u8 = 1;
const FATAL: u8 = 2;
const CLOSE_NOTIFY: u8 = 0;
const UNEXPECTED_MESSAGE: u8 = 10;
const ILLEGAL_PARAMETER: u8 = 47;
const USER_CANCELED: u8 = 90;
const NO_RENEGOTIATION: u8 = 100;

/// RFC 9147 §4.5.3: a key must not be used any more after this number of records has failed authentication.
const MAX_FORGED: u64 = 1 << 36;

/// Iterates over the handshake messages in a record (RFC 9147 §5.2, RFC 6347 §4.2.2). Each item has the type, the
/// message number, and the body (`None` if the message is a fragment). A truncated message ends the iteration.
fn messages(mut content: &[u8]) -> impl Iterator<Item = (u8, u16, Option<&[u8]>)> {
    std::iter::from_fn(move || {
        let head = content.first_chunk::<MESSAGE_HEADER_LEN>()?;
        let three = |at: usize| {
            usize::from(head[at]) << 16 | usize::from(head[at + 1]) << 8 | usize::from(head[at + 2])
        };
        let (whole, offset, length) = (three(1), three(6), three(9));
        let body = content.get(MESSAGE_HEADER_LEN..)?.get(..length)?;
        content = &content[MESSAGE_HEADER_LEN + length..];
        let number = u16::from_be_bytes([head[4], head[5]]);
        Some((head[0], number, (offset == 0 && length == whole).then_some(body)))
    })
}

/// The size of the header of a handshake message in bytes.
const MESSAGE_HEADER_LEN: usize = 12;
const CLIENT_HELLO: u8 = 1;
const HELLO_REQUEST: u8 = 0;
const NEW_SESSION_TICKET: u8 = 4;
const FINISHED: u8 = 20;
const KEY_UPDATE: u8 = 24;
