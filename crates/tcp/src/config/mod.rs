//! The settings of the engine: key, meaning, unit, text form and profile values.
//!
//! One table (`knobs`) declares each knob once; fields, defaults, parsing, printing and help are derived from the
//! table. A profile (`profiles`) lists values that replace those of its parent profile. Every value names its source.

mod forms;
mod knobs;
mod profiles;

pub use anabranch_base::knobs::{Knob, KnobError};
pub use knobs::Config;
pub use profiles::PROFILES;

use anabranch_base::knobs::{BY_USER, Table};
use anabranch_base::spelling;
use anabranch_base::time::nanos;
use anabranch_base::units::format_duration;
use anabranch_congestion::{AlgorithmConfig, InitialWindow, RttConfig, bic, cubic, linux, reno};

/// The congestion controller of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cc {
    /// Slow start and congestion avoidance of RFC 5681.
    Reno,
    /// CUBIC (RFC 9438).
    Cubic,
    /// BBR, version 3 (draft-ietf-ccwg-bbr).
    Bbr,
    /// BIC, the default of Linux 2.6.8 to 2.6.18.
    Bic,
}

/// The unit in which the congestion window is counted.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum CwndUnit {
    /// Bytes, as in the RFCs.
    Bytes,
    /// Whole segments, whatever their length, with the arithmetic of Linux.
    Segments,
}

/// The quantity that determines the slow-start threshold after a loss: the threshold is a share of it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Ssthresh {
    /// The bytes in flight (RFC 5681 §3.1 eq. 4).
    Flight,
    /// The congestion window, as in Linux and the BSDs.
    Window,
}

/// How the sender repairs a loss that acknowledgements reveal.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RecoveryKind {
    /// RFC 5681 §3.2: one segment is retransmitted; recovery ends with the next acknowledgement of new data.
    Reno,
    /// RFC 6582: one segment is retransmitted per round trip. The recovery ends when all data that was outstanding at
    /// its start is acknowledged.
    NewReno,
    /// RFC 6675 if both sides permit SACK. Otherwise as `NewReno`.
    Sack,
}

/// How often the round-trip time is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum RttSampling {
    /// Each acknowledgement of new data gives an RTT sample, if it shows which transmission of the segment arrived.
    Every,
    /// The RTT of at most one outstanding segment at a time is measured, as in stacks without timestamps.
    Once,
}

/// The cases in which a listener answers a SYN with a SYN cookie and keeps no state (RFC 4987 §3.6).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SynCookies {
    /// Cookies are never sent. A SYN is dropped if the backlog has no room for another half-open connection.
    No,
    /// Cookies are sent only while the backlog has no room for a half-open connection.
    Auto,
    /// Every SYN is answered with a cookie.
    Yes,
}

/// Where a listener keeps half-open connections.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SynQueue {
    /// Each half-open connection has a retransmission timer of its own.
    Timers,
    /// The listener looks through its half-open connections every 200 ms, as in Linux 2.6.
    Scan,
}

/// The receive window that a connection offers first.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FirstWindow {
    /// 64 KiB, as in Linux 6.
    Bytes64K,
    /// Two to four segments, as in Linux 2.6.
    Segments,
}

/// Which segments carry the PSH flag.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Push {
    /// The last segment of each write.
    Writes,
    /// The last segment of each write and of each burst.
    Bursts,
}

/// Which segment carries the FIN.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fin {
    /// The last data segment, if that segment is still unsent when the application closes.
    Data,
    /// A separate segment without data, even if unsent data could have carried the FIN.
    Alone,
    /// The last data segment if it has to wait when the application closes: for a window, or by Nagle. Otherwise a
    /// separate segment, because a kernel has sent the data when it was written.
    Waiting,
}

/// The segment that probes a closed window (RFC 9293 §3.8.6.1).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WindowProbe {
    /// A segment with the data that the window still allows, or with one byte that it does not allow.
    Data,
    /// A segment without data, one sequence number before the next one, which the peer must answer. If the window allows
    /// some data, this data is sent as usual and not as a probe.
    Empty,
}

/// The condition under which a small segment waits until outstanding data is acknowledged (RFC 9293 §3.7.4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Nagle {
    /// A small segment never waits, as with TCP_NODELAY.
    No,
    /// A small segment waits while any data is unacknowledged.
    Yes,
    /// A small segment waits while an earlier small segment is unacknowledged (draft-minshall-nagle-01, as in Linux).
    Minshall,
}

/// The knob values that BBR requires. Losses must be detected by time (RACK), because BBR's rate samples are computed
/// from sending times. No other mechanism may limit sending.
const WITH_BBR: [(&str, &str); 5] =
    [("recovery", "sack"), ("rack", "yes"), ("prr", "no"), ("hystart", "no"), ("cwnd_unit", "bytes")];

/// The knob values that FACK requires: losses are found by SACK and not by time.
const WITH_FACK: [(&str, &str); 2] = [("recovery", "sack"), ("rack", "no")];
/// The knob values that rate halving requires, which excludes proportional rate reduction, because both mechanisms
/// serve the same purpose.
const WITH_RATE_HALVING: [(&str, &str); 3] = [("recovery", "sack"), ("prr", "no"), ("cwnd_unit", "segments")];
/// The knob values that BIC requires.
const WITH_BIC: [(&str, &str); 2] = [("cwnd_unit", "segments"), ("hystart", "no")];

impl Default for Config {
    fn default() -> Self {
        Self::defaults()
    }
}

impl Config {
    /// Returns the profile `name`, one of [`PROFILES`].
    #[must_use]
    pub fn profile(name: &str) -> Option<Self> {
        Self::named(profiles::ALL, name)
    }

    /// Sets the knob `key` by parsing `value`.
    ///
    /// # Errors
    /// [`KnobError`]: one line that lists the accepted forms, if the key is unknown or the value is not accepted.
    pub fn set(&mut self, key: &str, value: &str) -> Result<(), KnobError> {
        let Some(at) = Self::position(key) else {
            let hint = spelling::hint(key, &Self::ROWS.iter().map(|row| row.key).collect::<Vec<_>>());
            return Err(KnobError(format!("'{key}' is not a knob of tcp{hint}; there are {}", Self::keys())));
        };
        self.set_row(at, value, BY_USER).map_err(|why| KnobError(format!("{key}: {why}")))?;
        if self.cc == Cc::Bbr && key == "cc" {
            // Knobs that the user set keep their values; `check` rejects values that do not suit BBR.
            self.set_if_unset(&WITH_BBR, "goes with cc=bbr");
        }
        if self.cc == Cc::Bic && key == "cc" {
            self.set_if_unset(&WITH_BIC, "goes with cc=bic");
        }
        Ok(())
    }

    /// Rejects combinations of two knobs that contradict each other.
    ///
    /// # Errors
    /// [`KnobError`]: one line that names both knobs.
    pub fn check(&self) -> Result<(), KnobError> {
        // RFC 6298 §2.4, §2.5: the minimum applies only to computed RTOs. The initial RTO may be below it, but not above
        // the maximum.
        for (key, rto) in [("rto_min", self.rto_min), ("rto_initial", self.rto_initial)] {
            if rto > self.rto_max {
                let [rto, max] = [rto, self.rto_max].map(format_duration);
                return Err(KnobError(format!("tcp:{key}={rto} is more than rto_max={max}")));
            }
        }
        if self.cc == Cc::Bbr
            && let Some((key, value)) = self.unmet(&WITH_BBR)
        {
            return Err(KnobError(format!("tcp:cc=bbr needs {key}={value}")));
        }
        for (is_set, what, needs) in [
            (self.cc == Cc::Bic, "cc=bic", &WITH_BIC[..]),
            (self.fack, "fack=yes", &WITH_FACK),
            (self.rate_halving, "rate_halving=yes", &WITH_RATE_HALVING),
        ] {
            if is_set && let Some((key, value)) = self.unmet(needs) {
                return Err(KnobError(format!("tcp:{what} needs {key}={value}")));
            }
        }
        Ok(())
    }

    /// Returns every knob with its value and the source of the value.
    #[must_use]
    pub fn knobs(&self) -> Vec<Knob> {
        self.list()
    }

    /// Returns the constants for computing the RTO.
    #[must_use]
    pub(crate) fn rtt(&self) -> RttConfig {
        RttConfig {
            rto_initial: self.rto_initial,
            rto_min: self.rto_min,
            rto_max: self.rto_max,
            granularity: self.tick.max(self.rto_var_min),
        }
    }

    /// Returns the number of lost SYNs or SYN-ACKs after which the initial window is reduced to one segment. With the
    /// window of RFC 5681 §3.1, one loss suffices. With the larger window of RFC 6928 §2, two losses are needed.
    #[must_use]
    pub(crate) fn syn_losses_for_one_segment(&self, mss: u64) -> u32 {
        if self.iw.bytes(mss) > InitialWindow::Rfc5681.bytes(mss) { 2 } else { 1 }
    }

    /// Returns the settings of the congestion controller.
    #[must_use]
    pub(crate) fn controller(&self) -> AlgorithmConfig {
        if self.cc == Cc::Bbr {
            return AlgorithmConfig::Bbr;
        }
        if self.cc == Cc::Bic {
            return AlgorithmConfig::Bic(bic::Config {
                after_idle: self.idle_restart,
                grow_unused: !self.cwnd_validation,
            });
        }
        if self.cwnd_unit == CwndUnit::Segments {
            return AlgorithmConfig::Linux(linux::Config {
                cubic: self.cc == Cc::Cubic,
                after_idle: self.idle_restart,
                grow_unused: !self.cwnd_validation,
            });
        }
        match self.cc {
            Cc::Reno => AlgorithmConfig::Reno(reno::Config {
                counting: self.abc,
                after_idle: self.idle_restart,
                grow_unused: !self.cwnd_validation,
                ..reno::Config::default()
            }),
            Cc::Cubic => AlgorithmConfig::Cubic(cubic::Config {
                counting: self.abc,
                after_idle: self.idle_restart,
                grow_unused: !self.cwnd_validation,
                ..cubic::Config::default()
            }),
            // `Bbr` and `Bic` were handled above, so this arm is never reached.
            Cc::Bbr | Cc::Bic => AlgorithmConfig::Bbr,
        }
    }

    /// Returns the length of a timestamp tick in nanoseconds, at least 1.
    #[must_use]
    pub(crate) fn tick_nanos(&self) -> u64 {
        nanos(self.tick).max(1)
    }
}

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
                let at = Config::position(knob.key).expect(knob.key);
                other.set_row(at, &knob.value, knob.source).expect(knob.key);
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

    /// As in the SCTP engine, knobs that contradict each other are reported, not silently corrected.
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
    fn knobs_of_linux_2_6_name_what_they_need() {
        for (set, line) in [
            (&[("fack", "yes")][..], "tcp:fack=yes needs rack=no"),
            (&[("rate_halving", "yes")], "tcp:rate_halving=yes needs prr=no"),
            (&[("cwnd_unit", "bytes"), ("cc", "bic")], "tcp:cc=bic needs cwnd_unit=segments"),
        ] {
            let mut config = Config::profile("modern").expect("a profile");
            set.iter().for_each(|(key, value)| config.set(key, value).expect("a value"));
            assert_eq!(config.check().expect_err(line).to_string(), line);
        }
        let mut config = Config::profile("modern").expect("a profile");
        config.set("cc", "bic").expect("an algorithm");
        assert!(config.check().is_ok() && config.hystart.is_none());
    }

    #[test]
    fn errors_name_the_knob_and_what_would_be_right() {
        let mut config = Config::default();
        let wrong = [
            ("cc", "vegas"),
            ("syn_queue", "wheel"),
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
