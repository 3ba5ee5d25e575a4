//! A line of the access log: the request and its response.

use http::Version;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;

/// A finished exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// The peer's address, if the transport knows it.
    pub peer: Option<SocketAddr>,
    /// The stream of the session.
    pub stream: u64,
    /// The method of the request.
    pub method: String,
    /// The request target.
    pub target: String,
    /// The version of the request; 1.1 if the request could not be parsed.
    pub version: Version,
    /// The status of the response.
    pub status: u16,
    /// Bytes of the body that were passed to the transport.
    pub bytes: u64,
}

/// Writes exchanges to the access log. Clones write to the same log.
#[derive(Clone)]
pub struct Log(Rc<dyn Fn(&Access)>);

impl Log {
    /// Returns a log that calls `write` for each exchange.
    pub fn new(write: impl Fn(&Access) + 'static) -> Self {
        Self(Rc::new(write))
    }

    /// Writes one exchange.
    pub fn write(&self, access: &Access) {
        (self.0)(access);
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

/// An exchange that is still in progress.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) access: Access,
    pub(super) log: Log,
}

impl Entry {
    /// Writes the exchange to the log, with the number of body bytes sent.
    pub(super) fn write(mut self, bytes: u64) {
        self.access.bytes = bytes;
        self.log.write(&self.access);
    }
}
