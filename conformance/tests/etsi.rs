//! Runs our own tests for the test purposes of ETSI TS 102 369.
//!
//! `etsi/*.suite` holds a case for each test purpose. The tests run the cases, check that every purpose has a case, and
//! check that every expectation in a script matters.

use anabranch_base::testing::transmit_all_bytes;
use anabranch_base::{Engine, Instant, Packet, Rng};
use anabranch_conformance::suite::{Case, Content, Preludes, cases};
use anabranch_conformance::{Deviations, Outcome, Stages, check_to_the_end};
use anabranch_sctp::{Associate, Config, Endpoint};
use anabranch_wire::sctp::{Chunk, Init, PacketView, packet};
use expect_test::expect_file;
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::net::SocketAddr;
use std::path::Path;

/// The function groups of the standard, in its order, each with the number of purposes and the title.
const FUNCTIONS: &[(&str, usize, &str)] = &[
    ("as", 33, "association setup"),
    ("at", 16, "association termination"),
    ("imh", 10, "invalid message handling"),
    ("dm", 15, "duplicate messages"),
    ("fh", 8, "fault handling"),
    ("e", 6, "errors"),
    ("bdc", 8, "bundling of DATA with control chunks"),
    ("d", 15, "data"),
    ("a", 3, "acknowledgement"),
    ("m", 4, "miscellaneous"),
    ("rt", 3, "retransmission timer"),
];

fn folder() -> std::path::PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("etsi")
}

/// Returns all cases, each with the name of its file.
fn suite() -> Vec<(String, Case)> {
    let read = |name: &str| std::fs::read_to_string(folder().join(name)).expect("a suite");
    let mut preludes = Preludes::default();
    preludes.add(&read("preludes.suite"));
    let mut names: Vec<String> = std::fs::read_dir(folder())
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .filter(|name| name.ends_with(".suite"))
        .collect();
    names.sort();
    let mut all = Vec::new();
    for name in names {
        for case in cases(&read(&name), &preludes).expect("a well-formed suite") {
            all.push((name.clone(), case));
        }
    }
    all
}

#[test]
fn every_case_holds() {
    let mut run = 0;
    for (file, case) in suite() {
        let Content::Script(script) = &case.content else { continue };
        run += 1;
        let outcome = check_to_the_end(&file, script);
        assert!(outcome.is_pass(), "{}: {}\n{outcome}\n{}", case.id, case.purpose, outcome.log().join("\n"));
    }
    assert!(run > 110, "only {run} scripts ran");
}

/// Checks that the suites for extensions of SCTP and for special cases that ETSI does not cover pass.
#[test]
fn extension_suites_pass() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("extensions");
    let mut run = 0;
    for path in anabranch_conformance::scripts_in(&folder).expect("the folder") {
        for (id, outcome) in
            anabranch_conformance::check_suite(&path, &Stages::known()).expect("a well-formed suite")
        {
            assert!(outcome.is_pass(), "{id}: {outcome}\n{}", outcome.log().join("\n"));
            run += 1;
        }
    }
    assert!(run > 100, "only {run} scripts ran");
}

#[test]
fn every_test_purpose_has_a_line() {
    let suite = suite();
    let in_code = ["nothing is kept of an INIT", "tags are random and never zero"];
    let mut table = String::from(
        "# The test purposes of ETSI TS 102 369, and where each is held\n\n\
         Written by `cargo test -p anabranch-conformance` (`UPDATE_EXPECT=1` renews it). The cases are our own; run them with\n\
         `cargo run -p anabranch-conformance -- conformance/etsi`.\n",
    );
    let mut seen = BTreeSet::new();
    for &(function, count, title) in FUNCTIONS {
        let _ = write!(
            table,
            "\n## {}: {title}\n\n| purpose | shows | held by |\n|---|---|---|\n",
            function.to_uppercase()
        );
        let of_function = |id: &str| id.split('-').next() == Some(function);
        let mut found: Vec<_> = suite.iter().filter(|(_, case)| of_function(&case.id)).collect();
        // Sort by number, so that 2-10 comes after 2-9.
        let numbers = |id: &str| id.split('-').filter_map(|part| part.parse().ok()).collect::<Vec<u32>>();
        found.sort_by_key(|(_, case)| numbers(&case.id));
        assert_eq!(found.len(), count, "{function}");
        for (file, case) in found {
            assert!(seen.insert(case.id.clone()), "{} comes twice", case.id);
            let held = match &case.content {
                Content::Script(_) => format!("`{file}`"),
                Content::InCode(name) => {
                    assert!(in_code.contains(&name.as_str()), "{name}");
                    format!("`tests/etsi.rs`: {name}")
                }
                Content::NotTested(why) => format!("none: {why}"),
            };
            let _ = writeln!(table, "| {} | {} | {held} |", case.id, case.purpose);
        }
    }
    assert_eq!(seen.len(), 121);
    let known = Deviations::known();
    table.push_str("\n## Known deviations\n\nScripts of others after the same purposes that fail, and why that is right.\n\n");
    table.push_str("| script | why | its rule | ours |\n|---|---|---|---|\n");
    for deviation in &known.deviation {
        let script = deviation.name.rsplit('/').next().unwrap_or_default();
        let own = script.trim_start_matches("sctp-");
        assert!(seen.contains(own), "{}: no case of ours holds the purpose", deviation.name);
        let (old, new) = (&deviation.rfc4960, &deviation.rfc9260);
        let cited = old.starts_with("RFC 4960 §") && new.starts_with("RFC 9260 §");
        assert!(cited, "{}: both sections are to be named", deviation.name);
        let rule = |text: &str| text.split_once(": ").map(|(_, rule)| rule.to_owned());
        assert!(rule(old).is_some() && rule(old) != rule(new), "{}: what has changed?", deviation.name);
        let _ = writeln!(table, "| {script} | {} | {old} | {new} |", deviation.reason);
    }
    assert_eq!(known.deviation.len(), 3);
    table.push_str("\n## Stages\n\nScripts of others whose language has no word for what they need; it is set from outside\n");
    table.push_str("(`conformance/stages.toml`), and they pass.\n\n");
    table.push_str("| script | addresses of the peer | DATA goes in turn to | why |\n|---|---|---|---|\n");
    for stage in &Stages::known().stage {
        let own = stage.script.trim_start_matches("sctp-");
        assert!(seen.contains(own), "{}: no case of ours holds the purpose", stage.script);
        let deviates = known.deviation.iter().any(|deviation| deviation.name.ends_with(&stage.script));
        assert!(!deviates, "{}: it passes, or it does not", stage.script);
        let turns: Vec<String> = stage.destinations.iter().map(ToString::to_string).collect();
        let _ = writeln!(
            table,
            "| {} | {} | {} | {} |",
            stage.script,
            stage.peer_addresses,
            turns.join(", "),
            stage.reason
        );
    }
    expect_file!["../etsi/README.md"].assert_eq(&table);
}

/// Changes one field of one expected packet at a time. Each change must make the script fail, with a message that shows
/// the expected and the actual packet.
#[test]
fn every_expectation_matters() {
    let fields = ["flgs=", "cum_tsn=", "sid=", "ssn=", "len=", "staleness=", "type="];
    let mut altered = 0;
    for (file, case) in suite() {
        let Content::Script(script) = &case.content else { continue };
        for (at, _) in script.match_indices(" > sctp") {
            // Only changes fields of this packet, whose description ends where the next event begins.
            let rest = &script[at..];
            let ends = [" +", "\n+", "\n*"].iter().filter_map(|sign| rest.find(sign));
            let end = ends.min().unwrap_or(rest.len());
            for field in fields {
                let Some(place) = rest[..end].find(field).map(|found| at + found + field.len()) else {
                    continue;
                };
                let word =
                    script[place..].find([',', ']']).map_or("", |length| &script[place..place + length]);
                if word == "..." {
                    continue;
                }
                let other = if word == "0x7b" { "0x7c" } else { "123" };
                let text = format!("{}{other}{}", &script[..place], &script[place + word.len()..]);
                let outcome = check_to_the_end(&file, &text);
                let text = outcome.to_string();
                let Outcome::Fail { expected, observed, .. } = &outcome else {
                    panic!("{}: {field}{word} as {other}: {text}", case.id);
                };
                assert!(!expected.is_empty() && !observed.is_empty() && text.contains("expected"), "{text}");
                assert_ne!(expected, observed, "{text}");
                altered += 1;
            }
        }
    }
    assert!(altered > 700, "only {altered} alterations");
}

// Test purposes that a script cannot express.

fn endpoint(seed: u64) -> Endpoint {
    let mut endpoint =
        Endpoint::new(Config::default(), vec![SocketAddr::from(([10, 0, 0, 1], 0))], Rng::new(seed));
    endpoint.listen(80).expect("a free port");
    endpoint
}

/// Sends an INIT from this port, and returns the initiate tag of the INIT ACK.
fn ask(endpoint: &mut Endpoint, now: Instant, port: u16) -> u32 {
    let mut bytes = Vec::new();
    let start = packet::begin(&mut bytes, port, 80, 0);
    let init = Init { tag: 7, window: 8000, outbound_streams: 5, inbound_streams: 5, ..Init::default() };
    init.open(&mut bytes).close();
    packet::finish(&mut bytes, start);
    let (source, target) = (SocketAddr::from(([10, 0, 0, 2], 0)), SocketAddr::from(([10, 0, 0, 1], 0)));
    let ecn = anabranch_base::Ecn::NotEct;
    endpoint.handle_packet(now, Packet { source, target, ecn, tag: 0, payload: &bytes });
    tag_of(endpoint, now)
}

/// Returns the initiate tag of the INIT or INIT ACK that the endpoint sends.
fn tag_of(endpoint: &mut Endpoint, now: Instant) -> u32 {
    let sent = transmit_all_bytes(endpoint, now);
    let view = PacketView::parse(sent.first().expect("a packet")).expect("a good one");
    match view.chunks().next() {
        Some(Ok(Chunk::Init(init))) => init.tag,
        Some(Ok(Chunk::InitAck(ack))) => ack.0.tag,
        other => panic!("{other:?}"),
    }
}

/// RFC 9260 §5.1.3, AS-I-1.4: an INIT must leave no state behind, no matter how many arrive.
#[test]
fn an_init_leaves_no_state() {
    let mut endpoint = endpoint(1);
    let now = Instant::from_millis(1);
    ask(&mut endpoint, now, 1000);
    let size = |endpoint: &Endpoint| format!("{endpoint:?}").len();
    let before = size(&endpoint);
    for n in 0..2_000 {
        ask(&mut endpoint, now, 1001 + n);
    }
    // The size of the endpoint's debug text may grow by a few digits of counters. It must not grow by entries of queues
    // or maps.
    assert!(size(&endpoint) < before + 200, "{} bytes of text, {before} before", size(&endpoint));
    assert_eq!(endpoint.poll_timeout(), None, "no timer runs");
    assert_eq!(endpoint.poll_event(), None);
}

/// RFC 9260 §5.3.1, AS-V-1.5.1 and 1.5.2: each tag must be a new random number from the whole range, and never zero.
#[test]
fn tags_are_random_and_never_zero() {
    let now = Instant::from_millis(1);
    let mut endpoint = endpoint(1);
    let acks: BTreeSet<u32> = (0..2_000).map(|n| ask(&mut endpoint, now, 1000 + n)).collect();
    let inits: BTreeSet<u32> = (0..500)
        .map(|n| {
            let peer = SocketAddr::from(([10, 0, 1, (n % 250) as u8], 0));
            endpoint.associate(now, Associate::to(peer, 1000 + n)).expect("it begins");
            tag_of(&mut endpoint, now)
        })
        .collect();
    for tags in [&acks, &inits] {
        assert!(!tags.contains(&0));
        for bit in 0..32 {
            let set = tags.iter().filter(|&&tag| tag >> bit & 1 == 1).count();
            assert!((tags.len() * 2 / 5..tags.len() * 3 / 5).contains(&set), "bit {bit}: {set}");
        }
    }
    assert!(acks.len() >= 1_999 && inits.len() >= 499, "tags are repeated");
}
