//! Runs every command in README, in the pages of `docs/` and in the examples of help texts, without changing it.
//!
//! A block of shell in a page is one session. The commands of a block run line by line in one directory, and servers
//! run until the end of the block. The network is a separate namespace, so that the ports and addresses in the page can
//! be used. Commands that cannot be run there are listed with a reason in [`EXCEPTIONS`]. A command that is neither run
//! nor listed fails the test. A listed command that no page contains also fails the test.
#![cfg(target_os = "linux")]

use crate::running::{Running, Scratch, anabranch, errors, has, namespace, run};
use anabranch_base::testing::are_slow_tests_enabled;
use flate2::read::GzDecoder;
use std::collections::BTreeSet;
use std::fs;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

/// The action that the test performs instead of running a documented command.
enum Instead {
    /// Instead of the documented command, the test runs this command, which uses the same feature.
    Run(&'static str),
    /// The test does nothing, because CI runs the command as a separate step. The line of `.ci/run` that runs the
    /// command ends with this string.
    Step(&'static str),
    /// The test does nothing, and the command is not run anywhere.
    Nothing,
}

use Instead::{Nothing, Run, Step};

/// The documented commands that the test does not run unchanged. Each entry is the command, the action that the test
/// performs instead, and the reason.
const EXCEPTIONS: &[(&str, Instead, &str)] = &[
    ("cargo run --release -- race", Step("cargo run --release -- race"), "it builds"),
    ("cargo test --workspace", Step("cargo test --workspace"), "it is what runs this test"),
    ("cargo run -p anabranch-tokio --example multihoming", Step("\"$examples/multihoming\""), "it builds"),
    ("cargo run -p anabranch-tokio --example axum", Step("\"$examples/axum\""), "it builds"),
    ("cargo run -p anabranch-sctp --example two_endpoints", Step("\"$examples/two_endpoints\""), "it builds"),
    ("cargo run -p anabranch-tokio --example echo", Nothing, "a test of that crate runs it"),
    ("cargo build -p anabranch-tokio --example multihoming", Nothing, "it builds"),
    (
        "anabranch link --path rate=10mbit,rtt=40ms --path rate=5mbit,rtt=90ms --fail path=1,at=2s --far \
         'target/debug/examples/multihoming server' -- sh -c 'target/debug/examples/multihoming client \
         $ANABRANCH_FAR'",
        Nothing,
        "it needs the example that the line above it builds; a test of that crate runs it",
    ),
    ("cargo test -p anabranch-cli --test roaming -- --nocapture", Nothing, "it is a test itself"),
    (
        "anabranch serve site --listen https://*:8443 --cert chain.pem --key key.pem",
        Nothing,
        "it needs somebody's certificate; tests of https:// make one",
    ),
    (
        "anabranch serve site --listen https://*:8443 --listen h3://*:8443 --cert chain.pem --key key.pem",
        Nothing,
        "it needs somebody's certificate; tests of h3:// make one",
    ),
    (
        "anabranch gateway --listen https://192.0.2.1 --cert chain.pem --key key.pem --origin \
         http://127.0.0.1:8080",
        Nothing,
        "it needs somebody's certificate; tests of gateways with TLS make one",
    ),
    (
        "anabranch gateway --listen tcp://127.0.0.1:3128 --via https+sctp://192.0.2.1 --trust sha256:65a3…",
        Run("anabranch gateway --listen tcp://127.0.0.1:3128 --via https+sctp://192.0.2.1 --trust \
             sha256:65a365a365a365a365a365a365a365a365a365a365a365a365a365a365a365a3"),
        "the page abbreviates the fingerprint",
    ),
    (
        "anabranch bulk h3://192.0.2.1:4433 --for 3s --trust sha256:FINGERPRINT",
        Run("anabranch bulk h3://192.0.2.1:4433 --for 3s --insecure"),
        "the fingerprint is what the listener printed, of a key made for this run",
    ),
    (
        "anabranch study run osterdahl-2005 ha-2005 --world emulated",
        Nothing,
        "it takes minutes of real time; a test has what it says where it cannot run",
    ),
    (
        "https_proxy=http://127.0.0.1:3128 curl https://www.example.com/",
        Nothing,
        "there is no Internet; the same without TLS is run below it",
    ),
    (
        "http_proxy=http://127.0.0.1:3128 https_proxy=http://127.0.0.1:3128 curl https://www.example.com/",
        Nothing,
        "there is no Internet; the guide has the same without TLS",
    ),
    (
        "anabranch study run --all --out studies-out",
        Run("anabranch study run alternative-transport --out studies-out --quick"),
        "as typed it takes minutes",
    ),
    ("anabranch lab", Nothing, "only a program that was built with the page has it"),
    ("anabranch lab --out lab.html", Nothing, "only a program that was built with the page has it"),
    ("lab-page/build.sh", Nothing, "it builds; the second ring runs it"),
    ("cargo build --release --features lab-page", Nothing, "it builds"),
    ("anabranch race", Nothing, "a test of quotes runs it, and compares what it prints"),
    (
        "anabranch race --loss 1% --transport http2 --transport http2:cc=bbr --transport http3 --transport http3:cc=bbr \
         --transport sctp-dtls --transport sctp-dtls:cc=bbr",
        Nothing,
        "a test of quotes runs it, and compares what it prints",
    ),
    ("anabranch study run --all --quick", Nothing, "a test of studies runs it, and compares what it writes"),
    (
        "anabranch race examples/population.toml --out people",
        Run("anabranch race examples/population.toml --out people --people 4 --runs 1"),
        "as typed it takes minutes",
    ),
    (
        "python examples/population.py people",
        Nothing,
        "it needs the package of Python, whose tests sweep people",
    ),
    (
        "anabranch race examples/population.toml --people 400 --runs 6 --causes off --out assumed --population \
         world,world:loss=x0,world:loss=x10,world:queue=x0.25,world:rtt=x2,world:bytes=x0.25",
        Run(
            "anabranch race examples/population.toml --people 1 --runs 1 --causes off --out assumed --population \
             world,world:loss=x0,world:loss=x10,world:queue=x0.25,world:rtt=x2,world:bytes=x0.25",
        ),
        "as typed it takes minutes",
    ),
    (
        "anabranch race examples/population.toml --people 300 --runs 6 --causes off --out bbr --transport \
         http1=tcp:connections=6,tls=yes,priority=yes,cc=bbr --transport http2=tcp:http=2,tls=yes,cc=bbr --transport \
         http3=quic:cc=bbr --transport sctp-dtls=sctp:dtls=yes,priority=yes,cc=bbr",
        Run(
            "anabranch race examples/population.toml --people 2 --runs 1 --causes off --out bbr --transport \
             http1=tcp:connections=6,tls=yes,priority=yes,cc=bbr --transport http2=tcp:http=2,tls=yes,cc=bbr --transport \
             http3=quic:cc=bbr --transport sctp-dtls=sctp:dtls=yes,priority=yes,cc=bbr",
        ),
        "as typed it takes minutes",
    ),
    (
        "anabranch race examples/population.toml --people 300 --runs 6 --causes off --out both --transport \
         http1=tcp:connections=6,tls=yes,priority=yes --transport http3=quic --transport \
         http1-bbr=tcp:connections=6,tls=yes,priority=yes,cc=bbr --transport http3-bbr=quic:cc=bbr",
        Run(
            "anabranch race examples/population.toml --people 2 --runs 1 --causes off --out both --transport \
             http1=tcp:connections=6,tls=yes,priority=yes --transport http3=quic --transport \
             http1-bbr=tcp:connections=6,tls=yes,priority=yes,cc=bbr --transport http3-bbr=quic:cc=bbr",
        ),
        "as typed it takes minutes",
    ),
    (
        "anabranch race examples/population.toml --page news --people 300 --runs 6 --causes off --out browser \
         --transport http1,http2,http3",
        Run(
            "anabranch race examples/population.toml --page news --people 2 --runs 1 --causes off --out browser \
             --transport http1,http2,http3",
        ),
        "as typed it takes minutes",
    ),
    (
        "anabranch study run rajamani-2002",
        Run("anabranch study run rajamani-2002 --quick"),
        "as typed it takes minutes",
    ),
    (
        "anabranch race --messages 100/s --size 300B --loss 1% --transport tcp --transport sctp --transport \
         sctp:num_ostreams=1",
        Run(
            "anabranch race --messages 100/s --size 300B --loss 1% --transport tcp --transport sctp --transport \
             sctp:num_ostreams=1 --runs 10",
        ),
        "as typed it has ten times as many runs",
    ),
    (
        "anabranch race --objects 4x20kB --loss 0,1%,2% --shard 1/2 --out shard-1",
        Run("anabranch race --objects 4x20kB --loss 0,1%,2% --runs 10 --shard 1/2 --out shard-1"),
        "tests of shards have 100 runs",
    ),
    (
        "anabranch race --objects 4x20kB --loss 0,1%,2% --shard 2/2 --out shard-2",
        Run("anabranch race --objects 4x20kB --loss 0,1%,2% --runs 10 --shard 2/2 --out shard-2"),
        "tests of shards have 100 runs",
    ),
];

/// Pages of the documentation with cargo commands that run for minutes to hours. The commands run measurements in the
/// workspace `benches/`.
const MEASURING: &[&str] = &["docs/accuracy.md", "docs/performance.md"];

/// For each page that needs a running server: the page, and the command that starts the server.
const PREREQUISITES: &[(&str, &str)] = &[
    ("docs/guide/get.md", "anabranch serve site -q"),
    ("docs/guide/load.md", "anabranch serve site -q"),
    ("anabranch load --help", "anabranch serve site -q"),
    ("anabranch get --help", "anabranch serve site -q"),
];

/// The addresses of the loopback interface on which the commands run, in addition to 127.0.0.1 and ::1.
const ADDRESSES: [&str; 2] = ["192.0.2.1/32", "192.0.3.1/32"];

/// Commands that run in one session, and the page of the documentation from which they come.
struct Session {
    page: String,
    line: usize,
    commands: Vec<String>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Returns the code blocks of a Markdown page that are marked as shell (`sh`). Panics if a block with another mark or
/// none contains a command.
fn sessions(page: &str, text: &str) -> Vec<Session> {
    let mut found = Vec::new();
    let mut lines = text.lines().enumerate();
    while let Some((number, line)) = lines.next() {
        let Some(language) = line.strip_prefix("```") else { continue };
        let block: Vec<&str> =
            lines.by_ref().map(|(_, line)| line).take_while(|line| *line != "```").collect();
        let block = block.join("\n");
        if language == "sh" {
            found.push(Session { page: page.to_owned(), line: number + 1, commands: commands(&block) });
            continue;
        }
        let typed = ["anabranch ", "cargo ", "sudo "];
        let stray = block.lines().find(|line| typed.iter().any(|begin| line.starts_with(begin)));
        // A line with two adjacent spaces is a table row of a program's output, even if it begins with a program name.
        let stray = stray.filter(|line| !line.contains("  "));
        assert_eq!(stray, None, "{page}:{}: a command in a block that is not ```sh", number + 1);
    }
    found
}

/// Returns the commands of a block, each on one line and without its comment.
fn commands(block: &str) -> Vec<String> {
    let whole = block.replace("\\\n", " ");
    let plain = |line: &str| {
        let command = line.split("  #").next().unwrap_or_default();
        command.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    whole.lines().map(plain).filter(|line| !line.is_empty()).collect()
}

/// Returns the examples in a help text, which are indented by two spaces.
fn examples(verb: &str) -> Option<Session> {
    let output = anabranch().args(verb.split(' ')).arg("--help").output().expect("it runs");
    let help = String::from_utf8(output.stdout).expect("text");
    let (_, after) = help.split_once("\nExamples")?;
    let block: Vec<&str> = after
        .lines()
        .filter_map(|line| line.strip_prefix("  "))
        .filter(|line| !line.starts_with("-"))
        .collect();
    // Help texts wrap a line that is too long and continue it at the left margin. This must not happen to an example.
    for (line, next) in after.lines().zip(after.lines().skip(1)) {
        let whole = !line.starts_with("  ") || next.is_empty() || next.starts_with("  ");
        assert!(whole, "anabranch {verb} --help: '{line}' is broken");
    }
    let commands = commands(&block.join("\n"));
    for command in &commands {
        let typed = ["anabranch ", "http_proxy="].iter().any(|begin| command.starts_with(begin));
        assert!(typed, "anabranch {verb} --help: '{command}'");
    }
    Some(Session { page: format!("anabranch {verb} --help"), line: 1, commands })
}

/// Returns all commands with their subcommands.
fn verbs() -> Vec<String> {
    let mut found = Vec::new();
    let mut waiting = vec![String::new()];
    while let Some(verb) = waiting.pop() {
        let output = anabranch().args(verb.split_whitespace()).arg("--help").output().expect("it runs");
        let help = String::from_utf8(output.stdout).expect("text");
        let rows =
            help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
        let names = rows.filter_map(|row| row.strip_prefix("  ")?.split(' ').next()).map(str::to_owned);
        let names = names.filter(|name| !name.is_empty() && name != "help");
        waiting.extend(names.map(|name| format!("{verb} {name}").trim().to_owned()));
        if !verb.is_empty() {
            found.push(verb);
        }
    }
    found.sort();
    found
}

fn all_sessions() -> Vec<Session> {
    let mut pages = vec!["README.md".to_owned()];
    for folder in ["docs", "docs/guide", "docs/how-to"] {
        let entries = fs::read_dir(root().join(folder)).expect("the pages");
        let names = entries.map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned());
        pages.extend(names.filter(|name| name.ends_with(".md")).map(|name| format!("{folder}/{name}")));
    }
    pages.sort();
    let mut all = Vec::new();
    for page in pages {
        let text = fs::read_to_string(root().join(&page)).expect("a page");
        all.extend(sessions(&page, &text));
    }
    all.extend(verbs().iter().filter_map(|verb| examples(verb)));
    all
}

/// Creates a directory with the files that the documented commands use, for example a site, a packet capture and a file
/// of SCTP-AUTH keys.
fn create_site() -> Scratch {
    let scratch = Scratch::new("commands");
    scratch.file("site/index.html", "<link rel=stylesheet href=style.css><img src=a.png><img src=b.png>");
    scratch.file("site/style.css", "p { color: #123 }");
    scratch.file("site/a.png", vec![1; 40_000]);
    scratch.file("site/b.png", vec![2; 80_000]);
    scratch.file("site/big", vec![3; 2_000_000]);
    for entry in fs::read_dir(root().join("examples")).expect("examples") {
        let path = entry.expect("an entry").path();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        scratch.file(&format!("examples/{name}"), fs::read(&path).expect("a file"));
    }
    crate::study::smallest(&scratch);
    let keys = scratch.file("keys", "1 000102030405060708090a0b0c0d0e0f\n");
    let bin = scratch.file("bin/sudo", "#!/bin/sh\n# The caller is root already.\nexec \"$@\"\n");
    use std::os::unix::fs::{PermissionsExt, symlink};
    for (path, mode) in [(keys, 0o600), (bin, 0o755)] {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).expect("its mode");
    }
    symlink(env!("CARGO_BIN_EXE_anabranch"), scratch.0.join("bin/anabranch")).expect("a link");
    // A capture, made as in the guide to captures.
    let arguments =
        "race --runs 1 --objects 20x10kB --loss 2% --transport tcp --transport sctp --out result -q";
    let output = run(anabranch().args(arguments.split(' ')).current_dir(&scratch.0));
    assert!(output.status.success(), "{}", errors(&output));
    let packed = fs::read(scratch.0.join("result/sctp.seed-1.server.pcapng.gz")).expect("a capture");
    let mut capture = Vec::new();
    GzDecoder::new(packed.as_slice()).read_to_end(&mut capture).expect("unpacked");
    scratch.file("capture.pcapng.gz", packed);
    scratch.file("capture.pcapng", capture);
    for (name, text) in TRACES {
        scratch.file(name, text);
    }
    scratch
}

/// Files with the same columns as public data sets. The guide to traces shows how to convert those data sets.
const TRACES: [(&str, &str); 3] = [
    (
        "B_2019.12.16_13.40.04.csv",
        "Timestamp,DL_bitrate\n2019.12.16_13.40.04,5000\n2019.12.16_13.40.05,7000\n",
    ),
    ("mob_all_area1.csv", "throughput\n90\n80\n"),
    ("throughput.csv", "download,upload\n90,9\n80,8\n"),
];

/// Returns a command that runs `arguments` in `directory`, with the `bin` folder of `directory` first in `PATH`.
fn shell(directory: &Path, arguments: &[&str]) -> Command {
    let path = std::env::var("PATH").unwrap_or_default();
    let mut command = Command::new(arguments[0]);
    command.args(&arguments[1..]).current_dir(directory).stdin(Stdio::null());
    command.env("PATH", format!("{}:{path}:/usr/sbin:/sbin", directory.join("bin").display()));
    command
}

/// Returns whether the command is a server, which the test must stop.
fn is_server(command: &str) -> bool {
    let server = ["anabranch serve ", "anabranch gateway "].iter().any(|begin| command.starts_with(begin))
        || command.starts_with("anabranch bulk --listen");
    server && !command.contains("--dry-run")
}

/// Starts a server. If its port is in use, first ends the servers in `before`, because one of them may have the port.
fn start(directory: &Path, command: &str, before: &mut Vec<Running>) -> Result<Running, String> {
    let command = command.trim_end_matches('&').trim();
    let tried = run(&mut shell(directory, &["bash", "-c", &format!("{command} --dry-run")]));
    if !tried.status.success() {
        return Err(errors(&tried));
    }
    loop {
        let arguments = ["bash", "-c", &format!("exec {command}")];
        match Running::try_start(shell(directory, &arguments), Stdio::null()) {
            Ok(server) => return Ok(server),
            Err(line) if !line.contains("in use") || before.is_empty() => return Err(line),
            Err(_) => {
                for server in before.drain(..) {
                    server.end();
                }
            }
        }
    }
}

/// Whether the command prints the same text every time, regardless of earlier commands, and leaves no files.
fn is_repeatable(command: &str) -> bool {
    let deterministic =
        ["anabranch race ", "anabranch study run "].iter().any(|begin| command.starts_with(begin));
    let writes = ["--out", "--resume", "-o ", ">", "|", "emulated"].iter().any(|word| command.contains(word));
    deterministic && !writes
}

/// The state of the test: used exceptions, repeatable commands that have run, and errors.
#[derive(Default)]
struct Met {
    /// The entries of [`EXCEPTIONS`] that were used.
    exceptions: BTreeSet<&'static str>,
    /// Repeatable commands that have run already.
    repeatable: BTreeSet<String>,
    wrong: Vec<String>,
}

/// Runs the commands of a page one after the other.
fn perform(directory: &Path, session: &Session, Met { exceptions: met, repeatable, wrong }: &mut Met) {
    let mut servers: Vec<Running> = Vec::new();
    let prerequisites = PREREQUISITES.iter().filter(|(page, _)| *page == session.page);
    for (_, command) in prerequisites {
        servers.push(start(directory, command, &mut Vec::new()).expect(command));
    }
    for command in &session.commands {
        let at = format!("{}:{}: {command}", session.page, session.line);
        let exception = EXCEPTIONS.iter().find(|(typed, ..)| typed == command);
        let command = match exception {
            None if command.starts_with("cargo ") && MEASURING.contains(&session.page.as_str()) => continue,
            Some((typed, instead, _)) => {
                met.insert(typed);
                match instead {
                    Run(other) => other,
                    Step(_) | Nothing => continue,
                }
            }
            None => command.as_str(),
        };
        if is_repeatable(command) && !repeatable.insert(command.to_owned()) {
            continue;
        }
        println!("{at}");
        if is_server(command) {
            match start(directory, command, &mut servers) {
                Ok(server) => servers.push(server),
                Err(line) => wrong.push(format!("{at}\n  {line}")),
            }
            continue;
        }
        if command.starts_with("tshark ") && !has("tshark") || command.contains("curl ") && !has("curl") {
            continue;
        }
        // A command that takes longer than ten minutes counts as hung.
        let script = format!("set -e -o pipefail; {command}");
        let output = run(&mut shell(directory, &["timeout", "--kill-after=5", "600", "bash", "-c", &script]));
        if !output.status.success() {
            let stdout = String::from_utf8_lossy(&output.stdout);
            let last = stdout.lines().last().unwrap_or_default();
            wrong.push(format!("{at}\n  {}: {last} {}", output.status, errors(&output)));
        }
    }
    for server in servers {
        let (code, lines) = server.end_with_lines();
        if code != 0 {
            wrong.push(format!("{}:{}: a server ended with {code}: {lines:?}", session.page, session.line));
        }
    }
}

#[test]
fn every_command_of_the_pages_and_of_help_runs_as_typed() {
    let sessions = joined(all_sessions());
    let count: usize = sessions.iter().map(|session| session.commands.len()).sum();
    assert!(count > 80, "the pages have lost their commands: {count}");
    let ci = fs::read_to_string(root().join(".ci/run")).expect(".ci/run");
    let ci: Vec<String> =
        ci.lines().map(|line| line.replace(" --locked", "").replace(" --quiet", "")).collect();
    for (command, instead, _) in EXCEPTIONS {
        let Step(step) = instead else { continue };
        assert!(
            ci.iter().any(|line| line.ends_with(step)),
            "no line of .ci/run ends with '{step}', for '{command}'"
        );
    }
    if !are_slow_tests_enabled() {
        return;
    }
    let Some(network) = namespace(&ADDRESSES) else { return };
    let ended = network.run(|| {
        let mut met = Met::default();
        for session in &sessions {
            let scratch = create_site();
            perform(&scratch.0, session, &mut met);
        }
        met
    });
    let Met { exceptions: met, wrong, .. } = ended.expect("inside");
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let stale: Vec<&str> =
        EXCEPTIONS.iter().map(|(typed, ..)| *typed).filter(|typed| !met.contains(typed)).collect();
    assert!(stale.is_empty(), "no page has these any more: {stale:?}");
}

/// Changes each command that contains `$ANABRANCH_FAR`, so that it runs behind an emulated link. `link .. -- bash`
/// creates this link earlier on the same page of the documentation. The command becomes the standard input of that
/// shell.
fn joined(sessions: Vec<Session>) -> Vec<Session> {
    let mut link = None;
    let mut all = Vec::new();
    for mut session in sessions {
        for command in &mut session.commands {
            if command.starts_with("anabranch link") || command.starts_with("sudo anabranch link") {
                link = command.ends_with("-- bash").then(|| (session.page.clone(), command.clone()));
            } else if command.contains("$ANABRANCH_FAR") {
                let (_, link) = link.iter().find(|(page, _)| *page == session.page).expect("a link above it");
                // The shell waits for a second, so that the server at the far end of the link can start. A person who
                // types the command gives the server at least as much time.
                *command = format!("printf '%s\\n' 'sleep 1' '{command}' | {link}");
            }
        }
        all.push(session);
    }
    all
}

#[test]
fn commands_are_found_where_they_stand() {
    let page =
        "a\n```sh\nanabranch race \\\n    --runs 1      # few\n\nls\n```\n\n```\nanabranch  1  2\n```\n";
    let found = sessions("page", page);
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].line, found[0].commands.clone()),
        (2, vec!["anabranch race --runs 1".to_owned(), "ls".to_owned()])
    );
    assert!(is_server("anabranch serve site") && !is_server("anabranch serve site --dry-run"));
    let stray = std::panic::catch_unwind(|| sessions("page", "```\nanabranch race\n```\n"));
    assert!(stray.is_err(), "a command that would not be run");
}
