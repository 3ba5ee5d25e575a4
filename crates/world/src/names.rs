//! Names of hosts, for worlds that can look them up.
//!
//! A virtual network has addresses only. A real host asks its resolver, which
//! takes its time: nothing else in the world waits for it.

use crate::World;
use std::io;
use std::net::SocketAddr;

/// A world whose host resolves names.
pub trait Names: World {
    /// Names that are looked up at a time; the next ones wait, and one that nobody answers for takes its place for long.
    const LOOKUPS: usize;

    /// The addresses that the host itself has written down for `host`, each with `port`; none, where it has to ask.
    fn known(&self, host: &str, port: u16) -> Vec<SocketAddr>;

    /// Every address of `host` (a name or an address without brackets), each with `port`, in the order of preference.
    ///
    /// # Errors
    /// There is no such name, or the resolver does not say.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}
