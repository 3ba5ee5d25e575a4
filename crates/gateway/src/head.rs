//! Heads of requests and responses: read strictly, passed on without what was
//! meant for this hop alone.
//!
//! Two programs that see the same bytes as different messages let one client
//! speak in the name of another (request smuggling). So what this one does not
//! understand exactly it does not pass on: a line that ends with a bare CR or LF,
//! a folded field, two lengths, a length beside a transfer coding, a transfer
//! coding other than chunked, a target and a Host that differ. And what it does
//! pass on it writes anew.
//!
//! Home of RFC 9112 §2.2, §3, §5, §6.1–6.3, §11.2 and RFC 9110 §7.6 (Connection,
//! Max-Forwards, Via) as far as a gateway obeys them.

use std::borrow::Cow;

mod fields;
mod request;
mod response;

pub(super) use fields::{Field, TUNNEL_FRAMING, write_field};
pub(super) use request::Request;
pub(super) use response::{Response, begins_answer};

/// A request that is refused, or a response that is none.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Refusal {
    pub(super) status: u16,
    pub(super) why: Cow<'static, str>,
}

impl Refusal {
    pub(super) fn new(status: u16, why: impl Into<Cow<'static, str>>) -> Self {
        Self { status, why: why.into() }
    }
}

fn bad(why: &'static str) -> Refusal {
    Refusal::new(400, why)
}

/// Looks for the end of a head in `bytes`, from `at` on, which moves. Lines end with CR LF and nothing else.
pub(super) fn end_of_head(bytes: &[u8], at: &mut usize) -> Result<Option<usize>, Refusal> {
    while let Some(&byte) = bytes.get(*at) {
        match byte {
            b'\n' if *at == 0 || bytes[*at - 1] != b'\r' => return Err(bad("a line ends with LF alone")),
            b'\n' if bytes[..*at + 1].ends_with(b"\r\n\r\n") => {
                *at += 1;
                return Ok(Some(*at));
            }
            b'\r' if bytes.get(*at + 1).is_some_and(|next| *next != b'\n') => {
                return Err(bad("a CR is not followed by LF"));
            }
            // What follows is not known yet.
            b'\r' if *at + 1 == bytes.len() => return Ok(None),
            0 => return Err(bad("the head contains a NUL")),
            _ => {}
        }
        *at += 1;
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn heads_end_with_an_empty_line_of_cr_lf_only() {
        let end = |text: &[u8]| {
            let (mut at, mut found) = (0, Ok(None));
            // However it is cut.
            for length in 1..=text.len() {
                found = end_of_head(&text[..length], &mut at);
                if !matches!(found, Ok(None)) {
                    break;
                }
            }
            found.map_err(|refusal| refusal.status)
        };
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\r\n\r\nrest"), Ok(Some(27)));
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\r\n"), Ok(None));
        assert_eq!(end(b"GET / HTTP/1.1\nHost: a\r\n\r\n"), Err(400));
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\n\n"), Err(400));
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n"), Err(400));
        assert_eq!(end(b"GET / HTTP/1.1\r\nHost: a\0\r\n\r\n"), Err(400));
        assert_eq!(end(b"GET / HTTP/1.1\r\r\n\r\n"), Err(400));
    }
}
