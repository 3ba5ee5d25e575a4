//! Implements the `Engine` trait: sends and receives packets, handles deadlines, and decides in which order connections
//! send.

use super::connections::ABORTED;
use super::{ConnectionEntry, Endpoint, Event, Id, Reply};
use anabranch_base::time::Instant;
use anabranch_base::trace::{TraceEvent, TraceRecord};
use anabranch_base::{Ecn, Engine, Icmp, IcmpKind, Packet, RecvBatch, SendBatch};
use bytes::{Bytes, BytesMut};
use quinn_proto::{
    ConnectionClose, ConnectionError, DatagramEvent, EcnCodepoint, Transmit, TransportErrorCode,
};
use std::net::SocketAddr;

impl Engine for Endpoint {
    type Event = Event;

    fn handle_packet(&mut self, now: Instant, packet: Packet<'_>) {
        self.take_in(now, packet.source, packet.target, packet.ecn, BytesMut::from(packet.payload));
        self.settle_touched(now);
    }

    fn handle_batch(&mut self, now: Instant, batch: &mut RecvBatch) {
        let stride = batch.stride();
        if stride == 0 {
            return;
        }
        // All datagrams of the batch are copied into one buffer, so that only one allocation is needed.
        let mut rest = BytesMut::from(batch.bytes());
        while !rest.is_empty() {
            let datagram = rest.split_to(stride.min(rest.len()));
            self.take_in(now, batch.source, batch.target, batch.ecn, datagram);
        }
        self.settle_touched(now);
    }

    fn handle_icmp(&mut self, now: Instant, icmp: &Icmp, quoted: &[u8]) {
        // RFC 9000 §14.2.1: an ICMP message is accepted only if it quotes our first packet. An attacker off the path
        // cannot know the destination connection ID of that packet. ICMP messages about established connections are
        // ignored.
        if !matches!(icmp.kind, IcmpKind::Unreachable(_) | IcmpKind::UnknownNextHeader) {
            return;
        }
        let Some(quoted) = long_destination(quoted) else { return };
        let is_quoted = |entry: &ConnectionEntry| {
            entry.first.is_some_and(|first| &first[..] == quoted)
                && entry.connection.is_handshaking()
                && entry.connection.remote_address().ip() == icmp.target
        };
        let Some((&id, _)) = self.connections.iter().find(|(_, entry)| is_quoted(entry)) else { return };
        let at = self.at(now);
        let Some(entry) = self.connections.get_mut(&id) else { return };
        let close = ConnectionClose {
            error_code: TransportErrorCode::CONNECTION_REFUSED,
            frame_type: None,
            reason: Bytes::new(),
        };
        entry.end(&mut self.events, id, Some(ConnectionError::ConnectionClosed(close)));
        entry.connection.close(at, ABORTED, Bytes::new());
        self.settle(now, id);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.clock.set(now.as_nanos());
        let at = self.at(now);
        let mut due: Vec<Id> =
            self.due.iter().take_while(|(deadline, _)| *deadline <= now).map(|(_, id)| *id).collect();
        due.sort_unstable();
        for id in due {
            if let Some(entry) = self.connections.get_mut(&id) {
                let connection = &mut entry.connection;
                self.surroundings.within(|| connection.handle_timeout(at));
            }
            self.settle(now, id);
        }
    }

    fn poll_transmit(&mut self, now: Instant, out: &mut SendBatch) -> bool {
        if let Some(reply) = self.replies.pop_front() {
            let source = self.source(reply.target);
            let source = reply.source.map_or(source, |ip| SocketAddr::new(ip, source.port()));
            (out.source, out.target, out.ecn) = (source, reply.target, reply.ecn);
            out.push(&reply.bytes);
            return true;
        }
        self.clock.set(now.as_nanos());
        self.admit(now);
        let at = self.at(now);
        let mut buffer = std::mem::take(&mut self.buffer);
        let segments = self.segments.min(out.max_segments());
        let mut sent = false;
        // Round robin: the search starts at the connection whose turn it is.
        while let Some(id) =
            self.ready.range(self.next_to_send..).next().or_else(|| self.ready.first()).copied()
        {
            let Some(entry) = self.connections.get_mut(&id) else {
                self.ready.remove(&id);
                continue;
            };
            if entry.is_held_back() {
                self.ready.remove(&id);
                continue;
            }
            let rate = entry.watch.rate();
            // quinn's pacer does not accept a rate. Therefore the connection is not polled before its next packet is
            // due. Acknowledgements are also delayed until that time.
            if rate.is_some() && entry.pacer.ready_at() > now {
                let due = entry.pacer.ready_at();
                let deadline = entry.deadline.map_or(due, |deadline| deadline.min(due));
                self.ready.remove(&id);
                self.set_deadline(id, Some(deadline));
                continue;
            }
            buffer.clear();
            let connection = &mut entry.connection;
            // While the peer's address is not validated, quinn is asked for only one packet at a time, because each
            // packet is checked against the limit on bytes.
            let most =
                if entry.unvalidated.is_some() { 1 } else { LONGEST / usize::from(connection.current_mtu()) };
            let segments = segments.min(most).max(1);
            let transmit = self.surroundings.within(|| connection.poll_transmit(at, segments, &mut buffer));
            let may_leave =
                transmit.as_ref().is_none_or(|transmit| entry.may_send(transmit.destination, transmit.size));
            let deadline = entry.connection.poll_timeout();
            if let (Some(rate), Some(transmit)) = (rate, &transmit) {
                let mtu = u64::from(entry.connection.current_mtu());
                entry.pacer.on_sent_at_rate(now, transmit.size as u64, rate, mtu);
            }
            if transmit.is_none() {
                entry.watch.trace_limit(u64::from(entry.connection.current_mtu()));
            }
            let deadline = deadline.map(|at| self.ours(at));
            self.set_deadline(id, deadline);
            let Some(transmit) = transmit else {
                self.ready.remove(&id);
                continue;
            };
            if !may_leave {
                continue;
            }
            let source = self.source(transmit.destination);
            let source = transmit.src_ip.map_or(source, |ip| SocketAddr::new(ip, source.port()));
            (out.source, out.target, out.ecn) = (source, transmit.destination, to_ecn(transmit.ecn));
            buffer.truncate(transmit.size);
            let stride = transmit.segment_size.unwrap_or(transmit.size);
            if segments == 1 {
                out.put_segments(&buffer, stride);
            } else {
                // No layer adds headers in front of these packets, so the buffer is passed on unchanged.
                out.put_train(&mut buffer, stride);
            }
            self.next_to_send = Id(id.0 + 1);
            sent = true;
            break;
        }
        self.buffer = buffer;
        sent
    }

    fn poll_event(&mut self) -> Option<Event> {
        self.events.pop_front()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.due.first().map(|(at, _)| *at)
    }

    fn has_output(&self) -> bool {
        !self.replies.is_empty() || !self.events.is_empty() || !self.ready.is_empty() || self.may_admit()
    }

    fn set_tracing(&mut self, on: bool) {
        self.trace.set(on);
    }

    fn take_trace(&mut self) -> Vec<TraceRecord> {
        self.trace.take()
    }
}

impl Endpoint {
    /// Hands a datagram to quinn. The caller settles the connection (`settle`) after all datagrams of the batch.
    fn take_in(
        &mut self,
        now: Instant,
        source: SocketAddr,
        target: SocketAddr,
        ecn: Ecn,
        datagram: BytesMut,
    ) {
        self.clock.set(now.as_nanos());
        let at = self.at(now);
        let ecn = EcnCodepoint::from_bits(ecn as u8);
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.clear();
        let bytes = datagram.len();
        let inner = &mut self.inner;
        let handled = self
            .surroundings
            .within(|| inner.handle(at, source, Some(target.ip()), ecn, datagram, &mut buffer));
        match handled {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some(&id) = self.handles.get(&handle)
                    && let Some(entry) = self.connections.get_mut(&id)
                {
                    let connection = &mut entry.connection;
                    if connection.side().is_client() && !std::mem::replace(&mut entry.has_response, true) {
                        entry.watch.note(TraceEvent::Answered);
                    }
                    let before = connection.remote_address();
                    self.surroundings.within(|| connection.handle_event(event));
                    entry.on_datagram_from(before, source, bytes);
                    if self.received_now.last() != Some(&id) {
                        self.received_now.push(id);
                    }
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                self.buffer = buffer;
                return self.accept(now, incoming, bytes);
            }
            Some(DatagramEvent::Response(transmit)) => self.reply(&transmit, &buffer),
            None => {}
        }
        self.buffer = buffer;
    }

    fn settle_touched(&mut self, now: Instant) {
        let mut received_now = std::mem::take(&mut self.received_now);
        for id in received_now.drain(..) {
            self.settle(now, id);
        }
        self.received_now = received_now;
    }

    pub(super) fn reply(&mut self, transmit: &Transmit, bytes: &[u8]) {
        if self.replies.len() < MOST_REPLIES {
            self.replies.push_back(Reply {
                source: transmit.src_ip,
                target: transmit.destination,
                ecn: to_ecn(transmit.ecn),
                bytes: bytes[..transmit.size].to_vec(),
            });
        }
    }
}

fn to_ecn(ecn: Option<EcnCodepoint>) -> Ecn {
    match ecn {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

/// Returns the destination connection ID of a packet with a long header (RFC 9000 §17.2). The packet may be truncated.
pub(crate) fn long_destination(packet: &[u8]) -> Option<&[u8]> {
    let (head, rest) = packet.split_at_checked(6)?;
    if head[0] & 0x80 == 0 {
        return None;
    }
    rest.get(..usize::from(head[5])).filter(|destination| !destination.is_empty())
}

/// The maximum number of bytes in one send call. Together with the headers of IPv6 (40 bytes) and UDP (8 bytes), a send
/// call has at most 65,535 bytes, which the kernel accepts.
const LONGEST: usize = 65_535 - 48;
/// The maximum number of replies that wait to be sent. Further replies are dropped.
const MOST_REPLIES: usize = 256;
