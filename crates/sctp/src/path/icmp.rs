//! Decides how to react to an ICMP message.
//!
//! An ICMP message is used only if the packet that it quotes has the right Verification Tag.
//!
//! Implements RFC 9260 §10 and RFC 6951 §5.5.

use anabranch_base::IcmpKind;

/// The reaction to an accepted ICMP message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Advice {
    /// Ignore the message.
    Ignore,
    /// Packets to this destination must have at most this number of bytes.
    Shrink(u32),
    /// Treat the message as an ABORT, because the peer's host does not speak SCTP.
    Abort,
    /// The destination is unreachable. Only T3-rtx and HEARTBEATs count errors of a path, so this report changes
    /// nothing.
    Error,
}

/// Returns the reaction to an ICMP message of type `kind`, or to an ICMPv6 message if `v6` is true. `encapsulated` says
/// whether SCTP runs over UDP.
pub(crate) fn advice(kind: IcmpKind, v6: bool, encapsulated: bool) -> Advice {
    match (kind, v6) {
        // RFC 9260 §10: the message is used for path MTU discovery.
        (IcmpKind::TooBig(mtu), _) => Advice::Shrink(mtu),
        // RFC 6951 §5.5: no process listens on the UDP port, so the host is treated as a host that does not speak SCTP.
        (IcmpKind::Unreachable(3), false) | (IcmpKind::Unreachable(4), true) if encapsulated => Advice::Abort,
        // RFC 9260 §10: port unreachable is ignored (ICMPv4 code 3, ICMPv6 code 4).
        (IcmpKind::Unreachable(3), false) | (IcmpKind::Unreachable(4), true) => Advice::Ignore,
        // RFC 9260 §10: protocol unreachable is treated as an ABORT. In ICMPv4 it is code 2, in ICMPv6 a parameter
        // problem with code "unrecognized next header".
        (IcmpKind::Unreachable(2), false) | (IcmpKind::UnknownNextHeader, true) => Advice::Abort,
        (IcmpKind::UnknownNextHeader, false) => Advice::Ignore,
        (IcmpKind::Unreachable(_), _) => Advice::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9260 §10: both versions of ICMP can report a host without SCTP.
    #[test]
    fn a_host_without_the_protocol_ends_the_association() {
        for encapsulated in [false, true] {
            assert_eq!(advice(IcmpKind::Unreachable(2), false, encapsulated), Advice::Abort);
            assert_eq!(advice(IcmpKind::UnknownNextHeader, true, encapsulated), Advice::Abort);
            // ICMPv6 code 2 means "beyond scope of source address". It does not say that the host has no SCTP.
            assert_eq!(advice(IcmpKind::Unreachable(2), true, encapsulated), Advice::Error);
        }
        assert_eq!(advice(IcmpKind::Unreachable(4), true, false), Advice::Ignore);
        assert_eq!(advice(IcmpKind::Unreachable(4), true, true), Advice::Abort);
    }
}
