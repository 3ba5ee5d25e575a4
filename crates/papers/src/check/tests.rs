//! Tests of the parser of a study's checks, and of the outcomes of checks.

use super::*;
use crate::figures::{Figures, Point};

const PAGE: ComparisonContext =
    ComparisonContext { metric: Metric::Page, means: false, cases: None, comparisons: 1 };

/// Returns made-up page times of two contestants at two loss rates, with four seeds each.
fn figures() -> Figures {
    let point = |loss: &str, tcp: [f64; 4], sctp: [f64; 4]| {
        let runs = |pages: [f64; 4]| {
            pages.iter().map(|page| crate::figures::Numbers::of_page(*page)).collect::<Vec<_>>()
        };
        std::rc::Rc::new(Point {
            factors: BTreeMap::from([("loss".to_owned(), loss.to_owned())]),
            contestants: BTreeMap::from([("tcp".to_owned(), runs(tcp)), ("sctp".to_owned(), runs(sctp))]),
        })
    };
    Figures {
        cases: None,
        points: vec![
            point("0", [1.0, 1.0, 1.0, 1.0], [1.05, 1.05, 1.05, 1.05]),
            point("1%", [4.0, 4.2, 4.1, 4.3], [2.0, 2.1, 2.2, 2.0]),
        ],
    }
}

/// A run with the value 0 has no ratio to another run. Checks that such runs are compared by differences instead, both
/// between contestants and along a factor. No run may be left out.
#[test]
fn runs_with_the_value_zero_are_not_left_out() {
    let runs = |pages: [f64; 4]| pages.map(crate::figures::Numbers::of_page).to_vec();
    let point = |loss: &str, tcp: [f64; 4], sctp: [f64; 4]| {
        std::rc::Rc::new(Point {
            factors: BTreeMap::from([("loss".to_owned(), loss.to_owned())]),
            contestants: BTreeMap::from([("tcp".to_owned(), runs(tcp)), ("sctp".to_owned(), runs(sctp))]),
        })
    };
    let points = vec![
        point("0", [0.0; 4], [0.0; 4]),
        // Each point has the values of `tcp` in four runs, and then those of `sctp`. At a loss of 1 %, two values of
        // `tcp` are 0, so these runs have no ratio. In the other two runs, `tcp` has the larger value.
        point("1%", [0.0, 0.0, 3.0, 3.0], [5.0, 6.0, 2.0, 2.0]),
        point("2%", [0.0, 1.0, 0.0, 1.0], [8.0, 9.0, 8.0, 9.0]),
    ];
    let figures = Figures { points, cases: None };
    for (text, outcome, found) in [
        ("t: tcp < sctp at loss=0", Outcome::Fails, "a difference of 0.000 to 0.000 at loss 0"),
        ("t: tcp = sctp at loss=0", Outcome::Holds, "a difference of 0.000 to 0.000 at loss 0"),
        ("t: tcp / sctp in 0..2 at loss=0", Outcome::Undetermined, "no ratio, since a run has 0, at loss 0"),
        ("t: tcp > sctp at loss=1%", Outcome::Undetermined, "a difference of "),
        ("t: tcp < sctp at loss=2%", Outcome::Holds, "a difference of -8.000 to -8.000 at loss 2%"),
        ("t: tcp > sctp at loss=2%", Outcome::Fails, "a difference of -8.000 to -8.000 at loss 2%"),
        ("t: sctp rises over loss", Outcome::Holds, "last over first: a difference of "),
        ("t: sctp falls over loss", Outcome::Fails, "last over first: a difference of "),
    ] {
        let checks = parse(text).expect(text);
        let [Check::Table { relation, at, .. }] = checks.as_slice() else { panic!("{text}: one of a table") };
        let decided = relation.decide(&figures, at, PAGE);
        assert_eq!(decided.outcome, outcome, "{text}: {}", decided.description);
        assert!(decided.description.starts_with(found), "{text}: {}", decided.description);
    }
}

fn decided(text: &str) -> Outcome {
    let checks = parse(text).expect(text);
    let [Check::Table { relation, at, .. }] = checks.as_slice() else { panic!("{text}: one of a table") };
    relation.decide(&figures(), at, PAGE).outcome
}

#[test]
fn numbers_of_a_table_decide() {
    for (text, outcome) in [
        ("t: tcp < sctp at loss=0", Outcome::Holds),
        ("t: tcp < sctp", Outcome::Fails),
        ("t: tcp > sctp at loss=1%", Outcome::Holds),
        ("t: tcp = sctp at loss=0", Outcome::Holds),
        ("t: tcp = sctp at loss=1%", Outcome::Fails),
        ("t: tcp > tcp at loss=0", Outcome::Fails),
        ("t: tcp < tcp at loss=0", Outcome::Fails),
        ("t: tcp / sctp in 1.8..2.2 at loss=1%", Outcome::Holds),
        ("t: tcp / sctp in 1.98..2.0 at loss=1%", Outcome::Undetermined),
        ("t: tcp in 0.9..1.1 at loss=0", Outcome::Holds),
        ("t: tcp in 1..1 at loss=0", Outcome::Holds),
        ("t: tcp.page in 0..0 at loss=0", Outcome::Fails),
        ("t: tcp[loss=1%] / tcp[loss=0] in 3.5..4.5", Outcome::Holds),
        ("t: sctp[loss=1%] / tcp[loss=0] in 3.5..4.5", Outcome::Fails),
        ("t: tcp rises over loss", Outcome::Holds),
        ("t: sctp falls over loss", Outcome::Fails),
        ("t: tcp.net-io < sctp", Outcome::Undetermined),
        ("t: udp < sctp", Outcome::Undetermined),
        ("t: tcp < sctp at loss=7%", Outcome::Undetermined),
    ] {
        assert_eq!(decided(text), outcome, "{text}");
    }
}

/// With many table points, one 95 % interval may be out of bounds by chance. Checks that a relation over many points
/// fails only if a wider interval is out of bounds.
#[test]
fn one_place_of_many_fails_by_a_wider_interval() {
    let runs = |pages: [f64; 4]| pages.map(crate::figures::Numbers::of_page).to_vec();
    let point = |loss: usize, sctp: [f64; 4]| {
        let contestants = [("tcp", [1.0; 4]), ("sctp", sctp)];
        std::rc::Rc::new(Point {
            factors: BTreeMap::from([("loss".to_owned(), format!("{loss}%"))]),
            contestants: contestants.map(|(name, pages)| (name.to_owned(), runs(pages))).into(),
        })
    };
    // The check claims that SCTP takes less time than TCP. With 1 % loss, SCTP takes 1.10 times as long as TCP (95 %
    // interval 1.04 to 1.17). The check fails if this is the only comparison. With thirty comparisons, the check is
    // undetermined, because one such interval among thirty can be expected by chance.
    let shaky = point(1, [1.05, 1.10, 1.15, 1.10]);
    let other_points = (2..=30).map(|loss| point(loss, [0.5; 4]));
    let points: Vec<_> = std::iter::once(shaky).chain(other_points).collect();
    let figures = Figures { points, cases: None };
    let checks = parse("t: sctp < tcp").expect("a check");
    let [Check::Table { relation, at, .. }] = checks.as_slice() else { panic!("one of a table") };
    assert_eq!(relation.decide(&figures, at, PAGE).outcome, Outcome::Fails);
    let comparisons = relation.comparisons(&figures, at, PAGE);
    assert_eq!(comparisons, 30);
    let found = relation.decide(&figures, at, ComparisonContext { comparisons, ..PAGE });
    assert_eq!(found.outcome, Outcome::Undetermined, "{}", found.description);
    // At a ratio of about 2, the check fails: even the interval that is widened for thirty comparisons is outside the
    // bounds. At a ratio of 0.9, the check holds: for this outcome, only the 95 % interval must be within the bounds,
    // not the widened one.
    let figures = Figures { points: vec![point(1, [2.0, 2.1, 2.0, 2.1])], cases: None };
    assert_eq!(
        relation.decide(&figures, at, ComparisonContext { comparisons, ..PAGE }).outcome,
        Outcome::Fails
    );
    let figures = Figures { points: vec![point(1, [0.85, 0.90, 0.95, 0.90])], cases: None };
    assert_eq!(
        relation.decide(&figures, at, ComparisonContext { comparisons, ..PAGE }).outcome,
        Outcome::Holds
    );
    let [trend] = parse("t: sctp rises over loss").expect("a check").try_into().expect("one");
    let Check::Table { relation, at, .. } = trend else { panic!("one of a table") };
    assert_eq!(relation.comparisons(&super::tests::figures(), &at, PAGE), 2);
}

#[test]
fn the_outcome_may_depend_on_the_reading() {
    let parsed = |text: &str| {
        let readings = readings(text).expect(text);
        let found = readings.iter().map(|reading| {
            let [Check::Table { relation, at, .. }] = reading.checks.as_slice() else { panic!("{text}") };
            (reading.name.as_str(), relation.decide(&figures(), at, PAGE))
        });
        of_readings(found.collect()).expect("an outcome")
    };
    let found = parsed("(without loss) t: tcp < sctp at loss=0 | (with it) t: tcp < sctp at loss=1%");
    assert_eq!(found.outcome, Outcome::Reading);
    assert!(
        found.description.starts_with("without loss: holds (")
            && found.description.contains("; with it: fails (")
    );
    for (text, outcome) in [
        ("(a) t: tcp < sctp at loss=0 | (b) t: tcp = sctp at loss=0", Outcome::Holds),
        ("(a) t: tcp > sctp at loss=0 | (b) t: tcp < sctp at loss=1%", Outcome::Fails),
        ("(a) t: tcp < sctp at loss=0 | (b) t: tcp.net-io < sctp", Outcome::Undetermined),
        ("t: tcp < sctp at loss=0", Outcome::Holds),
    ] {
        assert_eq!(parsed(text).outcome, outcome, "{text}");
    }
}

#[test]
fn what_cannot_be_read_is_told() {
    for (text, expected) in [
        ("", "nothing"),
        ("tcp < sctp", "TABLE"),
        ("t: tcp sctp", "was expected"),
        ("t: tcp.speed < sctp", "no metric 'speed'"),
        ("t: tcp in 1", "A..B"),
        ("t: tcp in a..b", "no number"),
        ("t: tcp < sctp at loss", "KEY=LEVEL"),
        ("t: tcp[loss=1 < sctp", "']'"),
        ("undecidable", "reason"),
        ("feature order", "COLUMN=WORD"),
        ("t: tcp < sctp;", "nothing"),
    ] {
        let error = parse(text).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
    for (text, expected) in [
        ("(page) cause a", "several"),
        ("(page) cause a | cause b", "NAME OF THE READING"),
        ("(page) cause a | (objects) ;", "nothing"),
        ("cause a | ", "NAME OF THE READING"),
    ] {
        let error = readings(text).expect_err(text);
        assert!(error.contains(expected), "{text}: {error}");
    }
    let both = parse("cause a; prediction b").expect("two");
    assert_eq!(both, [Check::Cause("a".to_owned()), Check::Prediction("b".to_owned())]);
}

/// Checks that two ratios can be compared, in both directions. From no loss to 1 % loss the number of `tcp` grows by a
/// factor of 4.15, that of `sctp` by 1.98.
#[test]
fn ratios_are_compared_with_each_other() {
    for (text, outcome) in [
        ("t: sctp[loss=1%] / sctp[loss=0] < tcp[loss=1%] / tcp[loss=0]", Outcome::Holds),
        ("t: sctp[loss=1%] / sctp[loss=0] > tcp[loss=1%] / tcp[loss=0]", Outcome::Fails),
        ("t: sctp[loss=1%] / sctp[loss=0] = tcp[loss=1%] / tcp[loss=0]", Outcome::Fails),
        ("t: tcp[loss=1%] / tcp[loss=0] = tcp[loss=1%] / tcp[loss=0]", Outcome::Holds),
        ("t: tcp[loss=1%] / tcp[loss=7%] < sctp[loss=1%] / sctp[loss=0]", Outcome::Undetermined),
    ] {
        assert_eq!(decided(text), outcome, "{text}");
    }
    let checks = parse("t: sctp[loss=1%] / sctp[loss=0] < tcp[loss=1%] / tcp[loss=0]").expect("a check");
    let [Check::Table { relation, at, .. }] = checks.as_slice() else { panic!("one of a table") };
    let means = relation.decide(&figures(), at, ComparisonContext { means: true, ..PAGE });
    assert_eq!(means.outcome, Outcome::Holds, "{}", means.description);
}

/// The description of the outcome must name the factor levels that were compared, not the first levels of the table.
#[test]
fn what_is_found_names_the_compared_levels() {
    for (text, place) in [
        ("t: tcp[loss=1%] > tcp[loss=0]", " at loss 1% against 0"),
        ("t: tcp[loss=1%] in 4..5", " at loss 1%"),
        ("t: tcp[loss=1%] > sctp[loss=1%]", " at loss 1%"),
        ("t: tcp < sctp at loss=0", " at loss 0"),
        ("t: tcp rises over loss", " at loss 1% against 0"),
    ] {
        let checks = parse(text).expect(text);
        let [Check::Table { relation, at, .. }] = checks.as_slice() else { panic!("{text}: one of a table") };
        let found = relation.decide(&figures(), at, PAGE).description;
        assert!(found.ends_with(place), "{text}: {found}");
    }
}
