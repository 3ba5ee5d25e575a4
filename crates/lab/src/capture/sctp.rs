//! The SCTP associations in a capture.
//!
//! This module assigns packets to associations by ports and Verification Tag, regardless of addresses (RFC 9260 §8.5).
//! If the beginning of an association was not captured, each direction is identified by its own tag. `halves` finds out
//! which two directions belong together.

use super::arrival::{Arrival, Checksum, Side};
use super::association::{Association, facts};
use super::conversation::ConversationBuilder;
use super::copies;
use super::frame::Carried;
use super::halves::{Fit, Half};
use super::results::Conversation;
use super::{Settings, Taken};
use anabranch_wire::sctp::{Abort, Chunk, PacketView};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The most tags remembered for all associations. Each association has two, and more if handshakes are retransmitted.
const MAX_TAGS: usize = 1 << 19;
/// The most single directions between two ports that are compared with each other.
const MAX_HALVES: usize = 64;
/// The most bytes of all waiting packets.
const MAX_WAITING: usize = 64 << 20;

/// The receiver of packets with a tag: source port, target port, tag.
type Target = (u16, u16, u32);
/// Two endpoints, the lower one first.
type Pair = [(IpAddr, u16); 2];

/// All associations of a capture.
#[derive(Debug, Default)]
pub(super) struct Associations {
    #[expect(clippy::vec_box, reason = "they are large, and go one by one as they become results")]
    all: Vec<Box<Association>>,
    by_tag: BTreeMap<Target, (usize, Side)>,
    by_pair: BTreeMap<Pair, usize>,
    /// Single directions by their ports.
    halves: BTreeMap<(u16, u16), Vec<usize>>,
    /// The number of directions that became part of another association.
    merged: usize,
    /// The bytes of all waiting packets.
    waiting: usize,
}

impl Associations {
    /// Returns the number of associations.
    pub fn len(&self) -> usize {
        self.all.len() - self.merged
    }

    /// Processes a packet. `udp`: the ports of its datagram. `room`: whether another association can be followed.
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
        // A host may send identical ABORTs or ERRORs as answers to several packets.
        arrival.is_unique = !view.chunks().framed().any(|raw| [6, 9].contains(&raw.kind));
        arrival.is_data = view.chunks().framed().any(|raw| [0, 64].contains(&raw.kind));
        arrival.digest = copies::digest(bytes, 8..12);
        let first = view.chunks().next();
        let first = first.as_ref().and_then(|chunk| chunk.as_ref().ok());
        let (index, side) = match self.find(&view, (carried.source, pair), first) {
            Some(found) => found,
            None if !room => {
                // Later packets between these two belong to the association that is not followed.
                self.by_pair.remove(&pair);
                return Taken::NotFollowed { opening: matches!(first, Some(Chunk::Init(_))) };
            }
            None => self.begin(&mut arrival, [source, target], pair, first, settings),
        };
        arrival.side = side;
        let association = &mut self.all[index];
        arrival.checksum = association.checksum(side, bytes, carried.cut);
        if let Some([from, to]) = udp {
            association.conversation.udp_ports = Some(if side == 0 { [from, to] } else { [to, from] });
        }
        if association.half.as_ref().is_some_and(|half| half.0 != side) {
            self.complete(index);
        } else if association.waiting.awaits_peer && self.by_pair.len() < MAX_TAGS {
            // Every pair of addresses leads to the association.
            self.by_pair.entry(pair).or_insert(index);
        }
        self.offer(index, &mut arrival, &view);
        self.compare(index);
        Taken::Whole
    }

    /// Makes a new association with its first packet.
    fn begin(
        &mut self,
        arrival: &mut Arrival<'_>,
        mut ports: [u16; 2],
        pair: Pair,
        first: Option<&Chunk<'_>>,
        settings: &Settings,
    ) -> (usize, Side) {
        // A packet that neither answers nor starts anything becomes a conversation of one packet.
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
            association.half = Some(Box::new((arrival.side, Half::default())));
            association.waiting.awaits_peer = true;
            known.push(index);
        }
        self.all.push(association);
        (index, arrival.side)
    }

    /// Processes a packet or lets it wait, and processes waiting packets that can continue.
    fn offer(&mut self, index: usize, arrival: &mut Arrival<'_>, view: &PacketView<'_>) {
        let association = &mut self.all[index];
        let is_known = association.half.is_none() && association.waiting.is_idle();
        if is_known && arrival.checksum != Checksum::Wrong {
            association.waiting.note(arrival);
            self.take_in(index, arrival, view);
            return;
        }
        let facts = facts(view);
        if let Some(half) = &mut association.half {
            half.1.add(arrival.source, arrival.target, view, &facts);
        }
        let history = facts.data.map(|data| association.history(arrival.side, data));
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

    /// Processes waiting packets that can continue.
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

    /// Assigns packets with these tags to this association.
    fn learn(&mut self, index: usize, tags: [Option<u32>; 2]) {
        let ports = self.all[index].conversation.ports;
        for (owner, tag) in tags.into_iter().enumerate() {
            if let Some(tag) = tag.filter(|_| self.by_tag.len() < MAX_TAGS) {
                // A packet with this tag is sent to the tag's owner, so it comes from the other port.
                self.by_tag.insert((ports[1 - owner], ports[owner], tag), (index, 1 - owner));
            }
        }
    }

    fn remember_tags(&mut self, index: usize) {
        self.learn(index, self.all[index].conversation.tags);
    }

    /// Returns the association of a packet and its sender.
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
            // RFC 9260 §8.5.1 A: an INIT has tag 0 and is identified by the tag that it announces.
            Some(Chunk::Init(init)) => {
                let known = self.by_tag.get(&(target, source, init.tag));
                // An association that has ended does not begin again.
                let known = known.filter(|(index, _)| self.all[*index].conversation.end.at_ns.is_none());
                if let Some(&(index, to)) = known {
                    return Some((index, 1 - to));
                }
                // RFC 9260 §5.2.1: both sides may begin at the same time.
                let (index, side) = side_of(neighbour?);
                let association = &self.all[index];
                let met = association.opening[2].is_none()
                    && association.opening[0].is_some()
                    && side == 1
                    && association.conversation.tags[1].is_none();
                return met.then_some((index, side));
            }
            // RFC 9260 §8.5.1 B, C: these chunks may carry the tag of their sender.
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
        // If the beginning was not captured, the tag of a side is learnt from packets to that side.
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
            // The addresses do not decide. The tag of one direction is known, and this packet has another tag.
            _ => association.half.as_ref().map_or(1, |half| 1 - half.0),
        }
    }

    /// Returns the association that this one has become part of.
    fn resolve(&self, mut index: usize) -> usize {
        while let Some(into) = self.all[index].merged {
            index = into;
        }
        index
    }

    /// Called when both directions of an association are known.
    fn complete(&mut self, index: usize) {
        let association = &mut self.all[index];
        let Some(half) = association.half.take() else { return };
        association.waiting.awaits_peer = false;
        let mut ports = association.conversation.ports;
        ports.rotate_left(half.0);
        if let Some(known) = self.halves.get_mut(&(ports[0], ports[1])) {
            known.retain(|other| *other != index);
        }
        self.take_in_waiting(index);
    }

    /// Searches for the other direction of an association of which only one direction is known.
    fn compare(&mut self, index: usize) {
        if let Some((_, other)) = self.peer(index).filter(|(fit, _)| *fit > Fit::Address) {
            self.merge(index, other);
        }
    }

    /// Returns the direction that matches this one best, and how well. Returns `None` if several match equally well.
    fn peer(&self, index: usize) -> Option<(Fit, usize)> {
        let association = &self.all[index];
        let half = association.half.as_ref()?;
        let mut ports = association.conversation.ports;
        ports.rotate_left(half.0);
        let others = self.halves.get(&(ports[1], ports[0]))?.iter().filter(|other| **other != index);
        let fit = |other: &usize| Some((half.1.fit(&self.all[*other].half.as_ref()?.1)?, *other));
        let fits: Vec<(Fit, usize)> = others.filter_map(fit).collect();
        let best = fits.iter().map(|(fit, _)| *fit).max()?;
        let mut found = fits.into_iter().filter(|(fit, _)| *fit == best);
        found.next().filter(|_| found.next().is_none())
    }

    /// Merges two directions into one association.
    fn merge(&mut self, one: usize, other: usize) {
        // The direction that was already partly processed stays; otherwise the earlier one.
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
        let Some(sender) = self.all[into].half.as_ref().map(|half| half.0) else { return };
        let Some(other_sender) = self.all[from].half.as_ref().map(|half| half.0) else { return };
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

    /// Drops all ladders.
    pub fn forget_ladders(&mut self) {
        self.all.iter_mut().for_each(|association| association.conversation.forget_ladder());
    }

    /// Returns all associations as data.
    pub fn finish(mut self) -> Vec<Conversation> {
        for index in 0..self.all.len() {
            // If the ports differ, an address matches and no other direction does, the two are one association.
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
        all.map(|association| association.conversation.finish("sctp")).collect()
    }
}

fn pair(a: (IpAddr, u16), b: (IpAddr, u16)) -> Pair {
    if a <= b { [a, b] } else { [b, a] }
}
