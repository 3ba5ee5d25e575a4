//! One connection: the glue between its halves.
//!
//! Owns the parts and what the application may do with them. Input changes
//! state only (`input`); `output` is the only builder of its segments.

mod close;
mod handshake;
mod input;
pub(crate) mod output;
mod state;
pub(crate) mod timers;

pub use state::State;

pub(crate) use handshake::Birth;
pub(crate) use output::Reply;

use crate::config::Config;
use crate::options::Agreed;
use crate::recv::RecvHalf;
use crate::send::SendHalf;
use crate::stats::{Info, Stats};
use crate::{CloseReason, ConnectionId, Event, RecvError, SendError};
use anabranch_base::Instant;
use anabranch_base::trace::{Limit, TraceEvent, TraceRecord};
use anabranch_congestion::Controller;
use anabranch_wire::tcp::{Seq, Template};
use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
#[cfg(feature = "testing")]
use timers::Timer;
use timers::Timers;

/// What connections leave for the endpoint to hand out.
#[derive(Debug)]
pub(crate) struct Outbox {
    pub(crate) events: VecDeque<Event>,
    /// Segments that belong to no connection any more, or never did.
    pub(crate) replies: VecDeque<Reply>,
    /// The number of the next packet.
    pub(crate) next_tag: u64,
    pub(crate) tracing: bool,
    pub(crate) trace: Vec<TraceRecord>,
    /// Counters of connections that are gone.
    pub(crate) totals: Stats,
    /// Whether connections may take the fast path.
    pub(crate) fast_path: bool,
}

impl Outbox {
    #[inline]
    pub(crate) fn record(&mut self, at: Instant, connection: u16, event: impl FnOnce() -> TraceEvent) {
        if self.tracing {
            self.trace.push(TraceRecord { at, connection: u64::from(connection), event: event() });
        }
    }

    /// Queues a segment outside of any connection; more than a bounded number is dropped.
    pub(crate) fn reply(&mut self, reply: Reply) {
        if self.replies.len() < MAX_REPLIES {
            self.replies.push_back(reply);
        }
    }
}

/// A stranger's flood must not fill memory.
const MAX_REPLIES: usize = 1024;

/// One connection.
#[derive(Debug)]
pub(crate) struct Connection {
    pub(crate) id: ConnectionId,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    /// The same for raw sockets.
    pub(crate) hosts: (SocketAddr, SocketAddr),
    /// It came in through a listener, which waits for it to open.
    passive: bool,
    config: Arc<Config>,
    pub(crate) state: State,
    iss: Seq,
    irs: Seq,
    pub(crate) agreed: Agreed,
    /// What its segments have in common, once it is open.
    pub(crate) template: Option<Template>,
    pub(crate) send: SendHalf,
    pub(crate) recv: RecvHalf,
    pub(crate) timers: Timers,
    pub(crate) stats: Stats,
    /// Largest IP packet towards the peer.
    mtu: u32,
    /// What the peer's MSS option allows.
    peer_mss: u32,

    /// A SYN or SYN-ACK is to be sent.
    syn_due: bool,
    /// SYNs or SYN-ACKs sent, and when the first was.
    syn_tries: u32,
    syn_sent: Instant,
    probe_due: bool,
    /// Probes since the window closed, for the back-off, and those without an answer.
    probes: u32,
    unanswered: u32,
    /// Timeouts since the last progress.
    timeouts: u32,
    last_progress: Instant,
    /// SND.WL1, SND.WL2 of RFC 9293 §3.3.1, and the window field.
    wl1: Seq,
    wl2: Seq,
    pub(crate) window_field: u16,
    /// Last.ACK.sent of RFC 7323 §4.3, in positions.
    pub(crate) last_ack_sent: u64,
    /// ECE goes with every acknowledgement until CWR comes.
    ecn_echo: bool,
    /// The application knows of it: events may be told.
    known: bool,
    pub(crate) readable_told: bool,
    finished_told: bool,
    closed_told: bool,
    /// The application has left: nothing will be read any more.
    pub(crate) orphan: bool,
    /// Challenge acknowledgements in the running interval (RFC 5961 §7).
    challenges: (Instant, u32),
    /// What ICMP last said, should it come to nothing.
    soft_error: Option<u8>,
    limit_told: Option<Limit>,
    window_told: u64,
}

impl Connection {
    pub(crate) fn state(&self) -> State {
        self.state
    }

    pub(crate) fn is_passive(&self) -> bool {
        self.passive
    }

    /// The application may still speak of it.
    pub(crate) fn is_alive(&self) -> bool {
        self.known && !self.closed_told
    }

    /// Nothing is left to do: the endpoint may forget it.
    pub(crate) fn is_over(&self) -> bool {
        self.state == State::Closed && (self.closed_told || !self.known)
    }

    /// The earliest deadline, if it is earlier than `limit`.
    #[inline]
    pub(crate) fn deadline_before(&mut self, limit: Instant) -> Option<Instant> {
        self.timers.next_before(limit)
    }

    /// The earliest deadline, [`Instant::MAX`] for none.
    #[cfg(feature = "testing")]
    pub(crate) fn deadline(&self) -> Instant {
        self.timers.next()
    }

    /// What both ends call it: the port of whoever began.
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

    /// An acknowledgement or window update must go now.
    #[inline]
    pub(crate) fn owes_acknowledgement(&self) -> bool {
        self.recv.duty.is_due()
    }

    pub(crate) fn is_finished(&self) -> bool {
        self.recv.is_finished() && self.recv.readable() == 0
    }

    pub(crate) fn write(&mut self, now: Instant, data: &[u8]) -> Result<usize, SendError> {
        if self.send.finished {
            return Err(SendError::Finished);
        }
        self.send.begin_burst();
        if !self.send.has_unsent() {
            self.send.on_resume(now);
        }
        Ok(self.send.buffer.write(data))
    }

    pub(crate) fn read(
        &mut self,
        now: Instant,
        into: &mut [u8],
        out: &mut Outbox,
    ) -> Result<usize, RecvError> {
        let count = self.recv.read(into);
        if self.recv.is_tuning() {
            self.recv.tune(now, self.send.rtt.smoothed(), self.send.mss());
        }
        self.readable_told = false;
        if count > 0 && self.state.receives() && self.recv.wants_update(self.send.mss()) {
            self.recv.duty.at_once();
        }
        self.conclude(now, out);
        Ok(count)
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
            flight: self.send.board.flight(),
            peer_window: self.send.peer_window(),
            mss: self.send.mss(),
            sack: self.agreed.sack,
            timestamps: self.agreed.timestamps,
            ecn: self.agreed.ecn,
        }
    }

    /// The number on the wire of one of our positions.
    #[inline]
    pub(crate) fn seq_of(&self, position: u64) -> Seq {
        self.iss.plus((position as u32).wrapping_add(1))
    }

    /// RCV.NXT as it goes on the wire.
    #[inline]
    pub(crate) fn ack_of(&self, position: u64) -> Seq {
        self.irs.plus((position as u32).wrapping_add(1))
    }

    /// One of our positions from its number on the wire; negative before the first byte.
    #[inline]
    pub(crate) fn own_position(&self, number: Seq) -> i64 {
        let una = self.send.board.una();
        una as i64 + i64::from(number.distance_from(self.seq_of(una)) as i32)
    }

    /// One of the peer's positions from its number on the wire.
    #[inline]
    fn peer_position(&self, number: Seq) -> i64 {
        let next = self.recv.next();
        next as i64 + i64::from(number.distance_from(self.ack_of(next)) as i32)
    }

    pub(crate) fn event(&self, out: &mut Outbox, event: Event) {
        if self.known && !self.closed_told {
            out.events.push_back(event);
        }
    }

    /// It is over, in an unfriendly way, at once.
    fn fail(&mut self, now: Instant, reason: CloseReason, out: &mut Outbox) {
        self.state = State::Closed;
        self.timers.stop_all();
        // RFC 9293 §3.10.7.4: all queues are flushed.
        self.send.discard();
        self.recv.discard();
        self.emit_closed(now, reason, out);
    }

    fn emit_closed(&mut self, now: Instant, reason: CloseReason, out: &mut Outbox) {
        if !self.closed_told {
            let id = self.id;
            self.event(out, Event::Closed { id, reason });
            self.closed_told = true;
            // One that came in and never opened was none to anybody.
            if self.known {
                out.record(now, self.key(), || TraceEvent::Closed);
            }
        }
    }

    /// Asserts what must hold at any time (after output was polled).
    #[cfg(feature = "testing")]
    pub(crate) fn check_invariants(&self) {
        self.send.check_invariants();
        if self.state.is_synchronized() && self.state != State::TimeWait {
            // RFC 6298 §5.1, §5.2: the timer runs if and only if something is out.
            let out = self.send.board.flight() > 0;
            assert_eq!(self.timers.is_set(Timer::Retransmit), out, "the retransmission timer: {self:#?}");
        }
        assert!(self.recv.readable() <= self.config.rcvbuf, "more received than the buffer holds");
    }
}
