//! Checks that the parts of the laboratory's page fit together: script, HTML, requests to the WebAssembly program and the
//! policy that the command `lab` sends. Where the page was built, also checks the types of the script.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect(path)
}

/// Returns the names and texts of the scripts.
fn scripts() -> Vec<(String, String)> {
    let entries = fs::read_dir(root().join("lab-page/src")).expect("lab-page/src");
    let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
    let scripts = names.filter(|name| name.ends_with(".ts"));
    scripts.map(|name| (name.clone(), read(&format!("lab-page/src/{name}")))).collect()
}

/// Returns what stands between `begin` and the next quote, for each occurrence of `begin`.
fn quoted<'t>(text: &'t str, begin: &str) -> BTreeSet<&'t str> {
    text.split(begin).skip(1).filter_map(|rest| rest.split('\'').next()).collect()
}

#[test]
fn every_element_that_the_script_uses_is_in_the_page() {
    let html = read("lab-page/src/page.html");
    let mut checked = 0;
    for (name, text) in scripts() {
        let plain = quoted(&text, "at('");
        let typed = text.split("at<").skip(1).filter_map(|rest| rest.split_once(">('")?.1.split('\'').next());
        for id in plain.into_iter().chain(typed) {
            assert!(html.contains(&format!("id=\"{id}\"")), "{name}: the page has no element '{id}'");
            checked += 1;
        }
    }
    assert!(checked > 20, "only {checked} elements are used");
}

#[test]
fn every_request_of_the_script_is_one_of_the_program() {
    let protocol = read("crates/web/src/protocol.rs");
    let enumeration = protocol.split("pub enum Request {").nth(1).and_then(|rest| rest.split("\n}").next());
    let known: BTreeSet<String> = enumeration
        .expect("the requests")
        .lines()
        .filter_map(|line| line.strip_prefix("    ")?.split([',', ' ']).next())
        .filter(|word| word.starts_with(char::is_uppercase))
        .map(str::to_lowercase)
        .collect();
    let mut used = BTreeSet::new();
    for (_, text) in scripts() {
        used.extend(quoted(&text, "do: '").into_iter().map(str::to_owned));
        let literal = text.split("\"do\":\"").skip(1).filter_map(|rest| rest.split('"').next());
        used.extend(literal.map(str::to_owned));
    }
    assert_eq!(used, known);
}

#[test]
fn the_server_and_the_page_have_one_policy() {
    let server = read("crates/cli/src/lab.rs");
    let html = read("lab-page/src/page.html");
    let own =
        html.split("Content-Security-Policy\" content=\"").nth(1).and_then(|rest| rest.split('"').next());
    for part in own.expect("the policy of the page").split("; ") {
        assert!(server.contains(part), "the server does not send '{part}'");
    }
}

#[test]
fn the_types_of_the_script_are_right() {
    let page = root().join("lab-page");
    let compiler = page.join("node_modules/.bin/tsc");
    if !compiler.exists() {
        eprintln!("skipped: lab-page/build.sh has not installed the compiler of TypeScript");
        return;
    }
    let output = Command::new(compiler).arg("--noEmit").current_dir(page).output().expect("tsc runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stdout));
}
