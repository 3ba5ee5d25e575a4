//! Reads socket options for packetdrill scripts: `getsockopt` and `sctp_opt_info`.

use super::{IDS, SET_ONLY, STRUCTURES, check_level, events, is_lone, name, supported};
use crate::calls::{Args, CallError, address_value, differs, socket_address, unboxed, wrong};
use crate::constants::number;
use crate::members::Members;
use crate::run::Machine;
use crate::script::Value;
use anabranch_base::time::Duration;
use anabranch_sctp::socket::{Fragmented, OptionName, PeerAddrInfo, PrInfo, SocketOption, Style};
use anabranch_sctp::{AssociationState, Hmacs, PathState, SchedulerKind};

impl Machine {
    pub(crate) fn call_getsockopt(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        let name = name(args.at(2)?)?;
        check_level(name, args.at(1)?)?;
        self.get(args, name, args.at(3)?)
    }

    pub(crate) fn call_opt_info(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        self.get(args, name(args.at(2)?)?, args.at(3)?)
    }

    /// Returns the value of a socket option for which the engine has no single option. The packetdrill interpreter
    /// stores the value itself, or combines several options of the engine. Returns `None` for any other option.
    fn composed(&mut self, args: Args<'_>, name: &str, expected: &Value) -> Result<Option<Value>, CallError> {
        let fd = self.fd(args)?;
        Ok(Some(match name {
            "SCTP_EVENTS" => self.events_value(fd)?,
            "SCTP_EVENT" => {
                let event = Members::of("sctp_event", expected)?;
                let kind = event.get("se_type").cloned().unwrap_or(Value::Any);
                let on = self.has_event(fd, events::Event::named(&kind)?)?;
                Value::Struct(vec![("se_type".to_owned(), kind), ("se_on".to_owned(), Value::Int(on.into()))])
            }
            "SCTP_USE_EXT_RCVINFO" => Value::Int(fd.legacy.extended.into()),
            "SCTP_RECVNXTINFO" => Value::Int(fd.legacy.next.into()),
            "SCTP_ENABLE_STREAM_RESET" => Value::Int(fd.legacy.resets),
            "SCTP_I_WANT_MAPPED_V4_ADDR" => Value::Int(fd.legacy.mapped.into()),
            "SCTP_EXPLICIT_EOR" => Value::Int(0),
            "SCTP_AUTO_ASCONF" => Value::Int((!fd.legacy.fixed_addresses).into()),
            "SCTP_GET_ASSOC_ID_LIST" => {
                // RFC 6458 §8.2.6: only one-to-many sockets have this option.
                if fd.style() == Style::OneToOne {
                    return Err(anabranch_sctp::socket::Errno::Invalid.into());
                }
                let all = self.sockets.associations(fd.socket);
                let ids: Vec<Value> = all.iter().map(|&id| Value::Int(self.fds.number_of(id))).collect();
                Value::Struct(vec![
                    ("gaids_number_of_ids".to_owned(), Value::Int(ids.len() as i64)),
                    ("gaids_assoc_id".to_owned(), Value::List(ids)),
                ])
            }
            "SCTP_DEFAULT_SEND_PARAM" => {
                let info = self.sockets.default_info(fd.socket)?;
                let (policy, amount) = policy_of(info.pr);
                let unordered = if info.snd.unordered { 0x0400 } else { 0 };
                let numbers = [
                    ("sinfo_stream", info.snd.stream.into()),
                    ("sinfo_flags", unordered | policy),
                    ("sinfo_ppid", info.snd.ppid.into()),
                    ("sinfo_context", info.snd.context.into()),
                    ("sinfo_timetolive", amount),
                ];
                // RFC 6458 §5.3.2: these members have no meaning for sending.
                let unused =
                    ["sinfo_ssn", "sinfo_tsn", "sinfo_cumtsn"].map(|key| (key.to_owned(), Value::Any));
                let numbers = numbers.iter().map(|&(key, n)| (key.to_owned(), Value::Int(n)));
                Value::Struct(numbers.chain(unused).collect())
            }
            _ => return Ok(None),
        }))
    }

    fn get(&mut self, args: Args<'_>, name: &str, expected: &Value) -> Result<i64, CallError> {
        let fd = self.fd(args)?;
        if SET_ONLY.contains(&name) {
            return Err(anabranch_sctp::socket::Errno::NotSupported.into());
        }
        let socket = fd.socket;
        let open = expected.is_any();
        let expected = if is_lone(expected) { unboxed(expected) } else { expected };
        if let Some(structure) = STRUCTURES.iter().find(|(known, _)| *known == name).map(|(_, s)| *s)
            && !open
        {
            let plain = matches!(expected, Value::Int(_) | Value::Word(_));
            if !(plain && structure == "sctp_assoc_value") {
                Members::of(structure, expected)?;
            }
        }
        let peer =
            |key: &str| expected.member(key).map_or(Ok((None, None)), socket_address).map(|(ip, _)| ip);
        if let Some(seen) = self.composed(args, name, expected)? {
            return self.compare_option(name, expected, seen);
        }
        let association = match name {
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
            "SCTP_PEER_ADDR_PARAMS" => OptionName::PeerAddrParams(peer("spp_address")?),
            "SCTP_MAXSEG" => OptionName::MaxSegment,
            "SCTP_DELAYED_SACK" => OptionName::DelayedSack,
            "SCTP_FRAGMENT_INTERLEAVE" => OptionName::FragmentInterleave,
            "SCTP_PARTIAL_DELIVERY_POINT" => OptionName::PartialDeliveryPoint,
            "SCTP_MAX_BURST" => OptionName::MaxBurst,
            "SCTP_CONTEXT" => OptionName::Context,
            "SCTP_REUSE_PORT" => OptionName::ReusePort,
            "SCTP_RECVRCVINFO" => OptionName::RecvRcvInfo,
            "SCTP_DEFAULT_SNDINFO" => OptionName::DefaultSndInfo,
            "SCTP_DEFAULT_PRINFO" => OptionName::DefaultPrInfo,
            "SCTP_PRIMARY_ADDR" => OptionName::PrimaryAddress,
            "SCTP_ADAPTATION_LAYER" => OptionName::Adaptation,
            "SCTP_HMAC_IDENT" => OptionName::HmacIdents,
            "SCTP_LOCAL_AUTH_CHUNKS" => OptionName::LocalAuthChunks,
            "SCTP_PEER_AUTH_CHUNKS" => OptionName::PeerAuthChunks,
            "SCTP_AUTH_ACTIVE_KEY" => OptionName::ActiveKey,
            "SCTP_STREAM_SCHEDULER" | "SCTP_PLUGGABLE_SS" => OptionName::StreamScheduler,
            "SCTP_STATUS" => OptionName::Status,
            "SCTP_GET_PEER_ADDR_INFO" => {
                OptionName::PeerAddrInfo(peer("spinfo_address")?.unwrap_or(self.addresses.remote))
            }
            "SCTP_GET_ASSOC_NUMBER" => OptionName::AssociationCount,
            other => match supported(other) {
                Some(extension) => OptionName::Supported(extension),
                None => return wrong(format!("the option {other}")),
            },
        };
        let id = IDS.iter().find_map(|key| expected.member(key)).filter(|value| !value.is_any());
        let id = match id.map(|value| (value, number(value))) {
            None => 0,
            Some((_, Some(id))) => id,
            Some((value, None)) => return wrong(format!("{value} is no association")),
        };
        let scope = self.fds.scope(fd, id)?;
        let seen = self.sockets.option(socket, scope, association)?;
        let seen = self.described(seen);
        self.compare_option(name, expected, seen)
    }

    /// Compares the value of a socket option with the script, except for the association number, which only selects the
    /// association.
    fn compare_option(&self, name: &str, expected: &Value, seen: Value) -> Result<i64, CallError> {
        // A script may write a structure with the field `assoc_value` for an option whose value is a plain number.
        let seen = match (expected.member("assoc_value"), &seen) {
            (Some(_), Value::Int(n)) => Value::Struct(vec![("assoc_value".to_owned(), Value::Int(*n))]),
            _ => seen,
        };
        let known = Value::Struct(match expected {
            Value::Struct(fields) => {
                fields.iter().filter(|(key, _)| !IDS.contains(&key.as_str())).cloned().collect()
            }
            _ => Vec::new(),
        });
        differs(name, if matches!(expected, Value::Struct(_)) { &known } else { expected }, &seen)?;
        Ok(0)
    }

    /// Returns the value of a socket option as the structure of the socket API.
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
                ("sinit_num_ostreams", init.num_ostreams.unwrap_or(0).into()),
                ("sinit_max_instreams", init.max_instreams.unwrap_or(0).into()),
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
                ("spp_flags", 8 | if params.heartbeats == Some(true) { 1 } else { 2 }),
                ("spp_dscp", 0),
                ("spp_ipv6_flowlabel", 0),
            ])
            .with("spp_address", Value::Any),
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
                // The engine counts unacknowledged bytes, but the structure has a number of chunks. Only 0 can be
                // compared.
                let none = status.unacknowledged == 0;
                let waits = || if none { Value::Int(0) } else { Value::Any };
                fields.push(("sstat_unackdata".to_owned(), waits()));
                fields.push(("sstat_penddata".to_owned(), waits()));
                fields.push(("sstat_state".to_owned(), Value::Word(state.to_owned())));
                fields.push(("sstat_primary".to_owned(), self.peer_address(&status.primary)));
                Value::Struct(fields)
            }
            SocketOption::PeerAddrInfo(info) => self.peer_address(&info),
            SocketOption::AssociationCount(n) => Value::Int(n as i64),
            SocketOption::DefaultPrInfo(info) => {
                let (policy, amount) = policy_of(info);
                put(&[("pr_policy", policy), ("pr_value", amount)])
            }
            SocketOption::PrimaryAddress(address) => {
                put(&[]).with("ssp_addr", address_value(address, self.addresses.connect_port))
            }
            SocketOption::Adaptation(code) => put(&[("ssb_adaptation_ind", code.unwrap_or(0).into())]),
            SocketOption::HmacIdents(hmacs) => {
                // RFC 4895 §3.3: the list has the HMAC identifiers in the order of preference.
                let idents: &[i64] = if hmacs == Hmacs::Sha1Only { &[1] } else { &[3, 1] };
                let list = Value::List(idents.iter().map(|&n| Value::Int(n)).collect());
                put(&[("shmac_number_of_idents", idents.len() as i64)]).with("shmac_idents", list)
            }
            SocketOption::ActiveKey(key) => put(&[("scact_keynumber", key.into())]),
            SocketOption::LocalAuthChunks(chunks) | SocketOption::PeerAuthChunks(chunks) => {
                let all: Vec<Value> =
                    (0..=255).filter(|&k| chunks.has(k)).map(|k| Value::Int(k.into())).collect();
                put(&[("gauth_number_of_chunks", all.len() as i64)]).with("gauth_chunks", Value::List(all))
            }
            SocketOption::StreamScheduler(kind) => Value::Int(match kind {
                SchedulerKind::RoundRobin => 1,
                SchedulerKind::RoundRobinPacket => 2,
                SchedulerKind::Priority => 3,
                SchedulerKind::Fair => 4,
                SchedulerKind::Fcfs => 5,
                SchedulerKind::WeightedFair => 6,
            }),
            other => Value::Text(format!("{other:?}")),
        }
    }

    fn peer_address(&self, info: &PeerAddrInfo) -> Value {
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
        let fields: Vec<_> = numbers.iter().map(|&(key, n)| (key.to_owned(), Value::Int(n))).collect();
        Value::Struct(fields)
            .with("spinfo_state", Value::Word(state.to_owned()))
            .with("spinfo_address", address_value(info.address, self.addresses.connect_port))
            .with("spinfo_assoc_id", Value::Any)
    }
}

/// Returns `pr_policy` and `pr_value` of a reliability policy.
fn policy_of(info: PrInfo) -> (i64, i64) {
    match info {
        PrInfo::Reliable => (0, 0),
        PrInfo::Lifetime(ms) => (1, ms.into()),
        PrInfo::Priority(n) => (2, n.into()),
        PrInfo::Retransmissions(n) => (3, n.into()),
    }
}
