//! Determines which response is written next: priorities (RFC 9218) and the order that follows from them.
//!
//! The order does not depend on the transport. Streams have numbers and priorities, and the writer asks which streams
//! come first. Therefore HTTP/2, HTTP/3 and SCTP can write in the same order, and differences in their results come
//! from the transports alone.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// A priority (RFC 9218 §4).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Priority {
    /// The urgency, from 0 (most urgent) to 7.
    pub urgency: u8,
    /// Whether a part of the response is useful before the rest arrives. An incremental response shares the bandwidth
    /// with other incremental responses of the same urgency.
    pub incremental: bool,
}

impl Default for Priority {
    /// Returns the default priority (§4.1, §4.2).
    fn default() -> Self {
        Self { urgency: 3, incremental: false }
    }
}

impl fmt::Display for Priority {
    /// Formats the value of the `priority` field (RFC 9218 §5).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "u={}{}", self.urgency, if self.incremental { ", i" } else { "" })
    }
}

impl Priority {
    /// Returns Chromium's priority for an object of this media type, wherever the page refers to the object. Source:
    /// third_party/blink/renderer/platform/loader/fetch/resource_fetcher.cc maps types to priorities (`TypeToPriority`)
    /// and determines which are incremental (`ShouldLoadIncremental`). VeryHigh, High, Medium, Low and VeryLow become
    /// HIGHEST, MEDIUM, LOW, LOWEST and IDLE (`ConvertWebKitPriorityToNetPriority`). These in turn become the urgencies
    /// 0 to 4 (net/quic/quic_http_utils.cc, `ConvertRequestPriorityToQuicPriority`). Rules that need the document, such
    /// as those for parser-blocking scripts or visible images, are left out. An unknown type has the default priority.
    #[must_use]
    pub fn of_type(content_type: &str) -> Self {
        let (kind, of) = content_type.split_once('/').unwrap_or((content_type, ""));
        let (urgency, incremental) = match (kind, of) {
            ("text", "html") | ("application", "xhtml+xml") => (0, true),
            ("text", "css") | ("font", _) | ("application", "font-woff" | "font-woff2") => (0, false),
            ("text" | "application", "javascript" | "x-javascript" | "ecmascript" | "xsl" | "xslt+xml") => {
                (1, false)
            }
            // These are types of data that scripts usually fetch.
            ("text", "plain" | "xml") | ("application", "json" | "xml") => (1, true),
            ("application", "manifest+json") => (2, false),
            ("image" | "audio" | "video", _) | ("text", "vtt") => (3, true),
            _ => (3, false),
        };
        Self { urgency, incremental }
    }

    /// Parses the value of a `priority` field. Missing and invalid parts have their defaults (RFC 9218 §5).
    #[must_use]
    pub fn read(field: &str) -> Self {
        let mut priority = Self::default();
        for part in field.split(',') {
            let part = part.split(';').next().unwrap_or("").trim();
            match part.split_once('=') {
                Some(("u", value)) => {
                    if let Ok(urgency @ 0..=7) = value.parse() {
                        priority.urgency = urgency;
                    }
                }
                Some(("i", value)) => priority.incremental = value == "?1",
                None if part == "i" => priority.incremental = true,
                _ => {}
            }
        }
        priority
    }
}

impl Priority {
    /// Returns the position of a stream in the order of [`ResponseScheduler`] as a number. A transport can schedule its
    /// streams by this rank. A stream with a lower rank goes first. Streams that share the bandwidth have the same
    /// rank.
    #[must_use]
    pub fn rank(&self, stream: u64) -> u32 {
        const STREAMS: u32 = 1 << 27;
        self.rank_within(stream.min(u64::from(STREAMS) - 1) as u32, STREAMS)
    }

    /// Returns a rank of 16 bits, the size of a stream value in SCTP schedulers. The rank is computed from `before`,
    /// the number of earlier requests, because SCTP reuses stream numbers. The numbering wraps: `before` = 8,190 gives
    /// the same rank as `before` = 0.
    #[must_use]
    pub fn short_rank(&self, before: u64) -> u32 {
        const REQUESTS: u32 = 8_190;
        self.rank_within((before % u64::from(REQUESTS)) as u32, REQUESTS)
    }

    fn rank_within(&self, rank: u32, ranks: u32) -> u32 {
        u32::from(self.urgency) * (ranks + 1) + if self.incremental { ranks } else { rank }
    }
}

/// Streams that have data to write, in order (§10). The most urgent streams come first. Within one urgency,
/// non-incremental streams come first, each written completely, in the order of their numbers. Incremental streams
/// follow and take turns.
#[derive(Clone, Debug, Default)]
pub struct ResponseScheduler {
    /// For each stream: its urgency, whether it is incremental, its turn among the incremental streams (otherwise 0),
    /// and its number.
    waiting: BTreeSet<(u8, bool, u64, u64)>,
    positions: BTreeMap<u64, (Priority, u64)>,
    turn: u64,
}

impl ResponseScheduler {
    /// Adds a stream that has data to write.
    pub fn add(&mut self, stream: u64, priority: Priority) {
        self.remove(stream);
        self.turn += u64::from(priority.incremental);
        let turn = if priority.incremental { self.turn } else { 0 };
        self.positions.insert(stream, (priority, turn));
        self.waiting.insert((priority.urgency, priority.incremental, turn, stream));
    }

    /// Removes a stream that has no more data to write.
    pub fn remove(&mut self, stream: u64) {
        if let Some((priority, turn)) = self.positions.remove(&stream) {
            self.waiting.remove(&(priority.urgency, priority.incremental, turn, stream));
        }
    }

    /// Records that a stream has written data. If the priority of the stream is incremental, the stream moves behind
    /// the other streams of the same urgency that are incremental.
    pub fn written(&mut self, stream: u64) {
        if let Some(&(priority, _)) = self.positions.get(&stream).filter(|(priority, _)| priority.incremental)
        {
            self.add(stream, priority);
        }
    }

    /// Returns the numbers of the streams in order.
    pub fn order(&self) -> impl Iterator<Item = u64> {
        self.waiting.iter().map(|&(_, _, _, stream)| stream)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_read_as_they_are_written() {
        for urgency in 0..=7 {
            for incremental in [false, true] {
                let priority = Priority { urgency, incremental };
                assert_eq!(Priority::read(&priority.to_string()), priority);
            }
        }
        for (field, urgency, incremental) in [
            ("", 3, false),
            ("i", 3, true),
            ("u=9, i=?0", 3, false),
            ("i=?1,u=1;x=2", 1, true),
            ("u=a,zz", 3, false),
        ] {
            assert_eq!(Priority::read(field), Priority { urgency, incremental }, "{field}");
        }
    }

    #[test]
    fn urgent_streams_go_first_and_incremental_ones_alternate() {
        let mut turns = ResponseScheduler::default();
        for (stream, kind) in
            [(1, "image/png"), (3, "image/png"), (5, "text/css"), (7, "text/javascript"), (9, "text/css")]
        {
            turns.add(stream, Priority::of_type(kind));
        }
        let order = |turns: &ResponseScheduler| turns.order().collect::<Vec<_>>();
        assert_eq!(order(&turns), [5, 9, 7, 1, 3]);
        let rank = |kind: &str, stream: u64| Priority::of_type(kind).rank(stream);
        let ranks = [
            rank("font/a", 1),
            rank("text/css", 5),
            rank("text/css", 9),
            rank("text/javascript", 11),
            rank("application/json", 7),
        ];
        assert!(ranks.is_sorted() && ranks[4] < rank("image/png", 1), "{ranks:?}");
        assert_eq!(rank("image/png", 1), rank("image/png", u64::MAX), "they share");
        let last = Priority { urgency: 7, incremental: true };
        assert!(last.rank(0) < 1 << 31 && last.short_rank(0) <= u16::MAX.into());
        let short = |kind: &str, before: u64| Priority::of_type(kind).short_rank(before);
        let ranks =
            [short("text/css", 3), short("text/css", 4), short("text/javascript", 0), short("image/png", 0)];
        assert!(ranks.is_sorted() && ranks[0] < ranks[1] && short("image/png", 9) == ranks[3], "{ranks:?}");
        assert!(short("text/css", 8_189) < short("text/javascript", 8_190));
        turns.written(5);
        turns.written(1);
        assert_eq!(order(&turns), [5, 9, 7, 3, 1], "a sheet goes on until it is whole, images change places");
        [5, 9, 7].into_iter().for_each(|stream| turns.remove(stream));
        turns.written(3);
        assert_eq!(order(&turns), [1, 3]);
        turns.remove(1);
        turns.remove(3);
        assert_eq!(order(&turns), [0; 0]);
    }
}
