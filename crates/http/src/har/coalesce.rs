//! Determines from the recorded addresses which hosts of a page are public, and which share a connection over HTTP/2 and
//! HTTP/3.
//!
//! A browser uses a connection for another host if that host has the same address, and the certificate of the
//! connection names it (RFC 9113 §9.1.1). Some recordings hold certificates. In others, entries of two hosts have the
//! same connection, which shows that the browser shared it.

use super::initiator::FetchEntry;
use super::{network, timings};
use crate::page::recorded::HttpVersion;
use serde_json::Value;
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};

/// The addresses, certificate names and connections that the entries of a host contain.
#[derive(Clone, Default)]
struct Host<'a> {
    addresses: BTreeSet<&'a str>,
    certified: BTreeSet<&'a str>,
    connections: BTreeSet<(&'a str, &'a str)>,
}

/// Returns for each of `hosts` the index of the first host with which it shares connections. `of` returns the index of
/// the host of an entry.
pub(super) fn groups(
    hosts: &[String],
    entries: &[FetchEntry<'_>],
    of: impl Fn(&FetchEntry<'_>) -> Option<usize>,
) -> Vec<usize> {
    let mut groups: Vec<usize> = (0..hosts.len()).collect();
    // A page with more than `MAX_HOSTS` hosts is not raced with a server for each host, so no groups are needed.
    if hosts.len() < 2 || hosts.len() > MAX_HOSTS {
        return groups;
    }
    let mut known = vec![Host::default(); hosts.len()];
    for entry in entries {
        let text = |name: &str| entry.value.get(name).and_then(Value::as_str).unwrap_or_default();
        let (Some(host), address) = (of(entry), text("serverIPAddress")) else { continue };
        if address.is_empty() || !entry.address.tls {
            continue;
        }
        let host = &mut known[host];
        host.addresses.insert(address);
        let multiplexes =
            matches!(timings::version(entry.value), Some(HttpVersion::Http2 | HttpVersion::Http3));
        host.connections.extend(network::connection(entry).filter(|_| multiplexes));
        if let Some(details) = entry.value.get("_securityDetails") {
            let names = details.get("sanList").and_then(Value::as_array).into_iter().flatten();
            let names = names.chain(details.get("subjectName")).filter_map(Value::as_str);
            host.certified.extend(names.take(MAX_NAMES));
        }
    }
    for host in 1..hosts.len() {
        let (name, port) = split(&hosts[host]);
        let shares = |leader: &usize| {
            let (this, other) = (&known[host], &known[*leader]);
            let is_certified = || other.certified.iter().any(|certified| covers(certified, name));
            !this.connections.is_disjoint(&other.connections)
                || (split(&hosts[*leader]).1 == port
                    && !this.addresses.is_disjoint(&other.addresses)
                    && is_certified())
        };
        if let Some(leader) = (0..host).filter(|leader| groups[*leader] == *leader).find(shares) {
            groups[host] = leader;
        }
    }
    groups
}

/// Returns the indices of the hosts that have a public address, in ascending order. `of` returns the index of the host of
/// an entry.
pub(super) fn public_hosts(
    entries: &[FetchEntry<'_>],
    of: impl Fn(&FetchEntry<'_>) -> Option<usize>,
) -> Vec<usize> {
    let has_public_address = |entry: &&FetchEntry<'_>| {
        let address = entry.value.get("serverIPAddress").and_then(Value::as_str).unwrap_or_default();
        address.trim_matches(['[', ']']).parse().is_ok_and(is_public)
    };
    let hosts: BTreeSet<usize> = entries.iter().filter(has_public_address).filter_map(of).collect();
    hosts.into_iter().collect()
}

/// Whether Chromium takes the address for publicly routable (net `ip_address.cc`, `IsPubliclyRoutable`).
fn is_public(address: IpAddr) -> bool {
    match address.to_canonical() {
        IpAddr::V4(v4) => {
            let [a, b, c, _] = v4.octets();
            let is_special = matches!((a, b, c), (0 | 224.., _, _) | (192, 0, 0) | (192, 88, 99))
                || matches!((a, b & 0xc0, b & 0xfe), (100, 64, _) | (198, _, 18));
            let of_std = [
                Ipv4Addr::is_private,
                Ipv4Addr::is_loopback,
                Ipv4Addr::is_link_local,
                Ipv4Addr::is_documentation,
            ];
            !is_special && !of_std.iter().any(|is| is(&v4))
        }
        IpAddr::V6(v6) => v6.segments()[0] & 0xe000 == 0x2000 || v6.is_multicast(),
    }
}

/// Splits a host into its name and its port.
fn split(host: &str) -> (&str, &str) {
    match host.rsplit_once(':') {
        Some((name, port)) if !port.contains(']') => (name, port),
        _ => (host, ""),
    }
}

/// Returns whether the name in a certificate covers the host `name` (RFC 9525 §6.3).
fn covers(certified: &str, name: &str) -> bool {
    match certified.strip_prefix("*.") {
        Some(parent) => name.split_once('.').is_some_and(|(_, rest)| rest.eq_ignore_ascii_case(parent)),
        None => certified.eq_ignore_ascii_case(name),
    }
}

/// The maximum number of hosts that are compared.
const MAX_HOSTS: usize = 500;
/// The maximum number of names of a certificate that are read.
const MAX_NAMES: usize = 500;
