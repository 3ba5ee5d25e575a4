//! Messages as programs send and receive them: the options of a sent message, the attributes of a received message, and
//! the errors of sending and receiving.
//!
//! Implements parts of RFC 9260 §11.1.5 and §11.1.7, of RFC 3758 §4.1 and of RFC 7496 §3.

use anabranch_sctp::{Message, Reliability};
use anabranch_transport::CloseReason;
use bytes::Bytes;
use std::io;
use std::time::Duration;

/// The options with which a message is sent. By default the payload protocol identifier is 0, and the message is
/// delivered reliably and in the order of its stream.
///
/// ```
/// use anabranch_tokio::SendOptions;
/// use std::time::Duration;
///
/// let voice = SendOptions::new().ppid(51).unordered(true).lifetime(Duration::from_millis(150));
/// assert_eq!(voice, SendOptions::new().lifetime(Duration::from_millis(150)).unordered(true).ppid(51));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendOptions {
    ppid: Option<u32>,
    unordered: bool,
    immediate: bool,
    reliability: Reliability,
    context: u32,
    key: Option<u16>,
}

impl SendOptions {
    /// Returns the default options.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the payload protocol identifier, which the peer's program receives. SCTP itself does not use it
    /// (RFC 9260 §3.3.1).
    #[must_use]
    pub fn ppid(mut self, ppid: u32) -> Self {
        self.ppid = Some(ppid);
        self
    }

    /// Sets whether the message is unordered: delivered as soon as it has arrived, even if earlier messages are missing
    /// (RFC 9260 §6.6).
    #[must_use]
    pub fn unordered(mut self, unordered: bool) -> Self {
        self.unordered = unordered;
        self
    }

    /// Sets whether the peer is asked to acknowledge the message without delay (RFC 7053).
    #[must_use]
    pub fn immediate(mut self, immediate: bool) -> Self {
        self.immediate = immediate;
        self
    }

    /// Sets the reliability of the message. [`lifetime`](Self::lifetime), [`retransmissions`](Self::retransmissions)
    /// and [`priority`](Self::priority) also set the reliability. The last of these calls applies.
    #[must_use]
    pub fn reliability(mut self, reliability: Reliability) -> Self {
        self.reliability = reliability;
        self
    }

    /// Abandons the message if it is not delivered within this time (RFC 3758 §4.1).
    #[must_use]
    pub fn lifetime(self, lifetime: Duration) -> Self {
        self.reliability(Reliability::Lifetime(lifetime))
    }

    /// Abandons the message when one of its chunks is lost after this number of retransmissions (RFC 7496 §3.1). With
    /// 0, each chunk is sent only once.
    #[must_use]
    pub fn retransmissions(self, most: u32) -> Self {
        self.reliability(Reliability::Retransmissions(most))
    }

    /// Abandons the message if the send buffer is full when a message of a higher priority is sent. 0 is the highest
    /// priority (RFC 7496 §3.2).
    #[must_use]
    pub fn priority(self, priority: u32) -> Self {
        self.reliability(Reliability::Priority(priority))
    }

    /// Sets a number that the program chooses. [`Event::Abandoned`](crate::Event::Abandoned) and
    /// [`Event::SendFailed`](crate::Event::SendFailed) return this number.
    #[must_use]
    pub fn context(mut self, context: u32) -> Self {
        self.context = context;
        self
    }

    /// Sets the shared key that authenticates the message (RFC 4895). By default the active key is used.
    #[must_use]
    pub fn key(mut self, key: u16) -> Self {
        self.key = Some(key);
        self
    }

    /// Converts the options to the engine's form. `ppid` is the payload protocol identifier to use if the program has
    /// set none.
    pub(crate) fn message(&self, stream: u16, ppid: u32) -> Message {
        Message {
            stream,
            ppid: self.ppid.unwrap_or(ppid),
            unordered: self.unordered,
            immediate: self.immediate,
            reliability: self.reliability,
            context: self.context,
            key: self.key,
        }
    }
}

/// A complete received message.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Received {
    /// The stream of the message.
    pub stream: u16,
    /// The payload protocol identifier of the message.
    pub ppid: u32,
    /// Whether the message was sent unordered.
    pub unordered: bool,
    /// The stream sequence number (SSN) of the message; with I-DATA, the lower half of its message identifier
    /// (RFC 8260 §2.1).
    pub ssn: u16,
    /// The content of the message.
    pub bytes: Bytes,
}

/// The reason why no message was received.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// A message is larger than [`Options::max_receive`](crate::Options::max_receive). The message is discarded, and
    /// the next call returns the next message.
    #[error("a message of more than {limit} bytes on stream {stream}")]
    TooLong {
        /// The stream of the message.
        stream: u16,
        /// The maximum size of a message in bytes.
        limit: usize,
    },
    /// The association has ended, and all messages that arrived before the end have been read.
    #[error(transparent)]
    Closed(#[from] CloseReason),
}

/// The reason why a message was not accepted. No part of the message was sent.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The send buffer has no room for the message now. Only [`Association::try_send`](crate::Association::try_send)
    /// returns this error.
    #[error("the send buffer is full")]
    Full,
    /// The message is larger than the send buffer, see
    /// [`Association::max_message_size`](crate::Association::max_message_size).
    #[error("the message is larger than {limit} bytes")]
    TooLarge {
        /// The maximum size of a message in bytes.
        limit: usize,
    },
    /// The message is empty. A message has at least one byte (RFC 9260 §3.3.1).
    #[error("an empty message cannot be sent")]
    Empty,
    /// The association has no outgoing stream with this number.
    #[error("there is no stream {0}")]
    NoSuchStream(u16),
    /// The association has no shared key with this number, or does not authenticate chunks (RFC 4895).
    #[error("there is no shared key {0}")]
    NoSuchKey(u16),
    /// The association has ended, or either side is closing it.
    #[error(transparent)]
    Closed(#[from] CloseReason),
}

impl From<SendError> for io::Error {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Closed(CloseReason::Finished) => Self::from(io::ErrorKind::BrokenPipe),
            SendError::Closed(reason) => reason.into(),
            SendError::Full => Self::from(io::ErrorKind::WouldBlock),
            error => Self::new(io::ErrorKind::InvalidInput, error),
        }
    }
}

impl From<RecvError> for io::Error {
    fn from(error: RecvError) -> Self {
        match error {
            RecvError::Closed(reason) => reason.into(),
            error @ RecvError::TooLong { .. } => Self::new(io::ErrorKind::InvalidData, error),
        }
    }
}
