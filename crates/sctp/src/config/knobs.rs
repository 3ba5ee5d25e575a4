//! The table of knobs: each setting with its default, the source of the default, its text form and its help.
//!
//! The defaults are the profile `rfc9260`. Fields that are not knobs follow the table.

use super::forms::{
    BURST, Count, DELAYED_ACK, Exact, INITIAL_WINDOW, INTERVAL, Names, Or, SWITCH, Size, Span, SpanOrZero,
    Text,
};
use super::profiles::OURS;
use super::{
    Algorithm, ChunkSet, Hmacs, InitialWindow, PathMtu, ReconfigRequests, RetransmitPath, SackPath,
    SchedulerKind, SharedKeys,
};
use anabranch_base::Budget;
use anabranch_base::time::Duration;
use anabranch_congestion::SlowStartExit;

const EXTENSION: &str = "an extension, not part of RFC 9260";
const OURS_BUFFER: &str = "ours: the source leaves it open; large enough not to be the limit";

anabranch_base::knobs! {
    /// All settings of an endpoint. Start with a profile, then change knobs by key.
    #[derive(Clone, PartialEq, Eq, Debug)]
    pub struct Config {
        /// The congestion control algorithm.
        cc: Algorithm = Algorithm::Rfc9260, "RFC 9260 §7.2",
            Names(&[
                ("rfc9260", Algorithm::Rfc9260),
                ("reno", Algorithm::Rfc9260),
                ("rfc4960", Algorithm::Rfc4960),
                ("rfc2960", Algorithm::Rfc2960),
                ("cubic", Algorithm::Cubic),
                ("bbr", Algorithm::Bbr),
            ]),
            "congestion control: rfc9260 (also: reno), rfc4960, rfc2960, cubic or bbr (version 3), which sets rack=yes, prr=no and hystart=no";
        /// The initial congestion window.
        iw: InitialWindow = InitialWindow::Rfc9260, "RFC 9260 §7.2.1",
            INITIAL_WINDOW, "initial window: packets from 1 to 100, or the formula of rfc4960 or rfc9260";
        /// RTO.Initial: the retransmission timeout before the first round-trip measurement.
        rto_initial: Duration = Duration::from_secs(1), "RFC 9260 §16",
            Span, "retransmission timeout before the first measurement, such as 1s";
        /// The side that accepts an association takes a first RTT sample from the age of the State Cookie. The sample
        /// counts until data gives one, and only if it does not raise the RTO.
        rtt_from_cookie: bool = false, "ours: RFC 9260 §6.3.1 C5 forbids samples of retransmitted chunks, and a COOKIE ECHO may be one",
            SWITCH, "the accepting side takes a first round-trip sample from the age of the State Cookie: yes or no";
        /// RTO.Min: the smallest retransmission timeout.
        rto_min: Duration = Duration::from_secs(1), "RFC 9260 §16",
            Span, "smallest retransmission timeout, such as 1s or 200ms";
        /// The smallest value that the RTT variation (4·RTTVAR) adds to the RTO. Zero stands for the clock granularity.
        rto_var_min: Duration = Duration::ZERO, "RFC 9260 §6.3.1: the clock granularity G alone",
            SpanOrZero, "lower bound of the RTT variation in the RTO, such as 200ms; 0 = the clock granularity";
        /// RTO.Max: the largest retransmission timeout.
        rto_max: Duration = Duration::from_secs(60), "RFC 9260 §16",
            Span, "largest retransmission timeout, such as 60s";
        /// SACK.Delay: the longest delay of a SACK. Zero acknowledges every packet immediately.
        delack: Duration = Duration::from_millis(200), "RFC 9260 §16 (SACK.Delay)",
            DELAYED_ACK, "longest delay of a SACK up to 500ms, such as 200ms; 0 = none";
        /// A SACK is sent at least every `ack_every` packets with DATA.
        ack_every: u32 = 2, "RFC 9260 §6.2", Count(1, 100), "packets of data to a SACK, from 1 to 100";
        /// The maximum number of user bytes in a DATA chunk. `None` means as many as the path MTU allows.
        mss: Option<u32> = None, "RFC 9260 §6.9",
            Or("auto", Exact(64, 65_000)),
            "most user bytes in a DATA chunk, such as 1452B, from 64B to 65000B; auto = what the path MTU allows";
        /// The receive buffer in bytes: the initial a_rwnd.
        rcvbuf: u64 = 1 << 20, OURS_BUFFER,
            Size(1500, 1 << 30), "receive buffer, such as 1MiB, from 1500B to 1GiB";
        /// The send buffer in bytes, for unsent and unacknowledged messages.
        sndbuf: u64 = 1 << 20, OURS_BUFFER,
            Size(1500, 1 << 30), "send buffer, such as 1MiB, from 1500B to 1GiB";
        /// Max.Burst in packets; `None` for no limit.
        max_burst: Option<u32> = Some(4), "RFC 9260 §16",
            BURST, "most packets sent at one occasion, from 1 to 10000; 0 (or off) = no limit";
        /// The number of miss indications that trigger a fast retransmit.
        dupthresh: u32 = 3, "RFC 9260 §7.2.4",
            Count(1, 100), "miss indications that trigger a fast retransmit, from 1 to 100";
        /// Fast recovery: the losses of one window reduce the congestion window once, and the window does not grow
        /// meanwhile.
        fast_recovery: bool = true, "RFC 9260 §7.2.4",
            SWITCH, "the losses of a window reduce the congestion window once; no = each fast retransmit reduces it (RFC 2960): yes or no";
        /// A chunk that was retransmitted is fast retransmitted again after another `dupthresh` miss indications, even
        /// if they acknowledge only chunks that were sent before the retransmission.
        fast_again: bool = false, "RFC 9260 §7.2.4: a chunk is fast retransmitted once",
            SWITCH, "a chunk may be fast retransmitted more than once (Linux 2.6.11): yes or no";
        /// Max.Burst lowers the congestion window permanently: to the bytes in flight plus `max_burst` packets.
        burst_window: bool = false, "RFC 9260 §6.1 D (may)",
            SWITCH, "max_burst lowers the congestion window (RFC 4460 §2.14.2); no = it limits packets at one occasion: yes or no";
        /// RFC 8985 §6: losses are detected by time (RACK) instead of by miss indications.
        rack: bool = false, EXTENSION,
            SWITCH, "losses are found by time, not by miss indications (RFC 8985): yes or no";
        /// RFC 8985 §7: tail loss probes; needs `rack`.
        tlp: bool = false, EXTENSION, SWITCH, "with rack=yes, tail loss probes (RFC 8985 §7): yes or no";
        /// The algorithm that ends slow start before a loss, if any.
        hystart: Option<SlowStartExit> = None, EXTENSION,
            Names(&[("yes", Some(SlowStartExit::PlusPlus)), ("linux", Some(SlowStartExit::Linux)), ("no", None)]),
            "slow start ends when round trips grow: yes (HyStart++, RFC 9406), linux (HyStart, with cc=cubic) or no";
        /// With Linux's HyStart: the smallest round-trip time of a path on which HyStart is used.
        hystart_min_rtt: Duration = Duration::ZERO, "of hystart=linux alone",
            SpanOrZero, "with hystart=linux, the least round trip of a path that it watches, such as 1ms; 0 = any";
        /// Packet pacing: packets are spread over the round trip.
        pacing: bool = false, EXTENSION, SWITCH, "packets are spread over the round trip: yes or no";
        /// RFC 6937, proportional rate reduction: in fast recovery, the number of bytes sent follows the number of
        /// bytes delivered.
        prr: bool = false, EXTENSION,
            SWITCH, "proportional rate reduction in fast recovery (RFC 6937): yes or no";
        /// Nagle: a small packet is delayed while data is unacknowledged (RFC 9260 §6.1).
        nagle: bool = false, "RFC 9260 §6.1 allows both; HTTP servers turn it off",
            SWITCH, "hold back a small packet while data is unacknowledged: yes or no";
        /// Explicit congestion notification (RFC 4960 Appendix A).
        ecn: bool = false, "RFC 9260 removed RFC 4960 Appendix A",
            SWITCH, "explicit congestion notification (RFC 4960 Appendix A): yes or no";
        /// Path.Max.Retrans: consecutive errors that a destination address survives.
        path_max_retrans: u32 = 5, "RFC 9260 §16",
            Count(0, 100), "errors in a row that a destination survives, from 0 to 100";
        /// PotentiallyFailed.Max.Retrans (RFC 7829); `None` turns the potentially failed state off.
        pf_max_retrans: Option<u32> = None, "RFC 7829: an option, not part of RFC 9260",
            Or("off", Count(0, 100)),
            "errors in a row after which data goes elsewhere (RFC 7829 PFMR), from 0 to 100; off = \
             path_max_retrans decides";
        /// Primary.Switchover.Max.Retrans (RFC 7829); with `None`, data returns to the primary path once that path
        /// works again.
        primary_switch: Option<u32> = None, "RFC 9260 §6.4.1 (failback); RFC 7829 §5 is an option",
            Or("off", Count(0, 100)),
            "errors in a row after which a primary is one no longer (RFC 7829 PSMR, at least PFMR), from 0 to 100; \
             off = data comes back to it";
        /// Association.Max.Retrans: consecutive errors that the association survives.
        assoc_max_retrans: u32 = 10, "RFC 9260 §16",
            Count(0, 1000), "errors in a row that the association survives, from 0 to 1000";
        /// The minimum time that consecutive errors must last before they end an association.
        assoc_silence: Duration = Duration::ZERO, "RFC 9260 §8.1: the number of errors alone",
            SpanOrZero,
            "consecutive errors end an association only after this time, such as 100s; 0 = after their number alone";
        /// Max.Init.Retransmits: the maximum number of retransmissions of an INIT, and of a COOKIE ECHO.
        init_max_retrans: u32 = 8, "RFC 9260 §16",
            Count(0, 100), "retransmissions of INIT and of COOKIE ECHO, from 0 to 100";
        /// HB.interval. With `None`, HEARTBEATs are sent only to confirm addresses.
        hb_interval: Option<Duration> = Some(Duration::from_secs(30)), "RFC 9260 §16",
            INTERVAL, "HEARTBEAT interval of an idle destination, such as 30s; 0 = none";
        /// The destination of SACKs.
        sack_path: SackPath = SackPath::Same, "RFC 9260 §6.4",
            Names(&[("same", SackPath::Same), ("other", SackPath::Other)]),
            "where SACKs go: same (where the data came from) or other (another active address)";
        /// Which retransmissions go to an alternate address.
        rtx_path: RetransmitPath = RetransmitPath::Timeout, "RFC 9260 §6.4",
            Names(&[
                ("same", RetransmitPath::Same),
                ("timeout", RetransmitPath::Timeout),
                ("all", RetransmitPath::All),
            ]),
            "what is retransmitted to an alternate address, if there is one: same (nothing), timeout (after a \
             timeout) or all";
        /// Valid.Cookie.Life: how long a State Cookie is valid.
        cookie_life: Duration = Duration::from_secs(60), "RFC 9260 §16",
            Span, "lifetime of a State Cookie, such as 60s";
        /// DATA may be sent in the packet of the COOKIE ECHO.
        cookie_data: bool = true, "RFC 9260 §5.1 C (may)", SWITCH, "DATA is sent with COOKIE ECHO: yes or no";
        /// The number of streams in each direction. INIT and INIT ACK carry this number.
        num_ostreams: u16 = 100, OURS, Count(1, 65_535), "outbound streams, from 1 to 65535; with max_instreams=auto as many inbound ones";
        /// The number of streams that the peer may send on; `None` for the number in `num_ostreams`.
        max_instreams: Option<u16> = None, OURS,
            Or("auto", Count(1, 65_535)),
            "streams that the peer may send on, from 1 to 65535; auto = as many as num_ostreams";
        /// The order in which the sender serves the streams.
        scheduler: SchedulerKind = SchedulerKind::Fcfs, OURS,
            Names(&[
                ("fcfs", SchedulerKind::Fcfs),
                ("rr", SchedulerKind::RoundRobin),
                ("rr_packet", SchedulerKind::RoundRobinPacket),
                ("priority", SchedulerKind::Priority),
                ("fair", SchedulerKind::Fair),
                ("wfq", SchedulerKind::WeightedFair),
            ]),
            "order of the streams at the sender: fcfs (as written), rr (in turn), rr_packet (in turn, a packet \
             each), priority, fair (as many bytes each) or wfq (bytes by weight)";
        /// An unfinished message is delivered in parts once this many bytes have arrived in order.
        partial_delivery: u64 = 1 << 16, OURS,
            Size(1, 1 << 30),
            "an unfinished message of more bytes than this is delivered in parts, such as 64KiB";
        /// How path MTUs are discovered.
        pmtud: PathMtu = PathMtu::Icmp, "RFC 9260 §7.3",
            Names(&[("icmp", PathMtu::Icmp), ("plpmtud", PathMtu::Plpmtud), ("blackhole", PathMtu::Blackhole)]),
            "how the path MTU is found out: icmp (messages of the network), plpmtud (probes, RFC 8899) or \
             blackhole (probes once packets vanish)";
        /// Partial reliability: messages may be abandoned with FORWARD-TSN (RFC 3758, RFC 7496).
        partial_reliability: bool = false, EXTENSION,
            SWITCH, "messages may be abandoned: FORWARD-TSN (RFC 3758, RFC 7496): yes or no";
        /// Interleaving: a large message does not delay other messages; uses I-DATA (RFC 8260).
        interleaving: bool = false, EXTENSION,
            SWITCH, "large messages do not hold up others: I-DATA (RFC 8260): yes or no";
        /// NR-SACK: the receiver never drops data that it has acknowledged out of order, so the sender can free that
        /// data at once (draft-natarajan-tsvwg-sctp-nrsack).
        nr_sack: bool = false, "an extension, an Internet draft",
            SWITCH,
            "what has arrived behind a gap is acknowledged for good: NR-SACK (draft-natarajan-tsvwg-sctp-nrsack): \
             yes or no";
        /// AUTH: chunks can be authenticated (RFC 4895).
        auth: bool = false, EXTENSION, SWITCH, "chunks can be authenticated: AUTH (RFC 4895): yes or no";
        /// The chunk types that the peer must authenticate. ASCONF and ASCONF-ACK chunks must always be authenticated,
        /// whatever this setting is.
        auth_chunks: ChunkSet = ChunkSet::default(), OURS,
            Text(ChunkSet::parse, ToString::to_string),
            "what is taken only authenticated: none, all, or data, sack, heartbeat, abort, shutdown, error, \
             cookie_echo, cookie_ack, reconfig and forward_tsn joined by +";
        /// The HMAC algorithms that the peer is asked to use.
        auth_hmac: Hmacs = Hmacs::Sha256First, OURS,
            Names(&[("sha256", Hmacs::Sha256First), ("sha1", Hmacs::Sha1Only)]),
            "HMACs that the peer is asked to use: sha256 (else sha1) or sha1";
        /// The adaptation code point that is sent to the peer (RFC 5061 §4.2.6).
        adaptation: Option<u32> = None, OURS,
            Or("none", Count(0, u32::MAX)),
            "code point of the layer above, sent to the peer (RFC 5061 §4.2.6): a number; none = not sent";
        /// ASCONF: addresses can be added and deleted (RFC 5061); needs auth=yes.
        asconf: bool = false, EXTENSION,
            SWITCH, "addresses can be added and deleted: ASCONF (RFC 5061); needs auth=yes: yes or no";
        /// Whether this side asks the peer to make each added address its primary destination (RFC 5061 §4.2.4); needs
        /// asconf=yes.
        asconf_primary: bool = false, "ours: RFC 5061 leaves it to the application",
            SWITCH, "ask the peer to send first to each address that is added (RFC 5061 §4.2.4); with asconf=yes: yes or no";
        /// RE-CONFIG: streams can be reset and added (RFC 6525).
        reconfig: bool = false, EXTENSION,
            SWITCH, "streams can be reset and added: RE-CONFIG (RFC 6525): yes or no";
        /// The requests that the peer may make with RE-CONFIG. Other requests are answered "Denied" (RFC 6525 §6.3.1).
        reconfig_requests: ReconfigRequests = ReconfigRequests::ALL, "ours: a peer that supports RE-CONFIG uses it (RFC 6525 §6.3.1, for its sockets: none)",
            Text(ReconfigRequests::parse, ToString::to_string),
            "what the peer may ask for by RE-CONFIG: none, all, or streams, association and change joined by +; \
             the rest is denied";
        /// The largest number of streams in each direction. The peer cannot add streams beyond this number with
        /// RE-CONFIG.
        max_streams: u16 = u16::MAX, "RFC 6525 §5.2.5 (should be configurable); ours: no limit of our own",
            Count(1, 65_535),
            "largest number of streams each way after the peer has added some, from 1 to 65535; needs reconfig=yes";
        /// Whether packets without a checksum are accepted. A lower layer must detect errors (RFC 9653).
        zero_checksum: bool = false, EXTENSION,
            SWITCH,
            "packets have no checksum (RFC 9653): yes or no; only over a lower layer that detects errors, such as DTLS";
        /// Whether INIT lists the supported address types (Supported Address Types parameter).
        address_types: bool = true, "RFC 9260 §5.1.2 (may)",
            SWITCH, "INIT lists the address types of this side (RFC 9260 §3.3.2.1.5): yes or no";
        /// An ICMP Protocol Unreachable ends an association only if the destination has had two consecutive timeouts.
        icmp_doubt: bool = false, "RFC 9260 §10 ICMP8: as good as an ABORT",
            SWITCH, "Protocol Unreachable (ICMP) ends an association only after two timeouts in a row: yes or no";
        /// Whether the UDP port distinguishes peers with the same address and SCTP port. If so, a peer that restarts
        /// with another UDP port counts as a new peer. Its old association ends like the association of an unreachable
        /// peer.
        udp_apart: bool = false, "RFC 6951 §5.4: the generic lookup, by address and SCTP ports",
            SWITCH,
            "the UDP port separates peers with the same address and SCTP port, such as programs behind one NAT: \
             yes or no";
    }
    beside {
        /// The largest timeout of an INIT, instead of `rto_max` (RFC 6458 §5.3.1 `sinit_max_init_timeo`).
        init_rto_max: Option<Duration> = None;
        /// Whether the application can read the messages of all streams in the order in which they became readable
        /// (`Endpoint::recv_next`). Sockets need this setting. It has no key for `Config::set`.
        track_arrivals: bool = false;
        /// Whether undelivered messages are returned to the application in `Event::SendFailed`. An application that
        /// reads no events can turn this setting off, which saves the copies. The setting has no key for `Config::set`.
        return_undelivered: bool = false;
        /// The payload protocol identifier of messages and byte streams for which the application gives none. A byte
        /// stream accepts received messages with this identifier or with 0. This is no knob, because the protocol of
        /// the application determines the value.
        ppid: u32 = 0;
        /// Endpoint pair shared keys that sign chunks if `auth` is on (RFC 4895 §4). They are not a knob, because the
        /// values of knobs are printed and secrets must not be printed.
        shared_keys: SharedKeys = SharedKeys::default();
        /// The bytes that a lower layer, such as DTLS, adds to each packet. They count against the size of an IP
        /// packet. Set by [`over_layer`](Self::over_layer); it is not a knob.
        layer_overhead: u32 = 0;
        /// The memory that all associations share, across endpoints. With a budget, the sizes of send and receive
        /// buffers depend on the needs of each association and on the free memory, up to `sndbuf` and `rcvbuf`. With
        /// `None`, each association has its own two buffers.
        memory: Option<Budget> = None;
    }
}
