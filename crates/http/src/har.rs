//! HAR 1.2 (HTTP Archive): reads pages from the recording of a browser, and writes a page load as HAR.
//!
//! This module converts the log of a HAR to a [`Page`]. It decides which entries are used, in which order, and which
//! warnings the other entries cause.
//!
//! - `file` converts the bytes of a file to JSON text, and `prune` decides which JSON values are kept.
//! - `pages` finds the pages and their entries.
//! - `times` determines when an entry was queued, and `timings` when it was sent and answered.
//! - `size` and `post_data` determine the sizes of the request and the response of an entry. `initiator` determines
//!   which entry caused it, and `references` where the text of that cause refers to it.
//! - `network` infers the round trip and the rate of the network and the servers' times. `coalesce` determines which
//!   hosts are public, and which share connections.
//! - [`shipped`] holds the pages that ship with the program.
//! - [`write`](mod@write) writes HAR.
//!
//! A page is loaded as on a first visit, so entries that the recording browser took from its cache are fetched as well.
//! Entries are left out if they never crossed a network (`data:` URLs, extensions), got no response, or are WebSockets.
//! [`Page::warnings`] counts and names the entries that are left out, and the entries whose sizes are estimated. A URL
//! that no request can contain is an error.

mod address;
mod coalesce;
mod date;
pub mod file;
mod initiator;
mod network;
mod pages;
mod post_data;
mod prune;
mod references;
pub mod shipped;
mod size;
mod times;
mod timings;
pub mod write;

use crate::fetch::request::min_head_size;
use crate::page::reference::Reference;
use crate::page::{MAX_HEAD, MAX_OBJECTS, Object, Page, PageError, bounded_head};
use address::{Address, MAX_TARGET, Unusable, WEBSOCKET};
use file::{Blank, Unpacked};
use initiator::FetchEntry;
use network::Network;
use pages::Pages;
use prune::{Limits, ParseError};
use references::References;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use timings::Timings;

pub use size::{NO_RESPONSE, UNKNOWN_BODY};
pub use times::FILE_ORDER;

/// Reads the page that the HAR text `text` records. `name` becomes the name of the page. Error messages use `name` as
/// the name of the text.
///
/// If the file has several pages, the first page with entries is read, and a warning lists the pages.
///
/// # Errors
/// [`PageError`], which names the problem, the index of the entry and the field.
pub fn read(name: &str, text: &str) -> Result<Page, PageError> {
    read_page(name, text, None)
}

/// Like [`read`], but reads page `number`, counted from 1, if the file has several pages.
///
/// # Errors
/// [`PageError`]; if there is no page `number`, the error lists the available pages.
pub fn read_page(name: &str, text: &str, number: Option<usize>) -> Result<Page, PageError> {
    from_text(name, text.trim_start_matches('\u{feff}').to_owned(), number)
}

/// Reads page `number`, counted from 1, from the bytes of a HAR file. The bytes may be compressed by gzip, encoded in
/// UTF-16, or wrapped in JavaScript.
///
/// # Errors
/// The errors of [`read_page`].
pub fn read_bytes(name: &str, bytes: &[u8], number: Option<usize>) -> Result<Page, PageError> {
    from_input(name, bytes, bytes.len() as u64, number)
}

/// Reads page `number`, counted from 1, from the HAR file at `path`.
///
/// # Errors
/// [`PageError`] if the file cannot be read or is not a HAR, and the errors of [`read_page`].
pub fn load_page(path: &Path, number: Option<usize>) -> Result<Page, PageError> {
    let name = path.display().to_string();
    let wrong = |why: std::io::Error| PageError::new(format!("{name}: {why}"));
    let length = std::fs::metadata(path).map_err(wrong)?.len();
    if length > MAX_FILE {
        return Err(PageError::new(format!("{name}: {length} bytes, more than {MAX_FILE}")));
    }
    let mut page = from_input(&name, std::fs::File::open(path).map_err(wrong)?, length, number)?;
    // The page of `news.har.gz` is named `news`, as the page of `news.har` is.
    let is_packed = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("gz"));
    let bare = if is_packed { path.with_extension("") } else { path.to_owned() };
    if let Some(stem) = bare.file_stem() {
        let chosen = page.name.strip_prefix(&name).unwrap_or_default();
        page.name = format!("{}{chosen}", stem.to_string_lossy());
    }
    Ok(page)
}

fn from_input(
    name: &str,
    input: impl std::io::Read,
    length: u64,
    number: Option<usize>,
) -> Result<Page, PageError> {
    let wrong = |why: String| PageError::new(format!("{name}: {why}"));
    // A file that is not regular has no length and may be endless, so the number of bytes read is limited.
    let Unpacked { bytes, fault } =
        file::unpack(input, length, MAX_FILE).map_err(|why| wrong(why.to_string()))?;
    if let Some(fault) = fault {
        return Err(wrong(fault));
    }
    file::refuse_brotli(name, &bytes).map_err(wrong)?;
    from_text(name, file::text(bytes).map_err(wrong)?, number)
}

fn from_text(name: &str, text: String, number: Option<usize>) -> Result<Page, PageError> {
    let wrong = |why: String| PageError::new(format!("{name}: {why}"));
    if let Some(blank) = file::blank(&text) {
        let what = match blank {
            Blank::Space => "the file is empty",
            Blank::Zeros => "the file holds only NUL bytes",
        };
        return Err(wrong(format!("{what}; a HAR was expected")));
    }
    let is_script = file::is_script(&text);
    let text = file::json(text);
    let har = prune::parse(&text, LIMITS).map_err(|why| match why {
        ParseError::Json(why) => wrong(broken(&why, &text, is_script)),
        limit => wrong(limit.to_string()),
    })?;
    drop(text);
    let pages = Pages::of(&har).map_err(wrong)?;
    from_pages(name, &pages, number)
}

/// Explains why `text` is not JSON, and how to proceed.
fn broken(why: &serde_json::Error, text: &str, is_script: bool) -> String {
    let (line, column) = (why.line(), why.column());
    let at = format!("line {line} column {column}");
    if why.is_eof() {
        return format!("the file is cut: it ends within its JSON, at {at}; save or download it again");
    }
    if text.trim_start().starts_with('<') {
        return "HTML, not a HAR: save the network log of the page as HAR with the browser's developer tools"
            .to_owned();
    }
    let why = why.to_string();
    if why.starts_with("trailing characters") {
        let rest = text.lines().nth(line.saturating_sub(1)).unwrap_or_default();
        let rest = rest.get(column.saturating_sub(1)..).unwrap_or_default();
        let rest: String = one_line(rest).chars().filter(|letter| !letter.is_control()).take(20).collect();
        return format!("the HAR ends, and at {at} there is more, '{rest}'; remove it: a file is one HAR");
    }
    if is_script {
        return format!("the JavaScript does not contain JSON: {why}; a HAR has every key in double quotes");
    }
    format!("not a HAR, not even JSON: {why}; correct it there, or save the HAR again")
}

/// Builds page `number` of the file from all of its entries that can be fetched.
fn from_pages(name: &str, pages: &Pages<'_>, number: Option<usize>) -> Result<Page, PageError> {
    let wrong = |why: &str| PageError::new(format!("{name}: {why}"));
    if pages.entries.is_empty() {
        return Err(wrong("log.entries: empty, so there is nothing to fetch"));
    }
    let mut left_out = Notes::of(pages.entries.len());
    let chosen = match pages.listed.get(number.unwrap_or(1).wrapping_sub(1)) {
        Some(page) => page,
        None => {
            let (asked, list) = (number.unwrap_or(1), pages.describe());
            return Err(wrong(&format!("there is no page {asked}; its pages: {list}")));
        }
    };
    let is_chosen = |found: &pages::HarEntry<'_>| (found.log, &found.page) == (chosen.log, &chosen.id);
    let answered = pages.entries.iter().any(|found| is_chosen(found) && size::has_response(found.value));
    let mut kept = Vec::new();
    for (index, found) in pages.entries.iter().enumerate() {
        let value = found.value;
        let url = value.pointer("/request/url").and_then(Value::as_str);
        if !is_chosen(found) {
            left_out.add("belongs to another page of the file", index, url.unwrap_or(""));
            continue;
        }
        let wrong =
            |field: &str, why: &str| PageError::new(format!("{name}: {}.{field}: {why}", pages.label(found)));
        let invalid =
            |field: &str, why: &str| wrong(field, &format!("{why}; correct it, or remove the entry"));
        let url = url.ok_or_else(|| invalid("request.url", "missing or not a text"))?;
        // Sizes are checked before any entry is left out, so that every invalid size is reported as an error.
        let size = size::of(value, answered).map_err(|(field, why)| invalid(field, &why))?;
        let status = value.pointer("/response/status").and_then(size::number);
        let address = match Address::of(url) {
            Ok(address) if status != Some(101.0) => address,
            Ok(_) => {
                left_out.add(WEBSOCKET, index, url);
                continue;
            }
            Err(Unusable::LeftOut(why)) => {
                left_out.add(why, index, url);
                continue;
            }
            // An entry without a usable size is left out anyway, so its invalid URL is not an error.
            Err(Unusable::Unsendable(why)) => match size {
                Ok(_) => return Err(wrong("request.url", &format!("'{}': {why}", excerpt(url)))),
                Err(why) => {
                    left_out.add(why, index, url);
                    continue;
                }
            },
        };
        let started = times::started(value).map_err(|why| invalid("startedDateTime", &why))?;
        let took = match value.get("time") {
            None | Some(Value::Null) => 0.0,
            Some(time) => size::number(time).ok_or_else(|| invalid("time", "not a number"))?.max(0.0),
        };
        let timings = Timings::of(value, took);
        kept.push((
            started,
            took,
            FetchEntry { index, value, url, address, started: 0.0, ended: 0.0, size, timings },
        ));
    }
    let (kept, unordered) = times::in_order(kept);
    let mut page = build(name, pages, chosen, &kept, left_out)?;
    if unordered > 0 {
        // Drop the recorded times. Without the starts of all entries, they do not show which entries overlapped.
        page.recording = None;
        page.objects.iter_mut().for_each(|object| object.recorded = None);
    }
    if let Some(line) = times::warning(unordered, kept.len()) {
        page.warnings.insert(0, line);
    }
    if pages.listed.len() > 1 {
        let title = pages::short(chosen);
        page.name += &format!(", page {} of {} '{title}'", number.unwrap_or(1), pages.listed.len());
    }
    if pages.listed.len() > 1 && number.is_none() {
        let (count, list) = (pages.listed.len(), pages.describe());
        page.warnings.insert(0, format!("{count} pages in one file, of which the first is taken: {list}"));
    }
    Ok(page)
}

/// Builds the page. Each entry with usable sizes becomes an object, in the order of `entries`.
fn build(
    name: &str,
    pages: &Pages<'_>,
    chosen: &pages::Listed<'_>,
    entries: &[FetchEntry<'_>],
    mut notes: Notes,
) -> Result<Page, PageError> {
    let mut hosts: Vec<String> = Vec::new();
    let mut tls_objects = 0;
    let mut names = BTreeMap::new();
    let mut objects: Vec<Object> = Vec::with_capacity(entries.len());
    // Maps a position in `entries` to the index of the entry's object in `objects`; `None` if the entry is left out.
    let mut placed: Vec<Option<usize>> = Vec::with_capacity(entries.len());
    let mut target_bytes = 0;
    let causes = initiator::find(entries);
    let references = References::new(entries, &causes);
    let start = entries.first().map_or(0.0, |entry| entry.started);
    let network = Network::of(entries, chosen.on_load.map(|on_load| start + on_load));
    let recording = network.recording(entries, start, chosen.on_load);
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
        if bytes.unknown_body {
            notes.add(UNKNOWN_BODY, entry.index, entry.url);
        }
        let target = unique(entry.address.target.clone(), &mut names);
        target_bytes += target.len();
        if target_bytes > MAX_TARGET_BYTES {
            let most = MAX_TARGET_BYTES >> 20;
            return Err(PageError::new(format!(
                "{name}: the URLs have more than {most} MiB; split the recording into files of fewer entries"
            )));
        }
        let request = request_size(entry, bytes, &target, &mut notes);
        let host = hosts.iter().position(|known| *known == entry.address.host).unwrap_or_else(|| {
            hosts.push(entry.address.host.clone());
            hosts.len() - 1
        });
        let cause = causes[position].and_then(|cause| Some((cause, placed[cause]?)));
        let think = cause.map_or(0.0, |(cause, _)| (entry.sent() - entries[cause].ended).max(0.0));
        let reference = Reference {
            redirected: cause.is_some_and(|(cause, _)| initiator::is_redirect(&entries[cause])),
            ..references.reference(entry, cause.map(|(cause, object)| (cause, objects[object].body)))
        };
        let content_type =
            entry.value.pointer("/response/content/mimeType").and_then(Value::as_str).unwrap_or("");
        placed.push(Some(objects.len()));
        tls_objects += usize::from(entry.address.tls);
        objects.push(Object {
            host,
            request_head: bounded_head(request),
            response_head: bounded_head(bytes.head),
            content_type: media_type(content_type),
            initiator: cause.map(|(_, object)| object),
            think: timings::duration(think),
            reference,
            recorded: recording.is_some().then(|| network.recorded(entry, start)),
            ..Object::new(target, bytes.body)
        });
    }
    if objects.is_empty() {
        let why = notes.lines().join("; ");
        return Err(PageError::new(format!("{name}: no entry can be fetched: {why}")));
    }
    if objects.len() > MAX_OBJECTS {
        return Err(PageError::new(format!("{name}: {} entries, more than {MAX_OBJECTS}", objects.len())));
    }
    let log = pages.logs[chosen.log];
    let comment = log.get("comment").and_then(Value::as_str).map(one_line).filter(|c| !c.is_empty());
    let title = chosen.title.map(one_line).filter(|t| !t.is_empty());
    let creator = log.pointer("/creator/name").and_then(Value::as_str).map(one_line);
    let source = comment.unwrap_or_else(|| {
        let creator = creator.map_or(String::new(), |creator| format!(", written by {creator}"));
        format!("HAR of {}{creator}", title.unwrap_or_else(|| excerpt(entries[0].url)))
    });
    let warnings = notes.lines();
    let host_of = |entry: &FetchEntry<'_>| hosts.iter().position(|host| *host == entry.address.host);
    let coalesce = coalesce::groups(&hosts, entries, host_of);
    let public = coalesce::public_hosts(entries, host_of);
    let (name, body_start) = (name.to_owned(), None);
    let mut page =
        Page { name, source, hosts, coalesce, public, objects, tls_objects, warnings, body_start, recording };
    let document = page.document();
    let position = placed.iter().position(|object| *object == Some(document));
    page.body_start = position.and_then(|entry| references.body_start(entry, page.objects[document].body));
    page.validate()?;
    Ok(page)
}

/// Returns the size in bytes of the request for `target`, with head and body. For each difference from the recorded
/// request, adds a note to `notes`.
fn request_size(entry: &FetchEntry<'_>, bytes: &size::Size, target: &str, notes: &mut Notes) -> u64 {
    let mut note = |why| notes.add(why, entry.index, entry.url);
    // A recorded size is too small if it is less than the size of the request line and the Host field.
    let least =
        min_head_size("", &entry.address.host, false) + entry.address.full_target_len.max(target.len());
    let request_head = (bytes.request - bytes.request_body).max(least as u64);
    let request = request_head.saturating_add(bytes.request_body);
    let is_cut = entry.address.full_target_len > MAX_TARGET;
    if is_cut {
        note("a URL of more than 31 KiB, cut to this length in the request");
    }
    if request > MAX_HEAD && bytes.request_body > 0 {
        note(CUT_BODY);
    }
    let is_large = request > MAX_HEAD && bytes.request_body == 0 && !is_cut;
    if is_large || bytes.head > MAX_HEAD {
        note("a head of more than 32 KiB, cut to this length in the request");
    }
    let method = entry.value.pointer("/request/method").and_then(Value::as_str).unwrap_or("GET");
    if method != "GET" {
        note("not a GET: fetched as a GET of the same sizes");
    }
    request
}

/// Returns `target`, with a number appended if another object already has the same target. This happens if a URL was
/// fetched twice or two hosts have the same path.
///
/// `names` maps each target to the next number to append. Without this map, a page that fetches one URL many times
/// would take quadratic time.
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

/// Returns `text` as one line of output. Each run of white space becomes a single space, and the line is cut after
/// [`MAX_LINE`] characters.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").chars().take(MAX_LINE).collect()
}

/// Returns the first [`MAX_EXCERPT`] characters of `text`, without control characters. If more characters follow, an
/// ellipsis is appended.
fn excerpt(text: &str) -> String {
    let mut letters = text.chars().filter(|letter| !letter.is_control());
    let start: String = letters.by_ref().take(MAX_EXCERPT).collect();
    if letters.next().is_some() { start + "…" } else { start }
}

/// Returns the value of the header `name` of `request`. The case of the name does not matter.
fn header<'a>(request: &'a Value, name: &str) -> Option<&'a Value> {
    let headers = request.get("headers")?.as_array()?;
    let has_name = |header: &&Value| {
        header.get("name").and_then(Value::as_str).is_some_and(|found| found.eq_ignore_ascii_case(name))
    };
    headers.iter().find(has_name)?.get("value")
}

/// Counts the entries that were left out or whose sizes were estimated.
struct Notes {
    /// The number of entries in the file.
    entries: usize,
    /// For each reason, the number of entries and the names of the first few of them.
    reasons: BTreeMap<&'static str, (usize, Vec<String>)>,
}

impl Notes {
    fn of(entries: usize) -> Self {
        Self { entries, reasons: BTreeMap::new() }
    }

    fn add(&mut self, why: &'static str, index: usize, url: &str) {
        let (count, named) = self.reasons.entry(why).or_default();
        *count += 1;
        if named.len() < NAMED {
            named.push(format!("[{index}] {}", excerpt(url)));
        }
    }

    fn lines(&self) -> Vec<String> {
        let entries = self.entries;
        let line = |(why, (count, named)): (&&str, &(usize, Vec<String>))| {
            let more = if *count > named.len() { ", …" } else { "" };
            format!("{count} of {entries} entries: {why}: {}{more}", named.join(", "))
        };
        self.reasons.iter().map(line).collect()
    }
}

/// The warning about a request body that is cut, because at most 32 KiB of head and body together are sent.
pub const CUT_BODY: &str =
    "a request body that is cut: head and body are sent as 32 KiB in the head of a GET";

/// The maximum number of entries that one warning names. The remaining entries are only counted.
const NAMED: usize = 3;
/// The maximum number of characters of a URL that a warning or an error message quotes.
const MAX_EXCERPT: usize = 80;
/// The maximum total length in bytes of the request targets of a page. Each run of a race keeps a copy of them.
const MAX_TARGET_BYTES: usize = 32 << 20;
/// The maximum length in characters of a displayed text from the file.
const MAX_LINE: usize = 500;
/// The maximum size in bytes of a file that is read. Chromium writes no larger files, because its strings are limited
/// to this size.
const MAX_FILE: u64 = 512 << 20;
/// The limits of a HAR file: its number of entries, and the memory in bytes of its parsed values. The limit of entries
/// is also the limit of objects in a page.
const LIMITS: Limits = Limits { entries: MAX_OBJECTS, memory: 768 << 20 };

#[cfg(test)]
mod recorded_tests;
#[cfg(test)]
mod tests;
