//! HTTP/3 (RFC 9114) on the streams of a session, with the static table of QPACK (RFC 9204).
//!
//! The modules that `connection` builds on do no I/O: they receive bytes, and return events or an error. Therefore each
//! error has the code that the RFC requires, and each rule can be tested without a network. [`message`](crate::message)
//! checks the messages of HTTP/2 and HTTP/3, which carry control data in pseudo-header fields. Unlike the crate `h2`,
//! this module has no dynamic table, so a head is not compressed against earlier heads. Each exchange has a QUIC stream
//! of its own. Therefore the offset of a byte in the exchange is also its stream offset in the trace of the QUIC
//! engine. [`http2::priority`](crate::http2::priority) decides which response a server writes next (RFC 9218).
//!
//! - `code`: error codes, and the scope of an error
//! - `frame`: integers and frame headers
//! - `instructions`: the instructions on the QPACK streams
//! - `message_reader`: the frames of a request stream
//! - `peer_streams`: the control stream and the QPACK streams of the peer
//! - `streams`: one stream of a session, as HTTP/3 reads and writes it
//! - `connection`: all streams of a session
//! - `client`: the exchanges of HTTP/3 clients; the server's side is in `serve`

pub(crate) mod client;
mod code;
pub(crate) mod connection;
mod frame;
mod instructions;
mod message_reader;
mod peer_streams;
pub(crate) mod streams;

pub use code::{Code, Error};
pub(crate) use frame::kind;
pub(crate) use message_reader::Event;

use anabranch_wire::qpack;
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use message_reader::MessageReader;

/// The protocol's name in ALPN (RFC 9114 §3.1).
pub const ALPN: &[u8] = b"h3";
/// The maximum size in bytes of an accepted head, computed as in RFC 9114 §4.2.2.
pub(crate) const MAX_HEAD: u64 = 64 * 1024;

/// Encodes the field section of a request. Also returns the size of the section, computed as in RFC 9114 §4.2.2.
pub(crate) fn encode_request(request: &Request<()>) -> (Bytes, u64) {
    let uri = request.uri();
    let pseudo = [
        (":method", Some(request.method().as_str())),
        (":scheme", uri.scheme_str()),
        (":authority", uri.authority().map(http::uri::Authority::as_str)),
        (":path", uri.path_and_query().map(http::uri::PathAndQuery::as_str)),
    ];
    encode(pseudo.into_iter().filter_map(|(name, value)| Some((name, value?))), request.headers())
}

/// Encodes the field section of a response.
pub(crate) fn encode_response(status: StatusCode, fields: &HeaderMap) -> Bytes {
    encode(std::iter::once((":status", status.as_str())), fields).0
}

fn encode<'a>(pseudo: impl Iterator<Item = (&'a str, &'a str)>, fields: &'a HeaderMap) -> (Bytes, u64) {
    let pseudo = pseudo.map(|(name, value)| (name.as_bytes(), value.as_bytes()));
    let fields = fields.iter().map(|(name, value)| (name.as_str().as_bytes(), value.as_bytes()));
    let (mut out, mut size) = (Vec::with_capacity(256), 0);
    let counted =
        pseudo.chain(fields).inspect(|(name, value)| size += (name.len() + value.len() + 32) as u64);
    qpack::encode(counted, &mut out);
    (out.into(), size)
}

/// Parses one direction of a request stream in pieces of `piece` bytes, and returns the length of the content. For
/// fuzzing.
///
/// # Errors
/// The error that an endpoint would report for these bytes.
pub fn read_message(bytes: &[u8], is_request: bool, piece: usize) -> Result<u64, Error> {
    let mut reader = MessageReader::new(is_request, MAX_HEAD);
    let mut content = 0;
    for part in bytes.chunks(piece.max(1)) {
        let mut input = Bytes::copy_from_slice(part);
        while let Some(event) = reader.read(&mut input)? {
            match event {
                Event::Data(data) => content += data.len() as u64,
                // If the head of a message is too large, the rest of the message is not read.
                Event::HeadTooLarge(_) => return Ok(content),
                Event::Request(_) | Event::Response(_) => {}
            }
        }
    }
    reader.end().map(|()| content)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Tests that the size of a field section is the sum of all names and values, plus 32 bytes for each field (RFC
    /// 9114 §4.2.2).
    #[test]
    fn the_size_of_a_request_is_counted_as_the_rfc_says() {
        let request = Request::get("https://a.test/bc").header("x", "yz").body(()).expect("a request");
        let (_, size) = encode_request(&request);
        let fields = [
            (":method", "GET"),
            (":scheme", "https"),
            (":authority", "a.test"),
            (":path", "/bc"),
            ("x", "yz"),
        ];
        let counted: usize = fields.iter().map(|(name, value)| name.len() + value.len() + 32).sum();
        assert_eq!(size, counted as u64);
    }
}
