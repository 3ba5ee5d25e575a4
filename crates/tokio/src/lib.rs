//! SCTP for programs that use tokio. Types and methods have the names that quinn uses.
//!
//! | type | content |
//! |---|---|
//! | [`Endpoint`] | SCTP on a host, in UDP (RFC 6951, no privileges needed) or directly on IP, with or without DTLS |
//! | [`Incoming`] | an association that a peer has begun, to be examined before it is accepted |
//! | [`Association`] | a connection of numbered streams over one or several paths: messages, streams, addresses, keys |
//! | [`SendOptions`], [`Received`] | the attributes of a message that is sent, and of one that was received |
//! | [`Events`], [`Event`] | reports about paths, addresses, streams, the peer and undelivered messages |
//! | [`SendStream`], [`RecvStream`] | the two halves of a stream: messages, and bytes (`AsyncWrite`, `AsyncRead`) |
//! | [`Options`], [`ConfigBuilder`], [`Config`] | an endpoint's addresses and settings: see [`settings`] |
//!
//! ```
//! use anabranch_tokio::{Endpoint, Options, SendOptions};
//! use std::time::Duration;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // A server with two addresses. Each of its associations has a path to each address.
//!     let both = ["127.0.0.1".parse()?, "127.0.0.2".parse()?];
//!     let server = Endpoint::new(Options::default().addresses(both).listen(7)).await?;
//!     let at = server.local_addresses().to_vec();
//!     tokio::spawn(async move {
//!         while let Some(incoming) = server.accept().await {
//!             println!("somebody at {:?}", incoming.remote_addresses());
//!             let association = incoming.accept().expect("it has just come");
//!             tokio::spawn(async move {
//!                 // Send each message back on its stream, with the same attributes.
//!                 while let Ok(message) = association.recv().await {
//!                     let options = SendOptions::new().ppid(message.ppid).unordered(message.unordered);
//!                     association.send(message.stream, message.bytes, &options).await.expect("the client is there");
//!                 }
//!             });
//!         }
//!     });
//!
//!     let client = Endpoint::new(Options::default().addresses(both)).await?;
//!     let association = client.connect(&at, 7).await?;
//!     let mut events = association.events();
//!     let voice = SendOptions::new().ppid(51).unordered(true).lifetime(Duration::from_secs(1));
//!     association.send(3, "hello", &voice).await?;
//!     let message = association.recv().await?;
//!     assert_eq!((message.stream, message.ppid, &message.bytes[..]), (3, 51, &b"hello"[..]));
//!     for path in association.info().expect("it is up").paths {
//!         println!("{}: RTT {:?}, cwnd {}", path.address, path.srtt, path.cwnd);
//!     }
//!     association.close();
//!     // Print all events. The last one is `Closed`.
//!     while let Some(event) = events.next().await {
//!         println!("{event:?}");
//!     }
//!     Ok(())
//! }
//! ```
//!
//! All types are `Send`. The engine runs in a thread of the endpoint. The program's calls use the same engine, under a
//! lock. A sent message is in the engine's send buffer immediately. A received message stays in the engine's receive
//! buffer until the program reads it. The only data outside these two buffers are received parts of incomplete
//! messages.
//!
//! The size of both buffers is limited (`sndbuf`, `rcvbuf`). If a program does not read, the peer has to stop sending.
//! If the send buffer is full, a writer has to wait.
//!
//! The package has these examples: `echo`, `chat`, `multihoming` (a client with two paths), and `axum` (an unchanged
//! axum application that is served over SCTP).
//!
//! # Two ways to read and write
//!
//! [`Association::send`] and [`Association::recv`] handle messages of any stream, so one task can serve all streams.
//! [`Association::open_bi`] and [`Association::accept_bi`] return single streams, so each stream can have its own task.
//! Each received message goes to the first task that asks for it, so a program should read in only one of these two
//! ways.
//!
//! # Inside
//!
//! Each endpoint has a thread of its own with an `OsWorld`, which provides the operating system's sockets and timers.
//! The thread runs the loop that drives the SCTP engine, or the engine over DTLS. The program's calls use the same
//! engine under one lock (`state`, `shared`), as quinn does for a connection. The lock is never held across an await. A
//! call that is dropped at an await leaves no partial effect. Messages that wait for room in the send buffer form a
//! queue (`fair_queue`). The received parts of an incomplete message are kept in `partial`.
//!
//! # DTLS
//!
#![cfg_attr(
    feature = "dtls",
    doc = r#"
```
use anabranch_tokio::{Dtls, Endpoint, Fingerprint, Identity, Options, SendOptions};

# #[tokio::main]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
let here = "127.0.0.1".parse()?;
let identity = Identity::self_signed(&["localhost".to_owned()])?;
// The client learns the fingerprint by other means, for example from WebRTC's signalling.
let fingerprint = Fingerprint(identity.fingerprint());
let server = Endpoint::new(Options::default().address(here).listen(7).dtls(Dtls::server(identity))).await?;
let client = Endpoint::new(Options::default().address(here).dtls(Dtls::client_with_fingerprint(fingerprint))).await?;
let theirs = async { server.accept().await.expect("somebody").accept() };
let (ours, theirs) = tokio::join!(client.connect(server.local_addresses(), 7), theirs);
let (ours, theirs) = (ours?, theirs?);
ours.send(0, "in private", &SendOptions::new()).await?;
assert_eq!(theirs.recv().await?.bytes, "in private");
# Ok(())
# }
```
"#
)]
//!
//! With [`Options::dtls`](Options), SCTP's packets are carried in DTLS 1.3 or 1.2 (RFC 8261). A server needs a
//! certificate, and a client trusts authorities or one fingerprint. An association over DTLS has one path. All
//! associations between two UDP ports share one DTLS connection. DTLS is built only with the feature `dtls`, which is
//! on by default.
//!
//! # The end of streams, associations and endpoints
//!
//! Dropping a handle closes gracefully:
//! - A stream's number is available again when both halves of the stream have been dropped.
//! - An association is shut down (RFC 9260 §9.2) when its last handle and its last stream have been dropped.
//! - An endpoint's thread ends when all handles of the endpoint have been dropped and the endpoint's last association
//!   has ended.
//!
//! [`Association::closed`] returns the reason why an association ended. Sending on an ended association fails.
//! Receiving fails after all received messages have been read.
//!
//! SCTP has no half-close, so a reader sees the end of a stream only when the association ends. A protocol above SCTP
//! has to mark the end of a request itself, as HTTP does.
//!
//! # Cancellation
//!
//! Every future may be dropped at any await, as `tokio::select!` does. The documentation of each call describes the
//! effect:
//!
//! | call | effect of dropping it early |
//! |---|---|
//! | [`Endpoint::connect`], [`connect_with`](Endpoint::connect_with) | no association remains |
//! | [`Endpoint::accept`], [`Association::accept_bi`] | nothing has been taken |
//! | [`Association::send`], [`SendStream::send`], [`send_with`](SendStream::send_with) | nothing has been sent |
//! | [`Association::recv`], [`RecvStream::recv`] | nothing is lost; the received part of a message waits |
//! | [`Events::next`] | no event has been taken |
//! | [`Association::closed`], [`Endpoint::wait_idle`], [`SendStream::buffered_amount_low`] | none |
//! | [`Endpoint::new`] | no endpoint remains |
//!
//! All other calls return immediately. `AsyncReadExt::read` and `AsyncWriteExt::write` may also be dropped safely.
//! tokio's loops over these calls (`read_exact`, `write_all`, `read_to_end`, `copy`) are not safe, as for any stream:
//! the number of bytes transferred so far is lost.
//!
//! # Platforms
//!
//! This crate supports only Linux. On other systems, compilation fails with a message.

#[cfg(not(target_os = "linux"))]
compile_error!("anabranch-tokio runs on Linux only: it uses Linux's timers, netlink and UDP offloads");

#[cfg(target_os = "linux")]
mod association;
#[cfg(target_os = "linux")]
mod builder;
#[cfg(target_os = "linux")]
mod control;
#[cfg(target_os = "linux")]
mod driver;
#[cfg(all(target_os = "linux", feature = "dtls"))]
mod dtls;
#[cfg(target_os = "linux")]
mod endpoint;
#[cfg(target_os = "linux")]
mod entry;
#[cfg(target_os = "linux")]
mod event;
#[cfg(target_os = "linux")]
mod events;
#[cfg(target_os = "linux")]
mod fair_queue;
#[cfg(target_os = "linux")]
mod handle;
#[cfg(target_os = "linux")]
mod incoming;
#[cfg(target_os = "linux")]
mod message;
#[cfg(target_os = "linux")]
mod options;
#[cfg(target_os = "linux")]
mod partial;
#[cfg(target_os = "linux")]
pub mod settings;
#[cfg(target_os = "linux")]
mod shared;
#[cfg(target_os = "linux")]
mod state;
#[cfg(target_os = "linux")]
mod stream;
#[cfg(target_os = "linux")]
mod transfer;

#[cfg(all(target_os = "linux", feature = "dtls"))]
pub use anabranch_dtls::Version;
#[cfg(target_os = "linux")]
pub use anabranch_sctp::{
    AddressChange, AddressError, AssociationInfo, AssociationState, AssociationStats, Config, Direction,
    Extensions, KeyChange, KeyError, KnobError, PathInfo, PathState, PathStats, Policy, PrimaryError,
    ReconfigResult, Reliability, ResetError, SchedulerError, SchedulerKind, Totals,
};
#[cfg(all(target_os = "linux", feature = "dtls"))]
pub use anabranch_tls::{Fingerprint, Identity, IdentityError, Trust, TrustError};
#[cfg(target_os = "linux")]
pub use anabranch_transport::sctp::{ENCAPSULATION_PORT, LowerProtocol};
#[cfg(target_os = "linux")]
pub use anabranch_transport::{CloseReason, OpenError};
#[cfg(target_os = "linux")]
pub use association::Association;
#[cfg(target_os = "linux")]
pub use builder::ConfigBuilder;
#[cfg(all(target_os = "linux", feature = "dtls"))]
pub use dtls::Dtls;
#[cfg(target_os = "linux")]
pub use endpoint::{ConnectError, ConnectOptions, Endpoint};
#[cfg(target_os = "linux")]
pub use event::{Event, SendFailed};
#[cfg(target_os = "linux")]
pub use events::Events;
#[cfg(target_os = "linux")]
pub use incoming::Incoming;
#[cfg(target_os = "linux")]
pub use message::{Received, RecvError, SendError, SendOptions};
#[cfg(target_os = "linux")]
pub use options::Options;
#[cfg(target_os = "linux")]
pub use stream::{RecvStream, SendStream};

/// Tests the example in README.md.
#[cfg(all(doctest, target_os = "linux"))]
#[doc = include_str!("../README.md")]
struct Readme;
