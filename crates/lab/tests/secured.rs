//! Tests TLS and DTLS as layers of a contestant, in virtual time. The tests check how much time and how many bytes the
//! layers add, and that the same seed gives the same captures.

use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::{batch, one};
use anabranch_results::{Outcome, Run};
use anabranch_transports::Transports;
use std::process::{Command, Stdio};

fn plan(flags: &[(&str, &str)]) -> Result<Plan, String> {
    let draft = Draft::from_flags(flags.iter().copied().chain([("runs", "1")])).expect("flags");
    Plan::interpret(draft, &Transports::standard()).map_err(|error| error.to_string())
}

/// Runs one contestant, which must deliver all objects. The parts of each object's response time must add up to that
/// time.
fn run(transport: &str, flags: &[(&str, &str)], seed: u64) -> Run {
    let flags: Vec<_> = flags.iter().copied().chain([("transport", transport)]).collect();
    let plan = plan(&flags).expect("a plan");
    let run = one::run(&batch::scenario(&plan, 0, Some(0), seed)).expect("a run").remove(0);
    assert_eq!(run.outcome, Outcome::Done, "{transport}");
    for object in &run.objects {
        let why = object.why.expect("delivered");
        assert!(why.is_whole(), "{transport} {}: {why:?}", object.name);
        assert_eq!(why.sum(), object.delivered_ns.expect("delivered") - object.issued_ns.expect("issued"));
    }
    run
}

const MS: u64 = 1_000_000;
const NET: [(&str, &str); 2] = [("rate", "10mbit"), ("rtt", "100ms")];

/// The handshake of TCP must take one round trip. The handshake of TLS must take another round trip, 2.4 ms for 3 kB
/// of certificates, and 2 ms for the key shares. A resumed TLS session needs no certificates.
#[test]
fn the_two_handshakes_are_told_apart() {
    let parts = |transport: &str| {
        let run = run(transport, &[NET[0], NET[1], ("objects", "1x10kB")], 1);
        let why = run.objects[0].why.expect("delivered");
        (why.connect_ns.expect("known"), why.secure_ns.expect("known"), run.wire_bytes.down)
    };
    let (connect, secure, bytes) = parts("tcp:tls=yes");
    assert!((100 * MS..101 * MS).contains(&connect), "{connect}");
    assert!((104 * MS..107 * MS).contains(&secure), "{secure}");
    let (_, none, plain) = parts("tcp");
    assert_eq!(none, 0);
    let (_, resumed, fewer) = parts("tcp:tls=yes,resume=session");
    assert!((101 * MS..104 * MS).contains(&resumed), "{resumed}");
    assert!(plain + 3_000 < bytes && fewer + 3_000 < bytes && plain < fewer, "{plain} {fewer} {bytes}");
    let (_, quicker, less) = parts("tcp:tls=yes,group=x25519");
    assert!(
        quicker < secure && (1_000..1_200).contains(&(bytes - less)),
        "the server's share: {bytes} {less}"
    );
    let (_, long, more) = parts("tcp:tls=yes,chain=9kB");
    assert!(long > secure + 4 * MS && more > bytes + 6_000, "{long} {more}");
}

/// The DTLS handshake comes before the SCTP handshake, and must count as `secure`. It must take two round trips in DTLS
/// 1.3 with a cookie, and three round trips in DTLS 1.2. The SCTP handshake must take as long as without DTLS.
#[test]
fn the_handshake_of_dtls_is_told_apart_from_that_of_sctp() {
    let parts = |transport: &str| {
        let run = run(transport, &[NET[0], NET[1], ("objects", "1x10kB")], 1);
        let why = run.objects[0].why.expect("delivered");
        (
            why.connect_ns.expect("known"),
            why.secure_ns.expect("known"),
            run.wire_bytes.down,
            run.events.timeouts,
        )
    };
    let (clear, none, plain, _) = parts("sctp:encap=udp");
    assert_eq!(none, 0);
    for (transport, trips) in [("sctp:dtls=yes", 2), ("sctp:dtls=1.3", 2), ("sctp:dtls=1.2", 3)] {
        let (connect, secure, bytes, timeouts) = parts(transport);
        assert!(connect.abs_diff(clear) < MS, "{transport}: {connect} {clear}");
        assert!((trips * 100 * MS..(trips * 100 + 12) * MS).contains(&secure), "{transport}: {secure}");
        assert!(plain + 3_000 < bytes && bytes < plain + 4_500, "{transport}: {plain} {bytes}");
        assert_eq!(timeouts, 0, "{transport}");
    }
    let (_, _, bytes, _) = parts("sctp:dtls=yes,chain=9kB");
    assert!(bytes > plain + 9_000, "{bytes}");
}

/// A DTLS handshake that takes longer than SCTP's timeout must not count as an SCTP timeout, because no SCTP packet has
/// left the host yet.
#[test]
fn a_slow_handshake_beneath_is_no_timeout_of_the_transport() {
    let flags = [("rate", "10mbit"), ("rtt", "700ms"), ("objects", "1x10kB")];
    let timeouts = |transport: &str| run(transport, &flags, 1).events.timeouts;
    assert_eq!((timeouts("sctp:dtls=yes"), timeouts("sctp")), (0, 0));
}

#[test]
fn captures_show_dtls_and_repeat() {
    for version in ["1.2", "1.3"] {
        let transport = format!("sctp:dtls={version}");
        let plan = plan(&[("page", "article"), ("transport", &transport), ("loss", "2%")]).expect("a plan");
        let captures = |seed| one::capture(&batch::scenario(&plan, 0, Some(0), seed)).expect("a capture").1;
        let first = captures(1);
        assert!(first == captures(1), "captures repeat byte for byte");
        assert!(first != captures(2), "secrets hang on the seed");
        for host in &first {
            let [secrets] = blocks(&host.pcapng, 10)[..] else { panic!("one block of secrets") };
            let secrets = String::from_utf8_lossy(secrets);
            let label = if version == "1.2" { "CLIENT_RANDOM " } else { "CLIENT_TRAFFIC_SECRET_0 " };
            assert_eq!(secrets.matches(label).count(), 1, "{version}: {secrets}");
            let packets = blocks(&host.pcapng, 6).concat();
            assert!(!packets.windows(9).any(|bytes| bytes == b"HTTP/1.1 "), "{version}");
            // A DTLS record header begins with these bytes: handshake, record version DTLS 1.2 or 1.0, epoch 0.
            assert!(
                packets.windows(5).any(|bytes| matches!(bytes, [22, 0xfe, 0xfd | 0xff, 0, 0])),
                "{version}"
            );
        }
    }
}

/// With the secrets in the capture, tshark must decrypt DTLS 1.2 records. tshark 4.0 does not support DTLS 1.3.
#[test]
fn tshark_opens_what_dtls_carries() {
    if Command::new("tshark").arg("-v").stdout(Stdio::null()).stderr(Stdio::null()).status().is_err() {
        assert!(std::env::var_os("ANABRANCH_REQUIRE_PEERS").is_none(), "tshark is missing (Debian: tshark)");
        eprintln!("skipped: no tshark here (Debian: apt-get install tshark)");
        return;
    }
    let plan = plan(&[NET[0], NET[1], ("objects", "5x10kB"), ("transport", "sctp:dtls=1.2"), ("loss", "1%")]);
    let plan = plan.expect("a plan");
    let scenario = batch::scenario(&plan, 0, Some(0), 1);
    let hosts = one::capture(&scenario).expect("a capture").1;
    let file = std::env::temp_dir().join(format!("anabranch-dtls-{}.pcapng", std::process::id()));
    std::fs::write(&file, &hosts[0].pcapng).expect("written");
    let tshark = |filter: &str| {
        let mut command = Command::new("tshark");
        command.arg("-r").arg(&file).args(["-x", "-Y", filter]);
        let output = command.output().expect("tshark runs");
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let records = tshark("dtls.record.content_type == 23");
    let bad = tshark("_ws.malformed || udp.checksum.status == \"Bad\"");
    std::fs::remove_file(&file).expect("removed");
    let opened = records.matches("Decrypted DTLS").count();
    assert!(opened > 40, "{opened}: {records}");
    assert_eq!(bad, "");
}

/// Over DTLS, SCTP must have no checksum of its own by default.
#[test]
fn dtls_takes_the_place_of_the_checksum() {
    for (transport, value) in [
        ("sctp:dtls=yes", "yes"),
        ("sctp:dtls=yes,profile=rfc9260", "yes"),
        ("sctp:dtls=yes,zero_checksum=no", "no"),
        ("sctp:zero_checksum=no,dtls=yes", "no"),
        ("sctp:dtls=no", "no"),
        ("sctp", "no"),
    ] {
        let plan = plan(&[("transport", transport)]).expect("a plan");
        let knobs = plan.contestants[0].engine.knobs();
        let knob = knobs.into_iter().find(|knob| knob.key == "zero_checksum").expect("the knob");
        assert_eq!(knob.value, value, "{transport}");
    }
}

/// A connection with a single object delivers its response when the last byte arrives. No time may count as blocked,
/// with or without TLS. With TLS, the end of the response is found only if the positions of TLS records are mapped to
/// positions in the TCP stream.
#[test]
fn losses_are_told_as_without_tls() {
    let flags = [NET[0], NET[1], ("objects", "1x200kB"), ("loss", "3%")];
    for seed in 1..=10 {
        let why = run("tcp:tls=yes", &flags, seed).objects[0].why.expect("delivered");
        assert_eq!(why.blocked_ns, Some(0), "seed {seed}: {why:?}");
    }
    let lossy = (1..=10).map(|seed| run("tcp:tls=yes", &flags, seed).objects[0].why.expect("delivered"));
    assert!(
        lossy
            .map(|breakdown| breakdown.stalled_ns.unwrap_or(0) + breakdown.recovery_ns.unwrap_or(0))
            .sum::<u64>()
            > 0
    );
}

/// Returns the blocks of the type `kind` in a pcapng capture.
fn blocks(pcapng: &[u8], kind: u32) -> Vec<&[u8]> {
    let (mut at, mut found) = (0, Vec::new());
    let word = |at: usize| u32::from_le_bytes(pcapng[at..at + 4].try_into().expect("four bytes"));
    while at < pcapng.len() {
        let length = word(at + 4) as usize;
        if word(at) == kind {
            found.push(&pcapng[at..at + length]);
        }
        at += length;
    }
    found
}

#[test]
fn the_same_seed_gives_the_same_captures_with_their_secrets() {
    for resume in ["full", "session"] {
        let transport = format!("tcp:connections=3,tls=yes,resume={resume}");
        let plan = plan(&[("page", "article"), ("transport", &transport), ("loss", "2%")]).expect("a plan");
        let captures = |seed| one::capture(&batch::scenario(&plan, 0, Some(0), seed)).expect("a capture").1;
        let first = captures(1);
        assert!(first == captures(1), "captures repeat byte for byte");
        assert!(first != captures(2), "secrets hang on the seed");
        for host in &first {
            let [secrets] = blocks(&host.pcapng, 10)[..] else { panic!("one block of secrets") };
            let text = String::from_utf8_lossy(secrets);
            assert_eq!(text.matches("CLIENT_TRAFFIC_SECRET_0 ").count(), 3, "{resume}: {text}");
            assert!(!blocks(&host.pcapng, 6).concat().windows(9).any(|bytes| bytes == b"HTTP/1.1 "));
        }
    }
}

#[test]
fn what_does_not_go_together_is_refused_in_one_line() {
    for (transport, line) in [
        ("sctp:tls=yes", "tls needs a byte stream; write dtls=yes"),
        ("tcp:tls=maybe", "tls=maybe: write yes or no"),
        ("tcp:resume=session", "resume=session: needs tls=yes"),
        ("tcp:tls=no,chain=4kB", "chain=4kB: needs tls=yes"),
        ("tcp:tls=yes,resume=0rtt", "resume=0rtt is of quic; over tcp write full or session"),
        ("tcp:tls=yes,chain=10B", "chain=10B: write a size from 700B to 60kB"),
        ("quic:tls=yes", "tls: it has TLS 1.3 inside, always; leave it out"),
        ("quic:resume=never", "resume=never: write full, session or 0rtt"),
        ("quic:when-full=rr", "'when-full' is a key of sctp"),
        ("quic:stream_window=20MiB", "a stream cannot have more unread than its connection"),
        ("sctp:chain=4kB", "chain=4kB: needs dtls=yes"),
        ("sctp:dtls=maybe", "dtls=maybe: write yes (1.3), 1.2, 1.3 or no"),
        ("sctp:dtls=yes,chain=40kB", "chain=40kB: write a size from 700B to 30kB"),
        ("sctp:dtls=yes,paths=2", "paths=2: an association under DTLS has one path"),
        ("sctp:dtls=yes,auth=yes,asconf=yes", "asconf=yes: an association under DTLS has one path"),
        ("sctp:dtls=yes,encap=none", "encap=none: DTLS is carried by UDP itself"),
        ("tcp:dtls=yes", "'dtls' is a key of sctp"),
    ] {
        let error = plan(&[("transport", transport)]).expect_err(transport);
        assert!(error.contains(line) && !error.contains('\n'), "{transport}: {error}");
    }
}
