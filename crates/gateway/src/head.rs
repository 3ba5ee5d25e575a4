//! Heads of requests and responses: read strictly, passed on without what was
//! meant for this hop alone.
//!
//! Two programs that see the same bytes as different messages let one client
//! speak in the name of another (request smuggling). So what this one does not
//! understand exactly it does not pass on (requests: `anabranch_http::head`). And
//! what it does pass on it writes anew.
//!
//! Home of RFC 9112 §2.2, §3, §5, §6.1–6.3, §11.2 and RFC 9110 §7.6 (Connection,
//! Max-Forwards, Via) as far as a gateway obeys them.

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
