//! What the pages of `docs/` promise is shown by tests that exist.
//!
//! A promise is an item of a list in `docs/security.md`. It ends with the tests that show it, as
//! `path/of/file.rs::name_of_the_test`.

use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// The items of a page's lists, each as one line, with the line it begins on.
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

/// The tests that a text names: file and function.
fn tests_named(text: &str) -> Vec<(&str, &str)> {
    text.split('`')
        .filter_map(|word| word.split_once("::"))
        .filter(|(file, _)| file.ends_with(".rs"))
        .collect()
}

/// Whether a file has a function of this name with `#[test]` above it.
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
            let found = fs::read_to_string(root().join(file)).is_ok_and(|source| is_test(&source, name));
            if !found {
                wrong.push(format!("docs/security.md:{line}: there is no test {name} in {file}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
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
