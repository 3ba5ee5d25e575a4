//! Translates packetdrill's names of ICMP messages to the events that a host reports to SCTP.
//!
//! Implements the rules ICMP1 to ICMP3 of RFC 9260 §10: which ICMP messages reach SCTP at all.

use crate::script::Icmp;
use anabranch_base::IcmpKind;

/// The codes of ICMPv4 "destination unreachable" (RFC 792, RFC 1122 §3.2.2.1, RFC 1812 §5.2.7.1).
const UNREACHABLE_V4: &[(&str, u8)] = &[
    ("net_unreachable", 0),
    ("host_unreachable", 1),
    ("protocol_unreachable", 2),
    ("port_unreachable", 3),
    ("frag_needed", 4),
    ("source_route_failed", 5),
    ("net_unknown", 6),
    ("host_unknown", 7),
    ("source_host_isolated", 8),
    ("net_prohibited", 9),
    ("host_prohibited", 10),
    ("net_unreachable_for_tos", 11),
    ("host_unreachable_for_tos", 12),
    ("packet_filtered", 13),
    ("precedence_violation", 14),
    ("precedence_cutoff", 15),
];

/// The codes of ICMPv6 "destination unreachable" (RFC 4443 §3.1).
const UNREACHABLE_V6: &[(&str, u8)] = &[
    ("no_route", 0),
    ("admin_prohibited", 1),
    ("not_neighbour", 2),
    ("address_unreachable", 3),
    ("port_unreachable", 4),
];

/// ICMPv4 messages that a host does not report to SCTP, with their codes.
const OTHERS_V4: &[(&str, &[&str])] = &[
    ("source_quench", &[]),
    ("redirect", &[]),
    ("time_exceeded", &["ttl_exceeded_in_transit", "frag_reass_exceeded"]),
    ("parameter_problem", &[]),
];

/// ICMPv6 messages that a host does not report to SCTP, with their codes.
const OTHERS_V6: &[(&str, &[&str])] = &[
    ("time_exceeded", &["exceeded_hop_limit", "exceeded_frag_time"]),
    ("parameter_problem", &["header_field", "unknown_option"]),
];

/// Returns the event that an ICMP message causes in SCTP; `None` if the host does not pass the message on.
pub(crate) fn kind(icmp: &Icmp, v6: bool) -> Result<Option<IcmpKind>, String> {
    let version = if v6 { 6 } else { 4 };
    let code = icmp.code.as_deref();
    let no_code = |code: &str| format!("ICMPv{version} {} has no code {code}", icmp.kind);
    let kind = match (icmp.kind.as_str(), code) {
        // RFC 1191 §3: old routers do not report the MTU.
        ("unreachable", Some("frag_needed")) if !v6 => {
            return Ok(Some(IcmpKind::TooBig(icmp.mtu.unwrap_or(0))));
        }
        ("packet_too_big", None) if v6 => {
            let mtu = icmp.mtu.ok_or("packet_too_big tells an MTU: mtu N")?;
            return Ok(Some(IcmpKind::TooBig(mtu)));
        }
        ("unreachable", code) => {
            let codes = if v6 { UNREACHABLE_V6 } else { UNREACHABLE_V4 };
            let code = code.ok_or("unreachable has a code")?;
            let number = codes.iter().find(|(name, _)| *name == code).map(|(_, n)| *n);
            Some(IcmpKind::Unreachable(number.ok_or_else(|| no_code(code))?))
        }
        ("parameter_problem", Some("unknown_next_header")) if v6 => Some(IcmpKind::UnknownNextHeader),
        (name, code) => {
            let others = if v6 { OTHERS_V6 } else { OTHERS_V4 };
            let (_, codes) = others
                .iter()
                .find(|(known, _)| *known == name)
                .ok_or_else(|| format!("ICMPv{version} {name} is not spoken here"))?;
            if let Some(code) = code
                && !codes.contains(&code)
            {
                return Err(no_code(code));
            }
            None
        }
    };
    match icmp.mtu {
        Some(_) => Err(format!("ICMPv{version} {} tells no MTU", icmp.kind)),
        None => Ok(kind),
    }
}
