//! Observes the packets that one connection sends and receives, when they are encrypted or decrypted.
//!
//! quinn does not report which stream bytes are in which packet, or which bytes were acknowledged. It passes the number
//! and the frames of each packet to the keys that encrypt or decrypt the packet, so the module `keys` wraps these keys.
//! It reports lost bytes only to the congestion controller, so the module `window` wraps the controller. The watch
//! computes the unacknowledged bytes and the trace from these observations. It does not influence the protocol.
//!
//! quinn decides which packets are lost, and reports only their total size. By RFC 9002 §6.1, the lost packets are the
//! oldest unacknowledged packets: every packet that was sent before a lost packet and is not acknowledged is lost, too.
//! If stream data is sent again although no packet with this data was lost, the new packet is a probe. A probe shows
//! that the timer of RFC 9002 §6.2 has expired.
//!
//! Handshake packets are observed only to count expired timers. The Initial packets of a server are not observed.

mod state;

use crate::identifiers::Clock;
use crate::qlog::{Metrics, Qlog};
use crate::trace::Trace;
use anabranch_base::time::Duration;
use anabranch_base::trace::{TraceEvent, TraceRecord};
use anabranch_base::{BitRate, Instant};
use anabranch_wire::quic::{Frame, Frames};
use quinn_proto::StreamId;
use state::{Outgoing, SentPacket, StreamRange, WatchState, units};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The encryption level of a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Level {
    /// Initial packets.
    Initial,
    /// Handshake packets.
    Handshake,
    /// Packets with application data: 0-RTT and 1-RTT packets, which are numbered together (RFC 9000 §12.3).
    Data,
}

/// The observed state of one connection. Only one thread uses it, but quinn requires `Send` and `Sync`. Values that are
/// needed for each packet are atomics, so that they are read without the lock.
#[derive(Debug)]
pub(crate) struct Watch {
    clock: Arc<Clock>,
    /// The number that identifies the connection in traces.
    key: u64,
    trace: Trace,
    state: Mutex<WatchState>,
    /// The congestion window in bytes.
    window: AtomicU64,
    /// The pacing rate that the congestion controller sets, in bits per second; [`NO_RATE`] if it sets none.
    rate: AtomicU64,
    /// Whether an acknowledgement has arrived since the last call of `settled`.
    acked: AtomicBool,
    /// Whether the sender is in loss recovery.
    recovering: AtomicBool,
    /// Whether a Handshake packet has arrived from the peer.
    has_handshake_packet: AtomicBool,
    /// The qlog of the connection; `None` if the connection is not logged.
    qlog: Option<Mutex<Qlog>>,
}

/// The peer's initial flow control limits for this end.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct FlowControlLimits {
    /// The limit on the bytes of all streams together.
    pub(crate) data: u64,
    /// The limit on the bytes of each bidirectional stream that the client begins.
    pub(crate) stream_data: u64,
    /// The number of bidirectional streams that this end may have open at the same time.
    pub(crate) streams: u64,
}

/// The value of `rate` if the controller sets no pacing rate.
const NO_RATE: u64 = 0;
/// The size in bytes above which a packet counts as a probe of the path MTU (RFC 9000 §14.1).
const LARGEST_AT_FIRST: u64 = 1_200;
/// The maximum number of incoming streams in the trace. No experiment has more streams.
const MOST_TRACED: usize = 1 << 16;
impl Watch {
    pub(crate) fn new(clock: Arc<Clock>, key: u64, trace: Trace) -> Arc<Self> {
        Self::logged(clock, key, trace, None)
    }

    /// Creates a watch that also logs all packets if `qlog` is given.
    pub(crate) fn logged(clock: Arc<Clock>, key: u64, trace: Trace, qlog: Option<Qlog>) -> Arc<Self> {
        Arc::new(Self {
            clock,
            key,
            trace,
            state: Mutex::default(),
            window: AtomicU64::new(0),
            rate: AtomicU64::new(NO_RATE),
            acked: AtomicBool::new(false),
            recovering: AtomicBool::new(false),
            has_handshake_packet: AtomicBool::new(false),
            qlog: qlog.map(Mutex::new),
        })
    }

    fn log(&self, log: impl FnOnce(&mut Qlog, Instant)) {
        if let Some(qlog) = &self.qlog {
            log(&mut qlog.lock().unwrap_or_else(PoisonError::into_inner), self.clock.instant());
        }
    }

    /// Logs a packet that is being sent or has been received.
    pub(crate) fn log_packet(&self, sent: bool, packet: crate::qlog::LoggedPacket<'_>) {
        self.log(|log, at| log.packet(at, sent, packet));
    }

    /// Records the round-trip times after a new measurement.
    pub(crate) fn log_round_trip(&self, smoothed: Duration, least: Duration) {
        if self.qlog.is_some() {
            let mut state = self.lock_state();
            (state.smoothed_rtt, state.min_rtt) = (Some(smoothed), Some(least));
        }
    }

    /// Removes and returns the token of the last PATH_CHALLENGE sent since the previous call.
    pub(crate) fn take_challenge(&self) -> Option<u64> {
        self.lock_state().challenge.take()
    }

    /// Removes and returns the token of the last PATH_RESPONSE received since the previous call.
    pub(crate) fn take_response(&self) -> Option<u64> {
        self.lock_state().response.take()
    }

    /// Returns whether an authentic Handshake packet has arrived. Such a packet proves that the peer received our
    /// Initial packet at its address (RFC 9000 §8.1).
    pub(crate) fn has_handshake_packet(&self) -> bool {
        self.has_handshake_packet.load(Ordering::Relaxed)
    }

    /// Logs the end of the connection, if a log is kept.
    pub(crate) fn log_end(&self, reason: &str) {
        self.log(|log, at| log.closed(at, reason));
    }

    fn lock_state(&self) -> MutexGuard<'_, WatchState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn key(&self) -> u64 {
        self.key
    }

    fn is_tracing(&self) -> bool {
        self.trace.is_wanted()
    }

    /// Adds an event to the trace, if tracing is on.
    pub(crate) fn note(&self, event: TraceEvent) {
        if self.is_tracing() {
            self.trace.keep(TraceRecord { at: self.clock.instant(), connection: self.key, event });
        }
    }

    /// Records that the application has written `bytes` more bytes to a stream.
    pub(crate) fn wrote(&self, id: StreamId, bytes: usize) {
        let mut state = self.lock_state();
        state.outgoing.entry(id.into()).or_default().written += bytes as u64;
        state.unacknowledged += bytes as u64;
    }

    /// Records that the application will write nothing more to a stream.
    pub(crate) fn finished(&self, id: StreamId) {
        self.lock_state().outgoing.entry(id.into()).or_default().finished = true;
    }

    /// Records that we have reset a stream. The stream's remaining data will not be sent.
    pub(crate) fn on_stream_reset(&self, id: StreamId) {
        let mut state = self.lock_state();
        if let Some(stream) = state.outgoing.remove(&id.into()) {
            state.unacknowledged -= stream.written - stream.acked.total();
        }
    }

    /// Returns the number of stream bytes that were written and are not acknowledged.
    pub(crate) fn unacknowledged(&self) -> u64 {
        self.lock_state().unacknowledged
    }

    /// Returns whether the peer has acknowledged all written data and the ends of all finished streams.
    pub(crate) fn is_delivered(&self) -> bool {
        self.lock_state().outgoing.values().all(Outgoing::is_delivered)
    }

    /// Returns the number of times that a retransmission timer has expired.
    pub(crate) fn timeouts(&self) -> u64 {
        self.lock_state().timeouts
    }

    /// Records the initial flow control limits that the peer has granted.
    pub(crate) fn set_initial_limits(&self, grants: FlowControlLimits) {
        let mut state = self.lock_state();
        state.max_data = state.max_data.max(grants.data);
        state.initial_limits = grants;
    }

    /// Returns the number of bidirectional streams that the peer allows this side to have open at the same time.
    pub(crate) fn granted_streams(&self) -> u64 {
        self.lock_state().initial_limits.streams
    }

    /// Records a packet of `size` bytes that is about to be sent.
    pub(crate) fn on_packet_sent(&self, level: Level, number: u64, payload: &[u8], size: usize) {
        let at = self.clock.instant();
        let mut state = self.lock_state();
        let (mut first, mut more) = (None, Vec::new());
        let (mut eliciting, mut padded) = (false, false);
        let mut events = self.is_tracing().then(Vec::new);
        for frame in Frames(payload) {
            eliciting |= frame.is_ack_eliciting();
            match frame {
                Frame::Padding => padded = true,
                Frame::Stream { id, offset, data, fin } if level == Level::Data => {
                    let bytes = offset..offset + data.len() as u64;
                    state.send(at, id, &bytes, number, &mut events);
                    let piece = StreamRange { id, bytes, fin };
                    if first.is_none() {
                        first = Some(piece);
                    } else {
                        more.push(piece);
                    }
                }
                Frame::Crypto { offset, data } => {
                    let space = match level {
                        Level::Initial => 0,
                        Level::Handshake => 1,
                        Level::Data => continue,
                    };
                    if offset < state.handshake[space] && !state.handshake_lost {
                        state.timed_out(at);
                    }
                    state.handshake[space] = state.handshake[space].max(offset + data.len() as u64);
                }
                Frame::PathChallenge(token) => state.challenge = Some(token),
                _ => {}
            }
        }
        if level == Level::Data && eliciting {
            let size = size as u64;
            state.in_flight += size;
            state.unreported_bytes += size;
            let probes_mtu = first.is_none() && padded && size > LARGEST_AT_FIRST;
            state.sent.push(number, SentPacket { size, probes_mtu, first, more });
        }
        drop(state);
        events.into_iter().flatten().for_each(|event| self.note(event));
    }

    /// Records the arrival of an authentic packet.
    pub(crate) fn on_packet_received(&self, level: Level, number: u64, payload: &[u8]) {
        if level != Level::Data {
            self.has_handshake_packet.fetch_or(level == Level::Handshake, Ordering::Relaxed);
            return;
        }
        let tracing = self.is_tracing();
        let mut events = Vec::new();
        let mut locked = None;
        for frame in Frames(payload) {
            // Without tracing, frames that only the trace needs are skipped. Most packets have no other frames.
            if !tracing && matches!(frame, Frame::Stream { .. } | Frame::Padding | Frame::Ping) {
                continue;
            }
            let state = locked.get_or_insert_with(|| self.lock_state());
            match frame {
                Frame::Ack(ranges) => {
                    for range in ranges {
                        state.acknowledged(&range);
                        if state.lost.is_empty() {
                            continue;
                        }
                        // The acknowledged packet was declared lost and is only late, so its retransmission was
                        // spurious.
                        let late: Vec<u64> = state.lost.range(range).copied().collect();
                        for number in late {
                            state.lost.remove(&number);
                            events.push(TraceEvent::Spurious);
                        }
                    }
                }
                Frame::PathResponse(token) => state.response = Some(token),
                Frame::MaxData(most) => state.max_data = state.max_data.max(most),
                Frame::MaxStreamData { id, limit: most } => {
                    if let Some(stream) = state.outgoing.get_mut(&id) {
                        stream.max_stream_data = stream.max_stream_data.max(Some(most));
                    }
                }
                Frame::Stream { id, offset, data, .. }
                    if tracing
                        && (state.incoming.len() < MOST_TRACED || state.incoming.contains_key(&id)) =>
                {
                    let fresh =
                        state.incoming.entry(id).or_default().insert(offset..offset + data.len() as u64);
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
        drop(locked);
        events.into_iter().for_each(|event| self.note(event));
    }

    /// Records that a packet was acknowledged. If the packet was `sent` after the start of the recovery, the recovery
    /// ends.
    pub(crate) fn on_packet_acked(&self, sent: std::time::Instant) {
        self.acked.store(true, Ordering::Relaxed);
        if !self.is_recovering() {
            return;
        }
        let mut state = self.lock_state();
        if state.recovery_from.is_some_and(|from| sent > from) {
            state.recovery_from = None;
            self.recovering.store(false, Ordering::Relaxed);
        }
    }

    /// Records that quinn declared `bytes` bytes of packets lost. If `bytes` is 0, quinn has treated an ECN mark as a
    /// sign of congestion.
    pub(crate) fn lost(&self, now: std::time::Instant, sent: std::time::Instant, bytes: u64) {
        let mut state = self.lock_state();
        if state.recovery_from.is_none_or(|from| sent > from) {
            state.recovery_from = Some(now);
            self.recovering.store(true, Ordering::Relaxed);
        }
        let by_timer = state.timed_out;
        let lost = if bytes > 0 { state.take_for_lost(bytes) } else { Vec::new() };
        drop(state);
        self.log(|log, at| lost.iter().for_each(|number| log.lost(at, *number, by_timer)));
    }

    /// Updates the state after quinn has handled packets or a timeout: clears `timed_out` if an acknowledgement has
    /// arrived, and logs the metrics.
    pub(crate) fn settled(&self) {
        if self.acked.load(Ordering::Relaxed) {
            self.acked.store(false, Ordering::Relaxed);
            self.lock_state().timed_out = false;
        }
        if self.qlog.is_some() {
            let WatchState { in_flight, smoothed_rtt, min_rtt, .. } = *self.lock_state();
            let window = self.window.load(Ordering::Relaxed);
            self.log(|log, at| log.metrics(at, Metrics { window, in_flight, smoothed_rtt, min_rtt }));
        }
    }

    /// Records the new size of the congestion window in bytes.
    pub(crate) fn window(&self, bytes: u64) {
        let before = self.window.load(Ordering::Relaxed);
        if before != bytes {
            self.window.store(bytes, Ordering::Relaxed);
            self.note(TraceEvent::Window(bytes));
        }
    }

    /// Returns whether the sender is in loss recovery.
    pub(crate) fn is_recovering(&self) -> bool {
        self.recovering.load(Ordering::Relaxed)
    }

    /// Returns the pacing rate that the controller sets; `None` if it sets none.
    pub(crate) fn rate(&self) -> Option<BitRate> {
        BitRate::from_bits_per_second(self.rate.load(Ordering::Relaxed))
    }

    pub(crate) fn set_rate(&self, rate: Option<BitRate>) {
        self.rate.store(rate.map_or(NO_RATE, BitRate::bits_per_second), Ordering::Relaxed);
    }

    /// Returns the number of bytes of the data packets sent since the previous call. Packets with nothing but
    /// acknowledgements do not count.
    pub(crate) fn take_sent_bytes(&self) -> u64 {
        std::mem::take(&mut self.lock_state().unreported_bytes)
    }

    /// Returns the number of bytes in data packets that are neither acknowledged nor declared lost.
    pub(crate) fn in_flight(&self) -> u64 {
        self.lock_state().in_flight
    }

    /// Traces the reason why nothing can be sent, if this reason has changed. The next packet would have `packet`
    /// bytes.
    pub(crate) fn trace_limit(&self, packet: u64) {
        if !self.is_tracing() {
            return;
        }
        let mut state = self.lock_state();
        let limit = state.limited_by(packet, self.window.load(Ordering::Relaxed));
        if state.limit.replace(limit) != Some(limit) {
            drop(state);
            self.note(TraceEvent::Limited(limit));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::state::UNITS;
    use super::*;
    use crate::qlog::MemoryLogs;
    use anabranch_base::trace::SendCause;
    use anabranch_transport::network::Logs;
    use quinn_proto::{Dir, Side};
    use std::ops::Range;

    fn stream(id: u64, offset: u64, length: u64) -> Vec<u8> {
        let mut frame =
            vec![0x0e, id as u8, 0x40 | (offset >> 8) as u8, offset as u8, 0x40 | (length >> 8) as u8];
        frame.push(length as u8);
        frame.resize(frame.len() + length as usize, 7);
        frame
    }

    fn watch() -> (Arc<Watch>, Trace) {
        let trace = Trace::default();
        trace.set(true);
        (Watch::new(Arc::default(), 5, trace.clone()), trace)
    }

    fn sends(trace: &Trace) -> Vec<(Range<u64>, u64, SendCause)> {
        let sent = |record: TraceRecord| match record.event {
            TraceEvent::Sent { bytes, packet, cause, .. } => Some((bytes, packet, cause)),
            _ => None,
        };
        trace.take().into_iter().filter_map(sent).collect()
    }

    #[test]
    fn fast_and_timeout_retransmissions_are_distinguished() {
        let (watch, trace) = watch();
        let id = StreamId::new(Side::Client, Dir::Bi, 0);
        #[expect(clippy::disallowed_methods, reason = "quinn's clock is std's; any instant will do")]
        let now = std::time::Instant::now();
        watch.wrote(id, 300);
        for number in 0..3 {
            watch.on_packet_sent(Level::Data, number, &stream(0, number * 100, 100), 140);
        }
        assert_eq!((watch.unacknowledged(), watch.in_flight()), (300, 420));
        // The third packet is acknowledged. quinn declares the first packet lost, and not the second packet.
        watch.on_packet_received(Level::Data, 0, &[0x02, 2, 0, 0, 0]);
        watch.lost(now, now, 140);
        assert_eq!((watch.unacknowledged(), watch.in_flight()), (200, 140));
        watch.on_packet_sent(Level::Data, 3, &stream(0, 0, 100), 140);
        watch.on_packet_sent(Level::Data, 4, &stream(0, 100, 100), 140);
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
        // The first packet was declared lost, but its acknowledgement arrives late. The retransmission was therefore
        // spurious.
        watch.on_packet_received(Level::Data, 1, &[0x02, 0, 0, 0, 0]);
        assert!(trace.take().iter().any(|record| record.event == TraceEvent::Spurious));
        watch.on_packet_received(Level::Data, 2, &[0x02, 4, 0, 0, 4]);
        assert_eq!((watch.unacknowledged(), watch.in_flight(), watch.is_delivered()), (0, 0, true));
    }

    /// RFC 9002 §7.3.2: the recovery ends only when a packet that was sent after the start of the recovery is
    /// acknowledged.
    #[test]
    fn a_recovery_ends_when_a_packet_sent_after_its_beginning_is_acknowledged() {
        let (watch, _) = watch();
        #[expect(clippy::disallowed_methods, reason = "quinn's clock is std's; any instant will do")]
        let begun = std::time::Instant::now();
        assert!(!watch.is_recovering());
        watch.lost(begun, begun, 0);
        assert!(watch.is_recovering());
        watch.on_packet_acked(begun);
        assert!(watch.is_recovering());
        watch.on_packet_acked(begun + Duration::from_nanos(1));
        assert!(!watch.is_recovering());
    }

    #[test]
    fn window_and_round_trip_are_logged_when_they_have_changed() {
        let memory_logs = MemoryLogs::default();
        let out = memory_logs.begin("name").expect("a log");
        let log = Qlog::begin(out, Side::Client, &[1], Instant::ZERO);
        let watch = Watch::logged(Arc::default(), 5, Trace::default(), Some(log));
        watch.window(12_000);
        watch.log_round_trip(Duration::from_millis(50), Duration::from_millis(40));
        watch.settled();
        watch.settled();
        let logs = memory_logs.take();
        let text = String::from_utf8_lossy(&logs[0].content);
        let lines: Vec<&str> = text.lines().skip(1).collect();
        let wanted = "\x1e{\"time\":0.000000,\"name\":\"recovery:metrics_updated\",\"data\":{\"congestion_window\":12000,\
                      \"bytes_in_flight\":0,\"smoothed_rtt\":50.000,\"min_rtt\":40.000}}";
        assert_eq!(lines, [wanted]);
    }

    #[test]
    fn duplicate_data_is_traced_once() {
        let (watch, trace) = watch();
        watch.on_packet_received(Level::Data, 0, &stream(4, 0, 100));
        watch.on_packet_received(Level::Data, 1, &stream(4, 50, 100));
        let records = trace.take();
        let base = 4 << UNITS;
        let received = |units: Range<u64>, packet| TraceEvent::Received {
            units: base + units.start..base + units.end,
            packet,
        };
        let events: Vec<TraceEvent> = records.into_iter().map(|record| record.event).collect();
        assert_eq!(events, [received(0..100, 1), received(100..150, 2)]);
    }
}
