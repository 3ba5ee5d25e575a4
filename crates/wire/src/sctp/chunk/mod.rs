//! All types of chunks: one file for each type, and an enum of all types.
//!
//! Home of RFC 9260 §3.3. Each of its subsections has its home in one of the files.

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

/// A chunk of any type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "each variant is documented at its type")]
pub enum Chunk<'a> {
    Data(Data<'a>),
    IData(IData<'a>),
    Init(Init<'a>),
    InitAck(InitAck<'a>),
    Sack(SackView<'a>),
    NrSack(NrSackView<'a>),
    Heartbeat(Heartbeat<'a>),
    HeartbeatAck(HeartbeatAck<'a>),
    Abort(Abort<'a>),
    Shutdown(Shutdown),
    ShutdownAck(ShutdownAck),
    Error(Error<'a>),
    CookieEcho(CookieEcho<'a>),
    CookieAck(CookieAck),
    Ecne(Ecne),
    Cwr(Cwr),
    ShutdownComplete(ShutdownComplete),
    Pad(Pad<'a>),
    ForwardTsn(ForwardTsn<'a>),
    IForwardTsn(IForwardTsn<'a>),
    Auth(Auth<'a>),
    Asconf(Asconf<'a>),
    AsconfAck(AsconfAck<'a>),
    ReConfig(ReConfig<'a>),
    Unknown(UnknownChunk<'a>),
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

    fn parse_rare(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        Ok(match raw.kind {
            IData::KIND => Self::IData(IData::parse(raw)?),
            NrSack::KIND => Self::NrSack(NrSackView::parse(raw)?),
            Init::KIND => Self::Init(Init::parse(raw)?),
            InitAck::KIND => Self::InitAck(InitAck::parse(raw)?),
            Heartbeat::KIND => Self::Heartbeat(Heartbeat::parse(raw)?),
            HeartbeatAck::KIND => Self::HeartbeatAck(HeartbeatAck::parse(raw)?),
            Abort::KIND => Self::Abort(Abort::parse(raw)),
            Shutdown::KIND => Self::Shutdown(Shutdown::parse(raw)?),
            ShutdownAck::KIND => Self::ShutdownAck(ShutdownAck::parse(raw)?),
            Error::KIND => Self::Error(Error::parse(raw)),
            CookieEcho::KIND => Self::CookieEcho(CookieEcho::parse(raw)),
            CookieAck::KIND => Self::CookieAck(CookieAck::parse(raw)?),
            Ecne::KIND => Self::Ecne(Ecne::parse(raw)?),
            Cwr::KIND => Self::Cwr(Cwr::parse(raw)?),
            ShutdownComplete::KIND => Self::ShutdownComplete(ShutdownComplete::parse(raw)?),
            Pad::KIND => Self::Pad(Pad::parse(raw)),
            ForwardTsn::KIND => Self::ForwardTsn(ForwardTsn::parse(raw)?),
            IForwardTsn::KIND => Self::IForwardTsn(IForwardTsn::parse(raw)?),
            Auth::KIND => Self::Auth(Auth::parse(raw)?),
            Asconf::KIND => Self::Asconf(Asconf::parse(raw)?),
            AsconfAck::KIND => Self::AsconfAck(AsconfAck::parse(raw)?),
            ReConfig::KIND => Self::ReConfig(ReConfig::parse(raw)?),
            _ => Self::Unknown(UnknownChunk { raw }),
        })
    }

    /// Returns the chunk type as a number.
    #[must_use]
    pub const fn kind(&self) -> u8 {
        match self {
            Self::Data(_) => Data::KIND,
            Self::IData(_) => IData::KIND,
            Self::Init(_) => Init::KIND,
            Self::InitAck(_) => InitAck::KIND,
            Self::Sack(_) => Sack::KIND,
            Self::NrSack(_) => NrSack::KIND,
            Self::Heartbeat(_) => Heartbeat::KIND,
            Self::HeartbeatAck(_) => HeartbeatAck::KIND,
            Self::Abort(_) => Abort::KIND,
            Self::Shutdown(_) => Shutdown::KIND,
            Self::ShutdownAck(_) => ShutdownAck::KIND,
            Self::Error(_) => Error::KIND,
            Self::CookieEcho(_) => CookieEcho::KIND,
            Self::CookieAck(_) => CookieAck::KIND,
            Self::Ecne(_) => Ecne::KIND,
            Self::Cwr(_) => Cwr::KIND,
            Self::ShutdownComplete(_) => ShutdownComplete::KIND,
            Self::Pad(_) => Pad::KIND,
            Self::ForwardTsn(_) => ForwardTsn::KIND,
            Self::IForwardTsn(_) => IForwardTsn::KIND,
            Self::Auth(_) => Auth::KIND,
            Self::Asconf(_) => Asconf::KIND,
            Self::AsconfAck(_) => AsconfAck::KIND,
            Self::ReConfig(_) => ReConfig::KIND,
            Self::Unknown(unknown) => unknown.raw.kind,
        }
    }

    /// Returns the chunk's name as the RFC spells it.
    #[must_use]
    pub const fn name(&self) -> &'static str {
        match self {
            Self::Data(_) => "DATA",
            Self::IData(_) => "I-DATA",
            Self::Init(_) => "INIT",
            Self::InitAck(_) => "INIT ACK",
            Self::Sack(_) => "SACK",
            Self::NrSack(_) => "NR-SACK",
            Self::Heartbeat(_) => "HEARTBEAT",
            Self::HeartbeatAck(_) => "HEARTBEAT ACK",
            Self::Abort(_) => "ABORT",
            Self::Shutdown(_) => "SHUTDOWN",
            Self::ShutdownAck(_) => "SHUTDOWN ACK",
            Self::Error(_) => "ERROR",
            Self::CookieEcho(_) => "COOKIE ECHO",
            Self::CookieAck(_) => "COOKIE ACK",
            Self::Ecne(_) => "ECNE",
            Self::Cwr(_) => "CWR",
            Self::ShutdownComplete(_) => "SHUTDOWN COMPLETE",
            Self::Pad(_) => "PAD",
            Self::ForwardTsn(_) => "FORWARD TSN",
            Self::IForwardTsn(_) => "I-FORWARD-TSN",
            Self::Auth(_) => "AUTH",
            Self::Asconf(_) => "ASCONF",
            Self::AsconfAck(_) => "ASCONF ACK",
            Self::ReConfig(_) => "RE-CONFIG",
            Self::Unknown(_) => "CHUNK",
        }
    }

    /// Appends the chunk with its padding.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        match self {
            Self::Data(chunk) => chunk.emit(buffer),
            Self::IData(chunk) => chunk.emit(buffer),
            Self::Init(chunk) => chunk.emit(buffer),
            Self::InitAck(chunk) => chunk.emit(buffer),
            Self::Sack(chunk) => chunk.emit(buffer),
            Self::NrSack(chunk) => chunk.emit(buffer),
            Self::Heartbeat(chunk) => chunk.emit(buffer),
            Self::HeartbeatAck(chunk) => chunk.emit(buffer),
            Self::Abort(chunk) => chunk.emit(buffer),
            Self::Shutdown(chunk) => chunk.emit(buffer),
            Self::ShutdownAck(chunk) => chunk.emit(buffer),
            Self::Error(chunk) => chunk.emit(buffer),
            Self::CookieEcho(chunk) => chunk.emit(buffer),
            Self::CookieAck(chunk) => chunk.emit(buffer),
            Self::Ecne(chunk) => chunk.emit(buffer),
            Self::Cwr(chunk) => chunk.emit(buffer),
            Self::ShutdownComplete(chunk) => chunk.emit(buffer),
            Self::Pad(chunk) => chunk.emit(buffer),
            Self::ForwardTsn(chunk) => chunk.emit(buffer),
            Self::IForwardTsn(chunk) => chunk.emit(buffer),
            Self::Auth(chunk) => chunk.emit(buffer),
            Self::Asconf(chunk) => chunk.emit(buffer),
            Self::AsconfAck(chunk) => chunk.emit(buffer),
            Self::ReConfig(chunk) => chunk.emit(buffer),
            Self::Unknown(chunk) => chunk.emit(buffer),
        }
    }
}

impl fmt::Display for Chunk<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Data(chunk) => chunk.fmt(f),
            Self::IData(chunk) => chunk.fmt(f),
            Self::Init(chunk) => chunk.fmt(f),
            Self::InitAck(chunk) => chunk.fmt(f),
            Self::Sack(chunk) => chunk.fmt(f),
            Self::NrSack(chunk) => chunk.fmt(f),
            Self::Heartbeat(chunk) => chunk.fmt(f),
            Self::HeartbeatAck(chunk) => chunk.fmt(f),
            Self::Abort(chunk) => chunk.fmt(f),
            Self::Shutdown(chunk) => chunk.fmt(f),
            Self::ShutdownAck(chunk) => chunk.fmt(f),
            Self::Error(chunk) => chunk.fmt(f),
            Self::CookieEcho(chunk) => chunk.fmt(f),
            Self::CookieAck(chunk) => chunk.fmt(f),
            Self::Ecne(chunk) => chunk.fmt(f),
            Self::Cwr(chunk) => chunk.fmt(f),
            Self::ShutdownComplete(chunk) => chunk.fmt(f),
            Self::Pad(chunk) => chunk.fmt(f),
            Self::ForwardTsn(chunk) => chunk.fmt(f),
            Self::IForwardTsn(chunk) => chunk.fmt(f),
            Self::Auth(chunk) => chunk.fmt(f),
            Self::Asconf(chunk) => chunk.fmt(f),
            Self::AsconfAck(chunk) => chunk.fmt(f),
            Self::ReConfig(chunk) => chunk.fmt(f),
            Self::Unknown(chunk) => chunk.fmt(f),
        }
    }
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

    /// Writes `chunk` after other bytes, reads it back, and compares the two.
    pub(crate) fn round_trip(chunk: Chunk<'_>) {
        let mut buffer = vec![0x55; 5];
        chunk.emit(&mut buffer);
        assert_eq!((buffer.len() - 5) % 4, 0, "padded");
        let back = one(&buffer[5..]);
        // The comparison covers the content, including the `bytes` of an unknown chunk and the parameters of other
        // chunks.
        assert_eq!(back, chunk);
        assert_eq!(back.kind(), buffer[5]);
        assert!(back.to_string().starts_with(back.name()));
    }
}
