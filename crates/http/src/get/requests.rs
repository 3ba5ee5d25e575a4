//! Requests on a connection where each request has a stream of its own, over HTTP/2 or HTTP/3.

use super::reply::{Reply, RequestError};
use super::{Answer, GetError, RequestOptions, http3};
use super::{Conversation, http2};
use crate::http2::Windows;
use crate::http2::io::{OnFrame, Traffic};
use crate::http2::priority::Priority;
use crate::mapping::Version;
use crate::message::ResponseEvent;
use crate::response::Head;
use anabranch_base::time::Duration;
use anabranch_transport::{CloseReason, OpenError, Session};
use anabranch_world::World;
use http::header::{
    ACCEPT, ALT_SVC, CONTENT_LENGTH, CONTENT_TYPE, HeaderMap, HeaderName, HeaderValue, LOCATION, USER_AGENT,
};
use http::{Method, Request, StatusCode, Uri};
use std::cell::Cell;
use std::fmt;
use std::future::poll_fn;
use std::rc::Rc;
use std::task::{Context, Poll};

/// A handle that sends requests on a connection. Clones use the same connection. When the last clone is dropped, the
/// connection ends.
#[derive(Clone)]
pub struct Requests {
    sender: HttpSender,
    /// The scheme of the requested URLs.
    scheme: &'static str,
}

#[derive(Clone)]
enum HttpSender {
    Http2(http2::Requests),
    Http3(http3::Requests),
}

impl fmt::Debug for Requests {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Requests").field("version", &self.version()).finish_non_exhaustive()
    }
}

impl Requests {
    /// Starts a client on a session: HTTP/3 if `version` is HTTP/3, otherwise HTTP/2. `secure` says whether the session
    /// uses TLS. The returned conversation must be polled as long as requests are made.
    ///
    /// # Errors
    /// The session has ended, or its only stream is in use.
    pub async fn begin<S: Session>(
        session: S,
        version: Version,
        secure: bool,
    ) -> Result<StartedConnection, OpenError> {
        Self::begin_watched(session, version, secure, Box::new(|_| ())).await
    }

    /// Does the same as [`begin`](Self::begin), and calls `on_frame` for each frame of HTTP/2 that is sent.
    pub(crate) async fn begin_watched<S: Session>(
        session: S,
        version: Version,
        secure: bool,
        on_frame: OnFrame,
    ) -> Result<StartedConnection, OpenError> {
        let is_http3 = version == Version::Http3;
        let (sender, conversation, traffic) = if is_http3 {
            let (requests, conversation, traffic) = http3::begin(session).await?;
            (HttpSender::Http3(requests), conversation, traffic)
        } else {
            let windows = if let Version::Http2(windows) = version { windows } else { Windows::default() };
            let (requests, conversation, traffic) = http2::begin(session, &windows, on_frame).await?;
            (HttpSender::Http2(requests), conversation, traffic)
        };
        // RFC 9114 §3.1: HTTP/3 is always encrypted.
        let scheme = if secure || is_http3 { "https" } else { "http" };
        Ok((Self { sender, scheme }, conversation, traffic))
    }

    /// Returns the name of the HTTP version, for example `HTTP/2`.
    #[must_use]
    pub fn version(&self) -> &'static str {
        match self.sender {
            HttpSender::Http2(_) => "HTTP/2",
            HttpSender::Http3(_) => "HTTP/3",
        }
    }

    /// Returns a request for `target` on `host`. The request can be sent any number of times.
    ///
    /// # Errors
    /// Host and target do not form a valid URL.
    pub fn query(&self, host: &str, target: &str) -> Result<Query, CloseReason> {
        let wrong = |error: http::Error| CloseReason::Protocol(error.to_string());
        let uri = Uri::builder().scheme(self.scheme).authority(host).path_and_query(target);
        let request = Request::builder().method(Method::GET).version(match self.sender {
            HttpSender::Http2(_) => http::Version::HTTP_2,
            HttpSender::Http3(_) => http::Version::HTTP_3,
        });
        let agent = concat!("anabranch/", env!("CARGO_PKG_VERSION"));
        let request = request.uri(uri.build().map_err(wrong)?).header(USER_AGENT, agent).body(());
        Ok(Query(request.map_err(wrong)?))
    }

    /// Completes when the server accepts another request.
    ///
    /// # Errors
    /// [`RequestError`]
    pub fn poll_ready(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), RequestError>> {
        match &mut self.sender {
            HttpSender::Http2(requests) => http2::poll_ready(requests, cx),
            // Over HTTP/3 this call need not wait, because `send` waits until the server allows another stream.
            HttpSender::Http3(_) => Poll::Ready(Ok(())),
        }
    }

    /// Sends a request.
    ///
    /// # Errors
    /// [`RequestError`], also if the caller did not wait for [`poll_ready`](Self::poll_ready).
    pub fn send(&mut self, query: &Query) -> Result<Reply, RequestError> {
        let request = query.0.clone();
        Ok(match &mut self.sender {
            HttpSender::Http2(requests) => http2::send(requests, request)?,
            HttpSender::Http3(requests) => requests(request),
        })
    }

    /// Sends the request `query`. Calls `on_stream` with the number of the stream. Then calls `take` once for the head,
    /// and once for each piece of the body. Returns the head and the length of the body in bytes.
    ///
    /// # Errors
    /// [`GetError`].
    pub async fn get<W: World, E>(
        &self,
        world: &W,
        query: &Query,
        timeout: Duration,
        on_stream: impl FnOnce(u64),
        mut take: impl FnMut(&Answer, &[u8]) -> Result<(), E>,
    ) -> Result<(Answer, u64), GetError<E>> {
        let mut requests = self.clone();
        let closed = |unanswered: RequestError| GetError::Closed(unanswered.reason);
        // The server limits the number of concurrent requests, so wait until it accepts another one.
        let ready = world.timeout(timeout, poll_fn(|cx| requests.poll_ready(cx))).await;
        ready.ok_or(GetError::Timeout(timeout))?.map_err(closed)?;
        let mut reply = requests.send(query).map_err(closed)?;
        let sent = world.timeout(timeout, poll_fn(|cx| reply.poll_sent(cx))).await;
        on_stream(sent.ok_or(GetError::Timeout(timeout))?.map_err(closed)?);
        let (mut answer, mut length) = (None, 0);
        loop {
            let event = world.timeout(timeout, poll_fn(|cx| reply.poll_event(cx))).await;
            match event.ok_or(GetError::Timeout(timeout))?.map_err(closed)? {
                Some(ResponseEvent::Head(head)) => {
                    let response = response_info(head.status, &head.fields);
                    take(&response, &[]).map_err(GetError::Taker)?;
                    if query.0.method() == Method::HEAD {
                        return Ok((response, 0));
                    }
                    answer = Some(response);
                }
                Some(ResponseEvent::Data(bytes)) => {
                    length += bytes.len() as u64;
                    if let Some(answer) = &answer {
                        take(answer, &bytes).map_err(GetError::Taker)?;
                    }
                }
                None => {
                    // RFC 9110 §8.6: a body that is shorter than declared is incomplete, even if the layer below
                    // reported a clean end.
                    let is_whole = |answer: &Answer| {
                        matches!(answer.head.status, 204 | 304)
                            || answer.head.length.is_none_or(|declared| declared == length)
                    };
                    let incomplete = || CloseReason::Reset("the answer is not complete".to_owned());
                    return answer
                        .filter(is_whole)
                        .map(|answer| (answer, length))
                        .ok_or_else(|| GetError::Closed(incomplete()));
                }
            }
        }
    }
}

/// A handle for requests, the conversation on which they are sent, and a counter of its traffic.
pub type StartedConnection = (Requests, Conversation, Rc<Cell<Traffic>>);

/// A request that can be sent.
#[derive(Clone, Debug)]
pub struct Query(pub(crate) Request<()>);

impl Query {
    /// Returns the request that accepts any media type, with `options` applied.
    #[must_use]
    pub fn with(self, options: &RequestOptions) -> Self {
        let mut query = self.accepting_all(None);
        options.apply(&mut query.0);
        query
    }

    /// Returns the head of the request in the text form of HTTP/1.1, for display. `version` is the name of the HTTP
    /// version.
    #[must_use]
    pub fn text(&self, version: &str) -> String {
        super::options::text(&self.0, version)
    }

    /// Adds the fields with which the request accepts any media type and, if `priority` is given, has this priority
    /// (RFC 9218 §5).
    pub(crate) fn accepting_all(mut self, priority: Option<Priority>) -> Self {
        let fields = self.0.headers_mut();
        fields.insert(ACCEPT, HeaderValue::from_static("*/*"));
        if let Some(value) = priority.and_then(|priority| HeaderValue::try_from(priority.to_string()).ok()) {
            fields.insert(HeaderName::from_static("priority"), value);
        }
        self
    }
}

/// Extracts the fields of a head that are needed to follow redirections and to load pages.
fn response_info(status: StatusCode, fields: &HeaderMap) -> Answer {
    let text = |name: &HeaderName| fields.get(name).and_then(|value| value.to_str().ok());
    Answer {
        head: Head {
            status: status.as_u16(),
            length: text(&CONTENT_LENGTH).and_then(|length| length.parse().ok()),
            close: false,
        },
        location: text(&LOCATION).map(str::to_owned),
        content_type: text(&CONTENT_TYPE)
            .and_then(|kind| kind.split(';').next())
            .map(|kind| kind.trim().to_ascii_lowercase()),
        alt_svc: text(&ALT_SVC).map(str::to_owned),
        fields: fields
            .iter()
            .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
            .collect(),
    }
}
