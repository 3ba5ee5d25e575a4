//! Determines for each entry of a HAR which other entry caused it.
//!
//! The rules below are tried in order. The first rule that yields an earlier entry of the HAR determines the entry's
//! cause:
//!
//! 1. the last redirect whose `redirectURL` is the URL of the entry, or the CORS preflight of its URL;
//! 2. `_initiator`, which is a URL (sitespeed.io, WebPagetest) or an object (Chrome). An object stands for the
//!    innermost known script of its call stack, or else for its `url`;
//! 3. the `Referer` header of the request;
//! 4. for entries after the document: the document, which is the first entry with an HTML response, or else the first
//!    entry;
//! 5. for entries before the document: the last redirect before the entry, whatever its `redirectURL`.
//!
//! The first entry of a page has no cause. If a rule yields a URL that several earlier entries fetched, the last of
//! these entries is the cause.

use super::address::Address;
use super::size;
use super::timings::{Timings, is_preflight};
use serde_json::Value;
use std::collections::BTreeMap;

/// An entry of a HAR file that may become an object of the page.
pub(super) struct FetchEntry<'a> {
    /// The index of the entry in `log.entries`.
    pub index: usize,
    pub value: &'a Value,
    pub url: &'a str,
    pub address: Address,
    /// When the browser queued the request, in milliseconds since 1970.
    pub started: f64,
    /// The end of the entry, in milliseconds since 1970.
    pub ended: f64,
    pub size: size::EntrySizes,
    pub timings: Timings,
}

impl FetchEntry<'_> {
    /// Returns when the request was sent, or when a connection for it was opened, in milliseconds since 1970.
    pub(super) fn sent(&self) -> f64 {
        (self.started + self.timings.blocked.unwrap_or(0.0)).min(self.ended)
    }

    /// Returns when the first byte of the response arrived, in milliseconds since 1970.
    pub(super) fn first_byte(&self) -> f64 {
        (self.started + self.timings.before_first_byte()).min(self.ended)
    }
}

/// Returns for each entry the index of the entry that initiated it. `entries` are ordered by time. An entry without a
/// usable size never counts as an initiator.
pub(super) fn find(entries: &[FetchEntry<'_>]) -> Vec<Option<usize>> {
    let usable = |entry: &FetchEntry<'_>| entry.size.is_ok();
    let document = entries
        .iter()
        .position(|entry| usable(entry) && is_html(entry))
        .or_else(|| entries.iter().position(usable));
    let mut seen: BTreeMap<&str, usize> = BTreeMap::new();
    let mut redirects: BTreeMap<String, usize> = BTreeMap::new();
    let mut preflights: BTreeMap<&str, usize> = BTreeMap::new();
    let mut last_redirect = None;
    let mut causes = Vec::with_capacity(entries.len());
    for (position, entry) in entries.iter().enumerate() {
        let url = bare(entry.url);
        let earlier = |address: &str| seen.get(bare(address)).copied();
        let by_name = named(entry.value, &earlier);
        let preflight = if is_preflight(entry.value) { None } else { preflights.remove(url) };
        if let Some(preflight) = preflight
            && let Some(cause) = by_name.filter(|cause| *cause < preflight)
        {
            // The cause of a request is also the cause of its preflight.
            causes[preflight] = Some(cause);
        }
        let cause = preflight
            .or_else(|| redirects.get(url).copied())
            .or(by_name)
            .or_else(|| super::header(entry.value.get("request")?, "referer")?.as_str().and_then(earlier))
            .or(document.filter(|&document| document < position))
            .or(last_redirect);
        causes.push(cause);
        if usable(entry) {
            seen.insert(url, position);
            if is_preflight(entry.value) {
                preflights.insert(url, position);
            }
            let target = entry.value.pointer("/response/redirectURL").and_then(Value::as_str);
            if let Some(target) = target.filter(|target| !target.is_empty()) {
                last_redirect = Some(position);
                redirects.insert(absolute(entry.url, target), position);
            }
        }
    }
    causes
}

/// Returns whether `entry` is a redirect. It causes only the request that it redirects to.
pub(super) fn is_redirect(entry: &FetchEntry<'_>) -> bool {
    let status = entry.value.pointer("/response/status").and_then(size::number);
    status.is_some_and(|status| [301.0, 302.0, 303.0, 307.0, 308.0].contains(&status))
}

fn is_html(entry: &FetchEntry<'_>) -> bool {
    let status = entry.value.pointer("/response/status").and_then(size::number).unwrap_or(0.0);
    let kind = entry.value.pointer("/response/content/mimeType").and_then(Value::as_str).unwrap_or("");
    !(300.0..400.0).contains(&status) && kind.trim_start().to_ascii_lowercase().starts_with("text/html")
}

/// Returns the position of the entry that `_initiator` names. The value of `_initiator` is a URL or an object.
fn named(entry: &Value, earlier: &impl Fn(&str) -> Option<usize>) -> Option<usize> {
    let initiator = entry.get("_initiator")?;
    match initiator {
        Value::String(url) => earlier(url),
        Value::Object(_) => initiator
            .get("stack")
            .and_then(|stack| script(stack, earlier))
            .or_else(|| initiator.get("url").and_then(Value::as_str).and_then(earlier)),
        _ => None,
    }
}

/// Each frame of the call stack names a script. Returns the position of the entry that fetched the script of the
/// innermost frame; frames whose script has no entry are skipped. For asynchronous calls, `parent` holds the call stack
/// of the code that started the call.
fn script(stack: &Value, earlier: &impl Fn(&str) -> Option<usize>) -> Option<usize> {
    let mut stack = Some(stack);
    while let Some(level) = stack {
        let frames = level.get("callFrames").and_then(Value::as_array).into_iter().flatten();
        let found = frames.filter_map(|frame| frame.get("url").and_then(Value::as_str)).find_map(earlier);
        if found.is_some() {
            return found;
        }
        stack = level.get("parent");
    }
    None
}

/// Removes the fragment of `url`, which no request contains.
pub(super) fn bare(url: &str) -> &str {
    url.split('#').next().unwrap_or(url)
}

/// Resolves `target` relative to `base`. `target` may be absolute, `//host/…`, `/…` or relative.
fn absolute(base: &str, target: &str) -> String {
    let target = bare(target);
    let Some((scheme, rest)) = base.split_once("://") else { return target.to_owned() };
    if target.contains("://") {
        return target.to_owned();
    }
    if let Some(rest) = target.strip_prefix("//") {
        return format!("{scheme}://{rest}");
    }
    let host = rest.find(['/', '?', '#']).map_or(rest, |end| &rest[..end]);
    if target.starts_with('/') {
        return format!("{scheme}://{host}{target}");
    }
    let path = bare(rest.get(host.len()..).unwrap_or_default());
    let path = path.split('?').next().unwrap_or_default();
    let directory = path.rfind('/').map_or("/", |end| &path[..=end]);
    format!("{scheme}://{host}{directory}{target}")
}
