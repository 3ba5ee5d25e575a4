//! Studies, as a user sees them: ended and gone on with, damaged, changed; and the plan that `race` runs to the same numbers.

#![cfg(target_os = "linux")]

use crate::running::{Scratch, anabranch, errors, run};
use expect_test::expect_file;
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::process::Command;

/// A study of two points, each a few milliseconds.
const FILES: [(&str, &str); 6] = [
    (
        "own/study.toml",
        "name = 'own'\ntitle = 'A study'\nsource = 'nobody'\nquestion = 'Which is first?'\ntables = ['pages']\n\
         [[parameter]]\nname = 'rtt'\nvalue = '40ms'\nis = 'stated'\nwhy = 'table 1.'\n",
    ),
    (
        "own/pages.toml",
        "title = 'pages'\nsource = 'table 1'\nunit = 's'\nmetric = 'page'\nrows = ['loss']\nruns = 8\nquick_runs = 2\n\
         [plan]\nrtt = '40ms'\nloss = ['0', '5%']\nobjects = '5x20kB'\ntransport = ['one=tcp', 'many=sctp:streams=5']\n",
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

fn place(name: &str) -> Scratch {
    let place = Scratch::new(name);
    fs::create_dir_all(place.0.join("own")).expect("a folder");
    for (file, content) in FILES {
        fs::write(place.0.join(file), content).expect("written");
    }
    place
}

fn study(place: &Scratch, words: &[&str]) -> Command {
    let mut command = anabranch();
    command.current_dir(&place.0).arg("study").args(words);
    command
}

fn files(directory: &Path) -> BTreeMap<String, Vec<u8>> {
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

/// Two ways to read the study, and a size that its first cell sets for each.
const READINGS: &str = "tables = ['pages']\nrows = ['contestant', 'loss']\nruns = 2\nquick-runs = 2\n\
    [[axis]]\nname = 'rtt'\nwhy = 'unsaid'\n[[axis.reading]]\nid = 'rtt-40'\n\
    [[axis.reading]]\nid = 'rtt-60'\nchange = ['rtt=60ms']\nstated = 1\n\
    [[calibrate]]\nkey = 'rate'\nstart = '10mbit'\ntable = 'pages'\n\
    cells = { contestant = 'one', loss = '0' }\n";

/// Whatever of the figures is there when a run goes on, the end is that of an undisturbed one.
#[test]
fn a_study_that_was_ended_goes_on_to_the_same_files() {
    let place = place("study-resume");
    place.file("own/readings.toml", READINGS);
    let whole = run(&mut study(&place, &["run", "own", "--quiet", "--readings", "--out", "whole"]));
    assert!(whole.status.success(), "{}", errors(&whole));
    let expected = files(&place.0.join("whole"));
    // Three rows are scored: the fourth set the size.
    let scored = String::from_utf8_lossy(&expected["/own/readings.csv"]).into_owned();
    let digest = anabranch_lab::study::figures::hex(READINGS.as_bytes());
    let said = String::from_utf8_lossy(&whole.stdout).into_owned();
    assert!(
        scored.contains(&format!("\nfile,{digest},")) && said.contains(&format!("readings {digest}: 2 of")),
        "{said}"
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
            .all(|what| said.contains(what)),
        "{said}"
    );
    let figures: Vec<&String> = expected.keys().filter(|name| name.contains("figures")).collect();
    assert!(figures.len() >= 3 && expected.keys().any(|name| name.ends_with("/cells.csv")), "{figures:?}");
    for kept in (0..figures.len()).step_by(3) {
        let part = format!("part-{kept}");
        fs::create_dir_all(place.0.join(&part).join("figures")).expect("a folder");
        for name in figures.iter().take(kept).copied().chain([&"/study-run".to_owned()]) {
            fs::write(place.0.join(format!("{part}{name}")), &expected[name]).expect("written");
        }
        let again =
            run(&mut study(&place, &["run", "own", "--quiet", "--readings", "--resume", "--out", &part]));
        assert!(again.status.success(), "{}", errors(&again));
        assert_eq!(again.stdout, whole.stdout);
        assert!(files(&place.0.join(&part)) == expected, "with {kept} figures kept");
    }
}

#[test]
fn what_cannot_be_is_told_in_a_line_and_nothing_is_lost() {
    let place = place("study-refused");
    assert!(
        run(&mut study(&place, &["run", "own", "--quiet", "--quick", "--out", "there"])).status.success()
    );
    let before = files(&place.0.join("there"));
    fs::create_dir(place.0.join("other")).expect("a folder");
    place.file("other/mine", "mine");
    for (words, told) in [
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
        (&["run", "own", "--set", "loss=5%"], "printed cells of pages are labelled with it"),
        (&["run", "own", "--set", "spede=1"], "unknown flag 'spede'"),
        (&["run", "own", "--set", "two:iw=1"], "no such contestant; there are many, one"),
        (&["run", "own", "--set", "one:speed=1"], "unknown key 'speed'"),
        (&["plan", "own/nothing"], "no table 'nothing'; there are pages"),
        (&["plan", "own", "--set", "rtt=fast"], "--set: "),
        (&["run", "own/nothing"], "no table 'nothing'; there are pages"),
        (&["run", "own", "--table", "nothing"], "no table 'nothing'; there are pages"),
        (&["run", "own", "own", "--table", "pages"], "--table: goes with one study"),
        (&["run", "own", "--also", "one=tcp"], "--also: 'one=tcp': pages has a contestant one"),
        (&["run", "own", "--also", "mine=quick"], "--also: "),
    ] {
        let output = run(&mut study(&place, words));
        let said = errors(&output);
        assert!(!output.status.success() && said.contains(told), "{words:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{words:?}: {said}");
    }
    assert!(files(&place.0.join("there")) == before && place.0.join("other/mine").is_file());
    // A file of figures that is damaged is told, and not believed.
    let name = before.keys().find(|name| name.contains("figures")).expect("figures");
    place.file(&format!("there{name}"), String::from_utf8_lossy(&before[name]).replace('1', "2"));
    let output = run(&mut study(&place, &["run", "own", "--quick", "--resume", "--out", "there"]));
    assert!(errors(&output).contains("is damaged") && !output.status.success(), "{}", errors(&output));
}

/// A study without a side in the emulated world says so; what the host lacks is told before anything is made.
#[test]
fn the_emulated_world_is_refused_or_told_of_in_a_line() {
    let place = place("study-emulated");
    let output = run(&mut study(&place, &["run", "own", "--world", "emulated", "--out", "there"]));
    assert!(output.status.success(), "{}", errors(&output));
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "study own: it has no emulated side; it runs in the virtual world\n"
    );
    for (words, code, told) in [
        (&["--set", "mtu=1500"][..], 2, "--set: is for the virtual world"),
        (&["--sensitivity"], 2, "--sensitivity: is for the virtual world"),
        (&["--out", "new"], 3, ""),
    ] {
        let mut command = study(&place, &["run", "osterdahl-2005", "--world", "emulated"]);
        // Where there is no program to be found there is no iptables.
        let output = run(command.args(words).env("PATH", ""));
        let said = errors(&output);
        assert!(output.status.code() == Some(code) && said.contains(told), "{words:?}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{words:?}: {said}");
    }
    assert!(!place.0.join("new").exists());
}

/// Ten times the round trip costs as much at every point of what the study varies; the same again gives the same file.
#[test]
fn what_hangs_on_assumptions_is_told() {
    let place = place("study-vary");
    let vary =
        "[[vary]]\nkey = 'one:iw'\nbetween = ['2', '10']\n[[vary]]\nkey = 'many:streams'\nor = ['1']\n";
    place.file("own/study.toml", format!("{}{vary}", FILES[0].1));
    let found = ["a", "b"].map(|out| {
        let words = ["run", "own", "--quick", "--quiet", "--sensitivity", "--out", out];
        let output = run(&mut study(&place, &words));
        assert!(output.status.success(), "{}", errors(&output));
        fs::read_to_string(place.0.join(out).join("own/sensitivity.csv")).expect("a file")
    });
    assert_eq!(found[0], found[1]);
    assert!(found[0].contains("\nfinding rtt,64,64,no,,finding,\n"), "{}", found[0]);
    assert_eq!(found[0].lines().filter(|line| line.starts_with("order of ")).count(), 2, "{}", found[0]);
}

/// What a file of a study has wrong is told with its name.
#[test]
fn a_wrong_file_is_named() {
    for (file, wrong, told) in [
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
        let place = place("study-wrong");
        place.file(file, wrong);
        let output = run(&mut study(&place, &["run", "own", "--quiet"]));
        let said = errors(&output);
        assert!(
            !output.status.success() && said.contains(told) && said.trim_end().lines().count() == 1,
            "{told}: {said}"
        );
    }
}

/// A table alone has the numbers, causes and claims that it has in the whole study.
#[test]
fn a_table_alone_is_as_in_the_whole_study() {
    let place = place("study-table");
    place.file("own/study.toml", FILES[0].1.replace("['pages']", "['sizes', 'pages']"));
    place.file("own/sizes.toml", FILES[1].1.replace("5x20kB", "3x5kB"));
    let more = "x4,text,measurement,both,sizes: one < many at loss=0; pages: one < many at loss=0\n\
                x5,text,measurement,one alone,pages: one = many at loss=0\n";
    place.file("own/claims.csv", format!("{}{more}", FILES[4].1));
    for (out, words) in [
        ("whole", &["run", "own"][..]),
        ("slash", &["run", "own/pages"]),
        ("flag", &["run", "own", "--table", "pages"]),
        ("both", &["run", "own", "--table", "pages", "--table", "sizes"]),
    ] {
        let flags = ["--quick", "--quiet", "--out", out];
        let output = run(study(&place, words).args(flags));
        assert!(output.status.success(), "{}", errors(&output));
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        // What holds is told of a part alone; what needs another table is no claim of it.
        assert_eq!(said.contains("x5 (holds)"), out != "whole", "{out}: {said}");
    }
    let [whole, slash, flag] =
        ["whole", "slash", "flag"].map(|out| all_below(&place.0.join(out).join("own")));
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

/// A contestant that is added changes no other number; it is marked wherever it stands, and races nowhere where it would.
#[test]
fn a_contestant_that_is_added_is_marked() {
    let place = place("study-also");
    place.file("own/study.toml", FILES[0].1.replace("['pages']", "['pages', 'shared']"));
    place.file("own/shared.toml", FILES[1].1.replace("rtt = '40ms'", "rtt = '40ms'\ntogether = true"));
    let also = ["--also", "mine=tcp:nagle=yes"];
    let run_to = |out: &str, words: &[&str]| {
        let output = run(study(&place, &["run", "own", "--quick", "--quiet", "--out", out]).args(words));
        assert!(output.status.success(), "{}", errors(&output));
        (String::from_utf8_lossy(&output.stdout).into_owned(), all_below(&place.0.join(out).join("own")))
    };
    let ((_, without), (said, with)) = (run_to("without", &[]), run_to("with", &also));
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
    assert!(said.starts_with(changed), "{said}");
    assert!(said.contains("warning: own/pages: ") && said.contains("\nmine (added)"), "{said}");
    let html = String::from_utf8_lossy(&with["study.html"]);
    assert!(html.contains("changed: mine added") && html.contains("mine (added)"));
    assert!(String::from_utf8_lossy(&with["page.md"]).starts_with(changed));
}

/// What a finding explains, a counterfactual does not: it is named beside the cell, and counted apart.
#[test]
fn a_counterfactual_explains_nothing() {
    let place = place("study-counterfactual");
    let cells = |out: &str, words: &[&str]| {
        let output = run(study(&place, &["run", "own", "--quick", "--quiet", "--out", out]).args(words));
        let read = |file: &str| fs::read_to_string(place.0.join(out).join("own").join(file)).expect("a file");
        (String::from_utf8_lossy(&output.stdout).into_owned(), read("cells.csv"), read("tables/pages.csv"))
    };
    let (_, _, slow) = cells("slow", &["--set", "rtt=400ms"]);
    let row = slow.lines().find(|row| row.starts_with("0,one,,page,")).expect("a row");
    let page = row.split(',').nth(7).expect("a mean");
    place.file("own/pages.csv", format!("contestant,loss,seconds\none,0,{page}\n"));
    // A claim that an exploratory cause decides would be refused.
    place.file("own/claims.csv", FILES[4].1.replace("pages: one < many; cause rtt", "pages: one < many"));
    for (kind, explained, by, said_so) in [
        ("", 1, "rtt,,", "of 1 that differ 1 explained, 0 not explained"),
        (
            "exploratory = true",
            0,
            ",rtt,",
            "1 not explained (of these 1 by exploratory causes come near print, which explains nothing)",
        ),
        (
            "counterfactual = true",
            0,
            ",,",
            "1 not explained (of these 1 by counterfactuals come near print, which explains nothing)",
        ),
    ] {
        place.file("own/causes.toml", format!("{}explains = true\n{kind}\n", FILES[3].1));
        let (said, cells, _) = cells(&format!("out-{}", kind.len()), &[]);
        let cell = cells.lines().nth(1).expect("a cell");
        assert!(cell.contains(&format!(",differs,transport,{by}")), "{kind}: {cell}");
        assert_eq!(cell.ends_with(",rtt"), kind.starts_with("counterfactual"), "{cell}");
        assert!(said.contains(said_so), "{kind} {explained}: {said}");
        let word = if kind.is_empty() {
            "findings"
        } else if explained == 0 && kind.starts_with('e') {
            "exploratory ones"
        } else {
            "counterfactuals"
        };
        assert!(said.contains(&format!("causes that are as the study says: 1 of 1 {word}\n")), "{said}");
    }
}

/// A copy of one of the five that has other files does not cite itself as that one.
#[test]
fn a_changed_copy_says_so() {
    let place = Scratch::new("study-copy");
    let name = "alternative-transport";
    let shipped = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies").join(name);
    for (file, content) in all_below(&shipped) {
        place.file(&format!("{name}/{file}"), content);
    }
    let page = |out: &str| {
        let output =
            run(&mut study(&place, &["run", &format!("./{name}/init"), "--quick", "--quiet", "--out", out]));
        assert!(output.status.success(), "{}", errors(&output));
        fs::read_to_string(place.0.join(out).join(name).join("study.html")).expect("a page")
    };
    assert!(!page("same").contains("a changed copy"));
    let plan = fs::read_to_string(shipped.join("init.toml")).expect("a table");
    place.file(&format!("{name}/init.toml"), plan.replacen("title = \"", "title = \"Changed: ", 1));
    let other = page("other");
    for said in [
        "study alternative-transport, a changed copy (not as shipped: init.toml; SHA-256 ",
        "), of its tables init alone, assumptions as the copy has them",
        "A changed copy of alternative-transport: init.toml is not as shipped.",
        "anabranch study run ./alternative-transport --table init --quick --out DIR",
    ] {
        let other = other.replace(", seeds from 1 on, up to 1 at a place", "");
        assert!(other.contains(said), "{said}");
    }
    let prose = fs::read_to_string(place.0.join("other").join(name).join("page.md")).expect("its prose");
    assert!(prose.starts_with("A changed copy of alternative-transport: "), "{prose}");
}

/// The columns that the page about results tells of a file, in order.
fn columns(file: &str) -> Vec<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/results.md");
    let page = fs::read_to_string(path).expect("docs/guide/results.md");
    let (_, below) =
        page.split_once(&format!("\n### {file}\n")).unwrap_or_else(|| panic!("no heading {file}"));
    let lines = below.lines().take_while(|line| !line.starts_with('#'));
    lines.filter_map(|line| Some(line.strip_prefix("| `")?.split_once('`')?.0.to_owned())).collect()
}

/// Each file of a study has the columns that the page about results tells, in that order.
#[test]
fn every_column_is_told() {
    let place = place("study-columns");
    place.file("own/readings.toml", READINGS);
    place.file("own/study.toml", format!("{}[[vary]]\nkey = 'one:iw'\nor = ['2']\n", FILES[0].1));
    let words = ["run", "own", "--quick", "--quiet", "--readings", "--sensitivity", "--out", "out"];
    assert!(run(&mut study(&place, &words)).status.success());
    assert!(run(&mut study(&place, &["bundle", "own", "--quiet", "--out", "bundle"])).status.success());
    let mut files = all_below(&place.0.join("out/own"));
    files.insert("map.csv".to_owned(), fs::read(place.0.join("bundle/map.csv")).expect("a map"));
    files.retain(|name, _| name.ends_with(".csv"));
    assert_eq!(files.len(), 7, "{:?}", files.keys());
    for (name, content) in files {
        let text = String::from_utf8(content).expect("text");
        let head: Vec<&str> = text.lines().next().expect("a header").split(',').collect();
        let (told, head) = match name.as_str() {
            // A column for each factor before, or for each row behind.
            "tables/pages.csv" => (columns("tables/TABLE.csv"), &head[1..]),
            "readings.csv" => (columns(&name), &head[..8]),
            _ => (columns(&name), &head[..]),
        };
        assert_eq!(told, head, "{name}");
    }
    assert_eq!(columns("emulated.csv"), anabranch_lab::study::emulated::HEAD);
    // What was found stands on the page, and in the list of outcomes.
    for file in ["out/own/study.html", "out/outcomes.md"] {
        let text = fs::read_to_string(place.0.join(file)).expect("text");
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

/// The files of the smallest study in the guide, put where `place` is.
pub fn smallest(place: &Scratch) {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/study.md");
    let guide = fs::read_to_string(path).expect("docs/guide/study.md");
    let mut found = 0;
    for part in guide.split("\n`my-study/").skip(1) {
        let (file, rest) = part.split_once('`').expect("a name");
        let block = rest.split_once("```").expect("a block").1.split_once('\n').expect("its lines").1;
        place.file(&format!("my-study/{file}"), block.split_once("```").expect("its end").0);
        found += 1;
    }
    found += guide.matches("folder of six files. `my-study/study.toml`").count();
    let toml = guide.split_once("`my-study/study.toml`:\n\n```toml\n").expect("the first").1;
    place.file("my-study/study.toml", toml.split_once("```").expect("its end").0);
    assert_eq!(found, 6, "files of the smallest study");
}

/// The smallest study of the guide, as it is written there, has its cell, its claim and its cause as the guide says.
#[test]
fn the_smallest_study_runs_as_written() {
    let place = Scratch::new("study-smallest");
    smallest(&place);
    let output = run(&mut study(&place, &["run", "./my-study", "--quick", "--quiet", "--out", "out"]));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}", errors(&output));
    for what in [
        "my-study/pages: 1 cell (1 agree)",
        "my-study: 1 claims: 1 hold",
        "my-study: causes that are as the study says: 1 of 1 findings",
    ] {
        assert!(said.contains(what), "{what}: {said}");
    }
    let page = fs::read_to_string(place.0.join("out/my-study/page.md")).expect("a page");
    assert!(page.contains("takes [x1.") && !page.contains("[?]"), "{page}");
}

/// `study plan` prints a plan that `race` runs to the numbers of the study's cells.
#[test]
fn race_runs_the_plan_to_the_same_numbers() {
    let place = place("study-plan");
    assert!(
        run(&mut study(&place, &["run", "own", "--quick", "--quiet", "--out", "out", "--set", "one:iw=2"]))
            .status
            .success()
    );
    let plan = run(&mut study(&place, &["plan", "own/pages", "--quick", "--set", "one:iw=2"]));
    place.file("p.toml", &plan.stdout);
    let mut race = anabranch();
    race.current_dir(&place.0).args(["race", "p.toml", "--quiet", "--json", "p.json"]);
    assert!(run(&mut race).status.success());
    let results = fs::read_to_string(place.0.join("p.json")).expect("results");
    let results: serde_json::Value = serde_json::from_str(&results).expect("JSON");
    let cells = fs::read_to_string(place.0.join("out/own/cells.csv")).expect("cells");
    let mut compared = 0;
    for point in results["points"].as_array().expect("points") {
        for contestant in point["arms"].as_array().expect("contestants") {
            let pages: Vec<f64> = contestant["runs"]
                .as_array()
                .expect("runs")
                .iter()
                .map(|run| run["page_ns"].as_f64().expect("done") / 1e9)
                .collect();
            let mean = pages.iter().sum::<f64>() / pages.len() as f64;
            let name = contestant["arm"].as_str().expect("a name").split('=').next().expect("a nickname");
            let labels =
                format!("contestant={name} loss={}", point["factors"]["loss"].as_str().expect("a level"));
            let row = cells.lines().find(|line| line.contains(&labels)).unwrap_or_else(|| panic!("{labels}"));
            let ours: f64 = row.split(',').nth(3).expect("ours").parse().expect("a number");
            assert!((ours / mean - 1.0).abs() < 1e-12, "{labels}: {ours} and {mean}");
            compared += 1;
        }
    }
    assert_eq!(compared, 4);
}

/// All files below a directory, by name.
fn all_below(directory: &Path) -> BTreeMap<String, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(directory).expect("a directory") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        if path.is_dir() {
            found.extend(
                all_below(&path).into_iter().map(|(below, bytes)| (format!("{name}/{below}"), bytes)),
            );
        } else {
            found.insert(name, fs::read(&path).expect("read"));
        }
    }
    found
}

/// A bundle's script, with nothing in its environment.
fn check(bundle: &Path, words: &[&str]) -> (Option<i32>, String) {
    let output = run(Command::new("/bin/sh").env_clear().arg("check.sh").args(words).current_dir(bundle));
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &errors(&output))
}

/// Two bundles are the same bytes; one that is somewhere else checks itself with nothing in its environment, and tells
/// whatever has been changed in it.
#[test]
fn a_bundle_is_checked_elsewhere_and_tells_what_differs() {
    let place = place("study-bundle");
    for out in ["a", "new/b"] {
        let output = run(&mut study(&place, &["bundle", "own", "--quiet", "--full", "--out", out]));
        assert!(output.status.success(), "{}", errors(&output));
    }
    let files = all_below(&place.0.join("a"));
    assert!(files == all_below(&place.0.join("new/b")), "two bundles differ");
    let mut names: Vec<&str> =
        files.keys().map(String::as_str).filter(|name| !name.contains("/own/")).collect();
    names.retain(|name| !name.starts_with("plans/"));
    assert_eq!(
        names,
        [
            "CITATION.cff",
            "LICENSE-APACHE",
            "LICENSE-MIT",
            "README.md",
            "SHA256SUMS",
            "anabranch",
            "check.sh",
            "data.md",
            "expected/full/exit-code.txt",
            "expected/full/outcomes.md",
            "expected/full/printed.txt",
            "expected/quick/exit-code.txt",
            "expected/quick/outcomes.md",
            "expected/quick/printed.txt",
            "map.csv"
        ]
    );
    for (file, content) in FILES {
        assert_eq!(files[&format!("studies/{file}")], content.as_bytes());
    }
    let map = String::from_utf8_lossy(&files["map.csv"]);
    let command = "./anabranch study run studies/own --quick --table pages";
    assert!(
        map.contains(&format!("claim,x1,table 1,loss costs time,pages: one rises over loss,{command},")),
        "{map}"
    );
    // The map's command prints what is compared.
    let said = run(Command::new("/bin/sh").args(["-c", command]).current_dir(place.0.join("a")));
    let said = String::from_utf8_lossy(&said.stdout).into_owned();
    let cells = String::from_utf8_lossy(&files["expected/quick/own/cells.csv"]).into_owned();
    let cells: Vec<Vec<&str>> = cells.lines().skip(1).map(|row| row.split(',').collect()).collect();
    assert_eq!(cells.len(), 4);
    for cell in cells {
        let ours = anabranch_lab::study::effect::figure(cell[3].parse().expect("a number"));
        let names: Vec<&str> = cell[1].split(' ').filter_map(|label| label.split('=').nth(1)).collect();
        let is_row = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.starts_with(&names) && words.contains(&ours.as_str()) && words.contains(&cell[13])
        };
        assert!(said.lines().any(|line| is_row(&line)), "{cell:?}: {said}");
    }
    assert!(
        said.contains("x1 (undetermined): loss costs time: ") && said.contains("rtt (finding, holds): "),
        "{said}"
    );
    // What made it is named with its source.
    let source = format!("anabranch {} (", env!("CARGO_PKG_VERSION"));
    for file in ["README.md", "expected/quick/own/study.html"] {
        assert!(String::from_utf8_lossy(&files[file]).contains(&source), "{file}");
    }
    // It goes somewhere else, and what made it is gone.
    let elsewhere = Scratch::new("study-bundle-elsewhere");
    fs::rename(place.0.join("a"), elsewhere.0.join("copy")).expect("moved");
    let copy = elsewhere.0.join("copy");
    for words in [&[][..], &["--full"]] {
        let (code, said) = check(&copy, words);
        assert!(code == Some(0) && said.ends_with("\nall the same\n"), "{code:?}: {said}");
    }
    for (file, from, to, told) in [
        ("expected/quick/own/cells.csv", "one", "two", "DIFFERS  expected/quick/own/cells.csv"),
        ("plans/quick/pages.toml", "40ms", "41ms", "DIFFERS  plans/quick/pages.toml"),
        ("studies/own/pages.toml", "40ms", "41ms", "DIFFERS  expected/quick/own/cells.csv"),
        ("data.md", "licence", "license", "DIFFERS  the files of this bundle, by SHA256SUMS"),
    ] {
        let before = fs::read_to_string(copy.join(file)).expect("text");
        fs::write(copy.join(file), before.replace(from, to)).expect("written");
        let (code, said) = check(&copy, &[]);
        assert!(code == Some(1) && said.contains(told) && !said.contains("all the same\n"), "{file}: {said}");
        fs::write(copy.join(file), before).expect("written");
    }
    assert_eq!(all_below(&copy), files, "the check leaves nothing in the bundle");
}

/// Where something is, where nothing can be, or where the disk ends: one line, and nothing is there that was not.
#[test]
fn a_bundle_that_cannot_be_leaves_nothing() {
    let place = place("study-bundle-refused");
    place.file("own/pages.csv", "contestant,loss,seconds\none,0,0.2\n");
    fs::create_dir(place.0.join("there")).expect("a folder");
    place.file("there/mine", "mine");
    place.file("file", "mine");
    let before = all_below(&place.0);
    for (out, code, told) in [
        ("there", 2, "'there' is not empty; name another directory"),
        ("file", 3, "cannot write 'file'"),
        ("file/below", 3, "cannot write 'file"),
        ("/proc/none/below", 3, "cannot write '/proc/none"),
    ] {
        let output = run(&mut study(&place, &["bundle", "own", "--quiet", "--out", out]));
        let said = errors(&output);
        assert!(output.status.code() == Some(code) && said.contains(told), "{out}: {said}");
        assert_eq!(said.trim_end().lines().count(), 1, "{said}");
    }
    let program = env!("CARGO_BIN_EXE_anabranch");
    let line = format!("trap '' XFSZ; ulimit -f 1; exec {program} study bundle own --quiet --out full");
    let output = run(Command::new("sh").current_dir(&place.0).args(["-c", &line]));
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    place.file("own/study.toml", FILES[0].1.replace("name = 'own'", "name = '../own'"));
    let output = run(&mut study(&place, &["bundle", "own", "--quiet", "--out", "named"]));
    assert!(errors(&output).contains("'../own': a bundle needs names of letters"), "{}", errors(&output));
    place.file("own/study.toml", FILES[0].1);
    assert_eq!(all_below(&place.0), before);
    // Interrupted in the middle of its runs.
    place.file("own/pages.toml", FILES[1].1.replace("quick_runs = 2", "quick_runs = 200000"));
    let mut child = study(&place, &["bundle", "own", "--quiet", "--out", "ended"]).spawn().expect("started");
    let begun = || {
        fs::read_dir(&place.0)
            .expect("a folder")
            .flatten()
            .any(|entry| entry.path().join("run/own").exists() || entry.path().join("run/figures").exists())
    };
    while !begun() {
        assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
        std::thread::sleep(std::time::Duration::from_millis(5));
    }
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("sent");
    assert_eq!(child.wait().expect("ended").code(), Some(130));
    place.file("own/pages.toml", FILES[1].1);
    assert_eq!(all_below(&place.0), before);
}

/// The printed packet table beside ours, row by row: the same types from the same ends in the same order, the same three sent
/// again. `UPDATE_EXPECT=1` writes the file.
#[test]
fn the_packet_table_is_met_row_by_row() {
    let place = Scratch::new("study-packets");
    let plan = run(&mut study(&place, &["plan", "alternative-transport/trace"]));
    fs::write(place.0.join("plan.toml"), plan.stdout).expect("written");
    let raced = run(anabranch().current_dir(&place.0).args(["race", "plan.toml", "--quiet", "--out", "out"]));
    // The plan ends with the sixteenth row and not with the file, which its exit code tells.
    assert!(place.0.join("out/sctp-1.seed-1.server.pcapng").is_file(), "{}", errors(&raced));
    let decoded = run(anabranch().current_dir(&place.0).args([
        "decode",
        "out/sctp-1.seed-1.server.pcapng",
        "--ladder=20",
    ]));
    let text = String::from_utf8_lossy(&decoded.stdout).into_owned();
    // A line of the ladder: when, A, whither, B, what.
    let ours = text.lines().filter_map(|line| {
        let (time, rest) = line.trim().split_once("  A  ")?;
        let (arrow, what) = rest.split_once(" B   ")?;
        let from = if arrow.contains('►') { "client" } else { "server" };
        let (kind, rest) = what.split_once("  ").unwrap_or((what, ""));
        let tsn = rest.trim().strip_prefix("tsn=").and_then(|rest| rest.split(' ').next());
        let again = rest.contains('↻').then(|| tsn.map(str::to_owned)).flatten();
        Some((time.parse::<f64>().ok()?, from, kind.replace(' ', "_"), again))
    });
    let ours: Vec<_> = ours.take(16).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../studies/alternative-transport/packets.csv");
    let kept = fs::read_to_string(path).expect("packets.csv");
    let head: Vec<&str> = kept.lines().take(2).collect();
    let printed: Vec<Vec<&str>> = kept.lines().skip(2).map(|line| line.split(',').collect()).collect();
    assert_eq!((ours.len(), printed.len()), (16, 16), "{text}");
    let mut lines = head.iter().map(|line| format!("{line}\n")).collect::<String>();
    for (row, (at, from, kind, again)) in printed.iter().zip(&ours) {
        assert_eq!(
            (row[1], row[2], !row[5].is_empty()),
            (*from, kind.as_str(), again.is_some()),
            "{row:?}: {text}"
        );
        lines += &format!("{},{},{},{},{at:.6},{}\n", row[0], row[1], row[2], row[3], row[5]);
    }
    expect_file!["../../../studies/alternative-transport/packets.csv"].assert_eq(&lines);
    // What is sent again are the packets that print has twice: the second to fourth of the server's data.
    let again: Vec<&str> = ours.iter().filter_map(|one| one.3.as_deref()).collect();
    assert_eq!(again, ["2", "3", "4"], "{text}");
}

/// The study of which nothing was scored: nothing of it is printed.
const NEVER_SCORED: &str = "today";

/// What was scored before is of the plans, the printed cells and the readings that there are now; that of the cheapest study
/// is what scoring it again gives.
#[test]
fn what_was_scored_before_is_of_this_state() {
    for name in anabranch_lab::study::names() {
        let study = anabranch_lab::study::open(name).expect(name);
        assert_eq!(
            study.kept.stale, [""; 0],
            "{name}: score it again: study run {name} --quick --readings --sensitivity"
        );
        let [scored, varied] = [study.kept.scores.is_some(), study.kept.sensitivity.is_some()];
        // What was never scored is told on its page.
        assert_eq!([!scored, !varied], [name == NEVER_SCORED; 2], "{name}");
    }
    let place = Scratch::new("study-kept");
    let words = ["run", "alternative-transport", "--quick", "--quiet", "--readings"];
    let output = run(&mut study(&place, &words));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success()
            && said.contains("alternative-transport/readings.csv: is what was scored here\n"),
        "{said}"
    );
}

/// What docs/outcomes.md says of every table, figure, claim and cause is what a quick run of all studies says today, and so is
/// every number that a page of prose quotes; every cause is as its study says, and each of those that answer a question of all
/// five papers has its chart.
#[test]
fn the_outcomes_that_are_written_down_are_those_of_a_run() {
    let place = Scratch::new("study-all");
    let output = run(&mut study(&place, &["run", "--all", "--quick", "--quiet", "--out", "all"]));
    let outcomes = fs::read_to_string(place.0.join("all/outcomes.md")).expect("outcomes");
    expect_file!["../../../docs/outcomes.md"].assert_eq(&format!("{OUTCOMES}{outcomes}"));
    for name in anabranch_lab::study::names() {
        let page = fs::read_to_string(place.0.join("all").join(name).join("page.md")).expect("a page");
        expect_file![format!("../../../studies/{name}/page.md")].assert_eq(&page);
    }
    assert!(
        output.status.success(),
        "a cause is not as its study says: {}",
        String::from_utf8_lossy(&output.stdout)
    );
    let papers = fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/papers.md"));
    let papers = papers.expect("docs/papers.md");
    let (prose, _) = papers.split_once(EVERY).expect("the map in docs/papers.md");
    let map: String = PAPERS.map(|name| map_of(name, &place.0.join("all"))).concat();
    expect_file!["../../../docs/papers.md"].assert_eq(&format!("{prose}{EVERY}{map}"));
    for (question, name, causes) in CHARTS {
        let html = fs::read_to_string(place.0.join("all").join(name).join("study.html")).expect("a page");
        for cause in causes {
            let chart = html
                .split_once(&format!("<div id=\"change-{cause}\">"))
                .unwrap_or_else(|| panic!("{cause}"))
                .1;
            let chart = chart.split_once("</figure>").expect("a figure").0;
            assert!(chart.contains("<svg") && chart.contains("<circle"), "{question}: {name}: {cause}");
            let row = papers.lines().find(|line| line.starts_with(&format!("| {question} |")));
            let row = row.unwrap_or_else(|| panic!("docs/papers.md has no row for {question}"));
            assert!(row.contains(&format!("`{cause}`")), "docs/papers.md: {question}: {cause}");
        }
    }
}

/// The studies of the five papers, in the order of docs/papers.md.
const PAPERS: [&str; 5] =
    ["osterdahl-2005", "sasikala-2008", "ha-2005", "rajamani-2002", "alternative-transport"];

/// Where docs/papers.md begins to be written by the test.
const EVERY: &str = "## Every table, figure and claim\n\n\
     Each row has the flags that its study's command takes to run what decides it, and what came of that with few seeds.\n\
     What a claim says, and the check that decides it, stands in [outcomes](outcomes.md).\n";

/// A study's tables, figures and claims, each with its command and its outcome: what `study bundle` has in `map.csv`.
fn map_of(name: &str, all: &Path) -> String {
    let study = anabranch_lab::study::open(name).expect(name);
    let read = |file: &str| fs::read_to_string(all.join(name).join(file)).expect(file);
    let outputs = ["claims.csv", "causes.csv"].map(|file| (format!("{name}/{file}"), read(file)));
    let map = anabranch_lab::study::bundle::map(&study, &outputs.into(), None);
    let verdicts = verdicts_of(&read("cells.csv"));
    let command = format!("anabranch study run {name} --quick");
    let mut out = format!(
        "\n### {name}\n\n`{command}`, with:\n\n| what | in the paper | with | outcome |\n|---|---|---|---|\n"
    );
    for row in csv::Reader::from_reader(map.as_bytes()).records() {
        let row = row.expect("a row");
        let [kind, id, place, check, commands, outcome] =
            [0, 1, 2, 4, 5, 6].map(|column| row[column].replace('|', "\\|"));
        let with =
            commands.replace("./", "").replace(&format!("anabranch study run studies/{name} --quick "), "");
        let with = if with.is_empty() { "".to_owned() } else { format!("`{with}`") };
        let (what, place, outcome) = match &*kind {
            "table" => (
                format!("table {id}"),
                place,
                verdicts.get(&*id).cloned().unwrap_or("no published value".to_owned()),
            ),
            "figure" if check.is_empty() => ("shown there".to_owned(), id, "those of its tables".to_owned()),
            "figure" => ("shown there".to_owned(), id, format!("by {check}")),
            "claim" => (id, place, outcome),
            _ => continue,
        };
        out += &format!("| {what} | {place} | {with} | {outcome} |\n");
    }
    out
}

/// How many cells of each table have each verdict.
fn verdicts_of(cells: &str) -> BTreeMap<String, String> {
    let mut rows = csv::Reader::from_reader(cells.as_bytes());
    let header = rows.headers().expect("a header").clone();
    let [table, verdict] = ["table", "verdict"]
        .map(|name| header.iter().position(|column| column == name).unwrap_or_else(|| panic!("{name}")));
    let mut counts: BTreeMap<String, BTreeMap<String, usize>> = BTreeMap::new();
    for row in rows.records() {
        let row = row.expect("a row");
        *counts.entry(row[table].to_owned()).or_default().entry(row[verdict].to_owned()).or_default() += 1;
    }
    let line = |counts: BTreeMap<String, usize>| {
        let word = |verdict: &str, count| {
            if count == 1 { verdict.to_owned() } else { verdict.trim_end_matches('s').to_owned() }
        };
        let counts = counts.iter().map(|(verdict, count)| format!("{count} {}", word(verdict, *count)));
        counts.collect::<Vec<_>>().join(", ")
    };
    counts.into_iter().map(|(table, counts)| (table, line(counts))).collect()
}

/// Eight questions that all five papers are about: the study and the findings that answer each.
const CHARTS: [(&str, &str, &[&str]); 8] = [
    ("RTO.min", "osterdahl-2005", &["rto-min"]),
    ("Head-of-line blocking", "rajamani-2002", &["one-stream"]),
    ("Pipelining", "sasikala-2008", &["sctp-pipelining", "tcp-pipelining"]),
    ("Arrivals", "osterdahl-2005", &["arrivals"]),
    ("The half-duplex gain", "ha-2005", &["half-duplex-gain"]),
    ("The spurious retransmission", "alternative-transport", &["longer-timer"]),
    ("Bytes or packets", "sasikala-2008", &["window", "chunk-cap"]),
    ("File 0", "rajamani-2002", &["file-0-order"]),
];

const OUTCOMES: &str = "# Outcomes of the studies\n\n\
     What `anabranch study run --all --quick --out DIR` writes to `DIR/outcomes.md`: every table and figure of the five\n\
     papers with what redoes it, every claim with what decides it and what came of it, and every finding with its effect.\n\
     `today`, at the end, is a study of our own: it is of no paper, and its claims are what we expected.\n\
     A test runs it again and compares. With all seeds (without `--quick`) intervals are narrower, so that less is\n\
     undetermined. [The five papers](papers.md) is the way in; [study](guide/study.md) says what the words mean.\n";
