//! The times at which the entries of a page were sent, and their order: by time or as in the file.

use super::initiator::Entry;
use super::{date, size};
use serde_json::Value;

/// Returns when `entry` was sent, in milliseconds since 1970; `None` if the file does not say.
///
/// # Errors
/// The reason why the value is not a time.
pub(super) fn started(entry: &Value) -> Result<Option<f64>, String> {
    let value = match entry.get("startedDateTime") {
        None | Some(Value::Null) => return Ok(None),
        Some(Value::String(text)) if text.trim().is_empty() => return Ok(None),
        Some(value) => value,
    };
    if let Some(time) = value.as_str().and_then(date::unix_millis) {
        return Ok(Some(time));
    }
    // Some exporters write Unix time. Between 2001 and 5138, seconds have 10 or 11 digits and milliseconds 12 to 14.
    match size::number(value) {
        Some(seconds) if (1e9..1e11).contains(&seconds) => Ok(Some(seconds * 1e3)),
        Some(millis) if (1e11..1e14).contains(&millis) => Ok(Some(millis)),
        _ => match value.as_str() {
            Some(text) => {
                let shown: String = text.chars().take(40).collect();
                Err(format!("'{shown}' is not an ISO 8601 date and time"))
            }
            None => Err("not a text with an ISO 8601 date and time".to_owned()),
        },
    }
}

/// Sorts entries, each with its start and duration, by time; also returns how many have no start. An entry without a start
/// counts as sent with the entry before it in the file. Leading ones count as sent with the first entry that has a start.
pub(super) fn in_order(entries: Vec<(Option<f64>, f64, Entry<'_>)>) -> (Vec<Entry<'_>>, usize) {
    let unknown = entries.iter().filter(|(started, ..)| started.is_none()).count();
    let mut last = entries.iter().find_map(|(started, ..)| *started).unwrap_or(0.0);
    let mut placed: Vec<Entry<'_>> = Vec::with_capacity(entries.len());
    for (started, took, entry) in entries {
        last = started.unwrap_or(last);
        placed.push(Entry { started: last, ended: last + took, ..entry });
    }
    // The HAR need not list entries in order; a stable sort keeps the file's order among equals.
    placed.sort_by(|a, b| a.started.total_cmp(&b.started));
    (placed, unknown)
}

/// Returns the warning about `unknown` of `all` entries that have no start.
pub(super) fn warning(unknown: usize, all: usize) -> Option<String> {
    (unknown > 0).then(|| format!("{unknown} of {all} entries: {FILE_ORDER}"))
}

/// The end of the warning about entries without a start.
pub const FILE_ORDER: &str = "no startedDateTime: raced in the order of the file";
