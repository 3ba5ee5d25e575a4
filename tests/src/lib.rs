//! Helper functions for the tests of the whole system. They run races with the given flags of `anabranch race`, check
//! the invariants of every run, and read seeds from the environment.

use anabranch_lab::causes;
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::Options;
use anabranch_results::{Outcome, Race, Run};
use anabranch_transports::Transports;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicBool;

/// Returns the plan that `anabranch race` would make of these flags. A flag is `--flag value` or `--switch`.
///
/// # Panics
/// If the flags are wrong.
#[must_use]
pub fn plan(line: &str) -> Plan {
    let mut pairs: Vec<(&str, &str)> = Vec::new();
    for word in line.split_whitespace() {
        match (word.strip_prefix("--"), pairs.last_mut()) {
            (Some(flag), _) => pairs.push((flag, "yes")),
            (None, Some(last)) => last.1 = word,
            (None, None) => panic!("{line}: a flag comes first"),
        }
    }
    let plan = Draft::from_flags(pairs).and_then(|draft| Plan::interpret(draft, &Transports::standard()));
    plan.unwrap_or_else(|error| panic!("{line}: {error}"))
}

/// Runs the race that `plan` describes, on `threads` threads. Returns its results.
///
/// # Panics
/// If the race cannot be run, or if a run breaks an invariant that the laboratory checks.
#[must_use]
pub fn race_on(threads: usize, plan: &Plan) -> Race {
    let options = Options { threads, progress: &|_| {}, stop: &AtomicBool::new(false) };
    causes::race(plan, &options).unwrap_or_else(|error| panic!("{error}"))
}

/// Runs the race that these flags of `anabranch race` describe.
#[must_use]
pub fn race(line: &str) -> Race {
    race_on(2, &plan(line))
}

/// Returns every run of a race, with the name of its contestant.
pub fn runs(race: &Race) -> impl Iterator<Item = (&str, &Run)> {
    let contestants = race.points.iter().flat_map(|point| &point.contestants);
    contestants.flat_map(|contestant| contestant.runs.iter().map(|run| (contestant.name.as_str(), run)))
}

/// Checks the invariants that every run must keep, whatever the network does.
///
/// # Panics
/// If the run breaks an invariant.
pub fn check(description: &str, run: &Run) {
    let delivered = run.objects.iter().filter(|object| object.delivered_ns.is_some()).count();
    let failed = run.objects.iter().filter(|object| object.failure.is_some()).count();
    match run.outcome {
        Outcome::Done => {
            assert_eq!(delivered, run.objects.len(), "{description}: done, but not all is delivered");
            let last = run.objects.iter().filter_map(|object| object.delivered_ns).max();
            assert!(run.page_ns >= last, "{description}: done at {:?}, before {last:?}", run.page_ns);
            let limit = run.limit_ns.unwrap_or_else(|| panic!("{description}: done beyond any limit"));
            assert!(run.page_ns >= Some(limit), "{description}: {:?} beats the limit {limit}", run.page_ns);
        }
        Outcome::Failed => assert!(failed > 0, "{description}: failed, and no object says why"),
        Outcome::Deadline => assert!(delivered < run.objects.len(), "{description}: all is delivered"),
    }
    assert!(
        run.outcome == Outcome::Done || run.page_ns.is_none(),
        "{description}: a page time without a page"
    );
    for object in &run.objects {
        let name = &object.name;
        assert!(object.delivered_ns.is_none() || object.failure.is_none(), "{description}: {name} both ways");
        let failure = object.failure.as_deref().unwrap_or_default();
        assert!(!failure.contains("is not intact"), "{description}: {name}: {failure}");
        let (Some(issued), Some(done)) = (object.issued_ns, object.delivered_ns) else { continue };
        let why = object.why.as_ref().unwrap_or_else(|| panic!("{description}: {name} has no why"));
        // `why` splits the response time into unsigned parts. A part that should be negative would be stored as zero.
        // The sum of the parts would then differ from the response time.
        assert_eq!(why.sum(), done - issued, "{description}: the parts of {name} do not add up: {why:?}");
        let t = object.instants.as_ref().unwrap_or_else(|| panic!("{description}: {name} has no instants"));
        let instants = [
            issued,
            t.assigned_ns,
            t.req_sent_ns,
            t.req_copy_ns,
            t.req_in_ns,
            t.serving_ns,
            t.written_ns,
            t.sent_ns,
            t.copy_ns,
            t.complete_ns,
            done,
        ];
        assert!(instants.is_sorted(), "{description}: the instants of {name} go back: {instants:?}");
        assert!(object.first_byte_ns.is_some_and(|at| at >= issued && at <= done), "{description}: {name}");
        if let Some(detail) = &object.send_detail {
            let sum = detail.cwnd_ns + detail.rwnd_ns + detail.turn_ns;
            assert_eq!(Some(sum), why.send_ns, "{description}: the details of {name}: {detail:?}");
        }
    }
}

/// Calls `one` with each seed. If the environment variable `SEED` is set, only this seed is used. Otherwise the seeds
/// start at 0, and their number is the variable `SEEDS`, or `default` if `SEEDS` is not set. If a seed fails, prints
/// the command that runs this seed again.
///
/// # Panics
/// If `one` panics.
pub fn seeds(test: &str, default: u64, one: impl Fn(u64)) {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds: Range<u64> = match (number("SEED"), number("SEEDS")) {
        (Some(seed), _) => seed..seed + 1,
        (None, count) => 0..count.unwrap_or(default),
    };
    for seed in seeds {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| one(seed))) {
            eprintln!("replay with: SEED={seed} cargo test -p anabranch-tests --test {test}");
            std::panic::resume_unwind(panic);
        }
    }
}
