//! Errors of single calls: each lists only what can happen in that call.

/// Why a port cannot be listened on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ListenError {
    /// Port 0 is not a port (RFC 9260 §3.1).
    #[error("port 0 cannot be listened on")]
    PortZero,
    /// Somebody listens there already.
    #[error("the port is already listened on")]
    InUse,
}

/// Why an association cannot be begun.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AssociateError {
    /// No address of the peer was given.
    #[error("no peer address was given")]
    NoPeer,
    /// No local address is of a family that the peer has.
    #[error("no local address reaches any address of the peer")]
    NoRoute,
    /// Port 0 is not a port.
    #[error("port 0 is not a port")]
    PortZero,
    /// Zero streams cannot be asked for (RFC 9260 §3.3.2).
    #[error("an association needs at least one stream")]
    NoStreams,
    /// There is already an association between these ports and addresses.
    #[error("there is already an association between these addresses and ports")]
    Exists,
    /// Every local port to that peer is taken.
    #[error("no local port is free")]
    NoPort,
}

/// Whose INIT chunk.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SnapSide {
    /// That of `Endpoint::init_chunk`.
    Local,
    /// The one that came by signalling.
    Peer,
}

/// Why an association cannot be begun by INIT chunks that came by signalling (draft-hancke-tsvwg-snap).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SnapError {
    /// It is no INIT chunk, or not that alone, or its values are forbidden (RFC 9260 §3.3.2).
    #[error("{} is no valid INIT chunk", match .0 { SnapSide::Local => "that of this side", SnapSide::Peer => "that of the peer" })]
    NoInit(SnapSide),
    /// Both chunks have one tag: our own has come back.
    #[error("both INIT chunks have the same tag")]
    SameTag,
    /// An association has the tag of the local chunk: it was used before.
    #[error("there is already an association with the tag of this INIT chunk")]
    TagInUse,
    /// As of any association.
    #[error(transparent)]
    Associate(#[from] AssociateError),
}

/// Why a message was not taken.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SendError {
    /// The send buffer has no room for it now: `Event::Writable` comes later.
    #[error("the send buffer is full")]
    Full,
    /// It can never fit into the send buffer.
    #[error("the message is larger than the send buffer")]
    TooLarge,
    /// A message must have at least one byte (RFC 9260 §3.3.1).
    #[error("an empty message cannot be sent")]
    Empty,
    /// The association has fewer streams.
    #[error("no such stream")]
    NoSuchStream,
    /// The association knows no such key, or does not authenticate chunks (RFC 4895).
    #[error("no such key")]
    NoSuchKey,
    /// Shutdown has begun, or the association has ended.
    #[error("the association is closing")]
    Closing,
    /// No such association.
    #[error("no such association")]
    Unknown,
}

/// Why an association's addresses were not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AddressError {
    /// No such association.
    #[error("no such association")]
    Unknown,
    /// Its addresses are not dynamic: this side or the peer does not speak ASCONF.
    #[error("the association's addresses are fixed")]
    NotDynamic,
}

/// Why a shared key was not changed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum KeyError {
    /// No such association.
    #[error("no such association")]
    Unknown,
    /// The association does not authenticate chunks: this side or the peer does not want it.
    #[error("the association does not authenticate chunks")]
    NotAuthenticated,
    /// No key has this identifier.
    #[error("no key has this identifier")]
    NoSuchKey,
    /// The key is the one that is signed with: another must become active first.
    #[error("the key is the active one")]
    Active,
    /// There are 256 keys already.
    #[error("there are too many keys")]
    TooMany,
}

/// Why nothing can be read.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecvError {
    /// The association has ended and everything has been read.
    #[error("the association has ended")]
    Closed,
    /// No such association.
    #[error("no such association")]
    Unknown,
}

/// Why streams are not reset or added (RFC 6525).
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ResetError {
    /// One of the two sides does not support it, or has it switched off.
    #[error("stream re-configuration was not negotiated")]
    Unsupported,
    /// The association has fewer streams.
    #[error("no such stream")]
    NoSuchStream,
    /// None were asked for, or an association cannot have so many.
    #[error("an association has from 1 to 65535 streams")]
    TooManyStreams,
    /// The same is under way already, too much waits, or TSNs were reset less than 30 s ago.
    #[error("a request that this one would meet is under way")]
    Busy,
    /// The association is not up: being set up, closing, or ended.
    #[error("the association is not up")]
    Closing,
    /// No such association.
    #[error("no such association")]
    Unknown,
}

/// Why a path cannot become the primary.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PrimaryError {
    /// No such association or path.
    #[error("no such path")]
    Unknown,
    /// The address has not been verified yet (RFC 9260 §5.4).
    #[error("the address is not verified yet")]
    Unconfirmed,
}

/// Why a scheduler, or a stream's value for it, was not set.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SchedulerError {
    /// No such association.
    #[error("no such association")]
    Unknown,
    /// The association has fewer streams.
    #[error("no such stream")]
    NoSuchStream,
}
