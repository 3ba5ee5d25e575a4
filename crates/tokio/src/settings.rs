//! How to choose the profile, the protocol that carries SCTP (UDP or IP), and the most common settings.
//!
//! [`Options::config`](crate::Options::config) contains the settings of an endpoint. Start with a profile, and change
//! values with typed methods or by key:
//!
//! ```
//! use anabranch_tokio::{Config, ConfigBuilder, Options};
//!
//! let config = ConfigBuilder::new().receive_buffer(8 << 20).streams(1000).build()?;
//!
//! let mut same = Config::profile("modern").expect("a shipped profile");
//! same.set("rcvbuf", "8MiB")?;
//! same.set("num_ostreams", "1000")?;
//! same.check()?;
//! assert_eq!(config, same);
//! let options = Options::default().config(config);
//! # drop(options);
//! # Ok::<(), anabranch_tokio::KnobError>(())
//! ```
//!
//! # Profile
//!
//! - `modern` is the profile for today's programs. It has an initial window of 10 packets, RTO.Min of 200 ms, CUBIC,
//!   and time-based loss detection (RACK). It interleaves messages if the peer supports I-DATA. After the first timeout
//!   on a path, data uses another path. `modern` is the default of this crate and of the `anabranch` commands.
//! - `rfc9260` has the literal values of RFC 9260. A retransmission by timer waits at least one second.
//!
//! [`Config::knobs`](crate::Config::knobs) lists every setting with its meaning, its value, and the source of the
//! value. [`anabranch_sctp::config`] describes the settings by purpose: several paths, large and small messages, data
//! that expires, and addresses that change.
//!
//! # Lower protocol
//!
//! [`LowerProtocol::Udp`](crate::LowerProtocol) needs no privileges and passes NATs. Use the port
//! [`ENCAPSULATION_PORT`](crate::ENCAPSULATION_PORT) for a server. Use port 0 for a client, so that the system chooses
//! a port. `LowerProtocol::Ip` sends packets as IP protocol 132, which needs the privilege to open raw sockets. If the
//! kernel of the host implements SCTP, the kernel also answers the received packets.
//!
//! # Packet size
//!
//! Packets have the size that the interface allows. They become smaller when ICMP reports a smaller MTU, or when large
//! packets are lost (`pmtud=blackhole`). Over DTLS they start with 1,200 bytes, and larger sizes are probed
//! (`pmtud=plpmtud`, RFC 8261 §4). A program can choose another method by setting `pmtud`.
//!
//! # Addresses
//!
//! If [`Options::addresses`](crate::Options::addresses) is empty, the endpoint uses all addresses of the host except
//! link-local ones. Set addresses if an association must use only some of them, or for loopback.
//! [`Endpoint::connect`](crate::Endpoint::connect) accepts a list of addresses of a peer. Each address becomes a path,
//! and the first path is the primary path. [`Association::info`](crate::Association::info) shows the state of each
//! path.
//!
//! # Order and lifetime of messages
//!
//! [`SendOptions`](crate::SendOptions) makes messages unordered, or lets them be abandoned after a time or a number of
//! retransmissions (RFC 3758, RFC 7496). Messages are abandoned only if both ends have `partial_reliability=yes`.
