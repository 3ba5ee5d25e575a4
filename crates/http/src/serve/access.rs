//! The access log, in which each entry describes a request and its response.

use http::Version;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;

/// The access log entry of a finished exchange.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// The address of the peer, if the transport knows it.
    pub peer: Option<SocketAddr>,
    /// The number of the stream in the session.
    pub stream: u64,
    /// The method of the request.
    pub method: String,
    /// The request target.
    pub target: String,
    /// The version of the request; 1.1 if the request could not be parsed.
    pub version: Version,
    /// The status of the response.
    pub status: u16,
    /// The number of body bytes that were passed to the transport.
    pub bytes: u64,
}

/// The access log. Clones write to the same log.
#[derive(Clone)]
pub struct Log(Rc<dyn Fn(&Access)>);

impl Log {
    /// Returns a log that calls `write` with each exchange.
    pub fn new(write: impl Fn(&Access) + 'static) -> Self {
        Self(Rc::new(write))
    }

    /// Writes one exchange to the log.
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
pub(super) struct PendingAccess {
    pub(super) access: Access,
    pub(super) log: Log,
}
