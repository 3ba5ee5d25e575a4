//! Runs SCTP stacks for comparison: both ends of one association in one thread, without a network between them, with a
//! simulated clock.
//!
//! One file per stack adapts the stack to a common trait, so that all stacks do the same work. Every message is copied
//! in from one buffer and out into another. Every packet is written, checksummed, verified and read. Packets have at
//! most [`PACKET`] bytes, as on Ethernet with IPv4 and UDP. Send and receive buffers have [`BUFFER`] bytes.

mod dcsctp;
mod ours;
mod rtc;
mod sctp_proto;

pub use dcsctp::DcSctp;
pub use ours::{Ours, Settings};
pub use rtc::Rtc;
pub use sctp_proto::SctpProto;

use crate::thread_cpu;

/// The maximum size of an SCTP packet in bytes.
pub const PACKET: usize = 1472;

/// The size of a send buffer, and of a receive buffer, in bytes.
pub const BUFFER: usize = 1 << 20;

/// The two endpoints of an association with one ordered stream.
pub trait StackPair {
    /// Queues one message at the sending endpoint. Returns false if its send buffer has no room.
    fn send(&mut self, message: &[u8]) -> bool;

    /// Moves all packets once in each direction. Passes each message that has arrived to `on_message`, in parts or as a
    /// whole. The flag is `true` with the last part of a message.
    fn turn(&mut self, on_message: &mut dyn FnMut(&[u8], bool));

    /// Returns the number of packets with data that were sent so far.
    fn packets(&self) -> u64;
}

/// The result of a transfer between the two endpoints of a stack.
#[derive(Clone, Copy, Debug)]
pub struct Transfer {
    /// The CPU seconds that the transfer took, for both endpoints together.
    pub cpu: f64,
    /// The bytes of user data that arrived.
    pub bytes: u64,
    /// The number of packets with data that the sending endpoint sent.
    pub packets: u64,
}

/// Sends messages of `size` bytes until `total` bytes have arrived. Each message carries its number, which the receiver
/// checks.
///
/// # Errors
/// Returns one line if a received message differs from the sent message, or if there is no progress.
pub fn transfer(pair: &mut impl StackPair, size: usize, total: u64) -> Result<Transfer, String> {
    let mut message: Vec<u8> = (0..size).map(|i| i as u8).collect();
    let mut received = vec![0; size];
    let (mut sent, mut delivered, mut have, mut bytes) = (0_u64, 0_u64, 0_usize, 0_u64);
    let mut mismatch = None;
    let mut idle = 0;
    let before = pair.packets();
    let begin = thread_cpu();
    let count = total.div_ceil(size as u64);
    while delivered < count {
        while sent < count {
            message[..8].copy_from_slice(&sent.to_be_bytes());
            if !pair.send(&message) {
                break;
            }
            sent += 1;
        }
        let bytes_before = bytes;
        pair.turn(&mut |part, last| {
            let Some(target) = received.get_mut(have..have + part.len()) else {
                mismatch.get_or_insert(delivered);
                return;
            };
            target.copy_from_slice(part);
            have += part.len();
            bytes += part.len() as u64;
            if last {
                if have != size || received[..8] != delivered.to_be_bytes() {
                    mismatch.get_or_insert(delivered);
                }
                delivered += 1;
                have = 0;
            }
        });
        idle = if bytes == bytes_before { idle + 1 } else { 0 };
        if idle > 10_000 {
            return Err(format!("nothing moves after {bytes} bytes"));
        }
    }
    let cpu = thread_cpu() - begin;
    match mismatch {
        Some(number) => Err(format!("message {number} is not what was sent")),
        None => Ok(Transfer { cpu, bytes, packets: pair.packets() - before }),
    }
}
