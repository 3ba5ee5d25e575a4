//! What somebody names behind `race`: a plan, a page, or what another verb or flag is for. The content decides, not the
//! name.

use super::error::PlanError;
use super::file;
use anabranch_base::spelling::hint;
use anabranch_http::page::shipped;
use serde::Deserialize;
use serde::de::IgnoredAny;
use std::path::Path;

/// What can be raced.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Named {
    /// The text of a plan.
    Plan(String),
    /// What `--page` takes: a HAR, a directory, or a page that is shipped.
    Page,
}

/// What `name` is.
///
/// # Errors
/// One line: it is neither, cannot be read, or what it is for.
pub fn identify(name: &str) -> Result<Named, PlanError> {
    let wrong = |what: String| PlanError::at(name, what);
    let path = Path::new(name);
    if path.is_dir() {
        let results = path.join("results.json");
        return match results.exists() && !path.join("index.html").exists() {
            true => Err(wrong(format!(
                "what a race has written: --compare {} compares with it",
                results.display()
            ))),
            false => Ok(Named::Page),
        };
    }
    if !path.exists() {
        return match shipped::shipped(name) {
            Some(_) => Ok(Named::Page),
            None => Err(wrong(missing(name))),
        };
    }
    let bytes = file::bytes(name, file::MAX_PLAN).map_err(wrong)?;
    let content = bytes.strip_prefix(b"\xef\xbb\xbf").unwrap_or(&bytes).trim_ascii_start();
    if CAPTURES.iter().any(|magic| bytes.starts_with(magic)) {
        return Err(wrong(format!("a capture: anabranch decode {name} reads it")));
    }
    match content.first() {
        Some(b'{') => json(name, content),
        Some(b'<') => Err(wrong(
            "HTML: name the directory that has it as index.html, or save the page as HAR with the browser's developer \
             tools"
                .to_owned(),
        )),
        _ => file::text(bytes, file::MAX_PLAN).map(Named::Plan).map_err(wrong),
    }
}

/// How captures begin: pcapng, pcap in either byte order and either resolution, and gzip, in which they may be.
const CAPTURES: [&[u8]; 6] = [
    b"\x0a\x0d\x0d\x0a",
    b"\xa1\xb2\xc3\xd4",
    b"\xd4\xc3\xb2\xa1",
    b"\xa1\xb2\x3c\x4d",
    b"\x4d\x3c\xb2\xa1",
    b"\x1f\x8b",
];

/// What tells the kinds of JSON apart.
#[derive(Deserialize)]
struct Top {
    log: Option<IgnoredAny>,
    schema: Option<String>,
}

fn json(name: &str, content: &[u8]) -> Result<Named, PlanError> {
    // What cannot be read here, or is larger than plans are, the reader of pages has its own words for.
    let Ok(Top { log: None, schema }) = serde_json::from_slice(content) else { return Ok(Named::Page) };
    let what = match schema.as_deref() {
        Some(schema) if schema.starts_with("anabranch.race/") => {
            format!("a result of race: --compare {name} compares with it")
        }
        Some(schema) => format!("a result, schema {schema}; a plan (TOML) or a page (HAR) was expected"),
        None => "JSON, but no HAR: there is no 'log' in it; a plan is TOML".to_owned(),
    };
    Err(PlanError::at(name, what))
}

/// Why there is nothing of this name, and what would be right.
fn missing(name: &str) -> String {
    if name.contains("://") {
        return format!(
            "a race loads no URL: save the page first, as by anabranch get --page {name} --har page.har"
        );
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("no such file; so many seeds are --runs {name} (and -n is --dry-run)");
    }
    let names = shipped::NAMES.join(", ");
    let hint = hint(name, &shipped::NAMES);
    format!(
        "no such file{hint}; write a plan (TOML), a HAR file, a directory with index.html, or a shipped page ({names})"
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn a_file_is_taken_for_what_it_holds() {
        let place = std::env::temp_dir().join(format!("anabranch-named-{}", std::process::id()));
        for directory in ["site", "result"] {
            fs::create_dir_all(place.join(directory)).expect("a directory");
        }
        let file = |name: &str, content: &[u8]| {
            fs::write(place.join(name), content).expect("written");
            identify(&place.join(name).to_string_lossy()).map_err(|error| error.to_string())
        };
        // Whatever it is called.
        assert_eq!(file("site.toml", b"\xef\xbb\xbf {\"log\": {\"entries\": []}}"), Ok(Named::Page));
        assert_eq!(file("plan.har", b"rate = '1mbit'\n"), Ok(Named::Plan("rate = '1mbit'\n".to_owned())));
        assert_eq!(file("cut.har", b"{\"log\": {\"entr"), Ok(Named::Page));
        for (name, content, word) in [
            ("results.json", &b"{\"schema\": \"anabranch.race/9\"}"[..], "--compare"),
            ("load.json", b"{\"schema\": \"anabranch.load/1\"}", "anabranch.load/1"),
            ("some.json", b"{\"a\": 1}", "no 'log'"),
            ("page", b"<!doctype html>", "index.html"),
            ("x.pcapng", b"\x0a\x0d\x0d\x0a....", "anabranch decode"),
            ("y", b"\xff\xfe", "not UTF-8"),
        ] {
            let error = file(name, content).expect_err(name);
            assert!(error.contains(word) && !error.contains('\n'), "{error}");
        }
        let named = |name: &str| identify(&place.join(name).to_string_lossy());
        assert_eq!(named("site"), Ok(Named::Page));
        fs::write(place.join("result/results.json"), "{}").expect("written");
        assert!(named("result").expect_err("a result").to_string().contains("--compare"));
        fs::write(place.join("result/index.html"), "<p>").expect("written");
        assert_eq!(named("result"), Ok(Named::Page), "a site may have a file of that name");
        let _ = fs::remove_dir_all(&place);
    }

    #[test]
    fn what_is_no_file_is_a_page_or_gets_a_word() {
        assert_eq!(identify("gallery"), Ok(Named::Page));
        for (name, word) in
            [("galery", "'gallery'"), ("10", "--runs 10"), ("http://a/", "get --page http://a/")]
        {
            assert!(identify(name).expect_err(name).to_string().contains(word));
        }
    }
}
