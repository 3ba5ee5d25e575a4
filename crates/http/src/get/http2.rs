//! Objects over HTTP/2: a stream each of one connection.

use super::{Answer, GetError};
use crate::fetch::response::Head;
use crate::http2::Windows;
use crate::http2::client::{builder, told};
use crate::http2::io::{Io, Out, Traffic};
use anabranch_base::time::Duration;
use anabranch_transport::{CloseReason, Stream};
use anabranch_world::World;
use bytes::Bytes;
use h2::client::{Connection, ResponseFuture, SendRequest};
use h2::{Reason, RecvStream};
use http::header::{
    ACCEPT, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, USER_AGENT,
};
use http::{Method, Request, Uri, Version};
use std::cell::Cell;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};

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
#[derive(Clone, Debug)]
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
        Self::over(io, out, secure).await
    }

    /// The same, and what passes is counted.
    ///
    /// # Errors
    /// The session has ended.
    pub async fn begin_counted<T: Stream>(
        stream: T,
        secure: bool,
    ) -> Result<(Self, Conversation<T>, Rc<Cell<Traffic>>), CloseReason> {
        let (mut io, out) = Io::new(stream, true, Bytes::new(), Box::new(|_| ()));
        let traffic = io.count();
        let (requests, conversation) = Self::over(io, out, secure).await?;
        Ok((requests, conversation, traffic))
    }

    async fn over<T: Stream>(
        io: Io<T>,
        out: Out<T>,
        secure: bool,
    ) -> Result<(Self, Conversation<T>), CloseReason> {
        let begun = builder(&Windows::default()).handshake(io).await;
        let (requests, connection) = begun.map_err(|error| told(&error))?;
        let scheme = if secure { "https" } else { "http" };
        Ok((Self { requests, scheme }, Conversation(connection, out)))
    }

    /// A request for `target` of `host`, to be sent any number of times.
    ///
    /// # Errors
    /// They make no URL.
    pub fn query(&self, host: &str, target: &str) -> Result<Query, CloseReason> {
        let wrong = |error: http::Error| CloseReason::Protocol(error.to_string());
        let uri = Uri::builder().scheme(self.scheme).authority(host).path_and_query(target);
        let request = Request::builder().method(Method::GET).version(Version::HTTP_2);
        let agent = concat!("anabranch/", env!("CARGO_PKG_VERSION"));
        let request = request.uri(uri.build().map_err(wrong)?).header(USER_AGENT, agent).body(());
        Ok(Query(request.map_err(wrong)?))
    }

    /// Ready when the server takes another request.
    ///
    /// # Errors
    /// [`Unanswered`]
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), Unanswered>> {
        self.requests.poll_ready(cx).map_err(|error| Unanswered::of(&error))
    }

    /// Sends a request.
    ///
    /// # Errors
    /// [`Unanswered`], also where [`poll_ready`](Self::poll_ready) was not ready.
    pub fn send(&mut self, query: &Query) -> Result<Reply, Unanswered> {
        let sent = self.requests.send_request(query.0.clone(), true);
        let (response, _) = sent.map_err(|error| Unanswered::of(&error))?;
        Ok(Reply(State::Head(response)))
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
        let Query(mut request) = self.query(host, target).map_err(GetError::Closed)?;
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static("*/*"));
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

/// A request that can be sent.
#[derive(Clone, Debug)]
pub struct Query(Request<()>);

/// Why a request has no answer.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Unanswered {
    /// What happened.
    pub reason: CloseReason,
    /// The server has done nothing with it: it can be sent again, on another connection (RFC 9113 §8.7).
    pub unprocessed: bool,
}

impl Unanswered {
    fn of(error: &h2::Error) -> Self {
        // RFC 9113 §6.8: a server that ends in good order takes no more streams, and has not touched later ones.
        let gone = error.is_go_away() && error.is_remote() && error.reason() == Some(Reason::NO_ERROR);
        let refused = error.is_reset() && error.reason() == Some(Reason::REFUSED_STREAM);
        Self { reason: told(error), unprocessed: gone || refused }
    }
}

/// The answer to a request, as it comes. If dropped before its end, the request is cancelled.
pub struct Reply(State);

enum State {
    Head(ResponseFuture),
    Body(RecvStream),
}

/// What has come of an answer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// Its head, with the status.
    Head(u16),
    /// So many bytes of its body.
    Body(u64),
    /// Its end.
    End,
}

impl Reply {
    /// What comes next.
    ///
    /// # Errors
    /// [`Unanswered`]
    pub fn poll(&mut self, cx: &mut Context<'_>) -> Poll<Result<Part, Unanswered>> {
        match &mut self.0 {
            State::Head(response) => {
                let response = ready!(Pin::new(response).poll(cx)).map_err(|error| Unanswered::of(&error))?;
                let status = response.status().as_u16();
                self.0 = State::Body(response.into_body());
                Poll::Ready(Ok(Part::Head(status)))
            }
            State::Body(body) => match ready!(body.poll_data(cx)) {
                None => Poll::Ready(Ok(Part::End)),
                Some(Err(error)) => Poll::Ready(Err(Unanswered::of(&error))),
                Some(Ok(bytes)) => {
                    // An error is the connection's, which the next part tells of.
                    let _ = body.flow_control().release_capacity(bytes.len());
                    Poll::Ready(Ok(Part::Body(bytes.len() as u64)))
                }
            },
        }
    }
}

fn text<'a>(fields: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    fields.get(name).and_then(|value| value.to_str().ok())
}
