//! A parsed packetdrill script: a list of events in time. Each event is a system call, a packet or a command.

use anabranch_base::Ecn;
use std::fmt;
use std::net::IpAddr;

/// A whole script.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Script {
    /// The options at the beginning of the script, lines of the form `--name=value`.
    pub(crate) options: Vec<(String, String)>,
    pub(crate) events: Vec<Event>,
}

impl Script {
    /// Returns whether the script resets or adds streams, or has RE-CONFIG chunks (RFC 6525).
    pub(crate) fn reconfigures(&self) -> bool {
        const OPTIONS: &[&str] =
            &["SCTP_ENABLE_STREAM_RESET", "SCTP_RESET_STREAMS", "SCTP_RESET_ASSOC", "SCTP_ADD_STREAMS"];
        self.uses("RECONFIG", OPTIONS)
    }

    /// Returns whether the script authenticates chunks, sets keys, or has AUTH chunks (RFC 4895).
    pub(crate) fn authenticates(&self) -> bool {
        const OPTIONS: &[&str] = &[
            "SCTP_AUTH_CHUNK",
            "SCTP_AUTH_KEY",
            "SCTP_AUTH_ACTIVE_KEY",
            "SCTP_AUTH_DEACTIVATE_KEY",
            "SCTP_AUTH_DELETE_KEY",
            "SCTP_HMAC_IDENT",
            "SCTP_LOCAL_AUTH_CHUNKS",
            "SCTP_PEER_AUTH_CHUNKS",
            "SCTP_AUTHENTICATION_EVENT",
        ];
        self.uses("AUTH", OPTIONS)
    }

    /// Returns whether the script has chunks with the name `chunk`, or calls that contain one of `words`.
    fn uses(&self, chunk: &str, words: &[&str]) -> bool {
        self.events.iter().any(|event| match &event.action {
            Action::Inbound(packet) | Action::Outbound(packet) => {
                matches!(&packet.body, Body::Chunks(all) if all.iter().any(|one| one.name == chunk))
            }
            Action::Call(call) => call.args.iter().any(|arg| arg.contains_word(words)),
            Action::Shell(_) | Action::Code(_) => false,
        })
    }

    /// Returns the number of the first line whose action is an outbound packet with an explicit destination. Returns
    /// `None` if the script has no such line.
    pub(crate) fn names_targets(&self) -> Option<usize> {
        let named = |event: &&Event| matches!(&event.action, Action::Outbound(p) if p.target.is_some());
        self.events.iter().find(named).map(|event| event.line)
    }
}

/// One event of a script: an action and its time.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Event {
    pub(crate) line: usize,
    pub(crate) time: Time,
    pub(crate) action: Action,
}

/// The time of an event in a script, in microseconds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Time {
    /// At any time.
    Any,
    /// At this time after the start of the script.
    At(i64),
    /// At this time after the previous event.
    After(i64),
    /// Between two times after the start of the script.
    Between(i64, i64),
    /// Between two times after the previous event.
    AfterBetween(i64, i64),
}

/// What happens in one event of a script.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Action {
    Call(Call),
    Inbound(Packet),
    Outbound(Packet),
    Shell(String),
    Code(String),
}

/// A system call with its expected result.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct Call {
    pub(crate) name: String,
    pub(crate) args: Vec<Value>,
    pub(crate) result: Value,
    pub(crate) errno: Option<String>,
    /// The time in microseconds when a blocking call must return. It counts from the same origin as the time of the
    /// event.
    pub(crate) until: Option<i64>,
}

/// A packet in a script, with its headers and chunks.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Packet {
    pub(crate) source: Option<(IpAddr, Option<u16>)>,
    pub(crate) target: Option<(IpAddr, Option<u16>)>,
    /// The source port and the target port in the SCTP header.
    pub(crate) ports: Option<(u16, u16)>,
    pub(crate) ecn: Option<EcnMark>,
    pub(crate) dscp: Option<u8>,
    pub(crate) ttl: Option<u8>,
    pub(crate) flow_label: Option<u32>,
    pub(crate) tag: Option<u32>,
    pub(crate) bad_checksum: bool,
    pub(crate) zero_checksum: bool,
    /// The source port and the target port in the UDP header (RFC 6951).
    pub(crate) udp: Option<(u16, u16)>,
    pub(crate) body: Body,
}

/// The content of a packet after the SCTP common header.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Body {
    Chunks(Vec<Node>),
    Bytes(Vec<u8>),
    /// An ICMP message instead of an SCTP packet.
    Icmp(Icmp),
}

/// An ICMP message about an SCTP packet that the engine sent.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Icmp {
    pub(crate) kind: String,
    pub(crate) code: Option<String>,
    pub(crate) mtu: Option<u32>,
    /// The verification tag of the SCTP packet that caused the ICMP message.
    pub(crate) about: Option<u32>,
}

/// The ECN field of an IP header (RFC 3168 §5).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum EcnMark {
    Is(Ecn),
    /// ECT(0) or ECT(1).
    Capable,
}

impl EcnMark {
    pub(crate) fn named(name: &str) -> Option<Self> {
        Some(Self::Is(match name {
            "noecn" => Ecn::NotEct,
            "ect0" => Ecn::Ect0,
            "ect1" => Ecn::Ect1,
            "ce" => Ecn::Ce,
            "ect01" => return Some(Self::Capable),
            _ => return None,
        }))
    }

    pub(crate) fn of_bits(bits: u8) -> Self {
        Self::Is(Ecn::from_bits(bits))
    }

    pub(crate) fn allows(self, seen: Ecn) -> bool {
        match self {
            Self::Is(mark) => mark == seen,
            Self::Capable => matches!(seen, Ecn::Ect0 | Ecn::Ect1),
        }
    }
}

impl Default for Body {
    fn default() -> Self {
        Self::Chunks(Vec::new())
    }
}

/// A chunk, a parameter or an error cause, as a script writes it: `NAME[key=value, …, ITEM[…], …]`.
#[derive(Clone, PartialEq, Debug, Default)]
pub(crate) struct Node {
    pub(crate) name: String,
    pub(crate) fields: Vec<(String, Value)>,
    pub(crate) items: Vec<Node>,
    /// Whether the node ends with `...`, so that more items may follow. If it also has no items, any content matches.
    pub(crate) open: bool,
    /// The bytes from which the node was decoded; empty if it comes from a script.
    pub(crate) raw: Vec<u8>,
}

impl Node {
    pub(crate) fn field(&self, key: &str) -> Option<&Value> {
        self.fields.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }

    pub(crate) fn with(mut self, key: &str, value: Value) -> Self {
        self.fields.push((key.to_owned(), value));
        self
    }
}

/// A value in a script: an argument of a call, a field of a packet, or a result.
#[derive(Clone, PartialEq, Debug)]
pub(crate) enum Value {
    /// `...`: anything matches.
    Any,
    Int(i64),
    Word(String),
    Text(String),
    Address(IpAddr),
    /// Alternatives or flags, as in `a | b`.
    Or(Vec<Value>),
    /// A pair of numbers, as in `a:b`.
    Pair(i64, i64),
    List(Vec<Value>),
    /// A structure, as in `{key=value, …}`. A member without a key has an empty key.
    Struct(Vec<(String, Value)>),
    /// A call, as in `name(arguments)`.
    Call(String, Vec<Value>),
    Node(Box<Node>),
}

impl Value {
    pub(crate) fn is_any(&self) -> bool {
        match self {
            Self::Any => true,
            Self::List(items) => items.len() == 1 && items[0].is_any(),
            _ => false,
        }
    }

    /// Returns whether the value contains one of these words.
    fn contains_word(&self, words: &[&str]) -> bool {
        match self {
            Self::Word(word) => words.contains(&word.as_str()),
            Self::Or(all) | Self::List(all) | Self::Call(_, all) => {
                all.iter().any(|one| one.contains_word(words))
            }
            Self::Struct(members) => members.iter().any(|(_, one)| one.contains_word(words)),
            Self::Any | Self::Int(_) | Self::Text(_) | Self::Address(_) | Self::Pair(..) | Self::Node(_) => {
                false
            }
        }
    }

    pub(crate) fn int(&self) -> Option<i64> {
        if let Self::Int(n) = self { Some(*n) } else { None }
    }

    /// Returns a structure with one more member. Other values are returned as they are.
    pub(crate) fn with(self, key: &str, value: Self) -> Self {
        match self {
            Self::Struct(mut fields) => {
                fields.push((key.to_owned(), value));
                Self::Struct(fields)
            }
            other => other,
        }
    }

    /// Returns the value of the member `key` of a structure.
    pub(crate) fn member(&self, key: &str) -> Option<&Value> {
        let Self::Struct(fields) = self else { return None };
        fields.iter().find(|(name, _)| name == key).map(|(_, value)| value)
    }
}

fn list<T: fmt::Display>(f: &mut fmt::Formatter<'_>, items: &[T], between: &str) -> fmt::Result {
    for (i, item) in items.iter().enumerate() {
        if i > 0 {
            f.write_str(between)?;
        }
        item.fmt(f)?;
    }
    Ok(())
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("..."),
            Self::Int(n) => n.fmt(f),
            Self::Word(word) => f.write_str(word),
            Self::Text(text) => write!(f, "{text:?}"),
            Self::Address(address) => address.fmt(f),
            Self::Or(items) => list(f, items, "|"),
            Self::Pair(a, b) => write!(f, "{a}:{b}"),
            Self::List(items) => {
                f.write_str("[")?;
                list(f, items, ", ")?;
                f.write_str("]")
            }
            Self::Struct(fields) => {
                f.write_str("{")?;
                for (i, (key, value)) in fields.iter().enumerate() {
                    f.write_str(if i > 0 { ", " } else { "" })?;
                    if key.is_empty() { value.fmt(f)? } else { write!(f, "{key}={value}")? }
                }
                f.write_str("}")
            }
            Self::Call(name, args) => {
                write!(f, "{name}(")?;
                list(f, args, ", ")?;
                f.write_str(")")
            }
            Self::Node(node) => node.fmt(f),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[", self.name)?;
        let fields = self.fields.iter().map(|(key, value)| match (key.as_str(), value) {
            ("flgs" | "type" | "code", Value::Int(n)) => format!("{key}={n:#04x}"),
            ("val", Value::List(bytes)) if bytes.len() > 16 => format!("val=<{} bytes>", bytes.len()),
            _ => format!("{key}={value}"),
        });
        let items = self.items.iter().map(ToString::to_string);
        let dots = self.open.then(|| "...".to_owned());
        list(f, &fields.chain(items).chain(dots).collect::<Vec<_>>(), ", ")?;
        f.write_str("]")
    }
}

impl fmt::Display for Body {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Chunks(chunks) => list(f, chunks, "; "),
            Self::Bytes(bytes) => write!(f, "{bytes:02x?}"),
            Self::Icmp(icmp) => {
                write!(f, "icmp {}", icmp.kind)?;
                if let Some(code) = &icmp.code {
                    write!(f, " {code}")?;
                }
                if let Some(mtu) = icmp.mtu {
                    write!(f, " mtu {mtu}")?;
                }
                if let Some(tag) = icmp.about {
                    write!(f, " [sctp({tag})]")?;
                }
                Ok(())
            }
        }
    }
}

impl fmt::Display for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}(", self.name)?;
        list(f, &self.args, ", ")?;
        f.write_str(")")
    }
}
