//! User messages as the application gives and takes them.
//!
//! Home of RFC 9260 §11.1.5 and §11.1.6 as far as a message's own values go.

use crate::reliability::Reliability;

/// How a message is to be sent (RFC 9260 §11.1.5).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Message {
    /// The stream.
    pub stream: u16,
    /// Payload protocol identifier, passed through to the peer.
    pub ppid: u32,
    /// Deliver without regard to the order of the stream.
    pub unordered: bool,
    /// Ask the peer to acknowledge at once (RFC 7053).
    pub immediate: bool,
    /// How far it is to be delivered (RFC 3758).
    pub reliability: Reliability,
    /// Comes back with `Event::Abandoned`, for the application's use.
    pub context: u32,
    /// The endpoint pair shared key that signs it, where chunks are authenticated (RFC 4895): one that
    /// the association knows, not only the active one. A key that is deleted before gives way to that.
    pub key: Option<u16>,
}

/// What a `recv` has put into the buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Received {
    /// Bytes written to the buffer (at least 1, unless the buffer is empty or the message is incomplete).
    pub bytes: usize,
    /// Payload protocol identifier of the message.
    pub ppid: u32,
    /// TSN of the message's first chunk.
    pub tsn: u32,
    /// Its stream sequence number, as it came; with I-DATA the lower half of its message identifier
    /// (RFC 8260 §4.1).
    pub ssn: u16,
    /// The message ends here.
    pub end_of_message: bool,
    /// It ends here because the peer has given it up (RFC 3758): what was read
    /// of it before is all there will be. `bytes` is 0 then.
    pub incomplete: bool,
    /// It was sent unordered.
    pub unordered: bool,
}
