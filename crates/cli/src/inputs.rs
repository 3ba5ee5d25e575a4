//! The input files of a race, with their SHA-256 digests. A report lists these files as the sources of its numbers.

use anabranch_report::Input;
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::fmt::Write;
use std::path::Path;

/// The plan keys whose values may be file names.
const KEYS: [&str; 4] = ["page", "trace", "down-trace", "up-trace"];

/// Returns the files that `plan` names and the file of the plan itself, if there is one. Files that do not exist are
/// left out.
pub fn of(plan: &Value) -> Vec<Input> {
    let mut names: Vec<String> = crate::arguments().filter(|argument| argument.ends_with(".toml")).collect();
    named(plan, false, &mut names);
    let mut found: Vec<Input> = Vec::new();
    for name in names {
        if found.iter().all(|input| input.name != name)
            && Path::new(&name).is_file()
            && let Ok(content) = std::fs::read(&name)
        {
            let mut sha256 = String::new();
            for byte in Sha256::digest(&content) {
                let _ = write!(sha256, "{byte:02x}");
            }
            found.push(Input { name, bytes: content.len() as u64, sha256 });
        }
    }
    found
}

/// Collects all strings in `value` that are the value of a key in [`KEYS`].
fn named(value: &Value, names_files: bool, names: &mut Vec<String>) {
    match value {
        Value::String(text) if names_files => names.push(text.clone()),
        Value::Array(values) => values.iter().for_each(|value| named(value, names_files, names)),
        Value::Object(map) => {
            map.iter().for_each(|(key, value)| named(value, KEYS.contains(&key.as_str()), names));
        }
        _ => {}
    }
}
