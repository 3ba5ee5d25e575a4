//! The reliability of a message, and counters of abandoned messages.
//!
//! Home of RFC 3758 §4.1 and RFC 7496 §3 (policies), §4.3, §4.4 (counters).

use anabranch_base::time::Duration;

/// How hard the sender tries to deliver a message. A message of which nothing was sent can always be abandoned. A partly
/// sent message can be abandoned only where both sides support partial reliability (`Extensions::partial_reliability`).
/// With other peers it is then delivered in full, as in RFC 9260 §11.1.5.
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
    /// Retransmit until the message is acknowledged or the association ends.
    #[default]
    Full,
    /// Abandon the message this long after `send`: from then on it is neither sent nor retransmitted (RFC 3758 §4.1).
    Lifetime(Duration),
    /// Retransmit each chunk of the message at most this many times; 0 means that it is sent only once (RFC 7496 §3.1).
    Retransmissions(u32),
    /// Abandon the message when its space in the send buffer is needed for a message of a higher priority or of another
    /// policy. 0 is the highest priority (RFC 7496 §3.2).
    Priority(u32),
}

/// The policies by which a message can be abandoned.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Policy {
    /// The lifetime of [`Reliability::Lifetime`] has passed.
    Lifetime,
    /// The limit of [`Reliability::Retransmissions`] was reached.
    Retransmissions,
    /// A message of [`Reliability::Priority`] had to make room in the send buffer.
    Priority,
    /// The application cancelled all messages of a stream (`Endpoint::cancel`).
    Cancelled,
}

impl Policy {
    /// All policies.
    pub const ALL: [Self; 4] = [Self::Lifetime, Self::Retransmissions, Self::Priority, Self::Cancelled];
}

impl Reliability {
    /// Returns the policy, or `None` for full reliability.
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
    /// Messages of which nothing had been sent.
    pub unsent: u64,
    /// Messages of which at least a part had been sent.
    pub sent: u64,
}

impl Abandoned {
    /// Counts one abandoned message.
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
