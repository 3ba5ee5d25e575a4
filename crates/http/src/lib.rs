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
//! | [`alt_svc`] | where else a server is |
//! | [`authority`], [`upstream`] | hosts and ports, and streams to them on loan |
//! | [`http2`] | HTTP/2: windows, priorities, frames and where they lie |
//! | [`http3`] | HTTP/3: frames, QPACK, and the streams of a session |
//! | [`message`] | whether a message of HTTP/2 or HTTP/3 is malformed |
//! | [`head`], [`framing`] | how the head of a request is read, and where a body ends |
//! | [`limits`], [`closing`] | limits on sessions, and how sessions end |
//! | [`observe`] | what happened when, at both ends |
//! | [`beneath`] | files in a directory, and in no other |
//! | [`body`] | what the bytes of an object are, so that each is checked |
//!
//! HTTP/1.1 (RFC 9112) rides on TCP as everywhere, and on SCTP with one
//! exchange at a time on each stream pair; see [`mapping`].

pub mod alt_svc;
pub mod authority;
pub mod beneath;
pub mod body;
pub mod closing;
pub mod fetch;
pub mod framing;
pub mod get;
pub mod har;
pub mod head;
pub mod http2;
pub mod http3;
pub mod limits;
pub mod mapping;
pub mod message;
pub mod observe;
pub mod page;

pub mod serve;
pub mod upstream;
pub mod visit;
