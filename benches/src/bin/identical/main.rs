//! Checks that this tree prints and writes the same bytes as an earlier commit.
//!
//!     cargo run --release --bin identical -- --base REV [--only WORD] [--rename OLD=NEW].. [--keep DIR]
//!
//! Checks out the earlier commit below `target/regression`, and builds `anabranch` of both trees. Runs each command of
//! `commands.txt` with both programs, each in an empty folder. Exit codes, standard output, standard error and all
//! written files (captures, results.json, reports) must be equal, except the duration of the runs. In addition each
//! golden text of the earlier tree's tests (`expect![..]`) must exist in this tree. `--rename` declares a renamed word.
//! The word is replaced in the earlier commit's text output (never in JSON or captures), and the widths of columns and
//! lines may then differ. `--keep` keeps the files of both trees for inspection.
//!
//! Prints a line for each command. The exit code is 1 if the outputs of the two trees differ.

#[path = "../regression/build.rs"]
#[expect(dead_code, reason = "`regression` runs the benchmarks")]
mod build;
mod golden;

use build::Tree;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

/// The commands whose outputs are compared, one per line, with words separated by spaces. Where ` ; ` separates several
/// commands, they run one after the other in the same folder. `#` begins a comment.
const COMMANDS: &str = include_str!("commands.txt");

fn main() -> ExitCode {
    match compare() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("identical: {error}");
            ExitCode::from(2)
        }
    }
}

fn compare() -> Result<bool, String> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let values = |flag: &str| -> Vec<String> {
        args.windows(2).filter(|pair| pair[0] == flag).map(|pair| pair[1].clone()).collect()
    };
    let base = values("--base").pop().ok_or("--base REV: the commit to compare with")?;
    let only = values("--only").pop().unwrap_or_default();
    let renamed: Vec<(String, String)> = values("--rename")
        .iter()
        .map(|pair| pair.split_once('=').map(|(old, new)| (old.to_owned(), new.to_owned())))
        .collect::<Option<_>>()
        .ok_or("--rename OLD=NEW: a word of the earlier commit, and what it is called now")?;
    let (base, tree) = (Tree::of_commit(&base, &[])?, Tree::of_this_checkout(&[])?);
    let kept = values("--keep").pop().map(PathBuf::from);
    let folder = kept
        .clone()
        .unwrap_or_else(|| std::env::temp_dir().join(format!("anabranch-identical-{}", std::process::id())));
    let (mut same, mut count) = (0, 0);
    let lines = COMMANDS.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    for (number, line) in lines.filter(|line| line.contains(&only)).enumerate() {
        let run = |tree: &Tree, name: &str| {
            outcome(&tree.anabranch, line, &folder.join(format!("{number}-{name}")))
        };
        let (mut before, mut after) = (run(&base, "base")?, run(&tree, "tree")?);
        if !renamed.is_empty() {
            for (_, bytes) in before.iter_mut().filter(|(name, _)| is_text(name)) {
                let text = squeezed(bytes);
                *bytes = renamed.iter().fold(text, |text, (old, new)| text.replace(old, new)).into_bytes();
            }
            after
                .iter_mut()
                .filter(|(name, _)| is_text(name))
                .for_each(|(_, bytes)| *bytes = squeezed(bytes).into_bytes());
        }
        let difference = difference(&before, &after);
        count += 1;
        same += usize::from(difference.is_none());
        println!("{}  {line}", if difference.is_none() { "same   " } else { "DIFFERS" });
        if let Some(difference) = difference {
            println!("         {difference}");
        }
    }
    if kept.is_none() {
        let _ = std::fs::remove_dir_all(&folder);
    }
    let lost = golden::lost(&base.root, &tree.root)?;
    for text in &lost {
        println!("GONE     {text}");
    }
    println!("{same} of {count} commands print and write the same; {} golden texts are gone", lost.len());
    Ok(same == count && lost.is_empty())
}

/// Runs a command in an empty folder. Returns its output and the files that it wrote, by name.
fn outcome(program: &Path, line: &str, folder: &Path) -> Result<BTreeMap<String, Vec<u8>>, String> {
    let wrong = |error: std::io::Error| format!("{}: {error}", folder.display());
    if folder.exists() {
        std::fs::remove_dir_all(folder).map_err(wrong)?;
    }
    std::fs::create_dir_all(folder).map_err(wrong)?;
    let mut all = BTreeMap::<String, Vec<u8>>::new();
    for command in line.split(" ; ") {
        let output = Command::new(program)
            .args(command.split_whitespace())
            .current_dir(folder)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| format!("{}: {error}", program.display()))?;
        let code = format!("{:?}", output.status.code()).into_bytes();
        for (name, bytes) in [("exit code", code), ("stdout", output.stdout), ("stderr", output.stderr)] {
            all.entry(name.to_owned()).or_default().extend(bytes);
        }
    }
    files(folder, folder, &mut all).map_err(wrong)?;
    for (name, bytes) in &mut all {
        // Removes the duration of the runs from the output, because it is never the same. `marks` is the text before
        // and after the duration.
        let marks = match name.rsplit('.').next() {
            Some("json") => ("\"elapsed_s\": ", "\n"),
            Some("html") => (" threads, ", " s. Results schema"),
            _ => continue,
        };
        *bytes = without(&String::from_utf8_lossy(bytes), marks).into_bytes();
    }
    Ok(all)
}

fn files(root: &Path, folder: &Path, all: &mut BTreeMap<String, Vec<u8>>) -> std::io::Result<()> {
    for entry in std::fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_dir() {
            files(root, &path, all)?;
        } else {
            let name = path.strip_prefix(root).unwrap_or(&path).display().to_string();
            all.insert(name, std::fs::read(&path)?);
        }
    }
    Ok(())
}

/// Removes the first text that is enclosed by the marks `begin` and `end`.
fn without(text: &str, (begin, end): (&str, &str)) -> String {
    let Some((before, rest)) = text.split_once(begin) else { return text.to_owned() };
    let Some((_, after)) = rest.split_once(end) else { return text.to_owned() };
    format!("{before}{begin}{end}{after}")
}

/// Returns the text with single spaces between words. The outputs of the two trees then compare as equal even if a
/// renamed word (`--rename`) has changed the padding of columns or the line breaks.
fn squeezed(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).split_whitespace().collect::<Vec<_>>().join(" ")
}

/// Returns whether the file with this name is a text that only people read, so that `--rename` applies to it.
fn is_text(name: &str) -> bool {
    matches!(name, "stdout" | "stderr") || name.ends_with(".html")
}

/// Describes the first difference between the outputs of the two trees, and its position.
fn difference(before: &BTreeMap<String, Vec<u8>>, after: &BTreeMap<String, Vec<u8>>) -> Option<String> {
    for name in before.keys().chain(after.keys()) {
        let (Some(old), Some(new)) = (before.get(name), after.get(name)) else {
            return Some(format!("{name}: written by one of them alone"));
        };
        if old != new {
            let at = old.iter().zip(new).take_while(|(a, b)| a == b).count();
            let around = |bytes: &[u8]| {
                let part = &bytes[at.saturating_sub(30)..bytes.len().min(at + 50)];
                String::from_utf8_lossy(part).escape_debug().to_string()
            };
            return Some(format!("{name}, byte {at}: '{}' was '{}'", around(new), around(old)));
        }
    }
    None
}
