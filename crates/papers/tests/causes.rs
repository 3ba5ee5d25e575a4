//! Tests the causes that studies name, with new seeds.

use anabranch_base::testing::are_slow_tests_enabled;
use anabranch_lab::run::batch::Options;
use anabranch_papers::{CauseDefinition, NullStore, Seeds, StudyRuns};
use anabranch_transports::Transports;
use std::sync::atomic::AtomicBool;

/// The causes that studies name must have their effects with new seeds, too. The causes that are known to be false
/// (`planted`) must be refuted. This test uses a hundred seeds; `study run NAME --runs 1000 --seed 1001` uses a
/// thousand.
#[test]
fn causes_that_studies_name_hold_on_fresh_seeds() {
    if !are_slow_tests_enabled() {
        return;
    }
    let stop = AtomicBool::new(false);
    let options = Options { threads: 2, progress: &|_| {}, stop: &stop };
    let seeds = Seeds { runs: 100, first: 1001, changes: &[], transports: &Transports::standard() };
    // Skips the study `today`, whose encrypted page loads take too long here. Recorded outcomes check the findings of
    // this study instead.
    for name in anabranch_papers::names().filter(|name| *name != "today") {
        let study = anabranch_papers::open(name).expect("a study");
        let mut bench = StudyRuns::new(&options, &NullStore);
        for cause in &study.causes {
            let table = study.table(&cause.table).expect("its table");
            // Measures the effect of each cause only at the one point of the table that the cause names. Without
            // `explains` and `chart`, no other points are run.
            let alone = CauseDefinition { explains: false, chart: None, ..cause.clone() };
            let found = alone.run(table, &seeds, &mut bench).expect("a run");
            assert!(found.is_met(), "{name}: {}: {:?}", cause.id, found.effect);
        }
    }
}
