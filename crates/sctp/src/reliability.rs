//! The reliability of messages, and counters of abandoned messages.
//!
//! Implements RFC 3758 §4.1 and RFC 7496 §3 (policies), and RFC 7496 §4.3 and §4.4 (counters).

use anabranch_base::time::Duration;

/// The condition under which the sender may abandon a message. An unsent message can always be abandoned. A partly sent
/// message can be abandoned only if both sides support partial reliability (`Extensions::partial_reliability`).
/// Otherwise the partly sent message is delivered in full, as in RFC 9260 §11.1.5.
///
/// ```
/// use anabranch_base::time::Duration;
/// use anabranch_sctp::{Message, Policy, Reliability};
///
/// let voice = Message { reliability: Reliability::Lifetime(Duration::from_millis(150)), ..Message::default() };
/// assert_eq!(voice.reliability.policy(), Some(Policy::Lifetime));
/// assert_eq!(Reliability::default(), Reliability::Full);
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Reliability {
    /// Retransmit the message until it is acknowledged or the association ends.
    #[default]
    Full,
    /// Abandon the message when this time has passed since `send`. After this time, the message is neither sent nor
    /// retransmitted (RFC 3758 §4.1).
    Lifetime(Duration),
    /// Retransmit each chunk of the message at most this number of times. 0 means that each chunk is sent only once
    /// (RFC 7496 §3.1).
    Retransmissions(u32),
    /// Abandon the message when its space in the send buffer is needed for a message of a higher priority or of
    /// another policy. 0 is the highest priority (RFC 7496 §3.2).
    Priority(u32),
}

/// The policy by which a message was abandoned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Policy {
    /// The lifetime of [`Reliability::Lifetime`] has passed.
    Lifetime,
    /// The limit of [`Reliability::Retransmissions`] was reached.
    Retransmissions,
    /// The send buffer was full, so a message with [`Reliability::Priority`] was dropped to make room for another.
    Priority,
    /// The application cancelled all messages of a stream (`Endpoint::cancel`).
    Cancelled,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 4] = [Self::Lifetime, Self::Retransmissions, Self::Priority, Self::Cancelled];
}

impl Reliability {
    /// Returns the policy by which the message may be abandoned, or `None` for full reliability.
    #[must_use]
    pub const fn policy(self) -> Option<Policy> {
        match self {
            Self::Full => None,
            Self::Lifetime(_) => Some(Policy::Lifetime),
            Self::Retransmissions(_) => Some(Policy::Retransmissions),
            Self::Priority(_) => Some(Policy::Priority),
        }
    }
}

/// The number of abandoned messages (RFC 7496 §4.3, §4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Abandoned {
    /// Number of messages that were abandoned before any part of them was sent.
    pub unsent: u64,
    /// Number of messages that were abandoned after at least a part of them was sent.
    pub sent: u64,
}

impl Abandoned {
    /// Counts one abandoned message. `sent` says whether a part of it had been sent.
    pub(crate) const fn count(&mut self, sent: bool) {
        if sent {
            self.sent += 1;
        } else {
            self.unsent += 1;
        }
    }

    /// Adds the counts of `other`.
    pub(crate) const fn add(&mut self, other: Self) {
        self.unsent += other.unsent;
        self.sent += other.sent;
    }
}
