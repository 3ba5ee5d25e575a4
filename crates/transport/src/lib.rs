//! Engines bound to a world: async sessions and streams.
//!
//! [`drive`] is the loop that moves packets, time and events between an engine
//! and a world. [`session`] says what an application sees, [`connector`] how it
//! gets there; [`tcp`] and [`sctp`] bind the two engines, [`kernel`] the host's own
//! TCP where a world has one. One host has one engine of a kind.

pub mod connector;
pub mod drive;
pub mod kernel;
pub mod sctp;
pub mod session;
mod table;
pub mod tcp;
mod waiters;

pub use anabranch_sctp::Reliability;
pub use connector::{ConnectError, Connector, ListenError, Listener};
pub use session::{CloseReason, Delivery, OpenError, Session, Stream};

/// The engines themselves, for those who configure and inspect them.
pub mod engines {
    pub use anabranch_sctp as sctp;
    pub use anabranch_tcp as tcp;
}
