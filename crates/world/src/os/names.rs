//! The host's resolver.

use super::OsWorld;
use crate::names::Names;
use std::io;
use std::net::SocketAddr;

impl Names for OsWorld {
    async fn resolve(&self, host: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        let mut addresses = Vec::new();
        for address in tokio::net::lookup_host((host, port)).await? {
            if !addresses.contains(&address) {
                addresses.push(address);
            }
        }
        if addresses.is_empty() {
            return Err(io::Error::new(io::ErrorKind::NotFound, "the name has no address"));
        }
        Ok(addresses)
    }
}
