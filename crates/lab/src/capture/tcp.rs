//! TCP connections in a capture.
//!
//! Owns which segment belongs to which connection, told by addresses and ports
//! and, where these are used again, by a SYN with another number (RFC 9293
//! §3.6.1), and what a segment means for what is counted. A unit of a track is
//! a byte; a FIN counts as one, as RFC 9293 §3.4 has it.

use super::conversation::{Arrival, ConversationBuilder, Side, remark};
use super::frame::Carried;
use super::results::Conversation;
use super::track::{Cause, Passing, Track};
use super::{Settings, Taken};
use anabranch_wire::tcp::{Flags, Segment, Seq, is_intact};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// Sequence numbers further than this from the last are not this connection's: no window is larger (RFC 7323 §2.3).
const REACH: i64 = 1 << 30;

/// Between whom, the lower one first.
type Pair = [(IpAddr, u16); 2];

#[derive(Debug)]
struct Connection {
    conversation: ConversationBuilder,
    /// Who is A.
    initiator: (IpAddr, u16),
    /// First SYN, last SYN, last SYN ACK, and the ACK of it.
    opening: [Option<u64>; 4],
    /// After each side's last byte, once it has said so.
    fin: [Option<i64>; 2],
    /// Who closed first.
    closer: Option<Side>,
    /// What each side last acknowledged, with which window: to know a duplicate (RFC 5681 §2).
    acknowledged: [Option<(u32, u16)>; 2],
}

/// All connections of a capture.
#[derive(Debug, Default)]
pub(super) struct Connections {
    #[expect(clippy::vec_box, reason = "they are large, and go one by one as they become results")]
    all: Vec<Box<Connection>>,
    by_pair: BTreeMap<Pair, usize>,
}

impl Connections {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Takes a segment. `room`: for one connection more.
    pub fn take(&mut self, at: u64, carried: &Carried<'_>, settings: &Settings, room: bool) -> Taken {
        let bytes = &carried.payload[..];
        let Ok(segment) = Segment::parse(bytes) else { return Taken::Damaged };
        let header = &segment.header;
        let (source, target) = ((carried.source, header.source_port), (carried.target, header.target_port));
        let pair = if source <= target { [source, target] } else { [target, source] };
        let mut arrival = Arrival::new(at, 0, carried, bytes);
        arrival.intact = (!carried.cut).then(|| is_intact(bytes, carried.source, carried.target));
        arrival.data = !segment.payload.is_empty();
        let syn = header.flags.has(Flags::SYN);
        let known = self.by_pair.get(&pair).copied().filter(|&index| {
            let connection = &self.all[index];
            let side = usize::from(source != connection.initiator);
            // The same addresses and ports, another connection.
            let anew = syn
                && !header.flags.has(Flags::ACK)
                && connection.conversation.firsts[side]
                    .is_some_and(|first| first != header.seq.0.wrapping_add(1))
                && (connection.conversation.end.at_ns.is_some() || connection.opening[3].is_some());
            !anew
        });
        if known.is_none() && !room {
            // Whatever comes between these two belongs to what is not followed.
            self.by_pair.remove(&pair);
            return Taken::NotFollowed { opening: syn && !header.flags.has(Flags::ACK) };
        }
        let index = known.unwrap_or_else(|| {
            // Captured from the middle, whoever has the lower port is taken for the server.
            let by_b = if syn { header.flags.has(Flags::ACK) } else { source.1 < target.1 };
            arrival.side = usize::from(by_b);
            let (initiator, responder) = if by_b { (target, source) } else { (source, target) };
            let conversation = ConversationBuilder::new(&arrival, [initiator.1, responder.1], settings);
            self.all.push(Box::new(Connection {
                conversation,
                initiator,
                opening: [None; 4],
                fin: [None; 2],
                closer: None,
                acknowledged: [None; 2],
            }));
            self.by_pair.insert(pair, self.all.len() - 1);
            self.all.len() - 1
        });
        let connection = &mut self.all[index];
        arrival.side = usize::from(source != connection.initiator);
        if let Some(path) = connection.conversation.arrive(&arrival) {
            connection.take(&arrival, &segment, path);
        }
        Taken::Whole
    }

    /// None is drawn after all.
    pub fn forget_ladders(&mut self) {
        self.all.iter_mut().for_each(|connection| connection.conversation.forget_ladder());
    }

    /// All of them, as data.
    pub fn finish(self) -> Vec<Conversation> {
        self.all.into_iter().map(|connection| connection.conversation.finish("tcp")).collect()
    }
}

impl Connection {
    fn take(&mut self, arrival: &Arrival<'_>, segment: &Segment<'_>, path: usize) {
        let side = arrival.side;
        let header = &segment.header;
        let mut causes = Vec::new();
        if header.flags.has(Flags::SYN) {
            self.syn(arrival, header.seq, header.flags.has(Flags::ACK));
        } else if header.flags.has(Flags::ACK)
            && side == 0
            && self.opening[3].is_none()
            && let [Some(first), Some(asked), Some(answered), _] = self.opening
        {
            self.opening[3] = Some(arrival.at);
            self.conversation.handshake.took_ns = Some(arrival.at.saturating_sub(first));
            self.conversation
                .round_trip(answered.saturating_sub(asked) + arrival.at.saturating_sub(answered));
            self.conversation.end.how = "open";
        }
        if header.flags.has(Flags::ACK) {
            self.acknowledge(arrival, segment);
        }
        let fin = header.flags.has(Flags::FIN);
        if !segment.payload.is_empty() || fin {
            self.data(arrival, segment, path, &mut causes);
        }
        if header.flags.has(Flags::RST) && self.conversation.end.at_ns.is_none() {
            let refused = self.opening[0].is_some() && self.opening[3].is_none() && side == 1;
            let end = &mut self.conversation.end;
            end.how = if refused { "refused" } else { "reset" };
            (end.by, end.at_ns) = (Some(["A", "B"][side]), Some(arrival.at));
        }
        self.closed(arrival.at);
        self.conversation.carried_retransmitted(side, &causes);
        self.conversation.settle(arrival.at, side);
        self.conversation.draw(arrival, false, remark(&causes));
    }

    fn syn(&mut self, arrival: &Arrival<'_>, seq: Seq, answer: bool) {
        let side = arrival.side;
        if self.conversation.directions[side].data == 0 {
            self.conversation.firsts[side] = Some(seq.0.wrapping_add(1));
        }
        if answer {
            self.opening[2] = Some(arrival.at);
        } else if side == 0 {
            self.conversation.handshake.seen = true;
            self.conversation.handshake.attempts += 1;
            self.opening[0].get_or_insert(arrival.at);
            self.opening[1] = Some(arrival.at);
            if self.opening[3].is_none() {
                self.conversation.end.how = "incomplete";
            }
        }
    }

    fn data(
        &mut self,
        arrival: &Arrival<'_>,
        segment: &Segment<'_>,
        path: usize,
        causes: &mut Vec<(Cause, bool)>,
    ) {
        let side = arrival.side;
        let header = &segment.header;
        // Data may ride with a SYN, which comes before it.
        let seq = header.seq.0.wrapping_add(u32::from(header.flags.has(Flags::SYN)));
        let first = *self.conversation.firsts[side].get_or_insert(seq);
        let track = self.conversation.tracks.of(side);
        let start = track.unit(seq, first);
        if !track.plausible(start, REACH) {
            return;
        }
        let (length, fin) = (segment.payload.len() as i64, header.flags.has(Flags::FIN));
        // RFC 9293 §3.8.4: a probe repeats the last byte, or none.
        if !fin && length <= 1 && start + 1 == track.cumulative() {
            self.conversation.directions[side].keep_alives += 1;
            return;
        }
        let end = start + length + i64::from(fin);
        if fin {
            self.fin[side] = Some(end);
            self.closer.get_or_insert(side);
        }
        let before = track.high();
        let passing =
            self.conversation.data(arrival, path, (start, end), 0, [seq, seq.wrapping_add(length as u32)]);
        let direction = &mut self.conversation.directions[side];
        match passing {
            Passing::Retransmitted { cause, inferred, spurious } => {
                causes.push((cause, spurious));
                // What was not captured the first time is counted now; of a piece that goes on past the end, that part.
                let fresh = if inferred { length } else { (end - before).clamp(0, length) };
                direction.bytes += fresh as u64;
            }
            Passing::New | Passing::Reordered => direction.bytes += length as u64,
        }
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
            // RFC 2883 §4: below the cumulative number, or inside the next block, it is a duplicate.
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
        // RFC 5681 §2: a duplicate acknowledgement.
        let duplicate = plain && self.acknowledged[side] == Some(acknowledged) && cumulative < high;
        self.acknowledged[side] = Some(acknowledged);
        track.acknowledged(arrival.at, cumulative, blocks, duplicate);
    }

    /// RFC 9293 §3.6: closed when both have said so and both know.
    fn closed(&mut self, at: u64) {
        if self.conversation.end.at_ns.is_some() {
            return;
        }
        let cumulative = |side: Side| self.conversation.tracks.known(side).map_or(0, Track::cumulative);
        let known = |side: Side| self.fin[side].is_some_and(|fin| cumulative(side) >= fin);
        if known(0) && known(1) {
            let end = &mut self.conversation.end;
            (end.how, end.at_ns) = ("closed", Some(at));
            end.by = self.closer.map(|side| ["A", "B"][side]);
        }
    }
}
