//! Other stacks of SCTP meet ours in the virtual network, and those of HTTP/3 over QUIC a real one.
//!
//! | module | owns |
//! |---|---|
//! | [`peer`] | what a foreign stack has to offer, and its place as an engine on a host |
//! | [`peers`] | the stacks, one file each |
//! | [`meeting`] | one run: two hosts, a link, one association |
//! | [`ours`] | our end of an association |
//! | [`traffic`] | messages that say who they are, and who checks them |
//! | [`cases`] | what is tried, and what has to hold |
//! | [`field`] | the same with real programs on a real network |
//! | [`quic`] | our HTTP/3 and that of others |
//! | [`table`] | many seeds of every case, peer by peer |
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
