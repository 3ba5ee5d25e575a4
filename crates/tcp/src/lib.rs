//! A sans-IO TCP endpoint (RFC 9293) fit for research.
//!
//! [`Endpoint`] is a host's whole TCP: any number of listening ports and
//! connections over one set of local addresses. It is driven through
//! [`anabranch_base::Engine`]: packets and time go in; packets, events and one
//! deadline come out.
//!
//! | module | owns |
//! |---|---|
//! | [`config`] | every knob, the profiles, and where each value comes from |
//! | `endpoint` | demultiplexing, listeners, ephemeral ports, RST for strangers |
//! | `conn` | states; what an arriving segment does; the one builder of segments |
//! | `send` | from the application's bytes to acknowledged bytes |
//! | `recv` | from segments to the application's bytes |
//! | `options` | what both sides agreed on; timestamps and PAWS |

pub mod config;
mod conn;
mod endpoint;
mod error;
mod event;
mod options;
mod recv;
mod ring;
mod send;
mod stats;
#[cfg(feature = "testing")]
pub mod testing;

pub use config::{Config, Knob, KnobError, PROFILES};
pub use conn::State;
pub use endpoint::{ConnectionId, Dropped, Endpoint};
pub use error::{ConnectError, ListenError, RecvError, SendError};
pub use event::{CloseReason, Event};
pub use stats::{Info, Stats};
