//! Parameters of a message to be sent, and of a received message.
//!
//! Implements RFC 9260 §11.1.5 and §11.1.6 as far as they concern a single message.

use crate::reliability::Reliability;

/// Parameters with which a message is sent (RFC 9260 §11.1.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Message {
    /// The number of the stream.
    pub stream: u16,
    /// The payload protocol identifier, which is passed to the peer unchanged.
    pub ppid: u32,
    /// Whether the peer delivers the message as soon as it arrives, regardless of the order of the stream.
    pub unordered: bool,
    /// Whether the peer is asked to acknowledge the message without delay (RFC 7053).
    pub immediate: bool,
    /// The conditions under which the message may be abandoned (RFC 3758).
    pub reliability: Reliability,
    /// A value of the application, which is returned in `Event::Abandoned` and `Event::SendFailed`.
    pub context: u32,
    /// The endpoint pair shared key that authenticates the message, if chunks are authenticated (RFC 4895). Any key
    /// that the association knows is allowed; `None` means the active key. If the key is deleted before the message is
    /// sent, the active key is used.
    pub key: Option<u16>,
}

/// Describes the data that a call of `recv` has written to the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Received {
    /// Number of bytes written to the buffer. It is 0 only if the buffer has length 0, or if the rest of the message has
    /// not arrived.
    pub bytes: usize,
    /// The payload protocol identifier of the message.
    pub ppid: u32,
    /// The TSN of the message's first chunk.
    pub tsn: u32,
    /// The stream sequence number as received. With I-DATA, this is the lower half of the message identifier (RFC 8260
    /// §4.1).
    pub ssn: u16,
    /// Whether the end of the message was reached.
    pub end_of_message: bool,
    /// Whether the message ends here because the peer has abandoned it (RFC 3758). The rest of the message will not
    /// arrive. If this is true, `bytes` is 0.
    pub incomplete: bool,
    /// Whether the message was sent unordered.
    pub unordered: bool,
}
