//! Compares the chunks that a script expects with the chunks that the engine sent.
//!
//! Parameters and causes are compared as sets, because the standard leaves their order free. Control chunks are also
//! compared as sets, except where RFC 9260 §6.10 and §5.1 fix their position (COOKIE ECHO and COOKIE ACK first, DATA
//! last).

use super::codec::{ValueMap, flags, node};
use super::layout::{Family, by_name, code_of};
use crate::script::{Node, Value};

/// Checks that the chunks in `seen` are those that `expected` describes. The error describes the first difference.
pub(crate) fn compare_packet(expected: &[Node], seen: &[Node]) -> Result<(), String> {
    let probe = sized_as_seen(expected, seen);
    let expected = probe.as_deref().unwrap_or(expected);
    if expected.len() != seen.len() {
        return Err(format!("{} chunks are expected, {} seen", expected.len(), seen.len()));
    }
    let in_order = expected.iter().zip(seen).try_for_each(|(e, s)| compare(Family::Chunk, e, s));
    let Err(first) = in_order else {
        return Ok(());
    };
    let fixed = |node: &Node| ["DATA", "I_DATA", "COOKIE_ECHO", "COOKIE_ACK"].contains(&node.name.as_str());
    if expected.len() == 1 || expected.iter().zip(seen).any(|(e, s)| fixed(e) != fixed(s)) {
        return Err(first);
    }
    let placed = expected.iter().zip(seen).filter(|(e, _)| fixed(e));
    placed.clone().try_for_each(|(e, s)| compare(Family::Chunk, e, s))?;
    let free = |nodes: &[Node]| nodes.iter().filter(|n| !fixed(n)).cloned().collect::<Vec<_>>();
    as_sets(Family::Chunk, &free(expected), &free(seen), false).map_err(|_| first)
}

/// Returns the expected chunks of a path MTU probe (RFC 8899 §6.2.1.1), with the PAD length adjusted to the HEARTBEAT
/// that was seen. The sender chooses the content of the HEARTBEAT (RFC 9260 §3.3.5), so only the size of the packet
/// counts. Scripts give the PAD length for FreeBSD, whose Heartbeat Information has 40 bytes.
fn sized_as_seen(expected: &[Node], seen: &[Node]) -> Option<Vec<Node>> {
    const FREEBSD: i64 = 44;
    let ([heartbeat, pad], [beat, _]) = (expected, seen) else { return None };
    let (Some(told), Some(was)) = (heartbeat.items.first(), beat.items.first()) else { return None };
    let named = heartbeat.name == "HEARTBEAT" && told.name == "HEARTBEAT_INFORMATION" && pad.name == "PAD";
    let open = told.field("len").is_none_or(Value::is_any);
    let (size, seen) = (pad.field("len")?.int()?, was.field("len")?.int()?);
    if !named || !open || beat.name != heartbeat.name {
        return None;
    }
    let mut all = expected.to_vec();
    for (key, value) in &mut all[1].fields {
        if key == "len" {
            *value = Value::Int(size + FREEBSD - seen);
        }
    }
    Some(all)
}

/// Checks that each expected item (chunk, parameter or cause) was seen, in any order. Other items are allowed only if
/// `open` is set.
fn as_sets(family: Family, expected: &[Node], seen: &[Node], open: bool) -> Result<(), String> {
    let mut left: Vec<&Node> = seen.iter().collect();
    for item in expected {
        match left.iter().position(|candidate| compare(family, item, candidate).is_ok()) {
            Some(at) => drop(left.remove(at)),
            None => {
                // If `seen` has an item with the same name, the error says how this item differs from the expected one.
                let near = left.iter().find(|candidate| candidate.name == item.name);
                return Err(match near.map(|candidate| compare(family, item, candidate)) {
                    Some(Err(why)) => why,
                    _ => format!("{item} is missing"),
                });
            }
        }
    }
    match left.first() {
        Some(extra) if !open => Err(format!("{extra} is not expected")),
        _ => Ok(()),
    }
}

fn compare(family: Family, expected: &Node, seen: &Node) -> Result<(), String> {
    let generic;
    let mut seen = seen;
    if expected.name == family.generic() && seen.name != expected.name && seen.raw.len() >= 4 {
        generic = node(family, &seen.raw, ValueMap::default(), true);
        seen = &generic;
    }
    if expected.name != seen.name {
        return Err(format!("{} is expected, {} seen", expected.name, seen.name));
    }
    for (key, value) in &expected.fields {
        let matches = match (key.as_str(), seen.field(key)) {
            (_, None) => value.is_any(),
            ("flgs", Some(was)) => {
                let layout = by_name(family, &expected.name);
                let wanted = flags(layout, Some(value))?;
                wanted.is_none() || wanted == flags(layout, Some(was))?
            }
            ("type", Some(was)) => value.is_any() || number(family, value) == number(family, was),
            // RFC 9260 §3.3.1: the SSN of an unordered message has no meaning.
            ("ssn", Some(_)) if expected.name == "DATA" && is_unordered(seen) => true,
            // RFC 3758 §3.2, RFC 8260 §2.3.1: streams may be listed in any order. The chunk must list each stream only
            // once, even if the script lists a stream twice.
            ("ids", Some(was)) if !value.is_any() => same_streams(value, was),
            // RFC 9260 §3.3.2.1, RFC 5061 §4.2.7, RFC 9260 §3.3.10.2: the types in these lists have no order.
            ("types", Some(was)) if !value.is_any() => same_set(&expected.name, value, was),
            (_, Some(was)) => value_matches(value, was),
        };
        if !matches {
            let was = seen.field(key).map_or("nothing".to_owned(), ToString::to_string);
            return Err(format!("{}: {key}={value} is expected, {was} seen", expected.name));
        }
    }
    // The script gives only `...` as the content of the item, so any content matches.
    if expected.open && expected.items.is_empty() {
        return Ok(());
    }
    let inner = match expected.name.as_str() {
        "ABORT" | "ERROR" => Family::Cause,
        _ => Family::Param,
    };
    as_sets(inner, &expected.items, &seen.items, expected.open)
        .map_err(|why| format!("{}: {why}", expected.name))
}

fn is_unordered(data: &Node) -> bool {
    match data.field("flgs") {
        Some(Value::Word(letters)) => letters.contains('U'),
        Some(Value::Int(bits)) => bits & 4 != 0,
        _ => false,
    }
}

/// Compares the streams of a FORWARD TSN or I-FORWARD-TSN. The chunk that was seen must not name a stream twice.
fn same_streams(expected: &Value, seen: &Value) -> bool {
    let (Value::List(e), Value::List(s)) = (expected, seen) else { return false };
    let twice = s.iter().enumerate().any(|(at, item)| s[..at].contains(item));
    !twice && e.iter().all(|item| s.contains(item)) && s.iter().all(|item| e.contains(item))
}

/// Checks that two lists of chunk types or parameter types are equal, in any order.
fn same_set(name: &str, expected: &Value, seen: &Value) -> bool {
    let family = if name == "SUPPORTED_EXTENSIONS" { Family::Chunk } else { Family::Param };
    let sorted = |value: &Value| {
        let Value::List(items) = value else { return None };
        let mut all: Vec<i64> = items.iter().map(|item| number(family, item)).collect::<Option<_>>()?;
        all.sort_unstable();
        Some(all)
    };
    sorted(expected).is_some() && sorted(expected) == sorted(seen)
}

fn number(family: Family, value: &Value) -> Option<i64> {
    match value {
        Value::Word(name) => code_of(family, name).map(i64::from),
        other => other.int(),
    }
}

fn value_matches(expected: &Value, seen: &Value) -> bool {
    match (expected, seen) {
        (expected, _) if expected.is_any() => true,
        (Value::Node(e), Value::Node(s)) => {
            let family = if by_name(Family::Chunk, &s.name).is_some() || s.name == "CHUNK" {
                Family::Chunk
            } else {
                Family::Param
            };
            compare(family, e, s).is_ok()
        }
        (Value::List(e), Value::List(s)) => {
            let nodes = |values: &[Value]| -> Option<Vec<Node>> {
                let node = |v: &Value| if let Value::Node(n) = v { Some((**n).clone()) } else { None };
                values.iter().map(node).collect()
            };
            match (nodes(e), nodes(s)) {
                (Some(e), Some(s)) if !e.is_empty() => as_sets(Family::Param, &e, &s, false).is_ok(),
                _ => e.len() == s.len() && e.iter().zip(s).all(|(e, s)| value_matches(e, s)),
            }
        }
        (Value::Word(e), Value::Int(s)) | (Value::Int(s), Value::Word(e)) => {
            [Family::Chunk, Family::Param].iter().any(|&f| code_of(f, e).map(i64::from) == Some(*s))
                || (e == "SCTP_OVER_DTLS" && *s == 1)
        }
        (e, s) => e == s,
    }
}
