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
        // it with a parameter problem, which is not reported here).
        (IcmpKind::Unreachable(2), false) => Advice::Abort,
        (IcmpKind::Unreachable(_), _) => Advice::Error,
    }
}
