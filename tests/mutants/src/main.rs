//! Chooses mutants of a crate at random, compiles all of them at once, and runs the crate's tests on each. The seed
//! determines which mutants are chosen.
//!
//! `cargo run -- --crate sctp --paths send,recv --count 100 --seed 1 --tests lib,scenarios`. All mutants are compiled
//! at once, and an environment variable switches one of them on. A mutant is killed by a test that fails or takes too
//! long. Continuous integration does not run this program.

mod find;
mod run;
mod scratch;
#[cfg(test)]
mod tests;
mod write;

use scratch::{Drawn, Scratch};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::{env, fs};

const USAGE: &str = "\
usage: cargo run -- --crate NAME [OPTION VALUE]...
  --crate NAME    mutate crates/NAME
  --paths A,B     only these files and folders of its src (default: all of it)
  --count N       draw N mutants, divided among the paths by lines of code (default: 100)
  --seed N        draw by this seed (default: 1)
  --tests A,B     run these tests in this order: lib, or a name of Cargo.toml (default: lib)
  --skip NAME     leave out tests whose name contains NAME (may be repeated)
  --only N,N      run only mutants with these numbers
  --jobs N        run N mutants at a time (default: 2)
  --run no        only print the mutants";

/// The options that were given on the command line.
struct Options {
    name: String,
    paths: Vec<String>,
    count: usize,
    seed: u64,
    tests: Vec<String>,
    skip: Vec<String>,
    only: Vec<usize>,
    jobs: usize,
    run: bool,
}

fn main() -> ExitCode {
    match options(env::args().skip(1)).and_then(|options| mutate(&options)) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn options(mut arguments: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options {
        name: String::new(),
        paths: vec![".".into()],
        count: 100,
        seed: 1,
        tests: vec!["lib".into()],
        skip: Vec::new(),
        only: Vec::new(),
        jobs: 2,
        run: true,
    };
    while let Some(flag) = arguments.next() {
        let value = arguments.next().ok_or(USAGE)?;
        let number = || value.parse::<u64>().map_err(|_| format!("{flag} {value}: a number is wanted"));
        let list = || value.split(',').map(String::from).collect();
        match flag.as_str() {
            "--crate" => options.name = value,
            "--paths" => options.paths = list(),
            "--count" => options.count = number()? as usize,
            "--seed" => options.seed = number()?,
            "--tests" => options.tests = list(),
            "--skip" => options.skip.push(value),
            "--only" => {
                let numbers = value.split(',').map(str::parse).collect::<Result<_, _>>();
                options.only = numbers.map_err(|_| format!("--only {value}: numbers are wanted"))?;
            }
            "--jobs" => options.jobs = number()? as usize,
            "--run" => options.run = value != "no",
            _ => return Err(USAGE.into()),
        }
    }
    if options.name.is_empty() { Err(USAGE.into()) } else { Ok(options) }
}

fn mutate(options: &Options) -> Result<(), String> {
    let tree = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let tree = tree.canonicalize().map_err(|error| error.to_string())?;
    let package = Path::new("crates").join(&options.name);
    let drawn = draw(&tree, &package.join("src"), options)?;
    if !options.run {
        for (number, drawn) in drawn.iter().enumerate() {
            println!("{number} {drawn}");
        }
        return Ok(());
    }
    let library = package.join("src/lib.rs");
    let scratch = Scratch::copy(&tree, &options.name, &drawn)
        .map_err(|error| format!("cannot copy the tree: {error}"))?;
    let name = format!("anabranch-{}", options.name);
    let (viable, programs) = scratch.build(&name, &library, &drawn, &options.tests)?;
    let tests = run::Tests::new(scratch.root.join(&package), programs, &options.skip)?;
    let selected: Vec<usize> = (viable.iter().copied())
        .filter(|number| options.only.is_empty() || options.only.contains(number))
        .collect();
    let survivors = tests.survivors(&selected, options.jobs.max(1));
    println!(
        "seed {}: {} drawn, {} viable, {} run, {} killed",
        options.seed,
        drawn.len(),
        viable.len(),
        selected.len(),
        selected.len() - survivors.len()
    );
    for number in survivors {
        let reached = if tests.reached(number) { "survives" } else { "is not reached" };
        println!("{number} {} · {reached}", drawn[number]);
    }
    Ok(())
}

/// Draws mutants at random from the files below `source`.
fn draw(tree: &Path, source: &Path, options: &Options) -> Result<Vec<Drawn>, String> {
    let mut areas = Vec::new();
    for path in &options.paths {
        let at = if path == "." { tree.join(source) } else { tree.join(source).join(path) };
        let (mut found, mut lines) = (Vec::new(), 0);
        for file in files(&at) {
            let text = fs::read_to_string(&file).map_err(|error| format!("{}: {error}", file.display()))?;
            lines += find::lines_of_code(&text);
            let mutants = find::mutants(&text).map_err(|error| format!("{}: {error}", file.display()))?;
            let file = file.strip_prefix(tree).unwrap_or(&file).to_path_buf();
            found.extend(mutants.into_iter().map(|mutant| Drawn { file: file.clone(), mutant }));
        }
        if found.is_empty() {
            return Err(format!("{}: there is nothing to mutate", at.display()));
        }
        eprintln!("{}: {lines} lines of code, {} mutants", at.display(), found.len());
        areas.push((lines, found));
    }
    let all: usize = areas.iter().map(|(lines, _)| lines).sum();
    let (mut drawn, mut before) = (Vec::new(), 0);
    let mut state = options.seed;
    for (lines, mut found) in areas {
        // The number of mutants drawn from each path is proportional to its lines of code. The shares are rounded so
        // that their sum is `options.count`.
        let share = options.count * (before + lines) / all - options.count * before / all;
        before += lines;
        let share = share.min(found.len());
        for index in 0..share {
            let swapped = index + (random(&mut state) % (found.len() - index) as u64) as usize;
            found.swap(index, swapped);
        }
        found.truncate(share);
        found.sort_by(|a, b| (&a.file, a.mutant.range.start).cmp(&(&b.file, b.mutant.range.start)));
        drawn.extend(found);
    }
    Ok(drawn)
}

/// Returns the Rust source files at or below `path`, except test files. They are sorted by path.
fn files(path: &Path) -> Vec<PathBuf> {
    let tests = ["tests", "testing"];
    if path.file_stem().is_some_and(|name| tests.iter().any(|test| name == *test)) {
        return Vec::new();
    }
    if path.is_file() {
        return vec![path.to_path_buf()]
            .into_iter()
            .filter(|path| path.extension().is_some_and(|e| e == "rs"))
            .collect();
    }
    let entries = fs::read_dir(path).into_iter().flatten().flatten();
    let mut found: Vec<_> = entries.flat_map(|entry| files(&entry.path())).collect();
    found.sort();
    found
}

/// Returns the next number of the generator SplitMix64.
fn random(state: &mut u64) -> u64 {
    *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let mut mixed = *state;
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
