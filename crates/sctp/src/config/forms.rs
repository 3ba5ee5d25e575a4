//! The text forms of knobs: functions that write and parse each kind of value.

use super::InitialWindow;
use anabranch_base::Bytes;
use anabranch_base::knobs::Form;
pub(super) use anabranch_base::knobs::forms::{SpanOrZero, Text};
use anabranch_base::time::Duration;
use anabranch_base::units::format_duration;

/// A value that is written as a name. A value with several names is shown as the first of them.
pub(super) struct Names<T: 'static>(pub(super) &'static [(&'static str, T)]);

impl<T: Copy + PartialEq> Form<T> for Names<T> {
    fn show(&self, value: &T) -> String {
        self.0.iter().find(|(_, form)| form == value).map_or("", |(name, _)| name).to_owned()
    }

    fn read(&self, text: &str) -> Result<T, String> {
        let found = self.0.iter().find(|(name, _)| *name == text);
        found.map(|(_, value)| *value).ok_or_else(|| "not one of the accepted values".to_owned())
    }
}

/// A switch, written `yes` or `no`.
pub(super) const SWITCH: Names<bool> = Names(&[("yes", true), ("no", false)]);

/// A number between two inclusive bounds.
pub(super) struct Count(pub(super) u32, pub(super) u32);

impl<T: TryFrom<u32> + ToString> Form<T> for Count {
    fn show(&self, value: &T) -> String {
        value.to_string()
    }

    fn read(&self, text: &str) -> Result<T, String> {
        count(text, self.0, self.1)?.try_into().map_err(|_| "out of range".to_owned())
    }
}

/// An optional value. The first field is the word for `None`, and the second field is the form of all other values.
pub(super) struct Or<F>(pub(super) &'static str, pub(super) F);

impl<T, F: Form<T>> Form<Option<T>> for Or<F> {
    fn show(&self, value: &Option<T>) -> String {
        value.as_ref().map_or_else(|| self.0.to_owned(), |value| self.1.show(value))
    }

    fn read(&self, text: &str) -> Result<Option<T>, String> {
        if text == self.0 { Ok(None) } else { self.1.read(text).map(Some) }
    }
}

/// A size in bytes between two inclusive bounds.
pub(super) struct Size(pub(super) u64, pub(super) u64);

impl Form<u64> for Size {
    fn show(&self, value: &u64) -> String {
        for (unit, name) in [(1u64 << 20, "MiB"), (1 << 10, "KiB")] {
            if *value >= unit && value.is_multiple_of(unit) {
                return format!("{}{name}", value / unit);
            }
        }
        Bytes(*value).to_string()
    }

    fn read(&self, text: &str) -> Result<u64, String> {
        size(text, self.0, self.1)
    }
}

/// A size between two inclusive bounds that is always written in bytes.
pub(super) struct Exact(pub(super) u32, pub(super) u32);

impl Form<u32> for Exact {
    fn show(&self, value: &u32) -> String {
        format!("{value}B")
    }

    fn read(&self, text: &str) -> Result<u32, String> {
        size(text, u64::from(self.0), u64::from(self.1)).map(|bytes| bytes as u32)
    }
}

/// A duration greater than 0.
pub(super) struct Span;

impl Form<Duration> for Span {
    fn show(&self, value: &Duration) -> String {
        format_duration(*value)
    }

    fn read(&self, text: &str) -> Result<Duration, String> {
        let span = SpanOrZero.read(text)?;
        if span.is_zero() { Err("must be more than 0".to_owned()) } else { Ok(span) }
    }
}

/// The initial window: a number of packets, or the name of the RFC whose formula is used.
pub(super) const INITIAL_WINDOW: Text<InitialWindow> = Text(
    |text| match text {
        "rfc4960" => Ok(InitialWindow::Rfc4960),
        "rfc9260" => Ok(InitialWindow::Rfc9260),
        _ => count(text, 1, 100).map(InitialWindow::Packets),
    },
    |value| match value {
        InitialWindow::Rfc4960 => "rfc4960".to_owned(),
        InitialWindow::Rfc9260 => "rfc9260".to_owned(),
        InitialWindow::Packets(packets) => packets.to_string(),
    },
);

/// The longest delay of a SACK.
pub(super) const DELAYED_ACK: Text<Duration> = Text(
    |text| {
        let span = SpanOrZero.read(text)?;
        // RFC 9260 §6.2: a SACK must not be delayed by more than 500 ms.
        if span > Duration::from_millis(500) { Err("more than 500ms".to_owned()) } else { Ok(span) }
    },
    |value| format_duration(*value),
);

/// The maximum burst in packets. `0` or `off` stands for no limit.
pub(super) const BURST: Text<Option<u32>> = Text(
    |text| {
        let limit = if text == "off" { 0 } else { count(text, 0, 10_000)? };
        Ok((limit > 0).then_some(limit))
    },
    |value| value.unwrap_or(0).to_string(),
);

/// The interval between two events. `0` stands for `None`: there are no such events.
pub(super) const INTERVAL: Text<Option<Duration>> = Text(
    |text| SpanOrZero.read(text).map(|span| (!span.is_zero()).then_some(span)),
    |value| format_duration(value.unwrap_or(Duration::ZERO)),
);

fn count(text: &str, min: u32, max: u32) -> Result<u32, String> {
    let n: u32 = text.parse().map_err(|_| "a whole number is needed".to_owned())?;
    if (min..=max).contains(&n) { Ok(n) } else { Err("out of range".to_owned()) }
}

fn size(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let n = text.parse::<Bytes>().map_err(|error| error.to_string())?.0;
    if (min..=max).contains(&n) { Ok(n) } else { Err("out of range".to_owned()) }
}
