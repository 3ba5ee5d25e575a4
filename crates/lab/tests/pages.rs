//! Tests that the documentation pages list every key, field and rule of plans and results, and no others.

use anabranch_lab::plan::causes;
use anabranch_lab::plan::harmful::RULES;
use anabranch_lab::plan::keys::{Group, KEYS};
use anabranch_lab::plan::{Draft, Plan, expect};
use anabranch_results::SCHEMA;
use anabranch_transports::Transports;
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page(name: &str) -> String {
    let path = root().join("docs/guide").join(name);
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// Returns the quoted words in the first two columns of the tables below a heading, up to the next heading of the same
/// or a higher rank.
fn rows(page: &str, heading: &str) -> BTreeSet<String> {
    let rank = heading.split(' ').next().unwrap_or_default();
    let (_, section) =
        page.split_once(&format!("\n{heading}\n")).unwrap_or_else(|| panic!("no heading '{heading}'"));
    let section =
        section.lines().take_while(|line| !line.starts_with('#') || line.split(' ').next() > Some(rank));
    let mut found = BTreeSet::new();
    for line in section.filter(|line| line.starts_with("| `")) {
        let columns: Vec<&str> = line.split('|').collect();
        // The last column is prose, so it is skipped.
        for column in &columns[1..columns.len() - 2] {
            found.extend(column.split('`').skip(1).step_by(2).map(str::to_owned));
        }
    }
    found
}

#[test]
fn each_key_of_a_plan_is_in_the_page() {
    let page = page("plan.md");
    for group in [Group::Network, Group::Handover, Group::Workload, Group::Contestants, Group::Runs] {
        let keys: BTreeSet<String> =
            KEYS.iter().filter(|key| key.group == group).map(|key| key.name.to_owned()).collect();
        let heading = format!("## {}", group.heading());
        assert_eq!(rows(&page, &heading), keys, "docs/guide/plan.md, {heading}");
    }
    let fields: BTreeSet<String> = expect::FIELDS.iter().map(|field| (*field).to_owned()).collect();
    assert_eq!(rows(&page, "## `[[expect]]`"), fields);
    let fields: BTreeSet<String> = causes::FIELDS.iter().map(|field| (*field).to_owned()).collect();
    assert_eq!(rows(&page, "## `[[cause]]`"), fields);
    for rule in RULES {
        assert!(
            page.contains(&format!("\n| {} |", rule.about)),
            "docs/guide/plan.md has no rule '{}'",
            rule.about
        );
    }
}

#[test]
fn each_flag_of_the_network_is_in_the_page_about_races() {
    let page = page("race.md");
    for row in anabranch_link::ROWS {
        assert!(page.contains(&format!("`--{}", row.key)), "docs/guide/race.md: --{}", row.key);
    }
}

/// Each TOML block in the documentation pages `plan.md` and `race.md` must be a valid plan.
#[test]
fn plans_in_the_pages_are_plans() {
    let mut count = 0;
    for name in ["plan.md", "race.md"] {
        let page = page(name);
        for block in page.split("```toml\n").skip(1) {
            // Paths in the pages are relative to the root of the repository, so they are made absolute.
            let examples = format!("\"{}/examples/", root().display());
            let text = block.split("```").next().unwrap_or_default().replace("\"examples/", &examples);
            let plan = Draft::from_toml(name, &text)
                .and_then(|draft| Plan::interpret(draft, &Transports::standard()));
            assert!(plan.is_ok(), "{text}: {plan:?}");
            count += 1;
        }
    }
    assert!(count >= 3, "the pages have lost their plans: {count}");
}

/// Adds the fields of an object in the schema to `found`, with nested fields. Each field has its path, as in `a.b`.
fn fields(schema: &Value, path: &str, found: &mut BTreeSet<String>) {
    for (name, field) in schema["properties"].as_object().into_iter().flatten() {
        let path = format!("{path}{name}");
        fields(field, &format!("{path}."), found);
        fields(&field["items"], &format!("{path}."), found);
        found.insert(path);
    }
}

fn references(schema: &Value, found: &mut BTreeSet<String>) {
    match schema {
        Value::Object(fields) => {
            for (name, value) in fields {
                match (name.as_str(), value) {
                    ("$ref", Value::String(target)) => drop(found.insert(target.clone())),
                    _ => references(value, found),
                }
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

#[test]
fn each_field_of_a_result_is_in_the_page() {
    let file = format!("{}.json", SCHEMA.trim_start_matches("anabranch.").replace('/', "-"));
    let text = std::fs::read_to_string(root().join("crates/results/schema").join(&file)).expect("the schema");
    let schema: Value = serde_json::from_str(&text).expect("JSON");
    let page = page("results.md");
    assert!(
        page.contains(&format!("\n## {SCHEMA}\n")) && page.contains(&file),
        "docs/guide/results.md: {SCHEMA}"
    );
    let of = |name: &str, schema: &Value| {
        let mut expected = BTreeSet::new();
        fields(schema, "", &mut expected);
        assert_eq!(rows(&page, &format!("### {name}")), expected, "docs/guide/results.md, {name}");
    };
    of("race", &schema);
    let definitions = schema["$defs"].as_object().expect("definitions");
    assert!(definitions.len() > 8, "the schema has lost its definitions");
    for (name, definition) in definitions {
        of(name, definition);
    }
    let mut targets = BTreeSet::new();
    references(&schema, &mut targets);
    for target in targets {
        let name = target.trim_start_matches("#/$defs/");
        assert!(definitions.contains_key(name), "{file}: nothing is at {target}");
    }
}
