//! Checks invariants that hold for every packet and at every instant, by observing packets and states.
//!
//! - TSNs are consecutive (except for those of abandoned messages), and a TSN never changes its content.
//! - A SACK never lowers the cumulative TSN and never acknowledges TSNs that were not sent. Its gap blocks are
//!   ascending and disjoint.
//! - New data may exceed the peer's window and the path's congestion window by at most one packet (RFC 9260 §6.1).
//! - The outstanding bytes are the sum over the paths, and data in flight has a timer.
//! - Packets fit the path's MTU, contain only chunks that may be bundled, and have a permitted destination.

use crate::net::{A, B, Flight, Net, Watch, network};
use anabranch_base::Engine;
use anabranch_sctp::{AssociationState, AssociationStats, PathState};
use anabranch_wire::ladder::Side;
use anabranch_wire::sctp::{Chunk, Data, GapBlock, IData, PacketView, ReConfigParam, SackView, Tsn};
use std::collections::BTreeMap;

/// The state of one side. The last two fields concern the data that it receives, the others the data that it sends.
#[derive(Default)]
struct Sender {
    /// The highest TSN that was sent, if any.
    highest: Option<Tsn>,
    /// The size of the DATA or I-DATA header, in bytes.
    header: usize,
    /// For each stream, the message that is not completely sent: whether it is unordered, its identifier, and the
    /// number of its next fragment.
    open: BTreeMap<u16, (bool, u32, u32)>,
    /// The number of TSNs that were never sent.
    never_sent: u64,
    /// The highest TSN that the side has asked its peer to skip.
    skipped: Option<Tsn>,
    /// The TSNs that the last FORWARD TSN of this side reports as abandoned: those above the first TSN, up to and
    /// including the second.
    skipping: Option<(Tsn, Tsn)>,
    /// The congestion window of each path of this side, taken before a SACK that acknowledges only abandoned TSNs is
    /// processed. `None` at any other time.
    windows: Option<Vec<Window>>,
    /// The content of every TSN that was sent, as a length and a hash.
    content: BTreeMap<u32, (usize, u64)>,
    /// The cumulative TSN and the window of the last SACK that this side has received.
    acknowledged: Option<(Tsn, u64)>,
    /// The window in the peer's INIT or INIT ACK, until a SACK advertises another window.
    window: u64,
    /// Whether this side has received a SHUTDOWN. A SHUTDOWN advertises no window, so the peer's window is unknown.
    window_unknown: bool,
    /// The highest cumulative TSN that this side has sent in a SACK.
    highest_cumulative: Option<Tsn>,
    /// The last TSN reset request that this side has accepted.
    agreed: Option<u32>,
}

impl Sender {
    /// Returns the number of bytes, including headers and padding, of the sent chunks beyond the cumulative TSN of the
    /// last received SACK.
    fn unacknowledged(&self) -> u64 {
        // TSNs wrap around, so after TSN 2^32-1 the iteration continues at TSN 0. `content` also has acknowledged TSNs,
        // so the iteration ends at the first of these.
        let first = self.acknowledged.map(|(cumulative, _)| cumulative.next().0);
        let beyond = |tsn: u32| self.acknowledged.is_none_or(|(cumulative, _)| Tsn(tsn).after(cumulative));
        let (low, high) =
            (self.content.range(..first.unwrap_or(0)), self.content.range(first.unwrap_or(0)..));
        high.take_while(|(tsn, _)| beyond(**tsn))
            .chain(low.take_while(|(tsn, _)| beyond(**tsn)))
            .map(|(_, (length, _))| (self.header + length.next_multiple_of(4)) as u64)
            .sum()
    }
}

/// Returns whether I-DATA was negotiated, as far as `side` knows.
fn interleaves(net: &Net, side: Side) -> bool {
    let end = &net.ends[side as usize];
    end.ids.last().and_then(|&id| end.engine.info(id)).is_some_and(|info| info.extensions.interleaving)
}

/// Returns whether NR-SACK was negotiated, as far as `side` knows.
fn acknowledges_for_good(net: &Net, side: Side) -> bool {
    let end = &net.ends[side as usize];
    end.ids.last().and_then(|&id| end.engine.info(id)).is_some_and(|info| info.extensions.nr_sack)
}

/// A checker of the latest association between two endpoints.
pub struct Checker {
    sides: [Sender; 2],
    /// The number of associations that each side has had. The latest is checked.
    associations: [usize; 2],
    pub packets: u64,
    pub digest: u64,
    /// Whether the endpoints change their addresses during the storm. If so, an endpoint may ignore a SACK because the
    /// peer has deleted the SACK's source address. The checker cannot observe which SACKs are ignored.
    pub addresses_change: bool,
    /// The sides that use proportional rate reduction. In a recovery they may exceed the window (RFC 6937).
    pub proportional: [bool; 2],
    /// The sides that use BBR. Their congestion windows may grow even if no acknowledgement arrives. When BBR sends
    /// data after a pause, it can end ProbeRTT and restore its larger window (draft-ietf-ccwg-bbr:
    /// HandleRestartFromIdle, CheckProbeRTTDone).
    pub bbr: [bool; 2],
    /// For each side, whether it sends tail loss probes. One probe may exceed the congestion window (RFC 8985 §7.3).
    pub probing: [bool; 2],
    /// For each side, the number of tail loss probes so far, and the index of the packet with the last probe. This
    /// packet may exceed the congestion window, because the window may have been halved below the flight size.
    probes: [(u64, u64); 2],
    /// Whether a side has sent an NR-SACK that reports TSNs beyond its cumulative TSN. The peer then frees these
    /// messages, although they may never be delivered.
    pub forgotten: bool,
}

/// A path's state, its MTU and the number of losses, followed by the path's congestion window in bytes. A change of the
/// first three values may change the window without an acknowledgement. A loss sets the window to at least 4 packets
/// (RFC 9260 §7.2.4), which may be an increase.
type Window = ((PathState, u32, u64), u64);

/// Returns the congestion windows of all paths of an association.
fn windows(net: &Net, side: Side, id: anabranch_sctp::AssociationId) -> Option<Vec<Window>> {
    let info = net.ends[side as usize].engine.info(id)?;
    let losses = stats_of(net, side).fast_recoveries;
    Some(info.paths.iter().map(|path| ((path.state, path.mtu, losses), path.cwnd)).collect())
}

/// Returns the counters of a side's latest association.
fn stats_of(net: &Net, side: Side) -> AssociationStats {
    let end = &net.ends[side as usize];
    end.ids.last().and_then(|&id| end.engine.stats(id)).unwrap_or_default()
}

/// Parses a packet with or without a checksum (RFC 9653).
fn parse(bytes: &[u8]) -> Option<PacketView<'_>> {
    PacketView::parse(bytes).or_else(|_| PacketView::parse_without_checksum(bytes)).ok()
}

fn hash(mut seed: u64, bytes: &[u8]) -> u64 {
    for &byte in bytes {
        seed = (seed ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    }
    seed.rotate_left(17)
}

impl Checker {
    pub fn new(_networks: usize) -> Self {
        Self {
            sides: Default::default(),
            associations: [0; 2],
            packets: 0,
            digest: 0xcbf2_9ce4_8422_2325,
            addresses_change: false,
            proportional: [false; 2],
            bbr: [false; 2],
            probing: [false; 2],
            probes: [(0, 0); 2],
            forgotten: false,
        }
    }

    fn sack_sent(&mut self, from: Side, sack: &SackView<'_>, gaps: impl Iterator<Item = GapBlock>) {
        let peer_highest = self.sides[from.other() as usize].highest;
        let mine = &mut self.sides[from as usize];
        if let Some(promised) = mine.highest_cumulative {
            assert!(
                sack.cumulative.at_or_after(promised),
                "{from:?}: the cumulative TSN went back from {promised} to {}",
                sack.cumulative
            );
        }
        mine.highest_cumulative = Some(sack.cumulative);
        if let Some(highest) = peer_highest {
            assert!(
                highest.at_or_after(sack.cumulative),
                "{from:?}: acknowledges {}, and {highest} was the last sent",
                sack.cumulative
            );
            let mut end = 0;
            for gap in gaps {
                assert!(gap.start > end + 1, "{from:?}: gap blocks ascend and stay apart: {sack}");
                assert!(gap.end >= gap.start, "{from:?}: {sack}");
                end = gap.end;
            }
            let last = sack.cumulative.plus(u32::from(end));
            assert!(highest.at_or_after(last), "{from:?}: a gap block beyond what was sent: {sack}");
        }
    }

    /// RFC 6525 §5.2.4: records that `from` has granted a reset of TSNs. The other side gives its next DATA chunk the
    /// TSN `next`.
    fn renumbered(&mut self, from: Side, request: u32, next: Tsn) {
        let mine = &mut self.sides[from as usize];
        if mine.agreed.replace(request) == Some(request) {
            return;
        }
        let before = Tsn(next.0.wrapping_sub(1));
        mine.highest_cumulative = Some(before);
        let peer = &mut self.sides[from.other() as usize];
        peer.highest = Some(before);
        peer.acknowledged = None;
        peer.skipped = None;
        peer.content.clear();
    }

    fn data_sent(&mut self, net: &Net, from: Side, flight: &Flight, tsn: Tsn, stream: u16, payload: &[u8]) {
        let mine = &mut self.sides[from as usize];
        let content = (payload.len(), hash(u64::from(stream), payload));
        let expected = mine.highest.map(Tsn::next);
        // RFC 3758: when a partly sent message is abandoned, its unsent rest gets a TSN, which is never sent as data.
        let passed = expected.filter(|expected| tsn.after(*expected)).map_or(0, |e| tsn.distance_from(e));
        if passed > 0 {
            mine.never_sent += u64::from(passed);
            let given_up = stats_of(net, from).abandoned_sent;
            assert!(mine.never_sent <= given_up, "{from:?}: TSNs before {tsn} are left out");
        }
        let mine = &mut self.sides[from as usize];
        if expected.is_none_or(|expected| expected == tsn) || passed > 0 {
            mine.highest = Some(tsn);
            mine.content.insert(tsn.0, content);
            self.new_data_fits(net, from, flight, tsn);
        } else {
            let before = mine.content.get(&tsn.0);
            assert_eq!(
                before,
                Some(&content),
                "{from:?}: TSN {tsn} is not what it was, or TSNs are not dense"
            );
        }
    }

    /// RFC 8260 §2.2.2: checks that the messages of a stream are sent one after the other, with fragments numbered from
    /// 0.
    fn fragment_sent(&mut self, net: &Net, from: Side, data: &IData<'_>) {
        assert!(interleaves(net, from), "{from:?}: I-DATA where it was not agreed on");
        let mine = &mut self.sides[from as usize];
        mine.header = IData::HEADER;
        if mine.highest.is_some_and(|highest| highest.at_or_after(data.tsn)) {
            return;
        }
        let this = (data.unordered, data.mid, data.fsn);
        // If the last message was abandoned (RFC 3758), the next message may begin.
        let given_up = stats_of(net, from).abandoned_sent > 0;
        let due = mine.open.remove(&data.stream).filter(|_| !(given_up && data.begin));
        assert!(due.unwrap_or(this) == this, "{from:?}: {data} while fragment {due:?} was due");
        assert_eq!(due.is_none(), data.begin, "{from:?}: {data} is not where a message begins");
        if !data.end {
            mine.open.insert(data.stream, (data.unordered, data.mid, data.fsn + 1));
        }
    }

    /// RFC 3758 §3.5: checks a FORWARD TSN. Both sides must support it, all TSNs that it skips must be abandoned, and
    /// it must name each stream at most once.
    fn forward_sent(
        &mut self,
        net: &Net,
        from: Side,
        point: Tsn,
        mids: bool,
        mut skipped_streams: Vec<(u16, bool)>,
    ) {
        let end = &net.ends[from as usize];
        let Some(&id) = end.ids.last() else { return };
        let stats = end.engine.stats(id).unwrap_or_default();
        assert!(stats.abandoned_sent > 0, "{from:?}: FORWARD TSN {point} and nothing was given up");
        let extensions = end.engine.info(id).map(|info| info.extensions).unwrap_or_default();
        assert!(extensions.partial_reliability && extensions.interleaving == mids, "{from:?}: FORWARD TSN");
        let mine = &mut self.sides[from as usize];
        if let Some((acknowledged, _)) = mine.acknowledged {
            assert!(
                point.after(acknowledged) || self.addresses_change,
                "{from:?}: FORWARD TSN {point}, which is acknowledged"
            );
        }
        if let Some(highest) = mine.highest {
            let beyond = if point.after(highest) { point.distance_from(highest) } else { 0 };
            mine.never_sent += u64::from(beyond);
            assert!(mine.never_sent <= stats.abandoned_sent, "{from:?}: FORWARD TSN {point} after {highest}");
            mine.highest = Some(if beyond > 0 { point } else { highest });
        }
        let back = mine.skipped.is_some_and(|before| before.after(point));
        assert!(!back, "{from:?}: FORWARD TSN {point} goes back from {:?}", mine.skipped);
        mine.skipped = Some(point);
        mine.skipping = mine.acknowledged.map(|(acknowledged, _)| (acknowledged, point));
        skipped_streams.sort_unstable();
        assert!(
            skipped_streams.windows(2).all(|pair| pair[0] < pair[1]),
            "{from:?}: a stream is named twice: {skipped_streams:?}"
        );
    }

    /// Checks which chunks a packet bundles, and its destination.
    fn bundled_well(&self, net: &Net, from: Side, flight: &Flight, packet: &PacketView<'_>) {
        let chunks: Vec<Chunk<'_>> = packet.chunks().flatten().collect();
        let has = |wanted: fn(&Chunk<'_>) -> bool| chunks.iter().any(wanted);
        // RFC 9260 §5.1, §6.10: INIT, INIT ACK and SHUTDOWN COMPLETE must be alone in a packet. COOKIE ECHO and COOKIE
        // ACK must come first.
        let lonely = has(|c| matches!(c, Chunk::Init(_) | Chunk::InitAck(_) | Chunk::ShutdownComplete(_)));
        assert!(!lonely || chunks.len() == 1, "{from:?}: {} is not alone", chunks[0]);
        assert_eq!(has(|c| matches!(c, Chunk::Init(_))), packet.header.tag == 0, "{from:?}: tag 0 is INIT's");
        // RFC 4895 §6.3: a COOKIE chunk may be second if the first chunk is an AUTH.
        let ahead = 1 + usize::from(matches!(chunks[0], Chunk::Auth(_)));
        let late = chunks.iter().skip(ahead).any(|c| matches!(c, Chunk::CookieEcho(_) | Chunk::CookieAck(_)));
        assert!(!late, "{from:?}: a COOKIE chunk comes first");
        // RFC 9260 §3.3.7, §6.2: a packet with an ABORT has no DATA, and a packet has at most one SACK.
        let data = has(|c| matches!(c, Chunk::Data(_) | Chunk::IData(_)));
        assert!(!data || !has(|c| matches!(c, Chunk::Abort(_))), "{from:?}: DATA beside an ABORT");
        let sacks = chunks.iter().filter(|c| matches!(c, Chunk::Sack(_) | Chunk::NrSack(_)));
        assert!(sacks.count() <= 1, "{from:?}: two SACKs");
        // RFC 9260 §5.4: only HEARTBEATs and answers are sent to an unverified address.
        let end = &net.ends[from as usize];
        let Some(info) = end.ids.last().and_then(|&id| end.engine.info(id)) else { return };
        let unverified = info
            .paths
            .iter()
            .any(|path| path.address == flight.target.ip() && path.state == PathState::Unconfirmed);
        if unverified {
            let heartbeat = has(|c| matches!(c, Chunk::Heartbeat(_)));
            for chunk in &chunks {
                let allowed = match chunk {
                    Chunk::CookieEcho(_) | Chunk::CookieAck(_) => heartbeat,
                    Chunk::Data(_) | Chunk::IData(_) | Chunk::Sack(_) | Chunk::NrSack(_) => false,
                    Chunk::Init(_) => false,
                    Chunk::ForwardTsn(_) | Chunk::IForwardTsn(_) => false,
                    Chunk::Shutdown(_) | Chunk::ShutdownAck(_) => false,
                    _ => true,
                };
                assert!(allowed, "{from:?}: {chunk} to {}, which is not verified", flight.target);
            }
        }
    }

    /// RFC 9260 §6.1: checks rule A (the peer's window) and rule B (the window of the path) for new data.
    fn new_data_fits(&mut self, net: &Net, from: Side, flight: &Flight, tsn: Tsn) {
        let end = &net.ends[from as usize];
        let Some(info) = end.ids.last().and_then(|&id| end.engine.info(id)) else { return };
        let mine = &self.sides[from as usize];
        // RFC 9260 §6.2.1 C: chunks marked for retransmission do not count as outstanding, and the checker cannot see
        // which chunks are marked. So the check is skipped once the statistics show that any chunk was marked or
        // abandoned.
        let stats = end.ids.last().and_then(|&id| end.engine.stats(id)).unwrap_or_default();
        let marked = stats.fast_recoveries
            + stats.t3_expirations
            + stats.retransmitted_fast
            + stats.retransmitted_timeout
            + stats.abandoned_sent;
        let undisturbed = marked == 0;
        if let Some((cumulative, window)) = mine.acknowledged.filter(|_| undisturbed && !mine.window_unknown)
        {
            let beyond: u64 = (1..=tsn.distance_from(cumulative))
                .filter_map(|n| mine.content.get(&cumulative.plus(n).0))
                .map(|&(length, _)| length as u64)
                .sum();
            // One packet may be outstanding even if the window is closed.
            let packet_size = flight.bytes.len() as u64;
            assert!(
                beyond <= window.max(mine.window) + packet_size,
                "{from:?}: {beyond} bytes beyond TSN {cumulative}, window {window}"
            );
        }
        let (probes, packet) = &mut self.probes[from as usize];
        if *probes < stats.tail_probes {
            (*probes, *packet) = (stats.tail_probes, self.packets);
        }
        let probe = *packet == self.packets;
        if let Some(path) = info.paths.iter().find(|path| path.address == flight.target.ip() && !probe) {
            let packets = 1 + u64::from(self.probing[from as usize]);
            let most = path.cwnd + packets * u64::from(path.mtu);
            let repairing = self.proportional[from as usize] && stats.fast_recoveries > 0;
            assert!(
                path.flight <= most || repairing,
                "{from:?}: new data with {} bytes in flight, cwnd {}, mtu {}",
                path.flight,
                path.cwnd,
                path.mtu
            );
        }
    }
}

impl Watch for Checker {
    fn sent(&mut self, net: &Net, from: Side, flight: &Flight) {
        self.packets += 1;
        assert!(self.packets < 400_000, "a packet storm");
        let association_count = net.ends[from as usize].ids.len();
        if std::mem::replace(&mut self.associations[from as usize], association_count) < association_count
            && association_count > 1
        {
            self.sides[from as usize] = Sender::default();
            let other = &mut self.sides[from.other() as usize];
            (other.acknowledged, other.window_unknown) = (None, true);
        }
        self.digest = hash(self.digest ^ net.now.as_nanos(), &flight.bytes);
        assert!(flight.bytes.len() + 20 <= 1_500, "{from:?}: a packet of {} bytes", flight.bytes.len());
        assert!(network(flight.target.ip()) >= 1);
        let packet = parse(&flight.bytes).expect("engines send good packets");
        self.bundled_well(net, from, flight, &packet);
        let mut data_seen = None;
        for chunk in packet.chunks() {
            match chunk.expect("engines send good chunks") {
                chunk @ (Chunk::Data(_) | Chunk::IData(_)) => {
                    let (tsn, stream, payload) = match chunk {
                        Chunk::IData(data) => {
                            self.fragment_sent(net, from, &data);
                            (data.tsn, data.stream, data.payload)
                        }
                        Chunk::Data(data) => {
                            self.sides[from as usize].header = Data::HEADER;
                            assert!(!interleaves(net, from), "{from:?}: DATA where I-DATA was agreed on");
                            (data.tsn, data.stream, data.payload)
                        }
                        _ => continue,
                    };
                    // RFC 9260 §6.10: TSNs in a packet ascend.
                    if let Some(before) = data_seen.replace(tsn) {
                        assert!(tsn.after(before), "{from:?}: {tsn} behind {before}");
                    }
                    assert!(!payload.is_empty(), "{from:?}: DATA without data");
                    self.data_sent(net, from, flight, tsn, stream, payload);
                }
                // RFC 9260 §6.10: control chunks come before DATA.
                other if data_seen.is_some() => panic!("{from:?}: {other} behind DATA"),
                Chunk::Sack(sack) => {
                    assert!(
                        !acknowledges_for_good(net, from),
                        "{from:?}: a SACK where NR-SACKs were agreed on"
                    );
                    self.sack_sent(from, &sack, sack.gaps());
                }
                Chunk::NrSack(nr) => {
                    assert!(acknowledges_for_good(net, from), "{from:?}: {nr} where it was not agreed on");
                    assert_eq!(nr.sack.gaps().len(), 0, "{from:?}: {nr}: nothing is dropped again");
                    self.forgotten |= nr.nr_gaps().len() > 0;
                    self.sack_sent(from, &nr.sack, nr.nr_gaps());
                }
                Chunk::ReConfig(chunk) => {
                    for param in chunk.params() {
                        if let ReConfigParam::Response { response, next: Some((_, next)), .. } = param {
                            self.renumbered(from, response, next);
                        }
                    }
                }
                Chunk::ForwardTsn(forward) => {
                    let skipped_streams = forward.streams().map(|skipped| (skipped.stream, false)).collect();
                    self.forward_sent(net, from, forward.cumulative, false, skipped_streams);
                }
                Chunk::IForwardTsn(forward) => {
                    let skipped_streams =
                        forward.streams().map(|skipped| (skipped.stream, skipped.unordered)).collect();
                    self.forward_sent(net, from, forward.cumulative, true, skipped_streams);
                }
                Chunk::Unknown(unknown) => panic!("{from:?}: {unknown}"),
                _ => {}
            }
        }
    }

    fn arrives(&mut self, net: &Net, to: Side, flight: &Flight) {
        let Some(packet) = parse(&flight.bytes) else { return };
        let end = &net.ends[to as usize];
        let info = end.ids.last().and_then(|&id| end.engine.info(id));
        let asking = info.is_some_and(|info| info.state == AssociationState::CookieWait);
        for chunk in packet.chunks().flatten() {
            let gaps: Vec<GapBlock> = match chunk {
                Chunk::NrSack(nr) => nr.all_gaps().collect(),
                Chunk::Sack(sack) => sack.gaps().collect(),
                _ => Vec::new(),
            };
            let chunk = if let Chunk::NrSack(nr) = chunk { Chunk::Sack(nr.sack) } else { chunk };
            let (cumulative, window) = match chunk {
                // This SACK belongs to the previous association, whose cookie was stale. The receiving side has sent a
                // new INIT since.
                Chunk::Sack(_) if asking => continue,
                // TSNs that gap blocks report are not outstanding, so they do not count against the window.
                Chunk::Sack(sack) => {
                    let mine = &self.sides[to as usize];
                    let reported: usize = gaps
                        .iter()
                        .flat_map(|gap| gap.start..=gap.end)
                        .filter_map(|n| mine.content.get(&sack.cumulative.plus(u32::from(n)).0))
                        .map(|(length, _)| length)
                        .sum();
                    (sack.cumulative, u64::from(sack.window) + reported as u64)
                }
                Chunk::Shutdown(_) => {
                    // A SHUTDOWN acknowledges data but advertises no window. After a SHUTDOWN the checker cannot
                    // compute the peer's window.
                    self.sides[to as usize].window_unknown = true;
                    continue;
                }
                Chunk::Init(init) => {
                    self.sides[to as usize].window = u64::from(init.window);
                    continue;
                }
                Chunk::InitAck(init) => {
                    self.sides[to as usize].window = u64::from(init.0.window);
                    continue;
                }
                _ => continue,
            };
            let mine = &mut self.sides[to as usize];
            // RFC 3758 §3.5 A2: the acknowledgement of an abandoned TSN must not increase the congestion window.
            if let (Some((from, point)), Some((before, _)), Chunk::Sack(sack)) =
                (mine.skipping, mine.acknowledged, chunk)
            {
                let only = before.at_or_after(from)
                    && sack.cumulative.after(before)
                    && point.at_or_after(sack.cumulative);
                if only && sack.has_no_gaps_or_duplicates() && gaps.is_empty() {
                    mine.windows = end.ids.last().and_then(|&id| windows(net, to, id));
                }
            }
            let mine = &mut self.sides[to as usize];
            // The SACK acknowledges TSNs from before a TSN reset (RFC 6525 §5.2.4), so it is skipped.
            if mine.highest.is_some_and(|highest| highest.0.wrapping_sub(cumulative.0) > 1 << 24) {
                continue;
            }
            mine.acknowledged = match mine.acknowledged {
                // Of several SACKs with the same cumulative TSN, the largest window counts, because they may arrive in
                // any order.
                Some((before, most)) if before == cumulative => Some((before, most.max(window))),
                Some((before, most)) if before.after(cumulative) => Some((before, most)),
                _ => {
                    mine.window = 0;
                    Some((cumulative, window))
                }
            };
            if let Some((cumulative, _)) = mine.acknowledged {
                // The checker keeps the content of a TSN for a while after the TSN is acknowledged. A T3-rtx that
                // expired before the acknowledgement may have sent the TSN again.
                if mine.content.len() > 4_000 {
                    mine.content.retain(|&tsn, _| Tsn(tsn).plus(2_000).after(cumulative));
                }
            }
        }
    }

    fn settled(&mut self, net: &Net) {
        for side in [A, B] {
            let end = &net.ends[side as usize];
            let Some(info) = end.ids.last().and_then(|&id| end.engine.info(id)) else { continue };
            if info.state == AssociationState::Closed {
                continue;
            }
            if let Some(before) = self.sides[side as usize].windows.take() {
                let losses = stats_of(net, side).fast_recoveries;
                for ((of, before), path) in before.into_iter().zip(&info.paths) {
                    // An ECN echo, or the answer to a tail loss probe, may set the window to 4 packets. So growth up to
                    // this size is allowed.
                    let least = 4 * u64::from(path.mtu);
                    let grew = of == (path.state, path.mtu, losses) && path.cwnd > before.max(least);
                    // In ProbeRTT, BBR reduces its window to at most 4 packets. So growth from such a window is
                    // allowed.
                    let grew = grew && !(self.bbr[side as usize] && before <= least);
                    assert!(!grew, "{side:?}: {} after {before} by what was given up", path.cwnd);
                }
            }
            let flight: u64 = info.paths.iter().map(|path| path.flight).sum();
            let most = self.sides[side as usize].unacknowledged();
            assert!(
                flight <= most || self.addresses_change,
                "{side:?}: {flight} in flight on paths, {most} not acknowledged"
            );
            let given_up =
                end.ids.last().and_then(|&id| end.engine.stats(id)).unwrap_or_default().abandoned_sent;
            assert!(
                flight == 0 || info.outstanding + given_up > 0,
                "{side:?}: {flight} in flight, nothing outstanding"
            );
            assert!(info.buffered >= info.outstanding, "{side:?}: outstanding bytes stay in the send buffer");
            assert!(
                info.outstanding == 0 || end.engine.poll_timeout().is_some(),
                "{side:?}: {} bytes outstanding and no timer",
                info.outstanding
            );
            assert!(info.paths.iter().filter(|path| path.primary).count() <= 1);
            assert!(info.paths.iter().all(|path| path.cwnd >= 1 && path.rto.as_nanos() > 0));
        }
    }
}
