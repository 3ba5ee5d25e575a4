//! Implements the session engine for the QUIC endpoint. A QUIC connection is a session, and the bidirectional streams
//! that the client begins are the streams of the session.

use crate::config::Config;
use crate::endpoint::{Endpoint, Event, Id};
use crate::keys::{alert, is_of_certificates};
use anabranch_base::Budget;
use anabranch_base::knobs::Table;
use anabranch_base::time::Duration;
use anabranch_base::time::Instant;
use anabranch_transport::engine::{EngineHost, SessionEngine, Write, WriteRefusal};
use anabranch_transport::network::{Figures, Needs, StreamNeed};
use anabranch_transport::protocol::{ConnectionLog, Totals};
use anabranch_transport::{CloseReason, ConnectError, Knob, ListenError, Server, Settings, StreamId};
use bytes::Bytes;
use quinn_proto::{ConnectionError, TransportErrorCode};
use std::net::{Ipv4Addr, SocketAddr};

impl SessionEngine for Endpoint {
    type Id = Id;
    type Marks = ();

    const ONE_STREAM: bool = false;
    const HALF_CLOSE: bool = true;
    const FRESH_STREAMS: bool = true;
    /// All packets that arrived together, up to this number of bytes, are answered with one acknowledgement (RFC 9000
    /// §13.2.2), because encrypting each acknowledgement costs time.
    const AT_ONCE: usize = 64 * 1024;
    const NAME: &'static str = "quic";

    fn handle_event(host: &mut EngineHost<Self>, now: Instant, event: Event) {
        match event {
            Event::Connected { id, streams } => host.established(id, streams),
            Event::Accepted { id, streams } => match host.engine.listening() {
                Some(port) => host.accepted(now, id, port, streams),
                None => host.engine.abort(now, id),
            },
            Event::Readable { id, stream } => host.readable(id, stream),
            Event::Writable { id } => host.writable(id),
            Event::Available { id } => host.streams_available(id),
            Event::Closed { id, reason } => host.closed(now, id, to_close_reason(reason)),
        }
    }

    fn connect(&mut self, now: Instant, server: &Server) -> Result<Id, ConnectError> {
        // If the server's address has port 0, use `server.port` as the UDP port.
        let remote = server.addresses.first().copied().filter(|at| at.port() != 0).or(server.first());
        let remote = remote.ok_or_else(|| ConnectError::NoRoute("no address".to_owned()))?;
        Self::connect(self, now, remote).map_err(ConnectError::Refused)
    }

    fn listen(&mut self, port: u16, _: u32) -> Result<(), ListenError> {
        if let Some(port) = self.listening() {
            return Err(ListenError::PortInUse(port));
        }
        if !self.is_server() {
            return Err(ListenError::Refused("QUIC listens with a certificate only".to_owned()));
        }
        self.set_listening(Some(port));
        Ok(())
    }

    fn close_listener(&mut self, port: u16) {
        if self.listening() == Some(port) {
            self.set_listening(None);
        }
    }

    fn set_accept_queue(&mut self, _: u16, waiting: u32) {
        Self::set_accept_queue(self, waiting as usize);
    }

    fn trace_key(&self, id: Id) -> u64 {
        Self::trace_key(self, id)
    }

    fn peer(&self, id: Id) -> Option<SocketAddr> {
        Self::peer(self, id)
    }

    fn unacknowledged(&self, id: Id) -> u64 {
        Self::unacknowledged(self, id)
    }

    fn streams(&self) -> u64 {
        self.config().streams
    }

    fn early_data(&self, id: Id) -> bool {
        Self::early_data(self, id)
    }

    fn recv(&mut self, now: Instant, id: Id, stream: StreamId, into: &mut [u8]) -> (usize, bool) {
        Self::recv(self, now, id, stream, into)
    }

    fn is_finished(&self, id: Id, stream: StreamId) -> bool {
        Self::is_finished(self, id, stream)
    }

    fn send(&mut self, now: Instant, id: Id, write: Write<()>, from: &[u8]) -> Result<usize, WriteRefusal> {
        Self::send(self, now, id, write.stream, from)
    }

    fn send_shared(
        &mut self,
        now: Instant,
        id: Id,
        write: Write<()>,
        from: &mut Bytes,
    ) -> Result<usize, WriteRefusal> {
        Self::send_shared(self, now, id, write.stream, from)
    }

    fn begin_stream(&mut self, _: Instant, id: Id, one_way: bool) -> Result<Option<StreamId>, WriteRefusal> {
        Self::begin_stream(self, id, one_way)
    }

    fn set_rank(&mut self, _now: Instant, id: Id, stream: StreamId, rank: u32) {
        Self::set_rank(self, id, stream, rank);
    }

    fn cancel_direction(&mut self, now: Instant, id: Id, stream: StreamId, reading: bool, code: u64) {
        Self::cancel(self, now, id, stream, reading, code);
    }

    fn cancel_code(&self, id: Id, stream: StreamId, reading: bool) -> Option<u64> {
        Self::cancel_code(self, id, stream, reading)
    }

    fn finish(&mut self, now: Instant, id: Id, stream: StreamId) {
        Self::finish(self, now, id, stream);
    }

    fn close(&mut self, now: Instant, id: Id) {
        Self::close(self, now, id);
    }

    fn abort(&mut self, now: Instant, id: Id) {
        Self::abort(self, now, id);
    }

    fn close_with(&mut self, now: Instant, id: Id, code: u64, reason: &str) {
        Self::close_with(self, now, id, code, reason);
    }

    fn limit_unsent(&mut self, now: Instant, id: Id, bytes: u64) {
        Self::limit_unsent(self, now, id, bytes);
    }

    fn release_stream(&mut self, now: Instant, id: Id, stream: StreamId) {
        Self::release_stream(self, now, id, stream);
    }

    fn settings(&self) -> Box<dyn Settings> {
        Box::new(self.config().clone())
    }

    fn start_logging(&mut self) {
        Self::start_logging(self);
    }

    fn take_logs(&mut self) -> Vec<ConnectionLog> {
        Self::take_logs(self)
    }

    fn addresses(&self) -> Vec<SocketAddr> {
        vec![SocketAddr::new(Ipv4Addr::UNSPECIFIED.into(), self.port())]
    }

    fn accepted_count(&self) -> u64 {
        self.accepted()
    }

    /// QUIC counts lost packets, not retransmissions. The data of a lost packet is retransmitted in another packet, so
    /// the number of lost packets is returned as the number of retransmissions.
    fn session_figures(&self, id: Id) -> Option<Figures> {
        let figures = self.stats(id)?;
        Some(Figures {
            retransmitted: figures.lost,
            cwnd: figures.cwnd,
            srtt: figures.srtt,
            ..Figures::default()
        })
    }

    fn totals(&self) -> Totals {
        Totals { timeouts: self.timeouts(), ..Totals::default() }
    }
}

impl Settings for Config {
    fn knobs(&self) -> Vec<Knob> {
        self.list()
    }

    fn set(&mut self, key: &str, value: &str) -> Result<(), String> {
        Self::set(self, key, value).map_err(|error| error.to_string())
    }

    fn check(&self) -> Result<(), String> {
        if self.stream_window > self.window {
            return Err(format!(
                "stream_window={}: a stream cannot have more unread than its connection, window={}",
                anabranch_base::Bytes(self.stream_window),
                anabranch_base::Bytes(self.window)
            ));
        }
        Ok(())
    }

    fn streams(&self) -> u64 {
        self.streams
    }

    fn suit(&mut self, needs: &Needs, is_set: &dyn Fn(&str) -> bool) {
        if let Some(StreamNeed::Grant(streams)) = needs.streams
            && !is_set("streams")
        {
            self.streams = streams.into();
        }
    }

    fn delay_acknowledgements(&mut self, packets: u32, delay: Duration) {
        self.acknowledgements = (!self.ack_frequency).then_some((packets, delay));
    }

    fn share_memory(&mut self, memory: Budget) {
        self.memory = Some(memory);
    }

    fn uses_shared_keys(&self) -> Result<(), String> {
        Err("QUIC has certificates; leave it out".to_owned())
    }
}

/// Converts quinn's reason for the end of a connection to the reason that applications see.
#[must_use]
pub fn to_close_reason(reason: Option<ConnectionError>) -> CloseReason {
    match reason {
        None => CloseReason::Finished,
        Some(ConnectionError::LocallyClosed) => CloseReason::Aborted,
        Some(ConnectionError::TimedOut) => CloseReason::TimedOut(String::new()),
        Some(ConnectionError::Reset) => CloseReason::Reset(String::new()),
        Some(ConnectionError::ConnectionClosed(close)) => match (close.error_code, alert(close.error_code)) {
            (TransportErrorCode::CONNECTION_REFUSED, _) => CloseReason::Refused,
            (_, Some(alert)) => CloseReason::Protocol(anabranch_tls::ended_by_peer(alert)),
            _ => CloseReason::Reset(close.to_string()),
        },
        Some(ConnectionError::TransportError(error)) => match alert(error.code) {
            Some(_) if is_of_certificates(error.code) => CloseReason::Untrusted(error.reason),
            Some(alert) => CloseReason::Protocol(anabranch_tls::ended_here(alert, &error.reason)),
            None => CloseReason::Protocol(error.to_string()),
        },
        Some(ConnectionError::VersionMismatch) => {
            CloseReason::Protocol("the server speaks no version of QUIC that is spoken here (1)".to_owned())
        }
        Some(error @ ConnectionError::CidsExhausted) => CloseReason::Protocol(error.to_string()),
        Some(other) => CloseReason::Reset(other.to_string()),
    }
}
