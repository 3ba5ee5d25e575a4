//! The engine and what waits for it.
//!
//! - `reset`: streams that begin anew

mod reset;

use super::shards::Member;
use crate::drive::{Bell, Driven};
use crate::session::CloseReason;
use crate::table::Table;
use crate::waiters::{Waiter, Waiters};
use anabranch_base::Engine;
use anabranch_base::time::Instant;
use anabranch_sctp::{AssociationId, CloseReason as EngineReason, Direction, Endpoint, Event};
use anabranch_world::{PortClaim, Ports};
use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::task::{Context, Poll};

/// What the drive loop and all handles of a host share.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) engine: Endpoint,
    pub(super) bell: Bell,
    /// The UDP encapsulation port of this host's addresses, or 0.
    port: u16,
    /// Streams that a new association asks for.
    pub(super) streams: u16,
    /// DATA rides with COOKIE ECHO.
    pub(super) early_data: bool,
    pub(super) associations: Table<AssociationId, Association>,
    pub(super) listeners: BTreeMap<u16, Backlog>,
    /// The socket failed.
    pub(super) failure: Option<CloseReason>,
    idle: Waiters,
    /// Which of several hosts behind one port this is.
    pub(super) member: Option<Member>,
    /// Our ports among those of the host's other programs.
    pub(super) ports: Option<Arc<dyn Ports>>,
}

/// Associations that were accepted and not yet taken.
#[derive(Debug, Default)]
pub(super) struct Backlog {
    waiting: VecDeque<AssociationId>,
    acceptor: Waiter,
    claim: Option<PortClaim>,
}

impl Backlog {
    /// Of a port that is ours.
    pub(super) fn holding(claim: Option<PortClaim>) -> Self {
        Self { claim, ..Self::default() }
    }
}

/// What this side knows of an association beyond the engine.
#[derive(Debug)]
pub(super) struct Association {
    key: u64,
    /// Pairs that exist both ways; what was asked for until it is established.
    pub(super) streams: u16,
    pub(super) established: bool,
    /// The peer began it.
    accepted: bool,
    /// Streams that have been asked for on top and not been answered: out, in.
    pub(super) growing: (u16, u16),
    /// The peer sends nothing any more.
    peer_finished: bool,
    pub(super) closed: Option<CloseReason>,
    /// An application holds it, or may still take it from a backlog.
    pub(super) held: bool,
    /// Wait for the handshake or the end.
    pub(super) state_waiters: Waiters,
    pub(super) acceptors: Waiters,
    /// Streams the peer has begun and nobody holds.
    pub(super) begun: VecDeque<u16>,
    /// By stream number, as far as streams are in use: the first of them, and others.
    lanes: Vec<Lane>,
    others: BTreeMap<u16, Box<Lane>>,
    /// Streams that wait for room, in turn.
    writers: BTreeMap<u64, u16>,
    next_turn: u64,
    /// Our port is ours as long as it is in use.
    pub(super) claim: Option<PortClaim>,
}

/// One stream pair.
#[derive(Debug, Default)]
pub(super) struct Lane {
    pub(super) open: bool,
    /// Stands in `begun`.
    announced: bool,
    reader: Waiter,
    writer: Waiter,
    /// Its place among the writers, and whether it has written since it took it.
    turn: Option<u64>,
    had_its_turn: bool,
    /// All is read, and nothing has come since.
    pub(super) dry: bool,
    pub(super) read: u64,
    pub(super) written: u64,
    /// The peer has cancelled what whoever holds it is at.
    pub(super) cancelled: bool,
    /// Begins anew by our wish: what has come of it, out and in.
    resetting: Option<[Option<bool>; 2]>,
}

impl Shared {
    pub(super) fn new(engine: Endpoint, streams: u16, early_data: bool) -> Self {
        Self {
            engine,
            bell: Bell::default(),
            port: 0,
            streams,
            early_data,
            associations: Table::default(),
            listeners: BTreeMap::new(),
            failure: None,
            idle: Waiters::default(),
            member: None,
            ports: None,
        }
    }

    /// The host has these addresses now.
    pub(super) fn follow(&mut self, now: Instant, present: &[IpAddr]) {
        let before: Vec<SocketAddr> = self.engine.addresses().to_vec();
        if let Some(first) = before.first() {
            self.port = first.port();
        }
        for gone in before.iter().filter(|old| !present.contains(&old.ip())) {
            self.engine.remove_address(now, gone.ip());
        }
        for &new in present.iter().filter(|new| !before.iter().any(|old| old.ip() == **new)) {
            // What its interface takes is not known here; RFC 8899 and ICMP find out.
            self.engine.add_address(now, SocketAddr::new(new, self.port), 1500);
        }
        self.bell.ring();
    }

    /// What had no way may have one now.
    pub(super) fn rerouted(&mut self, now: Instant) {
        self.engine.handle_routes(now);
        self.bell.ring();
    }

    /// Associations that have not ended.
    pub(super) fn live(&self) -> impl Iterator<Item = AssociationId> {
        self.associations.iter().filter(|(_, a)| a.closed.is_none()).map(|(id, _)| id)
    }

    pub(super) fn poll_idle(&mut self, cx: &Context<'_>) -> Poll<()> {
        if self.live().next().is_none() {
            return Poll::Ready(());
        }
        self.idle.add(cx);
        Poll::Pending
    }

    pub(super) fn poll_accept(
        &mut self,
        port: u16,
        cx: &Context<'_>,
    ) -> Poll<Result<(AssociationId, u64), CloseReason>> {
        if let Some(backlog) = self.listeners.get_mut(&port) {
            if let Some(id) = backlog.waiting.pop_front() {
                let key = self.associations.get(&id).map_or(0, |association| association.key);
                return Poll::Ready(Ok((id, key)));
            }
            backlog.acceptor.wait(cx);
        }
        match &self.failure {
            Some(reason) => Poll::Ready(Err(reason.clone())),
            None => Poll::Pending,
        }
    }

    pub(super) fn close_listener(&mut self, now: Instant, port: u16) {
        self.engine.close_listener(port);
        let backlog = self.listeners.remove(&port).unwrap_or_default();
        for id in backlog.waiting {
            self.engine.abort(now, id);
            self.let_go(now, id);
        }
        self.bell.ring();
    }

    /// No handle of the association is left: it ends in good order by itself.
    pub(super) fn let_go(&mut self, now: Instant, id: AssociationId) {
        let Some(association) = self.associations.get_mut(&id) else { return };
        association.held = false;
        if association.closed.is_some() {
            self.associations.remove(&id);
            self.engine.release(now, id);
        } else {
            self.engine.shutdown(now, id);
        }
        self.bell.ring();
    }

    fn accepted(&mut self, now: Instant, id: AssociationId, port: u16, streams: u16) {
        let Some(backlog) = self.listeners.get_mut(&port).filter(|b| b.waiting.len() < MAX_BACKLOG) else {
            self.engine.abort(now, id);
            return;
        };
        let key = self.engine.trace_key(id).unwrap_or_default();
        let mut association = Association::new(key, streams);
        association.established = true;
        association.accepted = true;
        association.claim.clone_from(&backlog.claim);
        self.associations.insert(id, association);
        backlog.waiting.push_back(id);
        backlog.acceptor.wake();
    }

    fn closed(&mut self, now: Instant, id: AssociationId, reason: CloseReason) {
        if let Some(association) = self.associations.get_mut(&id) {
            association.closed = Some(reason);
            association.wake_all();
            if !association.held {
                self.associations.remove(&id);
                self.engine.release(now, id);
            }
        }
        if self.live().next().is_none() {
            self.idle.wake();
        }
    }
}

impl Driven for Shared {
    type Engine = Endpoint;

    fn engine(&mut self) -> &mut Endpoint {
        &mut self.engine
    }

    fn bell(&mut self) -> &mut Bell {
        &mut self.bell
    }

    #[inline]
    fn handle_event(&mut self, now: Instant, event: Event) {
        match event {
            Event::Readable { id, stream } => {
                if let Some(association) = self.associations.get_mut(&id) {
                    association.readable(stream);
                }
            }
            Event::Writable { id } => {
                if let Some(association) = self.associations.get_mut(&id) {
                    association.writable();
                }
            }
            other => self.handle_rare(now, other),
        }
    }

    fn handle_failure(&mut self, error: &io::Error) {
        let reason = CloseReason::Network(error.to_string());
        self.failure = Some(reason.clone());
        for association in self.associations.values_mut() {
            if association.closed.is_none() {
                association.closed = Some(reason.clone());
            }
            association.wake_all();
        }
        for backlog in self.listeners.values_mut() {
            backlog.acceptor.wake();
        }
        self.idle.wake();
    }
}

impl Shared {
    /// Has the other hosts behind our port know which associations are here.
    pub(super) fn tell_neighbours(&mut self) {
        let Some(Member { shard, directory }) = &self.member else { return };
        while let Some(claim) = self.engine.poll_claim() {
            directory.note(*shard, claim);
        }
    }

    /// All events but those of data.
    #[cold]
    fn handle_rare(&mut self, now: Instant, event: Event) {
        self.tell_neighbours();
        match event {
            Event::Readable { .. } | Event::Writable { .. } => {}
            Event::Established { id, outbound_streams, inbound_streams } => {
                if let Some(association) = self.associations.get_mut(&id) {
                    association.streams = outbound_streams.min(inbound_streams);
                    association.established = true;
                    association.state_waiters.wake();
                }
            }
            Event::Accepted { id, port, outbound_streams, inbound_streams, .. } => {
                self.accepted(now, id, port, outbound_streams.min(inbound_streams));
            }
            // The engine keeps count of them; sessions do not care which path carries them.
            Event::PathUp { .. } | Event::PathDown { .. } | Event::PathPotentiallyFailed { .. } => {}
            Event::StreamsAdded { id, outgoing, incoming }
            | Event::AddFailed { id, outgoing, incoming, .. } => {
                let info = self.engine.info(id);
                if let Some(association) = self.associations.get_mut(&id) {
                    association.grew((outgoing, incoming));
                    if let Some(info) = info {
                        association.streams = info.outbound_streams.min(info.inbound_streams);
                    }
                }
            }
            // Nobody here asks for them.
            Event::Abandoned { .. } | Event::SendFailed { .. } => {}
            Event::StreamsReset { id, direction, streams, idle } => {
                self.begun_anew(now, id, direction, &streams, idle);
            }
            Event::AssociationReset { id, .. } => {
                self.begun_anew(now, id, Direction::Both, &[], false);
            }
            Event::ResetRequested { id, streams, .. } => self.cancelled_by_peer(now, id, &streams),
            Event::ResetFailed { id, direction, streams, .. } => {
                self.not_begun_anew(id, direction.unwrap_or(Direction::Both), &streams);
            }
            // Nor which keys sign what they send.
            Event::Key { .. }
            | Event::Adaptation { .. }
            | Event::PeerError { .. }
            | Event::AbortReason { .. } => {}
            // Nor from where to where, while the addresses change.
            Event::PathAdded { .. }
            | Event::PathRemoved { .. }
            | Event::PrimaryChanged { .. }
            | Event::LocalAddress { .. } => {}
            Event::Restarted { id } => {
                // Half of what was said is lost: no stream of bytes survives that.
                self.engine.abort(now, id);
                self.bell.ring();
                self.closed(now, id, CloseReason::Reset("the peer has restarted".to_owned()));
            }
            Event::PeerShutdown { id } => {
                if let Some(association) = self.associations.get_mut(&id) {
                    association.peer_finished = true;
                    association.wake_all();
                }
            }
            Event::Closed { id, reason } => {
                let established = self.associations.get(&id).is_some_and(|a| a.established);
                let accepted = self.associations.get(&id).is_some_and(|a| a.accepted);
                let already = self.associations.get(&id).is_some_and(|a| a.closed.is_some());
                if !already {
                    self.closed(now, id, told(reason, established, accepted));
                }
            }
        }
    }
}

impl Association {
    pub(super) fn new(key: u64, streams: u16) -> Self {
        Self {
            key,
            streams,
            established: false,
            accepted: false,
            growing: (0, 0),
            peer_finished: false,
            closed: None,
            held: true,
            state_waiters: Waiters::default(),
            acceptors: Waiters::default(),
            begun: VecDeque::new(),
            lanes: Vec::new(),
            others: BTreeMap::new(),
            writers: BTreeMap::new(),
            next_turn: 0,
            claim: None,
        }
    }

    /// So many streams have been added, or will not be.
    fn grew(&mut self, (outgoing, incoming): (u16, u16)) {
        self.growing.0 = self.growing.0.saturating_sub(outgoing);
        self.growing.1 = self.growing.1.saturating_sub(incoming);
        if self.growing == (0, 0) {
            self.state_waiters.wake();
        }
    }

    /// The stream pair of this number.
    #[inline]
    pub(super) fn lane(&mut self, stream: u16) -> &mut Lane {
        let index = usize::from(stream);
        if index < self.lanes.len() { &mut self.lanes[index] } else { self.new_lane(stream) }
    }

    #[cold]
    fn new_lane(&mut self, stream: u16) -> &mut Lane {
        let index = usize::from(stream);
        if index >= NEAR {
            return self.others.entry(stream).or_default();
        }
        if index < 4 {
            // Thousands of associations may use no more.
            self.lanes.reserve_exact(index + 1 - self.lanes.len());
        }
        self.lanes.resize_with(index + 1, Lane::default);
        &mut self.lanes[index]
    }

    /// What a read or an accept that finds nothing more should say; `None`: wait.
    #[inline]
    pub(super) fn end(&self) -> Option<CloseReason> {
        if self.closed.is_some() || self.peer_finished { Some(self.reason()) } else { None }
    }

    #[cold]
    fn reason(&self) -> CloseReason {
        self.closed.clone().unwrap_or(CloseReason::Finished)
    }

    #[inline]
    pub(super) fn wait_to_read(&mut self, stream: u16, cx: &Context<'_>) {
        self.lane(stream).reader.wait(cx);
    }

    /// Queues a stream for room in the send buffer. One that has written since
    /// it queued last goes to the end; one that has not keeps its place.
    pub(super) fn wait_to_write(&mut self, stream: u16, cx: &Context<'_>) {
        let next = self.next_turn;
        let lane = self.lane(stream);
        lane.writer.wait(cx);
        if lane.turn.is_some() && !lane.had_its_turn {
            return;
        }
        lane.had_its_turn = false;
        let before = lane.turn.replace(next);
        if let Some(turn) = before {
            self.writers.remove(&turn);
        }
        self.writers.insert(next, stream);
        self.next_turn += 1;
    }

    /// The stream has written something.
    pub(super) fn wrote(&mut self, stream: u16, bytes: u64) {
        let lane = self.lane(stream);
        lane.written += bytes;
        lane.had_its_turn = true;
    }

    /// Nobody holds the stream any more.
    pub(super) fn give_back(&mut self, stream: u16) {
        let lane = self.lane(stream);
        lane.open = false;
        lane.cancelled = false;
        lane.resetting = None;
        lane.reader.forget();
        lane.writer.forget();
        if let Some(turn) = lane.turn.take() {
            self.writers.remove(&turn);
        }
    }

    /// Takes a stream that the peer has begun.
    pub(super) fn take_begun(&mut self) -> Option<u16> {
        let stream = self.begun.pop_front()?;
        self.lane(stream).announced = false;
        Some(stream)
    }

    /// The stream is held from here on.
    pub(super) fn hold(&mut self, stream: u16) {
        let lane = self.lane(stream);
        lane.open = true;
        if std::mem::take(&mut lane.announced) {
            self.begun.retain(|&begun| begun != stream);
        }
    }

    /// Something can be read from the stream.
    #[inline]
    pub(super) fn readable(&mut self, stream: u16) {
        let lane = self.lane(stream);
        lane.dry = false;
        if lane.open {
            lane.reader.wake();
        } else if !std::mem::replace(&mut lane.announced, true) {
            self.announce(stream);
        }
    }

    #[cold]
    fn announce(&mut self, stream: u16) {
        self.begun.push_back(stream);
        self.acceptors.wake();
    }

    fn writable(&mut self) {
        for &stream in self.writers.values() {
            let lane = match self.lanes.get_mut(usize::from(stream)) {
                Some(lane) => Some(lane),
                None => self.others.get_mut(&stream).map(|lane| &mut **lane),
            };
            if let Some(lane) = lane {
                lane.writer.wake();
            }
        }
    }

    fn wake_all(&mut self) {
        self.state_waiters.wake();
        self.acceptors.wake();
        for lane in self.lanes.iter_mut().chain(self.others.values_mut().map(|lane| &mut **lane)) {
            lane.reader.wake();
            lane.writer.wake();
        }
    }
}

/// What the application is told of the engine's reason.
fn told(reason: EngineReason, established: bool, accepted: bool) -> CloseReason {
    match reason {
        EngineReason::Shutdown => CloseReason::Finished,
        EngineReason::Local => CloseReason::Aborted,
        // RFC 9260 §8.4: a host on which nobody listens answers an INIT with ABORT.
        EngineReason::Aborted(_) if !established => CloseReason::Refused,
        EngineReason::NotListening if !established => CloseReason::Refused,
        EngineReason::NotListening => CloseReason::Reset("nothing listens there any more".to_owned()),
        EngineReason::Aborted(cause) => {
            CloseReason::Reset(cause.map_or_else(String::new, |cause| abort_cause(cause, accepted)))
        }
        EngineReason::Unreachable => CloseReason::TimedOut(String::new()),
        EngineReason::ShutdownTimeout => CloseReason::TimedOut("while closing".to_owned()),
        EngineReason::StaleCookie => CloseReason::Protocol("the State Cookie went stale".to_owned()),
        EngineReason::PeerViolated(rule) => CloseReason::Protocol(format!("the peer broke {rule}")),
        EngineReason::PeerIncompatible(what) => CloseReason::Protocol(format!("the peer cannot do {what}")),
    }
}

/// What the peer's ABORT says (RFC 9260 §3.3.10).
fn abort_cause(cause: u16, accepted: bool) -> String {
    let means = match (cause, accepted) {
        (4, _) => "it is out of resources",
        // Our server does so with who is one too many, and with all when it is told to end; any program may, for
        // reasons of its own.
        (12, false) => "its program ended it, as a server does that is full or is ended itself",
        (12, true) => "its program ended it",
        (13, _) => "it says that we broke the protocol",
        _ => return format!("ABORT with cause {cause}"),
    };
    format!("{means} (ABORT with cause {cause})")
}

/// Streams whose state lies in one piece: one packet of a peer may name the very last.
const NEAR: usize = 256;
/// Associations that may wait to be taken, a port.
const MAX_BACKLOG: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    /// One byte on the last of 65,535 streams takes one stream's memory.
    #[test]
    fn a_stream_far_out_costs_what_one_costs() {
        let mut association = Association::new(1, u16::MAX);
        for stream in [65_534, 3, 300] {
            association.readable(stream);
            association.wrote(stream, 7);
        }
        assert!(association.lanes.len() < NEAR && association.others.len() == 2);
        assert_eq!(std::iter::from_fn(|| association.take_begun()).collect::<Vec<_>>(), [65_534, 3, 300]);
        assert!([65_534, 3, 300].iter().all(|&stream| association.lane(stream).written == 7));
        assert_eq!(association.among(&[3, 299, 300]), [3, 300]);
        assert_eq!(association.among(&[]), [0, 1, 2, 3, 300, 65_534]);
    }
}
