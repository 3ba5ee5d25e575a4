//! Runs a fuzz target: `anabranch-fuzz TARGET [--seconds N] [--inputs N] [--seed N] [FILE…]`.
//!
//! Coverage is not measured, so that any toolchain works. An input is made from the corpus by random changes
//! ([`mutate`]). Some targets, such as the endpoint and its API, read the input as a list of decisions ([`source`]). An
//! input that fails is written to a file. With the name of that file as an argument, the program runs the input again.

#![expect(clippy::disallowed_methods, reason = "a fuzzer runs in the user's own time")]

mod mutate;
mod source;
mod targets;

use anabranch_base::Rng;
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};
use std::alloc::System;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::{Duration, Instant};

#[global_allocator]
static GLOBAL: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

/// Returns the number of bytes that this program has allocated and not freed.
fn allocated() -> usize {
    let stats = GLOBAL.stats();
    stats.bytes_allocated.saturating_sub(stats.bytes_deallocated)
}

fn main() -> ExitCode {
    let mut arguments = std::env::args().skip(1);
    let Some(target) = arguments.next().and_then(|name| targets::find(&name)) else {
        let names: Vec<_> = targets::ALL.iter().map(|target| target.name).collect();
        eprintln!(
            "anabranch-fuzz TARGET [--seconds N] [--inputs N] [--seed N] [FILE…]; targets: {}",
            names.join(", ")
        );
        return ExitCode::from(2);
    };
    let (mut seconds, mut inputs, mut seed, mut files) = (10, u64::MAX, 1, Vec::new());
    while let Some(argument) = arguments.next() {
        let mut number = || arguments.next().and_then(|text| text.parse().ok()).expect("a number");
        match argument.as_str() {
            "--seconds" => seconds = number(),
            // A run normally ends after the given number of inputs, long before the time limit of one hour. So every
            // machine runs the same inputs.
            "--inputs" => (inputs, seconds) = (number(), 3600),
            "--seed" => seed = number(),
            _ => files.push(PathBuf::from(argument)),
        }
    }
    if !files.is_empty() {
        for file in files {
            (target.run)(&std::fs::read(&file).expect("a file to read"));
        }
        return ExitCode::SUCCESS;
    }
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let corpus = read_corpus(&home.join("corpus").join(target.corpus), home);
    fuzz(target, &corpus, seed, (Duration::from_secs(seconds), inputs), &home.join("findings"))
}

fn fuzz(
    target: &targets::Target,
    corpus: &[Vec<u8>],
    seed: u64,
    (limit, inputs): (Duration, u64),
    findings: &Path,
) -> ExitCode {
    let (begin, mut count) = (Instant::now(), 0_u64);
    while begin.elapsed() < limit && count < inputs {
        // Each input depends only on its own number.
        let mut rng = Rng::new(seed).fork(&format!("{} {count}", target.name));
        let input = mutate::input(&mut rng, corpus, target.length);
        let execute = || {
            let before = allocated();
            let run = catch_unwind(AssertUnwindSafe(|| (target.run)(&input)));
            (run, allocated().saturating_sub(before))
        };
        // An input must not leave much memory behind, because that would add up without bound. A second execution tells
        // such memory from buffers that a thread allocates once and keeps.
        let (mut run, mut left) = execute();
        if run.is_ok() && left >= 1 << 20 {
            (run, left) = execute();
        }
        if left >= 1 << 20 {
            eprintln!("an execution left {left} bytes behind");
        }
        if run.is_err() || left >= 1 << 20 {
            std::fs::create_dir_all(findings).expect("a folder");
            let file = findings.join(format!("{}-{seed}-{count}", target.name));
            std::fs::write(&file, &input).expect("a file");
            eprintln!(
                "replay: cargo run --profile test -p anabranch-fuzz -- {} {}",
                target.name,
                file.display()
            );
            return ExitCode::FAILURE;
        }
        count += 1;
    }
    println!("{:10}{count:12} executions in {:.0?}; seed {seed}", target.name, begin.elapsed());
    ExitCode::SUCCESS
}

/// Reads the files of a corpus folder. For some corpora, also reads files of other folders of the project.
fn read_corpus(folder: &Path, home: &Path) -> Vec<Vec<u8>> {
    let elsewhere = match folder.file_name().and_then(|name| name.to_str()) {
        Some("har") => vec![home.join("../crates/http/pages")],
        Some("plan") => std::fs::read_dir(home.join("../studies"))
            .into_iter()
            .flatten()
            .filter_map(|entry| Some(entry.ok()?.path()))
            .collect(),
        _ => Vec::new(),
    };
    let mut files: Vec<PathBuf> = std::iter::once(folder.to_path_buf())
        .chain(elsewhere)
        .filter_map(|folder| std::fs::read_dir(folder).ok())
        .flatten()
        .filter_map(|entry| Some(entry.ok()?.path()))
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    files.iter().map(|file| std::fs::read(file).expect("a file to read")).collect()
}
