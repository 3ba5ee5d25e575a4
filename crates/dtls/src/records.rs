//! The records of a connection, once its keys are there: sealed and opened in place, and what still goes on beneath data
//! when the handshake is over.
//!
//! The handshake is the library's, and the library is gone as soon as it is over: its own way of keeping records costs kilobytes
//! each, and four times the cipher. The keys are made of the secrets that were seen on the way (`secrets`), and from then on all of
//! RFC 9147 and RFC 6347 that follows a handshake is here: acknowledgements, updates of keys, last flights that are asked for again,
//! alerts, the window against replay, the limits of the ciphers.
//!
//! **A nonce is used once.** A nonce is made of an epoch's key and a record's number, and each number is taken once, by adding one to
//! the number before, in one place (`seal`), whatever the record holds; what is sent again is sealed again, with a number of its own.
//! A new epoch, whose numbers begin at 0, comes with a new key. The library has sealed records with the same keys before: each
//! datagram of its that leaves is opened here first ([`Records::adopt`]), so that our numbers begin above all of its, and nothing is sealed
//! here before it is gone. Where DTLS 1.2 names its nonces, the library's are random, and ours begin with two bytes that none of
//! those began with. `records/tests/nonces.rs` looks at all that leaves two ends in long runs.
//!
//! - `keys`: one record
//! - `window`: which have come
//! - `dtls13`, `dtls12`: a connection's state, by version
//! - `flight`: what is sent again

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

/// Those of a connection.
pub(crate) enum Records {
    V12(Box<dtls12::Records>),
    V13(Box<dtls13::Records>),
}

/// Why a connection is over.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Ended {
    /// The peer has said goodbye.
    Closed,
    /// The peer has sent this alert.
    Alert(u8),
    /// The peer has broken the rules, and been told so.
    Broken(&'static str),
    /// What the cipher may do with one key is used up.
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
    /// Made of what has been seen of a handshake; `None` while that is not enough. Keys of DTLS 1.3 are changed after so many
    /// records.
    pub fn of(seen: &Seen, client: bool, update_after: u64) -> Option<Self> {
        let v13 = dtls13::Records::of(seen, client, update_after).map(|records| Self::V13(Box::new(records)));
        v13.or_else(|| Some(Self::V12(Box::new(dtls12::Records::of(seen, client)?))))
    }

    /// The library sends this datagram.
    pub fn adopt(&mut self, datagram: &[u8], now: Instant) {
        match self {
            Self::V12(records) => records.adopt(datagram),
            Self::V13(records) => records.adopt(datagram, now),
        }
    }

    /// The handshake is over, and the library is gone.
    pub fn begin(&mut self, now: Instant) {
        match self {
            Self::V12(records) => records.begin(),
            Self::V13(records) => records.begin(now),
        }
    }

    /// Appends a record with a packet to `out`. `None`, and the connection is of no more use, where no more may be sealed.
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

    /// A datagram without the records of packets that it begins with.
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

    /// Bytes that a record adds to a packet.
    pub fn overhead(&self) -> usize {
        match self {
            Self::V12(records) => records.overhead(),
            Self::V13(_) => dtls13::OVERHEAD,
        }
    }

    /// Opens what has come, in place: packets are delivered, and what is to be answered is.
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

    /// Looks whether something is to be sent again, or for the first time.
    pub fn expire(&mut self, now: Instant, send: impl FnMut(&[u8])) -> Option<Ended> {
        match self {
            Self::V12(_) => None,
            Self::V13(records) => records.expire(now, send),
        }
    }

    /// When [`expire`](Self::expire) has something to do.
    #[inline]
    pub fn deadline(&self) -> Option<Instant> {
        match self {
            Self::V12(_) => None,
            Self::V13(records) => records.deadline(),
        }
    }

    /// The keys are to be changed: [`expire`](Self::expire) begins with that.
    #[inline]
    pub fn wants_update(&self) -> bool {
        matches!(self, Self::V13(records) if records.wants_update())
    }

    /// Appends a goodbye (close_notify) to `out`.
    pub fn close(&mut self, out: &mut Vec<u8>) -> Option<()> {
        match self {
            Self::V12(records) => records.seal(keys::ALERT, &GOODBYE, out),
            Self::V13(records) => records.seal(keys::ALERT, &GOODBYE, out),
        }
    }
}

/// Warning, close_notify (RFC 8446 §6.1, RFC 5246 §7.2.1).
const GOODBYE: [u8; 2] = [WARNING, CLOSE_NOTIFY];
const WARNING: u8 = 1;
const FATAL: u8 = 2;
const CLOSE_NOTIFY: u8 = 0;
const UNEXPECTED_MESSAGE: u8 = 10;
const ILLEGAL_PARAMETER: u8 = 47;
const USER_CANCELED: u8 = 90;
const NO_RENEGOTIATION: u8 = 100;

/// RFC 9147 §4.5.3: after so many records that are not authentic nothing of a key is to be believed.
const MAX_FORGED: u64 = 1 << 36;

/// Handshake messages in a record, one after the other: kind, number, what there is of its body if that is all of it (RFC 9147 §5.2,
/// RFC 6347 §4.2.2). What is cut off is not given.
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

/// The header of a handshake message.
const MESSAGE: usize = 12;
const CLIENT_HELLO: u8 = 1;
const HELLO_REQUEST: u8 = 0;
const NEW_SESSION_TICKET: u8 = 4;
const FINISHED: u8 = 20;
const KEY_UPDATE: u8 = 24;
