//! Tests that a race with the same seed gives the same bytes: results (except the host) and captures. Another seed must
//! give other bytes. The number of threads must have no effect.

use anabranch_lab::run::{batch, one};
use anabranch_results::{Host, Race, json};
use anabranch_tests::{check, plan, race_on, runs};

/// Small races of every kind that a plan can request. The tests add the seed and `--runs`.
const SCENARIOS: &[&str] = &[
    // The first two scenarios load the news page, one with and one without encryption. Each scenario runs over a link
    // without loss and over a link with a loss of 1 %.
    "",
    "--cleartext",
    "--page gallery --loss ge:1%/30% --reorder 2%/5ms --duplicate 1% --corrupt 1% --jitter 5ms --transport tcp,sctp",
    "--path rate=10mbit,rtt=40ms --path rate=2mbit,rtt=80ms,loss=1% --fail path=1,at=600ms,for=4s --bulk 1MB \
     --transport sctp:path_max_retrans=1,hb_interval=1s --transport sctp:sack_path=other --transport sctp:paths=1",
    "--objects 6x30kB --shared-link --background tcp:flows=2 --loss 1% --transport tcp,sctp",
    "--page article --loss 2% --transport tcp:per-object=yes --transport sctp:per-object=yes",
    "--objects 40x4kB --arrivals 50/s --loss 3% --transport tcp:connections=4 --transport sctp:num_ostreams=5",
    "--objects 40x4kB --arrivals 10/s --arrivals-of connections --transport sctp:num_ostreams=5,when-full=spf",
    "--bulk 2MB --message-size 2048B --loss 0.5% --queue 20p --transport tcp,sctp",
    "--page gallery --client plain --origins keep --think recorded --server-time 3ms --server serial --loss 2% \
     --transport tcp,sctp",
    "--page gallery --origins keep --server-time 3ms --server serial --loss 2% --transport tcp,sctp",
    "--rate 10mbit/500ms:1mbit --rtt 60ms --half-duplex --loss nth:30 --transport tcp --transport sctp:num_ostreams=2,when-full=rr",
    "--preset 3g --ecn 20p --objects 4x50kB --transport tcp:ecn=yes --transport sctp:ecn=yes,encap=udp",
    "--loss 2% --objects 5x40kB --transport tcp:profile=reno-2002 --transport tcp:profile=linux-2.6 \
     --transport tcp:profile=ns2 --transport tcp:profile=modern --transport sctp:profile=rfc2960 \
     --transport sctp:profile=kame-2002 --transport sctp:profile=lksctp-2.6 --transport sctp:profile=ns2 \
     --transport sctp:profile=rfc9260 --transport sctp:profile=modern",
    "--objects 4x20kB,1x200kB --loss 0,2% --rate 1mbit,10mbit --timeout 15s --deadline 60s --transport tcp,sctp",
];

fn result(race: &Race) -> String {
    json::render(race)
}

#[test]
fn the_same_race_gives_the_same_results_on_any_number_of_threads_and_another_seed_does_not() {
    for scenario in SCENARIOS {
        let seed_one = plan(&format!("{scenario} --runs 2 --seed 1"));
        let first = race_on(1, &seed_one);
        for (contestant, run) in runs(&first) {
            check(&format!("{scenario}: {contestant}, seed {}", run.seed), run);
        }
        let first = result(&first);
        let again = result(&race_on(1, &plan(&format!("{scenario} --runs 2 --seed 1"))));
        assert!(first == again, "{scenario}: a second time is another time");
        let both = result(&race_on(2, &seed_one));
        assert!(first == both, "{scenario}: two threads give other numbers than one");
        let other = race_on(2, &plan(&format!("{scenario} --runs 2 --seed 10001")));
        let numbers = |text: &str| text.split_once("\"points\"").map(|(_, rest)| rest.replace("10001", "1"));
        let differ = numbers(&first) != numbers(&result(&other));
        // For a scenario without random events, two seeds may give equal results, although initial sequence numbers and
        // keys differ.
        let chance = ["loss", "background"].iter().any(|word| scenario.contains(word)) || scenario.is_empty();
        assert!(differ || !chance, "{scenario}: another seed changes nothing");
    }
}

#[test]
fn the_same_race_gives_the_same_packets_and_another_seed_does_not() {
    for scenario in SCENARIOS {
        let plan = plan(&format!("{scenario} --runs 2 --seed 1"));
        let contestants: Vec<Option<usize>> =
            if plan.together { vec![None] } else { (0..plan.contestants.len()).map(Some).collect() };
        for contestant in contestants {
            let shot = |seed| one::capture(&batch::scenario(&plan, 0, contestant, seed)).expect(scenario);
            let ((runs, packets), (runs_again, packets_again)) = (shot(1), shot(1));
            assert!(runs == runs_again, "{scenario}: results");
            assert!(packets == packets_again, "{scenario}: captures");
            assert!(
                packets.iter().all(|captured| captured.pcapng.len() > 1_000),
                "{scenario}: an empty capture"
            );
            // With another seed, verification tags, initial sequence numbers and random events must differ.
            let other = shot(2).1;
            let pairs = packets.iter().zip(&other);
            assert!(
                pairs.clone().all(|(a, b)| a.pcapng != b.pcapng),
                "{scenario}: another seed, the same packets"
            );
            // A run without a capture must give the same results as a run with one.
            let bare = one::run(&batch::scenario(&plan, 0, contestant, 1)).expect(scenario);
            assert!(runs == bare, "{scenario}: a capture changes the run");
        }
    }
}

#[test]
fn only_the_host_may_differ() {
    let plan = plan("--page osterdahl-news --runs 1");
    let (a, mut b) = (race_on(1, &plan), race_on(1, &plan));
    b.host = Host { version: "another".to_owned(), elapsed_s: Some(7.5), ..Host::default() };
    let without_host = |race: &Race| {
        let mut value: serde_json::Value = serde_json::from_str(&json::render(race)).expect("JSON");
        let object = value.as_object_mut().expect("an object");
        assert!(object.remove("host").is_some());
        value
    };
    assert_ne!(json::render(&a), json::render(&b));
    assert_eq!(without_host(&a), without_host(&b));
}
