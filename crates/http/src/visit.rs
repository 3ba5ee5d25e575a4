//! `get --page`: fetches a document, and then the objects that it embeds, as they are discovered. The plain client
//! requests these objects when the document that embeds them is complete. A browser finds them while the document
//! arrives, and its rules decide when they are requested.
//!
//! Documents and style sheets are parsed to find the addresses that they embed (`page::embed`). Scripts are not run.
//! Objects on other hosts are not fetched, but the result lists their addresses. Redirections within the host are
//! followed, up to a limit. Bodies are passed to a [`BodySink`] as they arrive.
//!
//! - `destination`: resolves an embedded address (RFC 3986 §5.2)
//! - `page_browser`: the browser, if there is one

mod destination;
mod page_browser;

pub use destination::Destination;

use destination::{resolve, resolve_from, resolve_secure};

use crate::alt_svc::Alternative;
use crate::authority::{Authority, Origin};
use crate::browser::Client;
use crate::get::{Answer, GetError, RequestOptions, Requests, get};
use crate::page::embed::{self, Embeds};
use crate::page::reference::Reference;
use crate::upstream::{StreamOutcome, Upstream};
use anabranch_base::time::{Duration, Instant};
use anabranch_transport::{CloseReason, Stream};
use anabranch_world::{Tasks, World};
use page_browser::PageBrowser;
use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Poll, Waker};

/// Stores the bodies of objects.
pub trait BodySink: 'static {
    /// A file that is being written.
    type File;

    /// Opens the file for the body of `target`, which is the final target after redirections. `None` means that the
    /// body is not kept. If a document cannot be stored, its embedded objects are still fetched.
    ///
    /// # Errors
    /// The message for the user, in one line. The object counts as failed.
    fn open(&self, target: &str) -> Result<Option<Self::File>, String>;

    /// Writes the next piece of a body to its file.
    ///
    /// # Errors
    /// The same as for [`open`](Self::open).
    fn write(&self, file: &mut Self::File, piece: &[u8]) -> Result<(), String>;

    /// Completes a file. A file that is dropped without this call stays incomplete.
    ///
    /// # Errors
    /// The same as for [`open`](Self::open).
    fn done(&self, file: Self::File) -> Result<(), String>;

    /// Reports a step in fetching the object with the index `object`.
    fn progress(&self, object: usize, step: Step);
}

/// A step in fetching an object, which is reported as progress.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The object was found. Objects are found in the order of their numbers.
    Found,
    /// The response to the object's request has begun. The length of the body is given if it is known.
    Started(Option<u64>),
    /// This many more bytes of the object's body have arrived.
    Received(u64),
    /// The object is finished, whether or not it was successful.
    Finished,
}

/// Describes the page to fetch, and the limits.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Plan {
    /// The authority of the server.
    pub authority: Authority,
    /// The value of the Host field.
    pub host: String,
    /// Whether to use TLS.
    pub secure: bool,
    /// The path and query of the document.
    pub document_target: String,
    /// The maximum number of objects that are fetched at the same time.
    pub at_once: usize,
    /// The program that loads the page.
    pub client: Client,
    /// Whether the server is known to support priorities, because it speaks HTTP/2 or has many streams.
    pub takes_priorities: bool,
    /// The timeout: an object fails if no bytes of it arrive for this time.
    pub timeout: Duration,
}

/// The result of fetching one object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct VisitedObject {
    /// The path and query of the object, as they appear in the document that embeds it.
    pub target: String,
    /// The index of the object that embeds this one; `None` for the document itself.
    pub initiator: Option<usize>,
    /// The media type without parameters.
    pub content_type: String,
    /// The status of the response; 0 if there was no response.
    pub status: u16,
    /// The number of body bytes received.
    pub bytes: u64,
    /// The identifier of the session that carried the object ([`anabranch_transport::Session::id`]), if any.
    pub connection: Option<u64>,
    /// The number of the stream that carried the object.
    pub stream: u64,
    /// The HTTP version over which the object was requested.
    pub version: &'static str,
    /// When the object was discovered.
    pub issued: Instant,
    /// When the request was assigned to a stream.
    pub assigned: Instant,
    /// When the head of the response arrived.
    pub head_received: Instant,
    /// When the object was complete, or when it failed.
    pub ended: Instant,
    /// The reason why the object failed; `None` if it did not fail.
    pub failure: Option<String>,
}

/// The result of fetching a page.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Visit {
    /// The document, followed by the discovered objects in the order of discovery.
    pub objects: Vec<VisitedObject>,
    /// The first URLs that were not fetched, either because they are on other hosts or because there were too many
    /// objects.
    pub left_out: Vec<String>,
    /// The total number of URLs that were not fetched.
    pub left_out_count: usize,
}

impl Visit {
    /// Records that `address` is not fetched.
    fn record_left_out(&mut self, address: &str) {
        self.left_out_count += 1;
        if self.left_out.len() < MAX_NAMED {
            self.left_out.push(address.chars().take(MAX_NAMED_CHARS).collect());
        }
    }
}

/// The means by which requests reach the server.
#[derive(Debug)]
pub enum RequestRoute<U> {
    /// Requests are sent on streams that carry one HTTP/1.1 exchange at a time.
    Streams(Rc<U>),
    /// Requests are sent on an HTTP/2 or HTTP/3 connection with this identifier ([`anabranch_transport::Session::id`]).
    Requests(Requests, u64),
}

/// A function that connects to an alternative service of the server (RFC 7838). Returns a handle for requests and the
/// identifier of the connection; `None` if the service cannot be reached.
pub type Reach = Box<dyn Fn(Alternative) -> Pin<Box<dyn Future<Output = Option<(Requests, u64)>>>>>;

/// Fetches a document, and all objects on the same host that the document embeds. The response to the document may
/// announce an alternative service. If `reach` is given and connects to that service within 250 ms, the embedded
/// objects are requested there.
pub async fn visit<W: World, U: Upstream, K: BodySink>(
    world: &W,
    route: RequestRoute<U>,
    plan: Plan,
    sink: Rc<K>,
    reach: Option<Reach>,
) -> Visit {
    let document = plan.document_target.clone();
    let browser = match plan.client {
        Client::Plain => None,
        Client::Chromium => Some(PageBrowser::new(&document, plan.takes_priorities)),
    };
    let (world, state) = (world.clone(), RefCell::new(Progress { browser, ..Progress::default() }));
    let shared = Rc::new(Visitor { world: world.clone(), route, plan, sink, reach, state });
    shared.discover(None, &document, &Reference::default());
    shared.browse(|_| ());
    let tasks = Tasks::new(world.clone());
    poll_fn(|cx| {
        loop {
            let next = {
                let mut state = shared.state.borrow_mut();
                state.waker = Some(cx.waker().clone());
                if state.running < shared.plan.at_once { state.queue.pop_front() } else { None }
            };
            let Some(index) = next else { break };
            shared.state.borrow_mut().running += 1;
            tasks.spawn("visit", shared.clone().fetch(index));
        }
        if shared.state.borrow().running == 0 { Poll::Ready(()) } else { Poll::Pending }
    })
    .await;
    tasks.wait_idle().await;
    std::mem::take(&mut shared.state.borrow_mut().visit)
}

struct Visitor<W, U, K> {
    world: W,
    route: RequestRoute<U>,
    plan: Plan,
    sink: Rc<K>,
    reach: Option<Reach>,
    state: RefCell<Progress>,
}

#[derive(Default)]
struct Progress {
    visit: Visit,
    /// For each target, the index of the discovered object in `visit.objects`.
    known: BTreeMap<String, usize>,
    queue: VecDeque<usize>,
    /// The browser that fills the queue; `None` if each object that is discovered is queued at once.
    browser: Option<PageBrowser>,
    running: usize,
    waker: Option<Waker>,
    /// The alternative service that the response to the document announces.
    alternative: Option<Alternative>,
    /// The connection to the alternative service, once it is established.
    alternative_connection: Option<(Requests, u64)>,
}

/// The result of one request: the complete response, or a redirection.
enum Fetched {
    /// The complete response and the text of its body. The last field is the reason why the body could not be stored;
    /// `None` if there was no error.
    Whole(Answer, Vec<u8>, Option<String>),
    Redirect(String),
}

/// The final result of fetching an object.
struct FetchResult {
    target: String,
    /// The text of the response, if it may embed objects.
    text: Vec<u8>,
    not_kept: Option<String>,
}

impl<W: World, U: Upstream, K: BodySink> Visitor<W, U, K> {
    /// Adds the object `target`, unless the target is already known. Without a browser, the object is queued at once.
    fn discover(&self, initiator: Option<usize>, target: &str, reference: &Reference) {
        let state = &mut *self.state.borrow_mut();
        if let Some(&known) = state.known.get(target) {
            if let (Some(browser), Some(initiator)) = (&mut state.browser, initiator) {
                browser.name(known, initiator, target, reference);
            }
            return;
        }
        if state.visit.objects.len() >= MAX_OBJECTS {
            return state.visit.record_left_out(target);
        }
        let (index, now) = (state.visit.objects.len(), self.world.now());
        state.known.insert(target.to_owned(), index);
        match (&mut state.browser, initiator) {
            (None, _) => state.queue.push_back(index),
            (Some(browser), Some(initiator)) => browser.name(index, initiator, target, reference),
            // The browser has known the document from the start.
            (Some(_), None) => {}
        }
        self.sink.progress(index, Step::Found);
        state.visit.objects.push(VisitedObject {
            target: target.to_owned(),
            initiator,
            content_type: String::new(),
            status: 0,
            bytes: 0,
            connection: None,
            stream: 0,
            version: HTTP1,
            issued: now,
            assigned: now,
            head_received: now,
            ended: now,
            failure: None,
        });
    }

    fn note(&self, index: usize, note: impl FnOnce(&mut VisitedObject, Instant)) {
        note(&mut self.state.borrow_mut().visit.objects[index], self.world.now());
    }

    /// Reports an event to the browser, if there is one, and queues the objects that it then requests.
    fn browse(&self, event: impl FnOnce(&mut PageBrowser)) {
        let state = &mut *self.state.borrow_mut();
        let Some(browser) = &mut state.browser else { return };
        event(browser);
        browser.request(&mut state.queue);
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// If there is a browser, adds the objects to which the received text of object `index` refers, and reports the
    /// text to the browser.
    fn scan(&self, index: usize, content_type: &str, target: &str, text: &[u8]) {
        if self.plan.client == Client::Plain {
            return;
        }
        let host = (self.plan.host.as_str(), self.plan.secure);
        if content_type != "text/css" {
            let (base, found) = addresses(content_type, target, host, text);
            if let Some(offset) = found.body_start.filter(|_| index == 0) {
                self.browse(|browser| browser.set_body_start(offset));
            }
            // A reference that ends at the end of the text is skipped, because in a style element its address may be
            // incomplete.
            let whole = |reference: &Reference| reference.offset < Some(text.len() as u64);
            for (address, reference) in found.with_references().filter(|(_, reference)| whole(reference)) {
                if let Destination::Here(target) = resolve_embedded(host, &base, &address) {
                    self.discover(Some(index), &target, &reference);
                }
            }
        }
        self.browse(|browser| browser.delivered(index, text.len() as u64));
    }

    async fn fetch(self: Rc<Self>, index: usize) {
        let first = self.state.borrow().visit.objects[index].target.clone();
        let ended = self.follow(index, first.clone()).await;
        let (host, secure, mut embedded) = (self.plan.host.as_str(), self.plan.secure, None);
        self.sink.progress(index, Step::Finished);
        self.note(index, |object, now| {
            object.ended = now;
            object.head_received = object.head_received.clamp(object.assigned, now);
            match ended {
                Err(error) => object.failure = Some(error),
                Ok(FetchResult { target, text, not_kept }) => {
                    embedded = Some(addresses(&object.content_type, &target, (host, secure), &text));
                    object.failure = not_kept;
                }
            }
        });
        let (base, embedded) = embedded.unwrap_or((Destination::NotFetchable, Embeds::default()));
        let alternative = self.state.borrow_mut().alternative.take();
        if let (Some(alternative), Some(reach), false) =
            (alternative, &self.reach, embedded.addresses.is_empty())
        {
            let reached = self.world.timeout(ATTEMPT, reach(alternative)).await.flatten();
            self.state.borrow_mut().alternative_connection = reached;
        }
        for (address, reference) in embedded.with_references() {
            match resolve_embedded((host, secure), &base, &address) {
                Destination::Here(target) => self.discover(Some(index), &target, &reference),
                Destination::OtherHost(url) => self.state.borrow_mut().visit.record_left_out(&url),
                Destination::NotFetchable => {}
            }
        }
        self.browse(|browser| browser.finished(index));
        let mut state = self.state.borrow_mut();
        state.running -= 1;
        if let Some(waker) = state.waker.take() {
            waker.wake();
        }
    }

    /// Fetches `target` and follows redirections.
    async fn follow(&self, index: usize, mut target: String) -> Result<FetchResult, String> {
        for _ in 0..=MAX_REDIRECTIONS {
            match self.fetch_once(index, &target).await? {
                Fetched::Whole(answer, text, not_kept) if answer.head.status == 200 => {
                    return Ok(FetchResult { target, text, not_kept });
                }
                Fetched::Whole(answer, ..) => return Err(format!("status {}", answer.head.status)),
                Fetched::Redirect(location) => {
                    match resolve_here((&self.plan.host, self.plan.secure), &target, &location) {
                        Destination::Here(next) => target = next,
                        Destination::OtherHost(url) => {
                            return Err(format!("redirected to another host: {url}"));
                        }
                        Destination::NotFetchable => {
                            return Err(format!("redirected to '{location}', which is no address of a page"));
                        }
                    }
                }
            }
        }
        Err(format!("redirected more than {MAX_REDIRECTIONS} times"))
    }

    /// Requests `target` for object `index`. Repeats the request on a new connection if a reused connection has closed
    /// without a response.
    async fn fetch_once(&self, index: usize, target: &str) -> Result<Fetched, String> {
        let mut fresh = false;
        loop {
            let alternative = self.state.borrow().alternative_connection.clone();
            let is_alternative = alternative.is_some();
            let mut body = Body { index, target, file: None, not_kept: None, text: Vec::new(), received: 0 };
            let take = |answer: &Answer, piece: &[u8]| body.take(self, answer, piece);
            let Plan { host, timeout, .. } = &self.plan;
            let (result, lease) = match (alternative, &self.route) {
                (None, RequestRoute::Streams(upstream)) => {
                    let origin = Origin::new(self.plan.authority.clone(), self.plan.secure);
                    let lease = upstream.reach(&origin, fresh, None).await;
                    let mut lease = lease.map_err(|error| error.to_string())?;
                    self.record_assignment(index, lease.connection, lease.number(), HTTP1);
                    let options = RequestOptions::default();
                    let got = get(&self.world, &mut lease, (host, target), &options, *timeout, take);
                    (got.await, Some(lease))
                }
                (Some((requests, connection)), _) => {
                    (self.get_multiplexed((&requests, connection), index, target, take).await, None)
                }
                (None, RequestRoute::Requests(requests, connection)) => {
                    (self.get_multiplexed((requests, *connection), index, target, take).await, None)
                }
            };
            let Body { file, not_kept, text, received, .. } = body;
            self.note(index, |object, _| object.bytes = received);
            let retry = lease.as_ref().is_some_and(|lease| lease.reused) && !fresh && received == 0;
            if let Some(lease) = lease {
                lease.end(match &result {
                    Ok((answer, _)) if !answer.head.close => StreamOutcome::Reusable,
                    Err(GetError::Closed(CloseReason::Cancelled)) => StreamOutcome::Cancelled,
                    _ => StreamOutcome::Torn,
                });
            }
            match result {
                Ok((answer, _)) => {
                    if let Some(location) = answer.redirection() {
                        return Ok(Fetched::Redirect(location.to_owned()));
                    }
                    file.map_or(Ok(()), |file| self.sink.done(file))?;
                    return Ok(Fetched::Whole(answer, text, not_kept));
                }
                // RFC 7838 §2.4: if the alternative service fails, the original server is used.
                Err(GetError::Closed(_)) if is_alternative && received == 0 => {
                    self.state.borrow_mut().alternative_connection = None
                }
                // RFC 9112 §9.3.1: the server may have closed the idle connection while the request was in flight, so
                // retry on a new connection.
                Err(GetError::Closed(_)) if retry => fresh = true,
                Err(GetError::Taker(error)) => return Err(error),
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    /// Requests `target` for object `index` over HTTP/2 or HTTP/3, where each request has its own stream.
    async fn get_multiplexed(
        &self,
        (requests, connection): (&Requests, u64),
        index: usize,
        target: &str,
        take: impl FnMut(&Answer, &[u8]) -> Result<(), String>,
    ) -> Result<(Answer, u64), GetError<String>> {
        let on_stream = |stream| self.record_assignment(index, connection, stream, requests.version());
        let priority = self.state.borrow().browser.as_ref().map(|browser| browser.priority(index));
        let query =
            requests.query(&self.plan.host, target).map_err(GetError::Closed)?.accepting_all(priority);
        requests.get(&self.world, &query, self.plan.timeout, on_stream, take).await
    }

    fn record_assignment(&self, index: usize, connection: u64, stream: u64, version: &'static str) {
        self.note(index, |object, now| {
            object.version = version;
            object.connection = Some(connection);
            object.stream = stream;
            object.assigned = now;
        });
    }
}

/// The body of a response that is being received.
struct Body<'a, F> {
    index: usize,
    target: &'a str,
    /// The file to which the body is written; `None` if the body is not stored.
    file: Option<F>,
    not_kept: Option<String>,
    /// The text, if the body may embed objects.
    text: Vec<u8>,
    /// The number of bytes received.
    received: u64,
}

impl<F> Body<'_, F> {
    /// Processes the head of the response or a piece of its body. `piece` is empty for the head.
    fn take<W: World, U: Upstream, K: BodySink<File = F>>(
        &mut self,
        visitor: &Visitor<W, U, K>,
        answer: &Answer,
        piece: &[u8],
    ) -> Result<(), String> {
        if piece.is_empty() {
            visitor.note(self.index, |object, now| {
                object.head_received = now;
                object.status = answer.head.status;
                object.content_type = answer.content_type.clone().unwrap_or_default();
            });
            let alternative = answer.alt_svc.as_deref().and_then(Alternative::read);
            visitor.browse(|browser| browser.answered(self.index, alternative.is_some()));
            if self.index == 0 {
                visitor.state.borrow_mut().alternative = alternative;
            }
            if answer.head.status == 200 {
                visitor.sink.progress(self.index, Step::Started(answer.head.length));
                match visitor.sink.open(self.target) {
                    Ok(opened) => self.file = opened,
                    // Continue, because a document that cannot be stored may embed objects that can be stored.
                    Err(error) if is_text(answer) => self.not_kept = Some(error),
                    Err(error) => return Err(error),
                }
            }
            return Ok(());
        }
        self.received += piece.len() as u64;
        if answer.head.status == 200 {
            visitor.sink.progress(self.index, Step::Received(piece.len() as u64));
        }
        if is_text(answer) && self.text.len() + piece.len() <= MAX_TEXT {
            self.text.extend_from_slice(piece);
            if self.text.len() <= MAX_SCANNED && answer.head.status == 200 {
                let content_type = answer.content_type.as_deref().unwrap_or_default();
                visitor.scan(self.index, content_type, self.target, &self.text);
            }
        }
        self.file.as_mut().map_or(Ok(()), |file| visitor.sink.write(file, piece))
    }
}

/// The HTTP version of requests on a stream that carries one exchange at a time.
pub const HTTP1: &str = "HTTP/1.1";
/// How long embedded objects wait for a connection to an alternative service. The value is the connection attempt delay
/// of RFC 8305 §5.
const ATTEMPT: Duration = Duration::from_millis(250);

fn is_text(answer: &Answer) -> bool {
    matches!(answer.content_type.as_deref(), Some("text/html" | "application/xhtml+xml" | "text/css"))
}

/// Resolves `address`, which occurs in the document at `base`. `secure` says whether the host is reached over TLS.
#[must_use]
pub fn resolve_here((host, secure): (&str, bool), base: &str, address: &str) -> Destination {
    if secure { resolve_secure(host, base, address) } else { resolve(host, base, address) }
}

/// Returns the addresses that a response body embeds, and the base to which these addresses are relative.
fn addresses(content_type: &str, target: &str, host: (&str, bool), body: &[u8]) -> (Destination, Embeds) {
    let mut found = match content_type {
        "text/css" => Embeds { addresses: embed::in_css(body), ..Embeds::default() },
        _ if body.is_empty() => Embeds::default(),
        _ => embed::in_html(body),
    };
    let base = found.base.take();
    // A base is prepended to every relative address. A base that is too long is ignored, because the addresses would
    // take too much memory.
    let base = base.filter(|base| base.len() <= MAX_BASE_BYTES).map(|base| resolve_here(host, target, &base));
    let base = base.filter(|base| *base != Destination::NotFetchable);
    (base.unwrap_or_else(|| Destination::Here(target.to_owned())), found)
}

/// Resolves `address`, which occurs in a document whose base is `base`.
fn resolve_embedded(host: (&str, bool), base: &Destination, address: &str) -> Destination {
    match base {
        Destination::Here(base) => resolve_here(host, base, address),
        // The base is on another host, and relative addresses refer to that host.
        Destination::OtherHost(base) => resolve_from(host.0, base, address),
        Destination::NotFetchable => Destination::NotFetchable,
    }
}

/// The maximum number of addresses in [`Visit::left_out`]. Further addresses are only counted.
const MAX_NAMED: usize = 100;
/// The maximum number of characters of an address in [`Visit::left_out`]. Longer addresses are cut.
const MAX_NAMED_CHARS: usize = 200;
/// The maximum length of a base in bytes.
const MAX_BASE_BYTES: usize = 2048;
/// The maximum number of objects of a page.
const MAX_OBJECTS: usize = 10_000;
/// RFC 9110 §15.4: the maximum number of redirections that are followed, about the same as in browsers.
pub const MAX_REDIRECTIONS: usize = 10;
/// The maximum number of bytes of a document or style sheet that are searched for embedded addresses.
const MAX_TEXT: usize = 16 << 20;
/// The maximum number of bytes of a document that are searched while it arrives. The search starts again with each
/// piece that arrives, so this limit bounds its cost.
const MAX_SCANNED: usize = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_overlong_base_is_ignored() {
        let lead = |base: &str| {
            let html = format!("<base href='{base}'><img src=a><img src=/b>");
            let (base, found) = addresses("text/html", "/d/", ("h", false), html.as_bytes());
            found
                .addresses
                .into_iter()
                .map(|address| resolve_embedded(("h", false), &base, &address))
                .collect::<Vec<_>>()
        };
        let here = |path: &str| Destination::Here(path.to_owned());
        let elsewhere = |url: &str| Destination::OtherHost(url.to_owned());
        assert_eq!(lead("/x/"), [here("/x/a"), here("/b")]);
        assert_eq!(lead("http://other/y/"), [elsewhere("http://other/y/a"), elsewhere("http://other/b")]);
        for none in ["data:x", &"x/".repeat(MAX_BASE_BYTES), &format!("//o{}/", "x".repeat(MAX_BASE_BYTES))] {
            assert_eq!(lead(none), [here("/d/a"), here("/b")]);
        }
    }

    #[test]
    fn left_out_addresses_are_counted_and_the_first_ones_listed() {
        let mut visit = Visit::default();
        for _ in 0..MAX_NAMED + 5 {
            visit.record_left_out(&"é".repeat(MAX_NAMED_CHARS + 1));
        }
        assert_eq!((visit.left_out_count, visit.left_out.len()), (MAX_NAMED + 5, MAX_NAMED));
        assert!(visit.left_out.iter().all(|named| named.chars().count() == MAX_NAMED_CHARS));
    }

    #[test]
    fn a_page_over_tls_takes_https_for_its_own() {
        let lead =
            |address: &str| resolve_embedded(("h", true), &Destination::Here("/d/x".to_owned()), address);
        for own in ["https://h/a", "http://h/a", "//h/a", "/a", "../a"] {
            assert_eq!(lead(own), Destination::Here("/a".to_owned()), "{own}");
        }
        for url in ["https://other/a", "//other/a"] {
            assert_eq!(lead(url), Destination::OtherHost("https://other/a".to_owned()), "{url}");
        }
        assert_eq!(lead("http://other/"), Destination::OtherHost("http://other/".to_owned()));
        assert_eq!(lead("data:x"), Destination::NotFetchable);
    }
}
