//! What a command can refuse: one small enum a call.

use std::net::IpAddr;

/// Why a port does not listen.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ListenError {
    /// Somebody listens there already.
    #[error("port {0} is listened on already")]
    InUse(u16),
    /// Port 0 names nothing.
    #[error("port 0 cannot be listened on")]
    NoPort,
}

/// Why a connection is not opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// The local address is not this host's.
    #[error("{0} is not an address of this host")]
    NotLocal(IpAddr),
    /// This host has no address of the family of the remote one.
    #[error("no local address can reach {0}")]
    NoAddress(IpAddr),
    /// The remote port is 0.
    #[error("port 0 cannot be connected to")]
    NoPort,
    /// All ephemeral ports to that remote address are taken.
    #[error("no free local port")]
    NoFreePort,
}

/// Why data is not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// The connection is closed or was never there.
    #[error("no such connection")]
    Closed,
    /// The sending side was finished.
    #[error("the sending side is finished")]
    Finished,
}

/// Why nothing can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecvError {
    /// The connection is closed or was never there.
    #[error("no such connection")]
    Closed,
}
