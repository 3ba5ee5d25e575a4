//! Socket options of a script as options of the engine's sockets.
//!
//! Home of RFC 6458 §8 as the socket API's structures spell it.

use crate::calls::{Args, Stop, differs, millis, socket_address, unboxed, wrong};
use crate::constants::number;
use crate::run::Machine;
use crate::script::Value;
use anabranch_base::time::Duration;
use anabranch_sctp::socket::{
    AssocInfo, DelayedSack, EventKind, Extension, Fragmented, InitMsg, KeyRequest, OptionName, PeerAddrInfo,
    PeerAddrParams, RtoInfo, Scope, SndInfo, SocketOption, StreamRequest,
};
use anabranch_sctp::{AssociationState, Direction, PathState};

/// The event types that scripts subscribe by `SCTP_EVENT`.
const EVENTS: &[(&str, EventKind)] = &[
    ("SCTP_ASSOC_CHANGE", EventKind::AssociationChange),
    ("SCTP_PEER_ADDR_CHANGE", EventKind::PeerAddressChange),
    ("SCTP_REMOTE_ERROR", EventKind::RemoteError),
    ("SCTP_SEND_FAILED_EVENT", EventKind::SendFailed),
    ("SCTP_SHUTDOWN_EVENT", EventKind::Shutdown),
    ("SCTP_ADAPTATION_INDICATION", EventKind::Adaptation),
    ("SCTP_PARTIAL_DELIVERY_EVENT", EventKind::PartialDelivery),
    ("SCTP_AUTHENTICATION_EVENT", EventKind::Authentication),
    ("SCTP_SENDER_DRY_EVENT", EventKind::SenderDry),
    ("SCTP_STREAM_RESET_EVENT", EventKind::StreamReset),
    ("SCTP_ASSOC_RESET_EVENT", EventKind::AssociationReset),
    ("SCTP_STREAM_CHANGE_EVENT", EventKind::StreamChange),
];

fn event(value: &Value) -> Result<EventKind, Stop> {
    let known = EVENTS.iter().find(|(name, _)| matches!(value, Value::Word(word) if word == name));
    known.map(|(_, kind)| *kind).ok_or_else(|| Stop::Wrong(format!("{value} is no event")))
}

fn supported(name: &str) -> Option<Extension> {
    Some(match name {
        "SCTP_ECN_SUPPORTED" => Extension::Ecn,
        "SCTP_PR_SUPPORTED" => Extension::PartialReliability,
        "SCTP_INTERLEAVING_SUPPORTED" => Extension::Interleaving,
        "SCTP_AUTH_SUPPORTED" => Extension::Auth,
        "SCTP_ASCONF_SUPPORTED" => Extension::Asconf,
        "SCTP_RECONFIG_SUPPORTED" => Extension::Reconfig,
        "SCTP_ACCEPT_ZERO_CHECKSUM" => Extension::ZeroChecksum,
        _ => return None,
    })
}

fn name(value: &Value) -> Result<&str, Stop> {
    match value {
        Value::Word(word) => Ok(word),
        other => wrong(format!("{other} is no option")),
    }
}

impl Machine {
    pub(crate) fn call_setsockopt(&mut self, args: Args<'_>) -> Result<i64, Stop> {
        let socket = self.socket_of(args)?;
        let value = args.at(3)?;
        let name = name(args.at(2)?)?;
        if self.request(args, name, value)? {
            return Ok(0);
        }
        let Some((scope, option)) = self.option_of(name, value)? else {
            return Ok(0);
        };
        self.sockets.set_option(self.now, socket, scope, option)?;
        Ok(0)
    }

    /// Options that ask for something instead of setting it; false for others.
    fn request(&mut self, args: Args<'_>, name: &str, value: &Value) -> Result<bool, Stop> {
        let socket = self.socket_of(args)?;
        let field = |key: &str| value.member(key).and_then(number).unwrap_or(0);
        let numbers = |key: &str| match value.member(key) {
            Some(Value::List(items)) => items.iter().filter_map(number).collect(),
            _ => Vec::new(),
        };
        let key = |name: &str| field(name) as u16;
        match name {
            "SCTP_RESET_STREAMS" => {
                let direction = match field("srs_flags") & 3 {
                    1 => Direction::Incoming,
                    2 => Direction::Outgoing,
                    _ => Direction::Both,
                };
                let streams = numbers("srs_stream_list").iter().map(|&n| n as u16).collect();
                let request = StreamRequest::Reset(direction, streams);
                let scope = self.fds.scope(field("srs_assoc_id"))?;
                self.sockets.request_streams(self.now, socket, scope, &request)?;
            }
            "SCTP_RESET_ASSOC" => {
                let scope = self.fds.scope(number(unboxed(value)).unwrap_or(0))?;
                self.sockets.request_streams(self.now, socket, scope, &StreamRequest::ResetAssociation)?;
            }
            "SCTP_ADD_STREAMS" => {
                let (outbound, inbound) = (field("sas_outstrms") as u16, field("sas_instrms") as u16);
                let scope = self.fds.scope(field("sas_assoc_id"))?;
                let request = StreamRequest::Add { outbound, inbound };
                self.sockets.request_streams(self.now, socket, scope, &request)?;
            }
            "SCTP_AUTH_KEY" => {
                let secret = numbers("sca_key").iter().map(|&n| n as u8).collect();
                let scope = self.fds.scope(field("sca_assoc_id"))?;
                let request = KeyRequest::Set(key("sca_keynumber"), secret);
                self.sockets.request_key(self.now, socket, scope, &request)?;
            }
            "SCTP_AUTH_ACTIVE_KEY" | "SCTP_AUTH_DEACTIVATE_KEY" | "SCTP_AUTH_DELETE_KEY" => {
                let number = key("scact_keynumber");
                let request = match name {
                    "SCTP_AUTH_ACTIVE_KEY" => KeyRequest::Activate(number),
                    "SCTP_AUTH_DEACTIVATE_KEY" => KeyRequest::Deactivate(number),
                    _ => KeyRequest::Delete(number),
                };
                let scope = self.fds.scope(field("scact_assoc_id"))?;
                self.sockets.request_key(self.now, socket, scope, &request)?;
            }
            "SCTP_ENABLE_STREAM_RESET" => {}
            "SCTP_SS_VALUE" | "SCTP_STREAM_SCHEDULER_VALUE" => {
                let scope = self.fds.scope(field("assoc_id"))?;
                let (stream, value) = (field("stream_id") as u16, field("stream_value") as u16);
                self.sockets.set_stream_value(self.now, socket, scope, stream, value)?;
            }
            "SCTP_REMOTE_UDP_ENCAPS_PORT" => {
                let (address, _) = value.member("sue_address").map_or((None, None), socket_address);
                let address = address.unwrap_or(self.place.remote);
                let scope = self.fds.scope(field("sue_assoc_id"))?;
                let port = field("sue_port") as u16;
                self.sockets.set_remote_udp_port(self.now, socket, scope, address, port)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The option that a structure means; `None` for one that changes nothing here.
    fn option_of(&self, name: &str, value: &Value) -> Result<Option<(Scope, SocketOption)>, Stop> {
        let field = |key: &str| value.member(key).and_then(number).unwrap_or(0);
        let plain = || number(unboxed(value)).or_else(|| value.member("assoc_value").and_then(number));
        let int = || plain().ok_or_else(|| Stop::Wrong(format!("{value} is no number")));
        let on = || int().map(|n| n != 0);
        let scope = |key: &str| self.fds.scope(field(key));
        let all = Scope::Future;
        let positive = |key: &str| u32::try_from(field(key)).ok().filter(|&n| n > 0);
        let option = match name {
            "SO_LINGER" => {
                let linger = u32::try_from(field("linger")).unwrap_or(0);
                (all, SocketOption::Linger((field("onoff") != 0).then_some(linger)))
            }
            "SO_RCVBUF" => (all, SocketOption::ReceiveBuffer(int()?.unsigned_abs())),
            "SO_SNDBUF" => (all, SocketOption::SendBuffer(int()?.unsigned_abs())),
            "SO_REUSEADDR" | "SO_REUSEPORT" | "SO_KEEPALIVE" | "SO_DEBUG" => return Ok(None),
            "SCTP_RTOINFO" => {
                let rto = RtoInfo {
                    initial: millis(field("srto_initial")),
                    max: millis(field("srto_max")),
                    min: millis(field("srto_min")),
                };
                (scope("srto_assoc_id")?, SocketOption::RtoInfo(rto))
            }
            "SCTP_ASSOCINFO" => {
                let info = AssocInfo {
                    max_retrans: positive("sasoc_asocmaxrxt"),
                    cookie_life: millis(field("sasoc_cookie_life")),
                    ..AssocInfo::default()
                };
                (scope("sasoc_assoc_id")?, SocketOption::AssocInfo(info))
            }
            "SCTP_INITMSG" => {
                let streams = |key: &str| u16::try_from(field(key)).ok().filter(|&n| n > 0);
                let init = InitMsg {
                    outbound: streams("sinit_num_ostreams"),
                    inbound: streams("sinit_max_instreams"),
                    attempts: positive("sinit_max_attempts"),
                    max_timeout: millis(field("sinit_max_init_timeo")),
                };
                (all, SocketOption::InitMsg(init))
            }
            "SCTP_NODELAY" => (all, SocketOption::NoDelay(on()?)),
            "SCTP_AUTOCLOSE" => {
                let seconds = int()?.unsigned_abs();
                (all, SocketOption::Autoclose((seconds > 0).then(|| Duration::from_secs(seconds))))
            }
            "SCTP_PRIMARY_ADDR" => {
                let (address, _) = value.member("ssp_addr").map_or((None, None), socket_address);
                let address = address.unwrap_or(self.place.remote);
                (scope("ssp_assoc_id")?, SocketOption::PrimaryAddress(address))
            }
            "SCTP_DISABLE_FRAGMENTS" => (all, SocketOption::DisableFragments(on()?)),
            "SCTP_PEER_ADDR_PARAMS" => {
                let flags = field("spp_flags");
                let params = PeerAddrParams {
                    address: value.member("spp_address").and_then(|value| socket_address(value).0),
                    heartbeats: match (flags & 1 != 0, flags & 2 != 0) {
                        (true, true) => return Err(anabranch_sctp::socket::Errno::Invalid.into()),
                        (true, false) => Some(true),
                        (false, true) => Some(false),
                        (false, false) => None,
                    },
                    interval: millis(field("spp_hbinterval")),
                    max_retrans: positive("spp_pathmaxrxt"),
                    mtu: None,
                };
                (scope("spp_assoc_id")?, SocketOption::PeerAddrParams(params))
            }
            "SCTP_EVENT" => {
                let kind = event(value.member("se_type").unwrap_or(&Value::Any))?;
                (scope("se_assoc_id")?, SocketOption::Event(kind, field("se_on") != 0))
            }
            "SCTP_MAXSEG" => {
                let bytes = u32::try_from(int()?).ok().filter(|&bytes| bytes > 0);
                (scope("assoc_id")?, SocketOption::MaxSegment(bytes))
            }
            "SCTP_DELAYED_SACK" => {
                let sack = DelayedSack { delay: millis(field("sack_delay")), every: positive("sack_freq") };
                (scope("sack_assoc_id")?, SocketOption::DelayedSack(sack))
            }
            "SCTP_FRAGMENT_INTERLEAVE" => {
                let level = match int()? {
                    0 => Fragmented::None,
                    1 => Fragmented::Associations,
                    _ => Fragmented::Streams,
                };
                (all, SocketOption::FragmentInterleave(level))
            }
            "SCTP_PARTIAL_DELIVERY_POINT" => (all, SocketOption::PartialDeliveryPoint(int()?.unsigned_abs())),
            "SCTP_MAX_BURST" => {
                let packets = u32::try_from(int()?).ok().filter(|&packets| packets > 0);
                (scope("assoc_id")?, SocketOption::MaxBurst(packets))
            }
            "SCTP_CONTEXT" => (scope("assoc_id")?, SocketOption::Context(int()? as u32)),
            "SCTP_REUSE_PORT" => (all, SocketOption::ReusePort(on()?)),
            "SCTP_RECVRCVINFO" => (all, SocketOption::RecvRcvInfo(on()?)),
            "SCTP_RECVNXTINFO" => (all, SocketOption::RecvNxtInfo(on()?)),
            "SCTP_ADAPTATION_LAYER" => {
                (all, SocketOption::Adaptation(Some(field("ssb_adaptation_ind") as u32)))
            }
            "SCTP_AUTH_CHUNK" => (all, SocketOption::AuthChunk(field("sauth_chunk") as u8)),
            "SCTP_DEFAULT_SNDINFO" => {
                let stream = u16::try_from(field("snd_sid")).unwrap_or(0);
                let info = SndInfo {
                    stream,
                    ppid: field("snd_ppid") as u32,
                    context: field("snd_context") as u32,
                    unordered: field("snd_flags") & 0x0400 != 0,
                    ..SndInfo::default()
                };
                (scope("snd_assoc_id")?, SocketOption::DefaultSndInfo(info))
            }
            other => match supported(other) {
                Some(extension) => (scope("assoc_id")?, SocketOption::Supported(extension, on()?)),
                None => return wrong(format!("the option {other}")),
            },
        };
        Ok(Some(option))
    }

    pub(crate) fn call_getsockopt(&mut self, args: Args<'_>) -> Result<i64, Stop> {
        self.get(args, name(args.at(2)?)?, args.at(3)?)
    }

    pub(crate) fn call_opt_info(&mut self, args: Args<'_>) -> Result<i64, Stop> {
        self.get(args, name(args.at(2)?)?, args.at(3)?)
    }

    fn get(&mut self, args: Args<'_>, name: &str, expected: &Value) -> Result<i64, Stop> {
        let socket = self.socket_of(args)?;
        let peer = |key: &str| expected.member(key).and_then(|value| socket_address(value).0);
        let asked = match name {
            "SO_ERROR" => OptionName::Error,
            "SO_LINGER" => OptionName::Linger,
            "SO_RCVBUF" => OptionName::ReceiveBuffer,
            "SO_SNDBUF" => OptionName::SendBuffer,
            "SCTP_RTOINFO" => OptionName::RtoInfo,
            "SCTP_ASSOCINFO" => OptionName::AssocInfo,
            "SCTP_INITMSG" => OptionName::InitMsg,
            "SCTP_NODELAY" => OptionName::NoDelay,
            "SCTP_AUTOCLOSE" => OptionName::Autoclose,
            "SCTP_DISABLE_FRAGMENTS" => OptionName::DisableFragments,
            "SCTP_PEER_ADDR_PARAMS" => OptionName::PeerAddrParams(peer("spp_address")),
            "SCTP_EVENT" => OptionName::Event(event(expected.member("se_type").unwrap_or(&Value::Any))?),
            "SCTP_MAXSEG" => OptionName::MaxSegment,
            "SCTP_DELAYED_SACK" => OptionName::DelayedSack,
            "SCTP_FRAGMENT_INTERLEAVE" => OptionName::FragmentInterleave,
            "SCTP_PARTIAL_DELIVERY_POINT" => OptionName::PartialDeliveryPoint,
            "SCTP_MAX_BURST" => OptionName::MaxBurst,
            "SCTP_CONTEXT" => OptionName::Context,
            "SCTP_REUSE_PORT" => OptionName::ReusePort,
            "SCTP_RECVRCVINFO" => OptionName::RecvRcvInfo,
            "SCTP_RECVNXTINFO" => OptionName::RecvNxtInfo,
            "SCTP_DEFAULT_SNDINFO" => OptionName::DefaultSndInfo,
            "SCTP_STATUS" => OptionName::Status,
            "SCTP_GET_PEER_ADDR_INFO" => {
                OptionName::PeerAddrInfo(peer("spinfo_address").unwrap_or(self.place.remote))
            }
            "SCTP_GET_ASSOC_NUMBER" => OptionName::AssociationCount,
            other => match supported(other) {
                Some(extension) => OptionName::Supported(extension),
                None => return wrong(format!("the option {other}")),
            },
        };
        let ids = [
            "srto_assoc_id",
            "sasoc_assoc_id",
            "spp_assoc_id",
            "se_assoc_id",
            "sstat_assoc_id",
            "sack_assoc_id",
            "spinfo_assoc_id",
            "snd_assoc_id",
            "assoc_id",
        ];
        let id = ids.iter().find_map(|key| expected.member(key)).and_then(number).unwrap_or(0);
        let scope = self.fds.scope(id)?;
        let seen = self.sockets.option(socket, scope, asked)?;
        let seen = self.described(seen);
        let expected = if matches!(expected, Value::Struct(_)) { expected } else { unboxed(expected) };
        // Associations have numbers of their own here; a plain value may come in a structure.
        let seen = match (expected.member("assoc_value"), &seen) {
            (Some(_), Value::Int(n)) => Value::Struct(vec![("assoc_value".to_owned(), Value::Int(*n))]),
            _ => seen,
        };
        let known = Value::Struct(match expected {
            Value::Struct(fields) => {
                fields.iter().filter(|(key, _)| !ids.contains(&key.as_str())).cloned().collect()
            }
            _ => Vec::new(),
        });
        differs(name, if matches!(expected, Value::Struct(_)) { &known } else { expected }, &seen)?;
        Ok(0)
    }

    /// An option's value as the socket API's structure has it.
    fn described(&self, option: SocketOption) -> Value {
        let put = |fields: &[(&str, i64)]| {
            Value::Struct(fields.iter().map(|&(key, n)| (key.to_owned(), Value::Int(n))).collect())
        };
        let ms = |span: Option<Duration>| span.map_or(0, |span| span.as_millis() as i64);
        match option {
            SocketOption::Error(error) => {
                error.map_or(Value::Int(0), |error| Value::Word(error.name().to_owned()))
            }
            SocketOption::Linger(time) => {
                put(&[("onoff", time.is_some().into()), ("linger", time.unwrap_or(0).into())])
            }
            SocketOption::ReceiveBuffer(n)
            | SocketOption::SendBuffer(n)
            | SocketOption::PartialDeliveryPoint(n) => Value::Int(n as i64),
            SocketOption::RtoInfo(rto) => put(&[
                ("srto_initial", ms(rto.initial)),
                ("srto_max", ms(rto.max)),
                ("srto_min", ms(rto.min)),
            ]),
            SocketOption::AssocInfo(info) => put(&[
                ("sasoc_asocmaxrxt", info.max_retrans.unwrap_or(0).into()),
                ("sasoc_number_peer_destinations", info.peer_destinations.into()),
                ("sasoc_peer_rwnd", info.peer_rwnd as i64),
                ("sasoc_local_rwnd", info.local_rwnd as i64),
                ("sasoc_cookie_life", ms(info.cookie_life)),
            ]),
            SocketOption::InitMsg(init) => put(&[
                ("sinit_num_ostreams", init.outbound.unwrap_or(0).into()),
                ("sinit_max_instreams", init.inbound.unwrap_or(0).into()),
                ("sinit_max_attempts", init.attempts.unwrap_or(0).into()),
                ("sinit_max_init_timeo", ms(init.max_timeout)),
            ]),
            SocketOption::NoDelay(on)
            | SocketOption::DisableFragments(on)
            | SocketOption::ReusePort(on)
            | SocketOption::RecvRcvInfo(on)
            | SocketOption::RecvNxtInfo(on)
            | SocketOption::Supported(_, on) => Value::Int(on.into()),
            SocketOption::Autoclose(span) => Value::Int(span.map_or(0, |span| span.as_secs() as i64)),
            SocketOption::PeerAddrParams(params) => put(&[
                ("spp_hbinterval", ms(params.interval)),
                ("spp_pathmaxrxt", params.max_retrans.unwrap_or(0).into()),
                ("spp_pathmtu", params.mtu.unwrap_or(0).into()),
                ("spp_flags", if params.heartbeats == Some(true) { 1 } else { 2 }),
            ]),
            SocketOption::Event(_, on) => put(&[("se_on", on.into())]),
            SocketOption::MaxSegment(n) => Value::Int(n.unwrap_or(0).into()),
            SocketOption::MaxBurst(n) => Value::Int(n.unwrap_or(0).into()),
            SocketOption::Context(n) => Value::Int(n.into()),
            SocketOption::DelayedSack(sack) => {
                put(&[("sack_delay", ms(sack.delay)), ("sack_freq", sack.every.unwrap_or(0).into())])
            }
            SocketOption::FragmentInterleave(level) => Value::Int(match level {
                Fragmented::None => 0,
                Fragmented::Associations => 1,
                Fragmented::Streams => 2,
            }),
            SocketOption::DefaultSndInfo(info) => put(&[
                ("snd_sid", info.stream.into()),
                ("snd_flags", if info.unordered { 0x0400 } else { 0 }),
                ("snd_ppid", info.ppid.into()),
                ("snd_context", info.context.into()),
            ]),
            SocketOption::Status(status) => {
                let state = match status.state {
                    AssociationState::CookieWait => "SCTP_COOKIE_WAIT",
                    AssociationState::CookieEchoed => "SCTP_COOKIE_ECHOED",
                    AssociationState::Established => "SCTP_ESTABLISHED",
                    AssociationState::ShutdownPending => "SCTP_SHUTDOWN_PENDING",
                    AssociationState::ShutdownSent => "SCTP_SHUTDOWN_SENT",
                    AssociationState::ShutdownReceived => "SCTP_SHUTDOWN_RECEIVED",
                    AssociationState::ShutdownAckSent => "SCTP_SHUTDOWN_ACK_SENT",
                    AssociationState::Closed => "SCTP_CLOSED",
                };
                let Value::Struct(mut fields) = put(&[
                    ("sstat_rwnd", status.peer_rwnd as i64),
                    ("sstat_instrms", status.inbound_streams.into()),
                    ("sstat_outstrms", status.outbound_streams.into()),
                    ("sstat_fragmentation_point", status.fragmentation_point as i64),
                ]) else {
                    return Value::Any;
                };
                fields.push(("sstat_state".to_owned(), Value::Word(state.to_owned())));
                fields.push(("sstat_primary".to_owned(), peer_address(&status.primary)));
                Value::Struct(fields)
            }
            SocketOption::PeerAddrInfo(info) => peer_address(&info),
            SocketOption::AssociationCount(n) => Value::Int(n as i64),
            other => Value::Text(format!("{other:?}")),
        }
    }
}

fn peer_address(info: &PeerAddrInfo) -> Value {
    let state = match info.state {
        PathState::Active => "SCTP_ACTIVE",
        PathState::Inactive => "SCTP_INACTIVE",
        _ => "SCTP_UNCONFIRMED",
    };
    let numbers = [
        ("spinfo_cwnd", info.cwnd as i64),
        ("spinfo_srtt", info.srtt.as_millis() as i64),
        ("spinfo_rto", info.rto.as_millis() as i64),
        ("spinfo_mtu", info.mtu.into()),
    ];
    let mut fields: Vec<_> = numbers.iter().map(|&(key, n)| (key.to_owned(), Value::Int(n))).collect();
    fields.push(("spinfo_state".to_owned(), Value::Word(state.to_owned())));
    Value::Struct(fields)
}
