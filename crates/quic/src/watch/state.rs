//! Tracks the packets and streams of a connection: which bytes are in flight, lost or retransmitted.

use super::FlowControlLimits;
use crate::ranges::Ranges;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_base::trace::{Limit, SendCause, TraceEvent};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Range, RangeInclusive};

#[derive(Debug, Default)]
pub(super) struct WatchState {
    /// The ack-eliciting packets with application data that have been sent and are not acknowledged.
    pub(super) sent: Flight,
    pub(super) in_flight: u64,
    /// The streams on which this endpoint sends, by stream ID. A stream is removed when all of its data and its FIN are
    /// acknowledged.
    pub(super) outgoing: BTreeMap<u64, Outgoing>,
    pub(super) unacknowledged: u64,
    /// The number of stream bytes sent for the first time. The connection's flow control limits this number.
    pub(super) transmitted: u64,
    pub(super) max_data: u64,
    /// The peer's initial flow control limits.
    pub(super) initial_limits: FlowControlLimits,
    /// The received ranges of each stream by stream ID, recorded only while tracing is on.
    pub(super) incoming: BTreeMap<u64, Ranges>,
    /// The numbers of the packets that were most recently declared lost.
    pub(super) lost: BTreeSet<u64>,
    /// The numbers of handshake bytes sent, without retransmissions: `[0]` in Initial packets, `[1]` in Handshake
    /// packets.
    pub(super) handshake: [u64; 2],
    /// Whether quinn has reported lost handshake packets. If not, handshake bytes that are sent again imply that the
    /// retransmission timer has expired.
    pub(super) handshake_lost: bool,
    /// The start of the current loss recovery; `None` outside recovery.
    pub(super) recovery_from: Option<std::time::Instant>,
    /// Whether a retransmission timer has expired and no acknowledgement has arrived since.
    pub(super) timed_out: bool,
    pub(super) timeouts: u64,
    /// The time at which a retransmission timer expired last.
    pub(super) last_timeout: Option<Instant>,
    /// The tokens of the last PATH_CHALLENGE sent and of the last PATH_RESPONSE received (RFC 9000 §8.2).
    pub(super) challenge: Option<u64>,
    pub(super) response: Option<u64>,
    /// The round-trip times, kept only for the log.
    pub(super) smoothed_rtt: Option<Duration>,
    pub(super) min_rtt: Option<Duration>,
    /// The bytes of ack-eliciting data packets sent since the last query (`take_sent_bytes`).
    pub(super) unreported_bytes: u64,
    pub(super) limit: Option<Limit>,
}

/// An ack-eliciting packet with application data.
#[derive(Debug)]
pub(super) struct SentPacket {
    pub(super) size: u64,
    /// Whether the packet probes the path MTU. The loss of a probe is not reported to the congestion controller (RFC
    /// 9000 §14.4).
    pub(super) probes_mtu: bool,
    /// The stream data of the packet. Most packets have data of one stream, which needs no allocation.
    pub(super) first: Option<StreamRange>,
    pub(super) more: Vec<StreamRange>,
}

/// The packets in flight, in the order of their packet numbers.
#[derive(Debug, Default)]
pub(super) struct Flight(VecDeque<(u64, SentPacket)>);

impl Flight {
    /// Adds a packet. Its number is higher than the numbers of all earlier packets, because packets are encrypted in
    /// the order of their numbers.
    pub(super) fn push(&mut self, number: u64, packet: SentPacket) {
        debug_assert!(self.0.back().is_none_or(|(last, _)| *last < number), "packets out of order");
        self.0.push_back((number, packet));
    }

    /// Removes and returns the first packet whose number is in this range. Usually that is the first packet in the
    /// queue. At most a few lost packets precede it, so few entries are moved.
    fn take(&mut self, numbers: &RangeInclusive<u64>) -> Option<SentPacket> {
        let at = match self.0.front() {
            Some((first, _)) if first >= numbers.start() => 0,
            _ => self.0.partition_point(|(known, _)| known < numbers.start()),
        };
        let (number, _) = self.0.get(at)?;
        if number > numbers.end() {
            return None;
        }
        self.0.remove(at).map(|(_, packet)| packet)
    }
}

/// The data of one stream in a packet.
#[derive(Debug)]
pub(super) struct StreamRange {
    pub(super) id: u64,
    pub(super) bytes: Range<u64>,
    pub(super) fin: bool,
}

#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) written: u64,
    pub(super) finished: bool,
    /// The offset up to which the stream's data was sent at least once.
    pub(super) high: u64,
    pub(super) acked: Ranges,
    pub(super) fin_acked: bool,
    /// The data that was declared lost and not sent again yet. `lost_by_timer` is true if a timer declared the data
    /// lost.
    pub(super) lost: Ranges,
    pub(super) lost_by_timer: bool,
    /// The peer's latest flow control limit for the stream.
    pub(super) max_stream_data: Option<u64>,
}

impl Outgoing {
    pub(super) fn is_delivered(&self) -> bool {
        self.acked.total() == self.written && (self.fin_acked || !self.finished)
    }
}

impl WatchState {
    pub(super) fn timed_out(&mut self, at: Instant) {
        self.timed_out = true;
        // One timeout may send two probes at the same time (RFC 9002 §6.2.4), so count it only once.
        if self.last_timeout.replace(at) != Some(at) {
            self.timeouts += 1;
        }
    }

    /// Records that stream data is put into the packet `number`, and traces it as a first transmission or a
    /// retransmission.
    pub(super) fn send(
        &mut self,
        at: Instant,
        id: u64,
        bytes: &Range<u64>,
        number: u64,
        events: &mut Option<Vec<TraceEvent>>,
    ) {
        let Some(stream) = self.outgoing.get_mut(&id) else { return };
        let high = stream.high.clamp(bytes.start, bytes.end);
        let (again, fresh) = (bytes.start..high, high..bytes.end);
        stream.high = stream.high.max(bytes.end);
        self.transmitted += fresh.end - fresh.start;
        // All data of a lost packet is sent again, but possibly divided into other packets.
        let repeat = match if again.is_empty() { 0 } else { stream.lost.remove(&again) } {
            0 => SendCause::Timeout,
            _ if stream.lost_by_timer => SendCause::Timeout,
            _ => SendCause::Fast,
        };
        let probe = repeat == SendCause::Timeout && !again.is_empty();
        for (bytes, cause) in [(again, repeat), (fresh, SendCause::New)] {
            if let Some(events) = events.as_mut().filter(|_| !bytes.is_empty()) {
                let (units, stream) = (units(id, &bytes), number_in_session(id));
                events.push(TraceEvent::Sent { units, stream, bytes, packet: number + 1, cause });
            }
        }
        if probe {
            self.timed_out(at);
        }
    }

    pub(super) fn acknowledged(&mut self, numbers: &RangeInclusive<u64>) {
        while let Some(packet) = self.sent.take(numbers) {
            self.in_flight -= packet.size;
            for piece in packet.first.into_iter().chain(packet.more) {
                let Some(stream) = self.outgoing.get_mut(&piece.id) else { continue };
                if stream.lost.total() > 0 {
                    stream.lost.remove(&piece.bytes);
                }
                self.unacknowledged -= stream.acked.add(piece.bytes);
                stream.fin_acked |= piece.fin;
                if stream.finished && stream.is_delivered() {
                    self.outgoing.remove(&piece.id);
                }
            }
        }
    }

    /// Finds the oldest packets whose sizes add up to `bytes`, declares them lost, and returns their numbers. If the
    /// sizes do not add up to exactly `bytes`, handshake packets were lost, and the result is empty.
    pub(super) fn take_for_lost(&mut self, bytes: u64) -> Vec<u64> {
        let (mut sum, mut numbers) = (0, Vec::new());
        for (number, packet) in &self.sent.0 {
            if sum >= bytes {
                break;
            }
            numbers.push(*number);
            sum += if packet.probes_mtu { 0 } else { packet.size };
        }
        if sum != bytes {
            self.handshake_lost = true;
            return Vec::new();
        }
        let by_timer = self.timed_out;
        for &number in &numbers {
            let Some(packet) = self.sent.take(&(number..=number)) else { continue };
            self.in_flight -= packet.size;
            for piece in packet.first.into_iter().chain(packet.more) {
                let Some(stream) = self.outgoing.get_mut(&piece.id) else { continue };
                stream.lost_by_timer = by_timer;
                // Data that another packet has delivered need not be sent again.
                for bytes in stream.acked.clone().insert(piece.bytes) {
                    stream.lost.insert(bytes);
                }
            }
            self.lost.insert(number);
            if self.lost.len() > REMEMBERED {
                self.lost.pop_first();
            }
        }
        numbers
    }

    pub(super) fn limited_by(&self, packet: u64, window: u64) -> Limit {
        let waits = |stream: &Outgoing| stream.written > stream.high;
        let mut waiting = self.outgoing.values().filter(|stream| waits(stream)).peekable();
        let repairs = self.outgoing.values().any(|stream| stream.lost.total() > 0);
        if waiting.peek().is_none() && !repairs {
            return Limit::Application;
        }
        if self.timed_out {
            return Limit::Timeout;
        }
        if self.recovery_from.is_some() {
            return Limit::Recovery;
        }
        let most =
            |stream: &Outgoing| stream.max_stream_data.unwrap_or(0).max(self.initial_limits.stream_data);
        if !repairs
            && (self.transmitted >= self.max_data || waiting.all(|stream| stream.high >= most(stream)))
        {
            return Limit::Receiver;
        }
        // quinn sends only when the congestion window has room for a whole packet.
        if self.in_flight + packet >= window { Limit::Congestion } else { Limit::Pacing }
    }
}

/// The maximum number of lost packets that are remembered. Their numbers serve to detect spurious retransmissions.
const REMEMBERED: usize = 256;
/// The number of bits that an offset within a stream takes in the trace's sequence space.
pub(super) const UNITS: u32 = 40;

/// Converts a byte range of stream `id` to sequence numbers of the trace. All streams share one sequence space, in
/// which each stream has its own range.
pub(super) fn units(id: u64, bytes: &Range<u64>) -> Range<u64> {
    // A peer may send an offset that is too large, so this addition may wrap around. quinn rejects the frame later.
    let base = id << UNITS;
    base.wrapping_add(bytes.start)..base.wrapping_add(bytes.end)
}

/// Returns the number that applications use for a bidirectional stream. A unidirectional stream gets a number that no
/// bidirectional stream has.
fn number_in_session(id: u64) -> u64 {
    // RFC 9000 §2.1: the second bit of a stream ID marks a unidirectional stream.
    let one_way = (id & 2) << 40;
    one_way | id >> 2
}
