//! The header fields of a request or response: parses the fields, and selects the ones that are forwarded to the next
//! hop.
//!
//! Implements RFC 9112 §5 and RFC 9110 §7.6.1 as far as they concern a gateway.

use anabranch_http::framing::Framing;
use anabranch_http::head::number;

/// A header field as it was received.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Field {
    pub(super) name: String,
    pub(super) value: Vec<u8>,
}

impl Field {
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    pub(crate) fn value(&self) -> &[u8] {
        &self.value
    }

    pub(crate) fn is(&self, name: &str) -> bool {
        self.name.eq_ignore_ascii_case(name)
    }

    /// Returns the members of the field's list (RFC 9110 §5.6.1).
    pub(super) fn list(&self) -> impl Iterator<Item = &[u8]> {
        self.value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty())
    }

    /// Returns whether some programs take this field for Content-Length or Transfer-Encoding, although it has another
    /// name. Some programs do not distinguish `-` from other punctuation in names (RFC 3875 §4.1.18).
    pub(super) fn resembles_framing_field(&self) -> bool {
        let same = |(left, right): (u8, u8)| {
            left.eq_ignore_ascii_case(&right) || right == b'-' && !left.is_ascii_alphanumeric()
        };
        ["content-length", "transfer-encoding"].iter().any(|name| {
            let alike = name.len() == self.name.len() && self.name.bytes().zip(name.bytes()).all(same);
            alike && !self.is(name)
        })
    }
}

pub(super) fn fields_of(parsed: &[httparse::Header<'_>]) -> Vec<Field> {
    parsed.iter().map(|field| Field { name: field.name.to_owned(), value: field.value.to_vec() }).collect()
}

/// RFC 9112 §5.2: returns whether a line begins with white space, so that it would continue the previous field.
pub(super) fn is_folded(head: &[u8]) -> bool {
    head.windows(2).any(|pair| pair[0] == b'\n' && matches!(pair[1], b' ' | b'\t'))
}

/// RFC 9112 §6.3: returns the value of Content-Length, which must be one number in one field. A second field is refused
/// even if it has the same value.
pub(super) fn length_of(fields: &[Field]) -> Result<Option<u64>, ()> {
    let mut lengths = fields.iter().filter(|field| field.is("content-length"));
    match (lengths.next(), lengths.next()) {
        (None, _) => Ok(None),
        (Some(field), None) => number(&field.value).map(Some).ok_or(()),
        (Some(_), Some(_)) => Err(()),
    }
}

/// RFC 9110 §7.6.1: returns whether a field is only for the next hop, by definition or because Connection names it.
/// `options` are the options of Connection.
pub(super) fn is_hop_by_hop(field: &Field, options: &[&[u8]]) -> bool {
    const HOP_BY_HOP: [&str; 12] = [
        "connection",
        "keep-alive",
        "proxy-connection",
        "proxy-authorization",
        "proxy-authenticate",
        "proxy-authentication-info",
        "te",
        "trailer",
        "transfer-encoding",
        "upgrade",
        "http2-settings",
        TUNNEL_FRAMING,
    ];
    HOP_BY_HOP.iter().any(|name| field.is(name)) || has(options, &field.name)
}

pub(super) fn write_fields(out: &mut Vec<u8>, fields: &[Field], own: impl Fn(&Field) -> bool) {
    // Parsing the options cannot fail, because a head with too many options was refused when it was parsed.
    let options = connection_options(fields).unwrap_or_default();
    for field in fields.iter().filter(|field| !own(field) && !is_hop_by_hop(field, &options)) {
        write_field(out, &field.name, &field.value);
    }
}

/// Appends a header field to `out`.
pub(crate) fn write_field(out: &mut Vec<u8>, name: &str, value: &[u8]) {
    out.extend_from_slice(name.as_bytes());
    out.extend_from_slice(b": ");
    out.extend_from_slice(value);
    out.extend_from_slice(b"\r\n");
}

/// Appends the header fields with which one gateway tells another that it supports tunnels whose bytes are sent in
/// chunks.
pub(crate) fn write_tunnel_framing(out: &mut Vec<u8>) {
    write_field(out, TUNNEL_FRAMING, b"chunked");
    write_field(out, "Connection", TUNNEL_FRAMING.as_bytes());
}

/// Appends trailers to `out`. `lines` are the received trailer lines. Fields that are allowed only in a head are
/// dropped (RFC 9110 §6.5.1): those for framing, routing, authentication and content.
pub(crate) fn write_trailers(out: &mut Vec<u8>, lines: &[u8]) -> Result<(), ()> {
    let mut room = [httparse::EMPTY_HEADER; MAX_FIELDS];
    let block = [lines, b"\r\n"].concat();
    if is_folded(&block) || block.starts_with(b" ") || block.starts_with(b"\t") {
        return Err(());
    }
    let Ok(httparse::Status::Complete((_, parsed))) = httparse::parse_headers(&block, &mut room) else {
        return Err(());
    };
    let of_heads = |field: &Field| {
        is_hop_by_hop(field, &[])
            || field.resembles_framing_field()
            || HEADS_ALONE.iter().any(|name| field.is(name))
            || field.name.to_ascii_lowercase().starts_with("content-")
    };
    for field in fields_of(parsed).iter().filter(|field| !of_heads(field)) {
        write_field(out, &field.name, &field.value);
    }
    Ok(())
}

/// The fields that are dropped from trailers, because only in a head are they meaningful and harmless.
const HEADS_ALONE: [&str; 24] = [
    "age",
    "alt-svc",
    "authorization",
    "cache-control",
    "cookie",
    "date",
    "expect",
    "expires",
    "forwarded",
    "host",
    "if-match",
    "if-modified-since",
    "if-none-match",
    "if-range",
    "if-unmodified-since",
    "location",
    "max-forwards",
    "pragma",
    "range",
    "retry-after",
    "set-cookie",
    "vary",
    "via",
    "www-authenticate",
];

pub(super) fn write_framing(out: &mut Vec<u8>, framing: Framing) {
    match framing {
        Framing::Empty | Framing::Close => {}
        Framing::Length(length) => write_field(out, "Content-Length", length.to_string().as_bytes()),
        Framing::Chunked => write_field(out, "Transfer-Encoding", b"chunked"),
    }
}

/// Returns the options of Connection (RFC 9110 §7.6.1). At most [`MAX_FIELDS`] options are allowed, because each field
/// is compared with every option.
pub(super) fn connection_options(fields: &[Field]) -> Result<Vec<&[u8]>, &'static str> {
    let mut options = Vec::new();
    for field in fields.iter().filter(|field| field.is("connection")) {
        let tokens = field.value.split(|&byte| byte == b',').map(<[u8]>::trim_ascii);
        for token in tokens.filter(|token| !token.is_empty()) {
            if options.len() == MAX_FIELDS {
                return Err("Connection has too many options");
            }
            options.push(token);
        }
    }
    Ok(options)
}

pub(super) fn has(options: &[&[u8]], name: &str) -> bool {
    options.iter().any(|option| option.eq_ignore_ascii_case(name.as_bytes()))
}

pub(super) fn contains_field_value(fields: &[Field], name: &str, value: &str) -> bool {
    let mut named = fields.iter().filter(|field| field.is(name));
    named.next().is_some_and(|field| field.value.trim_ascii().eq_ignore_ascii_case(value.as_bytes()))
        && named.next().is_none()
}

/// The field by which two gateways agree to send a tunnel's bytes in chunks. They need chunks if the tunnel's stream
/// cannot be half-closed.
pub(crate) const TUNNEL_FRAMING: &str = "tunnel-framing";

/// The maximum number of fields in a head.
pub(super) const MAX_FIELDS: usize = 128;
