//! Where the bytes of a layer's streams lie in what the layer below carries.
//!
//! An engine's trace speaks of the bytes that the engine was given. Where a layer stands between engine and application
//! (records of TLS, frames of HTTP/2) the application counts others, and whoever joins the two needs to know which bytes of
//! the one are in which bytes of the other. The layer that writes notes it, piece by piece.

use std::collections::BTreeMap;
use std::ops::Range;

/// A part of a stream that the layer below carries in one piece: nothing of it can be read before all of it has arrived.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Piece {
    /// Where it lies on the layer's stream, in bytes from the stream's begin.
    pub above: Range<u64>,
    /// Where it lies on the stream below, with what the layer adds.
    pub below: Range<u64>,
}

/// What one host's layer has written, of all its sessions, in order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Placement {
    pieces: BTreeMap<(u64, u64), Vec<Piece>>,
}

impl Placement {
    /// Notes the next piece of a stream of the session of this id.
    pub fn add(&mut self, session: u64, stream: u64, piece: Piece) {
        self.pieces.entry((session, stream)).or_default().push(piece);
    }

    /// Takes in what another host has noted of sessions of its own.
    pub fn merge(&mut self, other: Self) {
        self.pieces.extend(other.pieces);
    }

    /// Whether a layer has written anything in this session.
    #[must_use]
    pub fn has(&self, session: u64) -> bool {
        self.pieces.range((session, 0)..=(session, u64::MAX)).next().is_some()
    }

    /// Where these bytes of a stream lie below, in order: the pieces that hold any of them, each whole. `None`: nothing is
    /// known of them.
    #[must_use]
    pub fn below(&self, session: u64, stream: u64, bytes: &Range<u64>) -> Option<Vec<Range<u64>>> {
        let pieces = self.pieces.get(&(session, stream))?;
        let first = pieces.partition_point(|piece| piece.above.end <= bytes.start);
        let within = pieces[first..].iter().take_while(|piece| piece.above.start < bytes.end);
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for piece in within {
            match ranges.last_mut() {
                Some(last) if last.end == piece.below.start => last.end = piece.below.end,
                _ => ranges.push(piece.below.clone()),
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
        let mut placement = Placement::default();
        for (above, below) in [(0..10, 100..132), (10..20, 132..164), (20..30, 200..232)] {
            placement.add(7, 0, Piece { above, below });
        }
        let below = |bytes: Range<u64>| -> Vec<(u64, u64)> {
            let found = placement.below(7, 0, &bytes).unwrap_or_default();
            found.into_iter().map(|range| (range.start, range.end)).collect()
        };
        assert_eq!(below(0..10), [(100, 132)]);
        assert_eq!(below(9..11), [(100, 164)], "two pieces side by side are one range");
        assert_eq!(below(15..25), [(132, 164), (200, 232)]);
        assert_eq!(below(30..31), []);
        assert_eq!([placement.below(7, 1, &(0..1)), placement.below(8, 0, &(0..1))], [None, None]);
        assert!(placement.has(7) && !placement.has(8));
    }
}
