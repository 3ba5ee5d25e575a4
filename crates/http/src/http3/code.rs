//! Error codes of HTTP/3 (RFC 9114 §8.1) and QPACK (RFC 9204 §6). Also defines connection errors and stream errors.

use std::fmt;

/// An application error code of a connection or stream.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Code(pub u64);

macro_rules! codes {
    ($($name:ident = $value:literal,)*) => {
        impl Code {
            $(
                #[doc = concat!("`", stringify!($name), "`")]
                pub const $name: Self = Self($value);
            )*

            fn name(self) -> Option<&'static str> {
                match self.0 {
                    $($value => Some(stringify!($name)),)*
                    _ => None,
                }
            }
        }
    };
}

codes! {
    H3_NO_ERROR = 0x100,
    H3_GENERAL_PROTOCOL_ERROR = 0x101,
    H3_INTERNAL_ERROR = 0x102,
    H3_STREAM_CREATION_ERROR = 0x103,
    H3_CLOSED_CRITICAL_STREAM = 0x104,
    H3_FRAME_UNEXPECTED = 0x105,
    H3_FRAME_ERROR = 0x106,
    H3_EXCESSIVE_LOAD = 0x107,
    H3_ID_ERROR = 0x108,
    H3_SETTINGS_ERROR = 0x109,
    H3_MISSING_SETTINGS = 0x10a,
    H3_REQUEST_REJECTED = 0x10b,
    H3_REQUEST_CANCELLED = 0x10c,
    H3_REQUEST_INCOMPLETE = 0x10d,
    H3_MESSAGE_ERROR = 0x10e,
    H3_CONNECT_ERROR = 0x10f,
    H3_VERSION_FALLBACK = 0x110,
    QPACK_DECOMPRESSION_FAILED = 0x200,
    QPACK_ENCODER_STREAM_ERROR = 0x201,
    QPACK_DECODER_STREAM_ERROR = 0x202,
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name() {
            Some(name) => f.write_str(name),
            None => write!(f, "{:#x}", self.0),
        }
    }
}

/// A violation of the protocol by the peer (RFC 9114 §8).
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// A connection error. The connection is closed with the code.
    #[error("{1} ({0})")]
    Connection(Code, String),
    /// A stream error. The stream is reset with the code, and the connection continues.
    #[error("{1} ({0})")]
    Stream(Code, String),
}

impl Error {
    pub(super) fn connection(code: Code, reason: impl Into<String>) -> Self {
        Self::Connection(code, reason.into())
    }

    pub(super) fn stream(code: Code, reason: impl Into<String>) -> Self {
        Self::Stream(code, reason.into())
    }
}
