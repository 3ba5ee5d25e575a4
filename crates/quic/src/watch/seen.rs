//! What is known of a connection's packets and streams: what is under way, what was lost, and what is sent again.

use super::Grants;
use crate::ranges::Ranges;
use anabranch_base::Instant;
use anabranch_base::time::Duration;
use anabranch_base::trace::{Limit, SendCause, TraceEvent};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::ops::{Range, RangeInclusive};

#[derive(Debug, Default)]
pub(super) struct Seen {
    /// Packets with data that ask for an acknowledgement and have none.
    pub(super) sent: Flight,
    pub(super) in_flight: u64,
    /// What is sent, by stream id, until all of it and its end have arrived.
    pub(super) outgoing: BTreeMap<u64, Outgoing>,
    pub(super) unacknowledged: u64,
    /// First transmissions, all streams: what the connection's flow control counts.
    pub(super) transmitted: u64,
    pub(super) max_data: u64,
    /// The peer's grants, as it began.
    pub(super) granted: Grants,
    /// What has come, by stream id, while a trace is kept.
    pub(super) incoming: BTreeMap<u64, Ranges>,
    /// Numbers of packets that were taken for lost, the newest.
    pub(super) lost: BTreeSet<u64>,
    /// Handshake bytes that were sent, Initial and Handshake.
    pub(super) handshake: [u64; 2],
    /// Handshake packets were lost: what is sent again may be for that.
    pub(super) handshake_lost: bool,
    /// Since when a window's losses are made good.
    pub(super) recovery_from: Option<std::time::Instant>,
    /// A timer has run out, and nothing was acknowledged since.
    pub(super) timed_out: bool,
    pub(super) timeouts: u64,
    /// When the last of them was.
    pub(super) last_timeout: Option<Instant>,
    /// The tokens that last left with a challenge and came with a response (RFC 9000 §8.2).
    pub(super) challenge: Option<u64>,
    pub(super) response: Option<u64>,
    /// For the log.
    pub(super) smoothed_rtt: Option<Duration>,
    pub(super) min_rtt: Option<Duration>,
    /// Bytes of packets with data that left since this was last asked.
    pub(super) left: u64,
    pub(super) limit: Option<Limit>,
}

/// A packet with data that asks for an acknowledgement.
#[derive(Debug)]
pub(super) struct Sent {
    pub(super) size: u64,
    /// It looks for the path's MTU: its loss is no loss to the controller (RFC 9000 §14.4).
    pub(super) probes_mtu: bool,
    /// Most packets have bytes of one stream.
    pub(super) first: Option<Piece>,
    pub(super) more: Vec<Piece>,
}

/// Packets by their numbers, which grow.
#[derive(Debug, Default)]
pub(super) struct Flight(VecDeque<(u64, Sent)>);

impl Flight {
    /// Adds one, which is newer than all before it: each packet is sealed once, and their numbers grow.
    pub(super) fn push(&mut self, number: u64, packet: Sent) {
        debug_assert!(self.0.back().is_none_or(|(last, _)| *last < number), "packets out of order");
        self.0.push_back((number, packet));
    }

    /// Takes out the first of these numbers that is there. Most often it is the first of all; before it are only such as may
    /// be lost, so few are moved.
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

/// Bytes of a stream in a packet.
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
    /// Up to where it was sent at least once.
    pub(super) high: u64,
    pub(super) acked: Ranges,
    pub(super) fin_acked: bool,
    /// Taken for lost and not sent again, and why.
    pub(super) lost: Ranges,
    pub(super) lost_by_timer: bool,
    /// Flow control: how far it may be sent.
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
        // Two probes at once are one timer's (RFC 9002 §6.2.4).
        if self.last_timeout.replace(at) != Some(at) {
            self.timeouts += 1;
        }
    }

    /// Bytes of a stream are put into a packet: those that never left before, and those that did.
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
        // Of a packet that is lost all is sent again, perhaps cut otherwise.
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

    /// The oldest packets, of so many bytes together, are lost: their numbers. If no packets with data have so many, they were
    /// others.
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
                // What another copy has brought is not sent again.
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
        // quinn asks for room for a whole packet.
        if self.in_flight + packet >= window { Limit::Congestion } else { Limit::Pacing }
    }
}

/// Packets whose loss is remembered, to know of a needless repeat.
const REMEMBERED: usize = 256;
/// A stream's units in the trace: room for so many bytes of it.
pub(super) const UNITS: u32 = 40;

/// Bytes of a stream in the trace's sequence space: each stream has its own part.
pub(super) fn units(id: u64, bytes: &Range<u64>) -> Range<u64> {
    // What a peer makes up has no place there, and is refused by quinn after this.
    let base = id << UNITS;
    base.wrapping_add(bytes.start)..base.wrapping_add(bytes.end)
}

/// What a session calls the stream: those that go both ways by their order; others are none of its own.
fn number_in_session(id: u64) -> u64 {
    // RFC 9000 §2.1: the second bit says that a stream goes one way.
    let one_way = (id & 2) << 40;
    one_way | id >> 2
}
