//! Compares our SCTP decoder with dcsctp's decoder: both decode the same bytes.
//!
//! A seeded mutator changes real packets from runs of our stack with dcsctp, and both decoders read the results.
//! dcsctp's parser is private. With checksum verification off, its API only shows whether a socket accepts the bytes as
//! a packet. Our decoder accepts the bytes if it can read every chunk, parameter and cause. If the two decoders
//! disagree, [`Rule`] has to name the reason.

use crate::cases::{By, Case};
use crate::peers::Stack;
use ::dcsctp::api::{DcSctpSocket, ErrorKind, Options, SocketEvent};
use anabranch_base::Rng;
use anabranch_wire::sctp::{
    Abort, Chunk, Error, Heartbeat, HeartbeatAck, InitAck, Malformed, PacketView, Param, RawChunk,
    ReConfigParam,
};
use std::collections::{BTreeMap, BTreeSet};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A reason why only one of the two decoders accepts a packet.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Rule {
    /// The last chunk of the packet has no padding.
    LastPadding,
    /// A malformed chunk of a type that our decoder knows, but dcsctp does not.
    ChunkOnlyOurs,
    /// A malformed parameter or error cause of a type that our decoder knows, but dcsctp does not.
    ParamOnlyOurs,
    /// The first parameter of a HEARTBEAT or HEARTBEAT ACK is not Heartbeat Info.
    HeartbeatInfo,
    /// A RE-CONFIG without a parameter, or with a parameter that a RE-CONFIG must not have.
    ReConfigForm,
    /// A packet without any chunk.
    NoChunk,
    /// A re-configuration result that RFC 6525 does not list.
    ReConfigResult,
    /// A State Cookie parameter that is empty.
    EmptyCookie,
    /// An ERROR chunk without an error cause.
    EmptyError,
    /// A HEARTBEAT whose bytes after the Heartbeat Info are not a parameter.
    HeartbeatRest,
    /// A Forward-TSN-Supported parameter that is not empty.
    FlagWithValue,
    /// A malformed parameter in a chunk in which parameters of its type have no meaning.
    Elsewhere,
}

impl Rule {
    /// Describes the rule, and which decoder is stricter.
    #[must_use]
    pub const fn text(self) -> &'static str {
        match self {
            Self::LastPadding => {
                "ours refuses: last chunk without padding (RFC 9260 §3.2: the sender must pad)"
            }
            Self::ChunkOnlyOurs => {
                "ours refuses: form of a chunk that dcsctp does not know (AUTH, ASCONF, ECNE, NR-SACK, …)"
            }
            Self::ParamOnlyOurs => "ours refuses: form of a parameter or cause that dcsctp does not know",
            Self::HeartbeatInfo => {
                "ours refuses: HEARTBEAT without its one mandatory parameter (RFC 9260 §3.3.5)"
            }
            Self::ReConfigForm => {
                "ours refuses: RE-CONFIG with nothing, or with what does not belong (RFC 6525 §3.1)"
            }
            Self::NoChunk => "dcsctp refuses: header without a chunk (ours: a packet that does nothing)",
            Self::ReConfigResult => {
                "dcsctp refuses: result of a reset beyond 6 (RFC 6525 §4.4; ours: a failure)"
            }
            Self::EmptyCookie => {
                "dcsctp refuses: COOKIE ECHO of no bytes (ours: no cookie of ours, dropped later)"
            }
            Self::EmptyError => {
                "dcsctp refuses: ERROR without a cause (RFC 9260 §3.3.10: one or more; ours: says nothing)"
            }
            Self::HeartbeatRest => {
                "dcsctp refuses: rubbish behind the Heartbeat Info (ours: opaque, sent back)"
            }
            Self::FlagWithValue => {
                "dcsctp refuses: bytes in Forward-TSN-Supported (RFC 3758 §3.1; ours: passed over)"
            }
            Self::Elsewhere => {
                "dcsctp refuses: form of a parameter where it means nothing (ours: not looked at)"
            }
        }
    }
}

/// The result of comparing the two decoders on many packets.
#[derive(Clone, Debug, Default)]
pub struct Comparison {
    /// The number of inputs that both decoders accept.
    pub both_take: u64,
    /// The number of inputs that both decoders reject.
    pub neither_takes: u64,
    /// The number of inputs that the decoders treat differently for a known reason, by reason.
    pub explained: BTreeMap<Rule, u64>,
    /// The inputs that the decoders treat differently for no known reason. A key has the verdicts of both decoders. A
    /// value has the number of inputs with these verdicts, and the bytes of one input.
    pub unexplained: BTreeMap<String, (u64, Vec<u8>)>,
    /// The number of inputs at which dcsctp panicked.
    pub panics: u64,
}

/// Returns the packets from which inputs are made. They are real packets that are stored in a file, so that the same
/// seed gives the same inputs.
///
/// # Panics
/// If the file has another format.
#[must_use]
pub fn corpus() -> Vec<Vec<u8>> {
    let byte = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).expect("digits");
        u8::from_str_radix(text, 16).expect("hexadecimal digits")
    };
    let lines = include_str!("../corpus/packets.hex").lines();
    lines.map(|line| line.as_bytes().chunks(2).map(byte).collect()).collect()
}

/// Runs several test cases between our stack and dcsctp, and returns packets of both stacks. At most eight of the
/// packets have the same sequence of chunk types, and none is longer than 300 bytes.
#[must_use]
pub fn collect() -> Vec<Vec<u8>> {
    let cases = [
        Case::Handshake(By::Us),
        Case::Handshake(By::Them),
        Case::Lossy,
        Case::Reset(By::Us),
        Case::Reset(By::Them),
        Case::Lifetime(By::Us),
        Case::Lifetime(By::Them),
        Case::ForwardInterleaved(By::Us),
        Case::ForwardInterleaved(By::Them),
        Case::ZeroChecksum,
        Case::Shutdown(By::Us),
        Case::Abort(By::Us),
        Case::Abort(By::Them),
    ];
    let mut seen: BTreeMap<Vec<u8>, usize> = BTreeMap::new();
    let mut packets = Vec::new();
    for case in cases {
        let Ok(shown) = case.run(Stack::DcSctp, 1) else { continue };
        for packet in shown.packets.into_iter().filter(|packet| packet.len() <= 300) {
            let Ok(view) = PacketView::parse_unverified(&packet) else { continue };
            let mut chunks = view.chunks();
            let kinds = std::iter::from_fn(|| chunks.next_raw()).filter_map(Result::ok).map(|raw| raw.kind);
            let count = seen.entry(kinds.collect()).or_default();
            *count += 1;
            if *count <= 8 {
                packets.push(packet);
            }
        }
    }
    packets
}

/// Compares the two decoders on `inputs` packets made from `corpus`.
#[must_use]
pub fn compare(corpus: &[Vec<u8>], inputs: u64, seed: u64) -> Comparison {
    let mut rng = Rng::new(seed).fork("decoding");
    let mut comparison = Comparison::default();
    let mut socket = socket();
    for number in 0..inputs {
        if number % 500 == 0 {
            socket = self::socket();
        }
        let bytes = mutate(corpus, &mut rng);
        let ours = read(&bytes);
        let Ok(theirs) = catch_unwind(AssertUnwindSafe(|| takes(&mut *socket, &bytes))) else {
            comparison.panics += 1;
            socket = self::socket();
            continue;
        };
        match (&ours, theirs) {
            (Ok(()), true) => comparison.both_take += 1,
            (Err(_), false) => comparison.neither_takes += 1,
            _ => match explain(&bytes, ours) {
                Some(rule) => *comparison.explained.entry(rule).or_default() += 1,
                None => {
                    let what = format!("{ours:?}, dcsctp {theirs}");
                    comparison.unexplained.entry(what).or_insert_with(|| (0, bytes)).0 += 1;
                }
            },
        }
    }
    comparison
}

fn socket() -> Box<dyn DcSctpSocket> {
    ::dcsctp::new_socket("reader", &Options { disable_checksum_verification: true, ..Options::default() })
}

/// Returns whether dcsctp accepts the bytes as a packet.
fn takes(socket: &mut dyn DcSctpSocket, bytes: &[u8]) -> bool {
    socket.handle_input(bytes);
    let mut taken = true;
    while let Some(event) = socket.poll_event() {
        if let SocketEvent::OnError(ErrorKind::ParseFailed, text) = event {
            taken &= text != "Failed to parse SCTP packet";
        }
    }
    taken
}

/// Decodes the whole packet with our decoder.
fn read(bytes: &[u8]) -> Result<(), Option<Malformed>> {
    let view = PacketView::parse_unverified(bytes).map_err(|_| None)?;
    for chunk in view.chunks() {
        read_within(&chunk.map_err(Some)?).map_err(Some)?;
    }
    Ok(())
}

/// Decodes the parameters and error causes of a chunk with our decoder.
fn read_within(chunk: &Chunk<'_>) -> Result<(), Malformed> {
    match chunk {
        Chunk::Init(init) | Chunk::InitAck(InitAck(init)) => {
            init.params.clone().try_for_each(|param| param.map(drop))
        }
        Chunk::Abort(Abort { causes, .. }) | Chunk::Error(Error { causes }) => {
            causes.clone().try_for_each(|cause| cause.map(drop))
        }
        _ => Ok(()),
    }
}

/// Returns the rule that explains why only one decoder accepts the bytes; `None` if no rule does.
fn explain(bytes: &[u8], ours: Result<(), Option<Malformed>>) -> Option<Rule> {
    let view = PacketView::parse_unverified(bytes).ok()?;
    let mut chunks = view.chunks();
    match ours {
        Ok(()) => {
            if chunks.is_empty() {
                return Some(Rule::NoChunk);
            }
            let mut raws = view.chunks();
            let mut raws = std::iter::from_fn(|| raws.next_raw()).filter_map(Result::ok);
            if raws.any(|raw| matches!(raw.kind, 1 | 2) && flag_has_value(&raw.value[16..])) {
                return Some(Rule::FlagWithValue);
            }
            chunks.filter_map(Result::ok).find_map(|chunk| match chunk {
                Chunk::CookieEcho(echo) if echo.cookie.is_empty() => Some(Rule::EmptyCookie),
                Chunk::Error(error) if error.causes.clone().next().is_none() => Some(Rule::EmptyError),
                Chunk::ReConfig(chunk) => chunk
                    .params()
                    .any(|param| matches!(param, ReConfigParam::Response { result: 7.., .. }))
                    .then_some(Rule::ReConfigResult),
                Chunk::Heartbeat(Heartbeat { rest, .. }) | Chunk::HeartbeatAck(HeartbeatAck { rest, .. }) => {
                    (!rest.is_empty()).then_some(Rule::HeartbeatRest)
                }
                Chunk::Init(init) | Chunk::InitAck(InitAck(init)) => init
                    .params
                    .clone()
                    .any(|param| matches!(param, Ok(Param::Unknown(raw)) if STRICT.contains(&raw.kind)))
                    .then_some(Rule::Elsewhere),
                _ => None,
            })
        }
        Err(Some(Malformed::ChunkLength { length, .. })) => {
            let mut left = chunks.rest();
            while let Some(Ok(_)) = chunks.next_raw() {
                left = chunks.rest();
            }
            (usize::from(length) >= 4 && usize::from(length) <= left.len()).then_some(Rule::LastPadding)
        }
        Err(Some(Malformed::Chunk { kind: 4 | 5 })) => Some(Rule::HeartbeatInfo),
        Err(Some(Malformed::Chunk { kind: 0x82 })) => Some(Rule::ReConfigForm),
        Err(Some(Malformed::Chunk { kind: 0x0c | 0x0d | 0x0f | 0x10 | 0x80 | 0xc1 | 0x84 })) => {
            Some(Rule::ChunkOnlyOurs)
        }
        Err(Some(Malformed::Tlv { kind })) => {
            let in_reconfig = std::iter::from_fn(|| chunks.next_raw())
                .filter_map(Result::ok)
                .find(|raw| !fits(*raw))
                .is_some_and(|raw| raw.kind == 0x82);
            if in_reconfig {
                return Some(Rule::ReConfigForm);
            }
            (!STRICT.contains(&kind)).then_some(Rule::ParamOnlyOurs)
        }
        _ => None,
    }
}

/// Returns whether the parameters contain a Forward-TSN-Supported parameter with a value. RFC 3758 §3.1 defines no
/// value.
fn flag_has_value(mut params: &[u8]) -> bool {
    while let Some(&[high, low, length_high, length_low]) = params.first_chunk::<4>() {
        let length = usize::from(u16::from_be_bytes([length_high, length_low]));
        if [high, low] == [0xc0, 0] && length > 4 {
            return true;
        }
        params = params.get(length.max(4).next_multiple_of(4)..).unwrap_or_default();
    }
    false
}

/// Returns whether our decoder can read a chunk with all parameters and error causes in it.
fn fits(raw: RawChunk<'_>) -> bool {
    Chunk::parse(raw).is_ok_and(|chunk| read_within(&chunk).is_ok())
}

/// The types of the parameters whose content dcsctp checks.
const STRICT: &[u16] = &[13, 14, 16, 0xc000, 0x8001];

/// Returns a packet of the corpus with one to four changes.
fn mutate(corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let pick = |rng: &mut Rng| &corpus[rng.below(corpus.len() as u64) as usize];
    let mut bytes = pick(rng).clone();
    for _ in 0..=rng.below(4) {
        // Half of the changes are in the first words after the common header, where chunk headers are.
        let word = 12 + 4 * rng.below(1 + (bytes.len().saturating_sub(12) / 4).min(12) as u64) as usize;
        let at = if rng.below(2) == 0 {
            word + rng.below(4) as usize
        } else {
            rng.below(bytes.len() as u64) as usize
        };
        match rng.below(8) {
            0 => bytes.truncate(at.max(4)),
            1 => bytes.extend_from_slice(&[0; 7][..1 + rng.below(7) as usize]),
            2 => {
                let other = pick(rng);
                bytes.extend_from_slice(other.get(12..).unwrap_or_default());
            }
            3 | 4 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = byte.wrapping_add([1, 255, 4, 252, 2, 8][rng.below(6) as usize]);
                }
            }
            5 => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte = [0, 1, 4, 5, 8, 12, 13, 16, 20, 0x7f, 0x80, 0xc0, 0xff][rng.below(13) as usize];
                }
            }
            _ => {
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << rng.below(8);
                }
            }
        }
    }
    bytes.truncate(2_000);
    bytes
}

/// Returns the chunk types that occur in the packets of a corpus.
#[must_use]
pub fn kinds(corpus: &[Vec<u8>]) -> BTreeSet<u8> {
    let mut kinds = BTreeSet::new();
    for packet in corpus {
        if let Ok(view) = PacketView::parse_unverified(packet) {
            let mut chunks = view.chunks();
            while let Some(Ok(raw)) = chunks.next_raw() {
                kinds.insert(raw.kind);
            }
        }
    }
    kinds
}
