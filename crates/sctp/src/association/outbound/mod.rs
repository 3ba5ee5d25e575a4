//! Builds all packets of an association.
//!
//! Handlers of events only mark the chunks that have to be sent. When polled, this module turns the marks into packets:
//! it decides which chunks go into a packet, in which order, and how many fit. [`choice`] selects the next packet and
//! decides whether it may be sent. [`packet`] adds the common header and the checksum, also to packets that belong to
//! no association. This module also updates the counters, timers and trace records of sent data.
//!
//! Implements RFC 9260 §6.1 and §6.10.

mod choice;
mod control;
pub(crate) mod packet;

use super::timers::Timer;
use super::{Association, Ctx, State};
use crate::send::Written;
use crate::send::outstanding::Entry;
use crate::send::queue::Cut;
use anabranch_base::trace::{SendCause, TraceEvent};
use anabranch_base::{Ecn, SendBatch, SharedBytes};
use anabranch_wire::sctp::{Asconf, Chunks, Data, crc32c, packet::HEADER};
use packet::OpenPacket;

/// Whether a control packet has to be sent before DATA.
pub(super) enum ControlJob {
    /// A packet for this job has to be sent before any DATA.
    Job(Job),
    /// Nothing can be sent now. For example, the handshake waits for an answer, or no address of the peer is usable.
    Wait,
    /// No control chunk is pending; DATA may be sent.
    Go,
}

/// The kind of the next packet, and its path.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Job {
    Init(usize),
    Asconf(usize),
    AsconfAck(usize),
    CookieEcho(usize),
    Control(usize),
    MtuProbe(usize),
    Data(usize, Allowed),
    Sack(usize),
    Shutdown(usize),
}

/// Who writes the checksum of a packet with only new DATA chunks.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum PacketChecksum {
    /// The association. No other packet is in the buffer.
    Alone,
    /// The association. Other packets lie in front of this one in the buffer.
    BehindOthers,
    /// The socket.
    Left,
}

impl Job {
    fn path(self) -> usize {
        match self {
            Self::Init(path)
            | Self::Asconf(path)
            | Self::AsconfAck(path)
            | Self::CookieEcho(path)
            | Self::Control(path)
            | Self::MtuProbe(path)
            | Self::Data(path, _)
            | Self::Sack(path)
            | Self::Shutdown(path) => path,
        }
    }
}

/// RFC 9653 §5.2 (1) to (3): returns whether a packet needs a checksum even if the peer accepts packets without a
/// checksum.
#[cold]
fn needs_checksum(job: Job, packet: &[u8]) -> bool {
    let carries_asconf = Chunks::new(&packet[HEADER..]).framed().any(|raw| raw.kind == Asconf::KIND);
    matches!(job, Job::Init(_) | Job::CookieEcho(_)) || carries_asconf
}

/// Whether retransmissions and new DATA may be sent on a path now.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) struct Allowed {
    retransmissions: bool,
    new: bool,
}

impl Association {
    /// Appends packets to `out`. Returns false if there is nothing more to send.
    #[inline]
    pub(crate) fn poll_transmit(&mut self, ctx: &mut Ctx<'_>, out: &mut SendBatch, tag: &mut u64) -> bool {
        self.paths.count_poll();
        self.transmit_on_fast_path(ctx, out, tag) || self.transmit_any(ctx, out, tag)
    }

    /// Like [`poll_transmit`](Self::poll_transmit), but writes all kinds of packets and does not use the fast path.
    #[inline(never)]
    fn transmit_any(&mut self, ctx: &mut Ctx<'_>, out: &mut SendBatch, tag: &mut u64) -> bool {
        let Some(mut job) = self.next_job(ctx) else {
            self.record_application_limited();
            self.record_limit(ctx);
            return false;
        };
        let index = job.path();
        let path = self.paths.get(index);
        (out.source, out.target) = (path.source(), path.address());
        if matches!(job, Job::Asconf(_) | Job::AsconfAck(_))
            && let Some(ends) = self.asconf_addresses(job)
        {
            (out.source, out.target) = ends;
        }
        out.ecn =
            if self.extensions.ecn.is_on() && matches!(job, Job::Data(..)) { Ecn::Ect0 } else { Ecn::NotEct };
        out.first_tag = *tag;
        let path = self.paths.get(index);
        let mut limit =
            if matches!(job, Job::MtuProbe(_)) { path.probe_limit() } else { path.packet_limit() };
        let leaves_checksum = self.leaves_checksum(out);
        let mut checksum = match job {
            Job::Data(..) if out.max_segments() == 1 => self.checksum_alone(limit, out),
            _ => PacketChecksum::Alone,
        };
        loop {
            let bytes = out.push_with(|buffer| {
                let before = buffer.len();
                match job {
                    Job::Data(path, allowed) if !allowed.retransmissions && self.sends_new_data_alone() => {
                        self.write_new_data(ctx, path, limit, buffer, *tag, checksum, None);
                    }
                    _ => self.write_packet(ctx, job, limit, buffer, *tag, leaves_checksum),
                }
                buffer.len() - before
            });
            assert!(bytes > HEADER, "a packet without chunks");
            // RFC 9260 §6.9: a chunk that has a TSN cannot be split again. If the path MTU is smaller now than when the
            // chunk got its TSN, the packet is fragmented by IP.
            out.may_fragment = bytes > limit;
            checksum = PacketChecksum::BehindOthers;
            *tag += 1;
            self.stats.packets_sent += 1;
            self.stats.bytes_sent += bytes as u64;
            self.paths.at(index).count_sent(bytes as u64);
            if out.may_fragment || matches!(job, Job::MtuProbe(_)) || !out.has_room() {
                return true;
            }
            // Further DATA packets for the same path may join the batch if they are not larger than its first packet.
            // The subtraction saturates, because a first packet with only control chunks may be smaller than an AUTH
            // chunk.
            limit = limit.min(out.stride());
            let room = limit.saturating_sub(HEADER + self.extensions.auth_room());
            match self.next_job(ctx) {
                Some(next @ Job::Data(path, allowed))
                    if path == index
                        && out.ecn == if self.extensions.ecn.is_on() { Ecn::Ect0 } else { Ecn::NotEct }
                        && !self.recv.sack_pending()
                        && !self.extensions.ecn.wants_cwr()
                        && self.first_chunk_fits(allowed, room) =>
                {
                    job = next;
                }
                _ => return true,
            }
        }
    }

    /// Writes one packet of at most `limit` bytes. The packet may exceed the limit only because of a chunk that cannot
    /// be split, for example DATA that already has a TSN (RFC 9260 §6.9).
    fn write_packet(
        &mut self,
        ctx: &mut Ctx<'_>,
        job: Job,
        limit: usize,
        buffer: &mut Vec<u8>,
        tag: u64,
        leaves_checksum: bool,
    ) {
        // RFC 9260 §8.5, §8.5.1 A, D: the packet carries the tag from the peer's INIT or INIT ACK. An INIT has tag 0.
        let verification = if matches!(job, Job::Init(_)) { 0 } else { self.identity.peer_tag() };
        let packet = OpenPacket::begin(buffer, self.identity.header(verification));
        let start = packet.start();
        let end = start + limit - self.extensions.auth_room();
        match job {
            Job::Init(path) => {
                self.write_init(ctx, buffer);
                self.init_sent(ctx, path);
            }
            Job::CookieEcho(path) => self.write_cookie_echo(ctx, path, end, buffer, tag),
            Job::Shutdown(path) => self.write_shutdown(ctx, path, end, buffer),
            Job::Asconf(path) => self.write_asconf(ctx, path, buffer),
            Job::AsconfAck(path) => self.write_asconf_ack(ctx, path, buffer),
            Job::Control(path) => {
                self.write_control(ctx, path, end, buffer);
                // RFC 9260 §5.4: neither SACK nor DATA is sent to an unverified address, even if there is no other
                // address. RFC 5061 §5.3 F14: while the current path is unverified or has no source address
                // (`is_stranded`), SACK and DATA are not sent to any address.
                if self.paths.get(path).is_confirmed() && !self.is_stranded() {
                    self.write_forward(ctx, path, end, buffer);
                    // While a path MTU probe is due or outstanding, packets with control chunks stay small: no DATA is
                    // added to them.
                    let small = self.paths.get(path).is_searching();
                    let allowed = self
                        .data_path(ctx.now)
                        .filter(|&(target, _)| target == path && !small)
                        .map(|(_, allowed)| allowed);
                    self.write_sack_and_data(ctx, path, end, buffer, tag, allowed);
                }
            }
            Job::Data(path, allowed) => {
                self.write_sack_and_data(ctx, path, end, buffer, tag, Some(allowed));
            }
            Job::MtuProbe(path) => self.write_mtu_probe(ctx, path, buffer),
            Job::Sack(_) => self.write_sack(end, buffer),
        }
        self.extensions.sign(buffer, start);
        if !leaves_checksum
            && (!self.extensions.agreed.zero_checksum || needs_checksum(job, &buffer[start..]))
        {
            packet.finish(buffer);
        }
    }

    /// Like [`write_packet`](Self::write_packet), for a packet that holds only new DATA chunks. The payload of the last
    /// chunk may be moved to `shared`. It then follows the bytes in `buffer`.
    #[expect(clippy::too_many_arguments, reason = "inlined into the loop over packets")]
    #[inline(always)]
    pub(crate) fn write_new_data(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        limit: usize,
        buffer: &mut Vec<u8>,
        tag: u64,
        checksum: PacketChecksum,
        shared: Option<&mut Option<SharedBytes>>,
    ) {
        let packet = OpenPacket::begin(buffer, self.identity.header_to_peer());
        self.paths.at(index).shrink_if_idle(ctx.now);
        self.write_fresh(ctx, index, packet.start() + limit, buffer, tag, shared);
        self.send.packet_done();
        self.paths.at(index).on_data_sent(ctx.now, true);
        match checksum {
            _ if self.extensions.agreed.zero_checksum => {}
            PacketChecksum::Left => {}
            PacketChecksum::Alone => packet.finish_alone(buffer),
            PacketChecksum::BehindOthers => packet.finish(buffer),
        }
    }

    /// Returns whether the checksum of the next packet is left to the socket. Under RFC 9653 it is not, because then
    /// most packets have no checksum, and the packet must arrive as it is.
    #[inline(always)]
    pub(crate) fn leaves_checksum(&self, out: &mut SendBatch) -> bool {
        let leaves = out.offloads_checksums() && !self.extensions.agreed.zero_checksum;
        if leaves {
            out.missing_checksum = Some(crc32c::put_between);
        }
        leaves
    }

    /// Returns who writes the checksum of the only packet of `out`, which has at most `limit` bytes. Chooses the
    /// position of the packet if this side computes the checksum.
    #[inline(always)]
    pub(crate) fn checksum_alone(&self, limit: usize, out: &mut SendBatch) -> PacketChecksum {
        if self.leaves_checksum(out) {
            return PacketChecksum::Left;
        }
        out.end_on(crc32c::LINE, limit, crc32c::room_for(limit));
        PacketChecksum::Alone
    }

    /// Writes new DATA chunks behind other chunks. This function is not inlined, so that the code of `write_fresh`
    /// exists only twice: here and in `write_new_data`.
    #[inline(never)]
    fn write_more(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        end: usize,
        buffer: &mut Vec<u8>,
        tag: u64,
    ) -> u64 {
        self.write_fresh(ctx, index, end, buffer, tag, None)
    }

    /// Writes as many new DATA chunks as are allowed and fit. Returns their number. The payload of the last chunk may be
    /// moved to `shared`.
    #[inline(always)]
    fn write_fresh(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        end: usize,
        buffer: &mut Vec<u8>,
        tag: u64,
        mut shared: Option<&mut Option<SharedBytes>>,
    ) -> u64 {
        let mut written = 0;
        while !self.send.is_full() {
            let room = end.saturating_sub(buffer.len());
            if room <= Data::HEADER {
                break;
            }
            let Some(cut) = self.send.next_cut(room) else {
                break;
            };
            if !self.send.window_takes(cut.length) || !self.shares_key(cut.message) {
                break;
            }
            // Nothing follows a chunk that fills the packet, or that holds the last bytes to be sent.
            let is_last = room < 2 * Data::HEADER + cut.length as usize
                || self.send.unsent_bytes() == u64::from(cut.length);
            let shared = shared.as_deref_mut().filter(|_| is_last);
            self.write_new(ctx, index, cut, buffer, tag, shared);
            written += 1;
            if is_last {
                break;
            }
        }
        written
    }

    /// Writes a SACK without DATA, with the ECN chunks that accompany it.
    fn write_sack(&mut self, end: usize, buffer: &mut Vec<u8>) {
        self.extensions.ecn.write(buffer);
        self.emit_sack(end, buffer);
    }

    #[inline]
    pub(crate) fn emit_sack(&mut self, end: usize, buffer: &mut Vec<u8>) {
        let room = end.saturating_sub(buffer.len());
        self.recv.emit_sack(buffer, room);
        self.timers.stop(Timer::Sack);
        self.stats.sacks_sent += 1;
    }

    /// Writes a SACK, if one is due or can be bundled with DATA. Then writes DATA.
    fn write_sack_and_data(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        end: usize,
        buffer: &mut Vec<u8>,
        tag: u64,
        allowed: Option<Allowed>,
    ) {
        // A SACK is bundled only if the packet still has room for DATA. Otherwise a due SACK is sent first, in its own
        // packet.
        if self.recv.sack_pending() && self.sack_path() == index {
            let ecn = self.extensions.ecn.size();
            let size = self.recv.sack_size() + ecn;
            let room = end.saturating_sub(buffer.len());
            let together =
                size < room && allowed.is_some_and(|allowed| self.first_chunk_fits(allowed, room - size));
            if together {
                self.extensions.ecn.write(buffer);
                self.emit_sack(end, buffer);
            } else if self.recv.sack_due() && room > size.min(64) + ecn {
                self.extensions.ecn.write(buffer);
                self.emit_sack(end, buffer);
                return;
            }
        } else if self.extensions.ecn.wants_cwr()
            && let Some(allowed) = allowed
        {
            let room = end.saturating_sub(buffer.len());
            if room > 8 && self.first_chunk_fits(allowed, room - 8) {
                self.extensions.ecn.write(buffer);
            }
        }
        if let Some(allowed) = allowed {
            self.write_data(ctx, index, end, buffer, tag, allowed);
        }
    }

    /// Writes the DATA chunks that are marked for retransmission, and then new DATA chunks.
    fn write_data(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        end: usize,
        buffer: &mut Vec<u8>,
        tag: u64,
        allowed: Allowed,
    ) {
        if !allowed.retransmissions && !allowed.new {
            return;
        }
        self.paths.at(index).shrink_if_idle(ctx.now);
        let mut repeated = false;
        let mut fresh = false;
        let begin = buffer.len();
        let mut written = 0_u64;
        if allowed.retransmissions {
            while let Some((offset, entry, path)) = self.next_retransmission() {
                let fits = buffer.len() + entry.size() as usize <= end;
                // RFC 9260 §6.9: a chunk that was cut for a larger MTU cannot be cut again, so it gets a packet of its
                // own.
                let alone = buffer.len() == begin
                    && end.saturating_sub(begin) + self.extensions.auth_room()
                        >= self.paths.get(index).chunk_limit();
                let oversize = alone && !fits;
                if path != index || !(fits || oversize) || !self.shares_key(entry.message) {
                    break;
                }
                self.write_retransmission(ctx, index, (offset, entry), buffer, tag);
                repeated = true;
                written += 1;
            }
        }
        let more_marked = self.send.has_lost() && allowed.retransmissions;
        if (allowed.new || allowed.retransmissions && !more_marked && self.follows_new(ctx.now, index))
            && index == self.data_target()
        {
            let new = self.write_more(ctx, index, end, buffer, tag);
            fresh = new > 0;
            written += new;
        }
        if written == 0 {
            return;
        }
        if repeated {
            self.stats.rare_mut().packets_retransmitted += 1;
            self.send.take_free_packet();
        }
        if fresh {
            self.send.packet_done();
            self.record_new_sent(ctx.now, index);
        }
        self.paths.at(index).on_data_sent(ctx.now, fresh);
    }

    #[inline(always)]
    fn write_new(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        cut: Cut,
        buffer: &mut Vec<u8>,
        tag: u64,
        shared: Option<&mut Option<SharedBytes>>,
    ) {
        let closing = matches!(self.state, State::ShutdownPending);
        let form = (self.extensions.agreed.interleaving, closing);
        let written = self.send.write_new(ctx.now, index, cut, form, buffer, shared);
        if written.offset == self.send.base() {
            self.paths.on_data_begun(ctx.now, index);
        }
        self.paths.at(index).begin_measurement(ctx.now, written.offset);
        self.count_sent(ctx, index, &written, tag, false);
    }

    /// Retransmits a chunk that is marked for retransmission.
    #[cold]
    fn write_retransmission(
        &mut self,
        ctx: &mut Ctx<'_>,
        index: usize,
        marked: (u64, Entry),
        buffer: &mut Vec<u8>,
        tag: u64,
    ) {
        let interleaving = self.extensions.agreed.interleaving;
        let Some(written) = self.send.write_retransmission(ctx.now, index, marked, interleaving, buffer)
        else {
            return;
        };
        // RFC 9260 §6.3.1 C5 (Karn's algorithm): a retransmitted chunk gives no round-trip sample.
        self.paths.end_measurements_from(written.offset);
        match written.cause {
            SendCause::Fast => self.stats.rare_mut().retransmitted_fast += 1,
            _ => self.stats.rare_mut().retransmitted_timeout += 1,
        }
        let same_path = usize::from(marked.1.path) == index;
        self.paths.at(index).on_chunk_repeated(ctx.now, written.offset, !same_path);
        self.count_sent(ctx, index, &written, tag, same_path);
    }

    /// Updates the timer, counters and trace for a chunk that was written. `again` is true if the chunk was
    /// retransmitted on the path on which it was last sent.
    #[inline(always)]
    fn count_sent(&mut self, ctx: &mut Ctx<'_>, index: usize, written: &Written, packet: u64, again: bool) {
        let Written { offset, length, size, stream, from, cause } = *written;
        let path = self.paths.at(index);
        let earliest_again = path.on_chunk_sent(ctx.now, offset, size, again);
        let timer = Timer::T3Rtx(index);
        // RFC 9260 §6.3.2 R1, §6.1, §7.2.4: start T3-rtx if it does not run. Restart a running T3-rtx only when the
        // earliest outstanding chunk on this path is sent again on this path, not when a chunk moves here from another
        // path.
        if earliest_again || !self.timers.is_set(timer) {
            self.timers.set(timer, ctx.now + path.rto());
        }
        self.stats.data_sent += 1;
        self.stats.data_bytes_sent += u64::from(length);
        ctx.trace.record(ctx.now, self.trace_key(), || TraceEvent::Sent {
            units: offset..offset + 1,
            stream: stream.into(),
            bytes: from..from + u64::from(length),
            packet,
            cause,
        });
    }
}
