//! Reasons why a cell of our feature table differs from the published one.

use super::{FeatureVerdict, TransportKind};

/// The text if no reason is known, which is a defect of the program or of the probe.
pub(super) const UNKNOWN: &str = "No reason is known: please report it.";

/// Returns the reason why the verdict `found` differs from the published one.
pub(super) fn of(feature: &str, kind: TransportKind, found: FeatureVerdict) -> &'static str {
    match (feature, kind, found) {
        ("explicit congestion notification support", TransportKind::Sctp, FeatureVerdict::Optional) => {
            "ECN for SCTP was Appendix A of RFC 4960; RFC 9260 §1.7 lists its removal and keeps only the numbers reserved \
             (§3.2, §3.3.2), so it is off unless asked for."
        }
        ("explicit congestion notification support", TransportKind::Tcp, FeatureVerdict::Optional) => {
            "RFC 3168 leaves ECN to negotiation, and as with Linux (net.ipv4.tcp_ecn = 2) clients here do not ask for it \
             unless told."
        }
        (
            "protection against SYN flooding",
            TransportKind::Tcp,
            FeatureVerdict::Yes | FeatureVerdict::Optional,
        ) => "SYN cookies (RFC 4987 §3.6) are in every system today; the slides speak of TCP without them.",
        _ => UNKNOWN,
    }
}
