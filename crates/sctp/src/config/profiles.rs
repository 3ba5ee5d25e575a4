//! Named parameter sets, each value with its source.
//!
//! What a specification or an implementation leaves open is said to be ours.

/// The profiles' names; the default is `rfc9260`.
pub const PROFILES: &[&str] = &["rfc9260", "rfc2960", "kame-2002", "lksctp-2.6", "ns2", "modern"];

type Rows = &'static [(&'static str, &'static str, &'static str)];

pub(super) fn rows(name: &str) -> Option<Rows> {
    Some(match name {
        "rfc9260" => RFC9260,
        "rfc2960" => RFC2960,
        "kame-2002" => KAME_2002,
        "lksctp-2.6" => LKSCTP_2_6,
        "ns2" => NS2,
        "modern" => MODERN,
        _ => return None,
    })
}

const OURS: &str = "ours: the source leaves it open";
const OURS_BUFFER: &str = "ours: the source leaves it open; large enough not to be the limit";

const RFC9260: Rows = &[
    ("cc", "rfc9260", "RFC 9260 §7.2"),
    ("iw", "rfc9260", "RFC 9260 §7.2.1"),
    ("rto_initial", "1s", "RFC 9260 §16"),
    ("rto_min", "1s", "RFC 9260 §16"),
    ("rto_max", "60s", "RFC 9260 §16"),
    ("delack", "200ms", "RFC 9260 §16 (SACK.Delay)"),
    ("ack_every", "2", "RFC 9260 §6.2"),
    ("mss", "auto", "RFC 9260 §6.9"),
    ("rcvbuf", "1MiB", OURS_BUFFER),
    ("sndbuf", "1MiB", OURS_BUFFER),
    ("max_burst", "4", "RFC 9260 §16"),
    ("dupthresh", "3", "RFC 9260 §7.2.4"),
    ("nagle", "no", "RFC 9260 §6.1 allows both; HTTP servers turn it off"),
    ("ecn", "no", "RFC 9260 removed RFC 4960 Appendix A"),
    ("path_max_retrans", "5", "RFC 9260 §16"),
    ("assoc_max_retrans", "10", "RFC 9260 §16"),
    ("init_max_retrans", "8", "RFC 9260 §16"),
    ("hb_interval", "30s", "RFC 9260 §16"),
    ("sack_path", "same", "RFC 9260 §6.4"),
    ("rtx_path", "timeout", "RFC 9260 §6.4"),
    ("cookie_life", "60s", "RFC 9260 §16"),
    ("cookie_data", "yes", "RFC 9260 §5.1 D (may)"),
    ("streams", "100", OURS),
    ("scheduler", "fcfs", OURS),
    ("partial_delivery", "64KiB", OURS),
];

const RFC2960: Rows = RFC9260;
const KAME_2002: Rows = RFC9260;
const LKSCTP_2_6: Rows = RFC9260;
const NS2: Rows = RFC9260;
const MODERN: Rows = RFC9260;
