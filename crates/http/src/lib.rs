//! HTTP on streams: mapping, client, server, pages, HAR.
//!
//! | module | owns |
//! |---|---|
//! | [`page`], [`har`] | a page as a graph of fetches, and where pages come from |
//! | [`mapping`] | which exchange rides on which stream of which connection |
//! | [`fetch`] | the client: loads a page by a policy |
//! | [`get`] | the client for people: one object, to wherever it should go |
//! | [`visit`] | a page for people: what a document embeds, fetched as it is found |
//! | [`serve`] | the server: hyper on each stream |
//! | [`gateway`] | the proxy between TCP and SCTP |
//! | [`load`] | the load generator: many objects at a rate, or as fast as they come |
//! | [`bulk`] | a transfer of many bytes without HTTP |
//! | [`throughput`] | as much as goes through, between two real ends: iperf's work |
//! | [`messages`] | messages at a fixed rate, each with its own delay |
//! | [`observe`] | what happened when, at both ends |
//! | [`beneath`] | files in a directory, and in no other |
//! | [`body`] | what the bytes of an object are, so that each is checked |
//!
//! HTTP/1.1 (RFC 9112) rides on TCP as everywhere, and on SCTP with one
//! exchange at a time on each stream pair; see [`mapping`].

pub mod authority;
pub mod beneath;
pub mod body;
pub mod bulk;
pub mod closing;
pub mod fetch;
pub mod framing;
pub mod gateway;
pub mod get;
pub mod har;
pub mod load;
pub mod mapping;
pub mod messages;
pub mod observe;
pub mod page;
pub mod room;
pub mod serve;
pub mod throughput;
pub mod upstream;
pub mod visit;
