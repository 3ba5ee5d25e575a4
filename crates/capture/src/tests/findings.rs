//! Tests of the rules that find why a conversation was slow. For each rule, three captures have the fault, and three
//! near misses do not.

mod closing;
mod flow_control;
mod losses;
mod network;
mod quic;
mod recovery;
mod recreated;
mod sending;
mod window;

use super::*;
use crate::results::{Conversation, Finding};
use crate::timeline::{Entry, Event, Timeline};
use crate::{EVENTS, rules};

static BYTES: [u8; 4_096] = [7; 4_096];

/// Adds one packet to a capture.
type Step = Box<dyn FnOnce(&mut CaptureBuilder)>;

/// A scene: the packets of a capture with their times in milliseconds, in any order.
struct Scene(Vec<(u32, Step)>);

impl Scene {
    /// Begins with the handshake of an association, whose round trip takes 50 ms. A sends TSN 100 first.
    fn sctp() -> Self {
        Self(Vec::new()).at(0, open)
    }

    /// Begins with the handshake of a TCP connection without window scaling, whose round trip takes 50 ms.
    fn tcp() -> Self {
        Self(Vec::new()).handshake(0)
    }

    /// Adds the handshake of a TCP connection.
    fn handshake(self, millis: u32) -> Self {
        self.segment(millis, A, syn(0, Flags::SYN), 0)
            .segment(millis + 50, B, syn(1, Flags::SYN.with(Flags::ACK)), 0)
            .segment(millis + 50, A, acknowledgement(0, 0, 10_000), 0)
    }

    fn at(mut self, millis: u32, write: impl FnOnce(&mut CaptureBuilder) + 'static) -> Self {
        self.0.push((millis, Box::new(write)));
        self
    }

    /// Adds an SCTP packet of A or B.
    fn chunk(self, millis: u32, from: Ipv4Addr, write: impl FnOnce(&mut Vec<u8>) + 'static) -> Self {
        let (to, tag) = if from == A { (B, TAG_B) } else { (A, TAG_A) };
        self.at(millis, move |tape| tape.sctp(millis, from, to, tag, write))
    }

    /// Adds a message of 100 bytes on stream 0.
    fn data(self, millis: u32, tsn: u32) -> Self {
        self.chunk(millis, A, move |b| data(tsn, 0).emit(b))
    }

    /// Adds a message of this size on stream 0.
    fn sized(self, millis: u32, tsn: u32, bytes: usize) -> Self {
        self.chunk(millis, A, move |b| Data { payload: &BYTES[..bytes], ..data(tsn, 0) }.emit(b))
    }

    /// Adds a SACK of B with this window.
    fn sack(self, millis: u32, cumulative: u32, window: u32) -> Self {
        self.chunk(millis, B, move |b| Sack { window, ..sack(cumulative, &[], &[]) }.emit(b))
    }

    /// Adds a SACK of B with one gap block.
    fn gap(self, millis: u32, cumulative: u32, start: u16, end: u16) -> Self {
        self.chunk(millis, B, move |b| {
            Sack { gaps: &[GapBlock { start, end }], ..sack(cumulative, &[], &[]) }.emit(b);
        })
    }

    /// Adds a TCP segment with this number of bytes.
    fn segment(self, millis: u32, from: Ipv4Addr, header: Header, bytes: usize) -> Self {
        self.at(millis, move |tape| segment(tape, millis, from, header, &BYTES[..bytes]))
    }

    /// Adds a TCP segment with these bytes.
    fn payload(self, millis: u32, from: Ipv4Addr, header: Header, bytes: Vec<u8>) -> Self {
        self.at(millis, move |tape| segment(tape, millis, from, header, &bytes))
    }

    /// Adds a TCP segment of A with data.
    fn sends(self, millis: u32, seq: u32, bytes: usize) -> Self {
        self.segment(millis, A, acknowledgement(seq, 0, 10_000), bytes)
    }

    /// Adds an acknowledgement of B.
    fn acks(self, millis: u32, ack: u32, window: u16) -> Self {
        self.segment(millis, B, acknowledgement(0, ack, window), 0)
    }

    /// Adds a packet of another conversation, after which the capture ends.
    fn end(self, millis: u32) -> Self {
        self.at(millis, move |tape| {
            let packet = tape.ip(17, A2, B2, &[0; 8]);
            tape.frame(millis * 1_000, &packet);
        })
    }

    fn tape(mut self) -> CaptureBuilder {
        self.0.sort_by_key(|(millis, _)| *millis);
        let mut tape = CaptureBuilder::ethernet();
        self.0.into_iter().for_each(|(_, write)| write(&mut tape));
        tape
    }

    /// Returns the conversation of the capture.
    fn conversation(self) -> Conversation {
        let settings = Settings { max_events: EVENTS, key_log: quic::key_log(), ..Settings::default() };
        let mut decoded = decode("test", &self.tape().bytes[..], &settings).expect("a capture");
        assert_eq!(decoded.conversations.len(), 1, "{decoded:?}");
        decoded.conversations.remove(0)
    }
}

fn syn(ack: u32, flags: Flags) -> Header {
    Header { ack: Seq(ack), flags, window: 10_000, ..Header::default() }
}

/// Returns the header of a segment. The numbers are counted from the first byte of data.
fn acknowledgement(seq: u32, ack: u32, window: u16) -> Header {
    Header { seq: Seq(1 + seq), ack: Seq(1 + ack), flags: Flags::ACK, window, ..Header::default() }
}

fn segment(tape: &mut CaptureBuilder, millis: u32, from: Ipv4Addr, header: Header, payload: &[u8]) {
    let to = if from == A { B } else { A };
    let (source_port, target_port) = if from == A { (40_000, 80) } else { (80, 40_000) };
    let mut bytes = Vec::new();
    Header { source_port, target_port, ..header }.emit(&mut bytes);
    bytes.extend_from_slice(payload);
    tcp::seal(&mut bytes, from.into(), to.into());
    let packet = tape.ip(6, from, to, &bytes);
    tape.frame(millis * 1_000, &packet);
}

/// Checks that a rule reports a finding for each of the captures `faults`, and none for the captures `near_misses`.
/// Returns the findings.
fn check(rule: &str, faults: [Scene; 3], near_misses: [Scene; 3]) -> Vec<Finding> {
    let mut all = Vec::new();
    for (number, scene) in faults.into_iter().enumerate() {
        let findings = scene.conversation().findings;
        let found = findings.iter().find(|finding| finding.rule == rule).cloned();
        let found = found.unwrap_or_else(|| panic!("{rule}, fault {number}: {findings:#?}"));
        assert!(!found.packets.is_empty() && found.packets.iter().all(|packet| *packet > 0), "{found:?}");
        assert!(found.text.ends_with('.') && !found.text.contains("  "), "{found:?}");
        all.push(found);
    }
    for (number, scene) in near_misses.into_iter().enumerate() {
        let conversation = scene.conversation();
        let findings = &conversation.findings;
        assert!(
            findings.iter().all(|finding| finding.rule != rule),
            "{rule}, near miss {number}: {findings:#?}"
        );
    }
    all
}

/// Returns the findings for a conversation with these events: milliseconds, sender, and event. Used for protocols whose
/// packets are encrypted.
fn judged(transport: &'static str, events: &[(u64, usize, Event)], end: u64) -> Vec<Finding> {
    let mut conversation = Scene::tcp().conversation();
    conversation.transport = transport;
    let entry = |(packet, (millis, side, event)): (u64, &(u64, usize, Event))| Entry {
        packet,
        at: millis * 1_000_000,
        side: *side,
        event: *event,
    };
    let mut timeline = Timeline::new(usize::MAX);
    timeline.entries = (1..).zip(events).map(entry).collect();
    conversation.timeline = Some(Box::new(timeline));
    rules::judge(&mut conversation, end * 1_000_000);
    conversation.findings
}

/// A transfer of 200 chunks in which nothing goes wrong: four chunks in each round trip.
fn clean() -> Scene {
    let mut scene = Scene::sctp();
    for turn in 0..50 {
        for chunk in 0..4 {
            scene = scene.data(100 + turn * 50, 100 + turn * 4 + chunk);
        }
        scene = scene.sack(150 + turn * 50, 103 + turn * 4, 65_536);
    }
    scene
}

#[test]
fn a_clean_capture_has_no_finding() {
    let closed = clean()
        .chunk(3_000, A, |b| Shutdown { cumulative: Tsn(699) }.emit(b))
        .chunk(3_050, B, |b| ShutdownAck.emit(b))
        .chunk(3_050, A, |b| ShutdownComplete::default().emit(b))
        .end(60_000);
    for scene in [clean(), clean().end(60_000), closed] {
        assert_eq!(scene.conversation().findings, []);
    }
}

#[test]
fn findings_are_sorted_by_cost_and_shown_with_it() {
    let settings = Settings { max_events: EVENTS, ..Settings::default() };
    let scene = Scene::sctp()
        .data(100, 100)
        .data(1_200, 100)
        .sack(1_250, 100, 65_536)
        .data(1_250, 101)
        .data(2_300, 101)
        .sack(2_350, 101, 65_536)
        .data(2_350, 102)
        .data(3_400, 102)
        .sack(3_450, 102, 0)
        .end(10_000);
    let decoded = decode("test", &scene.tape().bytes[..], &settings).expect("a capture");
    let findings = &decoded.conversations[0].findings;
    let rules: Vec<&str> = findings.iter().map(|finding| finding.rule).collect();
    assert_eq!(rules, ["window_closed", "timeouts_only"]);
    let text = crate::why::render(&decoded);
    assert!(
        text.contains("\n     6.550 s  The receive window of B closed in packet 13 (0 bytes left)"),
        "{text}"
    );
    assert!(decoded.to_json().contains("\"rule\": \"timeouts_only\""));
}

/// If the last events of a capture were not kept, a rule that needs the end of a conversation must find nothing.
#[test]
fn without_the_last_events_nothing_is_called_unfinished() {
    let tape = Scene::sctp().data(100, 100).sack(150, 100, 0).data(151, 101).end(10_000).tape();
    for (max_events, found) in [(7, 0), (EVENTS, 1)] {
        let settings = Settings { max_events, ..Settings::default() };
        let decoded = decode("test", &tape.bytes[..], &settings).expect("a capture");
        let conversation = &decoded.conversations[0];
        assert_eq!((conversation.findings.len(), conversation.events_left_out > 0), (found, found == 0));
    }
}

/// If bytes of a capture are changed, no rule may panic.
#[test]
fn mutated_captures_never_panic() {
    let mut rng = Rng::new(1);
    let settings = Settings { max_events: EVENTS, ..Settings::default() };
    let tcp =
        (0..20).fold(Scene::tcp(), |scene, n| scene.sends(100 + n, n * 100, 100).acks(150 + n, n * 100, 900));
    for tape in [clean().tape(), tcp.tape()] {
        for _ in 0..300 {
            let mut bytes = tape.bytes.clone();
            for _ in 0..=rng.below(40) {
                // Changes no byte of the file header (24 bytes), but may change times and lengths of the records.
                let at = 24 + rng.below(bytes.len() as u64 - 24) as usize;
                bytes[at] = rng.next_u64() as u8;
            }
            if let Ok(decoded) = decode("test", &bytes[..], &settings) {
                let _ = crate::why::render(&decoded);
            }
        }
    }
}

/// A data channel is opened, carries messages, and is replaced by another channel on its stream. Each of the two
/// channels must have its own messages.
#[test]
fn data_channels_have_their_messages() {
    let dcep = |payload: &'static [u8]| Data { ppid: 50, payload, ..data(0, 1) };
    let opening: &[u8] = &[3, 0x81, 0, 0, 0, 0, 0, 5, 0, 4, 0, 0, b'c', b'h', b'a', b't'];
    let conversation = Scene::sctp()
        .chunk(100, A, move |b| Data { tsn: Tsn(100), ..dcep(opening) }.emit(b))
        .chunk(150, B, move |b| Data { tsn: Tsn(700), ..dcep(&[2]) }.emit(b))
        .chunk(151, B, |b| sack(100, &[], &[]).emit(b))
        .chunk(160, A, |b| Data { ppid: 53, ..data(101, 1) }.emit(b))
        .chunk(170, A, |b| Data { ppid: 53, ..data(102, 1) }.emit(b))
        .chunk(220, B, |b| sack(102, &[], &[]).emit(b))
        .chunk(230, B, |b| Data { ppid: 53, ..data(701, 1) }.emit(b))
        .chunk(300, A, move |b| Data { tsn: Tsn(103), ..dcep(opening) }.emit(b))
        .chunk(310, A, |b| Data { ppid: 53, ..data(104, 1) }.emit(b))
        .conversation();
    let [first, second] = &conversation.channels[..] else { panic!("{:?}", conversation.channels) };
    assert_eq!((first.label.as_str(), first.stream, first.by), ("chat", 1, "A"));
    assert_eq!((first.unordered, first.max_retransmits, first.max_lifetime_ms), (true, Some(5), None));
    assert_eq!((first.opened_ns, first.accepted_ns), (100_000_000, Some(150_000_000)));
    assert_eq!((first.messages, first.bytes), ([2, 1], [200, 100]));
    assert_eq!((second.messages, second.bytes, second.accepted_ns), ([1, 0], [100, 0], None));
    assert_eq!((first.most_unacknowledged, second.most_unacknowledged), ([200, 101], [116, 0]));
    assert_eq!(first.most_unacknowledged_ns, [Some(170_000_000), Some(230_000_000)]);
    let millis = |of: &[(u64, u64)]| of.iter().map(|(at, sum)| (at / 1_000_000, *sum)).collect::<Vec<_>>();
    assert_eq!(millis(&first.unacknowledged[0]), [(100, 16), (151, 0), (160, 100), (170, 200), (220, 0)]);
    assert_eq!(millis(&second.unacknowledged[0]), [(300, 16), (310, 116)]);
}
