//! Translates the socket options in scripts to options of the engine's sockets.
//!
//! Implements the part of RFC 6458 §8 that defines structures.

mod events;
mod get;

use crate::calls::{Args, CallError, Fd, init_msg, millis, pr_info, socket_address, unboxed, wrong};
use crate::constants::number;
use crate::members::Members;
use crate::run::Machine;
use crate::script::Value;
use anabranch_base::time::Duration;
use anabranch_sctp::socket::{
    AssocInfo, DelayedSack, Errno, Extension, Fragmented, KeyRequest, PeerAddrParams, RtoInfo, Scope,
    SendInfo, SocketOption, StreamRequest,
};
use anabranch_sctp::{Direction, Hmacs, ReconfigRequests, SchedulerKind};

/// The socket options whose values are structures, with the names of the structures. All other options are numbers.
const STRUCTURES: &[(&str, &str)] = &[
    ("SO_LINGER", "linger"),
    ("SCTP_RTOINFO", "sctp_rtoinfo"),
    ("SCTP_ASSOCINFO", "sctp_assocparams"),
    ("SCTP_INITMSG", "sctp_initmsg"),
    ("SCTP_PRIMARY_ADDR", "sctp_setprim"),
    ("SCTP_SET_PEER_PRIMARY_ADDR", "sctp_setpeerprim"),
    ("SCTP_ADAPTATION_LAYER", "sctp_setadaptation"),
    ("SCTP_PEER_ADDR_PARAMS", "sctp_paddrparams"),
    ("SCTP_EVENT", "sctp_event"),
    ("SCTP_EVENTS", "sctp_event_subscribe"),
    ("SCTP_DEFAULT_SEND_PARAM", "sctp_sndrcvinfo"),
    ("SCTP_DEFAULT_SNDINFO", "sctp_sndinfo"),
    ("SCTP_DEFAULT_PRINFO", "sctp_default_prinfo"),
    ("SCTP_DELAYED_SACK", "sctp_sack_info"),
    ("SCTP_HMAC_IDENT", "sctp_hmacalgo"),
    ("SCTP_AUTH_CHUNK", "sctp_authchunk"),
    ("SCTP_AUTH_KEY", "sctp_authkey"),
    ("SCTP_AUTH_ACTIVE_KEY", "sctp_authkeyid"),
    ("SCTP_AUTH_DEACTIVATE_KEY", "sctp_authkeyid"),
    ("SCTP_AUTH_DELETE_KEY", "sctp_authkeyid"),
    ("SCTP_LOCAL_AUTH_CHUNKS", "sctp_authchunks"),
    ("SCTP_PEER_AUTH_CHUNKS", "sctp_authchunks"),
    ("SCTP_RESET_STREAMS", "sctp_reset_streams"),
    ("SCTP_ADD_STREAMS", "sctp_add_streams"),
    ("SCTP_SS_VALUE", "sctp_stream_value"),
    ("SCTP_STREAM_SCHEDULER_VALUE", "sctp_stream_value"),
    ("SCTP_REMOTE_UDP_ENCAPS_PORT", "sctp_udpencaps"),
    // The values of these options are numbers, which a script may combine with an association number.
    ("SCTP_MAXSEG", "sctp_assoc_value"),
    ("SCTP_MAX_BURST", "sctp_assoc_value"),
    ("SCTP_CONTEXT", "sctp_assoc_value"),
    ("SCTP_ENABLE_STREAM_RESET", "sctp_assoc_value"),
    ("SCTP_STREAM_SCHEDULER", "sctp_assoc_value"),
    ("SCTP_PLUGGABLE_SS", "sctp_assoc_value"),
    ("SCTP_ECN_SUPPORTED", "sctp_assoc_value"),
    ("SCTP_PR_SUPPORTED", "sctp_assoc_value"),
    ("SCTP_INTERLEAVING_SUPPORTED", "sctp_assoc_value"),
    ("SCTP_AUTH_SUPPORTED", "sctp_assoc_value"),
    ("SCTP_ASCONF_SUPPORTED", "sctp_assoc_value"),
    ("SCTP_RECONFIG_SUPPORTED", "sctp_assoc_value"),
    ("SCTP_ACCEPT_ZERO_CHECKSUM", "sctp_assoc_value"),
];

/// The names of the members that hold an association number.
const IDS: &[&str] = &[
    "srto_assoc_id",
    "sasoc_assoc_id",
    "ssp_assoc_id",
    "sspp_assoc_id",
    "spp_assoc_id",
    "se_assoc_id",
    "sstat_assoc_id",
    "sack_assoc_id",
    "spinfo_assoc_id",
    "snd_assoc_id",
    "sinfo_assoc_id",
    "pr_assoc_id",
    "gauth_assoc_id",
    "scact_assoc_id",
    "sue_assoc_id",
    "assoc_id",
];

/// The socket options that can only be read. `SET_ONLY` has the options that can only be set.
const READ_ONLY: &[&str] = &[
    "SO_ERROR",
    "SCTP_STATUS",
    "SCTP_GET_PEER_ADDR_INFO",
    "SCTP_PEER_AUTH_CHUNKS",
    "SCTP_LOCAL_AUTH_CHUNKS",
    "SCTP_GET_ASSOC_NUMBER",
    "SCTP_GET_ASSOC_ID_LIST",
];
const SET_ONLY: &[&str] = &[
    "SCTP_AUTH_CHUNK",
    "SCTP_AUTH_KEY",
    "SCTP_AUTH_DEACTIVATE_KEY",
    "SCTP_AUTH_DELETE_KEY",
    "SCTP_SET_PEER_PRIMARY_ADDR",
    "SCTP_RESET_STREAMS",
    "SCTP_RESET_ASSOC",
    "SCTP_ADD_STREAMS",
];

/// Checks the level in a call that gets or sets a socket option. Options that begin with `SO_` belong to the socket
/// layer, and options that begin with `SCTP_` to SCTP.
fn check_level(name: &str, level: &Value) -> Result<(), CallError> {
    let wanted = if name.starts_with("SO_") { 0xffff } else { 132 };
    if number(level) == Some(wanted) { Ok(()) } else { wrong(format!("{name} is no option of {level}")) }
}

/// Returns whether a value is a list of one item. Scripts may write such a list in place of its item.
fn is_lone(value: &Value) -> bool {
    matches!(value, Value::List(items) if items.len() == 1)
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

fn name(value: &Value) -> Result<&str, CallError> {
    match value {
        Value::Word(word) => Ok(word),
        other => wrong(format!("{other} is no option")),
    }
}

impl Machine {
    pub(crate) fn call_setsockopt(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        let fd = self.fd(args)?;
        let value = args.at(3)?;
        let name = name(args.at(2)?)?;
        check_level(name, args.at(1)?)?;
        if READ_ONLY.contains(&name) {
            return Err(Errno::NotSupported.into());
        }
        if self.set_local_option(args, fd, name, value)? || self.request(fd, name, value)? {
            return Ok(0);
        }
        let Some((association, option)) = self.option_of(name, value)? else {
            return Ok(0);
        };
        let scope = self.fds.scope(fd, association)?;
        self.sockets.set_option(self.now, fd.socket, scope, option)?;
        Ok(0)
    }

    /// Sets a socket option that the packetdrill interpreter processes itself: it stores the value, or translates it
    /// into other options. Returns false for any other option.
    fn set_local_option(
        &mut self,
        args: Args<'_>,
        fd: Fd,
        name: &str,
        value: &Value,
    ) -> Result<bool, CallError> {
        let number_of_fd = args.int(0)?;
        let mut legacy = fd.legacy;
        match name {
            "SCTP_EVENT" => {
                self.subscribe(number_of_fd, value)?;
                return Ok(true);
            }
            "SCTP_EVENTS" => {
                self.subscribe_all(number_of_fd, value)?;
                return Ok(true);
            }
            "SCTP_DEFAULT_SEND_PARAM" => {
                let association = Members::of("sctp_sndrcvinfo", value)?.or_zero("sinfo_assoc_id")?;
                let SendInfo { snd, pr, .. } = self.snd_rcv_info(value)?;
                let scope = self.fds.scope(fd, association)?;
                for option in [SocketOption::DefaultSndInfo(snd), SocketOption::DefaultPrInfo(pr)] {
                    self.sockets.set_option(self.now, fd.socket, scope, option)?;
                }
                return Ok(true);
            }
            "SCTP_USE_EXT_RCVINFO" => legacy.extended = plain(value)? != 0,
            "SCTP_RECVNXTINFO" => legacy.next = plain(value)? != 0,
            "SCTP_I_WANT_MAPPED_V4_ADDR" => legacy.mapped = plain(value)? != 0,
            "SCTP_ENABLE_STREAM_RESET" => {
                let (association, requests) = assoc_value(value)?;
                if !(0..=7).contains(&requests) {
                    return Err(Errno::Invalid.into());
                }
                let granted = ReconfigRequests {
                    streams: requests & 1 != 0,
                    association: requests & 2 != 0,
                    change: requests & 4 != 0,
                };
                let scope = self.fds.scope(fd, association)?;
                let option = SocketOption::EnableStreamReset(granted);
                self.sockets.set_option(self.now, fd.socket, scope, option)?;
                legacy.resets = requests;
            }
            "SCTP_AUTO_ASCONF" => legacy.fixed_addresses = plain(value)? == 0,
            "SCTP_EXPLICIT_EOR" => {
                // RFC 6458 §8.1.26: explicit end of record is not supported, because the engine accepts complete
                // messages only.
                if plain(value)? != 0 {
                    return Err(Errno::NotSupported.into());
                }
            }
            _ => return Ok(false),
        }
        let option = SocketOption::RecvNxtInfo(legacy.next || legacy.extended);
        self.sockets.set_option(self.now, fd.socket, Scope::Future, option)?;
        if let Some(entry) = self.fds.at(number_of_fd) {
            entry.legacy = legacy;
        }
        Ok(true)
    }

    /// Sets a socket option that requests an action, such as a stream reset. Returns false for any other option.
    fn request(&mut self, fd: Fd, name: &str, value: &Value) -> Result<bool, CallError> {
        let socket = fd.socket;
        match name {
            "SCTP_RESET_STREAMS" => {
                let members = Members::of("sctp_reset_streams", value)?;
                let direction = match members.or_zero("srs_flags")? {
                    1 => Direction::Incoming,
                    2 => Direction::Outgoing,
                    3 => Direction::Both,
                    _ => return Err(Errno::Invalid.into()),
                };
                let streams: Vec<i64> = members.numbers("srs_stream_list")?;
                counted("srs_number_streams", members, streams.len())?;
                let streams = streams.iter().map(|&n| n as u16).collect();
                let request = StreamRequest::Reset(direction, streams);
                let scope = self.fds.scope(fd, members.or_zero("srs_assoc_id")?)?;
                self.sockets.request_streams(self.now, socket, scope, &request)?;
            }
            "SCTP_RESET_ASSOC" => {
                let association = if value.is_any() { 0 } else { plain(value)? };
                let scope = self.fds.scope(fd, association)?;
                self.sockets.request_streams(self.now, socket, scope, &StreamRequest::ResetAssociation)?;
            }
            "SCTP_ADD_STREAMS" => {
                let members = Members::of("sctp_add_streams", value)?;
                let outbound = members.fitting("sas_outstrms")?;
                let inbound = members.fitting("sas_instrms")?;
                let scope = self.fds.scope(fd, members.or_zero("sas_assoc_id")?)?;
                let request = StreamRequest::Add { outbound, inbound };
                self.sockets.request_streams(self.now, socket, scope, &request)?;
            }
            "SCTP_AUTH_KEY" => {
                let members = Members::of("sctp_authkey", value)?;
                let secret: Vec<i64> = members.numbers("sca_key")?;
                counted("sca_keylength", members, secret.len())?;
                let secret = secret.iter().map(|&n| n as u8).collect();
                let scope = self.fds.scope(fd, members.or_zero("sca_assoc_id")?)?;
                let request = KeyRequest::Set(members.fitting("sca_keynumber")?, secret);
                self.sockets.request_key(self.now, socket, scope, &request)?;
            }
            "SCTP_AUTH_ACTIVE_KEY" | "SCTP_AUTH_DEACTIVATE_KEY" | "SCTP_AUTH_DELETE_KEY" => {
                let members = Members::of("sctp_authkeyid", value)?;
                let number = members.fitting("scact_keynumber")?;
                let request = match name {
                    "SCTP_AUTH_ACTIVE_KEY" => KeyRequest::Activate(number),
                    "SCTP_AUTH_DEACTIVATE_KEY" => KeyRequest::Deactivate(number),
                    _ => KeyRequest::Delete(number),
                };
                let scope = self.fds.scope(fd, members.or_zero("scact_assoc_id")?)?;
                self.sockets.request_key(self.now, socket, scope, &request)?;
            }
            "SCTP_SS_VALUE" | "SCTP_STREAM_SCHEDULER_VALUE" => {
                let members = Members::of("sctp_stream_value", value)?;
                let scope = self.fds.scope(fd, members.or_zero("assoc_id")?)?;
                let (stream, value) = (members.fitting("stream_id")?, members.fitting("stream_value")?);
                self.sockets.set_stream_value(self.now, socket, scope, stream, value)?;
            }
            "SCTP_REMOTE_UDP_ENCAPS_PORT" => {
                let members = Members::of("sctp_udpencaps", value)?;
                let address = members.get("sue_address").map_or(Ok((None, None)), socket_address)?.0;
                let address = address.unwrap_or(self.addresses.remote);
                let scope = self.fds.scope(fd, members.or_zero("sue_assoc_id")?)?;
                let port = members.fitting("sue_port")?;
                self.sockets.set_remote_udp_port(self.now, socket, scope, address, port)?;
            }
            "SCTP_SET_PEER_PRIMARY_ADDR" => {
                let members = Members::of("sctp_setpeerprim", value)?;
                let address = members.get("sspp_addr").map_or(Ok((None, None)), socket_address)?.0;
                let scope = self.fds.scope(fd, members.or_zero("sspp_assoc_id")?)?;
                let address = address.unwrap_or(self.addresses.local);
                self.sockets.set_peer_primary(self.now, socket, scope, address)?;
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Converts the value that a script gives for the socket option `name` to an option of the engine, together with
    /// the association number. Returns `None` if the engine ignores the option, for example `SO_REUSEADDR`.
    fn option_of(&self, name: &str, value: &Value) -> Result<Option<(i64, SocketOption)>, CallError> {
        let int = || plain(value);
        let on = || plain(value).map(|n| n != 0);
        let some = |n: i64| u32::try_from(n).ok().filter(|&n| n > 0);
        let option = match name {
            "SO_LINGER" => {
                let linger = Members::of("linger", value)?;
                let seconds = linger.or_zero("linger")?;
                // RFC 6458 §8.1.4: the linger time must not be negative.
                let seconds = u32::try_from(seconds).map_err(|_| CallError::Errno(Errno::Invalid))?;
                (0, SocketOption::Linger((linger.or_zero("onoff")? != 0).then_some(seconds)))
            }
            "SO_RCVBUF" => (0, SocketOption::ReceiveBuffer(int()?.unsigned_abs())),
            "SO_SNDBUF" => (0, SocketOption::SendBuffer(int()?.unsigned_abs())),
            // These options do not change SCTP's behaviour on this host.
            "SO_REUSEADDR" | "SO_REUSEPORT" | "SO_KEEPALIVE" | "SO_DEBUG" => return int().map(|_| None),
            "SCTP_RTOINFO" => {
                let members = Members::of("sctp_rtoinfo", value)?;
                let rto = RtoInfo {
                    initial: millis(members.or_zero("srto_initial")?),
                    max: millis(members.or_zero("srto_max")?),
                    min: millis(members.or_zero("srto_min")?),
                };
                (members.or_zero("srto_assoc_id")?, SocketOption::RtoInfo(rto))
            }
            "SCTP_ASSOCINFO" => {
                let members = Members::of("sctp_assocparams", value)?;
                let info = AssocInfo {
                    max_retrans: some(members.or_zero("sasoc_asocmaxrxt")?),
                    cookie_life: millis(members.or_zero("sasoc_cookie_life")?),
                    ..AssocInfo::default()
                };
                (members.or_zero("sasoc_assoc_id")?, SocketOption::AssocInfo(info))
            }
            "SCTP_INITMSG" => (0, SocketOption::InitMsg(init_msg(value)?)),
            "SCTP_NODELAY" => (0, SocketOption::NoDelay(on()?)),
            "SCTP_AUTOCLOSE" => {
                let seconds = int()?.unsigned_abs();
                (0, SocketOption::Autoclose((seconds > 0).then(|| Duration::from_secs(seconds))))
            }
            "SCTP_PRIMARY_ADDR" => {
                let members = Members::of("sctp_setprim", value)?;
                let address = members.get("ssp_addr").map_or(Ok((None, None)), socket_address)?.0;
                let address = address.unwrap_or(self.addresses.remote);
                (members.or_zero("ssp_assoc_id")?, SocketOption::PrimaryAddress(address))
            }
            "SCTP_DISABLE_FRAGMENTS" => (0, SocketOption::DisableFragments(on()?)),
            "SCTP_PEER_ADDR_PARAMS" => {
                let members = Members::of("sctp_paddrparams", value)?;
                (members.or_zero("spp_assoc_id")?, SocketOption::PeerAddrParams(peer_addr_params(members)?))
            }
            "SCTP_MAXSEG" => {
                let (association, bytes) = assoc_value(value)?;
                (association, SocketOption::MaxSegment(some(bytes)))
            }
            "SCTP_DELAYED_SACK" => {
                // RFC 6458 §8.1.19: the older structure of this option sets only the delay.
                if let Ok((association, delay)) = assoc_value(value) {
                    let sack = DelayedSack { delay: millis(delay), every: None };
                    return Ok(Some((association, SocketOption::DelayedSack(sack))));
                }
                let members = Members::of("sctp_sack_info", value)?;
                let sack = DelayedSack {
                    delay: millis(members.or_zero("sack_delay")?),
                    every: some(members.or_zero("sack_freq")?),
                };
                (members.or_zero("sack_assoc_id")?, SocketOption::DelayedSack(sack))
            }
            "SCTP_FRAGMENT_INTERLEAVE" => {
                let level = match int()? {
                    0 => Fragmented::None,
                    1 => Fragmented::Associations,
                    2 => Fragmented::Streams,
                    _ => return Err(Errno::Invalid.into()),
                };
                (0, SocketOption::FragmentInterleave(level))
            }
            "SCTP_PARTIAL_DELIVERY_POINT" => (0, SocketOption::PartialDeliveryPoint(int()?.unsigned_abs())),
            "SCTP_MAX_BURST" => {
                let (association, packets) = assoc_value(value)?;
                (association, SocketOption::MaxBurst(some(packets)))
            }
            "SCTP_CONTEXT" => {
                let (association, context) = assoc_value(value)?;
                (association, SocketOption::Context(context as u32))
            }
            "SCTP_REUSE_PORT" => (0, SocketOption::ReusePort(on()?)),
            "SCTP_RECVRCVINFO" => (0, SocketOption::RecvRcvInfo(on()?)),
            "SCTP_STREAM_SCHEDULER" | "SCTP_PLUGGABLE_SS" => {
                let (association, kind) = assoc_value(value)?;
                (association, SocketOption::StreamScheduler(scheduler(kind)?))
            }
            "SCTP_ADAPTATION_LAYER" => {
                let members = Members::of("sctp_setadaptation", value)?;
                (0, SocketOption::Adaptation(Some(members.fitting("ssb_adaptation_ind")?)))
            }
            "SCTP_HMAC_IDENT" => {
                let members = Members::of("sctp_hmacalgo", value)?;
                let idents = members.numbers("shmac_idents")?;
                counted("shmac_number_of_idents", members, idents.len())?;
                // RFC 4895 §3.3: SHA-1 must be in the list of HMAC identifiers.
                let hmacs = match &idents[..] {
                    [1] => Hmacs::Sha1Only,
                    [3, 1] => Hmacs::Sha256First,
                    // The engine has no setting that prefers SHA-1 to SHA-256.
                    [1, 3] => return Err(Errno::NotSupported.into()),
                    _ => return Err(Errno::Invalid.into()),
                };
                (0, SocketOption::HmacIdents(hmacs))
            }
            "SCTP_AUTH_CHUNK" => {
                let members = Members::of("sctp_authchunk", value)?;
                (0, SocketOption::AuthChunk(members.fitting("sauth_chunk")?))
            }
            "SCTP_DEFAULT_SNDINFO" => {
                let association = Members::of("sctp_sndinfo", value)?.or_zero("snd_assoc_id")?;
                (association, SocketOption::DefaultSndInfo(self.snd_info(value)?))
            }
            "SCTP_DEFAULT_PRINFO" => {
                let association = Members::of("sctp_default_prinfo", value)?.or_zero("pr_assoc_id")?;
                (association, SocketOption::DefaultPrInfo(pr_info(value, "sctp_default_prinfo")?))
            }
            other => match supported(other) {
                Some(extension) => {
                    let (association, on) = assoc_value(value)?;
                    (association, SocketOption::Supported(extension, on != 0))
                }
                None => return wrong(format!("the option {other} is not known")),
            },
        };
        Ok(Some(option))
    }
}

/// Returns the number that a script gives alone or in a list of one item.
fn plain(value: &Value) -> Result<i64, CallError> {
    number(unboxed(value)).ok_or_else(|| CallError::Wrong(format!("{value} is no number that is known")))
}

/// Reads a `struct sctp_assoc_value`, or a number without a structure. Returns the association number and the value.
fn assoc_value(value: &Value) -> Result<(i64, i64), CallError> {
    if !matches!(unboxed(value), Value::Struct(_)) {
        return Ok((0, plain(value)?));
    }
    let members = Members::of("sctp_assoc_value", value)?;
    match members.number("assoc_value")? {
        Some(n) => Ok((members.or_zero("assoc_id")?, n)),
        None => wrong(format!("{value} has no assoc_value")),
    }
}

/// If the script sets the member `key`, which holds the number of other members, checks that it equals `found`.
fn counted(key: &str, members: Members<'_>, found: usize) -> Result<(), CallError> {
    match members.number(key)? {
        Some(count) if count != found as i64 => wrong(format!("{key}={count}, and there are {found}")),
        _ => Ok(()),
    }
}

/// RFC 6458 §8.1.12: reads a `struct sctp_paddrparams`, the parameters of a peer address.
fn peer_addr_params(members: Members<'_>) -> Result<PeerAddrParams, CallError> {
    /// The flags of `spp_flags` that scripts may set. The engine supports the effect of each of these flags.
    const KNOWN: i64 = 0x1 | 0x2 | 0x4 | 0x8 | 0x10 | 0x80 | 0x20 | 0x40;
    let flags = members.or_zero("spp_flags")?;
    if flags & 0x3 == 0x3 || flags & 0x18 == 0x18 {
        return Err(Errno::Invalid.into());
    }
    if flags & !KNOWN != 0 {
        return wrong(format!("spp_flags {:#x} are not supported", flags & !KNOWN));
    }
    // RFC 6458 §8.1.12: the MTU member is used when path MTU discovery is off.
    let fixed = if flags & 0x10 != 0 { members.or_zero("spp_pathmtu")? } else { 0 };
    if fixed != 0 {
        return wrong("an MTU that is set by hand is not supported");
    }
    for unused in ["spp_pathmtu", "spp_ipv6_flowlabel", "spp_dscp"] {
        members.number(unused)?;
    }
    let zero = flags & 0x80 != 0;
    Ok(PeerAddrParams {
        address: members.get("spp_address").map_or(Ok((None, None)), socket_address)?.0,
        heartbeats: match flags & 0x3 {
            1 => Some(true),
            2 => Some(false),
            _ => None,
        },
        interval: if zero { Some(Duration::ZERO) } else { millis(members.or_zero("spp_hbinterval")?) },
        max_retrans: u32::try_from(members.or_zero("spp_pathmaxrxt")?).ok().filter(|&n| n > 0),
        mtu: None,
        demand: flags & 0x4 != 0,
    })
}

/// RFC 8260 §4.3.2: returns the scheduler with this number. The numbers are FreeBSD's.
fn scheduler(kind: i64) -> Result<SchedulerKind, CallError> {
    Ok(match kind {
        0 | 5 => SchedulerKind::Fcfs,
        1 => SchedulerKind::RoundRobin,
        2 => SchedulerKind::RoundRobinPacket,
        3 => SchedulerKind::Priority,
        4 => SchedulerKind::Fair,
        6 => SchedulerKind::WeightedFair,
        _ => return Err(Errno::Invalid.into()),
    })
}
