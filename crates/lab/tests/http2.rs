//! Tests contestants that use HTTP/2 over TCP, in virtual time: the streams, their order, and how response times are
//! divided into their parts.

use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::{batch, one};
use anabranch_results::{Outcome, Run};
use anabranch_transports::Transports;
use anabranch_wire::pcap::Reader;

fn plan(flags: &[(&str, &str)]) -> Result<Plan, String> {
    let draft = Draft::from_flags(flags.iter().copied().chain([("runs", "1")])).expect("flags");
    Plan::interpret(draft, &Transports::standard()).map_err(|error| error.to_string())
}

/// Runs one contestant, which must deliver everything. The parts of each object's response time must add up. The page
/// time must not be below `limit_ns`, the lower bound that the network sets.
fn run(transport: &str, flags: &[(&str, &str)], seed: u64) -> Run {
    let flags: Vec<_> = flags.iter().copied().chain([("transport", transport)]).collect();
    let plan = plan(&flags).expect("a plan");
    let run = one::run(&batch::scenario(&plan, 0, Some(0), seed)).expect("a run").remove(0);
    let failed: Vec<_> = run.objects.iter().filter(|object| object.failure.is_some()).collect();
    assert_eq!(run.outcome, Outcome::Done, "{transport}: {failed:?}");
    assert!(run.page_ns >= run.limit_ns, "{transport} beats the limit");
    for object in &run.objects {
        let why = object.why.expect("delivered");
        assert!(why.is_whole(), "{transport} {}: {why:?}", object.name);
        assert_eq!(why.sum(), object.delivered_ns.expect("delivered") - object.issued_ns.expect("issued"));
    }
    run
}

const NET: [(&str, &str); 2] = [("rate", "10mbit"), ("rtt", "100ms")];

/// Over HTTP/2, the client sends ten requests together. The page takes one round trip for each handshake (TCP, and TLS
/// if used), one for the requests, and the transmission time of the bytes. HTTP/1.1 sends the requests one by one.
#[test]
fn requests_are_streams_of_one_connection() {
    let flags = [NET[0], NET[1], ("objects", "10x1kB")];
    for transport in ["tcp:http=2,tls=yes", "tcp:http=2"] {
        let run = run(transport, &flags, 1);
        let round_trips = if transport.contains("tls") { 3 } else { 2 };
        let page = run.page_ns.expect("done") / 1_000_000;
        assert!((round_trips * 100..round_trips * 100 + 40).contains(&page), "{transport}: {page} ms");
        assert_eq!(run.connections, 1);
        let streams: Vec<_> = run.objects.iter().map(|object| object.stream.expect("ridden")).collect();
        assert_eq!(streams, (0..10).map(|n| 2 * n + 1).collect::<Vec<u64>>());
    }
    // HTTP/2 compresses the heads of requests and responses, which have 400 and 300 bytes.
    let [old, new] = ["tcp", "tcp:http=2"].map(|transport| run(transport, &flags, 1).wire_bytes);
    assert!(new.up + 2_000 < old.up && new.down + 1_000 < old.down, "{old:?} {new:?}");
}

/// HTTP/2 over TCP: a lost packet of one stream delays all streams. With one object on the connection, the recorded
/// blocked time must be 0. With many objects on the connection, it must be greater than 0.
#[test]
fn blocking_is_across_streams() {
    let blocked = |flags: &[(&str, &str)]| -> u64 {
        let runs = (1..=10).map(|seed| run("tcp:http=2,tls=yes", flags, seed));
        runs.flat_map(|run| run.objects)
            .map(|object| object.why.and_then(|breakdown| breakdown.blocked_ns).expect("known"))
            .sum()
    };
    let [one, many] = ["1x200kB", "20x10kB"]
        .map(|objects| blocked(&[NET[0], NET[1], ("objects", objects), ("loss", "3%")]));
    assert_eq!(one, 0);
    assert!(many > 0);
}

/// One packet is lost. The packets at the client show when the gap opened and when it was filled. Objects on other
/// streams that arrive completely during the gap must be `blocked` until exactly the time of the fill.
#[test]
fn what_is_blocked_is_what_the_packets_show() {
    for transport in ["tcp:http=2", "tcp:http=2,tls=yes"] {
        let flags =
            [NET[0], NET[1], ("objects", "20x10kB"), ("down-loss", "list:45"), ("transport", transport)];
        let plan = plan(&flags).expect("a plan");
        let (runs, hosts) = one::capture(&batch::scenario(&plan, 0, Some(0), 1)).expect("a capture");
        let client = hosts.iter().find(|host| host.host == "client").expect("it is there");
        // The TCP segments of the server: arrival time, sequence number, payload length.
        let mut segments: Vec<(u64, u32, u32)> = Vec::new();
        let mut reader = Reader::new(&client.pcapng).expect("a capture");
        while let Some(record) = reader.next_packet().expect("whole") {
            let (ip, packet) = (usize::from(record.packet[0] & 15) * 4, record.packet);
            let (tcp, number) = (&packet[ip..], |at: usize| {
                u32::from_be_bytes(packet[at..at + 4].try_into().expect("four bytes"))
            });
            let length = packet.len() - ip - usize::from(tcp[12] >> 4) * 4;
            if u16::from_be_bytes([tcp[0], tcp[1]]) == 8000 && length > 0 {
                segments.push((record.at_nanos, number(ip + 4), length as u32));
            }
        }
        let after_hole = segments.windows(2).position(|pair| pair[1].1 != pair[0].1.wrapping_add(pair[0].2));
        let after_hole = after_hole.expect("a hole") + 1;
        let missing = segments[after_hole - 1].1.wrapping_add(segments[after_hole - 1].2);
        let filled = segments.iter().find(|segment| segment.1 == missing).expect("sent again").0;
        let mut blocked = 0;
        for object in &runs[0].objects {
            let (why, instants) = (object.why.expect("delivered"), object.instants.expect("known"));
            if why.blocked_ns == Some(0) {
                continue;
            }
            blocked += 1;
            assert_eq!(
                object.delivered_ns,
                Some(filled),
                "{transport} {}: it waited for the hole",
                object.name
            );
            let last = segments.iter().filter(|segment| segment.0 == instants.complete_ns);
            assert!(
                last.clone().all(|segment| segment.1 > missing),
                "{transport}: what completed it came behind"
            );
            assert_eq!(last.count(), 1, "{transport} {}: a packet completed it", object.name);
            assert_eq!(why.blocked_ns, Some(filled - instants.complete_ns));
            assert_eq!((why.recovery_ns, why.timeout_ns), (Some(0), Some(0)), "it lost nothing itself");
        }
        assert!(blocked >= 2, "{transport}: {blocked} of {:?}", runs[0].objects);
    }
}

/// A page's style sheets and scripts must arrive before its images, even if the images were requested earlier or at the
/// same time.
#[test]
fn the_urgent_come_first() {
    let run = run("tcp:http=2,tls=yes", &[NET[0], NET[1], ("page", "news")], 1);
    let plan = plan(&[("page", "news"), ("transport", "tcp")]).expect("a plan");
    let page = &plan.points[0].workload.page;
    // Each style sheet must arrive before the last of the images that were requested at the same time.
    let first = |kind: &str| -> Vec<(u64, u64)> {
        let of =
            page.objects.iter().zip(&run.objects).filter(|(object, _)| object.content_type.starts_with(kind));
        of.map(|(_, object)| (object.issued_ns.expect("issued"), object.delivered_ns.expect("delivered")))
            .collect()
    };
    let (sheets, images) = (first("text/css"), first("image/"));
    assert!(!sheets.is_empty() && !images.is_empty());
    for (issued, delivered) in sheets {
        let together: Vec<u64> =
            images.iter().filter(|image| image.0 == issued).map(|image| image.1).collect();
        let last = together.iter().max().copied().unwrap_or(u64::MAX);
        assert!(delivered < last, "a sheet at {delivered}, images until {last}");
    }
}

/// A window smaller than the bandwidth-delay product must slow a transfer down.
#[test]
fn windows_are_in_force() {
    let page = |windows: &str| {
        let flags = [("rate", "100mbit"), ("rtt", "100ms"), ("objects", "1x2MB")];
        run(&format!("tcp:http=2,{windows}"), &flags, 1).page_ns.expect("done") / 1_000_000
    };
    let (chromium, rfc) = (page("windows=chromium"), page("windows=rfc"));
    // With a window of 64 KiB, a transfer of 2 MB would need 31 round trips. The transfer needs fewer, because the
    // crate `h2` grants more bytes as soon as half of a window is used.
    assert!(chromium < 1_500 && rfc > 2_000, "{chromium} {rfc}");
    let large = page("windows=rfc,stream-window=6MiB,connection-window=15MiB");
    assert_eq!(large, chromium);
    assert_eq!(page("windows=nginx"), chromium);
    // Chromium's window is smaller than the bandwidth-delay product of this path.
    let page = |windows: &str| {
        let flags = [("rate", "1gbit"), ("rtt", "200ms"), ("queue", "30MB"), ("objects", "1x100MB")];
        run(&format!("tcp:http=2,iw=64,rcvbuf=64MiB,sndbuf=64MiB,{windows}"), &flags, 1)
            .page_ns
            .expect("done")
            / 1_000_000
    };
    let (nginx, chromium) = (page("windows=nginx"), page("windows=chromium"));
    assert!(3 * nginx < 2 * chromium, "{nginx} {chromium}");
}

#[test]
fn the_same_seed_gives_the_same_captures() {
    let plan =
        plan(&[("page", "news"), ("transport", "tcp:http=2,tls=yes"), ("loss", "2%")]).expect("a plan");
    let captures = |seed| one::capture(&batch::scenario(&plan, 0, Some(0), seed)).expect("a capture").1;
    let first = captures(1);
    assert!(first == captures(1), "captures repeat byte for byte");
    assert!(first != captures(2));
}

#[test]
fn what_does_not_go_together_is_refused_in_one_line() {
    for (transport, line) in [
        ("tcp:http=3", "http=3: write 1 or 2"),
        ("tcp:windows=chromium", "windows=chromium: needs http=2"),
        ("tcp:http=2,windows=opera", "windows=opera: write one of chromium, firefox, nginx, rfc"),
        ("tcp:http=2,pipeline=yes", "pipeline is of HTTP/1.1: with http=2 each request has a stream"),
        ("tcp:http=2,frame=1kB", "frame=1kB: write a size from 16384B to "),
        ("tcp:http=2,concurrent=0", "concurrent=0: write a number from 1 to 128"),
        ("sctp:http=2", "'http' is a key of tcp"),
    ] {
        let error = plan(&[("transport", transport)]).expect_err(transport);
        assert!(error.contains(line) && !error.contains('\n'), "{transport}: {error}");
    }
}
