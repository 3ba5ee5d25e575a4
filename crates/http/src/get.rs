//! The client side of exchanges: one HTTP/1.1 exchange on a stream, and requests over HTTP/2 and HTTP/3. The command
//! `get`, the load generator and the races of the laboratory share this module. It loads no page, measures nothing and
//! does not check the content.
//!
//! Implements RFC 9110 §7.2 (Host) and §10.1.5 (User-Agent): these fields are in each request of this client.
//!
//! - `options`: the options of a request, apart from its target
//! - `requests`, `reply`: requests and responses on connections where each exchange has a stream of its own
//! - `http2`, `http3`: the two HTTP versions that have such connections

mod http2;
mod http3;
mod options;
mod reply;
mod requests;

pub use crate::http2::io::Traffic;
pub use crate::response::Answer;
pub use options::RequestOptions;
pub use reply::{Part, Reply, RequestError};
pub use requests::{Query, Requests, StartedConnection};

use crate::response::{ResponseError, ResponseParser, Step};
use anabranch_base::time::Duration;
use anabranch_transport::{CloseReason, Stream};
use anabranch_world::World;
use std::future::Future;
use std::pin::Pin;

/// A running HTTP/2 or HTTP/3 connection. It must be polled as long as requests are made on it. When it ends, the
/// session is closed.
pub type Conversation = Pin<Box<dyn Future<Output = Result<(), CloseReason>>>>;

/// The reason why an object was not delivered.
#[derive(Debug, thiserror::Error)]
pub enum GetError<E> {
    /// The session ended before the response was complete.
    #[error("{0}")]
    Closed(CloseReason),
    /// The received bytes are not a valid response.
    #[error("the response is not HTTP: {0}")]
    Response(#[from] ResponseError),
    /// The server sent no data for this period.
    #[error("no data for {} s", .0.as_secs())]
    Timeout(Duration),
    /// `take`, which receives the bytes, returned this error.
    #[error("the receiver refused the data")]
    Taker(E),
}

/// Gets `target` from `host` over `stream`, as `options` say. Calls `take` once with the head and no bytes, and then with
/// the head and each piece of the body. Returns the head and the length of the body in bytes.
///
/// # Errors
/// [`GetError`]. After an error, the stream must not be used.
pub async fn get<W: World, T: Stream, E>(
    world: &W,
    stream: &mut T,
    (host, target): (&str, &str),
    options: &RequestOptions,
    timeout: Duration,
    mut take: impl FnMut(&Answer, &[u8]) -> Result<(), E>,
) -> Result<(Answer, u64), GetError<E>> {
    let request = options.http1_request(host, target);
    let sent = world.timeout(timeout, stream.write_all(request.as_bytes())).await;
    sent.ok_or(GetError::Timeout(timeout))?.map_err(GetError::Closed)?;
    let parser = ResponseParser::with_fields().with_eof_bodies(stream.supports_half_close());
    let mut parser = parser.with_heads_only(options.head_only);
    let mut buffer = vec![0; READ_BYTES];
    let (mut answer, mut length) = (None, 0);
    loop {
        let read = world.timeout(timeout, stream.read(&mut buffer)).await;
        let read = read.ok_or(GetError::Timeout(timeout))?.map_err(GetError::Closed)?;
        if read == 0 {
            if let Some(answer) = answer.filter(|_| parser.end()) {
                return Ok((answer, length));
            }
            return Err(GetError::Closed(CloseReason::Reset("the answer is not complete".to_owned())));
        }
        let mut input = &buffer[..read];
        loop {
            match parser.step(&mut input)? {
                Step::More => break,
                Step::Head(head) => {
                    let answer_head = parser.answer(head);
                    take(&answer_head, &[]).map_err(GetError::Taker)?;
                    answer = Some(answer_head);
                }
                Step::Body(bytes) => {
                    length += bytes.len() as u64;
                    if let Some(answer) = &answer {
                        take(answer, bytes).map_err(GetError::Taker)?;
                    }
                }
                Step::End => {
                    if let Some(answer) = answer {
                        return Ok((answer, length));
                    }
                }
            }
        }
    }
}

const READ_BYTES: usize = 64 * 1024;
