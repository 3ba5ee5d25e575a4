//! How to choose settings: the profile, the carrier, and the most common settings.
//!
//! [`Options::config`](crate::Options::config) contains the settings of an endpoint. Start with a profile and change
//! values with typed methods or by key:
//!
//! ```
//! use anabranch_tokio::{Config, ConfigBuilder, Options};
//!
//! let config = ConfigBuilder::new().receive_buffer(8 << 20).streams(1000).build()?;
//!
//! let mut same = Config::profile("modern").expect("a shipped profile");
//! same.set("rcvbuf", "8MiB")?;
//! same.set("streams", "1000")?;
//! same.check()?;
//! assert_eq!(config, same);
//! let options = Options::default().config(config);
//! # drop(options);
//! # Ok::<(), anabranch_tokio::KnobError>(())
//! ```
//!
//! # Profile
//!
//! - `modern` is the profile for today's programs: initial window 10, RTO.Min 200 ms, CUBIC, and loss detection by time
//!   (RACK). It interleaves messages if the peer supports that, and leaves a path after its first timeout. It is the
//!   default of this crate and of the `anabranch` commands.
//! - `rfc9260` is RFC 9260 to the letter. It waits one second before each retransmission by timer.
//!
//! [`Config::knobs`](crate::Config::knobs) lists every setting with its meaning, its value, and the source of the value.
//! [`anabranch_sctp::config`] describes the settings by purpose: several paths, large and small messages, data that
//! expires, addresses that change.
//!
//! # Carrier
//!
//! [`Carrier::Udp`](crate::Carrier) needs no privileges and passes NATs. Give the server the port
//! [`ENCAPSULATION_PORT`](crate::ENCAPSULATION_PORT), and clients port 0, for which the system chooses one. `Carrier::Ip`
//! is IP protocol 132. It needs the privilege to open raw sockets, and if the host's kernel has SCTP, that answers, too.
//!
//! # Packet size
//!
//! Packets have the size that the interface allows, and shrink when ICMP reports a smaller MTU or when they vanish
//! (`pmtud=blackhole`). Over DTLS they start with 1,200 bytes, and larger sizes are probed (`pmtud=plpmtud`, RFC 8261
//! §4). A program that sets `pmtud` chooses the method itself.
//!
//! # Addresses
//!
//! If [`Options::addresses`](crate::Options::addresses) is empty, all addresses of the host are used. Name addresses if
//! an association must use only some of them, or for loopback. [`Endpoint::connect`](crate::Endpoint::connect) accepts
//! several addresses of a peer as a list: they become paths, the first of which is the primary one.
//! [`Association::info`](crate::Association::info) shows the state of each path.
//!
//! # Order and lifetime of messages
//!
//! [`SendOptions`](crate::SendOptions) makes messages unordered, or lets them be abandoned after a time or a number of
//! retransmissions (RFC 3758, RFC 7496), if both ends have `partial_reliability=yes`.
