//! Applies the shell lines of a packetdrill script. `sysctl` settings become settings of the engine, and all other
//! commands are ignored.

use anabranch_sctp::Config;

/// Each row has a setting of FreeBSD under `net.inet.sctp.`, the equivalent setting of the engine, and the unit of the
/// value.
const SETTINGS: &[(&str, &str, Unit)] = &[
    ("ecn_enable", "ecn", Unit::YesNo),
    ("pr_enable", "partial_reliability", Unit::YesNo),
    ("asconf_enable", "asconf", Unit::YesNo),
    ("auth_enable", "auth", Unit::YesNo),
    ("reconfig_enable", "reconfig", Unit::YesNo),
    ("nrsack_enable", "nr_sack", Unit::YesNo),
    ("idata_enable", "interleaving", Unit::YesNo),
    ("rto_initial", "rto_initial", Unit::Millis),
    ("rto_min", "rto_min", Unit::Millis),
    ("rto_max", "rto_max", Unit::Millis),
    ("init_rto_max", "rto_max", Unit::Millis),
    ("heartbeat_interval", "hb_interval", Unit::Millis),
    ("valid_cookie_life", "cookie_life", Unit::Millis),
    ("delayed_sack_time", "delack", Unit::Millis),
    ("sack_freq", "ack_every", Unit::Count),
    ("init_rtx_max", "init_max_retrans", Unit::Count),
    ("assoc_rtx_max", "assoc_max_retrans", Unit::Count),
    ("path_rtx_max", "path_max_retrans", Unit::Count),
    ("outgoing_streams", "num_ostreams", Unit::Count),
    ("incoming_streams", "max_instreams", Unit::Count),
    ("maxburst", "max_burst", Unit::Count),
    ("initial_cwnd", "iw", Unit::Count),
    ("plpmtud_enable", "pmtud", Unit::Either("icmp", "plpmtud")),
];

#[derive(Clone, Copy)]
enum Unit {
    YesNo,
    Millis,
    Count,
    /// The engine has two words for this setting. The first word stands for the value 0, and the second word for any
    /// other value.
    Either(&'static str, &'static str),
}

/// Applies those `sysctl` settings in a shell line for which the engine has a setting.
pub(crate) fn apply_settings(line: &str, config: &mut Config) {
    for command in line.split([';', '\n']) {
        if !command.trim_start().starts_with("sysctl") {
            continue;
        }
        for word in command.split_whitespace() {
            let Some((name, value)) = word.split_once('=') else { continue };
            let Some(name) = name.strip_prefix("net.inet.sctp.") else { continue };
            let Some((_, key, unit)) = SETTINGS.iter().find(|(known, ..)| *known == name) else { continue };
            let value = match unit {
                Unit::YesNo => if value == "0" { "no" } else { "yes" }.to_owned(),
                Unit::Millis => format!("{value}ms"),
                Unit::Count => value.to_owned(),
                Unit::Either(no, yes) => {
                    let word = if value == "0" { no } else { yes };
                    (*word).to_owned()
                }
            };
            // A value that the engine rejects is ignored, as with `sysctl -i`.
            let _ = config.set(key, &value);
        }
    }
}
