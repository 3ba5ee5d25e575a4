//! Maps byte positions from the streams above a layer (such as TLS) to the streams below the layer.
//!
//! An engine's trace counts the bytes that the engine got. A layer between the application and the engine (TLS records,
//! HTTP/2 frames) adds bytes, so the application's byte count differs. To relate the two counts, the layer describes
//! each piece that it writes: which bytes of the engine contain which bytes of the application.

use std::collections::BTreeMap;
use std::ops::Range;

/// A piece of a stream that a layer such as TLS has written, for example one TLS record. The receiver can read a byte
/// of the piece only after the whole piece has arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RecordPosition {
    /// The range of the piece's bytes in the upper stream, counted from the start of this stream. The layer offers the
    /// upper stream to its user.
    pub upper: Range<u64>,
    /// The range of bytes that the piece occupies in the lower stream, counted from the start of this stream. The range
    /// includes the bytes that the layer adds, such as headers. The layer writes its output to the lower stream.
    pub lower: Range<u64>,
}

/// The pieces that the layer (for example TLS) on one host has written, in order, for all its sessions.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RecordMap {
    pieces: BTreeMap<(u64, u64), Vec<RecordPosition>>,
}

impl RecordMap {
    /// Adds the piece that the layer has written last on the stream `stream` of the session `session`.
    pub fn add(&mut self, session: u64, stream: u64, piece: RecordPosition) {
        self.pieces.entry((session, stream)).or_default().push(piece);
    }

    /// Adds the pieces that the layer has written on another host. No session may occur on both hosts.
    pub fn merge(&mut self, other: Self) {
        self.pieces.extend(other.pieces);
    }

    /// Returns whether the layer has written anything in this session.
    #[must_use]
    pub fn has(&self, session: u64) -> bool {
        self.pieces.range((session, 0)..=(session, u64::MAX)).next().is_some()
    }

    /// Returns the byte ranges that carry the bytes `bytes` of an upper stream, in order. The ranges are positions in
    /// the stream of the layer below. A piece that contains any of these bytes counts as a whole. Returns `None` if no
    /// piece of the stream is recorded.
    #[must_use]
    pub fn lower_ranges(&self, session: u64, stream: u64, bytes: &Range<u64>) -> Option<Vec<Range<u64>>> {
        let pieces = self.pieces.get(&(session, stream))?;
        let first = pieces.partition_point(|piece| piece.upper.end <= bytes.start);
        let within = pieces[first..].iter().take_while(|piece| piece.upper.start < bytes.end);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for piece in within {
            match ranges.last_mut() {
                Some(last) if last.end == piece.lower.start => last.end = piece.lower.end,
                _ => ranges.push(piece.lower.clone()),
            }
        }
        (!ranges.is_empty()).then_some(ranges)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_where_the_pieces_that_hold_them_are() {
        let mut map = RecordMap::default();
        for (upper, lower) in [(0..10, 100..132), (10..20, 132..164), (20..30, 200..232)] {
            map.add(7, 0, RecordPosition { upper, lower });
        }
        let lower = |bytes: Range<u64>| -> Vec<(u64, u64)> {
            let found = map.lower_ranges(7, 0, &bytes).unwrap_or_default();
            found.into_iter().map(|range| (range.start, range.end)).collect()
        };
        assert_eq!(lower(0..10), [(100, 132)]);
        assert_eq!(lower(9..11), [(100, 164)], "two pieces side by side are one range");
        assert_eq!(lower(15..25), [(132, 164), (200, 232)]);
        assert_eq!(lower(30..31), []);
        assert_eq!([map.lower_ranges(7, 1, &(0..1)), map.lower_ranges(8, 0, &(0..1))], [None, None]);
        assert!(map.has(7) && !map.has(8));
    }
}
