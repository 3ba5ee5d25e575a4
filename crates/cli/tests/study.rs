//! Tests studies as a user sees them: a study is interrupted and resumed, or its files are damaged or unusual. Also tests
//! the plan with which `race` reproduces the numbers of a study. `study_changes` tests changed studies.

#![cfg(target_os = "linux")]

use crate::running::{Scratch, anabranch, errors, run};
use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::Command;

/// The files of a study with two points that take a few milliseconds each.
pub const FILES: [(&str, &str); 6] = [
    (
        "own/study.toml",
        "name = 'own'\ntitle = 'A study'\nsource = 'nobody'\nquestion = 'Which is first?'\ntables = ['pages']\n\
         [[parameter]]\nname = 'rtt'\nvalue = '40ms'\nis = 'stated'\nwhy = 'table 1.'\n",
    ),
    (
        "own/pages.toml",
        "title = 'pages'\nsource = 'table 1'\nunit = 's'\nmetric = 'page'\nrows = ['loss']\nruns = 8\nquick_runs = 2\n\
         [plan]\nrtt = '40ms'\nloss = ['0', '5%']\nobjects = '5x20kB'\ntransport = ['one=tcp', 'many=sctp:num_ostreams=5']\n",
    ),
    ("own/pages.csv", "contestant,loss,seconds\none,0,0.2\nmany,0,0.25\none,5%,0.5\nmany,5%,3\n"),
    (
        "own/causes.toml",
        "[[cause]]\nid = 'rtt'\ntable = 'pages'\nchange = ['rtt=400ms']\nof = 'one'\nat = { loss = '0' }\n\
         effect = [3, 12]\nsays = 'Ten times the round trip: {}.'\n",
    ),
    (
        "own/claims.csv",
        "id,place,kind,claim,check\nx1,table 1,measurement,loss costs time,pages: one rises over loss\n\
         x2,text,measurement,one is first,pages: one < many; cause rtt\nx3,text,citation,others say so,undecidable a book\n",
    ),
    ("own/page.md", "# Own\n"),
];

pub fn scratch(name: &str) -> Scratch {
    let scratch = Scratch::new(name);
    fs::create_dir_all(scratch.0.join("own")).expect("a folder");
    for (file, content) in FILES {
        fs::write(scratch.0.join(file), content).expect("written");
    }
    scratch
}

pub fn study(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = anabranch();
    command.current_dir(&scratch.0).arg("study").args(arguments);
    command
}

pub fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for folder in [directory.to_owned(), directory.join("own"), directory.join("figures")] {
        for entry in fs::read_dir(folder).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_file() {
                found.insert(
                    path.to_string_lossy().replace(&*directory.to_string_lossy(), ""),
                    fs::read(&path).expect("read"),
                );
            }
        }
    }
    found
}

/// A `readings.toml` with two readings: two round-trip times that the study may have used. For each reading, the link's
/// rate is calibrated to the first cell of the study's table.
const READINGS: &str = "tables = ['pages']\nrows = ['contestant', 'loss']\nruns = 2\nquick-runs = 2\n\
    [[axis]]\nname = 'rtt'\nwhy = 'unsaid'\n[[axis.reading]]\nid = 'rtt-40'\n\
    [[axis.reading]]\nid = 'rtt-60'\nchange = ['rtt=60ms']\nstated = 1\n\
    [[calibrate]]\nkey = 'rate'\nstart = '10mbit'\ntable = 'pages'\n\
    cells = { contestant = 'one', loss = '0' }\n";

/// An interrupted run leaves the stored results of some points behind. No matter which points have stored results, the
/// resumed run must give the same files as an uninterrupted run.
#[test]
fn a_study_that_was_ended_goes_on_to_the_same_files() {
    let scratch = scratch("study-resume");
    scratch.file("own/readings.toml", READINGS);
    let whole = run(&mut study(&scratch, &["run", "own", "--quiet", "--readings", "--out", "whole"]));
    assert!(whole.status.success(), "{}", errors(&whole));
    let expected = files(&scratch.0.join("whole"));
    // Three of the four rows are compared with the results. The fourth row was used for the calibration.
    let scored = String::from_utf8_lossy(&expected["/own/readings.csv"]).into_owned();
    let digest = anabranch_papers::figures::hex(READINGS.as_bytes());
    let stdout = String::from_utf8_lossy(&whole.stdout).into_owned();
    assert!(
        scored.contains(&format!("\nfile,{digest},")) && stdout.contains(&format!("readings {digest}: 2 of")),
        "{stdout}"
    );
    assert!(
        scored.lines().next().is_some_and(|head| head
            .ends_with("loss,pages/many/0,pages/one/5%,pages/many/5%,orders pages/0,orders pages/5%")),
        "{scored}"
    );
    assert_eq!(
        scored.lines().filter(|line| line.starts_with("reading,rtt-") && line.contains("rate=")).count(),
        2
    );
    assert!(
        ["selected: ", "held out: ", "stated only: ", "median of all: "]
            .iter()
            .all(|what| stdout.contains(what)),
        "{stdout}"
    );
    let figures: Vec<&String> = expected.keys().filter(|name| name.contains("figures")).collect();
    assert!(figures.len() >= 3 && expected.keys().any(|name| name.ends_with("/cells.csv")), "{figures:?}");
    for length in (0..figures.len()).step_by(3) {
        let part = format!("part-{length}");
        fs::create_dir_all(scratch.0.join(&part).join("figures")).expect("a folder");
        for name in figures.iter().take(length).copied().chain([&"/study-run".to_owned()]) {
            fs::write(scratch.0.join(format!("{part}{name}")), &expected[name]).expect("written");
        }
        let again =
            run(&mut study(&scratch, &["run", "own", "--quiet", "--readings", "--resume", "--out", &part]));
        assert!(again.status.success(), "{}", errors(&again));
        assert_eq!(again.stdout, whole.stdout);
        assert!(files(&scratch.0.join(&part)) == expected, "with {length} figures kept");
    }
}

#[test]
fn what_cannot_be_is_told_in_a_line_and_nothing_is_lost() {
    let scratch = scratch("study-refused");
    assert!(
        run(&mut study(&scratch, &["run", "own", "--quiet", "--quick", "--out", "there"])).status.success()
    );
    let before = files(&scratch.0.join("there"));
    fs::create_dir(scratch.0.join("other")).expect("a folder");
    scratch.file("other/mine", "mine");
    for (arguments, expected) in [
        (&["run", "own", "--quick", "--out", "there"][..], "holds a run already; add --resume"),
        (
            &["run", "own", "--runs", "3", "--resume", "--out", "there"],
            "of other studies, settings or of another version",
        ),
        (&["run", "own", "--quick", "--set", "rtt=9ms", "--resume", "--out", "there"], "of other studies"),
        (&["run", "own", "--out", "other"], "is not empty"),
        (&["run", "own", "--out", "other/mine"], "mine"),
        (&["run", "own", "--resume"], "--out DIR"),
        (&["run", "nothing"], "no study 'nothing'"),
        (&["run"], "name a study"),
        (&["run", "own", "--set", "rtt"], "KEY=VALUE"),
        (
            &["run", "own", "--set", "loss=5%"],
            "printed cells of pages are labelled with it; --only loss=5% runs this level alone",
        ),
        (
            &["run", "own", "--set", "loss=6%"],
            "printed cells of pages are labelled with it; change the plan (study plan own/pages) and race that",
        ),
        (&["run", "own", "--only", "loss"], "--only: 'loss': KEY=LEVEL was expected"),
        (&["run", "own", "--only", "loss=6%"], "--only: no table of own has loss=6%; pages has 0, 5%"),
        (&["run", "own", "--only", "size=1"], "--only: size varies in no table of own; these vary: loss"),
        (&["run", "own", "--only", "loss=0", "--only", "loss=5%"], "this key was given before"),
        (&["run", "own", "--only", "loss=0", "--set", "loss=0"], "gives it one value already"),
        (&["run", "own", "--causes", "off", "--sensitivity"], "--sensitivity scores the causes, too"),
        (&["run", "own", "--set", "spede=1"], "unknown flag 'spede'"),
        (
            &["run", "own", "--set", "iw=10"],
            "iw=10: a setting of contestants, and of no plan; write many:iw=10, or *:iw=10 for all; it can be for many, one",
        ),
        (
            &["run", "own", "--set", "rack=yes"],
            "write many:rack=yes, or *:rack=yes for all; it can be for many, one",
        ),
        (&["run", "own", "--set", "two:iw=1"], "no such contestant; there are many, one"),
        (&["run", "own", "--set", "one:speed=1"], "unknown key 'speed'"),
        (&["plan", "own/nothing"], "no table 'nothing'; there are pages"),
        (&["plan", "own", "--set", "rtt=fast"], "--set: "),
        (&["run", "own/nothing"], "no table 'nothing'; there are pages"),
        (&["run", "own", "--table", "nothing"], "no table 'nothing'; there are pages"),
        (&["run", "own", "own", "--table", "pages"], "--table: needs exactly one study"),
        (&["run", "own", "--also", "one=tcp"], "--also: 'one=tcp': pages has a contestant one"),
        (&["run", "own", "--also", "mine=quick"], "--also: "),
    ] {
        let output = run(&mut study(&scratch, arguments));
        let stderr = errors(&output);
        assert!(!output.status.success() && stderr.contains(expected), "{arguments:?}: {stderr}");
        assert_eq!(stderr.trim_end().lines().count(), 1, "{arguments:?}: {stderr}");
    }
    assert!(files(&scratch.0.join("there")) == before && scratch.0.join("other/mine").is_file());
    // A damaged file of stored figures must be reported, and not used.
    let name = before.keys().find(|name| name.contains("figures")).expect("figures");
    scratch.file(&format!("there{name}"), String::from_utf8_lossy(&before[name]).replace('1', "2"));
    let output = run(&mut study(&scratch, &["run", "own", "--quick", "--resume", "--out", "there"]));
    assert!(errors(&output).contains("is damaged") && !output.status.success(), "{}", errors(&output));
}

/// A study that resumes must write only in its own directory, even if entries have been replaced by symbolic links.
#[test]
fn a_study_is_gone_on_with_in_its_own_directory_alone() {
    let scratch = scratch("study-links");
    let arguments = ["run", "own", "--quiet", "--quick", "--out", "there"];
    for name in ["figures", "own", "own/tables", "own/cells.csv", "study-run"] {
        let _ = fs::remove_dir_all(scratch.0.join("there"));
        let _ = fs::remove_dir_all(scratch.0.join("elsewhere"));
        assert!(run(&mut study(&scratch, &arguments)).status.success());
        let (link, target) = (scratch.0.join("there").join(name), scratch.0.join("elsewhere"));
        fs::rename(&link, &target).expect("moved");
        if name == "figures" {
            fs::remove_dir_all(&target).expect("ours");
            fs::create_dir(&target).expect("a directory");
        }
        symlink(&target, &link).expect("a link");
        let before = fs::metadata(&target).expect("there").modified().expect("a time");
        let output = run(study(&scratch, &arguments).arg("--resume"));
        let line = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{name}: {line}");
        assert!(line.contains(name) && line.contains("symbolic link"), "{name}: {line}");
        assert_eq!(fs::metadata(&target).expect("there").modified().expect("a time"), before, "{name}");
        let _ = fs::remove_file(&target);
    }
}

/// If a study has no emulated part, one line of output must say so. If the host lacks a program, the command must fail
/// before it writes anything.
#[test]
fn the_emulated_world_is_refused_or_told_of_in_a_line() {
    let scratch = scratch("study-emulated");
    let output = run(&mut study(&scratch, &["run", "own", "--world", "emulated", "--out", "there"]));
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "study own: it has no emulated side; it runs in the virtual world\n"
    );
    for (arguments, code, expected) in [
        (&["--set", "mtu=1500"][..], 2, "--set: is for the virtual world"),
        (&["--sensitivity"], 2, "--sensitivity: is for the virtual world"),
        (&["--out", "new"], 3, ""),
    ] {
        let mut command = study(&scratch, &["run", "osterdahl-2005", "--world", "emulated"]);
        // With an empty PATH, iptables is not found.
        let output = run(command.args(arguments).env("PATH", ""));
        let stderr = errors(&output);
        assert!(output.status.code() == Some(code) && stderr.contains(expected), "{arguments:?}: {stderr}");
        assert_eq!(stderr.trim_end().lines().count(), 1, "{arguments:?}: {stderr}");
    }
    assert!(!scratch.0.join("new").exists());
}

/// A finding of this study is that a tenfold round-trip time slows the page load down by a factor of 3 to 12. The
/// finding holds for all 64 tested combinations of the study's varied assumptions. `sensitivity.csv` must report this
/// and must not mark the finding as fragile. A second run must write the same file.
#[test]
fn fragile_results_are_marked() {
    let scratch = scratch("study-vary");
    let vary =
        "[[vary]]\nkey = 'one:iw'\nbetween = ['2', '10']\n[[vary]]\nkey = 'many:streams'\nor = ['1']\n";
    scratch.file("own/study.toml", format!("{}{vary}", FILES[0].1));
    let found = ["a", "b"].map(|out| {
        let arguments = ["run", "own", "--quick", "--quiet", "--sensitivity", "--out", out];
        let output = run(&mut study(&scratch, &arguments));
        assert!(output.status.success(), "{}", errors(&output));
        fs::read_to_string(scratch.0.join(out).join("own/sensitivity.csv")).expect("a file")
    });
    assert_eq!(found[0], found[1]);
    assert!(found[0].contains("\nfinding rtt,64,64,no,,finding,\n"), "{}", found[0]);
    assert_eq!(found[0].lines().filter(|line| line.starts_with("order of ")).count(), 2, "{}", found[0]);
}

/// An error in a file of a study must be reported with the name of the file.
#[test]
fn a_wrong_file_is_named() {
    for (file, wrong, expected) in [
        ("own/study.toml", "name = 'own'", "own/study.toml: "),
        ("own/study.toml", &FILES[0].1.replace("pages", "sizes"), "own/sizes.toml: there is no such file"),
        ("own/pages.toml", &FILES[1].1.replace("'page'", "'speed'"), "own/pages.toml: "),
        ("own/pages.csv", "contestant,loss,seconds\none,0,fast\n", "own/pages.csv: line 2"),
        (
            "own/pages.csv",
            "contestant,loss,seconds\nthree,0,1\n",
            "pages.csv: contestant 'three': pages.toml has one",
        ),
        (
            "own/pages.csv",
            "contestant,loss,seconds\none,3%,1\n",
            "pages.csv: loss '3%': pages.toml has 0, 5%",
        ),
        (
            "own/pages.csv",
            "contestant,los,seconds\none,0,1\n",
            "pages.csv: column 'los': pages.toml has loss",
        ),
        (
            "own/causes.toml",
            &FILES[3].1.replace("'pages'", "'sizes'"),
            "own/causes.toml: rtt: no table 'sizes'",
        ),
        ("own/causes.toml", &FILES[3].1.replace("[3, 12]", "[12, 3]"), "rtt: effect"),
        (
            "own/study.toml",
            &FILES[0].1.replace("'table 1.'", "'table 1.'\nkeys = ['rtt']"),
            "own/causes.toml: rtt: rtt=400ms changes what is stated (rtt: 40ms): write counterfactual = true",
        ),
        (
            "own/study.toml",
            &FILES[0].1.replace("'table 1.'", "'table 1.'\ntables = ['sizes']"),
            "own/study.toml: rtt: no table 'sizes'",
        ),
        ("own/claims.csv", &FILES[4].1.replace("one rises", "two rises"), "x1: no contestant 'two' in pages"),
        ("own/claims.csv", &FILES[4].1.replace("over loss", "over rtt"), "x1: 'rtt' is no factor of pages"),
        ("own/claims.csv", &FILES[4].1.replace("cause rtt", "cause loss"), "x2: no cause 'loss'"),
        ("own/claims.csv", &FILES[4].1.replace("; cause rtt", " | cause rtt"), "x2: "),
        ("own/readings.toml", "tables", "own/readings.toml: "),
        ("own/readings.toml", &READINGS.replace("['pages']", "['sizes']"), "readings.toml: no table 'sizes'"),
        (
            "own/readings.toml",
            &READINGS.replace("rtt=60ms", "two:iw=1"),
            "readings.toml: rtt-60: two:iw=1: own has no such",
        ),
        (
            "own/readings.toml",
            &READINGS.replace("contestant = 'one', loss", "loss = '1%', object"),
            "no printed cell",
        ),
    ] {
        let scratch = scratch("study-wrong");
        scratch.file(file, wrong);
        let output = run(&mut study(&scratch, &["run", "own", "--quiet"]));
        let stderr = errors(&output);
        assert!(
            !output.status.success() && stderr.contains(expected) && stderr.trim_end().lines().count() == 1,
            "{expected}: {stderr}"
        );
    }
}

/// A counterfactual change must not count as the explanation of a difference from the published value. The study must
/// name the change next to the value and count it separately.
#[test]
fn a_counterfactual_explains_nothing() {
    let scratch = scratch("study-counterfactual");
    let cells = |out: &str, arguments: &[&str]| {
        let output =
            run(study(&scratch, &["run", "own", "--quick", "--quiet", "--out", out]).args(arguments));
        let read =
            |file: &str| fs::read_to_string(scratch.0.join(out).join("own").join(file)).expect("a file");
        (String::from_utf8_lossy(&output.stdout).into_owned(), read("cells.csv"), read("tables/pages.csv"))
    };
    let (_, _, slow) = cells("slow", &["--set", "rtt=400ms"]);
    let row = slow.lines().find(|row| row.starts_with("0,one,,page,")).expect("a row");
    let page = row.split(',').nth(7).expect("a mean");
    scratch.file("own/pages.csv", format!("contestant,loss,seconds\none,0,{page}\n"));
    // The loop below also makes the cause exploratory or counterfactual. A study whose claim names such a cause is
    // rejected, so the cause is removed from the claim.
    scratch.file("own/claims.csv", FILES[4].1.replace("pages: one < many; cause rtt", "pages: one < many"));
    for (kind, explained, by, said_so) in [
        ("", 1, "rtt,,", "of 1 that differ 1 explained, 0 not explained"),
        (
            "exploratory = true",
            0,
            ",rtt,",
            "1 not explained (of these 1 by exploratory causes come close to the printed values, which is no explanation)",
        ),
        (
            "counterfactual = true",
            0,
            ",,",
            "1 not explained (of these 1 by counterfactuals come close to the printed values, which is no explanation)",
        ),
    ] {
        scratch.file("own/causes.toml", format!("{}explains = true\n{kind}\n", FILES[3].1));
        let (stdout, cells, _) = cells(&format!("out-{}", kind.len()), &[]);
        let cell = cells.lines().nth(1).expect("a cell");
        assert!(cell.contains(&format!(",differs,transport,{by}")), "{kind}: {cell}");
        assert_eq!(cell.ends_with(",rtt"), kind.starts_with("counterfactual"), "{cell}");
        assert!(stdout.contains(said_so), "{kind} {explained}: {stdout}");
        let word = if kind.is_empty() {
            "findings"
        } else if explained == 0 && kind.starts_with('e') {
            "exploratory ones"
        } else {
            "counterfactuals"
        };
        assert!(stdout.contains(&format!("causes that are as the study says: 1 of 1 {word}\n")), "{stdout}");
    }
}

/// A modified copy of one of the five shipped studies must not cite itself as that study.
#[test]
fn a_changed_copy_says_so() {
    let scratch = Scratch::new("study-copy");
    let name = "alternative-transport";
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies").join(name);
    for (file, content) in all_below(&shipped) {
        scratch.file(&format!("{name}/{file}"), content);
    }
    let page = |out: &str| {
        let output = run(&mut study(
            &scratch,
            &["run", &format!("./{name}/init"), "--quick", "--quiet", "--out", out],
        ));
        assert!(output.status.success(), "{}", errors(&output));
        fs::read_to_string(scratch.0.join(out).join(name).join("study.html")).expect("a page")
    };
    assert!(!page("same").contains("a changed copy"));
    let plan = fs::read_to_string(shipped.join("init.toml")).expect("a table");
    scratch.file(&format!("{name}/init.toml"), plan.replacen("title = \"", "title = \"Changed: ", 1));
    let other = page("other");
    for line in [
        "study alternative-transport, a changed copy (not as shipped: init.toml; SHA-256 ",
        "), of its tables init alone, assumptions as the copy has them",
        "A changed copy of alternative-transport: init.toml is not as shipped.",
        "anabranch study run ./alternative-transport --table init --quick --out DIR",
    ] {
        let other = other.replace(", seeds from 1 on, up to 1 at a place", "");
        assert!(other.contains(line), "{line}");
    }
    let prose = fs::read_to_string(scratch.0.join("other").join(name).join("page.md")).expect("its prose");
    assert!(prose.starts_with("A changed copy of alternative-transport: "), "{prose}");
}

/// Returns the columns of the result file `file`, in the order of the list in `docs/guide/results.md`.
fn columns(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/results.md");
    let page = fs::read_to_string(path).expect("docs/guide/results.md");
    let (_, rest) =
        page.split_once(&format!("\n### {file}\n")).unwrap_or_else(|| panic!("no heading {file}"));
    let lines = rest.lines().take_while(|line| !line.starts_with('#'));
    // The first column of the table names one column or several.
    let names = lines.filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
    names.flat_map(|column| column.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// Each file of a study must have the columns that are listed in `docs/guide/results.md`, in that order.
#[test]
fn every_column_is_told() {
    let scratch = scratch("study-columns");
    scratch.file("own/readings.toml", READINGS);
    scratch.file("own/study.toml", format!("{}[[vary]]\nkey = 'one:iw'\nor = ['2']\n", FILES[0].1));
    let arguments = ["run", "own", "--quick", "--quiet", "--readings", "--sensitivity", "--out", "out"];
    assert!(run(&mut study(&scratch, &arguments)).status.success());
    assert!(run(&mut study(&scratch, &["bundle", "own", "--quiet", "--out", "bundle"])).status.success());
    let mut files = all_below(&scratch.0.join("out/own"));
    files.insert("map.csv".to_owned(), fs::read(scratch.0.join("bundle/map.csv")).expect("a map"));
    files.retain(|name, _| name.ends_with(".csv"));
    assert_eq!(files.len(), 7, "{:?}", files.keys());
    for (name, content) in files {
        let text = String::from_utf8(content).expect("text");
        let head: Vec<&str> = text.lines().next().expect("a header").split(',').collect();
        let (expected_columns, head) = match name.as_str() {
            // Only the columns that every study has are compared. In `tables/pages.csv`, the first column is left out,
            // because it is the factor of this study. In `readings.csv`, the columns from the ninth on are left out,
            // because they are named after this study's cells.
            "tables/pages.csv" => (columns("tables/TABLE.csv"), &head[1..]),
            "readings.csv" => (columns(&name), &head[..8]),
            _ => (columns(&name), &head[..]),
        };
        assert_eq!(expected_columns, head, "{name}");
    }
    assert_eq!(columns("emulated.csv"), anabranch_papers::emulated::HEAD);
    // The results must appear on the page and in the list of outcomes.
    for file in ["out/own/study.html", "out/outcomes.md"] {
        let text = fs::read_to_string(scratch.0.join(file)).expect("text");
        for what in [
            "error, selected: ",
            "error, held out: ",
            "error, stated only: ",
            "error, median of all: ",
            "; fragile: ",
        ] {
            assert!(text.contains(what), "{file}: {what}");
        }
    }
}

/// Writes the files of the smallest study in the guide to `scratch`.
pub fn smallest(scratch: &Scratch) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/study.md");
    let guide = fs::read_to_string(path).expect("docs/guide/study.md");
    let mut found = 0;
    for part in guide.split("\n`my-study/").skip(1) {
        let (file, rest) = part.split_once('`').expect("a name");
        let block = rest.split_once("```").expect("a block").1.split_once('\n').expect("its lines").1;
        scratch.file(&format!("my-study/{file}"), block.split_once("```").expect("its end").0);
        found += 1;
    }
    found += guide.matches("folder of six files. `my-study/study.toml`").count();
    let toml = guide.split_once("`my-study/study.toml`:\n\n```toml\n").expect("the first").1;
    scratch.file("my-study/study.toml", toml.split_once("```").expect("its end").0);
    assert_eq!(found, 6, "files of the smallest study");
}

/// The smallest study in the guide must run as written there. Its output must report the same numbers of cells, claims
/// and causes as the guide.
#[test]
fn the_smallest_study_runs_as_written() {
    let scratch = Scratch::new("study-smallest");
    smallest(&scratch);
    let output = run(&mut study(&scratch, &["run", "./my-study", "--quick", "--quiet", "--out", "out"]));
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", errors(&output));
    for what in [
        "my-study/pages: 1 cell (1 agrees)",
        "my-study: evidence, by runs: 1 claim (1 holds",
        "my-study: causes that are as the study says: 1 of 1 findings",
    ] {
        assert!(stdout.contains(what), "{what}: {stdout}");
    }
    let page = fs::read_to_string(scratch.0.join("out/my-study/page.md")).expect("a page");
    assert!(page.contains("takes [x1.") && !page.contains("[?]"), "{page}");
}

/// Single runs must be drawn as `[[graph]]` says. Graphs and repeated cells of tables that do not exist must be refused.
#[test]
fn single_runs_are_drawn() {
    let scratch = Scratch::new("study-graphs");
    smallest(&scratch);
    let read = |file: &str| fs::read_to_string(scratch.0.join("my-study").join(file)).expect("a file");
    let (toml, table) = (read("study.toml"), read("pages.toml"));
    let graph = "\n[[graph]]\nfigure = \"figure 9\"\ntable = \"pages\"\n\
                 draws = [\"throughput\", \"packets\", \"messages\"]\n";
    scratch.file("my-study/study.toml", toml.clone() + graph);
    let run_it = || run(&mut study(&scratch, &["run", "./my-study", "--quick", "--quiet", "--out", "out"]));
    let output = run_it();
    assert!(output.status.success(), "{}", errors(&output));
    let html = fs::read_to_string(scratch.0.join("out/my-study/study.html")).expect("a page");
    for part in
        ["id=\"graphs\"", "figure 9", "bytes/s, each 0.1 s", "packets, each 0.1 s", "client ──► server"]
    {
        assert!(html.contains(part), "no '{part}'");
    }
    for (file, text, expected) in [
        ("study.toml", toml.clone() + &graph.replace("pages", "page"), "graph figure 9: no table 'page'"),
        (
            "study.toml",
            toml.clone() + graph + "contestants = [\"ten\"]\n",
            "pages has no contestant 'ten'; it has one, six",
        ),
        (
            "pages.toml",
            table.replace("[plan]", "repeats = \"none\"\n\n[plan]"),
            "pages.toml: repeats: no other table 'none' with published cells",
        ),
    ] {
        scratch.file("my-study/study.toml", &toml);
        scratch.file(&format!("my-study/{file}"), text);
        let refused = errors(&run_it());
        assert!(refused.contains(expected), "{refused}");
    }
}

/// `study plan` must print a plan with which `race` reproduces the numbers of the study's cells.
#[test]
fn race_runs_the_plan_to_the_same_numbers() {
    let scratch = scratch("study-plan");
    assert!(
        run(&mut study(&scratch, &["run", "own", "--quick", "--quiet", "--out", "out", "--set", "one:iw=2"]))
            .status
            .success()
    );
    let plan = run(&mut study(&scratch, &["plan", "own/pages", "--quick", "--set", "one:iw=2"]));
    scratch.file("p.toml", &plan.stdout);
    let mut race = anabranch();
    race.current_dir(&scratch.0).args(["race", "p.toml", "--quiet", "--json", "p.json"]);
    assert!(run(&mut race).status.success());
    let results = fs::read_to_string(scratch.0.join("p.json")).expect("results");
    let results: serde_json::Value = serde_json::from_str(&results).expect("JSON");
    let cells = fs::read_to_string(scratch.0.join("out/own/cells.csv")).expect("cells");
    let mut compared = 0;
    for point in results["points"].as_array().expect("points") {
        for contestant in point["contestants"].as_array().expect("contestants") {
            let pages: Vec<f64> = contestant["runs"]
                .as_array()
                .expect("runs")
                .iter()
                .map(|run| run["page_ns"].as_f64().expect("done") / 1e9)
                .collect();
            let mean = pages.iter().sum::<f64>() / pages.len() as f64;
            let name = contestant["name"].as_str().expect("a name").split('=').next().expect("a nickname");
            let labels =
                format!("contestant={name} loss={}", point["factors"]["loss"].as_str().expect("a level"));
            let row = cells.lines().find(|line| line.contains(&labels)).unwrap_or_else(|| panic!("{labels}"));
            let value: f64 = row.split(',').nth(3).expect("ours").parse().expect("a number");
            assert!((value / mean - 1.0).abs() < 1e-12, "{labels}: {value} and {mean}");
            compared += 1;
        }
    }
    assert_eq!(compared, 4);
}

/// Returns all files below a directory, by relative path.
pub fn all_below(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(
                all_below(&path).into_iter().map(|(relative, bytes)| (format!("{name}/{relative}"), bytes)),
            );
        } else {
            found.insert(name, fs::read(&path).expect("read"));
        }
    }
    found
}
