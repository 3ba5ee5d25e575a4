//! Socket options as typed values, set and read.
//!
//! Home of RFC 6458 §8 (socket options); the engine's knobs behind them are in `config`.

use super::extensions::{self, Extension, PeerAddrThresholds};
use super::{Errno, EventKind, EventSet, PrInfo, SndInfo, SocketId, Sockets};
use crate::config::{ChunkSet, Config, Hmacs, SchedulerKind};
use crate::endpoint::AssociationId;
use crate::stats::{AssociationState, PathInfo, PathState};
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use std::net::IpAddr;

/// Which associations an option is about (RFC 6458 §7.1, §8: `SCTP_FUTURE_ASSOC` and its like).
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
    /// `SO_LINGER` (§8.1.4): `Some(0)` makes `close` abort; other times mean nothing here, for
    /// `close` never waits.
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
    /// `SCTP_HMAC_IDENT` (§8.1.16 of RFC 6458): which HMACs the peer is asked to use.
    HmacIdents(Hmacs),
    /// `SCTP_AUTH_CHUNK` (§8.3.1): this chunk type is taken only authenticated; set only.
    AuthChunk(u8),
    /// `SCTP_LOCAL_AUTH_CHUNKS` (§8.2.4): all such chunk types; read only.
    LocalAuthChunks(ChunkSet),
    /// `SCTP_ADAPTATION_LAYER` (§8.1.10): the code point that the peer is told. It is heard where
    /// [`Extension::Asconf`] is on.
    Adaptation(Option<u32>),
    /// `SCTP_STATUS` (§8.2.1); read only.
    Status(Status),
    /// `SCTP_GET_PEER_ADDR_INFO` (§8.2.2); read only.
    PeerAddrInfo(PeerAddrInfo),
    /// `SCTP_GET_ASSOC_NUMBER` (§8.2.5); read only.
    AssociationCount(usize),
    /// `SO_ERROR` (RFC 6458 §8.1.4 and POSIX): what went wrong since it was last asked; read only.
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
    Adaptation,
    Status,
    /// Of this destination.
    PeerAddrInfo(IpAddr),
    AssociationCount,
    /// Reading it forgets it.
    Error,
}

impl Sockets {
    /// `setsockopt()`.
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// # let (mut pair, client, server) = SocketPair::connected(&Config::default());
    /// # let _ = server;
    /// let other = address(Side::B, 1).ip();
    /// pair.a.set_option(pair.now, client, Scope::Current, SocketOption::PrimaryAddress(other))?;
    /// let primary = pair.a.option(client, Scope::Current, OptionName::PrimaryAddress)?;
    /// assert_eq!(primary, SocketOption::PrimaryAddress(other));
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::BadSocket`], [`Errno::NoAssociation`], [`Errno::Invalid`] for a value out of
    /// range, [`Errno::NotSupported`] for an option that can only be read.
    pub fn set_option(
        &mut self,
        now: Instant,
        id: SocketId,
        scope: Scope,
        option: SocketOption,
    ) -> Result<(), Errno> {
        if let SocketOption::PrimaryAddress(address) = option {
            return self.set_primary(now, id, scope, address);
        }
        let socket = self.socket_at(id)?;
        let settings = &mut socket.settings;
        match option {
            SocketOption::Linger(seconds) => settings.abort_on_close = seconds == Some(0),
            SocketOption::Autoclose(span) => {
                settings.autoclose = span.filter(|span| !span.is_zero());
                for member in socket.associations.values_mut() {
                    member.used_at = now;
                }
            }
            SocketOption::DisableFragments(on) => settings.no_fragments = on,
            SocketOption::Event(kind, on) => {
                settings.events.set(kind, on);
                if kind == EventKind::SenderDry && on {
                    // RFC 6458 §6.1.9: told at once when there is nothing unacknowledged.
                    socket.associations.values_mut().for_each(|member| member.busy = true);
                }
                self.take_events(now);
            }
            SocketOption::Events(events) => settings.events = events,
            SocketOption::FragmentInterleave(level) => settings.fragment_interleave = level,
            SocketOption::Context(context) => settings.context = context,
            SocketOption::ReusePort(on) => settings.reuse_port = on,
            SocketOption::RecvRcvInfo(on) => settings.recv_rcvinfo = on,
            SocketOption::RecvNxtInfo(on) => settings.recv_nxtinfo = on,
            SocketOption::DefaultSndInfo(info) => settings.default_snd = info,
            SocketOption::DefaultPrInfo(info) => settings.default_pr = info,
            SocketOption::Status(_)
            | SocketOption::PeerAddrInfo(_)
            | SocketOption::AssociationCount(_)
            | SocketOption::LocalAuthChunks(_)
            | SocketOption::Error(_) => return Err(Errno::NotSupported),
            knob => return self.set_knob(now, id, scope, &knob),
        }
        Ok(())
    }

    /// Options that are knobs of the engine.
    fn set_knob(
        &mut self,
        now: Instant,
        id: SocketId,
        scope: Scope,
        option: &SocketOption,
    ) -> Result<(), Errno> {
        let socket = self.socket_at(id)?;
        if let SocketOption::InitMsg(init) = option
            && init.max_timeout.is_some()
        {
            socket.settings.max_init_timeout = init.max_timeout;
        }
        let mut changed = socket.config.clone();
        apply(option, &mut changed)?;
        let single = socket.single().map(|(association, _)| association);
        let targets: Vec<AssociationId> = match scope {
            Scope::One(association) => {
                if !socket.associations.contains_key(&association) {
                    return Err(Errno::NoAssociation);
                }
                vec![association]
            }
            Scope::Current | Scope::All => socket.associations.keys().copied().collect(),
            Scope::Future => single.into_iter().collect(),
        };
        if !matches!(scope, Scope::One(_) | Scope::Current) {
            socket.config = changed.clone();
            if socket.backlog.is_some() {
                let port = socket.port;
                self.endpoint.close_listener(port);
                self.endpoint.listen_with(port, changed).map_err(|_| Errno::AddressInUse)?;
            }
        }
        // RFC 6525 §6.3.1 and its like: what the handshake has settled stays.
        let settled = matches!(option, SocketOption::Supported(..));
        for association in targets.into_iter().filter(|_| !settled) {
            self.endpoint.tune(now, association, |config| {
                // The same change was possible a moment ago.
                let _ = apply(option, config);
            });
        }
        self.take_events(now);
        Ok(())
    }

    fn set_primary(
        &mut self,
        now: Instant,
        id: SocketId,
        scope: Scope,
        address: IpAddr,
    ) -> Result<(), Errno> {
        let association = self.association_of(id, scope)?;
        let info = self.endpoint.info(association).ok_or(Errno::NoAssociation)?;
        let path = info.paths.iter().position(|path| path.address == address && !path.removed);
        let path = path.ok_or(Errno::Invalid)?;
        self.endpoint.set_primary(now, association, path).map_err(|_| Errno::Invalid)
    }

    /// The one association that an option is about.
    pub(super) fn association_of(&self, id: SocketId, scope: Scope) -> Result<AssociationId, Errno> {
        let socket = self.sockets.get(&id).ok_or(Errno::BadSocket)?;
        if let Some((association, _)) = socket.single() {
            return Ok(association);
        }
        match scope {
            Scope::One(association) if socket.associations.contains_key(&association) => Ok(association),
            Scope::One(_) => Err(Errno::NoAssociation),
            _ => Err(Errno::Invalid),
        }
    }

    /// `getsockopt()`, `sctp_opt_info()`.
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// # let (mut pair, client, server) = SocketPair::connected(&Config::default());
    /// # let _ = server;
    /// let SocketOption::Status(status) = pair.a.option(client, Scope::Current, OptionName::Status)? else { panic!() };
    /// assert_eq!(status.primary.address, address(Side::B, 0).ip());
    /// assert_eq!(status.unacknowledged, 0);
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::BadSocket`], [`Errno::NoAssociation`], [`Errno::Invalid`] when the option needs an
    /// association and the scope names none.
    pub fn option(&mut self, id: SocketId, scope: Scope, name: OptionName) -> Result<SocketOption, Errno> {
        if name == OptionName::Error {
            return Ok(SocketOption::Error(self.socket_at(id)?.error.take()));
        }
        let association = self.association_of(id, scope).ok();
        if matches!(scope, Scope::One(_)) && association.is_none() {
            return Err(Errno::NoAssociation);
        }
        let socket = self.sockets.get(&id).ok_or(Errno::BadSocket)?;
        let config = association.and_then(|a| self.endpoint.config_of(a)).unwrap_or(&socket.config);
        let settings = &socket.settings;
        let mut info = association.and_then(|a| self.endpoint.info(a));
        if let Some(info) = &mut info {
            // RFC 5061 §4.2.2: what the peer has taken away is none of its addresses any more.
            info.paths.retain(|path| !path.removed);
        }
        Ok(match name {
            OptionName::RtoInfo => SocketOption::RtoInfo(RtoInfo {
                initial: Some(config.rto_initial),
                max: Some(config.rto_max),
                min: Some(config.rto_min),
            }),
            OptionName::AssocInfo => SocketOption::AssocInfo(AssocInfo {
                max_retrans: Some(config.assoc_max_retrans),
                peer_destinations: info.as_ref().map_or(0, |info| info.paths.len() as u16),
                peer_rwnd: info.as_ref().map_or(0, |info| info.peer_rwnd),
                local_rwnd: config.rcvbuf,
                cookie_life: Some(config.cookie_life),
            }),
            OptionName::InitMsg => SocketOption::InitMsg(InitMsg {
                outbound: Some(config.streams),
                inbound: Some(config.inbound_streams()),
                attempts: Some(config.init_max_retrans),
                max_timeout: Some(settings.max_init_timeout.unwrap_or(config.rto_max)),
            }),
            OptionName::Linger => SocketOption::Linger(settings.abort_on_close.then_some(0)),
            OptionName::NoDelay => SocketOption::NoDelay(!config.nagle),
            OptionName::ReceiveBuffer => SocketOption::ReceiveBuffer(config.rcvbuf),
            OptionName::SendBuffer => SocketOption::SendBuffer(config.sndbuf),
            OptionName::Autoclose => SocketOption::Autoclose(settings.autoclose),
            OptionName::PrimaryAddress => {
                let info = info.ok_or(Errno::NoAssociation)?;
                let primary = info.paths.iter().find(|path| path.primary).ok_or(Errno::NoAssociation)?;
                SocketOption::PrimaryAddress(primary.address)
            }
            OptionName::DisableFragments => SocketOption::DisableFragments(settings.no_fragments),
            OptionName::PeerAddrParams(address) => SocketOption::PeerAddrParams(PeerAddrParams {
                address,
                heartbeats: Some(config.hb_interval.is_some()),
                interval: config.hb_interval,
                max_retrans: Some(config.path_max_retrans),
                mtu: info.and_then(|info| {
                    let chosen = info.paths.iter().find(|path| address.is_none_or(|a| a == path.address));
                    chosen.map(|path| path.mtu)
                }),
            }),
            OptionName::Event(kind) => SocketOption::Event(kind, settings.events.has(kind)),
            OptionName::Events => SocketOption::Events(settings.events),
            OptionName::MaxSegment => SocketOption::MaxSegment(config.mss),
            OptionName::DelayedSack => SocketOption::DelayedSack(DelayedSack {
                delay: Some(config.delack),
                every: Some(config.ack_every),
            }),
            OptionName::FragmentInterleave => SocketOption::FragmentInterleave(settings.fragment_interleave),
            OptionName::PartialDeliveryPoint => SocketOption::PartialDeliveryPoint(config.partial_delivery),
            OptionName::MaxBurst => SocketOption::MaxBurst(config.max_burst),
            OptionName::Context => SocketOption::Context(settings.context),
            OptionName::ReusePort => SocketOption::ReusePort(settings.reuse_port),
            OptionName::RecvRcvInfo => SocketOption::RecvRcvInfo(settings.recv_rcvinfo),
            OptionName::RecvNxtInfo => SocketOption::RecvNxtInfo(settings.recv_nxtinfo),
            OptionName::DefaultSndInfo => SocketOption::DefaultSndInfo(settings.default_snd),
            OptionName::DefaultPrInfo => SocketOption::DefaultPrInfo(settings.default_pr),
            OptionName::StreamScheduler => SocketOption::StreamScheduler(config.scheduler),
            OptionName::Supported(extension) => SocketOption::Supported(extension, extension.is_on(config)),
            OptionName::PeerAddrThresholds => SocketOption::PeerAddrThresholds(PeerAddrThresholds {
                max_retrans: Some(config.path_max_retrans),
                potentially_failed: config.pf_max_retrans,
                switchover: config.primary_switch,
            }),
            OptionName::HmacIdents => SocketOption::HmacIdents(config.auth_hmac),
            OptionName::LocalAuthChunks => SocketOption::LocalAuthChunks(config.auth_chunks),
            OptionName::Adaptation => SocketOption::Adaptation(config.adaptation),
            OptionName::Status => {
                let association = association.ok_or(Errno::Invalid)?;
                let info = info.ok_or(Errno::NotConnected)?;
                let primary = info.paths.iter().find(|path| path.primary).ok_or(Errno::NotConnected)?;
                SocketOption::Status(Status {
                    association,
                    state: info.state,
                    peer_rwnd: info.peer_rwnd,
                    unacknowledged: info.outstanding,
                    inbound_streams: info.inbound_streams,
                    outbound_streams: info.outbound_streams,
                    fragmentation_point: self.endpoint.fragment_size(association),
                    primary: primary.into(),
                })
            }
            OptionName::PeerAddrInfo(address) => {
                let info = info.ok_or(Errno::Invalid)?;
                let path = info.paths.iter().find(|path| path.address == address).ok_or(Errno::Invalid)?;
                SocketOption::PeerAddrInfo(path.into())
            }
            OptionName::AssociationCount => SocketOption::AssociationCount(socket.associations.len()),
            OptionName::Error => SocketOption::Error(None),
        })
    }
}

/// Carries the value of an option over to the knobs behind it.
fn apply(option: &SocketOption, config: &mut Config) -> Result<(), Errno> {
    match *option {
        SocketOption::RtoInfo(rto) => {
            let (initial, max, min) = (
                rto.initial.unwrap_or(config.rto_initial),
                rto.max.unwrap_or(config.rto_max),
                rto.min.unwrap_or(config.rto_min),
            );
            if min > max || initial > max || min.is_zero() || initial.is_zero() {
                return Err(Errno::Invalid);
            }
            (config.rto_initial, config.rto_max, config.rto_min) = (initial, max, min);
        }
        SocketOption::AssocInfo(info) => {
            config.assoc_max_retrans = info.max_retrans.unwrap_or(config.assoc_max_retrans);
            config.cookie_life = info.cookie_life.unwrap_or(config.cookie_life);
        }
        SocketOption::InitMsg(init) => {
            if init.outbound == Some(0) || init.inbound == Some(0) {
                return Err(Errno::Invalid);
            }
            // What is not asked for here stays as it was, not as the other direction is.
            let inbound = init.inbound.unwrap_or(config.inbound_streams());
            config.streams = init.outbound.unwrap_or(config.streams);
            config.inbound = Some(inbound);
            config.init_max_retrans = init.attempts.unwrap_or(config.init_max_retrans);
        }
        SocketOption::NoDelay(on) => config.nagle = !on,
        SocketOption::ReceiveBuffer(bytes) => config.rcvbuf = bytes.clamp(1500, 1 << 30),
        SocketOption::SendBuffer(bytes) => config.sndbuf = bytes.clamp(1500, 1 << 30),
        SocketOption::PeerAddrParams(params) => {
            if params.mtu.is_some() {
                return Err(Errno::NotSupported);
            }
            config.path_max_retrans = params.max_retrans.unwrap_or(config.path_max_retrans);
            /// RFC 9260 §16: HB.interval, when heartbeats come back and nobody says how often.
            const USUAL: Duration = Duration::from_secs(30);
            match (params.heartbeats, params.interval) {
                (Some(false), _) => config.hb_interval = None,
                (_, Some(interval)) => config.hb_interval = Some(interval),
                (Some(true), None) => config.hb_interval = config.hb_interval.or(Some(USUAL)),
                (None, None) => {}
            }
        }
        SocketOption::MaxSegment(bytes) => {
            if bytes.is_some_and(|bytes| !(64..=65_000).contains(&bytes)) {
                return Err(Errno::Invalid);
            }
            config.mss = bytes;
        }
        SocketOption::DelayedSack(sack) => {
            // RFC 9260 §6.2: never more than 500 ms.
            if sack.delay.is_some_and(|delay| delay > Duration::from_millis(500)) || sack.every == Some(0) {
                return Err(Errno::Invalid);
            }
            config.delack = sack.delay.unwrap_or(config.delack);
            config.ack_every = sack.every.unwrap_or(config.ack_every);
        }
        SocketOption::PartialDeliveryPoint(bytes) => config.partial_delivery = bytes,
        SocketOption::MaxBurst(packets) => config.max_burst = packets.filter(|&packets| packets > 0),
        SocketOption::StreamScheduler(kind) => config.scheduler = kind,
        _ => return extensions::apply(option, config),
    }
    Ok(())
}
