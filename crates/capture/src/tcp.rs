//! The TCP connections in a capture.
//!
//! This module assigns segments to connections by addresses and ports. If addresses and ports are reused, a SYN with
//! another sequence number begins a new connection (RFC 9293 §3.6.1). The module also interprets the segments. In
//! `Track`, each byte takes one number, and a FIN takes one number (RFC 9293 §3.4).

use super::arrival::{Arrival, Checksum, Endpoint, Pair, Side, pair};
use super::conversation::{ConversationBuilder, remark};
use super::copies;
use super::data_class::{Cause, DataClass};
use super::frame::IpPayload;
use super::http::Http;
use super::key_log::KeyLog;
use super::reassembly::{MAX_AHEAD, Reassembly};
use super::results::Conversation;
use super::timeline::{Ack, Data, Event};
use super::tls::Session;
use super::track::Track;
use super::waiting::{Facts, WaitingQueue};
use super::{PacketOutcome, Settings};
use anabranch_wire::tcp::{Flags, Header, Segment, Seq, has_offloaded_checksum, is_intact};
use std::collections::BTreeMap;

/// The largest plausible distance of a sequence number from the last captured sequence number, in bytes. No window is
/// larger (RFC 7323 §2.3), so a more distant sequence number does not belong to the connection.
const REACH: i64 = 1 << 30;

struct Connection {
    conversation: ConversationBuilder,
    /// The endpoint that is side A.
    initiator: Endpoint,
    /// The byte offset after the FIN of each side, once the side has sent a FIN.
    fin: [Option<i64>; 2],
    /// The side that sent the first FIN.
    first_fin: Option<Side>,
    /// The acknowledgement number and window in the last segment of each side. They serve to detect duplicate
    /// acknowledgements (RFC 5681 §2).
    acknowledged: [Option<(u32, u16)>; 2],
    /// The window scale option in the SYN of each side, if the SYN was captured (RFC 7323 §2.2).
    window_scales: [Option<Option<u8>>; 2],
    /// Segments that are not processed yet.
    waiting: WaitingQueue,
    content: Content,
}

/// What is known about the bytes that a connection carries: their order, and the protocols within them.
#[derive(Default)]
struct Content {
    streams: [Reassembly; 2],
    /// Whether the first bytes of the client have been seen.
    has_begun: bool,
    tls: Option<Box<Session>>,
    http: Http,
}

impl Content {
    /// Processes the FIN of a side, which comes after its last byte.
    fn ends(&mut self, at: u64, side: Side, end: i64) {
        self.streams[side].end = Some(end);
        if self.streams[side].is_done() {
            self.http.ends(at, side);
        }
    }

    /// Processes the bytes of a segment. `start` is their position in the stream.
    fn bytes(&mut self, at: u64, side: Side, start: i64, bytes: &[u8], log: &KeyLog, room: &mut usize) {
        let Self { streams, has_begun, tls, http } = self;
        streams[side].add(start, bytes, room, |bytes| {
            if side == 0 && !std::mem::replace(has_begun, true) {
                *tls = Session::begins(bytes).map(Box::new);
            }
            match tls {
                Some(tls) => {
                    tls.bytes(at, side, bytes, log, |bytes| http.bytes(at, side, bytes));
                    if tls.has_closed[side] {
                        http.ends(at, side);
                    }
                }
                None => http.bytes(at, side, bytes),
            }
        });
    }
}

/// The maximum total size in bytes of the waiting segments of all connections.
const MAX_WAITING: usize = 64 << 20;

/// All connections of a capture.
pub(super) struct Connections {
    #[expect(clippy::vec_box, reason = "they are large, and go one by one as they become results")]
    all: Vec<Box<Connection>>,
    by_pair: BTreeMap<Pair, usize>,
    /// The total size in bytes of the waiting segments of all connections.
    waiting: usize,
    /// The number of bytes that all connections may still keep ahead of gaps in their data.
    room: usize,
}

impl Default for Connections {
    fn default() -> Self {
        Self { all: Vec::new(), by_pair: BTreeMap::new(), waiting: 0, room: MAX_AHEAD }
    }
}

impl Connections {
    /// Returns the number of connections.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Processes a segment. `room` says whether the decoder may begin to follow another connection.
    pub fn take(
        &mut self,
        at: u64,
        carried: &IpPayload<'_>,
        log: &KeyLog,
        settings: &Settings,
        room: bool,
    ) -> PacketOutcome {
        let bytes = &carried.payload[..];
        let Ok(segment) = Segment::parse(bytes) else { return PacketOutcome::Damaged };
        let header = &segment.header;
        let (source, target) = ((carried.source, header.source_port), (carried.target, header.target_port));
        let pair = pair(source, target);
        let mut arrival = Arrival::new(at, 0, carried, bytes);
        arrival.checksum = checksum(carried);
        arrival.digest = copies::digest(bytes, 16..18);
        arrival.is_data = !segment.payload.is_empty();
        arrival.is_unique = segment.sequence_len() > 0;
        let syn = header.flags.has(Flags::SYN);
        if syn && let Some(&index) = self.by_pair.get(&pair) {
            // A SYN may begin a new connection between the same endpoints. The waiting segments must be processed
            // first, because they decide whether the earlier connection was open or has ended.
            self.all[index].waiting.release();
            self.take_in_waiting(index, log);
        }
        let known = self.by_pair.get(&pair).copied().filter(|&index| {
            let connection = &self.all[index];
            let side = usize::from(source != connection.initiator);
            // Whether the SYN reuses the addresses and ports for a new connection.
            let anew = syn
                && arrival.checksum != Checksum::Wrong
                && !header.flags.has(Flags::ACK)
                && connection.conversation.firsts[side]
                    .is_some_and(|first| first != header.seq.0.wrapping_add(1))
                && (connection.conversation.end.at_ns.is_some()
                    || connection.conversation.opening[3].is_some());
            !anew
        });
        if known.is_none() && !room {
            // Later segments between these two endpoints belong to the new connection, which is not followed. Removing
            // the entry keeps them from being assigned to the earlier connection.
            self.by_pair.remove(&pair);
            return PacketOutcome::NotFollowed { opening: syn && !header.flags.has(Flags::ACK) };
        }
        let index = known.unwrap_or_else(|| {
            // If the handshake was not captured, the endpoint with the lower port is taken for the server, which is
            // side B.
            let by_b = if syn { header.flags.has(Flags::ACK) } else { source.1 < target.1 };
            arrival.side = usize::from(by_b);
            let (initiator, responder) = if by_b { (target, source) } else { (source, target) };
            let conversation = ConversationBuilder::new(&arrival, [initiator.1, responder.1], settings);
            self.all.push(Box::new(Connection {
                conversation,
                initiator,
                fin: [None; 2],
                first_fin: None,
                acknowledged: [None; 2],
                window_scales: [None; 2],
                waiting: WaitingQueue::default(),
                content: Content::default(),
            }));
            self.by_pair.insert(pair, self.all.len() - 1);
            self.all.len() - 1
        });
        arrival.side = usize::from(source != self.all[index].initiator);
        self.offer(index, &mut arrival, &segment, log);
        PacketOutcome::Counted
    }

    /// Processes a segment, or puts it in the queue of waiting segments. Then processes all segments that need not wait
    /// any longer.
    fn offer(&mut self, index: usize, arrival: &mut Arrival<'_>, segment: &Segment<'_>, log: &KeyLog) {
        let connection = &mut self.all[index];
        if connection.waiting.is_idle() && arrival.checksum != Checksum::Wrong {
            connection.waiting.note(arrival);
            connection.take(arrival, segment, log, &mut self.room);
            return;
        }
        let facts = facts(segment);
        let history = facts.data.map(|data| connection.conversation.history(arrival.side, data, REACH));
        let before = connection.waiting.bytes();
        if !connection.waiting.offer(arrival, &facts, history) {
            connection.take(arrival, segment, log, &mut self.room);
            return;
        }
        self.waiting += connection.waiting.bytes() - before;
        if self.waiting > MAX_WAITING {
            connection.waiting.release();
        }
        self.take_in_waiting(index, log);
    }

    /// Processes waiting segments from the head of the queue until a segment must continue to wait.
    fn take_in_waiting(&mut self, index: usize, log: &KeyLog) {
        while let Some(waiting) = self.all[index].waiting.next() {
            let arrival = waiting.arrival();
            self.waiting = self.waiting.saturating_sub(arrival.bytes.len());
            if let Ok(segment) = Segment::parse(arrival.bytes) {
                self.all[index].take(&arrival, &segment, log, &mut self.room);
            }
        }
    }

    /// Discards the ladder diagrams of all connections.
    pub fn forget_ladders(&mut self) {
        self.all.iter_mut().for_each(|connection| connection.conversation.forget_ladder());
    }

    /// Returns the results of all connections.
    pub fn finish(mut self, log: &KeyLog) -> Vec<Conversation> {
        for index in 0..self.all.len() {
            self.all[index].waiting.finish();
            self.take_in_waiting(index, log);
        }
        self.all.into_iter().map(|connection| connection.finish()).collect()
    }
}

/// RFC 9293 §3.1: checks a segment's checksum.
fn checksum(carried: &IpPayload<'_>) -> Checksum {
    let bytes = &carried.payload[..];
    if carried.is_cut {
        Checksum::Unknown
    } else if is_intact(bytes, carried.source, carried.target) {
        Checksum::Right
    } else if has_offloaded_checksum(bytes, carried.source, carried.target) {
        Checksum::Left
    } else {
        Checksum::Wrong
    }
}

/// Returns the sequence numbers of the data in a segment, and the sequence numbers that the segment acknowledges.
fn facts(segment: &Segment<'_>) -> Facts {
    let (header, length) = (&segment.header, segment.sequence_len());
    Facts {
        data: (length > 0).then(|| (header.seq.0, header.seq.0.wrapping_add(length))),
        cumulative: header.flags.has(Flags::ACK).then_some(header.ack.0),
        blocks: header.options.sack.as_slice().iter().map(|(start, end)| (start.0, end.0)).collect(),
    }
}

impl Connection {
    fn take(&mut self, arrival: &Arrival<'_>, segment: &Segment<'_>, log: &KeyLog, room: &mut usize) {
        let Some(path) = self.conversation.arrive(arrival) else { return };
        let side = arrival.side;
        let header = &segment.header;
        let mut causes = Vec::new();
        if header.flags.has(Flags::SYN) {
            self.window_scales[side] = Some(header.options.window_scale);
            self.syn(arrival, header.seq, header.flags.has(Flags::ACK));
        } else if header.flags.has(Flags::ACK)
            && side == 0
            && self.conversation.opening[3].is_none()
            && let [Some(first), Some(last_syn_at), Some(syn_ack_at), _] = self.conversation.opening
        {
            self.conversation.opening[3] = Some(arrival.at);
            self.conversation.handshake.took_ns = Some(arrival.at.saturating_sub(first));
            self.conversation.round_trip([last_syn_at, syn_ack_at, arrival.at]);
            self.conversation.end.how = "open";
        }
        if header.flags.has(Flags::ACK) {
            self.acknowledge(arrival, segment);
        }
        let fin = header.flags.has(Flags::FIN);
        if (!segment.payload.is_empty() || fin)
            && let Some(start) = self.data(arrival, segment, path, &mut causes)
        {
            self.content.bytes(arrival.at, side, start, segment.payload, log, room);
            for (side, event) in self.content.http.requests.flow_events() {
                self.conversation.event(side, event);
            }
            if fin {
                self.content.ends(arrival.at, side, start + segment.payload.len() as i64);
            }
        }
        if header.flags.has(Flags::RST) && self.conversation.end.at_ns.is_none() {
            let refused =
                self.conversation.opening[0].is_some() && self.conversation.opening[3].is_none() && side == 1;
            let end = &mut self.conversation.end;
            end.how = if refused { "refused" } else { "reset" };
            (end.by, end.at_ns) = (Some(["A", "B"][side]), Some(arrival.at));
        }
        self.closed(arrival.at);
        self.conversation.carried_retransmitted(side, &causes);
        self.conversation.settle(arrival.at, side);
        self.conversation.draw(arrival, |numbers, side| numbers.tcp(side, arrival.bytes), remark(&causes));
    }

    fn syn(&mut self, arrival: &Arrival<'_>, seq: Seq, answer: bool) {
        let side = arrival.side;
        self.conversation.set_first_tsn(side, seq.0.wrapping_add(1));
        self.conversation.event(side, if answer { Event::Answer } else { Event::Request });
        if answer {
            self.conversation.opening[2] = Some(arrival.at);
        } else if side == 0 {
            self.conversation.request(arrival.at);
            if self.conversation.opening[3].is_none() {
                self.conversation.end.how = "incomplete";
            }
        }
    }

    /// Classifies the data of a segment. Returns the position of its first byte in the stream.
    fn data(
        &mut self,
        arrival: &Arrival<'_>,
        segment: &Segment<'_>,
        path: usize,
        causes: &mut Vec<(Cause, bool)>,
    ) -> Option<i64> {
        let side = arrival.side;
        let header = &segment.header;
        // The data in a SYN begins one sequence number after the SYN itself.
        let seq = header.seq.0.wrapping_add(u32::from(header.flags.has(Flags::SYN)));
        let first = *self.conversation.firsts[side].get_or_insert(seq);
        let track = self.conversation.tracks.of(side);
        track.has_rack = true;
        let start = track.unit(seq, first);
        if !track.plausible(start, REACH) {
            return None;
        }
        let (length, fin) = (segment.payload.len() as i64, header.flags.has(Flags::FIN));
        // RFC 9293 §3.8.4: a keep-alive probe repeats the last byte, or has no data.
        if !fin && length <= 1 && start + 1 == track.cumulative() {
            self.conversation.directions[side].keep_alives += 1;
            return None;
        }
        let end = start + length + i64::from(fin);
        if fin {
            self.fin[side] = Some(end);
            self.first_fin.get_or_insert(side);
        }
        let before = track.high();
        if fin {
            self.conversation.event(side, Event::Close);
        }
        let class =
            self.conversation.data(arrival, path, (start, end), 0, [seq, seq.wrapping_add(length as u32)]);
        let event = Data {
            units: (start, end),
            stream: 0,
            offset: 0,
            bytes: length as u32,
            wire_len: arrival.wire_len as u32,
            flight: self.conversation.tracks.of(side).flight(),
            class,
            begins: false,
            ends: fin,
        };
        self.conversation.event(side, Event::Data(event));
        let direction = &mut self.conversation.directions[side];
        match class {
            DataClass::Retransmitted { cause, inferred, spurious } => {
                causes.push((cause, spurious));
                // A retransmission is counted as data only if its first transmission was not captured. If a
                // retransmitted segment also has new data, only the new data is counted.
                let fresh = if inferred { length } else { (end - before).clamp(0, length) };
                direction.bytes += fresh as u64;
            }
            DataClass::New | DataClass::Reordered => direction.bytes += length as u64,
        }
        Some(start)
    }

    fn finish(mut self) -> Conversation {
        let Content { streams, tls, http, .. } = self.content;
        self.conversation.security = tls.map(|tls| Box::new(tls.finish(streams.iter().any(|s| s.is_broken))));
        (self.conversation.requests, self.conversation.requests_left_out) =
            (http.requests.all, http.requests.left_out);
        self.conversation.finish("tcp")
    }

    fn acknowledge(&mut self, arrival: &Arrival<'_>, segment: &Segment<'_>) {
        let (side, peer) = (arrival.side, 1 - arrival.side);
        let header = &segment.header;
        let Some(first) = self.conversation.firsts[peer] else {
            self.conversation.firsts[peer] = Some(header.ack.0);
            return;
        };
        let direction = &mut self.conversation.directions[side];
        let track = self.conversation.tracks.of(peer);
        let cumulative = track.unit(header.ack.0, first);
        if !track.plausible(cumulative, REACH) {
            return;
        }
        let mut blocks = Vec::new();
        let high = track.high();
        for (start, end) in header.options.sack.as_slice() {
            let (start, end) = (track.unit(start.0, first), track.unit(end.0, first));
            let inside = blocks.first().is_some_and(|&(s, e): &(i64, i64)| s <= start && end <= e);
            // RFC 2883 §4: a SACK block reports a duplicate if it is below the cumulative acknowledgement or inside the
            // next block.
            if end <= cumulative && start < end {
                direction.duplicates_reported += 1;
                track.duplicate(start, end);
            } else if start < end && end <= high && !inside {
                blocks.push((start, end));
            }
        }
        if let [second, rest @ ..] = &blocks[..]
            && let Some(_) = rest.iter().find(|(s, e)| s <= &second.0 && second.1 <= *e)
        {
            direction.duplicates_reported += 1;
            track.duplicate(second.0, second.1);
        }
        direction.acks += 1;
        direction.gap_acks += u64::from(!blocks.is_empty());
        direction.most_gaps = direction.most_gaps.max(blocks.len() as u64);
        let acknowledged = (header.ack.0, header.window);
        let plain = segment.payload.is_empty() && !header.flags.has_any(Flags::SYN.with(Flags::FIN));
        // RFC 5681 §2: a duplicate acknowledgement repeats the acknowledgement number and window of the last segment.
        let duplicate = plain && self.acknowledged[side] == Some(acknowledged) && cumulative < high;
        self.acknowledged[side] = Some(acknowledged);
        let has_gaps = !blocks.is_empty();
        track.acknowledged(arrival.at, cumulative, blocks, duplicate);
        let flight = track.flight();
        // The window in a RST means nothing (RFC 9293 §3.10.7.4).
        if !header.flags.has(Flags::RST) {
            let ack = Ack { cumulative, flight, has_gaps, window: self.window(side, header) };
            self.conversation.event(side, Event::Ack(ack));
        }
        // RFC 3168 §6.1.2: in a SYN, the flag ECE asks for ECN and reports no mark.
        if header.flags.has(Flags::ECE) && !header.flags.has(Flags::SYN) {
            self.conversation.event(side, Event::MarkReport);
        }
    }

    /// RFC 7323 §2.3: returns the window in bytes, or `None` if its scale was not captured.
    fn window(&self, side: Side, header: &Header) -> Option<u64> {
        let shift = match self.window_scales {
            _ if header.window == 0 || header.flags.has(Flags::SYN) => 0,
            [Some(Some(_)), Some(Some(_))] => self.window_scales[side].flatten()?.min(14),
            [Some(_), Some(_)] => 0,
            _ => return None,
        };
        Some(u64::from(header.window) << shift)
    }

    /// RFC 9293 §3.6: marks the connection as closed when the FINs of both sides are acknowledged.
    fn closed(&mut self, at: u64) {
        if self.conversation.end.at_ns.is_some() {
            return;
        }
        let cumulative = |side: Side| self.conversation.tracks.known(side).map_or(0, Track::cumulative);
        let known = |side: Side| self.fin[side].is_some_and(|fin| cumulative(side) >= fin);
        if known(0) && known(1) {
            let end = &mut self.conversation.end;
            (end.how, end.at_ns) = ("closed", Some(at));
            end.by = self.first_fin.map(|side| ["A", "B"][side]);
        }
    }
}
