//! Lines of the chat. The content of a line is computed from the seed, the sender and the line's number, so a receiver
//! can verify it.

use anabranch_base::Rng;
use anabranch_tokio::{Received, SendOptions};
use std::collections::{BTreeMap, BTreeSet};

/// The number of streams with ordered lines. The stream after them has unordered lines.
const ORDERED: u64 = 3;

/// A line of the chat.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    sender: u32,
    number: u32,
    random: u64,
}

impl Line {
    pub(super) fn new(seed: u64, sender: u32, number: u32) -> Self {
        let random = Rng::new(seed).fork(&format!("line {sender} {number}")).next_u64();
        Self { sender, number, random }
    }

    pub(super) fn stream(&self) -> u16 {
        // Stream 0 carries the members' names, so lines use the streams from 1 on.
        1 + (self.random % (ORDERED + 1)) as u16
    }

    fn unordered(&self) -> bool {
        self.stream() > ORDERED as u16
    }

    fn ppid(&self) -> u32 {
        100 + (self.random >> 8) as u32 % 1000
    }

    pub(super) fn options(&self) -> SendOptions {
        SendOptions::new().ppid(self.ppid()).unordered(self.unordered())
    }

    /// Returns the content of the line. Most lines are short, some fill several packets, and a few are so large that
    /// they are delivered in parts.
    pub(super) fn bytes(&self) -> Vec<u8> {
        let random = (self.random >> 20) as usize;
        let length = match random % 200 {
            0 => 70_000 + random / 200 % 60_000,
            1..20 => 2_000 + random / 200 % 3_000,
            _ => 8 + random / 200 % 200,
        };
        let mut bytes = Vec::with_capacity(length);
        bytes.extend(self.sender.to_be_bytes());
        bytes.extend(self.number.to_be_bytes());
        bytes.extend((8..length).map(|at| (self.random as usize + 31 * at) as u8));
        bytes
    }
}

/// The lines that one member has received.
#[derive(Debug)]
pub(super) struct ReceivedLines {
    seed: u64,
    lines: u32,
    /// The sender and the number of each received line.
    all: BTreeSet<(u32, u32)>,
    /// The number of the latest line of each sender on each stream.
    latest: BTreeMap<(u32, u16), u32>,
}

impl ReceivedLines {
    pub(super) fn new(seed: u64, lines: u32) -> Self {
        Self { seed, lines, all: BTreeSet::new(), latest: BTreeMap::new() }
    }

    pub(super) fn lines(&self) -> u64 {
        self.all.len() as u64
    }

    /// Adds a received line of the conversation. Panics unless it is unaltered, new, and in order.
    pub(super) fn take(&mut self, message: &Received) {
        let number =
            |at: usize| u32::from_be_bytes(message.bytes[at..at + 4].try_into().expect("four bytes"));
        let line = Line::new(self.seed, number(0), number(4));
        assert!(line.number < self.lines, "a line that nobody says: {line:?}");
        assert!(message.bytes == line.bytes(), "{line:?} was changed: {} bytes", message.bytes.len());
        let said = (line.stream(), line.ppid(), line.unordered());
        assert_eq!((message.stream, message.ppid, message.unordered), said, "{line:?}");
        assert!(self.all.insert((line.sender, line.number)), "{line:?} was heard twice");
        if !line.unordered() {
            let before = self.latest.insert((line.sender, line.stream()), line.number);
            assert!(before.is_none_or(|before| before < line.number), "{line:?} behind {before:?}");
        }
    }
}
