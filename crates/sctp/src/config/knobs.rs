//! The table of knobs: every one once, with its name, its help, and how its
//! value is written and read. Most are of a few kinds; a macro makes a row of each.

use super::{
    Algorithm, ChunkSet, Config, Hmacs, InitialWindow, PathMtu, ReconfigRequests, RetransmitPath, SackPath,
    SchedulerKind,
};
use anabranch_base::Bytes;
use anabranch_base::time::Duration;
use anabranch_base::units::{format_span, parse_span};
use anabranch_congestion::SlowStartExit;

/// One line of the table.
pub(super) struct Row {
    pub(super) key: &'static str,
    pub(super) help: &'static str,
    pub(super) print: fn(&Config) -> String,
    pub(super) parse: fn(&mut Config, &str) -> Result<(), String>,
}

pub(super) fn position(key: &str) -> Option<usize> {
    KNOBS.iter().position(|row| row.key == key)
}

/// A row whose key is the field it sets.
macro_rules! row {
    ($field:ident, $help:expr, $print:expr, $parse:expr) => {
        Row { key: stringify!($field), help: $help, print: $print, parse: $parse }
    };
}

/// One of several names; the first that fits is printed.
macro_rules! names {
    ($field:ident, $help:expr, [$($form:expr),+]) => {
        row!($field, $help, |c| name_of(&[$($form),+], c.$field), |c, text| {
            choose(text, &[$($form),+], &mut c.$field)
        })
    };
}

macro_rules! switch {
    ($field:ident, $help:expr) => {
        names!($field, $help, [("yes", true), ("no", false)])
    };
}

macro_rules! span {
    ($field:ident, $help:expr) => {
        row!($field, $help, |c| format_span(c.$field), |c, text| positive_span(text, &mut c.$field))
    };
}

macro_rules! count {
    ($field:ident, $min:expr, $max:expr, $help:expr) => {
        row!($field, $help, |c| c.$field.to_string(), |c, text| {
            c.$field = count(text, $min, $max)?.try_into().map_err(|_| "out of range".to_owned())?;
            Ok(())
        })
    };
}

macro_rules! count_or_off {
    ($field:ident, $help:expr) => {
        row!($field, $help, |c| off_or(c.$field), |c, text| count_or_off(text, &mut c.$field))
    };
}

macro_rules! size {
    ($field:ident, $min:expr, $max:expr, $help:expr) => {
        row!($field, $help, |c| bytes(c.$field), |c, text| {
            c.$field = size(text, $min, $max)?;
            Ok(())
        })
    };
}

/// The table: every knob, once.
pub(super) const KNOBS: &[Row] = &[
    names!(
        cc,
        "congestion control: rfc9260 (also: reno), rfc4960, rfc2960 or cubic",
        [
            ("rfc9260", Algorithm::Rfc9260),
            ("reno", Algorithm::Rfc9260),
            ("rfc4960", Algorithm::Rfc4960),
            ("rfc2960", Algorithm::Rfc2960),
            ("cubic", Algorithm::Cubic)
        ]
    ),
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
    span!(rto_initial, "retransmission timeout before the first measurement, such as 1s"),
    span!(rto_min, "smallest retransmission timeout, such as 1s or 200ms"),
    Row {
        key: "rto_var_min",
        help: "least that RTT variation adds to the RTO, such as 200ms; 0 = the clock granularity",
        print: |c| format_span(c.rto_var_min),
        parse: |c, text| parse_span(text).map(|span| c.rto_var_min = span).map_err(|e| e.to_string()),
    },
    span!(rto_max, "largest retransmission timeout, such as 60s"),
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
    count!(ack_every, 1, 100, "packets of data to a SACK, from 1 to 100"),
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
    size!(rcvbuf, 1500, 1 << 30, "receive buffer, such as 1MiB, from 1500B to 1GiB"),
    size!(sndbuf, 1500, 1 << 30, "send buffer, such as 1MiB, from 1500B to 1GiB"),
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
    count!(dupthresh, 1, 100, "miss indications that trigger a fast retransmit, from 1 to 100"),
    switch!(rack, "losses are found by time, not by miss indications (RFC 8985): yes or no"),
    switch!(tlp, "with rack=yes, tail loss probes (RFC 8985 §7): yes or no"),
    names!(
        hystart,
        "slow start ends when round trips grow: yes (HyStart++, RFC 9406), linux (HyStart, with cc=cubic) or no",
        [("yes", Some(SlowStartExit::PlusPlus)), ("linux", Some(SlowStartExit::Linux)), ("no", None)]
    ),
    Row {
        key: "hystart_min_rtt",
        help: "with hystart=linux, the least round trip of a path that it watches, such as 1ms; 0 = any",
        print: |c| format_span(c.hystart_min_rtt),
        parse: |c, text| parse_span(text).map(|span| c.hystart_min_rtt = span).map_err(|e| e.to_string()),
    },
    switch!(pacing, "packets are spread over the round trip: yes or no"),
    switch!(prr, "proportional rate reduction in fast recovery (RFC 6937): yes or no"),
    switch!(nagle, "hold back a small packet while data is unacknowledged: yes or no"),
    switch!(ecn, "explicit congestion notification (RFC 4960 Appendix A): yes or no"),
    count!(path_max_retrans, 0, 100, "errors in a row that a destination survives, from 0 to 100"),
    count_or_off!(
        pf_max_retrans,
        "errors in a row after which data goes elsewhere (RFC 7829 PFMR), from 0 to 100; off = path_max_retrans decides"
    ),
    count_or_off!(
        primary_switch,
        "errors in a row after which a primary is one no longer (RFC 7829 PSMR, at least PFMR), from 0 to 100; off = data comes back to it"
    ),
    count!(assoc_max_retrans, 0, 1000, "errors in a row that the association survives, from 0 to 1000"),
    row!(
        assoc_silence,
        "how long errors in a row must have gone on to end an association, such as 100s; 0 = their number decides",
        |c| format_span(c.assoc_silence),
        |c, text| {
            c.assoc_silence = parse_span(text).map_err(|e| e.to_string())?;
            Ok(())
        }
    ),
    count!(init_max_retrans, 0, 100, "retransmissions of INIT and of COOKIE ECHO, from 0 to 100"),
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
    names!(
        sack_path,
        "where SACKs go: same (where the data came from) or other (another active address)",
        [("same", SackPath::Same), ("other", SackPath::Other)]
    ),
    names!(
        rtx_path,
        "what is retransmitted to an alternate address, if there is one: same (nothing), timeout (after a timeout) or all",
        [("same", RetransmitPath::Same), ("timeout", RetransmitPath::Timeout), ("all", RetransmitPath::All)]
    ),
    span!(cookie_life, "how long a State Cookie is good, such as 60s"),
    switch!(cookie_data, "DATA rides with COOKIE ECHO: yes or no"),
    count!(streams, 1, 65_535, "streams in each direction, from 1 to 65535"),
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
    names!(
        scheduler,
        "order of the streams at the sender: fcfs (as written), rr (in turn), rr_packet (in turn, a packet each), priority, fair (as many bytes each) or wfq (bytes by weight)",
        [
            ("fcfs", SchedulerKind::Fcfs),
            ("rr", SchedulerKind::RoundRobin),
            ("rr_packet", SchedulerKind::RoundRobinPacket),
            ("priority", SchedulerKind::Priority),
            ("fair", SchedulerKind::Fair),
            ("wfq", SchedulerKind::WeightedFair)
        ]
    ),
    size!(
        partial_delivery,
        1,
        1 << 30,
        "bytes of an unfinished message from which on it is handed out in parts, such as 64KiB"
    ),
    names!(
        pmtud,
        "how the path MTU is found out: icmp (messages of the network), plpmtud (probes, RFC 8899) or blackhole (probes once packets vanish)",
        [("icmp", PathMtu::Icmp), ("plpmtud", PathMtu::Plpmtud), ("blackhole", PathMtu::Blackhole)]
    ),
    switch!(partial_reliability, "messages may be abandoned: FORWARD-TSN (RFC 3758, RFC 7496): yes or no"),
    switch!(interleaving, "large messages do not hold up others: I-DATA (RFC 8260): yes or no"),
    switch!(
        nr_sack,
        "what has arrived behind a gap is acknowledged for good: NR-SACK (draft-natarajan-tsvwg-sctp-nrsack): yes or no"
    ),
    switch!(auth, "chunks can be authenticated: AUTH (RFC 4895): yes or no"),
    Row {
        key: "auth_chunks",
        help: "what is taken only authenticated: none, all, or data, sack, heartbeat, abort, shutdown, error, cookie_echo, cookie_ack, reconfig and forward_tsn joined by +",
        print: |c| c.auth_chunks.to_string(),
        parse: |c, text| ChunkSet::parse(text).map(|set| c.auth_chunks = set),
    },
    names!(
        auth_hmac,
        "HMACs that the peer is asked to use: sha256 (else sha1) or sha1",
        [("sha256", Hmacs::Sha256First), ("sha1", Hmacs::Sha1Only)]
    ),
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
    switch!(asconf, "addresses come and go: ASCONF (RFC 5061); needs auth=yes: yes or no"),
    switch!(reconfig, "streams are reset and added: RE-CONFIG (RFC 6525): yes or no"),
    Row {
        key: "reconfig_requests",
        help: "what the peer may ask for by RE-CONFIG: none, all, or streams, association and change joined by +; the rest is denied",
        print: |c| c.reconfig_requests.to_string(),
        parse: |c, text| ReconfigRequests::parse(text).map(|set| c.reconfig_requests = set),
    },
    count!(
        max_streams,
        1,
        65_535,
        "most streams each way that the peer may add up to, from 1 to 65535; needs reconfig=yes"
    ),
    switch!(
        zero_checksum,
        "packets go without a checksum (RFC 9653): yes or no; only over a lower layer that finds errors as DTLS does, which none here is"
    ),
    switch!(address_types, "INIT lists the address types of this side (RFC 9260 §3.3.2.1.5): yes or no"),
    switch!(
        icmp_doubt,
        "Protocol Unreachable (ICMP) ends an association only after two timeouts in a row: yes or no"
    ),
    switch!(
        udp_apart,
        "peers of one address and SCTP port are told apart by their UDP port, as several programs of a host, or behind a NAT, are: yes or no"
    ),
];

fn off_or(most: Option<u32>) -> String {
    most.map_or_else(|| "off".to_owned(), |most| most.to_string())
}

fn count_or_off(text: &str, most: &mut Option<u32>) -> Result<(), String> {
    *most = if text == "off" { None } else { Some(count(text, 0, 100)?) };
    Ok(())
}

fn name_of<T: PartialEq>(forms: &[(&str, T)], value: T) -> String {
    forms.iter().find(|(_, form)| *form == value).map_or("", |(name, _)| name).to_owned()
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
