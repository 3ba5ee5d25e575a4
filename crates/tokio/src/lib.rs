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
//!
//! # Cancellation
//!
//! Every call may be dropped at any await, as `tokio::select!` does: it has then done nothing, or what it has done waits
//! for the next call. [`RecvStream::recv_message`] keeps what has come of a message; [`SendStream::send_message`] has
//! sent the whole message or nothing. `AsyncReadExt::read` and `AsyncWriteExt::write` are as safe; tokio's loops over
//! them (`read_exact`, `write_all`, `read_to_end`, `copy`) are not, as for any stream: how far they came is lost.
//!
//! # Where it runs
//!
//! Linux. Elsewhere the crate does not build, and says so.

#[cfg(not(target_os = "linux"))]
compile_error!("anabranch-tokio runs on Linux only: it uses Linux's timers, netlink and UDP offloads");

#[cfg(target_os = "linux")]
mod association;
#[cfg(target_os = "linux")]
mod driver;
#[cfg(target_os = "linux")]
mod endpoint;
#[cfg(target_os = "linux")]
mod stream;

#[cfg(target_os = "linux")]
pub use anabranch_sctp::{Config, KnobError, Reliability};
#[cfg(target_os = "linux")]
pub use anabranch_transport::sctp::{Carrier, ENCAPSULATION_PORT};
#[cfg(target_os = "linux")]
pub use anabranch_transport::{CloseReason, Delivery, OpenError};
#[cfg(target_os = "linux")]
pub use association::Association;
#[cfg(target_os = "linux")]
pub use endpoint::{ConnectError, Endpoint, Options};
#[cfg(target_os = "linux")]
pub use stream::{RecvError, RecvStream, SendStream};
