//! Tests of the readings of a paper, which are the possible interpretations of what it leaves open. The tests cover the
//! files that list readings, and how errors and departures select a reading.

use super::*;

fn scored(name: &str, departures: (u32, u32), errors: &[f64]) -> ScoredReading {
    ScoredReading {
        name: name.to_owned(),
        departures,
        exploratory: false,
        calibrated: Vec::new(),
        remaining_error: None,
        errors: errors.to_vec(),
        orders: Vec::new(),
    }
}

fn scores(readings: Vec<ScoredReading>) -> Scores {
    let rows = (0..readings[0].errors.len()).map(|row| row.to_string()).collect();
    Scores::of("hash".to_owned(), rows, Vec::new(), readings).expect("scores")
}

#[test]
fn orders_of_a_row_that_is_left_out_are_those_of_what_the_others_choose() {
    let of = |name: &str, errors: [f64; 2], orders: [(usize, usize); 2]| ScoredReading {
        orders: orders.to_vec(),
        ..scored(name, (0, 0), &errors)
    };
    // If only table row 0 is used, the reading `a` is the best. If only row 1 is used, the reading `b` is the best.
    let readings = vec![of("a", [0.1, 0.9], [(2, 2), (0, 3)]), of("b", [0.8, 0.1], [(1, 2), (3, 3)])];
    let row = |name: &str, scored_rows: &[usize]| OrderRow {
        name: name.to_owned(),
        scored_rows: scored_rows.to_vec(),
    };
    let rows = vec!["0".to_owned(), "1".to_owned()];
    let order_rows = vec![row("x", &[0]), row("y", &[1])];
    let found = Scores::of("hash".to_owned(), rows, order_rows, readings).expect("scores");
    assert_eq!((found.orders_of(0), found.orders_of(1)), ([2, 5, 1, 2], [4, 5, 1, 2]));
    assert_eq!(found.held_out_orders(), [1, 5, 0, 2], "b of the first, a of the second");
    assert_eq!(found.lines()[1][3], "orders 1/5, rows 0/2");
}

#[test]
fn held_out_rows_are_scored_by_the_reading_that_the_rest_selects() {
    // If no row is held out, the reading `a` is selected. Its mean error is 0.2. The standard deviation of 0.1 over 3
    // rows gives a standard error of 0.0577. The mean error of the reading `b` is 0.3.
    let found = scores(vec![scored("b", (0, 0), &[0.0, 0.0, 0.9]), scored("a", (0, 0), &[0.1, 0.2, 0.3])]);
    assert_eq!((found.selected, found.equally_good), (1, 1));
    // If row 3 is held out, rows 1 and 2 select `b`, whose error in row 3 is 0.9. If row 1 is held out, the other rows
    // select `a`: its mean error is 0.25, with a standard error of 0.05. If row 2 is held out, the other rows select
    // `a` again: its mean error is 0.2, with a standard error of 0.1. The mean error of `b` is 0.45 if row 1 or row 2
    // is held out.
    assert_eq!(found.held_out, [(0.1, 1), (0.2, 1), (0.9, 0)]);
    assert!((found.held_out_loss() - 0.4).abs() < 1e-12);
    assert_eq!(found.stated_only, 0, "the first, where nothing departs");
    assert!((found.median - 0.25).abs() < 1e-12);
}

#[test]
fn among_those_alike_the_fewest_departures_decide() {
    // The loss of a reading is the mean of its errors. The least loss is 0.2 with a standard error of 0.0577, so all
    // readings with a loss of at most 0.2577 count as equally good.
    let best = [0.1, 0.2, 0.3];
    let order = |second: (u32, u32), third: (u32, u32)| {
        scores(vec![
            scored("best", (1, 1), &best),
            scored("second", second, &[0.25; 3]),
            scored("third", third, &[0.25; 3]),
            scored("far", (0, 0), &[0.26; 3]),
        ])
    };
    assert_eq!(order((1, 2), (1, 2)).selected, 0);
    assert_eq!(order((2, 0), (1, 0)).selected, 2, "defaults come after what is stated");
    assert_eq!(order((0, 9), (1, 0)).selected, 1, "what is stated comes first");
    assert_eq!(order((1, 0), (1, 0)).selected, 1, "then the order of the file");
    assert_eq!((order((1, 0), (1, 0)).equally_good, order((1, 0), (1, 0)).stated_only), (3, 3));
}

#[test]
fn exploratory_readings_are_never_selected() {
    let mut found = scored("found afterwards", (0, 0), &[0.0, 0.0]);
    found.exploratory = true;
    let found = scores(vec![found, scored("a", (1, 0), &[0.5, 0.7])]);
    assert_eq!((found.selected, found.stated_only, found.exploratory), (1, 1, Some(0)));
    assert_eq!(found.held_out, [(0.5, 1), (0.7, 1)]);
    assert!((found.median - 0.6).abs() < 1e-12);
    assert_eq!(found.lines()[0], ["selected", "a", "0.600 (x1.82)", ""].map(str::to_owned));
}

const FILE: &str = "tables = ['t']\nrows = ['contestant']\nruns = 2\nquick-runs = 1\n\
                    [[axis]]\nname = 'rtt'\nwhy = 'unsaid'\n[[axis.reading]]\nid = '80'\n\
                    [[axis.reading]]\nid = '160'\nchange = ['rtt=160ms']\nstated = 1\n\
                    [[axis]]\nname = 'clock'\nwhy = 'unsaid'\n[[axis.reading]]\nid = 'start'\nmetric = 'page'\n\
                    [[axis.reading]]\nid = 'found'\nexploratory = true\ndefault = 2\n";

#[test]
fn every_reading_is_one_of_each_axis() {
    let file = Readings::parse(FILE).expect("readings");
    let all = file.all();
    let names: Vec<String> = all.iter().map(Reading::name).collect();
    assert_eq!(names, ["80 start", "80 found", "160 start", "160 found"]);
    assert_eq!(
        (all[3].departures(), all[3].is_exploratory(), all[2].is_exploratory()),
        ((1, 2), true, false)
    );
    // The digest covers the whole file, including its comments.
    assert_eq!(file.hash.len(), 64);
    assert_ne!(Readings::parse(&format!("# said later\n{FILE}")).expect("readings").hash, file.hash);
}

#[test]
fn what_is_added_alone_goes_with_the_first_of_every_axis() {
    let one = |name: &str, alone: &str, ids: [&str; 3]| {
        let readings = ids.map(|id| format!("[[axis.reading]]\nid = '{id}'\n")).concat();
        format!("[[axis]]\nname = '{name}'\nwhy = ''\n{alone}{readings}")
    };
    let head = "tables = ['t']\nrows = []\nruns = 1\nquick-runs = 1\n";
    let alone = one("b", "alone = true\n", ["bare", "edge", "tunnel"]);
    let file = Readings::parse(&format!("{head}{}{alone}", one("a", "", ["1", "2", "3"]))).expect("readings");
    let names: Vec<String> = file.all().iter().map(Reading::name).collect();
    assert_eq!(names, ["1 bare", "2 bare", "3 bare", "1 edge", "1 tunnel"]);
}

#[test]
fn what_is_wrong_is_told_in_a_line() {
    for (text, expected) in [
        ("", "tables"),
        (&FILE.replace("runs = 2", "runs = 0"), "at least one"),
        (&FILE.replace("id = '160'", "id = '80'"), "two readings"),
        (&FILE.replace("rtt=160ms", "160ms"), "160: "),
        (&FILE.replace("exploratory", "explorative"), "explorative"),
        (&FILE.replace("id = 'start'", "id = 'start'\nexploratory = true"), "none could be chosen"),
        (
            &format!("{FILE}[[calibrate]]\ntable = 't'\nkey = 'rtt'\nstart = 'x'\ncells = {{}}\n"),
            "calibrate rtt",
        ),
        (
            &format!(
                "{FILE}[[calibrate]]\ntable = 't'\nkey = 'rtt'\nstart = '1ms'\ncells = {{}}\nwhen = 'no'\n"
            ),
            "no reading 'no'",
        ),
    ] {
        let error = Readings::parse(text).expect_err(expected);
        assert!(error.starts_with("readings.toml: ") && error.contains(expected), "{expected}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let many: String = (0..8)
        .map(|axis| {
            let one = |n| format!("[[axis.reading]]\nid = '{axis}-{n}'\n");
            format!("[[axis]]\nname = '{axis}'\nwhy = ''\n{}{}", one(0), one(1))
        })
        .collect();
    let head = "tables = ['t']\nrows = []\nruns = 1\nquick-runs = 1\n";
    assert!(Readings::parse(&format!("{head}{many}")).expect_err("256").contains("more than 160"));
}
