//! Reconstructs one direction of a connection from the traces of the client and the server.
//!
//! For given bytes of a stream, this module finds when the bytes were first sent, when they were retransmitted, and
//! when they arrived. A *unit* is a TSN of SCTP, or a byte of TCP. All tables are built in one pass over the traces,
//! and are searched by bisection. Attributing all objects therefore takes O(n log n) time.

use super::sender_limit::{Class, Timeline};
use anabranch_base::trace::{SendCause, TraceEvent, TraceRecord};
use std::collections::BTreeMap;
use std::ops::Range;

/// The traces of one connection, arranged by direction.
#[derive(Default)]
pub(super) struct Connection {
    /// The time when the client's engine began the handshake.
    pub opening: Option<u64>,
    /// The time when the handshake of the layer below (DTLS) was finished, if there is such a layer.
    pub lower_established: Option<u64>,
    /// The time when the first packet of the server arrived, if transport and security share one handshake (QUIC).
    pub answered: Option<u64>,
    /// The time from which the client could send user data.
    pub established: Option<u64>,
    /// The direction from the client to the server.
    pub up: Flow,
    /// The direction from the server to the client.
    pub down: Flow,
}

/// The traces of one direction of a connection.
#[derive(Default)]
pub(super) struct Flow {
    /// The reasons why the sender did not send, over time.
    pub sender_limit: Timeline,
    /// The first transmissions of data, each for a range of bytes, sorted by TSN or byte.
    pieces: Vec<Piece>,
    /// The time of the first transmission of any data.
    first: Option<u64>,
    /// For each stream, its entries in `pieces` as indices, sorted by byte.
    streams: BTreeMap<u64, Vec<usize>>,
    /// The retransmissions, sorted by their first TSN or byte.
    repeats: Vec<Transmission>,
    /// The number of TSNs or bytes in the longest retransmission. It bounds the search for the retransmissions that
    /// cover a TSN or byte.
    longest: u64,
    /// The arrivals of data at the receiver, sorted by TSN or byte.
    arrivals: Vec<Arrival>,
}

/// A range of stream bytes, and when it was sent for the first time.
struct Piece {
    stream: u64,
    units: Range<u64>,
    bytes: Range<u64>,
    at: u64,
    packet: u64,
    cause: SendCause,
    /// The time of the last transmission of new data before `at`; 0 if there was none.
    previous: u64,
}

struct Transmission {
    units: Range<u64>,
    at: u64,
    packet: u64,
    cause: SendCause,
}

struct Arrival {
    units: Range<u64>,
    at: u64,
    packet: u64,
}

/// The transmissions and the arrival of those bytes of a request or response that arrived last. The message was
/// complete when these bytes arrived.
pub(super) struct Journey {
    /// All transmissions of these bytes, from the first one to the one that arrived. Each has its time in nanoseconds,
    /// and is marked `true` if a timer caused it.
    pub copies: Vec<(u64, bool)>,
    /// The time in nanoseconds when the bytes arrived.
    pub arrived: u64,
}

impl Journey {
    /// Returns the time of the first transmission of the bytes.
    pub fn sent(&self) -> u64 {
        self.copies.first().map_or(self.arrived, |&(at, _)| at)
    }

    /// Returns the time of that transmission of the bytes that arrived.
    pub fn copy(&self) -> u64 {
        self.copies.last().map_or(self.arrived, |&(at, _)| at)
    }
}

/// Returns all connections in the traces of a client and a server. Each trace must be sorted by time.
pub(super) fn connections(client: &[TraceRecord], server: &[TraceRecord]) -> BTreeMap<u64, Connection> {
    let mut builders: BTreeMap<u64, (Connection, Builder, Builder)> = BTreeMap::new();
    for (records, is_client) in [(client, true), (server, false)] {
        for record in records {
            let (connection, up, down) = builders.entry(record.connection).or_default();
            let (sender, receiver) = if is_client { (up, down) } else { (down, up) };
            let at = record.at.as_nanos();
            match &record.event {
                TraceEvent::Opening if is_client => connection.opening = connection.opening.or(Some(at)),
                TraceEvent::Secured if is_client => {
                    connection.lower_established = connection.lower_established.or(Some(at))
                }
                TraceEvent::Answered if is_client => connection.answered = connection.answered.or(Some(at)),
                TraceEvent::Established if is_client => {
                    connection.established = connection.established.or(Some(at))
                }
                TraceEvent::Sent { units, stream, bytes, packet, cause } => {
                    sender.sent(at, units, *stream, bytes, *packet, *cause);
                }
                TraceEvent::Received { units, packet } if !units.is_empty() => {
                    receiver.arrivals.push(Arrival { units: units.clone(), at, packet: *packet });
                }
                TraceEvent::Limited(limit) => sender.limits.push((at, *limit)),
                _ => {}
            }
        }
    }
    let finish = |(key, (mut connection, up, down)): (u64, (Connection, Builder, Builder))| {
        connection.up = up.finish();
        connection.down = down.finish();
        (key, connection)
    };
    builders.into_iter().map(finish).collect()
}

/// Collects the trace records of a connection for one direction, and builds a [`Flow`] from them.
#[derive(Default)]
struct Builder {
    pieces: Vec<Piece>,
    repeats: Vec<Transmission>,
    arrivals: Vec<Arrival>,
    limits: Vec<(u64, anabranch_base::trace::Limit)>,
    /// The periods, as (start, end) in nanoseconds, in which the sender sent nothing until a retransmission timer
    /// expired.
    timeout_periods: Vec<(u64, u64)>,
    /// For each stream, the TSN or byte that follows the highest one sent so far.
    high: BTreeMap<u64, u64>,
    /// The time of the last transmission, of new or retransmitted data.
    last: u64,
    /// The times of the last two transmissions of new data: `fresh` is the later time, and `previous` the earlier time.
    fresh: u64,
    previous: u64,
}

impl Builder {
    fn sent(
        &mut self,
        at: u64,
        units: &Range<u64>,
        stream: u64,
        bytes: &Range<u64>,
        packet: u64,
        cause: SendCause,
    ) {
        if units.is_empty() {
            return;
        }
        if at > self.last {
            // From its last transmission until `at`, the sender waited for the retransmission timer.
            if cause == SendCause::Timeout && !self.high.is_empty() {
                self.timeout_periods.push((self.last, at));
            }
            self.last = at;
        }
        let high = self.high.entry(stream).or_default();
        let fresh = units.start.max(*high);
        if units.start < *high {
            let units = units.start..units.end.min(*high);
            self.repeats.push(Transmission { units, at, packet, cause });
        }
        if fresh < units.end {
            if at > self.fresh {
                self.previous = self.fresh;
                self.fresh = at;
            }
            // Only TCP combines retransmitted and new data in one segment. With TCP, a unit is a byte, so `units` and
            // `bytes` are equally long.
            let skipped = if len(units) == len(bytes) { fresh - units.start } else { 0 };
            let piece = Piece {
                stream,
                units: fresh..units.end,
                bytes: bytes.start + skipped..bytes.end,
                at,
                packet,
                cause,
                previous: self.previous,
            };
            self.pieces.push(piece);
            *high = units.end;
        }
    }

    fn finish(mut self) -> Flow {
        let first = self.pieces.iter().map(|piece| piece.at).min();
        // Each SCTP stream may number its data separately, so the pieces are not yet sorted by their numbers.
        self.pieces.sort_by_key(|piece| piece.units.start);
        let mut streams: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
        for (at, piece) in self.pieces.iter().enumerate() {
            streams.entry(piece.stream).or_default().push(at);
        }
        for pieces in streams.values_mut() {
            pieces.sort_by_key(|&piece| self.pieces[piece].bytes.start);
        }
        self.repeats.sort_by_key(|repeat| (repeat.units.start, repeat.at));
        self.arrivals.sort_by_key(|arrival| (arrival.units.start, arrival.at));
        Flow {
            sender_limit: Timeline::new(&self.limits, &self.timeout_periods),
            longest: self.repeats.iter().map(|repeat| len(&repeat.units)).max().unwrap_or(0),
            pieces: self.pieces,
            streams,
            first,
            repeats: self.repeats,
            arrivals: self.arrivals,
        }
    }
}

impl Flow {
    /// Returns the time when any data was first sent.
    pub fn first_sent(&self) -> Option<u64> {
        self.first
    }

    /// Returns the first transmissions of `bytes` on `stream`, in the order of the bytes.
    fn pieces(&self, stream: u64, bytes: &Range<u64>) -> impl Iterator<Item = &Piece> {
        let pieces = self.streams.get(&stream).map_or(&[][..], Vec::as_slice);
        let first = pieces.partition_point(|&piece| self.pieces[piece].bytes.end <= bytes.start);
        let end = bytes.end;
        pieces[first..]
            .iter()
            .map(|&piece| &self.pieces[piece])
            .take_while(move |piece| piece.bytes.start < end)
    }

    /// Finds the bytes of `spans` on `stream` that arrived last. Returns their transmissions and their arrival, or
    /// `None` if the traces do not show them.
    pub fn journey(&self, stream: u64, spans: &[Range<u64>]) -> Option<Journey> {
        let mut decisive: Option<(u64, u64, u64)> = None;
        for (piece, bytes) in
            spans.iter().flat_map(|bytes| self.pieces(stream, bytes).map(move |p| (p, bytes)))
        {
            let units = within(piece, bytes);
            let first = self.arrivals.partition_point(|arrival| arrival.units.end <= units.start);
            for arrival in self.arrivals[first..].iter().take_while(|arrival| arrival.units.start < units.end)
            {
                let last_unit = arrival.units.end.min(units.end) - 1;
                if decisive.is_none_or(|(at, _, _)| arrival.at >= at) {
                    decisive = Some((arrival.at, arrival.packet, last_unit));
                }
            }
        }
        let (arrived, packet, unit) = decisive?;
        if packet == 0 {
            return None;
        }
        let mut copies = self.transmissions(unit, arrived);
        // Transmissions after the transmission that arrived are left out.
        if let Some(copy) = copies.iter().position(|&(_, _, by)| by == packet) {
            copies.truncate(copy + 1);
        }
        let copies = copies.into_iter().map(|(at, cause, _)| (at, by_timer(cause))).collect();
        Some(Journey { copies, arrived })
    }

    /// Returns all transmissions of the TSN or byte `unit` until the time `until`, sorted by time.
    fn transmissions(&self, unit: u64, until: u64) -> Vec<(u64, SendCause, u64)> {
        let piece = self.pieces.partition_point(|piece| piece.units.end <= unit);
        let first = self.pieces.get(piece).filter(|piece| piece.units.contains(&unit));
        let mut all: Vec<_> = first.map(|piece| (piece.at, piece.cause, piece.packet)).into_iter().collect();
        let begin = self.repeats.partition_point(|repeat| repeat.units.start + self.longest <= unit);
        let near = self.repeats[begin..].iter().take_while(|repeat| repeat.units.start <= unit);
        all.extend(
            near.filter(|repeat| repeat.units.contains(&unit))
                .map(|repeat| (repeat.at, repeat.cause, repeat.packet)),
        );
        all.retain(|&(at, _, _)| at <= until);
        all.sort_by_key(|&(at, _, packet)| (at, packet));
        all
    }

    /// Returns two waits of the bytes in `spans` for their first transmission, in nanoseconds. The first is the wait
    /// for the congestion window, and the second the wait for the receiver's window. Only time between `from` and
    /// `until` counts, and only waits that ended with a transmission of these bytes.
    pub fn sender_wait(&self, stream: u64, spans: &[Range<u64>], from: u64, until: u64) -> (u64, u64) {
        let (mut cwnd, mut rwnd) = (0, 0);
        let mut counted = from;
        // A stream's bytes are first sent in stream order, so `piece.at` increases from piece to piece.
        for piece in spans.iter().flat_map(|bytes| self.pieces(stream, bytes)) {
            let begin = piece.previous.max(counted);
            let end = piece.at.min(until);
            if begin < end {
                cwnd += self.sender_limit.time(Class::Congestion, begin, end);
                rwnd += self.sender_limit.time(Class::Receiver, begin, end);
                counted = end;
            }
        }
        (cwnd, rwnd)
    }
}

/// Returns the units of `piece` (TSNs or byte positions) that carry bytes of the stream in the range `bytes`. If the
/// units are TSNs, returns all of them.
fn within(piece: &Piece, bytes: &Range<u64>) -> Range<u64> {
    if len(&piece.units) != len(&piece.bytes) {
        return piece.units.clone();
    }
    let skipped = bytes.start.saturating_sub(piece.bytes.start);
    let left_over = piece.bytes.end.saturating_sub(bytes.end);
    piece.units.start + skipped..piece.units.end - left_over
}

/// Returns whether a timer caused a transmission. Retransmission timeouts and window probes are caused by timers.
fn by_timer(cause: SendCause) -> bool {
    matches!(cause, SendCause::Timeout | SendCause::Probe)
}

fn len(range: &Range<u64>) -> u64 {
    range.end.saturating_sub(range.start)
}
