//! Tests that result files have exactly the fields of the published schema.

mod conforms;

use anabranch_results::{Race, json};
use conforms::{SCHEMA, conforms};
use serde_json::Value;

/// Adds to `found` those properties of `schema` that none of `values` has.
fn find_absent(schema: &Value, values: &[&Value], root: &Value, at: &str, found: &mut Vec<String>) {
    if let Some(name) = schema["$ref"].as_str().and_then(|text| text.strip_prefix("#/$defs/")) {
        find_absent(&root["$defs"][name], values, root, at, found);
    }
    for one in schema["anyOf"].as_array().into_iter().flatten() {
        find_absent(one, values, root, at, found);
    }
    if let Some(schema) = schema.get("items") {
        let inner: Vec<&Value> = values.iter().filter_map(|value| value.as_array()).flatten().collect();
        find_absent(schema, &inner, root, &format!("{at}[]"), found);
    }
    for (key, schema) in schema["properties"].as_object().into_iter().flatten() {
        let at = format!("{at}.{key}");
        let inner: Vec<&Value> = values.iter().filter_map(|value| value.get(key)).collect();
        if inner.is_empty() {
            found.push(at);
        } else {
            find_absent(schema, &inner, root, &at, found);
        }
    }
}

/// Returns those properties of the published schema that the JSON text of a race does not have.
fn absent(text: &str) -> Vec<String> {
    let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    let value: Value = serde_json::from_str(text).expect("the result is JSON");
    let mut found = Vec::new();
    find_absent(&schema, &[&value], &schema, "race", &mut found);
    found
}

#[test]
fn a_full_result_conforms() {
    let text = include_str!("../data/race-full.json");
    let race = Race::from_json(text).expect("a result");
    let rendered = json::render(&race);
    conforms(&rendered);
    assert_eq!(
        absent(&rendered),
        [""; 0],
        "properties of the schema that tests/data/race-full.json does not have"
    );
}

/// A result in the older format must have the same content after it is read, and must conform to the newer schema.
#[test]
fn a_result_of_the_older_version_is_read() {
    let race = Race::from_json(include_str!("../data/race-2.json")).expect("a result");
    conforms(&json::render(&race));
    let point = &race.points[0];
    assert_eq!(
        (point.contestants[0].name.as_str(), point.contestants[0].summary.object_ms.p75),
        ("tcp", Some(1.5))
    );
    let experiment = point.comparisons[0].experiment.as_ref().expect("experiments");
    assert_eq!(experiment.adverse_causes[0].alternatives, ["rto_min=200ms"]);
    assert!(experiment.factors[0].marginal_effect.is_some());
}

#[test]
fn another_schema_is_refused_in_one_line() {
    for (text, needle) in [
        ("{", "not JSON"),
        ("{\"schema\": \"other/1\"}", "other/1"),
        ("{}", "no schema"),
        ("{\"schema\": \"anabranch.race/1\"}", "of an older version"),
        ("{\"schema\": \"anabranch.race/2\"}", "missing field"),
        ("{\"schema\": \"anabranch.race/3\"}", "missing field"),
    ] {
        let error = Race::from_json(text).expect_err(text);
        assert!(error.contains(needle) && !error.contains('\n'), "{error}");
    }
}
