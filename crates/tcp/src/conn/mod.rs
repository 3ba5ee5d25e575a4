//! A TCP connection, composed of a sending half and a receiving half.
//!
//! Owns both halves and offers the operations that the application calls. `input` only changes state; only `output`
//! builds segments.

mod close;
mod handshake;
mod input;
pub(crate) mod output;
mod refused;
mod route;
pub(crate) mod timers;

use crate::state::State;

pub(crate) use handshake::TcbInit;
pub(crate) use output::Reply;
pub(crate) use route::RouteMetrics;

use crate::config::Config;
use crate::options::NegotiatedOptions;
use crate::recv::RecvHalf;
use crate::send::SendHalf;
use crate::stats::{Info, Stats};
use crate::{CloseReason, ConnectionId, Event, RecvError, SendError};
use anabranch_base::trace::{Limit, TraceEvent, TraceRecord};
use anabranch_base::{Instant, SharedBytes};
use anabranch_congestion::Controller;
use anabranch_wire::tcp::{Seq, Template};
use bytes::Bytes;
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
#[cfg(feature = "testing")]
use timers::Timer;
use timers::Timers;

/// Everything that connections pass to the endpoint: events, replies, trace records and counters.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) events: VecDeque<Event>,
    /// Segments to send that belong to no existing connection, for example resets.
    pub(crate) replies: VecDeque<Reply>,
    /// The number that the next sent packet gets in the trace.
    pub(crate) next_tag: u64,
    pub(crate) tracing: bool,
    pub(crate) trace: Vec<TraceRecord>,
    /// The sum of the counters of connections that have ended.
    pub(crate) totals: Stats,
    /// Whether connections may take the fast path.
    pub(crate) fast_path: bool,
    /// The slow-start thresholds of ended connections, for the next connections to the same hosts.
    pub(crate) routes: RouteMetrics,
}

impl Outbox {
    #[inline]
    pub(crate) fn record(&mut self, at: Instant, connection: u16, event: impl FnOnce() -> TraceEvent) {
        if self.tracing {
            self.trace.push(TraceRecord { at, connection: u64::from(connection), event: event() });
        }
    }

    /// Queues a segment that belongs to no connection. Drops the segment if the queue is full.
    pub(crate) fn reply(&mut self, reply: Reply) {
        if self.replies.len() < MAX_REPLIES {
            self.replies.push_back(reply);
        }
    }
}

/// The limit of the reply queue, so that a flood of unsolicited segments cannot fill the memory.
const MAX_REPLIES: usize = 1024;

/// The complete state of a connection (the TCB of RFC 9293 §3.3.1).
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// The IP addresses of `local` and `remote` with port 0, as raw sockets need them.
    pub(crate) ip_addresses: (SocketAddr, SocketAddr),
    /// Whether the peer opened the connection, through one of our listeners.
    passive: bool,
    config: Arc<Config>,
    pub(crate) state: State,
    iss: Seq,
    irs: Seq,
    pub(crate) options: NegotiatedOptions,
    /// The header fields that all segments have in common; set once the connection is open.
    pub(crate) template: Option<Template>,
    pub(crate) send: SendHalf,
    pub(crate) recv: RecvHalf,
    pub(crate) timers: Timers,
    pub(crate) stats: Stats,
    /// The path MTU: the size in bytes of the largest IP packet that may be sent to the peer.
    mtu: u32,
    /// The MSS that the peer announced, in bytes.
    peer_mss: u32,

    /// Whether a SYN or SYN-ACK must be sent.
    syn_due: bool,
    /// The number of SYNs or SYN-ACKs sent, and the time when the first was sent.
    syn_tries: u32,
    syn_sent: Instant,
    probe_due: bool,
    /// `probes` counts window probes since the window closed, for the back-off. `unanswered` counts probes since the
    /// peer's last answer.
    probes: u32,
    unanswered: u32,
    /// The number of retransmission timeouts since the peer last acknowledged new data, and the time of that
    /// acknowledgement.
    timeouts: u32,
    last_progress: Instant,
    /// SND.WL1 and SND.WL2 of RFC 9293 §3.3.1, and the window field of the segment that last set the window.
    wl1: Seq,
    wl2: Seq,
    pub(crate) window_field: u16,
    /// Last.ACK.sent of RFC 7323 §4.3, as a position in the peer's stream.
    pub(crate) last_ack_sent: u64,
    /// Whether our acknowledgements have ECE set. A CE mark sets this field, and a segment with CWR clears it.
    ecn_echo: bool,
    /// Whether the application knows of the connection, so that events may be emitted.
    is_announced: bool,
    pub(crate) is_readable_reported: bool,
    is_finished_reported: bool,
    is_closed_reported: bool,
    /// Whether the application has closed the connection and will read no more data.
    pub(crate) orphan: bool,
    /// The start of the current rate-limit interval, and the number of challenge ACKs sent in that interval (RFC 5961
    /// §7).
    challenges: (Instant, u32),
    /// The code of the last ICMP error, which becomes the close reason if the connection times out.
    soft_error: Option<u8>,
    recorded_limit: Option<Limit>,
    recorded_window: u64,
}

impl Connection {
    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn is_passive(&self) -> bool {
        self.passive
    }

    /// Returns whether the application may still use the connection.
    pub(crate) fn is_alive(&self) -> bool {
        self.is_announced && !self.is_closed_reported
    }

    /// Returns whether the endpoint may delete the connection.
    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Closed && (self.is_closed_reported || !self.is_announced)
    }

    /// Returns the earliest deadline of the timers, if it is before `limit`.
    #[inline]
    pub(crate) fn deadline_before(&mut self, limit: Instant) -> Option<Instant> {
        self.timers.next_before(limit)
    }

    /// Returns the earliest deadline of the timers, or [`Instant::MAX`] if no timer runs.
    #[cfg(feature = "testing")]
    pub(crate) fn deadline(&self) -> Instant {
        self.timers.next()
    }

    /// Returns the connection's name in traces: the port of the side that opened the connection. Both ends use the same
    /// name.
    pub(crate) fn key(&self) -> u16 {
        if self.passive { self.remote.port() } else { self.local.port() }
    }

    pub(crate) fn writable(&self) -> u64 {
        if self.send.finished { 0 } else { self.send.buffer.room() }
    }

    pub(crate) fn limit_unsent(&mut self, bytes: u64) {
        self.send.limit_unsent(bytes);
    }

    pub(crate) fn buffered(&self) -> u64 {
        self.send.buffer.held()
    }

    pub(crate) fn readable(&self) -> u64 {
        self.recv.readable()
    }

    /// Returns whether an acknowledgement or a window update must be sent now.
    #[inline]
    pub(crate) fn owes_acknowledgement(&self) -> bool {
        self.recv.ack_scheduler.is_due()
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.recv.is_finished() && self.recv.readable() == 0
    }

    pub(crate) fn write(&mut self, now: Instant, data: &[u8]) -> Result<usize, SendError> {
        self.begin_write(now)?;
        Ok(self.send.buffer.write(data))
    }

    /// Like [`write`](Self::write), but shares the memory of `data`.
    pub(crate) fn write_shared(&mut self, now: Instant, data: &mut Bytes) -> Result<usize, SendError> {
        self.begin_write(now)?;
        Ok(self.send.buffer.write_shared(data))
    }

    fn begin_write(&mut self, now: Instant) -> Result<(), SendError> {
        if self.send.finished {
            return Err(SendError::Finished);
        }
        self.send.begin_burst();
        self.send.forget_refusal();
        if !self.send.has_unsent() {
            self.send.on_resume(now);
        }
        Ok(())
    }

    pub(crate) fn read(
        &mut self,
        now: Instant,
        into: &mut [u8],
        out: &mut Outbox,
    ) -> Result<usize, RecvError> {
        let count = self.recv.read(into);
        self.after_read(now, count, out);
        Ok(count)
    }

    /// Returns received bytes without a copy, at most `most`. Returns `None` and changes nothing if they are not shared.
    pub(crate) fn read_shared(&mut self, now: Instant, most: usize, out: &mut Outbox) -> Option<SharedBytes> {
        let bytes = self.recv.read_shared(most)?;
        self.after_read(now, bytes.len(), out);
        Some(bytes)
    }

    #[inline]
    fn after_read(&mut self, now: Instant, count: usize, out: &mut Outbox) {
        if self.recv.is_tuning() {
            self.recv.tune(now, self.send.rtt.smoothed(), self.send.mss());
        }
        self.is_readable_reported = false;
        if count > 0 && self.state.receives() && self.recv.wants_update(self.send.mss()) {
            self.recv.ack_scheduler.ack_now();
        }
        self.conclude(now, out);
    }

    pub(crate) fn info(&self) -> Info {
        Info {
            state: self.state,
            local: self.local,
            remote: self.remote,
            cwnd: self.send.controller.window(),
            ssthresh: self.send.controller.ssthresh(),
            rto: self.send.rtt.rto(),
            srtt: self.send.rtt.smoothed(),
            flight: self.send.scoreboard.flight(),
            peer_window: self.send.peer_window(),
            mss: self.send.mss(),
            sack: self.options.sack,
            timestamps: self.options.timestamps,
            ecn: self.options.ecn,
        }
    }

    /// Converts a position in our stream to its sequence number.
    #[inline]
    pub(crate) fn seq_of(&self, position: u64) -> Seq {
        self.iss.plus((position as u32).wrapping_add(1))
    }

    /// Converts a position in the peer's stream, for example RCV.NXT, to its sequence number.
    #[inline]
    pub(crate) fn ack_of(&self, position: u64) -> Seq {
        self.irs.plus((position as u32).wrapping_add(1))
    }

    /// Converts a sequence number to a position in our stream, which is negative before the first byte.
    #[inline]
    pub(crate) fn own_position(&self, number: Seq) -> i64 {
        let una = self.send.scoreboard.una();
        una as i64 + i64::from(number.distance_from(self.seq_of(una)) as i32)
    }

    /// Converts a sequence number to a position in the peer's stream, which is negative before the first byte.
    #[inline]
    fn peer_position(&self, number: Seq) -> i64 {
        let next = self.recv.next();
        next as i64 + i64::from(number.distance_from(self.ack_of(next)) as i32)
    }

    pub(crate) fn event(&self, out: &mut Outbox, event: Event) {
        if self.is_announced && !self.is_closed_reported {
            out.events.push_back(event);
        }
    }

    /// Ends the connection immediately with an error, discards its data and emits the event `Closed`.
    fn fail(&mut self, now: Instant, reason: CloseReason, out: &mut Outbox) {
        self.state = State::Closed;
        self.timers.stop_all();
        // RFC 9293 §3.10.7.4: all queues are emptied.
        self.send.discard();
        self.recv.discard();
        self.emit_closed(now, reason, out);
    }

    fn emit_closed(&mut self, now: Instant, reason: CloseReason, out: &mut Outbox) {
        if !self.is_closed_reported {
            let id = self.id;
            self.event(out, Event::Closed { id, reason });
            self.is_closed_reported = true;
            // If an incoming connection did not open, the application never knew of it. The trace then gets no `Closed`
            // record.
            if self.is_announced {
                out.record(now, self.key(), || TraceEvent::Closed);
            }
        }
    }

    /// Asserts the invariants of a connection. Valid only after all output was polled.
    #[cfg(feature = "testing")]
    pub(crate) fn check_invariants(&self) {
        self.send.check_invariants();
        if self.state.is_synchronized() && self.state != State::TimeWait {
            // RFC 6298 §5.1, §5.2: the retransmission timer runs if and only if data is in flight.
            let out = self.send.scoreboard.flight() > 0;
            assert_eq!(self.timers.is_set(Timer::Retransmit), out, "the retransmission timer: {self:#?}");
        }
        assert!(self.recv.readable() <= self.config.rcvbuf, "more received than the buffer holds");
    }
}
