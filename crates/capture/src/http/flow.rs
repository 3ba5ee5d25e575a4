//! The flow control of HTTP/2 (RFC 9113 §5.2): how much each side may send on each stream and in the connection, and
//! how much of this credit was used.

use crate::arrival::Side;
use crate::timeline::Event;
use std::collections::BTreeMap;

/// RFC 9113 §6.9.2: the initial window of the connection, and of streams without a setting.
const INITIAL: u64 = 65_535;
/// RFC 9113 §6.5.2: the setting with the initial window of streams.
const INITIAL_WINDOW_SIZE: u16 = 4;
/// The maximum number of streams that are followed.
const MAX_STREAMS: usize = 1 << 14;

/// The flow-control credit of HTTP/2 that each side has granted and used. Stream 0 stands for the connection.
#[derive(Debug)]
pub(super) struct Flow {
    /// The initial window of streams that each side announces.
    initial: [u64; 2],
    /// For each side and stream: the sum of the increments in the WINDOW_UPDATE frames that the side sent.
    updates: BTreeMap<(Side, u64), u64>,
    used: BTreeMap<(Side, u64), u64>,
    /// The events that have not been moved to the timeline yet, each with the side that caused it.
    pub events: Vec<(Side, Event)>,
}

impl Default for Flow {
    fn default() -> Self {
        Self { initial: [INITIAL; 2], updates: BTreeMap::new(), used: BTreeMap::new(), events: Vec::new() }
    }
}

impl Flow {
    /// Processes the content of a SETTINGS frame of HTTP/2 that `side` sent.
    pub fn settings(&mut self, side: Side, content: &[u8]) {
        for &[k0, k1, v0, v1, v2, v3] in content.as_chunks::<6>().0 {
            if u16::from_be_bytes([k0, k1]) == INITIAL_WINDOW_SIZE {
                self.initial[side] = u32::from_be_bytes([v0, v1, v2, v3]).into();
            }
        }
    }

    /// Processes a WINDOW_UPDATE frame.
    pub fn update(&mut self, side: Side, stream: u64, content: &[u8]) {
        let Some(value) = content.first_chunk::<4>() else { return };
        if self.updates.len() < MAX_STREAMS || self.updates.contains_key(&(side, stream)) {
            // RFC 9113 §6.9: the highest bit is reserved.
            let increment = u64::from(u32::from_be_bytes(*value) & 0x7fff_ffff);
            *self.updates.entry((side, stream)).or_default() += increment;
            self.limit(side, stream);
        }
    }

    /// Processes a DATA frame with its length and padding. `ends` says whether it ends the stream.
    pub fn data(&mut self, side: Side, stream: u64, length: u64, ends: bool) {
        for stream in [stream, 0] {
            if !self.used.contains_key(&(side, stream)) {
                if self.used.len() >= MAX_STREAMS {
                    continue;
                }
                self.limit(1 - side, stream);
            }
            let used = self.used.entry((side, stream)).or_default();
            *used += length;
            if !ends {
                self.events.push((side, Event::Used(key(stream), *used)));
            }
        }
    }

    /// Processes the reset of a stream. Removes the stream's limit, because no data waits for it any more.
    pub fn reset(&mut self, stream: u64) {
        for side in [0, 1] {
            self.events.push((side, Event::Limit(key(stream), u64::MAX)));
        }
    }

    /// Adds an event with the limit that `side` currently grants on a stream.
    fn limit(&mut self, side: Side, stream: u64) {
        let initial = if stream == 0 { INITIAL } else { self.initial[side] };
        let updates = self.updates.get(&(side, stream)).copied().unwrap_or(0);
        self.events.push((side, Event::Limit(key(stream), initial + updates)));
    }
}

fn key(stream: u64) -> Option<u64> {
    (stream != 0).then_some(stream)
}
