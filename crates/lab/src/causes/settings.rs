//! The table of all settings of contestants. It says which settings can be causes, and to which group each belongs.
//!
//! A setting with the same name and meaning in several transports can always be changed to the other contestant's
//! value. A setting of only one transport can be changed if both contestants use that transport. For a setting that can
//! never be a cause, the table has the reason. A test fails if a setting of any transport is missing from the table.

use anabranch_transport::Capabilities;

/// The group of a setting. If too many settings differ to change each one separately, all settings of a group are
/// changed together.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Group {
    /// Settings for the amount of data that may be in flight.
    Windows,
    /// Settings for congestion control, and for the detection and retransmission of lost packets.
    Recovery,
    /// Settings for the time at which data is retransmitted or acknowledged.
    Timers,
    /// Settings for handshakes, and for the use of connections and streams.
    Connections,
    /// Settings of TLS and DTLS: their handshakes, and the bytes that they add to packets.
    Security,
    /// Settings for the order in which requests are sent and answered.
    Order,
}

impl Group {
    /// Returns the name that results use for this group of settings.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Windows => "windows",
            Self::Recovery => "congestion control and recovery",
            Self::Timers => "timers and ACKs",
            Self::Connections => "connections and streams",
            Self::Security => "security",
            Self::Order => "request order",
        }
    }
}

/// Whether a setting can explain why one contestant is faster than another, and for which pairs of contestants.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// The setting has the same meaning in all transports. It can explain a lead between any two contestants that have
    /// this setting.
    Shared(Group),
    /// The setting can explain a lead between two contestants with the same transport. It can also explain the lead of
    /// a multi-stream transport over TCP, if [`implied`] returns a value. With this value, TCP behaves like the
    /// multi-stream transport.
    Own(Group),
    /// The setting determines which requests share a connection or a stream. The module `requests` converts such
    /// settings from one transport to another.
    Requests(Group),
    /// The setting can never be a cause, for this reason.
    No(&'static str),
}

/// A row of the table of contestants' settings.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// The key of the setting, as in a plan.
    pub key: &'static str,
    /// For which pairs of contestants the setting can be a cause of a gap, and to which group of settings it belongs.
    pub part: Part,
}

/// Returns the row of the setting with this key, if there is one.
#[must_use]
pub fn find(key: &str) -> Option<&'static Setting> {
    SETTINGS.iter().find(|setting| setting.key == key)
}

const fn row(key: &'static str, part: Part) -> Setting {
    Setting { key, part }
}

use Group::{Connections, Order, Recovery, Security, Timers, Windows};
use Part::{No, Own, Requests, Shared};

const HOSTS: Part = No("what the hosts' processors take, not what the transport does");
const DELIVERED: Part = No("it changes what is delivered: another workload");
const SIGNED: Part = No("who may send packets, which costs a race nothing");
const UNUSED: Part = No("nothing in a race asks for it");

/// The table of contestants' settings, in the order in which experiments change them.
pub const SETTINGS: &[Setting] = &[
    row("iw", Shared(Windows)),
    row("rcvbuf", Shared(Windows)),
    row("rcvbuf_auto", Own(Windows)),
    row("first_window", Own(Windows)),
    row("sndbuf", Shared(Windows)),
    row("sndbuf_auto", Own(Windows)),
    row("wscale", Own(Windows)),
    row("window", Own(Windows)),
    row("stream_window", Own(Windows)),
    row("packet", Own(Windows)),
    row("mss", Own(Windows)),
    row("pmtu", Own(Windows)),
    row("pmtud", Own(Windows)),
    row("cc", Shared(Recovery)),
    row("cwnd_unit", Own(Recovery)),
    row("ssthresh", Own(Recovery)),
    row("abc", Own(Recovery)),
    row("idle_restart", Own(Recovery)),
    row("cwnd_validation", Own(Recovery)),
    row("recovery", Own(Recovery)),
    row("sack", Own(Recovery)),
    row("dsack", Own(Recovery)),
    row("careful", Own(Recovery)),
    row("dupthresh", Shared(Recovery)),
    row("limited_transmit", Own(Recovery)),
    row("prr", Shared(Recovery)),
    row("rate_halving", Own(Recovery)),
    row("moderation", Own(Recovery)),
    row("fast_recovery", Own(Recovery)),
    row("fast_again", Own(Recovery)),
    row("rack", Shared(Recovery)),
    row("fack", Own(Recovery)),
    row("tlp", Shared(Recovery)),
    row("hystart", Shared(Recovery)),
    row("hystart_min_rtt", Own(Recovery)),
    row("hystart_delay", Own(Recovery)),
    row("reno_beta", Own(Recovery)),
    row("pacing", Shared(Recovery)),
    row("max_burst", Shared(Recovery)),
    row("burst_window", Own(Recovery)),
    row("route_metrics", Own(Recovery)),
    row("undo", Own(Recovery)),
    row("ecn", Shared(Recovery)),
    row("nr_sack", Own(Recovery)),
    row("rtx_path", Own(Recovery)),
    row("rto_initial", Shared(Timers)),
    row("rtt_from_cookie", Own(Timers)),
    row("rto_min", Shared(Timers)),
    row("rto_var_min", Shared(Timers)),
    row("rto_max", Shared(Timers)),
    row("initial_rtt", Own(Timers)),
    row("idle", Own(Timers)),
    row("ack_frequency", Own(Timers)),
    row("tick", Own(Timers)),
    row("rtt_sample", Own(Timers)),
    row("timestamps", Own(Timers)),
    row("delack", Shared(Timers)),
    row("ack_every", Shared(Timers)),
    row("quickack", Own(Timers)),
    row("quickack_window", Own(Timers)),
    row("ack_push", Own(Timers)),
    row("psh_counts", Own(Timers)),
    row("push", Own(Timers)),
    row("fin", Own(Timers)),
    row("fin_delack", Own(Timers)),
    row("window_probe", Own(Timers)),
    row("nagle", Shared(Timers)),
    row("sack_path", Own(Timers)),
    row("hb_interval", Own(Timers)),
    row("syn_retries", Own(Timers)),
    row("retries", Own(Timers)),
    row("user_timeout", Own(Timers)),
    row("init_max_retrans", Own(Timers)),
    row("path_max_retrans", Own(Timers)),
    row("pf_max_retrans", Own(Timers)),
    row("primary_switch", Own(Timers)),
    row("assoc_max_retrans", Own(Timers)),
    row("assoc_silence", Own(Timers)),
    row("connections", Requests(Connections)),
    row("per-object", Requests(Connections)),
    row("objects-per-connection", Requests(Connections)),
    row("num_ostreams", Requests(Connections)),
    row("max_instreams", Requests(Connections)),
    row("streams", Requests(Connections)),
    row("cookie_data", Own(Connections)),
    row("cookie_life", Own(Connections)),
    row("address_types", Own(Connections)),
    row("paths", Own(Connections)),
    row("encap", Own(Connections)),
    row("reconnect", No("a client that moves does without it, or has Mobile IP")),
    row("http", No("which requests ride where with it, connections and requests outstanding say")),
    row("windows", No("a name for values of the others, each of which counts itself")),
    row("stream-window", Own(Windows)),
    row("connection-window", Own(Windows)),
    row("frame", Own(Windows)),
    row("concurrent", No("`outstanding` is the same in terms of every transport")),
    row("tls", Own(Security)),
    row("dtls", Own(Security)),
    row("resume", Shared(Security)),
    row("chain", Shared(Security)),
    row("group", Own(Security)),
    row("backlog", Own(Connections)),
    row("syncookies", Own(Connections)),
    row("syn_queue", Own(Connections)),
    row("time_wait", Own(Connections)),
    row("fin_wait2", Own(Connections)),
    row("outstanding", Requests(Order)),
    row("pipeline", Requests(Order)),
    row("when-full", Requests(Order)),
    row("priority", Shared(Order)),
    row("scheduler", Own(Order)),
    row("interleaving", Own(Order)),
    row("partial_delivery", Own(Order)),
    row("unordered", Own(Order)),
    row("lifetime", DELIVERED),
    row("retransmissions", DELIVERED),
    row("partial_reliability", DELIVERED),
    row("packet-cost", HOSTS),
    row("byte-cost", HOSTS),
    row("connection-cost", HOSTS),
    row("request-cost", HOSTS),
    row("profile", No("a name for values of the others, each of which counts itself")),
    row("auth", SIGNED),
    row("auth_chunks", SIGNED),
    row("auth_hmac", SIGNED),
    row("zero_checksum", SIGNED),
    row("icmp_doubt", SIGNED),
    row("udp_apart", UNUSED),
    row("adaptation", UNUSED),
    row("asconf", No("a host that moves has it, or moves by other means")),
    row("retry", No("it is for a server that is flooded")),
    row("asconf_primary", No("it goes with asconf, which is no factor")),
    row("reconfig", No("when-full=grow turns it on, and nothing else asks for it")),
    row("reconfig_requests", UNUSED),
    row("max_streams", UNUSED),
];

/// Returns the value that a TCP setting must have so that TCP behaves like a multi-stream transport; `None` if there is
/// no such value. For example, SCTP always sends selective acknowledgements (RFC 9260 §3.3.4), so the value of `sack`
/// is `yes`. The buffers of SCTP determine its windows, so the value of `rcvbuf_auto` is `no`.
pub fn implied(can: &Capabilities, key: &str) -> Option<&'static str> {
    match key {
        _ if !can.is_multistream() => None,
        "sack" | "dsack" | "wscale" | "limited_transmit" => Some("yes"),
        "recovery" => Some("sack"),
        "rcvbuf_auto" | "sndbuf_auto" => Some("no"),
        _ => None,
    }
}

/// Returns the setting that determines the setting `key`. If contestants differ in both settings, only the determining
/// setting can be changed. For example, `dtls` determines `paths` and `encap`: with DTLS, an association has a single
/// path and uses UDP.
pub fn follows(key: &str) -> Option<&'static str> {
    matches!(key, "paths" | "encap").then_some("dtls")
}

/// Returns the name that another transport uses for this value of the setting `key`; `None` if there is no such name.
pub fn translated(key: &str, value: &str) -> Option<&'static str> {
    match (key, value) {
        // RFC 9260 §7.2 specifies the algorithm of RFC 5681 for SCTP. RFC 4960 and RFC 2960 are earlier versions of RFC
        // 9260.
        ("cc", "rfc9260" | "rfc4960" | "rfc2960") => Some("reno"),
        // The congestion control `quinn-cubic` is another implementation of the algorithm of RFC 9438.
        ("cc", "quinn-cubic") => Some("cubic"),
        // RFC 4960 §7.2.1 has the formula of RFC 5681 §3.1 (from RFC 3390), and RFC 9260 §7.2.1 has almost the same
        // formula.
        ("iw", "rfc9260" | "rfc4960") => Some("rfc5681"),
        ("iw", "rfc5681") => Some("rfc4960"),
        ("iw", "rfc6928") => Some("10"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::contestant::CONTESTANT_KEYS;
    use anabranch_transports::Transports;
    use std::collections::BTreeSet;

    #[test]
    fn every_setting_of_every_transport_has_its_one_row() {
        let mut known: BTreeSet<&str> = CONTESTANT_KEYS.iter().map(|key| key.name).collect();
        for transport in Transports::standard().iter().filter(|transport| !transport.is_kernel_only()) {
            let engine = transport.profile(transport.default_profile()).expect("a profile");
            known.extend(engine.knobs().into_iter().map(|knob| knob.key));
        }
        for key in &known {
            let rows = SETTINGS.iter().filter(|setting| setting.key == *key).count();
            assert_eq!(
                rows, 1,
                "{key}: a group, or the reason why it is no factor, once (causes/settings.rs)"
            );
        }
        for setting in SETTINGS {
            assert!(known.contains(setting.key), "{}: no transport has it any more", setting.key);
        }
    }
}
