//! ASCONF and ASCONF ACK: requests by which a sender adds and removes its own addresses, and the responses.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |  type = 0xC1  |     flags     |            length             |
//! +---------------+---------------+-------------------------------+
//! |                        sequence number                        |
//! +---------------------------------------------------------------+
//! |           address parameter (ASCONF only), requests …         |
//! ```
//!
//! Implements RFC 5061 §4.1.1 and §4.1.2.

use crate::sctp::param::{Param, Params};
use crate::sctp::tlv::{ChunkWriter, Malformed, RawChunk, Tlvs, padded};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};

/// An ASCONF chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Asconf<'a> {
    /// The sequence number, which increases by one with each new ASCONF.
    pub serial: u32,
    /// An address of the sender that the receiver knows. The address is unspecified if the receiver must find the
    /// association by the verification tag alone.
    pub address: IpAddr,
    /// The requests.
    pub params: Params<'a>,
}

/// An ASCONF ACK chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct AsconfAck<'a> {
    /// The sequence number of the ASCONF that this chunk answers.
    pub serial: u32,
    /// The responses to the requests. A request without a response succeeded, unless an earlier request failed.
    pub params: Params<'a>,
}

impl<'a> Asconf<'a> {
    /// Chunk type.
    pub const KIND: u8 = 0xc1;

    /// Parses an ASCONF chunk.
    ///
    /// # Errors
    /// The chunk lacks a sequence number or an address parameter.
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        let (&serial, rest) = raw.value.split_first_chunk::<4>().ok_or(raw.malformed())?;
        let Some(Ok(first)) = Tlvs::new(rest).next() else {
            return Err(raw.malformed());
        };
        let address = match Param::parse(first) {
            // RFC 5061 §4.1.1: a host name is ignored, because it contains no address.
            Ok(Param::HostName(_)) => IpAddr::V4(Ipv4Addr::UNSPECIFIED),
            other => other.ok().and_then(|param| param.address()).ok_or(raw.malformed())?,
        };
        let params = Params::new(rest.get(padded(first.bytes.len())..).unwrap_or(&[]));
        Ok(Self { serial: u32::from_be_bytes(serial), address, params })
    }

    /// Begins the chunk with the requests of `self`. The caller appends more requests ([`Param::emit`]) and closes the
    /// chunk.
    pub fn open<'b>(&self, buffer: &'b mut Vec<u8>) -> ChunkWriter<'b> {
        let mut chunk = ChunkWriter::open(buffer, Self::KIND, 0);
        chunk.bytes(&self.serial.to_be_bytes());
        Param::from(self.address).emit(&mut chunk);
        chunk.bytes(self.params.rest());
        chunk
    }

    /// Appends the whole chunk to `buffer`.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        self.open(buffer).close();
    }
}

impl<'a> AsconfAck<'a> {
    /// Chunk type.
    pub const KIND: u8 = 0x80;

    /// Parses an ASCONF ACK chunk.
    ///
    /// # Errors
    /// The chunk lacks a sequence number.
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        let (&serial, rest) = raw.value.split_first_chunk::<4>().ok_or(raw.malformed())?;
        Ok(Self { serial: u32::from_be_bytes(serial), params: Params::new(rest) })
    }

    /// Begins the chunk with the responses of `self`. The caller appends more responses ([`Param::emit`]) and closes
    /// the chunk.
    pub fn open<'b>(&self, buffer: &'b mut Vec<u8>) -> ChunkWriter<'b> {
        let mut chunk = ChunkWriter::open(buffer, Self::KIND, 0);
        chunk.bytes(&self.serial.to_be_bytes());
        chunk.bytes(self.params.rest());
        chunk
    }

    /// Appends the whole chunk to `buffer`.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        self.open(buffer).close();
    }
}

fn list(f: &mut fmt::Formatter<'_>, params: Params<'_>) -> fmt::Result {
    for param in params {
        match param {
            Ok(param) => write!(f, " {param}")?,
            Err(error) => write!(f, " ({error})")?,
        }
    }
    Ok(())
}

impl fmt::Display for Asconf<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ASCONF serial={} from={}", self.serial, self.address)?;
        list(f, self.params)
    }
}

impl fmt::Display for AsconfAck<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ASCONF ACK serial={}", self.serial)?;
        list(f, self.params)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    /// RFC 5061 §4.2.1: an ASCONF with a request to add an address is parsed and can be written again.
    #[test]
    fn from_capture() {
        let bytes = [
            0xc1, 0, 0, 32, 0, 0, 0, 7, 0, 5, 0, 8, 192, 0, 2, 9, 0xc0, 0x01, 0, 16, 0x01, 0x02, 0x34, 0x74,
            0, 5, 0, 8, 0xc0, 0, 2, 1,
        ];
        let chunk = one(&bytes);
        assert_eq!(chunk.to_string(), "ASCONF serial=7 from=192.0.2.9 add=192.0.2.1");
        let Chunk::Asconf(asconf) = chunk else { panic!("ASCONF") };
        let params: Vec<_> = asconf.params.collect();
        assert_eq!(params, [Ok(Param::AddAddress { id: 0x0102_3474, address: [192, 0, 2, 1].into() })]);
        round_trip(chunk);
        round_trip(one(&[0x80, 0, 0, 8, 0, 0, 0, 7]));
        round_trip(one(&[0x80, 0, 0, 16, 0, 0, 0, 7, 0xc0, 5, 0, 8, 1, 2, 3, 4]));
    }

    /// RFC 5061 §4.1.1: a host name is ignored, and the requests after it are still read.
    #[test]
    fn a_host_name_stands_for_no_address() {
        let mut bytes = vec![0, 0, 0, 7, 0, 11, 0, 7, b'a', b'.', 0, 0];
        bytes.extend_from_slice(&[0xc0, 1, 0, 16, 0, 0, 0, 1, 0, 5, 0, 8, 10, 0, 0, 9]);
        let raw = RawChunk { kind: Asconf::KIND, flags: 0, value: &bytes, bytes: &bytes };
        let read = Asconf::parse(raw).expect("an ASCONF");
        assert!(read.serial == 7 && read.address.is_unspecified(), "{read:?}");
        assert_eq!(read.params.flatten().count(), 1);
    }

    #[test]
    fn one_without_an_address_is_malformed() {
        for value in
            [&[][..], &[0, 0, 0, 1], &[0, 0, 0, 1, 0xc0, 5, 0, 8, 0, 0, 0, 1], &[0, 0, 0, 1, 0, 5, 0, 7]]
        {
            let raw = RawChunk { kind: 0xc1, flags: 0, value, bytes: &[] };
            assert_eq!(Asconf::parse(raw), Err(Malformed::Chunk { kind: 0xc1 }));
        }
        let raw = RawChunk { kind: 0x80, flags: 0, value: &[1, 2, 3], bytes: &[] };
        assert_eq!(AsconfAck::parse(raw), Err(Malformed::Chunk { kind: 0x80 }));
    }
}
