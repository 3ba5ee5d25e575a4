//! The `--memory` flag: the limit on the memory of all sessions of a server.

#![cfg_attr(not(target_os = "linux"), allow(dead_code, reason = "there are servers on Linux only"))]

use crate::Failure;
use crate::url::Listen;
use anabranch_base::Budget;
use anabranch_base::units::Bytes;
use clap::{Arg, ArgMatches};

/// Returns the `--memory` flag.
pub fn flag() -> Arg {
    crate::flag::flag(
        "memory",
        "SIZE",
        "Maximum memory of all sessions: unacknowledged, unread and out-of-order data, and requests under way. Half of it \
         is reserved for --connections; of the rest a session may have an eighth of what is available. At the limit \
         receive windows close and requests wait. The kernel's TCP buffers are not included",
    )
    .default_value("256MiB")
}

/// Returns the memory budget that `--memory` sets, for a server that listens at `listens`.
pub fn budget(matches: &ArgMatches, listens: &[Listen]) -> Result<Budget, Failure> {
    let text = matches.get_one::<String>("memory").map_or("", String::as_str);
    let total: Bytes = text.parse().map_err(|error| Failure::Usage(format!("--memory {text}: {error}")))?;
    if total.0 < MIN {
        return Err(Failure::Usage(format!("--memory {text}: at least 16 MiB")));
    }
    // For TCP connections, the kernel holds the transport state, and this process holds only the HTTP state. A
    // connection of a TCP listener therefore counts as a quarter of a session of our own transports.
    let quarters: u64 = listens.iter().map(|listen| if listen.scheme.can().kernel { 1 } else { 4 }).sum();
    let connections = matches.get_one::<u16>("connections").copied().map_or(1, u64::from);
    Ok(Budget::new(total.0, (connections * quarters).div_ceil(4)))
}

/// Returns the socket options for the connections that a gateway opens. They limit the kernel's send buffers.
#[cfg(target_os = "linux")]
pub fn kernel() -> anabranch_world::os::KernelOptions {
    anabranch_world::os::KernelOptions { unsent: Some(UNSENT), ..Default::default() }
}

const MIN: u64 = 16 << 20;
/// The maximum number of unsent bytes that the kernel buffers for a connection, in addition to the bytes in flight.
#[cfg(target_os = "linux")]
pub const UNSENT: u32 = 512 << 10;
