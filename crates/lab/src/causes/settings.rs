//! Which settings of contestants can be causes, and in which group: one table of all of them.
//!
//! A setting whose name and meaning several transports share can be set as the rival has it, whatever that is; those of
//! one transport only can be so between two contestants of it. A setting that is no factor has its reason here. A test
//! walks every transport: a knob that is not in the table fails it.

use anabranch_transport::Capabilities;

/// What settings are about. Settings that are too many to be tried one by one are tried by group.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Group {
    /// How much may be under way.
    Windows,
    /// How the window changes, and how losses are found and repaired.
    Recovery,
    /// When something is repeated or acknowledged.
    Timers,
    /// Handshakes, and what shares an order of delivery.
    Connections,
    /// TLS and DTLS: their handshakes and what they add to each packet.
    Security,
    /// Which request goes when.
    Order,
}

impl Group {
    /// Its name in results.
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

/// Whether a setting can be a cause.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Between contestants of any transport that has it: the name means the same everywhere.
    Shared(Group),
    /// Between contestants of one transport.
    Own(Group),
    /// Which request rides where: `requests` says what that is in terms of each transport.
    Requests(Group),
    /// Never, for this reason.
    No(&'static str),
}

/// A setting.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// Its key.
    pub key: &'static str,
    /// Whether it can be a cause.
    pub part: Part,
}

/// The setting of this key.
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

/// All settings, in the order in which factors are tried.
pub const SETTINGS: &[Setting] = &[
    row("iw", Shared(Windows)),
    row("rcvbuf", Shared(Windows)),
    row("rcvbuf_auto", Own(Windows)),
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
    row("rack", Shared(Recovery)),
    row("tlp", Shared(Recovery)),
    row("hystart", Shared(Recovery)),
    row("hystart_min_rtt", Own(Recovery)),
    row("pacing", Shared(Recovery)),
    row("max_burst", Shared(Recovery)),
    row("undo", Own(Recovery)),
    row("ecn", Shared(Recovery)),
    row("nr_sack", Own(Recovery)),
    row("rtx_path", Own(Recovery)),
    row("rto_initial", Shared(Timers)),
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
    row("ack_push", Own(Timers)),
    row("push", Own(Timers)),
    row("fin", Own(Timers)),
    row("fin_delack", Own(Timers)),
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
    row("streams", Requests(Connections)),
    row("inbound", Requests(Connections)),
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
    row("backlog", Own(Connections)),
    row("syncookies", Own(Connections)),
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

/// What a transport of several streams does that has no setting for it, in terms of another transport's setting: it
/// acknowledges selectively (RFC 9260 §3.3.4), and its windows are what its buffers are.
pub fn implied(can: &Capabilities, key: &str) -> Option<&'static str> {
    match key {
        _ if !can.is_multistream() => None,
        "sack" | "dsack" | "wscale" | "limited_transmit" => Some("yes"),
        "recovery" => Some("sack"),
        "rcvbuf_auto" | "sndbuf_auto" => Some("no"),
        _ => None,
    }
}

/// Settings that follow from another one where two contestants differ in that: under DTLS an association has one path and is
/// carried by UDP.
pub fn follows(key: &str) -> Option<&'static str> {
    matches!(key, "paths" | "encap").then_some("dtls")
}

/// The same value in other words: how another transport writes what it means.
pub fn translated(key: &str, value: &str) -> Option<&'static str> {
    match (key, value) {
        // RFC 9260 §7.2 is RFC 5681 for what SCTP counts in; the other two are its forerunners.
        ("cc", "rfc9260" | "rfc4960" | "rfc2960") => Some("reno"),
        // The same law (RFC 9438), written by others.
        ("cc", "quinn-cubic") => Some("cubic"),
        // RFC 4960 §7.2.1 has the formula of RFC 5681 §3.1 (of RFC 3390), RFC 9260 §7.2.1 nearly.
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
    use crate::transports::Transports;
    use std::collections::BTreeSet;

    #[test]
    fn every_setting_of_every_transport_has_its_one_row() {
        let mut known: BTreeSet<&str> = CONTESTANT_KEYS.iter().map(|key| key.name).collect();
        for transport in Transports::standard().iter().filter(|transport| !transport.is_kernels()) {
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
