//! Parses the settings whose values are more than a number: rate, loss, queue, aqm, ecn, fail.
//!
//! A value consists of fields that are separated by `/`. Every error message shows the accepted forms.

use super::SpecError;
use crate::queue::Limit;
use crate::queue::codel::CodelConfig;
use crate::queue::pie::PieConfig;
use crate::queue::red::RedConfig;
use crate::trace::series::Series;
use anabranch_base::time::{Duration, Instant};
use anabranch_base::units::{did_you_mean, format_duration, parse_duration};
use anabranch_base::{BitRate, Bytes, Ratio};
use std::fmt;
use std::str::FromStr;

/// The setting `rate`, for example `10mbit`, `10mbit/5s:2mbit/8s:10mbit` (with changes at 5 s and 8 s) or `unlimited`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RateSpec {
    /// The initial rate; `None` if the rate is unlimited.
    rate: Option<BitRate>,
    /// The rates that follow the initial rate, each with its start time, in order of time.
    changes: Vec<(Instant, BitRate)>,
}

impl RateSpec {
    /// 10 Mbit/s.
    pub const TEN_MBIT: Self = Self::constant(match BitRate::from_bits_per_second(10_000_000) {
        Some(rate) => rate,
        None => panic!("10 million is not 0"),
    });

    /// An unlimited rate, at which the serialization of packets takes no time.
    pub const UNLIMITED: Self = Self { rate: None, changes: Vec::new() };

    /// Creates a rate that never changes.
    #[must_use]
    pub const fn constant(rate: BitRate) -> Self {
        Self { rate: Some(rate), changes: Vec::new() }
    }

    /// Returns whether the rate is unlimited, so that the serialization of packets takes no time.
    #[must_use]
    pub const fn is_unlimited(&self) -> bool {
        self.rate.is_none()
    }

    /// Returns the initial rate; `None` if the rate is unlimited.
    #[must_use]
    pub const fn first(&self) -> Option<BitRate> {
        self.rate
    }

    /// Returns the rates that follow the initial rate, each with its start time, in order of time.
    #[must_use]
    pub fn changes(&self) -> &[(Instant, BitRate)] {
        &self.changes
    }
}

impl FromStr for RateSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if text == "unlimited" {
            return Ok(Self { rate: None, changes: Vec::new() });
        }
        // A slash separates changes of the rate, but also occurs in units such as `Mbit/s`. A part `s` that follows a
        // rate belongs to the unit and is left out.
        let mut is_bits = false;
        let mut parts = text.split('/').filter(|part| {
            let is_unit = is_bits && *part == "s";
            is_bits = part.to_ascii_lowercase().ends_with("bit");
            !is_unit
        });
        let rate = parts.next().unwrap_or_default().parse().map_err(unit)?;
        let mut changes: Vec<(Instant, BitRate)> = Vec::new();
        for part in parts {
            let Some((at, rate)) = part.split_once(':') else {
                return Err(SpecError(format!("'{part}': write a change as time:rate, such as 5s:2mbit")));
            };
            let at = Instant::ZERO + parse_duration(at).map_err(unit)?;
            if changes.last().is_some_and(|(last, _)| *last >= at) {
                return Err(SpecError(format!("'{part}': changes must be in the order of time")));
            }
            changes.push((at, rate.parse().map_err(unit)?));
        }
        Ok(Self { rate: Some(rate), changes })
    }
}

impl fmt::Display for RateSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(rate) = self.rate else { return f.write_str("unlimited") };
        write!(f, "{rate}")?;
        for (at, rate) in &self.changes {
            write!(f, "/{}:{rate}", format_duration(at.since(Instant::ZERO)))?;
        }
        Ok(())
    }
}

/// The setting `loss`, which selects a loss model, for example `1%`, `nth:10/first=3/shared`, `ge:1%/30%` or
/// `list:3/17`.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LossSpec {
    /// No loss.
    None,
    /// Each packet is lost with this probability.
    Bernoulli(Ratio),
    /// Every n-th packet is lost.
    Nth {
        /// The period n.
        every: u64,
        /// The number of the first lost packet, counted from 1; `None` means 1 + (seed mod n).
        first: Option<u64>,
        /// Whether both directions share one packet counter.
        shared: bool,
    },
    /// The two-state model of Gilbert and Elliott.
    GilbertElliott {
        /// The probability per packet of a change from the good to the bad state.
        to_bad: Ratio,
        /// The probability per packet of a change from the bad to the good state.
        to_good: Ratio,
        /// The loss probability in the bad state.
        bad_loss: Ratio,
        /// The loss probability in the good state.
        good_loss: Ratio,
    },
    /// The packets with these numbers, counted from 1, are lost. The numbers are sorted.
    List(Vec<u64>),
    /// Each packet is lost with the probability recorded in a trace.
    Recorded(Series<Ratio>),
}

impl LossSpec {
    /// Replaces the Gilbert-Elliott model by independent losses with the same mean loss rate. Returns any other model
    /// unchanged.
    #[must_use]
    pub fn independent(&self) -> Self {
        let Self::GilbertElliott { to_bad, to_good, bad_loss, good_loss } = self else { return self.clone() };
        let [into, out, bad, good] =
            [to_bad, to_good, bad_loss, good_loss].map(|ratio| u128::from(ratio.parts()));
        let lost = (into * bad + out * good) / (into + out).max(1);
        let share = u64::try_from(lost).ok().and_then(|lost| Ratio::new(lost, Ratio::ONE.parts()));
        Self::Bernoulli(share.unwrap_or(Ratio::ONE))
    }
}

impl FromStr for LossSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let wrong = |why: &str| SpecError(format!("'{text}': {why}; write {LOSS_FORMS}"));
        let Some((model, rest)) = text.split_once(':') else {
            let share = text.parse::<Ratio>().map_err(|error| match text.strip_suffix('%') {
                Some(_) => unit(error),
                None => {
                    wrong(&format!("not a share and not a loss model{}", did_you_mean(error.suggestion())))
                }
            })?;
            return Ok(if share == Ratio::ZERO { Self::None } else { Self::Bernoulli(share) });
        };
        let parts: Vec<&str> = rest.split('/').collect();
        match model {
            "nth" => {
                let every = counted(parts[0]).ok_or_else(|| wrong("N is a number of packets from 1"))?;
                let (mut first, mut shared) = (None, false);
                for part in &parts[1..] {
                    match part.split_once('=') {
                        None if *part == "shared" && !shared => shared = true,
                        Some(("first", number)) if first.is_none() => {
                            first = Some(counted(number).ok_or_else(|| wrong("K counts packets from 1"))?);
                        }
                        _ => return Err(wrong(&format!("'{part}' is not understood"))),
                    }
                }
                Ok(Self::Nth { every, first, shared })
            }
            "ge" => {
                if !(2..=4).contains(&parts.len()) {
                    return Err(wrong("the Gilbert-Elliott model takes two to four shares"));
                }
                let mut shares = [Ratio::ZERO, Ratio::ZERO, Ratio::ONE, Ratio::ZERO];
                for (share, part) in shares.iter_mut().zip(&parts) {
                    *share = part.parse().map_err(unit)?;
                }
                let [to_bad, to_good, bad_loss, good_loss] = shares;
                Ok(Self::GilbertElliott { to_bad, to_good, bad_loss, good_loss })
            }
            "list" => {
                let numbers: Option<Vec<u64>> = parts.iter().map(|part| counted(part)).collect();
                let mut numbers = numbers.ok_or_else(|| wrong("packets are counted from 1"))?;
                numbers.sort_unstable();
                numbers.dedup();
                Ok(Self::List(numbers))
            }
            _ => Err(wrong(&format!("unknown model '{model}'"))),
        }
    }
}

impl fmt::Display for LossSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::None => f.write_str("0"),
            Self::Bernoulli(share) => write!(f, "{share}"),
            Self::Nth { every, first, shared } => {
                write!(f, "nth:{every}")?;
                if let Some(first) = first {
                    write!(f, "/first={first}")?;
                }
                f.write_str(if *shared { "/shared" } else { "" })
            }
            Self::GilbertElliott { to_bad, to_good, bad_loss, good_loss } => {
                write!(f, "ge:{to_bad}/{to_good}/{bad_loss}/{good_loss}")
            }
            Self::List(numbers) => {
                let numbers: Vec<String> = numbers.iter().map(u64::to_string).collect();
                write!(f, "list:{}", numbers.join("/"))
            }
            Self::Recorded(_) => f.write_str("recorded"),
        }
    }
}

/// The setting `queue`, which limits a queue, for example `50p`, `100kB`, `1bdp` or `unlimited`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum QueueSpec {
    /// At most this many packets may wait.
    Packets(u64),
    /// At most this many bytes may wait.
    Bytes(Bytes),
    /// A multiple of the bandwidth-delay product, converted to packets of the size of the MTU; at least 10 packets.
    Bdp {
        /// The multiple in thousandths; 1000 is one bandwidth-delay product.
        thousandths: u64,
    },
    /// No limit.
    Unlimited,
}

impl QueueSpec {
    /// A limit of one bandwidth-delay product.
    pub const ONE_BDP: Self = Self::Bdp { thousandths: 1000 };
}

impl FromStr for QueueSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let wrong = |why: &str| SpecError(format!("'{text}': {why}; write {QUEUE_FORMS}"));
        if text == "unlimited" {
            return Ok(Self::Unlimited);
        }
        if let Some(number) = text.strip_suffix("bdp") {
            let thousandths = thousandths(number).filter(|n| *n > 0);
            return Ok(Self::Bdp { thousandths: thousandths.ok_or_else(|| wrong("not a number above 0"))? });
        }
        if let Some(number) = text.strip_suffix('p') {
            return Ok(Self::Packets(counted(number).ok_or_else(|| wrong("not a number of packets"))?));
        }
        match text.parse::<Bytes>() {
            Ok(Bytes(0)) => Err(wrong("a queue of nothing")),
            Ok(bytes) => Ok(Self::Bytes(bytes)),
            Err(error) => {
                // If the unit begins with "p", as in `50packets`, the error suggests `50p`.
                let split = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
                let (number, word) = text.split_at(split);
                let packets = counted(number).filter(|_| word.trim_start().starts_with('p'));
                let meant = packets.map(|n| format!("{n}p")).or(error.suggestion().map(str::to_owned));
                Err(wrong(&format!("not a queue's limit{}", did_you_mean(meant.as_deref()))))
            }
        }
    }
}

impl fmt::Display for QueueSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Packets(packets) => write!(f, "{packets}p"),
            Self::Bytes(bytes) => write!(f, "{bytes}"),
            Self::Bdp { thousandths } if thousandths % 1000 == 0 => write!(f, "{}bdp", thousandths / 1000),
            Self::Bdp { thousandths } => {
                let digits = format!("{:03}", thousandths % 1000);
                write!(f, "{}.{}bdp", thousandths / 1000, digits.trim_end_matches('0'))
            }
            Self::Unlimited => f.write_str("unlimited"),
        }
    }
}

/// The setting `aqm`, which selects the queue management, for example `droptail`, `codel`, `fq-codel`, `pie` or `red`.
/// Parameters follow a colon, for example `codel:target=5ms/interval=100ms`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[expect(missing_docs, reason = "the fields are RFC 8289's, RFC 8033's and RED's own")]
pub enum AqmSpec {
    /// No queue management.
    DropTail,
    /// CoDel (RFC 8289).
    Codel { target: Duration, interval: Duration },
    /// FQ-CoDel (RFC 8290).
    FqCodel { target: Duration, interval: Duration },
    /// PIE (RFC 8033).
    Pie { target: Duration },
    /// RED (Floyd and Jacobson).
    Red { min: u64, max: u64, probability: Ratio, weight: Ratio, gentle: bool },
}

impl FromStr for AqmSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let wrong = |why: &str| SpecError(format!("'{text}': {why}; write {AQM_FORMS}"));
        let (name, rest) = text.split_once(':').unwrap_or((text, ""));
        let codel = CodelConfig::default();
        let red = RedConfig::default();
        let (mut target, mut interval) = (codel.target, codel.interval);
        if name == "pie" {
            target = PieConfig::default().target;
        }
        let (mut min, mut max, mut probability) = (red.min, red.max, red.max_probability);
        let (mut weight, mut gentle) = (red.weight, red.gentle);
        for part in rest.split('/').filter(|part| !part.is_empty()) {
            let (key, value) = part.split_once('=').ok_or_else(|| wrong("parameters are key=value"))?;
            let packets = || value.strip_suffix('p').and_then(counted);
            match (name, key) {
                ("codel" | "fq-codel" | "pie", "target") => target = parse_duration(value).map_err(unit)?,
                ("codel" | "fq-codel", "interval") => interval = parse_duration(value).map_err(unit)?,
                ("red", "min") => min = packets().ok_or_else(|| wrong("min is in packets"))?,
                ("red", "max") => max = packets().ok_or_else(|| wrong("max is in packets"))?,
                ("red", "p") => probability = value.parse().map_err(unit)?,
                ("red", "weight") => weight = value.parse().map_err(unit)?,
                ("red", "gentle") => gentle = yes_or_no(value)?,
                _ => return Err(wrong(&format!("'{key}' is unknown here"))),
            }
        }
        if target.is_zero() || interval.is_zero() {
            return Err(wrong("a time of 0 controls nothing"));
        }
        match name {
            "droptail" if rest.is_empty() => Ok(Self::DropTail),
            "codel" => Ok(Self::Codel { target, interval }),
            "fq-codel" => Ok(Self::FqCodel { target, interval }),
            "pie" => Ok(Self::Pie { target }),
            "red" if min >= max || max > MAX_RED => {
                Err(wrong("min must lie below max, and max below 1000000p"))
            }
            "red" if weight == Ratio::ZERO => Err(wrong("a weight of 0 never sees the queue")),
            "red" => Ok(Self::Red { min, max, probability, weight, gentle }),
            _ => Err(wrong("unknown")),
        }
    }
}

impl fmt::Display for AqmSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let span = |span: &Duration| format_duration(*span);
        match self {
            Self::DropTail => f.write_str("droptail"),
            Self::Codel { target, interval } => {
                write!(f, "codel:target={}/interval={}", span(target), span(interval))
            }
            Self::FqCodel { target, interval } => {
                write!(f, "fq-codel:target={}/interval={}", span(target), span(interval))
            }
            Self::Pie { target } => write!(f, "pie:target={}", span(target)),
            Self::Red { min, max, probability, weight, gentle } => {
                write!(f, "red:min={min}p/max={max}p/p={probability}")?;
                if *weight != RedConfig::default().weight {
                    write!(f, "/weight={weight}")?;
                }
                f.write_str(if *gentle { "" } else { "/gentle=no" })
            }
        }
    }
}

/// The setting `ecn`: whether a queue marks ECN-capable packets. With `no`, it never marks packets. With `yes`, an AQM
/// marks packets that it would otherwise drop. With a size such as `20p` or `30kB`, a drop-tail queue marks packets
/// from this backlog on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EcnSpec {
    /// The queue drops packets and never marks them.
    No,
    /// The queue marks ECN-capable packets instead of dropping them.
    Yes,
    /// A drop-tail queue marks packets that would bring the queue above this limit.
    Above(Limit),
}

impl FromStr for EcnSpec {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        if let Ok(yes) = yes_or_no(text) {
            return Ok(if yes { Self::Yes } else { Self::No });
        }
        match text.parse::<QueueSpec>() {
            Ok(QueueSpec::Packets(packets)) => Ok(Self::Above(Limit::Packets(packets))),
            Ok(QueueSpec::Bytes(bytes)) => Ok(Self::Above(Limit::Bytes(bytes.0))),
            _ => Err(SpecError(format!("'{text}': write yes, no, or a threshold such as 20p or 30kB"))),
        }
    }
}

impl fmt::Display for EcnSpec {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::No | Self::Above(Limit::Unlimited) => f.write_str("no"),
            Self::Yes => f.write_str("yes"),
            Self::Above(Limit::Packets(packets)) => write!(f, "{packets}p"),
            Self::Above(Limit::Bytes(bytes)) => write!(f, "{}", Bytes(*bytes)),
        }
    }
}

pub(crate) fn yes_or_no(text: &str) -> Result<bool, SpecError> {
    match text {
        "yes" => Ok(true),
        "no" => Ok(false),
        _ => Err(SpecError(format!("'{text}': write yes or no"))),
    }
}

/// The value of a flag that describes an outage of a path, for example `path=1,at=10s,for=5s`. Without `for` the outage
/// is permanent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathOutage {
    /// The number of the path, counted from 1.
    pub path: usize,
    /// The time at which the outage begins.
    pub at: Duration,
    /// The duration of the outage; `None` if it is permanent.
    pub span: Option<Duration>,
}

impl FromStr for PathOutage {
    type Err = SpecError;

    fn from_str(text: &str) -> Result<Self, SpecError> {
        let wrong =
            |why: &str| SpecError(format!("'{text}': {why}; write path=1,at=10s or path=1,at=10s,for=5s"));
        let (mut path, mut at, mut span) = (None, None, None);
        for part in text.split(',') {
            match part.trim().split_once('=') {
                Some(("path", value)) if path.is_none() => {
                    path = Some(counted(value).ok_or_else(|| wrong("paths are counted from 1"))?);
                }
                Some(("at", value)) if at.is_none() => at = Some(parse_duration(value).map_err(unit)?),
                Some(("for", value)) if span.is_none() => span = Some(parse_duration(value).map_err(unit)?),
                _ => return Err(wrong(&format!("'{}' is not understood", part.trim()))),
            }
        }
        match (path.and_then(|path| usize::try_from(path).ok()), at) {
            (Some(path), Some(at)) => Ok(Self { path, at, span }),
            (None, _) => Err(wrong("which path?")),
            (_, None) => Err(wrong("when?")),
        }
    }
}

impl fmt::Display for PathOutage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "path={},at={}", self.path, format_duration(self.at))?;
        match self.span {
            None => Ok(()),
            Some(span) => write!(f, ",for={}", format_duration(span)),
        }
    }
}

fn unit(error: anabranch_base::units::UnitError) -> SpecError {
    SpecError(error.to_string())
}

/// Parses an integer that is at least 1.
fn counted(text: &str) -> Option<u64> {
    let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| digits && *number > 0)
}

/// Parses a number with up to three decimals, and returns it in thousandths.
fn thousandths(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || fraction.len() > 3 {
        return None;
    }
    let scale = 10_u64.pow(3 - fraction.len() as u32);
    whole.parse::<u64>().ok()?.checked_mul(1000)?.checked_add(fraction.parse::<u64>().ok()? * scale)
}

const LOSS_FORMS: &str = "1%, nth:10, nth:10/first=3/shared, ge:1%/30% (to bad / to good [/ loss in bad [/ in good]]) or list:3/17";
const QUEUE_FORMS: &str = "50p (packets), 100kB, 1bdp or unlimited";
const AQM_FORMS: &str = "droptail, codel, fq-codel (:target=5ms/interval=100ms), pie (:target=15ms) or \
                         red (:min=5p/max=15p/p=10%/weight=0.2%/gentle=no)";

/// The maximum value in packets of RED's `min` and `max`. Larger values would overflow the fixed-point average.
const MAX_RED: u64 = 1_000_000;
