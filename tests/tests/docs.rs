//! Checks the documentation: each promise must name existing tests, quotations must be found in their files, and links
//! must lead to existing files.
//!
//! A promise is an item of a list in `docs/security.md`. The item ends with the tests that show it, as
//! `path/of/file.rs::name_of_the_test`. A quotation is a block of Rust below `<!-- from path/of/file.rs -->`.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Returns the items of a page's lists, each with the number of the page's line on which the item begins. The lines of
/// an item are joined.
fn items(page: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let mut within = false;
    for (number, line) in page.lines().enumerate() {
        match line.strip_prefix("- ") {
            Some(first) => {
                found.push((number + 1, first.to_owned()));
                within = true;
            }
            None if within && line.starts_with("  ") => {
                let last = &mut found.last_mut().expect("an item has begun").1;
                last.push(' ');
                last.push_str(line.trim());
            }
            None => within = false,
        }
    }
    found
}

/// Returns the tests that a text names, each as file and function.
fn tests_named(text: &str) -> Vec<(&str, &str)> {
    text.split('`')
        .filter_map(|word| word.split_once("::"))
        .filter(|(file, _)| file.ends_with(".rs"))
        .collect()
}

/// Returns whether a source file has a function of this name with `#[test]` above it.
fn is_test(source: &str, name: &str) -> bool {
    source.match_indices(&format!("fn {name}(")).any(|(at, _)| {
        source[..at]
            .trim_end()
            .lines()
            .rev()
            .take_while(|line| !line.trim().is_empty() && !line.contains('}'))
            .any(|line| line.trim() == "#[test]")
    })
}

/// Returns whether this file of the repository contains a test of this name.
fn test_exists(file: &str, name: &str) -> bool {
    fs::read_to_string(root().join(file)).is_ok_and(|source| is_test(&source, name))
}

#[test]
fn each_promise_of_the_security_page_names_its_test() {
    let page = fs::read_to_string(root().join("docs/security.md")).expect("docs/security.md");
    let mut wrong = Vec::new();
    let items = items(&page);
    assert!(items.len() > 20, "the page has lost its items: {}", items.len());
    for (line, item) in items {
        let named = tests_named(&item);
        if named.is_empty() {
            wrong.push(format!("docs/security.md:{line}: names no test: {item}"));
        }
        for (file, name) in named {
            if !test_exists(file, name) {
                wrong.push(format!("docs/security.md:{line}: there is no test {name} in {file}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_page_of_period_hosts_names_tests_that_exist() {
    let page = fs::read_to_string(root().join("docs/period-hosts.md")).expect("docs/period-hosts.md");
    let named = tests_named(&page);
    assert!(named.len() > 40, "the page has lost its tests: {}", named.len());
    let wrong: Vec<_> = named.into_iter().filter(|(file, name)| !test_exists(file, name)).collect();
    assert!(wrong.is_empty(), "{wrong:?}");
}

/// Returns the paragraphs of a page, without headings, lists and tables. Each paragraph is joined into one line, and
/// comes with the number of its first line in the page.
fn prose(page: &str) -> Vec<(usize, String)> {
    let mut found: Vec<(usize, String)> = Vec::new();
    let (mut within, mut is_list) = (false, false);
    for (number, line) in page.lines().enumerate() {
        is_list = line.starts_with("- ") || is_list && line.starts_with("  ");
        if line.is_empty() || is_list || line.starts_with(['#', '|']) {
            within = false;
            continue;
        }
        match found.last_mut().filter(|_| within) {
            Some((_, text)) => {
                text.push(' ');
                text.push_str(line);
            }
            None => found.push((number + 1, line.to_owned())),
        }
        within = true;
    }
    found
}

/// Words that only promises about security contain, for example words about bounds.
const PROMISES: [&str; 6] = ["at most", "never", "cannot", "makes room", "is bounded", "is refused"];

/// Each promise of the security page must be a list item that names its tests. Checks that the prose between the lists
/// contains no promise.
#[test]
fn the_prose_of_the_security_page_promises_nothing() {
    let page = fs::read_to_string(root().join("docs/security.md")).expect("docs/security.md");
    let prose = prose(&page);
    assert!(prose.len() > 5, "the page has lost its prose: {}", prose.len());
    // The first paragraph of the page is skipped, because it is about the page itself.
    let promises = prose[1..].iter().filter(|(_, text)| {
        let text = text.to_lowercase();
        PROMISES.iter().any(|word| text.contains(word))
    });
    let promises: Vec<_> = promises.map(|(line, text)| format!("docs/security.md:{line}: {text}")).collect();
    assert!(promises.is_empty(), "write an item that names its tests:\n{}", promises.join("\n"));
}

/// Returns the documentation pages: README and the other pages at the root, and the pages of the folders below it.
fn pages() -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in
        ["", "docs", "docs/decisions", "docs/guide", "docs/how-to", "benches", "benches/physics", "interop"]
    {
        let entries = fs::read_dir(root().join(folder)).expect("a folder of pages");
        found.extend(entries.map(|entry| entry.expect("an entry").path()));
    }
    found.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    found.sort();
    found
}

/// Returns the Rust code blocks of a Markdown page. If a comment above a block names a file, the file's path comes with
/// the block.
fn quotations(page: &str) -> Vec<(Option<&str>, Vec<&str>)> {
    let mut found = Vec::new();
    let mut lines = page.lines();
    let mut previous = "";
    while let Some(line) = lines.next() {
        if line == "```rust" {
            let from = previous.strip_prefix("<!-- from ").and_then(|rest| rest.strip_suffix(" -->"));
            found.push((from, lines.by_ref().take_while(|line| *line != "```").collect()));
        }
        previous = line;
    }
    found
}

/// Returns the first quoted line that the file does not contain after the previous quoted lines. Other lines of the
/// file may be between quoted lines. Indentation is ignored.
fn missing<'a>(quoted: &[&'a str], source: &str) -> Option<&'a str> {
    let mut source = source.lines().map(str::trim);
    quoted.iter().map(|line| line.trim()).find(|line| !line.is_empty() && !source.any(|found| found == *line))
}

#[test]
fn quoted_example_code_matches_the_files() {
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        for (from, lines) in quotations(&text) {
            let from = from.unwrap_or_else(|| panic!("{}: no file is named above {lines:?}", page.display()));
            let source =
                fs::read_to_string(root().join(from)).unwrap_or_else(|error| panic!("{from}: {error}"));
            assert_eq!(
                missing(&lines, &source),
                None,
                "{}: not in {from}, or not in this order",
                page.display()
            );
            count += 1;
        }
    }
    assert!(count > 3, "the pages have lost their quotations");
}

#[test]
fn links_lead_to_files_that_exist() {
    let mut count = 0;
    for page in pages() {
        let text = fs::read_to_string(&page).expect("a page");
        // Links in code blocks are not checked.
        let prose: String = text.split("\n```").step_by(2).collect();
        for target in prose.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            if target.contains("://") || target.starts_with('#') {
                continue;
            }
            let file = page.parent().expect("a folder").join(target.split('#').next().unwrap_or(target));
            assert!(file.exists(), "{}: {target} does not exist", page.display());
            count += 1;
        }
    }
    assert!(count > 30, "the pages have lost their links: {count}");
}

/// The largest number of words in the pages of `docs/` that people write. The number may only decrease.
const MAX_WORDS: usize = 40_000;

/// Counts the words of a page that have a letter or a digit, with its quoted output. Leaves out the parts that a test
/// writes: `outcomes.md`, and the map in `papers.md`.
fn words(path: &Path) -> usize {
    let text = fs::read_to_string(path).expect("a page");
    let written = match path.file_name().and_then(|name| name.to_str()) {
        Some("outcomes.md") => "",
        Some("papers.md") => text.split("\n## Every table, figure and claim\n").next().unwrap_or_default(),
        _ => &text,
    };
    written.split_whitespace().filter(|word| word.contains(char::is_alphanumeric)).count()
}

#[test]
fn the_documentation_is_short_enough_to_be_read() {
    let mut all: Vec<(usize, PathBuf)> = pages()
        .into_iter()
        .filter(|path| path.starts_with(root().join("docs")))
        .map(|path| (words(&path), path))
        .collect();
    all.sort();
    let total: usize = all.iter().map(|(words, _)| words).sum();
    assert!(all.len() > 60, "the folders have lost their pages: {}", all.len());
    let longest: Vec<String> =
        all.iter().rev().take(10).map(|(words, path)| format!("{words} {}", path.display())).collect();
    assert!(
        total <= MAX_WORDS,
        "docs/ has {total} words, and may have {MAX_WORDS}; say nothing twice. The longest pages:\n{}",
        longest.join("\n")
    );
}

/// Returns the pairs of file and function that a page names. A pair is a path in backticks that ends in `.rs`, a space,
/// and the name of a function in backticks.
fn steps(page: &str) -> Vec<(&str, &str)> {
    let quoted: Vec<&str> = page.split('`').collect();
    let pairs = quoted.windows(3).filter(|three| three[0].ends_with(".rs") && three[1].trim().is_empty());
    pairs.map(|three| (three[0], three[2])).collect()
}

/// Checks that every function in the map (ARCHITECTURE.md) and in the walks (docs/walks.md) exists in the file that is
/// named with it.
#[test]
fn the_map_and_the_walks_name_functions_that_exist() {
    for name in ["ARCHITECTURE.md", "docs/walks.md"] {
        let page = fs::read_to_string(root().join(name)).expect(name);
        let steps = steps(&page);
        assert!(steps.len() > 30, "{name}: {} steps", steps.len());
        for (file, function) in steps {
            let path = root().join("crates").join(file);
            let source = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{name}: {file}: {error}"));
            let is_there = ["(", "<"].iter().any(|next| source.contains(&format!("fn {function}{next}")));
            assert!(is_there, "{name}: {file} has no `{function}`");
        }
    }
}

/// Returns the sentences of a page without its blocks of code. The items of lists are separate sentences.
fn sentences(page: &str) -> Vec<String> {
    let mut blocks: Vec<String> = Vec::new();
    for line in page.split("\n```").step_by(2).flat_map(|text| text.lines().chain([""])) {
        let is_item =
            line.starts_with("- ") || line.split_once(". ").is_some_and(|(n, _)| n.parse::<u8>().is_ok());
        match blocks.last_mut().filter(|_| !is_item && !line.is_empty()) {
            Some(block) => *block += &format!(" {}", line.trim()),
            None => blocks.push(line.to_owned()),
        }
    }
    blocks.iter().flat_map(|block| block.split(". ")).map(str::to_owned).collect()
}

/// Returns the Rust files that a sentence names, each with the identifiers that follow it. Files and names that contain
/// a placeholder (`NAME`) are left out.
fn references(sentence: &str) -> Vec<(&str, Vec<&str>)> {
    let mut found: Vec<(&str, Vec<&str>)> = Vec::new();
    let mut is_chosen = false;
    for word in sentence.split('`').skip(1).step_by(2) {
        let name = word.trim_end_matches(['!', '(', ')']).rsplit("::").next().unwrap_or(word);
        let is_name = name.starts_with(char::is_alphabetic)
            && name.chars().all(|char| char.is_ascii_alphanumeric() || char == '_');
        if word.ends_with(".rs") {
            is_chosen = word.contains("NAME");
            if !is_chosen {
                found.push((word, Vec::new()));
            }
        } else if let Some((_, names)) = found.last_mut().filter(|_| is_name && !is_chosen && name != "NAME")
        {
            names.push(name);
        }
    }
    found
}

/// Returns the file that a page names as `file`. Looks in the folder of crates, in the root, and beside `before`, the
/// file that the page named before.
fn find(file: &str, before: Option<&Path>) -> Option<PathBuf> {
    let sibling = before.and_then(Path::parent).map(Path::to_owned);
    [Some(root().join("crates")), Some(root()), sibling]
        .into_iter()
        .flatten()
        .map(|folder| folder.join(file))
        .find(|path| path.exists())
}

/// Every Rust file that CONTRIBUTING.md names must exist. Identifiers that follow the file in the same sentence must
/// occur in the file.
#[test]
fn the_lists_of_files_name_files_and_names_that_exist() {
    let page = fs::read_to_string(root().join("CONTRIBUTING.md")).expect("CONTRIBUTING.md");
    let sentences = sentences(&page);
    let (mut wrong, mut before, mut count) = (Vec::new(), None, 0);
    for (file, names) in sentences.iter().flat_map(|sentence| references(sentence)) {
        let Some(path) = find(file, before.as_deref()) else {
            wrong.push(format!("{file} does not exist"));
            continue;
        };
        let source = fs::read_to_string(&path).expect("a source file");
        let is_between = |char: char| !char.is_alphanumeric() && char != '_';
        let words: BTreeSet<&str> = source.split(is_between).collect();
        wrong.extend(
            names.iter().filter(|name| !words.contains(*name)).map(|name| format!("{file} has no {name}")),
        );
        (before, count) = (Some(path), count + names.len());
    }
    assert!(wrong.is_empty(), "CONTRIBUTING.md:\n{}", wrong.join("\n"));
    assert!(count > 60, "the page has lost its names: {count}");
}

#[test]
fn a_name_belongs_to_the_file_before_it() {
    let page = "1. `a/b.rs`, `f` (`G::h`, `i!`): in\n   `c.rs` the `j k`. The `x`.\n2. `NAME.rs`: `l`\n";
    let sentences = sentences(page);
    let found: Vec<_> = sentences.iter().flat_map(|sentence| references(sentence)).collect();
    assert_eq!(found, [("a/b.rs", vec!["f", "h", "i"]), ("c.rs", vec![])]);
}

#[test]
fn a_line_in_another_place_is_missing() {
    assert_eq!(missing(&["a", "  c"], "a\n b\n c\n"), None);
    assert_eq!(missing(&["c", "a"], "a\nb\nc\n"), Some("a"));
    let page = "<!-- from x.rs -->\n```rust\na\n```\n\n```rust\nb\n```\n";
    assert_eq!(quotations(page), [(Some("x.rs"), vec!["a"]), (None, vec!["b"])]);
}

#[test]
fn a_function_that_is_no_test_does_not_count() {
    assert!(is_test("#[test]\nfn a() {\n}\n", "a"));
    assert!(is_test("    #[test]\n    fn a() {\n    }\n", "a"));
    assert!(!is_test("#[test]\nfn b() {\n}\nfn a() {\n}\n", "a"));
    assert!(!is_test("#[test]\nfn ab() {\n}\n", "a"));
    assert_eq!(tests_named("so (`x/y.rs::z`, `no::path`)"), [("x/y.rs", "z")]);
    assert_eq!(items("- a\n  b\n\ntext\n  no\n- c\n"), [(1, "a b".to_owned()), (6, "c".to_owned())]);
}
