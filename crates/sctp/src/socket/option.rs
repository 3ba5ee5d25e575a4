//! Socket options as typed values; `sockopt` sets and reads them.
//!
//! Home of RFC 6458 §8 (socket options).

use super::extensions::{Extension, PeerAddrThresholds};
use super::{Errno, EventKind, EventSet, PrInfo, SndInfo};
use crate::config::{ChunkSet, Hmacs, ReconfigRequests, SchedulerKind};
use crate::id::AssociationId;
use crate::stats::{AssociationState, PathInfo, PathState};
use anabranch_base::time::Duration;
use std::net::IpAddr;

/// Which associations an option is about (RFC 6458 §7.2, §8: `SCTP_FUTURE_ASSOC` and its like).
///
/// On a one-to-one socket with an association every scope means that association as well.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scope {
    /// Those to come.
    #[default]
    Future,
    /// Those that are there.
    Current,
    /// Both.
    All,
    /// This one.
    One(AssociationId),
}

/// Retransmission timeouts (§8.1.1, `SCTP_RTOINFO`). `None` leaves a value as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RtoInfo {
    /// RTO.Initial.
    pub initial: Option<Duration>,
    /// RTO.Max.
    pub max: Option<Duration>,
    /// RTO.Min.
    pub min: Option<Duration>,
}

/// Association parameters (§8.1.2, `SCTP_ASSOCINFO`). `None` leaves a value as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AssocInfo {
    /// Association.Max.Retrans.
    pub max_retrans: Option<u32>,
    /// Addresses of the peer; read only.
    pub peer_destinations: u16,
    /// What the peer's receive buffer still takes, bytes; read only.
    pub peer_rwnd: u64,
    /// The own receive buffer, bytes; read only.
    pub local_rwnd: u64,
    /// Valid.Cookie.Life.
    pub cookie_life: Option<Duration>,
}

/// What INIT asks for (§8.1.3, `SCTP_INITMSG`). `None` leaves a value as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InitMsg {
    /// Streams to send on.
    pub outbound: Option<u16>,
    /// Most streams that the peer may send on.
    pub inbound: Option<u16>,
    /// Max.Init.Retransmits.
    pub attempts: Option<u32>,
    /// Largest RTO of an INIT. Kept, and not yet told apart from RTO.Max by the engine.
    pub max_timeout: Option<Duration>,
}

/// Heartbeats, failure detection and MTU of destinations (§8.1.12, `SCTP_PEER_ADDR_PARAMS`).
/// `None` leaves a value as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeerAddrParams {
    /// The destination; `None` for all. The engine keeps these parameters per association.
    pub address: Option<IpAddr>,
    /// `SPP_HB_ENABLE` or `SPP_HB_DISABLE`.
    pub heartbeats: Option<bool>,
    /// HB.interval.
    pub interval: Option<Duration>,
    /// Path.Max.Retrans.
    pub max_retrans: Option<u32>,
    /// Path MTU, IP header included, bytes; read only.
    pub mtu: Option<u32>,
    /// `SPP_HB_DEMAND`: a HEARTBEAT now.
    pub demand: bool,
}

/// Delayed acknowledgement (§8.1.19, `SCTP_DELAYED_SACK`). `None` leaves a value as it is.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DelayedSack {
    /// SACK.Delay, at most 500 ms (RFC 9260 §6.2).
    pub delay: Option<Duration>,
    /// A SACK at the latest with every so manieth packet; 1 turns the delay off.
    pub every: Option<u32>,
}

/// How messages that are handed out in parts may alternate (§8.1.20, `SCTP_FRAGMENT_INTERLEAVE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fragmented {
    /// 0: not at all.
    #[default]
    None,
    /// 1: those of different associations.
    Associations,
    /// 2: those of different streams, too.
    Streams,
}

/// One destination (§8.2.2, `SCTP_GET_PEER_ADDR_INFO`; §8.2.1, `sstat_primary`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerAddrInfo {
    /// The address.
    pub address: IpAddr,
    /// `SCTP_ACTIVE`, `SCTP_INACTIVE` or `SCTP_UNCONFIRMED`.
    pub state: PathState,
    /// Congestion window, bytes.
    pub cwnd: u64,
    /// Smoothed round-trip time, zero until measured.
    pub srtt: Duration,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Path MTU, IP header included, bytes.
    pub mtu: u32,
}

impl From<&PathInfo> for PeerAddrInfo {
    fn from(path: &PathInfo) -> Self {
        Self {
            address: path.address,
            state: path.state,
            cwnd: path.cwnd,
            srtt: path.srtt.unwrap_or_default(),
            rto: path.rto,
            mtu: path.mtu,
        }
    }
}

/// An association as it stands (§8.2.1, `SCTP_STATUS`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// Which (`sstat_assoc_id`).
    pub association: AssociationId,
    /// Its state (`sstat_state`).
    pub state: AssociationState,
    /// What the peer's receive buffer still takes, bytes (`sstat_rwnd`).
    pub peer_rwnd: u64,
    /// User bytes sent and not acknowledged (the engine counts bytes, not chunks: `sstat_unackdata`).
    pub unacknowledged: u64,
    /// Streams the peer may send on (`sstat_instrms`).
    pub inbound_streams: u16,
    /// Streams this side may send on (`sstat_outstrms`).
    pub outbound_streams: u16,
    /// The largest message that is not fragmented, bytes (`sstat_fragmentation_point`).
    pub fragmentation_point: usize,
    /// The primary destination (`sstat_primary`).
    pub primary: PeerAddrInfo,
}

/// An option with its value.
///
/// ```
/// use anabranch_base::time::Duration;
/// use anabranch_base::{Instant, Rng};
/// use anabranch_sctp::socket::{Errno, OptionName, RtoInfo, Scope, SocketOption, Sockets, Style};
/// use anabranch_sctp::{Config, Endpoint};
///
/// let address = std::net::SocketAddr::from(([10, 0, 0, 1], 0));
/// let mut sockets = Sockets::new(Endpoint::new(Config::default(), vec![address], Rng::new(1)));
/// let id = sockets.socket(Style::OneToOne);
/// let faster = RtoInfo { min: Some(Duration::from_millis(100)), ..RtoInfo::default() };
/// sockets.set_option(Instant::ZERO, id, Scope::Future, SocketOption::RtoInfo(faster))?;
/// let SocketOption::RtoInfo(now) = sockets.option(id, Scope::Future, OptionName::RtoInfo)? else { panic!() };
/// assert_eq!(now.min, Some(Duration::from_millis(100)));
/// assert_eq!(now.max, Some(Duration::from_secs(60)));
/// # Ok::<(), Errno>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum SocketOption {
    /// `SCTP_RTOINFO` (§8.1.1).
    RtoInfo(RtoInfo),
    /// `SCTP_ASSOCINFO` (§8.1.2).
    AssocInfo(AssocInfo),
    /// `SCTP_INITMSG` (§8.1.3).
    InitMsg(InitMsg),
    /// `SO_LINGER` (§8.1.4): `Some(0)` makes `close` abort; other times are kept and mean nothing
    /// here, for `close` never waits.
    Linger(Option<u32>),
    /// `SCTP_NODELAY` (§8.1.5): true turns Nagle's rule off.
    NoDelay(bool),
    /// `SO_RCVBUF` (§8.1.6), bytes; for associations to come.
    ReceiveBuffer(u64),
    /// `SO_SNDBUF` (§8.1.7), bytes.
    SendBuffer(u64),
    /// `SCTP_AUTOCLOSE` (§8.1.8): idle associations are shut down after this time.
    Autoclose(Option<Duration>),
    /// `SCTP_PRIMARY_ADDR` (§8.1.9): where to send.
    PrimaryAddress(IpAddr),
    /// `SCTP_DISABLE_FRAGMENTS` (§8.1.11): what does not fit into one packet is refused.
    DisableFragments(bool),
    /// `SCTP_PEER_ADDR_PARAMS` (§8.1.12).
    PeerAddrParams(PeerAddrParams),
    /// `SCTP_EVENT` (§6.2.2): one notification on or off.
    Event(EventKind, bool),
    /// All subscribed notifications (§6.2.1, `SCTP_EVENTS`).
    Events(EventSet),
    /// `SCTP_MAXSEG` (§8.1.16): most user bytes in a DATA chunk; `None` for what the path takes.
    MaxSegment(Option<u32>),
    /// `SCTP_DELAYED_SACK` (§8.1.19).
    DelayedSack(DelayedSack),
    /// `SCTP_FRAGMENT_INTERLEAVE` (§8.1.20).
    FragmentInterleave(Fragmented),
    /// `SCTP_PARTIAL_DELIVERY_POINT` (§8.1.21), bytes.
    PartialDeliveryPoint(u64),
    /// `SCTP_MAX_BURST` (§8.1.24), packets; `None` for no limit.
    MaxBurst(Option<u32>),
    /// `SCTP_CONTEXT` (§8.1.25): comes with every message that is read.
    Context(u32),
    /// `SCTP_REUSE_PORT` (§8.1.27).
    ReusePort(bool),
    /// `SCTP_RECVRCVINFO` (§8.1.29).
    RecvRcvInfo(bool),
    /// `SCTP_RECVNXTINFO` (§8.1.30).
    RecvNxtInfo(bool),
    /// `SCTP_DEFAULT_SNDINFO` (§8.1.31).
    DefaultSndInfo(SndInfo),
    /// `SCTP_DEFAULT_PRINFO` (§8.1.32).
    DefaultPrInfo(PrInfo),
    /// `SCTP_STREAM_SCHEDULER` (RFC 8260 §4.3.2).
    StreamScheduler(SchedulerKind),
    /// Whether an extension is spoken by associations to come (`SCTP_*_SUPPORTED`).
    Supported(Extension, bool),
    /// `SCTP_PEER_ADDR_THLDS_V2` (RFC 7829 §7.2).
    PeerAddrThresholds(PeerAddrThresholds),
    /// `SCTP_HMAC_IDENT` (§8.1.17): which HMACs the peer is asked to use.
    HmacIdents(Hmacs),
    /// `SCTP_AUTH_CHUNK` (§8.3.2): this chunk type is taken only authenticated; set only.
    AuthChunk(u8),
    /// `SCTP_LOCAL_AUTH_CHUNKS` (§8.2.4): all such chunk types; read only.
    LocalAuthChunks(ChunkSet),
    /// `SCTP_PEER_AUTH_CHUNKS`: what the peer takes only authenticated; read only.
    PeerAuthChunks(ChunkSet),
    /// `SCTP_AUTH_ACTIVE_KEY`: the key that signs; set by [`Sockets::request_key`](super::Sockets::request_key).
    ActiveKey(u16),
    /// `SCTP_ADAPTATION_LAYER` (§8.1.10): the code point that the peer is told. It is heard where
    /// [`Extension::Asconf`] is on.
    Adaptation(Option<u32>),
    /// `SCTP_ENABLE_STREAM_RESET` (RFC 6525 §6.3.1): what the peer may ask for; the rest is denied. Other than there,
    /// everything is granted until this is set.
    EnableStreamReset(ReconfigRequests),
    /// `SCTP_STATUS` (§8.2.1); read only.
    Status(Status),
    /// `SCTP_GET_PEER_ADDR_INFO` (§8.2.2); read only.
    PeerAddrInfo(PeerAddrInfo),
    /// `SCTP_GET_ASSOC_NUMBER` (§8.2.5); read only.
    AssociationCount(usize),
    /// `SO_ERROR` (POSIX): what went wrong since it was last asked; read only.
    Error(Option<Errno>),
}

/// Names an option that is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
#[allow(missing_docs, reason = "each is the variant of SocketOption with the same name")]
pub enum OptionName {
    RtoInfo,
    AssocInfo,
    InitMsg,
    Linger,
    NoDelay,
    ReceiveBuffer,
    SendBuffer,
    Autoclose,
    PrimaryAddress,
    DisableFragments,
    /// Of one destination, or of all.
    PeerAddrParams(Option<IpAddr>),
    Event(EventKind),
    Events,
    MaxSegment,
    DelayedSack,
    FragmentInterleave,
    PartialDeliveryPoint,
    MaxBurst,
    Context,
    ReusePort,
    RecvRcvInfo,
    RecvNxtInfo,
    DefaultSndInfo,
    DefaultPrInfo,
    StreamScheduler,
    Supported(Extension),
    PeerAddrThresholds,
    HmacIdents,
    LocalAuthChunks,
    PeerAuthChunks,
    ActiveKey,
    Adaptation,
    EnableStreamReset,
    Status,
    /// Of this destination.
    PeerAddrInfo(IpAddr),
    AssociationCount,
    /// Reading it forgets it.
    Error,
}
