//! The fast path for the two kinds of packet that make up a transfer without loss.
//!
//! While no packet is lost and no control chunk is pending, an association exchanges only two kinds of packet. One
//! holds DATA with the next message in order. The other holds a SACK that only advances the cumulative TSN.
//!
//! On each packet, the slow path ([`inbound`](super::inbound), `acknowledge`, `outbound`, and the sending and receiving
//! halves) checks for every special case. The fast path makes these checks once for many packets ([`FastPath`]). Both
//! have the same effects, which `tests/fast_path.rs` checks. If a packet does not qualify, the fast path changes
//! nothing, and the slow path handles the packet.
//!
//! [`eligibility`] decides whether the fast path may be used. [`input`] handles received packets, and [`output`] writes
//! packets.
//!
//! This module implements no RFC rule of its own: the modules of the slow path implement the rules.

mod eligibility;
mod input;
mod output;

pub(crate) use eligibility::FastPath;
pub(crate) use input::SoleChunk;
