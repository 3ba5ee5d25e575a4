//! A host's TCP: ports, listeners, and which connection a segment belongs to.

use crate::{Config, ConnectError, Event, Info, ListenError, RecvError, SendError, Stats};
use anabranch_base::trace::TraceRecord;
use anabranch_base::{Batch, Engine, Icmp, Instant, Packet, Rng};
use std::net::{IpAddr, SocketAddr};

/// Names a connection of one endpoint; never reused.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ConnectionId {
    pub(crate) slot: u32,
    pub(crate) generation: u32,
}

/// All TCP of a host, without input or output of its own.
#[derive(Debug)]
pub struct Endpoint {
    config: Config,
}

impl Endpoint {
    /// An endpoint on these addresses, nothing listening yet.
    #[must_use]
    pub fn new(config: Config, addresses: Vec<IpAddr>, rng: Rng) -> Self {
        let _ = (addresses, rng);
        Self { config }
    }

    /// The settings that new connections get.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The largest IP packet that the interface of `address` takes; 1500 until told.
    pub fn set_mtu(&mut self, address: IpAddr, mtu: u32) {
        let _ = (address, mtu);
    }

    /// Accepts connections to `port`; `backlog` 0 takes the configured one.
    ///
    /// # Errors
    /// [`ListenError`].
    pub fn listen(&mut self, port: u16, backlog: u32) -> Result<(), ListenError> {
        let _ = backlog;
        Err(ListenError::InUse(port))
    }

    /// Stops accepting on `port`; connections that are open stay.
    pub fn close_listener(&mut self, port: u16) {
        let _ = port;
    }

    /// Opens a connection; [`Event::Connected`] or [`Event::Closed`] follows.
    ///
    /// # Errors
    /// [`ConnectError`] when it cannot even begin.
    pub fn connect(
        &mut self,
        now: Instant,
        local: Option<IpAddr>,
        remote: SocketAddr,
    ) -> Result<ConnectionId, ConnectError> {
        let _ = (now, local);
        Err(ConnectError::NoAddress(remote.ip()))
    }

    /// Puts as much of `data` into the send buffer as fits, and says how much
    /// that is. When it is less than all, [`Event::Writable`] follows.
    ///
    /// # Errors
    /// [`SendError`].
    pub fn send(&mut self, now: Instant, id: ConnectionId, data: &[u8]) -> Result<usize, SendError> {
        let _ = (now, id, data);
        Err(SendError::Closed)
    }

    /// Takes received bytes; 0 when there are none now (or ever: [`is_finished`](Self::is_finished)).
    ///
    /// # Errors
    /// [`RecvError`].
    pub fn recv(&mut self, now: Instant, id: ConnectionId, into: &mut [u8]) -> Result<usize, RecvError> {
        let _ = (now, id, into);
        Err(RecvError::Closed)
    }

    /// Sends FIN after what is in the send buffer; receiving goes on.
    pub fn finish(&mut self, now: Instant, id: ConnectionId) {
        let _ = (now, id);
    }

    /// The application is done with both directions: like [`finish`](Self::finish), and
    /// what still arrives is answered with a reset.
    pub fn close(&mut self, now: Instant, id: ConnectionId) {
        let _ = (now, id);
    }

    /// Ends the connection at once with a reset.
    pub fn abort(&mut self, now: Instant, id: ConnectionId) {
        let _ = (now, id);
    }

    /// Bytes that the send buffer would take now.
    #[must_use]
    pub fn writable(&self, id: ConnectionId) -> usize {
        let _ = id;
        0
    }

    /// Bytes that could be read now.
    #[must_use]
    pub fn readable(&self, id: ConnectionId) -> usize {
        let _ = id;
        0
    }

    /// The peer has finished and everything was read.
    #[must_use]
    pub fn is_finished(&self, id: ConnectionId) -> bool {
        let _ = id;
        false
    }

    /// What traces call this connection: the initiator's port.
    #[must_use]
    pub fn trace_key(&self, id: ConnectionId) -> Option<u64> {
        let _ = id;
        None
    }

    /// Counters of a connection; kept until its [`Event::Closed`] has been taken and its place reused.
    #[must_use]
    pub fn stats(&self, id: ConnectionId) -> Option<Stats> {
        let _ = id;
        None
    }

    /// How a connection stands.
    #[must_use]
    pub fn info(&self, id: ConnectionId) -> Option<Info> {
        let _ = id;
        None
    }

    /// Counters summed over all connections there have been.
    #[must_use]
    pub fn totals(&self) -> Stats {
        Stats::default()
    }
}

impl Engine for Endpoint {
    type Event = Event;

    fn handle_packet(&mut self, _now: Instant, _packet: Packet<'_>) {}
    fn handle_icmp(&mut self, _now: Instant, _icmp: &Icmp, _quoted: &[u8]) {}
    fn handle_timeout(&mut self, _now: Instant) {}
    fn poll_transmit(&mut self, _now: Instant, _out: &mut Batch) -> bool {
        false
    }
    fn poll_event(&mut self) -> Option<Event> {
        None
    }
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
    fn set_tracing(&mut self, _on: bool) {}
    fn take_trace(&mut self) -> Vec<TraceRecord> {
        Vec::new()
    }
}
