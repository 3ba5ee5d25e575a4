//! The times of a page and of its objects as a recording (a HAR file) has them.

use std::time::Duration;

/// The recorded times of an object. The times are relative to the start of the page, except the durations `blocked` and
/// `server_time`.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Recorded {
    /// When the browser queued the request. The browser sent the request after the time [`blocked`](Self::blocked) had
    /// passed.
    pub queued: Duration,
    /// The time from queueing the request until it was sent or a connection for it was opened.
    pub blocked: Duration,
    /// When the first byte of the response arrived.
    pub first_byte: Duration,
    /// When the last byte of the response arrived.
    pub ended: Duration,
    /// The time that the server took until it answered: the recorded wait minus a round trip to this host. `None` if no
    /// wait is recorded.
    pub server_time: Option<Duration>,
    /// The HTTP version of the response, if it is known.
    pub version: Option<HttpVersion>,
    /// Whether the browser took the object from a cache.
    pub from_cache: bool,
    /// Whether a service worker answered the request.
    pub by_service_worker: bool,
}

/// A version of HTTP that a recording names.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum HttpVersion {
    /// HTTP/1.1 and older.
    Http1,
    /// HTTP/2.
    Http2,
    /// HTTP/3.
    Http3,
}

/// The times of a page load, and estimates of its network, as taken from a recording (a HAR file).
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Recording {
    /// The time from the first request to the last byte of the last response that was requested before the load event.
    pub load: Duration,
    /// The time of the load event, if it is recorded.
    pub on_load: Option<Duration>,
    /// The number of objects over HTTP/1.1, HTTP/2 and HTTP/3.
    pub versions: [usize; 3],
    /// The round-trip time in nanoseconds, inferred from the times to connect.
    pub rtt_ns: Option<Interval>,
    /// The rate of the link towards the client in bit/s, inferred from the responses.
    pub rate_bps: Option<Interval>,
}

/// An estimate with the range in which the true value lies.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interval {
    /// The estimate.
    pub value: u64,
    /// The lower end of the range in which the true value lies.
    pub low: u64,
    /// The upper end of the range. It is `u64::MAX` if the recording sets no limit.
    pub high: u64,
}
