//! Identifies the argument of `race`: a plan, a page, or a file for another command or flag. The content of the file
//! decides, not its name.

use super::error::PlanError;
use super::file;
use anabranch_base::spelling::hint;
use anabranch_http::har;
use anabranch_http::har::file::Blank;
use anabranch_http::har::shipped;
use serde::de::IgnoredAny;
use serde::{Deserialize, Deserializer};
use std::path::Path;

/// The kind of file that the command `race` accepts.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum InputKind {
    /// A plan, with its text.
    Plan(String),
    /// A page, in any form that `--page` accepts: a HAR file, a directory, or a page that comes with the program.
    Page,
}

/// Identifies the file, directory or page with this name.
///
/// # Errors
/// One line that says one of the following: the file cannot be read, it is neither a plan nor a page, or it belongs to
/// another command or flag. Packet captures and the results of a race belong to other commands or flags.
pub fn identify(name: &str) -> Result<InputKind, PlanError> {
    let wrong = |what: String| PlanError::at(name, what);
    let path = Path::new(name);
    if path.is_dir() {
        let results = path.join("results.json");
        return match results.exists() && !path.join("index.html").exists() {
            true => Err(wrong(format!(
                "what a race has written: --compare {} compares with it",
                results.display()
            ))),
            false => Ok(InputKind::Page),
        };
    }
    if !path.exists() && name != file::STDIN {
        return match shipped::shipped(name) {
            Some(_) => Ok(InputKind::Page),
            None => Err(wrong(missing(name))),
        };
    }
    let bytes = file::bytes(name, file::MAX_PLAN).map_err(wrong)?;
    // Only the beginning of the file was read, so the content may be truncated. Errors in the rest of the file are
    // reported by the functions that read the whole file.
    let unpacked = har::file::unpack(bytes.as_slice(), bytes.len() as u64, file::MAX_PLAN);
    let (packed, bytes) = match unpacked {
        Ok(unpacked) => (unpacked.bytes != bytes, unpacked.bytes),
        Err(why) => return Err(wrong(why.to_string())),
    };
    if CAPTURES.iter().any(|magic| bytes.starts_with(magic)) {
        return Err(wrong(format!("a capture: anabranch decode {name} reads it")));
    }
    if bytes.is_empty() && packed {
        // An empty page is an error. The function that reads the page reports this error.
        return Ok(InputKind::Page);
    }
    let is_utf8 = !matches!(bytes.get(..2), Some([0xff, 0xfe] | [0xfe, 0xff] | [0, _] | [_, 0]));
    let is_large = bytes.len() as u64 > file::MAX_PLAN;
    har::file::refuse_brotli(name, &bytes).map_err(wrong)?;
    let text = har::file::text(bytes.clone()).map_err(wrong)?;
    if let Some(blank) = har::file::blank(&text) {
        // Only the beginning of a large file was read, so the rest may not be blank.
        let what = match (blank, is_large) {
            (Blank::Space, false) => "the file is empty",
            (Blank::Space, true) => "the file begins with 16 MiB of white space",
            (Blank::Zeros, false) => "the file holds only NUL bytes",
            (Blank::Zeros, true) => "the file begins with 16 MiB of NUL bytes",
        };
        return Err(wrong(format!(
            "{what}; write a plan (TOML), a HAR file, a directory with index.html, or a shipped page"
        )));
    }
    let content = text.trim_matches(|letter: char| letter.is_whitespace() || letter == '\0');
    // A file with JSON that is not an object cannot be a plan, because a plan consists of keys and values. The file is
    // treated as a page, whose reader reports any error.
    if !content.starts_with('{') && serde_json::from_str::<IgnoredAny>(content).is_ok() {
        return Ok(InputKind::Page);
    }
    match content.as_bytes().first() {
        Some(b'{') => json(name, content.as_bytes()),
        Some(b'[') if is_list(content) => Ok(InputKind::Page),
        Some(b'<') => Err(wrong(
            "HTML: name the directory that has it as index.html, or save the page as HAR with the browser's developer \
             tools"
                .to_owned(),
        )),
        // A HAR file in JavaScript may begin like a TOML file, but does not parse as TOML. The errors of a damaged HAR
        // file must not be errors about TOML.
        _ if (har::file::is_script(content) || is_har_name(name)) && content.parse::<toml::Table>().is_err() => Ok(InputKind::Page),
        _ if packed => Err(wrong("packed by gzip, and no HAR: unpack it with gunzip".to_owned())),
        _ if is_utf8 || is_large => file::text(bytes, file::MAX_PLAN).map(InputKind::Plan).map_err(wrong),
        _ => Ok(InputKind::Plan(text)),
    }
}

/// Returns whether a text that begins with `[` is a JSON list. Otherwise it is the header of a TOML table, which has
/// one or two brackets before its key.
fn is_list(content: &str) -> bool {
    let mut rest = content;
    for _ in 0..2 {
        rest = rest.strip_prefix('[').unwrap_or(rest).trim_start();
    }
    !rest.starts_with(|letter: char| letter.is_ascii_alphanumeric() || "_-\"'".contains(letter))
}

/// Returns whether `name` is the usual name of a HAR file.
fn is_har_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    name.ends_with(".har") || name.ends_with(".har.gz")
}

/// The magic numbers of captures: pcapng, and pcap in both byte orders and with both time resolutions.
const CAPTURES: [&[u8]; 5] =
    [b"\x0a\x0d\x0d\x0a", b"\xa1\xb2\xc3\xd4", b"\xd4\xc3\xb2\xa1", b"\xa1\xb2\x3c\x4d", b"\x4d\x3c\xb2\xa1"];

/// The fields that distinguish HAR files, results and other JSON files.
#[derive(Deserialize)]
struct Top {
    #[serde(default, deserialize_with = "present")]
    log: Option<IgnoredAny>,
    #[serde(default, deserialize_with = "present")]
    entries: Option<IgnoredAny>,
    schema: Option<String>,
}

/// Returns `Some` for every member that is present in the JSON object, even if its value is `null`.
fn present<'de, D: Deserializer<'de>>(value: D) -> Result<Option<IgnoredAny>, D::Error> {
    IgnoredAny::deserialize(value).map(Some)
}

fn json(name: &str, content: &[u8]) -> Result<InputKind, PlanError> {
    // If the JSON is invalid, or was cut off because the file exceeds the maximum size of plans, the file is treated as
    // a page. The function that reads pages then reads the whole file and reports a more exact error.
    let Ok(Top { log: None, entries: None, schema }) = serde_json::from_slice(content) else {
        return Ok(InputKind::Page);
    };
    let what = match schema.as_deref() {
        Some(schema) if schema.starts_with("anabranch.race/") => {
            format!("a result of race: --compare {name} compares with it")
        }
        Some(schema) => format!("a result, schema {schema}; a plan (TOML) or a page (HAR) was expected"),
        None => "JSON without a 'log': neither a HAR, as the developer tools of a browser save it, nor a plan, which is \
                 TOML"
            .to_owned(),
    };
    Err(PlanError::at(name, what))
}

/// Returns the error message for a name that does not exist, with a suggestion.
fn missing(name: &str) -> String {
    if name.contains("://") {
        return format!(
            "a race loads no URL: save the page first, as by anabranch get --page {name} --har page.har"
        );
    }
    if name.bytes().all(|byte| byte.is_ascii_digit()) {
        return format!("no such file; for {name} seeds write --runs {name} (-n is --dry-run)");
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
        // The content of a file decides how it is treated, even if the file's name suggests another kind of file.
        assert_eq!(file("site.toml", b"\xef\xbb\xbf {\"log\": {\"entries\": []}}"), Ok(InputKind::Page));
        assert_eq!(file("plan.har", b"rate = '1mbit'\n"), Ok(InputKind::Plan("rate = '1mbit'\n".to_owned())));
        assert_eq!(file("cut.har", b"{\"log\": {\"entr"), Ok(InputKind::Page));
        for content in [
            &b"onInputData({\"log\": {}});"[..],
            b"var har = {\"log\": {}};",
            b"[{\"log\": {}}]",
            b"[ [] ]",
            b"[1, 2]",
            b"null",
            b" 7\n",
            b"\"log\"",
            b"{\"log\": null}",
            b"[]",
            b"[[[[[[[[",
            b"[{\"log\": {",
            b"{\"version\": \"1.2\", \"entries\": []}",
            b"{\0\"\0l\0o\0g\0\"\0:\0{\0}\0}\0",
            b"\x1f\x8b\x08\0\0\0\0\0\x02\xff\xab\x56\xca\xc9\x4f\x57\xb2\xaa\xae\xad\x05\0\x0c\xe3\x79\x66\x0a\0\0\0",
        ] {
            assert_eq!(file("page", content), Ok(InputKind::Page), "{content:x?}");
        }
        assert_eq!(file("words.har", b"no plan"), Ok(InputKind::Page));
        assert_eq!(file("brackets.har", &[b'['; 100_000]), Ok(InputKind::Page));
        assert_eq!(file("broken.har", b"[NaN, 1]"), Ok(InputKind::Page));
        for plan in [
            "[[expect]]\n",
            "[ x ]\n",
            "[x]\n",
            "transport = [{ name = 'tcp' }]\n",
            "# only this\n",
            "a = 'cb({\"b\":1})'\n",
        ] {
            assert_eq!(file("plan", plan.as_bytes()), Ok(InputKind::Plan(plan.to_owned())));
        }
        let utf16: Vec<u8> = "rate = '1mbit'\n".encode_utf16().flat_map(u16::to_le_bytes).collect();
        assert_eq!(file("utf16", &utf16), Ok(InputKind::Plan("rate = '1mbit'\n".to_owned())));
        for (name, content, word) in [
            ("results.json", &b"{\"schema\": \"anabranch.race/9\"}"[..], "--compare"),
            ("load.json", b"{\"schema\": \"anabranch.load/1\"}", "anabranch.load/1"),
            ("some.json", b"{\"a\": 1}", "without a 'log': neither a HAR"),
            ("page", b"<!doctype html>", "index.html"),
            ("x.pcapng", b"\x0a\x0d\x0d\x0a....", "anabranch decode"),
            ("y", b"rate = '\xff\xfe'", "not UTF-8"),
            ("y.har.br", b"\x8b\x02\x80{}\x03", "packed by brotli: unpack it with brotli -d"),
            ("x.zip", b"PK\x03\x04", "a zip archive: unpack it"),
            ("empty.toml", b"", "the file is empty"),
            ("blank.har", b" \n\t\r\n", "the file is empty"),
            ("mark", b"\xef\xbb\xbf\n", "the file is empty"),
            ("mark16", b"\xff\xfe\n\0", "the file is empty"),
            ("zeros.har", &[0; 5000], "the file holds only NUL bytes"),
        ] {
            let error = file(name, content).expect_err(name);
            assert!(error.contains(word) && !error.contains('\n'), "{error}");
        }
        let named = |name: &str| identify(&place.join(name).to_string_lossy());
        assert_eq!(named("site"), Ok(InputKind::Page));
        fs::write(place.join("result/results.json"), "{}").expect("written");
        assert!(named("result").expect_err("a result").to_string().contains("--compare"));
        fs::write(place.join("result/index.html"), "<p>").expect("written");
        assert_eq!(named("result"), Ok(InputKind::Page), "a site may have a file of that name");
        let _ = fs::remove_dir_all(&place);
    }

    #[test]
    fn names_that_are_no_files_are_pages_or_errors() {
        assert_eq!(identify("gallery"), Ok(InputKind::Page));
        for (name, word) in
            [("galery", "'gallery'"), ("10", "--runs 10"), ("http://a/", "get --page http://a/")]
        {
            assert!(identify(name).expect_err(name).to_string().contains(word));
        }
    }
}
