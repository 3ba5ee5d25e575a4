//! Tests parts of a study and changed studies: one table, one level, another contestant, another value of a parameter.

#![cfg(target_os = "linux")]

use crate::running::{errors, run};
use crate::study::{FILES, all_below, scratch, study};
use std::collections::BTreeMap;
use std::fs;

/// A table that is run alone must have the same numbers, causes and claims as in the whole study.
#[test]
fn a_table_alone_is_as_in_the_whole_study() {
    let scratch = scratch("study-table");
    scratch.file("own/study.toml", FILES[0].1.replace("['pages']", "['sizes', 'pages']"));
    scratch.file("own/sizes.toml", FILES[1].1.replace("5x20kB", "3x5kB"));
    let more = "x4,text,measurement,both,sizes: one < many at loss=0; pages: one < many at loss=0\n\
                x5,text,measurement,one alone,pages: one = many at loss=0\n";
    scratch.file("own/claims.csv", format!("{}{more}", FILES[4].1));
    for (out, arguments) in [
        ("whole", &["run", "own"][..]),
        ("slash", &["run", "own/pages"]),
        ("flag", &["run", "own", "--table", "pages"]),
        ("both", &["run", "own", "--table", "pages", "--table", "sizes"]),
    ] {
        let flags = ["--quick", "--quiet", "--out", out];
        let output = run(study(&scratch, arguments).args(flags));
        assert!(output.status.success(), "{}", errors(&output));
        let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
        // If only the table `pages` runs, the claim x5 is decided, because it needs no other table. The claim x4 also
        // needs the table `sizes`, so it is left out.
        assert_eq!(stdout.contains("x5 (holds)"), out != "whole", "{out}: {stdout}");
    }
    let [whole, slash, flag] =
        ["whole", "slash", "flag"].map(|out| all_below(&scratch.0.join(out).join("own")));
    assert_eq!(slash, flag);
    assert_eq!(slash["tables/pages.csv"], whole["tables/pages.csv"]);
    assert_eq!(slash["causes.csv"], whole["causes.csv"]);
    assert_eq!(slash["cells.csv"], whole["cells.csv"], "nothing is printed of the other");
    assert!(whole.contains_key("tables/sizes.csv") && !slash.contains_key("tables/sizes.csv"));
    let ids = |files: &BTreeMap<String, Vec<u8>>| -> Vec<String> {
        let text = String::from_utf8_lossy(&files["claims.csv"]).into_owned();
        text.lines().skip(1).map(|row| row[..2].to_owned()).collect()
    };
    assert_eq!(
        (ids(&whole), ids(&slash)),
        (
            ["x1", "x2", "x3", "x4", "x5"].map(str::to_owned).into(),
            ["x1", "x2", "x5"].map(str::to_owned).into()
        )
    );
    assert!(String::from_utf8_lossy(&slash["study.html"]).contains("study own, of its tables pages alone"));
}

/// A contestant that the user adds to a study must not change the results of the other contestants. The added
/// contestant must be marked wherever it appears. It must not take part in tables whose contestants share a network.
#[test]
fn a_contestant_that_is_added_is_marked() {
    let scratch = scratch("study-also");
    scratch.file("own/study.toml", FILES[0].1.replace("['pages']", "['pages', 'shared']"));
    scratch.file("own/shared.toml", FILES[1].1.replace("rtt = '40ms'", "rtt = '40ms'\nshared-link = true"));
    let also = ["--also", "mine=tcp:nagle=yes"];
    let run_to = |out: &str, arguments: &[&str]| {
        let output =
            run(study(&scratch, &["run", "own", "--quick", "--quiet", "--out", out]).args(arguments));
        assert!(output.status.success(), "{}", errors(&output));
        (String::from_utf8_lossy(&output.stdout).into_owned(), all_below(&scratch.0.join(out).join("own")))
    };
    let ((_, without), (stdout, with)) = (run_to("without", &[]), run_to("with", &also));
    for file in ["cells.csv", "causes.csv", "claims.csv", "tables/shared.csv"] {
        assert_eq!(with[file], without[file], "{file}");
    }
    let rows = |files: &BTreeMap<String, Vec<u8>>| -> Vec<String> {
        let text = String::from_utf8_lossy(&files["tables/pages.csv"]).into_owned();
        text.lines().map(str::to_owned).collect()
    };
    let (added, own): (Vec<String>, Vec<String>) =
        rows(&with).into_iter().partition(|row| row.ends_with(",yes"));
    assert_eq!(own, rows(&without));
    assert!(added.len() > 10 && added.iter().all(|row| row.split(',').nth(1) == Some("mine")), "{added:?}");
    let changed = "Changed: mine=tcp:nagle=yes (not in shared, whose contestants share the network) added; seeds from 1 on.";
    assert!(stdout.starts_with(changed), "{stdout}");
    assert!(stdout.contains("warning: own/pages: ") && stdout.contains("\nmine (added)"), "{stdout}");
    let html = String::from_utf8_lossy(&with["study.html"]);
    assert!(html.contains("changed: mine added") && html.contains("mine (added)"));
    assert!(String::from_utf8_lossy(&with["page.md"]).starts_with(changed));
}

/// With `--set`, the study without the change must stand before the comparison with the paper, as text and on the page.
#[test]
fn a_changed_study_is_compared_with_itself_first() {
    let scratch = scratch("study-without");
    let output = run(&mut study(
        &scratch,
        &["run", "own", "--quick", "--quiet", "--out", "out", "--set", "rtt=400ms"],
    ));
    let stdout = String::from_utf8_lossy(&output.stdout);
    let positions = [
        "Changed: rtt=400ms",
        "What the change does: the study without it and with it",
        "\npages: pages; s\n",
        "with/without, 95 %",
        "loss=0   one",
        "With the change, against the paper",
        "printed",
    ]
    .map(|part| stdout.find(part).unwrap_or_else(|| panic!("no '{part}': {stdout}")));
    assert!(positions.is_sorted(), "{positions:?}: {stdout}");
    let html = fs::read_to_string(scratch.0.join("out/own/study.html")).expect("a page");
    let positions =
        ["id=\"change-set-pages\"", "id=\"against\"", "What came out, counted", "Parameters", "id=\"cells\""]
            .map(|part| html.find(part).unwrap_or_else(|| panic!("no '{part}'")));
    assert!(positions.is_sorted(), "{positions:?}");
    let plain = run(&mut study(&scratch, &["run", "own", "--quick", "--quiet"]));
    assert!(!String::from_utf8_lossy(&plain.stdout).contains("What the change does"));
    // If `--set` changes no number of a table, the output must say so.
    let same = run(&mut study(&scratch, &["run", "own", "--quick", "--quiet", "--set", "deadline=600s"]));
    let same = String::from_utf8_lossy(&same.stdout).into_owned();
    assert!(
        same.contains("\npages: all 4 numbers are the same: none of its runs depends on the change\n"),
        "{same}"
    );
}

/// With `--only`, the points of one level run alone. Their numbers are those of the whole study, and the claims, which
/// are about whole tables, are left out. With `--causes off`, no cause runs.
#[test]
fn one_level_runs_alone_and_causes_can_be_left_out() {
    let scratch = scratch("study-only");
    let printed = |arguments: &[&str]| {
        let output = run(&mut study(&scratch, arguments));
        assert!(output.status.success(), "{arguments:?}: {}", errors(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let run_of = |more: &[&str]| printed(&[&["run", "own", "--quick", "--quiet"], more].concat());
    let whole = run_of(&[]);
    let cells = |text: &str, loss: &str| {
        let is_cell = |line: &&str| {
            ["one ", "many "].iter().any(|name| line.starts_with(name))
                && line.split_whitespace().nth(1) == Some(loss)
        };
        text.lines()
            .filter(is_cell)
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect()
    };
    let (all, none): (Vec<String>, Vec<String>) = (cells(&whole, "5%"), Vec::new());
    assert!(all.len() >= 2, "{whole}");
    let part = run_of(&["--only", "loss=5%", "--out", "out"]);
    assert_eq!(cells(&part, "5%"), all, "{part}");
    assert_eq!(cells(&part, "0"), none, "{part}");
    assert!(part.starts_with("own, of its tables pages at loss=5% alone: "), "{part}");
    // The cause is measured without loss, and the claims are about both levels.
    assert!(!part.contains("causes, each a run") && !part.contains("x1 ("), "{part}");
    let html = fs::read_to_string(scratch.0.join("out/own/study.html")).expect("a page");
    assert!(html.contains("--only &#39;loss=5%&#39;") || html.contains("--only 'loss=5%'"), "the command");
    // The cause stays where it is measured.
    assert!(run_of(&["--only", "loss=0"]).contains("Ten times the round trip: "));
    let without = run_of(&["--causes", "off"]);
    assert_eq!(cells(&without, "5%"), all);
    assert!(whole.contains("Ten times") && !without.contains("Ten times"), "{without}");
    let claims = |text: &str| {
        text.lines().filter(|line| line.contains("evidence, by runs: ")).map(str::to_owned).next()
    };
    let (before, after) = (claims(&whole).expect("claims"), claims(&without).expect("claims"));
    assert!(before.contains("2 claims") && after.contains("1 claim "), "{before} {after}");
}

/// If `--set` makes a rule with more cases than there are runs, a warning says so. If it sets a factor, the rows say
/// with which value they are compared.
#[test]
fn a_rule_with_more_cases_than_runs_is_warned_of() {
    let scratch = scratch("study-cases");
    scratch.file(
        "own/pages.toml",
        FILES[1]
            .1
            .replace("loss = ['0', '5%']", "loss = 'nth:4/shared'")
            .replace("rtt = '40ms'", "rtt = ['40ms', '50ms']")
            .replace("runs = 8\nquick_runs = 2", "enumerated = 4\nruns = 4\nquick_runs = 4")
            .replace("'loss'", "'rtt'"),
    );
    scratch.file("own/pages.csv", "contestant,seconds\none,0.2\n");
    scratch.file("own/causes.toml", "");
    scratch.file("own/claims.csv", "id,place,kind,claim,check\n");
    let run_of = |more: &[&str]| {
        let output = run(&mut study(&scratch, &[&["run", "own", "--quick", "--quiet"], more].concat()));
        assert!(output.status.success(), "{more:?}: {}", errors(&output));
        String::from_utf8_lossy(&output.stdout).into_owned()
    };
    let eight = run_of(&["--set", "loss=nth:8/shared"]);
    let warning = "warning: own/pages: 4 runs are 4 of the 8 packets with which the drops can begin; --runs 8 takes all\n";
    assert!(eight.contains(warning), "{eight}");
    for more in [&["--set", "loss=nth:8/shared", "--runs", "8"][..], &["--set", "loss=nth:3/shared"], &[]] {
        assert!(!run_of(more).contains("warning: "), "{more:?}");
    }
    let one = run_of(&["--set", "rtt=60ms"]);
    assert!(one.contains("rtt=40ms -> 60ms  ") && one.contains("rtt=50ms -> 60ms  "), "{one}");
    assert!(one.contains("rows that differ only in rtt have the same runs with it"), "{one}");
}
