//! Prepares the response to a request that has a stream of its own, over HTTP/2 and HTTP/3. The caller sends it.

use super::access::{Access, Entry};
use super::fifo_lock::FifoGuard;
use super::site::{Answer, Asked, Content, Site};
use super::stream::{Serving, head_size};
use super::{Activity, Service, target_of};
use crate::http2::heads::fill;
use crate::http2::priority::Priority;
use crate::limits::SlotHandle;
use crate::observe::ExchangeId;
use crate::page::bounded_head;
use anabranch_world::{Work, World};
use http::header::{CONTENT_LENGTH, CONTENT_TYPE, HOST, HeaderValue};
use http::{Method, Request, Response, StatusCode};
use std::rc::Rc;

/// The status 425, Too Early (RFC 8470 §5.2).
const TOO_EARLY: StatusCode = match StatusCode::from_u16(425) {
    Ok(status) => status,
    Err(_) => StatusCode::SERVICE_UNAVAILABLE,
};

/// A response that is ready to be sent.
pub(super) struct Reply {
    pub(super) response: Response<()>,
    pub(super) content: Content,
    /// Whether the content is not sent, as for HEAD.
    pub(super) bodiless: bool,
    pub(super) priority: Priority,
    pub(super) held: Held,
}

/// The resources of a response, held until the layer below has the whole response.
pub(super) struct Held {
    entry: Option<Entry>,
    _turn: Option<FifoGuard>,
    _busy: Busy,
}

impl Held {
    /// Writes the log entry of the exchange and releases the resources. `bytes` is the number of body bytes sent.
    pub(super) fn end(self, bytes: u64) {
        if let Some(entry) = self.entry {
            entry.write(bytes);
        }
    }
}

/// Counts a request as in progress until this value is dropped.
struct Busy(Rc<Activity>);

impl Busy {
    fn begin(activity: &Rc<Activity>) -> Self {
        if activity.under_way.get() == 0 {
            activity.begin();
        } else {
            activity.under_way.set(activity.under_way.get() + 1);
        }
        Self(activity.clone())
    }
}

impl Drop for Busy {
    fn drop(&mut self) {
        self.0.done();
    }
}

/// Prepares the response to the request on `stream` of `connection`. `early` says that the request arrived in early data.
pub(super) async fn reply<W: World, S: Site, B>(
    service: &Service<W, S>,
    activity: &Rc<Activity>,
    (connection, stream): (u64, u64),
    request: &Request<B>,
    early: bool,
) -> Reply {
    let busy = Busy::begin(activity);
    let turn = if service.options.serial { Some(activity.turns.lock().await) } else { None };
    service.recorder.serving(ExchangeId { connection, stream, index: 0 }, service.world.now());
    let serving = Serving::begin(activity);
    service.world.charge(Work::Request);
    if !service.options.service_time.is_zero() {
        let _owed = activity.slot_handle.as_ref().map(SlotHandle::server_turn);
        service.world.sleep_until(service.world.now() + service.options.service_time).await;
    }
    let target = &*target_of(request.uri());
    let named = request.uri().authority().map(http::uri::Authority::as_str);
    let host = named.or_else(|| request.headers().get(HOST).and_then(|host| host.to_str().ok()));
    let asked = Asked { method: request.method(), target, host, fields: request.headers() };
    // RFC 8470 §5.2: early data can be replayed. An unsafe request is refused until the handshake is complete; after that
    // it cannot be a replay.
    let Answer { status, fields, resource } = match early && !request.method().is_safe() {
        true => Answer::said(TOO_EARLY, "only GET and HEAD are taken before the handshake is done\n"),
        false => service.answer(&asked, request.uri().scheme_str()),
    };
    let mut response = Response::new(());
    *response.status_mut() = status;
    *response.headers_mut() = fields;
    let length = resource.content.length();
    let fields = response.headers_mut();
    // RFC 9110 §8.6: Content-Length of a 304 response would have to be the length of the content that is not sent.
    if status != StatusCode::NOT_MODIFIED {
        fields.insert(CONTENT_LENGTH, HeaderValue::from(length));
        if let Ok(kind) = HeaderValue::from_str(&resource.content_type) {
            fields.insert(CONTENT_TYPE, kind);
        }
    }
    service.date.mark(fields);
    if let Some(head) = resource.head {
        let least = head_size(status, fields);
        fill(fields, (bounded_head(head) as usize).saturating_sub(least));
    }
    let entry = service.options.log.clone().map(|log| {
        let access = Access {
            peer: activity.peer.as_deref().copied(),
            stream,
            method: request.method().to_string(),
            target: target.to_owned(),
            version: request.version(),
            status: status.as_u16(),
            bytes: 0,
        };
        Entry { access, log }
    });
    let bodiless = request.method() == Method::HEAD || status == StatusCode::NOT_MODIFIED || length == 0;
    let priority = request.headers().get("priority").and_then(|value| value.to_str().ok());
    let priority = priority.map_or_else(Priority::default, Priority::read);
    drop(serving);
    let held = Held { entry, _turn: turn, _busy: busy };
    Reply { response, content: resource.content, bodiless, priority, held }
}
