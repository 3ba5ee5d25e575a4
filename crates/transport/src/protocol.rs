//! A transport as a plug-in: what it is, and how it starts in a world.
//!
//! [`Protocol`] describes one, without a world: name, capabilities, profiles, knobs. [`Runs`] starts it in worlds of one
//! kind, and [`Host`] is what then runs. A program has a list of them, hands it to whoever asks, and asks nothing else.

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

/// What a transport is.
pub trait Protocol: Debug + Send + Sync {
    /// Its name: on the command line, in plans, tables and results.
    fn name(&self) -> &'static str;

    /// What it can do.
    fn capabilities(&self) -> Capabilities;

    /// How addresses say that it is meant; none: it cannot be written there.
    fn schemes(&self) -> &'static [Scheme] {
        &[]
    }

    /// The names of its profiles.
    fn profiles(&self) -> &'static [&'static str];

    /// The profile of who names none.
    fn default_profile(&self) -> &'static str;

    /// The settings of a profile; `None` when there is none of this name.
    fn profile(&self, name: &str) -> Option<Box<dyn Settings>>;

    /// What it asks of the kernel, when it is the kernel's. The settings may be those of the engine in whose place it runs.
    fn kernel(&self, settings: &dyn Settings, congestion: Option<&str>) -> Option<KernelOptions> {
        let _ = (settings, congestion);
        None
    }

    /// What it runs with that no knob sets: keys as of knobs, with their values.
    fn fixed(&self) -> &'static [(&'static str, &'static str)] {
        &[]
    }

    /// What to say beside any figures of it.
    fn caveat(&self) -> Option<&'static str> {
        None
    }

    /// What to say beside figures of it from an emulated network.
    fn remark(&self) -> Option<&'static str> {
        None
    }
}

/// How an address says which transport is meant.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Scheme {
    /// Where one listens, and in results: `sctp`.
    pub name: &'static str,
    /// Of a URL of HTTP over it: `http+sctp`; `None`: there is no such URL.
    pub url: Option<&'static str>,
    /// The port of who names none.
    pub port: u16,
    /// Carried by UDP, where it may also be on IP itself.
    pub in_udp: bool,
}

/// What a host's transport begins with.
#[derive(Clone, Debug)]
pub struct Start {
    /// Its settings, of a profile of the same protocol.
    pub settings: Box<dyn Settings>,
    /// What carries its packets.
    pub carrier: Carrier,
    /// How many of the host's addresses it uses; `None`: all.
    pub paths: Option<usize>,
    /// Certificates and whom to believe, for a protocol that is secure by itself, of the type that it takes; `None` for
    /// others.
    pub ends: Option<Rc<dyn Any>>,
    /// A congestion control by the kernel's name, instead of the settings', for a protocol that is the kernel's.
    pub congestion: Option<String>,
    /// What stands between its engine and the network, if anything does; for a protocol whose packets can go over it
    /// ([`Capabilities::layered`]).
    pub layer: Option<Rc<dyn Layer>>,
}

/// A layer between an engine and its socket that has conversations of its own with each peer (DTLS).
pub trait Layer: Debug {
    /// The layer over this socket.
    fn over(&self, below: Box<dyn Datagrams>) -> Box<dyn Datagrams>;

    /// Why a peer was last lost ([`PeerState::Lost`](anabranch_base::PeerState::Lost)), if it was.
    fn fault(&self, peer: SocketAddr) -> Option<CloseReason>;
}

/// A transport that has started, or why it has not.
pub type Starting = Pin<Box<dyn Future<Output = io::Result<Rc<dyn Host>>>>>;

/// A transport that runs in such worlds.
pub trait Runs<W: World>: Protocol {
    /// Starts it on a host.
    fn start(&self, world: W, start: Start) -> Starting;
}

/// A server as a transport reaches it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Server {
    /// Its addresses, the first the primary; ports: the carrier's (UDP), or 0 on IP.
    pub addresses: Vec<SocketAddr>,
    /// Its port of the transport.
    pub port: u16,
}

impl From<SocketAddr> for Server {
    /// One address, whose port is the transport's.
    fn from(at: SocketAddr) -> Self {
        Self { addresses: vec![at], port: at.port() }
    }
}

impl Server {
    /// Its first address with its port of the transport.
    #[must_use]
    pub fn first(&self) -> Option<SocketAddr> {
        self.addresses.first().map(|address| SocketAddr::new(address.ip(), self.port))
    }
}

/// A transport at work on a host. It lives as long as any handle of it or of its sessions.
pub trait Host {
    /// Opens sessions to these servers, numbered in this order.
    fn connector(&self, servers: Vec<Server>) -> AnyConnector;

    /// Takes in sessions that peers begin with `port`; `backlog` may wait to be taken, 0 for the transport's own number.
    ///
    /// # Errors
    /// [`ListenError`].
    fn listen(&self, port: u16, backlog: u32) -> Result<AnyListener, ListenError>;

    /// The settings in force; `None` where the host does not tell (a kernel's).
    fn settings(&self) -> Option<Box<dyn Settings>>;

    /// Starts or stops keeping a trace.
    fn set_tracing(&self, on: bool);

    /// Takes the trace kept since the last call.
    fn take_trace(&self) -> Vec<TraceRecord>;

    /// Takes where what its sessions have written since the last call lies in what the trace speaks of, where a layer stands
    /// between the two; kept while a trace is.
    fn take_placement(&self) -> Placement {
        Placement::default()
    }

    /// Keeps a log of each connection that begins from now on, in the form that tools of its transport read, where there is
    /// one (qlog).
    fn keep_logs(&self) {}

    /// Takes the logs that were kept.
    fn take_logs(&self) -> Vec<ConnectionLog> {
        Vec::new()
    }

    /// What it has counted.
    fn totals(&self) -> Totals;

    /// Ready when no session is alive.
    fn poll_idle(&self, cx: &mut Context<'_>) -> Poll<()>;

    /// Begins to close all sessions in good order; wait with [`poll_idle`](Self::poll_idle).
    fn close(&self);
}

impl dyn Host {
    /// Waits until no session is alive.
    pub async fn idle(&self) {
        poll_fn(|cx| self.poll_idle(cx)).await;
    }
}

/// The log of a connection at one end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ConnectionLog {
    /// What its file is called, with the ending that tools know.
    pub name: String,
    /// The file.
    pub content: Vec<u8>,
}

/// What a host's transport has counted, over all sessions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Totals {
    /// Retransmission timers that ran out, of the handshake too.
    pub timeouts: u64,
    /// Paths found dead, or alive again.
    pub path_changes: Vec<PathChange>,
}

/// What becomes of a path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathEvent {
    /// It failed, potentially failed, or is active again.
    Changed(PathChange),
    /// User data goes on that was interrupted.
    Interrupted(Interruption),
}

/// User data did not get on for a while, and then went on on another path, or on one that had failed meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Interruption {
    /// The initiator's port of the session.
    pub connection: u64,
    /// The peer's address on the path of the last data before.
    pub from: IpAddr,
    /// On that of the first data after.
    pub to: IpAddr,
    /// It was the data that the peer sends: nothing arrived. Else nothing was acknowledged of what was sent.
    pub received: bool,
    /// When data last got on before; where none was under way, when the next was sent.
    pub since: Instant,
    /// When it went on.
    pub until: Instant,
}

/// A path that went down, or came back after it had.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PathChange {
    /// The initiator's port of the session.
    pub connection: u64,
    /// The destination address.
    pub address: IpAddr,
    /// When this side found out.
    pub at: Instant,
    /// What it is from then on.
    pub state: PathState,
}

/// Whether a path is usable.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum PathState {
    /// In use or ready.
    Active,
    /// The path has not answered of late; data goes elsewhere while it is probed.
    PotentiallyFailed,
    /// Failed.
    Failed,
}
