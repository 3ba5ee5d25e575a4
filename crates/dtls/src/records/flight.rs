//! What is sent again until the peer has it: the last flight of a client of DTLS 1.3, and a KeyUpdate (RFC 9147 §5.8, §8).

use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// A handshake message that is under way, alone in its record.
#[derive(Debug)]
pub(super) struct Flight {
    /// Message and header.
    pub content: Vec<u8>,
    /// The numbers of the records that it has been in.
    numbers: Vec<u64>,
    /// When it was sent last; `None`: not before.
    sent: Option<Instant>,
    wait: Duration,
    /// How often it may still go.
    left: u32,
}

impl Flight {
    pub fn new(content: Vec<u8>, tries: u32) -> Self {
        Self { content, numbers: Vec::new(), sent: None, wait: FIRST_WAIT, left: tries }
    }

    /// It is in a record with this number.
    pub fn note(&mut self, number: u64, now: Instant) {
        if self.sent.is_some() {
            self.wait = (self.wait * 2).min(LAST_WAIT);
        }
        self.sent = Some(now);
        self.left = self.left.saturating_sub(1);
        if self.numbers.len() == MAX_NUMBERS {
            self.numbers.remove(0);
        }
        self.numbers.push(number);
    }

    /// Whether a record of it had this number.
    pub fn was(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }

    /// When it goes again, or is given up.
    pub fn due(&self) -> Option<Instant> {
        self.sent.map(|sent| sent + self.wait)
    }

    /// It has been sent often enough.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// It may go before it is due, because the peer has shown that it waits for it.
    pub fn may_hurry(&self, now: Instant) -> bool {
        !self.is_spent() && self.sent.is_some_and(|sent| now >= sent + self.wait / 4)
    }
}

/// RFC 9147 §5.8.2: a second, doubled each time, up to a minute.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(60);
/// Records that an acknowledgement may name.
const MAX_NUMBERS: usize = 16;
