//! SCTP for programs on tokio, with the names they know from quinn.
//!
//! | type | is |
//! |---|---|
//! | [`Endpoint`] | a host's SCTP: in UDP (RFC 6951), which needs no privilege, or on IP; in the clear, or under DTLS |
//! | [`Incoming`] | an association that a peer has begun, to be looked at before it is accepted |
//! | [`Association`] | a connection of numbered streams, over one path or several: messages, streams, paths, addresses, keys |
//! | [`SendOptions`], [`Received`] | what is said of a message that is sent, and told of one that has come |
//! | [`Events`], [`Event`] | what happens to paths, addresses, streams, the peer, and messages that were not delivered |
//! | [`SendStream`], [`RecvStream`] | the two halves of a stream: whole messages, and bytes (`AsyncWrite`, `AsyncRead`) |
//! | [`Options`], [`ConfigBuilder`], [`Config`] | where an endpoint is, and its settings: see [`settings`] |
//!
//! ```
//! use anabranch_tokio::{Endpoint, Options, SendOptions};
//! use std::time::Duration;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     // A server with two addresses. Each of its associations has a path to either.
//!     let both = ["127.0.0.1".parse()?, "127.0.0.2".parse()?];
//!     let server = Endpoint::new(Options::default().addresses(both).listen(7)).await?;
//!     let at = server.local_addresses().to_vec();
//!     tokio::spawn(async move {
//!         while let Some(incoming) = server.accept().await {
//!             println!("somebody at {:?}", incoming.remote_addresses());
//!             let association = incoming.accept().expect("it has just come");
//!             tokio::spawn(async move {
//!                 // Every message goes back on the stream it came on, as what it came.
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
//!     // What happened; the last is `Closed`.
//!     while let Some(event) = events.next().await {
//!         println!("{event:?}");
//!     }
//!     Ok(())
//! }
//! ```
//!
//! Everything here is `Send`. The engine runs in one thread of the endpoint's own and is shared with the program behind a lock,
//! so that what is sent is in its send buffer at once, and what has come stays in its receive buffer until it is read: nothing
//! else keeps messages, and all is bounded in bytes (`sndbuf`, `rcvbuf`). A reader that does not read stops the peer, and a
//! writer waits for the network.
//!
//! The package's examples are an `echo`, a `chat`, a client with two paths (`multihoming`), and an `axum` application that is
//! served over SCTP unchanged.
//!
//! # Two ways to read and write
//!
//! [`Association::send`] and [`Association::recv`] take messages on any stream: one task can serve them all. Or streams are
//! held, each by a task of its own: [`Association::open_bi`], [`Association::accept_bi`]. A message goes to whoever asks for it
//! first, so a program takes one of the two ways for what it reads.
//!
//! # DTLS
//!
//!
//! # Inside
//!
//! Each endpoint is a world of the operating system in a thread of its own. That thread runs the drive loop over SCTP's engine, or over DTLS
//! beneath it. The program's calls use the same engine behind one lock (`state`, `shared`), as quinn does for a connection. No call leaves
//! anything half done when it is dropped at an await, and nobody holds the lock across an await. Writers that wait for room take turns
//! (`turns`). What was read of an incomplete message waits in `partial`.
#![cfg_attr(
    feature = "dtls",
    doc = r#"
```
use anabranch_tokio::{Dtls, Endpoint, Fingerprint, Identity, Options, SendOptions};

# #[tokio::main]
# async fn main() -> Result<(), Box<dyn std::error::Error>> {
let here = "127.0.0.1".parse()?;
let identity = Identity::self_signed(&["localhost".to_owned()])?;
// The client knows it from elsewhere, as WebRTC's signalling tells.
let fingerprint = Fingerprint(identity.fingerprint());
let server = Endpoint::new(Options::default().address(here).listen(7).dtls(Dtls::server(identity))).await?;
let client = Endpoint::new(Options::default().address(here).dtls(Dtls::client_of(fingerprint))).await?;
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
//! With [`Options::dtls`](Options) SCTP's packets go under DTLS 1.3 or 1.2 (RFC 8261): a server shows a certificate, and a client
//! believes authorities or one fingerprint. An association over it has one path. All associations of two UDP ports share one
//! connection of DTLS. Without the feature `dtls`, which is on by default, none of that is built.
//!
//! # How things end
//!
//! What is dropped ends in good order. A stream's number goes back to the association with its two halves. An association
//! whose last handle and stream are gone is shut down (RFC 9260 §9.2). An endpoint's thread ends after its last association.
//! [`Association::closed`] says why it ended; sending and receiving are errors then, once all that came before has been read.
//!
//! There is no half-close in SCTP: a reader sees the end when the association ends. A protocol on top says itself where
//! a request ends, as HTTP does.
//!
//! # Cancellation
//!
//! Every call may be dropped at any await, as `tokio::select!` does. What that means is said with each call:
//!
//! | call | dropped before it is ready |
//! |---|---|
//! | [`Endpoint::connect`], [`connect_with`](Endpoint::connect_with) | leaves no association |
//! | [`Endpoint::accept`], [`Association::accept_bi`] | has taken none |
//! | [`Association::send`], [`SendStream::send`], [`send_with`](SendStream::send_with) | has sent nothing; there is no part of a message |
//! | [`Association::recv`], [`RecvStream::recv`] | has lost nothing; what has come of a message waits |
//! | [`Events::next`] | has taken none |
//! | [`Association::closed`], [`Endpoint::wait_idle`], [`SendStream::buffered_amount_low`] | has done nothing |
//! | [`Endpoint::new`] | leaves no endpoint |
//!
//! All other calls return at once. `AsyncReadExt::read` and `AsyncWriteExt::write` are as safe; tokio's loops over them
//! (`read_exact`, `write_all`, `read_to_end`, `copy`) are not, as for any stream: how far they came is lost.
//!
//! # Where it runs
//!
//! Linux. Elsewhere the crate does not build, and says so.

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
mod incoming;
#[cfg(target_os = "linux")]
mod message;
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
#[cfg(target_os = "linux")]
mod turns;

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
pub use anabranch_transport::sctp::{Carrier, ENCAPSULATION_PORT};
#[cfg(target_os = "linux")]
pub use anabranch_transport::{CloseReason, OpenError};
#[cfg(target_os = "linux")]
pub use association::Association;
#[cfg(target_os = "linux")]
pub use builder::ConfigBuilder;
#[cfg(all(target_os = "linux", feature = "dtls"))]
pub use dtls::Dtls;
#[cfg(target_os = "linux")]
pub use endpoint::{ConnectError, ConnectOptions, Endpoint, Options};
#[cfg(target_os = "linux")]
pub use event::{Event, Events, SendFailed};
#[cfg(target_os = "linux")]
pub use incoming::Incoming;
#[cfg(target_os = "linux")]
pub use message::{Received, RecvError, SendError, SendOptions};
#[cfg(target_os = "linux")]
pub use stream::{RecvStream, SendStream};

/// The example of README.md.
#[cfg(all(doctest, target_os = "linux"))]
#[doc = include_str!("../README.md")]
struct Readme;
