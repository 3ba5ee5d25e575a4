//! Tests races over populations as a user sees them: each person is a point of a sweep. Also tests the summary and
//! rejected input.
#![cfg(target_os = "linux")]

use crate::running::{Scratch, anabranch, errors, run};
use std::fs;
use std::path::Path;
use std::process::Output;

const PEOPLE: [&str; 10] = [
    "--population",
    "world:bytes=x0.1",
    "--people",
    "24",
    "--runs",
    "2",
    "--transport",
    "six=tcp:connections=6",
    "--transport",
    "sctp",
];

/// Returns [`PEOPLE`] followed by `more`.
fn with<'a>(more: &[&'a str]) -> Vec<&'a str> {
    [&PEOPLE[..], more].concat()
}

fn race(scratch: &Scratch, arguments: &[&str]) -> Output {
    let mut command = anabranch();
    command.current_dir(&scratch.0).args(["race", "--quiet", "--threads", "1"]).args(arguments);
    run(&mut command)
}

fn text(output: &Output) -> String {
    assert!(output.status.success(), "{}", errors(output));
    String::from_utf8_lossy(&output.stdout).into_owned()
}

#[test]
fn shards_of_people_say_what_all_say() {
    let scratch = Scratch::new("people");
    let whole = text(&race(&scratch, &with(&["--out", "whole"])));
    for line in [
        "24 people, simulated; the time of a person is",
        "\ntie ",
        "\nundecided ",
        "most common outcome",
        "sctp vs six",
        "if everyone used it",
    ] {
        assert!(whole.contains(line), "{line}\n{whole}");
    }
    for (shard, out) in [("1/2", "one"), ("2/2", "two")] {
        text(&race(&scratch, &with(&["--out", out, "--shard", shard])));
    }
    let mut merge = anabranch();
    let merged = text(&run(merge.current_dir(&scratch.0).args(["merge", "one", "two", "--out", "both"])));
    assert_eq!(merged, whole);
    let read =
        |folder: &str, name: &str| fs::read_to_string(scratch.0.join(folder).join(name)).expect("a file");
    assert_eq!(read("both", "results.json"), read("whole", "results.json"));
    let page = read("whole", "report.html");
    assert!(page.contains("24 people") && page.contains("Measurement Lab") && !page.contains("<script"));
    // In the results, each point must describe its person, and its list of page objects must be empty.
    let json = read("whole", "results.json");
    for part in ["\"person\": \"24\"", "\"region\":", "\"access\":", "\"down-rate\":", "\"objects\":{}"] {
        assert!(json.contains(part), "{part}");
    }
}

#[test]
fn several_populations_stand_beside_each_other() {
    let scratch = Scratch::new("populations");
    let arguments = [
        "--population",
        "world:bytes=x0.1,world:bytes=x0.1:loss=x0",
        "--people",
        "5",
        "--runs",
        "1",
        "--transport",
        "tcp,sctp",
    ];
    let shown = text(&race(&scratch, &[&arguments[..], &["--causes", "off", "--out", "two"]].concat()));
    for line in [
        "5 people of world:bytes=x0.1, simulated;",
        "5 people of world:bytes=x0.1:loss=x0, simulated;",
        "\nworld:bytes=x0.1:loss=x0 ",
    ] {
        assert!(shown.contains(line), "{line}\n{shown}");
    }
}

#[test]
fn a_population_of_ones_own_is_read_and_what_is_wrong_is_said_in_one_line() {
    let scratch = Scratch::new("own-population");
    let shipped = |name: &str| {
        let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lab/src/plan/population").join(name);
        fs::read_to_string(path).expect("a file")
    };
    scratch.file("countries.csv", shipped("countries.csv"));
    scratch.file("own.toml", shipped("world.toml").replace("page-kb = 2652", "page-kb = 100"));
    scratch.file("bad.toml", shipped("world.toml").replace("share = 0.3", "share = 3"));
    scratch.file("lost.toml", shipped("world.toml").replace("countries.csv", "../countries.csv"));
    let base = ["--people", "3", "--runs", "1", "--transport", "tcp", "--out", "o"];
    text(&race(&scratch, &[&["--population", "own.toml"], &base[..]].concat()));
    let one =
        ["--population", "own.toml", "--people", "1", "--runs", "1", "--transport", "tcp", "--out", "one"];
    assert!(text(&race(&scratch, &one)).contains("1 person, simulated;"));
    let refused = |arguments: &[&str], expected: &str| {
        let output = race(&scratch, arguments);
        let line = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{line}");
        assert!(line.contains(expected) && line.trim_end().lines().count() == 1, "{expected}: {line}");
    };
    refused(
        &[&["--population", "bad.toml"], &base[..]].concat(),
        "bad.toml: far.share = 3: write a share from 0 to 1",
    );
    refused(&[&["--population", "lost.toml"], &base[..]].concat(), "name a file beside it");
    refused(
        &[&["--population", "nowhere.toml"], &base[..]].concat(),
        "the program contains one population: world",
    );
    refused(&[&["--population", "world:luck=x2"], &base[..]].concat(), "'luck=x2': write what is multiplied");
    refused(&[&["--population", "world:rtt=x0"], &base[..]].concat(), "'rtt=x0': write what is multiplied");
    refused(
        &[&["--population", "world", "--rtt", "9ms"], &base[..]].concat(),
        "--rtt: each person's is drawn",
    );
    refused(
        &[&["--population", "world:bytes=x2", "--page", "news"], &base[..]].concat(),
        "'world:bytes=x2': all people load the page that the plan has",
    );
    refused(
        &["--population", "world", "--people", "0", "--out", "x"],
        "'0': write a number from 1 to 1000000",
    );
    refused(
        &[&["--population", "world", "--world", "emulated"], &base[..]].concat(),
        "for the virtual world",
    );
    refused(&["--people", "3"], "there is no population");
    refused(&["--population", "world", "--people", "3"], "add --out DIR");
}
