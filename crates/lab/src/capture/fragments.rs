//! Reassembles fragmented IP packets.
//!
//! The number of incomplete packets is bounded. The oldest is dropped when there are too many.
//!
//! Home of RFC 791 §3.2 and RFC 8200 §4.5 for captures.

use super::frame::{Carried, Vantage};
use super::ranges::Ranges;
use std::borrow::Cow;
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// The most incomplete packets.
const MAX: usize = 256;
/// The longest IP packet in bytes.
const LONGEST: usize = 65_535;

/// RFC 8200 §4.5: fragments that arrive later belong to another packet.
const LIFETIME: u64 = 60_000_000_000;

/// Identifies a packet. Fragments that were captured at two places are reassembled for each place.
type Key = (IpAddr, IpAddr, u8, u32, Vantage);

#[derive(Debug, Default)]
struct Partial {
    /// The time of the first fragment.
    began: u64,
    bytes: Vec<u8>,
    have: Ranges,
    whole: Option<usize>,
    wire_len: u64,
    cut: bool,
}

/// The incomplete packets.
#[derive(Debug, Default)]
pub(super) struct Fragments {
    partial: BTreeMap<Key, Partial>,
    order: VecDeque<Key>,
    /// The number of fragments seen.
    pub pieces: u64,
}

impl Fragments {
    /// Takes a packet or a fragment, and returns a packet that is complete.
    pub fn take<'a>(&mut self, at: u64, piece: Carried<'a>) -> Option<Carried<'a>> {
        let Some(place) = piece.fragment else { return Some(piece) };
        self.pieces += 1;
        let key = (piece.source, piece.target, piece.protocol, place.identification, piece.vantage);
        let end = place.offset + piece.payload.len();
        if end > LONGEST {
            return None;
        }
        if self.partial.get(&key).is_some_and(|partial| at.saturating_sub(partial.began) > LIFETIME) {
            self.partial.insert(key, Partial { began: at, ..Partial::default() });
        }
        if !self.partial.contains_key(&key) {
            self.order.push_back(key);
            while self.order.len() > MAX {
                let oldest = self.order.pop_front()?;
                self.partial.remove(&oldest);
            }
        }
        let partial = self.partial.entry(key).or_insert_with(|| Partial { began: at, ..Partial::default() });
        if partial.bytes.len() < end {
            partial.bytes.resize(end, 0);
        }
        partial.bytes[place.offset..end].copy_from_slice(&piece.payload);
        let known = partial.have.covers(place.offset as i64, end as i64);
        partial.have.insert(place.offset as i64, end as i64);
        // A fragment that arrived twice counts once.
        if !known {
            partial.wire_len += piece.wire_len;
        }
        partial.cut |= piece.cut;
        if !place.more {
            partial.whole = Some(end);
        }
        let whole = partial.whole.filter(|&whole| partial.have.covers(0, whole as i64))?;
        let mut partial = self.partial.remove(&key)?;
        self.order.retain(|other| *other != key);
        partial.bytes.truncate(whole);
        Some(Carried {
            fragment: None,
            wire_len: partial.wire_len,
            cut: partial.cut,
            payload: Cow::Owned(partial.bytes),
            ..piece
        })
    }
}
