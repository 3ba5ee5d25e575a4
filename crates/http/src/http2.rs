//! HTTP/2 on the one stream of a session: RFC 9113, by the crate `h2`.
//!
//! Frames, header compression (RFC 7541) and flow control are h2's. Ours is what it leaves open: which windows an end
//! grants, whose bytes a server writes next (RFC 9218), and where each frame lies on the stream, so that it can be told
//! what was waited for. h2 needs no executor and no timer. It looks at the clock of the operating system in one place, to
//! forget streams that it has reset; here it never forgets them by time, so nothing hangs on that clock.
//!
//! - `io`: a stream as h2 reads and writes it, and the frames that pass
//! - `priority`: urgencies, and whose turn it is
//! - `heads`: heads of a page's size
//! - `faults`: the codes of errors that h2 tells as others
//! - `client`: exchanges of a fetch; the server's side is `serve`'s

pub(crate) mod client;
pub(crate) mod faults;
pub(crate) mod heads;
pub(crate) mod io;
pub mod priority;

use std::time::Duration;

/// What an end grants the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Windows {
    /// What may come on a stream before more is granted, bytes (RFC 9113 §6.5.2, SETTINGS_INITIAL_WINDOW_SIZE).
    pub stream: u32,
    /// And on all streams together (§6.9.1).
    pub connection: u32,
    /// The largest frame that it takes, bytes (SETTINGS_MAX_FRAME_SIZE).
    pub frame: u32,
    /// Requests outstanding at once, until the server says how many it takes.
    pub concurrent: u32,
}

/// The windows of a client, by name, with their source.
pub const CLIENTS: &[(&str, Windows, &str)] = &[
    (
        "chromium",
        Windows { stream: 6 << 20, connection: 15 << 20, frame: 16_384, concurrent: 100 },
        "Chromium net/http/http_network_session.cc: kSpdyStreamMaxRecvWindowSize 6 MiB, kSpdySessionMaxRecvWindowSize \
         15 MiB; net/spdy/spdy_session.h: kInitialMaxConcurrentStreams 100",
    ),
    (
        "firefox",
        Windows { stream: 131_072, connection: 12 << 20, frame: 16_384, concurrent: 100 },
        "Firefox's first frames: SETTINGS_INITIAL_WINDOW_SIZE 131072, SETTINGS_MAX_FRAME_SIZE 16384, WINDOW_UPDATE \
         12517377 (to 12 MiB); network.http.http2.default-concurrent 100",
    ),
    (
        "nginx",
        Windows { stream: (1 << 31) - 1, connection: (1 << 31) - 1, frame: 16_384, concurrent: 100 },
        "nginx src/http/modules/ngx_http_proxy_v2_module.c: SETTINGS_INITIAL_WINDOW_SIZE 0x7fffffff, WINDOW_UPDATE \
         0x7fff0000, as it says to servers behind it (of which it asks one thing at a time on a connection)",
    ),
    (
        "rfc",
        Windows { stream: 65_535, connection: 65_535, frame: 16_384, concurrent: 100 },
        "RFC 9113 §6.5.2, §6.9.2: the values of who says nothing",
    ),
];

impl Default for Windows {
    /// Chromium's.
    fn default() -> Self {
        CLIENTS[0].1
    }
}

/// What a server of ours grants and does: nginx's defaults.
pub(crate) mod server {
    /// `http2_max_concurrent_streams 128`.
    pub(crate) const CONCURRENT: u32 = 128;
    /// nginx's `http2_chunk_size 8k`: what is written of one answer before the next turn.
    pub(crate) const CHUNK: usize = 8 * 1024;
    /// Bytes of answers that h2 has and the transport has not, at most; two turns, so that the transport never waits for us. As
    /// much again may wait to leave in one go.
    pub(crate) const UNSENT: usize = 2 * CHUNK;
    /// What a request's body may have before more is granted: requests here have none.
    pub(crate) const WINDOW: u32 = 65_535;
}

/// How long h2 is to remember a stream that it has reset: for ever, so that no result hangs on its clock.
pub(crate) const FOR_EVER: Duration = Duration::MAX;
/// How many such streams: what comes on others is answered as on streams that never were.
pub(crate) const RESETS: usize = 32;
/// The largest head that is taken, bytes as HTTP/2 counts them.
pub(crate) const MAX_HEAD: u32 = 64 * 1024;
/// The protocol's name in ALPN (RFC 9113 §3.2).
pub const ALPN: &[u8] = b"h2";
/// What a client sends before all else (RFC 9113 §3.4).
pub const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
