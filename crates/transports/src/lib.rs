//! The registry of transports, and the code that opens each transport in the virtual world and on real networks.
//!
//! [`Transports::standard`] lists the built-in transports, and [`Transports::with`] adds external transports. A program
//! creates the list once, and passes it to the code that needs it. The list is not a global variable. All other code
//! looks up transports in the list and queries their capabilities.
//!
//! - `registry`: the list of transports
//! - `scheme`: the schemes of URLs and addresses, with their transport and their encryption
//! - `layers`: TLS above a transport, DTLS below it, in experiments and on real networks
//! - [`security`]: the certificates of clients and servers on real networks
//! - [`os`]: listeners, connectors and sockets shared by threads, on real networks
//!
//! The Cargo feature `quic`, which is on by default, adds QUIC to the built-in transports.

mod layers;
#[cfg(target_os = "linux")]
pub mod os;
mod registry;
mod scheme;
#[cfg(target_os = "linux")]
pub mod security;

pub use layers::Security;
pub use registry::{Emulated, Transport, Transports, Visit};
pub use scheme::{Encryption, UrlScheme};
