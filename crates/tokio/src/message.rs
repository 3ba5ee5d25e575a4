//! Messages as programs give and take them: what is said of one that is sent, what is told of one that has come, and why
//! neither was possible.
//!
//! Home of RFC 9260 §11.1.5 and §11.1.7, RFC 3758 §4.1, RFC 7496 §3 as far as this crate goes.

use anabranch_sctp::{Message, Reliability};
use anabranch_transport::CloseReason;
use bytes::Bytes;
use std::io;
use std::time::Duration;

/// How a message is sent. By default: payload protocol identifier 0, in the order of its stream, until it is delivered.
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
    /// The defaults.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// The payload protocol identifier, which the peer is told; SCTP itself makes no use of it (RFC 9260 §3.3.1).
    #[must_use]
    pub fn ppid(mut self, ppid: u32) -> Self {
        self.ppid = Some(ppid);
        self
    }

    /// Whether it is delivered as soon as it has come, whatever is missing before it (RFC 9260 §6.6).
    #[must_use]
    pub fn unordered(mut self, unordered: bool) -> Self {
        self.unordered = unordered;
        self
    }

    /// Whether the peer is asked to acknowledge it at once (RFC 7053).
    #[must_use]
    pub fn immediate(mut self, immediate: bool) -> Self {
        self.immediate = immediate;
        self
    }

    /// How far it is to be delivered. [`lifetime`](Self::lifetime), [`retransmissions`](Self::retransmissions) and
    /// [`priority`](Self::priority) set this; the last one counts.
    #[must_use]
    pub fn reliability(mut self, reliability: Reliability) -> Self {
        self.reliability = reliability;
        self
    }

    /// It is given up when it was not delivered for so long (RFC 3758 §4.1).
    #[must_use]
    pub fn lifetime(self, lifetime: Duration) -> Self {
        self.reliability(Reliability::Lifetime(lifetime))
    }

    /// It is given up when each of its chunks was retransmitted so often; 0: it is sent once (RFC 7496 §3.1).
    #[must_use]
    pub fn retransmissions(self, most: u32) -> Self {
        self.reliability(Reliability::Retransmissions(most))
    }

    /// It is given up when the send buffer is full and a message of a higher priority is sent; 0 is the highest
    /// (RFC 7496 §3.2).
    #[must_use]
    pub fn priority(self, priority: u32) -> Self {
        self.reliability(Reliability::Priority(priority))
    }

    /// A number of the program's own, which comes back with [`Event::Abandoned`](crate::Event::Abandoned) and
    /// [`Event::SendFailed`](crate::Event::SendFailed).
    #[must_use]
    pub fn context(mut self, context: u32) -> Self {
        self.context = context;
        self
    }

    /// The shared key that signs it, in place of the active one, where chunks are authenticated (RFC 4895).
    #[must_use]
    pub fn key(mut self, key: u16) -> Self {
        self.key = Some(key);
        self
    }

    /// As the engine has it, with this identifier where none was chosen.
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

/// A message that has come: all of it.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub struct Received {
    /// Its stream.
    pub stream: u16,
    /// Its payload protocol identifier.
    pub ppid: u32,
    /// It was sent without regard to the order of its stream.
    pub unordered: bool,
    /// Its number in its stream (SSN); with I-DATA the lower half of its message identifier (RFC 8260 §2.1).
    pub ssn: u16,
    /// The message.
    pub bytes: Bytes,
}

/// Why there is no message.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// A message is larger than [`Options::max_receive`](crate::Options::max_receive). The rest of it is passed over: the
    /// next call has the next message.
    #[error("a message of more than {limit} bytes on stream {stream}")]
    TooLong {
        /// Its stream.
        stream: u16,
        /// The limit, bytes.
        limit: usize,
    },
    /// The association has ended, and everything that came before has been read.
    #[error(transparent)]
    Closed(#[from] CloseReason),
}

/// Why a message was not taken. Nothing of it was, then.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// There is no room for it now; of [`Association::try_send`](crate::Association::try_send) alone.
    #[error("the send buffer is full")]
    Full,
    /// It can never fit into the send buffer: see
    /// [`Association::max_message_size`](crate::Association::max_message_size).
    #[error("the message is larger than {limit} bytes")]
    TooLarge {
        /// The largest that fits, bytes.
        limit: usize,
    },
    /// A message has at least one byte (RFC 9260 §3.3.1).
    #[error("an empty message cannot be sent")]
    Empty,
    /// The association has no stream of that number to send on.
    #[error("there is no stream {0}")]
    NoSuchStream(u16),
    /// The association has no shared key of that number, or authenticates nothing (RFC 4895).
    #[error("there is no shared key {0}")]
    NoSuchKey(u16),
    /// The association has ended, or is being closed by either side.
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
