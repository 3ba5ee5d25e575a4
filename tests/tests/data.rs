//! Tests that `docs/data.md` lists every committed data file once, and that every listed file exists.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The endings of the paths of code and prose, which are not data files.
const CODE: [&str; 13] =
    [".rs", ".md", ".sh", ".c", ".cc", ".go", "/go.mod", "/go.sum", ".tcl", ".css", ".js", ".lock", ".cff"];
/// Further files with code or prose and files that configure builds, given by the end or the beginning of their paths.
const NAMED: [&str; 12] = [
    "Cargo.toml",
    "clippy.toml",
    "rustfmt.toml",
    ".gitignore",
    ".ci/",
    "lab-page/",
    ".github/",
    "LICENSE-APACHE",
    "LICENSE-MIT",
    "Containerfile",
    ".dockerignore",
    "interop/peers/guest/",
];

fn is_data(file: &str) -> bool {
    let code = CODE.iter().any(|ending| file.ends_with(ending));
    let named = NAMED.iter().any(|name| file.ends_with(name) || name.contains('/') && file.starts_with(name));
    !code && !named
}

/// Returns whether a pattern matches a file. `*` stands for any name, and `**` for everything below a folder.
fn is_of(file: &str, files: &str) -> bool {
    if let Some(folder) = files.strip_suffix("**") {
        return file.starts_with(folder);
    }
    let (mut names, mut patterns) = (file.split('/'), files.split('/'));
    loop {
        match (names.next(), patterns.next()) {
            (None, None) => return true,
            (Some(name), Some(pattern)) => match pattern.split_once('*') {
                Some((begin, end)) if name.starts_with(begin) && name.ends_with(end) => {}
                None if name == pattern => {}
                _ => return false,
            },
            _ => return false,
        }
    }
}

/// Returns the first cell of each row of the page's tables.
fn rows(page: &str) -> Vec<&str> {
    let first = page.lines().filter_map(|line| line.strip_prefix("| `")?.split(" | ").next());
    first.flat_map(|cell| cell.trim_end_matches('`').split("`, `")).collect()
}

#[test]
fn every_file_of_data_has_its_source_and_licence() {
    let listed = Command::new("git").arg("-C").arg(root()).args(["ls-files", "-z"]).output();
    let Some(listed) = listed.ok().filter(|listed| listed.status.success()) else {
        eprintln!("no git, or no clone: what is committed is not known");
        return;
    };
    let listed = String::from_utf8(listed.stdout).expect("names in UTF-8");
    let data: Vec<&str> = listed.split_terminator('\0').filter(|file| is_data(file)).collect();
    let page = fs::read_to_string(root().join("docs/data.md")).expect("docs/data.md");
    let rows = rows(&page);
    assert!(data.len() > 100 && rows.len() > 30, "{} files, {} rows", data.len(), rows.len());
    let mut wrong: Vec<String> = Vec::new();
    for file in &data {
        let of = rows.iter().filter(|row| is_of(file, row)).count();
        if of != 1 {
            wrong.push(format!("{file}: in {of} rows of docs/data.md"));
        }
    }
    wrong.extend(
        rows.iter()
            .filter(|row| !data.iter().any(|file| is_of(file, row)))
            .map(|row| format!("docs/data.md: {row}: no such file")),
    );
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn a_pattern_is_of_its_own_folder_alone() {
    assert!(is_of("studies/a/claims.csv", "studies/*/claims.csv"));
    assert!(!is_of("studies/a/b/claims.csv", "studies/*/claims.csv") && !is_of("studies/a", "studies/*/*"));
    assert!(is_of("fuzz/corpus/ip/udp", "fuzz/corpus/**") && !is_of("fuzz/corp", "fuzz/corpus/**"));
    assert!(is_data("studies/a/b.csv") && is_data("fuzz/corpus/ip/udp") && is_data("x/rules/a.toml"));
    assert!(!is_data("crates/a/Cargo.toml") && !is_data("docs/data.md") && !is_data("a/b.tcl"));
    assert_eq!(rows("| files |\n| `a`, `b/*` | what `c` |\n"), ["a", "b/*"]);
}
