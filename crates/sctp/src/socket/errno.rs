//! The errors of socket calls, with their POSIX names.
//!
//! Defines the error values that RFC 6458 lists for each call.

/// An error of a socket call.
///
/// ```
/// use anabranch_sctp::socket::Errno;
/// assert_eq!(Errno::Again.name(), "EAGAIN");
/// assert_eq!(Errno::named("EWOULDBLOCK"), Some(Errno::Again));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Errno {
    /// `EAGAIN`: the call would block. `poll_event` returns the socket when the call may succeed.
    #[error("would block")]
    Again,
    /// `EINPROGRESS`: the operation has started. `SO_ERROR` and notifications report its result.
    #[error("now in progress")]
    InProgress,
    /// `EALREADY`: the same operation was started before and is not finished.
    #[error("already in progress")]
    Already,
    /// `EISCONN`: the socket already has an association.
    #[error("already connected")]
    IsConnected,
    /// `ENOTCONN`: the socket has no association.
    #[error("not connected")]
    NotConnected,
    /// `EBADF`: there is no such socket.
    #[error("no such socket")]
    BadSocket,
    /// `EINVAL`: an argument is invalid.
    #[error("invalid argument")]
    Invalid,
    /// `EOPNOTSUPP`: this socket style, or the engine, does not support the operation.
    #[error("not supported")]
    NotSupported,
    /// `EADDRINUSE`: the port is in use.
    #[error("address in use")]
    AddressInUse,
    /// `EADDRNOTAVAIL`: there is no such local address, or no port is free.
    #[error("address not available")]
    AddressNotAvailable,
    /// `EHOSTUNREACH`: no local address can reach the peer.
    #[error("no route to the peer")]
    Unreachable,
    /// `ENOENT`: there is no such association.
    #[error("no such association")]
    NoAssociation,
    /// `EMSGSIZE`: the message is larger than the send buffer.
    #[error("message too long")]
    MessageSize,
    /// `EPIPE`: this side has shut down the association.
    #[error("shut down by this side")]
    Pipe,
    /// `ECONNREFUSED`: the peer has refused the association.
    #[error("refused by the peer")]
    Refused,
    /// `ECONNRESET`: the peer has ended the association.
    #[error("reset by the peer")]
    Reset,
    /// `ECONNABORTED`: this side has ended the association.
    #[error("aborted by this side")]
    Aborted,
    /// `ETIMEDOUT`: the peer did not answer.
    #[error("timed out")]
    TimedOut,
    /// `EPROTO`: the peer has violated the protocol.
    #[error("protocol error")]
    Protocol,
}

/// The POSIX name of each error. Two errors have a second POSIX name, at the end.
const NAMES: &[(Errno, &str)] = &[
    (Errno::Again, "EAGAIN"),
    (Errno::InProgress, "EINPROGRESS"),
    (Errno::Already, "EALREADY"),
    (Errno::IsConnected, "EISCONN"),
    (Errno::NotConnected, "ENOTCONN"),
    (Errno::BadSocket, "EBADF"),
    (Errno::Invalid, "EINVAL"),
    (Errno::NotSupported, "EOPNOTSUPP"),
    (Errno::AddressInUse, "EADDRINUSE"),
    (Errno::AddressNotAvailable, "EADDRNOTAVAIL"),
    (Errno::Unreachable, "EHOSTUNREACH"),
    (Errno::NoAssociation, "ENOENT"),
    (Errno::MessageSize, "EMSGSIZE"),
    (Errno::Pipe, "EPIPE"),
    (Errno::Refused, "ECONNREFUSED"),
    (Errno::Reset, "ECONNRESET"),
    (Errno::Aborted, "ECONNABORTED"),
    (Errno::TimedOut, "ETIMEDOUT"),
    (Errno::Protocol, "EPROTO"),
    (Errno::Again, "EWOULDBLOCK"),
    // POSIX has a separate name for options that are not supported.
    (Errno::NotSupported, "ENOPROTOOPT"),
];

impl Errno {
    /// Returns the POSIX name of the error, for example `EAGAIN`.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(errno, _)| *errno == self).map_or("EIO", |(_, name)| name)
    }

    /// Returns the error with this POSIX name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(errno, _)| *errno)
    }
}
