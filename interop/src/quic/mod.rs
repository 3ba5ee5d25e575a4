//! Runs our HTTP/3 over QUIC against other implementations, over loopback. Client and server are separate programs. The
//! test cases are those of the QUIC interop runner, under the same names.
//!
//! | module | owns |
//! |---|---|
//! | [`cases`] | the test cases and their requirements |
//! | [`program`] | the command lines of client and server |
//! | [`relay`] | the network between client and server: delay, rate, losses, rebinding |
//! | [`headers`] | the headers that are readable on the path |
//! | [`decrypted`] | what tshark reads with the secrets |
//! | [`meeting`] | one test case between a client and a server |
//! | [`matrix`] | every test case with every pair of client and server |

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

/// An implementation of HTTP/3 that takes part in the tests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stack {
    /// Our implementation, with its commands `get` and `serve`.
    Ours,
    /// aioquic, in Python.
    Aioquic,
    /// quiche, an implementation in Rust with BoringSSL.
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

/// The implementations of the client and of the server in a test.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Pair {
    /// The implementation of the client.
    pub client: Stack,
    /// The implementation of the server.
    pub server: Stack,
}

impl Pair {
    /// All pairs of client and server, in the order of the matrix. The pairs without our stack show which cases the
    /// other stacks pass without us.
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
