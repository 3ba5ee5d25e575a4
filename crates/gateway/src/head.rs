//! Heads of requests and responses: parsed strictly, and forwarded without the fields that concern only this hop.
//!
//! If two programs interpret the same bytes as different messages, one client can send requests in the name of another
//! (request smuggling). The gateway therefore forwards nothing that it does not understand exactly (for requests see
//! `anabranch_http::head`). Heads that it does forward it writes anew.
//!
//! Home of RFC 9112 §2.2, §3, §5, §6.1–6.3, §11.2 and RFC 9110 §7.6 (Connection, Max-Forwards, Via) as far as a gateway
//! obeys them.

mod fields;
mod request;
mod response;

pub(super) use anabranch_http::head::{Refusal, end_of_head, too_large};
pub(super) use fields::{Field, TUNNEL_FRAMING, write_field, write_trailers};
pub(super) use request::Request;
pub(super) use response::{Response, begins_answer};

fn bad(why: &'static str) -> Refusal {
    Refusal::bad(why)
}
