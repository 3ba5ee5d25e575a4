//! Our HTTP/3 over QUIC meets that of others, programs of their own over
//! loopback, by the cases of the QUIC interop runner and under its names.
//!
//! | module | owns |
//! |---|---|
//! | [`cases`] | what is tried, and what has been seen when it holds |
//! | [`program`] | how each end is told what to do |
//! | [`relay`] | the network between them: delay, rate, losses, rebinding |
//! | [`headers`] | what anybody on the way can read of packets |
//! | [`decrypted`] | what tshark reads of them with the secrets |
//! | [`meeting`] | one case with two ends |
//! | [`matrix`] | every case with every pair |

#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "programs of others run by the clock of the host, and so does the network between them"
)]

pub mod cases;
pub mod decrypted;
pub mod headers;
pub mod matrix;
pub mod meeting;
pub mod program;
pub mod relay;

use std::fmt;

/// An implementation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stack {
    /// Ours, by its commands `get` and `serve`.
    Ours,
    /// aioquic, in Python.
    Aioquic,
    /// quiche, in Rust with BoringSSL.
    Quiche,
}

impl fmt::Display for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Ours => "ours",
            Self::Aioquic => "aioquic",
            Self::Quiche => "quiche",
        })
    }
}

/// Who gets from whom.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// Gets.
    pub client: Stack,
    /// Serves.
    pub server: Stack,
}

impl Pair {
    /// All of them, in the order of the matrix: those of others show that a case is one that can be passed.
    pub const ALL: [Self; 6] = [
        Self { client: Stack::Ours, server: Stack::Aioquic },
        Self { client: Stack::Aioquic, server: Stack::Ours },
        Self { client: Stack::Ours, server: Stack::Quiche },
        Self { client: Stack::Quiche, server: Stack::Ours },
        Self { client: Stack::Aioquic, server: Stack::Quiche },
        Self { client: Stack::Quiche, server: Stack::Aioquic },
    ];
}

impl fmt::Display for Pair {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.client, self.server)
    }
}
