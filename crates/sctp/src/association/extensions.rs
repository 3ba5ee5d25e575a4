//! A set of extensions: those that one side supports, or those that both sides support.
//!
//! [`Extensions`] represents the extensions in a configuration, in INIT and INIT ACK, and in a cookie. It also
//! represents the extensions that an association uses.
//!
//! Implements RFC 5061 §4.2.7 (Supported Extensions) and RFC 9653 §5.1.

use crate::config::Config;
use anabranch_wire::sctp::{ChunkWriter, Param};

/// Extensions to RFC 9260. Each extension is on or off.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub struct Extensions {
    /// Explicit congestion notification (RFC 4960 Appendix A).
    pub ecn: bool,
    /// Partial reliability: FORWARD-TSN (RFC 3758).
    pub partial_reliability: bool,
    /// Interleaving of messages: I-DATA (RFC 8260 §2).
    pub interleaving: bool,
    /// Authenticated chunks: AUTH (RFC 4895).
    pub auth: bool,
    /// Dynamic addresses: ASCONF (RFC 5061). Requires `auth`.
    pub asconf: bool,
    /// Stream re-configuration: RE-CONFIG (RFC 6525).
    pub reconfig: bool,
    /// Whether packets without a checksum are accepted (RFC 9653).
    pub zero_checksum: bool,
    /// Acknowledgements that the receiver never revokes: NR-SACK (draft-natarajan-tsvwg-sctp-nrsack).
    pub nr_sack: bool,
}

/// RFC 9653 §6: the error detection identifier of DTLS, or of a lower layer that protects packets as well as DTLS does.
pub(super) const OVER_DTLS: u32 = 1;

/// Chunk types that identify an extension.
mod kind {
    pub(super) const AUTH: u8 = 0x0f;
    pub(super) const NR_SACK: u8 = 0x10;
    pub(super) const I_DATA: u8 = 0x40;
    pub(super) const ASCONF_ACK: u8 = 0x80;
    pub(super) const RE_CONFIG: u8 = 0x82;
    pub(super) const FORWARD_TSN: u8 = 0xc0;
    pub(super) const ASCONF: u8 = 0xc1;
    pub(super) const I_FORWARD_TSN: u8 = 0xc2;
}

impl Extensions {
    /// Returns the extensions that the configuration enables.
    #[must_use]
    pub const fn of(config: &Config) -> Self {
        Self {
            ecn: config.ecn,
            partial_reliability: config.partial_reliability,
            interleaving: config.interleaving,
            auth: config.auth,
            // RFC 5061 §4.2.7: ASCONF requires AUTH, so it is off without AUTH.
            asconf: config.asconf && config.auth,
            reconfig: config.reconfig,
            zero_checksum: config.zero_checksum,
            nr_sack: config.nr_sack,
        }
    }

    /// Returns the extensions that both sides support.
    #[must_use]
    pub const fn intersect(self, other: Self) -> Self {
        let auth = self.auth && other.auth;
        Self {
            ecn: self.ecn && other.ecn,
            partial_reliability: self.partial_reliability && other.partial_reliability,
            interleaving: self.interleaving && other.interleaving,
            auth,
            // RFC 5061 §4.2.7: a peer that does not support AUTH is treated as not supporting ASCONF.
            asconf: auth && self.asconf && other.asconf,
            reconfig: self.reconfig && other.reconfig,
            zero_checksum: self.zero_checksum && other.zero_checksum,
            nr_sack: self.nr_sack && other.nr_sack,
        }
    }

    /// Records the chunk types of a Supported Extensions parameter.
    pub(super) fn record_kinds(&mut self, kinds: &[u8]) {
        for &chunk in kinds {
            match chunk {
                kind::AUTH => self.auth = true,
                kind::I_DATA => self.interleaving = true,
                kind::NR_SACK => self.nr_sack = true,
                kind::ASCONF => self.asconf = true,
                kind::RE_CONFIG => self.reconfig = true,
                kind::FORWARD_TSN => self.partial_reliability = true,
                _ => {}
            }
        }
    }

    /// Returns whether a Supported Extensions parameter contains I-FORWARD-TSN.
    pub(super) fn names_i_forward(kinds: &[u8]) -> bool {
        kinds.contains(&kind::I_FORWARD_TSN)
    }

    /// Appends the parameters that announce the extensions. The parameters for ECN, FORWARD TSN and zero checksum are
    /// appended only if `peer`, the peer's announcement, contains the same extension. For an INIT the peer has
    /// announced nothing yet, so the caller passes `self`. The Supported Extensions list is appended only if `list` is
    /// true.
    pub(crate) fn announce(self, chunk: &mut ChunkWriter<'_>, peer: Self, list: bool) {
        if self.ecn && peer.ecn {
            Param::EcnCapable.emit(chunk);
        }
        if self.partial_reliability && peer.partial_reliability {
            // RFC 3758 §3.1.
            Param::ForwardTsnSupported.emit(chunk);
        }
        if self.zero_checksum && peer.zero_checksum {
            // RFC 9653 §5.1.
            Param::ZeroChecksum(OVER_DTLS).emit(chunk);
        }
        let mut kinds = Vec::new();
        for (on, list) in [
            (self.auth, &[kind::AUTH][..]),
            (self.asconf, &[kind::ASCONF, kind::ASCONF_ACK]),
            (self.reconfig, &[kind::RE_CONFIG]),
            (self.partial_reliability, &[kind::FORWARD_TSN]),
            (self.interleaving, &[kind::I_DATA]),
            (self.interleaving && self.partial_reliability, &[kind::I_FORWARD_TSN]),
            (self.nr_sack, &[kind::NR_SACK]),
        ] {
            if on {
                kinds.extend_from_slice(list);
            }
        }
        if list && !kinds.is_empty() {
            Param::SupportedExtensions(&kinds).emit(chunk);
        }
    }

    /// Encodes the extensions as one byte for the cookie.
    pub(crate) const fn bits(self) -> u8 {
        (self.ecn as u8)
            | (self.partial_reliability as u8) << 1
            | (self.interleaving as u8) << 2
            | (self.auth as u8) << 3
            | (self.asconf as u8) << 4
            | (self.reconfig as u8) << 5
            | (self.zero_checksum as u8) << 6
            | (self.nr_sack as u8) << 7
    }

    /// Decodes the byte from the cookie.
    pub(crate) const fn from_bits(bits: u8) -> Self {
        Self {
            ecn: bits & 1 != 0,
            partial_reliability: bits & 2 != 0,
            interleaving: bits & 4 != 0,
            auth: bits & 8 != 0,
            asconf: bits & 16 != 0,
            reconfig: bits & 32 != 0,
            zero_checksum: bits & 64 != 0,
            nr_sack: bits & 128 != 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_hold_every_extension() {
        for bits in 0..=255 {
            assert_eq!(Extensions::from_bits(bits).bits(), bits);
        }
    }

    /// RFC 5061 §4.2.7: ASCONF is used only if both ends support AUTH.
    #[test]
    fn dynamic_addresses_need_authentication_at_both_ends() {
        let full = Extensions::from_bits(255);
        assert_eq!(full.intersect(full), full);
        assert!(!full.intersect(Extensions { auth: false, ..full }).asconf);
    }
}
