//! `--set`, `--key-file` and `--ppid`: the knobs, the shared keys and the payload protocol identifier of the transports
//! on a real network.
//!
//! A command uses the transports of its URLs and addresses. Knobs are settings that only some transports have. If
//! exactly one transport of the command has knobs, `--set` and `--key-file` apply to it. If none of them has knobs, the
//! flags are checked against the first transport with knobs among all that the program supports.

use crate::flag::flag;
use clap::{Arg, ArgAction, value_parser};

/// Returns the `--set` flag.
pub fn set() -> Arg {
    flag(
        "set",
        "KEY=VALUE[,..]",
        "SCTP knobs of this end, or QUIC's over h3://, as in `race`: profile=rfc9260,rcvbuf=8MiB [default: profile=modern]",
    )
    .action(ArgAction::Append)
}

/// Returns the `--key-file` flag.
pub fn key_file() -> Arg {
    flag(
        "key-file",
        "FILE",
        "Keys that both ends share (RFC 4895), for --set auth=yes: lines of ID HEX or ID base64:TEXT. All are accepted; \
         the last key signs, or the one that is marked `active`",
    )
}

/// Returns the `--ppid` flag of the clients that speak HTTP.
pub fn ppid() -> Arg {
    flag(
        "ppid",
        "N",
        "SCTP payload protocol identifier of requests, such as 53 (binary messages of WebRTC) [default: 63, HTTP's]",
    )
    .value_parser(value_parser!(u32).range(1..))
}

#[cfg(target_os = "linux")]
pub use linux::{Tuned, describe, from_flags, is_senders, key_file as key_file_of, tuned, warn};

#[cfg(target_os = "linux")]
mod linux {
    use crate::{Failure, complain};
    use anabranch_base::Budget;
    use anabranch_base::spelling::hint;
    use anabranch_transport::network::Needs;
    use anabranch_transport::{Protocol, Settings};
    use anabranch_transports::security::read_secret_file;
    use anabranch_transports::{Transport, Transports, UrlScheme};
    use clap::ArgMatches;
    use std::collections::{BTreeMap, BTreeSet};
    use std::path::Path;
    use std::sync::{Arc, Mutex, Once, PoisonError};

    /// A key and a value of `--set`.
    type Pair = (String, String);

    /// Returns the keys and values of `--set`, in the order in which they were given.
    pub fn from_flags(matches: &ArgMatches) -> Result<Vec<Pair>, Failure> {
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

    /// The settings of the transports that a command uses.
    #[derive(Clone, Debug)]
    pub struct Tuned {
        /// The transports of the command that have knobs (settings that `--set` can change), in the order of the list
        /// of all transports. If the command has no such transport, the list holds only the first of all transports
        /// that has knobs.
        engines: Vec<(Arc<Transport>, Box<dyn Settings>)>,
        /// The kernel's transports, which have no knobs that `--set` can change.
        kernels: Vec<(Arc<Transport>, Box<dyn Settings>)>,
        /// Whether the command uses a transport with knobs.
        used: bool,
        /// For each entry of `engines`, whether output shows the transport's name before the knobs. Only the first of
        /// all transports that has knobs is shown without its name.
        named: Vec<bool>,
        /// The payload protocol identifier of `--ppid`; `None` without the flag.
        ppid: Option<u32>,
        /// What the command needs from its transports.
        needs: Needs,
    }

    impl Tuned {
        /// Returns the settings of the transports that the URL schemes `schemes` use, adapted to `needs`. Fails if the
        /// user set a knob with `--set` and several of these transports have knobs. Two transports may have a knob of
        /// the same name, so `--set` would be ambiguous.
        pub fn read<'a>(
            matches: &ArgMatches,
            transports: &Transports,
            schemes: impl IntoIterator<Item = &'a UrlScheme>,
            needs: &Needs,
        ) -> Result<Self, Failure> {
            let set = from_flags(matches)?;
            let (mut engines, mut kernels) = (Vec::new(), Vec::new());
            let schemes: Vec<&UrlScheme> = schemes.into_iter().collect();
            for transport in transports.iter() {
                let is_it = |scheme: &&&UrlScheme| scheme.transport().name() == transport.name();
                let Some(scheme) = schemes.iter().find(is_it) else { continue };
                let list = if scheme.can().kernel { &mut kernels } else { &mut engines };
                list.push(transport.clone());
            }
            let used = !engines.is_empty();
            if let ([one, second, ..], Some((key, value))) = (engines.as_slice(), set.first()) {
                let [one, second] = [one, second].map(|transport| transport.name().to_uppercase());
                return Err(Failure::Usage(format!(
                    "--set {key}={value}: is it for {one} or {second}? both are in use; use one of them, or leave --set out"
                )));
            }
            let first = transports.first_engine();
            if !used {
                engines.extend(first.cloned());
            }
            let is_set = |key: &str| set.iter().any(|(known, _)| known == key);
            let ppid = matches.try_get_one::<u32>("ppid").ok().flatten().copied();
            let mut tuned = Self {
                engines: Vec::new(),
                kernels: Vec::new(),
                used,
                named: Vec::new(),
                ppid,
                needs: *needs,
            };
            let mut identified = ppid.is_none();
            let mut refused = None;
            let mut keyed = false;
            for transport in engines {
                let protocol = real(&transport)?;
                let mut settings = self::set(protocol, &set)?;
                if let Some(path) = key_file(matches) {
                    match settings.uses_shared_keys() {
                        Ok(()) => {
                            add_keys(&mut *settings, path)?;
                            keyed = true;
                        }
                        Err(error) => refused = refused.or(Some(format!("--key-file {path}: {error}"))),
                    }
                }
                if let Some(ppid) = ppid.filter(|_| used) {
                    identified |= settings.set_message_protocol(ppid);
                }
                settings.suit(needs, &is_set);
                tuned.named.push(first.is_none_or(|first| first.name() != transport.name()));
                tuned.engines.push((transport, settings));
            }
            if let Some(message) = refused.filter(|_| !keyed) {
                return Err(Failure::Usage(message));
            }
            if let Some(ppid) = ppid.filter(|_| !identified) {
                return Err(Failure::Usage(format!(
                    "--ppid {ppid}: is for SCTP; write http+sctp:// or https+sctp://"
                )));
            }
            for transport in kernels {
                let mut settings = self::set(real(&transport)?, &[])?;
                settings.suit(needs, &|_| false);
                tuned.kernels.push((transport, settings));
            }
            Ok(tuned)
        }

        /// Returns the settings of the transport of `scheme`. A redirection may lead to a scheme that the command line
        /// does not name. Such a scheme has the default settings for real networks.
        pub fn of(&self, scheme: &UrlScheme) -> Result<Box<dyn Settings>, Failure> {
            let all = self.engines.iter().chain(&self.kernels);
            let name = scheme.transport().name();
            match all.into_iter().find(|(transport, _)| transport.name() == name) {
                Some((_, settings)) => Ok(settings.clone()),
                None => {
                    let mut settings = self::set(scheme.protocol(), &[])?;
                    settings.suit(&self.needs, &|_| false);
                    Ok(settings)
                }
            }
        }

        /// Returns the settings in the form in which results list them. If several transports are used, these are the
        /// settings of the first transport, because settings of several transports may have the same name.
        pub fn describe(&self) -> Vec<Pair> {
            let first = self.engines.first().filter(|_| self.used);
            let mut all = first.map(|(_, settings)| describe(&**settings)).unwrap_or_default();
            all.extend(self.ppid.map(|ppid| ("ppid".to_owned(), ppid.to_string())));
            all
        }

        /// Lists the knobs of each transport in the form that `--set` accepts.
        pub fn lines(&self) -> String {
            let mut out = String::new();
            for ((transport, settings), named) in self.engines.iter().zip(&self.named) {
                let knobs = settings.knobs().into_iter().map(|knob| format!("{}={}", knob.key, knob.value));
                let knobs = knobs.collect::<Vec<_>>().join(",");
                match named {
                    true => out += &format!("set ({}): {knobs}\n", transport.name().to_uppercase()),
                    false => out += &format!("set: {knobs}\n"),
                }
            }
            out
        }

        /// Makes all sessions share the memory account `memory`.
        pub fn share_memory(&mut self, memory: &Budget) {
            self.engines.iter_mut().for_each(|(_, settings)| settings.share_memory(memory.clone()));
        }

        /// Warns once about weaknesses of these settings. A server calls this function after it has printed its
        /// addresses.
        pub fn warn(&self) {
            self.engines.iter().for_each(|(_, settings)| warn(&**settings));
        }
    }

    /// Returns the protocol of a transport that runs on real networks.
    fn real(transport: &Transport) -> Result<&dyn Protocol, Failure> {
        let none = || Failure::Internal(format!("{} does not run on real networks", transport.name()));
        transport.in_emulation().map(|protocol| &**protocol as &dyn Protocol).ok_or_else(none)
    }

    /// Returns the settings of `protocol` for real networks with the knobs in `set`. If `set` contains the knob
    /// `profile`, that knob is applied first, wherever it stands in `set`.
    fn set(protocol: &dyn Protocol, set: &[Pair]) -> Result<Box<dyn Settings>, Failure> {
        let none = || Failure::Internal(format!("{} has no settings for real networks", protocol.name()));
        let mut settings = protocol.deployed().ok_or_else(none)?;
        for (_, name) in set.iter().filter(|(key, _)| key == "profile") {
            settings = protocol.profile(name).ok_or_else(|| {
                let profiles = protocol.profiles();
                let (names, hint) = (profiles.join(", "), hint(name, profiles));
                Failure::Usage(format!(
                    "--set profile={name}: unknown profile '{name}'{hint}; accepted: {names}"
                ))
            })?;
        }
        for (key, value) in set.iter().filter(|(key, _)| key != "profile") {
            let key = current_name(protocol, key);
            settings.set(key, value).map_err(|error| Failure::Usage(format!("--set {error}")))?;
        }
        settings.check().map_err(|error| Failure::Usage(format!("--set {error}")))?;
        Ok(settings)
    }

    /// Returns the current name of a knob. Warns once about each name of an earlier version.
    fn current_name<'a>(protocol: &dyn Protocol, key: &'a str) -> &'a str {
        static WARNED: Mutex<BTreeSet<String>> = Mutex::new(BTreeSet::new());
        let Some(current) = protocol.current_knob(key) else { return key };
        if WARNED.lock().unwrap_or_else(PoisonError::into_inner).insert(key.to_owned()) {
            complain(&format!("--set {key}: now {current}; the old name works until 0.2"));
        }
        current
    }

    /// Returns the settings of `scheme` with the knobs in `set` and the keys of `--key-file`, for one end of a `bulk`
    /// test.
    pub fn tuned(
        matches: &ArgMatches,
        scheme: &UrlScheme,
        set: &[Pair],
    ) -> Result<Box<dyn Settings>, Failure> {
        let mut settings = self::set(scheme.protocol(), set)?;
        if let Some(path) = key_file(matches) {
            add_keys(&mut *settings, path)?;
        }
        Ok(settings)
    }

    /// Returns the settings in the form in which results list them.
    pub fn describe(settings: &dyn Settings) -> Vec<Pair> {
        settings.knobs().into_iter().map(|knob| (knob.key.to_owned(), knob.value)).collect()
    }

    /// Warns once about a weakness of the settings.
    pub fn warn(settings: &dyn Settings) {
        static ONCE: Once = Once::new();
        if let Some(weakness) = settings.weakness() {
            ONCE.call_once(|| complain(&format!("warning: {weakness}")));
        }
    }

    /// The path given with `--key-file`, if any.
    pub fn key_file(matches: &ArgMatches) -> Option<&str> {
        matches.get_one::<String>("key-file").map(String::as_str)
    }

    /// Adds the keys of the file `path` to the settings. Every thread needs the keys, but a pipe can be read only once.
    /// The text of the file is therefore kept.
    fn add_keys(settings: &mut dyn Settings, path: &str) -> Result<(), Failure> {
        static KNOWN: Mutex<BTreeMap<String, String>> = Mutex::new(BTreeMap::new());
        let wrong = |reason: String| Failure::Usage(format!("--key-file {path}: {reason}"));
        settings.uses_shared_keys().map_err(wrong)?;
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(text) = known.get(path) {
            return settings.set_shared_keys(text).map_err(wrong);
        }
        let text = read_keys(path).map_err(wrong)?;
        settings.set_shared_keys(&text).map_err(wrong)?;
        known.insert(path.to_owned(), text);
        Ok(())
    }

    fn read_keys(path: &str) -> Result<String, String> {
        /// The maximum size of a key file in bytes. A file with 256 keys of the maximum length fits.
        const MAX: u64 = 1 << 20;
        let bytes = read_secret_file(Path::new(path), MAX)?;
        String::from_utf8(bytes).map_err(|_| "not UTF-8; expected lines of ID and key".to_owned())
    }

    /// Whether the knob `key` has an effect only on the host that sends data. `SENDERS` lists these knobs of SCTP and
    /// of the kernel's protocols. It also lists `profile`, because a profile sets some of them.
    pub fn is_senders(key: &str) -> bool {
        SENDERS.contains(&key)
    }

    const SENDERS: [&str; 23] = [
        "profile",
        "cc",
        "iw",
        "rto_min",
        "rto_var_min",
        "rto_max",
        "mss",
        "sndbuf",
        "max_burst",
        "burst_window",
        "dupthresh",
        "fast_recovery",
        "fast_again",
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

    #[cfg(test)]
    mod tests {
        use super::is_senders;
        use anabranch_transports::Transports;

        /// Every knob must be in exactly one of two lists: `SENDERS` or `not_senders`. The test fails for a new knob
        /// that is in neither list.
        #[test]
        fn every_knob_is_a_senders_or_not() {
            let not_senders = [
                "rto_initial",
                "rtt_from_cookie",
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
                "num_ostreams",
                "max_instreams",
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
            let transports = Transports::standard();
            let engine = transports.first_engine().expect("an engine");
            let settings = engine.profile(engine.default_profile()).expect("a profile");
            for knob in settings.knobs() {
                assert!(is_senders(knob.key) != not_senders.contains(&knob.key), "{}", knob.key);
            }
        }
    }
}
