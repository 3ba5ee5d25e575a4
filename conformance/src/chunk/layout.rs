//! The table of the layouts of chunks, parameters and error causes. Encoding, decoding and the check of field names use
//! this table.
//!
//! Implements RFC 9260 §3.3 and the chunks of RFC 3758, 4820, 6525, 8260 and 9653.

/// The kind of a TLV: a chunk, a parameter or an error cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Family {
    Chunk,
    Param,
    Cause,
}

impl Family {
    /// Returns the generic name of chunks, parameters or causes. A script can use this name for an element of any type.
    pub(crate) fn generic(self) -> &'static str {
        match self {
            Self::Chunk => "CHUNK",
            Self::Param => "PARAMETER",
            Self::Cause => "CAUSE",
        }
    }
}

/// The kind of value that a field of a chunk, parameter or cause contains.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum FieldKind {
    U16,
    U32,
    /// Two zero bytes.
    Reserved,
    /// A number in the TSN space of the side that sends the chunk.
    Own,
    /// A number in the TSN space of the side that receives the chunk.
    Peer,
    /// The sender's initiate tag.
    Tag,
    /// The remaining bytes, which a script writes as a length (`len`) and a value (`val`).
    Bytes,
    /// User data. Only its length (`len`) is compared.
    Payload,
    /// The remaining bytes of the element as text.
    Text,
    V4,
    V6,
    /// The remaining bytes of the element as 16-bit numbers.
    U16s,
    /// A 32-bit count, followed by that number of 16-bit numbers.
    Counted,
    /// The remaining bytes of the element as chunk types.
    ChunkTypes,
    /// The remaining bytes of the element as parameters.
    Params,
    /// The remaining bytes of the element as error causes.
    Causes,
    /// One parameter.
    OneParam,
    /// One chunk.
    OneChunk,
    /// The number of gap blocks and the number of duplicate TSNs, then the blocks and the TSNs.
    Gaps,
    /// The numbers of gap blocks, of non-renegable gap blocks and of duplicate TSNs, two zero bytes, then the blocks
    /// and the TSNs.
    NrGaps,
    /// Pairs of stream identifier and stream sequence number.
    Skipped,
    /// Triples of stream identifier, U flag and message identifier.
    ISkipped,
    /// The payload protocol identifier (`ppid`) in a first fragment, and the fragment sequence number (`fsn`) in later
    /// fragments.
    PpidOrFsn,
}

/// The layout of one chunk, parameter or cause.
#[derive(Debug)]
pub(crate) struct Layout {
    pub(crate) family: Family,
    pub(crate) name: &'static str,
    pub(crate) code: u16,
    /// The letters that a script uses for the flags of a chunk. The first letter stands for bit 0.
    pub(crate) flags: &'static str,
    pub(crate) fields: &'static [(&'static str, FieldKind)],
    /// The number of fields at the end of the layout that may be left out.
    pub(crate) optional: usize,
}

const fn chunk(
    name: &'static str,
    code: u16,
    flags: &'static str,
    fields: &'static [(&'static str, FieldKind)],
) -> Layout {
    Layout { family: Family::Chunk, name, code, flags, fields, optional: 0 }
}

const fn param(name: &'static str, code: u16, fields: &'static [(&'static str, FieldKind)]) -> Layout {
    Layout { family: Family::Param, name, code, flags: "", fields, optional: 0 }
}

const fn cause(name: &'static str, code: u16, fields: &'static [(&'static str, FieldKind)]) -> Layout {
    Layout { family: Family::Cause, name, code, flags: "", fields, optional: 0 }
}

use FieldKind::{
    Bytes, Causes, ChunkTypes, Counted, Gaps, ISkipped, NrGaps, OneChunk, OneParam, Own, Params, Payload,
    Peer, PpidOrFsn, Reserved, Skipped, Tag, Text, U16, U16s, U32, V4, V6,
};

const INIT: &[(&str, FieldKind)] =
    &[("tag", Tag), ("a_rwnd", U32), ("os", U16), ("is", U16), ("tsn", Own), ("", Params)];

/// All chunks, parameters and causes that have a name in scripts.
pub(crate) static LAYOUTS: &[Layout] = &[
    chunk("DATA", 0, "EBUI", &[("tsn", Own), ("sid", U16), ("ssn", U16), ("ppid", U32), ("", Payload)]),
    chunk("INIT", 1, "", INIT),
    chunk("INIT_ACK", 2, "", INIT),
    chunk("SACK", 3, "", &[("cum_tsn", Peer), ("a_rwnd", U32), ("gaps", Gaps)]),
    chunk("HEARTBEAT", 4, "", &[("", Params)]),
    chunk("HEARTBEAT_ACK", 5, "", &[("", Params)]),
    chunk("ABORT", 6, "T", &[("", Causes)]),
    chunk("SHUTDOWN", 7, "", &[("cum_tsn", Peer)]),
    chunk("SHUTDOWN_ACK", 8, "", &[]),
    chunk("ERROR", 9, "", &[("", Causes)]),
    chunk("COOKIE_ECHO", 10, "", &[("val", Bytes)]),
    chunk("COOKIE_ACK", 11, "", &[]),
    chunk("ECNE", 12, "", &[("tsn", Peer)]),
    chunk("CWR", 13, "", &[("tsn", Own)]),
    chunk("SHUTDOWN_COMPLETE", 14, "T", &[]),
    chunk("AUTH", 15, "", &[("val", Bytes)]),
    chunk("NR_SACK", 16, "", &[("cum_tsn", Peer), ("a_rwnd", U32), ("gaps", NrGaps)]),
    chunk(
        "I_DATA",
        64,
        "EBUI",
        &[("tsn", Own), ("sid", U16), ("", Reserved), ("mid", U32), ("ppid", PpidOrFsn), ("", Payload)],
    ),
    chunk("ASCONF_ACK", 128, "", &[("val", Bytes)]),
    chunk("RECONFIG", 130, "", &[("", Params)]),
    chunk("PAD", 132, "", &[("val", Bytes)]),
    chunk("FORWARD_TSN", 192, "", &[("cum_tsn", Own), ("ids", Skipped)]),
    chunk("ASCONF", 193, "", &[("val", Bytes)]),
    chunk("I_FORWARD_TSN", 194, "", &[("cum_tsn", Own), ("ids", ISkipped)]),
    param("HEARTBEAT_INFORMATION", 1, &[("val", Bytes)]),
    param("IPV4_ADDRESS", 5, &[("addr", V4)]),
    param("IPV6_ADDRESS", 6, &[("addr", V6)]),
    param("STATE_COOKIE", 7, &[("val", Bytes)]),
    param("UNRECOGNIZED_PARAMETER", 8, &[("params", Params)]),
    param("COOKIE_PRESERVATIVE", 9, &[("incr", U32)]),
    param("HOSTNAME_ADDRESS", 11, &[("addr", Text)]),
    param("SUPPORTED_ADDRESS_TYPES", 12, &[("types", U16s)]),
    param("OUTGOING_SSN_RESET", 13, &[("req_sn", Own), ("resp_sn", Peer), ("last_tsn", Own), ("sids", U16s)]),
    param("INCOMING_SSN_RESET", 14, &[("req_sn", Own), ("sids", U16s)]),
    param("SSN_TSN_RESET", 15, &[("req_sn", Own)]),
    Layout {
        optional: 2,
        ..param(
            "RECONFIG_RESPONSE",
            16,
            &[("resp_sn", Peer), ("result", U32), ("sender_next_tsn", Own), ("receiver_next_tsn", Peer)],
        )
    },
    param("ADD_OUTGOING_STREAMS", 17, &[("req_sn", Own), ("number_of_new_streams", U16), ("", Reserved)]),
    param("ADD_INCOMING_STREAMS", 18, &[("req_sn", Own), ("number_of_new_streams", U16), ("", Reserved)]),
    param("ECN_CAPABLE", 0x8000, &[]),
    param("ZERO_CHECKSUM_ACCEPTABLE", 0x8001, &[("edmid", U32)]),
    param("PAD", 0x8005, &[("val", Bytes)]),
    param("SUPPORTED_EXTENSIONS", 0x8008, &[("types", ChunkTypes)]),
    param("FORWARD_TSN_SUPPORTED", 0xc000, &[]),
    param("ADAPTATION_INDICATION", 0xc006, &[("adaptation_code_point", U32)]),
    cause("INVALID_STREAM_IDENTIFIER", 1, &[("sid", U16), ("", Reserved)]),
    cause("MISSING_MANDATORY_PARAMETER", 2, &[("types", Counted)]),
    cause("STALE_COOKIE_ERROR", 3, &[("staleness", U32)]),
    cause("OUT_OF_RESOURCE", 4, &[]),
    cause("UNRESOLVABLE_ADDRESS", 5, &[("param", OneParam)]),
    cause("UNRECOGNIZED_CHUNK_TYPE", 6, &[("chk", OneChunk)]),
    cause("INVALID_MANDATORY_PARAMETER", 7, &[]),
    cause("UNRECOGNIZED_PARAMETERS", 8, &[("params", Params)]),
    cause("NO_USER_DATA", 9, &[("tsn", Peer)]),
    cause("COOKIE_RECEIVED_WHILE_SHUTDOWN", 10, &[]),
    cause("RESTART_WITH_NEW_ADDRESSES", 11, &[("params", Params)]),
    cause("USER_INITIATED_ABORT", 12, &[("info", Text)]),
    cause("PROTOCOL_VIOLATION", 13, &[("info", Text)]),
];

/// Returns the layout of the chunk, parameter or cause with this name.
pub(crate) fn by_name(family: Family, name: &str) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|layout| layout.family == family && layout.name == name)
}

/// Returns the layout of the chunk, parameter or cause with this type or cause code.
pub(crate) fn by_code(family: Family, code: u16) -> Option<&'static Layout> {
    LAYOUTS.iter().find(|layout| layout.family == family && layout.code == code)
}

/// Returns the type number of a name, for example of a chunk type or an address type.
pub(crate) fn code_of(family: Family, name: &str) -> Option<u16> {
    let alias = match (family, name) {
        (Family::Param, "IPv4") => "IPV4_ADDRESS",
        (Family::Param, "IPv6") => "IPV6_ADDRESS",
        (Family::Param, "HOSTNAME") => "HOSTNAME_ADDRESS",
        _ => name,
    };
    by_name(family, alias).map(|layout| layout.code)
}
