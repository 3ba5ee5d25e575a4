//! Implements [`SessionEngine`] for the TCP endpoint: a connection is a session, and its byte stream is stream 0.

use crate::connector::{ConnectError, ListenError};
use crate::engine::{EngineHost, SessionEngine, Write, WriteRefusal};
use crate::protocol::{Server, Totals};
use crate::session::{CloseReason, StreamId};
use crate::settings::{Knob, Settings};
use anabranch_base::time::Instant;
use anabranch_base::{Engine, SharedBytes};
use anabranch_tcp::{CloseReason as EngineReason, Config, ConnectionId, Endpoint, Event, SendError};
use bytes::Bytes;
use std::net::{IpAddr, SocketAddr};

impl SessionEngine for Endpoint {
    type Id = ConnectionId;
    type Marks = ();

    const ONE_STREAM: bool = true;
    const HALF_CLOSE: bool = true;
    const NAME: &'static str = "tcp";

    fn handle_event(host: &mut EngineHost<Self>, now: Instant, event: Event) {
        match event {
            Event::Accepted { id, port } => host.accepted(now, id, port, 1),
            Event::Closed { id, reason } => host.closed(now, id, to_close_reason(reason)),
            Event::Connected { id } => host.established(id, 1),
            Event::Readable { id } | Event::Finished { id } => host.readable(id, 0),
            Event::Writable { id } => host.writable(id),
        }
    }

    fn connect(&mut self, now: Instant, server: &Server) -> Result<ConnectionId, ConnectError> {
        let remote = server.first().ok_or_else(|| ConnectError::NoRoute("no address".to_owned()))?;
        Self::connect(self, now, None, remote).map_err(|error| match error {
            anabranch_tcp::ConnectError::NoAddress(_) => ConnectError::NoRoute(remote.to_string()),
            anabranch_tcp::ConnectError::NoFreePort => ConnectError::NoPort,
            error => ConnectError::Refused(error.to_string()),
        })
    }

    fn listen(&mut self, port: u16, backlog: u32) -> Result<(), ListenError> {
        Self::listen(self, port, backlog).map_err(|error| match error {
            anabranch_tcp::ListenError::InUse(_) => ListenError::PortInUse(port),
            error => ListenError::Refused(error.to_string()),
        })
    }

    fn close_listener(&mut self, port: u16) {
        Self::close_listener(self, port);
    }

    fn set_accept_queue(&mut self, port: u16, waiting: u32) {
        Self::set_accept_queue(self, port, waiting);
    }

    fn trace_key(&self, id: ConnectionId) -> u64 {
        Self::trace_key(self, id).unwrap_or_default()
    }

    fn peer(&self, id: ConnectionId) -> Option<SocketAddr> {
        self.info(id).map(|info| info.remote)
    }

    fn unacknowledged(&self, id: ConnectionId) -> u64 {
        self.buffered_bytes(id) as u64
    }

    fn recv(&mut self, now: Instant, id: ConnectionId, _stream: StreamId, into: &mut [u8]) -> (usize, bool) {
        let read = Self::recv(self, now, id, into).unwrap_or(0);
        (read, read < into.len())
    }

    fn is_finished(&self, id: ConnectionId, _stream: StreamId) -> bool {
        Self::is_finished(self, id)
    }

    fn send(
        &mut self,
        now: Instant,
        id: ConnectionId,
        _write: Write<()>,
        from: &[u8],
    ) -> Result<usize, WriteRefusal> {
        Self::send(self, now, id, from)
            .map_err(|(SendError::Closed | SendError::Finished)| WriteRefusal::Closed)
    }

    fn send_shared(
        &mut self,
        now: Instant,
        id: ConnectionId,
        _write: Write<()>,
        from: &mut Bytes,
    ) -> Result<usize, WriteRefusal> {
        Self::send_shared(self, now, id, from)
            .map_err(|(SendError::Closed | SendError::Finished)| WriteRefusal::Closed)
    }

    fn recv_shared(
        &mut self,
        now: Instant,
        id: ConnectionId,
        _stream: StreamId,
        most: usize,
    ) -> Option<SharedBytes> {
        Self::recv_shared(self, now, id, most)
    }

    fn readable_bytes(&self, id: ConnectionId, _stream: StreamId) -> usize {
        self.readable(id)
    }

    /// If the written data can only wait for acknowledgements, the drive loop need not run.
    fn has_work(&self) -> bool {
        self.has_output()
    }

    fn finish(&mut self, now: Instant, id: ConnectionId, _stream: StreamId) {
        Self::finish(self, now, id);
    }

    fn close(&mut self, now: Instant, id: ConnectionId) {
        Self::close(self, now, id);
    }

    fn abort(&mut self, now: Instant, id: ConnectionId) {
        Self::abort(self, now, id);
    }

    fn limit_unsent(&mut self, _now: Instant, id: ConnectionId, bytes: u64) {
        Self::limit_unsent(self, id, bytes);
    }

    fn follow_addresses(&mut self, now: Instant, present: &[IpAddr]) {
        self.set_addresses(now, present);
    }

    fn settings(&self) -> Box<dyn Settings> {
        Box::new(self.config().clone())
    }

    fn totals(&self) -> Totals {
        // A connection has only one path, so there are no path changes to report.
        Totals { timeouts: Self::totals(self).timeouts, ..Totals::default() }
    }
}

impl Settings for Config {
    fn knobs(&self) -> Vec<Knob> {
        Self::knobs(self)
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        Self::set(self, key, value).map_err(|error| error.to_string())
    }

    fn check(&self) -> Result<(), String> {
        Self::check(self).map_err(|error| error.to_string())
    }

    /// Returns whether timestamp echoes (RFC 3522) or duplicate SACK reports (RFC 3708) reveal spurious
    /// retransmissions.
    fn detects_spurious_retransmissions(&self) -> bool {
        self.timestamps || self.sack && self.dsack
    }
}

/// Converts the engine's reason for the end of a connection to a [`CloseReason`].
fn to_close_reason(reason: EngineReason) -> CloseReason {
    match reason {
        EngineReason::Finished => CloseReason::Finished,
        EngineReason::Refused => CloseReason::Refused,
        EngineReason::Reset => CloseReason::Reset(String::new()),
        EngineReason::HandshakeTimedOut => CloseReason::TimedOut("in the handshake".to_owned()),
        EngineReason::TimedOut => CloseReason::TimedOut(String::new()),
        EngineReason::Unreachable(code) => CloseReason::Network(format!("unreachable, ICMP code {code}")),
        EngineReason::Aborted => CloseReason::Aborted,
        EngineReason::AddressGone => CloseReason::Network(reason.to_string()),
    }
}
