//! INIT and INIT ACK: the parameters that each side offers for a new association.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! | type = 1 or 2 |     flags     |            length             |
//! +---------------+---------------+-------------------------------+
//! |                         initiate tag                          |
//! +---------------------------------------------------------------+
//! |             advertised receiver window (a_rwnd)               |
//! +-------------------------------+-------------------------------+
//! |       outbound streams        |        inbound streams        |
//! +-------------------------------+-------------------------------+
//! |                          initial TSN                          |
//! +---------------------------------------------------------------+
//! |                         parameters …                          |
//! ```
//!
//! INIT and INIT ACK have the same layout. An [`InitAck`] contains an [`Init`] that has at least a state cookie
//! parameter. Parsing accepts forbidden values (tag 0, no streams). The endpoint rejects them.
//!
//! Implements RFC 9260 §3.3.2 and §3.3.3.

use crate::sctp::param::Params;
use crate::sctp::tlv::{ChunkWriter, Malformed, RawChunk};
use crate::sctp::{Param, Tsn};
use std::fmt;

/// The content of an INIT chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Init<'a> {
    /// The tag that every packet to the sender of this chunk must carry.
    pub tag: u32,
    /// The advertised receiver window (a_rwnd) in bytes.
    pub window: u32,
    /// The number of outbound streams that the sender wants.
    pub outbound_streams: u16,
    /// The largest number of inbound streams that the sender accepts.
    pub inbound_streams: u16,
    /// The first TSN that the sender will use.
    pub tsn: Tsn,
    /// The parameters.
    pub params: Params<'a>,
}

/// The content of an INIT ACK chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InitAck<'a>(pub Init<'a>);

impl<'a> Init<'a> {
    /// Chunk type.
    pub const KIND: u8 = 1;
    /// The size in bytes of an INIT or INIT ACK without parameters, including the chunk header.
    pub const FIXED: usize = 20;

    /// Reads an INIT or an INIT ACK chunk.
    ///
    /// # Errors
    /// The chunk is shorter than its fixed part. Parameters are checked only during iteration.
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        let Some((&[g0, g1, g2, g3, w0, w1, w2, w3, o0, o1, i0, i1, t0, t1, t2, t3], params)) =
            raw.value.split_first_chunk::<16>()
        else {
            return Err(raw.malformed());
        };
        Ok(Self {
            tag: u32::from_be_bytes([g0, g1, g2, g3]),
            window: u32::from_be_bytes([w0, w1, w2, w3]),
            outbound_streams: u16::from_be_bytes([o0, o1]),
            inbound_streams: u16::from_be_bytes([i0, i1]),
            tsn: Tsn(u32::from_be_bytes([t0, t1, t2, t3])),
            params: Params::new(params),
        })
    }

    /// Begins an INIT chunk that has the fixed part and the parameters of `self`. The caller appends more parameters
    /// ([`Param::emit`]) and closes the chunk.
    pub fn open<'b>(&self, buffer: &'b mut Vec<u8>) -> ChunkWriter<'b> {
        self.open_as(buffer, Self::KIND)
    }

    fn open_as<'b>(&self, buffer: &'b mut Vec<u8>, kind: u8) -> ChunkWriter<'b> {
        let mut chunk = ChunkWriter::open(buffer, kind, 0);
        let mut fixed = [0; 16];
        fixed[0..4].copy_from_slice(&self.tag.to_be_bytes());
        fixed[4..8].copy_from_slice(&self.window.to_be_bytes());
        fixed[8..10].copy_from_slice(&self.outbound_streams.to_be_bytes());
        fixed[10..12].copy_from_slice(&self.inbound_streams.to_be_bytes());
        fixed[12..16].copy_from_slice(&self.tsn.0.to_be_bytes());
        chunk.bytes(&fixed);
        chunk.bytes(self.params.rest());
        chunk
    }

    /// Appends the whole chunk to `buffer`.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        self.open(buffer).close();
    }
}

impl<'a> InitAck<'a> {
    /// Chunk type.
    pub const KIND: u8 = 2;

    /// Parses an INIT ACK chunk.
    ///
    /// # Errors
    /// The chunk is shorter than its fixed part.
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        Init::parse(raw).map(Self)
    }

    /// Begins an INIT ACK chunk, in the same way as [`Init::open`] begins an INIT.
    pub fn open<'b>(&self, buffer: &'b mut Vec<u8>) -> ChunkWriter<'b> {
        self.0.open_as(buffer, Self::KIND)
    }

    /// Appends the whole chunk to `buffer`.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        self.open(buffer).close();
    }
}

impl Init<'_> {
    fn fmt_named(&self, f: &mut fmt::Formatter<'_>, name: &str) -> fmt::Result {
        let Self { tag, window, outbound_streams: outbound, inbound_streams: inbound, tsn, params } = self;
        write!(f, "{name} tag={tag:08x} rwnd={window} os={outbound} is={inbound} tsn={tsn}")?;
        for param in *params {
            match param {
                // Every INIT ACK has a cookie whose content is opaque, so only the presence of the cookie is shown.
                Ok(Param::StateCookie(_)) => write!(f, " …cookie")?,
                Ok(param) => write!(f, " {param}")?,
                Err(error) => write!(f, " ({error})")?,
            }
        }
        Ok(())
    }
}

impl fmt::Display for Init<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.fmt_named(f, "INIT")
    }
}

impl fmt::Display for InitAck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt_named(f, "INIT ACK")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};
    use std::net::Ipv4Addr;

    /// An INIT with an address, a cookie preservative and the ECN parameter is parsed.
    #[test]
    fn from_capture() {
        let bytes = [
            0x01, 0x00, 0x00, 0x28, 0x00, 0x00, 0x0e, 0x50, 0x00, 0x01, 0xa0, 0x00, 0x00, 0x0a, 0xff, 0xff,
            0x2b, 0x2d, 0x7e, 0xb2, 0x00, 0x05, 0x00, 0x08, 0xc0, 0xa8, 0x01, 0x02, 0x00, 0x09, 0x00, 0x08,
            0x00, 0x00, 0x03, 0xe8, 0x80, 0x00, 0x00, 0x04,
        ];
        let Chunk::Init(init) = one(&bytes) else { panic!("INIT") };
        assert_eq!(
            (init.tag, init.window, init.outbound_streams, init.inbound_streams),
            (0xe50, 106_496, 10, 65_535)
        );
        assert_eq!(init.tsn, Tsn(0x2b2d_7eb2));
        let params: Vec<_> = init.params.collect();
        assert_eq!(
            params,
            [
                Ok(Param::Ipv4(Ipv4Addr::new(192, 168, 1, 2))),
                Ok(Param::CookiePreservative(1_000)),
                Ok(Param::EcnCapable)
            ]
        );
        assert_eq!(
            init.to_string(),
            "INIT tag=00000e50 rwnd=106496 os=10 is=65535 tsn=724401842 ip=192.168.1.2 preserve=1000ms ecn"
        );
    }

    #[test]
    fn round_trips_with_parameters_of_odd_length() {
        let mut buffer = Vec::new();
        let init = Init {
            tag: 7,
            window: 65_536,
            outbound_streams: 1,
            inbound_streams: 2,
            tsn: Tsn(9),
            ..Init::default()
        };
        let mut chunk = InitAck(init).open(&mut buffer);
        assert!(Param::StateCookie(&[1, 2, 3]).emit(&mut chunk));
        assert!(Param::SupportedExtensions(&[0xc0, 0x82, 0x0f]).emit(&mut chunk));
        chunk.close();
        assert_eq!(buffer.len() % 4, 0);
        assert_eq!(u16::from_be_bytes([buffer[2], buffer[3]]), 20 + 8 + 7);
        let chunk = one(&buffer);
        let Chunk::InitAck(ack) = chunk else { panic!("INIT ACK") };
        let params: Vec<_> = ack.0.params.map(|param| param.expect("well formed")).collect();
        assert_eq!(params, [Param::StateCookie(&[1, 2, 3]), Param::SupportedExtensions(&[0xc0, 0x82, 0x0f])]);
        round_trip(chunk);
        round_trip(Chunk::Init(init));
    }
}
