//! The heads of requests and responses: parsed strictly, and forwarded without the fields that concern only one hop.
//!
//! If the gateway and the next hop interpret the same bytes as different messages, a client can send requests in the
//! name of another client (request smuggling). The gateway therefore forwards only heads that it understands
//! completely, and writes each head anew. `anabranch_http::head` parses the heads of requests.
//!
//! Implements RFC 9112 §2.2, §3, §5, §6.1–6.3, §11.2 and RFC 9110 §7.6 (Connection, Max-Forwards, Via) as far as they
//! concern a gateway.

mod fields;
mod forwarded;
mod request;
mod response;

pub(super) use anabranch_http::head::{Refusal, end_of_head, too_large};
pub(super) use fields::{TUNNEL_FRAMING, write_field, write_trailers, write_tunnel_framing};
pub(super) use forwarded::Forwarded;
pub(super) use request::Request;
pub(super) use response::{Response, check_response_prefix};

fn bad(why: &'static str) -> Refusal {
    Refusal::bad(why)
}
