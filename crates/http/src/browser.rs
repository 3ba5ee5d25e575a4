//! Models a browser as the client: when it finds each object of a page, and when it requests the object.
//!
//! [`Browser`] is a state machine without input or output. The client reports bytes that were delivered, responses that
//! ended and servers that were found to support priorities. The browser answers with the requests to send now, each
//! with its priority. The rules are those of Chromium, and each rule names its source. Values that change between
//! versions are in [`Rules`]. The model includes three parts of a browser's processing time, and the caller waits for
//! them. They are the time to commit the document ([`Browser::commit`]), the time to pass on requests
//! ([`Browser::receive`]), and the time to process a response ([`Browser::finished`]). A page may grow while it is
//! loaded ([`Browser::update`]).
//!
//! - [`rules`]: the values of the rules
//! - [`layout`]: where a page refers to its objects, and what is assumed if the page does not record it
//! - [`discovery`]: the parser, which finds objects as the bytes of documents, style sheets and scripts arrive
//! - [`priority`]: the priority of a request
//! - [`quality`]: whether the network is slow, which the limits depend on
//! - [`schedule`]: the two schedulers that hold requests back
//!
//! [`crate::mapping`] decides how many connections are opened, and which request gets one.

pub mod discovery;
pub mod layout;
pub mod priority;
pub mod quality;
pub mod rules;
pub mod schedule;

#[cfg(test)]
mod tests;

use crate::http2::priority::Priority;
use crate::page::Page;
use crate::page::reference::LoadPriority;
use anabranch_base::Instant;
use discovery::Discovery;
use layout::Layout;
use priority::Priorities;
use quality::NetworkQuality;
pub use rules::Rules;
use schedule::{Renderer, Service};
use std::collections::VecDeque;
use std::str::FromStr;
use std::time::Duration;

/// The program that loads a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Client {
    /// A client without a browser: it requests an object as soon as the object that causes it has arrived.
    #[default]
    Plain,
    /// Chromium.
    Chromium,
}

impl FromStr for Client {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "plain" => Ok(Self::Plain),
            "chromium" => Ok(Self::Chromium),
            _ => Err(format!("'{text}': write chromium or plain")),
        }
    }
}

/// Whether a browser visits a page for the first time, or what it remembers of the page's servers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Visit {
    /// A first visit: the browser remembers nothing.
    #[default]
    First,
    /// A repeated visit: the browser remembers the protocols of the servers, their support of priorities, and their
    /// session tickets. Objects are not cached.
    Repeat,
}

impl FromStr for Visit {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "first" => Ok(Self::First),
            "repeat" => Ok(Self::Repeat),
            _ => Err(format!("'{text}': write first or repeat")),
        }
    }
}

/// The loading of one page by a browser.
#[derive(Debug)]
pub struct Browser {
    rules: &'static Rules,
    discovery: Discovery,
    priorities: Priorities,
    renderer: Renderer,
    service: Service,
    quality: NetworkQuality,
    /// For each object, whether its host has a public address. The round trips of other hosts are not used to estimate
    /// the network's quality (net `network_quality_estimator_util.cc`, `IsPrivateHost`).
    is_public: Vec<bool>,
    /// Requests of the browser process, which no scheduler holds back.
    navigations: VecDeque<usize>,
    /// The part of the document that arrived before the document was committed to a renderer: the number of bytes, and
    /// whether it is complete. `None` once the document has been committed.
    uncommitted: Option<(u64, bool)>,
    /// The priority of each object; `None` until the object is requested.
    requested: Vec<Option<LoadPriority>>,
    /// Whether a layout has raised the priority of the visible images.
    has_layout: bool,
    /// Whether priorities have changed since the caller asked.
    is_reprioritized: bool,
}

impl Browser {
    /// Returns a browser that begins to load `page`. If `keep_origins` is false, all hosts count as one.
    #[must_use]
    pub fn new(rules: &'static Rules, page: &Page, keep_origins: bool) -> Self {
        let layout = Layout::of(page);
        let hosts = page.objects.iter().map(|object| if keep_origins { object.host } else { 0 }).collect();
        let is_public =
            page.objects.iter().map(|object| page.public.binary_search(&object.host).is_ok()).collect();
        Self {
            rules,
            quality: NetworkQuality::new(rules),
            is_public,
            priorities: Priorities::new(rules),
            discovery: Discovery::new(layout),
            renderer: Renderer::new(rules),
            service: Service::new(rules, hosts),
            navigations: VecDeque::new(),
            uncommitted: Some((0, false)),
            requested: vec![None; page.objects.len()],
            has_layout: false,
            is_reprioritized: false,
        }
    }

    /// Adds the next object of `page`, which is being loaded, or updates a preloaded object that the document has named
    /// again. All hosts count as one.
    pub fn update(&mut self, page: &Page, object: usize) {
        self.discovery.update(page, object);
        if object == self.requested.len() {
            self.requested.push(None);
            self.is_public.push(false);
            self.service.add(0);
        }
    }

    /// Sets the offset at which the body of the document begins. Only for a document that is still being loaded.
    pub const fn set_body_start(&mut self, offset: u64) {
        self.discovery.set_body_start(offset);
    }

    /// Reports that `bytes` bytes of the body of `object` have been delivered in all.
    pub fn delivered(&mut self, object: usize, bytes: u64) {
        match &mut self.uncommitted {
            Some(held) if self.discovery.is_document(object) => held.0 = held.0.max(bytes),
            _ => {
                self.discovery.delivered(object, bytes);
                self.loosen();
            }
        }
    }

    /// Whether `object` is the document and has not been committed yet. The caller commits it at the time
    /// [`Rules::commit`] after its response has begun.
    #[must_use]
    pub fn is_committed_later(&self, object: usize) -> bool {
        self.uncommitted.is_some() && self.discovery.is_document(object)
    }

    /// Lets the renderer read the document.
    pub fn commit(&mut self) {
        let Some((bytes, complete)) = self.uncommitted.take() else { return };
        let document = self.discovery.document();
        self.discovery.delivered(document, bytes);
        if complete {
            self.discovery.finished(document);
        }
        self.loosen();
    }

    /// Whether the document has been rendered. It is rendered for the first time when its parser has reached the body, and
    /// the style sheets of the head have arrived. The parser waits for the blocking scripts of the head before that.
    #[must_use]
    pub const fn has_rendered(&self) -> bool {
        self.has_layout
    }

    /// Reports that the response for `object` has begun. `rtt` is the time since its request was sent.
    pub fn answered(&mut self, object: usize, rtt: Duration) {
        if self.is_public[object]
            && let Some(quality) = self.quality.observe(rtt)
        {
            self.service.limit(self.rules, quality);
        }
    }

    /// Reports that the response for `object` has ended, whether or not it was successful.
    pub fn finished(&mut self, object: usize) {
        self.service.finished(object);
        self.renderer.finished(object);
        match &mut self.uncommitted {
            Some(held) if self.discovery.is_document(object) => held.1 = true,
            _ => {
                self.discovery.finished(object);
                self.loosen();
            }
        }
    }

    /// Reports that the host with this index supports priorities, because it speaks HTTP/2 or announced HTTP/3.
    pub fn takes_priorities(&mut self, host: usize) {
        self.service.takes_priorities(host);
    }

    /// Returns the next object that was found. The caller passes it to [`request`](Self::request), now or later.
    pub fn next_found(&mut self) -> Option<usize> {
        self.discovery.next_found()
    }

    /// Requests an object that was found. The schedulers decide when the request is sent.
    pub fn request(&mut self, object: usize) {
        let resource = self.discovery.resource(object);
        let computed = self.priorities.compute(resource);
        let priority = if resource.visible && self.has_layout { LoadPriority::High } else { computed };
        self.requested[object] = Some(priority);
        if self.discovery.is_navigation(object) {
            // The browser process requests the document. This request does not count towards the limits.
            self.navigations.push_back(object);
        } else {
            self.renderer.request(object, priority, resource.kind);
        }
    }

    /// Returns the next object whose request leaves the renderer now. The caller passes it to [`receive`](Self::receive)
    /// after the times [`Rules::dispatch`] and [`Rules::request`].
    pub fn next_dispatched(&mut self) -> Option<usize> {
        self.renderer.next()
    }

    /// Passes the request for `object` to the network service, whose scheduler decides when it is sent.
    pub fn receive(&mut self, object: usize) {
        self.service.request(object, self.priority(object));
    }

    /// Sets the current time, on which depends whether a request has waited too long at a limit. The caller sets it
    /// before it reports events.
    pub const fn set_time(&mut self, now: Instant) {
        self.service.set_time(now);
    }

    /// Whether requests wait at the limits of the network service. While there are any, the caller calls
    /// [`start_overdue`](Self::start_overdue) at intervals of [`Rules::wait_check`].
    #[must_use]
    pub fn has_waiting(&self) -> bool {
        self.service.has_waiting()
    }

    /// Starts the requests that have waited too long at a limit.
    pub fn start_overdue(&mut self) {
        self.service.start_waiting();
    }

    /// Returns the next object whose request is to be sent now.
    pub fn next_request(&mut self) -> Option<usize> {
        self.navigations.pop_front().or_else(|| self.service.next())
    }

    /// Returns the priority that `object` was requested with. An object that has not been requested has the priority of
    /// a document.
    #[must_use]
    pub fn priority(&self, object: usize) -> LoadPriority {
        self.requested[object].unwrap_or(LoadPriority::VeryHigh)
    }

    /// Returns the priority of `object` in the form of the request's `priority` field (RFC 9218).
    #[must_use]
    pub fn urgency(&self, object: usize) -> Priority {
        priority::stated(self.priority(object), self.discovery.resource(object).kind)
    }

    /// Whether `object` is requested without credentials. A browser uses separate connections for these requests.
    /// Source: net `url_request.cc`, `DeterminePrivacyMode`: the privacy mode is part of the keys of sessions and
    /// socket groups.
    #[must_use]
    pub fn is_without_credentials(&self, object: usize) -> bool {
        self.discovery.resource(object).without_credentials
    }

    /// Returns whether priorities have changed since the last call.
    pub fn take_reprioritized(&mut self) -> bool {
        std::mem::take(&mut self.is_reprioritized)
    }

    /// Returns the limits and times in the browser's rules.
    #[must_use]
    pub const fn rules(&self) -> &'static Rules {
        self.rules
    }

    fn loosen(&mut self) {
        if self.discovery.body_begun() {
            self.renderer.loosen();
        }
        if self.discovery.rendered() && !std::mem::replace(&mut self.has_layout, true) {
            self.raise_visible_images();
        }
    }

    /// Raises the priority of images in the visible part of the page. Source: blink `resource_fetcher.cc`,
    /// `UpdateAllImageResourcePriorities`, which is called after a layout.
    fn raise_visible_images(&mut self) {
        for object in self.discovery.visible() {
            if let Some(priority) = self.requested[object].as_mut().filter(|own| **own < LoadPriority::High) {
                *priority = LoadPriority::High;
                self.renderer.reprioritize(object, LoadPriority::High);
                self.service.reprioritize(object, LoadPriority::High);
                self.is_reprioritized = true;
            }
        }
    }
}
