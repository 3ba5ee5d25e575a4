//! Sessions on any engine: what is the same for all of them, once.
//!
//! An engine that implements [`SessionEngine`] has listeners, backlogs, sessions, streams and waits by that alone; it adds
//! its commands and what its events mean.
//!
//! - `host`: the engine and what waits for it
//! - `bound`: a host in a world, its listeners and connectors
//! - `reset`: streams that are reset
//! - `session`: the handles an application holds

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

/// An engine that sessions can be bound to: its commands by the names that all of them share, and what its events mean.
pub trait SessionEngine: Engine + Sized + 'static {
    /// A session's name in the engine.
    type Id: Copy + Ord + Debug + 'static;

    /// What the holder of a stream can set for what it writes beyond [`Delivery`].
    type Marks: Copy + Default + Debug + 'static;

    /// A session is one stream, number 0, from the handshake on; else streams are announced by their first bytes.
    const ONE_STREAM: bool;

    /// The peer is told where what we write ends.
    const HALF_CLOSE: bool;

    /// Each exchange has a fresh stream: numbers are never used twice, and a stream that nobody holds any more is over
    /// ([`let_go`](Self::let_go)).
    const FRESH_STREAMS: bool = false;

    /// Bytes that are taken in before anything goes out, where they have come already.
    const AT_ONCE: usize = 16 * 1024;

    /// What a host's tasks are called in reports of who waits for what.
    const NAME: &'static str;

    /// Tells the host what an event of the engine means.
    fn handle_event(host: &mut EngineHost<Self>, now: Instant, event: Self::Event);

    /// Begins a session.
    ///
    /// # Errors
    /// [`ConnectError`] when nothing could be begun.
    fn connect(&mut self, now: Instant, server: &Server) -> Result<Self::Id, ConnectError>;

    /// Takes in sessions that peers begin with `port`; `backlog`: as [`Host::listen`](crate::Host::listen).
    ///
    /// # Errors
    /// [`ListenError`].
    fn listen(&mut self, port: u16, backlog: u32) -> Result<(), ListenError>;

    /// Takes in no more of them.
    fn close_listener(&mut self, port: u16);

    /// Learns how many sessions wait to be taken on `port`: an engine may hold further peers off at the door.
    fn set_accept_queue(&mut self, port: u16, waiting: u32) {
        let _ = (port, waiting);
    }

    /// A peer began this session, and the host keeps it.
    fn accepted(&mut self, id: Self::Id, port: u16) {
        let _ = (id, port);
    }

    /// The session's key in traces: the initiator's port.
    fn trace_key(&self, id: Self::Id) -> u64;

    /// An address of the peer.
    fn peer(&self, id: Self::Id) -> Option<SocketAddr>;

    /// Bytes that were written and not acknowledged. Acknowledged probes of a closed window count as not acknowledged until
    /// the window opens: a peer that reads nothing can acknowledge them.
    fn unacknowledged(&self, id: Self::Id) -> u64;

    /// The streams that a new session asks for.
    fn streams(&self) -> u64 {
        1
    }

    /// What is written before the handshake is done rides with it.
    fn early_data(&self, id: Self::Id) -> bool {
        let _ = id;
        false
    }

    /// Reads what has arrived: how much, and whether nothing more is there.
    fn recv(&mut self, now: Instant, id: Self::Id, stream: StreamId, into: &mut [u8]) -> (usize, bool);

    /// Reads at most the rest of one message: how much, and whether the message ends there; and whether nothing more is
    /// there. Without messages: as [`recv`](Self::recv).
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

    /// Notes in the marks of a stream how what was just read from it was marked.
    fn note_marks(&mut self, marks: &mut Self::Marks) {
        let _ = marks;
    }

    /// Something can be read.
    fn has_unread(&self, id: Self::Id, stream: StreamId) -> bool {
        let _ = (id, stream);
        false
    }

    /// The peer has sent its last byte on the stream, and all is read.
    fn is_finished(&self, id: Self::Id, stream: StreamId) -> bool {
        let _ = (id, stream);
        false
    }

    /// Takes as much of `from` as there is room for.
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

    /// After bytes were taken, the drive loop has something to do: packets, or a deadline that has moved.
    fn has_work(&self) -> bool {
        true
    }

    /// Nothing more will be written.
    fn finish(&mut self, now: Instant, id: Self::Id, stream: StreamId) {
        let _ = (now, id, stream);
    }

    /// Nobody here holds a fresh stream any more.
    fn let_go(&mut self, now: Instant, id: Self::Id, stream: StreamId) {
        let _ = (now, id, stream);
    }

    /// How what is written on the stream is to be delivered from now on.
    fn set_delivery(&mut self, now: Instant, id: Self::Id, stream: StreamId, delivery: Delivery) {
        let _ = (now, id, stream, delivery);
    }

    /// Ends a session in good order.
    fn close(&mut self, now: Instant, id: Self::Id);

    /// Ends it at once.
    fn abort(&mut self, now: Instant, id: Self::Id);

    /// Ends it at once, with a code and a reason for the peer's application.
    fn close_with(&mut self, now: Instant, id: Self::Id, code: u64, reason: &str) {
        let _ = (code, reason);
        self.abort(now, id);
    }

    /// Takes no more than what the network takes next and `bytes` beyond it.
    fn limit_unsent(&mut self, now: Instant, id: Self::Id, bytes: u64) {
        let _ = (now, id, bytes);
    }

    /// Nobody will ask for a session that has ended again.
    fn release(&mut self, now: Instant, id: Self::Id) {
        let _ = (now, id);
    }

    /// Asks for more streams both ways; false when that cannot be.
    fn add_streams(&mut self, now: Instant, id: Self::Id, more: u64) -> bool {
        let _ = (now, id, more);
        false
    }

    /// Asks for a stream to be reset both ways, and drops what was not sent; false when that cannot be.
    fn reset_stream(&mut self, now: Instant, id: Self::Id, stream: StreamId) -> bool {
        let _ = (now, id, stream);
        false
    }

    /// Throws away what has arrived on a stream.
    fn discard(&mut self, now: Instant, id: Self::Id, stream: StreamId) {
        let mut buffer = [0; 4096];
        while self.recv(now, id, stream, &mut buffer).0 > 0 {}
    }

    /// Drops what was written on a stream and not sent.
    fn cancel(&mut self, now: Instant, id: Self::Id, stream: StreamId) {
        let _ = (now, id, stream);
    }

    /// Begins a stream that nobody has used, both ways or to the peer alone, where streams are fresh; `None`: the peer does
    /// not let there be one now, and [`EngineHost::streams_available`] says when to ask again.
    ///
    /// # Errors
    /// There is none to be had.
    fn begin_stream(
        &mut self,
        now: Instant,
        id: Self::Id,
        one_way: bool,
    ) -> Result<Option<StreamId>, Refusal> {
        let _ = (now, id, one_way);
        Err(Refusal::Closed)
    }

    /// What streams of a lower rank have goes first.
    fn set_rank(&mut self, now: Instant, id: Self::Id, stream: StreamId, rank: u32) {
        let _ = (now, id, stream, rank);
    }

    /// Cancels one direction of a stream: what we read, or what we write.
    fn cancel_direction(&mut self, now: Instant, id: Self::Id, stream: StreamId, reading: bool, code: u64) {
        let _ = (now, id, stream, reading, code);
    }

    /// The code with which the peer has cancelled one direction of a stream.
    fn cancel_code(&self, id: Self::Id, stream: StreamId, reading: bool) -> Option<u64> {
        let _ = (id, stream, reading);
        None
    }

    /// Where the count of a stream's bytes goes on after a reset.
    fn position_after_reset(position: u64) -> u64 {
        position
    }

    /// Sessions have come or gone: others on this host that share a port may have to know.
    fn publish(&mut self) {}

    /// The host has these addresses now.
    fn follow_addresses(&mut self, now: Instant, present: &[IpAddr]) {
        let _ = (now, present);
    }

    /// The settings in force.
    fn settings(&self) -> Box<dyn Settings>;

    /// Keeps a log of each connection that begins from now on, where there is a form for one.
    fn keep_logs(&mut self) {}

    /// Takes the logs that were kept.
    fn take_logs(&mut self) -> Vec<ConnectionLog> {
        Vec::new()
    }

    /// What the engine has counted.
    fn totals(&self) -> Totals;
}

/// One write of an application.
#[derive(Clone, Copy, Debug)]
pub struct Write<M> {
    /// On which stream.
    pub stream: StreamId,
    /// Messages of so many bytes each; `None`: bytes, to be cut where the engine pleases.
    pub message: Option<usize>,
    /// How whole messages are delivered.
    pub delivery: Delivery,
    /// What the stream's holder has set.
    pub marks: M,
}

/// Why a write is not taken.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Refusal {
    /// The session has ended or is ending.
    Closed,
    /// The session could not be established.
    Failed(CloseReason),
}
