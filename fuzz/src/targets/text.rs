//! Reads files that users write or download. A file must be accepted, or be refused with an error message of one line.

use anabranch_capture::{Settings, csv, decode, table};
use anabranch_lab::plan::{Draft, Plan};
use anabranch_transports::Transports;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Reads a log that `decode` may take for a capture, a qlog, a packet log or a dump of statistics.
pub fn log(input: &[u8]) {
    let settings = Settings { ladder_lines: 20, max_view_items: 20, ..Settings::default() };
    match decode("fuzz", input, &settings) {
        Ok(decoded) => {
            let text = table::render(&decoded, 3) + &csv::render(&decoded) + &decoded.to_json();
            assert!(text.ends_with('\n'));
        }
        Err(error) => assert_eq!(error.to_string().lines().count(), 1),
    }
}

/// Reads a HAR file, as JSON.
pub fn har(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Err(error) = anabranch_http::har::read("fuzz.har", &text) {
        assert!(!error.to_string().is_empty());
    }
}

/// Reads the text of a HAR file. The sum of the input's bytes selects the form of the text: plain, compressed, encoded,
/// wrapped in JavaScript or in a list, without times, or truncated.
pub fn har_text(rest: &[u8]) {
    let form = rest.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
    let text = || String::from_utf8_lossy(rest);
    let cut = |bytes: Vec<u8>| bytes[..bytes.len() * usize::from(form / 16) / 16].to_vec();
    let around = |before: &[u8], after: &[u8]| [before, rest, after].concat();
    let bytes = match form % 16 {
        0 => rest.to_vec(),
        1 => packed(rest),
        2 => cut(packed(rest)),
        3 => text().encode_utf16().flat_map(u16::to_le_bytes).collect(),
        4 => text().encode_utf16().flat_map(u16::to_be_bytes).collect(),
        5 => around(b"\xff\xfe", b""),
        6 => around(b"\xfe\xff", b""),
        7 => around(b"\xef\xbb\xbf", b"\n"),
        8 => around(b"onInputData(", b");"),
        9 => around(b"/**/var x = ", b";\n"),
        10 => around(b"[", b"]"),
        11 => around(b"[", &[b",", rest, b"]"].concat()),
        12 => text().replace("startedDateTime", "_started").into_bytes(),
        13 => text().replace("e.com", r"e\ud83d.com\ude00\\ud83d").into_bytes(),
        14 => around(b"", rest),
        _ => cut(rest.to_vec()),
    };
    match anabranch_http::har::read_bytes("fuzz.har", &bytes, None) {
        Ok(page) => assert!(page.validate().is_ok()),
        Err(error) => assert!(!error.to_string().contains('\n'), "{error}"),
    }
}

fn packed(bytes: &[u8]) -> Vec<u8> {
    let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(bytes).and_then(|()| encoder.finish()).unwrap_or_default()
}

/// Reads a plan in TOML.
pub fn plan(input: &[u8]) {
    let text = String::from_utf8_lossy(input);
    if let Ok(draft) = Draft::from_toml("fuzz.toml", &text)
        && let Err(error) = Plan::interpret(draft, &Transports::standard())
    {
        assert!(!error.to_string().is_empty());
    }
}
