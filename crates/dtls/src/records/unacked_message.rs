//! A message that is retransmitted until it is acknowledged: the last flight of a DTLS 1.3 client, or a KeyUpdate
//! (RFC 9147 §5.8, §8).

use anabranch_base::Instant;
use anabranch_base::time::Duration;

/// A handshake message that is not acknowledged yet. Its record contains no other message.
#[derive(Debug)]
pub(super) struct UnackedMessage {
    /// The message including its header.
    pub content: Vec<u8>,
    /// The numbers of the records that have contained the message.
    numbers: Vec<u64>,
    /// The time of the last transmission; `None` before the first transmission.
    sent: Option<Instant>,
    timeout: Duration,
    /// The number of transmissions that remain.
    transmissions_left: u32,
}

impl UnackedMessage {
    pub fn new(content: Vec<u8>, tries: u32) -> Self {
        Self { content, numbers: Vec::new(), sent: None, timeout: FIRST_WAIT, transmissions_left: tries }
    }

    /// Notes that the message was sent at `now`, in the record with the sequence number `number`.
    pub fn note(&mut self, number: u64, now: Instant) {
        if self.sent.is_some() {
            self.timeout = (self.timeout * 2).min(LAST_WAIT);
        }
        self.sent = Some(now);
        self.transmissions_left = self.transmissions_left.saturating_sub(1);
        if self.numbers.len() == MAX_NUMBERS {
            self.numbers.remove(0);
        }
        self.numbers.push(number);
    }

    /// Returns whether the message was sent in the record with this number.
    pub fn contains(&self, number: u64) -> bool {
        self.numbers.contains(&number)
    }

    /// Returns the time at which the message is retransmitted. If no transmissions remain, the sender gives up at that
    /// time. Returns `None` if the message has not been sent.
    pub fn due(&self) -> Option<Instant> {
        self.sent.map(|sent| sent + self.timeout)
    }

    /// Returns whether no transmissions remain.
    pub fn is_spent(&self) -> bool {
        self.transmissions_left == 0
    }

    /// Returns whether the message may be retransmitted before its timeout, because the peer has shown that it waits
    /// for the message. This is allowed when a quarter of the timeout has passed since the last transmission.
    pub fn can_send_early(&self, now: Instant) -> bool {
        !self.is_spent() && self.sent.is_some_and(|sent| now >= sent + self.timeout / 4)
    }
}

/// RFC 9147 §5.8.2: the waiting time is one second at first, and doubles each time up to a minute.
const FIRST_WAIT: Duration = Duration::from_secs(1);
const LAST_WAIT: Duration = Duration::from_secs(60);
/// The maximum number of record numbers that are remembered per message.
const MAX_NUMBERS: usize = 16;
