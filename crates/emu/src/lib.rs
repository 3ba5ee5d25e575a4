//! Emulated links: the elements of `anabranch-link`, applied to live packets between network
//! namespaces.
//!
//! A command, or a host of a race, runs in a network namespace of its own. Its
//! packets leave by a TUN interface (or, if the host has none, by a pair of Ethernet
//! interfaces). They pass through the same chains that the simulator runs in virtual
//! time, and enter the namespace at the other end at the time that the chain says.
//! Linux only.
//!
//! - [`netns`]: namespaces, as root or without privileges
//! - [`wiring`]: interfaces, addresses and routes of the two ends
//! - [`device`]: how packets get in and out
//! - [`relay`]: runs the chains in real time
//! - [`packet`]: a packet as the chains see it
//! - [`histogram`]: distributions of times
//! - [`record`]: records of the traffic, for captures and for bytes over time
//! - [`report`]: the statistics of a link, as text
//! - [`rules`]: loss by iptables instead of the link
//! - [`watch`]: detects the first user data after a given time
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

/// Why an emulated link could not be created.
#[derive(Debug, thiserror::Error)]
pub enum EmuError {
    /// The host lacks a permission or a feature.
    #[error("not possible on this host: {0}")]
    Impossible(String),
    /// An operation failed, although the host permits it.
    #[error("{0}")]
    Failed(String),
    /// The command exists but cannot be run.
    #[error("{0}")]
    NotExecutable(String),
    /// The command does not exist.
    #[error("{0}")]
    NotFound(String),
}
