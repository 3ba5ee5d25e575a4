//! SCTP for programs on tokio, with the names they know from quinn.
//!
//! | type | is |
//! |---|---|
//! | [`Endpoint`] | a host's SCTP: in UDP (RFC 6951), which needs no privilege, or on IP |
//! | [`Association`] | a connection of numbered streams, over one path or several |
//! | [`SendStream`], [`RecvStream`] | the two halves of a stream: `AsyncWrite`, `AsyncRead`, and whole messages |
//! | [`Options`], [`Config`] | where an endpoint is, and its settings: see [`settings`] |
//!
//! ```
//! use anabranch_tokio::{Endpoint, Options};
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let here = vec!["127.0.0.1".parse()?];
//!     let server = Endpoint::new(Options { addresses: here.clone(), listen: Some(7), ..Options::default() }).await?;
//!     let at = server.local_addresses().to_vec();
//!     tokio::spawn(async move {
//!         // Every message goes back on the stream it came on.
//!         while let Some(association) = server.accept().await {
//!             while let Ok((mut send, mut recv)) = association.accept_bi().await {
//!                 while let Ok(Some(message)) = recv.recv_message(1 << 20).await {
//!                     send.send_message(message).await.expect("the client is there");
//!                 }
//!             }
//!         }
//!     });
//!
//!     let client = Endpoint::new(Options { addresses: here, ..Options::default() }).await?;
//!     let association = client.connect(&at, 7).await?;
//!     let (mut send, mut recv) = association.open_bi().await?;
//!     send.send_message(&b"hello"[..]).await?;
//!     assert_eq!(recv.recv_message(1 << 20).await?.as_deref(), Some(&b"hello"[..]));
//!     association.close();
//!     association.closed().await;
//!     Ok(())
//! }
//! ```
//!
//! Everything here is `Send`. The endpoint itself runs in one thread of its own and is spoken to over bounded channels: a
//! reader that does not read stops the peer, and a writer waits for the network.
//!
//! The package's examples are an echo server and client, a client with two paths (`multihoming`), and an axum application
//! that is served over SCTP unchanged. Traffic is in the clear.
//!
//! # How things end
//!
//! What is dropped ends in good order. A stream's number goes back to the association once all that was written is with
//! the engine. An association whose last handle and stream are gone is shut down (RFC 9260 §9.2). An endpoint's thread
//! ends after its last association.
//!
//! There is no half-close in SCTP: a reader sees the end when the association ends. A protocol on top says itself where
//! a request ends, as HTTP does.
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
pub mod settings;
#[cfg(target_os = "linux")]
mod stream;

#[cfg(target_os = "linux")]
pub use anabranch_sctp::{
    AssociationInfo, AssociationState, Config, Extensions, KnobError, PathInfo, PathState, PathStats,
    Reliability,
};
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
