//! The fast path: the two packets that a transfer without loss consists of.
//!
//! While nothing is lost and no control chunk waits, an association receives and sends packets of
//! DATA whose message comes next, and of one SACK that only advances the cumulative TSN. For these
//! the slow path ([`inbound`](super::inbound), `acknowledge`, `outbound` and the two
//! halves) asks on each packet after all that they are not; here that is asked once for many
//! packets ([`FastPath`]). What a packet does is the same on both ways: `tests/fast_path.rs` holds
//! them against each other. A packet that does not qualify changes nothing here and takes the slow
//! path.
//!
//! [`eligibility`] says when, [`input`] takes packets in, [`output`] writes them.
//!
//! Home of no rule: each has its own.

mod eligibility;
mod input;
mod output;

pub(crate) use eligibility::FastPath;
pub(crate) use input::SoleChunk;
