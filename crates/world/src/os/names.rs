//! The host's resolver, and the names in the host's hosts(5) file.

use super::{OsWorld, RESOLVERS};
use crate::names::NameResolver;
use std::fs::File;
use std::io::{self, Read};
use std::net::{IpAddr, SocketAddr};

impl NameResolver for OsWorld {
    const LOOKUPS: usize = RESOLVERS;

    fn lookup_local(&self, host: &str, port: u16) -> Vec<SocketAddr> {
        let mut text = Vec::new();
        let read = File::open("/etc/hosts").and_then(|file| file.take(MAX_HOSTS).read_to_end(&mut text));
        if read.is_err() {
            return Vec::new();
        }
        written(&String::from_utf8_lossy(&text), host).map(|ip| SocketAddr::new(ip, port)).collect()
    }

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

/// Returns the addresses that `text`, the content of a hosts(5) file, has for the name `host`.
fn written<'a>(text: &'a str, host: &'a str) -> impl Iterator<Item = IpAddr> + 'a {
    text.lines().filter_map(move |line| {
        let mut words = line.split('#').next().unwrap_or_default().split_ascii_whitespace();
        let ip = words.next()?.parse().ok()?;
        words.any(|name| name.eq_ignore_ascii_case(host)).then_some(ip)
    })
}

/// At most this many bytes of the hosts(5) file are read.
const MAX_HOSTS: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_the_host_has_written_down() {
        let text = "127.0.0.1\tlocalhost\n::1 localhost ip6-localhost\n# 192.0.2.9 near\n\
                    192.0.2.1 near.example Near # 192.0.2.8 far\nnear 192.0.2.7\n\n192.0.2.2  nearer\r\n";
        let found = |host| written(text, host).map(|ip| ip.to_string()).collect::<Vec<_>>();
        assert_eq!(found("near"), ["192.0.2.1"]);
        assert_eq!(found("near.example"), ["192.0.2.1"]);
        assert_eq!(found("nearer"), ["192.0.2.2"]);
        assert_eq!(found("localhost"), ["127.0.0.1", "::1"]);
        assert!(found("far").is_empty() && found("").is_empty() && found("192.0.2.7").is_empty());
    }
}
