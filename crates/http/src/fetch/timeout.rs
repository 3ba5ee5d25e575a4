//! Fails objects that make no progress for too long.
//!
//! The timer of an object in flight starts when the object is assigned to a stream, and restarts with every byte read
//! on its stream. So an object does not time out while the objects ahead of it in its pipeline make progress. An object
//! that waits for a stream does not time out while any stream makes progress. An object that waits for a handshake is
//! timed from the start of the handshake. The reset of a stream, after its objects have been given up, has the same
//! time limit.

use super::{Fetch, ObjectState, SharedFetch};
use crate::observe::FetchError;
use anabranch_base::time::{Duration, Instant};
use anabranch_transport::{CloseReason, Connector, Session};
use anabranch_world::World;

/// Runs forever: marks as failed each object that has made no progress for the duration `timeout`.
pub(super) async fn watch<W: World, C: Connector>(fetch: SharedFetch<W, C>, timeout: Duration) {
    let world = fetch.borrow().world.clone();
    loop {
        // No timer expires before `next`. An object that is requested after this check times out later than `next`.
        let next = fetch.borrow_mut().expire(world.now(), timeout);
        world.sleep_until(next).await;
    }
}

impl<W: World, C: Connector> Fetch<W, C> {
    /// Fails every object whose timer has expired. Returns the time of the next check.
    fn expire(&mut self, now: Instant, timeout: Duration) -> Instant {
        let mut next = now + timeout;
        let mut stuck = Vec::new();
        for object in 0..self.page.objects.len() {
            let Some(stalled_since) = self.stalled_since(object) else { continue };
            if stalled_since + timeout <= now {
                stuck.push(object);
            } else {
                next = next.min(stalled_since + timeout);
            }
        }
        for object in stuck {
            self.time_out(object, now, timeout);
        }
        match self.expire_resets(now, timeout) {
            Some(reset) => next.min(reset),
            None => next,
        }
    }

    /// Returns the time since which `object` has made no progress; `None` if it is not requested yet or is finished.
    fn stalled_since(&self, object: usize) -> Option<Instant> {
        match self.objects[object].state {
            ObjectState::Unknown | ObjectState::Arrived | ObjectState::Finished => None,
            ObjectState::InFlight { connection, stream, since } => {
                let pipeline = self.connections[connection].pipelines.get(&stream);
                Some(since.max(pipeline.map_or(Instant::ZERO, |pipeline| pipeline.borrow().last_read)))
            }
            ObjectState::Queued { since } => {
                let server = self.server_of(object);
                let opening =
                    self.connections.iter().filter(|c| c.server == server && !c.established && !c.is_ended);
                let place = self.servers[server].queue.iter().position(|&queued| queued == object)?;
                let from =
                    if place < opening.clone().count().saturating_mul(self.connector.streams() as usize) {
                        opening.map(|c| c.opened).min().unwrap_or(since)
                    } else {
                        self.last_read
                    };
                Some(since.max(from))
            }
        }
    }

    /// Handles the expired timer of `object`.
    fn time_out(&mut self, object: usize, now: Instant, timeout: Duration) {
        let state = self.objects[object].state;
        let server = self.server_of(object);
        match state {
            ObjectState::Unknown | ObjectState::Arrived | ObjectState::Finished => return,
            ObjectState::Queued { .. } => {
                self.servers[server].queue.retain(|&queued| queued != object);
                self.fail(object, FetchError::Timeout);
                // Give up the handshakes that have taken longer than `timeout`.
                for connection_index in 0..self.connections.len() {
                    let connection = &self.connections[connection_index];
                    let waited =
                        connection.server == server && !connection.established && !connection.is_ended;
                    if waited && connection.opened + timeout <= now {
                        self.give_up(connection_index);
                    }
                }
            }
            ObjectState::InFlight { connection, stream, .. } => {
                let pipelines = &self.connections[connection].pipelines;
                if let Some(pipeline) = pipelines.get(&stream) {
                    let mut pipeline = pipeline.borrow_mut();
                    if let Some(exchange) = pipeline.in_flight.iter_mut().find(|e| e.object == object) {
                        exchange.abandoned = true;
                    }
                    if pipeline.in_flight.iter().all(|exchange| exchange.abandoned) {
                        pipeline.cancel(now);
                    }
                }
                // The stream is reset if the transport supports it (RFC 6525) and all other exchanges in flight on the
                // stream have been given up. Otherwise the response is read and discarded. If no stream of the
                // connection has made progress, the connection is given up.
                let still = pipelines.values().all(|pipeline| pipeline.borrow().last_read + timeout <= now);
                self.fail(object, FetchError::Timeout);
                if still {
                    self.give_up(connection);
                }
            }
        }
        self.dispatch_all();
    }

    /// Gives up connections on which the reset of a stream takes longer than `timeout`. Returns the time of the next
    /// check, if one is needed.
    fn expire_resets(&mut self, now: Instant, timeout: Duration) -> Option<Instant> {
        let mut next: Option<Instant> = None;
        for connection_index in 0..self.connections.len() {
            let connection = &self.connections[connection_index];
            let asked =
                connection.pipelines.values().filter_map(|pipeline| pipeline.borrow().cancelled).min();
            match asked.filter(|_| !connection.is_ended) {
                Some(at) if at + timeout <= now => self.give_up(connection_index),
                Some(at) => next = Some(next.map_or(at + timeout, |next| next.min(at + timeout))),
                None => {}
            }
        }
        next
    }

    fn give_up(&mut self, connection: usize) {
        self.connections[connection].session.abort();
        let server = self.connections[connection].server;
        let failures = self.servers[server].failures;
        self.closed(connection, &CloseReason::Aborted);
        // The client itself aborted the connection, so the server's count of failures stays the same.
        self.servers[server].failures = failures;
    }
}
