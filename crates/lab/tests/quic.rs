//! Tests QUIC as a contestant in virtual time: its handshakes, its streams, and the parts of its response times. Also
//! tests that equal runs have equal results.

use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::{batch, one};
use anabranch_results::{Outcome, Run};
use anabranch_transports::Transports;
use std::process::{Command, Stdio};

fn plan(flags: &[(&str, &str)]) -> Plan {
    let draft = Draft::from_flags(flags.iter().copied().chain([("runs", "1")])).expect("flags");
    Plan::interpret(draft, &Transports::standard()).expect("a plan")
}

/// Runs one contestant, which must deliver every object. All parts of an object's load time must be known, and must add
/// up to the load time.
fn run(transport: &str, flags: &[(&str, &str)], seed: u64) -> Run {
    let plan = plan(&flags.iter().copied().chain([("transport", transport)]).collect::<Vec<_>>());
    let run = one::run(&batch::scenario(&plan, 0, Some(0), seed)).expect("a run").remove(0);
    let failed: Vec<_> = run.objects.iter().filter_map(|object| object.failure.as_ref()).collect();
    assert_eq!(run.outcome, Outcome::Done, "{transport}: {failed:?}");
    for object in &run.objects {
        let why = object.why.expect("delivered");
        assert!(why.is_whole(), "{transport} seed {seed} {}: {why:?}", object.name);
        assert_eq!(why.sum(), object.delivered_ns.expect("delivered") - object.issued_ns.expect("issued"));
    }
    run
}

const MS: u64 = 1_000_000;
const NET: [(&str, &str); 2] = [("rate", "10mbit"), ("rtt", "100ms")];

/// The handshake of transport and security together must take one round trip. With a ticket, no certificates are sent.
/// With early data, the request must not wait.
#[test]
fn one_round_trip_is_the_whole_handshake_and_early_data_needs_none() {
    // The object is so small that neither the limit on data to unverified addresses nor the initial window delays it.
    let parts = |transport: &str| {
        let run = run(transport, &[NET[0], NET[1], ("objects", "1x2kB")], 1);
        let why = run.objects[0].why.expect("delivered");
        // The rest of the handshake, after the server's first packet, counts as `secure`: the remaining certificates
        // arrive in this time.
        let secure = why.secure_ns.expect("known");
        assert!(secure < 6 * MS, "{transport}: {secure}");
        (why.connect_ns.expect("known") + secure, run.wire_bytes.down, run.page_ns.expect("done"))
    };
    let (full, bytes, page) = parts("quic");
    assert!((100 * MS..106 * MS).contains(&full), "{full}");
    let (resumed, fewer, faster) = parts("quic:resume=session");
    // The key shares of both ends take 2 ms.
    assert!((100 * MS..105 * MS).contains(&resumed), "{resumed}");
    assert!(fewer + 2_000 < bytes && faster < page, "{fewer} {bytes}, {faster} {page}");
    let (early, _, fastest) = parts("quic:resume=0rtt");
    assert!(early < MS && fastest + 95 * MS < faster, "{early}, {fastest} {faster}");
}

/// A lost packet must only delay the streams whose bytes it carries. Objects that have arrived completely must be
/// delivered.
#[test]
fn nothing_is_withheld_behind_another_s_loss() {
    let flags = [NET[0], NET[1], ("objects", "20x10kB"), ("loss", "3%")];
    let (mut repaired, mut lost) = (0, 0);
    for seed in 1..=10 {
        let run = run("quic", &flags, seed);
        lost += run.packets.down.lost;
        for object in &run.objects {
            let why = object.why.expect("delivered");
            assert_eq!(why.blocked_ns, Some(0), "seed {seed} {}: {why:?}", object.name);
            repaired += u64::from(why.recovery_ns.unwrap_or(0) + why.timeout_ns.unwrap_or(0) > 0);
        }
    }
    assert!(lost > 0 && repaired > 0, "{lost} lost, {repaired} repaired");
}

/// There are more objects than streams that may be open at the same time. Each object must still have its own stream.
#[test]
fn streams_are_fresh_and_so_many_at_a_time() {
    let flags = [NET[0], NET[1], ("objects", "30x2kB")];
    let wide = run("quic", &flags, 1);
    let narrow = run("quic:streams=4", &flags, 1);
    for run in [&wide, &narrow] {
        let mut streams: Vec<u64> = run.objects.iter().filter_map(|object| object.stream).collect();
        streams.sort_unstable();
        assert_eq!(streams, (0..30).collect::<Vec<u64>>());
    }
    let queued = |run: &Run| {
        run.objects.iter().filter(|it| it.why.is_some_and(|breakdown| breakdown.queue_ns > Some(0))).count()
    };
    assert_eq!((queued(&wide), queued(&narrow)), (0, 26));
    assert!(narrow.page_ns > wide.page_ns);
}

#[test]
fn the_same_seed_gives_the_same_captures_with_their_secrets() {
    for resume in ["full", "session", "0rtt"] {
        let transport = format!("quic:connections=3,resume={resume}");
        let plan = plan(&[("page", "article"), ("transport", &transport), ("loss", "2%")]);
        let captures = |seed| one::capture(&batch::scenario(&plan, 0, Some(0), seed)).expect("a capture").1;
        let first = captures(1);
        assert!(first == captures(1), "captures repeat byte for byte");
        assert!(first != captures(2), "secrets hang on the seed");
        for host in &first {
            let text = String::from_utf8_lossy(&host.pcapng);
            assert_eq!(text.matches("CLIENT_TRAFFIC_SECRET_0 ").count(), 3, "{resume}");
            assert!(!host.pcapng.windows(9).any(|bytes| bytes == b"HTTP/1.1 "));
        }
    }
}

/// QUIC carries HTTP/3 by default. Each style sheet of a page must arrive before the last image that was requested at
/// the same time.
#[test]
fn http3_answers_the_urgent_first() {
    let flags = [NET[0], NET[1], ("page", "news"), ("origins", "merge")];
    let run = run("quic", &flags, 1);
    let plan = plan(&[("page", "news"), ("transport", "quic")]);
    let page = &plan.points[0].workload.page;
    let of = |kind: &str| -> Vec<(u64, u64)> {
        let all = page.objects.iter().zip(&run.objects);
        all.filter(|(object, _)| object.content_type.starts_with(kind))
            .map(|(_, it)| (it.issued_ns.expect("issued"), it.delivered_ns.expect("delivered")))
            .collect()
    };
    let (sheets, images) = (of("text/css"), of("image/"));
    assert!(!sheets.is_empty() && !images.is_empty() && run.connections == 1);
    for (issued, delivered) in sheets {
        let together = images.iter().filter(|image| image.0 == issued).map(|image| image.1);
        let last = together.max().unwrap_or(u64::MAX);
        assert!(delivered < last, "a sheet at {delivered}, images until {last}");
    }
}

/// The key `http` must select HTTP/3 (the default) or HTTP/1.1, and the bytes sent to the server show which one was
/// used. HTTP/3 sends fewer bytes than HTTP/1.1, because QPACK's static table and Huffman code make the heads smaller.
/// HTTP/3 still sends more than half as many bytes, because our HTTP/3 has no dynamic table for repeated heads.
#[test]
fn http3_is_selected_by_its_key() {
    let up = |transport: &str| {
        let flags = [NET[0], NET[1], ("objects", "30x1kB")];
        run(transport, &flags, 1).wire_bytes.up
    };
    let (three, one) = (up("quic"), up("quic:http=1.1"));
    assert_eq!(up("quic:http=3"), three);
    assert!(three + 1_000 < one && three * 2 > one, "{three} {one}");
    let draft = Draft::from_flags([("transport", "quic:http=2")]).expect("flags");
    let error = Plan::interpret(draft, &Transports::standard()).expect_err("refused").to_string();
    assert!(error.contains("http=2: write 3 or 1.1"), "{error}");
}

/// With the secrets in the capture, tshark must decrypt every packet and find the requests in the streams.
#[test]
fn tshark_reads_a_capture() {
    if Command::new("tshark").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        eprintln!("skipped: no tshark here");
        return;
    }
    let http1 = ("transport", "quic:http=1.1");
    let plan = plan(&[NET[0], NET[1], ("objects", "5x10kB"), http1, ("loss", "1%")]);
    let hosts = one::capture(&batch::scenario(&plan, 0, Some(0), 1)).expect("a capture").1;
    let file = std::env::temp_dir().join(format!("anabranch-quic-{}.pcapng", std::process::id()));
    std::fs::write(&file, &hosts[0].pcapng).expect("written");
    let tshark = |arguments: &[&str]| {
        let output =
            Command::new("tshark").arg("-r").arg(&file).args(arguments).output().expect("tshark runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let (all, opened) = (tshark(&["-Y", "quic"]), tshark(&["-Y", "quic.frame"]));
    let requests =
        tshark(&["-Y", "quic.stream_data contains \"GET /\"", "-T", "fields", "-e", "quic.stream.stream_id"]);
    let bad = tshark(&["-Y", "_ws.malformed || quic.decryption_failed || udp.checksum.status == \"Bad\""]);
    std::fs::remove_file(&file).expect("removed");
    assert!(all.lines().count() > 40, "{all}");
    assert_eq!(all.lines().count(), opened.lines().count(), "every packet is opened");
    assert_eq!(bad, "");
    for stream in ["0", "4", "8", "12", "16"] {
        assert!(requests.split([',', '\n']).any(|id| id == stream), "stream {stream}: {requests}");
    }
}

#[test]
fn messages_are_refused_in_one_line() {
    let flags = [("transport", "quic"), ("messages", "10/s"), ("size", "300B"), ("for", "1s")];
    let draft = Draft::from_flags(flags).expect("flags");
    let error = Plan::interpret(draft, &Transports::standard()).expect_err("refused").to_string();
    assert!(
        error.contains("messages go on streams that the server begins") && !error.contains('\n'),
        "{error}"
    );
}

/// A loss is detected without a timer if a packet arrives that was sent after the lost packet. Retransmission timers
/// must therefore expire for fewer than a quarter of the lost packets.
#[test]
fn losses_on_a_slow_link_are_no_timeouts() {
    let flags =
        [("rate", "1mbit"), ("rtt", "100ms"), ("bulk", "300kB"), ("loss", "2%"), ("transport", "quic")];
    let plan = plan(&flags);
    let runs: Vec<Run> = (1..=5)
        .map(|seed| one::run(&batch::scenario(&plan, 0, Some(0), seed)).expect("a run").remove(0))
        .collect();
    let lost: u64 = runs.iter().map(|run| run.packets.down.lost).sum();
    let timeouts: u64 = runs.iter().map(|run| run.events.timeouts).sum();
    assert!(lost > 20 && timeouts < lost / 4, "{lost} lost, {timeouts} timeouts");
}

/// Chromium acknowledges ten packets of HTTP/3 together. Other clients acknowledge every second packet.
#[test]
fn browsers_acknowledge_ten_packets_together() {
    let together = |client: &'static str| {
        let flags = [NET[0], NET[1], ("page", "gallery"), ("client", client)];
        let packets = run("quic", &flags, 1).packets;
        packets.down.sent as f64 / packets.up.sent as f64
    };
    let (plain, chromium) = (together("plain"), together("chromium"));
    assert!(
        plain < 2.0 && chromium > 2.0 * plain,
        "packets for each packet of the client: {plain}, {chromium}"
    );
}
