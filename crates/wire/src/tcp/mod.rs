//! Parsing and writing of TCP segments.
//!
//! [`Segment::parse`] reads a whole segment, [`Header::emit`] writes a header in front of a payload, and [`seal`] fills
//! in the checksum once the payload is there. The most common form of segment has a faster path in [`plain`]. Home of
//! RFC 9293 §3.1 (and its options, in [`options`]).

pub mod header;
pub mod options;
pub mod plain;

pub use header::{
    Flags, Header, ParseError, Segment, Seq, is_intact, is_left_to_card, peek_ports_and_seq, seal,
};
pub use options::{Options, SackBlocks, Timestamps};
pub use plain::{Plain, Template};

/// The protocol number of TCP in the IP header.
pub const PROTOCOL: u8 = 6;
