//! Socket options of SCTP extensions.
//!
//! Implements the socket options of these sections:
//! - RFC 6458 §8.1.17, §8.1.18 and §8.3: AUTH
//! - RFC 5061 §4.2.6: adaptation
//! - RFC 6525 §6.3: re-configuration
//! - RFC 6951 §6: UDP ports
//! - RFC 7829 §7.2: thresholds
//! - RFC 8260 §4.3: schedulers
//! - RFC 9653 §8: checksums

use super::{Errno, Scope, SocketId, SocketOption, Sockets};
use crate::config::Config;
use crate::error::{AddressError, KeyError, ResetError};
use crate::event::Direction;
use crate::id::AssociationId;
use crate::reliability::{Abandoned, Policy};
use anabranch_base::Instant;
use std::net::IpAddr;

/// An extension that INIT and INIT ACK negotiate, and that a socket option turns on or off.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Extension {
    /// `SCTP_ECN_SUPPORTED` (RFC 4960 Appendix A).
    Ecn,
    /// `SCTP_PR_SUPPORTED` (RFC 7496 §4.5).
    PartialReliability,
    /// `SCTP_INTERLEAVING_SUPPORTED` (RFC 8260 §4.3.1).
    Interleaving,
    /// `SCTP_AUTH_SUPPORTED` (RFC 4895).
    Auth,
    /// `SCTP_ASCONF_SUPPORTED` (RFC 5061).
    Asconf,
    /// `SCTP_RECONFIG_SUPPORTED` (RFC 6525).
    Reconfig,
    /// `SCTP_ACCEPT_ZERO_CHECKSUM` (RFC 9653 §8.1). The option applies to packets of the socket's associations. For
    /// packets that belong to no association, the endpoint's configuration decides whether the checksum may be absent.
    ZeroChecksum,
}

/// The thresholds for the error count of a destination (RFC 7829 §7.2, `SCTP_PEER_ADDR_THLDS_V2`). They decide when the
/// destination counts as potentially failed, when it counts as failed, and when another destination becomes primary.
/// The engine keeps one set of these thresholds per association.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct PeerAddrThresholds {
    /// The value of Path.Max.Retrans; `None` leaves it unchanged.
    pub max_retrans: Option<u32>,
    /// The value of PotentiallyFailed.Max.Retrans; `None` turns the potentially failed state off.
    pub potentially_failed: Option<u32>,
    /// The value of Primary.Switchover.Max.Retrans; with `None`, data returns to the old primary path as soon as that
    /// path answers.
    pub switchover: Option<u32>,
}

/// A re-configuration request for incoming or outgoing streams (RFC 6525 §6.3).
///
/// ```
/// use anabranch_base::{Instant, Rng};
/// use anabranch_sctp::socket::{Errno, Extension, Scope, SocketOption, Sockets, StreamRequest, Style};
/// use anabranch_sctp::{Config, Direction, Endpoint};
///
/// let address = std::net::SocketAddr::from(([10, 0, 0, 1], 0));
/// let mut sockets = Sockets::new(Endpoint::new(Config::default(), vec![address], Rng::new(1)));
/// let id = sockets.socket(Style::OneToOne);
/// let speak = SocketOption::Supported(Extension::Reconfig, true);
/// sockets.set_option(Instant::ZERO, id, Scope::Future, speak)?;
/// // Later, on an association: streams 1 and 2 begin anew.
/// let anew = StreamRequest::Reset(Direction::Outgoing, vec![1, 2]);
/// let asked = sockets.request_streams(Instant::ZERO, id, Scope::Current, &anew);
/// assert_eq!(asked, Err(Errno::Invalid), "there is no association yet");
/// # Ok::<(), Errno>(())
/// ```
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StreamRequest {
    /// `SCTP_RESET_STREAMS`: resets these streams in this direction. An empty list stands for all streams.
    Reset(Direction, Vec<u16>),
    /// `SCTP_RESET_ASSOC`: resets all TSNs and SSNs.
    ResetAssociation,
    /// `SCTP_ADD_STREAMS`: adds streams.
    Add {
        /// Number of outbound streams to add. This side sends on outbound streams.
        outbound: u16,
        /// Number of inbound streams to add. The peer sends on inbound streams.
        inbound: u16,
    },
}

/// A change of the shared keys (RFC 6458 §8.1.17, §8.1.18, §8.3.3 to §8.3.5).
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum KeyRequest {
    /// `SCTP_AUTH_KEY`: sets the secret of this key identifier.
    Set(u16, Vec<u8>),
    /// `SCTP_AUTH_ACTIVE_KEY`: signs with this key.
    Activate(u16),
    /// `SCTP_AUTH_DEACTIVATE_KEY`: stops signing with this key.
    Deactivate(u16),
    /// `SCTP_AUTH_DELETE_KEY`: deletes this key.
    Delete(u16),
}

impl Extension {
    /// Returns whether a configuration allows the extension.
    pub(super) fn is_on(self, config: &Config) -> bool {
        match self {
            Self::Ecn => config.ecn,
            Self::PartialReliability => config.partial_reliability,
            Self::Interleaving => config.interleaving,
            Self::Auth => config.auth,
            Self::Asconf => config.asconf,
            Self::Reconfig => config.reconfig,
            Self::ZeroChecksum => config.zero_checksum,
        }
    }

    fn switch(self, config: &mut Config, on: bool) {
        let field = match self {
            Self::Ecn => &mut config.ecn,
            Self::PartialReliability => &mut config.partial_reliability,
            Self::Interleaving => &mut config.interleaving,
            Self::Auth => &mut config.auth,
            Self::Asconf => &mut config.asconf,
            Self::Reconfig => &mut config.reconfig,
            Self::ZeroChecksum => &mut config.zero_checksum,
        };
        *field = on;
    }
}

/// Applies the socket option of an extension to `config`.
pub(super) fn apply(option: &SocketOption, config: &mut Config) -> Result<(), Errno> {
    match *option {
        SocketOption::Supported(extension, on) => extension.switch(config, on),
        SocketOption::PeerAddrThresholds(thresholds) => {
            let most = thresholds.max_retrans.unwrap_or(config.path_max_retrans);
            // RFC 7829 §7.2: a path must become potentially failed before it fails.
            if thresholds.potentially_failed.is_some_and(|pf| pf > most) {
                return Err(Errno::Invalid);
            }
            config.path_max_retrans = most;
            config.pf_max_retrans = thresholds.potentially_failed;
            config.primary_switch = thresholds.switchover;
        }
        SocketOption::HmacIdents(hmacs) => config.auth_hmac = hmacs,
        SocketOption::AuthChunk(kind) => {
            let before = config.auth_chunks;
            config.auth_chunks.insert(kind);
            // RFC 6458 §8.3.2: INIT, INIT ACK, SHUTDOWN COMPLETE and AUTH cannot be listed.
            if before == config.auth_chunks && !before.has(kind) {
                return Err(Errno::Invalid);
            }
        }
        SocketOption::Adaptation(code) => config.adaptation = code,
        SocketOption::EnableStreamReset(granted) => config.reconfig_requests = granted,
        _ => return Err(Errno::NotSupported),
    }
    Ok(())
}

impl Sockets {
    /// `SCTP_RESET_STREAMS`, `SCTP_RESET_ASSOC` and `SCTP_ADD_STREAMS` (RFC 6525 §6.3): sends the request to the
    /// peer. A notification reports the result.
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// let mut config = Config::default();
    /// config.set("reconfig", "yes")?;
    /// let (mut pair, client, _) = SocketPair::connected(&config);
    /// let streams = |sockets: &mut Sockets| match sockets.option(client, Scope::Current, OptionName::Status) {
    ///     Ok(SocketOption::Status(status)) => status.outbound_streams,
    ///     other => panic!("{other:?}"),
    /// };
    /// let before = streams(&mut pair.a);
    /// let more = StreamRequest::Add { outbound: 5, inbound: 0 };
    /// pair.a.request_streams(pair.now, client, Scope::Current, &more)?;
    /// pair.settle();
    /// assert_eq!(streams(&mut pair.a), before + 5);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`Errno::NotSupported`]: RE-CONFIG was not negotiated.
    /// - [`Errno::Invalid`]: a stream does not exist, there are too many streams, or `scope` does not stand for a
    ///   single association.
    /// - [`Errno::Already`]: another request is pending.
    /// - [`Errno::NotConnected`]: the association is not established.
    /// - [`Errno::NoAssociation`]: there is no such association.
    /// - [`Errno::BadSocket`]: there is no such socket.
    pub fn request_streams(
        &mut self,
        now: Instant,
        id: SocketId,
        scope: Scope,
        request: &StreamRequest,
    ) -> Result<(), Errno> {
        let association = self.association_of(id, scope)?;
        let result = match request {
            StreamRequest::Reset(direction, streams) => {
                self.endpoint.reset_streams(now, association, *direction, streams)
            }
            StreamRequest::ResetAssociation => self.endpoint.reset_association(now, association),
            StreamRequest::Add { outbound, inbound } => {
                self.endpoint.add_streams(now, association, *outbound, *inbound)
            }
        };
        self.take_events(now);
        result.map_err(|error| match error {
            ResetError::Unsupported => Errno::NotSupported,
            ResetError::NoSuchStream | ResetError::TooManyStreams => Errno::Invalid,
            ResetError::Busy => Errno::Already,
            ResetError::Closing => Errno::NotConnected,
            ResetError::Unknown => Errno::NoAssociation,
        })
    }

    /// `SCTP_AUTH_KEY` and the other options for shared keys: changes the keys of an association, or of future
    /// associations. The keys of future associations belong to the endpoint, so such a change concerns all its sockets.
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// # let mut config = Config::default();
    /// # config.set("auth", "yes")?;
    /// # config.set("auth_chunks", "data")?;
    /// # let (mut pair, client, server) = SocketPair::connected(&config);
    /// for (sockets, id) in [(&mut pair.a, client), (&mut pair.b, server)] {
    ///     let set = KeyRequest::Set(1, b"secret".to_vec());
    ///     sockets.request_key(pair.now, id, Scope::Current, &set)?;
    /// }
    /// pair.a.request_key(pair.now, client, Scope::Current, &KeyRequest::Activate(1))?;
    /// pair.a.send(pair.now, client, b"signed", SndInfo::default())?;
    /// pair.settle();
    /// assert!(matches!(pair.b.recv(pair.now, server, &mut [0; 100])?, Incoming::Data { bytes: 6, .. }));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// - [`Errno::Invalid`]: the key does not exist, there are too many keys, or the active key cannot be removed.
    /// - [`Errno::Invalid`]: `scope` names no association, but the request needs one.
    /// - [`Errno::NotSupported`]: the association does not use AUTH.
    /// - [`Errno::NoAssociation`]: there is no such association.
    /// - [`Errno::BadSocket`]: there is no such socket.
    pub fn request_key(
        &mut self,
        now: Instant,
        id: SocketId,
        scope: Scope,
        request: &KeyRequest,
    ) -> Result<(), Errno> {
        let association: Option<AssociationId> = match (self.association_of(id, scope), scope) {
            (Ok(association), _) => Some(association),
            (Err(Errno::Invalid), Scope::Future | Scope::All) => None,
            (Err(error), _) => return Err(error),
        };
        let done = match request {
            KeyRequest::Set(key, secret) => self.endpoint.set_key(association, *key, secret),
            KeyRequest::Activate(key) => self.endpoint.activate_key(association, *key),
            KeyRequest::Deactivate(key) => {
                let association = association.ok_or(Errno::Invalid)?;
                self.endpoint.deactivate_key(now, association, *key)
            }
            KeyRequest::Delete(key) => self.endpoint.delete_key(association, *key),
        };
        self.take_events(now);
        done.map_err(|error| match error {
            KeyError::NotAuthenticated => Errno::NotSupported,
            KeyError::Unknown => Errno::NoAssociation,
            _ => Errno::Invalid,
        })
    }

    /// `SCTP_STREAM_SCHEDULER_VALUE` (RFC 8260 §4.3.3): sets a stream's priority or weight.
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config, SchedulerKind};
    /// # let (mut pair, client, server) = SocketPair::connected(&Config::default());
    /// let by_priority = SocketOption::StreamScheduler(SchedulerKind::Priority);
    /// pair.a.set_option(pair.now, client, Scope::Current, by_priority)?;
    /// pair.a.set_stream_value(pair.now, client, Scope::Current, 1, 10)?;
    /// for stream in [1, 2] {
    ///     pair.a.send(pair.now, client, b"hello", SndInfo { stream, ..SndInfo::default() })?;
    /// }
    /// pair.settle();
    /// let Incoming::Data { info, .. } = pair.b.recv(pair.now, server, &mut [0; 100])? else { panic!() };
    /// assert_eq!(info.stream, 2, "it has priority 0");
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::Invalid`] for a stream that does not exist, [`Errno::NoAssociation`],
    /// [`Errno::BadSocket`].
    pub fn set_stream_value(
        &mut self,
        now: Instant,
        id: SocketId,
        scope: Scope,
        stream: u16,
        value: u16,
    ) -> Result<(), Errno> {
        let association = self.association_of(id, scope)?;
        self.endpoint.set_stream_value(now, association, stream, value).map_err(|_| Errno::Invalid)
    }

    /// `SCTP_REMOTE_UDP_ENCAPS_PORT` (RFC 6951 §6.1): sets the UDP port for packets to an address of the peer. Port 0
    /// stands for no encapsulation. For future associations, the port is part of the peer's address in
    /// [`connect`](Self::connect).
    ///
    /// ```
    /// # use anabranch_base::{Engine, SendBatch};
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// # let (mut pair, client, server) = SocketPair::connected(&Config::default());
    /// # let _ = server;
    /// let peer = address(Side::B, 0).ip();
    /// pair.a.set_remote_udp_port(pair.now, client, Scope::Current, peer, 9_899)?;
    /// pair.a.send(pair.now, client, b"hello", SndInfo::default())?;
    /// let mut batch = SendBatch::new(1);
    /// assert!(pair.a.poll_transmit(pair.now, &mut batch) && batch.target.port() == 9_899);
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::Invalid`] for an address that is not the peer's, [`Errno::NoAssociation`],
    /// [`Errno::BadSocket`].
    pub fn set_remote_udp_port(
        &mut self,
        now: Instant,
        id: SocketId,
        scope: Scope,
        address: IpAddr,
        port: u16,
    ) -> Result<(), Errno> {
        let association = self.association_of(id, scope)?;
        let path = self.path_of(association, address)?;
        self.endpoint.set_encapsulation_port(now, association, path, port).map_err(|_| Errno::Invalid)
    }

    /// `sctp_bindx()` on an association with dynamic addresses (RFC 6458 §9.1, RFC 5061). If `wanted`, adds a local
    /// address of the endpoint to the association, otherwise removes the address. The peer is informed.
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// let mut config = Config::default();
    /// config.set("auth", "yes")?;
    /// config.set("asconf", "yes")?;
    /// let (mut pair, client, server) = SocketPair::connected(&config);
    /// let second = address(Side::A, 1).ip();
    /// pair.a.use_address(pair.now, client, Scope::Current, second, false)?;
    /// pair.settle();
    /// let SocketOption::AssocInfo(info) = pair.b.option(server, Scope::Current, OptionName::AssocInfo)? else {
    /// panic!() }; assert_eq!(info.peer_destinations, 1, "the peer knows one address less");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::NotSupported`] if the addresses of the association are fixed, [`Errno::NoAssociation`],
    /// [`Errno::BadSocket`].
    pub fn use_address(
        &mut self,
        now: Instant,
        id: SocketId,
        scope: Scope,
        address: IpAddr,
        wanted: bool,
    ) -> Result<(), Errno> {
        let association = self.association_of(id, scope)?;
        let done = self.endpoint.use_address(now, association, address, wanted);
        self.take_events(now);
        done.map_err(address_error)
    }

    /// `SCTP_SET_PEER_PRIMARY_ADDR` (RFC 6458 §8.3.1): asks the peer to use this local address as its primary
    /// destination.
    ///
    /// ```
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// let mut config = Config::default();
    /// config.set("auth", "yes")?;
    /// config.set("asconf", "yes")?;
    /// let (mut pair, client, server) = SocketPair::connected(&config);
    /// let second = address(Side::A, 1).ip();
    /// pair.a.set_peer_primary(pair.now, client, Scope::Current, second)?;
    /// pair.settle();
    /// let primary = pair.b.option(server, Scope::Current, OptionName::PrimaryAddress)?;
    /// assert_eq!(primary, SocketOption::PrimaryAddress(second));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The errors of [`use_address`](Self::use_address).
    pub fn set_peer_primary(
        &mut self,
        now: Instant,
        id: SocketId,
        scope: Scope,
        address: IpAddr,
    ) -> Result<(), Errno> {
        let association = self.association_of(id, scope)?;
        let done = self.endpoint.set_peer_primary(now, association, address);
        self.take_events(now);
        done.map_err(address_error)
    }

    /// `SCTP_PR_ASSOC_STATUS` and `SCTP_PR_STREAM_STATUS` (RFC 7496 §4.3, §4.4): returns the number of messages
    /// abandoned on `stream` by `policy`. `None` stands for all streams or all policies.
    ///
    /// ```
    /// # use anabranch_base::{time::Duration, Engine};
    /// # use anabranch_sctp::{socket::*, testing::*, Config};
    /// # let (mut pair, client, server) = SocketPair::connected(&Config::default());
    /// # let _ = server;
    /// let info = SendInfo { pr: PrInfo::Lifetime(50), ..SendInfo::default() };
    /// pair.a.send(pair.now, client, b"too late", info)?;
    /// pair.now += Duration::from_millis(100);
    /// pair.a.handle_timeout(pair.now);
    /// assert_eq!(pair.a.abandoned(client, Scope::Current, None, None)?.unsent, 1);
    /// # Ok::<(), Errno>(())
    /// ```
    ///
    /// # Errors
    /// [`Errno::NoAssociation`], [`Errno::Invalid`], [`Errno::BadSocket`].
    pub fn abandoned(
        &self,
        id: SocketId,
        scope: Scope,
        stream: Option<u16>,
        policy: Option<Policy>,
    ) -> Result<Abandoned, Errno> {
        let association = self.association_of(id, scope)?;
        self.endpoint.abandoned(association, stream, policy).ok_or(Errno::NoAssociation)
    }
}

fn address_error(error: AddressError) -> Errno {
    match error {
        AddressError::Unknown => Errno::NoAssociation,
        AddressError::NotDynamic => Errno::NotSupported,
    }
}
