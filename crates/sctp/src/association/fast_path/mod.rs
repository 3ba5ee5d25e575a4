//! The fast path for the two kinds of packet that make up a transfer without loss.
//!
//! While no packet is lost and no control chunk is pending, an association exchanges only two kinds of packet. One
//! holds DATA with the next message in order. The other holds a SACK that only advances the cumulative TSN.
//!
//! On each packet, the slow path ([`inbound`](super::inbound), `acknowledge`, `outbound`, and the sending and receiving
//! halves) checks for every special case. The fast path makes these checks once for many packets ([`FastPath`]). Both
//! paths have the same effects; `tests/fast_path.rs` compares them. A packet that does not qualify changes nothing on
//! the fast path, and takes the slow path.
//!
//! [`eligibility`] decides whether the fast path may be used. [`input`] handles received packets, and [`output`] writes
//! packets.
//!
//! This module is the home of no RFC rule: each rule has its home on the slow path.

mod eligibility;
mod input;
mod output;

pub(crate) use eligibility::FastPath;
pub(crate) use input::SoleChunk;
