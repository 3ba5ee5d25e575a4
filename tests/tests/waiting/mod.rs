//! Checks that tests wait for conditions, do not sleep for a guessed time, and do not read the clock (CONTRIBUTING.md,
//! "Tests").
//!
//! Tests in virtual time may sleep, because a sleep in a simulated world takes no real time.

use super::{crates, root, rust_files};
use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

/// The label of a source line that puts the current thread or task to sleep.
const SLEEP: &str = "sleep";
/// The label of a source line that reads the machine's clock.
const CLOCK: &str = "clock";
/// The label of a source line that sleeps in a `World` of the operating system, and thus in real time.
const REAL_WORLD: &str = "sleep in the real world";
/// The label of a source line that sets the pace of a peer that is deliberately slow.
const PACE: &str = "pace";

/// The permitted exceptions: file, label of the lines, number of lines and reason.
const EXCEPTIONS: &[(&str, &str, usize, &str)] = &[
    ("crates/cli/tests/wait.rs", SLEEP, 1, "the sleep of `pace`, for all tests of the command"),
    ("crates/cli/tests/wait.rs", PACE, 1, "between two looks at a condition"),
    (
        "crates/cli/tests/peer/mod.rs",
        REAL_WORLD,
        1,
        "the sleep of `pace`, in a world of the operating system",
    ),
    ("crates/cli/tests/peer/mod.rs", PACE, 2, "between two looks at a condition, while the world goes on"),
    (
        "crates/cli/tests/amplification.rs",
        PACE,
        1,
        "servers repeat what they sent to a stranger by timers of seconds, and nothing says that no more will come",
    ),
    (
        "crates/cli/tests/gateway_limits.rs",
        PACE,
        1,
        "an upload that moves so slowly that its exchange counts as stalled",
    ),
    ("crates/cli/tests/hostile.rs", PACE, 1, "a request of which a byte comes now and then"),
    (
        "crates/cli/tests/session_slots.rs",
        PACE,
        2,
        "downloads that move slowly, and new ones that come all the time",
    ),
    ("crates/cli/tests/stalled.rs", PACE, 1, "a download that moves slowly, and is never stalled"),
    (
        "crates/cli/tests/stalled.rs",
        CLOCK,
        1,
        "the promise is one of the clock: how long a newcomer waits for a session of a stalled client; the second ring",
    ),
    (
        "crates/cli/tests/running/peer.rs",
        CLOCK,
        1,
        "an engine that meets a program needs the time that the program has",
    ),
    (
        "crates/cli/tests/gateway_passes.rs",
        PACE,
        1,
        "an origin that answers after its client has half-closed",
    ),
    (
        "crates/cli/tests/slot_attacks.rs",
        PACE,
        2,
        "an attacker that sends for a while, and clients that ask now and then meanwhile",
    ),
    (
        "crates/cli/tests/overdue.rs",
        CLOCK,
        1,
        "the promise is one of the clock: a stuck program ends within its grace and a second; the second ring",
    ),
    (
        "crates/tcp/tests/kernel/mod.rs",
        SLEEP,
        1,
        "the sleep of `pace`: the timers of a kernel take real time; the second ring",
    ),
    (
        "crates/tcp/tests/kernel/mod.rs",
        PACE,
        4,
        "waits that an exchange names, and between two looks at a capture; the second ring",
    ),
    ("crates/tokio/tests/wait.rs", SLEEP, 1, "the sleep of `pace`, for all tests of the crate"),
    ("crates/tokio/tests/wait.rs", PACE, 1, "between two looks at a condition"),
    ("crates/tokio/tests/cancel.rs", PACE, 1, "a reader that is slower than its writer"),
    (
        "crates/tokio/tests/swarm/storm.rs",
        PACE,
        1,
        "a storm makes a dropped call anew after a time that its seed draws",
    ),
    (
        "crates/dtls/src/records/tests/harness.rs",
        CLOCK,
        1,
        "the library under test counts its virtual time from some instant of std",
    ),
    (
        "crates/quic/src/watch.rs",
        CLOCK,
        2,
        "quinn takes instants of std; a test counts from the first one it has",
    ),
    (
        "crates/quic/src/window.rs",
        CLOCK,
        1,
        "quinn takes instants of std; a test counts from the first one it has",
    ),
];

#[test]
fn tests_wait_for_conditions_and_not_for_time() {
    let mut found = BTreeMap::new();
    for (name, text) in test_sources() {
        let is_real = text.contains("OsWorld") || name.starts_with("crates/cli/");
        for line in text.lines() {
            for what in waits(line, is_real) {
                found.entry((name.clone(), what)).or_insert_with(Vec::new).push(line.trim().to_owned());
            }
        }
    }
    let mut wrong = Vec::new();
    for &(file, what, count, why) in EXCEPTIONS {
        assert!(why.len() > 20, "{file}: a reason");
        let lines = found.remove(&(file.to_owned(), what)).unwrap_or_default();
        if lines.len() != count {
            wrong.push(format!("{file}: {what}: {count} expected, there are {}: {lines:#?}", lines.len()));
        }
    }
    wrong.extend(found.iter().map(|((file, what), lines)| format!("{file}: {what}: {lines:#?}")));
    assert!(
        wrong.is_empty(),
        "wait for a condition instead (`wait_until`, `soon`), or change the exceptions of {}:\n{}",
        file!(),
        wrong.join("\n")
    );
}

/// Returns the test code of a workspace: whole files of tests, and the module `tests` at the end of other files.
fn test_sources() -> Vec<(String, String)> {
    let root = root();
    let mut folders: Vec<_> = crates().into_values().collect();
    folders.extend(["tests", "conformance", "interop"].map(|name| root.join(name)));
    let mut sources = Vec::new();
    for folder in folders {
        for file in ["src", "tests"].iter().flat_map(|part| rust_files(&folder.join(part))) {
            let text = fs::read_to_string(&file).expect("a source file");
            let name = file.strip_prefix(&root).expect("in it").to_string_lossy().into_owned();
            if name.ends_with("tests/waiting/mod.rs") {
                continue;
            }
            if is_test(Path::new(&name)) {
                sources.push((name, text));
            } else if let Some((_, tests)) = text.split_once("\n#[cfg(test)]\nmod tests {") {
                sources.push((name, tests.to_owned()));
            }
        }
    }
    assert!(sources.len() > 300, "only {} files have tests", sources.len());
    sources
}

fn is_test(file: &Path) -> bool {
    let is_folder = |name: &str| matches!(name, "tests" | "testing");
    let inside = file.iter().skip(1).any(|part| part.to_str().is_some_and(is_folder));
    inside || matches!(file.file_name().and_then(|name| name.to_str()), Some("tests.rs" | "testing.rs"))
}

/// Returns the labels that apply to a line of a test. Without a label, the line neither waits nor reads the real clock.
fn waits(line: &str, is_real: bool) -> Vec<&'static str> {
    let code = line.split("//").next().unwrap_or_default();
    let calls = |name: &str, by_a_value: bool| {
        let mut called = code.match_indices(name).filter(|(at, _)| !code[..*at].ends_with("fn "));
        called.any(|(at, _)| match code[..at].chars().next_back() {
            Some('.') => by_a_value,
            Some(before) => !by_a_value && !before.is_alphanumeric() && before != '_',
            None => !by_a_value,
        })
    };
    let mut found = Vec::new();
    if calls("sleep(", false) || calls("sleep_until(", false) {
        found.push(SLEEP);
    }
    if code.contains("Instant::now") || code.contains("SystemTime::now") {
        found.push(CLOCK);
    }
    if is_real && (calls("sleep_until(", true) || calls("sleep(", true)) {
        found.push(REAL_WORLD);
    }
    if calls("pace(", false) {
        found.push(PACE);
    }
    found
}

#[test]
fn waits_are_seen() {
    for (line, is_real, expected) in [
        ("    std::thread::sleep(Duration::from_secs(1));", false, &[SLEEP][..]),
        ("    sleep(Duration::from_secs(1)).await;", false, &[SLEEP]),
        ("    tokio::time::sleep_until(then).await;", false, &[SLEEP]),
        ("    let began = std::time::Instant::now();", false, &[CLOCK]),
        ("    static HERE: LazyLock<Instant> = LazyLock::new(Instant::now);", false, &[CLOCK]),
        ("    let today = SystemTime::now();", false, &[CLOCK]),
        ("    world.sleep_until(world.now() + second).await;", false, &[]),
        ("    world.sleep_until(world.now() + second).await;", true, &[REAL_WORLD]),
        ("    pace(Duration::from_millis(100));", false, &[PACE]),
        ("    busy_poll.about_to_sleep();", true, &[]),
        ("    // sleep(a while)", true, &[]),
        ("fn sleep(time: Duration) {", true, &[]),
        ("fn pause() { thread::sleep(SECOND); }", true, &[SLEEP]),
    ] {
        assert_eq!(waits(line, is_real), expected, "{line}");
    }
}
