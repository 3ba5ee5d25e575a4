//! Socket options as typed values. The module `sockopt` sets and reads these options.
//!
//! Implements RFC 6458 §8 (socket options).

use super::extensions::{Extension, PeerAddrThresholds};
use super::{Errno, EventKind, EventSet, PrInfo, SndInfo};
use crate::config::{ChunkSet, Hmacs, ReconfigRequests, SchedulerKind};
use crate::id::AssociationId;
use crate::stats::{AssociationState, PathInfo, PathState};
use anabranch_base::time::Duration;
use std::net::IpAddr;

/// The associations to which an option applies (RFC 6458 §7.2, §8: `SCTP_FUTURE_ASSOC`, `SCTP_CURRENT_ASSOC`,
/// `SCTP_ALL_ASSOC`).
///
/// On a one-to-one socket with an association, every scope includes this association.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Scope {
    /// Future associations.
    #[default]
    Future,
    /// Existing associations.
    Current,
    /// Existing and future associations.
    All,
    /// One association.
    One(AssociationId),
}

/// Retransmission timeouts (§8.1.1, `SCTP_RTOINFO`). `None` leaves a value unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct RtoInfo {
    /// The value of RTO.Initial.
    pub initial: Option<Duration>,
    /// The value of RTO.Max.
    pub max: Option<Duration>,
    /// The value of RTO.Min.
    pub min: Option<Duration>,
}

/// Association parameters (§8.1.2, `SCTP_ASSOCINFO`). `None` leaves a value unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct AssocInfo {
    /// The value of Association.Max.Retrans.
    pub max_retrans: Option<u32>,
    /// Number of addresses of the peer; read only.
    pub peer_destinations: u16,
    /// Free space in the peer's receive buffer in bytes; read only.
    pub peer_rwnd: u64,
    /// Size of the local receive buffer in bytes; read only.
    pub local_rwnd: u64,
    /// The value of Valid.Cookie.Life.
    pub cookie_life: Option<Duration>,
}

/// Parameters of the INIT chunk (§8.1.3, `SCTP_INITMSG`). `None` leaves a value unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct InitMsg {
    /// Number of outbound streams to request.
    pub num_ostreams: Option<u16>,
    /// Largest number of streams that the peer may send on.
    pub max_instreams: Option<u16>,
    /// The value of Max.Init.Retransmits.
    pub attempts: Option<u32>,
    /// Largest timeout of an INIT, used instead of RTO.Max.
    pub max_timeout: Option<Duration>,
}

/// Heartbeats, failure detection and MTU of destinations (§8.1.12, `SCTP_PEER_ADDR_PARAMS`). `None` leaves a value
/// unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeerAddrParams {
    /// The destination address; `None` for all destinations. A HEARTBEAT on demand is sent to this address, and `mtu`
    /// is read for it. All other parameters apply to the whole association, whatever `address` is.
    pub address: Option<IpAddr>,
    /// Whether HEARTBEATs are sent (`SPP_HB_ENABLE` or `SPP_HB_DISABLE`).
    pub heartbeats: Option<bool>,
    /// The value of HB.interval.
    pub interval: Option<Duration>,
    /// The value of Path.Max.Retrans.
    pub max_retrans: Option<u32>,
    /// Path MTU in bytes, IP header included; read only.
    pub mtu: Option<u32>,
    /// `SPP_HB_DEMAND`: whether a HEARTBEAT is sent now.
    pub demand: bool,
}

/// Delayed acknowledgements (§8.1.19, `SCTP_DELAYED_SACK`). `None` leaves a value unchanged.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct DelayedSack {
    /// The value of SACK.Delay, at most 500 ms (RFC 9260 §6.2). `None` leaves the current value unchanged.
    pub delay: Option<Duration>,
    /// The number of packets with DATA after which a SACK is sent at the latest; 1 turns the delay off. `None` leaves
    /// the current number unchanged.
    pub every: Option<u32>,
}

/// Whether partially delivered messages may be interleaved (§8.1.20, `SCTP_FRAGMENT_INTERLEAVE`).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Fragmented {
    /// Level 0: partially delivered messages are not interleaved.
    #[default]
    None,
    /// Level 1: messages of different associations may be interleaved.
    Associations,
    /// Level 2 of the option: messages of different streams may be interleaved as well.
    Streams,
}

/// The state of a destination address (§8.2.2, `SCTP_GET_PEER_ADDR_INFO`; §8.2.1, `sstat_primary`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct PeerAddrInfo {
    /// The address.
    pub address: IpAddr,
    /// The state of the address: `SCTP_ACTIVE`, `SCTP_INACTIVE` or `SCTP_UNCONFIRMED`.
    pub state: PathState,
    /// Congestion window in bytes.
    pub cwnd: u64,
    /// Smoothed round-trip time; zero if it was not measured yet.
    pub srtt: Duration,
    /// Retransmission timeout.
    pub rto: Duration,
    /// Path MTU in bytes, IP header included.
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

/// The state of an association (§8.2.1, `SCTP_STATUS`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status {
    /// The association (`sstat_assoc_id`).
    pub association: AssociationId,
    /// The state of the association (`sstat_state`).
    pub state: AssociationState,
    /// Free space in the peer's receive buffer in bytes (`sstat_rwnd`).
    pub peer_rwnd: u64,
    /// Number of user bytes sent and not acknowledged. `sstat_unackdata` counts chunks, but the engine counts bytes.
    pub unacknowledged: u64,
    /// Number of streams that the peer may send on (`sstat_instrms`).
    pub inbound_streams: u16,
    /// Number of streams that this side may send on (`sstat_outstrms`).
    pub outbound_streams: u16,
    /// The size in bytes of the largest message that is not fragmented (`sstat_fragmentation_point`).
    pub fragmentation_point: usize,
    /// The primary destination (`sstat_primary`).
    pub primary: PeerAddrInfo,
}

/// A socket option with its value.
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
    /// `SO_LINGER` (§8.1.4): `Some(0)` makes `close` abort the associations. Any other value is stored but has no
    /// effect, because `close` never waits.
    Linger(Option<u32>),
    /// `SCTP_NODELAY` (§8.1.5): `true` turns Nagle's algorithm off.
    NoDelay(bool),
    /// `SO_RCVBUF` (§8.1.6): the receive buffer of future associations in bytes.
    ReceiveBuffer(u64),
    /// `SO_SNDBUF` (§8.1.7): the send buffer in bytes.
    SendBuffer(u64),
    /// `SCTP_AUTOCLOSE` (§8.1.8): idle associations are shut down after this time.
    Autoclose(Option<Duration>),
    /// `SCTP_PRIMARY_ADDR` (§8.1.9): the primary destination for sending.
    PrimaryAddress(IpAddr),
    /// `SCTP_DISABLE_FRAGMENTS` (§8.1.11): a message that does not fit into one packet is rejected.
    DisableFragments(bool),
    /// `SCTP_PEER_ADDR_PARAMS` (§8.1.12).
    PeerAddrParams(PeerAddrParams),
    /// `SCTP_EVENT` (§6.2.2): turns one notification on or off.
    Event(EventKind, bool),
    /// `SCTP_EVENTS` (§6.2.1): the set of all subscribed notifications.
    Events(EventSet),
    /// `SCTP_MAXSEG` (§8.1.16): the largest number of user bytes in a DATA chunk; `None` for the number that the path
    /// MTU allows.
    MaxSegment(Option<u32>),
    /// `SCTP_DELAYED_SACK` (§8.1.19).
    DelayedSack(DelayedSack),
    /// `SCTP_FRAGMENT_INTERLEAVE` (§8.1.20).
    FragmentInterleave(Fragmented),
    /// `SCTP_PARTIAL_DELIVERY_POINT` (§8.1.21): an unfinished message with at least this number of bytes is delivered
    /// in parts.
    PartialDeliveryPoint(u64),
    /// `SCTP_MAX_BURST` (§8.1.24): the largest burst in packets; `None` for no limit.
    MaxBurst(Option<u32>),
    /// `SCTP_CONTEXT` (§8.1.25): a value that is returned with every received message.
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
    /// Whether future associations negotiate an extension (`SCTP_*_SUPPORTED`).
    Supported(Extension, bool),
    /// `SCTP_PEER_ADDR_THLDS_V2` (RFC 7829 §7.2).
    PeerAddrThresholds(PeerAddrThresholds),
    /// `SCTP_HMAC_IDENT` (§8.1.17): the HMAC algorithms that the peer is asked to use.
    HmacIdents(Hmacs),
    /// `SCTP_AUTH_CHUNK` (§8.3.2): accepts chunks of this type only if they are authenticated; set only.
    AuthChunk(u8),
    /// `SCTP_LOCAL_AUTH_CHUNKS` (§8.2.4): the chunk types that this side accepts only if they are authenticated; read
    /// only.
    LocalAuthChunks(ChunkSet),
    /// `SCTP_PEER_AUTH_CHUNKS`: the chunk types that the peer accepts only if they are authenticated; read only.
    PeerAuthChunks(ChunkSet),
    /// `SCTP_AUTH_ACTIVE_KEY`: the key that authenticates sent chunks. Set it with
    /// [`Sockets::request_key`](super::Sockets::request_key).
    ActiveKey(u16),
    /// `SCTP_ADAPTATION_LAYER` (§8.1.10): the code point that is sent to the peer. It is sent whether or not ASCONF is
    /// enabled.
    Adaptation(Option<u32>),
    /// `SCTP_ENABLE_STREAM_RESET` (RFC 6525 §6.3.1): the requests that the peer may make; other requests are denied.
    /// Unlike in the RFC, all requests are accepted until this option is set.
    EnableStreamReset(ReconfigRequests),
    /// `SCTP_STATUS` (§8.2.1); read only.
    Status(Status),
    /// `SCTP_GET_PEER_ADDR_INFO` (§8.2.2); read only.
    PeerAddrInfo(PeerAddrInfo),
    /// `SCTP_GET_ASSOC_NUMBER` (§8.2.5); read only.
    AssociationCount(usize),
    /// `SO_ERROR` (POSIX): the most recent error since this option was last read; read only.
    Error(Option<Errno>),
}

/// The name of an option that is read.
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
    /// The parameters of one destination, or of all destinations (`None`).
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
    /// The state of one destination.
    PeerAddrInfo(IpAddr),
    AssociationCount,
    /// The last error. Reading it clears it.
    Error,
}
