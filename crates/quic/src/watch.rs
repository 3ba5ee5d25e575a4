//! What one connection sends and receives, seen at its keys.
//!
//! quinn tells nobody which bytes of which stream are in which packet, nor what of them was acknowledged. Whoever seals a
//! packet sees its number and its frames, and whoever opens one, too: so the keys of a connection are wrapped (`keys`), and
//! so is its congestion controller (`window`), which is told how many bytes were taken for lost. From these follow what is
//! not acknowledged yet, and the trace: nothing here steers the protocol.
//!
//! Which packets are lost is quinn's to say, and it says how many bytes they have: the oldest that were not acknowledged,
//! since by RFC 9002 §6.1 what is lost is always older than what is not. A byte that is sent again though no packet with it
//! was lost is a probe: the timer of RFC 9002 §6.2 ran out.
//!
//! Handshake packets are looked at for those timers only, and a server's Initial packets not at all.

use crate::frames::{Frame, Frames};
use crate::identifiers::Clock;
use crate::qlog::{Metrics, Qlog};
use crate::ranges::Ranges;
use anabranch_base::time::Duration;
use anabranch_base::trace::{Limit, SendCause, TraceEvent, TraceRecord};
use anabranch_base::{BitRate, Instant};
use quinn_proto::StreamId;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Where the records of all connections of an endpoint go, while they are wanted.
pub(crate) type Trace = Arc<Mutex<Option<Vec<TraceRecord>>>>;

/// Which packets a key is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// Packets with data of applications: 0-RTT and 1-RTT, numbered together (RFC 9000 §12.3).
    Data,
}

/// One connection.
#[derive(Debug)]
pub(crate) struct Watch {
    clock: Arc<Clock>,
    /// Its key in traces.
    key: u64,
    trace: Trace,
    seen: Mutex<Seen>,
    /// Where it is logged, if it is.
    qlog: Option<Mutex<Qlog>>,
}

#[derive(Debug, Default)]
struct Seen {
    /// Packets with data that ask for an acknowledgement and have none.
    sent: BTreeMap<u64, Sent>,
    in_flight: u64,
    /// What is sent, by stream id, until all of it and its end have arrived.
    outgoing: BTreeMap<u64, Outgoing>,
    unacknowledged: u64,
    /// First transmissions, all streams: what the connection's flow control counts.
    transmitted: u64,
    max_data: u64,
    /// The peer's grants, as it began.
    granted: Grants,
    /// What has come, by stream id, while a trace is kept.
    incoming: BTreeMap<u64, Ranges>,
    /// Numbers of packets that were taken for lost, the newest.
    lost: BTreeSet<u64>,
    /// Handshake bytes that were sent, Initial and Handshake.
    handshake: [u64; 2],
    /// Handshake packets were lost: what is sent again may be for that.
    handshake_lost: bool,
    /// Since when a window's losses are made good.
    recovery_from: Option<std::time::Instant>,
    /// A timer has run out, and nothing was acknowledged since; then that something was, until what that means is settled.
    timed_out: bool,
    answered: bool,
    timeouts: u64,
    /// When the last of them was.
    last_timeout: Option<Instant>,
    window: u64,
    /// For the log.
    smoothed_rtt: Option<Duration>,
    min_rtt: Option<Duration>,
    /// The controller's own pace, if it has one.
    rate: Option<BitRate>,
    /// Bytes of packets with data that left since this was last asked.
    left: u64,
    limit: Option<Limit>,
}

/// A packet with data that asks for an acknowledgement.
#[derive(Debug)]
struct Sent {
    size: u64,
    /// It looks for the path's MTU: its loss is no loss to the controller (RFC 9000 §14.4).
    probes_mtu: bool,
    pieces: Vec<Piece>,
}

/// Bytes of a stream in a packet.
#[derive(Debug)]
struct Piece {
    id: u64,
    bytes: Range<u64>,
    fin: bool,
}

#[derive(Debug, Default)]
struct Outgoing {
    written: u64,
    finished: bool,
    /// Up to where it was sent at least once.
    high: u64,
    acked: Ranges,
    fin_acked: bool,
    /// Taken for lost and not sent again, and why.
    lost: Ranges,
    lost_by_timer: bool,
    /// Flow control: how far it may be sent.
    most: Option<u64>,
}

impl Outgoing {
    fn is_delivered(&self) -> bool {
        self.acked.total() == self.written && (self.fin_acked || !self.finished)
    }
}

/// What a peer grants at first.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Grants {
    /// Bytes on all streams.
    pub(crate) data: u64,
    /// Bytes on each stream that the client begins both ways.
    pub(crate) stream_data: u64,
    /// Streams both ways at a time.
    pub(crate) streams: u64,
}

/// Packets that are padded to no more than this are no search for the path's MTU (RFC 9000 §14.1).
const LARGEST_AT_FIRST: u64 = 1_200;
/// Packets whose loss is remembered, to know of a needless repeat.
const REMEMBERED: usize = 256;
/// Streams that are traced as they come: more than a run has.
const MOST_TRACED: usize = 1 << 16;
/// A stream's units in the trace: room for so many bytes of it.
const UNITS: u32 = 40;

/// Bytes of a stream in the trace's sequence space: each stream has its own part.
fn units(id: u64, bytes: &Range<u64>) -> Range<u64> {
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

impl Watch {
    pub(crate) fn new(clock: Arc<Clock>, key: u64, trace: Trace) -> Arc<Self> {
        Self::logged(clock, key, trace, None)
    }

    /// The same, and all that passes is logged.
    pub(crate) fn logged(clock: Arc<Clock>, key: u64, trace: Trace, qlog: Option<Qlog>) -> Arc<Self> {
        Arc::new(Self { clock, key, trace, seen: Mutex::default(), qlog: qlog.map(Mutex::new) })
    }

    fn log(&self, log: impl FnOnce(&mut Qlog, Instant)) {
        if let Some(qlog) = &self.qlog {
            log(&mut qlog.lock().unwrap_or_else(PoisonError::into_inner), self.clock.instant());
        }
    }

    /// A packet leaves, or has come.
    pub(crate) fn log_packet(&self, sent: bool, packet: crate::qlog::Seen<'_>) {
        self.log(|log, at| log.packet(at, sent, packet));
    }

    /// The round trip was measured again.
    pub(crate) fn log_round_trip(&self, smoothed: Duration, least: Duration) {
        if self.qlog.is_some() {
            let mut seen = self.seen();
            (seen.smoothed_rtt, seen.min_rtt) = (Some(smoothed), Some(least));
        }
    }

    /// The connection is over.
    pub(crate) fn log_end(&self, reason: &str) {
        self.log(|log, at| log.closed(at, reason));
    }

    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    fn is_tracing(&self) -> bool {
        self.trace.lock().unwrap_or_else(PoisonError::into_inner).is_some()
    }

    /// Notes an event, if a trace is kept.
    pub(crate) fn note(&self, event: TraceEvent) {
        if let Some(records) = &mut *self.trace.lock().unwrap_or_else(PoisonError::into_inner) {
            records.push(TraceRecord { at: self.clock.instant(), connection: self.key, event });
        }
    }

    /// The application has written so much more to a stream.
    pub(crate) fn wrote(&self, id: StreamId, bytes: usize) {
        let mut seen = self.seen();
        seen.outgoing.entry(id.into()).or_default().written += bytes as u64;
        seen.unacknowledged += bytes as u64;
    }

    /// The application writes nothing more to a stream.
    pub(crate) fn finished(&self, id: StreamId) {
        self.seen().outgoing.entry(id.into()).or_default().finished = true;
    }

    /// Nothing more of a stream will be sent.
    pub(crate) fn gave_up(&self, id: StreamId) {
        let mut seen = self.seen();
        if let Some(stream) = seen.outgoing.remove(&id.into()) {
            seen.unacknowledged -= stream.written - stream.acked.total();
        }
    }

    /// Bytes of streams that were written and not acknowledged.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.seen().unacknowledged
    }

    /// All that was written has arrived, and the ends of streams, too.
    pub(crate) fn is_delivered(&self) -> bool {
        self.seen().outgoing.values().all(Outgoing::is_delivered)
    }

    /// How often a timer ran out.
    pub(crate) fn timeouts(&self) -> u64 {
        self.seen().timeouts
    }

    /// What the peer grants at first.
    pub(crate) fn granted(&self, grants: Grants) {
        let mut seen = self.seen();
        seen.max_data = seen.max_data.max(grants.data);
        seen.granted = grants;
    }

    /// Streams both ways that the peer grants at a time.
    pub(crate) fn granted_streams(&self) -> u64 {
        self.seen().granted.streams
    }

    /// A packet of so many bytes is about to leave.
    pub(crate) fn leaves(&self, level: Level, number: u64, payload: &[u8], size: usize) {
        let at = self.clock.instant();
        let mut seen = self.seen();
        let (mut pieces, mut eliciting, mut padded) = (Vec::new(), false, false);
        let mut events = Vec::new();
        for frame in Frames(payload) {
            eliciting |= frame.is_ack_eliciting();
            match frame {
                Frame::Padding => padded = true,
                Frame::Stream { id, offset, length, fin } if level == Level::Data => {
                    let bytes = offset..offset + length;
                    seen.send(at, id, &bytes, number, &mut events);
                    pieces.push(Piece { id, bytes, fin });
                }
                Frame::Crypto { offset, length } => {
                    let space = match level {
                        Level::Initial => 0,
                        Level::Handshake => 1,
                        Level::Data => continue,
                    };
                    if offset < seen.handshake[space] && !seen.handshake_lost {
                        seen.timed_out(at);
                    }
                    seen.handshake[space] = seen.handshake[space].max(offset + length);
                }
                _ => {}
            }
        }
        if level == Level::Data && eliciting {
            let size = size as u64;
            seen.in_flight += size;
            seen.left += size;
            let probes_mtu = pieces.is_empty() && padded && size > LARGEST_AT_FIRST;
            seen.sent.insert(number, Sent { size, probes_mtu, pieces });
        }
        drop(seen);
        events.into_iter().for_each(|event| self.note(event));
    }

    /// A packet has come, and it is genuine.
    pub(crate) fn arrives(&self, level: Level, number: u64, payload: &[u8]) {
        if level != Level::Data {
            return;
        }
        let tracing = self.is_tracing();
        let mut seen = self.seen();
        let mut events = Vec::new();
        for frame in Frames(payload) {
            match frame {
                Frame::Ack(ranges) => {
                    for range in ranges {
                        seen.acknowledged(range.clone());
                        // A copy was enough.
                        let late: Vec<u64> = seen.lost.range(range).copied().collect();
                        for number in late {
                            seen.lost.remove(&number);
                            events.push(TraceEvent::Spurious);
                        }
                    }
                }
                Frame::MaxData(most) => seen.max_data = seen.max_data.max(most),
                Frame::MaxStreamData { id, most } => {
                    if let Some(stream) = seen.outgoing.get_mut(&id) {
                        stream.most = stream.most.max(Some(most));
                    }
                }
                Frame::Stream { id, offset, length, .. }
                    if tracing && (seen.incoming.len() < MOST_TRACED || seen.incoming.contains_key(&id)) =>
                {
                    let fresh = seen.incoming.entry(id).or_default().insert(offset..offset + length);
                    events.extend(
                        fresh.iter().map(|bytes| TraceEvent::Received {
                            units: units(id, bytes),
                            packet: number + 1,
                        }),
                    );
                }
                _ => {}
            }
        }
        drop(seen);
        events.into_iter().for_each(|event| self.note(event));
    }

    /// A packet that left at this time was acknowledged.
    pub(crate) fn acknowledged_of(&self, sent: std::time::Instant) {
        let mut seen = self.seen();
        seen.answered = true;
        if seen.recovery_from.is_some_and(|from| sent > from) {
            seen.recovery_from = None;
        }
    }

    /// quinn takes packets of so many bytes for lost, or an ECN mark for a sign of congestion.
    pub(crate) fn lost(&self, now: std::time::Instant, sent: std::time::Instant, bytes: u64) {
        let mut seen = self.seen();
        if seen.recovery_from.is_none_or(|from| sent > from) {
            seen.recovery_from = Some(now);
        }
        let by_timer = seen.timed_out;
        let lost = if bytes > 0 { seen.take_for_lost(bytes) } else { Vec::new() };
        drop(seen);
        self.log(|log, at| lost.iter().for_each(|number| log.lost(at, *number, by_timer)));
    }

    /// quinn has done with what came.
    pub(crate) fn settled(&self) {
        let mut seen = self.seen();
        if std::mem::take(&mut seen.answered) {
            seen.timed_out = false;
        }
        if self.qlog.is_some() {
            let Seen { window, in_flight, smoothed_rtt, min_rtt, .. } = *seen;
            drop(seen);
            self.log(|log, at| log.metrics(at, Metrics { window, in_flight, smoothed_rtt, min_rtt }));
        }
    }

    /// The congestion window has so many bytes now.
    pub(crate) fn window(&self, bytes: u64) {
        let before = std::mem::replace(&mut self.seen().window, bytes);
        if before != bytes {
            self.note(TraceEvent::Window(bytes));
        }
    }

    /// Losses of a window are being made good.
    pub(crate) fn is_recovering(&self) -> bool {
        self.seen().recovery_from.is_some()
    }

    /// The pace at which packets are to leave, where the controller gives one.
    pub(crate) fn rate(&self) -> Option<BitRate> {
        self.seen().rate
    }

    pub(crate) fn set_rate(&self, rate: Option<BitRate>) {
        self.seen().rate = rate;
    }

    /// Bytes of packets with data that left since this was last asked, acknowledgements alone not counted.
    pub(crate) fn take_left(&self) -> u64 {
        std::mem::take(&mut self.seen().left)
    }

    /// Bytes of packets with data that are not acknowledged, nor taken for lost.
    pub(crate) fn in_flight(&self) -> u64 {
        self.seen().in_flight
    }

    /// Nothing more leaves for now: notes what keeps it, where that has changed. The next packet would have so many bytes.
    pub(crate) fn stands_still(&self, packet: u64) {
        if !self.is_tracing() {
            return;
        }
        let mut seen = self.seen();
        let limit = seen.limited_by(packet);
        if seen.limit.replace(limit) != Some(limit) {
            drop(seen);
            self.note(TraceEvent::Limited(limit));
        }
    }
}

impl Seen {
    fn timed_out(&mut self, at: Instant) {
        self.timed_out = true;
        // Two probes at once are one timer's (RFC 9002 §6.2.4).
        if self.last_timeout.replace(at) != Some(at) {
            self.timeouts += 1;
        }
    }

    /// Bytes of a stream are put into a packet: those that never left before, and those that did.
    fn send(&mut self, at: Instant, id: u64, bytes: &Range<u64>, number: u64, events: &mut Vec<TraceEvent>) {
        let Some(stream) = self.outgoing.get_mut(&id) else { return };
        let high = stream.high.clamp(bytes.start, bytes.end);
        let (again, fresh) = (bytes.start..high, high..bytes.end);
        stream.high = stream.high.max(bytes.end);
        self.transmitted += fresh.end - fresh.start;
        // Of a packet that is lost all is sent again, perhaps cut otherwise.
        let repeat = match stream.lost.remove(&again) {
            0 => SendCause::Timeout,
            _ if stream.lost_by_timer => SendCause::Timeout,
            _ => SendCause::Fast,
        };
        let probe = repeat == SendCause::Timeout && !again.is_empty();
        for (bytes, cause) in [(again, repeat), (fresh, SendCause::New)] {
            if !bytes.is_empty() {
                let (units, stream) = (units(id, &bytes), number_in_session(id));
                events.push(TraceEvent::Sent { units, stream, bytes, packet: number + 1, cause });
            }
        }
        if probe {
            self.timed_out(at);
        }
    }

    fn acknowledged(&mut self, numbers: std::ops::RangeInclusive<u64>) {
        let acked: Vec<u64> = self.sent.range(numbers).map(|(number, _)| *number).collect();
        for number in acked {
            let Some(packet) = self.sent.remove(&number) else { continue };
            self.in_flight -= packet.size;
            for piece in packet.pieces {
                let Some(stream) = self.outgoing.get_mut(&piece.id) else { continue };
                stream.lost.remove(&piece.bytes);
                let fresh = stream.acked.insert(piece.bytes);
                self.unacknowledged -= fresh.iter().map(|bytes| bytes.end - bytes.start).sum::<u64>();
                stream.fin_acked |= piece.fin;
                if stream.finished && stream.is_delivered() {
                    self.outgoing.remove(&piece.id);
                }
            }
        }
    }

    /// The oldest packets, of so many bytes together, are lost: their numbers. If no packets with data have so many, they were
    /// others.
    fn take_for_lost(&mut self, bytes: u64) -> Vec<u64> {
        let (mut sum, mut numbers) = (0, Vec::new());
        for (number, packet) in &self.sent {
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
            let Some(packet) = self.sent.remove(&number) else { continue };
            self.in_flight -= packet.size;
            for piece in packet.pieces {
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

    fn limited_by(&self, packet: u64) -> Limit {
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
        if self.in_flight + packet >= self.window { Limit::Congestion } else { Limit::Pacing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use quinn_proto::{Dir, Side};

    fn stream(id: u64, offset: u64, length: u64) -> Vec<u8> {
        let mut frame =
            vec![0x0e, id as u8, 0x40 | (offset >> 8) as u8, offset as u8, 0x40 | (length >> 8) as u8];
        frame.push(length as u8);
        frame.resize(frame.len() + length as usize, 7);
        frame
    }

    fn watch() -> (Arc<Watch>, Trace) {
        let trace = Trace::new(Mutex::new(Some(Vec::new())));
        (Watch::new(Arc::default(), 5, trace.clone()), trace)
    }

    fn sends(trace: &Trace) -> Vec<(Range<u64>, u64, SendCause)> {
        let records = trace.lock().expect("a trace").replace(Vec::new()).unwrap_or_default();
        let sent = |record: TraceRecord| match record.event {
            TraceEvent::Sent { bytes, packet, cause, .. } => Some((bytes, packet, cause)),
            _ => None,
        };
        records.into_iter().filter_map(sent).collect()
    }

    #[test]
    fn what_is_lost_and_sent_again_is_told_from_what_a_timer_repeats() {
        let (watch, trace) = watch();
        let id = StreamId::new(Side::Client, Dir::Bi, 0);
        #[expect(clippy::disallowed_methods, reason = "quinn's clock is std's; any instant will do")]
        let now = std::time::Instant::now();
        watch.wrote(id, 300);
        for number in 0..3 {
            watch.leaves(Level::Data, number, &stream(0, number * 100, 100), 140);
        }
        assert_eq!((watch.unacknowledged(), watch.in_flight()), (300, 420));
        // The third arrives; quinn takes the first for lost, not the second.
        watch.arrives(Level::Data, 0, &[0x02, 2, 0, 0, 0]);
        watch.lost(now, now, 140);
        assert_eq!((watch.unacknowledged(), watch.in_flight()), (200, 140));
        watch.leaves(Level::Data, 3, &stream(0, 0, 100), 140);
        watch.leaves(Level::Data, 4, &stream(0, 100, 100), 140);
        assert_eq!(
            sends(&trace),
            [
                (0..100, 1, SendCause::New),
                (100..200, 2, SendCause::New),
                (200..300, 3, SendCause::New),
                (0..100, 4, SendCause::Fast),
                (100..200, 5, SendCause::Timeout),
            ]
        );
        assert_eq!(watch.timeouts(), 1);
        // Late, the first arrives all the same: once is enough.
        watch.arrives(Level::Data, 1, &[0x02, 0, 0, 0, 0]);
        let spurious = trace.lock().expect("a trace").take().unwrap_or_default();
        assert!(spurious.iter().any(|record| record.event == TraceEvent::Spurious));
        watch.arrives(Level::Data, 2, &[0x02, 4, 0, 0, 4]);
        assert_eq!((watch.unacknowledged(), watch.in_flight(), watch.is_delivered()), (0, 0, true));
    }

    #[test]
    fn what_arrives_twice_is_noted_once() {
        let (watch, trace) = watch();
        watch.arrives(Level::Data, 0, &stream(4, 0, 100));
        watch.arrives(Level::Data, 1, &stream(4, 50, 100));
        let records = trace.lock().expect("a trace").take().unwrap_or_default();
        let base = 4 << UNITS;
        let received = |units: Range<u64>, packet| TraceEvent::Received {
            units: base + units.start..base + units.end,
            packet,
        };
        let events: Vec<TraceEvent> = records.into_iter().map(|record| record.event).collect();
        assert_eq!(events, [received(0..100, 1), received(100..150, 2)]);
    }
}
