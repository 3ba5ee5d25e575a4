//! Sets and reads socket options: `setsockopt` and `getsockopt`.
//!
//! The options themselves are in the module `option`. Many options change settings of the engine, which are in the
//! module `config`.
//!
//! Implements RFC 6458 §7 (the associations to which an option applies).

use super::extensions::{self, PeerAddrThresholds};
use super::option::{
    AssocInfo, DelayedSack, InitMsg, OptionName, PeerAddrParams, RtoInfo, Scope, SocketOption, Status,
};
use super::{Errno, EventKind, SocketId, Sockets, Style};
use crate::config::Config;
use crate::id::AssociationId;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use std::net::IpAddr;

impl Sockets {
    /// `setsockopt()`: sets an option for the associations in `scope`.
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
    /// [`Errno::BadSocket`] if the socket does not exist. [`Errno::NoAssociation`] if the association does not exist.
    /// [`Errno::Invalid`] for an invalid value or scope. [`Errno::NotSupported`] for an option that is read only or
    /// does not exist for sockets of this style.
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
            SocketOption::Linger(seconds) => settings.linger = seconds,
            // RFC 6458 §8.1.8: autoclose exists for one-to-many sockets only.
            SocketOption::Autoclose(_) if socket.style == Style::OneToOne => return Err(Errno::NotSupported),
            SocketOption::Autoclose(span) => {
                settings.autoclose = span.filter(|span| !span.is_zero());
                for member in socket.associations.values_mut() {
                    member.used_at = now;
                }
            }
            SocketOption::DisableFragments(on) => settings.no_fragments = on,
            SocketOption::Event(kind, on) => {
                settings.events.set(kind, on);
                if on {
                    // RFC 6458 §6.1.10: a subscription to any other notification includes the notification `Stopped`.
                    settings.events.set(EventKind::Stopped, true);
                }
                if kind == EventKind::SenderDry && on {
                    // RFC 6458 §6.1.9: mark every association as busy. If all its sent data is already acknowledged,
                    // the socket is notified at once.
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
            | SocketOption::PeerAuthChunks(_)
            | SocketOption::ActiveKey(_)
            | SocketOption::Error(_) => return Err(Errno::NotSupported),
            knob => return self.set_knob(now, id, scope, &knob),
        }
        Ok(())
    }

    /// Sets an option that is a setting of the engine.
    fn set_knob(
        &mut self,
        now: Instant,
        id: SocketId,
        scope: Scope,
        option: &SocketOption,
    ) -> Result<(), Errno> {
        let socket = self.socket_at(id)?;
        // The socket's settings apply to future associations. They may differ from the settings of the existing
        // associations, so the option is also checked against the settings of each association.
        let of_some = matches!(scope, Scope::One(_) | Scope::Current);
        let mut changed = socket.config.clone();
        let possible = apply(option, &mut changed);
        if !of_some {
            possible?;
        }
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
        // Extensions that the handshake has negotiated do not change (for example RFC 6525 §6.3.1).
        let settled = matches!(option, SocketOption::Supported(..));
        if !settled {
            for config in targets.iter().filter_map(|&association| self.endpoint.config_of(association)) {
                apply(option, &mut config.clone())?;
            }
        }
        if !of_some {
            let socket = self.socket_at(id)?;
            socket.config = changed.clone();
            if socket.backlog.is_some() {
                let port = socket.port;
                self.endpoint.close_listener(port);
                self.endpoint.listen_with(port, changed).map_err(|_| Errno::AddressInUse)?;
            }
        }
        for association in targets.into_iter().filter(|_| !settled) {
            self.endpoint.tune(now, association, |config| {
                // `apply` cannot fail here: the option was checked above, against these settings.
                let _ = apply(option, config);
            });
            if let SocketOption::PeerAddrParams(PeerAddrParams { address, demand: true, .. }) = *option {
                self.endpoint.request_heartbeats(now, association, address);
            }
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
        let path = self.path_of(association, address)?;
        self.endpoint.set_primary(now, association, path).map_err(|_| Errno::Invalid)
    }

    /// Returns the one association to which an option applies.
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

    /// Returns the index of the path to an address of the peer, unless the peer has deleted that address.
    pub(super) fn path_of(&self, association: AssociationId, address: IpAddr) -> Result<usize, Errno> {
        let info = self.endpoint.info(association).ok_or(Errno::NoAssociation)?;
        let path = info.paths.iter().position(|path| path.address == address && !path.removed);
        path.ok_or(Errno::Invalid)
    }

    /// `getsockopt()`, `sctp_opt_info()`: returns the value of an option.
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
    /// [`Errno::BadSocket`] if the socket does not exist. [`Errno::NoAssociation`] or [`Errno::NotConnected`] if the
    /// association does not exist. [`Errno::Invalid`] if the option needs an association and the scope names none, or
    /// if the peer does not have the given address. [`Errno::NotSupported`] if the socket or the association does not
    /// have the option.
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
            // RFC 5061 §4.2.2: a deleted address no longer belongs to the peer.
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
                num_ostreams: Some(config.num_ostreams),
                max_instreams: Some(config.inbound_streams()),
                attempts: Some(config.init_max_retrans),
                max_timeout: Some(config.init_rto_max.unwrap_or(config.rto_max)),
            }),
            OptionName::Linger => SocketOption::Linger(settings.linger),
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
                demand: false,
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
            // RFC 6458 §8.2.4: returns the chunk types that this side tells the peer to authenticate. With dynamic
            // addresses, they include ASCONF (RFC 5061 §4.1).
            OptionName::LocalAuthChunks => SocketOption::LocalAuthChunks(config.guarded_chunks()),
            OptionName::PeerAuthChunks => {
                let association = association.ok_or(Errno::Invalid)?;
                SocketOption::PeerAuthChunks(self.endpoint.peer_auth_chunks(association))
            }
            OptionName::ActiveKey => {
                SocketOption::ActiveKey(self.endpoint.active_key(association).ok_or(Errno::NotSupported)?)
            }
            OptionName::Adaptation => SocketOption::Adaptation(config.adaptation),
            OptionName::EnableStreamReset => SocketOption::EnableStreamReset(config.reconfig_requests),
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
            // RFC 6458 §8.2.5: one-to-one sockets do not have this option.
            OptionName::AssociationCount if socket.style == Style::OneToOne => {
                return Err(Errno::NotSupported);
            }
            OptionName::AssociationCount => SocketOption::AssociationCount(socket.associations.len()),
            OptionName::Error => SocketOption::Error(None),
        })
    }
}

/// Applies the option to `config`.
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
            if init.num_ostreams == Some(0) || init.max_instreams == Some(0) {
                return Err(Errno::Invalid);
            }
            // If `max_instreams` is `None`, the number of inbound streams stays the same. It must be stored before
            // `num_ostreams` changes, because it may derive from `num_ostreams`.
            let inbound = init.max_instreams.unwrap_or(config.inbound_streams());
            config.num_ostreams = init.num_ostreams.unwrap_or(config.num_ostreams);
            config.max_instreams = Some(inbound);
            config.init_max_retrans = init.attempts.unwrap_or(config.init_max_retrans);
            config.init_rto_max = init.max_timeout.or(config.init_rto_max);
        }
        SocketOption::NoDelay(on) => config.nagle = !on,
        SocketOption::ReceiveBuffer(bytes) => config.rcvbuf = bytes.clamp(1500, 1 << 30),
        SocketOption::SendBuffer(bytes) => config.sndbuf = bytes.clamp(1500, 1 << 30),
        SocketOption::PeerAddrParams(params) => {
            if params.mtu.is_some() {
                return Err(Errno::NotSupported);
            }
            config.path_max_retrans = params.max_retrans.unwrap_or(config.path_max_retrans);
            /// RFC 9260 §16: the value of HB.interval that is used if heartbeats are turned on without an interval.
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
            // RFC 9260 §6.2: a SACK must not be delayed by more than 500 ms.
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
