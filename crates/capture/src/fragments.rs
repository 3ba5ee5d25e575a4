//! Reassembles fragmented IP packets.
//!
//! The number of incomplete packets is limited. When the limit is exceeded, the oldest incomplete packet is dropped.
//!
//! Implements RFC 791 §3.2 and RFC 8200 §4.5 for captures.

use super::frame::{IpPayload, Vantage};
use super::ranges::Ranges;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// The maximum number of incomplete packets.
const MAX: usize = 256;
/// The maximum length of an IP packet in bytes.
const LONGEST: usize = 65_535;

/// RFC 8200 §4.5: the lifetime of an incomplete packet in nanoseconds. Fragments that arrive after this time belong to
/// another packet.
const LIFETIME: u64 = 60_000_000_000;

/// Identifies an incomplete packet: source, target, protocol, Identification and place of capture. Fragments that were
/// captured at two places are reassembled separately for each place.
type Key = (IpAddr, IpAddr, u8, u32, Vantage);

#[derive(Debug, Default)]
struct Partial {
    /// The time when the first fragment was captured.
    started_at: u64,
    bytes: Vec<u8>,
    received: Ranges,
    length: Option<usize>,
    wire_len: u64,
    is_cut: bool,
}

/// All incomplete packets of a capture.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    partial: BTreeMap<Key, Partial>,
    order: VecDeque<Key>,
    /// The number of fragments that were captured.
    pub pieces: u64,
}

impl Fragments {
    /// Processes a packet or a fragment. Returns the packet if it is not fragmented or has become complete.
    pub fn take<'a>(&mut self, at: u64, piece: IpPayload<'a>) -> Option<IpPayload<'a>> {
        let Some(position) = piece.fragment else { return Some(piece) };
        self.pieces += 1;
        let key = (piece.source, piece.target, piece.protocol, position.identification, piece.vantage);
        let end = position.offset + piece.payload.len();
        if end > LONGEST {
            return None;
        }
        if self.partial.get(&key).is_some_and(|partial| at.saturating_sub(partial.started_at) > LIFETIME) {
            self.partial.insert(key, Partial { started_at: at, ..Partial::default() });
        }
        if !self.partial.contains_key(&key) {
            self.order.push_back(key);
            while self.order.len() > MAX {
                let oldest = self.order.pop_front()?;
                self.partial.remove(&oldest);
            }
        }
        let partial =
            self.partial.entry(key).or_insert_with(|| Partial { started_at: at, ..Partial::default() });
        if partial.bytes.len() < end {
            partial.bytes.resize(end, 0);
        }
        partial.bytes[position.offset..end].copy_from_slice(&piece.payload);
        let known = partial.received.covers(position.offset as i64, end as i64);
        partial.received.insert(position.offset as i64, end as i64);
        // The size of a fragment is added only once, even if the fragment arrived twice.
        if !known {
            partial.wire_len += piece.wire_len;
        }
        partial.is_cut |= piece.is_cut;
        if !position.more {
            partial.length = Some(end);
        }
        let whole = partial.length.filter(|&whole| partial.received.covers(0, whole as i64))?;
        let mut partial = self.partial.remove(&key)?;
        self.order.retain(|other| *other != key);
        partial.bytes.truncate(whole);
        Some(IpPayload {
            fragment: None,
            wire_len: partial.wire_len,
            is_cut: partial.is_cut,
            payload: Cow::Owned(partial.bytes),
            ..piece
        })
    }
}
