//! SCTP associations in a capture.
//!
//! Owns which packet belongs to which association, told by ports and
//! Verification Tag, whatever addresses it goes between (RFC 9260 §8.5), and
//! what its chunks mean for what is counted.

use super::conversation::{Arrival, ConversationBuilder, Side, remark};
use super::frame::Carried;
use super::results::Conversation;
use super::track::{Cause, Passing};
use super::{Settings, Taken};
use anabranch_wire::sctp::{
    Abort, Chunk, GapBlock, Init, InitAck, PacketView, SackView, Tsn, crc32c, packet,
};
use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// TSNs further than this from the last are not this association's.
const REACH: i64 = 1 << 20;
/// Heartbeats that wait for their answer.
const MAX_HEARTBEATS: usize = 256;

/// Payload protocol identifiers told apart in each direction of an association.
const MAX_PPIDS: usize = 16;

/// Tags remembered of all associations: each has two, and a few more when handshakes are retransmitted.
const MAX_TAGS: usize = 1 << 19;

/// Who packets with a tag are for: source port, target port, tag.
type Target = (u16, u16, u32);
/// Between whom, the lower one first.
type Pair = [(IpAddr, u16); 2];

#[derive(Debug)]
struct Association {
    conversation: ConversationBuilder,
    /// First INIT, last INIT, INIT ACK, COOKIE ECHO.
    opening: [Option<u64>; 4],
    /// Who sent SHUTDOWN, first.
    leaver: Option<Side>,
    /// Heartbeats by what they say: when, and on which path.
    heartbeats: BTreeMap<(Side, u64), (u64, usize)>,
    /// The one between the same two, whose end this one's beginning is (RFC 9260 §5.2.4 A).
    replaces: Option<usize>,
}

/// All associations of a capture.
#[derive(Debug, Default)]
pub(super) struct Associations {
    #[expect(clippy::vec_box, reason = "they are large, and go one by one as they become results")]
    all: Vec<Box<Association>>,
    by_tag: BTreeMap<Target, (usize, Side)>,
    by_pair: BTreeMap<Pair, usize>,
}

impl Associations {
    /// How many there are.
    pub fn len(&self) -> usize {
        self.all.len()
    }

    /// Takes a packet. `udp`: the ports of the datagram it came in. `room`: for one association more.
    pub fn take(
        &mut self,
        at: u64,
        carried: &Carried<'_>,
        bytes: &[u8],
        udp: Option<[u16; 2]>,
        settings: &Settings,
        room: bool,
    ) -> Taken {
        let Ok(view) = PacketView::parse_unverified(bytes) else { return Taken::Damaged };
        let (source, target) = (view.header.source_port, view.header.target_port);
        let pair = pair((carried.source, source), (carried.target, target));
        let mut arrival = Arrival::new(at, 0, carried, bytes);
        let zero = packet::has_zero_checksum(bytes);
        arrival.intact = (!carried.cut && !zero).then(|| crc32c::is_valid(bytes));
        let first = view.chunks().next();
        arrival.data = matches!(first, Some(Ok(Chunk::Data(_) | Chunk::IData(_))));
        let found =
            self.find(&view, (carried.source, pair), first.as_ref().and_then(|chunk| chunk.as_ref().ok()));
        let (index, side) = match found {
            Some(found) => found,
            None if !room => {
                // Whatever comes between these two belongs to what is not followed.
                self.by_pair.remove(&pair);
                return Taken::NotFollowed { opening: matches!(first, Some(Ok(Chunk::Init(_)))) };
            }
            None => {
                // What answers nothing and starts nothing is a stray of its own: a conversation of one packet.
                let is_answer = matches!(first, Some(Ok(Chunk::InitAck(_) | Chunk::CookieAck(_))));
                arrival.side = usize::from(is_answer);
                let mut ports = [source, target];
                ports.rotate_left(arrival.side);
                let conversation = ConversationBuilder::new(&arrival, ports, settings);
                let replaces = self.by_pair.insert(pair, self.all.len());
                let (opening, leaver, heartbeats) = ([None; 4], None, BTreeMap::new());
                self.all.push(Box::new(Association { conversation, opening, leaver, heartbeats, replaces }));
                (self.all.len() - 1, arrival.side)
            }
        };
        arrival.side = side;
        let association = &mut self.all[index];
        if let Some([from, to]) = udp {
            association.conversation.udp_ports = Some(if side == 0 { [from, to] } else { [to, from] });
        }
        let Some(path) = association.conversation.arrive(&arrival) else { return Taken::Whole };
        let tags = association.take(&arrival, &view, path);
        let replaced = association.conversation.handshake.took_ns.and_then(|_| association.replaces.take());
        let ports = association.conversation.ports;
        for (owner, tag) in tags.into_iter().enumerate() {
            if let Some(tag) = tag.filter(|_| self.by_tag.len() < MAX_TAGS) {
                // Packets with this tag are for its owner: they come from the other port.
                self.by_tag.insert((ports[1 - owner], ports[owner], tag), (index, 1 - owner));
            }
        }
        if let Some(old) =
            replaced.map(|old| &mut self.all[old].conversation.end).filter(|end| end.at_ns.is_none())
        {
            (old.how, old.at_ns) = ("restarted", Some(at));
        }
        Taken::Whole
    }

    /// The association of a packet, and who sent it.
    fn find(
        &self,
        view: &PacketView<'_>,
        (address, pair): (IpAddr, Pair),
        first: Option<&Chunk<'_>>,
    ) -> Option<(usize, Side)> {
        let (source, target, tag) = (view.header.source_port, view.header.target_port, view.header.tag);
        let neighbour = self.by_pair.get(&pair).copied();
        let side_of = |index: usize| {
            let conversation = &self.all[index].conversation;
            let is_b = if conversation.ports[0] != conversation.ports[1] {
                source != conversation.ports[0]
            } else {
                !conversation.addresses[0].contains(&address)
            };
            (index, usize::from(is_b))
        };
        match first {
            // RFC 9260 §8.5.1 A: an INIT has tag 0; it is known by the tag it announces.
            Some(Chunk::Init(init)) => {
                let known = self.by_tag.get(&(target, source, init.tag));
                // One that is over does not begin again.
                let known = known.filter(|(index, _)| self.all[*index].conversation.end.at_ns.is_none());
                if let Some(&(index, to)) = known {
                    return Some((index, 1 - to));
                }
                // RFC 9260 §5.2.1: both sides may begin at once.
                let (index, side) = side_of(neighbour?);
                let association = &self.all[index];
                let met = association.opening[2].is_none()
                    && association.opening[0].is_some()
                    && side == 1
                    && association.conversation.tags[1].is_none();
                return met.then_some((index, side));
            }
            // RFC 9260 §8.5.1 B, C: these may carry the tag of whoever sent them.
            Some(Chunk::Abort(Abort { reflected: true, .. }) | Chunk::ShutdownComplete(_)) => {
                if let Some(&(index, from)) = self.by_tag.get(&(target, source, tag)) {
                    return Some((index, 1 - from));
                }
            }
            _ => {}
        }
        if let Some(&(index, side)) = self.by_tag.get(&(source, target, tag)) {
            return Some((index, side));
        }
        // Captured from the middle: the tag of one side is learnt from what is sent to it.
        let (index, side) = side_of(neighbour?);
        self.all[index].conversation.tags[1 - side].is_none().then_some((index, side))
    }

    /// None is drawn after all.
    pub fn forget_ladders(&mut self) {
        self.all.iter_mut().for_each(|association| association.conversation.forget_ladder());
    }

    /// All of them, as data.
    pub fn finish(self) -> Vec<Conversation> {
        self.all.into_iter().map(|association| association.conversation.finish("sctp")).collect()
    }
}

fn pair(a: (IpAddr, u16), b: (IpAddr, u16)) -> Pair {
    if a <= b { [a, b] } else { [b, a] }
}

impl Association {
    /// Takes a packet in; tags that it taught, by owner.
    fn take(&mut self, arrival: &Arrival<'_>, view: &PacketView<'_>, path: usize) -> [Option<u32>; 2] {
        let side = arrival.side;
        let mut learnt = [None; 2];
        let mut causes = Vec::new();
        let mut aside = false;
        for chunk in view.chunks().filter_map(Result::ok) {
            *self.conversation.directions[side].chunks.entry(chunk.name()).or_default() += 1;
            match chunk {
                Chunk::Init(init) => {
                    aside = true;
                    learnt[side] = Some(init.tag);
                    self.init(arrival, &init);
                }
                Chunk::InitAck(InitAck(init)) => {
                    learnt[side] = Some(init.tag);
                    self.init_ack(arrival, &init);
                }
                Chunk::CookieEcho(_) => self.cookie_echo(arrival),
                Chunk::CookieAck(_) => self.cookie_ack(arrival),
                Chunk::Data(data) => {
                    let message = data.end.then_some(data.unordered);
                    let ppid = data.begin.then_some(data.ppid);
                    let carried = (message, ppid, data.payload.len());
                    self.data(arrival, path, data.tsn, data.stream, carried, &mut causes);
                }
                Chunk::IData(data) => {
                    let message = data.end.then_some(data.unordered);
                    let ppid = data.begin.then_some(data.ppid);
                    let carried = (message, ppid, data.payload.len());
                    self.data(arrival, path, data.tsn, data.stream, carried, &mut causes);
                }
                Chunk::Sack(sack) => self.sack(arrival, &sack, sack.gaps()),
                Chunk::NrSack(nr) => self.sack(arrival, &nr.sack, nr.all_gaps()),
                Chunk::Shutdown(shutdown) => {
                    self.leaver.get_or_insert(side);
                    self.cumulative(arrival, shutdown.cumulative);
                }
                Chunk::ShutdownComplete(_) => {
                    self.ended(arrival, "shutdown", self.leaver, None);
                }
                Chunk::Abort(abort) => {
                    aside = true;
                    let how = if self.opening[3].is_none() && self.opening[0].is_some() {
                        "refused"
                    } else {
                        "abort"
                    };
                    let reason =
                        abort.causes.into_iter().filter_map(Result::ok).next().map(|c| c.to_string());
                    self.ended(arrival, how, Some(side), reason);
                }
                Chunk::Heartbeat(beat) => {
                    self.conversation.on_path(path, side).heartbeats[0] += 1;
                    if self.heartbeats.len() < MAX_HEARTBEATS {
                        self.heartbeats.insert((side, digest(beat.info)), (arrival.at, path));
                    }
                }
                Chunk::HeartbeatAck(answer) => {
                    let beat = self.heartbeats.remove(&(1 - side, digest(answer.info)));
                    if let Some((at, path)) = beat {
                        let on = self.conversation.on_path(path, 1 - side);
                        on.heartbeats[1] += 1;
                        on.rtt.add(arrival.at.saturating_sub(at));
                    }
                }
                _ => {}
            }
        }
        // What an ordinary packet carries is the tag of whom it is for.
        let tag = view.header.tag;
        if !aside && tag != 0 && self.conversation.tags[1 - side].is_none() {
            self.conversation.tags[1 - side] = Some(tag);
            learnt[1 - side] = Some(tag);
        }
        self.conversation.carried_retransmitted(side, &causes);
        self.conversation.settle(arrival.at, side);
        self.conversation.draw(arrival, true, remark(&causes));
        learnt
    }

    fn init(&mut self, arrival: &Arrival<'_>, init: &Init<'_>) {
        self.conversation.tags[arrival.side] = Some(init.tag);
        if arrival.side == 0 {
            self.conversation.handshake.seen = true;
            self.conversation.handshake.attempts += 1;
            self.opening[0].get_or_insert(arrival.at);
            self.opening[1] = Some(arrival.at);
        }
        self.begins(arrival.side, init.tsn);
        if self.conversation.end.how == "open" {
            self.conversation.end.how = "incomplete";
        }
    }

    fn init_ack(&mut self, arrival: &Arrival<'_>, init: &Init<'_>) {
        self.conversation.tags[arrival.side] = Some(init.tag);
        self.begins(arrival.side, init.tsn);
        self.opening[2] = Some(arrival.at);
    }

    /// TSNs of this side begin here, unless data has told already.
    fn begins(&mut self, side: Side, tsn: Tsn) {
        let idle = self.conversation.directions[side].data == 0;
        if idle {
            self.conversation.firsts[side] = Some(tsn.0);
        }
    }

    fn cookie_echo(&mut self, arrival: &Arrival<'_>) {
        if self.opening[3].is_none()
            && let [_, Some(asked), Some(answered), _] = self.opening
        {
            // Before the capture's point and behind it: together the whole round trip.
            self.conversation
                .round_trip(answered.saturating_sub(asked) + arrival.at.saturating_sub(answered));
        }
        self.opening[3].get_or_insert(arrival.at);
    }

    fn cookie_ack(&mut self, arrival: &Arrival<'_>) {
        if let Some(began) = self.opening[0] {
            self.conversation.handshake.took_ns.get_or_insert(arrival.at.saturating_sub(began));
        }
        self.open();
    }

    /// Data is acknowledged, or the cookie: there is an association.
    fn open(&mut self) {
        if self.conversation.end.how == "incomplete" {
            self.conversation.end.how = "open";
        }
    }

    /// DATA or I-DATA, by what both have. `carried`: whether a message ends here, and if so whether it is unordered; the
    /// identifier of a message that begins here; bytes.
    fn data(
        &mut self,
        arrival: &Arrival<'_>,
        path: usize,
        tsn: Tsn,
        stream: u16,
        carried: (Option<bool>, Option<u32>, usize),
        causes: &mut Vec<(Cause, bool)>,
    ) {
        let (side, (message, ppid, length)) = (arrival.side, carried);
        let first = *self.conversation.firsts[side].get_or_insert(tsn.0);
        let track = self.conversation.tracks.of(side);
        let unit = track.unit(tsn.0, first);
        if !track.plausible(unit, REACH) {
            return;
        }
        self.conversation.stream(side, stream, tsn.0);
        let passing = self.conversation.data(arrival, path, (unit, unit + 1), stream, [tsn.0, tsn.0]);
        if let Passing::Retransmitted { cause, spurious, .. } = passing {
            causes.push((cause, spurious));
        }
        if matches!(passing, Passing::Retransmitted { inferred: false, .. }) {
            return;
        }
        let counted = self.conversation.stream(side, stream, tsn.0);
        counted.chunks += 1;
        counted.bytes += length as u64;
        counted.messages += u64::from(message.is_some());
        counted.unordered += u64::from(message == Some(true));
        if tsn.after(Tsn(counted.tsns[1])) {
            counted.tsns[1] = tsn.0;
        }
        let direction = &mut self.conversation.directions[side];
        direction.bytes += length as u64;
        direction.messages += u64::from(message.is_some());
        let room = direction.ppids.len() < MAX_PPIDS;
        if let Some(ppid) = ppid.filter(|ppid| room || direction.ppids.contains_key(ppid)) {
            *direction.ppids.entry(ppid).or_default() += 1;
        }
    }

    fn sack(&mut self, arrival: &Arrival<'_>, sack: &SackView<'_>, gaps: impl Iterator<Item = GapBlock>) {
        let gaps: Vec<GapBlock> = gaps.collect();
        let (side, peer) = (arrival.side, 1 - arrival.side);
        self.open();
        let direction = &mut self.conversation.directions[side];
        direction.acks += 1;
        direction.gap_acks += u64::from(!gaps.is_empty());
        direction.most_gaps = direction.most_gaps.max(gaps.len() as u64);
        direction.duplicates_reported += sack.duplicates().len() as u64;
        let first = *self.conversation.firsts[peer].get_or_insert(sack.cumulative.0.wrapping_add(1));
        let track = self.conversation.tracks.of(peer);
        let cumulative = track.unit(sack.cumulative.0, first) + 1;
        if !track.plausible(cumulative, REACH) {
            return;
        }
        // Offsets count from the cumulative TSN, the last unit of what has arrived. Nonsense is not gone through.
        let block = |start: u16, end: u16| (cumulative - 1 + i64::from(start), cumulative + i64::from(end));
        let high = track.high();
        let blocks: Vec<(i64, i64)> = gaps
            .iter()
            .map(|gap| block(gap.start, gap.end))
            .filter(|(start, end)| start < end && *end <= high)
            .collect();
        track.acknowledged(arrival.at, cumulative, blocks, false);
        for tsn in sack.duplicates() {
            let unit = track.unit(tsn.0, first);
            track.duplicate(unit, unit + 1);
        }
    }

    /// SHUTDOWN acknowledges, too.
    fn cumulative(&mut self, arrival: &Arrival<'_>, cumulative: Tsn) {
        let peer = 1 - arrival.side;
        let Some(first) = self.conversation.firsts[peer] else { return };
        let track = self.conversation.tracks.of(peer);
        let unit = track.unit(cumulative.0, first) + 1;
        if unit <= track.high() {
            let unit = unit.max(track.cumulative());
            track.acknowledged(arrival.at, unit, Vec::new(), false);
        }
    }

    fn ended(&mut self, arrival: &Arrival<'_>, how: &'static str, by: Option<Side>, reason: Option<String>) {
        if self.conversation.end.at_ns.is_some() {
            return;
        }
        let end = &mut self.conversation.end;
        (end.how, end.reason, end.at_ns) = (how, reason, Some(arrival.at));
        end.by = by.map(|side| ["A", "B"][side]);
    }
}

fn digest(info: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    info.hash(&mut hasher);
    hasher.finish()
}
