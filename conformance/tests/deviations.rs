//! Tests which failures the list of known deviations excuses.

use anabranch_conformance::{Deviations, Outcome, Summary};

const LIST: &str = "# Known.
[[deviation]]
name = \"one/same\"
line = 7
reason = \"a test\"
rfc4960 = \"old\"
rfc9260 = \"new\"
";

fn failing_at(line: usize) -> Outcome {
    let text = || "x".to_owned();
    Outcome::Fail {
        location: format!("f.pkt:{line}"),
        reason: text(),
        expected: text(),
        observed: text(),
        log: vec![],
    }
}

/// Two suites have scripts with the same name. Checks that the folder is part of the name of a deviation.
#[test]
fn a_script_is_known_by_its_folder_and_its_name() {
    let list = Deviations::read(LIST).expect("a list");
    let mut summary = Summary::default();
    let line = summary.count("/suites/one/same", &failing_at(7), &list).expect("a line");
    assert!(line.starts_with("one/same: known deviation: a test (old; new)"), "{line}");
    for other in ["/suites/two/same", "/suites/one/same/same", "same", "/suites/one/sam", "/suites/none/same"]
    {
        let line = summary.count(other, &failing_at(7), &list).expect("a line");
        assert!(!line.contains("known deviation"), "{other}: {line}");
    }
    assert_eq!((summary.known, summary.failed), (1, 5));
    assert!(!summary.is_good());
}

/// A script that fails on another line than listed fails for another reason, and must not be excused. A script that
/// cannot be run must not be excused either.
#[test]
fn only_the_failure_that_is_listed_is_known() {
    let list = Deviations::read(LIST).expect("a list");
    let mut summary = Summary::default();
    assert!(summary.count("one/same", &failing_at(8), &list).is_some());
    let broken = Outcome::Error { location: "f.pkt:7".to_owned(), message: "no script".to_owned() };
    assert!(summary.count("one/same", &broken, &list).is_some());
    assert_eq!((summary.known, summary.failed), (0, 2));
    let anywhere = Deviations::read(&LIST.replace("line = 7\n", "")).expect("a list");
    assert!(summary.count("one/same", &failing_at(8), &anywhere).is_some());
    assert_eq!((summary.known, summary.failed), (1, 2));
}

#[test]
fn a_listed_script_that_passes_is_reported() {
    let list = Deviations::read(LIST).expect("a list");
    let mut summary = Summary::default();
    let line = summary.count("/suites/one/same", &Outcome::Pass { log: vec![] }, &list);
    assert_eq!(line.as_deref(), Some("one/same passes, and is listed as a known deviation"));
    assert_eq!(summary.count("/suites/two/same", &Outcome::Pass { log: vec![] }, &list), None);
    assert_eq!((summary.passed, summary.passed_unexpectedly, summary.failed), (2, 1, 0));
}

#[test]
fn a_list_names_folders() {
    for (text, line, words) in [
        (LIST.replace("one/same", "same"), 2, "directory/file"),
        (LIST.replace("one/same", "one/same.pkt"), 2, "without .pkt"),
        (LIST.replace("line = 7", "line = \"seven\""), 4, "line"),
        (LIST.replace("reason", "because"), 5, "because"),
    ] {
        let why = Deviations::read(&text).expect_err(&text);
        let told: usize = why.split(':').next().and_then(|line| line.parse().ok()).expect("a line");
        assert!(told <= line && why.contains(words) || told == line, "{why}");
    }
}
