//! The sentence that a race ends with.

use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::results::Race;
use anabranch_lab::run::batch::{self, Options};
use anabranch_lab::verdict;
use std::sync::atomic::AtomicBool;

fn race(line: &str) -> Race {
    let words: Vec<&str> = line.split_whitespace().collect();
    let flags = words.chunks(2).map(|pair| (pair[0].trim_start_matches("--"), pair[1]));
    let plan = Draft::from_flags(flags).and_then(Plan::interpret).unwrap_or_else(|e| panic!("{line}: {e}"));
    let options = Options { threads: 2, progress: &|_| {}, stop: &AtomicBool::new(false) };
    batch::race(&plan, &options).unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Where time went is no cause: nothing is said of causes.
#[test]
fn the_sentence_names_no_cause() {
    let found = race("--runs 5 --page gallery --loss 1% --transport tcp,sctp --seed 1");
    for found in [found, race("--messages 50/s --for 5s --loss 1% --runs 5 --transport tcp,sctp")] {
        let told = verdict::sentence(&found.points[0]);
        assert!(!told.contains("because") && !told.contains("less time"), "{told}");
    }
}
