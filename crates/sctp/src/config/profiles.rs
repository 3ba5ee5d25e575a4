//! The profiles: named sets of values. A profile lists the values that differ from its parent, each with its source.
//!
//! The values of `rfc9260` are the defaults of the table in `knobs`. If the specification or implementation that a
//! profile follows leaves a value open, the source of this value is given as "ours".

use anabranch_base::knobs::{Profile, names};

/// The names of the profiles. The engine defaults to `rfc9260`; the `anabranch` commands and
/// `anabranch-tokio` default to `modern`.
pub const PROFILES: &[&str] = &names(ALL);

pub(super) const ALL: &[&Profile; 7] =
    &[&RFC9260, &RFC2960, &KAME_2002, &LKSCTP_2_6_11, &LKSCTP_2_6, &NS2, &MODERN];

pub(super) const OURS: &str = "ours: the source leaves it open";
const NEWER: &str = "not in the source: newer, or an option of its own";

const RFC9260: Profile = Profile { name: "rfc9260", parent: None, rows: &[] };

const RFC2960: Profile = Profile {
    name: "rfc2960",
    parent: Some(&RFC9260),
    rows: &[
        ("cc", "rfc2960", "RFC 2960 §7.2"),
        ("iw", "2", "RFC 2960 §7.2.1 (2 MTU)"),
        ("rto_initial", "3s", "RFC 2960 §14"),
        (
            "rtt_from_cookie",
            "no",
            "RFC 2960 §6.3.1 C5 forbids samples of retransmitted chunks, and a COOKIE ECHO may be one",
        ),
        ("rto_min", "1s", "RFC 2960 §14"),
        ("rto_var_min", "0ms", "RFC 2960 §6.3.1: the clock granularity G alone"),
        ("rto_max", "60s", "RFC 2960 §14"),
        ("delack", "200ms", "RFC 2960 §6.2"),
        ("ack_every", "2", "RFC 2960 §6.2"),
        ("mss", "auto", "RFC 2960 §6.9"),
        ("max_burst", "0", "RFC 2960 has no Max.Burst; RFC 4460 §2.8 brought it"),
        ("dupthresh", "4", "RFC 2960 §7.2.4"),
        ("rack", "no", NEWER),
        ("tlp", "no", NEWER),
        ("hystart", "no", NEWER),
        ("pacing", "no", NEWER),
        ("prr", "no", NEWER),
        ("nagle", "no", "RFC 2960 §6.1 allows both; HTTP servers turn it off"),
        ("ecn", "no", "RFC 2960 Appendix A leaves it to the implementation"),
        ("path_max_retrans", "5", "RFC 2960 §14"),
        ("pf_max_retrans", "off", NEWER),
        ("primary_switch", "off", NEWER),
        ("assoc_max_retrans", "10", "RFC 2960 §14"),
        ("assoc_silence", "0ms", "RFC 2960 §8.1: the number of errors alone"),
        ("init_max_retrans", "8", "RFC 2960 §14"),
        ("hb_interval", "30s", "RFC 2960 §14"),
        ("sack_path", "same", "RFC 2960 §6.4"),
        ("rtx_path", "all", "RFC 2960 §6.4"),
        ("cookie_life", "60s", "RFC 2960 §14"),
        ("cookie_data", "yes", "RFC 2960 §5.1 C (may)"),
        ("pmtud", "icmp", "RFC 2960 §7.3"),
        ("partial_reliability", "no", NEWER),
        ("interleaving", "no", NEWER),
        ("nr_sack", "no", NEWER),
        ("auth", "no", NEWER),
        ("asconf", "no", NEWER),
        ("reconfig", "no", NEWER),
        ("zero_checksum", "no", NEWER),
        ("icmp_doubt", "no", NEWER),
        ("udp_apart", "no", NEWER),
    ],
};

const KAME_2002: Profile = Profile {
    name: "kame-2002",
    parent: Some(&RFC2960),
    rows: &[
        ("cc", "rfc2960", "RFC 2960 §7.2, which KAME SCTP followed"),
        ("iw", "2", "RFC 2960 §7.2.1 (2 MTU), which KAME SCTP followed"),
        ("rto_initial", "3s", "KAME SCTP, sctp_constants.h: SCTP_RTO_INITIAL"),
        (
            "rtt_from_cookie",
            "yes",
            "KAME SCTP, sctp_input.c: sctp_process_cookie_new calls sctp_calculate_rto with the cookie's time_entered",
        ),
        ("rto_min", "1s", "KAME SCTP, sctp_constants.h: SCTP_RTO_LOWER_BOUND"),
        ("rto_max", "60s", "KAME SCTP, sctp_constants.h: SCTP_RTO_UPPER_BOUND"),
        ("delack", "200ms", "KAME SCTP, sctp_constants.h: SCTP_RECV_SEC"),
        ("rcvbuf", "64KiB", "KAME SCTP, sctp_usrreq.c: sctp_recvspace, 64 datagrams of 1 KiB"),
        ("sndbuf", "32KiB", "KAME SCTP, sctp_usrreq.c: sctp_sendspace"),
        ("max_burst", "4", "KAME SCTP, sctp_constants.h: SCTP_DEF_MAX_BURST"),
        ("dupthresh", "4", "KAME SCTP, sctp_constants.h: from SCTP_DATAGRAM_SENT (1) to _RESEND (5)"),
        ("nagle", "yes", "KAME SCTP: SCTP_NODELAY is off by default"),
        ("ecn", "no", OURS),
        ("path_max_retrans", "5", "RFC 2960 §14, which KAME SCTP followed"),
        ("assoc_max_retrans", "10", "KAME SCTP, sctp_constants.h: SCTP_DEF_MAX_SEND"),
        ("assoc_silence", "0ms", "RFC 2960 §8.1, which KAME SCTP followed"),
        ("init_max_retrans", "8", "KAME SCTP, sctp_constants.h: SCTP_DEF_MAX_INIT"),
        ("hb_interval", "30s", "KAME SCTP, sctp_constants.h: SCTP_HB_DEFAULT"),
        ("rtx_path", "all", "KAME SCTP, sctp_indata.c: struck chunks move to an alternate"),
        ("cookie_life", "60s", "KAME SCTP, sctp_constants.h: SCTP_DEFAULT_COOKIE_LIFE"),
        ("pmtud", "icmp", "RFC 2960 §7.3, which KAME SCTP followed"),
    ],
};

const LKSCTP_2_6: Profile = Profile {
    name: "lksctp-2.6",
    parent: Some(&RFC2960),
    rows: &[
        ("cc", "rfc4960", "Linux 2.6, net/sctp/transport.c: the implementers' guide that became RFC 4960"),
        ("iw", "rfc4960", "Linux 2.6, net/sctp/transport.c: min(4 pmtu, max(2 pmtu, 4380))"),
        ("rto_initial", "3s", "Linux 2.6, include/net/sctp/constants.h: SCTP_RTO_INITIAL"),
        ("rtt_from_cookie", "no", "Linux 2.6, net/sctp/outqueue.c: only DATA and HEARTBEAT are measured"),
        ("rto_min", "1s", "Linux 2.6, include/net/sctp/constants.h: SCTP_RTO_MIN"),
        ("rto_var_min", "0ms", "Linux 2.6, net/sctp/transport.c: SCTP_CLOCK_GRANULARITY alone"),
        ("rto_max", "60s", "Linux 2.6, include/net/sctp/constants.h: SCTP_RTO_MAX"),
        ("delack", "200ms", "Linux 2.6, include/net/sctp/constants.h: SCTP_DEFAULT_TIMEOUT_SACK"),
        (
            "rcvbuf",
            "54KiB",
            "later Linux 2.6: half of net.core.rmem_default (110592), net/sctp/associola.c; the whole of it up to 2.6.12-rc2",
        ),
        ("sndbuf", "108KiB", "Linux 2.6: net.core.wmem_default"),
        ("max_burst", "4", "Linux 2.6, include/net/sctp/constants.h: SCTP_DEFAULT_MAX_BURST"),
        ("dupthresh", "4", "Linux 2.6, net/sctp/outqueue.c: tsn_missing_report >= 4 (3 in later ones)"),
        ("nagle", "yes", "Linux 2.6, net/sctp/socket.c: nodelay is 0 by default"),
        ("ecn", "yes", "Linux 2.6, net/sctp/sm_make_chunk.c: always offered"),
        ("path_max_retrans", "5", "Linux 2.6, net/sctp/protocol.c: max_retrans_path"),
        ("assoc_max_retrans", "10", "Linux 2.6, net/sctp/protocol.c: max_retrans_association"),
        ("assoc_silence", "0ms", "RFC 2960 §8.1, which Linux 2.6 followed"),
        ("init_max_retrans", "8", "Linux 2.6, net/sctp/protocol.c: max_retrans_init"),
        ("hb_interval", "30s", "Linux 2.6, net/sctp/protocol.c: hb_interval"),
        ("rtx_path", "all", "Linux 2.6, net/sctp/outqueue.c: retransmissions go to retran_path"),
        ("cookie_life", "60s", "Linux 2.6, net/sctp/protocol.c: valid_cookie_life"),
        ("cookie_data", "yes", "Linux 2.6, net/sctp/outqueue.c: DATA may follow COOKIE ECHO in its packet"),
        ("scheduler", "fcfs", "Linux 2.6, net/sctp/outqueue.c: one queue"),
        ("pmtud", "icmp", "Linux 2.6, net/sctp/input.c: sctp_icmp_frag_needed"),
    ],
};

/// Linux 2.6.11 of March 2005. The values were read in Linux 2.6.12-rc2 (commit 1da177e4c3f4), which followed 2.6.11
/// and is the first version in the public git history. docs/period-hosts.md has a table of its behaviours.
const LKSCTP_2_6_11: Profile = Profile {
    name: "lksctp-2.6.11",
    parent: Some(&LKSCTP_2_6),
    rows: &[
        ("cc", "rfc4960", "net/sctp/transport.c: sctp_transport_raise_cwnd, sctp_transport_lower_cwnd"),
        ("iw", "rfc4960", "net/sctp/associola.c: min(4 pmtu, max(2 pmtu, 4380))"),
        ("dupthresh", "4", "net/sctp/outqueue.c: sctp_mark_missing, tsn_missing_report >= 4"),
        ("fast_recovery", "no", "net/sctp/outqueue.c: sctp_retransmit lowers cwnd at each fast retransmit"),
        ("fast_again", "yes", "net/sctp/outqueue.c: sctp_outq_flush_rtx clears fast_retransmit"),
        ("max_burst", "4", "include/net/sctp/constants.h: SCTP_MAX_BURST"),
        ("burst_window", "yes", "net/sctp/output.c: sctp_packet_append_data lowers cwnd"),
        ("rcvbuf", "108KiB", "net/sctp/associola.c: rwnd is sk_rcvbuf, net.core.rmem_default (110592)"),
        ("sndbuf", "108KiB", "net/core/sock.c: net.core.wmem_default (110592)"),
    ],
};

const NS2: Profile = Profile {
    name: "ns2",
    parent: Some(&RFC2960),
    rows: &[
        (
            "cc",
            "rfc4960",
            "ns-2.35, sctp/sctp.cc: no window falls below 4 MTU by a loss or by idleness (RFC 4960 §7.2)",
        ),
        (
            "iw",
            "rfc4960",
            "ns-2.35, sctp/sctp.cc, Reset: RFC 4960 §7.2.1; initialCwnd_ of ns-default.tcl is not used for it",
        ),
        ("rto_initial", "3s", "ns-2, tcl/lib/ns-default.tcl: initialRto_"),
        (
            "rtt_from_cookie",
            "no",
            "ns-2.35, sctp/sctp.cc: RttUpdate is called only for DATA and HEARTBEAT ACK",
        ),
        ("rto_min", "1s", "ns-2, tcl/lib/ns-default.tcl: minRto_"),
        ("rto_var_min", "0ms", "ns-2, sctp/sctp.cc: minRto_ bounds the sum"),
        ("rto_max", "60s", "ns-2, tcl/lib/ns-default.tcl: maxRto_"),
        ("delack", "200ms", "ns-2, tcl/lib/ns-default.tcl: sackDelay_"),
        ("mss", "1452B", "ns-2, tcl/lib/ns-default.tcl: dataChunkSize_ 1468 with its header"),
        ("rcvbuf", "64KiB", "ns-2, tcl/lib/ns-default.tcl: initialRwnd_ 65536"),
        ("sndbuf", "1MiB", "ns-2's agent has no send buffer limit (initialSwnd_ 0); ours is large"),
        (
            "max_burst",
            "0",
            "ns-2.35, sctp/sctp.cc: MAX_BURST (4) limits only the answer to a SACK of a chunk that was retransmitted; ours would limit every burst",
        ),
        ("dupthresh", "3", "ns-2, tcl/lib/ns-default.tcl: fastRtxTrigger_"),
        ("nagle", "no", "ns-2, sctp/sctp.cc: no Nagle"),
        ("ecn", "no", "ns-2, sctp/sctp.cc: no ECN"),
        ("path_max_retrans", "5", "ns-2, tcl/lib/ns-default.tcl: pathMaxRetrans_"),
        ("assoc_max_retrans", "10", "ns-2, tcl/lib/ns-default.tcl: associationMaxRetrans_"),
        ("assoc_silence", "0ms", "ns-2 knows of no such time"),
        ("init_max_retrans", "8", "ns-2, tcl/lib/ns-default.tcl: maxInitRetransmits_"),
        ("hb_interval", "30s", "ns-2, tcl/lib/ns-default.tcl: heartbeatInterval_"),
        ("rtx_path", "all", "ns-2, tcl/lib/ns-default.tcl: rtxToAlt_ 1"),
        ("cookie_data", "no", "ns-2, sctp/sctp.cc: DATA follows COOKIE ACK"),
        ("pmtud", "icmp", "ns-2 has no path MTU discovery; ours"),
    ],
};

const MODERN: Profile = Profile {
    name: "modern",
    parent: Some(&RFC9260),
    rows: &[
        (
            "cc",
            "cubic",
            "as Linux TCP: RFC 9438, but Reno's share stays 9/17; the threshold is a share of cwnd (RFC 9260 §7.2.3)",
        ),
        ("iw", "10", "RFC 6928, as dcSCTP does (10 MTU)"),
        ("rto_initial", "1s", "RFC 9260 §16, RFC 6298 §2.1"),
        (
            "rtt_from_cookie",
            "yes",
            "as a TCP server does with SYN ACK and ACK; usrsctp did until 2023 (commit 7039e169), but took samples of any length",
        ),
        ("rto_min", "200ms", "Linux TCP: TCP_RTO_MIN"),
        (
            "rto_var_min",
            "200ms",
            "as Linux TCP (tcp_rtt_estimator); without: needless timeouts where the RTT is RTO.Min or more",
        ),
        ("delack", "40ms", "Linux TCP: TCP_DELACK_MIN"),
        ("rcvbuf", "4MiB", "ours: room for 1 Gbit/s at 30 ms"),
        ("sndbuf", "4MiB", "ours: room for 1 Gbit/s at 30 ms"),
        ("max_burst", "0", "Linux TCP has no limit of its kind; PRR meters recoveries"),
        (
            "rack",
            "yes",
            "RFC 8985 §6, as Linux TCP; measured: 1.2 to 1.9 times the goodput where a queue overflows",
        ),
        ("tlp", "yes", "RFC 8985 §7, as Linux TCP (net.ipv4.tcp_early_retrans = 3)"),
        ("hystart", "linux", "as Linux TCP with CUBIC (tcp_cubic.c: hystart = 1)"),
        (
            "hystart_min_rtt",
            "1ms",
            "ours: below, what a host takes for a batch of packets looks like a train of half a round trip",
        ),
        (
            "pacing",
            "no",
            "off: over 16 seeds of the goodput grid 2 to 3 % more at 200 ms and 0.01 %, 2 % less at 0.1 %, pages as soon; Linux paces CUBIC only under fq",
        ),
        ("prr", "yes", "RFC 6937, as Linux TCP; measured: 2 to 4 % more goodput at 1 % loss"),
        ("nagle", "no", "as every HTTP stack does"),
        ("ecn", "yes", "RFC 4960 Appendix A"),
        ("pf_max_retrans", "0", "RFC 7829 §3 (recommended)"),
        ("primary_switch", "off", "RFC 9260 §6.4.1: data comes back to the primary"),
        (
            "assoc_silence",
            "100s",
            "RFC 9293 §3.8.3 (R2); at rto_min 200ms ten errors on four paths are a silence of 4 to 8 s",
        ),
        (
            "scheduler",
            "rr",
            "RFC 8260 §3.2; measured with interleaving: an object of news in two thirds of the time, of gallery (equal images) a fifth later, the pages as soon; a message waits for no bulk beside it",
        ),
        ("pmtud", "icmp", "RFC 9260 §7.3; RFC 8899 measured: its search costs a page of 400 kB 1 to 7 %"),
        (
            "partial_reliability",
            "yes",
            "RFC 3758, where the peer has it; measured: changes no page and no transfer",
        ),
        (
            "interleaving",
            "yes",
            "RFC 8260 §2; measured with rr: pages at 1 and 3 % loss 3 to 8 % faster, without loss unchanged; 0.3 % less goodput in bulk",
        ),
        ("nr_sack", "no", "off: an Internet draft that never became an RFC"),
        ("auth", "no", "off: nothing else here needs it"),
        ("asconf", "no", "off: needs auth; a fixed host has no use for it"),
        ("reconfig", "yes", "RFC 6525, where the peer has it; measured: changes no page and no transfer"),
        ("zero_checksum", "no", "off unless asked for: RFC 9653 §4 wants another check beneath"),
        (
            "icmp_doubt",
            "yes",
            "ours, as RFC 5927 §5.2 for TCP: Linux says it of raw sockets whose receive buffer is full",
        ),
        (
            "udp_apart",
            "yes",
            "ours: programs with an SCTP of their own share addresses and cannot share SCTP ports",
        ),
    ],
};
