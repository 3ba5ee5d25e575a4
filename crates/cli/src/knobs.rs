//! `--set`, `--key-file` and `--ppid`: the knobs, the shared keys and the payload protocol identifier of a transport on a
//! real network.
//!
//! RFC 5061 §8: address changes must be authenticated. Without shared keys that were configured at both ends,
//! authentication protects only against attackers who have not seen the handshake.

use clap::{Arg, ArgAction, value_parser};

/// Returns the `--set` flag.
pub fn set() -> Arg {
    Arg::new("set")
        .long("set")
        .value_name("KEY=VALUE[,..]")
        .action(ArgAction::Append)
        .help("SCTP knobs of this end, or QUIC's over h3://, as in `race`: profile=rfc9260,rcvbuf=8MiB [default: profile=modern]")
}

/// Returns the `--key-file` flag.
pub fn key_file() -> Arg {
    Arg::new("key-file").long("key-file").value_name("FILE").help(
        "Keys that both ends share (RFC 4895), for --set auth=yes: lines of ID HEX or ID base64:TEXT. All are accepted; \
         the last one, or the one with `active` behind it, signs",
    )
}

/// Returns the `--ppid` flag of the clients that speak HTTP.
pub fn ppid() -> Arg {
    Arg::new("ppid")
        .long("ppid")
        .value_name("N")
        .value_parser(value_parser!(u32).range(1..))
        .help("SCTP payload protocol identifier of requests, such as 53 (binary messages of WebRTC) [default: 63, HTTP's]")
}

#[cfg(target_os = "linux")]
pub use linux::{
    asks_after_peers, chosen_ppid, describe, describe_quic, divided, given, is_senders,
    key_file as key_file_of, quic, sctp, streams, warn,
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

    /// Returns the keys and values of `--set`, in the order in which they were given.
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

    /// The key-value pairs of `--set`, divided into SCTP's knobs and QUIC's.
    pub struct Divided {
        /// The SCTP knobs.
        pub sctp: Vec<(String, String)>,
        /// The QUIC knobs.
        pub quic: Vec<(String, String)>,
    }

    /// Assigns the knobs that were given to SCTP or to QUIC, whichever `carriers` use. Fails if they use both, because
    /// some knobs of SCTP and QUIC have the same name.
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

    /// Returns a QUIC configuration with the knobs in `set`. The profile is applied first, wherever it stands in `set`.
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

    /// Returns the QUIC settings in the form in which results list them.
    pub fn describe_quic(config: &anabranch_quic::Config) -> Vec<(String, String)> {
        config.list().into_iter().map(|knob| (knob.key.to_owned(), knob.value)).collect()
    }

    /// Returns an SCTP configuration with the knobs in `set` and the keys of `--key-file`. The profile is applied first,
    /// wherever it stands in `set`.
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

    /// Warns once about weaknesses of these settings. A server calls this function after it has printed its addresses.
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

    /// Returns the payload protocol identifier given with `--ppid`, or 0 if none is given. Fails if no carrier is SCTP.
    pub fn chosen_ppid(
        matches: &ArgMatches,
        carriers: impl IntoIterator<Item = Carrier>,
    ) -> Result<u32, Failure> {
        let Some(&ppid) = matches.get_one::<u32>("ppid") else { return Ok(0) };
        match carriers.into_iter().any(|carrier| !carrier.is_kernels() && !carrier.is_http3()) {
            true => Ok(ppid),
            false => Err(Failure::Usage(format!(
                "--ppid {ppid}: is for SCTP; write http+sctp:// or https+sctp://"
            ))),
        }
    }

    /// The path given with `--key-file`, if any.
    pub fn key_file(matches: &ArgMatches) -> Option<&str> {
        matches.get_one::<String>("key-file").map(String::as_str)
    }

    /// The minimum length in bytes of a shared key that is hard to guess.
    const MIN_SECRET: usize = 16;

    /// Returns the keys of the file `path`. The file is read only once, because every thread needs the keys and the file
    /// may be a pipe.
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
        /// The maximum size of a key file in bytes. A file with 256 keys of the maximum length fits.
        const MAX: u64 = 1 << 20;
        let bytes = read_secret_file(Path::new(path), MAX)?;
        let text =
            String::from_utf8(bytes).map_err(|_| "not UTF-8; expected lines of ID and key".to_owned())?;
        SharedKeys::parse(&text).map_err(|why| why.to_string())
    }

    /// Makes SCTP send a heartbeat every 5 s (RFC 9260 §16 advises 30 s), unless `--set` sets the interval. An end that
    /// only receives data sends nothing else by which it could notice that the peer is dead.
    pub fn asks_after_peers(sctp: &mut Config, set: &[(String, String)]) {
        if !set.iter().any(|(key, _)| key == "hb_interval" || key == "profile") {
            sctp.hb_interval = Some(Duration::from_secs(5));
        }
    }

    /// Limits an association to `streams` streams, even if the peer requests more (RFC 6525 §5.2.5), unless `--set` sets
    /// the limit.
    pub fn streams(sctp: &mut Config, set: &[(String, String)], streams: u16) {
        sctp.streams = streams;
        if !set.iter().any(|(key, _)| key == "max_streams") {
            sctp.max_streams = streams;
        }
    }

    /// Whether the knob `key` has an effect only at the end that sends data. Covers the knobs of SCTP and of the kernel's
    /// protocols. Also covers `profile`, because a profile sets some of these knobs.
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

    /// Returns the SCTP settings in the form in which results list them.
    pub fn describe(config: &Config) -> Vec<(String, String)> {
        config.knobs().into_iter().map(|knob| (knob.key.to_owned(), knob.value)).collect()
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        /// This test fails for a new knob until somebody adds the knob to one of the two lists.
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
