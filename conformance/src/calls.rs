//! The system calls of a script, on sockets of the engine.
//!
//! Owns the descriptors: which number of the script is which socket, and
//! whether its calls may block. Options are in `options`.

use crate::constants::{compare, number};
use crate::notices;
use crate::run::{Failure, Machine};
use crate::script::{Call, Value};
use anabranch_base::time::Duration;
use anabranch_sctp::AssociationId;
use anabranch_sctp::socket::{
    Errno, How, Incoming, OptionName, PrInfo, Scope, SendInfo, SndInfo, SocketId, SocketOption, Style,
};
use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};

/// The descriptors of a script.
#[derive(Debug, Default)]
pub(crate) struct Fds {
    open: BTreeMap<i64, Fd>,
    /// The local port of the last socket that got one.
    port: Option<u16>,
    /// Associations that got a number, in order.
    associations: Vec<AssociationId>,
}

#[derive(Clone, Copy, Debug)]
struct Fd {
    socket: SocketId,
    style: Style,
    nonblocking: bool,
    /// A `connect` that may block is under way.
    connecting: bool,
}

/// Numbers below these are scopes (`SCTP_FUTURE_ASSOC` and its like).
const FIRST_ASSOCIATION: i64 = 3;

impl Fds {
    pub(crate) fn local_port(&self) -> Option<u16> {
        self.port
    }

    /// The number that a script knows an association by.
    pub(crate) fn number_of(&mut self, id: AssociationId) -> i64 {
        let at = self.associations.iter().position(|&known| known == id).unwrap_or_else(|| {
            self.associations.push(id);
            self.associations.len() - 1
        });
        at as i64 + FIRST_ASSOCIATION
    }

    pub(crate) fn association(&self, number: i64) -> Option<AssociationId> {
        let at = usize::try_from(number.checked_sub(FIRST_ASSOCIATION)?).ok()?;
        self.associations.get(at).copied()
    }

    /// What an association number in an option's value means.
    pub(crate) fn scope(&self, number: i64) -> Result<Scope, Stop> {
        match number {
            0 => Ok(Scope::Future),
            1 => Ok(Scope::Current),
            2 => Ok(Scope::All),
            _ => self.association(number).map(Scope::One).ok_or(Stop::Errno(Errno::NoAssociation)),
        }
    }
}

/// Why a call did not succeed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Stop {
    /// As calls fail.
    Errno(Errno),
    /// The script asks for something that is not understood.
    Wrong(String),
    /// It succeeded, and gave out something else than expected.
    Differs(String),
}

impl From<Errno> for Stop {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

pub(crate) fn wrong<T>(what: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Wrong(what.into()))
}

/// Compares what a call gives out.
pub(crate) fn differs(what: &str, expected: &Value, seen: &Value) -> Result<(), Stop> {
    compare(what, expected, seen).map_err(Stop::Differs)
}

/// Largest buffer of a read.
const MOST: i64 = 1 << 20;

impl Machine {
    /// Does a call and compares its result. `None`: it blocks, and may.
    pub(crate) fn call(&mut self, call: &Call, may_block: bool) -> Result<Option<String>, Failure> {
        let outcome = self.perform(call);
        let fd = call.args.first().and_then(Value::int).and_then(|fd| self.fds.open.get(&fd)).copied();
        let blocks = matches!(outcome, Err(Stop::Errno(Errno::Again | Errno::InProgress | Errno::Already)));
        if blocks && may_block && fd.is_none_or(|fd| !fd.nonblocking) {
            return Ok(None);
        }
        let seen = match &outcome {
            Ok(value) => value.to_string(),
            Err(Stop::Errno(errno)) => format!("-1 {}", errno.name()),
            Err(Stop::Wrong(why)) => format!("this call is not understood: {why}"),
            Err(Stop::Differs(why)) => why.clone(),
        };
        let shown = format!("{call} = {seen}");
        self.note(shown.clone());
        let wanted = number(&call.result);
        let errno = call.errno.as_deref().map(|name| (name, Errno::named(name)));
        let matches = match &outcome {
            Ok(value) => call.result.is_any() || (wanted == Some(*value) && errno.is_none()),
            Err(Stop::Errno(seen)) => {
                call.result.is_any()
                    || (wanted == Some(-1) && errno.is_none_or(|(_, known)| known == Some(*seen)))
            }
            Err(_) => false,
        };
        if matches {
            return Ok(Some(shown));
        }
        let errno = errno.map_or(String::new(), |(name, _)| format!(" {name}"));
        let why = match (&outcome, blocks) {
            (Err(Stop::Differs(_)), _) => "the call gave out something else",
            (_, true) => "the call would block",
            _ => "the call returned something else",
        };
        Err(Failure {
            line: 0,
            why: why.to_owned(),
            expected: format!("{call} = {}{errno}", call.result),
            seen,
        })
    }

    fn perform(&mut self, call: &Call) -> Result<i64, Stop> {
        let args = Args(&call.args);
        match call.name.as_str() {
            "socket" => self.call_socket(args, &call.result),
            "bind" | "sctp_bindx" => self.call_bind(args),
            "listen" => {
                let fd = self.fd(args)?;
                let backlog = usize::try_from(args.int(1)?).unwrap_or(0);
                self.sockets.listen(fd.socket, backlog)?;
                self.note_port(fd.socket);
                Ok(0)
            }
            "connect" | "sctp_connectx" => self.call_connect(args, &call.name),
            "accept" => {
                let fd = self.fd(args)?;
                let socket = self.sockets.accept(fd.socket)?;
                Ok(self.open(socket, Style::OneToOne, &call.result))
            }
            "sctp_peeloff" => {
                let fd = self.fd(args)?;
                let Some(association) = self.fds.association(args.int(1)?) else {
                    return Err(Errno::NoAssociation.into());
                };
                let socket = self.sockets.peel_off(fd.socket, association)?;
                Ok(self.open(socket, Style::OneToOne, &call.result))
            }
            "close" => {
                let fd = self.fd(args)?;
                self.fds.open.remove(&args.int(0)?);
                self.sockets.close(self.now, fd.socket)?;
                Ok(0)
            }
            "shutdown" => {
                let fd = self.fd(args)?;
                let how = match args.number(1)? {
                    0 => How::Read,
                    1 => How::Write,
                    2 => How::Both,
                    other => return wrong(format!("{other} is no direction")),
                };
                self.sockets.shutdown(self.now, fd.socket, how)?;
                Ok(0)
            }
            "fcntl" => self.call_fcntl(args),
            "setsockopt" => self.call_setsockopt(args),
            "getsockopt" => self.call_getsockopt(args),
            "sctp_opt_info" => self.call_opt_info(args),
            "poll" => self.call_poll(args),
            "read" | "recv" => {
                let fd = self.fd(args)?;
                self.receive(fd, args.int(2)?, &Value::Any).map(|got| got.bytes)
            }
            "recvfrom" => {
                let fd = self.fd(args)?;
                self.receive(fd, args.int(2)?, &Value::Any).map(|got| got.bytes)
            }
            "readv" => {
                let fd = self.fd(args)?;
                self.receive(fd, iov_length(args.at(1)?)?, &Value::Any).map(|got| got.bytes)
            }
            "recvmsg" => self.call_recvmsg(args),
            "sctp_recvmsg" => self.call_sctp_recvmsg(args),
            "sctp_recvv" => self.call_sctp_recvv(args),
            "write" | "send" => self.transmit(args, args.int(2)?, None, None),
            "sendto" => {
                let to = args.0.get(4).cloned().unwrap_or(Value::Any);
                self.transmit(args, args.int(2)?, Some(&to), None)
            }
            "writev" => self.transmit(args, iov_length(args.at(1)?)?, None, None),
            "sendmsg" => {
                let message = args.at(1)?;
                let length = message.member("msg_iov").map_or(Ok(0), iov_length)?;
                self.transmit(args, length, message.member("msg_name"), None)
            }
            "sctp_sendmsg" => self.call_sctp_sendmsg(args),
            "sctp_send" | "sctp_sendx" => self.call_sctp_send(args, &call.name),
            "sctp_sendv" => self.call_sctp_sendv(args),
            "sctp_getpaddrs" | "sctp_getladdrs" => self.call_addresses(args, &call.name),
            "sctp_freepaddrs" | "sctp_freeladdrs" => Ok(0),
            other => wrong(format!("there is no call {other}")),
        }
    }

    fn fd(&self, args: Args<'_>) -> Result<Fd, Stop> {
        self.fds.open.get(&args.int(0)?).copied().ok_or(Stop::Errno(Errno::BadSocket))
    }

    pub(crate) fn socket_of(&self, args: Args<'_>) -> Result<SocketId, Stop> {
        self.fd(args).map(|fd| fd.socket)
    }

    /// Gives a socket the number that the script expects, or the lowest that is free.
    fn open(&mut self, socket: SocketId, style: Style, wanted: &Value) -> i64 {
        let taken = |fd: &i64| self.fds.open.contains_key(fd);
        let wanted = wanted.int().filter(|fd| *fd >= 0 && !taken(fd));
        let fd = wanted.or_else(|| (3..).find(|fd| !taken(fd))).unwrap_or(3);
        self.fds.open.insert(fd, Fd { socket, style, nonblocking: false, connecting: false });
        fd
    }

    fn note_port(&mut self, socket: SocketId) {
        self.fds.port = self.sockets.local_port(socket).ok().filter(|&port| port != 0).or(self.fds.port);
    }

    fn call_socket(&mut self, args: Args<'_>, wanted: &Value) -> Result<i64, Stop> {
        let style = match args.at(1)? {
            Value::Word(name) if name == "SOCK_SEQPACKET" => Style::OneToMany,
            Value::Word(name) if name == "SOCK_STREAM" => Style::OneToOne,
            other => return wrong(format!("{other} is no kind of socket")),
        };
        if args.number(2)? != 132 {
            return wrong("only SCTP is spoken here");
        }
        let socket = self.sockets.socket(style);
        Ok(self.open(socket, style, wanted))
    }

    fn call_bind(&mut self, args: Args<'_>) -> Result<i64, Stop> {
        let fd = self.fd(args)?;
        let (_, port) = socket_address(args.at(1)?);
        self.sockets.bind(fd.socket, port.unwrap_or(self.place.bind_port))?;
        self.note_port(fd.socket);
        Ok(0)
    }

    fn call_connect(&mut self, args: Args<'_>, name: &str) -> Result<i64, Stop> {
        let fd = self.fd(args)?;
        let target = match args.at(1)? {
            Value::List(items) => items.clone(),
            other => vec![other.clone()],
        };
        let mut peers = Vec::new();
        let mut port = self.place.connect_port;
        for address in &target {
            let (ip, told) = socket_address(address);
            peers.push(SocketAddr::new(ip.unwrap_or(self.place.remote), 0));
            port = told.unwrap_or(port);
        }
        if fd.connecting {
            // A call that blocked looks again.
            let SocketOption::Error(error) =
                self.sockets.option(fd.socket, Scope::Future, OptionName::Error)?
            else {
                return wrong("SO_ERROR");
            };
            if let Some(error) = error {
                return Err(error.into());
            }
        }
        if name == "connect"
            && let Some(&peer) = peers.first()
        {
            peers = vec![peer];
        }
        let outcome = self.sockets.connect(self.now, fd.socket, &peers, port);
        self.note_port(fd.socket);
        if let Some(open) = args.int(0).ok().and_then(|number| self.fds.open.get_mut(&number)) {
            open.connecting = !open.nonblocking;
        }
        match outcome {
            Err(Errno::IsConnected) if fd.connecting => Ok(0),
            Err(errno) => Err(errno.into()),
            Ok(_) => Ok(0),
        }
    }

    fn call_fcntl(&mut self, args: Args<'_>) -> Result<i64, Stop> {
        let fd = self.fd(args)?;
        match args.number(1)? {
            3 => Ok(2 | if fd.nonblocking { 4 } else { 0 }),
            4 => {
                let flags = args.number(2)?;
                if let Some(open) = self.fds.open.get_mut(&args.int(0)?) {
                    open.nonblocking = flags & 4 != 0;
                }
                Ok(0)
            }
            other => wrong(format!("fcntl {other}")),
        }
    }

    fn call_poll(&mut self, args: Args<'_>) -> Result<i64, Stop> {
        let Value::List(items) = args.at(0)? else { return wrong("a list of descriptors is expected") };
        let mut ready = 0;
        let mut checks = Vec::new();
        for item in items {
            let fd = item.member("fd").and_then(Value::int).and_then(|fd| self.fds.open.get(&fd));
            let fd = fd.copied().ok_or(Stop::Errno(Errno::BadSocket))?;
            let wanted = item.member("events").and_then(number).unwrap_or(0);
            let state = self.sockets.poll(fd.socket)?;
            let bits = [(state.readable, 1), (state.writable, 4), (state.error, 8), (state.hung_up, 0x10)];
            let all: i64 = bits.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum();
            // Errors and ends are told unasked.
            let seen = all & (wanted | 8 | 0x10);
            ready += i64::from(seen != 0);
            checks.push((item.member("revents").cloned().unwrap_or(Value::Any), Value::Int(seen)));
        }
        let timeout = args.0.get(2).and_then(number).unwrap_or(0);
        if ready == 0 && timeout != 0 {
            return Err(Errno::Again.into());
        }
        checks.iter().try_for_each(|(expected, seen)| differs("revents", expected, seen))?;
        Ok(ready)
    }

    // Sending.

    /// Sends `length` bytes, to `peer` if there is one.
    fn transmit(
        &mut self,
        args: Args<'_>,
        length: i64,
        peer: Option<&Value>,
        info: Option<SendInfo>,
    ) -> Result<i64, Stop> {
        let fd = self.fd(args)?;
        if !(0..=MOST).contains(&length) {
            return wrong(format!("{length} bytes"));
        }
        let payload = vec![b'A'; length as usize];
        let default = self.sockets.default_info(fd.socket)?;
        let info = info.unwrap_or(default);
        let peer = peer.filter(|peer| !matches!(peer, Value::Int(0)) && !is_null(peer));
        let named = info.snd.association.is_some();
        let sent = match (fd.style, peer) {
            (Style::OneToMany, peer) if !named => {
                let (ip, port) = peer.map_or((None, None), socket_address);
                let to = SocketAddr::new(ip.unwrap_or(self.place.remote), 0);
                let port = port.unwrap_or(self.place.connect_port);
                self.sockets.send_to(self.now, fd.socket, &payload, to, port, info)
            }
            _ => self.sockets.send(self.now, fd.socket, &payload, info),
        };
        self.note_port(fd.socket);
        Ok(sent? as i64)
    }

    fn snd_info(&self, value: &Value, prefix: &str) -> Result<SndInfo, Stop> {
        let field = |name: &str| value.member(&format!("{prefix}{name}")).and_then(number).unwrap_or(0);
        let flags = field("flags");
        let sid = if prefix == "sinfo_" { field("stream") } else { field("sid") };
        let ppid = value.member(&format!("{prefix}ppid")).and_then(number).unwrap_or(0);
        Ok(SndInfo {
            stream: u16::try_from(sid).map_err(|_| Stop::Wrong(format!("stream {sid}")))?,
            ppid: ppid as u32,
            context: field("context") as u32,
            association: self.fds.association(field("assoc_id")),
            ..flagged(flags)
        })
    }

    fn call_sctp_sendmsg(&mut self, args: Args<'_>) -> Result<i64, Stop> {
        let field = |at: usize| args.0.get(at).and_then(number).unwrap_or(0);
        let stream = u16::try_from(field(7)).map_err(|_| Stop::Wrong("a stream number".to_owned()))?;
        let snd = SndInfo { ppid: field(5) as u32, stream, context: field(9) as u32, ..flagged(field(6)) };
        let lifetime = field(8);
        let pr = if lifetime > 0 { PrInfo::Lifetime(lifetime as u32) } else { PrInfo::Reliable };
        let to = args.0.get(3).cloned().unwrap_or(Value::Any);
        self.transmit(args, args.int(2)?, Some(&to), Some(SendInfo { snd, pr, auth: None }))
    }

    fn call_sctp_send(&mut self, args: Args<'_>, name: &str) -> Result<i64, Stop> {
        let (to, info) = if name == "sctp_send" { (None, 3) } else { (args.0.get(3).cloned(), 5) };
        let snd = match args.0.get(info) {
            Some(value @ Value::Struct(_)) => Some(self.snd_info(value, "sinfo_")?.into()),
            _ => None,
        };
        self.transmit(args, args.int(2)?, to.as_ref(), snd)
    }

    fn call_sctp_sendv(&mut self, args: Args<'_>) -> Result<i64, Stop> {
        let length = iov_length(args.at(1)?)?;
        let to = match args.0.get(3) {
            Some(Value::List(items)) => items.first().cloned(),
            other => other.cloned(),
        };
        let value = args.0.get(5).cloned().unwrap_or(Value::Any);
        let default = self.sockets.default_info(self.socket_of(args)?)?;
        let info = match args.0.get(7).and_then(number).unwrap_or(0) {
            0 => None,
            1 => Some(self.snd_info(&value, "snd_")?.into()),
            2 => Some(SendInfo { pr: pr_info(&value), ..default }),
            4 => {
                let snd = value.member("sendv_sndinfo").map(|value| self.snd_info(value, "snd_"));
                let pr = value.member("sendv_prinfo").map_or(PrInfo::Reliable, pr_info);
                Some(SendInfo { snd: snd.transpose()?.unwrap_or(default.snd), pr, auth: None })
            }
            other => return wrong(format!("information of type {other}")),
        };
        self.transmit(args, length, to.as_ref(), info)
    }

    // Receiving.

    /// Reads once. A notification is compared with `content`, if that is one.
    fn receive(&mut self, fd: Fd, size: i64, content: &Value) -> Result<Got, Stop> {
        if !(0..=MOST).contains(&size) {
            return wrong(format!("{size} bytes"));
        }
        let mut buffer = vec![0; size as usize];
        match self.sockets.recv(self.now, fd.socket, &mut buffer)? {
            Incoming::EndOfFile => Ok(Got::default()),
            Incoming::Data { bytes, end_of_record, info, next } => {
                let flags = if info.unordered { 0x0400 } else { 0 };
                let member = |name: &str, n: i64| (name.to_owned(), Value::Int(n));
                let association = self.fds.number_of(info.association);
                let seen = |prefix: &str, sid: &str| {
                    Value::Struct(vec![
                        member(&format!("{prefix}{sid}"), info.stream.into()),
                        member(&format!("{prefix}ssn"), info.ssn.into()),
                        member(&format!("{prefix}flags"), flags),
                        member(&format!("{prefix}ppid"), info.ppid.into()),
                        member(&format!("{prefix}tsn"), info.tsn.into()),
                        member(&format!("{prefix}cumtsn"), info.cumulative_tsn.into()),
                        member(&format!("{prefix}context"), info.context.into()),
                        member(&format!("{prefix}assoc_id"), association),
                    ])
                };
                let next = next.map(|next| {
                    Value::Struct(vec![
                        member("nxt_sid", next.stream.into()),
                        member("nxt_flags", if next.notification { 0x2000 } else { 0 }),
                        member("nxt_length", next.length as i64),
                        member("nxt_assoc_id", association),
                    ])
                });
                let flags = if end_of_record { 8 } else { 0 };
                let (rcv, sinfo) = (seen("rcv_", "sid"), seen("sinfo_", "stream"));
                Ok(Got { bytes: bytes as i64, flags, rcv, sinfo, next })
            }
            Incoming::Notification(notification) => {
                let number = self.fds.number_of(notification.association());
                let (seen, length) = notices::describe(&notification, number);
                if let Value::Struct(_) = content {
                    differs("the notification", content, &seen)?;
                }
                // It is cut where the buffer ends; whole it ends a record.
                let flags = 0x2000 | if length <= size { 8 } else { 0 };
                Ok(Got { bytes: length.min(size), flags, ..Got::default() })
            }
        }
    }

    fn call_recvmsg(&mut self, args: Args<'_>) -> Result<i64, Stop> {
        let fd = self.fd(args)?;
        let message = args.at(1)?;
        let iov = message.member("msg_iov").cloned().unwrap_or(Value::Any);
        let got = self.receive(fd, iov_length(&iov)?, &iov_content(&iov))?;
        if let Some(expected) = message.member("msg_flags") {
            differs("msg_flags", expected, &Value::Int(got.flags))?;
        }
        Ok(got.bytes)
    }

    fn call_sctp_recvmsg(&mut self, args: Args<'_>) -> Result<i64, Stop> {
        let fd = self.fd(args)?;
        let got = self.receive(fd, args.int(2)?, args.at(1)?)?;
        if let Some(expected @ Value::Struct(_)) = args.0.get(5) {
            differs("the information", expected, &got.sinfo)?;
        }
        if let Some(expected) = args.0.get(6) {
            differs("flags", unboxed(expected), &Value::Int(got.flags))?;
        }
        Ok(got.bytes)
    }

    fn call_sctp_recvv(&mut self, args: Args<'_>) -> Result<i64, Stop> {
        let fd = self.fd(args)?;
        let iov = args.at(1)?;
        let got = self.receive(fd, iov_length(iov)?, &iov_content(iov))?;
        match args.0.get(5) {
            Some(expected) if expected.member("recvv_rcvinfo").is_some() => {
                differs("recvv_rcvinfo", expected.member("recvv_rcvinfo").unwrap_or(&Value::Any), &got.rcv)?;
                let next = got.next.unwrap_or(Value::Struct(Vec::new()));
                differs("recvv_nxtinfo", expected.member("recvv_nxtinfo").unwrap_or(&Value::Any), &next)?;
            }
            Some(expected @ Value::Struct(_)) => differs("the information", expected, &got.rcv)?,
            _ => {}
        }
        if let Some(expected) = args.0.get(8) {
            differs("flags", unboxed(expected), &Value::Int(got.flags))?;
        }
        Ok(got.bytes)
    }

    fn call_addresses(&mut self, args: Args<'_>, name: &str) -> Result<i64, Stop> {
        let fd = self.fd(args)?;
        let association = args.0.get(1).and_then(Value::int).and_then(|n| self.fds.association(n));
        let association = association.or_else(|| self.sockets.associations(fd.socket).first().copied());
        let endpoint = self.sockets.endpoint();
        let peers = association.and_then(|id| endpoint.info(id)).map_or(0, |info| info.paths.len());
        Ok(if name == "sctp_getpaddrs" { peers } else { endpoint.addresses().len() } as i64)
    }
}

/// What a read has given.
#[derive(Debug)]
struct Got {
    bytes: i64,
    flags: i64,
    rcv: Value,
    sinfo: Value,
    next: Option<Value>,
}

impl Default for Got {
    fn default() -> Self {
        let none = Value::Struct(Vec::new());
        Self { bytes: 0, flags: 0, rcv: none.clone(), sinfo: none, next: None }
    }
}

/// The arguments of a call.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a>(pub(crate) &'a [Value]);

impl<'a> Args<'a> {
    pub(crate) fn at(self, at: usize) -> Result<&'a Value, Stop> {
        self.0.get(at).ok_or_else(|| Stop::Wrong(format!("argument {} is missing", at + 1)))
    }

    pub(crate) fn int(self, at: usize) -> Result<i64, Stop> {
        let value = self.at(at)?;
        value.int().ok_or_else(|| Stop::Wrong(format!("{value} is no integer")))
    }

    pub(crate) fn number(self, at: usize) -> Result<i64, Stop> {
        let value = self.at(at)?;
        number(value).ok_or_else(|| Stop::Wrong(format!("{value} is not known")))
    }
}

fn flagged(flags: i64) -> SndInfo {
    SndInfo {
        eof: flags & 0x0100 != 0,
        abort: flags & 0x0200 != 0,
        unordered: flags & 0x0400 != 0,
        immediate: flags & 0x4000 != 0,
        ..SndInfo::default()
    }
}

fn pr_info(value: &Value) -> PrInfo {
    let amount = value.member("pr_value").and_then(number).unwrap_or(0) as u32;
    match value.member("pr_policy").and_then(number) {
        Some(1) => PrInfo::Lifetime(amount),
        Some(2) => PrInfo::Priority(amount),
        Some(3) => PrInfo::Retransmissions(amount),
        _ => PrInfo::Reliable,
    }
}

fn is_null(value: &Value) -> bool {
    matches!(value, Value::Word(name) if name == "NULL")
}

/// `[value]` as `value`.
pub(crate) fn unboxed(value: &Value) -> &Value {
    match value {
        Value::List(items) if items.len() == 1 => &items[0],
        other => other,
    }
}

/// Bytes in all of `[{…, length}, …]`.
fn iov_length(iov: &Value) -> Result<i64, Stop> {
    let Value::List(items) = iov else { return wrong(format!("{iov} is no list of buffers")) };
    let mut total: i64 = 0;
    for item in items {
        let Value::Struct(parts) = item else { return wrong(format!("{item} is no buffer")) };
        let named = item.member("iov_len").and_then(Value::int);
        let length = named.or_else(|| parts.last().and_then(|(_, value)| value.int()));
        total = total.saturating_add(length.ok_or_else(|| Stop::Wrong(format!("{item} has no length")))?);
    }
    Ok(total)
}

/// What the first buffer is to hold, if the script says so.
fn iov_content(iov: &Value) -> Value {
    let Value::List(items) = iov else { return Value::Any };
    match items.first() {
        Some(Value::Struct(parts)) => parts.first().map_or(Value::Any, |(_, value)| value.clone()),
        _ => Value::Any,
    }
}

/// Address and port of `{sa_family=…, sin_port=htons(…), sin_addr=inet_addr("…")}`.
pub(crate) fn socket_address(value: &Value) -> (Option<IpAddr>, Option<u16>) {
    let port = value.member("sin_port").and_then(number).and_then(|n| u16::try_from(n).ok());
    let address = match value.member("sin_addr") {
        Some(Value::Call(_, args)) => match args.last() {
            Some(Value::Text(text)) => text.parse().ok(),
            Some(Value::Address(address)) => Some(*address),
            _ => None,
        },
        _ => None,
    };
    (address, port)
}

/// Milliseconds as a span; 0 leaves a value as it is.
pub(crate) fn millis(n: i64) -> Option<Duration> {
    u64::try_from(n).ok().filter(|&n| n > 0).map(Duration::from_millis)
}
