//! Matches the packets in the captures of both ends: which packets arrived, which were lost, and how long they took.
//!
//! A packet is recognized by what no host between the ends changes: the content of a UDP datagram, the chunks and the
//! tag of an SCTP packet, the numbers and the content of a TCP segment. Address translators change addresses, ports and
//! checksums, so these do not count. The Identification of IPv4 distinguishes packets with equal content. Packets in a
//! qlog are recognized by their packet numbers.
//!
//! The clocks of the hosts need not agree. Delays are therefore given above the least delay of their direction. The sum
//! of the least delays in both directions does not depend on the clocks. The sum is positive if the first file was
//! captured at the first end, and so shows at which end each file was captured.

use super::conversation::shown;
use super::frame::IpPayload;
use super::results::{BothEnds, Delay, MatchedDirection, MatchedFlow};
use anabranch_wire::ip::protocol;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::net::IpAddr;

/// The maximum number of packets of a file that are compared. Each takes 32 bytes.
const MAX_PACKETS: usize = 1 << 22;
/// The maximum number of flows of a file that are compared.
const MAX_FLOWS: usize = 1 << 16;

/// A flow: its protocol, and the addresses and ports of its two ends in ascending order.
type Flow = (u8, [(IpAddr, u16); 2]);

/// The packets of a capture that will be compared with another capture.
#[derive(Default)]
pub(super) struct PacketList {
    by_flow: BTreeMap<Flow, usize>,
    flows: Vec<Flow>,
    packets: Vec<SeenPacket>,
    last: u64,
    left_out: u64,
}

struct SeenPacket {
    at: u64,
    digest: u64,
    flow: u32,
    identification: u32,
    /// The index (0 or 1) of the end of the flow that sent the packet.
    from: usize,
}

impl PacketList {
    /// Adds a packet of an association or connection.
    pub fn add(&mut self, at: u64, carried: &IpPayload<'_>) {
        self.last = self.last.max(at);
        let bytes = &carried.payload[..];
        let content = match carried.protocol {
            protocol::SCTP => [bytes.get(4..8), bytes.get(12..)],
            protocol::TCP => [bytes.get(4..16), bytes.get(20..)],
            protocol::UDP => [Some(&[][..]), bytes.get(8..)],
            _ => return,
        };
        let port =
            |at: usize| bytes.get(at..).and_then(<[u8]>::first_chunk).map(|port| u16::from_be_bytes(*port));
        let ([Some(head), Some(rest)], Some(source), Some(target)) = (content, port(0), port(2)) else {
            return;
        };
        let ends = [(carried.source, source), (carried.target, target)];
        let mut hasher = DefaultHasher::new();
        (carried.protocol, head, rest).hash(&mut hasher);
        self.push(at, (carried.protocol, ends), hasher.finish(), carried.identification);
    }

    /// Adds a QUIC packet from a log. It is recognized by its packet number, because a log does not have its content.
    pub fn add_logged(&mut self, at: u64, ends: [(IpAddr, u16); 2], number: impl Hash) {
        self.last = self.last.max(at);
        let mut hasher = DefaultHasher::new();
        number.hash(&mut hasher);
        self.push(at, (protocol::UDP, ends), hasher.finish(), 0);
    }

    /// Adds a packet that was sent from the first of two ends to the second.
    fn push(&mut self, at: u64, (protocol, [source, target]): Flow, digest: u64, identification: u32) {
        let from = usize::from(source > target);
        let key = (protocol, if from == 0 { [source, target] } else { [target, source] });
        let is_full = self.packets.len() >= MAX_PACKETS
            || self.flows.len() >= MAX_FLOWS && !self.by_flow.contains_key(&key);
        if is_full {
            self.left_out += 1;
            return;
        }
        let flow = *self.by_flow.entry(key).or_insert_with(|| {
            self.flows.push(key);
            self.flows.len() - 1
        });
        self.packets.push(SeenPacket { at, digest, flow: flow as u32, identification, from });
    }

    /// Returns the indices of the packets of each flow.
    fn indices_by_flow(&self) -> Vec<Vec<usize>> {
        let mut indices = vec![Vec::new(); self.flows.len()];
        for (index, packet) in self.packets.iter().enumerate() {
            indices[packet.flow as usize].push(index);
        }
        indices
    }
}

/// The index of a packet in the first file, and the index of the same packet in the second file.
type Pair = (usize, usize);

/// Compares the captures of both ends. `file` is the name of the second file.
pub(super) fn compare(file: &str, one: &PacketList, other: &PacketList) -> BothEnds {
    let mut pairs = unique(one, other, |packet| {
        (packet.identification != 0).then_some((packet.digest, packet.identification))
    });
    let (mut is_paired, mut is_paired_there) =
        (vec![false; one.packets.len()], vec![false; other.packets.len()]);
    for (here, there) in &pairs {
        (is_paired[*here], is_paired_there[*there]) = (true, true);
    }
    // The remaining packets are matched by content alone. Address translators and network cards may have changed the
    // Identification, and IPv6 has none.
    let rest =
        unique_among([(one, &is_paired), (other, &is_paired_there)], |packet| Some((packet.digest, 0)));
    pairs.extend(rest);
    pairs.sort_unstable();
    let mut result = BothEnds {
        file: file.to_owned(),
        elsewhere: [one.packets.len() as u64, other.packets.len() as u64],
        left_out: [one.left_out, other.left_out],
        ..BothEnds::default()
    };
    let (indices, indices_there) = (one.indices_by_flow(), other.indices_by_flow());
    for ([flow, flow_there], pairs) in matched_flows(one, other, pairs) {
        let (here, there) = (&indices[flow][..], &indices_there[flow_there][..]);
        result.elsewhere[0] -= here.len() as u64;
        result.elsewhere[1] -= there.len() as u64;
        result.flows.push(compare_flow([one, other], &one.flows[flow], [here, there], &pairs));
    }
    result
}

/// Assigns each flow of the first file to the flow of the second file with which it has the most packets in common.
fn matched_flows(one: &PacketList, other: &PacketList, pairs: Vec<Pair>) -> BTreeMap<[usize; 2], Vec<Pair>> {
    let mut flows: BTreeMap<[usize; 2], Vec<Pair>> = BTreeMap::new();
    for (here, there) in pairs {
        let flow = [one.packets[here].flow as usize, other.packets[there].flow as usize];
        flows.entry(flow).or_default().push((here, there));
    }
    let mut by_size: Vec<(usize, [usize; 2])> =
        flows.iter().map(|(flow, pairs)| (pairs.len(), *flow)).collect();
    by_size.sort_by_key(|(pairs, flow)| (Reverse(*pairs), *flow));
    let mut taken = [BTreeSet::new(), BTreeSet::new()];
    for (_, flow) in by_size {
        if taken[0].contains(&flow[0]) || taken[1].contains(&flow[1]) {
            flows.remove(&flow);
        } else {
            taken[0].insert(flow[0]);
            taken[1].insert(flow[1]);
        }
    }
    flows
}

/// Pairs the packets of both files that have the same key, which the function `key` returns for a packet. Skips a key
/// if several packets of a file have it.
fn unique(
    one: &PacketList,
    other: &PacketList,
    key: impl Fn(&SeenPacket) -> Option<(u64, u32)>,
) -> Vec<Pair> {
    let none = [vec![false; one.packets.len()], vec![false; other.packets.len()]];
    unique_among([(one, &none[0]), (other, &none[1])], key)
}

/// Like [`unique`], but skips the packets whose flag in the second part of `lists` is true.
fn unique_among(
    lists: [(&PacketList, &Vec<bool>); 2],
    key: impl Fn(&SeenPacket) -> Option<(u64, u32)>,
) -> Vec<Pair> {
    // For each key: the number of packets in each file, and the index of the last one.
    let mut found: BTreeMap<(u64, u32), ([u32; 2], [usize; 2])> = BTreeMap::new();
    for (file, (list, marked)) in lists.into_iter().enumerate() {
        for (index, packet) in list.packets.iter().enumerate().filter(|(index, _)| !marked[*index]) {
            if let Some(key) = key(packet) {
                let entry = found.entry(key).or_default();
                entry.0[file] += 1;
                entry.1[file] = index;
            }
        }
    }
    let pairs = found.into_values().filter(|(counts, _)| *counts == [1, 1]);
    pairs.map(|(_, [here, there])| (here, there)).collect()
}

fn compare_flow(
    [one, other]: [&PacketList; 2],
    (_, ends): &Flow,
    [here, there]: [&[usize]; 2],
    pairs: &[Pair],
) -> MatchedFlow {
    let seen = |pair: &Pair| (&one.packets[pair.0], &other.packets[pair.1]);
    // The time of a packet in the second file minus its time in the first file. It includes the difference between the
    // clocks of the two hosts.
    let gap = |pair: &Pair| {
        let (here, there) = seen(pair);
        there.at as i64 - here.at as i64
    };
    let gaps = |from: usize| pairs.iter().filter(move |pair| one.packets[pair.0].from == from).map(gap);
    let round_trip = match (gaps(0).min(), gaps(1).max()) {
        (Some(least), Some(most)) => Some(least - most),
        _ => None,
    };
    // The round-trip time if the first file was captured at the end with index 1. The gaps then have the opposite sign.
    let round_trip_there = match (gaps(1).min(), gaps(0).max()) {
        (Some(least), Some(most)) => Some(least - most),
        _ => None,
    };
    let ends_known = round_trip.zip(round_trip_there).is_some_and(|(one, other)| (one > 0) != (other > 0));
    let near = if ends_known {
        usize::from(round_trip_there > Some(0))
    } else {
        pairs.first().map_or(0, |pair| one.packets[pair.0].from)
    };
    let trip = if near == 0 { round_trip } else { round_trip_there };
    // Returns the packets of this flow in a file that were sent by the end with the index `from`.
    let sent = |file: usize, from: usize| -> Vec<&SeenPacket> {
        let (list, indices) = if file == 0 { (one, here) } else { (other, there) };
        let sender = |packet: &&SeenPacket| packet.from == from;
        indices.iter().map(|index| &list.packets[*index]).filter(sender).collect()
    };
    // An address translator may have reversed the order of the ends.
    let is_reversed =
        pairs.iter().filter(|pair| seen(pair).0.from != seen(pair).1.from).count() * 2 > pairs.len();
    let direction = |from: usize| {
        let there = if is_reversed { 1 - from } else { from };
        let of_direction: Vec<(u64, u64)> = pairs
            .iter()
            .map(seen)
            .filter(|(packet, _)| packet.from == from)
            .map(|(here, there)| if from == near { (here.at, there.at) } else { (there.at, here.at) })
            .collect();
        let files = [sent(0, from), sent(1, there)];
        let (sender, receiver) = if from == near { (0, 1) } else { (1, 0) };
        compare_direction(&files[sender], &files[receiver], of_direction, [one, other][receiver].last)
    };
    let name = |end: &(IpAddr, u16)| match shown(end.0) {
        address if address.is_empty() => format!("port {}", end.1),
        address => format!("{address} port {}", end.1),
    };
    MatchedFlow {
        ends: [name(&ends[near]), name(&ends[1 - near])],
        ends_known,
        round_trip_ns: trip.filter(|_| ends_known).map(|trip| trip.max(0) as u64),
        directions: [direction(near), direction(1 - near)],
    }
}

/// Compares one direction. `pairs` has the times at which each packet was sent and arrived, and `last` is the end of the
/// receiver's capture.
fn compare_direction(
    sent: &[&SeenPacket],
    received: &[&SeenPacket],
    mut pairs: Vec<(u64, u64)>,
    last: u64,
) -> MatchedDirection {
    let counted = |packets: &[&SeenPacket]| {
        let mut counts: BTreeMap<u64, Vec<u64>> = BTreeMap::new();
        packets.iter().for_each(|packet| counts.entry(packet.digest).or_default().push(packet.at));
        counts
    };
    let (sent_times, received_times) = (counted(sent), counted(received));
    pairs.sort_unstable();
    let delay = |(sent, arrived): &(u64, u64)| *arrived as i64 - *sent as i64;
    let least = pairs.iter().map(delay).min();
    let mut result = MatchedDirection { sent: sent.len() as u64, ..MatchedDirection::default() };
    for (digest, times) in &sent_times {
        let arrived = received_times.get(digest).map_or(0, Vec::len);
        result.arrived += times.len().min(arrived) as u64;
        // If fewer packets arrived than were sent with the same content, the last ones count as lost.
        for at in times.iter().skip(arrived) {
            let would_arrive = least.map(|least| *at as i64 + least);
            let is_outside = would_arrive.is_none_or(|at| at < 0 || at > last as i64);
            if is_outside {
                result.outside += 1;
            } else {
                result.lost += 1;
            }
        }
    }
    result.only_received = received.len() as u64 - result.arrived;
    let mut newest = 0;
    for (_, arrived) in &pairs {
        result.overtaken += u64::from(*arrived < newest);
        newest = newest.max(*arrived);
    }
    let mut delays: Vec<u64> =
        pairs.iter().map(|pair| (delay(pair) - least.unwrap_or(0)).max(0) as u64).collect();
    delays.sort_unstable();
    if let Some(max_ns) = delays.last().copied() {
        let quantile = |percent: usize| delays[(delays.len() - 1) * percent / 100];
        let samples = delays.len() as u64;
        result.delay = Delay { samples, median_ns: quantile(50), p95_ns: quantile(95), max_ns };
    }
    result
}
