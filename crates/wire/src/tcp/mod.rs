//! Parses and writes TCP segments.
//!
//! [`Segment::parse`] reads a whole segment, [`Header::emit`] writes a header before its payload, and [`seal`] fills in
//! the checksum once the payload is complete. For the most common form of segment, [`plain`] is faster. Implements RFC
//! 9293 §3.1. The options are in [`options`].

pub mod header;
pub mod options;
pub mod plain;

pub use header::{
    Flags, Header, ParseError, Segment, has_offloaded_checksum, is_intact, peek_ports_and_seq, seal,
};
pub use options::{Options, SackBlocks, Timestamps};
pub use plain::{PlainSegment, Template};

/// The protocol number of TCP in the IP header.
pub const PROTOCOL: u8 = 6;

anabranch_base::serial!(
    /// A TCP sequence number (RFC 9293 §3.4).
    Seq: u32
);
