//! The text forms of knobs: how each type of value is written and parsed.
//!
//! A parse error is one line that lists the accepted values.

use super::{
    Cc, CwndUnit, Fin, FirstWindow, Nagle, Push, RecoveryKind, RttSampling, Ssthresh, SynCookies, SynQueue,
    WindowProbe,
};
use anabranch_base::Bytes;
use anabranch_base::knobs::Form;
pub(super) use anabranch_base::knobs::forms::{Names, Number, SWITCH, SpanOrZero, Text};
use anabranch_base::time::Duration;
use anabranch_base::units::{UnitError, format_duration};
use anabranch_congestion::reno::{AfterIdle, Counting};
use anabranch_congestion::{InitialWindow, SlowStartExit};

pub(super) const CC: Names<Cc> =
    Names(&[("reno", Cc::Reno), ("cubic", Cc::Cubic), ("bbr", Cc::Bbr), ("bic", Cc::Bic)]);
pub(super) const RECOVERY: Names<RecoveryKind> =
    Names(&[("reno", RecoveryKind::Reno), ("newreno", RecoveryKind::NewReno), ("sack", RecoveryKind::Sack)]);
pub(super) const IDLE: Names<AfterIdle> =
    Names(&[("yes", AfterIdle::Restart), ("no", AfterIdle::Keep), ("decay", AfterIdle::Decay)]);
pub(super) const SYNCOOKIES: Names<SynCookies> =
    Names(&[("yes", SynCookies::Yes), ("no", SynCookies::No), ("auto", SynCookies::Auto)]);
pub(super) const SYN_QUEUE: Names<SynQueue> =
    Names(&[("timers", SynQueue::Timers), ("scan", SynQueue::Scan)]);
pub(super) const FIRST_WINDOW: Names<FirstWindow> =
    Names(&[("64KiB", FirstWindow::Bytes64K), ("segments", FirstWindow::Segments)]);
pub(super) const NAGLE: Names<Nagle> =
    Names(&[("yes", Nagle::Yes), ("no", Nagle::No), ("minshall", Nagle::Minshall)]);
pub(super) const CWND_UNIT: Names<CwndUnit> =
    Names(&[("bytes", CwndUnit::Bytes), ("segments", CwndUnit::Segments)]);
pub(super) const SSTHRESH: Names<Ssthresh> =
    Names(&[("flight", Ssthresh::Flight), ("window", Ssthresh::Window)]);
pub(super) const PUSH: Names<Push> = Names(&[("write", Push::Writes), ("burst", Push::Bursts)]);
pub(super) const FIN: Names<Fin> =
    Names(&[("data", Fin::Data), ("alone", Fin::Alone), ("waiting", Fin::Waiting)]);
pub(super) const WINDOW_PROBE: Names<WindowProbe> =
    Names(&[("data", WindowProbe::Data), ("empty", WindowProbe::Empty)]);
pub(super) const HYSTART: Names<Option<SlowStartExit>> =
    Names(&[("no", None), ("yes", Some(SlowStartExit::PlusPlus)), ("linux", Some(SlowStartExit::Linux))]);
pub(super) const SAMPLING: Names<RttSampling> =
    Names(&[("every", RttSampling::Every), ("once", RttSampling::Once)]);

/// A duration greater than 0.
pub(super) struct Span;

impl Form<Duration> for Span {
    fn show(&self, value: &Duration) -> String {
        format_duration(*value)
    }

    fn read(&self, text: &str) -> Result<Duration, String> {
        let span = SpanOrZero.read(text)?;
        if span.is_zero() {
            return Err(format!("'{text}' must be longer than nothing; write a time such as 200ms or 1s"));
        }
        Ok(span)
    }
}

/// A buffer size, from 256 bytes to 1 GiB.
pub(super) struct Buffer;

impl Form<u64> for Buffer {
    fn show(&self, value: &u64) -> String {
        Bytes(*value).to_string()
    }

    fn read(&self, text: &str) -> Result<u64, String> {
        bytes_in(text, 256, 1 << 30)
    }
}

/// A number of segments, or the RFC that defines the formula.
pub(super) const INITIAL_WINDOW: Text<InitialWindow> = Text(
    |text| match text {
        "rfc5681" => Ok(InitialWindow::Rfc5681),
        "rfc6928" => Ok(InitialWindow::Rfc6928),
        _ => Number(1, 64)
            .read(text)
            .map(InitialWindow::Packets)
            .map_err(|_| format!("'{text}' is not a number of segments from 1 to 64, rfc5681 or rfc6928")),
    },
    |value| match value {
        InitialWindow::Rfc5681 => "rfc5681".to_owned(),
        InitialWindow::Rfc6928 => "rfc6928".to_owned(),
        InitialWindow::Packets(n) => n.to_string(),
        other => format!("{other:?}"),
    },
);

/// Parses the knob that says what makes the congestion window grow. `off` counts acknowledgements; a number counts
/// acknowledged bytes (RFC 3465). In slow start, each acknowledgement then counts for at most this number of segments.
pub(super) const COUNTING: Text<Counting> = Text(
    |text| match text {
        "off" => Ok(Counting::Acks),
        _ => Number(1, 1000)
            .read(text)
            .map(|limit| Counting::Bytes { limit })
            .map_err(|_| format!("'{text}' is neither off nor a number of segments from 1 to 1000")),
    },
    |value| match value {
        Counting::Acks => "off".to_owned(),
        Counting::Bytes { limit } => limit.to_string(),
    },
);

/// Parses a time limit: a duration, or `off` for no limit.
pub(super) const LIMIT: Text<Option<Duration>> = Text(
    |text| if text == "off" { Ok(None) } else { Span.read(text).map(Some) },
    |value| value.map_or_else(|| "off".to_owned(), format_duration),
);

/// The size of a segment in bytes, or `auto`.
pub(super) const SEGMENT: Text<Option<u32>> = Text(
    |text| if text == "auto" { Ok(None) } else { bytes_in(text, 88, 65_495).map(|size| Some(size as u32)) },
    |value| value.map_or_else(|| "auto".to_owned(), |size| Bytes(u64::from(size)).to_string()),
);

/// The maximum number of segments sent in response to one event; 0 or `off` means no limit.
pub(super) const BURST: Text<Option<u32>> = Text(
    |text| match text {
        "off" => Ok(None),
        _ => Number(0, 10_000)
            .read(text)
            .map(|number| (number > 0).then_some(number))
            .map_err(|_| format!("'{text}' is neither off nor a number from 0 to 10000")),
    },
    |value| value.map_or_else(|| "off".to_owned(), |n| n.to_string()),
);

fn bytes_in(text: &str, min: u64, max: u64) -> Result<u64, String> {
    let Bytes(size) = text.parse().map_err(|error: UnitError| error.to_string())?;
    if (min..=max).contains(&size) {
        return Ok(size);
    }
    Err(format!("'{text}' is not a size from {} to {}", Bytes(min), Bytes(max)))
}
