//! The part of a session binding that all engines share.
//!
//! An engine that implements [`SessionEngine`] gets listeners, backlogs, sessions, streams and wakeups from this module.
//! It adds only its commands and the meaning of its events.
//!
//! - `host`: the engine and the tasks that wait for it
//! - `bound`: a host in a world, with its listeners and connectors
//! - `reset`: stream resets
//! - `session`: the handles that an application holds

mod bound;
mod host;
mod reset;
mod session;

pub use bound::{BoundHost, EngineConnector, EngineListener};
pub use host::EngineHost;
pub use reset::ResetDirections;
pub use session::{EngineSession, EngineStream};

use crate::connector::{ConnectError, ListenError};
use crate::protocol::{ConnectionLog, Server, Totals};
use crate::session::{CloseReason, Delivery, StreamId};
use crate::settings::Settings;
use anabranch_base::Engine;
use anabranch_base::time::Instant;
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};

/// An engine that sessions can be bound to: commands under names that all engines share, and the meaning of its events.
pub trait SessionEngine: Engine + Sized + 'static {
    /// The engine's identifier of a session.
    type Id: Copy + Ord + Debug + 'static;

    /// Attributes of written data that the holder of a stream can set, in addition to [`Delivery`].
    type Marks: Copy + Default + Debug + 'static;

    /// Whether a session is a single stream, number 0, from the handshake on. Otherwise the first bytes of a stream
    /// announce it.
    const ONE_STREAM: bool;

    /// Whether the peer learns where our data ends while the session continues.
    const HALF_CLOSE: bool;

    /// Whether each exchange has a fresh stream: stream numbers are never reused, and a stream without a holder is over
    /// ([`let_go`](Self::let_go)).
    const FRESH_STREAMS: bool = false;

    /// The number of waiting bytes that are received before anything is sent.
    const AT_ONCE: usize = 16 * 1024;

    /// The name of a host's tasks in reports of which task waits for what.
    const NAME: &'static str;

    /// Applies an event of the engine to the host.
    fn handle_event(host: &mut EngineHost<Self>, now: Instant, event: Self::Event);

    /// Begins a session.
    ///
    /// # Errors
    /// [`ConnectError`] when no session could be begun.
    fn connect(&mut self, now: Instant, server: &Server) -> Result<Self::Id, ConnectError>;

    /// Accepts sessions that peers open to `port`; for `backlog` see [`Host::listen`](crate::Host::listen).
    ///
    /// # Errors
    /// [`ListenError`].
    fn listen(&mut self, port: u16, backlog: u32) -> Result<(), ListenError>;

    /// Stops accepting sessions on `port`.
    fn close_listener(&mut self, port: u16);

    /// Tells the engine how many sessions wait to be accepted on `port`, so that it can reject further peers early.
    fn set_accept_queue(&mut self, port: u16, waiting: u32) {
        let _ = (port, waiting);
    }

    /// Tells the engine that the host keeps a session that a peer began.
    fn accepted(&mut self, id: Self::Id, port: u16) {
        let _ = (id, port);
    }

    /// The session's key in traces: the initiator's port.
    fn trace_key(&self, id: Self::Id) -> u64;

    /// An address of the peer.
    fn peer(&self, id: Self::Id) -> Option<SocketAddr>;

    /// The number of bytes that were written and not acknowledged. Acknowledged probes of a closed window count as not
    /// acknowledged until the window opens: a peer that reads nothing can acknowledge them.
    fn unacknowledged(&self, id: Self::Id) -> u64;

    /// The number of streams that a new session asks for.
    fn streams(&self) -> u64 {
        1
    }

    /// Whether data written before the handshake is done is sent with the handshake.
    fn early_data(&self, id: Self::Id) -> bool {
        let _ = id;
        false
    }

    /// Reads data that has arrived. Returns the number of bytes, and whether no more can be read now.
    fn recv(&mut self, now: Instant, id: Self::Id, stream: StreamId, into: &mut [u8]) -> (usize, bool);

    /// Reads at most the rest of one message. Returns the number of bytes and whether the message ends there, and then
    /// whether no more can be read now. An engine without messages does the same as [`recv`](Self::recv).
    fn recv_part(
        &mut self,
        now: Instant,
        id: Self::Id,
        stream: StreamId,
        into: &mut [u8],
    ) -> (Option<(usize, bool)>, bool) {
        let (bytes, dry) = self.recv(now, id, stream, into);
        ((bytes > 0).then_some((bytes, false)), dry)
    }

    /// Stores the attributes of the data that was just read from a stream in the stream's marks.
    fn note_marks(&mut self, marks: &mut Self::Marks) {
        let _ = marks;
    }

    /// Whether the stream has data to read.
    fn has_unread(&self, id: Self::Id, stream: StreamId) -> bool {
        let _ = (id, stream);
        false
    }

    /// Whether the peer has sent its last byte on the stream and all data has been read.
    fn is_finished(&self, id: Self::Id, stream: StreamId) -> bool {
        let _ = (id, stream);
        false
    }

    /// Takes as much of `from` as there is room for. Returns the number of bytes.
    ///
    /// # Errors
    /// [`Refusal`].
    fn send(
        &mut self,
        now: Instant,
        id: Self::Id,
        write: Write<Self::Marks>,
        from: &[u8],
    ) -> Result<usize, Refusal>;

    /// Whether the drive loop has to run after bytes were taken: there are packets to send, or a deadline has moved.
    fn has_work(&self) -> bool {
        true
    }

    /// Marks the end of what we write on the stream.
    fn finish(&mut self, now: Instant, id: Self::Id, stream: StreamId) {
        let _ = (now, id, stream);
    }

    /// Tells the engine that nobody on this side holds a fresh stream any more.
    fn let_go(&mut self, now: Instant, id: Self::Id, stream: StreamId) {
        let _ = (now, id, stream);
    }

    /// Sets how data that is written on the stream from now on is delivered.
    fn set_delivery(&mut self, now: Instant, id: Self::Id, stream: StreamId, delivery: Delivery) {
        let _ = (now, id, stream, delivery);
    }

    /// Closes a session gracefully.
    fn close(&mut self, now: Instant, id: Self::Id);

    /// Aborts a session.
    fn abort(&mut self, now: Instant, id: Self::Id);

    /// Aborts a session, with a code and a reason for the peer's application.
    fn close_with(&mut self, now: Instant, id: Self::Id, code: u64, reason: &str) {
        let _ = (code, reason);
        self.abort(now, id);
    }

    /// Limits the data that the engine accepts to what the network takes next plus `bytes`.
    fn limit_unsent(&mut self, now: Instant, id: Self::Id, bytes: u64) {
        let _ = (now, id, bytes);
    }

    /// Tells the engine that nobody will ask for an ended session again.
    fn release(&mut self, now: Instant, id: Self::Id) {
        let _ = (now, id);
    }

    /// Asks for more streams in both directions. Returns false when that is not possible.
    fn add_streams(&mut self, now: Instant, id: Self::Id, more: u64) -> bool {
        let _ = (now, id, more);
        false
    }

    /// Asks for a reset of a stream in both directions and drops unsent data. Returns false when that is not possible.
    fn reset_stream(&mut self, now: Instant, id: Self::Id, stream: StreamId) -> bool {
        let _ = (now, id, stream);
        false
    }

    /// Discards the data that has arrived on a stream.
    fn discard(&mut self, now: Instant, id: Self::Id, stream: StreamId) {
        let mut buffer = [0; 4096];
        while self.recv(now, id, stream, &mut buffer).0 > 0 {}
    }

    /// Drops data that was written on a stream and not yet sent.
    fn cancel(&mut self, now: Instant, id: Self::Id, stream: StreamId) {
        let _ = (now, id, stream);
    }

    /// Begins an unused stream, in both directions or only to the peer, for engines with fresh streams. Returns `None`
    /// when the peer's limit allows no further stream now; [`EngineHost::streams_available`] says when to try again.
    ///
    /// # Errors
    /// The session has no further stream.
    fn begin_stream(
        &mut self,
        now: Instant,
        id: Self::Id,
        one_way: bool,
    ) -> Result<Option<StreamId>, Refusal> {
        let _ = (now, id, one_way);
        Err(Refusal::Closed)
    }

    /// Sets the rank of a stream: data on streams of a lower rank is sent first.
    fn set_rank(&mut self, now: Instant, id: Self::Id, stream: StreamId, rank: u32) {
        let _ = (now, id, stream, rank);
    }

    /// Cancels one direction of a stream: the one we read if `reading`, else the one we write.
    fn cancel_direction(&mut self, now: Instant, id: Self::Id, stream: StreamId, reading: bool, code: u64) {
        let _ = (now, id, stream, reading, code);
    }

    /// The code with which the peer has cancelled one direction of a stream.
    fn cancel_code(&self, id: Self::Id, stream: StreamId, reading: bool) -> Option<u64> {
        let _ = (id, stream, reading);
        None
    }

    /// The position at which the byte count of a stream continues after a reset.
    fn position_after_reset(position: u64) -> u64 {
        position
    }

    /// Publishes that sessions have begun or ended, for engines on this host that share a port.
    fn publish(&mut self) {}

    /// Tells the engine the addresses that the host has now.
    fn follow_addresses(&mut self, now: Instant, present: &[IpAddr]) {
        let _ = (now, present);
    }

    /// The settings in force.
    fn settings(&self) -> Box<dyn Settings>;

    /// Keeps a log of each connection that begins from now on, if the engine has a log format.
    fn keep_logs(&mut self) {}

    /// Takes the logs that were kept.
    fn take_logs(&mut self) -> Vec<ConnectionLog> {
        Vec::new()
    }

    /// The engine's counters.
    fn totals(&self) -> Totals;
}

/// One write of an application.
#[derive(Clone, Copy, Debug)]
pub struct Write<M> {
    /// The stream that is written to.
    pub stream: StreamId,
    /// The size of each message in bytes. `None`: a byte stream that the engine may cut anywhere.
    pub message: Option<usize>,
    /// How whole messages are delivered.
    pub delivery: Delivery,
    /// The attributes that the stream's holder has set.
    pub marks: M,
}

/// Why a write was refused.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The session has ended or is ending.
    Closed,
    /// The session could not be established.
    Failed(CloseReason),
}
