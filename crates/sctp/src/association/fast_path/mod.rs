//! The fast path: the two kinds of packet that make up a transfer without loss.
//!
//! While nothing is lost and no control chunk is pending, an association exchanges two kinds of packet: DATA with the next
//! message in order, and a SACK that only advances the cumulative TSN.
//!
//! The slow path ([`inbound`](super::inbound), `acknowledge`, `outbound` and the two halves) checks for every special case
//! on each packet. The fast path checks them once for many packets ([`FastPath`]). Both have the same effects;
//! `tests/fast_path.rs` compares them. A packet that does not qualify changes nothing here and takes the slow path.
//!
//! [`eligibility`] decides whether the fast path may be taken, [`input`] receives packets, and [`output`] writes them.
//!
//! Home of no rule: each rule has its home on the slow path.

mod eligibility;
mod input;
mod output;

pub(crate) use eligibility::FastPath;
pub(crate) use input::SoleChunk;
