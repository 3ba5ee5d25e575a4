//! The records of a connection once its keys are known: seals and opens them in place, and handles the protocol after the
//! handshake.
//!
//! The library does the handshake and is dropped as soon as that is done. Its own record handling would need kilobytes
//! per connection and four times the CPU time of the cipher. The keys are derived from secrets observed during the
//! handshake (`secrets`). From then on this module implements everything in RFC 9147 and RFC 6347 that follows a
//! handshake. That is: acknowledgements, key updates, retransmission of last flights, alerts, the replay window, and the
//! limits of the ciphers.
//!
//! **A nonce is used once.** A nonce is made from an epoch's key and a record's number. Each number is used once: one
//! place (`seal`) adds one to the previous number, whatever the record contains. A retransmission is sealed again, with a
//! number of its own. A new epoch, whose numbers begin at 0, has a new key. The library has sealed records with the same
//! keys before. So each datagram that the library sends is opened here first ([`Records::adopt`]), and our numbers begin
//! above all of its. Nothing is sealed here before the library is dropped. DTLS 1.2 records can contain explicit nonces:
//! the library's are random, and ours begin with two bytes with which none of the library's began.
//! `records/tests/nonces.rs` checks all datagrams of two ends in long runs.
//!
//! - `keys`: one record
//! - `window`: which records have arrived
//! - `dtls13`, `dtls12`: a connection's state, by version
//! - `flight`: retransmissions

mod dtls12;
mod dtls13;
mod flight;
mod keys;
#[cfg(test)]
mod tests;
mod window;

use crate::secrets::Seen;
use anabranch_base::Instant;
use anabranch_transport::CloseReason;

/// The record state of a connection.
pub(crate) enum Records {
    V12(Box<dtls12::Records>),
    V13(Box<dtls13::Records>),
}

/// Why a connection has ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// The peer has sent a closure alert.
    Closed,
    /// The peer has sent this other alert.
    Alert(u8),
    /// The peer has violated the protocol; an alert was sent.
    Broken(&'static str),
    /// A limit of the cipher for one key has been reached.
    UsedUp,
    /// The peer does not answer.
    Silent,
}

impl From<Ended> for CloseReason {
    fn from(ended: Ended) -> Self {
        match ended {
            Ended::Closed => Self::Reset("the peer has ended DTLS".to_owned()),
            Ended::Alert(alert) => Self::Protocol(format!("DTLS: the peer has sent alert {alert}")),
            Ended::Broken(what) => Self::Protocol(format!("DTLS: the peer has sent {what}")),
            Ended::UsedUp => Self::Protocol("DTLS: the limit of the cipher is reached".to_owned()),
            Ended::Silent => Self::TimedOut("no answer to DTLS".to_owned()),
        }
    }
}

impl Records {
    /// Creates the records from the secrets observed during a handshake; `None` while some are missing. Keys of DTLS 1.3
    /// are changed after `update_after` records.
    pub fn of(seen: &Seen, client: bool, update_after: u64) -> Option<Self> {
        let v13 = dtls13::Records::of(seen, client, update_after).map(|records| Self::V13(Box::new(records)));
        v13.or_else(|| Some(Self::V12(Box::new(dtls12::Records::of(seen, client)?))))
    }

    /// Takes record numbers and nonces from a datagram that the library sends.
    pub fn adopt(&mut self, datagram: &[u8], now: Instant) {
        match self {
            Self::V12(records) => records.adopt(datagram),
            Self::V13(records) => records.adopt(datagram, now),
        }
    }

    /// Called when the handshake is done and the library has been dropped.
    pub fn begin(&mut self, now: Instant) {
        match self {
            Self::V12(records) => records.begin(),
            Self::V13(records) => records.begin(now),
        }
    }

    /// Appends a record with a packet to `out`. Returns `None` if no more records may be sealed; the connection is then
    /// useless.
    #[inline]
    pub fn seal(&mut self, packet: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::V12(records) => records.seal(keys::DATA, packet, out),
            Self::V13(records) => records.seal(keys::DATA, packet, out),
        }
    }

    /// Whether another record may be sealed.
    #[inline]
    pub fn may_seal(&self) -> bool {
        match self {
            Self::V12(records) => records.may_seal(),
            Self::V13(records) => records.may_seal(),
        }
    }

    /// Returns the datagram without the data records at its beginning.
    pub fn without_data<'a>(&self, datagram: &'a [u8]) -> &'a [u8] {
        let (mut rest, is_v13) = (datagram, matches!(self, Self::V13(_)));
        loop {
            let end = match is_v13 {
                true => dtls13::data(rest),
                false => dtls12::data(rest),
            };
            match end {
                Some(end) => rest = &rest[end..],
                None => return rest,
            }
        }
    }

    /// The number of bytes that a record adds to a packet.
    pub fn overhead(&self) -> usize {
        match self {
            Self::V12(records) => records.overhead(),
            Self::V13(_) => dtls13::OVERHEAD,
        }
    }

    /// Opens a received datagram in place, delivers its packets, and sends answers if needed.
    #[inline]
    pub fn receive(
        &mut self,
        now: Instant,
        datagram: &mut [u8],
        deliver: impl FnMut(&[u8]),
        send: impl FnMut(&[u8]),
    ) -> Option<Ended> {
        match self {
            Self::V12(records) => records.receive(datagram, deliver, send),
            Self::V13(records) => records.receive(now, datagram, deliver, send),
        }
    }

    /// Sends what is due: retransmissions, and key updates.
    pub fn expire(&mut self, now: Instant, send: impl FnMut(&[u8])) -> Option<Ended> {
        match self {
            Self::V12(_) => None,
            Self::V13(records) => records.expire(now, send),
        }
    }

    /// The time at which [`expire`](Self::expire) has to be called.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Self::V12(_) => None,
            Self::V13(records) => records.deadline(),
        }
    }

    /// Whether the keys have to be changed, which [`expire`](Self::expire) starts.
    #[inline]
    pub fn wants_update(&self) -> bool {
        matches!(self, Self::V13(records) if records.wants_update())
    }

    /// Appends a closure alert (close_notify) to `out`.
    pub fn close(&mut self, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::V12(records) => records.seal(keys::ALERT, &GOODBYE, out),
            Self::V13(records) => records.seal(keys::ALERT, &GOODBYE, out),
        }
    }
}

/// A warning alert, close_notify (RFC 8446 §6.1, RFC 5246 §7.2.1).
const GOODBYE: [u8; 2] = [WARNING, CLOSE_NOTIFY];
const WARNING: u8 = 1;
const FATAL: u8 = 2;
const CLOSE_NOTIFY: u8 = 0;
const UNEXPECTED_MESSAGE: u8 = 10;
const ILLEGAL_PARAMETER: u8 = 47;
const USER_CANCELED: u8 = 90;
const NO_RENEGOTIATION: u8 = 100;

/// RFC 9147 §4.5.3: the number of records with failed authentication after which a key must not be used any more.
const MAX_FORGED: u64 = 1 << 36;

/// Iterates over the handshake messages of a record: type, number, and body if it is not fragmented (RFC 9147 §5.2,
/// RFC 6347 §4.2.2). A truncated message ends the iteration.
fn messages(mut content: &[u8]) -> impl Iterator<Item = (u8, u16, Option<&[u8]>)> {
    std::iter::from_fn(move || {
        let head = content.first_chunk::<MESSAGE>()?;
        let three = |at: usize| {
            usize::from(head[at]) << 16 | usize::from(head[at + 1]) << 8 | usize::from(head[at + 2])
        };
        let (whole, offset, length) = (three(1), three(6), three(9));
        let body = content.get(MESSAGE..)?.get(..length)?;
        content = &content[MESSAGE + length..];
        let number = u16::from_be_bytes([head[4], head[5]]);
        Some((head[0], number, (offset == 0 && length == whole).then_some(body)))
    })
}

/// The size of a handshake message header.
const MESSAGE: usize = 12;
const CLIENT_HELLO: u8 = 1;
const HELLO_REQUEST: u8 = 0;
const NEW_SESSION_TICKET: u8 = 4;
const FINISHED: u8 = 20;
const KEY_UPDATE: u8 = 24;
