//! Processing of the chunks of a received packet.
//!
//! Passes each chunk to the module that implements its rules. This module sends nothing itself.
//!
//! Implements RFC 9260 §6 (which chunks are accepted in which state) and §3.2 (unrecognized chunks).

use super::auth::ChunkAdmission;
use super::timers::Timer;
use super::{Association, Ctx, State};
use crate::event::CloseReason;
use crate::recv::DataOutcome;
use crate::recv::Violation;
use crate::recv::ack::AckTiming;
use anabranch_base::trace::TraceEvent;
use anabranch_base::{Ecn, Instant};
use anabranch_wire::sctp::{
    Abort, Cause, Chunk, Chunks, Data, ForwardTsn, Heartbeat, HeartbeatAck, IData, IForwardTsn, InitAck,
    Malformed, NrSack, NrSackView, RawChunk, Sack, SackView, ShutdownComplete, Tsn, UnknownChunk,
};
use std::net::SocketAddr;

/// Metadata of a received packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PacketMeta {
    pub(crate) path: usize,
    pub(crate) source: SocketAddr,
    pub(crate) ecn: Ecn,
    pub(crate) tag: u64,
    pub(crate) bytes: usize,
    /// Whether the packet has a valid AUTH chunk before the first chunk that is passed to `handle_packet`.
    pub(crate) authenticated: bool,
}

impl Association {
    /// Handles a packet whose tag and source address match this association. `first` is its first chunk, and `rest`
    /// holds the chunks after it.
    pub(crate) fn handle_packet(
        &mut self,
        ctx: &mut Ctx<'_>,
        first: Option<RawChunk<'_>>,
        mut rest: Chunks<'_>,
        arrived: &PacketMeta,
    ) {
        self.invalidate_fast_path();
        self.stats.packets_received += 1;
        self.stats.bytes_received += arrived.bytes as u64;
        self.paths.at(arrived.path).count_received(arrived.bytes as u64);
        if matches!(self.state, State::ShutdownSent) {
            // A HEARTBEAT may follow an AUTH chunk, so all chunks are searched for a HEARTBEAT.
            let has_heartbeat = first.into_iter().chain(rest.framed()).any(|raw| raw.kind == Heartbeat::KIND);
            self.reset_shutdown_retry_count(ctx, has_heartbeat);
        }
        let packets_before = ctx.stateless_packets.len();
        let mut data = false;
        let mut at_start = true;
        let mut next = first;
        // Read once, so that each chunk costs only one branch if authentication is not in use.
        let guarded = self.extensions.agreed.auth;
        let mut authenticated = arrived.authenticated;
        while let Some(raw) = next {
            if guarded {
                match self.admit(ctx, raw, rest.rest(), arrived.path, &mut authenticated) {
                    ChunkAdmission::Take => {}
                    ChunkAdmission::Skip => {
                        next = rest.next_raw().and_then(Result::ok);
                        continue;
                    }
                    ChunkAdmission::Stop => break,
                }
            }
            // Nearly all chunks are DATA and SACK. They are parsed directly, without the `Chunk` enumeration.
            match raw.kind {
                Data::KIND => match Data::parse(raw) {
                    Ok(chunk) => {
                        self.on_data(ctx, &chunk, arrived, data);
                        data = true;
                    }
                    Err(_) => self.on_malformed_chunk(ctx),
                },
                Sack::KIND => match SackView::parse(raw) {
                    // RFC 9260 §6.10: chunks are processed in order, so if a packet has several SACKs, each of them is
                    // processed. Their total processing cost is limited (`send/sack_work_limit.rs`).
                    Ok(sack) => {
                        if self.state.may_send_data() || matches!(self.state, State::CookieEchoed(_)) {
                            self.on_sack(ctx, &sack);
                        }
                    }
                    Err(_) => self.on_malformed_chunk(ctx),
                },
                NrSack::KIND if self.extensions.agreed.nr_sack => match NrSackView::parse(raw) {
                    Ok(nr) => {
                        if self.state.may_send_data() || matches!(self.state, State::CookieEchoed(_)) {
                            self.on_nr_sack(ctx, &nr);
                        }
                    }
                    Err(_) => self.on_malformed_chunk(ctx),
                },
                // RFC 9260 §6.10: INIT ACK and SHUTDOWN COMPLETE must be alone in their packet. Otherwise they and the
                // rest of the packet are dropped.
                InitAck::KIND | ShutdownComplete::KIND if !(at_start && rest.is_empty()) => break,
                // If interleaving is disabled, I-DATA is handled like any unrecognized chunk (see `on_control`).
                IData::KIND if self.config.interleaving => match IData::parse(raw) {
                    Ok(chunk) => {
                        self.on_idata(ctx, &chunk, arrived, data);
                        data = true;
                    }
                    Err(_) => self.on_malformed_chunk(ctx),
                },
                _ => {
                    if !self.on_control(ctx, raw, arrived) {
                        break;
                    }
                }
            }
            at_start = false;
            if matches!(self.state, State::Closed) {
                let aborted = raw.kind == Abort::KIND;
                if aborted || rest.flatten().any(|chunk| matches!(chunk, Chunk::Abort(_))) {
                    // RFC 9260 §9.1: a packet that contains an ABORT is never answered, so answers to its earlier
                    // chunks are removed.
                    ctx.stateless_packets.truncate(packets_before);
                }
                return;
            }
            // RFC 9260 §6.10: a partial chunk is dropped, and nothing after it can be parsed.
            next = rest.next_raw().and_then(Result::ok);
        }
        // A packet with a FORWARD TSN must be acknowledged like a packet with DATA, so both are processed alike.
        if data || self.recv.packet_counts() {
            self.data_packet_done(ctx, arrived);
        }
        if self.extensions.reconfig.is_some() {
            self.advance_reconfig(ctx, arrived.path);
        }
    }

    #[cold]
    fn on_malformed_chunk(&mut self, ctx: &mut Ctx<'_>) {
        self.violated(ctx, "3.3: a chunk does not have the form of its type");
    }

    /// Handles any chunk except DATA and SACK. Returns false if the rest of the packet must not be processed.
    #[cold]
    fn on_control(&mut self, ctx: &mut Ctx<'_>, raw: RawChunk<'_>, arrived: &PacketMeta) -> bool {
        if matches!(raw.kind, ForwardTsn::KIND | IForwardTsn::KIND) {
            self.on_forward_tsn(ctx, raw, arrived);
            return true;
        }
        let chunk = match Chunk::parse(raw) {
            _ if !self.extensions.recognizes(raw.kind) => Chunk::Unknown(UnknownChunk { raw }),
            Ok(chunk) => chunk,
            // RFC 9260 §5.2.3: an INIT ACK is ignored in any state but COOKIE-WAIT, even if it is malformed. In
            // COOKIE-WAIT, a valid INIT ACK may follow the malformed one, so T1-init keeps running.
            Err(Malformed::Chunk { kind: InitAck::KIND }) => return false,
            // RFC 9260 §3.3.5: the Heartbeat Information is mandatory, but pion (v1.11.3) sends HEARTBEATs without it.
            // Such a HEARTBEAT is ignored, because there is nothing to return to the peer. It does no harm, so the
            // association does not end.
            Err(Malformed::Chunk { kind: Heartbeat::KIND }) => return true,
            Err(_) => {
                self.on_malformed_chunk(ctx);
                return true;
            }
        };
        match chunk {
            Chunk::InitAck(ack) => {
                self.on_init_ack(ctx, &ack, arrived.source);
                return false;
            }
            Chunk::CookieAck(_) => self.on_cookie_ack(ctx),
            Chunk::Heartbeat(heartbeat) => self.on_heartbeat(&heartbeat, arrived.path),
            Chunk::HeartbeatAck(ack) => self.on_heartbeat_ack(ctx, ack.info),
            // RFC 9260 §8.5.1 B, C: the packet has our own tag, so an ABORT or SHUTDOWN COMPLETE with the T bit is
            // ignored.
            Chunk::Abort(abort) if abort.reflected => {}
            Chunk::Abort(abort) => self.on_abort(ctx, &abort),
            Chunk::Shutdown(shutdown) => self.on_shutdown(ctx, shutdown.cumulative, arrived.path),
            Chunk::ShutdownAck(_) => self.on_shutdown_ack(ctx, arrived.path),
            Chunk::ShutdownComplete(complete) if complete.reflected => {}
            Chunk::ShutdownComplete(_) => self.on_shutdown_complete(ctx),
            Chunk::Error(error) => self.on_error(ctx, &error),
            Chunk::Ecne(ecne) => self.on_ecne(ctx, ecne.tsn.0),
            Chunk::Cwr(cwr) => self.extensions.ecn.on_cwr(cwr.tsn.0),
            Chunk::ReConfig(chunk) => self.on_re_config(ctx, &chunk, arrived),
            // The endpoint itself handles a correct INIT or COOKIE ECHO. One that reaches this point is misplaced: an
            // INIT must be alone in its packet, and a COOKIE ECHO must be the first chunk.
            Chunk::Init(_) => return false,
            Chunk::CookieEcho(_) | Chunk::Data(_) | Chunk::Sack(_) | Chunk::NrSack(_) => {}
            Chunk::ForwardTsn(_) | Chunk::IForwardTsn(_) => {}
            // If interleaving is disabled, I-DATA is an unrecognized chunk.
            Chunk::IData(_) => return self.on_unknown(UnknownChunk { raw }, arrived),
            // RFC 4820 §3: padding is ignored, but it shows that the peer probes its path MTU.
            Chunk::Pad(_) => self.on_pad(ctx, arrived.path),
            Chunk::Auth(_) => {}
            Chunk::Asconf(asconf) => self.on_asconf(ctx, &asconf, arrived),
            Chunk::AsconfAck(ack) => self.on_asconf_ack(ctx, &ack),
            Chunk::Unknown(unknown) => return self.on_unknown(unknown, arrived),
        }
        true
    }

    /// RFC 9260 §3.2: the two high bits of an unrecognized chunk's type determine the action. Returns false if the rest
    /// of the packet must not be processed.
    fn on_unknown(&mut self, unknown: UnknownChunk<'_>, arrived: &PacketMeta) -> bool {
        let action = unknown.action();
        if action.report {
            self.report(arrived.path, &Cause::UnrecognizedChunk(unknown.raw.bytes));
        }
        !action.stop
    }

    #[inline]
    fn on_data(&mut self, ctx: &mut Ctx<'_>, data: &Data<'_>, arrived: &PacketMeta, had_data: bool) {
        // RFC 9260 §6: DATA is dropped in a state that does not accept it.
        if !self.state.may_receive_data() {
            return;
        }
        if data.payload.is_empty() {
            return self.no_user_data(ctx, data.tsn);
        }
        if self.extensions.agreed.interleaving {
            return self.violated(ctx, "RFC 8260 2.2.3: DATA where I-DATA was agreed on");
        }
        if self.extensions.reconfig.is_some() && self.comes_too_early(data.tsn, data.stream) {
            return self.refuse_early(ctx.now, arrived);
        }
        self.record_mark(data.tsn, arrived, had_data);
        self.check_overdue(ctx.now, arrived, had_data);
        let taken = self.recv.on_data(data);
        self.on_taken(ctx, taken, data.stream, data.payload.len(), arrived);
    }

    fn on_idata(&mut self, ctx: &mut Ctx<'_>, data: &IData<'_>, arrived: &PacketMeta, had_data: bool) {
        if !self.state.may_receive_data() {
            return;
        }
        if !self.extensions.agreed.interleaving {
            return self.violated(ctx, "RFC 8260 2.2.3: I-DATA where it was not agreed on");
        }
        if data.payload.is_empty() {
            return self.no_user_data(ctx, data.tsn);
        }
        if self.extensions.reconfig.is_some() && self.comes_too_early(data.tsn, data.stream) {
            return self.refuse_early(ctx.now, arrived);
        }
        self.record_mark(data.tsn, arrived, had_data);
        self.check_overdue(ctx.now, arrived, had_data);
        let taken = self.recv.on_idata(data);
        self.on_taken(ctx, taken, data.stream, data.payload.len(), arrived);
    }

    /// RFC 9260 §6.2: aborts the association because a DATA chunk has no user data.
    #[cold]
    fn no_user_data(&mut self, ctx: &mut Ctx<'_>, tsn: Tsn) {
        let reason = CloseReason::PeerViolated("6.2: a DATA chunk without user data");
        self.abort_with(ctx, &Cause::NoUserData(tsn), reason);
    }

    /// RFC 4960 Appendix A: records the TSN of the first DATA chunk in a packet with an ECN mark, for the ECN Echo.
    #[inline]
    fn record_mark(&mut self, tsn: Tsn, arrived: &PacketMeta, had_data: bool) {
        if !had_data && arrived.ecn == Ecn::Ce {
            self.extensions.ecn.record_mark(tsn.0);
        }
    }

    /// Records late DATA, before the first chunk of its packet is taken. The DATA is late if two conditions hold. The
    /// previous DATA arrived more than an RTO ago, although the receive window was open. A chunk or a part of a message
    /// has been missing since then.
    #[inline]
    fn check_overdue(&mut self, now: Instant, arrived: &PacketMeta, had_data: bool) {
        if !had_data && self.paths.is_data_overdue(now, arrived.path) && self.recv.is_unfinished() {
            self.paths.on_data_overdue();
        }
    }

    /// Counts a received chunk with user data. If the stream of the chunk does not exist, reports this to the peer. If
    /// the chunk violates the protocol, aborts the association.
    #[inline]
    fn on_taken(
        &mut self,
        ctx: &mut Ctx<'_>,
        taken: Result<DataOutcome, Violation>,
        stream: u16,
        length: usize,
        arrived: &PacketMeta,
    ) {
        match taken {
            Ok(DataOutcome::New(offset)) => {
                self.stats.data_received += 1;
                self.stats.data_bytes_received += length as u64;
                ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Received {
                    units: offset..offset + 1,
                    packet: arrived.tag,
                });
            }
            Ok(DataOutcome::NoSuchStream) => self.report(arrived.path, &Cause::InvalidStream(stream)),
            Ok(DataOutcome::Duplicate) => self.stats.rare_mut().duplicates_received += 1,
            Ok(DataOutcome::Refused) => self.stats.rare_mut().refused_full += 1,
            Err(violation) => self.violated(ctx, violation.0),
        }
    }

    /// Ends the processing of a packet with DATA. Decides whether to acknowledge the packet now or later, and reports
    /// readable streams.
    #[inline]
    fn data_packet_done(&mut self, ctx: &mut Ctx<'_>, arrived: &PacketMeta) {
        let closed = self.recv.is_window_closed();
        if let Some(interruption) = self.paths.on_data_from(ctx.now, arrived.path, closed) {
            self.record_interruption(ctx, interruption);
        }
        self.recv.count_bytes(arrived.bytes);
        self.schedule_sack(ctx.now);
        if matches!(self.state, State::ShutdownSent) {
            self.data_while_shutting_down();
        }
        self.emit_readable(ctx);
    }

    /// Decides, after a packet with DATA, whether its SACK is due now or may be delayed.
    #[inline]
    pub(crate) fn schedule_sack(&mut self, now: Instant) {
        match self.recv.packet_done() {
            Some(AckTiming::Now) => self.timers.stop(Timer::Sack),
            Some(AckTiming::Later) if !self.timers.is_set(Timer::Sack) => {
                self.timers.set(Timer::Sack, now + self.config.delack);
            }
            _ => {}
        }
    }

    /// RFC 9260 §8.3: returns the information of the HEARTBEAT unchanged and at once to the address that the HEARTBEAT
    /// came from.
    fn on_heartbeat(&mut self, heartbeat: &Heartbeat<'_>, path: usize) {
        let answers = self.state.is_up()
            && !matches!(self.state, State::ShutdownSent | State::ShutdownAckSent)
            || matches!(self.state, State::CookieEchoed(_));
        if answers {
            let answer = HeartbeatAck { info: heartbeat.info, rest: heartbeat.rest };
            self.outbox.push_heartbeat_ack(path, |chunk| answer.emit(chunk));
        }
    }
}
