//! `--set`: the knobs of a transport on a real network.

use clap::{Arg, ArgAction};

/// The flag.
pub fn set() -> Arg {
    Arg::new("set").long("set").value_name("KEY=VALUE[,..]").action(ArgAction::Append).help(
        "Knobs of SCTP here, as `race` names them [default: profile=modern]: profile=rfc9260,rcvbuf=8MiB",
    )
}

#[cfg(target_os = "linux")]
pub use linux::{asks_after_peers, given, is_senders, sctp, streams, told};

#[cfg(target_os = "linux")]
mod linux {
    use crate::Failure;
    use crate::place::Carrier;
    use crate::serve::config;
    use anabranch_base::time::Duration;
    use anabranch_transport::engines::sctp::{Config, PROFILES};
    use clap::ArgMatches;

    /// Keys and values, in the order in which they were given.
    pub fn given(matches: &ArgMatches) -> Result<Vec<(String, String)>, Failure> {
        let mut pairs = Vec::new();
        for text in matches.get_many::<String>("set").into_iter().flatten() {
            for part in text.split(',') {
                let (key, value) = part.split_once('=').ok_or_else(|| {
                    Failure::Usage(format!("--set {text}: '{part}' where key=value was expected"))
                })?;
                pairs.push((key.to_owned(), value.to_owned()));
            }
        }
        Ok(pairs)
    }

    /// SCTP with these knobs; the profile comes first, wherever it stands.
    pub fn sctp(set: &[(String, String)]) -> Result<Config, Failure> {
        let mut made = config()?;
        for (_, name) in set.iter().filter(|(key, _)| key == "profile") {
            made = Config::profile(name).ok_or_else(|| {
                let names = PROFILES.join(", ");
                Failure::Usage(format!("--set profile={name}: unknown profile '{name}'; accepted: {names}"))
            })?;
        }
        for (key, value) in set.iter().filter(|(key, _)| key != "profile") {
            made.set(key, value).map_err(|why| Failure::Usage(format!("--set {why}")))?;
        }
        made.check().map_err(|why| Failure::Usage(format!("--set {why}")))?;
        Ok(made)
    }

    /// Who waits for answers sends nothing that would tell it that nobody is there any more, but HEARTBEATs: these go every
    /// 5 s, where RFC 9260 §16 advises 30, unless the flag says otherwise.
    pub fn asks_after_peers(sctp: &mut Config, set: &[(String, String)]) {
        if !set.iter().any(|(key, _)| key == "hb_interval" || key == "profile") {
            sctp.hb_interval = Some(Duration::from_secs(5));
        }
    }

    /// So many streams an association, and no more whatever the peer asks for (RFC 6525 §5.2.5), unless the flag says so.
    pub fn streams(sctp: &mut Config, set: &[(String, String)], streams: u16) {
        sctp.streams = streams;
        if !set.iter().any(|(key, _)| key == "max_streams") {
            sctp.max_streams = streams;
        }
    }

    /// Whether a knob acts at the end that sends data, and only there: SCTP's, and those of the kernel's protocols. A profile
    /// sets such ones, too.
    pub fn is_senders(key: &str) -> bool {
        SENDERS.contains(&key)
    }

    const SENDERS: [&str; 19] = [
        "profile",
        "cc",
        "iw",
        "rto_min",
        "rto_var_min",
        "rto_max",
        "mss",
        "sndbuf",
        "max_burst",
        "dupthresh",
        "rack",
        "tlp",
        "hystart",
        "pacing",
        "prr",
        "nagle",
        "rtx_path",
        "scheduler",
        "pmtud",
    ];

    /// What results say of the settings.
    pub fn told(config: &Config, carrier: Carrier) -> Vec<(String, String)> {
        if carrier == Carrier::Tcp {
            return Vec::new();
        }
        config.knobs().into_iter().map(|knob| (knob.key.to_owned(), knob.value)).collect()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// A knob that is new has to be put on one side or the other.
        #[test]
        fn every_knob_is_a_senders_or_not() {
            let others = [
                "rto_initial",
                "delack",
                "ack_every",
                "rcvbuf",
                "ecn",
                "path_max_retrans",
                "pf_max_retrans",
                "primary_switch",
                "assoc_max_retrans",
                "assoc_silence",
                "init_max_retrans",
                "hb_interval",
                "sack_path",
                "cookie_life",
                "cookie_data",
                "streams",
                "inbound",
                "partial_delivery",
                "interleaving",
                "partial_reliability",
                "auth",
                "auth_chunks",
                "auth_hmac",
                "adaptation",
                "asconf",
                "reconfig",
                "max_streams",
                "zero_checksum",
                "address_types",
                "icmp_doubt",
                "udp_apart",
            ];
            for knob in Config::default().knobs() {
                assert!(is_senders(knob.key) != others.contains(&knob.key), "{}", knob.key);
            }
        }
    }
}
