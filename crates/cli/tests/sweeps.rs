//! Tests sweeps as a user sees them. A sweep that is interrupted and resumed, or divided and merged, must give the same
//! bytes as an uninterrupted sweep.

#![cfg(target_os = "linux")]

use crate::running::{Scratch, anabranch, errors, run, wait_until};
use anabranch_base::testing::are_slow_tests_enabled;
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use std::collections::BTreeMap;
use std::fs::{self, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::thread::JoinHandle;

/// A plan of twelve points with an expectation. Each point takes a few milliseconds.
const PLAN: &str = r#"
rtt = ["10ms", "40ms", "90ms"]
loss = ["0", "1%", "2%", "4%"]
objects = "3x20kB"
runs = 6
transport = ["six=tcp:connections=6", "sctp"]

[[expect]]
of = "sctp"
versus = "six"
ratio_max = 1.2
"#;

fn race(scratch: &Scratch, arguments: &[&str]) -> Command {
    let mut command = anabranch();
    command.current_dir(&scratch.0).args(["race", "--quiet", "--threads", "1"]).args(arguments);
    command
}

/// Creates a directory with the plan and, in `whole`, the result of an uninterrupted run.
fn prepare_sweep(name: &str) -> (Scratch, Files) {
    let scratch = Scratch::new(name);
    scratch.file("plan.toml", PLAN);
    let output = run(&mut race(&scratch, &["plan.toml", "--out", "whole"]));
    assert_eq!(output.status.code(), Some(1), "expectations are missed: {}", errors(&output));
    let whole = files(&scratch.0.join("whole"));
    (scratch, whole)
}

type Files = BTreeMap<PathBuf, Vec<u8>>;

/// Returns every file below a directory.
fn files(directory: &Path) -> Files {
    let (mut found, mut waiting) = (Files::new(), vec![directory.to_owned()]);
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).expect("a directory") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                waiting.push(path);
            } else {
                let name = path.strip_prefix(directory).expect("below").to_owned();
                found.insert(name, fs::read(&path).expect("a file"));
            }
        }
    }
    found
}

/// Checks that two directories have the same files with the same bytes.
fn same(found: &Files, expected: &Files, when: &str) {
    let names = |files: &Files| files.keys().cloned().collect::<Vec<_>>();
    assert_eq!(names(found), names(expected), "{when}");
    let differs = found.iter().find(|(name, bytes)| expected[*name] != **bytes).map(|(name, _)| name);
    assert_eq!(differs, None, "{when}");
}

/// Returns the text of a compressed file.
fn unpacked(packed: &[u8]) -> String {
    let mut text = String::new();
    GzDecoder::new(packed).read_to_string(&mut text).expect("unpacked");
    text
}

fn packed(text: &str) -> Vec<u8> {
    let mut packed = GzEncoder::new(Vec::new(), Compression::default());
    packed.write_all(text.as_bytes()).and_then(|()| packed.finish()).expect("packed")
}

fn is_point(name: &Path) -> bool {
    let text = name.to_string_lossy();
    text.starts_with("points") && text.ends_with(".json.gz")
}

fn points(directory: &Path) -> usize {
    fs::read_dir(directory.join("points")).map_or(0, |entries| {
        entries.flatten().filter(|entry| is_point(&Path::new("points").join(entry.file_name()))).count()
    })
}

/// Checks that the command ended with this exit code and one line that contains all of `expected`.
fn refused(output: &Output, code: i32, expected: &[&str]) {
    let line = errors(output);
    assert_eq!(output.status.code(), Some(code), "{expected:?}: {line}");
    assert!(
        line.lines().count() == 1 && expected.iter().all(|word| line.contains(word)),
        "{expected:?}: {line}"
    );
}

/// Starts a sweep, and sends it a signal when `directory` has the files of `after` points. Returns the output of the
/// sweep.
fn ended(mut command: Command, signal: &str, directory: &Path, after: usize) -> Output {
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("started");
    wait_until("there are points", || {
        points(directory) >= after || child.try_wait().expect("a child").is_some()
    });
    assert!(Command::new("kill").args([signal, &child.id().to_string()]).status().expect("kill").success());
    child.wait_with_output().expect("it ends")
}

/// A sweep may be killed at any moment. The test resumes it from several sets of files that a killed sweep can leave
/// behind, together with partly written files. The resumed sweep must end with the same files as a sweep that was never
/// killed.
#[test]
fn a_sweep_that_was_killed_at_any_moment_goes_on_to_the_same_bytes() {
    let (scratch, whole) = prepare_sweep("sweep-moments");
    // The files in the order in which a sweep completes them. The last file of each point of the sweep has the point's
    // results.
    let mut order: Vec<&PathBuf> = whole.keys().filter(|name| name.starts_with("points")).collect();
    let number = |name: &Path| name.file_name().expect("a name").to_string_lossy()[..2].to_owned();
    order.sort_by_key(|name| (number(name), is_point(name), name.to_path_buf()));
    order.push(whole.get_key_value(Path::new("report.html")).expect("a report").0);
    for length in (0..=order.len()).step_by(7).chain([order.len()]) {
        let directory = scratch.0.join("killed");
        let _ = fs::remove_dir_all(&directory);
        let write_file = |name: &Path, bytes: &[u8]| {
            let path = directory.join(name);
            fs::create_dir_all(path.parent().expect("a parent")).expect("a directory");
            fs::write(path, bytes).expect("a file");
        };
        write_file(Path::new("sweep.json"), &whole[Path::new("sweep.json")]);
        order[..length].iter().for_each(|name| write_file(name, &whole[*name]));
        write_file(Path::new("points/.anabranch.7.1.partial"), b"{\"schema\":");
        write_file(Path::new(".anabranch.7.2.partial"), b"");
        let output = run(&mut race(&scratch, &["--resume", "killed"]));
        assert_eq!(output.status.code(), Some(1), "{length}: {}", errors(&output));
        same(&files(&directory), &whole, &format!("{length} of {} files were there", order.len()));
    }
}

#[test]
fn a_sweep_that_is_ended_by_a_signal_goes_on_to_the_same_bytes() {
    let (scratch, whole) = prepare_sweep("sweep-signals");
    for (name, signal, after) in [("a", "-INT", 3), ("b", "-KILL", 2), ("c", "-KILL", 7), ("d", "-INT", 0)] {
        let directory = scratch.0.join(name);
        // On a busy machine the signal may arrive when all points are done, so the test tries again.
        let ended_early = || {
            let _ = fs::remove_dir_all(&directory);
            let output = ended(race(&scratch, &["plan.toml", "--out", name]), signal, &directory, after);
            let done = points(&directory);
            assert!(done >= after, "{done} points when it ended");
            (done < 12).then_some(output)
        };
        let output = (0..50).find_map(|_| ended_early()).expect("no signal came in time");
        // With `after` = 0, the signal may arrive before the program has installed its handler. Then the signal kills
        // the program.
        if signal == "-INT" && after == 0 {
            assert!([Some(130), None].contains(&output.status.code()), "{}", errors(&output));
        } else if signal == "-INT" {
            assert_eq!(output.status.code(), Some(130), "{}", errors(&output));
            let stderr = errors(&output);
            let line = stderr.lines().last().unwrap_or_default();
            assert!(line.ends_with(&format!("go on with: anabranch race --resume {name}")), "{stderr}");
            let shown = String::from_utf8_lossy(&output.stdout).into_owned();
            assert!(shown.contains("Of the points done so far ("), "{shown}");
            let refusing = run(&mut race(&scratch, &["plan.toml", "--out", name]));
            refused(&refusing, 2, &["is not finished", "--resume"]);
        }
        // At most one message is printed, and it is complete.
        let stderr = errors(&output);
        assert!(
            stderr.is_empty() || stderr.ends_with('\n') && stderr.matches("anabranch: ").count() == 1,
            "{stderr}"
        );
        let output = run(&mut race(&scratch, &["plan.toml", "--resume", name]));
        assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
        same(&files(&directory), &whole, name);
    }
}

#[test]
fn shards_that_were_killed_too_merge_to_what_one_machine_writes() {
    let (scratch, whole) = prepare_sweep("sweep-shards");
    for shard in 1..=8 {
        let (name, part) = (format!("s{shard}"), format!("{shard}/8"));
        let arguments = ["plan.toml", "--shard", &part, "--resume", &name];
        if shard % 3 == 1 {
            // Shard 1 has the points 1 and 9, and shard 4 has the points 4 and 12. Each of the two is killed after its
            // first point.
            ended(race(&scratch, &arguments), "-KILL", &scratch.0.join(&name), 1);
        }
        let output = run(&mut race(&scratch, &arguments));
        assert!(output.status.code() <= Some(1), "{}", errors(&output));
    }
    let other_part = run(&mut race(&scratch, &["plan.toml", "--shard", "3/8", "--resume", "s2"]));
    refused(&other_part, 2, &["is shard 2/8, and not 3/8"]);
    let names: Vec<String> = (1..=8).rev().map(|shard| format!("s{shard}")).collect();
    let merge = |names: &[&str], into: &str| {
        run(anabranch().current_dir(&scratch.0).arg("merge").args(names).args(["-o", into]))
    };
    let all: Vec<&str> = names.iter().map(String::as_str).collect();
    refused(&merge(&all[1..], "no"), 2, &["shard 8/8 is missing"]);
    refused(&merge(&all[2..], "no"), 2, &["shards 7/8, 8/8 are missing"]);
    refused(&merge(&["s1", "s2", "./s1"], "no"), 2, &["'./s1' is shard 1/8, as 's1' is"]);
    refused(&merge(&["s1", "whole"], "no"), 2, &["'whole' is a whole sweep"]);
    refused(&merge(&["s1", "plan.toml"], "no"), 2, &["'plan.toml' holds no sweep"]);

    let other = |arguments: &[&str], what: &str| {
        let arguments = [&["plan.toml", "--shard", "2/8", "--out", "other"], arguments].concat();
        let output = run(&mut race(&scratch, &arguments));
        assert!(output.status.code() <= Some(1), "{}", errors(&output));
        refused(&merge(&["s1", "other"], "no"), 2, &["'other' is of another sweep than 's1'", what]);
        fs::remove_dir_all(scratch.0.join("other")).expect("removed");
    };
    other(&["--seed", "7"], "seed differs");
    other(&["--pcap", "off"], "--pcap off");

    // `merge` must refuse directories in which a point is missing, has the content of another point, or is of another
    // shard.
    let (mine, moved) = (scratch.0.join("s3/points/03.json.gz"), scratch.0.join("away"));
    fs::rename(&mine, &moved).expect("moved");
    refused(&merge(&all, "no"), 2, &["'s3' is not finished: 1 of its 2 points are missing", "--resume s3"]);
    fs::copy(scratch.0.join("s4/points/04.json.gz"), &mine).expect("copied");
    refused(&merge(&all, "no"), 2, &["s3/points/03.json.gz", "holds point 4"]);
    fs::rename(&moved, &mine).expect("moved back");
    let stray = scratch.0.join("s3/points/04.json.gz");
    fs::copy(&mine, &stray).expect("copied");
    refused(&merge(&all, "no"), 2, &["s3/points/04.json.gz is of no point of shard 3/8"]);
    fs::remove_file(stray).expect("removed");
    assert!(!scratch.0.join("no").exists(), "nothing is written before all is read");

    let output = merge(&all, "merged");
    assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
    same(&files(&scratch.0.join("merged")), &whole, "merged");
}

#[test]
fn requests_that_do_not_match_the_sweep_are_refused_in_one_line() {
    let (scratch, whole) = prepare_sweep("sweep-refused");
    let refuse = |arguments: &[&str], code, expected: &[&str]| {
        refused(&run(&mut race(&scratch, arguments)), code, expected)
    };
    refuse(
        &["--resume", "whole", "--rtt", "1ms,2ms", "--loss", "0"],
        2,
        &["'whole'", "another plan", "differs"],
    );
    refuse(&["plan.toml", "--seed", "2", "--resume", "whole"], 2, &["another plan: seed differs"]);
    refuse(&["--resume", "whole", "--pcap", "all"], 2, &["--pcap median, and not all"]);
    refuse(&["--resume", "whole", "--shard", "1/2"], 2, &["is whole, and not shard 1/2"]);
    refuse(&["--resume", "nowhere"], 2, &["'nowhere' holds no sweep"]);
    refuse(&["plan.toml", "--resume", "."], 2, &["'.' holds no sweep: it is not empty"]);
    refuse(&["plan.toml", "--shard", "9/8", "--out", "x"], 2, &["'9/8'", "such as 3/8"]);
    refuse(&["plan.toml", "--shard", "1/8"], 2, &["--shard", "--out DIR"]);
    refuse(&["plan.toml", "--shard", "1/8", "--out", "x", "--json", "-"], 2, &["--json", "merge"]);
    refuse(
        &["plan.toml", "--loss", "0", "--rtt", "1ms", "--shard", "1/8", "--out", "x"],
        2,
        &["--shard", "one point"],
    );
    refuse(&["plan.toml", "--resume", "whole", "--out", "x"], 2, &["--resume", "--out"]);

    let file = |name: &str| scratch.0.join("whole").join(name);
    let changed = |name: &str, change: &dyn Fn(&str) -> String, expected: &[&str]| {
        let old = fs::read(file(name)).expect("a file");
        let changed = match name.ends_with(".gz") {
            true => packed(&change(&unpacked(&old))),
            false => change(std::str::from_utf8(&old).expect("a text")).into_bytes(),
        };
        fs::write(file(name), changed).expect("written");
        refuse(&["--resume", "whole"], 2, expected);
        fs::write(file(name), old).expect("written");
    };
    changed(
        "points/05.json.gz",
        &|old| old.replacen("\"seed\":3", "\"seed\":4", 1),
        &["points/05.json.gz", "damaged", "remove it"],
    );
    changed("points/05.json.gz", &|old| old[..old.len() / 2].to_owned(), &["points/05.json.gz", "damaged"]);
    changed("points/05.json.gz", &|_| String::new(), &["points/05.json.gz", "damaged"]);
    let own = fs::read(file("points/05.json.gz")).expect("a file");
    fs::write(file("points/05.json.gz"), &own[..own.len() / 2]).expect("written");
    refuse(&["--resume", "whole"], 2, &["points/05.json.gz", "damaged", "remove it"]);
    fs::write(file("points/05.json.gz"), own).expect("written");
    changed("sweep.json", &|old| old[..old.len() / 2].to_owned(), &["sweep.json", "damaged"]);
    changed("sweep.json", &|old| old.replace("\"runs\": \"6\"", "\"runs\": \"x\""), &["runs", "'x'"]);
    changed("sweep.json", &|old| old.replace("\"arch\": \"", "\"arch\": \"x"), &["made by anabranch"]);
    let har = whole.keys().find(|name| name.extension().is_some_and(|e| e == "har")).expect("a page load");
    fs::rename(file(&har.to_string_lossy()), scratch.0.join("away")).expect("moved");
    refuse(&["--resume", "whole"], 2, &["01.json", "which is not beside it"]);
    fs::rename(scratch.0.join("away"), file(&har.to_string_lossy())).expect("moved back");
    fs::write(file("points/13.json"), "{}").expect("written");
    refuse(&["--resume", "whole"], 2, &["whole/points/13.json is of no point of this sweep"]);
    fs::remove_file(file("points/13.json")).expect("removed");
    let output = run(&mut race(&scratch, &["--resume", "whole"]));
    assert_eq!(output.status.code(), Some(1), "nothing is left to do: {}", errors(&output));
    same(&files(&scratch.0.join("whole")), &whole, "after all that");
}

/// A sweep races at two rates, and the transfer does not finish at the lower rate. The whole sweep must exit with
/// code 1, and so must the shard that runs the lower rate.
#[test]
fn a_transfer_that_failed_at_one_point_is_told() {
    let scratch = Scratch::new("sweep-failed");
    let arguments =
        ["--bulk", "50kB", "--rate", "1mbit,8kbit", "--loss", "0", "--deadline", "5s", "--causes", "off"];
    let code = |more: &[&str]| {
        let arguments =
            [&arguments[..], &["--runs", "1", "--transport", "tcp,sctp", "--pcap", "off"], more].concat();
        run(&mut race(&scratch, &arguments)).status.code()
    };
    assert_eq!(code(&["--out", "all"]), Some(1));
    assert_eq!(code(&["--shard", "1/2", "--out", "s1"]), Some(0));
    assert_eq!(code(&["--shard", "2/2", "--out", "s2"]), Some(1));
}

/// The page's contents have changed, although the plan is the same. Resuming must be refused.
#[test]
fn another_page_under_the_same_name_is_refused() {
    let scratch = Scratch::new("sweep-inputs");
    scratch.file("site/index.html", "<img src=a.png>");
    scratch.file("site/a.png", vec![1; 5000]);
    let arguments = ["--page", "site", "--loss", "0,1%", "--runs", "2", "--transport", "sctp"];
    assert!(run(&mut race(&scratch, &[&arguments[..], &["--out", "out"]].concat())).status.success());
    scratch.file("site/a.png", vec![1; 6000]);
    let output = run(&mut race(&scratch, &["--resume", "out"]));
    refused(&output, 2, &["'out' was made with other contents of the files"]);
}

/// A sweep must write the same results into its directory (`--out`) as a race writes into one file (`--json`). A sweep
/// with `--json` and `--csv` must also write the same two files as a race.
#[test]
fn a_sweep_is_the_race_in_one_file() {
    let (scratch, whole) = prepare_sweep("sweep-one-file");
    let files_of = ["--json", "one.json", "--csv", "one.csv"];
    let table = |arguments: &[&str]| {
        let output = run(&mut race(&scratch, &[&["plan.toml"], arguments].concat()));
        assert_eq!(output.status.code(), Some(1), "{}", errors(&output));
        String::from_utf8(output.stdout).expect("text")
    };
    let read = |name: &str| fs::read_to_string(scratch.0.join(name)).expect("a text");
    let without_host = |text: &str| {
        let (before, host) = text.split_once("  \"host\": {").expect("a host");
        before.to_owned() + host.split_once("},").expect("its end").1
    };
    let one = table(&files_of);
    let (json, csv) = (read("one.json"), read("one.csv"));
    let results = String::from_utf8(whole[Path::new("results.json")].clone()).expect("text");
    assert!(without_host(&json) == without_host(&results));
    // This sweep writes into the directory of the finished sweep, and must replace the files there. It also compares
    // its results with those in `one.json`.
    let compared = table(&[&["--out", "whole", "--compare", "one.json"], &files_of[..]].concat());
    assert!(compared.starts_with(&one) && compared.contains("new beside old"), "{compared}");
    assert!(read("one.json") == results && read("one.csv") == csv);
    same(&files(&scratch.0.join("whole")), &whole, "again");
}

/// The output size that a race announces must match what it writes: the same number of files, and the number of bytes
/// within a factor of two.
#[test]
fn the_announced_output_size_is_written() {
    let scratch = Scratch::new("sweep-size");
    scratch.file("plan.toml", PLAN);
    for pcap in ["median", "off", "all"] {
        let mut command = anabranch();
        command.current_dir(&scratch.0).args(["race", "plan.toml", "--causes", "off", "--out", pcap]);
        let output = run(command.args(["--pcap", pcap]));
        let stderr = errors(&output);
        let written = files(&scratch.0.join(pcap));
        let bytes: usize = written.values().map(Vec::len).sum();
        let line = stderr.lines().find(|line| line.starts_with("12 points; in all about ")).expect("a line");
        let mut words = line.split_whitespace().skip(5);
        assert_eq!(words.next(), Some(written.len().to_string().as_str()), "{line}");
        let size: f64 = words.nth(1).and_then(|size| size.parse().ok()).expect("a size");
        let unit = if words.next().is_some_and(|unit| unit.starts_with("kB")) { 1e3 } else { 1e6 };
        let ratio = size * unit / bytes as f64;
        assert!((0.5..2.0).contains(&ratio), "{bytes} bytes: {line}");
    }
    let words = ["race", "plan.toml", "--causes", "off", "--shard", "2/8", "--out", "shard"];
    let stderr = errors(&run(anabranch().current_dir(&scratch.0).args(words)));
    let count = files(&scratch.0.join("shard")).len();
    assert!(stderr.contains(&format!("2 points of shard 2/8; in all about {count} files, ")), "{stderr}");
}

/// Memory must not grow with the number of points.
#[test]
fn a_sweep_of_many_points_takes_the_memory_of_few() {
    if !are_slow_tests_enabled() {
        return;
    }
    let scratch = Scratch::new("sweep-memory");
    let peak = |points: usize| {
        let levels: Vec<String> = (1..=points / 2).map(|ms| format!("{ms}ms")).collect();
        let out = format!("out-{points}");
        let arguments = [
            "--objects",
            "1x1kB",
            "--runs",
            "4",
            "--transport",
            "tcp",
            "--transport",
            "sctp",
            "--pcap",
            "off",
        ];
        let mut command = race(&scratch, &arguments);
        command.args(["--loss", "0,1%", "--rtt", &levels.join(","), "--out", &out]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().expect("started");
        let status = format!("/proc/{}/status", child.id());
        let mut most = 0_u64;
        wait_until("it ends", || {
            let text = fs::read_to_string(&status).unwrap_or_default();
            let line = text.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let kib = line.and_then(|line| line.split_whitespace().next()?.parse().ok());
            most = most.max(kib.unwrap_or(0));
            child.try_wait().expect("known").is_some()
        });
        assert!(child.wait().expect("ended").success());
        let whole = fs::metadata(scratch.0.join(&out).join("results.json")).expect("a result").len() >> 10;
        (most, whole)
    };
    // Both sweeps have more points than a report draws.
    let (few, many) = (peak(500), peak(2000));
    println!(
        "peak: {} KiB of 500 points ({} KiB of results), {} KiB of 2000 ({} KiB)",
        few.0, few.1, many.0, many.1
    );
    assert!(many.1 > 3 * few.1, "four times the results");
    assert!(many.0 < few.0 + 1500, "at most 1 KiB a point: {} KiB and {} KiB", few.0, many.0);
}

/// Makes a FIFO. As soon as a reader opens the FIFO, a thread opens it for writing and closes it without writing. The
/// reader therefore sees an empty file and does not block.
fn feed(pipe: &Path) -> JoinHandle<()> {
    let _ = fs::remove_file(pipe);
    assert!(Command::new("mkfifo").arg(pipe).status().expect("mkfifo").success());
    let pipe = pipe.to_owned();
    std::thread::spawn(move || drop(OpenOptions::new().write(true).open(pipe)))
}

/// Resuming must read and write only in the directory itself. Symbolic links in the directory must be refused, and a
/// FIFO must not block the command.
#[test]
fn a_sweep_is_gone_on_with_in_its_own_directory_alone() {
    let (scratch, whole) = prepare_sweep("sweep-links");
    // Begins a sweep whose points are all done, but whose results are not written yet.
    let begin = || {
        let _ = fs::remove_dir_all(scratch.0.join("sweep"));
        for (name, bytes) in whole.iter().filter(|(name, _)| *name != Path::new("results.json")) {
            scratch.file(&format!("sweep/{}", name.display()), bytes);
        }
    };
    let elsewhere = scratch.0.join("elsewhere");
    let resume = || run(&mut race(&scratch, &["--resume", "sweep"]));
    // Each file or directory that is replaced by a symbolic link, with a flag for directories.
    for (name, is_directory) in
        [("points", true), ("sweep.json", false), ("results.json", false), ("report.html", false)]
    {
        begin();
        let _ = fs::remove_dir_all(&elsewhere);
        fs::create_dir(&elsewhere).expect("a directory");
        let (link, target) = (scratch.0.join("sweep").join(name), elsewhere.join(name));
        if is_directory {
            fs::remove_dir_all(&link).expect("ours");
            fs::create_dir(&target).expect("a directory");
        } else {
            let content = fs::read(&link).unwrap_or_default();
            let _ = fs::remove_file(&link);
            fs::write(&target, content).expect("written");
        }
        symlink(&target, &link).expect("a link");
        let before = files(&elsewhere);
        refused(&resume(), 2, &["sweep", name, "symbolic link"]);
        same(&files(&elsewhere), &before, name);
    }
    // Each file of the sweep in turn is replaced by a FIFO. The command must refuse the FIFO without opening it.
    for name in ["sweep.json", "results.json", "points/01.json.gz"] {
        begin();
        let pipe = scratch.0.join("sweep").join(name);
        let fed = feed(&pipe);
        refused(&resume(), 2, &["sweep", name, "no regular file"]);
        // The writer thread waits for a reader, because the command did not open the FIFO. The test opens it so that
        // the thread ends.
        drop(fs::File::open(&pipe).expect("a FIFO"));
        fed.join().expect("fed");
    }
    begin();
    assert_eq!(resume().status.code(), Some(1), "expectations are missed");
    let of_points = |files: &Files| files.keys().filter(|name| name.starts_with("points")).count();
    assert_eq!(of_points(&files(&scratch.0.join("sweep"))), of_points(&whole));
}
