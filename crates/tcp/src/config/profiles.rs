//! Named, sourced parameter sets: old papers and today's stacks are the same
//! code with other numbers.
//!
//! Every profile gives every knob, with the place its value comes from.

use super::{Config, KNOB_COUNT};

/// The names of the profiles; the last is the default.
pub const PROFILES: &[&str] = &["reno-2002", "linux-2.6", "ns2", "modern"];

type Row = (&'static str, &'static str, &'static str);
pub(super) type Profile = [Row; KNOB_COUNT];

pub(super) fn find(name: &str) -> Option<&'static Profile> {
    match name {
        "reno-2002" => Some(&RENO_2002),
        "linux-2.6" => Some(&LINUX_2_6),
        "ns2" => Some(&NS2),
        "modern" => Some(&MODERN),
        _ => None,
    }
}

pub(super) fn build(profile: &Profile) -> Config {
    let mut config = Config::blank();
    for (key, value, source) in profile {
        let outcome = config.set_from(key, value, source);
        assert!(outcome.is_ok(), "a profile holds a wrong row: {outcome:?}");
    }
    config
}

const NONE_IN_2002: &str = "FreeBSD 4.x has none";

/// FreeBSD 4.x as of 2002.
static RENO_2002: Profile = [
    ("cc", "reno", "FreeBSD 4.x tcp_input.c"),
    ("iw", "1", "FreeBSD 4.x net.inet.tcp.slowstart_flightsize (ss_fltsz = 1; 4 on the local net)"),
    ("cwnd_unit", "bytes", "FreeBSD 4.x tcp_input.c"),
    ("ssthresh", "flight", "RFC 2581 §3.1 (FreeBSD 4.x takes min(snd_wnd, snd_cwnd); not modelled)"),
    ("abc", "off", "FreeBSD 4.x tcp_input.c: one segment, or mss*mss/cwnd, an acknowledgement"),
    ("idle_restart", "yes", "FreeBSD 4.x tcp_output.c: ss_fltsz again after an idle t_rxtcur"),
    ("cwnd_validation", "no", "FreeBSD 4.x tcp_input.c opens the window with every acknowledgement"),
    ("recovery", "newreno", "FreeBSD 4.x net.inet.tcp.newreno = 1"),
    ("careful", "yes", "FreeBSD 4.x tcp_input.c: no entry below snd_recover (RFC 2582 §5)"),
    ("dupthresh", "3", "FreeBSD 4.x tcprexmtthresh = 3"),
    ("limited_transmit", "no", "net.inet.tcp.rfc3042 came in 2003"),
    ("prr", "no", "RFC 6937 is of 2013"),
    ("rack", "no", "RFC 8985 is of 2021"),
    ("tlp", "no", "RFC 8985 is of 2021"),
    ("hystart", "no", "RFC 9406 is of 2023"),
    ("pacing", "no", "FreeBSD 4.x has none"),
    ("undo", "no", "FreeBSD 4.x undoes by RTT (t_badrxtwin) after timeouts only; not modelled"),
    ("rto_initial", "3s", "FreeBSD 4.x TCPTV_RTOBASE = 3*hz"),
    ("rto_min", "1s", "FreeBSD 4.x TCPTV_MIN = 1*hz"),
    ("rto_var_min", "0ms", "FreeBSD 4.x TCP_REXMTVAL: t_rttmin bounds the sum"),
    ("rto_max", "64s", "FreeBSD 4.x TCPTV_REXMTMAX = 64*hz"),
    ("tick", "10ms", "FreeBSD 4.x hz = 100"),
    ("rtt_sample", "every", "FreeBSD 4.x tcp_input.c: each acknowledgement with a timestamp"),
    ("sack", "no", NONE_IN_2002),
    ("dsack", "no", NONE_IN_2002),
    ("timestamps", "yes", "FreeBSD 4.x net.inet.tcp.rfc1323 = 1"),
    ("wscale", "yes", "FreeBSD 4.x net.inet.tcp.rfc1323 = 1"),
    ("ecn", "no", NONE_IN_2002),
    ("nagle", "yes", "RFC 1122 §4.2.3.4"),
    ("delack", "100ms", "FreeBSD 4.x TCPTV_DELACK = hz/10"),
    (
        "ack_every",
        "2",
        "FreeBSD 4.x tcp_input.c: a pending delayed acknowledgement goes with the next segment",
    ),
    ("quickack", "0", NONE_IN_2002),
    ("ack_push", "no", NONE_IN_2002),
    ("push", "write", "FreeBSD 4.x tcp_output.c: TH_PUSH where the send buffer is emptied"),
    ("mss", "auto", "FreeBSD 4.x tcp_mss: the interface's MTU"),
    ("rcvbuf", "57344B", "FreeBSD 4.5 tcp_recvspace = 56 KiB (16 KiB before)"),
    ("rcvbuf_auto", "no", "FreeBSD 4.x buffers have a fixed size"),
    ("sndbuf", "32768B", "FreeBSD 4.5 tcp_sendspace = 32 KiB (16 KiB before)"),
    ("sndbuf_auto", "no", "FreeBSD 4.x buffers have a fixed size"),
    ("max_burst", "off", NONE_IN_2002),
    ("syn_retries", "4", "FreeBSD 4.x TCPTV_KEEP_INIT = 75 s, with doubling from 3 s"),
    ("retries", "12", "FreeBSD 4.x TCP_MAXRXTSHIFT = 12"),
    ("user_timeout", "off", NONE_IN_2002),
    ("time_wait", "60s", "FreeBSD 4.x TCPTV_MSL = 30*hz, twice"),
    ("fin_wait2", "60s", "FreeBSD 4.x tcp_maxidle is 10 min; shortened, as no result depends on it"),
    ("backlog", "128", "FreeBSD 4.x SOMAXCONN = 128"),
    ("syncookies", "no", "FreeBSD 4.5 brought them; 4.4 had none"),
    ("pmtu", "yes", "FreeBSD 4.x net.inet.tcp.path_mtu_discovery = 1"),
];

/// Linux 2.6.19 to 2.6.32.
static LINUX_2_6: Profile = [
    ("cc", "cubic", "Linux 2.6.19 made CUBIC the default (BIC from 2.6.8)"),
    ("iw", "rfc5681", "Linux 2.6 tcp_init_cwnd: two to four by segment size (RFC 3390)"),
    ("cwnd_unit", "bytes", "Linux 2.6 counts segments (its arithmetic of that day is not modelled)"),
    ("ssthresh", "window", "Linux 2.6 tcp_reno_ssthresh, bictcp_recalc_ssthresh: of snd_cwnd"),
    ("abc", "off", "Linux 2.6 net.ipv4.tcp_abc = 0"),
    (
        "idle_restart",
        "decay",
        "Linux 2.6.18 tcp_slow_start_after_idle = 1: tcp_cwnd_restart halves once an RTO (RFC 2861)",
    ),
    ("cwnd_validation", "yes", "Linux 2.6 tcp_is_cwnd_limited"),
    ("recovery", "sack", "Linux 2.6 tcp_sack = 1 (its FACK and rate halving are not modelled)"),
    ("careful", "yes", "Linux 2.6 tcp_input.c: high_seq of the Loss state"),
    ("dupthresh", "3", "Linux 2.6 net.ipv4.tcp_reordering = 3 (its adaptation is not modelled)"),
    ("limited_transmit", "yes", "Linux 2.6 tcp_input.c: packets in flight leave out what was SACKed"),
    ("prr", "no", "Linux 3.2 brought it (rate halving before is not modelled)"),
    ("rack", "no", "Linux 4.4 brought it"),
    ("tlp", "no", "Linux 3.10 brought it"),
    ("hystart", "no", "Linux 2.6.29 brought HyStart, not HyStart++"),
    ("pacing", "no", "Linux 3.12 brought it"),
    ("undo", "yes", "Linux 2.6 tcp_try_undo_recovery, tcp_try_undo_loss"),
    ("rto_initial", "3s", "Linux 2.6 TCP_TIMEOUT_INIT = 3*HZ"),
    ("rto_min", "200ms", "Linux 2.6 TCP_RTO_MIN = HZ/5"),
    (
        "rto_var_min",
        "200ms",
        "Linux 2.6 tcp_rtt_estimator: TCP_RTO_MIN bounds mdev_max, and RTO = SRTT + that",
    ),
    ("rto_max", "120s", "Linux 2.6 TCP_RTO_MAX = 120*HZ"),
    ("tick", "1ms", "Linux 2.6 HZ = 1000"),
    ("rtt_sample", "every", "Linux 2.6 tcp_ack_update_rtt"),
    ("sack", "yes", "Linux 2.6 net.ipv4.tcp_sack = 1"),
    ("dsack", "yes", "Linux 2.6 net.ipv4.tcp_dsack = 1"),
    ("timestamps", "yes", "Linux 2.6 net.ipv4.tcp_timestamps = 1"),
    ("wscale", "yes", "Linux 2.6 net.ipv4.tcp_window_scaling = 1"),
    ("ecn", "no", "Linux 2.6 net.ipv4.tcp_ecn = 0 (from 2.6.31 only when asked)"),
    ("nagle", "minshall", "Linux 2.6 tcp_nagle_check, tcp_minshall_check"),
    ("delack", "40ms", "Linux 2.6 TCP_DELACK_MIN = HZ/25"),
    ("ack_every", "2", "Linux 2.6 __tcp_ack_snd_check: more than one full segment"),
    ("quickack", "16", "Linux 2.6 TCP_MAX_QUICKACKS = 16"),
    ("ack_push", "no", "Linux 2.6 tcp_cleanup_rbuf does (not modelled)"),
    ("push", "write", "Linux 2.6 tcp_push"),
    ("mss", "auto", "the interface's MTU"),
    ("rcvbuf", "4MiB", "Linux 2.6.17 tcp_rmem = 4096 87380 4194304: where autotuning ends"),
    ("rcvbuf_auto", "yes", "Linux 2.6.17 tcp_rcv_space_adjust (net.ipv4.tcp_moderate_rcvbuf = 1)"),
    ("sndbuf", "4MiB", "Linux 2.6.17 tcp_wmem = 4096 16384 4194304: where autotuning ends"),
    ("sndbuf_auto", "yes", "Linux 2.6 tcp_new_space: sndbuf = 2 * cwnd"),
    ("max_burst", "off", "Linux 2.6 moderates after recovery only; not modelled"),
    ("syn_retries", "5", "Linux 2.6 net.ipv4.tcp_syn_retries = 5"),
    ("retries", "15", "Linux 2.6 net.ipv4.tcp_retries2 = 15"),
    ("user_timeout", "off", "Linux 2.6.37 brought TCP_USER_TIMEOUT"),
    ("time_wait", "60s", "Linux 2.6 TCP_TIMEWAIT_LEN = 60*HZ"),
    ("fin_wait2", "60s", "Linux 2.6 net.ipv4.tcp_fin_timeout = 60"),
    ("backlog", "128", "Linux 2.6 net.core.somaxconn = 128"),
    ("syncookies", "no", "Linux 2.6 net.ipv4.tcp_syncookies = 0 (1 from 2.6.37 where built in)"),
    ("pmtu", "yes", "Linux 2.6 net.ipv4.ip_no_pmtu_disc = 0"),
];

const NS: &str = "ns-2.35 has none";

/// ns-2.35: Agent/TCP/Sack1 to TCPSink/Sack1/DelAck, values as its Tcl prints them.
static NS2: Profile = [
    ("cc", "reno", "ns-2.35 Agent/TCP/Sack1"),
    ("iw", "2", "ns-2.35 Agent/TCP windowInit_ 2"),
    ("cwnd_unit", "bytes", "ns-2.35 counts packets of one size"),
    (
        "ssthresh",
        "flight",
        "ns-2.35 TcpAgent::slowdown takes windowd(), which is in flight where the sender is never idle",
    ),
    ("abc", "off", "ns-2.35 TcpAgent::opencwnd counts acknowledgements"),
    ("idle_restart", "yes", "ns-2.35 Agent/TCP slow_start_restart_ true"),
    ("cwnd_validation", "no", "ns-2.35 Agent/TCP QOption_ 0"),
    ("recovery", "sack", "ns-2.35 Agent/TCP/Sack1"),
    ("careful", "yes", "ns-2.35 Agent/TCP bugFix_ true"),
    ("dupthresh", "3", "ns-2.35 Agent/TCP numdupacks_ 3"),
    ("limited_transmit", "yes", "ns-2.35 Agent/TCP singledup_ 1"),
    ("prr", "no", "ns-2.35 Agent/TCP/Sack1 sends by its pipe_"),
    ("rack", "no", "ns-2.35 has none"),
    ("tlp", "no", "ns-2.35 has none"),
    ("hystart", "no", "ns-2.35 has none"),
    ("pacing", "no", "ns-2.35 has none"),
    ("undo", "no", NS),
    ("rto_initial", "3s", "ns-2.35 Agent/TCP rtxcur_init_ 3.0"),
    ("rto_min", "200ms", "ns-2.35 Agent/TCP minrto_ 0.2 (1 before 2004)"),
    ("rto_var_min", "0ms", "ns-2.35 TcpAgent::rtt_timeout: minrto_ bounds the sum"),
    ("rto_max", "60s", "ns-2.35 Agent/TCP maxrto_ 60"),
    ("tick", "10ms", "ns-2.35 Agent/TCP tcpTick_ 0.01"),
    ("rtt_sample", "once", "ns-2.35 Agent/TCP timestamps_ false"),
    ("sack", "yes", "ns-2.35 Agent/TCP/Sack1"),
    ("dsack", "no", "ns-2.35 Agent/TCPSink generateDSacks_ false"),
    ("timestamps", "no", "ns-2.35 Agent/TCP timestamps_ false"),
    ("wscale", "yes", "ns-2.35 has no window field: rcvbuf may be any size"),
    ("ecn", "no", "ns-2.35 Agent/TCP ecn_ 0"),
    ("nagle", "no", NS),
    ("delack", "100ms", "ns-2.35 Agent/TCPSink/DelAck interval_ 100ms"),
    ("ack_every", "2", "ns-2.35 DelAckSink::recv"),
    ("quickack", "0", NS),
    ("ack_push", "no", NS),
    ("push", "write", "ns-2.35 has no flags"),
    ("mss", "1000B", "ns-2.35 Agent/TCP packetSize_ 1000, headers beside it (useHeaders_ true)"),
    ("rcvbuf", "20000B", "ns-2.35 Agent/TCP window_ 20"),
    ("rcvbuf_auto", "no", "ns-2.35 has no receive buffer"),
    ("sndbuf", "1MB", "ns-2.35 has no send buffer: more than any window"),
    ("sndbuf_auto", "no", "ns-2.35 has no send buffer"),
    ("max_burst", "off", "ns-2.35 Agent/TCP maxburst_ 0"),
    ("syn_retries", "255", "ns-2.35 never gives up"),
    ("retries", "255", "ns-2.35 never gives up"),
    ("user_timeout", "off", NS),
    ("time_wait", "0ms", NS),
    ("fin_wait2", "60s", "as the other profiles: ns-2.35 has none"),
    ("backlog", "65535", NS),
    ("syncookies", "no", NS),
    ("pmtu", "yes", "as the other profiles: ns-2.35 has none"),
];

/// Linux 6.
pub(super) static MODERN: Profile = [
    ("cc", "cubic", "Linux 6 net.ipv4.tcp_congestion_control = cubic; RFC 9438"),
    ("iw", "10", "Linux 6 TCP_INIT_CWND = 10; RFC 6928"),
    (
        "cwnd_unit",
        "segments",
        "Linux 6 tcp_cong.c, tcp_cubic.c; CUBIC's share of Reno stays 9/17, where RFC 9438 §4.3 lets it rise to 1",
    ),
    ("ssthresh", "window", "Linux 6 tcp_reno_ssthresh, cubictcp_recalc_ssthresh: of snd_cwnd"),
    ("abc", "1000", "Linux 6 tcp_slow_start counts all segments acknowledged, without a limit"),
    (
        "idle_restart",
        "decay",
        "Linux 6 tcp_slow_start_after_idle = 1: tcp_cwnd_restart halves once an RTO (RFC 2861)",
    ),
    ("cwnd_validation", "yes", "Linux 6 tcp_is_cwnd_limited"),
    ("recovery", "sack", "Linux 6 tcp_sack = 1; RFC 6675, found by RACK-TLP"),
    ("careful", "yes", "RFC 6582 §3.2 step 2"),
    ("dupthresh", "3", "Linux 6 net.ipv4.tcp_reordering = 3"),
    ("limited_transmit", "yes", "RFC 3042"),
    ("prr", "yes", "Linux 6 tcp_cwnd_reduction; RFC 6937"),
    (
        "rack",
        "yes",
        "Linux 6 net.ipv4.tcp_recovery = 1; RFC 8985; measured: pages at 1 and 3 % loss 2 to 17 % sooner",
    ),
    ("tlp", "yes", "Linux 6 net.ipv4.tcp_early_retrans = 3; RFC 8985 §7"),
    ("hystart", "linux", "Linux 6 tcp_cubic.c: hystart = 1, hystart_detect = 3"),
    ("pacing", "no", "Linux 6 paces CUBIC only under fq; measured: no more goodput over 16 seeds"),
    ("undo", "yes", "Linux 6 tcp_try_undo_recovery, tcp_try_undo_loss"),
    ("rto_initial", "1s", "Linux 6 TCP_TIMEOUT_INIT = 1*HZ; RFC 6298 §2.1"),
    ("rto_min", "200ms", "Linux 6 TCP_RTO_MIN = HZ/5"),
    (
        "rto_var_min",
        "200ms",
        "Linux 6 tcp_rtt_estimator: tcp_rto_min bounds mdev_max_us, and RTO = SRTT + that",
    ),
    ("rto_max", "120s", "Linux 6 TCP_RTO_MAX = 120*HZ"),
    ("tick", "1ms", "Linux 6 TCP_TS_HZ = 1000"),
    ("rtt_sample", "every", "Linux 6 tcp_ack_update_rtt"),
    ("sack", "yes", "Linux 6 net.ipv4.tcp_sack = 1"),
    ("dsack", "yes", "Linux 6 net.ipv4.tcp_dsack = 1"),
    ("timestamps", "yes", "Linux 6 net.ipv4.tcp_timestamps = 1"),
    ("wscale", "yes", "Linux 6 net.ipv4.tcp_window_scaling = 1"),
    ("ecn", "no", "Linux 6 net.ipv4.tcp_ecn = 2: not asked for by clients"),
    (
        "nagle",
        "no",
        "HTTP sets TCP_NODELAY: curl since 7.50.2 (CURLOPT_TCP_NODELAY 1), Chromium net/socket, nginx tcp_nodelay on",
    ),
    ("delack", "40ms", "Linux 6 TCP_DELACK_MIN = HZ/25"),
    ("ack_every", "2", "Linux 6 __tcp_ack_snd_check; RFC 9293 §3.8.6.3"),
    ("quickack", "16", "Linux 6 TCP_MAX_QUICKACKS = 16"),
    ("ack_push", "yes", "Linux 6 __tcp_cleanup_rbuf, tcp_measure_rcv_mss, tcp_grow_window"),
    ("push", "burst", "Linux 5.4 and later set PSH on the last of segments that leave together (TSO)"),
    ("mss", "auto", "the interface's MTU"),
    ("rcvbuf", "6291456B", "Linux 6 tcp_rmem = 4096 131072 6291456: where autotuning ends"),
    ("rcvbuf_auto", "yes", "Linux 6 tcp_rcv_space_adjust; the first window is 64 KiB"),
    ("sndbuf", "4MiB", "Linux 6 tcp_wmem = 4096 16384 4194304: where autotuning ends"),
    ("sndbuf_auto", "yes", "Linux 6 tcp_sndbuf_expand: 2 * max(cwnd, 10)"),
    ("max_burst", "off", "Linux 6 paces CUBIC only under fq"),
    ("syn_retries", "6", "Linux 6 net.ipv4.tcp_syn_retries = 6"),
    ("retries", "15", "Linux 6 net.ipv4.tcp_retries2 = 15"),
    ("user_timeout", "off", "Linux 6 TCP_USER_TIMEOUT unset"),
    ("time_wait", "60s", "Linux 6 TCP_TIMEWAIT_LEN = 60*HZ"),
    ("fin_wait2", "60s", "Linux 6 net.ipv4.tcp_fin_timeout = 60"),
    ("backlog", "4096", "Linux 6 net.core.somaxconn = 4096"),
    (
        "syncookies",
        "no",
        "ours: Linux 6 net.ipv4.tcp_syncookies = 1 (auto), but then a short backlog forgets peers that believe they are open",
    ),
    ("pmtu", "yes", "Linux 6 net.ipv4.ip_no_pmtu_disc = 0"),
];
