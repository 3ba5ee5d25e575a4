//! Converts chunks, parameters and error causes from a script's notation (nodes) to bytes, and back.
//!
//! Scripts use their own tags and TSNs. [`ValueMap`] translates between them and the values that the engine has chosen.
//!
//! Implements RFC 9260 §3.2 (TLVs and their padding) and §6.8 (the checksum).

use super::layout::{Family, FieldKind, Layout, by_code, by_name, code_of};
use crate::script::{Body, Node, Value};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Converts the engine's initiate tag and TSNs to those that the script uses, and back.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct ValueMap {
    /// The engine's own initiate tag, and the tag that the script uses in its place.
    pub(crate) tag: Option<(u32, u32)>,
    /// The engine's initial TSN, and the initial TSN that the script uses in its place.
    pub(crate) tsn: (u32, u32),
    /// Whether the chunks to decode were sent by the script, not by the engine.
    mirrored: bool,
}

impl ValueMap {
    pub(crate) fn new(tag: Option<(u32, u32)>, tsn: (u32, u32)) -> Self {
        Self { tag, tsn, mirrored: false }
    }

    /// Returns the mapping for the chunks of the other endpoint: those of the engine instead of those of the script, or
    /// the reverse.
    fn reflected(self) -> Self {
        Self { mirrored: !self.mirrored, ..self }
    }

    fn tsn_to_live(self, script: u32) -> u32 {
        script.wrapping_sub(self.tsn.1).wrapping_add(self.tsn.0)
    }

    pub(crate) fn tsn_to_script(self, live: u32) -> u32 {
        live.wrapping_sub(self.tsn.0).wrapping_add(self.tsn.1)
    }
}

/// Values of the last chunks that the engine sent. They are used where a script leaves a value open.
#[derive(Clone, Debug, Default)]
pub(crate) struct RepeatedValues {
    /// The State Cookie of the last INIT ACK that the engine sent.
    pub(crate) cookie: Vec<u8>,
    /// The Heartbeat Info of the last HEARTBEAT that the engine sent.
    pub(crate) heartbeat: Vec<u8>,
}

/// Returns the bytes of the chunks in a packet that the script sends to the engine.
pub(crate) fn encode_body(
    body: &Body,
    value_map: ValueMap,
    repeated: &RepeatedValues,
) -> Result<Vec<u8>, String> {
    let mut out = Vec::new();
    match body {
        Body::Bytes(bytes) => out.extend_from_slice(bytes),
        Body::Icmp(_) => return Err("an ICMP message has no chunks".to_owned()),
        Body::Chunks(chunks) => {
            let encoder = Encoder { value_map, repeated };
            for chunk in chunks {
                encoder.node(Family::Chunk, chunk, &mut out)?;
            }
        }
    }
    Ok(out)
}

struct Encoder<'a> {
    value_map: ValueMap,
    repeated: &'a RepeatedValues,
}

impl Encoder<'_> {
    fn node(&self, family: Family, node: &Node, out: &mut Vec<u8>) -> Result<(), String> {
        let start = out.len();
        let layout = by_name(family, &node.name);
        let generic = node.name == family.generic() || node.name == "RECONFIG_REQUEST_GENERIC";
        let code = match layout {
            Some(layout) => layout.code,
            None if generic => self.code(family, node)?,
            None => return Err(format!("there is no {}", node.name)),
        };
        if family == Family::Chunk {
            out.push(code as u8);
            out.push(flags(layout, node.field("flgs"))?.unwrap_or(0));
        } else {
            out.extend_from_slice(&code.to_be_bytes());
        }
        out.extend_from_slice(&[0, 0]);
        let length = node.field("len").and_then(Value::int);
        match layout {
            Some(layout) => {
                for (at, &(key, kind)) in layout.fields.iter().enumerate() {
                    if at + layout.optional >= layout.fields.len()
                        && node.field(key).is_none()
                        && layout.optional > 0
                    {
                        break;
                    }
                    self.field(node, key, kind, length, start, out)?;
                }
            }
            None => {
                if node.field("req_sn").is_some() {
                    self.field(node, "req_sn", FieldKind::Own, length, start, out)?;
                }
                let key = if family == Family::Cause { "info" } else { "val" };
                self.bytes(node, key, length, start, out)?;
            }
        }
        // The length that a script gives is used even if it is wrong, because the script may test wrong lengths.
        let length_field = match length {
            Some(length_field) => {
                u16::try_from(length_field).map_err(|_| format!("len={length_field} is out of range"))?
            }
            None => u16::try_from(out.len() - start).map_err(|_| "a chunk is too long".to_owned())?,
        };
        out[start + 2..start + 4].copy_from_slice(&length_field.to_be_bytes());
        while !(out.len() - start).is_multiple_of(4) {
            out.push(0);
        }
        Ok(())
    }

    fn code(&self, family: Family, node: &Node) -> Result<u16, String> {
        let value = node.field(if family == Family::Cause { "code" } else { "type" });
        value.and_then(|value| number_of(family, value)).ok_or_else(|| format!("{} has no type", node.name))
    }

    fn field(
        &self,
        node: &Node,
        key: &str,
        kind: FieldKind,
        length: Option<i64>,
        start: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let value = node.field(key);
        let int = || -> Result<u32, String> {
            match value {
                Some(Value::Int(n)) => u32::try_from(*n).map_err(|_| format!("{key}={n} is out of range")),
                Some(Value::Word(word)) if word == "SCTP_OVER_DTLS" => Ok(1),
                Some(Value::Any) => Ok(0),
                None => Err(format!("{} has no {key}", node.name)),
                Some(other) => Err(format!("{key}={other} is no number")),
            }
        };
        match kind {
            FieldKind::U16 => {
                let n = int()?;
                let n = u16::try_from(n).map_err(|_| format!("{key}={n} is out of range"))?;
                out.extend_from_slice(&n.to_be_bytes());
            }
            FieldKind::U32 | FieldKind::Own | FieldKind::Tag => out.extend_from_slice(&int()?.to_be_bytes()),
            FieldKind::Peer => {
                let live = if value.is_some_and(Value::is_any) {
                    self.value_map.tsn.0
                } else {
                    self.value_map.tsn_to_live(int()?)
                };
                out.extend_from_slice(&live.to_be_bytes());
            }
            FieldKind::Reserved => out.extend_from_slice(&[0, 0]),
            FieldKind::PpidOrFsn => {
                let value = value.or(node.field("fsn")).and_then(Value::int).unwrap_or(0);
                out.extend_from_slice(&(value as u32).to_be_bytes());
            }
            FieldKind::Payload => {
                let length_field =
                    length.map_or(start + 20, |length| start + length.clamp(0, 65_535) as usize);
                while out.len() < length_field {
                    out.push(b'X');
                }
            }
            FieldKind::Bytes => self.bytes(node, key, length, start, out)?,
            FieldKind::Text => match value {
                Some(Value::Text(text)) => {
                    out.extend_from_slice(text.as_bytes());
                    // RFC 9260 §3.3.2.4: a zero byte ends a host name.
                    if key == "addr" {
                        out.push(0);
                    }
                }
                _ => return Err(format!("{} has no {key}", node.name)),
            },
            FieldKind::V4 => match value {
                Some(Value::Address(IpAddr::V4(v4))) => out.extend_from_slice(&v4.octets()),
                _ => return Err(format!("{} has no IPv4 address", node.name)),
            },
            FieldKind::V6 => match value {
                Some(Value::Address(IpAddr::V6(v6))) => out.extend_from_slice(&v6.octets()),
                _ => return Err(format!("{} has no IPv6 address", node.name)),
            },
            FieldKind::U16s | FieldKind::Counted | FieldKind::ChunkTypes => {
                let items = list(value);
                if kind == FieldKind::Counted {
                    out.extend_from_slice(&(items.len() as u32).to_be_bytes());
                }
                let family = if kind == FieldKind::ChunkTypes { Family::Chunk } else { Family::Param };
                for item in items {
                    let n = number_of(family, item).ok_or_else(|| format!("{item} is no type"))?;
                    match kind {
                        FieldKind::ChunkTypes => out.push(n as u8),
                        _ => out.extend_from_slice(&n.to_be_bytes()),
                    }
                }
            }
            FieldKind::Params | FieldKind::Causes => {
                let family = if kind == FieldKind::Params { Family::Param } else { Family::Cause };
                for item in if key.is_empty() { &node.items[..] } else { &[] } {
                    self.node(family, item, out)?;
                }
                for item in if key.is_empty() { &[] } else { list(value) } {
                    let Value::Node(item) = item else { return Err(format!("{item} is no parameter")) };
                    self.node(family, item, out)?;
                }
            }
            FieldKind::OneParam | FieldKind::OneChunk => {
                let family = if kind == FieldKind::OneParam { Family::Param } else { Family::Chunk };
                let Some(Value::Node(item)) = value else {
                    return Err(format!("{} has no {key}", node.name));
                };
                self.node(family, item, out)?;
            }
            FieldKind::Gaps | FieldKind::NrGaps => self.blocks(node, kind, out)?,
            FieldKind::Skipped | FieldKind::ISkipped => {
                for id in list(value) {
                    let Value::Struct(parts) = id else { return Err(format!("{id} is no stream")) };
                    let numbers: Vec<i64> = parts.iter().filter_map(|(_, part)| part.int()).collect();
                    match (kind, &numbers[..]) {
                        (FieldKind::Skipped, &[sid, ssn]) => {
                            out.extend_from_slice(&(sid as u16).to_be_bytes());
                            out.extend_from_slice(&(ssn as u16).to_be_bytes());
                        }
                        (FieldKind::ISkipped, &[sid, unordered, mid]) => {
                            out.extend_from_slice(&(sid as u16).to_be_bytes());
                            out.extend_from_slice(&(unordered as u16).to_be_bytes());
                            out.extend_from_slice(&(mid as u32).to_be_bytes());
                        }
                        _ => return Err(format!("{id} is no stream")),
                    }
                }
            }
        }
        Ok(())
    }

    /// Writes the bytes of a field, which a script sets with `val` and `len`. If the script sets only `len`, the field
    /// is filled with the byte `V`. If it sets neither, the State Cookie of a COOKIE ECHO and the Heartbeat Information
    /// are copied from `repeated`. Other fields, and Heartbeat Information that `repeated` lacks, are eight bytes `V`.
    fn bytes(
        &self,
        node: &Node,
        key: &str,
        length: Option<i64>,
        start: usize,
        out: &mut Vec<u8>,
    ) -> Result<(), String> {
        let value = node.field(key).filter(|value| !value.is_any());
        if let Some(value) = value {
            let bytes = list(Some(value)).iter().map(|byte| byte.int().and_then(|n| u8::try_from(n).ok()));
            let bytes: Option<Vec<u8>> = bytes.collect();
            out.extend_from_slice(&bytes.ok_or_else(|| format!("{key}={value} is not bytes"))?);
            return Ok(());
        }
        if let Some(length) = length {
            let end = start + length.clamp(4, 65_535) as usize;
            out.resize(end.max(out.len()), b'V');
            return Ok(());
        }
        match node.name.as_str() {
            "COOKIE_ECHO" => out.extend_from_slice(&self.repeated.cookie),
            "HEARTBEAT_INFORMATION" if !self.repeated.heartbeat.is_empty() => {
                out.extend_from_slice(&self.repeated.heartbeat);
            }
            _ => out.extend_from_slice(b"VVVVVVVV"),
        }
        Ok(())
    }

    fn blocks(&self, node: &Node, kind: FieldKind, out: &mut Vec<u8>) -> Result<(), String> {
        let gaps = list(node.field("gaps"));
        let nr_gaps = list(node.field("nr_gaps"));
        let dups = list(node.field("dups"));
        out.extend_from_slice(&(gaps.len() as u16).to_be_bytes());
        if kind == FieldKind::NrGaps {
            out.extend_from_slice(&(nr_gaps.len() as u16).to_be_bytes());
        }
        out.extend_from_slice(&(dups.len() as u16).to_be_bytes());
        if kind == FieldKind::NrGaps {
            out.extend_from_slice(&[0, 0]);
        }
        for gap in gaps.iter().chain(nr_gaps) {
            let &Value::Pair(from, to) = gap else { return Err(format!("{gap} is no block")) };
            out.extend_from_slice(&(from as u16).to_be_bytes());
            out.extend_from_slice(&(to as u16).to_be_bytes());
        }
        for dup in dups {
            let tsn = dup.int().ok_or_else(|| format!("{dup} is no TSN"))?;
            out.extend_from_slice(&self.value_map.tsn_to_live(tsn as u32).to_be_bytes());
        }
        Ok(())
    }
}

fn list(value: Option<&Value>) -> &[Value] {
    match value {
        Some(Value::List(items)) if !value.is_some_and(Value::is_any) => items,
        _ => &[],
    }
}

fn number_of(family: Family, value: &Value) -> Option<u16> {
    match value {
        Value::Int(n) => u16::try_from(*n).ok(),
        Value::Word(name) => code_of(family, name),
        _ => None,
    }
}

/// Returns the flags byte of a chunk, which a script gives as a number or as letters. `None` matches any flags.
pub(super) fn flags(layout: Option<&Layout>, value: Option<&Value>) -> Result<Option<u8>, String> {
    match value {
        None | Some(Value::Any) => Ok(None),
        Some(Value::Int(n)) => u8::try_from(*n).map(Some).map_err(|_| format!("flgs={n} is out of range")),
        Some(Value::Word(letters)) => {
            let known = layout.map_or("", |layout| layout.flags);
            let bits = letters.chars().map(|c| known.find(c).map(|bit| 1u8 << bit));
            let bits: Option<Vec<u8>> = bits.collect();
            let bits = bits.ok_or_else(|| format!("flgs={letters}: only {known} are known"))?;
            Ok(Some(bits.iter().fold(0, |all, bit| all | bit)))
        }
        Some(other) => Err(format!("flgs={other} are no flags")),
    }
}

// Decoding.

/// Decodes only the first chunk of raw bytes, even if the chunk is truncated.
pub(crate) fn leading(bytes: &[u8]) -> Vec<Node> {
    let [kind, _, high, low, ..] = *bytes else { return Vec::new() };
    let length_field = usize::from(u16::from_be_bytes([high, low])).clamp(4, bytes.len());
    let value_map = ValueMap::default().reflected();
    let read = node(Family::Chunk, &bytes[..length_field], value_map, false);
    let name = by_code(Family::Chunk, kind.into()).map_or("CHUNK", |layout| layout.name);
    // A chunk that is too short for its layout is converted in the generic form, but with its name.
    if read.name == name { vec![read] } else { vec![Node { name: name.to_owned(), ..read }] }
}

/// Decodes the chunks of a packet, which follow the common header. `value_map` converts verification tags and TSNs to
/// those in the script.
pub(crate) fn decode_packet(bytes: &[u8], value_map: ValueMap) -> Result<Vec<Node>, String> {
    nodes(Family::Chunk, bytes, value_map)
}

fn nodes(family: Family, mut bytes: &[u8], value_map: ValueMap) -> Result<Vec<Node>, String> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let [_, _, high, low, ..] = *bytes else {
            return Err(format!("{} bytes are left over", bytes.len()));
        };
        let length = usize::from(u16::from_be_bytes([high, low]));
        if length < 4 || length > bytes.len() {
            return Err(format!("a length of {length} where {} bytes are left", bytes.len()));
        }
        found.push(node(family, &bytes[..length], value_map, false));
        bytes = &bytes[length.next_multiple_of(4).min(bytes.len())..];
    }
    Ok(found)
}

/// Decodes one TLV (a chunk, a parameter or an error cause). A TLV that does not fit its layout is converted in the
/// generic form.
pub(super) fn node(family: Family, raw: &[u8], value_map: ValueMap, generic: bool) -> Node {
    let code = match family {
        Family::Chunk => u16::from(raw[0]),
        _ => u16::from_be_bytes([raw[0], raw[1]]),
    };
    let layout = by_code(family, code).filter(|_| !generic);
    let specific = layout.and_then(|layout| specific(layout, raw, value_map));
    specific.unwrap_or_else(|| {
        let mut node = Node { name: family.generic().to_owned(), raw: raw.to_vec(), ..Node::default() };
        node = node.with(if family == Family::Cause { "code" } else { "type" }, Value::Int(code.into()));
        if family == Family::Chunk {
            node = node.with("flgs", Value::Int(raw[1].into()));
        }
        let key = if family == Family::Cause { "info" } else { "val" };
        node.with("len", Value::Int(raw.len() as i64)).with(key, bytes_value(&raw[4..]))
    })
}

fn bytes_value(bytes: &[u8]) -> Value {
    Value::List(bytes.iter().map(|&byte| Value::Int(byte.into())).collect())
}

/// Reads numbers from the front of a slice of bytes.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (front, rest) = self.0.split_first_chunk::<N>()?;
        self.0 = rest;
        Some(*front)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn rest(&mut self) -> &'a [u8] {
        std::mem::take(&mut self.0)
    }
}

fn specific(layout: &Layout, raw: &[u8], value_map: ValueMap) -> Option<Node> {
    let mut node = Node { name: layout.name.to_owned(), raw: raw.to_vec(), ..Node::default() };
    let mut first = false;
    if layout.family == Family::Chunk {
        let bits = raw[1];
        first = bits & 2 != 0;
        let known = (1u16 << layout.flags.len()) - 1;
        let letters: String = (0..8)
            .rev()
            .filter(|bit| bits >> bit & 1 == 1)
            .filter_map(|bit| layout.flags.chars().nth(bit))
            .collect();
        let shown = if bits == 0 || u16::from(bits) & !known != 0 {
            Value::Int(bits.into())
        } else {
            Value::Word(letters)
        };
        node = node.with("flgs", shown);
    }
    let has_len = layout.fields.iter().any(|(_, kind)| matches!(kind, FieldKind::Bytes | FieldKind::Payload));
    if has_len {
        node = node.with("len", Value::Int(raw.len() as i64));
    }
    let mut cursor = Cursor(&raw[4..]);
    for (at, &(key, kind)) in layout.fields.iter().enumerate() {
        if cursor.0.is_empty() && at + layout.optional >= layout.fields.len() && layout.optional > 0 {
            break;
        }
        let value = match kind {
            FieldKind::U16 => Value::Int(cursor.u16()?.into()),
            FieldKind::U32 => Value::Int(cursor.u32()?.into()),
            FieldKind::Own | FieldKind::Peer if (kind == FieldKind::Own) == value_map.mirrored => {
                Value::Int(cursor.u32()?.into())
            }
            FieldKind::Own | FieldKind::Peer => Value::Int(value_map.tsn_to_script(cursor.u32()?).into()),
            FieldKind::Tag => {
                let live = cursor.u32()?;
                let script =
                    value_map.tag.filter(|&(known, _)| known == live).map_or(live, |(_, script)| script);
                Value::Int(script.into())
            }
            FieldKind::Reserved => {
                cursor.u16()?;
                continue;
            }
            FieldKind::PpidOrFsn => {
                let n = Value::Int(cursor.u32()?.into());
                node = node.with(if first { "ppid" } else { "fsn" }, n);
                continue;
            }
            FieldKind::Payload => {
                cursor.rest();
                continue;
            }
            FieldKind::Bytes => bytes_value(cursor.rest()),
            FieldKind::Text => {
                let text = String::from_utf8_lossy(cursor.rest());
                Value::Text(text.trim_end_matches('\0').to_owned())
            }
            FieldKind::V4 => Value::Address(Ipv4Addr::from(cursor.take::<4>()?).into()),
            FieldKind::V6 => Value::Address(Ipv6Addr::from(cursor.take::<16>()?).into()),
            FieldKind::U16s | FieldKind::Counted => {
                let count = if kind == FieldKind::Counted { Some(cursor.u32()?) } else { None };
                let rest = cursor.rest();
                let numbers = rest.as_chunks::<2>().0;
                if count.is_some_and(|count| count as usize != numbers.len()) {
                    return None;
                }
                let number = |pair: &[u8; 2]| Value::Int(u16::from_be_bytes(*pair).into());
                Value::List(numbers.iter().map(number).collect())
            }
            FieldKind::ChunkTypes => {
                let name = |&code: &u8| match by_code(Family::Chunk, code.into()) {
                    Some(layout) => Value::Word(layout.name.to_owned()),
                    None => Value::Int(code.into()),
                };
                Value::List(cursor.rest().iter().map(name).collect())
            }
            FieldKind::Params | FieldKind::Causes => {
                let family = if kind == FieldKind::Params { Family::Param } else { Family::Cause };
                let inside = nodes(family, cursor.rest(), value_map).ok()?;
                if key.is_empty() {
                    node.items = inside;
                    continue;
                }
                Value::List(inside.into_iter().map(|item| Value::Node(Box::new(item))).collect())
            }
            FieldKind::OneParam | FieldKind::OneChunk => {
                let family = if kind == FieldKind::OneParam { Family::Param } else { Family::Chunk };
                // This field quotes a chunk of the opposite side: of the script in a chunk of the engine, or the
                // reverse.
                let value_map = if kind == FieldKind::OneChunk { value_map.reflected() } else { value_map };
                Value::Node(Box::new(nodes(family, cursor.rest(), value_map).ok()?.pop()?))
            }
            FieldKind::Gaps | FieldKind::NrGaps => {
                node = blocks(node, kind, &mut cursor)?;
                continue;
            }
            FieldKind::Skipped => {
                let ids = cursor.rest().as_chunks::<4>().0.iter().map(|id| {
                    let [sid, ssn] = [u16::from_be_bytes([id[0], id[1]]), u16::from_be_bytes([id[2], id[3]])];
                    numbers(&[sid.into(), ssn.into()])
                });
                Value::List(ids.collect())
            }
            FieldKind::ISkipped => {
                let ids = cursor.rest().as_chunks::<8>().0.iter().map(|id| {
                    let sid = u16::from_be_bytes([id[0], id[1]]);
                    let mid = u32::from_be_bytes([id[4], id[5], id[6], id[7]]);
                    numbers(&[sid.into(), (id[3] & 1).into(), mid.into()])
                });
                Value::List(ids.collect())
            }
        };
        node = node.with(key, value);
    }
    Some(node)
}

fn numbers(all: &[i64]) -> Value {
    Value::Struct(all.iter().map(|&n| (String::new(), Value::Int(n))).collect())
}

fn blocks(node: Node, kind: FieldKind, cursor: &mut Cursor<'_>) -> Option<Node> {
    let gaps = cursor.u16()?;
    let nr_gaps = if kind == FieldKind::NrGaps { cursor.u16()? } else { 0 };
    let dups = cursor.u16()?;
    if kind == FieldKind::NrGaps {
        cursor.u16()?;
    }
    let mut pairs = |count: u16| -> Option<Value> {
        let pair = |_| Some(Value::Pair(cursor.u16()?.into(), cursor.u16()?.into()));
        (0..count).map(pair).collect::<Option<Vec<_>>>().map(Value::List)
    };
    let mut node = node.with("gaps", pairs(gaps)?);
    if kind == FieldKind::NrGaps {
        node = node.with("nr_gaps", pairs(nr_gaps)?);
    }
    let dups: Option<Vec<Value>> = (0..dups).map(|_| Some(Value::Int(cursor.u32()?.into()))).collect();
    cursor.0.is_empty().then_some(())?;
    Some(node.with("dups", Value::List(dups?)))
}
