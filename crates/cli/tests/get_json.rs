//! Tests `get --json`. The result of each object must be recorded exactly, including failed objects, and nothing else
//! may be written to the same destination.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch, errors, noise, run};
use serde_json::Value;
use std::fs;
use std::net::TcpListener;

fn site(scratch: &Scratch) -> Running {
    scratch.file("site/index.html", "<img src=one.png><img src=gone.png>");
    scratch.file("site/one.png", noise(100_000));
    scratch.file("site/two.png", "picture");
    let root = format!("{}/site", scratch.text());
    let listen = ["--listen", "tcp://127.0.0.1:0", "--listen", "sctp://127.0.0.1:0"];
    Running::start(&[&["serve", &root, "-q"], &listen[..]].concat())
}

/// Checks that the times of the objects are in order, and returns the objects.
fn objects(document: &Value) -> Vec<Value> {
    assert_eq!(document["schema"], "anabranch.get/1");
    let objects = document["objects"].as_array().expect("objects").clone();
    for object in &objects {
        let times = ["issued_ns", "assigned_ns", "first_byte_ns", "delivered_ns"];
        let times: Vec<u64> = times.iter().filter_map(|name| object[name].as_u64()).collect();
        assert!(times.is_sorted(), "{object}");
        let succeeded = object["error"].is_null();
        assert_eq!(object["delivered_ns"].is_u64(), succeeded, "{object}");
        assert!(object["issued_ns"].is_u64(), "{object}");
    }
    let failed = objects.iter().filter(|object| !object["error"].is_null()).count();
    let bytes: u64 = objects.iter().filter_map(|object| object["bytes"].as_u64()).sum();
    let totals = &document["totals"];
    assert_eq!(
        (totals["objects"].as_u64(), totals["failed"].as_u64()),
        (Some(objects.len() as u64), Some(failed as u64))
    );
    assert_eq!(totals["bytes"].as_u64(), Some(bytes));
    assert!(totals["duration_ns"].is_u64());
    objects
}

#[test]
fn the_json_lists_the_result_of_each_url() {
    let scratch = Scratch::new("get-json");
    let server = site(&scratch);
    for (scheme, transport) in [("http", "tcp"), ("http+sctp", "sctp")] {
        let urls = ["one.png", "gone.png", "two.png"].map(|name| format!("{}{name}", server.url(scheme)));
        let (out, json) = (scratch.0.join(scheme), scratch.0.join(scheme).join("account.json"));
        let out = format!("{}/", out.display());
        let got = run(anabranch().args(["get", "-q", "-o", &out, "--json"]).arg(&json).args(&urls));
        assert_eq!(got.status.code(), Some(1), "{}", errors(&got));
        assert!(got.stdout.is_empty() && errors(&got).lines().count() == 1, "{}", errors(&got));
        let document: Value = serde_json::from_slice(&fs::read(&json).expect("written")).expect("JSON");
        let objects = objects(&document);
        let right =
            [(200, 100_000, Value::Null), (404, 0, "/gone.png: status 404".into()), (200, 7, Value::Null)];
        assert_eq!(objects.len(), right.len());
        for ((object, url), (status, bytes, error)) in objects.iter().zip(&urls).zip(right) {
            assert_eq!(
                (object["url"].as_str(), object["transport"].as_str()),
                (Some(&**url), Some(transport))
            );
            assert_eq!(object["status"], status, "{object}");
            if status == 200 {
                assert_eq!(object["bytes"], bytes, "{object}");
            }
            assert_eq!(object["error"], error, "{object}");
            assert_eq!(object["connection"], objects[0]["connection"], "{object}");
            assert!(object["connection"].is_u64() && object["first_byte_ns"].is_u64(), "{object}");
        }
        let streams: Vec<_> = objects.iter().filter_map(|object| object["stream"].as_u64()).collect();
        assert_eq!(streams, if scheme == "http" { [0, 0, 0] } else { [0, 1, 2] });
        assert_eq!(document["settings"].as_object().map(|set| set.is_empty()), Some(scheme == "http"));
    }
}

#[test]
fn a_page_is_told_and_what_is_drawn_makes_way() {
    let scratch = Scratch::new("get-json-page");
    let server = site(&scratch);
    for scheme in ["http", "http+sctp"] {
        let got = run(anabranch().args(["get", "--page", server.url(scheme), "--json", "-"]));
        let drawn = errors(&got);
        assert_eq!(got.status.code(), Some(1), "{drawn}");
        assert!(drawn.contains("3 objects, "), "{drawn}");
        let document: Value = serde_json::from_slice(&got.stdout).expect("JSON, and nothing else");
        let objects = objects(&document);
        let errors_of_objects: Vec<_> = objects
            .iter()
            .map(|object| {
                (
                    object["url"].as_str().expect("a URL"),
                    object["status"].as_u64(),
                    object["initiator"].as_u64(),
                )
            })
            .collect();
        let url = |name: &str| format!("{}{name}", server.url(scheme));
        assert_eq!(
            errors_of_objects,
            [
                (&*url(""), Some(200), None),
                (&url("one.png"), Some(200), Some(0)),
                (&url("gone.png"), Some(404), Some(0))
            ]
        );
        assert_eq!(objects[2]["error"], "status 404");
        assert_eq!(document["left_out"]["count"], 0);
    }
}

/// The CSV must have the same values as the JSON, in one row for each object.
#[test]
fn rows_tell_what_the_json_tells() {
    let scratch = Scratch::new("get-csv");
    let server = site(&scratch);
    let url = |name: &str| format!("{}{name}", server.url("http+sctp"));
    let (json, csv) = (scratch.0.join("account.json"), scratch.0.join("account.csv"));
    let out = format!("{}/out/", scratch.text());
    let mut command = anabranch();
    command.args(["get", "-q", "-o", &out, "--json"]).arg(&json).arg("--csv").arg(&csv);
    let got = run(command.args([url("one.png"), url("no,such\"thing")]));
    assert_eq!(got.status.code(), Some(1), "{}", errors(&got));
    let document: Value = serde_json::from_slice(&fs::read(&json).expect("written")).expect("JSON");
    let objects = objects(&document);
    let rows = fs::read_to_string(&csv).expect("written");
    let rows: Vec<&str> = rows.lines().collect();
    assert_eq!(rows.len(), 3, "{rows:?}");
    let whole = &objects[0];
    let right = format!(
        "{},sctp,,200,100000,{},0,{},{},{},{},",
        url("one.png"),
        whole["connection"],
        whole["issued_ns"],
        whole["assigned_ns"],
        whole["first_byte_ns"],
        whole["delivered_ns"]
    );
    assert_eq!(rows[1], right);
    let name = format!("\"{}\",sctp,,404,", url("no,such\"\"thing"));
    assert!(
        rows[2].starts_with(&name) && rows[2].ends_with(",\"/no,such%22thing: status 404\""),
        "{}",
        rows[2]
    );
    assert_eq!(rows[0].split(',').count(), rows[1].split(',').count());
}

/// If no server answers, the result must still list each object.
#[test]
fn what_is_not_reached_is_told_of_each() {
    let scratch = Scratch::new("get-json-none");
    let free = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("an address");
    for server in
        [format!("http://{free}/"), format!("http+sctp://{free}/"), "http://nosuch.invalid/".to_owned()]
    {
        let json = scratch.0.join("account.json");
        for page in [&["--page"][..], &[]] {
            let urls = [format!("{server}a"), format!("{server}b")];
            let urls = if page.is_empty() { &urls[..] } else { &urls[..1] };
            let got = run(anabranch()
                .args(["get", "-q", "--timeout", "20s", "-o"])
                .arg(format!("{}/out/", scratch.text()))
                .args(page)
                .arg("--json")
                .arg(&json)
                .args(urls));
            assert_eq!(got.status.code(), Some(1), "{}", errors(&got));
            let document: Value = serde_json::from_slice(&fs::read(&json).expect("written")).expect("JSON");
            let objects = objects(&document);
            assert_eq!(objects.len(), urls.len(), "{document}");
            for object in &objects {
                assert!(object["error"].is_string() && object["status"].is_null(), "{object}");
            }
            fs::remove_file(&json).expect("it is there");
        }
    }
}

#[test]
fn conflicting_json_destinations_are_refused() {
    let scratch = Scratch::new("get-json-place");
    let server = site(&scratch);
    let url = server.url("http");
    for arguments in [
        &["--json", "-"][..],
        &["--json", ""],
        &["--json", "x", "-o", "x"],
        &["--page", "--json", "-", "--har", "-"],
        &["--page", "--json", "x", "--har", "./x"],
    ] {
        let got = run(anabranch().current_dir(&scratch.0).args(["get", "-q", url]).args(arguments));
        let stderr = errors(&got);
        assert_eq!(got.status.code(), Some(2), "{arguments:?}: {stderr}");
        assert!(stderr.lines().count() == 1 && stderr.contains("--json"), "{arguments:?}: {stderr}");
        assert!(got.stdout.is_empty() && !scratch.0.join("x").exists(), "{arguments:?}");
    }
    // If objects are saved to files, standard output must contain only the JSON.
    let got =
        run(anabranch().current_dir(&scratch.0).args(["get", "-q", url, "-o", "got.html", "--json", "-"]));
    assert_eq!(got.status.code(), Some(0), "{}", errors(&got));
    let document: Value = serde_json::from_slice(&got.stdout).expect("JSON, and nothing else");
    assert_eq!(objects(&document).len(), 1);
}
