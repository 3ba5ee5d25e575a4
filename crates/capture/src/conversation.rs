//! One SCTP association or TCP connection while it is read from a capture: its sides, paths, ladder diagram, and data.
//!
//! This module has the parts that SCTP and TCP share. Its memory is bounded: addresses, paths, ladder lines and
//! remembered copies have maximum numbers, and [`Tracks`] limits its own memory.

use super::Settings;
use super::arrival::{Arrival, Checksum, Side};
use super::copies::{Copies, CopyKind};
use super::data_class::{Cause, DataClass};
use super::frame;
use super::results::{
    self, Conversation, ConversationEnd, Direction, Handshake, PathDirection, Request, Retransmitted,
    Security, Stream,
};
use super::timeline::{Event, Losses, Timeline};
use super::track::{History, SpuriousRetransmission, Tracks};
use super::views::View;
use super::waiting;
use anabranch_wire::ladder::{self, Numbers};
use std::collections::BTreeMap;
use std::net::IpAddr;

/// The maximum number of address pairs that are distinguished. Packets of further pairs count for the last
/// distinguished pair.
const MAX_PATHS: usize = 256;
#[derive(Debug)]
struct Line {
    text: String,
    remark: String,
}

/// A conversation while its packets are read from the capture.
#[derive(Debug)]
pub(super) struct ConversationBuilder {
    pub addresses: [Vec<IpAddr>; 2],
    pub ports: [u16; 2],
    pub tags: [Option<u32>; 2],
    pub udp_ports: Option<[u16; 2]>,
    /// The names of the tunnels around the first packet that was captured in a tunnel.
    tunnel: Vec<&'static str>,
    first: u64,
    last: u64,
    pub handshake: Handshake,
    /// The times of four handshake packets in nanoseconds; `None` until the packet is captured. For SCTP, they are the
    /// first INIT, the last INIT, the INIT ACK and the COOKIE ECHO. For TCP, they are the first SYN, the last SYN, the
    /// SYN ACK and the ACK of the SYN ACK.
    pub opening: [Option<u64>; 4],
    pub end: ConversationEnd,
    pub directions: [Direction; 2],
    pub tracks: Tracks,
    /// The TSN or sequence number on the wire that [`Track`](super::track::Track) counts as 0, for each direction.
    pub firsts: [Option<u32>; 2],
    paths: Vec<([IpAddr; 2], [PathDirection; 2])>,
    copies: Copies,
    /// The numbering of the ladder diagram, created with its first line.
    numbers: Option<Box<Numbers>>,
    lines: Vec<Line>,
    max_lines: usize,
    lines_left_out: u64,
    pub security: Option<Box<Security>>,
    pub requests: Vec<Request>,
    pub requests_left_out: u64,
    views: Box<[View; 2]>,
    max_view_items: usize,
    /// The events from which the findings are derived, if findings were requested. A finding is a reason why the
    /// conversation was slow or failed.
    timeline: Option<Box<Timeline>>,
}

impl ConversationBuilder {
    /// Creates a conversation whose first packet is `arrival`.
    pub fn new(arrival: &Arrival<'_>, ports: [u16; 2], settings: &Settings) -> Self {
        let mut addresses = [vec![arrival.source], vec![arrival.target]];
        if arrival.side == 1 {
            addresses.swap(0, 1);
        }
        Self {
            addresses,
            ports,
            tags: [None; 2],
            udp_ports: None,
            tunnel: arrival.tunnel.to_vec(),
            first: arrival.at,
            last: arrival.at,
            handshake: Handshake::default(),
            opening: [None; 4],
            end: ConversationEnd { how: "open", ..ConversationEnd::default() },
            directions: [Direction::default(), Direction::default()],
            tracks: Tracks::default(),
            firsts: [None; 2],
            paths: Vec::new(),
            copies: Copies::default(),
            numbers: None,
            lines: Vec::new(),
            max_lines: settings.ladder_lines,
            lines_left_out: 0,
            security: None,
            requests: Vec::new(),
            requests_left_out: 0,
            views: Box::default(),
            max_view_items: settings.max_view_items,
            timeline: (settings.max_events > 0).then(|| Box::new(Timeline::new(settings.max_events))),
        }
    }

    /// Counts a packet. Returns the index of its path. Returns `None` if the packet is damaged or is a copy; the caller
    /// must then ignore the packet.
    pub fn arrive(&mut self, arrival: &Arrival<'_>) -> Option<usize> {
        self.extend(arrival.at);
        if self.tunnel.is_empty() && !arrival.tunnel.is_empty() {
            self.tunnel = arrival.tunnel.to_vec();
        }
        for (side, address) in [(arrival.side, arrival.source), (1 - arrival.side, arrival.target)] {
            if !self.addresses[side].contains(&address) && self.addresses[side].len() < MAX_PATHS {
                self.addresses[side].push(address);
            }
        }
        let direction = &mut self.directions[arrival.side];
        if arrival.checksum == Checksum::Wrong {
            direction.damaged += 1;
            return None;
        }
        if let Some(copy) = self.copies.of(arrival) {
            direction.copies += 1;
            direction.captured_twice += u64::from(copy == CopyKind::OtherPlace);
            return None;
        }
        if let Some(timeline) = &mut self.timeline {
            timeline.packet(arrival);
        }
        direction.checksums_left += u64::from(arrival.checksum == Checksum::Left);
        direction.packets += 1;
        direction.wire_bytes += arrival.wire_len;
        let path = self.path(arrival);
        let on = &mut self.paths[path].1[arrival.side];
        on.packets += 1;
        on.wire_bytes += arrival.wire_len;
        on.span_ns = Some([on.span_ns.map_or(arrival.at, |[first, _]| first), arrival.at]);
        Some(path)
    }

    /// Extends the time span of the conversation, so that it includes `at`.
    pub fn extend(&mut self, at: u64) {
        self.first = self.first.min(at);
        self.last = self.last.max(at);
    }

    fn path(&mut self, arrival: &Arrival<'_>) -> usize {
        let mut pair = [arrival.source, arrival.target];
        if arrival.side == 1 {
            pair.swap(0, 1);
        }
        if let Some(known) = self.paths.iter().position(|(other, _)| *other == pair) {
            return known;
        }
        if self.paths.len() < MAX_PATHS {
            // Reserves memory for exactly one path. A path is large, and most conversations have only one.
            self.paths.reserve_exact(usize::from(self.paths.is_empty()));
            self.paths.push((pair, Default::default()));
        }
        self.paths.len() - 1
    }

    /// Returns the counters of the packets that `side` sent on `path`.
    pub fn on_path(&mut self, path: usize, side: Side) -> &mut PathDirection {
        &mut self.paths[path].1[side]
    }

    /// Classifies and counts a piece of data. `wire` holds its first and last TSN or sequence number on the wire.
    pub fn data(
        &mut self,
        arrival: &Arrival<'_>,
        path: usize,
        units: (i64, i64),
        stream: u16,
        wire: [u32; 2],
    ) -> DataClass {
        let side = arrival.side;
        let class = self.tracks.of(side).sent(arrival.at, units.0, units.1, stream, path);
        let track = self.tracks.of(side);
        let state = (track.cumulative(), track.flight());
        self.classified(arrival, path, units, stream.into(), wire, class);
        self.show_state(arrival.at, side, state);
        if self.max_lines > 0 {
            // The next ladder line will show this packet. The line is marked later if the retransmission turns out to
            // be spurious. If the ladder is full, `None` makes sure that no earlier line is marked instead.
            let line = self.next_line();
            self.tracks.of(side).drawn(units.0, units.1, line);
        }
        class
    }

    /// Returns the index of the ladder line that the next packet gets, or `None` if the ladder is full.
    pub fn next_line(&self) -> Option<usize> {
        (self.lines.len() < self.max_lines).then_some(self.lines.len())
    }

    /// Records the first TSN, byte or packet number that is not acknowledged, and the number of those in flight.
    pub fn show_state(&mut self, at: u64, side: Side, (cumulative, flight): (i64, i64)) {
        if self.max_view_items > 0 {
            self.views[side].state(self.max_view_items, at, cumulative, flight);
        }
    }

    /// Counts a piece of data that has been classified.
    pub fn classified(
        &mut self,
        arrival: &Arrival<'_>,
        path: usize,
        units: (i64, i64),
        stream: u64,
        wire: [u32; 2],
        class: DataClass,
    ) {
        let side = arrival.side;
        self.paths[path].1[side].data += 1;
        if let DataClass::Retransmitted { cause, inferred, spurious } = class {
            let stream =
                self.directions[side].streams.get_mut(&stream).map(|stream| &mut stream.retransmitted);
            let targets = [
                Some(&mut self.paths[path].1[side].retransmitted),
                stream,
                Some(&mut self.directions[side].retransmitted),
            ];
            for retransmitted in targets.into_iter().flatten() {
                retransmitted.count(cause, inferred, spurious);
            }
        }
        if self.max_view_items > 0 {
            self.views[side].data(self.max_view_items, arrival.at, units, stream, class);
        }
        let first_here = !matches!(class, DataClass::Retransmitted { inferred: false, .. });
        let direction = &mut self.directions[side];
        if first_here {
            direction.data += 1;
            let [first, _] = direction.numbers.unwrap_or(wire);
            let last = if class == DataClass::New { wire[1] } else { direction.numbers.unwrap_or(wire)[1] };
            direction.numbers = Some([first, last]);
        }
        direction.reordered += u64::from(class == DataClass::Reordered);
    }

    /// Counts a packet with retransmitted data. `causes` has the cause of each retransmission, and whether it was
    /// spurious.
    pub fn carried_retransmitted(&mut self, side: Side, causes: &[(Cause, bool)]) {
        let direction = &mut self.directions[side];
        direction.retransmitted_packets += u64::from(!causes.is_empty());
        direction.fast_packets += u64::from(causes.iter().any(|(cause, _)| *cause == Cause::Fast));
    }

    /// Records what an acknowledgement from `side` has revealed about the other side's data: round-trip times and
    /// spurious retransmissions.
    pub fn settle(&mut self, at: u64, side: Side) {
        let peer = 1 - side;
        if self.tracks.known(peer).is_none() {
            return;
        }
        let track = self.tracks.of(peer);
        let (samples, needless) = (std::mem::take(&mut track.samples), std::mem::take(&mut track.spurious));
        let state = (track.cumulative(), track.flight());
        self.show_state(at, peer, state);
        for (path, sample) in samples {
            self.measured(at, peer, path, sample);
        }
        for found in needless {
            self.spurious(peer, found);
        }
    }

    /// Records a round-trip time that an acknowledgement of the data of `side` has shown.
    pub fn measured(&mut self, at: u64, side: Side, path: usize, sample: u64) {
        if self.max_view_items > 0 {
            self.views[side].round_trip(self.max_view_items, at, sample);
        }
        self.paths[path].1[side].rtt.add(sample);
        self.event(side, Event::RoundTrip(sample));
    }

    /// Adds the packets that each side lost to the timeline.
    pub fn losses(&mut self, of: impl Fn(Side) -> Losses) {
        if let Some(timeline) = &mut self.timeline {
            timeline.losses = [of(0), of(1)];
        }
    }

    /// Adds an event of the current packet to the timeline.
    pub fn event(&mut self, side: Side, event: Event) {
        if let Some(timeline) = &mut self.timeline {
            timeline.push(side, event);
        }
    }

    /// Records a retransmission of `side` that was found to be spurious after it had been captured.
    pub fn spurious(&mut self, side: Side, found: SpuriousRetransmission) {
        self.directions[side].retransmitted.spurious += 1;
        self.paths[found.path].1[side].retransmitted.spurious += 1;
        if let Some(stream) = self.directions[side].streams.get_mut(&found.stream) {
            stream.retransmitted.spurious += 1;
        }
        if let Some(line) = found.line.and_then(|line| self.lines.get_mut(line))
            && !line.remark.contains(SPURIOUS)
        {
            line.remark += SPURIOUS;
        }
    }

    /// Records an INIT or a SYN of side A.
    pub fn request(&mut self, at: u64) {
        self.handshake.seen = true;
        self.handshake.attempts += 1;
        self.opening[0].get_or_insert(at);
        self.opening[1] = Some(at);
    }

    /// Sets the first TSN or sequence number of a side's data, unless data of this side was already captured.
    pub fn set_first_tsn(&mut self, side: Side, first: u32) {
        if self.directions[side].data == 0 {
            self.firsts[side] = Some(first);
        }
    }

    /// Returns what earlier packets have shown about the data in `start..end`. Data that starts more than `reach` TSNs
    /// or bytes from the highest position captured or acknowledged so far does not belong to this conversation. For
    /// such data, returns [`History::Seen`].
    pub fn history(&mut self, side: Side, (start, end): waiting::Numbers, reach: i64) -> History {
        let Some(first) = self.firsts[side] else { return History::New };
        let track = self.tracks.of(side);
        let (start, end) = (track.unit(start, first), track.unit(end, first));
        if track.plausible(start, reach) { track.history(start, end) } else { History::Seen }
    }

    /// Sets the round-trip time between the hosts from the times of three handshake packets: a request, its answer, and
    /// the packet that followed the answer.
    pub fn round_trip(&mut self, [asked, answered, followed]: [u64; 3]) {
        let nanos = answered.saturating_sub(asked) + followed.saturating_sub(answered);
        self.handshake.rtt_ns = Some(nanos);
        for side in [0, 1] {
            self.tracks.of(side).round_trip = Some(nanos);
        }
    }

    /// Returns the counters of `stream`, on which `side` sends. If the stream has no counters yet, creates them with
    /// `tsn` as the first TSN.
    pub fn stream(&mut self, side: Side, stream: u64, tsn: u32) -> &mut Stream {
        let fresh = Stream { tsns: [tsn, tsn], ..Stream::default() };
        self.directions[side].streams.entry(stream).or_insert(fresh)
    }

    /// Adds a line for this packet to the ladder diagram, unless the diagram already has the maximum number of lines.
    /// `line` describes the packet.
    pub fn draw(
        &mut self,
        arrival: &Arrival<'_>,
        line: impl FnOnce(&mut Numbers, ladder::Side) -> String,
        remark: String,
    ) {
        if self.max_lines == 0 {
            return;
        }
        let side = if arrival.side == 0 { ladder::Side::Left } else { ladder::Side::Right };
        if self.lines.len() >= self.max_lines {
            self.lines_left_out += 1;
            return;
        }
        let numbers = self.numbers.get_or_insert_with(|| Box::new(Numbers::new("A", "B")));
        let line = line(numbers, side);
        let name = |side: Side, address: IpAddr| match self.addresses[side].iter().position(|a| *a == address)
        {
            None | Some(0) => ["A", "B"][side].to_owned(),
            Some(place) => format!("{}{}", ["A", "B"][side], place + 1),
        };
        let (from, to) = (name(arrival.side, arrival.source), name(1 - arrival.side, arrival.target));
        let head = match arrival.side {
            0 => format!("{from:<2} ──► {to:<2}"),
            _ => format!("{to:<2} ◄── {from:<2}"),
        };
        let micros = arrival.at / 1_000;
        let text =
            format!("{:>5}.{:06}  {head}  {}", micros / 1_000_000, micros % 1_000_000, line.trim_end());
        self.lines.push(Line { text, remark });
    }

    /// Discards the ladder diagram. Later packets are not added to a diagram.
    pub fn forget_ladder(&mut self) {
        (self.numbers, self.lines, self.max_lines, self.lines_left_out) = (None, Vec::new(), 0, 0);
    }

    /// Returns the results of this conversation.
    pub fn finish(self, transport: &'static str) -> Conversation {
        let mut directions = self.directions;
        for (side, direction) in directions.iter_mut().enumerate() {
            let Some(track) = self.tracks.known(side) else { continue };
            direction.rtt = track.rtt;
            direction.timeouts = track.timeouts;
            direction.not_captured = track.not_captured;
        }
        for direction in &mut directions {
            // If copies are at least half as many as packets, the copies are attributed to the capture, and not to the
            // network.
            if (direction.copies - direction.captured_twice) * 2 >= direction.packets {
                direction.captured_twice = direction.copies;
            }
        }
        let side = |side: Side| results::Side {
            addresses: self.addresses[side]
                .iter()
                .copied()
                .map(shown)
                .filter(|text| !text.is_empty())
                .collect(),
            port: self.ports[side],
            tag: self.tags[side],
        };
        let path = |(pair, directions): ([IpAddr; 2], [PathDirection; 2])| results::Path {
            addresses: pair.map(shown),
            directions,
        };
        let ladder = |line: Line| match line.remark.is_empty() {
            true => line.text,
            false => format!("{}     {}", line.text, line.remark),
        };
        Conversation {
            transport,
            sides: [side(0), side(1)],
            udp_ports: self.udp_ports,
            tunnel: self.tunnel,
            first_ns: self.first,
            last_ns: self.last,
            handshake: self.handshake,
            end: self.end,
            directions,
            paths: self.paths.into_iter().map(path).collect(),
            security: self.security,
            requests: self.requests,
            requests_left_out: self.requests_left_out,
            log: None,
            ladder: self.lines.into_iter().map(ladder).collect(),
            channels: Vec::new(),
            findings: Vec::new(),
            events_left_out: 0,
            timeline: self.timeline,
            views: *self.views,
            ladder_left_out: self.lines_left_out,
        }
    }
}

/// Formats an address. Returns an empty text for the unspecified address, which stands for the unknown addresses of
/// packets captured without an IP header.
pub(super) fn shown(address: IpAddr) -> String {
    match address {
        frame::LOCAL => "local".to_owned(),
        frame::REMOTE => "remote".to_owned(),
        _ if address.is_unspecified() => String::new(),
        _ => address.to_string(),
    }
}

/// The text appended to the ladder line of a spurious retransmission.
const SPURIOUS: &str = ", spurious";

impl Retransmitted {
    fn count(&mut self, cause: Cause, inferred: bool, spurious: bool) {
        match cause {
            Cause::Fast => self.fast += 1,
            Cause::Timeout => self.timeout += 1,
            Cause::Other => self.other += 1,
        }
        self.inferred += u64::from(inferred);
        self.spurious += u64::from(spurious);
    }
}

/// Returns the remark at the end of the ladder line of a packet that retransmits data.
pub(super) fn remark(causes: &[(Cause, bool)]) -> String {
    let mut names: BTreeMap<&str, bool> = BTreeMap::new();
    for (cause, spurious) in causes {
        let cause_name = match cause {
            Cause::Fast => "fast retransmission",
            Cause::Timeout => "timeout",
            Cause::Other => "retransmitted",
        };
        *names.entry(cause_name).or_default() |= spurious;
    }
    let spurious = names.values().any(|spurious| *spurious);
    let names: Vec<&str> = names.into_keys().collect();
    match names.is_empty() {
        true => String::new(),
        false => format!("↻ {}{}", names.join(", "), if spurious { SPURIOUS } else { "" }),
    }
}
