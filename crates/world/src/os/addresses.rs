//! The host's addresses, what their interfaces take, and how both change.

use super::LARGEST_PACKET;
use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use nix::sys::socket::{AddressFamily, NetlinkAddr, SockFlag, SockProtocol, SockType, bind, socket};
use rustix::io::Errno;
use std::cell::{Cell, RefCell};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, OwnedFd};
use std::task::{Context, Poll};
use tokio::io::unix::AsyncFd;

/// The addresses of a world.
#[derive(Debug)]
pub(super) struct Addresses {
    /// Those the world was told to use; empty: all.
    fixed: Vec<IpAddr>,
    present: RefCell<Vec<Present>>,
    /// How often [`present`](Self::present) has changed.
    changes: Cell<u64>,
    /// How many of those changes were reported to the program.
    reported: Cell<u64>,
    /// Opened when somebody wants to know.
    news: RefCell<Option<AsyncFd<OwnedFd>>>,
}

/// An address and the largest IP packet that its interface takes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Present {
    ip: IpAddr,
    mtu: u32,
}

impl Addresses {
    pub(super) fn new(fixed: Vec<IpAddr>) -> io::Result<Self> {
        let present = read(&fixed)?;
        Ok(Self {
            fixed,
            present: RefCell::new(present),
            changes: Cell::new(0),
            reported: Cell::new(0),
            news: RefCell::new(None),
        })
    }

    /// The addresses, in the order of the interfaces, those of the loopback interface last; or as they were given.
    pub(super) fn list(&self) -> Vec<IpAddr> {
        self.present.borrow().iter().map(|present| present.ip).collect()
    }

    /// Those that were given; empty: all.
    pub(super) fn fixed(&self) -> &[IpAddr] {
        &self.fixed
    }

    pub(super) fn has(&self, ip: IpAddr) -> bool {
        self.present.borrow().iter().any(|present| present.ip == ip)
    }

    /// The first address that a packet to `target` can come from.
    pub(super) fn first_for(&self, target: IpAddr) -> Option<IpAddr> {
        let present = self.present.borrow();
        let mut fits = present.iter().map(|present| present.ip).filter(|ip| ip.is_ipv4() == target.is_ipv4());
        let first = fits.clone().find(|ip| ip.is_loopback() == target.is_loopback());
        first.or_else(|| fits.next())
    }

    pub(super) fn mtu(&self, ip: IpAddr) -> u32 {
        let present = self.present.borrow();
        let found = present.iter().find(|present| present.ip == ip);
        found.map_or(USUAL_MTU, |present| present.mtu)
    }

    /// Looks again; true when something has changed.
    pub(super) fn refresh(&self) -> bool {
        let Ok(present) = read(&self.fixed) else { return false };
        if *self.present.borrow() == present {
            return false;
        }
        *self.present.borrow_mut() = present;
        self.changes.set(self.changes.get() + 1);
        true
    }

    pub(super) fn poll_change(&self, cx: &mut Context<'_>) -> Poll<()> {
        if !self.fixed.is_empty() {
            return Poll::Pending;
        }
        let mut news = self.news.borrow_mut();
        if news.is_none() {
            // Without such a socket the host stays as it was.
            let Ok(opened) = listen_to_changes() else { return Poll::Pending };
            *news = Some(opened);
            self.refresh();
        }
        let Some(socket) = news.as_ref() else { return Poll::Pending };
        loop {
            if self.changes.get() != self.reported.get() {
                self.reported.set(self.changes.get());
                return Poll::Ready(());
            }
            match socket.poll_read_ready(cx) {
                Poll::Pending | Poll::Ready(Err(_)) => return Poll::Pending,
                Poll::Ready(Ok(mut ready)) => {
                    // What it says hardly matters: the list is read as a whole, once for a burst, unless all of it
                    // is about routes.
                    let mut buffer = [0; 8192];
                    let mut routes_only = true;
                    loop {
                        match rustix::net::recv(socket, &mut buffer, rustix::net::RecvFlags::DONTWAIT) {
                            Ok((1.., length)) => {
                                routes_only &= is_of_routes(&buffer[..length.min(buffer.len())])
                            }
                            Err(Errno::NOBUFS | Errno::INTR) => routes_only = false,
                            _ => break,
                        }
                    }
                    ready.clear_ready();
                    if routes_only || !self.refresh() {
                        // An address that was not ready, or a way that was not there, may be now.
                        self.changes.set(self.changes.get() + 1);
                    }
                }
            }
        }
    }
}

/// A netlink socket that hears of addresses and routes that come and go.
fn listen_to_changes() -> io::Result<AsyncFd<OwnedFd>> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let descriptor = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
    bind(
        descriptor.as_raw_fd(),
        &NetlinkAddr::new(0, RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_ROUTES),
    )?;
    super::descriptor::watch(descriptor)
}

/// Whether the first message of netlink(7) in `bytes` is about a route; what comes together is of one kind.
fn is_of_routes(bytes: &[u8]) -> bool {
    let kind = bytes.get(4..6).and_then(|bytes| <[u8; 2]>::try_from(bytes).ok()).map(u16::from_ne_bytes);
    kind.is_some_and(|kind| matches!(kind, RTM_NEWROUTE | RTM_DELROUTE))
}

/// The host's addresses: the given ones as far as they are there, or all but those of a single link.
fn read(fixed: &[IpAddr]) -> io::Result<Vec<Present>> {
    let mut found: Vec<Present> = Vec::new();
    for interface in getifaddrs()? {
        let Some(address) = interface.address else { continue };
        let ip = if let Some(v4) = address.as_sockaddr_in() {
            IpAddr::V4(v4.ip())
        } else if let Some(v6) = address.as_sockaddr_in6() {
            IpAddr::V6(v6.ip())
        } else {
            continue;
        };
        let up = interface.flags.contains(InterfaceFlags::IFF_UP);
        let common = fixed.is_empty() && !is_link_local(ip);
        // Any of 127.0.0.0/8 is there where one is.
        if up && (common || fixed.contains(&ip)) && !found.iter().any(|present| present.ip == ip) {
            // Whoever is reached from a host's own address, on no wire, is behind a wire.
            let aside = interface.flags.contains(InterfaceFlags::IFF_LOOPBACK) && !ip.is_loopback();
            let mtu = if aside { USUAL_MTU } else { mtu_of(&interface.interface_name) };
            found.push(Present { ip, mtu });
        }
    }
    if fixed.is_empty() {
        found.sort_by_key(|present| present.ip.is_loopback());
        return Ok(found);
    }
    let given = fixed.iter().filter_map(|&ip| {
        let known = found.iter().find(|present| present.ip == ip).copied();
        known.or_else(|| ip.is_loopback().then(|| Present { ip, mtu: mtu_of("lo") }))
    });
    Ok(given.collect())
}

/// Whether an address says nothing without the name of a link.
fn is_link_local(ip: IpAddr) -> bool {
    match ip {
        IpAddr::V4(v4) => v4.is_link_local(),
        IpAddr::V6(v6) => v6.is_unicast_link_local(),
    }
}

fn mtu_of(interface: &str) -> u32 {
    let text = std::fs::read_to_string(format!("/sys/class/net/{interface}/mtu"));
    let mtu = text.ok().and_then(|text| text.trim().parse().ok());
    mtu.unwrap_or(USUAL_MTU).min(LARGEST_PACKET)
}

/// Ethernet's.
const USUAL_MTU: u32 = 1500;
// The groups of rtnetlink(7).
const RTMGRP_LINK: u32 = 0x1;
const RTMGRP_IPV4_IFADDR: u32 = 0x10;
const RTMGRP_IPV6_IFADDR: u32 = 0x100;
/// Those of IPv4 and of IPv6.
const RTMGRP_ROUTES: u32 = 0x40 | 0x400;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
