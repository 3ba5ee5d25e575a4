//! Knob values as text: how each kind is read and written.
//!
//! Every reader says in one line what would have been right.

use super::{Cc, CwndUnit, Nagle, RecoveryKind, RttSampling, Ssthresh, SynCookies};
use anabranch_base::Bytes;
use anabranch_base::time::Duration;
use anabranch_base::units::{UnitError, format_span, parse_span};
use anabranch_congestion::reno::{AfterIdle, Counting};
use anabranch_congestion::{InitialWindow, SlowStartExit};

pub(super) type Parsed<T> = Result<T, String>;

pub(super) fn number_in(text: &str, least: u32, most: u32) -> Parsed<u32> {
    match text.parse() {
        Ok(number) if (least..=most).contains(&number) => Ok(number),
        _ => Err(format!("'{text}' is not a number from {least} to {most}")),
    }
}

pub(super) fn one_of<T: Copy>(text: &str, names: &[(&str, T)]) -> Parsed<T> {
    names.iter().find(|(name, _)| *name == text).map(|(_, value)| *value).ok_or_else(|| {
        let names: Vec<_> = names.iter().map(|(name, _)| *name).collect();
        format!("'{text}' is not one of {}", names.join(", "))
    })
}

pub(super) fn name_of<T: PartialEq>(value: &T, names: &[(&'static str, T)]) -> String {
    names.iter().find(|(_, known)| known == value).map_or("?", |(name, _)| name).to_owned()
}

const SWITCH: [(&str, bool); 2] = [("yes", true), ("no", false)];
const CC: [(&str, Cc); 2] = [("reno", Cc::Reno), ("cubic", Cc::Cubic)];
const RECOVERY: [(&str, RecoveryKind); 3] =
    [("reno", RecoveryKind::Reno), ("newreno", RecoveryKind::NewReno), ("sack", RecoveryKind::Sack)];
const IDLE: [(&str, AfterIdle); 3] =
    [("yes", AfterIdle::Restart), ("no", AfterIdle::Keep), ("decay", AfterIdle::Decay)];
const SYNCOOKIES: [(&str, SynCookies); 3] =
    [("yes", SynCookies::Yes), ("no", SynCookies::No), ("auto", SynCookies::Auto)];
const NAGLE: [(&str, Nagle); 3] = [("yes", Nagle::Yes), ("no", Nagle::No), ("minshall", Nagle::Minshall)];
const CWND_UNIT: [(&str, CwndUnit); 2] = [("bytes", CwndUnit::Bytes), ("segments", CwndUnit::Segments)];
const SSTHRESH: [(&str, Ssthresh); 2] = [("flight", Ssthresh::Flight), ("window", Ssthresh::Window)];
const PUSH: [(&str, bool); 2] = [("write", false), ("burst", true)];
const HYSTART: [(&str, Option<SlowStartExit>); 3] =
    [("no", None), ("yes", Some(SlowStartExit::PlusPlus)), ("linux", Some(SlowStartExit::Linux))];
const SAMPLING: [(&str, RttSampling); 2] = [("every", RttSampling::Every), ("once", RttSampling::Once)];

pub(super) fn read_switch(text: &str) -> Parsed<bool> {
    one_of(text, &SWITCH)
}
pub(super) fn show_switch(value: &bool) -> String {
    name_of(value, &SWITCH)
}
pub(super) fn read_cc(text: &str) -> Parsed<Cc> {
    one_of(text, &CC)
}
pub(super) fn show_cc(value: &Cc) -> String {
    name_of(value, &CC)
}
pub(super) fn read_recovery(text: &str) -> Parsed<RecoveryKind> {
    one_of(text, &RECOVERY)
}
pub(super) fn show_recovery(value: &RecoveryKind) -> String {
    name_of(value, &RECOVERY)
}
pub(super) fn read_idle(text: &str) -> Parsed<AfterIdle> {
    one_of(text, &IDLE)
}
pub(super) fn show_idle(value: &AfterIdle) -> String {
    name_of(value, &IDLE)
}
pub(super) fn read_sampling(text: &str) -> Parsed<RttSampling> {
    one_of(text, &SAMPLING)
}
pub(super) fn show_sampling(value: &RttSampling) -> String {
    name_of(value, &SAMPLING)
}

pub(super) fn read_syncookies(text: &str) -> Parsed<SynCookies> {
    one_of(text, &SYNCOOKIES)
}
pub(super) fn show_syncookies(value: &SynCookies) -> String {
    name_of(value, &SYNCOOKIES)
}

pub(super) fn read_cwnd_unit(text: &str) -> Parsed<CwndUnit> {
    one_of(text, &CWND_UNIT)
}
pub(super) fn show_cwnd_unit(value: &CwndUnit) -> String {
    name_of(value, &CWND_UNIT)
}
pub(super) fn read_ssthresh(text: &str) -> Parsed<Ssthresh> {
    one_of(text, &SSTHRESH)
}
pub(super) fn show_ssthresh(value: &Ssthresh) -> String {
    name_of(value, &SSTHRESH)
}
pub(super) fn read_push(text: &str) -> Parsed<bool> {
    one_of(text, &PUSH)
}
pub(super) fn show_push(value: &bool) -> String {
    name_of(value, &PUSH)
}
pub(super) fn read_hystart(text: &str) -> Parsed<Option<SlowStartExit>> {
    one_of(text, &HYSTART)
}
pub(super) fn show_hystart(value: &Option<SlowStartExit>) -> String {
    name_of(value, &HYSTART)
}

pub(super) fn read_nagle(text: &str) -> Parsed<Nagle> {
    one_of(text, &NAGLE)
}
pub(super) fn show_nagle(value: &Nagle) -> String {
    name_of(value, &NAGLE)
}

pub(super) fn read_iw(text: &str) -> Parsed<InitialWindow> {
    match text {
        "rfc5681" => Ok(InitialWindow::Rfc5681),
        "rfc6928" => Ok(InitialWindow::Rfc6928),
        _ => number_in(text, 1, 64)
            .map(InitialWindow::Packets)
            .map_err(|_| format!("'{text}' is not a number of segments from 1 to 64, rfc5681 or rfc6928")),
    }
}
pub(super) fn show_iw(value: &InitialWindow) -> String {
    match value {
        InitialWindow::Rfc5681 => "rfc5681".to_owned(),
        InitialWindow::Rfc6928 => "rfc6928".to_owned(),
        InitialWindow::Packets(n) => n.to_string(),
        other => format!("{other:?}"),
    }
}

pub(super) fn read_abc(text: &str) -> Parsed<Counting> {
    if text == "off" {
        return Ok(Counting::Acks);
    }
    number_in(text, 1, 1000)
        .map(|limit| Counting::Bytes { limit: u64::from(limit) })
        .map_err(|_| format!("'{text}' is neither off nor a number of segments from 1 to 1000"))
}
pub(super) fn show_abc(value: &Counting) -> String {
    match value {
        Counting::Acks => "off".to_owned(),
        Counting::Bytes { limit } => limit.to_string(),
    }
}

pub(super) fn show_number(value: &u32) -> String {
    value.to_string()
}
pub(super) fn read_number(text: &str) -> Parsed<u32> {
    number_in(text, 0, 1_000_000)
}
pub(super) fn read_dupthresh(text: &str) -> Parsed<u32> {
    number_in(text, 1, 127)
}
pub(super) fn read_ack_every(text: &str) -> Parsed<u32> {
    number_in(text, 1, 64)
}
pub(super) fn read_retries(text: &str) -> Parsed<u32> {
    number_in(text, 0, 255)
}
pub(super) fn read_backlog(text: &str) -> Parsed<u32> {
    number_in(text, 1, 65_535)
}

pub(super) fn read_span(text: &str) -> Parsed<Duration> {
    parse_span(text).map_err(|error| error.to_string())
}
pub(super) fn read_positive_span(text: &str) -> Parsed<Duration> {
    let span = read_span(text)?;
    if span.is_zero() {
        return Err(format!("'{text}' must be longer than nothing; write a time such as 200ms or 1s"));
    }
    Ok(span)
}
pub(super) fn show_span(value: &Duration) -> String {
    format_span(*value)
}
pub(super) fn read_limit(text: &str) -> Parsed<Option<Duration>> {
    if text == "off" { Ok(None) } else { read_positive_span(text).map(Some) }
}
pub(super) fn show_limit(value: &Option<Duration>) -> String {
    value.map_or_else(|| "off".to_owned(), format_span)
}

pub(super) fn read_bytes_in(text: &str, least: u64, most: u64) -> Parsed<u64> {
    let Bytes(size) = text.parse().map_err(|error: UnitError| error.to_string())?;
    if (least..=most).contains(&size) {
        return Ok(size);
    }
    Err(format!("'{text}' is not a size from {} to {}", Bytes(least), Bytes(most)))
}
pub(super) fn read_buffer(text: &str) -> Parsed<u64> {
    read_bytes_in(text, 256, 1 << 30)
}
pub(super) fn show_bytes(value: &u64) -> String {
    Bytes(*value).to_string()
}
pub(super) fn read_mss(text: &str) -> Parsed<Option<u32>> {
    if text == "auto" { Ok(None) } else { read_bytes_in(text, 88, 65_495).map(|size| Some(size as u32)) }
}
pub(super) fn show_mss(value: &Option<u32>) -> String {
    value.map_or_else(|| "auto".to_owned(), |size| Bytes(u64::from(size)).to_string())
}
pub(super) fn read_burst(text: &str) -> Parsed<Option<u32>> {
    if text == "off" {
        return Ok(None);
    }
    number_in(text, 0, 10_000)
        .map(|number| (number > 0).then_some(number))
        .map_err(|_| format!("'{text}' is neither off nor a number from 0 to 10000"))
}
pub(super) fn show_burst(value: &Option<u32>) -> String {
    value.map_or_else(|| "off".to_owned(), |n| n.to_string())
}
