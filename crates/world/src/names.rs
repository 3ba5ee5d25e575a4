//! Host names, for worlds that can resolve them.
//!
//! A virtual network has only addresses. A real host asks its resolver, which may take long; nothing else in the world
//! waits for it.

use crate::World;
use std::io;
use std::net::SocketAddr;

/// A world whose host resolves names.
pub trait Names: World {
    /// The number of names that are resolved at the same time. Further ones wait, and an unanswered name occupies its
    /// slot for long.
    const LOOKUPS: usize;

    /// Returns the addresses that the host itself has stored for `host`, each with `port`. Empty if it has to ask a
    /// resolver.
    fn known(&self, host: &str, port: u16) -> Vec<SocketAddr>;

    /// Returns all addresses of `host` (a name, or an address without brackets), each with `port`, in order of
    /// preference.
    ///
    /// # Errors
    /// The name does not exist, or the resolver does not answer.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}
