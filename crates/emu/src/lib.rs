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
