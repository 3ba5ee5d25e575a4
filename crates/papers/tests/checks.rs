//! Tests that the checks of claims can fail: a change that makes a sentence false turns its outcome round.

use anabranch_base::testing::are_slow_tests_enabled;
use anabranch_lab::run::batch::Options;
use anabranch_papers::check::{self, Check, Outcome};
use anabranch_papers::{Change, NullStore, Seeds, Size, Study, StudyRuns};
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

/// Returns the outcome of a claim that tables alone decide, with these changes of their plans.
fn outcome(study: &str, id: &str, changes: &[&str]) -> (Outcome, String) {
    let mut study = anabranch_papers::open(study).expect("a study");
    study.claims.retain(|claim| claim.id == id);
    run(study, changes)
}

/// Runs the tables that the first claim of a study needs, with these changes. Returns the outcome of the claim.
fn run(mut study: Study, changes: &[&str]) -> (Outcome, String) {
    let checks: Vec<Check> = study.claims[0].checks().cloned().collect();
    let is_needed =
        |name: &str| checks.iter().any(|check| matches!(check, Check::Table { table, .. } if table == name));
    study.tables.retain(|table| is_needed(&table.name));
    study.causes.clear();
    let stop = AtomicBool::new(false);
    let options = Options { threads: 2, progress: &|_| {}, stop: &stop };
    let changes: Vec<Change> = changes.iter().map(|text| Change::parse(text).expect(text)).collect();
    let seeds = Seeds { runs: 0, first: 1, changes: &changes, transports: &Transports::standard() };
    let findings = study.run(Size::Quick, &seeds, &mut StudyRuns::new(&options, &NullStore)).expect("a run");
    let (_, found) = &findings.claims[0];
    (found.outcome, found.description.clone())
}

/// Each entry has a study, a claim, and a change that makes the sentence false. The outcomes follow: as shipped, and with
/// the change.
const CASES: &[(&str, &str, &str, [Outcome; 2])] = &[
    // One packet in ten at random is no fixed pattern.
    ("osterdahl-2005", "o15", "loss=10%", [Outcome::Holds, Outcome::Fails]),
    // With a backlog that has room for all nothing is refused.
    ("sasikala-2008", "s16", "tcp-*:backlog=128", [Outcome::Holds, Outcome::Fails]),
    // One loss of six packets is repaired without the timer.
    ("sasikala-2008", "s24", "down-loss=list:9", [Outcome::Holds, Outcome::Fails]),
    // A FIN that rides with the data spares TCP a packet.
    ("ha-2005", "h04", "tcp-linux:fin=data", [Outcome::Holds, Outcome::Fails]),
    // Without its limit SCTP's bursts are longer.
    ("rajamani-2002", "r24", "sctp-kame:max_burst=0", [Outcome::Holds, Outcome::Fails]),
];

#[test]
fn checks_fail_where_their_sentence_is_false() {
    if !are_slow_tests_enabled() {
        return;
    }
    for (study, id, change, outcomes) in CASES {
        for (changes, expected) in [(&[][..], outcomes[0]), (&[*change], outcomes[1])] {
            let (found, description) = outcome(study, id, changes);
            assert_eq!(found, expected, "{id} with {changes:?}: {description}");
        }
    }
}

/// A row of the feature table is compared with the words of a check, cell by cell, and TCP with the settings of a profile.
#[test]
fn words_of_features_can_be_false() {
    for (check, outcome, found) in [
        ("feature multihoming: sctp=yes,tcp=no", Outcome::Holds, "features: 2 of 2 cells; multihoming"),
        (
            "feature multihoming: sctp=yes,tcp=yes",
            Outcome::Fails,
            "features: 1 of 2 cells; multihoming: tcp: no",
        ),
        ("feature protection against SYN flooding: tcp/reno-2002=no", Outcome::Holds, "features: protection"),
        (
            "feature protection against SYN flooding: tcp/linux-2.6=yes",
            Outcome::Fails,
            "features: protection",
        ),
    ] {
        let mut study = anabranch_papers::open("sasikala-2008").expect("a study");
        study.claims.truncate(1);
        study.claims[0].readings = check::readings(check).expect(check);
        let decided = run(study, &[]);
        assert_eq!((decided.0, decided.1.starts_with(found)), (outcome, true), "{check}: {}", decided.1);
    }
}
