//! A sans-IO TCP endpoint (RFC 9293) for research.
//!
//! [`Endpoint`] is the complete TCP stack of a host: any number of listening ports and connections on one set of local
//! addresses. The caller drives it through [`anabranch_base::Engine`]: it passes in packets and the current time, and
//! takes out packets, events and one deadline.
//!
//! | module | owns |
//! |---|---|
//! | [`config`] | every knob, the profiles, and where each value comes from |
//! | `endpoint` | demultiplexing, listeners, ephemeral ports, RST for segments without a connection |
//! | `conn` | states, the effect of each arriving segment, and the building of all segments |
//! | `fast_path` | a faster path for the two types of segment in a transfer without loss |
//! | `send` | data from the application's `send` until its acknowledgement |
//! | `recv` | data from its arrival until the application reads it |
//! | `options` | the negotiated options, timestamps and PAWS |
//!
//! The example connects two endpoints directly:
//!
//! ```
//! use anabranch_base::{Engine, Instant, Rng, SendBatch};
//! use anabranch_tcp::{Config, Endpoint, Event};
//! use std::net::{IpAddr, Ipv4Addr, SocketAddr};
//!
//! let now = Instant::ZERO;
//! let ips = [1, 2].map(|n| IpAddr::V4(Ipv4Addr::new(10, 0, 0, n)));
//! let mut client = Endpoint::new(Config::default(), vec![ips[0]], Rng::new(1));
//! let mut server = Endpoint::new(Config::default(), vec![ips[1]], Rng::new(2));
//! server.listen(80, 0)?;
//! let id = client.connect(now, None, SocketAddr::new(ips[1], 80))?;
//! client.send(now, id, b"hello")?;
//!
//! let (mut batch, mut heard) = (SendBatch::new(1), Vec::new());
//! let mut quiet = false;
//! while !quiet {
//!     quiet = true;
//!     for turn in 0..2 {
//!         let (from, to) = if turn == 0 { (&mut client, &mut server) } else { (&mut server, &mut client) };
//!         while from.poll_transmit(now, &mut batch) {
//!             batch.packets().for_each(|packet| to.handle_packet(now, packet));
//!             batch.clear();
//!             quiet = false;
//!         }
//!     }
//! }
//! while let Some(event) = server.poll_event() {
//!     if let Event::Readable { id } = event {
//!         let mut buffer = [0; 100];
//!         let count = server.recv(now, id, &mut buffer)?;
//!         heard.extend_from_slice(&buffer[..count]);
//!     }
//! }
//! assert_eq!(heard, b"hello");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod config;
mod conn;
mod endpoint;
mod error;
mod event;
mod fast_path;
mod options;
mod recv;
mod ring;
mod send;
mod state;
mod stats;
#[cfg(feature = "testing")]
pub mod testing;

pub use config::{Config, Knob, KnobError, PROFILES};
pub use endpoint::{ConnectionId, DropCounters, Endpoint};
pub use error::{ConnectError, ListenError, RecvError, SendError};
pub use event::{CloseReason, Event};
pub use state::State;
pub use stats::{Info, Stats};

#[cfg(test)]
mod tests;
