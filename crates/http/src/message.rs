//! Checks whether an HTTP/2 or HTTP/3 message is malformed. Covers pseudo-header fields, field names and values, and
//! the content length.
//!
//! HTTP/2 and HTTP/3 carry the control data of a message as fields, so the same rules apply to both. This module does
//! no framing. Its caller passes it one field line at a time, and the length of each piece of content.
//!
//! Implements RFC 9114 §4.1.2, §4.2, §4.3, §4.4 and §10.3, and RFC 9113 §8.1.1, §8.2, §8.3 and §8.5, which state the
//! same rules.

use crate::authority::Authority;
use bytes::Bytes;
use http::header::{CONTENT_LENGTH, HOST, HeaderMap, HeaderName, HeaderValue};
use http::uri::{PathAndQuery, Scheme};
use http::{Method, Request, StatusCode, Uri};

/// The reason why a message is malformed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("{0}")]
pub struct Malformed(pub &'static str);

/// The field lines of a header or trailer section. Each line is checked when it is added.
#[derive(Debug)]
pub struct Section {
    pseudo: PseudoHeaders,
    fields: HeaderMap,
    /// Whether a field that is not a pseudo-header field has been added.
    has_regular: bool,
    /// The total size of all field lines in bytes, computed as in RFC 9114 §4.2.2.
    size: u64,
    /// The maximum of `size`.
    max_size: u64,
    /// The first error that was found, if any.
    error: Option<Malformed>,
}

/// Pseudo-header fields (RFC 9114 §4.3.1, §4.3.2).
#[derive(Default, Debug)]
struct PseudoHeaders {
    method: Option<Vec<u8>>,
    scheme: Option<Vec<u8>>,
    authority: Option<Vec<u8>>,
    path: Option<Vec<u8>>,
    status: Option<Vec<u8>>,
}

/// The header section of a response.
#[derive(Debug)]
pub struct ResponseHead {
    /// The status code.
    pub status: StatusCode,
    /// The fields of the response, without pseudo-header fields.
    pub fields: HeaderMap,
    /// The declared length of the content, and a count of the content received.
    pub content: ContentLength,
}

/// The next event of a response.
pub(crate) enum ResponseEvent {
    /// The head of the final response.
    Head(ResponseHead),
    /// A piece of the content.
    Data(Bytes),
}

impl Section {
    /// Returns an empty section that may have a size of up to `max_size` bytes.
    #[must_use]
    pub fn new(max_size: u64) -> Self {
        Self {
            pseudo: PseudoHeaders::default(),
            fields: HeaderMap::new(),
            has_regular: false,
            size: 0,
            max_size,
            error: None,
        }
    }

    /// Adds a field line.
    pub fn add(&mut self, name: &[u8], value: &[u8]) {
        self.size += name.len() as u64 + value.len() as u64 + 32;
        if self.size <= self.max_size && self.error.is_none() {
            self.error = self.check_and_add(name, value).err();
        }
    }

    /// Returns the size of the section if it exceeds the limit, otherwise `None`.
    #[must_use]
    pub fn oversize(&self) -> Option<u64> {
        Some(self.size).filter(|size| *size > self.max_size)
    }

    fn check_and_add(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        if name.first() == Some(&b':') {
            return self.add_pseudo(name, value);
        }
        self.has_regular = true;
        // RFC 9114 §4.2, §10.3: a field name is a token in lower case.
        let name = HeaderName::from_lowercase(name)
            .map_err(|_| Malformed("a field name is not a token in lower case"))?;
        let value = field_value(value)?;
        check_connection_specific(&name, &value)?;
        let added = self.fields.try_append(name, value);
        added.map(drop).map_err(|_| Malformed("too many fields"))
    }

    fn add_pseudo(&mut self, name: &[u8], value: &[u8]) -> Result<(), Malformed> {
        // RFC 9114 §4.3: pseudo-header fields come before all other fields.
        if self.has_regular {
            return Err(Malformed("a pseudo-header field comes after a field"));
        }
        let pseudo = &mut self.pseudo;
        let of = match name {
            b":method" => &mut pseudo.method,
            b":scheme" => &mut pseudo.scheme,
            b":authority" => &mut pseudo.authority,
            b":path" => &mut pseudo.path,
            b":status" => &mut pseudo.status,
            // RFC 9114 §4.3: pseudo-header fields other than those above are not defined. Only servers that offer
            // extended CONNECT accept `:protocol` (RFC 9220).
            _ => return Err(Malformed("an undefined pseudo-header field")),
        };
        if of.replace(value.to_vec()).is_some() {
            return Err(Malformed("a pseudo-header field comes twice"));
        }
        Ok(())
    }

    /// Converts the section into the head of a request.
    ///
    /// # Errors
    /// The request is malformed.
    pub fn into_request(self) -> Result<(Request<()>, ContentLength), Malformed> {
        self.error.map_or(Ok(()), Err)?;
        let length = declared_length(&self.fields)?;
        let PseudoHeaders { method, scheme, authority, path, status } = self.pseudo;
        if status.is_some() {
            return Err(Malformed("a request has :status"));
        }
        let method = method.ok_or(Malformed("a request has no :method"))?;
        let method = Method::from_bytes(&method).map_err(|_| Malformed(":method is no token"))?;
        let authority = authority.as_deref().map(checked_authority).transpose()?;
        let host = sole_host(&self.fields)?;
        let host = host.map(|host| checked_authority(host.as_bytes())).transpose()?;
        check_host(authority, host)?;
        let mut uri = http::uri::Parts::default();
        uri.authority = match authority.or(host) {
            // RFC 9114 §4.3.1: the schemes `http` and `https` have a mandatory authority component.
            None => return Err(Malformed("a request has neither :authority nor host")),
            Some(authority) => {
                Some(authority.parse().map_err(|_| Malformed("an authority is not a host with a port"))?)
            }
        };
        if method == Method::CONNECT {
            // RFC 9114 §4.4: the authority of CONNECT has host and port, and no other field names a target.
            if scheme.is_some() || path.is_some() {
                return Err(Malformed("CONNECT has :scheme or :path"));
            }
            if authority.is_none_or(|authority| Authority::parse(authority, None).is_none()) {
                return Err(Malformed(":authority of CONNECT is not a host with a port"));
            }
        } else {
            let scheme = scheme.ok_or(Malformed("a request has no :scheme"))?;
            // RFC 3986 §3.1: a scheme begins with a letter.
            let begins = scheme.first().is_some_and(u8::is_ascii_alphabetic);
            let scheme = Scheme::try_from(&scheme[..]).ok().filter(|_| begins);
            let scheme = scheme.ok_or(Malformed(":scheme is no scheme"))?;
            let path = path.ok_or(Malformed("a request has no :path"))?;
            (uri.scheme, uri.path_and_query) = (Some(scheme), Some(checked_path(&path, &method)?));
        }
        let mut request = Request::new(());
        *request.uri_mut() = Uri::from_parts(uri).map_err(|_| Malformed("the target is not a URI"))?;
        *request.method_mut() = method;
        *request.headers_mut() = self.fields;
        Ok((request, ContentLength::new(length)))
    }

    /// Converts the section into the head of a response to a request that is not HEAD.
    ///
    /// # Errors
    /// The response is malformed.
    pub fn into_response(self) -> Result<ResponseHead, Malformed> {
        self.error.map_or(Ok(()), Err)?;
        let PseudoHeaders { method, scheme, authority, path, status } = self.pseudo;
        if [method, scheme, authority, path].iter().any(Option::is_some) {
            return Err(Malformed("a response has a pseudo-header field of requests"));
        }
        // RFC 9114 §4.3.2: a response has exactly one `:status`.
        let status = status.ok_or(Malformed("a response has no :status"))?;
        let status =
            StatusCode::from_bytes(&status).map_err(|_| Malformed(":status is not a status code"))?;
        ResponseHead::new(status, self.fields)
    }

    /// Checks that the section is a valid trailer section.
    ///
    /// # Errors
    /// The message is malformed.
    pub fn check_trailers(&self) -> Result<(), Malformed> {
        self.error.map_or(Ok(()), Err)?;
        check_fields(&self.fields)?;
        // RFC 9114 §4.3: trailers contain no pseudo-header fields.
        let PseudoHeaders { method, scheme, authority, path, status } = &self.pseudo;
        if [method, scheme, authority, path, status].iter().any(|field| field.is_some()) {
            return Err(Malformed("a trailer section has a pseudo-header field"));
        }
        Ok(())
    }
}

impl ResponseHead {
    /// Checks `fields`, and returns the head of a response with this status. The request must not have been HEAD.
    ///
    /// # Errors
    /// The response is malformed.
    pub fn new(status: StatusCode, fields: HeaderMap) -> Result<Self, Malformed> {
        let length = check_fields(&fields)?;
        // RFC 9114 §4.5, RFC 9113 §8.6: a stream cannot switch to another protocol.
        if status == StatusCode::SWITCHING_PROTOCOLS {
            return Err(Malformed("a response has the status 101"));
        }
        // RFC 9110 §6.4.1: responses with status 204 or 304 have no content, whatever content-length declares.
        let content = match status {
            StatusCode::NO_CONTENT | StatusCode::NOT_MODIFIED => ContentLength::new(Some(0)),
            _ => ContentLength::new(length),
        };
        Ok(Self { status, fields, content })
    }
}

/// Compares the content of a message with its declared length (RFC 9114 §4.1.2).
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct ContentLength {
    declared: Option<u64>,
    received: u64,
}

impl ContentLength {
    /// Returns the state before any content has arrived. `declared` is the length that the head of the message
    /// declares.
    #[must_use]
    pub const fn new(declared: Option<u64>) -> Self {
        Self { declared, received: 0 }
    }

    /// Returns the length that the head declares.
    #[must_use]
    pub const fn declared(&self) -> Option<u64> {
        self.declared
    }

    /// Counts `bytes` more bytes of content.
    ///
    /// # Errors
    /// The content is longer than declared.
    pub fn add(&mut self, bytes: u64) -> Result<(), Malformed> {
        self.received = self.received.saturating_add(bytes);
        if self.declared.is_some_and(|declared| self.received > declared) {
            return Err(Malformed("the content is longer than content-length"));
        }
        Ok(())
    }

    /// Records that the message has ended.
    ///
    /// # Errors
    /// The content is shorter than declared.
    pub fn end(&self) -> Result<(), Malformed> {
        match self.declared.filter(|declared| *declared != self.received) {
            Some(_) => Err(Malformed("the content is shorter than content-length")),
            None => Ok(()),
        }
    }
}

/// Parses the value of a field.
///
/// # Errors
/// The value has a character that is not permitted, or begins or ends with white space.
pub fn field_value(value: &[u8]) -> Result<HeaderValue, Malformed> {
    check_unpadded(value)?;
    HeaderValue::from_bytes(value)
        .map_err(|_| Malformed("a field value has a character that is not permitted"))
}

/// Checks the fields of a head or of trailers. Returns the value of `content-length`, if any.
///
/// # Errors
/// A field is malformed, or occurs more often than allowed.
pub fn check_fields(fields: &HeaderMap) -> Result<Option<u64>, Malformed> {
    let (mut host, mut length) = (false, None);
    // Check all fields in one pass, because looking up a field by its name costs more than comparing the name.
    for (name, value) in fields {
        check_unpadded(value.as_bytes())?;
        check_connection_specific(name, value)?;
        if *name == HOST && std::mem::replace(&mut host, true) {
            return Err(TWO_HOSTS);
        }
        if *name == CONTENT_LENGTH && length.replace(value).is_some() {
            return Err(TWO_LENGTHS);
        }
    }
    length.map(parse_length).transpose()
}

/// RFC 9113 §8.2.1, RFC 9110 §5.5: white space around a value is not part of the value, and only HTTP/1.1 removes it.
fn check_unpadded(value: &[u8]) -> Result<(), Malformed> {
    match [value.first(), value.last()].iter().any(|end| matches!(end, Some(b' ' | b'\t'))) {
        true => Err(Malformed("a field value begins or ends with white space")),
        false => Ok(()),
    }
}

/// Returns the value of `host`. RFC 9110 §7.2: a second `host` is malformed.
fn sole_host(fields: &HeaderMap) -> Result<Option<&HeaderValue>, Malformed> {
    let mut hosts = fields.get_all(HOST).iter();
    let host = hosts.next();
    hosts.next().map_or(Ok(host), |_| Err(TWO_HOSTS))
}

/// Returns the value of `content-length`. RFC 9110 §8.6: a message has only one length. A second `content-length` is
/// malformed even if it has the same value.
fn declared_length(fields: &HeaderMap) -> Result<Option<u64>, Malformed> {
    let mut lengths = fields.get_all(CONTENT_LENGTH).iter();
    let Some(length) = lengths.next() else { return Ok(None) };
    if lengths.next().is_some() {
        return Err(TWO_LENGTHS);
    }
    parse_length(length).map(Some)
}

fn parse_length(length: &HeaderValue) -> Result<u64, Malformed> {
    content_length(length).ok_or(Malformed("content-length is not a number"))
}

const TWO_HOSTS: Malformed = Malformed("host comes twice");
const TWO_LENGTHS: Malformed = Malformed("content-length comes twice");

/// Rejects the fields that concern only an HTTP/1.1 connection (RFC 9114 §4.2, RFC 9113 §8.2.2).
///
/// # Errors
/// The field is connection-specific.
pub fn check_connection_specific(name: &HeaderName, value: &HeaderValue) -> Result<(), Malformed> {
    match name.as_str() {
        "connection" | "proxy-connection" | "keep-alive" | "transfer-encoding" | "upgrade" => {
            Err(Malformed("a field is one of HTTP/1.1's connection"))
        }
        "te" if !value.as_bytes().eq_ignore_ascii_case(b"trailers") => Err(Malformed("te is not 'trailers'")),
        _ => Ok(()),
    }
}

/// Checks that `:authority` and `host` name the same host, if both fields are present (RFC 9114 §4.3.1).
///
/// # Errors
/// The values of the two fields differ.
pub fn check_host(authority: Option<&str>, host: Option<&str>) -> Result<(), Malformed> {
    match (authority, host) {
        (Some(authority), Some(host)) if !authority.eq_ignore_ascii_case(host) => {
            Err(Malformed(":authority and host differ"))
        }
        _ => Ok(()),
    }
}

/// RFC 9114 §4.3.1: returns the authority as text. An empty or malformed authority, or one with userinfo, is an error.
fn checked_authority(authority: &[u8]) -> Result<&str, Malformed> {
    let text = std::str::from_utf8(authority).ok();
    // The parser requires a default port. Only the syntax is checked here, so the value of that port does not matter.
    text.filter(|text| Authority::parse(text, Some(443)).is_some())
        .ok_or(Malformed("an authority is not a host with a port"))
}

/// RFC 9114 §4.3.1: parses a path, which begins with a slash. The path of OPTIONS may be an asterisk.
fn checked_path(path: &[u8], method: &Method) -> Result<PathAndQuery, Malformed> {
    let asterisk = path == b"*" && *method == Method::OPTIONS;
    // RFC 3986 §3.5: a fragment is not part of the request target.
    if !(path.starts_with(b"/") || asterisk) || path.contains(&b'#') {
        return Err(Malformed(":path does not begin with a slash, or has a fragment"));
    }
    PathAndQuery::try_from(path).map_err(|_| Malformed(":path has a character that is not permitted"))
}

/// RFC 9110 §8.6: parses a content-length value, which consists of digits only.
fn content_length(value: &HeaderValue) -> Option<u64> {
    let digits = value.as_bytes();
    let are_digits = !digits.is_empty() && digits.iter().all(u8::is_ascii_digit);
    std::str::from_utf8(digits).ok().filter(|_| are_digits)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn section(fields: &[(&str, &str)]) -> Section {
        let mut section = Section::new(10_000);
        fields.iter().for_each(|(name, value)| section.add(name.as_bytes(), value.as_bytes()));
        section
    }

    const GET: [(&str, &str); 4] =
        [(":method", "GET"), (":scheme", "https"), (":authority", "a"), (":path", "/x?y")];

    /// Parses a request with the fields in `GET`, without the field named `without`, and with the fields in `more`
    /// added.
    fn request(without: &str, more: &[(&str, &str)]) -> Result<(Request<()>, ContentLength), Malformed> {
        let fields = GET.iter().filter(|(name, _)| *name != without).copied();
        section(&fields.chain(more.iter().copied()).collect::<Vec<_>>()).into_request()
    }

    #[test]
    fn requests_that_are_well_formed_are_taken() {
        let (got, content) =
            request("", &[("content-length", "7"), ("te", "trailers"), ("x", "")]).expect("taken");
        assert_eq!((got.uri().to_string().as_str(), content.declared()), ("https://a/x?y", Some(7)));
        for (without, more) in [
            ("", &[("host", "A")][..]),
            (":authority", &[("host", "a:1")]),
            (":authority", &[(":authority", "[::1]:443")]),
            (":scheme", &[(":scheme", "http")]),
        ] {
            assert!(request(without, more).is_ok(), "{without} {more:?}");
        }
        let connect = [(":method", "CONNECT"), (":authority", "a:1")];
        assert_eq!(section(&connect).into_request().expect("taken").0.uri().to_string(), "a:1");
        let options = [(":method", "OPTIONS"), (":scheme", "https"), (":authority", "a"), (":path", "*")];
        assert!(section(&options).into_request().is_ok());
    }

    #[test]
    fn requests_that_are_malformed_are_refused() {
        for (without, more) in [
            (":method", &[][..]),
            (":scheme", &[]),
            (":path", &[]),
            (":authority", &[]),
            ("", &[(":path", "/")]),
            ("", &[(":status", "200")]),
            ("", &[(":protocol", "websocket")]),
            ("", &[(":x", "y")]),
            (":path", &[("a", "b"), (":path", "/")]),
            (":path", &[(":path", "")]),
            (":path", &[(":path", "x")]),
            (":path", &[(":path", "*")]),
            (":path", &[(":path", "/ x")]),
            (":path", &[(":path", "/x#y")]),
            (":path", &[(":path", "https://a/")]),
            (":scheme", &[(":scheme", "")]),
            (":method", &[(":method", "")]),
            (":method", &[(":method", "G T")]),
            (":method", &[(":method", "CONNECT")]),
            (":authority", &[(":authority", "")]),
            (":authority", &[(":authority", "user@a")]),
            (":authority", &[(":authority", "[::1")]),
            (":authority", &[("host", "")]),
            ("", &[("host", "b")]),
            ("", &[("host", "a"), ("host", "a")]),
            ("", &[("X", "y")]),
            ("", &[("", "y")]),
            ("", &[("a b", "y")]),
            ("", &[("x", " y")]),
            ("", &[("x", "y\t")]),
            ("", &[("x", "a\r\nb: c")]),
            ("", &[("x", "a\0")]),
            ("", &[("connection", "close")]),
            ("", &[("proxy-connection", "close")]),
            ("", &[("keep-alive", "1")]),
            ("", &[("transfer-encoding", "chunked")]),
            ("", &[("upgrade", "x")]),
            ("", &[("te", "gzip")]),
            ("", &[("content-length", "x")]),
            ("", &[("content-length", "+1")]),
            ("", &[("content-length", "1, 1")]),
            ("", &[("content-length", "1"), ("content-length", "1")]),
            ("", &[("content-length", "99999999999999999999")]),
        ] {
            assert!(request(without, more).is_err(), "{without} {more:?}");
        }
        for connect in [
            &[(":authority", "a")][..],
            &[("host", "a:1")],
            &[(":authority", "a:1"), (":path", "/")],
            &[(":authority", "a:1"), (":scheme", "https")],
        ] {
            let fields = [&[(":method", "CONNECT")], connect].concat();
            assert!(section(&fields).into_request().is_err(), "{connect:?}");
        }
    }

    #[test]
    fn responses_and_trailers_are_held_to_their_rules() {
        let response = |fields: &[(&str, &str)]| section(fields).into_response();
        let head = response(&[(":status", "200"), ("content-length", "3")]).expect("taken");
        assert_eq!((head.status.as_u16(), head.content.declared()), (200, Some(3)));
        let head = response(&[(":status", "304"), ("content-length", "3")]).expect("taken");
        assert_eq!(head.content.declared(), Some(0));
        for wrong in [
            &[][..],
            &[("x", "y")],
            &[(":status", "101")],
            &[(":status", "20")],
            &[(":status", "2000")],
            &[(":status", "200"), (":status", "200")],
            &[(":status", "200"), (":path", "/")],
            &[(":status", "200"), ("connection", "close")],
            &[(":status", "200"), ("transfer-encoding", "chunked")],
        ] {
            assert!(response(wrong).is_err(), "{wrong:?}");
        }
        assert_eq!(section(&[("x", "y")]).check_trailers(), Ok(()));
        assert!(section(&[(":status", "200")]).check_trailers().is_err());
        assert!(section(&[("X", "y")]).check_trailers().is_err());
    }

    #[test]
    fn sections_are_bounded() {
        let mut section = Section::new(100);
        section.add(b"ab", &[b'x'; 66]);
        assert_eq!(section.oversize(), None);
        (0..1_000_000).for_each(|_| section.add(b"a", b"b"));
        assert_eq!((section.oversize(), section.fields.len()), (Some(34_000_100), 1));
    }

    #[test]
    fn content_must_match_the_declared_length() {
        let mut content = ContentLength::new(Some(3));
        assert!(content.add(2).is_ok() && content.end().is_err());
        assert!(content.add(1).is_ok() && content.end().is_ok() && content.add(1).is_err());
        let mut any = ContentLength::new(None);
        assert!(any.add(u64::MAX).is_ok() && any.add(1).is_ok() && any.end().is_ok());
    }
}
