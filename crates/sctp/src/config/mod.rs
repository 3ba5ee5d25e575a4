//! Every knob of the engine: key, meaning, unit, text form and profile values.
//!
//! One table ([`KNOBS`]) declares each knob once; parsing, printing, help and
//! the completeness of profiles are derived from it. The profiles themselves,
//! with the source of each value, are in [`profiles`].
//!
//! Home of RFC 9260 §16.

mod chunks;
mod profiles;

pub use chunks::ChunkSet;
pub use profiles::PROFILES;

use anabranch_base::Bytes;
use anabranch_base::time::Duration;
use anabranch_base::units::{format_span, parse_span};

/// Which congestion controller a path gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Algorithm {
    /// Slow start and congestion avoidance of RFC 2960 §7.2.
    Rfc2960,
    /// Of RFC 4960 §7.2.
    Rfc4960,
    /// Of RFC 9260 §7.2.
    Rfc9260,
    /// CUBIC (RFC 9438).
    Cubic,
}

/// How large the congestion window is at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum InitialWindow {
    /// RFC 4960 §7.2.1: min(4 MTU, max(2 MTU, 4380 bytes)).
    Rfc4960,
    /// RFC 9260 §7.2.1: min(4 PMDCS, max(2 PMDCS, 4404 bytes)); 4344 to IPv6.
    Rfc9260,
    /// So many full packets.
    Packets(u32),
}

/// Which destination a SACK goes to (RFC 9260 §6.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SackPath {
    /// Where the DATA came from.
    Same,
    /// Another active destination, when there is one.
    Other,
}

/// Which retransmissions go to an alternate destination (RFC 9260 §6.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetransmitPath {
    /// None, while the destination is active.
    Same,
    /// Those after a timeout.
    Timeout,
    /// All, fast retransmissions too.
    All,
}

/// How a path's MTU is found out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathMtu {
    /// By what ICMP tells of packets that were too large (RFC 9260 §7.3).
    Icmp,
    /// By probes (RFC 8899), with what ICMP tells as a hint.
    Plpmtud,
}

/// In which order streams with something to send take turns (RFC 8260 §3).
///
/// With interleaving the choice is made for each chunk, without it for each
/// message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchedulerKind {
    /// Messages leave in the order they were given to `send`.
    Fcfs,
    /// Each stream in turn.
    RoundRobin,
    /// Each stream in turn, and a packet holds one stream's chunks only.
    RoundRobinPacket,
    /// The stream with the lowest value first (0 is the highest priority),
    /// equals in turn.
    Priority,
    /// As many bytes of each stream.
    Fair,
    /// Bytes in proportion to the streams' values (0 counts as 1).
    WeightedFair,
}

/// Which HMACs an endpoint asks its peers to use (RFC 4895 §3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hmacs {
    /// SHA-256, or SHA-1 where the peer has nothing better.
    Sha256First,
    /// SHA-1, which every implementation has.
    Sha1Only,
}

/// All settings of an endpoint. Built from a profile, then changed by key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Congestion control.
    pub cc: Algorithm,
    /// Initial congestion window.
    pub iw: InitialWindow,
    /// RTO.Initial.
    pub rto_initial: Duration,
    /// RTO.Min.
    pub rto_min: Duration,
    /// RTO.Max.
    pub rto_max: Duration,
    /// SACK.Delay; zero acknowledges at once.
    pub delack: Duration,
    /// A SACK is sent at the latest with every so manieth packet of data.
    pub ack_every: u32,
    /// Most user bytes in a DATA chunk; `None` takes what the path MTU allows.
    pub mss: Option<u32>,
    /// Receive buffer, bytes: what a_rwnd begins with.
    pub rcvbuf: u64,
    /// Send buffer, bytes: unsent and unacknowledged messages.
    pub sndbuf: u64,
    /// Max.Burst, packets; `None` for no limit.
    pub max_burst: Option<u32>,
    /// Miss indications that trigger a fast retransmit.
    pub dupthresh: u32,
    /// RFC 8985 §6: losses are found by time.
    pub rack: bool,
    /// RFC 8985 §7: probes of the tail, where losses are found by time.
    pub tlp: bool,
    /// RFC 9406: slow start ends when round trips grow.
    pub hystart: bool,
    /// Packets are spread over the round trip.
    pub pacing: bool,
    /// RFC 6937: in fast recovery, what leaves follows what arrives.
    pub prr: bool,
    /// Hold back a small packet while data is unacknowledged (RFC 9260 §6.1).
    pub nagle: bool,
    /// Explicit congestion notification as in RFC 4960 Appendix A.
    pub ecn: bool,
    /// Path.Max.Retrans.
    pub path_max_retrans: u32,
    /// PotentiallyFailed.Max.Retrans (RFC 7829); `None` for no such state.
    pub pf_max_retrans: Option<u32>,
    /// Primary.Switchover.Max.Retrans (RFC 7829); `None` for failback.
    pub primary_switch: Option<u32>,
    /// Association.Max.Retrans.
    pub assoc_max_retrans: u32,
    /// Max.Init.Retransmits.
    pub init_max_retrans: u32,
    /// HB.interval; `None` sends no HEARTBEAT but to verify addresses.
    pub hb_interval: Option<Duration>,
    /// Where SACKs go.
    pub sack_path: SackPath,
    /// Where retransmissions go.
    pub rtx_path: RetransmitPath,
    /// Valid.Cookie.Life.
    pub cookie_life: Duration,
    /// DATA rides with COOKIE ECHO.
    pub cookie_data: bool,
    /// Streams asked for and granted in each direction.
    pub streams: u16,
    /// Streams that the peer may send on, when they are other than `streams`.
    pub inbound: Option<u16>,
    /// Order of the streams at the sender.
    pub scheduler: SchedulerKind,
    /// In-order bytes of an unfinished message from which on it is handed out in parts.
    pub partial_delivery: u64,
    /// How path MTUs are found out.
    pub pmtud: PathMtu,
    /// Messages may be abandoned: FORWARD-TSN (RFC 3758, RFC 7496).
    pub partial_reliability: bool,
    /// Large messages do not hold up others: I-DATA (RFC 8260).
    pub interleaving: bool,
    /// Chunks can be authenticated: AUTH (RFC 4895).
    pub auth: bool,
    /// What is taken only authenticated, beside ASCONFs, which are always.
    pub auth_chunks: ChunkSet,
    /// Which HMACs the peer is asked to use.
    pub auth_hmac: Hmacs,
    /// Code point of what runs above, told to the peer (RFC 5061 §4.2.6).
    pub adaptation: Option<u32>,
    /// Addresses come and go: ASCONF (RFC 5061); needs auth=yes.
    pub asconf: bool,
    /// Streams are reset and added: RE-CONFIG (RFC 6525).
    pub reconfig: bool,
    /// Most streams in each direction that the peer's RE-CONFIG may lead to.
    pub max_streams: u16,
    /// Packets without a checksum are accepted where a lower layer protects them (RFC 9653).
    pub zero_checksum: bool,
    /// INIT lists the address types that this side has (Supported Address Types).
    pub address_types: bool,
    /// Where each value comes from, in the order of the table.
    sources: [&'static str; KNOB_COUNT],
}

/// A knob with its present value.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Knob {
    /// Its name on the command line.
    pub key: &'static str,
    /// Its value, in the form that `set` reads.
    pub value: String,
    /// What it means, and in which forms it is written.
    pub help: &'static str,
    /// Where the value comes from.
    pub source: &'static str,
}

/// Why a knob was not set: one line that names what would be right.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct KnobError(pub String);

impl Config {
    /// The profile `name`, one of [`PROFILES`].
    #[must_use]
    pub fn profile(name: &str) -> Option<Self> {
        let rows = profiles::rows(name)?;
        let mut config = Self::blank();
        for &(key, value, source) in rows {
            let set = config.set(key, value);
            assert!(set.is_ok(), "profile {name}: {key}={value}: {set:?}");
            config.sources[position(key).unwrap_or(0)] = source;
        }
        Some(config)
    }

    /// Sets one knob from its text form.
    ///
    /// # Errors
    /// [`KnobError`] when there is no such knob or the value has another form.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), KnobError> {
        let Some(at) = position(key) else {
            let keys: Vec<_> = KNOBS.iter().map(|row| row.key).collect();
            return Err(KnobError(format!("sctp has no '{key}'; it has {}", keys.join(", "))));
        };
        (KNOBS[at].parse)(self, value)
            .map_err(|why| KnobError(format!("sctp:{key}={value}: {why} ({})", KNOBS[at].help)))?;
        self.sources[at] = "set by the user";
        Ok(())
    }

    /// Finds what two knobs together make impossible.
    ///
    /// # Errors
    /// [`KnobError`]: one line that names both.
    pub fn check(&self) -> Result<(), KnobError> {
        if self.asconf && !self.auth {
            return Err(KnobError("sctp:asconf=yes needs auth=yes (RFC 5061 §4.1.1)".to_owned()));
        }
        Ok(())
    }

    /// Chunks that are taken only authenticated, while authentication is on.
    pub(crate) fn guarded_chunks(&self) -> ChunkSet {
        let mut set = self.auth_chunks;
        if self.asconf {
            // RFC 5061 §4.1.1, §4.1.2.
            set.insert(0xc1);
            set.insert(0x80);
        }
        set
    }

    /// Every knob with its value and the source of the value.
    #[must_use]
    pub fn knobs(&self) -> Vec<Knob> {
        KNOBS
            .iter()
            .zip(self.sources)
            .map(|(row, source)| Knob { key: row.key, value: (row.print)(self), help: row.help, source })
            .collect()
    }

    /// Streams that the peer may send on.
    #[must_use]
    pub fn inbound_streams(&self) -> u16 {
        self.inbound.unwrap_or(self.streams)
    }

    fn blank() -> Self {
        Self {
            cc: Algorithm::Rfc9260,
            iw: InitialWindow::Rfc9260,
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_secs(1),
            rto_max: Duration::from_secs(60),
            delack: Duration::from_millis(200),
            ack_every: 2,
            mss: None,
            rcvbuf: 1 << 20,
            sndbuf: 1 << 20,
            max_burst: Some(4),
            dupthresh: 3,
            rack: false,
            tlp: false,
            hystart: false,
            pacing: false,
            prr: false,
            nagle: false,
            ecn: false,
            path_max_retrans: 5,
            pf_max_retrans: None,
            primary_switch: None,
            assoc_max_retrans: 10,
            init_max_retrans: 8,
            hb_interval: Some(Duration::from_secs(30)),
            sack_path: SackPath::Same,
            rtx_path: RetransmitPath::Timeout,
            cookie_life: Duration::from_secs(60),
            cookie_data: true,
            streams: 100,
            inbound: None,
            scheduler: SchedulerKind::Fcfs,
            partial_delivery: 1 << 16,
            pmtud: PathMtu::Icmp,
            partial_reliability: false,
            interleaving: false,
            auth: false,
            auth_chunks: ChunkSet::default(),
            auth_hmac: Hmacs::Sha256First,
            adaptation: None,
            asconf: false,
            reconfig: false,
            max_streams: u16::MAX,
            zero_checksum: false,
            address_types: true,
            sources: [""; KNOB_COUNT],
        }
    }
}

impl Default for Config {
    /// The profile `rfc9260`.
    fn default() -> Self {
        Self::profile("rfc9260").unwrap_or_else(Self::blank)
    }
}

/// One line of the table.
struct Row {
    key: &'static str,
    help: &'static str,
    print: fn(&Config) -> String,
    parse: fn(&mut Config, &str) -> Result<(), String>,
}

fn position(key: &str) -> Option<usize> {
    KNOBS.iter().position(|row| row.key == key)
}

fn off_or(most: Option<u32>) -> String {
    most.map_or_else(|| "off".to_owned(), |most| most.to_string())
}

fn count_or_off(text: &str, most: &mut Option<u32>) -> Result<(), String> {
    *most = if text == "off" { None } else { Some(count(text, 0, 100)?) };
    Ok(())
}

/// How many knobs there are.
const KNOB_COUNT: usize = KNOBS.len();

/// The table: every knob, once.
const KNOBS: &[Row] = &[
    Row {
        key: "cc",
        help: "congestion control: rfc9260 (also: reno), rfc4960, rfc2960 or cubic",
        print: |c| match c.cc {
            Algorithm::Rfc2960 => "rfc2960".to_owned(),
            Algorithm::Rfc4960 => "rfc4960".to_owned(),
            Algorithm::Rfc9260 => "rfc9260".to_owned(),
            Algorithm::Cubic => "cubic".to_owned(),
        },
        parse: |c, text| {
            choose(
                text,
                &[
                    ("rfc9260", Algorithm::Rfc9260),
                    ("reno", Algorithm::Rfc9260),
                    ("rfc4960", Algorithm::Rfc4960),
                    ("rfc2960", Algorithm::Rfc2960),
                    ("cubic", Algorithm::Cubic),
                ],
                &mut c.cc,
            )
        },
    },
    Row {
        key: "iw",
        help: "initial window: packets from 1 to 100, or the formula of rfc4960 or rfc9260",
        print: |c| match c.iw {
            InitialWindow::Rfc4960 => "rfc4960".to_owned(),
            InitialWindow::Rfc9260 => "rfc9260".to_owned(),
            InitialWindow::Packets(n) => n.to_string(),
        },
        parse: |c, text| {
            c.iw = match text {
                "rfc4960" => InitialWindow::Rfc4960,
                "rfc9260" => InitialWindow::Rfc9260,
                _ => InitialWindow::Packets(count(text, 1, 100)?),
            };
            Ok(())
        },
    },
    Row {
        key: "rto_initial",
        help: "retransmission timeout before the first measurement, such as 1s",
        print: |c| format_span(c.rto_initial),
        parse: |c, text| positive_span(text, &mut c.rto_initial),
    },
    Row {
        key: "rto_min",
        help: "smallest retransmission timeout, such as 1s or 200ms",
        print: |c| format_span(c.rto_min),
        parse: |c, text| positive_span(text, &mut c.rto_min),
    },
    Row {
        key: "rto_max",
        help: "largest retransmission timeout, such as 60s",
        print: |c| format_span(c.rto_max),
        parse: |c, text| positive_span(text, &mut c.rto_max),
    },
    Row {
        key: "delack",
        help: "longest delay of a SACK up to 500ms, such as 200ms; 0 = none",
        print: |c| format_span(c.delack),
        parse: |c, text| {
            let span = parse_span(text).map_err(|e| e.to_string())?;
            // RFC 9260 §6.2: never more than 500 ms.
            if span > Duration::from_millis(500) {
                return Err("more than 500ms".to_owned());
            }
            c.delack = span;
            Ok(())
        },
    },
    Row {
        key: "ack_every",
        help: "packets of data to a SACK, from 1 to 100",
        print: |c| c.ack_every.to_string(),
        parse: |c, text| count(text, 1, 100).map(|n| c.ack_every = n),
    },
    Row {
        key: "mss",
        help: "most user bytes in a DATA chunk, such as 1452B, from 64B to 65000B; auto = what the path MTU allows",
        print: |c| c.mss.map_or_else(|| "auto".to_owned(), |n| format!("{n}B")),
        parse: |c, text| {
            c.mss = match text {
                "auto" => None,
                _ => Some(size(text, 64, 65_000)? as u32),
            };
            Ok(())
        },
    },
    Row {
        key: "rcvbuf",
        help: "receive buffer, such as 1MiB, from 1500B to 1GiB",
        print: |c| bytes(c.rcvbuf),
        parse: |c, text| size(text, 1500, 1 << 30).map(|n| c.rcvbuf = n),
    },
    Row {
        key: "sndbuf",
        help: "send buffer, such as 1MiB, from 1500B to 1GiB",
        print: |c| bytes(c.sndbuf),
        parse: |c, text| size(text, 1500, 1 << 30).map(|n| c.sndbuf = n),
    },
    Row {
        key: "max_burst",
        help: "most packets sent at one occasion, from 1 to 10000; 0 (or off) = no limit",
        print: |c| c.max_burst.unwrap_or(0).to_string(),
        parse: |c, text| {
            let limit = if text == "off" { 0 } else { count(text, 0, 10_000)? };
            c.max_burst = (limit > 0).then_some(limit);
            Ok(())
        },
    },
    Row {
        key: "dupthresh",
        help: "miss indications that trigger a fast retransmit, from 1 to 100",
        print: |c| c.dupthresh.to_string(),
        parse: |c, text| count(text, 1, 100).map(|n| c.dupthresh = n),
    },
    Row {
        key: "rack",
        help: "losses are found by time, not by miss indications (RFC 8985): yes or no",
        print: |c| yes_no(c.rack),
        parse: |c, text| choose(text, &YES_NO, &mut c.rack),
    },
    Row {
        key: "tlp",
        help: "with rack=yes, tail loss probes (RFC 8985 §7): yes or no",
        print: |c| yes_no(c.tlp),
        parse: |c, text| choose(text, &YES_NO, &mut c.tlp),
    },
    Row {
        key: "hystart",
        help: "slow start ends when round trips grow, HyStart++ (RFC 9406): yes or no",
        print: |c| yes_no(c.hystart),
        parse: |c, text| choose(text, &YES_NO, &mut c.hystart),
    },
    Row {
        key: "pacing",
        help: "packets are spread over the round trip: yes or no",
        print: |c| yes_no(c.pacing),
        parse: |c, text| choose(text, &YES_NO, &mut c.pacing),
    },
    Row {
        key: "prr",
        help: "proportional rate reduction in fast recovery (RFC 6937): yes or no",
        print: |c| yes_no(c.prr),
        parse: |c, text| choose(text, &YES_NO, &mut c.prr),
    },
    Row {
        key: "nagle",
        help: "hold back a small packet while data is unacknowledged: yes or no",
        print: |c| yes_no(c.nagle),
        parse: |c, text| choose(text, &YES_NO, &mut c.nagle),
    },
    Row {
        key: "ecn",
        help: "explicit congestion notification (RFC 4960 Appendix A): yes or no",
        print: |c| yes_no(c.ecn),
        parse: |c, text| choose(text, &YES_NO, &mut c.ecn),
    },
    Row {
        key: "path_max_retrans",
        help: "errors in a row that a destination survives, from 0 to 100",
        print: |c| c.path_max_retrans.to_string(),
        parse: |c, text| count(text, 0, 100).map(|n| c.path_max_retrans = n),
    },
    Row {
        key: "pf_max_retrans",
        help: "errors in a row after which data goes elsewhere (RFC 7829 PFMR), from 0 to 100; off = path_max_retrans decides",
        print: |c| off_or(c.pf_max_retrans),
        parse: |c, text| count_or_off(text, &mut c.pf_max_retrans),
    },
    Row {
        key: "primary_switch",
        help: "errors in a row after which a primary is one no longer (RFC 7829 PSMR, at least PFMR), from 0 to 100; off = data comes back to it",
        print: |c| off_or(c.primary_switch),
        parse: |c, text| count_or_off(text, &mut c.primary_switch),
    },
    Row {
        key: "assoc_max_retrans",
        help: "errors in a row that the association survives, from 0 to 1000",
        print: |c| c.assoc_max_retrans.to_string(),
        parse: |c, text| count(text, 0, 1000).map(|n| c.assoc_max_retrans = n),
    },
    Row {
        key: "init_max_retrans",
        help: "retransmissions of INIT and of COOKIE ECHO, from 0 to 100",
        print: |c| c.init_max_retrans.to_string(),
        parse: |c, text| count(text, 0, 100).map(|n| c.init_max_retrans = n),
    },
    Row {
        key: "hb_interval",
        help: "HEARTBEAT interval of an idle destination, such as 30s; 0 = none",
        print: |c| format_span(c.hb_interval.unwrap_or(Duration::ZERO)),
        parse: |c, text| {
            let span = parse_span(text).map_err(|e| e.to_string())?;
            c.hb_interval = (!span.is_zero()).then_some(span);
            Ok(())
        },
    },
    Row {
        key: "sack_path",
        help: "where SACKs go: same (where the data came from) or other (another active address)",
        print: |c| match c.sack_path {
            SackPath::Same => "same".to_owned(),
            SackPath::Other => "other".to_owned(),
        },
        parse: |c, text| {
            choose(text, &[("same", SackPath::Same), ("other", SackPath::Other)], &mut c.sack_path)
        },
    },
    Row {
        key: "rtx_path",
        help: "what is retransmitted to an alternate address, if there is one: same (nothing), timeout (after a timeout) or all",
        print: |c| match c.rtx_path {
            RetransmitPath::Same => "same".to_owned(),
            RetransmitPath::Timeout => "timeout".to_owned(),
            RetransmitPath::All => "all".to_owned(),
        },
        parse: |c, text| {
            let forms = [
                ("same", RetransmitPath::Same),
                ("timeout", RetransmitPath::Timeout),
                ("all", RetransmitPath::All),
            ];
            choose(text, &forms, &mut c.rtx_path)
        },
    },
    Row {
        key: "cookie_life",
        help: "how long a State Cookie is good, such as 60s",
        print: |c| format_span(c.cookie_life),
        parse: |c, text| positive_span(text, &mut c.cookie_life),
    },
    Row {
        key: "cookie_data",
        help: "DATA rides with COOKIE ECHO: yes or no",
        print: |c| yes_no(c.cookie_data),
        parse: |c, text| choose(text, &YES_NO, &mut c.cookie_data),
    },
    Row {
        key: "streams",
        help: "streams in each direction, from 1 to 65535",
        print: |c| c.streams.to_string(),
        parse: |c, text| count(text, 1, 65_535).map(|n| c.streams = n as u16),
    },
    Row {
        key: "inbound",
        help: "streams that the peer may send on, from 1 to 65535; auto = as many as streams",
        print: |c| c.inbound.map_or_else(|| "auto".to_owned(), |n| n.to_string()),
        parse: |c, text| {
            c.inbound = match text {
                "auto" => None,
                _ => Some(count(text, 1, 65_535)? as u16),
            };
            Ok(())
        },
    },
    Row {
        key: "scheduler",
        help: "order of the streams at the sender: fcfs (as written), rr (in turn), rr_packet (in turn, a \
               packet each), priority, fair (as many bytes each) or wfq (bytes by weight)",
        print: |c| match c.scheduler {
            SchedulerKind::Fcfs => "fcfs".to_owned(),
            SchedulerKind::RoundRobin => "rr".to_owned(),
            SchedulerKind::RoundRobinPacket => "rr_packet".to_owned(),
            SchedulerKind::Priority => "priority".to_owned(),
            SchedulerKind::Fair => "fair".to_owned(),
            SchedulerKind::WeightedFair => "wfq".to_owned(),
        },
        parse: |c, text| {
            choose(
                text,
                &[
                    ("fcfs", SchedulerKind::Fcfs),
                    ("rr", SchedulerKind::RoundRobin),
                    ("rr_packet", SchedulerKind::RoundRobinPacket),
                    ("priority", SchedulerKind::Priority),
                    ("fair", SchedulerKind::Fair),
                    ("wfq", SchedulerKind::WeightedFair),
                ],
                &mut c.scheduler,
            )
        },
    },
    Row {
        key: "partial_delivery",
        help: "bytes of an unfinished message from which on it is handed out in parts, such as 64KiB",
        print: |c| bytes(c.partial_delivery),
        parse: |c, text| size(text, 1, 1 << 30).map(|n| c.partial_delivery = n),
    },
    Row {
        key: "pmtud",
        help: "how the path MTU is found out: icmp (messages of the network) or plpmtud (probes, RFC 8899)",
        print: |c| match c.pmtud {
            PathMtu::Icmp => "icmp".to_owned(),
            PathMtu::Plpmtud => "plpmtud".to_owned(),
        },
        parse: |c, text| {
            choose(text, &[("icmp", PathMtu::Icmp), ("plpmtud", PathMtu::Plpmtud)], &mut c.pmtud)
        },
    },
    Row {
        key: "partial_reliability",
        help: "messages may be abandoned: FORWARD-TSN (RFC 3758, RFC 7496): yes or no",
        print: |c| yes_no(c.partial_reliability),
        parse: |c, text| choose(text, &YES_NO, &mut c.partial_reliability),
    },
    Row {
        key: "interleaving",
        help: "large messages do not hold up others: I-DATA (RFC 8260): yes or no",
        print: |c| yes_no(c.interleaving),
        parse: |c, text| choose(text, &YES_NO, &mut c.interleaving),
    },
    Row {
        key: "auth",
        help: "chunks can be authenticated: AUTH (RFC 4895): yes or no",
        print: |c| yes_no(c.auth),
        parse: |c, text| choose(text, &YES_NO, &mut c.auth),
    },
    Row {
        key: "auth_chunks",
        help: "what is taken only authenticated: none, all, or data, sack, heartbeat, abort, shutdown, error, cookie_echo, cookie_ack, reconfig and forward_tsn joined by +",
        print: |c| c.auth_chunks.to_string(),
        parse: |c, text| ChunkSet::parse(text).map(|set| c.auth_chunks = set),
    },
    Row {
        key: "auth_hmac",
        help: "HMACs that the peer is asked to use: sha256 (else sha1) or sha1",
        print: |c| match c.auth_hmac {
            Hmacs::Sha256First => "sha256".to_owned(),
            Hmacs::Sha1Only => "sha1".to_owned(),
        },
        parse: |c, text| {
            choose(text, &[("sha256", Hmacs::Sha256First), ("sha1", Hmacs::Sha1Only)], &mut c.auth_hmac)
        },
    },
    Row {
        key: "adaptation",
        help: "code point of what runs above, told to the peer (RFC 5061 §4.2.6): a number; none = not told",
        print: |c| c.adaptation.map_or_else(|| "none".to_owned(), |code| code.to_string()),
        parse: |c, text| {
            c.adaptation = match text {
                "none" => None,
                _ => Some(count(text, 0, u32::MAX)?),
            };
            Ok(())
        },
    },
    Row {
        key: "asconf",
        help: "addresses come and go: ASCONF (RFC 5061); needs auth=yes: yes or no",
        print: |c| yes_no(c.asconf),
        parse: |c, text| choose(text, &YES_NO, &mut c.asconf),
    },
    Row {
        key: "reconfig",
        help: "streams are reset and added: RE-CONFIG (RFC 6525): yes or no",
        print: |c| yes_no(c.reconfig),
        parse: |c, text| choose(text, &YES_NO, &mut c.reconfig),
    },
    Row {
        key: "max_streams",
        help: "most streams each way that the peer may add up to, from 1 to 65535; needs reconfig=yes",
        print: |c| c.max_streams.to_string(),
        parse: |c, text| count(text, 1, 65_535).map(|n| c.max_streams = n as u16),
    },
    Row {
        key: "zero_checksum",
        help: "packets go without a checksum (RFC 9653): yes or no; only over a lower layer that finds errors as DTLS does, which none here is",
        print: |c| yes_no(c.zero_checksum),
        parse: |c, text| choose(text, &YES_NO, &mut c.zero_checksum),
    },
    Row {
        key: "address_types",
        help: "INIT lists the address types of this side (RFC 9260 §3.3.2.1.5): yes or no",
        print: |c| yes_no(c.address_types),
        parse: |c, text| choose(text, &YES_NO, &mut c.address_types),
    },
];

/// RFC 9260 §6.3.1: the least that 4·RTTVAR adds to the RTO.
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);

const YES_NO: [(&str, bool); 2] = [("yes", true), ("no", false)];

fn yes_no(value: bool) -> String {
    if value { "yes" } else { "no" }.to_owned()
}

fn choose<T: Copy>(text: &str, forms: &[(&str, T)], out: &mut T) -> Result<(), String> {
    let found = forms.iter().find(|(name, _)| *name == text);
    found.map(|&(_, value)| *out = value).ok_or_else(|| "not one of the accepted values".to_owned())
}

fn count(text: &str, min: u32, max: u32) -> Result<u32, String> {
    let n: u32 = text.parse().map_err(|_| "a whole number is needed".to_owned())?;
    if (min..=max).contains(&n) { Ok(n) } else { Err("out of range".to_owned()) }
}

fn size(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let n = text.parse::<Bytes>().map_err(|e| e.to_string())?.0;
    if (min..=max).contains(&n) { Ok(n) } else { Err("out of range".to_owned()) }
}

fn bytes(n: u64) -> String {
    for (unit, name) in [(1u64 << 20, "MiB"), (1 << 10, "KiB")] {
        if n >= unit && n.is_multiple_of(unit) {
            return format!("{}{name}", n / unit);
        }
    }
    Bytes(n).to_string()
}

fn positive_span(text: &str, out: &mut Duration) -> Result<(), String> {
    let span = parse_span(text).map_err(|e| e.to_string())?;
    if span.is_zero() {
        return Err("must be more than 0".to_owned());
    }
    *out = span;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_sets_every_knob_and_names_its_source() {
        for name in PROFILES {
            let rows = profiles::rows(name).expect(name);
            for row in KNOBS {
                let n = rows.iter().filter(|(key, ..)| *key == row.key).count();
                assert_eq!(n, 1, "{name}: {}", row.key);
            }
            let config = Config::profile(name).expect(name);
            for (knob, (key, value, source)) in config.knobs().iter().map(|k| {
                let row = rows.iter().find(|(key, ..)| *key == k.key).expect(k.key);
                (k, row)
            }) {
                assert_eq!((knob.key, knob.value.as_str(), knob.source), (*key, *value, *source), "{name}");
                assert!(!source.is_empty());
            }
        }
    }

    #[test]
    fn a_wrong_value_is_answered_with_the_accepted_forms() {
        let mut config = Config::default();
        for (key, value) in
            [("cc", "vegas"), ("delack", "5"), ("streams", "70000"), ("iw", "0"), ("nope", "1")]
        {
            let error = config.set(key, value).expect_err(key).to_string();
            assert!(!error.contains('\n') && error.contains(key), "{error}");
        }
        config.set("cc", "reno").expect("an alias");
        assert_eq!(config.cc, Algorithm::Rfc9260);
        for text in ["0", "off"] {
            config.set("max_burst", "4").expect("a number");
            config.set("max_burst", text).expect("no limit");
            assert_eq!(config.max_burst, None);
        }
    }
}
