//! Objects over HTTP/2: a stream each of one connection.

use super::{Answer, GetError};
use crate::fetch::response::Head;
use crate::http2::Windows;
use crate::http2::client::{builder, told};
use crate::http2::io::{Io, Out};
use anabranch_base::time::Duration;
use anabranch_transport::{CloseReason, Stream};
use anabranch_world::World;
use bytes::Bytes;
use h2::client::{Connection, SendRequest};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, LOCATION, USER_AGENT};
use http::{Method, Request, Uri, Version};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll};

/// A connection of HTTP/2 at work: to be polled for as long as anything is asked on it.
pub struct Conversation<T: Stream>(Connection<Io<T>, Bytes>, Out<T>);

impl<T: Stream> Future for Conversation<T> {
    type Output = Result<(), CloseReason>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        let ended = Pin::new(&mut self.0).poll(cx);
        // What goes wrong with it the next read tells.
        let _ = self.1.poll_flush(cx);
        ended.map_err(|error| told(&error))
    }
}

/// Asks on a connection of HTTP/2. A clone asks on the same; when the last is gone the connection ends.
#[derive(Clone)]
pub struct Requests {
    requests: SendRequest<Bytes>,
    /// Of the URLs that are asked for.
    scheme: &'static str,
}

impl Requests {
    /// Begins HTTP/2 on a session's one stream, as the client; `secure`: over TLS.
    ///
    /// # Errors
    /// The session has ended.
    pub async fn begin<T: Stream>(stream: T, secure: bool) -> Result<(Self, Conversation<T>), CloseReason> {
        let (io, out) = Io::new(stream, true, Bytes::new(), Box::new(|_| ()));
        let begun = builder(&Windows::default()).handshake(io).await;
        let (requests, connection) = begun.map_err(|error| told(&error))?;
        let scheme = if secure { "https" } else { "http" };
        Ok((Self { requests, scheme }, Conversation(connection, out)))
    }

    /// Gets `target` of `host`: `on_stream` is told the number of its stream, `take` gets the head, then each piece of the body with the head. Returns the head, the
    /// length of the body, and the number of the stream.
    ///
    /// # Errors
    /// [`GetError`].
    pub async fn get<W: World, E>(
        &self,
        world: &W,
        host: &str,
        target: &str,
        timeout: Duration,
        on_stream: impl FnOnce(u64),
        mut take: impl FnMut(&Answer, &[u8]) -> Result<(), E>,
    ) -> Result<(Answer, u64), GetError<E>> {
        let wrong = |what: String| GetError::Closed(CloseReason::Protocol(what));
        let uri = Uri::builder().scheme(self.scheme).authority(host).path_and_query(target);
        let uri = uri.build().map_err(|error| wrong(error.to_string()))?;
        let request = Request::builder().method(Method::GET).version(Version::HTTP_2).uri(uri);
        let agent = concat!("anabranch/", env!("CARGO_PKG_VERSION"));
        let request = request.header(USER_AGENT, agent).header("accept", "*/*").body(());
        let request = request.map_err(|error| wrong(error.to_string()))?;
        let mut requests = self.requests.clone();
        // The server says how many it takes at once.
        let ready = world.timeout(timeout, poll_fn(|cx| requests.poll_ready(cx))).await;
        ready.ok_or(GetError::Timeout(timeout))?.map_err(|error| GetError::Closed(told(&error)))?;
        let (response, _) =
            requests.send_request(request, true).map_err(|error| GetError::Closed(told(&error)))?;
        on_stream(response.stream_id().as_u32().into());
        let response = world.timeout(timeout, response).await.ok_or(GetError::Timeout(timeout))?;
        let (head, mut body) = response.map_err(|error| GetError::Closed(told(&error)))?.into_parts();
        let answer = Answer {
            head: Head {
                status: head.status.as_u16(),
                length: text(&head.headers, &CONTENT_LENGTH).and_then(|length| length.parse().ok()),
                close: false,
            },
            location: text(&head.headers, &LOCATION).map(str::to_owned),
            content_type: text(&head.headers, &CONTENT_TYPE)
                .and_then(|kind| kind.split(';').next())
                .map(|kind| kind.trim().to_ascii_lowercase()),
        };
        take(&answer, &[]).map_err(GetError::Taker)?;
        let mut length = 0;
        loop {
            let next = world.timeout(timeout, body.data()).await.ok_or(GetError::Timeout(timeout))?;
            let Some(bytes) = next.transpose().map_err(|error| GetError::Closed(told(&error)))? else {
                return Ok((answer, length));
            };
            length += bytes.len() as u64;
            // An error is the connection's, which the next piece tells of.
            let _ = body.flow_control().release_capacity(bytes.len());
            take(&answer, &bytes).map_err(GetError::Taker)?;
        }
    }
}

fn text<'a>(fields: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    fields.get(name).and_then(|value| value.to_str().ok())
}
