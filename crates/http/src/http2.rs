//! HTTP/2 (RFC 9113) on the single stream of a session, implemented with the crate `h2`.
//!
//! h2 implements frames, header compression (RFC 7541) and flow control. This module decides what h2 leaves open: the
//! windows that an endpoint grants, and which response a server writes next (RFC 9218). It also tracks the position of
//! each frame in the byte stream of the session, so that delays can be attributed to frames. h2 needs no executor and
//! no timer. It reads the operating system's clock only to forget reset streams after some time. Here this time is
//! infinite, so results do not depend on the clock.
//!
//! - `io`: adapts a stream for h2, and reports the frames that h2 writes
//! - `priority`: priorities, and the order of responses
//! - `heads`: pads request and response heads to the size that the page specifies
//! - `faults`: finds errors for which RFC 9113 requires another error code than h2 reports
//! - `response`: reads a response, and refuses a malformed one
//! - `client`: the settings and close reasons of HTTP/2 clients; the server's side is in `serve`

pub(crate) mod client;
pub(crate) mod faults;
pub(crate) mod heads;
pub(crate) mod io;
pub mod priority;
pub(crate) mod response;

use std::time::Duration;

/// The windows and limits that an endpoint announces to its peer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Windows {
    /// The initial window of a stream in bytes (RFC 9113 §6.5.2, SETTINGS_INITIAL_WINDOW_SIZE).
    pub stream: u32,
    /// The window of the connection in bytes (§6.9.1).
    pub connection: u32,
    /// The maximum size in bytes of a frame that this endpoint accepts from its peer (SETTINGS_MAX_FRAME_SIZE).
    pub max_frame_size: u32,
    /// The maximum number of outstanding requests until the server announces its own limit.
    pub concurrent: u32,
}

/// The windows of well-known clients: name, windows and source.
pub const CLIENTS: &[(&str, Windows, &str)] = &[
    (
        "chromium",
        Windows { stream: 6 << 20, connection: 15 << 20, max_frame_size: 16_384, concurrent: 100 },
        "Chromium net/http/http_network_session.cc: kSpdyStreamMaxRecvWindowSize 6 MiB, kSpdySessionMaxRecvWindowSize \
         15 MiB; net/spdy/spdy_session.h: kInitialMaxConcurrentStreams 100",
    ),
    (
        "firefox",
        Windows { stream: 131_072, connection: 12 << 20, max_frame_size: 16_384, concurrent: 100 },
        "Firefox's first frames: SETTINGS_INITIAL_WINDOW_SIZE 131072, SETTINGS_MAX_FRAME_SIZE 16384, WINDOW_UPDATE \
         12517377 (to 12 MiB); network.http.http2.default-concurrent 100",
    ),
    (
        "nginx",
        Windows { stream: (1 << 31) - 1, connection: (1 << 31) - 1, max_frame_size: 16_384, concurrent: 100 },
        "nginx src/http/modules/ngx_http_proxy_v2_module.c: SETTINGS_INITIAL_WINDOW_SIZE 0x7fffffff, WINDOW_UPDATE \
         0x7fff0000, as it says to servers behind it (of which it asks one thing at a time on a connection)",
    ),
    (
        "rfc",
        Windows { stream: 65_535, connection: 65_535, max_frame_size: 16_384, concurrent: 100 },
        "RFC 9113 §6.5.2, §6.9.2: the values of who says nothing",
    ),
];

impl Default for Windows {
    /// Returns the windows of Chromium.
    fn default() -> Self {
        CLIENTS[0].1
    }
}

/// The limits of our server, which are nginx's defaults.
pub(crate) mod server {
    /// The maximum number of concurrent streams, as in nginx's `http2_max_concurrent_streams 128`.
    pub(crate) const CONCURRENT: u32 = 128;
    /// The number of bytes of one response that are written before it is the turn of the next response, as in nginx's
    /// `http2_chunk_size 8k`.
    pub(crate) const CHUNK: usize = 8 * 1024;
    /// The maximum number of response bytes that h2 holds. It is enough for two chunks of `CHUNK` bytes, so that the
    /// transport never waits for the server. `io` may buffer the same number of bytes until the end of a poll, to send
    /// them together.
    pub(crate) const UNSENT: usize = 2 * CHUNK;
    /// The initial window for a request body in bytes. Requests to this server have no body.
    pub(crate) const WINDOW: u32 = 65_535;
}

/// How long h2 remembers a stream that it has reset. The time is infinite, so that no result depends on h2's clock.
pub(crate) const FOR_EVER: Duration = Duration::MAX;
/// How many reset streams h2 remembers. Frames on other reset streams are answered like frames on unknown streams.
pub(crate) const RESETS: usize = 32;
/// The maximum size in bytes of an accepted head, computed as in SETTINGS_MAX_HEADER_LIST_SIZE (RFC 9113 §6.5.2).
pub(crate) const MAX_HEAD: u32 = 64 * 1024;
/// The protocol's name in ALPN (RFC 9113 §3.2).
pub const ALPN: &[u8] = b"h2";
/// The first bytes that a client sends (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
