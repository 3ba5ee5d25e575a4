//! Tests that the check of a claim can hold and can fail. If a change of the plans makes a claim false, or true, the
//! outcome of its check must change.

use anabranch_base::testing::are_slow_tests_enabled;
use anabranch_lab::run::batch::Options;
use anabranch_papers::check::{self, Check, Outcome};
use anabranch_papers::{Change, NullStore, Seeds, Size, Study, StudyRuns};
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

/// A claim with its outcome, and changes of the plans that give it another outcome.
struct Case {
    study: &'static str,
    claim: &'static str,
    /// The levels to which factors of the plans are limited, so that the test runs only what it needs. If empty, all
    /// levels are run.
    levels: &'static [(&'static str, &'static [&'static str])],
    /// The outcome of the claim with the plans as shipped.
    as_shipped: Outcome,
    /// Changes of the plans, and the outcome with these changes. A change that begins with `levels ` gives a factor
    /// these levels.
    changes: &'static [&'static str],
    changed: Outcome,
}

/// Returns the outcome of the case's claim with these changes of the plans, and the description of the outcome.
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

/// Sets the levels of a factor in a plan. Does nothing if the key is not a factor.
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
    // The claim says that packets are lost in a fixed pattern: every tenth. If one packet in ten is lost at random, the
    // claim must fail.
    Case {
        study: "osterdahl-2005",
        claim: "o15",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["loss=10%"],
        changed: Outcome::Fails,
    },
    // The claim says that TCP is faster than SCTP. If TCP needs more CPU time per byte than SCTP, the claim must fail.
    Case {
        study: "osterdahl-2005",
        claim: "o18",
        levels: &[("objects", &["50x10MiB"])],
        as_shipped: Outcome::Holds,
        changes: &["tcp-linux:byte-cost=40ns"],
        changed: Outcome::Fails,
    },
    // The claim says that at a moderate load, a client and a server may share a host. If the host can answer only ten
    // requests per second, 25 requests per second are no moderate load, and the claim must fail.
    Case {
        study: "osterdahl-2005",
        claim: "o21",
        levels: &[("objects", &["50x100B", "50x1KiB", "50x10KiB", "50x100KiB", "50x1MiB"])],
        as_shipped: Outcome::Holds,
        changes: &["tcp-linux-one:request-cost=100ms"],
        changed: Outcome::Fails,
    },
    // The claim says that loss reduces the throughput of SCTP more than that of TCP. If SCTP has shorter timers than
    // TCP, it keeps more of its throughput, and the claim must fail.
    Case {
        study: "osterdahl-2005",
        claim: "o29",
        levels: &[("objects", &["50x1KiB", "50x10KiB"])],
        as_shipped: Outcome::Holds,
        changes: &["sctp-1:rto_min=10ms", "sctp-1:rto_initial=200ms"],
        changed: Outcome::Fails,
    },
    // The claim says that streams of one association are faster than an association for each object. If the first
    // contestant also opens an association for each object, the claim must fail.
    Case {
        study: "osterdahl-2005",
        claim: "o40",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["sctp-streams:num_ostreams=1", "sctp-streams:per-object=yes"],
        changed: Outcome::Fails,
    },
    // The claim says that a server with a short backlog refuses connections. If the backlog has room for all
    // connections, none is refused, and the claim must fail.
    Case {
        study: "sasikala-2008",
        claim: "s16",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["tcp-*:backlog=128"],
        changed: Outcome::Fails,
    },
    // The claim says that all unacknowledged chunks are retransmitted when the timer expires. If only one of six
    // packets is lost, the timer does not expire, and the claim must fail.
    Case {
        study: "sasikala-2008",
        claim: "s24",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["down-loss=list:9"],
        changed: Outcome::Fails,
    },
    // The claim says that response times rise with loss. If the plan lists the larger loss first, the times fall from
    // level to level, and the claim must fail.
    Case {
        study: "sasikala-2008",
        claim: "s28",
        levels: &[("rate", &["40mbit"]), ("loss", &["0.4%", "5%"])],
        as_shipped: Outcome::Holds,
        changes: &["levels loss=5% 0.4%"],
        changed: Outcome::Fails,
    },
    // The claim says that response times fall with bandwidth, or fall as its inverse. If the plan lists the largest
    // rate first, the times rise from level to level, and the claim must fail under both readings.
    Case {
        study: "sasikala-2008",
        claim: "s31",
        levels: &[("loss", &["0.4%"])],
        as_shipped: Outcome::Reading,
        changes: &["levels rate=40mbit 10mbit 3mbit 0.4mbit 0.04mbit"],
        changed: Outcome::Fails,
    },
    // The claim says that more bandwidth means less loss. With a queue of ten packets, it fails: SCTP loses more at 0.4
    // Mbit/s than at 0.04 Mbit/s. With a queue of three packets, SCTP loses more at 0.04 Mbit/s, and the claim must
    // hold.
    Case {
        study: "sasikala-2008",
        claim: "s32",
        levels: &[],
        as_shipped: Outcome::Fails,
        changes: &["queue=3p"],
        changed: Outcome::Holds,
    },
    // The claim says that response times of SCTP are far below those of TCP. If SCTP's receive buffer has room for only
    // one packet, the claim must fail.
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
    // The claim says that SCTP closes with three messages and TCP with four. If TCP sends the FIN with the last data,
    // TCP needs one packet less, and the claim must fail.
    Case {
        study: "ha-2005",
        claim: "h04",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["tcp-linux:fin=data"],
        changed: Outcome::Fails,
    },
    // The claim says that three messages end an association. If the first or the second of them is lost, more messages
    // are sent, or the association does not end. The claim must then fail.
    Case {
        study: "ha-2005",
        claim: "h05",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["down-loss=list:5"],
        changed: Outcome::Fails,
    },
    // The claim says that the files follow each other on one connection. If TCP uses four connections, the claim must
    // fail.
    Case {
        study: "rajamani-2002",
        claim: "r09",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["tcp-reno:connections=4"],
        changed: Outcome::Fails,
    },
    // The claim says that SCTP limits every burst to four packets. Without the limit, bursts are longer, and the claim
    // must fail.
    Case {
        study: "rajamani-2002",
        claim: "r24",
        levels: &[],
        as_shipped: Outcome::Holds,
        changes: &["sctp-kame:max_burst=0"],
        changed: Outcome::Fails,
    },
    // The claim says that a limit on bursts saves retransmissions and at least 3 % of the time. With half of the queue,
    // a burst loses more packets, and the limit saves a fifth of the time. The claim must then hold.
    Case {
        study: "rajamani-2002",
        claim: "r25",
        levels: &[],
        as_shipped: Outcome::Fails,
        changes: &["queue=25p"],
        changed: Outcome::Holds,
    },
    // The claim says that ten streams are faster than TCP, and TCP is faster than one stream. It must hold if the ten
    // streams have short timers, and the server of the single stream is slow.
    Case {
        study: "alternative-transport",
        claim: "a18",
        levels: &[],
        as_shipped: Outcome::Fails,
        changes: &["sctp-1:request-cost=200ms", "sctp-10:rto_initial=200ms", "sctp-10:rto_min=100ms"],
        changed: Outcome::Holds,
    },
    // The claim says that a longer timer would help SCTP. If SCTP already has the longer timer, there is nothing left
    // to gain, and the claim must fail.
    Case {
        study: "alternative-transport",
        claim: "a12",
        levels: &[],
        as_shipped: Outcome::Reading,
        changes: &["sctp-1:rto_min=5s"],
        changed: Outcome::Fails,
    },
    // The claim says that SCTP with one stream is faster than TCP, or as fast. If SCTP sends small chunks, their
    // headers make it slower, and the claim must fail.
    Case {
        study: "alternative-transport",
        claim: "a22",
        levels: &[("rate", &["128kbit"])],
        as_shipped: Outcome::Holds,
        changes: &["sctp-1:mss=100B"],
        changed: Outcome::Fails,
    },
];

/// Each check must be able to hold and to fail. A change of the plans that makes the claim false, or true, must change
/// the outcome.
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

/// A check of the feature table must compare each cell with the expected word, also for TCP with the settings of a
/// profile. One wrong word must make the check fail.
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
