//! `--set` and `--key-file`: the knobs and the shared keys of a transport on a real network.
//!
//! RFC 5061 §8: addresses change authenticated. Without keys that both ends were given, that holds against those who
//! have not seen the handshake only.

use clap::{Arg, ArgAction};

/// The flag.
pub fn set() -> Arg {
    Arg::new("set")
        .long("set")
        .value_name("KEY=VALUE[,..]")
        .action(ArgAction::Append)
        .help("SCTP knobs of this end, or QUIC's over h3://, as in `race`: profile=rfc9260,rcvbuf=8MiB [default: profile=modern]")
}

/// The flag for shared keys.
pub fn key_file() -> Arg {
    Arg::new("key-file").long("key-file").value_name("FILE").help(
        "Keys that both ends share (RFC 4895), for --set auth=yes: lines of ID HEX or ID base64:TEXT. All are accepted; \
         the last one, or the one with `active` behind it, signs",
    )
}

#[cfg(target_os = "linux")]
pub use linux::{
    asks_after_peers, describe, describe_quic, divided, given, is_senders, key_file as key_file_of, quic,
    sctp, streams, warn,
};

#[cfg(target_os = "linux")]
mod linux {
    use crate::place::Carrier;
    use crate::serve::config;
    use crate::{Failure, complain};
    use anabranch_base::knobs::Table;
    use anabranch_base::spelling::hint;
    use anabranch_base::time::Duration;
    use anabranch_tls::read_secret_file;
    use anabranch_transport::Settings;
    use anabranch_transport::sctp::{Config, PROFILES, SharedKeys};
    use clap::ArgMatches;
    use std::collections::BTreeMap;
    use std::path::Path;
    use std::sync::{Mutex, Once, PoisonError};

    /// Keys and values, in the order in which they were given.
    pub fn given(matches: &ArgMatches) -> Result<Vec<(String, String)>, Failure> {
        let mut pairs = Vec::new();
        for text in matches.get_many::<String>("set").into_iter().flatten() {
            for part in text.split(',') {
                let (key, value) = part
                    .split_once('=')
                    .ok_or_else(|| Failure::Usage(format!("--set {text}: '{part}'; expected key=value")))?;
                pairs.push((key.to_owned(), value.to_owned()));
            }
        }
        Ok(pairs)
    }

    /// What `--set` is for: SCTP's knobs or QUIC's, by what is spoken.
    pub struct Divided {
        /// SCTP's.
        pub sctp: Vec<(String, String)>,
        /// QUIC's.
        pub quic: Vec<(String, String)>,
    }

    /// Whose knobs were given, where these carry HTTP. Both have knobs of one name.
    pub fn divided(
        matches: &ArgMatches,
        carriers: impl IntoIterator<Item = Carrier>,
    ) -> Result<Divided, Failure> {
        let set = given(matches)?;
        let (mut quic, mut sctp) = (false, false);
        for carrier in carriers {
            quic |= carrier.is_http3();
            sctp |= !carrier.is_http3() && !carrier.is_kernels();
        }
        if quic
            && sctp
            && let Some((key, value)) = set.first()
        {
            return Err(Failure::Usage(format!(
                "--set {key}={value}: of SCTP or of QUIC? both are used; use one of them, or leave --set out"
            )));
        }
        if quic
            && !sctp
            && let Some(path) = key_file(matches)
        {
            return Err(Failure::Usage(format!("--key-file {path}: QUIC has certificates; leave it out")));
        }
        Ok(if quic {
            Divided { sctp: Vec::new(), quic: set }
        } else {
            Divided { sctp: set, quic: Vec::new() }
        })
    }

    /// QUIC with these knobs; the profile comes first, wherever it stands.
    pub fn quic(set: &[(String, String)]) -> Result<anabranch_quic::Config, Failure> {
        use anabranch_quic::{Config, PROFILES};
        let mut made = Config::default();
        for (_, name) in set.iter().filter(|(key, _)| key == "profile") {
            made = Config::profile(name).ok_or_else(|| {
                let (names, hint) = (PROFILES.join(", "), hint(name, &PROFILES));
                Failure::Usage(format!(
                    "--set profile={name}: unknown profile '{name}'{hint}; accepted: {names}"
                ))
            })?;
        }
        for (key, value) in set.iter().filter(|(key, _)| key != "profile") {
            made.set(key, value).map_err(|why| Failure::Usage(format!("--set {why}")))?;
        }
        made.check().map_err(|why| Failure::Usage(format!("--set {why}")))?;
        Ok(made)
    }

    /// What results say of QUIC's settings.
    pub fn describe_quic(config: &anabranch_quic::Config) -> Vec<(String, String)> {
        config.list().into_iter().map(|knob| (knob.key.to_owned(), knob.value)).collect()
    }

    /// SCTP with these knobs, and with the keys of `--key-file`; the profile comes first, wherever it stands.
    pub fn sctp(matches: &ArgMatches, set: &[(String, String)]) -> Result<Config, Failure> {
        let mut made = config()?;
        for (_, name) in set.iter().filter(|(key, _)| key == "profile") {
            made = Config::profile(name).ok_or_else(|| {
                let names = PROFILES.join(", ");
                let hint = hint(name, PROFILES);
                Failure::Usage(format!(
                    "--set profile={name}: unknown profile '{name}'{hint}; accepted: {names}"
                ))
            })?;
        }
        for (key, value) in set.iter().filter(|(key, _)| key != "profile") {
            made.set(key, value).map_err(|why| Failure::Usage(format!("--set {why}")))?;
        }
        made.check().map_err(|why| Failure::Usage(format!("--set {why}")))?;
        if let Some(path) = key_file(matches) {
            if !made.auth {
                return Err(Failure::Usage(format!(
                    "--key-file {path}: the keys are not used without --set auth=yes"
                )));
            }
            made.shared_keys = keys(path)?;
        }
        Ok(made)
    }

    /// Says once what these settings leave open to attackers; a server does when it has said where it listens.
    pub fn warn(config: &Config) {
        static ONCE: Once = Once::new();
        if config.asconf && config.shared_keys.is_null() {
            ONCE.call_once(|| {
                complain(
                    "warning: asconf=yes without --key-file: anyone who sees a handshake can move its association to \
                     other addresses",
                );
            });
        } else if let Some(id) = config.shared_keys.shorter_than(MIN_SECRET)
            && !config.shared_keys.is_null()
        {
            ONCE.call_once(|| {
                complain(&format!("warning: --key-file: key {id} has less than {MIN_SECRET} bytes"))
            });
        }
    }

    /// The file that `--key-file` names.
    pub fn key_file(matches: &ArgMatches) -> Option<&str> {
        matches.get_one::<String>("key-file").map(String::as_str)
    }

    /// Bytes of a secret that nobody guesses.
    const MIN_SECRET: usize = 16;

    /// The keys of a file, which is read once: each thread asks for them, and it may be a pipe.
    fn keys(path: &str) -> Result<SharedKeys, Failure> {
        static KNOWN: Mutex<BTreeMap<String, SharedKeys>> = Mutex::new(BTreeMap::new());
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(keys) = known.get(path) {
            return Ok(keys.clone());
        }
        let keys = read_keys(path).map_err(|why| Failure::Usage(format!("--key-file {path}: {why}")))?;
        known.insert(path.to_owned(), keys.clone());
        Ok(keys)
    }

    fn read_keys(path: &str) -> Result<SharedKeys, String> {
        /// 256 keys of the longest kind are less.
        const MAX: u64 = 1 << 20;
        let bytes = read_secret_file(Path::new(path), MAX)?;
        let text =
            String::from_utf8(bytes).map_err(|_| "not UTF-8; expected lines of ID and key".to_owned())?;
        SharedKeys::parse(&text).map_err(|why| why.to_string())
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

    const SENDERS: [&str; 20] = [
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
        "hystart_min_rtt",
        "pacing",
        "prr",
        "nagle",
        "rtx_path",
        "scheduler",
        "pmtud",
    ];

    /// What results say of the settings.
    pub fn describe(config: &Config) -> Vec<(String, String)> {
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
                "nr_sack",
                "partial_reliability",
                "auth",
                "auth_chunks",
                "auth_hmac",
                "adaptation",
                "asconf",
                "asconf_primary",
                "reconfig",
                "reconfig_requests",
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
