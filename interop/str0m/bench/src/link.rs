//! One direction of a link: a rate, a delay, and losses that hang on a seed alone.

use crate::RATE;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Bytes of headers beneath a datagram: IPv4's and UDP's.
const HEADERS: usize = 28;

/// Packets on their way.
pub struct Link {
    loss: u64,
    delay: Duration,
    luck: u64,
    /// When the last packet has left the queue.
    free: Option<Instant>,
    flying: VecDeque<(Instant, Vec<u8>)>,
}

impl Link {
    /// `loss`: hundredths of a percent; one way takes `delay`.
    pub fn new(loss: u64, delay: Duration, seed: u64) -> Self {
        Self {
            loss,
            delay,
            luck: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            free: None,
            flying: VecDeque::new(),
        }
    }

    /// Xorshift64*: a number below 10,000.
    fn draw(&mut self) -> u64 {
        self.luck ^= self.luck >> 12;
        self.luck ^= self.luck << 25;
        self.luck ^= self.luck >> 27;
        (self.luck.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % 10_000
    }

    pub fn send(&mut self, now: Instant, packet: &[u8]) {
        let bits = 8 * (packet.len() + HEADERS) as u64;
        let leaves = self.free.unwrap_or(now).max(now) + Duration::from_nanos(bits * 1_000_000_000 / RATE);
        self.free = Some(leaves);
        if self.draw() >= self.loss {
            self.flying.push_back((leaves + self.delay, packet.to_vec()));
        }
    }

    /// When the next packet arrives.
    pub fn next(&self) -> Option<Instant> {
        self.flying.front().map(|(at, _)| *at)
    }

    /// A packet that has arrived.
    pub fn receive(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.flying.pop_front_if(|(at, _)| *at <= now).map(|(_, packet)| packet)
    }
}
