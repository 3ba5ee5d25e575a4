//! Tests keys that both ends share (`--key-file`, RFC 4895): which files are accepted, what happens if the two ends
//! have different keys, and that no output reveals the keys.

#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch, errors, run};
use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::process::Output;

const SECRET: &str = "00112233445566778899aabbccddeeff";
/// `SECRET` in base64.
const SECRET_BASE64: &str = "base64:ABEiM0RVZneImaq7zN3u/w==";
const OTHER: &str = "ffeeddccbbaa99887766554433221100";

fn keys(scratch: &Scratch, name: &str, mode: u32, text: &str) -> String {
    let path = scratch.file(name, text);
    fs::set_permissions(&path, Permissions::from_mode(mode)).expect("ours");
    path.to_str().expect("UTF-8").to_owned()
}

fn dry(verb: &str, file: &str, set: &str) -> Output {
    run(anabranch().args(verb.split(' ')).args(["--set", set, "--key-file", file, "--dry-run"]))
}

const VERBS: [&str; 6] = [
    "serve .",
    "get http+sctp://127.0.0.1/",
    "load http+sctp://127.0.0.1/ -c 1",
    "bulk sctp://127.0.0.1:5201",
    "bulk --listen sctp://127.0.0.1:5201",
    "gateway --allow *",
];

/// Every command must accept a key file. The output of `--dry-run` must contain the name of the file, and nothing of
/// its content.
#[test]
fn every_verb_takes_a_key_file_and_tells_nothing_of_it() {
    let scratch = Scratch::new("key-verbs");
    let file = keys(&scratch, "keys", 0o600, &format!("# ours\n\n1 {OTHER}\n2 {SECRET}\n"));
    for verb in VERBS {
        let output = dry(verb, &file, "auth=yes,asconf=yes");
        let (out, err) = (String::from_utf8_lossy(&output.stdout).into_owned(), errors(&output));
        assert_eq!(output.status.code(), Some(0), "{verb}: {err}");
        assert!(err.is_empty(), "{verb}: {err}");
        assert!(out.contains(&format!("key-file: {file}\n")), "{verb}: {out}");
        assert!(!out.contains(&SECRET[..8]) && !out.contains(&OTHER[..8]), "{verb}: {out}");
    }
}

/// RFC 5061 §8: without shared keys, a setting that permits address changes must cause one warning. In all other cases
/// there must be no warning.
#[test]
fn changing_addresses_without_keys_is_warned_of() {
    for verb in VERBS {
        for (set, lines) in [("auth=yes,asconf=yes", 1), ("auth=yes", 0), ("rcvbuf=1MiB", 0)] {
            let output = run(anabranch().args(verb.split(' ')).args(["--set", set, "--dry-run"]));
            let err = errors(&output);
            assert_eq!(output.status.code(), Some(0), "{verb}: {err}");
            assert_eq!(err.lines().count(), lines, "{verb}, {set}: {err}");
            assert!(lines == 0 || err.contains("warning: asconf=yes without --key-file"), "{err}");
        }
    }
}

/// An error in a file must be reported in one line that names the file and reveals no secret, with exit code 2.
#[test]
fn invalid_key_files_are_refused_in_one_line() {
    let scratch = Scratch::new("key-bad");
    let long = format!("1 {}", "ab".repeat(70_000));
    let many: String = (0..300).map(|id| format!("{id} {SECRET}\n")).collect();
    let two = format!("1 {SECRET}\n1 {OTHER}\n");
    let both = format!("1 {SECRET} active\n2 {OTHER} active\n");
    for (text, says) in [
        ("", "no key"),
        ("# nothing\n\n", "no key"),
        ("1\n", "line 1"),
        ("one 00112233445566778899aabbccddeeff\n", "line 1"),
        ("65536 00112233445566778899aabbccddeeff\n", "line 1"),
        ("-1 00112233445566778899aabbccddeeff\n", "line 1"),
        ("\n1 5ecde7\n2 5ecde75ecde7zz\n", "line 3"),
        ("1 5ec\n", "line 1"),
        ("1 base64:5ecre7*=\n", "line 1"),
        ("1 base64:5ecr=e\n", "line 1"),
        ("1 hex:\n", "line 1"),
        ("1 base64:\n", "line 1"),
        ("1 00112233445566778899aabbccddeeff last\n", "line 1"),
        ("1 00112233445566778899aabbccddeeff active 2\n", "line 1"),
        (&two, "line 2"),
        (&both, "line 2"),
        (&long, "line 1"),
        (&many, "256"),
    ] {
        let file = keys(&scratch, "keys", 0o600, text);
        let output = dry("serve .", &file, "auth=yes");
        let err = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{text:.40}: {err}");
        assert_eq!(err.lines().count(), 1, "{text:.40}: {err}");
        assert!(err.contains("--key-file") && err.contains(says), "{text:.40}: {err}");
        assert!(!err.contains("5ec") && !err.contains("0011"), "{text:.40}: {err}");
    }
    for (mode, taken) in
        [(0o600, true), (0o400, true), (0o640, true), (0o644, false), (0o660, false), (0o604, false)]
    {
        let file = keys(&scratch, "keys", mode, &format!("1 {SECRET}\n"));
        let output = dry("serve .", &file, "auth=yes");
        let err = errors(&output);
        assert_eq!(output.status.code(), Some(if taken { 0 } else { 2 }), "{mode:o}: {err}");
        assert!(taken || err.lines().count() == 1 && err.contains("chmod 600"), "{mode:o}: {err}");
    }
    let file = keys(&scratch, "keys", 0o600, &format!("1 {SECRET}\n"));
    for (file, set, says) in [
        ("/nosuch/keys", "auth=yes", "No such file"),
        ("/tmp", "auth=yes", "directory"),
        (&*file, "rcvbuf=1MiB", "auth=yes"),
    ] {
        let output = dry("serve .", file, set);
        let err = errors(&output);
        assert_eq!(output.status.code(), Some(2), "{err}");
        assert!(err.lines().count() == 1 && err.contains(says), "{err}");
    }
    // A short key is accepted with a warning.
    let file = keys(&scratch, "keys", 0o600, "1 abcd\n");
    let output = dry("serve .", &file, "auth=yes");
    assert_eq!(output.status.code(), Some(0));
    assert!(errors(&output).contains("key 1 has less than 16 bytes"), "{}", errors(&output));
}

/// Fetches a file from a server that requires every possible chunk to be signed. The file must arrive if both ends have
/// the same key, in any form, even while one key replaces another. With a different key or no key, nothing may arrive.
#[test]
fn clients_without_the_shared_key_get_nothing() {
    let scratch = Scratch::new("key-get");
    scratch.file("site/page", "here it is\n");
    let file = |name: &str, text: &str| keys(&scratch, name, 0o600, text);
    let served = file("served", &format!("1 {SECRET}\n2 {OTHER}\n"));
    let site = scratch.0.join("site");
    let site = site.to_str().expect("UTF-8");
    let all = "auth=yes,auth_chunks=all";
    let words =
        ["serve", site, "--quiet", "--listen", "sctp://127.0.0.1:0", "--set", all, "--key-file", &served];
    let server = Running::start(&words);
    let url = format!("{}page", server.url("http+sctp"));
    let get = |keys: Option<String>| {
        let mut command = anabranch();
        command.args(["get", &url, "--quiet", "--timeout", "2s", "--set", all]);
        if let Some(keys) = keys {
            command.args(["--key-file", &keys]);
        }
        run(&mut command)
    };
    for (name, text, comes) in [
        ("same", format!("2 {OTHER}\n1 {SECRET}\n"), true),
        ("base64", format!("2 {OTHER}\n1 {SECRET_BASE64}\n"), true),
        ("marked", format!("1 hex:{SECRET} active\n2 {OTHER}\n"), true),
        // This client does not have key 2. The server signs its chunks with key 2, the last key of its key file.
        ("older", format!("1 {SECRET}\n"), false),
        ("other", format!("1 {OTHER}\n2 {SECRET}\n"), false),
        ("unknown", format!("3 {SECRET}\n"), false),
    ] {
        let output = get(Some(file(name, &text)));
        let is_received = output.stdout == b"here it is\n";
        assert_eq!(
            (is_received, output.status.code()),
            (comes, Some(i32::from(!comes))),
            "{name}: {}",
            errors(&output)
        );
        assert!(!errors(&output).contains(&SECRET[..8]), "{name}");
    }
    let output = get(None);
    assert!(output.stdout.is_empty() && output.status.code() == Some(1), "{}", errors(&output));
    assert_eq!(server.end(), 0);
}

/// By default, only address changes are signed. Two ends with different keys must therefore exchange data, but reject
/// address changes.
#[test]
fn other_keys_do_not_end_what_is_not_signed() {
    let scratch = Scratch::new("key-others");
    scratch.file("site/page", "here it is\n");
    let site = scratch.0.join("site");
    let served = keys(&scratch, "served", 0o600, &format!("1 {SECRET}\n"));
    let other = keys(&scratch, "other", 0o600, &format!("1 {OTHER}\n"));
    let on = "auth=yes,asconf=yes";
    let site = site.to_str().expect("UTF-8");
    let arguments =
        ["serve", site, "--quiet", "--listen", "sctp://127.0.0.1:0", "--set", on, "--key-file", &served];
    let server = Running::start(&arguments);
    let url = format!("{}page", server.url("http+sctp"));
    for arguments in [&["--set", on, "--key-file", &*other][..], &["--set", on], &[]] {
        let output = run(anabranch().args(["get", &url, "--quiet", "--timeout", "5s"]).args(arguments));
        assert_eq!(output.stdout, b"here it is\n", "{arguments:?}: {}", errors(&output));
        assert_eq!(output.status.code(), Some(0), "{arguments:?}: {}", errors(&output));
    }
    assert_eq!(server.end(), 0);
}
