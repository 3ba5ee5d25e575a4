//! Tests which changes of the network or the contestants a race tries. The reported results must equal those of races
//! with these changes.

use anabranch_lab::causes;
use anabranch_lab::plan::causes::Causes;
use anabranch_lab::plan::{Draft, Plan};
use anabranch_lab::run::batch::Options;
use anabranch_results::{Changed, Race};
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

fn plan(flags: &[(&str, &str)]) -> Plan {
    Draft::from_flags(flags.iter().copied())
        .and_then(|draft| Plan::interpret(draft, &Transports::standard()))
        .unwrap_or_else(|error| panic!("{error}"))
}

fn race(flags: &[(&str, &str)]) -> Race {
    let options = Options { threads: 1, progress: &|_| {}, stop: &AtomicBool::new(false) };
    causes::race(&plan(flags), &options).unwrap_or_else(|error| panic!("{error}"))
}

fn names(changes: &[Changed]) -> Vec<&str> {
    changes.iter().map(|changed| changed.change.as_str()).collect()
}

#[test]
fn a_change_has_the_result_of_a_race_with_it() {
    let page = [("page", "news"), ("runs", "2"), ("transport", "tcp"), ("transport", "sctp")];
    let with = |others: &[(&'static str, &'static str)]| [&page[..], others].concat();
    let found = race(&with(&[("loss", "0")]));
    let changes = &found.points[0].changes;
    let all = ["loss=1%", "origins=merge", "visit=repeat", "rtt=320ms", "rate=40mbit", "cc=bbr"];
    assert_eq!(names(changes), all);
    let plan = plan(&with(&[("loss", "0")]));
    let runs: usize = changes.iter().map(|changed| changed.n as usize * plan.contestants.len()).sum();
    let search = Causes::BUDGET * plan.seeds.len();
    assert_eq!(plan.max_runs(), plan.run_count() + search + runs);
    for (at, flag) in [(0, ("loss", "1%")), (3, ("rtt", "320ms"))] {
        let lossless = ("loss", "0");
        let flags = if flag.0 == "loss" { vec![flag] } else { vec![lossless, flag] };
        let changed = race(&with(&[&flags[..], &[("causes", "off")]].concat()));
        assert_eq!(Changed::none(&changed.points[0]).medians_ms, changes[at].medians_ms, "{}", all[at]);
        assert!(changed.points[0].changes.is_empty(), "causes are off");
    }
}

#[test]
fn a_point_shows_what_a_change_does_to_its_neighbor() {
    let page = [("objects", "6x20kB"), ("runs", "6"), ("transport", "tcp"), ("transport", "sctp")];
    let found = race(&[&page[..], &[("loss", "0,2%")]].concat());
    let [lossless, lossy] = found.points.as_slice() else { panic!("two points") };
    // The race does not try changes of the hosts and the visit, because the objects have no hosts and no browser loads
    // them.
    assert_eq!(names(&lossless.changes), ["loss=2%", "rtt=320ms", "rate=40mbit", "cc=bbr"]);
    assert_eq!(names(&lossy.changes), ["loss=0", "rtt=320ms", "rate=40mbit", "cc=bbr"]);
    assert_eq!(lossy.changes[0].n, 1, "without loss nothing is random");
    let medians = |point: &anabranch_results::Point| -> Vec<Option<f64>> {
        point.contestants.iter().map(|contestant| contestant.summary.page_ms.median).collect()
    };
    assert_eq!(lossless.changes[0].medians_ms, medians(lossy));
    assert_eq!(lossy.changes[0].medians_ms, medians(lossless));
}

#[test]
fn other_values_of_a_key_are_tried_only_if_the_race_has_none() {
    let count = |flags: &[(&str, &str)]| {
        let plan = plan(flags);
        plan.max_runs() - plan.run_count() - Causes::BUDGET * plan.seeds.len() * plan.points.len()
    };
    let grid = [
        ("objects", "6x20kB"),
        ("runs", "6"),
        ("loss", "0,1%"),
        ("rtt", "20ms,80ms"),
        ("rate", "1mbit,2mbit"),
    ];
    // At each point, only a change of the congestion control is tried. Four points have no loss and run with one seed;
    // the other four run with all six seeds. Two contestants run at each point.
    let two = [("transport", "tcp"), ("transport", "sctp")];
    assert_eq!(count(&[&grid[..], &two[..]].concat()), 4 * 2 + 4 * 2 * 6);
    assert_eq!(count(&[("bulk", "1MB"), two[0], two[1]]), 0, "a bulk transfer");
}

/// A network that loses little is also tried with more loss. Losses in bursts remain bursts.
#[test]
fn a_network_with_little_loss_is_tried_with_more() {
    let two = [("objects", "6x20kB"), ("runs", "1"), ("transport", "tcp"), ("transport", "sctp")];
    let first_two = |network: (&str, &str)| {
        let point = race(&[&two[..], &[network]].concat()).points.remove(0);
        names(&point.changes).into_iter().take(2).map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(first_two(("preset", "lte")), ["loss=0", "loss=ge:0.5%/49.95%/100%/0%"]);
    assert_eq!(first_two(("loss", "0.5%")), ["loss=0", "loss=1%"]);
    assert_eq!(first_two(("loss", "1%")), ["loss=0", "rtt=320ms"]);
    let given = ("loss", "1%");
    let replaced = plan(&[&two[..], &[("preset", "lte"), given]].concat()).warnings();
    assert!(replaced.iter().any(|warning| warning.contains("lte loses packets in bursts")), "{replaced:?}");
    assert!(plan(&[&two[..], &[("preset", "dsl"), given]].concat()).warnings().is_empty());
}
