//! Reads and compares the ancillary data (`msg_control`) of messages that a packetdrill script sends or receives.
//!
//! Implements RFC 6458 §5.3 (the structures and their directions).

use super::{CallError, differs, millis, socket_address, wrong};
use crate::constants::number;
use crate::members::Members;
use crate::run::Machine;
use crate::script::Value;
use anabranch_sctp::socket::{AuthInfo, InitMsg, NxtInfo, PrInfo, RcvInfo, SendInfo, SndInfo};
use std::net::IpAddr;

/// The ancillary data that a script sends with a message.
#[derive(Debug, Default)]
pub(super) struct Ancillary {
    pub(super) info: SendInfo,
    pub(super) init: Option<InitMsg>,
    /// The peer addresses of an association that this message starts.
    pub(super) to: Vec<IpAddr>,
    pub(super) port: Option<u16>,
    /// Whether the message's flags have `SCTP_SENDALL`.
    pub(super) all: bool,
}

/// Returns `cmsg_level`, `cmsg_type` and `cmsg_data` of one item of `msg_control`.
fn item(value: &Value) -> Result<(i64, i64, &Value), CallError> {
    let members = Members::of("cmsghdr", value)?;
    let need =
        |key: &str| members.number(key)?.ok_or_else(|| CallError::Wrong(format!("{value} has no {key}")));
    let data =
        members.get("cmsg_data").ok_or_else(|| CallError::Wrong(format!("{value} has no cmsg_data")))?;
    // `cmsg_len` is read but not compared, because the alignment of headers depends on the host.
    members.number("cmsg_len")?;
    Ok((need("cmsg_level")?, need("cmsg_type")?, data))
}

/// Returns the PR-SCTP policy that `bits` (the low bits of the flags) select. If `bits` select no policy, a `value`
/// above 0 is a lifetime (RFC 6458 §5.3.2, RFC 7496 §4.1).
pub(super) fn policy(bits: i64, value: i64) -> Result<PrInfo, CallError> {
    let amount = u32::try_from(value).map_err(|_| CallError::Wrong(format!("{value} is out of range")))?;
    Ok(match bits {
        0 if amount > 0 => PrInfo::Lifetime(amount),
        0 => PrInfo::Reliable,
        1 => PrInfo::Lifetime(amount),
        2 => PrInfo::Priority(amount),
        3 => PrInfo::Retransmissions(amount),
        other => return wrong(format!("policy {other} is not known")),
    })
}

/// Reads `snd_flags` or `sinfo_flags` from a script, without the bits of the PR-SCTP policy.
pub(super) fn flagged(flags: i64) -> Result<SndInfo, CallError> {
    /// `SCTP_ADDR_OVER` (0x0800) is accepted because `send` checks the address. `send` also handles `SCTP_SENDALL`
    /// (0x1000).
    const KNOWN: i64 = 0x0100 | 0x0200 | 0x0400 | 0x0800 | 0x1000 | 0x4000;
    if flags & 0x2000 != 0 {
        return wrong("SCTP_EOR is not supported: every message is sent whole");
    }
    if flags & !KNOWN != 0 {
        return wrong(format!("flags {:#x} are not known", flags & !KNOWN));
    }
    Ok(SndInfo {
        eof: flags & 0x0100 != 0,
        abort: flags & 0x0200 != 0,
        unordered: flags & 0x0400 != 0,
        immediate: flags & 0x4000 != 0,
        ..SndInfo::default()
    })
}

/// Returns whether the flags in the member `key` of a structure include `SCTP_SENDALL`.
pub(super) fn to_all(value: &Value, key: &str) -> Result<bool, CallError> {
    match value.member(key).filter(|flags| !flags.is_any()) {
        None => Ok(false),
        Some(flags) => match number(flags) {
            Some(flags) => Ok(flags & 0x1000 != 0),
            None => wrong(format!("{key}={flags} is no number that is known")),
        },
    }
}

/// Reads a `struct sctp_prinfo` (RFC 6458 §5.3.7).
pub(crate) fn pr_info(value: &Value, structure: &'static str) -> Result<PrInfo, CallError> {
    let members = Members::of(structure, value)?;
    match members.or_zero("pr_policy")? {
        // RFC 6458 §5.3.7: without a policy, `pr_value` has no meaning.
        0 => Ok(PrInfo::Reliable),
        bits => policy(bits, members.or_zero("pr_value")?),
    }
}

/// Reads a `struct sctp_authinfo` (RFC 6458 §5.3.8).
pub(super) fn auth_info(value: &Value) -> Result<AuthInfo, CallError> {
    Ok(AuthInfo { key: Members::of("sctp_authinfo", value)?.fitting("auth_keynumber")? })
}

/// Reads a `struct sctp_initmsg` (RFC 6458 §5.3.1).
pub(crate) fn init_msg(value: &Value) -> Result<InitMsg, CallError> {
    let members = Members::of("sctp_initmsg", value)?;
    let streams = |key| members.fitting::<u16>(key).map(|n| (n > 0).then_some(n));
    Ok(InitMsg {
        num_ostreams: streams("sinit_num_ostreams")?,
        max_instreams: streams("sinit_max_instreams")?,
        attempts: streams("sinit_max_attempts")?.map(u32::from),
        max_timeout: millis(members.or_zero("sinit_max_init_timeo")?),
    })
}

impl Machine {
    /// Reads a `struct sctp_sndinfo` (RFC 6458 §5.3.4).
    pub(crate) fn snd_info(&self, value: &Value) -> Result<SndInfo, CallError> {
        let members = Members::of("sctp_sndinfo", value)?;
        Ok(SndInfo {
            stream: members.fitting("snd_sid")?,
            ppid: members.fitting("snd_ppid")?,
            context: members.fitting("snd_context")?,
            association: self.fds.association(members.or_zero("snd_assoc_id")?),
            ..flagged(members.or_zero("snd_flags")?)?
        })
    }

    /// Reads a `struct sctp_sndrcvinfo` of a sent message. Its SSN, TSN and cumulative TSN are ignored (RFC 6458
    /// §5.3.2).
    pub(crate) fn snd_rcv_info(&self, value: &Value) -> Result<SendInfo, CallError> {
        let members = Members::of("sctp_sndrcvinfo", value)?;
        let flags = members.or_zero("sinfo_flags")?;
        // In the extended structure (RFC 6458 §5.3.3), this member is named `sinfo_pr_value`.
        let amount = match members.number("sinfo_timetolive")? {
            Some(amount) => amount,
            None => members.or_zero("sinfo_pr_value")?,
        };
        let snd = SndInfo {
            stream: members.fitting("sinfo_stream")?,
            ppid: members.fitting("sinfo_ppid")?,
            context: members.fitting("sinfo_context")?,
            association: self.fds.association(members.or_zero("sinfo_assoc_id")?),
            ..flagged(flags & !0xf)?
        };
        Ok(SendInfo { snd, pr: policy(flags & 0xf, amount)?, auth: None })
    }

    /// Reads the `msg_control` that a script passes to a call. Values that `msg_control` does not set are taken from
    /// `usual`.
    pub(super) fn read_ancillary(
        &self,
        control: Option<&Value>,
        usual: SendInfo,
    ) -> Result<Ancillary, CallError> {
        let mut ancillary = Ancillary { info: usual, ..Ancillary::default() };
        let items = match control {
            None => return Ok(ancillary),
            Some(value) if value.is_any() => return Ok(ancillary),
            Some(Value::List(items)) => items,
            Some(other) => return wrong(format!("msg_control={other} is no list")),
        };
        for value in items {
            let (level, kind, data) = item(value)?;
            if level != 132 {
                return wrong(format!("{value} is not of the level IPPROTO_SCTP"));
            }
            match kind {
                1 => ancillary.init = Some(init_msg(data)?),
                2 | 3 => {
                    ancillary.info = SendInfo { auth: ancillary.info.auth, ..self.snd_rcv_info(data)? };
                    ancillary.all = to_all(data, "sinfo_flags")?;
                }
                4 => {
                    ancillary.info.snd = self.snd_info(data)?;
                    ancillary.all = to_all(data, "snd_flags")?;
                }
                7 => ancillary.info.pr = pr_info(data, "sctp_prinfo")?,
                8 => ancillary.info.auth = Some(auth_info(data)?),
                9 | 10 => {
                    let (address, port) = socket_address(data)?;
                    ancillary.to.extend(address);
                    ancillary.port = port.or(ancillary.port);
                }
                _ => return wrong(format!("{value} is not sent beside a message (RFC 6458 §5.3)")),
            }
        }
        Ok(ancillary)
    }
}

/// Compares the ancillary data of a received message with that of the script. The items may be in any order.
pub(super) fn compare_control(expected: &Value, seen: &[(&str, Value)]) -> Result<(), CallError> {
    if expected.is_any() {
        return Ok(());
    }
    let Value::List(items) = expected else { return wrong(format!("msg_control={expected} is no list")) };
    let mut left: Vec<&(&str, Value)> = seen.iter().collect();
    for value in items {
        let (level, kind, data) = item(value)?;
        let found = left
            .iter()
            .position(|(name, _)| level == 132 && number(&Value::Word((*name).to_owned())) == Some(kind));
        let Some(at) = found else {
            let all: Vec<&str> = seen.iter().map(|(name, _)| *name).collect();
            return Err(CallError::Differs(format!("{value} is missing, {all:?} came beside the message")));
        };
        let (name, data_seen) = left.remove(at);
        differs(name, data, data_seen)?;
    }
    match left.first() {
        Some((name, value)) => Err(CallError::Differs(format!("{name} {value} came as well"))),
        None => Ok(()),
    }
}

fn fields(all: &[(&str, i64)]) -> Value {
    Value::Struct(all.iter().map(|&(key, n)| (key.to_owned(), Value::Int(n))).collect())
}

fn unordered(on: bool) -> i64 {
    if on { 0x0400 } else { 0 }
}

/// Returns a `struct sctp_rcvinfo` (RFC 6458 §5.3.5).
pub(super) fn rcv_info(info: &RcvInfo, association: i64) -> Value {
    fields(&[
        ("rcv_sid", info.stream.into()),
        ("rcv_ssn", info.ssn.into()),
        ("rcv_flags", unordered(info.unordered)),
        ("rcv_ppid", info.ppid.into()),
        ("rcv_tsn", info.tsn.into()),
        ("rcv_cumtsn", info.cumulative_tsn.into()),
        ("rcv_context", info.context.into()),
        ("rcv_assoc_id", association),
    ])
}

/// Returns a `struct sctp_nxtinfo` (RFC 6458 §5.3.6).
pub(super) fn nxt_info(next: &NxtInfo, association: i64) -> Value {
    let flags = unordered(next.unordered)
        | if next.notification { 0x10 } else { 0 }
        | if next.complete { 0x20 } else { 0 };
    fields(&[
        ("nxt_sid", next.stream.into()),
        ("nxt_flags", flags),
        ("nxt_ppid", next.ppid.into()),
        ("nxt_length", next.length as i64),
        ("nxt_assoc_id", association),
    ])
}

/// Returns a `struct sctp_sndrcvinfo` of a received message (RFC 6458 §5.3.2).
pub(super) fn snd_rcv(info: &RcvInfo, association: i64) -> Value {
    fields(&[
        ("sinfo_stream", info.stream.into()),
        ("sinfo_ssn", info.ssn.into()),
        ("sinfo_flags", unordered(info.unordered)),
        ("sinfo_ppid", info.ppid.into()),
        ("sinfo_context", info.context.into()),
        ("sinfo_timetolive", 0),
        ("sinfo_pr_value", 0),
        ("sinfo_tsn", info.tsn.into()),
        ("sinfo_cumtsn", info.cumulative_tsn.into()),
        ("sinfo_assoc_id", association),
    ])
}

/// Returns a `struct sctp_extrcvinfo` (RFC 6458 §5.3.3).
pub(super) fn ext_rcv(info: &RcvInfo, next: Option<&(NxtInfo, i64)>, association: i64) -> Value {
    let flags = next.map_or(0, |(next, _)| {
        1 | if next.complete { 2 } else { 0 }
            | if next.unordered { 4 } else { 0 }
            | if next.notification { 8 } else { 0 }
    });
    let of = |get: fn(&NxtInfo) -> i64| next.map_or(0, |(next, _)| get(next));
    let more = fields(&[
        ("serinfo_next_flags", flags),
        ("serinfo_next_stream", of(|next| next.stream.into())),
        ("serinfo_next_aid", next.map_or(0, |&(_, number)| number)),
        ("serinfo_next_length", of(|next| next.length as i64)),
        ("serinfo_next_ppid", of(|next| next.ppid.into())),
    ]);
    match (snd_rcv(info, association), more) {
        (Value::Struct(mut all), Value::Struct(more)) => {
            all.extend(more);
            Value::Struct(all)
        }
        (all, _) => all,
    }
}
