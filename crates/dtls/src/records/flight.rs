//! Messages that are retransmitted until acknowledged: the last flight of a DTLS 1.3 client, and KeyUpdate (RFC 9147
//! §5.8, §8).

use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// A handshake message that is not acknowledged yet, alone in its record.
#[derive(Debug)]
pub(super) struct Flight {
    /// The message with its header.
    pub content: Vec<u8>,
    /// The numbers of the records that have carried it.
    numbers: Vec<u64>,
    /// The time of the last transmission; `None` before the first.
    sent: Option<Instant>,
    wait: Duration,
    /// The number of transmissions left.
    left: u32,
}

impl Flight {
    pub fn new(content: Vec<u8>, tries: u32) -> Self {
        Self { content, numbers: Vec::new(), sent: None, wait: FIRST_WAIT, left: tries }
    }

    /// Records a transmission in a record with this number.
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

    /// Whether a record with this number has carried it.
    pub fn was(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }

    /// The time of the next retransmission, or at which it is given up.
    pub fn due(&self) -> Option<Instant> {
        self.sent.map(|sent| sent + self.wait)
    }

    /// Whether the number of transmissions is used up.
    pub fn is_spent(&self) -> bool {
        self.left == 0
    }

    /// Whether it may be sent before it is due, because the peer has shown that it waits for it.
    pub fn may_hurry(&self, now: Instant) -> bool {
        !self.is_spent() && self.sent.is_some_and(|sent| now >= sent + self.wait / 4)
    }
}

/// RFC 9147 §5.8.2: one second, doubled each time, up to a minute.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(60);
/// The maximum number of record numbers that are remembered.
const MAX_NUMBERS: usize = 16;
