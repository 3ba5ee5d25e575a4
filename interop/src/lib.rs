//! Interoperability tests: other SCTP stacks and ours in the virtual network, and other HTTP/3 stacks and ours over
//! real sockets.
//!
//! | module | owns |
//! |---|---|
//! | [`peer`] | the interface of a foreign stack, and its adapter to an engine on a host |
//! | [`peers`] | the stacks, one file each |
//! | [`meeting`] | one run: two hosts, a link, one association |
//! | [`ours`] | our endpoint of an association |
//! | [`traffic`] | numbered messages, and the ledger that checks them |
//! | [`cases`] | the cases and their conditions |
//! | [`field`] | similar cases with real programs on a real network |
//! | [`quic`] | our HTTP/3 with other implementations of HTTP/3 |
//! | [`table`] | many seeds of every case, by peer |
//! | [`decoding`] | the same bytes through two decoders |

pub mod cases;
pub mod decoding;
pub mod field;
pub mod meeting;
pub mod ours;
pub mod peer;
pub mod peers;
pub mod quic;
pub mod table;
pub mod traffic;
