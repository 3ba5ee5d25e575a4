//! The interface of transports: the description of a transport, and how it is started in a `World`.
//!
//! [`Protocol`] describes a transport independently of a `World`: name, capabilities, profiles and knobs.
//! [`RunnableProtocol`] starts the transport in a `World` of one type, and [`Host`] is the running transport. A program
//! keeps a list of its transports and passes the list to the code that needs it.

use crate::capabilities::{Capabilities, LowerProtocol};
use crate::connector::ListenError;
use crate::erased::{AnyConnector, AnyListener};
use crate::network::{Logs, Member, PathFigures, Sharing};
use crate::record_map::RecordMap;
use crate::session::CloseReason;
use crate::settings::Settings;
use anabranch_base::time::Instant;
use anabranch_base::trace::TraceRecord;
use anabranch_world::kernel::KernelOptions;
use anabranch_world::{DatagramSocket, World};
use std::any::Any;
use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll};

/// The description of a transport.
pub trait Protocol: Debug + Send + Sync {
    /// Returns the transport's name on the command line and in plans, tables and results.
    fn name(&self) -> &'static str;

    /// Returns the features of the transport.
    fn capabilities(&self) -> Capabilities;

    /// Returns the URL and address schemes that select this transport; empty if no scheme does.
    fn schemes(&self) -> &'static [Scheme] {
        &[]
    }

    /// Returns the names of the transport's profiles.
    fn profiles(&self) -> &'static [&'static str];

    /// Returns the name of the profile that is used by default.
    fn default_profile(&self) -> &'static str;

    /// Returns the settings of a profile; `None` if there is no profile with this name.
    fn profile(&self, name: &str) -> Option<Box<dyn Settings>>;

    /// Returns the current name of the knob that an earlier version called `old`; `None` if there is no such knob.
    fn current_knob(&self, old: &str) -> Option<&'static str> {
        let _ = old;
        None
    }

    /// Returns the settings with which a program on a real network starts, before its own flags change them.
    fn deployed(&self) -> Option<Box<dyn Settings>> {
        self.profile(self.default_profile())
    }

    /// Divides the packets of one port or IP protocol among `threads` threads, according to the content of the packets.
    /// Returns `None` if the transport cannot do this; the kernel then divides packets by the peer's address and port.
    fn share(&self, threads: u32) -> Option<Sharing> {
        let _ = threads;
        None
    }

    /// Returns whether the transport writes connection logs in a format that tools read (qlog).
    fn has_logs(&self) -> bool {
        false
    }

    /// Returns whether the host's routing table chooses the local address of a client's packets. Otherwise the
    /// transport chooses one of the host's addresses.
    fn is_routed(&self) -> bool {
        false
    }

    /// Returns the options to set on kernel sockets, if this is a kernel transport. `congestion` names the congestion
    /// control. If it is `None`, the congestion control that `settings` name is used. `settings` can also be the
    /// settings of our engine for the same protocol.
    fn kernel(&self, settings: &dyn Settings, congestion: Option<&str>) -> Option<KernelOptions> {
        let _ = (settings, congestion);
        None
    }

    /// Returns the settings that cannot be changed, because they have no knob, as pairs of key and value.
    fn fixed(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// Returns a note that reports print beside all measurements of this transport, about a limit of their validity.
    fn caveat(&self) -> Option<&'static str> {
        None
    }

    /// Returns a note that reports print beside measurements of this transport over an emulated network.
    fn remark(&self) -> Option<&'static str> {
        None
    }
}

/// A scheme of URLs and addresses that selects a transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// The scheme in listening addresses and in results, for example `sctp`.
    pub name: &'static str,
    /// The scheme of URLs for HTTP over this transport, for example `http+sctp`; `None` if there is none.
    pub url: Option<&'static str>,
    /// The default port.
    pub port: u16,
    /// Whether packets are carried in UDP. This is a choice only for transports that can also run directly on IP.
    pub in_udp: bool,
    /// How HTTP runs over sessions of this scheme; `None` if the scheme does not carry HTTP.
    pub http: Option<Http>,
}

/// How HTTP runs over the sessions of a scheme.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Http {
    /// On the single stream of a session: HTTP/1.1 (RFC 9112), or HTTP/2 (RFC 9113) if client and server agree on it.
    OneStream,
    /// HTTP/1.1 with each exchange on a stream pair of its own.
    StreamPairs,
    /// HTTP/3 (RFC 9114), with each exchange on a fresh stream.
    Http3,
}

/// The parameters with which a transport is started on a host.
#[derive(Clone, Debug)]
pub struct StartOptions {
    /// The settings of the transport, taken from a profile of its protocol. A kernel transport also accepts the
    /// settings of our engine for the same protocol ([`Protocol::kernel`]).
    pub settings: Box<dyn Settings>,
    /// The carrier of the transport's packets: IP or UDP.
    pub carrier: LowerProtocol,
    /// The number of the host's addresses to use; `None` means all.
    pub paths: Option<usize>,
    /// For a protocol with built-in encryption: its certificates and trust anchors, in the type that it expects. `None`
    /// for other protocols.
    pub credentials: Option<Rc<dyn Any>>,
    /// For kernel transports only: the congestion control, under the kernel's name for it. It replaces the congestion
    /// control in the settings.
    pub congestion: Option<String>,
    /// The layer between the engine and the network, if there is one. [`Capabilities::layered`] says whether a protocol
    /// accepts a layer.
    pub layer: Option<Rc<dyn Layer>>,
}

/// The parameters with which a transport is started on a real network.
pub struct Opening<W: World> {
    /// The parameters of [`RunnableProtocol::start`].
    pub start: StartOptions,
    /// The local address at which a kernel transport listens. `None` stands for all IPv4 addresses of the host.
    pub local: Option<IpAddr>,
    /// The socket of this thread, if several threads share a port.
    pub socket: Option<W::Socket>,
    /// The identity of this thread, if the transport assigns one
    /// ([`Sharing::members`](crate::network::Sharing::members)).
    pub member: Option<Member>,
    /// The destination of connection logs; `None` if connections are not logged.
    pub logs: Option<Arc<dyn Logs>>,
}

impl<W: World> From<StartOptions> for Opening<W> {
    fn from(start: StartOptions) -> Self {
        Self { start, local: None, socket: None, member: None, logs: None }
    }
}

/// A layer between an engine and its socket, with its own handshake and its own state for each peer, for example DTLS.
pub trait Layer: Debug {
    /// Returns this layer as a socket, over the socket `below`.
    fn over(&self, below: Box<dyn DatagramSocket>) -> Box<dyn DatagramSocket>;

    /// Returns the reason why the connection to the peer was last lost
    /// ([`PeerState::Lost`](anabranch_base::PeerState::Lost)); `None` if the peer was not lost.
    fn loss_reason(&self, peer: SocketAddr) -> Option<CloseReason>;
}

/// A future that returns the started transport, or the error.
pub type Starting = Pin<Box<dyn Future<Output = io::Result<Rc<dyn Host>>>>>;

/// A transport that can run in a `World` of type `W`.
pub trait RunnableProtocol<W: World>: Protocol {
    /// Starts the transport on a host.
    fn start(&self, world: W, start: StartOptions) -> Starting;

    /// Starts the transport on a real network. Fails if `opening` has a socket and the transport cannot take over a
    /// socket.
    fn open(&self, world: W, opening: Opening<W>) -> Starting {
        if opening.socket.is_some() {
            return Box::pin(std::future::ready(Err(io::Error::new(
                io::ErrorKind::Unsupported,
                "the transport cannot share a port between threads",
            ))));
        }
        self.start(world, opening.start)
    }
}

/// The addresses and the port at which a transport reaches a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// The server's IP addresses, the primary address first. Their ports are UDP ports if UDP is the carrier, or 0 on
    /// IP.
    pub addresses: Vec<SocketAddr>,
    /// The server's transport port.
    pub port: u16,
}

impl From<SocketAddr> for Server {
    /// Returns a server with the single address `at`. The port of `at` is also the transport port.
    fn from(at: SocketAddr) -> Self {
        Self { addresses: vec![at], port: at.port() }
    }
}

impl Server {
    /// Returns the primary address with the transport port; `None` if the server has no address.
    #[must_use]
    pub fn first(&self) -> Option<SocketAddr> {
        self.addresses.first().map(|address| SocketAddr::new(address.ip(), self.port))
    }
}

/// A running transport on one host. The transport stops when all its handles and all handles of its sessions are
/// dropped.
pub trait Host {
    /// Returns a connector to `servers`. A server's number is its index in `servers`.
    fn connector(&self, servers: Vec<Server>) -> AnyConnector;

    /// Accepts sessions that peers open to `port`. Up to `backlog` sessions may wait to be accepted; 0 stands for the
    /// transport's default.
    ///
    /// # Errors
    /// [`ListenError`] if the transport cannot listen on `port`.
    fn listen(&self, port: u16, backlog: u32) -> Result<AnyListener, ListenError>;

    /// Returns the settings in use; `None` if the host does not know them, as for a kernel transport.
    fn settings(&self) -> Option<Box<dyn Settings>>;

    /// Starts or stops the recording of a trace.
    fn set_tracing(&self, on: bool);

    /// Returns the part of the trace that was recorded since the last call.
    fn take_trace(&self) -> Vec<TraceRecord>;

    /// Returns the record map of the data that the applications have written since the last call. The map converts
    /// positions in the applications' streams to positions in the engine's streams, which the trace uses. The map is
    /// empty if there is no layer between the applications and the engine, or if no trace is recorded.
    fn take_record_map(&self) -> RecordMap {
        RecordMap::default()
    }

    /// Records a log of each connection that starts after this call, in the format that tools for this transport read
    /// (qlog). Does nothing if there is no such format.
    fn start_logging(&self) {}

    /// Returns the logs recorded since the last call.
    fn take_logs(&self) -> Vec<ConnectionLog> {
        Vec::new()
    }

    /// Returns the transport's counters.
    fn totals(&self) -> Totals;

    /// Returns the local addresses that the transport uses, each with the UDP port, or with port 0 if the transport
    /// runs directly on IP. An unspecified address stands for every address of the host. Returns an empty list if the
    /// transport does not know its addresses.
    fn addresses(&self) -> Vec<SocketAddr> {
        Vec::new()
    }

    /// Returns the number of sessions that peers have opened so far.
    fn accepted(&self) -> u64 {
        0
    }

    /// Returns the paths of all sessions so far, including ended sessions. There is one entry for each address of a
    /// peer. A session with a single path has no entry.
    fn paths(&self) -> Vec<PathFigures> {
        Vec::new()
    }

    /// From now on, calls `listener` with each path event. Only [`PathEvent::BlackHole`] occurs on sessions with a single path.
    /// The host is borrowed during the call, so `listener` must not call the host. Does nothing if the transport reports no
    /// such events.
    fn on_path_event(&self, listener: Box<dyn Fn(PathEvent)>) {
        drop(listener);
    }

    /// Ready when all sessions have ended.
    fn poll_idle(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Starts to close all sessions gracefully. Wait for their end with [`poll_idle`](Self::poll_idle).
    fn close(&self);
}

impl dyn Host {
    /// Waits until all sessions have ended.
    pub async fn wait_idle(&self) {
        poll_fn(|cx| self.poll_idle(cx)).await;
    }
}

/// The log of a connection that one endpoint has recorded, for example in qlog format.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionLog {
    /// The name of the log file, with the extension that tools expect.
    pub name: String,
    /// The content of the log file.
    pub content: Vec<u8>,
}

/// The counters of a transport on one host, summed over all sessions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// The number of expired retransmission timers, including those of handshakes.
    pub timeouts: u64,
    /// The changes of path states: a path failed, became potentially failed, or became active again.
    pub path_changes: Vec<PathChange>,
}

/// A path event of a session: a change of a path's state, an interruption of user data, or the end of a session whose
/// path delivers no data.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum PathEvent {
    /// The path failed, became potentially failed, or is active again.
    Changed(PathChange),
    /// An interruption of the user data has ended: data makes progress again.
    Interrupted(Interruption),
    /// This side has ended the session, because its peer answered heartbeats but acknowledged no data.
    BlackHole {
        /// The peer's address.
        address: IpAddr,
        /// The time at which this side ended the session.
        at: Instant,
        /// The reason in one line, with the size of the packets.
        reason: String,
    },
}

/// A time without progress of user data. A transport reports it in three cases: the data moved to another path, the
/// path failed and recovered, or the wait exceeded a retransmission timeout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interruption {
    /// The session, identified by the port of the side that started it.
    pub connection: u64,
    /// The peer's address on the path that carried the last data before the interruption.
    pub from: IpAddr,
    /// The peer's address on the path that carried the first data after the interruption.
    pub to: IpAddr,
    /// True if the peer was sending, and its data did not arrive. False if this side was sending, and its data was not
    /// acknowledged.
    pub received: bool,
    /// The time of the last progress before the interruption. If no data was outstanding at that time, this is the time
    /// at which data was next sent.
    pub since: Instant,
    /// The time at which user data made progress again.
    pub until: Instant,
}

/// A change of the state of one path of a session.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathChange {
    /// The session, identified by the port of the side that started it.
    pub connection: u64,
    /// The destination address of the path.
    pub address: IpAddr,
    /// The time at which this side detected the change.
    pub at: Instant,
    /// The state of the path after the change.
    pub state: PathState,
}

/// Whether a path can be used.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathState {
    /// The path carries data or is ready to carry it.
    Active,
    /// The path has not answered recently. Data uses another path while this path is probed.
    PotentiallyFailed,
    /// The path has failed.
    Failed,
}
