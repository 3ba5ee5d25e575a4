//! RE-CONFIG: resets streams or adds streams.
//!
//! ```text
//! +---------------+---------------+-------------------------------+
//! |  type = 130   |     flags     |            length             |
//! +---------------+---------------+-------------------------------+
//! |             one or two requests or responses …                |
//! ```
//!
//! The SCTP engine decides which parameters may be combined.
//!
//! Implements RFC 6525 §3 and §4.

use crate::sctp::Tsn;
use crate::sctp::tlv::{ChunkWriter, Malformed, RawChunk, RawTlv, Tlvs};
use std::fmt;

/// A RE-CONFIG chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReConfig<'a> {
    params: Tlvs<'a>,
}

/// A list of stream numbers. An empty list means all streams.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct StreamList<'a> {
    bytes: &'a [u8],
}

/// A parameter of a RE-CONFIG chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ReConfigParam<'a> {
    /// The sender resets its outgoing streams (type 13, RFC 6525 §4.1).
    ResetOutgoing {
        /// The sequence number of the request.
        request: u32,
        /// The sequence number of a request by the receiver of this parameter: the request that asked for this reset
        /// (type 14). Without such a request, it is the receiver's last request that the sender has answered.
        response: u32,
        /// The last TSN that the sender has assigned to a DATA chunk.
        last: Tsn,
        /// The streams to reset.
        streams: StreamList<'a>,
    },
    /// The sender asks the receiver to reset the receiver's outgoing streams (type 14, RFC 6525 §4.2).
    ResetIncoming {
        /// The sequence number of the request.
        request: u32,
        /// The streams to reset.
        streams: StreamList<'a>,
    },
    /// The sender asks both sides to reset all SSNs and TSNs (type 15, RFC 6525 §4.3).
    ResetTsn {
        /// The sequence number of the request.
        request: u32,
    },
    /// The result of a request (type 16, RFC 6525 §4.4).
    Response {
        /// The sequence number of the request that this response answers.
        response: u32,
        /// The result code, 0 to 6.
        result: u32,
        /// After a TSN reset: the next TSN of the endpoint that sends this response, and the next TSN of the endpoint
        /// that receives it.
        next: Option<(Tsn, Tsn)>,
    },
    /// The sender asks for more outgoing streams (type 17, RFC 6525 §4.5).
    AddOutgoing {
        /// The sequence number of the request.
        request: u32,
        /// The number of additional streams.
        streams: u16,
    },
    /// The sender asks the receiver to add streams from the receiver to the sender (type 18, RFC 6525 §4.6).
    AddIncoming {
        /// The sequence number of the request.
        request: u32,
        /// The number of additional streams.
        streams: u16,
    },
}

const RESET_OUTGOING: u16 = 13;
const RESET_INCOMING: u16 = 14;
const RESET_TSN: u16 = 15;
const RESPONSE: u16 = 16;
const ADD_OUTGOING: u16 = 17;
const ADD_INCOMING: u16 = 18;

impl<'a> StreamList<'a> {
    /// Creates a list from `bytes`, with two bytes for each stream number. An odd byte at the end is ignored.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { bytes }
    }

    /// Returns whether the list is empty and therefore stands for all streams.
    #[must_use]
    pub const fn is_all(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Returns the stream numbers in the order of the list.
    pub fn iter(&self) -> impl Iterator<Item = u16> + use<'a> {
        self.bytes.as_chunks::<2>().0.iter().map(|&pair| u16::from_be_bytes(pair))
    }
}

impl<'a> ReConfigParam<'a> {
    /// Parses a parameter as its type requires.
    ///
    /// # Errors
    /// The value does not have the form that its type requires, or the type is not a parameter of RE-CONFIG.
    pub fn parse(raw: RawTlv<'a>) -> Result<Self, Malformed> {
        let word = |at: usize| {
            let bytes = raw.value.get(at..at + 4).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok());
            bytes.map(u32::from_be_bytes).ok_or_else(|| raw.malformed())
        };
        let length = raw.value.len();
        let sized = |size: usize| if length == size { Ok(()) } else { Err(raw.malformed()) };
        let request = word(0)?;
        let list = |from: usize| match raw.value.get(from..) {
            Some(bytes) if bytes.len().is_multiple_of(2) => Ok(StreamList::new(bytes)),
            _ => Err(raw.malformed()),
        };
        Ok(match raw.kind {
            RESET_OUTGOING => {
                let (response, last) = (word(4)?, Tsn(word(8)?));
                Self::ResetOutgoing { request, response, last, streams: list(12)? }
            }
            RESET_INCOMING => Self::ResetIncoming { request, streams: list(4)? },
            RESET_TSN => {
                sized(4)?;
                Self::ResetTsn { request }
            }
            RESPONSE => {
                let result = word(4)?;
                // RFC 6525 §4.4: a response contains the next TSNs of both sides, or neither of the two.
                let next = if length == 8 {
                    None
                } else {
                    sized(16)?;
                    Some((Tsn(word(8)?), Tsn(word(12)?)))
                };
                Self::Response { response: request, result, next }
            }
            ADD_OUTGOING | ADD_INCOMING => {
                sized(8)?;
                let streams = (word(4)? >> 16) as u16;
                if raw.kind == ADD_OUTGOING {
                    Self::AddOutgoing { request, streams }
                } else {
                    Self::AddIncoming { request, streams }
                }
            }
            _ => return Err(raw.malformed()),
        })
    }

    /// Appends the parameter to a chunk. Returns false and writes nothing if the chunk has no room for the parameter.
    pub fn emit(&self, chunk: &mut ChunkWriter<'_>) -> bool {
        let word = u32::to_be_bytes;
        match *self {
            Self::ResetOutgoing { request, response, last, streams } => {
                chunk.tlv(RESET_OUTGOING, &[&word(request), &word(response), &word(last.0), streams.bytes])
            }
            Self::ResetIncoming { request, streams } => {
                chunk.tlv(RESET_INCOMING, &[&word(request), streams.bytes])
            }
            Self::ResetTsn { request } => chunk.tlv(RESET_TSN, &[&word(request)]),
            Self::Response { response, result, next: None } => {
                chunk.tlv(RESPONSE, &[&word(response), &word(result)])
            }
            Self::Response { response, result, next: Some((sender, receiver)) } => {
                chunk.tlv(RESPONSE, &[&word(response), &word(result), &word(sender.0), &word(receiver.0)])
            }
            Self::AddOutgoing { request, streams } => {
                chunk.tlv(ADD_OUTGOING, &[&word(request), &streams.to_be_bytes(), &[0, 0]])
            }
            Self::AddIncoming { request, streams } => {
                chunk.tlv(ADD_INCOMING, &[&word(request), &streams.to_be_bytes(), &[0, 0]])
            }
        }
    }

    /// Writes the parameter as text. `mine` converts TSNs and request numbers of the chunk's sender to the numbers to
    /// show, and `theirs` converts those of the chunk's receiver.
    pub(crate) fn fmt_with(
        &self,
        f: &mut dyn fmt::Write,
        mine: impl Fn(u32) -> i64,
        theirs: impl Fn(u32) -> i64,
    ) -> fmt::Result {
        match *self {
            Self::ResetOutgoing { request, response, last, streams } => write!(
                f,
                "reset-out(#{} re=#{} last={} {streams})",
                mine(request),
                theirs(response),
                mine(last.0)
            ),
            Self::ResetIncoming { request, streams } => {
                write!(f, "reset-in(#{} {streams})", mine(request))
            }
            Self::ResetTsn { request } => write!(f, "reset-tsn(#{})", mine(request)),
            Self::Response { response, result, next } => {
                write!(f, "response(#{} {})", theirs(response), result_name(result))?;
                match next {
                    Some((sender, receiver)) => {
                        write!(f, " next={}/{}", mine(sender.0), theirs(receiver.0))
                    }
                    None => Ok(()),
                }
            }
            Self::AddOutgoing { request, streams } => write!(f, "add-out(#{} +{streams})", mine(request)),
            Self::AddIncoming { request, streams } => write!(f, "add-in(#{} +{streams})", mine(request)),
        }
    }
}

/// RFC 6525 §4.4, Table 3: returns the name of a result code.
fn result_name(result: u32) -> &'static str {
    match result {
        0 => "nothing-to-do",
        1 => "performed",
        2 => "denied",
        3 => "wrong-ssn",
        4 => "already-in-progress",
        5 => "bad-sequence-number",
        6 => "in-progress",
        _ => "unknown",
    }
}

impl<'a> ReConfig<'a> {
    /// Chunk type.
    pub const KIND: u8 = 130;

    /// Parses a RE-CONFIG chunk.
    ///
    /// # Errors
    /// The chunk has no parameter, or has a parameter with an invalid form.
    pub fn parse(raw: RawChunk<'a>) -> Result<Self, Malformed> {
        let params = Tlvs::new(raw.value);
        if raw.value.is_empty() {
            return Err(raw.malformed());
        }
        for tlv in params {
            ReConfigParam::parse(tlv?)?;
        }
        Ok(Self { params })
    }

    /// Returns the parameters of the chunk in order.
    pub fn params(&self) -> impl Iterator<Item = ReConfigParam<'a>> + use<'a> {
        // Errors cannot occur, because the parameters were checked when the chunk was parsed.
        self.params.filter_map(|raw| ReConfigParam::parse(raw.ok()?).ok())
    }

    /// Appends the chunk.
    pub fn emit(&self, buffer: &mut Vec<u8>) {
        super::bare(buffer, Self::KIND, 0, self.params.rest());
    }

    /// Appends a chunk with these parameters.
    pub fn write(buffer: &mut Vec<u8>, params: &[ReConfigParam<'_>]) {
        let mut chunk = ChunkWriter::open(buffer, Self::KIND, 0);
        for param in params {
            param.emit(&mut chunk);
        }
        chunk.close();
    }

    /// Writes the parameters as text, with a space before each. `mine` converts sequence numbers of the chunk's sender
    /// to the displayed numbers. `theirs` converts sequence numbers of the chunk's receiver.
    pub(crate) fn fmt_with(
        &self,
        f: &mut dyn fmt::Write,
        mine: impl Fn(u32) -> i64,
        theirs: impl Fn(u32) -> i64,
    ) -> fmt::Result {
        for param in self.params() {
            f.write_char(' ')?;
            param.fmt_with(f, &mine, &theirs)?;
        }
        Ok(())
    }
}

impl fmt::Display for StreamList<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const SHOWN: usize = 8;
        if self.is_all() {
            return f.write_str("all");
        }
        f.write_str("sid=")?;
        for (i, stream) in self.iter().take(SHOWN).enumerate() {
            write!(f, "{}{stream}", if i == 0 { "" } else { "," })?;
        }
        if self.iter().count() > SHOWN { write!(f, ",… {} in all", self.iter().count()) } else { Ok(()) }
    }
}

impl fmt::Display for ReConfig<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RE-CONFIG")?;
        self.fmt_with(f, i64::from, i64::from)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sctp::Chunk;
    use crate::sctp::chunk::tests::{one, round_trip};

    fn written(params: &[ReConfigParam<'_>]) -> Vec<u8> {
        let mut bytes = Vec::new();
        ReConfig::write(&mut bytes, params);
        bytes
    }

    /// RFC 6525 §4.1: a request to reset two streams, encoded by hand, is parsed. Writing the result gives the same
    /// bytes.
    #[test]
    fn from_capture() {
        let bytes = [130, 0, 0, 24, 0, 13, 0, 20, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 9, 0, 1, 0, 7];
        let Chunk::ReConfig(chunk) = one(&bytes) else { panic!("RE-CONFIG") };
        assert_eq!(chunk.to_string(), "RE-CONFIG reset-out(#1 re=#2 last=9 sid=1,7)");
        round_trip(Chunk::ReConfig(chunk));
    }

    /// RFC 6525 §4: writing a parameter and parsing the bytes gives the same parameter.
    #[test]
    fn every_parameter_comes_back() {
        let streams = StreamList::new(&[0, 3, 1, 0, 0, 9]);
        let all = [
            ReConfigParam::ResetOutgoing { request: 1, response: 2, last: Tsn(3), streams },
            ReConfigParam::ResetIncoming { request: 7, streams },
            ReConfigParam::ResetIncoming { request: 8, streams: StreamList::default() },
            ReConfigParam::ResetTsn { request: u32::MAX },
            ReConfigParam::Response { response: 5, result: 6, next: None },
            ReConfigParam::Response { response: 5, result: 1, next: Some((Tsn(1), Tsn(2))) },
            ReConfigParam::AddOutgoing { request: 9, streams: 65_535 },
            ReConfigParam::AddIncoming { request: 9, streams: 1 },
        ];
        for pair in all.windows(2) {
            let bytes = written(pair);
            let Chunk::ReConfig(chunk) = one(&bytes) else { panic!("RE-CONFIG") };
            assert_eq!(chunk.params().collect::<Vec<_>>(), pair);
            round_trip(Chunk::ReConfig(chunk));
        }
    }

    #[test]
    fn wrong_sizes_and_unknown_parameters_are_malformed() {
        for value in [
            &[][..],
            &[0, 13, 0, 4],
            &[0, 13, 0, 15, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0],
            &[0, 13, 0, 17, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 9, 1],
            &[0, 15, 0, 12, 0, 0, 0, 1, 0, 0, 0, 2],
            &[0, 16, 0, 16, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 9],
            &[0, 17, 0, 10, 0, 0, 0, 1, 0, 0],
            &[0, 13, 0, 99, 0, 0, 0, 1],
            &[0, 7, 0, 8, 0, 0, 0, 1],
        ] {
            let raw = RawChunk { kind: ReConfig::KIND, flags: 0, value, bytes: value };
            assert!(ReConfig::parse(raw).is_err(), "{value:?}");
        }
    }
}
