//! Calls that send messages: RFC 6458 §3.1.4, §4.1.8 and §9.7 to §9.12.

use super::ancillary::{Ancillary, auth_info, flagged, policy, pr_info, to_all};
use super::args::{iov_length, is_null};
use super::descriptors::Fd;
use super::{Args, CallError, socket_address, wrong};
use crate::members::Members;
use crate::run::Machine;
use crate::script::Value;
use anabranch_sctp::socket::{Errno, InitMsg, OptionName, Scope, SendInfo, SndInfo, SocketOption, Style};
use std::net::SocketAddr;

/// The largest message that a script may send, in bytes.
const MOST: i64 = 1 << 20;

/// The peer addresses that a sending call names.
enum PeerAddresses<'a> {
    /// The call names no address, so the association determines the peer.
    Implicit,
    /// The call names these addresses. `...` in the list stands for any address.
    These(&'a [Value]),
}

impl<'a> PeerAddresses<'a> {
    /// Reads the peer addresses of a call: one address, a list of addresses, `...` or NULL.
    fn read(value: Option<&'a Value>) -> Self {
        match value {
            None => Self::Implicit,
            Some(value) if is_null(value) => Self::Implicit,
            Some(Value::List(items)) => Self::These(items),
            Some(value) => Self::These(std::slice::from_ref(value)),
        }
    }
}

impl Machine {
    pub(super) fn call_write(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        if args.0.len() > 3 {
            sending(args, 3)?;
        }
        let usual = self.usual(args)?;
        self.transmit(args, args.int(2)?, &PeerAddresses::Implicit, usual)
    }

    pub(super) fn call_writev(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        let usual = self.usual(args)?;
        self.transmit(args, iov_length(args.at(1)?)?, &PeerAddresses::Implicit, usual)
    }

    pub(super) fn call_sendto(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        sending(args, 3)?;
        let usual = self.usual(args)?;
        self.transmit(args, args.int(2)?, &PeerAddresses::read(args.0.get(4)), usual)
    }

    pub(super) fn call_sendmsg(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        sending(args, 2)?;
        let message = Members::of("msghdr", args.at(1)?)?;
        let length = message.get("msg_iov").map_or(Ok(0), iov_length)?;
        // RFC 6458 §5.1: `msg_flags` is ignored, because the flags of a sent message are an argument of the call.
        message.number("msg_flags")?;
        let Ancillary { info: usual, .. } = self.usual(args)?;
        let ancillary = self.read_ancillary(message.get("msg_control"), usual)?;
        let named = args.at(1)?.member("msg_name");
        self.transmit(args, length, &PeerAddresses::read(named), ancillary)
    }

    pub(super) fn call_sctp_sendmsg(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        let stream = args.or_zero(7)?;
        let stream = u16::try_from(stream).map_err(|_| CallError::Wrong(format!("stream {stream}")))?;
        let flags = args.or_zero(6)?;
        let (ppid, context) = (args.or_zero(5)? as u32, args.or_zero(9)? as u32);
        let snd = SndInfo { ppid, stream, context, ..flagged(flags & !0xf)? };
        let pr = policy(flags & 0xf, args.or_zero(8)?)?;
        let all = flags & 0x1000 != 0;
        let ancillary = Ancillary { info: SendInfo { snd, pr, auth: None }, all, ..Ancillary::default() };
        self.transmit(args, args.int(2)?, &PeerAddresses::read(args.0.get(3)), ancillary)
    }

    pub(super) fn call_sctp_send(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        sending(args, 4)?;
        let ancillary = self.with_sinfo(args, 3)?;
        self.transmit(args, args.int(2)?, &PeerAddresses::Implicit, ancillary)
    }

    pub(super) fn call_sctp_sendx(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        sending(args, 6)?;
        let ancillary = self.with_sinfo(args, 5)?;
        self.transmit(args, args.int(2)?, &PeerAddresses::read(args.0.get(3)), ancillary)
    }

    fn with_sinfo(&self, args: Args<'_>, at: usize) -> Result<Ancillary, CallError> {
        match args.at(at)? {
            value if value.is_any() || is_null(value) => self.usual(args),
            value => {
                let all = to_all(value, "sinfo_flags")?;
                Ok(Ancillary { info: self.snd_rcv_info(value)?, all, ..Ancillary::default() })
            }
        }
    }

    pub(super) fn call_sctp_sendv(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        sending(args, 8)?;
        let length = iov_length(args.at(1)?)?;
        let value = args.at(5)?;
        let mut ancillary = self.usual(args)?;
        let info = &mut ancillary.info;
        match args.or_zero(7)? {
            0 if value.is_any() || is_null(value) => {}
            0 => return wrong(format!("{value} is told, and SCTP_SENDV_NOINFO")),
            1 => {
                info.snd = self.snd_info(value)?;
                ancillary.all = to_all(value, "snd_flags")?;
            }
            2 => info.pr = pr_info(value, "sctp_prinfo")?,
            3 => info.auth = Some(auth_info(value)?),
            4 => {
                // RFC 6458 §9.12: `sendv_flags` selects the structures that are valid.
                let all = Members::of("sctp_sendv_spa", value)?;
                let flags = all.or_zero("sendv_flags")?;
                if flags & !7 != 0 {
                    return wrong(format!("sendv_flags={flags:#x} are not known"));
                }
                if let Some(snd) = all.get("sendv_sndinfo") {
                    let snd = self.snd_info(snd)?;
                    if flags & 1 != 0 {
                        info.snd = snd;
                        ancillary.all =
                            all.get("sendv_sndinfo").map_or(Ok(false), |v| to_all(v, "snd_flags"))?;
                    }
                }
                if let Some(pr) = all.get("sendv_prinfo") {
                    let pr = pr_info(pr, "sctp_prinfo")?;
                    info.pr = if flags & 2 != 0 { pr } else { info.pr };
                }
                if let Some(auth) = all.get("sendv_authinfo") {
                    let auth = auth_info(auth)?;
                    info.auth = if flags & 4 != 0 { Some(auth) } else { info.auth };
                }
            }
            other => return wrong(format!("information of type {other}")),
        }
        self.transmit(args, length, &PeerAddresses::read(args.0.get(3)), ancillary)
    }

    /// Returns the socket's defaults for all values that a call does not set (RFC 6458 §8.1.31, §8.1.32).
    fn usual(&self, args: Args<'_>) -> Result<Ancillary, CallError> {
        let info = self.sockets.default_info(self.fd(args)?.socket)?;
        Ok(Ancillary { info, ..Ancillary::default() })
    }

    /// Sends a message of `length` bytes on the socket of a descriptor.
    fn transmit(
        &mut self,
        args: Args<'_>,
        length: i64,
        to: &PeerAddresses<'_>,
        ancillary: Ancillary,
    ) -> Result<i64, CallError> {
        let fd = self.fd(args)?;
        if !(0..=MOST).contains(&length) {
            return wrong(format!("{length} bytes"));
        }
        let payload = vec![b'A'; length as usize];
        let (mut peers, mut port) = (Vec::new(), self.addresses.connect_port);
        if let PeerAddresses::These(addresses) = to {
            for value in *addresses {
                let (address, told) = socket_address(value)?;
                port = told.unwrap_or(port);
                peers.extend(address);
            }
        }
        let named = !peers.is_empty();
        peers.extend(ancillary.to);
        port = ancillary.port.unwrap_or(port);
        let own = self.sockets.associations(fd.socket);
        if ancillary.all && fd.style == Style::OneToMany {
            // RFC 6458 §5.3.4: with SCTP_SENDALL, sends the message to every association of the socket.
            for &id in &own {
                let snd = SndInfo { association: Some(id), ..ancillary.info.snd };
                let info = SendInfo { snd, ..ancillary.info };
                self.sockets.send(self.now, fd.socket, &payload, info)?;
            }
            return Ok(length);
        }
        let sent = match fd.style {
            Style::OneToOne if own.is_empty() && !peers.is_empty() => {
                // RFC 6458 §4.1.8, §7.5: the message starts its association implicitly.
                let all: Vec<SocketAddr> = peers.iter().map(|&ip| SocketAddr::new(ip, 0)).collect();
                self.implied(fd, ancillary.init, |machine, fd| {
                    match machine.sockets.connect(machine.now, fd.socket, &all, port) {
                        Ok(_) | Err(Errno::InProgress) => {}
                        Err(errno) => return Err(errno),
                    }
                    machine.sockets.send(machine.now, fd.socket, &payload, ancillary.info)
                })
            }
            Style::OneToOne => {
                // RFC 6458 §4.1.8: the message is not sent if the address is not one of the peer's.
                let endpoint = self.sockets.endpoint();
                let info = own.first().and_then(|&id| endpoint.info(id));
                let is_unknown = |ip| info.as_ref().is_some_and(|i| i.paths.iter().all(|p| p.address != ip));
                if named && peers.iter().any(|&ip| is_unknown(ip)) {
                    return Err(Errno::Invalid.into());
                }
                self.sockets.send(self.now, fd.socket, &payload, ancillary.info)
            }
            Style::OneToMany if ancillary.info.snd.association.is_some() => {
                self.sockets.send(self.now, fd.socket, &payload, ancillary.info)
            }
            Style::OneToMany if matches!(to, PeerAddresses::Implicit) && peers.is_empty() => {
                self.sockets.send(self.now, fd.socket, &payload, ancillary.info)
            }
            Style::OneToMany => {
                let first = peers.first().copied().unwrap_or(self.addresses.remote);
                self.implied(fd, ancillary.init, |machine, fd| {
                    let peer = SocketAddr::new(first, 0);
                    machine.sockets.send_to(machine.now, fd.socket, &payload, peer, port, ancillary.info)
                })
            }
        };
        self.note_port(fd.socket);
        Ok(sent? as i64)
    }

    /// Sends a message that may start an association. `init` applies to that association only (RFC 6458 §5.3.1).
    fn implied(
        &mut self,
        fd: Fd,
        init: Option<InitMsg>,
        send: impl FnOnce(&mut Self, Fd) -> Result<usize, Errno>,
    ) -> Result<usize, Errno> {
        let Some(init) = init else { return send(self, fd) };
        let before = self.sockets.option(fd.socket, Scope::Future, OptionName::InitMsg)?;
        self.sockets.set_option(self.now, fd.socket, Scope::Future, SocketOption::InitMsg(init))?;
        let sent = send(self, fd);
        if fd.style == Style::OneToMany {
            self.sockets.set_option(self.now, fd.socket, Scope::Future, before)?;
        }
        sent
    }
}

/// Checks the flags of a sending call. A script with an unsupported flag is rejected.
fn sending(args: Args<'_>, at: usize) -> Result<(), CallError> {
    /// MSG_EOR, MSG_DONTWAIT and MSG_NOSIGNAL. The engine always behaves as if these flags were set.
    const KNOWN: i64 = 0x8 | 0x80 | 0x2_0000;
    let flags = args.or_zero(at)?;
    if flags & !KNOWN == 0 { Ok(()) } else { wrong(format!("flags {:#x} are not supported", flags & !KNOWN)) }
}
