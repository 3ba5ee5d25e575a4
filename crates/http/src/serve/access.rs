//! What was asked and answered: a line of the access log.

use http::Version;
use std::fmt;
use std::net::SocketAddr;
use std::rc::Rc;

/// An exchange that is over.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Access {
    /// The peer's address, if the transport knows it.
    pub peer: Option<SocketAddr>,
    /// The stream of the session.
    pub stream: u64,
    /// What was asked.
    pub method: String,
    /// Of what.
    pub target: String,
    /// The version of the request; 1.1 of what could not be read.
    pub version: Version,
    /// The status of the answer.
    pub status: u16,
    /// Bytes of the body that were given to the transport.
    pub bytes: u64,
}

/// Takes accesses. A clone writes to the same place.
#[derive(Clone)]
pub struct Log(Rc<dyn Fn(&Access)>);

impl Log {
    /// Calls `write` for each.
    pub fn new(write: impl Fn(&Access) + 'static) -> Self {
        Self(Rc::new(write))
    }

    /// Takes one.
    pub fn write(&self, access: &Access) {
        (self.0)(access);
    }
}

impl fmt::Debug for Log {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Log")
    }
}

/// An access that is not over yet.
#[derive(Debug)]
pub(super) struct Entry {
    pub(super) access: Access,
    pub(super) log: Log,
}

impl Entry {
    /// It is over, with so many bytes sent.
    pub(super) fn write(mut self, bytes: u64) {
        self.access.bytes = bytes;
        self.log.write(&self.access);
    }
}
