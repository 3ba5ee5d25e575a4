//! What an ICMP message may change.
//!
//! A message is used only if the packet that it quotes carries the right Verification Tag.
//!
//! Home of RFC 9260 §10 and of RFC 6951 §5.5.

use anabranch_base::IcmpKind;

/// What to do about an accepted ICMP message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Advice {
    /// Nothing.
    Ignore,
    /// Limit packets to this destination to this size in bytes.
    Shrink(u32),
    /// The peer's host does not speak SCTP: treat it as an ABORT.
    Abort,
    /// The destination is unreachable: count an error of the path.
    Error,
}

/// Returns what to do about a message of this kind.
pub(crate) fn advice(kind: IcmpKind, v6: bool, encapsulated: bool) -> Advice {
    match (kind, v6) {
        // RFC 9260 §10: path MTU discovery.
        (IcmpKind::TooBig(mtu), _) => Advice::Shrink(mtu),
        // RFC 6951 §5.5: no process listens on the UDP port; treat it as a host that does not speak SCTP.
        (IcmpKind::Unreachable(3), false) | (IcmpKind::Unreachable(4), true) if encapsulated => Advice::Abort,
        // RFC 9260 §10: port unreachable is ignored (ICMPv4 code 3, ICMPv6 code 4).
        (IcmpKind::Unreachable(3), false) | (IcmpKind::Unreachable(4), true) => Advice::Ignore,
        // RFC 9260 §10: protocol unreachable is treated as an ABORT (ICMPv4 code 2; in ICMPv6 it is a parameter
        // problem with code "unrecognized next header").
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
            // ICMPv6 code 2 means "beyond scope of source address".
            assert_eq!(advice(IcmpKind::Unreachable(2), true, encapsulated), Advice::Error);
        }
        assert_eq!(advice(IcmpKind::Unreachable(4), true, false), Advice::Ignore);
        assert_eq!(advice(IcmpKind::Unreachable(4), true, true), Advice::Abort);
    }
}
