//! Calls that receive messages and notifications: RFC 6458 §3.1.4, §9.8 and §9.13.

use super::ancillary::{compare_control, ext_rcv, nxt_info, rcv_info, snd_rcv};
use super::args::{address_value, iov_content, iov_length, is_null};
use super::descriptors::Fd;
use super::{Args, CallError, differs, socket_address, unboxed, wrong};
use crate::members::Members;
use crate::notices;
use crate::run::Machine;
use crate::script::Value;
use anabranch_sctp::AssociationId;
use anabranch_sctp::socket::{Incoming, NxtInfo, OptionName, RcvInfo, Scope, SocketOption};

/// The largest buffer that a script may pass to a receiving call, in bytes.
const MOST: i64 = 1 << 20;

#[derive(Debug, Default)]
struct ReadResult {
    bytes: i64,
    flags: i64,
    /// The information about a received message, and the number of its association; `None` for a notification.
    info: Option<(RcvInfo, i64)>,
    next: Option<(NxtInfo, i64)>,
    association: Option<AssociationId>,
}

impl Machine {
    pub(super) fn call_read(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        let fd = self.fd(args)?;
        if args.0.len() > 3 {
            receiving(args.or_zero(3)?)?;
        }
        let got = self.receive(fd, args.int(2)?, args.at(1)?)?;
        if let Some(from) = args.0.get(4) {
            self.compare_from(&got, from)?;
        }
        Ok(got.bytes)
    }

    pub(super) fn call_readv(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        let fd = self.fd(args)?;
        let iov = args.at(1)?;
        self.receive(fd, iov_length(iov)?, &iov_content(iov)?).map(|got| got.bytes)
    }

    /// Reads one message or notification. If `content` describes a notification, it is compared with the notification
    /// that was read.
    fn receive(&mut self, fd: Fd, size: i64, content: &Value) -> Result<ReadResult, CallError> {
        if !(0..=MOST).contains(&size) {
            return wrong(format!("{size} bytes"));
        }
        let mut buffer = vec![0; size as usize];
        match self.sockets.recv(self.now, fd.socket, &mut buffer)? {
            Incoming::EndOfFile => Ok(ReadResult::default()),
            Incoming::Data { bytes, end_of_record, info, next } => {
                if let Value::Struct(_) = content {
                    let why = format!("{content} is expected, {bytes} bytes of a message seen");
                    return Err(CallError::Differs(why));
                }
                let number = self.fds.number_of(info.association);
                let next = next.map(|next| (next, self.fds.number_of(next.association)));
                let flags = if end_of_record { 8 } else { 0 };
                let association = Some(info.association);
                Ok(ReadResult { bytes: bytes as i64, flags, info: Some((info, number)), next, association })
            }
            Incoming::Notification(notification) => {
                let number = self.fds.number_of(notification.association());
                let old = fd.legacy.send_failed && !fd.legacy.send_failed_event;
                let port = self.sockets.endpoint().info(notification.association());
                let port = port.map_or(self.addresses.connect_port, |info| info.peer_port);
                let (seen, length) = notices::describe(&notification, number, old, port, |live| {
                    // The TSN is 0 if the reset failed. This 0 is passed on unchanged.
                    if live == 0 { 0 } else { self.value_map().tsn_to_script(live) }
                });
                if let Value::Struct(_) = content {
                    differs("the notification", content, &seen)?;
                } else {
                    self.note(format!("{seen}"));
                }
                // A notification that is larger than the buffer is cut off. MSG_EOR (8) is set only if the notification
                // is complete.
                let flags = 0x2000 | if length <= size { 8 } else { 0 };
                let association = Some(notification.association());
                Ok(ReadResult { bytes: length.min(size), flags, association, ..ReadResult::default() })
            }
        }
    }

    fn reports_info(&mut self, fd: Fd) -> Result<bool, CallError> {
        let seen = self.sockets.option(fd.socket, Scope::Future, OptionName::RecvRcvInfo)?;
        Ok(seen == SocketOption::RecvRcvInfo(true))
    }

    /// Compares the source address of a received message with the address that the script expects.
    fn compare_from(&self, got: &ReadResult, expected: &Value) -> Result<(), CallError> {
        let (address, _) = socket_address(expected)?;
        let info = got.association.and_then(|id| self.sockets.endpoint().info(id));
        let (Some(_), Some(info)) = (address, info) else { return Ok(()) };
        // The engine does not report from which of the peer's addresses a message came, so any of them matches.
        let mut last = Ok(());
        for path in &info.paths {
            last = differs("from", expected, &address_value(path.address, info.peer_port));
            if last.is_ok() {
                break;
            }
        }
        last
    }

    pub(super) fn call_recvmsg(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        let fd = self.fd(args)?;
        receiving(args.or_zero(2)?)?;
        let message = Members::of("msghdr", args.at(1)?)?;
        let iov = message.get("msg_iov").ok_or_else(|| CallError::Wrong("there is no msg_iov".to_owned()))?;
        let got = self.receive(fd, iov_length(iov)?, &iov_content(iov)?)?;
        if let Some(expected) = message.get("msg_flags") {
            differs("msg_flags", expected, &Value::Int(got.flags))?;
        }
        if let Some(expected) = message.get("msg_name") {
            self.compare_from(&got, expected)?;
        }
        if let Some(expected) = message.get("msg_control") {
            let mut seen = Vec::new();
            if let Some((info, number)) = &got.info {
                if self.reports_info(fd)? {
                    seen.push(("SCTP_RCVINFO", rcv_info(info, *number)));
                }
                if let Some((next, number)) = &got.next
                    && fd.legacy.next
                {
                    seen.push(("SCTP_NXTINFO", nxt_info(next, *number)));
                }
                if fd.legacy.data_io && fd.legacy.extended {
                    seen.push(("SCTP_EXTRCV", ext_rcv(info, got.next.as_ref(), *number)));
                } else if fd.legacy.data_io {
                    seen.push(("SCTP_SNDRCV", snd_rcv(info, *number)));
                }
            }
            compare_control(expected, &seen)?;
        }
        Ok(got.bytes)
    }

    pub(super) fn call_sctp_recvmsg(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        let fd = self.fd(args)?;
        let got = self.receive(fd, args.int(2)?, args.at(1)?)?;
        self.compare_from(&got, args.at(3)?)?;
        match args.at(5)? {
            Value::Struct(_) if got.info.is_none() => {
                return Err(CallError::Differs("nothing is told of what is no message".to_owned()));
            }
            expected @ Value::Struct(_) => {
                // RFC 6458 §9.8: without `sctp_data_io_event` the call returns no information about the message.
                let seen = got.info.as_ref().map(|(info, number)| snd_rcv(info, *number));
                differs("the information", expected, &seen.unwrap_or(Value::Any))?;
            }
            value if value.is_any() || is_null(value) => {}
            other => return wrong(format!("{other} is no sctp_sndrcvinfo")),
        }
        differs("flags", unboxed(args.at(6)?), &Value::Int(got.flags))?;
        Ok(got.bytes)
    }

    pub(super) fn call_sctp_recvv(&mut self, args: Args<'_>) -> Result<i64, CallError> {
        let fd = self.fd(args)?;
        let iov = args.at(1)?;
        let got = self.receive(fd, iov_length(iov)?, &iov_content(iov)?)?;
        self.compare_from(&got, args.at(3)?)?;
        let rcv = match &got.info {
            Some((info, number)) if self.reports_info(fd)? => Some(rcv_info(info, *number)),
            _ => None,
        };
        let next = match &got.next {
            Some((next, number)) if fd.legacy.next => Some(nxt_info(next, *number)),
            _ => None,
        };
        // RFC 6458 §9.13: the information type names the structure that is returned.
        let kind = match (&rcv, &next) {
            (None, None) => 0,
            (Some(_), None) => 1,
            (None, Some(_)) => 2,
            (Some(_), Some(_)) => 3,
        };
        // RFC 6458 §9.13: if the caller passes no buffer for the information, no information is returned.
        let (rcv, next, kind) = if is_null(args.at(5)?) { (None, None, 0) } else { (rcv, next, kind) };
        match args.at(5)? {
            expected @ Value::Struct(fields) => {
                let both = fields.iter().any(|(key, _)| key.starts_with("recvv_"));
                let named = |key: &str, value: Option<Value>| {
                    (key.to_owned(), value.unwrap_or(Value::Struct(Vec::new())))
                };
                let seen = match (rcv, next) {
                    (rcv, next) if both => {
                        Members::of("sctp_recvv_rn", expected)?;
                        Value::Struct(vec![named("recvv_rcvinfo", rcv), named("recvv_nxtinfo", next)])
                    }
                    (Some(rcv), None) => rcv,
                    (None, Some(next)) => next,
                    (Some(_), Some(_)) => {
                        return Err(CallError::Differs("SCTP_RECVV_RN: both structures are told".to_owned()));
                    }
                    (None, None) => {
                        return Err(CallError::Differs("SCTP_RECVV_NOINFO: nothing is told".to_owned()));
                    }
                };
                differs("the information", expected, &seen)?;
            }
            value if value.is_any() || is_null(value) => {}
            other => return wrong(format!("{other} is no information")),
        }
        differs("the type of information", unboxed(args.at(7)?), &Value::Int(kind))?;
        differs("flags", unboxed(args.at(8)?), &Value::Int(got.flags))?;
        Ok(got.bytes)
    }
}

/// Checks the flags of a receiving call. A script that uses an unsupported flag is rejected.
fn receiving(flags: i64) -> Result<(), CallError> {
    /// MSG_DONTWAIT has no effect, because the script itself states which calls block.
    const KNOWN: i64 = 0x80;
    if flags & !KNOWN == 0 { Ok(()) } else { wrong(format!("flags {:#x} are not supported", flags & !KNOWN)) }
}
