//! Tests messages that are sent at a fixed rate: which messages arrive, and why some are delayed.

use anabranch_capture::Settings;
use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::{self, Options};
use anabranch_lab::run::one;
use anabranch_report::table;
use anabranch_results::{Bound, Outcome, Race, Run, verdict};
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

fn race(flags: &[(&str, &str)]) -> Race {
    let plan = Draft::from_flags(flags.iter().copied())
        .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
        .expect("a plan");
    let options = Options { threads: 1, progress: &|_| {}, stop: &AtomicBool::new(false) };
    causes::race(&plan, &options).unwrap_or_else(|e| panic!("{e}"))
}

fn refused(flags: &[(&str, &str)]) -> String {
    let flags = flags.iter().copied();
    Draft::from_flags(flags)
        .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
        .map(|_| ())
        .expect_err("refused")
        .to_string()
}

fn runs(race: &Race) -> impl Iterator<Item = &Run> {
    race.points.iter().flat_map(|point| &point.contestants).flat_map(|contestant| &contestant.runs)
}

/// Checks that every message arrived, and that the parts of every delay add up.
fn sound(race: &Race, messages: usize) {
    for run in runs(race) {
        assert_eq!(run.outcome, Outcome::Done);
        let measured: Vec<_> = run.objects.iter().filter(|object| !object.background).collect();
        assert_eq!(measured.len(), messages);
        for object in measured {
            let (issued, delivered) =
                (object.issued_ns.expect("issued"), object.delivered_ns.expect("delivered"));
            let why = object.why.expect("why");
            assert_eq!(why.sum(), delivered - issued, "{}", object.name);
        }
    }
}

/// With 100 streams, a lost message must delay only itself. With one stream, it delays all messages that follow.
#[test]
fn a_hole_holds_up_its_stream_alone() {
    let race = race(&[
        ("messages", "100/s"),
        ("for", "10s"),
        ("loss", "1%"),
        ("runs", "5"),
        ("transport", "tcp"),
        ("transport", "sctp"),
        ("transport", "sctp:num_ostreams=1"),
    ]);
    sound(&race, 1000);
    let contestants = &race.points[0].contestants;
    let p95 = |contestant: usize| contestants[contestant].summary.object_p95_ms.mean.expect("delays");
    assert!(p95(1) < 41.0, "no more than the way: {}", p95(1));
    assert!(p95(0) > 2.0 * p95(1) && p95(2) > 2.0 * p95(1));
    let blocked = |contestant: usize| -> u64 {
        let breakdowns =
            contestants[contestant].runs.iter().flat_map(|run| &run.objects).filter_map(|object| object.why);
        breakdowns.filter_map(|breakdown| breakdown.blocked_ns).sum()
    };
    assert!(blocked(0) > 10 * blocked(1) && blocked(2) > 10 * blocked(1));
}

/// A bulk transfer on the same TCP connection must delay the messages. On a connection of its own, it must not delay
/// them.
#[test]
fn bulk_beside_messages_is_told_apart_and_counts_in_no_delay() {
    let flags = |transport| {
        [
            ("messages", "20/s"),
            ("size", "8B"),
            ("for", "5s"),
            ("bulk", "3MB"),
            ("loss", "0"),
            ("runs", "2"),
            transport,
        ]
    };
    let shared = race(&flags(("transport", "tcp")));
    let apart = race(&flags(("transport", "tcp:connections=2")));
    let streams = race(&flags(("transport", "sctp")));
    for race in [&shared, &apart, &streams] {
        sound(race, 100);
        for run in runs(race) {
            let background: Vec<_> = run.objects.iter().filter(|object| object.background).collect();
            assert!(
                matches!(background.as_slice(), [one] if one.bytes == 3_000_000 && one.delivered_ns.is_some())
            );
        }
    }
    let p50 = |race: &Race| race.points[0].contestants[0].summary.object_p50_ms.mean.expect("delays");
    assert!(p50(&shared) > 2.0 * p50(&apart), "{} {}", p50(&shared), p50(&apart));
}

/// One of two paths fails. Messages must continue over the other path, and the time to the first message after the
/// failure must be reported.
#[test]
fn messages_survive_a_path_that_fails() {
    let path = ("path", "rate=10mbit,rtt=80ms");
    let race = race(&[
        ("messages", "50/s"),
        ("for", "8s"),
        path,
        path,
        ("fail", "path=1,at=3s"),
        ("runs", "2"),
        ("transport", "sctp:rto_min=200ms,path_max_retrans=1"),
    ]);
    sound(&race, 400);
    let summary = &race.points[0].contestants[0].summary;
    assert!(summary.failover_ms.mean.is_some_and(|ms| ms < 1000.0));
    assert!(summary.object_max_ms.mean.is_some_and(|ms| (200.0..2000.0).contains(&ms)));
}

/// If the only path fails, the delays of the delivered messages say nothing about the messages that were never
/// delivered. Missing messages must therefore count as if they arrived at the deadline.
#[test]
fn messages_that_are_missing_count_as_late_as_the_deadline() {
    let race = race(&[
        ("messages", "50/s"),
        ("for", "4s"),
        ("rate", "10mbit"),
        ("fail", "path=1,at=1s"),
        ("deadline", "20s"),
        ("runs", "1"),
        ("transport", "tcp"),
    ]);
    let contestant = &race.points[0].contestants[0];
    assert_eq!(contestant.runs[0].outcome, Outcome::Deadline);
    // Of 200 messages, issued 20 ms apart, the first 50 arrive. The other 150 count as if they arrived at the deadline,
    // so a message that was issued later has a shorter delay. In ascending order, the delays 51 to 200 are therefore
    // those of messages 200 to 51. The 190th delay is that of message 61, issued at 1.2 s.
    let p95 = contestant.summary.object_p95_ms.mean;
    assert!(p95.is_some_and(|ms| (18_780.0..18_820.0).contains(&ms)), "{p95:?}");
    assert!(contestant.summary.undelivered.mean.is_some_and(|lost| (100.0..200.0).contains(&lost)));
}

/// When everything is acknowledged, the sender must shut the association down. The captures of both sides must show the
/// shutdown, and no ABORT.
#[test]
fn associations_end_in_good_order() {
    for (transport, associations) in [("sctp", 1), ("sctp:connections=3", 3)] {
        let flags = [
            ("messages", "50/s"),
            ("size", "300B"),
            ("for", "2s"),
            ("loss", "0"),
            ("runs", "1"),
            ("transport", transport),
        ];
        let plan = Draft::from_flags(flags)
            .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
            .expect("a plan");
        let captures = one::capture(&batch::scenario(&plan, 0, Some(0), 1)).expect("a capture").1;
        for captured in captures {
            let decoded =
                anabranch_capture::decode("", &captured.pcapng[..], &Settings::default()).expect("a capture");
            assert_eq!(decoded.conversations.len(), associations);
            for talk in decoded.conversations {
                assert_eq!((talk.end.how, talk.end.by), ("shutdown", Some("B")));
                assert!(talk.directions.iter().all(|direction| !direction.chunks.contains_key("ABORT")));
            }
        }
    }
}

#[test]
fn wrong_messages_are_answered_in_one_line() {
    let lines = [
        refused(&[("messages", "100")]),
        refused(&[("messages", "100/s"), ("size", "7B")]),
        refused(&[("messages", "100/s"), ("size", "1001kB")]),
        refused(&[("messages", "100/s"), ("for", "0s")]),
        refused(&[("messages", "1000000/s"), ("for", "1000s")]),
        refused(&[("size", "10B")]),
        refused(&[("messages", "100/s"), ("page", "news")]),
        refused(&[("messages", "100/s"), ("think", "recorded")]),
    ];
    expect_test::expect![[r#"
        --messages: '100': the unit is missing (did you mean 100/s?); write how often, such as 25/s, 0.5/s or 90/min
        --size: '7B': write a size from 8B to 1MB
        --size: '1001kB': write a size from 8B to 1MB
        --for: 0 messages; write a time and a rate that give from 1 to 1000000
        --for: 1000000000 messages; write a time and a rate that give from 1 to 1000000
        --size: goes with messages only; write --messages 100/s
        --page: cannot be combined with messages: give one of page, objects and messages
        --think: goes with a page or objects, not with messages
    "#]]
    .assert_eq(&(lines.join("\n") + "\n"));
}

/// Checks every delivered message: all parts of its delay must be known, and must add up. Also checks that more than 50
/// messages were abandoned.
fn sound_though_given_up(race: &Race) {
    for run in runs(race) {
        assert_eq!(run.outcome, Outcome::Done);
        let given_up = run.objects.iter().filter(|object| object.delivered_ns.is_none()).count();
        assert!(given_up > 50, "{given_up}");
        for object in run.objects.iter().filter(|object| object.delivered_ns.is_some()) {
            let whole = object.delivered_ns.expect("delivered") - object.issued_ns.expect("issued");
            let why = object.why.expect("why");
            assert!(why.parts().iter().all(Option::is_some), "{}: {why:?}", object.name);
            assert_eq!(why.sum(), whole, "{}", object.name);
        }
    }
}

/// A sender abandons some messages, and only the sender knows which ones. All parts of the delay must still be known
/// for the delivered messages.
#[test]
fn the_parts_are_known_where_others_are_given_up() {
    let expiring = race(&[
        ("messages", "200/s"),
        ("size", "300B"),
        ("for", "6s"),
        ("rate", "1mbit"),
        ("rtt", "20ms"),
        ("loss", "0"),
        ("bulk", "200kB"),
        ("runs", "1"),
        ("seed", "654237"),
        (
            "transport",
            "sctp:profile=rfc9260,partial_reliability=yes,lifetime=100ms,num_ostreams=2,unordered=yes,interleaving=no",
        ),
    ]);
    sound_though_given_up(&expiring);
    let failing = race(&[
        ("messages", "100/s"),
        ("size", "300B"),
        ("for", "10s"),
        ("path", "rate=10mbit,rtt=40ms"),
        ("path", "rate=5mbit,rtt=90ms"),
        ("fail", "path=1,at=2s,for=4s"),
        ("loss", "0"),
        ("runs", "2"),
        ("transport", "sctp:profile=rfc9260,paths=2,partial_reliability=yes,lifetime=500ms,unordered=yes"),
        ("transport", "sctp:profile=rfc9260,paths=2,partial_reliability=yes,lifetime=500ms,num_ostreams=1"),
    ]);
    sound_though_given_up(&failing);
}

/// TCP's only path fails forever, so some of its messages never arrive and count as if they arrived at the deadline.
/// SCTP has a second path. The measured ratio of TCP's delay to SCTP's delay is therefore a lower bound of the true
/// ratio.
#[test]
fn messages_that_never_came_make_the_ratio_a_bound() {
    let found = race(&[
        ("path", "rate=10mbit,rtt=40ms"),
        ("path", "rate=10mbit,rtt=40ms"),
        ("fail", "path=1,at=2s"),
        ("messages", "50/s"),
        ("for", "4s"),
        ("loss", "0"),
        ("deadline", "30s"),
        ("runs", "2"),
        ("transport", "sctp"),
        ("transport", "tcp"),
    ]);
    let [point] = found.points.as_slice() else { panic!("one point") };
    let [sctp, tcp] = point.contestants.as_slice() else { panic!("two contestants") };
    assert!(runs(&found).any(|run| run.outcome == Outcome::Done), "SCTP goes on");
    assert_eq!((sctp.summary.object_p95_ms.failed, tcp.summary.object_p95_ms.failed), (0, 1));
    // Half of the 200 messages are missing, and count as if they arrived at the deadline of 30 s. Among the missing
    // messages, the one issued last, at 3.98 s, has the shortest delay. The 190th delay in ascending order belongs to a
    // message issued at about 2.2 s.
    let p95 = tcp.summary.object_p95_ms.mean.expect("a bound");
    assert!((27_500.0..28_100.0).contains(&p95), "{p95}");
    let p50 = tcp.summary.object_p50_ms.mean.expect("a delay");
    let found = point.compared("tcp", "sctp", "object_p95_ms").expect("compared");
    assert_eq!((found.bound, found.n), (Some(Bound::AtLeast), 1));
    assert!(p50 > 0.0 && found.ratio.is_some_and(|ratio| ratio > 10.0), "{p50} {found:?}");
    let verdict_text = verdict::sentence(point);
    assert!(
        verdict_text.contains("tcp never finished") && verdict_text.contains("service is restored after"),
        "{verdict_text}"
    );
    assert!(!verdict_text.contains("of 2 runs"), "there is one case: {verdict_text}");
}

#[test]
fn a_race_in_which_some_runs_miss_messages_says_so() {
    let found = race(&[
        ("messages", "50/s"),
        ("for", "4s"),
        ("loss", "4%"),
        ("deadline", "4300ms"),
        ("runs", "10"),
        ("transport", "tcp"),
        ("transport", "sctp"),
    ]);
    let reached_deadline = |run: &&Run| run.outcome == Outcome::Deadline;
    assert!((1..20).contains(&runs(&found).filter(reached_deadline).count()));
    let verdict_text = verdict::sentence(&found.points[0]);
    assert!(
        verdict_text.contains("did not finish; their missing messages count as late as the deadline."),
        "{verdict_text}"
    );
    let table = table::render(&found, table::Style::default(), &Transports::standard().protocols());
    assert!(table.contains(" >="), "{table}");
}

/// Messages of a megabyte must arrive complete over every transport that can take part in a race of messages.
#[test]
fn messages_of_a_megabyte() {
    let race = race(&[
        ("messages", "4/s"),
        ("size", "1MB"),
        ("for", "2s"),
        ("rate", "100mbit"),
        ("rtt", "20ms"),
        ("loss", "0,1%"),
        ("runs", "2"),
        ("transport", "tcp"),
        ("transport", "tcp:tls=yes"),
        ("transport", "sctp"),
        ("transport", "sctp:profile=rfc9260,sndbuf=1MB"),
        ("transport", "sctp:dtls=yes"),
        ("transport", "sctp:unordered=yes,connections=2"),
    ]);
    sound(&race, 8);
}

/// A message can be abandoned after a part of it was read. The rest of its stream must be read as usual.
#[test]
fn large_messages_that_are_given_up() {
    let race = race(&[
        ("messages", "6/s"),
        ("size", "100kB"),
        ("for", "5s"),
        ("rate", "20mbit"),
        ("rtt", "40ms"),
        ("loss", "3%"),
        ("runs", "4"),
        ("transport", "sctp:num_ostreams=2,lifetime=250ms"),
        ("transport", "sctp:num_ostreams=2,interleaving=no,lifetime=250ms"),
        ("transport", "sctp:num_ostreams=2,unordered=yes,lifetime=250ms"),
    ]);
    for run in runs(&race) {
        assert_eq!(run.outcome, Outcome::Done);
        let delivered = run.objects.iter().filter(|object| object.delivered_ns.is_some()).count();
        assert!((1..run.objects.len()).contains(&delivered), "some are given up, others come: {delivered}");
    }
}

/// Messages that do not fit into the send buffer must be rejected before the race.
#[test]
fn messages_larger_than_the_send_buffer() {
    let error = refused(&[("messages", "1/s"), ("size", "60kB"), ("transport", "sctp:profile=kame-2002")]);
    assert!(
        error.ends_with("messages of 60kB: more than its send buffer, sndbuf=32768B; set a larger sndbuf"),
        "{error}"
    );
}
