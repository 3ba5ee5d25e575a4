//! Tests that the checks of claims can fail: a change that makes a sentence false turns its outcome round.

use anabranch_base::testing::are_slow_tests_enabled;
use anabranch_lab::run::batch::Options;
use anabranch_papers::check::{self, Check, Outcome};
use anabranch_papers::{Change, NullStore, Seeds, Size, Study, StudyRuns};
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

/// A claim with the runs that decide it.
struct Case {
    study: &'static str,
    claim: &'static str,
    /// The levels that remain of factors of the plans, so that the test runs no more than it needs. Empty for all.
    levels: &'static [(&'static str, &'static [&'static str])],
    /// The outcome without a change.
    as_shipped: Outcome,
    /// Changes of the plans that turn the outcome round, and the outcome with them. A change that begins with `levels `
    /// gives a factor these levels.
    changes: &'static [&'static str],
    changed: Outcome,
}

/// Returns the outcome of the claim of a case, with these changes of the plans.
fn outcome(case: &Case, changes: &[&str]) -> (Outcome, String) {
    let mut study = anabranch_papers::open(case.study).expect("a study");
    study.claims.retain(|claim| claim.id == case.claim);
    for table in &mut study.tables {
        let definition = &mut table.definition;
        if definition.enumerated.is_none() {
            definition.quick_runs = definition.quick_runs.min(20);
        }
        for (key, levels) in case.levels {
            set_levels(&mut definition.plan, key, levels);
        }
        for change in changes {
            let Some((key, levels)) = change.strip_prefix("levels ").and_then(|text| text.split_once('='))
            else {
                continue;
            };
            set_levels(&mut definition.plan, key, &levels.split(' ').collect::<Vec<_>>());
        }
    }
    let changes: Vec<&str> =
        changes.iter().copied().filter(|change| !change.starts_with("levels ")).collect();
    run(study, &changes)
}

/// Gives a factor of a plan these levels. A key that is no factor stays as it is.
fn set_levels(plan: &mut toml::Table, key: &str, levels: &[&str]) {
    if let Some(toml::Value::Array(array)) = plan.get_mut(key) {
        *array = levels.iter().map(|level| toml::Value::String((*level).to_owned())).collect();
    }
}

/// Runs the tables and causes that the first claim of a study needs, with these changes. Returns the outcome of the
/// claim.
fn run(mut study: Study, changes: &[&str]) -> (Outcome, String) {
    let checks: Vec<Check> = study.claims[0].checks().cloned().collect();
    study.causes.retain(|cause| checks.contains(&Check::Cause(cause.id.clone())));
    for cause in &mut study.causes {
        (cause.explains, cause.chart) = (false, None);
    }
    let of_causes: Vec<String> = study.causes.iter().map(|cause| cause.table.clone()).collect();
    let is_needed =
        |name: &str| checks.iter().any(|check| matches!(check, Check::Table { table, .. } if table == name));
    study.tables.retain(|table| is_needed(&table.name) || of_causes.contains(&table.name));
    let stop = AtomicBool::new(false);
    let options = Options { threads: 2, progress: &|_| {}, stop: &stop };
    let changes: Vec<Change> = changes.iter().map(|text| Change::parse(text).expect(text)).collect();
    let seeds = Seeds { runs: 0, first: 1, changes: &changes, transports: &Transports::standard() };
    let findings = study.run(Size::Quick, &seeds, &mut StudyRuns::new(&options, &NullStore)).expect("a run");
    let (_, found) = &findings.claims[0];
    (found.outcome, found.description.clone())
}

const CASES: &[Case] = &[
    // One packet in ten at random is no fixed pattern.
    Case {
        study: "osterdahl-2005",
        claim: "o15",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["loss=10%"],
        changed: Outcome::Fails,
    },
    // A TCP whose bytes cost more than those of SCTP.
    Case {
        study: "osterdahl-2005",
        claim: "o18",
        levels: &[("objects", &["50x10MiB"])],
        as_shipped: Outcome::Holds,
        changes: &["tcp-linux:byte-cost=40ns"],
        changed: Outcome::Fails,
    },
    // Ten requests a second are all that this host can answer, so 25 a second are no moderate load.
    Case {
        study: "osterdahl-2005",
        claim: "o21",
        levels: &[("objects", &["50x100B", "50x1KiB", "50x10KiB", "50x100KiB", "50x1MiB"])],
        as_shipped: Outcome::Holds,
        changes: &["tcp-linux-one:request-cost=100ms"],
        changed: Outcome::Fails,
    },
    // An SCTP with timers below those of TCP keeps more of its throughput.
    Case {
        study: "osterdahl-2005",
        claim: "o29",
        levels: &[("objects", &["50x1KiB", "50x10KiB"])],
        as_shipped: Outcome::Holds,
        changes: &["sctp-1:rto_min=10ms", "sctp-1:rto_initial=200ms"],
        changed: Outcome::Fails,
    },
    // Streams that are not used: an association for each object, too.
    Case {
        study: "osterdahl-2005",
        claim: "o40",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["sctp-streams:num_ostreams=1", "sctp-streams:per-object=yes"],
        changed: Outcome::Fails,
    },
    // With a backlog that has room for all nothing is refused.
    Case {
        study: "sasikala-2008",
        claim: "s16",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["tcp-*:backlog=128"],
        changed: Outcome::Fails,
    },
    // One loss of six packets is repaired without the timer.
    Case {
        study: "sasikala-2008",
        claim: "s24",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["down-loss=list:9"],
        changed: Outcome::Fails,
    },
    // From the larger loss to the smaller one times fall.
    Case {
        study: "sasikala-2008",
        claim: "s28",
        levels: &[("rate", &["40mbit"]), ("loss", &["0.4%", "5%"])],
        as_shipped: Outcome::Holds,
        changes: &["levels loss=5% 0.4%"],
        changed: Outcome::Fails,
    },
    // From the larger rate to the smaller one times rise, and not as the inverse.
    Case {
        study: "sasikala-2008",
        claim: "s31",
        levels: &[("loss", &["0.4%"])],
        as_shipped: Outcome::Reading,
        changes: &["levels rate=40mbit 10mbit 3mbit 0.4mbit 0.04mbit"],
        changed: Outcome::Fails,
    },
    // With a queue of ten packets SCTP loses more at 0.4 Mbit/s than at 0.04. With one of three, more at 0.04 Mbit/s.
    Case {
        study: "sasikala-2008",
        claim: "s32",
        levels: &[],
        as_shipped: Outcome::Fails,
        changes: &["queue=3p"],
        changed: Outcome::Holds,
    },
    // An SCTP with room for one packet is not remarkably below.
    Case {
        study: "sasikala-2008",
        claim: "s46",
        levels: &[
            ("mtu", &["576"]),
            ("rate", &["40mbit"]),
            ("loss", &["0.4%", "5%"]),
            ("overlap", &["10m"]),
            ("speed", &["5m/s", "20m/s"]),
        ],
        as_shipped: Outcome::Reading,
        changes: &["sctp-streams:rcvbuf=1500B"],
        changed: Outcome::Fails,
    },
    // A FIN that rides with the data spares TCP a packet.
    Case {
        study: "ha-2005",
        claim: "h04",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["tcp-linux:fin=data"],
        changed: Outcome::Fails,
    },
    // An end whose first or second message is lost takes more than three, or is not over.
    Case {
        study: "ha-2005",
        claim: "h05",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["down-loss=list:5"],
        changed: Outcome::Fails,
    },
    // Files on connections of their own.
    Case {
        study: "rajamani-2002",
        claim: "r09",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["tcp-reno:connections=4"],
        changed: Outcome::Fails,
    },
    // Without its limit SCTP's bursts are longer.
    Case {
        study: "rajamani-2002",
        claim: "r24",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["sctp-kame:max_burst=0"],
        changed: Outcome::Fails,
    },
    // With half of the queue a burst loses more, so that the limit saves retransmissions and a fifth of the time.
    Case {
        study: "rajamani-2002",
        claim: "r25",
        levels: &[],
        as_shipped: Outcome::Fails,
        changes: &["queue=25p"],
        changed: Outcome::Holds,
    },
    // Ten streams with short timers are ahead of TCP, and TCP is ahead of a slow server over one stream.
    Case {
        study: "alternative-transport",
        claim: "a18",
        levels: &[],
        as_shipped: Outcome::Fails,
        changes: &["sctp-1:request-cost=200ms", "sctp-10:rto_initial=200ms", "sctp-10:rto_min=100ms"],
        changed: Outcome::Holds,
    },
    // With the longer timer already set nothing is left that it could help.
    Case {
        study: "alternative-transport",
        claim: "a12",
        levels: &[],
        as_shipped: Outcome::Reading,
        changes: &["sctp-1:rto_min=5s"],
        changed: Outcome::Fails,
    },
    // Small chunks bring headers, and SCTP is neither ahead nor level.
    Case {
        study: "alternative-transport",
        claim: "a22",
        levels: &[("rate", &["128kbit"])],
        as_shipped: Outcome::Holds,
        changes: &["sctp-1:mss=100B"],
        changed: Outcome::Fails,
    },
];

/// Each check must be able to come out in both ways. A change that makes the sentence false, or true, turns it round.
#[test]
fn checks_fail_where_their_sentence_is_false() {
    if !are_slow_tests_enabled() {
        return;
    }
    let mut wrong = Vec::new();
    for case in CASES {
        for (changes, expected) in [(&[][..], case.as_shipped), (case.changes, case.changed)] {
            let (found, description) = outcome(case, changes);
            if found != expected {
                let claim = case.claim;
                wrong.push(format!("{claim} with {changes:?}: {found:?}, not {expected:?}: {description}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
