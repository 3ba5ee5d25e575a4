//! The information that is passed to `send` with a message, and that `recv` returns with a message.
//!
//! Defines the structures of RFC 6458 §5.3.4 to §5.3.8 (SCTP_SNDINFO, SCTP_RCVINFO, SCTP_NXTINFO, SCTP_PRINFO,
//! SCTP_AUTHINFO) as values.

use super::Notification;
use crate::id::AssociationId;
use crate::reliability::Reliability;
use anabranch_base::time::Duration;

/// How a message is to be sent (RFC 6458 §5.3.4, `struct sctp_sndinfo`).
///
/// ```
/// use anabranch_sctp::socket::SndInfo;
/// let info = SndInfo { stream: 2, unordered: true, ..SndInfo::default() };
/// assert_eq!(info.ppid, 0);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SndInfo {
    /// The stream number (`snd_sid`).
    pub stream: u16,
    /// The payload protocol identifier in host byte order (`snd_ppid`).
    pub ppid: u32,
    /// A value of the application that is returned if the message fails (`snd_context`).
    pub context: u32,
    /// The association, on a one-to-many socket (`snd_assoc_id`).
    pub association: Option<AssociationId>,
    /// `SCTP_UNORDERED`: whether the message is delivered without regard to the order of the stream.
    pub unordered: bool,
    /// `SCTP_SACK_IMMEDIATELY`: whether the peer is asked for an immediate acknowledgement (RFC 7053).
    pub immediate: bool,
    /// `SCTP_EOF`: whether the association is shut down after this message.
    pub eof: bool,
    /// `SCTP_ABORT`: whether the association is aborted. If so, the data is sent to the peer as the reason.
    pub abort: bool,
}

/// The condition under which a message may be abandoned (RFC 6458 §5.3.7, `struct sctp_prinfo`; RFC 7496 §4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PrInfo {
    /// `SCTP_PR_SCTP_NONE`: the message is never abandoned.
    #[default]
    Reliable,
    /// `SCTP_PR_SCTP_TTL`: the message is abandoned after this number of milliseconds.
    Lifetime(u32),
    /// `SCTP_PR_SCTP_RTX`: the message is abandoned after this number of retransmissions.
    Retransmissions(u32),
    /// `SCTP_PR_SCTP_PRIO`: the message is abandoned when buffer space is short and a message of higher priority
    /// needs the space. A lower number is a higher priority.
    Priority(u32),
}

impl From<PrInfo> for Reliability {
    fn from(info: PrInfo) -> Self {
        match info {
            PrInfo::Reliable => Self::Full,
            PrInfo::Lifetime(ms) => Self::Lifetime(Duration::from_millis(ms.into())),
            PrInfo::Retransmissions(most) => Self::Retransmissions(most),
            PrInfo::Priority(priority) => Self::Priority(priority),
        }
    }
}

/// The key that authenticates a message (RFC 6458 §5.3.8, `struct sctp_authinfo`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AuthInfo {
    /// The identifier of the shared key (`auth_keynumber`).
    pub key: u16,
}

/// All information that can be passed to `send` with a message (RFC 6458 §9.7, `struct sctp_sendv_spa`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendInfo {
    /// The stream, flags and association of the message.
    pub snd: SndInfo,
    /// The condition under which the message may be abandoned.
    pub pr: PrInfo,
    /// The key that authenticates the message; `None` for the active key.
    pub auth: Option<AuthInfo>,
}

impl From<SndInfo> for SendInfo {
    fn from(snd: SndInfo) -> Self {
        Self { snd, ..Self::default() }
    }
}

/// Information about a message that was read (RFC 6458 §5.3.5, `struct sctp_rcvinfo`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RcvInfo {
    /// The stream number (`rcv_sid`).
    pub stream: u16,
    /// The stream sequence number in the received chunk (`rcv_ssn`). It has no meaning for unordered messages. With
    /// I-DATA it is the lower half of the message identifier (RFC 8260 §4.1).
    pub ssn: u16,
    /// Whether the message was sent unordered (`SCTP_UNORDERED`).
    pub unordered: bool,
    /// The payload protocol identifier in host byte order (`rcv_ppid`).
    pub ppid: u32,
    /// The TSN of the message's first chunk (`rcv_tsn`). If a message is read in parts, this TSN is the same for every
    /// part.
    pub tsn: u32,
    /// The cumulative TSN (`rcv_cumtsn`): all chunks up to this TSN have arrived.
    pub cumulative_tsn: u32,
    /// The value that the application has set with `SocketOption::Context` (`rcv_context`).
    pub context: u32,
    /// The association (`rcv_assoc_id`).
    pub association: AssociationId,
}

/// Information about the next read (RFC 6458 §5.3.6, `struct sctp_nxtinfo`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NxtInfo {
    /// The stream number (`nxt_sid`).
    pub stream: u16,
    /// Whether the next read returns a notification (`SCTP_NOTIFICATION`).
    pub notification: bool,
    /// Whether the next message was sent unordered (`SCTP_UNORDERED`).
    pub unordered: bool,
    /// Whether the whole next message has arrived (`SCTP_COMPLETE`).
    pub complete: bool,
    /// The payload protocol identifier in host byte order (`nxt_ppid`).
    pub ppid: u32,
    /// The number of bytes that can be read now of the next message (`nxt_length`); 0 if the next message is a
    /// notification.
    pub length: usize,
    /// The association (`nxt_assoc_id`).
    pub association: AssociationId,
}

/// The result of `recv` (RFC 6458 §9.8, `sctp_recvv`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Incoming {
    /// A message, or a part of a message.
    Data {
        /// The number of bytes written to the buffer.
        bytes: usize,
        /// `MSG_EOR`: whether the message ends with the last byte read.
        end_of_record: bool,
        /// Information about the message.
        info: RcvInfo,
        /// Information about the next read, if `SocketOption::RecvNxtInfo` is on and there is more to read.
        next: Option<NxtInfo>,
    },
    /// `MSG_NOTIFICATION`: a notification.
    Notification(Notification),
    /// The association has shut down gracefully and no more data will arrive. Returned by one-to-one sockets only.
    EndOfFile,
}
