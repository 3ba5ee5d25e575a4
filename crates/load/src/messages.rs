//! A message test: sends messages of one size at a fixed rate, without HTTP, and measures the delay of each message.
//!
//! The client sends one request on each connection. The server then passes a message to the transport at each planned
//! time, even if earlier messages still wait (open loop). The delay of a message is measured from its planned time. If
//! the transport has streams, messages use the streams in turn.
//!
//! A bulk transfer may run at the same time as the messages. If the connection has several streams, the transfer uses
//! stream 0. Otherwise it has a separate connection. When everything is written, the server closes gracefully. Messages
//! that have not arrived at the end of the session are lost.
//!
//! If the transport has messages, each message of the test is one user message. It contains its number and its length,
//! both with 32 bits, and bytes that the receiver checks. The length includes these two fields.

mod client;
mod server;

pub use client::run;
pub use server::serve;

use anabranch_base::time::Duration;
use anabranch_transport::Delivery;

/// The parameters of a message test.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Messages {
    /// The time between two messages.
    pub interval: Duration,
    /// The size of a message in bytes, from [`MIN_SIZE`] to [`MAX_SIZE`].
    pub size: usize,
    /// The number of messages.
    pub count: u32,
    /// The number of connections, which carry the messages in turn; at least 1. If there is a bulk transfer and more
    /// than one connection, the first connection carries only the bulk transfer.
    pub connections: usize,
    /// The number of bytes of a concurrent bulk transfer; 0 for no bulk transfer.
    pub bulk: u64,
    /// The size in bytes of each write of the bulk transfer.
    pub bulk_write: usize,
    /// How messages are delivered. A message that is abandoned does not make the run fail. A concurrent bulk transfer
    /// is always reliable and ordered. A waiting message is sent before the next piece of the bulk transfer.
    pub delivery: Delivery,
    /// The time after which the run ends, complete or not; `None` for no limit.
    pub deadline: Option<Duration>,
}

/// The minimum size of a message in bytes, which is that of its header.
pub const MIN_SIZE: usize = HEADER;
/// The maximum size of a message in bytes.
pub const MAX_SIZE: usize = 1_000_000;

/// The size in bytes of a message's header: its number and its length.
const HEADER: usize = 8;
/// The message number of all pieces of the bulk transfer.
const BULK: u32 = u32::MAX;
/// The name that determines the byte pattern of messages.
const MESSAGE_NAME: &str = "message";
/// The name that determines the byte pattern of the bulk transfer.
const BULK_NAME: &str = "bulk";

/// The client's request on one connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct MessagesRequest {
    interval_ns: u64,
    size: u32,
    count: u32,
    /// This connection carries the messages `first`, `first + step`, `first + 2 * step` and so on.
    first: u32,
    step: u32,
    bulk: u64,
    bulk_write: u32,
}

impl MessagesRequest {
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

    /// Decodes a request. Returns `None` if the request is invalid, or if it has values that our client never sends.
    fn decode(bytes: &[u8; Self::BYTES]) -> Option<Self> {
        let long = |at: usize| Some(u64::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let word = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let request = Self {
            interval_ns: long(4)?,
            bulk: long(12)?,
            size: word(20)?,
            count: word(24)?,
            first: word(28)?,
            step: word(32)?,
            bulk_write: word(36)?,
        };
        let sizes = (MIN_SIZE..=MAX_SIZE).contains(&(request.size as usize))
            && (1..=crate::bulk::MAX_MESSAGE).contains(&(request.bulk_write as usize));
        (bytes[..4] == Self::MAGIC && sizes && request.step > 0 && request.count < BULK).then_some(request)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_is_what_was_asked_for_or_nothing() {
        let request = MessagesRequest {
            interval_ns: 10,
            size: 300,
            count: 7,
            first: 1,
            step: 2,
            bulk: 5,
            bulk_write: 9,
        };
        assert_eq!(MessagesRequest::decode(&request.encode()), Some(request));
        for wrong in [
            MessagesRequest { size: 7, ..request },
            MessagesRequest { step: 0, ..request },
            MessagesRequest { bulk_write: 0, ..request },
        ] {
            assert_eq!(MessagesRequest::decode(&wrong.encode()), None);
        }
        assert_eq!(MessagesRequest::decode(&[0; MessagesRequest::BYTES]), None);
    }
}
