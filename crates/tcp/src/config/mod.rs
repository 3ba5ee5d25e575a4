//! Every knob of the engine: key, meaning, unit, text form and profile values.
//!
//! One table (`KNOBS`) declares each knob once; parsing, printing, help and
//! the completeness of profiles are derived from it. The profiles themselves,
//! with the source of each value, are in `profiles`.

mod profiles;
mod text;

pub use profiles::PROFILES;

use anabranch_base::time::{Duration, nanos};
use anabranch_congestion::reno::{AfterIdle, Counting};
use anabranch_congestion::{InitialWindow, Kind, RttConfig, SlowStartExit, cubic, linux, reno};
use text::*;

/// Which congestion controller a connection gets.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cc {
    /// Slow start and congestion avoidance of RFC 5681.
    Reno,
    /// CUBIC (RFC 9438).
    Cubic,
}

/// What the congestion window is counted in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CwndUnit {
    /// Bytes, as the RFCs do.
    Bytes,
    /// Whole segments, whatever their length, with the arithmetic of Linux.
    Segments,
}

/// What the slow-start threshold after a loss is a share of.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ssthresh {
    /// What was in flight (RFC 5681 §3.1 eq. 4).
    Flight,
    /// The congestion window, as Linux and the BSDs take it.
    Window,
}

/// How a loss that acknowledgements betray is repaired.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoveryKind {
    /// RFC 5681 §3.2: one retransmission, over with the next new acknowledgement.
    Reno,
    /// RFC 6582: one retransmission a round trip, until all that was outstanding has arrived.
    NewReno,
    /// RFC 6675, when both sides permit SACK; else as NewReno.
    Sack,
}

/// How often the round-trip time is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RttSampling {
    /// With every acknowledgement of new data that allows it.
    Every,
    /// One segment at a time, as stacks without timestamps did.
    Once,
}

/// When a listener answers a SYN by a cookie, without memory (RFC 4987 §3.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SynCookies {
    /// Never: what does not fit the backlog is dropped.
    No,
    /// When the backlog has no place for a half-open connection.
    Auto,
    /// Always.
    Yes,
}

/// When a small segment waits for what is unacknowledged (RFC 9293 §3.7.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nagle {
    /// Never: what applications get that set TCP_NODELAY.
    No,
    /// While anything is unacknowledged.
    Yes,
    /// While an earlier small segment is unacknowledged (draft-minshall-nagle-01; what Linux does).
    Minshall,
}

/// All settings of an endpoint. Built from a profile, then changed by key.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Config {
    /// Congestion control.
    pub cc: Cc,
    /// Initial congestion window.
    pub iw: InitialWindow,
    /// What the window is counted in.
    pub cwnd_unit: CwndUnit,
    /// What the threshold after a loss is a share of.
    pub ssthresh: Ssthresh,
    /// How acknowledgements make the window grow.
    pub abc: Counting,
    /// What idleness does to the window.
    pub idle_restart: AfterIdle,
    /// The window grows only while the sender fills it.
    pub cwnd_validation: bool,
    /// How losses are repaired.
    pub recovery: RecoveryKind,
    /// RFC 6582 §3.2 step 2: no fast retransmit for duplicates that a timeout's repair caused.
    pub careful: bool,
    /// Duplicate acknowledgements that mean a loss.
    pub dupthresh: u32,
    /// RFC 3042: new data on the first two duplicates.
    pub limited_transmit: bool,
    /// RFC 6937: in a recovery by SACK, what leaves follows what arrives.
    pub prr: bool,
    /// RFC 8985 §6: with SACK, losses are found by time.
    pub rack: bool,
    /// RFC 8985 §7: probes of the tail, where losses are found by time.
    pub tlp: bool,
    /// What ends slow start before a loss does.
    pub hystart: Option<SlowStartExit>,
    /// Segments are spread over the round trip.
    pub pacing: bool,
    /// Undo the reduction of a loss that was none (RFC 3522 by timestamps, RFC 3708 by DSACK).
    pub undo: bool,
    /// RTO before the first measurement.
    pub rto_initial: Duration,
    /// Smallest RTO.
    pub rto_min: Duration,
    /// The least that the variation adds to the smoothed round trip.
    pub rto_var_min: Duration,
    /// Largest RTO.
    pub rto_max: Duration,
    /// Clock granularity: G of RFC 6298, and the tick of the timestamp option.
    pub tick: Duration,
    /// How often the round-trip time is measured.
    pub rtt_sample: RttSampling,
    /// Offer and take SACK (RFC 2018).
    pub sack: bool,
    /// Report duplicates by SACK (RFC 2883).
    pub dsack: bool,
    /// Offer and take timestamps (RFC 7323 §3).
    pub timestamps: bool,
    /// Offer and take window scaling (RFC 7323 §2).
    pub wscale: bool,
    /// Offer and take ECN (RFC 3168).
    pub ecn: bool,
    /// When a small segment is held back.
    pub nagle: Nagle,
    /// How long an acknowledgement may wait; zero acknowledges at once.
    pub delack: Duration,
    /// An acknowledgement is sent at the latest with every so manieth segment.
    pub ack_every: u32,
    /// Segments that are acknowledged at once when a connection begins, until data is answered with data within `delack`.
    pub quickack: u32,
    /// What was pushed is acknowledged once it has been read, and what widens the window at once, as Linux does.
    pub ack_push: bool,
    /// PSH is set on the last segment of a burst, too, not of a write alone.
    pub push_bursts: bool,
    /// Largest segment, bytes of payload and options; `None` takes what the MTU allows.
    pub mss: Option<u32>,
    /// Receive buffer in bytes: the largest window offered.
    pub rcvbuf: u64,
    /// The window offered begins at 64 KiB and grows with what the application reads, up to `rcvbuf`.
    pub rcvbuf_auto: bool,
    /// Send buffer in bytes: unsent and unacknowledged data.
    pub sndbuf: u64,
    /// The send buffer begins small and grows to twice the congestion window, up to `sndbuf`.
    pub sndbuf_auto: bool,
    /// Most segments sent in answer to one event; `None` for no limit.
    pub max_burst: Option<u32>,
    /// Retransmissions of a SYN or SYN-ACK before giving up.
    pub syn_retries: u32,
    /// Timeouts in a row before giving up an open connection (R2 of RFC 9293 §3.8.3).
    pub retries: u32,
    /// Give up when nothing was acknowledged for so long; `None` leaves it to `retries`.
    pub user_timeout: Option<Duration>,
    /// How long TIME-WAIT lasts: twice the maximum segment lifetime.
    pub time_wait: Duration,
    /// How long a closed socket waits for the peer's FIN.
    pub fin_wait2: Duration,
    /// Listen backlog when `listen` does not say: half-open connections, and as many accepted ones.
    pub backlog: u32,
    /// When a SYN is answered without memory (RFC 4987).
    pub syncookies: SynCookies,
    /// ICMP may lower the path MTU (RFC 1191).
    pub pmtu: bool,
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

impl Default for Config {
    fn default() -> Self {
        profiles::build(&profiles::MODERN)
    }
}

impl Config {
    /// The profile `name`, one of [`PROFILES`].
    #[must_use]
    pub fn profile(name: &str) -> Option<Self> {
        profiles::find(name).map(profiles::build)
    }

    /// Sets the knob `key` from text.
    ///
    /// # Errors
    /// One line that names the accepted forms, when the key is unknown or the value is not one of them.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), KnobError> {
        self.set_from(key, value, "set by the user")
    }

    fn set_from(&mut self, key: &str, value: &str, source: &'static str) -> Result<(), KnobError> {
        let Some(index) = KNOBS.iter().position(|knob| knob.key == key) else {
            let known: Vec<_> = KNOBS.iter().map(|knob| knob.key).collect();
            return Err(KnobError(format!("'{key}' is not a knob of tcp; there are {}", known.join(", "))));
        };
        let spec = &KNOBS[index];
        (spec.set)(self, value).map_err(|why| KnobError(format!("{key}: {why}")))?;
        self.sources[index] = source;
        Ok(())
    }

    /// Finds what two knobs together make impossible.
    ///
    /// # Errors
    /// [`KnobError`]: one line that names both.
    pub fn check(&self) -> Result<(), KnobError> {
        // RFC 6298 §2.4, §2.5: the bounds of what is computed. The first RTO may be below the minimum.
        for (key, rto) in [("rto_min", self.rto_min), ("rto_initial", self.rto_initial)] {
            if rto > self.rto_max {
                let [rto, max] = [rto, self.rto_max].map(|span| show_span(&span));
                return Err(KnobError(format!("tcp:{key}={rto} is more than rto_max={max}")));
            }
        }
        Ok(())
    }

    /// Every knob with its value and where that comes from.
    #[must_use]
    pub fn knobs(&self) -> Vec<Knob> {
        KNOBS
            .iter()
            .zip(self.sources)
            .map(|(spec, source)| Knob { key: spec.key, value: (spec.show)(self), help: spec.help, source })
            .collect()
    }

    /// The constants of the RTO.
    #[must_use]
    pub(crate) fn rtt(&self) -> RttConfig {
        RttConfig {
            rto_initial: self.rto_initial,
            rto_min: self.rto_min,
            rto_max: self.rto_max,
            granularity: self.tick.max(self.rto_var_min),
        }
    }

    /// After so many SYNs lost (or SYN-ACKs) the initial window is one segment:
    /// RFC 5681 §3.1 has one; RFC 6928 §2, with its larger window, more than one.
    #[must_use]
    pub(crate) fn syn_losses_for_one_segment(&self, mss: u64) -> u32 {
        if self.iw.bytes(mss) > InitialWindow::Rfc5681.bytes(mss) { 2 } else { 1 }
    }

    /// The controller's settings.
    #[must_use]
    pub(crate) fn controller(&self) -> Kind {
        if self.cwnd_unit == CwndUnit::Segments {
            return Kind::Linux(linux::Config {
                cubic: self.cc == Cc::Cubic,
                after_idle: self.idle_restart,
                grow_unused: !self.cwnd_validation,
            });
        }
        match self.cc {
            Cc::Reno => Kind::Reno(reno::Config {
                counting: self.abc,
                after_idle: self.idle_restart,
                grow_unused: !self.cwnd_validation,
            }),
            Cc::Cubic => Kind::Cubic(cubic::Config {
                counting: self.abc,
                after_idle: self.idle_restart,
                grow_unused: !self.cwnd_validation,
                ..cubic::Config::default()
            }),
        }
    }

    /// Nanoseconds of a timestamp tick, never zero.
    #[must_use]
    pub(crate) fn tick_nanos(&self) -> u64 {
        nanos(self.tick).max(1)
    }

    /// Before a profile has filled it in.
    fn blank() -> Self {
        Self {
            cc: Cc::Reno,
            iw: InitialWindow::Rfc5681,
            cwnd_unit: CwndUnit::Bytes,
            ssthresh: Ssthresh::Flight,
            abc: Counting::Acks,
            idle_restart: AfterIdle::Restart,
            cwnd_validation: true,
            recovery: RecoveryKind::NewReno,
            careful: true,
            dupthresh: 3,
            limited_transmit: true,
            prr: false,
            rack: false,
            tlp: false,
            hystart: None,
            pacing: false,
            undo: false,
            rto_initial: Duration::from_secs(1),
            rto_min: Duration::from_secs(1),
            rto_var_min: Duration::ZERO,
            rto_max: Duration::from_secs(60),
            tick: Duration::from_millis(1),
            rtt_sample: RttSampling::Every,
            sack: false,
            dsack: false,
            timestamps: false,
            wscale: false,
            ecn: false,
            nagle: Nagle::Yes,
            delack: Duration::from_millis(200),
            ack_every: 2,
            quickack: 0,
            ack_push: false,
            push_bursts: false,
            mss: None,
            rcvbuf: 65_535,
            rcvbuf_auto: false,
            sndbuf: 65_535,
            sndbuf_auto: false,
            max_burst: None,
            syn_retries: 5,
            retries: 12,
            user_timeout: None,
            time_wait: Duration::from_secs(60),
            fin_wait2: Duration::from_secs(60),
            backlog: 128,
            syncookies: SynCookies::No,
            pmtu: true,
            sources: [""; KNOB_COUNT],
        }
    }
}

/// One row of the table.
struct Spec {
    key: &'static str,
    help: &'static str,
    show: fn(&Config) -> String,
    set: fn(&mut Config, &str) -> Parsed<()>,
}

/// A row: key, field, how it is read, how it is written, what it means.
macro_rules! knob {
    ($key:literal, $field:ident, $read:expr, $write:expr, $help:literal) => {
        Spec {
            key: $key,
            help: $help,
            show: |config| $write(&config.$field),
            set: |config, text| {
                config.$field = $read(text)?;
                Ok(())
            },
        }
    };
}

const KNOB_COUNT: usize = 48;

const KNOBS: [Spec; KNOB_COUNT] = [
    knob!("cc", cc, read_cc, show_cc, "congestion control: reno or cubic"),
    knob!("iw", iw, read_iw, show_iw, "initial window: segments (1 to 64), rfc5681 or rfc6928"),
    knob!(
        "cwnd_unit",
        cwnd_unit,
        read_cwnd_unit,
        show_cwnd_unit,
        "the window counts bytes, or (segments) whole segments with the arithmetic of Linux, which goes without abc"
    ),
    knob!(
        "ssthresh",
        ssthresh,
        read_ssthresh,
        show_ssthresh,
        "the threshold after a loss is a share of what was in flight (RFC 5681), or of the window: flight or window"
    ),
    knob!(
        "abc",
        abc,
        read_abc,
        show_abc,
        "off: a window grows by the acknowledgement; N: by bytes, in slow start at most N segments each"
    ),
    knob!(
        "idle_restart",
        idle_restart,
        read_idle,
        show_idle,
        "after an idle RTO the window falls back: yes, no, or decay (RFC 2861)"
    ),
    knob!(
        "cwnd_validation",
        cwnd_validation,
        read_switch,
        show_switch,
        "the window grows only while it is used: yes or no"
    ),
    knob!("recovery", recovery, read_recovery, show_recovery, "loss recovery: reno, newreno or sack"),
    knob!(
        "careful",
        careful,
        read_switch,
        show_switch,
        "no fast retransmit on duplicates of a timeout's repair (RFC 6582): yes or no"
    ),
    knob!(
        "dupthresh",
        dupthresh,
        read_dupthresh,
        show_number,
        "duplicate acknowledgements that mean a loss: 1 to 127"
    ),
    knob!(
        "limited_transmit",
        limited_transmit,
        read_switch,
        show_switch,
        "new data on the first two duplicates (RFC 3042): yes or no"
    ),
    knob!(
        "prr",
        prr,
        read_switch,
        show_switch,
        "proportional rate reduction in recoveries by SACK (RFC 6937): yes or no"
    ),
    knob!(
        "rack",
        rack,
        read_switch,
        show_switch,
        "with SACK, losses are found by time (RFC 8985): yes or no"
    ),
    knob!("tlp", tlp, read_switch, show_switch, "with rack=yes, tail loss probes (RFC 8985 §7): yes or no"),
    knob!(
        "hystart",
        hystart,
        read_hystart,
        show_hystart,
        "slow start ends when round trips grow: yes (HyStart++, RFC 9406), linux (HyStart, with cc=cubic) or no"
    ),
    knob!("pacing", pacing, read_switch, show_switch, "segments are spread over the round trip: yes or no"),
    knob!("undo", undo, read_switch, show_switch, "undo the reduction of a loss that was none: yes or no"),
    knob!(
        "rto_initial",
        rto_initial,
        read_positive_span,
        show_span,
        "RTO before the first measurement: a time"
    ),
    knob!("rto_min", rto_min, read_positive_span, show_span, "smallest RTO: a time"),
    knob!(
        "rto_var_min",
        rto_var_min,
        read_span,
        show_span,
        "least that RTT variation adds to the RTO: a time, 0 for the clock's granularity"
    ),
    knob!("rto_max", rto_max, read_positive_span, show_span, "largest RTO: a time"),
    knob!("tick", tick, read_positive_span, show_span, "clock granularity of RTO and timestamps: a time"),
    knob!(
        "rtt_sample",
        rtt_sample,
        read_sampling,
        show_sampling,
        "round trips measured: every acknowledgement, or once a round trip"
    ),
    knob!("sack", sack, read_switch, show_switch, "selective acknowledgements: yes or no"),
    knob!("dsack", dsack, read_switch, show_switch, "report duplicates by SACK: yes or no"),
    knob!("timestamps", timestamps, read_switch, show_switch, "timestamp option: yes or no"),
    knob!("wscale", wscale, read_switch, show_switch, "window scale option: yes or no"),
    knob!("ecn", ecn, read_switch, show_switch, "explicit congestion notification: yes or no"),
    knob!(
        "nagle",
        nagle,
        read_nagle,
        show_nagle,
        "a small segment waits while data (yes) or another small one (minshall) is unacknowledged: yes, no, minshall"
    ),
    knob!(
        "delack",
        delack,
        read_span,
        show_span,
        "how long an acknowledgement may wait: a time, 0 for not at all"
    ),
    knob!("ack_every", ack_every, read_ack_every, show_number, "acknowledge every N-th segment: 1 to 64"),
    knob!(
        "quickack",
        quickack,
        read_number,
        show_number,
        "first segments that are acknowledged at once: a number"
    ),
    knob!(
        "ack_push",
        ack_push,
        read_switch,
        show_switch,
        "a pushed segment is acknowledged once it is read, one that widens the window at once (Linux): yes or no"
    ),
    knob!(
        "push",
        push_bursts,
        read_push,
        show_push,
        "PSH marks the end of each write, or of each burst, too: write or burst"
    ),
    knob!(
        "mss",
        mss,
        read_mss,
        show_mss,
        "largest segment: a size of 88B to 65495B, or auto for what the MTU allows"
    ),
    knob!("rcvbuf", rcvbuf, read_buffer, show_bytes, "receive buffer: a size of 256B to 1GiB"),
    knob!(
        "rcvbuf_auto",
        rcvbuf_auto,
        read_switch,
        show_switch,
        "the window begins at 64 KiB and grows with what is read, up to rcvbuf: yes or no"
    ),
    knob!("sndbuf", sndbuf, read_buffer, show_bytes, "send buffer: a size of 256B to 1GiB"),
    knob!(
        "sndbuf_auto",
        sndbuf_auto,
        read_switch,
        show_switch,
        "the send buffer grows to twice the window, up to sndbuf: yes or no"
    ),
    knob!(
        "max_burst",
        max_burst,
        read_burst,
        show_burst,
        "most segments in answer to one event: a number; off (or 0) for no limit"
    ),
    knob!("syn_retries", syn_retries, read_retries, show_number, "retransmissions of a SYN: 0 to 255"),
    knob!("retries", retries, read_retries, show_number, "timeouts in a row that end a connection: 0 to 255"),
    knob!(
        "user_timeout",
        user_timeout,
        read_limit,
        show_limit,
        "end a connection when nothing was acknowledged for so long: a time, or off"
    ),
    knob!("time_wait", time_wait, read_span, show_span, "length of TIME-WAIT: a time"),
    knob!(
        "fin_wait2",
        fin_wait2,
        read_positive_span,
        show_span,
        "how long a closed socket waits for the peer's FIN: a time"
    ),
    knob!("backlog", backlog, read_backlog, show_number, "listen backlog: 1 to 65535"),
    knob!(
        "syncookies",
        syncookies,
        read_syncookies,
        show_syncookies,
        "SYN cookies: no, auto (when the backlog is full) or yes (always)"
    ),
    knob!("pmtu", pmtu, read_switch, show_switch, "believe ICMP about the path MTU: yes or no"),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_of_every_profile_reads_back_and_has_a_source() {
        for name in PROFILES {
            let config = Config::profile(name).expect(name);
            for knob in config.knobs() {
                assert!(!knob.source.is_empty(), "{name}: {} has no source", knob.key);
                let mut other = config.clone();
                other.set(knob.key, &knob.value).expect(knob.key);
                other.sources = config.sources;
                assert_eq!(other, config, "{name}: {}={}", knob.key, knob.value);
            }
        }
        assert_eq!(Config::profile("tahoe"), None);
    }

    #[test]
    fn no_burst_limit_is_spelled_either_way() {
        let mut config = Config::default();
        for text in ["off", "0"] {
            config.set("max_burst", "4").expect("a number");
            config.set("max_burst", text).expect("no limit");
            assert_eq!(config.max_burst, None);
        }
    }

    /// As of sctp's: what two knobs together make impossible is told, not mended in silence.
    #[test]
    fn bounds_of_the_rto_that_contradict_each_other_are_named() {
        for (set, line) in [
            (&[("rto_min", "3s"), ("rto_max", "1s")][..], "tcp:rto_min=3s is more than rto_max=1s"),
            (&[("rto_min", "121s")], "tcp:rto_min=121s is more than rto_max=120s"),
            (&[("rto_max", "500ms")], "tcp:rto_initial=1s is more than rto_max=500ms"),
        ] {
            let mut config = Config::profile("modern").expect("a profile");
            set.iter().for_each(|(key, value)| config.set(key, value).expect("a time"));
            assert_eq!(config.check().expect_err(line).to_string(), line);
        }
        assert!(PROFILES.iter().all(|name| Config::profile(name).expect(name).check().is_ok()));
    }

    #[test]
    fn errors_name_the_knob_and_what_would_be_right() {
        let mut config = Config::default();
        let wrong = [
            ("cc", "bbr"),
            ("iw", "0"),
            ("rto_min", "0"),
            ("rto_min", "200"),
            ("mss", "20B"),
            ("sack", "maybe"),
            ("abc", "0"),
            ("rcvbuf", "2GiB"),
            ("dupthresh", "0"),
            ("delack", "-1ms"),
            ("nagle", "maybe"),
            ("max_burst", "none"),
        ];
        for (key, value) in wrong {
            let error = config.set(key, value).expect_err(key).to_string();
            assert!(error.starts_with(key) && !error.contains('\n'), "{error}");
        }
        let error = config.set("speed", "11").expect_err("no such knob").to_string();
        assert!(error.contains("speed") && error.contains("rto_min"), "{error}");
        assert_eq!(config, Config::default(), "nothing was changed on the way");
    }
}
