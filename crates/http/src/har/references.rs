//! Determines how the initiator of an entry refers to it: the kind of resource, and the offset of the reference.
//!
//! The offset is found in the recorded text of the initiator, which browsers write into a HAR "with content". Without the
//! text, the lines that `_initiator` names are spread evenly over the initiator.

use super::initiator::{FetchEntry, bare};
use super::size;
use crate::page::embed::in_tag;
use crate::page::reference::{LoadPriority, Reference, ResourceType, ScriptMode};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};

/// The recorded text of a document or style sheet, with the offsets of the words that may be addresses of other
/// objects.
struct Text<'a> {
    text: &'a str,
    is_html: bool,
    /// The offsets of the words, by the last segment of each word as a path.
    words: BTreeMap<&'a str, Vec<usize>>,
    /// The offset at which each line begins, up to the last line that an entry names.
    lines: Vec<usize>,
    /// The offset just after the tag `<body>`.
    body: Option<usize>,
}

impl<'a> Text<'a> {
    /// Returns the recorded text of `entry`, if it has one. Keeps the offsets of the words whose last segment is in
    /// `wanted`, and the offsets of the first `lines` lines.
    fn of(entry: &FetchEntry<'a>, wanted: &BTreeSet<String>, lines: usize) -> Option<Self> {
        let content = entry.value.pointer("/response/content")?;
        let text = content.get("text").and_then(Value::as_str).filter(|text| !text.is_empty())?;
        let mime = content.get("mimeType").and_then(Value::as_str).unwrap_or_default();
        let is_html = mime.to_ascii_lowercase().contains("html");
        let mut words: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
        let mut offset = 0;
        for word in text.split(is_between) {
            let address = without_attribute(word);
            let name = last_segment(address);
            // A longer word is skipped, because it would be compared with the addresses of many entries.
            if address.len() <= MAX_TAG && wanted.contains(name) {
                let offsets = words.entry(name).or_default();
                if offsets.len() < MAX_OFFSETS {
                    offsets.push(offset + word.len() - address.len());
                }
            }
            offset += word.len();
            offset += text[offset..].chars().next().map_or(0, char::len_utf8);
        }
        let begins = std::iter::once(0).chain(text.match_indices('\n').map(|(at, _)| at + 1));
        let lines = begins.take(lines).collect();
        let body = if is_html { body(text) } else { None };
        Some(Self { text, is_html, words, lines, body })
    }

    /// Converts an offset in the text to one in the transferred body of `size` bytes.
    fn scaled(&self, offset: usize, size: u64) -> u64 {
        (offset as f64 / self.text.len() as f64 * size as f64) as u64
    }

    /// Returns the offset of a reference to `url`, and the offset at which its tag or `url(..)` ends. Prefers the first
    /// reference at or after the line `line`, counted from 0.
    fn find(&self, url: &str, line: Option<usize>) -> Option<(usize, usize)> {
        let from = line.and_then(|line| self.lines.get(line)).copied().unwrap_or(0);
        let after = self.offsets(url).find(|offset| *offset >= from);
        let offset = after.or_else(|| self.offsets(url).next())?;
        Some((offset, self.end(offset)))
    }

    /// Returns the offsets of the words that refer to `url`, in their order.
    fn offsets(&self, url: &str) -> impl Iterator<Item = usize> {
        let name = last_segment(url);
        let offsets = self.words.get(name).or_else(|| {
            let escaped = name.replace('&', "&amp;");
            self.words.get(escaped.as_str())
        });
        let refers = move |offset: &usize| {
            let word = self.text[*offset..].split(is_between).next().unwrap_or_default();
            let path = word.trim_start_matches(['.', '/']).replace("&amp;", "&");
            url.ends_with(&path)
        };
        offsets.map_or(&[][..], Vec::as_slice).iter().copied().filter(refers)
    }

    /// Returns the offset just after the tag or `url(..)` that contains `offset`.
    fn end(&self, offset: usize) -> usize {
        let close = if self.is_html { b'>' } else { b')' };
        let end = self.text.as_bytes()[offset..].iter().take(MAX_TAG).position(|byte| *byte == close);
        end.map_or(offset, |at| offset + at + 1)
    }

    /// Returns how the tag that contains `offset` refers to its address. Returns `None` if `offset` is not in a tag, as
    /// in the text of a script.
    fn tag(&self, offset: usize) -> Option<Reference> {
        let before = self.text.as_bytes()[..offset].iter().rev().take(MAX_TAG);
        let begin = offset - before.into_iter().position(|byte| *byte == b'<')? - 1;
        let mut most = self.text.len().min(offset + MAX_TAG);
        while !self.text.is_char_boundary(most) {
            most -= 1;
        }
        let (reference, length) = in_tag(&self.text[begin..most])?;
        (begin + length > offset).then_some(reference)
    }
}

/// The texts of a page's entries, and the lines that `_initiator` names in them.
pub(super) struct References<'a> {
    texts: Vec<Option<Text<'a>>>,
    /// For each entry, the number of lines up to the last line that another entry's `_initiator` names.
    lines: Vec<usize>,
}

impl<'a> References<'a> {
    /// Reads the texts of `entries`. `causes` holds the position of the entry that caused each of them.
    pub(super) fn new(entries: &[FetchEntry<'a>], causes: &[Option<usize>]) -> Self {
        let wanted = wanted(entries);
        let mut lines = vec![0; entries.len()];
        for (entry, cause) in entries.iter().zip(causes) {
            if let (Some(line), Some(cause)) = (line(entry.value), *cause) {
                lines[cause] = lines[cause].max(line + 1);
            }
        }
        let mut left = MAX_LINES;
        let text = |(entry, lines): (&FetchEntry<'a>, &usize)| {
            let text = Text::of(entry, &wanted, left.min(*lines))?;
            left -= text.lines.len();
            Some(text)
        };
        let texts = entries.iter().zip(&lines).map(text).collect();
        Self { texts, lines }
    }

    /// Returns how the entry at position `cause`, whose transferred body has `size` bytes, refers to `entry`.
    pub(super) fn reference(&self, entry: &FetchEntry<'_>, cause: Option<(usize, u64)>) -> Reference {
        let (text, size, lines) = match cause {
            Some((cause, size)) => (self.texts[cause].as_ref(), size, self.lines[cause]),
            None => (None, 0, 0),
        };
        reference(entry, text, size, lines)
    }

    /// Returns the offset of `<body>` in the entry at `position`, whose transferred body has `size` bytes.
    pub(super) fn body_start(&self, position: usize, size: u64) -> Option<u64> {
        let text = self.texts.get(position)?.as_ref()?;
        text.body.map(|offset| text.scaled(offset, size))
    }
}

fn reference(entry: &FetchEntry<'_>, text: Option<&Text<'_>>, size: u64, lines: usize) -> Reference {
    let mut reference = Reference {
        kind: kind(entry.value),
        by_script: is_by_script(entry.value),
        priority: priority(entry.value),
        ..Reference::default()
    };
    if reference.kind == Some(ResourceType::Script) && is_import(entry.value) {
        (reference.by_script, reference.script) = (false, Some(ScriptMode::AsyncModule));
        return reference;
    }
    if reference.by_script {
        // The script may be in the text of the document. Skip occurrences of the address in tags, because they are not
        // the reference of the script.
        let found = text.filter(|text| text.is_html).and_then(|text| {
            let offset =
                text.offsets(bare(entry.url)).take(MAX_TAGS).find(|offset| text.tag(*offset).is_none())?;
            Some(text.scaled(text.end(offset), size))
        });
        return Reference { offset: found, ..reference };
    }
    let line = line(entry.value);
    let Some(text) = text else {
        // The text of the initiator is not recorded. Assume that its lines have equal lengths.
        reference.offset =
            line.map(|line| (size as f64 * (line + 1) as f64 / (lines + 1) as f64).min(size as f64) as u64);
        return reference;
    };
    let found = text.find(bare(entry.url), line);
    let by_line = || line.and_then(|line| text.lines.get(line)).map(|at| (*at, text.end(*at)));
    let Some((offset, end)) = found.or_else(by_line) else { return reference };
    reference.offset = Some(text.scaled(end, size));
    if text.is_html {
        reference.in_head = text.body.map(|body| end <= body);
        if let Some(Reference { script, lazy, preload, fetch_priority, .. }) = text.tag(offset) {
            reference = Reference { script, lazy, preload, fetch_priority, ..reference };
        }
        if reference.preload {
            for offset in text.offsets(bare(entry.url)).filter(|later| *later > offset).take(MAX_TAGS) {
                let end = Some(text.scaled(text.end(offset), size));
                if let Some(tag) = text.tag(offset) {
                    reference.used_by(&Reference { offset: end, ..tag });
                }
            }
        }
    }
    reference
}

/// Returns the line, counted from 0, on which the initiator refers to `entry`.
fn line(entry: &Value) -> Option<usize> {
    let line = entry.pointer("/_initiator/lineNumber").and_then(size::number)?;
    (0.0..1e7).contains(&line).then_some(line as usize)
}

/// Returns whether a script requested `entry`.
fn is_by_script(entry: &Value) -> bool {
    entry.pointer("/_initiator/type").and_then(Value::as_str) == Some("script")
}

/// Returns whether an `import` of a module names `entry`, if it is a script. Source: core `inspector_network_agent.cc`,
/// `BuildInitiatorObject`: of the requests that scripts make, only an import has no call stack.
fn is_import(entry: &Value) -> bool {
    let Some(initiator) = entry.get("_initiator") else { return false };
    is_by_script(entry) && initiator.get("stack").is_none() && initiator.get("url").is_some()
}

fn kind(entry: &Value) -> Option<ResourceType> {
    Some(match entry.get("_resourceType")?.as_str()?.to_ascii_lowercase().as_str() {
        "document" => ResourceType::Document,
        "stylesheet" => ResourceType::Stylesheet,
        "script" => ResourceType::Script,
        "font" => ResourceType::Font,
        "image" => ResourceType::Image,
        "media" => ResourceType::Media,
        "xhr" | "fetch" | "eventsource" | "preflight" => ResourceType::Fetch,
        "manifest" => ResourceType::Manifest,
        "" => return None,
        _ => ResourceType::Other,
    })
}

fn priority(entry: &Value) -> Option<LoadPriority> {
    Some(match entry.get("_priority")?.as_str()? {
        "VeryLow" => LoadPriority::VeryLow,
        "Low" => LoadPriority::Low,
        "Medium" => LoadPriority::Medium,
        "High" => LoadPriority::High,
        "VeryHigh" => LoadPriority::VeryHigh,
        _ => return None,
    })
}

/// Returns whether `c` ends an address in HTML or CSS.
fn is_between(c: char) -> bool {
    c.is_ascii_whitespace() || matches!(c, '"' | '\'' | '(' | ')' | '<' | '>' | ',' | '\\')
}

/// Removes the name of an attribute before an unquoted value: `src=a.png` becomes `a.png`.
fn without_attribute(word: &str) -> &str {
    match word.split_once('=') {
        Some((name, value)) if name.bytes().all(|byte| byte.is_ascii_alphabetic()) => value,
        _ => word,
    }
}

/// Returns the last segment of the path in `address`, with its query.
fn last_segment(address: &str) -> &str {
    let path = address.find('?').unwrap_or(address.len());
    address[..path].rfind('/').map_or(address, |slash| &address[slash + 1..])
}

/// Returns the offset just after the tag `<body>` of an HTML text.
fn body(text: &str) -> Option<usize> {
    let is_body = |at: &usize| {
        let tag = text.as_bytes().get(*at..*at + 6).unwrap_or_default();
        tag[..tag.len().min(5)].eq_ignore_ascii_case(b"<body")
            && !tag[5..].iter().all(u8::is_ascii_alphanumeric)
    };
    let begin = text.match_indices('<').map(|(at, _)| at).find(is_body)?;
    text[begin..].find('>').map(|end| begin + end + 1)
}

/// Returns the words by which texts may refer to `entries`: the last segments of their addresses.
fn wanted(entries: &[FetchEntry<'_>]) -> BTreeSet<String> {
    let names = entries.iter().map(|entry| last_segment(bare(entry.url))).filter(|name| !name.is_empty());
    // In HTML, `&` may be written as `&amp;`.
    names.flat_map(|name| [name.to_owned(), name.replace('&', "&amp;")]).collect()
}

/// The maximum number of offsets that are kept for one last segment.
const MAX_OFFSETS: usize = 50;
/// The maximum number of line offsets that are kept, over all texts.
const MAX_LINES: usize = 1_000_000;
/// The maximum number of occurrences of an address whose tags are read.
const MAX_TAGS: usize = 5;
/// The maximum number of bytes of a tag on each side of an address.
const MAX_TAG: usize = 4000;
