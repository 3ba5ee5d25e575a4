//! Checks that every term in the headings and legends of the output is in the glossary. The headings are those in
//! quoted output, in golden texts, and in tables of reports. The parts of a response time are checked too.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The pages that quote output of the program. Other pages quote benchmarks, or output of other programs.
const PAGES: &[&str] =
    &["README.md", "docs/guide", "docs/how-to", "docs/tutorial.md", "docs/population.md", "docs/today.md"];
/// The folders with golden texts (expected output), each with the extension of the files.
const GOLDEN: &[(&str, &str)] = &[
    ("crates/cli/tests", "rs"),
    ("crates/lab/tests", "rs"),
    ("crates/report/src", "rs"),
    ("crates/report/src", "txt"),
];
/// The folders with the source code that writes HTML tables.
const TABLES: &[&str] = &["crates/report/src", "crates/papers/src"];
/// Headings that are values and not terms of the glossary: contestants, and kinds of access.
const VALUES: &[&str] = &["http1", "http2", "http3", "sctp-dtls", "all", "fixed", "mobile"];
/// Headings that are plain words and need no entry in the glossary.
const PLAIN: &[&str] = &[
    "begin",
    "bytes",
    "end",
    "in all",
    "longest",
    "measured or assumed",
    "name",
    "other",
    "packets",
    "people",
    "property",
    "setting",
    "size",
    "source, or reason",
    "status",
    "until",
    "value",
    "what",
    "winner",
    "with",
];
/// The units that may follow a heading.
const UNITS: &[&str] = &[", ms", " ms", ", s", " s", ":"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the files with this extension at or below a path.
fn files(path: &Path, extension: &str, found: &mut Vec<PathBuf>) {
    if path.is_dir() {
        for entry in fs::read_dir(path).expect("a folder") {
            files(&entry.expect("an entry").path(), extension, found);
        }
    } else if path.extension().is_some_and(|own| own == extension) {
        found.push(path.to_owned());
    }
}

fn texts(paths: &[&str], extension: &str) -> Vec<(String, String)> {
    let mut found = Vec::new();
    for path in paths {
        files(&root().join(path), extension, &mut found);
    }
    found.sort();
    let shown = |file: &PathBuf| file.strip_prefix(root()).expect("below").display().to_string();
    found.iter().map(|file| (shown(file), fs::read_to_string(file).expect("a text"))).collect()
}

/// Returns the terms of the glossary, in small letters. An entry such as `- **limit, x limit (`l`)**: ..` has three.
fn terms(glossary: &str) -> BTreeSet<String> {
    let entries = glossary.lines().filter_map(|line| {
        let line = line.strip_prefix("- ")?;
        match line.strip_prefix("**") {
            Some(line) => line.split_once("**:"),
            None => line.strip_prefix('`')?.split_once("`:"),
        }
    });
    let separators = [", ", " (", ")"];
    let mut found = BTreeSet::new();
    for (entry, _) in entries {
        let mut entry = entry.to_lowercase().replace('`', "");
        for separator in separators {
            entry = entry.replace(separator, "\n");
        }
        found.extend(entry.lines().filter(|term| !term.is_empty()).map(str::to_owned));
    }
    found
}

fn is_figure(word: &str) -> bool {
    let word = word.trim_start_matches(['x', '>', '<', '=', '~', '?', '(', '-']);
    word.starts_with(|letter: char| letter.is_ascii_digit())
}

/// Returns the fields of a line of a text table. At least two spaces separate two fields.
fn fields(line: &str) -> Vec<&str> {
    line.split("  ").map(str::trim).filter(|field| !field.is_empty()).collect()
}

/// Returns the headings of the text tables in a text, each with the number of its line. A line of headings has at least
/// three fields without digits, and the next line has at least two numbers.
fn headings(text: &str, terms: &BTreeSet<String>) -> Vec<(usize, String)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, pair) in lines.windows(2).enumerate() {
        let heads = fields(pair[0]);
        let is_head = |head: &&str| {
            let last = head.split(' ').next_back().unwrap_or_default();
            terms.contains(*head) || !is_figure(head) && !is_figure(last)
        };
        let is_code = pair[0].trim_start().starts_with(['/', '"', '|']) || pair[0].contains([';', '\\']);
        let is_row = heads.iter().any(|head| ["yes", "no"].contains(head));
        let figures = pair[1].split_whitespace().filter(|word| is_figure(word)).count();
        if heads.len() >= 3 && !is_code && !is_row && figures >= 2 && heads.iter().all(is_head) {
            let names: Vec<&str> =
                lines[at + 1..].iter().map_while(|row| row.split_whitespace().next()).collect();
            let is_name = |head: &str| head.contains('=') || VALUES.contains(&head) || names.contains(&head);
            found.extend(
                heads.iter().filter(|head| !is_name(head)).map(|head| (at + 1, without_name(head, &names))),
            );
        }
    }
    found
}

/// Returns a heading without the name of a contestant at its end: `ratio to` of `ratio to http1`.
fn without_name(head: &str, names: &[&str]) -> String {
    let names = names.iter().chain(VALUES).chain(&["the first", "fastest"]);
    let short = names.filter_map(|name| head.strip_suffix("'s").unwrap_or(head).strip_suffix(name)).next();
    short
        .map(|short| short.trim_end_matches([' ', '/']))
        .filter(|short| !short.is_empty())
        .unwrap_or(head)
        .to_owned()
}

/// Returns the headings of HTML tables in a source file, up to its tests.
fn cells(source: &str) -> Vec<String> {
    let code = source.split("#[cfg(test)]").next().unwrap_or(source);
    // Joins string literals that continue on the next line.
    let mut joined = String::new();
    for line in code.lines() {
        match line.strip_suffix('\\') {
            Some(line) => joined += &format!("{} ", line.trim().trim_start_matches('"')),
            None => joined += &format!("{}\n", line.trim()),
        }
    }
    let cells = joined.split("<th").skip(1).filter_map(|rest| rest.split_once('>')?.1.split_once("</th>"));
    cells
        .map(|(cell, _)| cell.split_whitespace().collect::<Vec<_>>().join(" "))
        .map(|cell| cell.split_once(": ").map_or(cell.clone(), |(term, _)| term.to_owned()))
        .filter(|cell| !cell.is_empty() && !cell.contains(['{', '<', '"', '&']))
        .collect()
}

/// Returns the labels of the parts of a response time: the second text of each entry of `PARTS`.
fn parts(source: &str) -> Vec<String> {
    let table = source.split("const PARTS").nth(1).and_then(|rest| rest.split("];").next()).expect("PARTS");
    let labels = table.split('(').skip(1).filter_map(|entry| entry.split('"').nth(3));
    labels.map(|label| label.rsplit(": ").next().unwrap_or(label).to_owned()).collect()
}

/// Returns whether the glossary has a heading, without its unit, or all parts of it between commas.
fn is_known(head: &str, terms: &BTreeSet<String>) -> bool {
    let head = head.to_lowercase();
    let is_term = |head: &str| {
        let bare = UNITS.iter().find_map(|unit| head.strip_suffix(unit)).unwrap_or(head);
        [head, bare].iter().any(|head| PLAIN.contains(head) || terms.contains(*head))
    };
    is_term(&head) || head.split(", ").all(|part| is_term(part.strip_prefix("by ").unwrap_or(part)))
}

#[test]
fn terms_of_headings_are_in_the_glossary() {
    let terms = terms(&fs::read_to_string(root().join("docs/guide/glossary.md")).expect("the glossary"));
    let (mut wrong, mut count) = (BTreeSet::new(), 0);
    let mut check = |place: String, head: &str| {
        count += 1;
        if !is_known(head, &terms) {
            wrong.insert(format!("{place}: {head}"));
        }
    };
    for (page, text) in texts(PAGES, "md") {
        // Splitting at the code fences puts the blocks at the odd indices. A block of output has no language after its
        // fence.
        for block in text.split("\n```").skip(1).step_by(2).filter(|block| block.starts_with('\n')) {
            headings(block, &terms).iter().for_each(|(_, head)| check(page.clone(), head));
        }
    }
    for (file, text) in GOLDEN.iter().flat_map(|(folder, extension)| texts(&[folder], extension)) {
        headings(&text, &terms).iter().for_each(|(line, head)| check(format!("{file}:{line}"), head));
    }
    for (file, source) in texts(TABLES, "rs") {
        cells(&source).iter().for_each(|head| check(file.clone(), head));
        if file.ends_with("report/src/parts.rs") {
            parts(&source).iter().for_each(|part| check(file.clone(), part));
        }
    }
    assert!(count > 100, "headings were not found: {count}");
    let wrong: Vec<String> = wrong.into_iter().collect();
    assert!(wrong.is_empty(), "not in docs/guide/glossary.md:\n{}", wrong.join("\n"));
}

#[test]
fn an_added_heading_is_found() {
    let terms = terms("- **p95, p99**: ..\n- **ratio to**: ..\n- **delay (`delay`)**: ..\n- `wire`: ..\n");
    assert_eq!(terms.len(), 5);
    let text = "delay, ms   p95   added  ratio to tcp\ntcp  1  2  3\nsctp  2  2.5  x0.4\n";
    let unknown: Vec<_> =
        headings(text, &terms).into_iter().filter(|(_, head)| !is_known(head, &terms)).collect();
    assert_eq!(unknown, [(1, "added".to_owned())]);
    assert_eq!(
        cells("\"<th>one</th><th \\\n  class=x>two \\\n   words</th><th>{}</th>\""),
        ["one", "two words"]
    );
    assert_eq!(parts("const PARTS: [P; 1] = [(\"a\", \"send: turn\", \"m\")];"), ["turn"]);
}
