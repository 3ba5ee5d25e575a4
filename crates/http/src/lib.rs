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
//!
//! # Parts that need a word
//!
//! - `limits` bounds the sessions of a server, in all threads together. When no slot is free, it ends the session that has waited longest
//!   for a request.
//! - `beneath` looks files up in one directory by handles, so that links changed during the lookup lead nowhere else.
//! - `upstream` gives a client or a gateway a stream for one exchange.
//! - `http2` shares fetch, sites and limits with HTTP/1.1. `http2/priority.rs` orders the bytes of all versions; `serve/http2.rs` hands h2
//!   little at a time in that order.
//! - `http3` runs on any session with fresh streams of one way and both. `fetch/own_stream.rs` and `serve/reply.rs` are shared by all
//!   exchanges with a stream of their own. `http3/message_reader.rs` and `http3/peer_streams.rs` read without input or output, and give each
//!   violation the error code of the RFC. `http3/connection.rs` closes the connection or the stream with it.
//! - A transport of many streams would send some of each. So the session takes little more than its congestion window holds
//!   (`Session::limit_unsent`), and ranks its streams (`Stream::set_rank`).

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
