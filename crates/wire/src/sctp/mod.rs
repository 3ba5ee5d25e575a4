//! SCTP on the wire (RFC 9260 §3): packets, chunks, parameters, error causes.
//!
//! Parsed values borrow the bytes from which they were read. Functions that write append to the caller's buffer.
//! [`packet`] has the common header and the iterator over chunks, [`chunk`] has one file for each chunk, and [`param`]
//! has one file for each parameter. [`cause`] has the error causes, and [`tlv`] has the rules that chunks, parameters
//! and causes share.
//!
//! ```
//! use anabranch_wire::sctp::{Chunk, CookieAck, PacketView, packet};
//!
//! let mut buffer = Vec::new();
//! let start = packet::begin(&mut buffer, 5000, 80, 0xabcd);
//! CookieAck.emit(&mut buffer);
//! packet::finish(&mut buffer, start);
//!
//! let packet = PacketView::parse(&buffer[start..]).expect("a packet with a good checksum");
//! assert_eq!(packet.header.tag, 0xabcd);
//! assert!(matches!(packet.chunks().next(), Some(Ok(Chunk::CookieAck(_)))));
//! ```

pub mod cause;
pub mod chunk;
pub mod crc32c;
pub mod packet;
pub mod param;
pub mod tlv;

pub use cause::Cause;
pub use chunk::{
    Abort, Chunk, CookieAck, CookieEcho, Cwr, Data, Ecne, Error, ForwardTsn, GapBlock, Heartbeat,
    HeartbeatAck, IData, IForwardTsn, Init, InitAck, NrSack, NrSackView, Pad, Sack, SackView, Shutdown,
    ShutdownAck, ShutdownComplete, Skipped, SkippedMessage, UnknownChunk,
};
pub use chunk::{Asconf, AsconfAck, Auth};
pub use chunk::{ReConfig, ReConfigParam, StreamList};
pub use packet::{Chunks, Header, PacketError, PacketView};
pub use param::{Param, Params};
pub use tlv::{ChunkWriter, Malformed, RawChunk, RawTlv, UnrecognizedAction};

anabranch_base::serial!(
    /// Transmission Sequence Number (RFC 9260 §1.3): every DATA chunk has a TSN.
    Tsn: u32
);
anabranch_base::serial!(
    /// Stream Sequence Number (RFC 9260 §1.3): every ordered message of a stream has an SSN.
    Ssn: u16
);
