//! One direction of a link, with a rate, a delay, and losses that depend only on the seed.

use crate::RATE;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// The size of the IPv4 and UDP headers of a datagram, in bytes.
const HEADERS: usize = 28;

/// A link without a limit on its queue.
pub struct Link {
    loss: u64,
    delay: Duration,
    rng_state: u64,
    /// The time at which the last packet has left the queue.
    free: Option<Instant>,
    in_flight: VecDeque<(Instant, Vec<u8>)>,
}

impl Link {
    /// Creates a link that loses `loss` of 10,000 packets and delays each packet by `delay`.
    pub fn new(loss: u64, delay: Duration, seed: u64) -> Self {
        Self {
            loss,
            delay,
            rng_state: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            free: None,
            in_flight: VecDeque::new(),
        }
    }

    /// Draws a number below 10,000 with xorshift64*.
    fn draw(&mut self) -> u64 {
        self.rng_state ^= self.rng_state >> 12;
        self.rng_state ^= self.rng_state << 25;
        self.rng_state ^= self.rng_state >> 27;
        (self.rng_state.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 33) % 10_000
    }

    pub fn send(&mut self, now: Instant, packet: &[u8]) {
        let bits = 8 * (packet.len() + HEADERS) as u64;
        let leaves = self.free.unwrap_or(now).max(now) + Duration::from_nanos(bits * 1_000_000_000 / RATE);
        self.free = Some(leaves);
        if self.draw() >= self.loss {
            self.in_flight.push_back((leaves + self.delay, packet.to_vec()));
        }
    }

    /// Returns the arrival time of the next packet.
    pub fn next(&self) -> Option<Instant> {
        self.in_flight.front().map(|(at, _)| *at)
    }

    /// Returns a packet that has arrived by `now`.
    pub fn receive(&mut self, now: Instant) -> Option<Vec<u8>> {
        self.in_flight.pop_front_if(|(at, _)| *at <= now).map(|(_, packet)| packet)
    }
}
