//! Checks whether the JSON text of a race conforms to the published schema.

use anabranch_results::{Race, json};
use serde_json::Value;

pub const SCHEMA: &str = include_str!("../../schema/race-3.json");

/// Checks `value` against `schema`. Supports only the part of JSON Schema that the published schema uses.
fn check(schema: &Value, value: &Value, root: &Value, at: &str) -> Result<(), String> {
    let Some(rules) = schema.as_object() else { return Err(format!("{at}: a schema that is no object")) };
    for (rule, expected) in rules {
        let wrong = |what: &str| Err(format!("{at}: {what} (schema {expected}, value {value:.60})"));
        match rule.as_str() {
            "$schema" | "$id" | "$defs" | "title" | "description" => {}
            "$ref" => {
                let name = expected
                    .as_str()
                    .and_then(|text| text.strip_prefix("#/$defs/"))
                    .expect("a local reference");
                let target = &root["$defs"][name];
                assert!(target.is_object(), "{at}: no definition '{name}'");
                check(target, value, root, at)?;
            }
            "anyOf" => {
                let any = expected.as_array().expect("a list");
                if !any.iter().any(|one| check(one, value, root, at).is_ok()) {
                    return wrong("fits none");
                }
            }
            "const" if value != expected => return wrong("another constant"),
            "enum" if !expected.as_array().expect("a list").contains(value) => return wrong("not listed"),
            "type" => {
                let kind = match value {
                    Value::Null => "null",
                    Value::Bool(_) => "boolean",
                    Value::Number(n) if n.is_u64() || n.is_i64() => "integer",
                    Value::Number(_) => "number",
                    Value::String(_) => "string",
                    Value::Array(_) => "array",
                    Value::Object(_) => "object",
                };
                let fits = |name: &Value| name == kind || (name == "number" && kind == "integer");
                let listed = expected.as_array().map_or(fits(expected), |list| list.iter().any(fits));
                if !listed {
                    return wrong("of another type");
                }
            }
            "minimum" => {
                if value.as_f64().is_some_and(|v| v < expected.as_f64().expect("a number")) {
                    return wrong("too small");
                }
            }
            "required" => {
                for key in expected.as_array().expect("a list") {
                    if value.is_object() && value.get(key.as_str().expect("a name")).is_none() {
                        return wrong(&format!("{key} is missing"));
                    }
                }
            }
            "properties" => {
                for (key, schema) in expected.as_object().expect("an object") {
                    if let Some(value) = value.get(key) {
                        check(schema, value, root, &format!("{at}.{key}"))?;
                    }
                }
            }
            "additionalProperties" => {
                for (key, value) in value.as_object().into_iter().flatten() {
                    let known =
                        rules.get("properties").is_some_and(|properties| properties.get(key).is_some());
                    match expected {
                        Value::Bool(true) => {}
                        Value::Bool(false) if known => {}
                        Value::Bool(false) => return wrong(&format!("'{key}' is not in the schema")),
                        schema if !known => check(schema, value, root, &format!("{at}.{key}"))?,
                        _ => {}
                    }
                }
            }
            "items" => {
                for (i, item) in value.as_array().into_iter().flatten().enumerate() {
                    check(expected, item, root, &format!("{at}[{i}]"))?;
                }
            }
            "minItems" | "maxItems" => {
                let (length, bound) =
                    (value.as_array().map(Vec::len), expected.as_u64().expect("a number") as usize);
                if length.is_some_and(|n| if rule == "minItems" { n < bound } else { n > bound }) {
                    return wrong("of another length");
                }
            }
            "const" | "enum" => {}
            other => panic!("{at}: rule '{other}' is not understood by this test"),
        }
    }
    Ok(())
}

/// Checks that the JSON text of a race conforms to the published schema.
pub fn conforms(text: &str) {
    let schema: Value = serde_json::from_str(SCHEMA).expect("the schema is JSON");
    let value: Value = serde_json::from_str(text).expect("the result is JSON");
    check(&schema, &value, &schema, "race").unwrap_or_else(|e| panic!("{e}"));
    let read_back = Race::from_json(text).expect("it is read back");
    assert_eq!(json::render(&read_back), text, "and written as it was");
}
