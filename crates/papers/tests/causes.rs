//! Tests the causes that studies name.

use anabranch_base::testing::are_slow_tests_enabled;
use anabranch_lab::run::batch::Options;
use anabranch_papers::{Bench, Cause, NullStore, Seeds};
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

/// Causes that studies name must hold for new seeds, and a claim that was added to be refuted must fail. This test uses a
/// hundred seeds; `study run NAME --runs 1000 --seed 1001` uses a thousand.
#[test]
fn causes_that_studies_name_hold_on_fresh_seeds() {
    if !are_slow_tests_enabled() {
        return;
    }
    let stop = AtomicBool::new(false);
    let options = Options { threads: 2, progress: &|_| {}, stop: &stop };
    let seeds = Seeds { runs: 100, first: 1001, changes: &[], transports: &Transports::standard() };
    // The findings of `today` are checked by its recorded outcomes, because its page loads with encryption take too
    // long here.
    for name in anabranch_papers::names().filter(|name| *name != "today") {
        let study = anabranch_papers::open(name).expect("a study");
        let mut bench = Bench::new(&options, &NullStore);
        for cause in &study.causes {
            let table = study.table(&cause.table).expect("its table");
            // Only the point of the cause. What it explains elsewhere, and its curve, are not tested here.
            let alone = Cause { explains: false, chart: None, ..cause.clone() };
            let found = alone.run(table, &seeds, &mut bench).expect("a run");
            assert!(found.is_met(), "{name}: {}: {:?}", cause.id, found.effect);
        }
    }
}
