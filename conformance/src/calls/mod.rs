//! Executes the system calls of a packetdrill script on sockets of the SCTP engine.
//!
//! This module executes system calls and compares their results with those in the script. Descriptors are in
//! `descriptors`, messages in `send` and `receive`, their ancillary data in `ancillary`, and socket options in
//! `options`.

mod ancillary;
mod args;
mod descriptors;
mod receive;
mod send;

pub(crate) use ancillary::{init_msg, pr_info};
use args::is_null;
pub(crate) use args::{Args, CallError, address_value, differs, millis, socket_address, unboxed, wrong};
pub(crate) use descriptors::{Fd, Fds};

use crate::constants::number;
use crate::members::Members;
use crate::run::{Failure, FailureKind, Machine};
use crate::script::{Call, Value};
use anabranch_sctp::socket::{Errno, OptionName, Scope, ShutdownHow, SocketId, SocketOption, Style};
use descriptors::LegacyOptions;
use std::net::{IpAddr, SocketAddr};

/// The names of the supported system calls, each with the minimum and the maximum number of its arguments.
const CALLS: &[(&str, usize, usize)] = &[
    ("socket", 3, 3),
    ("bind", 3, 3),
    ("listen", 2, 2),
    ("accept", 3, 3),
    ("connect", 3, 3),
    ("read", 3, 3),
    ("readv", 3, 3),
    ("recv", 4, 4),
    ("recvfrom", 6, 6),
    ("recvmsg", 3, 3),
    ("write", 3, 3),
    ("writev", 3, 3),
    ("send", 4, 4),
    ("sendto", 6, 6),
    ("sendmsg", 3, 3),
    ("fcntl", 2, 3),
    ("close", 1, 1),
    ("shutdown", 2, 2),
    ("getsockopt", 5, 5),
    ("setsockopt", 5, 5),
    ("poll", 3, 3),
    ("sctp_opt_info", 5, 5),
    ("sctp_bindx", 4, 4),
    ("sctp_peeloff", 2, 2),
    ("sctp_getpaddrs", 3, 3),
    ("sctp_freepaddrs", 1, 1),
    ("sctp_getladdrs", 3, 3),
    ("sctp_freeladdrs", 1, 1),
    ("sctp_sendmsg", 10, 10),
    ("sctp_recvmsg", 7, 7),
    ("sctp_connectx", 3, 4),
    ("sctp_send", 5, 5),
    ("sctp_sendx", 7, 7),
    ("sctp_sendv", 9, 9),
    ("sctp_recvv", 9, 9),
];

impl Machine {
    /// Executes a system call and compares its result with the script. Returns `None` if the call blocks and
    /// `may_block` is set.
    pub(crate) fn call(&mut self, call: &Call, may_block: bool) -> Result<Option<String>, Failure> {
        self.know_associations();
        let outcome = self.perform(call);
        let fd = call.args.first().and_then(Value::int).and_then(|fd| self.fds.open.get(&fd)).copied();
        if let Err(CallError::Wrong(what)) = outcome {
            return Err(Failure::misunderstood(format!("{}: {what}", call.name)));
        }
        let blocks =
            matches!(outcome, Err(CallError::Errno(Errno::Again | Errno::InProgress | Errno::Already)));
        if blocks && may_block && fd.is_none_or(|fd| !fd.nonblocking) {
            return Ok(None);
        }
        let seen = match &outcome {
            Ok(value) => value.to_string(),
            Err(CallError::Errno(errno)) => format!("-1 {}", errno.name()),
            Err(CallError::Wrong(why) | CallError::Differs(why)) => why.clone(),
        };
        let shown = format!("{call} = {seen}");
        self.note(shown.clone());
        let expected_result = number(&call.result);
        if expected_result.is_none() && !call.result.is_any() {
            let what = format!("{} returns a number, not {}", call.name, call.result);
            return Err(Failure::misunderstood(what));
        }
        let errno = call.errno.as_deref().map(|name| (name, Errno::named(name)));
        let matches = match &outcome {
            Ok(value) => call.result.is_any() || (expected_result == Some(*value) && errno.is_none()),
            Err(CallError::Errno(seen)) => {
                call.result.is_any()
                    || (expected_result == Some(-1) && errno.is_none_or(|(_, known)| known == Some(*seen)))
            }
            Err(_) => false,
        };
        if matches {
            return Ok(Some(shown));
        }
        let errno = errno.map_or(String::new(), |(name, _)| format!(" {name}"));
        let why = match (&outcome, blocks) {
            (Err(CallError::Differs(_)), _) => "the call gave out something else",
            (_, true) => "the call would block",
            _ => "the call returned something else",
        };
        Err(Failure {
            line: 0,
            kind: FailureKind::Differs,
            reason: why.to_owned(),
            expected: format!("{call} = {}{errno}", call.result),
            observed: seen,
        })
    }

    fn perform(&mut self, call: &Call) -> Result<i64, CallError> {
        let args = Args(&call.args);
        let Some(&(_, fewest, most)) = CALLS.iter().find(|(name, ..)| *name == call.name) else {
            return wrong("there is no such call");
        };
        if !(fewest..=most).contains(&args.0.len()) {
            return wrong(format!("it takes {fewest} to {most} arguments, not {}", args.0.len()));
        }
        match call.name.as_str() {
            "socket" => self.call_socket(args, &call.result),
            "bind" => self.call_bind(args),
            "sctp_bindx" => self.call_bindx(args),
            "listen" => {
                let fd = self.fd(args)?;
                let backlog = usize::try_from(args.int(1)?).unwrap_or(0);
                self.sockets.listen(fd.socket, backlog)?;
                self.note_port(fd.socket);
                Ok(0)
            }
            "connect" | "sctp_connectx" => self.call_connect(args, call),
            "accept" => {
                let fd = self.fd(args)?;
                let socket = self.sockets.accept(fd.socket)?;
                let legacy = fd.legacy;
                Ok(self.open(socket, Style::OneToOne, legacy, &call.result))
            }
            "sctp_peeloff" => {
                let fd = self.fd(args)?;
                let Some(association) = self.fds.association(args.int(1)?) else {
                    return Err(Errno::NoAssociation.into());
                };
                let socket = self.sockets.peel_off(fd.socket, association)?;
                Ok(self.open(socket, Style::OneToOne, fd.legacy, &call.result))
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
                    0 => ShutdownHow::Read,
                    1 => ShutdownHow::Write,
                    2 => ShutdownHow::Both,
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
            "read" | "recv" | "recvfrom" => self.call_read(args),
            "readv" => self.call_readv(args),
            "recvmsg" => self.call_recvmsg(args),
            "sctp_recvmsg" => self.call_sctp_recvmsg(args),
            "sctp_recvv" => self.call_sctp_recvv(args),
            "write" | "send" => self.call_write(args),
            "sendto" => self.call_sendto(args),
            "writev" => self.call_writev(args),
            "sendmsg" => self.call_sendmsg(args),
            "sctp_sendmsg" => self.call_sctp_sendmsg(args),
            "sctp_send" => self.call_sctp_send(args),
            "sctp_sendx" => self.call_sctp_sendx(args),
            "sctp_sendv" => self.call_sctp_sendv(args),
            "sctp_getpaddrs" | "sctp_getladdrs" => self.call_addresses(args, &call.name),
            "sctp_freepaddrs" | "sctp_freeladdrs" => Ok(0),
            _ => wrong("there is no such call"),
        }
    }

    /// Gives every new association a number for the script, in the order in which the associations were established.
    fn know_associations(&mut self) {
        let sockets: Vec<SocketId> = self.fds.open.values().map(|fd| fd.socket).collect();
        for association in sockets.into_iter().flat_map(|socket| self.sockets.associations(socket)) {
            self.fds.number_of(association);
        }
    }

    pub(crate) fn fd(&self, args: Args<'_>) -> Result<Fd, CallError> {
        self.fds.open.get(&args.int(0)?).copied().ok_or(CallError::Errno(Errno::BadSocket))
    }

    /// Gives a new socket the descriptor that the script expects, or the lowest free descriptor.
    fn open(&mut self, socket: SocketId, style: Style, legacy: LegacyOptions, requested_fd: &Value) -> i64 {
        let taken = |fd: &i64| self.fds.open.contains_key(fd);
        let requested_fd = requested_fd.int().filter(|fd| *fd >= 0 && !taken(fd));
        let fd = requested_fd.or_else(|| (3..).find(|fd| !taken(fd))).unwrap_or(3);
        self.fds.open.insert(fd, Fd { socket, style, nonblocking: false, connecting: false, legacy });
        fd
    }

    fn note_port(&mut self, socket: SocketId) {
        self.fds.port = self.sockets.local_port(socket).ok().filter(|&port| port != 0).or(self.fds.port);
    }

    fn call_socket(&mut self, args: Args<'_>, requested_fd: &Value) -> Result<i64, CallError> {
        let style = match args.at(1)? {
            Value::Word(name) if name == "SOCK_SEQPACKET" => Style::OneToMany,
            Value::Word(name) if name == "SOCK_STREAM" => Style::OneToOne,
            other => return wrong(format!("{other} is no kind of socket")),
        };
        if args.number(2)? != 132 {
            return wrong("only SCTP is spoken here");
        }
        let socket = self.sockets.socket(style);
        Ok(self.open(socket, style, LegacyOptions::default(), requested_fd))
    }

    fn call_bind(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        let fd = self.fd(args)?;
        let (address, port) = socket_address(args.at(1)?)?;
        self.own_address(address)?;
        self.sockets.bind(fd.socket, port.unwrap_or(self.addresses.bind_port))?;
        self.note_port(fd.socket);
        Ok(0)
    }

    /// Checks that a socket can be bound to this address. Every socket has all addresses of the endpoint, and no other
    /// addresses.
    fn own_address(&self, address: Option<IpAddr>) -> Result<(), CallError> {
        let has = |ip: IpAddr| self.sockets.endpoint().addresses().iter().any(|own| own.ip() == ip);
        match address {
            Some(address) if !address.is_unspecified() && !has(address) => {
                Err(Errno::AddressNotAvailable.into())
            }
            _ => Ok(()),
        }
    }

    /// RFC 6458 §9.1 (`sctp_bindx`): binds the socket if it has no local port yet. Otherwise adds or removes addresses.
    fn call_bindx(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        let fd = self.fd(args)?;
        let open = vec![Value::Any];
        let addresses = match args.at(1)? {
            Value::List(items) => items,
            Value::Any => &open,
            other => return wrong(format!("{other} is no list of addresses")),
        };
        let adds = match args.number(3)? {
            0x8001 => true,
            0x8002 => false,
            other => return wrong(format!("{other} is neither SCTP_BINDX_ADD_ADDR nor SCTP_BINDX_REM_ADDR")),
        };
        let bound = self.sockets.local_port(fd.socket)? != 0;
        if !bound && !adds {
            return Err(Errno::Invalid.into());
        }
        for value in addresses {
            let (address, port) = socket_address(value)?;
            self.own_address(address)?;
            if self.sockets.local_port(fd.socket)? == 0 {
                self.sockets.bind(fd.socket, port.unwrap_or(self.addresses.bind_port))?;
                self.note_port(fd.socket);
                continue;
            }
            let association = self.sockets.associations(fd.socket).first().copied();
            if let (Some(association), Some(address)) = (association, address) {
                let scope = Scope::One(association);
                self.sockets.use_address(self.now, fd.socket, scope, address, adds)?;
            }
        }
        Ok(0)
    }

    fn call_connect(&mut self, args: Args<'_>, call: &Call) -> Result<i64, CallError> {
        let fd = self.fd(args)?;
        let target = match args.at(1)? {
            Value::List(items) => items.clone(),
            other => vec![other.clone()],
        };
        let mut peers = Vec::new();
        let mut port = self.addresses.connect_port;
        for address in &target {
            let (ip, scripted_port) = socket_address(address)?;
            peers.push(SocketAddr::new(ip.unwrap_or(self.addresses.remote), 0));
            port = scripted_port.unwrap_or(port);
        }
        if fd.connecting {
            // The `connect` call blocked before and is now repeated. The association may have failed since then, so
            // this is checked first.
            let SocketOption::Error(error) =
                self.sockets.option(fd.socket, Scope::Future, OptionName::Error)?
            else {
                return wrong("SO_ERROR");
            };
            if let Some(error) = error {
                return Err(error.into());
            }
        }
        if call.name == "connect"
            && let Some(&peer) = peers.first()
        {
            peers = vec![peer];
        }
        let outcome = self.sockets.connect(self.now, fd.socket, &peers, port);
        self.note_port(fd.socket);
        if let Some(open) = args.int(0).ok().and_then(|number| self.fds.open.get_mut(&number)) {
            open.connecting = !open.nonblocking;
        }
        // RFC 6458 §9.9: the call also returns the identifier of the association, if the association exists.
        if let Some(expected) = args.0.get(3)
            && let Some(&association) = self.sockets.associations(fd.socket).last()
            && !is_null(expected)
        {
            let number = self.fds.number_of(association);
            differs("the association", unboxed(expected), &Value::Int(number))?;
        }
        match outcome {
            Err(Errno::IsConnected) if fd.connecting => Ok(0),
            // RFC 6458 §3.1.6 and §9.9 leave open whether these calls return EINPROGRESS, so a script may expect
            // success.
            Err(Errno::InProgress)
                if call.result.int() == Some(0)
                    && (fd.style == Style::OneToMany || call.name == "sctp_connectx" && fd.nonblocking) =>
            {
                Ok(0)
            }
            Err(errno) => Err(errno.into()),
            Ok(_) => Ok(0),
        }
    }

    fn call_fcntl(&mut self, args: Args<'_>) -> Result<i64, CallError> {
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

    fn call_poll(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        let Value::List(items) = args.at(0)? else { return wrong("a list of descriptors is expected") };
        let mut ready = 0;
        let mut checks = Vec::new();
        for item in items {
            let members = Members::of("pollfd", item)?;
            let fd = members.number("fd")?.and_then(|fd| self.fds.open.get(&fd));
            let fd = fd.copied().ok_or(CallError::Errno(Errno::BadSocket))?;
            let events = members.or_zero("events")?;
            let state = self.sockets.poll(fd.socket)?;
            let bits = [(state.readable, 1), (state.writable, 4), (state.error, 8), (state.hung_up, 0x10)];
            let all: i64 = bits.iter().filter(|(on, _)| *on).map(|(_, bit)| bit).sum();
            // `poll` reports errors and hang-ups (8 and 0x10) even if they are not requested.
            let seen = all & (events | 8 | 0x10);
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

    /// RFC 6458 §9.3, §9.4: returns the number of local or peer addresses, and compares these addresses with the
    /// script.
    fn call_addresses(&mut self, args: Args<'_>, name: &str) -> Result<i64, CallError> {
        let fd = self.fd(args)?;
        let association = args.or_zero(1)?;
        let own = self.sockets.associations(fd.socket);
        let association = match fd.style {
            Style::OneToOne => own.first().copied(),
            Style::OneToMany => self.fds.association(association).filter(|id| own.contains(id)),
        };
        let endpoint = self.sockets.endpoint();
        let info = association.and_then(|id| endpoint.info(id));
        let found: Vec<Value> = match (name, info) {
            ("sctp_getpaddrs", None) => return Err(Errno::NotConnected.into()),
            ("sctp_getpaddrs", Some(info)) => {
                let there = info.paths.iter().filter(|path| !path.removed);
                there.map(|path| address_value(path.address, info.peer_port)).collect()
            }
            _ => {
                let port = self.sockets.local_port(fd.socket)?;
                endpoint.addresses().iter().map(|own| address_value(own.ip(), port)).collect()
            }
        };
        let count = found.len() as i64;
        differs("the addresses", args.at(2)?, &Value::List(found))?;
        Ok(count)
    }
}
