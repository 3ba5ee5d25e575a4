//! Emulated links: the link elements of `anabranch-link`, applied to live packets between network namespaces.
//!
//! A command runs in a network namespace of its own. In a race between transports, each emulated host has its own
//! namespace. Packets leave a namespace through a TUN interface or, if this machine has no TUN, through a pair of
//! Ethernet interfaces. The emulator passes each packet through the same chain of link elements that the simulator runs
//! in virtual time. The chain determines when the packet enters the namespace at the other end. This crate works only
//! on Linux.
//!
//! - [`netns`]: creates and enters namespaces, as root or without privileges
//! - [`wiring`]: interfaces, addresses and routes of the two ends of a link
//! - [`device`]: the devices over which packets leave and enter a namespace
//! - [`relay`]: passes packets through the chains of link elements in real time
//! - [`packet`]: a packet in the form that the link elements need
//! - [`record`]: records of the traffic, for captures and for bytes over time
//! - [`report`]: the statistics of a link, as text
//! - [`rules`]: loss by iptables instead of by the link
//! - [`watch`]: detects the first user data after a given time
//! - [`shell`]: `anabranch link`, which runs a command behind a link
//!
//! # How it works
//!
//! The emulator receives packets from TUN devices, or from packet sockets on pairs of Ethernet interfaces. A network
//! namespace is a property of a thread. For each task, a new thread enters a namespace, opens devices or starts a
//! command there, and ends. Therefore the process need not fork or execute itself again inside a namespace, and no
//! unsafe code is needed. `ip` of iproute2 configures the interfaces. Without privileges, the process first becomes
//! root of a user namespace.
//!
//! iptables rules in these namespaces may replace the loss model of the link (module `rules`). Both ends of a link may
//! be in the same namespace (`Wiring::on_one_host`). In that case, routing rules send packets between that namespace's
//! own addresses across the link, so that one iptables rule sees both directions.

#![cfg(target_os = "linux")]

pub mod device;
pub mod netns;
pub mod packet;
pub mod record;
pub mod relay;
pub mod report;
pub mod rules;
pub mod shell;
pub mod watch;
pub mod wiring;

/// The reason why an emulated link could not be created.
#[derive(Debug, thiserror::Error)]
pub enum EmuError {
    /// The host does not permit the operation, or lacks a feature that the operation needs.
    #[error("not possible on this host: {0}")]
    Impossible(String),
    /// An operation failed, although the host permits it.
    #[error("{0}")]
    Failed(String),
    /// The command of the user exists but cannot be executed.
    #[error("{0}")]
    NotExecutable(String),
    /// The command of the user does not exist.
    #[error("{0}")]
    NotFound(String),
}
