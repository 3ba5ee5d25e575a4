//! Compares a transport that only this test defines (Go-back-N) with the built-in transports.
//!
//! The test shows that a transport is a plug-in: no code outside this test knows Go-back-N. Nevertheless, plans,
//! tables, JSON results, reports and captures work with it. The lower limit of the page time and the parts of each
//! response time are computed as well.

#[path = "contestant/gbn.rs"]
mod gbn;

use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan, contestant};
use anabranch_lab::run::batch::{self, Options};
use anabranch_lab::run::one;
use anabranch_report::{PageContext, html, table};
use anabranch_results::{Contestant, Outcome, Race, json};
use anabranch_transports::{Transport, Transports};
use anabranch_wire::pcap;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

fn transports() -> Transports {
    Transports::standard().with(Transport::simulated(gbn::GoBackN).and_emulated(Arc::new(gbn::InUdp)))
}

fn plan(line: &str) -> Result<Plan, String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let flags = words.chunks(2).map(|pair| (pair[0].trim_start_matches("--"), pair[1]));
    let plan = Draft::from_flags(flags).and_then(|draft| Plan::interpret(draft, &transports()));
    plan.map_err(|error| error.to_string())
}

fn race(plan: &Plan) -> Race {
    let options = Options { threads: 2, progress: &|_| {}, stop: &AtomicBool::new(false) };
    causes::race(plan, &options).unwrap_or_else(|error| panic!("{error}"))
}

const RACE: &str = "--objects 6x20kB --loss 1% --runs 4 --transport tcp --transport gbn --transport gbn:window=4 \
                    --transport gbn:connections=3";

#[test]
fn a_transport_from_outside_races_beside_ours() {
    let plan = plan(RACE).expect("a plan");
    let race = race(&plan);
    let contestants = &race.points[0].contestants;
    assert_eq!(contestants.len(), 4);
    for contestant in contestants {
        for run in &contestant.runs {
            assert_eq!((run.outcome, run.objects.len()), (Outcome::Done, 6), "{}", contestant.name);
            // The lower limit of the page time must not exceed the page time.
            assert!(run.limit_ns.is_some() && run.limit_ns <= run.page_ns, "{}", contestant.name);
            // Each response time is split into parts, for example the wait for a timer. The length of every part must
            // be known, and the sum of the parts must equal the response time.
            for object in &run.objects {
                let why = object.why.expect("attributed");
                let took = object.delivered_ns.expect("delivered") - object.issued_ns.expect("issued");
                assert!(why.is_whole() && why.sum() == took, "{} {object:?}", contestant.name);
            }
        }
    }
    // Go-back-N retransmits lost packets when its timer expires. So some response times must include a wait for that
    // timer.
    let gbn = &contestants[1];
    assert!(gbn.runs.iter().any(|run| run.events.timeouts > 0 && run.packets.down.retransmitted > 0));
    let waits = gbn.runs.iter().flat_map(|run| &run.objects).filter_map(|object| object.why?.timeout_ns);
    assert!(waits.sum::<u64>() > 0);
    assert_eq!(gbn.settings["transport"], "gbn");
    assert_eq!((gbn.settings["window"].as_str(), contestants[2].settings["window"].as_str()), ("16", "4"));
    assert_eq!(contestants[3].runs[0].connections, 3);
    let shown = table::render(
        &race,
        table::Style { verbose: true, ..table::Style::default() },
        &transports().protocols(),
    );
    let shown = shown.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("gbn:window=4 1 conversation, pipelined"), "{shown}");
    assert!(shown.contains("gbn:connections=3 3 conversations"), "{shown}");
    let text = json::render(&race);
    assert_eq!(json::render(&Race::from_json(&text).expect("read back")), text);
    let page = html(&race, &PageContext::default());
    assert!(page.contains("gbn:window=4") && page.contains("<svg"));
    // A second race with the same seeds must give the same bytes.
    let mut again = self::race(&plan);
    again.host.clone_from(&race.host);
    assert_eq!(json::render(&again), text);
}

#[test]
fn its_own_knobs_are_in_force() {
    let plan = plan("--bulk 200kB --loss 0 --runs 1 --transport gbn:window=2 --transport gbn:window=32")
        .expect("a plan");
    let page = |contestant: &Contestant| contestant.runs[0].page_ns.expect("done");
    let found = race(&plan);
    let [small, large] = found.points[0].contestants.as_slice() else { panic!("two") };
    assert!(page(small) > 4 * page(large), "{} {}", page(small), page(large));
}

#[test]
fn its_packets_are_captured_with_their_protocol_number() {
    let plan = plan(RACE).expect("a plan");
    let scenario = batch::scenario(&plan, 0, Some(1), 1);
    let (runs, captured) = one::capture(&scenario).expect("captured");
    assert_eq!((runs.len(), captured.len()), (1, 2));
    for host in &captured {
        let mut reader = pcap::Reader::new(&host.pcapng).expect("a capture");
        let mut packets = 0;
        while let Some(record) = reader.next_packet().expect("a packet") {
            assert_eq!(record.packet[9], gbn::PROTOCOL, "{}", host.host);
            packets += 1;
        }
        assert!(packets > 100, "{}: {packets}", host.host);
    }
}

#[test]
fn it_shares_a_network_with_ours_and_with_background_traffic() {
    let together =
        "--objects 3x20kB --runs 1 --shared-link yes --transport gbn --transport sctp --transport tcp";
    let found = race(&plan(together).expect("a plan"));
    assert!(found.points[0].contestants.iter().all(|contestant| contestant.runs[0].outcome == Outcome::Done));
    for workload in ["--bulk 200kB", "--messages 20/s --for 1s", "--objects 3x20kB --background tcp:flows=1"]
    {
        let found =
            race(&plan(&format!("{workload} --runs 1 --transport gbn --transport sctp")).expect("a plan"));
        for contestant in &found.points[0].contestants {
            assert_eq!(contestant.runs[0].outcome, Outcome::Done, "{workload} {}", contestant.name);
        }
    }
}

#[test]
fn unsupported_keys_are_refused_by_capabilities() {
    for (contestant, expected) in [
        ("gbn:window=0", "window=0: write a number from 1 to 64"),
        ("gbn:windw=4", "unknown key 'windw' (did you mean 'window'?)"),
        ("gbn:profile=fancy", "unknown profile 'fancy'; accepted: plain"),
        ("gbn:encap=udp", "'encap' is a key of sctp"),
        ("gbn:when-full=rr", "'when-full' is a key of sctp"),
        (
            "gbm",
            "unknown transport 'gbm' (did you mean 'gbn'?); accepted: http1, http2, http3, sctp-dtls, six-tls, tcp-tls, six, six-sctp, tcp, sctp, quic, mptcp, sctp-kernel, gbn",
        ),
        ("sctp:http=1", "'http' is a key of tcp, quic, mptcp, sctp-kernel, gbn"),
    ] {
        let line =
            plan(&format!("--objects 2x1kB --transport {contestant}")).map(|_| ()).expect_err(contestant);
        assert!(line.contains(expected), "{contestant}: {line}");
    }
    let listing = contestant::listing(&transports());
    assert!(listing.contains("\ngbn\n") && listing.contains("window=16"), "{listing}");
    assert!(contestant::profile_listing(&transports()).contains("gbn:profile=plain (default)"));
    // The standard list of transports must not contain Go-back-N.
    assert!(Transports::standard().find("gbn").is_none());
}
