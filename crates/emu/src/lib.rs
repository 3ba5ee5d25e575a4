//! Emulated links: the very elements of `anabranch-link` on live packets, between network namespaces.
//!
//! A command, or a host of a race, lives in a network namespace of its own; its
//! packets come out at a TUN interface (or, where the host has none, at a pair
//! of Ethernet interfaces), go through the chains that the simulator would have
//! driven in virtual time, and enter the namespace at the other end when the
//! chain says so. Linux only.
//!
//! - [`netns`]: namespaces, as root or without any privilege
//! - [`wiring`]: interfaces, addresses and routes of the two ends
//! - [`device`]: how packets get in and out
//! - [`relay`]: the chains, driven in real time
//! - [`packet`]: a packet as the chains see it
//! - [`histogram`]: distributions of times
//! - [`record`]: what passed, for captures and for bytes over time
//! - [`report`]: what a link did, in words
//! - [`rules`]: loss by iptables in the link's stead
//! - [`watch`]: when user data came that set out after an instant
//! - [`shell`]: `anabranch link`: a command behind a link
//!
//! # How it works
//!
//! Packets are caught by TUN, or by pairs of Ethernet interfaces and packet sockets. A network namespace is a property of a thread: a
//! thread enters one, opens devices or starts a command there, and ends. So nothing is forked, no program runs again in a namespace, and
//! nothing unsafe is needed. `ip` of iproute2 sets interfaces up. Without privilege the process first becomes root of a user namespace.
//!
//! Rules of iptables in those namespaces may lose packets instead of the link (`rules`). Both ends may be one namespace
//! (`Wiring::on_one_host`). Rules of routing then send packets between its own addresses across the link, so that one rule of iptables sees
//! both directions.

#![cfg(target_os = "linux")]

pub mod device;
pub mod histogram;
pub mod netns;
pub mod packet;
pub mod record;
pub mod relay;
pub mod report;
pub mod rules;
pub mod shell;
pub mod watch;
pub mod wiring;

/// Why there is no emulated link.
#[derive(Debug, thiserror::Error)]
pub enum EmuError {
    /// The host does not let us, or cannot.
    #[error("not possible on this host: {0}")]
    Impossible(String),
    /// Failed, although the host permits it.
    #[error("{0}")]
    Failed(String),
    /// The command is there and cannot be run.
    #[error("{0}")]
    NotExecutable(String),
    /// There is no such command.
    #[error("{0}")]
    NotFound(String),
}
