//! Messages of one size at a fixed rate, with the delay of each, without HTTP.
//!
//! The client sends one request on each connection. The server then hands a message to
//! the transport at each planned time, independent of the others (open loop); the delay of
//! a message counts from its planned time. If the transport has streams, messages use them
//! in turn. A bulk transfer may run concurrently: on stream 0 of a connection with several
//! streams, or on a connection of its own. When everything is written the server closes
//! gracefully; messages that have not arrived by then are lost.
//!
//! On the wire a message is one user message if the transport has messages. It contains its number, its length (both
//! with 32 bits, and included in the size), and bytes that the receiver checks.

mod client;
mod server;

pub use client::run;
pub use server::serve;

use anabranch_base::time::Duration;
use anabranch_transport::Delivery;

/// The parameters of the messages.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Messages {
    /// Time between two messages.
    pub interval: Duration,
    /// The size of a message in bytes, from [`MIN_SIZE`] to [`MAX_SIZE`].
    pub size: usize,
    /// The number of messages.
    pub count: u32,
    /// The number of connections that take the messages in turn, at least 1. With a bulk transfer, the first of
    /// several connections carries only that.
    pub connections: usize,
    /// The number of bytes of a concurrent bulk transfer; 0 for none.
    pub bulk: u64,
    /// The size in bytes of a write of the bulk transfer.
    pub bulk_write: usize,
    /// How messages are delivered; a concurrent bulk transfer is reliable, ordered, and in the background. An
    /// abandoned message is not a failure of the run.
    pub delivery: Delivery,
    /// The run ends after this time, complete or not.
    pub deadline: Option<Duration>,
}

/// The minimum size of a message: its number and its length.
pub const MIN_SIZE: usize = HEADER;
/// The maximum size of a message in bytes.
pub const MAX_SIZE: usize = 1_000_000;

/// The size of a number and a length in bytes.
const HEADER: usize = 8;
/// The message number that marks a piece of the bulk transfer.
const BULK: u32 = u32::MAX;
/// The name that selects the pattern of messages.
const MESSAGE_NAME: &str = "message";
/// The name that selects the pattern of the bulk transfer.
const BULK_NAME: &str = "bulk";

/// A client's request on one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ask {
    interval_ns: u64,
    size: u32,
    count: u32,
    /// The connection carries messages `first`, `first + step`, …
    first: u32,
    step: u32,
    bulk: u64,
    bulk_write: u32,
}

impl Ask {
    const BYTES: usize = 40;
    const MAGIC: [u8; 4] = *b"msgs";

    fn encode(self) -> [u8; Self::BYTES] {
        let mut out = [0; Self::BYTES];
        out[..4].copy_from_slice(&Self::MAGIC);
        out[4..12].copy_from_slice(&self.interval_ns.to_be_bytes());
        out[12..20].copy_from_slice(&self.bulk.to_be_bytes());
        for (i, word) in
            [self.size, self.count, self.first, self.step, self.bulk_write].into_iter().enumerate()
        {
            out[20 + 4 * i..24 + 4 * i].copy_from_slice(&word.to_be_bytes());
        }
        out
    }

    /// Decodes a request; `None` if it is invalid or one that our client never sends.
    fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let long = |at: usize| Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let word = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let ask = Self {
            interval_ns: long(4)?,
            bulk: long(12)?,
            size: word(20)?,
            count: word(24)?,
            first: word(28)?,
            step: word(32)?,
            bulk_write: word(36)?,
        };
        let sizes = (MIN_SIZE..=MAX_SIZE).contains(&(ask.size as usize))
            && (1..=crate::bulk::MAX_MESSAGE).contains(&(ask.bulk_write as usize));
        (bytes[..4] == Self::MAGIC && sizes && ask.step > 0 && ask.count < BULK).then_some(ask)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_was_asked_for_or_nothing() {
        let ask = Ask { interval_ns: 10, size: 300, count: 7, first: 1, step: 2, bulk: 5, bulk_write: 9 };
        assert_eq!(Ask::decode(&ask.encode()), Some(ask));
        for wrong in [Ask { size: 7, ..ask }, Ask { step: 0, ..ask }, Ask { bulk_write: 0, ..ask }] {
            assert_eq!(Ask::decode(&wrong.encode()), None);
        }
        assert_eq!(Ask::decode(&[0; Ask::BYTES]), None);
    }
}
