//! Checks the table of the RFCs' rules: it is complete, and the files and tests that it names exist.

use anabranch_conformance::Rules;
use anabranch_conformance::rules::{Level, REASONS, Rule, table};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn all() -> Vec<(&'static str, Rules)> {
    Rules::known().unwrap_or_else(|why| panic!("{why}"))
}

/// Returns all rules, each with the name of its file.
fn every() -> impl Iterator<Item = (&'static str, Rule)> {
    all().into_iter().flat_map(|(file, rules)| rules.rule.into_iter().map(move |rule| (file, rule)))
}

/// A cache of file contents.
#[derive(Default)]
struct Files(BTreeMap<String, Option<String>>);

impl Files {
    fn text(&mut self, path: &str) -> Option<&str> {
        let read = || std::fs::read_to_string(root().join(path)).ok();
        self.0.entry(path.to_owned()).or_insert_with(read).as_deref()
    }
}

#[test]
fn no_sentence_is_left_out() {
    let gaps: Vec<String> = all()
        .into_iter()
        .flat_map(|(file, rules)| rules.gaps().into_iter().map(move |gap| format!("{file}: {gap}")))
        .collect();
    assert!(gaps.is_empty(), "{}", gaps.join("\n"));
}

#[test]
fn every_file_of_rules_is_printed() {
    let listed: BTreeSet<String> = all().into_iter().map(|(file, _)| file.to_owned()).collect();
    let there: BTreeSet<String> = std::fs::read_dir(root().join("conformance/rules"))
        .expect("the folder")
        .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
        .collect();
    assert_eq!(listed, there);
}

#[test]
fn every_rule_has_its_own_name_and_a_test_or_a_reason() {
    let mut seen = BTreeSet::new();
    let mut wrong = Vec::new();
    for (file, rule) in every() {
        let mut say = |what: &str| wrong.push(format!("{file}: {}: {what}", rule.id));
        if !seen.insert(rule.id.clone()) {
            say("comes twice");
        }
        let plain = rule.parts().is_ok_and(|(_, _, number)| number.parse::<usize>().is_err());
        if plain != (rule.level == Level::Plain) {
            say("plain rules, and only these, have a letter for a number");
        }
        if rule.says.is_empty() || rule.says.contains(['\n', '|']) {
            say("it is to be one line");
        }
        match (&rule.none, rule.test.is_empty()) {
            (None, true) => say("has neither a test nor a reason"),
            (Some(_), false) => say("has a test, and a reason for having none"),
            (Some(why), true)
                if !REASONS.iter().any(|kind| why.starts_with(kind) && why.len() > kind.len() + 8) =>
            {
                say("its reason begins with none of the known ones, or ends there");
            }
            _ => {}
        }
        let applies =
            rule.none.as_ref().is_none_or(|why| !why.starts_with(REASONS[0]) && !why.starts_with("not done"));
        if applies && rule.home.is_empty() {
            say("which file obeys it?");
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Each file in `home` must cite the section of the rule, a subsection of that section, or the section that contains
/// it.
#[test]
fn every_home_cites_its_section() {
    let mut files = Files::default();
    let mut wrong = Vec::new();
    for (file, rule) in every() {
        let (rfc, section, _) = rule.parts().unwrap_or_else(|why| panic!("{why}"));
        let above = section.rsplit_once('.').map_or(section, |(above, _)| above);
        for home in &rule.home {
            let Some(text) = files.text(home) else {
                wrong.push(format!("{file}: {}: there is no {home}", rule.id));
                continue;
            };
            if !text.contains(&format!("RFC {rfc}")) || !(cites(text, section) || cites(text, above)) {
                wrong.push(format!("{file}: {}: {home} cites no RFC {rfc} §{section}", rule.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether the text cites this section or a subsection of it. A citation of §5.10 does not count as one of §5.1.
fn cites(text: &str, section: &str) -> bool {
    let sign = format!("§{section}");
    text.match_indices(&sign)
        .any(|(at, _)| !text[at + sign.len()..].starts_with(|next: char| next.is_ascii_digit()))
}

#[test]
fn every_test_is_there() {
    let mut files = Files::default();
    let mut wrong = Vec::new();
    for (file, rule) in every() {
        for test in &rule.test {
            let found = test.split_once("::").and_then(|(path, name)| Some((files.text(path)?, path, name)));
            let there = found.is_some_and(|(text, path, name)| {
                if path.ends_with(".suite") {
                    return text.lines().any(|line| line.starts_with(&format!("== {name}:")));
                }
                let function = format!("fn {name}() {{");
                let before = text.find(&function).map_or("", |at| &text[..at]);
                // The attribute `#[test]` must be within the four lines before the function.
                before.lines().rev().take(4).any(|line| line.trim() == "#[test]")
            });
            if !there {
                wrong.push(format!("{file}: {}: there is no test {test}", rule.id));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn the_table_has_a_row_for_each_and_shows_what_is_missing() {
    let rules = Rules::read(
        "rfc = 9260\ntitle = '§1'\nsentences = { '1' = 2 }\n\
         [[rule]]\nid = '9260 §1-1'\nlevel = 'MUST'\nsays = 'one'\nhome = 'a.rs'\ntest = ['a.rs::x', 'b.rs::y']\n\
         [[rule]]\nid = '9260 §1-2'\nlevel = 'SHOULD NOT'\nsays = 'two'\nnone = 'does not apply: it is an example'\n",
    )
    .expect("a table");
    assert_eq!(rules.gaps(), Vec::<String>::new());
    let all = [("", rules.clone())];
    let row = "| 9260 §1-1 | MUST | one | `a.rs` | `a.rs::x`, `b.rs::y` |\n";
    assert!(table(&all, false).contains(row), "{}", table(&all, false));
    assert!(!table(&all, true).contains(row));
    assert!(
        table(&all, true)
            .contains("| 9260 §1-2 | SHOULD NOT | two |  | none: does not apply: it is an example |\n")
    );
    assert!(table(&all, true).ends_with("All: 2 rules: 1 with a test, 1 does not apply; 0 deviations\n"));
    let less = Rules { rule: rules.rule[1..].to_vec(), ..rules };
    assert_eq!(less.gaps(), ["9260 §1-2: number 1 was to come", "§1: 1 rules for 2 sentences"]);
}
