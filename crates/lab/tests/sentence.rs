//! Tests the sentence with the verdict at the end of a race's output.

use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::Options;
use anabranch_results::cell::{LeaderStatus, PointResult};
use anabranch_results::{Outcome, Race, verdict};
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

fn race(line: &str) -> Race {
    let words: Vec<&str> = line.split_whitespace().collect();
    let flags = words.chunks(2).map(|pair| (pair[0].trim_start_matches("--"), pair[1]));
    let plan = Draft::from_flags(flags)
        .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
        .unwrap_or_else(|e| panic!("{line}: {e}"));
    let options = Options { threads: 2, progress: &|_| {}, stop: &AtomicBool::new(false) };
    causes::race(&plan, &options).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// The sentence must name the setting that ended the runs, its value, and the value to write instead. With the new
/// value, the runs must finish.
#[test]
fn a_deadline_is_named() {
    let line = "--bulk 5MB --rate 1mbit --loss 0 --runs 2 --transport tcp,sctp";
    let found = race(&format!("{line} --deadline 8s"));
    let verdict_text = verdict::sentence(&found.points[0]);
    let head = "No contestant finished. The deadline (--deadline 8s) ended tcp and sctp; write a later one, \
                such as --deadline ";
    assert!(verdict_text.starts_with(head), "{verdict_text}");
    let enough = verdict_text.strip_prefix(head).and_then(|rest| rest.strip_suffix('.')).expect("a time");
    let found = race(&format!("{line} --deadline {enough}"));
    assert!(
        found.points[0]
            .contestants
            .iter()
            .flat_map(|contestant| &contestant.runs)
            .all(|run| run.outcome == Outcome::Done)
    );
    assert!(!verdict::sentence(&found.points[0]).contains("deadline"));
    // The sentence must name the deadline even if the deadline is the default. The sentence suggests a later deadline
    // even here, where the only path fails forever and a later deadline would not help.
    let found = race("--bulk 5MB --fail path=1,at=1s --loss 0 --runs 1 --transport tcp");
    let verdict_text = verdict::sentence(&found.points[0]);
    assert!(verdict_text.contains("(--deadline 600s) ended tcp; write a later one"), "{verdict_text}");
    // In this race, one contestant finished, and the other did not.
    let found = race(
        "--objects 1x100kB --rate 1mbit --loss 0 --runs 2 --deadline 2s --transport tcp --transport sctp:rcvbuf=1500B",
    );
    let verdict_text = verdict::sentence(&found.points[0]);
    assert!(
        verdict_text.contains("sctp:rcvbuf=1500B never finished. The deadline (--deadline 2s)"),
        "{verdict_text}"
    );
    assert!(verdict_text.contains("ended sctp:rcvbuf=1500B;"), "{verdict_text}");
}

/// At each point of a grid of conditions, the winner is the contestant that is faster than every other contestant. The
/// winner's lead is the ratio of the runner-up's time to the winner's time.
#[test]
fn a_cell_sets_the_first_beside_the_next() {
    let cell = |transports: &str| {
        let line = "--objects 8x20kB --loss 0 --runs 1 --causes off";
        let all: String = transports.split(' ').map(|one| format!(" --transport {one}")).collect();
        PointResult::of(&race(&(line.to_owned() + &all)).points[0])
    };
    let (slow, alike) = ("tcp:pipeline=no", "tcp:rto_max=50s");
    let won = cell(&format!("{slow} tcp:iw=4 tcp"));
    assert_eq!((won.standing, won.winner()), (LeaderStatus::Wins, Some(2)));
    let mut times: Vec<f64> = won.times.iter().flatten().copied().collect();
    times.sort_by(f64::total_cmp);
    assert!(times[2] > 1.1 * times[1], "{times:?}");
    assert_eq!(won.lead, Some(times[1] / times[0]));
    // A point has no winner if the fastest contestant ties with one of the two others.
    let level = cell(&format!("{slow} tcp {alike}"));
    assert_eq!((level.standing, level.first, level.winner()), (LeaderStatus::Level, Some(1), None));
    assert_eq!(level.lead, Some(1.0));
}

/// The sentence with the verdict must not name causes of the winner's lead.
#[test]
fn the_sentence_names_no_cause() {
    let found = race("--runs 5 --page gallery --loss 1% --transport tcp,sctp --seed 1");
    for found in [found, race("--messages 50/s --for 5s --loss 1% --runs 5 --transport tcp,sctp")] {
        let verdict_text = verdict::sentence(&found.points[0]);
        assert!(!verdict_text.contains("because") && !verdict_text.contains("less time"), "{verdict_text}");
    }
}
