//! The arguments of the system calls in a packetdrill script, and the errors of these calls.

use crate::constants::{compare, number};
use crate::members::Members;
use crate::script::Value;
use anabranch_base::time::Duration;
use anabranch_sctp::socket::Errno;
use std::net::IpAddr;

/// The reason why a system call did not give the result that the script expects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum CallError {
    /// The call failed with an error number.
    Errno(Errno),
    /// The script uses a name, a flag or a value that the packetdrill interpreter does not support.
    Wrong(String),
    /// The call succeeded, but returned other data than the script expects.
    Differs(String),
}

impl From<Errno> for CallError {
    fn from(errno: Errno) -> Self {
        Self::Errno(errno)
    }
}

pub(crate) fn wrong<T>(what: impl Into<String>) -> Result<T, CallError> {
    Err(CallError::Wrong(what.into()))
}

/// Compares the data that a call returned with the data that the script expects.
pub(crate) fn differs(what: &str, expected: &Value, seen: &Value) -> Result<(), CallError> {
    compare(what, expected, seen).map_err(CallError::Differs)
}

/// The arguments of a system call in a script.
#[derive(Clone, Copy)]
pub(crate) struct Args<'a>(pub(crate) &'a [Value]);

impl<'a> Args<'a> {
    pub(crate) fn at(self, at: usize) -> Result<&'a Value, CallError> {
        self.0.get(at).ok_or_else(|| CallError::Wrong(format!("argument {} is missing", at + 1)))
    }

    pub(crate) fn int(self, at: usize) -> Result<i64, CallError> {
        let value = self.at(at)?;
        value.int().ok_or_else(|| CallError::Wrong(format!("{value} is no integer")))
    }

    pub(crate) fn number(self, at: usize) -> Result<i64, CallError> {
        let value = self.at(at)?;
        number(value).ok_or_else(|| CallError::Wrong(format!("{value} is not known")))
    }

    /// Returns the argument as a number, or 0 if the argument is `...`.
    pub(crate) fn or_zero(self, at: usize) -> Result<i64, CallError> {
        if self.at(at)?.is_any() { Ok(0) } else { self.number(at) }
    }
}

pub(super) fn is_null(value: &Value) -> bool {
    matches!(value, Value::Word(name) if name == "NULL") || value.int() == Some(0)
}

/// Returns the element of a list with one element. Returns any other value unchanged.
pub(crate) fn unboxed(value: &Value) -> &Value {
    match value {
        Value::List(items) if items.len() == 1 => &items[0],
        other => other,
    }
}

/// Returns the address and the port of `{sa_family=…, sin_port=htons(…), sin_addr=inet_addr("…")}`; `None` for both if
/// the argument is `...` or NULL.
pub(crate) fn socket_address(value: &Value) -> Result<(Option<IpAddr>, Option<u16>), CallError> {
    if value.is_any() || is_null(value) {
        return Ok((None, None));
    }
    let members = Members::of("sockaddr", value)?;
    let port = members.number("sin_port")?.map(u16::try_from).transpose();
    let port = port.map_err(|_| CallError::Wrong(format!("{value} has no port that is one")))?;
    let address = match members.get("sin_addr") {
        None => None,
        Some(Value::Address(address)) => Some(*address),
        // The address is written as `inet_addr("…")`, `htonl(INADDR_ANY)` or `inet_pton(AF_INET6, "…")`.
        Some(Value::Call(_, args)) => match args.last() {
            Some(Value::Text(text)) => match text.parse() {
                Ok(address) => Some(address),
                Err(_) => return wrong(format!("{text:?} is no address")),
            },
            Some(Value::Address(address)) => Some(*address),
            Some(Value::Word(any)) if any == "INADDR_ANY" => None,
            _ => return wrong(format!("{value} has no address that is one")),
        },
        Some(other) => return wrong(format!("{other} is no address")),
    };
    let family = members.number("sa_family")?;
    let fits = match (family, address) {
        (Some(2), Some(address)) => address.is_ipv4(),
        (Some(28), Some(address)) => address.is_ipv6(),
        (Some(2 | 28) | None, _) => true,
        _ => false,
    };
    if fits { Ok((address, port)) } else { wrong(format!("{value} is no address of its family")) }
}

/// Returns an address and a port as a script writes the socket API's address structure.
pub(crate) fn address_value(address: IpAddr, port: u16) -> Value {
    let family = if address.is_ipv4() { "AF_INET" } else { "AF_INET6" };
    let call = |name: &str, arg| Value::Call(name.to_owned(), vec![arg]);
    Value::Struct(vec![
        ("sa_family".to_owned(), Value::Word(family.to_owned())),
        ("sin_port".to_owned(), call("htons", Value::Int(port.into()))),
        ("sin_addr".to_owned(), call("inet_addr", Value::Text(address.to_string()))),
    ])
}

/// Returns the sum of the lengths of the buffers in `[{…, length}, …]`, in bytes.
pub(super) fn iov_length(iov: &Value) -> Result<i64, CallError> {
    let Value::List(items) = iov else { return wrong(format!("{iov} is no list of buffers")) };
    let mut total: i64 = 0;
    for item in items {
        let length = iov_parts(item)?.1;
        total = total.saturating_add(length);
    }
    Ok(total)
}

/// Returns the content and the length of one buffer, as the script gives them.
fn iov_parts(item: &Value) -> Result<(&Value, i64), CallError> {
    let parts = match item {
        Value::Struct(parts) => match &parts[..] {
            [(base, content), (len, length)]
                if (base.is_empty() || base == "iov_base") && (len.is_empty() || len == "iov_len") =>
            {
                Some((content, number(length)))
            }
            _ => None,
        },
        _ => None,
    };
    match parts {
        Some((content, Some(length))) => Ok((content, length)),
        _ => wrong(format!("{item} is no buffer with a length")),
    }
}

/// Returns the content that the script expects in the first buffer, or `...`.
pub(super) fn iov_content(iov: &Value) -> Result<Value, CallError> {
    let Value::List(items) = iov else { return Ok(Value::Any) };
    items.first().map_or(Ok(Value::Any), |item| iov_parts(item).map(|(content, _)| content.clone()))
}

/// Converts milliseconds in a script to a duration. Returns `None` for 0, because 0 leaves a setting unchanged.
pub(crate) fn millis(n: i64) -> Option<Duration> {
    u64::try_from(n).ok().filter(|&n| n > 0).map(Duration::from_millis)
}
