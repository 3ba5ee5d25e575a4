//! Negotiation of streams, addresses and extensions.
//!
//! Reads the parameters of INIT and INIT ACK into plain values, and applies the rules for unrecognized parameters.
//!
//! Implements RFC 9260 §5.1.1 and §5.1.2.

use super::auth::keys::AuthParams;
use super::extensions::{Extensions, OVER_DTLS};
use crate::path::MAX_PATHS;
use anabranch_wire::sctp::tlv::Tlvs;
use anabranch_wire::sctp::{Init, Param, UnrecognizedAction};
use std::net::IpAddr;

/// The contents of an INIT or INIT ACK.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct InitContents {
    pub(crate) tag: u32,
    pub(crate) window: u32,
    pub(crate) outbound: u16,
    pub(crate) inbound: u16,
    pub(crate) tsn: u32,
    /// The addresses that the chunk lists, in order. The source address of the packet is not included.
    pub(crate) addresses: Vec<IpAddr>,
    pub(crate) cookie: Option<Vec<u8>>,
    pub(crate) preserve_ms: u32,
    /// The extensions that the sender supports, after the dependencies between extensions were applied.
    pub(crate) extensions: Extensions,
    /// The extensions that the sender announced, before the dependencies between extensions were applied. The INIT ACK
    /// that answers an INIT announces extensions according to this field.
    pub(crate) announced: Extensions,
    pub(crate) lists_extensions: bool,
    /// The peer's authentication parameters, if this side uses authentication.
    pub(crate) auth: Option<AuthParams>,
    /// The adaptation layer indication.
    pub(crate) adaptation: Option<u32>,
    /// The unrecognized parameters that have to be reported to the peer, each with its header.
    pub(crate) unrecognized: Vec<Vec<u8>>,
}

/// The reason why an INIT or INIT ACK is answered with an ABORT.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum InitRefusal {
    /// A mandatory field has a value that is not allowed (RFC 9260 §3.3.2, §3.3.3).
    InvalidMandatory,
    /// The advertised receive window is smaller than allowed (RFC 9260 §3.3.2, §3.3.3).
    SmallWindow,
    /// The peer lists a host name, which is not supported (RFC 9260 §5.1.2). Holds the complete parameter.
    HostName(Vec<u8>),
    /// The parameters cannot be parsed.
    Malformed,
    /// The parameters violate the rule in this string.
    Violates(&'static str),
}

/// The type of the Zero Checksum Acceptable parameter.
const ZERO_CHECKSUM: u16 = 0x8001;

/// Reads an INIT or INIT ACK from a peer at `from`. `ours` is the set of extensions that this side supports.
pub(crate) fn read(init: &Init<'_>, ours: Extensions, from: IpAddr) -> Result<InitContents, InitRefusal> {
    // RFC 9260 §3.3.2: neither the tag nor a number of streams may be 0. An a_rwnd below 1500 is invalid.
    if init.tag == 0 || init.outbound_streams == 0 || init.inbound_streams == 0 {
        return Err(InitRefusal::InvalidMandatory);
    }
    if init.window < 1500 {
        return Err(InitRefusal::SmallWindow);
    }
    let mut offer = InitContents {
        tag: init.tag,
        window: init.window,
        outbound: init.outbound_streams,
        inbound: init.inbound_streams,
        tsn: init.tsn.0,
        ..InitContents::default()
    };
    let (mut random, mut chunks, mut hmacs) = (None, None, None);
    let mut i_forward = false;
    for raw in Tlvs::new(init.params.rest()) {
        let raw = raw.map_err(|_| InitRefusal::Malformed)?;
        let param = match Param::parse(raw) {
            // RFC 5061 §4.2: parameters that are not allowed in INIT and INIT ACK are skipped, even if malformed.
            _ if (0xc001..=0xc005).contains(&raw.kind) && ours.asconf => continue,
            // If ASCONF is disabled, the parameters 0xC001 to 0xC005 count as unrecognized. Parameter 0xC006, the
            // Adaptation Layer Indication (RFC 5061 §4.2.6), is independent of ASCONF and always recognized.
            _ if (0xc001..=0xc005).contains(&raw.kind) && !ours.asconf => Param::Unknown(raw),
            // RFC 9653 §4: the Zero Checksum Acceptable parameter is unrecognized if this side does not support the
            // extension.
            _ if raw.kind == ZERO_CHECKSUM && !ours.zero_checksum => Param::Unknown(raw),
            other => other.map_err(|_| InitRefusal::Malformed)?,
        };
        match param {
            Param::StateCookie(cookie) => offer.cookie = Some(cookie.to_vec()),
            Param::CookiePreservative(ms) => offer.preserve_ms = ms,
            Param::ZeroChecksum(OVER_DTLS) => offer.extensions.zero_checksum = true,
            Param::EcnCapable => offer.extensions.ecn = true,
            Param::SupportedExtensions(kinds) => {
                offer.lists_extensions = true;
                offer.extensions.record_kinds(kinds);
                i_forward |= Extensions::names_i_forward(kinds);
            }
            // RFC 4895 §3: each of these parameters may occur once. If a parameter occurs several times, the first one
            // counts.
            Param::Random(bytes) if ours.auth => random = random.or(Some(bytes)),
            Param::ChunkList(kinds) if ours.auth => chunks = chunks.or(Some(kinds)),
            Param::HmacAlgos(ids) if ours.auth => hmacs = hmacs.or(Some(ids)),
            Param::Adaptation(code) => offer.adaptation = Some(code),
            Param::ForwardTsnSupported if ours.partial_reliability => {
                offer.extensions.partial_reliability = true
            }
            Param::HostName(_) => return Err(InitRefusal::HostName(raw.bytes.to_vec())),
            Param::Unknown(unknown) => {
                // RFC 9260 §3.2.1: the two high bits of an unrecognized parameter's type determine the action.
                let UnrecognizedAction { stop, report } = UnrecognizedAction::param(unknown.kind);
                const REPORTED: usize = 16;
                if report && offer.unrecognized.len() < REPORTED {
                    offer.unrecognized.push(unknown.bytes.to_vec());
                }
                if stop {
                    break;
                }
            }
            // RFC 3758 §3.3.2: if this side has disabled FORWARD TSN, the parameter is reported to the peer like any
            // unrecognized parameter.
            Param::ForwardTsnSupported if offer.unrecognized.len() < 16 => {
                offer.unrecognized.push(raw.bytes.to_vec());
            }
            param => {
                if let Some(address) = param.address()
                    // RFC 8261 §6.1: peers must not list addresses if SCTP runs over DTLS, so listed addresses are
                    // ignored.
                    && !from.is_unspecified()
                    && is_unicast(address)
                    && in_scope(address, from)
                    && offer.addresses.len() < MAX_PATHS
                    && !offer.addresses.contains(&address)
                {
                    offer.addresses.push(address);
                }
            }
        }
    }
    offer.announced = offer.extensions;
    // RFC 8260 §2.3.1: with I-DATA, only I-FORWARD-TSN can skip TSNs. Without I-FORWARD-TSN there is no partial
    // reliability.
    if ours.interleaving && offer.extensions.interleaving && !i_forward {
        offer.extensions.partial_reliability = false;
    }
    if ours.auth {
        offer.auth = AuthParams::read(random, chunks, hmacs).map_err(InitRefusal::Violates)?;
        // RFC 4895 §6.1: the peer supports AUTH if it sends the authentication parameters. Its list of extensions does
        // not matter.
        offer.extensions.auth = offer.auth.is_some();
    }
    // RFC 5061 §6: a peer that supports ASCONF without AUTH is refused with an ABORT.
    if ours.asconf && offer.extensions.asconf && !offer.extensions.auth {
        return Err(InitRefusal::Violates("RFC 5061 6: ASCONF is supported and AUTH is not"));
    }
    Ok(offer)
}

/// Returns whether `address` means the same host to this side and to a peer at `peer`. A loopback address always means
/// the host that uses it. So packets to a loopback address that a remote peer lists would stay on this host. For the
/// same reason this side does not list its own loopback address to a remote peer (as in Linux, `sctp_in_scope`).
pub(crate) fn in_scope(address: IpAddr, peer: IpAddr) -> bool {
    address.is_loopback() == peer.is_loopback()
}

/// RFC 9260 §8.4: returns whether the address is unicast. Packets from or to other addresses are ignored.
pub(crate) fn is_unicast(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(v4) => !(v4.is_unspecified() || v4.is_multicast() || v4.is_broadcast()),
        IpAddr::V6(v6) => !(v6.is_unspecified() || v6.is_multicast()),
    }
}
