//! The packets and streams that one side of a QUIC connection sends: which bytes are new, which are retransmitted and
//! why, and when packets are acknowledged.
//!
//! QUIC never sends a packet again. It sends the bytes of a lost packet again in another packet (RFC 9000 §13.3), so
//! retransmissions are found by the ranges of stream bytes. A packet is declared lost only after a later packet was
//! acknowledged (RFC 9002 §6.1). The cause of a retransmission is therefore:
//! - *fast* if a later packet than the one that carried the bytes before has been acknowledged;
//! - *timeout* if none has: the packet is a probe (RFC 9002 §6.2.4);
//! - *other* if the bytes were already acknowledged.
//!
//! Senders send the bytes of a stream in order. Bytes that fill a gap are therefore retransmitted if their packet number
//! is higher than that of the packet that left the gap; otherwise the network reordered the packets.

use super::numbers::PacketNumbers;
use crate::data_class::{Cause, DataClass};
use crate::ranges::Ranges;
use crate::timeline::{Losses, LostPackets};
use crate::track::SpuriousRetransmission;
use std::collections::BTreeMap;

/// The maximum number of unacknowledged packets that are remembered.
const MAX_SENT: usize = 1 << 16;
/// The maximum number of unacknowledged pieces of data in a stream, and the maximum number of gaps.
const MAX_PIECES: usize = 1 << 12;

struct SentPacket {
    at: u64,
    /// The number of the packet in the capture.
    capture: u64,
    path: usize,
    /// The ladder line that shows the packet, if there is one.
    line: Option<usize>,
    /// For each piece of data in the packet: its stream, its first byte, and the byte after it.
    pieces: Vec<(u64, i64, i64)>,
}

#[derive(Default)]
struct SentStream {
    sent: Ranges,
    /// The highest byte sent, plus one, and the number of the packet that carried it.
    high: (i64, u64),
    /// The unacknowledged pieces by their first byte: the byte after them, the number of the packet that carried them
    /// last, and whether this was a retransmission.
    pieces: BTreeMap<i64, (i64, u64, bool)>,
    /// The gaps between captured bytes by the first missing byte: the end, and the number of the packet after the gap.
    gaps: BTreeMap<i64, (i64, u64)>,
}

/// The application data that one side has sent, by packets and by streams.
#[derive(Default)]
pub(crate) struct Sender {
    packets: BTreeMap<u64, SentPacket>,
    streams: BTreeMap<u64, SentStream>,
    numbers: PacketNumbers,
    largest_acked: Option<u64>,
    /// The number of packets in `packets` that count as lost, because a packet whose number is higher by at least three
    /// was acknowledged (RFC 9002 §6.1.1).
    lost: usize,
    /// The number of the packet that showed the latest timeout. Later retransmissions of bytes from packets with lower
    /// numbers belong to the same timeout.
    probed: u64,
    pub timeouts: u64,
}

/// The results of an acknowledgement.
#[derive(Default)]
pub(crate) struct Acked {
    /// The path of the largest acknowledged packet and its round-trip time, if it is newly acknowledged.
    pub round_trip: Option<(usize, u64)>,
    pub spurious: Vec<SpuriousRetransmission>,
}

impl Sender {
    /// Returns the packets that never arrived. A packet is lost if it was not acknowledged, although a packet whose
    /// number is higher by at least three was (RFC 9002 §6.1.1).
    pub fn losses(&self) -> Losses {
        let lost_before = self.lost_before();
        let waiting = |range| self.packets.range(range).count() as u64;
        let captured = self.packets.range(..lost_before).map(|(_, sent)| {
            let (at, packet) = (sent.at, sent.capture);
            LostPackets { at, packet, count: 1, is_captured: true }
        });
        let mut lost: Vec<LostPackets> = self.numbers.lost(lost_before, waiting).chain(captured).collect();
        lost.sort_by_key(|lost| (lost.at, lost.packet));
        Losses { all: self.numbers.all(), lost }
    }

    /// Records a packet that needs no acknowledgement.
    pub fn plain_packet(&mut self, number: u64, (at, capture): (u64, u64)) {
        self.numbers.captured(number, at, capture, false);
    }

    /// Records a packet that must be acknowledged. The time comes with the number of the packet in the capture.
    pub fn packet(&mut self, number: u64, (at, capture): (u64, u64), path: usize, line: Option<usize>) {
        self.numbers.captured(number, at, capture, true);
        let lost_before = self.lost_before();
        let known = self.packets.insert(number, SentPacket { at, capture, path, line, pieces: Vec::new() });
        self.lost += usize::from(known.is_none() && number < lost_before);
        if self.packets.len() > MAX_SENT
            && let Some((first, _)) = self.packets.pop_first()
        {
            self.lost -= usize::from(first < lost_before);
        }
    }

    /// Returns the packet number below which every packet either has arrived or counts as lost.
    fn lost_before(&self) -> u64 {
        self.largest_acked.map_or(0, |largest| largest.saturating_sub(2))
    }

    /// Returns the first packet number that is neither acknowledged nor lost, and the number of packets in flight.
    pub fn state(&self) -> (i64, i64) {
        let first = self.packets.range(self.lost_before()..).next().map(|(number, _)| *number);
        let next = self.largest_acked.map_or(0, |largest| largest + 1);
        (first.unwrap_or(next) as i64, (self.packets.len() - self.lost) as i64)
    }

    /// Records that packet `number` carries the bytes `start..end` of a stream. Returns their classification and how many
    /// of them are new.
    pub fn stream(&mut self, number: u64, id: u64, (start, end): (i64, i64)) -> (DataClass, u64) {
        let stream = self.streams.entry(id).or_default();
        let fresh = stream.sent.absent(start, end);
        let class = if fresh > 0 && start >= stream.high.0 {
            if start > stream.high.0 && stream.gaps.len() < MAX_PIECES {
                stream.gaps.insert(stream.high.0, (start, number));
            }
            DataClass::New
        } else if fresh == end - start {
            match stream.fill(start, end) {
                Some(after) if number > after => {
                    // The lost packet was sent before the packet after the gap. If that packet was acknowledged, the
                    // retransmission is a fast one.
                    let is_fast = self.largest_acked.is_some_and(|largest| largest >= after);
                    let cause = if is_fast { Cause::Fast } else { Cause::Timeout };
                    DataClass::Retransmitted { cause, inferred: true, spurious: false }
                }
                _ => DataClass::Reordered,
            }
        } else {
            let before = stream.pieces.range(..end).next_back().filter(|(_, piece)| piece.0 > start);
            let (cause, spurious) = match before.map(|(_, piece)| piece.1) {
                None => (Cause::Other, true),
                Some(before) if self.largest_acked.is_some_and(|largest| largest > before) => {
                    (Cause::Fast, false)
                }
                Some(before) => {
                    if before >= self.probed {
                        self.timeouts += 1;
                        self.probed = number;
                    }
                    (Cause::Timeout, false)
                }
            };
            DataClass::Retransmitted { cause, inferred: false, spurious }
        };
        stream.sent.insert(start, end);
        if end > stream.high.0 {
            stream.high = (end, number);
        }
        let again = matches!(class, DataClass::Retransmitted { inferred: false, .. });
        let acked = matches!(class, DataClass::Retransmitted { spurious: true, .. });
        if !acked && stream.pieces.len() < MAX_PIECES {
            stream.cut(start, end, |_| {});
            stream.pieces.insert(start, (end, number, again));
            if let Some(packet) = self.packets.get_mut(&number) {
                packet.pieces.push((id, start, end));
            }
        }
        (class, fresh as u64)
    }

    /// Processes an ACK frame of the peer.
    pub fn acknowledged(&mut self, at: u64, ranges: &[std::ops::RangeInclusive<u64>]) -> Acked {
        let mut acked = Acked::default();
        let Some(largest) = ranges.first().map(|range| *range.end()) else { return acked };
        if let Some(packet) = self.packets.get(&largest) {
            acked.round_trip = Some((packet.path, at.saturating_sub(packet.at)));
        }
        let lost_before = self.lost_before();
        self.largest_acked = self.largest_acked.max(Some(largest));
        let advance = lost_before..self.lost_before();
        let lost_before = self.lost_before();
        self.lost += self.packets.range(advance).count();
        for range in ranges {
            self.numbers.arrived(*range.start(), *range.end());
            while let Some(number) = self.packets.range(range.clone()).next().map(|(number, _)| *number) {
                let Some(packet) = self.packets.remove(&number) else { break };
                self.lost -= usize::from(number < lost_before);
                let mut later = None;
                for (id, start, end) in packet.pieces {
                    let Some(stream) = self.streams.get_mut(&id) else { continue };
                    // The earlier packet arrived, although its bytes were also sent again in a later packet. So the
                    // retransmission was spurious.
                    let (mut again, first) = (None, later);
                    stream.cut(start, end, |(_, by, is_again)| {
                        again = again.or(Some(by).filter(|_| is_again && by != number));
                    });
                    later = first.or(again);
                    if let (None, Some(by)) = (first, again) {
                        let line = self.packets.get(&by).and_then(|packet| packet.line);
                        acked.spurious.push(SpuriousRetransmission { stream: id, path: packet.path, line });
                    }
                }
            }
        }
        acked
    }
}

impl SentStream {
    /// Removes the bytes `start..end` from the unacknowledged pieces. Calls `removed` with each piece that had them.
    fn cut(&mut self, start: i64, end: i64, mut removed: impl FnMut((i64, u64, bool))) {
        while let Some((from, piece)) = self
            .pieces
            .range(..end)
            .next_back()
            .map(|(from, piece)| (*from, *piece))
            .filter(|(_, p)| p.0 > start)
        {
            self.pieces.remove(&from);
            removed(piece);
            let (until, number, again) = piece;
            if from < start {
                self.pieces.insert(from, (start, number, again));
            }
            if end < until {
                self.pieces.insert(end, (until, number, again));
            }
        }
    }

    /// Removes `start..end` from the gap that contains `start`. Returns the number of the packet after the gap.
    fn fill(&mut self, start: i64, end: i64) -> Option<u64> {
        let (&from, &(until, after)) =
            self.gaps.range(..=start).next_back().filter(|(_, gap)| start < gap.0)?;
        self.gaps.remove(&from);
        for (from, until) in [(from, start), (end, until)] {
            if from < until {
                self.gaps.insert(from, (until, after));
            }
        }
        Some(after)
    }
}
