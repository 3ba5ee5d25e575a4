//! The connections of a fetch: opens as many as the client's policy allows, assigns objects to them, and closes them.

use super::own_stream::{self, Response};
use super::pipeline::{self, Exchange, Pipeline, PipelineEnd};
use super::{Fetch, Object, ObjectState, max_concurrent, request};
use crate::body::Pattern;
use crate::get::{Query, Requests};
use crate::mapping::Version;
use crate::observe::{Assigned, ExchangeId, FetchError};
use anabranch_base::time::Instant;
use anabranch_transport::{CloseReason, ConnectError, Connector, Session};
use anabranch_world::World;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

pub(super) struct Connection<S: Session> {
    pub(super) session: S,
    pub(super) server: usize,
    pub(super) opened: Instant,
    pub(super) established: bool,
    /// Whether the connection has ended, so that it carries no more objects.
    pub(super) is_ended: bool,
    /// Whether HTTP/2 or HTTP/3 has been started on the connection.
    speaking: bool,
    /// The handle that sends requests over HTTP/2 or HTTP/3; `None` until one of these versions has been started.
    pub(super) requests: Option<Requests>,
    pub(super) pipelines: BTreeMap<u64, Rc<RefCell<Pipeline>>>,
}

impl<W: World, C: Connector> Fetch<W, C> {
    /// Requests more streams from `server` for the queued objects, if the policy allows it.
    pub(super) fn grow(&mut self, server: usize) {
        let mut queued = self.servers[server].queue.len();
        while let Some((connection_index, more)) = self.servers[server].mapping.growth(queued) {
            queued = queued.saturating_sub(more as usize);
            let session = self.connections[connection_index].session.clone();
            session.request_streams(more);
            let me = self.me.clone();
            self.tasks.push(self.world.spawn("http growth", async move {
                let streams = session.streams_added().await;
                let Some(fetch) = me.upgrade() else { return };
                let mut this = fetch.borrow_mut();
                this.servers[server].mapping.grown(connection_index, streams);
                this.dispatch(server);
            }));
        }
    }

    /// Opens a connection to `server`. Returns true if requests can be written to the connection at once.
    pub(super) fn open(&mut self, server: usize) -> Result<bool, ConnectError> {
        let session = self.connector.connect(self.servers[server].host)?;
        let now = self.world.now();
        let connection_index = self.connections.len();
        let early = session.early_data();
        self.recorder.opened(session.id(), now);
        let version = self.policy.version;
        let streams = max_concurrent(version, session.streams());
        let usable = early && version == Version::Http1;
        self.servers[server].mapping.opened(connection_index, streams, usable);
        let me = self.me.clone();
        let watched = session.clone();
        self.tasks.push(self.world.spawn("http connection", async move {
            if watched.established().await.is_ok()
                && let Some(fetch) = me.upgrade()
            {
                fetch.borrow_mut().established(connection_index);
            }
            let reason = watched.closed().await;
            if let Some(fetch) = me.upgrade() {
                let mut this = fetch.borrow_mut();
                let now = this.world.now();
                this.recorder.closed(watched.id(), now, &reason);
                this.closed(connection_index, &reason);
            }
        }));
        let pipelines = BTreeMap::new();
        self.connections.push(Connection {
            session,
            server,
            opened: now,
            established: false,
            is_ended: false,
            speaking: false,
            requests: None,
            pipelines,
        });
        if early && version == Version::Http3 {
            self.start_requests(connection_index);
        }
        self.throttle(server);
        if self.open_connections(server) == 1 {
            self.watch_first(server);
        }
        Ok(usable)
    }

    fn established(&mut self, connection_index: usize) {
        let now = self.world.now();
        let connection = &mut self.connections[connection_index];
        connection.established = true;
        self.recorder.established(connection.session.id(), now);
        if connection.is_ended {
            return;
        }
        self.begin();
        if self.is_surplus(connection_index) {
            let connection = &mut self.connections[connection_index];
            connection.is_ended = true;
            connection.session.close();
            let server = connection.server;
            return self.servers[server].mapping.closed(connection_index);
        }
        let connection = &mut self.connections[connection_index];
        let server = connection.server;
        self.servers[server].failures = 0;
        self.speaks_to(server);
        let connection = &mut self.connections[connection_index];
        if self.policy.version != Version::Http1 {
            return self.start_requests(connection_index);
        }
        let streams = connection.session.streams();
        self.servers[server].mapping.established(connection_index, streams);
        if connection.session.fresh_streams() {
            return self.dispatch(server);
        }
        for pipeline in connection.pipelines.split_off(&streams).values() {
            pipeline.borrow_mut().annul();
        }
        // If a request was sent with the handshake on a stream that the server has not granted, its object is queued
        // again.
        for (i, object) in self.objects.iter_mut().enumerate().rev() {
            if matches!(object.state, ObjectState::InFlight { connection, stream, .. } if connection == connection_index && stream >= streams)
            {
                object.state = ObjectState::Queued { since: now };
                self.servers[server].queue.push_front(i);
            }
        }
        self.dispatch(server);
    }

    /// Starts HTTP/2 or HTTP/3 on the connection `connection_index`, which is established or accepts early data.
    /// Further calls do nothing.
    fn start_requests(&mut self, connection_index: usize) {
        let connection = &mut self.connections[connection_index];
        if !std::mem::replace(&mut connection.speaking, true) {
            let session = connection.session.clone();
            let task = own_stream::drive(self.me.clone(), connection_index, session, self.policy.version);
            self.tasks.push(self.world.spawn("http connection", task));
        }
    }

    /// Stores `requests`, the handle that sends requests on the connection `connection_index`.
    pub(super) fn set_requests(&mut self, connection_index: usize, requests: Requests) {
        let connection = &mut self.connections[connection_index];
        if connection.is_ended {
            return;
        }
        connection.requests = Some(requests);
        let server = connection.server;
        let streams = max_concurrent(self.policy.version, connection.session.streams());
        self.servers[server].mapping.established(connection_index, streams);
        self.dispatch(server);
    }

    /// Handles the end of the connection `connection_index`. Its unfinished objects are requested again, unless they
    /// have used up their attempts.
    pub(super) fn closed(&mut self, connection_index: usize, reason: &CloseReason) {
        let connection = &mut self.connections[connection_index];
        if std::mem::replace(&mut connection.is_ended, true) {
            return;
        }
        let established = connection.established;
        let server = connection.server;
        self.servers[server].mapping.closed(connection_index);
        self.begin();
        let riding = |object: &Object| matches!(object.state, ObjectState::InFlight { connection, .. } if connection == connection_index);
        let stranded: Vec<_> = (0..self.objects.len()).filter(|&i| riding(&self.objects[i])).collect();
        // The objects are pushed to the front of the queue from the last to the first, so that they keep their order.
        for &object in stranded.iter().rev() {
            if self.objects[object].attempts >= self.policy.attempts {
                // If the handshake failed, the object reports a failed connection attempt, even if its request was sent
                // with the handshake.
                let error = if established {
                    FetchError::Closed(reason.clone())
                } else {
                    FetchError::Connect(reason.to_string())
                };
                self.fail(object, error);
            } else {
                self.objects[object].state = ObjectState::Queued { since: self.world.now() };
                self.servers[server].queue.push_front(object);
            }
        }
        if !established {
            self.servers[server].failures += 1;
            if self.servers[server].failures >= self.policy.attempts {
                self.fail_queued(server, &reason.to_string());
                return self.discover();
            }
        }
        self.dispatch(server);
        self.discover();
    }

    /// Fails all objects queued for `server`, because no connection to `server` can be opened. Does nothing if a
    /// connection to `server` still exists, because that connection can carry the objects.
    pub(super) fn fail_queued(&mut self, server: usize, why: &str) {
        if self.connections.iter().any(|c| c.server == server && !c.is_ended) {
            return;
        }
        for object in std::mem::take(&mut self.servers[server].queue) {
            self.fail(object, FetchError::Connect(why.to_owned()));
        }
    }

    /// Requests `object` on `stream` of the connection `connection_index`. `last` announces that no request follows on
    /// the stream.
    pub(super) fn send_request(&mut self, object: usize, connection_index: usize, stream: u64, last: bool) {
        let now = self.world.now();
        let page = self.page.clone();
        let wanted = &page.objects[object];
        let host = page.hosts.get(wanted.host).map_or("server", String::as_str);
        let pattern = self.policy.verify.then(|| Pattern::of(&wanted.name));
        let priority = self.priority_of(object);
        let exchange = Exchange { object, abandoned: false, pattern, expected: wanted.body };
        let attempt = self.objects[object].attempts;
        self.objects[object].attempts += 1;
        self.objects[object].delivered = 0;
        self.objects[object].state =
            ObjectState::InFlight { connection: connection_index, stream, since: now };
        let version = match self.policy.version {
            Version::Http1 => {
                let pipeline = match self.connections[connection_index].pipelines.get(&stream) {
                    Some(pipeline) => pipeline.clone(),
                    None => self.open_pipeline(connection_index, stream),
                };
                let mut pipeline = pipeline.borrow_mut();
                let (start, index) = (pipeline.request_bytes, pipeline.exchanges);
                pipeline.push(exchange, |out| {
                    request::write_head(out, &wanted.name, host, last, priority, wanted.request_head)
                });
                let id =
                    ExchangeId { connection: self.connections[connection_index].session.id(), stream, index };
                let request = start..pipeline.request_bytes;
                return self.assigned(object, Assigned { at: now, exchange: id, request, attempt });
            }
            Version::Http2(_) => http::Version::HTTP_2,
            Version::Http3 => http::Version::HTTP_3,
        };
        let pipeline = Rc::new(RefCell::new(Pipeline::of(now, exchange)));
        self.connections[connection_index].pipelines.insert(stream, pipeline.clone());
        let request = own_stream::request(wanted, host, version, priority).ok();
        let begun = request.and_then(|request| {
            self.send_on_own_stream(object, (connection_index, stream), pipeline, &request, attempt)
        });
        if begun.is_none() {
            // Abort the connection. Its task then reports the end of the connection, so that no object is left waiting.
            self.connections[connection_index].session.abort();
        }
    }

    /// Sends the request `query` for `object` on a stream of its own, and reads the response in a task. The object
    /// occupies the slot `slot` of the connection `connection_index`. Returns `None` if the connection takes no
    /// request.
    fn send_on_own_stream(
        &mut self,
        object: usize,
        (connection_index, slot): (usize, u64),
        pipeline: Rc<RefCell<Pipeline>>,
        query: &Query,
        attempt: u32,
    ) -> Option<()> {
        let (me, world) = (self.me.clone(), self.world.clone());
        let connection = self.connections[connection_index].session.id();
        let reply = self.connections[connection_index].requests.clone()?.send(query).ok()?;
        let fetch = me.clone();
        // Called when the request gets its stream. The request may wait for the stream, because the server limits the
        // number of streams.
        let on_sent = move |stream, request| {
            let exchange = ExchangeId { connection, stream, index: 0 };
            if let Some(fetch) = fetch.upgrade() {
                fetch.borrow().assigned(object, Assigned { at: world.now(), exchange, request, attempt });
            }
        };
        let read = Response::new(me.clone(), pipeline.clone()).read(reply, on_sent);
        let task = own_stream::run(me, (connection_index, slot), pipeline, read);
        self.tasks.push(self.world.spawn("http exchange", task));
        Some(())
    }

    fn assigned(&self, object: usize, assigned: Assigned) {
        self.recorder.assigned(object, assigned);
    }

    /// Moves an exchange to another connection. The server accepts no more requests on the connection
    /// `connection_index` and has not processed the request of this exchange.
    pub(super) fn refused(
        &mut self,
        connection_index: usize,
        slot: u64,
        exchange: &Exchange,
        reason: &CloseReason,
    ) {
        let server = self.connections[connection_index].server;
        let mapping = &mut self.servers[server].mapping;
        mapping.retire(connection_index);
        if mapping.finished(connection_index, slot) {
            self.connections[connection_index].session.close();
        }
        let object = exchange.object;
        if !exchange.abandoned {
            if self.objects[object].attempts >= self.policy.attempts {
                self.fail(object, FetchError::Closed(reason.clone()));
            } else {
                self.objects[object].state = ObjectState::Queued { since: self.world.now() };
                self.servers[server].queue.push_front(object);
            }
        }
        self.dispatch_all();
    }

    fn open_pipeline(&mut self, connection_index: usize, stream: u64) -> Rc<RefCell<Pipeline>> {
        let pipeline = Rc::new(RefCell::new(Pipeline::new(self.world.now())));
        self.connections[connection_index].pipelines.insert(stream, pipeline.clone());
        match self.connections[connection_index].session.open(stream) {
            Ok(opened) => {
                let fresh = self.connections[connection_index].session.fresh_streams();
                let task =
                    pipeline::run::<W, C>(self.me.clone(), connection_index, pipeline.clone(), opened, fresh);
                self.tasks.push(self.world.spawn("http stream", task));
            }
            // The session has ended. Abort the connection. Its task then reports the end of the connection, so that no
            // object is left waiting.
            Err(_) => self.connections[connection_index].session.abort(),
        }
        pipeline
    }

    /// Handles the end of a pipeline's stream.
    pub(super) fn pipeline_ended(&mut self, connection: usize, stream: u64, end: PipelineEnd) {
        if self.connections[connection].session.fresh_streams() {
            self.connections[connection].pipelines.remove(&stream);
        }
        match end {
            PipelineEnd::Closed => {}
            PipelineEnd::Finished => {
                self.connections[connection].session.close();
                self.closed(connection, &CloseReason::Finished);
            }
            PipelineEnd::Bad(why) => {
                // It is unknown which exchange the invalid data was for, so the exchange at the front of a pipeline
                // gets the error.
                let fronts = self.connections[connection].pipelines.values();
                let blamed = fronts
                    .filter_map(|pipeline| pipeline.borrow().in_flight.front().map(|e| e.object))
                    .next();
                if let Some(object) = blamed {
                    self.fail(object, FetchError::BadResponse(why));
                }
                self.connections[connection].session.abort();
                self.closed(connection, &CloseReason::Aborted);
            }
        }
    }
}
