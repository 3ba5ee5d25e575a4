//! An SCTP association in a capture. This module interprets its chunks.

use super::arrival::{Arrival, Checksum, Side};
use super::conversation::{ConversationBuilder, remark};
use super::data_channels;
use super::data_class::{Cause, DataClass};
use super::halves::{OneDirection, digest};
use super::results::{Conversation, DataChannel};
use super::timeline::{Ack, Data, Event};
use super::waiting::{Facts, WaitingQueue};
use anabranch_wire::sctp::{
    Chunk, GapBlock, Init, InitAck, PacketView, Param, ReConfigParam, SackView, Tsn, crc32c, packet,
};
use std::collections::BTreeMap;

/// The largest plausible distance of a TSN from the last captured TSN. More distant TSNs do not belong to this
/// association.
pub(super) const REACH: i64 = 1 << 20;
/// The maximum number of remembered HEARTBEATs that have no HEARTBEAT ACK yet.
const MAX_HEARTBEATS: usize = 256;

/// The maximum number of payload protocol identifiers that are counted separately in each direction.
const MAX_PPIDS: usize = 16;

/// The state of an association while its packets are read from the capture.
#[derive(Debug)]
pub(super) struct Association {
    pub conversation: ConversationBuilder,
    /// The side that sent SHUTDOWN first.
    shutdown_initiator: Option<Side>,
    /// HEARTBEATs that have no HEARTBEAT ACK yet: their times and paths, by sender and hash of the heartbeat
    /// information.
    heartbeats: BTreeMap<(Side, u64), (u64, usize)>,
    /// The earlier association between the same endpoints. It ends when this association begins (RFC 9260 §5.2.4 A).
    pub replaces: Option<usize>,
    takes_zero_checksum: [bool; 2],
    channels: Vec<DataChannel>,
    /// Packets of this association that are not processed yet.
    pub waiting: WaitingQueue,
    /// If the capture shows only one direction of the association: the sending side, and what its packets reveal about
    /// the association. `None` if both directions are known.
    pub known_half: Option<Box<(Side, OneDirection)>>,
    /// The index of the association into which this one was merged. The two turned out to be the two directions of the
    /// same association.
    pub merged: Option<usize>,
}

impl Association {
    /// Creates an association that has no packets yet.
    pub fn new(conversation: ConversationBuilder, replaces: Option<usize>) -> Self {
        Self {
            conversation,
            shutdown_initiator: None,
            heartbeats: BTreeMap::new(),
            replaces,
            takes_zero_checksum: [false; 2],
            channels: Vec::new(),
            waiting: WaitingQueue::default(),
            known_half: None,
            merged: None,
        }
    }

    /// Processes a packet. Returns the Verification Tags that the packet revealed, indexed by the side that chose them.
    pub fn take(&mut self, arrival: &Arrival<'_>, view: &PacketView<'_>, path: usize) -> [Option<u32>; 2] {
        let side = arrival.side;
        let mut learnt = [None; 2];
        let mut causes = Vec::new();
        let mut opens_or_aborts = false;
        for chunk in view.chunks().filter_map(Result::ok) {
            *self.conversation.directions[side].chunks.entry(chunk.name()).or_default() += 1;
            self.control(side, &chunk);
            match chunk {
                Chunk::Init(init) => {
                    opens_or_aborts = true;
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
                    let carried = (message, ppid, data.payload);
                    self.data(arrival, path, data.tsn, data.stream, carried, &mut causes);
                }
                Chunk::IData(data) => {
                    let message = data.end.then_some(data.unordered);
                    let ppid = data.begin.then_some(data.ppid);
                    let carried = (message, ppid, data.payload);
                    self.data(arrival, path, data.tsn, data.stream, carried, &mut causes);
                }
                Chunk::Sack(sack) => self.sack(arrival, &sack, sack.gaps()),
                Chunk::NrSack(nr) => self.sack(arrival, &nr.sack, nr.all_gaps()),
                Chunk::Shutdown(shutdown) => {
                    self.shutdown_initiator.get_or_insert(side);
                    self.cumulative(arrival, shutdown.cumulative);
                }
                Chunk::ShutdownComplete(_) => {
                    self.ended(arrival, "shutdown", self.shutdown_initiator, None);
                }
                Chunk::Abort(abort) => {
                    opens_or_aborts = true;
                    let how =
                        if self.conversation.opening[3].is_none() && self.conversation.opening[0].is_some() {
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
        // Except for INIT and ABORT, a packet carries the Verification Tag that its receiver chose.
        let tag = view.header.tag;
        if !opens_or_aborts && tag != 0 && self.conversation.tags[1 - side].is_none() {
            self.conversation.tags[1 - side] = Some(tag);
            learnt[1 - side] = Some(tag);
        }
        self.conversation.carried_retransmitted(side, &causes);
        self.conversation.settle(arrival.at, side);
        self.conversation.draw(arrival, |numbers, side| numbers.sctp(side, arrival.bytes), remark(&causes));
        learnt
    }

    /// Returns the results of this association.
    pub fn finish(mut self) -> Conversation {
        data_channels::count(&mut self.channels, &self.conversation.directions);
        Conversation { channels: self.channels, ..self.conversation.finish("sctp") }
    }

    /// Checks a packet's checksum.
    pub fn checksum(&self, side: Side, bytes: &[u8], is_cut: bool) -> Checksum {
        if is_cut {
            return Checksum::Unknown;
        }
        if packet::has_zero_checksum(bytes) {
            // RFC 9653 §5.3: a receiver that sent the Zero Checksum Acceptable parameter accepts packets without a
            // checksum. If the receiver did not send the parameter, the checksum is zero because the sender's network
            // card computes it later.
            return if self.takes_zero_checksum[1 - side] { Checksum::Unknown } else { Checksum::Left };
        }
        if crc32c::is_valid(bytes) || has_adler32(bytes) { Checksum::Right } else { Checksum::Wrong }
    }

    /// Records the tag of a packet as the Verification Tag of its receiver. Skips packets with a chunk that may carry
    /// another tag.
    pub fn learn(&mut self, side: Side, view: &PacketView<'_>) {
        let owner = &mut self.conversation.tags[1 - side];
        // RFC 9260 §8.5.1: INIT, ABORT and SHUTDOWN COMPLETE may carry another tag than the receiver's.
        let may_carry_other_tag = |kind: u8| [1, 6, 14].contains(&kind);
        if owner.is_none()
            && view.header.tag != 0
            && !view.chunks().framed().any(|raw| may_carry_other_tag(raw.kind))
        {
            *owner = Some(view.header.tag);
        }
    }

    fn init(&mut self, arrival: &Arrival<'_>, init: &Init<'_>) {
        self.record_init(arrival.side, init);
        if arrival.side == 0 {
            self.conversation.request(arrival.at);
        }
        if self.conversation.end.how == "open" {
            self.conversation.end.how = "incomplete";
        }
    }

    fn init_ack(&mut self, arrival: &Arrival<'_>, init: &Init<'_>) {
        self.record_init(arrival.side, init);
        self.conversation.opening[2] = Some(arrival.at);
    }

    /// Records the tag and the extensions that `side` announces in an INIT or INIT ACK. Also records the initial TSN,
    /// unless data of this side was already captured.
    fn record_init(&mut self, side: Side, init: &Init<'_>) {
        self.conversation.tags[side] = Some(init.tag);
        // RFC 9653 §5.1: a side that announces this parameter accepts packets without a checksum.
        let zero = |param| matches!(param, Ok(Param::ZeroChecksum(_)));
        self.takes_zero_checksum[side] = init.params.into_iter().any(zero);
        self.conversation.set_first_tsn(side, init.tsn.0);
    }

    fn cookie_echo(&mut self, arrival: &Arrival<'_>) {
        if self.conversation.opening[3].is_none()
            && let [_, Some(last_init_at), Some(init_ack_at), _] = self.conversation.opening
        {
            // The round-trip time is the sum of two round trips: from the place of capture to one host, and to the
            // other host.
            self.conversation.round_trip([last_init_at, init_ack_at, arrival.at]);
        }
        self.conversation.opening[3].get_or_insert(arrival.at);
    }

    fn cookie_ack(&mut self, arrival: &Arrival<'_>) {
        if let Some(began) = self.conversation.opening[0] {
            self.conversation.handshake.took_ns.get_or_insert(arrival.at.saturating_sub(began));
        }
        self.open();
    }

    /// Marks the association as open. Called when data or a COOKIE ECHO is acknowledged.
    fn open(&mut self) {
        if self.conversation.end.how == "incomplete" {
            self.conversation.end.how = "open";
        }
    }

    /// Adds a control chunk to the timeline.
    fn control(&mut self, side: Side, chunk: &Chunk<'_>) {
        let event = match chunk {
            Chunk::Init(_) => Event::Request,
            Chunk::InitAck(_) => Event::Answer,
            Chunk::CookieEcho(_) => Event::CookieEcho,
            Chunk::CookieAck(_) => Event::CookieAck,
            Chunk::Shutdown(_) => Event::Close,
            Chunk::ShutdownAck(_) => Event::CloseAnswer,
            Chunk::Ecne(_) => Event::MarkReport,
            Chunk::ForwardTsn(forward) => return self.forward_tsn(side, forward.cumulative),
            Chunk::IForwardTsn(forward) => return self.forward_tsn(side, forward.cumulative),
            Chunk::ReConfig(parameters) => {
                for parameter in parameters.params() {
                    let event = match parameter {
                        ReConfigParam::ResetOutgoing { request, .. } => Event::ResetRequest(request),
                        ReConfigParam::Response { response, result, .. } => {
                            Event::ResetResponse(response, result)
                        }
                        _ => continue,
                    };
                    self.conversation.event(side, event);
                }
                return;
            }
            _ => return,
        };
        self.conversation.event(side, event);
    }

    fn forward_tsn(&mut self, side: Side, cumulative: Tsn) {
        let Some(first) = self.conversation.firsts[side] else { return };
        let unit = self.conversation.tracks.of(side).unit(cumulative.0, first) + 1;
        self.conversation.event(side, Event::ForwardTsn(unit));
    }

    /// Processes the fields that DATA and I-DATA have in common. `carried` is a triple:
    /// - whether the message is unordered; `None` unless the message ends in this chunk;
    /// - the payload protocol identifier; `None` unless a message begins in this chunk;
    /// - the user data.
    fn data(
        &mut self,
        arrival: &Arrival<'_>,
        path: usize,
        tsn: Tsn,
        stream: u16,
        carried: (Option<bool>, Option<u32>, &[u8]),
        causes: &mut Vec<(Cause, bool)>,
    ) {
        let (side, (message, ppid, payload)) = (arrival.side, carried);
        let length = payload.len();
        let first = *self.conversation.firsts[side].get_or_insert(tsn.0);
        let track = self.conversation.tracks.of(side);
        let unit = track.unit(tsn.0, first);
        if !track.plausible(unit, REACH) {
            return;
        }
        self.conversation.stream(side, stream.into(), tsn.0);
        let class = self.conversation.data(arrival, path, (unit, unit + 1), stream, [tsn.0, tsn.0]);
        let event = Data {
            units: (unit, unit + 1),
            stream: stream.into(),
            offset: 0,
            bytes: length as u32,
            wire_len: arrival.wire_len as u32,
            flight: self.conversation.tracks.of(side).flight(),
            class,
            begins: ppid.is_some(),
            ends: message.is_some(),
        };
        self.conversation.event(side, Event::Data(event));
        if let DataClass::Retransmitted { cause, spurious, .. } = class {
            causes.push((cause, spurious));
        }
        if matches!(class, DataClass::Retransmitted { inferred: false, .. }) {
            return;
        }
        let counted = self.conversation.stream(side, stream.into(), tsn.0);
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
        if ppid == Some(data_channels::PPID) {
            let directions = &self.conversation.directions;
            data_channels::message(&mut self.channels, directions, arrival.at, (side, stream), payload);
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
        // `cumulative` is the first TSN that is not acknowledged cumulatively. The offsets in gap blocks count from the
        // TSN before it, which is the cumulative TSN of the SACK. Invalid blocks are skipped.
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
        let (flight, has_gaps) = (track.flight(), !gaps.is_empty());
        let ack = Ack { cumulative, flight, has_gaps, window: Some(sack.window.into()) };
        self.conversation.event(side, Event::Ack(ack));
    }

    /// Processes the cumulative TSN of a SHUTDOWN, which acknowledges data as a SACK does.
    fn cumulative(&mut self, arrival: &Arrival<'_>, cumulative: Tsn) {
        let peer = 1 - arrival.side;
        let Some(first) = self.conversation.firsts[peer] else { return };
        let track = self.conversation.tracks.of(peer);
        let unit = track.unit(cumulative.0, first) + 1;
        if unit <= track.high() {
            let unit = unit.max(track.cumulative());
            track.acknowledged(arrival.at, unit, Vec::new(), false);
            let ack = Ack { cumulative: unit, flight: track.flight(), has_gaps: false, window: None };
            self.conversation.event(arrival.side, Event::Ack(ack));
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

/// Returns the TSNs of the data in a packet, and the TSNs that the packet acknowledges.
pub(super) fn facts(view: &PacketView<'_>) -> Facts {
    let mut facts = Facts::default();
    for chunk in view.chunks().filter_map(Result::ok) {
        let tsn = match chunk {
            Chunk::Data(data) => data.tsn,
            Chunk::IData(data) => data.tsn,
            Chunk::Sack(sack) => {
                add_acknowledged(&mut facts, &sack, sack.gaps());
                continue;
            }
            Chunk::NrSack(nr) => {
                add_acknowledged(&mut facts, &nr.sack, nr.all_gaps());
                continue;
            }
            Chunk::Shutdown(shutdown) => {
                facts.cumulative = Some(shutdown.cumulative.next().0);
                continue;
            }
            _ => continue,
        };
        let (first, last) = facts.data.unwrap_or((tsn.0, tsn.0));
        facts.data = Some((first, if Tsn(last).after(tsn) { last } else { tsn.next().0 }));
    }
    facts
}

fn add_acknowledged(facts: &mut Facts, sack: &SackView<'_>, gaps: impl Iterator<Item = GapBlock>) {
    facts.cumulative = Some(sack.cumulative.next().0);
    let block = |gap: GapBlock| {
        (sack.cumulative.plus(gap.start.into()).0, sack.cumulative.plus(gap.end.into()).next().0)
    };
    facts.blocks.extend(gaps.map(block));
}

/// RFC 2960 §6.8: returns whether the packet has a valid Adler-32 checksum. SCTP used Adler-32 before RFC 3309.
fn has_adler32(packet: &[u8]) -> bool {
    const MODULUS: u32 = 65_521;
    let Some(field) = packet.get(8..12).and_then(|field| field.try_into().ok()) else { return false };
    let (mut low, mut high) = (1_u32, 0_u32);
    for (at, byte) in packet.iter().enumerate() {
        low = (low + if (8..12).contains(&at) { 0 } else { u32::from(*byte) }) % MODULUS;
        high = (high + low) % MODULUS;
    }
    high << 16 | low == u32::from_be_bytes(field)
}
