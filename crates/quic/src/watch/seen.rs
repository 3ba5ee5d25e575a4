//! The observed packets and streams of a connection: what is in flight, lost or retransmitted.

use super::Grants;
use crate::ranges::Ranges;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_base::trace::{Limit, SendCause, TraceEvent};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Range, RangeInclusive};

#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Ack-eliciting packets with data that are not acknowledged.
    pub(super) sent: Flight,
    pub(super) in_flight: u64,
    /// Outgoing streams by stream ID, until all their data and their ends have arrived.
    pub(super) outgoing: BTreeMap<u64, Outgoing>,
    pub(super) unacknowledged: u64,
    /// First transmissions on all streams, in bytes, as the connection's flow control counts them.
    pub(super) transmitted: u64,
    pub(super) max_data: u64,
    /// The peer's initial limits.
    pub(super) granted: Grants,
    /// Received bytes by stream ID, while a trace is kept.
    pub(super) incoming: BTreeMap<u64, Ranges>,
    /// The numbers of the packets that were last declared lost.
    pub(super) lost: BTreeSet<u64>,
    /// Handshake bytes sent in Initial and in Handshake packets.
    pub(super) handshake: [u64; 2],
    /// Whether handshake packets were lost, which may explain a retransmission.
    pub(super) handshake_lost: bool,
    /// The time since which the losses of a window are being recovered.
    pub(super) recovery_from: Option<std::time::Instant>,
    /// Whether a timer has expired and nothing has been acknowledged since.
    pub(super) timed_out: bool,
    pub(super) timeouts: u64,
    /// The time of the last expired timer.
    pub(super) last_timeout: Option<Instant>,
    /// The tokens of the last challenge sent and of the last response received (RFC 9000 §8.2).
    pub(super) challenge: Option<u64>,
    pub(super) response: Option<u64>,
    /// For the log only.
    pub(super) smoothed_rtt: Option<Duration>,
    pub(super) min_rtt: Option<Duration>,
    /// Bytes of data packets sent since the last query.
    pub(super) left: u64,
    pub(super) limit: Option<Limit>,
}

/// An ack-eliciting packet with data.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) size: u64,
    /// Whether it probes the path's MTU: its loss is not reported to the controller (RFC 9000 §14.4).
    pub(super) probes_mtu: bool,
    /// The stream data of the packet; most packets have data of only one stream.
    pub(super) first: Option<Piece>,
    pub(super) more: Vec<Piece>,
}

/// Packets in the order of their numbers, which increase.
#[derive(Debug, Default)]
pub(super) struct Flight(VecDeque<(u64, Sent)>);

impl Flight {
    /// Adds a packet, whose number is higher than all before: each packet is sealed once, in the order of the numbers.
    pub(super) fn push(&mut self, number: u64, packet: Sent) {
        debug_assert!(self.0.back().is_none_or(|(last, _)| *last < number), "packets out of order");
        self.0.push_back((number, packet));
    }

    /// Removes and returns the first packet in this range of numbers. It is mostly the first of all. The packets before
    /// it may be lost and are few, so few entries are moved.
    fn take(&mut self, numbers: &RangeInclusive<u64>) -> Option<Sent> {
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

/// Data of a stream in a packet.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) id: u64,
    pub(super) bytes: Range<u64>,
    pub(super) fin: bool,
}

#[derive(Debug, Default)]
pub(super) struct Outgoing {
    pub(super) written: u64,
    pub(super) finished: bool,
    /// The end of the data that was sent at least once.
    pub(super) high: u64,
    pub(super) acked: Ranges,
    pub(super) fin_acked: bool,
    /// Data that was declared lost and not sent again, and whether a timer was the reason.
    pub(super) lost: Ranges,
    pub(super) lost_by_timer: bool,
    /// The flow control limit.
    pub(super) most: Option<u64>,
}

impl Outgoing {
    pub(super) fn is_delivered(&self) -> bool {
        self.acked.total() == self.written && (self.fin_acked || !self.finished)
    }
}

impl Seen {
    pub(super) fn timed_out(&mut self, at: Instant) {
        self.timed_out = true;
        // Two probes at the same time belong to one timer (RFC 9002 §6.2.4).
        if self.last_timeout.replace(at) != Some(at) {
            self.timeouts += 1;
        }
    }

    /// Records that stream data is put into a packet, and traces first transmissions and retransmissions.
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
        // All data of a lost packet is sent again, perhaps divided differently.
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

    /// Declares the oldest packets lost whose sizes add up to `bytes`, and returns their numbers. If no data packets have
    /// that total size, the lost packets were others.
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
                // Data that another copy has delivered is not sent again.
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
        let most = |stream: &Outgoing| stream.most.unwrap_or(0).max(self.granted.stream_data);
        if !repairs
            && (self.transmitted >= self.max_data || waiting.all(|stream| stream.high >= most(stream)))
        {
            return Limit::Receiver;
        }
        // quinn requires room for a whole packet.
        if self.in_flight + packet >= window { Limit::Congestion } else { Limit::Pacing }
    }
}

/// The number of lost packets that are remembered to detect spurious retransmissions.
const REMEMBERED: usize = 256;
/// The number of bits for positions within a stream in the trace's sequence space.
pub(super) const UNITS: u32 = 40;

/// Converts stream bytes to the trace's sequence space, in which each stream has its own part.
pub(super) fn units(id: u64, bytes: &Range<u64>) -> Range<u64> {
    // Positions invented by a peer may wrap around here; quinn rejects them afterwards.
    let base = id << UNITS;
    base.wrapping_add(bytes.start)..base.wrapping_add(bytes.end)
}

/// Returns the session's number of a two-way stream; other streams get a number outside of these.
fn number_in_session(id: u64) -> u64 {
    // RFC 9000 §2.1: the second bit marks a one-way stream.
    let one_way = (id & 2) << 40;
    one_way | id >> 2
}
