//! Prepares the response to a request, in all versions of HTTP. The caller sends it.

use super::access::{Access, PendingAccess};
use super::fifo_lock::FifoGuard;
use super::site::{Answer, Content, PATTERN_TYPE, Site, SiteRequest};
use super::{Activity, Service};
use crate::http2::heads::fill;
use crate::http2::priority::{Priority, ResponseScheduler};
use crate::limits::SlotHandle;
use crate::observe::ExchangeId;
use crate::page::bounded_head;
use anabranch_world::{Work, World};
use bytes::Bytes;
use http::header::{CONNECTION, CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::rc::Rc;
use std::task::Waker;

/// The status 425, Too Early (RFC 8470 §5.2).
const TOO_EARLY: StatusCode = match StatusCode::from_u16(425) {
    Ok(status) => status,
    Err(_) => StatusCode::SERVICE_UNAVAILABLE,
};

/// A response that is ready to be sent.
pub(super) struct PreparedResponse {
    pub(super) response: Response<()>,
    pub(super) sending: Sending<RequestGuard>,
    /// Whether the response is sent without its content, as for HEAD.
    pub(super) bodiless: bool,
    pub(super) priority: Priority,
}

/// The content of a response that is being sent, and the resources that are held until the layer below has taken the
/// content. The log entry is written when this value is dropped, whether or not the whole content was sent.
#[derive(Debug)]
pub(super) struct Sending<G> {
    pub(super) content: Content,
    /// The number of content bytes that have been taken out to be sent.
    at: u64,
    entry: Option<PendingAccess>,
    /// The lock of the session, if requests are served one at a time. Dropping it lets the next request begin.
    _turn: Option<FifoGuard>,
    /// Counts the response as in progress.
    pub(super) guard: G,
}

impl<G> Sending<G> {
    pub(super) fn new(
        content: Content,
        entry: Option<PendingAccess>,
        turn: Option<FifoGuard>,
        guard: G,
    ) -> Self {
        Self { content, at: 0, entry, _turn: turn, guard }
    }

    /// Returns the number of bytes that are left to be sent.
    pub(super) fn left(&self) -> u64 {
        self.content.length().saturating_sub(self.at)
    }

    /// Returns the next piece of the content, which has at most `cut` bytes. If the content is in a store, at most
    /// `most` bytes are read. Bytes beyond `cut` are read again for the next piece.
    pub(super) fn piece(&mut self, most: usize, cut: usize) -> io::Result<Bytes> {
        let mut piece = self.content.piece(self.at, most)?;
        piece.truncate(cut);
        self.at += piece.len() as u64;
        Ok(piece)
    }
}

impl<G> Drop for Sending<G> {
    fn drop(&mut self) {
        if let Some(PendingAccess { mut access, log }) = self.entry.take() {
            access.bytes = self.at;
            log.write(&access);
        }
    }
}

/// The unwritten responses of a session, and the order in which they are written.
pub(super) struct Unwritten<B> {
    pub(super) bodies: BTreeMap<u64, B>,
    pub(super) scheduler: ResponseScheduler,
    /// The waker of the session's task.
    pub(super) waker: Option<Waker>,
}

impl<B> Default for Unwritten<B> {
    fn default() -> Self {
        Self { bodies: BTreeMap::new(), scheduler: ResponseScheduler::default(), waker: None }
    }
}

impl<B> Unwritten<B> {
    pub(super) fn add(&mut self, stream: u64, priority: Priority, body: B) {
        self.bodies.insert(stream, body);
        self.scheduler.add(stream, priority);
        if let Some(waker) = self.waker.take() {
            waker.wake();
        }
    }

    /// Returns the streams in the order in which their responses are written.
    pub(super) fn order(&self) -> Vec<u64> {
        self.scheduler.order().collect()
    }

    /// Removes the response on `stream`, which is not written further.
    pub(super) fn remove(&mut self, stream: u64) -> Option<B> {
        self.scheduler.remove(stream);
        self.bodies.remove(&stream)
    }
}

/// Counts a request as in progress until this value is dropped.
#[derive(Debug)]
pub(super) struct RequestGuard(Rc<Activity>);

impl RequestGuard {
    fn begin(activity: &Rc<Activity>) -> Self {
        if activity.requests_in_progress.get() == 0 {
            activity.begin();
        } else {
            activity.requests_in_progress.set(activity.requests_in_progress.get() + 1);
        }
        Self(activity.clone())
    }
}

impl Drop for RequestGuard {
    fn drop(&mut self) {
        self.0.done();
    }
}

/// Counts a request as being served until this value is dropped. A guard is needed, because the future of a cancelled
/// request can be dropped at any await.
pub(super) struct ServingGuard(Rc<Activity>);

impl ServingGuard {
    fn begin(activity: &Rc<Activity>) -> Self {
        activity.serving.set(activity.serving.get() + 1);
        Self(activity.clone())
    }
}

impl Drop for ServingGuard {
    fn drop(&mut self) {
        self.0.serving.set(self.0.serving.get() - 1);
    }
}

/// Begins to serve a request. If the session serves one request at a time, waits for the earlier requests. Then waits
/// for the configured service time, which simulates the work of a server.
pub(super) async fn begin<W: World, S: Site>(
    service: &Service<W, S>,
    activity: &Rc<Activity>,
    exchange: ExchangeId,
    uri: &http::Uri,
) -> (Option<FifoGuard>, ServingGuard) {
    let turn = if service.options.serial { Some(activity.request_lock.lock().await) } else { None };
    service.recorder.serving(exchange, service.world.now());
    let serving = ServingGuard::begin(activity);
    service.world.charge(Work::Request);
    let service_time = service.options.service_time + service.site.service_time(&target_of(uri));
    if !service_time.is_zero() {
        let _owed = activity.slot_handle.as_ref().map(SlotHandle::server_turn);
        service.world.sleep_until(service.world.now() + service_time).await;
    }
    (turn, serving)
}

/// Returns the response to a request. This is `instead`, if given. Otherwise it is a refusal if the server is not
/// responsible for the origin, or else the response of the site. The head has all fields except padding.
pub(super) fn respond<W, S: Site, B>(
    service: &Service<W, S>,
    request: &Request<B>,
    instead: Option<Answer>,
    close: bool,
) -> Answer {
    let target = &*target_of(request.uri());
    // RFC 9112 §3.2.2: the authority of an absolute URL takes precedence over Host.
    let named = request.uri().authority().map(http::uri::Authority::as_str);
    let host = named.or_else(|| request.headers().get(HOST).and_then(|host| host.to_str().ok()));
    let site_request = SiteRequest { method: request.method(), target, host, fields: request.headers() };
    let own = service.options.own_origins.as_ref();
    let elsewhere = || own.and_then(|own| own.refuse(request.uri().scheme_str(), host));
    let mut answer = instead.or_else(elsewhere).unwrap_or_else(|| service.site.answer(&site_request));
    let Answer { status, fields, resource } = &mut answer;
    // RFC 9110 §8.6: a 304 response has no Content-Length, because it would have to state the length of the content
    // that is not sent.
    if *status != StatusCode::NOT_MODIFIED {
        fields.insert(CONTENT_LENGTH, HeaderValue::from(resource.content.length()));
        if let Ok(kind) = HeaderValue::from_str(&resource.content_type) {
            fields.insert(CONTENT_TYPE, kind);
        }
    }
    if close {
        fields.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    service.date.mark(fields);
    answer
}

/// Returns the path and the query of the request target `uri`.
fn target_of(uri: &http::Uri) -> Cow<'_, str> {
    let target = uri.path_and_query().map_or("/", http::uri::PathAndQuery::as_str);
    // RFC 9112 §3.2.1: an empty path means the root.
    if target.starts_with('?') { format!("/{target}").into() } else { target.into() }
}

/// Returns the log entry of an exchange, if there is a log.
pub(super) fn entry<W, S, B>(
    service: &Service<W, S>,
    activity: &Activity,
    stream: u64,
    request: &Request<B>,
    method_and_target: impl FnOnce() -> (String, String),
    status: StatusCode,
) -> Option<PendingAccess> {
    let log = service.options.log.clone()?;
    let (method, target) = method_and_target();
    let (peer, version) = (activity.peer.as_deref().copied(), request.version());
    let access = Access { peer, stream, method, target, version, status: status.as_u16(), bytes: 0 };
    Some(PendingAccess { access, log })
}

/// Returns the size in bytes of a response head with these fields.
pub(super) fn head_size(status: StatusCode, fields: &HeaderMap) -> usize {
    let status_line = "HTTP/1.1 NNN \r\n".len() + status.canonical_reason().map_or("<none>".len(), str::len);
    let fields = fields.iter().map(|(name, value)| name.as_str().len() + value.len() + 4);
    status_line + 2 + fields.sum::<usize>()
}

/// Returns the smallest possible size in bytes of the response head of a page object whose body has `body` bytes. The
/// head has no Date. With `close`, the head announces that this is the last response on the connection.
#[must_use]
pub fn min_head_size(body: u64, close: bool) -> usize {
    let mut fields = HeaderMap::new();
    fields.insert(CONTENT_LENGTH, HeaderValue::from(body));
    fields.insert(CONTENT_TYPE, HeaderValue::from_static(PATTERN_TYPE));
    if close {
        fields.insert(CONNECTION, HeaderValue::from_static("close"));
    }
    head_size(StatusCode::OK, &fields)
}

/// Prepares the response to the request on `stream` of `connection`. `early` says whether the request arrived in early
/// data.
pub(super) async fn reply<W: World, S: Site, B>(
    service: &Service<W, S>,
    activity: &Rc<Activity>,
    (connection, stream): (u64, u64),
    request: &Request<B>,
    early: bool,
) -> PreparedResponse {
    let busy = RequestGuard::begin(activity);
    let (turn, serving) =
        begin(service, activity, ExchangeId { connection, stream, index: 0 }, request.uri()).await;
    // RFC 8470 §5.2: early data can be replayed, so an unsafe request in early data is refused. After the handshake,
    // the client can send the request again.
    let too_early = (early && !request.method().is_safe()).then(|| {
        Answer::plain_text(TOO_EARLY, "only GET and HEAD are accepted before the handshake is complete\n")
    });
    let Answer { status, mut fields, resource } = respond(service, request, too_early, false);
    if let Some(head) = resource.head_size {
        let least = head_size(status, &fields);
        fill(&mut fields, (bounded_head(head) as usize).saturating_sub(least));
    }
    let named = || (request.method().to_string(), target_of(request.uri()).into_owned());
    let entry = entry(service, activity, stream, request, named, status);
    let bodiless = request.method() == Method::HEAD
        || status == StatusCode::NOT_MODIFIED
        || resource.content.length() == 0;
    let content = if bodiless { Content::Bytes(Bytes::new()) } else { resource.content };
    let mut response = Response::new(());
    (*response.status_mut(), *response.headers_mut()) = (status, fields);
    let priority = request.headers().get("priority").and_then(|value| value.to_str().ok());
    let priority = priority.map_or_else(Priority::default, Priority::read);
    drop(serving);
    PreparedResponse { response, sending: Sending::new(content, entry, turn, busy), bodiless, priority }
}
