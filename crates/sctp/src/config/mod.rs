//! The settings of the engine, and how to choose them. A setting is called a knob: it has a key, a meaning, a unit, a
//! text form and a value in each profile.
//!
//! The table in `knobs` declares each knob once. Fields, defaults, parsing, printing and help are derived from the
//! table. A profile lists only the values that differ from its parent, and every value names its source.
//!
//! Implements RFC 9260 §16 (protocol parameters).
//!
//! # Choosing settings
//!
//! Start with a profile, change what you need, and check the result:
//!
//! ```
//! use anabranch_sctp::Config;
//!
//! let mut config = Config::profile("modern").expect("a shipped profile");
//! config.set("rto_min", "100ms")?;
//! config.set("hb_interval", "5s")?;
//! config.check()?;
//! # Ok::<(), anabranch_sctp::KnobError>(())
//! ```
//!
//! | profile | description |
//! |---|---|
//! | `modern` | the choices of current Linux TCP applied to SCTP, and every extension that costs nothing; the default of the `anabranch` commands and `anabranch-tokio` |
//! | `rfc9260` | RFC 9260 to the letter, without extensions; the value of [`Config::default`] |
//! | `rfc2960`, `kame-2002`, `lksctp-2.6.11`, `lksctp-2.6`, `ns2` | historical stacks, to repeat measurements that were made with them |
//!
//! | purpose | settings |
//! |---|---|
//! | high rate, long round trip | `rcvbuf` and `sndbuf` of twice the bandwidth-delay product; `max_burst=0` |
//! | leave a failed path quickly | `pf_max_retrans=0`, a small `rto_min`, `hb_interval=5s` for idle paths |
//! | detect a dead peer earlier | smaller `assoc_max_retrans` and `hb_interval`; `assoc_silence` is the minimum time from the first error until the peer counts as dead |
//! | small messages next to large ones | `interleaving=yes`, `scheduler=rr` or `priority`; `nagle=no` |
//! | data that expires | `partial_reliability=yes`, and a [`Reliability`](crate::Reliability) for each message |
//! | immediate acknowledgements | `delack=0`, or `ack_every=1` |
//! | addresses that change | `auth=yes,asconf=yes` and [`Config::shared_keys`] |
//! | paths that silently drop large packets | `pmtud=plpmtud`, or `pmtud=blackhole`, which starts with the interface MTU |
//! | streams that are reset or added | `reconfig=yes`; `max_streams` limits how many streams the peer can add |
//! | several programs behind one NAT, or on one host | `udp_apart=yes` |
//! | one memory limit for all associations | [`Config::memory`] |
//!
//! An extension is in use if both ends support it: see
//! [`AssociationInfo::extensions`](crate::AssociationInfo::extensions). [`Config::knobs`] lists every setting with
//! its help text. `anabranch race --list profiles` prints every value of every profile with its source.

mod chunks;
mod forms;
mod knobs;
mod profiles;
mod requests;
mod shared_keys;

pub use anabranch_base::knobs::{Knob, KnobError};
pub use chunks::ChunkSet;
pub use knobs::Config;
pub use profiles::PROFILES;
pub use requests::ReconfigRequests;
pub use shared_keys::{SharedKeys, SharedKeysError};

use anabranch_base::knobs::{BY_USER, Table};
use anabranch_base::spelling;
use anabranch_base::time::Duration;
use anabranch_base::units::format_duration;

/// The congestion control algorithm of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Algorithm {
    /// Slow start and congestion avoidance of RFC 2960 §7.2.
    Rfc2960,
    /// Slow start and congestion avoidance of RFC 4960 §7.2.
    Rfc4960,
    /// Slow start and congestion avoidance of RFC 9260 §7.2.
    Rfc9260,
    /// CUBIC (RFC 9438).
    Cubic,
    /// BBR, version 3 (draft-ietf-ccwg-bbr).
    Bbr,
}

/// The settings that BBR needs. BBR derives rates from send times, so RACK must be on: losses are detected by time. PRR
/// and HyStart must be off, because no other mechanism may limit sending.
const WITH_BBR: [(&str, &str); 3] = [("rack", "yes"), ("prr", "no"), ("hystart", "no")];

/// The initial congestion window.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum InitialWindow {
    /// RFC 4960 §7.2.1: min(4 MTU, max(2 MTU, 4380 bytes)), where MTU is the path MTU.
    Rfc4960,
    /// RFC 9260 §7.2.1: min(4 PMDCS, max(2 PMDCS, 4404 bytes)), where PMDCS is the size of the largest DATA chunk. For
    /// IPv6, 4344 bytes replace the 4404 bytes.
    Rfc9260,
    /// A number of full packets.
    Packets(u32),
}

/// The destination to which a SACK is sent (RFC 9260 §6.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SackPath {
    /// The address from which the DATA came.
    Same,
    /// Another active destination, if there is one.
    Other,
}

/// The retransmissions that are sent to an alternate destination (RFC 9260 §6.4.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RetransmitPath {
    /// A chunk is retransmitted to the destination of its first transmission, as long as that destination is active.
    Same,
    /// Retransmissions after a timeout go to an alternate destination.
    Timeout,
    /// All retransmissions, including fast retransmissions, go to an alternate destination.
    All,
}

/// The method by which the MTU of a path is discovered.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum PathMtu {
    /// ICMP messages about packets that were too large (RFC 9260 §7.3).
    Icmp,
    /// Probes (RFC 8899), with ICMP messages as a hint.
    Plpmtud,
    /// Packets of the interface MTU are assumed to get through. Probes start once packets are lost or ICMP reports a
    /// smaller MTU.
    Blackhole,
}

/// The order in which streams with data to send are served (RFC 8260 §3).
///
/// With interleaving, the scheduler chooses a stream for each chunk. Without interleaving, it chooses a stream for each
/// message.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SchedulerKind {
    /// Messages are sent in the order in which they were passed to `send`.
    Fcfs,
    /// Streams are served in turn, one message or chunk at a time.
    RoundRobin,
    /// Streams are served in turn, and each packet holds chunks of one stream only.
    RoundRobinPacket,
    /// The stream with the lowest priority value is served first (0 is the highest priority). Streams with the same
    /// priority value are served in turn.
    Priority,
    /// Each stream gets the same number of bytes.
    Fair,
    /// Each stream gets bytes in proportion to its weight (a weight of 0 counts as 1).
    WeightedFair,
}

/// The HMAC algorithms that an endpoint asks its peers to use (RFC 4895 §3.3).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Hmacs {
    /// SHA-256, or SHA-1 if the peer supports nothing better.
    Sha256First,
    /// SHA-1, which every implementation supports.
    Sha1Only,
}

impl Config {
    /// Returns the profile `name`, one of [`PROFILES`].
    ///
    /// ```
    /// use anabranch_sctp::{Config, PROFILES};
    ///
    /// assert!(PROFILES.iter().all(|name| Config::profile(name).is_some()));
    /// assert!(Config::profile("rfc9999").is_none());
    /// ```
    #[must_use]
    pub fn profile(name: &str) -> Option<Self> {
        Self::named(profiles::ALL, name)
    }

    /// Sets one knob from its text form.
    ///
    /// ```
    /// use anabranch_sctp::{Config, KnobError};
    ///
    /// let mut config = Config::default();
    /// config.set("sndbuf", "4MiB")?;
    /// assert!(config.set("sndbuf", "much").is_err());
    /// # Ok::<(), KnobError>(())
    /// ```
    ///
    /// # Errors
    /// [`KnobError`] if the knob does not exist or the value cannot be parsed.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), KnobError> {
        let Some(at) = Self::position(key) else {
            let keys: Vec<&str> = Self::ROWS.iter().map(|row| row.key).collect();
            let hint = spelling::hint(key, &keys);
            return Err(KnobError(format!("sctp has no '{key}'{hint}; it has {}", keys.join(", "))));
        };
        self.set_row(at, value, BY_USER)
            .map_err(|why| KnobError(format!("sctp:{key}={value}: {why} ({})", Self::ROWS[at].help)))?;
        if self.cc == Algorithm::Bbr && key == "cc" {
            // BBR needs the knobs in `WITH_BBR`. Each of them is set only if the user has not set it. If the user's
            // value contradicts BBR, `check` rejects it.
            self.set_if_unset(&WITH_BBR, "goes with cc=bbr");
        }
        Ok(())
    }

    /// Checks for knobs whose values contradict each other.
    ///
    /// ```
    /// # use anabranch_sctp::{Config, KnobError};
    /// let mut config = Config::default();
    /// config.set("asconf", "yes")?;
    /// assert!(config.check().is_err(), "address changes must be authenticated");
    /// config.set("auth", "yes")?;
    /// assert!(config.check().is_ok());
    /// # Ok::<(), KnobError>(())
    /// ```
    ///
    /// # Errors
    /// [`KnobError`] if values contradict each other: one line that names both knobs.
    pub fn check(&self) -> Result<(), KnobError> {
        if self.asconf && !self.auth {
            return Err(KnobError("sctp:asconf=yes needs auth=yes (RFC 5061 §4.1.1)".to_owned()));
        }
        if self.asconf_primary && !self.asconf {
            return Err(KnobError("sctp:asconf_primary=yes needs asconf=yes".to_owned()));
        }
        if self.cc == Algorithm::Bbr
            && let Some((key, value)) = self.unmet(&WITH_BBR)
        {
            return Err(KnobError(format!("sctp:cc=bbr needs {key}={value}")));
        }
        // RFC 6458 §8.1.1: RTO.Max bounds every timeout. RTO.Min bounds only computed RTOs (RFC 9260 §6.3.1 C6), so
        // RTO.Initial may be below RTO.Min.
        let [min, initial, max] = [self.rto_min, self.rto_initial, self.rto_max].map(format_duration);
        if self.rto_min > self.rto_max {
            return Err(KnobError(format!("sctp:rto_min={min} is more than rto_max={max}")));
        }
        if self.rto_initial > self.rto_max {
            return Err(KnobError(format!("sctp:rto_initial={initial} is more than rto_max={max}")));
        }
        Ok(())
    }

    /// Returns the chunk types that are accepted only if they are authenticated. The set applies while authentication
    /// is on.
    pub(crate) fn guarded_chunks(&self) -> ChunkSet {
        let mut set = self.auth_chunks;
        if self.asconf {
            // RFC 5061 §4.1.1, §4.1.2: ASCONF (0xc1) and ASCONF-ACK (0x80) must be authenticated.
            set.insert(0xc1);
            set.insert(0x80);
        }
        set
    }

    /// RFC 8261 §6.1: turns off settings that have no meaning for SCTP without IP addresses.
    pub(crate) fn without_addresses(mut self) -> Self {
        for key in ["asconf", "asconf_primary", "address_types", "ecn"] {
            if let Some(at) = Self::position(key) {
                let set = self.set_row(at, "no", "RFC 8261 §6.1: SCTP knows no addresses here");
                assert!(set.is_ok(), "a switch can be off");
            }
        }
        self
    }

    /// Adapts the settings to a lower layer, such as DTLS, that transports the packets and adds `overhead` bytes to
    /// each. ICMP messages do not reach SCTP over such a layer, and the peer's lower layer may have small buffers.
    ///
    /// Changes `pmtud` from `blackhole` to `plpmtud`, unless the user has set `pmtud`. With `plpmtud`, the path MTU
    /// starts at 1200 bytes, overhead included, and probes search for a larger MTU (RFC 8261 §4, RFC 8899).
    ///
    /// ```
    /// # use anabranch_sctp::{Config, KnobError};
    /// let mut config = Config::default();
    /// config.set_unless_user_set("pmtud", "blackhole", "real networks lose ICMP messages")?;
    /// let config = config.over_layer(37);
    /// let pmtud = config.knobs().into_iter().find(|knob| knob.key == "pmtud").expect("a knob");
    /// assert_eq!(pmtud.value, "plpmtud");
    /// # Ok::<(), KnobError>(())
    /// ```
    #[must_use]
    pub fn over_layer(mut self, overhead: u32) -> Self {
        self.layer_overhead = overhead;
        if self.pmtud == PathMtu::Blackhole {
            let set = self.set_unless_user_set(
                "pmtud",
                "plpmtud",
                "RFC 8261 §4: over DTLS the search begins at 1200 bytes",
            );
            assert!(set.is_ok(), "a value of the knob");
        }
        self
    }

    /// Sets one knob from its text form, unless the user has set this knob with [`set`](Self::set). `source` is the
    /// reason for the value.
    ///
    /// ```
    /// # use anabranch_sctp::{Config, KnobError};
    /// let mut config = Config::default();
    /// config.set("pmtud", "plpmtud")?;
    /// config.set_unless_user_set("pmtud", "blackhole", "real networks lose ICMP messages")?;
    /// let pmtud = config.knobs().into_iter().find(|knob| knob.key == "pmtud").expect("a knob");
    /// assert_eq!(pmtud.value, "plpmtud");
    /// # Ok::<(), KnobError>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`set`](Self::set).
    pub fn set_unless_user_set(
        &mut self,
        key: &str,
        value: &str,
        source: &'static str,
    ) -> Result<(), KnobError> {
        let at = Self::position(key).ok_or_else(|| KnobError(format!("sctp has no '{key}'")))?;
        if self.sources()[at] == BY_USER {
            return Ok(());
        }
        self.set_row(at, value, source).map_err(|why| KnobError(format!("sctp:{key}={value}: {why}")))
    }

    /// Returns every knob with its value and the source of the value.
    ///
    /// ```
    /// # use anabranch_sctp::Config;
    /// for knob in Config::default().knobs() {
    ///     println!("{}={} ({})", knob.key, knob.value, knob.source);
    /// }
    /// ```
    #[must_use]
    pub fn knobs(&self) -> Vec<Knob> {
        self.list()
    }

    /// Returns the number of streams that the peer may send on.
    #[must_use]
    pub fn inbound_streams(&self) -> u16 {
        self.max_instreams.unwrap_or(self.num_ostreams)
    }
}

impl Default for Config {
    /// Returns the profile `rfc9260`.
    fn default() -> Self {
        Self::defaults()
    }
}

/// RFC 9260 §6.3.1: the clock granularity G, which is the minimum that 4·RTTVAR adds to the RTO.
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_every_profile_is_written_as_it_is_read_and_names_its_source() {
        for profile in profiles::ALL {
            let knobs = Config::of(profile).knobs();
            assert!(knobs.iter().all(|knob| !knob.source.is_empty()), "{}", profile.name);
            let parent = profile.parent.map_or_else(Config::defaults, Config::of).knobs();
            for (key, value, source) in profile.rows {
                let find = |knobs: &[Knob]| knobs.iter().find(|knob| knob.key == *key).cloned().expect(key);
                let (knob, inherited) = (find(&knobs), find(&parent));
                assert_eq!((knob.value.as_str(), knob.source), (*value, *source), "{}: {key}", profile.name);
                assert_ne!(knob, inherited, "{}: {key} is the parent's", profile.name);
            }
        }
    }

    /// An RTO.Min or RTO.Initial above RTO.Max is an error, because no RTO could satisfy both bounds.
    #[test]
    fn bounds_of_the_rto_that_contradict_each_other_are_named() {
        for (set, line) in [
            (&[("rto_min", "3s"), ("rto_max", "1s")][..], "sctp:rto_min=3s is more than rto_max=1s"),
            (&[("rto_min", "61s")], "sctp:rto_min=61s is more than rto_max=60s"),
            (&[("rto_max", "10ms")], "sctp:rto_min=1s is more than rto_max=10ms"),
            (&[("rto_min", "200ms"), ("rto_max", "800ms")], "sctp:rto_initial=1s is more than rto_max=800ms"),
        ] {
            let mut config = Config::default();
            set.iter().for_each(|(key, value)| config.set(key, value).expect("a time"));
            assert_eq!(config.check().expect_err(line).to_string(), line);
        }
        for set in [
            &[("rto_min", "60s")][..],
            &[("rto_max", "1s")],
            &[("rto_initial", "100ms")],
            &[("rto_initial", "60s")],
        ] {
            let mut config = Config::default();
            set.iter().for_each(|(key, value)| config.set(key, value).expect("a time"));
            assert_eq!(config.check(), Ok(()), "{set:?}");
        }
        assert!(PROFILES.iter().all(|name| Config::profile(name).expect(name).check().is_ok()));
    }

    #[test]
    fn a_wrong_value_is_answered_with_the_accepted_forms() {
        let mut config = Config::default();
        for (key, value) in
            [("cc", "vegas"), ("delack", "5"), ("num_ostreams", "70000"), ("iw", "0"), ("nope", "1")]
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
