//! The registry of transports: which there are, and whether each runs in the virtual world, on real networks, or both.
//!
//! [`Transports::standard`] lists the built-in transports, and [`Transports::with`] adds external ones. A program makes
//! the list once, and passes it to the code that needs it. It is not a global. All other code looks transports up in the
//! list and asks them for their capabilities.
//!
//! - `registry`: the list
//!
//! The feature `quic`, which is on by default, adds QUIC to the list.

mod registry;

pub use registry::{Emulated, Transport, Transports, Visit};
