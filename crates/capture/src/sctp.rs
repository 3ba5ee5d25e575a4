//! The SCTP associations in a capture.
//!
//! This module assigns packets to associations by ports and Verification Tag, regardless of addresses (RFC 9260 §8.5).
//! If the beginning of an association was not captured, the tags identify its two directions separately. The module
//! `halves` then finds out which two directions belong together.

use super::arrival::{Arrival, Checksum, Pair, Side, pair};
use super::association::{Association, REACH, facts};
use super::conversation::ConversationBuilder;
use super::copies;
use super::frame::IpPayload;
use super::halves::{MatchEvidence, OneDirection};
use super::results::Conversation;
use super::{PacketOutcome, Settings};
use anabranch_wire::sctp::{Abort, Chunk, PacketView};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The maximum number of verification tags that are remembered, over all associations. An association has two tags, and
/// more if several INIT ACKs answered its INIT, each with a new tag.
const MAX_TAGS: usize = 1 << 19;
/// The maximum number of candidates in the search for the opposite direction of an association. The candidates are the
/// directions with the same ports.
const MAX_HALVES: usize = 64;
/// The maximum total size in bytes of the waiting packets of all associations.
const MAX_WAITING: usize = 64 << 20;

/// The key that is common to the packets that are sent to one side of an association: source port, target port,
/// Verification Tag.
type Target = (u16, u16, u32);

/// All associations of a capture.
#[derive(Debug, Default)]
pub(super) struct Associations {
    #[expect(clippy::vec_box, reason = "they are large, and go one by one as they become results")]
    all: Vec<Box<Association>>,
    by_tag: BTreeMap<Target, (usize, Side)>,
    by_pair: BTreeMap<Pair, usize>,
    /// The associations of which only one direction is known, by source port and target port of that direction.
    halves: BTreeMap<(u16, u16), Vec<usize>>,
    /// The number of associations that were merged into another one.
    merged: usize,
    /// The total size in bytes of the waiting packets of all associations.
    waiting: usize,
}

impl Associations {
    /// Returns the number of associations.
    pub fn len(&self) -> usize {
        self.all.len() - self.merged
    }

    /// Processes a packet. `udp` has the ports of the UDP datagram that carries it. `room` says whether another
    /// association can be followed.
    pub fn take(
        &mut self,
        at: u64,
        carried: &IpPayload<'_>,
        bytes: &[u8],
        udp: Option<[u16; 2]>,
        settings: &Settings,
        room: bool,
    ) -> PacketOutcome {
        let Ok(view) = PacketView::parse_unverified(bytes) else { return PacketOutcome::Damaged };
        let (source, target) = (view.header.source_port, view.header.target_port);
        let pair = pair((carried.source, source), (carried.target, target));
        let mut arrival = Arrival::new(at, 0, carried, bytes);
        // A host may send several packets with identical ABORT or ERROR chunks, so equal bytes do not prove a copy.
        arrival.is_unique = !view.chunks().framed().any(|raw| [6, 9].contains(&raw.kind));
        arrival.is_data = view.chunks().framed().any(|raw| [0, 64].contains(&raw.kind));
        arrival.digest = copies::digest(bytes, 8..12);
        let first = view.chunks().next();
        let first = first.as_ref().and_then(|chunk| chunk.as_ref().ok());
        let (index, side) = match self.find(&view, (carried.source, pair), first) {
            Some(found) => found,
            None if !room => {
                // Later packets between these two endpoints belong to the new association, which is not followed.
                // Removing the entry keeps them from being assigned to the earlier association.
                self.by_pair.remove(&pair);
                return PacketOutcome::NotFollowed { opening: matches!(first, Some(Chunk::Init(_))) };
            }
            None => self.begin(&mut arrival, [source, target], pair, first, settings),
        };
        arrival.side = side;
        let association = &mut self.all[index];
        arrival.checksum = association.checksum(side, bytes, carried.is_cut);
        if let Some([from, to]) = udp {
            association.conversation.udp_ports = Some(if side == 0 { [from, to] } else { [to, from] });
        }
        if association.known_half.as_ref().is_some_and(|half| half.0 != side) {
            self.complete(index);
        } else if association.waiting.awaits_peer && self.by_pair.len() < MAX_TAGS {
            // Later packets between these two endpoints are assigned to this association.
            self.by_pair.entry(pair).or_insert(index);
        }
        self.offer(index, &mut arrival, &view);
        self.compare(index);
        PacketOutcome::Counted
    }

    /// Creates the association to which this packet belongs. The packet is the first captured packet of the
    /// association.
    fn begin(
        &mut self,
        arrival: &mut Arrival<'_>,
        mut ports: [u16; 2],
        pair: Pair,
        first: Option<&Chunk<'_>>,
        settings: &Settings,
    ) -> (usize, Side) {
        // An INIT ACK or COOKIE ACK comes from side B. The sender of any other first packet counts as side A.
        arrival.side = usize::from(matches!(first, Some(Chunk::InitAck(_) | Chunk::CookieAck(_))));
        let half = (ports[0], ports[1]);
        ports.rotate_left(arrival.side);
        let conversation = ConversationBuilder::new(arrival, ports, settings);
        let replaces = self.by_pair.insert(pair, self.all.len()).map(|index| self.resolve(index));
        if let Some(old) = replaces {
            self.release(old);
        }
        let index = self.all.len();
        let mut association = Box::new(Association::new(conversation, replaces));
        let is_middle = !matches!(
            first,
            None | Some(Chunk::Init(_) | Chunk::InitAck(_) | Chunk::Abort(_) | Chunk::ShutdownComplete(_))
        );
        let known = self.halves.entry(half).or_default();
        if is_middle && known.len() < MAX_HALVES {
            association.known_half = Some(Box::new((arrival.side, OneDirection::default())));
            association.waiting.awaits_peer = true;
            known.push(index);
        }
        self.all.push(association);
        (index, arrival.side)
    }

    /// Processes a packet, or puts it in the queue of waiting packets. Then processes all packets that need not wait
    /// any longer.
    fn offer(&mut self, index: usize, arrival: &mut Arrival<'_>, view: &PacketView<'_>) {
        let association = &mut self.all[index];
        let is_known = association.known_half.is_none() && association.waiting.is_idle();
        if is_known && arrival.checksum != Checksum::Wrong {
            association.waiting.note(arrival);
            self.take_in(index, arrival, view);
            return;
        }
        let facts = facts(view);
        if let Some(half) = &mut association.known_half {
            half.1.add(arrival.source, arrival.target, view, &facts);
        }
        let history = facts.data.map(|data| association.conversation.history(arrival.side, data, REACH));
        let before = association.waiting.bytes();
        let waits = association.waiting.offer(arrival, &facts, history);
        if !waits {
            self.take_in(index, arrival, view);
            return;
        }
        self.waiting += association.waiting.bytes() - before.min(association.waiting.bytes());
        association.learn(arrival.side, view);
        self.remember_tags(index);
        if self.waiting > MAX_WAITING {
            self.all[index].waiting.release();
        }
        self.take_in_waiting(index);
    }

    /// Processes waiting packets from the head of the queue until a packet must continue to wait.
    fn take_in_waiting(&mut self, index: usize) {
        while let Some(waiting) = self.all[index].waiting.next() {
            let arrival = waiting.arrival();
            self.waiting = self.waiting.saturating_sub(arrival.bytes.len());
            if let Ok(view) = PacketView::parse_unverified(arrival.bytes) {
                self.take_in(index, &arrival, &view);
            }
        }
    }

    fn take_in(&mut self, index: usize, arrival: &Arrival<'_>, view: &PacketView<'_>) {
        let association = &mut self.all[index];
        let Some(path) = association.conversation.arrive(arrival) else { return };
        let tags = association.take(arrival, view, path);
        let replaced = association.conversation.handshake.took_ns.and_then(|_| association.replaces.take());
        self.learn(index, tags);
        if let Some(old) =
            replaced.map(|old| &mut self.all[old].conversation.end).filter(|end| end.at_ns.is_none())
        {
            (old.how, old.at_ns) = ("restarted", Some(arrival.at));
        }
    }

    /// Assigns all later packets whose Verification Tag is in `tags` to the association with this index.
    fn learn(&mut self, index: usize, tags: [Option<u32>; 2]) {
        let ports = self.all[index].conversation.ports;
        for (owner, tag) in tags.into_iter().enumerate() {
            if let Some(tag) = tag.filter(|_| self.by_tag.len() < MAX_TAGS) {
                // `owner` is the side that chose the tag. Packets with this tag go to `owner`, so their source port is
                // that of the other side.
                self.by_tag.insert((ports[1 - owner], ports[owner], tag), (index, 1 - owner));
            }
        }
    }

    fn remember_tags(&mut self, index: usize) {
        self.learn(index, self.all[index].conversation.tags);
    }

    /// Returns the index of the association to which a packet belongs, and the side that sent the packet.
    fn find(
        &self,
        view: &PacketView<'_>,
        (address, pair): (IpAddr, Pair),
        first: Option<&Chunk<'_>>,
    ) -> Option<(usize, Side)> {
        let (source, target, tag) = (view.header.source_port, view.header.target_port, view.header.tag);
        let neighbour = self.by_pair.get(&pair).map(|index| self.resolve(*index));
        let side_of = |index: usize| (index, self.side_of(index, source, address));
        match first {
            // RFC 9260 §8.5.1 A: the common header of an INIT has tag 0, so the Initiate Tag in the chunk identifies
            // the association.
            Some(Chunk::Init(init)) => {
                let known = self.by_tag.get(&(target, source, init.tag));
                // If the association with this tag has ended, the INIT begins another association.
                let known = known.filter(|(index, _)| self.all[*index].conversation.end.at_ns.is_none());
                if let Some(&(index, to)) = known {
                    return Some((index, 1 - to));
                }
                // RFC 9260 §5.2.1: both sides may send an INIT at the same time. The second INIT belongs to the same
                // association.
                let (index, side) = side_of(neighbour?);
                let association = &self.all[index];
                let met = association.conversation.opening[2].is_none()
                    && association.conversation.opening[0].is_some()
                    && side == 1
                    && association.conversation.tags[1].is_none();
                return met.then_some((index, side));
            }
            // RFC 9260 §8.5.1 B, C: ABORT and SHUTDOWN COMPLETE may carry the tag that their sender chose.
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
        // If the handshake was not captured, the first packet to a side reveals the side's tag. The packet is assigned
        // to the latest association of its addresses and ports, if that association does not know the tag yet.
        let (index, side) = side_of(neighbour?);
        self.all[index].conversation.tags[1 - side].is_none().then_some((index, side))
    }

    /// Returns the side that sends from this port and address.
    fn side_of(&self, index: usize, port: u16, address: IpAddr) -> Side {
        let association = &self.all[index];
        let conversation = &association.conversation;
        if conversation.ports[0] != conversation.ports[1] {
            return usize::from(port != conversation.ports[0]);
        }
        match [0, 1].map(|side: Side| conversation.addresses[side].contains(&address)) {
            [true, false] => 0,
            [false, true] => 1,
            // The addresses do not identify the sender, and the packet has none of the known tags. If the tag of only
            // one direction is known, the packet therefore belongs to the opposite direction.
            _ => association.known_half.as_ref().map_or(1, |half| 1 - half.0),
        }
    }

    /// Returns the index of the association into which this association was merged, directly or indirectly. Returns
    /// `index` if it was not merged.
    fn resolve(&self, mut index: usize) -> usize {
        while let Some(into) = self.all[index].merged {
            index = into;
        }
        index
    }

    /// Records that both directions of an association are known, so that its packets no longer wait for the other
    /// direction.
    fn complete(&mut self, index: usize) {
        let association = &mut self.all[index];
        let Some(half) = association.known_half.take() else { return };
        association.waiting.awaits_peer = false;
        let mut ports = association.conversation.ports;
        ports.rotate_left(half.0);
        if let Some(known) = self.halves.get_mut(&(ports[0], ports[1])) {
            known.retain(|other| *other != index);
        }
        self.take_in_waiting(index);
    }

    /// Searches for the opposite direction of an association of which only one direction is known. If it is found,
    /// merges the two directions.
    fn compare(&mut self, index: usize) {
        if let Some((_, other)) = self.peer(index).filter(|(fit, _)| *fit > MatchEvidence::Address) {
            self.merge(index, other);
        }
    }

    /// Returns the index of the association that is most likely the opposite direction of association `index`, and the
    /// evidence. Returns `None` if none matches, or if several match equally well.
    fn peer(&self, index: usize) -> Option<(MatchEvidence, usize)> {
        let association = &self.all[index];
        let half = association.known_half.as_ref()?;
        let mut ports = association.conversation.ports;
        ports.rotate_left(half.0);
        let others = self.halves.get(&(ports[1], ports[0]))?.iter().filter(|other| **other != index);
        let fit = |other: &usize| Some((half.1.fit(&self.all[*other].known_half.as_ref()?.1)?, *other));
        let fits: Vec<(MatchEvidence, usize)> = others.filter_map(fit).collect();
        let best = fits.iter().map(|(fit, _)| *fit).max()?;
        let mut found = fits.into_iter().filter(|(fit, _)| *fit == best);
        found.next().filter(|_| found.next().is_none())
    }

    /// Merges two associations that turned out to be the two directions of one association.
    fn merge(&mut self, one: usize, other: usize) {
        // Keeps the association that has already processed packets. If neither has, keeps the earlier association.
        let is_begun = |index: usize| !self.all[index].waiting.awaits_peer;
        let (into, from) =
            if is_begun(other) && !is_begun(one) || other < one && is_begun(one) == is_begun(other) {
                (other, one)
            } else {
                (one, other)
            };
        if is_begun(from) {
            return;
        }
        let Some(sender) = self.all[into].known_half.as_ref().map(|half| half.0) else { return };
        let Some(other_sender) = self.all[from].known_half.as_ref().map(|half| half.0) else { return };
        let packets: Vec<_> = self.all[from].waiting.take().collect();
        let (tag, mut udp_ports) =
            (self.all[from].conversation.tags[1 - other_sender], self.all[from].conversation.udp_ports);
        self.all[from].merged = Some(into);
        self.merged += 1;
        self.complete(from);
        let conversation = &mut self.all[into].conversation;
        conversation.tags[sender] = tag;
        if other_sender == sender {
            udp_ports = udp_ports.map(|[a, b]| [b, a]);
        }
        conversation.udp_ports = conversation.udp_ports.or(udp_ports);
        self.remember_tags(into);
        let mut all: Vec<_> = self.all[into].waiting.take().map(|packet| (packet, sender)).collect();
        all.extend(packets.into_iter().map(|packet| (packet, 1 - sender)));
        all.sort_by_key(|(packet, _)| packet.at());
        self.complete(into);
        for (packet, side) in &all {
            let mut arrival = packet.arrival();
            arrival.side = *side;
            self.waiting = self.waiting.saturating_sub(arrival.bytes.len());
            if let Ok(view) = PacketView::parse_unverified(arrival.bytes) {
                self.offer(into, &mut arrival, &view);
            }
        }
    }

    /// Processes all waiting packets of this association.
    fn release(&mut self, index: usize) {
        self.all[index].waiting.release();
        self.take_in_waiting(index);
    }

    /// Discards the ladder diagrams of all associations.
    pub fn forget_ladders(&mut self) {
        self.all.iter_mut().for_each(|association| association.conversation.forget_ladder());
    }

    /// Returns the results of all associations.
    pub fn finish(mut self) -> Vec<Conversation> {
        for index in 0..self.all.len() {
            // Two directions that have only an address in common are merged into one association under two conditions.
            // Their two ports must differ, and each direction must be the best match for the other.
            let [one, other] = self.all[index].conversation.ports;
            let fits = |index: usize| self.peer(index).map(|(_, other)| other);
            if let Some(peer) = fits(index).filter(|peer| one != other && fits(*peer) == Some(index)) {
                self.merge(index, peer);
            }
        }
        for index in 0..self.all.len() {
            self.all[index].waiting.finish();
            self.take_in_waiting(index);
        }
        let all = self.all.into_iter().filter(|association| association.merged.is_none());
        all.map(|association| association.finish()).collect()
    }
}
