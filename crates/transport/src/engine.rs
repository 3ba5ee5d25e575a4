//! The layer between an application's session handles and an engine. All engines share this code.
//!
//! An engine that implements [`SessionEngine`] gets listeners, backlogs, sessions, streams and wakeups from this
//! module. The engine adds only its commands and the meaning of its events.
//!
//! - `host`: the engine and the tasks that wait for it
//! - `inner`: what all handles of a bound engine share
//! - `bound`: an engine with its socket and drive loop, and its listeners and connectors
//! - `reset`: stream resets
//! - `session`: the handles of sessions and streams that an application has

mod bound;
mod host;
mod inner;
mod reset;
mod session;

pub use bound::{BoundHost, EngineConnector, EngineListener};
pub use host::EngineHost;
pub use reset::ResetDirections;
pub use session::{EngineSession, EngineStream};

use crate::connector::{ConnectError, ListenError};
use crate::network::{Figures, PathFigures};
use crate::protocol::{ConnectionLog, PathEvent, Server, Totals};
use crate::session::{CloseReason, Delivery, StreamId};
use crate::settings::Settings;
use anabranch_base::time::Instant;
use anabranch_base::{Engine, SharedBytes};
use bytes::{Buf, Bytes};
use std::fmt::Debug;
use std::net::{IpAddr, SocketAddr};

/// The engine of a transport that has sessions. The methods with which an application controls sessions have the same
/// names in all engines. The trait also defines how an [`EngineHost`] handles the engine's events.
pub trait SessionEngine: Engine + Sized + 'static {
    /// The type of the engine's identifiers of sessions.
    type Id: Copy + Ord + Debug + 'static;

    /// Attributes of written data that the owner of a stream can set, in addition to [`Delivery`].
    type Marks: Copy + Default + Debug + 'static;

    /// Whether a session has a single stream, number 0, which exists from the handshake on. Otherwise the peer learns
    /// of a stream when the first bytes on the stream arrive.
    const ONE_STREAM: bool;

    /// Whether a side can end its direction of a stream while the session continues.
    const HALF_CLOSE: bool;

    /// Whether each exchange has a fresh stream, whose number is never used again. A fresh stream ends when its last
    /// handle is dropped ([`release_stream`](Self::release_stream)).
    const FRESH_STREAMS: bool = false;

    /// The number of received bytes after which the drive loop sends packets before it receives more packets. Packets
    /// that the host delivers together are answered by one acknowledgement, not by one for every second packet. RFC 9260
    /// §6.2 and RFC 9293 §3.8.6.3 recommend the latter, but every acknowledgement costs a packet at both ends. A sender
    /// that counts acknowledgements instead of bytes (RFC 9260 §7.2.1 with L = 1) then grows its window more slowly.
    const AT_ONCE: usize = 16 * 1024;

    /// The name of the engine's tasks in reports that list what each task waits for.
    const NAME: &'static str;

    /// Applies an event of the engine to the state of the host.
    fn handle_event(host: &mut EngineHost<Self>, now: Instant, event: Self::Event);

    /// Starts a session.
    ///
    /// # Errors
    /// [`ConnectError`] if the session could not be started.
    fn connect(&mut self, now: Instant, server: &Server) -> Result<Self::Id, ConnectError>;

    /// Accepts sessions that peers open to `port`. For `backlog`, see [`Host::listen`](crate::Host::listen).
    ///
    /// # Errors
    /// [`ListenError`] if the engine cannot listen on `port`.
    fn listen(&mut self, port: u16, backlog: u32) -> Result<(), ListenError>;

    /// Stops accepting sessions on `port`.
    fn close_listener(&mut self, port: u16);

    /// Informs the engine how many sessions wait to be accepted on `port`, so that the engine can reject further peers
    /// early.
    fn set_accept_queue(&mut self, port: u16, waiting: u32) {
        let _ = (port, waiting);
    }

    /// Informs the engine that a session started by a peer was added to the backlog and not rejected.
    fn accepted(&mut self, id: Self::Id, port: u16) {
        let _ = (id, port);
    }

    /// Returns the session's key in traces, which is the transport port of the side that started the session.
    fn trace_key(&self, id: Self::Id) -> u64;

    /// Returns an address of the peer; `None` if it is not known.
    fn peer(&self, id: Self::Id) -> Option<SocketAddr>;

    /// Returns the number of bytes that were written and not acknowledged. A peer acknowledges probes of its closed
    /// window even if it reads nothing, which would look like progress. Bytes sent in these probes therefore count as
    /// unacknowledged until the window opens.
    fn unacknowledged(&self, id: Self::Id) -> u64;

    /// Returns the number of streams that a new session requests.
    fn streams(&self) -> u64 {
        1
    }

    /// Returns whether data that the application writes during the handshake is sent together with the handshake's
    /// packets.
    fn early_data(&self, id: Self::Id) -> bool {
        let _ = id;
        false
    }

    /// Reads data that has arrived on a stream into the buffer `into`. Returns the number of bytes, and whether no more
    /// data can be read now.
    fn recv(&mut self, now: Instant, id: Self::Id, stream: StreamId, into: &mut [u8]) -> (usize, bool);

    /// Reads data of one message only. Returns the number of bytes, whether the message ends with these bytes, and
    /// whether no more data can be read now. The default is for protocols without message boundaries,
    /// and reads as [`recv`](Self::recv) does.
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

    /// Copies the engine's attributes of the data that was just read, such as the payload protocol identifier, to
    /// `marks`. `marks` belongs to the stream that was read.
    fn note_marks(&mut self, marks: &mut Self::Marks) {
        let _ = marks;
    }

    /// Returns whether the stream has data to be read.
    fn has_unread(&self, id: Self::Id, stream: StreamId) -> bool {
        let _ = (id, stream);
        false
    }

    /// Returns whether the peer has sent its last byte on the stream and all data has been read.
    fn is_finished(&self, id: Self::Id, stream: StreamId) -> bool {
        let _ = (id, stream);
        false
    }

    /// Takes as many bytes of the slice `from` as there is room for, and returns their number.
    ///
    /// # Errors
    /// [`WriteRefusal`] if the session accepts no more data.
    fn send(
        &mut self,
        now: Instant,
        id: Self::Id,
        write: Write<Self::Marks>,
        from: &[u8],
    ) -> Result<usize, WriteRefusal>;

    /// Like [`send`](Self::send), but shares the memory of `from` where that saves a copy. Removes the bytes taken from
    /// `from`.
    ///
    /// # Errors
    /// The errors of [`send`](Self::send).
    fn send_shared(
        &mut self,
        now: Instant,
        id: Self::Id,
        write: Write<Self::Marks>,
        from: &mut Bytes,
    ) -> Result<usize, WriteRefusal> {
        let taken = self.send(now, id, write, from)?;
        from.advance(taken);
        Ok(taken)
    }

    /// Returns the next bytes that have arrived on a stream, at most `most`, if that needs no copy.
    fn recv_shared(
        &mut self,
        now: Instant,
        id: Self::Id,
        stream: StreamId,
        most: usize,
    ) -> Option<SharedBytes> {
        let _ = (now, id, stream, most);
        None
    }

    /// Returns the number of bytes that one call of [`recv`](Self::recv) can return, or an estimate if the engine does
    /// not know it.
    fn readable_bytes(&self, id: Self::Id, stream: StreamId) -> usize {
        let _ = (id, stream);
        4 << 10
    }

    /// Returns whether the drive loop has to run after a write, because there are packets to send or a deadline has
    /// moved.
    fn has_work(&self) -> bool {
        true
    }

    /// Marks the end of the data that this side writes on the stream.
    fn finish(&mut self, now: Instant, id: Self::Id, stream: StreamId) {
        let _ = (now, id, stream);
    }

    /// Informs the engine that the application has dropped its last handle of a stream. Called only if streams are used
    /// for a single exchange ([`FRESH_STREAMS`](Self::FRESH_STREAMS)).
    fn release_stream(&mut self, now: Instant, id: Self::Id, stream: StreamId) {
        let _ = (now, id, stream);
    }

    /// Sets the delivery of data that is written on the stream from now on.
    fn set_delivery(&mut self, now: Instant, id: Self::Id, stream: StreamId, delivery: Delivery) {
        let _ = (now, id, stream, delivery);
    }

    /// Closes a session gracefully.
    fn close(&mut self, now: Instant, id: Self::Id);

    /// Aborts a session.
    fn abort(&mut self, now: Instant, id: Self::Id);

    /// Aborts a session, and sends a code and a reason for the peer's application if the protocol can carry them.
    fn close_with(&mut self, now: Instant, id: Self::Id, code: u64, reason: &str) {
        let _ = (code, reason);
        self.abort(now, id);
    }

    /// Limits the send buffer: the engine accepts at most `bytes` bytes of unsent data beyond what the congestion
    /// window permits to be sent.
    fn limit_unsent(&mut self, now: Instant, id: Self::Id, bytes: u64) {
        let _ = (now, id, bytes);
    }

    /// Informs the engine that an ended session will not be used again.
    fn release(&mut self, now: Instant, id: Self::Id) {
        let _ = (now, id);
    }

    /// Requests `more` additional streams in each direction. Returns false if the engine cannot add streams.
    fn add_streams(&mut self, now: Instant, id: Self::Id, more: u64) -> bool {
        let _ = (now, id, more);
        false
    }

    /// Requests a reset of a stream in both directions, and drops the stream's unsent data. Returns false if a reset is
    /// not possible.
    fn reset_stream(&mut self, now: Instant, id: Self::Id, stream: StreamId) -> bool {
        let _ = (now, id, stream);
        false
    }

    /// Discards the unread data that has arrived on a stream.
    fn discard(&mut self, now: Instant, id: Self::Id, stream: StreamId) {
        let mut buffer = [0; 4096];
        while self.recv(now, id, stream, &mut buffer).0 > 0 {}
    }

    /// Drops the data that was written on a stream but not sent.
    fn cancel(&mut self, now: Instant, id: Self::Id, stream: StreamId) {
        let _ = (now, id, stream);
    }

    /// Starts a stream, in both directions or only to the peer. Only engines whose streams are used for a single
    /// exchange ([`FRESH_STREAMS`](Self::FRESH_STREAMS)) implement this method. Returns `None` if the peer's limit
    /// permits no further stream now. [`EngineHost::streams_available`] is called when a new attempt may succeed.
    ///
    /// # Errors
    /// The session has no further stream.
    fn begin_stream(
        &mut self,
        now: Instant,
        id: Self::Id,
        one_way: bool,
    ) -> Result<Option<StreamId>, WriteRefusal> {
        let _ = (now, id, one_way);
        Err(WriteRefusal::Closed)
    }

    /// Sets the rank of a stream. Data on streams with a lower rank is sent first.
    fn set_rank(&mut self, now: Instant, id: Self::Id, stream: StreamId, rank: u32) {
        let _ = (now, id, stream, rank);
    }

    /// Cancels one direction of a stream: the incoming direction if `reading`, otherwise the outgoing direction.
    fn cancel_direction(&mut self, now: Instant, id: Self::Id, stream: StreamId, reading: bool, code: u64) {
        let _ = (now, id, stream, reading, code);
    }

    /// Returns the code with which the peer has cancelled one direction of a stream: the direction that this side reads
    /// if `reading`, otherwise the direction that this side writes. `None` if the peer has not cancelled it.
    fn cancel_code(&self, id: Self::Id, stream: StreamId, reading: bool) -> Option<u64> {
        let _ = (id, stream, reading);
        None
    }

    /// Returns the value at which a stream's byte count continues after a reset. `position` is the stream's byte count
    /// at the reset.
    fn position_after_reset(position: u64) -> u64 {
        position
    }

    /// Informs the other engines that share a port on this host about sessions that have started or ended.
    fn publish(&mut self) {}

    /// Informs the engine of the addresses that the host has now.
    fn follow_addresses(&mut self, now: Instant, present: &[IpAddr]) {
        let _ = (now, present);
    }

    /// Returns the settings in use.
    fn settings(&self) -> Box<dyn Settings>;

    /// Records a log of each connection that starts after this call, if the engine has a log format.
    fn start_logging(&mut self) {}

    /// Returns the logs recorded since the last call.
    fn take_logs(&mut self) -> Vec<ConnectionLog> {
        Vec::new()
    }

    /// Returns the engine's counters.
    fn totals(&self) -> Totals;

    /// Returns the local addresses; see [`Host::addresses`](crate::Host::addresses).
    fn addresses(&self) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// Returns the number of sessions that peers have opened so far.
    fn accepted_count(&self) -> u64 {
        0
    }

    /// Returns the paths of all sessions so far; see [`Host::paths`](crate::Host::paths).
    fn paths(&self) -> Vec<PathFigures> {
        Vec::new()
    }

    /// From now on, calls `listener` with each path event; see [`Host::on_path_event`](crate::Host::on_path_event).
    fn on_path_event(&mut self, listener: Box<dyn Fn(PathEvent)>) {
        drop(listener);
    }

    /// Returns the state of a session's loss recovery and congestion control; `None` if it is not known.
    fn session_figures(&self, id: Self::Id) -> Option<Figures> {
        let _ = id;
        None
    }
}

/// The parameters of one write of an application.
#[derive(Clone, Copy, Debug)]
pub struct Write<M> {
    /// The stream on which data is written.
    pub stream: StreamId,
    /// The size of each message in bytes. `None` stands for a byte stream that the engine may split anywhere.
    pub message: Option<usize>,
    /// How whole messages are delivered.
    pub delivery: Delivery,
    /// The attributes that the owner of the stream has set.
    pub marks: M,
}

/// The reason why the engine refused a write.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum WriteRefusal {
    /// The session has ended or is ending.
    Closed,
    /// The session could not be established.
    Failed(CloseReason),
}
