//! SCTP for programs on tokio, with the names they know from quinn.
//!
//! An [`Endpoint`] is a host's SCTP on the operating system's network: in UDP
//! (RFC 6951), which needs no privilege, or on IP. Its [`Association`]s carry
//! numbered streams; each gives a [`SendStream`] and a [`RecvStream`], which are
//! `AsyncWrite` and `AsyncRead`, and know whole messages beside. Everything here
//! is `Send`: the endpoint itself lives in a world of its own, one thread, and
//! is spoken to over bounded channels, so a reader who does not read holds up the
//! peer, and a writer waits for the network.
//!
//! ```no_run
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! use anabranch_tokio::{Endpoint, Options};
//! use tokio::io::AsyncWriteExt;
//!
//! let client = Endpoint::new(Options::default()).await?;
//! let association = client.connect(&["127.0.0.1:9899".parse()?], 80).await?;
//! let (mut send, mut recv) = association.open_bi().await?;
//! send.write_all(b"as bytes").await?;
//! send.send_message(&b"or as one message"[..]).await?;
//! let message = recv.recv_message(1 << 20).await?;
//! # drop(message);
//! association.close();
//! association.closed().await;
//! # Ok(())
//! # }
//! ```
//!
//! What is dropped ends in good order: a stream's number goes back to the
//! association once all that was written is on its way; an association whose
//! last handle and stream are gone is shut down (RFC 9260 §9.2); an endpoint's
//! thread ends after its last association. There is no half-close in SCTP: a
//! reader sees the end when the association ends, so a protocol on top says itself
//! where things end, as HTTP does. Traffic is in the clear.
#![cfg(target_os = "linux")]

mod association;
mod driver;
mod endpoint;
mod stream;

pub use anabranch_sctp::{Config, KnobError, Reliability};
pub use anabranch_transport::sctp::{Carrier, ENCAPSULATION_PORT};
pub use anabranch_transport::{CloseReason, Delivery, OpenError};
pub use association::Association;
pub use endpoint::{ConnectError, Endpoint, Options};
pub use stream::{RecvError, RecvStream, SendStream};
