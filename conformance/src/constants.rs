//! Names of the socket API and the numbers behind them.
//!
//! The numbers are FreeBSD's, whose branch of `#ifdef` is taken; names without
//! a number there have one of ours.

use crate::script::Value;

/// Names with numbers.
const NUMBERS: &[(&str, i64)] = &[
    ("AF_INET", 2),
    ("AF_INET6", 28),
    ("SOCK_STREAM", 1),
    ("SOCK_SEQPACKET", 5),
    ("IPPROTO_SCTP", 132),
    ("SOL_SOCKET", 0xffff),
    ("F_GETFL", 3),
    ("F_SETFL", 4),
    ("O_RDONLY", 0),
    ("O_WRONLY", 1),
    ("O_RDWR", 2),
    ("O_NONBLOCK", 4),
    ("SHUT_RD", 0),
    ("SHUT_WR", 1),
    ("SHUT_RDWR", 2),
    ("POLLIN", 1),
    ("POLLPRI", 2),
    ("POLLOUT", 4),
    ("POLLERR", 8),
    ("POLLHUP", 0x10),
    ("MSG_EOR", 8),
    ("MSG_NOTIFICATION", 0x2000),
    ("MSG_DONTWAIT", 0x80),
    ("MSG_PEEK", 2),
    ("SCTP_EOF", 0x0100),
    ("SCTP_ABORT", 0x0200),
    ("SCTP_UNORDERED", 0x0400),
    ("SCTP_ADDR_OVER", 0x0800),
    ("SCTP_SENDALL", 0x1000),
    ("SCTP_EOR", 0x2000),
    ("SCTP_SACK_IMMEDIATELY", 0x4000),
    ("SCTP_PR_SCTP_NONE", 0),
    ("SCTP_PR_SCTP_TTL", 1),
    ("SCTP_PR_SCTP_PRIO", 2),
    ("SCTP_PR_SCTP_RTX", 3),
    ("SCTP_SENDV_NOINFO", 0),
    ("SCTP_SENDV_SNDINFO", 1),
    ("SCTP_SENDV_PRINFO", 2),
    ("SCTP_SENDV_AUTHINFO", 3),
    ("SCTP_SENDV_SPA", 4),
    ("SCTP_RECVV_NOINFO", 0),
    ("SCTP_RECVV_RCVINFO", 1),
    ("SCTP_RECVV_NXTINFO", 2),
    ("SCTP_RECVV_RN", 3),
    ("SCTP_FUTURE_ASSOC", 0),
    ("SCTP_CURRENT_ASSOC", 1),
    ("SCTP_ALL_ASSOC", 2),
    ("SPP_HB_ENABLE", 1),
    ("SPP_HB_DISABLE", 2),
    ("SPP_HB_DEMAND", 4),
    ("SPP_PMTUD_ENABLE", 8),
    ("SPP_PMTUD_DISABLE", 0x10),
    ("SPP_HB_TIME_IS_ZERO", 0x80),
    ("SPP_IPV6_FLOWLABEL", 0x100),
    ("SPP_DSCP", 0x200),
    ("SCTP_CLOSED", 0),
    ("SCTP_BOUND", 0x1000),
    ("SCTP_LISTEN", 0x2000),
    ("SCTP_COOKIE_WAIT", 2),
    ("SCTP_COOKIE_ECHOED", 4),
    ("SCTP_ESTABLISHED", 8),
    ("SCTP_SHUTDOWN_SENT", 0x10),
    ("SCTP_SHUTDOWN_RECEIVED", 0x20),
    ("SCTP_SHUTDOWN_ACK_SENT", 0x40),
    ("SCTP_SHUTDOWN_PENDING", 0x80),
    ("SCTP_ACTIVE", 1),
    ("SCTP_INACTIVE", 2),
    ("SCTP_UNCONFIRMED", 0x200),
    ("SCTP_ASSOC_CHANGE", 1),
    ("SCTP_PEER_ADDR_CHANGE", 2),
    ("SCTP_REMOTE_ERROR", 3),
    ("SCTP_SHUTDOWN_EVENT", 5),
    ("SCTP_ADAPTATION_INDICATION", 6),
    ("SCTP_PARTIAL_DELIVERY_EVENT", 7),
    ("SCTP_AUTHENTICATION_EVENT", 8),
    ("SCTP_STREAM_RESET_EVENT", 9),
    ("SCTP_SENDER_DRY_EVENT", 10),
    ("SCTP_ASSOC_RESET_EVENT", 12),
    ("SCTP_STREAM_CHANGE_EVENT", 13),
    ("SCTP_SEND_FAILED_EVENT", 14),
    ("SCTP_COMM_UP", 1),
    ("SCTP_COMM_LOST", 2),
    ("SCTP_RESTART", 3),
    ("SCTP_SHUTDOWN_COMP", 4),
    ("SCTP_CANT_STR_ASSOC", 5),
    ("SCTP_ADDR_AVAILABLE", 1),
    ("SCTP_ADDR_UNREACHABLE", 2),
    ("SCTP_ADDR_REMOVED", 3),
    ("SCTP_ADDR_ADDED", 4),
    ("SCTP_ADDR_MADE_PRIM", 5),
    ("SCTP_ADDR_CONFIRMED", 10),
    ("SCTP_STREAM_RESET_INCOMING", 1),
    ("SCTP_STREAM_RESET_OUTGOING", 2),
    ("INADDR_ANY", 0),
];

/// The number of a name.
pub(crate) fn number_of(name: &str) -> Option<i64> {
    NUMBERS.iter().find(|(known, _)| *known == name).map(|(_, number)| *number)
}

/// What a value amounts to as a number: itself, a name's, or names put together by `|`.
pub(crate) fn number(value: &Value) -> Option<i64> {
    match value {
        Value::Int(n) => Some(*n),
        Value::Word(name) => number_of(name),
        Value::Or(items) => items.iter().map(number).try_fold(0, |all, n| n.map(|n| all | n)),
        Value::Call(name, args) if name == "htonl" || name == "htons" => number(args.first()?),
        _ => None,
    }
}

/// Nothing when `seen` is what `expected` allows.
pub(crate) fn compare(what: &str, expected: &Value, seen: &Value) -> Result<(), String> {
    let matches = match (expected, seen) {
        (expected, _) if expected.is_any() => true,
        (Value::Struct(fields), Value::Struct(_)) => {
            return fields.iter().try_for_each(|(key, value)| match seen.member(key) {
                Some(was) => compare(key, value, was),
                None if value.is_any() => Ok(()),
                None => Err(format!("{key} is not known here")),
            });
        }
        (Value::List(e), Value::List(s)) if e.len() == s.len() => {
            return e.iter().zip(s).try_for_each(|(e, s)| compare(what, e, s));
        }
        _ => match (number(expected), number(seen)) {
            (Some(expected), Some(seen)) => expected == seen,
            _ => expected == seen,
        },
    };
    if matches { Ok(()) } else { Err(format!("{what}={expected} is expected, {seen} seen")) }
}
