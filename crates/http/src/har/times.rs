//! Determines when the entries of a page were queued, and sorts them by that time.

use super::initiator::FetchEntry;
use super::timings::is_preflight;
use super::{date, size};
use serde_json::Value;
use std::collections::BTreeMap;

/// Returns when `entry` was queued, in milliseconds since 1970; `None` if the entry does not say.
///
/// # Errors
/// The reason why the value of `startedDateTime` is not a time.
pub(super) fn started(entry: &Value) -> Result<Option<f64>, String> {
    let value = match entry.get("startedDateTime") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
        Some(value) => value,
    };
    if let Some(time) = value.as_str().and_then(date::unix_millis) {
        return Ok(Some(time));
    }
    // Some exporters write the start as Unix time. Between the years 2001 and 5138, seconds have 10 or 11 digits and
    // milliseconds have 12 to 14.
    match size::number(value) {
        Some(seconds) if (1e9..1e11).contains(&seconds) => Ok(Some(seconds * 1e3)),
        Some(millis) if (1e11..1e14).contains(&millis) => Ok(Some(millis)),
        _ => match value.as_str() {
            Some(text) => {
                let shown: String = text.chars().take(40).collect();
                Err(format!("'{shown}' is not an ISO 8601 date and time such as 2026-01-31T12:00:00Z"))
            }
            None => Err("not a text with an ISO 8601 date and time".to_owned()),
        },
    }
}

/// Sorts entries by their start. Each entry comes with its start and duration. Also returns the number of entries without
/// a start. An entry without a start counts as queued with the entry before it in the file. If no earlier entry has a
/// start, it counts as queued with the first entry that has one.
///
/// A CORS preflight is queued after the request that needs it, but sent before. So the request is moved behind its
/// preflight.
pub(super) fn in_order(entries: Vec<(Option<f64>, f64, FetchEntry<'_>)>) -> (Vec<FetchEntry<'_>>, usize) {
    let unknown = entries.iter().filter(|(started, ..)| started.is_none()).count();
    let mut last = entries.iter().find_map(|(started, ..)| *started).unwrap_or(0.0);
    let mut placed: Vec<FetchEntry<'_>> = Vec::with_capacity(entries.len());
    for (started, took, entry) in entries {
        last = started.unwrap_or(last);
        placed.push(FetchEntry { started: last, ended: last + took, ..entry });
    }
    let preflights = placed.iter().filter(|entry| is_preflight(entry.value));
    let preflights: BTreeMap<&str, f64> = preflights.map(|entry| (entry.url, entry.started)).collect();
    let key = |entry: &FetchEntry<'_>| {
        let preflight = preflights.get(entry.url).filter(|_| !is_preflight(entry.value));
        let before = preflight.filter(|at| (entry.started..=entry.sent()).contains(*at));
        (before.copied().unwrap_or(entry.started), before.is_some())
    };
    // The HAR need not list its entries in order. The sort is stable, so entries with the same start keep the order of the
    // file.
    let mut keyed: Vec<_> = placed.into_iter().map(|entry| (key(&entry), entry)).collect();
    keyed.sort_by(|(a, _), (b, _)| a.0.total_cmp(&b.0).then(a.1.cmp(&b.1)));
    (keyed.into_iter().map(|(_, entry)| entry).collect(), unknown)
}

/// Returns the warning that `unknown` of `all` entries have no start; `None` if `unknown` is 0.
pub(super) fn warning(unknown: usize, all: usize) -> Option<String> {
    (unknown > 0).then(|| format!("{unknown} of {all} entries: {FILE_ORDER}"))
}

/// The last words of the warning about entries that have no start time.
pub const FILE_ORDER: &str = "no startedDateTime: raced in the order of the file";
