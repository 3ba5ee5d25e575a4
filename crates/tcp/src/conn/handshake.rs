//! Opens a connection: SYN, SYN-ACK, and the options that the two segments negotiate.
//!
//! Implements RFC 9293 §3.5 (with simultaneous open), §3.7.1 (MSS), and §3.10.7.3 (SYN-SENT).

use super::output::without_port;
use super::timers::{Timer, Timers};
use super::{Connection, Outbox, Reply, State};
use crate::config::{Config, SynQueue};
use crate::options::NegotiatedOptions;
use crate::recv::RecvHalf;
use crate::send::SendHalf;
use crate::stats::Stats;
use crate::{CloseReason, ConnectionId, Event};
use anabranch_base::time::Duration;
use anabranch_base::trace::TraceEvent;
use anabranch_base::{Ecn, Instant};
use anabranch_congestion::{RttConfig, RttEstimator};
use anabranch_wire::tcp::{Flags, Header, Segment, Seq, Template};
use std::net::SocketAddr;
use std::sync::Arc;

/// The parameters from which a new connection is created.
#[derive(Debug)]
pub(crate) struct TcbInit {
    pub(crate) id: ConnectionId,
    pub(crate) local: SocketAddr,
    pub(crate) remote: SocketAddr,
    pub(crate) config: Arc<Config>,
    pub(crate) iss: Seq,
    /// The random offset that is added to the timestamp clock.
    pub(crate) clock_offset: u32,
    pub(crate) mtu: u32,
}

/// RFC 9293 §3.7.1: the MSS assumed for a peer that sends no MSS option.
const DEFAULT_MSS_V4: u32 = 536;
const DEFAULT_MSS_V6: u32 = 1220;
/// The lower bound for the peer's MSS (as in Linux), so that headers do not take more bytes than data.
const MIN_MSS: u32 = 88;
const AFTER_LOST_SYN: Duration = Duration::from_secs(3);

impl Connection {
    /// Creates an outgoing connection. Its SYN is sent at the next poll.
    pub(crate) fn connect(now: Instant, init: TcbInit) -> Self {
        let mut connection = Self::new(now, init, State::SynSent);
        connection.is_announced = true;
        connection
    }

    /// Creates an incoming connection. Its SYN-ACK is sent at the next poll.
    pub(crate) fn accept(now: Instant, init: TcbInit, syn: &Header) -> Self {
        let mut connection = Self::new(now, init, State::SynReceived);
        connection.passive = true;
        connection.on_peer_syn(now, syn);
        connection
    }

    /// Creates a connection from a segment that returned a valid SYN cookie. `ack` is the header of that segment.
    /// Nothing has to be sent.
    pub(crate) fn accept_cookie(now: Instant, init: TcbInit, syn: &Header, ack: &Header) -> Self {
        let mut connection = Self::accept(now, init, syn);
        // `syn_header` is called only because it records the window that the cookie's SYN-ACK offered. The peer has
        // already acknowledged that SYN-ACK.
        let _ = connection.syn_header(now);
        connection.recv.ack_scheduler.on_sent();
        (connection.syn_due, connection.syn_tries) = (false, 1);
        // The time when the SYN-ACK with the cookie was sent can be computed only if the peer echoed our timestamp.
        let age = ack.options.timestamps.and_then(|stamps| connection.options.age(now, stamps.echo));
        let sent = age.map(|age| now.as_nanos().saturating_sub(age));
        connection.syn_sent = sent.map_or(Instant::MAX, Instant::from_nanos);
        connection
    }

    fn new(now: Instant, init: TcbInit, state: State) -> Self {
        let TcbInit { id, local, remote, config, iss, clock_offset, mtu } = init;
        let default_mss = if remote.is_ipv4() { DEFAULT_MSS_V4 } else { DEFAULT_MSS_V6 };
        let mut connection = Self {
            id,
            local,
            remote,
            passive: false,
            state,
            iss,
            irs: Seq(0),
            options: NegotiatedOptions::offer(&config, clock_offset),
            template: None,
            ip_addresses: (without_port(local), without_port(remote)),
            send: SendHalf::new(&config, u64::from(default_mss)),
            recv: RecvHalf::new(&config),
            timers: Timers::default(),
            stats: Stats::default(),
            mtu,
            peer_mss: default_mss,
            syn_due: true,
            syn_tries: 0,
            syn_sent: now,
            probe_due: false,
            probes: 0,
            unanswered: 0,
            timeouts: 0,
            last_progress: now,
            wl1: Seq(0),
            wl2: Seq(0),
            window_field: 0,
            last_ack_sent: 0,
            ecn_echo: false,
            is_announced: false,
            is_readable_reported: false,
            is_finished_reported: false,
            is_closed_reported: false,
            orphan: false,
            challenges: (now, 0),
            soft_error: None,
            recorded_limit: None,
            recorded_window: 0,
            config,
        };
        // Until the peer announces its MSS, segments are as large as our own MSS allows.
        connection.peer_mss = connection.own_mss();
        let own_mss = u64::from(connection.own_mss());
        connection.recv.begin(&connection.config, own_mss);
        connection
    }

    /// RFC 9293 §3.7.1: returns the MSS that we announce to the peer.
    pub(super) fn own_mss(&self) -> u32 {
        let headers = if self.remote.is_ipv4() { 40 } else { 60 };
        let most = self.mtu.saturating_sub(headers).clamp(MIN_MSS, u32::from(u16::MAX));
        self.config.mss.map_or(most, |mss| mss.min(most))
    }

    /// Returns the payload of a full segment in bytes.
    pub(super) fn payload_size(&self) -> u64 {
        u64::from(self.own_mss().min(self.peer_mss)) - self.options.overhead()
    }

    /// Records the options and the sequence number of the peer's SYN or SYN-ACK.
    fn on_peer_syn(&mut self, now: Instant, syn: &Header) {
        self.irs = syn.seq;
        let default = if self.remote.is_ipv4() { DEFAULT_MSS_V4 } else { DEFAULT_MSS_V6 };
        self.peer_mss = syn.options.mss.map_or(default, u32::from).max(MIN_MSS);
        self.options.settle(now, &self.config, syn);
        // The window of a SYN is never scaled (RFC 7323 §2.2).
        self.send.set_window(0, u64::from(syn.window));
        self.wl1 = syn.seq;
        self.wl2 = self.iss.next();
        self.window_field = syn.window;
        self.recv.ack_scheduler.ack_now();
    }

    /// Handles a segment that arrives in SYN-SENT.
    pub(super) fn on_segment_in_syn_sent(&mut self, now: Instant, segment: &Segment<'_>, out: &mut Outbox) {
        let header = &segment.header;
        let acks = header.flags.has(Flags::ACK);
        // RFC 9293 §3.10.7.3, first: the segment acknowledges a sequence number that we never sent.
        if acks && (header.ack != self.iss.next() || self.syn_tries == 0) {
            if !header.flags.has(Flags::RST) {
                out.reply(Reply::reset_for(self.local, self.remote, segment));
            }
            return;
        }
        // RFC 9293 §3.10.7.3, second: a reset is accepted only if it acknowledges our SYN.
        if header.flags.has(Flags::RST) {
            if acks {
                self.fail(now, CloseReason::Refused, out);
            }
            return;
        }
        if !header.flags.has(Flags::SYN) {
            return;
        }
        self.on_peer_syn(now, header);
        if acks {
            self.on_opened(now, header, out);
        } else {
            // RFC 9293 §3.10.7.3, fourth: this is a simultaneous open.
            self.state = State::SynReceived;
            self.syn_due = true;
            self.syn_tries = 0;
            self.timers.stop(Timer::Retransmit);
        }
    }

    /// Returns whether the header is that of the peer's SYN-ACK in a simultaneous open: it repeats the peer's SYN and
    /// acknowledges ours.
    #[cold]
    pub(super) fn answers_our_syn(&self, header: &Header) -> bool {
        let (known, ours) = (header.seq == self.irs, header.ack == self.iss.next());
        known && ours && header.flags.has(Flags::ACK) && !self.passive && self.syn_tries > 0
    }

    /// Opens the connection after the peer has acknowledged our SYN or SYN-ACK. Data may be sent from now on.
    pub(super) fn on_opened(&mut self, now: Instant, header: &Header, out: &mut Outbox) {
        let syn_lost = self.syn_tries > 1;
        self.state = State::Established;
        self.syn_due = false;
        self.timers.stop(Timer::Retransmit);
        self.timeouts = 0;
        self.last_progress = now;
        // With `syn_queue=scan`, lost SYN-ACKs do not reduce the initial window, because Linux 2.6 no longer knows at
        // this time how often it sent the SYN-ACK.
        let is_counted = !self.passive || self.config.syn_queue == SynQueue::Timers;
        let reduced_iw =
            is_counted && self.syn_tries > self.config.syn_losses_for_one_segment(self.payload_size());
        self.send.first_ssthresh = self.kept_ssthresh(out);
        let seed = u64::from(self.iss.0);
        self.send.begin(&self.config, self.payload_size(), self.options.sack, reduced_iw, seed);
        self.template = Template::new(self.local, self.remote);
        let echoed = header.options.timestamps.and_then(|stamps| self.options.age(now, stamps.echo));
        if syn_lost {
            // RFC 6298 §5.7: after a lost SYN, the RTO for data starts at 3 s or more.
            let rto_initial = self.config.rto_initial.max(AFTER_LOST_SYN);
            self.send.rtt = RttEstimator::new(RttConfig { rto_initial, ..self.config.rtt() });
            // Karn's algorithm: after a retransmission, only a timestamp shows which copy of the SYN was answered.
            if let Some(age) = echoed.filter(|_| self.options.timestamps) {
                self.send.rtt.on_sample(Duration::from_nanos(age));
            }
        } else if self.syn_sent <= now {
            // RFC 6298 §2.2: the handshake gives the first RTT measurement.
            self.send.rtt.on_sample(now.since(self.syn_sent));
        }
        self.is_announced = true;
        let id = self.id;
        let port = self.local.port();
        self.event(out, if self.passive { Event::Accepted { id, port } } else { Event::Connected { id } });
        out.record(now, self.key(), || TraceEvent::Established);
        if self.send.finished {
            self.state = State::FinWait1;
        }
    }

    /// Returns the header of the SYN or SYN-ACK to send, and the ECN codepoint of its packet.
    pub(crate) fn syn_header(&mut self, now: Instant) -> (Header, Ecn) {
        let answer = self.state == State::SynReceived;
        let mss = self.own_mss() as u16;
        let options = self.options.syn_options(now, &self.config, mss, answer);
        let mut flags = Flags::SYN;
        if answer {
            flags = flags.with(Flags::ACK);
        }
        // RFC 3168 §6.1.1: a SYN with ECE and CWR requests ECN, and a SYN-ACK with ECE alone accepts it. A
        // retransmitted SYN does not request ECN (§6.1.1.1), because some paths drop SYNs with these flags.
        if self.options.ecn && answer {
            flags = flags.with(Flags::ECE);
        } else if self.options.ecn && self.syn_tries == 0 {
            flags = flags.with(Flags::ECE).with(Flags::CWR);
        }
        let mss = u64::from(self.peer_mss);
        let header = Header {
            source_port: self.local.port(),
            target_port: self.remote.port(),
            seq: self.iss,
            ack: if answer { self.ack_of(self.recv.next()) } else { Seq(0) },
            flags,
            window: self.recv.offer(0, u64::from(u16::MAX), mss),
            urgent: 0,
            options,
        };
        (header, Ecn::NotEct)
    }
}
