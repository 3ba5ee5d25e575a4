//! Tests bundles of a study: checked in another place, damaged, interrupted.

#![cfg(target_os = "linux")]

use crate::running::{Scratch, errors, run, wait_until};
use crate::study::{FILES, all_below, scratch, study};
use std::fs;
use std::path::Path;
use std::process::Command;

/// Runs a bundle's script with an empty environment.
fn check(bundle: &Path, arguments: &[&str]) -> (Option<i32>, String) {
    let output = run(Command::new("/bin/sh").env_clear().arg("check.sh").args(arguments).current_dir(bundle));
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned() + &errors(&output))
}

/// Two bundles of a study must be identical. A bundle that was moved must check itself with an empty environment, and
/// report every file that was changed.
#[test]
fn a_bundle_is_checked_elsewhere_and_tells_what_differs() {
    let scratch = scratch("study-bundle");
    for out in ["a", "new/b"] {
        let output = run(&mut study(&scratch, &["bundle", "own", "--quiet", "--full", "--out", out]));
        assert!(output.status.success(), "{}", errors(&output));
    }
    let files = all_below(&scratch.0.join("a"));
    assert!(files == all_below(&scratch.0.join("new/b")), "two bundles differ");
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
    // The command in `map.csv` must print the same values as `cells.csv`, the bundle's file of expected results.
    let output = run(Command::new("/bin/sh").args(["-c", command]).current_dir(scratch.0.join("a")));
    let output = String::from_utf8_lossy(&output.stdout).into_owned();
    let cells = String::from_utf8_lossy(&files["expected/quick/own/cells.csv"]).into_owned();
    let cells: Vec<Vec<&str>> = cells.lines().skip(1).map(|row| row.split(',').collect()).collect();
    assert_eq!(cells.len(), 4);
    for cell in cells {
        let value = anabranch_papers::effect::figure(cell[3].parse().expect("a number"));
        let names: Vec<&str> = cell[1].split(' ').filter_map(|label| label.split('=').nth(1)).collect();
        let is_row = |line: &&str| {
            let words: Vec<&str> = line.split_whitespace().collect();
            words.starts_with(&names) && words.contains(&value.as_str()) && words.contains(&cell[13])
        };
        assert!(output.lines().any(|line| is_row(&line)), "{cell:?}: {output}");
    }
    assert!(
        output.contains("x1 (undetermined): loss costs time: ") && output.contains("rtt (finding, holds): "),
        "{output}"
    );
    // The bundle must name the program with its source revision.
    let source = format!("anabranch {} (", env!("CARGO_PKG_VERSION"));
    for file in ["README.md", "expected/quick/own/study.html"] {
        assert!(String::from_utf8_lossy(&files[file]).contains(&source), "{file}");
    }
    // The bundle is moved, and the original directory no longer exists.
    let elsewhere = Scratch::new("study-bundle-elsewhere");
    fs::rename(scratch.0.join("a"), elsewhere.0.join("copy")).expect("moved");
    let copy = elsewhere.0.join("copy");
    for words in [&[][..], &["--full"]] {
        let (code, output) = check(&copy, words);
        assert!(code == Some(0) && output.ends_with("\nall the same\n"), "{code:?}: {output}");
    }
    for (file, from, to, expected) in [
        ("expected/quick/own/cells.csv", "one", "two", "DIFFERS  expected/quick/own/cells.csv"),
        ("plans/quick/pages.toml", "40ms", "41ms", "DIFFERS  plans/quick/pages.toml"),
        ("studies/own/pages.toml", "40ms", "41ms", "DIFFERS  expected/quick/own/cells.csv"),
        ("data.md", "licence", "license", "DIFFERS  the files of this bundle, by SHA256SUMS"),
    ] {
        let before = fs::read_to_string(copy.join(file)).expect("text");
        fs::write(copy.join(file), before.replace(from, to)).expect("written");
        let (code, output) = check(&copy, &[]);
        assert!(
            code == Some(1) && output.contains(expected) && !output.contains("all the same\n"),
            "{file}: {output}"
        );
        fs::write(copy.join(file), before).expect("written");
    }
    assert_eq!(all_below(&copy), files, "the check leaves nothing in the bundle");
}

/// If the target exists or cannot be created, or if the disk is full, `study bundle` must print one line and leave no
/// files.
#[test]
fn a_bundle_that_cannot_be_leaves_nothing() {
    let scratch = scratch("study-bundle-refused");
    scratch.file("own/pages.csv", "contestant,loss,seconds\none,0,0.2\n");
    fs::create_dir(scratch.0.join("there")).expect("a folder");
    scratch.file("there/mine", "mine");
    scratch.file("file", "mine");
    let before = all_below(&scratch.0);
    for (out, code, expected) in [
        ("there", 2, "'there' is not empty; name another directory"),
        ("file", 3, "cannot write 'file'"),
        ("file/below", 3, "cannot write 'file"),
        ("/proc/none/below", 3, "cannot write '/proc/none"),
    ] {
        let output = run(&mut study(&scratch, &["bundle", "own", "--quiet", "--out", out]));
        let stderr = errors(&output);
        assert!(output.status.code() == Some(code) && stderr.contains(expected), "{out}: {stderr}");
        assert_eq!(stderr.trim_end().lines().count(), 1, "{stderr}");
    }
    let program = env!("CARGO_BIN_EXE_anabranch");
    let line = format!("trap '' XFSZ; ulimit -f 1; exec {program} study bundle own --quiet --out full");
    let output = run(Command::new("sh").current_dir(&scratch.0).args(["-c", &line]));
    assert_eq!(output.status.code(), Some(3), "{}", errors(&output));
    scratch.file("own/study.toml", FILES[0].1.replace("name = 'own'", "name = '../own'"));
    let output = run(&mut study(&scratch, &["bundle", "own", "--quiet", "--out", "named"]));
    assert!(errors(&output).contains("'../own': a bundle needs names of letters"), "{}", errors(&output));
    scratch.file("own/study.toml", FILES[0].1);
    assert_eq!(all_below(&scratch.0), before);
    // This bundle is interrupted during its runs.
    scratch.file("own/pages.toml", FILES[1].1.replace("quick_runs = 2", "quick_runs = 200000"));
    let mut child =
        study(&scratch, &["bundle", "own", "--quiet", "--out", "ended"]).spawn().expect("started");
    let start = || {
        fs::read_dir(&scratch.0)
            .expect("a folder")
            .flatten()
            .any(|entry| entry.path().join("run/own").exists() || entry.path().join("run/figures").exists())
    };
    wait_until("it runs", || {
        assert!(child.try_wait().expect("a child").is_none(), "it ended by itself");
        start()
    });
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::INT).expect("sent");
    assert_eq!(child.wait().expect("ended").code(), Some(130));
    scratch.file("own/pages.toml", FILES[1].1);
    assert_eq!(all_below(&scratch.0), before);
}
