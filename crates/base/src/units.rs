//! Quantities with units (bytes, bit rates, ratios), and their text forms.
//!
//! The unit is part of the value: `10mbit`, `40ms`, `1%`, `100kB`. If a number has no unit although it needs one, the
//! error lists the accepted forms. The command line and plan files both use the parsers in this module.

mod foreign;

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// The reason why a text is not a quantity, as one line that lists the accepted forms.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{line}")]
pub struct UnitError {
    line: String,
    suggestion: Option<String>,
}

impl UnitError {
    /// Creates the error for `text`. `why` is the reason, and `meant` is the quantity that the user probably meant.
    fn new(text: &str, why: &str, meant: Option<String>, forms: &str) -> Self {
        let hint = did_you_mean(meant.as_deref());
        Self { line: format!("'{text}': {why}{hint}; write {forms}"), suggestion: meant }
    }

    /// Returns the quantity that the user probably meant, in accepted units.
    #[must_use]
    pub fn suggestion(&self) -> Option<&str> {
        self.suggestion.as_deref()
    }
}

/// Returns a hint such as ` (did you mean 10mbit?)`, or the empty string if `meant` is `None`.
#[must_use]
pub fn did_you_mean(meant: Option<&str>) -> String {
    meant.map(|meant| format!(" (did you mean {meant}?)")).unwrap_or_default()
}

/// A number of bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Bytes(pub u64);

/// A rate in bits per second.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Hash)]
pub struct BitRate(u64);

/// A probability or share from 0 to 1, with a resolution of 10⁻¹².
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Hash)]
pub struct Ratio(u64);

impl BitRate {
    /// Returns the rate of `bits` per second. Returns `None` for 0, because at that rate no data would ever be sent.
    #[must_use]
    pub const fn from_bits_per_second(bits: u64) -> Option<Self> {
        if bits == 0 { None } else { Some(Self(bits)) }
    }

    /// Returns the rate in bits per second, which is never 0.
    #[must_use]
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Returns the time in nanoseconds that `bytes` bytes take at this rate, rounded up.
    #[must_use]
    #[inline]
    pub const fn nanos_for(self, bytes: u64) -> u64 {
        // The product `bytes` * 8e9 fits a `u64` if `bytes` is at most 2.3 GB, as for every packet. One division is
        // then enough.
        match bytes.checked_mul(8_000_000_000) {
            Some(bit_nanos) => bit_nanos.div_ceil(self.0),
            None => {
                let nanos = (bytes as u128 * 8_000_000_000).div_ceil(self.0 as u128);
                if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 }
            }
        }
    }

    /// Returns the number of whole bytes that are sent at this rate in `span`.
    #[must_use]
    pub const fn bytes_in(self, span: Duration) -> u64 {
        let bytes = self.0 as u128 * span.as_nanos() / 8_000_000_000;
        if bytes > u64::MAX as u128 { u64::MAX } else { bytes as u64 }
    }
}

impl Ratio {
    /// 0.
    pub const ZERO: Self = Self(0);
    /// 1.
    pub const ONE: Self = Self(1_000_000_000_000);

    /// Returns `numerator / denominator`, rounded down to a multiple of 10⁻¹². Returns `None` if the ratio is above 1
    /// or the denominator is 0.
    #[must_use]
    pub const fn new(numerator: u64, denominator: u64) -> Option<Self> {
        if denominator == 0 || numerator > denominator {
            return None;
        }
        Some(Self((numerator as u128 * Self::ONE.0 as u128 / denominator as u128) as u64))
    }

    /// Returns the ratio in units of 10⁻¹².
    #[must_use]
    pub const fn parts(self) -> u64 {
        self.0
    }

    /// Returns the ratio as a floating-point number, for display and statistics.
    #[must_use]
    pub fn as_f64(self) -> f64 {
        self.0 as f64 / Self::ONE.0 as f64
    }
}

impl fmt::Display for Bytes {
    /// Writes the value in the largest decimal unit that divides it, for example `100kB` or `1500B`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, unit) = largest(self.0, &[(1_000_000_000, "GB"), (1_000_000, "MB"), (1_000, "kB"), (1, "B")]);
        write!(f, "{n}{unit}")
    }
}

impl fmt::Display for BitRate {
    /// Writes the value in the largest unit that divides it, for example `10mbit` or `56kbit`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (n, unit) =
            largest(self.0, &[(1_000_000_000, "gbit"), (1_000_000, "mbit"), (1_000, "kbit"), (1, "bit")]);
        write!(f, "{n}{unit}")
    }
}

impl fmt::Display for Ratio {
    /// Writes a percentage, for example `1%` or `0.05%`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whole = self.0 / 10_000_000_000;
        let rest = self.0 % 10_000_000_000;
        if rest == 0 {
            return write!(f, "{whole}%");
        }
        write!(f, "{whole}.{}%", format!("{rest:010}").trim_end_matches('0'))
    }
}

fn largest(value: u64, units: &[(u64, &'static str)]) -> (u64, &'static str) {
    let mut scaled = (value, "");
    for &(size, unit) in units {
        scaled = (value / size, unit);
        if value != 0 && value.is_multiple_of(size) {
            return scaled;
        }
    }
    scaled
}

const INTERVAL_FORMS: &str = "how often, such as 25/s, 0.5/s or 90/min";

/// A kind of quantity: its accepted units, the unit names that other tools use, and a text that lists the accepted
/// forms.
struct Quantity {
    units: &'static [(&'static str, u64)],
    /// Whether units may be written in any case and with `/s` after them, which is possible only if case does not
    /// distinguish units.
    is_lenient: bool,
    foreign: &'static [(&'static str, u64, &'static str)],
    forms: &'static str,
}

impl Quantity {
    /// Returns whether `unit` is another accepted form of the unit `name`, for example `Mbit/s` for `mbit`.
    fn is_alias(&self, unit: &str, name: &str) -> bool {
        self.is_lenient && unit.strip_suffix("/s").unwrap_or(unit).eq_ignore_ascii_case(name)
    }
}

const RATE: Quantity = Quantity {
    is_lenient: true,
    units: &[("bit", 1), ("kbit", 1_000), ("mbit", 1_000_000), ("gbit", 1_000_000_000)],
    foreign: foreign::RATE,
    forms: "a rate such as 56kbit, 10mbit, 1gbit or 300bit (bits per second)",
};

const SPAN: Quantity = Quantity {
    is_lenient: false,
    units: &[("ns", 1), ("us", 1_000), ("ms", 1_000_000), ("s", 1_000_000_000), ("min", 60_000_000_000)],
    foreign: foreign::TIME,
    forms: "a time such as 40ms, 1.08s, 250us, 10ns or 2min",
};

const BYTES: Quantity = Quantity {
    is_lenient: false,
    units: &[
        ("B", 1),
        ("kB", 1_000),
        ("KB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
    ],
    foreign: foreign::BYTES,
    forms: "a size such as 300B, 100kB (= 100KB, 100,000 bytes), 100KiB (102,400), 2MB, 1MiB or 1GB",
};

const LENGTH: Quantity = Quantity {
    is_lenient: false,
    units: &[("mm", 1_000), ("m", 1_000_000), ("km", 1_000_000_000)],
    foreign: &[],
    forms: "a length such as 10m, 12.5m or 1km",
};

const SPEED: Quantity = Quantity {
    is_lenient: false,
    units: &[("m/s", 1_000_000)],
    foreign: &[],
    forms: "a speed such as 5m/s or 12.5m/s",
};

const RATIO: Quantity = Quantity {
    is_lenient: false,
    units: &[("%", 10_000_000_000)],
    foreign: foreign::RATIO,
    forms: "a share such as 1%, 0.05% or 0 (from 0% to 100%)",
};

impl FromStr for BitRate {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        let bits = quantity(text, &RATE).map_err(|error| match text.ends_with("bps") {
            true => {
                let note = "'bps' means bits to some tools and bytes to others";
                UnitError::new(text, note, error.suggestion, RATE.forms)
            }
            false => error,
        })?;
        Self::from_bits_per_second(bits)
            .ok_or_else(|| UnitError::new(text, "nothing moves at rate 0", None, RATE.forms))
    }
}

impl FromStr for Bytes {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        quantity(text, &BYTES).map(Self)
    }
}

impl FromStr for Ratio {
    type Err = UnitError;
    fn from_str(text: &str) -> Result<Self, UnitError> {
        if text == "0" {
            return Ok(Self::ZERO);
        }
        let parts = quantity(text, &RATIO).map_err(|error| match text.parse::<f64>() {
            // It is unknown whether a number below 1 is meant as a share or as a percentage. A number above 100 is
            // neither. So the error suggests no correction in these cases.
            Ok(bare) if !(1.0..=100.0).contains(&bare) => {
                UnitError::new(text, "the unit is missing", None, RATIO.forms)
            }
            _ => error,
        })?;
        if parts > Self::ONE.0 {
            let line = format!("'{text}' is more than 100%; write {}", RATIO.forms);
            return Err(UnitError { line, suggestion: None });
        }
        Ok(Self(parts))
    }
}

/// Parses a duration such as `40ms` or `1.08s`. The text `0` means zero.
///
/// # Errors
/// [`UnitError`], which lists the accepted forms.
pub fn parse_duration(text: &str) -> Result<Duration, UnitError> {
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    quantity(text, &SPAN).map(Duration::from_nanos)
}

/// Parses a length such as `12.5m`, and returns it in micrometres. The text `0` means zero.
///
/// # Errors
/// [`UnitError`], which lists the accepted forms.
pub fn parse_length(text: &str) -> Result<u64, UnitError> {
    if text == "0" { Ok(0) } else { quantity(text, &LENGTH) }
}

/// Parses a speed such as `12.5m/s`, and returns it in micrometres per second. The result is never 0.
///
/// # Errors
/// [`UnitError`], which lists the accepted forms.
pub fn parse_speed(text: &str) -> Result<u64, UnitError> {
    match quantity(text, &SPEED)? {
        0 => Err(UnitError::new(text, "nobody moves at speed 0", None, SPEED.forms)),
        speed => Ok(speed),
    }
}

/// Parses a frequency such as `25/s`, `0.5/s` or `90/min`, and returns the time between two occurrences.
///
/// # Errors
/// [`UnitError`], which lists the accepted forms.
pub fn parse_interval(text: &str) -> Result<Duration, UnitError> {
    interval(text).map_err(|why| {
        let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
        let (number, unit) = text.split_at(split);
        let unit = unit.trim_start_matches('/').trim().to_lowercase();
        let found = foreign::INTERVAL.iter().find(|(name, _)| *name == unit);
        let meant = found.map(|(_, ours)| format!("{number}/{ours}")).filter(|meant| interval(meant).is_ok());
        UnitError::new(text, &why, meant, INTERVAL_FORMS)
    })
}

fn interval(text: &str) -> Result<Duration, String> {
    let (number, unit) = text.split_once('/').ok_or("the unit is missing")?;
    let unit_nanos: u128 = match unit {
        "s" => 1_000_000_000,
        "min" => 60_000_000_000,
        _ => return Err(format!("unknown unit '{unit}'")),
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    let digits = format!("{whole}{fraction}");
    let plain = !whole.is_empty() && digits.len() <= 12 && digits.bytes().all(|byte| byte.is_ascii_digit());
    let value: u128 = digits.parse().ok().filter(|_| plain).ok_or("not a number")?;
    if value == 0 {
        return Err("nothing ever arrives".to_owned());
    }
    let scale = 10_u128.pow(fraction.len() as u32);
    Ok(Duration::from_nanos(u64::try_from(unit_nanos * scale / value).unwrap_or(u64::MAX)))
}

/// Returns the shortest exact text form of a duration, which [`parse_duration`] can parse.
#[must_use]
pub fn format_duration(span: Duration) -> String {
    let nanos = crate::time::nanos(span);
    if nanos == 0 {
        return "0ms".to_owned();
    }
    if nanos >= 1_000_000_000 {
        let rest = format!("{:09}", nanos % 1_000_000_000);
        let rest = rest.trim_end_matches('0');
        let dot = if rest.is_empty() { "" } else { "." };
        return format!("{}{dot}{rest}s", nanos / 1_000_000_000);
    }
    let (n, unit) = largest(nanos, &[(1_000_000, "ms"), (1_000, "us"), (1, "ns")]);
    format!("{n}{unit}")
}

/// Parses a decimal number followed by a unit, and returns their exact product without floating point.
fn quantity(text: &str, kind: &Quantity) -> Result<u64, UnitError> {
    let split = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(split);
    let wrong = |why: &str| UnitError::new(text, why, None, kind.forms);
    if number.is_empty() {
        return Err(wrong("a number was expected"));
    }
    let known = kind.units.iter().find(|(name, _)| *name == unit || kind.is_alias(unit, name));
    let Some(&(_, scale)) = known else {
        let why =
            if unit.is_empty() { "the unit is missing".to_owned() } else { format!("unknown unit '{unit}'") };
        let meant = foreign::meant(number, unit, kind);
        // A correction is offered only if the parser would accept it.
        let meant = meant.filter(|meant| meant != text && quantity(meant, kind).is_ok());
        return Err(UnitError::new(text, &why, meant, kind.forms));
    };
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() || fraction.contains('.') || (number.contains('.') && fraction.is_empty()) {
        return Err(wrong("not a number"));
    }
    let too_large = || wrong("the number is too large");
    let mut value = whole.parse::<u64>().ok().and_then(|n| n.checked_mul(scale)).ok_or_else(too_large)?;
    let mut step = scale;
    let mut divides = true;
    for digit in fraction.bytes() {
        divides &= step > 0 && step.is_multiple_of(10);
        if !divides && digit != b'0' {
            return Err(wrong("more decimals than the unit can be divided into"));
        }
        step /= 10;
        value = value.checked_add(u64::from(digit - b'0') * step).ok_or_else(too_large)?;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_read_and_written_back() {
        for text in ["10mbit", "56kbit", "14400bit", "1gbit"] {
            assert_eq!(text.parse::<BitRate>().map(|r| r.to_string()).as_deref(), Ok(text));
        }
        for text in ["10Mbit/s", "10mbit/s", "10Mbit", "10MBIT/s"] {
            assert_eq!(
                text.parse::<BitRate>().map(|rate| rate.to_string()).as_deref(),
                Ok("10mbit"),
                "{text}"
            );
        }
        assert_eq!("14.4kbit".parse::<BitRate>().map(BitRate::bits_per_second), Ok(14_400));
        for text in ["0.05%", "1%", "100%", "12.5%"] {
            assert_eq!(text.parse::<Ratio>().map(|r| r.to_string()).as_deref(), Ok(text));
        }
        for text in ["40ms", "1.08s", "250us", "7ns"] {
            assert_eq!(parse_duration(text).map(format_duration).as_deref(), Ok(text));
        }
        assert_eq!("100kB".parse(), "100KB".parse::<Bytes>());
        assert_eq!("100KiB".parse(), Ok(Bytes(102_400)));
    }

    #[test]
    fn errors_list_the_accepted_forms() {
        for text in ["10", "10mbps", "0mbit", "1.mbit", "fast", "10MB/s", "99999999999999999999gbit"] {
            let error = text.parse::<BitRate>().expect_err(text).to_string();
            assert!(error.contains(text) && error.contains("10mbit"), "{error}");
        }
        assert!("101%".parse::<Ratio>().is_err());
        assert!("1".parse::<Ratio>().is_err());
        assert!(parse_duration("5").is_err());
        for text in ["1.0000000001s", "1.05ns", "0.5ns"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        assert_eq!(parse_duration("1.000ns"), Ok(Duration::from_nanos(1)));
        assert_eq!([parse_length("12.5m"), parse_length("0")], [Ok(12_500_000), Ok(0)]);
        assert_eq!(parse_speed("12.5m/s"), Ok(12_500_000));
        for text in ["10", "10s", "10m/s"] {
            let error = parse_length(text).expect_err(text).to_string();
            assert!(error.contains(text) && error.contains("12.5m"), "{error}");
        }
        for text in ["10", "10m", "0m/s"] {
            let error = parse_speed(text).expect_err(text).to_string();
            assert!(error.contains(text) && error.contains("12.5m/s"), "{error}");
        }
    }

    /// Returns the correction that the error of `read` offers, or "nothing".
    fn meant<T>(read: Result<T, UnitError>) -> String {
        let error = read.err().expect("refused");
        let meant = error.suggestion().unwrap_or("nothing").to_owned();
        let suggested = error.to_string().contains(&format!("(did you mean {meant}?)"));
        assert_eq!(suggested, meant != "nothing", "{error}");
        meant
    }

    #[test]
    fn units_of_other_tools_are_answered_with_ours() {
        for (text, ours) in [
            ("10Mbps", "10mbit"),
            ("10mbps", "10mbit"),
            ("1Gbps", "1gbit"),
            ("10Mb/s", "10mbit"),
            ("1.5M", "1.5mbit"),
            ("10 mbit", "10mbit"),
            ("10MB/s", "80mbit"),
            ("56K", "56kbit"),
            ("10furlongs", "nothing"),
            ("1.0001bps", "nothing"),
        ] {
            assert_eq!(meant(text.parse::<BitRate>()), ours, "{text}");
        }
        for (text, ours) in [
            ("100ms rtt", "100ms"),
            ("100msec", "100ms"),
            ("2h", "120min"),
            ("5m", "5min"),
            ("80", "nothing"),
        ] {
            assert_eq!(meant(parse_duration(text)), ours, "{text}");
        }
        for (text, ours) in [
            ("100Kb", "100kB"),
            ("1mb", "1MB"),
            ("8K", "8kB"),
            ("4kib", "4KiB"),
            ("9 bytes", "9B"),
            ("1", "nothing"),
        ] {
            assert_eq!(meant(text.parse::<Bytes>()), ours, "{text}");
        }
        for (text, ours) in
            [("1pct", "1%"), ("2 percent", "2%"), ("1", "1%"), ("0.01", "nothing"), ("200", "nothing")]
        {
            assert_eq!(meant(text.parse::<Ratio>()), ours, "{text}");
        }
        for (text, ours) in [("25", "25/s"), ("25hz", "25/s"), ("25/sec", "25/s"), ("2/h", "nothing")] {
            assert_eq!(meant(parse_interval(text)), ours, "{text}");
        }
    }

    #[test]
    fn a_packet_takes_its_time_on_the_wire() {
        let rate: BitRate = "10mbit".parse().expect("a rate");
        assert_eq!(rate.nanos_for(1500), 1_200_000);
        assert_eq!(rate.bytes_in(Duration::from_millis(80)), 100_000);
        assert_eq!(BitRate::from_bits_per_second(3).map(|r| r.nanos_for(1)), Some(2_666_666_667));
    }
}
