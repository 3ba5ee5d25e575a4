//! Runs each fuzz target with a few inputs, which are the same on every machine. A target that panics at once, or that
//! `.ci/run` does not run, fails.

use std::path::Path;
use std::process::Command;

/// Returns the names of the targets, which the program lists if it has no argument.
fn targets() -> Vec<String> {
    let output = Command::new(env!("CARGO_BIN_EXE_anabranch-fuzz")).output().expect("the program runs");
    let stderr = String::from_utf8(output.stderr).expect("text");
    let (_, names) = stderr.trim().split_once("targets: ").expect("a list of targets");
    names.split(", ").map(str::to_owned).collect()
}

#[test]
fn each_target_takes_a_few_inputs() {
    let names = targets();
    assert!(names.len() >= 10, "{names:?}");
    for name in names {
        let mut fuzz = Command::new(env!("CARGO_BIN_EXE_anabranch-fuzz"));
        let output = fuzz.args([&name, "--inputs", "50"]).output().expect("the program runs");
        assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stderr));
    }
}

/// Inputs that once failed must be handled. They are in `found/TARGET/WHAT`.
#[test]
fn inputs_that_were_found_are_handled() {
    let found = Path::new(env!("CARGO_MANIFEST_DIR")).join("found");
    let mut count = 0;
    for target in std::fs::read_dir(found).expect("the inputs") {
        let target = target.expect("a target").path();
        for input in std::fs::read_dir(&target).expect("its inputs") {
            let mut fuzz = Command::new(env!("CARGO_BIN_EXE_anabranch-fuzz"));
            let output = fuzz.arg(target.file_name().expect("its name")).arg(input.expect("an input").path());
            let output = output.output().expect("the program runs");
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            count += 1;
        }
    }
    assert!(count > 0, "no input");
}

#[test]
fn ci_runs_each_target() {
    let ci = include_str!("../../.ci/run");
    for name in targets() {
        assert!(ci.contains(&format!(" {name}:")), ".ci/run: target {name} is not run");
    }
}
