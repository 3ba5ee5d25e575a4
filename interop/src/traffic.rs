//! Creates numbered messages for interoperability tests, and checks their delivery.
//!
//! A message begins with its number in its direction, and the number determines the rest of its bytes. [`Ledger`]
//! compares the delivered messages with the sent messages. Each must arrive intact and once, and ordered messages in
//! order. Only messages that may be abandoned can be missing.

use crate::peer::DeliveryOptions;
use anabranch_sctp::Reliability;
use std::collections::{BTreeMap, VecDeque};

/// A numbered message that a test sends.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Post {
    /// The delivery options of the message.
    pub options: DeliveryOptions,
    /// The number of the message in its direction.
    pub number: u32,
    /// The size of the message in bytes, at least 4.
    pub size: usize,
}

impl Post {
    /// Returns the content of the message, which its number and size determine.
    #[must_use]
    pub fn payload(&self) -> Vec<u8> {
        pattern(self.number, self.size)
    }
}

/// Returns the `size` bytes of message `number`. The formula is simple, so that other stacks' test programs can compute
/// the bytes too.
#[must_use]
pub fn pattern(number: u32, size: usize) -> Vec<u8> {
    let mut bytes: Vec<u8> =
        (0..size.max(4)).map(|at| (at + (at >> 8) + 7 * number as usize) as u8).collect();
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// The messages of one direction that were sent and have not arrived yet.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    expected: BTreeMap<u32, Post>,
    ordered: BTreeMap<u16, VecDeque<u32>>,
    next: u32,
    /// The number of messages of this direction that have arrived.
    pub arrived: u64,
}

impl Ledger {
    /// Creates a message with the next number. From now on, the message is expected to arrive.
    pub fn post(&mut self, options: DeliveryOptions, size: usize) -> Post {
        let post = Post { options, number: self.next, size: size.max(4) };
        self.next += 1;
        if !options.unordered {
            self.ordered.entry(options.stream).or_default().push_back(post.number);
        }
        self.expected.insert(post.number, post.clone());
        post
    }

    /// Checks a message that was delivered on `stream`: its content, its order, and that it arrives only once.
    ///
    /// # Errors
    /// A description of the error in the message or its order.
    pub fn deliver(&mut self, stream: u16, payload: &[u8]) -> Result<(), String> {
        let number = payload.first_chunk::<4>().map_or(u32::MAX, |&bytes| u32::from_be_bytes(bytes));
        self.note(stream, number, payload.len(), |post| payload == post.payload())
    }

    /// Records that message `number` was delivered with this size. The caller has checked its content.
    ///
    /// # Errors
    /// A description of the error in the message or its order.
    pub fn note(
        &mut self,
        stream: u16,
        number: u32,
        size: usize,
        intact: impl FnOnce(&Post) -> bool,
    ) -> Result<(), String> {
        let Some(post) = self.expected.remove(&number) else {
            let what = if number < self.next { "a second time" } else { "which nobody sent" };
            return Err(format!("message {number} of {size} bytes came {what}"));
        };
        if size != post.size || !intact(&post) {
            return Err(format!("message {number} of {} bytes came as {size} others", post.size));
        }
        if stream != post.options.stream {
            return Err(format!("message {number} came on stream {stream}, not {}", post.options.stream));
        }
        if !post.options.unordered {
            let order = self.ordered.entry(stream).or_default();
            loop {
                match order.pop_front() {
                    Some(first) if first == number => break,
                    Some(first) => {
                        let reliable = self
                            .expected
                            .get(&first)
                            .is_some_and(|post| post.options.reliability == Reliability::Full);
                        if reliable {
                            return Err(format!("message {number} on stream {stream} came before {first}"));
                        }
                    }
                    None => return Err(format!("message {number} on stream {stream} came after later ones")),
                }
            }
        }
        self.arrived += 1;
        Ok(())
    }

    /// Returns the number of messages that must still arrive.
    #[must_use]
    pub fn missing(&self) -> usize {
        self.expected.values().filter(|post| post.options.reliability == Reliability::Full).count()
    }

    /// Returns the number of messages that have not arrived. Messages with limited reliability, which the sender may
    /// abandon, count as well.
    #[must_use]
    pub fn outstanding(&self) -> u64 {
        self.expected.len() as u64
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn on(stream: u16) -> DeliveryOptions {
        DeliveryOptions { stream, ..DeliveryOptions::default() }
    }

    #[test]
    fn order_matters_within_a_stream_only() {
        let mut ledger = Ledger::default();
        let posts: Vec<_> = [1, 2, 1].map(|stream| ledger.post(on(stream), 50)).into();
        assert!(ledger.deliver(2, &posts[1].payload()).is_ok());
        assert!(ledger.clone().deliver(1, &posts[2].payload()).is_err());
        assert!(ledger.deliver(1, &posts[0].payload()).is_ok());
        assert!(ledger.deliver(1, &posts[2].payload()).is_ok());
        assert!(ledger.deliver(1, &posts[2].payload()).is_err(), "a second time");
        assert_eq!((ledger.missing(), ledger.arrived), (0, 3));
    }

    #[test]
    fn what_can_be_given_up_may_be_left_out() {
        let mut ledger = Ledger::default();
        let limited = DeliveryOptions { reliability: Reliability::Retransmissions(0), ..on(1) };
        let (first, second) = (ledger.post(limited, 9), ledger.post(on(1), 9));
        assert!(ledger.deliver(1, &second.payload()).is_ok());
        assert_eq!((ledger.missing(), ledger.outstanding()), (0, 1));
        assert!(ledger.deliver(1, &first.payload()).is_err(), "too late");
    }

    #[test]
    fn a_changed_byte_shows() {
        let mut ledger = Ledger::default();
        let mut bytes = ledger.post(on(1), 100).payload();
        bytes[77] ^= 1;
        assert!(ledger.deliver(1, &bytes).is_err());
    }
}
