//! A sans-IO SCTP endpoint (RFC 9260), multi-homed from the start.
//!
//! [`Endpoint`] is a host's whole SCTP instance: any number of local ports,
//! listeners and associations over one set of local addresses. It is driven
//! through [`anabranch_base::Engine`]: packets and time go in; packets, events
//! and one deadline come out.
//!
//! | module | owns |
//! |---|---|
//! | [`config`] | every knob, the profiles, and where each value comes from |
//! | [`endpoint`] | demultiplexing, the stateless listener, cookies, stray packets |
//! | `association` | states and control chunks; the one builder of packets |
//! | `send` | from user message to acknowledged byte |
//! | `recv` | from DATA chunk to user message |
//! | `path` | one destination address and all it remembers |

mod association;
pub mod config;
pub mod endpoint;
mod error;
mod event;
mod path;
mod recv;
mod send;
mod stats;
mod streams;
#[cfg(any(test, feature = "testing"))]
pub mod testing;
#[cfg(test)]
mod tests;

pub use config::{Config, Knob, KnobError, PROFILES};
pub use endpoint::{Associate, AssociationId, Endpoint, Message, Received};
pub use error::{AssociateError, ListenError, PrimaryError, RecvError, SendError};
pub use event::{CloseReason, Event};
pub use stats::{
    AssociationInfo, AssociationState, AssociationStats, PathFailure, PathInfo, PathState, PathStats, Totals,
};
