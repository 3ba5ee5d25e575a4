//! `anabranch study bundle`: packs a study into a directory for reviewers. This module defines the layout of the
//! directory, which appears complete or not at all.

use super::{open, run_studies};
use crate::files::{self, PendingFile, ReservedDirectory};
use crate::{Completion, Failure, args, own_program, say};
use anabranch_papers::bundle::{self, Built, Outputs};
use anabranch_transports::Transports;
use clap::ArgMatches;
use sha2::{Digest, Sha256};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Runs the `study bundle` command.
pub fn run(matches: &ArgMatches, transports: &Transports) -> Result<Completion, Failure> {
    let name = matches.get_one::<String>("name").map_or("", String::as_str);
    let out = matches.get_one::<String>("out").map_or("", String::as_str);
    let study = open(name)?;
    if let Some(line) = bundle::not_bundled_reason(&study) {
        return Err(Failure::Usage(line));
    }
    let source = own_program()?;
    let own = &study.definition.name;
    let directory = ReservedDirectory::new(Path::new(out))?;
    let root = directory.path();
    for (file, content) in bundle::files(name).map_err(Failure::Host)? {
        write_file(&root.join("studies").join(own).join(file), &content)?;
    }
    for (file, content) in bundle::plans(&study).map_err(Failure::Internal)? {
        write_file(&root.join(file), content.as_bytes())?;
    }
    for (file, content) in bundle::PAPERS {
        write_file(&root.join(file), content.as_bytes())?;
    }
    let program = root.join("anabranch");
    let mut copy = PendingFile::new(&program)?;
    copy.copy(&source)?;
    files::publish(vec![copy.done()?])?;
    executable(&program)?;
    let (quick, mut done) = record_expected(root, own, "quick", matches, transports)?;
    let full = match matches.get_flag("full") {
        true => {
            let (full, also) = record_expected(root, own, "full", matches, transports)?;
            if also == Completion::Badly {
                done = also;
            }
            Some(full)
        }
        false => None,
    };
    let sha256 = digest(&program)?;
    let (rustc, target) = (env!("ANABRANCH_RUSTC"), env!("ANABRANCH_TARGET"));
    let readme = bundle::readme(
        &study,
        &Built { rustc, target, source: super::SOURCE, sha256: &sha256 },
        &quick,
        full.is_some(),
    );
    write_file(&root.join("README.md"), readme.as_bytes())?;
    write_file(&root.join("map.csv"), bundle::map(&study, &quick, full.as_ref()).as_bytes())?;
    write_file(&root.join("check.sh"), bundle::check(&study, full.is_some()).as_bytes())?;
    executable(&root.join("check.sh"))?;
    let mut sums = String::new();
    for file in all_below(root)? {
        sums += &format!("{}  {}\n", digest(&root.join(&file))?, file.display());
    }
    write_file(&root.join("SHA256SUMS"), sums.as_bytes())?;
    directory.publish()?;
    say(&format!(
        "{out}: the study {own} with its program; `sh {out}/check.sh` runs it again and compares\n"
    ))?;
    Ok(done)
}

/// Runs the study from its copy in the bundle, as the script of the bundle does. Stores the resulting files and the
/// printed output as the expected results.
fn record_expected(
    root: &Path,
    own: &str,
    size: &str,
    matches: &ArgMatches,
    transports: &Transports,
) -> Result<(Outputs, Completion), Failure> {
    let folder = root.join("studies").join(own);
    let scratch = root.join("run");
    let mut arguments: Vec<PathBuf> = ["anabranch", "study", "run"].map(PathBuf::from).to_vec();
    arguments.extend([folder, PathBuf::from("--out"), scratch.clone()]);
    arguments.extend((size == "quick").then(|| PathBuf::from("--quick")));
    arguments.extend(matches.get_flag("quiet").then(|| PathBuf::from("--quiet")));
    if let Some(threads) = matches.get_one::<u16>("threads") {
        arguments.extend([PathBuf::from("--threads"), PathBuf::from(threads.to_string())]);
    }
    let flags = args::command().try_get_matches_from(arguments);
    let flags = flags.map_err(|error| Failure::Host(error.to_string().replace('\n', " ")))?;
    let run = flags.subcommand_matches("study").and_then(|study| study.subcommand_matches("run"));
    let run = run.ok_or_else(|| Failure::Internal("study run is no command".to_owned()))?;
    let printed = RefCell::new(String::new());
    let done = run_studies(run, transports, Some(root), &|text: &str| {
        printed.borrow_mut().push_str(text);
        Ok(())
    })?;
    let mut outputs = Outputs::new();
    let files = all_below(&scratch.join(own))?.into_iter().map(|file| format!("{own}/{}", file.display()));
    for file in ["outcomes.md".to_owned()].into_iter().chain(files) {
        let path = scratch.join(&file);
        let text = fs::read_to_string(&path).map_err(|error| unreadable(&path, &error))?;
        write_file(&root.join("expected").join(size).join(&file), text.as_bytes())?;
        outputs.insert(file, text);
    }
    let code = if done == Completion::Well { "0\n" } else { "1\n" };
    for (file, text) in [("printed.txt", printed.into_inner().as_str()), ("exit-code.txt", code)] {
        write_file(&root.join("expected").join(size).join(file), text.as_bytes())?;
    }
    fs::remove_dir_all(&scratch).map_err(|error| unreadable(&scratch, &error))?;
    Ok((outputs, done))
}

/// Returns the paths of all files below `root`, sorted and relative to `root`.
fn all_below(root: &Path) -> Result<Vec<PathBuf>, Failure> {
    let mut found = BTreeMap::new();
    let mut waiting = vec![root.to_owned()];
    while let Some(folder) = waiting.pop() {
        for entry in fs::read_dir(&folder).map_err(|error| unreadable(&folder, &error))? {
            let path = entry.map_err(|error| unreadable(&folder, &error))?.path();
            if path.is_dir() {
                waiting.push(path);
            } else if let Ok(name) = path.strip_prefix(root) {
                found.insert(name.to_owned(), ());
            }
        }
    }
    Ok(found.into_keys().collect())
}

fn write_file(path: &Path, content: &[u8]) -> Result<(), Failure> {
    if let Some(folder) = path.parent() {
        files::reserve_directory(folder)?;
    }
    files::write(path, content)
}

fn digest(path: &Path) -> Result<String, Failure> {
    let mut sum = Sha256::new();
    let read = File::open(path).and_then(|mut file| io::copy(&mut file, &mut sum));
    read.map_err(|error| unreadable(path, &error))?;
    Ok(sum.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Makes a file executable for all users.
#[cfg(unix)]
fn executable(path: &Path) -> Result<(), Failure> {
    use std::os::unix::fs::PermissionsExt;
    fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(|error| unreadable(path, &error))
}

#[cfg(not(unix))]
fn executable(_: &Path) -> Result<(), Failure> {
    Ok(())
}

fn unreadable(path: &Path, error: &io::Error) -> Failure {
    Failure::Host(format!("'{}': {error}", path.display()))
}
