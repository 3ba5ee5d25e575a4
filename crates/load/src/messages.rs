//! Messages of one size at a fixed rate, each with its own delay, without HTTP.
//!
//! The client asks once on each connection; the server then gives a message to
//! the transport at each planned instant, whatever became of the others (open
//! loop), and the delay of a message counts from its planned instant. Where the
//! transport has streams, messages take them in turn; a bulk transfer may run
//! beside them, on stream 0 of a connection that has others, or on a connection
//! of its own. When everything is written the server closes in good order, and
//! what has not come by then never will.
//!
//! On the wire a message is one user message where the transport knows
//! messages: its number, its length (both of 32 bits, counted in the size), and
//! bytes that the receiver checks.

mod client;
mod server;

pub use client::run;
pub use server::serve;

use anabranch_base::time::Duration;
use anabranch_transport::Delivery;

/// What is sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Messages {
    /// Time between two messages.
    pub interval: Duration,
    /// Bytes of a message, from [`MIN_SIZE`] to [`MAX_SIZE`].
    pub size: usize,
    /// How many.
    pub count: u32,
    /// Connections that take the messages in turn, at least 1; with a bulk transfer the first of several carries that
    /// alone.
    pub connections: usize,
    /// Bytes of a bulk transfer beside the messages; 0 for none.
    pub bulk: u64,
    /// Bytes of a write of the bulk transfer.
    pub bulk_write: usize,
    /// How messages are delivered; the bulk transfer beside them is reliable, ordered, and in the background. One that
    /// was given up is no failure of the run.
    pub delivery: Delivery,
    /// The run ends after so long, whatever is left.
    pub deadline: Option<Duration>,
}

/// The smallest message: its number and its length.
pub const MIN_SIZE: usize = HEADER;
/// The largest message.
pub const MAX_SIZE: usize = 1_000_000;

/// Bytes of a number and a length.
const HEADER: usize = 8;
/// The number of a piece of the bulk transfer.
const BULK: u32 = u32::MAX;
/// The name whose pattern messages have.
const MESSAGE_NAME: &str = "message";
/// The name whose pattern the bulk transfer has.
const BULK_NAME: &str = "bulk";

/// What a client asks of one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Ask {
    interval_ns: u64,
    size: u32,
    count: u32,
    /// This connection carries messages `first`, `first + step`, …
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

    /// `None` where it is no request, or one that no client of ours makes.
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
