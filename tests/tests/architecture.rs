//! Checks those rules of ARCHITECTURE.md that can be checked automatically.
//!
//! The checked rules cover the imports between crates, the list of crates, what engines must not contain, and the
//! opening paragraph of every file. Sizes and names are left to reviewers.

mod waiting;

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::{Path, PathBuf};

/// The crates that must not use clocks, sockets, threads or tasks.
const PURE: &[&str] = &["base", "wire", "congestion", "link", "sctp", "tcp"];

/// The crates that must build on every system with Rust's standard library. Code for one system must be behind a `cfg`.
const PORTABLE: &[&str] = &[
    "base",
    "wire",
    "congestion",
    "link",
    "sctp",
    "tcp",
    "world",
    "sim",
    "transport",
    "tls",
    "quic",
    "dtls",
    "transports",
    "http",
    "gateway",
    "load",
    "results",
    "capture",
    "features",
    "report",
    "lab",
    "papers",
    "web",
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").canonicalize().expect("the workspace root")
}

fn crates() -> BTreeMap<String, PathBuf> {
    fs::read_dir(root().join("crates"))
        .expect("crates/")
        .map(|entry| entry.expect("an entry").path())
        .filter(|path| path.join("Cargo.toml").exists())
        .map(|path| (path.file_name().expect("a name").to_string_lossy().into_owned(), path))
        .collect()
}

fn rust_files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else { return found };
    for entry in entries {
        let path = entry.expect("an entry").path();
        if path.is_dir() && path.file_name().is_none_or(|name| name != "target") {
            found.extend(rust_files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found.sort();
    found
}

/// Returns the crates of this project that a manifest lists as dependencies, except those that only tests use.
fn imports(path: &Path) -> BTreeSet<String> {
    let manifest: toml::Table =
        fs::read_to_string(path.join("Cargo.toml")).expect("a manifest").parse().expect("valid TOML");
    let plain = manifest.get("dependencies").and_then(toml::Value::as_table);
    let targets = manifest.get("target").and_then(toml::Value::as_table);
    let of_targets = targets.into_iter().flat_map(|targets| targets.values());
    let tables = of_targets.filter_map(|target| target.get("dependencies")?.as_table()).chain(plain);
    let names = tables.flat_map(toml::Table::keys);
    names.filter_map(|name| name.strip_prefix("anabranch-")).map(str::to_owned).collect()
}

fn map() -> String {
    fs::read_to_string(root().join("ARCHITECTURE.md")).expect("ARCHITECTURE.md")
}

/// Returns the layer (floor) of each crate from the map in ARCHITECTURE.md. A line of `map` has the number of a floor,
/// its name, and its crates.
fn floors(map: &str) -> BTreeMap<&str, u32> {
    let mut floors = BTreeMap::new();
    for line in map.lines() {
        let mut words = line.split_whitespace();
        let Some(floor) = words.next().and_then(|word| word.parse().ok()) else { continue };
        floors.extend(words.skip(1).map(|name| (name, floor)));
    }
    floors
}

/// Returns the imports of each crate from the map in ARCHITECTURE.md. The entries of a line of `map` are separated by `
/// | `. The entry `a, b → c d` means that `a` and `b` each import `c` and `d`.
fn edges(map: &str) -> BTreeMap<String, BTreeSet<String>> {
    let mut edges = BTreeMap::new();
    for (from, to) in
        map.lines().flat_map(|line| line.split(" | ")).filter_map(|entry| entry.split_once(" → "))
    {
        let to: BTreeSet<String> = to.split_whitespace().map(str::to_owned).collect();
        edges.extend(from.split(", ").map(|name| (name.to_owned(), to.clone())));
    }
    edges
}

#[test]
fn the_map_lists_exactly_the_imports_of_each_crate() {
    let existing: BTreeMap<_, _> = crates().into_iter().map(|(name, path)| (name, imports(&path))).collect();
    let map = map();
    let mut listed = edges(&map);
    // The crate `base` imports no other crate, so the map has no entry `base → ..`.
    listed.insert("base".to_owned(), BTreeSet::new());
    for name in listed.keys().chain(existing.keys()) {
        assert_eq!(listed.get(name), existing.get(name), "{name}: the map, and its manifest");
    }
    let floors = floors(&map);
    for (name, edges) in listed {
        let floor = floors.get(&*name).unwrap_or_else(|| panic!("{name} has no floor"));
        assert!(edges.iter().all(|edge| floors[&**edge] < *floor), "{name} imports from its floor or above");
    }
}

#[test]
fn the_map_has_an_invariant_for_each_crate() {
    let map = map();
    let headings = map.lines().filter_map(|line| line.strip_prefix("### `crates/")?.strip_suffix('`'));
    let listed: BTreeSet<String> = headings.map(str::to_owned).collect();
    let existing: BTreeSet<String> = crates().into_keys().collect();
    assert_eq!(listed, existing);
    assert_eq!(map.matches("**Invariant:**").count(), existing.len());
}

#[test]
fn engines_contain_no_clock_socket_thread_or_task() {
    let banned = [
        "std::time::Instant",
        "SystemTime",
        "UdpSocket",
        "TcpStream",
        "std::thread",
        "async fn",
        "async move",
        "thread_local!",
        "RandomState",
    ];
    for name in PURE {
        for file in rust_files(&root().join("crates").join(name).join("src")) {
            let text = fs::read_to_string(&file).expect("a source file");
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                for word in banned {
                    assert!(!code.contains(word), "{}:{}: {word}", file.display(), number + 1);
                }
            }
        }
    }
}

/// Returns whether the module in `file`, or a module that contains it, is declared with a `cfg`.
fn is_conditional(source: &Path, file: &Path) -> bool {
    let relative = file.strip_prefix(source).expect("below its source").with_extension("");
    let mut parts: Vec<String> = relative.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    while let Some(name) = parts.pop() {
        let parent: PathBuf = parts.iter().collect();
        let parents = [
            source.join(&parent).with_extension("rs"),
            source.join(&parent).join("mod.rs"),
            source.join("lib.rs"),
        ];
        let declared =
            parents.iter().filter_map(|module_file| fs::read_to_string(module_file).ok()).any(|text| {
                let lines: Vec<&str> = text.lines().collect();
                lines.windows(2).any(|pair| {
                    let is_it = pair[1].ends_with(&format!("mod {name};"))
                        || pair[1].contains(&format!("{name}.rs\""));
                    is_it && pair[0].starts_with("#[cfg(")
                })
            });
        if declared {
            return true;
        }
    }
    false
}

#[test]
fn portable_crates_have_what_one_system_has_behind_a_cfg() {
    for name in PORTABLE {
        let source = root().join("crates").join(name).join("src");
        for file in rust_files(&source) {
            if is_conditional(&source, &file) {
                continue;
            }
            let text = fs::read_to_string(&file).expect("a source file");
            let mut conditional = false;
            for (number, line) in text.lines().enumerate() {
                let code = line.split("//").next().unwrap_or_default();
                conditional |= code.trim_start().starts_with("#[cfg(") && !code.contains("#[cfg(test)]");
                let foreign =
                    ["std::os::", "rustix::", "nix::", "libc::"].iter().any(|word| code.contains(word));
                assert!(!foreign || conditional, "{}:{}: {}", file.display(), number + 1, line.trim());
            }
        }
    }
}

#[test]
fn transports_never_import_each_other() {
    for (crate_name, other) in [("sctp", "anabranch_tcp"), ("tcp", "anabranch_sctp")] {
        for file in rust_files(&root().join("crates").join(crate_name)) {
            let text = fs::read_to_string(&file).expect("a source file");
            assert!(!text.contains(other), "{} names {other}", file.display());
        }
    }
}

/// Tests that `cli`, `http`, `load` and `gateway` reach every transport through the registry. A further transport then
/// needs no change in these crates. Test code may name engines.
#[test]
fn verbs_know_no_engine() {
    let imports_of = |name| imports(&root().join("crates").join(name));
    let mut engines: BTreeSet<String> =
        ["transport", "transports"].into_iter().flat_map(imports_of).collect();
    engines.retain(|name| !["base", "wire", "world", "sim", "transport"].contains(&&**name));
    assert!(["sctp", "tcp", "quic", "dtls", "tls"].iter().all(|name| engines.contains(*name)), "{engines:?}");
    // Code that calls one of these functions depends on a particular transport, which these crates must not do.
    let queries = ["is_http3(", "is_kernels(", "is_over_dtls(", "is_on_ip("];
    for name in ["cli", "http", "load", "gateway"] {
        assert!(imports_of(name).is_disjoint(&engines), "{name} imports an engine or security");
        for file in rust_files(&root().join("crates").join(name).join("src")) {
            let text = fs::read_to_string(&file).expect("a source file");
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            for (number, line) in code.lines().enumerate() {
                let line = line.split("//").next().unwrap_or_default();
                let location = format!("{}:{}: {line}", file.display(), number + 1);
                let crates = engines.iter().any(|engine| line.contains(&format!("anabranch_{engine}")));
                let binds = ["sctp", "tcp", "kernel"].iter().any(|module| {
                    let within = line.contains("anabranch_transport::{");
                    line.contains(&format!("anabranch_transport::{module}"))
                        || within && line.contains(&format!("{module}::"))
                });
                assert!(!crates && !binds, "{location}");
                assert!(!queries.iter().any(|question| line.contains(question)), "{location}");
            }
        }
    }
}

/// Only programs choose the transports. All other code takes the list as an argument.
#[test]
fn only_programs_take_the_standard_transports() {
    let programs = ["crates/cli/src/main.rs", "crates/py/src/lib.rs", "crates/web/src/lib.rs"]
        .map(|path| root().join(path));
    for file in crates().into_values().flat_map(|path| rust_files(&path.join("src"))) {
        let text = fs::read_to_string(&file).expect("a source file");
        let code = text.split("mod tests {").next().unwrap_or_default();
        let takes_standard = code.contains("Transports::standard()");
        let may = programs.contains(&file) || file.ends_with("tests.rs");
        assert!(may || !takes_standard, "{}: take the transports as an argument", file.display());
    }
}

/// A rule of this project: handlers set flags, and one module sends. Therefore only one file may begin and end SCTP
/// packets.
#[test]
fn only_outbound_builds_packets_of_sctp() {
    let source = root().join("crates/sctp/src");
    for file in rust_files(&source) {
        let path = file.strip_prefix(&source).expect("below");
        let text = fs::read_to_string(&file).expect("a source file");
        // Test code is not checked, because tests also build packets that an association never sends.
        let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
        let builds =
            ["packet::begin", "packet::finish", "crc32c::put("].iter().any(|word| code.contains(word));
        let may = path == Path::new("association/outbound/packet.rs")
            || path.starts_with("testing")
            || path.ends_with("tests.rs");
        assert!(may || !builds, "{} builds a packet", path.display());
    }
}

/// The files and folders whose code may contain the name of a transport, each with the reason. All other code in crates
/// that depend on `transport` must ask a transport for its capabilities instead.
const NAMED: &[(&str, &str)] = &[
    ("lab/src/plan/bare.rs", "the contestants of a plan that names none"),
    ("results/src/version2.rs", "the knobs of SCTP that have other names in the older format"),
    ("features/src/", "the feature table probes each engine below sessions, with mechanisms of its own"),
    ("capture/src/", "a decoder for each protocol that captures may have, and its words"),
    ("lab/src/run/ns_trace.rs", "the packet types of ns-2, which its traces name"),
    ("lab/src/run/live/kernel.rs", "the sysctls of each of the kernel's protocols"),
    ("lab/src/run/live/counters.rs", "the counters of each of the kernel's protocols"),
    ("cli/src/args", "the addresses at which servers listen that were told none"),
    ("cli/src/url.rs", "the forms of addresses, in errors"),
    ("cli/src/bulk/protocol.rs", "the forms of addresses, in errors"),
];

/// Returns whether a line of code names a transport, as a literal or as a variant of an enumeration.
fn names_a_transport(line: &str) -> bool {
    let code = line.split("// ").next().unwrap_or_default();
    // A literal names a transport if it begins with the transport's name or with its scheme. Flags such as "sctp-port"
    // do not name a transport.
    let names = ["tcp", "sctp", "quic", "mptcp", "sctp-kernel", "sctp-ip"];
    let literal =
        names.iter().any(|name| ["\"", ":"].iter().any(|end| code.contains(&format!("\"{name}{end}"))));
    let words: Vec<&str> = code.split(|c: char| !c.is_ascii_alphanumeric() && c != ':').collect();
    let case = |word: &&str| ["::Tcp", "::Sctp", "::Quic", "::Mptcp"].iter().any(|case| word.ends_with(case));
    literal || words.iter().any(case)
}

/// Tests that a further transport requires changes only in its own folder and in the list of transports.
#[test]
fn only_the_list_names_transports() {
    let mut used = BTreeSet::new();
    for name in
        ["http", "gateway", "load", "results", "capture", "features", "report", "lab", "papers", "cli"]
    {
        for file in rust_files(&root().join("crates").join(name).join("src")) {
            let path =
                file.strip_prefix(root().join("crates")).expect("below").to_string_lossy().into_owned();
            let text = fs::read_to_string(&file).expect("a source file");
            // Test code is not checked, because it may name any transport.
            let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
            let named = !path.ends_with("tests.rs") && code.lines().any(names_a_transport);
            let allowed = NAMED.iter().find(|(folder, _)| path.starts_with(folder));
            assert!(
                !named || allowed.is_some(),
                "{path} names a transport; ask its capabilities, or the list"
            );
            used.extend(allowed.filter(|_| named).map(|(folder, _)| *folder));
        }
    }
    assert!(NAMED.len() <= 10 && used.len() == NAMED.len(), "no longer needed in the list: {used:?}");
}

/// Tests that `lab` has at most six public modules, and that it does not re-export types of other crates.
#[test]
fn the_laboratory_has_at_most_six_public_modules_and_hands_nothing_on() {
    let text = fs::read_to_string(root().join("crates/lab/src/lib.rs")).expect("lib.rs");
    let public: Vec<&str> = text.lines().filter(|line| line.starts_with("pub ")).collect();
    assert!(public.iter().all(|line| line.starts_with("pub mod ")) && public.len() <= 6, "{public:?}");
    for file in rust_files(&root().join("crates/lab/src")) {
        let text = fs::read_to_string(&file).expect("a source file");
        for room in ["results", "capture", "report", "features"] {
            assert!(
                !text.contains(&format!("pub use anabranch_{room}")),
                "{} hands on {room}",
                file.display()
            );
        }
    }
}

#[test]
fn every_file_says_what_it_owns() {
    let silent = |file: &PathBuf| !fs::read_to_string(file).expect("a source file").starts_with("//!");
    let found: Vec<_> =
        crates().into_values().flat_map(|path| rust_files(&path)).filter(|file| silent(file)).collect();
    assert!(found.is_empty(), "no opening paragraph in {found:#?}");
}

/// If a crate lists its tests, the list must have each test file, because cargo silently ignores a file that is not
/// listed.
#[test]
fn every_test_file_is_part_of_a_program() {
    let test_folders = ["tests", "conformance"].map(|name| root().join(name));
    for path in crates().into_values().chain(test_folders) {
        let manifest: toml::Table =
            fs::read_to_string(path.join("Cargo.toml")).expect("a manifest").parse().expect("valid TOML");
        if manifest["package"].get("autotests").and_then(toml::Value::as_bool) != Some(false) {
            continue;
        }
        let listed: Vec<&str> = manifest["test"]
            .as_array()
            .expect("tests")
            .iter()
            .filter_map(|test| test.get("path")?.as_str())
            .collect();
        let main = fs::read_to_string(path.join("tests/main.rs")).expect("tests/main.rs");
        for entry in fs::read_dir(path.join("tests")).expect("tests/") {
            let name = entry.expect("an entry").file_name().into_string().expect("UTF-8");
            let Some(module) = name.strip_suffix(".rs") else { continue };
            let runs = listed.contains(&&*format!("tests/{name}"))
                || main.lines().any(|line| line == format!("mod {module};"));
            assert!(runs, "{}: tests/{name} is in no program", path.display());
        }
    }
}

/// The program `identical` runs a list of commands with two commits and compares the outputs. Tests that the list runs
/// every study in the folder `studies`.
#[test]
fn the_comparison_with_an_earlier_commit_runs_every_study() {
    let commands = root().join("benches/src/bin/identical/commands.txt");
    let commands = fs::read_to_string(commands).expect("the commands");
    for entry in fs::read_dir(root().join("studies")).expect("studies/") {
        let folder = entry.expect("an entry");
        let name = folder.file_name().to_string_lossy().into_owned();
        let runs = commands.lines().any(|line| line.starts_with(&format!("study run {name} --quick")));
        assert!(runs || !folder.path().is_dir(), "commands.txt does not run the study {name}");
    }
}

#[test]
fn nothing_is_left_undone_or_unsafe() {
    let left_over = [
        concat!("to", "do!("),
        concat!("unimpl", "emented!("),
        concat!("db", "g!("),
        concat!("#[ig", "nore"),
    ];
    for file in rust_files(&root().join("crates")) {
        let text = fs::read_to_string(&file).expect("a source file");
        for word in left_over {
            assert!(!text.contains(word), "{} contains {word}", file.display());
        }
        for (number, line) in text.lines().enumerate() {
            let code = line.split("//").next().unwrap_or_default();
            // Only `descriptor.rs` may have unsafe code. It gives the reason for each use.
            let excused = file.ends_with("world/src/os/descriptor.rs");
            assert!(excused || !code.contains("unsafe {"), "{}:{}: unsafe", file.display(), number + 1);
        }
    }
}
