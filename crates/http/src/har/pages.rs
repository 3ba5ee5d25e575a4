//! Finds the pages of a HAR file and the entries of each page.
//!
//! A HAR is an object with a `log`. A bare log, a list of HARs or logs, and a list of entries are also accepted. A list
//! of HARs yields the pages of all HARs, in order. A list of entries counts as one log.

use super::{one_line, size};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The contents of a HAR file.
pub(super) struct Pages<'a> {
    /// The logs of the file, each with its creator and comment.
    pub logs: Vec<&'a Value>,
    /// The pages of the HAR file that have entries.
    pub listed: Vec<Listed<'a>>,
    /// The entries of all logs, in the order in which they stand in the file.
    pub entries: Vec<HarEntry<'a>>,
    /// For each log, the location of its list of entries in the file, for example `log.entries`. Error messages show
    /// it.
    lists: Vec<String>,
}

/// A page of the HAR file that has entries.
pub(super) struct Listed<'a> {
    /// The index of the log that contains the page.
    pub log: usize,
    pub id: Cow<'a, str>,
    pub title: Option<&'a str>,
    /// The time of the load event in milliseconds since the start of the page.
    pub on_load: Option<f64>,
    entries: usize,
}

/// An entry of a HAR file, and its position in the file.
pub(super) struct HarEntry<'a> {
    pub value: &'a Value,
    /// The index of the log that contains the entry.
    pub log: usize,
    /// The identifier of the page that the entry names; empty if the entry names no page.
    pub page: Cow<'a, str>,
    /// The index of the entry in its log.
    index: usize,
}

impl<'a> Pages<'a> {
    /// Finds the pages of a HAR file. `root` is the parsed content of the file.
    ///
    /// # Errors
    /// A message that names the missing or invalid element.
    pub(super) fn of(root: &'a Value) -> Result<Self, String> {
        let mut pages = Self { logs: Vec::new(), listed: Vec::new(), entries: Vec::new(), lists: Vec::new() };
        match root.as_array() {
            None if !root.is_object() => return Err(format!("{}; {EXPECTED}", describe(root))),
            None => pages.add_har(root, "")?,
            Some(items) if items.iter().any(|item| item.get("request").is_some()) => {
                pages.add_log(root, items, String::new());
            }
            Some(items) if items.is_empty() => return Err(format!("an empty list; {EXPECTED}")),
            Some(items) if items.iter().all(|item| item.get("log").or(item.get("entries")).is_none()) => {
                return Err(format!("a list of neither HARs nor entries; {EXPECTED}"));
            }
            Some(items) => {
                for (index, item) in items.iter().enumerate() {
                    pages.add_har(item, &format!("[{index}]."))?;
                }
            }
        }
        Ok(pages)
    }

    /// Adds the pages of `har`, which contains a log or is itself a log. `place` is the path of `har` in the file, for
    /// error messages.
    fn add_har(&mut self, har: &'a Value, place: &str) -> Result<(), String> {
        let (log, place) = match har.get("log") {
            Some(log) => (log, format!("{place}log.")),
            None if har.get("entries").is_some() => (har, place.to_owned()),
            None if place.is_empty() => return Err(format!("JSON without a 'log'; {EXPECTED}")),
            None => {
                let item = place.trim_end_matches('.');
                return Err(format!(
                    "{item}: no HAR, and no entry: there is no 'log' and no 'request' in it"
                ));
            }
        };
        if !log.is_object() {
            return Err(format!("{}: {}; {EXPECTED}", place.trim_end_matches('.'), describe(log)));
        }
        let entries = log.get("entries").ok_or_else(|| format!("{place}entries: missing; {EXPECTED}"))?;
        let list =
            entries.as_array().ok_or_else(|| format!("{place}entries: {}; {EXPECTED}", describe(entries)));
        let entries = list?;
        self.add_log(log, entries, format!("{place}entries"));
        Ok(())
    }

    fn add_log(&mut self, log: &'a Value, entries: &'a [Value], list: String) {
        let number = self.logs.len();
        self.logs.push(log);
        self.lists.push(list);
        let mut counts: BTreeMap<Cow<'_, str>, usize> = BTreeMap::new();
        for (index, value) in entries.iter().enumerate() {
            let page = name(value.get("pageref"));
            *counts.entry(page.clone()).or_default() += 1;
            self.entries.push(HarEntry { value, log: number, page, index });
        }
        // First add the pages in the order of the log's list of pages. Then add the pages that this list lacks but
        // entries name.
        let named = log.get("pages").and_then(Value::as_array).into_iter().flatten().filter_map(|page| {
            page.get("id")?;
            let on_load = page.pointer("/pageTimings/onLoad").and_then(size::number).filter(|at| *at > 0.0);
            Some((name(page.get("id")), page.get("title").and_then(Value::as_str), on_load))
        });
        for (id, title, on_load) in
            named.chain(entries.iter().map(|entry| (name(entry.get("pageref")), None, None)))
        {
            // `remove` makes sure that each page is listed only once.
            if let Some(entries) = counts.remove(&id) {
                self.listed.push(Listed { log: number, id, title, on_load, entries });
            }
        }
    }

    /// Returns the name of `entry` in warnings and error messages, for example `log.entries[3]`.
    pub(super) fn label(&self, entry: &HarEntry<'_>) -> String {
        format!("{}[{}]", self.lists.get(entry.log).map_or("", String::as_str), entry.index)
    }

    /// Lists the pages of the file as text, for example `1 'News' (72 entries), 2 'Sports' (31 entries), ..`.
    pub(super) fn describe(&self) -> String {
        let page = |(number, page): (usize, &Listed<'_>)| {
            format!("{} '{}' ({} entries)", number + 1, short(page), page.entries)
        };
        let more = match self.listed.len().checked_sub(MAX_LISTED) {
            Some(more @ 1..) => format!(", and {more} more"),
            _ => String::new(),
        };
        self.listed.iter().enumerate().take(MAX_LISTED).map(page).collect::<Vec<_>>().join(", ") + &more
    }
}

/// Returns the title of a page, or its identifier, on one short line.
pub(super) fn short(page: &Listed<'_>) -> String {
    let name = one_line(page.title.unwrap_or(&page.id));
    name.chars().filter(|letter| !letter.is_control()).take(60).collect()
}

/// Returns the identifier of a page as text. In a file it may be a string or a number.
fn name(value: Option<&Value>) -> Cow<'_, str> {
    match value {
        Some(Value::String(text)) => Cow::Borrowed(text),
        Some(Value::Number(number)) => Cow::Owned(number.to_string()),
        _ => Cow::Borrowed(""),
    }
}

/// Returns what kind of JSON `value` is, for a message.
fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "true or false",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

/// The end of the error message about JSON that is not a HAR.
const EXPECTED: &str = "a HAR is {\"log\": {\"entries\": [..]}}, which a browser saves in the network tab of its developer \
    tools";

/// The maximum number of pages that a warning or an error message lists. The remaining pages are only counted.
const MAX_LISTED: usize = 20;
