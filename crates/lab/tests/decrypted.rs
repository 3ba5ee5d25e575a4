//! Tests that captures of encrypted races can be decoded completely. The decoded packets must agree with the results.

use anabranch_base::Rng;
use anabranch_capture::Settings;
use anabranch_capture::results::{Conversation, Decoded};
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::{batch, one};
use anabranch_results::Run;
use anabranch_transports::Transports;
use anabranch_wire::pcap::{Reader, Writer};

/// The networks, as flags of `race`. All have the default contestants.
const NETWORKS: [&[(&str, &str)]; 20] = [
    &[("loss", "0")],
    &[("loss", "1%")],
    &[("loss", "3%")],
    &[("loss", "5%"), ("rtt", "20ms")],
    &[("rate", "1mbit"), ("loss", "0")],
    &[("rate", "1mbit"), ("loss", "2%")],
    &[("rate", "100mbit"), ("rtt", "10ms"), ("loss", "0")],
    &[("rate", "100mbit"), ("rtt", "200ms"), ("loss", "1%")],
    &[("rtt", "400ms"), ("loss", "0")],
    &[("rtt", "400ms"), ("loss", "2%")],
    &[("queue", "20p"), ("loss", "0")],
    &[("queue", "10p"), ("rate", "5mbit"), ("loss", "0")],
    &[("aqm", "codel"), ("loss", "0")],
    &[("aqm", "fq-codel"), ("rate", "4mbit"), ("loss", "1%")],
    &[("loss", "ge:1%/30%")],
    &[("loss", "nth:50")],
    &[("mtu", "1280"), ("loss", "1%")],
    &[("rate", "500kbit"), ("rtt", "50ms"), ("loss", "0")],
    &[("rate", "20mbit"), ("queue", "2bdp"), ("loss", "2%")],
    &[("jitter", "5ms"), ("loss", "1%")],
];

/// In every network, the captures of the four default contestants must show the requests, bytes and retransmissions of
/// the results. A run without a capture must have the same result.
#[test]
fn captures_of_encrypted_races_show_the_results() {
    for network in NETWORKS {
        // All hosts of the page are merged, so that one server gets all requests.
        let flags = network.iter().copied().chain([("runs", "1"), ("origins", "merge")]);
        let plan = Draft::from_flags(flags)
            .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
            .expect("a plan");
        assert_eq!(plan.contestants.len(), 4);
        for contestant in 0..plan.contestants.len() {
            let scenario = batch::scenario(&plan, 0, Some(contestant), 1);
            let (runs, captures) = one::capture(&scenario).expect("captures");
            // Without a capture, the contestants use the placeholder cipher.
            assert_eq!(runs, one::run(&scenario).expect("a run"), "{network:?} {contestant}");
            let [run] = &runs[..] else { panic!("{} runs", runs.len()) };
            let end = run.page_ns.expect("a loaded page");
            let of = |host: &str| {
                let captured = captures.iter().find(|captured| captured.host == host);
                until(end, &captured.expect("a capture").pcapng)
            };
            compare(run, [&of("client"), &of("server")], &format!("{network:?} {contestant}"));
        }
    }
}

/// Decodes the packets of a capture up to the moment at which the client had received the page. Results do not count
/// later packets, such as those that close the connections.
fn until(end: u64, pcapng: &[u8]) -> Decoded {
    let mut reader = Reader::new(pcapng).expect("a capture");
    let mut writer = Writer::new(Vec::new(), "test").expect("a section");
    writer.interface("all", 0).expect("an interface");
    let mut settings = Settings::default();
    while let Some(record) = reader.next_packet().expect("a packet") {
        settings.key_log.extend(record.secrets);
        if record.at_nanos <= end {
            writer.packet(0, record.at_nanos, record.packet, record.direction, None).expect("a packet");
        }
    }
    let bytes = writer.finish().expect("nothing to flush");
    anabranch_capture::decode("", &bytes[..], &settings).expect("a capture")
}

/// Compares a run with the captures of its client and its server.
fn compare(run: &Run, captures: [&Decoded; 2], context: &str) {
    for (direction, expected) in
        [run.packets.up.retransmitted, run.packets.down.retransmitted].into_iter().enumerate()
    {
        // The sender's own capture shows every retransmission, because it also contains the original packet.
        let found = |talk: &Conversation| talk.directions[direction].retransmitted_packets;
        let found: u64 = captures[direction].conversations.iter().map(found).sum();
        assert_eq!(found, expected, "retransmitted in direction {direction}: {context}");
    }
    for decoded in captures {
        for security in decoded.conversations.iter().filter_map(|talk| talk.security.as_ref()) {
            assert_eq!(security.sealed, 0, "{context}: {security:?}");
        }
        let requests = decoded.conversations.iter().flat_map(|talk| &talk.requests);
        let mut bodies: Vec<u64> =
            requests.filter(|request| request.done_ns.is_some()).map(|r| r.bytes[1]).collect();
        let mut objects: Vec<u64> = run.objects.iter().map(|object| object.bytes).collect();
        let messages = decoded.conversations.iter().find(|talk| talk.transport == "sctp");
        if let Some(talk) = messages {
            // The capture shows each request as one message. Sizes are not compared, because the messages of a response
            // also contain its head.
            assert_eq!(talk.directions[0].messages, objects.len() as u64, "{context}");
            continue;
        }
        bodies.sort_unstable();
        objects.sort_unstable();
        assert_eq!(bodies, objects, "{context}");
    }
}

/// Damaged packets of encrypted connections must not cause a panic.
#[test]
fn damaged_packets_are_decoded_without_a_panic() {
    let plan = Draft::from_flags([("runs", "1"), ("loss", "0")])
        .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
        .expect("a plan");
    let (_, captures) = one::capture(&batch::scenario(&plan, 0, Some(0), 1)).expect("captures");
    let mut rng = Rng::new(1);
    for captured in captures {
        let mut reader = Reader::new(&captured.pcapng).expect("a capture");
        let (mut settings, mut packets) = (Settings::default(), Vec::new());
        while let Some(record) = reader.next_packet().expect("a packet").filter(|_| packets.len() < 40) {
            settings.key_log.extend(record.secrets);
            packets.push((record.at_nanos, record.packet.to_vec()));
        }
        for _ in 0..200 {
            let mut writer = Writer::new(Vec::new(), "test").expect("a section");
            writer.interface("all", 0).expect("an interface");
            for (at, packet) in &packets {
                let mut packet = packet.clone();
                // The IP headers are not damaged, so that the packets reach the decoders of encryption.
                if rng.below(4) == 0 && packet.len() > 28 {
                    let byte = 28 + rng.below(packet.len() as u64 - 28) as usize;
                    packet[byte] = rng.next_u64() as u8;
                }
                writer.packet(0, *at, &packet, None, None).expect("a packet");
            }
            let bytes = writer.finish().expect("nothing to flush");
            anabranch_capture::decode("", &bytes[..], &settings).expect("a capture");
        }
    }
}
