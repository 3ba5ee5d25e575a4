//! Connects a browser to a fetch: reports events to the browser, and queues the objects that it requests.

use super::{Fetch, ObjectState, Server};
use crate::browser::{Browser, Client, Visit, rules};
use crate::mapping::{Policy, Think, Version};
use crate::page::Page;
use anabranch_base::time::{Duration, Instant};
use anabranch_transport::{Connector, Session};
use anabranch_world::World;

/// Returns the browser that loads `page`; `None` if `policy` loads the page without one. `streams` is the number of
/// streams of a connection.
pub(super) fn browser(page: &Page, policy: &Policy, streams: u64) -> Option<Browser> {
    if policy.client == Client::Plain || policy.arrivals.is_some() {
        return None;
    }
    let mut browser = Browser::new(&rules::CHROMIUM, page, policy.keep_origins);
    if policy.visit == Visit::Repeat && is_multiplexed(policy, streams) {
        (0..page.hosts.len()).for_each(|host| browser.takes_priorities(host));
    }
    Some(browser)
}

/// Whether one connection carries all requests to a host.
fn is_multiplexed(policy: &Policy, streams: u64) -> bool {
    policy.version != Version::Http1 || streams > 1
}

/// Returns how many connections a browser opens to a host before it knows whether the host speaks HTTP/2. Returns
/// `None` if there is no browser, or if it knows.
pub(super) fn probes(browser: Option<&Browser>, policy: &Policy) -> Option<usize> {
    let unknown = matches!(policy.version, Version::Http2(_)) && policy.visit == Visit::First;
    browser.filter(|_| unknown).map(|browser| browser.rules().sockets_per_host)
}

impl<W: World, C: Connector> Fetch<W, C> {
    /// Queues the objects that the browser requests now, and returns whether there are any. The caller then assigns
    /// connections to them.
    pub(super) fn browse(&mut self) -> bool {
        let mut any = false;
        self.tell_time();
        if let Some(browser) = &mut self.browser
            && browser.take_reprioritized()
        {
            for server in &mut self.servers {
                server.queue.make_contiguous().sort_by_key(|&object| browser.urgency(object).urgency);
            }
        }
        while let Some(object) = self.browser.as_mut().and_then(Browser::next_found) {
            let think = self.page.objects[object].think;
            if self.policy.think == Think::Recorded && !think.is_zero() {
                self.after(think, move |browser| browser.request(object));
            } else if let Some(browser) = &mut self.browser {
                browser.request(object);
            }
        }
        self.dispatch_released();
        while let Some(object) = self.browser.as_mut().and_then(Browser::next_request) {
            match (self.objects[object].state, &mut self.browser) {
                // The object failed before it was requested, because its initiator failed.
                (ObjectState::Finished, Some(browser)) => browser.finished(object),
                _ => {
                    self.issue(object);
                    any = true;
                }
            }
        }
        self.watch_waiting();
        any
    }

    /// Passes the requests that the renderer releases now to the network service, which receives them after the time
    /// that the browser needs for all of them.
    fn dispatch_released(&mut self) {
        let Some(browser) = &mut self.browser else { return };
        let released: Vec<usize> = std::iter::from_fn(|| browser.next_dispatched()).collect();
        if released.is_empty() {
            return;
        }
        let rules = browser.rules();
        let share = |object: usize| self.page.objects[object].processing;
        let took: Duration = released.iter().map(|&object| rules.request * share(object) / 1000).sum();
        let now = self.world.now();
        let dispatched = now + rules.dispatch * share(released[0]) / 1000;
        self.requests_free = self.requests_free.max(dispatched) + took;
        let span = self.requests_free - now;
        for object in released {
            self.after(span, move |browser| browser.receive(object));
        }
    }

    /// Returns when the browser has processed the response for `object`, which was complete at `at`. The browser
    /// processes one response at a time, and begins with a response before it is complete.
    pub(super) fn process(&mut self, object: usize, at: Instant) -> Instant {
        let Some(rules) = self.browser.as_ref().map(Browser::rules) else { return at };
        let share = if self.is_pooled() { 1000 } else { rules.response_http3 };
        let usual = self.policy.client_time.unwrap_or(rules.response) * share / 1000;
        let begun = self.responses_free.max(self.objects[object].begun);
        self.responses_free = begun + usual * self.page.objects[object].processing / 1000;
        at.max(self.responses_free)
    }

    /// Tells the browser the current time.
    pub(super) fn tell_time(&mut self) {
        if let Some(browser) = &mut self.browser {
            browser.set_time(self.world.now());
        }
    }

    /// While requests wait at the browser's limits, starts those that have waited too long, at regular intervals.
    /// Source: services/network `resource_scheduler.cc`, `StartLongQueuedRequestsDispatchTimerIfNeeded`.
    fn watch_waiting(&mut self) {
        let waiting = self.browser.as_ref().filter(|browser| browser.has_waiting());
        let Some(rules) = waiting.filter(|_| !self.watches_waiting).map(Browser::rules) else { return };
        self.watches_waiting = true;
        let (world, me, at) = (self.world.clone(), self.me.clone(), self.world.now() + rules.wait_check);
        self.tasks.push(self.world.spawn("browser's limits", async move {
            world.sleep_until(at).await;
            let Some(fetch) = me.upgrade() else { return };
            let mut this = fetch.borrow_mut();
            this.watches_waiting = false;
            this.tell_time();
            if let Some(browser) = &mut this.browser {
                browser.start_overdue();
            }
            this.dispatch_all();
        }));
    }

    /// Records the time of the first rendering, if the browser has rendered the document.
    pub(super) fn record_rendering(&self) {
        if self.browser.as_ref().is_some_and(Browser::has_rendered) {
            self.recorder.rendered(self.world.now());
        }
    }

    /// Requests the objects that the browser has found since the last call.
    pub(super) fn discover(&mut self) {
        if self.browser.is_some() {
            self.dispatch_all();
        }
    }

    /// Calls `change` with the browser after the time `span`, and then sends the requests that the browser makes.
    fn after(&mut self, span: Duration, change: impl FnOnce(&mut Browser) + 'static) {
        let (world, me, at) = (self.world.clone(), self.me.clone(), self.world.now() + span);
        self.tasks.push(self.world.spawn("browser", async move {
            world.sleep_until(at).await;
            let Some(fetch) = me.upgrade() else { return };
            let mut this = fetch.borrow_mut();
            this.tell_time();
            if let Some(browser) = &mut this.browser {
                change(browser);
            }
            this.record_rendering();
            this.dispatch_all();
        }));
    }

    /// Handles the beginning of the response for `object`. A server that speaks HTTP/3 announces HTTP/3 in each
    /// response (RFC 7838). Chromium then knows that the host supports priorities.
    pub(super) fn answered(&mut self, object: usize) {
        let (version, host) = (self.policy.version, self.page.objects[object].host);
        let Some(browser) = &mut self.browser else { return };
        if let ObjectState::InFlight { since, .. } = self.objects[object].state {
            browser.answered(object, self.last_read - since);
        }
        if version == Version::Http3 {
            browser.takes_priorities(if self.policy.keep_origins { host } else { 0 });
        }
        if browser.is_committed_later(object) {
            let span = browser.rules().commit * self.page.objects[object].processing / 1000;
            self.after(span, Browser::commit);
        }
    }

    /// Handles the establishment of a connection to `server`. Over HTTP/2 and over transports with many streams, the
    /// browser then knows that a host supports priorities. The browser knows this of the host whose request opened the
    /// connection, but not of other hosts that share the connection (net `http_stream_factory_job.cc`,
    /// `DoCreateStream`).
    pub(super) fn speaks_to(&mut self, server: usize) {
        let Server { queue, host, .. } = &self.servers[server];
        let waiting = queue.front().map_or(*host, |&object| self.page.objects[object].host);
        if let Some(browser) = &mut self.browser
            && self.policy.version != Version::Http3
            && self.shares_connections
        {
            browser.takes_priorities(if self.policy.keep_origins { waiting } else { 0 });
        }
    }

    /// Whether the connection `connection_index` is not needed, because another connection to the same server has been
    /// established and carries all requests. Source: net `http_stream_factory_job.cc`, `DoCreateStream`: a job that has
    /// a socket uses a session that exists by now. Chromium then also cancels the other handshakes
    /// (`OnSpdySessionAvailable`), which is not modelled.
    pub(super) fn is_surplus(&self, connection_index: usize) -> bool {
        let server = self.connections[connection_index].server;
        let others = self.connections.iter().enumerate().filter(|(other, _)| *other != connection_index);
        self.browser.is_some()
            && matches!(self.policy.version, Version::Http2(_))
            && others.into_iter().any(|(_, it)| it.server == server && it.established && !it.is_ended)
    }

    /// If `server` is known to speak HTTP/2, starts a timer for the connection that was just opened. If the connection
    /// is not established in time, waiting requests open connections of their own. Source: net
    /// `http_stream_factory_job.cc`, `DoInitConnectionImpl`.
    pub(super) fn throttle(&mut self, server: usize) {
        let known = matches!(self.policy.version, Version::Http2(_)) && self.policy.visit == Visit::Repeat;
        let Some(rules) = self.browser.as_ref().filter(|_| known).map(Browser::rules) else { return };
        let (world, me, at) = (self.world.clone(), self.me.clone(), self.world.now() + rules.http2_throttle);
        self.tasks.push(self.world.spawn("http/2 throttle", async move {
            world.sleep_until(at).await;
            let Some(fetch) = me.upgrade() else { return };
            let mut this = fetch.borrow_mut();
            this.servers[server].mapping.probe(rules.sockets_per_host);
            this.dispatch(server);
        }));
    }

    /// Starts a timer for the first connection to `server`. When the timer expires, and the transport of the first
    /// connection that is being opened is not established, a backup connection is opened, because packets may be lost.
    /// Source: net `transport_client_socket_pool.cc`, `OnBackupJobTimerFired`. Chromium also stops the timer when no
    /// connection is being opened (`RemoveJob`), which is not modelled.
    pub(super) fn watch_first(&mut self, server: usize) {
        // Contestants with one connection over HTTP/1.1, or a connection for each object, are no browser's pool.
        let is_chosen = self.policy.version == Version::Http1 && self.policy.connections == 1
            || self.policy.objects_per_connection.is_some();
        let Some(rules) =
            self.browser.as_ref().filter(|_| self.is_pooled() && !is_chosen).map(Browser::rules)
        else {
            return;
        };
        let (world, me, at) = (self.world.clone(), self.me.clone(), self.world.now() + rules.backup_delay);
        self.tasks.push(self.world.spawn("backup connection", async move {
            world.sleep_until(at).await;
            let Some(fetch) = me.upgrade() else { return };
            let mut this = fetch.borrow_mut();
            let mut pending = this.connections.iter().filter(|it| it.server == server && !it.is_ended);
            let is_late =
                pending.find(|it| !it.established).is_some_and(|it| !it.session.is_transport_established());
            if !is_late || this.servers[server].queue.is_empty() {
                return;
            }
            if this.open_connections(server) >= rules.sockets_per_host || this.sockets_left(server, 1) == 0 {
                this.watch_first(server);
            } else {
                // If no connection can be opened, the requests still wait for the first one.
                let _ = this.open(server);
            }
        }));
    }

    /// Returns the number of connections to `server` that have not ended.
    pub(super) fn open_connections(&self, server: usize) -> usize {
        self.connections
            .iter()
            .filter(|connection| connection.server == server && !connection.is_ended)
            .count()
    }

    /// Whether the connections are in a browser's pool of sockets, which holds those over TCP and not over QUIC.
    fn is_pooled(&self) -> bool {
        matches!(self.policy.version, Version::Http2(_)) || !self.shares_connections
    }

    /// Returns how many connections may still be opened to `server`, which needs `wanted` connections. If the limit on
    /// connections allows fewer, idle connections to other servers are closed. Source: net
    /// `transport_client_socket_pool.cc`, `RequestSocketInternal` and `CloseOneIdleSocketExceptInGroup`. The limit
    /// holds for TCP connections, not for QUIC.
    pub(super) fn sockets_left(&mut self, server: usize, wanted: usize) -> usize {
        let Some(browser) = self.browser.as_ref().filter(|_| wanted > 0 && self.is_pooled()) else {
            return usize::MAX;
        };
        let open = self.connections.iter().filter(|connection| !connection.is_ended).count();
        let mut left = browser.rules().sockets.saturating_sub(open);
        while left < wanted && self.close_idle(server) {
            left += 1;
        }
        left
    }

    /// Closes an idle connection to another server than `server`. Returns whether there was one.
    fn close_idle(&mut self, server: usize) -> bool {
        let idle = self.connections.iter().enumerate().position(|(index, connection)| {
            let other = &self.servers[connection.server];
            let is_open = connection.established && !connection.is_ended;
            is_open && connection.server != server && other.queue.is_empty() && other.mapping.is_idle(index)
        });
        let Some(index) = idle else { return false };
        let connection = &mut self.connections[index];
        connection.is_ended = true;
        connection.session.close();
        self.servers[connection.server].mapping.closed(index);
        true
    }
}
