//! Parses the head of an HTTP/1.x request so strictly that no other parser can interpret it differently.
//!
//! If two programs interpret the same bytes as different messages, one client can send requests in the name of another
//! (request smuggling). Therefore a server and a gateway refuse heads that RFC 9112 lets a recipient repair. They
//! refuse malformed lines: a line that ends with a bare CR or LF, and a folded field. They refuse ambiguous lengths:
//! two lengths, a length together with a transfer coding, and a transfer coding other than chunked. They also refuse a
//! Host that is not an authority. Each refusal has a status and a reason of one line.
//!
//! Implements RFC 9112 §2.2, §2.3, §3, §5, §6.1 and §6.3, RFC 9110 §4.2 and §7.2, and RFC 3986 §3, as far as they
//! specify which requests are refused.

use crate::authority::is_authority;
use crate::framing::Framing;
use smallvec::SmallVec;
use std::borrow::Cow;

/// The response to a request that is refused: its status and the reason.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// The status code of the response.
    pub status: u16,
    /// The reason for the refusal, in one line.
    pub why: Cow<'static, str>,
}

impl Refusal {
    /// Returns a refusal with the given status and reason.
    pub fn new(status: u16, why: impl Into<Cow<'static, str>>) -> Self {
        Self { status, why: why.into() }
    }

    /// Returns a refusal with status 400 and the given reason.
    #[must_use]
    pub const fn bad(why: &'static str) -> Self {
        Self { status: 400, why: Cow::Borrowed(why) }
    }
}

/// The four forms of a request target (RFC 9112 §3.2).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form<'a> {
    /// A path, optionally followed by a query.
    Origin(&'a str),
    /// An `http` or `https` URL.
    Absolute {
        /// Whether the scheme of the URL is `https`.
        secure: bool,
        /// The host, optionally followed by a port.
        authority: &'a str,
        /// The path and query as written. It may be empty or begin with `?`.
        path: &'a str,
    },
    /// The host and port of a CONNECT request.
    Authority(&'a str),
    /// The target `*` of an OPTIONS request.
    Asterisk,
}

/// The head of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Head<'a, 'f> {
    /// The request method.
    pub method: &'a str,
    /// The request target as written.
    pub target: &'a str,
    /// The form of the request target.
    pub form: Form<'a>,
    /// The minor version that the request is treated as: 0 or 1.
    pub minor: u8,
    /// The offset of the minor version's digit in the head.
    pub minor_at: usize,
    /// The value of the Host field.
    pub host: Option<&'a str>,
    /// How the body ends.
    pub framing: Framing,
    /// All fields of the head.
    pub fields: &'f [httparse::Header<'a>],
}

/// Storage for the parsed fields of a head. Most heads have few fields, which need no allocation.
pub type Room<'a> = SmallVec<[httparse::Header<'a>; 16]>;

/// How strictly requests are checked.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Strictness {
    /// Every request must be valid. This is for requests from arbitrary clients.
    #[default]
    Strictly,
    /// Requests for recorded pages are accepted. Their hosts and targets come from a recording and need not be valid
    /// URLs.
    AsRecorded,
}

impl<'a, 'f> Head<'a, 'f> {
    /// Parses a complete head. The caller has found the end of the head with [`end_of_head`].
    ///
    /// # Errors
    /// The response to a request that is refused.
    pub fn parse(head: &'a [u8], strictness: Strictness, room: &'f mut Room<'a>) -> Result<Self, Refusal> {
        let end =
            memchr::memchr(b'\r', head).filter(|end| head[end + 1..].starts_with(b"\n")).ok_or(MALFORMED)?;
        let (method, target, version) = request_line(&head[..end])?;
        let minor = minor_version(version)?;
        let fields = &head[end + 2..];
        // RFC 9112 §5.2: a line that begins with white space continues the field before it. Such folded fields are
        // refused. White space before the first field is not allowed either (§2.2).
        let mut lines = 0;
        let mut ends = memchr::memchr_iter(b'\n', fields).inspect(|_| lines += 1);
        if fields.first().is_some_and(is_blank) || ends.any(|at| fields.get(at + 1).is_some_and(is_blank)) {
            return Err(Refusal::bad("a field is folded"));
        }
        room.clear();
        room.resize(lines.min(MAX_FIELDS), httparse::EMPTY_HEADER);
        let fields: &'f [httparse::Header<'a>] = match httparse::parse_headers(fields, room) {
            Ok(httparse::Status::Complete((length, parsed))) if length == fields.len() => parsed,
            Ok(_) => return Err(MALFORMED),
            Err(httparse::Error::TooManyHeaders) => {
                return Err(Refusal::new(431, "the request has too many fields"));
            }
            Err(httparse::Error::HeaderName) => return Err(Refusal::bad("a field name is malformed")),
            Err(_) => return Err(Refusal::bad("a field is malformed")),
        };
        let form = form_of(method, target, strictness)?;
        let host = host_of(fields, minor, strictness)?;
        let framing = framing_of(fields, minor)?;
        let minor_at = end - 1;
        Ok(Self { method, target, form, minor, minor_at, host, framing, fields })
    }
}

const MALFORMED: Refusal = Refusal::bad("the head is malformed");

fn is_blank(byte: &u8) -> bool {
    matches!(byte, b' ' | b'\t')
}

/// Searches `bytes` for the end of a head. The search starts at `at` and advances `at`, so that it can continue when
/// more bytes arrive. Only CR LF ends a line. Returns `None` if the head is incomplete.
///
/// # Errors
/// The bytes cannot become a head, however they continue.
pub fn end_of_head(bytes: &[u8], at: &mut usize) -> Result<Option<usize>, Refusal> {
    while let Some(found) = memchr::memchr3(b'\r', b'\n', 0, &bytes[*at..]) {
        *at += found;
        match bytes[*at..] {
            [b'\r', b'\n', ..] => {
                *at += 2;
                if bytes[..*at].ends_with(b"\r\n\r\n") {
                    return Ok(Some(*at));
                }
            }
            // The byte after the CR has not been received yet.
            [b'\r'] => return Ok(None),
            [b'\r', ..] => return Err(Refusal::bad("a CR is not followed by LF")),
            // RFC 9112 §2.2: a recipient may accept a bare LF. This parser refuses it, because some other parsers do
            // not regard a bare LF as the end of a line.
            [b'\n', ..] => return Err(Refusal::bad("a line ends with LF alone")),
            _ => return Err(Refusal::bad("the head contains a NUL")),
        }
    }
    *at = bytes.len();
    Ok(None)
}

/// Returns the status and the reason with which a server refuses a head that is larger than `most` bytes. `head` is the
/// part of the head that was received so far.
#[must_use]
pub fn too_large(head: &[u8], most: usize) -> Refusal {
    let line = head.split(|&byte| byte == b'\r').next().unwrap_or_default();
    let is_line = line.len() == head.len() || line.len() > most;
    match line.iter().position(|&byte| byte == b' ') {
        // RFC 9112 §3: the status is 414 for a target that is too long, and 501 for a method that is too long.
        Some(at) if is_line && at < most => TOO_LONG,
        _ if is_line => Refusal::new(501, "the method is too long to be known"),
        _ => Refusal::new(431, "the head is too large"),
    }
}

const TOO_LONG: Refusal = Refusal { status: 414, why: Cow::Borrowed("the request target is too long") };

/// RFC 9112 §3: splits a request line into method, target and version, which are separated by one space each.
fn request_line(line: &[u8]) -> Result<(&str, &str, &str), Refusal> {
    let mut parts = std::str::from_utf8(line).unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (parts.next(), parts.next(), parts.next(), parts.next())
    else {
        return Err(Refusal::bad("the request line is malformed"));
    };
    if method.is_empty() || !method.bytes().all(is_token_byte) {
        return Err(Refusal::bad("the method is malformed"));
    }
    if target.is_empty() {
        return Err(Refusal::bad("the request target is malformed"));
    }
    if target.len() > MAX_TARGET {
        return Err(TOO_LONG);
    }
    Ok((method, target, version))
}

/// RFC 9112 §2.3: a later minor version is treated as 1, the latest version that this parser knows.
fn minor_version(version: &str) -> Result<u8, Refusal> {
    match version.as_bytes() {
        b"HTTP/1.0" => Ok(0),
        [b'H', b'T', b'T', b'P', b'/', b'1', b'.', b'1'..=b'9'] => Ok(1),
        [b'H', b'T', b'T', b'P', b'/', b'0'..=b'9', b'.', b'0'..=b'9'] => {
            Err(Refusal::new(505, "the request is of another version than HTTP/1"))
        }
        _ => Err(Refusal::bad("the version of the request is malformed")),
    }
}

fn form_of<'a>(method: &str, target: &'a str, strictness: Strictness) -> Result<Form<'a>, Refusal> {
    if method == "CONNECT" {
        // RFC 9110 §9.3.6: the port is mandatory in the target of CONNECT.
        let written = target.rsplit_once(':').is_some_and(|(_, port)| !port.is_empty());
        let good = written && is_authority(target);
        return if good { Ok(Form::Authority(target)) } else { Err(Refusal::bad("CONNECT needs HOST:PORT")) };
    }
    if target == "*" {
        // RFC 9112 §3.2.4: only OPTIONS may have the target `*`.
        return if method == "OPTIONS" { Ok(Form::Asterisk) } else { Err(Refusal::bad("* is for OPTIONS")) };
    }
    if target.starts_with('/') {
        return match strictness == Strictness::AsRecorded || is_path_and_query(target) {
            true => Ok(Form::Origin(target)),
            false => Err(INVALID_TARGET),
        };
    }
    let neither = Refusal::bad("the request target is neither a path nor a URL");
    let (scheme, rest) = target.split_once("://").ok_or(neither)?;
    let secure = scheme.eq_ignore_ascii_case("https");
    if !secure && !scheme.eq_ignore_ascii_case("http") {
        return Err(Refusal::bad("the scheme is neither http nor https"));
    }
    let end = rest.find(['/', '?', '#']).unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    // RFC 9110 §4.2.1, §4.2.4: the host is mandatory, and userinfo is not allowed.
    if authority.is_empty()
        || authority.starts_with(':')
        || authority.contains('%')
        || !is_authority(authority)
    {
        return Err(Refusal::bad("the URL has no valid host"));
    }
    if !is_path_and_query(path) {
        return Err(INVALID_TARGET);
    }
    Ok(Form::Absolute { secure, authority, path })
}

const INVALID_TARGET: Refusal = Refusal::bad("the request target has an invalid character");

/// Returns whether `text` can be the path and query of a request target (RFC 3986 §3.3, §3.4). Also accepts characters
/// that browsers send unencoded: `[ ] ^ |`, and in a query also `\ { } %` and the grave accent. A fragment is not
/// allowed.
#[must_use]
pub fn is_path_and_query(text: &str) -> bool {
    let bytes = text.as_bytes();
    let (bytes, query) = bytes.split_at(memchr::memchr(b'?', bytes).unwrap_or(bytes.len()));
    let encoded = |at: usize| {
        let digits = bytes.get(at + 1..at + 3);
        digits.is_some_and(|digits| digits.iter().all(u8::is_ascii_hexdigit))
    };
    let in_path = |(at, &byte): (usize, &u8)| match byte {
        b'%' => encoded(at),
        _ => is_path_byte(byte),
    };
    bytes.iter().enumerate().all(in_path)
        && query
            .iter()
            .all(|&byte| is_path_byte(byte) || matches!(byte, b'?' | b'%' | b'\\' | b'`' | b'{' | b'}'))
}

fn is_path_byte(byte: u8) -> bool {
    // All visible characters except these ten are allowed.
    byte.is_ascii_graphic()
        && !matches!(byte, b'"' | b'#' | b'<' | b'>' | b'?' | b'%' | b'\\' | b'`' | b'{' | b'}')
}

/// RFC 9112 §3.2: a request has exactly one Host field, whose value is an authority or empty. HTTP/1.0 may omit the
/// field.
fn host_of<'a>(
    fields: &[httparse::Header<'a>],
    minor: u8,
    strictness: Strictness,
) -> Result<Option<&'a str>, Refusal> {
    let mut hosts = fields.iter().filter(|field| field.name.eq_ignore_ascii_case("host"));
    match (hosts.next(), hosts.next()) {
        (None, _) if minor == 0 => Ok(None),
        (None, _) => Err(Refusal::bad("the request has no Host field")),
        (Some(_), Some(_)) => Err(Refusal::bad("the request has several Host fields")),
        (Some(field), None) => {
            let host = std::str::from_utf8(field.value.trim_ascii()).ok();
            let good = |host: &&str| match strictness {
                Strictness::Strictly => is_host(host),
                Strictness::AsRecorded => !host.contains(['/', '?', '#', ' ', '\t']),
            };
            host.filter(good).map(Some).ok_or(Refusal::bad("the Host field is malformed"))
        }
    }
}

/// Returns whether `text` can be the value of Host (RFC 9110 §7.2): it is an authority or empty.
#[must_use]
pub fn is_host(text: &str) -> bool {
    text.is_empty() || is_authority(text)
}

/// RFC 9112 §6.3: determines how the body of a request ends.
fn framing_of(fields: &[httparse::Header<'_>], minor: u8) -> Result<Framing, Refusal> {
    let mut length = None;
    let mut coded = None;
    for field in fields {
        if field.name.eq_ignore_ascii_case("content-length") {
            // RFC 9110 §8.6: Content-Length is one number. A second Content-Length is refused even if it has the same
            // value.
            let number = number(field.value).filter(|_| length.is_none());
            length = Some(number.ok_or(Refusal::bad("Content-Length is not one number"))?);
        } else if field.name.eq_ignore_ascii_case("transfer-encoding") && coded.replace(field.value).is_some()
        {
            return Err(Refusal::bad("the request has several transfer codings"));
        }
    }
    match (coded, length) {
        (None, None) => Ok(Framing::Empty),
        (None, Some(length)) => Ok(Framing::Length(length)),
        // RFC 9112 §6.1: a request with Content-Length and Transfer-Encoding may be an attempt at request smuggling.
        (Some(_), Some(_)) => Err(Refusal::bad("the request has a length and a transfer coding")),
        // RFC 9112 §6.1: a transfer coding in an HTTP/1.0 message means that its framing is faulty.
        (Some(_), None) if minor == 0 => Err(Refusal::bad("HTTP/1.0 has no transfer codings")),
        (Some(codings), None) => {
            let codings: Vec<&[u8]> = codings.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).collect();
            let chunked = |coding: &&[u8]| coding.eq_ignore_ascii_case(b"chunked");
            match codings.split_last() {
                Some((last, [])) if chunked(last) => Ok(Framing::Chunked),
                // RFC 9112 §6.1: the response to an unknown coding is 501, as long as it is clear where the body ends.
                Some((last, others)) if chunked(last) && !others.iter().any(chunked) => {
                    Err(Refusal::new(501, "chunked is the only transfer coding that is known here"))
                }
                _ => Err(Refusal::bad("the transfer coding does not end with chunked")),
            }
        }
    }
}

/// RFC 9110 §8.6: parses a Content-Length value, which consists of digits only, without a sign or a list.
#[must_use]
pub fn number(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii();
    if value.is_empty() || !value.iter().all(u8::is_ascii_digit) {
        return None;
    }
    std::str::from_utf8(value).ok()?.parse().ok()
}

/// RFC 9110 §5.6.2: whether `byte` may occur in a token.
fn is_token_byte(byte: u8) -> bool {
    byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// The maximum number of fields in a head.
pub const MAX_FIELDS: usize = 100;
/// The maximum length of a request target in bytes.
const MAX_TARGET: usize = 65_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_end_with_an_empty_line_of_cr_lf_only() {
        let end = |text: &[u8]| {
            let (mut at, mut found) = (0, Ok(None));
            // The result must not depend on how the input is split.
            for length in 1..=text.len() {
                found = end_of_head(&text[..length], &mut at);
                if !matches!(found, Ok(None)) {
                    break;
                }
            }
            found.map_err(|refusal| refusal.status)
        };
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nrest"), Ok(Some(27)));
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\r\n"), Ok(None));
        assert_eq!(end(b"GET / HTTP/1.1\nHost: a\r\n\r\n"), Err(400));
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\n\n"), Err(400));
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n"), Err(400));
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\0\r\n\r\n"), Err(400));
        assert_eq!(end(b"GET / HTTP/1.1\r\r\n\r\n"), Err(400));
    }
}
