//! Linux 2.6.11 of March 2005, which came before CUBIC and before buffers of 4 MiB.
//!
//! The values were read in Linux 2.6.12-rc2 (commit 1da177e4c3f4), the first version in the public history and the next
//! release after 2.6.11. docs/period-hosts.md has a table of the behaviours of this version, the functions that were
//! read, and what is not modelled.

use super::MODERN;
use anabranch_base::knobs::Profile;

/// The text that is given as the source of a value if Linux 2.6.11 does not have the feature.
const NONE: &str = "Linux 2.6.11 has none";

pub(super) const PROFILE: Profile = Profile {
    name: "linux-2.6.11",
    parent: Some(&MODERN),
    rows: &[
        ("cc", "bic", "tcp_input.c sysctl_tcp_bic = 1: bictcp_cwnd, reno_cong_avoid"),
        ("iw", "rfc5681", "tcp_input.c tcp_init_cwnd: two to four (2 without kept metrics; not modelled)"),
        ("cwnd_unit", "segments", "tcp.h struct tcp_sock: snd_cwnd counts packets"),
        ("ssthresh", "window", "tcp.h tcp_recalc_ssthresh: of snd_cwnd"),
        ("abc", "off", "tcp_input.c tcp_ack: one tcp_cong_avoid for each acknowledgement"),
        ("idle_restart", "decay", "tcp_output.c tcp_cwnd_restart (RFC 2861)"),
        ("cwnd_validation", "yes", "tcp_input.c tcp_ack: prior_in_flight >= snd_cwnd"),
        ("recovery", "sack", "tcp_input.c sysctl_tcp_sack = 1"),
        ("careful", "yes", "tcp_input.c tcp_try_undo_recovery: high_seq is held for Reno"),
        ("fack", "yes", "tcp_input.c sysctl_tcp_fack = 1: tcp_time_to_recover, tcp_update_scoreboard"),
        ("dupthresh", "3", "tcp.h TCP_FASTRETRANS_THRESH = 3 (its adaptation is not modelled)"),
        ("limited_transmit", "yes", "tcp.h tcp_packets_in_flight leaves out what was SACKed"),
        ("prr", "no", "Linux 3.2 brought it"),
        ("rate_halving", "yes", "tcp_input.c tcp_cwnd_down, tcp_complete_cwr"),
        ("moderation", "yes", "tcp_input.c tcp_moderate_cwnd; tcp.h tcp_max_burst = 3"),
        ("rack", "no", "Linux 4.4 brought it"),
        ("tlp", "no", "Linux 3.10 brought it"),
        ("hystart", "no", "Linux 2.6.29 brought it"),
        ("pacing", "no", "Linux 3.12 brought it"),
        ("undo", "yes", "tcp_input.c tcp_may_undo, tcp_undo_cwr"),
        ("rto_initial", "3s", "tcp.h TCP_TIMEOUT_INIT = 3*HZ"),
        ("rto_min", "200ms", "tcp.h TCP_RTO_MIN = HZ/5"),
        ("rto_var_min", "200ms", "tcp_input.c tcp_rtt_estimator: mdev_max >= TCP_RTO_MIN"),
        ("rto_max", "120s", "tcp.h TCP_RTO_MAX = 120*HZ"),
        ("tick", "1ms", "asm-i386/param.h HZ = 1000"),
        ("rtt_sample", "every", "tcp_input.c tcp_ack_update_rtt"),
        ("sack", "yes", "tcp_input.c sysctl_tcp_sack = 1"),
        ("dsack", "yes", "tcp_input.c sysctl_tcp_dsack = 1"),
        ("timestamps", "yes", "tcp_input.c sysctl_tcp_timestamps = 1"),
        ("wscale", "yes", "tcp_input.c sysctl_tcp_window_scaling = 1"),
        ("ecn", "no", "tcp_input.c sysctl_tcp_ecn = 0"),
        ("nagle", "minshall", "tcp.h tcp_nagle_check, tcp_minshall_check"),
        ("delack", "40ms", "tcp.h TCP_ATO_MIN = HZ/25 (its growth is not modelled)"),
        ("ack_every", "2", "tcp_input.c __tcp_ack_snd_check: more than one full segment"),
        ("quickack", "16", "tcp.h TCP_MAX_QUICKACKS = 16"),
        ("quickack_window", "yes", "tcp_input.c tcp_incr_quickack: rcv_wnd/(2*rcv_mss)"),
        ("ack_push", "yes", "tcp.c cleanup_rbuf, tcp_input.c tcp_grow_window"),
        ("psh_counts", "no", "tcp_input.c tcp_measure_rcv_mss: only a small segment sets TCP_ACK_PUSHED"),
        ("push", "write", "tcp.c tcp_push (and half a window: forced_push, not modelled)"),
        (
            "fin",
            "waiting",
            "tcp_output.c tcp_send_fin: on the last segment that waits; tcp.c tcp_push sends at each write",
        ),
        ("fin_delack", "yes", "tcp_input.c tcp_fin: pingpong in ESTABLISHED"),
        ("mss", "auto", "tcp_output.c tcp_sync_mss (half of the window bounds it; not modelled)"),
        (
            "rcvbuf",
            "131070B",
            "tcp.c sysctl_tcp_rmem = 4096 87380 174760, three quarters (tcp_adv_win_scale = 2)",
        ),
        ("rcvbuf_auto", "yes", "tcp_input.c sysctl_tcp_moderate_rcvbuf = 1: tcp_rcv_space_adjust"),
        (
            "first_window",
            "segments",
            "tcp_output.c tcp_select_initial_window, tcp_input.c tcp_init_buffer_space",
        ),
        ("sndbuf", "131072B", "tcp.c sysctl_tcp_wmem = 4096 16384 131072"),
        ("sndbuf_auto", "yes", "tcp_input.c tcp_new_space: 2 * cwnd"),
        ("max_burst", "off", "tcp.h tcp_max_burst: moderation"),
        ("syn_retries", "5", "tcp.h TCP_SYN_RETRIES = 5"),
        ("syn_queue", "scan", "tcp_timer.c tcp_synack_timer, tcp_ipv4.c tcp_v4_conn_request"),
        ("route_metrics", "yes", "tcp_input.c tcp_update_metrics, tcp_init_metrics"),
        ("retries", "15", "tcp.h TCP_RETR2 = 15"),
        (
            "window_probe",
            "empty",
            "tcp_output.c tcp_write_wakeup, tcp_xmit_probe_skb; tcp_input.c tcp_ack_probe",
        ),
        ("user_timeout", "off", NONE),
        ("time_wait", "60s", "tcp.h TCP_TIMEWAIT_LEN = 60*HZ"),
        ("fin_wait2", "60s", "tcp.h TCP_FIN_TIMEOUT = 60*HZ"),
        ("backlog", "128", "socket.h SOMAXCONN = 128"),
        ("syncookies", "no", "tcp_ipv4.c sysctl_tcp_syncookies = 0"),
        ("pmtu", "yes", "ip.h ipv4_config.no_pmtu_disc = 0"),
    ],
};
