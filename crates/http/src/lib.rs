//! HTTP on streams: mapping, client, server, pages, HAR.
//!
//! | module | content |
//! |---|---|
//! | [`page`], [`har`] | a page as a graph of fetches, and the formats that pages are read from |
//! | [`mapping`] | the assignment of each exchange to a stream of a connection |
//! | [`fetch`] | the client that loads a page under a policy |
//! | [`get`] | the client side of exchanges, for `anabranch get`, page loads, the load generator and races |
//! | [`response`] | the parser of HTTP/1.1 responses |
//! | [`visit`] | the page load of `get --page`, which fetches embedded objects as they are discovered |
//! | [`serve`] | the server: hyper on each stream |
//! | [`alt_svc`] | alternative services that a server announces |
//! | [`authority`], [`upstream`] | hosts and ports, and a pool of connections: each exchange leases one stream |
//! | [`http2`] | HTTP/2: windows, priorities, frames and their positions in the stream |
//! | [`http3`] | HTTP/3: frames, QPACK, and the streams of a session |
//! | [`message`] | the check whether an HTTP/2 or HTTP/3 message is malformed |
//! | [`head`], [`framing`] | the parser of request heads, and the search for the end of a body |
//! | [`limits`], [`closing`] | limits on sessions, exchanges and lookups, and the closing of sessions |
//! | [`observe`] | events with their times, on client and server |
//! | [`root_dir`] | the opening of files in one directory and never outside it |
//! | [`body`] | the generated content of objects, so that every byte can be checked |
//!
//! HTTP/1.1 (RFC 9112) runs on TCP as usual. On SCTP each pair of streams carries one exchange at a time (see
//! [`mapping`]).
//!
//! # Notes on some modules
//!
//! - `browser` is a state machine. `fetch/browse.rs` reports to it what was delivered, and queues the objects that it
//!   requests. `mapping` assigns these requests to connections, and opens more of them while the protocol of a server
//!   is unknown.
//! - `limits` limits the number of sessions of a server, over all threads. If no slot is free, it ends the session that
//!   has waited longest for a request.
//! - `root_dir` resolves paths inside one directory through open handles. Therefore a symbolic link that is changed
//!   during the lookup cannot lead out of the directory.
//! - `upstream` lends a client or a gateway a stream for one exchange.
//! - `get` starts HTTP/2 and HTTP/3 on a session and sends requests. `fetch` adds a policy, and checks every byte.
//! - HTTP/2 uses the same `fetch`, the same `limits` and the same served site as HTTP/1.1. `http2/priority.rs`
//!   determines the order in which the bytes of responses are written, for all HTTP versions. `serve/http2.rs` passes
//!   small amounts to the crate `h2` in that order.
//! - `http3` runs on any session that opens unidirectional streams and a new bidirectional stream for each exchange.
//!   All exchanges that have a stream of their own share `fetch/own_stream.rs` and `serve/reply.rs`.
//!   `http3/message_reader.rs` and `http3/peer_streams.rs` parse without I/O and return the RFC's error code for each
//!   violation. `http3/connection.rs` closes the connection or the stream with that code.
//! - A transport with many streams would by itself send a part of each stream in turn. To let the priorities decide, a
//!   session accepts little more data than its congestion window holds (`Session::limit_unsent`), and ranks its streams
//!   (`Stream::set_rank`).

pub mod alt_svc;
pub mod authority;
pub mod body;
pub mod browser;
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
pub mod response;
pub mod root_dir;
pub mod serve;
pub mod upstream;
pub mod visit;
