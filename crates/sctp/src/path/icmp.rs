//! What an ICMP message may change.
//!
//! Only a message whose quote carries the right Verification Tag is believed.
//!
//! Home of RFC 9260 §10 and of RFC 6951 §5.5.

use anabranch_base::IcmpKind;

/// What to do about a believed message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Advice {
    /// Nothing.
    Ignore,
    /// Packets to this destination may have this size at most.
    Shrink(u32),
    /// The peer's host does not speak SCTP: as good as an ABORT.
    Abort,
    /// The destination cannot be reached: an error of the path.
    Error,
}

/// Reads the message.
pub(crate) fn advice(kind: IcmpKind, v6: bool, encapsulated: bool) -> Advice {
    match (kind, v6) {
        // RFC 9260 §10: path MTU discovery.
        (IcmpKind::TooBig(mtu), _) => Advice::Shrink(mtu),
        // RFC 6951 §5.5: nobody listens on the UDP port: as if the host did not speak SCTP.
        (IcmpKind::Unreachable(3), false) | (IcmpKind::Unreachable(4), true) if encapsulated => Advice::Abort,
        // RFC 9260 §10: port unreachable is ignored (ICMPv4 code 3, ICMPv6 code 4).
        (IcmpKind::Unreachable(3), false) | (IcmpKind::Unreachable(4), true) => Advice::Ignore,
        // RFC 9260 §10: protocol unreachable is as good as an ABORT (ICMPv4 code 2; ICMPv6 says
        // it with a parameter problem, unrecognized next header).
        (IcmpKind::Unreachable(2), false) | (IcmpKind::UnknownNextHeader, true) => Advice::Abort,
        (IcmpKind::UnknownNextHeader, false) => Advice::Ignore,
        (IcmpKind::Unreachable(_), _) => Advice::Error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 9260 §10: a host without SCTP, in the words of either version of ICMP.
    #[test]
    fn a_host_without_the_protocol_ends_the_association() {
        for encapsulated in [false, true] {
            assert_eq!(advice(IcmpKind::Unreachable(2), false, encapsulated), Advice::Abort);
            assert_eq!(advice(IcmpKind::UnknownNextHeader, true, encapsulated), Advice::Abort);
            // ICMPv6's code 2 is about scopes of addresses.
            assert_eq!(advice(IcmpKind::Unreachable(2), true, encapsulated), Advice::Error);
        }
        assert_eq!(advice(IcmpKind::Unreachable(4), true, false), Advice::Ignore);
        assert_eq!(advice(IcmpKind::Unreachable(4), true, true), Advice::Abort);
    }
}
