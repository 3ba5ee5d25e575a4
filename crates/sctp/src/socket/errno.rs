//! Why a socket call failed, in the words of POSIX.
//!
//! Home of the error values that RFC 6458 names call by call.

/// An error of a socket call.
///
/// ```
/// use anabranch_sctp::socket::Errno;
/// assert_eq!(Errno::Again.name(), "EAGAIN");
/// assert_eq!(Errno::named("EWOULDBLOCK"), Some(Errno::Again));
/// ```
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Errno {
    /// `EAGAIN`: not now; the socket wakes when it is worth trying again.
    #[error("would block")]
    Again,
    /// `EINPROGRESS`: begun; the outcome shows in `SO_ERROR` and in notifications.
    #[error("now in progress")]
    InProgress,
    /// `EALREADY`: was begun before and is not done yet.
    #[error("already in progress")]
    Already,
    /// `EISCONN`: has an association already.
    #[error("already connected")]
    IsConnected,
    /// `ENOTCONN`: has no association.
    #[error("not connected")]
    NotConnected,
    /// `EBADF`: no such socket.
    #[error("no such socket")]
    BadSocket,
    /// `EINVAL`: the arguments make no sense here.
    #[error("invalid argument")]
    Invalid,
    /// `EOPNOTSUPP`: this kind of socket, or this engine, does not do that.
    #[error("not supported")]
    NotSupported,
    /// `EADDRINUSE`: somebody has that port.
    #[error("address in use")]
    AddressInUse,
    /// `EADDRNOTAVAIL`: no such local address, or no port is left.
    #[error("address not available")]
    AddressNotAvailable,
    /// `EHOSTUNREACH`: no local address reaches the peer.
    #[error("no route to the peer")]
    Unreachable,
    /// `ENOENT`: no such association.
    #[error("no such association")]
    NoAssociation,
    /// `EMSGSIZE`: the message can never fit into the send buffer.
    #[error("message too long")]
    MessageSize,
    /// `EPIPE`: this side has shut down.
    #[error("shut down by this side")]
    Pipe,
    /// `ECONNREFUSED`: the peer would not have the association.
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
    /// `EPROTO`: the peer broke a rule.
    #[error("protocol error")]
    Protocol,
}

/// Each error with its POSIX name; the last entries are other names of errors above.
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
    // POSIX has a name of its own for options.
    (Errno::NotSupported, "ENOPROTOOPT"),
];

impl Errno {
    /// The POSIX name, such as `EAGAIN`.
    #[must_use]
    pub fn name(self) -> &'static str {
        NAMES.iter().find(|(errno, _)| *errno == self).map_or("EIO", |(_, name)| name)
    }

    /// The error with this POSIX name, if there is one.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        NAMES.iter().find(|(_, known)| *known == name).map(|(errno, _)| *errno)
    }
}
