//! Settings: every knob of the engine with its key, meaning, unit, text form and profile values; and how to choose them.
//!
//! One table declares each knob once; parsing, printing, help and the completeness of profiles are derived from it.
//! Each value of a profile has its source.
//!
//! Home of RFC 9260 §16.
//!
//! # Choosing settings
//!
//! Begin with a profile, change what the job needs, and check:
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
//! | profile | is |
//! |---|---|
//! | `modern` | what a current Linux does for TCP, and the same choices for SCTP, with every extension that costs nothing |
//! | `rfc9260` (default) | RFC 9260 by the letter, without extensions |
//! | `rfc2960`, `kame-2002`, `lksctp-2.6`, `ns2` | stacks of their time, to redo what was measured with them |
//!
//! | job | settings |
//! |---|---|
//! | high rate, long round trip | `rcvbuf` and `sndbuf` of twice the bandwidth-delay product; `max_burst=0` |
//! | leave a failed path soon | `pf_max_retrans=0`, a small `rto_min`, `hb_interval=5s` for idle paths |
//! | notice sooner that the peer is gone | `assoc_max_retrans`, `hb_interval`; `assoc_silence` is the time that errors must have gone on |
//! | small messages beside large ones | `interleaving=yes`, `scheduler=rr` or `priority`; `nagle=no` |
//! | data that grows old | `partial_reliability=yes`, and a [`Reliability`](crate::Reliability) for each message |
//! | acknowledgements at once | `delack=0`, or `ack_every=1` |
//! | addresses that change | `auth=yes,asconf=yes` and [`Config::shared_keys`] |
//! | paths that drop large packets in silence | `pmtud=plpmtud`, or `blackhole` to begin with the interface's size |
//! | streams that begin anew, or are added | `reconfig=yes`, `max_streams` as the limit for the peer |
//! | programs behind one NAT, or on one host | `udp_apart=yes` |
//! | one memory limit for all associations | [`Config::memory`] |
//!
//! An extension is in force where both ends have it: [`AssociationInfo::extensions`](crate::AssociationInfo::extensions)
//! says which are. [`Config::knobs`] lists every setting with its help text, and `anabranch race --list profiles` prints
//! every value of every profile with its source.

mod chunks;
mod knobs;
mod profiles;
mod requests;
mod shared_keys;

pub use chunks::ChunkSet;
pub use profiles::PROFILES;
pub use requests::ReconfigRequests;
pub use shared_keys::{SharedKeys, SharedKeysError};

use anabranch_base::Budget;
use anabranch_base::time::Duration;
use anabranch_base::units::format_span;
use anabranch_congestion::SlowStartExit;
use knobs::{KNOBS, position};

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
    /// What the interface takes is taken to pass; by probes once packets vanish, or ICMP tells.
    Blackhole,
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
    /// The least that the variation of the RTT adds to the RTO; zero for the clock granularity.
    pub rto_var_min: Duration,
    /// RTO.Max.
    pub rto_max: Duration,
    /// Largest timeout of an INIT, in place of `rto_max` (RFC 6458 §5.3.1 `sinit_max_init_timeo`).
    pub init_rto_max: Option<Duration>,
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
    /// What ends slow start before a loss does.
    pub hystart: Option<SlowStartExit>,
    /// Linux's HyStart watches paths whose least round trip is not below this.
    pub hystart_min_rtt: Duration,
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
    /// Errors in a row end an association only when they have gone on for so long.
    pub assoc_silence: Duration,
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
    /// NR-SACK: nothing that was acknowledged is taken back, and its bytes go at once (draft-natarajan-tsvwg-sctp-nrsack).
    pub nr_sack: bool,
    /// Messages can be read in the order in which they became readable, whatever their stream
    /// (`Endpoint::recv_next`). Sockets want that; it is no knob.
    pub track_arrivals: bool,
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
    /// What the peer's RE-CONFIG may ask for; the rest is answered "Denied" (RFC 6525 §6.3.1).
    pub reconfig_requests: ReconfigRequests,
    /// Most streams in each direction that the peer's RE-CONFIG may lead to.
    pub max_streams: u16,
    /// Packets without a checksum are accepted where a lower layer protects them (RFC 9653).
    pub zero_checksum: bool,
    /// INIT lists the address types that this side has (Supported Address Types).
    pub address_types: bool,
    /// Protocol Unreachable is believed only of a destination that two timeouts in a row have found silent.
    pub icmp_doubt: bool,
    /// Peers of one address and SCTP port are told apart by their UDP port. A peer that restarts behind another UDP port is
    /// another one then, and its old association ends as that of any peer that is gone.
    pub udp_apart: bool,
    /// Endpoint pair shared keys that chunks are signed with where `auth` is on (RFC 4895 §4). No knob: secrets are
    /// printed nowhere.
    pub shared_keys: SharedKeys,
    /// What all associations share of memory, whichever endpoint has them: send and receive buffers then follow what
    /// each uses and what is left, within `sndbuf` and `rcvbuf`. `None`: each association has its own two buffers.
    pub memory: Option<Budget>,
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
    ///
    /// ```
    /// use anabranch_sctp::{Config, PROFILES};
    ///
    /// assert!(PROFILES.iter().all(|name| Config::profile(name).is_some()));
    /// assert!(Config::profile("rfc9999").is_none());
    /// ```
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
    /// ```
    /// # use anabranch_sctp::{Config, KnobError};
    /// let mut config = Config::default();
    /// config.set("asconf", "yes")?;
    /// assert!(config.check().is_err(), "addresses change only authenticated");
    /// config.set("auth", "yes")?;
    /// assert!(config.check().is_ok());
    /// # Ok::<(), KnobError>(())
    /// ```
    ///
    /// # Errors
    /// [`KnobError`]: one line that names both.
    pub fn check(&self) -> Result<(), KnobError> {
        if self.asconf && !self.auth {
            return Err(KnobError("sctp:asconf=yes needs auth=yes (RFC 5061 §4.1.1)".to_owned()));
        }
        // RFC 6458 §8.1.1: the bounds hold for all RTOs. RTO.Initial may be below RTO.Min, which bounds what is
        // computed (RFC 9260 §6.3.1 C6), but nothing ever waits for longer than RTO.Max.
        let [min, initial, max] = [self.rto_min, self.rto_initial, self.rto_max].map(format_span);
        if self.rto_min > self.rto_max {
            return Err(KnobError(format!("sctp:rto_min={min} is more than rto_max={max}")));
        }
        if self.rto_initial > self.rto_max {
            return Err(KnobError(format!("sctp:rto_initial={initial} is more than rto_max={max}")));
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
    ///
    /// ```
    /// # use anabranch_sctp::Config;
    /// for knob in Config::default().knobs() {
    ///     println!("{}={} ({})", knob.key, knob.value, knob.source);
    /// }
    /// ```
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
            rto_var_min: Duration::ZERO,
            rto_max: Duration::from_secs(60),
            init_rto_max: None,
            delack: Duration::from_millis(200),
            ack_every: 2,
            mss: None,
            rcvbuf: 1 << 20,
            sndbuf: 1 << 20,
            max_burst: Some(4),
            dupthresh: 3,
            rack: false,
            tlp: false,
            hystart: None,
            hystart_min_rtt: Duration::ZERO,
            pacing: false,
            prr: false,
            nagle: false,
            ecn: false,
            path_max_retrans: 5,
            pf_max_retrans: None,
            primary_switch: None,
            assoc_max_retrans: 10,
            assoc_silence: Duration::ZERO,
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
            nr_sack: false,
            track_arrivals: false,
            auth: false,
            auth_chunks: ChunkSet::default(),
            auth_hmac: Hmacs::Sha256First,
            adaptation: None,
            asconf: false,
            reconfig: false,
            reconfig_requests: ReconfigRequests::ALL,
            max_streams: u16::MAX,
            zero_checksum: false,
            address_types: true,
            icmp_doubt: false,
            udp_apart: false,
            shared_keys: SharedKeys::default(),
            memory: None,
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

/// How many knobs there are.
const KNOB_COUNT: usize = KNOBS.len();

/// RFC 9260 §6.3.1: the least that 4·RTTVAR adds to the RTO.
pub(crate) const GRANULARITY: Duration = Duration::from_millis(1);

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

    /// What the RTO would be with a minimum, or a first value, beyond its maximum is nobody's guess.
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
