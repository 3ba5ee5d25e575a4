//! Error causes: the reasons for an ABORT or ERROR chunk.
//!
//! ```text
//! +-------------------------------+-------------------------------+
//! |          cause code           |         cause length          |
//! +-------------------------------+-------------------------------+
//! |                   cause-specific information …                |
//! ```
//!
//! Implements RFC 9260 §3.3.10.1 to §3.3.10.13 (thirteen causes), RFC 5061 §4.3 and RFC 4895 §4.1.

use super::Tsn;
use super::tlv::{ChunkWriter, Malformed, RawTlv, Tlvs};
use std::fmt;

/// An error cause. The documentation of each variant begins with the cause code.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause<'a> {
    /// Cause 1: a DATA chunk was sent on a stream that does not exist.
    InvalidStream(u16),
    /// Cause 2: an INIT or INIT ACK lacks mandatory parameters.
    MissingParams(MissingParams<'a>),
    /// Cause 3: the cookie was valid but has expired. The field is the time since the cookie expired, in microseconds,
    /// or 0 if that time is unknown.
    StaleCookie(u32),
    /// Cause 4: the endpoint has no resources for another association.
    OutOfResource,
    /// Cause 5: an address cannot be used. The whole address parameter is quoted.
    UnresolvableAddress(&'a [u8]),
    /// Cause 6: a chunk is of an unknown type. The whole chunk is quoted.
    UnrecognizedChunk(&'a [u8]),
    /// Cause 7: a mandatory parameter has an invalid value.
    InvalidMandatoryParam,
    /// Cause 8: parameters of an INIT ACK are of unknown types. Each of these parameters is quoted completely.
    UnrecognizedParams(&'a [u8]),
    /// Cause 9: the DATA chunk with this TSN has no payload.
    NoUserData(Tsn),
    /// Cause 10: a COOKIE ECHO arrived while the association was shutting down.
    CookieWhileShuttingDown,
    /// Cause 11: a restarting peer listed addresses that its old association did not have. The parameters of these
    /// addresses are quoted completely.
    RestartWithNewAddresses(&'a [u8]),
    /// Cause 12: the application aborted the association, for this reason.
    UserAbort(&'a [u8]),
    /// Cause 13: the peer violated the protocol, and no more specific cause applies.
    ProtocolViolation(&'a [u8]),
    /// Cause 0xA0 (RFC 5061 §4.3.1): a request would delete the last address. The whole request is quoted.
    DeleteLastAddress(&'a [u8]),
    /// Cause 0xA1 (RFC 5061 §4.3.2): a request exceeds the available resources. The whole request is quoted.
    NoRoomForAddress(&'a [u8]),
    /// Cause 0xA2 (RFC 5061 §4.3.3): a request would delete the source address of its packet. The whole request is
    /// quoted.
    DeleteSourceAddress(&'a [u8]),
    /// Cause 0xA3 (RFC 5061 §4.3.4): an ASCONF ACK answers an ASCONF that was never sent.
    IllegalAsconfAck,
    /// Cause 0xA4 (RFC 5061 §4.3.5): the receiver of this cause was not authorized to make its request. The whole
    /// request is quoted.
    NoAuthorization(&'a [u8]),
    /// Cause 0x0105 (RFC 4895 §4.1): the HMAC identifier is not supported.
    UnsupportedHmac(u16),
    /// A cause with an unknown code.
    Unknown(RawTlv<'a>),
}

/// The types of the parameters that are missing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MissingParams<'a> {
    bytes: &'a [u8],
}

impl<'a> MissingParams<'a> {
    /// The list with one entry, which reports that an INIT ACK lacks its state cookie.
    pub const STATE_COOKIE: Self = Self { bytes: &[0, 7] };

    /// Returns the parameter types.
    pub fn kinds(&self) -> impl Iterator<Item = u16> + use<'a> {
        self.bytes.as_chunks::<2>().0.iter().map(|&pair| u16::from_be_bytes(pair))
    }

    fn parse(raw: RawTlv<'a>) -> Result<Self, Malformed> {
        let (&count, bytes) = raw.value.split_first_chunk::<4>().ok_or(raw.malformed())?;
        // The peer may send any `count`. In 64 bits, the length of `count` two-byte types cannot overflow.
        if u64::from(u32::from_be_bytes(count)) * 2 != bytes.len() as u64 {
            return Err(raw.malformed());
        }
        Ok(Self { bytes })
    }
}

impl<'a> Cause<'a> {
    /// Parses an error cause as its code requires.
    ///
    /// # Errors
    /// The cause's value does not have the form that its code requires.
    pub fn parse(raw: RawTlv<'a>) -> Result<Self, Malformed> {
        Ok(match raw.kind {
            1 => Self::InvalidStream((raw.word()? >> 16) as u16),
            2 => Self::MissingParams(MissingParams::parse(raw)?),
            3 => Self::StaleCookie(raw.word()?),
            4 => Self::OutOfResource,
            5 => Self::UnresolvableAddress(raw.value),
            6 => Self::UnrecognizedChunk(raw.value),
            7 => Self::InvalidMandatoryParam,
            8 => Self::UnrecognizedParams(raw.value),
            9 => Self::NoUserData(Tsn(raw.word()?)),
            10 => Self::CookieWhileShuttingDown,
            11 => Self::RestartWithNewAddresses(raw.value),
            12 => Self::UserAbort(raw.value),
            13 => Self::ProtocolViolation(raw.value),
            0xa0 => Self::DeleteLastAddress(raw.value),
            0xa1 => Self::NoRoomForAddress(raw.value),
            0xa2 => Self::DeleteSourceAddress(raw.value),
            0xa3 => Self::IllegalAsconfAck,
            0xa4 => Self::NoAuthorization(raw.value),
            0x105 => {
                let hmac = raw.value.first_chunk::<2>().ok_or(raw.malformed())?;
                Self::UnsupportedHmac(u16::from_be_bytes(*hmac))
            }
            _ => Self::Unknown(raw),
        })
    }

    /// Returns the cause code.
    #[must_use]
    pub const fn code(&self) -> u16 {
        match self {
            Self::InvalidStream(_) => 1,
            Self::MissingParams(_) => 2,
            Self::StaleCookie(_) => 3,
            Self::OutOfResource => 4,
            Self::UnresolvableAddress(_) => 5,
            Self::UnrecognizedChunk(_) => 6,
            Self::InvalidMandatoryParam => 7,
            Self::UnrecognizedParams(_) => 8,
            Self::NoUserData(_) => 9,
            Self::CookieWhileShuttingDown => 10,
            Self::RestartWithNewAddresses(_) => 11,
            Self::UserAbort(_) => 12,
            Self::ProtocolViolation(_) => 13,
            Self::DeleteLastAddress(_) => 0xa0,
            Self::NoRoomForAddress(_) => 0xa1,
            Self::DeleteSourceAddress(_) => 0xa2,
            Self::IllegalAsconfAck => 0xa3,
            Self::NoAuthorization(_) => 0xa4,
            Self::UnsupportedHmac(_) => 0x105,
            Self::Unknown(raw) => raw.kind,
        }
    }

    /// Appends the cause to an ABORT or ERROR chunk. Returns false and writes nothing if the chunk has no room for the
    /// cause.
    pub fn emit(&self, chunk: &mut ChunkWriter<'_>) -> bool {
        let code = self.code();
        match self {
            Self::InvalidStream(stream) => chunk.tlv(code, &[&stream.to_be_bytes(), &[0, 0]]),
            Self::MissingParams(params) => {
                let count = (params.bytes.len() / 2) as u32;
                chunk.tlv(code, &[&count.to_be_bytes(), params.bytes])
            }
            Self::StaleCookie(micros) => chunk.tlv(code, &[&micros.to_be_bytes()]),
            Self::OutOfResource
            | Self::InvalidMandatoryParam
            | Self::CookieWhileShuttingDown
            | Self::IllegalAsconfAck => chunk.tlv(code, &[]),
            Self::UnsupportedHmac(hmac) => chunk.tlv(code, &[&hmac.to_be_bytes()]),
            Self::NoUserData(tsn) => chunk.tlv(code, &[&tsn.0.to_be_bytes()]),
            Self::UnresolvableAddress(bytes)
            | Self::UnrecognizedChunk(bytes)
            | Self::UnrecognizedParams(bytes)
            | Self::RestartWithNewAddresses(bytes)
            | Self::UserAbort(bytes)
            | Self::DeleteLastAddress(bytes)
            | Self::NoRoomForAddress(bytes)
            | Self::DeleteSourceAddress(bytes)
            | Self::NoAuthorization(bytes)
            | Self::ProtocolViolation(bytes) => chunk.tlv(code, &[bytes]),
            Self::Unknown(raw) => chunk.tlv(code, &[raw.value]),
        }
    }
}

impl fmt::Display for Cause<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InvalidStream(stream) => write!(f, "invalid-stream({stream})"),
            Self::MissingParams(params) => {
                f.write_str("missing-param(")?;
                for (i, kind) in params.kinds().enumerate() {
                    write!(f, "{}{kind}", if i == 0 { "" } else { "," })?;
                }
                f.write_str(")")
            }
            Self::StaleCookie(micros) => write!(f, "stale-cookie({micros}us)"),
            Self::OutOfResource => f.write_str("out-of-resource"),
            Self::UnresolvableAddress(_) => f.write_str("unresolvable-address"),
            Self::UnrecognizedChunk(chunk) => {
                f.write_str("unrecognized-chunk")?;
                chunk.first().map_or(Ok(()), |kind| write!(f, "({kind})"))
            }
            Self::InvalidMandatoryParam => f.write_str("invalid-mandatory-param"),
            Self::UnrecognizedParams(params) => {
                f.write_str("unrecognized-params")?;
                for (i, tlv) in Tlvs::new(params).flatten().enumerate() {
                    write!(f, "{}{:#06x}", if i == 0 { "=" } else { "," }, tlv.kind)?;
                }
                Ok(())
            }
            Self::NoUserData(tsn) => write!(f, "no-user-data({tsn})"),
            Self::CookieWhileShuttingDown => f.write_str("cookie-while-shutting-down"),
            Self::RestartWithNewAddresses(_) => f.write_str("restart-with-new-addresses"),
            Self::UserAbort(reason) => text(f, "user-abort", reason),
            Self::ProtocolViolation(what) => text(f, "protocol-violation", what),
            Self::DeleteLastAddress(_) => f.write_str("delete-last-address"),
            Self::NoRoomForAddress(_) => f.write_str("no-room-for-address"),
            Self::DeleteSourceAddress(_) => f.write_str("delete-source-address"),
            Self::IllegalAsconfAck => f.write_str("illegal-asconf-ack"),
            Self::NoAuthorization(_) => f.write_str("no-authorization"),
            Self::UnsupportedHmac(hmac) => {
                f.write_str("unsupported-hmac(")?;
                hmac_name(f, *hmac)?;
                f.write_str(")")
            }
            Self::Unknown(raw) => write!(f, "cause({})", raw.kind),
        }
    }
}

fn text(f: &mut fmt::Formatter<'_>, name: &str, bytes: &[u8]) -> fmt::Result {
    f.write_str(name)?;
    if bytes.is_empty() { Ok(()) } else { write!(f, "({})", bytes.escape_ascii()) }
}

/// Writes the name of the HMAC algorithm with the identifier `hmac`, or the number if the identifier is unknown.
pub(crate) fn hmac_name(f: &mut impl fmt::Write, hmac: u16) -> fmt::Result {
    match hmac {
        1 => f.write_str("sha1"),
        3 => f.write_str("sha256"),
        other => write!(f, "{other}"),
    }
}

/// Iterates over error causes. A framing error ends the iteration; an error inside one cause does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Causes<'a> {
    tlvs: Tlvs<'a>,
}

impl<'a> Causes<'a> {
    /// Creates an iterator over `bytes`, which begin with the header of a cause.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { tlvs: Tlvs::new(bytes) }
    }

    /// Returns the bytes that have not been read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.tlvs.rest()
    }

    /// Writes all causes, with a space before each.
    pub(crate) fn fmt_list(&self, f: &mut impl fmt::Write) -> fmt::Result {
        for cause in *self {
            match cause {
                Ok(cause) => write!(f, " {cause}")?,
                Err(error) => write!(f, " ({error})")?,
            }
        }
        Ok(())
    }
}

impl Default for Causes<'_> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl<'a> Iterator for Causes<'a> {
    type Item = Result<Cause<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.tlvs.next()?.and_then(Cause::parse))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Error;

    #[test]
    fn every_cause_round_trips() {
        let unknown = RawTlv { kind: 0xb0, value: &[1], bytes: &[0, 0xb0, 0, 5, 1] };
        let causes = [
            Cause::InvalidStream(9),
            Cause::MissingParams(MissingParams::STATE_COOKIE),
            Cause::StaleCookie(1_500_000),
            Cause::OutOfResource,
            Cause::UnresolvableAddress(&[0, 5, 0, 8, 10, 0, 0, 1]),
            Cause::UnrecognizedChunk(&[0xc5, 0, 0, 5, 1]),
            Cause::InvalidMandatoryParam,
            Cause::UnrecognizedParams(&[0xc0, 5, 0, 4]),
            Cause::NoUserData(Tsn(77)),
            Cause::CookieWhileShuttingDown,
            Cause::RestartWithNewAddresses(&[0, 5, 0, 8, 10, 0, 0, 2]),
            Cause::UserAbort(b"bye"),
            Cause::ProtocolViolation(b""),
            Cause::Unknown(unknown),
            Cause::DeleteLastAddress(&[0xc0, 2, 0, 4]),
            Cause::NoRoomForAddress(&[0xc0, 1, 0, 4]),
            Cause::DeleteSourceAddress(&[0xc0, 2, 0, 4]),
            Cause::IllegalAsconfAck,
            Cause::NoAuthorization(&[0xc0, 1, 0, 4]),
            Cause::UnsupportedHmac(7),
        ];
        let mut buffer = Vec::new();
        let mut chunk = Error::default().open(&mut buffer);
        for (i, cause) in causes.iter().enumerate() {
            assert!(cause.emit(&mut chunk));
            const LATER: [u16; 7] = [0xb0, 0xa0, 0xa1, 0xa2, 0xa3, 0xa4, 0x105];
            assert_eq!(cause.code(), if i < 13 { i as u16 + 1 } else { LATER[i - 13] });
            assert!(!cause.to_string().is_empty());
        }
        chunk.close();
        let back: Vec<_> = Causes::new(&buffer[4..]).map(|cause| cause.expect("well formed")).collect();
        assert_eq!(back, causes);
    }

    /// RFC 9260 §3.3.10.2: the error cause for a missing state cookie is parsed.
    #[test]
    fn from_capture() {
        let bytes = [0, 2, 0, 10, 0, 0, 0, 1, 0, 7];
        let causes: Vec<_> = Causes::new(&bytes).collect();
        assert_eq!(causes, [Ok(Cause::MissingParams(MissingParams::STATE_COOKIE))]);
    }

    #[test]
    fn a_count_that_lies_is_malformed() {
        let bytes = [0, 2, 0, 10, 0x80, 0, 0, 1, 0, 7];
        let causes: Vec<_> = Causes::new(&bytes).collect();
        assert_eq!(causes, [Err(Malformed::Tlv { kind: 2 })]);
    }
}
