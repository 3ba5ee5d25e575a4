//! What goes with a message when it is sent, and what is told when one is read.
//!
//! Home of RFC 6458 §5.3.4 to §5.3.8 (SCTP_SNDINFO, SCTP_RCVINFO, SCTP_NXTINFO,
//! SCTP_PRINFO, SCTP_AUTHINFO) as values.

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
    /// The stream (`snd_sid`).
    pub stream: u16,
    /// Payload protocol identifier, in host order (`snd_ppid`).
    pub ppid: u32,
    /// Comes back if the message fails (`snd_context`).
    pub context: u32,
    /// The association, on a one-to-many socket (`snd_assoc_id`).
    pub association: Option<AssociationId>,
    /// `SCTP_UNORDERED`: deliver without regard to the order of the stream.
    pub unordered: bool,
    /// `SCTP_SACK_IMMEDIATELY`: ask the peer to acknowledge at once (RFC 7053).
    pub immediate: bool,
    /// `SCTP_EOF`: shut the association down after this message.
    pub eof: bool,
    /// `SCTP_ABORT`: end the association at once; the data is the reason.
    pub abort: bool,
}

/// When a message may be given up (RFC 6458 §5.3.7, `struct sctp_prinfo`; RFC 7496 §4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum PrInfo {
    /// `SCTP_PR_SCTP_NONE`: never.
    #[default]
    Reliable,
    /// `SCTP_PR_SCTP_TTL`: after so many milliseconds.
    Lifetime(u32),
    /// `SCTP_PR_SCTP_RTX`: after so many retransmissions.
    Retransmissions(u32),
    /// `SCTP_PR_SCTP_PRIO`: for messages of more importance (a lower number), when room is short.
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

/// Which key authenticates a message (RFC 6458 §5.3.8, `struct sctp_authinfo`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AuthInfo {
    /// The shared key's number (`auth_keynumber`).
    pub key: u16,
}

/// All that can go with a message (RFC 6458 §9.7, `struct sctp_sendv_spa`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct SendInfo {
    /// How.
    pub snd: SndInfo,
    /// For how long.
    pub pr: PrInfo,
    /// Under which key; `None` for the active one.
    pub auth: Option<AuthInfo>,
}

impl From<SndInfo> for SendInfo {
    fn from(snd: SndInfo) -> Self {
        Self { snd, ..Self::default() }
    }
}

/// What is told of a message that was read (RFC 6458 §5.3.5, `struct sctp_rcvinfo`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RcvInfo {
    /// The stream (`rcv_sid`).
    pub stream: u16,
    /// The message's number in its stream, as the peer has sent it (`rcv_ssn`); unordered messages
    /// have none that means anything. With I-DATA the lower half of the message identifier (RFC 8260
    /// §4.1).
    pub ssn: u16,
    /// It was sent unordered (`SCTP_UNORDERED`).
    pub unordered: bool,
    /// Payload protocol identifier, in host order (`rcv_ppid`).
    pub ppid: u32,
    /// TSN of the message's first chunk, the same for each part that is read of it (`rcv_tsn`).
    pub tsn: u32,
    /// The highest TSN up to which everything has arrived now (`rcv_cumtsn`).
    pub cumulative_tsn: u32,
    /// What the application has set with `SocketOption::Context` (`rcv_context`).
    pub context: u32,
    /// The association (`rcv_assoc_id`).
    pub association: AssociationId,
}

/// What the next read will return (RFC 6458 §5.3.6, `struct sctp_nxtinfo`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct NxtInfo {
    /// The stream (`nxt_sid`).
    pub stream: u16,
    /// It is a notification (`SCTP_NOTIFICATION`).
    pub notification: bool,
    /// It was sent unordered (`SCTP_UNORDERED`).
    pub unordered: bool,
    /// All of it is there (`SCTP_COMPLETE`).
    pub complete: bool,
    /// Payload protocol identifier, in host order (`nxt_ppid`).
    pub ppid: u32,
    /// Bytes that are ready (`nxt_length`): of this message alone; of a notification 0.
    pub length: usize,
    /// The association (`nxt_assoc_id`).
    pub association: AssociationId,
}

/// What a read has returned (RFC 6458 §9.8, `sctp_recvv`).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Incoming {
    /// A message, or a part of one.
    Data {
        /// Bytes put into the buffer.
        bytes: usize,
        /// `MSG_EOR`: the message ends here.
        end_of_record: bool,
        /// Whose and which.
        info: RcvInfo,
        /// What comes next, when `SocketOption::RecvNxtInfo` asks for it and something is there.
        next: Option<NxtInfo>,
    },
    /// `MSG_NOTIFICATION`: something has happened.
    Notification(Notification),
    /// The association has ended in good order; nothing more will come (one-to-one only).
    EndOfFile,
}
