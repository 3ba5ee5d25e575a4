//! A transport as a plug-in: its description, and how it starts in a world.
//!
//! [`Protocol`] describes a transport independently of a world: name, capabilities, profiles and knobs. [`Runs`] starts
//! it in worlds of one kind, and [`Host`] is the running transport. A program keeps a list of its transports and passes
//! it to the code that needs it.

use crate::capabilities::{Capabilities, Carrier};
use crate::connector::ListenError;
use crate::erased::{AnyConnector, AnyListener};
use crate::placement::Placement;
use crate::session::CloseReason;
use crate::settings::Settings;
use anabranch_base::time::Instant;
use anabranch_base::trace::TraceRecord;
use anabranch_world::kernel::KernelOptions;
use anabranch_world::{Datagrams, World};
use std::any::Any;
use std::fmt::Debug;
use std::future::{Future, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

/// The description of a transport.
pub trait Protocol: Debug + Send + Sync {
    /// The transport's name on the command line and in plans, tables and results.
    fn name(&self) -> &'static str;

    /// The features of the transport.
    fn capabilities(&self) -> Capabilities;

    /// The URL and address schemes that select this transport; empty if no scheme does.
    fn schemes(&self) -> &'static [Scheme] {
        &[]
    }

    /// The names of its profiles.
    fn profiles(&self) -> &'static [&'static str];

    /// The profile that is used when none is named.
    fn default_profile(&self) -> &'static str;

    /// The settings of a profile; `None` when there is no profile of this name.
    fn profile(&self, name: &str) -> Option<Box<dyn Settings>>;

    /// The options to set on kernel sockets, if this is a kernel transport. The settings may be those of the engine that
    /// it replaces.
    fn kernel(&self, settings: &dyn Settings, congestion: Option<&str>) -> Option<KernelOptions> {
        let _ = (settings, congestion);
        None
    }

    /// Settings that no knob changes, as pairs of key and value.
    fn fixed(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// A caveat to print beside any figures of this transport.
    fn caveat(&self) -> Option<&'static str> {
        None
    }

    /// A caveat to print beside its figures from an emulated network.
    fn remark(&self) -> Option<&'static str> {
        None
    }
}

/// A URL and address scheme that selects a transport.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// The scheme of listening addresses and in results, such as `sctp`.
    pub name: &'static str,
    /// The scheme of URLs for HTTP over this transport, such as `http+sctp`; `None` if there is none.
    pub url: Option<&'static str>,
    /// The default port.
    pub port: u16,
    /// Whether packets are carried in UDP, for transports that can also run directly on IP.
    pub in_udp: bool,
}

/// The parameters with which a transport starts on a host.
#[derive(Clone, Debug)]
pub struct Start {
    /// Settings, from a profile of the same protocol.
    pub settings: Box<dyn Settings>,
    /// The carrier of its packets: IP or UDP.
    pub carrier: Carrier,
    /// The number of the host's addresses to use; `None`: all.
    pub paths: Option<usize>,
    /// Certificates and trust anchors, for a protocol with built-in encryption, in the type that it takes; `None` for
    /// other protocols.
    pub ends: Option<Rc<dyn Any>>,
    /// The kernel's name of the congestion control to use instead of the one in the settings, for kernel transports.
    pub congestion: Option<String>,
    /// The layer between the engine and the network, if any; only for protocols whose packets can go over one
    /// ([`Capabilities::layered`]).
    pub layer: Option<Rc<dyn Layer>>,
}

/// A layer between an engine and its socket that has its own handshake and state with each peer (DTLS).
pub trait Layer: Debug {
    /// Wraps a socket in this layer.
    fn over(&self, below: Box<dyn Datagrams>) -> Box<dyn Datagrams>;

    /// Why the peer was last lost ([`PeerState::Lost`](anabranch_base::PeerState::Lost)), if it was.
    fn fault(&self, peer: SocketAddr) -> Option<CloseReason>;
}

/// A future that yields the started transport, or the error.
pub type Starting = Pin<Box<dyn Future<Output = io::Result<Rc<dyn Host>>>>>;

/// A transport that can run in worlds of type `W`.
pub trait Runs<W: World>: Protocol {
    /// Starts the transport on a host.
    fn start(&self, world: W, start: Start) -> Starting;
}

/// The addresses and port at which a transport reaches a server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// The server's IP addresses, the primary first. Their ports are UDP ports if UDP is the carrier, or 0 on IP.
    pub addresses: Vec<SocketAddr>,
    /// The server's transport port.
    pub port: u16,
}

impl From<SocketAddr> for Server {
    /// A server with one address, whose port is also the transport port.
    fn from(at: SocketAddr) -> Self {
        Self { addresses: vec![at], port: at.port() }
    }
}

impl Server {
    /// The primary address, with the transport port.
    #[must_use]
    pub fn first(&self) -> Option<SocketAddr> {
        self.addresses.first().map(|address| SocketAddr::new(address.ip(), self.port))
    }
}

/// A transport that runs on a host. It lives as long as any handle of it or of its sessions.
pub trait Host {
    /// Returns a connector to these servers, which it numbers in this order.
    fn connector(&self, servers: Vec<Server>) -> AnyConnector;

    /// Accepts sessions that peers open to `port`. Up to `backlog` sessions may wait to be accepted; 0 is the transport's
    /// default.
    ///
    /// # Errors
    /// [`ListenError`].
    fn listen(&self, port: u16, backlog: u32) -> Result<AnyListener, ListenError>;

    /// The settings in use; `None` if the host does not know them (a kernel transport).
    fn settings(&self) -> Option<Box<dyn Settings>>;

    /// Starts or stops keeping a trace.
    fn set_tracing(&self, on: bool);

    /// Takes the trace kept since the last call.
    fn take_trace(&self) -> Vec<TraceRecord>;

    /// Takes the map from the bytes that applications wrote since the last call to the bytes that the trace counts, if a
    /// layer lies between the two. It is kept only while a trace is kept.
    fn take_placement(&self) -> Placement {
        Placement::default()
    }

    /// Keeps a log of each connection that begins from now on, in the format that tools for this transport read (qlog),
    /// if there is one.
    fn keep_logs(&self) {}

    /// Takes the logs that were kept.
    fn take_logs(&self) -> Vec<ConnectionLog> {
        Vec::new()
    }

    /// The transport's counters.
    fn totals(&self) -> Totals;

    /// Ready when no session is alive.
    fn poll_idle(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Starts to close all sessions gracefully; wait with [`poll_idle`](Self::poll_idle).
    fn close(&self);
}

impl dyn Host {
    /// Waits until no session is alive.
    pub async fn idle(&self) {
        poll_fn(|cx| self.poll_idle(cx)).await;
    }
}

/// The log of a connection as one endpoint recorded it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionLog {
    /// The file name, with the extension that tools expect.
    pub name: String,
    /// The content of the file.
    pub content: Vec<u8>,
}

/// Counters of a host's transport, over all sessions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Expired retransmission timers, including those of handshakes.
    pub timeouts: u64,
    /// Paths that failed or came back.
    pub path_changes: Vec<PathChange>,
}

/// A change of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathEvent {
    /// The path failed, is potentially failed, or is active again.
    Changed(PathChange),
    /// User data continues after an interruption.
    Interrupted(Interruption),
}

/// A time without progress of user data, which then continued on another path, or on a path that had failed meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interruption {
    /// The initiator's port of the session.
    pub connection: u64,
    /// The peer's address on the path of the last data before the interruption.
    pub from: IpAddr,
    /// The peer's address on the path of the first data after it.
    pub to: IpAddr,
    /// True if the peer was the sender: no data arrived. False if this side was: none of its data was acknowledged.
    pub received: bool,
    /// The time of the last progress before it. If no data was outstanding then, the time at which data was next sent.
    pub since: Instant,
    /// The time at which data made progress again.
    pub until: Instant,
}

/// A path that failed, or that came back after it had failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathChange {
    /// The initiator's port of the session.
    pub connection: u64,
    /// The destination address.
    pub address: IpAddr,
    /// The time at which this side detected the change.
    pub at: Instant,
    /// The state after the change.
    pub state: PathState,
}

/// Whether a path is usable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathState {
    /// In use or ready.
    Active,
    /// The path has not answered recently; data uses another path while this one is probed.
    PotentiallyFailed,
    /// The path has failed.
    Failed,
}
