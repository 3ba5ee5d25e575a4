//! How far a message is to be delivered, and what came of those given up.
//!
//! Home of RFC 3758 §4.1 and RFC 7496 §3 (what is asked), §4.3, §4.4 (what is told).

use anabranch_base::time::Duration;

/// How far a message is to be delivered. What has not been sent at all can
/// always be given up; what has been sent in part only where both sides support
/// partial reliability (`Extensions::partial_reliability`): with other peers it
/// is delivered in full then, as RFC 9260 §11.1.5 has it.
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
    /// Until it is acknowledged, or the association ends.
    #[default]
    Full,
    /// For this long from `send` on: then it is neither sent nor retransmitted
    /// (RFC 3758 §4.1).
    Lifetime(Duration),
    /// Each chunk of it is retransmitted so many times at most: 0 is to send it
    /// once (RFC 7496 §3.1).
    Retransmissions(u32),
    /// Until its place in the send buffer is needed by a message of a higher
    /// priority, or of another policy. 0 is the highest (RFC 7496 §3.2).
    Priority(u32),
}

/// The policies by which a message can be given up.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[non_exhaustive]
pub enum Policy {
    /// Of [`Reliability::Lifetime`].
    Lifetime,
    /// Of [`Reliability::Retransmissions`].
    Retransmissions,
    /// Of [`Reliability::Priority`].
    Priority,
    /// The application cancelled all of a stream (`Endpoint::cancel`).
    Cancelled,
}

impl Policy {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Lifetime, Self::Retransmissions, Self::Priority, Self::Cancelled];
}

impl Reliability {
    /// The policy, if it has a limit.
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

/// How many messages were given up (RFC 7496 §4.3, §4.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Abandoned {
    /// Nothing of them had been sent.
    pub unsent: u64,
    /// At least a part of them had been sent.
    pub sent: u64,
}

impl Abandoned {
    /// Counts one more.
    pub(crate) const fn count(&mut self, sent: bool) {
        if sent {
            self.sent += 1;
        } else {
            self.unsent += 1;
        }
    }

    /// Adds others.
    pub(crate) const fn add(&mut self, other: Self) {
        self.unsent += other.unsent;
        self.sent += other.sent;
    }
}
