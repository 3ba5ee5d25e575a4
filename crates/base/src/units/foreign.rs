//! Unit names that other tools and people use. They are never accepted, and only serve "did you mean" hints.

use super::Quantity;

/// Units of time. Each entry is the foreign name, the factor, and the accepted unit.
pub(super) const TIME: &[(&str, u64, &str)] = &[
    ("nsec", 1, "ns"),
    ("µs", 1, "us"),
    ("μs", 1, "us"),
    ("usec", 1, "us"),
    ("msec", 1, "ms"),
    ("msecs", 1, "ms"),
    ("millis", 1, "ms"),
    ("millisecond", 1, "ms"),
    ("milliseconds", 1, "ms"),
    ("sec", 1, "s"),
    ("secs", 1, "s"),
    ("second", 1, "s"),
    ("seconds", 1, "s"),
    ("m", 1, "min"),
    ("mins", 1, "min"),
    ("minute", 1, "min"),
    ("minutes", 1, "min"),
    ("h", 60, "min"),
    ("hour", 60, "min"),
    ("hours", 60, "min"),
];

/// Units of size. A user who writes `Kb` for a file size means bytes.
pub(super) const BYTES: &[(&str, u64, &str)] = &[
    ("byte", 1, "B"),
    ("bytes", 1, "B"),
    ("k", 1, "kB"),
    ("kbyte", 1, "kB"),
    ("kbytes", 1, "kB"),
    ("m", 1, "MB"),
    ("mbyte", 1, "MB"),
    ("mbytes", 1, "MB"),
    ("g", 1, "GB"),
    ("ki", 1, "KiB"),
    ("mi", 1, "MiB"),
    ("gi", 1, "GiB"),
];

/// Units of ratios.
pub(super) const RATIO: &[(&str, u64, &str)] =
    &[("", 1, "%"), ("pct", 1, "%"), ("perc", 1, "%"), ("percent", 1, "%"), ("p", 1, "%")];

/// Units of rates. Names for bits are recognized in lower and upper case, with or without `/s` or `ps`. Names for bytes
/// need a capital `B` or the word `bytes`, followed by `/s` or `ps`.
pub(super) const RATE: &[(&str, u64, &str)] = &[
    ("B/s", 8, "bit"),
    ("Bps", 8, "bit"),
    ("bytes/s", 8, "bit"),
    ("kB/s", 8, "kbit"),
    ("KB/s", 8, "kbit"),
    ("kBps", 8, "kbit"),
    ("KBps", 8, "kbit"),
    ("MB/s", 8, "mbit"),
    ("MBps", 8, "mbit"),
    ("GB/s", 8, "gbit"),
    ("GBps", 8, "gbit"),
    ("bps", 1, "bit"),
    ("b/s", 1, "bit"),
    ("bits", 1, "bit"),
    ("k", 1, "kbit"),
    ("kb", 1, "kbit"),
    ("kbps", 1, "kbit"),
    ("kb/s", 1, "kbit"),
    ("kbits", 1, "kbit"),
    ("kbits/s", 1, "kbit"),
    ("m", 1, "mbit"),
    ("mb", 1, "mbit"),
    ("mbps", 1, "mbit"),
    ("mb/s", 1, "mbit"),
    ("mbits", 1, "mbit"),
    ("mbits/s", 1, "mbit"),
    ("g", 1, "gbit"),
    ("gb", 1, "gbit"),
    ("gbps", 1, "gbit"),
    ("gb/s", 1, "gbit"),
    ("gbits", 1, "gbit"),
    ("gbits/s", 1, "gbit"),
];

/// Foreign spellings of the time unit in a rate such as `25/s`, each with the unit that this program accepts. A
/// spelling is the text after the slash (`25/sec`) or, without a slash, after the number (`25hz`, or `25` alone).
pub(super) const INTERVAL: &[(&str, &str)] = &[
    ("", "s"),
    ("sec", "s"),
    ("second", "s"),
    ("hz", "s"),
    ("rps", "s"),
    ("ps", "s"),
    ("m", "min"),
    ("minute", "min"),
];

/// Returns the quantity that the user probably meant by `number` and the unknown unit `unit`, for example `10mbit` for
/// `10 Mbps`. Words after the unit, as in `100ms rtt`, are ignored.
pub(super) fn meant(number: &str, unit: &str, kind: &Quantity) -> Option<String> {
    let word = unit.split_whitespace().next().unwrap_or("");
    let ours = |(name, _): &(&'static str, u64)| (*name, 1, *name);
    let all: Vec<_> = kind.units.iter().map(ours).chain(kind.foreign.iter().copied()).collect();
    // An exact match is tried first, because case may distinguish bytes from bits. If no name matches exactly, case is
    // ignored.
    let lower = word.to_lowercase();
    let named = |wanted: &str| all.iter().find(|(name, ..)| *name == wanted);
    let (_, factor, unit) = named(word)
        .or_else(|| named(&lower))
        .or_else(|| all.iter().find(|(name, ..)| name.to_lowercase() == lower))?;
    let number = match factor {
        1 => number.to_owned(),
        factor => number.parse::<u64>().ok()?.checked_mul(*factor)?.to_string(),
    };
    Some(number + unit)
}
