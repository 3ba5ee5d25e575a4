//! Converts the bytes of a HAR file to JSON text.
//!
//! A HAR is UTF-8 JSON. Real files are also compressed by gzip (`.har.gz`), encoded in UTF-16 (by a Windows shell), or
//! wrapped in JavaScript (`onInputData({..});` of HARP, `var har = {..};`). JavaScript strings may contain unpaired
//! surrogates, which JSON parsers refuse; each becomes U+FFFD. Other compressed files, for example zip archives, are
//! refused with a line that says how to unpack them.

use flate2::bufread::GzDecoder;
use std::io::{self, BufRead, BufReader, Cursor, ErrorKind, Read};

/// The bytes of a file, after gzip decompression if the file was compressed.
#[derive(Debug)]
pub struct Unpacked {
    /// The content of the file, up to the point where decompression failed or ended.
    pub bytes: Vec<u8>,
    /// A one-line reason why the content is incomplete; `None` if it is complete.
    pub fault: Option<String>,
}

/// Reads at most `most` bytes of content from `input`. `input` may be compressed by gzip. `length` is an estimate of
/// the number of bytes in `input`.
///
/// # Errors
/// I/O errors of `input`.
pub fn unpack(mut input: impl Read, length: u64, most: u64) -> io::Result<Unpacked> {
    let mut magic = Vec::new();
    input.by_ref().take(GZIP.len() as u64).read_to_end(&mut magic)?;
    let is_packed = magic == GZIP;
    let whole = Cursor::new(magic).chain(input);
    let mut bytes = Vec::new();
    if !is_packed {
        bytes.reserve_exact(length.min(most) as usize);
        whole.take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        let fault = (bytes.len() as u64 > most).then(|| format!("more than {most} bytes"));
        return Ok(Unpacked { bytes, fault });
    }
    let mut decoder = GzipReader::new(BufReader::with_capacity(1 << 16, whole)).take(most.saturating_add(1));
    let fault = match decoder.read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > most => Some(format!("gzip: it unpacks to more than {most} bytes")),
        Ok(_) => None,
        Err(why) if why.kind() == ErrorKind::UnexpectedEof => {
            let unpacked = bytes.len();
            Some(format!("gzip: the file is cut, after {unpacked} unpacked bytes; save or download it again"))
        }
        // An error from reading the file is an I/O error. It does not mean that the gzip data is damaged.
        Err(why) if why.raw_os_error().is_some() => return Err(why),
        Err(why) => Some(format!("gzip: {why}; the file is damaged: save or download it again")),
    };
    Ok(Unpacked { bytes, fault })
}

/// Decompresses a gzip file, which consists of one or more members. As in gunzip, zero bytes after a member are
/// ignored.
#[derive(Debug)]
pub struct GzipReader<R> {
    /// The decoder of the current member; `None` after the last member.
    member: Option<GzDecoder<R>>,
}

impl<R: BufRead> GzipReader<R> {
    /// Returns a reader of the content of the gzip file `input`.
    pub fn new(input: R) -> Self {
        Self { member: Some(GzDecoder::new(input)) }
    }
}

impl<R: BufRead> Read for GzipReader<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        while let Some(member) = &mut self.member {
            let read = member.read(into)?;
            if read > 0 || into.is_empty() {
                return Ok(read);
            }
            let mut rest = self.member.take().map(GzDecoder::into_inner);
            if let Some(input) = &mut rest
                && !skip_zeros(input)?
            {
                self.member = rest.map(GzDecoder::new);
            }
        }
        Ok(0)
    }
}

/// Skips zero bytes. Returns whether the input has ended.
fn skip_zeros(input: &mut impl BufRead) -> io::Result<bool> {
    loop {
        let bytes = input.fill_buf()?;
        let (length, zeros) = (bytes.len(), bytes.iter().take_while(|byte| **byte == 0).count());
        input.consume(zeros);
        if zeros < length || length == 0 {
            return Ok(length == 0);
        }
    }
}

/// The first bytes of a gzip file (RFC 1952 §2.3.1).
const GZIP: [u8; 2] = [0x1f, 0x8b];

/// The first bytes of other kinds of archives, their names, and advice on how to unpack them.
const ARCHIVES: [(&[u8], &str, &str); 6] = [
    (b"PK\x03\x04", "a zip archive", "unpack it, and name the HAR file that is in it"),
    (b"\x28\xb5\x2f\xfd", "packed by zstd", "unpack it with zstd -d"),
    (b"\xfd7zXZ\0", "packed by xz", "unpack it with xz -d"),
    (b"BZh", "packed by bzip2", "unpack it with bzip2 -d"),
    (b"7z\xbc\xaf\x27\x1c", "a 7z archive", "unpack it, and name the HAR file that is in it"),
    (&GZIP, "packed by gzip twice", "unpack it once with gunzip"),
];

/// Refuses a file whose name ends in `.br` and whose content `bytes` is binary. Such a file is probably packed by
/// brotli, whose format has no magic number.
///
/// # Errors
/// One line that says how to unpack the file.
pub fn refuse_brotli(name: &str, bytes: &[u8]) -> Result<(), String> {
    let is_binary = std::str::from_utf8(bytes).is_err_and(|why| why.error_len().is_some());
    match is_binary && name.to_ascii_lowercase().ends_with(".br") {
        true => Err("packed by brotli: unpack it with brotli -d".to_owned()),
        false => Ok(()),
    }
}

/// Decodes decompressed `bytes` to text, and drops a byte-order mark. An unpaired surrogate is replaced by U+FFFD, and
/// each other invalid byte of UTF-8 by a question mark.
///
/// # Errors
/// One line that says that the bytes are an archive or have an unsupported encoding.
pub fn text(mut bytes: Vec<u8>) -> Result<String, String> {
    if let Some((_, what, remedy)) = ARCHIVES.iter().find(|(magic, ..)| bytes.starts_with(magic)) {
        return Err(format!("{what}: {remedy}"));
    }
    match encoding(&bytes) {
        Encoding::Utf16 { big_endian, mark } => Ok(utf16(&bytes[mark..], big_endian)),
        Encoding::Utf32 => Err("UTF-32: save it as UTF-8".to_owned()),
        Encoding::Utf8 => {
            while bytes.starts_with("\u{feff}".as_bytes()) {
                bytes.drain(..3);
            }
            replace_invalid(&mut bytes);
            Ok(String::from_utf8(bytes).unwrap_or_default())
        }
    }
}

/// The content of a text that has only white space or NUL bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Blank {
    /// Nothing, or white space.
    Space,
    /// NUL bytes, as in a file whose content was never written.
    Zeros,
}

/// Returns which kind of blank text `text` is: nothing or white space, or NUL bytes. Returns `None` if `text` has any
/// other content.
#[must_use]
pub fn blank(text: &str) -> Option<Blank> {
    let mut found = Blank::Space;
    for letter in text.chars() {
        match letter {
            '\0' => found = Blank::Zeros,
            letter if letter.is_whitespace() => {}
            _ => return None,
        }
    }
    Some(found)
}

/// The encoding of a text.
enum Encoding {
    Utf8,
    /// `mark` is the length in bytes of the byte-order mark.
    Utf16 {
        big_endian: bool,
        mark: usize,
    },
    Utf32,
}

/// Detects the encoding of a text from its first bytes. JSON, TOML and JavaScript begin with an ASCII character. So
/// without a byte-order mark, the zero bytes around that character reveal the encoding (RFC 4627 §3).
fn encoding(bytes: &[u8]) -> Encoding {
    match *bytes {
        [0, 0, 0xfe, 0xff, ..] | [0xff, 0xfe, 0, 0, ..] => Encoding::Utf32,
        [0, 0, 0, 1..=255, ..] | [1..=255, 0, 0, 0, ..] => Encoding::Utf32,
        [0xfe, 0xff, ..] => Encoding::Utf16 { big_endian: true, mark: 2 },
        [0xff, 0xfe, ..] => Encoding::Utf16 { big_endian: false, mark: 2 },
        [0, 1..=255, ..] => Encoding::Utf16 { big_endian: true, mark: 0 },
        [1..=255, 0, ..] => Encoding::Utf16 { big_endian: false, mark: 0 },
        _ => Encoding::Utf8,
    }
}

/// Decodes UTF-16. An unpaired surrogate becomes U+FFFD. An odd byte at the end, for example a newline that another
/// program added, is ignored.
fn utf16(bytes: &[u8], big_endian: bool) -> String {
    let unit = |pair: &[u8]| match *pair {
        [a, b] if big_endian => u16::from_be_bytes([a, b]),
        [a, b] => u16::from_le_bytes([a, b]),
        _ => 0,
    };
    char::decode_utf16(bytes.chunks_exact(2).map(unit))
        .map(|letter| letter.unwrap_or(char::REPLACEMENT_CHARACTER))
        .collect()
}

/// Replaces invalid UTF-8 in `bytes` in place, because a copy could be up to three times as large. An unpaired
/// surrogate that is encoded like a character becomes U+FFFD, which has the same length. Each other invalid byte
/// becomes a question mark.
fn replace_invalid(bytes: &mut [u8]) {
    let mut valid = 0;
    while let Err(error) = std::str::from_utf8(&bytes[valid..]) {
        let start = valid + error.valid_up_to();
        if let [first @ 0xed, second @ 0xa0..=0xbf, third @ 0x80..=0xbf, ..] = &mut bytes[start..] {
            (*first, *second, *third) = (0xef, 0xbf, 0xbd);
            valid = start + 3;
            continue;
        }
        valid = error.error_len().map_or(bytes.len(), |length| start + length);
        bytes[start..valid].fill(b'?');
    }
}

/// Extracts the JSON value in `text`. Surrounding JavaScript is removed, each escaped unpaired surrogate becomes
/// U+FFFD, and each control character in a string becomes a space.
#[must_use]
pub fn json(mut text: String) -> String {
    let end =
        text.trim_end_matches(|c: char| c.is_whitespace() || matches!(c, ';' | ')' | '\0' | '\u{1a}')).len();
    // If the text before `end` does not end with a bracket, the JSON is incomplete. Then nothing is cut off, so that
    // the parser reports the right position of the error.
    if text[..end].ends_with(['}', ']']) {
        text.truncate(end);
    }
    if let Some(start) = start_of_json(&text) {
        text.drain(..start);
    }
    let mut bytes = text.into_bytes();
    repair_texts(&mut bytes);
    String::from_utf8(bytes).unwrap_or_default()
}

/// Returns whether `text` is JavaScript that contains a JSON value, for example as an argument or in an assignment.
#[must_use]
pub fn is_script(text: &str) -> bool {
    start_of_json(text).is_some_and(|start| !text[..start].trim().is_empty())
}

/// Returns the position of the JSON value in `text`; `None` if `text` is neither JSON nor a known JavaScript wrapper.
fn start_of_json(text: &str) -> Option<usize> {
    let mut at = past_blanks(text, 0);
    for guard in GUARDS {
        if text[at..].starts_with(guard) {
            at = past_blanks(text, at + guard.len());
        }
    }
    let opens =
        |(index, letter): (usize, char)| matches!(letter, '{' | '[') && begins_value(&text[at + index..]);
    let start = at + start(&text[at..], MAX_PREFIX).char_indices().find(|found| opens(*found))?.0;
    let prefix = text[at..start].trim_end();
    let is_wrapper = prefix.is_empty() || WRAPPER_ENDS.iter().any(|end| prefix.ends_with(end));
    is_wrapper.then_some(start)
}

/// Returns the first characters of `text`, at most `most` bytes.
fn start(text: &str, most: usize) -> &str {
    let mut end = text.len().min(most);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

/// Returns the position of the first character at or after `at` that is neither white space nor in a JavaScript
/// comment.
fn past_blanks(text: &str, mut at: usize) -> usize {
    loop {
        at = text.len() - text[at..].trim_start().len();
        let rest = &text[at..];
        let comment = if rest.starts_with("//") {
            rest.find('\n').map(|end| end + 1)
        } else if rest.starts_with("/*") {
            rest.find("*/").map(|end| end + 2)
        } else {
            None
        };
        match comment {
            Some(length) => at += length,
            None => return at,
        }
    }
}

/// Returns whether `text` begins with a JSON object or a list of objects: `{` and a key, `{}`, or `[` before one of
/// these.
fn begins_value(text: &str) -> bool {
    let text = start(text, MAX_LOOK);
    let inner = text.trim_start_matches(|c: char| c == '[' || c.is_whitespace());
    match inner.strip_prefix('{').map(str::trim_start) {
        Some(key) if key.starts_with(['"', '\'', '}']) || key.is_empty() => true,
        Some(key) => {
            let rest = key.trim_start_matches(|c: char| c.is_alphanumeric() || matches!(c, '_' | '$'));
            rest.len() < key.len() && rest.trim_start().starts_with(':')
        }
        None => text.starts_with('[') && inner.starts_with(']'),
    }
}

/// Prefixes that services put before JSON so that it cannot be executed as a script.
const GUARDS: [&str; 5] = [")]}',", ")]}'", "while(1);", "for(;;);", "for (;;);"];

/// The tokens that may stand directly before a JSON value that JavaScript passes as an argument, assigns or returns.
const WRAPPER_ENDS: [&str; 4] = ["(", "=", "default", "return"];

/// The maximum number of bytes before the JSON value. The beginning of a JavaScript statement, for example
/// `module.exports =`, is much shorter.
const MAX_PREFIX: usize = 1024;

/// The maximum number of bytes that are examined to recognize a JSON value.
const MAX_LOOK: usize = 4096;

/// Repairs JSON strings so that parsers accept them. Each `\uXXXX` that is an unpaired surrogate becomes `\ufffd`
/// (RFC 8259 §8.2 leaves its handling open). Each unescaped control character (§7) becomes a space.
fn repair_texts(bytes: &mut [u8]) {
    let escaped = |bytes: &[u8], at: usize| {
        let digits = bytes.get(at..at + 6)?.strip_prefix(b"\\u")?;
        digits.iter().try_fold(0, |sum, digit| Some(sum * 16 + char::from(*digit).to_digit(16)?))
    };
    let (mut at, mut in_text) = (0, false);
    while let Some(&byte) = bytes.get(at) {
        at += match byte {
            b'"' => {
                in_text = !in_text;
                1
            }
            0..=0x1f if in_text => {
                bytes[at] = b' ';
                1
            }
            b'\\' if in_text => match escaped(bytes, at) {
                Some(0xd800..=0xdbff) if matches!(escaped(bytes, at + 6), Some(0xdc00..=0xdfff)) => 12,
                Some(0xd800..=0xdfff) => {
                    bytes[at..at + 6].copy_from_slice(b"\\ufffd");
                    6
                }
                Some(_) => 6,
                // A backslash escapes the next character, which may itself be a backslash. Skip both.
                None => 2,
            },
            _ => 1,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use flate2::Compression;
    use flate2::write::GzEncoder;
    use std::io::Write;

    fn packed(bytes: &[u8]) -> Vec<u8> {
        let mut encoder = GzEncoder::new(Vec::new(), Compression::best());
        encoder.write_all(bytes).expect("packed");
        encoder.finish().expect("packed")
    }

    fn unpacked(bytes: &[u8], most: u64) -> (Vec<u8>, String) {
        let Unpacked { bytes, fault } = unpack(bytes, 0, most).expect("read");
        (bytes, fault.unwrap_or_default())
    }

    #[test]
    fn gzip_is_unpacked_up_to_a_bound() {
        assert_eq!(unpacked(b"plain", 5), (b"plain".to_vec(), String::new()));
        assert_eq!(unpacked(b"", 5), (Vec::new(), String::new()));
        assert_eq!(unpacked(b"plain", 4).1, "more than 4 bytes");
        let zeros = packed(&vec![0; 1 << 20]);
        assert_eq!(unpacked(&zeros, 1 << 20), (vec![0; 1 << 20], String::new()));
        assert_eq!(unpacked(&zeros, 1000).1, "gzip: it unpacks to more than 1000 bytes");
        assert_eq!(unpacked(&zeros, 1000).0.len(), 1001);
        let two = [packed(b"one"), packed(b"two")].concat();
        assert_eq!(unpacked(&two, 100), (b"onetwo".to_vec(), String::new()));
        for zeros in [1, 512, 200_000] {
            let padded = [packed(b"one"), vec![0; zeros], packed(b"two"), vec![0; zeros]].concat();
            assert_eq!(unpacked(&padded, 100), (b"onetwo".to_vec(), String::new()));
        }
        assert!(
            unpacked(&[packed(b"one"), b"\0no member of gzip".to_vec()].concat(), 100).1.contains("damaged")
        );
        assert!(unpacked(&zeros[..zeros.len() - 4], 1 << 30).1.contains("the file is cut"));
        let mut damaged = packed(b"some text");
        damaged[12] ^= 0xff;
        assert!(unpacked(&damaged, 100).1.starts_with("gzip: "));
    }

    #[test]
    fn archives_are_refused_with_what_to_do() {
        for (bytes, remedy) in [
            (&b"PK\x03\x04rest"[..], "a zip archive: unpack it, and name the HAR file that is in it"),
            (b"\x28\xb5\x2f\xfdx", "packed by zstd: unpack it with zstd -d"),
            (b"\xfd7zXZ\0x", "packed by xz: unpack it with xz -d"),
            (b"BZh91AY", "packed by bzip2: unpack it with bzip2 -d"),
            (b"\x1f\x8b\x08", "packed by gzip twice: unpack it once with gunzip"),
        ] {
            assert_eq!(text(bytes.to_vec()), Err(remedy.to_owned()));
        }
    }

    #[test]
    fn every_encoding_of_unicode_is_told_by_its_first_bytes() {
        let letters = "{\"a\": \"\u{e9}\u{1f600}\"}";
        let le: Vec<u8> = letters.encode_utf16().flat_map(u16::to_le_bytes).collect();
        let be: Vec<u8> = letters.encode_utf16().flat_map(u16::to_be_bytes).collect();
        let marked = |mark: &[u8], text: &[u8]| [mark, text].concat();
        for bytes in [
            letters.as_bytes().to_vec(),
            marked(b"\xef\xbb\xbf", letters.as_bytes()),
            le.clone(),
            be.clone(),
            marked(b"\xff\xfe", &le),
            marked(b"\xfe\xff", &be),
            marked(&le, b"\n"),
        ] {
            assert_eq!(text(bytes.clone()).as_deref(), Ok(letters), "{bytes:x?}");
        }
        for bytes in [&b"\xff\xfe\0\0{\0\0\0"[..], b"{\0\0\0", b"\0\0\0{", b"\0\0\xfe\xff\0\0\0{"] {
            assert_eq!(text(bytes.to_vec()), Err("UTF-32: save it as UTF-8".to_owned()));
        }
        assert_eq!(text(b"\xff\xfe".to_vec()).as_deref(), Ok(""));
    }

    #[test]
    fn half_a_surrogate_pair_is_replaced_however_it_is_written() {
        assert_eq!(text(b"a\xed\xa0\xbdb\xffc".to_vec()).as_deref(), Ok("a\u{fffd}b?c"));
        assert_eq!(text(b"\xff\xfea\0\x3d\xd8b\0".to_vec()).as_deref(), Ok("a\u{fffd}b"));
        for (written, read) in [
            (r#""\ud83d""#, r#""\ufffd""#),
            (r#""\uDE00x""#, r#""\ufffdx""#),
            (r#""\ud83d\ude00""#, r#""\ud83d\ude00""#),
            (r#""\ud83d\ud83d\ude00""#, r#""\ufffd\ud83d\ude00""#),
            (r#""\\ud83d""#, r#""\\ud83d""#),
            (r#""\\\ud83d""#, r#""\\\ufffd""#),
            (r#""\ud83"#, r#""\ud83"#),
            (r#""\ud83d\u0041""#, r#""\ufffd\u0041""#),
            ("\"\\", "\"\\"),
            ("{\n\"a\tb\\\"\n\": 1\n}", "{\n\"a b\\\" \": 1\n}"),
        ] {
            assert_eq!(json(written.to_owned()), read);
        }
    }

    #[test]
    fn javascript_around_a_value_is_taken_off() {
        for wrapped in [
            "onInputData({\"a\": [1]});",
            "callback({\"a\": [1]})",
            "var x = {\"a\": [1]};\n",
            "const har={\"a\": [1]}",
            "window.HAR_DATA = {\"a\": [1]};",
            "export default {\"a\": [1]};",
            "module.exports = {\"a\": [1]}",
            "/**/ typeof cb === 'function' && cb({\"a\": [1]});",
            "// recorded today\n({\"a\": [1]})",
            ")]}',\n{\"a\": [1]}",
            "while(1);{\"a\": [1]}",
            "  {\"a\": [1]} \0\0",
        ] {
            assert_eq!(json(wrapped.to_owned()), "{\"a\": [1]}", "{wrapped}");
            assert_eq!(is_script(wrapped), !wrapped.starts_with(' '), "{wrapped}");
        }
        assert_eq!(json("cb([{\"a\": 1}]);".to_owned()), "[{\"a\": 1}]");
        assert_eq!(json("cb({\"a\": ".to_owned()), "{\"a\": ");
        assert!(is_script("harp({log: {}})"));
        for text in [
            "",
            "rate = '1mbit'",
            "[network]\nrate = '1mbit'",
            "[[expect]]",
            "x = { a = 1 }",
            "transport = [{ name = 'tcp' }]",
            "<html>{\"a\":1}",
            "é",
        ] {
            assert!(!is_script(text), "{text}");
            assert_eq!(json(text.to_owned()), text);
        }
    }
}
