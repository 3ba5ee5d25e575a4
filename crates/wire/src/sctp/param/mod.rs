//! Parameters of INIT, INIT ACK, HEARTBEAT, ASCONF and ASCONF ACK, and an enum of all parameters.
//!
//! Implements RFC 9260 §3.3.2.1 and §3.3.3.1. Each subsection of these sections is implemented in one of the files of
//! this module.

mod address;
mod asconf;
mod auth;
mod cookie_preservative;
mod ecn_capable;
mod forward_tsn;
pub(crate) mod heartbeat_info;
mod host_name;
mod state_cookie;
mod supported_addresses;
mod supported_extensions;
mod unrecognized;
mod zero_checksum;

pub use auth::hmacs;
pub use supported_addresses::AddressTypes;

use super::cause::Causes;
use super::tlv::{ChunkWriter, Malformed, RawTlv, Tlvs, UnrecognizedAction};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An SCTP parameter of any type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Param<'a> {
    /// The information of a HEARTBEAT (type 1).
    HeartbeatInfo(&'a [u8]),
    /// An IPv4 address of the sender (type 5).
    Ipv4(Ipv4Addr),
    /// An IPv6 address of the sender (type 6).
    Ipv6(Ipv6Addr),
    /// The state cookie (type 7), which is opaque to everybody but its creator.
    StateCookie(&'a [u8]),
    /// An INIT parameter that its receiver did not recognize. The whole parameter is quoted (type 8).
    Unrecognized(&'a [u8]),
    /// The requested increase of the cookie lifetime in milliseconds (type 9).
    CookiePreservative(u32),
    /// A host name (type 11). This parameter is deprecated, never sent, and answered with an ABORT.
    HostName(&'a [u8]),
    /// The address types that the sender can use (type 12).
    SupportedAddresses(AddressTypes<'a>),
    /// The sender supports ECN (type 0x8000, RFC 4960 Appendix A).
    EcnCapable,
    /// The chunk types of the extensions that the sender supports (type 0x8008, RFC 5061 §4.2.7).
    SupportedExtensions(&'a [u8]),
    /// The sender supports partial reliability (type 0xC000, RFC 3758 §3.1).
    ForwardTsnSupported,
    /// The sender accepts packets with a zero checksum if another method detects errors in them. The number identifies
    /// that method (type 0x8001, RFC 9653 §4).
    ZeroChecksum(u32),
    /// A random number, from which keys of chunk authentication are derived (type 0x8002, RFC 4895 §3.1).
    Random(&'a [u8]),
    /// The chunk types that the sender accepts only in authenticated form (type 0x8003, RFC 4895 §3.2).
    ChunkList(&'a [u8]),
    /// The HMAC identifiers that the sender accepts, in order of preference, with two bytes each (type 0x8004,
    /// RFC 4895 §3.3).
    HmacAlgos(&'a [u8]),
    /// The sender adds an address. If the address is unspecified, the sender adds the source address of the packet
    /// (type 0xC001, RFC 5061 §4.2.1).
    AddAddress {
        /// The correlation id of the request.
        id: u32,
        /// The address.
        address: IpAddr,
    },
    /// The sender deletes an address. If it is the wildcard address (0.0.0.0 or ::), the sender deletes all addresses
    /// except the source address of the packet (type 0xC002, RFC 5061 §4.2.2).
    DeleteAddress {
        /// The correlation id of the request.
        id: u32,
        /// The address.
        address: IpAddr,
    },
    /// A request failed (type 0xC003, RFC 5061 §4.2.3).
    ErrorCauseIndication {
        /// The correlation id of the request that failed.
        id: u32,
        /// The error causes.
        causes: &'a [u8],
    },
    /// The sender asks the peer to use this address as the primary path (type 0xC004, RFC 5061 §4.2.4).
    SetPrimary {
        /// The correlation id of the request.
        id: u32,
        /// The address.
        address: IpAddr,
    },
    /// The request with this correlation id succeeded (type 0xC005, RFC 5061 §4.2.5).
    SuccessIndication(u32),
    /// The code point of the adaptation layer, which lies above SCTP (type 0xC006, RFC 5061 §4.2.6).
    Adaptation(u32),
    /// A parameter of an unknown type.
    Unknown(RawTlv<'a>),
}

impl<'a> Param<'a> {
    /// Parses a parameter as its type requires.
    ///
    /// # Errors
    /// The parameter's value does not have the form that its type requires.
    pub fn parse(raw: RawTlv<'a>) -> Result<Self, Malformed> {
        Ok(match raw.kind {
            heartbeat_info::KIND => Self::HeartbeatInfo(raw.value),
            address::IPV4 => Self::Ipv4(address::v4(raw)?),
            address::IPV6 => Self::Ipv6(address::v6(raw)?),
            state_cookie::KIND => Self::StateCookie(raw.value),
            unrecognized::KIND => Self::Unrecognized(raw.value),
            cookie_preservative::KIND => Self::CookiePreservative(raw.word()?),
            host_name::KIND => Self::HostName(raw.value),
            supported_addresses::KIND => Self::SupportedAddresses(AddressTypes::parse(raw)?),
            ecn_capable::KIND => Self::EcnCapable,
            supported_extensions::KIND => Self::SupportedExtensions(raw.value),
            forward_tsn::KIND => Self::ForwardTsnSupported,
            zero_checksum::KIND => Self::ZeroChecksum(raw.word()?),
            auth::RANDOM => Self::Random(raw.value),
            auth::CHUNKS => Self::ChunkList(raw.value),
            auth::HMAC_ALGO => Self::HmacAlgos(raw.value),
            asconf::ADD => {
                let (id, address) = asconf::with_address(raw)?;
                Self::AddAddress { id, address }
            }
            asconf::DELETE => {
                let (id, address) = asconf::with_address(raw)?;
                Self::DeleteAddress { id, address }
            }
            asconf::SET_PRIMARY => {
                let (id, address) = asconf::with_address(raw)?;
                Self::SetPrimary { id, address }
            }
            asconf::ERROR => {
                let (id, causes) = asconf::correlated(raw)?;
                Self::ErrorCauseIndication { id, causes }
            }
            asconf::SUCCESS => Self::SuccessIndication(raw.word()?),
            asconf::ADAPTATION => Self::Adaptation(raw.word()?),
            _ => Self::Unknown(raw),
        })
    }

    /// Returns the address, if this is an address parameter.
    #[must_use]
    pub const fn address(&self) -> Option<IpAddr> {
        match *self {
            Self::Ipv4(address) => Some(IpAddr::V4(address)),
            Self::Ipv6(address) => Some(IpAddr::V6(address)),
            _ => None,
        }
    }

    /// Appends the parameter to a chunk. Returns false and writes nothing if the chunk has no room for the parameter.
    pub fn emit(&self, chunk: &mut ChunkWriter<'_>) -> bool {
        match self {
            Self::HeartbeatInfo(info) => chunk.tlv(heartbeat_info::KIND, &[info]),
            Self::Ipv4(address) => chunk.tlv(address::IPV4, &[&address.octets()]),
            Self::Ipv6(address) => chunk.tlv(address::IPV6, &[&address.octets()]),
            Self::StateCookie(cookie) => chunk.tlv(state_cookie::KIND, &[cookie]),
            Self::Unrecognized(param) => chunk.tlv(unrecognized::KIND, &[param]),
            Self::CookiePreservative(millis) => {
                chunk.tlv(cookie_preservative::KIND, &[&millis.to_be_bytes()])
            }
            Self::HostName(name) => chunk.tlv(host_name::KIND, &[name]),
            Self::SupportedAddresses(types) => chunk.tlv(supported_addresses::KIND, &[types.bytes()]),
            Self::EcnCapable => chunk.tlv(ecn_capable::KIND, &[]),
            Self::SupportedExtensions(kinds) => chunk.tlv(supported_extensions::KIND, &[kinds]),
            Self::ForwardTsnSupported => chunk.tlv(forward_tsn::KIND, &[]),
            Self::ZeroChecksum(method) => chunk.tlv(zero_checksum::KIND, &[&method.to_be_bytes()]),
            Self::Random(bytes) => chunk.tlv(auth::RANDOM, &[bytes]),
            Self::ChunkList(kinds) => chunk.tlv(auth::CHUNKS, &[kinds]),
            Self::HmacAlgos(bytes) => chunk.tlv(auth::HMAC_ALGO, &[bytes]),
            Self::AddAddress { id, address } => asconf::emit_address(chunk, asconf::ADD, *id, *address),
            Self::DeleteAddress { id, address } => asconf::emit_address(chunk, asconf::DELETE, *id, *address),
            Self::SetPrimary { id, address } => {
                asconf::emit_address(chunk, asconf::SET_PRIMARY, *id, *address)
            }
            Self::ErrorCauseIndication { id, causes } => {
                chunk.tlv(asconf::ERROR, &[&id.to_be_bytes(), causes])
            }
            Self::SuccessIndication(id) => chunk.tlv(asconf::SUCCESS, &[&id.to_be_bytes()]),
            Self::Adaptation(code) => chunk.tlv(asconf::ADAPTATION, &[&code.to_be_bytes()]),
            Self::Unknown(raw) => chunk.tlv(raw.kind, &[raw.value]),
        }
    }
}

impl From<IpAddr> for Param<'_> {
    fn from(address: IpAddr) -> Self {
        match address {
            IpAddr::V4(address) => Self::Ipv4(address),
            IpAddr::V6(address) => Self::Ipv6(address),
        }
    }
}

impl fmt::Display for Param<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::HeartbeatInfo(info) => write!(f, "info={}", info.len()),
            Self::Ipv4(address) => write!(f, "ip={address}"),
            Self::Ipv6(address) => write!(f, "ip={address}"),
            Self::StateCookie(cookie) => write!(f, "cookie={}", cookie.len()),
            Self::Unrecognized(param) => {
                f.write_str("unrecognized")?;
                match param.first_chunk::<2>() {
                    Some(&kind) => write!(f, "={:#06x}", u16::from_be_bytes(kind)),
                    None => Ok(()),
                }
            }
            Self::CookiePreservative(millis) => write!(f, "preserve={millis}ms"),
            Self::HostName(name) => write!(f, "host={}", name.escape_ascii()),
            Self::SupportedAddresses(types) => write!(f, "families={types}"),
            Self::EcnCapable => f.write_str("ecn"),
            Self::SupportedExtensions(kinds) => {
                f.write_str("extensions=")?;
                for (i, kind) in kinds.iter().enumerate() {
                    write!(f, "{}{kind}", if i == 0 { "" } else { "," })?;
                }
                Ok(())
            }
            Self::ForwardTsnSupported => f.write_str("forward-tsn"),
            Self::ZeroChecksum(method) => write!(f, "zero-checksum={method}"),
            Self::Random(bytes) if bytes.len() == 32 => f.write_str("random"),
            Self::Random(bytes) => write!(f, "random={}", bytes.len()),
            Self::ChunkList(kinds) => auth::fmt_chunks(f, kinds),
            Self::HmacAlgos(bytes) => auth::fmt_hmacs(f, bytes),
            Self::AddAddress { address, .. } => write!(f, "add={address}"),
            Self::DeleteAddress { address, .. } => write!(f, "delete={address}"),
            Self::SetPrimary { address, .. } => write!(f, "primary={address}"),
            Self::ErrorCauseIndication { causes, .. } => {
                f.write_str("failed=")?;
                match Causes::new(causes).next() {
                    Some(Ok(cause)) => cause.fmt(f),
                    Some(Err(error)) => write!(f, "({error})"),
                    None => Ok(()),
                }
            }
            Self::SuccessIndication(_) => f.write_str("done"),
            Self::Adaptation(code) => write!(f, "adaptation={code:#x}"),
            Self::Unknown(raw) => write!(f, "param={:#06x}", raw.kind),
        }
    }
}

/// Iterates over parameters. A framing error ends the iteration; an error inside one parameter does not.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Params<'a> {
    tlvs: Tlvs<'a>,
}

impl<'a> Params<'a> {
    /// Creates an iterator over `bytes`, which begin with the header of a parameter.
    #[must_use]
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { tlvs: Tlvs::new(bytes) }
    }

    /// Returns the bytes that have not been read yet.
    #[must_use]
    pub const fn rest(&self) -> &'a [u8] {
        self.tlvs.rest()
    }
}

impl Default for Params<'_> {
    fn default() -> Self {
        Self::new(&[])
    }
}

impl<'a> Iterator for Params<'a> {
    type Item = Result<Param<'a>, Malformed>;

    fn next(&mut self) -> Option<Self::Item> {
        Some(self.tlvs.next()?.and_then(Param::parse))
    }
}

/// RFC 9260 §3.2.1: returns the action that this unknown parameter type requires.
#[must_use]
pub const fn action(kind: u16) -> UnrecognizedAction {
    UnrecognizedAction::param(kind)
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// Writes `param` into a chunk, parses it, and checks that the result equals `param`.
    pub(crate) fn round_trip(param: Param<'_>) {
        let mut buffer = Vec::new();
        let mut chunk = ChunkWriter::open(&mut buffer, 1, 0);
        assert!(param.emit(&mut chunk));
        assert!(Param::EcnCapable.emit(&mut chunk), "something after it");
        chunk.close();
        let mut params = Params::new(&buffer[4..]);
        assert_eq!(params.next(), Some(Ok(param)));
        assert_eq!(params.next(), Some(Ok(Param::EcnCapable)));
        assert_eq!(params.next(), None);
        assert!(!param.to_string().is_empty());
    }

    #[test]
    fn the_rest_round_trip() {
        for param in [
            Param::HeartbeatInfo(&[1, 2, 3]),
            Param::StateCookie(&[9; 33]),
            Param::Unrecognized(&[0xc0, 1, 0, 4]),
            Param::HostName(b"old.example\0"),
            Param::EcnCapable,
            Param::SupportedExtensions(&[0xc0, 0x82]),
            Param::ForwardTsnSupported,
            Param::Unknown(RawTlv { kind: 0xc00f, value: &[5], bytes: &[0xc0, 0x0f, 0, 5, 5] }),
        ] {
            round_trip(param);
        }
    }

    #[test]
    fn a_bad_parameter_does_not_hide_the_next() {
        let bytes = [0, 5, 0, 7, 1, 2, 3, 0, 0x80, 0, 0, 4];
        let params: Vec<_> = Params::new(&bytes).collect();
        assert_eq!(params, [Err(Malformed::Tlv { kind: 5 }), Ok(Param::EcnCapable)]);
    }
}
