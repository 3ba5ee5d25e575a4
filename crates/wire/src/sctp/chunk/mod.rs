//! All types of chunks: one file for each type, and an enum of all types.
//!
//! Implements RFC 9260 §3.3. Each subsection of §3.3 is implemented in one of the files of this module.

mod abort;
mod asconf;
mod auth;
mod cookie_ack;
mod cookie_echo;
mod cwr;
mod data;
mod ecne;
mod error;
mod forward_tsn;
mod heartbeat;
mod idata;
mod init;
mod nr_sack;
mod pad;
mod re_config;
mod sack;
mod shutdown;
mod shutdown_ack;
mod shutdown_complete;
mod unknown;

pub use abort::Abort;
pub use asconf::{Asconf, AsconfAck};
pub use auth::Auth;
pub use cookie_ack::CookieAck;
pub use cookie_echo::CookieEcho;
pub use cwr::Cwr;
pub use data::Data;
pub use ecne::Ecne;
pub use error::Error;
pub use forward_tsn::{ForwardTsn, IForwardTsn, Skipped, SkippedMessage};
pub use heartbeat::{Heartbeat, HeartbeatAck};
pub use idata::IData;
pub use init::{Init, InitAck};
pub use nr_sack::{NrSack, NrSackView};
pub use pad::Pad;
pub use re_config::{ReConfig, ReConfigParam, StreamList};
pub use sack::{GapBlock, Sack, SackView};
pub use shutdown::Shutdown;
pub use shutdown_ack::ShutdownAck;
pub use shutdown_complete::ShutdownComplete;
pub use unknown::UnknownChunk;

use super::tlv::{ChunkWriter, Malformed, RawChunk};
use std::fmt;

/// Declares the enum [`Chunk`]. Each line of the macro call has four parts: a variant and its content, the struct whose
/// constant `KIND` is the chunk type, the name in the RFC, and the parser.
macro_rules! chunks {
    ($( $variant:ident($content:ty): $kind:ident, $name:literal, $parse:expr; )*) => {
        /// A chunk of any type.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        #[expect(missing_docs, reason = "each variant is documented at its type")]
        pub enum Chunk<'a> {
            $( $variant($content), )*
            Unknown(UnknownChunk<'a>),
        }

        impl<'a> Chunk<'a> {
            fn parse_rare(raw: RawChunk<'a>) -> Result<Self, Malformed> {
                Ok(match raw.kind {
                    $( $kind::KIND => Self::$variant($parse(raw)?), )*
                    _ => Self::Unknown(UnknownChunk { raw }),
                })
            }

            /// Returns the chunk type as a number.
            #[must_use]
            pub const fn kind(&self) -> u8 {
                match self {
                    $( Self::$variant(_) => $kind::KIND, )*
                    Self::Unknown(unknown) => unknown.raw.kind,
                }
            }

            /// Returns the chunk's name as the RFC spells it.
            #[must_use]
            pub const fn name(&self) -> &'static str {
                match self {
                    $( Self::$variant(_) => $name, )*
                    Self::Unknown(_) => "CHUNK",
                }
            }

            /// Appends the chunk with its padding.
            pub fn emit(&self, buffer: &mut Vec<u8>) {
                match self {
                    $( Self::$variant(chunk) => chunk.emit(buffer), )*
                    Self::Unknown(chunk) => chunk.emit(buffer),
                }
            }
        }

        impl fmt::Display for Chunk<'_> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                match self {
                    $( Self::$variant(chunk) => chunk.fmt(f), )*
                    Self::Unknown(chunk) => chunk.fmt(f),
                }
            }
        }
    };
}

chunks! {
    Data(Data<'a>): Data, "DATA", Data::parse;
    IData(IData<'a>): IData, "I-DATA", IData::parse;
    Init(Init<'a>): Init, "INIT", Init::parse;
    InitAck(InitAck<'a>): InitAck, "INIT ACK", InitAck::parse;
    Sack(SackView<'a>): Sack, "SACK", SackView::parse;
    NrSack(NrSackView<'a>): NrSack, "NR-SACK", NrSackView::parse;
    Heartbeat(Heartbeat<'a>): Heartbeat, "HEARTBEAT", Heartbeat::parse;
    HeartbeatAck(HeartbeatAck<'a>): HeartbeatAck, "HEARTBEAT ACK", HeartbeatAck::parse;
    Abort(Abort<'a>): Abort, "ABORT", infallible(Abort::parse);
    Shutdown(Shutdown): Shutdown, "SHUTDOWN", Shutdown::parse;
    ShutdownAck(ShutdownAck): ShutdownAck, "SHUTDOWN ACK", ShutdownAck::parse;
    Error(Error<'a>): Error, "ERROR", infallible(Error::parse);
    CookieEcho(CookieEcho<'a>): CookieEcho, "COOKIE ECHO", infallible(CookieEcho::parse);
    CookieAck(CookieAck): CookieAck, "COOKIE ACK", CookieAck::parse;
    Ecne(Ecne): Ecne, "ECNE", Ecne::parse;
    Cwr(Cwr): Cwr, "CWR", Cwr::parse;
    ShutdownComplete(ShutdownComplete): ShutdownComplete, "SHUTDOWN COMPLETE", ShutdownComplete::parse;
    Pad(Pad<'a>): Pad, "PAD", infallible(Pad::parse);
    ForwardTsn(ForwardTsn<'a>): ForwardTsn, "FORWARD TSN", ForwardTsn::parse;
    IForwardTsn(IForwardTsn<'a>): IForwardTsn, "I-FORWARD-TSN", IForwardTsn::parse;
    Auth(Auth<'a>): Auth, "AUTH", Auth::parse;
    Asconf(Asconf<'a>): Asconf, "ASCONF", Asconf::parse;
    AsconfAck(AsconfAck<'a>): AsconfAck, "ASCONF ACK", AsconfAck::parse;
    ReConfig(ReConfig<'a>): ReConfig, "RE-CONFIG", ReConfig::parse;
}

impl<'a> Chunk<'a> {
    /// Parses a chunk as its type requires.
    ///
    /// # Errors
    /// The chunk's value does not have the form that its type requires.
    #[inline]
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        Ok(match raw.kind {
            Data::KIND => Self::Data(Data::parse(raw)?),
            Sack::KIND => Self::Sack(SackView::parse(raw)?),
            _ => return Self::parse_rare(raw),
        })
    }
}

/// Turns a parser that accepts every value into a parser that returns a `Result`.
fn infallible<'a, T>(parse: impl Fn(RawChunk<'a>) -> T) -> impl Fn(RawChunk<'a>) -> Result<T, Malformed> {
    move |raw| Ok(parse(raw))
}

/// Returns the value of a chunk that consists of a single 32-bit number.
fn word(raw: RawChunk<'_>) -> Result<u32, Malformed> {
    let bytes = <[u8; 4]>::try_from(raw.value).map_err(|_| raw.malformed())?;
    Ok(u32::from_be_bytes(bytes))
}

/// Checks that a chunk has no value.
fn empty(raw: RawChunk<'_>) -> Result<(), Malformed> {
    if raw.value.is_empty() { Ok(()) } else { Err(raw.malformed()) }
}

/// Appends a chunk with this type, these flags and this value.
fn bare(buffer: &mut Vec<u8>, kind: u8, flags: u8, value: &[u8]) {
    let mut chunk = ChunkWriter::open(buffer, kind, flags);
    chunk.bytes(value);
    chunk.close();
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::sctp::Chunks;

    /// Parses `bytes`, which must contain exactly one chunk.
    pub(crate) fn one(bytes: &[u8]) -> Chunk<'_> {
        let mut chunks = Chunks::new(bytes);
        let chunk = chunks.next().expect("a chunk").expect("a well-formed chunk");
        assert!(chunks.is_empty(), "more than one chunk");
        chunk
    }

    /// Writes `chunk` after other bytes, parses it, and checks that the result equals `chunk`.
    pub(crate) fn round_trip(chunk: Chunk<'_>) {
        let mut buffer = vec![0x55; 5];
        chunk.emit(&mut buffer);
        assert_eq!((buffer.len() - 5) % 4, 0, "padded");
        let back = one(&buffer[5..]);
        assert_eq!(back, chunk);
        assert_eq!(back.kind(), buffer[5]);
        assert!(back.to_string().starts_with(back.name()));
    }
}
