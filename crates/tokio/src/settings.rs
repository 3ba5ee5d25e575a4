//! Choosing settings: which profile, which carrier, and the settings that programs change most often.
//!
//! [`Options::config`](crate::Options::config) holds the settings of an endpoint. Begin with a profile and change values, by
//! typed calls or by key:
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
//! - `modern` is what to take for a program of today: initial window 10, RTO.Min 200 ms, CUBIC, losses found by time
//!   (RACK), interleaving where the peer has it, and paths left after the first timeout. It is the default, here and of
//!   the `anabranch` commands.
//! - `rfc9260` is RFC 9260 by the letter. It waits a second before each retransmission by timer.
//!
//! [`Config::knobs`](crate::Config::knobs) lists every setting with its meaning, its value, and the source of the value.
//! [`anabranch_sctp::config`] describes each job: several paths, large and small messages, data that grows old, addresses
//! that change.
//!
//! # Carrier
//!
//! [`Carrier::Udp`](crate::Carrier) needs no privilege and passes NATs. Give the server the port
//! [`ENCAPSULATION_PORT`](crate::ENCAPSULATION_PORT), and clients port 0 for one that the system chooses. `Carrier::Ip` is
//! IP protocol 132; it needs the right to open raw sockets, and a host whose kernel has SCTP answers there as well.
//!
//! # Packet size
//!
//! Packets have the size that the interface takes, and become smaller when ICMP says so or when they vanish
//! (`pmtud=blackhole`). Over DTLS they begin at 1,200 bytes, and larger ones are probed (`pmtud=plpmtud`, RFC 8261 §4).
//! A program that sets `pmtud` decides for itself.
//!
//! # Addresses
//!
//! [`Options::addresses`](crate::Options::addresses) is empty for all addresses of the host. Name them where an
//! association must keep to some, or for loopback. A peer with several addresses is given to
//! [`Endpoint::connect`](crate::Endpoint::connect) as a list: they become paths, the first of them the primary one.
//! [`Association::info`](crate::Association::info) shows the state of each.
//!
//! # Order and lifetime of messages
//!
//! [`SendOptions`](crate::SendOptions) makes messages unordered, or has them given up after a time or after so many
//! retransmissions (RFC 3758, RFC 7496), where both ends have `partial_reliability=yes`.
