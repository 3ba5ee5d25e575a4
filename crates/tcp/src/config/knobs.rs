//! The table of knobs. Each row of the table declares one setting of a TCP endpoint, with its default, the source of
//! the default, its text form and its help.
//!
//! The defaults are those of the profile `modern`: Linux 6.

use super::forms::{
    BURST, Buffer, CC, COUNTING, CWND_UNIT, FIN, FIRST_WINDOW, HYSTART, IDLE, INITIAL_WINDOW, LIMIT, NAGLE,
    Number, PUSH, RECOVERY, SAMPLING, SEGMENT, SSTHRESH, SWITCH, SYN_QUEUE, SYNCOOKIES, Span, SpanOrZero,
    WINDOW_PROBE,
};
use super::{
    Cc, CwndUnit, Fin, FirstWindow, Nagle, Push, RecoveryKind, RttSampling, Ssthresh, SynCookies, SynQueue,
    WindowProbe,
};
use anabranch_base::time::Duration;
use anabranch_congestion::reno::{AfterIdle, Counting};
use anabranch_congestion::{InitialWindow, SlowStartExit};

anabranch_base::knobs! {
    /// The settings of an endpoint, built from a profile and changed by key.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Config {
        /// Congestion control.
        cc: Cc = Cc::Cubic, "Linux 6 net.ipv4.tcp_congestion_control = cubic; RFC 9438",
            CC, "congestion control: reno, cubic, bic (Linux 2.6.11, sets cwnd_unit=segments, hystart=no), or bbr (version 3), which sets recovery=sack, rack=yes, prr=no, hystart=no and cwnd_unit=bytes";
        /// Initial congestion window.
        iw: InitialWindow = InitialWindow::Packets(10), "Linux 6 TCP_INIT_CWND = 10; RFC 6928",
            INITIAL_WINDOW, "initial window: segments (1 to 64), rfc5681 or rfc6928";
        /// The unit in which the congestion window is counted.
        cwnd_unit: CwndUnit = CwndUnit::Segments,
            "Linux 6 tcp_cong.c, tcp_cubic.c; CUBIC's share of Reno stays 9/17, where RFC 9438 §4.3 lets it rise to 1",
            CWND_UNIT,
            "the window counts bytes, or whole segments with the arithmetic of Linux, which has no abc: bytes or segments";
        /// The quantity that determines the slow-start threshold after a loss: the threshold is a share of it.
        ssthresh: Ssthresh = Ssthresh::Window, "Linux 6 tcp_reno_ssthresh, cubictcp_recalc_ssthresh: of snd_cwnd",
            SSTHRESH,
            "the threshold after a loss is a share of what was in flight (RFC 5681), or of the window: flight or window";
        /// What makes the congestion window grow: the number of acknowledgements, or the number of acknowledged bytes.
        abc: Counting = Counting::Bytes { limit: 1000 },
            "Linux 6 tcp_slow_start counts all segments acknowledged, without a limit",
            COUNTING,
            "off: a window grows for each acknowledgement; N: by acknowledged bytes, in slow start by at most N segments each";
        /// How an idle period changes the congestion window.
        idle_restart: AfterIdle = AfterIdle::Decay,
            "Linux 6 tcp_slow_start_after_idle = 1: tcp_cwnd_restart halves once an RTO (RFC 2861)",
            IDLE, "after an idle RTO the window falls back: yes, no, or decay (RFC 2861)";
        /// With this switch, the congestion window grows only while the sender uses all of it.
        cwnd_validation: bool = true, "Linux 6 tcp_is_cwnd_limited",
            SWITCH, "the window grows only while it is used: yes or no";
        /// How lost segments are repaired.
        recovery: RecoveryKind = RecoveryKind::Sack, "Linux 6 tcp_sack = 1; RFC 6675, found by RACK-TLP",
            RECOVERY, "loss recovery: reno, newreno or sack";
        /// RFC 6582 §3.2 step 2: retransmissions after a timeout may cause duplicate acknowledgements. With this
        /// switch, they start no fast retransmit.
        careful: bool = true, "RFC 6582 §3.2 step 2",
            SWITCH, "no fast retransmit on duplicate ACKs for retransmissions after a timeout (RFC 6582): yes or no";
        /// Forward acknowledgement (FACK): losses are detected from the distance in sequence space. A segment counts as
        /// lost if it lies at least `dupthresh` segments before the highest SACKed segment. Lost retransmissions are
        /// also detected.
        fack: bool = false, "Linux 4.15 removed it; Linux 2.6 tcp_update_scoreboard, tcp_sacktag_write_queue",
            SWITCH, "with recovery=sack and rack=no, losses are found by FACK (Linux 2.6): yes or no";
        /// The number of duplicate acknowledgements that indicates a loss.
        dupthresh: u32 = 3, "Linux 6 net.ipv4.tcp_reordering = 3",
            Number(1, 127), "duplicate acknowledgements that mean a loss: 1 to 127";
        /// RFC 3042: the first two duplicate acknowledgements each allow a segment of new data.
        limited_transmit: bool = true, "RFC 3042",
            SWITCH, "new data on the first two duplicates (RFC 3042): yes or no";
        /// RFC 6937: during a recovery that uses SACK, the sending rate follows the rate at which data is delivered.
        prr: bool = true, "Linux 6 tcp_cwnd_reduction; RFC 6937",
            SWITCH, "proportional rate reduction in recoveries by SACK (RFC 6937): yes or no";
        /// During a recovery that uses SACK, the window falls by one segment for every second acknowledgement.
        rate_halving: bool = false, "Linux 3.2 replaced it by prr; Linux 2.6 tcp_cwnd_down",
            SWITCH, "rate halving in recoveries by SACK (Linux 2.6), without prr: yes or no";
        /// After an acknowledgement that may reveal a loss, and after a recovery, the window is at most three segments
        /// larger than the data in flight.
        moderation: bool = false, "Linux 4.3 removed it; Linux 2.6 tcp_moderate_cwnd, tcp_max_burst",
            SWITCH, "no burst of more than three segments after a dubious acknowledgement (Linux 2.6): yes or no";
        /// RFC 8985 §6: with SACK, losses are detected by time.
        rack: bool = true,
            "Linux 6 net.ipv4.tcp_recovery = 1; RFC 8985; measured: pages at 1 and 3 % loss 2 to 17 % faster",
            SWITCH, "with SACK, losses are found by time (RFC 8985): yes or no";
        /// RFC 8985 §7: tail loss probes are sent. Has an effect only together with `rack`.
        tlp: bool = true, "Linux 6 net.ipv4.tcp_early_retrans = 3; RFC 8985 §7",
            SWITCH, "with rack=yes, tail loss probes (RFC 8985 §7): yes or no";
        /// The algorithm that may end slow start before a loss does.
        hystart: Option<SlowStartExit> = Some(SlowStartExit::Linux),
            "Linux 6 tcp_cubic.c: hystart = 1, hystart_detect = 3",
            HYSTART,
            "slow start ends when round trips grow: yes (HyStart++, RFC 9406), linux (HyStart, with cc=cubic) or no";
        /// Segments are paced over the round-trip time.
        pacing: bool = false, "Linux 6 paces CUBIC only under fq; measured: no more goodput over 16 seeds",
            SWITCH, "segments are spread over the round trip: yes or no";
        /// Undo window reductions that turn out to be spurious (RFC 3522 by timestamps, RFC 3708 by DSACK).
        undo: bool = true, "Linux 6 tcp_try_undo_recovery, tcp_try_undo_loss",
            SWITCH, "undo a reduction if the loss was spurious: yes or no";
        /// RTO before the first measurement.
        rto_initial: Duration = Duration::from_secs(1), "Linux 6 TCP_TIMEOUT_INIT = 1*HZ; RFC 6298 §2.1",
            Span, "RTO before the first measurement: a time";
        /// Smallest RTO.
        rto_min: Duration = Duration::from_millis(200), "Linux 6 TCP_RTO_MIN = HZ/5",
            Span, "smallest RTO: a time";
        /// The minimum of the RTT variation term that is added to the smoothed RTT to compute the RTO.
        rto_var_min: Duration = Duration::from_millis(200),
            "Linux 6 tcp_rtt_estimator: tcp_rto_min bounds mdev_max_us, and RTO = SRTT + that",
            SpanOrZero, "lower bound of the RTT variation in the RTO: a time, 0 for the clock's granularity";
        /// Largest RTO.
        rto_max: Duration = Duration::from_secs(120), "Linux 6 TCP_RTO_MAX = 120*HZ",
            Span, "largest RTO: a time";
        /// Clock granularity: G of RFC 6298, and the tick of the timestamp option.
        tick: Duration = Duration::from_millis(1), "Linux 6 TCP_TS_HZ = 1000",
            Span, "clock granularity of RTO and timestamps: a time";
        /// How often the round-trip time is measured.
        rtt_sample: RttSampling = RttSampling::Every, "Linux 6 tcp_ack_update_rtt",
            SAMPLING, "round trips measured: every acknowledgement, or once a round trip";
        /// Offer and accept SACK (RFC 2018).
        sack: bool = true, "Linux 6 net.ipv4.tcp_sack = 1", SWITCH, "selective acknowledgements: yes or no";
        /// Report duplicates by SACK (RFC 2883).
        dsack: bool = true, "Linux 6 net.ipv4.tcp_dsack = 1", SWITCH, "report duplicates by SACK: yes or no";
        /// Offer and accept timestamps (RFC 7323 §3).
        timestamps: bool = true, "Linux 6 net.ipv4.tcp_timestamps = 1", SWITCH, "timestamp option: yes or no";
        /// Offer and accept window scaling (RFC 7323 §2).
        wscale: bool = true, "Linux 6 net.ipv4.tcp_window_scaling = 1",
            SWITCH, "window scale option: yes or no";
        /// Offer and accept ECN (RFC 3168).
        ecn: bool = false, "Linux 6 net.ipv4.tcp_ecn = 2: not asked for by clients",
            SWITCH, "explicit congestion notification: yes or no";
        /// When a segment smaller than the maximum waits for more data (Nagle's algorithm, RFC 9293 §3.7.4).
        nagle: Nagle = Nagle::No,
            "HTTP sets TCP_NODELAY: curl since 7.50.2 (CURLOPT_TCP_NODELAY 1), Chromium net/socket, nginx tcp_nodelay on",
            NAGLE,
            "a small segment waits while data (yes) or another small one (minshall) is unacknowledged: yes, no, minshall";
        /// How long an acknowledgement may be delayed; zero means not at all.
        delack: Duration = Duration::from_millis(40), "Linux 6 TCP_DELACK_MIN = HZ/25",
            SpanOrZero, "longest delay of an acknowledgement: a time, 0 for none";
        /// At least every N-th data segment is acknowledged immediately.
        ack_every: u32 = 2, "Linux 6 __tcp_ack_snd_check; RFC 9293 §3.8.6.3",
            Number(1, 64), "acknowledge every N-th segment: 1 to 64";
        /// The number of segments at the start of a connection that are acknowledged immediately. Once this side has
        /// answered data with data within the time `delack`, acknowledgements of the rest of these segments may also be
        /// delayed.
        quickack: u32 = 16, "Linux 6 TCP_MAX_QUICKACKS = 16",
            Number(0, 1_000_000), "first segments that are acknowledged at once: a number";
        /// Whether the number of immediate acknowledgements at the start of a connection is the number of segments that
        /// fit into half of the offered window. It is two if none fits, and at most `quickack`.
        quickack_window: bool = false, "ours: off (Linux 6 does it: tcp_incr_quickack)",
            SWITCH, "quick acknowledgements for half a window of segments, at most quickack (Linux): yes or no";
        /// Whether acknowledgements are sent early as in Linux. Data with PSH is then acknowledged once the application
        /// has read it, and a segment that widens the receive window is acknowledged immediately.
        ack_push: bool = true, "Linux 6 __tcp_cleanup_rbuf, tcp_measure_rcv_mss, tcp_grow_window",
            SWITCH,
            "a pushed segment is acknowledged once it is read, one that widens the window at once (Linux): yes or no";
        /// Whether a full segment with PSH is acknowledged once the application has read it. If not, only a small
        /// segment is. Has an effect only together with `ack_push`.
        psh_counts: bool = true, "Linux 6 tcp_measure_rcv_mss; from Linux 2.6.16 on",
            SWITCH, "with ack_push=yes, the flag PSH of a full segment counts: yes or no";
        /// Which segments carry PSH: the last segment of each write, or the last segments of each write and of each
        /// burst.
        push: Push = Push::Bursts, "Linux 5.4 and later set PSH on the last of segments that leave together (TSO)",
            PUSH, "PSH marks the end of each write, or of each burst, too: write or burst";
        /// Which segment carries the FIN: the last data segment or a segment of its own.
        fin: Fin = Fin::Data, "Linux 6 tcp_send_fin: on the last segment that waits, if one does",
            FIN, "the FIN is sent with unsent data, alone, or with data that has to wait (Linux): data, alone or waiting";
        /// Whether the acknowledgement of the peer's FIN is delayed like that of data, so that our FIN can carry it.
        /// Otherwise it is sent immediately.
        fin_delack: bool = false, "RFC 9293 §3.10.7.4 (Linux 6 tcp_fin waits where the peer closes first: not taken over)",
            SWITCH, "the acknowledgement of a FIN waits for one of our own, as Linux's does: yes or no";
        /// The size of the largest segment in bytes, including TCP options. With `None`, the MTU determines it.
        mss: Option<u32> = None, "the interface's MTU",
            SEGMENT, "largest segment: a size of 88B to 65495B, or auto for what the MTU allows";
        /// Receive buffer in bytes: the largest window offered.
        rcvbuf: u64 = 6_291_456, "Linux 6 tcp_rmem = 4096 131072 6291456: where autotuning ends",
            Buffer, "receive buffer: a size of 256B to 1GiB";
        /// The offered window starts at 64 KiB and grows with the amount that the application reads, up to `rcvbuf`.
        rcvbuf_auto: bool = true, "Linux 6 tcp_rcv_space_adjust; the first window is 64 KiB",
            SWITCH, "the window begins at 64 KiB and grows with what is read, up to rcvbuf: yes or no";
        /// The first receive window that a connection offers, if the window grows later (`rcvbuf_auto`).
        first_window: FirstWindow = FirstWindow::Bytes64K, "Linux 6 tcp_select_initial_window: 64 KiB",
            FIRST_WINDOW,
            "first window offered: 64KiB, or segments (two to four, and one kept in reserve: Linux 2.6)";
        /// Send buffer in bytes: unsent and unacknowledged data.
        sndbuf: u64 = 4 << 20, "Linux 6 tcp_wmem = 4096 16384 4194304: where autotuning ends",
            Buffer, "send buffer: a size of 256B to 1GiB";
        /// The send buffer starts small and grows to twice the congestion window, up to `sndbuf`.
        sndbuf_auto: bool = true, "Linux 6 tcp_sndbuf_expand: 2 * max(cwnd, 10)",
            SWITCH, "the send buffer grows to twice the window, up to sndbuf: yes or no";
        /// The largest number of segments sent in response to one event; `None` for no limit.
        max_burst: Option<u32> = None, "Linux 6 paces CUBIC only under fq",
            BURST, "most segments in answer to one event: a number; off (or 0) for no limit";
        /// Retransmissions of a SYN or SYN-ACK before giving up.
        syn_retries: u32 = 6, "Linux 6 net.ipv4.tcp_syn_retries = 6",
            Number(0, 255), "retransmissions of a SYN: 0 to 255";
        /// Timeouts in a row before giving up an open connection (R2 of RFC 9293 §3.8.3).
        retries: u32 = 15, "Linux 6 net.ipv4.tcp_retries2 = 15",
            Number(0, 255), "timeouts in a row that end a connection: 0 to 255";
        /// What probes a closed window. With `empty`, an acknowledgement of a probe starts the wait for the next one anew.
        window_probe: WindowProbe = WindowProbe::Empty,
            "Linux 6 tcp_write_wakeup, tcp_xmit_probe_skb, tcp_ack_probe",
            WINDOW_PROBE, "a closed window is probed with a byte of data (RFC 9293), or without data (Linux): data or empty";
        /// A connection ends if nothing was acknowledged for this time. With `None`, only `retries` limits the wait.
        user_timeout: Option<Duration> = None, "Linux 6 TCP_USER_TIMEOUT unset",
            LIMIT, "end a connection if nothing was acknowledged for this time, or off";
        /// How long TIME-WAIT lasts: twice the maximum segment lifetime.
        time_wait: Duration = Duration::from_secs(60), "Linux 6 TCP_TIMEWAIT_LEN = 60*HZ",
            SpanOrZero, "length of TIME-WAIT: a time";
        /// How long a closed socket waits for the peer's FIN.
        fin_wait2: Duration = Duration::from_secs(60), "Linux 6 net.ipv4.tcp_fin_timeout = 60",
            Span, "how long a closed socket waits for the peer's FIN: a time";
        /// The default listen backlog: the limit on half-open connections, and on open connections not yet accepted.
        backlog: u32 = 4096, "Linux 6 net.core.somaxconn = 4096",
            Number(1, 65_535), "listen backlog: 1 to 65535";
        /// How a listener keeps half-open connections and repeats SYN-ACKs. With `scan`, a half-open connection is
        /// forgotten if the host cannot send its SYN-ACK, and repeated SYN-ACKs do not reduce the initial window.
        syn_queue: SynQueue = SynQueue::Timers, "Linux 4.4 gave each request a timer; RFC 6298 §5",
            SYN_QUEUE, "SYN ACKs are repeated by timers, or by a scan every 200 ms (Linux 2.6): timers or scan";
        /// The slow-start threshold of a connection is kept for the next connection to the same host.
        route_metrics: bool = false, "ours: off (Linux 6 net.ipv4.tcp_no_ssthresh_metrics_save = 1)",
            SWITCH, "keep the slow-start threshold for the next connection to a host (Linux 2.6): yes or no";
        /// When a listener answers a SYN with a SYN cookie (RFC 4987).
        syncookies: SynCookies = SynCookies::No,
            "ours: Linux 6 net.ipv4.tcp_syncookies = 1 (auto), but then a short backlog forgets peers whose connection is open",
            SYNCOOKIES, "SYN cookies: no, auto (when the backlog is full) or yes (always)";
        /// ICMP messages may lower the path MTU (RFC 1191).
        pmtu: bool = true, "Linux 6 net.ipv4.ip_no_pmtu_disc = 0",
            SWITCH, "use the path MTU that ICMP reports: yes or no";
    }
    beside {}
}
