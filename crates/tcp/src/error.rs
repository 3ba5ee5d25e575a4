//! Errors of the endpoint's operations: one enum for each operation.

use std::net::IpAddr;

/// The reason why the endpoint cannot listen on a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ListenError {
    /// The port is already in use.
    #[error("port {0} is listened on already")]
    InUse(u16),
    /// Port 0 is not a valid port.
    #[error("port 0 cannot be listened on")]
    NoPort,
}

/// The reason why a connection cannot be opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum ConnectError {
    /// The local address does not belong to this host.
    #[error("{0} is not an address of this host")]
    NotLocal(IpAddr),
    /// This host has no address of the remote address's family.
    #[error("no local address can reach {0}")]
    NoAddress(IpAddr),
    /// The remote port is 0.
    #[error("port 0 cannot be connected to")]
    NoPort,
    /// All ephemeral ports for connections to the remote address are in use.
    #[error("no free local port")]
    NoFreePort,
}

/// The reason why the connection did not accept data to send.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum SendError {
    /// The connection is closed or never existed.
    #[error("no such connection")]
    Closed,
    /// The sending direction was already finished.
    #[error("the sending side is finished")]
    Finished,
}

/// The reason why data cannot be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum RecvError {
    /// The connection is closed or never existed.
    #[error("no such connection")]
    Closed,
}
