//! Handles arriving segments on the fast path: the next data in order, or an acknowledgement that only advances
//! SND.UNA. The segment must belong to the connection that the last lookup found.

use crate::conn::{Connection, Outbox};
use crate::send::Ack;
use crate::{Endpoint, Event};
use anabranch_base::trace::TraceEvent;
use anabranch_base::{Ecn, Instant, PacketBytes};
use anabranch_wire::tcp::{Flags, PlainSegment};
use std::net::SocketAddr;

impl Endpoint {
    /// Handles a segment if it qualifies for the fast path. Otherwise changes nothing and returns false. The checksum is
    /// verified unless the segment is known to be `intact`.
    #[inline(always)]
    pub(crate) fn handle_on_fast_path(
        &mut self,
        now: Instant,
        (source, target): (&SocketAddr, &SocketAddr),
        (ecn, tag): (Ecn, u64),
        intact: bool,
        mut segment: PacketBytes<'_>,
    ) -> bool {
        if !self.out.fast_path {
            return false;
        }
        let Some(plain) = PlainSegment::read(segment.bytes(), segment.shared_len()) else { return false };
        let Some(slot) = self.demux.find_again(source, target, plain.ports) else { return false };
        let Some(connection) = &mut self.slots[slot as usize].connection else { return false };
        if !connection.expects(now, &plain) || !intact && !connection.is_intact(segment.bytes()) {
            return false;
        }
        connection.on_expected(now, &plain, &mut segment, (ecn, tag), &mut self.out);
        self.follow(now, slot);
        true
    }
}

impl Connection {
    /// Handles a segment for which [`expects`](Self::expects) has returned true.
    #[inline(always)]
    pub(crate) fn on_expected(
        &mut self,
        now: Instant,
        plain: &PlainSegment,
        segment: &mut PacketBytes<'_>,
        (ecn, tag): (Ecn, u64),
        out: &mut Outbox,
    ) {
        self.stats.segments_received += 1;
        self.send.begin_burst();
        self.send.forget_refusal();
        let stamps = plain.stamps.filter(|_| self.options.timestamps);
        if let Some(stamps) = stamps
            && self.recv.next() <= self.last_ack_sent
        {
            self.options.renew(now, stamps);
        }
        let position = self.own_position(plain.ack) as u64;
        let window_before = self.window_field;
        self.record_window(plain.seq, plain.ack, plain.window, position);
        let has_data = plain.length > 0;
        if has_data {
            self.record_echo(now, stamps);
        }
        // The segment has no ECE (RFC 3168 §6.1.2), so there is no congestion to react to. It has no SACK blocks
        // either, so it reports no gaps.
        if has_data && self.send.knows(position) {
            self.record_answer(now);
        } else {
            let echo =
                stamps.and_then(|stamps| self.options.age(now, stamps.echo).map(|age| (stamps.echo, age)));
            let could_be_duplicate = !has_data && plain.window == window_before;
            let ack = Ack { position, sacks: &[], duplicate: None, could_be_duplicate, echo, ece: false };
            let outcome = self.send.on_ack(now, &ack, &mut self.stats);
            self.after_ack(now, outcome, out);
        }
        if has_data {
            self.on_next_data(now, plain, segment, (ecn, tag), out);
        }
    }

    /// RFC 9293 §3.10.7.4, seventh: takes the data of the segment, which is next in order.
    #[inline(always)]
    fn on_next_data(
        &mut self,
        now: Instant,
        plain: &PlainSegment,
        segment: &mut PacketBytes<'_>,
        (ecn, tag): (Ecn, u64),
        out: &mut Outbox,
    ) {
        if self.options.ecn {
            self.record_ecn(ecn, Flags::ACK);
        }
        let (start, length) = (self.recv.next(), plain.length as u64);
        let Some(delay) = self.recv.take_next(plain.length, plain.pushed, segment) else {
            segment.join();
            let payload = &segment.bytes()[segment.bytes().len() - plain.length..];
            return self.take_data(now, (start as i64, payload, (false, plain.pushed)), tag, out);
        };
        self.recv.ack_scheduler.on_arrival(now);
        let key = self.key();
        out.record(now, key, || TraceEvent::Received { units: start..start + length, packet: tag });
        self.stats.bytes_received += length;
        self.start_delayed_ack_timer(now, delay);
        if !self.is_readable_reported {
            self.is_readable_reported = true;
            let id = self.id;
            self.event(out, Event::Readable { id });
        }
    }
}
