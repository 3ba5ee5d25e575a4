//! The errors of `sctp-proto` that can occur with this engine.

/// The reason why a call failed.
#[derive(Debug, thiserror::Error, Eq, Clone, PartialEq)]
#[non_exhaustive]
pub enum Error {
    #[error("there already exists a stream with identifier")]
    ErrStreamAlreadyExist,
    #[error("stream ID has a pending RE-CONFIG and cannot be reused yet")]
    ErrStreamResetPending,
    #[error("Failed to create a stream with identifier")]
    ErrStreamCreateFailed,
    #[error("Stream closed")]
    ErrStreamClosed,
    #[error("Stream not existed")]
    ErrStreamNotExisted,
    #[error("outbound packet larger than maximum message size")]
    ErrOutboundPacketTooLarge,
    #[error("inbound packet larger than maximum message size")]
    ErrInboundPacketTooLarge,
    #[error("sending reset packet in non-Established state")]
    ErrResetPacketInStateNotExist,
    #[error("shutdown called in non-Established state")]
    ErrShutdownNonEstablished,
    #[error("Short buffer to be filled")]
    ErrShortBuffer,
    #[error("try again")]
    ErrTryAgain,
    #[error("{0}")]
    Other(String),
}

pub type Result<T> = std::result::Result<T, Error>;
