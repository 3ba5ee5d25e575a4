//! Error types. Each type lists only the errors of the calls that return it.

/// The reason why the endpoint cannot listen on a port.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Port 0 is not a valid port (RFC 9260 §3.1).
    #[error("port 0 cannot be listened on")]
    PortZero,
    /// The endpoint already listens on the port.
    #[error("the port is already listened on")]
    InUse,
}

/// The reason why an association cannot be started.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssociateError {
    /// No address of the peer was given.
    #[error("no peer address was given")]
    NoPeer,
    /// No local address has the same IP version as one of the peer's addresses.
    #[error("no local address reaches any address of the peer")]
    NoRoute,
    /// Port 0 is not a valid port.
    #[error("port 0 is not a port")]
    PortZero,
    /// An association cannot have zero streams (RFC 9260 §3.3.2).
    #[error("an association needs at least one stream")]
    NoStreams,
    /// There is already an association between these ports and addresses.
    #[error("there is already an association between these addresses and ports")]
    Exists,
    /// All ephemeral local ports are in use.
    #[error("no local port is free")]
    NoPort,
}

/// The side to which an INIT chunk belongs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapSide {
    /// The chunk made by `Endpoint::init_chunk`.
    Local,
    /// The peer's chunk, received through signalling.
    Peer,
}

/// The reason why an association cannot be started from INIT chunks exchanged through signalling
/// (draft-hancke-tsvwg-snap).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapError {
    /// The bytes are not exactly one INIT chunk, or its values are not allowed (RFC 9260 §3.3.2).
    #[error("{} is no valid INIT chunk", match .0 { SnapSide::Local => "that of this side", SnapSide::Peer => "that of the peer" })]
    NoInit(SnapSide),
    /// Both chunks have the same initiate tag. The caller has probably passed the local chunk as the peer's chunk.
    #[error("both INIT chunks have the same tag")]
    SameTag,
    /// Another association already has the initiate tag of the local INIT chunk. The caller has probably used this
    /// chunk before.
    #[error("there is already an association with the tag of this INIT chunk")]
    TagInUse,
    /// An error that does not concern the INIT chunks. `Endpoint::associate` returns the same errors.
    #[error(transparent)]
    Associate(#[from] AssociateError),
}

/// The reason why a message was not accepted for sending.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The send buffer has no room for the message now. `Event::Writable` is reported when there is room again.
    #[error("the send buffer is full")]
    Full,
    /// The message is larger than the whole send buffer.
    #[error("the message is larger than the send buffer")]
    TooLarge,
    /// A message must have at least one byte (RFC 9260 §3.3.1).
    #[error("an empty message cannot be sent")]
    Empty,
    /// The stream number is not below the number of outgoing streams.
    #[error("no such stream")]
    NoSuchStream,
    /// The association has no key with this identifier, or does not authenticate chunks (RFC 4895).
    #[error("no such key")]
    NoSuchKey,
    /// The association is shutting down, or has ended.
    #[error("the association is closing")]
    Closing,
    /// There is no such association.
    #[error("no such association")]
    Unknown,
}

/// The reason why the addresses of an association were not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// There is no such association.
    #[error("no such association")]
    Unknown,
    /// The addresses of the association are fixed, because one side does not support ASCONF.
    #[error("the association's addresses are fixed")]
    NotDynamic,
}

/// The reason why a shared key was not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// There is no such association.
    #[error("no such association")]
    Unknown,
    /// The association does not authenticate chunks, because one side does not support AUTH or has turned it off.
    #[error("the association does not authenticate chunks")]
    NotAuthenticated,
    /// No key has this identifier.
    #[error("no key has this identifier")]
    NoSuchKey,
    /// The active key cannot be deactivated or deleted. Another key must be activated first.
    #[error("the key is the active one")]
    Active,
    /// The maximum of 256 keys is reached.
    #[error("there are too many keys")]
    TooMany,
}

/// The reason why reading from a stream failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// The association has ended and all data has been read.
    #[error("the association has ended")]
    Closed,
    /// There is no such association.
    #[error("no such association")]
    Unknown,
}

/// The reason why a request to reset or add streams was not made (RFC 6525).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResetError {
    /// One of the two sides does not support re-configuration or has turned it off.
    #[error("stream re-configuration was not negotiated")]
    Unsupported,
    /// A stream number is not below the number of streams.
    #[error("no such stream")]
    NoSuchStream,
    /// The request adds no streams, or there would be more than 65,535 streams in one direction.
    #[error("an association has from 1 to 65535 streams")]
    TooManyStreams,
    /// The same request is already pending, too many requests are queued, or the TSNs were reset less than 30 s ago.
    #[error("a request that this one would meet is under way")]
    Busy,
    /// The association is not established: it is being set up, is closing, or has ended.
    #[error("the association is not up")]
    Closing,
    /// There is no such association.
    #[error("no such association")]
    Unknown,
}

/// The reason why a path cannot become the primary path.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrimaryError {
    /// There is no such association or path.
    #[error("no such path")]
    Unknown,
    /// The address has not been verified yet (RFC 9260 §5.4).
    #[error("the address is not verified yet")]
    Unconfirmed,
}

/// The reason why a scheduler, or a stream's scheduling value, was not set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchedulerError {
    /// There is no such association.
    #[error("no such association")]
    Unknown,
    /// The stream number is not below the number of outgoing streams.
    #[error("no such stream")]
    NoSuchStream,
}
