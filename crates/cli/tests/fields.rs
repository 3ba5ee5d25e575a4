//! Tests that the JSON output of commands has exactly the fields that are documented in `docs/guide/results.md`.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch, errors, run};
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::Path;

/// Returns the JSON fields that `docs/guide/results.md` documents below the heading `format`.
fn documented_fields(format: &str) -> BTreeSet<String> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/results.md");
    let page = fs::read_to_string(path).expect("docs/guide/results.md");
    let (_, section) =
        page.split_once(&format!("\n## {format}\n")).unwrap_or_else(|| panic!("no heading {format}"));
    let lines = section.lines().take_while(|line| !line.starts_with("## "));
    // The first column names one field or several.
    let names = lines.filter(|line| line.starts_with("| `")).filter_map(|line| line.split('|').nth(1));
    names.flat_map(|column| column.split('`').skip(1).step_by(2)).map(str::to_owned).collect()
}

/// Compares a value with the documented fields. A field that is documented without subfields may have any subfields.
fn compare(value: &Value, path: &str, documented: &BTreeSet<String>, met: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (name, value) in fields {
                let path = if path.is_empty() { name.clone() } else { format!("{path}.{name}") };
                assert!(documented.contains(&path), "docs/guide/results.md tells nothing of {path}");
                if documented.iter().any(|other| other.starts_with(&format!("{path}."))) {
                    compare(value, &path, documented, met);
                }
                met.insert(path);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| compare(item, path, documented, met)),
        _ => {}
    }
}

#[test]
fn every_field_of_load_bulk_and_get_is_documented() {
    let site = Scratch::new("fields");
    site.file("site/index.html", "<img src=a.png><img src=http://elsewhere.example/b.png>");
    site.file("site/a.png", vec![1; 4000]);
    let root = format!("{}/site", site.text());
    let server = Running::start(&["serve", &root, "-q", "--listen", "sctp://127.0.0.1:0"]);
    // The server has two addresses, so that the result has several paths.
    let other = Running::start(&["bulk", "--listen", "sctp://127.0.0.1,127.0.0.2:0"]);
    let (url, bulk_url) = (server.url("http+sctp").to_owned(), other.url("sctp").to_owned());
    for (format, arguments) in [
        ("anabranch.load/1", vec!["load", &url, "-c", "2", "--duration", "1200ms"]),
        ("anabranch.bulk/1", vec!["bulk", &bulk_url, "--both", "--for", "300ms", "--interval", "100ms"]),
        ("anabranch.get/1", vec!["get", "--page", &url]),
    ] {
        let output = run(anabranch().args(&arguments).args(["--json", "-"]));
        let text = String::from_utf8_lossy(&output.stdout);
        let document: Value =
            serde_json::from_str(&text).unwrap_or_else(|_| panic!("{arguments:?}: {}", errors(&output)));
        assert_eq!(document["schema"], format);
        let (documented, mut met) = (documented_fields(format), BTreeSet::new());
        compare(&document, "", &documented, &mut met);
        let missing: Vec<&String> = documented.difference(&met).collect();
        assert!(missing.is_empty(), "{format} has no {missing:?}");
    }
}
