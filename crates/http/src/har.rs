//! HAR 1.2 (HTTP Archive): pages from what a browser recorded, and a page load
//! written as one.
//!
//! Owns the way from a HAR's log to a [`Page`]: which entries count, in which
//! order, and what is said about the others. What of the file is kept belongs to
//! `prune`, how large an entry is to `size`, who caused it to `initiator`, writing
//! to [`write`](mod@write).
//!
//! A page is raced as a first visit. So what the recording browser took from
//! its cache is fetched all the same; what never crossed a network (`data:`
//! addresses, extensions), what got no answer, and WebSockets is left out.
//! Every entry that is left out, or whose size had to be taken from elsewhere,
//! is counted and named in [`Page::warnings`].

mod date;
mod initiator;
mod prune;
mod size;
pub mod write;

use crate::page::{MAX_HEAD, MAX_OBJECTS, Object, Page, PageError, bounded_head};
use initiator::Entry;
use prune::Limits;
use serde_json::Value;
use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::time::Duration;

/// The page that the HAR text `text` records; `name` is used in messages.
///
/// Of a file with several pages the first that has entries is taken, and a
/// warning lists them.
///
/// # Errors
/// [`PageError`] naming what is wrong, with the entry's index and the field.
pub fn read(name: &str, text: &str) -> Result<Page, PageError> {
    read_page(name, text, None)
}

/// As [`read`], but of a file with several pages the one of this number, from 1.
///
/// # Errors
/// [`PageError`]; where there is no such page, with a list of those there are.
pub fn read_page(name: &str, text: &str, number: Option<usize>) -> Result<Page, PageError> {
    let wrong = |why: &str| PageError::new(format!("{name}: {why}"));
    let text = text.trim_start_matches('\u{feff}');
    let har = prune::parse(text, LIMITS).map_err(|why| wrong(&why.to_string()))?;
    let log = har.get("log").ok_or_else(|| wrong("not a HAR: there is no 'log' in it"))?;
    let entries = log.get("entries").ok_or_else(|| wrong("log.entries: missing; not a HAR"))?;
    let entries = entries.as_array().ok_or_else(|| wrong("log.entries: not a list"))?;
    if entries.is_empty() {
        return Err(wrong("log.entries: empty, so there is nothing to fetch"));
    }

    let mut left_out = Notes::default();
    let pages = pages_of(log, entries);
    let chosen = match pages.get(number.unwrap_or(1).wrapping_sub(1)) {
        Some(page) => page.id,
        None => {
            let (asked, list) = (number.unwrap_or(1), listed(&pages));
            return Err(wrong(&format!("there is no page {asked}; its pages: {list}")));
        }
    };
    for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| page_of(entry) != chosen) {
        let url = entry.pointer("/request/url").and_then(Value::as_str).unwrap_or("");
        left_out.add("belongs to another page of the file", index, url);
    }
    let mut kept = Vec::new();
    for (index, value) in entries.iter().enumerate().filter(|(_, value)| page_of(value) == chosen) {
        let wrong =
            |field: &str, why: &str| PageError::new(format!("{name}: log.entries[{index}].{field}: {why}"));
        let url = value.pointer("/request/url").and_then(Value::as_str);
        let url = url.ok_or_else(|| wrong("request.url", "missing or not a text"))?;
        // Sizes are checked before any entry is left out, so that a broken file is not taken for an odd entry.
        let size = size::of(value).map_err(|(field, why)| wrong(field, &why))?;
        let Some(address) = Address::of(url) else {
            left_out.add("never crossed a network (data:, blob:, about: or an extension)", index, url);
            continue;
        };
        if address.websocket || value.pointer("/response/status").and_then(Value::as_i64) == Some(101) {
            left_out.add("left HTTP (WebSocket)", index, url);
            continue;
        }
        let started = value.get("startedDateTime").and_then(Value::as_str);
        let started = started.ok_or_else(|| wrong("startedDateTime", "missing or not a text"))?;
        let started = date::unix_millis(started).ok_or_else(|| {
            wrong("startedDateTime", &format!("'{started}' is not an ISO 8601 date and time"))
        })?;
        let took = match value.get("time") {
            None | Some(Value::Null) => 0.0,
            Some(time) => size::number(time).ok_or_else(|| wrong("time", "not a number"))?.max(0.0),
        };
        kept.push(Entry { index, value, url, address, started, ended: started + took, size });
    }
    // The HAR need not list entries in order; a stable sort keeps the file's order among equals.
    kept.sort_by(|a, b| a.started.total_cmp(&b.started));
    let title = pages.iter().find(|page| page.id == chosen).and_then(|page| page.title);
    let mut page = build(name, log, title, &kept, left_out)?;
    if pages.len() > 1 && number.is_none() {
        let line =
            format!("{} pages in one file, of which the first is taken: {}", pages.len(), listed(&pages));
        page.warnings.insert(0, line);
    }
    Ok(page)
}

/// Reads the HAR file at `path`.
///
/// # Errors
/// [`PageError`] when it cannot be read or is not a HAR.
pub fn load(path: &Path) -> Result<Page, PageError> {
    load_page(path, None)
}

/// Reads the page of this number, from 1, of the HAR file at `path`.
///
/// # Errors
/// As [`load`] and [`read_page`].
pub fn load_page(path: &Path, number: Option<usize>) -> Result<Page, PageError> {
    let name = path.display().to_string();
    let wrong = |why: std::io::Error| PageError::new(format!("{name}: {why}"));
    let length = std::fs::metadata(path).map_err(wrong)?.len();
    if length > MAX_FILE {
        return Err(PageError::new(format!("{name}: {length} bytes, more than {MAX_FILE}")));
    }
    // What is not a regular file has no length, and may have no end.
    let mut bytes = Vec::new();
    std::fs::File::open(path)
        .and_then(|file| file.take(MAX_FILE + 1).read_to_end(&mut bytes))
        .map_err(wrong)?;
    if bytes.len() as u64 > MAX_FILE {
        return Err(PageError::new(format!("{name}: more than {MAX_FILE} bytes")));
    }
    let mut page = read_page(&name, &text_of(bytes), number)?;
    if let Some(stem) = path.file_stem() {
        page.name = stem.to_string_lossy().into_owned();
    }
    Ok(page)
}

/// The text of a file. What is no UTF-8 becomes question marks, in place: a copy would be up to three times as large.
fn text_of(mut bytes: Vec<u8>) -> String {
    let mut valid = 0;
    while let Err(error) = std::str::from_utf8(&bytes[valid..]) {
        let start = valid + error.valid_up_to();
        valid = error.error_len().map_or(bytes.len(), |length| start + length);
        bytes[start..valid].fill(b'?');
    }
    String::from_utf8(bytes).unwrap_or_default()
}

/// Turns the entries that count, in order, into objects.
fn build(
    name: &str,
    log: &Value,
    title: Option<&str>,
    entries: &[Entry<'_>],
    mut notes: Notes,
) -> Result<Page, PageError> {
    let mut hosts: Vec<String> = Vec::new();
    let mut tls = 0;
    let mut names = BTreeMap::new();
    let mut objects: Vec<Object> = Vec::with_capacity(entries.len());
    // Position among `entries` to index among `objects`: what is left out causes nothing.
    let mut placed: Vec<Option<usize>> = Vec::with_capacity(entries.len());
    let causes = initiator::find(entries);
    for (position, entry) in entries.iter().enumerate() {
        let bytes = match &entry.size {
            Ok(bytes) => bytes,
            Err(why) => {
                notes.add(why, entry.index, entry.url);
                placed.push(None);
                continue;
            }
        };
        if let Some(note) = bytes.note {
            notes.add(note, entry.index, entry.url);
        }
        if bytes.request.max(bytes.head) > MAX_HEAD {
            notes.add("a head of more than 32 KiB, of which so much is sent", entry.index, entry.url);
        }
        let method = entry.value.pointer("/request/method").and_then(Value::as_str).unwrap_or("GET");
        if method != "GET" {
            notes.add("not a GET: fetched as a GET of the same sizes", entry.index, entry.url);
        }
        let host = hosts.iter().position(|known| *known == entry.address.host).unwrap_or_else(|| {
            hosts.push(entry.address.host.clone());
            hosts.len() - 1
        });
        let target = unique(entry.address.target.clone(), &mut names);
        // A head shorter than its own request line and Host cannot be sent.
        let least =
            (target.len() + entry.address.host.len() + "GET  HTTP/1.1\r\nHost: \r\n\r\n".len()) as u64;
        let cause = causes[position].and_then(|cause| Some((cause, placed[cause]?)));
        let think = cause.map_or(0.0, |(cause, _)| (entry.started - entries[cause].ended).max(0.0));
        let content_type =
            entry.value.pointer("/response/content/mimeType").and_then(Value::as_str).unwrap_or("");
        placed.push(Some(objects.len()));
        tls += usize::from(entry.address.tls);
        objects.push(Object {
            name: target,
            host,
            request_head: bounded_head(bytes.request.max(least)),
            response_head: bounded_head(bytes.head),
            body: bytes.body,
            content_type: media_type(content_type),
            initiator: cause.map(|(_, object)| object),
            think: Duration::from_nanos((think * 1e6).round() as u64),
        });
    }
    if objects.is_empty() {
        let why = notes.lines(entries.len()).join("; ");
        return Err(PageError::new(format!("{name}: no entry can be fetched: {why}")));
    }
    if objects.len() > MAX_OBJECTS {
        return Err(PageError::new(format!("{name}: {} entries, more than {MAX_OBJECTS}", objects.len())));
    }
    let comment = log.get("comment").and_then(Value::as_str).map(one_line).filter(|c| !c.is_empty());
    let title = title.map(one_line).filter(|t| !t.is_empty());
    let creator = log.pointer("/creator/name").and_then(Value::as_str).map(one_line);
    let source = comment.unwrap_or_else(|| {
        let creator = creator.map_or(String::new(), |creator| format!(", written by {creator}"));
        format!(
            "HAR of {}{creator}",
            title.unwrap_or_else(|| entries[0].url.chars().take(MAX_NAME).collect())
        )
    });
    let warnings = notes.lines(log.get("entries").and_then(Value::as_array).map_or(0, Vec::len));
    let page = Page { name: name.to_owned(), source, hosts, objects, tls, warnings };
    page.validate()?;
    Ok(page)
}

/// A page of the file that has entries.
struct Listed<'a> {
    id: &'a str,
    title: Option<&'a str>,
    entries: usize,
}

/// The pages that have entries: those that the file lists, in its order, then those that entries alone name.
fn pages_of<'a>(log: &'a Value, entries: &'a [Value]) -> Vec<Listed<'a>> {
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    for entry in entries {
        *counts.entry(page_of(entry)).or_default() += 1;
    }
    let named = log.get("pages").and_then(Value::as_array).into_iter().flatten().filter_map(|page| {
        Some((page.get("id").and_then(Value::as_str)?, page.get("title").and_then(Value::as_str)))
    });
    let mut pages = Vec::new();
    for (id, title) in named.chain(entries.iter().map(|entry| (page_of(entry), None))) {
        // Each once.
        if let Some(entries) = counts.remove(id) {
            pages.push(Listed { id, title, entries });
        }
    }
    pages
}

/// `1 'News' (72 entries), 2 'Sports' (31 entries), ..`.
fn listed(pages: &[Listed<'_>]) -> String {
    let page = |(number, page): (usize, &Listed<'_>)| {
        let name = one_line(page.title.unwrap_or(page.id));
        let name: String = name.chars().filter(|letter| !letter.is_control()).take(60).collect();
        format!("{} '{name}' ({} entries)", number + 1, page.entries)
    };
    let more = if pages.len() > MAX_LISTED {
        format!(", and {} more", pages.len() - MAX_LISTED)
    } else {
        String::new()
    };
    pages.iter().enumerate().take(MAX_LISTED).map(page).collect::<Vec<_>>().join(", ") + &more
}

fn page_of(entry: &Value) -> &str {
    entry.get("pageref").and_then(Value::as_str).unwrap_or("")
}

/// The parts of an address that a request shows.
struct Address {
    /// Host and, if given, port; lower case.
    host: String,
    /// Path and query, visible ASCII, not longer than [`MAX_NAME`].
    target: String,
    websocket: bool,
    /// It was asked for over TLS.
    tls: bool,
}

impl Address {
    /// `None` for what is no HTTP or WebSocket address.
    fn of(url: &str) -> Option<Self> {
        let (scheme, rest) = url.split_once("://")?;
        let scheme = scheme.to_ascii_lowercase();
        let websocket = matches!(scheme.as_str(), "ws" | "wss");
        if !websocket && !matches!(scheme.as_str(), "http" | "https" | "http+sctp" | "http+sctp-ip") {
            return None;
        }
        let rest = rest.split('#').next().unwrap_or_default();
        let split = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, target) = rest.split_at(split);
        let host = authority.rsplit('@').next().unwrap_or_default().to_ascii_lowercase();
        if host.is_empty() {
            return None;
        }
        let mut path = String::with_capacity(target.len() + 1);
        if !target.starts_with('/') {
            path.push('/');
        }
        for byte in target.bytes() {
            if byte.is_ascii_graphic() {
                path.push(char::from(byte));
            } else {
                path.push_str(&format!("%{byte:02X}"));
            }
        }
        path.truncate(MAX_NAME);
        Some(Self { host, target: path, websocket, tls: scheme == "https" })
    }
}

/// `target`, or with a number behind it when another object has it already
/// (the same address twice, or two hosts with the same path).
///
/// `names`: each with the number to try next, so that a page of one address is no quadratic matter.
fn unique(target: String, names: &mut BTreeMap<String, u64>) -> String {
    let Some(next) = names.get(&target) else {
        names.insert(target.clone(), 2);
        return target;
    };
    let mut number = *next;
    let mut candidate = format!("{target}~{number}");
    while names.contains_key(&candidate) {
        number += 1;
        candidate = format!("{target}~{number}");
    }
    names.insert(target, number + 1);
    names.insert(candidate.clone(), 2);
    candidate
}

fn media_type(text: &str) -> String {
    let bare = text.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
    let fits = !bare.is_empty() && bare.len() <= 100 && bare.bytes().all(|b| b.is_ascii_graphic());
    if fits { bare } else { "application/octet-stream".to_owned() }
}

/// A text of the file fit for one line of ours.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_LINE).collect()
}

/// What had to be left out or assumed: reason to (count, first few).
#[derive(Default)]
struct Notes(BTreeMap<&'static str, (usize, Vec<String>)>);

impl Notes {
    fn add(&mut self, why: &'static str, index: usize, url: &str) {
        let (count, named) = self.0.entry(why).or_default();
        *count += 1;
        if named.len() < NAMED {
            let shown: String = url.chars().filter(|c| !c.is_control()).take(80).collect();
            named.push(format!("[{index}] {shown}"));
        }
    }

    fn lines(&self, entries: usize) -> Vec<String> {
        let line = |(why, (count, named)): (&&str, &(usize, Vec<String>))| {
            let more = if *count > named.len() { ", …" } else { "" };
            format!("{count} of {entries} entries: {why}: {}{more}", named.join(", "))
        };
        self.0.iter().map(line).collect()
    }
}

/// Pages that a list names; the rest are counted.
const MAX_LISTED: usize = 20;
/// Entries that one warning names; the rest are counted.
const NAMED: usize = 3;
/// Longest request target that is kept; longer ones are cut, their sizes are not.
const MAX_NAME: usize = 160;
/// Longest text of the file that is shown, in characters.
const MAX_LINE: usize = 500;
/// Largest file that is read, in bytes. Chromium writes none that is larger: its strings end there.
const MAX_FILE: u64 = 512 << 20;
/// What is kept of a file at most. A page may have as many objects.
const LIMITS: Limits = Limits { entries: MAX_OBJECTS, memory: 768 << 20 };

#[cfg(test)]
mod tests;
