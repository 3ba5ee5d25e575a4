//! The host's addresses, the MTUs of their interfaces, and notifications of address changes.

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

/// The addresses of the host that an `OsWorld` uses.
#[derive(Debug)]
pub(super) struct Addresses {
    /// The only addresses that the `OsWorld` may use; if empty, it may use all addresses of the host.
    fixed: Vec<IpAddr>,
    present: RefCell<Vec<HostAddress>>,
    /// How often the addresses ([`present`](Self::present)) or the host's routes have changed so far.
    changes: Cell<u64>,
    /// The value of `changes` that was last reported to the program.
    reported: Cell<u64>,
    /// A netlink socket, opened when the program first waits for an address change.
    change_socket: RefCell<Option<AsyncFd<OwnedFd>>>,
}

/// An address of the host, and the MTU of its interface in bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct HostAddress {
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
            change_socket: RefCell::new(None),
        })
    }

    /// Returns the addresses in the configured order. If no addresses are configured, returns the host's addresses in
    /// the order of the interfaces, with loopback addresses last.
    pub(super) fn list(&self) -> Vec<IpAddr> {
        self.present.borrow().iter().map(|present| present.ip).collect()
    }

    /// Returns the addresses to which the `OsWorld` is restricted. If the list is empty, the `OsWorld` may use all
    /// addresses of the host.
    pub(super) fn fixed(&self) -> &[IpAddr] {
        &self.fixed
    }

    pub(super) fn has(&self, ip: IpAddr) -> bool {
        self.present.borrow().iter().any(|present| present.ip == ip)
    }

    /// Returns an address that can be the source of a packet to `target`: the first address of the same IP version. A
    /// loopback address is preferred if `target` is a loopback address; otherwise an address outside loopback is
    /// preferred.
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

    /// Reads the host's addresses again and returns whether they have changed.
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
        let mut change_socket = self.change_socket.borrow_mut();
        if change_socket.is_none() {
            // If the netlink socket cannot be opened, address changes are not noticed.
            let Ok(opened) = listen_to_changes() else { return Poll::Pending };
            *change_socket = Some(opened);
            self.refresh();
        }
        let Some(socket) = change_socket.as_ref() else { return Poll::Pending };
        loop {
            if self.changes.get() != self.reported.get() {
                self.reported.set(self.changes.get());
                return Poll::Ready(());
            }
            match socket.poll_read_ready(cx) {
                Poll::Pending | Poll::Ready(Err(_)) => return Poll::Pending,
                Poll::Ready(Ok(mut ready)) => {
                    // Of the netlink messages, only the types are used. If any message of a burst is not about routes,
                    // the address list is read again, once for the whole burst.
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
                        // The kernel reported a change, but the list of addresses is the same. An address or a route
                        // may have become usable, so the change is reported to the program.
                        self.changes.set(self.changes.get() + 1);
                    }
                }
            }
        }
    }
}

/// Opens a netlink socket that receives notifications of changed addresses and routes.
fn listen_to_changes() -> io::Result<AsyncFd<OwnedFd>> {
    let flags = SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC;
    let descriptor = socket(AddressFamily::Netlink, SockType::Raw, flags, SockProtocol::NetlinkRoute)?;
    bind(
        descriptor.as_raw_fd(),
        &NetlinkAddr::new(0, RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR | RTMGRP_ROUTES),
    )?;
    super::descriptor::watch(descriptor)
}

/// Returns whether the netlink(7) messages in `bytes` are about routes. Only the first message is examined, because all
/// messages of one read have the same type.
fn is_of_routes(bytes: &[u8]) -> bool {
    let kind = bytes.get(4..6).and_then(|bytes| <[u8; 2]>::try_from(bytes).ok()).map(u16::from_ne_bytes);
    kind.is_some_and(|kind| matches!(kind, RTM_NEWROUTE | RTM_DELROUTE))
}

/// Reads the host's addresses. If `fixed` is empty, returns all addresses except link-local addresses. Otherwise
/// returns the addresses of `fixed` that exist.
fn read(fixed: &[IpAddr]) -> io::Result<Vec<HostAddress>> {
    let mut found: Vec<HostAddress> = Vec::new();
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
        // An address is listed once, even if several interfaces have it.
        if up && (common || fixed.contains(&ip)) && !found.iter().any(|present| present.ip == ip) {
            // If the loopback interface has a non-loopback address, peers reach this address through another interface.
            // That interface is assumed to have the MTU of Ethernet.
            let is_loopback_only =
                interface.flags.contains(InterfaceFlags::IFF_LOOPBACK) && !ip.is_loopback();
            let mtu = if is_loopback_only { USUAL_MTU } else { mtu_of(&interface.interface_name) };
            found.push(HostAddress { ip, mtu });
        }
    }
    if fixed.is_empty() {
        found.sort_by_key(|present| present.ip.is_loopback());
        return Ok(found);
    }
    // Every address of 127.0.0.0/8 exists, although the kernel does not list it.
    let given = fixed.iter().filter_map(|&ip| {
        let known = found.iter().find(|present| present.ip == ip).copied();
        known.or_else(|| ip.is_loopback().then(|| HostAddress { ip, mtu: mtu_of("lo") }))
    });
    Ok(given.collect())
}

/// Returns whether an address is link-local. Such an address is ambiguous without the name of an interface.
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

/// The MTU of Ethernet.
const USUAL_MTU: u32 = 1500;
// The multicast groups of rtnetlink(7) for changes of links and addresses.
const RTMGRP_LINK: u32 = 0x1;
const RTMGRP_IPV4_IFADDR: u32 = 0x10;
const RTMGRP_IPV6_IFADDR: u32 = 0x100;
/// The rtnetlink groups for changes of IPv4 and IPv6 routes.
const RTMGRP_ROUTES: u32 = 0x40 | 0x400;
const RTM_NEWROUTE: u16 = 24;
const RTM_DELROUTE: u16 = 25;
