//! Host name resolution, for hosts that support it.
//!
//! A virtual network has only addresses. A real host queries its resolver, which may take long; meanwhile the other
//! tasks of the program continue.

use crate::World;
use std::io;
use std::net::SocketAddr;

/// A `World` whose host resolves host names.
pub trait NameResolver: World {
    /// The maximum number of names that are resolved at the same time. Further lookups wait for a free slot. A lookup
    /// without an answer occupies its slot for a long time.
    const LOOKUPS: usize;

    /// Returns the addresses of the name `host` that are known without a query to a resolver, each with `port`. Returns
    /// an empty list if a query is necessary.
    fn lookup_local(&self, host: &str, port: u16) -> Vec<SocketAddr>;

    /// Returns all addresses of `host` (a name, or an address without brackets), each with `port`, in order of
    /// preference.
    ///
    /// # Errors
    /// The name does not exist, or the resolver does not answer.
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}
